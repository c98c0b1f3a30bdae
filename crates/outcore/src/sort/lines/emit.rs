//! Lines in order, as a stream of bytes that the output may divide anywhere.
//!
//! Contract: a [`Gather`] returns the lines that references point to, each with its framing in the
//! area. If requested, a count precedes each line, as in `uniq -c` (seven places, a space) or as a
//! field of CSV. A line may continue in the next chunk.

use super::refs::Ref;
use crate::partition::kernel::{FETCH_AHEAD, copy_item};
use crate::read::framing::ItemFraming;

/// Room for a count: twenty digits and a space.
pub(super) const COUNT_BYTES_MAX: usize = 21;

/// The text before a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Nothing.
    None,
    /// The number of occurrences of the line, as in `uniq -c`.
    Padded,
    /// The number of occurrences as the first field of CSV, followed by this separator.
    Column(u8),
    /// This byte, repeated so that the line moves to its column.
    Columns(u8),
}

/// Lines that are being written.
pub(crate) struct Gather<'a> {
    area: &'a [u8],
    /// Bytes of an item before its content, and all bytes of its framing.
    head_bytes: usize,
    around_bytes: usize,
    /// Leading bytes of a line that are not written.
    mark_bytes: usize,
    refs: &'a [Ref],
    /// Number of lines that have not been started; the references are repeated if there are fewer.
    left: u64,
    next: usize,
    counts: Counts,
    /// The count before the current line, and how much of it is left.
    head: [u8; COUNT_BYTES_MAX],
    head_from: usize,
    head_to: usize,
    /// The rest of the current line.
    line_from: usize,
    line_to: usize,
}

impl<'a> Gather<'a> {
    /// `lines` lines of `area`; their words are their counts, if counts are written.
    pub(crate) fn new(
        area: &'a [u8],
        framing: ItemFraming,
        refs: &'a [Ref],
        lines: u64,
        counts: Counts,
    ) -> Self {
        Gather {
            area,
            head_bytes: framing.head_bytes(),
            around_bytes: framing.around_bytes(),
            mark_bytes: 0,
            refs,
            left: lines,
            next: 0,
            counts,
            head: [0; COUNT_BYTES_MAX],
            head_from: 0,
            head_to: 0,
            line_from: 0,
            line_to: 0,
        }
    }

    /// These lines without the first bytes of each line; only if the framing has no bytes before
    /// the content.
    pub(super) fn without_marks(self, mark_bytes: usize) -> Self {
        Gather { mark_bytes, ..self }
    }

    /// Lines that have not been begun.
    pub(super) fn lines_left(&self) -> u64 {
        self.left
    }

    /// Bytes of the lines that have not been begun.
    pub(super) fn bytes_left(&self) -> u64 {
        let rounds = self.left / self.refs.len().max(1) as u64;
        let rest = (self.left % self.refs.len().max(1) as u64) as usize;
        rounds * self.bytes_of(self.refs) + self.bytes_of(&self.refs[..rest])
    }

    fn bytes_of(&self, refs: &[Ref]) -> u64 {
        let head = |r: &Ref| match self.counts {
            Counts::None => 0,
            Counts::Padded => count_bytes(r.word),
            Counts::Column(_) => digits_of(r.word) + 1,
            Counts::Columns(_) => r.word,
        };
        let item_bytes = |r: &Ref| self.item(r).1 as u64;
        refs.iter().map(|r| head(r) + item_bytes(r)).sum()
    }

    /// Whether everything has been returned.
    #[cfg(test)]
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.line_from == self.line_to && self.head_from == self.head_to
    }

    /// Fills `out` from the start; returns the number of bytes filled.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < out.len() {
            if self.head_from < self.head_to {
                let len = (self.head_to - self.head_from).min(out.len() - filled);
                let head = &self.head[self.head_from..self.head_from + len];
                out[filled..filled + len].copy_from_slice(head);
                self.head_from += len;
                filled += len;
                continue;
            }
            if self.line_from < self.line_to {
                let len = (self.line_to - self.line_from).min(out.len() - filled);
                let line = &self.area[self.line_from..self.line_from + len];
                out[filled..filled + len].copy_from_slice(line);
                self.line_from += len;
                filled += len;
                continue;
            }
            filled += self.fill_whole(&mut out[filled..]);
            if self.left == 0 || filled == out.len() {
                break;
            }
            self.begin();
        }
        filled
    }

    /// Whole lines with their counts, as many as there is room for.
    fn fill_whole(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while self.left > 0 {
            if let Some(ahead) = self.refs.get(self.next + FETCH_AHEAD) {
                ahead.fetch(self.area);
            }
            let r = &self.refs[self.next];
            let mut head_len = 0;
            if self.counts != Counts::None {
                let Some(head) = out[filled..].first_chunk_mut() else {
                    break;
                };
                head_len = put_count(r.word, self.counts, head);
            }
            let (at, len) = self.item(r);
            if !copy_item(self.area, at, len, &mut out[filled + head_len..]) {
                break;
            }
            filled += head_len + len;
            self.step();
        }
        filled
    }

    /// The offset of an item in the area, and its length.
    #[inline(always)]
    fn item(&self, r: &Ref) -> (usize, usize) {
        let at = r.at as usize - self.head_bytes + self.mark_bytes;
        (
            at,
            r.len_bytes as usize + self.around_bytes - self.mark_bytes,
        )
    }

    fn step(&mut self) {
        self.left -= 1;
        self.next += 1;
        if self.next == self.refs.len() {
            self.next = 0;
        }
    }

    fn begin(&mut self) {
        let r = self.refs[self.next];
        self.step();
        let (at, len) = self.item(&r);
        (self.line_from, self.line_to) = (at, at + len);
        if self.counts != Counts::None {
            let len = put_count(r.word, self.counts, &mut self.head);
            (self.head_from, self.head_to) = (0, len);
        }
    }
}

/// Writes a count and the byte after it at the start of `head`; returns the length.
///
/// N.B. this is faster than formatting counts with the standard library and copying them before
/// their lines.
fn put_count(count: u64, counts: Counts, head: &mut [u8; COUNT_BYTES_MAX]) -> usize {
    let (len, behind) = match counts {
        Counts::Columns(separator) => {
            let len = (count as usize).min(head.len());
            head[..len].fill(separator);
            return len;
        }
        Counts::Column(separator) => (digits_of(count) as usize + 1, separator),
        Counts::None | Counts::Padded => (count_bytes(count) as usize, b' '),
    };
    head[..len - 1].fill(b' ');
    head[len - 1] = behind;
    let mut left = count;
    for digit in head[..len - 1].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    len
}

/// Length of a count with the space after it.
pub(super) fn count_bytes(count: u64) -> u64 {
    digits_of(count).max(7) + 1
}

fn digits_of(count: u64) -> u64 {
    u64::from(count.checked_ilog10().unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_as_uniq_writes_them() {
        for count in [0, 1, 42, 9_999_999, 10_000_000, u64::MAX] {
            let mut head = [b'x'; COUNT_BYTES_MAX];
            let len = put_count(count, Counts::Padded, &mut head);
            assert_eq!(head[..len], *format!("{count:>7} ").as_bytes());
            assert_eq!(count_bytes(count), len as u64);
            let len = put_count(count, Counts::Column(b','), &mut head);
            assert_eq!(head[..len], *format!("{count},").as_bytes());
        }
    }

    #[test]
    fn lines_come_in_order_however_the_output_is_cut() {
        let mut area = b"one\ntwo\n\nlonger line\n".to_vec();
        // Short lines are copied together with the bytes after them.
        area.resize(100, b'.');
        let area = &area[..];
        let at = [(4, 3), (9, 11), (8, 0), (0, 3)];
        let refs = at.map(|(at, len)| Ref {
            word: 12_345_678,
            at,
            len_bytes: len,
        });
        let framing = ItemFraming::Terminated(b'\n');
        for counts in [Counts::None, Counts::Padded, Counts::Column(b';')] {
            let expected: Vec<u8> = refs
                .iter()
                .cycle()
                .take(6)
                .flat_map(|r| {
                    let head = match counts {
                        Counts::None | Counts::Columns(_) => "",
                        Counts::Padded => "12345678 ",
                        Counts::Column(_) => "12345678;",
                    };
                    [head.as_bytes(), r.bytes(area), b"\n"].concat()
                })
                .collect();
            for cut in 1..expected.len() + 2 {
                let mut gather = Gather::new(area, framing, &refs, 6, counts);
                assert_eq!(gather.bytes_left(), expected.len() as u64);
                let mut got = Vec::new();
                while !gather.is_done() {
                    let mut chunk = vec![0; cut];
                    let len = gather.fill(&mut chunk);
                    got.extend_from_slice(&chunk[..len]);
                }
                assert_eq!(got, expected);
            }
        }
        assert_eq!(count_bytes(1), 8);
        assert_eq!(count_bytes(9_999_999), 8);
        assert_eq!(count_bytes(10_000_000), 9);
        assert_eq!(count_bytes(u64::MAX), 21);
    }
}
