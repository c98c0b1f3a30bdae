//! Edges between names: lines of text and CSV with string ids.
//!
//! Contract: [`named_files`] decides whether files are read this way, and [`Syntax::named`] reads a
//! line. A name is UTF-8, has from one to [`NAME_BYTES_MAX`] bytes, and no zero byte. Names in text
//! are separated by blanks and tabs (in `.tsv`, only by tabs, so that they may contain blanks). In
//! CSV they may be quoted, with inner quotes doubled. Empty lines are skipped; so are comments of
//! text, which begin with `#` or `%` and are counted. An invalid edge is reported with the reason.
//!
//! Bounds: a head of 64 KiB of each file decides whether its ids are names.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use outcore::{Error, Job, Result};

use super::fields::{Fault, apart};
use super::formats::{EdgeFormat, format_of, header_of};
use super::syntax::{Fields, Syntax, attribute, weight_of};
use super::{READ, ReadOptions, Relabel};

/// Bytes of the longest name.
pub(crate) const NAME_BYTES_MAX: usize = 4096;
/// Bytes of a file that decide what its ids are.
const HEAD_BYTES: usize = 64 << 10;

/// An edge between names.
#[derive(Debug, PartialEq)]
pub(crate) struct NamedEdge<'l> {
    pub(crate) source: Cow<'l, [u8]>,
    pub(crate) target: Cow<'l, [u8]>,
    /// The bits of its weight.
    pub(crate) weight: u64,
}

/// A file of edges between names.
#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) path: PathBuf,
    /// Bytes before the first line of edges.
    pub(crate) header_bytes: u64,
    pub(crate) syntax: Syntax,
    /// Comments before the first line of edges.
    pub(crate) skipped: u64,
}

/// Returns the files as edges between names if the options require it, or if a line in the head of
/// a file has an id that is not an integer.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a format without names; errors of reading.
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
        let syntax = match (format, options.name_of(path).extension()) {
            (EdgeFormat::Text, Some(end)) if end == "tsv" => Syntax {
                line_end: header.syntax.line_end,
                ..Syntax::tabs(options.is_weighted)
            },
            _ => header.syntax,
        };
        are_names |= has_names(job, path, header.bytes, syntax)?;
        named.push(NamedFile {
            path: path.clone(),
            header_bytes: header.bytes,
            syntax,
            skipped: header.skipped,
        });
    }
    Ok(are_names.then_some(named))
}

/// Whether a complete line in the head of a file has an id that is not an integer.
fn has_names(job: &Job, path: &Path, header_bytes: u64, syntax: Syntax) -> Result<bool> {
    let mut head = vec![0; HEAD_BYTES];
    let found = job.device.read_head(path, &mut head)?;
    head.truncate(found);
    if found == HEAD_BYTES {
        let end = memchr::memrchr(syntax.line_end, &head);
        head.truncate(end.unwrap_or(0));
    }
    let lines = head.get(header_bytes as usize..).unwrap_or_default();
    // A negative number is an invalid id and reported as such; it does not make all ids names.
    let is_number = |name: &[u8]| match name.strip_prefix(b"-") {
        Some(digits) if !digits.is_empty() => digits.iter().all(u8::is_ascii_digit),
        _ => name.iter().all(u8::is_ascii_digit),
    };
    // Numbers separated by commas are also read.
    let has_names = |edge: NamedEdge<'_>| {
        let ids = [edge.source, edge.target];
        !ids.iter()
            .all(|name| name.split(|byte| *byte == b',').all(is_number))
    };
    let unweighted = Syntax {
        weight: None,
        ..syntax
    };
    let mut edges = lines.split(|byte| *byte == syntax.line_end);
    // A line that is invalid both as numbers and as names counts as names if it has letters.
    let is_meant = |line: &[u8]| match unweighted.named(line) {
        Ok(edge) => edge.is_some_and(has_names),
        Err(_) => line.iter().any(u8::is_ascii_alphabetic),
    };
    Ok(edges.any(is_meant))
}

impl Syntax {
    /// Returns the edge of a line without its line end; `None` for comments and empty lines.
    pub(crate) fn named<'l>(
        &self,
        line: &'l [u8],
    ) -> std::result::Result<Option<NamedEdge<'l>>, Fault> {
        let fields = match self.delimiter {
            Some(delimiter) => self.csv_fields(line, delimiter)?,
            None => self.fields_apart(line)?,
        };
        let Some(Fields {
            source,
            target,
            weight,
        }) = fields
        else {
            return Ok(None);
        };
        let weight = match self.weight {
            None => 0,
            Some(_) => weight_of(&weight, self.weight_type)?,
        };
        check(&source)?;
        check(&target)?;
        Ok(Some(NamedEdge {
            source,
            target,
            weight,
        }))
    }

    /// Splits a line of text at blanks and tabs only.
    fn fields_apart<'l>(&self, line: &'l [u8]) -> std::result::Result<Option<Fields<'l>>, Fault> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if matches!(line.trim_ascii_start().first(), None | Some(b'#' | b'%')) {
            return Ok(None);
        }
        let mut rest = Some(line);
        let (Some(source), Some(target)) = (apart(&mut rest), apart(&mut rest)) else {
            return Err(Fault("it has fewer than two ids".to_owned()));
        };
        let weight = match self.weight.and_then(|_| apart(&mut rest)) {
            // networkx's attributes: everything after the names.
            Some(field) if field.starts_with(b"{") => attribute(line),
            field => field.unwrap_or_default(),
        };
        Ok(Some(Fields {
            source: Cow::Borrowed(source),
            target: Cow::Borrowed(target),
            weight: Cow::Borrowed(weight),
        }))
    }
}

/// Fails for a text that cannot be a name.
pub(super) fn check(name: &[u8]) -> std::result::Result<(), Fault> {
    let shown = || String::from_utf8_lossy(&name[..name.len().min(40)]).into_owned();
    let fault = match name {
        [] => "an id is empty".to_owned(),
        _ if name.len() > NAME_BYTES_MAX => format!(
            "the id `{}...` has {} bytes; at most {NAME_BYTES_MAX} are possible",
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
    ) -> std::result::Result<Option<(String, String, f64)>, String> {
        let found = syntax.named(line.as_bytes()).map_err(|fault| fault.0)?;
        let text = |name: Cow<'_, [u8]>| String::from_utf8(name.into_owned()).unwrap();
        let weight = |bits| match syntax.weight {
            None => 1.0,
            Some(_) => syntax.weight_type.value(bits),
        };
        Ok(found.map(|edge| (text(edge.source), text(edge.target), weight(edge.weight))))
    }

    fn is(
        source: &str,
        target: &str,
        weight: f64,
    ) -> std::result::Result<Option<(String, String, f64)>, String> {
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
        let tabs = Syntax::tabs(false);
        assert_eq!(edge(tabs, "# a\tb"), Ok(None));
        assert_eq!(
            edge(tabs, "New York\t\"LA\""),
            is("New York", "\"LA\"", 1.0)
        );
        let csv = Syntax::delimited(b',', Some(2));
        assert_eq!(edge(csv, "\"a,\"\"b\"\"\" , c,3"), is("a,\"b\"", "c", 3.0));
        assert_eq!(edge(csv, "%a,b,1"), is("%a", "b", 1.0));
        assert_eq!(edge(csv, "#a,b,1"), is("#a", "b", 1.0));
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
        assert!(
            edge(csv, &long)
                .unwrap_err()
                .contains("4097 bytes; at most 4096")
        );
        let broken = plain.named(b"a\xFF b").map_err(|fault| fault.0);
        assert_eq!(broken, Err("the id `a\u{FFFD}` is not UTF-8".into()));
    }
}
