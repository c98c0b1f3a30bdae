//! Scratch space over many drives: one log a drive, extents handed out by weight.
//!
//! Contract: each scratch drive has one private file (see [`crate::drive::private_dir`]) that
//! grows like a log; [`Scratch::allocate`] gives the next extent on the drive that has had the
//! least for its weight, starting at a seeded one, passing over drives that are full or whose
//! lane of the asking port is long. Freed extents are used again before a log grows. The sum of
//! live extents stays under the limit. Nothing here touches data; writers do.
//!
//! PALID (SPAA 2025) section 3 spreads buckets over drives by a random cycle; weights and the
//! log keep that balance for unequal drives and make writes sequential on each.
//!
//! Memory: one word pair a freed extent.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Drive, Port, Volume, VolumeFile};
use crate::drive::{Access, Device, PrivateDir};
use crate::error::{Error, Kind, Result};
use crate::memory::block_ceil;

/// A lane with this many requests is passed over while another drive has fewer.
const BACKLOG_HIGH: usize = 48;

/// Room is reserved in steps of at least so much once there is as much: each step waits for the
/// writes in flight on the file.
const STEP_BYTES: u64 = 64 << 20;

/// A piece of a scratch log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which log.
    pub log: u16,
    /// Where in it.
    pub offset_bytes: u64,
}

#[derive(Debug)]
struct Log {
    file: VolumeFile,
    drive: Arc<Drive>,
    end_bytes: u64,
    reserved_bytes: u64,
    live_bytes: u64,
    free: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Logs {
    logs: Vec<Log>,
    live_bytes: u64,
    peak_bytes: u64,
    next: usize,
}

/// The scratch of one job. Dropping it removes the files' names at once, and leaves it to the device
/// when their space is free; [`Scratch::remove`] waits for that.
pub struct Scratch {
    logs: Mutex<Logs>,
    files: Vec<VolumeFile>,
    limit_bytes: u64,
    /// What one log is expected to hold.
    expected_bytes: u64,
    device: Arc<dyn Device>,
    dirs: Vec<PrivateDir>,
}

impl Scratch {
    /// Makes a log in each of `dirs` after sweeping what dead jobs left there.
    ///
    /// `expected_bytes` is what the job will put on all of them, about; it only sets how far ahead
    /// room is reserved.
    pub fn create(
        volume: &Volume,
        dirs: &[PathBuf],
        limit_bytes: u64,
        expected_bytes: u64,
        seed: u64,
    ) -> Result<Self> {
        let mut private_dirs = Vec::new();
        let mut logs = Vec::new();
        for dir in dirs {
            volume.device().sweep_private_dirs(dir)?;
            let private_dir = volume.device().make_private_dir(dir)?;
            let file = volume.open(&private_dir.path().join("scratch"), Access::Create)?;
            let drive = Arc::clone(&volume.drives()[file.drive_index]);
            logs.push(Log {
                file,
                drive,
                end_bytes: 0,
                reserved_bytes: 0,
                live_bytes: 0,
                free: Vec::new(),
            });
            private_dirs.push(private_dir);
        }
        let files = logs.iter().map(|log| log.file.clone()).collect();
        let next = if logs.is_empty() {
            0
        } else {
            (seed % logs.len() as u64) as usize
        };
        let logs = Mutex::new(Logs {
            logs,
            live_bytes: 0,
            peak_bytes: 0,
            next,
        });
        Ok(Scratch {
            logs,
            files,
            limit_bytes,
            expected_bytes: block_ceil(expected_bytes / dirs.len().max(1) as u64),
            device: Arc::clone(volume.device()),
            dirs: private_dirs,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a log.
    pub fn file(&self, place: Place) -> &VolumeFile {
        &self.files[usize::from(place.log)]
    }

    /// Name of the drive of a log, for messages.
    pub fn drive_name(&self, place: Place) -> String {
        self.lock().logs[usize::from(place.log)].drive.name.clone()
    }

    /// The most bytes that were live at once.
    pub fn peak_bytes(&self) -> u64 {
        self.lock().peak_bytes
    }

    /// An extent of `len_bytes` (a multiple of 4 KiB) on the drive whose turn it is.
    pub fn allocate(&self, len_bytes: u64, port: &Port) -> Result<Place> {
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
            let Some(index) = choose(&state, port, len_bytes) else {
                return Err(self.no_space(&state, len_bytes));
            };
            if let Some(offset_bytes) = self.take(&mut state.logs[index], len_bytes)? {
                state.next = (index + 1) % state.logs.len();
                state.live_bytes += len_bytes;
                state.peak_bytes = state.peak_bytes.max(state.live_bytes);
                return Ok(Place {
                    log: index as u16,
                    offset_bytes,
                });
            }
        }
    }

    /// Takes an extent from a log, a freed one if there is one of that size; nothing, and the
    /// drive counts as full from now on, if there is no room for more.
    fn take(&self, log: &mut Log, len_bytes: u64) -> Result<Option<u64>> {
        let fitting = log
            .free
            .iter()
            .rposition(|&(_, free_bytes)| free_bytes == len_bytes);
        if let Some(entry) = fitting {
            log.live_bytes += len_bytes;
            return Ok(Some(log.free.swap_remove(entry).0));
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

    /// Reserves room in a log: what the job is expected to put there, and in small steps beyond
    /// that; false if there is not even room up to `end_bytes`. Writes into reserved room need no
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

    /// Gives an extent back.
    pub fn free(&self, place: Place, len_bytes: u64) {
        let mut state = self.lock();
        state.live_bytes -= len_bytes;
        let log = &mut state.logs[usize::from(place.log)];
        log.live_bytes -= len_bytes;
        log.free.push((place.offset_bytes, len_bytes));
    }

    /// Removes the files; their space is free on return.
    pub fn remove(mut self) {
        self.close_files();
        self.dirs.clear();
    }

    fn close_files(&mut self) {
        for file in self.files.drain(..) {
            self.device.close(file.id);
        }
    }

    fn no_space(&self, state: &Logs, len_bytes: u64) -> Error {
        let drives: Vec<String> = state
            .logs
            .iter()
            .map(|log| format!("{} holds {} bytes", log.drive.name, log.live_bytes))
            .collect();
        Error::new(
            Kind::NoSpace,
            "allocate scratch",
            format!(
                "{len_bytes} bytes more needed and every drive is full: {}",
                drives.join(", ")
            ),
        )
        .hint("free some space or add a --drive")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Of an open file only the name goes, which takes no time whatever its length.
        self.dirs.clear();
        self.close_files();
    }
}

/// The log whose turn it is: not full (or with a freed extent of that size), not busy, with the
/// least on it for its weight.
fn choose(state: &Logs, port: &Port, len_bytes: u64) -> Option<usize> {
    let count = state.logs.len();
    let mut best: Option<(bool, f64, usize)> = None;
    for step in 0..count {
        let index = (state.next + step) % count;
        let log = &state.logs[index];
        if log.drive.is_full() && !log.free.iter().any(|&(_, free)| free == len_bytes) {
            continue;
        }
        let is_busy = port.backlog(log.file.drive_index) >= BACKLOG_HIGH;
        let share = log.live_bytes as f64 / log.drive.weight.max(f64::MIN_POSITIVE);
        if best.is_none_or(|(busy, least, _)| (is_busy, share) < (busy, least)) {
            best = Some((is_busy, share, index));
        }
    }
    best.map(|(_, _, index)| index)
}
