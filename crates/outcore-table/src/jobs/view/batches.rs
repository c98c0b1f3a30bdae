//! Reads rows of a view as record batches.
//!
//! Contract: [`ViewBatches`] returns the rows of a range in order, in batches of a few thousand
//! rows. [`ViewStream`] passes them to other libraries, and can move between threads. Both own all
//! that they need.
//!
//! Bounds: a reader of the view, and the rows of a batch twice, as bytes and as arrays. For a row
//! that is longer than a batch, more is reserved while it is held. A stream holds up to a quarter
//! of its memory as batches that are ready.

use std::collections::VecDeque;
use std::ops::Range;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use outcore::Job;
use outcore::runs::ViewReader;
use outcore::sort::lines::rows::RowBatch;
use outcore_io::memory::{Reservation, allow_hint};
use outcore_io::{Error, Kind, Result, units};

use super::TableView;
use crate::fault;
use crate::jobs::rows_out::ROWS_AT_ONCE;

/// Approximate bytes of rows that are decoded at once, if the memory allows it.
const BATCH_BYTES_MAX: u64 = 1 << 20;
const BATCH_BYTES_MIN: u64 = 64 << 10;
/// The least bytes of rows that a stream reads at once, if the memory allows it.
const STRETCH_BYTES_MIN: u64 = 4 << 20;
const ROWS: &str = "rows of a view";
/// Copies of a batch: rows as bytes, arrays, and room for growth.
const COPIES: u64 = 3;

/// The batches of a range of rows. See the module.
pub struct ViewBatches {
    view: TableView,
    reader: ViewReader,
    rows: RowBatch,
    /// Index of the next row that was read but not returned yet.
    next: usize,
    batch_bytes: usize,
    _held: Reservation,
    /// Memory of a row that is longer than a batch.
    held_for_long: Option<Reservation>,
}

impl TableView {
    /// Reads the rows of a range within `memory_bytes`.
    ///
    /// # Errors
    /// Memory: two blocks of each run and a batch do not fit. Usage: a range beyond the end. Errors
    /// of reading.
    pub fn batches(&self, range: Range<u64>, memory_bytes: u64) -> Result<ViewBatches> {
        let mut batches = self.batches_in(memory_bytes)?;
        batches.seek(range)?;
        Ok(batches)
    }

    /// The least memory for [`TableView::batches`].
    pub(super) fn batches_min_bytes(&self) -> u64 {
        self.view.needed_bytes() + COPIES * BATCH_BYTES_MIN
    }

    /// Creates batches without a range.
    pub(super) fn batches_in(&self, memory_bytes: u64) -> Result<ViewBatches> {
        let needed_bytes = self.batches_min_bytes();
        if memory_bytes < needed_bytes {
            let cause = format!(
                "reading {} takes {}, but only {} are free",
                units::counted(self.view.info().runs.len() as u64, "run"),
                units::bytes(needed_bytes),
                units::bytes(memory_bytes)
            );
            // A reader has a part of the memory, so the hint scales with it.
            let times = needed_bytes as f64 / memory_bytes.max(1) as f64;
            let all_bytes = self.view.job().options.memory_bytes as f64;
            let enough_bytes = ((all_bytes * times) as u64).next_multiple_of(64 << 20);
            return Err(
                Error::new(Kind::Memory, "open reader", cause).hint(allow_hint(enough_bytes))
            );
        }
        let spare_bytes = memory_bytes - self.view.needed_bytes();
        let batch_bytes = (spare_bytes / 4 / COPIES).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
        let held_bytes = COPIES * batch_bytes;
        let held = self.view.job().budget.reserve(ROWS, held_bytes)?;
        Ok(ViewBatches {
            view: self.clone(),
            reader: self.view.reader(memory_bytes - held_bytes)?,
            rows: RowBatch::default(),
            next: 0,
            batch_bytes: batch_bytes as usize,
            _held: held,
            held_for_long: None,
        })
    }
}

impl ViewBatches {
    /// Moves to a range.
    pub(super) fn seek(&mut self, range: Range<u64>) -> Result<()> {
        self.rows.clear();
        self.next = 0;
        self.reader.seek(range)
    }

    /// Returns the next batch, or `None` after the last.
    ///
    /// # Errors
    /// Errors of reading; corrupt data.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        fault::guarded("read view", || self.advance())
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        if self.next == self.rows.len() {
            let job = self.view.view.job();
            job.control.check()?;
            self.next = 0;
            match self.held_for_long.take() {
                // Frees the memory of a long row.
                Some(_) => self.rows = RowBatch::default(),
                None => self.rows.clear(),
            }
            let (held, batch_bytes) = (&mut self.held_for_long, self.batch_bytes);
            self.reader
                .read_rows(&mut self.rows, batch_bytes, |rows_bytes| {
                    let longer_bytes = rows_bytes.saturating_sub(batch_bytes) as u64;
                    if longer_bytes > 0 {
                        *held = None;
                        let reserved = job.budget.reserve(ROWS, COPIES * longer_bytes);
                        let enough_bytes = enough_for_row(job, longer_bytes);
                        let located = |error: Error| error.hint(allow_hint(enough_bytes));
                        *held = Some(reserved.map_err(located)?);
                    }
                    Ok(())
                })?;
        }
        let rows = self.rows.iter().skip(self.next).take(ROWS_AT_ONCE);
        let rows: Vec<&[u8]> = rows.collect();
        if rows.is_empty() {
            return Ok(None);
        }
        self.next += rows.len();
        self.view.codec.decode(&rows).map(Some)
    }
}

/// Returns enough memory for a row that is longer than a batch by `longer_bytes`. Readers leave a
/// part of the memory free; this part grows with the memory.
fn enough_for_row(job: &Job, longer_bytes: u64) -> u64 {
    let (memory_bytes, free_bytes) = (job.options.memory_bytes, job.budget.free_bytes());
    let times = (COPIES * longer_bytes) as f64 / free_bytes.max(1) as f64;
    let by_part = (memory_bytes as f64 * times.max(1.0)) as u64;
    // Readers may take all memory except for the memory of a batch.
    let by_rest = memory_bytes + 4 * COPIES * longer_bytes;
    by_part.min(by_rest).next_multiple_of(64 << 20)
}

/// The batches of a range for another library, which may request each of them from another thread.
/// Rows are read in stretches, each with a reader of its own.
pub struct ViewStream {
    view: TableView,
    left: Range<u64>,
    memory_bytes: u64,
    ready: VecDeque<RecordBatch>,
    /// The memory of batches that are ready.
    held: Option<Reservation>,
}

impl TableView {
    /// Streams the rows of a range within `memory_bytes`; batches that are ready take at most a
    /// quarter of it.
    ///
    /// # Errors
    /// Usage: a range beyond the end.
    pub fn stream(&self, range: Range<u64>, memory_bytes: u64) -> Result<ViewStream> {
        let rows_count = self.view.len();
        if range.start > range.end || range.end > rows_count {
            let cause = format!("rows {}..{} of {rows_count}", range.start, range.end);
            return Err(Error::usage("read view", cause).hint("give a range inside the view"));
        }
        Ok(ViewStream {
            view: self.clone(),
            left: range,
            memory_bytes,
            ready: VecDeque::new(),
            held: None,
        })
    }
}

impl ViewStream {
    /// The rows of a stretch. It is long enough that the blocks at its ends, which are read twice,
    /// hardly count.
    fn stretch_rows(&self) -> u64 {
        let quarter_bytes = self.memory_bytes / 4;
        let wanted_bytes = (4 * self.view.view.needed_bytes()).max(STRETCH_BYTES_MIN);
        let row_bytes = self.view.bytes_of(1).max(1);
        (wanted_bytes.min(quarter_bytes) / row_bytes).max(1)
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        if self.ready.is_empty() && !self.left.is_empty() {
            let ready_bytes_max = self.memory_bytes / 4;
            let job = self.view.view.job();
            self.held = Some(job.budget.reserve(ROWS, ready_bytes_max)?);
            let end = self.left.end.min(self.left.start + self.stretch_rows());
            let memory_bytes = self.memory_bytes / 4 * 3;
            let mut batches = self.view.batches(self.left.start..end, memory_bytes)?;
            let mut ready_bytes = 0;
            // Arrays may be larger than the rows they are made from.
            while ready_bytes < ready_bytes_max
                && let Some(batch) = batches.advance()?
            {
                ready_bytes += batch.get_array_memory_size() as u64;
                self.left.start += batch.num_rows() as u64;
                self.ready.push_back(batch);
            }
        }
        let next = self.ready.pop_front();
        if self.ready.is_empty() {
            self.held = None;
        }
        Ok(next)
    }
}

impl Iterator for ViewStream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = fault::guarded("read view", || self.advance());
        if next.is_err() {
            self.left.start = self.left.end;
        }
        next.map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for ViewStream {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(self.view.schema())
    }
}
