//! Reads the lines or records of files and streams, one after another, in input order.
//!
//! Contract: a [`RecordReader`] returns the records of all inputs in order and in pieces, so that a
//! record may be longer than memory. It makes no copy on scratch. Plain files are read through the
//! job's device, no further ahead than [`BlockReader`] does; compressed files and streams are
//! decompressed while they are read. Inputs of lines are checked first ([`crate::content`]). An
//! unterminated last line counts as a line; an incomplete last record is an error.
//! - CSV: quoted newlines belong to their record. The header and a byte order mark are removed from
//!   every file, and headers must be equal ([`RecordReader::header`]). An unterminated last record
//!   gets the end of the other records in its file. Blank lines are no records if there are several
//!   columns.
//! - JSON lines: a byte order mark and blank lines are skipped.
//! - Other lines: those of a [`HeaderRule`] are removed from every file, and must be equal.
//! - FASTQ: each record is checked, and blank lines between records are skipped.
//!
//! Memory: five blocks of 1 MiB, and the header of CSV, of at most 16 MiB. A cancellation takes
//! effect within 50 ms.

use std::fmt;

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use memchr::{memchr, memchr_iter, memrchr};
use outcore::job::{Control, Job};
use outcore::key::NpyHeader;
use outcore::read::csv::{FRONT_BYTES, has_columns, is_blank, line_end};
use outcore::read::fastq;
use outcore::{Error, Input, Result};

use crate::blocks::BlockReader;
use crate::compress::{Compression, Decoder};
use crate::content::{Content, HEAD_BYTES, Recognition};
use crate::inputs::{Source, look, look_at_lines};
use crate::streams::StreamReader;
use crate::text::csv::{BYTE_ORDER_MARK, Framer};
use crate::text::csv_files::{names_of, other_header, separator_in};
use crate::text::csv_scan::{HEADER_BYTES_MAX, too_long_a_header};
use crate::text::header::{HeaderRule, is_same, lines_in, other_lines, too_long};

/// Bytes that are read at a time.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of a file from which the separator of its fields is detected.
const SEPARATOR_SAMPLE_BYTES: usize = 64 << 10;

/// Defines where a record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// After this byte.
    Terminator(u8),
    /// After this byte; a byte order mark at the beginning of a file and blank lines are no
    /// records.
    Json(u8),
    /// After this many bytes.
    Bytes(usize),
    /// At the end of a record of CSV.
    Csv {
        /// The byte between fields; if not given, detected from a sample of the records.
        separator: Option<u8>,
        /// Whether the first record of each file names the columns.
        has_header: bool,
    },
    /// After the fourth line of a record of FASTQ.
    Fastq,
}

impl Frame {
    /// The byte after each record, if there is one.
    pub fn end(self) -> Option<u8> {
        match self {
            Frame::Terminator(terminator) | Frame::Json(terminator) => Some(terminator),
            Frame::Csv { .. } | Frame::Fastq => Some(b'\n'),
            Frame::Bytes(_) => None,
        }
    }
}

/// A part of a record, or a whole record.
#[derive(Debug)]
pub struct RecordPart<'a> {
    /// Its bytes, without the end of the record.
    pub bytes: &'a [u8],
    /// Whether the record ends with it.
    pub is_last: bool,
}

/// The place of a piece.
struct Found {
    bytes: std::ops::Range<usize>,
    is_last: bool,
}

enum Stream<'a> {
    File(Box<BlockReader>),
    /// An input whose length the system does not report, such as files of /proc, or a pipe.
    Endless(Box<dyn Read + 'a>),
    Packed(Box<Unpacked<'a>>),
}

/// A compressed file or stream, whose first bytes have been checked.
struct Unpacked<'a> {
    decoder: Decoder<Box<dyn Read + 'a>>,
    head: Cursor<Vec<u8>>,
}

/// Reads the records of inputs.
pub struct RecordReader<'a> {
    job: &'a Job,
    sources: std::vec::IntoIter<Source>,
    current: Option<(Source, Stream<'a>)>,
    frame: Frame,
    recognition: Recognition,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    from: usize,
    to: usize,
    /// For the current record: bytes returned so far, and its offset in its file.
    begun_bytes: u64,
    begun_at: u64,
    framer: Framer,
    fastq: fastq::Framer,
    /// Number of complete records of FASTQ in the current file.
    file_records: u64,
    /// Whether blank lines of the current file are skipped: it is CSV with several columns, JSON
    /// lines or FASTQ.
    skips_blanks: bool,
    /// The last byte of a record that was returned.
    last_byte: u8,
    /// Whether the last terminated record of CSV in this file ended with a carriage return and
    /// newline.
    is_crlf: bool,
    header: Vec<u8>,
    /// The lines at the front of a file that are its header.
    rule: HeaderRule,
    /// Bytes of data that are skipped before anything is read.
    skipped_bytes: u64,
    /// The file to which the header belongs.
    header_of: Option<PathBuf>,
    /// Bytes read so far, decompressed.
    pub read_bytes: u64,
}

impl fmt::Debug for RecordReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("RecordReader");
        text.field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl<'a> RecordReader<'a> {
    /// Reads nothing yet. If records are lines, `recognition` defines which data are accepted as
    /// lines.
    pub fn new(job: &'a Job, sources: Vec<Source>, frame: Frame, recognition: Recognition) -> Self {
        RecordReader {
            job,
            sources: sources.into_iter(),
            current: None,
            frame,
            recognition,
            buffer: vec![0; BLOCK_BYTES],
            from: 0,
            to: 0,
            begun_bytes: 0,
            begun_at: 0,
            framer: Framer::new(b','),
            fastq: fastq::Framer::default(),
            file_records: 0,
            skips_blanks: false,
            last_byte: 0,
            is_crlf: false,
            header: Vec::new(),
            rule: HeaderRule::default(),
            skipped_bytes: 0,
            header_of: None,
            read_bytes: 0,
        }
    }

    /// Makes the reader skip the lines of `rule`, which [`RecordReader::header`] then returns.
    #[must_use]
    pub fn with_header(self, rule: HeaderRule) -> Self {
        RecordReader { rule, ..self }
    }

    /// Tells the reader the `header` that was already removed from the files.
    #[must_use]
    pub fn after_header(self, header: Vec<u8>) -> Self {
        RecordReader { header, ..self }
    }

    /// Moves to the next file, even an empty one. Returns the offset of its first record.
    pub(super) fn next_begin(&mut self) -> Result<u64> {
        self.current = None;
        (self.from, self.to, self.begun_bytes) = (0, 0, 0);
        self.open_one()?;
        Ok(self.begun_at)
    }

    /// The end of its records.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Skips the first `bytes` bytes of the data before anything is read. Files must not be
    /// compressed. The first record that is read may then be only the end of a record.
    pub fn skip_bytes(&mut self, bytes: u64) {
        self.skipped_bytes = bytes;
    }

    /// The bytes before the records in the output: the header of CSV, with its end, of the first
    /// nonempty file, or the lines of a [`HeaderRule`]. For all other inputs it is empty, and
    /// nothing is read.
    ///
    /// # Errors
    /// As [`RecordReader::next_piece`].
    pub fn header(&mut self) -> Result<&[u8]> {
        if matches!(self.frame, Frame::Csv { .. }) || !self.rule.is_empty() {
            while self.header_of.is_none() && self.current.is_none() && self.open_next()? {}
        }
        Ok(&self.header)
    }

    /// The next piece of a record. A record has at least one piece, which may be empty.
    ///
    /// # Errors
    /// An input that cannot be read or decompressed; an incomplete last record; a different header.
    pub fn next_piece(&mut self) -> Result<Option<RecordPart<'_>>> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            if let Some(Found { bytes, is_last }) = self.find()? {
                let bytes = &self.buffer[bytes];
                return Ok(Some(RecordPart { bytes, is_last }));
            }
        }
    }

    /// The next bytes of the inputs, regardless of record ends. For frames without a header.
    ///
    /// # Errors
    /// As [`RecordReader::next_piece`].
    pub(crate) fn next_bytes(&mut self) -> Result<Option<&[u8]>> {
        while self.current.is_some() || self.open_next()? {
            if self.from < self.to || self.fill()? > 0 {
                let bytes = self.from..self.to;
                self.from = self.to;
                return Ok(Some(&self.buffer[bytes]));
            }
            self.current = None;
        }
        Ok(None)
    }

    /// The rest of the next record as a whole, for callers that keep it anyway.
    ///
    /// # Errors
    /// As [`RecordReader::next_piece`].
    pub fn next_record(&mut self) -> Result<Option<Vec<u8>>> {
        let mut record = Vec::new();
        while let Some(piece) = self.next_piece()? {
            record.extend_from_slice(piece.bytes);
            if piece.is_last {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Moves to the next input that has data, and removes its header. Returns false if there is
    /// none.
    fn open_next(&mut self) -> Result<bool> {
        while self.open_one()? {
            if self.current.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the next input and removes its header; closes it again if it has no more data. Returns
    /// false if there is no further input.
    fn open_one(&mut self) -> Result<bool> {
        let Some(source) = self.sources.next() else {
            return Ok(false);
        };
        if self.skipped_bytes > 0 {
            let bytes = data_bytes(std::slice::from_ref(&source), self.frame, self.recognition)?;
            let bytes = bytes.unwrap_or(0);
            if self.skipped_bytes >= bytes {
                self.skipped_bytes -= bytes;
                return Ok(true);
            }
        }
        let skipped_bytes = std::mem::take(&mut self.skipped_bytes);
        let begin = Begin {
            frame: self.frame,
            recognition: self.recognition,
            skipped_bytes,
        };
        let stream = open(self.job, &source, begin)?;
        let name = source.name.clone();
        self.begun_at = source.start_bytes + skipped_bytes;
        self.current = Some((source, stream));
        self.is_crlf = false;
        match self.frame {
            Frame::Json(terminator) => {
                self.framer = Framer::ending(b',', terminator);
                self.take_mark()?;
                self.skips_blanks = true;
            }
            Frame::Csv {
                separator,
                has_header,
            } => {
                let separator = match separator {
                    Some(given) => given,
                    None => self.find_separator(&name, has_header)?,
                };
                self.framer = self.framer_of(separator)?;
                self.skips_blanks = false;
                let header = self.take_header(&name, has_header)?;
                self.skips_blanks = match has_header {
                    true => has_columns(names_of(&header), separator),
                    false => self.begins_with_columns(separator),
                };
            }
            Frame::Terminator(end) if !self.rule.is_empty() => self.take_lines(&name, end)?,
            Frame::Fastq => {
                self.framer = Framer::new(b',');
                self.fastq = fastq::Framer::default();
                self.file_records = 0;
                self.skips_blanks = true;
            }
            Frame::Terminator(_) | Frame::Bytes(_) => {}
        }
        Ok(true)
    }

    /// Removes the lines of the rule, which end with `end`, from the front of a file.
    fn take_lines(&mut self, name: &Path, end: u8) -> Result<()> {
        let mut header = Vec::new();
        let mut lines_left = self.rule.lines;
        let mut is_comment = true;
        let is_filled = self.fill()? > 0;
        while self.current.is_some() {
            while self.to - self.from < self.rule.comment_bytes_max() && self.fill()? > 0 {}
            if self.from == self.to && self.fill()? == 0 {
                self.current = None;
                break;
            }
            is_comment = is_comment && self.rule.is_comment(&self.buffer[self.from..self.to]);
            if !is_comment && lines_left == 0 {
                break;
            }
            lines_left -= u64::from(!is_comment);
            while let Some(Found { bytes, is_last }) = self.find()? {
                header.extend_from_slice(&self.buffer[bytes]);
                if header.len() > HEADER_BYTES_MAX {
                    return Err(too_long(name));
                }
                if is_last {
                    header.push(end);
                    break;
                }
            }
        }
        match &self.header_of {
            None if is_filled => {
                self.header = header;
                self.header_of = Some(name.to_path_buf());
            }
            Some(first) if !header.is_empty() && !is_same(&header, &self.header, end) => {
                return Err(other_lines(name, first, lines_in(&header, end)));
            }
            None | Some(_) => {}
        }
        Ok(())
    }

    /// The parser for the records of the opened file, whose beginning determines how its lines end.
    fn framer_of(&mut self, separator: u8) -> Result<Framer> {
        loop {
            let front = &self.buffer[self.from..self.to];
            let is_told = Framer::new(separator).end_of_record(front).is_some();
            if is_told || front.len() >= FRONT_BYTES || self.fill()? == 0 {
                break;
            }
        }
        let end = line_end(&self.buffer[self.from..self.to], separator);
        Ok(Framer::ending(separator, end))
    }

    /// Detects the byte between fields of the opened file. If the file has some text, the byte
    /// applies to the others as well.
    fn find_separator(&mut self, name: &Path, has_header: bool) -> Result<u8> {
        let mut is_all = false;
        while self.to - self.from < SEPARATOR_SAMPLE_BYTES && !is_all {
            is_all = self.fill()? == 0;
            // A producer may be slow: the available bytes are enough once there are two lines.
            let lines = memchr_iter(b'\n', &self.buffer[self.from..self.to]);
            if !matches!(self.current, Some((_, Stream::File(_)))) && lines.count() > 1 {
                break;
            }
        }
        let head = &self.buffer[self.from..self.to];
        let found = separator_in(self.job, name, head, is_all);
        if !head.is_empty() {
            self.frame = Frame::Csv {
                separator: Some(found),
                has_header,
            };
        }
        Ok(found)
    }

    /// Whether the next record, whose beginning has been read, has several fields.
    fn begins_with_columns(&self, separator: u8) -> bool {
        let front = &self.buffer[self.from..self.to];
        let filled = front.iter().position(|byte| !is_blank(&[*byte], separator));
        let front = &front[filled.unwrap_or(front.len())..];
        let mut framer = Framer::ending(separator, self.framer.line_end());
        let end = framer.end_of_record(front).unwrap_or(front.len());
        has_columns(&front[..end], separator)
    }

    /// Skips blank lines before the next record.
    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let rest = &self.buffer[self.from..self.to];
            let (separator, line_end) = (self.framer.separator(), self.framer.line_end());
            let is_blank = |byte: &u8| *byte == line_end || is_blank(&[*byte], separator);
            let blank = rest.iter().position(|byte| !is_blank(byte));
            let blank_bytes = blank.unwrap_or(rest.len());
            let is_all = blank_bytes == rest.len();
            let lines = memrchr(line_end, &rest[..blank_bytes]);
            let lines_bytes = lines.map_or(0, |end| end + 1);
            self.from += lines_bytes;
            self.begun_at += lines_bytes as u64;
            let is_full = self.from == 0 && self.to == self.buffer.len();
            if !is_all || is_full {
                return Ok(());
            }
            if self.fill()? == 0 {
                self.from = self.to;
                return Ok(());
            }
        }
    }

    /// Removes the byte order mark from the front of a file, if there is one.
    fn take_mark(&mut self) -> Result<&'static [u8]> {
        while self.to - self.from < BYTE_ORDER_MARK.len() && self.fill()? > 0 {}
        let is_there = self.buffer[self.from..self.to].starts_with(BYTE_ORDER_MARK);
        let mark = if is_there { BYTE_ORDER_MARK } else { &[] };
        self.from += mark.len();
        self.begun_at += mark.len() as u64;
        Ok(mark)
    }

    /// Removes the byte order mark and the header from the front of a file. Returns the header.
    fn take_header(&mut self, name: &Path, has_header: bool) -> Result<Vec<u8>> {
        let mut header = self.take_mark()?.to_vec();
        if self.from == self.to && self.fill()? == 0 {
            self.current = None;
            return Ok(header);
        }
        while has_header && self.current.is_some() {
            let Some(Found { bytes, is_last }) = self.find()? else {
                break;
            };
            header.extend_from_slice(&self.buffer[bytes]);
            if header.len() > HEADER_BYTES_MAX {
                return Err(too_long_a_header(name));
            }
            if is_last {
                header.push(b'\n');
                break;
            }
        }
        let names = names_of(&header);
        match &self.header_of {
            None => {
                self.header.clone_from(&header);
                self.header_of = Some(name.to_path_buf());
            }
            Some(first) if !names.is_empty() && names != names_of(&self.header) => {
                return Err(other_header(name, first));
            }
            Some(_) => {}
        }
        Ok(header)
    }

    /// The next piece of the current file, which is closed when it has no more.
    fn find(&mut self) -> Result<Option<Found>> {
        if self.skips_blanks && self.begun_bytes == 0 {
            self.skip_blanks()?;
        }
        if self.from == self.to && self.fill()? == 0 {
            return self.end_file();
        }
        let rest = &self.buffer[self.from..self.to];
        let end = match self.frame {
            Frame::Bytes(bytes) => {
                let left = bytes - self.begun_bytes as usize;
                (rest.len() >= left).then_some((left, left))
            }
            Frame::Terminator(terminator) | Frame::Json(terminator) => {
                memchr(terminator, rest).map(|end| (end, end + 1))
            }
            Frame::Csv { .. } => self.framer.end_of_record(rest).map(|end| (end - 1, end)),
            Frame::Fastq => match self.fastq.end_of_record(rest) {
                Ok(end) => end.map(|end| (end - 1, end)),
                Err(fault) => return Err(self.damaged(fault)),
            },
        };
        let (len, taken) = end.unwrap_or((rest.len(), rest.len()));
        if let Some(&last) = rest[..len].last() {
            self.last_byte = last;
        }
        let is_last = end.is_some();
        if is_last {
            self.file_records += 1;
            self.is_crlf = self.last_byte == b'\r' && self.framer.line_end() == b'\n';
            self.last_byte = 0;
            self.begun_at += self.begun_bytes + taken as u64;
            self.begun_bytes = 0;
        } else {
            self.begun_bytes += taken as u64;
        }
        let bytes = self.from..self.from + len;
        self.from += taken;
        Ok(Some(Found { bytes, is_last }))
    }

    /// Ends the record that is open at the end of a file.
    fn end_file(&mut self) -> Result<Option<Found>> {
        if let (Frame::Fastq, true) = (self.frame, self.begun_bytes > 0)
            && let Err(fault) = self.fastq.finish()
        {
            return Err(self.damaged(fault));
        }
        let Some((source, _)) = self.current.take() else {
            return Ok(None);
        };
        let (begun_bytes, last_byte) = (self.begun_bytes, self.last_byte);
        let begun_at = self.begun_at;
        self.begun_at += begun_bytes;
        (self.begun_bytes, self.last_byte) = (0, 0);
        (self.from, self.to) = (0, 0);
        if begun_bytes == 0 {
            return Ok(None);
        }
        let mut added = 0;
        match self.frame {
            Frame::Bytes(record_bytes) => {
                let cause = format!("the last record has {begun_bytes} of {record_bytes} bytes");
                return Err(Error::usage("read input", cause)
                    .path(&source.name)
                    .hint("complete the file, or give the right --type"));
            }
            Frame::Csv { .. } if !self.framer.is_whole() => {
                let cause = "the record that begins here has a quote that is not closed";
                return Err(Error::corrupt("read CSV", cause)
                    .path(&source.name)
                    .offset(begun_at)
                    .hint(
                        "close the quote, or pass --lines if quotes have no meaning in this file",
                    ));
            }
            Frame::Csv { .. } if self.is_crlf && last_byte != b'\r' => {
                self.buffer[0] = b'\r';
                added = 1;
            }
            Frame::Fastq if self.fastq.is_crlf() && last_byte != b'\r' => {
                self.buffer[0] = b'\r';
                added = 1;
            }
            Frame::Csv { .. } | Frame::Terminator(_) | Frame::Json(_) | Frame::Fastq => {}
        }
        Ok(Some(Found {
            bytes: 0..added,
            is_last: true,
        }))
    }

    /// The error for the current or next record of FASTQ.
    fn damaged(&self, fault: fastq::Fault) -> Error {
        let cause = format!("record {} {fault}", self.file_records + 1);
        let error = Error::corrupt("read FASTQ", cause).offset(self.begun_at);
        let error = match &self.current {
            Some((source, _)) => error.path(&source.name),
            None => error,
        };
        error.hint(fault.next_step())
    }

    /// Reads more data after the existing one. Returns the number of bytes read.
    fn fill(&mut self) -> Result<usize> {
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        let Some((source, stream)) = &mut self.current else {
            return Ok(0);
        };
        let room = &mut self.buffer[self.to..];
        let got = read_some(&self.job.control, stream, room).map_err(|error| {
            match error.file_path() {
                Some(_) => error,
                None => error.path(&source.name),
            }
        })?;
        self.to += got;
        self.read_bytes += got as u64;
        self.job.control.advance(got as u64);
        self.job.control.set_traffic(self.read_bytes, 0);
        Ok(got)
    }
}

/// The files that a reader of `sources` will read, in the form of a plan; `None` if one of them is
/// a stream or compressed, because its amount of data is not known in advance.
///
/// # Errors
/// As the reader's first reads of these files.
pub fn plain_files(
    sources: &[Source],
    frame: Frame,
    recognition: Recognition,
) -> Result<Option<Vec<Input>>> {
    let mut files = Vec::with_capacity(sources.len());
    for source in sources {
        if source.is_stream() {
            return Ok(None);
        }
        let input = match frame {
            Frame::Bytes(_) => look(source.clone())?,
            Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } | Frame::Fastq => {
                let input = look_at_lines(source.clone(), recognition)?;
                if recognition.packed(&source.name, input.content).is_some() {
                    return Ok(None);
                }
                input
            }
        };
        files.push(input.to_sort());
    }
    Ok(Some(files))
}

/// Bytes of the data of files; `None` if one of them is a stream or compressed.
///
/// # Errors
/// As [`plain_files`].
pub(crate) fn data_bytes(
    sources: &[Source],
    frame: Frame,
    recognition: Recognition,
) -> Result<Option<u64>> {
    let mut all_bytes = 0;
    for source in sources {
        if source.is_stream() {
            return Ok(None);
        }
        let is_lines = !matches!(frame, Frame::Bytes(_));
        let input = match is_lines {
            true => look_at_lines(source.clone(), recognition)?,
            false => look(source.clone())?,
        };
        if is_lines && recognition.packed(&source.name, input.content).is_some() {
            return Ok(None);
        }
        all_bytes += input.data_bytes;
    }
    Ok(Some(all_bytes))
}

/// How an input is opened.
struct Begin {
    frame: Frame,
    recognition: Recognition,
    /// Bytes of its data that are skipped.
    skipped_bytes: u64,
}

fn open<'a>(job: &'a Job, source: &Source, begin: Begin) -> Result<Stream<'a>> {
    let Begin {
        frame,
        recognition,
        skipped_bytes,
    } = begin;
    let is_lines = !matches!(frame, Frame::Bytes(_));
    if source.is_stream() {
        let mut stream = StreamReader::open(source, || job.control.check())?;
        let mut head = stream.head(source)?;
        let content = Content::of(&head);
        if let Frame::Bytes(record_bytes) = frame {
            if content == Content::Array {
                skip_header(source, &mut head, &mut stream, record_bytes)?;
            }
            return Ok(Stream::Endless(Box::new(Cursor::new(head).chain(stream))));
        }
        recognition.check_lines(&source.name, content, false)?;
        recognition.tell_header(job, &source.name, &head);
        let all: Box<dyn Read + 'a> = Box::new(Cursor::new(head).chain(stream));
        return match recognition.packed(&source.name, content) {
            Some(compression) => unpacked(job, source, compression, recognition, all),
            None => Ok(Stream::Endless(all)),
        };
    }
    let input = match is_lines {
        true => look_at_lines(source.clone(), recognition)?,
        false => look(source.clone())?,
    };
    if !is_lines {
        input.content.check_records(&source.name, true)?;
    }
    if let (true, Some(compression)) = (is_lines, recognition.packed(&source.name, input.content)) {
        return unpacked(job, source, compression, recognition, source.open()?);
    }
    if input.header_bytes + input.data_bytes == 0 {
        return Ok(Stream::Endless(source.open()?));
    }
    let reader = BlockReader::open(job, &source.path, input.header_bytes + skipped_bytes)?;
    Ok(Stream::File(Box::new(reader)))
}

/// Removes the header of an array from a stream whose beginning, `head`, has been read.
fn skip_header(
    source: &Source,
    head: &mut Vec<u8>,
    stream: &mut StreamReader<'_>,
    record_bytes: usize,
) -> Result<()> {
    let failed = |error: Error| error.path(&source.name);
    let header_bytes = NpyHeader::len_bytes(head).map_err(failed)?;
    let missing_bytes = header_bytes.saturating_sub(head.len()) as u64;
    let read = stream.take(missing_bytes).read_to_end(head);
    read.map_err(|error| failed(Error::io("read .npy header", &error)))?;
    let behind = head.split_off(header_bytes.min(head.len()));
    let header = NpyHeader::parse(head).map_err(failed)?;
    *head = behind;
    match header.format.record_bytes() == record_bytes {
        true => Ok(()),
        false => {
            let cause = format!("its header says {}", header.format);
            Err(Error::usage("choose type", cause)
                .path(&source.name)
                .hint("give that --type"))
        }
    }
}

/// Starts to decompress, and checks the decompressed bytes.
fn unpacked<'a>(
    job: &Job,
    source: &Source,
    compression: Compression,
    recognition: Recognition,
    packed: Box<dyn Read + 'a>,
) -> Result<Stream<'a>> {
    let mut decoder = Decoder::new(compression, packed, job.options.memory_bytes)?;
    let mut head = vec![0; HEAD_BYTES];
    let mut got = 0;
    loop {
        let more = decoder.read(&mut head[got..]).map_err(|error| {
            let stopped = job.control.check().err();
            stopped.unwrap_or_else(|| error.path(&source.name))
        })?;
        got += more;
        // The producer of a stream may be slow. For a file, the loop continues, so that it finds
        // damage at the beginning.
        if more == 0 || got == head.len() || source.is_stream() {
            break;
        }
    }
    head.truncate(got);
    recognition.check_unpacked(&source.name, &head, !source.is_stream())?;
    Ok(Stream::Packed(Box::new(Unpacked {
        decoder,
        head: Cursor::new(head),
    })))
}

fn read_some(control: &Control, stream: &mut Stream<'_>, room: &mut [u8]) -> Result<usize> {
    loop {
        control.check()?;
        let got = match stream {
            Stream::File(file) => return file.take(room),
            Stream::Endless(file) => file.read(room),
            Stream::Packed(unpacked) => {
                let left = unpacked.head.get_ref().len() as u64 - unpacked.head.position();
                match left {
                    0 => {
                        let got = unpacked.decoder.read(room);
                        return got.map_err(|error| control.check().err().unwrap_or(error));
                    }
                    _ => unpacked.head.read(room),
                }
            }
        };
        match got {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => {
                return other.map_err(|error| {
                    let stopped = control.check().err();
                    stopped.unwrap_or_else(|| Error::io("read input", &error))
                });
            }
        }
    }
}
