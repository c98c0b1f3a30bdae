//! The flags of the commands that work on lines and records alike: shuffle, unique, split, head,
//! sample.
//!
//! Contract: as [`super`].

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore_front::inputs::is_stdout;
use outcore_io::units;
use outcore_verbs::option::BadRowArgs;

use super::lines::{FormatArgs, LineArgs, OrderArgs, RowArgs};
use super::tables::TableArgs;
use super::{DriveArgs, RecordingArgs, ResourceArgs, ScratchArgs, TypeArgs, parse_count};

const SHUFFLE_EXAMPLES: &str = "\
Examples:
  outcore shuffle train.jsonl -o shuffled.jsonl --seed 7 --memory 2GiB
  outcore shuffle train.jsonl -o epoch-3.jsonl --seed 7 --epoch 3
  outcore shuffle --csv table.csv -o shuffled.csv
  outcore shuffle points.npy -o shuffled.npy
  outcore shuffle tokens.bin -o out.bin --type u32x1024
  outcore shuffle visits.parquet -o shuffled.parquet --by user   # rows of one user stay together";

const UNIQUE_EXAMPLES: &str = "\
Examples:
  outcore unique urls.txt -o distinct.txt
  outcore unique --count words.txt | sort -rn | head
  outcore unique -k1,1 access.log
  outcore unique --csv --by email users.csv
  outcore unique keys.bin --type u64 -o distinct.bin
  outcore unique --count ids.npy -o counts.npy";

const SPLIT_EXAMPLES: &str = "\
Examples:
  outcore split big.txt -n 8 -o 'part-{part}.txt'
  outcore split big.jsonl.gz -n 4 -o 'part-{part}.jsonl.zst'
  outcore split --csv table.csv --by-lines 1e6 -o 'table-{part}.csv'
  outcore split keys.bin --type u64 -n 16 -o 'keys-{part}.bin'
  outcore split t.parquet --rows 1e6 -o 'part-{part}.parquet'
  outcore split t.parquet --bytes 256MiB -o 'part-{part}.parquet'
  outcore split docs.parquet --train 0.9 -o '{part}.parquet'
  outcore split t.parquet --by country -o by-country

With --train, the parts are called train and test. With --by, rows keep their order within a \
partition, the columns of --by are in the names of directories and not in the files, and no more \
than one file is written at a time, so memory does not grow with their number.";

const HEAD_EXAMPLES: &str = "\
Examples:
  outcore head big.txt
  outcore head -n 1000 logs.gz
  outcore head -n 5 --csv table.csv
  outcore head -n 1e6 keys.bin --type u64 -o some.bin
  outcore head t.parquet --columns url,time
  outcore head -n 1e6 logs/ -o some.parquet
  outcore head -n 100 logs/ --by bytes:desc --by time -o largest.parquet

Rows of tables are printed with tabs between their columns; with -o they are written as a table.";

const SAMPLE_EXAMPLES: &str = "\
Examples:
  outcore sample -n 1000 big.txt
  outcore sample -n 1e5 train.jsonl -o some.jsonl --seed 7
  outcore sample -n 100 --csv table.csv
  producer | outcore sample -n 20
  outcore sample -n 1e5 docs.parquet -o some.parquet";

/// Shuffle lines or records into a uniformly random order
///
/// Every order is equally likely. The same seed and epoch give the same output from the same
/// input, whatever the number of threads and drives and the memory.
#[derive(Debug, Args)]
#[command(after_long_help = SHUFFLE_EXAMPLES)]
pub(crate) struct ShuffleArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Random seed
    #[arg(long, value_name = "N", help_heading = "Order", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of the epoch: each one gives an independent order for the same seed
    #[arg(long, value_name = "K", help_heading = "Order", default_value_t = 0)]
    pub(crate) epoch: u64,
    /// Keep rows of a table together that have equal values in these columns, in the order of the
    /// input; the groups come in a random order. Repeat for several columns
    #[arg(long, value_name = "COLUMN", help_heading = "Order")]
    pub(crate) by: Vec<String>,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    /// Print the plan (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// Keep one of each line or record, in order, or count them
///
/// The output is that of `sort -u`; with --count, that of `sort | uniq -c`, or for records each
/// record followed by an 8-byte count. With keys (-k, or --by for CSV and JSON lines), one line
/// or record is kept for each key: of lines, the first in the input.
#[derive(Debug, Args)]
#[command(after_long_help = UNIQUE_EXAMPLES)]
pub(crate) struct UniqueArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Put the number of equal lines before each line, or the number of equal records after
    /// each record
    #[arg(short, long, help_heading = "Order")]
    pub(crate) count: bool,
    /// Reverse the key order (largest first)
    #[arg(short = 'r', long, alias = "reverse", help_heading = "Order")]
    pub(crate) descending: bool,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) text: FormatArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    /// Print the plan (passes and buffers; by hashing or by sorting), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// Split files into parts of whole lines, records or rows
///
/// The parts, concatenated, are the input. With -n, parts of records differ by at most one
/// record; a line belongs to the part in which its first byte lies, as with `split -n l/K`, so
/// that parts are of nearly equal length and some may be empty. Every part of CSV begins with the
/// header. All parts appear at the end, or none.
#[derive(Debug, Args)]
#[command(after_long_help = SPLIT_EXAMPLES)]
pub(crate) struct SplitArgs {
    /// Files to split, in order, as one input. Default: standard input
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// File name pattern: {part} becomes the part number, from 0; with --by, the name of a
    /// directory. Parts of lines are compressed if it ends in .gz, .zst, .bz2 or .xz; parts of
    /// records get a header if it ends in .npy
    #[arg(short, long, value_name = "PATTERN", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Number of parts
    #[arg(short = 'n', long = "parts", value_name = "K", value_parser = parse_count, required_unless_present_any = ["part_lines", "part_bytes", "train", "by"], conflicts_with_all = ["part_lines", "part_bytes", "train", "by"])]
    pub(crate) parts: Option<u64>,
    /// Number of lines, records or rows in each part; the last part may have fewer
    #[arg(long = "by-lines", visible_alias = "rows", value_name = "N", value_parser = parse_count, conflicts_with_all = ["part_bytes", "train", "by"])]
    pub(crate) part_lines: Option<u64>,
    /// Tables only: approximate stored size of each part
    #[arg(long = "bytes", value_name = "SIZE", value_parser = units::parse_bytes, conflicts_with_all = ["train", "by"])]
    pub(crate) part_bytes: Option<u64>,
    /// Tables only: write a random SHARE of the rows, such as 0.9, to the part train, and the rest
    /// to the part test
    #[arg(long, value_name = "SHARE", conflicts_with = "by")]
    pub(crate) train: Option<f64>,
    /// Tables only: write a directory for each value of this column, as in
    /// OUT/country=de/part-0.parquet; repeat for nested directories
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Random seed of --train
    // The conflicts are those of --train, which clap does not require where it cannot be given.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "train",
        conflicts_with_all = ["parts", "part_lines", "part_bytes", "by"]
    )]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
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
    /// Let files of one table lack columns, or have columns of other types; see `outcore convert`
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

/// Print the first lines, records or rows of the input
///
/// Reads no more than it needs. Several files are read as one.
#[derive(Debug, Args)]
#[command(after_long_help = HEAD_EXAMPLES)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Number of lines or records to print
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_count, default_value = "10")]
    pub(crate) records: u64,
    /// Take the first rows in the order of this column, or with COLUMN:desc the last ones; repeat
    /// for several columns. Needs -o
    #[arg(
        long,
        value_name = "COLUMN",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) by: Vec<String>,
    /// Memory to use. Default: half of the free memory
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) memory_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
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

/// Print randomly chosen lines, records or rows, in input order
///
/// Reads the input once and keeps only the sample in memory. Every sample of that size is equally
/// likely; the same seed gives the same sample.
#[derive(Debug, Args)]
#[command(after_long_help = SAMPLE_EXAMPLES)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Number of lines or records to print; all of them, if there are fewer
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_count)]
    pub(crate) records: u64,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Memory for the sample. Default: half of the free memory
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) memory_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
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

/// Where lines or records come from and go to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FileArgs {
    /// Files to read, in order, as one input: lines, .npy, or raw records with --type; - is
    /// standard input, which is the default. Compressed lines (gzip, zstd, bzip2 or xz, detected
    /// by content) are decompressed
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output file; lines are compressed if its name ends in .gz, .zst, .bz2 or .xz. Default:
    /// standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
}

impl FileArgs {
    /// Whether standard output carries the result.
    pub(crate) fn is_to_stdout(&self) -> bool {
        self.output.as_deref().is_none_or(is_stdout)
    }
}
