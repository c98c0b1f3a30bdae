//! The right rows of the current key, which are visited once per left row of the key.
//!
//! Contract: [`Held`] keeps rows in memory up to a limit, and further ones in a private file on the
//! first scratch drive. That file is read from its start for every left row, so each read byte
//! becomes output. It is created at first use, serves all keys of a part, and is removed when the
//! job ends.
//!
//! Bounds: the bytes in memory, [`BUFFERS_COUNT`] buffers after the first spill, and one row.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::Job;
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::memory::{Budget, Buf, Pool};
use outcore_io::port::{ScratchDrive, Volume, VolumeFile};
use outcore_io::transfers::{ReadRange, Transfers};
use outcore_io::{Error, Kind, Result, units};

use super::JOIN;
use super::plan::cut_short;

/// The length of a request.
const BUFFER_BYTES: usize = 256 << 10;
const BUFFERS_COUNT: usize = 4;
/// The length before each row in the file.
const LEN_BYTES: usize = 4;

/// Spill files of all parts of a job.
pub(super) struct Scratch<'j> {
    job: &'j Job,
    parent: PathBuf,
    dir: Mutex<Option<PrivateDir>>,
    files_count: AtomicU64,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl<'j> Scratch<'j> {
    /// Files go to the first scratch drive of the job, or to `beside` if there is none. Creates no
    /// file yet.
    pub(super) fn new(job: &'j Job, beside: &Path) -> Self {
        let first = job.options.drives.first();
        Scratch {
            job,
            parent: first.map_or_else(|| beside.to_path_buf(), |drive| drive.dir.clone()),
            dir: Mutex::new(None),
            files_count: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
        }
    }

    /// The job.
    pub(super) fn job(&self) -> &Job {
        self.job
    }

    /// The most bytes in use at once.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Returns an unused file name.
    fn path(&self) -> Result<PathBuf> {
        let mut dir = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
        if dir.is_none() {
            *dir = Some(self.job.device.make_private_dir(&self.parent)?);
        }
        let number = self.files_count.fetch_add(1, Ordering::Relaxed);
        let dir = dir.as_ref().map_or(Path::new("."), PrivateDir::path);
        Ok(dir.join(format!("scratch-{number}")))
    }

    fn take(&self, len_bytes: u64) -> Result<()> {
        let used_bytes = self.used_bytes.fetch_add(len_bytes, Ordering::Relaxed) + len_bytes;
        self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed);
        let limit_bytes = self.job.options.scratch_limit_bytes;
        if used_bytes > limit_bytes {
            let cause = format!(
                "a key has so many rows on the right that they need more than {} of scratch",
                units::bytes(limit_bytes)
            );
            return Err(Error::new(Kind::NoSpace, JOIN, cause)
                .hint("allow more scratch, or exchange the tables"));
        }
        Ok(())
    }

    fn give_back(&self, len_bytes: u64) {
        self.used_bytes.fetch_sub(len_bytes, Ordering::Relaxed);
    }
}

/// The place of a row in an output batch, valid for that batch only.
#[derive(Debug, Clone, Default)]
pub(super) struct Placed {
    /// The batch's number, from 1.
    pub(super) batch: u64,
    pub(super) range: Range<usize>,
}

/// The transfers of one thread to a file of spilled rows. A part may go on on another thread, which
/// has its own.
#[derive(Default)]
pub(super) struct SpillIo {
    transfers: Option<Transfers<u64>>,
}

impl SpillIo {
    fn of(&mut self, volume: &Volume) -> Result<&mut Transfers<u64>> {
        Ok(match &mut self.transfers {
            Some(transfers) => transfers,
            none => none.insert(Transfers::new(volume)?),
        })
    }

    /// Waits until all that was written is in the file.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn finish(self, job: &Job) -> Result<()> {
        match self.transfers {
            Some(mut transfers) => transfers.finish(|| job.control.check()),
            None => Ok(()),
        }
    }
}

/// See the module.
pub(super) struct Held<'s> {
    scratch: &'s Scratch<'s>,
    bytes_max: usize,
    bytes: Vec<u8>,
    rows: Vec<(Range<usize>, Placed)>,
    /// Spilled rows; it may be empty.
    spilled: Option<Spilled<'s>>,
}

impl<'s> Held<'s> {
    /// Memory of a part that holds `held_bytes` of rows.
    pub(super) fn memory_bytes(held_bytes: u64) -> u64 {
        held_bytes + (BUFFER_BYTES * (BUFFERS_COUNT + 1)) as u64
    }

    pub(super) fn new(scratch: &'s Scratch<'s>, held_bytes: u64) -> Self {
        Held {
            scratch,
            bytes_max: usize::try_from(held_bytes).unwrap_or(usize::MAX),
            bytes: Vec::new(),
            rows: Vec::new(),
            spilled: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes all rows, and keeps the memory and the file.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        if let Some(spilled) = &mut self.spilled {
            spilled.clear();
        }
    }

    /// Appends a row.
    ///
    /// # Errors
    /// I/O; no space.
    pub(super) fn push(&mut self, row: &[u8], io: &mut SpillIo) -> Result<()> {
        // After one row has been spilled, all later ones are too, so that the order is kept.
        let has_spilled = self
            .spilled
            .as_ref()
            .is_some_and(|spilled| !spilled.is_empty());
        let is_full = self.bytes.len() + row.len() > self.bytes_max && !self.rows.is_empty();
        if !has_spilled && !is_full {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(row);
            self.rows.push((from..self.bytes.len(), Placed::default()));
            return Ok(());
        }
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled::create(self.scratch)?),
        };
        spilled.append(&(row.len() as u32).to_le_bytes(), io)?;
        spilled.append(row, io)
    }

    /// Passes all rows to `take` in order, each with its place in an output batch.
    ///
    /// # Errors
    /// I/O; errors of `take`.
    pub(super) fn each(
        &mut self,
        io: &mut SpillIo,
        mut take: impl FnMut(&[u8], &mut Placed) -> Result<()>,
    ) -> Result<()> {
        for (range, placed) in &mut self.rows {
            take(&self.bytes[range.clone()], placed)?;
        }
        match &mut self.spilled {
            Some(spilled) => spilled.each(io, |row| take(row, &mut Placed::default())),
            None => Ok(()),
        }
    }
}

/// Length-prefixed rows in a file; the last ones are in a buffer.
struct Spilled<'s> {
    scratch: &'s Scratch<'s>,
    file: VolumeFile,
    volume: Volume,
    pool: Pool,
    current: Option<Buf>,
    /// Bytes in the buffer.
    filled_bytes: usize,
    /// Bytes in the file.
    len_bytes: u64,
}

impl<'s> Spilled<'s> {
    fn create(scratch: &'s Scratch<'s>) -> Result<Self> {
        let drives = [ScratchDrive::new(&scratch.parent)];
        let volume = Volume::new(std::sync::Arc::clone(&scratch.job.device), &drives)?;
        let file = volume.open(&scratch.path()?, Access::Create)?;
        // The sink has already reserved this memory.
        let budget = Budget::new((BUFFER_BYTES * BUFFERS_COUNT) as u64);
        Ok(Spilled {
            scratch,
            file,
            pool: Pool::new(&budget, JOIN, BUFFER_BYTES, BUFFERS_COUNT)?,
            volume,
            current: None,
            filled_bytes: 0,
            len_bytes: 0,
        })
    }

    fn is_empty(&self) -> bool {
        self.len_bytes == 0 && self.filled_bytes == 0
    }

    fn clear(&mut self) {
        self.scratch.give_back(self.len_bytes);
        (self.filled_bytes, self.len_bytes) = (0, 0);
    }

    fn append(&mut self, mut bytes: &[u8], io: &mut SpillIo) -> Result<()> {
        while !bytes.is_empty() {
            let mut buf = match self.current.take() {
                Some(buf) => buf,
                None => {
                    let control = &self.scratch.job.control;
                    io.of(&self.volume)?
                        .buffer(&self.pool, || control.check())?
                }
            };
            let now_bytes = bytes.len().min(buf.len() - self.filled_bytes);
            let (now, rest) = bytes.split_at(now_bytes);
            buf[self.filled_bytes..][..now_bytes].copy_from_slice(now);
            self.filled_bytes += now_bytes;
            bytes = rest;
            if self.filled_bytes < buf.len() {
                self.current = Some(buf);
            } else {
                self.scratch.take(BUFFER_BYTES as u64)?;
                io.of(&self.volume)?
                    .write_behind(&self.file, self.len_bytes, buf)?;
                self.len_bytes += BUFFER_BYTES as u64;
                self.filled_bytes = 0;
            }
        }
        Ok(())
    }

    fn each(&mut self, io: &mut SpillIo, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let control = &self.scratch.job.control;
        let check = || control.check();
        let transfers = io.of(&self.volume)?;
        transfers.finish(check)?;
        let (file, len_bytes) = (&self.file, self.len_bytes);
        let mut next_bytes = 0;
        let next = |_: &_| {
            let at_bytes = next_bytes;
            next_bytes += BUFFER_BYTES as u64;
            (at_bytes < len_bytes).then_some(ReadRange {
                file,
                at_bytes,
                len_bytes: BUFFER_BYTES,
                what: at_bytes,
            })
        };
        let mut unread = Vec::new();
        transfers.read_in_order(&self.pool, check, next, |arrival| {
            if arrival.len_bytes < BUFFER_BYTES {
                return Err(cut_short());
            }
            rows_of(&mut unread, &arrival.buf, &mut take)
        })?;
        let last = self.current.as_ref().map(|buf| &buf[..self.filled_bytes]);
        rows_of(&mut unread, last.unwrap_or_default(), &mut take)?;
        match unread.is_empty() {
            true => Ok(()),
            false => Err(cut_short()),
        }
    }
}

/// Passes the complete rows of `unread` and `bytes` to `take`; the rest becomes `unread`.
fn rows_of(
    unread: &mut Vec<u8>,
    bytes: &[u8],
    take: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    unread.extend_from_slice(bytes);
    let mut rest = &unread[..];
    while let Some((len_bytes, behind)) = rest.split_first_chunk::<LEN_BYTES>() {
        let Some((row, behind)) = behind.split_at_checked(u32::from_le_bytes(*len_bytes) as usize)
        else {
            break;
        };
        take(row)?;
        rest = behind;
    }
    let left = rest.len();
    unread.drain(..unread.len() - left);
    Ok(())
}
