//! What a job may use, from arguments, environment, file and defaults: memory, threads, drives.
//!
//! Contract: [`Means::load`] merges the settings (see [`outcore::config`]) and [`Means::job`] makes
//! a job of them that is watched through the caller's [`Control`]. Scratch is spread by the drives'
//! weights where they are given, else by measured speed, else evenly, and then cut to what each
//! drive has room for ([`shares`]). Without named drives it goes beside the output; a directory in
//! memory (tmpfs) is only taken when it is named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::algo::plan::SortPlan;
use outcore::config::{Config, Defaults, DriveSpec, Environment, Flags, IoMode};
use outcore::job::{Control, Job, JobOptions, ScratchDrive};
use outcore::{Error, Result, units};

/// File systems that live in memory, by the number that `statfs` gives them: tmpfs and ramfs.
const IN_MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58F6];
/// Where scratch goes if the place beside the output is in memory.
const FALLBACK_DIR: &str = "/var/tmp";
/// The command's own variable: known here, so that it is no error, and without effect.
const ALSO_KNOWN: [&str; 1] = ["OUTCORE_FAULT"];

/// What the caller set itself, sizes as text with a unit.
#[derive(Debug, Clone, Default)]
pub(crate) struct MeansRequest {
    /// Memory to use.
    pub(crate) memory: Option<String>,
    /// Compute threads.
    pub(crate) threads: Option<usize>,
    /// `auto`, `direct` or `buffered`.
    pub(crate) io: Option<String>,
    /// Directories on drives, or drives files ending in `.toml`.
    pub(crate) drives: Vec<PathBuf>,
    /// The most scratch on all drives together.
    pub(crate) scratch_limit: Option<String>,
    /// Chooses samples and the first drive.
    pub(crate) seed: u64,
}

/// Merged settings.
#[derive(Debug, Clone)]
pub(crate) struct Means {
    config: Config,
    seed: u64,
}

impl Means {
    /// Merges what the caller set with environment, file and defaults.
    ///
    /// # Errors
    /// Usage for impossible values, I/O for a configuration that cannot be read.
    pub(crate) fn load(request: &MeansRequest, environment: &Environment) -> Result<Self> {
        let bytes = |text: &Option<String>| text.as_deref().map(units::parse_bytes).transpose();
        let io: Option<IoMode> = request.io.as_deref().map(str::parse).transpose()?;
        let flags = Flags {
            memory_bytes: bytes(&request.memory)?,
            threads: request.threads,
            io,
            drives: request.drives.clone(),
            scratch_limit_bytes: bytes(&request.scratch_limit)?,
        };
        let defaults = Defaults::of_machine();
        Ok(Means {
            config: Config::load(&flags, environment, &defaults, &ALSO_KNOWN)?,
            seed: request.seed,
        })
    }

    /// The drives as they were named.
    pub(crate) fn specs(&self) -> &[DriveSpec] {
        &self.config.drives.value.drives
    }

    /// A job on the operating system's files with scratch on `drives`.
    pub(crate) fn job(&self, drives: Vec<ScratchDrive>, control: &Arc<Control>) -> Job {
        let options = JobOptions {
            memory_bytes: self.config.memory_bytes.value,
            threads: self.config.threads.value,
            drives,
            scratch_limit_bytes: self.config.scratch_limit_bytes.value.unwrap_or(u64::MAX),
            seed: self.seed,
        };
        let mut job = Job::new(options, self.config.io.value);
        job.control = Arc::clone(control);
        job
    }

    /// The drives that were named, with their shares of `scratch_bytes`.
    ///
    /// # Errors
    /// A directory that is missing, no directory, or cannot be looked at.
    pub(crate) fn named_drives(&self, scratch_bytes: u64) -> Result<Vec<ScratchDrive>> {
        let specs = self.specs();
        let mut rooms_bytes = Vec::with_capacity(specs.len());
        for spec in specs {
            check_dir("use drive", &spec.dir)?;
            let free_bytes = free_bytes(&spec.dir)?;
            rooms_bytes.push(free_bytes.min(spec.capacity_limit_bytes.unwrap_or(u64::MAX)));
        }
        let weights = shares(&speeds(specs), &rooms_bytes, scratch_bytes);
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

    /// The drives for the scratch of `plan`: those named, or the default for an output in `beside`
    /// where it is not the engine's own.
    ///
    /// # Errors
    /// As [`Means::named_drives`]; usage if only memory is left for scratch.
    pub(crate) fn scratch_drives(
        &self,
        plan: &SortPlan,
        beside: &Path,
    ) -> Result<Vec<ScratchDrive>> {
        let named = self.named_drives(plan.scratch_bytes)?;
        if !named.is_empty() || plan.levels == 0 {
            return Ok(named);
        }
        let dir = default_scratch_dir(beside)?;
        if dir == beside {
            return Ok(Vec::new());
        }
        Ok(vec![ScratchDrive {
            name: dir.display().to_string(),
            dir,
            weight: 1.0,
        }])
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
    let partly = || specs.iter().map(|spec| spec.weight.unwrap_or(1.0));
    all(&|spec| spec.weight)
        .or_else(|| all(&measured))
        .unwrap_or_else(|| partly().collect())
}

/// Shares of `total_bytes` in proportion to `weights`, none above its room; what a small drive
/// cannot take goes to the others.
fn shares(weights: &[f64], rooms_bytes: &[u64], total_bytes: u64) -> Vec<f64> {
    let mut shares: Vec<Option<f64>> = vec![None; weights.len()];
    loop {
        let taken_bytes: f64 = shares.iter().flatten().sum();
        let left_bytes = (total_bytes as f64 - taken_bytes).max(0.0);
        let open = || (0..weights.len()).filter(|drive| shares[*drive].is_none());
        let open_weight: f64 = open().map(|drive| weights[drive]).sum();
        if left_bytes == 0.0 || open_weight == 0.0 {
            return weights.to_vec();
        }
        let share_bytes = |drive: usize| left_bytes * weights[drive] / open_weight;
        match open().find(|&drive| share_bytes(drive) > rooms_bytes[drive] as f64) {
            Some(full) => shares[full] = Some(rooms_bytes[full] as f64),
            None => {
                let share = |drive: usize| shares[drive].unwrap_or_else(|| share_bytes(drive));
                return (0..weights.len()).map(share).collect();
            }
        }
    }
}

/// Free bytes on the file system of `dir`.
fn free_bytes(dir: &Path) -> Result<u64> {
    let facts = rustix::fs::statvfs(dir)
        .map_err(|errno| Error::errno("look at free space", errno.raw_os_error()).path(dir))?;
    Ok(facts.f_bavail * facts.f_frsize)
}

fn is_in_memory(dir: &Path) -> bool {
    let facts = rustix::fs::statfs(dir);
    facts.is_ok_and(|facts| IN_MEMORY.contains(&facts.f_type))
}

/// `beside`, or `/var/tmp` if that one is in memory.
fn default_scratch_dir(beside: &Path) -> Result<PathBuf> {
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

fn check_dir(operation: &str, dir: &Path) -> Result<()> {
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
