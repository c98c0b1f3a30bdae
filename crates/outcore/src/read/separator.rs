//! Infers the separator of CSV fields from a sample of the records.
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
    // Among equal numbers of fields, the first one.
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
    let line_end = line_end(head, separator);
    let (mut rest, mut count) = (head, None);
    for _ in 0..RECORDS_MAX {
        let end = Framer::ending(separator, line_end).end_of_record(rest);
        let record = match end {
            Some(end) => &rest[..end - 1],
            None if is_all || count.is_none() => rest,
            None => break,
        };
        rest = &rest[end.unwrap_or(rest.len())..];
        let is_blank = record.iter().all(u8::is_ascii_whitespace);
        if !is_blank {
            let found = fields(record, separator).count();
            if found < 2 || count.is_some_and(|known| known != found) {
                return None;
            }
            count = Some(found);
        }
        if rest.is_empty() {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_separator_is_chosen_only_where_all_records_agree_on_it() {
        let table: [(&[u8], u8, u8); 12] = [
            (b"id;price\n1;2,5\n2;3,5\n", b',', b';'),
            (b"id;price (EUR, net);n\n1;2,5;3\n2;7;4\n", b',', b';'),
            (b"\xef\xbb\xbfa\tb\r\n1\t2\r\n", b',', b'\t'),
            (b"a|b|c\n1|2|3\n", b',', b'|'),
            (b"a,b\n1,2\n", b'\t', b','),
            // The usual one stays if it is in use.
            (b"a,b;c\n1,2;3\n", b',', b','),
            (b"a,b\n1;2,2;3\n", b',', b','),
            // One column, whatever its text contains.
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
