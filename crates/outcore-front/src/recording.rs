//! Records the I/O of a run with the engine's [`RecordingDevice`]; the file is either complete or
//! absent.
//!
//! Contract: [`Recording::start`] rejects names that must not be written, as for an output, and the
//! names of inputs and outputs even when forced. The trace grows in a private directory next to its
//! place. [`Recording::finish`] syncs it and moves it there after the run has succeeded. If the run
//! is killed, the next one removes the directory. Dropping a recording leaves nothing. The format
//! is that of `docs/formats/io-trace.md`.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use outcore::{Error, Result};
use outcore_io::drive::paths;
use outcore_io::drive::recording::{RecordingDevice, TraceAbout, TraceSummary};
use outcore_io::drive::{Device, PrivateDir};
use outcore_io::output::parent_of;
use serde_json::json;

use crate::inputs::{FileKey, Source, is_stdout};
use crate::output::{Target, check_dir_of, exists, file_at};
use crate::resources::Resources;

const OPERATION: &str = "record I/O";
/// The name of the trace while it grows.
const GROWING: &str = "io-trace";

/// Parameters of a recording.
#[derive(Debug, Clone)]
pub struct RecordingRequest<'a> {
    /// The file for the trace, if one is requested.
    pub path: Option<&'a Path>,
    /// Whether an existing one may be replaced.
    pub force: bool,
    /// The inputs of the run.
    pub sources: &'a [Source],
    /// The output of the run.
    pub target: Option<&'a Target>,
    /// Further files that the run reads or writes, if they exist.
    pub files: &'a [PathBuf],
    /// The program and its version.
    pub program: &'a str,
    /// The command line, or the call.
    pub command: Option<String>,
}

/// A run that is being recorded.
pub struct Recording {
    device: Arc<RecordingDevice>,
    files: Arc<dyn Device>,
    private_dir: PrivateDir,
    path: PathBuf,
    force: bool,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Recording");
        text.field("path", &self.path).finish_non_exhaustive()
    }
}

impl Recording {
    /// Starts to record the I/O through the device of `resources`, if a recording is requested.
    /// Returns the same resources with the recording device.
    ///
    /// # Errors
    /// Usage for a name that must not be written; I/O if the trace cannot be created.
    pub fn start(
        resources: Resources,
        request: &RecordingRequest<'_>,
    ) -> Result<(Option<Self>, Resources)> {
        let Some(name) = request.path else {
            return Ok((None, resources));
        };
        let path = place_of(name, request)?;
        let about = TraceAbout {
            program: request.program.to_string(),
            command: request.command.clone(),
            started_unix_ns: unix_ns(),
            job: json!({
                "memory_bytes": resources.config.memory_bytes.value,
                "threads": resources.config.threads.value,
                "io": resources.config.io.value.name(),
            }),
        };
        let files = resources.device();
        let dir = parent_of(&path);
        let make = || {
            files.sweep_private_dirs(dir)?;
            let private_dir = files.make_private_dir(dir)?;
            let growing = private_dir.path().join(GROWING);
            let device = RecordingDevice::create(Arc::clone(&files), &growing, about, false)?;
            Ok((private_dir, Arc::new(device)))
        };
        let (private_dir, device) = make().map_err(|error: Error| error.path(&path))?;
        let resources = resources.on(Arc::clone(&device) as Arc<dyn Device>);
        let recording = Recording {
            device,
            files,
            private_dir,
            path,
            force: request.force,
        };
        Ok((Some(recording), resources))
    }

    /// The final path of the trace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the trace and moves it to its place.
    ///
    /// # Errors
    /// A failure while recording or while moving the file to its place; the trace is then absent.
    pub fn finish(self) -> Result<TraceSummary> {
        let growing = self.private_dir.path().join(GROWING);
        let put = || {
            let done = self.device.finish()?;
            File::open(&growing)
                .and_then(|file| file.sync_all())
                .map_err(|error| Error::io(OPERATION, &error))?;
            self.files.rename(&growing, &self.path, self.force)?;
            Ok(done)
        };
        put().map_err(|error: Error| {
            let hint = match error.next_step() {
                Some(hint) => format!("{hint}; the run itself has succeeded"),
                None => "the run itself has succeeded, only its trace is missing".to_string(),
            };
            error.path(&self.path).hint(hint)
        })
    }
}

/// The file of `name`, if the request may write it.
fn place_of(name: &Path, request: &RecordingRequest<'_>) -> Result<PathBuf> {
    if is_stdout(name) {
        return Err(
            Error::usage(OPERATION, "a trace cannot go to standard output")
                .hint("name a file with --record-io FILE"),
        );
    }
    let path = file_at(OPERATION, name)?;
    check_dir_of(OPERATION, &path)?;
    let written = request.target.into_iter().flat_map(|target| {
        let files = target.files().iter();
        files.chain(target.manifest())
    });
    let at = |path: &Path| -> Option<PathBuf> {
        let dir = paths::real(parent_of(path)).ok()?;
        Some(dir.join(path.file_name()?))
    };
    if written.into_iter().any(|output| at(output) == at(&path)) {
        return Err(
            Error::usage(OPERATION, "the trace has the name of the output")
                .path(&path)
                .hint("give the trace another name"),
        );
    }
    let Ok(facts) = paths::facts(&path) else {
        return Ok(path);
    };
    let key = Some(FileKey::of(&facts));
    let is_it = |file: &PathBuf| paths::key(file) == key;
    if request.sources.iter().any(|source| source.key == key) || request.files.iter().any(is_it) {
        return Err(Error::usage(OPERATION, "the trace is one of the inputs")
            .path(&path)
            .hint("give the trace another name"));
    }
    match request.force {
        true => Ok(path),
        false => Err(exists(OPERATION, &path)),
    }
}

fn unix_ns() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::resources::ResourcesRequest;
    use outcore_io::config::Environment;
    use outcore_io::drive::Access;

    fn request(path: &Path, force: bool) -> RecordingRequest<'_> {
        RecordingRequest {
            path: Some(path),
            force,
            sources: &[],
            target: None,
            files: &[],
            program: "test",
            command: None,
        }
    }

    #[test]
    fn a_trace_is_absent_until_it_is_finished_and_then_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let resources =
            || Resources::load(&ResourcesRequest::default(), &Environment::default()).unwrap();
        let (recording, recorded) = Recording::start(resources(), &request(&path, false)).unwrap();
        let device = recorded.device();
        let file = device.open(&dir.path().join("x"), Access::Create).unwrap();
        device.sync(file).unwrap();
        assert!(!path.exists());
        drop(recording);
        let names = || fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names(), 1, "only x");

        let (recording, recorded) = Recording::start(resources(), &request(&path, false)).unwrap();
        let device = recorded.device();
        let file = device.open(&dir.path().join("x"), Access::Read).unwrap();
        device.sync(file).unwrap();
        let done = recording.unwrap().finish().unwrap();
        assert_eq!(done.requests, 1);
        assert_eq!(fs::metadata(&path).unwrap().len(), done.bytes);
        assert_eq!(names(), 2, "x and the trace");

        let error = Recording::start(resources(), &request(&path, false)).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        drop(Recording::start(resources(), &request(&path, true)).unwrap());
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            done.bytes,
            "still the old one"
        );
    }
}
