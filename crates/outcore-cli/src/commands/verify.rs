//! `outcore verify` and `outcore sort --check`: order, count, checksum, and the records of others.
//!
//! Contract: reads only. `verify` prints the lines of sortbenchmark.org's valsort 1.5 on standard
//! error and gives its exit codes (0 in order, 1 not; for gensort records also 1 if there are
//! none). With `--against` it reads those files too and compares count and checksum, which do not
//! depend on order. A single stream is checked as it comes, without a copy.

use std::io::{self, Cursor, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use outcore::job::{Control, Job};
use outcore::key::npy::PREFIX_BYTES;
use outcore::key::{CheckOptions, CheckReport, NpyHeader, RecordFormat};
use outcore::verify::{VerifyReport, checksum_of, verify, verify_stream};
use outcore::{Error, Kind, Result};
use outcore::{Forecast, Input, Phase};
use outcore_front::content::Content;
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::inputs::{
    self, ResolvedInput, STDIN_NAME, Source, Streams, is_ready, open_stream,
};
use outcore_front::job::{check_text, is_in_order};
use outcore_front::records::{self, TypeRequest};
use outcore_front::resources::Resources;
use outcore_front::what::{Asked, What};
use outcore_io::units;
use serde_json::json;

use crate::cli::{SortArgs, VerifyArgs};
use crate::commands::table;
use crate::context::Context;
use crate::explain::{FilePass, dir_of};
use crate::measure::{Summary, drives_json, phases_json, rate_text};
use crate::progress::watch;
use crate::recorder::Kept;
use crate::resources;

/// What is checked.
enum Checked {
    Files(Vec<ResolvedInput>),
    Stream(Box<OpenStream>),
}

/// A stream whose first bytes have been read.
struct OpenStream {
    source: Source,
    /// What was read to look for a header and belongs to the data.
    front: Vec<u8>,
    header: Option<NpyHeader>,
    fd: OwnedFd,
}

/// Runs `outcore verify`.
pub(crate) fn run(context: &Context, args: &VerifyArgs) -> Result<u8> {
    let asked = Asked {
        inputs: &args.files,
        is_records: args.record.is_typed(),
        // Lines have no order of their own here.
        is_table: true,
        ..Asked::default()
    };
    let what = context.what(asked)?;
    if what.is_table() {
        context.check_options(what, asked)?;
        return table::verify(context, args);
    }
    context.given.applies_to(What::Records)?;
    let started = Instant::now();
    let resources = resources::without_drives(&args.resources)?;
    let control = resources.job(Vec::new()).control;
    let checked = open(context, &control, &args.files)?;
    let against = match args.against.is_empty() {
        true => None,
        false => Some(open(context, &control, &args.against)?),
    };
    let format = decide(&args.record.to_request(), &checked, against.as_ref())?;
    let sources = sources_of([Some(&checked), against.as_ref()]);
    let kept = Kept {
        sources: &sources,
        force: args.trace.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.trace.record_io, kept)?;
    let resources = resources.measuring(args.explain);
    let job = resources.job_at(Vec::new(), dir_of(&sources));
    if args.explain {
        show_plan(context, &job, [Some(&checked), against.as_ref()], &format)?;
    }
    let options = CheckOptions {
        descending: args.descending,
        ties: args.ties,
        unique: args.unique,
        unordered: false,
    };
    begin(context, &job, &args.files, &args.against, &format);
    let found = check(context, &job, checked, &format, options, ("verify", 1.0))?;
    context
        .reporter
        .human(check_text(&found.check, &format).trim_end());
    let other = match against {
        Some(against) => {
            let unordered = CheckOptions {
                unordered: true,
                ..CheckOptions::default()
            };
            let job = resources.job_at(Vec::new(), dir_of(&sources));
            Some(check(
                context,
                &job,
                against,
                &format,
                unordered,
                ("verify", 1.0),
            )?)
        }
        None => None,
    };
    let is_same = other
        .as_ref()
        .map(|other| found.check.has_records_of(&other.check));
    if let (Some(other), Some(is_same)) = (&other, is_same) {
        context.reporter.human(&against_text(&other.check, is_same));
    }
    report(
        context,
        (&resources, args.explain),
        started,
        (&found, other.as_ref()),
    );
    let is_right = is_in_order(&found.check, &format) && is_same != Some(false);
    Ok(u8::from(!is_right))
}

/// Runs `outcore sort --check`: only whether the input is in the order that `sort` would give it.
pub(crate) fn check_only(context: &Context, args: &SortArgs, resources: Resources) -> Result<u8> {
    let started = Instant::now();
    let control = resources.job(Vec::new()).control;
    let checked = open(context, &control, &args.inputs)?;
    let format = decide(&args.record.to_request(), &checked, None)?;
    let sources = sources_of([Some(&checked), None]);
    let kept = Kept {
        sources: &sources,
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.record_io, kept)?;
    let job = resources.job_at(Vec::new(), dir_of(&sources));
    let options = CheckOptions {
        descending: args.descending,
        ties: !args.stable && !args.unique,
        unique: args.unique,
        unordered: false,
    };
    begin(context, &job, &args.inputs, &[], &format);
    let places = match &checked {
        Checked::Files(inputs) => inputs.clone(),
        Checked::Stream(_) => Vec::new(),
    };
    let found = check(context, &job, checked, &format, options, ("verify", 1.0))?;
    report(context, (&resources, false), started, (&found, None));
    let Some(first) = found.check.first_unordered else {
        context.reporter.human(&format!(
            "{} in order",
            units::counted(found.check.records, "record")
        ));
        return Ok(0);
    };
    Err(unordered(first, &places, &format))
}

/// Everything that is read, as it was named.
fn sources_of(checked: [Option<&Checked>; 2]) -> Vec<Source> {
    let sources = |checked: &Checked| match checked {
        Checked::Files(files) => files.iter().map(|file| file.source.clone()).collect(),
        Checked::Stream(stream) => vec![stream.source.clone()],
    };
    checked.into_iter().flatten().flat_map(sources).collect()
}

/// Shows what reading all of it will take; of a stream nothing is known before.
fn show_plan(
    context: &Context,
    job: &Job,
    checked: [Option<&Checked>; 2],
    format: &RecordFormat,
) -> Result<()> {
    for checked in checked.into_iter().flatten() {
        let files: Option<Vec<Input>> = match checked {
            Checked::Files(files) => Some(files.iter().map(ResolvedInput::to_sort).collect()),
            Checked::Stream(_) => None,
        };
        let steps = format!("read {format} -> verify");
        let files = (files.as_deref(), format.record_bytes());
        let moved = |bytes: u64| (bytes.into(), Forecast::NOTHING);
        FilePass::plan(job, files, (&steps, "verify"), moved)?.show(context);
    }
    Ok(())
}

/// The error that names the first record out of order.
fn unordered(first: u64, places: &[ResolvedInput], format: &RecordFormat) -> Error {
    let cause = format!("not sorted: record {first} (counted from 0) is out of order");
    let error = Error::new(Kind::CheckFailed, "check order", cause)
        .hint("sort it, or check that --type, --descending and --stable are as they were");
    let record_bytes = format.record_bytes() as u64;
    let mut left = first;
    for input in places {
        let records = input.data_bytes / record_bytes;
        if left < records {
            let offset_bytes = input.header_bytes + left * record_bytes;
            return error.path(&input.source.name).offset(offset_bytes);
        }
        left -= records;
    }
    error.path(STDIN_NAME).offset(first * record_bytes)
}

/// Finds and opens what is to be checked.
fn open(context: &Context, control: &Arc<Control>, names: &[PathBuf]) -> Result<Checked> {
    let mut sources = inputs::find(names, Streams::Taken, &context.files)?;
    let has_stream = sources.iter().any(Source::is_stream);
    if !has_stream {
        let files: Result<Vec<ResolvedInput>> = sources.into_iter().map(inputs::look).collect();
        return files.map(Checked::Files);
    }
    match (sources.pop(), sources.is_empty()) {
        (Some(source), true) => open_one_stream(control, source),
        _ => Err(Error::usage("open input", "a stream among other files")
            .hint("check the stream alone, or files only")),
    }
}

fn open_one_stream(control: &Arc<Control>, source: Source) -> Result<Checked> {
    let fd = open_stream(&source)?;
    let mut stream = Stream {
        fd: &fd,
        control: Arc::clone(control),
    };
    let mut front = Vec::new();
    let read = |error: io::Error| Error::io("read input", &error).path(&source.name);
    let mut grow = |front: &mut Vec<u8>, bytes: usize| {
        let missing = (bytes - front.len()) as u64;
        stream
            .by_ref()
            .take(missing)
            .read_to_end(front)
            .map_err(read)
    };
    grow(&mut front, PREFIX_BYTES)?;
    let mut header = None;
    if NpyHeader::is_npy(&front) {
        let header_bytes = NpyHeader::len_bytes(&front)?;
        grow(&mut front, header_bytes)?;
        header = Some(NpyHeader::parse(&front)?);
        front.clear();
    }
    Ok(Checked::Stream(Box::new(OpenStream {
        source,
        front,
        header,
        fd,
    })))
}

/// The format of everything that is read.
fn decide(
    request: &TypeRequest,
    checked: &Checked,
    against: Option<&Checked>,
) -> Result<RecordFormat> {
    let mut inputs: Vec<ResolvedInput> = Vec::new();
    for checked in [Some(checked), against].into_iter().flatten() {
        match checked {
            Checked::Files(files) => inputs.extend(files.iter().cloned()),
            // Its length is not known; that it holds whole records is seen at its end.
            Checked::Stream(stream) => inputs.push(ResolvedInput {
                source: stream.source.clone(),
                header_bytes: 0,
                data_bytes: 0,
                npy: stream.header.clone(),
                content: match stream.header {
                    Some(_) => Content::Array,
                    None => Content::of(&stream.front),
                },
            }),
        }
    }
    records::decide(request, &inputs).map(|decided| decided.format)
}

fn check(
    context: &Context,
    job: &Job,
    checked: Checked,
    format: &RecordFormat,
    options: CheckOptions,
    weight: crate::progress::Weight,
) -> Result<VerifyReport> {
    let work = || match checked {
        Checked::Files(inputs) => {
            let files: Vec<Input> = inputs.iter().map(ResolvedInput::to_sort).collect();
            match options.unordered {
                true => checksum_of(job, &files, format),
                false => verify(job, &files, format, options),
            }
        }
        Checked::Stream(open) => {
            let stream = Stream {
                fd: &open.fd,
                control: Arc::clone(&job.control),
            };
            let mut all = Cursor::new(open.front).chain(stream);
            verify_stream(job, &mut all, format, options)
        }
    };
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    watch(reporter, interrupt, &job.control, &[weight], work)
}

/// A stream that gives up within 50 ms of a cancellation.
struct Stream<'a> {
    fd: &'a OwnedFd,
    control: Arc<Control>,
}

impl Read for Stream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.control.is_cancelled() {
                return Err(io::Error::other("interrupted"));
            }
            if is_ready(self.fd).map_err(io::Error::other)? {
                return Ok(rustix::io::read(self.fd, bytes)?);
            }
        }
    }
}

fn against_text(other: &CheckReport, is_same: bool) -> String {
    match is_same {
        true => "SAME - the records are those of the input".to_string(),
        false => format!(
            "ERROR - the records are not those of the input: it has {} with checksum {:x}",
            other.records, other.checksum
        ),
    }
}

fn begin(
    context: &Context,
    job: &Job,
    files: &[PathBuf],
    against: &[PathBuf],
    format: &RecordFormat,
) {
    let names = |paths: &[PathBuf]| {
        let names = paths.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>()
    };
    context.reporter.event(
        "begin",
        json!({
            "inputs": names(files),
            "against": names(against),
            "type": format.to_string(),
            "record_bytes": format.record_bytes(),
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
        }),
    );
}

fn report(
    context: &Context,
    (resources, is_explained): (&Resources, bool),
    started: Instant,
    (found, other): (&VerifyReport, Option<&VerifyReport>),
) {
    let reports = [Some(found), other];
    let reports = || reports.into_iter().flatten();
    let traffic: Vec<DriveTraffic> = reports()
        .flat_map(|report| report.drives.iter().map(DriveTraffic::of))
        .collect();
    let seconds = started.elapsed().as_secs_f64();
    let check = &found.check;
    let mut summary = Summary {
        records: check.records,
        seconds,
        read_bytes: reports().map(|report| report.read_bytes).sum(),
        passes: 1,
        bandwidth_fraction: bandwidth_fraction(&traffic, seconds, &resources.config.drives.value),
        ..Summary::default()
    }
    .with("ordered", json!(check.is_ordered()))
    .with("unordered", json!(check.unordered))
    .with("first_unordered", json!(check.first_unordered))
    .with("duplicate_keys", json!(check.duplicate_keys))
    .with("checksum", json!(format!("{:x}", check.checksum)))
    .with("drives", drives_json(&traffic));
    let phases: Vec<Phase> = reports().flat_map(|report| report.phases.clone()).collect();
    summary = summary.with("phases", phases_json(&phases));
    if let Some(other) = other {
        summary = summary
            .with("same_records", json!(check.has_records_of(&other.check)))
            .with("against_records", json!(other.check.records))
            .with(
                "against_checksum",
                json!(format!("{:x}", other.check.checksum)),
            );
    }
    context.reporter.summary(&summary);
    context.reporter.detail(&format!(
        "read {} in {}: {}",
        units::bytes(summary.read_bytes),
        units::seconds(seconds),
        rate_text(summary.read_bytes, seconds)
    ));
    context.reporter.phases(&phases, is_explained);
}
