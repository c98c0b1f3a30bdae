//! `vector pairs`, and `knn --radius`: all vectors that are near.
//!
//! Contract: as in [`super`]. All files of a result appear together; without an output, a program
//! receives arrays.

use std::mem;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueHint};
use outcore::{Error, Phase as EnginePhase, Result};
use outcore_io::units;
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{self, Found, Hit, Metric, RangeOptions, Within};
use outcore_vector::results::{self, Array, NewRows, RowsWriter};

use super::run::{Files, NO_DISTANCES, RawArgs, Run, check_table, rate_text, written_by};
use super::search::{KnnArgs, KnnSummary};
use crate::columns::{self, TablePlace};
use crate::host::{self, Arrays, Host, Weight};
use crate::option::{DriveArgs, RunArgs};
use crate::report::{JobSummary, Moved, Phase, Place, report};
use crate::verb::{Inputs, Verb, Words};

const PAIRS_EXAMPLES: &str = "\
Examples:
  outcore vector pairs embeddings.npy --min-cos 0.95 -o pairs.npy
  outcore vector pairs base.fbin --max-l2 0 -o equal.npy
  outcore vector pairs embeddings.npy --min-cos 0.9 -o pairs.npy --distances distances.npy";

/// Find all pairs of vectors that are near to each other
///
/// Writes the rows of each pair once, the smaller row first, in order. The result is that of
/// comparing all pairs in double precision, byte for byte the same on any processor, for any number
/// of threads and any memory. Every vector is compared with every later one, so the time grows with
/// the square of their number. Pairs that do not fit in memory go to scratch.
#[derive(Debug, Args)]
#[command(after_long_help = PAIRS_EXAMPLES)]
#[command(group(ArgGroup::new("bound").required(true).args(["min_cos", "max_l2", "max_hamming"])))]
pub(crate) struct PairsArgs {
    /// File of vectors
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    base: PathBuf,
    /// Minimum cosine of a pair. Rounding may make the cosine of equal rows slightly less than 1:
    /// --max-l2 0 finds these
    #[arg(long, value_name = "C", allow_negative_numbers = true, value_parser = parse_cosine)]
    min_cos: Option<f64>,
    /// The largest squared Euclidean distance of a pair
    #[arg(long, value_name = "R", value_parser = parse_square)]
    max_l2: Option<f64>,
    /// Maximum number of bits in which a pair differs; BASE has packed bits, as u8
    #[arg(long, value_name = "BITS")]
    max_hamming: Option<u32>,
    /// Pairs of rows: .npy, .ibin, .ivecs, or raw i64; or a table (.parquet, .arrow, .csv) with the
    /// columns first, second and distance
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, required = true)]
    output: Option<PathBuf>,
    /// Distances of the pairs (one minus the cosine, the squared Euclidean distance, or the number
    /// of bits that differ): .npy, .fbin, or raw f32
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    distances: Option<PathBuf>,
    #[command(flatten)]
    raw: RawArgs,
    #[command(flatten)]
    drives: DriveArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl PairsArgs {
    fn options(&self) -> Result<RangeOptions> {
        Ok(match (self.min_cos, self.max_l2, self.max_hamming) {
            (Some(cosine), ..) => RangeOptions::new(Metric::Cos, 1.0 - cosine),
            (_, Some(square), _) => RangeOptions::new(Metric::L2, square),
            (.., Some(bits)) => RangeOptions::new(Metric::Hamming, f64::from(bits)),
            _ => {
                let error = Error::usage("read arguments", "no bound for near pairs is given");
                return Err(error.hint("give --min-cos, --max-l2 or --max-hamming"));
            }
        })
    }
}

report! {
    /// Pairs that were found: `records` counts the vectors.
    pub(crate) struct PairsSummary {
        [used: JobSummary],
        /// The file with the pairs; none if no file was named.
        output: Option<Place>,
        /// Vectors of the base.
        base_rows: u64,
        /// Numbers of a vector.
        dimension: usize,
        /// Pairs.
        results: u64,
        /// Distances that were measured in double precision.
        measured: u64,
        /// The report as text.
        text: String,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// `vector pairs`.
pub(crate) struct VectorPairs;

impl Verb for VectorPairs {
    const NAME: &'static str = "vector pairs";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = PairsArgs;
    type Report = PairsSummary;
    const PHASES: &'static [Weight] = &[("search", 1.0)];

    fn run(host: &dyn Host, args: &PairsArgs) -> Result<PairsSummary> {
        let options = args.options()?;
        let written = [args.output.as_deref(), args.distances.as_deref()];
        let files = Files::of([Some(args.base.as_path())], written);
        let run = Run::begin(host, &args.run, Some(&args.drives), &files)?;
        let base = run.open(&args.base, args.raw.name())?;
        let to = Outputs {
            rows: args.output.as_deref(),
            limits: None,
            distances: args.distances.as_deref(),
            columns: ["first", "second"],
            are_pairs: true,
            id_max: base.rows.saturating_sub(1),
        };
        to.check()?;
        let results = run.watch(|job| to.write(&run, knn::pairs(job, &base, &options)?))?;
        let used = run.used(results.moved(base.rows))?;
        Ok(PairsSummary {
            text: text(&base, &units::counted(results.count, "pair"), &used),
            used,
            output: args.output.clone().map(Place),
            base_rows: base.rows,
            dimension: base.dimension,
            results: results.count,
            measured: results.measured,
            phases: Phase::of_engine(&results.phases),
        })
    }

    fn say(args: &PairsArgs, report: &PairsSummary, words: &mut Words) {
        words.lines(&report.text);
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &PairsSummary) -> String {
        report.text.clone()
    }
}

/// All vectors within a radius of queries.
pub(super) fn radius(
    host: &dyn Host,
    args: &KnnArgs,
    metric: Metric,
    radius: f64,
) -> Result<KnnSummary> {
    let options = RangeOptions {
        excludes_self: args.is_self,
        ..RangeOptions::new(metric, radius)
    };
    let limits = match (&args.limits, args.is_table()) {
        (limits, true) => {
            check_table(limits.as_deref().or(args.distances.as_deref()), args.edges)?;
            None
        }
        (None, false) if args.output.is_some() => {
            let cause = "queries have different numbers of results, so a second file has to say where the results of each query begin";
            let error = Error::usage("read arguments", cause);
            return Err(error.hint(
                "give the second file with --limits FILE, or end the output's name in \
                 .parquet",
            ));
        }
        (limits, false) => limits.as_deref(),
    };
    let files = args.files(limits);
    let run = Run::begin(host, &args.run, Some(&args.drives), &files)?;
    let (base, queries) = run.base_and_queries(args)?;
    let to = Outputs {
        rows: args.output.as_deref(),
        limits,
        distances: args.distances.as_deref(),
        columns: ["query", "row"],
        are_pairs: false,
        id_max: base.rows.saturating_sub(1),
    };
    to.check()?;
    let results = run.watch(|job| {
        let options = RangeOptions {
            subset: run.subset(args, &base)?,
            ..options
        };
        to.write(&run, knn::range_search(job, &base, &queries, &options)?)
    })?;
    let used = run.used(results.moved(queries.rows))?;
    Ok(KnnSummary {
        text: text(&base, &units::counted(results.count, "vector"), &used),
        used,
        output: args.output.clone().map(Place),
        base_rows: base.rows,
        dimension: base.dimension,
        k: None,
        results: Some(results.count),
        measured: results.measured,
        gathered: 0,
        index_failed: false,
        lists_read: 0,
        recall: None,
        recall_queries: None,
        phases: Phase::of_engine(&results.phases),
    })
}

/// The destinations of results.
struct Outputs<'a> {
    /// Nothing if a program receives arrays.
    rows: Option<&'a Path>,
    limits: Option<&'a Path>,
    distances: Option<&'a Path>,
    /// The names of a result's ids in a table.
    columns: [&'static str; 2],
    /// Whether both ids of a result are written, or its row alone.
    are_pairs: bool,
    id_max: u64,
}

/// The results that were found and written.
struct Results {
    count: u64,
    passes: u32,
    read_bytes: u64,
    measured: u64,
    phases: Vec<EnginePhase>,
}

impl Results {
    /// The traffic of the run, for this many `records`.
    fn moved(&self, records: u64) -> Moved {
        Moved {
            records,
            read_bytes: self.read_bytes,
            written_bytes: written_by(&self.phases),
            passes: self.passes,
        }
    }
}

impl Outputs<'_> {
    fn is_table(&self) -> bool {
        self.rows.is_some_and(columns::has_columns)
    }

    /// Fails for names whose endings do not match the results.
    fn check(&self) -> Result<()> {
        match (self.is_table(), self.are_pairs) {
            (true, true) => check_table(self.distances, false)?,
            (true, false) => {}
            (false, _) => {
                for path in self.rows.iter().chain(&self.limits) {
                    results::check_name(path, Array::Ids(&[]))?;
                }
            }
        }
        if let Some(path) = self.distances {
            results::check_name(path, NO_DISTANCES)?;
        }
        Ok(())
    }

    /// Writes the results, or passes them to the program.
    fn write(&self, run: &Run<'_>, found: Found) -> Result<Results> {
        let mut results = Results {
            count: found.hits.count(),
            passes: found.passes,
            read_bytes: found.read_bytes,
            measured: found.measured,
            phases: found.phases.clone(),
        };
        let phases = match (self.rows, run.host.arrays()) {
            (None, Some(arrays)) => self.give(run, found, arrays)?,
            (Some(rows), _) if self.is_table() => self.write_table(run, found, rows)?,
            (rows, _) if self.are_pairs => {
                self.write_files(run, found, rows, |hit: &Hit| [hit.query, hit.row])?
            }
            (rows, _) => self.write_files(run, found, rows, |hit: &Hit| [hit.row])?,
        };
        results.phases.extend(phases);
        Ok(results)
    }

    /// Passes arrays to a program.
    fn give(&self, run: &Run<'_>, found: Found, arrays: &dyn Arrays) -> Result<Vec<EnginePhase>> {
        let mut found = Within::of(&run.job, found.hits)?;
        let ids = match self.are_pairs {
            true => found.pairs(&run.job)?,
            false => mem::take(&mut found.ids),
        };
        arrays.take("ids", host::Array::U64(ids));
        let limits = mem::take(&mut found.limits);
        arrays.take("limits", host::Array::U64(limits));
        let distances = mem::take(&mut found.distances);
        arrays.take("distances", host::Array::F64(distances));
        Ok(Vec::new())
    }

    /// Writes a row for each result: both ids, and the distance.
    fn write_table(&self, run: &Run<'_>, found: Found, name: &Path) -> Result<Vec<EnginePhase>> {
        let (mut both, mut distances) = (Vec::new(), Vec::new());
        let mut sorted = Vec::new();
        let to = TablePlace {
            path: run.place_of(name),
            replace: run.force,
        };
        columns::write_near(&run.job, to, &self.columns, |take| {
            sorted = found.hits.each(&run.job, &mut |hits| {
                both.clear();
                both.extend(hits.iter().flat_map(|hit| [hit.query, hit.row]));
                distances.clear();
                distances.extend(hits.iter().map(|hit| hit.distance));
                take(&both, &distances)
            })?;
            Ok(())
        })?;
        Ok(sorted)
    }

    /// Writes the numbers that `ids_of` gives for each result. Limits and distances go to the files
    /// that the user names.
    fn write_files<const N: usize>(
        &self,
        run: &Run<'_>,
        found: Found,
        rows: Option<&Path>,
        ids_of: impl Fn(&Hit) -> [u64; N],
    ) -> Result<Vec<EnginePhase>> {
        let count = found.hits.count();
        let ids = NewRows {
            path: run.place_of(rows.unwrap_or(Path::new(""))),
            kind: Array::Ids(&[]),
            dimension: self.are_pairs.then_some(N),
            rows: count,
            id_max: self.id_max,
        };
        let limits = self.limits.map(|name| NewRows {
            path: run.place_of(name),
            rows: found.hits.limits().len() as u64,
            id_max: count,
            ..ids
        });
        let distances = self.distances.map(|name| NewRows {
            path: run.place_of(name),
            kind: NO_DISTANCES,
            dimension: None,
            ..ids
        });
        let files: Vec<NewRows<'_>> = [Some(ids), distances, limits]
            .into_iter()
            .flatten()
            .collect();
        let mut writer = RowsWriter::create(&run.job, &files, run.force)?;
        let append = |writer: &mut RowsWriter, ids: &[u64], numbers: &[f64], limits: &[u64]| {
            let wide = false;
            let arrays = [
                Some(Array::Ids(ids)),
                distances.map(|_| Array::Floats { numbers, wide }),
                Some(Array::Ids(limits)),
            ];
            let arrays: Vec<Array<'_>> = arrays.into_iter().flatten().collect();
            writer.append(&arrays[..files.len()])
        };
        append(&mut writer, &[], &[], found.hits.limits())?;
        let (mut ids, mut numbers) = (Vec::new(), Vec::new());
        let sorted = found.hits.each(&run.job, &mut |hits| {
            ids.clear();
            ids.extend(hits.iter().flat_map(&ids_of));
            numbers.clear();
            numbers.extend(hits.iter().map(|hit| hit.distance));
            append(&mut writer, &ids, &numbers, &[])
        })?;
        writer.publish()?;
        Ok(sorted)
    }
}

/// The result, in words.
fn text(base: &VectorFile, what: &str, used: &JobSummary) -> String {
    format!(
        "found {what} within the bound, among {} in {} and {}: {}",
        units::counted(base.rows, "vector"),
        units::counted(used.passes.into(), "pass"),
        units::seconds(used.seconds),
        rate_text(used.read_bytes, used.seconds),
    )
}

/// A cosine.
fn parse_cosine(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|cosine: &f64| (-1.0..=1.0).contains(cosine));
    number.ok_or_else(|| "a cosine is between -1 and 1".to_string())
}

/// The square of a distance.
fn parse_square(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|square: &f64| (0.0..f64::INFINITY).contains(square));
    number.ok_or_else(|| "the square of a distance is a number of at least 0".to_string())
}
