//! One drive under load: its file, and streams of requests that are counted and timed.
//!
//! Contract: a [`Lane`] owns a file in a private directory and removes it when dropped. A [`Load`]
//! keeps a number of requests in flight until its time is over, then waits for the last; writes
//! end with a sync, which counts. Reads stay inside what has been written, since file systems
//! answer for the rest without asking the drive.
//!
//! Bounds: memory is depth times block, filled before the clock starts.

use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rustix::io::Errno;

use super::{PROBE, ProbeOptions};
use crate::config::DriveSpec;
use crate::drive::{
    Access, BLOCK_BYTES, Completion, Device, FileFacts, FileId, Op, PrivateDir, Queue, Request,
};
use crate::error::{Error, Kind, Result};
use crate::memory::{Budget, Pool};

/// Bytes of a sequential transfer.
const BLOCK_LARGE_BYTES: usize = 1 << 20;
/// With less than this a measurement says nothing.
const FILE_BYTES_MIN: u64 = 4 << 20;
const WAIT: Duration = Duration::from_millis(50);

/// A drive that is being measured: its file, and how much of it has been written.
pub(super) struct Lane {
    device: Arc<dyn Device>,
    /// Which probe is its own.
    pub(super) index: usize,
    pub(super) file_system: u64,
    pub(super) facts: FileFacts,
    file: FileId,
    path: PathBuf,
    pub(super) file_bytes: u64,
    pub(super) written_bytes: u64,
    _dir: PrivateDir,
}

impl Lane {
    pub(super) fn open(
        device: &Arc<dyn Device>,
        spec: &DriveSpec,
        file_system: u64,
        index: usize,
        options: &ProbeOptions<'_>,
    ) -> Result<Self> {
        device.sweep_private_dirs(&spec.dir)?;
        let free_bytes = device.free_bytes(&spec.dir)?;
        let block_bytes = BLOCK_LARGE_BYTES as u64;
        let file_bytes = options.file_bytes.min(free_bytes / 4) / block_bytes * block_bytes;
        if file_bytes < FILE_BYTES_MIN {
            let cause = format!("{free_bytes} bytes are free, too few to measure with");
            return Err(Error::new(Kind::NoSpace, PROBE, cause)
                .path(&spec.dir)
                .hint("free some space there, or write the drives file by hand"));
        }
        let dir = device.make_private_dir(&spec.dir)?;
        let path = dir.path().join("probe");
        let file = device.open(&path, Access::Create)?;
        // Writes inside a file of full length run side by side; those at its end take turns.
        device.allocate(file, file_bytes)?;
        Ok(Lane {
            device: Arc::clone(device),
            index,
            file_system,
            facts: device.facts(file)?,
            file,
            path,
            file_bytes,
            written_bytes: 0,
            _dir: dir,
        })
    }

    /// One transfer of `len_bytes` at `offset_bytes`, from memory that is `skew_bytes` behind a
    /// 4 KiB border; whether it works.
    pub(super) fn try_one(
        &self,
        op: Op,
        offset_bytes: u64,
        len_bytes: usize,
        skew_bytes: usize,
    ) -> Result<bool> {
        let pool = Pool::new(&Budget::new(1 << 20), PROBE, 2 * BLOCK_BYTES, 1)?;
        let mut queue = self.device.queue(1)?;
        let mut slot = pool.take().ok_or_else(no_buffer)?;
        drop(slot.split_to(skew_bytes));
        queue.submit(Request {
            token: 0,
            op,
            file: self.file,
            drive_index: self.index,
            offset_bytes,
            buf: slot.split_to(len_bytes),
        });
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.complete(Some(WAIT), &mut done)?;
        }
        match done.pop().map(|completion| completion.result) {
            Some(Ok(bytes)) => Ok(bytes == len_bytes),
            Some(Err(errno)) if errno == Errno::INVAL.raw_os_error() => Ok(false),
            Some(Err(errno)) => Err(self.explain(op, offset_bytes, errno)),
            None => Ok(false),
        }
    }

    pub(super) fn explain(&self, op: Op, offset_bytes: u64, errno: i32) -> Error {
        let operation = match op {
            Op::Read => "read probe file",
            Op::Write => "write probe file",
        };
        let error = Error::errno(operation, errno)
            .path(&self.path)
            .offset(offset_bytes);
        if errno == Errno::INVAL.raw_os_error() {
            return error.hint("direct I/O may not work here: try --io buffered");
        }
        match error.kind() {
            Kind::NoSpace => error.hint("free some space there"),
            _ => error.hint("look at the kernel's log (dmesg) and at the drive's health"),
        }
    }

    /// Moves blocks as `load` says until its time is over. Reads stay in what has been written.
    pub(super) fn run(
        &self,
        load: Load,
        options: &ProbeOptions<'_>,
        gate: Option<&Barrier>,
    ) -> Result<Moved> {
        let ready = Runner::new(self, load);
        if let Some(gate) = gate {
            // Everybody is here before anybody fails, or the others would wait for ever.
            gate.wait();
        }
        ready?.run(options)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.device.close(self.file);
        // Where directories are more than names the file would go with its own anyway.
        let _ = self.device.remove(&self.path);
    }
}

fn no_buffer() -> Error {
    Error::new(Kind::Memory, PROBE, "the pool is empty").hint("a bug: please report it")
}

/// What is done to a drive for a while.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    op: Op,
    block_bytes: usize,
    depth: u32,
    is_random: bool,
    limit_ns: u64,
}

impl Load {
    pub(super) fn read(depth: u32, limit_ns: u64) -> Self {
        Load {
            op: Op::Read,
            block_bytes: BLOCK_LARGE_BYTES,
            depth,
            is_random: false,
            limit_ns,
        }
    }

    pub(super) fn write(depth: u32, limit_ns: u64) -> Self {
        Load {
            op: Op::Write,
            ..Load::read(depth, limit_ns)
        }
    }

    pub(super) fn random(depth: u32, limit_ns: u64) -> Self {
        Load {
            block_bytes: BLOCK_BYTES,
            is_random: true,
            ..Load::read(depth, limit_ns)
        }
    }
}

/// What was moved, and how fast.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moved {
    pub(super) bytes: u64,
    requests: u64,
    seconds: f64,
}

impl Moved {
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }
}

/// A load with all that it needs, ready to go.
struct Runner<'a> {
    lane: &'a Lane,
    load: Load,
    queue: Box<dyn Queue>,
    pool: Pool,
    blocks: u64,
    issued: u64,
}

impl<'a> Runner<'a> {
    fn new(lane: &'a Lane, load: Load) -> Result<Self> {
        let depth = load.depth as usize;
        let budget = Budget::new((depth * load.block_bytes) as u64);
        let pool = Pool::new(&budget, PROBE, load.block_bytes, depth)?;
        // Bytes that do not compress, for drives that do.
        let mut random = lane.index as u64 + 1;
        let mut slots: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        for word in slots.iter_mut().flat_map(|slot| slot.chunks_exact_mut(8)) {
            word.copy_from_slice(&next_random(&mut random).to_le_bytes());
        }
        drop(slots);
        let span_bytes = match load.op {
            Op::Read => lane.written_bytes,
            Op::Write => lane.file_bytes,
        };
        Ok(Runner {
            lane,
            load,
            queue: lane.device.queue(depth)?,
            pool,
            blocks: (span_bytes / load.block_bytes as u64).max(1),
            issued: 0,
        })
    }

    fn run(mut self, options: &ProbeOptions<'_>) -> Result<Moved> {
        let device = Arc::clone(&self.lane.device);
        let start_ns = device.now_ns();
        let mut moved = Moved::default();
        let mut done: Vec<Completion> = Vec::new();
        let mut random = self.lane.file_system ^ u64::from(self.load.depth);
        loop {
            options.check()?;
            let is_over = device.now_ns() - start_ns >= self.load.limit_ns;
            while let Some(buf) = self.pool.take().filter(|_| !is_over) {
                let block = match self.load.is_random {
                    true => next_random(&mut random) % self.blocks,
                    false => self.issued % self.blocks,
                };
                self.issued += 1;
                self.queue.submit(Request {
                    token: 0,
                    op: self.load.op,
                    file: self.lane.file,
                    drive_index: self.lane.index,
                    offset_bytes: block * self.load.block_bytes as u64,
                    buf,
                });
            }
            if self.queue.in_flight() == 0 {
                break;
            }
            self.queue.complete(Some(WAIT), &mut done)?;
            for completion in done.drain(..) {
                let offset_bytes = completion.request.offset_bytes;
                let bytes = completion
                    .result
                    .map_err(|errno| self.lane.explain(self.load.op, offset_bytes, errno))?;
                moved.bytes += bytes as u64;
                moved.requests += 1;
            }
        }
        if self.load.op == Op::Write {
            device.sync(self.lane.file)?;
        }
        moved.seconds = (device.now_ns() - start_ns) as f64 / 1e9;
        Ok(moved)
    }
}

/// splitmix64: places and bytes that no drive foresees.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
