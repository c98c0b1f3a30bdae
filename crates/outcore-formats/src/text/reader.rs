//! Lines or records of files and streams, one after another, as they come.
//!
//! Contract: a [`RecordReader`] gives each record of all inputs in order, without a copy to scratch.
//! Plain files are read through the job's device, no further ahead than [`BlockReader`] does; compressed
//! ones are unpacked as they are read. A last line without its end counts as one; a last record that is
//! not whole is an error. Memory: five blocks of 1 MiB, or the longest record where that is longer. A
//! cancellation is noticed within 50 ms.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use memchr::memchr;
use outcore::job::{Control, Job};
use outcore::{Error, Result};
use rustix::io::Errno;

use crate::blocks::BlockReader;
use crate::inputs::{Input, Source, is_ready, look, open_stream};
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

enum Stream {
    File(Box<BlockReader>),
    /// One whose length the system does not tell, like those of /proc.
    Endless(File),
    Packed(Box<Decoder<File>>),
    Pipe(OwnedFd),
}

/// Records of inputs.
pub struct RecordReader<'a> {
    job: &'a Job,
    sources: std::vec::IntoIter<Source>,
    current: Option<(Source, Stream)>,
    frame: Frame,
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
    /// Nothing is read yet.
    pub fn new(job: &'a Job, sources: Vec<Source>, frame: Frame) -> Self {
        RecordReader {
            job,
            sources: sources.into_iter(),
            current: None,
            frame,
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
                    Some(source) => self.current = Some((source.clone(), open(self.job, &source)?)),
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

fn open(job: &Job, source: &Source) -> Result<Stream> {
    if source.is_stream() {
        return open_stream(source).map(Stream::Pipe);
    }
    let failed = |error: std::io::Error| Error::io("open input", &error).path(&source.name);
    let file = File::open(&source.path).map_err(failed)?;
    if let Some(compression) = Compression::of(&source.path) {
        return Ok(Stream::Packed(Box::new(Decoder::new(compression, file)?)));
    }
    let Input { header_bytes, .. } = look(source.clone())?;
    if file.metadata().map_err(failed)?.len() == 0 {
        return Ok(Stream::Endless(file));
    }
    let reader = BlockReader::open(job, &source.path, header_bytes)?;
    Ok(Stream::File(Box::new(reader)))
}

fn read_some(control: &Control, stream: &mut Stream, room: &mut [u8]) -> Result<usize> {
    loop {
        control.check()?;
        let got = match stream {
            Stream::Packed(decoder) => return decoder.read(room),
            Stream::File(file) => return file.take(room),
            Stream::Endless(file) => file.read(room),
            Stream::Pipe(pipe) => {
                if !is_ready(pipe)? {
                    continue;
                }
                match rustix::io::read(&*pipe, &mut *room) {
                    Err(Errno::AGAIN) => continue,
                    other => other.map_err(std::io::Error::from),
                }
            }
        };
        match got {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other.map_err(|error| Error::io("read input", &error)),
        }
    }
}
