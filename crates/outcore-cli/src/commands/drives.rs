//! `outcore drives probe`: measures drives with [`outcore_io::drive::probe`], and writes the
//! results for `--drives`.
//!
//! Contract: the drives file goes to `-o`, or to standard output; the table for people goes to
//! standard error. outcore rejects a file that must not be replaced before it measures anything.
//! Directories are written as absolute paths, so that the file may be anywhere.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::{Error, Result};
use outcore_front::resources::{Resources, check_dir};
use outcore_io::config::DriveSet;
use outcore_io::drive::NewFile;
use outcore_io::drive::probe::{ProbeOptions, ProbeReport, probe};
use outcore_terminal::steps::Steps;
use serde_json::json;

use crate::cli::{DrivesCommand, ProbeArgs, ResourceArgs};
use crate::context::Context;
use crate::measure::{Summary, moved_bytes};
use crate::resources;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &DrivesCommand) -> Result<u8> {
    let DrivesCommand::Probe(args) = command;
    let started = Instant::now();
    let flags = ResourceArgs {
        io: args.io,
        ..ResourceArgs::default()
    };
    let resources = resources::without_drives(&flags)?;
    let output = args.output.as_ref();
    let file = output.map(|path| new_file(path, args.force)).transpose()?;
    let drives = drives_of(&args.dirs)?;
    let report = measure(context, args, &resources, &drives)?;
    for drive in &report.drives {
        context.reporter.event("drive", json!(drive));
    }
    let set = report.drive_set();
    match &file {
        Some(file) => file.write(set.to_text()?)?,
        None => context.reporter.data(&set.to_text()?),
    }
    context.reporter.human(report.to_string().trim_end());
    if let Some(path) = output {
        let text = format!("written to {}; use it with --drives", path.display());
        context.reporter.human(&text);
    }
    let (read_bytes, written_bytes) = moved_bytes();
    let summary = Summary {
        read_bytes,
        written_bytes,
        passes: 1,
        ..Summary::since(started)
    };
    let summary = summary
        .with(
            "output",
            json!(output.map(|path| path.display().to_string())),
        )
        .with("together", json!(report.together))
        .with("groups", json!(set.groups));
    context.reporter.summary(&summary);
    Ok(0)
}

/// The given drives, with absolute directories.
fn drives_of(dirs: &[PathBuf]) -> Result<DriveSet> {
    let mut set = DriveSet::from_arguments(dirs)?;
    for drive in &mut set.drives {
        check_dir("probe drive", &drive.dir)?;
        drive.dir = std::fs::canonicalize(&drive.dir)
            .map_err(|error| Error::io("probe drive", &error).path(&drive.dir))?;
    }
    Ok(set)
}

fn new_file(path: &Path, is_forced: bool) -> Result<NewFile> {
    const WRITE: &str = "write drives file";
    if path.extension().is_none_or(|end| end != "toml") {
        return Err(Error::usage(WRITE, "its name must end in .toml")
            .path(path)
            .hint(
                "give it a name that ends in .toml, such as drives.toml, so that --drives can tell \
                 it from a directory",
            ));
    }
    NewFile::at(WRITE, path, is_forced)
}

fn measure(
    context: &Context,
    args: &ProbeArgs,
    resources: &Resources,
    drives: &DriveSet,
) -> Result<ProbeReport> {
    let reporter = &context.reporter;
    let names: Vec<&str> = drives
        .drives
        .iter()
        .map(|drive| drive.name.as_str())
        .collect();
    reporter.event("begin", json!({"drives": names}));
    let is_cancelled = || context.interrupt.is_set();
    let steps = Steps::new(reporter);
    let show = |step: &str| steps.show(step);
    probe(
        &drives.drives,
        ProbeOptions {
            io: resources.config.io.value,
            file_bytes: args.file_bytes,
            step_seconds: args.step.as_secs_f64(),
            watch: Some(&show),
            is_cancelled: Some(&is_cancelled),
        },
    )
}
