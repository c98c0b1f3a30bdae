//! Copies a part of a table: rows at one end, or random rows.
//!
//! Contract: rows keep their order. [`sample`] copies a given number of rows, and every set of that
//! many rows is equally likely; [`halves`] splits a table in the same way. The choice depends only
//! on the seed and the number of rows.
//!
//! [`span`] copies the rows at one end.
//!
//! **Sampling.** Row i of n is taken with probability (k - t) / (n - i) if t rows before it were
//! taken. So exactly k rows are taken in the end, and every set is equally likely (Fan, Muller,
//! Rezucha, "Development of sampling plans by using sequential selection techniques", 1962; Knuth,
//! volume 2, algorithm S). The random number of a row is a hash of seed and i. The number of rows
//! taken so far is stored for every [`STEP_ROWS`]th row, so threads can begin anywhere.
//!
//! Bounds: a copy, and two bytes per thousand rows.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use outcore::Job;
use outcore::read::sample::{draw_places, is_drawn};
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};
use twox_hash::XxHash3_64;

use super::copy::{Change, WriteBatch, copy_changed, filtered, starts_of};
use super::{TableEnds, TableSummary};
use crate::fault;
use crate::input::{Piece, RowSpan, TableInput, common_rows};
use crate::output::OutputOptions;

/// The distance between rows for which the number of rows taken before is stored.
const STEP_ROWS: u64 = 4096;

/// Copies the rows at one end of a table.
///
/// # Errors
/// As [`copy`](super::copy()).
pub fn span(job: &Job, ends: &TableEnds<'_>, span: RowSpan) -> Result<TableSummary> {
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let taken = span.of(input.rows_count());
    let mut start = 0;
    let ranges = input.pieces().iter().map(|piece| {
        let rows = start..start + piece.rows_count;
        start = rows.end;
        let of_piece = common_rows(&rows, &taken);
        of_piece.start - rows.start..of_piece.end - rows.start
    });
    let spans = Spans(ranges.collect());
    let to = (ends.outputs, input.schema(), ends.writes);
    copy_changed(job, &input, to, &spans)?.publish()
}

/// The rows to take from each piece.
struct Spans(Vec<Range<u64>>);

impl Change for Spans {
    fn count(&self, piece: usize) -> Option<u64> {
        self.0.get(piece).map(|rows| rows.end - rows.start)
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let rows = self.0.get(piece).cloned().unwrap_or_default();
        let all = first..first + batch.num_rows() as u64;
        let taken = common_rows(&all, &rows);
        let (from, count) = (taken.start - first, taken.end - taken.start);
        match count {
            0 => Ok(()),
            _ => write(&batch.slice(from as usize, count as usize)),
        }
    }
}

/// Copies `rows_count` random rows of a table, or all if there are fewer; `seed` determines which.
///
/// # Errors
/// As [`copy`](super::copy()).
pub fn sample(job: &Job, ends: &TableEnds<'_>, rows_count: u64, seed: u64) -> Result<TableSummary> {
    let started = Instant::now();
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let drawn = Drawn::new(job, input.pieces(), rows_count, seed)?;
    let to = (ends.outputs, input.schema(), ends.writes);
    let taken = Taken {
        drawn: &drawn,
        is_drawn: true,
    };
    let done = copy_changed(job, &input, to, &taken)?.publish()?;
    Ok(TableSummary {
        seconds: started.elapsed().as_secs_f64(),
        ..done
    })
}

/// Copies each row of a table with this probability; `seed` determines which.
///
/// # Errors
/// As [`copy`](super::copy()).
pub fn sample_rate(job: &Job, ends: &TableEnds<'_>, rate: f64, seed: u64) -> Result<TableSummary> {
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let drawn = Flipped {
        starts: starts_of(input.pieces()),
        rate,
        seed,
    };
    let to = (ends.outputs, input.schema(), ends.writes);
    copy_changed(job, &input, to, &drawn)?.publish()
}

/// Copies `rows_count` rows, each drawn from all rows with equal probability. A row that is drawn
/// several times is copied that many times, to adjacent rows.
///
/// # Errors
/// As [`copy`](super::copy()). Memory: eight bytes per drawn row.
pub fn sample_with_replacement(
    job: &Job,
    ends: &TableEnds<'_>,
    rows_count: u64,
    seed: u64,
) -> Result<TableSummary> {
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let all = input.rows_count();
    let rows_count = if all == 0 { 0 } else { rows_count };
    let bytes = rows_count.saturating_mul(size_of::<u64>() as u64);
    let _places = job.budget.reserve("places of rows that are drawn", bytes)?;
    let repeated = Repeated {
        starts: starts_of(input.pieces()),
        places: draw_places(all, rows_count, seed),
    };
    let to = (ends.outputs, input.schema(), ends.writes);
    copy_changed(job, &input, to, &repeated)?.publish()
}

/// The numbers, among all rows, of a batch's rows; its first row is row `first` of a piece.
fn rows_of(starts: &[u64], piece: usize, first: u64, batch: &RecordBatch) -> Range<u64> {
    let start = starts.get(piece).copied().unwrap_or(0) + first;
    start..start + batch.num_rows() as u64
}

/// Rows that are drawn independently.
struct Flipped {
    starts: Vec<u64>,
    rate: f64,
    seed: u64,
}

impl Change for Flipped {
    fn count(&self, _: usize) -> Option<u64> {
        None
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let rows = rows_of(&self.starts, piece, first, &batch);
        let chosen: BooleanArray = rows
            .map(|row| Some(is_drawn(self.seed, row, self.rate)))
            .collect();
        write(&filtered(&batch, &chosen)?)
    }
}

/// Rows that may be drawn several times.
struct Repeated {
    starts: Vec<u64>,
    /// In ascending order.
    places: Vec<u64>,
}

impl Repeated {
    /// The draws within a range of rows.
    fn of(&self, rows: Range<u64>) -> &[u64] {
        let at = |row: u64| self.places.partition_point(|place| *place < row);
        &self.places[at(rows.start)..at(rows.end)]
    }
}

impl Change for Repeated {
    fn count(&self, piece: usize) -> Option<u64> {
        let rows = *self.starts.get(piece)?..*self.starts.get(piece + 1)?;
        Some(self.of(rows).len() as u64)
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let rows = rows_of(&self.starts, piece, first, &batch);
        let start = rows.start;
        // A row that is drawn often must not make a batch arbitrarily large.
        for places in self.of(rows).chunks(batch.num_rows().max(1)) {
            let taken: UInt32Array = places
                .iter()
                .map(|place| Some((place - start) as u32))
                .collect();
            let taken = take_record_batch(&batch, &taken);
            write(&taken.map_err(|error| fault::arrow("draw rows", &error))?)?;
        }
        Ok(())
    }
}

/// Copies a random share of the rows to the outputs, and the others to `rest`; `seed` determines
/// which. All outputs appear together, or none appears.
///
/// # Errors
/// As [`copy`](super::copy()). Usage: a share that is not between 0 and 1.
pub fn halves(
    job: &Job,
    ends: &TableEnds<'_>,
    share: f64,
    seed: u64,
    rest: &PathBuf,
    rest_writes: &OutputOptions,
) -> Result<(TableSummary, TableSummary)> {
    if !(0.0..=1.0).contains(&share) {
        return Err(
            Error::usage("draw rows", format!("{share} is not a share of the rows"))
                .hint("give a number between 0 and 1, for example 0.9"),
        );
    }
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let rows_count = (input.rows_count() as f64 * share).round() as u64;
    let drawn = Drawn::new(job, input.pieces(), rows_count, seed)?;
    let copy = |to: (&[PathBuf], &OutputOptions), is_drawn: bool| {
        let own = Job {
            budget: Budget::new(job.budget.free_bytes()),
            ..job.clone()
        };
        let taken = Taken {
            drawn: &drawn,
            is_drawn,
        };
        let to = (to.0, input.schema(), to.1);
        copy_changed(&own, &input.under(&own)?, to, &taken)
    };
    let one = copy((ends.outputs, ends.writes), true)?;
    let rest = (std::slice::from_ref(rest), rest_writes);
    let other = copy(rest, false)?;
    one.publish_with(other)
}

/// The drawn rows.
struct Drawn {
    seed: u64,
    rows_count: u64,
    drawn_count: u64,
    /// For every [`STEP_ROWS`]th row, the number of drawn rows before it.
    before: Vec<u64>,
    /// The first row of each piece, followed by the number of all rows.
    starts: Vec<u64>,
}

impl Drawn {
    fn new(job: &Job, pieces: &[Piece], drawn_count: u64, seed: u64) -> Result<Self> {
        let starts = starts_of(pieces);
        let rows_count = starts.last().copied().unwrap_or(0);
        let mut drawn = Drawn {
            seed,
            rows_count,
            drawn_count: drawn_count.min(rows_count),
            before: Vec::new(),
            starts,
        };
        let mut taken = 0;
        for first in (0..rows_count).step_by(STEP_ROWS as usize) {
            job.control.check()?;
            drawn.before.push(taken);
            let rows = first..rows_count.min(first + STEP_ROWS);
            rows.for_each(|row| taken += u64::from(drawn.is_next(row, taken)));
        }
        Ok(drawn)
    }

    /// Whether a row is drawn, if `taken` rows before it were.
    fn is_next(&self, row: u64, taken: u64) -> bool {
        let number = XxHash3_64::oneshot_with_seed(self.seed, &row.to_le_bytes());
        let place = (u128::from(number) * u128::from(self.rows_count - row)) >> 64;
        place < u128::from(self.drawn_count - taken)
    }

    /// The number of drawn rows before this one.
    fn before(&self, row: u64) -> u64 {
        let step = row / STEP_ROWS;
        let Some(&before) = self.before.get(step as usize) else {
            return self.drawn_count;
        };
        let rows = step * STEP_ROWS..row;
        rows.fold(before, |taken, row| {
            taken + u64::from(self.is_next(row, taken))
        })
    }
}

/// The drawn rows, or the others.
struct Taken<'d> {
    drawn: &'d Drawn,
    is_drawn: bool,
}

impl Change for Taken<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        let (start, end) = (
            *self.drawn.starts.get(piece)?,
            *self.drawn.starts.get(piece + 1)?,
        );
        let count = self.drawn.before(end) - self.drawn.before(start);
        Some(if self.is_drawn {
            count
        } else {
            end - start - count
        })
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let rows = rows_of(&self.drawn.starts, piece, first, &batch);
        let mut taken = self.drawn.before(rows.start);
        let rows = rows.start..rows.end.min(self.drawn.rows_count);
        let chosen = rows.map(|row| {
            let is_next = self.drawn.is_next(row, taken);
            taken += u64::from(is_next);
            Some(is_next == self.is_drawn)
        });
        let chosen: BooleanArray = chosen.collect();
        if chosen.len() != batch.num_rows() {
            return Err(
                Error::corrupt("draw rows", "a file has more rows than it says")
                    .hint("the file is damaged: copy or write it again"),
            );
        }
        write(&filtered(&batch, &chosen)?)
    }
}
