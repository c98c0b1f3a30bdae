//! Joins the lines that the borders of pieces cut, for text that is read in pieces.
//!
//! Contract: pieces come in any order and on any threads. [`Borders::whole`] returns the whole
//! lines of a piece, and keeps the parts before its first line end and after its last one.
//! [`Borders::each_cut`] joins these parts after all pieces have come; a piece that comes twice
//! counts once. [`CutLines`] passes each cut line to the caller that brings its last part; each
//! piece must come once.
//!
//! Bounds: [`Borders`] holds parts of two lines per piece. [`CutLines`] holds parts of the lines
//! around pieces whose neighbours have not come yet, of at most [`LINE_BYTES_MAX`] each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use outcore::{Error, Result};

use super::READ;

/// The longest line that may extend over several pieces.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The parts of lines at the borders of pieces.
#[derive(Debug, Default)]
pub(crate) struct Borders(Mutex<BTreeMap<u64, Cut>>);

/// The parts of cut lines in a piece.
#[derive(Debug)]
struct Cut {
    head: Vec<u8>,
    /// The start of the last line, and its bytes so far; `None` if no line ends in the piece.
    tail: Option<(u64, Vec<u8>)>,
}

impl Borders {
    /// Returns the whole lines of the piece that begins `first_bytes` into the text, and their
    /// start.
    ///
    /// Lines end with `line_end`.
    pub(crate) fn whole<'t>(
        &self,
        first_bytes: u64,
        piece: &'t [u8],
        line_end: u8,
    ) -> (u64, &'t [u8]) {
        let ends = (
            memchr::memchr(line_end, piece),
            memchr::memrchr(line_end, piece),
        );
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

    /// Passes each cut line, with its start, to `take`.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for a line that is too long; errors of `take`.
    pub(crate) fn each_cut(&self, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let cuts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut line, mut line_at) = (Vec::new(), 0);
        for (first, cut) in cuts.iter() {
            if line.is_empty() {
                line_at = *first;
            }
            line.extend_from_slice(&cut.head);
            check_length(&line)?;
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

/// Cut lines that are still incomplete.
#[derive(Debug, Default)]
pub(crate) struct CutLines(Mutex<Vec<Part>>);

/// A part of a line.
#[derive(Debug)]
struct Part {
    at_bytes: u64,
    bytes: Vec<u8>,
    /// Whether the line begins here, and whether it ends here.
    has_begin: bool,
    has_end: bool,
}

impl Part {
    fn end_bytes(&self) -> u64 {
        self.at_bytes + self.bytes.len() as u64
    }

    /// Whether `next` continues the line where this part ends.
    fn goes_on_in(&self, next: &Part) -> bool {
        !self.has_end && !next.has_begin && self.end_bytes() == next.at_bytes
    }

    fn join(&mut self, next: &Part) {
        self.bytes.extend_from_slice(&next.bytes);
        self.has_end = next.has_end;
    }
}

impl CutLines {
    /// Passes whole lines, with their places, to `take`: those inside the piece that begins
    /// `first_bytes` into the texts, and those that the piece completes. The piece is part of the
    /// text at `text`, whose lines end with `line_end`.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for a line that is too long; errors of `take`.
    pub(crate) fn each(
        &self,
        first_bytes: u64,
        piece: &[u8],
        text: &Range<u64>,
        line_end: u8,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let end_bytes = first_bytes + piece.len() as u64;
        let (has_begin, has_end) = (first_bytes == text.start, end_bytes == text.end);
        let whole = whole_lines(piece, WholeEnds { has_begin, has_end }, line_end);
        let part = |bytes: Range<usize>, (has_begin, has_end): (bool, bool)| Part {
            at_bytes: first_bytes + bytes.start as u64,
            bytes: piece[bytes].to_vec(),
            has_begin,
            has_end,
        };
        let Some(whole) = whole else {
            let line = self.complete(part(0..piece.len(), (has_begin, has_end)))?;
            return line.map_or(Ok(()), |line| take(line.at_bytes, &line.bytes));
        };
        if !has_begin {
            let line = self.complete(part(0..whole.start, (false, true)))?;
            line.map_or(Ok(()), |line| take(line.at_bytes, &line.bytes))?;
        }
        take(first_bytes + whole.start as u64, &piece[whole.clone()])?;
        if !has_end {
            let line = self.complete(part(whole.end..piece.len(), (true, false)))?;
            line.map_or(Ok(()), |line| take(line.at_bytes, &line.bytes))?;
        }
        Ok(())
    }

    /// Whether all lines are complete.
    pub(crate) fn is_over(&self) -> bool {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.is_empty()
    }

    /// Returns the line that `part` completes, or keeps the part.
    fn complete(&self, mut part: Part) -> Result<Option<Part>> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = parts.iter().position(|before| before.goes_on_in(&part)) {
            let mut before = parts.swap_remove(before);
            before.join(&part);
            part = before;
        }
        if let Some(next) = parts.iter().position(|next| part.goes_on_in(next)) {
            part.join(&parts.swap_remove(next));
        }
        check_length(&part.bytes)?;
        if part.has_begin && part.has_end {
            return Ok(Some(part));
        }
        parts.push(part);
        Ok(None)
    }
}

/// Fails for a line that is longer than any edge.
fn check_length(line: &[u8]) -> Result<()> {
    if line.len() <= LINE_BYTES_MAX {
        return Ok(());
    }
    let cause = format!("a line is longer than {LINE_BYTES_MAX} bytes");
    Err(Error::corrupt(READ, cause).hint("check --from, or that the file is text"))
}

/// Whether a line begins at the start of a piece, and whether one ends at its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeEnds {
    pub(crate) has_begin: bool,
    pub(crate) has_end: bool,
}

/// Returns the range of the whole lines in a piece; `None` if the piece is part of a single line.
pub(crate) fn whole_lines(
    piece: &[u8],
    WholeEnds { has_begin, has_end }: WholeEnds,
    line_end: u8,
) -> Option<Range<usize>> {
    let begin = match has_begin {
        true => Some(0),
        false => memchr::memchr(line_end, piece).map(|end| end + 1),
    };
    let end = match has_end {
        true => Some(piece.len()),
        false => memchr::memrchr(line_end, piece).map(|end| end + 1),
    };
    Some(begin?..end?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a text into its lines.
    fn lines_of(text: &[u8]) -> Vec<Vec<u8>> {
        let mut lines: Vec<Vec<u8>> = text
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn a_line_that_borders_cut_comes_with_the_last_of_its_parts() {
        let text = b"ab\n\nc\nlonger than a piece\n\nlast";
        // The text begins at byte 10, after another text.
        let at = 10..10 + text.len() as u64;
        for piece_bytes in 1..text.len() + 2 {
            let pieces: Vec<(usize, &[u8])> = text.chunks(piece_bytes).enumerate().collect();
            let turns = [
                (0..pieces.len()).collect::<Vec<_>>(),
                (0..pieces.len()).rev().collect(),
                (0..pieces.len())
                    .step_by(2)
                    .chain((1..pieces.len()).step_by(2))
                    .collect(),
            ];
            for order in turns {
                let cut = CutLines::default();
                let mut found: Vec<u8> = Vec::new();
                for (number, piece) in order.iter().map(|number| pieces[*number]) {
                    let first = at.start + (number * piece_bytes) as u64;
                    let take = |place: u64, lines: &[u8]| {
                        assert_eq!(&text[(place - at.start) as usize..][..lines.len()], lines);
                        found.extend_from_slice(lines);
                        if !lines.is_empty() && !lines.ends_with(b"\n") {
                            found.push(b'\n');
                        }
                        Ok(())
                    };
                    cut.each(first, piece, &at, b'\n', take).unwrap();
                }
                assert!(cut.is_over());
                assert_eq!(lines_of(found.strip_suffix(b"\n").unwrap()), lines_of(text));
            }
        }
    }

    #[test]
    fn a_line_that_is_no_edge_for_sure_is_not_gathered() {
        let (cut, piece) = (CutLines::default(), vec![0; 400 << 10]);
        let mut pieces = (0..5).map(|number| {
            let first = number * piece.len() as u64;
            let text = 0..5 * piece.len() as u64;
            cut.each(first, &piece, &text, b'\n', |_, _| Ok(()))
        });
        assert!(pieces.any(|done| done.is_err()));
    }

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
                let (at, whole) = borders.whole((number * piece_bytes) as u64, piece, b'\n');
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
