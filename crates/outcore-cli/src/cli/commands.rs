//! The flags of the commands that work on lines and records alike: shuffle, unique, split, head,
//! sample.
//!
//! Contract: as [`super`].

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::units;
use outcore_formats::inputs::is_stdout;

use super::lines::{FormatArgs, LineArgs, OnError, OrderArgs, RowArgs};
use super::{DriveArgs, MeansArgs, RecordArgs, TypeArgs, parse_count};

const SHUFFLE_EXAMPLES: &str = "\
Examples:
  outcore shuffle train.jsonl -o shuffled.jsonl --seed 7 --memory 2GiB
  outcore shuffle train.jsonl -o epoch-3.jsonl --seed 7 --epoch 3
  outcore shuffle --csv table.csv -o shuffled.csv
  outcore shuffle points.npy -o shuffled.npy
  outcore shuffle tokens.bin -o out.bin --type u32x1024";

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
  outcore split keys.bin --type u64 -n 16 -o 'keys-{part}.bin'";

const HEAD_EXAMPLES: &str = "\
Examples:
  outcore head big.txt
  outcore head -n 1000 logs.gz
  outcore head -n 5 --csv table.csv
  outcore head -n 1e6 keys.bin --type u64 -o some.bin";

const SAMPLE_EXAMPLES: &str = "\
Examples:
  outcore sample -n 1000 big.txt
  outcore sample -n 1e5 train.jsonl -o some.jsonl --seed 7
  outcore sample -n 100 --csv table.csv
  producer | outcore sample -n 20";

/// Put lines or records into a uniformly random order
///
/// Every order is equally likely. The same seed and epoch give the same output from the same input,
/// on any number of threads and drives and with any memory.
#[derive(Debug, Args)]
#[command(after_long_help = SHUFFLE_EXAMPLES)]
pub(crate) struct ShuffleArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Chooses the order
    #[arg(long, value_name = "N", help_heading = "Order", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Chooses another order, independent of it, for the same seed
    #[arg(long, value_name = "K", help_heading = "Order", default_value_t = 0)]
    pub(crate) epoch: u64,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) means: MeansArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// The most scratch space on all drives together. By default whatever is free
    #[arg(long = "scratch-limit", value_name = "SIZE", help_heading = "Resources", value_parser = units::parse_bytes)]
    pub(crate) scratch_limit_bytes: Option<u64>,
    /// Print the plan (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordArgs,
}

/// Keep one of each line or record, in order; or count them
///
/// The output is that of `sort -u`, and with --count that of `sort | uniq -c`; of records, with --count,
/// each with a count of 8 bytes behind it. With keys (-k, or --by for CSV and JSON lines), one line or record
/// of each key: of lines the first in the input.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_long_help = UNIQUE_EXAMPLES)]
pub(crate) struct UniqueArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Put the number of equal lines in front of each, or of equal records behind it
    #[arg(short, long, help_heading = "Order")]
    pub(crate) count: bool,
    /// Largest first
    #[arg(short = 'r', long, alias = "reverse", help_heading = "Order")]
    pub(crate) descending: bool,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) text: FormatArgs,
    /// What to do with lines that have no such field: fail, which names the first, or skip them and
    /// say how many
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        requires = "by",
        help_heading = "CSV and JSON lines"
    )]
    pub(crate) on_error: Option<OnError>,
    #[command(flatten)]
    pub(crate) means: MeansArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// The most scratch space on all drives together. By default whatever is free
    #[arg(long = "scratch-limit", value_name = "SIZE", help_heading = "Resources", value_parser = units::parse_bytes)]
    pub(crate) scratch_limit_bytes: Option<u64>,
    /// Print the plan (passes, buffers; by hash or by a sort), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help, help_heading = "Messages")]
    help: Option<bool>,
}

/// Cut files into parts of whole lines or records
///
/// The parts, one behind the other, are the input. With -n parts of records differ by one record at most,
/// and a line belongs to the part in which its first byte lies, as with `split -n l/K`, so that parts are
/// nearly equally long and some may be empty. Every part of CSV begins with the header. All parts appear at the end, or none.
#[derive(Debug, Args)]
#[command(after_long_help = SPLIT_EXAMPLES)]
pub(crate) struct SplitArgs {
    /// Files to split, one after another as if they were one; standard input if there are none
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Names of the parts, with {part} for their numbers, from 0. Parts of lines are compressed if it ends
    /// in .gz, .zst, .bz2 or .xz; parts of records get a header if it ends in .npy
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) output: String,
    /// How many parts
    #[arg(short = 'n', long = "parts", value_name = "K", value_parser = parse_count, required_unless_present = "part_lines", conflicts_with = "part_lines")]
    pub(crate) parts: Option<u64>,
    /// Lines or records in each part but the last
    #[arg(long = "by-lines", value_name = "N", value_parser = parse_count)]
    pub(crate) part_lines: Option<u64>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) means: MeansArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Replace parts that exist
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordArgs,
}

/// Print the first lines or records of all files together
///
/// No more is read than is needed.
#[derive(Debug, Args)]
#[command(after_long_help = HEAD_EXAMPLES)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// How many
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_count, default_value = "10")]
    pub(crate) records: u64,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordArgs,
}

/// Print lines or records that are chosen at random, in the order of the input
///
/// One pass, in memory for the sample alone. Every set of so many is equally likely; the same seed
/// gives the same sample.
#[derive(Debug, Args)]
#[command(after_long_help = SAMPLE_EXAMPLES)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// How many; all, if there are fewer
    #[arg(short = 'n', long = "count", value_name = "K", value_parser = parse_count)]
    pub(crate) records: u64,
    /// Chooses the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Memory for the sample. By default half of what is free
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) memory_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordArgs,
}

/// Where lines or records come from and go to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FileArgs {
    /// Files, one after another as if they were one: lines, .npy, raw records with --type; - is
    /// standard input, which is also read where no file is named. Compressed lines (gzip, zstd, bzip2 or
    /// xz, told by their content) are decompressed
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Where the result goes: a file, compressed if it ends in .gz, .zst, .bz2 or .xz and holds
    /// lines; or standard output, as without it
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace an output that exists
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
}

impl FileArgs {
    /// Whether standard output carries the result.
    pub(crate) fn is_to_stdout(&self) -> bool {
        self.output.as_deref().is_none_or(is_stdout)
    }
}
