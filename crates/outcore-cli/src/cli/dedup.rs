//! The flags of `dedup`.
//!
//! Contract: as [`super`]. What an option conflicts with, those that require it name too: clap
//! asks for no option that conflicts with one that is given.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::tables::TableFileArgs;

const DEDUP_EXAMPLES: &str = "\
Examples:
  outcore dedup docs.parquet -o clean.parquet --by url
  outcore dedup crawl/ -o clean.parquet --by url --keep fetched:desc
  outcore dedup docs.parquet -o clean.parquet --by text --removed duplicates.parquet
  outcore dedup t.parquet -o t2.parquet --keep last --memory 512MiB
  outcore dedup docs.parquet -o clean.parquet --near text --jaccard 0.8 --removed near.parquet
  outcore dedup docs.parquet -o clean.parquet --substring 50 --of text --removed passages.parquet
  outcore dedup docs.parquet -o clean.parquet --substring 50 --tokens --of text

Without --by, rows are duplicates if all their columns are equal. Nulls equal each other. For \
distinct rows in the order of their keys, use `outcore unique`, which also works on lines, CSV \
and JSON lines.

--near finds rows whose texts are nearly the same: MinHash signatures are cut into bands, and rows \
that have a band in common belong together. The chance that two texts share a band rises steeply around --jaccard, \
their Jaccard similarity: the number of shingles that both have, divided by the number that either has. Shingles are 5 words, in \
lower case and without punctuation. The result depends on the rows, the options and --seed alone. \
The removed rows get a column duplicate_of: the number of the row that was kept, from 0. Without --near they are as they were in \
the input and in its order; the row that was kept in place of one is the row of OUT that has the same values in the columns of --by.

--substring cuts passages of texts instead of rows: text that occurs before, in an earlier row or earlier \
in its own, is cut where it has at least so many bytes, or with --tokens so many tokens: what white space \
separates. Tokens must match exactly; the white space between them makes no difference, and what follows the last \
token of a passage is cut with it. The first occurrence stays, and so does every row, even if its text \
becomes empty. --removed has a row for each cut: row, start and length (in \
bytes), first_row (where its beginning occurs before) and text.";

/// Remove duplicate rows from tables, and leave the others where they are
///
/// One row of each key is kept: the first in the input, the last, or the best by another column.
/// OUT has the kept rows in the order of the input. Only the key columns go through scratch.
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
    /// Remove rows whose texts in this column are nearly the same
    #[arg(
        long,
        value_name = "COLUMN",
        conflicts_with = "by",
        help_heading = "Near duplicates"
    )]
    pub(crate) near: Option<String>,
    /// Least similarity of near duplicates, above 0 and up to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.8,
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) jaccard: f64,
    /// Shingles that texts are compared by: words:N, or chars:N for languages without spaces
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "words:5",
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) shingles: String,
    /// Number of hashes in a signature: more find near duplicates more surely, and take longer
    #[arg(
        long,
        value_name = "N",
        default_value_t = 128,
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) hashes: usize,
    /// Random seed of the hashes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) seed: u64,
    /// Cut passages of at least this many bytes, or tokens with --tokens, that occur before; 50 is
    /// usual
    #[arg(
        long,
        value_name = "LENGTH",
        conflicts_with_all = ["by", "near", "keep"],
        requires = "of",
        help_heading = "Passages"
    )]
    pub(crate) substring: Option<usize>,
    /// Count the length of passages in tokens, which white space separates, not in bytes
    #[arg(
        long,
        requires = "substring",
        conflicts_with_all = ["by", "near"],
        help_heading = "Passages"
    )]
    pub(crate) tokens: bool,
    /// The column of the texts
    #[arg(
        long,
        value_name = "COLUMN",
        requires = "substring",
        conflicts_with_all = ["by", "near", "keep"],
        help_heading = "Passages"
    )]
    pub(crate) of: Option<String>,
    /// Write the rows that are left out, or the passages, to this table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) removed: Option<PathBuf>,
}
