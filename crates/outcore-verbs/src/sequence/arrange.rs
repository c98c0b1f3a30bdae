//! `zip`, `enumerate`, `windows`, `reverse` and `merge`: records next to others, or in another
//! order.
//!
//! Contract: bytes of records are only moved. Inputs of `merge` are sorted already.

use clap::Args;
use outcore::dataset::{ItemType, Step};
use outcore::sort::SortOptions;
use outcore::{Error, Result};
use outcore_front::records;

use super::args::{InputArgs, OutputArgs, TABLES_TOO};
use super::input::is_table;
use super::write::{Steps, WRITE, WriteRequest, say_written, write};
use crate::host::{Host, Weight};
use crate::option::tables::TableArgs;
use crate::report::WriteSummary;
use crate::verb::Verb;

const READ: &str = "read arguments";

const MERGE_EXAMPLES: &str = "\
Examples:
  outcore merge monday.bin tuesday.bin -o both.bin --type u64
  outcore merge runs.outcore.json -o all.bin --record 100 --key 0:10
  outcore merge monday.parquet tuesday.parquet -o both.parquet --by host --by time:desc";

/// Zip the records of several files
///
/// Record i of the output is record i of IN followed by record i of each file given with --zip.
#[derive(Debug, Args)]
pub(crate) struct ZipArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Put the position of each record before it
///
/// Each record of the output is a position (8 bytes, from 0) followed by the record; a .npy output
/// has the fields position and value. With --where, positions count only the records that are kept.
#[derive(Debug, Args)]
pub(crate) struct EnumerateArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Write each record together with the records that follow it
///
/// Record i of the output is records i to i + K - 1 of the input, one after another. The input is
/// read once, or up to K times where K - 1 records have more than 4 KiB.
#[derive(Debug, Args)]
pub(crate) struct WindowsArgs {
    /// Number of records in each window, 2 to 8
    #[arg(short = 'n', long = "length", value_name = "K")]
    pub(crate) window_records: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Write the last record first
#[derive(Debug, Args)]
pub(crate) struct ReverseArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Merge files that are sorted already
///
/// Each input must be in the order that `outcore sort` gives it; the output is all of them in that
/// order. A merge reads and writes the data once, where a sort does so twice. If a file of records
/// is not sorted, the output is not sorted either, which `outcore verify` finds; if a table is not,
/// the error names the row. Lines are merged by `outcore sort -m`.
#[derive(Debug, Args)]
#[command(after_long_help = MERGE_EXAMPLES, mut_arg("inputs", |arg| arg.help(TABLES_TOO)))]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Columns by which all files are sorted, as in `outcore sort --by`
    #[arg(
        long,
        value_name = "COLUMN",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) by: Vec<String>,
    /// The largest keys come first
    #[arg(long)]
    pub(crate) descending: bool,
    /// Equal keys keep the order of the inputs
    #[arg(long)]
    pub(crate) stable: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
}

/// `zip`.
pub(crate) struct Zip;

impl Verb for Zip {
    const NAME: &'static str = "zip";
    type Args = ZipArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &ZipArgs) -> Result<WriteSummary> {
        if args.input.zip.is_empty() {
            return Err(Error::usage(READ, "zip needs a second file")
                .hint("name it with --zip; several inputs in a row are read as one"));
        }
        write(
            host,
            &WriteRequest {
                what: Zip::NAME,
                input: &args.input,
                output: &args.output,
                steps: Steps::Known(Vec::new()),
                made: None,
            },
        )
    }

    say_written!("zipped");
}

/// `enumerate`.
pub(crate) struct Enumerate;

impl Verb for Enumerate {
    const NAME: &'static str = "enumerate";
    type Args = EnumerateArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &EnumerateArgs) -> Result<WriteSummary> {
        let is_array = args
            .output
            .output
            .extension()
            .is_some_and(|end| end == "npy");
        let step = move |item: &ItemType| -> Result<Step> {
            let made = match is_array {
                true => records::numbered(item)?,
                false => item.numbered()?,
            };
            Ok(Step::Enumerate { made })
        };
        write(
            host,
            &WriteRequest {
                what: Enumerate::NAME,
                input: &args.input,
                output: &args.output,
                steps: Steps::Of(&step),
                made: None,
            },
        )
    }

    say_written!("numbered");
}

/// `windows`.
pub(crate) struct Windows;

impl Verb for Windows {
    const NAME: &'static str = "windows";
    type Args = WindowsArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &WindowsArgs) -> Result<WriteSummary> {
        write(
            host,
            &WriteRequest {
                what: Windows::NAME,
                input: &args.input,
                output: &args.output,
                steps: Steps::Known(vec![Step::Windows(args.window_records)]),
                made: None,
            },
        )
    }

    say_written!("written");
}

/// `reverse`.
pub(crate) struct Reverse;

impl Verb for Reverse {
    const NAME: &'static str = "reverse";
    type Args = ReverseArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &ReverseArgs) -> Result<WriteSummary> {
        write(
            host,
            &WriteRequest {
                what: Reverse::NAME,
                input: &args.input,
                output: &args.output,
                steps: Steps::Known(vec![Step::Reverse]),
                made: None,
            },
        )
    }

    say_written!("reversed");
}

/// `merge`.
pub(crate) struct Merge;

impl Verb for Merge {
    const NAME: &'static str = "merge";
    type Args = MergeArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &MergeArgs) -> Result<WriteSummary> {
        if is_table(host, &args.input, &args.tables)? {
            #[cfg(feature = "tables")]
            {
                let ends = super::table::Ends {
                    input: &args.input,
                    output: Some(&args.output.output),
                    tables: &args.tables,
                    scratch_limit_bytes: None,
                };
                return super::table::merge(host, &ends, &args.by, args.descending);
            }
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        args.input.check_as_they_are(
            READ,
            "merge takes files as they are",
            "merge first, then filter or zip",
        )?;
        let input = InputArgs {
            record: args.input.record.ordered_by(&args.by)?,
            ..args.input.clone()
        };
        let options = SortOptions {
            descending: args.descending,
            stable: args.stable,
            ..SortOptions::default()
        };
        write(
            host,
            &WriteRequest {
                what: Merge::NAME,
                input: &input,
                output: &args.output,
                steps: Steps::Known(vec![Step::Merge { by: None, options }]),
                made: None,
            },
        )
    }

    say_written!("merged");
}
