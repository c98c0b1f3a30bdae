//! The flags of `outcore view`.
//!
//! Contract: as in [`super`]: pure definitions.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use outcore_io::units;

use super::{DriveArgs, RecordingArgs, ResourceArgs, TraceArgs, TypeArgs};
use outcore_verbs::option::BadRowArgs;
use outcore_verbs::option::lines::{FormatArgs, LineArgs, OrderArgs};
use outcore_verbs::option::tables::{ReadTableArgs, TextArgs};

const BUILD_EXAMPLES: &str = "\
Examples:
  outcore view build keys.bin -o keys.view --type u64 --memory 2GiB
  outcore view build big.dat -o /mnt/a/big.view --type gensort --drive /mnt/a --drive /mnt/b
  outcore view build keys.bin -o keys.view --type u64 --cat | consumer    # and read it once
  producer | outcore view build - -o keys.view --type u64
  outcore view build words.txt -o words.view --lines
  outcore view build log.tsv -o log.view -t '\\t' -k 3,3n -s    # lines, as `outcore sort` has them
  outcore view build events.jsonl.zst -o events.view --jsonl --by .user.id --by .time
  outcore view build sales.csv -o sales.view --csv --by region --by price:nr
  outcore view build sales.parquet -o sales.view --by region --by price:desc    # a table";

const CAT_EXAMPLES: &str = "\
Examples:
  outcore view cat keys.view > sorted.bin
  outcore view cat keys.view --range 1000..2000 | od -t u8
  outcore view cat keys.view --range -10..                 # the last ten
  outcore view cat keys.view --from-key 5000 --to-key 6000
  outcore view cat words.view --from-key m --to-key n
  outcore view cat sales.view                              # CSV has its header in front ...
  outcore view cat sales.view --range ..100                # ... and ranges have records alone
  outcore view cat table.view --key eu,2024-01-31   # rows of a table by the columns of its order";

const MOUNT_EXAMPLES: &str = "\
Examples:
  mkdir sorted; outcore view mount keys.view sorted &
  sha256sum sorted/sorted.bin
  python3 -c 'import numpy; print(numpy.memmap(\"sorted/sorted.bin\", \"u8\")[:5])'
  umount sorted       # or Ctrl-C
  outcore view mount words.view sorted & tail -n 3 sorted/sorted.txt";

/// Build sorted views, which are merged while they are read
///
/// A view is a directory of sorted runs that reads like the sorted file: from any position, by
/// many readers, any number of times. Building and reading one costs two reads and one write of
/// the data; sorting to a file and reading it back costs three reads and two writes.
#[derive(Debug, Subcommand)]
pub(crate) enum ViewCommand {
    Build(ViewBuildArgs),
    Append(ViewAppendArgs),
    Cat(ViewCatArgs),
    /// Describe a view: records, order, runs and where they are
    Info {
        /// The view's directory
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    Verify(ViewVerifyArgs),
    Materialize(ViewMaterializeArgs),
    Mount(ViewMountArgs),
    /// Unmounts when its standard input ends: started by `view mount`
    #[command(hide = true)]
    Guard {
        /// The mount point
        mountpoint: PathBuf,
        /// What is mounted there
        source: String,
    },
}

/// Build a view of files
///
/// The order is that of `outcore sort`. The view appears whole or not at all; inputs are only read.
/// Options, content and name decide what the input is, as for `outcore sort`: CSV and JSON lines
/// are a table once --by names a column, and text with --csv or --jsonl.
#[derive(Debug, Args)]
#[command(after_long_help = BUILD_EXAMPLES)]
pub(crate) struct ViewBuildArgs {
    /// Files to sort, in order: raw records, .npy, a manifest (.outcore.json) of shards, lines
    /// (compressed ones are decompressed to scratch), or Parquet and Arrow and directories of
    /// them; - is standard input, which is copied to scratch first
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// The view's directory; its parent must exist
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Reverse the key order (largest first)
    #[arg(short = 'r', long, alias = "reverse", help_heading = "Order")]
    pub(crate) descending: bool,
    /// Keep the input order of equal keys
    #[arg(short, long, help_heading = "Order")]
    pub(crate) stable: bool,
    /// Refused: which keys are in several runs is known only when they are merged, and with it
    /// sizes and ranks
    #[arg(short, long, hide = true)]
    pub(crate) unique: bool,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) text: FormatArgs,
    #[command(flatten)]
    pub(crate) tables: ReadTableArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Size of a sorted run. Default: the largest that fits in memory; of numbers two thirds of it
    /// while there are at most 64 runs
    #[arg(long = "run-size", value_name = "SIZE", help_heading = "Resources", value_parser = units::parse_bytes)]
    pub(crate) run_bytes: Option<u64>,
    /// Write the sorted data to standard output too, once the view is there; what is still in
    /// memory is not read again
    #[arg(long, help_heading = "Files")]
    pub(crate) cat: bool,
    /// Replace an existing view
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Print the plan (runs, blocks, merges beforehand, predicted traffic), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with_all = ["cat", "trace"])]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// Add files to a view
///
/// Records, order and blocks are those of the view; CSV must have the same header, and a table the
/// same columns. In a stable view equal keys come after those that were there. Readers that have
/// the view open go on seeing what was there.
#[derive(Debug, Args)]
pub(crate) struct ViewAppendArgs {
    /// The view's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Files to add; - is standard input
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Take the files for lines, whatever they look like, where the view has lines
    #[arg(long = "lines", help_heading = "Lines")]
    pub(crate) is_lines: bool,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) bad_rows: BadRowArgs,
    /// Print the plan (runs, blocks, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// Which records of a view.
#[derive(Debug, Default, Args)]
pub(crate) struct ViewRangeArgs {
    /// Only records, lines or rows I up to but excluding J, counted from 0; I.., ..J and negative
    /// numbers as in Python
    #[arg(long, value_name = "I..J", allow_hyphen_values = true, conflicts_with_all = ["from_key", "to_key", "key"])]
    pub(crate) range: Option<String>,
    /// Start at the first record with this key or a later one. Numbers in decimal, bytes as text or
    /// as 0x and hexadecimal digits; several with commas. For lines, a line that has the key. For
    /// tables, values of the first columns of the order as in CSV
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) from_key: Option<String>,
    /// Stop before the first record with this key or a later one
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) to_key: Option<String>,
    /// Only records with this key; of a table, rows with these values in the first columns of the
    /// order
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with_all = ["from_key", "to_key"])]
    pub(crate) key: Option<String>,
}

/// Write a view, or a range of it, to standard output in sorted order
///
/// Rows of a table are CSV, or JSON lines where a column has lists or objects.
#[derive(Debug, Args)]
#[command(after_long_help = CAT_EXAMPLES)]
pub(crate) struct ViewCatArgs {
    /// The view's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) range: ViewRangeArgs,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// Check every block of a view, and the order within its runs, without merging
#[derive(Debug, Args)]
pub(crate) struct ViewVerifyArgs {
    /// The view's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// Write a view, or a range of it, as a sorted file, in parallel
///
/// A view of a table is written in the format of the output's name: .parquet, .arrow, .arrows, .csv
/// or .jsonl. Its schema and metadata are those of the table.
#[derive(Debug, Args)]
pub(crate) struct ViewMaterializeArgs {
    /// The view's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Output: a file, or one shard per drive if the name contains {drive}
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) range: ViewRangeArgs,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// Mount a view as a file that any program can read
///
/// A read-only FUSE file system with one file. It is served until it is unmounted or the command is
/// interrupted.
#[derive(Debug, Args)]
#[command(after_long_help = MOUNT_EXAMPLES)]
pub(crate) struct ViewMountArgs {
    /// The view's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// An empty directory
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub(crate) mountpoint: PathBuf,
    /// Bypass the page cache: faster for large reads, but no mmap
    #[arg(long)]
    pub(crate) direct: bool,
    /// Name of the file. Default: sorted.bin, sorted.txt for lines, sorted.csv for CSV
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}
