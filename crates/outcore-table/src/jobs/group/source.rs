//! Computes partial states of groups, as input of the engine.
//!
//! Contract: threads take pieces of the input. Each thread aggregates the rows of a piece in a hash
//! table while the table is small and reduces the data. The table is then emptied into rows:
//!
//! - the states of a group: 0, the position of its first row (8 bytes, big-endian), the states of
//!   all aggregates
//! - a value of a column that is needed in order: 1 or more, the value in arrow-row's form, its
//!   number of occurrences (8 bytes)
//!
//! The key of both is the group's key. So, in byte order, the states come first, in the order of
//! the input, followed by each column's values in order.
//!
//! **Determinism.** Only the rows of the piece determine when a table is emptied, not memory or
//! threads. So sums of floats are the same for any number of threads; they do depend on row groups.
//! For the same reason, a run that continues a killed run makes the same rows from each piece.
//!
//! Bounds: a reader, a batch and [`TABLE_BYTES`] per thread.

use std::sync::atomic::AtomicUsize;

use arrow_array::RecordBatch;
use arrow_row::Rows;
use outcore::Forecast;
use outcore::sort::lines::rows::{
    LongRow, MeanRow, RowBatch, RowSource, Sampled, TakeAgain, TakeRows, TakenRows,
};
use outcore_io::Result;

use super::plan::{BatchPlace, Plan};
use super::states::{States, Values};
use super::table::KeyTable;
use crate::input::{PieceQueue, TableInput, TableReader};
use crate::jobs::rows_in::{
    LEN_PIECES, ReadShape, Sample, each_piece, position_of, spread, take_made,
};
use crate::rows::RowCodec;

/// A thread's tables are emptied at this size.
const TABLE_BYTES: usize = 2 << 20;
/// Rows of a piece that decide whether tables reduce the data.
const PROBE_ROWS: usize = 8192;
/// Approximate memory of a group's state, without states of variable length.
const STATE_BYTES: usize = 32;
/// Table sizes are checked after at most this many rows, and about this many bytes of rows; the
/// number of rows depends only on the input.
const STEP_ROWS: usize = 2048;
const STEP_BYTES: f64 = (256 << 10) as f64;
/// Memory of a thread for its tables and a step. A whole table is written out as rows at once.
pub(super) const HELD_BYTES: u64 = 2 * TABLE_BYTES as u64 + 2 * STEP_BYTES as u64;
/// If each sampled key occurs this often, nearly all keys are known.
const KEY_REPEATS_MIN: usize = 4;

/// See the module.
pub(super) struct GroupSource<'a> {
    input: &'a TableInput,
    plan: &'a Plan,
    shape: ReadShape,
    sample: Sample,
    data_bytes: u64,
    row_bytes: f64,
    step_rows: usize,
    queue: PieceQueue,
    begun: AtomicUsize,
}

impl<'a> GroupSource<'a> {
    /// Reads the groups of `input`; only the columns of `plan` are read.
    ///
    /// # Errors
    /// Errors of the reader.
    pub(super) fn open(input: &'a TableInput, plan: &'a Plan, shape: ReadShape) -> Result<Self> {
        let mut sample = Sample::begin();
        let codec = RowCodec::new(input.schema(), &plan.keys)?;
        if !plan.keys.is_empty() {
            sample.see_keys_of(input, &codec, shape.reader_bytes)?;
        }
        let (mut rows_in, mut made, mut made_bytes) = (0_u64, 0_usize, 0_usize);
        let mut reader = input.reader(shape.reader_bytes)?;
        reader.expect(spread(input.pieces(), LEN_PIECES));
        for piece in spread(input.pieces(), LEN_PIECES) {
            let Some(batch) = reader.open(piece)?.next().transpose()? else {
                continue;
            };
            let batch = batch.slice(0, batch.num_rows().min(STEP_ROWS));
            let mut worker = Worker::new(plan);
            worker.is_apart = true;
            let added = worker.add(&batch, 0);
            let at = BatchPlace {
                piece,
                first_row: 0,
                batch: &batch,
            };
            added.map_err(|error| plan.fault(input, at, error))?;
            let rows = &mut RowBatch::default();
            worker.empty(rows)?;
            rows_in += batch.num_rows() as u64;
            made += rows.len();
            made_bytes += rows.bytes();
            sample.see_rows(rows);
        }
        let row_bytes = made_bytes as f64 / made.max(1) as f64;
        let bytes_a_row = made_bytes as f64 / rows_in.max(1) as f64;
        let rows_count = input.rows_count();
        let is_ordered = plan.values.iter().any(|value| value.is_ordered);
        let rows_made = match is_ordered {
            true => rows_count,
            false => groups_expected(&sample.keys, input.pieces().len())
                .map_or(rows_count, |groups| groups.min(rows_count)),
        };
        Ok(GroupSource {
            input,
            plan,
            shape,
            sample,
            data_bytes: (rows_made as f64 * bytes_a_row) as u64,
            row_bytes,
            step_rows: ((STEP_BYTES / bytes_a_row.max(1.0)) as usize).clamp(1, STEP_ROWS),
            queue: PieceQueue::new(shape.readers_count),
            begun: AtomicUsize::new(0),
        })
    }
}

impl GroupSource<'_> {
    /// The approximate bytes of all rows that are made, and the average bytes of a row.
    pub(super) fn amount(&self) -> (u64, f64) {
        (self.data_bytes, self.row_bytes)
    }
}

/// The number of partial states of all pieces, if tables hold all groups.
fn groups_expected(keys: &[Vec<u8>], pieces: usize) -> Option<u64> {
    let mut table = KeyTable::default();
    keys.iter().for_each(|key| {
        table.number_of(key);
    });
    let is_known =
        table.len() * KEY_REPEATS_MIN <= keys.len() && table.held_bytes() < TABLE_BYTES / 2;
    // Some groups are not in the sample.
    is_known.then_some(2 * table.len().max(1) as u64 * pieces as u64)
}

/// A thread's state for a piece.
struct Worker<'p> {
    plan: &'p Plan,
    groups: KeyTable,
    /// The position of each group's first row.
    firsts: Vec<u64>,
    states: Vec<States>,
    /// Ordered values, as rows without the number of occurrences.
    values: KeyTable,
    occurrences: Vec<u64>,
    /// Bytes of states of variable length.
    more_bytes: usize,
    /// Rows of the piece so far.
    seen: usize,
    /// Whether each row becomes a group of its own, because a table would merge few rows.
    is_apart: bool,
    numbers: Vec<u32>,
    row: Vec<u8>,
}

impl<'p> Worker<'p> {
    fn new(plan: &'p Plan) -> Self {
        Worker {
            plan,
            groups: KeyTable::default(),
            firsts: Vec::new(),
            states: plan.states(),
            values: KeyTable::default(),
            occurrences: Vec::new(),
            more_bytes: 0,
            seen: 0,
            is_apart: false,
            numbers: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Adds the rows of a batch, whose first row is at `position`.
    fn add(&mut self, batch: &RecordBatch, position: u64) -> Result<()> {
        let (keys, values) = self.plan.take_apart(batch)?;
        self.number(&keys, position);
        let aggregates = self.plan.aggregates.iter().zip(&self.plan.operands);
        for (states, (aggregate, places)) in self.states.iter_mut().zip(aggregates) {
            states.grow(self.groups.len());
            let operands = places.among(&values);
            self.more_bytes += states.update(aggregate, &self.numbers, operands)?;
        }
        self.add_values(&keys, &values);
        self.seen += batch.num_rows();
        Ok(())
    }

    /// Assigns the rows to groups.
    fn number(&mut self, keys: &Rows, position: u64) {
        self.numbers.clear();
        for (row, key) in keys.iter().enumerate() {
            let (number, is_new) = match self.is_apart {
                true => {
                    self.groups.push(key.data());
                    (self.groups.len() as u32 - 1, true)
                }
                false => self.groups.number_of(key.data()),
            };
            self.numbers.push(number);
            if is_new {
                self.firsts.push(position + row as u64);
            }
        }
    }

    /// Counts the values that are needed in order.
    fn add_values(&mut self, keys: &Rows, values: &[Values]) {
        for (place, (column, values)) in self.plan.values.iter().zip(values).enumerate() {
            let Some(bytes) = values.rows.as_ref().filter(|_| column.is_ordered) else {
                continue;
            };
            let nulls = values.array.logical_nulls();
            for row in 0..bytes.num_rows() {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    continue;
                }
                let key = keys.row(row);
                self.row.clear();
                self.row
                    .extend_from_slice(&(key.data().len() as u32).to_le_bytes());
                self.row.extend_from_slice(key.data());
                self.row
                    .extend_from_slice(&(place as u32 + 1).to_be_bytes());
                self.row.extend_from_slice(bytes.row(row).data());
                match self.is_apart {
                    true => {
                        self.values.push(&self.row);
                        self.occurrences.push(1);
                    }
                    false => {
                        let (number, is_new) = self.values.number_of(&self.row);
                        match is_new {
                            true => self.occurrences.push(1),
                            false => self.occurrences[number as usize] += 1,
                        }
                    }
                }
            }
        }
    }

    /// Whether the tables must be emptied.
    fn is_full(&self) -> bool {
        let states_bytes = self.groups.len() * self.states.len() * STATE_BYTES;
        let held_bytes = self.groups.held_bytes() + self.values.held_bytes();
        held_bytes + states_bytes + self.more_bytes >= TABLE_BYTES
    }

    /// Whether enough rows have shown that tables do not reduce the data.
    fn looks_apart(&self) -> bool {
        let held = self.groups.len().max(self.values.len());
        self.seen >= PROBE_ROWS && self.seen < 2 * PROBE_ROWS && held * 2 > self.seen
    }

    /// Empties the tables into `rows`.
    fn empty(&mut self, rows: &mut RowBatch) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.row);
        let mut lens_bytes = Vec::with_capacity(self.groups.len() + self.values.len());
        bytes.clear();
        for group in 0..self.groups.len() {
            let from = bytes.len();
            let key = self.groups.key(group);
            bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(&0_u32.to_be_bytes());
            bytes.extend_from_slice(&self.firsts[group].to_be_bytes());
            for states in &self.states {
                states.append(group, &mut bytes);
            }
            lens_bytes.push(bytes.len() - from);
        }
        for (value, times) in self.occurrences.iter().enumerate() {
            let from = bytes.len();
            bytes.extend_from_slice(self.values.key(value));
            bytes.extend_from_slice(&times.to_be_bytes());
            lens_bytes.push(bytes.len() - from);
        }
        let mut starts = Vec::new();
        let out = rows.push_zeros(&lens_bytes, &mut starts)?;
        let mut rest = &bytes[..];
        for (&start, &len_bytes) in starts.iter().zip(&lens_bytes) {
            let (row, behind) = rest.split_at(len_bytes);
            out[start..start + len_bytes].copy_from_slice(row);
            rest = behind;
        }
        self.groups.clear();
        self.firsts.clear();
        self.states.iter_mut().for_each(States::clear);
        self.values.clear();
        self.occurrences.clear();
        self.more_bytes = 0;
        bytes.clear();
        self.row = bytes;
        Ok(())
    }
}

impl RowSource for GroupSource<'_> {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn memory_bytes(&self) -> u64 {
        let held_bytes = HELD_BYTES + self.shape.made_bytes;
        (self.shape.reader_bytes + held_bytes) * self.shape.readers_count as u64
    }

    fn longest_row(&self) -> Option<LongRow> {
        self.shape.longest
    }

    fn read_forecast(&self) -> Forecast {
        self.input.stored_bytes().into()
    }

    fn sampled(&self) -> Sampled {
        self.sample.cost(self.input.read_bytes())
    }

    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        self.sample.show(take)
    }

    fn mean_row(&self) -> Option<MeanRow> {
        self.sample.mean()
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let mut take = |rows: &RowBatch, position: u64, _: bool| take(rows, position);
        self.make_again(TakenRows::NONE, &mut take)
    }

    fn make_again(&self, taken: TakenRows<'_>, take: &mut TakeAgain<'_>) -> Result<()> {
        if !taken.is_making(self.shape.readers_count, &self.begun) {
            return Ok(());
        }
        let mut reader = self.input.reader(self.shape.reader_bytes)?;
        let mut worker = Worker::new(self.plan);
        each_piece(
            self.input,
            &self.queue,
            taken,
            &mut reader,
            |reader, number, end| self.make_piece(reader, &mut worker, number, end, take),
        )
    }
}

impl GroupSource<'_> {
    /// Passes on the states of the groups of a piece. States before the position `end` are marked:
    /// the killed run passed them on already.
    fn make_piece(
        &self,
        reader: &mut TableReader<'_>,
        worker: &mut Worker<'_>,
        number: usize,
        end: u64,
        take: &mut TakeAgain<'_>,
    ) -> Result<()> {
        let piece = self.input.pieces()[number];
        let first = position_of(number)?;
        (worker.seen, worker.is_apart) = (0, false);
        let mut rows = RowBatch::default();
        let (mut place, mut made) = (0, 0);
        let mut give = |worker: &mut Worker<'_>| {
            rows.clear();
            worker.empty(&mut rows)?;
            let at = first + made;
            made += rows.len() as u64;
            take_made(&rows, at, end, take)
        };
        for batch in reader.open(piece)? {
            let batch = batch?;
            let mut from = 0;
            while from < batch.num_rows() {
                // Steps end at the same rows for any batch size of the reader.
                let step = self.step_rows - worker.seen % self.step_rows;
                let part = batch.slice(from, step.min(batch.num_rows() - from));
                let added = worker.add(&part, first + place);
                let at = BatchPlace {
                    piece,
                    first_row: place,
                    batch: &part,
                };
                added.map_err(|error| self.plan.fault(self.input, at, error))?;
                from += part.num_rows();
                place += part.num_rows() as u64;
                let is_step = worker.seen.is_multiple_of(self.step_rows);
                let is_apart = worker.is_apart || is_step && worker.looks_apart();
                if is_apart || is_step && worker.is_full() {
                    give(worker)?;
                    worker.is_apart = is_apart;
                }
            }
        }
        give(worker)
    }
}
