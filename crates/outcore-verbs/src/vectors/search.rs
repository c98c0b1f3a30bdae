//! The searches of `knn`: their options, inputs and reports.
//!
//! Contract: as in [`super`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use outcore::passes::JobOption;
use outcore::{Error, Result};
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{KnnOptions, Metric, RECALL_QUERIES, Subset};
use outcore_vector::results::{self, Array};

use super::run::{Files, NO_DISTANCES, Run, check_table};
use crate::columns;
use crate::option::{DriveArgs, PassResumeArgs, RunArgs, parse_count};
use crate::report::{JobSummary, Phase, Place, report};
use crate::resumed::job_options;

const KNN_EXAMPLES: &str = "\
Examples:
  outcore knn base.fbin queries.fbin -k 100 -o gt.ibin --distances gt.fbin
  outcore knn embeddings.npy queries.npy -k 10 --metric cos -o ids.npy
  outcore knn points.npy --self -k 16 --edges -o edges.u64
  outcore graph convert edges.u64 --type u64 -o neighbours.graph
  outcore knn base.fbin queries.fbin --radius 0.2 --metric cos -o ids.npy --limits limits.npy";

/// The measure of distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MetricName {
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

impl From<MetricName> for Metric {
    fn from(name: MetricName) -> Self {
        match name {
            MetricName::L2 => Metric::L2,
            MetricName::Ip => Metric::Ip,
            MetricName::Cos => Metric::Cos,
            MetricName::Hamming => Metric::Hamming,
        }
    }
}

/// Find the exact nearest neighbours of vectors
///
/// Reads the base once, or several times if the queries do not fit in memory. The result is that of
/// comparing all pairs in double precision, with equal distances ordered by row. It is byte for
/// byte the same on any processor, for any number of threads and any memory.
#[derive(Debug, Args)]
#[command(
    after_long_help = KNN_EXAMPLES,
    mut_arg("resume", |option| option.conflicts_with_all(["radius", "distances", "condition"])),
)]
pub(crate) struct KnnArgs {
    /// File of the vectors to search
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(super) base: PathBuf,
    /// File of the query vectors
    #[arg(value_name = "QUERIES", value_hint = ValueHint::FilePath, required_unless_present = "is_self", conflicts_with = "is_self")]
    pub(super) queries: Option<PathBuf>,
    /// Neighbours of each query
    #[arg(short, value_name = "K", value_parser = parse_count, default_value = "10")]
    pub(super) k: u64,
    /// Find all vectors within this distance instead. For l2 the distance is squared; for ip it is
    /// the minimum inner product. -o gets the rows of all queries, one query after another, each in
    /// ascending order; --limits gets the start of each query's rows
    #[arg(
        long,
        value_name = "R",
        conflicts_with = "k",
        allow_negative_numbers = true
    )]
    pub(super) radius: Option<f64>,
    /// Where the results of each query begin, and where the last ones end, as in faiss'
    /// range_search: .npy, .ibin, or raw i64
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "radius")]
    pub(super) limits: Option<PathBuf>,
    /// The measure of distance
    #[arg(long, value_enum, default_value = "l2")]
    pub(super) metric: MetricName,
    /// Rows of the base that are nearest to each query, the nearest first: .ibin, .ivecs, .npy, or
    /// raw i64; or a table (.parquet, .arrow, .csv) with the columns query, rank (not
    /// with --radius), row and distance
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, required = true)]
    pub(super) output: Option<PathBuf>,
    /// Distances of these rows, as f32 (infinite beyond its range): .fbin, .fvecs, .npy, or raw f32
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) distances: Option<PathBuf>,
    /// Write the edges of the graph of neighbours: pairs of a query's row and a neighbour's row,
    /// nearest first for each query. `graph convert` reads them if they are raw numbers.
    /// --distances gets one distance per edge
    #[arg(long, conflicts_with = "radius")]
    pub(super) edges: bool,
    /// Find the neighbours of every row of the base among the other rows
    #[arg(long = "self")]
    pub(super) is_self: bool,
    /// Search only rows with a value other than 0 in this file: an array of bool or u8
    #[arg(long, value_name = "MASK", value_hint = ValueHint::FilePath)]
    pub(super) subset: Option<PathBuf>,
    /// Search only vectors for which EXPR holds in the same row of --table, such as "lang == 'de'
    /// and year > 2020"; see `filter`
    #[arg(
        long = "where",
        value_name = "EXPR",
        requires = "tables",
        conflicts_with = "subset"
    )]
    pub(super) condition: Option<String>,
    /// A table (Parquet or Arrow) with a row for each vector of the base, in the same order; repeat
    /// for further files
    #[arg(long = "table", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "condition")]
    pub(super) tables: Vec<PathBuf>,
    /// Read this index instead of the base, and only the remaining candidates from the base; see
    /// `vector index`. The result is the same. If the index leaves too many candidates, the whole
    /// base is read
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "radius")]
    pub(super) index: Option<PathBuf>,
    /// For an index with lists: read only the P lists nearest to each query. By default all lists
    /// are read, and the result is exact
    #[arg(long, value_name = "P", requires = "index", conflicts_with = "radius", value_parser = parse_count)]
    pub(super) nprobe: Option<u64>,
    /// Do not measure the recall. By default, --nprobe also finds the exact neighbours of the first
    /// 100 queries, which takes one read of the base
    #[arg(long, requires = "nprobe")]
    pub(super) no_recall: bool,
    /// Type of raw numbers in both files, such as f32x768
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) type_name: Option<String>,
    #[command(flatten)]
    pub(super) journal: PassResumeArgs,
    #[command(flatten)]
    pub(super) drives: DriveArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

report! {
    /// Neighbours that were found: `records` counts the queries.
    pub(crate) struct KnnSummary {
        [used: JobSummary],
        /// The file with the rows of the neighbours; none if no file was named.
        output: Option<Place>,
        /// Vectors of the base.
        base_rows: u64,
        /// Numbers of a vector.
        dimension: usize,
        /// Neighbours of each query; none for a search within a radius.
        k: Option<usize>,
        /// Vectors within the radius; none without a radius.
        results: Option<u64>,
        /// Distances that were measured in double precision.
        measured: u64,
        /// Vectors that an index could not leave out, and that were read from the base.
        gathered: u64,
        /// Whether the index left so many candidates that the whole base was read.
        index_failed: bool,
        /// Lists of an index that were read.
        lists_read: u64,
        /// The fraction of the exact neighbours that was found, if not all lists were read.
        recall: Option<f64>,
        /// The number of queries in that measurement.
        recall_queries: Option<u64>,
        /// The result in words.
        text: String,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

impl KnnArgs {
    /// The files, including `limits` if it is given.
    pub(super) fn files<'a>(&'a self, limits: Option<&'a Path>) -> Files<'a> {
        let read = [
            Some(self.base.as_path()),
            self.queries.as_deref(),
            self.subset.as_deref(),
        ];
        let tables = self.tables.iter().map(|path| Some(path.as_path()));
        let read = read.into_iter().chain(tables);
        let written = [self.output.as_deref(), limits, self.distances.as_deref()];
        Files {
            is_resumed: self.journal.resume,
            ..Files::of(read.chain([self.index.as_deref()]), written)
        }
    }

    /// The options of the verb `name`, if its state is kept.
    pub(super) fn kept_options(&self, name: &str) -> Option<Vec<JobOption>> {
        let options = job_options!(
            self: k, metric, edges, is_self, nprobe, type_name as "type of raw numbers";
            without base, queries, radius, limits, output, distances, subset, condition, tables,
            index, no_recall, drives, run
        );
        self.journal.of(name, options)
    }

    /// Whether the output is a table.
    pub(super) fn is_table(&self) -> bool {
        self.output.as_deref().is_some_and(columns::has_columns)
    }

    pub(super) fn options(&self) -> KnnOptions {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        KnnOptions {
            excludes_self: self.is_self,
            index: self.index.clone(),
            probes: self.nprobe.map(size),
            recall_queries: match self.no_recall {
                true => 0,
                false => RECALL_QUERIES,
            },
            ..KnnOptions::new(size(self.k), self.metric.into())
        }
    }

    /// Fails for names of outputs whose endings do not match the results.
    pub(super) fn check_outputs(&self) -> Result<()> {
        if self.limits.is_some() {
            let cause = "--limits is for --radius: each query has K neighbours here";
            return Err(
                Error::usage("read arguments", cause).hint("leave --limits out, or give --radius")
            );
        }
        match &self.output {
            _ if self.is_table() => check_table(self.distances.as_deref(), self.edges)?,
            Some(output) => results::check_name(output, Array::Ids(&[])).map(drop)?,
            None => {}
        }
        if let Some(path) = &self.distances {
            results::check_name(path, NO_DISTANCES)?;
        }
        Ok(())
    }
}

impl Run<'_> {
    /// The base, and the queries.
    pub(super) fn base_and_queries(&self, args: &KnnArgs) -> Result<(VectorFile, VectorFile)> {
        let type_name = args.type_name.as_deref();
        let base = self.open(&args.base, type_name)?;
        let queries = match &args.queries {
            // Only the base, or only the queries, may be raw numbers.
            Some(path) => self.open_typed(path, type_name)?,
            None => base.clone(),
        };
        Ok((base, queries))
    }

    /// The vectors that may be found; all if none are selected.
    pub(super) fn subset(&self, args: &KnnArgs, base: &VectorFile) -> Result<Option<Arc<Subset>>> {
        let chosen = match (&args.subset, &args.condition) {
            (Some(mask), _) => Some(Subset::read(&self.job, mask, base)?),
            (None, Some(condition)) => Some(columns::rows_where(
                &self.job,
                base,
                condition,
                &args.tables,
            )?),
            (None, None) => None,
        };
        Ok(chosen.map(Arc::new))
    }
}
