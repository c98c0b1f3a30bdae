//! `--record-io`: the one recording of a run, whatever the command.
//!
//! Contract: a command that has settled what it reads and writes calls [`Recorder::start`] and
//! works with the means that it gives. Its summary ends the recording and has the facts of the
//! trace ([`Reporter::summary`](crate::report::Reporter::summary)); [`Recorder::close`] says where
//! the trace is, after everything else, or gives the error that kept it from appearing: the run is
//! done then, and its summary has been told. A command that fails, or whose reader went away,
//! leaves no trace.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::{Error, Result};
use outcore_front::recording::{Recording, RecordingRequest};
use outcore_front::resources::Resources;
use outcore_io::units;
use outcore_verbs::host::Kept;
use outcore_verbs::report::{IoTrace, Place};

/// Says in the trace who made it.
const PROGRAM: &str = concat!("outcore ", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Default)]
enum State {
    #[default]
    Nothing,
    Running(Recording),
    Finished(IoTrace),
    Failed(Error),
}

/// The trace that is recorded, if there is one.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<State>>);

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to record, if that is wanted: gives the same means on a device that records.
    pub fn start(
        &self,
        resources: Resources,
        path: Option<&Path>,
        kept: Kept<'_>,
    ) -> Result<Resources> {
        let words: Vec<String> = std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let request = RecordingRequest {
            path,
            force: kept.force,
            sources: kept.sources,
            target: kept.target,
            files: kept.files,
            program: PROGRAM,
            command: Some(words.join(" ")),
        };
        let (recording, resources) = Recording::start(resources, &request)?;
        if let Some(recording) = recording {
            *self.lock() = State::Running(recording);
        }
        Ok(resources)
    }

    /// Puts the trace in its place; its facts for the summary, if there are any.
    pub fn finish(&self) -> Option<IoTrace> {
        let mut state = self.lock();
        let State::Running(recording) = std::mem::take(&mut *state) else {
            return None;
        };
        let path = Place(recording.path().to_path_buf());
        match recording.finish() {
            Ok(done) => {
                let facts = IoTrace {
                    path,
                    requests: done.requests,
                    bytes: done.bytes,
                };
                *state = State::Finished(facts.clone());
                Some(facts)
            }
            Err(error) => {
                *state = State::Failed(error);
                None
            }
        }
    }

    /// The note about the trace, if there is one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn close(&self) -> Result<Option<String>> {
        match std::mem::take(&mut *self.lock()) {
            State::Nothing | State::Running(_) => Ok(None),
            State::Failed(error) => Err(error),
            State::Finished(trace) => {
                let requests = units::counted(trace.requests, "request");
                let path = trace.path.0.display();
                Ok(Some(format!("  I/O recorded in {path}: {requests}")))
            }
        }
    }
}
