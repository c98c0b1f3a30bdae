//! `split` of tables.
//!
//! Contract: as [`super`].

use std::path::{Path, PathBuf};

use outcore::key::column::column_names;
use outcore::{Error, Result};
use outcore_front::output::check_placeholders;
use outcore_front::resources::Resources;
use outcore_front::split::{PLACEHOLDER, check_parts_name, has_placeholder, name_of_part};
use outcore_io::units;
use outcore_table::input::{InputOptions, TableInput, TextOptions, check_local};
use outcore_table::jobs::{self, RowRoute};
use outcore_table::output::{FileRows, TableFormat};

use super::page::{SplitArgs, SplitSummary};
use super::routed;
use crate::host::Host;
use crate::option::tables::TableArgs;
use crate::option::{SEED, resources_request};
use crate::tables::outputs::further_output;
use crate::tables::{READ, Request, keys_of, reading, reads, run, run_to, text, unpacked};

const OPEN: &str = "open input";

/// Parts of equal numbers of rows, two random halves, or a directory for each value of columns.
pub(super) fn split(host: &dyn Host, args: &SplitArgs) -> Result<SplitSummary> {
    args.inputs
        .first()
        .map_or(Ok(()), |first| check_local(OPEN, first))?;
    let resources = host.load(&resources_request(
        &args.resources,
        &args.drives,
        None,
        SEED,
    )?)?;
    let tables = args.tables();
    let text = text::options(&tables, &args.rows.text_flags()?, &args.inputs)?;
    if !args.by.is_empty() && args.splitters.is_none() {
        let text = text.needing(column_names(&args.by));
        return partition(host, args, resources, tables, &text);
    }
    if !has_placeholder(&args.output) {
        let cause = format!("the name of the parts has no {PLACEHOLDER}");
        return Err(Error::usage("create output", cause)
            .path(&args.output)
            .hint("write for example -o 'part-{part}.parquet'"));
    }
    check_parts_name(&args.output)?;
    let name = |part: &str| name_of_part(&args.output, part);
    let request = Request {
        text: &text,
        inputs: &args.inputs,
        output: None,
        tables: &tables,
        force: args.force,
        replace: false,
        keeps_journal: false,
        record_io: &args.record_io,
        is_explained: args.explain,
    };
    if routed::is_asked(args) {
        return route(host, args, resources, &request);
    }
    if let Some(share) = args.train {
        let (train, test) = (name("train"), name("test"));
        let request = request.to(&train);
        let rest = further_output(host, &request, &test)?;
        let ran = run(host, &request, resources, |job, ends| {
            jobs::halves(job, ends, share, args.seed, &rest.0, &rest.1)
        })?;
        let (_, other) = &ran.done;
        return Ok(SplitSummary {
            test_rows: Some(other.rows_out),
            ..SplitSummary::of_parts(ran.report, vec![train.clone(), test], args.seed)
        });
    }
    let (rows, file_rows) = rows_of(host, args, &resources, &tables, &text)?;
    let parts = rows.div_ceil(file_rows).max(1);
    check_count(parts)?;
    let names: Vec<PathBuf> = (0..parts).map(|part| name(&part.to_string())).collect();
    let request = request.to(&names[0]);
    let file_rows = FileRows::Each(file_rows);
    let ran = run_to(host, &request, resources, &names, file_rows, jobs::copy)?;
    Ok(SplitSummary::of_parts(ran.report, names.clone(), args.seed))
}

/// `split --splitters` and `split --random`.
fn route(
    host: &dyn Host,
    args: &SplitArgs,
    resources: Resources,
    request: &Request<'_>,
) -> Result<SplitSummary> {
    if args.splitters.is_some() && args.by.is_empty() {
        let cause = "--splitters needs the key of the rows";
        return Err(Error::usage(READ, cause).hint("name its columns with --by"));
    }
    let splitters = args.splitters.as_slice();
    let keys = keys_of(&args.by, false)?;
    let (to, count) = match &args.splitters {
        Some(_) => {
            let job = reading(host, &args.inputs, resources.clone())?.job(Vec::new());
            let count = jobs::splitters_count(&job, splitters)? + 1;
            let keys = &keys;
            (RowRoute::Ranges { splitters, keys }, count)
        }
        None => (
            RowRoute::Random { seed: args.seed },
            args.parts.unwrap_or(1),
        ),
    };
    check_count(count)?;
    let names = routed::part_names(args, count as usize);
    let file_rows = FileRows::Each(u64::MAX);
    let request = request.to(&names[0]);
    let ran = run_to(host, &request, resources, &names, file_rows, |job, ends| {
        jobs::route(job, ends, to)
    })?;
    let summary = SplitSummary::of_parts(ran.report, names.clone(), args.seed);
    Ok(summary.with_totals(&ran.done.1))
}

/// Fails for too many parts.
fn check_count(parts: u64) -> Result<()> {
    if parts <= PARTS_MAX {
        return Ok(());
    }
    let cause = format!("that makes {} parts", units::count(parts));
    let cause = format!(
        "{cause}, but at most {} are possible",
        units::count(PARTS_MAX)
    );
    Err(Error::usage(READ, cause).hint("make the parts larger"))
}

/// The name of the only file of each directory.
const PARTITION_FILE: &str = "part-0.parquet";

/// `split --by`: a directory for each value of columns.
fn partition(
    host: &dyn Host,
    args: &SplitArgs,
    resources: Resources,
    tables: TableArgs,
    text: &TextOptions,
) -> Result<SplitSummary> {
    let dir = args.output.clone();
    if has_placeholder(&dir) {
        let cause = format!("with --by, the output is a directory, and its name has {PLACEHOLDER}");
        return Err(Error::usage("create output", cause)
            .path(&dir)
            .hint("name a directory, for example -o by-country"));
    }
    let hint = "several files are written: name a directory, without braces";
    check_placeholders(&dir, &[]).map_err(|error| error.hint(hint))?;
    if dir.is_file() || TableFormat::of_name(&dir).is_some() {
        let cause = "with --by, the output is a directory, but this is the name of a file";
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
        keeps_journal: false,
        record_io: &args.record_io,
        is_explained: args.explain,
    };
    let keys = column_names(&args.by);
    let ran = run(host, &request, resources, |job, ends| {
        // A dataset is made from a directory with another name.
        let dir = ends.writes.directory.as_deref().unwrap_or(&dir);
        jobs::partition(job, ends, &keys, dir, PARTITION_FILE)
    })?;
    let (_, paths) = &ran.done;
    let partitions = paths.len() as u64;
    Ok(SplitSummary {
        partitions: Some(partitions),
        ..SplitSummary::of_parts(ran.report, Vec::new(), args.seed)
    })
}

/// The largest number of files of one split: each is open until all are published.
const PARTS_MAX: u64 = 1000;

/// The rows of the table, and of a part.
fn rows_of(
    host: &dyn Host,
    args: &SplitArgs,
    resources: &Resources,
    tables: &TableArgs,
    text: &TextOptions,
) -> Result<(u64, u64)> {
    // Reads the same files as the job that follows, or none.
    let resources = &reading(host, &args.inputs, resources.clone())?;
    let job = resources.job(Vec::new());
    let beside = args.output.parent().unwrap_or(Path::new("."));
    let (copies, _spool) = unpacked(host, &job, resources, &args.inputs, text.kind, beside)?;
    let reads = InputOptions {
        copies,
        ..reads(tables, text)
    };
    let input = TableInput::open(&job, &args.inputs, &reads)?;
    let rows = input.rows_count();
    let part_rows = match (args.parts, args.part_lines, args.part_bytes) {
        (Some(0), ..) | (_, Some(0), _) => {
            return Err(Error::usage(READ, "the number of parts or rows is 0")
                .hint("give at least 1 with --by-lines or --parts"));
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
