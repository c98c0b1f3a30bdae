//! Pairs the sorted rows of both tables, and writes them to a table.
//!
//! Contract: [`JoinSink`] takes all rows of a key in one part, the right ones first. Right rows are
//! [`Held`] if left rows need them, and each left row is paired with them. Rows without a partner
//! are written if the kind of join requires it. Pairs are collected as row places in a buffer,
//! decoded column by column in batches of a few thousand, and written to the part's section of the
//! output.
//!
//! Bounds: the output's row groups; per thread a batch of rows, its arrays, and the held rows.

use std::ops::Range;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_select::nullif::nullif;
use outcore::Forecast;
use outcore::sort::lines::rows::{PartsInOutput, RowPart, RowSink};
use outcore_io::Result;
use outcore_io::output::StagedOutput;

use super::held::{Held, Placed, Scratch, SpillIo};
use super::plan::{Plan, Which};
use super::{JOIN, JoinKind};
use crate::fault;
use crate::jobs::copy::filtered;
use crate::jobs::rows_out::{ROWS_AT_ONCE, WriteShape};
use crate::output::{Section, TableOutput};

/// See the module.
pub(super) struct JoinSink<'a> {
    pub(super) output: &'a TableOutput,
    pub(super) plan: &'a Plan,
    pub(super) shape: WriteShape,
    pub(super) part_bytes: u64,
    pub(super) scratch: Scratch<'a>,
}

impl RowSink for JoinSink<'_> {
    fn memory_bytes(&self) -> u64 {
        // Pairs of rows, the arrays decoded from them, and their encoded form.
        let held_bytes = Held::memory_bytes(self.shape.batch_bytes) + self.shape.taken_bytes;
        let taken_bytes = 4 * self.shape.batch_bytes + held_bytes;
        self.shape.output_bytes + taken_bytes * self.shape.writers_count as u64
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

    fn begin(&self, number: usize, _: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(JoinPart {
            sink: self,
            key: Vec::new(),
            is_begun: false,
            has_left: false,
            partners: 0,
            held: Held::new(&self.scratch, self.shape.batch_bytes),
            pairs: Pairs {
                sink: self,
                section: self.output.section(number as u64, 0),
                batch: 1,
                bytes: Vec::new(),
                paired_bytes: 0,
                left: Vec::new(),
                right: Vec::new(),
            },
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

struct JoinPart<'a> {
    sink: &'a JoinSink<'a>,
    /// The current key.
    key: Vec<u8>,
    is_begun: bool,
    /// Whether the key has had a left row.
    has_left: bool,
    /// For multisets: right rows that are not paired yet.
    partners: u64,
    /// Right rows of the key: for an as-of join the last one; otherwise all, or the first one if
    /// the join writes no right rows.
    held: Held<'a>,
    pairs: Pairs<'a>,
}

impl JoinPart<'_> {
    fn add(&mut self, row: &[u8], io: &mut SpillIo) -> Result<()> {
        let plan = self.sink.plan;
        let row = plan.read(row)?;
        self.sink.shape.check_row(row.row)?;
        if !self.is_begun || self.key != row.key {
            self.end_key(io)?;
            self.is_begun = true;
            self.key.clear();
            self.key.extend_from_slice(row.key);
        }
        match row.is_left {
            true => self.add_left(row.row, row.is_null, io),
            false => self.add_right(row.row, row.is_null, io),
        }
    }

    fn add_right(&mut self, row: &[u8], is_null: bool, io: &mut SpillIo) -> Result<()> {
        let plan = self.sink.plan;
        if is_null {
            return match plan.sides[Which::Right as usize].is_kept {
                true => self.pairs.push(None, Some((row, &mut Placed::default()))),
                false => Ok(()),
            };
        }
        if plan.is_of_multisets {
            self.partners += 1;
            return Ok(());
        }
        if plan.asof.is_some() {
            self.held.clear();
        }
        match plan.holds_all() || self.held.is_empty() {
            true => self.held.push(row, io),
            false => Ok(()),
        }
    }

    fn add_left(&mut self, row: &[u8], is_null: bool, io: &mut SpillIo) -> Result<()> {
        let plan = self.sink.plan;
        self.has_left |= !is_null;
        let placed = &mut Placed::default();
        let has_partner = match plan.is_of_multisets {
            true => self.partners > 0,
            false => !is_null && !self.held.is_empty(),
        };
        self.partners = self.partners.saturating_sub(1);
        match (plan.kind, has_partner) {
            (JoinKind::Semi, true) => self.pairs.push(Some((row, placed)), None),
            (JoinKind::Anti, true) => Ok(()),
            (_, true) => {
                let pairs = &mut self.pairs;
                self.held.each(io, |right, at| {
                    pairs.push(Some((row, &mut *placed)), Some((right, at)))
                })
            }
            (_, false) => match plan.sides[Which::Left as usize].is_kept {
                true => self.pairs.push(Some((row, placed)), None),
                false => Ok(()),
            },
        }
    }

    /// Ends the current key.
    fn end_key(&mut self, io: &mut SpillIo) -> Result<()> {
        if !self.has_left && self.sink.plan.sides[Which::Right as usize].is_kept {
            let pairs = &mut self.pairs;
            self.held
                .each(io, |right, at| pairs.push(None, Some((right, at))))?;
        }
        self.held.clear();
        self.has_left = false;
        self.partners = 0;
        Ok(())
    }
}

impl RowPart for JoinPart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        let mut io = SpillIo::default();
        for row in rows {
            self.add(row, &mut io)?;
        }
        io.finish(self.sink.scratch.job())
    }

    fn movable<'p>(self: Box<Self>) -> Option<Box<dyn RowPart + Send + 'p>>
    where
        Self: 'p,
    {
        Some(self)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.end_key(&mut SpillIo::default())?;
        self.pairs.write()?;
        self.pairs.section.finish()
    }
}

/// A row of one table, and its place among the rows of the next batch, if it is there.
type ToPlace<'r> = Option<(&'r [u8], &'r mut Placed)>;

/// Pairs of rows that form a batch of the output.
struct Pairs<'a> {
    sink: &'a JoinSink<'a>,
    section: Section<'a>,
    /// The number of the batch.
    batch: u64,
    /// Rows of both tables, each once.
    bytes: Vec<u8>,
    /// Bytes of the rows of all pairs; a row in several pairs counts several times.
    paired_bytes: u64,
    /// The place of each output row's left row, if any.
    left: Vec<Option<Range<usize>>>,
    /// The place of each output row's right row, if any.
    right: Vec<Option<Range<usize>>>,
}

impl Pairs<'_> {
    fn push(&mut self, left: ToPlace<'_>, right: ToPlace<'_>) -> Result<()> {
        let is_long = self.paired_bytes >= self.sink.shape.batch_bytes;
        if self.left.len() == ROWS_AT_ONCE || is_long {
            self.write()?;
        }
        let left = left.map(|(row, placed)| self.place(row, placed));
        self.left.push(left);
        let right = right.map(|(row, placed)| self.place(row, placed));
        self.right.push(right);
        Ok(())
    }

    fn place(&mut self, row: &[u8], placed: &mut Placed) -> Range<usize> {
        self.paired_bytes += row.len() as u64;
        if placed.batch != self.batch {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(row);
            *placed = Placed {
                batch: self.batch,
                range: from..self.bytes.len(),
            };
        }
        placed.range.clone()
    }

    fn write(&mut self) -> Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let batch = fault::guarded(JOIN, || self.made())?;
        self.section.write(&batch)?;
        self.bytes.clear();
        self.paired_bytes = 0;
        self.left.clear();
        self.right.clear();
        self.batch += 1;
        Ok(())
    }

    /// Decodes the columns of one table for the rows of the batch.
    fn decoded(&self, which: Which) -> Result<RecordBatch> {
        let side = &self.sink.plan.sides[which as usize];
        let places = match which {
            Which::Left => &self.left,
            Which::Right => &self.right,
        };
        let row = |place: &Option<Range<usize>>| match place {
            Some(range) => &self.bytes[range.clone()],
            None => side.nothing(),
        };
        let rows: Vec<&[u8]> = places.iter().map(row).collect();
        side.codec.decode(&rows)
    }

    fn made(&self) -> Result<RecordBatch> {
        let plan = self.sink.plan;
        let left = self.decoded(Which::Left)?;
        let mut right = match plan.kind.writes_right() {
            true => self.decoded(Which::Right)?,
            false => left.slice(0, 0),
        };
        let tolerance = plan.asof.as_ref().and_then(|asof| asof.tolerance);
        let mut far = None;
        if let Some((tolerance, [one, other])) = tolerance {
            let exceeded = plan.too_far(tolerance, left.column(one), right.column(other))?;
            right = without(&right, &exceeded)?;
            far = Some(exceeded);
        }
        let is_left = || {
            let places = self.left.iter();
            places.map(|place| Some(place.is_some())).collect()
        };
        let batch = plan.put_together(&left, &right, is_left)?;
        match far {
            Some(far) if plan.kind == JoinKind::Inner => {
                let near = arrow_arith::boolean::not(&far);
                let near = near.map_err(|error| fault::arrow(JOIN, &error))?;
                filtered(&batch, &near)
            }
            _ => Ok(batch),
        }
    }
}

/// Sets the columns to null in the rows that are `left_out`.
fn without(batch: &RecordBatch, left_out: &BooleanArray) -> Result<RecordBatch> {
    let columns = batch.columns().iter();
    let columns = columns.map(|column| nullif(column, left_out));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
    columns
        .and_then(|columns| {
            let options = RecordBatchOptions::new().with_row_count(Some(left_out.len()));
            RecordBatch::try_new_with_options(batch.schema(), columns, &options)
        })
        .map_err(|error| fault::arrow(JOIN, &error))
}
