//! Parts of a table for other machines: rows go to parts by the range of their key, or at random.
//!
//! Contract: as [`outcore::primitives::route`], for rows. Splitters are a table with the key
//! columns, in the order of the keys. A part has the rows of the input in the input's order. The
//! totals of the parts are those of [`verify`](super::verify()). All parts appear together, or none
//! does.
//!
//! Bounds: one read, on one thread; all parts are open at the same time and share half of the
//! memory for their row groups.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_row::Rows;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use outcore::primitives::{PartTotals, random_part};
use outcore::sort::lines::rows::RowBatch;
use outcore::{Job, Phase};
use outcore_io::memory::allow_hint;
use outcore_io::{Error, Kind, Result, units};
use twox_hash::XxHash3_128;

use super::rows_in::{parts_of_lens, with_room};
use super::verify::{plain, plain_schema};
use super::{TableEnds, TableSummary};
use crate::common::cast_to;
use crate::fault;
use crate::input::{InputOptions, PieceQueue, TableInput};
use crate::output::{OutputOptions, SINK_BYTES, Section, TableOutput, WriterShape};
use crate::rows::{KeyColumn, RowCodec};
use crate::schema::FieldPlace;

const ROUTE: &str = "route to parts";
/// Approximate bytes of rows that are hashed at once.
const BATCH_BYTES: u64 = 1 << 20;

/// Assigns rows to parts.
#[derive(Debug, Clone, Copy)]
pub enum RowRoute<'a> {
    /// By the range of their key.
    Ranges {
        /// Files of one table with the key columns of all splitters.
        splitters: &'a [PathBuf],
        /// The key.
        keys: &'a [KeyColumn],
    },
    /// At random, by their position.
    Random {
        /// The seed.
        seed: u64,
    },
}

/// The number of splitters in a table.
///
/// # Errors
/// As [`TableInput::open`].
pub fn splitters_count(job: &Job, splitters: &[PathBuf]) -> Result<u64> {
    Ok(TableInput::open(job, splitters, &InputOptions::default())?.rows_count())
}

/// Writes each row to the output that `to` gives it. Returns the totals of the outputs.
///
/// # Errors
/// As [`copy`](super::copy()). Usage: splitters without a key column, in another order, or of
/// another number than the outputs need.
pub fn route(
    job: &Job,
    ends: &TableEnds<'_>,
    to: RowRoute<'_>,
) -> Result<(TableSummary, Vec<PartTotals>)> {
    let started = Instant::now();
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let chooser = match to {
        RowRoute::Ranges { splitters, keys } => {
            let ranges = Ranges::open(job, input.schema(), splitters, keys)?;
            ranges.check(ends.outputs.len())?;
            Chooser::Ranges(Box::new(ranges))
        }
        RowRoute::Random { seed } => Chooser::Random { seed },
    };
    let memory_bytes = job.budget.free_bytes();
    let outputs = created(job, ends, &input, memory_bytes / 2)?;
    let totals = distribute(job, &input, memory_bytes, &chooser, &outputs)?;
    input.check_unchanged()?;
    let lens_bytes = TableOutput::publish_all(outputs)?;
    let (seconds, written_bytes) = (started.elapsed().as_secs_f64(), lens_bytes.iter().sum());
    let phase = Phase {
        name: ROUTE,
        seconds,
        read_bytes: input.read_bytes(),
        written_bytes,
        predicted: None,
    };
    let summary = TableSummary {
        rows_in: input.rows_count(),
        rows_out: totals.iter().map(|part| part.items).sum(),
        seconds,
        read_bytes: input.read_bytes(),
        written_bytes,
        lens_bytes,
        passes: 1,
        phases: vec![phase],
        ..TableSummary::default()
    };
    Ok((summary, totals))
}

/// The outputs, which share `memory_bytes`.
fn created(
    job: &Job,
    ends: &TableEnds<'_>,
    input: &TableInput,
    memory_bytes: u64,
) -> Result<Vec<TableOutput>> {
    let mut writes: OutputOptions = ends.writes.clone();
    writes.sorted_by.clear();
    writes.long_columns.extend(input.long_names());
    writes.without_dictionary.extend(input.hardly_repeating());
    let count = ends.outputs.len().max(1) as u64;
    let fitting = writes.fitting(input.schema());
    let needed_bytes: u64 = (fitting.group_min_bytes(input.schema()) + SINK_BYTES) * count;
    if memory_bytes < needed_bytes {
        let cause = format!(
            "{} of {} take {}, but there is only {}",
            units::counted(count, "part"),
            units::counted(input.schema().fields().len() as u64, "column"),
            units::bytes(needed_bytes),
            units::bytes(memory_bytes)
        );
        // Parts have half of the memory.
        let enough_bytes = (2 * needed_bytes).next_multiple_of(64 << 20);
        return Err(Error::new(Kind::Memory, ROUTE, cause).hint(allow_hint(enough_bytes)));
    }
    let shape = WriterShape {
        writers_count: 1,
        memory_bytes: memory_bytes / count,
        rows_count: None,
    };
    let create = |path: &PathBuf| {
        let path = std::slice::from_ref(path);
        TableOutput::create(job, path, input.schema(), &writes, shape)
    };
    ends.outputs.iter().map(create).collect()
}

/// Reads all rows and writes each to its output. Returns the totals of the outputs.
fn distribute(
    job: &Job,
    input: &TableInput,
    memory_bytes: u64,
    chooser: &Chooser,
    outputs: &[TableOutput],
) -> Result<Vec<PartTotals>> {
    let reader_bytes =
        with_room(input.memory_min_bytes()).clamp(memory_bytes / 4, memory_bytes / 2);
    let mut tally = Tally {
        codec: RowCodec::new(&plain_schema(input.schema()), &[])?,
        rows: RowBatch::default(),
        totals: vec![PartTotals::default(); outputs.len()],
    };
    let mut sections: Vec<Section<'_>> =
        outputs.iter().map(|output| output.section(0, 0)).collect();
    job.control.begin_phase(ROUTE, input.stored_bytes());
    let mut reader = input.reader(reader_bytes)?;
    let queue = PieceQueue::new(1);
    let mut position = 0;
    while let Some((_, piece)) = reader.take(&queue) {
        for batch in reader.open(piece)? {
            job.control.check()?;
            let batch = batch?;
            let numbers = chooser.parts_of(&batch, position, outputs.len())?;
            tally.add(&batch, &numbers)?;
            position += batch.num_rows() as u64;
            for (number, section) in sections.iter_mut().enumerate() {
                let places = (0..).zip(&numbers).filter(|(_, part)| **part == number);
                let places: UInt32Array = places.map(|(row, _)| Some(row)).collect();
                if !places.is_empty() {
                    let taken = take_record_batch(&batch, &places);
                    section.write(&taken.map_err(|error| fault::arrow(ROUTE, &error))?)?;
                }
            }
        }
        job.control.advance(piece.stored_bytes);
    }
    sections.into_iter().try_for_each(Section::finish)?;
    Ok(tally.totals)
}

/// Adds up the rows of each part.
struct Tally {
    /// Makes the bytes that are hashed.
    codec: RowCodec,
    rows: RowBatch,
    totals: Vec<PartTotals>,
}

impl Tally {
    /// Adds the rows of a batch, which go to the parts `numbers`.
    fn add(&mut self, batch: &RecordBatch, numbers: &[usize]) -> Result<()> {
        let batch = plain(batch, self.codec.schema())?;
        let lens_bytes = self.codec.measure(&batch)?;
        let mut numbers = numbers.iter();
        for part in parts_of_lens(&batch, &lens_bytes, BATCH_BYTES) {
            self.rows.clear();
            self.codec.encode(&part, &mut self.rows)?;
            for (bytes, number) in self.rows.iter().zip(&mut numbers) {
                self.totals[*number].add(PartTotals {
                    items: 1,
                    checksum: XxHash3_128::oneshot(bytes),
                });
            }
        }
        Ok(())
    }
}

/// Chooses the part of each row.
enum Chooser {
    Ranges(Box<Ranges>),
    Random { seed: u64 },
}

impl Chooser {
    /// The parts of the rows of `batch`, the first of which is at `position`.
    fn parts_of(&self, batch: &RecordBatch, position: u64, count: usize) -> Result<Vec<usize>> {
        match self {
            Chooser::Ranges(ranges) => ranges.parts_of(batch),
            Chooser::Random { seed } => {
                let rows = position..position + batch.num_rows() as u64;
                Ok(rows.map(|row| random_part(*seed, row, count)).collect())
            }
        }
    }
}

/// Key ranges of rows.
struct Ranges {
    /// Makes the keys of rows.
    codec: RowCodec,
    /// The keys of the splitters; `None` for none.
    splitters: Option<Rows>,
}

impl Ranges {
    fn open(
        job: &Job,
        schema: &SchemaRef,
        splitters: &[PathBuf],
        keys: &[KeyColumn],
    ) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::usage(ROUTE, "no column gives the key ranges")
                .hint("name the columns of the key"));
        }
        let codec = RowCodec::new(schema, keys)?;
        let table = TableInput::open(job, splitters, &InputOptions::default())?;
        let mut batches = Vec::new();
        let mut reader = table.reader(with_room(table.memory_min_bytes()))?;
        let queue = PieceQueue::new(1);
        while let Some((_, piece)) = reader.take(&queue) {
            for batch in reader.open(piece)? {
                batches.push(batch?);
            }
        }
        let batch = concat_batches(table.schema(), &batches);
        let batch = batch.map_err(|error| fault::arrow(ROUTE, &error))?;
        let (names, alone) = codec.keys_alone()?;
        let columns = names
            .iter()
            .zip(alone.schema().fields())
            .map(|(name, field)| {
                let place = FieldPlace::of(table.schema(), name, ROUTE)?;
                let values = place.values(&batch.columns()[place.root])?;
                cast_to(ROUTE, name, &values, field.data_type())
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let fields = alone.schema().fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, columns);
        let batch = batch.map_err(|error| fault::arrow(ROUTE, &error))?;
        let splitters = alone.keys_of(&batch)?;
        let ranges = Ranges { codec, splitters };
        let mut numbers = 1..ranges.count();
        match numbers.find(|number| ranges.key(number - 1) > ranges.key(*number)) {
            Some(number) => Err(Error::usage(
                ROUTE,
                format!("splitter {number}, counted from 0, is smaller than the one before it"),
            )
            .hint("sort the splitters by the columns of the key")),
            None => Ok(ranges),
        }
    }

    fn count(&self) -> usize {
        self.splitters.as_ref().map_or(0, Rows::num_rows)
    }

    fn key(&self, splitter: usize) -> &[u8] {
        self.splitters
            .as_ref()
            .map_or(&[], |splitters| splitters.row(splitter).data())
    }

    /// Fails if there are not `outputs` parts.
    fn check(&self, outputs: usize) -> Result<()> {
        if self.count() + 1 == outputs {
            return Ok(());
        }
        let cause = format!("{} splitters for {outputs} parts", self.count());
        Err(Error::usage(ROUTE, cause).hint("do not change the splitters during the job"))
    }

    fn parts_of(&self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let numbers: Vec<usize> = (0..self.count()).collect();
        let keys = self.codec.keys_of(batch)?;
        let part_of = |key: &[u8]| numbers.partition_point(|splitter| self.key(*splitter) <= key);
        let parts = keys.map(|keys| keys.iter().map(|key| part_of(key.data())).collect());
        Ok(parts.unwrap_or_default())
    }
}
