//! The options and the report of `split`.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};
use outcore::primitives::PartTotals;
use outcore_io::units;

use crate::option::lines::{HeaderArgs, LineArgs, RowArgs};
use crate::option::tables::TableArgs;
use crate::option::{
    BadRowArgs, DriveArgs, RecordingArgs, ResourceArgs, TypeArgs, checksum_text, parse_count,
};
use crate::report::{Place, WriteSummary, report};

const SPLIT_EXAMPLES: &str = "\
Examples:
  outcore split big.jsonl.gz -n 4 -o 'part-{part}.jsonl.zst'
  outcore split table.csv --line-bytes 256MiB -o 'table-{part}.csv'
  outcore split t.parquet --bytes 256MiB -o 'part-{part}.parquet'
  outcore split t.parquet --by country -o by-country
  outcore split keys.bin --type u64 --splitters borders.bin -o 'range-{part}.bin'
  outcore split train.jsonl -n 5 --random --seed 7 -o 'fold-{part}.jsonl'

With --filter, part numbers have five digits unless the number of parts is given, and a part \
may have the name of an existing file only with --force. With --train, the parts are called train and test. With --by, rows keep their order within a \
partition, and the columns of --by are in the names of directories and not in the files. Files are \
written one at a time, so memory does not grow with their number. With --splitters and --random, all parts are open at the same time.";

/// Split files into parts of whole lines, records or rows
///
/// The parts, concatenated, are the input. With -n, parts of records differ by at most one record;
/// a line belongs to the part that contains its first byte, as with `split -n l/K`, so parts have
/// nearly equal lengths and some may be empty. Every part of CSV begins with the header. All parts
/// appear together at the end, or none. With --splitters and --random, parts keep the input order,
/// and the report has the number and a checksum of the items of each part. The checksums are those
/// of `verify`, or of `verify --lines` for lines, and add up to the checksum of the whole.
#[derive(Debug, Args)]
#[command(after_long_help = SPLIT_EXAMPLES, group(ArgGroup::new("drawn").args(["train", "random"])))]
pub(crate) struct SplitArgs {
    /// Files to split, in order, as one input. Default: standard input
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// File name pattern: {part} becomes the part number, from 0; with --by, the name of a
    /// directory. Parts of lines are compressed if the pattern ends in .gz, .zst, .bz2 or .xz;
    /// parts of records get a header if the pattern ends in .npy
    #[arg(short, long, value_name = "PATTERN", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Number of parts
    #[arg(short = 'n', long = "parts", value_name = "K", value_parser = parse_count, required_unless_present_any = ["part_lines", "part_bytes", "line_bytes", "train", "by", "splitters"], conflicts_with_all = ["part_lines", "part_bytes", "train", "by"])]
    pub(crate) parts: Option<u64>,
    /// Number of lines, records or rows in each part; the last part may have fewer
    #[arg(short = 'l', long = "by-lines", visible_alias = "rows", value_name = "N", value_parser = parse_count, conflicts_with_all = ["part_bytes", "train", "by"])]
    pub(crate) part_lines: Option<u64>,
    /// Exactly this many bytes in each part, regardless of line ends; the last part may have fewer.
    /// For tables, the approximate stored size of each part
    #[arg(short = 'b', long = "bytes", value_name = "SIZE", value_parser = units::parse_bytes, conflicts_with_all = ["line_bytes", "train", "by"])]
    pub(crate) part_bytes: Option<u64>,
    /// As many whole lines as fit in this many bytes, including the header of CSV. A longer line is
    /// cut; a longer record of CSV or JSON gets a part of its own
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = units::parse_bytes, conflicts_with_all = ["parts", "part_lines", "train", "by"])]
    pub(crate) line_bytes: Option<u64>,
    /// Write no files: pipe each part, one after the other, to this shell command, with the part's
    /// name in $FILE. A command that fails stops the split
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString, conflicts_with_all = ["train", "by"])]
    pub(crate) filter: Option<String>,
    /// Tables only: write a random SHARE of the rows, such as 0.9, to the part train, and the rest
    /// to the part test
    #[arg(long, value_name = "SHARE", conflicts_with = "by")]
    pub(crate) train: Option<f64>,
    /// Tables only: write a directory for each value of this column, as in
    /// OUT/country=de/part-0.parquet. Several columns are separated by commas; each is nested in
    /// the one before. With --splitters, the key: columns of tables, or fields of JSON lines
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Write each record, line or row to the part of its key. The file holds splitters: records,
    /// lines or rows of the input's kind, in ascending order. Part 0 has the keys before the first
    /// splitter, the next part those before the second one, and so on. Equal keys share a part
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["parts", "part_lines", "part_bytes", "line_bytes", "filter", "train"])]
    pub(crate) splitters: Option<PathBuf>,
    /// Write each record, line or row to a part that is chosen at random, instead of cutting
    #[arg(long, requires = "parts", conflicts_with_all = ["part_lines", "part_bytes", "line_bytes", "filter", "train", "by", "splitters"])]
    pub(crate) random: bool,
    /// Random seed of --train and --random
    // This option repeats the conflicts of `--train` and of `--random`. Clap does not enforce
    // `requires` if the required option conflicts with a given one.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "drawn",
        conflicts_with_all = ["part_lines", "part_bytes", "line_bytes", "filter", "by", "splitters"]
    )]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Replace existing parts
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Keep these columns, in this order; the others are not read
    #[arg(
        long,
        value_name = "NAME,...",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) columns: Vec<String>,
    /// Accept files with different columns; see `outcore convert`
    #[arg(long, help_heading = "Tables (Parquet and Arrow)")]
    pub(crate) union: bool,
    /// Read CSV or JSON lines as a table with these column types; see `outcore convert`
    #[arg(
        long,
        value_name = "NAME:TYPE,...",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) schema: Option<String>,
    /// Read CSV or JSON lines as a table, with column types inferred from a sample
    #[arg(long, help_heading = "Tables (Parquet and Arrow)")]
    pub(crate) infer: bool,
    /// Compression of the parts; see `outcore convert`
    #[arg(
        long,
        value_name = "CODEC",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) codec: Option<String>,
    #[command(flatten)]
    pub(crate) bad_rows: BadRowArgs,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

impl SplitArgs {
    /// How tables are read and written.
    pub(crate) fn tables(&self) -> TableArgs {
        TableArgs {
            columns: self.columns.clone(),
            union: self.union,
            codec: self.codec.clone(),
            schema: self.schema.clone(),
            infer: self.infer,
            ..TableArgs::from(&self.bad_rows)
        }
    }
}

report! {
    /// The result of a split.
    pub(crate) struct SplitSummary {
        [wrote: WriteSummary],
        /// The files, in order, or the names that `filter` received; empty with `by`, where
        /// `partitions` has the number of directories.
        parts: Vec<Place>,
        /// Directories that were written; none without `by`.
        partitions: Option<u64>,
        /// Rows of the part test; none without `train`.
        test_rows: Option<u64>,
        /// The seed of `train` and `random`.
        seed: u64,
        /// The number of items of each part; none without `splitters` and `random`.
        counts: Vec<u64>,
        /// The sum of the hashes of the items of each part, in hexadecimal: for records and rows as
        /// `verify` computes it, for lines as `verify --lines`.
        checksums: Vec<String>,
    }
}

impl SplitSummary {
    /// The summary for parts that are files.
    pub(crate) fn of_parts(wrote: WriteSummary, parts: Vec<PathBuf>, seed: u64) -> Self {
        SplitSummary {
            wrote,
            parts: parts.into_iter().map(Place).collect(),
            partitions: None,
            test_rows: None,
            seed,
            counts: Vec::new(),
            checksums: Vec::new(),
        }
    }

    /// The same with the totals of the parts.
    pub(crate) fn with_totals(self, totals: &[PartTotals]) -> Self {
        SplitSummary {
            counts: totals.iter().map(|part| part.items).collect(),
            checksums: totals.iter().copied().map(checksum_text).collect(),
            ..self
        }
    }
}
