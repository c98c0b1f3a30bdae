//! Selected rows of a base, in memory.
//!
//! Contract: the rows are in the requested order, in the form of the file, and all their numbers
//! are finite.
//!
//! Bounds: at most one block is read per place; memory is the rows and eight bytes per place.

use outcore::primitives::gather::gather;
use outcore::{Job, Result};
use outcore_io::memory::Reservation;

use crate::format::{VectorFile, input_of};
use crate::scan::{Piece, strange, strange_in};

/// See the module.
pub(super) struct Gathered<'f> {
    base: &'f VectorFile,
    bytes: Vec<u8>,
    places: Vec<u64>,
    /// The largest absolute value.
    pub(super) largest: f64,
    pub(super) read_bytes: u64,
    _held: Reservation,
}

impl<'f> Gathered<'f> {
    /// Reads the rows at `places` of `base`.
    ///
    /// # Errors
    /// Memory: they do not fit. Usage: NaN or an infinite number. Errors of reading.
    pub(super) fn read(job: &Job, base: &'f VectorFile, places: Vec<u64>) -> Result<Self> {
        let (bytes, summary) = gather(job, &[input_of(base)], base.row_bytes(), &places)?;
        let held_bytes = bytes.len() + size_of_val(places.as_slice());
        let held = job.budget.reserve("rows of vectors", held_bytes as u64)?;
        let mut gathered = Gathered {
            base,
            bytes,
            places,
            largest: 0.0,
            read_bytes: summary.read_bytes,
            _held: held,
        };
        let mut largest = 0.0_f64;
        gathered.each(|row, vector| {
            if let Some(column) = strange_in(vector) {
                return Err(strange(base, row, column, vector[column]));
            }
            largest = vector
                .iter()
                .fold(largest, |largest, number| largest.max(number.abs()));
            Ok(())
        })?;
        gathered.largest = largest;
        Ok(gathered)
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.places.len()
    }

    /// Passes each row, as f64, and its number in the base to `work`.
    fn each(&self, mut work: impl FnMut(u64, &[f64]) -> Result<()>) -> Result<()> {
        let mut vector = vec![0.0; self.base.dimension];
        for (row, bytes) in self
            .places
            .iter()
            .zip(self.bytes.chunks_exact(self.base.row_bytes()))
        {
            let numbers = self.base.numbers(*row, bytes)?;
            self.base.element.decode_f64(numbers, &mut vector);
            work(*row, &vector)?;
        }
        Ok(())
    }

    /// Converts all rows to f64, one after another.
    ///
    /// # Errors
    /// Memory: they do not fit.
    pub(super) fn vectors(&self, job: &Job) -> Result<(Vec<f64>, Reservation)> {
        let count = self.rows() * self.base.dimension;
        let held_bytes = (count * size_of::<f64>()) as u64;
        let held = job.budget.reserve("sample of vectors", held_bytes)?;
        let mut vectors = Vec::with_capacity(count);
        self.each(|_, vector| {
            vectors.extend_from_slice(vector);
            Ok(())
        })?;
        Ok((vectors, held))
    }

    /// Converts one of the rows to f64.
    pub(super) fn vector(&self, index: usize, out: &mut [f64]) {
        let row_bytes = self.base.row_bytes();
        let bytes = &self.bytes[index * row_bytes..][..row_bytes];
        let lead_bytes = self.base.lead_bytes();
        self.base.element.decode_f64(&bytes[lead_bytes..], out);
    }

    /// Returns some of the rows as a piece; they are numbered consecutively, regardless of their
    /// places.
    pub(super) fn piece(&self, from: usize, to: usize) -> Piece<'_> {
        let row_bytes = self.base.row_bytes();
        Piece {
            file: self.base,
            first: from as u64,
            bytes: &self.bytes[from * row_bytes..to * row_bytes],
        }
    }
}
