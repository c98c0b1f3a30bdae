//! Vectors of packed bits, and their Hamming distances.
//!
//! Contract: a byte holds eight dimensions, as in NumPy's `packbits` and faiss' binary indexes.
//! Distances are exact integers; missing bytes count as 0 on both sides.

use outcore::{Job, Result};

use crate::format::VectorFile;
use crate::product::vectorized;
use crate::scan::{Piece, Scan};

/// Queries in memory, as words.
pub(super) struct Bits {
    words: Vec<u64>,
    words_each: usize,
}

/// Words per row.
fn words_of(file: &VectorFile) -> usize {
    file.dimension.div_ceil(size_of::<u64>())
}

impl Bits {
    /// The memory for `count` queries, including loading.
    pub(super) fn memory_bytes(file: &VectorFile, count: usize) -> u64 {
        2 * (count * words_of(file) * size_of::<u64>()) as u64
    }

    /// Loads the vectors of `file`; the caller reserves their memory.
    ///
    /// # Errors
    /// Errors of reading.
    pub(super) fn load(job: &Job, file: &VectorFile) -> Result<Self> {
        let words_each = words_of(file);
        let scan = Scan::plan(job, file, 0, 0)?;
        let state = || Ok(Vec::new());
        let passed = scan.run(job, "read vectors", state, |found, piece| {
            let rows = piece.bytes.len() / file.row_bytes();
            let mut all = Vec::with_capacity(rows * words_each);
            each_row(piece, &mut Vec::new(), |_, words| {
                all.extend_from_slice(words);
                Ok(())
            })?;
            found.push((piece.first, all));
            Ok(())
        })?;
        let mut pieces: Vec<(u64, Vec<u64>)> = passed.states.into_iter().flatten().collect();
        pieces.sort_by_key(|(first, _)| *first);
        let mut words = Vec::with_capacity(file.rows as usize * words_each);
        pieces
            .iter()
            .for_each(|(_, all)| words.extend_from_slice(all));
        Ok(Bits { words, words_each })
    }

    /// The number of bits in which each query differs from a row.
    pub(super) fn distances(&self, row: &[u64], out: &mut [u32]) {
        vectorized(|| {
            for (query, out) in self.words.chunks_exact(self.words_each).zip(out) {
                let pairs = query.iter().zip(row);
                *out = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
            }
        });
    }
}

/// Passes the number and the words of each row of a piece to `work`; `words` is a buffer for them.
///
/// # Errors
/// Corrupt: a row of another dimension. Errors of `work`.
pub(super) fn each_row(
    piece: Piece<'_>,
    words: &mut Vec<u64>,
    mut work: impl FnMut(u64, &[u64]) -> Result<()>,
) -> Result<()> {
    let file = piece.file;
    words.resize(words_of(file), 0);
    for (row, bytes) in (piece.first..).zip(piece.bytes.chunks_exact(file.row_bytes())) {
        let (whole, rest) = file.numbers(row, bytes)?.as_chunks::<8>();
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            words[whole.len()] = u64::from_le_bytes(last);
        }
        work(row, words)?;
    }
    Ok(())
}
