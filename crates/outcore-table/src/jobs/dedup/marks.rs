//! Marks kept rows with one bit per row.
//!
//! Contract: any thread may flip [`Marks`]; [`Kept`] passes the marked rows, or the others, to a
//! copy.
//!
//! Bounds: one bit per row.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{BooleanArray, RecordBatch};
use outcore_io::{Error, Result};

use super::DEDUP;
use crate::input::Piece;
use crate::jobs::copy::{Change, WriteBatch, filtered};
use crate::jobs::rows_in::piece_and_place;

/// One bit per row of each piece: whether it is kept.
pub(super) struct Marks {
    pieces: Vec<Vec<AtomicU64>>,
}

impl Marks {
    pub(super) fn of(pieces: &[Piece]) -> Self {
        let words = |piece: &Piece| (0..piece.rows_count.div_ceil(64)).map(|_| AtomicU64::new(0));
        Marks {
            pieces: pieces.iter().map(|piece| words(piece).collect()).collect(),
        }
    }

    /// The memory of the marks.
    pub(super) fn memory_bytes(&self) -> u64 {
        let words = self.pieces.iter().map(Vec::len).sum::<usize>();
        (words * size_of::<u64>()) as u64
    }

    fn word(&self, piece: usize, place: u64) -> Result<&AtomicU64> {
        let words = self.pieces.get(piece);
        let word = words.and_then(|words| words.get((place / 64) as usize));
        word.ok_or_else(|| {
            Error::corrupt(DEDUP, "a row group has more rows than its file says")
                .hint("the file is damaged: copy or write it again")
        })
    }

    /// Flips the mark of the row at a position.
    pub(super) fn turn(&self, position: u64) -> Result<()> {
        let (piece, place) = piece_and_place(position);
        let word = self.word(piece, place)?;
        word.fetch_xor(1 << (place % 64), Ordering::Relaxed);
        Ok(())
    }

    fn is_set(&self, piece: usize, place: u64) -> Result<bool> {
        let word = self.word(piece, place)?.load(Ordering::Relaxed);
        Ok(word >> (place % 64) & 1 == 1)
    }

    /// The number of kept rows in each piece.
    pub(super) fn counts(&self) -> Vec<u64> {
        let ones = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        self.pieces
            .iter()
            .map(|piece| piece.iter().map(ones).sum())
            .collect()
    }
}

/// The marked rows, or the others.
pub(super) struct Kept<'k> {
    pub(super) marks: &'k Marks,
    pub(super) counts: &'k [u64],
    pub(super) pieces: &'k [Piece],
    pub(super) is_kept: bool,
}

impl Change for Kept<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        let count = *self.counts.get(piece)?;
        Some(match self.is_kept {
            true => count,
            false => self.pieces.get(piece)?.rows_count - count,
        })
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let places = first..first + batch.num_rows() as u64;
        let taken = places.map(|place| Ok(Some(self.marks.is_set(piece, place)? == self.is_kept)));
        let taken: BooleanArray = taken.collect::<Result<_>>()?;
        write(&filtered(&batch, &taken)?)
    }
}
