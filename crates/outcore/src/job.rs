//! A job: what a run may use (memory, threads, drives, a seed), and how it is observed and stopped.
//!
//! Contract: a [`Job`] is a value; nothing is global. The caller shares its [`Control`] with
//! observers. They read progress from it and stop the job by setting `cancel`. The job stops at its
//! next check, at most about 50 ms plus the sort of one bucket later, and leaves nothing behind.
//! `thread_group` holds the threads of a job.

pub(crate) mod thread_group;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::layout::{InputPlace, Layout, OutputPlaces};
use crate::states::{PassState, RestoredState, States};
use outcore_io::config::IoMode;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::rates::bits;
pub use outcore_io::drive::rates::{DriveRates, DriveSpeed, RatesOrigin, SpeedSource, Speeds};
use outcore_io::drive::steady::SteadyDevice;
use outcore_io::drive::{Device, real_dir};
use outcore_io::memory::{Budget, Ledger, allow_hint};
use outcore_io::output::parent_of;
pub use outcore_io::port::ScratchDrive;
use outcore_io::port::Volume;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Resources of a job.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// Limit on buffers and working memory; peak RSS stays within 64 MiB of it.
    pub memory_bytes: u64,
    /// Threads that compute (and do their own I/O).
    pub threads: usize,
    /// Drives for scratch; if empty, a private directory next to the output.
    pub drives: Vec<ScratchDrive>,
    /// Limit on scratch.
    pub scratch_limit_bytes: u64,
    /// Determines samples and the first drive; never the output.
    pub seed: u64,
    /// Speeds of the drives, as far as they are known: for plans, never for the output.
    pub speeds: Speeds,
    /// The inputs, for the plans of steps that do not open them.
    pub inputs: Vec<InputPlace>,
    /// The files that the job will write, for the plans of steps that do not know them.
    pub outputs: OutputPlaces,
    /// Computing cost per item, as far as it is known: also only for plans.
    pub costs: ComputeCosts,
    /// The journal that the job keeps, if any. After a kill, another run continues the job from it.
    /// Only sorts of records and lines into one file keep one.
    pub resume: Option<ResumeOptions>,
    /// Whether the output is read back, and compared with what the job has read, before it gets its
    /// name. Only sorts and shuffles of records and lines into files do this, and only if they keep
    /// no journal.
    pub verify_output: bool,
    /// The hash with which the totals of the items are summed for the summary, as they are written
    /// or, in a shuffle, as they are read. Sorts and shuffles of records and lines compute these
    /// totals, unless they keep a journal or read the output back. A sort takes the hash of its
    /// format.
    pub sums_items: Option<ItemHash>,
}

/// The hash of an item in a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemHash {
    /// The hash of all lines, and of all records except for gensort's.
    Usual,
    /// The hash of gensort's records, as sortbenchmark.org's valsort sums it.
    Gensort,
}

/// How a job can be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeOptions {
    /// The command that resumes the job, for lists of scratch.
    pub command: String,
    /// The order and the form of lines, as text. A run whose text differs is another job.
    pub order: String,
    /// How long the directories of a dead job are kept after its last checkpoint.
    pub keep: Duration,
}

impl Default for ResumeOptions {
    fn default() -> Self {
        ResumeOptions {
            command: String::new(),
            order: String::new(),
            keep: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions {
            memory_bytes: 2 << 30,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            drives: Vec::new(),
            scratch_limit_bytes: u64::MAX,
            seed: 1,
            speeds: Speeds::default(),
            inputs: Vec::new(),
            outputs: OutputPlaces::Unknown,
            costs: ComputeCosts::ASSUMED,
            resume: None,
            verify_output: false,
            sums_items: None,
        }
    }
}

/// Observes and stops a running job.
#[derive(Debug, Default)]
pub struct Control {
    cancel: AtomicBool,
    /// A flag of another owner that also cancels the job.
    stop: OnceLock<Arc<AtomicBool>>,
    phase: Mutex<String>,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    loads: Mutex<Vec<DriveLoad>>,
    on_plan: Listener,
    /// The first file that the job reads.
    input: OnceLock<PathBuf>,
    notes: Mutex<Notes>,
    on_note: Listener,
}

/// Notes from a job to its caller, besides its result.
#[derive(Debug, Default)]
struct Notes {
    waiting: Vec<String>,
    taken: Vec<String>,
}

/// Receives a plan or a note, to show it.
type Show = dyn Fn(&dyn fmt::Display) + Send + Sync;

/// Called with each plan or note of a job.
#[derive(Default)]
struct Listener(OnceLock<Box<Show>>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener")
            .field(&self.0.get().is_some())
            .finish()
    }
}

/// Memory per input file: its names, its state, and its reader.
const INPUT_BYTES: u64 = 1536;
/// This many files fit in the process's own memory overhead.
const INPUTS_FREE: usize = 1024;

/// Part of `memory_bytes` that a job needs for its list of `count` input files until it ends.
///
/// # Errors
/// [`Kind::Memory`] if that part exceeds half of `memory_bytes`.
pub fn held_by_inputs(memory_bytes: u64, count: usize) -> Result<u64> {
    if count <= INPUTS_FREE {
        return Ok(0);
    }
    let held_bytes = count as u64 * INPUT_BYTES;
    if held_bytes <= memory_bytes / 2 {
        return Ok(held_bytes);
    }
    let cause = format!(
        "the list of {} input files takes {}, but only {} may be used in all",
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

/// Recent load of a drive.
#[derive(Debug)]
struct DriveLoad {
    name: String,
    /// Requests that waited for the drive; later samples count more.
    waiting: f64,
}

/// Weight of a sample of a drive's waiting requests, relative to the next sample.
const LOAD_DECAY: f64 = 0.98;
/// A drive is reported as the slowest if its waiting requests exceed the mean by this factor.
const SLOW_RATIO: f64 = 1.25;

/// A snapshot of a running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: String,
    /// Bytes of the phase that are done.
    pub done_bytes: u64,
    /// Total bytes of the phase.
    pub total_bytes: u64,
    /// Bytes read from drives so far.
    pub read_bytes: u64,
    /// Bytes written to drives so far.
    pub written_bytes: u64,
    /// The drive that the others wait for, if one has recently been slower than those.
    pub slowest_drive: Option<String>,
}

impl Control {
    /// Asks the job to stop.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// From now on the job also stops once `flag` is set, for example by a signal handler. Later
    /// calls change nothing.
    pub fn cancel_with(&self, flag: Arc<AtomicBool>) {
        let _ = self.stop.set(flag);
    }

    /// Whether a stop was requested.
    pub fn is_cancelled(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.cancel) || self.stop.get().is_some_and(|flag| is_set(flag))
    }

    /// Fails with [`crate::Kind::Interrupted`] once a stop was requested.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }

    /// Records a file that the job reads. An error about a panic names the first one.
    pub fn note_input(&self, path: &Path) {
        let _ = self.input.set(path.to_path_buf());
    }

    /// The phase, for an error message.
    pub(crate) fn step(&self) -> String {
        let phase = self.progress().phase;
        match phase.is_empty() {
            true => "prepare the job".to_owned(),
            false => phase,
        }
    }

    /// Runs a whole job. A panic in it, of outcore or of a library, becomes an error that names the
    /// phase and the first input.
    ///
    /// # Errors
    /// The error of `work`, or an error about its panic.
    pub fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // The owners of the values that `work` has borrowed drop them when they see the error, and
        // do not use them again.
        let done = catch_unwind(AssertUnwindSafe(work));
        let done = done.unwrap_or_else(|panic| Err(Error::panicked(self.step(), panic)));
        done.map_err(|error| match self.input.get() {
            Some(path) if error.is_panic() && error.file_path().is_none() => error.path(path),
            _ => error,
        })
    }

    /// Calls `show` with each plan that the job makes from now on, before it follows the plan.
    /// Later calls change nothing.
    pub fn on_plan(&self, show: impl Fn(&dyn fmt::Display) + Send + Sync + 'static) {
        let _ = self.on_plan.0.set(Box::new(show));
    }

    /// Shows a plan, if the caller asked for plans.
    pub fn show_plan(&self, plan: &dyn fmt::Display) {
        if let Some(show) = self.on_plan.0.get() {
            show(plan);
        }
    }

    /// Calls `show` with each note that is added after this call. Only the first call of this
    /// method has an effect.
    pub fn on_note(&self, show: impl Fn(&dyn fmt::Display) + Send + Sync + 'static) {
        let _ = self.on_note.0.set(Box::new(show));
    }

    /// Adds a note about the job, such as a choice that it made for the caller; repeated notes are
    /// kept once.
    pub fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.waiting.contains(&note) || notes.taken.contains(&note) {
            return;
        }
        match self.on_note.0.get() {
            Some(show) => {
                notes.taken.push(note.clone());
                drop(notes);
                show(&note);
            }
            None => notes.waiting.push(note),
        }
    }

    /// The notes that were added since the last call and have not been shown yet.
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

    /// Records the traffic of a volume's drives, and the requests that wait for each.
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

    /// Sets the traffic counters, for the rates.
    pub fn set_traffic(&self, read_bytes: u64, written_bytes: u64) {
        self.read_bytes.store(read_bytes, Ordering::Relaxed);
        self.written_bytes.store(written_bytes, Ordering::Relaxed);
    }

    /// The current state of the job.
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

/// Core nanoseconds of one step of work, per item and per byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Per item.
    #[serde(with = "bits")]
    pub item_ns: f64,
    /// Per byte.
    #[serde(with = "bits")]
    pub byte_ns: f64,
}

impl StepCost {
    /// Core seconds for these items and bytes.
    pub fn seconds(&self, items: f64, bytes: f64) -> f64 {
        (items * self.item_ns + bytes * self.byte_ns) * 1e-9
    }
}

/// Computing costs of one kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KindCosts {
    /// Distributing items into buckets, once.
    pub distribute: StepCost,
    /// Processing a bucket in memory and writing it.
    pub finish: StepCost,
}

/// Computing costs of jobs on this machine: measured, or assumed for one core of a medium machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ComputeCosts {
    /// A sort of scalars.
    pub numbers: KindCosts,
    /// A sort of records by reference.
    pub records: KindCosts,
    /// A sort of lines.
    pub lines: KindCosts,
    /// A shuffle.
    pub shuffle: KindCosts,
    /// Source of the figures.
    pub origin: RatesOrigin,
}

impl ComputeCosts {
    /// For an unknown machine.
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

/// The work of a job, and its resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSize {
    /// Bytes of all input data.
    pub data_bytes: u64,
    /// Memory for the data.
    pub memory_bytes: u64,
    /// Memory that the job uses for other purposes, under the same limit.
    pub held_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Drives that receive data.
    pub drive_count: usize,
    /// The drives' shares of the data, and their speeds.
    #[serde(with = "crate::layout::shared")]
    pub layout: Arc<Layout>,
    /// Computing costs.
    pub costs: ComputeCosts,
}

impl JobSize {
    /// The resources of `job`, for `data_bytes` on the drives of `layout`.
    pub fn of(job: &Job, data_bytes: u64, layout: Layout) -> Self {
        JobSize {
            data_bytes,
            memory_bytes: job.budget.free_bytes(),
            held_bytes: job.budget.used_bytes(),
            threads: job.options.threads,
            drive_count: layout.lane_count(),
            layout: Arc::new(layout),
            costs: job.options.costs,
        }
    }
}

/// The environment of one run: options, device, memory, control.
#[derive(Clone)]
pub struct Job {
    /// The resources of the run.
    pub options: JobOptions,
    /// The files.
    pub device: Arc<dyn Device>,
    /// The memory limit.
    pub budget: Budget,
    /// Observes and stops the run.
    pub control: Arc<Control>,
    /// The place for the job's state between passes; see [`crate::passes::KeptPasses`].
    pub states: Option<Arc<States>>,
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
            states: None,
        }
    }

    /// Restores `state` from what a killed run of this job kept; returns whether that run kept
    /// anything.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for a damaged state; the device's error; a request to stop.
    pub fn restore_state<S: PassState>(&self, state: &mut S) -> Result<bool> {
        match &self.states {
            Some(states) => {
                let restored = states.restore(|| self.control.check(), state)?;
                if restored == Some(RestoredState::Previous) {
                    let what =
                        "the last state of the killed run is damaged; the one before is whole";
                    self.control.note(what.to_owned());
                }
                if restored.is_some()
                    && let Some(remark) = states.take_remark()
                {
                    self.control.note(remark);
                }
                Ok(restored.is_some())
            }
            None => Ok(false),
        }
    }

    /// Keeps `state` after a pass, if the job can be resumed and a checkpoint is due.
    ///
    /// # Errors
    /// [`Kind::NoSpace`]; the device's error; a request to stop.
    pub fn keep_state<S: PassState>(&self, state: &mut S) -> Result<()> {
        match &self.states {
            Some(states) => states.keep(|| self.control.check(), state),
            None => Ok(()),
        }
    }

    /// Its layout with these `inputs` and `outputs`. Empty `inputs` and unknown `outputs` are taken
    /// from its options. Scratch is on the named drives, or next to the output.
    pub fn layout(&self, inputs: &[InputPlace], outputs: &OutputPlaces) -> Layout {
        let outputs = self.known_outputs(outputs);
        let own = match outputs {
            OutputPlaces::Files(files) => files.first().map(|path| parent_of(path)),
            _ => inputs.first().map(|input| input.dir.as_path()),
        };
        let beside = [ScratchDrive::new(own.unwrap_or(Path::new(".")))];
        let scratch = match self.options.drives.is_empty() {
            true => &beside[..],
            false => &self.options.drives,
        };
        self.layout_on(inputs, outputs, scratch)
    }

    /// Like `layout`, but with scratch on these drives.
    pub(crate) fn layout_on(
        &self,
        inputs: &[InputPlace],
        outputs: &OutputPlaces,
        scratch: &[ScratchDrive],
    ) -> Layout {
        let inputs = match inputs {
            [] => &self.options.inputs,
            known => known,
        };
        let outputs = self.known_outputs(outputs);
        let (device, speeds) = (self.device.as_ref(), &self.options.speeds);
        Layout::new(device, speeds, inputs, outputs, scratch)
    }

    fn known_outputs<'a>(&'a self, outputs: &'a OutputPlaces) -> &'a OutputPlaces {
        match outputs {
            OutputPlaces::Unknown => &self.options.outputs,
            // The caller receives the result through a pipe and writes it to these places.
            OutputPlaces::Pipe if self.options.outputs != OutputPlaces::Unknown => {
                &self.options.outputs
            }
            known => known,
        }
    }

    /// The place of an input of this many bytes that is not open: a file, or the files of a
    /// directory.
    pub fn input_place(&self, path: &Path, bytes: u64) -> InputPlace {
        let real = real_dir(path);
        // A path that does not exist on the system is a name on the device.
        let dir = real.as_deref().unwrap_or(path);
        InputPlace {
            file_system: self.device.file_system(dir).unwrap_or_default(),
            dir: dir.to_path_buf(),
            bytes,
        }
    }

    /// The same job, for runs that open their inputs more than once. Each name opened for reading
    /// leads to the same, unchanged file every time, or is an error.
    #[must_use]
    pub fn steady(&self) -> Job {
        Job {
            device: Arc::new(SteadyDevice::new(Arc::clone(&self.device))),
            ..self.clone()
        }
    }

    /// The same job without kept state, for a step that is itself a job in passes. Such a step must
    /// not restore or replace the state of the whole job.
    #[must_use]
    pub fn without_states(&self) -> Job {
        Job {
            states: None,
            ..self.clone()
        }
    }

    /// The same job with the memory that `ledger` names, all of which is reserved now.
    ///
    /// # Errors
    /// [`crate::Kind::Memory`] if less is left.
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
        // A panic on a thread of the job also becomes such an error.
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
        // An error is passed on unchanged.
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
