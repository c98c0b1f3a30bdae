//! `outcore head` and `outcore sample`: some of the lines or records, in the order of the input.
//!
//! Contract: both read each input once, without a copy, and write to standard output or to a file
//! that appears whole; the header of CSV comes first. `head` copies records in pieces, so that they
//! may be longer than memory. What `sample` takes depends on seed and place alone; its memory is
//! that of the sample, within `--memory`.

use std::path::Path;
use std::time::Instant;

use outcore::job::Job;
use outcore::{Forecast, Result};
use outcore_front::inputs::Source;
use outcore_front::text::output::{Dress, LineWriter};
use outcore_front::text::reader::{BLOCK_BYTES, Frame, RecordReader, plain_files};
use outcore_front::text::sample::choose;
use outcore_front::what::Asked;
use serde_json::json;

use super::table;
use crate::cli::commands::{FileArgs, HeadArgs, SampleArgs};
use crate::cli::lines::{LineArgs, Rows};
use crate::cli::{RecordingArgs, ResourceArgs, TypeArgs};
use crate::context::Context;
use crate::lines::{LineRequest, Overwrite, Stream, what_is_moved};
use crate::measure::{Summary, phases_json};
use crate::pipe::CLOSED_PIPE;
use crate::progress::watch;
use crate::{pipe, resources};
use outcore_verbs::explain::{FilePass, dir_of};

/// Runs `outcore head`.
pub(crate) fn head(context: &Context, args: &mut HeadArgs) -> Result<u8> {
    let flags = args.rows.text_flags()?;
    let asked = Asked {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        is_records: args.record.is_typed(),
        is_lines: args.lines.is_lines,
        text: flags.kind(),
        is_table: args.tables.is_given() || !args.by.is_empty(),
        piped: args.tables.piped(),
        ..Asked::default()
    };
    let what = what_is_moved(context, asked, args.lines)?;
    if what.is_table() {
        return table::head(context, args);
    }
    args.rows.settle(what);
    let stream = prepare(
        context,
        &args.files,
        (&args.record, args.lines, &args.rows.to_rows()?),
        args.memory_bytes,
        (&args.record_io, args.explain),
    )?;
    let what = Wanted {
        name: "head",
        records: args.records,
        reads_all: false,
        is_explained: args.explain,
    };
    run(context, &stream, &args.files, what, |reader, writer| {
        let mut records = 0;
        while records < args.records
            && let Some(piece) = reader.next_piece()?
        {
            writer.put(piece.bytes)?;
            if piece.is_last {
                writer.put(stream.frame.end().as_slice())?;
                records += 1;
            }
        }
        Ok(records)
    })
}

/// Runs `outcore sample`.
pub(crate) fn sample(context: &Context, args: &mut SampleArgs) -> Result<u8> {
    let flags = args.rows.text_flags()?;
    let asked = Asked {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        is_records: args.record.is_typed(),
        is_lines: args.lines.is_lines,
        text: flags.kind(),
        is_table: args.tables.is_given(),
        piped: args.tables.piped(),
        ..Asked::default()
    };
    let what = what_is_moved(context, asked, args.lines)?;
    if what.is_table() {
        return table::sample(context, args);
    }
    args.rows.settle(what);
    let rows = args.rows.to_rows()?;
    let stream = prepare(
        context,
        &args.files,
        (&args.record, args.lines, &rows),
        args.memory_bytes,
        (&args.record_io, args.explain),
    )?;
    let limit_bytes = stream.resources.config.memory_bytes.value;
    let what = Wanted {
        name: "sample",
        records: args.records,
        reads_all: true,
        is_explained: args.explain,
    };
    run(context, &stream, &args.files, what, |reader, writer| {
        let kept = choose(reader, args.records, args.seed, limit_bytes)?;
        for (_, record) in &kept {
            writer.put(record)?;
            writer.put(stream.frame.end().as_slice())?;
        }
        Ok(kept.len() as u64)
    })
}

fn prepare(
    context: &Context,
    files: &FileArgs,
    (record, lines, rows): (&TypeArgs, LineArgs, &Rows),
    memory_bytes: Option<u64>,
    (record_io, is_explained): (&RecordingArgs, bool),
) -> Result<Stream> {
    let flags = ResourceArgs {
        memory_bytes,
        ..ResourceArgs::default()
    };
    let resources = resources::without_drives(&flags)?.measuring(is_explained);
    let request = LineRequest {
        inputs: &files.inputs,
        output: files.output.as_deref(),
        overwrite: Overwrite::of(files.force),
        record_io,
        force: files.force,
        takes_records: false,
        recognition: lines.recognition(rows.separator()),
    };
    let what = (&record.to_request(), lines.terminator(), rows);
    Stream::prepare(context, resources, &request, what)
}

/// What is asked for.
struct Wanted {
    /// The command, and its phase.
    name: &'static str,
    /// The largest number of records.
    records: u64,
    /// Whether all of the input is read, and not only as far as the last of these.
    reads_all: bool,
    /// Whether a plan is shown.
    is_explained: bool,
}

/// What reading and writing will take.
fn plan(job: &Job, stream: &Stream, wanted: &Wanted) -> Result<FilePass> {
    let frame = stream.frame;
    let files = plain_files(&stream.sources, frame, stream.recognition)?;
    let element_bytes = match frame {
        Frame::Bytes(bytes) => bytes,
        Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } => 1,
    };
    let steps = format!("read {} -> {}", stream.what, wanted.name);
    let files = (files.as_deref(), element_bytes);
    FilePass::plan(job, files, (&steps, wanted.name), |bytes| {
        let (read, kept) = match frame {
            Frame::Bytes(record_bytes) => {
                let kept_bytes = bytes.min(wanted.records.saturating_mul(record_bytes as u64));
                let read_bytes = kept_bytes.next_multiple_of(BLOCK_BYTES as u64).min(bytes);
                (read_bytes.into(), kept_bytes.into())
            }
            Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } => {
                (Forecast::AtMost(bytes), Forecast::AtMost(bytes))
            }
        };
        match wanted.reads_all {
            true => (bytes.into(), kept),
            false => (read, kept),
        }
    })
}

/// Runs `work` from reader to writer and tells about it.
fn run(
    context: &Context,
    stream: &Stream,
    files: &FileArgs,
    wanted: Wanted,
    work: impl FnOnce(&mut RecordReader<'_>, &mut LineWriter) -> Result<u64>,
) -> Result<u8> {
    let started = Instant::now();
    let dir = dir_of(&stream.sources);
    let job: Job = stream.resources.job_at(Vec::new(), dir);
    let names: Vec<String> = stream
        .sources
        .iter()
        .map(|source: &Source| source.name.display().to_string())
        .collect();
    let output = stream.target.name().display().to_string();
    context.reporter.event(
        "begin",
        json!({"inputs": names, "output": output, "type": stream.what}),
    );
    let planned = plan(&job, stream, &wanted);
    let pass = FilePass::begin(planned, wanted.name, (context, wanted.is_explained))?;
    job.control.begin_phase(wanted.name, 0);
    let done = watch(
        &context.reporter,
        &context.interrupt,
        &job.control,
        &[],
        || {
            let sources = stream.sources.clone();
            let mut reader = RecordReader::new(&job, sources, stream.frame, stream.recognition);
            let header = match &stream.array {
                Some(array) => array.encode(wanted.records),
                None => reader.header()?.to_vec(),
            };
            let dress = Dress {
                header,
                ..Dress::default()
            };
            let pipe = |path: Option<&Path>| pipe::open(path, &job.control);
            let mut writer = LineWriter::open(&job, &stream.target, files.force, &dress, pipe)?;
            let records = work(&mut reader, &mut writer)?;
            let written_bytes = writer.finish()?;
            Ok((records, (reader.read_bytes, written_bytes)))
        },
    );
    let (records, moved_bytes) = match done {
        Err(error) if pipe::is_closed(&stream.target, &error) => return Ok(CLOSED_PIPE),
        done => done?,
    };
    let phases = pass.end(moved_bytes);
    let summary = Summary {
        records,
        read_bytes: moved_bytes.0,
        written_bytes: moved_bytes.1,
        passes: 1,
        ..Summary::since(started)
    };
    let summary = summary.with("output", json!(output));
    context
        .reporter
        .summary(&summary.with("phases", phases_json(&phases)));
    context.reporter.phases(&phases, wanted.is_explained);
    Ok(0)
}
