//! Rows: items of any length and any bytes that somebody makes, sorted and handed on in order, with no file on
//! either side.
//!
//! Contract: a [`RowSource`] shows a sample of its rows, then brings each of them once, on all threads at the same
//! time. A [`RowSink`] is given the rows of one bucket after another, each bucket by whichever thread has
//! sorted it; what it wants done in order, it gives back to be done when the buckets before have had their
//! turn. So the work on rows before and behind [`super::sort_rows`] is done by all threads.
//!
//! Bounds: what source and sink say that they need; a batch is in memory as a whole.

use crate::read::framing::ItemFraming;
use outcore_io::{Error, Result};

/// The longest row.
pub const ROW_BYTES_MAX: usize = 1 << 30;

/// Rows one after another, each with its length in front.
#[derive(Debug, Default)]
pub struct RowBatch {
    bytes: Vec<u8>,
    rows: usize,
}

impl RowBatch {
    /// Adds a row; `fill` appends its bytes to what it is given.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for a row longer than [`ROW_BYTES_MAX`]; what `fill` fails with.
    pub fn push_with(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; size_of::<u32>()]);
        let begin = self.bytes.len();
        let filled = fill(&mut self.bytes);
        let row_bytes = self.bytes.len() - begin;
        if filled.is_err() || row_bytes > ROW_BYTES_MAX {
            self.bytes.truncate(at);
            filled?;
            let cause = format!("it has {row_bytes} bytes, {ROW_BYTES_MAX} are the most");
            return Err(
                Error::usage("add a row", cause).hint("leave out the column that is so long")
            );
        }
        self.bytes[at..begin].copy_from_slice(&(row_bytes as u32).to_le_bytes());
        self.rows += 1;
        Ok(())
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As [`RowBatch::push_with`].
    pub fn push(&mut self, row: &[u8]) -> Result<()> {
        self.push_with(|bytes| {
            bytes.extend_from_slice(row);
            Ok(())
        })
    }

    /// Adds rows that lie one after another in `bytes`, each with its length in front as four bytes in little-endian
    /// order; gives how many.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if the lengths do not end where the bytes do; none of them is added.
    pub fn push_framed(&mut self, bytes: &[u8]) -> Result<usize> {
        let (mut rows, mut rows_bytes) = (0, 0);
        ItemFraming::LengthPrefixed.find(bytes, 0, usize::MAX, |_, end| {
            rows += 1;
            rows_bytes = end;
        });
        if rows_bytes != bytes.len() {
            let cause = format!("{rows} rows end at byte {rows_bytes} of {}", bytes.len());
            return Err(Error::corrupt("add rows", cause).hint("check what makes the rows"));
        }
        self.bytes.extend_from_slice(bytes);
        self.rows += rows;
        Ok(rows)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of the rows and their lengths.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes all rows out; the memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows = 0;
    }
}

/// Takes batches of rows, each with the position of its first row, which orders them where the order of equal rows
/// counts: the number of the row, or what grows by as much at least from batch to batch.
pub type TakeRows<'t> = dyn FnMut(&RowBatch, u64) -> Result<()> + 't;

/// Makes rows.
pub trait RowSource: Sync {
    /// Bytes of all rows and their lengths of four bytes, as well as they are known. More than that is sorted, too,
    /// but less evenly.
    fn data_bytes(&self) -> u64;

    /// Memory that all threads together need to make rows, their batches included.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Gives some rows from all over to `take`.
    ///
    /// # Errors
    /// What keeps it from making them, and what `take` fails with.
    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()>;

    /// Gives rows to `take` until there are no more. All threads call it, and each row goes to one of them.
    ///
    /// # Errors
    /// As [`RowSource::sample`].
    fn make(&self, take: &mut TakeRows<'_>) -> Result<()>;
}

/// What is to be done when it is a bucket's turn.
pub type InTurn<'s> = Box<dyn FnOnce() -> Result<()> + Send + 's>;

/// Takes rows in order.
pub trait RowSink: Sync {
    /// Memory that all threads together need to work on rows.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Takes the rows of bucket `number`, in order; the rows of a bucket come before those of buckets with larger numbers,
    /// and each number from 0 on comes once. Several threads take buckets at the same time. What it gives back is called
    /// when that of all buckets before has been.
    ///
    /// # Errors
    /// What keeps it from taking them.
    fn take<'s>(
        &'s self,
        number: usize,
        rows: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<InTurn<'s>>;
}
