//! Flags of the primitives: `map`, `filter`, `reduce` and their like.
//!
//! Contract: pure definitions. What is read, what it is and what may be used is said in the same
//! words as for `sort`; `--where` and `--map` refine the input of any of them in the same pass.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use outcore::key::RecordFormat;
use outcore_front::inputs::is_stdout;

use super::deferred::Deferred;
use super::expressions;
use outcore_verbs::option::tables::TableArgs;
pub(crate) use outcore_verbs::sequence::args::{
    InputArgs, MapStep, OutputArgs, TABLES_TOO, parse_expression,
};

const MAP_EXAMPLES: &str = "\
Examples:
  outcore map 'x * 2 + 1' keys.bin -o out.bin --type u64
  outcore map 'f32(key1) / 100' log.bin -o seconds.bin --record 16 --key 0:8:u64 --key 8:8:u64
  outcore map 'x * y' a.npy --zip b.npy -o products.npy
  outcore map 'hash(index) % 100' --count 1e9 -o random.bin
  outcore map 'total = price * n, year = year(time)' orders.parquet -o out.parquet
  outcore map \"size = case when n > 9 then 'large' else 'small' end\" t.parquet -o u.parquet

Give each computed column a name, before it with = or behind it with `as`: a column of the same name is replaced, all
other columns are kept (--columns selects some), and a later expression may read it. `a as b` renames column a.";

const FILTER_EXAMPLES: &str = "\
Examples:
  outcore filter 'x > 10 and x % 2 == 0' keys.bin -o even.bin --type u64
  outcore filter 'key0 >= 1700000000' log.bin -o recent.bin --record 64 --key 0:8:u64
  outcore filter \"country in ('de', 'fr') and time >= '2024-01-01'\" logs/ -o some.parquet
  outcore filter 'price * n > 100 and url is not null' t.parquet -o large.parquet

Row groups of a table that cannot match are not read.";

const FLAT_MAP_EXAMPLES: &str = "\
Examples:
  outcore flat-map 'x, x + 1' keys.bin -o both.bin --type u64
  outcore flat-map key0,key1 edges.bin -o ends.bin --record 16 --key 0:8:u64 --key 8:8:u64";

const MERGE_EXAMPLES: &str = "\
Examples:
  outcore merge monday.bin tuesday.bin -o both.bin --type u64
  outcore merge runs.outcore.json -o all.bin --record 100 --key 0:10
  outcore merge monday.parquet tuesday.parquet -o both.parquet --by host --by time:desc";

const REDUCE_EXAMPLES: &str = "\
Examples:
  outcore reduce sum,min,max,mean keys.bin --type u64
  outcore reduce count keys.bin --type u64 --where 'x % 2 == 0'
  outcore reduce 'a ^ b' keys.bin --type u64
  outcore reduce sum keys.bin --type u64 --map 'x * x'
  producer | outcore reduce mean - --type f64";

const PARTITION_EXAMPLES: &str = "\
Examples:
  outcore partition 'x >= 100' keys.bin -o 'part-{part}.bin' --type u64
  outcore partition 'hash(x) % 8' keys.bin -o 'part-{part}.bin' --parts 8 --type u64
  outcore partition 'index % 10 == 0' log.bin -o '{part}.bin' --record 64 --key 0:8:u64

Expressions are those of `outcore map --help`; with --where there is no index.";

const LOOKUP_EXAMPLES: &str = "\
Examples:
  outcore lookup sorted.bin --keys wanted.bin -o ranks.npy --type u64
  outcore lookup sorted.npy --keys wanted.npy -o behind.npy --side right
  outcore lookup sorted.npy --keys wanted.npy -o ranks.npy --index sorted.index
  outcore gather sorted.bin --at ranks.npy -o found.bin --type u64
  outcore lookup users.bin --keys wanted.bin --values -o found.bin --record 64 --key 0:8:u64
  outcore lookup --lines words.txt --keys queries.txt -o ranks.npy
  outcore lookup by-time.view --keys events.bin -o ranks.npy

Two or three blocks of 4 KiB are read for each key where keys are evenly spread, all of them with \
many reads in flight. A rank may be the number of records, which is no position. The keys are of \
the same type as the file; of records with --key, a key is a whole record. Ranks are u64, so they \
can go to `outcore gather --at`. A directory is a view: the blocks of its runs that \
have keys are read, all with many reads in flight.";

/// The primitives.
#[derive(Debug, Subcommand)]
pub(crate) enum SequenceCommand {
    Map(Deferred<MapArgs>),
    Filter(Deferred<FilterArgs>),
    Zip(Deferred<ZipArgs>),
    #[command(alias = "flat_map")]
    FlatMap(Deferred<FlatMapArgs>),
    Enumerate(Deferred<EnumerateArgs>),
    Windows(Deferred<WindowsArgs>),
    Reverse(Deferred<ReverseArgs>),
    Merge(Deferred<MergeArgs>),
    Reduce(Deferred<ReduceArgs>),
    Scan(Deferred<ScanArgs>),
    Histogram(Deferred<HistogramArgs>),
    Top(Deferred<TopArgs>),
    Find(Deferred<FindArgs>),
    Partition(Deferred<PartitionArgs>),
    Gather(Deferred<GatherArgs>),
    Lookup(Deferred<LookupArgs>),
}

impl SequenceCommand {
    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            SequenceCommand::Map(_) => "map",
            SequenceCommand::Filter(_) => "filter",
            SequenceCommand::Zip(_) => "zip",
            SequenceCommand::FlatMap(_) => "flat-map",
            SequenceCommand::Enumerate(_) => "enumerate",
            SequenceCommand::Windows(_) => "windows",
            SequenceCommand::Reverse(_) => "reverse",
            SequenceCommand::Merge(_) => "merge",
            SequenceCommand::Reduce(_) => "reduce",
            SequenceCommand::Scan(_) => "scan",
            SequenceCommand::Histogram(_) => "histogram",
            SequenceCommand::Top(_) => "top",
            SequenceCommand::Find(_) => "find",
            SequenceCommand::Partition(_) => "partition",
            SequenceCommand::Gather(_) => "gather",
            SequenceCommand::Lookup(_) => "lookup",
        }
    }

    /// Whether standard output carries data.
    pub(crate) fn takes_stdout(&self) -> bool {
        let to_stdout = |output: &Path, input: &InputArgs| is_stdout(output) && !input.dry_run;
        match self {
            SequenceCommand::Map(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Filter(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Zip(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::FlatMap(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Enumerate(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Windows(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Reverse(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Merge(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Scan(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Gather(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Lookup(args) => to_stdout(&args.output.output, &args.input),
            SequenceCommand::Reduce(_)
            | SequenceCommand::Histogram(_)
            | SequenceCommand::Top(_)
            | SequenceCommand::Find(_)
            | SequenceCommand::Partition(_) => false,
        }
    }
}

/// Compute a number from each record, or columns from each row of a table
///
/// The output has one number for each record of the input, or the row with its new columns, in the
/// same order. It appears whole or not at all.
#[derive(Debug, Args)]
#[command(after_long_help = expressions::help(MAP_EXAMPLES), mut_arg("inputs", |arg| arg.help(TABLES_TOO)))]
pub(crate) struct MapArgs {
    /// What to compute
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expression: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
}

/// Keep the records, or rows of a table, for which an expression is true
///
/// The output has whole records or rows, in input order. It appears whole or not at all.
#[derive(Debug, Args)]
#[command(after_long_help = expressions::help(FILTER_EXAMPLES), mut_arg("inputs", |arg| arg.help(TABLES_TOO)))]
pub(crate) struct FilterArgs {
    /// The condition
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expression: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
}

/// Zip the records of several files
///
/// Record i of the output is record i of IN followed by record i of each file given with --zip.
#[derive(Debug, Args)]
pub(crate) struct ZipArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Compute several numbers from each record
///
/// The output has the values of all expressions for the first record, then those for the second,
/// and so on. All expressions must have the same type.
#[derive(Debug, Args)]
#[command(after_long_help = FLAT_MAP_EXAMPLES)]
pub(crate) struct FlatMapArgs {
    /// What to compute: expressions with commas between
    #[arg(value_name = "EXPR,EXPR...", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expressions: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Put the position of each record before it
///
/// Each record of the output is a position (8 bytes, from 0) followed by the record; a .npy output
/// has the fields position and value. With --where, positions count only the records that are kept.
#[derive(Debug, Args)]
pub(crate) struct EnumerateArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Write each record together with the records that follow it
///
/// Record i of the output is records i to i + K - 1 of the input, one after another. The input is
/// read once, or up to K times where K - 1 records have more than 4 KiB.
#[derive(Debug, Args)]
pub(crate) struct WindowsArgs {
    /// Number of records in each window, 2 to 8
    #[arg(value_name = "K")]
    pub(crate) window_records: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Write the last record first
#[derive(Debug, Args)]
pub(crate) struct ReverseArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Merge files that are sorted already
///
/// Each input must be in the order that `outcore sort` gives it; the output is all of them in that
/// order. A merge reads and writes the data once, where a sort does so twice. If a file of records
/// is not sorted, the output is not sorted either, which `outcore verify` finds; if a table is not,
/// the error names the row. Lines are merged by `outcore sort -m`.
#[derive(Debug, Args)]
#[command(after_long_help = MERGE_EXAMPLES, mut_arg("inputs", |arg| arg.help(TABLES_TOO)))]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Column by which all files are sorted, as in `outcore sort --by`; repeat for several
    #[arg(
        long,
        value_name = "COLUMN",
        help_heading = "Tables (Parquet and Arrow)"
    )]
    pub(crate) by: Vec<String>,
    /// The largest keys come first
    #[arg(long)]
    pub(crate) descending: bool,
    /// Equal keys keep the order of the inputs
    #[arg(long)]
    pub(crate) stable: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
}

/// Reduce all records to one value: sum, count, min, max, mean or an expression
///
/// Sums of integers are exact, whatever their size. Sums of floats depend only on the input,
/// never on threads or memory. With --map, the values that EXPR gives for the records are
/// reduced.
#[derive(Debug, Args)]
#[command(after_long_help = REDUCE_EXAMPLES)]
pub(crate) struct ReduceArgs {
    /// What to compute: sum, count, min, max or mean, several separated by commas, or an
    /// associative expression of a and b
    #[arg(value_name = "HOW")]
    pub(crate) how: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
}

/// Write prefix sums, products, minima or maxima
///
/// Number i of the output combines the numbers up to i, in their own type. Integers wrap around,
/// so cast small types first: --map 'u64(x)'.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// The operation
    #[arg(value_name = "OP", value_enum)]
    pub(crate) op: ScanOpArg,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
    /// Exclusive scan: start with the identity, and leave each number out of its own result
    #[arg(long, help_heading = "Steps")]
    pub(crate) exclusive: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What prefixes are taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ScanOpArg {
    /// Running sums
    Sum,
    /// Running products
    Product,
    /// The smallest so far
    Min,
    /// The largest so far
    Max,
}

/// Count numbers in bins of equal width
///
/// Prints the borders of each bin and its count, one bin per line. Without --range the input is
/// read twice.
#[derive(Debug, Args)]
pub(crate) struct HistogramArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
    /// Number of bins
    #[arg(long, value_name = "N", help_heading = "Steps", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) bins: u32,
    /// Count only numbers from LOW to HIGH
    #[arg(long, value_name = "LOW:HIGH", help_heading = "Steps", value_parser = parse_range, allow_hyphen_values = true)]
    pub(crate) range: Option<(f64, f64)>,
}

fn parse_range(text: &str) -> outcore::Result<(f64, f64)> {
    let numbers = text.split_once(':');
    let numbers = numbers.and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    numbers.ok_or_else(|| {
        outcore::Error::usage("read range", format!("`{text}` is not a range")).hint("write 0:100")
    })
}

/// Print the largest numbers, largest first
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// How many numbers to print
    #[arg(value_name = "K")]
    pub(crate) k: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
    /// Print the smallest numbers, smallest first
    #[arg(long, help_heading = "Steps")]
    pub(crate) smallest: bool,
}

/// Print the position of the first record for which an expression is true
///
/// Stops reading there. Exits with 1 if there is no such record.
#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// The condition
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expression: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// Write each record to one of several files
///
/// The expression gives the number of the file, from 0; a condition gives 1 where it is true.
/// Files keep the input order and appear together. {part} in the name stands for the number,
/// zero-padded to the same width; files that end in .npy get a header.
#[derive(Debug, Args)]
#[command(after_long_help = PARTITION_EXAMPLES)]
pub(crate) struct PartitionArgs {
    /// The number of the file
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expression: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Number of files
    #[arg(long, value_name = "N", help_heading = "Steps", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) parts: u32,
    /// File name pattern: {part} in it stands for the number of the file
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, help_heading = "Files")]
    pub(crate) output: PathBuf,
}

/// Find where keys belong in sorted files, as numpy.searchsorted does
///
/// The rank of a key is the number of records that are less, or with --side right, that are not
/// greater. Keys may come in any order, and their ranks come in the same.
#[derive(Debug, Args)]
#[command(
    after_long_help = LOOKUP_EXAMPLES,
    mut_arg("zip", |arg| arg.hide(true)),
    mut_arg("count", |arg| arg.hide(true)),
    mut_arg("conditions", |arg| arg.hide(true))
)]
pub(crate) struct LookupArgs {
    /// File of keys, of the same type: whole records of which the keys count, or whole lines (of
    /// CSV with the header or without)
    #[arg(id = "wanted", long = "keys", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keys: PathBuf,
    /// For keys that exist: the rank of the first such record, or the rank after the last
    #[arg(long, value_name = "SIDE", value_enum, default_value = "left")]
    pub(crate) side: SideArg,
    /// Look up through this index of the sorted files, so that a key takes one read of 4 KiB. It is
    /// made if it is not there, by one read of the files; it belongs to them as they are. Where a
    /// quarter of the memory does not hold it, a key takes a few reads
    #[arg(id = "lookup_index", long = "index", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) index: Option<PathBuf>,
    /// The input and the keys are lines; those of the input are in the order of their bytes (of
    /// `LC_ALL=C sort`), which one read of it checks
    #[arg(long)]
    pub(crate) lines: bool,
    /// As --lines, where lines end with NUL
    #[arg(short, long)]
    pub(crate) zero_terminated: bool,
    /// Instead of ranks, write the records or lines that have these keys: all of them for each key,
    /// and nothing for a key that no record has
    #[arg(long, conflicts_with = "side")]
    pub(crate) values: bool,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which rank of a key that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SideArg {
    /// Of the first such record
    Left,
    /// After the last such record
    Right,
}

/// Write the records at given positions, in the order given
///
/// Positions are read in sorted order, each block once, at full queue depth.
#[derive(Debug, Args)]
pub(crate) struct GatherArgs {
    /// File of positions, counted from 0: u64, or .npy of any integers
    ///
    /// There may be more of them than the memory holds: they are sorted, the records are read in
    /// ascending order and sorted back.
    #[arg(long = "at", visible_alias = "index", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) positions: PathBuf,
    /// Type of positions without a header: u64, i64, u32, i32, u16, i16, u8 or i8 [default: u64]
    #[arg(long = "at-type", value_name = "TYPE", value_parser = RecordFormat::parse_type)]
    pub(crate) positions_type: Option<RecordFormat>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
