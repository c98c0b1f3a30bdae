//! Edges between names: lines of text and CSV whose ids are any strings.
//!
//! Contract: [`named_files`] says whether files are to be read so, and [`Syntax::named`] reads a line. A name is UTF-8, has a
//! byte at least and [`NAME_BYTES_MAX`] at most, and no zero byte. Names in text are apart by blanks and tabs (in `.tsv`, by
//! tabs alone, so that they may have blanks inside); in CSV they may stand in quotes, with quotes inside doubled. Empty
//! lines, and those that begin with `#` (in text with `%`, too), are not edges. What is not an edge says why.
//!
//! Bounds: a head of 64 KiB of each file tells whether its ids are names.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use outcore::{Error, Job, Result};

use super::formats::{EdgeFormat, format_of, header_of};
use super::text::{Fault, Syntax, attribute, weight_of};
use super::{READ, ReadOptions, Relabel};

/// Bytes of the longest name.
pub(crate) const NAME_BYTES_MAX: usize = 4096;
/// What is read of a file to tell what its ids are.
const HEAD_BYTES: usize = 64 << 10;

/// An edge between names.
#[derive(Debug, PartialEq)]
pub(crate) struct NamedEdge<'l> {
    pub(crate) source: Cow<'l, [u8]>,
    pub(crate) target: Cow<'l, [u8]>,
    pub(crate) weight: f32,
}

/// A file of edges between names.
#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) path: PathBuf,
    /// Bytes before the first line of edges.
    pub(crate) header_bytes: u64,
    pub(crate) syntax: Syntax,
}

/// The files as edges between names, if that is what they are: because they are said to be, or because a line in
/// the head of one of them has an id that is not a whole number.
///
/// # Errors
/// [`outcore::Kind::Usage`] where a format has no names; what reading fails with.
pub(crate) fn named_files(
    job: &Job,
    files: &[PathBuf],
    options: &ReadOptions,
    relabel: Relabel,
) -> Result<Option<Vec<NamedFile>>> {
    let format = format_of(files, options)?;
    let is_text = matches!(format, EdgeFormat::Text | EdgeFormat::Csv);
    match (relabel, is_text) {
        (Relabel::No | Relabel::Numbers, _) | (Relabel::Auto, false) => return Ok(None),
        (Relabel::Text, false) => {
            let cause = "files of this format have numbers, not names";
            return Err(Error::usage(READ, cause)
                .path(&files[0])
                .hint("use --relabel, or convert text or CSV"));
        }
        (Relabel::Text, true) | (Relabel::Auto, true) => {}
    }
    let mut named = Vec::new();
    let mut are_names = relabel == Relabel::Text;
    for path in files {
        let header = header_of(job, path, format, options)?;
        let syntax = match (format, path.extension()) {
            (EdgeFormat::Text, Some(end)) if end == "tsv" => {
                Syntax::delimited(b'\t', options.is_weighted.then_some(2))
            }
            _ => header.syntax,
        };
        are_names |= has_names(job, path, (header.bytes, syntax))?;
        named.push(NamedFile {
            path: path.clone(),
            header_bytes: header.bytes,
            syntax,
        });
    }
    Ok(are_names.then_some(named))
}

/// Whether a whole line in the head of a file has an id that is not a whole number.
fn has_names(job: &Job, path: &Path, (header_bytes, syntax): (u64, Syntax)) -> Result<bool> {
    let mut head = vec![0; HEAD_BYTES];
    let found = job.device.read_head(path, &mut head)?;
    head.truncate(found);
    if found == HEAD_BYTES {
        let end = memchr::memrchr(b'\n', &head);
        head.truncate(end.unwrap_or(0));
    }
    let lines = head.get(header_bytes as usize..).unwrap_or_default();
    // One below 0 is no id, and is told so: it does not make names of all others.
    let is_number = |name: &[u8]| match name.strip_prefix(b"-") {
        Some(digits) if !digits.is_empty() => digits.iter().all(u8::is_ascii_digit),
        _ => name.iter().all(u8::is_ascii_digit),
    };
    // Numbers apart by commas are read, too.
    let has_names = |edge: NamedEdge<'_>| {
        let ids = [edge.source, edge.target];
        !ids.iter()
            .all(|name| name.split(|byte| *byte == b',').all(is_number))
    };
    let unweighted = Syntax {
        weight: None,
        ..syntax
    };
    let mut edges = lines.split(|byte| *byte == b'\n');
    // What is no edge of either kind is told as one between names if it has letters.
    let is_meant = |line: &[u8]| match unweighted.named(line) {
        Ok(edge) => edge.is_some_and(has_names),
        Err(_) => line.iter().any(u8::is_ascii_alphabetic),
    };
    Ok(edges.any(is_meant))
}

impl Syntax {
    /// The edge of a line without its end; nothing for comments and empty lines.
    pub(crate) fn named<'l>(
        &self,
        line: &'l [u8],
    ) -> std::result::Result<Option<NamedEdge<'l>>, Fault> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let first = line.trim_ascii_start().first();
        match (first, self.delimiter) {
            (None | Some(b'#'), _) | (Some(b'%'), None) => return Ok(None),
            _ => {}
        }
        let mut rest = Some(line);
        let mut next = || match self.delimiter {
            Some(delimiter) => delimited(&mut rest, delimiter),
            None => Ok(apart(&mut rest)),
        };
        let (Some(source), Some(target)) = (next()?, next()?) else {
            return Err(Fault("it has fewer than two ids".to_owned()));
        };
        let weight = match self.weight {
            None => 1.0,
            Some(number) => {
                let mut field = None;
                for _ in 2..=number {
                    field = next()?;
                }
                match field {
                    // What networkx writes: all of it follows the names.
                    Some(field) if self.delimiter.is_none() && field.starts_with(b"{") => {
                        weight_of(attribute(line))?
                    }
                    field => weight_of(&field.unwrap_or_default())?,
                }
            }
        };
        check(&source)?;
        check(&target)?;
        Ok(Some(NamedEdge {
            source,
            target,
            weight,
        }))
    }
}

/// The next field of those apart by blanks and tabs.
fn apart<'l>(rest: &mut Option<&'l [u8]>) -> Option<Cow<'l, [u8]>> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = (*rest)?;
    let from = line.iter().position(|byte| !is_blank(byte))?;
    let line = &line[from..];
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    *rest = Some(&line[end..]);
    Some(Cow::Borrowed(&line[..end]))
}

/// The next of the fields that `delimiter` ends, without the blanks around it and the quotes.
fn delimited<'l>(
    rest: &mut Option<&'l [u8]>,
    delimiter: u8,
) -> std::result::Result<Option<Cow<'l, [u8]>>, Fault> {
    let Some(line) = *rest else {
        return Ok(None);
    };
    let is_blank = |byte: &u8| *byte == b' ';
    let from = line.iter().position(|byte| !is_blank(byte));
    let from = from.unwrap_or(line.len());
    if delimiter == b'\t' || line.get(from) != Some(&b'"') {
        let end = memchr::memchr(delimiter, line);
        *rest = end.map(|end| &line[end + 1..]);
        let field = &line[..end.unwrap_or(line.len())];
        return Ok(Some(Cow::Borrowed(field.trim_ascii())));
    }
    let quoted = &line[from + 1..];
    let (mut at, mut has_quotes) = (0, false);
    let end = loop {
        match memchr::memchr(b'"', &quoted[at..]) {
            None => return Err(Fault("a quote is not closed on its line".to_owned())),
            Some(found) if quoted.get(at + found + 1) == Some(&b'"') => {
                has_quotes = true;
                at += found + 2;
            }
            Some(found) => break at + found,
        }
    };
    let behind = quoted[end + 1..].trim_ascii_start();
    *rest = match behind.split_first() {
        None => None,
        Some((first, behind)) if *first == delimiter => Some(behind),
        Some(_) => return Err(Fault("text follows a closing quote".to_owned())),
    };
    let field = &quoted[..end];
    Ok(Some(match has_quotes {
        false => Cow::Borrowed(field),
        true => {
            let mut plain = Vec::with_capacity(field.len());
            let mut quotes = 0;
            for byte in field {
                quotes += usize::from(*byte == b'"');
                if *byte != b'"' || quotes % 2 == 1 {
                    plain.push(*byte);
                }
            }
            Cow::Owned(plain)
        }
    }))
}

/// Fails for what cannot be a name.
pub(super) fn check(name: &[u8]) -> std::result::Result<(), Fault> {
    let shown = || String::from_utf8_lossy(&name[..name.len().min(40)]).into_owned();
    let fault = match name {
        [] => "an id is empty".to_owned(),
        _ if name.len() > NAME_BYTES_MAX => format!(
            "the id `{}...` has {} bytes, {NAME_BYTES_MAX} are the most",
            shown(),
            name.len()
        ),
        _ if memchr::memchr(0, name).is_some() => {
            format!("the id `{}` has a zero byte", shown().replace('\0', "\\0"))
        }
        _ if std::str::from_utf8(name).is_err() => format!("the id `{}` is not UTF-8", shown()),
        _ => return Ok(()),
    };
    Err(Fault(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(
        syntax: Syntax,
        line: &str,
    ) -> std::result::Result<Option<(String, String, f32)>, String> {
        let found = syntax.named(line.as_bytes()).map_err(|fault| fault.0)?;
        let text = |name: Cow<'_, [u8]>| String::from_utf8(name.into_owned()).unwrap();
        Ok(found.map(|edge| (text(edge.source), text(edge.target), edge.weight)))
    }

    fn is(
        source: &str,
        target: &str,
        weight: f32,
    ) -> std::result::Result<Option<(String, String, f32)>, String> {
        Ok(Some((source.to_owned(), target.to_owned(), weight)))
    }

    #[test]
    fn names_are_what_stands_between_blanks_tabs_or_commas() {
        let plain = Syntax::blanks(false);
        assert_eq!(edge(plain, "alice  bob\r"), is("alice", "bob", 1.0));
        assert_eq!(edge(plain, "\tSmith,J\t//x {}"), is("Smith,J", "//x", 1.0));
        assert_eq!(edge(plain, "  # alice bob"), Ok(None));
        assert_eq!(edge(plain, "% alice bob"), Ok(None));
        assert_eq!(edge(plain, ""), Ok(None));
        assert_eq!(
            edge(plain, "alice "),
            Err("it has fewer than two ids".into())
        );
        let weighted = Syntax::blanks(true);
        assert_eq!(edge(weighted, "a b 0.5"), is("a", "b", 0.5));
        let networkx = "a b {'color': 'red', 'weight': 2.5}";
        assert_eq!(edge(weighted, networkx), is("a", "b", 2.5));
        assert_eq!(edge(weighted, "a b {}"), Err("it has no weight".into()));
        assert_eq!(edge(weighted, "a b"), Err("it has no weight".into()));
        let tabs = Syntax::delimited(b'\t', None);
        assert_eq!(
            edge(tabs, "New York\t\"LA\""),
            is("New York", "\"LA\"", 1.0)
        );
        let csv = Syntax::delimited(b',', Some(2));
        assert_eq!(edge(csv, "\"a,\"\"b\"\"\" , c,3"), is("a,\"b\"", "c", 3.0));
        assert_eq!(edge(csv, "%a,b,1"), is("%a", "b", 1.0));
        assert_eq!(edge(csv, ",b,1"), Err("an id is empty".into()));
        assert_eq!(edge(csv, "a,\"\",1"), Err("an id is empty".into()));
        assert_eq!(
            edge(csv, "\"a,b,1"),
            Err("a quote is not closed on its line".into())
        );
        assert_eq!(
            edge(csv, "\"a\"x,b,1"),
            Err("text follows a closing quote".into())
        );
        assert_eq!(
            edge(csv, "a\0,b,1"),
            Err("the id `a\\0` has a zero byte".into())
        );
        let long = format!("{},b,1", "x".repeat(NAME_BYTES_MAX + 1));
        assert!(edge(csv, &long).unwrap_err().contains("4097 bytes, 4096"));
        let broken = plain.named(b"a\xFF b").map_err(|fault| fault.0);
        assert_eq!(broken, Err("the id `a\u{FFFD}` is not UTF-8".into()));
    }
}
