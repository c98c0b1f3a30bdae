//! The options and the reports of the verbs on sorted views.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::runs::ViewPlan as EnginePlan;
use outcore_io::units;

use crate::option::lines::{FormatArgs, LineArgs, OrderArgs};
use crate::option::tables::{ReadTableArgs, TextArgs};
use crate::option::{BadRowArgs, DriveArgs, RecordingArgs, ResourceArgs, TraceArgs, TypeArgs};
use crate::report::{JobSummary, Phase, Place, Rates, report};

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
  outcore view cat sales.view --range ..100                # ... and ranges have only records
  outcore view cat table.view --key eu,2024-01-31   # rows of a table by the columns of its order";

const MOUNT_EXAMPLES: &str = "\
Examples:
  mkdir sorted; outcore view mount keys.view sorted &
  sha256sum sorted/sorted.bin
  python3 -c 'import numpy; print(numpy.memmap(\"sorted/sorted.bin\", \"u8\")[:5])'
  umount sorted       # or Ctrl-C
  outcore view mount words.view sorted & tail -n 3 sorted/sorted.txt";

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
    /// Not supported: only the merge shows which keys are in several runs, so sizes and ranks would
    /// be unknown
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
    /// Size of a sorted run. Default: the largest size that fits in memory; for numbers two thirds
    /// of that, as long as there are at most 64 runs
    #[arg(long = "run-size", value_name = "SIZE", help_heading = "Resources", value_parser = units::parse_bytes)]
    pub(crate) run_bytes: Option<u64>,
    /// Also write the sorted data to standard output once the view exists; data that are still in
    /// memory are not read again
    #[arg(long, help_heading = "Files")]
    pub(crate) cat: bool,
    /// Keep the finished runs, next to the view. If the job is killed or fails, the same command
    /// with --resume continues after them. For lines and records in files, and for runs in the
    /// view's directory. outcore keeps the runs for 7 days (OUTCORE_RESUME_DAYS)
    #[arg(long, help_heading = "Files", conflicts_with_all = ["cat", "force", "dry_run"])]
    pub(crate) resume: bool,
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
/// same columns. In a stable view, added records come after existing ones with the same key.
/// Readers that have the view open continue to see the old data.
#[derive(Debug, Args)]
pub(crate) struct ViewAppendArgs {
    /// The view's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Files to add; - is standard input
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Treat the files as lines, whatever they look like, if the view has lines
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
    /// Only records, lines or rows from I up to but excluding J, counted from 0; I.., ..J and
    /// negative numbers as in Python
    #[arg(long, value_name = "I..J", allow_hyphen_values = true, conflicts_with_all = ["from_key", "to_key", "key"])]
    pub(crate) range: Option<String>,
    /// Start at the first record with this key or a later one. Write numbers in decimal, and bytes
    /// as text or as 0x and hexadecimal digits; separate several by commas. For lines, give a line
    /// that has the key; for tables, the values of the first columns of the order, as in CSV
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

/// Describe a view: records, order, runs and where they are
#[derive(Debug, Args)]
pub(crate) struct ViewInfoArgs {
    /// The view's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
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

report! {
    /// The plan of a view.
    pub(crate) struct ViewPlan {
        /// Runs that the sort makes, before any merge.
        runs: u64,
        /// Bytes of a run.
        run_bytes: u64,
        /// Bytes of a block, which a reader reads at once.
        block_bytes: u64,
        /// Areas of memory that runs are sorted in.
        areas: usize,
        /// Bytes of an area.
        area_bytes: usize,
        /// For each merge that comes before the view, the number of runs that it combines.
        merges: Vec<u64>,
        /// Bytes that will be read.
        predicted_read_bytes: u64,
        /// Bytes that will be written.
        predicted_written_bytes: u64,
        /// Seconds that the job will take at `rates`.
        predicted_seconds: f64,
        /// The assumed rates of drives and processors.
        rates: Rates,
        /// The plan in words.
        text: String,
    }
}

impl ViewPlan {
    /// From a plan of the engine.
    pub(crate) fn of(plan: &EnginePlan) -> Self {
        ViewPlan {
            runs: plan.runs,
            run_bytes: plan.run_bytes(),
            block_bytes: plan.block_records * plan.size.record_bytes as u64,
            areas: plan.areas,
            area_bytes: plan.area_bytes,
            merges: plan.merges.clone(),
            predicted_read_bytes: plan.predicted_read_bytes,
            predicted_written_bytes: plan.predicted_written_bytes,
            predicted_seconds: plan.predicted_seconds,
            rates: Rates::of(&plan.size.layout.rates(), Some(plan.size.costs.origin)),
            text: plan.to_string(),
        }
    }
}

report! {
    /// The result of building a view, or of adding to one.
    pub(crate) struct ViewSummary {
        [used: JobSummary],
        /// The directory of the view.
        output: Place,
        /// The type of a record: a record type, `lines` or `table`.
        r#type: String,
        /// Bytes that were sorted.
        data_bytes: u64,
        /// The number of runs that readers merge.
        runs: u64,
        /// Bytes of runs that were still in memory.
        resident_bytes: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
        /// The plan.
        plan: Option<ViewPlan>,
        /// Rows and values of CSV and JSON lines that were left out, or read as null: one sentence
        /// per file.
        notes: Vec<String>,
        /// The report as text.
        text: String,
    }
}

report! {
    /// A run of a view.
    pub(crate) struct ViewRun {
        /// Its file.
        path: Place,
        /// The drive that it is on.
        drive: String,
        /// Its records.
        records: u64,
    }
}

report! {
    /// A view.
    pub(crate) struct ViewReport {
        [used: JobSummary],
        /// The type of a record: a record type, `lines` or `table`.
        r#type: String,
        /// The options of the order of lines, or the columns of the order of a table; none for
        /// records.
        order: Option<String>,
        /// Bytes of the sorted data.
        bytes: u64,
        /// Whether the largest comes first.
        descending: bool,
        /// Whether equal keys have the order of the input.
        stable: bool,
        /// Bytes that are read for one record.
        block_bytes: u64,
        /// Memory of the index.
        index_bytes: u64,
        /// The runs.
        runs: Vec<ViewRun>,
        /// The report as text.
        text: String,
    }
}

report! {
    /// The result of checking a view.
    pub(crate) struct ViewCheck {
        [used: JobSummary],
        /// The number of blocks that were checked.
        blocks: u64,
        /// The parts of the check.
        phases: Vec<Phase>,
        /// The report as text.
        text: String,
    }
}
