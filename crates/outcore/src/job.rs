//! A job: what a run may use (memory, threads, drives, a seed) and how it is watched and stopped.
//!
//! Contract: a [`Job`] is a value; nothing is global. Its [`Control`] is shared with whoever
//! watches: progress is read from it, and setting `cancel` stops the job at its next look, at
//! most about 50 ms and one bucket's sort later, with nothing left behind.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::IoMode;
use crate::drive::Device;
use crate::drive::os::OsDevice;
use crate::error::{Error, Result};
use crate::memory::Budget;

/// A directory that scratch may go to.
#[derive(Debug, Clone, PartialEq)]
pub struct ScratchDrive {
    /// For messages.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
    /// Its share relative to the others (a bandwidth, or 1 for each).
    pub weight: f64,
}

/// What a job may use.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// Cap on buffers and working memory; peak RSS stays within 64 MiB of it.
    pub memory_bytes: u64,
    /// Threads that compute (and do their own I/O).
    pub threads: usize,
    /// Where scratch goes; none for a private directory beside the output.
    pub drives: Vec<ScratchDrive>,
    /// Cap on scratch.
    pub scratch_limit_bytes: u64,
    /// Chooses samples and the first drive; never the output.
    pub seed: u64,
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions {
            memory_bytes: 2 << 30,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            drives: Vec::new(),
            scratch_limit_bytes: u64::MAX,
            seed: 1,
        }
    }
}

/// How a running job is watched and stopped.
#[derive(Debug, Default)]
pub struct Control {
    cancel: AtomicBool,
    phase: Mutex<String>,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

/// A look at a running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: String,
    /// Bytes of the phase that are done.
    pub done_bytes: u64,
    /// Bytes of the phase in all.
    pub total_bytes: u64,
    /// Bytes read from drives so far.
    pub read_bytes: u64,
    /// Bytes written to drives so far.
    pub written_bytes: u64,
}

impl Control {
    /// Asks the job to stop.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether it has been asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Fails with [`crate::Kind::Interrupted`] once the job has been asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }

    /// Begins a phase of `total_bytes`.
    pub fn begin_phase(&self, name: &str, total_bytes: u64) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = name.to_string();
        self.done_bytes.store(0, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
    }

    /// Counts bytes of the phase as done.
    pub fn advance(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts traffic, for the rates.
    pub fn set_traffic(&self, read_bytes: u64, written_bytes: u64) {
        self.read_bytes.store(read_bytes, Ordering::Relaxed);
        self.written_bytes.store(written_bytes, Ordering::Relaxed);
    }

    /// Where the job is now.
    pub fn progress(&self) -> Progress {
        Progress {
            phase: self
                .phase
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            done_bytes: self.done_bytes.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
        }
    }
}

/// One run's means: options, device, memory, control.
#[derive(Clone)]
pub struct Job {
    /// What it may use.
    pub options: JobOptions,
    /// The files below.
    pub device: Arc<dyn Device>,
    /// The memory cap.
    pub budget: Budget,
    /// How it is watched and stopped.
    pub control: Arc<Control>,
}

impl Job {
    /// A job on the operating system's files.
    pub fn new(options: JobOptions, io: IoMode) -> Self {
        Self::on(options, Arc::new(OsDevice::new(io)))
    }

    /// A job on any device.
    pub fn on(options: JobOptions, device: Arc<dyn Device>) -> Self {
        let budget = Budget::new(options.memory_bytes);
        Job {
            options,
            device,
            budget,
            control: Arc::new(Control::default()),
        }
    }
}
