//! What `head` is asked.
//!
//! Contract: each option stands here alone, with its name, type, default and help.

use clap::Args;
use outcore_io::units;

use crate::option::lines::{HeaderArgs, LineArgs, RowArgs};
use crate::option::tables::TableArgs;
use crate::option::{FileArgs, RecordCount, RecordingArgs, TypeArgs, parse_head_count};

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

Rows of tables are printed with tabs between their columns; with -o they are written as a table.";

/// Print the first lines, records or rows of the input
///
/// Reads no more than it needs; for all but the last ones, files are read twice.
/// Several files are read as one.
#[derive(Debug, Args)]
#[command(after_long_help = HEAD_EXAMPLES)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Number of lines or records to print; with a minus, as in -5, all but so many at the end
    #[arg(
        short = 'n',
        long = "count",
        value_name = "K",
        value_parser = parse_head_count,
        default_value = "10",
        allow_hyphen_values = true
    )]
    pub(crate) records: RecordCount,
    /// Take the first rows in the order of these columns, with commas between: COLUMN:desc takes
    /// the last ones
    #[arg(
        long,
        value_name = "COLUMN",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) by: Vec<String>,
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
