//! Scratch space over many drives: a few logs per drive, extents allocated by weight.
//!
//! Contract: each scratch drive has one private file per *band* (see [`crate::drive::private_dir`])
//! that grows like a log. Data that are read at about the same time belong in one band. After the
//! last write ([`Scratch::seal`]), a log is removed as soon as all of it has been read, even while
//! other logs are still needed. Removing all logs at the end would take a tenth of the time of a
//! sort.
//!
//! [`Scratch::allocate`] returns the next extent on the drive that has received the least for its
//! weight, starting at a seeded drive. It skips drives that are full or whose lane of the calling
//! port is long. Freed extents, and parts of them, are reused before a log grows. The sum of live
//! extents stays under the limit. This module does not touch data; writers do.
//!
//! PALID (SPAA 2025), section 3, spreads buckets over drives by a random cycle. Weights and the log
//! keep that balance for unequal drives and make writes sequential on each.
//!
//! The scratch of a job that can be resumed ([`Scratch::vouch`]) never reuses freed extents: the
//! journal may vouch for their former contents. [`Scratch::reopen`] continues on the logs of a dead
//! job.
//!
//! Memory: one word per freed extent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::drive::{Access, Device, PrivateDir};
use crate::error::{Error, Kind, Result};
use crate::memory::block_ceil;
use crate::port::{Drive, Port, ScratchDrive, Volume, VolumeFile};
use crate::threads;

/// The most bands, the most files on all drives, and the bytes of a log that justify a band.
const BANDS_MAX: u64 = 8;
const FILES_MAX: u64 = 128;
const BAND_BYTES: u64 = 32 << 20;
/// A drive whose lane has this many requests is skipped while another drive has fewer.
const BACKLOG_HIGH: usize = 48;

/// After this much is reserved, room grows in steps of at least this size: each step waits for the
/// writes in flight on the file.
const STEP_BYTES: u64 = 64 << 20;

/// A piece of a scratch log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScratchAddress {
    /// Number of the log.
    pub log: u16,
    /// The length of the extent.
    pub len_bytes: u32,
    /// Offset in the log.
    pub offset_bytes: u64,
}

impl ScratchAddress {
    /// The first `len_bytes` of the extent, and the rest.
    ///
    /// # Panics
    /// If the extent is shorter.
    pub fn split_at(self, len_bytes: u32) -> (Self, Self) {
        let rest = ScratchAddress {
            len_bytes: self.len_bytes - len_bytes,
            offset_bytes: self.offset_bytes + u64::from(len_bytes),
            ..self
        };
        (ScratchAddress { len_bytes, ..self }, rest)
    }
}

#[derive(Debug)]
struct Log {
    file: VolumeFile,
    drive: Arc<Drive>,
    end_bytes: u64,
    reserved_bytes: u64,
    live_bytes: u64,
    /// Offsets of freed extents, by length.
    free: BTreeMap<u64, Vec<u64>>,
}

/// Sizes of the scratch of a job; see [`Scratch::create`].
struct Sizes {
    limit_bytes: u64,
    expected_bytes: u64,
    seed: u64,
    bands: usize,
}

/// Whether the private directories `dirs` of a dead job hold what its journal vouches for: each log
/// up to its end in `ends_bytes`. A log that is not needed has the end 0.
pub fn has_logs(dirs: &[PrivateDir], ends_bytes: &[u64]) -> bool {
    let bands = ends_bytes.len() / dirs.len().max(1);
    ends_bytes.iter().enumerate().all(|(index, &end_bytes)| {
        let path = dirs
            .get(index / bands.max(1))
            .map(|dir| log_path(dir, index % bands));
        let len_bytes = path.and_then(|path| Some(std::fs::symlink_metadata(path).ok()?.len()));
        end_bytes == 0 || len_bytes.is_some_and(|len_bytes| len_bytes >= end_bytes)
    })
}

fn log_path(dir: &PrivateDir, band: usize) -> PathBuf {
    dir.path().join(format!("scratch-{band}"))
}

impl Log {
    /// A log that holds data up to `end_bytes`.
    fn new(volume: &Volume, file: VolumeFile, end_bytes: u64) -> Self {
        let drive = Arc::clone(&volume.drives()[file.drive_index]);
        Log {
            file,
            drive,
            end_bytes,
            reserved_bytes: end_bytes,
            live_bytes: end_bytes,
            free: BTreeMap::new(),
        }
    }

    /// Takes `len_bytes` of the shortest freed extent that is long enough.
    fn take_freed(&mut self, len_bytes: u64) -> Option<u64> {
        let (&free_bytes, offsets) = self.free.range_mut(len_bytes..).next()?;
        let offset_bytes = offsets.pop();
        if offsets.is_empty() {
            self.free.remove(&free_bytes);
        }
        let offset_bytes = offset_bytes?;
        if free_bytes > len_bytes {
            let rest = self.free.entry(free_bytes - len_bytes).or_default();
            rest.push(offset_bytes + len_bytes);
        }
        Some(offset_bytes)
    }
}

#[derive(Debug)]
struct Logs {
    logs: Vec<Log>,
    /// Bytes in extents on each drive, and the limit.
    drive_bytes: Vec<u64>,
    drive_limits_bytes: Vec<u64>,
    live_bytes: u64,
    peak_bytes: u64,
    next: usize,
}

/// Contents of a log that have not been read yet.
#[derive(Debug)]
struct LogFile {
    file: VolumeFile,
    unread: AtomicU64,
    is_gone: AtomicBool,
}

/// The scratch of one job. Dropping it removes the files' names at once; the device may free the
/// space later. [`Scratch::remove`] waits for that.
pub struct Scratch {
    logs: Mutex<Logs>,
    /// All bands of the first drive, then those of the next.
    files: Vec<LogFile>,
    bands: usize,
    is_sealed: AtomicBool,
    /// Whether a journal vouches for extents.
    is_vouched: AtomicBool,
    /// Whether logs stay until the end.
    is_held: AtomicBool,
    limit_bytes: u64,
    /// Expected size of one log.
    expected_bytes: u64,
    device: Arc<dyn Device>,
    dirs: Vec<PrivateDir>,
}

impl Scratch {
    /// Makes logs on each of `drives` after sweeping the leftovers of dead jobs there.
    ///
    /// `expected_bytes` is about the number of bytes that the job will put on all drives. It only
    /// determines how far ahead room is reserved, and the number of bands.
    pub fn create(
        volume: &Volume,
        drives: &[ScratchDrive],
        limit_bytes: u64,
        expected_bytes: u64,
        seed: u64,
    ) -> Result<Self> {
        let mut private_dirs = Vec::new();
        let mut logs = Vec::new();
        let drive_bytes = expected_bytes / drives.len().max(1) as u64;
        let bands_max = (FILES_MAX / drives.len().max(1) as u64).clamp(1, BANDS_MAX);
        let bands = (drive_bytes / BAND_BYTES).clamp(1, bands_max) as usize;
        for dir in drives.iter().map(|drive| &drive.dir) {
            volume.device().sweep_private_dirs(dir)?;
            let private_dir = volume.device().make_private_dir(dir)?;
            private_dir.sync()?;
            for band in 0..bands {
                let path = log_path(&private_dir, band);
                let file = volume.open(&path, Access::Create)?;
                logs.push(Log::new(volume, file, 0));
            }
            private_dirs.push(private_dir);
        }
        let sizes = Sizes {
            limit_bytes,
            expected_bytes,
            seed,
            bands,
        };
        Ok(Self::of(volume, drives, private_dirs, logs, sizes))
    }

    /// The scratch that a dead job has left in `dirs`, one on each of `drives`. Each of its logs,
    /// all bands of the first drive first, holds data up to the byte in `ends_bytes`.
    ///
    /// # Errors
    /// The device's error.
    pub fn reopen(
        volume: &Volume,
        drives: &[ScratchDrive],
        dirs: Vec<PrivateDir>,
        ends_bytes: &[u64],
        limit_bytes: u64,
        expected_bytes: u64,
    ) -> Result<Self> {
        let bands = ends_bytes.len() / dirs.len().max(1);
        let mut logs = Vec::new();
        for (index, &end_bytes) in ends_bytes.iter().enumerate() {
            let path = log_path(&dirs[index / bands], index % bands);
            // A log that was no longer needed has been removed.
            let access = match end_bytes > 0 || path.exists() {
                true => Access::Update,
                false => Access::Create,
            };
            let file = volume.open(&path, access)?;
            logs.push(Log::new(volume, file, end_bytes));
        }
        let sizes = Sizes {
            limit_bytes,
            expected_bytes,
            seed: 0,
            bands,
        };
        let scratch = Self::of(volume, drives, dirs, logs, sizes);
        scratch.vouch();
        Ok(scratch)
    }

    fn of(
        volume: &Volume,
        drives: &[ScratchDrive],
        dirs: Vec<PrivateDir>,
        logs: Vec<Log>,
        sizes: Sizes,
    ) -> Self {
        let drive_bytes = sizes.expected_bytes / drives.len().max(1) as u64;
        let files = logs.iter().map(|log| LogFile {
            file: log.file.clone(),
            unread: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
        });
        let files = files.collect();
        let next = (sizes.seed % drives.len().max(1) as u64) as usize;
        let live_bytes = logs.iter().map(|log| log.live_bytes).sum();
        let of_drive = |logs: &[Log]| logs.iter().map(|log| log.live_bytes).sum();
        let logs = Mutex::new(Logs {
            drive_bytes: logs.chunks(sizes.bands).map(of_drive).collect(),
            logs,
            drive_limits_bytes: drives.iter().map(|drive| drive.limit_bytes).collect(),
            live_bytes,
            peak_bytes: live_bytes,
            next,
        });
        Scratch {
            logs,
            files,
            bands: sizes.bands,
            is_sealed: AtomicBool::new(false),
            is_vouched: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            limit_bytes: sizes.limit_bytes,
            expected_bytes: block_ceil(drive_bytes / sizes.bands as u64),
            device: Arc::clone(volume.device()),
            dirs,
        }
    }

    /// From now on a journal vouches for extents, so that no freed extent is reused.
    pub fn vouch(&self) {
        self.is_vouched.store(true, Ordering::Release);
    }

    /// From now on logs stay until the end, even after they have been read completely.
    pub fn hold_logs(&self) {
        self.is_held.store(true, Ordering::Release);
    }

    /// Makes everything that was written durable; no write may be in flight.
    ///
    /// # Errors
    /// The device's error.
    pub fn sync(&self) -> Result<()> {
        threads::each("outcore-sync", &self.files, |log| {
            match log.is_gone.load(Ordering::Acquire) {
                true => Ok(()),
                false => self.device.sync(log.file.id),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a log.
    pub fn file(&self, address: ScratchAddress) -> &VolumeFile {
        &self.files[usize::from(address.log)].file
    }

    /// Name of the drive of a log, for messages.
    pub fn drive_name(&self, address: ScratchAddress) -> String {
        self.lock().logs[usize::from(address.log)]
            .drive
            .name
            .clone()
    }

    /// The largest number of bytes that were live at once.
    pub fn peak_bytes(&self) -> u64 {
        self.lock().peak_bytes
    }

    /// Number of bands; allocations may name `0..bands()`.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Notes that an address will be written, and read once.
    pub fn expect_read(&self, address: ScratchAddress) {
        self.files[usize::from(address.log)]
            .unread
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the expected data at an address have been read, or will not be.
    pub fn forget(&self, address: ScratchAddress) {
        let log = &self.files[usize::from(address.log)];
        if log.unread.fetch_sub(1, Ordering::AcqRel) == 1 && self.is_sealed.load(Ordering::Acquire)
        {
            self.remove_log(log);
        }
    }

    /// Declares that nothing more will be written: logs are removed as soon as they have been read.
    /// No thread may be writing.
    pub fn seal(&self) {
        self.is_sealed.store(true, Ordering::Release);
        for log in &self.files {
            if log.unread.load(Ordering::Acquire) == 0 {
                self.remove_log(log);
            }
        }
    }

    /// Whether the scratch is sealed.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Acquire)
    }

    fn remove_log(&self, log: &LogFile) {
        if self.is_held.load(Ordering::Acquire) {
            return;
        }
        if !log.is_gone.swap(true, Ordering::AcqRel) {
            // If the log cannot be removed now, it is removed with the directory.
            let _ = self.device.remove(&log.file.path);
            self.device.close(log.file.id);
        }
    }

    /// An extent of `len_bytes` (a multiple of 4 KiB) in a band, on the drive that is next.
    pub fn allocate(&self, len_bytes: u64, band: usize, port: &Port) -> Result<ScratchAddress> {
        let mut state = self.lock();
        if state.live_bytes + len_bytes > self.limit_bytes {
            return Err(Error::new(
                Kind::NoSpace,
                "allocate scratch",
                format!("the limit of {} bytes is reached", self.limit_bytes),
            )
            .hint("raise --scratch-limit or --memory"));
        }
        loop {
            let Some(drive) = self.choose(&state, port, len_bytes, band) else {
                return Err(self.no_space(&state, len_bytes));
            };
            let index = drive * self.bands + band;
            if let Some(offset_bytes) = self.take(&mut state.logs[index], len_bytes)? {
                state.next = (drive + 1) % self.drive_count();
                state.live_bytes += len_bytes;
                state.drive_bytes[drive] += len_bytes;
                state.peak_bytes = state.peak_bytes.max(state.live_bytes);
                return Ok(ScratchAddress {
                    log: index as u16,
                    len_bytes: len_bytes as u32,
                    offset_bytes,
                });
            }
        }
    }

    /// Takes an extent from a log, preferably a freed one that is long enough. If there is no room,
    /// returns `None`, and the drive counts as full from then on.
    fn take(&self, log: &mut Log, len_bytes: u64) -> Result<Option<u64>> {
        if let Some(offset_bytes) = log.take_freed(len_bytes) {
            log.live_bytes += len_bytes;
            return Ok(Some(offset_bytes));
        }
        let end_bytes = log.end_bytes + len_bytes;
        if end_bytes > log.reserved_bytes && !self.reserve(log, end_bytes)? {
            log.drive.set_full();
            return Ok(None);
        }
        log.end_bytes = end_bytes;
        log.live_bytes += len_bytes;
        Ok(Some(end_bytes - len_bytes))
    }

    /// Reserves room in a log: the expected size of the job's data, and small steps beyond that.
    /// False if there is not even room up to `end_bytes`. Writes into reserved room need no
    /// exclusive lock of the file (ext4, XFS).
    fn reserve(&self, log: &mut Log, end_bytes: u64) -> Result<bool> {
        let step_bytes = block_ceil(self.expected_bytes / 32).max(end_bytes.min(STEP_BYTES));
        for wanted_bytes in [self.expected_bytes.max(end_bytes + step_bytes), end_bytes] {
            match self.device.allocate(log.file.id, wanted_bytes) {
                Ok(()) => {
                    log.reserved_bytes = wanted_bytes;
                    return Ok(true);
                }
                Err(error) if error.kind() == Kind::NoSpace => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Returns an extent.
    pub fn free(&self, address: ScratchAddress) {
        if self.is_vouched.load(Ordering::Acquire) {
            return;
        }
        let len_bytes = u64::from(address.len_bytes);
        let mut state = self.lock();
        state.live_bytes -= len_bytes;
        state.drive_bytes[usize::from(address.log) / self.bands] -= len_bytes;
        let log = &mut state.logs[usize::from(address.log)];
        log.live_bytes -= len_bytes;
        log.free
            .entry(len_bytes)
            .or_default()
            .push(address.offset_bytes);
    }

    /// The private directories of the scratch.
    pub fn dirs(&self) -> impl Iterator<Item = &PrivateDir> {
        self.dirs.iter()
    }

    /// Whether the directories stay when the scratch is dropped.
    pub fn is_kept(&self) -> bool {
        self.dirs.iter().any(PrivateDir::is_kept)
    }

    /// Removes the files; their space is free on return.
    pub fn remove(mut self) {
        self.dirs.iter().for_each(PrivateDir::release);
        self.close_files();
        self.dirs.clear();
    }

    fn close_files(&mut self) {
        for log in self.files.drain(..) {
            if !log.is_gone.into_inner() {
                self.device.close(log.file.id);
            }
        }
    }

    fn drive_count(&self) -> usize {
        self.files.len() / self.bands
    }

    /// The drive that is next. It has room or a freed extent that is long enough, is below its
    /// limit and not busy, and has the least data in this band for its weight.
    fn choose(&self, state: &Logs, port: &Port, len_bytes: u64, band: usize) -> Option<usize> {
        let count = self.drive_count();
        let mut best: Option<(bool, f64, usize)> = None;
        for step in 0..count {
            let drive = (state.next + step) % count;
            let log = &state.logs[drive * self.bands + band];
            if log.drive.is_full() && log.free.range(len_bytes..).next().is_none() {
                continue;
            }
            if state.drive_bytes[drive] + len_bytes > state.drive_limits_bytes[drive] {
                continue;
            }
            let is_busy = port.backlog(log.file.drive_index) >= BACKLOG_HIGH;
            let share = log.live_bytes as f64 / log.drive.weight.max(f64::MIN_POSITIVE);
            if best.is_none_or(|(busy, least, _)| (is_busy, share) < (busy, least)) {
                best = Some((is_busy, share, drive));
            }
        }
        best.map(|(_, _, drive)| drive)
    }

    fn no_space(&self, state: &Logs, len_bytes: u64) -> Error {
        let drives: Vec<String> = state
            .logs
            .chunks(self.bands)
            .zip(state.drive_bytes.iter().zip(&state.drive_limits_bytes))
            .map(|(logs, (live_bytes, limit_bytes))| {
                let limit = match *limit_bytes {
                    u64::MAX => String::new(),
                    limit_bytes => format!(" of {limit_bytes} allowed"),
                };
                format!("{} holds {live_bytes} bytes{limit}", logs[0].drive.name)
            })
            .collect();
        Error::new(
            Kind::NoSpace,
            "allocate scratch",
            format!(
                "{len_bytes} more bytes are needed, but every drive is full or at its limit: {}",
                drives.join(", ")
            ),
        )
        .hint("free some space or add a --drive")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Removing the name of an open file takes no time, whatever its length. On NFS and FUSE the
        // directory is removed when the file has been closed.
        if !self.is_kept() {
            self.files.iter().for_each(|log| self.remove_log(log));
        }
        self.close_files();
        self.dirs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Device;
    use crate::drive::os::OsDevice;

    fn scratch(dir: &std::path::Path, expected_bytes: u64) -> (Volume, Scratch) {
        let device: Arc<dyn Device> = Arc::new(OsDevice::new(crate::config::IoMode::Auto));
        let drives = [ScratchDrive {
            limit_bytes: 16384,
            ..ScratchDrive::new(dir)
        }];
        let volume = Volume::new(device, &drives).unwrap();
        let scratch = Scratch::create(&volume, &drives, u64::MAX, expected_bytes, 1).unwrap();
        (volume, scratch)
    }

    #[test]
    fn a_drive_gets_no_more_than_its_limit_over_all_bands() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, scratch) = scratch(dir.path(), 2 * BAND_BYTES);
        let port = volume.port().unwrap();
        let first = scratch.allocate(8192, 0, &port).unwrap();
        scratch.allocate(8192, 1, &port).unwrap();
        let refused = scratch.allocate(4096, 1, &port).unwrap_err();
        assert_eq!(refused.kind(), Kind::NoSpace);
        assert!(refused.to_string().contains("16384 allowed"), "{refused}");
        scratch.free(first);
        scratch.allocate(4096, 1, &port).unwrap();
    }

    #[test]
    fn parts_of_freed_extents_are_used_before_a_log_grows() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, scratch) = scratch(dir.path(), BAND_BYTES);
        let port = volume.port().unwrap();
        let allocate = |len_bytes| scratch.allocate(len_bytes, 0, &port).unwrap();
        let (first, second) = (allocate(8192), allocate(4096));
        let (half, other) = first.split_at(4096);
        assert_eq!((half.offset_bytes, other.offset_bytes), (0, 4096));
        scratch.free(other);
        assert_eq!(allocate(4096), other);
        scratch.free(other);
        scratch.free(second);
        scratch.free(half);
        // All extents have the same length by now, and the last freed extent is used first.
        let again = [allocate(4096), allocate(4096), allocate(4096)];
        assert_eq!(again, [half, second, other]);
        let refused = scratch.allocate(8192, 0, &port).unwrap_err();
        assert_eq!(refused.kind(), Kind::NoSpace);
        scratch.free(half);
        let last = allocate(8192);
        assert_eq!(last.offset_bytes, 12288);
        scratch.free(last);
        assert_eq!(allocate(4096), half, "the shortest that is long enough");
        assert_eq!(allocate(4096).offset_bytes, 12288);
    }

    fn logs(dir: &std::path::Path) -> usize {
        let private = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let files = private.flat_map(|dir| std::fs::read_dir(dir).unwrap());
        files
            .filter(|file| file.as_ref().unwrap().file_name() != "lock")
            .count()
    }

    #[test]
    fn a_log_goes_once_all_of_it_has_been_read_and_not_before_all_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, scratch) = scratch(dir.path(), 3 * BAND_BYTES);
        let port = volume.port().unwrap();
        assert_eq!((scratch.bands(), logs(dir.path())), (3, 3));
        let address = |band| {
            let address = scratch.allocate(4096, band, &port).unwrap();
            scratch.expect_read(address);
            address
        };
        let (first, second, other) = (address(0), address(0), address(2));
        scratch.forget(first);
        scratch.forget(second);
        assert_eq!(logs(dir.path()), 3, "more may be written");
        let late = address(0);
        scratch.seal();
        assert_eq!(logs(dir.path()), 2, "an empty log is of no use");
        scratch.forget(other);
        assert_eq!(logs(dir.path()), 1);
        scratch.forget(late);
        assert_eq!(logs(dir.path()), 0);
        drop(port);
        scratch.remove();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
