//! The host that runs a verb, as the verb sees it: names of files, progress, messages.
//!
//! Contract: the command and Python each implement [`Host`]. For a verb, the two differ only in
//! whether there are streams. A verb first makes all checks that need no work, then calls
//! [`Host::start`], works inside [`watch`], and ends with [`Host::end_trace`].

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::job::{Control, Job, OutputPlaces};
use outcore::runs::SortedView;
use outcore::{Error, Result};
use outcore_front::inputs::{self, Source, Streams, is_stdout};
use outcore_front::output::{Sink, Target, file_or_pipe};
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_front::what::{Asked, What};
use serde_json::{Value, json};

use crate::datasets::FileNames;
use crate::kinds::Given;
use crate::report::IoTrace;

/// A phase and its share of the whole job's time.
pub type Weight = (&'static str, f64);

/// Files that a trace must not replace.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kept<'a> {
    /// Inputs of the run.
    pub sources: &'a [Source],
    /// Its output.
    pub target: Option<&'a Target>,
    /// Other files that the run reads or writes.
    pub files: &'a [PathBuf],
    /// Whether a trace that exists may be replaced.
    pub force: bool,
}

/// A view that is to be served as a file.
#[allow(missing_debug_implementations, reason = "a view has none")]
pub struct Mounted<'a> {
    /// The view.
    pub view: SortedView,
    /// An empty directory.
    pub mountpoint: &'a Path,
    /// The name of the file in it.
    pub name: &'a str,
    /// Whether reads bypass the page cache.
    pub is_direct: bool,
    /// Threads that merge.
    pub threads: usize,
}

/// Arrays in the memory of a program: inputs of a verb, or its results.
pub trait Arrays {
    /// The given array with this name, in the byte order of this machine.
    fn given(&self, name: &str) -> Option<&[u8]>;

    /// Takes a result.
    fn take(&self, name: &'static str, array: Array);
}

/// An array of numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Numbers of 32 bits.
    U32(Vec<u32>),
    /// Numbers of 64 bits.
    U64(Vec<u64>),
    /// Signed numbers of 64 bits.
    I64(Vec<i64>),
    /// Floats of 64 bits.
    F64(Vec<f64>),
}

impl Array {
    /// Its type, as NumPy calls it.
    pub fn dtype(&self) -> &'static str {
        match self {
            Array::U32(_) => "=u4",
            Array::U64(_) => "=u8",
            Array::I64(_) => "=i8",
            Array::F64(_) => "=f8",
        }
    }

    /// Its bytes, in the byte order of this machine.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Array::U32(numbers) => bytemuck::cast_slice(numbers),
            Array::U64(numbers) => bytemuck::cast_slice(numbers),
            Array::I64(numbers) => bytemuck::cast_slice(numbers),
            Array::F64(numbers) => bytemuck::cast_slice(numbers),
        }
    }
}

/// Work in steps. Before each step, it passes the name of the step to the given function.
pub type StepWork<'a> = dyn FnMut(&(dyn Fn(&str) + Sync)) -> Result<()> + 'a;

/// See the module.
pub trait Host {
    /// The options that were given.
    fn given(&self) -> &Given;

    /// The meaning of the names of inputs and outputs.
    fn names(&self) -> &dyn FileNames;

    /// Serves a view as a file until it is unmounted or the user stops it.
    ///
    /// # Errors
    /// It cannot be mounted; this host serves nothing.
    fn mount(&self, _mounted: Mounted<'_>) -> Result<()> {
        Err(Error::usage("mount view", "only the command serves views")
            .hint("start `outcore view mount`"))
    }

    /// The arrays of a program, which receives results without an output in this way.
    fn arrays(&self) -> Option<&dyn Arrays> {
        None
    }

    /// Whether inputs and outputs may be streams.
    fn streams(&self) -> Streams;

    /// The file for a table without an output; nothing if such a table goes to standard output.
    fn kept_table(&self) -> Option<&Path> {
        None
    }

    /// Opens the pipe at `path`, or standard output, for a job that `control` can stop.
    ///
    /// # Errors
    /// It cannot be written; this host has no streams.
    fn open_pipe(&self, path: Option<&Path>, control: &Arc<Control>) -> Result<Sink>;

    /// The name that the user gave to the file at `path`.
    fn name_of(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }

    /// The resources of a job, without the datasets that it names.
    ///
    /// # Errors
    /// As [`Resources::load`].
    fn load(&self, request: &ResourcesRequest) -> Result<Resources>;

    /// These resources on a device that records the I/O, if the user wants a `trace`.
    ///
    /// # Errors
    /// A trace that must not be written.
    fn record(
        &self,
        resources: Resources,
        trace: Option<&Path>,
        kept: Kept<'_>,
    ) -> Result<Resources>;

    /// Publishes the trace, if one is recorded.
    ///
    /// # Errors
    /// The trace cannot be written; it is then absent.
    fn end_trace(&self) -> Result<Option<IoTrace>>;

    /// Reports the job before it begins.
    fn begin(&self, fields: Value);

    /// Reports an item of a verb's list: an event of this name, or a line of data.
    fn item(&self, _event: &str, _fields: Value, _line: &str) {}

    /// Reports a note that the user should see, and that is not an error.
    fn note(&self, text: &str);

    /// Reports how an input was read, if nothing was lost; the report also has this note.
    fn remark(&self, text: &str) {
        self.note(text);
    }

    /// Prints a line for people.
    fn say(&self, line: &str);

    /// Prints a line for users who asked for more.
    fn detail(&self, _line: &str) {}

    /// Whether the output is a terminal, or the user asked for more.
    fn has_watchers(&self) -> bool {
        false
    }

    /// The width in columns of the terminal on standard output; `None` if standard output is not a
    /// terminal.
    fn terminal_columns(&self) -> Option<usize> {
        None
    }

    /// Whether a result without a file is printed; otherwise the report has it.
    fn prints(&self) -> bool {
        false
    }

    /// Whether the user called the program by the name of GNU `sort`.
    fn is_gnu(&self) -> bool {
        false
    }

    /// The call of the verb, as the user would repeat it.
    fn call(&self) -> String {
        String::new()
    }

    /// Shows a plan.
    fn show_plan(&self, plan: &dyn Display);

    /// Prints a plan for a user who asked for nothing else; `fields` has the plan for programs.
    fn print_plan(&self, plan: &dyn Display, fields: Value);

    /// Shows each plan of the job of `control` as soon as it is made.
    fn show_plans(&self, control: &Control);

    /// Fails once the user asks to stop; for work that is done before there is a job.
    ///
    /// # Errors
    /// [`outcore::Kind::Interrupted`].
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// A job that this host watches and can stop.
    fn adopt(&self, job: Job) -> Job {
        job
    }

    /// Does `work`, shows its progress, and stops it at the user's request.
    ///
    /// # Errors
    /// The errors of `work`; [`outcore::Kind::Interrupted`].
    fn do_watched(
        &self,
        control: &Control,
        weights: &[Weight],
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()>;

    /// Does `work`, and shows the name of each step that `work` reports.
    ///
    /// # Errors
    /// The errors of `work`.
    fn do_in_steps(&self, work: &mut StepWork<'_>) -> Result<()> {
        work(&|_| ())
    }

    /// The resources of the job, once all its inputs and outputs are named.
    ///
    /// # Errors
    /// The volume cannot be opened; a trace that must not be written; more inputs than the memory
    /// has room for.
    fn start(
        &self,
        resources: Resources,
        trace: Option<&Path>,
        kept: Kept<'_>,
    ) -> Result<Resources> {
        resources.expect(kept.sources);
        let resources = resources.holding_inputs(kept.sources.len())?;
        let resources = self.names().add_to(resources)?;
        let outputs = kept.target.map_or(OutputPlaces::Unknown, Target::places);
        let resources = resources.placed(kept.sources, outputs);
        let trace = trace.map(|name| self.names().output(name, kept.force));
        let trace = trace.transpose()?;
        self.record(resources, trace.as_deref(), kept)
    }

    /// The kind of the input that `asked` describes.
    ///
    /// # Errors
    /// As [`Asked::what`].
    fn what(&self, asked: Asked<'_>) -> Result<What> {
        asked.what(self.names())
    }

    /// Fails for an option that does not apply to inputs of the kind `what`, which `asked` has
    /// determined.
    ///
    /// # Errors
    /// Usage, with the option's name.
    fn check_options(&self, what: What, asked: Asked<'_>) -> Result<()> {
        let mut fits = self.given().applies_to(what);
        if fits.is_err() && what.is_table() {
            // Tables of several formats form one input.
            let mut kinds = vec![what];
            for input in asked.inputs.iter().skip(1) {
                let inputs = std::slice::from_ref(input);
                kinds.push(match self.what(Asked { inputs, ..asked })? {
                    What::Csv => What::CsvTable,
                    What::JsonLines => What::JsonTable,
                    found => found,
                });
            }
            fits = self.given().applies_to_one_of(&kinds);
        }
        if let (Err(_), Some(first)) = (&fits, asked.inputs.first()) {
            // A missing file is reported before options that do not fit its name.
            inputs::find(std::slice::from_ref(first), self.streams(), self.names())?;
        }
        fits
    }
}

/// Reports that a job on inputs of this type begins.
pub(crate) fn begin(
    host: &dyn Host,
    resources: &Resources,
    kind: &str,
    inputs: &[&Path],
    output: Option<&Path>,
) {
    let name = |path: &Path| path.display().to_string();
    host.begin(json!({
        "inputs": inputs.iter().map(|path| name(path)).collect::<Vec<_>>(),
        "output": output.map(name),
        "type": kind,
        "memory_bytes": resources.config.memory_bytes.value,
        "threads": resources.config.threads.value,
        "io": resources.config.io.value.name(),
    }));
}

/// Whether a job failed because the reader of a pipe went away: nothing else gives this error.
pub fn is_closed(error: &Error) -> bool {
    error.raw_errno() == Some(rustix::io::Errno::PIPE.raw_os_error())
}

/// Fails if `name` means standard output, for a result that is not a stream.
pub(crate) fn refuse_stdout(name: &Path, cause: &'static str) -> Result<()> {
    let is_pipe = || matches!(file_or_pipe(name, Streams::Taken), Ok(Target::Pipe(_)));
    let what = match is_stdout(name) {
        true => "standard output".to_owned(),
        false if is_pipe() => name.display().to_string(),
        false => return Ok(()),
    };
    Err(
        Error::usage("create output", format!("{cause}, and {what} is a stream"))
            .hint("name a place on a drive with -o"),
    )
}

/// Fails if a result that is not a table needs a file and none is given: this host has no standard
/// output.
///
/// # Errors
/// Usage.
pub(crate) fn check_output_named(host: &dyn Host) -> Result<()> {
    match host.streams() {
        Streams::Taken => Ok(()),
        Streams::Refused => Err(Error::usage("create output", "no output is given")
            .hint("name the output: dst=...; only tables are kept without an output")),
    }
}

/// The result of `work`, which `host` watches.
///
/// # Errors
/// The errors of `work`; [`outcore::Kind::Interrupted`].
pub fn watch<T>(
    host: &dyn Host,
    control: &Control,
    weights: &[Weight],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let (mut work, mut done) = (Some(work), None);
    host.do_watched(control, weights, &mut || {
        if let Some(work) = work.take() {
            done = Some(work()?);
        }
        Ok(())
    })?;
    done.ok_or_else(Error::interrupted)
}
