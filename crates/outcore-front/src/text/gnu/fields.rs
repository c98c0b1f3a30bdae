//! Finds a key in a line.
//!
//! Contract: a [`Span`] is POS1[,POS2] of `-k`, counted from zero. [`Span::cut`] returns the
//! corresponding bytes of a line; they never exceed the line, and are empty if the end is before
//! the start. The line is scanned once from its front to the end of the key. A field begins after a
//! separator or, without one, with its leading blanks.

use std::ops::Range;

use memchr::memchr;

/// Whether a byte separates words: space, tab, and newline (which is inside lines under `-z`).
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n')
}

/// The separator of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    /// Every occurrence of this byte.
    Byte(u8),
    /// The empty string between a word and the blanks after it.
    Blanks,
}

/// A position in a line: fields and bytes to skip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) fields: usize,
    pub(crate) bytes: usize,
}

/// The range of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first byte; `None` means the start of the line.
    pub(crate) start: Option<Position>,
    /// The position before which it ends. A byte number of 0 means the end of that field; `None`
    /// means the end of the line.
    pub(crate) end: Option<Position>,
    pub(crate) skips_blanks_at_start: bool,
    pub(crate) skips_blanks_at_end: bool,
}

impl Span {
    /// Whether the span of every line is the whole line.
    pub(crate) fn is_whole_line(&self) -> bool {
        self.start.is_none() && self.end.is_none() && !self.skips_blanks_at_start
    }

    /// The bytes of a line within the span.
    pub(crate) fn cut<'a>(&self, line: &'a [u8], separator: Separator) -> &'a [u8] {
        &line[self.range(line, separator)]
    }

    /// The range of these bytes in a line.
    pub(crate) fn range(&self, line: &[u8], separator: Separator) -> Range<usize> {
        let position = self.start.unwrap_or_default();
        let field = skip_fields(line, 0, position.fields, separator);
        let start = match self.skips_blanks_at_start {
            true => skip_blanks(line, field),
            false => field,
        };
        let start = start.saturating_add(position.bytes).min(line.len());
        let Some(end) = self.end else {
            return start..line.len();
        };
        // Fields skipped for the start need not be skipped again.
        let (from, left) = match end.fields.checked_sub(position.fields) {
            Some(left) => (field, left),
            None => (0, end.fields),
        };
        let end = match end.bytes {
            0 => end_of_fields(line, from, left, separator),
            bytes => {
                let field = skip_fields(line, from, left, separator);
                let field = match self.skips_blanks_at_end {
                    true => skip_blanks(line, field),
                    false => field,
                };
                field.saturating_add(bytes).min(line.len())
            }
        };
        start..end.max(start)
    }
}

fn skip_blanks(line: &[u8], from: usize) -> usize {
    let word = line[from..].iter().position(|byte| !is_blank(*byte));
    word.map_or(line.len(), |word| from + word)
}

/// The end of the word at `from`, including its leading blanks.
fn end_of_word(line: &[u8], from: usize) -> usize {
    let word = skip_blanks(line, from);
    let end = line[word..].iter().position(|byte| is_blank(*byte));
    end.map_or(line.len(), |end| word + end)
}

/// The start of the field that is `count` fields after the one at `from`.
fn skip_fields(line: &[u8], from: usize, count: usize, separator: Separator) -> usize {
    let mut at = from;
    for _ in 0..count {
        if at == line.len() {
            break;
        }
        at = match separator {
            Separator::Blanks => end_of_word(line, at),
            Separator::Byte(byte) => match memchr(byte, &line[at..]) {
                Some(found) => at + found + 1,
                None => line.len(),
            },
        };
    }
    at
}

/// The end of the field that is `count` fields after the one at `from`, without its separator.
fn end_of_fields(line: &[u8], from: usize, count: usize, separator: Separator) -> usize {
    let last = skip_fields(line, from, count, separator);
    match separator {
        Separator::Blanks => end_of_word(line, last),
        Separator::Byte(byte) => memchr(byte, &line[last..]).map_or(line.len(), |at| last + at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(
        line: &str,
        start: (usize, usize),
        end: Option<(usize, usize)>,
        by: Separator,
    ) -> String {
        let position = |(fields, bytes)| Position { fields, bytes };
        let span = Span {
            start: Some(position(start)),
            end: end.map(position),
            ..Span::default()
        };
        let text = span.cut(line.as_bytes(), by);
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[test]
    fn fields_end_at_each_separator_or_with_the_blanks_of_the_next() {
        let comma = Separator::Byte(b',');
        assert_eq!(cut("a,b,c", (1, 0), Some((1, 0)), comma), "b");
        assert_eq!(cut("a,,c", (1, 0), Some((1, 0)), comma), "");
        assert_eq!(cut("a,b,c", (0, 0), Some((1, 0)), comma), "a,b");
        assert_eq!(cut("a,b,c", (1, 0), None, comma), "b,c");
        assert_eq!(cut("a,b", (2, 0), Some((2, 0)), comma), "");
        assert_eq!(cut("a,bcd", (1, 1), Some((1, 2)), comma), "c");
        let blanks = Separator::Blanks;
        assert_eq!(cut("a  b c", (1, 0), Some((1, 0)), blanks), "  b");
        assert_eq!(cut("  a b", (0, 0), Some((0, 0)), blanks), "  a");
        assert_eq!(cut("a b", (5, 3), None, blanks), "");
    }

    #[test]
    fn a_key_that_ends_before_its_start_is_empty() {
        let comma = Separator::Byte(b',');
        assert_eq!(cut("a,b,c", (2, 0), Some((0, 0)), comma), "");
        assert_eq!(cut("abc", (0, 2), Some((0, 1)), comma), "");
    }
}
