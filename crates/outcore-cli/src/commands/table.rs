//! Tables: what `sort`, `shuffle`, `unique` and `convert` do with Parquet and Arrow.
//!
//! Contract: an input is a table if the first file that is named begins like one, or is a directory of tables; neither
//! `--lines` nor a type of records may say otherwise. Then in this order: flags that mean nothing for tables refused;
//! the output's names and format settled; a job made; the job of [`outcore_table::jobs`]. Streams are not taken, since
//! a table is read from its end. The summary is that of other commands.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::{Error, Job, Result};
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::inputs::{self, Source, Streams, is_stdout};
use outcore_front::output::Target;
use outcore_front::resources::Resources;
use outcore_io::units;
use outcore_table::input::{InputOptions, TableInput, is_directory_of_tables};
use outcore_table::jobs::{self, TableEnds, TableOrder, TableSummary};
use outcore_table::output::{Codec, OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use serde_json::json;

use crate::cli::commands::{ShuffleArgs, UniqueArgs};
use crate::cli::tables::{ConvertArgs, TableArgs};
use crate::cli::{RecordArgs, SortArgs};
use crate::context::Context;
use crate::lines::scratch_drives;
use crate::measure::{Summary, phases_json, rate_text};
use crate::progress::watch;
use crate::recorder::Kept;
use crate::resources;

const READ: &str = "read arguments";
/// How the names of tables end, and the format that they get.
const ENDINGS: [(&str, TableFormat); 7] = [
    ("parquet", TableFormat::Parquet),
    ("pq", TableFormat::Parquet),
    ("parq", TableFormat::Parquet),
    ("arrow", TableFormat::ArrowFile),
    ("feather", TableFormat::ArrowFile),
    ("ipc", TableFormat::ArrowFile),
    ("arrows", TableFormat::ArrowStream),
];

/// Whether `inputs` are tables: told by the first of them.
pub(crate) fn is_meant(context: &Context, inputs: &[PathBuf]) -> Result<bool> {
    let Some(first) = inputs.first() else {
        return Ok(false);
    };
    if first.is_dir() {
        return Ok(is_directory_of_tables(first));
    }
    if !first.is_file() {
        // A stream, a dataset, or nothing: what is none of these is told by who reads it.
        return Ok(false);
    }
    let sources = inputs::find(std::slice::from_ref(first), Streams::Taken, &context.files)?;
    match sources.first() {
        Some(source) if !source.is_stream() => Ok(inputs::content_of(source)?.is_table()),
        _ => Ok(false),
    }
}

/// Fails for flags of tables, where the input is none.
pub(crate) fn check_no_table(tables: &TableArgs) -> Result<()> {
    match tables.is_given() {
        false => Ok(()),
        true => Err(
            Error::usage(READ, "options of tables, and the input is no table")
                .hint("leave --columns, --union, --codec, --group-rows, --bloom and --parts out"),
        ),
    }
}

/// What all of these commands are asked for.
struct Request<'a> {
    inputs: &'a [PathBuf],
    output: Option<&'a Path>,
    tables: &'a TableArgs,
    force: bool,
    /// The output may take the place of an input.
    replace: bool,
    record_io: &'a RecordArgs,
}

/// `outcore sort` of tables.
pub(crate) fn sort(context: &Context, args: &SortArgs, resources: Resources) -> Result<u8> {
    let no = |is_given: bool, flag: &str| refuse(is_given, flag);
    no(
        args.order.is_given() || args.gnu.is_given(),
        "options for lines",
    )?;
    no(args.text.csv || args.text.jsonl, "--csv and --jsonl")?;
    no(args.is_check(), "--check")?;
    no(args.explain || args.dry_run, "--explain and --dry-run")?;
    no(args.delete_input, "--delete-input")?;
    let keys = keys_of(&args.text.by, args.descending)?;
    let request = Request {
        inputs: &args.inputs,
        output: args.output.as_deref(),
        tables: &args.tables,
        force: args.force,
        replace: args.replace,
        record_io: &args.record_io,
    };
    let order = TableOrder {
        keys,
        is_stable: args.stable,
        is_descending: args.descending,
    };
    run(context, &request, resources, |job, ends| {
        match args.unique {
            true => Ok(("kept", jobs::unique(job, ends, &order)?)),
            false => Ok(("sorted", jobs::sort(job, ends, &order)?)),
        }
    })
}

/// `outcore unique` of tables.
pub(crate) fn unique(context: &Context, args: &UniqueArgs) -> Result<u8> {
    let resources = resources::load(
        &args.resources,
        &args.drives,
        args.scratch.limit_bytes,
        resources::SEED,
    )?;
    refuse(args.order.is_given(), "options for lines")?;
    refuse(args.text.csv || args.text.jsonl, "--csv and --jsonl")?;
    refuse(args.count, "--count")?;
    refuse(args.explain, "--explain")?;
    let request = Request {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        tables: &args.tables,
        force: args.files.force,
        replace: false,
        record_io: &args.record_io,
    };
    let order = TableOrder {
        keys: keys_of(&args.text.by, args.descending)?,
        is_stable: true,
        is_descending: args.descending,
    };
    run(context, &request, resources, |job, ends| {
        Ok(("kept", jobs::unique(job, ends, &order)?))
    })
}

/// `outcore shuffle` of tables.
pub(crate) fn shuffle(context: &Context, args: &ShuffleArgs, resources: Resources) -> Result<u8> {
    refuse(args.rows.is_given(), "--csv and --jsonl")?;
    refuse(args.explain, "--explain")?;
    let request = Request {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        tables: &args.tables,
        force: args.files.force,
        replace: false,
        record_io: &args.record_io,
    };
    run(context, &request, resources, |job, ends| {
        let done = jobs::shuffle(job, ends, (args.seed, args.epoch))?;
        Ok(("shuffled", done))
    })
}

/// `outcore convert`.
pub(crate) fn convert(context: &Context, args: &ConvertArgs) -> Result<u8> {
    let resources = resources::load(&args.resources, &args.drives, None, resources::SEED)?;
    let request = Request {
        inputs: &args.inputs,
        output: Some(&args.output),
        tables: &args.tables,
        force: args.force,
        replace: false,
        record_io: &args.record_io,
    };
    run(context, &request, resources, |job, ends| {
        Ok(("converted", jobs::copy(job, ends)?))
    })
}

/// Fails for what tables do not have.
fn refuse(is_given: bool, flag: &str) -> Result<()> {
    match is_given {
        false => Ok(()),
        true => Err(Error::usage(READ, format!("{flag}: the input is a table"))
            .hint("leave them out; columns of tables are named with --by")),
    }
}

/// The columns of `--by`; all others descend if the whole order does.
fn keys_of(by: &[String], is_descending: bool) -> Result<Vec<KeyColumn>> {
    let keys = by.iter().map(|text| {
        let key = KeyColumn::parse(text)?;
        Ok(match is_descending && !text.contains(':') {
            true => key.descending(),
            false => key,
        })
    });
    keys.collect()
}

fn run(
    context: &Context,
    request: &Request<'_>,
    resources: Resources,
    work: impl FnOnce(&Job, &TableEnds<'_>) -> Result<(&'static str, TableSummary)>,
) -> Result<u8> {
    let started = Instant::now();
    let sources = sources_of(context, request.inputs)?;
    let (outputs, mut writes) = outputs_of(context, request)?;
    check_inputs_kept(&sources, &outputs, request.replace)?;
    writes.is_replacing = request.force || request.replace;
    let target = match outputs.as_slice() {
        [path] => Target::File(path.clone()),
        paths => Target::Shards {
            paths: paths.to_vec(),
            manifest: paths[0].with_file_name("_parts"),
        },
    };
    resources.named_drives(0)?;
    let kept = Kept {
        sources: &sources,
        target: Some(&target),
        force: request.force,
        ..Kept::default()
    };
    let resources = context.start(resources, request.record_io, kept)?;
    let stored_bytes = stored_bytes(request.inputs);
    let drives = scratch_drives(&resources, &target, stored_bytes)?;
    let job = resources.planned_job(drives, &target.dir());
    context.note_scratch(&resources, &target, &job);
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
    let reads = InputOptions {
        columns: (!request.tables.columns.is_empty()).then(|| request.tables.columns.clone()),
        is_union: request.tables.union,
        ..InputOptions::default()
    };
    let ends = TableEnds {
        inputs: request.inputs,
        reads: &reads,
        outputs: &outputs,
        writes: &writes,
    };
    let made = Directory::make(request, &outputs)?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (what, done) = watch(reporter, interrupt, &job.control, &[], || work(&job, &ends))?;
    made.keep();
    report(context, (request, &resources), what, &done, started);
    Ok(0)
}

/// Fails if an output is an input, unless it may be.
fn check_inputs_kept(sources: &[Source], outputs: &[PathBuf], may_replace: bool) -> Result<()> {
    let key = |path: &PathBuf| {
        std::fs::metadata(path)
            .ok()
            .map(|facts| inputs::key_of(&facts))
    };
    let is_input = |path: &&PathBuf| {
        let key = key(path);
        key.is_some() && sources.iter().any(|source| source.key == key)
    };
    match outputs.iter().find(is_input) {
        Some(path) if !may_replace => Err(Error::usage("create output", "it is an input")
            .path(path)
            .hint("name another file, or let sort replace it with --replace")),
        _ => Ok(()),
    }
}

/// A directory for parts, which goes again if they are not written.
struct Directory(Option<PathBuf>);

impl Directory {
    fn make(request: &Request<'_>, outputs: &[PathBuf]) -> Result<Self> {
        let dir = match (request.tables.parts, outputs.first()) {
            (Some(_), Some(path)) => path.parent().unwrap_or(Path::new(".")),
            _ => return Ok(Directory(None)),
        };
        match std::fs::create_dir(dir) {
            Ok(()) => Ok(Directory(Some(dir.to_path_buf()))),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Directory(None)),
            Err(error) => Err(Error::io("create directory", &error).path(dir)),
        }
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            // Only what is empty goes.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// The files that are named, for what must not be written over.
fn sources_of(context: &Context, names: &[PathBuf]) -> Result<Vec<Source>> {
    let files: Vec<PathBuf> = names
        .iter()
        .filter(|name| !name.is_dir())
        .cloned()
        .collect();
    match files.is_empty() {
        true => Ok(Vec::new()),
        false => inputs::find(&files, Streams::Refused, &context.files),
    }
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

/// The names of the output's files, and what they will look like.
fn outputs_of(context: &Context, request: &Request<'_>) -> Result<(Vec<PathBuf>, OutputOptions)> {
    let name = request
        .output
        .filter(|name| !is_stdout(name))
        .ok_or_else(|| {
            Error::usage(READ, "a table is not written to standard output")
                .hint("name a file with -o, for example -o out.parquet")
        })?;
    let name = context.files.output(name, request.force)?;
    let ending = name.extension().and_then(|ending| ending.to_str());
    let known = ENDINGS.iter().find(|(known, _)| Some(*known) == ending);
    let format = match (known, request.tables.parts) {
        (Some((_, format)), None) => *format,
        (None, Some(_)) => TableFormat::Parquet,
        (Some(_), Some(_)) => {
            let cause = "--parts writes a directory, and this is the name of a file";
            return Err(Error::usage("create output", cause)
                .path(&name)
                .hint("name a directory"));
        }
        (None, None) => {
            return Err(Error::usage("create output", "its name says no format of tables")
                .path(&name)
                .hint("let it end in .parquet, .arrow, .feather or .arrows, or name a directory and --parts"));
        }
    };
    let outputs = match request.tables.parts {
        None => vec![name.into_owned()],
        Some(parts) => (0..parts)
            .map(|part| name.join(format!("part-{part:05}.parquet")))
            .collect(),
    };
    let mut writes = OutputOptions::new(format);
    if let Some(codec) = &request.tables.codec {
        writes.codec = Codec::parse(codec)?;
    }
    if let Some(rows) = request.tables.group_rows {
        writes.group_rows_max = usize::try_from(rows).unwrap_or(usize::MAX);
    }
    writes
        .bloom_filters
        .clone_from(&request.tables.bloom_filters);
    Ok((outputs, writes))
}

fn report(
    context: &Context,
    (request, resources): (&Request<'_>, &Resources),
    what: &str,
    done: &TableSummary,
    started: Instant,
) {
    let seconds = started.elapsed().as_secs_f64();
    let traffic: [DriveTraffic; 0] = [];
    let fraction = bandwidth_fraction(&traffic, seconds, &resources.config.drives.value);
    let out_bytes = done.lens_bytes.iter().sum::<u64>();
    let summary = Summary {
        records: done.rows_out,
        seconds,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        passes: done.passes,
        bandwidth_fraction: fraction,
        ..Summary::default()
    };
    let summary = summary
        .with(
            "output",
            json!(request.output.map(|name| name.display().to_string())),
        )
        .with("rows_in", json!(done.rows_in))
        .with("output_bytes", json!(out_bytes))
        .with("files", json!(done.lens_bytes.len()))
        .with("scratch_bytes", json!(done.scratch_bytes))
        .with("phases", phases_json(&done.phases));
    let reporter = &context.reporter;
    reporter.summary(&summary);
    let rows = match done.rows_in == done.rows_out {
        true => units::counted(done.rows_out, "row"),
        false => format!(
            "{} of {}",
            units::count(done.rows_out),
            units::counted(done.rows_in, "row")
        ),
    };
    reporter.human(&format!(
        "{what} {rows}, {} out, in {}: {}",
        units::bytes(out_bytes),
        units::seconds(seconds),
        rate_text(done.read_bytes, seconds),
    ));
    if done.scratch_bytes > 0 {
        reporter.human(&format!(
            "  read {}, wrote {} with {} of scratch",
            units::bytes(done.read_bytes),
            units::bytes(done.written_bytes),
            units::bytes(done.scratch_bytes)
        ));
    }
    reporter.phases(&done.phases, false);
}

/// `outcore info`: what tables hold.
pub(crate) fn info(context: &Context, inputs: &[PathBuf]) -> Result<u8> {
    let job = Job::new(outcore::JobOptions::default(), outcore::IoMode::Auto);
    let input = TableInput::open(&job, inputs, &InputOptions::default())?;
    let rows = input.rows_count();
    let pieces = input.pieces();
    let stored_bytes: u64 = pieces.iter().map(|piece| piece.stored_bytes).sum();
    let memory_bytes = pieces
        .iter()
        .map(|piece| piece.memory_min_bytes)
        .max()
        .unwrap_or(0);
    let columns: Vec<(String, String, bool)> = input
        .schema()
        .fields()
        .iter()
        .map(|field| {
            (
                field.name().clone(),
                field.data_type().to_string(),
                field.is_nullable(),
            )
        })
        .collect();
    let reporter = &context.reporter;
    let mut text = String::new();
    text += &units::counted(rows, "row");
    text += &format!(
        " in {} and {}, {} stored; a reader needs {} at least\n",
        units::counted(input.paths().count() as u64, "file"),
        units::counted(pieces.len() as u64, "row group"),
        units::bytes(stored_bytes),
        units::bytes(memory_bytes),
    );
    let width = columns
        .iter()
        .map(|(name, ..)| name.chars().count())
        .max()
        .unwrap_or(0);
    for (name, data_type, is_nullable) in &columns {
        let null = if *is_nullable { "" } else { ", no nulls" };
        text += &format!("  {name:width$}  {data_type}{null}\n");
    }
    reporter.data(&text);
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, data_type, is_nullable)| {
            json!({"name": name, "type": data_type, "nullable": is_nullable})
        })
        .collect();
    let summary = Summary {
        records: rows,
        ..Summary::default()
    };
    let summary = summary
        .with("columns", json!(columns))
        .with("files", json!(input.paths().count()))
        .with("row_groups", json!(pieces.len()))
        .with("stored_bytes", json!(stored_bytes))
        .with("memory_min_bytes", json!(memory_bytes));
    reporter.summary(&summary);
    Ok(0)
}
