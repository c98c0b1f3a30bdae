//! Files as streams of lines, many at once on one port, for merges and checks.
//!
//! Contract: a [`LineFile`] returns the lines of one file in order, without their terminators, as
//! slices of the block in which they were read. A line that spans blocks is assembled. An
//! unterminated last line is a line.
//!
//! Bounds: per file, the current block and those that are read ahead; for all files together, lines
//! that span blocks up to `lines_bytes_max`. So one file may have a line of almost that length
//! while those of the others are short.

use std::collections::VecDeque;
use std::ops::Range;

use super::LineSortOptions;
use super::context::{keyless_line, line_number};
use crate::job::Job;
use crate::key::sort_key::{NoKey, SortKey};
use crate::read::longest::measure;
use crate::read::source::InputPart;
use crate::read::source::became_shorter;
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool, block_ceil, block_floor};
use outcore_io::port::Volume;
use outcore_io::transfers::{Arrival, Transfers, no_buffer};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// The name under which blocks are reserved.
pub(super) const INPUT: &str = "input blocks";
/// Lines between checks for cancellation.
const LINES_A_LOOK: u64 = 4096;
/// There is always room for a line of this length.
const LINE_BYTES_MIN: usize = 16 << 10;
/// Line buffers keep their memory up to this length.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// How files are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSizes {
    pub(super) block_bytes: usize,
    /// Blocks of a file that are read ahead of the current one.
    pub(super) ahead: usize,
    /// Size of lines that span blocks, for all files together, and of the line that the caller
    /// keeps.
    pub(super) lines_bytes_max: usize,
}

impl FileSizes {
    /// Blocks of `files` files.
    fn slots(&self, files: usize) -> usize {
        (1 + self.ahead) * files.max(1)
    }

    /// Memory for the blocks.
    pub(super) fn pool_bytes(&self, files: usize) -> u64 {
        Pool::total_bytes(self.block_bytes, self.slots(files))
    }

    /// Length of an output buffer: a block at any alignment.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.block_bytes + BLOCK_BYTES
    }
}

/// Reads files of lines through one port.
pub(super) struct FileReader<'a> {
    pub(super) job: &'a Job,
    pub(super) volume: &'a Volume,
    /// Reads by file and offset; merged lines are written behind.
    pub(super) transfers: Transfers<BlockRead>,
    sizes: FileSizes,
    pool: Pool,
    lines: u64,
    /// Bytes of the files' lines that span blocks, and of the line that the caller keeps.
    held_bytes: usize,
    kept_bytes: usize,
}

/// A read of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockRead {
    /// The token of the read's file.
    token: u64,
    from_bytes: u64,
}

/// A block that is being read.
struct Coming {
    from_bytes: u64,
    /// The range of the block's data.
    inside: Range<usize>,
    buf: Option<Buf>,
}

/// A file that is being read.
pub(super) struct LineFile<'a> {
    part: &'a InputPart,
    token: u64,
    options: LineSortOptions,
    /// Offset in the data of the next read.
    read_at: u64,
    /// Blocks that are being read or have arrived, in order.
    coming: VecDeque<Coming>,
    /// The rest of the current block.
    current: Option<(Buf, Range<usize>)>,
    /// A line that spans blocks, or its beginning.
    carry: Vec<u8>,
    /// The line, in the block or, without one, in `carry`.
    line: Option<Range<usize>>,
    is_carry_done: bool,
    /// Number of the line in the data, from 1, and its start and end there.
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
        Ok(FileReader {
            job,
            volume,
            transfers: Transfers::new(volume)?,
            sizes,
            pool: Pool::new(&job.budget, INPUT, sizes.block_bytes, sizes.slots(files))?,
            lines: 0,
            held_bytes: 0,
            kept_bytes: 0,
        })
    }

    /// Passes arrived blocks to their files.
    fn settle(&mut self, files: &mut [LineFile<'_>]) -> Result<()> {
        while let Some(read) = self.transfers.take()? {
            if let Some(file) = files.iter_mut().find(|file| file.token == read.what.token) {
                file.settle(read)?;
            }
        }
        Ok(())
    }

    /// Requests the blocks of a file that are read ahead.
    fn start(&mut self, file: &mut LineFile<'_>) -> Result<()> {
        let part = file.part;
        let end = part.data_at_bytes + part.data_len_bytes;
        while file.coming.len() < self.sizes.ahead && file.read_at < part.data_len_bytes {
            let mut slot = self.pool.take().ok_or_else(no_buffer)?;
            let at = part.data_at_bytes + file.read_at;
            let from = block_floor(at);
            let len_bytes = (block_ceil(end) - from).min(slot.len() as u64);
            let to = (from + len_bytes).min(end);
            let buf = slot.split_to(len_bytes as usize);
            let read = BlockRead {
                token: file.token,
                from_bytes: from,
            };
            self.transfers.read(&part.file, from, buf, read);
            file.coming.push_back(Coming {
                from_bytes: from,
                inside: (at - from) as usize..(to - from) as usize,
                buf: None,
            });
            file.read_at += to - at;
        }
        Ok(())
    }

    /// Moves file `index` to its next line; false if there is none.
    pub(super) fn advance(&mut self, files: &mut [LineFile<'_>], index: usize) -> Result<bool> {
        self.lines += 1;
        if self.lines.is_multiple_of(LINES_A_LOOK) {
            self.job.control.check()?;
        }
        loop {
            self.held_bytes -= files[index].carry.len();
            let stepped = files[index].step();
            self.held_bytes += files[index].carry.len();
            self.check_room(files, index)?;
            if let Some(is_there) = stepped {
                return Ok(is_there);
            }
            self.job.control.check()?;
            self.start(&mut files[index])?;
            while files[index].is_waiting() {
                self.job.control.check()?;
                self.transfers.wait()?;
                self.settle(files)?;
            }
            let file = &mut files[index];
            file.current = file.take_block();
            if let Some((_, bytes)) = &file.current {
                self.job.control.advance(bytes.len() as u64);
                self.job.control.watch(self.volume);
            }
            self.start(&mut files[index])?;
            self.transfers.start()?;
            self.settle(files)?;
        }
    }

    /// Checks that there is room for the line of file `index` in addition to all other lines in
    /// memory.
    fn check_room(&self, files: &[LineFile<'_>], index: usize) -> Result<()> {
        let (file, most_bytes) = (&files[index], self.sizes.lines_bytes_max);
        let is_small = file.carry.len() <= LINE_BYTES_MIN;
        if is_small || self.held_bytes + self.kept_bytes <= most_bytes {
            return Ok(());
        }
        // In the worst case every file is at its longest line when the longest is written.
        let parts = files.iter().map(|file| file.part);
        let terminator = file.options.terminator;
        let longest = measure(self.volume, parts, terminator, || self.job.control.check())?;
        let wanted_bytes = longest.of_each_file_bytes + longest.bytes;
        let memory_bytes = self.job.options.memory_bytes;
        let times = wanted_bytes as f64 / most_bytes.max(1) as f64;
        let enough_bytes = (memory_bytes as f64 * times.max(1.0)) as u64;
        let cause = format!(
            "line {} and the lines next to it take more than {}, the most that this memory allows",
            file.number + 1,
            units::bytes(most_bytes as u64)
        );
        let enough = units::bytes_exact(enough_bytes.next_multiple_of(64 << 20));
        Err(Error::new(Kind::Memory, "read lines", cause)
            .path(&file.part.file.path)
            .hint(format!(
                "allow --memory {enough}, or check what ends a line"
            )))
    }

    /// Takes the current line of file `index`, which the caller keeps until it takes another; the
    /// file has no line until it moves on.
    pub(super) fn take_line(
        &mut self,
        files: &mut [LineFile<'_>],
        index: usize,
        kept: &mut Vec<u8>,
    ) {
        let file = &mut files[index];
        clear(kept);
        match file.line {
            Some(_) => kept.extend_from_slice(file.line()),
            None => {
                self.held_bytes -= file.carry.len();
                std::mem::swap(kept, &mut file.carry);
            }
        }
        self.kept_bytes = kept.len();
    }

    /// Makes the key of a file's line.
    pub(super) fn key(
        &self,
        file: &LineFile<'_>,
        order: &dyn SortKey,
        key: &mut Vec<u8>,
    ) -> std::result::Result<(), NoKey> {
        clear(key);
        order.append_key(file.line(), key)
    }

    /// The number, from 1, of a file's line in the whole file; only for jobs that are about to end.
    pub(super) fn line_number(&self, file: &LineFile<'_>) -> Result<u64> {
        let (part, options) = (file.part, file.options);
        match part.data_at_bytes == 0 && options.inner_end.is_none() {
            true => Ok(file.number),
            false => line_number(self.job, self.volume, part, options, file.begins_at),
        }
    }

    /// The error for a file's line without a key.
    pub(super) fn no_key(&self, file: &LineFile<'_>, why: &NoKey) -> Error {
        match self.line_number(file) {
            Ok(number) => keyless_line(file.part, number, why),
            Err(error) => error,
        }
    }
}

impl<'a> LineFile<'a> {
    /// The lines of `part`; `token` distinguishes its reads.
    pub(super) fn new(part: &'a InputPart, token: u64, options: LineSortOptions) -> Self {
        LineFile {
            part,
            token,
            options,
            read_at: 0,
            coming: VecDeque::new(),
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

    /// The current line.
    pub(super) fn line(&self) -> &[u8] {
        match (&self.line, &self.current) {
            (Some(line), Some((buf, _))) => &buf[line.clone()],
            _ => &self.carry,
        }
    }

    /// Whether the file's next block has been requested and has not arrived.
    fn is_waiting(&self) -> bool {
        self.coming.front().is_some_and(|next| next.buf.is_none())
    }

    fn take_block(&mut self) -> Option<(Buf, Range<usize>)> {
        let next = self.coming.pop_front()?;
        next.buf.map(|buf| (buf, next.inside))
    }

    fn settle(&mut self, read: Arrival<BlockRead>) -> Result<()> {
        let BlockRead { from_bytes, .. } = read.what;
        let mut coming = self.coming.iter_mut();
        let Some(block) = coming.find(|block| block.from_bytes == from_bytes) else {
            return Ok(());
        };
        if read.len_bytes < block.inside.end {
            return Err(became_shorter(
                self.part,
                from_bytes + read.len_bytes as u64,
            ));
        }
        block.buf = Some(read.buf);
        Ok(())
    }

    /// The next line in memory: whether there is one, or `None` if more must be read.
    fn step(&mut self) -> Option<bool> {
        if std::mem::take(&mut self.is_carry_done) {
            clear(&mut self.carry);
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
            if end.is_some() {
                self.count();
                return Some(true);
            }
            self.current = None;
        }
        if !self.coming.is_empty() || self.read_at < self.part.data_len_bytes {
            return None;
        }
        let is_there = !self.carry.is_empty();
        self.is_carry_done = true;
        if is_there {
            self.count();
        }
        Some(is_there)
    }

    fn count(&mut self) {
        self.number += 1;
        self.begins_at = self.ends_at;
        self.ends_at += self.line().len() as u64 + 1;
    }
}

/// Empties a buffer, and frees its memory if it held a long line.
fn clear(buffer: &mut Vec<u8>) {
    match buffer.capacity() > KEPT_BYTES_MAX {
        true => *buffer = Vec::new(),
        false => buffer.clear(),
    }
}
