//! The starting point of Rust programs: memory, threads, drives and a device.
//!
//! Contract: a [`Context`] is a small value, cheap to clone; nothing is global. All datasets of one
//! context reserve from its one memory limit, so two datasets that run at once share that limit.
//!
//! ```
//! use outcore::dataset::Context;
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let here = |name: &str| dir.path().join(name);
//! # for (name, keys) in [("keys-0.bin", [6_u64, 3]), ("keys-1.bin", [2, 8])] {
//! #     std::fs::write(here(name), keys.map(u64::to_le_bytes).concat())
//! #         .map_err(|e| outcore::Error::io("write", &e))?;
//! # }
//! let ctx = Context::builder().memory("64MiB").threads(2).build()?;
//! ctx.read::<u64>(here("keys-*.bin"))?
//!     .filter(|x| x % 2 == 0)
//!     .sort()
//!     .write(here("even.bin"))?;
//! assert_eq!(ctx.read::<u64>(here("even.bin"))?.collect()?, [2, 6, 8]);
//! # Ok(())
//! # }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::resources::ResourceProvider;
use crate::job::{Control, Job, JobOptions};
use outcore_io::Result;
use outcore_io::config::IoMode;
use outcore_io::drive::Device;
use outcore_io::drive::os::OsDevice;
use outcore_io::memory::Budget;
use outcore_io::port::ScratchDrive;
use outcore_io::units;

/// The environment that datasets are read and run with; see the module.
#[derive(Clone)]
pub struct Context {
    options: JobOptions,
    device: Arc<dyn Device>,
    budget: Budget,
    control: Arc<Control>,
}

/// Settings of a future [`Context`].
#[derive(Clone, Default)]
#[must_use]
pub struct ContextBuilder {
    options: JobOptions,
    memory: Option<String>,
    io: Option<IoMode>,
    device: Option<Arc<dyn Device>>,
    control: Arc<Control>,
}

impl ContextBuilder {
    /// The limit on buffers and working memory, with a unit: `512MiB`, `4GB`. Default: 2 GiB.
    pub fn memory(mut self, size: &str) -> Self {
        self.memory = Some(size.to_string());
        self
    }

    /// The limit on buffers and working memory, in bytes.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        (self.options.memory_bytes, self.memory) = (bytes, None);
        self
    }

    /// Threads that compute and do their own I/O. Default: the number of processors.
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads;
        self
    }

    /// A directory on a separate drive, for data between passes and within a sort; call it again
    /// for more drives. Default: the directory of the output.
    pub fn drive(mut self, dir: impl Into<PathBuf>) -> Self {
        self.options.drives.push(ScratchDrive::new(dir));
        self
    }

    /// Limit on scratch, on all drives together.
    pub fn scratch_limit_bytes(mut self, bytes: u64) -> Self {
        self.options.scratch_limit_bytes = bytes;
        self
    }

    /// Determines samples and the first drive, never the output.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Whether files are read past the page cache; by default if possible.
    pub fn io(mut self, io: IoMode) -> Self {
        self.io = Some(io);
        self
    }

    /// A device in place of the files of the operating system.
    pub fn device(mut self, device: Arc<dyn Device>) -> Self {
        self.device = Some(device);
        self
    }

    /// Observes and stops jobs.
    pub fn control(mut self, control: Arc<Control>) -> Self {
        self.control = control;
        self
    }

    /// The context.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an invalid size.
    pub fn build(mut self) -> Result<Context> {
        if let Some(size) = &self.memory {
            self.options.memory_bytes = units::parse_bytes(size)?;
        }
        let io = self.io.unwrap_or(IoMode::Auto);
        Ok(Context {
            budget: Budget::new(self.options.memory_bytes),
            device: self.device.unwrap_or_else(|| Arc::new(OsDevice::new(io))),
            options: self.options,
            control: self.control,
        })
    }
}

impl Context {
    /// Settings; all have defaults.
    pub fn builder() -> ContextBuilder {
        ContextBuilder::default()
    }

    /// The context of a job, for code that mixes functions such as [`crate::sort()`] with datasets.
    pub fn of_job(job: &Job) -> Self {
        Context {
            options: job.options.clone(),
            device: Arc::clone(&job.device),
            budget: job.budget.clone(),
            control: Arc::clone(&job.control),
        }
    }

    /// A job of this context.
    pub fn job(&self) -> Job {
        Job {
            options: self.options.clone(),
            device: Arc::clone(&self.device),
            budget: self.budget.clone(),
            control: Arc::clone(&self.control),
            states: None,
        }
    }
}

impl ResourceProvider for Context {
    fn job(&self, _beside: &Path) -> Result<Job> {
        Ok(Context::job(self))
    }

    fn scratch_drives(&self, _scratch_bytes: u64, _beside: &Path) -> Result<Vec<ScratchDrive>> {
        Ok(self.options.drives.clone())
    }

    fn scratch_dirs(&self, beside: &Path) -> Result<Vec<PathBuf>> {
        let drives = &self.options.drives;
        Ok(match drives.is_empty() {
            true => vec![beside.to_path_buf()],
            false => drives.iter().map(|drive| drive.dir.clone()).collect(),
        })
    }
}
