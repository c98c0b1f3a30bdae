//! Rows at one end of a table.
//!
//! Contract: the row numbers follow from the total number of rows. No I/O.

use std::ops::Range;

/// Rows at one end of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSpan {
    /// The first rows.
    First(u64),
    /// All except for this many rows at the end.
    AllBut(u64),
    /// The last rows.
    Last(u64),
    /// All except for this many rows at the front.
    AfterFirst(u64),
}

impl RowSpan {
    /// Returns the range of rows in a table of `rows_count` rows.
    pub(crate) fn of(self, rows_count: u64) -> Range<u64> {
        match self {
            RowSpan::First(count) => 0..count.min(rows_count),
            RowSpan::AllBut(count) => 0..rows_count.saturating_sub(count),
            RowSpan::Last(count) => rows_count.saturating_sub(count)..rows_count,
            RowSpan::AfterFirst(count) => count.min(rows_count)..rows_count,
        }
    }
}

/// Returns the intersection of two ranges.
pub(crate) fn common_rows(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}
