//! Splits a line into fields: CSV, for numbers and names, and text separated by blanks.
//!
//! Contract: [`csv_field`] reads quotes as in RFC 4180, within one line; [`csv_names`] uses it for
//! a header. Fields that are separated by tabs have no quotes. [`separated`] splits at blanks or at
//! commas, and rejects a line with both: `1 2 0,75` has a decimal comma or a fourth field, and no
//! reader can tell which. [`apart`] splits only at blanks. Lines end with LF, CR LF, or CR alone
//! ([`line_end`]).

use std::borrow::Cow;

/// The reason that a line is not an edge.
#[derive(Debug)]
pub(crate) struct Fault(pub(super) String);

type Field<'l> = std::result::Result<Option<Cow<'l, [u8]>>, Fault>;

/// Detects the line end at the start of a text: a carriage return if there is one and no newline,
/// otherwise a newline.
pub(crate) fn line_end(front: &[u8]) -> u8 {
    let has = |end| memchr::memchr(end, front).is_some();
    match !has(b'\n') && has(b'\r') {
        true => b'\r',
        false => b'\n',
    }
}

/// Returns the next field up to `delimiter`, without surrounding blanks and quotes.
pub(super) fn csv_field<'l>(rest: &mut Option<&'l [u8]>, delimiter: u8) -> Field<'l> {
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

/// All fields of a line of CSV, as text.
pub(super) fn csv_names(line: &[u8], delimiter: u8) -> std::result::Result<Vec<String>, Fault> {
    let (mut rest, mut names) = (Some(line), Vec::new());
    while let Some(name) = csv_field(&mut rest, delimiter)? {
        names.push(String::from_utf8_lossy(&name).into_owned());
    }
    Ok(names)
}

/// Detects the separator of a line of CSV: a comma, or else a semicolon or a tab, outside of
/// quotes.
pub(super) fn csv_delimiter(line: &[u8]) -> u8 {
    let mut is_quoted = false;
    let mut found = [false; 3];
    for byte in line {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => found[0] = true,
            b';' if !is_quoted => found[1] = true,
            b'\t' if !is_quoted => found[2] = true,
            _ => {}
        }
    }
    match found {
        [false, true, _] => b';',
        [false, false, true] => b'\t',
        _ => b',',
    }
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns the next field, separated by blanks and tabs.
pub(super) fn apart<'l>(rest: &mut Option<&'l [u8]>) -> Option<&'l [u8]> {
    let line = (*rest)?;
    let from = line.iter().position(|byte| !is_blank(byte))?;
    let line = &line[from..];
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    *rest = Some(&line[end..]);
    Some(&line[..end])
}

/// The separator between two fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) bytes: usize,
    pub(super) has_comma: bool,
}

/// Returns the gap at the start of `text`: blanks, a comma or both; `None` if there is none.
pub(super) fn gap_of(text: &[u8]) -> Option<Gap> {
    let blanks = |text: &[u8]| {
        let end = text.iter().position(|byte| !is_blank(byte));
        end.unwrap_or(text.len())
    };
    let mut bytes = blanks(text);
    let has_comma = text.get(bytes) == Some(&b',');
    if has_comma {
        bytes += 1;
        bytes += blanks(&text[bytes..]);
    }
    (bytes > 0).then_some(Gap { bytes, has_comma })
}

/// Returns the next field of a trimmed line, and whether commas separate its fields, if that is
/// known yet.
pub(super) fn separated<'l>(
    rest: &mut &'l [u8],
    with_commas: &mut Option<bool>,
) -> std::result::Result<&'l [u8], Fault> {
    let end = rest.iter().position(|byte| is_blank(byte) || *byte == b',');
    let (field, behind) = rest.split_at(end.unwrap_or(rest.len()));
    let Some(gap) = gap_of(behind) else {
        *rest = behind;
        return Ok(field);
    };
    *rest = &behind[gap.bytes..];
    let is_last = rest.is_empty();
    if field.is_empty() || rest.starts_with(b",") {
        return Err(Fault("a field between two commas is empty".to_owned()));
    }
    if !is_last && with_commas.replace(gap.has_comma) == Some(!gap.has_comma) {
        let cause =
            "its fields are separated by spaces and by commas, and a comma may be a decimal comma";
        return Err(Fault(cause.to_owned()));
    }
    Ok(field)
}
