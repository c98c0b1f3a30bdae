//! `outcore split`: files cut into parts of whole lines or records.
//!
//! Contract: that of [`outcore_formats::split`]. What is compressed by name is unpacked. Streams are copied
//! to scratch for `-n`, since their length must be known.

use std::path::Path;
use std::time::Instant;

use outcore::volume::output::parent_of;
use outcore::{Error, Result};
use outcore_formats::split::{Cut, PLACEHOLDER, SplitRequest, split};
use outcore_formats::text::reader::{Frame, RecordReader};
use serde_json::json;

use super::Context;
use crate::cli::commands::SplitArgs;
use crate::lines::{LineJob, LineRequest, Overwrite, find, format_of};
use crate::means;
use crate::measure::Summary;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &SplitArgs) -> Result<u8> {
    let started = Instant::now();
    let mut what = SplitRequest {
        pattern: &args.output,
        cut: match (args.parts, args.part_lines) {
            (Some(count), _) => Cut::Parts(count),
            (None, records) => Cut::Records(records.unwrap_or(1)),
        },
        replace: args.force,
        inputs: Vec::new(),
    };
    what.check()?;
    check_trace(args)?;
    let settings = means::load(&args.means, &args.drives, None, means::SEED)?;
    let format = format_of(&args.record.to_request(), &find(&args.inputs)?)?;
    let frame = match &format {
        Some(format) => Frame::Bytes(format.record_bytes()),
        None => Frame::Terminator(args.lines.terminator()),
    };
    let request = LineRequest {
        inputs: &args.inputs,
        output: None,
        overwrite: Overwrite::of(args.force),
        record_io: &args.record_io,
        force: args.force,
        takes_records: format.is_some(),
    };
    let job = LineJob::prepare(context, settings, &request)?;
    job.begin(context, json!({"output": args.output}));
    let (records, parts) = job.watch(context, || {
        what.inputs = job.sources.iter().filter_map(|source| source.key).collect();
        let mut reader = RecordReader::new(&job.job, job.files.clone(), frame);
        split(&job.job, &mut reader, frame, job.data_bytes, what)
    })?;
    let summary = Summary {
        records,
        read_bytes: job.data_bytes,
        written_bytes: job.data_bytes,
        passes: 1,
        ..Summary::since(started)
    };
    let names: Vec<String> = parts
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    context
        .reporter
        .summary(&summary.with("parts", json!(names)));
    Ok(0)
}

/// A trace must not take the place of a part.
fn check_trace(args: &SplitArgs) -> Result<()> {
    let Some(trace) = args.record_io.path() else {
        return Ok(());
    };
    let pattern = Path::new(&args.output);
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
