//! The run of a verb on vectors, and options that these verbs share.
//!
//! Contract: outputs that exist or are inputs are rejected before anything is read. Inputs and
//! outputs may be datasets.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::job::OutputPlaces;
use outcore::passes::{JobOption, KeptPasses, PassRequest};
use outcore::{Error, Input, Job, Phase as EnginePhase, Result, ScratchDrive};
use outcore_front::inputs::{self, Streams};
use outcore_front::output::{Holds, NamedOutput, Target, refuse_inputs};
use outcore_front::resources::{Resources, default_scratch_dir};
use outcore_io::output::parent_of;
use outcore_io::units;
use outcore_vector::format::VectorFile;
use outcore_vector::results::Array;

use crate::columns;
use crate::host::{Host, Kept, begin, watch};
use crate::option::{DriveArgs, RunArgs, SEED, resources_request};
use crate::report::{JobSummary, Moved, Stopwatch};
use crate::resumed::{Resuming, check_plain, may_exist, tell_kept};

/// A file of vectors.
#[derive(Debug, Args)]
pub(super) struct VectorInputArgs {
    /// File of vectors
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(super) input: PathBuf,
    #[command(flatten)]
    pub(super) raw: RawArgs,
}

/// The type of raw numbers.
#[derive(Debug, Args)]
pub(super) struct RawArgs {
    /// Type of raw numbers, such as f32x768
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) type_name: Option<String>,
}

impl RawArgs {
    /// The type, if it is given.
    pub(super) fn name(&self) -> Option<&str> {
        self.type_name.as_deref()
    }
}

/// An empty array of distances, which gives the type of a file.
pub(super) const NO_DISTANCES: Array<'static> = Array::Floats {
    numbers: &[],
    wide: false,
};

/// The files of a verb, with the names that the user gave.
#[derive(Debug, Default)]
pub(super) struct Files<'a> {
    pub(super) read: Vec<&'a Path>,
    pub(super) written: Vec<&'a Path>,
    /// Whether a killed run may have left the output.
    pub(super) is_resumed: bool,
}

impl<'a> Files<'a> {
    /// The files among these that are given.
    pub(super) fn of(
        read: impl IntoIterator<Item = Option<&'a Path>>,
        written: impl IntoIterator<Item = Option<&'a Path>>,
    ) -> Self {
        Files {
            read: read.into_iter().flatten().collect(),
            written: written.into_iter().flatten().collect(),
            is_resumed: false,
        }
    }
}

/// A run of a verb on vectors.
pub(super) struct Run<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) job: Job,
    /// Whether outputs may replace files.
    pub(super) force: bool,
    stopwatch: Stopwatch,
    resources: Resources,
    outputs: Vec<Output>,
    kept: Option<KeptRun>,
}

/// A job that keeps its state, and its output.
struct KeptRun {
    passes: KeptPasses,
    target: Target,
}

/// An output: its name, and the path at which it is made.
struct Output {
    name: PathBuf,
    path: PathBuf,
}

impl<'a> Run<'a> {
    /// Rejects an output that is an input, or that exists and may not be replaced. Then reports
    /// that the run begins. A job that may need scratch has it on `drives`, or next to its output
    /// if that place is usable.
    pub(super) fn begin(
        host: &'a dyn Host,
        args: &RunArgs,
        drives: Option<&DriveArgs>,
        Files {
            read,
            written,
            is_resumed,
        }: &Files<'_>,
    ) -> Result<Self> {
        let stopwatch = Stopwatch::start();
        let none = DriveArgs::default();
        let named_drives = drives.unwrap_or(&none);
        let request = resources_request(&args.resources, named_drives, None, SEED)?;
        let resources = host.load(&request)?.measuring(args.plan.explain);
        let may_exist = may_exist(*is_resumed, written.first().copied())?;
        let outputs = settled(host, args.force || may_exist, read, written)?;
        if !is_resumed {
            tell_kept(host, outputs.first().map(|output| output.path.as_path()));
        }
        let written: Vec<&Path> = outputs.iter().map(|output| output.path.as_path()).collect();
        // Directories of tables have no blocks of their own.
        let files: Vec<PathBuf> = read
            .iter()
            .chain(&written)
            .filter(|path| !columns::is_several(path))
            .map(|path| path.to_path_buf())
            .collect();
        let kept = Kept {
            files: &files,
            force: args.force,
            ..Kept::default()
        };
        let resources = host.start(resources, args.record_io.path(), kept)?;
        let output = outputs.first().map(|output| output.name.as_path());
        begin(host, &resources, "vectors", read, output);
        let beside = written.first().or(read.first());
        let beside = parent_of(beside.map_or(Path::new("."), |path| path));
        let job = match drives {
            Some(_) => {
                let mut scratch = resources.named_drives(0)?;
                if scratch.is_empty() {
                    // If there is no place for scratch and the job needs some after all, it fails
                    // with an error that it does not fit in memory.
                    let dir = default_scratch_dir(beside);
                    scratch.extend(dir.ok().map(ScratchDrive::new));
                }
                resources.planned_job(scratch)
            }
            None => resources.pass_job(Vec::new()),
        };
        let mut job = host.adopt(job);
        job.options.outputs =
            OutputPlaces::Files(written.iter().map(|path| path.to_path_buf()).collect());
        if args.plan.explain {
            host.show_plans(&job.control);
        }
        Ok(Run {
            host,
            job,
            force: args.force,
            stopwatch,
            resources,
            outputs,
            kept: None,
        })
    }

    /// Keeps the state of the job, which has these `options` and writes `name`, or continues a
    /// killed run of it.
    ///
    /// # Errors
    /// The errors of [`KeptPasses::begin`].
    pub(super) fn keep_passes(
        &mut self,
        name: &Path,
        read: &[&Path],
        options: Option<Vec<JobOption>>,
    ) -> Result<()> {
        let Some(options) = options else {
            return Ok(());
        };
        check_plain(name)?;
        let output = self.place_of(name).to_path_buf();
        let target = Target::File(output.clone());
        let resuming = Resuming {
            is_asked: true,
            target: &target,
        };
        resuming.begin(self.host);
        let resume = self
            .resources
            .resume_options(self.host.call(), String::new());
        self.job.options.resume = Some(resume);
        let inputs: Vec<Input> = read.iter().map(Input::raw).collect();
        let request = PassRequest {
            output: &output,
            replace: self.force,
            inputs: &inputs,
            options: &options,
        };
        let passes = KeptPasses::begin(&mut self.job, &request);
        let passes = passes.map_err(|error| resuming.explain(self.host, error))?;
        // The result appears when it is published.
        let mut outputs = self.outputs.iter_mut();
        if let Some(output) = outputs.find(|output| output.name == name) {
            output.path = passes.result();
        }
        self.force = true;
        self.kept = Some(KeptRun { passes, target });
        Ok(())
    }

    /// Gives the result its name, if the job keeps its state.
    ///
    /// # Errors
    /// The errors of [`KeptPasses::publish`].
    pub(super) fn publish(&self) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.passes.publish(&self.job),
            None => Ok(()),
        }
    }

    /// Opens a file of vectors; `type_name` is for files without a type of their own.
    pub(super) fn open(&self, path: &Path, type_name: Option<&str>) -> Result<VectorFile> {
        let file = self.open_typed(path, type_name)?;
        // Arrays of a program have types of their own, so the type of raw numbers does not apply to
        // them.
        match self.host.arrays() {
            Some(_) => Ok(file),
            None => file.check_type(type_name),
        }
    }

    /// As [`Run::open`], for a `type_name` that may belong to another file.
    pub(super) fn open_typed(&self, path: &Path, type_name: Option<&str>) -> Result<VectorFile> {
        VectorFile::open_typed(&self.job, path, type_name)
    }

    /// The path at which the output with this name is made.
    pub(super) fn place_of(&self, name: &Path) -> &Path {
        let found = self.outputs.iter().find(|output| output.name == name);
        found.map_or(Path::new(""), |output| &output.path)
    }

    /// Runs `work`, and shows its progress.
    pub(super) fn watch<T>(&self, work: impl FnOnce(&Job) -> Result<T>) -> Result<T> {
        let done = watch(self.host, &self.job.control, &[], || {
            let done = work(&self.job)?;
            self.publish()?;
            Ok(done)
        });
        done.map_err(|error| match &self.kept {
            None => error,
            Some(kept) => {
                let resuming = Resuming {
                    is_asked: true,
                    target: &kept.target,
                };
                resuming.explain(self.host, error)
            }
        })
    }

    /// The cost of the run.
    pub(super) fn used(&self, moved: Moved) -> Result<JobSummary> {
        let trace = self.host.end_trace()?;
        Ok(self.stopwatch.stop(moved, &[], &self.resources, trace))
    }
}

/// The bytes that phases wrote.
pub(super) fn written_by(phases: &[EnginePhase]) -> u64 {
    phases.iter().map(|phase| phase.written_bytes).sum()
}

/// A rate, as all these verbs print it.
pub(super) fn rate_text(bytes: u64, seconds: f64) -> String {
    units::rate_decimal(bytes as f64 / seconds.max(1e-9))
}

/// The outputs. Rejects an output that is an input, or that exists and may not be replaced.
fn settled(host: &dyn Host, force: bool, read: &[&Path], written: &[&Path]) -> Result<Vec<Output>> {
    for path in read {
        // Tables may be several files.
        if !columns::is_several(path) {
            check_input(host, path)?;
        }
    }
    if let Some(stream) = written.iter().find(|name| name.as_os_str() == "-") {
        return Err(
            Error::usage("create output", "vectors do not go to standard output")
                .path(stream)
                .hint("name a file"),
        );
    }
    for name in written.iter().filter(|name| !columns::has_columns(name)) {
        Holds::Vectors.check_name(name)?;
    }
    let outputs = written.iter().map(|name| {
        Ok(Output {
            name: name.to_path_buf(),
            path: host.names().output(name, force)?.into_owned(),
        })
    });
    let outputs: Vec<Output> = outputs.collect::<Result<_>>()?;
    let places = outputs.iter().map(|output| NamedOutput {
        name: &output.name,
        path: &output.path,
    });
    let places: Vec<NamedOutput<'_>> = places.collect();
    refuse_inputs(read, &places)?;
    let paths: Vec<&Path> = places.iter().map(|place| place.path).collect();
    columns::check_not_read_again(read, &paths)?;
    for Output { name, path } in &outputs {
        let (cause, hint) = match (path.is_dir(), path.exists() && !force) {
            (true, _) => ("the output is a directory", "name a file in it"),
            (false, true) => ("it exists", "replace it with --force, or name another file"),
            (false, false) => continue,
        };
        let error = Error::usage("create output", cause);
        return Err(error.path(name).hint(hint));
    }
    Ok(outputs)
}

/// Fails unless `name` is a file or a dataset. From now on, a dataset is a file of the host.
pub(super) fn check_input(host: &dyn Host, name: &Path) -> Result<()> {
    if name.as_os_str() == "-" {
        return Err(
            Error::usage("read vectors", "vectors do not come from standard input")
                .path(name)
                .hint("name a file, which can be read several times"),
        );
    }
    let names = [name.to_path_buf()];
    match inputs::find(&names, Streams::Refused, host.names())?.len() {
        1 => Ok(()),
        _ => Err(Error::usage("read vectors", "it is a list of files")
            .path(name)
            .hint("name one file; combine several files into a dataset, or convert them to one")),
    }
}

/// Fails for options that do not apply to a table, since it has all columns.
pub(super) fn check_table(other: Option<&Path>, edges: bool) -> Result<()> {
    let cause = match (other, edges) {
        (Some(_), _) => "the table has a column of distances, and a row for each result",
        (None, true) => "--edges writes pairs of numbers, but the output is a table",
        (None, false) => return Ok(()),
    };
    Err(Error::usage("read arguments", cause)
        .hint("leave --distances, --limits and --edges out, or end the name of the output in .npy"))
}
