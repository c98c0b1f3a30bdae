//! `split`: cuts files into parts of whole lines, records or rows.
//!
//! Contract: that of [`outcore_front::split`]. Compressed lines are decompressed. For `-n`, streams
//! are copied to scratch, since their length must be known; otherwise lines are read as a stream.
//! Every part of CSV begins with the header, except for parts that are cut after a number of bytes;
//! these have only the bytes of the files. Parts appear together or not at all.

mod page;
mod routed;
#[cfg(feature = "tables")]
mod table;

use std::ffi::OsStr;
use std::path::Path;

use outcore::{Error, Forecast, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{ResolvedInput, look};
use outcore_front::output::{Holds, Target, header_for};
use outcore_front::records::{self, TypeRequest};
use outcore_front::split::{PLACEHOLDER, PartSize, SplitRequest, is_compressed, split};
use outcore_front::text::reader::{Frame, RecordReader, plain_files};
use outcore_front::what::Asked;
use outcore_io::drive::paths;
use outcore_io::output::parent_of;
use outcore_io::units;
use serde_json::json;

use crate::explain::FilePass;
use page::{SplitArgs, SplitSummary};
use routed::{Made, PartInput, Typed};

use crate::host::{Host, Weight};
use crate::lines::{
    LineDone, LineJob, LineRequest, Overwrite, find, format_beside, frame_of, what_is_moved,
};
use crate::option::lines::{RowArgs, Rows};
use crate::option::{SEED, resources_request};
use crate::report::{Phase, Place, WriteSummary};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// The name of its one phase.
const PASS: &str = "split";

/// The verb.
pub(crate) struct Split;

impl Verb for Split {
    const NAME: &'static str = "split";
    const INPUTS: Inputs = Inputs::Any;
    type Args = SplitArgs;
    type Report = SplitSummary;
    const PHASES: &'static [Weight] = &[(PASS, 1.0)];

    fn run(host: &dyn Host, args: &SplitArgs) -> Result<SplitSummary> {
        let flags = args.rows.text_flags()?;
        let is_by_value = !args.by.is_empty() && args.splitters.is_none();
        let is_table = args.tables().is_given() || args.train.is_some() || is_by_value;
        let asked = Asked {
            inputs: &args.inputs,
            output: Some(&args.output),
            is_records: args.record.is_typed(),
            is_lines: args.lines.is_lines(),
            text: flags.kind(),
            is_table,
            ..Asked::default()
        };
        let found = what_is_moved(host, asked, args.lines)?;
        if found.is_table() {
            #[cfg(feature = "tables")]
            return table::split(host, args);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let mut rows = args.rows.clone();
        rows.settle(found);
        split_files(host, args, &rows)
    }

    fn say(args: &SplitArgs, report: &SplitSummary, words: &mut Words) {
        for (path, (count, checksum)) in parts_of(report) {
            let items = units::counted(*count, &report.wrote.unit);
            words.detail(&format!(
                "  {}: {items}, checksum {checksum}",
                path.0.display()
            ));
        }
        if report.wrote.unit != "row" {
            words.phases(&report.wrote.phases, args.explain);
            return;
        }
        let other = report.test_rows.zip(report.parts.last());
        let other = other.map(|(rows, path)| {
            let rows = units::counted(rows, "other row");
            format!("wrote {rows} to {}", path.0.display())
        });
        let partitions = report.partitions;
        let partitions =
            partitions.map(|count| format!("wrote {}", units::counted(count, "partition")));
        let said = Said {
            notes: other.into_iter().chain(partitions).collect(),
            ..said(report)
        };
        say(&report.wrote, &said, args.explain, words);
    }

    fn headline(report: &SplitSummary) -> String {
        headline(&report.wrote, &said(report))
    }
}

/// The parts with their totals; nothing if they were not summed.
fn parts_of(report: &SplitSummary) -> impl Iterator<Item = (&Place, (&u64, &String))> {
    let totals = report.counts.iter().zip(&report.checksums);
    report.parts.iter().zip(totals)
}

/// The verb in the report.
fn said(report: &SplitSummary) -> Said<'static> {
    Said::of(match report.test_rows {
        Some(_) => "drew",
        None => "split",
    })
}

/// Splits lines or records.
fn split_files(host: &dyn Host, args: &SplitArgs, rows: &RowArgs) -> Result<SplitSummary> {
    let mut what = SplitRequest {
        pattern: &args.output,
        cut: cut_of(args),
        replace: args.force,
        inputs: Vec::new(),
        header: None,
        filter: args.filter.as_deref().map(OsStr::new),
    };
    let types = match args.splitters {
        // Only a split by ranges has a key.
        Some(_) => args.record.to_request(),
        None => args.record.to_request_without_keys(),
    };
    let rows = rows.to_rows()?;
    let Read {
        frame,
        holds,
        recognition,
    } = Read::of(host, args, &rows, &types)?;
    what.check(holds)?;
    check_header(args, holds)?;
    check_trace(args)?;
    let resources = host.load(&resources_request(
        &args.resources,
        &args.drives,
        None,
        SEED,
    )?)?;
    let request = LineRequest {
        inputs: &args.inputs,
        output: None,
        overwrite: Overwrite::of(args.force),
        record_io: &args.record_io,
        force: args.force,
        takes_records: holds == Holds::Records,
        frames_fastq: false,
        plain_for: None,
        recognition,
    };
    let resources = resources.measuring(args.explain);
    // Header lines are read first, on their own.
    let has_header = !args.header.rule().is_empty();
    let is_cut_by_length = what.cut.needs_length() && !routed::is_asked(args);
    let is_copied = is_cut_by_length || holds == Holds::Records || has_header;
    let mut job = LineJob::prepare_parts(host, resources, &request, is_copied)?;
    let header = job.settle_header(host, &args.header.rule(), args.lines.terminator())?;
    let of_files = match is_copied {
        true => Recognition::ANYTHING,
        false => recognition,
    };
    let mut data_bytes = job.data_bytes;
    let mut typed = None;
    if holds == Holds::Records {
        let inputs: Result<Vec<ResolvedInput>> = job.files.iter().cloned().map(look).collect();
        let inputs = inputs?;
        let decided = records::decide(&types, &inputs)?;
        what.header = header_for(&Target::File(args.output.clone()), &[], &decided)?;
        data_bytes = inputs.iter().map(|input| input.data_bytes).sum();
        typed = Some(Typed { inputs, decided });
    }
    let input = PartInput { typed, data_bytes };
    job.begin(host, json!({"output": args.output.display().to_string()}));
    let pass = begin_pass(host, &job, frame, recognition, args)?;
    let mut read_bytes = 0;
    let made = job.watch(host, || {
        what.inputs = job.sources.iter().filter_map(|source| source.key).collect();
        let files = job.files.clone();
        let mut reader = RecordReader::new(&job.job, files, frame, of_files).after_header(header);
        let made = write_parts(host, &job, args, &mut reader, input, what)?;
        read_bytes = match is_copied {
            true => data_bytes,
            false => reader.read_bytes,
        };
        Ok(made)
    })?;
    let done = LineDone {
        records: made.items,
        read_bytes,
        written_bytes: read_bytes,
        passes: 1,
        phases: Phase::of_engine(&pass.end(read_bytes, read_bytes)),
        ..LineDone::default()
    };
    let unit = match frame {
        _ if holds == Holds::Bytes => "byte",
        Frame::Bytes(_) => "record",
        Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } | Frame::Fastq => rows.unit(),
    };
    let wrote = WriteSummary {
        output: Some(Place(args.output.clone())),
        files: match args.filter {
            Some(_) => 0,
            None => made.parts.len() as u64,
        },
        ..job.report(host, unit, done)?
    };
    Ok(SplitSummary::of_parts(wrote, made.parts, args.seed).with_totals(&made.totals))
}

/// Writes the parts: by a route, or else by cutting.
fn write_parts(
    host: &dyn Host,
    job: &LineJob,
    args: &SplitArgs,
    reader: &mut RecordReader<'_>,
    input: PartInput,
    what: SplitRequest<'_>,
) -> Result<Made> {
    match (routed::is_asked(args), input.typed) {
        (true, Some(typed)) => routed::records(host, job, args, typed, &what),
        (true, None) => routed::lines(host, job, args, reader, input.data_bytes, what),
        (false, _) => {
            let files = job.files.len();
            let (items, parts) = split(&job.job, reader, files, input.data_bytes, what)?;
            Ok(Made {
                items,
                parts,
                totals: Vec::new(),
            })
        }
    }
}

/// Rejects options for header lines if parts are cut at any byte.
fn check_header(args: &SplitArgs, holds: Holds) -> Result<()> {
    if args.header.rule().is_empty() || holds != Holds::Bytes {
        return Ok(());
    }
    let cause = "--bytes cuts anywhere, but --header and --comment are for lines";
    Err(Error::usage("read arguments", cause)
        .hint("use --line-bytes, or leave --header and --comment out"))
}

/// The form in which the input is read.
struct Read {
    frame: Frame,
    holds: Holds,
    recognition: Recognition,
}

impl Read {
    /// Parts of a number of bytes are read as bytes, and all others as records or lines.
    fn of(host: &dyn Host, args: &SplitArgs, rows: &Rows, types: &TypeRequest) -> Result<Self> {
        if args.part_bytes.is_some() {
            let recognition = Recognition {
                takes_packed: false,
                tells_header: false,
                ..Recognition::ANYTHING
            };
            return Ok(Read {
                frame: Frame::Terminator(b'\n'),
                holds: Holds::Bytes,
                recognition,
            });
        }
        let recognition = args.lines.recognition(rows.separator());
        let recognition = recognition.telling_header(matches!(rows, Rows::Lines));
        let sources = find(host, &args.inputs)?;
        let format = format_beside(host, rows, types, &sources, recognition)?;
        let (frame, holds) = match &format {
            Some(format) => (Frame::Bytes(format.record_bytes()), Holds::Records),
            None => (frame_of(rows, args.lines.terminator()), Holds::Lines),
        };
        Ok(Read {
            frame,
            holds,
            recognition,
        })
    }
}

/// The rule that ends parts.
fn cut_of(args: &SplitArgs) -> PartSize {
    match (args.parts, args.part_bytes, args.line_bytes) {
        (Some(count), ..) => PartSize::Parts(count),
        (_, Some(bytes), _) => PartSize::Bytes(bytes),
        (.., Some(bytes)) => PartSize::LineBytes(bytes),
        _ => PartSize::Records(args.part_lines.unwrap_or(1)),
    }
}

/// The pass, with the plan of its reads and writes.
fn begin_pass(
    host: &dyn Host,
    job: &LineJob,
    frame: Frame,
    recognition: Recognition,
    args: &SplitArgs,
) -> Result<FilePass> {
    let files = plain_files(&job.files, frame, recognition)?;
    let (element_bytes, what) = match frame {
        Frame::Bytes(bytes) => (bytes, "records"),
        Frame::Fastq => (1, "reads"),
        Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } => (1, "lines"),
    };
    let (files, steps) = (files.as_deref(), format!("read {what} -> split"));
    let planned = FilePass::plan(&job.job, files, element_bytes, &steps, PASS, |bytes| {
        let written = match is_compressed(&args.output) {
            true => Forecast::Unknown,
            false => Forecast::About(bytes),
        };
        (bytes.into(), written)
    });
    FilePass::begin(planned, PASS, host, args.explain)
}

/// Rejects a trace with the name of a part.
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
    let dir = |path: &Path| paths::real(parent_of(path)).ok();
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
