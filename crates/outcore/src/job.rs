//! A job: what a run may use (memory, threads, drives, a seed) and how it is watched and stopped.
//!
//! Contract: a [`Job`] is a value; nothing is global. Its [`Control`] is shared with whoever
//! watches: progress is read from it, and setting `cancel` stops the job at its next look, at
//! most about 50 ms and one bucket's sort later, with nothing left behind.
//! `thread_group` are its threads.

pub(crate) mod thread_group;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outcore_io::config::IoMode;
use outcore_io::drive::Device;
use outcore_io::drive::os::OsDevice;
pub use outcore_io::drive::rates::{DriveRates, RatesOrigin};
use outcore_io::drive::steady::SteadyDevice;
use outcore_io::memory::{Budget, Ledger, allow_hint};
pub use outcore_io::port::ScratchDrive;
use outcore_io::port::Volume;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

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
    /// How fast a drive is, as far as anybody knows: for plans, never for the output.
    pub rates: DriveRates,
    /// What the work on an item costs, as far as anybody knows: for plans, too.
    pub costs: ComputeCosts,
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions {
            memory_bytes: 2 << 30,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            drives: Vec::new(),
            scratch_limit_bytes: u64::MAX,
            seed: 1,
            rates: DriveRates::ASSUMED,
            costs: ComputeCosts::ASSUMED,
        }
    }
}

/// How a running job is watched and stopped.
#[derive(Debug, Default)]
pub struct Control {
    cancel: AtomicBool,
    /// A flag of somebody else's that cancels, too.
    stop: OnceLock<Arc<AtomicBool>>,
    phase: Mutex<String>,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    loads: Mutex<Vec<DriveLoad>>,
    on_plan: OnPlan,
    /// The first file that the job reads.
    input: OnceLock<PathBuf>,
    notes: Mutex<Notes>,
}

/// Notes of a job for its caller, besides its result.
#[derive(Debug, Default)]
struct Notes {
    waiting: Vec<String>,
    taken: Vec<String>,
}

/// Takes a plan, to show it.
type ShowPlan = dyn Fn(&dyn fmt::Display) + Send + Sync;

/// What is called with each plan that a job makes.
#[derive(Default)]
struct OnPlan(OnceLock<Box<ShowPlan>>);

impl fmt::Debug for OnPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnPlan")
            .field(&self.0.get().is_some())
            .finish()
    }
}

/// Memory per input file: its names, its state, and how it is read.
const INPUT_BYTES: u64 = 1536;
/// So many files take no more than the process itself has room for.
const INPUTS_FREE: usize = 1024;

/// Memory, out of `memory_bytes`, in which a job holds what is known of `count` input files until
/// it ends.
///
/// # Errors
/// [`Kind::Memory`] where that takes more than half of it.
pub fn held_by_inputs(memory_bytes: u64, count: usize) -> Result<u64> {
    if count <= INPUTS_FREE {
        return Ok(0);
    }
    let held_bytes = count as u64 * INPUT_BYTES;
    if held_bytes <= memory_bytes / 2 {
        return Ok(held_bytes);
    }
    let cause = format!(
        "what is known of {} input files takes {}, and {} may be used in all",
        units::count(count as u64),
        units::bytes(held_bytes),
        units::bytes(memory_bytes)
    );
    let enough_bytes = (2 * held_bytes).next_multiple_of(1 << 20);
    let hint = format!(
        "{}, or join some of the files first",
        allow_hint(enough_bytes)
    );
    Err(Error::new(Kind::Memory, "open inputs", cause).hint(hint))
}

/// How much a drive has had to do lately.
#[derive(Debug)]
struct DriveLoad {
    name: String,
    /// Requests that waited for it, later looks counting more.
    waiting: f64,
}

/// Weight of an earlier look at a drive's waiting requests beside a later one.
const LOAD_DECAY: f64 = 0.98;
/// A drive is named as the slowest if its waiting requests exceed the mean by this factor.
const SLOW_RATIO: f64 = 1.25;

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
    /// The drive that the others wait for, if one has been slower than they lately.
    pub slowest_drive: Option<String>,
}

impl Control {
    /// Asks the job to stop.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// From now on the job stops once `flag` is set, too: a handler of signals can set one. Later
    /// calls change nothing.
    pub fn cancel_with(&self, flag: Arc<AtomicBool>) {
        let _ = self.stop.set(flag);
    }

    /// Whether it has been asked to stop.
    pub fn is_cancelled(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.cancel) || self.stop.get().is_some_and(|flag| is_set(flag))
    }

    /// Fails with [`crate::Kind::Interrupted`] once the job has been asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }

    /// Notes a file that the job reads. An error about a panic names the first one.
    pub fn note_input(&self, path: &Path) {
        let _ = self.input.set(path.to_path_buf());
    }

    /// The phase, for an error about it.
    pub(crate) fn step(&self) -> String {
        let phase = self.progress().phase;
        match phase.is_empty() {
            true => "prepare the job".to_owned(),
            false => phase,
        }
    }

    /// Runs a job, all of it: a panic in there, of outcore or of a library, is an error that names
    /// the phase and the first input.
    ///
    /// # Errors
    /// What `work` fails with, or that it panicked.
    pub fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // What `work` has borrowed is dropped by its owner when it sees the error, and not used
        // again.
        let done = catch_unwind(AssertUnwindSafe(work));
        let done = done.unwrap_or_else(|panic| Err(Error::panicked(self.step(), panic)));
        done.map_err(|error| match self.input.get() {
            Some(path) if error.is_panic() && error.file_path().is_none() => error.path(path),
            _ => error,
        })
    }

    /// Calls `show` with each plan that the job makes from now on, before it follows it. Later
    /// calls change nothing.
    pub fn on_plan(&self, show: impl Fn(&dyn fmt::Display) + Send + Sync + 'static) {
        let _ = self.on_plan.0.set(Box::new(show));
    }

    /// Shows a plan to whoever asked for plans.
    pub fn show_plan(&self, plan: &dyn fmt::Display) {
        if let Some(show) = self.on_plan.0.get() {
            show(plan);
        }
    }

    /// Says something about the job, such as what it chose for the caller; the same once.
    pub fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.waiting.contains(&note) && !notes.taken.contains(&note) {
            notes.waiting.push(note);
        }
    }

    /// What was said since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut notes.waiting);
        notes.taken.extend(waiting.iter().cloned());
        waiting
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

    /// Notes the traffic of a volume's drives, and what waits for each.
    pub fn watch(&self, volume: &Volume) {
        let drives = volume.drives();
        let (read_bytes, written_bytes) = volume.traffic_bytes();
        self.set_traffic(read_bytes, written_bytes);
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, drive) in drives.iter().enumerate() {
            let pending = drive.pending() as f64;
            match loads.get_mut(index) {
                Some(load) => load.waiting = LOAD_DECAY * load.waiting + pending,
                None => loads.push(DriveLoad {
                    name: drive.name.clone(),
                    waiting: pending,
                }),
            }
        }
    }

    fn slowest_drive(&self) -> Option<String> {
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let mean = loads.iter().map(|load| load.waiting).sum::<f64>() / loads.len() as f64;
        let slowest = loads
            .iter()
            .max_by(|a, b| a.waiting.total_cmp(&b.waiting))?;
        let is_slow = loads.len() > 1 && slowest.waiting > SLOW_RATIO * mean;
        is_slow.then(|| slowest.name.clone())
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
            slowest_drive: self.slowest_drive(),
        }
    }
}

/// Core nanoseconds of one step of work, per item and per byte of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepCost {
    /// An item.
    pub item_ns: f64,
    /// A byte.
    pub byte_ns: f64,
}

impl StepCost {
    /// Seconds of one core for these items and bytes.
    pub fn seconds(&self, items: f64, bytes: f64) -> f64 {
        (items * self.item_ns + bytes * self.byte_ns) * 1e-9
    }
}

/// What one kind of job computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KindCosts {
    /// To distribute items into buckets, once.
    pub distribute: StepCost,
    /// To work on a bucket in memory and write it.
    pub finish: StepCost,
}

/// What jobs compute on this machine: measured, or what one core of a middling machine needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComputeCosts {
    /// A sort of scalars.
    pub numbers: KindCosts,
    /// A sort of records by reference.
    pub records: KindCosts,
    /// A sort of lines.
    pub lines: KindCosts,
    /// A shuffle.
    pub shuffle: KindCosts,
    /// Where the figures come from.
    pub origin: RatesOrigin,
}

impl ComputeCosts {
    /// Where nothing is known.
    pub const ASSUMED: ComputeCosts = {
        const fn kind(distribute: (f64, f64), finish: (f64, f64)) -> KindCosts {
            KindCosts {
                distribute: StepCost {
                    item_ns: distribute.0,
                    byte_ns: distribute.1,
                },
                finish: StepCost {
                    item_ns: finish.0,
                    byte_ns: finish.1,
                },
            }
        }
        ComputeCosts {
            numbers: kind((0.0, 0.6), (0.0, 1.5)),
            records: kind((20.0, 0.2), (100.0, 0.5)),
            lines: kind((40.0, 0.4), (120.0, 0.6)),
            shuffle: kind((5.0, 0.3), (10.0, 0.4)),
            origin: RatesOrigin::Assumed,
        }
    };
}

/// How much a job has to do, and with what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobSize {
    /// Bytes of all input data.
    pub data_bytes: u64,
    /// The memory for it.
    pub memory_bytes: u64,
    /// What the job holds beside it, out of the same cap.
    pub held_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Drives that data go to.
    pub drive_count: usize,
    /// How fast one of them is.
    pub rates: DriveRates,
    /// What the work on an item costs.
    pub costs: ComputeCosts,
}

impl JobSize {
    /// What `job` may use, for `data_bytes` on `drive_count` drives.
    pub fn of(job: &Job, data_bytes: u64, drive_count: usize) -> Self {
        JobSize {
            data_bytes,
            memory_bytes: job.budget.free_bytes(),
            held_bytes: job.budget.used_bytes(),
            threads: job.options.threads,
            drive_count: drive_count.max(1),
            rates: job.options.rates,
            costs: job.options.costs,
        }
    }
}

/// What one run has to work with: options, device, memory, control.
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

    /// The same job where each name that is opened for reading leads to the same, unchanged file
    /// every time, or is an error: for runs that open their inputs more than once.
    #[must_use]
    pub fn steady(&self) -> Job {
        Job {
            device: Arc::new(SteadyDevice::new(Arc::clone(&self.device))),
            ..self.clone()
        }
    }

    /// The same job with the memory that `ledger` names, all of which is taken now.
    ///
    /// # Errors
    /// [`crate::Kind::Memory`] where less is left.
    pub fn under(&self, ledger: &Ledger) -> Result<Job> {
        let budget = ledger.open(&self.budget)?;
        Ok(Job {
            budget,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_job_is_an_error_that_names_the_step_and_the_file() {
        let control = Control::default();
        control.note_input(Path::new("t.parquet"));
        control.note_input(Path::new("u.parquet"));
        let error = control.guarded(|| -> Result<()> {
            control.begin_phase("distribute", 0);
            panic!("index 7 of 3")
        });
        let told = error.unwrap_err().to_string();
        for part in ["distribute: ", "index 7 of 3", "t.parquet", "report it"] {
            assert!(told.contains(part), "{part} in {told}");
        }
        // So is one on a thread of the job's.
        let error = control.guarded(|| {
            let done = outcore_io::threads::together("outcore-test", 2, |_| -> Result<()> {
                panic!("index 7 of 3")
            });
            done?.into_iter().collect::<Result<Vec<_>>>()
        });
        let told = error.unwrap_err().to_string();
        assert!(
            told.contains("index 7 of 3") && told.contains("t.parquet"),
            "{told}"
        );
        // An error stays what it is.
        let error = control.guarded(|| -> Result<()> { Err(Error::errno("read", 5)) });
        assert_eq!(error.unwrap_err().file_path(), None);
    }

    #[test]
    fn the_drive_that_most_waits_for_is_named_and_equal_ones_are_not() {
        let control = Control::default();
        let load = |name: &str, waiting: f64| DriveLoad {
            name: name.into(),
            waiting,
        };
        *control.loads.lock().unwrap() = vec![load("a", 10.0), load("b", 11.0)];
        assert_eq!(control.progress().slowest_drive, None);
        control.loads.lock().unwrap()[1].waiting = 30.0;
        assert_eq!(control.progress().slowest_drive.as_deref(), Some("b"));
        control.loads.lock().unwrap().truncate(1);
        assert_eq!(control.progress().slowest_drive, None);
    }
}
