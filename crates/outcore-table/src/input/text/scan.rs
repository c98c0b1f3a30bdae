//! Scans a text file once, for the start and the row count of each piece and for a sample of rows.
//!
//! Contract: [`scan`] cuts the file into [`Part`]s of whole records, each of about [`PART_BYTES`]
//! or with one longer record. The starts of parts depend only on the file's bytes. Blank lines are
//! not rows, except in a CSV table with one column, where a blank line is a null. Records at the
//! start of every n-th part are passed to `see` unless they are too long; the first record may be
//! as long as a quarter of the memory. If CSV has a header, its first record is returned whole. The
//! line ending of CSV is detected at the start of the file.
//!
//! Bounds: a few MiB of read-ahead, one record of the sample, and about 40 bytes per part. One read
//! of the file.

use std::ops::Range;

use memchr::memchr;
use outcore::Job;
use outcore::read::csv::{BYTE_ORDER_MARK, Framer, line_end};
use outcore_io::{Error, Result};

use super::super::source::DriveFile;
use super::PARSE;

/// The approximate bytes of a part.
const PART_BYTES: u64 = 1 << 20;
/// Parts from which rows are sampled, and the bytes of each.
const SAMPLE_PARTS: u64 = 32;
const SAMPLE_BYTES: u64 = 64 << 10;
/// The longest header.
const HEADER_BYTES_MAX: usize = 16 << 20;
/// The longest record of a sample, except for the first; longer ones are ignored.
const SAMPLED_BYTES_MAX: usize = 1 << 20;

/// A range of the file with whole records.
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

/// How the file is split into records.
#[derive(Debug, Clone, Copy)]
pub(super) enum Records {
    Csv {
        separator: u8,
        has_header: bool,
        /// The line ending.
        end: u8,
    },
    Lines,
}

impl Records {
    /// Sets the line ending that is found at the start of a file.
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

    /// Creates a framer that finds the ends of CSV records.
    pub(super) fn framer(self) -> Framer {
        match self {
            Records::Csv { separator, end, .. } => Framer::ending(separator, end),
            Records::Lines => Framer::new(b','),
        }
    }
}

/// The result of a scan.
#[derive(Debug)]
pub(super) struct Scanned {
    /// How the file is split into records, with the line ending.
    pub(super) records: Records,
    pub(super) parts: Vec<Part>,
    /// The first record of CSV, unchanged.
    pub(super) header: Vec<u8>,
    /// The number of sampled rows, and of places in the file where they are.
    pub(super) sampled: (u64, u64),
}

/// Takes a record. The fields of the first one define the number of columns.
pub(super) type See<'s> = dyn FnMut(&[u8]) -> Result<()> + 's;

/// The state between two buffers.
struct Scan<'s, 'f> {
    records: Records,
    framer: Framer,
    see: &'s mut See<'f>,
    found: Scanned,
    /// Offsets of the next byte, of the current record, and of the current part.
    at_bytes: u64,
    record_at_bytes: u64,
    part: Part,
    is_header: bool,
    /// The bytes of the current record, if it is kept.
    kept: Option<Vec<u8>>,
    /// Whether the record is blank so far.
    is_blank: bool,
    /// Whether blank records are rows.
    is_one_column: bool,
    /// Every `step`-th part is sampled.
    step: u64,
    /// The longest first record of the sample.
    first_bytes_max: usize,
}

/// Scans `file`, or only its first `rows_max` rows.
///
/// # Errors
/// Corrupt: an unclosed quote, a header that is too long. I/O. Errors of `see`.
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
            // The first record defines the number of columns.
            self.kept = Some(Vec::new());
        } else {
            self.keep_or_not();
        }
    }

    fn rows_count(&self) -> u64 {
        let parts = self.found.parts.iter();
        parts.map(|part| part.rows_count).sum::<u64>() + self.part.rows_count
    }

    /// Decides whether the sample includes the next record.
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
            // Blank lines before the first record.
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

    /// Ends the last record; `is_all` is true if the file was read to its end.
    fn finish(mut self, is_all: bool) -> Result<Scanned> {
        if !is_all {
            // An incomplete record is left out.
            self.at_bytes = self.record_at_bytes;
        } else if !self.framer.is_whole() {
            return Err(Error::corrupt(
                PARSE,
                "a quote is not closed in the record that begins here",
            )
            .offset(self.record_at_bytes)
            .hint("close the quote, or truncate the file before this record"));
        } else if self.at_bytes > self.record_at_bytes {
            self.end_record()?;
        }
        self.end_part();
        Ok(self.found)
    }
}

/// Whether a piece of a record is blank.
pub(super) fn is_blank(piece: &[u8], records: Records) -> bool {
    match records {
        Records::Csv { separator, .. } => outcore::read::csv::is_blank(piece, separator),
        Records::Lines => piece.iter().all(u8::is_ascii_whitespace),
    }
}
