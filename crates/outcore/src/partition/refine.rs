//! Buckets that turned out too large for the memory, distributed again until none is.
//!
//! Contract: the order of buckets is kept. What is too large, and by what it is split, says the job; each
//! split has to make parts of which none is as large as the whole, in the end. PALID (SPAA 2025), section
//! 4, splits likewise.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Partition;
use super::bucket::Bucket;
use crate::error::Result;

/// What has been tried with a bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tried {
    /// Times that its items were distributed again.
    pub(crate) splits: u32,
    /// How often of that, at last, all of them came to the same bucket.
    pub(crate) in_vain: u32,
}

/// What becomes of a bucket.
pub(crate) enum Refined<K> {
    /// It is small enough.
    Fits(Bucket<K>),
    /// Its parts, in order.
    Parts(Vec<Bucket<K>>),
}

/// Refines `buckets` until all fit. Gives how many times, at most, an item was distributed here, too.
pub(crate) fn refine<K>(
    buckets: Vec<Bucket<K>>,
    mut split: impl FnMut(Bucket<K>, Tried) -> Result<Refined<K>>,
) -> Result<(Vec<Bucket<K>>, u32)> {
    let mut done = Vec::with_capacity(buckets.len());
    let mut most_splits = 0;
    let start = |bucket| (bucket, Tried::default());
    let mut left: VecDeque<(Bucket<K>, Tried)> = buckets.into_iter().map(start).collect();
    while let Some((bucket, tried)) = left.pop_front() {
        most_splits = most_splits.max(tried.splits);
        let (items, is_equal) = (bucket.counts.items, bucket.is_equal);
        match split(bucket, tried)? {
            Refined::Fits(bucket) => done.push(bucket),
            Refined::Parts(parts) => {
                for part in parts.into_iter().rev() {
                    let in_vain = match part.is_equal == is_equal {
                        true => tried.in_vain + u32::from(part.counts.items == items),
                        false => 0,
                    };
                    let splits = tried.splits + 1;
                    left.push_front((part, Tried { splits, in_vain }));
                }
            }
        }
    }
    Ok((done, most_splits))
}

/// The same with a bucket a thread, where one thread splits a bucket.
pub(crate) fn refine_side_by_side<K: Send>(
    partition: &Partition<'_>,
    buckets: Vec<Bucket<K>>,
    split: impl Fn(Bucket<K>) -> Result<Refined<K>> + Sync,
) -> Result<Vec<Bucket<K>>> {
    let cells: Vec<Mutex<Vec<Bucket<K>>>> =
        buckets.into_iter().map(|b| Mutex::new(vec![b])).collect();
    let next = AtomicUsize::new(0);
    let lock = |cell| Mutex::lock(cell).unwrap_or_else(PoisonError::into_inner);
    partition.on_all_threads(|_| {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let bucket = std::mem::take(&mut *lock(cell));
            let (parts, _) = refine(bucket, |bucket, _| {
                partition.check()?;
                split(bucket)
            })?;
            *lock(cell) = parts;
        }
        Ok(())
    })?;
    let parts = cells.into_iter().map(Mutex::into_inner);
    Ok(parts
        .flat_map(|parts| parts.unwrap_or_else(PoisonError::into_inner))
        .collect())
}
