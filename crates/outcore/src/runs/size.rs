//! The parameters of a view's plan. Pure, except for the sample of lines.
//!
//! Contract: a sample shows the lengths of lines and rows; all reservations for them follow from
//! these lengths.

use std::ops::Deref;
use std::sync::Arc;

use super::SPARE_SLOTS;
use super::fetch::slack_bytes;
use super::shape::entry_bytes;
use super::types::{BuildOptions, LineType};
use crate::ends::{Input, open_inputs};
use crate::job::{Job, JobSize};
use crate::merge::item_rule::PREFIX_WORDS;
use crate::sort::in_memory::entries_bytes;
use crate::sort::lines::{KEY_HEAD_BYTES, LineSize, REF_BYTES, sample_lengths};
use crate::sort::radix::numbers_space_bytes;
use outcore_io::Result;
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, block_ceil};
use outcore_io::port::Volume;

const LINE_BUFFER_BYTES_MAX: u64 = 1 << 20;
/// The share of the memory that the longest line may take, as in a sort of lines.
const LINE_SHARE: u64 = 32;
const LINE_BYTES_MIN: u64 = 64 << 10;
/// Number of runs that are merged easily: up to this number, shorter runs are sorted faster, in
/// less memory, and sooner.
const EASY_RUNS: u64 = 64;
/// Runs of at most this length are not shortened.
const EASY_RUN_BYTES_MIN: u64 = 16 << 20;
/// References to lines beyond the number that the mean length predicts.
const LINES_SPARE: u64 = 1024;
/// Mean-length lines in the run from which the space per MiB is computed.
const LINES_SEEN: u64 = 16;
/// Largest number of key bytes per spare reference.
const KEY_BYTES_SPARE: u64 = 256;

/// The parameters of a view's plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewSize {
    /// The size of the job.
    pub job: JobSize,
    /// Size of a record; 1 for lines and rows.
    pub record_bytes: usize,
    /// Whether records are scalars.
    pub is_scalar: bool,
    /// Lengths of lines or rows, if records are lines or rows.
    pub lines: Option<LineLengths>,
    /// Whether runs that fit stay in memory, for the next read of the view.
    pub keeps_runs: bool,
    /// A requested run size, in place of the largest that fits.
    pub run_bytes: Option<u64>,
}

/// Lengths of lines or rows from a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLengths {
    /// Bytes of a line with its terminator, or of a row with its length.
    pub line_bytes: u64,
    /// Bytes of a key, unless the line is its own key.
    pub key_bytes: Option<u64>,
    /// For generated rows: the bytes that are read to generate them.
    pub made_of_bytes: Option<u64>,
    /// The longest line if it was measured, or the longest row if it is known: there is room for
    /// it.
    pub longest_bytes: Option<u64>,
}

impl LineLengths {
    pub(super) fn of(size: &LineSize) -> Self {
        LineLengths {
            line_bytes: (size.line_bytes as u64).max(1),
            key_bytes: (size.key_bytes > 0.0).then(|| size.key_bytes.ceil() as u64),
            made_of_bytes: None,
            longest_bytes: None,
        }
    }

    /// Number of lines of a run that are sorted at once: more are sorted in several passes over it.
    pub(super) fn lines_max(&self, run_bytes: u64) -> u64 {
        run_bytes / 4 * 5 / self.line_bytes + LINES_SPARE
    }

    /// Bytes of the keys of these lines, which may include the key of the longest line.
    pub(super) fn keys_bytes_max(&self, run_bytes: u64) -> u64 {
        let Some(key_bytes) = self.key_bytes else {
            return 0;
        };
        let in_proportion = self.lines_max(run_bytes) - LINES_SPARE;
        let spare_bytes = LINES_SPARE * (key_bytes.min(KEY_BYTES_SPARE) + KEY_HEAD_BYTES);
        let longest = self.longest_bytes.unwrap_or(0);
        let is_row = self.made_of_bytes.is_some();
        let longest_bytes = key_room_bytes(longest as usize, is_row) as u64;
        in_proportion * (key_bytes + KEY_HEAD_BYTES) + spare_bytes + longest_bytes
    }
}

/// Room in which the key of an item of this length is made: for a row, the key is a part of it.
pub(super) const fn key_room_bytes(item_bytes: usize, is_row: bool) -> usize {
    let times = if is_row { 1 } else { 2 };
    times * item_bytes + 64
}

/// The parameters of a plan, from a sample of the lines of `inputs`.
///
/// # Errors
/// The errors of opening and reading the inputs.
pub fn size_of_lines(
    job: &Job,
    inputs: &[Input],
    lines: &LineType,
    options: BuildOptions,
) -> Result<ViewSize> {
    let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    let sampled = sample_lengths(job, &volume, &parts, &*lines.order, lines.terminator)?;
    Ok(ViewSize {
        lines: Some(LineLengths::of(&sampled)),
        job: sampled.job,
        record_bytes: 1,
        is_scalar: false,
        keeps_runs: options.keeps_runs,
        run_bytes: options.run_bytes,
    })
}

impl Deref for ViewSize {
    type Target = JobSize;

    fn deref(&self) -> &JobSize {
        &self.job
    }
}

impl ViewSize {
    /// Space for sorting this many bytes, in addition to the data.
    pub(super) fn sort_space_bytes(&self, run_bytes: u64) -> u64 {
        match (&self.lines, self.is_scalar) {
            (Some(lines), _) => {
                REF_BYTES * lines.lines_max(run_bytes) + lines.keys_bytes_max(run_bytes)
            }
            (None, true) => block_ceil(numbers_space_bytes(run_bytes, self.record_bytes)),
            (None, false) => entries_bytes(run_bytes / self.record_bytes as u64),
        }
    }

    /// The additional space per MiB of a run, to within some KiB.
    pub(super) fn mib_space_bytes(&self) -> u64 {
        // A few more numbers than these are split into twice as many parts. A run of this length
        // contains some lines, however long they are.
        let lines_bytes = self
            .lines
            .map_or(0, |lines| LINES_SEEN.saturating_mul(lines.line_bytes));
        let dear_bytes = lines_bytes.clamp(16 << 20, 1 << 50) + BLOCK_BYTES as u64;
        let space_bytes = self.sort_space_bytes(dear_bytes) - self.sort_space_bytes(0);
        space_bytes.div_ceil(dear_bytes >> 20)
    }

    /// Bytes of an index entry.
    pub(super) fn entry_bytes(&self) -> u64 {
        entry_bytes(self.lines.map_or(1, |_| PREFIX_WORDS)) as u64
    }

    /// A slot for one block of `block_records`.
    pub(super) fn slot_bytes(&self, block_records: u64) -> u64 {
        let block_bytes = block_records * self.record_bytes as u64;
        let is_aligned = self.lines.is_none() && block_bytes.is_multiple_of(BLOCK_BYTES as u64);
        // A block of lines is longer than its units by one line.
        let share_bytes = self.memory_bytes / 128;
        let more_bytes = self.lines.map_or(0, |lines| {
            block_bytes.max((2 * lines.line_bytes).min(share_bytes))
        });
        block_bytes + more_bytes + slack_bytes(is_aligned) as u64
    }

    /// Whether runs may be shorter than memory allows, because no size was requested.
    pub(super) fn has_easy_runs(&self) -> bool {
        self.is_scalar && !self.keeps_runs && self.run_bytes.is_none()
    }

    /// Records per run for data that fill all areas several times, if a run may have `run_records`.
    /// There are fewer if 1.5 times as many runs, at most [`EASY_RUNS`], can be read in a small
    /// part of the memory. A seek reads a block of each run.
    ///
    /// N.B. moderately shorter runs of numbers take less processor time and leave memory for more
    /// areas; still shorter ones gain nothing. Lines gain nothing, and are merged more slowly
    /// (docs/decisions/0022).
    pub(super) fn easy_run_records(&self, slot_bytes: u64, run_records: u64) -> u64 {
        let record_bytes = self.record_bytes as u64;
        let longest_runs = self.data_bytes.div_ceil(run_records * record_bytes);
        let runs = (longest_runs + longest_runs / 2).min(EASY_RUNS);
        let reader_bytes = (2 * runs + SPARE_SLOTS as u64) * slot_bytes;
        if reader_bytes > self.memory_bytes / 32 {
            return run_records;
        }
        let run_bytes = self.data_bytes.div_ceil(runs).max(EASY_RUN_BYTES_MIN);
        run_records.min(run_bytes.div_ceil(record_bytes))
    }

    /// The longest line.
    pub(super) fn line_bytes_max(&self) -> u64 {
        let least_bytes = LINE_BYTES_MIN.max(self.longest_bytes() + 1);
        (self.memory_bytes / LINE_SHARE).max(least_bytes)
    }

    /// The longest line, if it was measured.
    pub(super) fn longest_bytes(&self) -> u64 {
        let lines = self.lines.as_ref();
        lines.and_then(|lines| lines.longest_bytes).unwrap_or(0)
    }

    /// Size of a buffer for sorted lines.
    pub(super) fn line_buffer_bytes(&self) -> usize {
        (self.memory_bytes / 128).clamp(64 << 10, LINE_BUFFER_BYTES_MAX) as usize
    }
}
