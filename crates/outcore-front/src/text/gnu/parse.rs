//! Parses `-k POS1[,POS2]` and the older `+POS1 [-POS2]`.
//!
//! Contract: pure. An error quotes the text and gives the reason in the words of `sort`.

use outcore::{Error, Result};

use super::fields::{Position, Span};
use super::{Key, OptionScope, Ordering};
use outcore::key::encode::digits_len;

const READ_KEY: &str = "read key";

impl Key {
    /// The whole line.
    pub(crate) fn whole(ordering: Ordering) -> Self {
        Key {
            span: Span {
                skips_blanks_at_start: ordering.blanks_at_start,
                ..Span::default()
            },
            ordering,
            is_of_old_form: false,
        }
    }

    /// The same key, marked as written in the form `+POS1 [-POS2]` (see [`of_old_form`]).
    #[must_use]
    pub fn of_old_form(self) -> Self {
        Key {
            is_of_old_form: true,
            ..self
        }
    }

    /// Parses `F[.C][OPTS][,F[.C][OPTS]]`, with fields and bytes counted from one.
    ///
    /// # Errors
    /// Usage, with the text and the reason.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |reason: &str| {
            let hint = match text.starts_with(|first: char| first.is_alphabetic()) {
                true => {
                    "a key has the numbers of fields, as in -k2,2n; --by NAME sorts CSV and JSON lines by a column"
                }
                false => "write a key as F[.C][OPTS][,F[.C][OPTS]], as in -k2,2n",
            };
            Error::usage(READ_KEY, format!("{reason} in `{text}`")).hint(hint)
        };
        let mut rest = text.as_bytes();
        let mut ordering = Ordering::default();
        let fields = number(&mut rest).ok_or_else(|| wrong("invalid number at field start"))?;
        let fields = fields
            .checked_sub(1)
            .ok_or_else(|| wrong("field number is zero"))?;
        let mut bytes = 0;
        if is_next(&mut rest, b'.') {
            let number = number(&mut rest).ok_or_else(|| wrong("invalid number after '.'"))?;
            bytes = number
                .checked_sub(1)
                .ok_or_else(|| wrong("character offset is zero"))?;
        }
        set_all(&mut rest, &mut ordering, OptionScope::Start);
        let mut end = None;
        if is_next(&mut rest, b',') {
            let fields = number(&mut rest).ok_or_else(|| wrong("invalid number after ','"))?;
            let fields = fields
                .checked_sub(1)
                .ok_or_else(|| wrong("field number is zero"))?;
            let mut bytes = 0;
            if is_next(&mut rest, b'.') {
                bytes = number(&mut rest).ok_or_else(|| wrong("invalid number after '.'"))?;
            }
            end = Some(Position { fields, bytes });
            set_all(&mut rest, &mut ordering, OptionScope::End);
        }
        if !rest.is_empty() {
            return Err(wrong("stray character in field spec"));
        }
        let start = Position { fields, bytes };
        Ok(Key {
            span: Span {
                start: (start != Position::default()).then_some(start),
                end,
                skips_blanks_at_start: ordering.blanks_at_start,
                skips_blanks_at_end: ordering.blanks_at_end,
            },
            ordering,
            is_of_old_form: false,
        })
    }
}

/// Translates `+F[.C][OPTS]` and, if it follows, `-F[.C][OPTS]`, counted from zero, into the
/// notation of [`Key::parse`]. Returns `None` if the first text does not have this form and is
/// therefore a file name.
///
/// # Errors
/// Usage for an invalid second position.
pub fn of_old_form(start: &str, end: Option<&str>) -> Result<Option<String>> {
    let Some((fields, bytes, options)) = start.strip_prefix('+').and_then(old_position) else {
        return Ok(None);
    };
    let mut key = format!(
        "{}.{}{options}",
        fields.saturating_add(1),
        bytes.saturating_add(1)
    );
    if let Some(text) = end {
        let position = text.strip_prefix('-').and_then(old_position);
        let (fields, bytes, options) = position.ok_or_else(|| {
            Error::usage(
                READ_KEY,
                format!("stray character in field spec in `{text}`"),
            )
            .hint("write the key as -k POS1,POS2")
        })?;
        // Without a byte number, the second position is the end of the previous field.
        let fields = match (fields, bytes) {
            (0, 0) => 1,
            (fields, 0) => fields,
            (fields, _) => fields.saturating_add(1),
        };
        key.push_str(&format!(",{fields}.{bytes}{options}"));
    }
    Ok(Some(key))
}

fn old_position(text: &str) -> Option<(usize, usize, &str)> {
    let mut rest = text.as_bytes();
    let fields = number(&mut rest)?;
    let bytes = match is_next(&mut rest, b'.') {
        true => number(&mut rest)?,
        false => 0,
    };
    let options = &text[text.len() - rest.len()..];
    let mut ordering = Ordering::default();
    set_all(&mut rest, &mut ordering, OptionScope::Start);
    rest.is_empty().then_some((fields, bytes, options))
}

/// The number at the front, after blanks and a plus sign, as `strtoumax` parses it; a number that
/// is too large becomes the largest one.
fn number(rest: &mut &[u8]) -> Option<usize> {
    let trimmed = rest.trim_ascii_start();
    let unsigned = trimmed.strip_prefix(b"+").unwrap_or(trimmed);
    let (digits, behind) = unsigned.split_at(digits_len(unsigned));
    let text = std::str::from_utf8(digits)
        .ok()
        .filter(|text| !text.is_empty())?;
    *rest = behind;
    Some(text.parse().unwrap_or(usize::MAX))
}

fn is_next(rest: &mut &[u8], wanted: u8) -> bool {
    match rest.split_first() {
        Some((first, behind)) if *first == wanted => {
            *rest = behind;
            true
        }
        _ => false,
    }
}

fn set_all(rest: &mut &[u8], ordering: &mut Ordering, place: OptionScope) {
    while let Some((letter, behind)) = rest.split_first() {
        if !ordering.set(*letter, place) {
            return;
        }
        *rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_none_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "invalid number at field start"),
            ("0", "field number is zero"),
            ("1.0", "character offset is zero"),
            ("1.", "invalid number after '.'"),
            ("1,", "invalid number after ','"),
            ("1,0", "field number is zero"),
            ("1x", "stray character"),
            ("1,2n3", "stray character"),
        ] {
            let error = Key::parse(text).unwrap_err();
            assert!(error.cause().contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn the_old_form_means_what_the_new_one_means() {
        let key = |start: &str, end| of_old_form(start, end).unwrap();
        let parsed = |text: &str| Key::parse(text).unwrap();
        for (start, end, new) in [
            ("+0", None, "1"),
            ("+1", Some("-2"), "2,2"),
            ("+1.2n", Some("-2.3"), "2.3n,3.3"),
            ("+0", Some("-0"), "1,1"),
            ("+3b", None, "4b"),
        ] {
            assert_eq!(parsed(&key(start, end).unwrap()), parsed(new), "{start}");
        }
        assert_eq!(key("+x", None), None);
        assert!(of_old_form("+1", Some("-x")).is_err());
    }
}
