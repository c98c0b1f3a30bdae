//! The flags of `dedup`.
//!
//! Contract: as [`super`].

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::tables::TableFileArgs;

const DEDUP_EXAMPLES: &str = "\
Examples:
  outcore dedup docs.parquet -o clean.parquet --by url
  outcore dedup crawl/ -o clean.parquet --by url --keep fetched:desc
  outcore dedup docs.parquet -o clean.parquet --by text --removed duplicates.parquet
  outcore dedup t.parquet -o t2.parquet --keep last --memory 512MiB

Without --by, rows are duplicates if all their columns are equal. Nulls equal each other. For \
distinct rows in the order of their keys, use `outcore unique`, which also works on lines, CSV \
and JSON lines.";

/// Remove duplicate rows from tables, and leave the others where they are
///
/// One row of each key is kept: the first in the input, the last, or the best by another column. OUT
/// has the kept rows in the order of the input. Only the key columns go through scratch.
#[derive(Debug, Args)]
#[command(after_long_help = DEDUP_EXAMPLES)]
pub(crate) struct DedupArgs {
    #[command(flatten)]
    pub(crate) files: TableFileArgs,
    /// Columns that make two rows duplicates; repeat for several. Default: all columns
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Which row of each key to keep: first, last, or a column: the row with its least value, or
    /// with COLUMN:desc its greatest
    #[arg(long, value_name = "WHICH", default_value = "first")]
    pub(crate) keep: String,
    /// Write the rows that are left out to this table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) removed: Option<PathBuf>,
}
