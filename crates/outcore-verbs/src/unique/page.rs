//! What `unique` is asked.
//!
//! Contract: each option stands here alone, with its name, type, default and help.

use clap::Args;

use crate::option::lines::{FormatArgs, LineArgs, OrderArgs};
use crate::option::tables::TableArgs;
use crate::option::{FileArgs, JobArgs, TypeArgs};

const UNIQUE_EXAMPLES: &str = "\
Examples:
  outcore unique urls.txt -o distinct.txt
  outcore unique --count words.txt | sort -rn | head
  outcore unique -k1,1 access.log
  outcore unique --csv --by email users.csv
  outcore unique keys.bin --type u64 -o distinct.bin
  outcore unique --count ids.npy -o counts.npy";

/// Keep one of each line or record, in order, or count them
///
/// The output is that of `sort -u`; with --count, that of `sort | uniq -c`, or for records each
/// record followed by an 8-byte count. With keys (-k, or --by for CSV and JSON lines), one line
/// or record is kept for each key: of lines, the first in the input.
#[derive(Debug, Args)]
#[command(after_long_help = UNIQUE_EXAMPLES)]
pub(crate) struct UniqueArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Put the number of equal lines before each line, or the number of equal records after
    /// each record
    #[arg(short, long, help_heading = "Order")]
    pub(crate) count: bool,
    /// Reverse the key order (largest first)
    #[arg(short = 'r', long, alias = "reverse", help_heading = "Order")]
    pub(crate) descending: bool,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) text: FormatArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Print the plan (passes and buffers; by hashing or by sorting), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
}
