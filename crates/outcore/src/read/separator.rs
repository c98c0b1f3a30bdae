//! Infers the separator of CSV fields, and whether there is a header, from a sample of the records.
//!
//! Contract: [`likely_separator`] keeps the usual separator if the header contains it and all
//! records agree. It selects another one only if every record of the sample has as many fields as
//! the header. Pure.

use std::path::Path;

use super::csv::{BYTE_ORDER_MARK, Framer, fields, line_end};

/// Possible separators, the most usual first.
pub const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Number of sampled records.
const RECORDS_MAX: usize = 200;

/// The separator of CSV that begins with `head`: `usual`, unless all records of the sample agree on
/// another one. `is_all` means that `head` is the whole text; otherwise its last record may be
/// truncated.
pub fn likely_separator(head: &[u8], usual: u8, is_all: bool) -> u8 {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    if fields_of_all(head, usual, is_all).is_some() {
        return usual;
    }
    let others = SEPARATORS.into_iter().filter(|other| *other != usual);
    let counted = others.filter_map(|other| Some((fields_of_all(head, other, is_all)?, other)));
    // Among separators with equal numbers of fields, the first one wins.
    let best = counted.fold(None, |best: Option<(usize, u8)>, found| match best {
        Some(best) if best.0 >= found.0 => Some(best),
        _ => Some(found),
    });
    best.map_or(usual, |(_, other)| other)
}

/// The note about an unusual separator.
pub fn separator_note(name: &Path, separator: u8) -> String {
    format!(
        "{}: a sample of the records has `{}` between fields; -t names another separator",
        name.display(),
        separator.escape_ascii()
    )
}

/// The number of fields per record, if all records of the sample have the same number, at least
/// two.
fn fields_of_all(head: &[u8], separator: u8, is_all: bool) -> Option<usize> {
    let mut count = None;
    for record in records_of(head, separator, is_all) {
        let found = fields(record, separator).count();
        if found < 2 || count.is_some_and(|known| known != found) {
            return None;
        }
        count = Some(found);
    }
    count
}

/// The records of the sample, except for blank lines, without their ends. A truncated last record
/// is left out unless it is the only one.
fn records_of(head: &[u8], separator: u8, is_all: bool) -> impl Iterator<Item = &[u8]> {
    let line_end = line_end(head, separator);
    let (mut rest, mut is_first) = (head, true);
    let record = move || {
        let end = Framer::ending(separator, line_end).end_of_record(rest);
        let record = match end {
            Some(end) => &rest[..end - 1],
            None if !rest.is_empty() && (is_all || is_first) => rest,
            None => return None,
        };
        rest = &rest[end.unwrap_or(rest.len())..];
        is_first = false;
        Some(record)
    };
    let records = std::iter::from_fn(record).take(RECORDS_MAX);
    records.filter(|record| !record.iter().all(u8::is_ascii_whitespace))
}

/// Whether `head` is likely CSV whose first record names the columns: different names, none of them
/// a number, above at least one column of numbers. `is_all` means that `head` is the whole text.
pub fn is_headed(head: &[u8], is_all: bool) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let separator = likely_separator(head, SEPARATORS[0], is_all);
    if fields_of_all(head, separator, is_all).is_none() {
        return false;
    }
    let mut records = records_of(head, separator, is_all);
    let Some(first) = records.next() else {
        return false;
    };
    let mut names: Vec<&[u8]> = fields(first, separator).collect();
    let are_names = |name: &&[u8]| !name.is_empty() && number(name).is_none();
    if !names.iter().all(are_names) {
        return false;
    }
    let (mut is_number, mut count) = (vec![true; names.len()], 0);
    for record in records {
        count += 1;
        for (is_number, field) in is_number.iter_mut().zip(fields(record, separator)) {
            *is_number &= number(field).is_some();
        }
    }
    let names_count = names.len();
    names.sort_unstable();
    names.dedup();
    count > 0 && names.len() == names_count && is_number.contains(&true)
}

/// The note about a given separator that finds one column in a sample, if another separator finds
/// several.
pub fn given_separator_note(name: &Path, given: u8, sample: &Beginning<'_>) -> Option<String> {
    let Beginning { head, is_all } = *sample;
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let is_split = records_of(head, given, is_all).any(|record| fields(record, given).count() > 1);
    let found = likely_separator(head, given, is_all);
    if is_split || found == given {
        return None;
    }
    let count = fields_of_all(head, found, is_all)?;
    Some(format!(
        "`{}` makes one column of {}, which has {count} columns between `{}`",
        given.escape_ascii(),
        name.display(),
        found.escape_ascii()
    ))
}

/// The beginning of a text.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// The bytes of the beginning.
    pub head: &'a [u8],
    /// Whether these bytes are the whole text.
    pub is_all: bool,
}

/// The value of `field`, if it is a number.
pub fn number(field: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(field).ok()?.trim();
    let is_number = text.ends_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_names_above_a_column_of_numbers() {
        for (head, is_header) in [
            ("id,n\na,10\nb,9\n", true),
            ("id;n\na;10\n", true),
            ("id,n\na,b\n", false),
            ("1,2\n3,4\n", false),
            ("id,id\n3,4\n", false),
            ("id,n\n", false),
            ("id,n\n1,2\n3\n", false),
            ("plain text\n1\n", false),
            ("", false),
        ] {
            assert_eq!(is_headed(head.as_bytes(), true), is_header, "{head}");
        }
    }

    #[test]
    fn a_separator_that_no_record_has_is_told_if_another_one_fits() {
        let told = |text: &str, given| {
            let sample = Beginning {
                head: text.as_bytes(),
                is_all: true,
            };
            given_separator_note(Path::new("x.csv"), given, &sample)
        };
        let note = "`;` makes one column of x.csv, which has 2 columns between `,`";
        assert_eq!(told("a,b\n1,2\n", b';').as_deref(), Some(note));
        assert_eq!(told("a,b;c\n1,2\n", b';'), None);
        assert_eq!(told("a\n1\n", b';'), None);
        assert_eq!(told("a;b\n1;2\n", b';'), None);
    }

    #[test]
    fn another_separator_is_chosen_only_where_all_records_agree_on_it() {
        let table: [(&[u8], u8, u8); 12] = [
            (b"id;price\n1;2,5\n2;3,5\n", b',', b';'),
            (b"id;price (EUR, net);n\n1;2,5;3\n2;7;4\n", b',', b';'),
            (b"\xef\xbb\xbfa\tb\r\n1\t2\r\n", b',', b'\t'),
            (b"a|b|c\n1|2|3\n", b',', b'|'),
            (b"a,b\n1,2\n", b'\t', b','),
            // The usual separator stays if the text contains it.
            (b"a,b;c\n1,2;3\n", b',', b','),
            (b"a,b\n1;2,2;3\n", b',', b','),
            // The text is one column, whatever it contains.
            (b"notes\nhello; world\nwell; well\n", b',', b','),
            (b"\"a;b\"\n\"c;d\"\n", b',', b','),
            // Records that differ prove nothing.
            (b"a;b\n1;2\n3\n", b',', b','),
            // Blank lines and a truncated record do not count.
            (b"a;b\n\n1;2\n3", b',', b';'),
            (b"", b',', b','),
        ];
        for (head, usual, wanted) in table {
            let found = likely_separator(head, usual, false);
            assert_eq!(found, wanted, "{}", String::from_utf8_lossy(head));
        }
        assert_eq!(likely_separator(b"a;b", b',', true), b';');
        assert_eq!(likely_separator(b"a;b\n1", b',', true), b',');
    }

    #[test]
    fn separators_in_quotes_do_not_count() {
        let head = b"a;b\n\"1,2\";\"x\n,y\"\n3;4\n";
        assert_eq!(likely_separator(head, b',', true), b';');
        assert_eq!(likely_separator(b"a,b\n\"1;2\",3\n", b',', true), b',');
    }
}
