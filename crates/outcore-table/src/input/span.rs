//! Rows at one end of a table.
//!
//! Contract: ranges of rows by their numbers, which the number of all rows settles. No I/O.

use std::ops::Range;

/// Rows at one end of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSpan {
    /// The first ones.
    First(u64),
    /// All but so many at the end.
    AllBut(u64),
    /// The last ones.
    Last(u64),
    /// All but so many at the front.
    AfterFirst(u64),
}

impl RowSpan {
    /// Which they are, of so many.
    pub(crate) fn of(self, rows_count: u64) -> Range<u64> {
        match self {
            RowSpan::First(count) => 0..count.min(rows_count),
            RowSpan::AllBut(count) => 0..rows_count.saturating_sub(count),
            RowSpan::Last(count) => rows_count.saturating_sub(count)..rows_count,
            RowSpan::AfterFirst(count) => count.min(rows_count)..rows_count,
        }
    }
}

/// The part that two ranges have in common.
pub(crate) fn common_rows(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}
