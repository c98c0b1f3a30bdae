//! The rows of a base that may be results.
//!
//! Contract: read once from a file with a byte for each row, or told by somebody who knows them; in
//! memory they are a bit each.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use outcore::{Error, Job, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;

use crate::format::{Element, VectorFile};
use crate::scan::Scan;

/// The rows that may be neighbours, a bit each.
#[derive(Debug)]
pub struct Subset {
    bits: Vec<u64>,
    /// How many rows there are altogether, and how many of them are in it.
    rows: u64,
    count: u64,
    _held: Reservation,
}

/// Rows on their way into a [`Subset`], from any thread.
#[derive(Debug)]
pub struct RowMarks(Vec<AtomicU64>);

impl RowMarks {
    /// Takes a row in.
    ///
    /// # Panics
    /// For a row that the base has not.
    pub fn add(&self, row: u64) {
        self.0[(row / 64) as usize].fetch_or(1 << (row % 64), Ordering::Relaxed);
    }
}

impl Subset {
    /// Those with a value other than 0 in the file at `path`.
    ///
    /// # Errors
    /// Usage: it is not an array of bool or u8 with a value for each row of `base`. What reading
    /// fails with.
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

    /// The rows of `base` that `mark` adds.
    ///
    /// # Errors
    /// What `mark` fails with. Memory.
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

    /// How many rows are in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Fails unless it is one of rows of `base`.
    pub(super) fn check(&self, base: &VectorFile) -> Result<()> {
        if self.rows == base.rows {
            return Ok(());
        }
        let cause = format!(
            "it is a subset of {}, and the base has {}",
            units::counted(self.rows, "row"),
            base.rows
        );
        Err(Error::usage("read subset", cause).path(&base.path))
    }

    /// Whether a row is one of them.
    pub(super) fn has(&self, row: u64) -> bool {
        self.bits[(row / 64) as usize] >> (row % 64) & 1 == 1
    }
}
