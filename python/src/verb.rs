//! Verbs, run from Python.
//!
//! Contract: [`run_verb`] takes a verb's arguments in words, as the command would, runs it on a
//! thread of its own ([`crate::run`]) and returns its report as a dictionary, with a headline, and
//! arrays. There are no streams. `@name` is a dataset if a volume is given. Plans go to
//! `sys.stderr`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::job::{Control, Job};
use outcore::{Error, Kind, Result};
use outcore_front::Spelling;
use outcore_front::inputs::Streams;
use outcore_front::output::Sink;
use outcore_front::recording::{Recording, RecordingRequest};
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_front::staging::Work;
use outcore_front::volumes::VOLUME_VARIABLE;
use outcore_store::dataset::Watch;
use outcore_verbs::datasets::{DatasetHost, FileNames, Files};
use outcore_verbs::host::{Array, Arrays, Host, Kept, Weight};
use outcore_verbs::kinds::Given;
use outcore_verbs::report::{IoTrace, Place, as_values};
use outcore_verbs::verb::{Inputs, Verb, VerbVisitor, read, read_with_arrays, requires_output};
use outcore_verbs::visit_verbs;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyDict};
use serde::Serialize;
use serde_json::Value;

use crate::errors;
use crate::run::{self, PROGRAM, Run};

/// Runs the verb `name` with some arrays; returns its report, the report in a line, and the
/// resulting arrays by name, with their types and bytes. A table without an output is written to
/// `kept`.
#[pyfunction]
#[pyo3(signature = (name, words, volume, kept, tell, given = None))]
pub(crate) fn run_verb<'py>(
    py: Python<'py>,
    name: &str,
    words: Vec<OsString>,
    volume: Option<PathBuf>,
    kept: Option<PathBuf>,
    tell: Option<&Bound<'py, PyAny>>,
    given: Option<HashMap<String, PyBackedBytes>>,
) -> PyResult<(Bound<'py, PyAny>, String, Bound<'py, PyDict>)> {
    let held = given.map(|given| {
        let taken = Mutex::default();
        Arc::new(HeldArrays { given, taken })
    });
    let mut call = Call {
        py,
        name,
        asked: Asked {
            words,
            volume,
            kept,
            held: held.clone(),
        },
        tell,
        result: None,
    };
    visit_verbs(&mut call);
    let missing = || {
        let error = Error::usage("run verb", format!("there is no verb {name}"));
        Err(errors::raise(py, &error))
    };
    let (report, headline) = call.result.unwrap_or_else(missing)?;
    let arrays = PyDict::new(py);
    for (name, array) in held.iter().flat_map(|held| mem::take(&mut *held.taken())) {
        let bytes = PyByteArray::new(py, array.bytes());
        arrays.set_item(name, (array.dtype(), bytes))?;
    }
    Ok((report, headline, arrays))
}

/// Arrays of a call.
struct HeldArrays {
    given: HashMap<String, PyBackedBytes>,
    taken: Mutex<Vec<(&'static str, Array)>>,
}

impl HeldArrays {
    fn taken(&self) -> MutexGuard<'_, Vec<(&'static str, Array)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrays for HeldArrays {
    fn given(&self, name: &str) -> Option<&[u8]> {
        self.given.get(name).map(|bytes| &**bytes)
    }

    fn take(&self, name: &'static str, array: Array) {
        self.taken().push((name, array));
    }
}

/// A verb's report, and the report in a line.
pub(crate) type Answer<'py> = PyResult<(Bound<'py, PyAny>, String)>;

/// The arguments of a call.
#[derive(Default)]
struct Asked {
    words: Vec<OsString>,
    volume: Option<PathBuf>,
    kept: Option<PathBuf>,
    held: Option<Arc<HeldArrays>>,
}

/// A call of the verb with a name.
struct Call<'a, 'py> {
    py: Python<'py>,
    name: &'a str,
    asked: Asked,
    tell: Option<&'a Bound<'py, PyAny>>,
    result: Option<Answer<'py>>,
}

impl VerbVisitor for Call<'_, '_> {
    fn visit<V: Verb>(&mut self) {
        if self.name == V::NAME {
            let asked = mem::take(&mut self.asked);
            self.result = Some(run_as::<V>(self.py, asked, self.tell));
        }
    }
}

fn run_as<'py, V: Verb>(
    py: Python<'py>,
    asked: Asked,
    tell: Option<&Bound<'py, PyAny>>,
) -> Answer<'py> {
    let Asked {
        mut words,
        volume,
        kept,
        held,
    } = asked;
    let is_named = V::INPUTS == Inputs::Tables || requires_output::<V>();
    if let (true, Some(path)) = (is_named, &kept) {
        let mut word = OsString::from("--output=");
        word.push(path);
        words.insert(0, word);
    }
    let read = match held {
        Some(_) => read_with_arrays::<V>(words),
        None => read::<V>(words),
    };
    let (args, given) = read.map_err(|error| errors::raise(py, &error))?;
    let report = run::watch(py, tell, move |run| {
        let volume = volume.or_else(|| run.environment.get(VOLUME_VARIABLE).map(PathBuf::from));
        let host = Face {
            run,
            given,
            files: Files::new(volume, V::LENDS_DRIVES, run),
            kept,
            held,
            recording: Mutex::default(),
            lost_trace: Mutex::default(),
        };
        let report = V::run(&host, &args)?;
        host.files.finish()?;
        let lost = host.lost_trace.into_inner();
        match lost.unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(report),
        }
    })?;
    let headline = V::headline(&report);
    answer(py, &report, headline)
}

/// A report as a dictionary, and as a line.
pub(crate) fn answer<'py>(
    py: Python<'py>,
    report: &impl Serialize,
    headline: String,
) -> Answer<'py> {
    let report = as_values(|| pythonize::pythonize(py, report))?;
    spell_notes(&report)?;
    Ok((report, headline))
}

/// Writes the options in the notes of a report in Python's form.
fn spell_notes(report: &Bound<'_, PyAny>) -> PyResult<()> {
    let Ok(notes) = report.get_item("notes") else {
        return Ok(());
    };
    let notes: Vec<String> = notes.extract()?;
    let notes = notes.iter().map(|note| Spelling::Python.text(note));
    report.set_item("notes", notes.collect::<Vec<_>>())
}

/// Prints a plan on `sys.stderr`.
fn print(plan: &dyn Display) {
    Python::attach(|py| {
        let stderr = py.import("sys").and_then(|sys| sys.getattr("stderr"));
        // A program without standard error cannot show the plan.
        let _ = stderr.and_then(|stderr| stderr.call_method1("write", (format!("{plan}\n"),)));
    });
}

/// The services that a verb needs from Python.
struct Face<'r> {
    run: &'r Run,
    given: Given,
    files: Files<&'r Run>,
    kept: Option<PathBuf>,
    held: Option<Arc<HeldArrays>>,
    recording: Mutex<Option<Recording>>,
    /// The reason for a missing trace, which is reported once the results are stored.
    lost_trace: Mutex<Option<Error>>,
}

impl DatasetHost for &Run {
    fn resources(&self) -> Result<Resources> {
        self.load(&ResourcesRequest::default())
    }

    fn call(&self, path: &Path, name: &Path) {
        Run::call(self, path, name);
    }

    fn note(&self, text: &str) {
        self.control.note(text.to_owned());
    }

    fn copy(&self, bytes: u64, work: &Work<'_>) -> Result<()> {
        self.control.begin_phase("copy", bytes);
        let done = work(Watch {
            check: &|| self.control.check(),
            advance: &|bytes| self.control.advance(bytes),
            throttle: None,
        });
        // The wish to stop counts, and not its consequences.
        done.map_err(|error| match error.kind() {
            Kind::Interrupted => error,
            _ => self.control.check().err().unwrap_or(error),
        })
    }
}

impl Host for Face<'_> {
    fn given(&self) -> &Given {
        &self.given
    }

    fn names(&self) -> &dyn FileNames {
        &self.files
    }

    fn arrays(&self) -> Option<&dyn Arrays> {
        self.held.as_deref().map(|held| held as &dyn Arrays)
    }

    fn call(&self) -> String {
        "the same call of Python, with resume=True".to_owned()
    }

    fn streams(&self) -> Streams {
        Streams::Refused
    }

    fn kept_table(&self) -> Option<&Path> {
        self.kept.as_deref()
    }

    fn open_pipe(&self, _path: Option<&Path>, _control: &Arc<Control>) -> Result<Sink> {
        Err(Error::usage("create output", "it is not a regular file").hint("write a file"))
    }

    fn name_of(&self, path: &Path) -> PathBuf {
        self.run.name_of(path)
    }

    fn load(&self, request: &ResourcesRequest) -> Result<Resources> {
        let resources = self.run.load(request)?;
        self.files.set(&resources);
        Ok(resources)
    }

    fn record(
        &self,
        resources: Resources,
        trace: Option<&Path>,
        kept: Kept<'_>,
    ) -> Result<Resources> {
        let request = RecordingRequest {
            path: trace,
            force: kept.force,
            sources: kept.sources,
            target: kept.target,
            files: kept.files,
            program: PROGRAM,
            command: None,
        };
        let (recording, resources) = Recording::start(resources, &request)?;
        *self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = recording;
        Ok(resources)
    }

    fn end_trace(&self) -> Result<Option<IoTrace>> {
        let mut recording = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(recording) = recording.take() else {
            return Ok(None);
        };
        let path = Place(self.run.name_of(recording.path()));
        match recording.finish() {
            Ok(done) => Ok(Some(IoTrace {
                path,
                requests: done.requests,
                bytes: done.bytes,
            })),
            Err(error) => {
                let mut lost = self
                    .lost_trace
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *lost = Some(error);
                Ok(None)
            }
        }
    }

    fn begin(&self, _fields: Value) {}

    fn note(&self, text: &str) {
        self.run.control.note(text.to_owned());
    }

    fn say(&self, line: &str) {
        print(&line);
    }

    fn remark(&self, _text: &str) {}

    fn show_plan(&self, plan: &dyn Display) {
        print(plan);
    }

    // If the user asked only for the plan, the report has it.
    fn print_plan(&self, _plan: &dyn Display, _fields: Value) {}

    fn show_plans(&self, control: &Control) {
        control.on_plan(|plan| print(plan));
    }

    fn adopt(&self, job: Job) -> Job {
        self.run.watched(job)
    }

    fn do_watched(
        &self,
        _control: &Control,
        _weights: &[Weight],
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        work()
    }
}
