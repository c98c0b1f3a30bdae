//! Random numbers by position, and Zipf's distribution built on them.
//!
//! Contract: a number is a pure function of seed, stream and index, so any division into blocks and
//! threads gives the same values. Nothing depends on the platform's mathematics library. The
//! generator is splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
//! OOPSLA 2014), whose counter form allows reads at any position.
//!
//! [`Zipf`] is exact up to the rounding of doubles. The ranks are cut into segments so short that
//! the density hardly falls inside one. A segment is drawn by Walker's alias method (1977) with the
//! weight of its densest rank. Then a rank of the segment is drawn uniformly. It is kept with a
//! probability equal to the ratio of its density to that weight. At least `1 - s/32` of the draws
//! are kept, so the cost is O(1). Memory: about 24 bytes for each of 45 segments per octave of
//! ranks.

use outcore::{Error, Result};

/// The increment of splitmix64.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finalizer of splitmix64, a bijection.
#[inline(always)]
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// An endless sequence of random words with random access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    start: u64,
}

impl Stream {
    /// Stream number `stream` of `seed`.
    pub(crate) const fn new(seed: u64, stream: u64) -> Self {
        let start = mix(mix(seed.wrapping_add(GAMMA)) ^ mix(stream.wrapping_mul(GAMMA)));
        Stream { start }
    }

    /// Word `index`.
    #[inline(always)]
    pub(crate) const fn word(self, index: u64) -> u64 {
        mix(self.start.wrapping_add(index.wrapping_mul(GAMMA)))
    }

    /// The random words for the element `index`, as many as it needs.
    #[inline(always)]
    pub(crate) const fn draws(self, index: u64) -> Draws {
        Draws {
            state: self.word(index),
        }
    }
}

/// The random words of one element.
#[derive(Debug, Clone)]
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    /// The next word.
    #[inline(always)]
    pub(crate) fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    #[inline(always)]
    pub(crate) fn real(&mut self) -> f64 {
        (self.word() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in [0, bound), without bias; 0 for a bound of 0. Source: Lemire, "Fast random
    /// integer generation in an interval", TOMACS 2019.
    #[inline(always)]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.word()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.word()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

/// A finite double. All are equally likely, except for those that replace infinities and NaNs.
#[inline(always)]
pub(crate) fn finite_f64(word: u64) -> u64 {
    const EXPONENT: u64 = 0x7FF << 52;
    if word & EXPONENT == EXPONENT {
        word ^ (1 << 52)
    } else {
        word
    }
}

/// A finite number of single precision, from the high half of the word.
#[inline(always)]
pub(crate) fn finite_f32(word: u64) -> u64 {
    const EXPONENT: u64 = 0xFF << 23;
    let bits = word >> 32;
    if bits & EXPONENT == EXPONENT {
        bits ^ (1 << 23)
    } else {
        bits
    }
}

/// A finite number of half precision, from the high quarter of the word.
#[inline(always)]
pub(crate) fn finite_f16(word: u64) -> u64 {
    const EXPONENT: u64 = 0x1F << 10;
    let bits = word >> 48;
    if bits & EXPONENT == EXPONENT {
        bits ^ (1 << 10)
    } else {
        bits
    }
}

/// Each rank up to this has its own segment.
const SINGLE_RANKS: u64 = 64;

/// The length of a further segment is its first rank divided by this.
const SEGMENT_PART: u64 = 32;

/// Neighbouring ranks with nearly the same density.
#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    rank_count: u64,
    /// Keep this segment if the draw is below this; otherwise take `other`.
    threshold: u64,
    other: usize,
}

/// Ranks 1..=n, rank k with a probability proportional to k^-s.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    exponent: f64,
    segments: Vec<Segment>,
}

impl Zipf {
    /// Ranks 1 to `rank_max` with this exponent.
    ///
    /// Errors (usage): no ranks; an exponent that is negative, above 16 or not a number.
    pub(crate) fn new(exponent: f64, rank_max: u64) -> Result<Self> {
        if !(0.0..=16.0).contains(&exponent) || rank_max == 0 {
            let cause = format!("exponent {exponent} over {rank_max} ranks");
            return Err(Error::usage("read Zipf distribution", cause).hint(
                "exponents from 0 to 16 over at least one rank are possible, as in zipf:1.2",
            ));
        }
        let mut segments = Vec::new();
        let mut first = 1;
        loop {
            let wanted = if first <= SINGLE_RANKS {
                1
            } else {
                first / SEGMENT_PART
            };
            let rank_count = wanted.min(rank_max - first + 1);
            segments.push(Segment {
                first,
                rank_count,
                threshold: u64::MAX,
                other: 0,
            });
            match first.checked_add(rank_count) {
                Some(next) if next <= rank_max => first = next,
                _ => break,
            }
        }
        let weights: Vec<f64> = segments
            .iter()
            .map(|segment| libm::pow(segment.first as f64, -exponent) * segment.rank_count as f64)
            .collect();
        fill_alias_table(&mut segments, &weights);
        Ok(Zipf { exponent, segments })
    }

    /// A random rank.
    #[inline]
    pub(crate) fn rank(&self, draws: &mut Draws) -> u64 {
        loop {
            let product = u128::from(draws.word()) * self.segments.len() as u128;
            let mut segment = self.segments[(product >> 64) as usize];
            if product as u64 >= segment.threshold {
                segment = self.segments[segment.other];
            }
            if segment.rank_count == 1 {
                return segment.first;
            }
            let offset = draws.below(segment.rank_count);
            let excess = offset as f64 / segment.first as f64;
            let draw = draws.real();
            // (1 + x)^-s is convex, so its tangent nearly always decides.
            let is_kept = draw < 1.0 - self.exponent * excess
                || draw < libm::exp(-self.exponent * libm::log1p(excess));
            if is_kept {
                return segment.first + offset;
            }
        }
    }
}

/// Walker's table in Vose's linear time: columns of equal height, each with at most two segments.
fn fill_alias_table(segments: &mut [Segment], weights: &[f64]) {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut heights: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..heights.len()).partition(|index| heights[*index] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        segments[low].threshold = (heights[low] * 2_f64.powi(64)) as u64;
        segments[low].other = high;
        heights[high] -= 1.0 - heights[low];
        if heights[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    // The remaining columns have height 1 up to rounding, so they are always kept.
    for index in small.into_iter().chain(large) {
        segments[index].other = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_depends_on_seed_stream_and_index() {
        let words: Vec<u64> = [
            (1, 0, 0),
            (2, 0, 0),
            (1, 1, 0),
            (1, 0, 1),
            (0, 0, 0),
            (0, 1, 0),
        ]
        .map(|(seed, stream, index)| Stream::new(seed, stream).word(index))
        .to_vec();
        let mut distinct = words.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), words.len());
    }

    #[test]
    fn bounded_draws_are_even() {
        let stream = Stream::new(5, 0);
        let mut counts = [0_u32; 7];
        for index in 0..70_000 {
            counts[stream.draws(index).below(7) as usize] += 1;
        }
        // Standard deviation 92.
        assert!(
            counts.iter().all(|count| count.abs_diff(10_000) < 500),
            "{counts:?}"
        );
        assert_eq!(stream.draws(0).below(1), 0);
        assert_eq!(stream.draws(0).below(0), 0);
    }

    /// Pearson's statistic of observed ranks against the exact probabilities.
    fn deviation(exponent: f64, rank_max: u64, samples: u64) -> f64 {
        let zipf = Zipf::new(exponent, rank_max).unwrap();
        let stream = Stream::new(11, 3);
        let mut counts = vec![0_u64; rank_max as usize];
        for index in 0..samples {
            counts[zipf.rank(&mut stream.draws(index)) as usize - 1] += 1;
        }
        let density = |rank: u64| (rank as f64).powf(-exponent);
        let total: f64 = (1..=rank_max).map(density).sum();
        let terms = counts.iter().zip(1..).map(|(count, rank)| {
            let wanted = samples as f64 * density(rank) / total;
            (*count as f64 - wanted).powi(2) / wanted
        });
        terms.sum::<f64>() / rank_max as f64
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        for exponent in [0.0, 0.6, 1.0, 1.2, 1.5, 3.0] {
            for rank_max in [1, 2, 65, 300] {
                // The mean is 1, with a standard deviation of sqrt(2 / ranks).
                let deviation = deviation(exponent, rank_max, 400_000);
                assert!(
                    deviation < 1.0 + 5.0 * (2.0 / rank_max as f64).sqrt(),
                    "{exponent} {rank_max}"
                );
            }
        }
    }

    #[test]
    fn the_largest_range_and_impossible_exponents_are_handled() {
        let zipf = Zipf::new(0.0, u64::MAX).unwrap();
        let stream = Stream::new(1, 1);
        let mean = (0..10_000)
            .map(|index| zipf.rank(&mut stream.draws(index)) as f64 / u64::MAX as f64)
            .sum::<f64>()
            / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        for (exponent, rank_max) in [(f64::NAN, 1), (-1.0, 1), (17.0, 1), (1.0, 0)] {
            assert!(Zipf::new(exponent, rank_max).is_err());
        }
    }
}
