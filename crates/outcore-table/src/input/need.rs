//! The memory that reading a table needs, and that its rows need in a job.
//!
//! Contract: [`InputNeed::enough_bytes`] is enough memory for every job on the table. It assumes
//! that a reader has at least half of it, and that a long row is held in the input batch, in its
//! encoded form and in the output row group.

use outcore_io::{Error, Kind, Result, units};

/// Memory for everything that does not grow with pages and rows.
const BESIDE_BYTES: u64 = 32 << 20;
/// Reported sizes are rounded up to this step.
const STEP_BYTES: u64 = 64 << 20;
/// A reader may have 1/`READERS_SHARE` of the memory.
const READERS_SHARE: u64 = 2;
/// How often a job holds a long row, adjusted for the shares of the memory.
const ROW_COPIES: u64 = 12;
/// Values of at least this average length count as long; a job then makes room for one of them.
pub(crate) const LONG_VALUE_BYTES: u64 = 16 << 10;
/// The longest value is assumed to have at most this many times the average length.
pub(crate) const LONG_SPREAD: u64 = 16;

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InputNeed {
    /// Memory of a reader of the largest piece.
    pub(crate) piece_bytes: u64,
    /// The longest row, if values are long; 0 otherwise.
    pub(crate) long_bytes: u64,
}

impl InputNeed {
    /// The need of both together.
    pub(crate) fn and(self, other: InputNeed) -> InputNeed {
        InputNeed {
            piece_bytes: self.piece_bytes.max(other.piece_bytes),
            long_bytes: self.long_bytes.max(other.long_bytes),
        }
    }

    /// Memory that is enough for every job.
    pub(crate) fn enough_bytes(self) -> u64 {
        // A damaged footer may state any size.
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
            "a row group needs {}, but a reader has only {}",
            units::bytes(self.piece_bytes),
            units::bytes(reader_bytes)
        );
        Err(Error::new(Kind::Memory, "read tables", cause).hint(self.hint()))
    }

    /// The hint for an error of too little memory.
    pub(crate) fn hint(self) -> String {
        let enough = units::bytes_exact(self.enough_bytes());
        format!("allow --memory {enough} or more, or read fewer columns")
    }
}

/// A bound on the longest of `count` values or rows of `bytes` in total, if they are long on
/// average; 0 otherwise.
pub(crate) fn long_bytes(bytes: u64, count: u64) -> u64 {
    let mean_bytes = bytes / count.max(1);
    match mean_bytes >= LONG_VALUE_BYTES {
        true => bytes.min(LONG_SPREAD * mean_bytes),
        false => 0,
    }
}
