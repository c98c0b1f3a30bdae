//! Distributes again the buckets that turned out too large for the memory, until all fit.
//!
//! Contract: order is kept. A bucket whose elements share a word of the order is split by the next
//! word. Equal elements of an ordered job are split by their position in the input; those of other
//! jobs are split anywhere. Each split makes at least eight buckets. If the beginnings of its
//! segments are representative, no bucket holds much more than a quarter, except for that of a
//! heavy value. In any case each split distinguishes elements, so the splitting ends. Each split
//! reads and writes the bucket once, and reads a little more for the sample. The scratch space and
//! the memory of segments are reused after they are read. PALID (SPAA 2025), section 4, splits in
//! the same way.

use std::sync::atomic::Ordering;

use super::distribute::{distribute_by_key, distribute_segments};
use super::elements::Elements;
use super::plan::BUCKETS_MAX;
use super::shared::Shared;
use super::splitters::KeySplitters;
use crate::partition::bucket::{Bucket, join_outs};
use crate::partition::refine::{Refined, look_at_segments, refine_kept};
use crate::partition::route::{PositionRoute, Route};
use outcore_io::Result;

/// Segments that are sampled to split a bucket again.
const SPLIT_SAMPLE_SEGMENTS: usize = 64;
/// Elements taken from each segment.
const SPLIT_SAMPLE_ELEMENTS: usize = 512;
/// Limit on the bytes of all of these elements.
const SPLIT_SAMPLE_BYTES_MAX: u64 = 2 << 20;
/// Smallest number of buckets of a split: see
/// [`crate::partition::classify::Classifier::from_sample`].
const SPLIT_BUCKETS_MIN: usize = 8;

/// Distributes again the buckets that are too large for the memory, until all fit; keeps the order.
/// Also returns how often, at most, an element was distributed here.
pub(crate) fn split_oversized<E: Elements>(
    shared: &Shared<'_, E>,
    buckets: Vec<Bucket>,
) -> Result<(Vec<Bucket>, u32)> {
    let bucket_bytes_max = shared.plan.bucket_bytes_max as u64;
    let element_bytes = shared.elements.element_bytes() as u64;
    let (mut buckets, splits) = refine_kept(shared, buckets, |bucket, _| {
        let bytes = bucket.counts.items * element_bytes;
        let is_held = bucket.copies_of.is_none() && !bucket.is_written();
        if !is_held || bytes <= bucket_bytes_max {
            return Ok(Refined::Fits(bucket));
        }
        let mut parts = if bucket.depth < shared.elements.depth_end() {
            split_by_key(shared, bucket)?
        } else if shared.plan.size.is_ordered {
            split_by_position(shared, bucket)?
        } else {
            split_equal(bucket, bucket_bytes_max, element_bytes)
        };
        parts.retain(|part| part.counts.items > 0);
        Ok(Refined::Parts(parts))
    })?;
    buckets.retain(|bucket| bucket.counts.items > 0);
    Ok((buckets, splits))
}

/// Number of ranges for a split of `bytes`, and the largest number of buckets with buffers: those
/// beyond the ranges are for frequent values.
fn split_bucket_counts<E>(shared: &Shared<'_, E>, bytes: u64) -> (usize, usize) {
    let plan = shared.plan;
    // Segments that may still stay in memory are reserved.
    let reserved = shared.resident_left.load(Ordering::Relaxed).max(0) as usize;
    let free = shared.segment_pool.free_slots().saturating_sub(reserved) / plan.size.threads;
    let affordable = free.saturating_sub(plan.writes_in_flight);
    let buckets_max = affordable.clamp(SPLIT_BUCKETS_MIN, BUCKETS_MAX);
    let wanted = bytes.div_ceil((plan.bucket_bytes_max / 2) as u64) as usize;
    (wanted.clamp(SPLIT_BUCKETS_MIN, buckets_max), buckets_max)
}

fn split_by_key<E: Elements>(shared: &Shared<'_, E>, bucket: Bucket) -> Result<Vec<Bucket>> {
    let bytes = bucket.counts.items * shared.elements.element_bytes() as u64;
    let sampled = sample_bucket(shared, &bucket)?;
    let (ranges, buckets_max) = split_bucket_counts(shared, bytes);
    let depth = bucket.depth;
    let splitters =
        KeySplitters::choose(shared.elements, &sampled, false, depth, ranges, buckets_max)?;
    distribute_by_key(shared, bucket.segments, &splitters, depth)
}

/// Splits equal elements, whose input order matters, by their position in the input.
fn split_by_position<E: Elements>(shared: &Shared<'_, E>, bucket: Bucket) -> Result<Vec<Bucket>> {
    let bytes = bucket.counts.items * shared.elements.element_bytes() as u64;
    let (count, _) = split_bucket_counts(shared, bytes);
    let route = PositionRoute::choose(&bucket.segments, count);
    let parts = (0..route.bucket_count()).map(|_| Bucket {
        depth: bucket.depth,
        ..Bucket::default()
    });
    let parts = parts.collect();
    let outs = distribute_segments(shared, bucket.segments, || route.clone(), |_| ())?;
    Ok(join_outs(parts, outs))
}

/// Splits equal elements in any order: the list of segments is divided anywhere.
fn split_equal(bucket: Bucket, bucket_bytes_max: u64, element_bytes: u64) -> Vec<Bucket> {
    let mut parts: Vec<Bucket> = Vec::new();
    let mut open_bytes = u64::MAX;
    for segment in bucket.segments {
        let bytes = u64::from(segment.payload_bytes);
        if open_bytes.saturating_add(bytes) > bucket_bytes_max {
            parts.push(Bucket {
                depth: bucket.depth,
                ..Bucket::default()
            });
            open_bytes = 0;
        }
        open_bytes += bytes;
        if let Some(part) = parts.last_mut() {
            part.counts.items += bytes / element_bytes;
            part.counts.bytes += bytes;
            part.segments.push(segment);
        }
    }
    parts
}

/// Elements from the beginnings of some of the bucket's segments.
fn sample_bucket<E: Elements>(shared: &Shared<'_, E>, bucket: &Bucket) -> Result<Vec<u8>> {
    let element_bytes = shared.elements.element_bytes();
    let chosen = bucket.segments.len().min(SPLIT_SAMPLE_SEGMENTS);
    let sample_bytes =
        (shared.plan.size.memory_bytes / 64).clamp(256 << 10, SPLIT_SAMPLE_BYTES_MAX) as usize;
    let taken_max = (sample_bytes / chosen.max(1) / element_bytes).clamp(1, SPLIT_SAMPLE_ELEMENTS);
    let mut sampled = Vec::new();
    let segments = (0..chosen).map(|i| &bucket.segments[i * bucket.segments.len() / chosen]);
    let bytes_max = taken_max * element_bytes;
    look_at_segments(shared, segments, bytes_max, |_, payload| {
        let taken_bytes = payload.len().min(bytes_max) / element_bytes * element_bytes;
        sampled.extend_from_slice(&payload[..taken_bytes]);
    })?;
    Ok(sampled)
}
