//! FASTQ: record boundaries and parts.
//!
//! Contract: a record is four lines: `@` and a name, a sequence, `+` and any text, and one quality
//! character per letter of the sequence. Lines end with `\n` or `\r\n`; the last line of a file
//! need not be terminated. A quality line may begin with `@` or `+`, so [`Framer`] counts lines
//! from the beginning of a file, in pieces of any length, and checks each record. A sequence of
//! several lines is a [`Fault`]. Pure; each byte is read twice.

use std::fmt;

use memchr::{memchr, memchr2, memrchr};

/// Lines per record.
const LINES: u8 = 4;

/// Why text is not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The record does not begin with `@`.
    NoName,
    /// The record's third line does not begin with `+`.
    NoPlus,
    /// Sequence and quality have different lengths.
    Lengths {
        /// Letters of the sequence.
        letters: u64,
        /// Quality characters.
        signs: u64,
    },
    /// The file ends after this many of its lines.
    CutShort {
        /// The lines that exist.
        lines: u8,
    },
    /// The record contains a NUL byte.
    Nul,
}

impl Fault {
    /// The next step for such a file.
    pub fn next_step(self) -> &'static str {
        match self {
            Fault::NoPlus => {
                "write each sequence and its quality in one line each, for example with `seqtk seq`"
            }
            Fault::CutShort { .. } => "copy the file again, or remove the record",
            Fault::NoName => "repair or remove the record, or treat the text as lines",
            Fault::Lengths { .. } | Fault::Nul => "repair or remove the record",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoName => f.write_str("does not begin with `@`"),
            Fault::NoPlus => f.write_str("has a third line that does not begin with `+`"),
            Fault::Lengths { letters, signs } => write!(
                f,
                "has a sequence of length {letters} and a quality of length {signs}"
            ),
            Fault::CutShort { lines } => write!(f, "is cut short after {lines} of 4 lines"),
            Fault::Nul => f.write_str("holds a NUL"),
        }
    }
}

/// Finds the ends of records in text that arrives in pieces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Framer {
    /// The current or next line of the record.
    line: u8,
    /// Bytes of that line.
    line_bytes: u64,
    /// The last byte of that line.
    last: u8,
    /// Letters of the record's sequence.
    letters: u64,
    /// Whether the previous line ended with `\r\n`.
    is_crlf: bool,
}

impl Framer {
    /// Number of bytes of `text` that complete the current record; `None` if it continues.
    ///
    /// # Errors
    /// The text is not a record.
    pub fn end_of_record(&mut self, text: &[u8]) -> Result<Option<usize>, Fault> {
        let mut at = 0;
        while at < text.len() {
            if self.line_bytes == 0 {
                self.check_begin(text[at])?;
            }
            let rest = &text[at..];
            let end = memchr(b'\n', rest);
            let line = &rest[..end.unwrap_or(rest.len())];
            if memchr(0, line).is_some() {
                return Err(Fault::Nul);
            }
            self.line_bytes += line.len() as u64;
            self.last = line.last().copied().unwrap_or(self.last);
            if end.is_none() {
                return Ok(None);
            }
            at += line.len() + 1;
            self.end_line()?;
            if self.line == 0 {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Ends the record that is open at the end of a file.
    ///
    /// # Errors
    /// The record is incomplete.
    pub fn finish(&mut self) -> Result<(), Fault> {
        let lines = self.line;
        if lines < LINES - 1 {
            *self = Framer::default();
            return Err(Fault::CutShort { lines });
        }
        // The last line is unterminated, so the lines before decide how lines end.
        let is_crlf = self.is_crlf;
        let ended = self.end_line();
        self.is_crlf = is_crlf;
        ended
    }

    /// Whether the lines of the last record end with `\r\n`.
    pub fn is_crlf(&self) -> bool {
        self.is_crlf
    }

    /// Checks the first byte of a line.
    fn check_begin(&self, first: u8) -> Result<(), Fault> {
        match self.line {
            0 if first != b'@' => Err(Fault::NoName),
            2 if first != b'+' => Err(Fault::NoPlus),
            _ => Ok(()),
        }
    }

    /// Moves to the next line.
    fn end_line(&mut self) -> Result<(), Fault> {
        self.is_crlf = self.line_bytes > 0 && self.last == b'\r';
        let signs = self.line_bytes - u64::from(self.is_crlf);
        let letters = self.letters;
        (self.line_bytes, self.last) = (0, 0);
        match self.line {
            1 => self.letters = signs,
            3 if signs != letters => return Err(Fault::Lengths { letters, signs }),
            _ => {}
        }
        self.line = (self.line + 1) % LINES;
        Ok(())
    }
}

/// A record without its last line end. Its parts are found on request; a part is `None` if the
/// record has fewer lines.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a>(pub &'a [u8]);

impl<'a> Record<'a> {
    /// The first line, from after the `@` to the first space.
    pub fn name(self) -> Option<&'a [u8]> {
        let title = &self.0[..memchr(b'\n', self.0)?];
        let title = title.strip_suffix(b"\r").unwrap_or(title);
        let title = title.strip_prefix(b"@")?;
        let end = memchr2(b' ', b'\t', title);
        Some(&title[..end.unwrap_or(title.len())])
    }

    /// The letters.
    pub fn sequence(self) -> Option<&'a [u8]> {
        let rest = &self.0[memchr(b'\n', self.0)? + 1..];
        let line = &rest[..memchr(b'\n', rest)?];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The quality characters.
    pub fn quality(self) -> Option<&'a [u8]> {
        let line = &self.0[memrchr(b'\n', self.0)? + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Whether a file with this start contains FASTQ: its first record is complete.
pub fn is_begun_by(front: &[u8]) -> bool {
    matches!(Framer::default().end_of_record(front), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The ends of records, or the fault, if `text` arrives in pieces split at `cuts`.
    fn ends(text: &[u8], cuts: &[usize]) -> Result<Vec<usize>, Fault> {
        let (mut framer, mut ends, mut at) = (Framer::default(), Vec::new(), 0);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        for cut in cuts {
            let mut begun = at;
            while let Some(len) = framer.end_of_record(&text[begun..cut])? {
                begun += len;
                ends.push(begun);
            }
            at = cut;
        }
        if ends.last().copied().unwrap_or(0) < text.len() {
            framer.finish()?;
            ends.push(text.len());
        }
        Ok(ends)
    }

    proptest! {
        #[test]
        fn records_end_at_their_fourth_line_whatever_pieces_they_come_in(
            records in prop::collection::vec(("[ab +@]{0,6}", "[ACGTN@+]{0,9}", any::<u64>()), 0..9),
            cuts in prop::collection::vec(0_usize..400, 0..9),
            end in prop_oneof![Just("\n"), Just("\r\n")],
            is_ended in any::<bool>(),
        ) {
            let (mut text, mut wanted) = (String::new(), Vec::new());
            for (title, sequence, seed) in &records {
                let signs = sequence.bytes().enumerate();
                let signs = signs.map(|(at, _)| ['@', '+', 'I', '#'][(seed >> (2 * at)) as usize % 4]);
                let quality: String = signs.collect();
                let repeated = if seed % 2 == 0 { title.as_str() } else { "" };
                text += &format!("@{title}{end}{sequence}{end}+{repeated}{end}{quality}{end}");
                wanted.push(text.len());
            }
            if !is_ended && !records.is_empty() {
                text.truncate(text.len() - end.len());
                wanted.pop();
                wanted.push(text.len());
            }
            prop_assert_eq!(ends(text.as_bytes(), &cuts), Ok(wanted.clone()));
            let mut begin = 0;
            for ((title, sequence, _), end_at) in records.iter().zip(wanted) {
                let is_open = !is_ended && end_at == text.len();
                let record = &text[begin..end_at - usize::from(!is_open)];
                let parts = Record(record.as_bytes());
                prop_assert_eq!(parts.sequence(), Some(sequence.as_bytes()));
                prop_assert_eq!(parts.quality().map(<[u8]>::len), Some(sequence.len()));
                let name = title.split(' ').next().unwrap_or_default();
                prop_assert_eq!(parts.name(), Some(name.as_bytes()));
                begin = end_at;
            }
            prop_assert!(records.len() < 2 || is_begun_by(text.as_bytes()));
        }
    }

    #[test]
    fn a_damaged_record_is_a_fault_of_its_own() {
        for (text, fault) in [
            (&b"r1\nA\n+\nI\n"[..], Fault::NoName),
            (b"@r\nA\n+\nI\n\n", Fault::NoName),
            (b"@r\nAC\nGT\n+\nIIII\n", Fault::NoPlus),
            (b"@r\nAC\n\nII\n", Fault::NoPlus),
            (
                b"@r\nAC\n+\nIII\n",
                Fault::Lengths {
                    letters: 2,
                    signs: 3,
                },
            ),
            (
                b"@r\r\nAC\r\n+\r\nI",
                Fault::Lengths {
                    letters: 2,
                    signs: 1,
                },
            ),
            (b"@r\nA", Fault::CutShort { lines: 1 }),
            (b"@r\nA\n", Fault::CutShort { lines: 2 }),
            (b"@r\nA\n+", Fault::CutShort { lines: 2 }),
            (b"@r\nA\0\n+\nII\n", Fault::Nul),
        ] {
            assert_eq!(ends(text, &[3]), Err(fault), "{text:?}");
            assert!(!is_begun_by(text) || fault == Fault::NoName);
        }
        assert_eq!(ends(b"@\n\n+\n", &[]), Ok(vec![5]));
    }
}
