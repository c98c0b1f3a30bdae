//! How one distribution tells buckets apart: by keys behind a common prefix, or by place.
//!
//! Contract: a [`Cut`] maps each element to one of its buckets, in the order of the elements.
//! [`KeyCut`] classifies by the first key at which a sample differs. Keys before that one, which
//! the whole sample shares, are only compared: what lies below or above them goes to a first and a
//! last bucket. So records that share a long prefix are distributed once, not once a word.
//!
//! Bounds: a key a batch and word of prefix; no memory but the splitters.

use super::classify::{Classifier, Key};
use super::elements::Elements;
use crate::error::Result;

/// Elements of a sample that are looked at together.
const BATCH: usize = 512;

/// How buckets are told apart.
pub(crate) enum Cut<K> {
    /// By key.
    Keys(KeyCut<K>),
    /// By the place in the input, for elements that are all equal: `starts[i]` is the least
    /// position of bucket i.
    Positions(Vec<u64>),
}

/// Splitters at some depth, behind keys that the sample shared.
pub(crate) struct KeyCut<K> {
    classifier: Classifier<K>,
    /// Keys that come before the classified one, from the distribution's depth on.
    prefix: Vec<K>,
}

impl<K: Key> Cut<K> {
    /// Number of buckets.
    pub(crate) fn bucket_count(&self) -> usize {
        match self {
            Cut::Keys(cut) => cut.classifier.bucket_count() + 2 * cut.outer_count(),
            Cut::Positions(starts) => starts.len(),
        }
    }

    /// Whether all elements of a bucket share the classified key.
    pub(crate) fn is_equal(&self, bucket: usize) -> bool {
        match self {
            Cut::Keys(cut) => cut
                .inner(bucket)
                .is_some_and(|b| cut.classifier.is_equal(b)),
            Cut::Positions(_) => false,
        }
    }

    /// The key that all elements of a bucket share, where they do.
    pub(crate) fn equal_key(&self, bucket: usize) -> Option<K> {
        match self {
            Cut::Keys(cut) => cut.inner(bucket).and_then(|b| cut.classifier.equal_key(b)),
            Cut::Positions(_) => None,
        }
    }

    /// Keys that all elements of a bucket share, for elements that shared `depth` before.
    pub(crate) fn depth_of(&self, bucket: usize, depth: usize) -> usize {
        match self {
            Cut::Keys(cut) if cut.inner(bucket).is_some() => {
                depth + cut.prefix.len() + usize::from(self.is_equal(bucket))
            }
            _ => depth,
        }
    }

    /// Writes the bucket of each element of `batch`, neighbours of the input from `position` on,
    /// to `buckets`.
    pub(crate) fn classify<E: Elements<Key = K>>(
        &self,
        elements: &E,
        batch: &[u8],
        depth: usize,
        position: u64,
        space: &mut Vec<K>,
        buckets: &mut [u16],
    ) -> Result<()> {
        match self {
            Cut::Keys(cut) => cut.classify(elements, batch, depth, space, buckets),
            Cut::Positions(starts) => {
                let bucket = starts.partition_point(|&start| start <= position) - 1;
                buckets.fill(bucket as u16);
                Ok(())
            }
        }
    }
}

impl<K: Key> KeyCut<K> {
    /// Chooses splitters for `ranges_wanted` ranges, and at most `buckets_max` buckets with those
    /// of heavy values, from elements that share `depth` keys. The
    /// sample is in the form of the input if `is_input`, else in that of scratch.
    pub(crate) fn choose<E: Elements<Key = K>>(
        elements: &E,
        sample: &[u8],
        is_input: bool,
        depth: usize,
        ranges_wanted: usize,
        buckets_max: usize,
    ) -> Result<Self> {
        let mut prefix = Vec::new();
        loop {
            let at = depth + prefix.len();
            let mut keys = sample_keys(elements, sample, is_input, at)?;
            keys.sort_unstable();
            match (keys.first(), keys.last()) {
                (Some(first), Some(last)) if first == last && at + 1 < elements.depth_end() => {
                    prefix.push(*first);
                }
                _ => {
                    // Two buckets are for what lies around the prefix.
                    let outer_count = 2 * usize::from(!prefix.is_empty());
                    let inner_max = buckets_max.saturating_sub(outer_count).max(1);
                    let classifier = Classifier::from_sample(&keys, ranges_wanted, inner_max);
                    return Ok(KeyCut { classifier, prefix });
                }
            }
        }
    }

    /// 1 if there are buckets below and above the prefix.
    fn outer_count(&self) -> usize {
        usize::from(!self.prefix.is_empty())
    }

    /// The classifier's number of a bucket, unless it is one of those around the prefix.
    fn inner(&self, bucket: usize) -> Option<usize> {
        let inner = bucket.checked_sub(self.outer_count())?;
        (inner < self.classifier.bucket_count()).then_some(inner)
    }

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
        if self.prefix.is_empty() {
            return Ok(());
        }
        buckets.iter_mut().for_each(|bucket| *bucket += 1);
        let above = self.classifier.bucket_count() as u16 + 1;
        // From the last key of the prefix to the first: the first that differs decides.
        for (index, shared) in self.prefix.iter().enumerate().rev() {
            let keys = elements.keys(batch, depth + index, space)?;
            for (key, bucket) in keys.iter().zip(&mut *buckets) {
                if key < shared {
                    *bucket = 0;
                } else if key > shared {
                    *bucket = above;
                }
            }
        }
        Ok(())
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
    // Bare numbers are looked at as native integers, which a Vec<u8> need not be aligned for.
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
