//! In-memory drives with a seed: files in memory, completions in seeded order, a virtual clock.
//!
//! Contract: the same seed and the same calls give the same completions in the same order at the
//! same virtual times, on any machine. With one thread a whole job is therefore repeatable to the
//! byte. Transfers are cut short at seeded places and resumed as with the kernel, so every test
//! runs the paths for short I/O. A capacity makes writes fail with `ENOSPC` like a full drive.
//!
//! Model: a request takes a fixed latency, a seeded jitter of up to the same length, and its bytes
//! divided by a bandwidth, on one of a few independent channels. Time passes only while a caller
//! waits. Memory: the bytes of all files. For tests and simulation, not for data.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use crate::drive::private_dir::{Names, name_of};
use crate::drive::progress::Progress;
use crate::drive::{
    Access, BLOCK_BYTES, Completion, Device, FileFacts, FileId, FileSystem, Op, PrivateDir, Queue,
    Request,
};
use crate::error::{Error, Result};

const LATENCY_NS: u64 = 80_000;
const BYTES_PER_NS: u64 = 2;

/// Settings of a [`RamDevice`].
#[derive(Debug, Clone, Copy)]
pub struct RamOptions {
    /// Determines jitter, order and short transfers.
    pub seed: u64,
    /// Bytes that all files together may hold.
    pub capacity_bytes: u64,
    /// About one transfer in this many is cut short; 0 for never.
    pub short_one_in: u32,
}

impl Default for RamOptions {
    fn default() -> Self {
        RamOptions {
            seed: 1,
            capacity_bytes: u64::MAX,
            short_one_in: 7,
        }
    }
}

#[derive(Debug, Default)]
struct RamFile {
    path: PathBuf,
    bytes: Vec<u8>,
    is_linked: bool,
}

#[derive(Debug)]
struct State {
    options: RamOptions,
    random: u64,
    now_ns: u64,
    private_dirs: u32,
    files: Vec<RamFile>,
    open: Vec<Option<usize>>,
    names: HashMap<PathBuf, usize>,
    /// Slowdown factors of drives, by file system.
    slowness: HashMap<u64, u64>,
}

/// Drives in memory. Clones share them.
#[derive(Debug, Clone)]
pub struct RamDevice(Arc<Mutex<State>>);

impl State {
    /// splitmix64: a small, well-mixed generator with a state of one word.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn file_mut(&mut self, file: FileId) -> Result<&mut RamFile> {
        let index = self.open.get(file.0 as usize).copied().flatten();
        index
            .and_then(|index| self.files.get_mut(index))
            .ok_or_else(|| Error::errno("use file", Errno::BADF.raw_os_error()))
    }

    fn slowness_of(&mut self, file: FileId) -> u64 {
        let drive = self.file_mut(file).map(|file| file_system_of(&file.path));
        drive
            .ok()
            .and_then(|drive| self.slowness.get(&drive).copied())
            .unwrap_or(1)
    }

    fn used_bytes(&self) -> u64 {
        self.files
            .iter()
            .filter(|f| f.is_linked)
            .map(|f| f.bytes.len() as u64)
            .sum()
    }

    /// Transfers the bytes of `request` from `start` that one system call moves; returns the
    /// negative error number on failure.
    fn transfer_once(&mut self, request: &mut Request, start: usize) -> i32 {
        let mut wanted = request.buf.len() - start;
        let cut = self.options.short_one_in;
        if cut > 0 && wanted > BLOCK_BYTES && self.next_random().is_multiple_of(u64::from(cut)) {
            // At least one block, as in the kernel. A direct transfer is resumed at a block
            // boundary. If it then got fewer bytes than before, this would look like the end of the
            // file.
            let spare = (wanted - BLOCK_BYTES) as u64;
            wanted = BLOCK_BYTES + (self.next_random() % spare) as usize;
        }
        let room = self
            .options
            .capacity_bytes
            .saturating_sub(self.used_bytes());
        let Ok(file) = self.file_mut(request.file) else {
            return -Errno::BADF.raw_os_error();
        };
        let at = request.offset_bytes as usize + start;
        match request.op {
            Op::Read => {
                let have = file.bytes.len().saturating_sub(at).min(wanted);
                if have > 0 {
                    request.buf.copy_in(start, &file.bytes[at..at + have]);
                }
                have as i32
            }
            Op::Write => {
                let grow = (at + wanted).saturating_sub(file.bytes.len());
                if grow as u64 > room {
                    return -Errno::NOSPC.raw_os_error();
                }
                if grow > 0 {
                    file.bytes.resize(at + wanted, 0);
                }
                request
                    .buf
                    .copy_out(start, &mut file.bytes[at..at + wanted]);
                wanted as i32
            }
        }
    }

    fn transfer(&mut self, mut request: Request) -> Completion {
        let mut progress = Progress::new(true);
        loop {
            let start = progress.resume_at_bytes();
            let answer = self.transfer_once(&mut request, start);
            if let Some(result) = progress.advance(answer, request.buf.len()) {
                return Completion { request, result };
            }
        }
    }
}

impl RamDevice {
    /// Empty drives.
    pub fn new(options: RamOptions) -> Self {
        RamDevice(Arc::new(Mutex::new(State {
            options,
            random: options.seed,
            now_ns: 0,
            private_dirs: 0,
            files: Vec::new(),
            open: Vec::new(),
            names: HashMap::new(),
            slowness: HashMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a file as if it had always existed.
    pub fn put(&self, path: impl AsRef<Path>, bytes: Vec<u8>) {
        let mut state = self.state();
        let path = path.as_ref().to_path_buf();
        let index = state.files.len();
        state.files.push(RamFile {
            path: path.clone(),
            bytes,
            is_linked: true,
        });
        state.names.insert(path, index);
    }

    /// The bytes of a file, if it exists.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.state();
        state
            .names
            .get(path.as_ref())
            .map(|&index| state.files[index].bytes.clone())
    }

    /// Names of all files, sorted.
    pub fn list(&self) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = self.state().names.keys().cloned().collect();
        names.sort();
        names
    }

    /// From now on, every request to the drive that holds `path` takes `factor` times as long.
    pub fn slow_down(&self, path: impl AsRef<Path>, factor: u64) {
        let drive = file_system_of(path.as_ref());
        self.state().slowness.insert(drive, factor);
    }

    /// Flips one bit of a file, as bad flash would.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit: u64) {
        let mut state = self.state();
        if let Some(&index) = state.names.get(path.as_ref())
            && let Some(byte) = state.files[index].bytes.get_mut((bit / 8) as usize)
        {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// A drive is the first part of a path: `/d0/x` and `/d0/y` share one, `/d1/x` has another.
fn file_system_of(path: &Path) -> u64 {
    let drive = path
        .components()
        .find(|part| matches!(part, std::path::Component::Normal(_)));
    let name = drive
        .map(|part| part.as_os_str().as_encoded_bytes())
        .unwrap_or_default();
    name.iter().fold(1u64, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    })
}

fn missing(operation: &str, path: &Path) -> Error {
    Error::errno(operation, Errno::NOENT.raw_os_error())
        .path(path)
        .hint("check the path")
}

impl Names for RamDevice {
    fn write(&self, path: &Path, bytes: &[u8]) {
        self.put(path, bytes.to_vec());
    }

    fn remove_below(&self, dir: &Path) {
        let mut state = self.state();
        let (below, rest) = state
            .names
            .drain()
            .partition(|(path, _)| path.starts_with(dir));
        state.names = rest;
        for (_, index) in below {
            state.files[index].is_linked = false;
            state.files[index].bytes = Vec::new();
        }
    }
}

impl FileSystem for RamDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        let mut state = self.state();
        let index = match (access, state.names.get(path).copied()) {
            (Access::Create, Some(_)) => {
                return Err(Error::errno("create file", Errno::EXIST.raw_os_error()).path(path));
            }
            (Access::Create, None) => {
                let index = state.files.len();
                let file = RamFile {
                    path: path.to_path_buf(),
                    bytes: Vec::new(),
                    is_linked: true,
                };
                state.files.push(file);
                state.names.insert(path.to_path_buf(), index);
                index
            }
            (_, Some(index)) => index,
            (_, None) => return Err(missing("open input", path)),
        };
        state.open.push(Some(index));
        Ok(FileId(state.open.len() as u32 - 1))
    }

    fn close(&self, file: FileId) {
        if let Some(entry) = self.state().open.get_mut(file.0 as usize) {
            *entry = None;
        }
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        let mut state = self.state();
        let index = state
            .open
            .get(file.0 as usize)
            .copied()
            .flatten()
            .unwrap_or(0);
        let file = state.file_mut(file)?;
        let len_bytes = file.bytes.len() as u64;
        let file_system = file_system_of(&file.path);
        Ok(FileFacts {
            len_bytes,
            file_system,
            inode: index as u64,
            modified_ns: 0,
            changed_ns: 0,
            is_direct: true,
            is_in_memory: false,
        })
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.state()
            .file_mut(file)?
            .bytes
            .resize(len_bytes as usize, 0);
        Ok(())
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        let mut state = self.state();
        let room = state
            .options
            .capacity_bytes
            .saturating_sub(state.used_bytes());
        let file = state.file_mut(file)?;
        let grow = len_bytes.saturating_sub(file.bytes.len() as u64);
        if grow > room {
            let error = Error::errno("reserve space", Errno::NOSPC.raw_os_error());
            return Err(error.path(&file.path));
        }
        if grow > 0 {
            file.bytes.resize(len_bytes as usize, 0);
        }
        Ok(())
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let mut state = self.state();
        let bytes = &mut state.file_mut(file)?.bytes;
        let end = (offset_bytes + len_bytes).min(bytes.len() as u64) as usize;
        if let Some(range) = bytes.get_mut(offset_bytes as usize..end) {
            range.fill(0);
        }
        Ok(())
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.state().file_mut(file).map(|_| ())
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        let mut state = self.state();
        if !replace && state.names.contains_key(to) {
            let error = Error::errno("publish output", Errno::EXIST.raw_os_error()).path(to);
            return Err(error.hint("allow overwriting with --force"));
        }
        let index = state
            .names
            .remove(from)
            .ok_or_else(|| missing("publish output", from))?;
        state.files[index].path = to.to_path_buf();
        if let Some(replaced) = state.names.insert(to.to_path_buf(), index) {
            state.files[replaced].is_linked = false;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        let index = state
            .names
            .remove(path)
            .ok_or_else(|| missing("remove file", path))?;
        state.files[index].is_linked = false;
        state.files[index].bytes = Vec::new();
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> Result<u64> {
        let state = self.state();
        Ok(state
            .options
            .capacity_bytes
            .saturating_sub(state.used_bytes()))
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        Ok(file_system_of(dir))
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        let mut state = self.state();
        state.private_dirs += 1;
        let path = parent.join(name_of(u64::from(state.private_dirs) << 16));
        Ok(PrivateDir::named(path, Box::new(self.clone())))
    }

    fn reopen_private_dir(&self, _path: &Path) -> Result<Option<PrivateDir>> {
        Ok(None)
    }

    fn sweep_private_dirs(&self, _parent: &Path) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

impl Device for RamDevice {
    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(RamQueue {
            device: self.clone(),
            depth_max,
            waiting: Vec::new(),
        }))
    }

    fn now_ns(&self) -> u64 {
        self.state().now_ns
    }
}

struct RamQueue {
    device: RamDevice,
    depth_max: usize,
    /// Requests in flight, with the virtual time at which each is due.
    waiting: Vec<(u64, Request)>,
}

impl Queue for RamQueue {
    fn submit(&mut self, request: Request) {
        assert!(
            self.waiting.len() < self.depth_max,
            "no more than depth_max requests in flight"
        );
        let mut state = self.device.state();
        let jitter_ns = state.next_random() % LATENCY_NS;
        let transfer_ns = request.buf.len() as u64 / BYTES_PER_NS;
        let factor = match state.slowness.is_empty() {
            true => 1,
            false => state.slowness_of(request.file),
        };
        let due_ns = state.now_ns + (LATENCY_NS + jitter_ns + transfer_ns) * factor;
        drop(state);
        self.waiting.push((due_ns, request));
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        let mut state = self.device.state();
        if wait.is_some()
            && let Some(first_ns) = self.waiting.iter().map(|(due_ns, _)| *due_ns).min()
        {
            state.now_ns = state.now_ns.max(first_ns);
        }
        self.waiting.sort_by_key(|(due_ns, _)| *due_ns);
        let ready = self
            .waiting
            .partition_point(|(due_ns, _)| *due_ns <= state.now_ns);
        for (_, request) in self.waiting.drain(..ready) {
            done.push(state.transfer(request));
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }
}
