//! Lines or records of files and streams, one after another, as they come.
//!
//! Contract: a [`RecordReader`] gives each record of all inputs in order, without a copy to scratch.
//! Plain files are read through the job's device, no further ahead than [`BlockReader`] does; compressed
//! ones are unpacked as they are read, streams too. What is to be lines is looked at first
//! ([`crate::content`]). A last line without its end counts as one; a last record that is
//! not whole is an error. Memory: five blocks of 1 MiB, or the longest record where that is longer. A
//! cancellation is noticed within 50 ms.

use std::fmt;
use std::fs::File;
use std::io::{Cursor, Read};

use memchr::memchr;
use outcore::data::NpyHeader;
use outcore::job::{Control, Job};
use outcore::{Error, Result};

use crate::blocks::BlockReader;
use crate::content::{Content, HEAD_BYTES, Recognition};
use crate::inputs::{Source, StreamReader, look, look_at_lines};
use crate::text::compress::{Compression, Decoder};

const BLOCK_BYTES: usize = 1 << 20;

/// Where a record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Behind this byte.
    Terminator(u8),
    /// After so many bytes.
    Bytes(usize),
}

enum Stream<'a> {
    File(Box<BlockReader>),
    /// One whose length the system does not tell, like those of /proc, or a pipe.
    Endless(Box<dyn Read + 'a>),
    Packed(Box<Unpacked<'a>>),
}

/// A compressed file or stream; its first bytes have been looked at.
struct Unpacked<'a> {
    decoder: Decoder<Box<dyn Read + 'a>>,
    head: Cursor<Vec<u8>>,
}

/// Records of inputs.
pub struct RecordReader<'a> {
    job: &'a Job,
    sources: std::vec::IntoIter<Source>,
    current: Option<(Source, Stream<'a>)>,
    frame: Frame,
    recognition: Recognition,
    buffer: Vec<u8>,
    /// What is left of the buffer.
    from: usize,
    to: usize,
    /// How much of it is known to hold no end of a line.
    searched: usize,
    /// Bytes read so far, unpacked.
    pub read_bytes: u64,
}

impl fmt::Debug for RecordReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("RecordReader");
        text.field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl<'a> RecordReader<'a> {
    /// Nothing is read yet. Where records are lines, `recognition` says what may be taken for them.
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
            searched: 0,
            read_bytes: 0,
        }
    }

    /// The next record, without its terminator.
    ///
    /// # Errors
    /// An input that cannot be read or unpacked; a last record that is not whole.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        loop {
            let found = self.find();
            if let Some((len, end)) = found {
                let start = self.from;
                self.from += end;
                self.searched = self.from;
                return Ok(Some(&self.buffer[start..start + len]));
            }
            if self.current.is_none() {
                match self.sources.next() {
                    Some(source) => {
                        let stream = open(self.job, &source, self.frame, self.recognition)?;
                        self.current = Some((source, stream));
                    }
                    None => return Ok(None),
                }
            }
            if self.fill()? > 0 {
                continue;
            }
            let Some((source, _)) = self.current.take() else {
                continue;
            };
            let (start, len) = (self.from, self.to - self.from);
            if len == 0 {
                continue;
            }
            if let Frame::Bytes(record_bytes) = self.frame {
                let cause = format!("the last record has {len} of {record_bytes} bytes");
                return Err(Error::usage("read input", cause)
                    .path(&source.name)
                    .hint("complete the file, or give the right --type"));
            }
            self.from = self.to;
            self.searched = self.to;
            return Ok(Some(&self.buffer[start..start + len]));
        }
    }

    /// The length of the first record in the buffer, without and with its end.
    fn find(&mut self) -> Option<(usize, usize)> {
        let rest = &self.buffer[self.from..self.to];
        match self.frame {
            Frame::Bytes(bytes) => (rest.len() >= bytes).then_some((bytes, bytes)),
            Frame::Terminator(terminator) => {
                let known = self.searched - self.from;
                let end = memchr(terminator, &rest[known..]);
                self.searched = end.map_or(self.to, |_| self.searched);
                end.map(|end| (known + end, known + end + 1))
            }
        }
    }

    /// Reads more behind what is there; gives the bytes read.
    fn fill(&mut self) -> Result<usize> {
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.searched -= self.from;
            self.from = 0;
        }
        if self.to == self.buffer.len() {
            let longer = self.buffer.len() * 2;
            self.buffer.resize(longer, 0);
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

fn open<'a>(
    job: &'a Job,
    source: &Source,
    frame: Frame,
    recognition: Recognition,
) -> Result<Stream<'a>> {
    let is_lines = matches!(frame, Frame::Terminator(_));
    if source.is_stream() {
        let mut stream = StreamReader::open(source, &job.control)?;
        let mut head = stream.head(source)?;
        let content = Content::of(&head);
        if let Frame::Bytes(record_bytes) = frame {
            if content == Content::Array {
                skip_header(source, &mut head, &mut stream, record_bytes)?;
            }
            return Ok(Stream::Endless(Box::new(Cursor::new(head).chain(stream))));
        }
        recognition.check_lines(&source.name, content, false)?;
        let all: Box<dyn Read + 'a> = Box::new(Cursor::new(head).chain(stream));
        return match recognition.packed(&source.name, content) {
            Some(compression) => unpacked(job, source, (compression, recognition), all),
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
    let failed = |error: std::io::Error| Error::io("open input", &error).path(&source.name);
    let open = || File::open(&source.path).map_err(failed);
    if let (true, Some(compression)) = (is_lines, recognition.packed(&source.name, input.content)) {
        return unpacked(job, source, (compression, recognition), Box::new(open()?));
    }
    if input.header_bytes + input.data_bytes == 0 {
        return Ok(Stream::Endless(Box::new(open()?)));
    }
    let reader = BlockReader::open(job, &source.path, input.header_bytes)?;
    Ok(Stream::File(Box::new(reader)))
}

/// Takes the header of an array off a stream of which `head` has been read.
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

/// Begins to unpack, and looks at what comes out.
fn unpacked<'a>(
    job: &Job,
    source: &Source,
    (compression, recognition): (Compression, Recognition),
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
        // The producer of a stream may be slow; a file that is broken is to be called that.
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
