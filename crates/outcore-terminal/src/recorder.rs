//! `--record-io`: the single recording of a run, for every command.
//!
//! Contract: once a command knows its inputs and outputs, it calls [`Recorder::start`] and works
//! with the resources that this returns. Its summary ends the recording and has the facts of the
//! trace ([`Reporter::summary`](crate::report::Reporter::summary)). After everything else,
//! [`Recorder::close`] reports where the trace is, or returns the error that kept it from
//! appearing; by then the run is done and its summary has been printed. A command that fails, or
//! whose reader went away, leaves no trace.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::{Error, Result};
use outcore_front::recording::{Recording, RecordingRequest};
use outcore_front::resources::Resources;
use outcore_io::units;
use outcore_verbs::host::Kept;
use outcore_verbs::report::{IoTrace, Place};

/// The name of this program in the trace.
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

    /// Starts to record, if that is wanted: returns the same resources on a device that records.
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

    /// Publishes the trace; returns its facts for the summary, if there are any.
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
    /// # Errors The reason for a missing trace.
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
