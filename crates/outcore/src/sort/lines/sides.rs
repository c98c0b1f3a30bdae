//! Two sides that are compared: which lines are in the first alone, in the second alone, in both.
//!
//! Contract: sides are multisets, as GNU `comm` has it for sorted files. A line is in both sides as
//! often as in the one that has fewer of it; the rest is in one side alone.
//! A mark in front of each line says which side it is of; it takes no part in its key, and orders
//! equal lines. Lines of a frequent key are only counted, by side.
//!
//! Bounds: those of a sort of lines of which one per key is kept, with a byte more per line.

use std::sync::atomic::{AtomicU64, Ordering};

use super::LineSortOptions;
use super::plan::LineSize;
use crate::key::sort_key::{NoKey, SortKey, Tie};
use outcore_io::{Error, Result};

/// Bytes in front of each line.
pub(super) const MARK_BYTES: usize = 1;
/// Length of the line with all numbers, at most.
pub(super) const TOTAL_BYTES_MAX: u64 = 128;
/// Columns: the first side alone, the second alone, both.
const COLUMNS: usize = 3;

/// How the inputs of a sort are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    /// How many of the inputs are the first side; the others are the second.
    pub first_inputs: usize,
    /// Whether lines are written that are in the first side alone, in the second alone, in both.
    pub is_shown: [bool; 3],
    /// Stands in front of a line once for each shown column to the left of its own.
    pub separator: u8,
    /// Whether a line with the numbers of all columns comes last.
    pub has_total: bool,
}

/// Lines of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SideCounts {
    /// Lines of the first side alone.
    pub first: u64,
    /// Lines of the second side alone.
    pub second: u64,
    /// Lines of both, each pair once.
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

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Second,
}

impl Side {
    /// Neither newline nor NUL, and the first below the second.
    pub(super) fn mark(self) -> u8 {
        match self {
            Side::First => b'1',
            Side::Second => b'2',
        }
    }

    /// That of a marked line.
    pub(super) fn of(line: &[u8]) -> Self {
        match line.first().copied() == Some(Side::Second.mark()) {
            true => Side::Second,
            false => Side::First,
        }
    }
}

/// Equal lines that are written in one column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// How many.
    pub(super) lines: u64,
    /// Separators in front of each.
    pub(super) column: u64,
}

impl Sides {
    /// Fails for an order in which equal keys are not equal lines.
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

    /// The line with the numbers of all columns.
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

    /// The copies of a line that are shown, where each side has so many of it: those of both sides
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

/// Lines that have a mark in front, in the order of what follows it; of equal ones the smallest
/// mark comes first.
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

/// The order of lines that have no mark yet, of which keys are made.
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
    /// The same with this many bytes in front of each line.
    pub(super) fn marked(mut self, mark_bytes: usize) -> Self {
        let lines = self.job.data_bytes as f64 / self.line_bytes;
        self.job.data_bytes += (lines * mark_bytes as f64).ceil() as u64;
        self.line_bytes += mark_bytes as f64;
        self.mark_bytes = mark_bytes;
        self
    }
}
