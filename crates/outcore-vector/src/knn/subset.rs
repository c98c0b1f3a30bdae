//! The rows of a base that may be results.
//!
//! Contract: a subset is read once from a file with one byte per row, or filled by the caller. In
//! memory it has one bit per row.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use outcore::{Error, Job, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;

use crate::format::{Element, VectorFile};
use crate::scan::Scan;

/// The rows that may be neighbours, one bit per row.
#[derive(Debug)]
pub struct Subset {
    bits: Vec<u64>,
    /// The number of all rows, and of those in the subset.
    rows: u64,
    count: u64,
    _held: Reservation,
}

/// A [`Subset`] that is being filled, from any thread.
#[derive(Debug)]
pub struct RowMarks(Vec<AtomicU64>);

impl RowMarks {
    /// Adds a row.
    ///
    /// # Panics
    /// For a row that the base does not have.
    pub fn add(&self, row: u64) {
        self.0[(row / 64) as usize].fetch_or(1 << (row % 64), Ordering::Relaxed);
    }
}

impl Subset {
    /// Reads the rows with a value other than 0 in the file at `path`.
    ///
    /// # Errors
    /// Usage: the file is not an array of bool or u8 with a value for each row of `base`. Errors of
    /// reading.
    pub fn read(job: &Job, path: &Path, base: &VectorFile) -> Result<Self> {
        let mut mask = VectorFile::open_typed(job, path, Some("u8"))?;
        if (mask.dimension, mask.element.bytes()) == (1, 1) {
            mask.element = Element::U8;
        }
        if mask.rows != base.rows || mask.dimension != 1 || mask.element != Element::U8 {
            let cause = format!(
                "it has {} of {}; a mask of this base has {} of u8 or bool",
                units::counted(mask.rows, "row"),
                mask.type_name(),
                units::counted(base.rows, "row")
            );
            return Err(Error::usage("read subset", cause)
                .path(path)
                .hint("give an array of one dimension, with a value for each row of the base"));
        }
        let row_bytes = mask.row_bytes();
        Self::marked(job, base, |marks| {
            let scan = Scan::plan(job, &mask, 0, 0)?;
            let state = || Ok(());
            scan.run(job, "read subset", state, |(), piece| {
                for (row, bytes) in (piece.first..).zip(piece.bytes.chunks_exact(row_bytes)) {
                    if mask.numbers(row, bytes)? != [0] {
                        marks.add(row);
                    }
                }
                Ok(())
            })?;
            Ok(())
        })
    }

    /// Builds a subset of the rows of `base` that `mark` adds.
    ///
    /// # Errors
    /// Errors of `mark`. Memory.
    pub fn marked(
        job: &Job,
        base: &VectorFile,
        mark: impl FnOnce(&RowMarks) -> Result<()>,
    ) -> Result<Self> {
        let words_count = base.rows.div_ceil(64);
        let held = job.budget.reserve("subset", words_count * 8)?;
        let marks = RowMarks((0..words_count).map(|_| AtomicU64::new(0)).collect());
        mark(&marks)?;
        let bits: Vec<u64> = marks.0.into_iter().map(AtomicU64::into_inner).collect();
        let count = bits.iter().map(|word| u64::from(word.count_ones())).sum();
        Ok(Subset {
            bits,
            rows: base.rows,
            count,
            _held: held,
        })
    }

    /// The number of rows in the subset.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Fails unless it was made for `base`.
    pub(super) fn check(&self, base: &VectorFile) -> Result<()> {
        if self.rows == base.rows {
            return Ok(());
        }
        let cause = format!(
            "it is a subset of {}, but the base has {}",
            units::counted(self.rows, "row"),
            base.rows
        );
        Err(Error::usage("read subset", cause).path(&base.path))
    }

    /// Whether it contains a row.
    pub(super) fn has(&self, row: u64) -> bool {
        self.bits[(row / 64) as usize] >> (row % 64) & 1 == 1
    }
}
