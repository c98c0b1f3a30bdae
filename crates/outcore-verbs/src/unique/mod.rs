//! `unique`: one of each line, record or row, in order, or their counts.
//!
//! Contract: lines are compared by their bytes. If the distinct lines fit in memory, one pass over
//! the input is enough; otherwise a sort is needed. `--explain` shows which of the two applies. A
//! sort also keeps one of each key. Records of CSV are read as a whole, and the header comes before
//! them. The options of GNU uniq have the same meaning, but apply to all lines and not only to
//! neighbours.

mod page;
#[cfg(feature = "tables")]
mod table;

use std::path::PathBuf;

use outcore::key::RecordFormat;
use outcore::key::sort_key::SortKey;
use outcore::primitives::Grouping;
use outcore::sort::lines::{
    LineSortOptions, Places, plan_lines, sample_lines, select_lines, sort_lines,
};
use outcore::{Error, Result};
use outcore_front::inputs::refuse_streams;
use outcore_front::resources::Resources;
use outcore_front::text::csv_files::{COUNT_COLUMN, CsvSort, Look};
use outcore_front::text::fastq::FastqOrder;
use outcore_front::text::fastq_files;
use outcore_front::text::gnu::GnuOrder;
use outcore_front::text::json::JsonFields;
use outcore_front::text::output::Dress;
use outcore_front::text::part::PartOrder;
use outcore_front::what::{Asked, What};
use serde_json::json;

use page::UniqueArgs;

use crate::host::{Host, Weight};
use crate::lines::{LineDone, LineJob, LineRequest, Overwrite, fastq_options, find, format_of};
use crate::option::lines::FormatArgs;
use crate::option::{SEED, plain_for};
use crate::sequence::args::InputArgs;
use crate::sequence::group::{self, GroupRequest, UniqueSummary};
use crate::sort::{self, SortArgs};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// Standard input and output.
const STDIO: &str = "-";

/// The verb.
pub(crate) struct Unique;

impl Verb for Unique {
    const NAME: &'static str = "unique";
    const INPUTS: Inputs = Inputs::Any;
    type Args = UniqueArgs;
    type Report = UniqueSummary;
    const PHASES: &'static [Weight] = &[("sample", 0.02), ("count", 1.0)];

    fn run(host: &dyn Host, args: &UniqueArgs) -> Result<UniqueSummary> {
        let what = what_is_read(host, args)?;
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::unique(host, args, resources_of(host, args)?);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let recognition = args.lines.recognition(args.order.separator()?);
        let sources = find(host, &args.files.inputs)?;
        let record = match what {
            What::Records | What::Array => args.record.ordered_by(&args.text.by)?,
            _ => args.record.clone(),
        };
        let is_of_fields = args.record.keys.iter().all(|key| !key.contains(':'));
        let mut types = record.to_request();
        if !args.record.is_typed() && is_of_fields {
            // The fields in `--by` are keys of lines, unless the files are records.
            types.keys.clear();
        }
        let mut format = format_of(&types, &sources, recognition)?;
        if format.is_some() {
            format = format_of(&record.to_request(), &sources, recognition)?;
        }
        if let Some(format) = format {
            host.given().applies_to(What::Array)?;
            return of_records(host, args, &format);
        }
        if args.dry_run {
            refuse_streams(&sources, "plan unique")?;
        }
        let mut text = args.text.clone();
        text.settle(what);
        of_lines(host, args, &text)
    }

    fn say(args: &UniqueArgs, report: &UniqueSummary, words: &mut Words) {
        if args.dry_run {
            return;
        }
        match report.by {
            Some(_) => group::say(Unique::NAME, report, args.explain, words),
            None => say(&report.wrote, &said(report), args.explain, words),
        }
    }

    fn headline(report: &UniqueSummary) -> String {
        match report.by {
            Some(_) => group::headline(Unique::NAME, report),
            None => headline(&report.wrote, &said(report)),
        }
    }

    fn takes_stdout(args: &UniqueArgs) -> bool {
        args.files.is_to_stdout() && !args.dry_run
    }
}

/// The verb in the report.
fn said(report: &UniqueSummary) -> Said<'static> {
    match &*report.wrote.unit {
        "row" => Said::of("kept"),
        _ => Said::of("found"),
    }
}

/// One of each line, or of each record of CSV or JSON lines.
fn of_lines(host: &dyn Host, args: &UniqueArgs, text: &FormatArgs) -> Result<UniqueSummary> {
    let plain_for = plain_for(args.journal, args.check_output);
    let request = LineRequest {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        overwrite: Overwrite::of(args.files.force),
        record_io: &args.job.record_io,
        force: args.files.force,
        takes_records: false,
        frames_fastq: text.fastq,
        plain_for,
        recognition: args
            .lines
            .recognition(args.order.separator()?)
            .telling_header(!text.is_given() && !args.header.is_given()),
    };
    // An invalid order is reported before anything is read.
    let order = order_of(args, text)?;
    let resources = resources_of(host, args)?;
    let is_resumed = args.journal.resume;
    let unit = if text.fastq { "read" } else { "line" };
    let mut lines = LineJob::prepare(host, resources, &request)?;
    let options = LineSortOptions {
        terminator: args.lines.terminator(),
        unique: !args.count && !args.occurrence.all_repeated,
        count: args.count,
        occurrences: args.occurrence.occurrences(),
        replace: lines.replace,
        on_no_key: args.tables.on_no_key(&text.by)?,
        drops_blanks: text.jsonl,
        ..LineSortOptions::default()
    };
    let options = fastq_options(text, options);
    let (order, dress, options) = settle(host, args, text, order, &mut lines, options)?;
    let order = order.as_ref();
    if args.explain || args.dry_run {
        let output = lines.set_aside(&dress)?;
        let size = lines.watch(host, || {
            let options = LineSortOptions {
                places: match args.keep_order {
                    true => Places::Added,
                    false => Places::None,
                },
                ..options
            };
            sample_lines(&lines.job, &lines.inputs(), order, options)
        })?;
        let plan = plan_lines(size)?.to_string();
        drop(output);
        if args.dry_run {
            host.print_plan(&plan, json!({"text": plan}));
            let wrote = lines.report(host, unit, LineDone::default())?;
            return Ok(UniqueSummary::of(wrote));
        }
        host.show_plan(&plan);
    }
    lines.keep_plain(host, plain_for, || identity_of(args, text))?;
    lines.begin(host, json!({}));
    let (output, pending) = match plain_for {
        Some(plain_for) => lines.open_file(&dress, plain_for)?,
        None => lines.open_output(host, &dress)?,
    };
    let done = lines.watch(host, || {
        let (job, inputs) = (&lines.job, lines.inputs());
        pending.finish(match args.keep_order {
            true => select_lines(job, &inputs, output, order, options),
            false => sort_lines(job, &inputs, output, order, options),
        })
    });
    let resuming = lines.resuming(is_resumed);
    let done = done.map_err(|error| resuming.explain(host, error))?;
    let wrote = lines.report(host, unit, LineDone::of_sort(&done))?;
    Ok(UniqueSummary::of(wrote))
}

/// The compared parts and the form of the lines, as text. Two runs of one job have the same text.
fn identity_of(args: &UniqueArgs, text: &FormatArgs) -> Result<String> {
    let mut spec = args.order.to_spec(args.descending, false)?;
    spec.keys.extend(args.record.keys.iter().cloned());
    spec.by.clone_from(&text.by);
    let words = text.said(&args.header, &spec);
    Ok(match args.part.part() {
        Some(part) => format!("{words}, compared in {part:?}"),
        None => words,
    })
}

/// The kind of the input; rejects options that do not apply to it.
fn what_is_read(host: &dyn Host, args: &UniqueArgs) -> Result<What> {
    let flags = args.text.text_flags(args.order.separator()?);
    let asked = Asked {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        is_records: args.record.is_typed(),
        is_lines: args.lines.is_lines(),
        text: flags.kind(),
        is_table: args.tables.is_given(),
        piped: args.tables.piped(),
        by: &args.text.by,
        is_text_order: args.order.is_of_lines(),
    };
    let has_line_options = !args.order.line_keys.is_empty() || args.lines.zero_terminated;
    let what = match host.what(asked)? {
        What::Csv | What::JsonLines if flags.kind().is_none() && has_line_options => What::Lines,
        What::JsonLines if flags.kind().is_none() && args.order.is_given() => What::Lines,
        What::Records => args.record.kind_of(What::Records),
        what => what,
    };
    host.check_options(what, asked)?;
    Ok(what)
}

/// The order of lines. The order by columns of CSV is known only after the header has been read.
fn order_of(args: &UniqueArgs, text: &FormatArgs) -> Result<Box<dyn SortKey>> {
    text.check_together(&args.order, args.lines)?;
    if text.jsonl && args.order.is_given() {
        return Err(Error::usage(
            "read arguments",
            "letters and separators are not for JSON lines",
        )
        .hint("values compare by their types; for descending order write .price:desc"));
    }
    if text.fastq {
        return Ok(Box::new(FastqOrder::new(&text.by, args.descending, true)?));
    }
    if text.jsonl && !text.by.is_empty() {
        let order = JsonFields::new(&text.by, args.descending, true)?;
        return Ok(Box::new(order));
    }
    if let Some(part) = args.part.part() {
        let other = args.order.separator()?.is_some() || args.order.has_keys_or_kinds();
        if other || text.is_given() {
            let cause = "a key and --skip-fields, --skip-chars or --check-chars both define what \
                         is compared";
            return Err(Error::usage("read arguments", cause)
                .hint("leave the key and its separator out, or give only a key, with -k or --by"));
        }
        let order = PartOrder {
            part,
            ignores_case: args.order.ignores_case(),
            is_descending: args.descending,
        };
        return Ok(Box::new(order));
    }
    let mut sort = args.order.to_sort(args.descending, &args.record.keys)?;
    sort.unique = true;
    Ok(Box::new(GnuOrder::new(&sort)?))
}

/// Prepares files of CSV and JSON lines; returns their order, and the form that turns lines into
/// CSV again.
fn settle(
    host: &dyn Host,
    args: &UniqueArgs,
    text: &FormatArgs,
    order: Box<dyn SortKey>,
    lines: &mut LineJob,
    options: LineSortOptions,
) -> Result<(Box<dyn SortKey>, Dress, LineSortOptions)> {
    if text.jsonl {
        lines.settle_json()?;
    }
    if text.fastq {
        return Ok((order, fastq_files::dress(), options));
    }
    if !text.csv {
        let dress = Dress {
            header: lines.settle_header(host, &args.header.rule(), options.terminator)?,
            ..Dress::default()
        };
        return Ok((order, dress, options));
    }
    let csv = CsvSort {
        by: text.by.clone(),
        separator: args.order.separator()?,
        has_header: !text.no_header,
        global: args.order.global(args.descending),
        stable: true,
        seed: SEED,
    };
    let mut csv = lines.settle_csv(host, &csv, Look::Whole)?;
    let options = csv.options(options);
    if args.count {
        csv.put_column_first(COUNT_COLUMN)?;
    }
    let order = match text.by.is_empty() {
        true => order,
        false => Box::new(csv.order),
    };
    Ok((order, csv.dress, options))
}

fn resources_of(host: &dyn Host, args: &UniqueArgs) -> Result<Resources> {
    let request = args.job.request(SEED)?;
    Ok(host.load(&request)?.measuring(args.explain || args.dry_run))
}

/// One of each record.
fn of_records(host: &dyn Host, args: &UniqueArgs, format: &RecordFormat) -> Result<UniqueSummary> {
    let is_plain = plain_for(args.journal, args.check_output).is_some();
    if !format.is_all_key() || args.descending || is_plain {
        let counting = [
            ("--count", args.count),
            ("--repeated", args.occurrence.repeated),
            ("--unique", args.occurrence.unique),
        ];
        if let Some((option, _)) = counting.iter().find(|(_, is_given)| *is_given) {
            let cause = format!(
                "{option} cannot be combined with --descending, --resume, --verify-output, or a key that is only part of the record"
            );
            return Err(Error::usage("read arguments", cause)
                .hint("use count-by to count values of a part of the record, and sort to order the counts"));
        }
        let sorted = sort::records::sort(host, &to_sort(args), resources_of(host, args)?)?;
        return Ok(UniqueSummary::of(sorted.wrote));
    }
    let mut inputs = args.files.inputs.clone();
    if inputs.is_empty() {
        inputs.push(PathBuf::from(STDIO));
    }
    let input = InputArgs {
        inputs,
        record: args.record.clone(),
        job: args.job.clone(),
        explain: args.explain,
        dry_run: args.dry_run,
        force: args.files.force,
        ..InputArgs::default()
    };
    let request = GroupRequest {
        what: Unique::NAME,
        input: &input,
        output: args.files.output.as_deref(),
        grouping: Grouping::of(args.count, args.occurrence.occurrences()),
    };
    group::of_records(host, &request)
}

/// The arguments of the sort of records that does the same.
fn to_sort(args: &UniqueArgs) -> SortArgs {
    SortArgs {
        inputs: args.files.inputs.clone(),
        // As in the other cases, a missing name means standard output.
        output: Some(args.files.output.clone().unwrap_or(STDIO.into())),
        explain: args.explain,
        dry_run: args.dry_run,
        record: args.record.clone(),
        text: args.text.clone(),
        descending: args.descending,
        unique: true,
        job: args.job.clone(),
        force: args.files.force,
        journal: args.journal,
        check_output: args.check_output,
        seed: Some(SEED),
        ..SortArgs::default()
    }
}
