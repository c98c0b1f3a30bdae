//! The options of `outcore bench`, and where its reports go.
//!
//! Contract: only definitions, and parsers of single values. The modules that use the options
//! document their meaning ([`crate::io`] and the others).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use outcore::IoMode;
use outcore_io::units;

use outcore_gen::Distribution;
use outcore_report::ReportArgs;
use outcore_traces::{FORMAT_HELP, Format, OnError, parse_time_unit};

use crate::graph::GraphBenchOptions;
use crate::io::{IoOptions, NamedLoad};
use crate::primitives::PrimitivesOptions;
use crate::replay::{FitTo, ReplayOptions, Speed};
use crate::sort::SortBenchOptions;
use crate::vectors::VectorsBenchOptions;
use crate::view::ViewBenchOptions;

/// Approximate time of `--quick`.
const QUICK: Duration = Duration::from_secs(60);
/// Approximate time of `--full`.
const FULL: Duration = Duration::from_secs(900);

const IO_EXAMPLES: &str = "\
Examples:
  outcore bench io /mnt/nvme0 /mnt/nvme1 -o report.html     a minute, reads only
  outcore bench io /mnt/nvme* --write-ok --full -o report.html -o report.json
  outcore bench io drives.toml --time 5min --charts figures/
  outcore bench io /mnt/nvme0 --load randread:4KiB:32 --load read:1MiB:8 --time 10s
  outcore bench io /dev/nvme1n1                             a device that nothing uses, reads only";

const DIFF_EXAMPLES: &str = "\
Examples:
  outcore bench diff before.json after.json
  outcore bench diff before.json after.json -o diff.html";

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure drives: rates, IOPS, latency, scaling, bottlenecks, and a recommended setting
    ///
    /// Measures only reads, unless you pass --write-ok. In a directory, it makes a file to read,
    /// and removes it even if the run fails. It rejects a device that is mounted or in use.
    Io(IoArgs),
    /// Compare a sort larger than memory with a sort in memory, over distributions, drives and
    /// sizes
    ///
    /// Repeats the experiments of PALID (SPAA 2025), Fig. 9 and 10, on these drives. All data are
    /// in private directories there, and are removed at the end.
    Sort(SortBenchArgs),
    /// Compare sorted views with sorts that write their result and with a sort in memory, by memory
    ///
    /// Repeats Table 2 and Fig. 3 of ActiveSort on these drives: the bytes moved, and the time
    /// until all sorted data have been read once. Then compares reads of a view with reads of the
    /// sorted file. All data are in private directories there, and are removed at the end.
    View(ViewBenchArgs),
    /// Measure map, filter, reduce, scan and shuffle by size of the data, across the memory limit
    ///
    /// Repeats PALID (SPAA 2025), Fig. 11, on these drives. All data are in private directories
    /// there, and are removed at the end.
    Primitives(PrimitivesArgs),
    /// Measure components, BFS, PageRank and a k-core of one graph on 1, 2, 4, ... drives
    ///
    /// Repeats the experiment of the Falcon paper (ATC 2017) on these drives. Prints the time and
    /// the rate of each algorithm, and the share of its time that the drives alone need. All data
    /// are in private directories there, and are removed at the end.
    Graph(GraphBenchArgs),
    /// Measure neighbours, clusters, sort and lookup of vectors, by number of threads and drives
    ///
    /// Repeats the experiments of the LLNL poster "Threading Opportunities in High-Performance
    /// Flash-Memory Storage" on these drives. Runs each job on a file of vectors of 32 f32, with 1,
    /// 2, 4, ... threads and on 1, 2, 4, ... drives. All data are in private directories there, and
    /// are removed at the end.
    Vectors(VectorsBenchArgs),
    /// Compare two reports of one benchmark, figure by figure
    ///
    /// Reads reports that were written as JSON. Shows each figure before and after, their ratio,
    /// the largest changes, and what differs between the machines and the options.
    Diff(DiffArgs),
}

/// The flags of `bench diff`.
#[derive(Debug, Args)]
#[command(after_long_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// The earlier report
    #[arg(value_name = "BEFORE.json", value_hint = ValueHint::FilePath)]
    pub before: PathBuf,
    /// The later report
    #[arg(value_name = "AFTER.json", value_hint = ValueHint::FilePath)]
    pub after: PathBuf,

    /// Files for the comparison.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// The flags of `bench io`.
#[derive(Debug, Args)]
#[command(after_long_help = IO_EXAMPLES)]
pub struct IoArgs {
    /// A directory on each drive, a drives file (.toml), a block device, or a file to read
    #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::AnyPath)]
    pub targets: Vec<PathBuf>,
    /// Also measure writes: to files of its own in directories, and to devices whose first and last
    /// MiB are empty
    #[arg(long)]
    pub write_ok: bool,
    /// Some block sizes, depths and threads, in about a minute (the default)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// All block sizes, depths and threads, in about a quarter of an hour
    #[arg(long)]
    pub full: bool,
    /// Approximate total time
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub time: Option<Duration>,
    /// Measure just this load: PATTERN:BLOCK:DEPTH[:THREADS] with read, write, randread or
    /// randwrite as PATTERN; repeat for more. Files in directories are written in full before the
    /// measurement begins
    #[arg(long = "load", value_name = "LOAD")]
    pub loads: Vec<NamedLoad>,
    /// Size of the file on each drive; a quarter of the free space at most
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub file_bytes: u64,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub io: IoMode,
    /// Files for the report.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl IoArgs {
    /// The options in the form of [`crate::io::run`].
    pub fn options(&self) -> IoOptions {
        let usual = if self.full { FULL } else { QUICK };
        IoOptions {
            targets: self.targets.clone(),
            is_write_ok: self.write_ok,
            budget_s: self.time.unwrap_or(usual).as_secs_f64(),
            is_full: self.full,
            file_bytes: self.file_bytes,
            io: self.io,
            loads: self.loads.clone(),
        }
    }
}

const SORT_EXAMPLES: &str = "\
Examples:
  outcore bench sort /mnt/a /mnt/b --size 8GiB --memory 2GiB -o sort.html
  outcore bench sort . --size 1GiB --memory 256MiB --dist uniform --dist zipf:1.5";

/// The flags of `bench sort`.
#[derive(Debug, Args)]
#[command(after_long_help = SORT_EXAMPLES)]
pub struct SortBenchArgs {
    /// A directory on each drive; the drives together, and also the first one alone, need space for
    /// three times the data
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dirs: Vec<PathBuf>,
    /// Size of the data
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub data_bytes: u64,
    /// Memory to use
    #[arg(long = "memory", value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    pub memory_bytes: u64,
    /// Number of compute threads. Default: one for each processor
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Distribution of the keys, as in `gen --dist`; repeat for more
    #[arg(long = "dist", value_name = "DIST", default_values = ["uniform", "uniform:1e6", "exponential:0.001", "zipf:1.2"])]
    pub distributions: Vec<Distribution>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub io: IoMode,
    /// Files for the report.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl SortBenchArgs {
    /// The options in the form of [`crate::sort::run`].
    pub fn options(&self) -> SortBenchOptions {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        SortBenchOptions {
            dirs: self.dirs.clone(),
            data_bytes: self.data_bytes,
            memory_bytes: self.memory_bytes,
            threads: self.threads.unwrap_or(all).max(1),
            distributions: self.distributions.clone(),
            io: self.io,
        }
    }
}

const VIEW_EXAMPLES: &str = "\
Examples:
  outcore bench view /mnt/a --size 4GiB -o view.html
  outcore bench view /mnt/a /mnt/b --size 2GB --memory 1GB --memory 3GB --rounds 5";

/// The flags of `bench view`.
#[derive(Debug, Args)]
#[command(after_long_help = VIEW_EXAMPLES)]
pub struct ViewBenchArgs {
    /// A directory on each drive; the drives together, and also the first one alone, need space for
    /// three times the data
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dirs: Vec<PathBuf>,
    /// Size of the data: records of 4 KiB with keys of 10 bytes
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub data_bytes: u64,
    /// Memory to use; repeat for more. By default six sizes from half of the data to twice as much
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub memory_bytes: Vec<u64>,
    /// Number of compute threads. Default: one for each processor
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Rounds of each method, alternating; the report shows medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub io: IoMode,
    /// Files for the report.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl ViewBenchArgs {
    /// The options in the form of [`crate::view::run`].
    pub fn options(&self) -> ViewBenchOptions {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        ViewBenchOptions {
            dirs: self.dirs.clone(),
            data_bytes: self.data_bytes,
            memory_bytes: self.memory_bytes.clone(),
            threads: self.threads.unwrap_or(all).max(1),
            rounds: usize::from(self.rounds),
            io: self.io,
        }
    }
}

const PRIMITIVES_EXAMPLES: &str = "\
Examples:
  outcore bench primitives /mnt/a /mnt/b --size 8GiB --memory 1GiB -o primitives.html
  outcore bench primitives . --size 512MiB --memory 128MiB --charts figures/";

/// The flags of `bench primitives`.
#[derive(Debug, Args)]
#[command(after_long_help = PRIMITIVES_EXAMPLES)]
pub struct PrimitivesArgs {
    /// A directory on each drive; all of them together need space for three times the largest data
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dirs: Vec<PathBuf>,
    /// Size of the largest data
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub data_bytes_max: u64,
    /// Memory to use
    #[arg(long = "memory", value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    pub memory_bytes: u64,
    /// Number of compute threads. Default: one for each processor
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub io: IoMode,
    /// Files for the report.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl PrimitivesArgs {
    /// The options in the form of [`crate::primitives::run`].
    pub fn options(&self) -> PrimitivesOptions {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        PrimitivesOptions {
            dirs: self.dirs.clone(),
            data_bytes_max: self.data_bytes_max,
            memory_bytes: self.memory_bytes,
            threads: self.threads.unwrap_or(all).max(1),
            io: self.io,
        }
    }
}

const GRAPH_EXAMPLES: &str = "\
Examples:
  outcore bench graph /mnt/nvme0 /mnt/nvme1 -o report.html
  outcore bench graph /mnt/nvme* --scale 26 --memory 2GiB";

/// The flags of `bench graph`.
#[derive(Debug, Args)]
#[command(after_long_help = GRAPH_EXAMPLES)]
pub struct GraphBenchArgs {
    /// A directory on each drive; the first needs space for twice the graph, and for its edges as
    /// pairs
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dirs: Vec<PathBuf>,
    /// The graph has 2 to the power of N vertices
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub scale: u32,
    /// Edges per vertex
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub factor: u64,
    /// Memory to use
    #[arg(long = "memory", value_name = "SIZE", default_value = "512MiB", value_parser = units::parse_bytes)]
    pub memory_bytes: u64,
    /// Number of compute threads. Default: one for each processor
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub io: IoMode,
    /// Files for the report.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl GraphBenchArgs {
    /// The options in the form of [`crate::graph::run`].
    pub fn options(&self) -> GraphBenchOptions {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        GraphBenchOptions {
            dirs: self.dirs.clone(),
            scale: self.scale,
            factor: self.factor,
            memory_bytes: self.memory_bytes,
            threads: self.threads.unwrap_or(all).max(1),
            io: self.io,
        }
    }
}

const VECTORS_EXAMPLES: &str = "\
Examples:
  outcore bench vectors /mnt/nvme0 /mnt/nvme1 -o report.html
  outcore bench vectors /mnt/nvme* --size 8GiB --threads 64 --memory 2GiB";

/// The flags of `bench vectors`.
#[derive(Debug, Args)]
#[command(after_long_help = VECTORS_EXAMPLES)]
pub struct VectorsBenchArgs {
    /// A directory on each drive. The first needs space for twice the vectors; all together need
    /// space for three times the vectors
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dirs: Vec<PathBuf>,
    /// Size of the file of vectors
    #[arg(long = "size", value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    pub data_bytes: u64,
    /// Number of vectors whose neighbours are searched
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub queries: usize,
    /// Number of keys to look up
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub keys: usize,
    /// Memory to use
    #[arg(long = "memory", value_name = "SIZE", default_value = "128MiB", value_parser = units::parse_bytes)]
    pub memory_bytes: u64,
    /// Measure with 1, 2, 4, ... and N threads. By default up to all processors
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub io: IoMode,
    /// Files for the report.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl VectorsBenchArgs {
    /// The options in the form of [`crate::vectors::run`].
    pub fn options(&self) -> VectorsBenchOptions {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        VectorsBenchOptions {
            dirs: self.dirs.clone(),
            data_bytes: self.data_bytes,
            queries: self.queries,
            keys: self.keys,
            memory_bytes: self.memory_bytes,
            threads_max: self.threads.unwrap_or(all).max(1),
            io: self.io,
        }
    }
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  outcore replay Financial1.spc.gz --summary                 what is in it: sizes, reads, writes
  outcore replay Financial1.spc.gz --on /mnt/a --on /mnt/b   as fast as the drives answer
  outcore replay volume.csv --on drives.toml --speed 10 -o report.html
  outcore replay sort.iotrace --on /mnt/a --speed 1          outcore's own, with its computation";

/// The flags of `replay`.
#[derive(Debug, Args)]
#[command(after_long_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// The trace: a block trace of another program (see --format) or of outcore, also compressed
    /// with gzip or zstd; - for standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// A directory on each drive, a drives file (.toml), or an empty block device; repeat for more
    #[arg(long = "on", value_name = "DRIVE", value_hint = ValueHint::AnyPath, required_unless_present = "summary")]
    pub targets: Vec<PathBuf>,
    /// Only summarise the trace
    #[arg(long, conflicts_with = "targets")]
    pub summary: bool,
    /// Speed: max (as fast as the drives answer), or a multiple of the recorded speed
    #[arg(
        long,
        value_name = "SPEED",
        default_value = "max",
        help_heading = "Pace"
    )]
    pub speed: Speed,
    /// Maximum number of requests in flight. Default: 32 per drive if the speed is max; outcore's
    /// own traces keep their dependencies
    #[arg(long, value_name = "N", help_heading = "Pace")]
    pub depth: Option<usize>,
    /// Stop after this many requests of the trace
    #[arg(long = "requests", value_name = "N", help_heading = "Pace")]
    pub requests_max: Option<u64>,
    /// Format of the trace.
    #[arg(long, value_name = "FORMAT", help = FORMAT_HELP, help_heading = "Trace")]
    pub format: Option<Format>,
    /// Unit of the times, if it differs from that of the format: s, ms, us, ns, 100ns
    #[arg(long = "time-unit", value_name = "UNIT", value_parser = parse_time_unit, help_heading = "Trace")]
    pub time_unit_ns: Option<u64>,
    /// What to do with lines that cannot be read: skip (counted and shown) or fail
    #[arg(
        long,
        value_name = "skip|fail",
        default_value = "skip",
        help_heading = "Trace"
    )]
    pub on_error: OnError,
    /// How offsets are mapped onto the drives: wrap (modulo their size) or scale (in proportion)
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "wrap",
        help_heading = "Drives"
    )]
    pub fit: FitArg,
    /// Divide the drives into N equal regions, which the devices of the trace take round-robin
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Drives", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub regions: u32,
    /// Size of a stripe over the drives
    #[arg(long = "stripe", value_name = "SIZE", default_value = "64KiB", value_parser = units::parse_bytes, help_heading = "Drives")]
    pub stripe_bytes: u64,
    /// Split requests into pieces of at most this size
    #[arg(long = "max-request", value_name = "SIZE", default_value = "512KiB", value_parser = units::parse_bytes, help_heading = "Drives")]
    pub request_bytes_max: u64,
    /// Size of the file on each drive; a quarter of the free space at most
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes, help_heading = "Drives")]
    pub file_bytes: u64,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(
        long,
        value_name = "MODE",
        default_value = "auto",
        help_heading = "Drives"
    )]
    pub io: IoMode,
    /// Allow writing to a block device whose first and last MiB are empty
    #[arg(long, help_heading = "Drives")]
    pub write_ok: bool,
    /// Files for the report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How offsets are mapped onto the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FitArg {
    /// Modulo their size
    Wrap,
    /// In proportion
    Scale,
}

impl ReplayArgs {
    /// The options in the form of [`crate::replay::run`].
    pub fn options(&self) -> ReplayOptions {
        ReplayOptions {
            trace: self.trace.clone(),
            format: self.format,
            time_unit_ns: self.time_unit_ns,
            on_error: self.on_error,
            targets: self.targets.clone(),
            is_write_ok: self.write_ok,
            file_bytes: self.file_bytes,
            io: self.io,
            speed: self.speed,
            depth: self.depth,
            fit: match self.fit {
                FitArg::Wrap => FitTo::Wrap,
                FitArg::Scale => FitTo::Scale,
            },
            regions: self.regions,
            stripe_bytes: self.stripe_bytes,
            request_bytes_max: self.request_bytes_max,
            requests_max: self.requests_max.unwrap_or(u64::MAX),
        }
    }
}
