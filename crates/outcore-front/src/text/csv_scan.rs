//! One pass over a file of CSV: examines it, and optionally copies it with other record ends.
//!
//! Contract: [`scan`] reads a file from beginning to end, because only the bytes before a newline
//! decide whether it ends a record. In a [`Copy`], each record ends with the requested byte, and
//! blank lines are dropped on request. An unterminated quote is an error with file, line and
//! offset.
//!
//! Bounds: a block of 1 MiB and those of a [`BlockReader`]; the header, of at most 16 MiB; a blank
//! line of at most 1 MiB.

use std::path::Path;

use memchr::{memchr, memchr_iter};
use outcore::job::Job;
use outcore::read::csv::{has_columns, is_blank};
use outcore::{Error, Result};

use super::csv::{BYTE_ORDER_MARK, Framer};
use crate::blocks::{BlockReader, BlockWriter};
use crate::inputs::{Source, explain};

pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// A longer header probably has an unterminated quote.
pub(super) const HEADER_BYTES_MAX: usize = 16 << 20;
pub(super) const READ: &str = "read CSV";

/// Results of the examination of a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) header: Vec<u8>,
    /// Whether a record spans lines.
    pub(super) has_inner_lines: bool,
    /// Whether records end with CR and LF; the last terminated record decides for an unterminated
    /// one.
    pub(super) is_crlf: bool,
    /// Whether the last record is unterminated.
    pub(super) is_open: bool,
    /// Whether lines end with CR alone.
    pub(super) is_cr: bool,
    /// Whether there are blank lines and records have several fields.
    pub(super) has_blanks: bool,
}

impl Found {
    /// The bytes that other records have before their newline and that the unterminated last record
    /// lacks. Every job adds the newline itself.
    pub(super) fn missing_end(&self) -> Option<&'static [u8]> {
        (self.is_open && self.is_crlf).then_some(b"\r")
    }
}

/// How a file is copied.
pub(super) struct Copy<'w> {
    pub(super) writer: &'w mut BlockWriter,
    /// The byte after each record.
    pub(super) end: u8,
    pub(super) drops_blanks: bool,
}

/// The error for an unterminated header.
pub(super) fn too_long_a_header(name: &Path) -> Error {
    Error::corrupt(READ, "its header is longer than 16 MiB")
        .path(name)
        .hint("close the quote in its first line, or use --no-header")
}

/// Tracks the blank lines of a file.
#[derive(Default)]
struct Blanks {
    /// Whether records have several fields, decided by the first one that is not blank.
    is_wide: Option<bool>,
    /// Whether there are blank lines.
    are_there: bool,
    /// Whether the current record has content.
    is_filled: bool,
    /// The bytes of the current record, as long as the record is blank and has not been copied.
    held: Vec<u8>,
}

impl Blanks {
    /// Examines a piece of a record.
    fn see(&mut self, piece: &[u8], separator: u8) {
        self.is_filled |= !is_blank(piece, separator);
        if self.is_filled && self.is_wide.is_none() {
            self.is_wide = Some(has_columns(piece, separator));
        }
    }

    /// Copies an examined piece, unless the record is a blank line.
    fn copy(&mut self, copy: &mut Copy<'_>, piece: &[u8], is_end: bool) -> Result<()> {
        // A line of this length is not blank.
        self.is_filled |= self.held.len() > BLOCK_BYTES;
        if !copy.drops_blanks || self.is_filled {
            self.release(copy.writer)?;
            return copy.writer.put(piece);
        }
        match is_end {
            true => self.held.clear(),
            false => self.held.extend_from_slice(piece),
        }
        Ok(())
    }

    fn release(&mut self, writer: &mut BlockWriter) -> Result<()> {
        writer.put(&self.held)?;
        self.held.clear();
        Ok(())
    }

    /// Ends a record. Returns whether it is a blank line.
    fn end_record(&mut self, is_header: bool) -> bool {
        let is_blank = !self.is_filled && !is_header;
        self.are_there |= is_blank;
        self.is_filled = false;
        is_blank
    }

    /// Whether there are blank lines that are no records, because records have several fields.
    fn are_left_out(&self) -> bool {
        self.are_there && self.is_wide == Some(true)
    }
}

/// Fails for a NUL in `bytes`, which begin at offset `begin` of a file.
fn check_no_nul(source: &Source, bytes: &[u8], begin: u64) -> Result<()> {
    let Some(nul) = memchr(0, bytes) else {
        return Ok(());
    };
    let cause = "a record spans lines, and the file contains a NUL, which outcore needs as the end \
                 of records";
    Err(Error::corrupt(READ, cause)
        .path(&source.name)
        .offset(begin + nul as u64)
        .hint("remove NULs, for example with tr -d '\\0'"))
}

/// The error for an unterminated record that begins at line `line`, byte `begin`.
fn open_quote(source: &Source, line: u64, begin: u64) -> Error {
    let cause = format!("the record at line {line} has a quote that is not closed");
    Error::corrupt(READ, cause)
        .path(&source.name)
        .offset(begin)
        .hint(
            "close the quote; or, if quotes have no meaning in this file, sort lines with -t and \
             -k",
        )
}

/// Reads a file to its end. On request, copies it with other record ends.
pub(super) fn scan(
    job: &Job,
    source: &Source,
    mut framer: Framer,
    has_header: bool,
    mut copy: Option<Copy<'_>>,
) -> Result<Found> {
    let control = &job.control;
    let failed = |error| explain([source], error);
    let mut file = BlockReader::open(job, &source.path, source.start_bytes).map_err(failed)?;
    let ends_with_newlines = framer.line_end() == b'\n';
    let mut found = Found {
        is_cr: !ends_with_newlines,
        ..Found::default()
    };
    let mut is_header = has_header;
    let mut is_begin = true;
    let _block = job
        .budget
        .reserve("CSV that is looked at", BLOCK_BYTES as u64)?;
    let mut block = vec![0; BLOCK_BYTES];
    // The first line and byte of the current record, and whether part of it has been read.
    let (mut line, mut begin, mut is_begun) = (1_u64, source.start_bytes, false);
    let (mut lines, mut block_begin) = (0_u64, source.start_bytes);
    let mut last = 0;
    let mut blanks = Blanks::default();
    loop {
        control.check()?;
        let got = file.take(&mut block).map_err(failed)?;
        if got == 0 {
            break;
        }
        let bytes = &mut block[..got];
        if matches!(copy, Some(Copy { end: 0, .. })) {
            check_no_nul(source, bytes, block_begin)?;
        }
        let mut at = 0;
        if std::mem::take(&mut is_begin) && bytes.starts_with(BYTE_ORDER_MARK) {
            at = BYTE_ORDER_MARK.len();
            found.header.extend_from_slice(BYTE_ORDER_MARK);
            if let Some(copy) = &mut copy {
                copy.writer.put(BYTE_ORDER_MARK)?;
            }
        }
        while at < bytes.len() {
            let from = at;
            let end = framer.end_of_record(&bytes[at..]).map(|end| at + end);
            let piece = &bytes[at..end.unwrap_or(got)];
            let newlines = memchr_iter(framer.line_end(), piece).count() as u64;
            lines += newlines;
            // Counts newlines inside the record, but not the newline that ends the record.
            found.has_inner_lines |= newlines > u64::from(end.is_some());
            // A byte that does not end a line here would end one in a copy.
            found.has_inner_lines |= !ends_with_newlines && memchr(b'\n', piece).is_some();
            if is_header {
                found.header.extend_from_slice(piece);
                if found.header.len() > HEADER_BYTES_MAX {
                    return Err(too_long_a_header(&source.name));
                }
            }
            blanks.see(piece, framer.separator());
            is_begun = true;
            at = end.unwrap_or(got);
            if let Some(end) = end {
                let before = bytes.get(end.wrapping_sub(2)).copied().unwrap_or(last);
                found.is_crlf = ends_with_newlines && before == b'\r';
                if let Some(copy) = &copy {
                    bytes[end - 1] = copy.end;
                }
            }
            if let Some(copy) = &mut copy {
                match is_header {
                    true => copy.writer.put(&bytes[from..at])?,
                    false => blanks.copy(copy, &bytes[from..at], end.is_some())?,
                }
            }
            if end.is_some() {
                blanks.end_record(is_header);
                is_header = false;
                (line, begin, is_begun) = (lines + 1, block_begin + at as u64, false);
            }
        }
        last = bytes[got - 1];
        block_begin += got as u64;
        control.advance(got as u64);
    }
    if !framer.is_whole() {
        return Err(open_quote(source, line, begin));
    }
    found.is_open = is_begun && last != b'\r';
    if let (false, Some(end)) = (ends_with_newlines, found.header.last_mut())
        && *end == b'\r'
    {
        *end = b'\n';
    }
    let is_blank = is_begun && blanks.end_record(is_header);
    found.has_blanks = blanks.are_left_out();
    if let Some(copy) = copy
        && is_begun
        && !(is_blank && copy.drops_blanks)
    {
        blanks.release(copy.writer)?;
        copy.writer.put(found.missing_end().unwrap_or_default())?;
        copy.writer.put(&[copy.end])?;
    }
    Ok(found)
}
