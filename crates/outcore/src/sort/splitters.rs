//! The route of a sort: how one distribution separates buckets by as many keys as necessary.
//!
//! Contract: a [`KeySplitters`] maps each element to one of its buckets, in the order of the
//! elements, through one [`KeyRoute`] per thread. It is a tree of classifiers. The root divides by
//! the first key in which a sample differs; a value of that key that is frequent enough to fill
//! several buckets is split further by the keys after it. Keys that the whole sample of a node
//! shares are only compared: elements below or above them go to a first and a last bucket. So
//! records with long common prefixes, or with few different first keys, are distributed once, not
//! once per key.
//!
//! Bounds: one key per batch and prefix word for the root, one key per element for each node below
//! it; no memory except for the splitters.

use super::elements::Elements;
use crate::partition::classify::{Classifier, Key};
use crate::partition::route::{Batch, Route};
use outcore_io::Result;

/// Elements of a sample that are processed together.
const BATCH: usize = 512;
/// Share of a range that a value must fill to get a bucket of its own. A bucket would be too large
/// with two values that each nearly fill a range, or with several that each fill a third.
const HEAVY_SHARE: f64 = 0.5;
/// Placeholders for the buckets around a node's prefix.
const BELOW: u16 = u16::MAX - 1;
const ABOVE: u16 = u16::MAX;

/// Splitters at several depths.
pub(crate) struct KeySplitters<K> {
    root: Node<K>,
    buckets: Vec<Known>,
}

/// Facts about the elements of a bucket.
struct Known {
    /// Number of keys that the elements share, counted from the distribution's depth.
    shared: usize,
    /// Whether the splitters examined no further keys.
    is_equal: bool,
    /// Whether the sample contains elements of the bucket; otherwise few are expected.
    is_sampled: bool,
}

/// One classifier of the tree.
struct Node<K> {
    /// Number of keys before the prefix, counted from the distribution's depth, that all its
    /// elements share.
    depth: usize,
    /// Keys before the classified one.
    prefix: Vec<K>,
    classifier: Classifier<K>,
    /// Buckets of the elements around the prefix.
    below: u16,
    above: u16,
    /// The destinations of the classifier's buckets.
    inner: Vec<Inner<K>>,
    /// Whether the classifier's buckets are the buckets of the splitters, without further nodes.
    is_plain: bool,
}

enum Inner<K> {
    Bucket(u16),
    Node(Box<Node<K>>),
}

/// One thread's route from elements, which share `depth` keys, to the buckets of splitters.
pub(crate) struct KeyRoute<'a, E: Elements> {
    elements: &'a E,
    splitters: &'a KeySplitters<E::Key>,
    depth: usize,
    /// Keys that were made.
    space: Vec<E::Key>,
}

impl<'a, E: Elements> KeyRoute<'a, E> {
    pub(crate) fn new(elements: &'a E, splitters: &'a KeySplitters<E::Key>, depth: usize) -> Self {
        KeyRoute {
            elements,
            splitters,
            depth,
            space: Vec::new(),
        }
    }
}

impl<E: Elements> Route for KeyRoute<'_, E> {
    fn bucket_count(&self) -> usize {
        self.splitters.bucket_count()
    }

    fn route(&mut self, batch: &Batch<'_>, buckets: &mut [u16]) -> Result<()> {
        let root = &self.splitters.root;
        root.classify(
            self.elements,
            batch.area,
            self.depth,
            &mut self.space,
            buckets,
        )
    }
}

impl<K: Key> KeySplitters<K> {
    /// Number of buckets.
    pub(crate) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Whether all elements of a bucket share the classified key.
    pub(crate) fn is_equal(&self, bucket: usize) -> bool {
        self.buckets[bucket].is_equal
    }

    /// The key that all elements of a bucket share, if they have only that key.
    pub(crate) fn equal_key(&self, bucket: usize) -> Option<K> {
        match self.root.is_plain {
            true => self.root.classifier.equal_key(bucket),
            false => None,
        }
    }

    /// Number of leading keys that all elements of the bucket share, if all elements that were
    /// split into buckets share `depth` keys.
    pub(crate) fn depth_of(&self, bucket: usize, depth: usize) -> usize {
        depth + self.buckets[bucket].shared
    }

    /// Selects splitters for `ranges_wanted` ranges, and at most `buckets_max` buckets (at least
    /// five) including those of heavy values, from elements that share `depth` keys. The sample has
    /// the input's form if `is_input`, otherwise that of scratch.
    pub(crate) fn choose<E: Elements<Key = K>>(
        elements: &E,
        sample: &[u8],
        is_input: bool,
        depth: usize,
        ranges_wanted: usize,
        buckets_max: usize,
    ) -> Result<Self> {
        let mut ground = Ground {
            elements,
            is_input,
            depth,
            is_tight: false,
        };
        let view = ground.look(sample, 0)?;
        let mut ranges = ranges_wanted.min(buckets_max);
        loop {
            let mut buckets = Vec::new();
            let root = ground.grow(&view, ranges, &mut buckets)?;
            if buckets.len() <= buckets_max.max(5) {
                return Ok(KeySplitters { root, buckets });
            }
            if ground.is_tight || elements.is_scalar() {
                ranges = ranges * buckets_max / buckets.len();
            }
            ground.is_tight = true;
        }
    }
}

/// The inputs for growing a tree.
struct Ground<'a, E> {
    elements: &'a E,
    is_input: bool,
    depth: usize,
    /// Whether there are too few buckets for the gaps between sampled values to get their own.
    is_tight: bool,
}

/// A sample, from the first key in which it differs.
struct View<'a, K> {
    sample: &'a [u8],
    depth: usize,
    prefix: Vec<K>,
    keys: Vec<K>,
    sorted: Vec<K>,
}

impl<E: Elements> Ground<'_, E> {
    /// Examines a sample whose elements share `depth` keys.
    fn look<'s>(&self, sample: &'s [u8], depth: usize) -> Result<View<'s, E::Key>> {
        let mut prefix = Vec::new();
        loop {
            let at = self.depth + depth + prefix.len();
            let keys = sample_keys(self.elements, sample, self.is_input, at)?;
            let is_shared = keys.windows(2).all(|pair| pair[0] == pair[1]);
            match keys.first() {
                Some(&first) if is_shared && at + 1 < self.elements.depth_end() => {
                    prefix.push(first);
                }
                _ => {
                    let mut sorted = keys.clone();
                    sorted.sort_unstable();
                    return Ok(View {
                        sample,
                        depth,
                        prefix,
                        keys,
                        sorted,
                    });
                }
            }
        }
    }

    /// A node for `ranges` ranges, and those below it; appends their buckets.
    fn grow(
        &self,
        view: &View<'_, E::Key>,
        ranges: usize,
        buckets: &mut Vec<Known>,
    ) -> Result<Node<E::Key>> {
        let classifier = Classifier::from_sample(&view.sorted, ranges, HEAVY_SHARE);
        let mut sampled = vec![0; view.sorted.len()];
        classifier.classify(&view.sorted, &mut sampled);
        let around = |buckets: &mut Vec<Known>| match view.prefix.is_empty() {
            true => 0,
            false => {
                let shared = view.depth;
                self.add(shared, false, false, buckets)
            }
        };
        let below = around(buckets);
        let shared = view.depth + view.prefix.len();
        let mut inner = Vec::with_capacity(classifier.bucket_count());
        for bucket in 0..classifier.bucket_count() {
            let further = self.further(view, &classifier, bucket, ranges);
            match further {
                Some((sample, ranges)) => {
                    let view = self.look(&sample, shared + 1)?;
                    inner.push(Inner::Node(Box::new(self.grow(&view, ranges, buckets)?)));
                }
                None => {
                    let is_equal = classifier.is_equal(bucket);
                    let shared = shared + usize::from(is_equal);
                    let is_sampled = sampled.binary_search(&(bucket as u16)).is_ok();
                    let bucket = self.add(shared, is_equal, is_sampled, buckets);
                    inner.push(Inner::Bucket(bucket));
                }
            }
        }
        let above = around(buckets);
        let has_own = |(index, inner): (usize, &Inner<_>)| match inner {
            Inner::Bucket(bucket) => usize::from(*bucket) == index,
            Inner::Node(_) => false,
        };
        let is_root = view.depth == 0 && view.prefix.is_empty();
        Ok(Node {
            depth: view.depth,
            prefix: view.prefix.clone(),
            is_plain: is_root && inner.iter().enumerate().all(has_own),
            classifier,
            below,
            above,
            inner,
        })
    }

    /// Adds a bucket of elements that share their first `shared` keys; returns its number. A bucket
    /// without sampled elements joins the previous one if that is also empty, or if buckets are
    /// scarce.
    fn add(
        &self,
        shared: usize,
        is_equal: bool,
        is_sampled: bool,
        buckets: &mut Vec<Known>,
    ) -> u16 {
        match buckets.last_mut() {
            Some(last)
                if !is_sampled
                    && (!last.is_sampled || self.is_tight)
                    && !self.elements.is_scalar() =>
            {
                last.shared = last.shared.min(shared);
                last.is_equal = false;
            }
            _ => buckets.push(Known {
                shared,
                is_equal,
                is_sampled,
            }),
        }
        buckets.len() as u16 - 1
    }

    /// The sampled elements of a heavy value that is worth several ranges, and the number of
    /// ranges.
    fn further(
        &self,
        view: &View<'_, E::Key>,
        classifier: &Classifier<E::Key>,
        bucket: usize,
        ranges: usize,
    ) -> Option<(Vec<u8>, usize)> {
        let next = self.depth + view.depth + view.prefix.len() + 1;
        let key = classifier.equal_key(bucket)?;
        if next >= self.elements.depth_end() {
            return None;
        }
        let from = view.sorted.partition_point(|&other| other < key);
        let to = view.sorted.partition_point(|&other| other <= key);
        // The share is rounded to the nearest number, since one and a half ranges are too much for
        // one bucket.
        let share = (2 * ranges * (to - from) / view.sorted.len()).div_ceil(2);
        if share < 2 {
            return None;
        }
        let all = view.sample.chunks_exact(self.elements.element_bytes());
        let heavy = all.zip(&view.keys).filter(|(_, other)| **other == key);
        Some((
            heavy.flat_map(|(element, _)| element).copied().collect(),
            share,
        ))
    }
}

impl<K: Key> Node<K> {
    fn classify<E: Elements<Key = K>>(
        &self,
        elements: &E,
        batch: &[u8],
        depth: usize,
        space: &mut Vec<K>,
        buckets: &mut [u16],
    ) -> Result<()> {
        let keys = elements.keys(batch, depth + self.prefix.len(), space)?;
        self.classifier.classify(keys, buckets);
        if self.is_plain {
            return Ok(());
        }
        // Goes from the last key of the prefix to the first, so that the first key that differs
        // decides.
        for (index, shared) in self.prefix.iter().enumerate().rev() {
            let keys = elements.keys(batch, depth + index, space)?;
            for (key, bucket) in keys.iter().zip(&mut *buckets) {
                if key < shared {
                    *bucket = BELOW;
                } else if key > shared {
                    *bucket = ABOVE;
                }
            }
        }
        let batch = batch.chunks_exact(elements.element_bytes());
        for (element, bucket) in batch.zip(buckets) {
            *bucket = match *bucket {
                BELOW => self.below,
                ABOVE => self.above,
                inner => match &self.inner[usize::from(inner)] {
                    Inner::Bucket(bucket) => *bucket,
                    Inner::Node(node) => node.locate(elements, element, depth, space)?,
                },
            };
        }
        Ok(())
    }

    /// The bucket of one element, which shares the keys before the node.
    fn locate<E: Elements<Key = K>>(
        &self,
        elements: &E,
        element: &[u8],
        depth: usize,
        space: &mut Vec<K>,
    ) -> Result<u16> {
        let mut node = self;
        loop {
            let mut at = depth + node.depth;
            for &shared in &node.prefix {
                let key = elements.keys(element, at, space)?[0];
                if key != shared {
                    return Ok(if key < shared { node.below } else { node.above });
                }
                at += 1;
            }
            let mut inner = [0];
            let key = elements.keys(element, at, space)?;
            node.classifier.classify(&key[..1], &mut inner);
            match &node.inner[usize::from(inner[0])] {
                Inner::Bucket(bucket) => return Ok(*bucket),
                Inner::Node(next) => node = next,
            }
        }
    }
}

/// Keys at `depth` of sampled elements.
fn sample_keys<E: Elements>(
    elements: &E,
    sample: &[u8],
    is_input: bool,
    depth: usize,
) -> Result<Vec<E::Key>> {
    let mut keys = Vec::with_capacity(sample.len() / elements.element_bytes());
    let mut space = Vec::new();
    // Scalars are read as native integers, for which a Vec<u8> may be misaligned.
    let mut aligned: Vec<u128> = Vec::new();
    for piece in sample.chunks(elements.element_bytes() * BATCH) {
        aligned.resize(piece.len().div_ceil(size_of::<u128>()), 0);
        let bytes = &mut bytemuck::cast_slice_mut::<u128, u8>(&mut aligned)[..piece.len()];
        bytes.copy_from_slice(piece);
        if is_input {
            elements.encode(bytes)?;
        }
        keys.extend_from_slice(elements.keys(bytes, depth, &mut space)?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::order::{Order, OrderOptions};
    use crate::key::record::RecordFormat;
    use crate::sort::elements::Records;

    const RECORD_BYTES: usize = 32;

    /// Records of four words, each with few values, some more frequent than others.
    fn any_records(count: usize) -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![8 => Just(1u64), 4 => 0u64..4, 1 => any::<u64>()];
        let record = prop::array::uniform4(word);
        prop::collection::vec(record, 1..count).prop_map(|records| {
            let words = records.into_iter().flatten();
            words.flat_map(u64::to_be_bytes).collect()
        })
    }

    proptest! {
        #[test]
        fn buckets_are_in_the_order_of_their_elements_and_share_what_they_say(
            sample in any_records(300),
            others in any_records(300),
            ranges in 1usize..60,
            more in 0usize..60,
            depth in 0usize..4,
        ) {
            let format = RecordFormat::parse_type("32/0:32").unwrap();
            let elements = Records::new(Order::new(&format, OrderOptions::default()));
            // The elements of a distribution share all keys before its depth.
            let set = |mut records: Vec<u8>| {
                for record in records.chunks_mut(RECORD_BYTES) {
                    record[..8 * depth].fill(7);
                }
                records
            };
            let (sample, others) = (set(sample), set(others));
            let splitters = KeySplitters::choose(&elements, &sample, true, depth, ranges, ranges + more).unwrap();
            prop_assert!(splitters.bucket_count() <= (ranges + more).max(5));
            let mut records: Vec<&[u8]> = sample.chunks(RECORD_BYTES).collect();
            records.extend(others.chunks(RECORD_BYTES));
            records.sort();
            let all = records.concat();
            let mut buckets = vec![0; records.len()];
            let batch = Batch { area: &all, keys: &[], position: 0 };
            KeyRoute::new(&elements, &splitters, depth).route(&batch, &mut buckets).unwrap();
            prop_assert!(buckets.is_sorted());
            for (pair, bucket) in records.windows(2).zip(buckets.windows(2)) {
                if bucket[0] == bucket[1] {
                    let shared = 8 * splitters.depth_of(usize::from(bucket[0]), depth);
                    prop_assert_eq!(&pair[0][..shared], &pair[1][..shared]);
                }
            }
        }
    }
}
