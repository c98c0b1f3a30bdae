//! A private directory on each drive, in which measurements of whole jobs keep their data.
//!
//! Contract: [`BenchDirs`] makes the directories, writes inputs of 64-bit numbers (one file per
//! drive), names the outputs, and runs jobs that stop when the watcher asks for it. Dropping the
//! value removes everything, however the measurement ends.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::IoMode;
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::{Error, Kind, Result};
use outcore::{Input, Output};
use outcore_gen::{Distribution, GenerateOptions, GenerateRequest, Generator, generate};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::{Device, PrivateDir, folder};
use outcore_io::units;

use crate::watch::Watch;

/// Type of the records.
pub(crate) const TYPE: &str = "u64";
/// Bytes per record.
pub(crate) const RECORD_BYTES: u64 = 8;
const INPUT: &str = "input";

/// Resources that jobs may use.
#[derive(Debug, Clone)]
pub(crate) struct DirOptions<'a> {
    /// A directory on each drive.
    pub(crate) dirs: &'a [PathBuf],
    pub(crate) memory_bytes: u64,
    pub(crate) threads: usize,
    pub(crate) io: IoMode,
}

/// The directories; see the module.
pub(crate) struct BenchDirs<'a> {
    pub(crate) watch: Watch<'a>,
    device: Arc<dyn Device>,
    dirs: Vec<PrivateDir>,
    memory_bytes: u64,
    threads: usize,
    /// Format of the records.
    pub(crate) format: RecordFormat,
}

impl<'a> BenchDirs<'a> {
    /// Makes the directories; `operation` appears in errors.
    ///
    /// # Errors
    /// Usage without any directory; the error from making them.
    pub(crate) fn make(
        operation: &str,
        options: &DirOptions<'_>,
        watch: Watch<'a>,
    ) -> Result<Self> {
        if options.dirs.is_empty() {
            return Err(Error::usage(operation, "no directory is given")
                .hint("name a directory on each drive"));
        }
        let device: Arc<dyn Device> = Arc::new(OsDevice::new(options.io));
        let mut dirs = Vec::new();
        for dir in options.dirs {
            if dir.exists() && !dir.is_dir() {
                let cause = "a file was given where a directory on a drive is needed";
                let hint = "name a directory on each drive to measure; the benchmark makes its own data there";
                return Err(Error::usage(operation, cause).path(dir).hint(hint));
            }
            device.sweep_private_dirs(dir)?;
            dirs.push(device.make_private_dir(dir)?);
        }
        Ok(BenchDirs {
            watch,
            device,
            dirs,
            memory_bytes: options.memory_bytes,
            threads: options.threads,
            format: RecordFormat::parse_type(TYPE)?,
        })
    }

    /// Number of drives.
    pub(crate) fn count(&self) -> usize {
        self.dirs.len()
    }

    /// A job with scratch on the first `drives` drives.
    pub(crate) fn job(&self, drives: usize) -> Job {
        let scratch = self.dirs[..drives]
            .iter()
            .map(|dir| ScratchDrive::new(dir.path()));
        let options = JobOptions {
            memory_bytes: self.memory_bytes,
            threads: self.threads,
            drives: scratch.collect(),
            ..JobOptions::default()
        };
        Job::on(options, Arc::clone(&self.device))
    }

    /// One file of that name on each of the first `drives` drives.
    pub(crate) fn paths(&self, drives: usize, name: &str) -> Vec<PathBuf> {
        self.dirs[..drives]
            .iter()
            .map(|dir| dir.path().join(name))
            .collect()
    }

    /// The input on the first `drives` drives, where [`BenchDirs::generate`] has written it.
    pub(crate) fn inputs(&self, drives: usize) -> Vec<Input> {
        let paths = self.paths(drives, INPUT).into_iter();
        paths.map(Input::raw).collect()
    }

    /// An output of that name: a file, or a shard on each drive.
    pub(crate) fn output(&self, drives: usize, name: &str) -> Output {
        let mut paths = self.paths(drives, name);
        if drives == 1 {
            return Output::File {
                path: paths.remove(0),
                header: None,
            };
        }
        Output::Shards {
            manifest: self.manifest(name),
            paths,
        }
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.dirs[0].path().join(format!("{name}.outcore.json"))
    }

    /// Removes the files of that name.
    pub(crate) fn remove(&self, drives: usize, name: &str) {
        let manifest = self.manifest(name);
        for path in self.paths(drives, name).iter().chain([&manifest]) {
            // A file that does not exist needs no removal; any other is removed with its directory.
            let _ = folder::remove_file(path);
        }
    }

    /// Removes the input.
    pub(crate) fn remove_input(&self, drives: usize) {
        self.remove(drives, INPUT);
    }

    /// Rejects data for which a drive has no room before any of it is made.
    fn check_room(&self, drives: usize, data_bytes: u64) -> Result<()> {
        let need_bytes = data_bytes / drives.max(1) as u64;
        for dir in &self.dirs[..drives] {
            let free_bytes = self.device.free_bytes(dir.path())?;
            if need_bytes > free_bytes {
                let (need, free) = (units::bytes(need_bytes), units::bytes(free_bytes));
                let cause = format!("{need} are needed, but only {free} are free");
                return Err(Error::new(Kind::NoSpace, "generate data", cause)
                    .path(dir.path())
                    .hint("measure with less data (--size), or on a larger drive"));
            }
        }
        Ok(())
    }

    /// Writes an input to the first `drives` drives.
    pub(crate) fn generate(
        &self,
        drives: usize,
        distribution: Distribution,
        data_bytes: u64,
    ) -> Result<()> {
        self.check_room(drives, data_bytes)?;
        let records = data_bytes / RECORD_BYTES;
        let options = GenerateOptions {
            distribution,
            seed: 1,
            records,
        };
        let request = GenerateRequest {
            generator: Generator::new(&self.format, options)?,
            records,
            output: self.output(drives, INPUT),
            replace: true,
        };
        let job = self.job(drives);
        self.watch
            .over(&job, || generate(&job, &request))
            .map(|_| ())
    }
}
