//! What a view is made of and with: sizes that its plan depends on. Pure, but for the sample of
//! lines.
//!
//! Contract: how long lines and rows are is told by a sample; everything that is reserved by them
//! follows from these lengths.

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
/// Runs that are merged easily: while there are no more, shorter ones are sorted faster, in less
/// memory, and sooner.
const EASY_RUNS: u64 = 64;
/// Runs that are no longer are not shortened.
const EASY_RUN_BYTES_MIN: u64 = 16 << 20;
/// References to lines beyond those that the mean length predicts.
const LINES_SPARE: u64 = 1024;
/// Lines of the mean length in the run from which the space for a MiB is found.
const LINES_SEEN: u64 = 16;
/// Bytes of a key of each of these, at most.
const KEY_BYTES_SPARE: u64 = 256;

/// What a view is made of and with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ViewSize {
    /// How much there is to sort, and with what.
    pub job: JobSize,
    /// Size of a record; 1 for lines and rows.
    pub record_bytes: usize,
    /// Whether records are scalars.
    pub is_scalar: bool,
    /// How long lines or rows are, if records are some.
    pub lines: Option<LineLengths>,
    /// Keep in memory what fits, for who reads the view next.
    pub keeps_runs: bool,
    /// Runs of that size instead of the largest that fit.
    pub run_bytes: Option<u64>,
}

/// Lengths of lines or rows, as a sample tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLengths {
    /// Bytes of a line with its terminator, or of a row with its length.
    pub line_bytes: u64,
    /// Bytes of a key, if that is not the line.
    pub key_bytes: Option<u64>,
    /// Of rows that somebody makes: the bytes that are read for them.
    pub made_of_bytes: Option<u64>,
    /// The longest line where it was measured, or row where that is known: there is room for it.
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

    /// Lines of a run that are sorted at once: more are sorted in several passes over it.
    pub(super) fn lines_max(&self, run_bytes: u64) -> u64 {
        run_bytes / 4 * 5 / self.line_bytes + LINES_SPARE
    }

    /// Bytes of their keys, among which there may be that of the longest.
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

/// Room in which the key of an item of this length is made: that of a row is a part of it.
pub(super) const fn key_room_bytes(item_bytes: usize, is_row: bool) -> usize {
    let times = if is_row { 1 } else { 2 };
    times * item_bytes + 64
}

/// Looks into the lines of `inputs` for what a plan has to know.
///
/// # Errors
/// What opening and reading the inputs fails with.
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
        job: sampled.job,
        record_bytes: 1,
        is_scalar: false,
        lines: Some(LineLengths::of(&sampled)),
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
    /// Space that a sort of this many bytes needs beside the data.
    pub(super) fn sort_space_bytes(&self, run_bytes: u64) -> u64 {
        match (&self.lines, self.is_scalar) {
            (Some(lines), _) => {
                REF_BYTES * lines.lines_max(run_bytes) + lines.keys_bytes_max(run_bytes)
            }
            (None, true) => block_ceil(numbers_space_bytes(run_bytes, self.record_bytes)),
            (None, false) => entries_bytes(run_bytes / self.record_bytes as u64),
        }
    }

    /// What a MiB of a run adds to that, within some KiB.
    pub(super) fn mib_space_bytes(&self) -> u64 {
        // A few more numbers than these are split into twice as many parts. A run of
        // this length holds some lines, however long they are.
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
        // A block of lines is longer than its units by a line.
        let share_bytes = self.memory_bytes / 128;
        let more_bytes = self.lines.map_or(0, |lines| {
            block_bytes.max((2 * lines.line_bytes).min(share_bytes))
        });
        block_bytes + more_bytes + slack_bytes(is_aligned) as u64
    }

    /// Whether runs may be shorter than the memory allows, since nobody asks for others.
    pub(super) fn has_easy_runs(&self) -> bool {
        self.is_scalar && !self.keeps_runs && self.run_bytes.is_none()
    }

    /// Numbers of a run of data that fill all areas several times, if a run may have `run_records`:
    /// fewer where half as many runs more, and [`EASY_RUNS`] at most, are read in a little of the
    /// memory. A seek looks at a block of each run.
    ///
    /// N.B. 2 GiB of u64 in 512 MiB take a sixth less processor time in 64 runs than in 43, and
    /// leave memory for half as many areas more; runs of 16 and 24 MiB gain no more. Lines gain
    /// nothing, and are merged more slowly (docs/decisions/0022).
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

    /// The longest line, where it was measured.
    pub(super) fn longest_bytes(&self) -> u64 {
        let lines = self.lines.as_ref();
        lines.and_then(|lines| lines.longest_bytes).unwrap_or(0)
    }

    /// Size of a buffer for sorted lines.
    pub(super) fn line_buffer_bytes(&self) -> usize {
        (self.memory_bytes / 128).clamp(64 << 10, LINE_BUFFER_BYTES_MAX) as usize
    }
}
