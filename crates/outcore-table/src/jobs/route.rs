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
use outcore::{Job, Phase};
use outcore_io::memory::allow_hint;
use outcore_io::{Error, Kind, Result, units};

use super::rows_in::with_room;
use super::verify::{plain, plain_schema};
use super::{TableEnds, TableSummary};
use crate::common::cast_to;
use crate::fault;
use crate::input::{InputOptions, PieceQueue, TableInput};
use crate::output::{OutputOptions, SINK_BYTES, Section, TableFormat, TableOutput, WriterShape};
use crate::rows::{KeyColumn, RowCodec, RowSums};
use crate::schema::FieldPlace;

const ROUTE: &str = "route to parts";
/// The ledger's name for rows that wait to be written.
const WAITING: &str = "rows of parts";
/// The most memory for the rows of a part that wait.
const WAITING_BYTES_MAX: u64 = 4 << 20;

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
    let format = ends.writes.fitting(input.schema()).format;
    let totals = distribute(job, &input, memory_bytes, &chooser, &outputs, format)?;
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
    format: TableFormat,
) -> Result<Vec<PartTotals>> {
    let reader_bytes =
        with_room(input.memory_min_bytes()).clamp(memory_bytes / 4, memory_bytes / 2);
    let mut tally = Tally::of(input.schema(), outputs.len())?;
    let waiting_bytes = waiting_bytes(format, memory_bytes, outputs.len());
    let _waiting = job
        .budget
        .reserve(WAITING, 2 * waiting_bytes * outputs.len() as u64)?;
    let mut parts: Vec<PartRows<'_>> = outputs
        .iter()
        .map(|output| PartRows::of(output, waiting_bytes))
        .collect();
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
            let places = places_of(&numbers, outputs.len());
            for (part, places) in parts.iter_mut().zip(places) {
                if places.len() == batch.num_rows() {
                    part.add(batch.clone())?;
                } else if !places.is_empty() {
                    let taken = take_record_batch(&batch, &UInt32Array::from(places));
                    part.add(taken.map_err(|error| fault::arrow(ROUTE, &error))?)?;
                }
            }
        }
        job.control.advance(piece.stored_bytes);
    }
    parts.into_iter().try_for_each(PartRows::finish)?;
    Ok(tally.totals)
}

/// The memory for each part's rows that wait until they form a large batch. An Arrow file gets the
/// batches as they come, and small batches take long to read. Row groups of Parquet collect their
/// rows themselves.
fn waiting_bytes(format: TableFormat, memory_bytes: u64, parts: usize) -> u64 {
    let share_bytes = memory_bytes / 2 / parts.max(1) as u64;
    match format {
        TableFormat::ArrowFile | TableFormat::ArrowStream => {
            // The waiting rows are copied once when they are written.
            (share_bytes.saturating_sub(SINK_BYTES) / 3).min(WAITING_BYTES_MAX)
        }
        _ => 0,
    }
}

/// The rows of one part.
struct PartRows<'a> {
    section: Section<'a>,
    waiting: Vec<RecordBatch>,
    waiting_bytes: u64,
    waiting_bytes_max: u64,
}

impl<'a> PartRows<'a> {
    fn of(output: &'a TableOutput, waiting_bytes_max: u64) -> Self {
        PartRows {
            section: output.section(0, 0),
            waiting: Vec::new(),
            waiting_bytes: 0,
            waiting_bytes_max,
        }
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if self.waiting_bytes_max == 0 {
            return self.section.write(&batch);
        }
        self.waiting_bytes += batch.get_array_memory_size() as u64;
        self.waiting.push(batch);
        match self.waiting_bytes >= self.waiting_bytes_max {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<()> {
        self.waiting_bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let Some(first) = waiting.first() else {
            return Ok(());
        };
        let whole = concat_batches(&first.schema(), &waiting);
        self.section
            .write(&whole.map_err(|error| fault::arrow(ROUTE, &error))?)
    }

    fn finish(mut self) -> Result<()> {
        self.write()?;
        self.section.finish()
    }
}

/// The places of the rows of each of `count` parts.
fn places_of(numbers: &[usize], count: usize) -> Vec<Vec<u32>> {
    let mut lens = vec![0; count];
    numbers.iter().for_each(|number| lens[*number] += 1);
    let mut places: Vec<Vec<u32>> = lens.into_iter().map(Vec::with_capacity).collect();
    for (place, number) in (0..).zip(numbers) {
        places[*number].push(place);
    }
    places
}

/// Adds up the rows of each part.
struct Tally {
    /// The columns in the types in which they are hashed.
    schema: SchemaRef,
    sums: RowSums,
    hashes: Vec<u64>,
    totals: Vec<PartTotals>,
}

impl Tally {
    fn of(schema: &SchemaRef, parts: usize) -> Result<Self> {
        let schema = plain_schema(schema);
        Ok(Tally {
            sums: RowSums::new(&schema)?,
            schema,
            hashes: Vec::new(),
            totals: vec![PartTotals::default(); parts],
        })
    }

    /// Adds the rows of a batch, which go to the parts `numbers`.
    fn add(&mut self, batch: &RecordBatch, numbers: &[usize]) -> Result<()> {
        let batch = plain(batch, &self.schema)?;
        self.sums.hash(&batch, &mut self.hashes)?;
        for (hash, number) in self.hashes.iter().zip(numbers) {
            self.totals[*number].add(PartTotals {
                items: 1,
                checksum: u128::from(*hash),
            });
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
