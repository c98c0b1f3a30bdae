//! State that the threads of a sort of lines share, and the lines that errors refer to.
//!
//! Contract: the order, the options and the inputs (which errors name), in addition to the
//! [`Partition`]. This state lives as long as the sort and is accessed by shared reference.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::{LinePlan, SORTING};
use super::rows::RowSink;
use super::{LineSortOptions, OnNoKey};
use crate::job::Job;
use crate::key::sort_key::{NoKey, SortKey, Tie};
use crate::partition::Partition;
use crate::read::framing::ItemFraming;
use crate::read::source::InputPart;
use crate::read_back::Tally;
use outcore_io::memory::{Budget, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::{Error, Kind, Result};

/// State that all threads of a sort of lines share.
pub(super) struct Context<'a> {
    pub(super) partition: Partition<'a>,
    pub(super) order: &'a dyn SortKey,
    pub(super) options: LineSortOptions,
    /// How items are stored one after another.
    pub(super) framing: ItemFraming,
    pub(super) plan: &'a LinePlan,
    pub(super) parts: &'a [InputPart],
    /// Receives the sorted rows; `None` if an output is written.
    pub(super) rows: Option<&'a dyn RowSink>,
    /// Number of lines skipped because they have no key.
    pub(super) skipped: AtomicU64,
    /// For two compared sides: lines only in the first, only in the second, in both.
    pub(super) sides: [AtomicU64; 3],
    /// Sums the lines that are read, if the output contains all lines and is read back.
    pub(super) read: Option<&'a Tally>,
    /// Sums the lines that are kept, if lines are omitted.
    pub(super) kept: Option<&'a Tally>,
}

impl<'a> Deref for Context<'a> {
    type Target = Partition<'a>;

    fn deref(&self) -> &Partition<'a> {
        &self.partition
    }
}

impl Context<'_> {
    /// Whether lines are their own keys.
    pub(super) fn is_whole(&self) -> bool {
        self.order.is_item()
    }

    /// Whether the input positions of lines are kept.
    pub(super) fn is_ordered(&self) -> bool {
        !self.is_whole() && self.order.tie() == Tie::Position
    }

    /// Whether one line per key is written.
    pub(super) fn is_unique(&self) -> bool {
        self.options.is_unique()
    }

    /// Memory in which buckets may be sorted now.
    pub(super) fn sorting_bytes(&self) -> u64 {
        self.job.budget.left_bytes(SORTING)
    }

    /// Handles a line without a key: counts it or returns an error, according to the options.
    /// Ignores a blank line that is not a record. For a line that was read, `place` is its part and
    /// its first byte in the data of that part.
    pub(super) fn no_key(&self, place: Option<(usize, u64)>, why: &NoKey) -> Result<()> {
        let Some((part, at_bytes)) = place else {
            let cause = format!("a row has no key: {}", why.0);
            return Err(
                Error::new(Kind::Corrupt, "make a key", cause).hint("check what makes the rows")
            );
        };
        if why.is_blank() {
            return Ok(());
        }
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

/// The error for a line without a key, with file and line number.
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

/// The error for a line without a key, whose number is known.
pub(super) fn keyless_line(part: &InputPart, number: u64, why: &NoKey) -> Error {
    let cause = format!("line {number} has no key: {}", why.0);
    Error::new(Kind::Corrupt, "read lines", cause)
        .path(&part.file.path)
        .hint("correct the line, or leave such lines out with --on-error skip")
}

/// The number, from 1, of the line that begins at byte `at_bytes` of the data of `part`, counted in
/// the whole file including a header. Reads the file up to there, so it is only for jobs that are
/// about to fail.
pub(crate) fn line_number(
    job: &Job,
    volume: &Volume,
    part: &InputPart,
    options: LineSortOptions,
    at_bytes: u64,
) -> Result<u64> {
    const READ_BYTES: u64 = 256 << 10;
    const WINDOW: usize = 8;
    // The failing job may have taken all memory.
    let budget = Budget::new(WINDOW as u64 * READ_BYTES);
    let pool = Pool::new(&budget, "count lines", READ_BYTES as usize, WINDOW)?;
    let (terminator, inner_end) = (options.terminator, options.inner_end);
    let inner_end = inner_end.filter(|inner_end| *inner_end != terminator);
    let mut number = 1;
    let (mut at, end) = (0, part.data_at_bytes + at_bytes);
    let next = |_: &Port| {
        if at >= end {
            return None;
        }
        let from = block_floor(at);
        let to = block_ceil(end).min(from + READ_BYTES);
        let inside = (at - from) as usize..(to.min(end) - from) as usize;
        at = to;
        Some(ReadRange {
            file: &part.file,
            at_bytes: from,
            len_bytes: (to - from) as usize,
            what: inside,
        })
    };
    let count = |read: Arrival<Range<usize>>| {
        for end in [Some(terminator), inner_end].into_iter().flatten() {
            number += memchr::memchr_iter(end, &read.buf[read.what.clone()]).count() as u64;
        }
        Ok(())
    };
    Transfers::new(volume)?.read_each(&pool, || job.control.check(), next, count)?;
    Ok(number)
}
