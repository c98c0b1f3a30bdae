//! CSV: records that may span lines, and a column of them as a key.
//!
//! Contract: RFC 4180, with any separator. A field that begins with a quote goes on to the quote that
//! ends it; two quotes within are one; separators and newlines within belong to the field. Quotes
//! inside other fields are bytes like any other (`5" disk`). Lines end with `\n` or `\r\n`. [`Framer`] finds where records end, whatever pieces the text comes in;
//! [`Columns`] orders records by columns. Records are never changed, only their keys are read without
//! quotes.

use memchr::{memchr, memchr2};
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::{Error, Result};

use super::gnu::{Compare, OptionScope, Ordering};
use super::{FieldOrder, append_whole};

const CHOOSE: &str = "choose column";
/// The byte order mark of UTF-8, which some programs write in front of a file.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Finds the ends of records in text that comes in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Framer {
    separator: u8,
    is_quoted: bool,
    /// Whether a quote that comes next is inside quotes from there on: a field begins, or quotes
    /// ended right before.
    may_open: bool,
}

impl Framer {
    /// At the begin of a record, with `separator` between fields.
    pub fn new(separator: u8) -> Self {
        Framer {
            separator,
            is_quoted: false,
            may_open: true,
        }
    }

    /// How many bytes at the front of `text` finish the record that was begun; none if it goes on.
    ///
    /// Quotes within quotes come in pairs, so that each but the first of a field ends quotes, or
    /// begins them again directly after their end. One that stands inside a field that began
    /// without is a byte like any other.
    pub fn end_of_record(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let found = match self.is_quoted {
                true => memchr(b'"', &text[at..]),
                false => memchr2(b'"', b'\n', &text[at..]),
            };
            let Some(found) = found else {
                if let Some(last) = text[at..].last() {
                    self.may_open = *last == self.separator;
                }
                return None;
            };
            let place = at + found;
            at = place + 1;
            if text[place] == b'\n' {
                self.may_open = true;
                return Some(at);
            }
            let opens = match found {
                0 => self.may_open,
                _ => text[place - 1] == self.separator,
            };
            // A quote that ends quotes may turn out to be the first of a pair.
            self.may_open = self.is_quoted;
            self.is_quoted = !self.is_quoted && opens;
        }
    }

    /// Whether the text may end here.
    pub fn is_whole(&self) -> bool {
        !self.is_quoted
    }
}

/// The fields of a record, as they are written.
struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

/// The fields of a record without its end of line.
fn fields(record: &[u8], separator: u8) -> Fields<'_> {
    let record = record.strip_suffix(b"\r").unwrap_or(record);
    Fields {
        rest: Some(record),
        separator,
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let quoted = quoted_len(rest);
        let Some(found) = memchr(self.separator, &rest[quoted..]) else {
            self.rest = None;
            return Some(rest);
        };
        self.rest = Some(&rest[quoted + found + 1..]);
        Some(&rest[..quoted + found])
    }
}

/// How far the quotes reach with which a text begins; 0 if it begins with none.
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

/// What a field says, without its quotes; `unquoted` holds it where it is not said in one piece.
fn value<'a>(field: &'a [u8], unquoted: &'a mut Vec<u8>) -> std::result::Result<&'a [u8], NoKey> {
    let Some(inner) = field.strip_prefix(b"\"") else {
        return Ok(field);
    };
    let mut rest = inner;
    loop {
        let Some(quote) = memchr(b'"', rest) else {
            return Err(NoKey("a quote does not end".to_string()));
        };
        unquoted.extend_from_slice(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest.strip_prefix(b"\"") {
            Some(behind) => {
                unquoted.push(b'"');
                rest = behind;
            }
            None => {
                // What follows the quotes belongs to the field, as in most readers.
                unquoted.extend_from_slice(rest);
                return Ok(unquoted);
            }
        }
    }
}

/// The columns that a header names; a byte order mark in front belongs to none.
///
/// # Errors
/// Usage for a header with a quote that does not end.
pub fn names(header: &[u8], separator: u8) -> Result<Vec<String>> {
    let header = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
    let header = header.strip_suffix(b"\n").unwrap_or(header);
    let name = |field: &[u8]| {
        let mut unquoted = Vec::new();
        value(field, &mut unquoted)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .map_err(|why| Error::usage("read header", why.0).hint("correct the first line"))
    };
    fields(header, separator).map(name).collect()
}

/// A column to order by, and how.
#[derive(Debug)]
struct Column {
    index: usize,
    compare: Compare,
    order: FieldOrder,
}

/// A column as it was asked for.
#[derive(Debug)]
struct Chosen {
    index: usize,
    ordering: Ordering,
    order: FieldOrder,
}

/// Records in the order of columns; without any, in that of their bytes.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Column>,
    separator: u8,
    is_descending: bool,
    tie: Tie,
}

/// How columns are chosen.
#[derive(Debug, Clone)]
pub struct ColumnOptions<'a> {
    /// `NAME`, or a number from 1. Letters of its own may follow a colon, and `asc`, `desc`,
    /// `nulls-first` or `nulls-last` further colons; an empty field is a null.
    pub by: &'a [String],
    /// The names in the header; none without one.
    pub names: Option<&'a [String]>,
    /// What stands between fields.
    pub separator: u8,
    /// For columns without letters of their own.
    pub global: Ordering,
    /// Ties keep the order of the input.
    pub stable: bool,
    /// For `R`.
    pub seed: u64,
}

impl Columns {
    /// Settles the columns.
    ///
    /// # Errors
    /// Usage for columns that are not there and letters that do not go together.
    pub fn new(options: &ColumnOptions<'_>) -> Result<Self> {
        let mut chosen = Vec::new();
        for by in options.by {
            chosen.push(choose(by, options)?);
        }
        let is_descending = match chosen.first() {
            Some(first) => first.ordering.reverse,
            None => options.global.reverse,
        };
        let count = chosen.len();
        let column = |(at, chosen): (usize, Chosen)| {
            let is_turned = chosen.ordering.reverse != is_descending;
            let is_last = at + 1 == count;
            let compare = Compare::new(&chosen.ordering, is_turned, is_last, options.seed)?;
            Ok(Column {
                index: chosen.index,
                compare,
                order: chosen.order,
            })
        };
        let columns: Result<Vec<Column>> = chosen.into_iter().enumerate().map(column).collect();
        Ok(Columns {
            columns: columns?,
            separator: options.separator,
            is_descending,
            tie: match (options.stable, options.global.reverse) {
                (true, _) => Tie::Position,
                (false, false) => Tie::Bytes,
                (false, true) => Tie::BytesDescending,
            },
        })
    }
}

/// Finds a column and how it compares. The longest name in the header wins, so a name may hold
/// colons.
fn choose(by: &str, options: &ColumnOptions<'_>) -> Result<Chosen> {
    let place = |name: &str| {
        let named = options
            .names
            .and_then(|names| names.iter().position(|known| known == name));
        let number = || {
            name.parse::<usize>()
                .ok()
                .and_then(|number| number.checked_sub(1))
        };
        named.or_else(number)
    };
    let (mut rest, mut order) = (by, FieldOrder::default());
    let (index, mut ordering) = loop {
        if let Some(index) = place(rest) {
            break (index, options.global);
        }
        match rest.rsplit_once(':') {
            Some((front, word)) if order.take(word) => rest = front,
            Some((name, letters)) if place(name).is_some() => {
                break (place(name).unwrap_or(0), own_ordering(name, letters)?);
            }
            _ => {
                let mut colons = rest.match_indices(':');
                return Err(match colons.find(|(at, _)| place(&rest[..*at]).is_some()) {
                    Some((at, _)) => not_an_order(&rest[..at], &rest[at + 1..]),
                    None => missing(rest, options),
                });
            }
        }
    };
    if let Some(is_descending) = order.is_descending {
        ordering.reverse = is_descending;
    }
    Ok(Chosen {
        index,
        ordering,
        order,
    })
}

/// The ordering that the letters of a column name.
fn own_ordering(name: &str, letters: &str) -> Result<Ordering> {
    let mut ordering = Ordering::default();
    if letters
        .bytes()
        .all(|letter| ordering.set(letter, OptionScope::Both))
    {
        return Ok(ordering);
    }
    Err(not_an_order(name, letters))
}

fn not_an_order(name: &str, letters: &str) -> Error {
    let cause = format!("`{letters}` is not an order of `{name}`");
    Error::usage(CHOOSE, cause).hint(
        "after the colon write letters of sort (bdfghiMnrRV), or asc, desc, nulls-first or nulls-last",
    )
}

fn missing(by: &str, options: &ColumnOptions<'_>) -> Error {
    let hint = match options.names {
        Some(names) if names.iter().all(String::is_empty) => "its header is empty".to_string(),
        Some([only]) if let Some(separator) = likely_separator(only, options.separator) => {
            format!(
                "the header is one field, {only}; to split it, add -t '{}'",
                separator.escape_default()
            )
        }
        Some(names) => format!("the header has {}", names.join(", ")),
        None => "without a header columns have numbers, from 1".to_string(),
    };
    Error::usage(CHOOSE, format!("there is no column `{by}`")).hint(hint)
}

/// What seems to stand between the names of a header that is taken for one name.
fn likely_separator(header: &str, separator: u8) -> Option<char> {
    let all = [';', '\t', '|', ','].into_iter();
    all.filter(|other| *other as u32 != u32::from(separator))
        .find(|other| header.contains(*other))
}

impl SortKey for Columns {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        append_whole(key, |key| self.append_all(line, key))
    }

    fn is_item(&self) -> bool {
        self.columns.is_empty()
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

impl Columns {
    fn append_all(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        if self.columns.is_empty() {
            key.extend_from_slice(line);
        }
        for column in &self.columns {
            let Some(field) = fields(line, self.separator).nth(column.index) else {
                return Err(NoKey(format!("there is no column {}", column.index + 1)));
            };
            let mut unquoted = Vec::new();
            let value = value(field, &mut unquoted)?;
            column
                .order
                .append_null(value.is_empty(), self.is_descending, key);
            column.compare.append(value, key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::key::sort_key::compare_items;
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
    fn a_byte_order_mark_is_no_part_of_a_name() {
        for header in [&b"\xef\xbb\xbfid,name\n"[..], b"\xef\xbb\xbf\"id\",name"] {
            assert_eq!(names(header, b',').unwrap(), ["id", "name"]);
        }
    }

    #[test]
    fn columns_that_are_not_there_are_told_with_those_that_are() {
        let names = names(b"id,\"full name\",price\r\n", b',').unwrap();
        let settle = |by: &str| {
            let by = [by.to_string()];
            let options = ColumnOptions {
                by: &by,
                names: Some(&names),
                separator: b',',
                global: Ordering::default(),
                stable: false,
                seed: 1,
            };
            Columns::new(&options).map(|_| ())
        };
        for by in [
            "id",
            "full name",
            "price:nr",
            "3",
            "2:f",
            "id:n:desc",
            "3:desc:nulls-first",
        ] {
            settle(by).unwrap();
        }
        let error = settle("cost").unwrap_err();
        assert!(error.next_step().unwrap().contains("id, full name, price"));
        for by in ["price:x", "price:n:down"] {
            let hint = settle(by).unwrap_err();
            assert!(hint.next_step().unwrap().contains("nulls-first"), "{by}");
        }
    }

    #[test]
    fn a_header_with_another_separator_is_told_with_the_option_that_splits_it() {
        for (header, wanted) in [("a;b", "-t ';'"), ("a\tb", "-t '\\t'"), ("a|b", "-t '|'")] {
            let options = ColumnOptions {
                by: &["b".to_string()],
                names: Some(&[header.to_string()]),
                separator: b',',
                global: Ordering::default(),
                stable: false,
                seed: 1,
            };
            let error = Columns::new(&options).unwrap_err();
            assert!(error.next_step().unwrap().contains(wanted), "{error}");
        }
    }

    /// The records in order by `by`, of two columns; `global` are letters for all.
    fn sorted(by: &[&str], global: &str, records: &[&str]) -> Vec<String> {
        let by: Vec<String> = by.iter().map(ToString::to_string).collect();
        let mut letters = Ordering::default();
        assert!(
            global
                .bytes()
                .all(|letter| letters.set(letter, OptionScope::Both))
        );
        let order = Columns::new(&ColumnOptions {
            by: &by,
            names: Some(&["a".to_string(), "b".to_string()]),
            separator: b',',
            global: letters,
            stable: true,
            seed: 1,
        })
        .unwrap();
        let mut records: Vec<String> = records.iter().map(ToString::to_string).collect();
        records.sort_by(|x, y| compare_items(&order, x.as_bytes(), y.as_bytes()).unwrap());
        records
    }

    #[test]
    fn directions_and_empty_fields_go_where_the_words_say() {
        let records = ["10,x", ",y", "9,x", "9,"];
        let table: [(&[&str], &str, [&str; 4]); 8] = [
            (&["a:desc"], "n", ["10,x", "9,x", "9,", ",y"]),
            (&["a:n:desc"], "", ["10,x", "9,x", "9,", ",y"]),
            (&["a:nr"], "", ["10,x", "9,x", "9,", ",y"]),
            (&["a:desc"], "", ["9,x", "9,", "10,x", ",y"]),
            (&["a:n:nulls-last"], "", ["9,x", "9,", "10,x", ",y"]),
            (&["a:nulls-first:desc"], "n", [",y", "10,x", "9,x", "9,"]),
            (
                &["a:n:asc:nulls-last", "b:nulls-first"],
                "r",
                ["9,", "9,x", "10,x", ",y"],
            ),
            (
                &["a:n:desc", "b:nulls-last:asc"],
                "",
                ["10,x", "9,x", "9,", ",y"],
            ),
        ];
        for (by, global, wanted) in table {
            assert_eq!(sorted(by, global, &records), wanted, "{by:?} {global}");
        }
    }

    /// By definition, byte by byte: where records end, and whether the last quote has ended.
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
            // Quotes that end with a piece may be the first of a pair: only the next piece tells.
            prop_assert_eq!(ends(&[first, second]), wanted.clone());
            prop_assert_eq!(ends(&[text.as_bytes()]), wanted);
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
