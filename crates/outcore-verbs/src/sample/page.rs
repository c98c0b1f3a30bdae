//! The options and the report of `sample`.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help.

use clap::Args;

use crate::option::{FileArgs, parse_count};
use crate::pass::TakeArgs;
use crate::report::{WriteSummary, report};

const SAMPLE_EXAMPLES: &str = "\
Examples:
  outcore sample -n 1000 big.txt
  outcore sample -n 1e5 train.jsonl -o some.jsonl --seed 7
  outcore sample -n 100 --csv table.csv
  producer | outcore sample -n 20
  producer | outcore sample --rate 0.01
  outcore sample -n 1e6 --with-replacement keys.bin --type u64 -o bootstrap.bin
  outcore sample -n 1e5 docs.parquet -o some.parquet";

/// Print randomly chosen lines, records or rows, in input order
///
/// Reads the input once, and keeps only the sample in memory; with --rate, it keeps nothing in
/// memory. Every sample of that size is equally likely; the same seed gives the same sample.
#[derive(Debug, Args)]
#[command(after_long_help = SAMPLE_EXAMPLES)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Number of lines, records or rows to print; all of them, if there are fewer
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_count)]
    pub(crate) records: Option<u64>,
    /// Print each line or record with this probability, between 0 and 1. The sample may be of
    /// any size
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["records", "with_replacement"])]
    pub(crate) rate: Option<f64>,
    /// Draw with replacement: a line or record may be printed several times in a row. Streams are
    /// rejected, since the input must be counted first
    #[arg(long)]
    pub(crate) with_replacement: bool,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) take: TakeArgs,
}

report! {
    /// The result of a sample.
    pub(crate) struct SampleSummary {
        [wrote: WriteSummary],
        /// The seed.
        seed: u64,
    }
}
