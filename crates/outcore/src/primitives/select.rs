//! The first item, the largest items, and histograms.
//!
//! Contract: [`first`] and [`find_if`] return the first match in the order of the sequence, for any
//! number of threads, and stop reading soon after. [`top_k`] returns the largest `k` items in
//! descending order, with equal ones in the order of the sequence; [`top_k_each`] can return more
//! items than memory holds. [`histogram`] counts items by the bin that a function computes for
//! each.
//!
//! Bounds: I/O is at most one read of the sources; for [`top_k_each`] one read per selection that
//! fits in memory. Memory per thread is twice `k` items with their places, or a counter per bin.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::sync::{Mutex, PoisonError};

use super::batch::{Batch, Sequence, Source, Yield, tabulate};
use super::pass::{Demand, Pass, shield};
use super::pieces::Lanes;
use super::summary::Summary;
use crate::forecast::Forecast;
use crate::job::Job;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// The first item; `None` for an empty sequence. A filtered sequence is read as far as needed.
///
/// # Errors
/// The errors of [`reduce`](super::reduce()).
pub fn first<S: Sequence>(job: &Job, sequence: &S) -> Result<(Option<S::Item>, Summary)> {
    let mut sources = Vec::new();
    sequence.sources(&mut sources);
    let pass = Pass::open(job, &sources, Lanes::Stretches(1), Demand::default())?;
    // The pass ends at the first match.
    let most = Forecast::AtMost(pass.pieces.sources.data_bytes());
    pass.begin_reading("find", most, Forecast::NOTHING);
    // Position of the first piece with a match, and its first item.
    let nearest = AtomicU64::new(u64::MAX);
    let found = Mutex::new(None);
    pass.each_piece(
        || Ok(()),
        |(), reader, loaded| {
            let place = loaded.piece.first;
            if place > nearest.load(Atomic::Relaxed) {
                // Pieces are handed out in order, so no later piece comes before this one.
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
/// The errors of [`reduce`](super::reduce()).
pub fn find_if<S: Sequence>(
    job: &Job,
    sequence: S,
    wanted: impl Fn(&S::Item) -> bool + Sync,
) -> Result<Option<(u64, S::Item)>> {
    let mut sources = Vec::new();
    sequence.sources(&mut sources);
    let volume = outcore_io::port::Volume::new(std::sync::Arc::clone(&job.device), &[])?;
    let count = super::pieces::OpenSources::open(&volume, &sources, Lanes::Drives)?.count;
    let numbered = tabulate(count, |position| position).zip(sequence);
    let (found, _) = first(job, &numbered.filter(|(_, item)| wanted(item)))?;
    Ok(found)
}

/// Number of reads of the sources above which a sort is faster.
const READS_MAX: u64 = 4;

/// The `k` largest items by `compare`, in descending order, with equal ones in the order of the
/// sequence; all items if there are at most `k`. It takes one read if memory holds the `k` items
/// twice per thread. It takes up to four reads if memory holds the result, but only a part of it
/// twice per thread.
///
/// # Errors
/// [`crate::Kind::Memory`] if the result does not fit in memory: use [`top_k_each`] for any number
/// of items, or sort them as bytes ([`crate::sort`]); the errors of [`reduce`](super::reduce()).
pub fn top_k<S>(
    job: &Job,
    sequence: &S,
    k: usize,
    compare: impl Fn(&S::Item, &S::Item) -> Ordering + Sync,
) -> Result<(Vec<S::Item>, Summary)>
where
    S: Sequence,
    S::Item: Clone + Sync,
{
    top_k_for(job, sequence, k, compare, 0)
}

/// Like [`top_k`], for a caller that makes `more_bytes` from each item of the result; leaves memory
/// for these.
pub(super) fn top_k_for<S>(
    job: &Job,
    sequence: &S,
    k: usize,
    compare: impl Fn(&S::Item, &S::Item) -> Ordering + Sync,
    more_bytes: u64,
) -> Result<(Vec<S::Item>, Summary)>
where
    S: Sequence,
    S::Item: Clone + Sync,
{
    let selection = Selection::new(job, sequence, &compare);
    let count = selection.at_most(k as u64)?;
    let result_bytes = count.saturating_mul(size_of::<S::Item>() as u64);
    // The memory of the selection is free by then.
    let later_bytes = result_bytes.saturating_add(count.saturating_mul(more_bytes));
    if later_bytes > job.budget.free_bytes() {
        return Err(too_many(count, later_bytes, job));
    }
    let is_one_pass = match selection.open(count, 0) {
        Ok(_) => true,
        Err(error) if error.kind() == Kind::Memory => false,
        Err(error) => return Err(error),
    };
    let (chunk, held_bytes) = match is_one_pass {
        true => (count, 0),
        false => (selection.chunk(count, result_bytes), result_bytes),
    };
    if chunk.saturating_mul(READS_MAX) < count {
        return Err(too_many(count, result_bytes, job));
    }
    let mut found = Vec::with_capacity(count as usize);
    let put = |item| {
        found.push(item);
        Ok(())
    };
    let summary = selection.passes(count, chunk, held_bytes, put)?;
    Ok((found, summary))
}

/// As [`top_k`], but passes the items one after another to `each`, for any `k`, and never holds all
/// of them. It takes `k / m` reads of the sources if memory has room to select m items at a time. m
/// is an eighth of the memory divided by the size of an item plus 16 bytes, and less with more
/// threads.
///
/// # Errors
/// The errors of `each`; [`crate::Kind::Memory`] if not even one item fits; the errors of
/// [`reduce`](super::reduce()).
pub fn top_k_each<S>(
    job: &Job,
    sequence: &S,
    k: u64,
    compare: impl Fn(&S::Item, &S::Item) -> Ordering + Sync,
    each: impl FnMut(S::Item) -> Result<()>,
) -> Result<Summary>
where
    S: Sequence,
    S::Item: Clone + Sync,
{
    let selection = Selection::new(job, sequence, &compare);
    let count = selection.at_most(k)?;
    selection.passes(count, selection.chunk(count, 0), 0, each)
}

/// An item and its place: its grain's first position, and its number in the grain. The place
/// depends only on the sources.
type Placed<T> = (T, (u64, u64));

/// The items that a thread has kept.
struct Best<T> {
    items: Vec<Placed<T>>,
    /// The last of the first `k`, once there are that many.
    least: Option<Placed<T>>,
}

/// The largest items of a sequence, some of them at a time.
struct Selection<'a, S, C> {
    job: &'a Job,
    sequence: &'a S,
    sources: Vec<Source>,
    compare: &'a C,
}

impl<'a, S, C> Selection<'a, S, C>
where
    S: Sequence,
    S::Item: Clone + Sync,
    C: Fn(&S::Item, &S::Item) -> Ordering + Sync,
{
    const KEPT_BYTES: u64 = size_of::<Placed<S::Item>>() as u64;

    fn new(job: &'a Job, sequence: &'a S, compare: &'a C) -> Self {
        let mut sources = Vec::new();
        sequence.sources(&mut sources);
        Selection {
            job,
            sequence,
            sources,
            compare,
        }
    }

    /// Limits `k` to the number of items that there can be.
    fn at_most(&self, k: u64) -> Result<u64> {
        match S::YIELD {
            Yield::Any => Ok(k),
            Yield::One | Yield::AtMostOne => Ok(k.min(self.open(0, 0)?.count())),
        }
    }

    /// A pass that keeps `k` items twice per thread and once more, besides `held_bytes`.
    fn open(&self, k: u64, held_bytes: u64) -> Result<Pass<'a>> {
        // More than any memory, but sums of it do not overflow.
        let most = |bytes: u64| bytes.min(1 << 48);
        let kept_bytes = most(k.saturating_mul(2 * Self::KEPT_BYTES));
        let demand = Demand {
            thread_bytes: kept_bytes,
            fixed_bytes: kept_bytes + most(held_bytes),
            ..Demand::default()
        };
        Pass::open(self.job, &self.sources, Lanes::Drives, demand)
    }

    /// How many of `k` items to select in one pass, with `held_bytes` of memory for others.
    fn chunk(&self, k: u64, held_bytes: u64) -> u64 {
        let threads = self.job.options.threads.max(1) as u64;
        let free_bytes = (self.job.budget.free_bytes() / 4 * 3).saturating_sub(held_bytes);
        k.min(free_bytes / (2 * Self::KEPT_BYTES * (threads + 1)))
    }

    /// As many passes as needed, each of at most `chunk` items, besides `held_bytes`.
    fn passes(
        &self,
        k: u64,
        mut chunk: u64,
        held_bytes: u64,
        mut each: impl FnMut(S::Item) -> Result<()>,
    ) -> Result<Summary> {
        let (mut last, mut found) = (None, 0);
        let mut total: Option<Summary> = None;
        loop {
            chunk = chunk.clamp(1, (k - found).max(1));
            let pass = match self.open(chunk, held_bytes) {
                // Buffers took more memory than was left for them.
                Err(error) if error.kind() == Kind::Memory && chunk > 1 => {
                    chunk /= 2;
                    continue;
                }
                opened => opened?,
            };
            let wanted = chunk.min(k - found);
            let (end, mut summary) = self.pass(&pass, wanted as usize, last.as_ref(), &mut each)?;
            let is_over = summary.records < wanted || found + summary.records == k;
            found += summary.records;
            summary.records = found;
            let all = match total.take() {
                None => summary,
                Some(before) => before.and(summary),
            };
            if is_over {
                return Ok(all);
            }
            (last, total) = (end, Some(all));
        }
    }

    /// Whether `a` comes before `b` in the result.
    fn rank(&self, a: &Placed<S::Item>, b: &Placed<S::Item>) -> Ordering {
        (self.compare)(&b.0, &a.0).then_with(|| a.1.cmp(&b.1))
    }

    /// Passes on the first `k` items that come after `behind`, in order, and returns the last of
    /// them.
    fn pass(
        &self,
        pass: &Pass<'_>,
        k: usize,
        behind: Option<&Placed<S::Item>>,
        mut each: impl FnMut(S::Item) -> Result<()>,
    ) -> Result<(Option<Placed<S::Item>>, Summary)> {
        if k == 0 {
            return Ok((None, pass.summary(0, 0)));
        }
        pass.begin_phase("top", Forecast::NOTHING);
        let shrink = |best: &mut Vec<Placed<S::Item>>| {
            if best.len() > k {
                best.select_nth_unstable_by(k - 1, |a, b| self.rank(a, b));
                best.truncate(k);
            }
        };
        let grain = pass.pieces.sources.grain() as usize;
        let all = Mutex::new(Vec::new());
        let begin = || {
            Ok(Best {
                items: Vec::new(),
                least: None,
            })
        };
        let visit = |best: &mut Best<S::Item>, batch: Batch<'_>| {
            for from in (0..batch.count).step_by(grain) {
                let part = batch.part(from, grain.min(batch.count - from));
                for (number, item) in self.sequence.iter(part).enumerate() {
                    let item = (item, (part.first, number as u64));
                    let is_late = |least| self.rank(&item, least).is_gt();
                    let is_done = |behind| self.rank(&item, behind).is_le();
                    if best.least.as_ref().is_some_and(is_late) || behind.is_some_and(is_done) {
                        continue;
                    }
                    let len = best.items.len();
                    if len == best.items.capacity() {
                        // Never more than planned.
                        best.items.reserve_exact(len.max(64).min(2 * k - len));
                    }
                    best.items.push(item);
                    if best.items.len() >= 2 * k {
                        shrink(&mut best.items);
                        best.least = best.items.get(k - 1).cloned();
                    }
                }
            }
            Ok(())
        };
        pass.each_piece(
            begin,
            |best, _, loaded| shield(|| visit(best, loaded.batch())),
            |mut best, _| {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                shield(|| {
                    shrink(&mut best.items);
                    all.reserve_exact(best.items.len());
                    all.append(&mut best.items);
                    shrink(&mut all);
                    Ok(())
                })
            },
        )?;
        pass.check_sources()?;
        let mut best = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        shield(|| {
            best.sort_unstable_by(|a, b| self.rank(a, b));
            Ok(())
        })?;
        let summary = pass.summary(best.len() as u64, 0);
        let last = best.last().cloned();
        best.into_iter().try_for_each(|(item, _)| each(item))?;
        Ok((last, summary))
    }
}

fn too_many(k: u64, result_bytes: u64, job: &Job) -> Error {
    let cause = format!(
        "the {k} largest items, {} in all, must fit in memory together with the candidates; only \
         {} are allowed",
        units::bytes(result_bytes),
        units::bytes(job.budget.limit_bytes()),
    );
    Error::new(Kind::Memory, "keep the largest", cause).hint(
        "allow more memory; or sort them on the drives, the largest first, and take the first",
    )
}

/// Counts how many items `bin` puts into each of `bins`; items for which it returns `None` are not
/// counted.
///
/// # Errors
/// [`crate::Kind::Usage`] for a bin that does not exist; the errors of [`reduce`](super::reduce()).
pub fn histogram<S: Sequence>(
    job: &Job,
    sequence: &S,
    bins: usize,
    bin: impl Fn(&S::Item) -> Option<usize> + Sync,
) -> Result<(Vec<u64>, Summary)> {
    let demand = Demand {
        thread_bytes: bins as u64 * 8,
        fixed_bytes: bins as u64 * 8,
        ..Demand::default()
    };
    let mut sources = Vec::new();
    sequence.sources(&mut sources);
    let pass = Pass::open(job, &sources, Lanes::Drives, demand)?;
    pass.begin_phase("histogram", Forecast::NOTHING);
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

/// The error for a bin or bucket that does not exist.
pub(crate) fn no_bin(bin: usize, bins: usize) -> Error {
    Error::usage(
        "choose bucket",
        format!(
            "the function returned {bin}, but {}",
            match bins {
                1 => "there is 1 bucket".to_string(),
                _ => format!("there are {bins} buckets"),
            }
        ),
    )
    .hint(
        "buckets are counted from 0; allow more of them, or take the number modulo the number of \
         buckets",
    )
}
