//! What the threads of a sort of lines share.
//!
//! Contract: all of it lives as long as the sort and is reached by shared reference; what changes
//! does so by its own lock or counter.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::distribute::By;
use super::plan::{LinePlan, SORTING};
use super::{LineSortOptions, OnNoKey};
use crate::algo::crew::Crew;
use crate::algo::load::LoadFrom;
use crate::algo::shared::LazyScratch;
use crate::algo::spill::{SpillSizes, SpillTo};
use crate::data::lines::{LineOrder, LineTie, NoKey};
use crate::drive::Op;
use crate::error::{Error, Kind, Result};
use crate::job::Job;
use crate::memory::{Budget, Pool, block_ceil, block_floor};
use crate::stream::source::InputPart;
use crate::volume::Volume;

/// What all threads of a sort of lines share.
pub(super) struct Context<'a> {
    pub(super) job: &'a Job,
    pub(super) volume: &'a Volume,
    pub(super) scratch: &'a LazyScratch<'a>,
    pub(super) order: &'a dyn LineOrder,
    pub(super) options: LineSortOptions,
    pub(super) plan: &'a LinePlan,
    pub(super) parts: &'a [InputPart],
    pub(super) segment_pool: Pool,
    /// Segments that may still stay in memory.
    pub(super) resident_credit: AtomicI64,
    /// Seeds the checksums of this run's scratch.
    pub(super) run: u64,
    /// The threads, which stop together.
    pub(super) crew: Crew<'a>,
    /// Lines left out for having no key.
    pub(super) skipped: AtomicU64,
}

impl Context<'_> {
    /// Whether lines are their own keys.
    pub(super) fn is_whole(&self) -> bool {
        self.order.is_whole_line()
    }

    /// What decides about a line's bucket.
    pub(super) fn by(&self) -> By {
        match self.is_whole() {
            true => By::Line,
            false => By::Key,
        }
    }

    /// Whether the place of lines in the input is kept.
    pub(super) fn is_ordered(&self) -> bool {
        !self.is_whole() && self.order.tie() == LineTie::Position
    }

    /// Whether one line a key is written.
    pub(super) fn is_unique(&self) -> bool {
        self.options.unique || self.options.count
    }

    /// Memory in which buckets may be sorted now.
    pub(super) fn sorting_bytes(&self) -> u64 {
        self.job.budget.left_bytes(SORTING)
    }

    /// How a first distribution writes, keeping nothing in memory.
    pub(super) fn spill_sizes(&self) -> SpillSizes {
        SpillSizes {
            segment_bytes: self.plan.segment_bytes,
            extent_segments: self.plan.extent_segments,
            expected_segments: self.plan.expected_segments(),
            writes_in_flight: self.plan.writes_in_flight,
            resident_below: 0,
            is_split: false,
        }
    }

    /// Where a worker's segments go.
    pub(super) fn spill_to(&self, sizes: SpillSizes) -> SpillTo<'_> {
        SpillTo {
            volume: self.volume,
            scratch: self.scratch,
            pool: &self.segment_pool,
            resident_credit: &self.resident_credit,
            run: self.run,
            sizes,
        }
    }

    /// Where buckets are loaded from.
    pub(super) fn load_from(&self) -> LoadFrom<'_> {
        LoadFrom {
            volume: self.volume,
            scratch: self.scratch,
            run: self.run,
            full_bytes: 0,
        }
    }

    /// Runs `work` on every thread; gives all results in the order of the threads, or the failure
    /// that came first.
    pub(super) fn on_all_threads<T: Send>(
        &self,
        work: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let results = Mutex::new(Vec::new());
        self.crew.run(|index| {
            let result = work(index)?;
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((index, result));
            Ok(())
        })?;
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(index, _)| *index);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    /// A line without a key, which begins at byte `at_bytes` of the data of `part`: counted or an
    /// error, as asked for.
    pub(super) fn no_key(&self, part: usize, at_bytes: u64, why: &NoKey) -> Result<()> {
        if self.options.on_no_key == OnNoKey::Skip {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        Err(keyless(
            self.job,
            self.volume,
            &self.parts[part],
            self.options,
            at_bytes,
            why,
        ))
    }
}

/// The error for a line without a key, which names file and line.
pub(super) fn keyless(
    job: &Job,
    volume: &Volume,
    part: &InputPart,
    options: LineSortOptions,
    at_bytes: u64,
    why: &NoKey,
) -> Error {
    match line_number(job, volume, part, options, at_bytes) {
        Ok(number) => keyless_line(part, number, why),
        Err(error) => error,
    }
}

/// The same for a line whose number is known.
pub(super) fn keyless_line(part: &InputPart, number: u64, why: &NoKey) -> Error {
    let cause = format!("line {number} has no key: {}", why.0);
    Error::new(Kind::Corrupt, "read lines", cause)
        .path(&part.file.path)
        .hint("correct the line, or leave such lines out with --on-error skip")
}

/// The number, from 1, of the line that begins at byte `at_bytes` of the data of `part`, counted in
/// the whole file, a header included. Reads it up to there; only what is about to fail asks.
pub(crate) fn line_number(
    job: &Job,
    volume: &Volume,
    part: &InputPart,
    options: LineSortOptions,
    at_bytes: u64,
) -> Result<u64> {
    const READ_BYTES: u64 = 256 << 10;
    // What fails may have taken all memory that there is.
    let pool = Pool::new(
        &Budget::new(READ_BYTES),
        "count lines",
        READ_BYTES as usize,
        1,
    )?;
    let mut port = volume.port()?;
    let mut finished = Vec::new();
    let mut number = 1;
    let (mut at, end) = (0, part.data_at_bytes + at_bytes);
    while at < end {
        job.control.check()?;
        let from = block_floor(at);
        let to = block_ceil(end).min(from + READ_BYTES);
        let Some(mut slot) = pool.take() else { break };
        let buf = slot.split_to((to - from) as usize);
        drop(slot);
        port.submit(&part.file, Op::Read, from, buf, 0);
        while finished.is_empty() {
            port.poll(true, &mut finished)?;
        }
        for transfer in finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(volume.explain(&fault));
            }
            let here = (at - from) as usize;
            let there = ((to.min(end) - from) as usize).min(transfer.len_bytes);
            let bytes = &transfer.buf[here.min(there)..there];
            let (end, inner_end) = (options.terminator, options.inner_end);
            number += memchr::memchr_iter(end, bytes).count() as u64;
            let inner_end = inner_end.filter(|inner_end| *inner_end != end);
            number += inner_end.map_or(0, |end| memchr::memchr_iter(end, bytes).count() as u64);
        }
        at = to;
    }
    Ok(number)
}
