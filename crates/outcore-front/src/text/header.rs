//! Lines before the records of a file: comments and a header.
//!
//! Contract: a [`HeaderRule`] defines which lines at the front of a file are not records: first all
//! lines that begin with one of its comment marks, then a number of further lines. Two files have
//! the same header lines if these differ at most in their line ends. Pure.

use std::path::Path;

use outcore::Error;

use super::csv::BYTE_ORDER_MARK;

const READ: &str = "read header lines";

/// Defines the lines at the front of each file that are not records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderRule {
    /// Texts that mark comments.
    pub comments: Vec<Vec<u8>>,
    /// Number of lines after the comments.
    pub lines: u64,
}

impl HeaderRule {
    /// Whether every line is a record.
    pub fn is_empty(&self) -> bool {
        self.comments.is_empty() && self.lines == 0
    }

    /// Number of bytes of a line that decide whether it is a comment.
    pub(super) fn comment_bytes_max(&self) -> usize {
        let longest = self.comments.iter().map(Vec::len).max();
        longest.map_or(0, |bytes| bytes + BYTE_ORDER_MARK.len())
    }

    /// Whether a line with this beginning is a comment.
    pub(super) fn is_comment(&self, line: &[u8]) -> bool {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        self.comments.iter().any(|mark| line.starts_with(mark))
    }
}

/// Whether two headers, whose lines end with `end`, are the same.
pub(super) fn is_same(a: &[u8], b: &[u8], end: u8) -> bool {
    lines_of(a, end).eq(lines_of(b, end))
}

/// The lines of a header, without their ends.
fn lines_of(header: &[u8], end: u8) -> impl Iterator<Item = &[u8]> {
    let lines = header.split_inclusive(move |byte| *byte == end);
    lines.map(move |line| {
        let line = line.strip_suffix(&[end]).unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}

/// The error for a file whose header lines differ from those of the first one.
pub(super) fn other_lines(name: &Path, first: &Path, lines: usize) -> Error {
    let cause = format!("its header lines differ from those of {}", first.display());
    let records = lines + 1;
    Error::usage(READ, cause).path(name).hint(format!(
        "give files of the same header, or cut the header off first: outcore tail --lines -n +{records} {}",
        name.display()
    ))
}

/// The number of lines of a header.
pub(super) fn lines_in(header: &[u8], end: u8) -> usize {
    lines_of(header, end).count()
}

/// The error for a header that is too long to be held.
pub(super) fn too_long(name: &Path) -> Error {
    Error::usage(READ, "its header lines are longer than 16 MiB")
        .path(name)
        .hint("check --comment and --header against the header lines of this file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_the_same_whatever_ends_their_lines() {
        for (a, b, is_wanted) in [
            (&b"#a\n#b\n"[..], &b"#a\r\n#b"[..], true),
            (b"", b"", true),
            (b"#a\n", b"#a\n\n", false),
            (b"#a\n", b"", false),
        ] {
            assert_eq!(is_same(a, b, b'\n'), is_wanted, "{a:?} {b:?}");
        }
        assert!(is_same(b"#a\0", b"#a", 0));
        assert_eq!(lines_in(b"a\nb", b'\n'), 2);
    }

    #[test]
    fn a_byte_order_mark_hides_no_comment() {
        let rule = HeaderRule {
            comments: vec![b"##".to_vec(), b"track".to_vec()],
            lines: 1,
        };
        assert!(rule.is_comment(b"\xef\xbb\xbf##x"));
        assert!(rule.is_comment(b"track name"));
        assert!(!rule.is_comment(b"#CHROM"));
        assert_eq!(rule.comment_bytes_max(), 8);
    }
}
