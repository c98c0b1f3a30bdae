//! Divides the memory of a job on rows with long values. Computes how many threads the memory is
//! enough for, and how much memory would be enough.
//!
//! Contract: [`RowCosts`] lists the copies of the longest row in memory: those while a job makes
//! the row, and those while it takes the row in order. [`Room::shapes`] divides the memory,
//! including the engine's, among as many threads as it is enough for. So a plan reserves what the
//! run uses, and a job with too little memory reports that before it reads its rows.
//! [`Room::named`] reports enough memory: the least for which the same division works. If no values
//! are long, each thread has a fixed part of the memory.
//!
//! Complexity: a plan of the engine for each memory size and number of threads that is tried.

use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use outcore::Job;
use outcore::job::{DriveRates, JobSize, Layout};
use outcore::sort::lines::rows::LongRow;
use outcore::sort::lines::{LineSize, LongLine};
use outcore_io::memory::allow_hint;
use outcore_io::{Error, Kind, Result};

use super::rows_in::{ReadShape, read_shape_of, with_room};
use super::rows_out::WriteShape;
use crate::input::{InputNeed, TableInput};
use crate::output::{OutputOptions, SINK_BYTES};
use crate::rows::RowCodec;

/// Memory sizes are tried and reported in these steps.
const STEP_BYTES: u64 = 16 << 20;
/// The search for enough memory stops here, because a damaged footer may state any size.
const MOST_BYTES: u64 = 1 << 50;
/// The most batches of usual length that a thread makes or takes at once.
const BATCHES: u64 = 10;
/// The most memory of a thread for groups, for any length of rows.
const TABLES_BYTES: u64 = 5 << 20;
/// If a piece is larger than 1/`PIECE_SHARE` of the memory, pieces count as a cause of too little
/// memory.
const PIECE_SHARE: u64 = 8;

/// A thread's memory for the longest row; all fields are 0 if no values are long.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowCosts {
    /// Memory while it makes the row, in addition to the reader's batch.
    pub(super) made_bytes: u64,
    /// Memory while it takes the row, in addition to its encoded form.
    pub(super) taken_bytes: u64,
    /// Bytes of the row in the output.
    pub(super) written_bytes: u64,
    /// The row as the engine sorts it.
    pub(super) longest: Option<LongRow>,
    /// Whether one row of each key is written.
    pub(super) is_unique: bool,
    /// Whether all rows of a key are taken together.
    pub(super) is_grouped: bool,
    /// Memory of a thread for rows that it has not passed on, such as groups.
    pub(super) held_bytes: u64,
    /// The job keeps 1/`kept_share` of the memory in addition; 0 for none.
    pub(super) kept_share: u64,
}

/// How the rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sorts {
    /// By a sort of rows.
    Whole,
    /// By a view, in runs.
    Runs,
    /// Not at all.
    Nothing,
}

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub(super) job: &'a Job,
    pub(super) need: InputNeed,
    /// The schema and options of the output, if a table is written.
    pub(super) written: Option<(&'a SchemaRef, &'a OutputOptions)>,
    pub(super) costs: RowCosts,
    /// Approximate bytes of all rows.
    pub(super) data_bytes: u64,
    pub(super) sorts: Sorts,
}

/// The length of a long value in arrow-row's form, which splits strings into blocks of 32 bytes.
pub(super) fn as_key(long_bytes: u64) -> u64 {
    match long_bytes {
        0 => 0,
        bytes => bytes.saturating_add(bytes / 32 + 64),
    }
}

/// How many copies of a decoded value are briefly in memory; dictionaries and views are built from
/// plain values.
pub(super) fn arrays_times(schema: &Schema) -> u64 {
    fn is_made(data_type: &DataType) -> bool {
        match data_type {
            DataType::Dictionary(..) | DataType::Utf8View | DataType::BinaryView => true,
            DataType::Struct(fields) => fields.iter().any(|field| is_made(field.data_type())),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _) => is_made(field.data_type()),
            _ => false,
        }
    }
    let mut fields = schema.fields().iter();
    1 + u64::from(fields.any(|field| is_made(field.data_type())))
}

impl RowCosts {
    /// Whether values are long.
    fn is_long(&self) -> bool {
        self.made_bytes > 0
    }

    /// The costs of rows of `input` in the form of `codec`, with values of `long_bytes` in the
    /// longest row.
    pub(super) fn of_columns(input: &TableInput, codec: &RowCodec, long_bytes: u64) -> Self {
        let key_bytes = as_key(input.long_bytes_of(&codec.key_names()));
        let row_bytes = match codec.repeats_keys() {
            true => long_bytes.saturating_add(key_bytes),
            false => as_key(long_bytes),
        };
        let times = arrays_times(input.schema());
        let made = [row_bytes, key_bytes, long_bytes.saturating_mul(times - 1)];
        RowCosts {
            made_bytes: made.into_iter().fold(0, u64::saturating_add),
            taken_bytes: long_bytes.saturating_mul(times),
            written_bytes: long_bytes,
            longest: Some(LongRow {
                row_bytes,
                key_bytes,
            }),
            ..RowCosts::default()
        }
    }
}

impl Room<'_> {
    /// Divides the memory into shares for reading and writing.
    pub(super) fn shapes(&self) -> (ReadShape, WriteShape) {
        let memory_bytes = self.job.budget.free_bytes();
        let most = self.threads_max(memory_bytes);
        let halves =
            std::iter::successors(Some(most), |&threads| (threads > 1).then_some(threads / 2));
        let threads = match self.costs.is_long() {
            false => most,
            true => {
                let mut halves = halves;
                let found = halves.find(|&threads| self.holds(memory_bytes, threads));
                found.unwrap_or(1)
            }
        };
        self.shapes_in(memory_bytes, threads)
    }

    /// Whether the memory holds the least need.
    pub(super) fn is_enough(&self) -> bool {
        self.holds(self.job.budget.free_bytes(), 1)
    }

    /// If the error is too little memory, adds how much is enough. `known` returns the same room
    /// after an inspection of all pages and values of the input; it is used only if some of these
    /// are long.
    pub(super) fn named(error: Error, known: impl FnOnce() -> Result<Self>) -> Error {
        if error.kind() != Kind::Memory {
            return error;
        }
        let Ok(room) = known() else {
            return error;
        };
        let whole_bytes = room.job.options.memory_bytes;
        let is_paged = room.need.piece_bytes > whole_bytes / PIECE_SHARE;
        if !room.costs.is_long() && !is_paged {
            return error;
        }
        error.hint(format!(
            "{} or more, or leave long columns out",
            allow_hint(room.enough_bytes())
        ))
    }

    /// Returns the least memory that is enough for one thread; tries steps above the job's memory.
    pub(super) fn enough_bytes(&self) -> u64 {
        let whole_bytes = self.job.options.memory_bytes;
        let held_bytes = whole_bytes.saturating_sub(self.job.budget.free_bytes());
        let mut enough_bytes = whole_bytes;
        loop {
            let step_bytes = (enough_bytes / 32).max(STEP_BYTES);
            enough_bytes = (enough_bytes + step_bytes) / STEP_BYTES * STEP_BYTES;
            let memory_bytes = enough_bytes.saturating_sub(held_bytes);
            if enough_bytes >= MOST_BYTES || self.holds(memory_bytes, 1) {
                return enough_bytes;
            }
        }
    }

    /// The schema and options of the output.
    ///
    /// # Errors
    /// A bug: there is no output.
    pub(super) fn written(&self) -> Result<(&SchemaRef, &OutputOptions)> {
        self.written.ok_or_else(|| {
            Error::usage("write table", "the job has no output").hint("a bug: please report it")
        })
    }

    /// Memory of a thread to write a row group that contains the longest row.
    fn group_bytes(&self) -> u64 {
        let Some((schema, writes)) = self.written else {
            return 1;
        };
        let least_bytes = writes.group_min_bytes(schema).max(1);
        least_bytes.saturating_add(self.costs.written_bytes)
    }

    /// Memory to encode the longest row, in addition to the row group.
    fn encoder_bytes(&self) -> u64 {
        let encoder = self.written.map(|(_, writes)| writes.encoder_times());
        encoder
            .unwrap_or(0)
            .saturating_mul(self.costs.written_bytes)
    }

    /// The most threads for which half of the memory holds the readers, and half holds the row
    /// groups.
    fn threads_max(&self, memory_bytes: u64) -> usize {
        let writers = (memory_bytes / 2).saturating_sub(SINK_BYTES) / self.group_bytes();
        let reader_bytes = with_room(self.need.piece_bytes).saturating_add(self.costs.made_bytes);
        let reader_bytes = reader_bytes.saturating_add(self.costs.held_bytes);
        let readers = memory_bytes / 2 / reader_bytes;
        let threads = match self.written {
            Some(_) => readers.min(writers),
            None => readers,
        };
        let threads = usize::try_from(threads).unwrap_or(usize::MAX);
        threads.clamp(1, self.job.options.threads.max(1))
    }

    /// Divides this memory among this many threads: reading and writing each get a quarter of it,
    /// or at least what they need.
    fn shapes_in(&self, memory_bytes: u64, threads: usize) -> (ReadShape, WriteShape) {
        let reads = ReadShape {
            made_bytes: self.costs.made_bytes,
            longest: self.costs.longest,
            ..read_shape_of(memory_bytes, self.need, threads)
        };
        let group_min_bytes = match self.written {
            Some((schema, writes)) => writes.group_min_bytes(schema).max(1),
            None => 0,
        };
        let least_bytes = group_min_bytes * threads as u64 + SINK_BYTES;
        let output_bytes = self.group_bytes().saturating_mul(threads as u64) + SINK_BYTES;
        let output_bytes = output_bytes.min(memory_bytes / 2).max(least_bytes);
        let writes = WriteShape {
            writers_count: threads,
            output_bytes: match self.written {
                Some(_) => output_bytes.max(memory_bytes / 4),
                None => 0,
            },
            batch_bytes: reads.batch_bytes,
            taken_bytes: self.costs.taken_bytes.saturating_add(self.encoder_bytes()),
            longest_bytes: self.costs.longest.map_or(0, |longest| longest.row_bytes),
        };
        (reads, writes)
    }

    /// Whether this memory holds the long rows of this many threads.
    pub(super) fn holds(&self, memory_bytes: u64, threads: usize) -> bool {
        let (reads, writes) = self.shapes_in(memory_bytes, threads);
        let all = |each_bytes: u64| each_bytes.saturating_mul(threads as u64);
        let made_bytes = reads.made_bytes + BATCHES * reads.batch_bytes + TABLES_BYTES;
        let kept_bytes = match self.costs.kept_share {
            0 => 0,
            share => memory_bytes / share,
        };
        let source_bytes = all(reads.reader_bytes.saturating_add(made_bytes)) + kept_bytes;
        let taken_bytes = writes
            .taken_bytes
            .saturating_add(BATCHES * writes.batch_bytes);
        let sink_bytes = writes.output_bytes.saturating_add(all(taken_bytes));
        let group_bytes = writes.output_bytes.saturating_sub(SINK_BYTES) / threads as u64;
        // A view holds its sort buffers while rows are made.
        let beside_bytes = match self.sorts {
            Sorts::Whole => source_bytes.max(sink_bytes),
            Sorts::Runs | Sorts::Nothing => source_bytes,
        };
        self.need.piece_bytes <= reads.reader_bytes
            && (self.written.is_none() || self.group_bytes() <= group_bytes)
            && beside_bytes < memory_bytes
            && self.has_plan(memory_bytes - beside_bytes, threads)
    }

    /// Whether the engine can plan for rows of these lengths.
    fn has_plan(&self, memory_bytes: u64, threads: usize) -> bool {
        let longest = self.costs.longest.unwrap_or_default();
        let job = JobSize {
            data_bytes: self.data_bytes.max(longest.row_bytes),
            memory_bytes,
            held_bytes: 0,
            threads,
            drive_count: self.job.options.drives.len().max(1),
            layout: Arc::new(Layout::even(DriveRates::ASSUMED, 1)),
            costs: self.job.options.costs,
        };
        let (row_bytes, key_bytes) = (longest.row_bytes.max(64), longest.key_bytes.max(16));
        match self.sorts {
            Sorts::Whole => LineSize {
                job,
                line_bytes: row_bytes as f64,
                key_bytes: key_bytes as f64,
                distinct: None,
                is_ordered: true,
                is_unique: self.costs.is_unique,
                is_read: false,
                longest: self.costs.longest.map(|longest| LongLine {
                    bytes: longest.row_bytes,
                    key_bytes: longest.key_bytes,
                    is_grouped: self.costs.is_grouped,
                }),
                mark_bytes: 0,
                sampled_bytes: 0,
            }
            .has_plan(),
            Sorts::Nothing => true,
            Sorts::Runs => outcore::runs::has_plan_of_rows(outcore::runs::ViewSize {
                job,
                record_bytes: 1,
                is_scalar: false,
                lines: Some(outcore::runs::LineLengths {
                    line_bytes: row_bytes,
                    key_bytes: Some(key_bytes),
                    made_of_bytes: Some(0),
                    longest_bytes: self.costs.longest.map(|longest| longest.row_bytes),
                }),
                keeps_runs: false,
                run_bytes: None,
            }),
        }
    }
}
