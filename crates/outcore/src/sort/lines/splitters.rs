//! The route of a sort of lines: splitters of any length, mostly compared by eight bytes.
//!
//! Model: PALID (SPAA 2025), section 4, with strings as splitters. The tree of super scalar sample
//! sort (Sanders and Winkel 2004) classifies by the first word in which the sampled keys differ. A
//! binary search follows among the few splitters that share the key's word. Bingmann and Sanders
//! ("Parallel String Sample Sort", 2013) do the same word by word.
//!
//! Contract: with splitters s_0 < s_1 < ... the buckets are, in order: up to s_0, (equal to s_0,)
//! between s_0 and s_1, ... A splitter that is frequent in the sample is *heavy* and has a bucket
//! of its own, in which all keys are equal. The sample only determines how even the buckets are.

use super::refs::{AnyTie, Ref, sort_refs, word_in, word_of};
use crate::key::sort_key::compare;
use crate::partition::classify::Classifier;
use crate::partition::route::{Batch, Route};
use outcore_io::Result;

/// Sampled keys: strings in an area.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) area: Vec<u8>,
    pub(super) refs: Vec<Ref>,
}

impl Keys {
    /// All keys.
    pub(super) fn each(&self) -> impl Iterator<Item = &[u8]> {
        self.refs.iter().map(|r| r.bytes(&self.area))
    }

    /// Records the bytes appended to the area since `at` as a key.
    pub(super) fn note(&mut self, at: usize) {
        self.refs.push(Ref::to(at, self.area.len()));
    }

    /// Sorts the keys.
    pub(super) fn sort(&mut self) {
        sort_refs(&self.area, &mut self.refs, 0, &AnyTie);
    }

    fn key(&self, index: usize) -> &[u8] {
        self.refs[index].bytes(&self.area)
    }
}

/// Splitters prepared for classification.
#[derive(Debug)]
pub(super) struct LineSplitters {
    splitters: Vec<Box<[u8]>>,
    /// The common prefix of all splitters.
    prefix: Box<[u8]>,
    /// A classifier on the splitters' words after the prefix, each with a bucket of its own.
    words: Classifier<u64>,
    /// For each bucket of the words: the range of splitters to compare with.
    candidates: Vec<(u16, u16)>,
    /// For each splitter, and for the end: the bucket of the keys below, and that of equal keys.
    buckets: Vec<[u16; 2]>,
    /// For each bucket: the heavy splitter that its keys are equal to.
    equal: Vec<Option<u16>>,
}

/// How splitters are selected.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitterSize {
    /// Number of buckets wanted for different keys.
    pub(super) ranges: usize,
    /// Largest number of buckets, including those of heavy splitters.
    pub(super) buckets_max: usize,
    /// The part of a range's share of the sample that makes a key heavy.
    pub(super) heavy_share: f64,
}

impl LineSplitters {
    /// Selects splitters from sorted sampled keys.
    pub(super) fn choose(sample: &Keys, size: SplitterSize) -> Self {
        let mut ranges = size.ranges.max(1);
        loop {
            let (splitters, heavy) = choose_splitters(sample, ranges, size.heavy_share);
            let count = splitters.len() + 1 + heavy.iter().filter(|&&is_heavy| is_heavy).count();
            if count <= size.buckets_max.max(2) || ranges == 1 {
                return Self::from_splitters(splitters, &heavy);
            }
            ranges = (ranges / 2).max(1);
        }
    }

    /// Builds the search for strictly ascending `splitters`.
    fn from_splitters(splitters: Vec<Box<[u8]>>, heavy: &[bool]) -> Self {
        let prefix: Box<[u8]> = match (splitters.first(), splitters.last()) {
            (Some(first), Some(last)) => first[..common(first, last)].into(),
            _ => Box::default(),
        };
        let depth = prefix.len();
        let mut words: Vec<u64> = Vec::with_capacity(splitters.len());
        let mut candidates = Vec::with_capacity(2 * splitters.len() + 1);
        for (index, splitter) in splitters.iter().enumerate() {
            let word = word_of(splitter, depth);
            let index = index as u16;
            if words.last() != Some(&word) {
                words.push(word);
                candidates.extend([(index, index), (index, index)]);
            }
            if let Some(last) = candidates.last_mut() {
                last.1 = index + 1;
            }
        }
        let end = splitters.len() as u16;
        candidates.push((end, end));
        let every = vec![true; words.len()];
        let mut buckets = Vec::with_capacity(splitters.len() + 1);
        let mut equal = Vec::new();
        for (index, &is_heavy) in heavy.iter().enumerate() {
            let below = equal.len() as u16;
            equal.push(None);
            if is_heavy {
                equal.push(Some(index as u16));
            }
            buckets.push([below, below + u16::from(is_heavy)]);
        }
        let last = equal.len() as u16;
        equal.push(None);
        buckets.push([last, last]);
        LineSplitters {
            splitters,
            prefix,
            words: Classifier::from_splitters(words, &every),
            candidates,
            buckets,
            equal,
        }
    }

    /// Number of buckets, equality buckets included.
    pub(super) fn bucket_count(&self) -> usize {
        self.equal.len()
    }

    /// The one key of an equality bucket.
    pub(super) fn equal_key(&self, bucket: usize) -> Option<&[u8]> {
        let index = self.equal[bucket]?;
        Some(&self.splitters[usize::from(index)])
    }

    /// Number of leading bytes in which all keys of a bucket agree, as far as the splitters show.
    pub(super) fn depth_of(&self, bucket: usize) -> usize {
        let bucket = bucket as u16;
        let position = self.buckets.partition_point(|pair| pair[1] < bucket);
        // N.B. nothing is known about the common bytes of keys after all splitters.
        match (position.checked_sub(1), self.splitters.get(position)) {
            (Some(before), Some(upper)) => common(&self.splitters[before], upper),
            _ => 0,
        }
    }

    /// Writes the bucket of `keys[i]` in `area` to `buckets[i]`.
    pub(super) fn classify(
        &self,
        area: &[u8],
        keys: &[Ref],
        words: &mut Vec<u64>,
        buckets: &mut [u16],
    ) {
        let depth = self.prefix.len();
        words.clear();
        words.extend(keys.iter().map(|key| word_in(area, key, depth)));
        self.words.classify(words, buckets);
        for (key, bucket) in keys.iter().zip(buckets) {
            let (from, to) = self.candidates[usize::from(*bucket)];
            let is_elsewhere = depth > 0 && !key.bytes(area).starts_with(&self.prefix);
            *bucket = if from == to && !is_elsewhere {
                self.buckets[usize::from(from)][0]
            } else {
                let (from, to) = match is_elsewhere {
                    true => (0, self.splitters.len()),
                    false => (usize::from(from), usize::from(to)),
                };
                self.search(key.bytes(area), from, to)
            };
        }
    }

    /// The bucket of a key between splitters `from` and `to`.
    fn search(&self, key: &[u8], from: usize, to: usize) -> u16 {
        let candidates = &self.splitters[from..to];
        let below = candidates.partition_point(|splitter| compare(splitter, key).is_lt());
        let position = from + below;
        let splitter = self.splitters.get(position);
        let is_equal = splitter.is_some_and(|splitter| compare(splitter, key).is_eq());
        self.buckets[position][usize::from(is_equal)]
    }
}

/// One thread's route from keys to the buckets of splitters.
pub(super) struct LineRoute<'a> {
    splitters: &'a LineSplitters,
    words: Vec<u64>,
}

impl<'a> LineRoute<'a> {
    pub(super) fn new(splitters: &'a LineSplitters) -> Self {
        LineRoute {
            splitters,
            words: Vec::new(),
        }
    }
}

impl Route for LineRoute<'_> {
    fn bucket_count(&self) -> usize {
        self.splitters.bucket_count()
    }

    fn route(&mut self, batch: &Batch<'_>, buckets: &mut [u16]) -> Result<()> {
        self.splitters
            .classify(batch.area, batch.keys, &mut self.words, buckets);
        Ok(())
    }
}

/// Number of leading bytes in which two strings agree.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Up to `ranges - 1` keys, evenly by rank, and whether each fills `heavy_share` of a range.
fn choose_splitters(sample: &Keys, ranges: usize, heavy_share: f64) -> (Vec<Box<[u8]>>, Vec<bool>) {
    let mut splitters: Vec<Box<[u8]>> = Vec::with_capacity(ranges);
    let mut heavy = Vec::with_capacity(ranges);
    let count = sample.refs.len();
    let heavy_count = (heavy_share * count as f64 / ranges as f64).max(2.0);
    for range in 1..ranges {
        let index = range * count / ranges;
        if index >= count {
            break;
        }
        let candidate = sample.key(index);
        if splitters.last().is_some_and(|last| &last[..] == candidate) {
            continue;
        }
        let refs = &sample.refs;
        let below = refs.partition_point(|r| r.bytes(&sample.area) < candidate);
        let upto = refs.partition_point(|r| r.bytes(&sample.area) <= candidate);
        splitters.push(candidate.into());
        heavy.push((upto - below) as f64 >= heavy_count);
    }
    (splitters, heavy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys_of(strings: &[Vec<u8>]) -> Keys {
        let mut keys = Keys::default();
        for string in strings {
            let at = keys.area.len();
            keys.area.extend_from_slice(string);
            keys.note(at);
        }
        keys
    }

    fn any_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = || prop_oneof![Just(0u8), Just(b'a'), Just(b'b'), any::<u8>()];
        let key = (0usize..3, prop::collection::vec(byte(), 0..12)).prop_map(|(prefix, tail)| {
            let mut key = b"common prefix"[..[0, 9, 13][prefix]].to_vec();
            key.extend(tail);
            key
        });
        prop::collection::vec(key, 0..200)
    }

    proptest! {
        #[test]
        fn buckets_are_in_order_and_equal_keys_share_one(
            sampled in any_keys(), looked_up in any_keys(), ranges in 1usize..20,
        ) {
            let mut sample = keys_of(&sampled);
            sample.sort();
            let size = SplitterSize { ranges, buckets_max: 24, heavy_share: 0.5 };
            let splitters = LineSplitters::choose(&sample, size);
            prop_assert!(splitters.bucket_count() <= 24);
            let keys = keys_of(&[sampled, looked_up].concat());
            let mut buckets = vec![0; keys.refs.len()];
            splitters.classify(&keys.area, &keys.refs, &mut Vec::new(), &mut buckets);
            let mut found: Vec<(&[u8], usize)> = (0..keys.refs.len())
                .map(|i| (keys.key(i), usize::from(buckets[i])))
                .collect();
            found.sort();
            prop_assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].1));
            prop_assert!(found.windows(2).all(|p| p[0].0 != p[1].0 || p[0].1 == p[1].1));
            for &(key, bucket) in &found {
                if let Some(equal) = splitters.equal_key(bucket) {
                    prop_assert_eq!(key, equal);
                }
                let all = found.iter().filter(|(_, other)| *other == bucket);
                let depth = splitters.depth_of(bucket);
                for (other, _) in all {
                    prop_assert!(key.len() >= depth && other.get(..depth) == key.get(..depth));
                }
            }
        }
    }
}
