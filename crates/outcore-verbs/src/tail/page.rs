//! What `tail` is asked.
//!
//! Contract: each option stands here alone, with its name, type, default and help.

use clap::Args;
use outcore_io::units;

use crate::option::lines::{HeaderArgs, LineArgs, RowArgs};
use crate::option::tables::TableArgs;
use crate::option::{FileArgs, RecordCount, RecordingArgs, TypeArgs, parse_tail_count};

const TAIL_EXAMPLES: &str = "\
Examples:
  outcore tail big.txt
  outcore tail -n 1000 logs.gz
  outcore tail -n +2 words.txt                  all lines from the second on
  outcore tail -n 1e6 keys.bin --type u64 -o some.bin
  outcore tail t.parquet --columns url,time

Rows of tables are printed with tabs between their columns; with -o they are written as a table.";

/// Print the last lines, records or rows of the input
///
/// Several files are read as one. outcore reads only the end of plain lines and records. It reads
/// CSV and compressed files twice, and holds the last records of a stream in memory.
#[derive(Debug, Args)]
#[command(after_long_help = TAIL_EXAMPLES)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Number of lines or records to print; with a plus, as in +5, all from that one on
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_tail_count, default_value = "10")]
    pub(crate) records: RecordCount,
    /// Memory to use. Default: half of the free memory
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes, help_heading = "Resources")]
    pub(crate) memory_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}
