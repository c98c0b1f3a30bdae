//! The options of `tail`.
//!
//! Contract: each option is defined here alone, with its name, type, default and help.

use clap::Args;

use crate::option::{FileArgs, RecordCount, parse_tail_count};
use crate::pass::TakeArgs;

const TAIL_EXAMPLES: &str = "\
Examples:
  outcore tail big.txt
  outcore tail -n 1000 logs.gz
  outcore tail -n +2 words.txt                  all lines from the second on
  outcore tail -n 1e6 keys.bin --type u64 -o some.bin
  outcore tail t.parquet --columns url,time

Rows of tables are printed in the format of the first input: those of Parquet and Arrow as CSV, or
as JSON lines if a column has lists or objects.";

/// Print the last lines, records or rows of the input
///
/// Several files are read as one. outcore reads only the end of plain lines and records. It reads
/// CSV and compressed files twice, and holds the last records of a stream in memory.
#[derive(Debug, Args)]
#[command(after_long_help = TAIL_EXAMPLES)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Number of lines, records or rows to print; +5 starts at the fifth one
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_tail_count, default_value = "10", allow_hyphen_values = true)]
    pub(crate) records: RecordCount,
    #[command(flatten)]
    pub(crate) take: TakeArgs,
}
