//! `outcore split`: files cut into parts of whole lines or records.
//!
//! Contract: that of [`outcore_front::split`]. Compressed lines are unpacked. Streams are copied
//! to scratch for `-n`, since their length must be known. Every part of CSV begins with the header.

use std::path::Path;
use std::time::Instant;

use outcore::{Error, Forecast, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{ResolvedInput, look};
use outcore_front::output::{Holds, Target, header_for};
use outcore_front::records;
use outcore_front::split::{PLACEHOLDER, PartSize, SplitRequest, is_compressed, split};
use outcore_front::text::reader::{Frame, RecordReader, plain_files};
use outcore_front::what::Asked;
use outcore_io::output::parent_of;
use serde_json::json;

use super::table;
use crate::cli::commands::SplitArgs;
use crate::context::Context;
use crate::lines::{LineJob, LineRequest, Overwrite, find, format_beside, frame_of, what_is_moved};
use crate::measure::{Summary, phases_json};
use crate::resources;
use outcore_verbs::explain::FilePass;

/// The name of its one phase.
const PASS: &str = "split";

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &mut SplitArgs) -> Result<u8> {
    let flags = args.rows.text_flags()?;
    let is_table = args.tables().is_given()
        || args.part_bytes.is_some()
        || args.train.is_some()
        || !args.by.is_empty();
    let asked = Asked {
        inputs: &args.inputs,
        output: Some(&args.output),
        is_records: args.record.is_typed(),
        is_lines: args.lines.is_lines,
        text: flags.kind(),
        is_table,
        ..Asked::default()
    };
    let found = what_is_moved(context, asked, args.lines)?;
    if found.is_table() {
        return table::split(context, args);
    }
    args.rows.settle(found);
    let started = Instant::now();
    let mut what = SplitRequest {
        pattern: &args.output,
        cut: match (args.parts, args.part_lines) {
            (Some(count), _) => PartSize::Parts(count),
            (None, records) => PartSize::Records(records.unwrap_or(1)),
        },
        replace: args.force,
        inputs: Vec::new(),
        header: None,
    };
    let (rows, types) = (args.rows.to_rows()?, args.record.to_request());
    let recognition = args.lines.recognition(rows.separator());
    let sources = find(context, &args.inputs)?;
    let format = format_beside(context, &rows, &types, (&sources, recognition))?;
    let (frame, holds) = match &format {
        Some(format) => (Frame::Bytes(format.record_bytes()), Holds::Records),
        None => {
            let frame = frame_of(&rows, args.lines.terminator());
            (frame, Holds::Lines)
        }
    };
    what.check(holds)?;
    check_trace(args)?;
    let settings = resources::load(&args.resources, &args.drives, None, resources::SEED)?
        .measuring(args.explain);
    let request = LineRequest {
        inputs: &args.inputs,
        output: None,
        overwrite: Overwrite::of(args.force),
        record_io: &args.record_io,
        force: args.force,
        takes_records: format.is_some(),
        recognition,
    };
    let job = LineJob::prepare(context, settings, &request)?;
    let mut data_bytes = job.data_bytes;
    if holds == Holds::Records {
        let inputs: Result<Vec<ResolvedInput>> = job.files.iter().cloned().map(look).collect();
        let inputs = inputs?;
        let decided = records::decide(&types, &inputs)?;
        what.header = header_for(&Target::File(args.output.clone()), &[], &decided)?;
        data_bytes = inputs.iter().map(|input| input.data_bytes).sum();
    }
    job.begin(
        context,
        json!({"output": args.output.display().to_string()}),
    );
    let pass = begin_pass(context, &job, frame, recognition, args)?;
    let (records, parts) = job.watch(context, || {
        what.inputs = job.sources.iter().filter_map(|source| source.key).collect();
        let files = job.files.clone();
        let of = (files.len(), data_bytes);
        let mut reader = RecordReader::new(&job.job, files, frame, Recognition::ANYTHING);
        split(&job.job, &mut reader, of, what)
    })?;
    let phases = pass.end((data_bytes, data_bytes));
    let summary = Summary {
        records,
        read_bytes: data_bytes,
        written_bytes: data_bytes,
        passes: 1,
        ..Summary::since(started)
    };
    let summary = summary.with("phases", phases_json(&phases));
    let names: Vec<String> = parts
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    context
        .reporter
        .summary(&summary.with("parts", json!(names)));
    context.reporter.phases(&phases, args.explain);
    Ok(0)
}

/// The pass, with what reading and writing will take.
fn begin_pass(
    context: &Context,
    job: &LineJob,
    frame: Frame,
    recognition: Recognition,
    args: &SplitArgs,
) -> Result<FilePass> {
    let files = plain_files(&job.files, frame, recognition)?;
    let (element_bytes, what) = match frame {
        Frame::Bytes(bytes) => (bytes, "records"),
        Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } => (1, "lines"),
    };
    let (files, steps) = (
        (files.as_deref(), element_bytes),
        format!("read {what} -> split"),
    );
    let planned = FilePass::plan(&job.job, files, (&steps, PASS), |bytes| {
        let written = match is_compressed(&args.output) {
            true => Forecast::Unknown,
            false => Forecast::About(bytes),
        };
        (bytes.into(), written)
    });
    FilePass::begin(planned, PASS, (context, args.explain))
}

/// A trace must not take the place of a part.
fn check_trace(args: &SplitArgs) -> Result<()> {
    let Some(trace) = args.record_io.path() else {
        return Ok(());
    };
    let pattern = args.output.as_path();
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let dir = |path: &Path| std::fs::canonicalize(parent_of(path)).ok();
    let (pattern_name, trace_name) = (name(pattern), name(trace));
    let is_part = pattern_name
        .split_once(PLACEHOLDER)
        .is_some_and(|(before, after)| {
            let inside = trace_name.strip_prefix(before);
            let number = inside.and_then(|rest| rest.strip_suffix(after));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
    if is_part && dir(pattern) == dir(trace) {
        return Err(
            Error::usage("record I/O", "the trace would be one of the parts")
                .path(trace)
                .hint("give the trace another name"),
        );
    }
    Ok(())
}
