//! The memory that a table takes to be read, and that its rows take in a job.
//!
//! Contract: [`InputNeed::enough_bytes`] is a memory with which every job on the table has room: a
//! reader has half of it at least, and a long row passes through the batch that is read, the row
//! that is made of it and the row group that is written.

use outcore_io::{Error, Kind, Result, units};

/// What is left for everything that does not grow with pages and rows.
const BESIDE_BYTES: u64 = 32 << 20;
/// Memories are named in steps.
const STEP_BYTES: u64 = 64 << 20;
/// The part of the memory that a reader may have.
const READERS_SHARE: u64 = 2;
/// How many times a job holds a long row, its shares of the memory taken into account.
const ROW_COPIES: u64 = 12;
/// Values of so many bytes on average are long, so that jobs make room for one.
pub(crate) const LONG_VALUE_BYTES: u64 = 16 << 10;
/// No value is taken to be longer than so many that are long on average.
pub(crate) const LONG_SPREAD: u64 = 16;

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InputNeed {
    /// A reader of the largest piece.
    pub(crate) piece_bytes: u64,
    /// The longest row, where values are long; 0 where they are not.
    pub(crate) long_bytes: u64,
}

impl InputNeed {
    /// What is enough for both.
    pub(crate) fn and(self, other: InputNeed) -> InputNeed {
        InputNeed {
            piece_bytes: self.piece_bytes.max(other.piece_bytes),
            long_bytes: self.long_bytes.max(other.long_bytes),
        }
    }

    /// A memory that is enough for every job.
    pub(crate) fn enough_bytes(self) -> u64 {
        // A damaged footer may ask for anything.
        let most = 1 << 58;
        let by_piece = READERS_SHARE * self.piece_bytes.min(most);
        let by_row = ROW_COPIES * self.long_bytes.min(most);
        (by_piece.max(by_row) + BESIDE_BYTES).next_multiple_of(STEP_BYTES)
    }

    /// Fails if a reader has less than it needs.
    ///
    /// # Errors
    /// Memory.
    pub(crate) fn check(self, reader_bytes: u64) -> Result<()> {
        if self.piece_bytes <= reader_bytes {
            return Ok(());
        }
        let cause = format!(
            "a row group needs {}, and a reader has {}",
            units::bytes(self.piece_bytes),
            units::bytes(reader_bytes)
        );
        Err(Error::new(Kind::Memory, "read tables", cause).hint(self.hint()))
    }

    /// What to try where there is less.
    pub(crate) fn hint(self) -> String {
        let enough = units::bytes_exact(self.enough_bytes());
        format!("allow --memory {enough} or more, or read fewer columns")
    }
}

/// The longest of `count` values or rows that have `bytes` together, where they are long on
/// average; 0 where they are not.
pub(crate) fn long_bytes(bytes: u64, count: u64) -> u64 {
    let mean_bytes = bytes / count.max(1);
    match mean_bytes >= LONG_VALUE_BYTES {
        true => bytes.min(LONG_SPREAD * mean_bytes),
        false => 0,
    }
}
