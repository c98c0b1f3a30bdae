//! What a job may use, from flags, environment, file and defaults: memory, threads, drives, device.
//!
//! Contract: [`Means::load`] merges the settings (see [`outcore::config`]); [`Means::job`] makes a
//! job of them. Scratch is spread by the drives' weights where they are given, else by measured
//! speed, else evenly, and then cut to what each drive has room for ([`shares`]). Without named
//! drives it goes beside the output; a directory in memory (tmpfs) is only taken when it is named.
//!
//! `OUTCORE_FAULT` (`eio@12`, `kill@9`, see [`outcore::drive::fault`]) puts a fault into the device,
//! for tests; this is the only place that knows of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::config::{Config, Defaults, DriveSpec, Environment, Flags};
use outcore::drive::Device;
use outcore::drive::fault::{FaultDevice, FaultPlan};
use outcore::drive::os::OsDevice;
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::{Error, Result};

use crate::cli::{DriveArgs, MeansArgs};

/// The variable that puts a fault into the device.
const FAULT_VARIABLE: &str = "OUTCORE_FAULT";
/// File systems that live in memory, by the number that `statfs` gives them: tmpfs and ramfs.
const IN_MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58F6];
/// Where scratch goes if the place beside the output is in memory.
const FALLBACK_DIR: &str = "/var/tmp";

/// Merged settings.
#[derive(Debug, Clone)]
pub(crate) struct Means {
    /// All of them, with their sources.
    pub(crate) config: Config,
    fault: Option<FaultPlan>,
    seed: u64,
}

impl Means {
    /// Merges flags, environment, file and defaults. The seed is 1 until [`Means::with_seed`].
    pub(crate) fn load(
        means: &MeansArgs,
        drive_args: &DriveArgs,
        scratch_limit_bytes: Option<u64>,
    ) -> Result<Self> {
        let mut drives = drive_args.drives.clone();
        if let Some(file) = &drive_args.drives_file {
            if file.extension().is_none_or(|end| end != "toml") {
                return Err(
                    Error::usage("read drives file", "its name must end in .toml")
                        .path(file)
                        .hint("--drives takes a file; name a directory with --drive"),
                );
            }
            drives.push(file.clone());
        }
        let flags = Flags {
            memory_bytes: means.memory_bytes,
            threads: means.threads,
            io: means.io,
            drives,
            scratch_limit_bytes,
        };
        let config = Config::load(
            &flags,
            &Environment::of_process(),
            &Defaults::of_machine(),
            &[FAULT_VARIABLE],
        )?;
        let fault = match std::env::var(FAULT_VARIABLE) {
            Ok(text) if !text.is_empty() => Some(text.parse()?),
            _ => None,
        };
        Ok(Means {
            config,
            fault,
            seed: 1,
        })
    }

    /// The same with another seed.
    pub(crate) fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The most scratch on all drives together.
    pub(crate) fn scratch_limit_bytes(&self) -> u64 {
        self.config.scratch_limit_bytes.value.unwrap_or(u64::MAX)
    }

    /// A job on the operating system's files with scratch on `drives`.
    pub(crate) fn job(&self, drives: Vec<ScratchDrive>) -> Job {
        let limit_bytes = self.scratch_limit_bytes();
        let options = JobOptions {
            memory_bytes: self.config.memory_bytes.value,
            threads: self.config.threads.value,
            drives,
            scratch_limit_bytes: limit_bytes,
            seed: self.seed,
        };
        Job::on(options, self.device())
    }

    fn device(&self) -> Arc<dyn Device> {
        let files = Arc::new(OsDevice::new(self.config.io.value));
        match self.fault {
            Some(plan) => Arc::new(FaultDevice::new(files, plan)),
            None => files,
        }
    }

    /// The drives that were named, with their shares of `scratch_bytes`.
    ///
    /// # Errors
    /// A directory that is missing, no directory, or cannot be looked at.
    pub(crate) fn named_drives(&self, scratch_bytes: u64) -> Result<Vec<ScratchDrive>> {
        let specs = &self.config.drives.value.drives;
        let mut rooms = Vec::with_capacity(specs.len());
        for spec in specs {
            check_dir("use drive", &spec.dir)?;
            let free_bytes = free_bytes(&spec.dir)?;
            rooms.push(free_bytes.min(spec.capacity_limit_bytes.unwrap_or(u64::MAX)));
        }
        let weights = shares(&speeds(specs), &rooms, scratch_bytes);
        let drives = specs
            .iter()
            .zip(weights)
            .map(|(spec, weight)| ScratchDrive {
                name: spec.name.clone(),
                dir: spec.dir.clone(),
                weight,
            });
        Ok(drives.collect())
    }
}

/// Relative speeds: weights where all are given, else measured bandwidths where all are known,
/// else 1 for each.
fn speeds(specs: &[DriveSpec]) -> Vec<f64> {
    let all = |get: &dyn Fn(&DriveSpec) -> Option<f64>| {
        specs.iter().map(get).collect::<Option<Vec<f64>>>()
    };
    let measured = |spec: &DriveSpec| {
        let (read, write) = (spec.read_bytes_per_s?, spec.write_bytes_per_s?);
        // Scratch is written once and read once: the time for both decides.
        Some(2.0 / (1.0 / read as f64 + 1.0 / write as f64))
    };
    all(&|spec| spec.weight)
        .or_else(|| all(&measured))
        .unwrap_or_else(|| {
            specs
                .iter()
                .map(|spec| spec.weight.unwrap_or(1.0))
                .collect()
        })
}

/// Shares of `total_bytes` in proportion to `ratios`, none above its room; what a small drive
/// cannot take goes to the others.
fn shares(ratios: &[f64], rooms_bytes: &[u64], total_bytes: u64) -> Vec<f64> {
    let mut is_full = vec![false; ratios.len()];
    loop {
        let open_ratio: f64 = (0..ratios.len())
            .filter(|drive| !is_full[*drive])
            .map(|drive| ratios[drive])
            .sum();
        let full_bytes: f64 = (0..ratios.len())
            .filter(|drive| is_full[*drive])
            .map(|drive| rooms_bytes[drive] as f64)
            .sum();
        let left_bytes = (total_bytes as f64 - full_bytes).max(0.0);
        let share_bytes = |drive: usize| left_bytes * ratios[drive] / open_ratio;
        let newly_full = (0..ratios.len())
            .find(|drive| !is_full[*drive] && share_bytes(*drive) > rooms_bytes[*drive] as f64);
        match newly_full {
            Some(drive) => is_full[drive] = true,
            None if left_bytes == 0.0 || open_ratio == 0.0 => return ratios.to_vec(),
            None => {
                let share = |drive: usize| match is_full[drive] {
                    true => rooms_bytes[drive] as f64,
                    false => share_bytes(drive),
                };
                return (0..ratios.len()).map(share).collect();
            }
        }
    }
}

/// Free bytes on the file system of `dir`; no limit where it has no notion of size.
pub(crate) fn free_bytes(dir: &Path) -> Result<u64> {
    let facts = rustix::fs::statvfs(dir)
        .map_err(|errno| Error::errno("look at free space", errno.raw_os_error()).path(dir))?;
    Ok(match facts.f_blocks {
        0 => u64::MAX,
        _ => facts.f_bavail * facts.f_frsize,
    })
}

/// Whether `dir` lies in memory.
fn is_in_memory(dir: &Path) -> bool {
    let facts = rustix::fs::statfs(dir);
    facts.is_ok_and(|facts| IN_MEMORY.contains(&facts.f_type))
}

/// The directory for scratch where none was named: `beside`, or `/var/tmp` if that one is in
/// memory.
///
/// # Errors
/// Usage if both are in memory, or `/var/tmp` is missing.
pub(crate) fn default_scratch_dir(beside: &Path) -> Result<PathBuf> {
    if !is_in_memory(beside) {
        return Ok(beside.to_path_buf());
    }
    let fallback = Path::new(FALLBACK_DIR);
    if fallback.is_dir() && !is_in_memory(fallback) {
        return Ok(fallback.to_path_buf());
    }
    Err(Error::usage(
        "choose scratch directory",
        "the directory of the output is in memory (tmpfs)",
    )
    .path(beside)
    .hint("name a directory on a drive with --drive, or this one to use memory all the same"))
}

/// Fails unless `dir` is a directory.
pub(crate) fn check_dir(operation: &str, dir: &Path) -> Result<()> {
    match std::fs::metadata(dir) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => Err(Error::usage(operation, "it is no directory")
            .path(dir)
            .hint("name a directory")),
        Err(error) => Err(Error::io(operation, &error)
            .path(dir)
            .hint("check the path, or make the directory first")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_is_shared_by_speed_and_never_beyond_the_room() {
        assert_eq!(shares(&[1.0, 3.0], &[1000, 1000], 400), [100.0, 300.0]);
        assert_eq!(
            shares(&[1.0, 3.0], &[1000, 100], 400),
            [300.0, 100.0],
            "the other takes the rest"
        );
        assert_eq!(shares(&[2.0, 1.0], &[10, 10], 0), [2.0, 1.0]);
        assert_eq!(shares(&[], &[], 5), [0.0; 0]);
        let tight = shares(&[1.0, 1.0], &[10, 10], 400);
        assert!(tight.iter().all(|share| *share > 0.0), "{tight:?}");
    }

    #[test]
    fn measured_speeds_count_when_all_are_known() {
        let mut fast = DriveSpec::from_dir("a");
        (fast.read_bytes_per_s, fast.write_bytes_per_s) = (Some(300), Some(300));
        let mut slow = DriveSpec::from_dir("b");
        assert_eq!(speeds(&[fast.clone(), slow.clone()]), [1.0, 1.0]);
        (slow.read_bytes_per_s, slow.write_bytes_per_s) = (Some(100), Some(100));
        assert_eq!(speeds(&[fast.clone(), slow.clone()]), [300.0, 100.0]);
        (fast.weight, slow.weight) = (Some(1.0), Some(2.0));
        assert_eq!(speeds(&[fast, slow]), [1.0, 2.0]);
    }
}
