//! Takes the ordered rows of groups, computes the window columns, and writes them to a table.
//!
//! Contract: [`WindowSink`] takes the rows that [`super::plan`] makes; each group's rows come in
//! one part. A part holds a row until the rows after it that `lead` refers to have come, and as
//! long as `lag` can refer to it. A part is a section of the output.
//!
//! Bounds: the output's row groups; per thread a batch of rows, the rows that are referred to, and
//! their arrays.

use std::ops::Range;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_select::filter::filter_record_batch;
use outcore::Forecast;
use outcore::sort::lines::rows::{PartsInOutput, RowPart, RowSink};
use outcore_io::output::StagedOutput;
use outcore_io::{Error, Kind, Result, units};

use super::WINDOW;
use super::columns::{Columns, Ready};
use super::plan::{Placed, Plan};
use super::rank::RowRank;
use crate::fault;
use crate::jobs::rows_out::{ROWS_AT_ONCE, WriteShape};
use crate::output::{Section, TableOutput};

/// The number of batches that rows kept for reference may take.
const REACH_BATCHES: u64 = 2;
/// The copies of the rows that are referred to. These rows and the same number of new ones are held
/// as bytes and as arrays.
const HELD_COUNT: u64 = 4;

/// See the module.
pub(super) struct WindowSink<'a> {
    pub(super) output: &'a TableOutput,
    pub(super) plan: &'a Plan,
    pub(super) shape: WriteShape,
    pub(super) part_bytes: u64,
    /// The bytes of rows that are referred to, if none of them is long.
    pub(super) reach_share_bytes: u64,
}

impl WindowSink<'_> {
    /// The most bytes of rows that are referred to. Short rows may take a few batches or a share of
    /// the memory; long rows may take the room planned for them.
    fn reach_bytes(&self) -> u64 {
        let batches_bytes = REACH_BATCHES * self.shape.batch_bytes;
        let short_bytes = batches_bytes.max(self.reach_share_bytes);
        short_bytes.max(self.shape.taken_bytes / HELD_COUNT)
    }
}

impl RowSink for WindowSink<'_> {
    fn memory_bytes(&self) -> u64 {
        // The rows that are referred to and the same number of new ones, the arrays of both, and
        // the encoded form.
        let (batches, reach_bytes) = match self.plan.reach() {
            (0, 0) => (4, 0),
            _ => (5, HELD_COUNT * self.reach_bytes()),
        };
        let taken_bytes = reach_bytes.max(self.shape.taken_bytes);
        let held_bytes = batches * self.shape.batch_bytes + taken_bytes;
        self.shape.output_bytes + held_bytes * self.shape.writers_count as u64
    }

    fn written_forecast(&self) -> Forecast {
        Forecast::Unknown
    }

    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn keeps_keys_together(&self) -> bool {
        true
    }

    fn begin(&self, number: usize, rows_before: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(WindowPart {
            sink: self,
            section: self.output.section(number as u64, rows_before.unwrap_or(0)),
            group: Vec::new(),
            order: Vec::new(),
            last: None,
            first_row: Vec::new(),
            held: Held::default(),
            columns: Columns::new(self.plan),
        }))
    }

    fn staged(&self) -> Option<&StagedOutput> {
        self.output.staged()
    }

    fn parts_in_output(&self) -> Result<Option<PartsInOutput>> {
        self.output.sections_in_file()
    }

    fn give_up(&self) {
        self.output.give_up();
    }
}

struct WindowPart<'a> {
    sink: &'a WindowSink<'a>,
    section: Section<'a>,
    /// The current group, followed by the order values of its last row.
    group: Vec<u8>,
    order: Vec<u8>,
    /// The place of that row in its group.
    last: Option<RowRank>,
    /// The first row of the group that the first held row belongs to.
    first_row: Vec<u8>,
    held: Held,
    columns: Columns<'a>,
}

/// Rows; the first of them are already written and kept only for reference.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
    places: Vec<RowRank>,
    /// The number of written rows.
    done: usize,
    /// Bytes of the rows that were held when the last batch was written.
    kept_bytes: usize,
    kept_rows: usize,
}

impl Held {
    fn push(&mut self, row: &[u8], place: RowRank) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.ranges.push(from..self.bytes.len());
        self.places.push(place);
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.bytes[self.ranges[row].clone()]
    }

    /// The first held row in the group of row `ready`, the next one to write; at most `ready`.
    fn group_from(&self, ready: usize) -> usize {
        let row = ready.min(self.places.len().saturating_sub(1));
        let first = self.places.get(row).and_then(|place| place.first_row(row));
        first.unwrap_or(0).min(ready)
    }

    /// Drops the first rows.
    fn forget(&mut self, rows: usize) {
        let from = self
            .ranges
            .get(rows)
            .map_or(self.bytes.len(), |range| range.start);
        self.bytes.drain(..from);
        self.ranges.drain(..rows);
        self.places.drain(..rows);
        for range in &mut self.ranges {
            *range = range.start - from..range.end - from;
        }
        self.kept_bytes = self.bytes.len();
        self.kept_rows = self.ranges.len();
    }
}

impl WindowPart<'_> {
    fn add(&mut self, row: &[u8]) -> Result<()> {
        let placed = Placed::of(row)?;
        self.sink.shape.check_row(placed.row)?;
        let last = self.last.filter(|_| self.group == placed.group);
        let place = match last {
            None => RowRank::FIRST,
            Some(last) => last.next(self.order == placed.order),
        };
        if last.is_none() {
            self.group.clear();
            self.group.extend_from_slice(placed.group);
        }
        self.order.clear();
        self.order.extend_from_slice(placed.order);
        self.last = Some(place);
        self.held.push(placed.row, place);
        let new_bytes = (self.held.bytes.len() - self.held.kept_bytes) as u64;
        let new_rows = self.held.ranges.len() - self.held.kept_rows;
        let kept_bytes = self.held.kept_bytes as u64;
        let is_full = new_bytes >= self.sink.shape.batch_bytes.max(kept_bytes)
            || new_rows >= ROWS_AT_ONCE.max(self.held.kept_rows);
        match is_full {
            true => self.write(false),
            false => Ok(()),
        }
    }

    /// Writes the rows that need no later rows.
    fn write(&mut self, is_end: bool) -> Result<()> {
        let (before, behind) = self.sink.plan.reach();
        let count = self.held.ranges.len();
        let ready = match is_end {
            true => count,
            false => count.saturating_sub(behind).max(self.held.done),
        };
        if ready > self.held.done {
            let decoded = fault::guarded(WINDOW, || self.decoded())?;
            let step = self.rows_at_once();
            for from in (self.held.done..ready).step_by(step) {
                let rows = from..ready.min(from + step);
                let batch = fault::guarded(WINDOW, || self.made(&decoded, rows))?;
                self.section.write(&batch)?;
            }
        }
        let kept = self
            .held
            .group_from(ready)
            .max(ready.saturating_sub(before));
        if self.sink.plan.wants_first() {
            self.keep_first(kept);
        }
        self.held.forget(kept);
        self.held.done = ready - kept;
        let kept_bytes = self.held.bytes.len() as u64;
        match kept_bytes > self.sink.reach_bytes() && !is_end {
            true => Err(self.too_far(kept_bytes)),
            false => Ok(()),
        }
    }

    /// Keeps the first row of the group of row `kept`; the rows before it are dropped.
    fn keep_first(&mut self, kept: usize) {
        // The row after all of these is in the same group, or it is the first row of a group and
        // needs no earlier row.
        let last = self.held.places.len().saturating_sub(1);
        let row = kept.min(last);
        let Some(place) = self.held.places.get(row) else {
            return;
        };
        if let Some(first) = place.first_row(row) {
            let bytes = self.held.bytes[self.held.ranges[first].clone()].to_vec();
            self.first_row = bytes;
        }
    }

    /// The number of rows that form a batch, given that each may repeat a value of another row.
    fn rows_at_once(&self) -> usize {
        let plan = self.sink.plan;
        let has_extreme = plan.wants_extreme();
        if !has_extreme && !plan.wants_first() {
            return self.held.ranges.len().max(1);
        }
        let ranges = self.held.ranges.iter().zip(&self.held.places);
        let repeated =
            ranges.filter(|(_, place)| has_extreme || plan.wants_first() && place.number == 1);
        let repeated = repeated.map(|(range, _)| range.len());
        let before = [self.first_row.len(), self.columns.held_bytes_max()];
        let longest_bytes = repeated.chain(before).max().unwrap_or(0) as u64;
        let count = self.sink.shape.batch_bytes / longest_bytes.max(1);
        usize::try_from(count).unwrap_or(usize::MAX).max(1)
    }

    /// The held rows. If the first row of their first group is kept, it comes before them.
    fn decoded(&self) -> Result<RecordBatch> {
        let held = &self.held;
        let front = self.has_front().then_some(&self.first_row[..]);
        let rows = (0..held.ranges.len()).map(|row| held.row(row));
        let rows: Vec<&[u8]> = front.into_iter().chain(rows).collect();
        self.sink.plan.codec.decode(&rows)
    }

    fn has_front(&self) -> bool {
        self.sink.plan.wants_first() && !self.first_row.is_empty()
    }

    /// Builds the batch of the held rows `rows`.
    fn made(&mut self, decoded: &RecordBatch, rows: Range<usize>) -> Result<RecordBatch> {
        let plan = self.sink.plan;
        let front = usize::from(self.has_front());
        let held = &self.held;
        let wanted = Ready {
            places: &held.places,
            front,
            rows: rows.clone(),
        };
        let computed = self.columns.compute(decoded, &wanted)?;
        let rows_count = rows.len();
        let table = decoded.slice(front + rows.start, rows_count);
        let columns = [table.columns(), &computed].concat();
        let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
        let arrow = |error| fault::arrow(WINDOW, &error);
        let batch = RecordBatch::try_new_with_options(plan.schema.clone(), columns, &options);
        let batch = batch.map_err(arrow)?;
        let Some(first) = plan.first else {
            return Ok(batch);
        };
        let places = &held.places[wanted.rows];
        let is_first = places
            .iter()
            .map(|place| Some(place.number as u64 <= first));
        let is_first: BooleanArray = is_first.collect();
        filter_record_batch(&batch, &is_first).map_err(arrow)
    }

    fn too_far(&self, kept_bytes: u64) -> Error {
        let (before, behind) = self.sink.plan.reach();
        let cause = format!(
            "lag and lead reach up to {} away; the rows held for them already take {}, but \
             this memory has room for only {}",
            units::counted(before.max(behind) as u64, "row"),
            units::bytes(kept_bytes),
            units::bytes(self.sink.reach_bytes())
        );
        // If no rows are known to be long, the limit is a share of the memory.
        let rows = before.saturating_add(behind).max(1) as u64;
        let longest_bytes = self.held.ranges.iter().map(ExactSizeIterator::len).max();
        let all_bytes = rows.saturating_mul(longest_bytes.unwrap_or(0) as u64);
        let threads = self.sink.shape.writers_count as u64;
        let enough_bytes = all_bytes
            .max(kept_bytes)
            .min(1 << 40)
            .saturating_mul(super::REACH_SHARE * threads);
        let enough = units::bytes_exact(enough_bytes.next_multiple_of(64 << 20));
        Error::new(Kind::Memory, WINDOW, cause).hint(format!(
            "allow --memory {enough}, reduce the distance of lag and lead, use fewer threads, or leave long columns out with --columns",
        ))
    }
}

impl RowPart for WindowPart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        for row in rows {
            self.add(row)?;
        }
        Ok(())
    }

    fn movable<'p>(self: Box<Self>) -> Option<Box<dyn RowPart + Send + 'p>>
    where
        Self: 'p,
    {
        Some(self)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.write(true)?;
        self.section.finish()
    }
}
