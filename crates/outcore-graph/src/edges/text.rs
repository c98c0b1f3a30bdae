//! Reads edges in text, one per line.
//!
//! Contract: [`parse`] converts the lines of a file to items ([`ItemShape`]), in one pass on all
//! threads. Pieces are parsed independently; the lines that their borders cut are joined after all
//! pieces have come ([`Borders`]). [`super::syntax`] defines valid lines. Lines end with LF, CR LF,
//! or CR alone. Empty lines are skipped, and so are comments, which are counted. These are errors
//! with file and line: an invalid line, an id that is not an integer from 0 to 2^64 - 1, and a
//! weight that is missing or not finite. Ids that are names are read by [`super::named`].
//!
//! Bounds: one read of the file and one write of the items; the items of a piece, and two lines per
//! piece, are in memory.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{self, Batch, Sequence, tabulate};
use outcore::{Error, Input, Job, Output, Result};

use super::borders::Borders;
use super::fields::Fault;
use super::item::{Item, ItemShape, fail};
use super::syntax::Syntax;
use super::{Parsed, READ};
use crate::format::weight::WeightType;

/// The lines of a file as items.
struct Lines<'a, T> {
    input: Input,
    path: &'a Path,
    syntax: Syntax,
    borders: Borders,
    largest: AtomicU64,
    is_any: AtomicBool,
    is_too_large: AtomicBool,
    skipped: AtomicU64,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T: Item> Lines<'_, T> {
    /// Converts whole lines to items; the first line begins `at_bytes` after the header.
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
        match parsed {
            Ok(skipped) => _ = self.skipped.fetch_add(skipped, Ordering::Relaxed),
            Err((from, fault)) => {
                let at_bytes = self.input.header_bytes + at_bytes + from as u64;
                let place = Place {
                    path: self.path,
                    at_bytes,
                    line_end: self.syntax.line_end(),
                };
                let header_bytes = self.input.header_bytes;
                fail(first_not_an_edge(&self.syntax, header_bytes, &fault, place))
            }
        }
        if !items.is_empty() {
            self.largest.fetch_max(largest, Ordering::Relaxed);
            self.is_any.store(true, Ordering::Relaxed);
        }
        items
    }

    /// Converts all cut lines to items.
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
        let (at_bytes, whole) =
            self.borders
                .whole(batch.first, batch.bytes(0), self.syntax.line_end());
        self.items(whole, at_bytes).into_iter()
    }
}

/// If the first fault of a file is within this many bytes from its start, the error reports it, no
/// matter which fault a thread finds first.
const SEARCHED_BYTES: u64 = 64 << 20;

/// The place of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) path: &'p Path,
    /// Bytes before it.
    pub(crate) at_bytes: u64,
    /// The line end of the file.
    pub(crate) line_end: u8,
}

/// The error for the line at a place of a file.
pub(crate) fn not_an_edge(fault: &Fault, place: Place<'_>) -> Error {
    let line = match line_number(place) {
        Some(number) => format!("line {number} is not an edge: {}", fault.0),
        None => format!("a line is not an edge: {}", fault.0),
    };
    let hint = match fault.0.as_str() {
        cause if cause.contains("does not fit in ") => {
            "correct the line, or convert again with that --weight-type (weight_type in Python)"
        }
        cause if cause.contains("whole numbers") => {
            "if ids are names, number them with --relabel (--relabel=text, if the first ids are numbers)"
        }
        cause if cause.contains("a decimal comma") => {
            "write decimals with a point, and use one kind of separator per line; `--from csv` \
             reads fields that are separated by commas"
        }
        cause if cause.ends_with("is negative") => {
            "correct or remove the line; where ids below 0 are names, number them with --relabel=text"
        }
        _ => {
            "correct or remove the line; an edge is `source target`, followed by a weight if --weights is given"
        }
    };
    Error::corrupt(READ, line)
        .path(place.path)
        .offset(place.at_bytes)
        .hint(hint)
}

/// The error for the first line of a file that is not an edge, if this line is near the beginning.
/// Threads read all parts of the file at once, and the line at `place` is the one that a thread
/// found first. Lines begin after the header.
pub(crate) fn first_not_an_edge(
    syntax: &Syntax,
    header_bytes: u64,
    fault: &Fault,
    place: Place<'_>,
) -> Error {
    match earlier_fault(syntax, header_bytes, place) {
        Some((at_bytes, fault)) => not_an_edge(&fault, Place { at_bytes, ..place }),
        None => not_an_edge(fault, place),
    }
}

/// The place and the fault of the first line before `place` that is not an edge.
fn earlier_fault(syntax: &Syntax, header_bytes: u64, place: Place<'_>) -> Option<(u64, Fault)> {
    let mut file = File::open(place.path).ok()?;
    file.seek(SeekFrom::Start(header_bytes)).ok()?;
    let before_bytes = place.at_bytes.checked_sub(header_bytes)?;
    let mut lines = BufReader::new(file).take(before_bytes.min(SEARCHED_BYTES));
    let (mut line, mut at_bytes) = (Vec::new(), header_bytes);
    while lines.read_until(place.line_end, &mut line).ok()? > 0 && line.ends_with(&[place.line_end])
    {
        if let Err((_, fault)) = syntax.each_edge(&line, |_| {}) {
            return Some((at_bytes, fault));
        }
        at_bytes += line.len() as u64;
        line.clear();
    }
    None
}

/// The number of the line that begins at a place of a file.
fn line_number(place: Place<'_>) -> Option<u64> {
    let mut file = File::open(place.path).ok()?.take(place.at_bytes);
    let mut buffer = vec![0; 1 << 16];
    let mut lines = 1;
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(lines),
            found => lines += memchr::memchr_iter(place.line_end, &buffer[..found]).count() as u64,
        }
    }
}

/// Parses a file into two files of items, and counts these; `None` if an id is too large for them.
pub(super) fn parse(
    job: &Job,
    path: &Path,
    header_bytes: u64,
    syntax: Syntax,
    shape: ItemShape,
    to: [&Path; 2],
) -> Result<Option<(Parsed, u64)>> {
    match (shape.is_wide(), shape.weights()) {
        (false, None) => parse_to::<[u32; 2]>(job, path, header_bytes, syntax, to),
        (false, Some(WeightType::F32)) => parse_to::<[u32; 3]>(job, path, header_bytes, syntax, to),
        (false, Some(_)) => parse_to::<[u32; 4]>(job, path, header_bytes, syntax, to),
        (true, None) => parse_to::<[u64; 2]>(job, path, header_bytes, syntax, to),
        (true, Some(_)) => parse_to::<[u64; 3]>(job, path, header_bytes, syntax, to),
    }
}

fn parse_to<T: Item>(
    job: &Job,
    path: &Path,
    header_bytes: u64,
    syntax: Syntax,
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
        skipped: AtomicU64::new(0),
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
        skipped: lines.skipped.load(Ordering::Relaxed),
    };
    Ok(Some((parsed, done.records + cut.len() as u64)))
}
