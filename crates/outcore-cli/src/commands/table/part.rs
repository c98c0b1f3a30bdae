//! `head`, `sample` and `split` of tables: some of their rows, or all of them in several files.
//!
//! Contract: as the folder's. `head` prints rows where no output is named. Parts of a split appear
//! together or not at all.

use std::path::{Path, PathBuf};

use outcore::key::column::column_name;
use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_front::split::{PLACEHOLDER, has_placeholder, name_of_part};
use outcore_io::units;
use outcore_table::input::{InputOptions, TableInput, TextOptions, check_local};
use outcore_table::jobs;
use outcore_table::output::{FileRows, TableFormat};
use outcore_table::text::print;
use outcore_verbs::tables::unpacked;
use serde_json::json;

use super::outputs::further_output;
use super::run::run_to;
use super::{Done, OPEN, READ, Request, keys_of, run, text};
use crate::cli::ResourceArgs;
use crate::cli::commands::{HeadArgs, SampleArgs, SplitArgs};
use crate::cli::tables::TableArgs;
use crate::context::Context;
use crate::measure::Summary;
use crate::progress::watch;
use crate::resources;

pub(crate) fn head(context: &Context, args: &HeadArgs) -> Result<u8> {
    let mut text = text::options(&args.tables, &args.rows.text_flags()?, &args.files.inputs)?;
    if args.by.is_empty() {
        text.rows_max = Some(args.records);
    }
    let resources = resources::without_drives(&ResourceArgs {
        memory_bytes: args.memory_bytes,
        ..ResourceArgs::default()
    })?;
    if !args.files.is_to_stdout() || args.tables.to.is_some() {
        let request = Request::of_files(
            &args.files,
            &args.tables,
            (&args.record_io, args.explain),
            &text,
        );
        let keys = keys_of(&args.by, false)?;
        return run(context, &request, resources, |job, ends| {
            let done = match keys.is_empty() {
                true => jobs::head(job, ends, args.records)?,
                false => jobs::top(job, ends, &keys, args.records)?,
            };
            Ok(Done::new("took", done))
        });
    }
    if !args.by.is_empty() {
        return Err(Error::usage(
            READ,
            "the first rows by --by are not printed, but written to a table",
        )
        .hint("name a file with -o, for example -o first.parquet"));
    }
    let job = resources.job(Vec::new());
    let here = Path::new(".");
    let inputs = &args.files.inputs;
    let (copies, _spool) = unpacked(context, (&job, &resources), (inputs, text.kind), here)?;
    let reads = InputOptions {
        copies,
        ..super::reads(&args.tables, &text)
    };
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (rows, read_bytes) = watch(reporter, interrupt, &job.control, &[], || {
        let from = (&args.files.inputs[..], &reads);
        print(&job, from, args.records, &mut |text| {
            reporter.stdout().write(text.as_bytes());
            job.control.check()
        })
    })?;
    for said in text.bad_rows.take() {
        reporter.note(&said);
    }
    let summary = Summary {
        records: rows,
        read_bytes,
        passes: 1,
        ..Summary::default()
    };
    context
        .reporter
        .summary(&summary.with("output", json!("-")));
    Ok(0)
}

pub(crate) fn sample(context: &Context, args: &SampleArgs) -> Result<u8> {
    let text = text::options(&args.tables, &args.rows.text_flags()?, &args.files.inputs)?;
    let resources = ResourceArgs {
        memory_bytes: args.memory_bytes,
        ..ResourceArgs::default()
    };
    let resources = resources::without_drives(&resources)?;
    let request = Request::of_files(
        &args.files,
        &args.tables,
        (&args.record_io, args.explain),
        &text,
    );
    run(context, &request, resources, |job, ends| {
        let done = jobs::sample(job, ends, (args.records, args.seed))?;
        Ok(Done::new("drew", done).with("seed", json!(args.seed)))
    })
}

pub(crate) fn split(context: &Context, args: &SplitArgs) -> Result<u8> {
    args.inputs
        .first()
        .map_or(Ok(()), |first| check_local(OPEN, first))?;
    let resources = resources::load(&args.resources, &args.drives, None, resources::SEED)?;
    let tables = args.tables();
    let text = text::options(&tables, &args.rows.text_flags()?, &args.inputs)?;
    if !args.by.is_empty() {
        let text = text.needing(args.by.iter().map(|name| column_name(name)));
        return partition(context, args, resources, (tables, &text));
    }
    if !has_placeholder(&args.output) {
        let cause = format!("the name of the parts has no {PLACEHOLDER}");
        return Err(Error::usage("create output", cause)
            .path(&args.output)
            .hint("write for example -o 'part-{part}.parquet'"));
    }
    let name = |part: &str| name_of_part(&args.output, part);
    let request = Request {
        text: &text,
        inputs: &args.inputs,
        output: None,
        tables: &tables,
        force: args.force,
        replace: false,
        record_io: &args.record_io,
        is_explained: args.explain,
    };
    if let Some(share) = args.train {
        let (train, test) = (name("train"), name("test"));
        let request = request.to(&train);
        let rest = further_output(context, &request, &test)?;
        return run(context, &request, resources, |job, ends| {
            let seed = args.seed;
            let (one, other) = jobs::halves(job, ends, (share, seed), (&rest.0, &rest.1))?;
            let note = format!(
                "wrote {} to {}",
                units::counted(other.rows_out, "other row"),
                test.display()
            );
            let done = Done::new("drew", one).with("seed", json!(seed));
            Ok(done.with("test_rows", json!(other.rows_out)).note(note))
        });
    }
    let (rows, file_rows) = rows_of(context, args, (&resources, &tables, &text))?;
    let parts = rows.div_ceil(file_rows).max(1);
    if parts > PARTS_MAX {
        let cause = format!("that makes {} parts", units::count(parts));
        let cause = format!("{cause}, and at most {} can be", units::count(PARTS_MAX));
        return Err(Error::usage(READ, cause).hint("make the parts larger"));
    }
    let names: Vec<PathBuf> = (0..parts).map(|part| name(&part.to_string())).collect();
    let request = request.to(&names[0]);
    let shape = (&names[..], FileRows::Each(file_rows));
    run_to(context, &request, resources, shape, |job, ends| {
        let paths: Vec<String> = names
            .iter()
            .map(|name| name.display().to_string())
            .collect();
        let done = Done::new("split", jobs::copy(job, ends)?);
        Ok(done.with("parts", json!(paths)))
    })
}

/// The name of the only file of each directory.
const PARTITION_FILE: &str = "part-0.parquet";

/// `split --by`: a directory for each value of columns.
fn partition(
    context: &Context,
    args: &SplitArgs,
    resources: Resources,
    (tables, text): (TableArgs, &TextOptions),
) -> Result<u8> {
    let dir = args.output.clone();
    if has_placeholder(&dir) {
        let cause = format!("with --by, the output is a directory, and its name has {PLACEHOLDER}");
        return Err(Error::usage("create output", cause)
            .path(&dir)
            .hint("name a directory, for example -o by-country"));
    }
    if dir.is_file() || TableFormat::of_name(&dir).is_some() {
        let cause = "with --by, the output is a directory, and this is the name of a file";
        return Err(Error::usage("create output", cause)
            .path(&dir)
            .hint("name a directory, for example -o by-country"));
    }
    let tables = TableArgs {
        parts: Some(1),
        ..tables
    };
    let request = Request {
        text,
        inputs: &args.inputs,
        output: Some(&dir),
        tables: &tables,
        force: args.force,
        replace: false,
        record_io: &args.record_io,
        is_explained: args.explain,
    };
    let keys: Vec<String> = args.by.iter().map(|name| column_name(name)).collect();
    run(context, &request, resources, |job, ends| {
        let (done, paths) = jobs::partition(job, ends, &keys, (&dir, PARTITION_FILE))?;
        let partitions = paths.len() as u64;
        let note = format!("wrote {}", units::counted(partitions, "partition"));
        Ok(Done::new("split", done)
            .with("partitions", json!(partitions))
            .note(note))
    })
}

/// Files of one split, at most: each is open until all are published.
const PARTS_MAX: u64 = 1000;

/// Rows of the table, and of a part.
fn rows_of(
    context: &Context,
    args: &SplitArgs,
    (resources, tables, text): (&Resources, &TableArgs, &TextOptions),
) -> Result<(u64, u64)> {
    // The same files as the job that follows, or none.
    let job = resources.job(Vec::new());
    let beside = args.output.parent().unwrap_or(Path::new("."));
    let (copies, _spool) = unpacked(
        context,
        (&job, resources),
        (&args.inputs, text.kind),
        beside,
    )?;
    let reads = InputOptions {
        copies,
        ..super::reads(tables, text)
    };
    let input = TableInput::open(&job, &args.inputs, &reads)?;
    let rows = input.rows_count();
    let part_rows = match (args.parts, args.part_lines, args.part_bytes) {
        (Some(0), ..) | (_, Some(0), _) => {
            return Err(Error::usage(READ, "parts of no rows, or no parts")
                .hint("give at least 1 with --rows or -n"));
        }
        (Some(parts), ..) => rows.div_ceil(parts),
        (_, Some(part_rows), _) => part_rows,
        (_, _, bytes) => {
            let stored_bytes: u64 = input.pieces().iter().map(|piece| piece.stored_bytes).sum();
            let row_bytes = stored_bytes as f64 / rows.max(1) as f64;
            (bytes.unwrap_or(1) as f64 / row_bytes.max(f64::MIN_POSITIVE)) as u64
        }
    };
    Ok((rows, part_rows.max(1)))
}
