//! `verify` of records: files, or one stream, which is checked without a copy.
//!
//! Contract: as [`super`].

use std::io::{self, Cursor, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::job::{Control, Job};
use outcore::key::npy::PREFIX_BYTES;
use outcore::key::{CheckOptions, NpyHeader, RecordFormat};
use outcore::verify::{VerifyReport as Found, checksum_of, verify as check_files, verify_stream};
use outcore::{DriveTraffic, Error, Forecast, Input, Kind, Result};
use outcore_front::content::Content;
use outcore_front::inputs::{self, ResolvedInput, STDIN_NAME, Source, open_stream};
use outcore_front::job::{check_text, is_in_order};
use outcore_front::records::{self, TypeRequest};
use outcore_front::resources::Resources;
use outcore_front::streams::is_ready;
use outcore_io::units;
use rustix::io::Errno;
use serde_json::json;

use super::page::{VerifyArgs, VerifyReport};
use crate::explain::FilePass;
use crate::host::{Host, Kept, Weight, watch};
use crate::option::{DriveArgs, SEED, TypeArgs, resources_request};
use crate::report::{Moved, Phase, Stopwatch};

/// The phases of a check.
pub(super) const PHASES: [Weight; 1] = [("verify", 1.0)];

/// Checks files of records, or one stream of them.
pub(super) fn verify(host: &dyn Host, args: &VerifyArgs) -> Result<VerifyReport> {
    let stopwatch = Stopwatch::start();
    let resources = host.load(&resources_request(
        &args.resources,
        &DriveArgs::default(),
        None,
        SEED,
    )?)?;
    let control = host.adopt(resources.job(Vec::new())).control;
    let checked = open(host, &control, &args.files)?;
    let against = match args.against.is_empty() {
        true => None,
        false => Some(open(host, &control, &args.against)?),
    };
    let record = args.record.ordered_by(&args.by)?;
    let format = decide(&record.to_request(), &checked, against.as_ref())?;
    let sources = sources_of([Some(&checked), against.as_ref()]);
    let kept = Kept {
        sources: &sources,
        force: args.trace.force,
        ..Kept::default()
    };
    let resources = host.start(resources, args.trace.record_io.path(), kept)?;
    let resources = resources.measuring(args.explain);
    // Each check gets a job of its own, because a job takes all that is left of its budget.
    let job = || host.adopt(resources.pass_job(Vec::new()));
    let first = job();
    if args.explain {
        show_plan(host, &first, [Some(&checked), against.as_ref()], &format)?;
    }
    let options = CheckOptions {
        descending: args.descending,
        ties: args.ties,
        unique: args.unique,
        ..CheckOptions::default()
    };
    begin(host, &first, [&args.files, &args.against], &format);
    let found = check(host, &first, checked, &format, options)?;
    let unordered = CheckOptions {
        unordered: true,
        ..CheckOptions::default()
    };
    let other = match against {
        Some(against) => Some(check(host, &job(), against, &format, unordered)?),
        None => None,
    };
    let found = [Some(&found), other.as_ref()].into_iter().flatten();
    report(host, stopwatch, &resources, &format, found)
}

/// A check of the order alone.
pub(crate) struct OrderCheck<'a> {
    /// The files, or a stream.
    pub inputs: &'a [PathBuf],
    /// The type of the records.
    pub record: &'a TypeArgs,
    /// The order.
    pub options: CheckOptions,
    /// The trace, if one is wanted.
    pub trace: Option<&'a Path>,
    /// Whether a trace that exists may be replaced.
    pub force: bool,
}

/// The result of a check of the order.
pub(crate) struct OrderVerdict {
    /// The report.
    pub report: VerifyReport,
    /// The error that names the first record out of order, if there is one.
    pub disorder: Option<Error>,
}

/// `sort --check`: only whether the input is in the order that a sort would give it.
///
/// # Errors
/// As [`Verify`]; disorder is no error, but part of the result.
pub(crate) fn check_order(
    host: &dyn Host,
    asked: &OrderCheck<'_>,
    resources: Resources,
) -> Result<OrderVerdict> {
    let stopwatch = Stopwatch::start();
    let control = host.adopt(resources.job(Vec::new())).control;
    let checked = open(host, &control, asked.inputs)?;
    let format = decide(&asked.record.to_request(), &checked, None)?;
    let sources = sources_of([Some(&checked), None]);
    let kept = Kept {
        sources: &sources,
        force: asked.force,
        ..Kept::default()
    };
    let resources = host.start(resources, asked.trace, kept)?;
    let job = host.adopt(resources.pass_job(Vec::new()));
    begin(host, &job, [asked.inputs, &[]], &format);
    let places = match &checked {
        Checked::Files(inputs) => inputs.clone(),
        Checked::Stream(_) => Vec::new(),
    };
    let found = check(host, &job, checked, &format, asked.options)?;
    let first = found.check.first_unordered;
    Ok(OrderVerdict {
        report: report(host, stopwatch, &resources, &format, [&found].into_iter())?,
        disorder: first.map(|first| unordered(first, &places, &format)),
    })
}

/// The data that are checked.
enum Checked {
    Files(Vec<ResolvedInput>),
    Stream(Box<OpenStream>),
}

/// A stream whose first bytes have been read.
struct OpenStream {
    source: Source,
    /// The bytes that were read in search of a header, and that belong to the data.
    front: Vec<u8>,
    header: Option<NpyHeader>,
    fd: OwnedFd,
}

/// All inputs, with the names that the user gave.
fn sources_of(checked: [Option<&Checked>; 2]) -> Vec<Source> {
    let sources = |checked: &Checked| match checked {
        Checked::Files(files) => files.iter().map(|file| file.source.clone()).collect(),
        Checked::Stream(stream) => vec![stream.source.clone()],
    };
    checked.into_iter().flatten().flat_map(sources).collect()
}

/// Shows the plan of reading all of it; for a stream, nothing is known in advance.
fn show_plan(
    host: &dyn Host,
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
        let (files, record_bytes) = (files.as_deref(), format.record_bytes());
        let moved = |bytes: u64| (bytes.into(), Forecast::NOTHING);
        FilePass::plan(job, files, record_bytes, &steps, "verify", moved)?.show(host);
    }
    Ok(())
}

/// The error that names the first record out of order.
fn unordered(first: u64, places: &[ResolvedInput], format: &RecordFormat) -> Error {
    let number = units::count(first + 1);
    let cause = format!("not sorted: record {number} is out of order");
    let error = Error::new(Kind::CheckFailed, "check order", cause).hint(
        "sort the file, or check that --type, --descending and --stable are those of the sort",
    );
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

/// Finds and opens the data to check.
fn open(host: &dyn Host, control: &Arc<Control>, names: &[PathBuf]) -> Result<Checked> {
    let mut sources = inputs::find(names, host.streams(), host.names())?;
    let has_stream = sources.iter().any(Source::is_stream);
    if !has_stream {
        let files: Result<Vec<ResolvedInput>> = sources.into_iter().map(inputs::look).collect();
        return files.map(Checked::Files);
    }
    match (sources.pop(), sources.is_empty()) {
        (Some(source), true) => open_one_stream(control, source),
        _ => Err(Error::usage(
            "open input",
            "an input is a stream, but there are several inputs",
        )
        .hint("check only the stream, or only files")),
    }
}

fn open_one_stream(control: &Arc<Control>, source: Source) -> Result<Checked> {
    let fd = open_stream(&source)?;
    let mut stream = Stream {
        fd: &fd,
        control: Arc::clone(control),
    };
    let mut front = Vec::new();
    let read = |error: io::Error| {
        let failed = Error::io("read input", &error).path(&source.name);
        control.check().err().unwrap_or(failed)
    };
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
            // The length of a stream is not known in advance; an incomplete record at its end is an
            // error.
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
    host: &dyn Host,
    job: &Job,
    checked: Checked,
    format: &RecordFormat,
    options: CheckOptions,
) -> Result<Found> {
    let work = || match checked {
        Checked::Files(inputs) => {
            let files: Vec<Input> = inputs.iter().map(ResolvedInput::to_sort).collect();
            match options.unordered {
                true => checksum_of(job, &files, format),
                false => check_files(job, &files, format, options),
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
    watch(host, &job.control, &PHASES, work)
}

/// A stream whose reads stop within 50 ms of a cancellation.
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
                match rustix::io::read(self.fd, &mut *bytes) {
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    read => return Ok(read?),
                }
            }
        }
    }
}

fn begin(host: &dyn Host, job: &Job, [files, against]: [&[PathBuf]; 2], format: &RecordFormat) {
    let names = |paths: &[PathBuf]| {
        let names = paths.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>()
    };
    host.begin(json!({
        "inputs": names(files),
        "against": names(against),
        "type": format.to_string(),
        "record_bytes": format.record_bytes(),
        "memory_bytes": job.options.memory_bytes,
        "threads": job.options.threads,
    }));
}

/// The report, first on the records, then on those of `against`.
fn report<'a>(
    host: &dyn Host,
    stopwatch: Stopwatch,
    resources: &Resources,
    format: &RecordFormat,
    mut found: impl Iterator<Item = &'a Found> + Clone,
) -> Result<VerifyReport> {
    let reports = found.clone();
    let traffic = reports.clone().flat_map(|report| &report.drives);
    let traffic: Vec<DriveTraffic> = traffic.cloned().collect();
    let (Some(first), other) = (found.next(), found.next()) else {
        return Err(Error::usage("verify", "nothing was checked"));
    };
    let (check, other) = (&first.check, other.map(|other| &other.check));
    let same_records = other.map(|other| check.has_records_of(other));
    let moved = Moved {
        records: check.records,
        read_bytes: reports.clone().map(|report| report.read_bytes).sum(),
        passes: 1,
        ..Moved::default()
    };
    let against_text = other
        .zip(same_records)
        .map(|(other, is_same)| match is_same {
            true => "SAME - the records are those of the input".to_owned(),
            false => format!(
                "ERROR - the records are not those of the input: it has {} with checksum {:x}",
                other.records, other.checksum
            ),
        });
    Ok(VerifyReport {
        phases: Phase::of_engine(reports.flat_map(|report| &report.phases)),
        used: stopwatch.stop(moved, &traffic, resources, host.end_trace()?),
        ordered: Some(check.is_ordered()),
        unordered: Some(check.unordered),
        first_unordered: check.first_unordered,
        duplicate_keys: Some(check.duplicate_keys),
        checksum: format!("{:x}", check.checksum),
        same_records,
        against_records: other.map(|other| other.records),
        against_checksum: other.map(|other| format!("{:x}", other.checksum)),
        ok: is_in_order(check, format) && same_records != Some(false),
        text: check_text(check, format).trim_end().to_owned(),
        against_text,
    })
}
