//! The run of a verb on tables, from the request to the report.
//!
//! Contract: as in [`super`]. The output is never an input, unless the user asks for that. It is
//! never a file that the next run would read as an input.

use std::path::{Path, PathBuf};

use outcore::read::text_kind::TextKind;
use outcore::{Error, Job, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{Source, is_stdout};
use outcore_front::output::{Consent, Holds, Target, check_replaced, check_terminal, is_stream};
use outcore_front::resources::{Resources, default_scratch_dir};
use outcore_front::staging::sealed_error;
use outcore_front::text::output::PlainFor;
use outcore_io::drive::paths;
use outcore_table::input::check_not_read_again;
use outcore_table::jobs::TableEnds;
use outcore_table::output::{FileRows, OutputOptions, TableStream, list_of};
use serde_json::json;

use super::inputs::{explain_no_input, is_stdin, reads, unpacked};
use super::outputs::{
    Outputs, check_inputs_kept, check_is_no_dataset_read, outputs_of, sources_of,
};
use super::report::{self, Done};
use super::request::Request;
use crate::host::{Host, Kept, watch};
use crate::report::{JobSummary, Stopwatch, WriteSummary};
use crate::resumed::{Resuming, refuse_copies, refused};
use crate::scratch::{note_scratch, scratch_drives};

/// A finished job.
#[derive(Debug)]
pub struct Ran<T> {
    /// The part of the report that all jobs on tables share.
    pub report: WriteSummary,
    /// The engine's result.
    pub done: T,
}

/// Runs `work` from the inputs of `request` to its output.
///
/// # Errors
/// Usage; the errors of `work`.
pub fn run<T: Done>(
    host: &dyn Host,
    request: &Request<'_>,
    resources: Resources,
    work: impl FnOnce(&Job, &TableEnds<'_>) -> Result<T>,
) -> Result<Ran<T>> {
    let outputs = outputs_of(host, request)?;
    run_with(host, request, resources, outputs, work)
}

/// As [`run`], with several files in place of the output, and this many rows in each file.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_to<T: Done>(
    host: &dyn Host,
    request: &Request<'_>,
    resources: Resources,
    files: &[PathBuf],
    file_rows: FileRows,
    work: impl FnOnce(&Job, &TableEnds<'_>) -> Result<T>,
) -> Result<Ran<T>> {
    let mut outputs = outputs_of(host, request)?;
    let names = files
        .iter()
        .map(|name| host.names().output(name, request.force));
    outputs.files = names
        .map(|name| name.map(std::borrow::Cow::into_owned))
        .collect::<Result<_>>()?;
    outputs.writes.files = file_rows;
    run_with(host, request, resources, outputs, work)
}

/// Fails for outputs that are inputs, or that the next run would read with them. If `directory` is
/// given, the error names it, because the user does not know the files in it.
fn check_not_inputs(
    request: &Request<'_>,
    sources: &[Source],
    outputs: &[PathBuf],
    directory: Option<&Path>,
) -> Result<()> {
    check_is_no_dataset_read(sources, request.output)?;
    let mut sealed = sources.iter().filter(|source| source.is_sealed());
    if let Some(dataset) = sealed.next().filter(|_| request.replace) {
        return Err(sealed_error(&dataset.name));
    }
    let kept = check_inputs_kept(sources, request.inputs, outputs, request.replace);
    kept.map_err(|error| match directory {
        Some(dir) => Error::usage("create output", "one of its files is an input")
            .path(dir)
            .hint("name another directory"),
        None => error,
    })?;
    let new: Vec<&Path> = outputs.iter().map(PathBuf::as_path).collect();
    let again = check_not_read_again(request.inputs.iter().map(PathBuf::as_path), &new);
    again.map_err(|error| match directory {
        Some(dir) => error.path(dir),
        None => error,
    })
}

/// As [`run`], with these outputs, or without any.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_with<T: Done>(
    host: &dyn Host,
    request: &Request<'_>,
    resources: Resources,
    outputs: Outputs,
    work: impl FnOnce(&Job, &TableEnds<'_>) -> Result<T>,
) -> Result<Ran<T>> {
    let stopwatch = Stopwatch::start();
    let Outputs {
        files: mut outputs,
        mut writes,
    } = outputs;
    let sources = sources_of(host, request.inputs)?;
    check_not_inputs(request, &sources, &outputs, writes.directory.as_deref())?;
    if let Some(list) = list_of(&outputs, writes.directory.as_deref()) {
        check_replaced(&list, &outputs, &sources)?;
    }
    writes.is_replacing = request.force || request.replace;
    if request.keeps_journal {
        check_resume(request, &sources, &outputs, &writes)?;
    }
    let target = target_of(request, &mut outputs, &writes)?;
    resources.named_drives(0)?;
    let resources = resources.measuring(request.is_explained);
    let kept = Kept {
        sources: &sources,
        target: Some(&target),
        force: request.force,
        ..Kept::default()
    };
    let resources = host.start(resources, request.record_io.path(), kept)?;
    let stored_bytes = stored_bytes(request.inputs, &sources)?;
    let is_unknown = request.inputs.iter().any(|name| is_stdin(name));
    let scratch_bytes = match is_unknown {
        true => stored_bytes.max(resources.config.memory_bytes.value),
        false => stored_bytes,
    };
    let drives = scratch_drives(&resources, &target, scratch_bytes)?;
    let resuming = Resuming {
        is_asked: request.keeps_journal,
        target: &target,
    };
    resuming.begin(host);
    let mut job = host.adopt(resources.planned_job(drives));
    if request.keeps_journal {
        job.options.resume = Some(resources.resume_options(host.call(), String::new()));
    }
    note_scratch(host, &resources, &target, &job);
    if request.is_explained {
        host.show_plans(&job.control);
    }
    let inputs: Vec<String> = request
        .inputs
        .iter()
        .map(|name| name.display().to_string())
        .collect();
    host.begin(json!({
        "inputs": inputs,
        "output": request.output.map(|name| name.display().to_string()),
        "type": "table",
        "data_bytes": stored_bytes,
        "memory_bytes": resources.config.memory_bytes.value,
        "threads": resources.config.threads.value,
        "io": resources.config.io.value.name(),
    }));
    let mut reads = reads(request.tables, request.text);
    let (copies, spool) = unpacked(
        host,
        &job,
        &resources,
        request.inputs,
        request.text.kind,
        &target.dir(),
    )?;
    if spool.is_some() && request.keeps_journal {
        return Err(copied());
    }
    reads.copies = copies;
    if let Target::Pipe(path) = &target {
        let stream = host.open_pipe(path.as_deref(), &job.control)?;
        writes.stream = Some(TableStream::new(stream, target.name().to_path_buf()));
    }
    let ends = TableEnds {
        inputs: request.inputs,
        reads: &reads,
        outputs: &outputs,
        writes: &writes,
    };
    let done = watch(host, &job.control, &[], || work(&job, &ends));
    let explained = |error| {
        resuming.explain(
            host,
            explain_no_input(host, request.inputs, request.tables, error),
        )
    };
    let done = done.map_err(explained)?;
    let mut notes = request.text.take_remarks();
    notes.iter().for_each(|remark| host.remark(remark));
    let lost = request.text.take_notes();
    lost.iter().for_each(|note| host.note(note));
    notes.extend(lost);
    let used = stopwatch.stop(done.moved(), &[], &resources, host.end_trace()?);
    Ok(Ran::new(done, request.output, stored_bytes, used, notes))
}

/// The destination of `outputs`. For a stream, `outputs` gets a path that determines the place of
/// scratch.
fn target_of(
    request: &Request<'_>,
    outputs: &mut Vec<PathBuf>,
    writes: &OutputOptions,
) -> Result<Target> {
    Ok(match outputs.as_slice() {
        // Scratch needs a place, even if nothing is written.
        [] => Target::File(PathBuf::from("differences")),
        [path] if is_stdout(path) || is_stream(path) => {
            let stream = (!is_stdout(path)).then(|| path.clone());
            let target = Target::Pipe(stream);
            let consent = Consent {
                force: request.force,
                ..Consent::default()
            };
            let holds = match writes.format.is_text() {
                true => Holds::Lines,
                false => Holds::Records,
            };
            check_terminal(&target, holds, consent)?;
            // A job without scratch needs no place for it.
            let dir = default_scratch_dir(Path::new(".")).unwrap_or_else(|_| PathBuf::from("."));
            *outputs = vec![dir.join("standard output")];
            target
        }
        [path] if writes.directory.is_none() => Target::File(path.clone()),
        // A directory that appears with its files has scratch next to it.
        [_, ..] if writes.directory.as_ref().is_some_and(|dir| !dir.exists()) => {
            Target::File(writes.directory.clone().unwrap_or_default())
        }
        paths => Target::Shards {
            paths: paths.to_vec(),
            manifest: paths[0].with_file_name("_parts"),
        },
    })
}

/// Rejects a journal for a job that cannot be resumed.
fn check_resume(
    request: &Request<'_>,
    sources: &[Source],
    outputs: &[PathBuf],
    writes: &OutputOptions,
) -> Result<()> {
    let is_one = |path: &PathBuf| !is_stdout(path) && !is_stream(path);
    if !matches!(outputs, [path] if is_one(path)) || writes.directory.is_some() {
        let cause = "only a job that writes one file can be resumed";
        return Err(refused(cause, "name a file with -o"));
    }
    for source in sources {
        let is_text =
            request.text.kind.is_some() || TextKind::of_table_name(&source.name).is_some();
        let lines = is_text.then(Recognition::default);
        refuse_copies(std::slice::from_ref(source), lines, PlainFor::Resume)?;
    }
    Ok(())
}

fn copied() -> Error {
    let cause = "a compressed input is unpacked to scratch, which a killed run loses";
    refused(cause, "make a file of it first, or leave --resume out")
}

impl<T: Done> Ran<T> {
    /// The report of the job that wrote `output`, with `notes` on the rows that were left out.
    pub fn new(
        done: T,
        output: Option<&Path>,
        data_bytes: u64,
        used: JobSummary,
        notes: Vec<String>,
    ) -> Self {
        let report = report::summary(used, output, data_bytes, done.table(), notes);
        Ran { report, done }
    }
}

/// The bytes of the files, of datasets and objects, and of the visible files in directories.
fn stored_bytes(names: &[PathBuf], sources: &[Source]) -> Result<u64> {
    let of = |path: &Path| paths::len_or_zero(path);
    let files = names.iter().map(|name| match paths::entries(name) {
        Ok(entries) => entries.flatten().map(|entry| of(&entry.path())).sum(),
        Err(_) => of(name),
    });
    let files_bytes: u64 = files.sum();
    let others = sources.iter();
    let others = others.filter(|source| source.is_of_volume() || source.object.is_some());
    let others_bytes: Result<u64> = others.map(Source::len_bytes).sum();
    Ok(files_bytes + others_bytes?)
}
