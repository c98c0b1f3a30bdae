//! Hashes of texts that are equal if the texts are similar.
//!
//! Contract: [`MinHash::bands`] computes several numbers from a text. Two texts share one of them
//! with probability 1 - (1 - j^r)^b, for b bands of r hashes. This probability rises steeply where
//! j passes the threshold. j is the Jaccard similarity: the share of the shingles of both texts
//! that occur in both. A shingle is a number of consecutive words or characters. A shorter text is
//! one shingle; a text without words has no bands. Words are runs of letters and digits, in lower
//! case; characters are those of the words, with one blank between words. The numbers depend only
//! on the text, the options and the seed.
//!
//! A 32-bit hash of each shingle goes through a set of permutations x -> ax + b modulo 2^32, a odd,
//! one per hash. The least value of each permutation is kept (Broder, "On the resemblance and
//! containment of documents", 1997; bands: Leskovec, Rajaraman, Ullman, "Mining of Massive
//! Datasets", section 3.4). b and r minimise the area of mistakes, with equal weight for false and
//! missed matches (Zhu, Nargesian, Pu, Miller, "LSH Ensemble", VLDB 2016, section 5.5).
//!
//! Bounds: one multiplication per shingle and hash, [`LANES`] at once in registers.

use outcore_io::{Error, Result};
use twox_hash::XxHash3_64;

use super::DEDUP;

/// Permutations whose minima are kept in registers.
const LANES: usize = 32;
/// The most hashes; more would hardly improve the result.
const HASHES_MAX: usize = 4096;
/// Steps in which areas are added up.
const AREA_STEPS: usize = 1000;

/// The units into which a text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shingles {
    /// Shingles of this many words.
    Words(usize),
    /// Shingles of this many characters.
    Chars(usize),
}

impl Shingles {
    /// Reads `words:5` or `chars:20`.
    ///
    /// # Errors
    /// Usage: any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::usage(DEDUP, format!("`{text}` is not a shingle length"))
                .hint("write words:5 or chars:20")
        };
        let (what, count) = text.split_once(':').ok_or_else(wrong)?;
        let count = count.parse().ok().filter(|count| (1..=256).contains(count));
        match (what, count) {
            ("words", Some(count)) => Ok(Shingles::Words(count)),
            ("chars", Some(count)) => Ok(Shingles::Chars(count)),
            _ => Err(wrong()),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct MinHash {
    shingles: Shingles,
    bands_count: usize,
    /// Hashes per band.
    rows_count: usize,
    multipliers: Vec<u32>,
    addends: Vec<u32>,
    seed: u64,
}

/// Memory that is reused from text to text.
#[derive(Debug, Default)]
pub(super) struct Space {
    text: String,
    /// Hashes of its words or characters.
    units: Vec<u64>,
    shingles: Vec<u32>,
    least: Vec<u32>,
}

impl MinHash {
    /// Creates hashes for a similarity threshold, with at most this many hashes.
    ///
    /// # Errors
    /// Usage: a similarity that is not between 0 and 1, no hashes, or too many.
    pub(super) fn new(
        shingles: Shingles,
        jaccard: f64,
        hashes_count: usize,
        seed: u64,
    ) -> Result<Self> {
        if !(jaccard > 0.0 && jaccard <= 1.0) {
            return Err(
                Error::usage(DEDUP, format!("{jaccard} is not a similarity"))
                    .hint("give a number above 0 and up to 1, for example 0.8"),
            );
        }
        if !(1..=HASHES_MAX).contains(&hashes_count) {
            let cause = format!("{hashes_count} is not a valid number of hashes");
            let hint = format!("give 1 to {HASHES_MAX}, for example 128");
            return Err(Error::usage(DEDUP, cause).hint(hint));
        }
        let (bands_count, rows_count) = bands_for(jaccard, hashes_count);
        // Whole registers; hashes after the last band are ignored.
        let padded = (bands_count * rows_count).next_multiple_of(LANES);
        let draw = |place: usize, what: u64| {
            XxHash3_64::oneshot_with_seed(seed ^ what, &(place as u64).to_le_bytes()) as u32
        };
        Ok(MinHash {
            shingles,
            bands_count,
            rows_count,
            multipliers: (0..padded).map(|place| draw(place, 1) | 1).collect(),
            addends: (0..padded).map(|place| draw(place, 2)).collect(),
            seed,
        })
    }

    /// The number of bands, and of hashes per band.
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.bands_count, self.rows_count)
    }

    /// Passes the bands of a text to `take`; a text without words has none.
    pub(super) fn bands(&self, text: &str, space: &mut Space, mut take: impl FnMut(u64)) {
        self.cut(text, space);
        if space.shingles.is_empty() {
            return;
        }
        space.least.clear();
        space.least.resize(self.multipliers.len(), u32::MAX);
        pulp::Arch::new().dispatch(Minima {
            shingles: &space.shingles,
            multipliers: &self.multipliers,
            addends: &self.addends,
            least: &mut space.least,
        });
        let mut bytes = Vec::with_capacity(self.rows_count * size_of::<u32>());
        let bands = space.least.chunks_exact(self.rows_count);
        for (number, band) in bands.take(self.bands_count).enumerate() {
            bytes.clear();
            bytes.extend(band.iter().flat_map(|least| least.to_le_bytes()));
            // Each band has its own seed, so only values of the same band are equal.
            let seed = self.seed.wrapping_add(number as u64);
            take(XxHash3_64::oneshot_with_seed(seed, &bytes));
        }
    }

    /// Computes the shingles of a text.
    fn cut(&self, text: &str, space: &mut Space) {
        space.units.clear();
        space.shingles.clear();
        let count = match self.shingles {
            Shingles::Words(count) => {
                each_word(text, &mut space.text, |word| {
                    space.units.push(XxHash3_64::oneshot(word.as_bytes()));
                });
                count
            }
            Shingles::Chars(count) => {
                each_word(text, &mut space.text, |word| {
                    if !space.units.is_empty() {
                        space.units.push(mixed(u64::from(b' ')));
                    }
                    let units = word.chars().map(|unit| mixed(u64::from(u32::from(unit))));
                    space.units.extend(units);
                });
                count
            }
        };
        let units = &space.units;
        if units.is_empty() {
            return;
        }
        let shingle = |units: &[u64]| {
            let folded = units.iter().fold(0_u64, |all, unit| mixed(all ^ unit));
            (folded >> 32) as u32
        };
        let windows = units.windows(count.min(units.len())).map(shingle);
        space.shingles.extend(windows);
    }
}

/// Mixes a number so that every bit depends on all of its bits (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Passes the words of a text in lower case to `take`; `space` is a buffer for them.
fn each_word(text: &str, space: &mut String, take: impl FnMut(&str)) {
    space.clear();
    if text.is_ascii() {
        space.push_str(text);
        space.make_ascii_lowercase();
    } else {
        space.extend(text.chars().flat_map(char::to_lowercase));
    }
    let words = space.split(|unit: char| !unit.is_alphanumeric());
    words.filter(|word| !word.is_empty()).for_each(take);
}

/// The least value of each permutation over all shingles.
struct Minima<'m> {
    shingles: &'m [u32],
    multipliers: &'m [u32],
    addends: &'m [u32],
    least: &'m mut [u32],
}

impl pulp::NullaryFnOnce for Minima<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let permutations = self
            .multipliers
            .chunks_exact(LANES)
            .zip(self.addends.chunks_exact(LANES));
        for ((multipliers, addends), out) in permutations.zip(self.least.chunks_exact_mut(LANES)) {
            let mut least = [u32::MAX; LANES];
            for &shingle in self.shingles {
                for lane in 0..LANES {
                    let permuted = multipliers[lane]
                        .wrapping_mul(shingle)
                        .wrapping_add(addends[lane]);
                    least[lane] = least[lane].min(permuted);
                }
            }
            out.copy_from_slice(&least);
        }
    }
}

/// Chooses the numbers of bands and of hashes per band with the fewest mistakes.
fn bands_for(jaccard: f64, hashes_count: usize) -> (usize, usize) {
    let mut best = (f64::INFINITY, (1, 1));
    for bands in 1..=hashes_count {
        for rows in 1..=hashes_count / bands {
            let mistakes = mistakes(jaccard, bands, rows);
            if mistakes < best.0 {
                best = (mistakes, (bands, rows));
            }
        }
    }
    best.1
}

/// The area below the curve before the threshold, plus the area above the curve after it.
fn mistakes(jaccard: f64, bands: usize, rows: usize) -> f64 {
    let step = 1.0 / AREA_STEPS as f64;
    let found = |similarity: f64| 1.0 - (1.0 - similarity.powi(rows as i32)).powi(bands as i32);
    let areas = (0..AREA_STEPS).map(|place| {
        let similarity = (place as f64 + 0.5) * step;
        match similarity < jaccard {
            true => found(similarity),
            false => 1.0 - found(similarity),
        }
    });
    areas.sum::<f64>() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bands(hash: &MinHash, text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        hash.bands(text, &mut Space::default(), |band| found.push(band));
        found
    }

    #[test]
    fn bands_are_those_that_the_source_of_the_areas_has() {
        // The values that datasketch 1.6 chooses.
        assert_eq!(bands_for(0.8, 128), (9, 13));
        assert_eq!(bands_for(0.5, 128), (25, 5));
        assert_eq!(bands_for(0.9, 256), (9, 28));
    }

    #[test]
    fn case_and_punctuation_make_no_difference_and_short_texts_are_compared_as_a_whole() {
        let hash = MinHash::new(Shingles::Words(3), 0.8, 128, 1).unwrap();
        let one = bands(&hash, "The quick, brown fox -- jumps!");
        assert_eq!(one.len(), hash.shape().0);
        assert_eq!(one, bands(&hash, "the QUICK brown\nfox jumps"));
        assert_ne!(one, bands(&hash, "the quick brown fox jumped"));
        assert_eq!(bands(&hash, "Straße"), bands(&hash, "straße?"));
        assert_ne!(bands(&hash, "a"), bands(&hash, "b"));
        assert!(bands(&hash, " ?! ").is_empty() && bands(&hash, "").is_empty());
    }

    #[test]
    fn the_share_of_equal_minima_is_the_similarity() {
        // With one hash per band, the share of equal bands is the similarity of the texts.
        let mut hash = MinHash::new(Shingles::Words(1), 0.8, 128, 7).unwrap();
        let count = 1024;
        let draw = |place: usize, what: u64| mixed(mixed(place as u64) ^ what) as u32;
        (hash.bands_count, hash.rows_count) = (count, 1);
        hash.multipliers = (0..count).map(|place| draw(place, 3) | 1).collect();
        hash.addends = (0..count).map(|place| draw(place, 4)).collect();
        for shared in [20, 60, 95] {
            let text = |own: &str| {
                let words = (0..100).map(|word| match word < shared {
                    true => format!("both{word}"),
                    false => format!("{own}{word}"),
                });
                words.collect::<Vec<_>>().join(" ")
            };
            let (one, other) = (bands(&hash, &text("a")), bands(&hash, &text("b")));
            let equal = one.iter().zip(&other).filter(|(one, other)| one == other);
            let found = equal.count() as f64 / count as f64;
            let similarity = f64::from(shared) / f64::from(200 - shared);
            assert!(
                (found - similarity).abs() < 0.06,
                "{found} for {similarity}"
            );
        }
    }

    #[test]
    fn what_cannot_be_made_is_said() {
        for (jaccard, hashes) in [
            (0.0, 128),
            (1.1, 128),
            (f64::NAN, 128),
            (0.8, 0),
            (0.8, 1 << 20),
        ] {
            assert!(MinHash::new(Shingles::Words(5), jaccard, hashes, 1).is_err());
        }
        assert_eq!(Shingles::parse("chars:20").unwrap(), Shingles::Chars(20));
        for wrong in ["words", "words:0", "words:x", "bytes:3", ""] {
            assert!(Shingles::parse(wrong).is_err(), "{wrong}");
        }
    }
}
