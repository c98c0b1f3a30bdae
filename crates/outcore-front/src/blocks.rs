//! Reads a file in order and writes a new one, through the engine's
//! [`Device`](outcore_io::drive::Device).
//!
//! Contract: a [`BlockReader`] reads blocks of 1 MiB: the first one alone, then up to three ahead
//! of the current one. A [`BlockWriter`] collects bytes into blocks of 1 MiB and keeps up to four
//! of them in flight; [`BlockWriter::finish`] waits for all and truncates the file to its length. A
//! [`StagedFile`] grows in a private directory next to its final place. It is synced and then
//! appears by one rename; if it is dropped before, nothing is left. Both writers implement
//! [`Write`]. They keep the complete error of the engine, which an `io::Error` would lose; `finish`
//! or [`StagedFile::publish`] returns it.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use outcore::job::{Job, ScratchDrive};
use outcore::{Error, Kind, Result};
use outcore_io::drive::link::file_behind;
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::memory::{Buf, Ledger, Pool, block_ceil};
use outcore_io::output::parent_of;
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::Transfers;
use outcore_io::units;

const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS: usize = 4;
/// The smallest block when many files are written at the same time.
const SMALL_BLOCK_BYTES: usize = 32 << 10;
const READ: &str = "file that is read";
const WRITTEN: &str = "file that is written";
const STAGED: &str = "output";

/// A file that is read from beginning to end.
pub(crate) struct BlockReader {
    job: Job,
    volume: Volume,
    pool: Pool,
    /// Reads in flight, each with its offset.
    reads: Transfers<u64>,
    file: VolumeFile,
    /// Offset of the next block to read, and the end of the file.
    next_bytes: u64,
    end_bytes: u64,
    /// Number of blocks that may be requested before they are used.
    ahead: usize,
    current: Option<Buf>,
    from: usize,
    to: usize,
}

impl fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("BlockReader");
        text.field("next_bytes", &self.next_bytes)
            .finish_non_exhaustive()
    }
}

impl BlockReader {
    /// Opens the file at `path`, to be read from `from_bytes` to its end. Reads nothing yet.
    ///
    /// # Errors
    /// The budget has no room for its blocks; the file cannot be opened.
    pub(crate) fn open(job: &Job, path: &Path, from_bytes: u64) -> Result<Self> {
        let volume = Volume::new(job.device.clone(), &[])?;
        let file = volume.open(path, Access::Read)?;
        let end_bytes = file.facts.len_bytes;
        let start_bytes = from_bytes - from_bytes % BLOCK_BYTES as u64;
        let blocks = end_bytes
            .saturating_sub(start_bytes)
            .div_ceil(BLOCK_BYTES as u64);
        let slots = blocks.clamp(1, BLOCKS as u64) as usize;
        Ok(BlockReader {
            pool: Pool::new(&job.budget, READ, BLOCK_BYTES, slots)?,
            reads: Transfers::new(&volume)?,
            file,
            volume,
            job: job.clone(),
            next_bytes: start_bytes,
            end_bytes,
            ahead: 1,
            current: None,
            from: (from_bytes - start_bytes) as usize,
            to: 0,
        })
    }

    /// Copies from the current block into `room`; 0 at the end of the file.
    ///
    /// # Errors
    /// A failed read; an interruption.
    pub(crate) fn take(&mut self, room: &mut [u8]) -> Result<usize> {
        while self.current.is_none() || self.from >= self.to {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let Some(block) = &self.current else {
            return Ok(0);
        };
        let bytes = room.len().min(self.to - self.from);
        room[..bytes].copy_from_slice(&block[self.from..self.from + bytes]);
        self.from += bytes;
        Ok(bytes)
    }

    /// Makes the next block the current one. Returns false at the end of the file.
    fn advance(&mut self) -> Result<bool> {
        if self.current.take().is_some() {
            self.from -= self.to;
            self.ahead = (2 * self.ahead).min(BLOCKS - 1);
        }
        self.to = 0;
        self.ask()?;
        let Some(read) = self.reads.next_in_order(|| self.job.control.check())? else {
            return Ok(false);
        };
        if read.len_bytes < read.buf.len() {
            // The file ends here, even if it was longer when it was opened.
            self.end_bytes = self.end_bytes.min(read.what + read.len_bytes as u64);
        }
        self.to = read.len_bytes;
        self.current = Some(read.buf);
        Ok(true)
    }

    /// Starts as many reads as may be in flight.
    fn ask(&mut self) -> Result<()> {
        while self.next_bytes < self.end_bytes
            && self.reads.len() < self.ahead
            && let Some(mut block) = self.pool.take()
        {
            let rest_bytes = block_ceil(self.end_bytes - self.next_bytes);
            let block = block.split_to((BLOCK_BYTES as u64).min(rest_bytes) as usize);
            let at_bytes = self.next_bytes;
            self.reads.read(&self.file, at_bytes, block, at_bytes);
            self.next_bytes += BLOCK_BYTES as u64;
        }
        self.reads.start()
    }
}

impl Drop for BlockReader {
    fn drop(&mut self) {
        // A file may be closed only when no request is in flight on it. If the device fails here,
        // the file stays open until the process ends.
        if self.reads.forget().is_ok() {
            self.volume.close(&self.file);
        }
    }
}

/// A file that is being written from beginning to end.
pub struct BlockWriter {
    job: Job,
    volume: Volume,
    pool: Pool,
    /// Writes in flight, each with its number of filled bytes.
    writes: Transfers<u64>,
    file: VolumeFile,
    block: Option<Buf>,
    block_bytes: usize,
    filled_bytes: usize,
    len_bytes: u64,
    limit_bytes: u64,
    submitted_bytes: u64,
    written_bytes: u64,
    failure: Option<Error>,
}

impl fmt::Debug for BlockWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("BlockWriter");
        text.field("len_bytes", &self.len_bytes)
            .finish_non_exhaustive()
    }
}

/// A finished file.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// The length of the file.
    pub len_bytes: u64,
    /// Bytes written to the drive, in whole blocks.
    pub moved_bytes: u64,
}

impl BlockWriter {
    /// `ledger` plus the reservation of one writer.
    pub fn on(ledger: Ledger) -> Ledger {
        ledger.always(WRITTEN, Pool::total_bytes(BLOCK_BYTES, BLOCKS))
    }

    /// Creates a file at `path` with at most `limit_bytes`.
    ///
    /// # Errors
    /// The budget has no room for its blocks; the file cannot be created.
    pub fn create(job: &Job, path: &Path, limit_bytes: u64) -> Result<Self> {
        Self::create_with(job, path, limit_bytes, BLOCK_BYTES)
    }

    /// As [`BlockWriter::create`], for one of many files that are written at the same time. All its
    /// blocks together take `share_bytes`, or each block has the smallest size.
    ///
    /// # Errors
    /// As [`BlockWriter::create`].
    pub(crate) fn create_one_of(job: &Job, path: &Path, share_bytes: u64) -> Result<Self> {
        let block_bytes = (share_bytes / BLOCKS as u64) as usize;
        let block_bytes = block_bytes / SMALL_BLOCK_BYTES * SMALL_BLOCK_BYTES;
        let block_bytes = block_bytes.clamp(SMALL_BLOCK_BYTES, BLOCK_BYTES);
        Self::create_with(job, path, u64::MAX, block_bytes)
    }

    fn create_with(job: &Job, path: &Path, limit_bytes: u64, block_bytes: usize) -> Result<Self> {
        let volume = Volume::new(job.device.clone(), &[ScratchDrive::new(parent_of(path))])?;
        Ok(BlockWriter {
            pool: Pool::new(&job.budget, WRITTEN, block_bytes, BLOCKS)?,
            block_bytes,
            writes: Transfers::new(&volume)?,
            file: volume.open(path, Access::Create)?,
            volume,
            job: job.clone(),
            block: None,
            filled_bytes: 0,
            len_bytes: 0,
            limit_bytes,
            submitted_bytes: 0,
            written_bytes: 0,
            failure: None,
        })
    }

    /// Space for the next bytes, never empty.
    ///
    /// # Errors
    /// A failed write of earlier blocks; an interruption.
    pub(crate) fn room(&mut self) -> Result<&mut [u8]> {
        while self.block.is_none() {
            self.block = self.pool.take();
            if self.block.is_none() {
                self.job.control.check()?;
                self.settle(true)?;
            }
        }
        let filled_bytes = self.filled_bytes;
        Ok(match &mut self.block {
            Some(block) => &mut block[filled_bytes..],
            None => &mut [],
        })
    }

    /// Fails if the job has been asked to stop.
    ///
    /// # Errors
    /// An interruption.
    pub fn check(&self) -> Result<()> {
        self.job.control.check()
    }

    /// Marks the first bytes of the space as written.
    ///
    /// # Errors
    /// [`Kind::NoSpace`] at the limit.
    pub fn advance(&mut self, bytes: usize) -> Result<()> {
        self.filled_bytes += bytes;
        self.len_bytes += bytes as u64;
        if self.len_bytes > self.limit_bytes {
            let limit = units::bytes_exact(self.limit_bytes);
            let cause = format!("the copy on scratch would exceed the limit of {limit}");
            return Err(Error::new(Kind::NoSpace, "read input", cause)
                .hint("raise --scratch-limit, or sort a file instead of a pipe"));
        }
        if self.filled_bytes == self.block_bytes {
            self.submit()?;
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<()> {
        let Some(mut block) = self.block.take() else {
            return Ok(());
        };
        let filled_bytes = std::mem::take(&mut self.filled_bytes) as u64;
        let whole = block.split_to(block_ceil(filled_bytes) as usize);
        self.submitted_bytes += whole.len() as u64;
        let at_bytes = self.len_bytes - filled_bytes;
        self.writes.write(&self.file, at_bytes, whole, filled_bytes);
        self.settle(false)
    }

    /// Collects completed writes.
    ///
    /// # Errors
    /// A failed write.
    pub fn settle(&mut self, wait: bool) -> Result<()> {
        match wait {
            true => self.writes.wait()?,
            false => self.writes.start()?,
        }
        while let Some(written) = self.writes.take()? {
            self.written_bytes += written.what;
            self.job.control.advance(written.what);
        }
        self.job.control.set_traffic(0, self.written_bytes);
        Ok(())
    }

    /// Writes the remaining bytes, waits for all writes, and truncates the file to its length.
    ///
    /// # Errors
    /// The first failure.
    pub fn finish(mut self) -> Result<Written> {
        let written = self.complete()?;
        self.volume.close(&self.file);
        Ok(written)
    }

    /// As [`BlockWriter::finish`], and also syncs the file to the drive.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn finish_synced(mut self) -> Result<Written> {
        let written = self.complete()?;
        self.volume.device().sync(self.file.id)?;
        self.volume.close(&self.file);
        Ok(written)
    }

    fn complete(&mut self) -> Result<Written> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.filled_bytes > 0 {
            self.submit()?;
        }
        while !self.writes.is_empty() {
            self.job.control.check()?;
            self.settle(true)?;
        }
        self.volume.device().set_len(self.file.id, self.len_bytes)?;
        Ok(Written {
            len_bytes: self.len_bytes,
            moved_bytes: self.submitted_bytes,
        })
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// As [`BlockWriter::advance`].
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[self.take(rest)?..];
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        self.job.control.check()?;
        let room = self.room()?;
        let taken_bytes = bytes.len().min(room.len());
        room[..taken_bytes].copy_from_slice(&bytes[..taken_bytes]);
        self.advance(taken_bytes)?;
        Ok(taken_bytes)
    }
}

impl Write for BlockWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes).map_err(|error| {
            let told = match error.raw_errno() {
                Some(errno) => io::Error::from_raw_os_error(errno),
                None => io::Error::other(error.to_string()),
            };
            self.failure = Some(error);
            told
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that appears at its place when it is complete.
#[derive(Debug)]
pub(crate) struct StagedFile {
    writer: BlockWriter,
    dir: PrivateDir,
    path: PathBuf,
    replace: bool,
}

impl StagedFile {
    /// Starts the file that will be at `path`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(job: &Job, path: &Path, replace: bool) -> Result<Self> {
        let path = file_behind("create output", path)?;
        let parent = parent_of(&path);
        job.device.sweep_private_dirs(parent)?;
        let dir = job.device.make_private_dir(parent)?;
        Ok(StagedFile {
            writer: BlockWriter::create(job, &dir.path().join(STAGED), u64::MAX)?,
            dir,
            path,
            replace,
        })
    }

    /// The error of a failed write; returned only once.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        let failure = self.writer.failure.take();
        failure.map(|error| match error.file_path() {
            Some(_) => error,
            None => error.path(&self.path),
        })
    }

    /// Moves the file to its place.
    ///
    /// # Errors
    /// The first failure since the start; then no file is at its place.
    pub(crate) fn publish(mut self) -> Result<Written> {
        let place = |error: Error| match error.file_path() {
            Some(_) => error,
            None => error.path(&self.path),
        };
        let written = self.writer.complete().map_err(place)?;
        let device = self.writer.volume.device().clone();
        device.sync(self.writer.file.id).map_err(place)?;
        let staged = self.dir.path().join(STAGED);
        device
            .rename(&staged, &self.path, self.replace)
            .map_err(place)?;
        self.writer.volume.close(&self.writer.file);
        Ok(written)
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
