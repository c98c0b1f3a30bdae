//! Edges that are written as text, a line each.
//!
//! Contract: [`parse`] turns the lines of a file into items ([`ItemShape`]), in one pass on all threads. A piece of the
//! pass is parsed alone; the lines that its borders cut are put together when all have come ([`Borders`]). Empty lines, and
//! those that begin with `#`, `%` or `//`, are not edges. A line that is none, an id that is negative, not whole or not
//! below 2^48, and a weight that is missing or not finite are errors that name file and line. A weight may also be
//! written as networkx writes it: `{'weight': 0.5}`. Ids that are names are read by [`super::named`].
//!
//! Bounds: one read of the file and one write of the items; a piece's items and two lines a piece are in memory.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{self, Batch, Sequence, tabulate};
use outcore::{Error, Input, Job, Output, Result};

use super::borders::Borders;
use super::item::{Edge, Item, ItemShape, fail};
use super::{ID_LIMIT, Parsed, READ};

/// How a line says an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// What is between fields: a byte, or any number of blanks and tabs.
    pub(super) delimiter: Option<u8>,
    /// The field of the weight, counted from 0.
    pub(super) weight: Option<usize>,
    pub(super) first_id: u64,
    /// Ids, counted from 0, are below this.
    pub(super) limit: u64,
}

/// Why a line is not an edge.
pub(crate) struct Fault(pub(super) String);

impl Syntax {
    /// Fields apart by blanks, tabs or commas; the third is the weight.
    pub(super) fn blanks(is_weighted: bool) -> Self {
        Syntax {
            delimiter: None,
            weight: is_weighted.then_some(2),
            first_id: 0,
            limit: ID_LIMIT,
        }
    }

    /// Fields apart by `delimiter`.
    pub(super) fn delimited(delimiter: u8, weight: Option<usize>) -> Self {
        Syntax {
            delimiter: Some(delimiter),
            weight,
            first_id: 0,
            limit: ID_LIMIT,
        }
    }

    /// The first vertex is number 1, and there are so many `vertices`.
    pub(super) fn counted_from_one(mut self, vertices: u64) -> Self {
        self.first_id = 1;
        self.limit = vertices.min(ID_LIMIT);
        self
    }

    fn is_between(&self, byte: u8) -> bool {
        match self.delimiter {
            Some(delimiter) => byte == delimiter,
            None => matches!(byte, b' ' | b'\t' | b','),
        }
    }

    /// The edge of a line without its end; nothing for comments and empty lines.
    fn edge(&self, line: &[u8]) -> std::result::Result<Option<Edge>, Fault> {
        let line = line.trim_ascii();
        if line.is_empty() || matches!(line[0], b'#' | b'%') || line.starts_with(b"//") {
            return Ok(None);
        }
        let mut rest = line;
        let mut field = || {
            if self.delimiter.is_none() {
                let skip = rest.iter().position(|byte| !self.is_between(*byte));
                rest = &rest[skip.unwrap_or(rest.len())..];
            }
            let end = rest.iter().position(|byte| self.is_between(*byte));
            let (field, behind) = rest.split_at(end.unwrap_or(rest.len()));
            rest = behind.get(1..).unwrap_or_default();
            field
        };
        let (source, target) = (field(), field());
        let (source, target) = (self.id(source)?, self.id(target)?);
        let weight = match self.weight {
            None => 1.0,
            Some(number) => {
                let text = (2..=number).map(|_| field()).last().unwrap_or_default();
                match self.delimiter.is_none() && text.starts_with(b"{") {
                    true => weight_of(attribute(line))?,
                    false => weight_of(text)?,
                }
            }
        };
        Ok(Some(Edge {
            source,
            target,
            weight,
        }))
    }

    /// The edge of the line that `text` begins with, and the bytes of that line with its end, if the line is as most are: two
    /// ids, and at once behind them what is looked at. Of any other line, whether it is an edge or not, [`Syntax::edge`] says what
    /// it is.
    ///
    /// N.B. it takes less than half of the time of `edge`, which looks for the ends of lines and fields first: 14 ns in place of 33 for
    /// a line of two ids of seven digits.
    fn usual_edge(&self, text: &[u8]) -> Option<(Edge, usize)> {
        let (source, mut at) = whole_number(text)?;
        at += self.gap(text.get(at..)?)?;
        let (target, digits) = whole_number(text.get(at..)?)?;
        at += digits;
        let mut weight = 1.0;
        match self.weight {
            None => {}
            Some(2) => {
                at += self.gap(&text[at..])?;
                let is_end = |byte: &u8| self.is_between(*byte) || *byte == b'\n';
                let rest = &text[at..];
                let field = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
                weight = weight_of(field).ok()?;
                at += field.len();
            }
            Some(_) => return None,
        }
        let rest = &text[at..];
        let end_of_line =
            |rest: &[u8]| memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        at += match rest {
            [] => 0,
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [byte, ..] if self.is_between(*byte) => end_of_line(rest),
            _ => return None,
        };
        let id = |id: u64| id.checked_sub(self.first_id).filter(|id| *id < self.limit);
        let edge = Edge {
            source: id(source)?,
            target: id(target)?,
            weight,
        };
        Some((edge, at))
    }

    /// Shows the edges of whole lines to `take`, and fails with the place of a line that is none, and why.
    #[inline]
    pub(super) fn each_edge(
        &self,
        lines: &[u8],
        mut take: impl FnMut(Edge),
    ) -> std::result::Result<(), (usize, Fault)> {
        let mut from = 0;
        while from < lines.len() {
            let rest = &lines[from..];
            if let Some((edge, line_bytes)) = self.usual_edge(rest) {
                take(edge);
                from += line_bytes;
                continue;
            }
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            match self.edge(&rest[..end]) {
                Ok(Some(edge)) => take(edge),
                Ok(None) => {}
                Err(fault) => return Err((from, fault)),
            }
            from += end + 1;
        }
        Ok(())
    }

    /// Bytes of what is between two fields, if there is any.
    fn gap(&self, text: &[u8]) -> Option<usize> {
        if !self.is_between(*text.first()?) {
            return None;
        }
        let mut bytes = 1;
        while self.delimiter.is_none() && text.get(bytes).is_some_and(|byte| self.is_between(*byte))
        {
            bytes += 1;
        }
        Some(bytes)
    }

    fn id(&self, field: &[u8]) -> std::result::Result<u64, Fault> {
        let digits = match self.delimiter {
            Some(_) => unquoted(field),
            None => field,
        };
        let mut id = 0u64;
        let is_number = !digits.is_empty() && digits.len() <= 19;
        for digit in digits {
            match digit {
                b'0'..=b'9' if is_number => id = id * 10 + u64::from(digit - b'0'),
                _ => return Err(self.no_id(field)),
            }
        }
        match id.checked_sub(self.first_id) {
            Some(id) if is_number && id < self.limit => Ok(id),
            _ => Err(self.no_id(field)),
        }
    }

    fn no_id(&self, field: &[u8]) -> Fault {
        let text = String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned();
        Fault(match (field.is_empty(), text.parse::<f64>()) {
            (true, _) => "it has fewer than two ids".to_owned(),
            (_, Ok(number)) if number < 0.0 => format!("the id {text} is negative"),
            (_, Ok(_)) if text.bytes().all(|byte| byte.is_ascii_digit()) && self.first_id == 0 => {
                format!("the id {text} is not below 2^48")
            }
            _ if self.first_id == 1 => format!("`{text}` is not an id from 1 to {}", self.limit),
            _ => format!("`{text}` is not an id: ids are whole numbers from 0 on"),
        })
    }
}

/// The number that `text` begins with, if its digits are no more than those of any id, and how many these are.
fn whole_number(text: &[u8]) -> Option<(u64, usize)> {
    const DIGITS_MAX: usize = 15;
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

/// The number that eight bytes begin with, and its digits; no digits for none.
///
/// Source: Lemire, "Quickly parsing eight digits" (2022): neighbouring digits, pairs of them and fours are put together all at
/// once. Fewer than eight get zeros in front. A byte that is a digit carries nothing into the next.
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

/// The weight in a dictionary of Python's, as networkx writes it after an edge: `{'weight': 0.5}`.
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

pub(super) fn weight_of(field: &[u8]) -> std::result::Result<f32, Fault> {
    let text = String::from_utf8_lossy(unquoted(field));
    match text.parse::<f32>() {
        Ok(weight) if weight.is_finite() => Ok(weight),
        Ok(_) => Err(Fault(format!("the weight {text} is not finite"))),
        Err(_) if text.is_empty() => Err(Fault("it has no weight".to_owned())),
        Err(_) => Err(Fault(format!("`{text}` is not a weight"))),
    }
}

/// The lines of a file as items.
struct Lines<'a, T> {
    input: Input,
    path: &'a Path,
    syntax: Syntax,
    borders: Borders,
    largest: AtomicU64,
    is_any: AtomicBool,
    is_too_large: AtomicBool,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T: Item> Lines<'_, T> {
    /// The items of whole lines, the first of which begins `at_bytes` after the header.
    fn items(&self, text: &[u8], at_bytes: u64) -> Vec<T> {
        let mut items = Vec::with_capacity(text.len() / 12);
        let mut largest = 0;
        let parsed = self.syntax.each_edge(text, |edge| {
            largest = edge.source.max(edge.target).max(largest);
            match T::of(edge) {
                Some(item) => items.push(item),
                None => self.is_too_large.store(true, Ordering::Relaxed),
            }
        });
        if let Err((from, fault)) = parsed {
            let at_bytes = self.input.header_bytes + at_bytes + from as u64;
            fail(not_an_edge(&fault, self.path, at_bytes))
        }
        if !items.is_empty() {
            self.largest.fetch_max(largest, Ordering::Relaxed);
            self.is_any.store(true, Ordering::Relaxed);
        }
        items
    }

    /// The items of all lines that borders cut.
    fn cut_lines(&self) -> Result<Vec<T>> {
        let mut items = Vec::new();
        let taken = self.borders.each_cut(|at_bytes, line| {
            items.extend(self.items(line, at_bytes));
            Ok(())
        });
        match taken {
            Ok(()) => Ok(items),
            Err(error) => Err(error.path(self.path)),
        }
    }
}

impl<T: Item> Sequence for Lines<'_, T> {
    type Item = T;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source {
            inputs: vec![self.input.clone()],
            element_bytes: 1,
            align_bytes: 1,
            count: 0,
        });
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = T> {
        let (at_bytes, whole) = self.borders.whole(batch.first, batch.bytes(0));
        self.items(whole, at_bytes).into_iter()
    }
}

/// The error for the line at a place of a file.
pub(crate) fn not_an_edge(fault: &Fault, path: &Path, at_bytes: u64) -> Error {
    let line = match line_number(path, at_bytes) {
        Some(number) => format!("line {number} is not an edge: {}", fault.0),
        None => format!("a line is not an edge: {}", fault.0),
    };
    let hint = match fault.0.as_str() {
        cause if cause.contains("whole numbers") => {
            "number ids that are names with --relabel (--relabel=text, if the first ids are numbers)"
        }
        cause if cause.ends_with("is negative") => {
            "correct or remove the line; where ids below 0 are names, number them with --relabel=text"
        }
        _ => {
            "correct or remove the line; an edge is `source target`, followed by a weight if --weights is given"
        }
    };
    Error::corrupt(READ, line)
        .path(path)
        .offset(at_bytes)
        .hint(hint)
}

/// The number of the line that begins at a place of a file.
fn line_number(path: &Path, at_bytes: u64) -> Option<u64> {
    let mut file = File::open(path).ok()?.take(at_bytes);
    let mut buffer = vec![0; 1 << 16];
    let mut lines = 1;
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(lines),
            found => lines += memchr::memchr_iter(b'\n', &buffer[..found]).count() as u64,
        }
    }
}

/// Parses a file into two of items, and counts these; nothing if an id is too large for them.
pub(super) fn parse(
    job: &Job,
    path: &Path,
    (header_bytes, syntax): (u64, Syntax),
    (shape, to): (ItemShape, [&Path; 2]),
) -> Result<Option<(Parsed, u64)>> {
    match (shape.is_wide(), shape.is_weighted()) {
        (false, false) => parse_to::<[u32; 2]>(job, path, (header_bytes, syntax), to),
        (false, true) => parse_to::<[u32; 3]>(job, path, (header_bytes, syntax), to),
        (true, false) => parse_to::<[u64; 2]>(job, path, (header_bytes, syntax), to),
        (true, true) => parse_to::<[u64; 3]>(job, path, (header_bytes, syntax), to),
    }
}

fn parse_to<T: Item>(
    job: &Job,
    path: &Path,
    (header_bytes, syntax): (u64, Syntax),
    [to, rest]: [&Path; 2],
) -> Result<Option<(Parsed, u64)>> {
    let lines = Lines::<T> {
        input: Input {
            path: path.to_path_buf(),
            header_bytes,
            data_bytes: None,
        },
        path,
        syntax,
        borders: Borders::default(),
        largest: AtomicU64::new(0),
        is_any: AtomicBool::new(false),
        is_too_large: AtomicBool::new(false),
        item: std::marker::PhantomData,
    };
    let to_file = |path: &Path| Output::File {
        path: path.to_path_buf(),
        header: None,
    };
    let done = primitives::write(job, &lines, &to_file(to), false)?;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lines.cut_lines()));
    let cut = caught.map_err(|panic| match panic.downcast::<Error>() {
        Ok(error) => *error,
        Err(panic) => std::panic::resume_unwind(panic),
    })??;
    if lines.is_too_large.load(Ordering::Relaxed) {
        job.device.remove(to)?;
        return Ok(None);
    }
    let one = |index: u64| cut[index as usize];
    primitives::write(job, &tabulate(cut.len() as u64, one), &to_file(rest), false)?;
    let is_any = lines.is_any.load(Ordering::Relaxed);
    let parsed = Parsed {
        inputs: vec![Input::raw(to), Input::raw(rest)],
        largest: is_any.then(|| lines.largest.load(Ordering::Relaxed)),
        parsed_bytes: done.read_bytes,
    };
    Ok(Some((parsed, done.records + cut.len() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is read at once is what is read field by field.
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
                _ => Syntax { weight, ..Syntax::blanks(false) }.counted_from_one(1 << 40),
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
            (Syntax::blanks(false).counted_from_one(20), "20 20"),
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
            "3 281474976710656\n",
        ] {
            assert_eq!(
                Syntax::blanks(false).usual_edge(line.as_bytes()),
                None,
                "{line}"
            );
        }
    }

    fn edge(syntax: Syntax, line: &str) -> std::result::Result<Option<(u64, u64, f32)>, String> {
        let found = syntax.edge(line.as_bytes()).map_err(|fault| fault.0)?;
        Ok(found.map(|edge| (edge.source, edge.target, edge.weight)))
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
        let one = Syntax::blanks(false).counted_from_one(5);
        assert_eq!(edge(one, "1 2"), Ok(Some((0, 1, 1.0))));
        for id in ["0", "6"] {
            let wanted = format!("`{id}` is not an id from 1 to 5");
            assert_eq!(edge(one, &format!("{id} 2")), Err(wanted));
        }
        for (line, why) in [
            ("1", "it has fewer than two ids"),
            ("1 -2", "the id -2 is negative"),
            (
                "281474976710656 1",
                "the id 281474976710656 is not below 2^48",
            ),
            ("a b", "`a` is not an id: ids are whole numbers from 0 on"),
            (
                "1.5 2",
                "`1.5` is not an id: ids are whole numbers from 0 on",
            ),
        ] {
            assert_eq!(edge(plain, line), Err(why.into()));
        }
    }
}
