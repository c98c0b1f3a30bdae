//! The flags of `window`.
//!
//! Contract: as [`super`].

use clap::Args;

use super::tables::TableFileArgs;

const WINDOW_EXAMPLES: &str = "\
Examples:
  outcore window t.parquet -o w.parquet --by user --order time --add 'n=row_number,before=lag(page)'
  outcore window t.parquet -o w.parquet --by country --order bytes:desc --add rank,dense_rank
  outcore window t.parquet -o latest.parquet --by user --order time:desc --first 1
  outcore window t.parquet -o w.parquet --by account --order time --add 'balance=cum_sum(amount)'

Functions: row_number, rank, dense_rank, lag(C), lag(C,2), lead(C), lead(C,2), first(C) and cum_sum(C).
Ranks go by the columns of --order, where equal rows have one rank. lag and lead give null where there
is no such row in the group. cum_sum is the sum up to the row, nulls left out; sums of integers have 64
bits and sums of decimals 38 digits; one that is larger is an error. Null is a group of its own.
The output is the same for any memory and threads. `outcore windows` is for sequences of numbers.";

/// Add columns to tables: numbers, ranks, neighbours and running sums of rows within groups
///
/// OUT has all columns and those of --add, in the order of the groups, and within a group in that
/// of --order; rows that are equal in both keep the order of the input.
#[derive(Debug, Args)]
#[command(after_long_help = WINDOW_EXAMPLES)]
pub(crate) struct WindowArgs {
    #[command(flatten)]
    pub(crate) files: TableFileArgs,
    /// Columns of the groups, with :desc for the largest first; repeat for several. Default: all
    /// rows are one group
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Columns that order the rows of a group, with :desc for the largest first; repeat for
    /// several. Default: input order
    #[arg(long, value_name = "COLUMN")]
    pub(crate) order: Vec<String>,
    /// What to add, as in rank or previous=lag(amount)
    #[arg(
        long = "add",
        value_name = "FUNCTION,...",
        required_unless_present = "first"
    )]
    pub(crate) added: Vec<String>,
    /// Write only the first N rows of each group
    #[arg(long, value_name = "N")]
    pub(crate) first: Option<u64>,
}
