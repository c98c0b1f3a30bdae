//! JSON as programs write it: with numbers that RFC 8259 lacks, and unpaired surrogates.
//!
//! Contract: [`strict`] converts a line that contains `NaN`, `Infinity`, `-Infinity` or an escape
//! of an unpaired surrogate, as Python and JavaScript write them. The result is JSON of the same
//! length, so that a parser's byte offsets remain valid. [`is_blank`] recognises lines without
//! values. Pure; each byte is read once.

/// Names of numbers outside of strings, and replacement numbers of the same length.
const NUMBERS: [(&[u8], &[u8]); 2] = [(b"NaN", b"0.5"), (b"Infinity", b"0.500000")];

/// Whether a line of JSON Lines contains only white space, and so no value.
#[inline]
pub fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// The line with valid numbers and escapes in place of the invalid ones; `None` if it has none.
pub fn strict(line: &[u8]) -> Option<Vec<u8>> {
    let mut changed: Option<Vec<u8>> = None;
    let mut change = |at: usize, bytes: &[u8]| {
        let line = changed.get_or_insert_with(|| line.to_vec());
        line[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let (mut at, mut is_string) = (0, false);
    while at < line.len() {
        match line[at] {
            b'"' => is_string = !is_string,
            b'\\' if is_string => {
                if let [
                    _,
                    b'u',
                    b'd' | b'D',
                    b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F',
                    ..,
                ] = line[at..]
                    && at + 6 <= line.len()
                {
                    change(at, b"\\ufffd");
                }
                at += 1;
            }
            b'N' | b'I' if !is_string => {
                let found = NUMBERS
                    .iter()
                    .find(|(name, _)| line[at..].starts_with(name));
                if let Some((name, number)) = found {
                    change(at, number);
                    at += name.len() - 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_lacks_is_replaced_in_its_place_and_nothing_else() {
        for (line, wanted) in [
            (
                r#"{"a":NaN,"b":[-Infinity]}"#,
                r#"{"a":0.5,"b":[-0.500000]}"#,
            ),
            (r#"{"a":"\ud800","b":1}"#, r#"{"a":"\ufffd","b":1}"#),
            (
                r#"{"NaN":"Infinity","\\":NaN}"#,
                r#"{"NaN":"Infinity","\\":0.5}"#,
            ),
        ] {
            let strict = strict(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(strict).unwrap(), wanted);
        }
        for line in [r#"{"a":"NaN"}"#, r#"{"a":"\"NaN"}"#, "", "\"\\ud8"] {
            assert_eq!(strict(line.as_bytes()), None, "{line}");
        }
    }
}
