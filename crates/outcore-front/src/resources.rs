//! The resources of a job, from the caller, environment, configuration file and defaults: memory,
//! threads, drives, device.
//!
//! Contract: [`Resources::load`] merges the settings (see [`outcore_io::config`]). If the memory is
//! small, it makes the C library return long blocks to the system. [`Resources::job`] makes a job
//! of them; all jobs use the same device. Scratch is distributed by the drives' weights if they are
//! given, otherwise by measured speed, otherwise evenly, and is then limited to each drive's room.
//! Without given drives it is next to the output. A directory in memory (tmpfs) is used only if the
//! user gives it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outcore::job::{
    ComputeCosts, InputPlace, Job, JobOptions, OutputPlaces, ResumeOptions, ScratchDrive, Speeds,
    held_by_inputs,
};
use outcore::{Error, Result};
use outcore_io::config::{Config, Defaults, DriveSpec, Environment, Flags, Source};
use outcore_io::drive::Device;
use outcore_io::drive::objects::is_object;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::paths;
use outcore_io::drive::rates::RatesCache;
use outcore_io::drive::steady::SteadyDevice;
use outcore_io::drive::testing::{FaultDevice, FaultPlan};
use outcore_io::memory::Budget;
use outcore_io::output::parent_of;
use outcore_io::stop::Stop;

use crate::allocator;
use crate::inputs::{FilesOnly, Names, Source as InputSource, object_named, objects_like};
use crate::record_cost::compute_costs;
use crate::speeds::{Found, KnownSpeeds};

/// A variable that the command reads itself, for tests. Every program accepts this variable, so
/// that it is never reported as unknown.
pub const FAULT_VARIABLE: &str = "OUTCORE_FAULT";
/// The variables that the command reads itself.
const KNOWN_VARIABLES: [&str; 2] = [FAULT_VARIABLE, crate::volumes::VOLUME_VARIABLE];
/// Magic numbers from `statfs` of file systems in memory: tmpfs and ramfs.
const IN_MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58F6];
/// Directory for scratch if the place next to the output is in memory.
const FALLBACK_DIR: &str = "/var/tmp";

/// The calling thread alone processes data of at most this many bytes.
const ONE_THREAD_BYTES_MAX: u64 = 256 << 10;

/// Settings from the caller.
#[derive(Debug, Clone, Default)]
pub struct ResourcesRequest {
    /// Settings that may also come from other places.
    pub flags: Flags,
    /// Chooses samples and the first drive; never affects the output.
    pub seed: u64,
    /// Ends waits for object stores.
    pub stop: Stop,
}

/// Merged settings, and the device that they select.
#[derive(Clone)]
pub struct Resources {
    /// All settings, with their sources.
    pub config: Config,
    /// The caller's settings before the merge.
    request: ResourcesRequest,
    environment: Environment,
    /// The device without the fault.
    below: Arc<dyn Device>,
    /// The lowest device of all jobs. On this device, a name means the same file for every job.
    steady: Arc<SteadyDevice>,
    fault: Option<FaultPlan>,
    device: Arc<dyn Device>,
    known: Arc<dyn Names + Send + Sync>,
    /// Whether drives with unknown rates are measured before a plan is made.
    measures: bool,
    /// Memory for the names and descriptions of inputs.
    held_bytes: u64,
    /// Speeds of drives that were looked up.
    found: Found,
    /// The places of the inputs.
    inputs: Vec<InputPlace>,
    /// The places of the outputs.
    outputs: OutputPlaces,
}

/// Names whose files must stay unchanged on the jobs' device once they have been found.
struct Remembering {
    names: Arc<dyn Names + Send + Sync>,
    steady: Arc<SteadyDevice>,
}

impl Remembering {
    fn device(&self) -> Arc<dyn Device> {
        Arc::<SteadyDevice>::clone(&self.steady)
    }
}

/// `device` with the objects of stores among its files, if this build has stores.
#[cfg(feature = "cloud")]
fn with_objects(device: Arc<dyn Device>, stop: &Stop) -> Arc<dyn Device> {
    Arc::new(outcore_cloud::ObjectDevice::new(device, stop.clone()))
}

#[cfg(not(feature = "cloud"))]
fn with_objects(device: Arc<dyn Device>, _stop: &Stop) -> Arc<dyn Device> {
    device
}

impl Names for Remembering {
    fn input(&self, name: &Path) -> Result<Option<InputSource>> {
        match object_named(&self.device(), name)? {
            Some(object) => Ok(Some(object)),
            None => self.names.input(name),
        }
    }

    fn matching(&self, name: &Path) -> Result<Option<Vec<PathBuf>>> {
        objects_like(&self.device(), name)
    }

    fn found(&self, source: &InputSource) {
        if let Some(identity) = source.identity {
            self.steady.expect(&source.path, identity);
        }
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Resources");
        let text = text
            .field("config", &self.config)
            .field("seed", &self.request.seed);
        text.finish_non_exhaustive()
    }
}

/// A sentence about each `OUTCORE_` variable without effect.
pub fn unknown_variables(environment: &Environment) -> Vec<String> {
    environment.unknown(&KNOWN_VARIABLES)
}

impl Resources {
    /// Merges the caller's settings with environment, file and defaults.
    ///
    /// # Errors
    /// Usage for invalid values, I/O for a configuration that cannot be read.
    pub fn load(request: &ResourcesRequest, environment: &Environment) -> Result<Self> {
        let defaults = Defaults::of_machine();
        let config = Config::load(&request.flags, environment, &defaults)?;
        allocator::keep_within(config.memory_bytes.value);
        let os: Arc<dyn Device> = Arc::new(OsDevice::new(config.io.value));
        let steady = Arc::new(SteadyDevice::new(with_objects(os, &request.stop)));
        let below: Arc<dyn Device> = Arc::<SteadyDevice>::clone(&steady);
        Ok(Resources {
            config,
            request: request.clone(),
            environment: environment.clone(),
            device: Arc::clone(&below),
            below,
            fault: None,
            known: Arc::new(Remembering {
                names: Arc::new(FilesOnly),
                steady: Arc::clone(&steady),
            }),
            steady,
            measures: false,
            held_bytes: 0,
            found: Found::default(),
            inputs: Vec::new(),
            outputs: OutputPlaces::Unknown,
        })
    }

    /// Replaces the named drives with those of a drives file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn with_drives_of(mut self, drives_file: &Path) -> Result<Self> {
        self.request.flags.drives = vec![drives_file.to_path_buf()];
        self.config = Resources::load(&self.request, &self.environment)?.config;
        Ok(self)
    }

    /// Adapts the resources to a job over `data_bytes` of files. The job uses one thread if that is
    /// faster than starting more, and the user has not set the number of threads.
    #[must_use]
    pub fn for_data(mut self, data_bytes: Option<u64>) -> Self {
        let is_little = data_bytes.is_some_and(|bytes| bytes <= ONE_THREAD_BYTES_MAX);
        if is_little && self.config.threads.source == Source::Default {
            self.config.threads.value = 1;
        }
        self
    }

    /// Adapts the resources to a job that reads `count` files. Data about each file stays in memory
    /// until the job ends, and counts against the memory limit.
    ///
    /// # Errors
    /// [`outcore::Kind::Memory`] if that takes more than half of the memory.
    pub fn holding_inputs(mut self, count: usize) -> Result<Self> {
        self.held_bytes = held_by_inputs(self.config.memory_bytes.value, count)?;
        Ok(self)
    }

    /// Adds a fault to the device, for tests.
    #[must_use]
    pub fn with_fault(mut self, plan: FaultPlan) -> Self {
        self.fault = Some(plan);
        self.put_fault()
    }

    fn put_fault(mut self) -> Self {
        self.device = match self.fault {
            Some(plan) => Arc::new(FaultDevice::new(Arc::clone(&self.below), plan)),
            None => Arc::clone(&self.below),
        };
        self
    }

    /// Records the examined files of `sources`: jobs that find other files under their names fail.
    pub fn expect<'a>(&self, sources: impl IntoIterator<Item = &'a InputSource>) {
        for source in sources {
            if let Some(identity) = source.identity {
                self.steady.expect(&source.path, identity);
            }
        }
    }

    /// The device of all jobs.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.device)
    }

    /// The resolver of names that are not files.
    pub fn names(&self) -> &dyn Names {
        self.known.as_ref()
    }

    /// Sets the resolver of names that are not files.
    #[must_use]
    pub(crate) fn knowing(mut self, known: Arc<dyn Names + Send + Sync>) -> Self {
        self.known = Arc::new(Remembering {
            names: known,
            steady: Arc::clone(&self.steady),
        });
        self
    }

    /// Replaces the device with one that `make` creates from it. If there is a fault, `make` gets
    /// the device without the fault, and the new device gets the fault.
    ///
    /// # Errors
    /// An error of `make`.
    pub(crate) fn on_below(
        mut self,
        make: impl FnOnce(&Arc<dyn Device>) -> Result<Arc<dyn Device>>,
    ) -> Result<Self> {
        self.below = make(&self.below)?;
        Ok(self.put_fault())
    }

    /// Replaces the device of the jobs.
    #[must_use]
    pub fn on(mut self, device: Arc<dyn Device>) -> Self {
        self.device = device;
        self
    }

    /// The drives as the user named them.
    pub fn specs(&self) -> &[DriveSpec] {
        &self.config.drives.value.drives
    }

    /// Maximum amount of scratch on all drives together.
    pub fn scratch_limit_bytes(&self) -> u64 {
        self.config.scratch_limit_bytes.value.unwrap_or(u64::MAX)
    }

    /// Sets whether unknown speeds are measured before a plan is made. This takes half a second per
    /// drive with unknown rates, and a second or two for the computation of jobs. Both results are
    /// cached.
    #[must_use]
    pub fn measuring(mut self, measures: bool) -> Self {
        if measures != self.measures {
            self.found = Found::default();
        }
        self.measures = measures;
        self
    }

    /// The cache of measurements of drives and processors.
    fn rates_cache(&self) -> RatesCache {
        let dir = self.environment.cache_dir();
        RatesCache::new(dir.map(|dir| dir.join("rates.toml")))
    }

    /// The speeds of the drives that a job uses.
    fn speeds(&self) -> Speeds {
        Speeds::new(KnownSpeeds {
            cache: self.rates_cache(),
            device: Arc::clone(&self.below),
            set: self.config.drives.value.clone(),
            measures: self.measures.then_some(self.config.io.value),
            found: Arc::clone(&self.found),
            is_in_memory,
        })
    }

    /// Adapts the resources to a job that reads `sources` and writes `outputs`.
    #[must_use]
    pub fn placed(mut self, sources: &[InputSource], outputs: OutputPlaces) -> Self {
        let files = sources.iter().filter(|source| !source.is_stream());
        let place = |source: &InputSource| {
            let dir = match source.sealed {
                Some(_) => source.path.as_path(),
                None => parent_of(&source.path),
            };
            let (file_system, bytes) = match source.identity {
                Some(identity) => (identity.file_system(), identity.len_bytes()),
                None => (self.device.file_system(dir).unwrap_or_default(), 1),
            };
            InputPlace {
                file_system,
                dir: dir.to_path_buf(),
                bytes,
            }
        };
        self.inputs = files.map(place).collect();
        self.outputs = outputs;
        self
    }

    /// How a job can be resumed by `command`, whose lines have this order.
    pub fn resume_options(&self, command: String, order: String) -> ResumeOptions {
        let days = self.config.resume_days.value;
        ResumeOptions {
            command,
            order,
            keep: Duration::from_secs(days.saturating_mul(24 * 60 * 60)),
        }
    }

    /// A job with scratch on `drives`.
    pub fn job(&self, drives: Vec<ScratchDrive>) -> Job {
        self.job_with(drives, Speeds::default(), ComputeCosts::ASSUMED)
    }

    /// As [`Resources::job`], for a pass, which is planned with the known or measured speeds of
    /// drives.
    pub fn pass_job(&self, drives: Vec<ScratchDrive>) -> Job {
        let costs = compute_costs(&self.rates_cache(), false);
        self.job_with(drives, self.speeds(), costs)
    }

    /// As [`Resources::pass_job`], for a job whose plan also counts computing.
    pub fn planned_job(&self, drives: Vec<ScratchDrive>) -> Job {
        let costs = compute_costs(&self.rates_cache(), self.measures);
        self.job_with(drives, self.speeds(), costs)
    }

    fn job_with(&self, drives: Vec<ScratchDrive>, speeds: Speeds, costs: ComputeCosts) -> Job {
        let options = JobOptions {
            memory_bytes: self.config.memory_bytes.value,
            threads: self.config.threads.value,
            drives,
            scratch_limit_bytes: self.scratch_limit_bytes(),
            seed: self.request.seed,
            speeds,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            costs,
            resume: None,
            verify_output: false,
            sums_items: None,
        };
        let budget = Budget::holding(options.memory_bytes, self.held_bytes);
        Job {
            budget,
            ..Job::on(options, self.device())
        }
    }

    /// The named drives, with their shares of `scratch_bytes`.
    ///
    /// # Errors
    /// A directory that is missing, is not a directory, or cannot be examined.
    pub fn named_drives(&self, scratch_bytes: u64) -> Result<Vec<ScratchDrive>> {
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
                limit_bytes: spec.capacity_limit_bytes.unwrap_or(u64::MAX),
            });
        Ok(drives.collect())
    }

    /// The drives for this much scratch: the named ones, or else the default one for an output in
    /// `beside`. Empty if that is also the engine's default.
    ///
    /// # Errors
    /// As [`Resources::named_drives`]; usage if scratch could only be in memory.
    pub(crate) fn scratch_drives(
        &self,
        scratch_bytes: u64,
        beside: &Path,
    ) -> Result<Vec<ScratchDrive>> {
        let named = self.named_drives(scratch_bytes)?;
        if !named.is_empty() || scratch_bytes == 0 {
            return Ok(named);
        }
        let dir = default_scratch_dir(beside)?;
        if dir == beside {
            return Ok(Vec::new());
        }
        Ok(vec![ScratchDrive::new(dir)])
    }
}

/// Relative speeds: weights if all are given, otherwise measured bandwidths if all are known,
/// otherwise 1 for each.
fn speeds(specs: &[DriveSpec]) -> Vec<f64> {
    let all = |get: &dyn Fn(&DriveSpec) -> Option<f64>| {
        specs.iter().map(get).collect::<Option<Vec<f64>>>()
    };
    let measured = |spec: &DriveSpec| {
        let (read, write) = (spec.read_bytes_per_s?, spec.write_bytes_per_s?);
        // Scratch is written once and read once, so the time for both counts.
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

/// Shares of `total_bytes` in proportion to `weights`, none above its room. If a share exceeds the
/// room of its drive, the other drives get the excess.
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

/// Free bytes on the file system of `dir`; no limit if it does not report a size.
///
/// # Errors
/// The system call fails.
pub fn free_bytes(dir: &Path) -> Result<u64> {
    let facts = rustix::fs::statvfs(dir)
        .map_err(|errno| Error::errno("look at free space", errno.raw_os_error()).path(dir))?;
    Ok(match facts.f_blocks {
        0 => u64::MAX,
        _ => facts.f_bavail * facts.f_frsize,
    })
}

/// Whether `dir` is in memory.
pub fn is_in_memory(dir: &Path) -> bool {
    let facts = rustix::fs::statfs(dir);
    facts.is_ok_and(|facts| IN_MEMORY.contains(&facts.f_type))
}

/// Whether a file can be created in `dir`.
fn is_writable(dir: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// The directory for scratch if none was named: `beside`, or `/var/tmp` if `beside` is in memory or
/// not writable.
///
/// # Errors
/// Usage if both are unsuitable.
pub fn default_scratch_dir(beside: &Path) -> Result<PathBuf> {
    let will_do = |dir: &Path| !is_in_memory(dir) && is_writable(dir);
    if will_do(beside) {
        return Ok(beside.to_path_buf());
    }
    let fallback = Path::new(FALLBACK_DIR);
    if fallback.is_dir() && will_do(fallback) {
        return Ok(fallback.to_path_buf());
    }
    let cause = match is_in_memory(beside) {
        true => "the directory of the output is in memory (tmpfs)",
        false => "the directory of the output is not writable",
    };
    Err(Error::usage("choose scratch directory", cause)
        .path(beside)
        .hint(
            "pass a directory on a drive with --drive; a directory in memory is used only if you \
             pass it",
        ))
}

/// Fails unless `dir` is a directory; `operation` is used in the error.
///
/// # Errors
/// Usage if it is something else, I/O if it is missing.
pub fn check_dir(operation: &str, dir: &Path) -> Result<()> {
    if is_object(dir) {
        let cause = "it must be a directory of this machine, not a place in an object store";
        return Err(Error::usage(operation, cause)
            .path(dir)
            .hint("name a directory, best on an SSD"));
    }
    match paths::facts(dir) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => Err(Error::usage(operation, "not a directory")
            .path(dir)
            .hint("name a directory")),
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && dir.display().to_string().contains(',') =>
        {
            Err(Error::io(operation, &error)
                .path(dir)
                .hint("name each directory with an option of its own"))
        }
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
