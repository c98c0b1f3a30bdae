//! The options and the report of `verify`.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help. Flags, keywords, the summary event, Python's dataclass and their documentation are made
//! from them.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::option::lines::LineArgs;
use crate::option::{BadRowArgs, ResourceArgs, TraceArgs, TypeArgs};
use crate::report::report;
use crate::report::{JobSummary, Phase};

const VERIFY_EXAMPLES: &str = "\
Examples:
  outcore verify sorted.bin --type u64 --against keys.bin
  outcore verify sorted.bin.outcore.json --type gensort
  outcore verify s.parquet --by country --by time:desc --against t.parquet

With --by, a table must be in the order of these columns, and with --unique no two rows may have equal keys. \
--against compares all rows, whatever their order, by their values.";

/// Check that files are sorted, and that they have the same records as other files
///
/// Reports the number of records, a checksum that does not depend on their order, and the number of
/// equal keys, in the words of sortbenchmark.org's valsort. A negative result is not an error: the
/// command exits with 1 if a record is out of order, and Python's report has `ok`.
#[derive(Debug, Args)]
#[command(after_long_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Files to check, in order, as one input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Files that must hold the same records in any order: the input of the sort
    #[arg(long, value_name = "INPUT", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub against: Vec<PathBuf>,
    /// Tables only: columns of the expected order, separated by commas; COLUMN:desc for the largest
    /// first
    #[arg(long, value_name = "COLUMN", help_heading = "Order")]
    pub by: Vec<String>,
    /// Tables only: check only these columns
    #[arg(long, value_name = "NAME,...")]
    pub columns: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub bad_rows: BadRowArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub record: TypeArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub lines: LineArgs,
    /// Expect the reverse order (largest first)
    #[arg(long, help_heading = "Order")]
    pub descending: bool,
    /// Report equal keys as out of order
    #[arg(long, help_heading = "Order")]
    pub unique: bool,
    /// Expect records with equal keys to be ordered by their bytes, as `sort` writes them without
    /// --stable
    #[arg(long, help_heading = "Order")]
    pub ties: bool,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub explain: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub resources: ResourceArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub trace: TraceArgs,
}

report! {
    /// The result of checking all records or rows.
    pub(crate) struct VerifyReport {
        [used: JobSummary],
        /// The checks of the records, and of those of `against`.
        phases: Vec<Phase>,
        /// Whether all records are in order; none for a table without a requested order.
        ordered: Option<bool>,
        /// The number of records that must not follow the record before them; none for a table.
        unordered: Option<u64>,
        /// Number of the first record out of order, counted from 0.
        first_unordered: Option<u64>,
        /// Records whose key equals the key of the record before.
        duplicate_keys: Option<u64>,
        /// Sum of the hashes of all records, in hexadecimal; it does not depend on their order. For
        /// a table with rows, it also depends on the names and types of the columns, but not on the
        /// order of the columns.
        checksum: String,
        /// Whether `against` holds the same records; none if it was not given.
        same_records: Option<bool>,
        /// Records of `against`.
        against_records: Option<u64>,
        /// Checksum of `against`.
        against_checksum: Option<String>,
        /// Whether all checks passed: the order, and the same records. As in valsort, false for
        /// files of gensort without any record.
        ok: bool,
        /// The result in words; for records, the lines that sortbenchmark.org's valsort prints.
        text: String,
        /// The comparison with `against` in words; none if it was not given.
        against_text: Option<String>,
    }
}
