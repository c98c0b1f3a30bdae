//! The first item, the largest items, and how many fall where.
//!
//! Contract: [`first`] and [`find_if`] give what stands first in the order of the sequence, on any
//! number of threads, and stop reading soon after. [`top_k`] gives the largest `k`, largest first.
//! [`histogram`] counts items by a number that a function gives each.
//!
//! Bounds: I/O is at most one read of the sources; memory is twice `k` items, or a counter a bin,
//! a thread.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::sync::{Mutex, PoisonError};

use super::batch::{Sequence, tabulate};
use super::pass::{Demand, Pass, PassSummary, shield};
use super::pieces::Lanes;
use crate::error::{Error, Kind, Result};
use crate::job::Job;
use crate::units;

/// The first item; nothing for an empty sequence. Filtered sequences are read as far as needed.
///
/// # Errors
/// As [`reduce`](super::reduce()).
pub fn first<S: Sequence>(job: &Job, sequence: &S) -> Result<(Option<S::Item>, PassSummary)> {
    let mut leaves = Vec::new();
    sequence.leaves(&mut leaves);
    let pass = Pass::open(job, &leaves, Lanes::Stretches(1), Demand::default())?;
    job.control
        .begin_phase("find", pass.pieces.sources.data_bytes());
    // Position of the first piece that has any, and its first item.
    let nearest = AtomicU64::new(u64::MAX);
    let found = Mutex::new(None);
    pass.each_piece(
        || Ok(()),
        |(), reader, loaded| {
            let place = loaded.piece.first;
            if place > nearest.load(Atomic::Relaxed) {
                // Pieces are handed out in order: none that follows comes before this one.
                reader.stop();
                return Ok(());
            }
            let Some(item) = shield(|| Ok(sequence.iter(loaded.batch()).next()))? else {
                return Ok(());
            };
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            if place < nearest.fetch_min(place, Atomic::Relaxed) {
                *found = Some(item);
            }
            reader.stop();
            Ok(())
        },
        |(), _| Ok(()),
    )?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let records = u64::from(found.is_some());
    Ok((found, pass.summary(records, 0)))
}

/// The first item for which `wanted` is true, and its position.
///
/// # Errors
/// As [`reduce`](super::reduce()).
pub fn find_if<S: Sequence>(
    job: &Job,
    sequence: S,
    wanted: impl Fn(&S::Item) -> bool + Sync,
) -> Result<Option<(u64, S::Item)>> {
    let mut leaves = Vec::new();
    sequence.leaves(&mut leaves);
    let volume = crate::volume::Volume::new(std::sync::Arc::clone(&job.device), &[])?;
    let count = super::pieces::Sources::open(&volume, &leaves, Lanes::Drives)?.count;
    let numbered = tabulate(count, |position| position).zip(sequence);
    let (found, _) = first(job, &numbered.filter(|(_, item)| wanted(item)))?;
    Ok(found)
}

/// The `k` largest items by `compare`, largest first; all if there are no more.
///
/// # Errors
/// [`crate::Kind::Memory`] where they do not fit, since items of any type cannot be sorted on drives
/// (bytes can: [`crate::algo::sort`]); as [`reduce`](super::reduce()).
pub fn top_k<S>(
    job: &Job,
    sequence: &S,
    k: usize,
    compare: impl Fn(&S::Item, &S::Item) -> Ordering + Sync,
) -> Result<(Vec<S::Item>, PassSummary)>
where
    S: Sequence,
    S::Item: Clone,
{
    let item_bytes = size_of::<S::Item>() as u64;
    // Beyond any memory, and sums of it do not overflow.
    let kept_bytes = (k as u64).saturating_mul(2 * item_bytes).min(1 << 48);
    let demand = Demand {
        thread_bytes: kept_bytes,
        fixed_bytes: kept_bytes,
        ..Demand::default()
    };
    let mut leaves = Vec::new();
    sequence.leaves(&mut leaves);
    let pass =
        Pass::open(job, &leaves, Lanes::Drives, demand).map_err(|error| match error.kind() {
            Kind::Memory => too_many(k, kept_bytes, job),
            _ => error,
        })?;
    if k == 0 {
        return Ok((Vec::new(), pass.summary(0, 0)));
    }
    job.control
        .begin_phase("top", pass.pieces.sources.data_bytes());
    let shrink = |best: &mut Vec<S::Item>| {
        if best.len() > k {
            best.select_nth_unstable_by(k - 1, |a, b| compare(b, a));
            best.truncate(k);
        }
    };
    let all = Mutex::new(Vec::new());
    pass.each_piece(
        || Ok((Vec::new(), None)),
        |(best, least): &mut (Vec<S::Item>, Option<S::Item>), _, loaded| {
            shield(|| {
                for item in sequence.iter(loaded.batch()) {
                    if let Some(least) = least
                        && compare(&item, least) != Ordering::Greater
                    {
                        continue;
                    }
                    best.push(item);
                    if best.len() >= 2 * k {
                        shrink(best);
                        *least = best.get(k - 1).cloned();
                    }
                }
                Ok(())
            })
        },
        |(best, _), _| {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(best);
            shield(|| {
                shrink(&mut all);
                Ok(())
            })
        },
    )?;
    pass.check_sources()?;
    let mut best = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    shield(|| {
        best.sort_by(|a, b| compare(b, a));
        Ok(())
    })?;
    let summary = pass.summary(best.len() as u64, 0);
    Ok((best, summary))
}

/// Items of any type, in an order that only a function knows, cannot be sorted on drives.
fn too_many(k: usize, kept_bytes: u64, job: &Job) -> Error {
    let threads = job.options.threads.max(1) as u64;
    let cause = format!(
        "the {k} largest items, twice for each of {} and once more, are {}; {} of memory are allowed",
        units::counted(threads, "thread"),
        units::bytes(kept_bytes.saturating_mul(threads + 1)),
        units::bytes(job.budget.limit_bytes()),
    );
    Error::new(Kind::Memory, "keep the largest", cause).hint(
        "allow more memory or fewer threads; or write the items, sort them on the drives, the largest \
         first, and take the head",
    )
}

/// How many items `bin` puts into each of `bins`; those for which it gives nothing are left out.
///
/// # Errors
/// [`crate::Kind::Usage`] for a bin that there is none of; as [`reduce`](super::reduce()).
pub fn histogram<S: Sequence>(
    job: &Job,
    sequence: &S,
    bins: usize,
    bin: impl Fn(&S::Item) -> Option<usize> + Sync,
) -> Result<(Vec<u64>, PassSummary)> {
    let demand = Demand {
        thread_bytes: bins as u64 * 8,
        fixed_bytes: bins as u64 * 8,
        ..Demand::default()
    };
    let mut leaves = Vec::new();
    sequence.leaves(&mut leaves);
    let pass = Pass::open(job, &leaves, Lanes::Drives, demand)?;
    job.control
        .begin_phase("histogram", pass.pieces.sources.data_bytes());
    let all = Mutex::new(vec![0_u64; bins]);
    pass.each_piece(
        || Ok(vec![0_u64; bins]),
        |counts, _, loaded| {
            shield(|| {
                for item in sequence.iter(loaded.batch()) {
                    let Some(bin) = bin(&item) else { continue };
                    let count = counts.get_mut(bin).ok_or_else(|| no_bin(bin, bins))?;
                    *count += 1;
                }
                Ok(())
            })
        },
        |counts, _| {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            for (sum, count) in all.iter_mut().zip(counts) {
                *sum += count;
            }
            Ok(())
        },
    )?;
    pass.check_sources()?;
    let counts = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((counts, pass.summary(pass.count(), 0)))
}

/// The error for a bin or bucket that is not there.
pub(crate) fn no_bin(bin: usize, bins: usize) -> Error {
    Error::usage("choose bucket", format!("number {bin} of {bins}"))
        .hint("the function must give numbers below the number of buckets")
}
