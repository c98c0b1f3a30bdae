//! Sorts tables by columns, and keeps one row per key.
//!
//! Contract: [`Rows`] passes the rows of every job through the engine: it divides the memory, sorts
//! and publishes the output. A sort by columns is one of these jobs. [`super::rows_in`] and
//! [`super::rows_out`] do the work.

use std::ops::ControlFlow;
use std::path::PathBuf;

use arrow_schema::SchemaRef;
use outcore::Job;
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::sort::lines::rows::{RowSink, RowSource};
use outcore::sort::lines::{LineSummary, RowJournal, RowSortOptions, sort_rows, sort_rows_with};
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};

use super::copy::written_forecast;
use super::journal::{self, scratch_dir};
use super::read_back::{self, Unchecked};
use super::room::{Room, RowCosts, Sorts, as_key};
use super::rows_in::{ReadShape, RowKeys, RowsIn, read_shape_of, with_room};
use super::rows_out::{RowsOut, WriteShape};
use super::tally::Tally;
use super::top::{KEYS_SHARE, TopIn, TopOut};
use super::{TableEnds, TableSummary, check_rows};
use crate::fault;
use crate::input::{InputNeed, InputOptions, TableInput};
use crate::output::{OutputOptions, StagedFile, TableOutput, WriterShape};
use crate::rows::{KeyColumn, RowCodec, key_of};

/// The order of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableOrder {
    /// The key columns, the most significant first. If empty, all columns in the order of the
    /// schema, ascending.
    pub keys: Vec<KeyColumn>,
    /// Whether rows with equal keys keep the order of the input. Otherwise they come in the order
    /// of their bytes, so that the output depends only on the rows.
    pub is_stable: bool,
    /// If `keys` is empty: all columns descend.
    pub is_descending: bool,
}

impl TableOrder {
    /// The columns of the order for a table of a schema.
    pub(super) fn columns_of(&self, schema: &SchemaRef) -> Vec<KeyColumn> {
        let mut keys = self.keys.clone();
        if keys.is_empty() {
            let fields = schema.fields().iter();
            keys.extend(fields.map(|field| KeyColumn {
                is_descending: self.is_descending,
                ..KeyColumn::new(field.name())
            }));
        }
        keys
    }
}

/// Sorts the rows of a table.
///
/// # Errors
/// As [`TableInput::open`], [`RowCodec::new`], [`TableOutput::create`] and [`sort_rows`]. On
/// failure, no file remains.
pub fn sort(job: &Job, ends: &TableEnds<'_>, order: &TableOrder) -> Result<TableSummary> {
    by_columns(job, ends, order, false)
}

/// Keeps the first row of each key in the input, in the order of the keys;
/// [`TableOrder::is_stable`] is ignored.
///
/// # Errors
/// As [`sort`]. Usage: several outputs, because the number of rows is not known in advance.
pub fn unique(job: &Job, ends: &TableEnds<'_>, order: &TableOrder) -> Result<TableSummary> {
    let order = TableOrder {
        is_stable: true,
        ..order.clone()
    };
    by_columns(job, ends, &order, true)
}

fn by_columns(
    job: &Job,
    ends: &TableEnds<'_>,
    order: &TableOrder,
    is_unique: bool,
) -> Result<TableSummary> {
    let choice = if is_unique { ", one row per key" } else { "" };
    let said = format!("by {}{choice}", said_of(order));
    let order_said = journal::option("order", said);
    let journal = journal::begin(job, ends, "sort of a table", vec![order_said])?;
    let job = &journal::job(job, journal.as_ref());
    let input = open(job, ends)?;
    let keys = order.columns_of(input.schema());
    let codec = codec_of(&input, &keys)?;
    let writes = OutputOptions {
        sorted_by: keys,
        ..ends.writes.clone()
    };
    let rows = Rows {
        input: &input,
        codec: &codec,
        keys: RowKeys::Columns,
        tie: match order.is_stable {
            true => Tie::Position,
            false => Tie::Bytes,
        },
        is_unique,
        first: None,
        columns: None,
    };
    rows.run(job, ends.outputs, &writes, journal)
}

/// An order in words.
fn said_of(order: &TableOrder) -> String {
    let tie = if order.is_stable { ", stable" } else { "" };
    let keys = order.keys.iter().map(KeyColumn::to_string);
    match (order.keys.is_empty(), order.is_descending) {
        (true, false) => format!("all columns{tie}"),
        (true, true) => format!("all columns, descending{tie}"),
        (false, _) => format!("{}{tie}", keys.collect::<Vec<_>>().join(",")),
    }
}

/// Writes the first `rows_count` rows of a stable [`sort`] by `keys`, or all rows if there are
/// fewer.
///
/// # Errors
/// As [`sort`]. Usage: no keys.
pub fn top(
    job: &Job,
    ends: &TableEnds<'_>,
    keys: &[KeyColumn],
    rows_count: u64,
) -> Result<TableSummary> {
    if keys.is_empty() {
        return Err(Error::usage("order rows", "no sort column is given")
            .hint("name a column, for example time:desc"));
    }
    let input = open(job, ends)?;
    let codec = codec_of(&input, keys)?;
    let writes = OutputOptions {
        sorted_by: keys.to_vec(),
        ..ends.writes.clone()
    };
    let rows = Rows {
        input: &input,
        codec: &codec,
        keys: RowKeys::Columns,
        tie: Tie::Position,
        is_unique: false,
        first: Some(rows_count),
        columns: None,
    };
    rows.run(job, ends.outputs, &writes, None)
}

/// Creates a codec for the rows of `input`, ordered by `keys`.
///
/// # Errors
/// As [`RowCodec::new`].
pub(super) fn codec_of(input: &TableInput, keys: &[KeyColumn]) -> Result<RowCodec> {
    RowCodec::new(input.schema(), keys).map_err(|error| {
        match keys.iter().find(|key| input.leaves_out(&key.name)) {
            Some(key) => error.hint(format!(
                "the table has `{}`, but --columns leaves it out: add it to --columns",
                key.name
            )),
            None => error,
        }
    })
}

/// Opens the input of a job; its readers have a separate budget of at most half of the memory.
pub(super) fn open(job: &Job, ends: &TableEnds<'_>) -> Result<TableInput> {
    open_alone(job, ends.inputs, ends.reads)
}

/// Opens an input without an output.
pub(super) fn open_alone(
    job: &Job,
    inputs: &[PathBuf],
    reads: &InputOptions,
) -> Result<TableInput> {
    let own = Job {
        budget: Budget::new(job.budget.free_bytes() / 2),
        ..job.clone()
    };
    let mut input = TableInput::open_free(&own, inputs, reads)?;
    input.hold(job)?;
    Ok(input)
}

/// Rows that are sorted by the engine.
pub(super) struct Rows<'a> {
    pub(super) input: &'a TableInput,
    pub(super) codec: &'a RowCodec,
    pub(super) keys: RowKeys<'a>,
    /// The order of rows with equal keys.
    pub(super) tie: Tie,
    /// Whether one row per key is kept.
    pub(super) is_unique: bool,
    /// The number of first rows to write; all if `None`.
    pub(super) first: Option<u64>,
    /// The indexes of the columns to write, if not all.
    pub(super) columns: Option<&'a [usize]>,
}

impl Rows<'_> {
    /// Sorts the rows into `outputs`, for a job that may keep a `journal` or read its output back.
    pub(super) fn run(
        &self,
        job: &Job,
        outputs: &[PathBuf],
        writes: &OutputOptions,
        journal: Option<RowJournal>,
    ) -> Result<TableSummary> {
        let Some(unchecked) = Unchecked::begin(job, self.input, outputs, writes)? else {
            return self.run_to(job, outputs, writes, journal, None);
        };
        if self.first.is_some() {
            let cause = "the first rows of a sort are not compared with the input";
            return Err(read_back::refused(cause));
        }
        let (outputs, writes) = (&unchecked.outputs, &unchecked.writes);
        let mut plain = job.clone();
        plain.options.verify_output = false;
        let done = self.run_to(&plain, outputs, writes, None, Some(&unchecked.tally))?;
        let checked_bytes = unchecked.publish(&plain)?;
        Ok(TableSummary {
            read_bytes: done.read_bytes + checked_bytes,
            ..done
        })
    }

    /// The same; the rows are added to `tally` as they are read.
    fn run_to(
        &self,
        job: &Job,
        outputs: &[PathBuf],
        writes: &OutputOptions,
        journal: Option<RowJournal>,
        tally: Option<&Tally>,
    ) -> Result<TableSummary> {
        let schema = match self.columns {
            None => SchemaRef::clone(self.input.schema()),
            Some(columns) => {
                let schema = self.input.schema().project(columns);
                SchemaRef::new(schema.map_err(|error| fault::arrow("choose columns", &error))?)
            }
        };
        let writes = &writes.with_long(self.input.long_names());
        let room = |input: &TableInput| self.room(job, input, &schema, writes);
        let done = self.run_in(job, outputs, &room(self.input), journal, tally);
        done.map_err(|error| Room::named(error, || Ok(room(&self.input.looked_through()?))))
    }

    /// The room that the rows of `input` need.
    fn room<'r>(
        &self,
        job: &'r Job,
        input: &TableInput,
        schema: &'r SchemaRef,
        writes: &'r OutputOptions,
    ) -> Room<'r> {
        let need = input.need();
        Room {
            job,
            need,
            written: Some((schema, writes)),
            costs: match need.long_bytes {
                0 => RowCosts::default(),
                long_bytes => self.costs(input, long_bytes),
            },
            data_bytes: input.stored_bytes(),
            sorts: Sorts::Whole,
        }
    }

    fn costs(&self, input: &TableInput, long_bytes: u64) -> RowCosts {
        let costs = RowCosts::of_columns(input, self.codec, long_bytes);
        let group_bytes = match self.keys {
            RowKeys::RandomGroups { group, .. } => as_key(input.long_bytes_of(&group.key_names())),
            _ => 0,
        };
        RowCosts {
            made_bytes: costs.made_bytes.saturating_add(group_bytes),
            is_unique: self.is_unique,
            kept_share: if self.first.is_some() { KEYS_SHARE } else { 0 },
            ..costs
        }
    }

    fn run_in(
        &self,
        job: &Job,
        outputs: &[PathBuf],
        room: &Room<'_>,
        mut journal: Option<RowJournal>,
        tally: Option<&Tally>,
    ) -> Result<TableSummary> {
        let (reads_shape, writes_shape) = room.shapes();
        let rows_in = self.input.rows_count();
        let written = self.first.map_or(rows_in, |first| first.min(rows_in));
        let rows_count = (!self.is_unique).then_some(written);
        let what = room.written()?;
        let file = match journal::claim(job, [self.input], outputs, what.1, journal.as_mut())? {
            ControlFlow::Break(done) => return Ok(done),
            ControlFlow::Continue(file) => file,
        };
        let output = create(job, outputs, file, what, (writes_shape, rows_count))?;
        job.control.begin_phase("sample", 0);
        let source = RowsIn::open(self.input, self.codec, self.keys, reads_shape)?;
        // Rows that are left out do not count.
        let source = source.tallied(tally.filter(|_| !self.is_unique));
        // In the other cases, not all rows are written.
        let source = match self.is_unique || self.first.is_some() {
            true => source,
            false => source.limited(writes_shape),
        };
        let sample_bytes = self.input.read_bytes();
        let top = self.first.map(|first| {
            let (readers, free_bytes) = (reads_shape.readers_count, job.budget.free_bytes());
            (
                first,
                TopIn::new(&source, first, rows_in, readers, free_bytes),
            )
        });
        let data_bytes = match &top {
            None => source.data_bytes(),
            Some((_, top)) => top.data_bytes(),
        };
        let amount = (data_bytes, source.row_bytes());
        let forecast = written_forecast(self.input, rows_count);
        let what = (self.codec, self.columns);
        let sink = RowsOut::new(&output, what, writes_shape, (amount, forecast));
        let sink = sink.resumable(journal.is_some());
        let sink = sink.tallied(tally.filter(|_| self.is_unique));
        let mut job = job.clone();
        job.options.threads = writes_shape.writers_count;
        let options = RowSortOptions {
            unique: self.is_unique,
            scratch_dir: scratch_dir(outputs),
        };
        let order = KeyInFront { tie: self.tie };
        let done = match top {
            None => {
                let journal = journal.as_mut();
                sort_rows_with(&job, &source, &sink, &order, &options, journal)?
            }
            Some((wanted, source)) => {
                let sink = TopOut {
                    rows: &sink,
                    wanted,
                };
                let sorted = sort_rows(&job, &source, &sink, &order, &options)?;
                LineSummary {
                    lines_in: rows_in,
                    lines_out: written,
                    ..sorted
                }
            }
        };
        let done = match &mut journal {
            None => done,
            Some(journal) => {
                // A killed run may have written some of them.
                let lines_out = output.rows_written();
                journal.count(done.lines_in, lines_out);
                LineSummary { lines_out, ..done }
            }
        };
        if !self.is_unique && self.first.is_none() {
            check_rows(done.lines_in, done.lines_out)?;
        }
        TableSummary::published(&job, (self.input, sample_bytes), output, done, journal)
    }
}

/// Creates the output of a job with a budget of its own, for `rows_count` rows if known; the only
/// file of it may be staged already.
///
/// # Errors
/// As [`TableOutput::create`].
pub(super) fn create(
    job: &Job,
    files: &[PathBuf],
    staged: Option<StagedFile>,
    (schema, writes): (&SchemaRef, &OutputOptions),
    (shape, rows_count): (WriteShape, Option<u64>),
) -> Result<TableOutput> {
    let own = Job {
        budget: Budget::new(shape.output_bytes),
        ..job.clone()
    };
    let shape = WriterShape {
        writers_count: shape.writers_count,
        memory_bytes: shape.output_bytes,
        rows_count,
    };
    TableOutput::create_in(staged, &own, files, schema, writes, shape)
}

/// Sorts all rows on this many threads. Scratch goes to `dir` if the job has no scratch drives. The
/// job may keep a `journal`.
///
/// # Errors
/// As [`sort_rows`].
pub(super) fn sort_all(
    job: &Job,
    threads_count: usize,
    (source, sink): (&dyn RowSource, &dyn RowSink),
    order: &dyn SortKey,
    dir: PathBuf,
    journal: Option<&mut RowJournal>,
) -> Result<LineSummary> {
    let mut job = job.clone();
    job.options.threads = threads_count;
    let options = RowSortOptions {
        unique: false,
        scratch_dir: dir,
    };
    sort_rows_with(&job, source, sink, order, &options, journal)
}

/// How an input with this `need` is read: on as many threads as half of the memory allows, at most
/// `threads_max`.
pub(super) fn read_shape(job: &Job, need: InputNeed, threads_max: usize) -> ReadShape {
    let memory_bytes = job.budget.free_bytes();
    // The row as read, and the row made from it.
    let made_bytes = need.long_bytes.saturating_mul(2);
    let thread_bytes = with_room(need.piece_bytes).saturating_add(made_bytes);
    let threads = usize::try_from(memory_bytes / 2 / thread_bytes).unwrap_or(usize::MAX);
    let threads = threads
        .min(threads_max)
        .clamp(1, job.options.threads.max(1));
    ReadShape {
        made_bytes,
        ..read_shape_of(memory_bytes, need, threads)
    }
}

/// Orders rows by the key at their start.
pub(super) struct KeyInFront {
    pub(super) tie: Tie,
}

impl SortKey for KeyInFront {
    fn append_key(&self, row: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        let found = key_of(row).ok_or_else(|| NoKey("it is cut short".to_owned()))?;
        key.extend_from_slice(found);
        Ok(())
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

#[cfg(test)]
mod tests {
    use outcore::{IoMode, JobOptions};

    use super::*;

    #[test]
    fn a_reader_has_room_for_rows_where_its_piece_needs_more_than_its_share() {
        let options = JobOptions {
            memory_bytes: 128 << 20,
            threads: 2,
            ..JobOptions::default()
        };
        let job = Job::new(options, IoMode::Auto);
        let of = |piece_bytes| InputNeed {
            piece_bytes,
            long_bytes: 0,
        };
        let shape = read_shape(&job, of(30 << 20), usize::MAX);
        assert_eq!((shape.readers_count, shape.reader_bytes), (2, 32 << 20));
        // A single thread that fits into half of the memory gets all of it.
        let shape = read_shape(&job, of(63 << 20), usize::MAX);
        assert_eq!((shape.readers_count, shape.reader_bytes), (1, 64 << 20));
        let shape = read_shape(&job, of(1 << 10), usize::MAX);
        assert_eq!((shape.readers_count, shape.reader_bytes), (2, 16 << 20));
    }
}
