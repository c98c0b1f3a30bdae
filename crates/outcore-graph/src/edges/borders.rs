//! Lines of a text that is read in pieces, and those that the borders of pieces cut.
//!
//! Contract: pieces come in any order and on any threads. [`Borders::whole`] gives the lines that lie whole in a piece,
//! and keeps what is in front of its first end of a line and after its last; [`Borders::each_cut`] puts these together when all
//! pieces have come. A piece that comes twice counts once.
//!
//! Bounds: parts of two lines a piece are in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use outcore::Result;

/// The parts of lines at the borders of pieces.
#[derive(Debug, Default)]
pub(crate) struct Borders(Mutex<BTreeMap<u64, Cut>>);

/// What a piece has of lines that are not whole in it.
#[derive(Debug)]
struct Cut {
    head: Vec<u8>,
    /// Where the last line begins, and what there is of it; nothing if no line ends in the piece.
    tail: Option<(u64, Vec<u8>)>,
}

impl Borders {
    /// The whole lines of the piece that begins `first_bytes` into the text, and where they begin.
    pub(crate) fn whole<'t>(&self, first_bytes: u64, piece: &'t [u8]) -> (u64, &'t [u8]) {
        let ends = (memchr::memchr(b'\n', piece), memchr::memrchr(b'\n', piece));
        let (cut, whole) = match ends {
            (Some(first), Some(last)) => {
                let cut = Cut {
                    head: piece[..first].to_vec(),
                    tail: Some((first_bytes + last as u64 + 1, piece[last + 1..].to_vec())),
                };
                (cut, first + 1..(last + 1).max(first + 1))
            }
            _ => {
                let cut = Cut {
                    head: piece.to_vec(),
                    tail: None,
                };
                (cut, 0..0)
            }
        };
        let mut cuts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cuts.insert(first_bytes, cut);
        (first_bytes + whole.start as u64, &piece[whole])
    }

    /// Shows each line that borders cut, and where it begins, to `take`.
    ///
    /// # Errors
    /// What `take` fails with.
    pub(crate) fn each_cut(&self, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let cuts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut line, mut line_at) = (Vec::new(), 0);
        for (first, cut) in cuts.iter() {
            if line.is_empty() {
                line_at = *first;
            }
            line.extend_from_slice(&cut.head);
            if let Some((tail_at, tail)) = &cut.tail {
                take(line_at, &line)?;
                line.clear();
                line.extend_from_slice(tail);
                line_at = *tail_at;
            }
        }
        take(line_at, &line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_comes_once_wherever_pieces_end() {
        let text = b"ab\n\nc\nlonger than a piece\nlast";
        let mut wanted: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        wanted.sort_unstable();
        for piece_bytes in 1..text.len() + 2 {
            let borders = Borders::default();
            let mut lines: Vec<Vec<u8>> = Vec::new();
            let mut take = |at: u64, some: &[u8]| {
                assert_eq!(&text[at as usize..][..some.len()], some);
                lines.extend(some.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            };
            // The last piece comes first.
            let pieces = text.chunks(piece_bytes).enumerate();
            for (number, piece) in pieces.collect::<Vec<_>>().into_iter().rev() {
                let (at, whole) = borders.whole((number * piece_bytes) as u64, piece);
                if let Some(whole) = whole.strip_suffix(b"\n") {
                    take(at, whole);
                }
            }
            let cut = borders.each_cut(|at, line| {
                take(at, line);
                Ok(())
            });
            cut.unwrap();
            lines.sort_unstable();
            assert_eq!(lines, wanted, "pieces of {piece_bytes}");
        }
    }
}
