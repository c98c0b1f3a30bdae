//! `join`: combines two tables by columns that they have in common.
//!
//! Contract: the result does not depend on memory or threads.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::Result;
use outcore::key::column::column_names;
use outcore::key::column::listed;
use outcore_front::inputs::is_stdout;
use outcore_io::units;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{self, AsOf, ColumnPair, Join as Joined, JoinKind, TableEnds};

use super::inputs::{NoTable, check_both_tables};
use super::{Request, WriteSummary, run, text};
use crate::host::{Host, Weight};
use crate::option::tables::{TableArgs, TextArgs};
use crate::option::{JobArgs, PlanArgs, ResumeArgs, SEED, STDOUT};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

const JOIN_EXAMPLES: &str = "\
Examples:
  outcore join orders.parquet customers.parquet -o all.parquet --on customer_id
  outcore join orders.parquet customers.parquet -o all.parquet --on customer_id=id --how left
  outcore join docs.parquet blocked.parquet -o kept.parquet --on url --how anti
  outcore join trades.parquet quotes.parquet -o p.parquet --on symbol --asof time --tolerance 5s

OUT has the columns of LEFT, then those of RIGHT without its --on columns. It is in the order of the
--on columns, nulls last; within a key, rows are in the order of LEFT, and the partners of a row in the
order of RIGHT. It is the same for any memory and threads. A null equals nothing, not even another null.

--asof finds one partner for each row of LEFT: among the rows of RIGHT with its key, the last one
whose value in the column is not greater. Rows without a partner are kept, with nulls;
--how inner leaves them out.

Columns of different types are compared by value in a common type: integers and floats, decimals of any
scale, texts, dictionaries, dates, timestamps of any unit. Nothing is rounded: a value that does not fit in
the common type is an error. A key may have more rows than fit in memory.

--unordered keeps RIGHT in memory if it fits, and looks up the rows of LEFT in it. This saves the sort, and
OUT is in the order of LEFT. If RIGHT does not fit, or with --how right, full or --asof, both tables are sorted.";

/// Join two tables by columns that they have in common
///
/// Both tables are sorted together through scratch, so neither has to fit in memory. OUT appears
/// whole or not at all.
#[derive(Debug, Args)]
#[command(
    after_long_help = JOIN_EXAMPLES,
    mut_arg("parts", |option| option.hide(true)),
    mut_arg("resume", |option| option.conflicts_with("unordered")),
)]
pub(crate) struct JoinArgs {
    /// The left table: a file of Parquet, Arrow, CSV or JSON lines, or a directory of them
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) left: PathBuf,
    /// The right table
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) right: PathBuf,
    /// Columns to join on, separated by commas: NAME, or LEFT=RIGHT if the names differ
    #[arg(long, value_name = "COLUMN")]
    pub(crate) on: Vec<String>,
    /// Which rows to write: inner, left, right, full, semi (rows of LEFT that have a partner) or
    /// anti (rows of LEFT that have none). Default: inner, and left with --asof
    #[arg(long, value_name = "KIND")]
    pub(crate) how: Option<String>,
    /// As-of join: the partner is the last row of RIGHT whose value in this column is not greater
    #[arg(long, value_name = "COLUMN")]
    pub(crate) asof: Option<String>,
    /// Maximum distance of the partner of --asof: a number, or a duration such as 5min
    #[arg(long, value_name = "SPAN", requires = "asof")]
    pub(crate) tolerance: Option<String>,
    /// Suffix for the name of a column of RIGHT if LEFT has a column of that name
    #[arg(long, value_name = "TEXT", default_value = "_right")]
    pub(crate) suffix: String,
    /// Write rows in any order: faster if RIGHT fits in two fifths of the memory
    #[arg(long)]
    pub(crate) unordered: bool,
    /// Output: .parquet, .arrow or .feather (Arrow file), .arrows (Arrow stream), .csv, .tsv or
    /// .jsonl, these also with .gz or .zst. Default: standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, default_value = STDOUT, hide_default_value = true)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) journal: ResumeArgs,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
}

/// The verb.
pub(crate) struct Join;

impl Verb for Join {
    const NAME: &'static str = "join";
    const INPUTS: Inputs = Inputs::Tables;
    type Args = JoinArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("sort", 1.0)];

    fn run(host: &dyn Host, args: &JoinArgs) -> Result<WriteSummary> {
        let inputs = [args.left.clone(), args.right.clone()];
        let no_table = NoTable {
            cause: "join takes only tables (Parquet, Arrow, .csv or .jsonl), but this file is not one",
            hint: "`outcore lookup` finds records by a key",
            of_lines: "join joins sorted lines",
        };
        let flags = args.text.flags()?;
        check_both_tables(host, &inputs, &args.tables, &flags, no_table)?;
        text::check_from(&args.tables, &inputs)?;
        let text = text::options(&args.tables, &flags, &[])?;
        let request = args.job.request(SEED)?;
        let resources = host.load(&request)?;
        let wanted = wanted(args)?;
        let request = Request {
            text: &text,
            inputs: &inputs,
            output: Some(&args.output),
            tables: &args.tables,
            force: args.force,
            replace: false,
            keeps_journal: args.journal.resume,
            verifies_output: false,
            record_io: &args.job.record_io,
            is_explained: args.plan.explain,
        };
        let ran = run(host, &request, resources, |job, ends| {
            let (left, right) = ends.inputs.split_at(1);
            // `--columns` chooses columns of the output, not of the inputs.
            let reads = InputOptions {
                columns: None,
                ..ends.reads.clone()
            };
            let ends = TableEnds {
                inputs: left,
                reads: &reads,
                ..*ends
            };
            jobs::join(job, &ends, (right, &reads), &wanted)
        })?;
        Ok(ran.report)
    }

    fn say(args: &JoinArgs, report: &WriteSummary, words: &mut Words) {
        say(report, &said(report), args.plan.explain, words);
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report, &said(report))
    }

    fn takes_stdout(args: &JoinArgs) -> bool {
        is_stdout(&args.output)
    }
}

/// The requested join.
fn wanted(args: &JoinArgs) -> Result<Joined> {
    let asof = match &args.asof {
        None => None,
        Some(text) => Some(AsOf {
            columns: ColumnPair::parse(text)?,
            tolerance: args.tolerance.clone(),
        }),
    };
    let kind = match (&args.how, &asof) {
        (Some(name), _) => JoinKind::parse(name)?,
        (None, Some(_)) => JoinKind::Left,
        (None, None) => JoinKind::Inner,
    };
    let on = args.on.iter().flat_map(|list| listed(list));
    let on = on.map(ColumnPair::parse);
    let columns = column_names(&args.tables.columns);
    Ok(Joined {
        on: on.collect::<Result<_>>()?,
        kind,
        asof,
        suffix: args.suffix.clone(),
        columns: (!columns.is_empty()).then_some(columns),
        is_unordered: args.unordered,
        is_of_multisets: false,
    })
}

/// The report in words.
fn said(report: &WriteSummary) -> Said<'static> {
    let joined = units::counted(report.used.records, "row");
    let rows = units::counted(report.records_in.unwrap_or(0), "row");
    Said::amount("joined", format!("{rows} of both tables to {joined}"))
}
