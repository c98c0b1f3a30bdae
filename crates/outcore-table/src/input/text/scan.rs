//! A file of text looked through once: where its pieces begin, how many rows each has, and a sample
//! of rows.
//!
//! Contract: [`scan`] cuts the file into [`Part`]s of whole records of about [`PART_BYTES`], or of
//! one record that is longer. Where parts begin depends on the bytes of the file alone. Blank lines
//! are no rows, but in a table of one column of CSV, where one is a null. The records at the front
//! of every so many parts are shown to `see` unless they are too long; the first one may have any
//! length that a quarter of the memory holds. The first record of CSV that has a header is given
//! whole. What ends the lines of CSV is found from the
//! front of the file.
//!
//! Bounds: a few MiB that are read ahead, a record of the sample, and some 40 bytes a part. One
//! read of the file.

use std::ops::Range;

use memchr::memchr;
use outcore::Job;
use outcore::read::csv::{BYTE_ORDER_MARK, Framer, line_end};
use outcore_io::{Error, Result};

use super::super::source::DriveFile;
use super::PARSE;

/// Text of a part, about.
const PART_BYTES: u64 = 1 << 20;
/// Parts from which rows are sampled, and text of each.
const SAMPLE_PARTS: u64 = 32;
const SAMPLE_BYTES: u64 = 64 << 10;
/// A header is not longer.
const HEADER_BYTES_MAX: usize = 16 << 20;
/// A record of the sample is not longer, except for the first; others are not looked at.
const SAMPLED_BYTES_MAX: usize = 1 << 20;

/// A stretch of the file with whole records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) at_bytes: u64,
    pub(super) len_bytes: u64,
    pub(super) rows_count: u64,
}

impl Part {
    pub(super) fn range(&self) -> Range<u64> {
        self.at_bytes..self.at_bytes + self.len_bytes
    }
}

/// How records are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Records {
    Csv {
        separator: u8,
        has_header: bool,
        /// What ends a line.
        end: u8,
    },
    Lines,
}

impl Records {
    /// The same with the end of lines that the front of a file has.
    fn ending(self, front: &[u8]) -> Self {
        match self {
            Records::Csv {
                separator,
                has_header,
                ..
            } => Records::Csv {
                separator,
                has_header,
                end: line_end(front, separator),
            },
            Records::Lines => Records::Lines,
        }
    }

    /// What finds the ends of records of CSV.
    pub(super) fn framer(self) -> Framer {
        match self {
            Records::Csv { separator, end, .. } => Framer::ending(separator, end),
            Records::Lines => Framer::new(b','),
        }
    }
}

/// What was found.
#[derive(Debug)]
pub(super) struct Scanned {
    /// How records are told apart, with what ends their lines.
    pub(super) records: Records,
    pub(super) parts: Vec<Part>,
    /// The first record of CSV, as it is.
    pub(super) header: Vec<u8>,
    /// Rows that were shown, and places of the file that they came from.
    pub(super) sampled: (u64, u64),
}

/// Takes a record; the fields of the first one say how many columns there are.
pub(super) type See<'s> = dyn FnMut(&[u8]) -> Result<()> + 's;

/// The state between two stretches.
struct Scan<'s, 'f> {
    records: Records,
    framer: Framer,
    see: &'s mut See<'f>,
    found: Scanned,
    /// Where the next byte is, and where the record and the part began that it belongs to.
    at_bytes: u64,
    record_at_bytes: u64,
    part: Part,
    is_header: bool,
    /// The record that is being read, if it is kept.
    kept: Option<Vec<u8>>,
    /// Whether the record has only blanks so far.
    is_blank: bool,
    /// Whether blank records are rows.
    is_one_column: bool,
    /// Every so many parts.
    step: u64,
    /// The first record of the sample is not longer.
    first_bytes_max: usize,
}

/// Looks through `file`, or as far as its first `rows_max` rows.
///
/// # Errors
/// Corrupt: a quote that does not end, a header that is too long. I/O. What `see` fails with.
pub(super) fn scan(
    job: &Job,
    file: &DriveFile,
    records: Records,
    rows_max: u64,
    see: &mut See<'_>,
) -> Result<Scanned> {
    let mut scan = Scan {
        records,
        framer: records.framer(),
        see,
        found: Scanned {
            records,
            parts: Vec::new(),
            header: Vec::new(),
            sampled: (0, 0),
        },
        at_bytes: 0,
        record_at_bytes: 0,
        part: Part {
            at_bytes: 0,
            len_bytes: 0,
            rows_count: 0,
        },
        is_header: false,
        kept: None,
        is_blank: true,
        is_one_column: false,
        first_bytes_max: ((job.budget.free_bytes() / 4) as usize).max(SAMPLED_BYTES_MAX),
        step: (file.len_bytes() / PART_BYTES / SAMPLE_PARTS).max(1),
    };
    let mut rows_count = 0;
    let all = 0..file.len_bytes();
    let mut is_begin = true;
    file.stream(
        &job.budget,
        &all,
        || job.control.check(),
        |bytes| {
            let mut bytes = bytes;
            if std::mem::take(&mut is_begin) {
                if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
                    return Err(Error::usage(PARSE, "the file is UTF-16 and not UTF-8")
                        .hint("convert it first: iconv -f UTF-16 -t UTF-8 IN > OUT"));
                }
                if let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK) {
                    bytes = rest;
                    scan.at_bytes = BYTE_ORDER_MARK.len() as u64;
                }
                scan.records = records.ending(bytes);
                scan.found.records = scan.records;
                scan.framer = scan.records.framer();
                scan.begin();
            }
            job.control.advance(bytes.len() as u64);
            scan.take(bytes)?;
            rows_count = scan.rows_count();
            Ok(rows_count < rows_max)
        },
    )?;
    scan.finish(rows_count < rows_max)
}

impl Scan<'_, '_> {
    fn begin(&mut self) {
        self.record_at_bytes = self.at_bytes;
        self.part.at_bytes = self.at_bytes;
        if let Records::Csv { has_header, .. } = self.records {
            self.is_header = has_header;
            // The first record tells how many columns there are.
            self.kept = Some(Vec::new());
        } else {
            self.keep_or_not();
        }
    }

    fn rows_count(&self) -> u64 {
        let parts = self.found.parts.iter();
        parts.map(|part| part.rows_count).sum::<u64>() + self.part.rows_count
    }

    /// Decides whether the record that begins is one of the sample.
    fn keep_or_not(&mut self) {
        let number = self.found.parts.len() as u64;
        let is_near = self.at_bytes - self.part.at_bytes < SAMPLE_BYTES;
        self.kept = (number.is_multiple_of(self.step) && is_near).then(Vec::new);
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = match self.records {
                Records::Csv { .. } => self.framer.end_of_record(rest),
                Records::Lines => memchr(b'\n', rest).map(|place| place + 1),
            };
            let piece = &rest[..end.unwrap_or(rest.len())];
            rest = &rest[piece.len()..];
            self.is_blank = self.is_blank && is_blank(piece, self.records);
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(piece);
                if self.is_header && kept.len() > HEADER_BYTES_MAX {
                    return Err(Error::corrupt(PARSE, "the header is longer than 16 MiB")
                        .hint("close the quote in its first line, or use --no-header"));
                }
                let most_bytes = match self.found.sampled.0 {
                    0 => self.first_bytes_max,
                    _ => SAMPLED_BYTES_MAX,
                };
                if !self.is_header && kept.len() > most_bytes {
                    self.kept = None;
                }
            }
            self.at_bytes += piece.len() as u64;
            if end.is_some() {
                self.end_record()?;
            }
        }
        Ok(())
    }

    fn end_record(&mut self) -> Result<()> {
        let kept = self.kept.take();
        let is_before = match self.records {
            Records::Csv { .. } => self.found.header.is_empty() && self.is_blank,
            Records::Lines => false,
        };
        if is_before {
            // Blank lines in front of all records.
            self.part.at_bytes = self.at_bytes;
            self.record_at_bytes = self.at_bytes;
            self.kept = Some(Vec::new());
            return Ok(());
        }
        if std::mem::take(&mut self.is_header) {
            self.found.header = kept.unwrap_or_default();
            self.is_one_column = self.is_of_one_column(&self.found.header);
            self.part.at_bytes = self.at_bytes;
        } else {
            let is_csv = matches!(self.records, Records::Csv { .. });
            if let (true, true, Some(first)) = (is_csv, self.found.header.is_empty(), &kept) {
                self.is_one_column = self.is_of_one_column(first);
                self.found.header.clone_from(first);
            }
            let is_row = !self.is_blank || self.is_one_column;
            self.part.rows_count += u64::from(is_row);
            if let Some(kept) = kept.filter(|_| is_row) {
                (self.see)(&kept)?;
                if self.found.sampled.0 == 0 || self.part.rows_count == 1 {
                    self.found.sampled.1 += 1;
                }
                self.found.sampled.0 += 1;
            }
            if self.at_bytes - self.part.at_bytes >= PART_BYTES {
                self.end_part();
            }
        }
        self.record_at_bytes = self.at_bytes;
        self.is_blank = true;
        self.keep_or_not();
        Ok(())
    }

    fn is_of_one_column(&self, record: &[u8]) -> bool {
        match self.records {
            Records::Csv { separator, .. } => !outcore::read::csv::has_columns(record, separator),
            Records::Lines => false,
        }
    }

    fn end_part(&mut self) {
        self.part.len_bytes = self.at_bytes - self.part.at_bytes;
        if self.part.rows_count > 0 {
            self.found.parts.push(self.part);
        }
        self.part = Part {
            at_bytes: self.at_bytes,
            len_bytes: 0,
            rows_count: 0,
        };
    }

    /// Ends the last record; `is_all` says whether the file was read to its end.
    fn finish(mut self, is_all: bool) -> Result<Scanned> {
        if !is_all {
            // What was begun belongs to nobody.
            self.at_bytes = self.record_at_bytes;
        } else if !self.framer.is_whole() {
            return Err(Error::corrupt(
                PARSE,
                "a quote does not end in the record that begins here",
            )
            .offset(self.record_at_bytes)
            .hint("close the quote, or cut the file off in front of this record"));
        } else if self.at_bytes > self.record_at_bytes {
            self.end_record()?;
        }
        self.end_part();
        Ok(self.found)
    }
}

/// Whether a piece of a record has nothing in it.
pub(super) fn is_blank(piece: &[u8], records: Records) -> bool {
    match records {
        Records::Csv { separator, .. } => outcore::read::csv::is_blank(piece, separator),
        Records::Lines => piece.iter().all(u8::is_ascii_whitespace),
    }
}
