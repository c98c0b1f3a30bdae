//! `outcore split`: files cut into parts of whole lines or records.
//!
//! Contract: one pass over the input, and for `-n` no look at bytes but at the borders of parts. The
//! parts grow in a private directory and appear together at the end, by one commit record: all of
//! them or none. What is compressed by name is unpacked and packed. Streams are copied to scratch for
//! `-n`, since their length must be known. Memory: a few blocks of 1 MiB.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::drive::PrivateDir;
use outcore::job::Job;
use outcore::volume::output::parent_of;
use outcore::{Error, Result};
use outcore_formats::blocks::BlockWriter;
use outcore_formats::inputs::{FileKey, key_of};
use outcore_formats::text::compress::{Compression, Encoder};
use outcore_formats::text::reader::{Frame, RecordReader};
use serde_json::json;

use super::Context;
use crate::cli::commands::SplitArgs;
use crate::lines::{LineJob, LineRequest, Overwrite, find, format_of};
use crate::means;
use crate::measure::Summary;

/// What stands for the number of a part in its name.
const PLACEHOLDER: &str = "{part}";
/// More parts are a mistake.
const PARTS_MAX: u64 = 100_000;
const SPLIT: &str = "split";
const WRITE: &str = "write part";

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &SplitArgs) -> Result<u8> {
    let started = Instant::now();
    check_pattern(args)?;
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
        let inputs = job.sources.iter().filter_map(|source| source.key);
        let mut parts = Parts::new(&job.job, args, inputs.collect())?;
        let mut reader = RecordReader::new(&job.job, job.files.clone(), frame);
        job.job.control.begin_phase(SPLIT, job.data_bytes);
        let records = match (args.parts, args.part_lines) {
            (Some(count), _) => by_place(&mut reader, frame, job.data_bytes, count, &mut parts)?,
            (None, lines) => by_count(&mut reader, frame, lines.unwrap_or(1), &mut parts)?,
        };
        Ok((records, parts.publish()?))
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

fn check_pattern(args: &SplitArgs) -> Result<()> {
    let refuse = |cause: &str, hint: &str| Err(Error::usage(SPLIT, cause).hint(hint));
    if !args.output.contains(PLACEHOLDER) {
        return refuse(
            "the names of the parts would all be the same",
            "put {part} into the name, as in -o 'part-{part}.txt'",
        );
    }
    match (args.parts, args.part_lines) {
        (Some(0), _) | (_, Some(0)) => {
            refuse("there is nothing to split into 0", "give at least 1")
        }
        (Some(parts), _) if parts > PARTS_MAX => {
            refuse("that are too many parts", "give at most 100000")
        }
        _ => Ok(()),
    }
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

/// A record belongs to the part in which its first byte lies.
fn by_place(
    reader: &mut RecordReader<'_>,
    frame: Frame,
    data_bytes: u64,
    count: u64,
    parts: &mut Parts<'_>,
) -> Result<u64> {
    let border_bytes =
        |part: u64| (u128::from(data_bytes) * u128::from(part) / u128::from(count)) as u64;
    let (mut records, mut at_bytes, mut part) = (0, 0, 0);
    parts.begin()?;
    while let Some(record) = reader.next_record()? {
        while part + 1 < count && at_bytes >= border_bytes(part + 1) {
            parts.begin()?;
            part += 1;
        }
        at_bytes += record.len() as u64 + u64::from(matches!(frame, Frame::Terminator(_)));
        parts.put(record, frame)?;
        records += 1;
    }
    for _ in part + 1..count {
        parts.begin()?;
    }
    Ok(records)
}

fn by_count(
    reader: &mut RecordReader<'_>,
    frame: Frame,
    part_records: u64,
    parts: &mut Parts<'_>,
) -> Result<u64> {
    let mut records = 0;
    while let Some(record) = reader.next_record()? {
        if records % part_records == 0 {
            parts.begin()?;
        }
        parts.put(record, frame)?;
        records += 1;
    }
    Ok(records)
}

/// Parts that do not yet appear.
struct Parts<'a> {
    job: &'a Job,
    pattern: &'a str,
    /// Whether parts may take the place of files that are none of the inputs.
    replace: bool,
    inputs: Vec<FileKey>,
    digits: usize,
    dir: PrivateDir,
    current: Option<Encoder<BlockWriter>>,
    staged: Vec<PathBuf>,
}

impl<'a> Parts<'a> {
    fn new(job: &'a Job, args: &'a SplitArgs, inputs: Vec<FileKey>) -> Result<Self> {
        let parent = parent_of(Path::new(&args.output));
        if parent.to_string_lossy().contains(PLACEHOLDER) {
            return Err(Error::usage(SPLIT, "all parts go into one directory")
                .path(parent)
                .hint("put {part} into the last part of the name"));
        }
        job.device.sweep_private_dirs(parent)?;
        let count = args.parts.unwrap_or(0).max(100);
        let parts = Parts {
            job,
            pattern: &args.output,
            replace: args.force,
            inputs,
            digits: (count - 1).to_string().len(),
            dir: job.device.make_private_dir(parent)?,
            current: None,
            staged: Vec::new(),
        };
        // Told before the work where all names are known.
        (0..args.parts.unwrap_or(0)).try_for_each(|part| parts.check(part as usize))?;
        Ok(parts)
    }

    /// Fails if a part cannot have its name.
    fn check(&self, part: usize) -> Result<()> {
        let name = self.name(part);
        let Ok(facts) = std::fs::metadata(&name) else {
            return Ok(());
        };
        let (cause, hint) = if facts.is_dir() {
            ("it is a directory", "give another name")
        } else if self.inputs.contains(&key_of(&facts)) {
            ("a part is one of the inputs", "give another name")
        } else if !self.replace {
            ("a part exists already", "allow overwriting with --force")
        } else {
            return Ok(());
        };
        Err(Error::usage(SPLIT, cause).path(name).hint(hint))
    }

    fn name(&self, part: usize) -> PathBuf {
        let number = format!("{part:0width$}", width = self.digits);
        PathBuf::from(self.pattern.replace(PLACEHOLDER, &number))
    }

    /// Ends the part that is being written and begins the next.
    fn begin(&mut self) -> Result<()> {
        self.end()?;
        self.check(self.staged.len())?;
        let path = self.dir.path().join(format!("part-{}", self.staged.len()));
        let writer = BlockWriter::create(self.job, &path, u64::MAX)?;
        let compression = Compression::of(Path::new(self.pattern));
        self.current = Some(Encoder::new(compression, writer)?);
        self.staged.push(path);
        Ok(())
    }

    fn put(&mut self, record: &[u8], frame: Frame) -> Result<()> {
        let Some(writer) = &mut self.current else {
            return Ok(());
        };
        let written = writer.write_all(record).and_then(|()| match frame {
            Frame::Terminator(terminator) => writer.write_all(&[terminator]),
            Frame::Bytes(_) => Ok(()),
        });
        written.map_err(|error| Error::io(WRITE, &error).path(self.pattern))
    }

    fn end(&mut self) -> Result<()> {
        let Some(writer) = self.current.take() else {
            return Ok(());
        };
        let part = self.name(self.staged.len() - 1);
        let file = writer
            .finish()
            .map_err(|error| Error::io(WRITE, &error).path(&part))?;
        file.finish_synced()
            .map(|_| ())
            .map_err(|error| error.path(&part))
    }

    /// Puts all parts in their places; gives their names.
    fn publish(mut self) -> Result<Vec<PathBuf>> {
        self.end()?;
        (0..self.staged.len()).try_for_each(|part| self.check(part))?;
        let names: Vec<PathBuf> = (0..self.staged.len()).map(|part| self.name(part)).collect();
        let renames: Vec<(PathBuf, PathBuf)> =
            self.staged.iter().cloned().zip(names.clone()).collect();
        let dirs = [self.dir];
        PrivateDir::commit(&dirs, &renames)?;
        // From here on the parts exist: one that fails does not hold up the others, and whoever
        // sweeps the directory tries again.
        let rename = |(from, to): &(PathBuf, PathBuf)| self.job.device.rename(from, to, true);
        let failures: Vec<Error> = renames
            .iter()
            .filter_map(|pair| rename(pair).err())
            .collect();
        match failures.into_iter().next() {
            None => Ok(names),
            Some(error) => {
                dirs.into_iter().for_each(PrivateDir::leave);
                Err(error.hint(
                    "the parts are whole: a run of outcore with outputs in the same directory puts \
                     the rest in place",
                ))
            }
        }
    }
}
