//! `zip`, `enumerate`, `windows`, `reverse` and `merge`: records next to others, or in another
//! order.
//!
//! Contract: records are moved, and their bytes never change. Inputs of `merge` are sorted already.

use clap::Args;
use outcore::dataset::Step;
use outcore::sort::SortOptions;
use outcore::{Error, Result};
use outcore_front::records;

use super::args::{PassArgs, RowsArgs, TABLES_TOO, has_files};
#[cfg(feature = "tables")]
use super::table::{self, Ends};
use super::write::{Pass, Steps, write};
use crate::host::Host;
use crate::report::WriteSummary;
use crate::verb::Inputs;

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
    pub(crate) files: PassArgs,
}

/// Put the position of each record before it
///
/// Each record of the output is a position (8 bytes, from 0) followed by the record; a .npy output
/// has the fields position and value. With --where, only records that are kept have positions.
#[derive(Debug, Args)]
pub(crate) struct EnumerateArgs {
    #[command(flatten)]
    pub(crate) files: PassArgs,
}

/// Write each record together with the records that follow it
///
/// Record i of the output is records i to i + K - 1 of the input, one after another. The input is
/// read once, or up to K times if K - 1 records take more than 4 KiB.
#[derive(Debug, Args)]
pub(crate) struct WindowsArgs {
    /// Number of records in each window, 2 to 8
    #[arg(short = 'n', id = "length", long, value_name = "K")]
    pub(crate) length_records: usize,
    #[command(flatten)]
    pub(crate) files: PassArgs,
}

/// Write the last record first
#[derive(Debug, Args)]
pub(crate) struct ReverseArgs {
    #[command(flatten)]
    pub(crate) files: PassArgs,
}

/// Merge files that are already sorted
///
/// Each input must be in the order that `outcore sort` gives it; the output has the records of all
/// inputs in that order. Without --stable, all bytes of a record decide between equal keys, also in
/// the inputs. A merge reads and writes the data once, while a sort does so twice. If an input is
/// not sorted, the error names the record or row. Lines are merged by `outcore sort -m`.
#[derive(Debug, Args)]
#[command(after_long_help = MERGE_EXAMPLES, mut_arg("inputs", |arg| arg.help(TABLES_TOO)))]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) files: PassArgs,
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
    pub(crate) rows: RowsArgs,
}

has_files!(ZipArgs, EnumerateArgs, WindowsArgs, ReverseArgs, MergeArgs);

/// `zip`.
pub(crate) struct Zip;

impl Pass for Zip {
    const NAME: &'static str = "zip";
    const DONE: &'static str = "zipped";
    type Args = ZipArgs;

    fn steps(args: &ZipArgs) -> Result<Steps<'_>> {
        match args.files.input.zip.is_empty() {
            false => Ok(Steps::Known(Vec::new())),
            true => Err(Error::usage(READ, "zip needs a second file")
                .hint("name the second file with --zip; several inputs in a row are read as one")),
        }
    }
}

/// `enumerate`.
pub(crate) struct Enumerate;

impl Pass for Enumerate {
    const NAME: &'static str = "enumerate";
    const DONE: &'static str = "numbered";
    type Args = EnumerateArgs;

    fn steps(args: &EnumerateArgs) -> Result<Steps<'_>> {
        let extension = args.files.output.output.extension();
        let is_array = extension.is_some_and(|end| end == "npy");
        Ok(Steps::Of(Box::new(move |item| {
            let made = match is_array {
                true => records::numbered(item)?,
                false => item.numbered()?,
            };
            Ok(Step::Enumerate { made })
        })))
    }
}

/// `windows`.
pub(crate) struct Windows;

impl Pass for Windows {
    const NAME: &'static str = "windows";
    const DONE: &'static str = "written";
    type Args = WindowsArgs;

    fn steps(args: &WindowsArgs) -> Result<Steps<'_>> {
        Ok(Steps::Known(vec![Step::Windows(args.length_records)]))
    }
}

/// `reverse`.
pub(crate) struct Reverse;

impl Pass for Reverse {
    const NAME: &'static str = "reverse";
    const DONE: &'static str = "reversed";
    type Args = ReverseArgs;

    fn steps(_args: &ReverseArgs) -> Result<Steps<'_>> {
        Ok(Steps::Known(vec![Step::Reverse]))
    }
}

/// `merge`.
pub(crate) struct Merge;

impl Pass for Merge {
    const NAME: &'static str = "merge";
    const INPUTS: Inputs = Inputs::Any;
    const DONE: &'static str = "merged";
    type Args = MergeArgs;

    fn steps(args: &MergeArgs) -> Result<Steps<'_>> {
        args.files.input.check_as_they_are(
            READ,
            "merge reads whole files",
            "merge first, then filter or zip",
        )?;
        let options = SortOptions {
            descending: args.descending,
            stable: args.stable,
            ..SortOptions::default()
        };
        Ok(Steps::Known(vec![Step::Merge { by: None, options }]))
    }

    fn of_records(host: &dyn Host, args: &MergeArgs) -> Result<WriteSummary> {
        let mut files = args.files.clone();
        files.input.record = files.input.record.ordered_by(&args.by)?;
        write(host, Merge::NAME, &files, Merge::steps(args)?)
    }

    fn rows(args: &MergeArgs) -> Option<&RowsArgs> {
        Some(&args.rows)
    }

    #[cfg(feature = "tables")]
    fn of_rows(host: &dyn Host, ends: &Ends<'_>, args: &MergeArgs) -> Result<WriteSummary> {
        table::merge(host, ends, &args.by, args.descending)
    }
}
