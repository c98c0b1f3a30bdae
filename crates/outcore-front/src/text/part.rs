//! The part of a line that GNU `uniq` compares, as a key.
//!
//! Contract: `-f`, `-s` and `-w` of coreutils' `uniq` in the C locale, with `-i` for comparison
//! without case. Among equal keys, the first in the input comes first. Every line has a key.
//!
//! Source: the manual of coreutils, section "uniq invocation"; the behaviour of the program.

use outcore::key::sort_key::{NoKey, SortKey, Tie};

use super::gnu::fields::is_blank;

/// The part of a line that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinePart {
    /// Fields at the front that are skipped.
    pub fields_skipped: u64,
    /// Bytes after these that are skipped.
    pub bytes_skipped: u64,
    /// Maximum number of bytes that are compared.
    pub bytes_max: Option<u64>,
}

impl LinePart {
    /// The part of this line.
    pub fn of(self, line: &[u8]) -> &[u8] {
        let mut rest = line;
        for _ in 0..self.fields_skipped {
            if rest.is_empty() {
                break;
            }
            rest = from_first(rest, |byte| !is_blank(byte));
            rest = from_first(rest, is_blank);
        }
        let skipped = length(self.bytes_skipped).min(rest.len());
        let rest = &rest[skipped..];
        let kept = self.bytes_max.map_or(usize::MAX, length);
        &rest[..kept.min(rest.len())]
    }
}

/// The text that starts at the first byte for which `is_begin` is true.
fn from_first(text: &[u8], is_begin: impl Fn(u8) -> bool) -> &[u8] {
    let at = text.iter().position(|byte| is_begin(*byte));
    &text[at.unwrap_or(text.len())..]
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Lines in the order of a part of them.
#[derive(Debug, Clone, Copy)]
pub struct PartOrder {
    /// The part.
    pub part: LinePart,
    /// Whether lower-case letters compare as capitals.
    pub ignores_case: bool,
    /// Whether the largest comes first.
    pub is_descending: bool,
}

impl SortKey for PartOrder {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey> {
        let start = key.len();
        key.extend_from_slice(self.part.of(line));
        if self.ignores_case {
            key[start..].make_ascii_uppercase();
        }
        Ok(())
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }

    fn tie(&self) -> Tie {
        Tie::Position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_uniq_compares() {
        let part = |fields_skipped, bytes_skipped, bytes_max| LinePart {
            fields_skipped,
            bytes_skipped,
            bytes_max,
        };
        let line = b" one\ttwo  three";
        assert_eq!(part(0, 0, None).of(line), line);
        assert_eq!(part(1, 0, None).of(line), b"\ttwo  three");
        assert_eq!(part(2, 1, Some(3)).of(line), b" th");
        assert_eq!(part(9, 9, Some(9)).of(line), b"");
        assert_eq!(part(0, u64::MAX, Some(u64::MAX)).of(line), b"");
    }
}
