//! CSV in a form that the engine can sort: without headers, and with one line per record.
//!
//! Contract: [`settle`] reads every file once, in one thread, because only the bytes before a
//! newline decide whether it ends a record. With [`Look::Ends`] it reads only the beginning and the
//! end of a long file; the later reader of the whole file then checks whether a record spans lines.
//! - It removes the header of each file and a byte order mark. An unterminated quote that it sees
//!   is an error with file, line and offset.
//! - If a record spans lines, or lines end with CR alone, the files are copied to scratch. In the
//!   copy each record ends with a NUL instead of a newline, or with a newline if the files are
//!   added to a view that has newlines. Otherwise the files are sorted in place.
//! - Blank lines have no columns to order by, and a sort omits them. For a view, and if no column
//!   orders records, a file with blank lines is copied without these lines.
//! - An unterminated last record gets the same end as the others. If that is CR and LF, its file is
//!   copied.
//!
//! Memory: a block of 1 MiB and those of a [`BlockReader`], and the header, of at most 16 MiB.
//!
//! [`SortedCsv`] is the order that results, for the command and for Python. For a view it is a
//! [`LineType`] ([`super::view_files`]).

use std::path::Path;

use memchr::memrchr;
use outcore::job::Job;
use outcore::read::csv::{FRONT_BYTES, first_across_lines, line_end};
use outcore::read::separator::{Beginning, given_separator_note, likely_separator, separator_note};
use outcore::read::text_kind::usual_separator;
use outcore::runs::LineType;
use outcore::sort::lines::LineSortOptions;
use outcore::{Error, Result};

use super::csv::{BYTE_ORDER_MARK, ColumnOptions, Columns, Framer, names};
use super::csv_scan::{BLOCK_BYTES, Copy, Found, READ, scan};
use super::gnu::Ordering;
use super::order::{CsvSpec, OrderSpec};
use super::output::Dress;
use crate::blocks::{BlockReader, BlockWriter};
use crate::content::HEAD_BYTES;
use crate::inputs::{ResolvedInput, Source, bytes_of, explain};
use crate::spool::{LateSpool, Spool};

/// The column with the number of equal records.
pub const COUNT_COLUMN: &str = "count";

/// Bytes at a file's end that are examined.
const TAIL_BYTES: u64 = 64 << 10;

/// How much of a file is examined before it is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The whole file.
    Whole,
    /// The beginning and the end of a long file, if no record in the beginning spans lines. If a
    /// later record does, a sort with [`SortedCsv::options`] fails with an error of kind
    /// [`Corrupt`](outcore::Kind::Corrupt) that names the file; the whole file must then be
    /// examined. Messages of other errors may differ.
    Ends,
}

/// How CSV is sorted; without columns, only how its records are parsed.
#[derive(Debug, Clone, Default)]
pub struct CsvSort {
    /// Columns in the notation of [`ColumnOptions::by`].
    pub by: Vec<String>,
    /// The byte between fields; if not given, detected from a sample of the records.
    pub separator: Option<u8>,
    /// Whether the first line of each file names the columns.
    pub has_header: bool,
    /// Ordering of columns without letters of their own.
    pub global: Ordering,
    /// Ties keep the order of the input.
    pub stable: bool,
    /// Seed of `R`.
    pub seed: u64,
}

/// The order of the files, and the form of the output.
#[derive(Debug)]
pub struct SortedCsv {
    /// The order.
    pub order: Columns,
    /// Turns the sorted lines into CSV again.
    pub dress: Dress,
    /// The byte between fields.
    separator: u8,
    /// Whether it is only assumed that no record spans lines.
    is_assumed: bool,
}

impl CsvSort {
    /// Examines all files and prepares them for the engine, to be sorted with
    /// [`SortedCsv::options`]. Copies go to `spool`.
    ///
    /// # Errors
    /// An unterminated quote, different headers, a NUL in records that span lines, missing columns.
    pub fn settle(
        &self,
        job: &Job,
        files: &mut [Source],
        spool: LateSpool<'_, impl Fn() -> Result<Spool>>,
        look: Look,
    ) -> Result<SortedCsv> {
        let separator = separator_of(job, self.separator, files)?;
        let how = How {
            separator,
            has_header: self.has_header,
            look,
            drops_blanks: self.by.is_empty(),
        };
        let (dress, is_assumed) = settle(job, files, spool, how, None)?;
        let names = match self.has_header {
            true => Some(names(&dress.header, separator)?),
            false => None,
        };
        let order = Columns::new(&ColumnOptions {
            by: &self.by,
            names: names.as_deref(),
            separator,
            global: self.global,
            stable: self.stable,
            seed: self.seed,
        })?;
        if !self.by.is_empty() {
            note_numbers(job, &order, files, &dress)?;
        }
        Ok(SortedCsv {
            order,
            dress,
            separator,
            is_assumed,
        })
    }
}

impl CsvSort {
    /// [`CsvSort::settle`] for inputs that have been examined.
    ///
    /// # Errors
    /// As [`CsvSort::settle`].
    pub(crate) fn settle_inputs(
        &self,
        job: &Job,
        inputs: &mut [ResolvedInput],
        spool: &mut Option<Spool>,
        make: impl Fn() -> Result<Spool>,
    ) -> Result<SortedCsv> {
        let sources = inputs.iter().map(|input| input.source.clone());
        let mut files: Vec<Source> = sources.collect();
        let found = self.settle(job, &mut files, LateSpool { spool, make }, Look::Whole)?;
        for (input, file) in inputs.iter_mut().zip(files) {
            input.data_bytes = bytes_of(std::slice::from_ref(&file))?;
            input.header_bytes = file.start_bytes;
            input.source = file;
        }
        Ok(found)
    }
}

impl SortedCsv {
    /// Inserts the name of a column at the front of the header, if there is a header.
    ///
    /// # Errors
    /// Usage: a column has this name already.
    pub fn put_column_first(&mut self, name: &str) -> Result<()> {
        let header = &mut self.dress.header;
        if header.is_empty() || header == BYTE_ORDER_MARK {
            return Ok(());
        }
        if names(header, self.separator)?
            .iter()
            .any(|known| known == name)
        {
            let cause = format!("the input already has a column `{name}`");
            return Err(Error::usage(READ, cause).hint("rename it in the header first"));
        }
        let mark_bytes = match header.starts_with(BYTE_ORDER_MARK) {
            true => BYTE_ORDER_MARK.len(),
            false => 0,
        };
        let column = name.bytes().chain([self.separator]);
        header.splice(mark_bytes..mark_bytes, column);
        Ok(())
    }

    /// The byte that ends a line in the prepared files.
    pub fn terminator(&self) -> u8 {
        match self.dress.is_framed {
            true => 0,
            false => b'\n',
        }
    }

    /// `options` for the prepared files; counts are a column.
    pub fn options(&self, options: LineSortOptions) -> LineSortOptions {
        let options = LineSortOptions {
            count_separator: options.count.then_some(self.separator),
            ..options
        };
        match self.dress.is_framed {
            true => LineSortOptions {
                terminator: 0,
                inner_end: Some(b'\n'),
                csv_separator: None,
                ..options
            },
            false => LineSortOptions {
                terminator: b'\n',
                inner_end: None,
                csv_separator: self.is_assumed.then_some(self.separator),
                ..options
            },
        }
    }
}

/// The given byte between fields, or the one detected in a sample of the first file with some text.
/// A note reports a detected byte other than the usual one.
///
/// # Errors
/// A file that cannot be read.
fn separator_of(job: &Job, given: Option<u8>, files: &[Source]) -> Result<u8> {
    for file in files {
        let head = file.head(HEAD_BYTES)?;
        if head.is_empty() {
            continue;
        }
        let is_all = head.len() < HEAD_BYTES;
        let Some(given) = given else {
            return Ok(separator_in(job, &file.name, &head, is_all));
        };
        let sample = Beginning {
            head: &head,
            is_all,
        };
        let note = given_separator_note(&file.name, given, &sample);
        note.into_iter().for_each(|note| job.control.note(note));
        return Ok(given);
    }
    if let Some(given) = given {
        return Ok(given);
    }
    let first = files.first().map_or(Path::new(""), |file| &file.name);
    Ok(usual_separator(first))
}

/// Notes that numbers of the first file with records are compared as text, and not in their order.
fn note_numbers(job: &Job, order: &Columns, files: &[Source], dress: &Dress) -> Result<()> {
    let end = if dress.is_framed { 0 } else { b'\n' };
    for file in files {
        let head = file.head(HEAD_BYTES)?;
        let is_cut = head.len() == HEAD_BYTES;
        let whole = memrchr(end, &head).filter(|_| is_cut);
        let lines = head[..whole.unwrap_or(head.len())].split(|byte| *byte == end);
        if head.is_empty() {
            continue;
        }
        if let Some(note) = order.numbers_as_text(lines) {
            job.control.note(note);
        }
        break;
    }
    Ok(())
}

/// The byte between the fields of a file that begins with `head`; with `is_all` the file has no
/// more bytes.
pub(super) fn separator_in(job: &Job, name: &Path, head: &[u8], is_all: bool) -> u8 {
    let usual = usual_separator(name);
    let found = likely_separator(head, usual, is_all);
    if found != usual {
        job.control.note(separator_note(name, found));
    }
    found
}

/// The lines of a view of CSV in the order of `spec`, which also has the byte between fields; as
/// [`CsvSort::settle`].
///
/// # Errors
/// As [`CsvSort::settle`].
pub(super) fn settle_view(
    spec: OrderSpec,
    has_header: bool,
    job: &Job,
    files: &mut [Source],
    spool: LateSpool<'_, impl Fn() -> Result<Spool>>,
) -> Result<LineType> {
    let separator = separator_of(job, spec.separator, files)?;
    let how = How {
        separator,
        has_header,
        look: Look::Whole,
        drops_blanks: true,
    };
    let (dress, _) = settle(job, files, spool, how, None)?;
    let names = has_header.then(|| names(&dress.header, separator));
    let names = names.transpose()?;
    let spec = OrderSpec {
        separator: None,
        csv: Some(CsvSpec { separator, names }),
        ..spec
    };
    Ok(LineType {
        file_terminator: b'\n',
        front: dress.header.into(),
        ..spec.to_lines(if dress.is_framed { 0 } else { b'\n' })?
    })
}

/// Prepares files that are added to a view of CSV. `csv` defines the byte between fields; `lines`
/// defines the end of records and the header.
///
/// # Errors
/// As [`CsvSort::settle`]; usage for a different header, and for records that span lines if no
/// record of the view does.
pub(super) fn settle_further(
    csv: &CsvSpec,
    lines: &LineType,
    job: &Job,
    files: &mut [Source],
    spool: LateSpool<'_, impl Fn() -> Result<Spool>>,
) -> Result<()> {
    let known = Dress {
        header: lines.front.to_vec(),
        is_framed: lines.other_end().is_some(),
        ..Dress::default()
    };
    let how = How {
        separator: csv.separator,
        has_header: csv.names.is_some(),
        look: Look::Whole,
        drops_blanks: true,
    };
    settle(job, files, spool, how, Some(known)).map(|_| ())
}

/// How files are prepared.
#[derive(Clone, Copy)]
struct How {
    /// The byte between fields.
    separator: u8,
    has_header: bool,
    look: Look,
    /// Whether blank lines are dropped here because no sort drops them later.
    drops_blanks: bool,
}

/// Results of the first pass over a file, for the second.
struct Looked {
    header_bytes: u64,
    missing_end: Option<&'static [u8]>,
    framer: Framer,
    is_cr: bool,
    /// Whether it has blank lines that are dropped.
    drops_blanks: bool,
}

/// Prepares files. Returns the form of lines in the output, and whether records may still span
/// lines. Lines end with NUL if the output is framed. If the files are added to others, those are
/// `known`.
fn settle(
    job: &Job,
    files: &mut [Source],
    mut spool: LateSpool<'_, impl Fn() -> Result<Spool>>,
    how: How,
    known: Option<Dress>,
) -> Result<(Dress, bool)> {
    let How {
        separator,
        has_header,
        look,
        ..
    } = how;
    let mut is_assumed = false;
    let (is_added, mut dress) = (known.is_some(), known.unwrap_or_default());
    let was_framed = dress.is_framed;
    let mut all_looked = Vec::new();
    let mut is_crlf = false;
    let originals = files.to_vec();
    let mut first = None;
    job.control
        .begin_phase("look at records", bytes_of(&originals)?);
    for (file, original) in files.iter_mut().zip(&originals) {
        let glance = match look {
            Look::Ends => glance(job, original, separator, has_header)?,
            Look::Whole => None,
        };
        is_assumed |= glance.is_some();
        let mut framer = Framer::new(separator);
        let found = match glance {
            Some(found) => found,
            None => {
                framer = framer_of(job, original, separator)?;
                scan(job, original, framer, has_header, None)?
            }
        };
        dress.is_framed |= found.has_inner_lines || found.is_cr && !is_added;
        if is_added && dress.is_framed && !was_framed {
            let cause = "a record spans lines, but no record of the view does";
            return Err(Error::usage(READ, cause)
                .path(&original.name)
                .hint("build a view of all files again"));
        }
        let (names, known) = (names_of(&found.header), names_of(&dress.header));
        let is_first = known.is_empty() && !is_added;
        if !names.is_empty() && !is_first && names != known {
            return Err(match first {
                Some(first) => other_header(&original.name, first),
                None => Error::usage(READ, "its header differs from that of the view")
                    .path(&original.name)
                    .hint("add files of the same columns"),
            });
        }
        let header_bytes = found.header.len() as u64;
        file.start_bytes += header_bytes;
        let is_open = has_header && !names.is_empty() && !found.header.ends_with(b"\n");
        all_looked.push(Looked {
            // In a copy, the header gets a line end.
            header_bytes: header_bytes + u64::from(is_open),
            missing_end: found.missing_end(),
            framer,
            is_cr: found.is_cr,
            drops_blanks: how.drops_blanks && found.has_blanks,
        });
        is_crlf |= found.is_crlf;
        if is_first {
            dress.header = found.header;
            first = Some(original.name.as_path());
        }
    }
    if has_header && !names_of(&dress.header).is_empty() && !dress.header.ends_with(b"\n") {
        dress
            .header
            .extend_from_slice(if is_crlf { b"\r\n" } else { b"\n" });
    }
    for ((file, original), looked) in files.iter_mut().zip(&originals).zip(all_looked) {
        let is_changed = dress.is_framed || looked.is_cr || looked.drops_blanks;
        if !is_changed && looked.missing_end.is_none() {
            continue;
        }
        let spool = spool.get()?;
        // Headers are also copied, so that line numbers are those of the original file.
        *file = spool.fill(job, original, |writer| {
            match (is_changed, looked.missing_end) {
                (false, Some(end)) => copy_ended(job, original, end, writer),
                _ => {
                    let copy = Copy {
                        writer,
                        end: if dress.is_framed { 0 } else { b'\n' },
                        drops_blanks: looked.drops_blanks,
                    };
                    scan(job, original, looked.framer, has_header, Some(copy)).map(|_| ())
                }
            }
        })?;
        file.start_bytes = looked.header_bytes;
    }
    let is_assumed = is_assumed && !dress.is_framed;
    Ok((dress, is_assumed))
}

/// Copies a file and appends `end`.
fn copy_ended(job: &Job, source: &Source, end: &[u8], writer: &mut BlockWriter) -> Result<()> {
    let failed = |error| explain([source], error);
    let mut file = BlockReader::open(job, &source.path, source.start_bytes).map_err(failed)?;
    loop {
        job.control.check()?;
        match file.take(writer.room()?).map_err(failed)? {
            0 => return writer.put(end),
            got => writer.advance(got)?,
        }
    }
}

/// A header without its end of line (which may be missing in a file of one line) and without a byte
/// order mark.
pub(super) fn names_of(header: &[u8]) -> &[u8] {
    let header = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
    let header = header.strip_suffix(b"\n").unwrap_or(header);
    header.strip_suffix(b"\r").unwrap_or(header)
}

/// The error for a file whose header differs from that of the first one.
pub(super) fn other_header(name: &Path, first: &Path) -> Error {
    let cause = format!("its header differs from the header of {}", first.display());
    Error::usage(READ, cause)
        .path(name)
        .hint("give files of the same columns, or use --no-header")
}

/// Examines the beginning and the end of a file. Returns `None` if these do not give the same
/// results as [`scan`], assuming that no record between them spans lines.
fn glance(job: &Job, source: &Source, separator: u8, has_header: bool) -> Result<Option<Found>> {
    let data_bytes = source.len_bytes()?.saturating_sub(source.start_bytes);
    if data_bytes <= 2 * BLOCK_BYTES as u64 {
        return Ok(None);
    }
    let _block = job
        .budget
        .reserve("CSV that is looked at", BLOCK_BYTES as u64)?;
    let mut block = vec![0; BLOCK_BYTES];
    let front = read_from(job, source, source.start_bytes, &mut block)?;
    let mark_bytes = match front.starts_with(BYTE_ORDER_MARK) {
        true => BYTE_ORDER_MARK.len(),
        false => 0,
    };
    let header_bytes = match has_header {
        true => Framer::new(separator).end_of_record(&front[mark_bytes..]),
        false => Some(0),
    };
    let (Some(header_bytes), Some(newline)) = (header_bytes, memrchr(b'\n', front)) else {
        return Ok(None);
    };
    if first_across_lines(&front[mark_bytes..=newline], separator).is_some() {
        return Ok(None);
    }
    let header = front[..mark_bytes + header_bytes].to_vec();
    let end_bytes = source.start_bytes + data_bytes;
    let end = read_from(job, source, end_bytes - TAIL_BYTES, &mut block)?;
    let Some(newline) = memrchr(b'\n', end).filter(|newline| *newline > 0) else {
        return Ok(None);
    };
    let found = Found {
        header,
        has_inner_lines: false,
        is_crlf: end[newline - 1] == b'\r',
        is_open: !end.ends_with(b"\n") && !end.ends_with(b"\r"),
        ..Found::default()
    };
    // A file that must be copied is read as a whole anyway.
    Ok(found.missing_end().is_none().then_some(found))
}

/// The parser for the records of a file, whose beginning determines how its lines end.
fn framer_of(job: &Job, source: &Source, separator: u8) -> Result<Framer> {
    let mut front = vec![0; FRONT_BYTES];
    let front = read_from(job, source, source.start_bytes, &mut front)?;
    Ok(Framer::ending(separator, line_end(front, separator)))
}

/// Reads the bytes of a file that start at `from_bytes` into `block`, as many as there are.
fn read_from<'a>(
    job: &Job,
    source: &Source,
    from_bytes: u64,
    block: &'a mut [u8],
) -> Result<&'a [u8]> {
    let failed = |error| explain([source], error);
    let mut file = BlockReader::open(job, &source.path, from_bytes).map_err(failed)?;
    let mut read_bytes = 0;
    while read_bytes < block.len() {
        match file.take(&mut block[read_bytes..]).map_err(failed)? {
            0 => break,
            got => read_bytes += got,
        }
    }
    Ok(&block[..read_bytes])
}
