//! Vectors: files of them converted, searched and clustered.
//!
//! Contract: thin over [`outcore_vector`]. Each command settles its files, then works with a
//! [`Run`] on them: outputs that exist or are inputs are refused before anything is read.

mod files;
mod kmeans;
mod knn;
mod range;

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::{Error, Job, Phase, Result, ScratchDrive};
use outcore_front::inputs::{self, Streams};
use outcore_front::output::refuse_inputs;
use outcore_front::resources::default_scratch_dir;
use outcore_io::output::parent_of;
use outcore_vector::format::VectorFile;
use outcore_vector::results::Array;
use serde_json::json;

use super::table;
use crate::cli::DriveArgs;
use crate::cli::vectors::VectorRunArgs;
use crate::context::Context;
use crate::measure::{Summary, phases_json};
use crate::progress::watch;
use crate::resources;
use outcore_verbs::host::Kept;

pub(crate) use files::run as vector;
pub(crate) use kmeans::kmeans;
pub(crate) use knn::knn;

/// An array of distances, to say what a file will hold.
const NO_DISTANCES: Array<'static> = Array::Floats {
    numbers: &[],
    wide: false,
};

/// A run of a command on vectors.
struct Run<'a> {
    context: &'a Context,
    started: Instant,
    job: Job,
    is_explained: bool,
    /// Whether outputs may replace files.
    force: bool,
    /// Outputs as they were named, and where they are made.
    outputs: Vec<(PathBuf, PathBuf)>,
}

impl<'a> Run<'a> {
    /// Checks that no output is an input or exists without leave, and says that the run begins.
    /// Inputs and outputs may be datasets.
    fn begin(
        context: &'a Context,
        args: &VectorRunArgs,
        files: (&[&Path], &[&Path]),
    ) -> Result<Self> {
        Self::begin_on(context, args, None, files)
    }

    /// The same for a job that may need scratch: on the drives that are named, or beside its output
    /// if that will do.
    fn begin_on(
        context: &'a Context,
        args: &VectorRunArgs,
        drives: Option<&DriveArgs>,
        (read, written): (&[&Path], &[&Path]),
    ) -> Result<Self> {
        let started = Instant::now();
        for path in read {
            // Tables may be several files.
            if !table::is_several(path) {
                check_input(context, path)?;
            }
        }
        if let Some(stream) = written.iter().find(|name| name.as_os_str() == "-") {
            return Err(
                Error::usage("create output", "vectors do not go to standard output")
                    .path(stream)
                    .hint("name a file"),
            );
        }
        let outputs = written.iter().map(|name| {
            let path = context.files.output(name, args.force)?;
            Ok((name.to_path_buf(), path.into_owned()))
        });
        let outputs: Vec<(PathBuf, PathBuf)> = outputs.collect::<Result<_>>()?;
        let written: Vec<&Path> = outputs.iter().map(|(_, path)| path.as_path()).collect();
        let places: Vec<(&Path, &Path)> = outputs
            .iter()
            .map(|(name, path)| (name.as_path(), path.as_path()))
            .collect();
        refuse_inputs(read, &places)?;
        table::check_not_read_again(read.iter().copied(), &written)?;
        if let Some((name, _)) = places.iter().find(|(_, path)| path.is_dir()) {
            return Err(Error::usage("create output", "the output is a directory")
                .path(name)
                .hint("name a file in it"));
        }
        if let Some((name, _)) = places.iter().find(|(_, path)| path.exists() && !args.force) {
            return Err(Error::usage("create output", "it exists")
                .path(name)
                .hint("replace it with --force, or name another file"));
        }
        let resources = match drives {
            Some(drives) => resources::load(&args.resources, drives, None, resources::SEED)?,
            None => resources::without_drives(&args.resources)?,
        };
        // Directories of tables have no blocks of their own.
        let files: Vec<PathBuf> = read
            .iter()
            .chain(&written)
            .filter(|path| !table::is_several(path))
            .map(|path| path.to_path_buf())
            .collect();
        let kept = Kept {
            files: &files,
            force: args.force,
            ..Kept::default()
        };
        let resources = resources.measuring(args.plan.explain);
        let resources = context.start(resources, &args.record_io, kept)?;
        let names = |paths: &[&Path]| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        let beside = written
            .first()
            .or(read.first())
            .map_or(Path::new("."), |path| path);
        context.reporter.event(
            "begin",
            json!({
                "inputs": names(read),
                "output": outputs.first().map(|(name, _)| name.display().to_string()),
                "type": "vectors",
                "memory_bytes": resources.config.memory_bytes.value,
                "threads": resources.config.threads.value,
                "io": resources.config.io.value.name(),
            }),
        );
        let job = match drives {
            Some(_) => {
                let mut scratch = resources.named_drives(0)?;
                if scratch.is_empty() {
                    // Without a place for it, a job that turns out to need scratch says that it
                    // does not fit.
                    let dir = default_scratch_dir(parent_of(beside));
                    scratch.extend(dir.ok().map(ScratchDrive::new));
                }
                resources.planned_job(scratch, parent_of(beside))
            }
            None => resources.job_at(Vec::new(), parent_of(beside)),
        };
        if args.plan.explain {
            context.reporter.show_plans(&job.control);
        }
        Ok(Run {
            context,
            started,
            job,
            is_explained: args.plan.explain,
            force: args.force,
            outputs,
        })
    }

    /// Opens a file of vectors; `type_name` is for those that do not tell their type.
    fn open(&self, path: &Path, type_name: Option<&str>) -> Result<VectorFile> {
        VectorFile::open_typed(&self.job, path, type_name)?.check_type(type_name)
    }

    /// Where an output is made that was named so.
    fn place_of(&self, name: &Path) -> &Path {
        let found = self.outputs.iter().find(|(known, _)| known == name);
        found.map_or(Path::new(""), |(_, path)| path)
    }

    /// Works while progress is shown.
    fn watch<T>(&self, work: impl FnOnce(&Job) -> Result<T>) -> Result<T> {
        let (reporter, interrupt) = (&self.context.reporter, &self.context.interrupt);
        watch(reporter, interrupt, &self.job.control, &[], || {
            work(&self.job)
        })
    }

    /// Shows phases beside what was planned of them, to those who asked.
    fn phases(&self, phases: &[Phase]) {
        self.context.reporter.phases(phases, self.is_explained);
    }

    /// What every command says of itself in the end.
    fn summary(&self, records: u64, read_bytes: u64, passes: u32, phases: &[Phase]) -> Summary {
        let summary = Summary {
            records,
            read_bytes,
            passes,
            seconds: self.started.elapsed().as_secs_f64(),
            ..Summary::default()
        };
        summary.with("phases", phases_json(phases))
    }
}

/// Fails unless `name` is a file or a dataset; a dataset is from now on a file of the context.
fn check_input(context: &Context, name: &Path) -> Result<()> {
    if name.as_os_str() == "-" {
        return Err(
            Error::usage("read vectors", "vectors do not come from standard input")
                .path(name)
                .hint("name a file, which can be read several times"),
        );
    }
    let names = [name.to_path_buf()];
    match inputs::find(&names, Streams::Refused, &context.files)?.len() {
        1 => Ok(()),
        _ => Err(Error::usage("read vectors", "it is a list of files")
            .path(name)
            .hint("name one file; put what lies in several into a dataset, or convert it")),
    }
}

/// Fails for options that a table has no use for, since it has all columns.
fn check_table(other: Option<&Path>, edges: bool) -> Result<()> {
    let cause = match (other, edges) {
        (Some(_), _) => "the table has a column of distances, and a row for each result",
        (None, true) => "--edges writes pairs of numbers, and the output is a table",
        (None, false) => return Ok(()),
    };
    Err(Error::usage("read arguments", cause)
        .hint("leave --distances, --limits and --edges out, or end the name of the output in .npy"))
}
