//! From what a command on tables is asked for to a job that is done.
//!
//! Contract: as the folder's. The output is never an input unless that was asked for, nor would the
//! next run read it. A reader of standard output that has seen enough ends the job quietly.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::{Job, Result};
use outcore_front::inputs::is_stdout;
use outcore_front::output::{Consent, Holds, Target, check_replaced, check_terminal};
use outcore_front::resources::{Resources, default_scratch_dir};
use outcore_table::input::check_not_read_again;
use outcore_table::jobs::TableEnds;
use outcore_table::output::{FileRows, OutputOptions, TableStream, list_of};
use serde_json::json;

use super::is_stdin;
use super::outputs::{check_inputs_kept, outputs_of, sources_of};
use super::report::Done;
use super::request::Request;
use crate::context::Context;
use crate::lines::scratch_drives;
use crate::pipe::{self, CLOSED_PIPE};
use crate::progress::watch;
use outcore_verbs::host::Kept;
use outcore_verbs::tables::unpacked;

/// Runs `work` from the inputs of `request` to its output, and says what it did.
pub(super) fn run(
    context: &Context,
    request: &Request<'_>,
    resources: Resources,
    work: impl FnOnce(&Job, &TableEnds<'_>) -> Result<Done>,
) -> Result<u8> {
    let one_file = (&[][..], FileRows::Equal);
    run_to(context, request, resources, one_file, work)
}

/// The same to several files in the place of the output, if there are some, with this many rows in
/// each.
pub(super) fn run_to(
    context: &Context,
    request: &Request<'_>,
    resources: Resources,
    (files, file_rows): (&[PathBuf], FileRows),
    work: impl FnOnce(&Job, &TableEnds<'_>) -> Result<Done>,
) -> Result<u8> {
    let (mut outputs, mut writes) = outputs_of(context, request)?;
    if !files.is_empty() {
        let names = files
            .iter()
            .map(|name| context.files.output(name, request.force));
        outputs = names
            .map(|name| name.map(std::borrow::Cow::into_owned))
            .collect::<Result<_>>()?;
        writes.files = file_rows;
    }
    run_with(context, request, resources, (outputs, writes), work)
}

/// The same to these outputs, or to none.
pub(super) fn run_with(
    context: &Context,
    request: &Request<'_>,
    resources: Resources,
    (mut outputs, mut writes): (Vec<PathBuf>, OutputOptions),
    work: impl FnOnce(&Job, &TableEnds<'_>) -> Result<Done>,
) -> Result<u8> {
    let started = Instant::now();
    let sources = sources_of(context, request.inputs)?;
    check_inputs_kept(&sources, (request.inputs, &outputs), request.replace)?;
    let new: Vec<&Path> = outputs.iter().map(PathBuf::as_path).collect();
    check_not_read_again(request.inputs.iter().map(PathBuf::as_path), &new)?;
    if let Some(list) = list_of(&outputs, writes.directory.as_deref()) {
        check_replaced(&list, &outputs, &sources)?;
    }
    writes.is_replacing = request.force || request.replace;
    let target = match outputs.as_slice() {
        // Scratch has to be somewhere, even if nothing is written.
        [] => Target::File(PathBuf::from("differences")),
        [path] if is_stdout(path) => {
            let consent = Consent {
                force: request.force,
                ..Consent::default()
            };
            let holds = match writes.format.is_text() {
                true => Holds::Lines,
                false => Holds::Records,
            };
            check_terminal(&Target::Pipe(None), holds, consent)?;
            // Who needs no scratch needs no place for it.
            let dir = default_scratch_dir(Path::new(".")).unwrap_or_else(|_| PathBuf::from("."));
            outputs = vec![dir.join("standard output")];
            Target::Pipe(None)
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
    };
    resources.named_drives(0)?;
    let resources = resources.measuring(request.is_explained);
    let kept = Kept {
        sources: &sources,
        target: Some(&target),
        force: request.force,
        ..Kept::default()
    };
    let resources = context.start(resources, request.record_io, kept)?;
    let stored_bytes = stored_bytes(request.inputs);
    let is_unknown = request.inputs.iter().any(|name| is_stdin(name));
    let scratch_bytes = match is_unknown {
        true => stored_bytes.max(resources.config.memory_bytes.value),
        false => stored_bytes,
    };
    let drives = scratch_drives(&resources, &target, scratch_bytes)?;
    let job = resources.planned_job(drives, &target.dir());
    context.note_scratch(&resources, &target, &job);
    if request.is_explained {
        context.reporter.show_plans(&job.control);
    }
    let inputs: Vec<String> = request
        .inputs
        .iter()
        .map(|name| name.display().to_string())
        .collect();
    context.reporter.event(
        "begin",
        json!({
            "inputs": inputs,
            "output": request.output.map(|name| name.display().to_string()),
            "type": "table",
            "data_bytes": stored_bytes,
            "memory_bytes": resources.config.memory_bytes.value,
            "threads": resources.config.threads.value,
            "io": resources.config.io.value.name(),
        }),
    );
    let mut reads = super::reads(request.tables, request.text);
    let (copies, _spool) = unpacked(
        context,
        (&job, &resources),
        (request.inputs, request.text.kind),
        &target.dir(),
    )?;
    reads.copies = copies;
    if let Target::Pipe(_) = &target {
        writes.stream = Some(TableStream::new(pipe::open(None, &job.control)?));
    }
    let ends = TableEnds {
        inputs: request.inputs,
        reads: &reads,
        outputs: &outputs,
        writes: &writes,
    };
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let done = match watch(reporter, interrupt, &job.control, &[], || work(&job, &ends)) {
        Err(error) if pipe::is_closed(&target, &error) => return Ok(CLOSED_PIPE),
        done => done?,
    };
    let notes = request.text.take_notes().into_iter();
    let done = notes.fold(done, Done::note);
    done.report(context, (request, &resources), started);
    Ok(0)
}

/// Bytes of the files and of those in directories, as far as they are seen.
fn stored_bytes(names: &[PathBuf]) -> u64 {
    let of = |path: &Path| std::fs::metadata(path).map_or(0, |facts| facts.len());
    names
        .iter()
        .map(|name| match std::fs::read_dir(name) {
            Ok(entries) => entries.flatten().map(|entry| of(&entry.path())).sum(),
            Err(_) => of(name),
        })
        .sum()
}
