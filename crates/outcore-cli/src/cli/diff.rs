//! The flags of `diff`.
//!
//! Contract: as [`super`].

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::tables::{TableArgs, TextArgs};
use super::{DriveArgs, RecordingArgs, ResourceArgs, ScratchArgs};

const DIFF_EXAMPLES: &str = "\
Examples:
  outcore diff old.parquet new.parquet --by id
  outcore diff old.csv new.csv --by id -o changes.csv
  outcore diff monday/ tuesday/ --by user --by time --columns user,time,amount -o d.parquet

OUT has the columns diff (left, right or changed) and diff_columns (those that differ, separated by commas),
then those of --by, and each other column twice, as NAME_left and NAME_right, in the order of the key.";

/// Compare two tables by key: rows of one alone, rows that changed, and in which columns
///
/// Exits with 1 if they differ. Rows of a key that comes several times are compared in the order of
/// their bytes, and the order of the tables does not matter. Null is equal to null. Both tables may
/// be larger than memory.
#[derive(Debug, Args)]
#[command(after_long_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// The left table: a file of Parquet, Arrow, CSV or JSON lines, or a directory of them
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) left: PathBuf,
    /// The right table, with the same columns
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) right: PathBuf,
    /// Key column by which rows of both tables are matched; repeat for several. Default: all
    /// columns, so that a row is in both tables or in one, and never changed
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Write the differences as a table: .parquet, .arrow, .feather, .arrows, .csv or .jsonl
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Print the plan of each sort (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}
