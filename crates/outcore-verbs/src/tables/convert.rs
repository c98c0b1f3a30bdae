//! `convert`: copies tables to another format, with other columns or in parts.
//!
//! Contract: rows keep their order, and columns keep their types.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::Result;
use outcore_front::inputs::is_stdout;
use outcore_front::what::Asked;
use outcore_table::jobs;

use super::{Request, WriteSummary, run, text};
use crate::host::{Host, Weight};
use crate::option::tables::{TableArgs, TextArgs};
use crate::option::{
    DriveArgs, PlanArgs, RecordingArgs, ResourceArgs, SEED, STDOUT, resources_request,
};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

const CONVERT_EXAMPLES: &str = "\
Examples:
  outcore convert t.arrow -o t.parquet
  outcore convert t.csv.gz -o t.parquet --schema 'id:i64,price:decimal(12,2)'
  outcore convert logs/ -o logs.parquet --columns time,country,url
  outcore convert t.parquet -o small.parquet --codec zstd:9
  outcore convert t.parquet -o parts/ --parts 8
  producer | outcore convert - -o t.parquet     # an Arrow stream, or text with --csv or --jsonl
  outcore convert t.parquet --to arrow | consumer";

/// Copy tables between Parquet, Arrow, CSV and JSON lines, with other columns, another codec or in
/// parts
///
/// Rows keep their order, columns their types, and the schema its metadata. OUT appears whole or
/// not at all.
#[derive(Debug, Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// Files of Parquet, Arrow, CSV or JSON lines, or directories of them, in order, as one table
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output: .parquet, .arrow or .feather (Arrow file), .arrows (Arrow stream), .csv, .tsv or
    /// .jsonl, these also with .gz or .zst, or a directory with --parts. Default: standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, default_value = STDOUT, hide_default_value = true)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// The verb.
pub(crate) struct Convert;

/// The verb in the report.
const SAID: Said<'static> = Said::of("converted");

impl Verb for Convert {
    const NAME: &'static str = "convert";
    const INPUTS: Inputs = Inputs::Tables;
    type Args = ConvertArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &[("copy", 1.0)];

    fn run(host: &dyn Host, args: &ConvertArgs) -> Result<WriteSummary> {
        let request = resources_request(&args.resources, &args.drives, None, SEED)?;
        let resources = host.load(&request)?;
        let flags = args.text.flags()?;
        let asked = Asked {
            inputs: &args.inputs,
            text: flags.kind(),
            is_table: true,
            piped: args.tables.piped(),
            ..Asked::default()
        };
        // An input that is not a table is reported when it is opened.
        let what = host.what(asked)?;
        if what.is_table() {
            host.check_options(what, asked)?;
        }
        let text = text::options(&args.tables, &flags, &args.inputs)?;
        let request = Request {
            text: &text,
            inputs: &args.inputs,
            output: Some(&args.output),
            tables: &args.tables,
            force: args.force,
            replace: false,
            keeps_journal: false,
            record_io: &args.record_io,
            is_explained: args.plan.explain,
        };
        run(host, &request, resources, jobs::copy).map(|ran| ran.report)
    }

    fn say(args: &ConvertArgs, report: &WriteSummary, words: &mut Words) {
        say(report, &SAID, args.plan.explain, words);
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report, &SAID)
    }

    fn takes_stdout(args: &ConvertArgs) -> bool {
        is_stdout(&args.output)
    }
}
