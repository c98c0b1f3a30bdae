//! Copies tables, optionally with fewer columns or rows, to another format or codec.
//!
//! Contract: [`copy`] reads the pieces of an input in parallel and writes them in order, so the
//! output has the input's rows in the input's order for any number of threads. Adjacent small
//! pieces form one section of the output; section borders depend only on the input.
//! [`copy_changed`] applies a [`Change`], which gives other rows or other columns. Its output
//! appears only when it is published, so several tables can be written before the first one
//! appears.
//!
//! Bounds: readers have a third of the memory, writers the rest. A single reader that needs more
//! gets up to a half.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use outcore::job::{Layout, OutputPlaces};
use outcore::sort::lines::RowJournal;
use outcore::{Amounts, Forecast, Job, Phase, PhasePlan, predicted_text};
use outcore_io::memory::allow_hint;
use outcore_io::{Error, Kind, Result, threads, units};

use super::rows_in::with_room;
use super::{TableEnds, TableSummary, check_rows};
use crate::fault;
use crate::input::{Piece, TableInput};
use crate::output::{OutputOptions, SINK_BYTES, StagedFile, TableOutput, WriterShape};

/// Smaller adjacent pieces are joined to sections of about this size.
const SECTION_BYTES: u64 = 16 << 20;

/// The name of the phase.
const COPY: &str = "copy";

/// Takes a batch to write.
pub(super) type WriteBatch<'w> = dyn FnMut(&RecordBatch) -> Result<()> + 'w;

/// A transformation of a table that is copied.
pub(super) trait Change: Sync {
    /// Whether the output column of this name, if there is one, has only values of the input
    /// column, and none of them much more often than the input column.
    fn keeps(&self, _column: &str) -> bool {
        true
    }

    /// The number of output rows of a piece, if it is known.
    fn count(&self, piece: usize) -> Option<u64>;

    /// Passes the output for `batch` to `write`, in one or more batches. The first row of `batch`
    /// is row `first` of its piece.
    ///
    /// # Errors
    /// Errors of the transformation and of `write`.
    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()>;
}

/// The first row of each piece, followed by the number of all rows.
pub(super) fn starts_of(pieces: &[Piece]) -> Vec<u64> {
    let mut starts = vec![0];
    for piece in pieces {
        starts.push(starts.last().copied().unwrap_or(0) + piece.rows_count);
    }
    starts
}

/// Leaves every row as it is.
pub(super) struct Nothing<'a>(pub(super) &'a [Piece]);

impl Change for Nothing<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        self.0.get(piece).map(|piece| piece.rows_count)
    }

    fn apply(
        &self,
        _: usize,
        _: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        write(&batch)
    }
}

/// Returns the rows of `batch` for which `taken` is true.
pub(super) fn filtered(batch: &RecordBatch, taken: &BooleanArray) -> Result<RecordBatch> {
    filter_record_batch(batch, taken).map_err(|error| fault::arrow("choose rows", &error))
}

/// Copies a table.
///
/// # Errors
/// As [`TableInput::open`] and [`TableOutput::create`]; corrupt data, I/O, memory. On failure, no
/// file remains.
pub fn copy(job: &Job, ends: &TableEnds<'_>) -> Result<TableSummary> {
    let started = Instant::now();
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let to = (ends.outputs, input.schema(), ends.writes);
    let done = copy_changed(job, &input, to, &Nothing(input.pieces()))?.publish()?;
    Ok(TableSummary {
        seconds: started.elapsed().as_secs_f64(),
        ..done
    })
}

/// A table that is written completely, and appears at [`Copied::publish`].
pub(super) struct Copied {
    output: TableOutput,
    summary: TableSummary,
}

impl Copied {
    /// Makes the table appear.
    ///
    /// # Errors
    /// I/O. On failure, no file remains.
    pub(super) fn publish(self) -> Result<TableSummary> {
        self.publish_kept(None)
    }

    /// Makes the table appear, with the journal of the job if it keeps one.
    ///
    /// # Errors
    /// As [`Copied::publish`].
    pub(super) fn publish_kept(self, mut journal: Option<RowJournal>) -> Result<TableSummary> {
        if let Some(journal) = &mut journal {
            journal.count(self.summary.rows_in, self.summary.rows_out);
        }
        let lens_bytes = self.output.publish_kept(journal)?;
        Ok(published(self.summary, lens_bytes))
    }

    /// Makes both tables appear, or neither.
    ///
    /// # Errors
    /// As [`Copied::publish`].
    pub(super) fn publish_with(self, other: Copied) -> Result<(TableSummary, TableSummary)> {
        let (one, two) = self.output.publish_with(other.output)?;
        Ok((published(self.summary, one), published(other.summary, two)))
    }
}

fn published(mut summary: TableSummary, lens_bytes: Vec<u64>) -> TableSummary {
    let written_bytes = lens_bytes.iter().sum();
    let phases = summary.phases.iter_mut();
    phases.for_each(|copy| copy.written_bytes = written_bytes);
    TableSummary {
        written_bytes,
        lens_bytes,
        ..summary
    }
}

/// Applies `change` to `input`, and writes the result to files with a schema.
///
/// # Errors
/// As [`copy`]; usage: several outputs without a known number of rows.
pub(super) fn copy_changed(
    job: &Job,
    input: &TableInput,
    to: (&[PathBuf], &SchemaRef, &OutputOptions),
    change: &dyn Change,
) -> Result<Copied> {
    let (outputs, schema, writes) = to;
    let to = CopyTo {
        outputs,
        schema,
        writes,
        staged: None,
    };
    copy_to(job, input, to, change)
}

/// The destination of a copy.
pub(super) struct CopyTo<'a> {
    pub(super) outputs: &'a [PathBuf],
    pub(super) schema: &'a SchemaRef,
    pub(super) writes: &'a OutputOptions,
    /// The only file, if it is staged already.
    pub(super) staged: Option<StagedFile>,
}

/// Like [`copy_changed`], for an output that may be staged already.
///
/// # Errors
/// As [`copy_changed`].
pub(super) fn copy_to(
    job: &Job,
    input: &TableInput,
    to: CopyTo<'_>,
    change: &dyn Change,
) -> Result<Copied> {
    let (outputs, schema) = (to.outputs, to.schema);
    let started = Instant::now();
    let mut writes = to.writes.clone();
    writes.long_columns.extend(input.long_names());
    let repeats_hardly = input.hardly_repeating().into_iter();
    let left_out = repeats_hardly.filter(|name| change.keeps(name));
    writes.without_dictionary.extend(left_out);
    let writes = &writes;
    let pieces = input.pieces();
    let memory_bytes = job.budget.free_bytes();
    let threads_count = threads_count(job, input, (schema, writes), memory_bytes);
    let third_bytes = memory_bytes / 3 / threads_count as u64;
    let reader_bytes =
        with_room(input.memory_min_bytes()).clamp(third_bytes, third_bytes.max(memory_bytes / 2));
    let long = LongCopies::of(input, schema, writes);
    long.check(job, input, reader_bytes, schema, writes)?;
    let thread_bytes = reader_bytes.saturating_add(long.beside_bytes);
    let _beside = job.budget.reserve(
        "long values being copied",
        long.beside_bytes * threads_count as u64,
    )?;
    let counts: Option<Vec<u64>> = (0..pieces.len()).map(|piece| change.count(piece)).collect();
    let sections = sections(pieces, writes);
    let shape = WriterShape {
        writers_count: threads_count,
        memory_bytes: memory_bytes.saturating_sub(thread_bytes * threads_count as u64),
        rows_count: counts.as_ref().map(|counts| counts.iter().sum()),
    };
    let plan = PassPlan::of(job, COPY, input, (schema, shape.rows_count), threads_count);
    job.control.show_plan(&plan);
    let staged = to.staged.map(StagedFile::whole);
    let output = TableOutput::create_in(staged, job, outputs, schema, writes, shape)?;
    let before_bytes = input.read_bytes();
    job.control.begin_phase(COPY, input.stored_bytes());
    let next = AtomicUsize::new(0);
    let rows_in = AtomicU64::new(0);
    let work = |_thread: usize| {
        let mut reader = input.reader(reader_bytes)?;
        let mut rows_count = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(members) = sections.get(number) else {
                return Ok(rows_count);
            };
            let before = counts.as_ref().map(|counts| &counts[..members.start]);
            let first_row = before.map_or(0, |before| before.iter().sum());
            let mut section = output.section(number as u64, first_row);
            let is_read = |index: &usize| change.count(*index) != Some(0);
            reader.expect(members.clone().filter(is_read).map(|index| pieces[index]));
            for (index, &piece) in members.clone().zip(&pieces[members.clone()]) {
                let expected = change.count(index);
                let (mut row, mut written) = (0, 0);
                if expected != Some(0) {
                    for batch in reader.open(piece)? {
                        let batch = batch?;
                        let rows = batch.num_rows() as u64;
                        change.apply(index, row, batch, &mut |batch| {
                            written += batch.num_rows() as u64;
                            section.write(batch)
                        })?;
                        row += rows;
                        if expected == Some(written) && row < piece.rows_count {
                            break;
                        }
                    }
                    if expected == Some(piece.rows_count) {
                        check_rows(row, written)?;
                    }
                }
                rows_count += written;
                rows_in.fetch_add(piece.rows_count, Ordering::Relaxed);
                job.control.advance(piece.stored_bytes);
            }
            section.finish()?;
        }
    };
    let counts = threads::together("outcore-table-copy", threads_count, work)?;
    let rows_out = sum(counts)?;
    input.check_unchanged()?;
    // Lack of room on a drive is reported before another table appears.
    output.end()?;
    let (seconds, read_bytes) = (started.elapsed().as_secs_f64(), input.read_bytes());
    let phase = Phase {
        name: COPY,
        seconds,
        read_bytes: read_bytes - before_bytes,
        written_bytes: 0,
        predicted: Some(plan.phase),
    };
    let summary = TableSummary {
        rows_in: rows_in.into_inner(),
        rows_out,
        seconds,
        read_bytes,
        passes: 1,
        phases: vec![phase],
        ..TableSummary::default()
    };
    Ok(Copied { output, summary })
}

/// Estimates the output size for this many rows of `input`, if the number is known. The estimate is
/// the rows' share of the stored bytes, because input and output often have the same encodings and
/// codecs. It is not a bound.
pub(super) fn written_forecast(input: &TableInput, rows_count: Option<u64>) -> Forecast {
    let rows_in = u128::from(input.rows_count().max(1));
    match rows_count {
        None => Forecast::Unknown,
        Some(rows) => {
            let bytes = u128::from(input.stored_bytes()) * u128::from(rows) / rows_in;
            Forecast::About(u64::try_from(bytes).unwrap_or(u64::MAX))
        }
    }
}

/// The plan of a job that reads its input once and writes while it reads.
pub(super) struct PassPlan<'a> {
    job: &'a Job,
    pieces_count: usize,
    threads_count: usize,
    pub(super) phase: PhasePlan,
    layout: Layout,
}

impl<'a> PassPlan<'a> {
    /// Plans an output with a schema and this many rows, if known; `name` is the name of the job
    /// and of its phase.
    pub(super) fn of(
        job: &'a Job,
        name: &'static str,
        input: &TableInput,
        (schema, rows_count): (&SchemaRef, Option<u64>),
        threads_count: usize,
    ) -> Self {
        let stored_bytes = input.stored_bytes();
        let written = match schema.fields().len() > input.schema().fields().len() {
            true => Forecast::Unknown,
            false => written_forecast(input, rows_count),
        };
        let requests = input.pieces().len() as f64;
        // A row group is read as a whole before any of it is written.
        let rounds = input.pieces().len() as f64 / threads_count.max(1) as f64;
        let amounts = Amounts {
            serial_share: 1.0 / rounds.max(1.0),
            ..Amounts::of_files(stored_bytes.into(), written, requests)
        };
        let layout = job.layout(&[], &OutputPlaces::Unknown);
        PassPlan {
            job,
            pieces_count: input.pieces().len(),
            threads_count,
            phase: PhasePlan::new(name, amounts, &layout),
            layout,
        }
    }
}

impl fmt::Display for PassPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} {} of a table in {} of memory on {}",
            self.phase.name,
            units::counted(self.pieces_count as u64, "row group"),
            units::bytes(self.job.budget.free_bytes()),
            units::counted(self.threads_count as u64, "thread")
        )?;
        let phases = std::slice::from_ref(&self.phase);
        write!(f, "  {}", predicted_text(phases, None, &self.layout, None))
    }
}

/// The pieces of each section: one large piece, or several small ones.
fn sections(pieces: &[Piece], writes: &OutputOptions) -> Vec<Range<usize>> {
    let mut sections: Vec<Range<usize>> = Vec::new();
    let (mut stored_bytes, mut rows) = (0, 0);
    for (index, piece) in pieces.iter().enumerate() {
        stored_bytes += piece.stored_bytes;
        rows += piece.rows_count;
        let is_small = stored_bytes <= SECTION_BYTES && rows <= writes.group_rows_max as u64;
        match sections.last_mut() {
            Some(last) if is_small => last.end = index + 1,
            _ => {
                sections.push(index..index + 1);
                (stored_bytes, rows) = (piece.stored_bytes, piece.rows_count);
            }
        }
    }
    sections
}

/// Copies of the longest row that a thread holds, in addition to the one that was read.
struct LongCopies {
    /// The transformed row, and its encoded form.
    beside_bytes: u64,
    /// The row group that contains it.
    group_bytes: u64,
}

impl LongCopies {
    fn of(input: &TableInput, schema: &SchemaRef, writes: &OutputOptions) -> Self {
        let long_bytes = input.need().long_bytes;
        LongCopies {
            beside_bytes: long_bytes.saturating_mul(1 + writes.encoder_times()),
            group_bytes: writes
                .group_min_bytes(schema)
                .saturating_add(long_bytes + SINK_BYTES),
        }
    }

    /// Fails if a reader of `reader_bytes` leaves too little memory.
    fn check(
        &self,
        job: &Job,
        input: &TableInput,
        reader_bytes: u64,
        schema: &SchemaRef,
        writes: &OutputOptions,
    ) -> Result<()> {
        let needed_bytes = reader_bytes
            .max(input.memory_min_bytes())
            .saturating_add(self.beside_bytes)
            .saturating_add(self.group_bytes);
        let memory_bytes = job.budget.free_bytes();
        let is_enough =
            needed_bytes <= memory_bytes && input.memory_min_bytes() <= memory_bytes / 2;
        if self.beside_bytes == 0 || is_enough {
            return Ok(());
        }
        let cause = format!(
            "a long row needs {} to be copied, but there is only {}",
            units::bytes(needed_bytes),
            units::bytes(memory_bytes)
        );
        // Readers have a third of the memory, or a half if they need it.
        let known = input.looked_through()?;
        let long = LongCopies::of(&known, schema, writes);
        let written_bytes = long.beside_bytes.saturating_add(long.group_bytes);
        let read_bytes = with_room(known.memory_min_bytes());
        let enough_bytes = (written_bytes.saturating_mul(3) / 2)
            .max(read_bytes.saturating_mul(2))
            .max(read_bytes.saturating_add(written_bytes))
            .saturating_add(job.budget.used_bytes() + (4 << 20))
            .min(1 << 60);
        let allow = allow_hint(enough_bytes.next_multiple_of(16 << 20));
        Err(Error::new(Kind::Memory, "copy a table", cause)
            .hint(format!("{allow} or more, or leave long columns out")))
    }
}

/// The number of threads: at most one per piece, and as many as the memory allows.
fn threads_count(
    job: &Job,
    input: &TableInput,
    (schema, writes): (&SchemaRef, &OutputOptions),
    memory_bytes: u64,
) -> usize {
    let beside_bytes = LongCopies::of(input, schema, writes).beside_bytes;
    let reader_bytes = with_room(input.memory_min_bytes()).saturating_add(beside_bytes);
    let readers = memory_bytes / 3 / reader_bytes;
    let writers_bytes = (memory_bytes / 3 * 2).saturating_sub(SINK_BYTES);
    let group_bytes = writes.group_min_bytes(schema).max(1);
    let writers = writers_bytes / group_bytes.saturating_add(beside_bytes);
    let by_memory = usize::try_from(readers.min(writers)).unwrap_or(usize::MAX);
    let pieces_count = input.pieces().len();
    job.options.threads.min(pieces_count).min(by_memory).max(1)
}

/// Adds up the rows, or returns the failure that stopped the other threads.
pub(super) fn sum(counts: Vec<Result<u64>>) -> Result<u64> {
    let mut rows_count = 0;
    let mut failure: Option<Error> = None;
    for count in counts {
        match (count, &failure) {
            (Ok(count), _) => rows_count += count,
            (Err(error), None) => failure = Some(error),
            (Err(error), Some(first)) if first.kind() == Kind::Interrupted => failure = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    failure.map_or(Ok(rows_count), Err)
}
