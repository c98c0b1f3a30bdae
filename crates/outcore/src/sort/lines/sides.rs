//! Compares two sides: which lines are only in the first, only in the second, or in both.
//!
//! Contract: sides are multisets, as in GNU `comm` for sorted files. A line counts for both sides
//! as often as it occurs in the side with fewer copies; its other copies count for one side. A mark
//! before each line shows its side; it is not part of the key, but orders equal lines. Lines of a
//! frequent key are only counted, by side.
//!
//! Bounds: those of a sort of lines that keeps one line per key, plus one byte per line.

use std::sync::atomic::{AtomicU64, Ordering};

use super::LineSortOptions;
use super::plan::LineSize;
use crate::key::sort_key::{NoKey, SortKey, Tie};
use outcore_io::{Error, Result};

/// Bytes before each line.
pub(super) const MARK_BYTES: usize = 1;
/// Maximum length of the line with the totals.
pub(super) const TOTAL_BYTES_MAX: u64 = 128;
/// Columns: only the first side, only the second, both.
const COLUMNS: usize = 3;

/// How the inputs of a sort are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    /// Number of inputs of the first side; the others are the second.
    pub first_inputs: usize,
    /// Whether to write the lines that are only in the first side, only in the second, in both.
    pub is_shown: [bool; 3],
    /// Written before a line once for each shown column to the left of its own.
    pub separator: u8,
    /// Whether a line with the totals of all columns comes last.
    pub has_total: bool,
}

/// Numbers of lines of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SideCounts {
    /// Lines only in the first side.
    pub first: u64,
    /// Lines only in the second side.
    pub second: u64,
    /// Lines in both, each pair once.
    pub both: u64,
}

impl SideCounts {
    pub(super) fn of(counts: &[AtomicU64; COLUMNS]) -> Self {
        let [first, second, both] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        SideCounts {
            first,
            second,
            both,
        }
    }
}

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Second,
}

impl Side {
    /// The mark of the side: neither newline nor NUL, and smaller for the first side than for the
    /// second.
    pub(super) fn mark(self) -> u8 {
        match self {
            Side::First => b'1',
            Side::Second => b'2',
        }
    }

    /// The side of a marked line.
    pub(super) fn of(line: &[u8]) -> Self {
        match line.first().copied() == Some(Side::Second.mark()) {
            true => Side::Second,
            false => Side::First,
        }
    }
}

/// Equal lines of one column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// Number of lines.
    pub(super) lines: u64,
    /// Number of separators before each.
    pub(super) column: u64,
}

impl Sides {
    /// Fails for an order with equal keys for different lines.
    pub(super) fn check(self, order: &dyn SortKey) -> Result<()> {
        match order.is_item() {
            true => Ok(()),
            false => Err(
                Error::usage("compare lines", "lines are compared as a whole")
                    .hint("compare them in the order of their bytes"),
            ),
        }
    }

    /// The side of an input.
    pub(super) fn of_input(self, input: usize) -> Side {
        match input < self.first_inputs {
            true => Side::First,
            false => Side::Second,
        }
    }

    /// The line with the totals of all columns.
    pub(super) fn total(self, counts: &[AtomicU64; COLUMNS], terminator: u8) -> Vec<u8> {
        let mut line = Vec::new();
        for count in counts {
            line.extend_from_slice(count.load(Ordering::Relaxed).to_string().as_bytes());
            line.push(self.separator);
        }
        line.extend_from_slice(b"total");
        line.push(terminator);
        line
    }

    /// The shown copies of a line, from its number of occurrences in each side: those in both sides
    /// first. Adds to the counts of the columns.
    pub(super) fn shown(
        self,
        first: u64,
        second: u64,
        counts: &[AtomicU64; COLUMNS],
    ) -> [Shown; COLUMNS] {
        let both = first.min(second);
        let lines = [first - both, second - both, both];
        for (count, lines) in counts.iter().zip(lines) {
            if lines > 0 {
                count.fetch_add(lines, Ordering::Relaxed);
            }
        }
        [2, 0, 1].map(|column: usize| Shown {
            lines: match self.is_shown[column] {
                true => lines[column],
                false => 0,
            },
            column: self.is_shown[..column].iter().filter(|is| **is).count() as u64,
        })
    }
}

/// Orders marked lines by the text after the mark; among equal ones the smallest mark comes first.
pub(super) struct MarkedOrder<'a> {
    order: &'a dyn SortKey,
    mark_bytes: usize,
}

impl<'a> MarkedOrder<'a> {
    pub(super) fn new(order: &'a dyn SortKey, options: LineSortOptions) -> Self {
        MarkedOrder {
            order,
            mark_bytes: options.mark_bytes(),
        }
    }
}

impl SortKey for MarkedOrder<'_> {
    fn append_key(&self, item: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        let line = item.get(self.mark_bytes..).unwrap_or_default();
        self.order.append_key(line, key)
    }

    fn is_descending(&self) -> bool {
        self.order.is_descending()
    }

    fn tie(&self) -> Tie {
        Tie::Bytes
    }
}

/// The order of lines that are not marked yet.
pub(super) struct Unmarked<'a>(pub(super) &'a dyn SortKey);

impl SortKey for Unmarked<'_> {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        self.0.append_key(line, key)
    }

    fn tie(&self) -> Tie {
        Tie::Bytes
    }
}

impl LineSize {
    /// These lengths with this many bytes before each line.
    pub(super) fn marked(mut self, mark_bytes: usize) -> Self {
        let lines = self.job.data_bytes as f64 / self.line_bytes;
        self.job.data_bytes += (lines * mark_bytes as f64).ceil() as u64;
        self.line_bytes += mark_bytes as f64;
        self.mark_bytes = mark_bytes;
        self
    }
}
