//! The options and the report of `shuffle`.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help.

use clap::Args;

use crate::option::lines::{HeaderArgs, LineArgs, RowArgs};
use crate::option::tables::TableArgs;
use crate::option::{
    ChecksumArgs, FileArgs, JobArgs, ResumeArgs, TypeArgs, VerifyOutputArgs, parse_count,
};
use crate::report::{WriteSummary, report};

const SHUFFLE_EXAMPLES: &str = "\
Examples:
  outcore shuffle train.jsonl -o shuffled.jsonl --seed 7 --memory 2GiB
  outcore shuffle train.jsonl -o epoch-3.jsonl --seed 7 --epoch 3
  outcore shuffle --csv table.csv -o shuffled.csv
  outcore shuffle -n 1000 big.txt              # 1000 random lines in a random order
  outcore shuffle points.npy -o shuffled.npy
  outcore shuffle tokens.bin -o out.bin --type u32x1024
  outcore shuffle visits.parquet -o shuffled.parquet --by user   # rows of one user stay together";

/// Shuffle lines, records or rows into a uniformly random order
///
/// Every order is equally likely. The same seed, epoch and input give the same output, whatever the
/// memory and the number of threads and drives.
#[derive(Debug, Args)]
#[command(
    after_long_help = SHUFFLE_EXAMPLES,
    mut_arg("resume", |option| option.conflicts_with("records")),
    mut_arg("verify_output", |option| option.conflicts_with_all(["records"])),
    mut_arg("checksum", |option| option.conflicts_with_all(["records"])),
)]
pub(crate) struct ShuffleArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Let the output replace an input: OUT is one of the inputs
    #[arg(long, help_heading = "Files")]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) journal: ResumeArgs,
    #[command(flatten)]
    pub(crate) check_output: VerifyOutputArgs,
    #[command(flatten)]
    pub(crate) sums: ChecksumArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Write only this many lines, records or rows, chosen at random, as `shuf -n` does. The chosen
    /// lines and records must fit in memory
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_count, help_heading = "Order", conflicts_with_all = ["replace", "dry_run"])]
    pub(crate) records: Option<u64>,
    /// Random seed
    #[arg(long, value_name = "N", help_heading = "Order", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of the epoch: each one gives an independent order for the same seed
    #[arg(long, value_name = "K", help_heading = "Order", default_value_t = 0)]
    pub(crate) epoch: u64,
    /// Keep rows with equal values in these columns together, in input order, and put the groups in
    /// a random order. Separate columns with commas
    #[arg(long, value_name = "COLUMN", help_heading = "Order")]
    pub(crate) by: Vec<String>,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Print the plan (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
}

report! {
    /// The result of a shuffle.
    pub(crate) struct ShuffleSummary {
        [wrote: WriteSummary],
        /// The seed.
        seed: u64,
        /// The epoch.
        epoch: u64,
        /// The sum of the hashes of all items, in hexadecimal: for records as `verify` computes it,
        /// for lines as `verify --lines`; none if it was not asked for.
        checksum: Option<String>,
    }
}
