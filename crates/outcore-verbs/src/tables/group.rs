//! `group-by`: a row of aggregates for each group of a table.
//!
//! Contract: the result does not depend on memory or threads.

use clap::Args;
use outcore::Result;
use outcore_front::inputs::is_stdout;
use outcore_io::units;
use outcore_table::jobs::{self, Aggregate};

use super::inputs::NoTable;
use super::request::Settled;
use super::{Request, WriteSummary, keys_of, run};
use crate::host::{Host, Weight};
use crate::option::ResumeArgs;
use crate::option::tables::TableFileArgs;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

const GROUP_BY_EXAMPLES: &str = "\
Examples:
  outcore group-by t.parquet -o g.parquet --by country
  outcore group-by t.parquet -o g.parquet --by country --agg 'sum(bytes),count,mean(ms)'
  outcore group-by logs/ -o g.parquet --by day --by url --agg 'n=count,users=count_distinct(user)'
  outcore group-by t.parquet --agg 'sum(price * qty) as sales,arg_max(name, price)'

Aggregates: count, count(C), sum(C), mean(C), min(C), max(C), first(C), last(C), count_distinct(C),
median(C), quantile(C,0.9), quantile_disc(C,0.9), arg_min(C,BY), arg_max(C,BY). C and BY are columns or
expressions, as map takes them; a text that is the name of a column means this column. arg_min gives the
value of C in the first row where BY is smallest, among the rows where neither is null. All aggregates
except for count, first and last leave nulls out. Sums of integers have 64 bits and sums of decimals 38
digits; a larger sum is an error. Null is a group of its own. median and quantile interpolate between
two values. They give floats for integers and floats, decimals of the column's type for decimals, and
times for dates and times. quantile_disc gives one of the values, which may have any type with an order.
first and last follow the input order. The output is the same for any memory and threads.";

/// Group the rows of tables by columns, and compute sums, counts and other values of each group
///
/// OUT has one row for each group, in the order of the groups' columns. Without --by, all rows are
/// one group. If there are few groups, they are combined in memory; if there are many, the rows are
/// sorted through scratch.
#[derive(Debug, Args)]
#[command(after_long_help = GROUP_BY_EXAMPLES, mut_arg("parts", |option| option.hide(true)))]
pub(crate) struct GroupByArgs {
    #[command(flatten)]
    pub(crate) files: TableFileArgs,
    /// Columns to group by, separated by commas; append :desc to a column to put its largest values
    /// first. st.a is the field a of objects st. Default: all rows are one group
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// What to compute of each group, as in sum(bytes) or total=sum(bytes). Default: count
    #[arg(long = "agg", value_name = "AGG,...")]
    pub(crate) aggregates: Vec<String>,
    #[command(flatten)]
    pub(crate) journal: ResumeArgs,
}

/// The verb.
pub(crate) struct GroupBy;

impl Verb for GroupBy {
    const NAME: &'static str = "group-by";
    const INPUTS: Inputs = Inputs::Tables;
    type Args = GroupByArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("sort", 1.0)];

    fn run(host: &dyn Host, args: &GroupByArgs) -> Result<WriteSummary> {
        let no_table = NoTable {
            cause: "group-by takes only tables (Parquet, Arrow, .csv or .jsonl), but this file is not one",
            hint: "`outcore count-by` counts values of records",
            of_lines: "`outcore unique --count` counts lines",
        };
        let settled = Settled::of(host, &args.files, no_table)?;
        let keys = keys_of(&args.by, false)?;
        let mut aggregates = Vec::new();
        for list in &args.aggregates {
            aggregates.extend(Aggregate::parse_list(list)?);
        }
        if aggregates.is_empty() {
            aggregates.push(Aggregate::count());
        }
        let of_aggregates = aggregates.iter().flat_map(Aggregate::columns);
        let text = settled.text.needing_keys(&keys)?.needing(of_aggregates);
        let request = Request {
            keeps_journal: args.journal.resume,
            ..Request::of(&args.files, &text)
        };
        let ran = run(host, &request, settled.resources, |job, ends| {
            jobs::group_by(job, ends, &keys, &aggregates)
        })?;
        Ok(ran.report)
    }

    fn say(args: &GroupByArgs, report: &WriteSummary, words: &mut Words) {
        say(report, &said(report), args.files.plan.explain, words);
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report, &said(report))
    }

    fn takes_stdout(args: &GroupByArgs) -> bool {
        is_stdout(&args.files.output)
    }
}

/// The report in words.
fn said(report: &WriteSummary) -> Said<'static> {
    let groups = units::counted(report.used.records, "group");
    let rows = units::counted(report.records_in.unwrap_or(0), "row");
    Said::amount("made", format!("{groups} of {rows}"))
}
