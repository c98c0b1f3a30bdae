//! Stretches that are cut from texts, and the texts without them.
//!
//! Contract: a [`Mark`] is the place of a repeated passage, with the place of its first occurrence;
//! [`Mark::cut`] is the part of the passage to remove. Places count bytes or tokens of a text;
//! [`Places`] converts them to bytes. [`united`] takes cuts in the order of their passages and
//! merges those that touch. [`Cutting`] returns the rows of a table with the cut texts, [`Removed`]
//! one row per cut.
//!
//! Bounds: [`CUT_BYTES`] per cut. Changing a batch needs the memory of its texts once more.

use std::ops::Range;
use std::str::SplitWhitespace;
use std::sync::Arc;

use arrow_array::builder::{LargeStringBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use outcore_io::{Error, Result};

use super::DEDUP;
use super::passages::PassageUnit;
use crate::fault;
use crate::input::Piece;
use crate::jobs::copy::{Change, WriteBatch};

/// Bits of a place for the bytes by which a passage exceeds the least length.
const EXTRA_BITS: u32 = 2;
const ROW_BITS: u32 = 32;
pub(super) const CUT_BYTES: u64 = size_of::<Cut>() as u64;

/// A repeated passage, and its first occurrence.
pub(super) struct Mark {
    place: u64,
    first: u64,
}

impl Mark {
    /// The place of a passage as a number that ascends in the order of the input. A text has less
    /// than 2^30 bytes or tokens.
    pub(super) fn place(row: u32, start: usize, extra_bytes: usize) -> u64 {
        u64::from(row) << ROW_BITS | (start as u64) << EXTRA_BITS | extra_bytes as u64
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (place, first) = bytes.split_first_chunk()?;
        Some(Mark {
            place: u64::from_be_bytes(*place),
            first: u64::from_be_bytes(first.try_into().ok()?),
        })
    }

    /// Returns what is cut, for passages of at least this length: the whole passage, or the part
    /// after its first occurrence.
    pub(super) fn cut(&self, units_count: usize) -> Cut {
        let row = |place: u64| (place >> ROW_BITS) as u32;
        let start = |place: u64| place as u32 >> EXTRA_BITS;
        let units = units_count as u32 + (self.place as u32 & ((1 << EXTRA_BITS) - 1));
        let first_end = match row(self.place) == row(self.first) {
            true => start(self.first) + units,
            false => 0,
        };
        Cut {
            row: row(self.place),
            start: start(self.place).max(first_end),
            end: start(self.place) + units,
            first_row: row(self.first),
        }
    }
}

/// A stretch of the text of a row, in bytes or tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) row: u32,
    pub(super) start: u32,
    pub(super) end: u32,
    /// The row in which its beginning first occurs.
    pub(super) first_row: u32,
}

/// Converts cuts of a text to byte ranges, in ascending order.
struct Places<'t> {
    text: &'t str,
    /// The remaining tokens, if cuts count tokens, and the number of the next one.
    tokens: Option<SplitWhitespace<'t>>,
    next: u32,
}

impl<'t> Places<'t> {
    fn of(unit: PassageUnit, text: &'t str) -> Self {
        Places {
            text,
            tokens: (unit == PassageUnit::Tokens).then(|| text.split_whitespace()),
            next: 0,
        }
    }

    /// The offset of a byte, or of the start of a token; the number after the last byte or token
    /// gives the end of the text.
    fn byte_of(&mut self, number: u32) -> Option<usize> {
        let Some(tokens) = &mut self.tokens else {
            return Some(number as usize);
        };
        let skipped = number.checked_sub(self.next)?;
        self.next = number + 1;
        let token = tokens.nth(skipped as usize);
        let begin = token.map(|token| token.as_ptr() as usize - self.text.as_ptr() as usize);
        Some(begin.unwrap_or(self.text.len()))
    }

    /// The bytes of a cut, with the white space after its last token.
    fn range(&mut self, cut: &Cut) -> Result<Range<usize>> {
        let range = self.byte_of(cut.start).zip(self.byte_of(cut.end));
        let range = range.map(|(start, end)| start..end);
        let range = range.filter(|range| self.text.get(range.clone()).is_some());
        range.ok_or_else(grown)
    }
}

/// Adds a cut, and merges it with earlier ones that it touches.
pub(super) fn united(cuts: &mut Vec<Cut>, mut cut: Cut) {
    // A cut that overlaps its first occurrence starts later than the cuts of the passages after it.
    while let Some(last) = cuts
        .last()
        .filter(|last| last.row == cut.row && last.end >= cut.start)
    {
        if last.start <= cut.start {
            (cut.start, cut.first_row) = (last.start, last.first_row);
        }
        cut.end = cut.end.max(last.end);
        cuts.pop();
    }
    cuts.push(cut);
}

/// The schema of the file of cuts.
pub(super) fn removed_schema() -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::UInt64, false);
    let fields = vec![
        number("row"),
        number("start"),
        number("length"),
        number("first_row"),
        Field::new("text", DataType::LargeUtf8, false),
    ];
    Arc::new(Schema::new(fields))
}

/// The rows of a table with the cuts removed from their texts.
pub(super) struct Cutting<'c> {
    /// In ascending order.
    pub(super) cuts: &'c [Cut],
    /// The first row of each piece.
    pub(super) starts: Vec<u64>,
    pub(super) pieces: &'c [Piece],
    pub(super) unit: PassageUnit,
    /// The index of the text column.
    pub(super) column: usize,
}

impl<'c> Cutting<'c> {
    /// Returns the cuts of the rows `from..to`.
    fn of(&self, from: u64, to: u64) -> &'c [Cut] {
        let before = |row: u64| self.cuts.partition_point(|cut| u64::from(cut.row) < row);
        &self.cuts[before(from)..before(to)]
    }

    fn first_row(&self, piece: usize, first: u64) -> Result<u64> {
        let start = self.starts.get(piece).copied();
        Ok(first + start.ok_or_else(grown)?)
    }

    fn texts(&self, batch: &RecordBatch) -> Result<LargeStringArray> {
        let texts = cast(batch.column(self.column), &DataType::LargeUtf8);
        let texts = texts.map_err(|error| fault::arrow(DEDUP, &error))?;
        Ok(texts.as_string::<i64>().clone())
    }
}

fn grown() -> Error {
    Error::corrupt(DEDUP, "the texts differ from those that were read before")
        .hint("the file is damaged or was changed: run again")
}

impl Change for Cutting<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        self.pieces.get(piece).map(|piece| piece.rows_count)
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let first = self.first_row(piece, first)?;
        let mut cuts = self.of(first, first + batch.num_rows() as u64);
        if cuts.is_empty() {
            return write(&batch);
        }
        let texts = self.texts(&batch)?;
        let mut left = LargeStringBuilder::with_capacity(texts.len(), texts.value_data().len());
        let mut kept = String::new();
        for (row, text) in (first..).zip(texts.iter()) {
            let here = cuts.partition_point(|cut| u64::from(cut.row) <= row);
            let (own, others) = cuts.split_at(here);
            cuts = others;
            let Some(text) = text.filter(|_| !own.is_empty()) else {
                left.append_option(text);
                continue;
            };
            kept.clear();
            let (mut from, mut places) = (0, Places::of(self.unit, text));
            for cut in own {
                let range = places.range(cut)?;
                kept.push_str(text.get(from..range.start).ok_or_else(grown)?);
                from = range.end;
            }
            kept.push_str(text.get(from..).ok_or_else(grown)?);
            left.append_value(&kept);
        }
        let left: ArrayRef = Arc::new(left.finish());
        let left = cast(&left, batch.column(self.column).data_type());
        let mut columns = batch.columns().to_vec();
        columns[self.column] = left.map_err(|error| fault::arrow(DEDUP, &error))?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let made = RecordBatch::try_new_with_options(batch.schema(), columns, &options);
        write(&made.map_err(|error| fault::arrow(DEDUP, &error))?)
    }
}

/// One row per cut.
pub(super) struct Removed<'c>(pub(super) &'c Cutting<'c>);

impl Change for Removed<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        let (start, piece) = (*self.0.starts.get(piece)?, self.0.pieces.get(piece)?);
        Some(self.0.of(start, start + piece.rows_count).len() as u64)
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let first = self.0.first_row(piece, first)?;
        let cuts = self.0.of(first, first + batch.num_rows() as u64);
        let texts = self.0.texts(&batch)?;
        let mut numbers = [(); 4].map(|()| UInt64Builder::with_capacity(cuts.len()));
        let mut removed = LargeStringBuilder::new();
        for cuts in cuts.chunk_by(|one, other| one.row == other.row) {
            let row = cuts.first().map_or(0, |cut| u64::from(cut.row));
            let text = texts.value((row - first) as usize);
            let mut places = Places::of(self.0.unit, text);
            for cut in cuts {
                let range = places.range(cut)?;
                let said = [
                    row,
                    range.start as u64,
                    range.len() as u64,
                    u64::from(cut.first_row),
                ];
                for (column, number) in numbers.iter_mut().zip(said) {
                    column.append_value(number);
                }
                removed.append_value(text.get(range).ok_or_else(grown)?);
            }
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(numbers.len() + 1);
        for column in &mut numbers {
            columns.push(Arc::new(column.finish()));
        }
        columns.push(Arc::new(removed.finish()));
        let made = RecordBatch::try_new(removed_schema(), columns);
        write(&made.map_err(|error| fault::arrow(DEDUP, &error))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_that_overlaps_its_first_occurrence_is_cut_behind_it() {
        let mark = |row, start, first_row, first| Mark {
            place: Mark::place(row, start, 1),
            first: Mark::place(first_row, first, 1),
        };
        let cut = mark(3, 20, 3, 15).cut(9);
        assert_eq!((cut.start, cut.end), (25, 30));
        let cut = mark(3, 20, 2, 15).cut(9);
        assert_eq!((cut.row, cut.start, cut.end, cut.first_row), (3, 20, 30, 2));
    }

    #[test]
    fn cuts_that_touch_become_one_whatever_their_order() {
        let cut = |start, end| Cut {
            row: 1,
            start,
            end,
            first_row: start,
        };
        let mut cuts = Vec::new();
        for (start, end) in [(0, 10), (55, 60), (11, 61), (61, 70), (80, 90)] {
            united(&mut cuts, cut(start, end));
        }
        assert_eq!(cuts, [cut(0, 10), cut(11, 70), cut(80, 90)]);
        united(
            &mut cuts,
            Cut {
                row: 2,
                ..cut(85, 95)
            },
        );
        assert_eq!(cuts.len(), 4);
    }
}
