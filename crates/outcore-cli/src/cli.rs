//! Every flag of the command, defined once: parsing, help, man pages and completions come from
//! here.
//!
//! Contract: pure definitions and readers of single values, no I/O. Sizes carry their unit (`4GiB`,
//! `4GB`). In `sort` short flags mean what GNU sort means by them, except for `-h`: it prints help.
//! Environment, file and default set what no flag sets (see [`outcore_io::config`]).

pub(crate) mod commands;
pub(crate) mod dedup;
pub(crate) mod deferred;
pub(crate) mod diff;
pub(crate) mod gnu;
pub(crate) mod graph;
pub(crate) mod group;
pub(crate) mod help;
pub(crate) mod join;
pub(crate) mod kinds;
pub(crate) mod lines;
pub(crate) mod sequence;
pub(crate) mod store;
pub(crate) mod tables;
pub(crate) mod vectors;
pub(crate) mod view;
pub(crate) mod volume;
pub(crate) mod window;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use outcore::IoMode;
use outcore::key::RecordFormat;
use outcore::{Error, Result};
use outcore_bench::args::{BenchCommand, ReplayArgs};
use outcore_front::records::TypeRequest;
use outcore_gen::Distribution;
use outcore_io::units;
use outcore_sim::cli::SimCommand;

use commands::{HeadArgs, SampleArgs, ShuffleArgs, SplitArgs, UniqueArgs};
use deferred::Deferred;
use lines::{CheckHow, FormatArgs, GnuArgs, LineArgs, OrderArgs};
use sequence::SequenceCommand;
use store::{CpArgs, GetArgs, LsArgs, PutArgs, RmArgs};
use tables::BadRowArgs;
use volume::VolumeCommand;

const AFTER_HELP: &str = "\
First steps:
  outcore demo                                         what this machine can do, in about a minute
  outcore gen u64 -n 1e8 -o keys.bin                   100 million random numbers
  outcore sort keys.bin -o sorted.bin --type u64       sort them
  outcore verify sorted.bin --type u64 --against keys.bin

Sizes take a unit: 4GiB is 4 * 2^30 bytes, 4GB is 4 * 10^9 bytes; without a unit they are bytes. Data go to \
standard output, everything else to standard error.

Exit codes: 0 success, 1 a check failed, 2 usage, 3 I/O, 4 corrupt data, 5 no space, 6 memory, \
130 interrupted (SIGINT, SIGTERM or SIGHUP), 141 the reader of a pipe closed it.

Settings come from flags, then the environment (OUTCORE_MEMORY, OUTCORE_THREADS, OUTCORE_IO, \
OUTCORE_SCRATCH_LIMIT, OUTCORE_DRIVES), then the file (OUTCORE_CONFIG, or outcore/config.toml in \
~/.config), then defaults; `outcore config show` says where each comes from. NO_COLOR turns colours off.";

const SORT_EXAMPLES: &str = "\
Examples:
  outcore sort keys.bin -o sorted.bin --type u64 --memory 2GiB
  outcore sort log.bin -o by-time.bin --record 64 --key 8:8:u64 --stable
  outcore sort points.npy -o sorted.npy --descending
  outcore sort big.bin -o 'sorted-{drive}.bin' --type gensort --drive /mnt/a --drive /mnt/b
  outcore sort big.bin -o out.bin --type u64 --record-io out.iotrace
  producer | outcore sort - -o - --type f64 | consumer

Lines, with the options of GNU sort:
  outcore sort -t, -k2,2n big.csv -o by-second-column.csv --memory 2GiB
  outcore sort -u names.txt > distinct.txt
  outcore sort --csv --by country --by price:nr sales.csv -o by-price.csv
  outcore sort --jsonl --by .user.id events.jsonl.zst -o by-user.jsonl.zst
  zcat logs.gz | outcore sort -k4,4 -s | less

If the program is called `sort` (ln -s \"$(command -v outcore)\" ~/bin/sort), it behaves as GNU sort does: \
errors exit with 2, inputs are lines, and file names say nothing about contents (x.gz is not decompressed).";

const GEN_EXAMPLES: &str = "\
Examples:
  outcore gen u64 -n 1e9 -o keys.bin --dist zipf:1.2
  outcore gen gensort -n 1000000 -o records.bin
  outcore gen 64/8:8:u64 -n 1000 -o log.bin --seed 7
  outcore gen u32x2 -n 16777216 -o edges.u32 --dist rmat:20    # for `outcore graph convert`
  outcore gen f32x128 -n 1e6 -o base.npy --dist clusters:1000      # for `outcore knn`";

const VERIFY_EXAMPLES: &str = "\
Examples:
  outcore verify sorted.bin --type u64 --against keys.bin
  outcore verify sorted.bin.outcore.json --type gensort
  outcore verify s.parquet --by country --by time:desc --against t.parquet

With --by, a table must be in the order of these columns, and with --unique no two rows may have equal keys. \
--against compares all rows, whatever their order, by their values.";

/// Sort, shuffle, deduplicate and scan files larger than memory, on all your SSDs at once
#[derive(Debug, Parser)]
#[command(name = "outcore", version, after_long_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The definition with no command but `name`; none if no command is called that. It reads a
    /// line of that command as the whole definition does, but makes the flags that all commands
    /// have for one of them, not for fifty.
    pub(crate) fn with_only(name: &OsStr) -> Option<clap::Command> {
        let root = || clap::Command::new("outcore");
        let commands = Command::augment_subcommands(root());
        let command = commands.find_subcommand(name)?.clone();
        Some(Common::augment_args(root()).subcommand(command))
    }
}

/// Flags of every subcommand.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Print JSON Lines (begin, progress, summary, error; see docs/json.md): on standard output,
    /// or on standard error if standard output carries data
    #[arg(long, global = true, display_order = 900, help_heading = "Messages")]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(
        short,
        long,
        global = true,
        display_order = 901,
        help_heading = "Messages",
        conflicts_with = "verbose"
    )]
    pub(crate) quiet: bool,
    /// Print more: settings, phases and drives
    #[arg(
        short,
        long,
        global = true,
        display_order = 902,
        help_heading = "Messages"
    )]
    pub(crate) verbose: bool,
    /// Drives file of the volume that holds the datasets (@NAME), as written by `outcore drives
    /// probe`
    #[arg(
        long,
        global = true,
        display_order = 899,
        help_heading = "Volume",
        value_name = "FILE",
        env = outcore_front::volumes::VOLUME_VARIABLE,
        value_hint = ValueHint::FilePath
    )]
    pub(crate) volume: Option<PathBuf>,
    /// When to use colours
    #[arg(
        long,
        global = true,
        display_order = 903,
        help_heading = "Messages",
        value_name = "WHEN",
        value_enum,
        default_value = "auto"
    )]
    pub(crate) color: ColorWhen,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Sort(Deferred<SortArgs>),
    Shuffle(Deferred<ShuffleArgs>),
    Unique(Deferred<UniqueArgs>),
    Dedup(Deferred<dedup::DedupArgs>),
    GroupBy(Deferred<group::GroupByArgs>),
    Window(Deferred<window::WindowArgs>),
    Join(Deferred<join::JoinArgs>),
    Diff(Deferred<diff::DiffArgs>),
    Convert(Deferred<tables::ConvertArgs>),
    Info(Deferred<tables::InfoArgs>),
    Split(Deferred<SplitArgs>),
    Head(Deferred<HeadArgs>),
    Sample(Deferred<SampleArgs>),
    Gen(Deferred<GenArgs>),
    Verify(Deferred<VerifyArgs>),
    #[command(flatten)]
    Sequence(SequenceCommand),
    #[command(subcommand)]
    Vector(Deferred<vectors::VectorCommand>),
    Knn(Deferred<vectors::KnnArgs>),
    Kmeans(Deferred<vectors::KmeansArgs>),
    #[command(subcommand)]
    View(Deferred<view::ViewCommand>),
    #[command(subcommand)]
    Graph(Deferred<graph::GraphCommand>),
    Demo(Deferred<DemoArgs>),
    /// List or remove what killed runs left on the drives
    #[command(subcommand)]
    Scratch(Deferred<ScratchCommand>),
    /// Show every setting and where it comes from
    #[command(subcommand)]
    Config(Deferred<ConfigCommand>),
    /// Measure drives once, so that jobs can use each at its speed
    #[command(subcommand)]
    Drives(Deferred<DrivesCommand>),
    /// Create and check volumes, which hold datasets on many drives
    #[command(subcommand)]
    Volume(Deferred<VolumeCommand>),
    Put(Deferred<PutArgs>),
    Get(Deferred<GetArgs>),
    Ls(Deferred<LsArgs>),
    Rm(Deferred<RmArgs>),
    Cp(Deferred<CpArgs>),
    /// Benchmark drives, and outcore on them: tables, charts and an HTML report
    #[command(subcommand)]
    Bench(Deferred<BenchCommand>),
    /// Replay a block trace on drives, or summarise it
    ///
    /// Requests go to files that the command makes and removes again, or to an empty device.
    Replay(Deferred<ReplayArgs>),
    /// Simulate SSDs, arrays of SSDs, and a GPU inside the storage
    #[command(subcommand)]
    Sim(Deferred<SimCommand>),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write all pages to a directory
    Man {
        /// Directory for outcore.1, outcore-sort.1, ...
        #[arg(value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
        /// Replace existing pages
        #[arg(long, requires = "dir")]
        force: bool,
    },
}

/// Memory, threads and how files are read: what any job uses.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resources")]
pub(crate) struct ResourceArgs {
    /// Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half
    /// of the free memory
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) memory_bytes: Option<u64>,
    /// Number of compute threads. Default: one for each processor
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
    /// Default: auto
    #[arg(long, value_name = "MODE")]
    pub(crate) io: Option<IoMode>,
}

/// The drives.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resources")]
pub(crate) struct DriveArgs {
    /// A directory on a drive; repeat for more drives. Scratch is spread over all of them, and so
    /// is an output with {drive} in its name. Default: scratch goes beside the output, or to
    /// /var/tmp if the output is in memory
    #[arg(long = "drive", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) drives: Vec<PathBuf>,
    /// File that describes the drives, as written by `outcore drives probe`
    #[arg(long = "drives", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) drives_file: Option<PathBuf>,
}

/// The room for scratch.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resources")]
pub(crate) struct ScratchArgs {
    /// Limit on scratch space, over all drives together. Default: all free space
    #[arg(long = "scratch-limit", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) limit_bytes: Option<u64>,
}

/// What the records are.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Records")]
pub(crate) struct TypeArgs {
    /// Record type: u8..u128, i8..i64, f32 or f64, with the suffix `be` for big-endian (u64be); a
    /// vector such as f32x32; bytes such as bytes16; a NumPy dtype such as <u8 or uint64 (u8
    /// alone is one byte); or gensort (100 bytes, of which the first 10 are the key). .npy files
    /// carry their type
    #[arg(long = "type", value_name = "TYPE", conflicts_with_all = ["record_bytes", "keys"], value_parser = RecordFormat::parse_type)]
    pub(crate) format: Option<RecordFormat>,
    /// Record size in bytes, for records without a type of their own
    #[arg(long = "record", value_name = "SIZE", value_parser = parse_record_bytes)]
    pub(crate) record_bytes: Option<usize>,
    /// Sort key: OFFSET:LEN[:TYPE][:desc] in bytes, where TYPE is bytes (the default) or a number
    /// type; for structured .npy the name of a field, NAME[:desc]. Repeat for secondary keys;
    /// most significant first. Default: the whole record
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
}

impl TypeArgs {
    /// Whether they say that the input is records.
    pub(crate) fn is_typed(&self) -> bool {
        self.format.is_some() || self.record_bytes.is_some()
    }

    /// As the rules about records want it.
    pub(crate) fn to_request(&self) -> TypeRequest {
        TypeRequest {
            format: self.format.clone(),
            descr: None,
            record_bytes: self.record_bytes,
            keys: self.keys.clone(),
        }
    }
}

/// Whether plans are shown.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanArgs {
    /// Print the plan, then run
    #[arg(long)]
    pub(crate) explain: bool,
}

/// A record of what the run itself reads and writes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordingArgs {
    /// Record every read, write and sync of this run, with times, in FILE (an I/O trace; see
    /// docs/formats/io-trace.md). FILE appears only if the run succeeds; an existing file needs
    /// --force
    #[arg(long = "record-io", value_name = "FILE", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,
}

impl RecordingArgs {
    /// The file for the trace.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.trace.as_deref()
    }
}

/// The same, where nothing else could be replaced.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
    /// Replace an existing trace
    #[arg(long, help_heading = "Recording", requires = "trace")]
    pub(crate) force: bool,
}

/// Sort files of lines or records, larger than memory if need be
///
/// Inputs with a type (--type, --record, .npy or a manifest) are sorted as records: by key, then
/// by all of their bytes. All other text is sorted as lines, with the options of GNU sort in the
/// C locale and byte-identical output. Compressed text (gzip, zstd, bzip2 or xz, detected by
/// content) is decompressed, and OUT is compressed if its name ends in .gz, .zst, .bz2 or .xz.
/// Other binary data are refused unless a type or --lines says what they are. OUT appears whole
/// or not at all. Inputs are never changed, unless --replace, --delete-input or, for lines, -o
/// asks for it.
#[derive(Debug, Default, Args)]
#[command(after_long_help = SORT_EXAMPLES)]
pub(crate) struct SortArgs {
    /// Files to sort, in order: lines, raw records, .npy, or a manifest (.outcore.json) of
    /// shards; - is standard input, and the default for lines. Records from standard input need
    /// the - and a type
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output: a file, - for standard output, or one shard per drive if the name contains
    /// {drive}, as in 'sorted-{drive}.bin'. Default for lines: standard output. Lines replace an
    /// existing file, even an input; CSV and JSON lines only with --force
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Reverse the key order (largest first)
    #[arg(
        short = 'r',
        long,
        alias = "reverse",
        help_heading = "Order",
        overrides_with = "descending"
    )]
    pub(crate) descending: bool,
    /// Keep the input order of equal keys
    #[arg(short, long, help_heading = "Order", overrides_with = "stable")]
    pub(crate) stable: bool,
    /// Keep one record or line for each key: the first in output order
    #[arg(short, long, help_heading = "Order", overrides_with = "unique")]
    pub(crate) unique: bool,
    /// Check whether the input is sorted, and sort nothing; if it is not, exit with 1 and name
    /// the first item out of order
    #[arg(short, long, help_heading = "Order", value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "diagnose-first", conflicts_with_all = ["output", "replace", "delete_input", "explain", "dry_run"])]
    pub(crate) check: Option<CheckHow>,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) text: FormatArgs,
    #[command(flatten)]
    pub(crate) gnu: GnuArgs,
    #[command(flatten)]
    pub(crate) tables: tables::TableArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Let the output replace an input: OUT is one of the inputs, or is left out if there is one
    /// input
    #[arg(long, help_heading = "Files")]
    pub(crate) replace: bool,
    /// Free the blocks of the inputs as they are read, and remove the inputs at the end. Saves
    /// space, but if the job fails, what has been read is lost; a marker file (.NAME.outcore-
    /// consumed) then says so, and the input is refused while the marker exists
    #[arg(long, help_heading = "Files")]
    pub(crate) delete_input: bool,
    /// Print the plan (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
    /// Seed for sampling, drive choice and -R (whose order otherwise differs in each run). Does
    /// not affect the output otherwise
    #[arg(long, value_name = "N", help_heading = "Plan")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

impl SortArgs {
    /// Whether only the order is to be checked.
    pub(crate) fn is_check(&self) -> bool {
        self.check.is_some() || self.gnu.check_silently
    }
}

/// Generate records for tests and measurements
///
/// The records depend only on type, count, distribution and seed.
#[derive(Debug, Args)]
#[command(after_long_help = GEN_EXAMPLES)]
pub(crate) struct GenArgs {
    /// Record type, as in `sort --type`; gensort makes the records of sortbenchmark.org's gensort
    /// 1.5, byte for byte; SIZE/KEY[,KEY...] makes records with keys as in `sort --key`
    #[arg(value_name = "TYPE", value_parser = parse_generated)]
    pub(crate) format: RecordFormat,
    /// Number of records
    #[arg(short = 'n', long = "count", value_name = "COUNT", value_parser = parse_count)]
    pub(crate) records: u64,
    /// Output: a file (.npy gets a header), - for standard output, or one shard per drive if the
    /// name contains {drive}
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Distribution of the keys: uniform (the whole range: of floats all finite ones, so distances
    /// between vectors are infinite), uniform:MU (0 to MU), exponential:LAMBDA, zipf:S[:RANKS],
    /// normal and clusters:K (vectors around K centres; both of floats and of integers up to 32
    /// bits), rmat:SCALE (edges of a graph of 2^SCALE vertices, for u32x2 and the like),
    /// kronecker:SCALE (the same with vertices in no order, as Graph500 has it), sorted, reversed,
    /// equal
    #[arg(long = "dist", value_name = "DIST", default_value = "uniform")]
    pub(crate) distribution: Distribution,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Printable records
    #[arg(short, long, help_heading = "gensort")]
    pub(crate) ascii: bool,
    /// Keys that share prefixes
    #[arg(short, long, help_heading = "gensort")]
    pub(crate) skewed: bool,
    /// Number of the first record
    #[arg(short = 'b', long, value_name = "FIRST", help_heading = "gensort")]
    pub(crate) first: Option<u128>,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Replace an existing file
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// Check that files are sorted, and that they hold the records of others
///
/// Prints the number of records, an order-independent checksum and the number of equal keys on
/// standard error, in the words of sortbenchmark.org's valsort. Exits with 1 if a record is out
/// of order.
#[derive(Debug, Args)]
#[command(after_long_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Files to check, in order, as one input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Files that must hold the same records in any order: the input of the sort
    #[arg(long, value_name = "INPUT", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub(crate) against: Vec<PathBuf>,
    /// Tables only: column of the expected order, COLUMN:desc for the largest first; repeat for
    /// several
    #[arg(long, value_name = "COLUMN", help_heading = "Order")]
    pub(crate) by: Vec<String>,
    /// Tables only: look at these columns and no others
    #[arg(long, value_name = "NAME,...")]
    pub(crate) columns: Vec<String>,
    #[command(flatten)]
    pub(crate) bad_rows: BadRowArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Expect the reverse order (largest first)
    #[arg(long, help_heading = "Order")]
    pub(crate) descending: bool,
    /// Report equal keys as out of order
    #[arg(long, help_heading = "Order")]
    pub(crate) unique: bool,
    /// Expect records with equal keys to be ordered by their bytes, as `sort` writes them without
    /// --stable
    #[arg(long, help_heading = "Order")]
    pub(crate) ties: bool,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// Generate, sort and verify data larger than memory, and report the speed
///
/// Also measures the drive's own speed, for comparison. Removes every file that it makes.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Size of the data
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub(crate) data_bytes: u64,
    /// Memory to use
    #[arg(long = "memory", value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    pub(crate) memory_bytes: u64,
    /// Number of compute threads
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE")]
    pub(crate) io: Option<IoMode>,
    /// Directory for the data; needs three times their size for a while
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScratchCommand {
    /// List scratch directories (.outcore-*) and say whether a running job owns them
    List {
        /// Directories to search, with those directly inside them. Default: the configured drives,
        /// or the current directory
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dirs: Vec<PathBuf>,
    },
    /// Remove scratch directories (.outcore-*) that no running job owns
    ///
    /// Every job does this by itself in the directories that it uses. If a killed job was
    /// publishing several files, that is finished first.
    Clean {
        /// Directories to search, with those directly inside them. Default: the configured drives,
        /// or the current directory
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dirs: Vec<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting and where it comes from
    Show,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DrivesCommand {
    Probe(ProbeArgs),
}

/// Measure bandwidth, IOPS by queue depth, alignment, features and shared limits of drives
///
/// Measures each drive alone, then all together, on a file in a private directory that is removed
/// afterwards. The result, for --drives, goes to standard output or to a file.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// A directory on each drive, or a drives file (.toml) to measure again
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dirs: Vec<PathBuf>,
    /// File to write, for --drives; its name ends in .toml
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE")]
    pub(crate) io: Option<IoMode>,
    /// Size of the file on each drive, at most a quarter of the free space
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub(crate) file_bytes: u64,
    /// Time for each step; there are about seven steps per drive
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::parse_duration)]
    pub(crate) step: Duration,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// A record's size in bytes, as a plain number or with a unit.
fn parse_record_bytes(text: &str) -> Result<usize> {
    let bytes = units::parse_bytes(text)?;
    usize::try_from(bytes).map_err(|_| {
        Error::usage("read record size", format!("{bytes} bytes")).hint("a record has at most 1MiB")
    })
}

/// The type of records that are made; graphs are asked for by name, and are a distribution.
fn parse_generated(text: &str) -> Result<RecordFormat> {
    match text.split(':').next() {
        Some(graph @ ("rmat" | "kronecker")) => {
            let cause = format!("{graph} is a distribution of edges, and no type");
            Err(Error::usage("read record type", cause).hint(format!(
                "for edges of a graph of 2^20 vertices: outcore gen u32x2 -n 16777216 --dist {graph}:20 -o FILE"
            )))
        }
        _ => RecordFormat::parse_type(text),
    }
}

/// A number of records: `1000000`, `1_000_000` or `1e6`.
pub(crate) fn parse_count(text: &str) -> Result<u64> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let (mantissa, exponent) = digits
        .split_once(['e', 'E'])
        .unwrap_or((digits.as_str(), "0"));
    let number = mantissa.parse::<u64>().ok();
    let power = exponent.parse().ok().and_then(|e| 10_u64.checked_pow(e));
    number
        .zip(power)
        .and_then(|(number, power)| number.checked_mul(power))
        .ok_or_else(|| {
            Error::usage("read count", format!("invalid record count `{text}`"))
                .hint("write 1000000, 1_000_000 or 1e6")
        })
}

#[cfg(test)]
mod tests {
    use super::deferred::whole;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        whole(Cli::command).debug_assert();
    }

    #[test]
    fn counts_are_read_with_groups_and_powers() {
        assert_eq!(parse_count("1_000").unwrap(), 1000);
        assert_eq!(parse_count("25e5").unwrap(), 2_500_000);
        for text in ["", "e6", "1.5", "-3", "1e20", "many"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_flags_of_sort_mean_nothing_that_gnu_sort_gives_another_meaning() {
        let command = whole(Cli::command);
        let sort = command.find_subcommand("sort").unwrap();
        let shorts: Vec<char> = sort
            .get_arguments()
            .filter_map(clap::Arg::get_short)
            .collect();
        for short in shorts {
            assert!("bcCdfghikmMnorRsStTuVz".contains(short), "-{short}");
        }
    }
}
