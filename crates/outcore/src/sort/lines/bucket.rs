//! Buckets of lines between distribution and sort, and the memory that sorting each takes.
//!
//! Contract: the segments of a bucket hold whole lines with their terminators; a line longer than a
//! segment continues in the next ones. Equal lines that are their own keys are only counted.

use std::ops::Range;

use super::arrange::KEY_HEAD_BYTES;
use super::emit::COUNT_BYTES_MAX;
use super::refs::REF_BYTES;
use crate::partition::bucket::{Bucket, Location};
use crate::partition::restored::{KIND_WORDS, KeptKind};
use outcore_io::memory::block_ceil;

/// Bytes of a count: before each line in a table, and after it in a bucket's area.
pub(super) const COUNT_BYTES: usize = 8;

/// Lines of one of several tables that belong to a bucket.
#[derive(Debug, Clone)]
pub(super) struct FromTable {
    /// Number of the table.
    pub(super) table: usize,
    /// The range of its lines.
    pub(super) refs: Range<usize>,
}

/// Lines of a bucket that were counted in tables.
#[derive(Debug, Default)]
pub(super) struct TableLines {
    pub(super) from: Vec<FromTable>,
    pub(super) lines: u64,
    /// The bytes of these lines, with terminators.
    pub(super) bytes: u64,
    /// Whether the bucket's lines have the key of the bucket before it, because a bucket was split.
    pub(super) is_continuation: bool,
    /// Whether the bucket was split off a bucket of equal keys with several lines.
    pub(super) is_repeated: bool,
    /// Among equal lines that were only counted, those of the second of two sides.
    pub(super) second_side: u64,
    /// Whether the bucket holds no lines, but only the totals of all buckets before it.
    pub(super) is_total: bool,
}

impl KeptKind for TableLines {
    /// A job whose tables hold lines keeps no parts of buckets.
    fn to_words(&self) -> [u64; KIND_WORDS] {
        let flags = u64::from(self.is_continuation) | u64::from(self.is_repeated) << 1;
        [flags, self.second_side, 0]
    }

    fn of_words([flags, second_side, _]: [u64; KIND_WORDS]) -> Self {
        TableLines {
            is_continuation: flags & 1 != 0,
            is_repeated: flags & 2 != 0,
            second_side,
            ..TableLines::default()
        }
    }
}

/// All lines of one range of keys.
pub(super) type LineBucket = Bucket<TableLines>;

/// Memory for sorting a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) area_bytes: u64,
    pub(super) lines: u64,
    pub(super) key_bytes: u64,
}

impl Space {
    /// Bytes in addition to the area.
    pub(super) fn beside_bytes(&self) -> u64 {
        REF_BYTES * self.lines + self.key_bytes
    }

    /// The larger of both, figure by figure.
    pub(super) fn and(self, other: Space) -> Space {
        Space {
            area_bytes: self.area_bytes.max(other.area_bytes),
            lines: self.lines.max(other.lines),
            key_bytes: self.key_bytes.max(other.key_bytes),
        }
    }

    /// Whether this memory is enough for a bucket that needs `other`.
    pub(super) fn holds(&self, other: &Space) -> bool {
        self.area_bytes >= other.area_bytes
            && self.lines >= other.lines
            && self.key_bytes >= other.key_bytes
    }
}

impl LineBucket {
    /// Largest size in the output if its lines are counted.
    pub(super) fn counted_bytes_max(&self) -> u64 {
        match &self.copies_of {
            Some(line) => line.len() as u64 + COUNT_BYTES_MAX as u64,
            // Counts of lines from tables may have any length; others grow with the lines.
            None => {
                let counts_bytes = 8 * self.counts.items + COUNT_BYTES_MAX as u64 * self.kind.lines;
                self.counts.bytes + self.kind.bytes + counts_bytes
            }
        }
    }

    /// Largest number of the bucket's lines that may be written.
    pub(super) fn lines_max(&self) -> u64 {
        self.counts.items + self.kind.lines
    }

    /// The memory for sorting the bucket; `has_keys` if keys must be made.
    pub(super) fn space(&self, has_keys: bool) -> Space {
        if self.copies_of.is_some() {
            return Space::default();
        }
        let stored = self.segments.iter().map(|segment| match segment.location {
            Location::Memory { .. } => u64::from(segment.payload_bytes),
            Location::Scratch { .. } => segment.stored_bytes() as u64,
        });
        let heads_bytes = KEY_HEAD_BYTES * self.counts.items;
        // A count follows each line from a table.
        let counts_bytes = COUNT_BYTES as u64 * self.kind.lines;
        Space {
            area_bytes: block_ceil(stored.sum::<u64>() + self.kind.bytes + counts_bytes),
            lines: self.counts.items + self.kind.lines,
            key_bytes: if has_keys && !self.is_equal {
                self.counts.key_bytes + heads_bytes
            } else {
                0
            },
        }
    }
}
