//! The flags of the commands on vectors.
//!
//! Contract: as [`super`].

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::{DriveArgs, PlanArgs, RecordingArgs, ResourceArgs, parse_count};

const CONVERT_EXAMPLES: &str = "\
Examples:
  outcore vector convert sift_base.fvecs -o sift.fbin
  outcore vector convert embeddings.npy -o embeddings.f16bin
  outcore vector convert points.bin --type f32x32 -o points.npy
  outcore vector convert docs.parquet --column embedding -o embeddings.npy";

const INFO_EXAMPLES: &str = "\
Examples:
  outcore vector info base.1B.fbin
  outcore vector info embeddings.npy --json";

const INDEX_EXAMPLES: &str = "\
Examples:
  outcore vector index embeddings.npy -o embeddings.vindex
  outcore knn embeddings.npy queries.npy --index embeddings.vindex -k 10 -o ids.npy
  outcore vector index base.fbin -o base.vindex --nlist 1024
  outcore knn base.fbin queries.fbin --index base.vindex --nprobe 16 -k 10 -o ids.ibin";

const KNN_EXAMPLES: &str = "\
Examples:
  outcore knn base.fbin queries.fbin -k 100 -o gt.ibin --distances gt.fbin
  outcore knn embeddings.npy queries.npy -k 10 --metric cos -o ids.npy
  outcore knn points.npy --self -k 16 --edges -o edges.u64
  outcore graph convert edges.u64 --type u64 -o neighbours.graph
  outcore knn base.fbin queries.fbin --radius 0.2 --metric cos -o ids.npy --limits limits.npy";

const PAIRS_EXAMPLES: &str = "\
Examples:
  outcore vector pairs embeddings.npy --min-cos 0.95 -o pairs.npy
  outcore vector pairs base.fbin --max-l2 0 -o equal.npy
  outcore vector pairs embeddings.npy --min-cos 0.9 -o pairs.npy --distances distances.npy";

const KMEANS_EXAMPLES: &str = "\
Examples:
  outcore kmeans base.fbin -k 64 -o centroids.npy --labels labels.npy
  outcore kmeans embeddings.npy -k 1000 --spherical --runs 3 -o centroids.npy
  outcore kmeans base.1B.fbin -k 4096 --batch 65536 -o centroids.npy
  outcore kmeans base.fbin -k 64 --init centroids.npy --max-iterations 20 -o better.npy";

/// Convert files of vectors, tell what they hold, index them, and find near-duplicates
///
/// Names of files tell their formats: .npy, .fvecs, .bvecs and .ivecs, .fbin, .f16bin, .u8bin,
/// .i8bin and .ibin; others hold raw numbers and need a type.
#[derive(Debug, Subcommand)]
pub(crate) enum VectorCommand {
    Convert(VectorConvertArgs),
    Info(VectorInfoArgs),
    Index(VectorIndexArgs),
    Pairs(PairsArgs),
}

/// Convert vectors to another format or kind of number
///
/// Numbers stay as they are, or become the nearest that the new kind has; one outside its range is
/// an error. IN may be a table, in Parquet or Arrow: the lists of a column are vectors then, and
/// their numbers stay as they are. OUT appears whole or not at all.
#[derive(Debug, Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub(crate) struct VectorConvertArgs {
    #[command(flatten)]
    pub(crate) input: VectorInputArgs,
    /// Output; its name tells the format, raw numbers if it tells none
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Column of the table IN that has the vectors; by default the only one with lists of numbers
    #[arg(long, value_name = "NAME", conflicts_with_all = ["to", "type_name"])]
    pub(crate) column: Option<String>,
    /// Kind of number of OUT: f32, f16, f64, i8, u8, i32 or i64. Default: as its name tells, or as
    /// in the input
    #[arg(long, value_name = "KIND")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) run: VectorRunArgs,
}

/// Print the format, type and number of vectors of a file
///
/// Reads only the header, and checks it against the length of the file.
#[derive(Debug, Args)]
#[command(after_long_help = INFO_EXAMPLES)]
pub(crate) struct VectorInfoArgs {
    #[command(flatten)]
    pub(crate) input: VectorInputArgs,
}

/// Make an index of a file of vectors, with which knn reads a quarter as much
///
/// The index has a byte for each number, and for each vector a proof of how far these bytes may be
/// off. `knn --index` reads it instead of BASE, leaves out what cannot be near, and reads the few
/// vectors that are left from BASE: the result is the same. It is worth it where the same base is
/// searched several times. An index belongs to BASE as it is now: after a change, make it again.
/// OUT appears whole or not at all.
///
/// With --nlist the index has the vectors themselves, grouped by the nearest of N centroids (IVF),
/// and takes as much space as BASE. `knn --index --nprobe P` reads the P nearest lists of each
/// query alone: it is exact within them, may miss neighbours in others, and says how many it
/// missed.
#[derive(Debug, Args)]
#[command(after_long_help = INDEX_EXAMPLES)]
pub(crate) struct VectorIndexArgs {
    /// File of vectors: f32, f16 or f64; with --nlist i8 and u8, too
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) base: PathBuf,
    /// The index
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Group the vectors into N lists by k-means; about the square root of their number, or a few
    /// times that
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) nlist: Option<u64>,
    /// Group by direction, for searches with --metric cos
    #[arg(long, requires = "nlist")]
    pub(crate) spherical: bool,
    /// Random seed of the first centroids
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nlist")]
    pub(crate) seed: u64,
    /// Type of raw numbers, such as f32x768
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) run: VectorRunArgs,
}

/// Find all pairs of vectors that are near to each other
///
/// Writes the rows of each pair once, the smaller row first, in order. The result is that of all
/// pairs in double precision: the same bytes on any processor, for any number of threads and any
/// memory. Compares every vector with every later one, so the time grows with the square of their
/// number. Pairs that do not fit into the memory wait on scratch.
#[derive(Debug, Args)]
#[command(after_long_help = PAIRS_EXAMPLES)]
#[command(group(clap::ArgGroup::new("bound").required(true).args(["min_cos", "max_l2", "max_hamming"])))]
pub(crate) struct PairsArgs {
    /// File of vectors
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) base: PathBuf,
    /// The least cosine of a pair. Rounding may leave that of equal rows just below 1: --max-l2 0
    /// finds these
    #[arg(long, value_name = "C", allow_negative_numbers = true, value_parser = parse_cosine)]
    pub(crate) min_cos: Option<f64>,
    /// The largest squared Euclidean distance of a pair
    #[arg(long, value_name = "R", value_parser = parse_square)]
    pub(crate) max_l2: Option<f64>,
    /// The most bits in which a pair differs; BASE has packed bits, as u8
    #[arg(long, value_name = "BITS")]
    pub(crate) max_hamming: Option<u32>,
    /// Pairs of rows: .npy, .ibin, .ivecs, or raw i64; or a table (.parquet, .arrow, .csv) with the
    /// columns first, second and distance
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Their distances, one minus the cosine, the squared Euclidean or the bits that differ: .npy,
    /// .fbin, or raw f32
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) distances: Option<PathBuf>,
    /// Type of raw numbers, such as f32x768
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) run: VectorRunArgs,
}

/// A file of vectors.
#[derive(Debug, Args)]
pub(crate) struct VectorInputArgs {
    /// File of vectors
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    /// Type of raw numbers, such as f32x768
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
}

/// What a run of a command on vectors may use.
#[derive(Debug, Args)]
pub(crate) struct VectorRunArgs {
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// Replace existing outputs
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// What is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetricName {
    /// The square of the Euclidean distance
    #[value(alias = "euclidean")]
    L2,
    /// The inner product, largest first
    #[value(alias = "dot")]
    Ip,
    /// One minus the cosine; 1 for zero vectors
    #[value(alias = "cosine")]
    Cos,
    /// The number of bits that differ; vectors of u8 are packed bits
    Hamming,
}

/// Find the exact nearest neighbours of vectors
///
/// Reads the base once, or a few times where the queries do not fit into the memory. The result is
/// that of a search of all pairs in double precision, equal distances by row: the same bytes on any
/// processor, for any number of threads and any memory.
#[derive(Debug, Args)]
#[command(after_long_help = KNN_EXAMPLES)]
pub(crate) struct KnnArgs {
    /// File of the vectors that are searched
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) base: PathBuf,
    /// File of the vectors whose neighbours are looked for
    #[arg(value_name = "QUERIES", value_hint = ValueHint::FilePath, required_unless_present = "is_self", conflicts_with = "is_self")]
    pub(crate) queries: Option<PathBuf>,
    /// Neighbours of each query
    #[arg(short, value_name = "K", value_parser = parse_count, default_value = "10")]
    pub(crate) k: u64,
    /// Find all vectors within this distance instead, which for l2 is squared: for ip, with at
    /// least this inner product. -o gets the rows of all queries one after another, by
    /// row; --limits says where each query's begin
    #[arg(
        long,
        value_name = "R",
        conflicts_with = "k",
        allow_negative_numbers = true
    )]
    pub(crate) radius: Option<f64>,
    /// Where the results of each query begin, and where the last ones end, as in faiss'
    /// range_search: .npy, .ibin, or raw i64
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "radius")]
    pub(crate) limits: Option<PathBuf>,
    /// What is near
    #[arg(long, value_enum, default_value = "l2")]
    pub(crate) metric: MetricName,
    /// Rows of the base that are nearest to each query, the nearest first: .ibin, .ivecs, .npy, or
    /// raw i64; or a table (.parquet, .arrow, .csv) with the columns query, rank (not
    /// with --radius), row and distance
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Their distances, as f32 (infinite beyond its range): .fbin, .fvecs, .npy, or raw f32
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) distances: Option<PathBuf>,
    /// Write the edges of the graph of neighbours: pairs of a query's row and a row near it, the
    /// nearest first for each query; with raw numbers, as `graph convert` reads them. --distances
    /// gets one for each
    #[arg(long, conflicts_with = "radius")]
    pub(crate) edges: bool,
    /// Find the neighbours of every row of the base among the others
    #[arg(long = "self")]
    pub(crate) is_self: bool,
    /// Search only rows with a value other than 0 in this file: an array of bool or u8
    #[arg(long, value_name = "MASK", value_hint = ValueHint::FilePath)]
    pub(crate) subset: Option<PathBuf>,
    /// Search only vectors for which EXPR is true of the same row of --table, such as "lang == 'de'
    /// and year > 2020"; see `filter`
    #[arg(
        long = "where",
        value_name = "EXPR",
        requires = "tables",
        conflicts_with = "subset"
    )]
    pub(crate) condition: Option<String>,
    /// A table (Parquet or Arrow) with a row for each vector of the base, in the same order; repeat
    /// for further files
    #[arg(long = "table", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "condition")]
    pub(crate) tables: Vec<PathBuf>,
    /// Read this index of the base instead of the base, and only what is left from there; see
    /// `vector index`. The result is the same. Where it leaves out too little, the base is read as
    /// a whole
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "radius")]
    pub(crate) index: Option<PathBuf>,
    /// Of an index with lists, read only the P lists nearest to each query. Without it all are
    /// read, and the result is exact
    #[arg(long, value_name = "P", requires = "index", conflicts_with = "radius", value_parser = parse_count)]
    pub(crate) nprobe: Option<u64>,
    /// Do not measure the recall: with --nprobe, the exact neighbours of the first 100 queries are
    /// looked for, too, which reads the base once
    #[arg(long, requires = "nprobe")]
    pub(crate) no_recall: bool,
    /// Type of raw numbers in both files, such as f32x768
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) run: VectorRunArgs,
}

/// Cluster vectors by k-means
///
/// Each iteration reads the base once, gives each vector to its nearest centroid and moves each
/// centroid to the mean of its vectors. A centroid without vectors moves to the one that is
/// farthest from its own. The result is the same bytes on any processor, for any number of threads
/// and any memory. A run that was not long enough goes on from its centroids: --init FILE.
#[derive(Debug, Args)]
#[command(after_long_help = KMEANS_EXAMPLES)]
pub(crate) struct KmeansArgs {
    /// File of the vectors that are clustered
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) base: PathBuf,
    /// Number of clusters
    #[arg(short, value_name = "K", value_parser = parse_count, default_value = "8")]
    pub(crate) k: u64,
    /// Centroids: .npy, .fbin, .fvecs, or raw numbers
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// The cluster of each vector, counted from 0: .npy, .ibin, or raw i32; a table (.parquet,
    /// .arrow) or text (.csv, .jsonl) with the columns row and cluster. Reads the base once more
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) labels: Option<PathBuf>,
    /// Where centroids start: k-means++ or random, on a sample of at least 4096 and 8 K vectors;
    /// parallel (k-means||), which reads the base three times; or a file of K centroids
    #[arg(
        long,
        value_name = "HOW",
        alias = "seeding",
        default_value = "k-means++"
    )]
    pub(crate) init: PathBuf,
    /// Mini-batches: move centroids for ROWS random vectors at a time, and read the base once at
    /// the end for the inertia. Stops when ten batches in turn bring no improvement
    #[arg(long, value_name = "ROWS", value_parser = parse_count)]
    pub(crate) batch: Option<u64>,
    /// Iterations, or batches, at most
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) max_iterations: u32,
    /// Stop when the squares of all moves of centroids sum to no more than this part of the mean
    /// variance of the columns
    #[arg(long, value_name = "PART", default_value_t = 1e-4)]
    pub(crate) tolerance: f64,
    /// Cluster N times from different starts, and keep the result with the least inertia
    #[arg(long, value_name = "N", alias = "n-init", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Random seed of the starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Scale vectors and centroids to length 1, which clusters by cosine
    #[arg(long)]
    pub(crate) spherical: bool,
    /// Keep the centroids of each iteration in FILE, and go on from there if it is there: the same
    /// command again after a run that was stopped. The result is that of a run that was not. FILE
    /// goes when the run is done. Not with --batch or --runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["batch", "runs"])]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Type of raw numbers, such as f32x768
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    #[command(flatten)]
    pub(crate) run: VectorRunArgs,
}

/// A cosine.
fn parse_cosine(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|cosine: &f64| (-1.0..=1.0).contains(cosine));
    number.ok_or_else(|| "a cosine is between -1 and 1".to_string())
}

/// The square of a distance.
fn parse_square(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|square: &f64| (0.0..f64::INFINITY).contains(square));
    number.ok_or_else(|| "the square of a distance is a number from 0 on".to_string())
}
