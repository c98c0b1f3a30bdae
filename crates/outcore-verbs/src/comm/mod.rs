//! `comm`: lines or rows of the first input alone, of the second alone, and of both.
//!
//! Contract: the inputs are multisets, so they need not be sorted: outcore sorts both together, and
//! the result is that of GNU `comm` on sorted files. Records and rows of tables keep one column of
//! the three.

mod page;
mod records;
#[cfg(feature = "tables")]
mod table;

use std::path::PathBuf;

use outcore::key::ByteOrder;
use outcore::sort::lines::{
    LineSortOptions, SideCounts, Sides, plan_lines, sample_lines, sort_lines,
};
use outcore::{Error, Result};
use outcore_front::inputs::{self, FilesOnly, Streams, is_stdout, refuse_streams};
use outcore_front::resources::Resources;
use outcore_front::text::output::Dress;
use outcore_front::what::{Asked, What};
use outcore_io::units;
use serde_json::json;

use page::{CommArgs, CommSummary};

use crate::host::{Host, Weight};
use crate::lines::{LineDone, LineJob, LineRequest, Overwrite, find};
use crate::option::SEED;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// The verb.
pub(crate) struct Comm;

impl Verb for Comm {
    const NAME: &'static str = "comm";
    const INPUTS: Inputs = Inputs::Any;
    type Args = CommArgs;
    type Report = CommSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("sort", 1.0)];

    fn run(host: &dyn Host, args: &CommArgs) -> Result<CommSummary> {
        let inputs = [args.left.clone(), args.right.clone()];
        let what = what_is_read(host, args, &inputs)?;
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::comm(host, args, &inputs, resources_of(host, args)?);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        match what.is_records() {
            true => records::comm(host, args, &inputs, resources_of(host, args)?),
            false => of_lines(host, args, &inputs),
        }
    }

    fn say(args: &CommArgs, report: &CommSummary, words: &mut Words) {
        if !args.dry_run {
            say(&report.wrote, &said(report), args.explain, words);
        }
    }

    fn headline(report: &CommSummary) -> String {
        headline(&report.wrote, &said(report))
    }

    fn takes_stdout(args: &CommArgs) -> bool {
        args.output.as_deref().is_none_or(is_stdout) && !args.dry_run
    }
}

/// The report in words.
fn said(report: &CommSummary) -> Said<'static> {
    let rows = units::counted(report.wrote.records_in.unwrap_or(0), &report.wrote.unit);
    let (Some(first), Some(second), Some(both)) = (report.first, report.second, report.both) else {
        let kept = units::count(report.wrote.used.records);
        return Said::amount("kept", format!("{kept} of {rows}"));
    };
    let amount = format!(
        "{rows}: {} in the first alone, {} in the second alone, {} in both",
        units::count(first),
        units::count(second),
        units::count(both),
    );
    Said::amount("compared", amount)
}

/// The kind of the inputs; rejects options that are not for it, and inputs of two kinds. Text is
/// lines, unless its names or options say that it is CSV or JSON lines, which are tables here.
fn what_is_read(host: &dyn Host, args: &CommArgs, inputs: &[PathBuf; 2]) -> Result<What> {
    let flags = args.text.flags()?;
    let asked = Asked {
        inputs,
        output: args.output.as_deref(),
        is_records: args.record.is_typed(),
        is_lines: args.lines.is_lines(),
        text: flags.kind(),
        is_table: args.tables.is_given() || !args.by.is_empty() || host.kept_table().is_some(),
        piped: args.tables.piped(),
        by: &args.by,
        ..Asked::default()
    };
    let [what, other] = [kind_of(host, asked, 0)?, kind_of(host, asked, 1)?];
    if what.is_table() != other.is_table() || what.is_records() != other.is_records() {
        // A missing file is reported before a kind that follows from its name.
        for input in inputs.iter().filter(|input| !input.is_dir()) {
            find(host, std::slice::from_ref(input))?;
        }
        let cause = format!(
            "comm compares inputs of one kind: {} is {}, but this is {}",
            args.left.display(),
            what.plural(),
            other.plural()
        );
        return Err(Error::usage("read arguments", cause)
            .path(&args.right)
            .hint(one_kind([what, other], inputs)));
    }
    host.given().applies_to_one_of(&[what, other])?;
    Ok(what)
}

/// The next step for inputs of two kinds.
fn one_kind(kinds: [What; 2], inputs: &[PathBuf; 2]) -> &'static str {
    let is_binary = |input: &PathBuf| {
        let sources = inputs::find(std::slice::from_ref(input), Streams::Refused, &FilesOnly);
        let looked = sources.and_then(|mut found| inputs::look(found.remove(0)));
        looked.is_ok_and(|looked| !looked.content.is_text())
    };
    let are_binary = inputs.iter().filter(|input| is_binary(input)).count();
    let is_stored = kinds.contains(&What::Table);
    match kinds.iter().any(|kind| kind.is_records()) {
        true if are_binary == 2 && !is_stored => {
            "pass the type of the records of both, for example --type u64"
        }
        _ if is_stored => {
            "write the table as text first: outcore convert FILE -o OUT.csv; --csv then compares \
             both as tables"
        }
        true => "name two files of records, or two of text",
        false => "--lines compares both as lines; --csv or --jsonl compares both as tables",
    }
}

/// The kind of the input at this position.
fn kind_of(host: &dyn Host, asked: Asked<'_>, place: usize) -> Result<What> {
    let input = &asked.inputs[place..=place];
    let is_stdin = input.iter().any(|name| is_stdout(name));
    let asked = Asked {
        inputs: input,
        piped: asked.piped.filter(|_| is_stdin),
        ..asked
    };
    Ok(match host.what(asked)? {
        What::Csv => What::CsvTable,
        What::JsonLines => What::JsonTable,
        What::Fastq => {
            let cause = "comm takes lines, records and tables, but this is FASTQ";
            return Err(Error::usage("read arguments", cause).path(&input[0]).hint(
                "compare its lines with --lines, or find reads of equal sequences with `outcore unique -D --by sequence`",
            ));
        }
        what => what,
    })
}

fn resources_of(host: &dyn Host, args: &CommArgs) -> Result<Resources> {
    let request = args.job.request(SEED)?;
    Ok(host.load(&request)?.measuring(args.explain || args.dry_run))
}

/// Lines in the columns of GNU `comm`.
fn of_lines(host: &dyn Host, args: &CommArgs, inputs: &[PathBuf; 2]) -> Result<CommSummary> {
    let request = LineRequest {
        inputs,
        output: args.output.as_deref(),
        overwrite: Overwrite::of(args.force),
        record_io: &args.job.record_io,
        force: args.force,
        takes_records: false,
        frames_fastq: false,
        plain_for: None,
        recognition: args.lines.recognition(None),
    };
    if args.dry_run {
        refuse_streams(&find(host, inputs)?, "plan comm")?;
    }
    let first_inputs = find(host, &inputs[..1])?.len();
    let mut lines = LineJob::prepare(host, resources_of(host, args)?, &request)?;
    let options = LineSortOptions {
        terminator: args.lines.terminator(),
        replace: lines.replace,
        sides: Some(Sides {
            first_inputs,
            is_shown: args.is_shown(),
            separator: b'\t',
            has_total: args.total,
        }),
        ..LineSortOptions::default()
    };
    let dress = Dress {
        header: lines.settle_header(host, &args.header.rule(), options.terminator)?,
        ..Dress::default()
    };
    if args.explain || args.dry_run {
        let output = lines.set_aside(&dress)?;
        let size = lines.watch(host, || {
            sample_lines(&lines.job, &lines.inputs(), &ByteOrder, options)
        })?;
        let plan = plan_lines(size)?.to_string();
        drop(output);
        if args.dry_run {
            host.print_plan(&plan, json!({"text": plan}));
            let wrote = lines.report(host, "line", LineDone::default())?;
            return Ok(CommSummary::of(wrote));
        }
        host.show_plan(&plan);
    }
    lines.begin(host, json!({}));
    let (output, pending) = lines.open_output(host, &dress)?;
    let done = lines.watch(host, || {
        let sorted = sort_lines(&lines.job, &lines.inputs(), output, &ByteOrder, options);
        pending.finish(sorted)
    })?;
    let SideCounts {
        first,
        second,
        both,
    } = done.sides;
    let wrote = lines.report(host, "line", LineDone::of_sort(&done))?;
    Ok(CommSummary {
        first: Some(first),
        second: Some(second),
        both: Some(both),
        ..CommSummary::of(wrote)
    })
}
