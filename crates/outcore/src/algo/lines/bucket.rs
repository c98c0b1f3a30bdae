//! Buckets of lines between distribution and sort, and how much memory each needs to be sorted.
//!
//! Contract: the segments of a bucket hold whole lines with their terminators; one that is longer
//! than a segment is a *chain* of segments that hold nothing else. Lines that are their own keys and
//! all equal are only counted.

use super::emit::COUNT_BYTES_MAX;
use super::plan::{KEY_HEAD_BYTES, REF_BYTES};
use super::table::FromTable;
use crate::algo::bucket::{Home, Segment};
use crate::memory::block_ceil;

/// Segments, neighbours in their bucket, that hold one long line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) first: usize,
    pub(super) count: usize,
}

/// What is known of a bucket's lines.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) lines: u64,
    /// With terminators.
    pub(super) bytes: u64,
    /// Of keys that have to be made.
    pub(super) key_bytes: u64,
    /// Bytes of those in chains.
    pub(super) chain_bytes: u64,
}

impl Counts {
    /// Adds those of another part of the bucket.
    pub(super) fn add(&mut self, other: &Counts) {
        self.lines += other.lines;
        self.bytes += other.bytes;
        self.key_bytes += other.key_bytes;
        self.chain_bytes += other.chain_bytes;
    }
}

/// All lines of one range of keys.
#[derive(Debug, Default)]
pub(super) struct LineBucket {
    pub(super) segments: Vec<Segment>,
    pub(super) chains: Vec<Chain>,
    pub(super) counts: Counts,
    /// Bytes in which all keys agree.
    pub(super) depth: usize,
    /// Whether all keys are equal.
    pub(super) is_equal: bool,
    /// The line, with its terminator, that all are copies of, for those that are only counted.
    pub(super) copies_of: Option<Box<[u8]>>,
    /// Lines that were counted in tables, their number, and their bytes with terminators.
    pub(super) from_tables: Vec<FromTable>,
    pub(super) table_lines: u64,
    pub(super) table_bytes: u64,
}

/// Memory that a bucket needs to be sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) area_bytes: u64,
    pub(super) lines: u64,
    pub(super) key_bytes: u64,
}

impl Space {
    /// Bytes beside the area.
    pub(super) fn beside_bytes(&self) -> u64 {
        REF_BYTES * self.lines + self.key_bytes
    }

    /// Whether it is enough for another.
    pub(super) fn holds(&self, other: &Space) -> bool {
        self.area_bytes >= other.area_bytes
            && self.lines >= other.lines
            && self.key_bytes >= other.key_bytes
    }
}

impl LineBucket {
    /// Bytes that it takes in the output if its lines are counted, at most.
    pub(super) fn counted_bytes_max(&self) -> u64 {
        match &self.copies_of {
            Some(line) => line.len() as u64 + COUNT_BYTES_MAX as u64,
            // Counts of lines from tables may be of any length, others grow with the lines.
            None => {
                let counts_bytes =
                    8 * self.counts.lines + COUNT_BYTES_MAX as u64 * self.table_lines;
                self.counts.bytes + self.table_bytes + counts_bytes
            }
        }
    }

    /// Lines of it that may be written, at most.
    pub(super) fn lines_max(&self) -> u64 {
        self.counts.lines + self.table_lines
    }

    /// What its sort needs; `has_keys` if keys have to be made.
    pub(super) fn space(&self, has_keys: bool) -> Space {
        if self.copies_of.is_some() {
            return Space {
                area_bytes: 0,
                lines: 0,
                key_bytes: 0,
            };
        }
        let stored = self.segments.iter().map(|segment| match segment.home {
            Home::Memory(_) => u64::from(segment.payload_bytes),
            Home::Scratch { .. } => segment.stored_bytes() as u64,
        });
        let heads_bytes = KEY_HEAD_BYTES * self.counts.lines;
        Space {
            area_bytes: block_ceil(
                stored.sum::<u64>() + self.counts.chain_bytes + self.table_bytes,
            ),
            lines: self.counts.lines + self.table_lines,
            key_bytes: if has_keys && !self.is_equal {
                self.counts.key_bytes + heads_bytes
            } else {
                0
            },
        }
    }
}
