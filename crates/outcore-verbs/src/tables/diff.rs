//! `diff`: the differences between two tables.
//!
//! Contract: the command writes a table of the differences if the user names an output. It exits
//! with 1 if the tables differ.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::{Error, Result};
use outcore_front::inputs::is_stdout;
use outcore_io::units;
use outcore_table::jobs::{self, TableEnds};
use outcore_table::output::{OutputOptions, TableFormat};

use super::inputs::{NoTable, check_both_tables};
use super::outputs::outputs_of;
use super::{Outputs, Request, WriteSummary, keys_of, run_with, text};
use crate::host::{Host, Weight};
use crate::option::tables::{TableArgs, TextArgs};
use crate::option::{JobArgs, SEED, STDOUT};
use crate::report::report;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

const DIFF_EXAMPLES: &str = "\
Examples:
  outcore diff old.parquet new.parquet --by id
  outcore diff old.csv new.csv --by id -o changes.csv
  outcore diff monday/ tuesday/ --by user --by time --columns user,time,amount -o d.parquet

OUT has the columns diff (left, right or changed), diff_columns (the columns that differ, separated by commas)
and those of --by. It has each other column twice, as NAME_left and NAME_right. Rows are in the order of the key.";

/// Compare two tables by key: rows in only one of them, rows that changed, and in which columns
///
/// Exits with 1 if they differ. Rows with the same key are compared in the order of their bytes.
/// The order of the tables does not matter. Null is equal to null. Both tables may be larger than
/// memory.
#[derive(Debug, Args)]
#[command(after_long_help = DIFF_EXAMPLES, mut_arg("parts", |option| option.hide(true)))]
pub(crate) struct DiffArgs {
    /// The left table: a file of Parquet, Arrow, CSV or JSON lines, or a directory of them
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) left: PathBuf,
    /// The right table, with the same columns
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) right: PathBuf,
    /// Key columns to match rows on, separated by commas. Default: all columns. A row is then in
    /// both tables or in only one; none is reported as `changed`
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Write the differences as a table: .parquet, .arrow, .feather, .arrows, .csv, .tsv or .jsonl
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Print the plan of each sort (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
}

report! {
    /// The numbers of rows that differ and that do not.
    pub(crate) struct DiffSummary {
        [table: WriteSummary],
        /// Rows that the left table alone has.
        left_rows: u64,
        /// Rows that the right table alone has.
        right_rows: u64,
        /// Rows of both that differ in columns outside the key.
        changed_rows: u64,
        /// Rows of both that are equal.
        equal_rows: u64,
    }
}

/// Changes the hint of an error about tables with different columns: `diff` has no `--union`.
fn common_columns(error: Error) -> Error {
    match error
        .next_step()
        .is_some_and(|hint| hint.ends_with("with --union"))
    {
        true => error.hint("compare the columns that both have: --columns a,b"),
        false => error,
    }
}

/// The verb.
pub(crate) struct Diff;

impl Verb for Diff {
    const NAME: &'static str = "diff";
    const INPUTS: Inputs = Inputs::Tables;
    type Args = DiffArgs;
    type Report = DiffSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("sort", 1.0), ("compare", 1.0)];

    fn run(host: &dyn Host, args: &DiffArgs) -> Result<DiffSummary> {
        let inputs = [args.left.clone(), args.right.clone()];
        let no_table = NoTable {
            cause: "diff takes only tables (Parquet, Arrow, .csv or .jsonl), but this file is not one",
            hint: "`outcore comm -3` shows the records that differ, in sorted files",
            of_lines: "`outcore comm -3` shows the lines that differ, in sorted files",
        };
        let flags = args.text.flags()?;
        check_both_tables(host, &inputs, &args.tables, &flags, no_table)?;
        text::check_from(&args.tables, &inputs)?;
        let keys = keys_of(&args.by, false)?;
        let text = text::options(&args.tables, &flags, &[])?.needing_keys(&keys)?;
        let request = args.job.request(SEED)?;
        let resources = host.load(&request)?;
        check_has_output(args)?;
        // `--to` gives the format of standard output, so it asks for standard output.
        let to_stdout = args.tables.to.map(|_| Path::new(STDOUT));
        let output = args.output.as_deref().or(to_stdout);
        let request = Request {
            inputs: &inputs,
            output,
            tables: &args.tables,
            force: args.force,
            replace: false,
            keeps_journal: false,
            verifies_output: false,
            record_io: &args.job.record_io,
            is_explained: args.explain,
            text: &text,
        };
        let outputs = match output {
            Some(_) => outputs_of(host, &request)?,
            None => Outputs {
                files: Vec::new(),
                writes: OutputOptions::new(TableFormat::ArrowFile),
            },
        };
        let ran = run_with(host, &request, resources, outputs, |job, ends| {
            let (left, right) = ends.inputs.split_at(1);
            let ends = TableEnds {
                inputs: left,
                ..*ends
            };
            jobs::diff(job, &ends, (right, ends.reads), &keys)
        })
        .map_err(common_columns)?;
        Ok(DiffSummary {
            table: ran.report,
            left_rows: ran.done.left_rows,
            right_rows: ran.done.right_rows,
            changed_rows: ran.done.changed_rows,
            equal_rows: ran.done.equal_rows,
        })
    }

    fn say(args: &DiffArgs, report: &DiffSummary, words: &mut Words) {
        say(&report.table, &said(report), args.explain, words);
    }

    fn headline(report: &DiffSummary) -> String {
        headline(&report.table, &said(report))
    }

    fn takes_stdout(args: &DiffArgs) -> bool {
        args.output
            .as_deref()
            .map_or(args.tables.to.is_some(), is_stdout)
    }

    fn is_right(report: &DiffSummary) -> bool {
        report.left_rows + report.right_rows + report.changed_rows == 0
    }
}

/// Rejects options of the output if no table is written.
fn check_has_output(args: &DiffArgs) -> Result<()> {
    let tables = &args.tables;
    let given = [
        (tables.codec.is_some(), "--codec"),
        (tables.group_rows.is_some(), "--group-rows"),
        (!tables.bloom_filters.is_empty(), "--bloom"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) if args.output.is_none() && tables.to.is_none() => {
            let cause = format!("{option} is for a table, but none is written");
            Err(Error::usage("read arguments", cause).hint("name it with -o"))
        }
        _ => Ok(()),
    }
}

/// The report in words.
fn said(report: &DiffSummary) -> Said<'static> {
    let amount = format!(
        "{}: {} in the left table alone, {} in the right one alone, {} changed, {} equal",
        units::counted(report.table.records_in.unwrap_or(0), "row"),
        units::count(report.left_rows),
        units::count(report.right_rows),
        units::count(report.changed_rows),
        units::count(report.equal_rows),
    );
    Said::amount("compared", amount)
}
