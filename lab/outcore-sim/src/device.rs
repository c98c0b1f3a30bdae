//! Simulated drives under the engine: real bytes, virtual time.
//!
//! Contract: [`SimDevice`] is a [`Device`] that keeps names and bytes in an inner device (in
//! memory, or files). The time of every transfer comes from an [`ArrayConfig`] of simulated drives.
//! Every file system of the inner device is a drive of the array, in the order in which they are
//! first seen. The clock ([`Device::now_ns`]) is the simulation's: it advances while a thread waits
//! for I/O, and computation takes no time. With one thread, a deterministic inner device and the
//! same seed, two runs of a job have the same times to the picosecond. With several threads, the
//! times depend on the order of their submissions.
//!
//! Model: bytes move when the simulated transfer is complete. A read that overlaps a write under
//! way sees the old bytes. Freed ranges are trimmed. Syncs, lengths and names take no time. The
//! inner device decides how much fits. Data beyond the room of the simulated drives wraps, and the
//! report has a warning.
//!
//! Bounds: the drives as in [`crate::drive`], and the transfers in flight. One lock for all
//! threads.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outcore_io::drive::{
    Access, Completion, Device, FileFacts, FileId, FileSystem, Op as FileOp, PrivateDir, Queue,
    Request,
};
use outcore_io::{Error, Result};

use crate::array::{Array, ArrayConfig, ArrayRequest, Between, Finished, Placement, ReplayReport};
use crate::drive::Op;
use crate::fit::Fit;
use crate::quantities::{NS, Ps};

const OPERATION: &str = "simulate drives";
/// Longest wait for a transfer of the inner device; in effect no limit.
const INNER_WAIT: Duration = Duration::from_secs(3600);

/// Ticket of an operation that no thread waits for.
const NOBODY: u64 = 0;

/// Simulated drives as the engine's device. Clones share them.
#[derive(Clone)]
pub struct SimDevice(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Device>,
    state: Mutex<State>,
}

struct State {
    array: Array,
    drives_max: usize,
    /// File systems, in the order of their drives.
    drives: Vec<u64>,
    /// Number of each (drive, inode) pair in the order of first use.
    inodes: HashMap<(u64, u64), u32>,
    open: HashMap<FileId, (u32, u32)>,
    /// Completed transfers that no thread has taken yet, by ticket.
    done: HashMap<u64, Ps>,
    next_ticket: u64,
    finished: Vec<Finished>,
    /// The error of a transfer that could not be submitted to its drive. The next call that waits
    /// reports it.
    fault: Option<Error>,
}

impl State {
    fn drive_of(&mut self, file_system: u64) -> Result<u32> {
        if let Some(at) = self.drives.iter().position(|known| *known == file_system) {
            return Ok(at as u32);
        }
        if self.drives.len() == self.drives_max {
            return Err(Error::usage(
                OPERATION,
                format!(
                    "the job uses more than the {} simulated drives",
                    self.drives_max
                ),
            )
            .hint("give the array more drives, or the job fewer directories"));
        }
        self.drives.push(file_system);
        Ok(self.drives.len() as u32 - 1)
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Submits a transfer to its drive.
    fn submit(
        &mut self,
        ticket: u64,
        file: FileId,
        op: Op,
        offset_bytes: u64,
        bytes: u64,
    ) -> Result<()> {
        let (drive, inode) = self.open.get(&file).copied().unwrap_or((0, u32::MAX));
        let request = ArrayRequest {
            number: ticket,
            drive,
            file: inode,
            op,
            offset_bytes,
            bytes,
        };
        let now = self.array.now();
        self.array.submit(now, &request, ticket)
    }

    /// Simulates until a request finishes, at most until `until`. Returns false when no event is
    /// left before that.
    fn advance(&mut self, until: Ps) -> Result<bool> {
        let more = self.array.run_until(until, &mut self.finished)?;
        for finished in self.finished.drain(..) {
            if finished.tag != NOBODY {
                self.done.insert(finished.tag, finished.at);
            }
        }
        Ok(more)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimDevice {
    /// `inner` with the times of `config`. Files stay on the drives of their file systems, whatever
    /// placement `config` has, and places wrap.
    ///
    /// # Errors
    /// The array cannot be built.
    pub fn new(inner: Arc<dyn Device>, config: &ArrayConfig) -> Result<Self> {
        let mut config = config.clone();
        config.placement = Placement::Recorded;
        config.fit = Fit::Wrap;
        Ok(SimDevice(Arc::new(Shared {
            inner,
            state: Mutex::new(State {
                array: Array::new(&config)?,
                drives_max: config.drives as usize,
                drives: Vec::new(),
                inodes: HashMap::new(),
                open: HashMap::new(),
                done: HashMap::new(),
                next_ticket: 0,
                finished: Vec::new(),
                fault: None,
            }),
        })))
    }

    /// What the drives have done so far. Transfers that are still under way are finished first.
    ///
    /// # Errors
    /// A drive is stuck (see [`crate::drive::Drive::check_idle`]).
    pub fn report(&self) -> Result<ReplayReport> {
        let mut state = self.0.lock();
        while !state.array.is_idle() && state.advance(Ps::MAX)? {}
        let end = state.array.now();
        state.array.report(end, Between::Computation, Vec::new())
    }
}

impl FileSystem for SimDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        let file = self.0.inner.open(path, access)?;
        let facts = self.0.inner.facts(file)?;
        let mut state = self.0.lock();
        let drive = state
            .drive_of(facts.file_system)
            .map_err(|error| error.path(path))?;
        let next = state.inodes.len() as u32;
        let inode = *state
            .inodes
            .entry((facts.file_system, facts.inode))
            .or_insert(next);
        state.open.insert(file, (drive, inode));
        Ok(file)
    }

    fn close(&self, file: FileId) {
        self.0.lock().open.remove(&file);
        self.0.inner.close(file);
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        self.0.inner.facts(file)
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.0.inner.set_len(file, len_bytes)
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.0.inner.allocate(file, len_bytes)
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.0.inner.punch(file, offset_bytes, len_bytes)?;
        self.0
            .lock()
            .submit(NOBODY, file, Op::Trim, offset_bytes, len_bytes)
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.0.inner.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        self.0.inner.rename(from, to, replace)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.0.inner.remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.0.inner.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        let file_system = self.0.inner.file_system(dir)?;
        self.0
            .lock()
            .drive_of(file_system)
            .map_err(|error| error.path(dir))?;
        Ok(file_system)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        self.0.inner.make_private_dir(parent)
    }

    fn claim_private_dir(&self, parent: &Path, set: &OsStr) -> Result<PrivateDir> {
        self.0.inner.claim_private_dir(parent, set)
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>> {
        self.0.inner.reopen_private_dir(path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        self.0.inner.sweep_private_dirs(parent)
    }
}

impl Device for SimDevice {
    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(SimQueue {
            shared: Arc::clone(&self.0),
            inner: self.0.inner.queue(1)?,
            depth_max,
            waiting: Vec::new(),
        }))
    }

    fn now_ns(&self) -> u64 {
        self.0.lock().array.now() / NS
    }
}

impl Drop for SimQueue {
    /// Finishes the simulation of the transfers that no thread will take, so that their tickets are
    /// gone.
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            drop(self.take_done(&mut state));
            if self.waiting.is_empty() || !matches!(state.advance(Ps::MAX), Ok(true)) {
                return;
            }
        }
    }
}

/// A thread's queue: its submissions by ticket.
struct SimQueue {
    shared: Arc<Shared>,
    /// Moves the bytes, one transfer at a time.
    inner: Box<dyn Queue>,
    depth_max: usize,
    waiting: Vec<(u64, Request)>,
}

impl SimQueue {
    /// Takes the completed transfers, in the order of their times.
    fn take_done(&mut self, state: &mut State) -> Vec<(Ps, Request)> {
        let mut taken = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() {
            match state.done.remove(&self.waiting[at].0) {
                Some(time) => taken.push((time, self.waiting.remove(at).1)),
                None => at += 1,
            }
        }
        taken.sort_by_key(|(time, _)| *time);
        taken
    }

    fn move_bytes(&mut self, request: Request, done: &mut Vec<Completion>) -> Result<()> {
        self.inner.submit(request);
        while self.inner.in_flight() > 0 {
            self.inner.complete(Some(INNER_WAIT), done)?;
        }
        Ok(())
    }
}

impl Queue for SimQueue {
    fn submit(&mut self, request: Request) {
        assert!(
            self.waiting.len() < self.depth_max,
            "no more than depth_max requests in flight"
        );
        let op = match request.op {
            FileOp::Read => Op::Read,
            FileOp::Write => Op::Write,
        };
        let bytes = request.buf.len() as u64;
        let mut state = self.shared.lock();
        let ticket = state.ticket();
        if let Err(error) = state.submit(ticket, request.file, op, request.offset_bytes, bytes) {
            state.fault.get_or_insert(error);
        }
        drop(state);
        self.waiting.push((ticket, request));
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if let Some(error) = state.fault.take() {
            return Err(error);
        }
        let mut taken = self.take_done(&mut state);
        if let Some(wait) = wait {
            let wait_ps = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            let until = state.array.now().saturating_add(wait_ps.saturating_mul(NS));
            while taken.is_empty() && state.advance(until)? {
                taken = self.take_done(&mut state);
            }
            if taken.is_empty() && until == Ps::MAX {
                return Err(Error::usage(
                    OPERATION,
                    "the simulated drives never finish a transfer",
                ));
            }
            if taken.is_empty() {
                state.array.wait_until(until);
            }
        }
        drop(state);
        for (_, request) in taken {
            self.move_bytes(request, done)?;
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }
}
