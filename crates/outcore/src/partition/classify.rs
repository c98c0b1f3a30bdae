//! Classifies keys into buckets with a branch-free splitter tree and equality buckets.
//!
//! Model: PALID (SPAA 2025), section 4, distributes by splitters from a sample. The tree in
//! Eytzinger order and the equality buckets are those of super scalar sample sort (Sanders and
//! Winkel 2004) and IPS4o (Axtmann et al. 2017).
//!
//! Contract: with splitters s_0 < s_1 < ... the buckets are, in order of keys: up to s_0, (equal to
//! s_0,) between s_0 and s_1, ... A splitter that is frequent in the sample is *heavy* and has a
//! bucket of its own, in which all keys are equal. Classification reads log2(splitters) words per
//! key, without a branch that depends on the data. Several keys walk the tree in parallel so that
//! their loads overlap. If the keys are spread evenly enough, a table on the leading bits of the
//! range replaces the upper levels of the tree.

/// Unsigned integers with their natural order.
pub(crate) trait Key: bytemuck::Pod + Ord + Send + Sync + std::fmt::Debug {
    /// The greatest key.
    const MAX: Self;
    /// `(self - base) >> shift` as a table index; `base <= self`.
    fn cell(self, base: Self, shift: u32) -> usize;
    /// Number of significant bits of `self - base`.
    fn bits_above(self, base: Self) -> u32;
}

macro_rules! key {
    ($($unsigned:ty),*) => {$(
        impl Key for $unsigned {
            const MAX: Self = <$unsigned>::MAX;
            #[inline(always)]
            fn cell(self, base: Self, shift: u32) -> usize {
                (self.wrapping_sub(base) >> shift) as usize
            }
            fn bits_above(self, base: Self) -> u32 {
                <$unsigned>::BITS - self.wrapping_sub(base).leading_zeros()
            }
        }
    )*};
}
key!(u32, u64, u128);

/// Keys that walk the tree in parallel.
const LANES: usize = 8;
/// Largest number of splitter comparisons after a table look-up; with more, the tree is faster.
const STEPS_MAX: u32 = 3;

/// Splitters prepared for classification.
#[derive(Debug)]
pub(crate) struct Classifier<K> {
    splitters: Vec<K>,
    /// Eytzinger order, index 1 is the root; padded with the greatest key.
    tree: Vec<K>,
    levels: u32,
    /// For each position among the splitters: bucket of keys below, bucket of keys equal.
    buckets: Vec<[u16; 2]>,
    equal: Vec<bool>,
    has_heavy: bool,
    table: Option<Table<K>>,
}

/// First splitter of each cell of the range, for evenly spread keys.
#[derive(Debug)]
struct Table<K> {
    base: K,
    shift: u32,
    first: Vec<u16>,
    steps: u32,
    /// The splitters, followed by `steps` copies of the greatest key.
    padded: Vec<K>,
}

impl<K: Key> Classifier<K> {
    /// Selects splitters from a sorted sample, evenly by rank, for at most `ranges` ranges. A value
    /// that fills `heavy_share` of a range's share of the sample is heavy. Heavy values add at most
    /// `ranges - 1` buckets.
    ///
    /// With eight ranges or more, every bucket holds at most about a quarter of the sample, except
    /// for the bucket of a heavy value, so repeated splitting ends.
    pub(crate) fn from_sample(sorted_sample: &[K], ranges: usize, heavy_share: f64) -> Self {
        let (splitters, heavy) = choose_splitters(sorted_sample, ranges, heavy_share);
        Self::from_splitters(splitters, &heavy)
    }

    /// Builds the tree for strictly ascending `splitters`; those with `heavy` set get a bucket of
    /// their own.
    pub(crate) fn from_splitters(splitters: Vec<K>, heavy: &[bool]) -> Self {
        assert!(splitters.windows(2).all(|pair| pair[0] < pair[1]));
        let levels = (splitters.len() + 1).next_power_of_two().trailing_zeros();
        let mut tree = vec![K::MAX; 1 << levels];
        fill_tree(&mut tree, 1, &splitters, 0, 1 << levels);
        let mut buckets = Vec::with_capacity(splitters.len() + 1);
        let mut equal = Vec::new();
        for &is_heavy in heavy {
            let below = equal.len() as u16;
            equal.push(false);
            if is_heavy {
                buckets.push([below, below + 1]);
                equal.push(true);
            } else {
                buckets.push([below, below]);
            }
        }
        let last = equal.len() as u16;
        equal.push(false);
        buckets.push([last, last]);
        let has_heavy = heavy.contains(&true);
        let table = Table::build(&splitters);
        Classifier {
            splitters,
            tree,
            levels,
            buckets,
            equal,
            has_heavy,
            table,
        }
    }

    /// Number of buckets, equality buckets included.
    pub(crate) fn bucket_count(&self) -> usize {
        self.equal.len()
    }

    /// Whether all keys of a bucket are equal.
    pub(crate) fn is_equal(&self, bucket: usize) -> bool {
        self.equal[bucket]
    }

    /// The one key of an equality bucket.
    pub(crate) fn equal_key(&self, bucket: usize) -> Option<K> {
        let bucket = bucket as u16;
        let position = self
            .buckets
            .iter()
            .position(|pair| pair[0] != pair[1] && pair[1] == bucket);
        position.and_then(|position| self.splitters.get(position).copied())
    }

    /// Writes the bucket of `keys[i]` to `buckets[i]`.
    pub(crate) fn classify(&self, keys: &[K], buckets: &mut [u16]) {
        assert_eq!(keys.len(), buckets.len());
        match &self.table {
            Some(table) => match table.steps {
                0 | 1 => table.locate::<1>(keys, buckets),
                2 => table.locate::<2>(keys, buckets),
                _ => table.locate::<3>(keys, buckets),
            },
            None => self.walk(keys, buckets),
        }
        if self.has_heavy {
            self.map_heavy(keys, buckets);
        }
    }

    /// Positions among the splitters by walking the tree.
    fn walk(&self, keys: &[K], positions: &mut [u16]) {
        let mask = self.tree.len() - 1;
        let base = self.tree.len();
        let mut key_chunks = keys.chunks_exact(LANES);
        let mut out_chunks = positions.chunks_exact_mut(LANES);
        for (keys, out) in (&mut key_chunks).zip(&mut out_chunks) {
            let mut at = [1usize; LANES];
            for _ in 0..self.levels {
                for lane in 0..LANES {
                    at[lane] = 2 * at[lane] + usize::from(keys[lane] > self.tree[at[lane] & mask]);
                }
            }
            for lane in 0..LANES {
                out[lane] = (at[lane] - base) as u16;
            }
        }
        for (&key, out) in key_chunks
            .remainder()
            .iter()
            .zip(out_chunks.into_remainder())
        {
            let mut at = 1;
            for _ in 0..self.levels {
                at = 2 * at + usize::from(key > self.tree[at & mask]);
            }
            *out = (at - base) as u16;
        }
    }

    /// Converts positions among the splitters to buckets if some splitters are heavy.
    fn map_heavy(&self, keys: &[K], positions: &mut [u16]) {
        let last = self.splitters.len().saturating_sub(1);
        for (&key, out) in keys.iter().zip(positions) {
            let position = usize::from(*out);
            let is_equal = self.splitters[position.min(last)] == key;
            *out = self.buckets[position][usize::from(is_equal)];
        }
    }
}

impl<K: Key> Table<K> {
    /// A table whose cells hold at most [`STEPS_MAX`] splitters each, if 16 cells per splitter
    /// achieve that.
    fn build(splitters: &[K]) -> Option<Self> {
        let (&base, &top) = splitters.first().zip(splitters.last())?;
        if splitters.len() < 4 {
            return None;
        }
        let cell_bits = (splitters.len() * 16)
            .next_power_of_two()
            .trailing_zeros()
            .min(15);
        let shift = top.bits_above(base).saturating_sub(cell_bits);
        let cells = top.cell(base, shift) + 1;
        let mut first = vec![0u16; cells + 1];
        let mut steps = 0;
        let mut splitter = 0;
        for (cell, first) in first.iter_mut().enumerate().take(cells) {
            *first = splitter as u16;
            let begin = splitter;
            while splitter < splitters.len() && splitters[splitter].cell(base, shift) <= cell {
                splitter += 1;
            }
            steps = steps.max((splitter - begin) as u32);
        }
        first[cells] = splitters.len() as u16;
        if steps > STEPS_MAX {
            return None;
        }
        let mut padded = splitters.to_vec();
        padded.extend(std::iter::repeat_n(K::MAX, steps as usize + 1));
        Some(Table {
            base,
            shift,
            first,
            steps,
            padded,
        })
    }

    /// Positions among the splitters: number of splitters below the key.
    fn locate<const STEPS: usize>(&self, keys: &[K], positions: &mut [u16]) {
        let last_cell = self.first.len() - 1;
        let padded = &self.padded[..];
        for (&key, out) in keys.iter().zip(positions) {
            let cell = key
                .max(self.base)
                .cell(self.base, self.shift)
                .min(last_cell);
            let mut position = usize::from(self.first[cell]);
            for _ in 0..STEPS {
                position += usize::from(key > padded[position]);
            }
            *out = position as u16;
        }
    }
}

/// Up to `ranges - 1` splitters, and whether each fills `heavy_share` of a range.
fn choose_splitters<K: Key>(
    sorted_sample: &[K],
    ranges: usize,
    heavy_share: f64,
) -> (Vec<K>, Vec<bool>) {
    let mut splitters: Vec<K> = Vec::with_capacity(ranges);
    let mut heavy: Vec<bool> = Vec::with_capacity(ranges);
    let count = sorted_sample.len();
    let heavy_count = (heavy_share * count as f64 / ranges as f64).max(2.0);
    for cut in 1..ranges {
        let Some(&candidate) = sorted_sample.get(cut * count / ranges) else {
            break;
        };
        if splitters.last() == Some(&candidate) {
            continue;
        }
        let below = sorted_sample.partition_point(|&key| key < candidate);
        let upto = sorted_sample.partition_point(|&key| key <= candidate);
        splitters.push(candidate);
        heavy.push((upto - below) as f64 >= heavy_count);
    }
    (splitters, heavy)
}

/// In-order walk of the complete tree: node `at` covers `span` leaves from `from`.
fn fill_tree<K: Key>(tree: &mut [K], at: usize, splitters: &[K], from: usize, span: usize) {
    if at >= tree.len() {
        return;
    }
    let middle = from + span / 2;
    if let Some(&splitter) = splitters.get(middle - 1) {
        tree[at] = splitter;
    }
    fill_tree(tree, 2 * at, splitters, from, span / 2);
    fill_tree(tree, 2 * at + 1, splitters, middle, span / 2);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Number of buckets before the key's, computed splitter by splitter.
    fn naive(classifier: &Classifier<u64>, key: u64) -> u16 {
        let position = classifier.splitters.iter().filter(|&&s| s < key).count();
        let is_equal = classifier.splitters.get(position) == Some(&key);
        classifier.buckets[position][usize::from(is_equal)]
    }

    proptest! {
        #[test]
        fn buckets_are_those_of_the_naive_search(
            mut sample in prop_oneof![
                prop::collection::vec(any::<u64>(), 1..600),
                prop::collection::vec(0u64..40, 1..600),
                prop::collection::vec((0u64..64).prop_map(|bits| 1u64 << bits), 1..600),
            ],
            ranges in 1usize..300,
            heavy_share in 0.25f64..2.0,
            keys in prop::collection::vec(any::<u64>(), 0..100),
        ) {
            sample.sort_unstable();
            let classifier = Classifier::from_sample(&sample, ranges, heavy_share);
            prop_assert!(classifier.bucket_count() < 2 * ranges);
            let mut keys = keys;
            keys.extend_from_slice(&sample);
            keys.extend([0, u64::MAX]);
            let mut buckets = vec![0; keys.len()];
            classifier.classify(&keys, &mut buckets);
            let mut walked = vec![0; keys.len()];
            classifier.walk(&keys, &mut walked);
            for (index, &key) in keys.iter().enumerate() {
                prop_assert_eq!(buckets[index], naive(&classifier, key));
                // Keys that equal the padding, the greatest key, may walk past the last splitter.
                let position = classifier.splitters.iter().filter(|&&s| s < key).count();
                prop_assert_eq!(usize::from(walked[index]), position);
            }
            for (a, &bucket) in keys.iter().zip(&buckets) {
                if classifier.is_equal(usize::from(bucket)) {
                    prop_assert_eq!(classifier.equal_key(usize::from(bucket)), Some(*a));
                }
            }
            let mut order: Vec<usize> = (0..keys.len()).collect();
            order.sort_by_key(|&i| keys[i]);
            prop_assert!(order.windows(2).all(|w| buckets[w[0]] <= buckets[w[1]]));
        }
    }
}
