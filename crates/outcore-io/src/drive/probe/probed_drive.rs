//! One drive under load: its file, and the loads on it.
//!
//! Contract: a [`ProbedDrive`] owns a file in a private directory and removes it when dropped.
//! Reads stay inside the written part, because file systems answer reads of other parts without
//! asking the drive.
//!
//! Bounds: those of a [`Load`]: memory is depth times block.

use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rustix::io::Errno;

use super::{PROBE, ProbeOptions};
use crate::config::DriveSpec;
use crate::drive::load::{FileRange, Load, Moved, Observer, Runner};
use crate::drive::{Access, BLOCK_BYTES, Device, FileFacts, FileId, Op, PrivateDir, Request};
use crate::error::{Error, Kind, Result};
use crate::memory::{Budget, Pool};

/// Bytes of a sequential transfer.
const BLOCK_LARGE_BYTES: usize = 1 << 20;
/// Smallest file for a meaningful measurement.
const FILE_BYTES_MIN: u64 = 4 << 20;
const WAIT: Duration = Duration::from_millis(50);

/// A drive that is being measured: its file, and how much of it has been written.
pub(super) struct ProbedDrive {
    device: Arc<dyn Device>,
    /// Index of the drive's results in the probe's report.
    pub(super) index: usize,
    pub(super) file_system: u64,
    pub(super) facts: FileFacts,
    file: FileId,
    path: PathBuf,
    pub(super) file_bytes: u64,
    pub(super) written_bytes: u64,
    _dir: PrivateDir,
}

impl ProbedDrive {
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
            let cause =
                format!("only {free_bytes} bytes are free, which is not enough for a measurement");
            return Err(Error::new(Kind::NoSpace, PROBE, cause)
                .path(&spec.dir)
                .hint("free some space there, or write the drives file by hand"));
        }
        let dir = device.make_private_dir(&spec.dir)?;
        let path = dir.path().join("probe");
        let file = device.open(&path, Access::Create)?;
        // Writes inside a file of full length run in parallel; appending writes run one after
        // another.
        device.allocate(file, file_bytes)?;
        Ok(ProbedDrive {
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

    /// Tries one transfer of `len_bytes` at `offset_bytes`, from memory that begins `skew_bytes`
    /// after a 4 KiB boundary; returns whether it works.
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
            buf: slot.split_to(len_bytes).into(),
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

    /// Runs `load` until its time is over. Reads stay inside the written part.
    pub(super) fn run(
        &self,
        load: Load,
        options: &ProbeOptions<'_>,
        gate: Option<&Barrier>,
    ) -> Result<Moved> {
        let place = FileRange {
            file: self.file,
            drive_index: self.index,
            start_bytes: 0,
            span_bytes: match load.read_share > 0.0 {
                true => self.written_bytes,
                false => self.file_bytes,
            },
        };
        let load = Load {
            seed: self.index as u64 + 1,
            ..load
        };
        let ready = Runner::new(&self.device, &[place], load);
        if let Some(gate) = gate {
            // All threads reach the gate before any of them fails; otherwise the others would wait
            // forever.
            gate.wait();
        }
        ready?.run(&mut Watched {
            lane: self,
            options,
        })
    }
}

/// The observer of a drive's load.
struct Watched<'a> {
    lane: &'a ProbedDrive,
    options: &'a ProbeOptions<'a>,
}

impl Observer for Watched<'_> {
    fn check(&mut self) -> Result<()> {
        self.options.check()
    }

    fn explain(&self, op: Op, _place: usize, offset_bytes: u64, errno: i32) -> Error {
        self.lane.explain(op, offset_bytes, errno)
    }
}

impl Drop for ProbedDrive {
    fn drop(&mut self) {
        self.device.close(self.file);
        // On devices with real directories, the private directory would remove the file anyway.
        let _ = self.device.remove(&self.path);
    }
}

fn no_buffer() -> Error {
    Error::new(Kind::Memory, PROBE, "the pool is empty").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}

/// Large sequential blocks.
pub(super) fn large(op: Op, depth: u32, limit_ns: u64) -> Load {
    Load::sequential(op, BLOCK_LARGE_BYTES, depth, limit_ns)
}

/// Small random reads.
pub(super) fn small_reads(depth: u32, limit_ns: u64) -> Load {
    Load::random(Op::Read, BLOCK_BYTES, depth, limit_ns)
}
