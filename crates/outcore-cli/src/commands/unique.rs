//! `outcore unique`: one of each line or record, in order, or how many there are.
//!
//! Contract: by bytes, in one pass over the input where the different ones fit into memory, else by
//! a sort; --explain says which. Where one of each key is kept, and not one of each, a sort does
//! it. Records of CSV are whole, after their header.

use std::path::PathBuf;

use outcore::key::RecordFormat;
use outcore::key::sort_key::SortKey;
use outcore::primitives::Grouping;
use outcore::sort::lines::{LineSortOptions, plan_lines, sample_lines, sort_lines};
use outcore::{Error, Result};
use outcore_front::inputs::refuse_streams;
use outcore_front::resources::Resources;
use outcore_front::text::csv_files::{COUNT_COLUMN, CsvSort, Look};
use outcore_front::text::gnu::GnuOrder;
use outcore_front::text::json::JsonFields;
use outcore_front::text::output::Dress;
use outcore_front::what::{Asked, What};
use outcore_io::units;
use outcore_verbs::host::Host;
use serde_json::json;

use super::line_report::{report, report_planned};
use super::sort;
use super::table;
use crate::cli::SortArgs;
use crate::cli::commands::UniqueArgs;
use crate::context::Context;
use crate::pipe::CLOSED_PIPE;
use crate::{pipe, resources};
use outcore_verbs::lines::{LineDone, LineJob, LineRequest, Overwrite, find, format_of};
use outcore_verbs::sequence::args::InputArgs;
use outcore_verbs::sequence::group::{self, GroupRequest};
use outcore_verbs::verb::Words;

/// Standard input and output.
const STDIO: &str = "-";

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &mut UniqueArgs) -> Result<u8> {
    let what = what_is_read(context, args)?;
    if what.is_table() {
        return table::unique(context, args);
    }
    args.text.settle(what);
    let recognition = args.lines.recognition(args.order.separator()?);
    let sources = find(context, &args.files.inputs)?;
    if let Some(format) = format_of(&args.record.to_request(), &sources, recognition)? {
        context.given.applies_to(What::Array)?;
        return of_records(context, args, &format);
    }
    if args.dry_run {
        refuse_streams(&sources, "plan unique")?;
    }
    let resources = resources_of(args)?;
    let request = LineRequest {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        overwrite: Overwrite::of(args.files.force),
        record_io: &args.record_io,
        force: args.files.force,
        takes_records: false,
        recognition,
    };
    // Told before anything is read.
    let order = order_of(args)?;
    let mut lines = LineJob::prepare(context, resources, &request)?;
    let options = LineSortOptions {
        terminator: args.lines.terminator(),
        unique: !args.count,
        count: args.count,
        replace: lines.replace,
        on_no_key: args.tables.on_no_key(&args.text.by)?,
        drops_blanks: args.text.jsonl,
        ..LineSortOptions::default()
    };
    let (order, dress, options) = settle(context, args, order, &mut lines, options)?;
    let order = order.as_ref();
    if args.explain || args.dry_run {
        let output = lines.set_aside(&Dress::default())?;
        let size = lines.watch(context, || {
            sample_lines(&lines.job, &lines.inputs(), order, options)
        })?;
        let plan = plan_lines(size)?.to_string();
        drop(output);
        if args.dry_run {
            return report_planned(context, &lines, &plan);
        }
        context.reporter.human(&plan);
    }
    lines.begin(context, json!({}));
    let (output, pending) = lines.open_output(context, &dress)?;
    let done = lines.watch(context, || {
        pending.finish(sort_lines(
            &lines.job,
            &lines.inputs(),
            output,
            order,
            options,
        ))
    });
    let summary = match done {
        Err(error) if pipe::is_closed(&lines.target, &error) => return Ok(CLOSED_PIPE),
        done => done?,
    };
    if summary.skipped > 0 {
        let skipped = units::counted(summary.skipped, "line");
        let note = format!("left out {skipped} without a key");
        context.reporter.note(&note);
    }
    report(context, &lines, "found", LineDone::of_sort(&summary))
}

/// The kind of the input; rejects options that are not for it.
fn what_is_read(context: &Context, args: &UniqueArgs) -> Result<What> {
    let flags = args.text.text_flags(args.order.separator()?);
    let asked = Asked {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        is_records: args.record.is_typed(),
        is_lines: args.lines.is_lines,
        text: flags.kind(),
        is_table: args.tables.is_given(),
        piped: args.tables.piped(),
        by: &args.text.by,
        is_text_order: args.order.is_of_lines(),
    };
    let has_line_options = !args.order.line_keys.is_empty() || args.lines.zero_terminated;
    let what = match context.what(asked)? {
        What::Csv | What::JsonLines if flags.kind().is_none() && has_line_options => What::Lines,
        What::JsonLines if flags.kind().is_none() && args.order.is_given() => What::Lines,
        what => what,
    };
    context.check_options(what, asked)?;
    Ok(what)
}

/// The order of lines; that of columns of CSV is only known with their header.
fn order_of(args: &UniqueArgs) -> Result<Box<dyn SortKey>> {
    args.text.check_together(&args.order, args.lines)?;
    if args.text.jsonl && args.order.is_given() {
        return Err(Error::usage(
            "read arguments",
            "letters and separators are not for JSON lines",
        )
        .hint("values compare by their types; for descending order write .price:desc"));
    }
    if args.text.jsonl && !args.text.by.is_empty() {
        let order = JsonFields::new(&args.text.by, args.descending, true)?;
        return Ok(Box::new(order));
    }
    let mut sort = args.order.to_sort(args.descending)?;
    sort.unique = true;
    Ok(Box::new(GnuOrder::new(&sort)?))
}

/// Makes files of CSV and JSON lines ready; gives the order that is meant, and what makes CSV of
/// its lines again.
fn settle(
    context: &Context,
    args: &UniqueArgs,
    order: Box<dyn SortKey>,
    lines: &mut LineJob,
    options: LineSortOptions,
) -> Result<(Box<dyn SortKey>, Dress, LineSortOptions)> {
    if args.text.jsonl {
        lines.settle_json()?;
    }
    if !args.text.csv {
        return Ok((order, Dress::default(), options));
    }
    let csv = CsvSort {
        by: args.text.by.clone(),
        separator: args.order.separator()?,
        has_header: !args.text.no_header,
        global: args.order.global(args.descending),
        stable: true,
        seed: resources::SEED,
    };
    let mut csv = lines.settle_csv(context, &csv, Look::Whole)?;
    let options = csv.options(options);
    if args.count {
        csv.put_column_first(COUNT_COLUMN)?;
    }
    let order = match args.text.by.is_empty() {
        true => order,
        false => Box::new(csv.order),
    };
    Ok((order, csv.dress, options))
}

fn resources_of(args: &UniqueArgs) -> Result<Resources> {
    let loaded = resources::load(
        &args.resources,
        &args.drives,
        args.scratch.limit_bytes,
        resources::SEED,
    )?;
    Ok(loaded.measuring(args.explain || args.dry_run))
}

/// One of each record.
fn of_records(context: &Context, args: &UniqueArgs, format: &RecordFormat) -> Result<u8> {
    if !format.is_all_key() || args.descending {
        if args.count {
            let cause = "--count cannot be combined with --descending, or with a key that is only part of the record";
            return Err(Error::usage("read arguments", cause)
                .hint("use count-by to count values of a part of the record, and sort to order the counts"));
        }
        return sort::run_records(context, &to_sort(args), resources_of(args)?);
    }
    let mut inputs = args.files.inputs.clone();
    if inputs.is_empty() {
        inputs.push(PathBuf::from(STDIO));
    }
    let input = InputArgs {
        inputs,
        record: args.record.clone(),
        resources: args.resources.clone(),
        drives: args.drives.clone(),
        explain: args.explain,
        dry_run: args.dry_run,
        record_io: args.record_io.clone(),
        force: args.files.force,
        ..InputArgs::default()
    };
    let request = GroupRequest {
        what: "unique",
        input: &input,
        scratch_limit_bytes: args.scratch.limit_bytes,
        output: args.files.output.as_deref(),
        grouping: match args.count {
            true => Grouping::Counted,
            false => Grouping::Unique,
        },
    };
    let report = group::of_records(context, &request);
    let report = match report {
        Err(error) if pipe::is_closed_by(&error) => return Ok(CLOSED_PIPE),
        report => report?,
    };
    let mut words = Words::default();
    if !args.dry_run {
        group::say("unique", &report, args.explain, &mut words);
    }
    context.reporter.report(json!(report), &words);
    Ok(0)
}

/// The same as a sort of records.
fn to_sort(args: &UniqueArgs) -> SortArgs {
    SortArgs {
        inputs: args.files.inputs.clone(),
        // As the other ways, which write to standard output without a name.
        output: Some(args.files.output.clone().unwrap_or(STDIO.into())),
        explain: args.explain,
        dry_run: args.dry_run,
        record: args.record.clone(),
        descending: args.descending,
        unique: true,
        resources: args.resources.clone(),
        drives: args.drives.clone(),
        scratch: args.scratch.clone(),
        force: args.files.force,
        seed: Some(resources::SEED),
        record_io: args.record_io.clone(),
        ..SortArgs::default()
    }
}
