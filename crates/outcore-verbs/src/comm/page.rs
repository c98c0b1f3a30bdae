//! The options and the report of `comm`.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::{Error, Result};

use crate::option::lines::{HeaderArgs, LineArgs};
use crate::option::tables::{TableArgs, TextArgs};
use crate::option::{JobArgs, TypeArgs};
use crate::report::{WriteSummary, report};

const COMM_EXAMPLES: &str = "\
Examples:
  outcore comm -12 monday.txt tuesday.txt               lines of both
  outcore comm -23 urls.txt done.txt -o left.txt        lines only in the first
  outcore comm -3 --total old.txt new.txt               what differs, and how many lines
  outcore comm -13 old.parquet new.parquet -o added.parquet
  outcore comm -12 a.csv b.csv --by id -o both.csv      rows of a.csv whose id is in b.csv
  outcore comm -23 keys.bin done.bin --type u64 -o left.bin";

/// Compare two inputs: lines, records or rows only in the first, only in the second, or in both
///
/// For lines the output is that of `comm <(sort LEFT) <(sort RIGHT)` in the C locale: three
/// columns, with tabs in front of the second and third. The inputs need not be sorted, so there is
/// no --check-order. If a line occurs 3 times in LEFT and 2 times in RIGHT, OUT has it 2 times as a
/// line of both and once as a line of LEFT alone.
///
/// Records are compared by their key, and tables, CSV and JSON lines by row. In both
/// cases, keep one of the three columns, for example with -12. Null is equal to null.
#[derive(Debug, Args)]
#[command(
    after_long_help = COMM_EXAMPLES,
    mut_arg("csv", |option| option.conflicts_with("is_lines")),
    mut_arg("jsonl", |option| option.conflicts_with("is_lines")),
    mut_arg("parts", |option| option.hide(true)),
)]
pub(crate) struct CommArgs {
    /// The first input: a file of lines or records, or a table; - is standard input. Compressed
    /// lines are decompressed
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) left: PathBuf,
    /// The second input
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) right: PathBuf,
    /// Leave out the first column: items only in LEFT
    #[arg(short = '1', long, overrides_with = "not_left")]
    pub(crate) not_left: bool,
    /// Leave out the second column: items only in RIGHT
    #[arg(short = '2', long, overrides_with = "not_right")]
    pub(crate) not_right: bool,
    /// Leave out the third column: items in both
    #[arg(short = '3', long, overrides_with = "not_both")]
    pub(crate) not_both: bool,
    /// At the end, write the number of lines in each of the three columns
    #[arg(long)]
    pub(crate) total: bool,
    /// Key columns to match rows on, or fields of .npy files, separated by commas. Default: all
    /// columns. Rows in both tables are written as in LEFT
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Output: a file of lines, compressed if its name ends in .gz, .zst, .bz2 or .xz, of records,
    /// or a table. Default: standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Print the plan (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
}

impl CommArgs {
    /// The only column of `items` that is written: 0, 1 or 2.
    ///
    /// # Errors
    /// Usage: several columns are written, or none.
    pub(crate) fn only_shown(&self, items: &str) -> Result<usize> {
        match self.is_shown() {
            [true, false, false] => Ok(0),
            [false, true, false] => Ok(1),
            [false, false, true] => Ok(2),
            _ => {
                let cause = format!(
                    "only one of the three columns can be written for {items}: pass two of \
                     --not-left, --not-right and --not-both"
                );
                Err(Error::usage("read arguments", cause)
                    .hint("for the items that only LEFT has, pass --not-right and --not-both"))
            }
        }
    }

    /// Whether the items of the first input alone, of the second alone, and of both are written.
    pub(crate) fn is_shown(&self) -> [bool; 3] {
        [!self.not_left, !self.not_right, !self.not_both]
    }
}

report! {
    /// The result of a comparison of two inputs.
    pub(crate) struct CommSummary {
        [wrote: WriteSummary],
        /// Lines or records of the first input alone; none for tables, for which only one column is
        /// computed.
        first: Option<u64>,
        /// Lines or records of the second input alone.
        second: Option<u64>,
        /// Lines or records of both inputs, each pair once.
        both: Option<u64>,
    }
}

impl CommSummary {
    /// The summary of a comparison that does not count the columns.
    pub(crate) fn of(wrote: WriteSummary) -> Self {
        CommSummary {
            wrote,
            first: None,
            second: None,
            both: None,
        }
    }
}
