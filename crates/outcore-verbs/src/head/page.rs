//! The options of `head`.
//!
//! Contract: each option is defined here alone, with its name, type, default and help.

use clap::Args;

use crate::option::{FileArgs, RecordCount, parse_head_count};
use crate::pass::TakeArgs;

const HEAD_EXAMPLES: &str = "\
Examples:
  outcore head big.txt
  outcore head -n 1000 logs.gz
  outcore head -n -1 words.txt                 all lines but the last
  outcore head -n 5 --csv table.csv
  outcore head -n 1e6 keys.bin --type u64 -o some.bin
  outcore head t.parquet --columns url,time
  outcore head -n 1e6 logs/ -o some.parquet
  outcore head -n 100 logs/ --by bytes:desc --by time -o largest.parquet

Rows of tables are printed in the format of the first input: those of Parquet and Arrow as CSV, or
as JSON lines if a column has lists or objects.";

/// Print the first lines, records or rows of the input
///
/// Reads no more than it needs. With a negative N, it reads files twice. Several files are read as
/// one.
#[derive(Debug, Args)]
#[command(after_long_help = HEAD_EXAMPLES)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Number of lines, records or rows to print; -5 prints all but the last 5
    #[arg(
        short = 'n',
        long = "count",
        value_name = "K",
        value_parser = parse_head_count,
        default_value = "10",
        allow_hyphen_values = true
    )]
    pub(crate) records: RecordCount,
    /// Take the first rows in the order of these columns, separated by commas; COLUMN:desc is
    /// descending
    #[arg(
        long,
        value_name = "COLUMN",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) by: Vec<String>,
    #[command(flatten)]
    pub(crate) take: TakeArgs,
}
