//! Files as streams of lines, many at once on one port: what merges and checks read.
//!
//! Contract: a [`LineFile`] gives the lines of one file in order, without their terminators, as
//! slices of the block in which they were read; a line over a border of blocks is put together. A
//! last line without a terminator is a line.
//!
//! Bounds: two blocks a file, one of them being read, and a line of at most `line_bytes_max`.

use std::ops::Range;

use super::LineSortOptions;
use super::context::{keyless_line, line_number};
use crate::drive::Op;
use crate::ends::became_shorter;
use crate::error::{Error, Kind, Result};
use crate::job::Job;
use crate::key::sort_key::{NoKey, SortKey};
use crate::memory::{BLOCK_BYTES, Buf, Pool, block_ceil, block_floor};
use crate::read::source::InputPart;
use crate::units;
use crate::volume::{Port, Transfer, Volume};

/// The name under which blocks are reserved.
pub(super) const INPUT: &str = "input blocks";
/// Lines between looks for cancellation.
const LINES_A_LOOK: u64 = 4096;

/// How files are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSizes {
    pub(super) block_bytes: usize,
    pub(super) line_bytes_max: usize,
}

impl FileSizes {
    /// Blocks of so many files.
    fn slots(files: usize) -> usize {
        2 * files.max(1)
    }

    /// Memory for them.
    pub(super) fn pool_bytes(&self, files: usize) -> u64 {
        Pool::total_bytes(self.block_bytes, Self::slots(files))
    }

    /// Length of an output buffer: a block, wherever it begins.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.block_bytes + BLOCK_BYTES
    }
}

/// The means by which files are read.
pub(super) struct FileReader<'a> {
    pub(super) job: &'a Job,
    pub(super) volume: &'a Volume,
    pub(super) port: Port,
    sizes: FileSizes,
    pool: Pool,
    finished: Vec<Transfer>,
    lines: u64,
}

/// A file that is being read.
pub(super) struct LineFile<'a> {
    part: &'a InputPart,
    token: u64,
    options: LineSortOptions,
    /// Where the next read begins, in bytes of the data.
    read_at: u64,
    is_reading: bool,
    next: Option<(Buf, Range<usize>)>,
    /// What is left of the block that is being looked at.
    current: Option<(Buf, Range<usize>)>,
    /// A line over a border, or its front.
    carry: Vec<u8>,
    /// The line, in the block or, if there is none, in `carry`.
    line: Option<Range<usize>>,
    is_carry_done: bool,
    /// Number of the line among those of the data, from 1, and where it begins and ends in them.
    number: u64,
    begins_at: u64,
    ends_at: u64,
}

impl<'a> FileReader<'a> {
    /// A reader of `files` files at once.
    pub(super) fn new(
        job: &'a Job,
        volume: &'a Volume,
        sizes: FileSizes,
        files: usize,
    ) -> Result<Self> {
        let slots = FileSizes::slots(files);
        Ok(FileReader {
            job,
            volume,
            port: volume.port()?,
            sizes,
            pool: Pool::new(&job.budget, INPUT, sizes.block_bytes, slots)?,
            finished: Vec::new(),
            lines: 0,
        })
    }

    /// Looks for reads that have ended; what is not one of `files` has been written.
    pub(super) fn poll(&mut self, wait: bool, files: &mut [LineFile<'_>]) -> Result<()> {
        self.port.poll(wait, &mut self.finished)?;
        for transfer in self.finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(self.volume.explain(&fault));
            }
            if let Some(file) = files.iter_mut().find(|file| file.token == transfer.token) {
                file.settle(transfer)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, file: &mut LineFile<'_>) -> Result<()> {
        let part = file.part;
        if file.is_reading || file.next.is_some() || file.read_at >= part.data_len_bytes {
            return Ok(());
        }
        let mut slot = self.pool.take().ok_or_else(|| {
            Error::new(Kind::Memory, "take a buffer", "the pool is empty")
                .hint("a bug: please report it")
        })?;
        let from = block_floor(part.data_at_bytes + file.read_at);
        let end = block_ceil(part.data_at_bytes + part.data_len_bytes);
        let len_bytes = (end - from).min(slot.len() as u64) as usize;
        let buf = slot.split_to(len_bytes);
        self.port
            .submit(&part.file, Op::Read, from, buf, file.token);
        file.is_reading = true;
        Ok(())
    }

    /// Moves file `index` on to its next line; false if there is none.
    pub(super) fn advance(&mut self, files: &mut [LineFile<'_>], index: usize) -> Result<bool> {
        self.lines += 1;
        if self.lines.is_multiple_of(LINES_A_LOOK) {
            self.job.control.check()?;
        }
        loop {
            if let Some(is_there) = files[index].step(self.sizes.line_bytes_max)? {
                return Ok(is_there);
            }
            self.job.control.check()?;
            self.start(&mut files[index])?;
            while files[index].is_reading {
                self.job.control.check()?;
                self.poll(true, files)?;
            }
            let file = &mut files[index];
            file.current = file.next.take();
            if let Some((_, bytes)) = &file.current {
                self.job.control.advance(bytes.len() as u64);
                self.job.control.watch(self.volume);
            }
            self.start(&mut files[index])?;
        }
    }

    /// Makes the key of a file's line.
    pub(super) fn key(
        &self,
        file: &LineFile<'_>,
        order: &dyn SortKey,
        key: &mut Vec<u8>,
    ) -> std::result::Result<(), NoKey> {
        key.clear();
        order.append_key(file.line(), key)
    }

    /// The number, from 1, of a file's line in the whole file; only what ends here asks.
    pub(super) fn line_number(&self, file: &LineFile<'_>) -> Result<u64> {
        let (part, options) = (file.part, file.options);
        match part.data_at_bytes == 0 && options.inner_end.is_none() {
            true => Ok(file.number),
            false => line_number(self.job, self.volume, part, options, file.begins_at),
        }
    }

    /// The error for a file's line having no key.
    pub(super) fn no_key(&self, file: &LineFile<'_>, why: &NoKey) -> Error {
        match self.line_number(file) {
            Ok(number) => keyless_line(file.part, number, why),
            Err(error) => error,
        }
    }
}

impl<'a> LineFile<'a> {
    /// The lines of `part`; `token` tells its reads apart.
    pub(super) fn new(part: &'a InputPart, token: u64, options: LineSortOptions) -> Self {
        LineFile {
            part,
            token,
            options,
            read_at: 0,
            is_reading: false,
            next: None,
            current: None,
            carry: Vec::new(),
            line: None,
            is_carry_done: false,
            number: 0,
            begins_at: 0,
            ends_at: 0,
        }
    }

    /// The file.
    pub(super) fn part(&self) -> &'a InputPart {
        self.part
    }

    /// The line that it has come to.
    pub(super) fn line(&self) -> &[u8] {
        match (&self.line, &self.current) {
            (Some(line), Some((buf, _))) => &buf[line.clone()],
            _ => &self.carry,
        }
    }

    fn settle(&mut self, transfer: Transfer) -> Result<()> {
        self.is_reading = false;
        let at = self.part.data_at_bytes + self.read_at;
        let end = self.part.data_at_bytes + self.part.data_len_bytes;
        let read_from = block_floor(at);
        let to = (read_from + transfer.buf.len() as u64).min(end);
        if read_from + (transfer.len_bytes as u64) < to {
            let got_to = read_from + transfer.len_bytes as u64;
            return Err(became_shorter(self.part, got_to));
        }
        self.read_at += to - at;
        let bytes = (at - read_from) as usize..(to - read_from) as usize;
        self.next = Some((transfer.buf, bytes));
        Ok(())
    }

    /// The next line of what is in memory: whether there is one, or nothing if more has to be read.
    fn step(&mut self, line_bytes_max: usize) -> Result<Option<bool>> {
        if std::mem::take(&mut self.is_carry_done) {
            self.carry.clear();
        }
        self.line = None;
        if let Some((buf, left)) = &mut self.current {
            let end = memchr::memchr(self.options.terminator, &buf[left.clone()]);
            let to = end.map_or(left.end, |end| left.start + end);
            if end.is_some() && self.carry.is_empty() {
                self.line = Some(left.start..to);
            } else {
                self.carry.extend_from_slice(&buf[left.start..to]);
                self.is_carry_done = end.is_some();
            }
            left.start = to + usize::from(end.is_some());
            if self.carry.len() > line_bytes_max {
                return Err(self.too_long(line_bytes_max));
            }
            if end.is_some() {
                self.count();
                return Ok(Some(true));
            }
            self.current = None;
        }
        if self.is_reading || self.next.is_some() || self.read_at < self.part.data_len_bytes {
            return Ok(None);
        }
        let is_there = !self.carry.is_empty();
        self.is_carry_done = true;
        if is_there {
            self.count();
        }
        Ok(Some(is_there))
    }

    fn count(&mut self) {
        self.number += 1;
        self.begins_at = self.ends_at;
        self.ends_at += self.line().len() as u64 + 1;
    }

    fn too_long(&self, line_bytes_max: usize) -> Error {
        let cause = format!(
            "line {} is longer than {}, the most that this memory allows",
            self.number + 1,
            units::bytes(line_bytes_max as u64)
        );
        Error::new(Kind::Memory, "read lines", cause)
            .path(&self.part.file.path)
            .hint("allow more --memory, or check what ends a line")
    }
}
