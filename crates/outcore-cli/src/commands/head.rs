//! `outcore head` and `outcore sample`: some of the lines or records, in the order of the input.
//!
//! Contract: both read each input once, without a copy, and write to standard output or to a file
//! that appears whole. `sample` draws a word for each record and keeps those with the smallest, so
//! every set of K is equally likely and the choice depends on seed and place alone; its memory is
//! that of the sample, within `--memory`. Source: E. Cohen, "Size-estimation framework with
//! applications to transitive closure and reachability", JCSS 1997 (bottom-k samples).

use std::collections::BinaryHeap;
use std::time::Instant;

use outcore::job::Job;
use outcore::stream::sample::random;
use outcore::{Error, Kind, Result, units};
use outcore_formats::inputs::Source;
use serde_json::json;

use super::Context;
use crate::cli::commands::{FileArgs, HeadArgs, SampleArgs};
use crate::cli::{DriveArgs, MeansArgs, TypeArgs};
use crate::lines::output::{Dress, LineWriter};
use crate::lines::reader::{Frame, RecordReader};
use crate::lines::{LineRequest, Overwrite, Stream};
use crate::measure::Summary;
use crate::progress::watch;
use crate::{CLOSED_PIPE, means, pipe};

/// What holding a record costs besides its bytes.
const RECORD_OVERHEAD_BYTES: u64 = 64;

/// Runs `outcore head`.
pub(crate) fn head(context: &Context, args: &HeadArgs) -> Result<u8> {
    let stream = prepare(&args.files, &args.record, args.lines.terminator(), None)?;
    run(context, &stream, &args.files, |reader, writer| {
        let mut records = 0;
        while records < args.records
            && let Some(record) = reader.next()?
        {
            put(writer, record, stream.frame)?;
            records += 1;
        }
        Ok(records)
    })
}

/// Runs `outcore sample`.
pub(crate) fn sample(context: &Context, args: &SampleArgs) -> Result<u8> {
    let stream = prepare(
        &args.files,
        &args.record,
        args.lines.terminator(),
        args.memory_bytes,
    )?;
    let limit_bytes = stream.means.config.memory_bytes.value;
    run(context, &stream, &args.files, |reader, writer| {
        let kept = choose(reader, args.records, args.seed, limit_bytes)?;
        for (_, record) in &kept {
            put(writer, record, stream.frame)?;
        }
        Ok(kept.len() as u64)
    })
}

/// The chosen records with their places, in order.
fn choose(
    reader: &mut RecordReader<'_>,
    count: u64,
    seed: u64,
    limit_bytes: u64,
) -> Result<Vec<(u64, Vec<u8>)>> {
    // The largest word on top, to be thrown out next.
    let mut kept: BinaryHeap<(u64, u64, Vec<u8>)> = BinaryHeap::new();
    let (mut place, mut held_bytes) = (0, 0);
    while count > 0
        && let Some(record) = reader.next()?
    {
        let word = random(seed, place);
        let is_full = kept.len() as u64 == count;
        let enters = !is_full || kept.peek().is_some_and(|(largest, _, _)| word < *largest);
        if enters {
            if is_full && let Some((_, _, out)) = kept.pop() {
                held_bytes -= out.len() as u64 + RECORD_OVERHEAD_BYTES;
            }
            held_bytes += record.len() as u64 + RECORD_OVERHEAD_BYTES;
            if held_bytes > limit_bytes {
                let limit = units::bytes_exact(limit_bytes);
                return Err(Error::new(
                    Kind::Memory,
                    "sample",
                    format!("the sample is larger than {limit}"),
                )
                .hint(
                    "raise --memory, or take fewer; shuffle and head give a sample of any size",
                ));
            }
            kept.push((word, place, record.to_vec()));
        }
        place += 1;
    }
    let mut kept: Vec<(u64, Vec<u8>)> = kept
        .into_iter()
        .map(|(_, place, record)| (place, record))
        .collect();
    kept.sort_unstable_by_key(|(place, _)| *place);
    Ok(kept)
}

fn put(writer: &mut LineWriter, record: &[u8], frame: Frame) -> Result<()> {
    writer.put(record)?;
    match frame {
        Frame::Terminator(terminator) => writer.put(&[terminator]),
        Frame::Bytes(_) => Ok(()),
    }
}

fn prepare(
    files: &FileArgs,
    record: &TypeArgs,
    terminator: u8,
    memory_bytes: Option<u64>,
) -> Result<Stream> {
    let flags = MeansArgs {
        memory_bytes,
        ..MeansArgs::default()
    };
    let means = means::load(&flags, &DriveArgs::default(), None, means::SEED)?;
    let request = LineRequest {
        inputs: &files.inputs,
        output: files.output.as_deref(),
        overwrite: Overwrite::of(files.force),
        record_io: &crate::cli::RecordArgs::default(),
        force: false,
        takes_records: false,
    };
    Stream::prepare(means, &request, &record.to_request(), terminator)
}

/// Runs `work` from reader to writer and tells about it.
fn run(
    context: &Context,
    stream: &Stream,
    files: &FileArgs,
    work: impl FnOnce(&mut RecordReader<'_>, &mut LineWriter) -> Result<u64>,
) -> Result<u8> {
    let started = Instant::now();
    let job: Job = stream.means.job(Vec::new());
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
    job.control.begin_phase("read input", 0);
    let done = watch(
        &context.reporter,
        &context.interrupt,
        &job.control,
        &[],
        || {
            let mut reader = RecordReader::new(&job.control, stream.sources.clone(), stream.frame);
            let dress = Dress::default();
            let mut writer = LineWriter::open(&job, &stream.target, files.force, &dress)?;
            let records = work(&mut reader, &mut writer)?;
            writer.finish()?;
            Ok((records, reader.read_bytes))
        },
    );
    let (records, read_bytes) = match done {
        Err(error) if pipe::is_closed(&stream.target, &error) => return Ok(CLOSED_PIPE),
        done => done?,
    };
    let summary = Summary {
        records,
        read_bytes,
        passes: 1,
        ..Summary::since(started)
    };
    context
        .reporter
        .summary(&summary.with("output", json!(output)));
    Ok(0)
}
