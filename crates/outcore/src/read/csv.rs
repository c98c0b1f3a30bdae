//! CSV: record boundaries and fields.
//!
//! Contract: RFC 4180, with any separator. A field that begins with a quote extends to the closing
//! quote; two quotes inside are one; separators and newlines inside belong to the field. Quotes
//! inside other fields are ordinary bytes (`5" disk`). Lines end with `\n` or `\r\n`, or with `\r`
//! alone if no record at the start of the file ends otherwise ([`line_end`]). [`Framer`] finds the
//! ends of records in text that arrives in pieces, [`fields`] splits a record, and [`value`]
//! decodes a field. Pure; each byte is read once.

use memchr::{memchr, memchr2, memrchr};

use super::terminators::Terminators;

/// The byte order mark of UTF-8, which some programs write at the start of a file.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Finds the ends of records in text that arrives in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Framer {
    separator: u8,
    /// The byte that ends a line.
    end: u8,
    is_quoted: bool,
    /// Whether a quote that comes next opens quotes: at the start of a field, or directly after
    /// quotes were closed.
    may_open: bool,
}

impl Framer {
    /// At the beginning of a record, with `separator` between fields.
    pub fn new(separator: u8) -> Self {
        Framer::ending(separator, b'\n')
    }

    /// Like [`Framer::new`], for a file with the line end `end` (see [`line_end`]).
    pub fn ending(separator: u8, end: u8) -> Self {
        Framer {
            separator,
            end,
            is_quoted: false,
            may_open: true,
        }
    }

    /// The separator of fields.
    pub fn separator(&self) -> u8 {
        self.separator
    }

    /// The byte that ends a line.
    pub fn line_end(&self) -> u8 {
        self.end
    }

    /// Number of bytes of `text` that complete the current record; `None` if it continues.
    ///
    /// Quotes inside quotes come in pairs: each quote after the first one of a field closes the
    /// quotes, or reopens them directly after they were closed. A quote inside an unquoted field is
    /// an ordinary byte.
    pub fn end_of_record(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let found = match self.is_quoted {
                true => memchr(b'"', &text[at..]),
                false => memchr2(b'"', self.end, &text[at..]),
            };
            let Some(found) = found else {
                if let Some(last) = text[at..].last() {
                    self.may_open = *last == self.separator;
                }
                return None;
            };
            let place = at + found;
            at = place + 1;
            if text[place] == self.end {
                self.may_open = true;
                return Some(at);
            }
            let opens = match found {
                0 => self.may_open,
                _ => text[place - 1] == self.separator,
            };
            // A closing quote may turn out to be the first of a pair.
            self.may_open = self.is_quoted;
            self.is_quoted = !self.is_quoted && opens;
        }
    }

    /// Whether the text may end here.
    pub fn is_whole(&self) -> bool {
        !self.is_quoted
    }
}

/// How much of a file [`line_end`] needs.
pub const FRONT_BYTES: usize = 64 << 10;

/// The line end of a CSV file with this start: a newline, or a carriage return if a line ends with
/// one and none with a newline.
pub fn line_end(front: &[u8], separator: u8) -> u8 {
    let front = &front[..front.len().min(FRONT_BYTES)];
    let front = front.strip_prefix(BYTE_ORDER_MARK).unwrap_or(front);
    let has_end = |end| {
        Framer::ending(separator, end)
            .end_of_record(front)
            .is_some()
    };
    match !has_end(b'\n') && has_end(b'\r') {
        true => b'\r',
        false => b'\n',
    }
}

/// The start of the first record of `text` that spans several lines. `text` consists of whole lines
/// and begins with a record. Only lines with quotes are examined.
pub fn first_across_lines(text: &[u8], separator: u8) -> Option<usize> {
    let mut at = 0;
    while let Some(quote) = memchr(b'"', &text[at..]) {
        let begin = at + memrchr(b'\n', &text[at..at + quote]).map_or(0, |newline| newline + 1);
        let Some(record_bytes) = Framer::new(separator).end_of_record(&text[begin..]) else {
            return Some(begin);
        };
        at = begin + record_bytes;
        if memchr(b'\n', &text[begin..at - 1]).is_some() {
            return Some(begin);
        }
    }
    None
}

/// The raw fields of a record.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    record: &'a [u8],
    /// Start of the next field; `None` after the last.
    from: Option<usize>,
    /// The remaining separators, including those in quotes.
    separators: Terminators<'a>,
}

/// The fields of a record without its line end.
pub fn fields(record: &[u8], separator: u8) -> Fields<'_> {
    let record = record.strip_suffix(b"\r").unwrap_or(record);
    Fields {
        record,
        from: Some(0),
        separators: Terminators::of(separator, record),
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let from = self.from?;
        let field = &self.record[from..];
        let quoted_end = from + quoted_len(field);
        self.from = None;
        for separator in self.separators.by_ref() {
            if separator >= quoted_end {
                self.from = Some(separator + 1);
                return Some(&self.record[from..separator]);
            }
        }
        Some(field)
    }
}

/// Length of the quoted part at the start of a text; 0 if it does not begin with a quote.
fn quoted_len(text: &[u8]) -> usize {
    if text.first() != Some(&b'"') {
        return 0;
    }
    let mut at = 1;
    while let Some(found) = memchr(b'"', &text[at..]) {
        at += found + 1;
        if text.get(at) != Some(&b'"') {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// Whether a record without its line end has several fields.
pub fn has_columns(record: &[u8], separator: u8) -> bool {
    fields(record, separator).nth(1).is_some()
}

/// Whether a line, or a piece of one, contains only spaces and tabs.
pub fn is_blank(line: &[u8], separator: u8) -> bool {
    let mut bytes = line.iter();
    bytes.all(|byte| *byte != separator && byte.is_ascii_whitespace())
}

/// The value of a field without its quotes; `unquoted` holds it if it is not contiguous. `None` if
/// a quote is not closed.
pub fn value<'a>(field: &'a [u8], unquoted: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let Some(inner) = field.strip_prefix(b"\"") else {
        return Some(field);
    };
    if let Some(plain) = inner.strip_suffix(b"\"")
        && memchr(b'"', plain).is_none()
    {
        return Some(plain);
    }
    unquoted.clear();
    let mut rest = inner;
    loop {
        let quote = memchr(b'"', rest)?;
        unquoted.extend_from_slice(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest.strip_prefix(b"\"") {
            Some(behind) => {
                unquoted.push(b'"');
                rest = behind;
            }
            None => {
                // Text after the closing quote belongs to the field, as in most readers.
                unquoted.extend_from_slice(rest);
                return Some(unquoted);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(record: &str) -> Vec<String> {
        let text = |field: &[u8]| {
            let mut unquoted = Vec::new();
            String::from_utf8(value(field, &mut unquoted).unwrap().to_vec()).unwrap()
        };
        fields(record.as_bytes(), b',').map(text).collect()
    }

    #[test]
    fn quotes_hold_separators_newlines_and_quotes() {
        assert_eq!(
            values("a,\"b,c\",\"d\"\"e\",\"f\ng\"\r"),
            ["a", "b,c", "d\"e", "f\ng"]
        );
        assert_eq!(values(""), [""]);
        assert_eq!(values(",,"), ["", "", ""]);
        assert_eq!(values("\"\",x"), ["", "x"]);
        assert_eq!(values("5\" disk,\"a\"b\",c\""), ["5\" disk", "ab\"", "c\""]);
    }

    #[test]
    fn lines_end_with_a_carriage_return_where_none_ends_with_a_newline() {
        for (front, end) in [
            (&b"a,b\r1,2\r"[..], b'\r'),
            (b"\xef\xbb\xbf\"a\r\nb\",c\r1,2", b'\r'),
            (b"a,b\r\n1,2\r\n", b'\n'),
            (b"\"a\rb\",c\n1,2\n", b'\n'),
            (b"a,b\r1,2\n", b'\n'),
            (b"a,\"b\r", b'\n'),
            (b"a,b", b'\n'),
            (b"", b'\n'),
        ] {
            assert_eq!(line_end(front, b','), end, "{front:?}");
        }
        let mut framer = Framer::ending(b',', b'\r');
        assert_eq!(framer.end_of_record(b"a,\"b\r\n\"\r1"), Some(8));
    }

    /// By definition, byte by byte: the ends of records, and whether the last quote is closed.
    fn ends_by_bytes(text: &[u8]) -> (Vec<usize>, bool) {
        let (mut ends, mut is_begin, mut is_quoted) = (Vec::new(), true, false);
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            at += 1;
            match (is_quoted, byte) {
                (true, b'"') if text.get(at) == Some(&b'"') => at += 1,
                (true, b'"') => is_quoted = false,
                (true, _) => {}
                (false, b'"') => is_quoted = is_begin,
                (false, b'\n') => ends.push(at),
                (false, _) => {}
            }
            is_begin = !is_quoted && matches!(byte, b',' | b'\n');
        }
        (ends, !is_quoted)
    }

    proptest! {
        #[test]
        fn records_end_at_the_same_places_whatever_pieces_they_come_in(text in "[a\",\n]{0,60}", cut in 0_usize..60) {
            let ends = |pieces: &[&[u8]]| {
                let (mut framer, mut ends, mut at) = (Framer::new(b','), Vec::new(), 0);
                for piece in pieces {
                    let mut rest = *piece;
                    while let Some(end) = framer.end_of_record(rest) {
                        at += end;
                        ends.push(at);
                        rest = &rest[end..];
                    }
                    at += rest.len();
                }
                (ends, framer.is_whole())
            };
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            let wanted = ends_by_bytes(text.as_bytes());
            // A quote at the end of a piece may be the first of a pair: only the next piece
            // decides.
            prop_assert_eq!(ends(&[first, second]), wanted.clone());
            prop_assert_eq!(ends(&[text.as_bytes()]), wanted);
        }

        #[test]
        fn the_first_record_across_lines_is_found(text in "[ab\",\n]{0,60}\n") {
            let (ends, is_whole) = ends_by_bytes(text.as_bytes());
            let mut begin = 0;
            let mut wanted = None;
            for end in ends {
                if wanted.is_none() && text[begin..end - 1].contains('\n') {
                    wanted = Some(begin);
                }
                begin = end;
            }
            if wanted.is_none() && !is_whole {
                wanted = Some(begin);
            }
            prop_assert_eq!(first_across_lines(text.as_bytes(), b','), wanted);
        }

        #[test]
        fn fields_are_cut_where_a_reader_byte_by_byte_cuts_them(record in "[a\",]{0,30}") {
            let (mut cut, mut from, mut is_begin, mut is_quoted) = (Vec::new(), 0, true, false);
            let bytes = record.as_bytes();
            let mut at = 0;
            while at < bytes.len() {
                let byte = bytes[at];
                at += 1;
                match (is_quoted, byte) {
                    (true, b'"') if bytes.get(at) == Some(&b'"') => at += 1,
                    (true, b'"') => is_quoted = false,
                    (false, b'"') => is_quoted = is_begin,
                    (false, b',') => {
                        cut.push(&bytes[from..at - 1]);
                        from = at;
                    }
                    _ => {}
                }
                is_begin = !is_quoted && byte == b',';
            }
            cut.push(&bytes[from..]);
            prop_assert_eq!(fields(bytes, b',').collect::<Vec<_>>(), cut);
        }
    }
}
