//! The syntax of edges in lines of text.
//!
//! Contract: [`Syntax::each_edge`] reads whole lines. It skips empty lines, and skips and counts
//! comments: lines of text that begin with `#`, `%` or `//`. In CSV each line after the header is
//! an edge. An invalid edge is reported with the reason. A weight may also have networkx's form:
//! `{'weight': 0.5}`.
//!
//! Bounds: keeps nothing.

use std::borrow::Cow;

use super::fields::{Fault, Gap, csv_field, gap_of, separated};
use super::item::Edge;
use crate::format::weight::WeightType;

/// How a line is split into the parts of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// The separator of CSV fields; if `None`, blanks or commas separate the fields.
    pub(super) delimiter: Option<u8>,
    /// The line end: a newline, or a carriage return.
    pub(super) line_end: u8,
    /// Whether lines that begin with `#` or `%` are comments.
    pub(super) has_comments: bool,
    /// Indexes of the id fields, from 0; the first two, except in CSV.
    pub(super) source: usize,
    pub(super) target: usize,
    /// Index of the weight field; the third, except in CSV.
    pub(super) weight: Option<usize>,
    pub(super) weight_type: WeightType,
    pub(super) first_id: u64,
    /// The limits of ids, counted from 0, if there are any.
    pub(super) source_limit: Option<u64>,
    pub(super) target_limit: Option<u64>,
    /// Added to targets if rows and columns are different vertices.
    pub(super) target_from: u64,
}

/// The fields of a line that are read.
pub(super) struct Fields<'l> {
    pub(super) source: Cow<'l, [u8]>,
    pub(super) target: Cow<'l, [u8]>,
    /// Empty if there is none.
    pub(super) weight: Cow<'l, [u8]>,
}

impl Syntax {
    /// Fields separated by blanks, tabs or commas; the third is the weight.
    pub(super) fn blanks(is_weighted: bool) -> Self {
        Syntax {
            delimiter: None,
            line_end: b'\n',
            has_comments: true,
            source: 0,
            target: 1,
            weight: is_weighted.then_some(2),
            weight_type: WeightType::F64,
            first_id: 0,
            source_limit: None,
            target_limit: None,
            target_from: 0,
        }
    }

    /// Fields separated by `delimiter`.
    pub(super) fn delimited(delimiter: u8, weight: Option<usize>) -> Self {
        Syntax {
            delimiter: Some(delimiter),
            has_comments: false,
            weight,
            ..Syntax::blanks(false)
        }
    }

    /// Fields separated by tabs, which may contain blanks.
    pub(super) fn tabs(is_weighted: bool) -> Self {
        Syntax {
            delimiter: Some(b'\t'),
            ..Syntax::blanks(is_weighted)
        }
    }

    /// Makes vertices count from 1, and sets the numbers of rows and columns.
    pub(super) fn counted_from_one(mut self, rows: u64, columns: u64) -> Self {
        self.first_id = 1;
        self.source_limit = Some(rows);
        self.target_limit = Some(columns);
        self
    }

    /// The line end.
    pub(crate) fn line_end(&self) -> u8 {
        self.line_end
    }

    /// Sets the type of the weights.
    pub(crate) fn with_weights(self, weights: Option<WeightType>) -> Self {
        Syntax {
            weight_type: weights.unwrap_or(self.weight_type),
            ..self
        }
    }

    /// Returns the needed CSV fields; `None` for a line that is skipped.
    ///
    /// It checks all quotes of a line, so that a field that continues on the next line is found.
    pub(super) fn csv_fields<'l>(
        &self,
        line: &'l [u8],
        delimiter: u8,
    ) -> std::result::Result<Option<Fields<'l>>, Fault> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.trim_ascii_start().first() {
            None => return Ok(None),
            Some(b'#' | b'%') if self.has_comments => return Ok(None),
            Some(_) => {}
        }
        let mut fields = [None, None, None];
        let columns = [Some(self.source), Some(self.target), self.weight];
        let last = columns.iter().flatten().max().copied().unwrap_or_default();
        let mut rest = Some(line);
        for number in 0.. {
            let are_left = number <= last || rest.is_some_and(|rest| rest.contains(&b'"'));
            let Some(field) = csv_field(&mut rest, delimiter)?.filter(|_| are_left) else {
                break;
            };
            for (place, column) in fields.iter_mut().zip(columns) {
                if column == Some(number) {
                    *place = Some(field.clone());
                }
            }
        }
        let [source, target, weight] = fields;
        let (Some(source), Some(target)) = (source, target) else {
            return Err(Fault("it has fewer than two ids".to_owned()));
        };
        let weight = weight.unwrap_or_default();
        Ok(Some(Fields {
            source,
            target,
            weight,
        }))
    }

    /// Returns the edge of a line without its line end; `None` for comments and empty lines.
    fn edge(&self, line: &[u8]) -> std::result::Result<Option<Edge>, Fault> {
        let fields = match self.delimiter {
            Some(delimiter) => self.csv_fields(line, delimiter)?,
            None => self.separated_fields(line)?,
        };
        let Some(fields) = fields else {
            return Ok(None);
        };
        let (source, target) = (
            self.source_of(&fields.source)?,
            self.target_of(&fields.target)?,
        );
        let weight = match self.weight {
            None => 0,
            Some(_) => weight_of(&fields.weight, self.weight_type)?,
        };
        Ok(Some(Edge {
            source,
            target,
            weight,
        }))
    }

    /// Splits a line of text into fields.
    fn separated_fields<'l>(
        &self,
        line: &'l [u8],
    ) -> std::result::Result<Option<Fields<'l>>, Fault> {
        let line = line.trim_ascii();
        if line.is_empty() || matches!(line[0], b'#' | b'%') || line.starts_with(b"//") {
            return Ok(None);
        }
        let (mut rest, mut with_commas) = (line, None);
        let mut next = |rest: &mut &'l [u8]| separated(rest, &mut with_commas);
        let (source, target) = (next(&mut rest)?, next(&mut rest)?);
        let weight = match self.weight {
            None => &[],
            Some(_) if rest.starts_with(b"{") => attribute(line),
            Some(_) => next(&mut rest)?,
        };
        Ok(Some(Fields {
            source: Cow::Borrowed(source),
            target: Cow::Borrowed(target),
            weight: Cow::Borrowed(weight),
        }))
    }

    /// Reads the edge at the start of `text`, if the line has the usual form: two ids, directly
    /// followed by the weight if it is read. Returns the edge and the bytes of its line.
    /// [`Syntax::edge`] handles all other lines, valid or not.
    ///
    /// N.B. It takes less than half the time of `edge`, which first looks for the ends of lines and
    /// fields.
    fn usual_edge(&self, text: &[u8]) -> Option<(Edge, usize)> {
        if (self.source, self.target) != (0, 1) {
            return None;
        }
        let (source, mut at) = whole_number(text)?;
        let gap = self.gap(text.get(at..)?)?;
        at += gap.bytes;
        let (target, digits) = whole_number(text.get(at..)?)?;
        at += digits;
        let mut weight = 0;
        match self.weight {
            None => {}
            Some(2) => {
                let next = self.gap(&text[at..])?;
                if next.has_comma != gap.has_comma {
                    return None;
                }
                at += next.bytes;
                let is_end = |byte: &u8| self.is_between(*byte) || *byte == self.line_end;
                let rest = &text[at..];
                let field = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
                weight = weight_of(field, self.weight_type).ok()?;
                at += field.len();
            }
            Some(_) => return None,
        }
        at += self.end_of_usual(&text[at..], gap)?;
        let edge = Edge {
            source: self.source_at(source)?,
            target: self.target_at(target)?,
            weight,
        };
        Some((edge, at))
    }

    /// Bytes to the end of a line whose fields have this gap; `None` if the rest must be read by
    /// [`Syntax::edge`].
    fn end_of_usual(&self, rest: &[u8], gap: Gap) -> Option<usize> {
        let behind = match rest {
            [] => return Some(0),
            [byte, ..] if *byte == self.line_end => return Some(1),
            [b'\r', b'\n', ..] => return Some(2),
            [byte, ..] if !self.is_between(*byte) => return None,
            _ => self.gap(rest)?,
        };
        if self.delimiter.is_none() && rest.get(behind.bytes) == Some(&b',') {
            return None;
        }
        // Quotes may hide the end of the line.
        let found = match self.delimiter {
            Some(_) => memchr::memchr2(self.line_end, b'"', rest),
            None => memchr::memchr(self.line_end, rest),
        };
        let end = found.unwrap_or(rest.len());
        let is_quoted = rest.get(end) == Some(&b'"');
        let is_over = rest[behind.bytes.min(end)..end].trim_ascii().is_empty();
        let is_alike = is_over || behind.has_comma == gap.has_comma;
        (!is_quoted && is_alike).then(|| (end + 1).min(rest.len()))
    }

    fn is_between(&self, byte: u8) -> bool {
        match self.delimiter {
            Some(delimiter) => byte == delimiter,
            None => matches!(byte, b' ' | b'\t' | b','),
        }
    }

    /// Passes the edges of whole lines to `take`, and counts comments; fails with the place of an
    /// invalid line, and the reason.
    #[inline]
    pub(super) fn each_edge(
        &self,
        lines: &[u8],
        mut take: impl FnMut(Edge),
    ) -> std::result::Result<u64, (usize, Fault)> {
        let mut from = 0;
        let mut skipped = 0;
        while from < lines.len() {
            let rest = &lines[from..];
            if let Some((edge, line_bytes)) = self.usual_edge(rest) {
                take(edge);
                from += line_bytes;
                continue;
            }
            let end = memchr::memchr(self.line_end, rest).unwrap_or(rest.len());
            match self.edge(&rest[..end]) {
                Ok(Some(edge)) => take(edge),
                // Empty lines are not counted as comments.
                Ok(None) => skipped += u64::from(!rest[..end].trim_ascii().is_empty()),
                Err(fault) => return Err((from, fault)),
            }
            from += end + 1;
        }
        Ok(skipped)
    }

    /// Returns the gap between two fields, if there is one.
    fn gap(&self, text: &[u8]) -> Option<Gap> {
        match self.delimiter {
            None => gap_of(text),
            Some(delimiter) => (*text.first()? == delimiter).then_some(Gap {
                bytes: 1,
                has_comma: true,
            }),
        }
    }

    /// Returns the vertex for the id of a source.
    fn source_at(&self, id: u64) -> Option<u64> {
        let id = id.checked_sub(self.first_id)?;
        self.source_limit
            .is_none_or(|limit| id < limit)
            .then_some(id)
    }

    /// Returns the vertex for the id of a target.
    fn target_at(&self, id: u64) -> Option<u64> {
        let id = id.checked_sub(self.first_id)?;
        let is_one = self.target_limit.is_none_or(|limit| id < limit);
        is_one.then_some(id + self.target_from)
    }

    fn source_of(&self, field: &[u8]) -> std::result::Result<u64, Fault> {
        let id = number_of(field).and_then(|id| self.source_at(id));
        id.ok_or_else(|| self.no_id(field, self.source_limit))
    }

    fn target_of(&self, field: &[u8]) -> std::result::Result<u64, Fault> {
        let id = number_of(field).and_then(|id| self.target_at(id));
        id.ok_or_else(|| self.no_id(field, self.target_limit))
    }

    fn no_id(&self, field: &[u8], limit: Option<u64>) -> Fault {
        let text = String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned();
        if let Some(limit) = limit {
            return Fault(format!("`{text}` is not an id from 1 to {limit}"));
        }
        Fault(match (field.is_empty(), text.parse::<f64>()) {
            (true, _) => "it has fewer than two ids".to_owned(),
            (_, Ok(number)) if number < 0.0 => format!("the id {text} is negative"),
            (_, Ok(_)) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("the id {text} is not below 2^64")
            }
            _ => format!("`{text}` is not an id: ids are whole numbers, 0 or more"),
        })
    }
}

/// Parses a 64-bit integer.
fn number_of(field: &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (!field.is_empty()).then_some(number)
}

/// Parses the integer at the start of `text`, if it has no more digits than any id, and returns the
/// number of digits.
fn whole_number(text: &[u8]) -> Option<(u64, usize)> {
    // Any 64-bit number can have this many digits.
    const DIGITS_MAX: usize = 19;
    let (mut number, mut digits) = match text.first_chunk::<8>() {
        Some(word) => short_number(*word),
        None => (0, 0),
    };
    let is_cut = digits == 0 || digits == 8;
    while is_cut && digits < DIGITS_MAX {
        let Some(digit) = text.get(digits).map(|byte| byte.wrapping_sub(b'0')) else {
            break;
        };
        if digit > 9 {
            break;
        }
        number = number * 10 + u64::from(digit);
        digits += 1;
    }
    (digits > 0).then_some((number, digits))
}

/// Parses the number at the start of eight bytes, and counts its digits; no digits mean no number.
///
/// Source: Lemire, "Quickly parsing eight digits" (2022): combines adjacent digits, then pairs,
/// then fours, in parallel. Fewer than eight digits are padded with leading zeros. A byte that is a
/// digit carries nothing into the next one.
fn short_number(bytes: [u8; 8]) -> (u64, usize) {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    // Added to a byte above 9, it sets the byte's highest bit.
    const ABOVE_NINE: u64 = 0x7676_7676_7676_7676;
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    const PAIRS: u64 = 0x0000_00FF_0000_00FF;
    let values = u64::from_le_bytes(bytes) ^ ZEROS;
    let others = (values.wrapping_add(ABOVE_NINE) | values) & HIGHEST;
    let digits = (others.trailing_zeros() / u8::BITS) as usize;
    if digits == 0 {
        return (0, 0);
    }
    let digits_only = values << (u64::BITS as usize - 8 * digits);
    let pairs = digits_only.wrapping_mul(10).wrapping_add(digits_only >> 8);
    let fours = (pairs & PAIRS).wrapping_mul(100 + (1_000_000 << 32));
    let rest = ((pairs >> 16) & PAIRS).wrapping_mul(1 + (10_000 << 32));
    (fours.wrapping_add(rest) >> 32, digits)
}

fn unquoted(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    field
        .strip_prefix(b"\"")
        .and_then(|field| field.strip_suffix(b"\""))
        .unwrap_or(field)
}

/// Reads the weight from a Python dictionary, as networkx writes it after an edge: `{'weight':
/// 0.5}`.
pub(super) fn attribute(dictionary: &[u8]) -> &[u8] {
    const KEYS: [&[u8]; 2] = [b"'weight'", b"\"weight\""];
    let behind = |key: &&[u8]| {
        let at = memchr::memmem::find(dictionary, key)?;
        let value = dictionary[at + key.len()..].trim_ascii_start();
        value.strip_prefix(b":")
    };
    let value = KEYS.iter().find_map(behind).unwrap_or_default();
    let end = value.iter().position(|byte| matches!(byte, b',' | b'}'));
    value[..end.unwrap_or(value.len())].trim_ascii()
}

/// The bits of a weight.
pub(super) fn weight_of(field: &[u8], of: WeightType) -> std::result::Result<u64, Fault> {
    of.of_text(&String::from_utf8_lossy(unquoted(field)))
        .map_err(Fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The fast parser returns the same edges as the one that splits fields.
        #[test]
        fn a_usual_line_is_the_same_edge_as_any_other(
            line in "[0-9]{1,16}[ \t,;]{1,2}[0-9]{1,16}([ \t,;\r][-0-9.e{\r \t,;\"]{0,8})?\r?",
            behind in prop_oneof![Just(""), Just("\n"), Just("\n7 8\n")],
            weight in prop_oneof![Just(None), Just(Some(2)), Just(Some(3))],
            kind in 0..3,
        ) {
            let syntax = match kind {
                0 => Syntax { weight, ..Syntax::blanks(false) },
                1 => Syntax::delimited(b';', weight),
                _ => Syntax { weight, ..Syntax::blanks(false) }.counted_from_one(1 << 40, 1 << 40),
            };
            let text = format!("{line}{behind}");
            if let Some((found, bytes)) = syntax.usual_edge(text.as_bytes()) {
                let wanted = syntax.edge(line.as_bytes()).map_err(|fault| fault.0).unwrap();
                prop_assert_eq!(Some(found), wanted);
                prop_assert_eq!(bytes, line.len() + usize::from(!behind.is_empty()));
            }
        }
    }

    #[test]
    fn most_lines_are_usual() {
        for (syntax, line) in [
            (Syntax::blanks(false), "3\t14\n"),
            (Syntax::blanks(false), "3 14\r\n"),
            (Syntax::blanks(false), "3 14 0.5 x\n"),
            (Syntax::blanks(true), "3 14 0.5\r\n"),
            (Syntax::delimited(b',', Some(2)), "3,14,0.5,x\n"),
            (Syntax::blanks(false).counted_from_one(20, 20), "20 20"),
        ] {
            assert!(syntax.usual_edge(line.as_bytes()).is_some(), "{line}");
        }
        for line in [
            "# 3 14\n",
            " 3 14\n",
            "3 x\n",
            "3\n",
            "\n",
            "3 14\r",
            "3 18446744073709551616\n",
            "3, 14 0.5\n",
            "3,14,,\n",
            "3,14,,0.5\n",
            "3,,14\n",
        ] {
            assert_eq!(
                Syntax::blanks(false).usual_edge(line.as_bytes()),
                None,
                "{line}"
            );
        }
    }

    fn edge(syntax: Syntax, line: &str) -> std::result::Result<Option<(u64, u64, f64)>, String> {
        let found = syntax.edge(line.as_bytes()).map_err(|fault| fault.0)?;
        let weight = |bits| match syntax.weight {
            None => 1.0,
            Some(_) => syntax.weight_type.value(bits),
        };
        Ok(found.map(|edge| (edge.source, edge.target, weight(edge.weight))))
    }

    #[test]
    fn lines_of_all_formats_are_edges_and_others_say_why_they_are_none() {
        let plain = Syntax::blanks(false);
        assert_eq!(edge(plain, "3\t14"), Ok(Some((3, 14, 1.0))));
        assert_eq!(edge(plain, "  3   14  0.5 \r"), Ok(Some((3, 14, 1.0))));
        assert_eq!(edge(plain, "# Nodes: 4"), Ok(None));
        assert_eq!(edge(plain, ""), Ok(None));
        let weighted = Syntax::blanks(true);
        assert_eq!(edge(weighted, "1 2 -2.5"), Ok(Some((1, 2, -2.5))));
        assert_eq!(edge(weighted, "1 2"), Err("it has no weight".into()));
        assert_eq!(
            edge(weighted, "1 2 nan"),
            Err("the weight nan is not finite".into())
        );
        let csv = Syntax::delimited(b',', Some(3));
        assert_eq!(edge(csv, "\"1\",2,x,4"), Ok(Some((1, 2, 4.0))));
        assert_eq!(edge(csv, "1,2,\"x,7,y\",2.5"), Ok(Some((1, 2, 2.5))));
        let open = Err("a quote is not closed on its line".into());
        assert_eq!(edge(Syntax::delimited(b',', None), "1,2,\"x"), open);
        assert!(edge(csv, "# 1,2,x,4").is_err());
        let swapped = Syntax {
            source: 2,
            target: 0,
            ..Syntax::delimited(b',', Some(1))
        };
        assert_eq!(edge(swapped, "1,0.5,3"), Ok(Some((3, 1, 0.5))));
        assert_eq!(edge(weighted, "1, 2, 0.75"), Ok(Some((1, 2, 0.75))));
        for (syntax, line) in [(weighted, "1 2 0,75"), (plain, "1,2 3,4")] {
            let cause = edge(syntax, line).unwrap_err();
            assert!(cause.contains("a decimal comma"), "{line}: {cause}");
        }
        let one = Syntax::blanks(false).counted_from_one(5, 5);
        assert_eq!(edge(one, "1 2"), Ok(Some((0, 1, 1.0))));
        for id in ["0", "6"] {
            let wanted = format!("`{id}` is not an id from 1 to 5");
            assert_eq!(edge(one, &format!("{id} 2")), Err(wanted));
        }
        for (line, why) in [
            ("1", "it has fewer than two ids"),
            ("1 -2", "the id -2 is negative"),
            (
                "18446744073709551616 1",
                "the id 18446744073709551616 is not below 2^64",
            ),
            ("a b", "`a` is not an id: ids are whole numbers, 0 or more"),
            (
                "1.5 2",
                "`1.5` is not an id: ids are whole numbers, 0 or more",
            ),
        ] {
            assert_eq!(edge(plain, line), Err(why.into()));
        }
    }
}
