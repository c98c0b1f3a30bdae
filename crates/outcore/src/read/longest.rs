//! The length of the longest line of an input.
//!
//! Contract: [`measure`] reads the input once, and only searches for the ends of lines. An
//! unterminated last line counts as if it were terminated. Only jobs whose plan has too little room
//! for a line call it.
//!
//! Bounds: a few reads in flight.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::source::InputPart;
use outcore_io::memory::{Budget, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::{Error, Kind, Result};

/// Length of a read, and number of reads in flight.
const READ_BYTES: u64 = 256 << 10;
const WINDOW: usize = 8;

/// The longest line of an input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Longest {
    /// The length of the longest line, with its terminator.
    pub(crate) bytes: u64,
    /// Mean length of all other lines.
    pub(crate) mean_of_others_bytes: f64,
    /// Sum of the longest lines of all files.
    pub(crate) of_each_file_bytes: u64,
}

/// Measures lines, whose ends are found one after another.
#[derive(Debug, Default)]
struct Measure {
    longest_bytes: u64,
    /// The sum of the longest lines of finished files, and the longest line of the current one.
    of_files_bytes: u64,
    of_file_bytes: u64,
    lines: u64,
    bytes: u64,
    /// Bytes so far of the current line.
    begun_bytes: u64,
}

impl Measure {
    /// Takes the next bytes of a file.
    fn take(&mut self, bytes: &[u8], terminator: u8) {
        let mut from = 0;
        for at in memchr::memchr_iter(terminator, bytes) {
            self.begun_bytes += (at + 1 - from) as u64;
            from = at + 1;
            self.end_line();
        }
        self.begun_bytes += (bytes.len() - from) as u64;
    }

    /// Notes the end of a file.
    fn end_file(&mut self) {
        if self.begun_bytes > 0 {
            self.begun_bytes += 1;
            self.end_line();
        }
        self.of_files_bytes += std::mem::take(&mut self.of_file_bytes);
    }

    fn end_line(&mut self) {
        let line_bytes = std::mem::take(&mut self.begun_bytes);
        self.longest_bytes = self.longest_bytes.max(line_bytes);
        self.of_file_bytes = self.of_file_bytes.max(line_bytes);
        self.lines += 1;
        self.bytes += line_bytes;
    }

    fn longest(&self) -> Longest {
        let others = self.lines.saturating_sub(1).max(1);
        Longest {
            bytes: self.longest_bytes,
            of_each_file_bytes: self.of_files_bytes,
            mean_of_others_bytes: (self.bytes - self.longest_bytes) as f64 / others as f64,
        }
    }
}

/// `error`, from planning again with room for the longest line, with the place of that line. The
/// place comes from `met`, the error about the line that was too long.
pub(crate) fn located(error: Error, met: &Error) -> Error {
    let is_elsewhere = error.kind() != Kind::Memory || error.file_path().is_some();
    match (met.file_path(), met.offset_bytes()) {
        (Some(path), Some(offset_bytes)) if !is_elsewhere => error.path(path).offset(offset_bytes),
        _ => error,
    }
}

/// One read: the range of the data in it, and whether the file ends after them.
struct Piece {
    inside: Range<usize>,
    ends_file: bool,
}

/// Finds the longest line of files. `check` decides when to stop.
///
/// # Errors
/// The errors of reading and of `check`.
pub(crate) fn measure<'p>(
    volume: &Volume,
    parts: impl IntoIterator<Item = &'p InputPart>,
    terminator: u8,
    check: impl Fn() -> Result<()>,
) -> Result<Longest> {
    // A plan that failed holds the available memory, or is about to return it.
    let budget = Budget::new(WINDOW as u64 * READ_BYTES);
    let pool = Pool::new(&budget, "measure lines", READ_BYTES as usize, WINDOW)?;
    let mut parts = parts.into_iter().filter(|part| part.data_len_bytes > 0);
    let mut part = parts.next();
    let mut at_bytes = part.map_or(0, |part| part.data_at_bytes);
    let next = |_: &Port| {
        let current = part?;
        let end_bytes = current.data_at_bytes + current.data_len_bytes;
        let from_bytes = block_floor(at_bytes);
        let to_bytes = block_ceil(end_bytes).min(from_bytes + READ_BYTES);
        let data_to_bytes = to_bytes.min(end_bytes);
        let piece = Piece {
            inside: (at_bytes - from_bytes) as usize..(data_to_bytes - from_bytes) as usize,
            ends_file: data_to_bytes == end_bytes,
        };
        at_bytes = data_to_bytes;
        if piece.ends_file {
            part = parts.next();
            at_bytes = part.map_or(0, |part| part.data_at_bytes);
        }
        Some(ReadRange {
            file: &current.file,
            at_bytes: from_bytes,
            len_bytes: (to_bytes - from_bytes) as usize,
            what: piece,
        })
    };
    let mut seen = Measure::default();
    let take = |read: Arrival<Piece>| {
        // The later read of the lines detects and reports a file that became shorter.
        let to = read.what.inside.end.min(read.len_bytes);
        let from = read.what.inside.start.min(to);
        seen.take(&read.buf[from..to], terminator);
        if read.what.ends_file {
            seen.end_file();
        }
        Ok(())
    };
    Transfers::new(volume)?.read_in_order(&pool, check, next, take)?;
    Ok(seen.longest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_counts_with_its_end_wherever_it_is_cut() {
        let mut seen = Measure::default();
        for bytes in [&b"ab\ncde"[..], b"f", b"gh\n", b"\nlast"] {
            seen.take(bytes, b'\n');
        }
        seen.end_file();
        seen.take(b"x\n", b'\n');
        seen.end_file();
        let longest = Longest {
            bytes: 7,
            mean_of_others_bytes: (3.0 + 1.0 + 5.0 + 2.0) / 4.0,
            of_each_file_bytes: 7 + 2,
        };
        assert_eq!(seen.longest(), longest);
    }
}
