//! Reads outcore's I/O trace as a stream.
//!
//! Contract: constant memory beyond the header. Errors are a bad record, a file that ends inside a
//! record, a wrong count in the end mark, or bytes after it. An error has the place and the number
//! of whole records before it. A trace without an end mark (the job was killed) is readable;
//! `is_complete` is then false.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use outcore_io::{Error, Result};

use crate::io_trace::{
    Entry, FORMAT_NAME, FORMAT_TITLE, Header, JSON_BYTES_MAX, MAGIC, PREAMBLE_BYTES, RECORD_BYTES,
    Record, VERSION,
};
use crate::lines::read_up_to;
use crate::skips::{Reason, cut_short};
use crate::source::{self, Bytes};

/// The cause that stops a reader.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// The stream failed.
    Io(io::Error),
    /// The record is bad; reading may continue with the next one.
    Bad(Reason),
}

/// Records as 64-byte frames with their places; also used by readers that skip bad records.
pub(crate) struct Frames<R> {
    inner: R,
    pub(crate) header: Header,
    next_bytes: u64,
    start_bytes: u64,
    number: u64,
    requests: u64,
    end: Option<u64>,
}

impl<R: BufRead> Frames<R> {
    /// Reads the header.
    pub(crate) fn new(mut inner: R, path: &Path) -> Result<Self> {
        let bad = |cause: String| Error::corrupt("read I/O trace", cause).path(path).offset(0);
        let mut preamble = [0_u8; PREAMBLE_BYTES];
        let got = read_up_to(&mut inner, &mut preamble)
            .map_err(|error| source::read_error(&error, path, 0))?;
        if !preamble.starts_with(&MAGIC) {
            return Err(bad("this is not an outcore I/O trace".into())
                .hint("`--format` names other formats; see docs/formats/io-trace.md"));
        }
        if got < PREAMBLE_BYTES {
            return Err(bad("the file ends inside its header".into()));
        }
        let version = u16::from_le_bytes([preamble[8], preamble[9]]);
        let record_bytes = u16::from_le_bytes([preamble[10], preamble[11]]);
        if version != VERSION || usize::from(record_bytes) != RECORD_BYTES {
            return Err(bad(format!(
                "version {version} with records of {record_bytes} bytes is not known"
            ))
            .hint("this program reads version 1; use the version of outcore that wrote the file"));
        }
        let json_bytes =
            u32::from_le_bytes([preamble[12], preamble[13], preamble[14], preamble[15]]) as usize;
        if json_bytes > JSON_BYTES_MAX {
            return Err(bad(format!(
                "a header of {json_bytes} bytes is not believable"
            )));
        }
        let mut json = Vec::new();
        (&mut inner)
            .take(json_bytes as u64)
            .read_to_end(&mut json)
            .map_err(|error| source::read_error(&error, path, PREAMBLE_BYTES as u64))?;
        if json.len() < json_bytes {
            return Err(bad("the file ends inside its header".into()));
        }
        let header: Header = serde_json::from_slice(&json)
            .map_err(|error| bad(format!("the header is not valid JSON: {error}")))?;
        if header.format != FORMAT_NAME {
            return Err(bad(format!("the header says `{}`", header.format)));
        }
        let next_bytes = (PREAMBLE_BYTES + json_bytes) as u64;
        Ok(Frames {
            inner,
            header,
            next_bytes,
            start_bytes: next_bytes,
            number: 0,
            requests: 0,
            end: None,
        })
    }

    /// Number of the record returned last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Offset of the record returned last.
    pub(crate) fn start_bytes(&self) -> u64 {
        self.start_bytes
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.next_bytes
    }

    /// The next entry; `None` at the end. Reading may continue after `Flaw::Bad`.
    pub(crate) fn next(&mut self) -> std::result::Result<Option<Entry>, Flaw> {
        self.start_bytes = self.next_bytes;
        let mut record = [0_u8; RECORD_BYTES];
        let got = read_up_to(&mut self.inner, &mut record).map_err(Flaw::Io)?;
        if got == 0 {
            return Ok(None);
        }
        self.next_bytes += got as u64;
        self.number += 1;
        if got < RECORD_BYTES {
            return Err(Flaw::Bad(Reason::Truncated));
        }
        if self.end.is_some() {
            return Err(Flaw::Bad(Reason::Order));
        }
        let entry = Entry::decode(&record).map_err(Flaw::Bad)?;
        match entry {
            Entry::Request(_) => self.requests += 1,
            Entry::End { time_ns, requests } => {
                self.end = Some(time_ns);
                if requests != self.requests {
                    return Err(Flaw::Bad(Reason::Missing));
                }
            }
            Entry::Phase { .. } | Entry::ThreadEnd { .. } => {}
        }
        Ok(Some(entry))
    }
}

/// Reads a trace, entry by entry; the first flaw ends it with an error.
pub struct Reader<R> {
    frames: Frames<R>,
    path: PathBuf,
    is_done: bool,
}

impl Reader<Bytes> {
    /// Opens `path` (`-` is standard input), decompressing gzip and Zstandard.
    ///
    /// # Errors
    /// The file cannot be read, or is not a trace of version 1.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Reader::new(source::open(path)?, path)
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the header of `inner`; `path` appears in errors.
    ///
    /// # Errors
    /// The stream fails, or is not a trace of version 1.
    pub fn new(inner: R, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Reader {
            frames: Frames::new(inner, path)?,
            path: path.to_path_buf(),
            is_done: false,
        })
    }

    /// The metadata.
    pub fn header(&self) -> &Header {
        &self.frames.header
    }

    /// Requests read so far.
    pub fn requests(&self) -> u64 {
        self.frames.requests
    }

    /// Whether the end mark was read, which means that the job ended in an orderly way.
    pub fn is_complete(&self) -> bool {
        self.frames.end.is_some()
    }

    /// Time at which the job ended, after the end mark was read.
    pub fn end_ns(&self) -> Option<u64> {
        self.frames.end
    }

    /// Only the requests, without marks.
    pub fn records(self) -> impl Iterator<Item = Result<Record>> {
        self.filter_map(|entry| match entry {
            Ok(Entry::Request(record)) => Some(Ok(record)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn error(&self, flaw: Flaw) -> Error {
        let (number, start) = (self.frames.number, self.frames.start_bytes);
        let reason = match flaw {
            Flaw::Io(error) => return source::read_error(&error, &self.path, start),
            Flaw::Bad(Reason::Truncated) => {
                return cut_short("record", FORMAT_TITLE, number, start).path(&self.path);
            }
            Flaw::Bad(reason) => reason,
        };
        let cause = match reason {
            Reason::Order => format!("record {number} comes after the end mark"),
            Reason::Missing => format!(
                "the end mark counts other requests than the {} that the file has",
                self.frames.requests
            ),
            reason => format!("record {number} is damaged: {reason}"),
        };
        Error::corrupt("read I/O trace", cause)
            .path(&self.path)
            .offset(start)
            .hint("the records before it are sound; `--on-error skip` continues with the rest")
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.frames.next();
        self.is_done = !matches!(next, Ok(Some(_)));
        match next {
            Ok(entry) => entry.map(Ok),
            Err(flaw) => Some(Err(self.error(flaw))),
        }
    }
}
