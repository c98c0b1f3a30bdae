//! A job on a thread of its own, watched from the thread that called.
//!
//! Contract: [`watch`] releases the interpreter while the job runs. Every 50 ms it checks for
//! signals, which only Python's main thread sees. Every 200 ms, and once at the end, it reports the
//! progress to the caller's function. An exception from either stops the job. It is raised once the
//! job has cleaned up, at most about 50 ms and one bucket's sort later. A panic is an error that
//! names the step and the file. Any number of jobs may run at once.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outcore::job::{Control, Job, ScratchDrive};
use outcore::{Error, Kind, Result};
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_io::config::Environment;
use outcore_io::stop::Stop;
use outcore_io::threads::spawn;
use pyo3::prelude::*;

use crate::errors;

/// The name of this program in a trace.
pub(crate) const PROGRAM: &str = concat!("outcore for Python ", env!("CARGO_PKG_VERSION"));
/// How long a signal may stay unseen.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The interval between reports of progress.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// The phase that is reported at the end.
const DONE: &str = "done";

/// The context of every job.
#[derive(Debug)]
pub(crate) struct Run {
    /// The environment when the job was called: other Python threads may change it later.
    pub(crate) environment: Environment,
    /// The control that the calling thread watches.
    pub(crate) control: Arc<Control>,
    /// Files with the names that the user gave them.
    names: Mutex<Vec<(PathBuf, PathBuf)>>,
}

impl Run {
    /// A run that is not watched yet.
    pub(crate) fn new() -> Self {
        Run {
            environment: Environment::of_process(),
            control: Arc::new(Control::default()),
            names: Mutex::default(),
        }
    }

    /// Uses `name` for the file at `path` in messages to the user.
    pub(crate) fn call(&self, path: &Path, name: &Path) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.push((path.to_path_buf(), name.to_path_buf()));
    }

    /// The name that the user gave to `path`.
    pub(crate) fn name_of(&self, path: &Path) -> PathBuf {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let found = names.iter().find(|(known, _)| known == path);
        found.map_or(path, |(_, name)| name).to_path_buf()
    }

    /// The error, with the name that the user gave to its file.
    pub(crate) fn told(&self, error: Error) -> Error {
        match error.file_path().map(|path| (path, self.name_of(path))) {
            Some((path, name)) if path != name => error.path(name),
            _ => error,
        }
    }

    /// The settings of `request`. A cancelled run ends waits for object stores.
    ///
    /// # Errors
    /// Invalid settings.
    pub(crate) fn load(&self, request: &ResourcesRequest) -> Result<Resources> {
        let control = Arc::clone(&self.control);
        let request = ResourcesRequest {
            stop: Stop::new(move || control.is_cancelled()),
            ..request.clone()
        };
        Resources::load(&request, &self.environment)
    }

    /// A job of `resources` with scratch on `drives`, watched.
    pub(crate) fn job(&self, resources: &Resources, drives: Vec<ScratchDrive>) -> Job {
        self.watched(resources.job(drives))
    }

    /// The job, watched by this run.
    pub(crate) fn watched(&self, mut job: Job) -> Job {
        job.control = Arc::clone(&self.control);
        job
    }
}

/// Runs `work` and returns its result. `tell` is called with phase, bytes done, bytes in all, bytes
/// read, bytes written, seconds and the slowest drive.
///
/// # Errors
/// The error of `work`, as an exception; the exception of a signal handler or of `tell`.
pub(crate) fn watch<T: Send + 'static>(
    py: Python<'_>,
    tell: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Run) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    // If a signal is already pending, nothing must start.
    py.check_signals()?;
    let run = Run::new();
    let control = Arc::clone(&run.control);
    let (job, mut results) = start(run, work).map_err(|error| errors::raise(py, &error))?;
    let mut watcher = Watcher {
        tell,
        control,
        started: Instant::now(),
        told: Instant::now(),
    };
    let mut stopped_by = None;
    let result = loop {
        match py.detach(|| wait(&mut results)) {
            Ok(result) => break Some(result),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stopped_by.is_none()
            && let Err(exception) = watcher.look(py)
        {
            watcher.control.cancel();
            stopped_by = Some(exception);
        }
    };
    if let Err(panic) = py.detach(|| job.join()) {
        std::panic::resume_unwind(panic);
    }
    for note in watcher.control.take_notes() {
        errors::warn(py, &note)?;
    }
    finish(py, &watcher, result, stopped_by)
}

/// A running job: the receiver of its only message, and its thread.
type Started<T> = (JoinHandle<()>, Receiver<Result<T>>);

fn start<T: Send + 'static>(
    run: Run,
    work: impl FnOnce(&Run) -> Result<T> + Send + 'static,
) -> Result<Started<T>> {
    let (send, results) = channel();
    let job = move || {
        // The send fails only if the caller's thread is gone, and then there is no one to report
        // to.
        let done = run.control.guarded(|| work(&run));
        drop(send.send(done.map_err(|error| run.told(error))));
    };
    Ok((spawn("outcore", job)?, results))
}

/// Waits for a while. No other function uses the receiver, so the receiver may be used while the
/// interpreter is released.
fn wait<T>(results: &mut Receiver<Result<T>>) -> std::result::Result<Result<T>, RecvTimeoutError> {
    results.recv_timeout(LOOK_EVERY)
}

fn finish<T>(
    py: Python<'_>,
    watcher: &Watcher<'_, '_>,
    result: Option<Result<T>>,
    stopped_by: Option<PyErr>,
) -> PyResult<T> {
    let result = result.unwrap_or_else(|| Err(Error::interrupted()));
    // A write that was abandoned because of the signal may have an error of its own.
    let result = match (result, stopped_by.is_some()) {
        (Err(error), true) if error.kind() != Kind::Interrupted => Err(Error::interrupted()),
        (result, _) => result,
    };
    match (result, stopped_by) {
        (result, Some(exception)) => Err(errors::interrupted(py, exception, result.err().as_ref())),
        (Err(error), None) => Err(errors::raise(py, &error)),
        (Ok(value), None) => {
            watcher.tell_phase(py, Some(DONE))?;
            Ok(value)
        }
    }
}

struct Watcher<'a, 'py> {
    tell: Option<&'a Bound<'py, PyAny>>,
    control: Arc<Control>,
    started: Instant,
    told: Instant,
}

impl Watcher<'_, '_> {
    /// Runs pending signal handlers, and reports the progress of the job.
    fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        py.check_signals()?;
        if self.tell.is_some() && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            self.tell_phase(py, None)?;
        }
        Ok(())
    }

    /// Reports the state of the job, with the name `phase` or that of the job's phase.
    fn tell_phase(&self, py: Python<'_>, phase: Option<&str>) -> PyResult<()> {
        let Some(tell) = self.tell else {
            return Ok(());
        };
        let state = self.control.progress();
        let seconds = self.started.elapsed().as_secs_f64();
        tell.call1((
            phase.unwrap_or(&state.phase),
            state.done_bytes,
            state.total_bytes,
            state.read_bytes,
            state.written_bytes,
            seconds,
            state.slowest_drive,
        ))?;
        // Signals that arrived during the function, such as Ctrl-C.
        py.check_signals()
    }
}
