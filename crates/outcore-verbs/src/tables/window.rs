//! `window`: columns that depend on a row's place in its group.
//!
//! Contract: rows are in the order of the groups, and within a group in the order of `--order`.

use clap::Args;
use outcore::key::column::column_names;
use outcore::{Error, Result};
use outcore_front::inputs::is_stdout;
use outcore_table::jobs::{self, Window as Windows, WindowColumn};

use super::inputs::NoTable;
use super::request::Settled;
use super::{Request, WriteSummary, keys_of, run};
use crate::host::{Host, Weight};
use crate::option::ResumeArgs;
use crate::option::tables::TableFileArgs;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

const WINDOW_EXAMPLES: &str = "\
Examples:
  outcore window t.parquet -o w.parquet --by user --order time --add 'nth=row_number,last=lag(page)'
  outcore window t.parquet -o w.parquet --by country --order bytes:desc --add rank,dense_rank
  outcore window t.parquet -o latest.parquet --by user --order time:desc --first 1
  outcore window t.parquet -o w.parquet --by account --order time --add 'balance=cum_sum(amount)'

Functions: row_number, rank, dense_rank, lag(C), lag(C,2), lead(C), lead(C,2), first(C), cum_sum(C),
cum_min(C) and cum_max(C). Ranks follow the columns of --order, and equal rows share a rank. lag and
lead are null if the group has no such row. cum_sum, cum_min and cum_max are the sum, the
smallest and the largest value up to the row, without nulls. Sums of integers have 64 bits and sums of
decimals 38 digits; a larger sum is an error. Null is a group of its own. The output is the same
for any memory and threads. `outcore windows` is for sequences of numbers.";

/// Add columns to tables: numbers, ranks, neighbours and running sums of rows within groups
///
/// OUT has all columns and those of --add. Rows are in the order of the groups, and within a group
/// in the order of --order; rows that are equal in both keep the order of the input.
#[derive(Debug, Args)]
#[command(after_long_help = WINDOW_EXAMPLES)]
pub(crate) struct WindowArgs {
    #[command(flatten)]
    pub(crate) files: TableFileArgs,
    /// Columns of the groups, separated by commas; append :desc to a column to put its largest
    /// values first. Default: all rows are one group
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Columns that order the rows of a group, separated by commas; append :desc to a column to put
    /// its largest values first. Default: input order
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(crate) order: Vec<String>,
    /// What to add, as in rank or previous=lag(amount)
    #[arg(
        long = "add",
        value_name = "FUNCTION,...",
        required_unless_present = "first"
    )]
    pub(crate) added: Vec<String>,
    /// Write only the first N rows of each group
    #[arg(long, value_name = "N")]
    pub(crate) first: Option<u64>,
    #[command(flatten)]
    pub(crate) journal: ResumeArgs,
}

/// The verb.
pub(crate) struct Window;

impl Verb for Window {
    const NAME: &'static str = "window";
    const INPUTS: Inputs = Inputs::Tables;
    type Args = WindowArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("sort", 1.0)];

    fn run(host: &dyn Host, args: &WindowArgs) -> Result<WriteSummary> {
        let no_table = NoTable {
            cause: "window takes only tables (Parquet, Arrow, .csv or .jsonl), but this file is not one",
            hint: "`outcore windows` is for records",
            of_lines: "`cat -n` numbers lines",
        };
        let settled = Settled::of(host, &args.files, no_table)?;
        let mut wanted = Windows {
            by: keys_of(&args.by, false)?,
            order: keys_of(&args.order, false)?,
            columns: Vec::new(),
            first: args.first,
        };
        for list in &args.added {
            wanted.columns.extend(WindowColumn::parse_list(list)?);
        }
        refuse_added(&args.files.tables.columns, &wanted.columns)?;
        let text = settled.text.needing_keys(&wanted.by)?;
        let text = text.needing_keys(&wanted.order)?;
        let request = Request {
            keeps_journal: args.journal.resume,
            ..Request::of(&args.files, &text)
        };
        let ran = run(host, &request, settled.resources, |job, ends| {
            jobs::window(job, ends, &wanted)
        })?;
        Ok(ran.report)
    }

    fn say(args: &WindowArgs, report: &WriteSummary, words: &mut Words) {
        say(report, &said(report), args.files.plan.explain, words);
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report, &said(report))
    }

    fn takes_stdout(args: &WindowArgs) -> bool {
        is_stdout(&args.files.output)
    }
}

/// Fails for `--columns` that names a column of `--add`.
fn refuse_added(kept: &[String], added: &[WindowColumn]) -> Result<()> {
    let mut kept = column_names(kept).into_iter();
    match kept.find(|name| added.iter().any(|column| column.name == *name)) {
        Some(name) => {
            let cause = format!("--columns keeps columns of the input, but `{name}` is added");
            let hint =
                format!("leave {name} out of --columns: it is written in any case, as the last");
            Err(Error::usage("read arguments", cause).hint(hint))
        }
        None => Ok(()),
    }
}

/// The report in words.
fn said(report: &WriteSummary) -> Said<'static> {
    match report.records_in.unwrap_or(0) == report.used.records {
        true => Said::of("added columns to"),
        false => Said::of("kept"),
    }
}
