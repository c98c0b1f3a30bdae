//! Power loss: a [`Device`] that goes off after a chosen operation and forgets what was not synced.
//!
//! Contract: wraps any device and counts its operations (reads and writes as they complete, and
//! every call that changes a file or a name). After the chosen number, each further operation
//! fails with EIO, as on a drive without power. [`PowerDevice::lose`] then gives the contents that
//! each file has after the loss. A file keeps all data that were synced, and a subset of the 4 KiB
//! blocks written since, drawn from the seed. Names are as durable as [`FileSystem`] promises: a
//! rename when it returns, and a new file with its first sync.
//!
//! Memory: two copies of all files that are written. For tests.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use crate::drive::{
    Access, BLOCK_BYTES, Completion, Device, FileFacts, FileId, FileSystem, Op, PrivateDir, Queue,
    QueueLimits, Request, Stores, Waker,
};
use crate::error::{Error, Result};

/// A file that was written: its durable contents, and the changes that may be lost.
#[derive(Debug)]
struct Written {
    path: PathBuf,
    durable: Vec<u8>,
    /// Whether the file's name would survive a power loss.
    is_named: bool,
    /// The changes since the last sync, in order.
    since: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Length(u64),
    /// One block at most.
    Block {
        at_bytes: u64,
        bytes: Vec<u8>,
    },
}

/// The contents of a file after a power loss; none if its name is lost as well.
#[derive(Debug)]
pub struct AfterLoss {
    /// The path of the file.
    pub path: PathBuf,
    /// The contents of the file.
    pub bytes: Option<Vec<u8>>,
}

#[derive(Debug)]
struct State {
    off_after: u64,
    seen: u64,
    written: Vec<Written>,
    open: HashMap<FileId, usize>,
}

impl State {
    /// Counts an operation; fails once the power is off.
    fn count(&mut self, operation: &str) -> Result<()> {
        self.seen += 1;
        match self.seen > self.off_after {
            true => Err(Error::errno(operation, Errno::IO.raw_os_error())),
            false => Ok(()),
        }
    }

    fn file(&mut self, file: FileId) -> Option<&mut Written> {
        let index = *self.open.get(&file)?;
        self.written.get_mut(index)
    }

    fn at(&mut self, path: &Path) -> Option<usize> {
        self.written.iter().position(|file| file.path == path)
    }

    /// Notes a finished write, block by block.
    fn note_write(&mut self, request: &Request) {
        let mut at_bytes = request.offset_bytes;
        let Some(file) = self.file(request.file) else {
            return;
        };
        for slice in request.buf.slices() {
            for block in slice.chunks(BLOCK_BYTES) {
                file.since.push(Change::Block {
                    at_bytes,
                    bytes: block.to_vec(),
                });
                at_bytes += block.len() as u64;
            }
        }
    }
}

/// Applies a change to the contents of a file.
fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(len_bytes) => bytes.resize(*len_bytes as usize, 0),
        Change::Block {
            at_bytes,
            bytes: block,
        } => {
            let (from, to) = (*at_bytes as usize, *at_bytes as usize + block.len());
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
            bytes[from..to].copy_from_slice(block);
        }
    }
}

/// A device whose power goes off.
#[derive(Clone)]
pub struct PowerDevice {
    inner: Arc<dyn Device>,
    state: Arc<Mutex<State>>,
}

impl PowerDevice {
    /// `inner`, which goes off after this many operations.
    pub fn new(inner: Arc<dyn Device>, off_after: u64) -> Self {
        let state = State {
            off_after,
            seen: 0,
            written: Vec::new(),
            open: HashMap::new(),
        };
        PowerDevice {
            inner,
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations counted so far.
    pub fn operations(&self) -> u64 {
        self.state().seen
    }

    /// Whether the power went off.
    pub fn is_off(&self) -> bool {
        let state = self.state();
        state.seen > state.off_after
    }

    /// The files that were written, as a power loss leaves them. `seed` determines which of the
    /// blocks that were not synced survive.
    pub fn lose(&self, seed: u64) -> Vec<AfterLoss> {
        let mut random = seed;
        let mut draw = || {
            random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (random ^ (random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33
        };
        let state = self.state();
        let files = state.written.iter().map(|file| {
            let mut bytes = file.durable.clone();
            // None, most or about half of the changes survive.
            let kept_of_8 = [0, 7, 4][(draw() % 3) as usize];
            for change in &file.since {
                if draw() % 8 < kept_of_8 {
                    apply(&mut bytes, change);
                }
            }
            let is_there = file.is_named || draw() % 2 == 0;
            AfterLoss {
                path: file.path.clone(),
                bytes: is_there.then_some(bytes),
            }
        });
        files.collect()
    }

    fn counted<T>(&self, operation: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        self.state().count(operation)?;
        run()
    }
}

impl FileSystem for PowerDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        if access == Access::Read {
            return self.inner.open(path, access);
        }
        let file = self.counted("open file", || self.inner.open(path, access))?;
        let mut state = self.state();
        let index = match (access, state.at(path)) {
            (Access::Update, Some(index)) => index,
            _ => {
                let durable = match access {
                    Access::Update => std::fs::read(path).unwrap_or_default(),
                    _ => Vec::new(),
                };
                state.written.push(Written {
                    path: path.to_path_buf(),
                    durable,
                    is_named: access == Access::Update,
                    since: Vec::new(),
                });
                state.written.len() - 1
            }
        };
        state.open.insert(file, index);
        Ok(file)
    }

    fn close(&self, file: FileId) {
        self.state().open.remove(&file);
        self.inner.close(file);
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        self.inner.facts(file)
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.counted("set file length", || self.inner.set_len(file, len_bytes))?;
        if let Some(file) = self.state().file(file) {
            file.since.push(Change::Length(len_bytes));
        }
        Ok(())
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.counted("reserve space", || self.inner.allocate(file, len_bytes))
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.counted("free blocks", || {
            self.inner.punch(file, offset_bytes, len_bytes)
        })
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.counted("sync file", || self.inner.sync(file))?;
        if let Some(file) = self.state().file(file) {
            file.is_named = true;
            for change in std::mem::take(&mut file.since) {
                apply(&mut file.durable, &change);
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        self.counted("publish output", || self.inner.rename(from, to, replace))?;
        let mut state = self.state();
        state.written.iter_mut().for_each(|file| {
            if file.path == to {
                file.path = PathBuf::new();
            } else if file.path == from {
                file.path = to.to_path_buf();
                file.is_named = true;
            }
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.counted("remove file", || self.inner.remove(path))?;
        let mut state = self.state();
        if let Some(index) = state.at(path) {
            state.written[index].path = PathBuf::new();
        }
        Ok(())
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        self.inner.file_system(dir)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        self.counted("make scratch directory", || {
            self.inner.make_private_dir(parent)
        })
    }

    fn claim_private_dir(&self, parent: &Path, set: &OsStr) -> Result<PrivateDir> {
        self.counted("make scratch directory", || {
            self.inner.claim_private_dir(parent, set)
        })
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>> {
        self.inner.reopen_private_dir(path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        self.inner.sweep_private_dirs(parent)
    }

    fn stores(&self) -> Option<&dyn Stores> {
        self.inner.stores()
    }
}

impl Device for PowerDevice {
    fn limits(&self, file: FileId) -> QueueLimits {
        self.inner.limits(file)
    }

    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(PowerQueue {
            inner: self.inner.queue(depth_max)?,
            device: self.clone(),
        }))
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
}

struct PowerQueue {
    inner: Box<dyn Queue>,
    device: PowerDevice,
}

impl Queue for PowerQueue {
    fn submit(&mut self, request: Request) {
        self.inner.submit(request);
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        let before = done.len();
        self.inner.complete(wait, done)?;
        let mut state = self.device.state();
        for completion in &mut done[before..] {
            let is_write = completion.request.op == Op::Write;
            // A write that was in flight may have reached the drive.
            if is_write
                && completion.result.is_ok()
                && state.seen <= state.off_after.saturating_add(1)
            {
                state.note_write(&completion.request);
            }
            if state.count("transfer").is_err() {
                completion.result = Err(Errno::IO.raw_os_error());
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn waker(&mut self) -> Option<Waker> {
        self.inner.waker()
    }
}
