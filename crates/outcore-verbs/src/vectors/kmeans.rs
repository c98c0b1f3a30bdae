//! `kmeans` and `vector label`: cluster vectors, and label them by their nearest centroids.
//!
//! Contract: as in [`super`]. Centroids and labels appear together. A program may pass the base as
//! one batch of a run that it continues.

use std::mem;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::passes::JobOption;
use outcore::{Error, Job, Kind, Result};
use outcore_front::output::is_same_place;
use outcore_io::units;
use outcore_store::dataset::Named;
use outcore_vector::format::{Element, VectorFile};
use outcore_vector::kmeans::{self, Batches, Clustering, Init, KmeansOptions, LabelOutput};
use outcore_vector::results::{self, Array, ResultFile};
use outcore_vector::scan::load;

use super::run::{Files, RawArgs, Run, rate_text, written_by};
use crate::columns;
use crate::host::{self, Host};
use crate::option::{PassResumeArgs, RunArgs, parse_count};
use crate::report::{JobSummary, Moved, Phase, Place, report};
use crate::resumed::job_options;
use crate::verb::{Inputs, Verb, Words};

const KMEANS_EXAMPLES: &str = "\
Examples:
  outcore kmeans base.fbin -k 64 -o centroids.npy --labels labels.npy
  outcore kmeans base.fbin -k 64 --init centroids.npy --max-iterations 20 -o better.npy
  outcore kmeans embeddings.npy -k 1000 --spherical --runs 3 -o centroids.npy
  outcore kmeans base.1B.fbin -k 4096 --batch 65536 -o centroids.npy";

/// Cluster vectors by k-means
///
/// Each iteration reads the base once, gives each vector to its nearest centroid and moves each
/// centroid to the mean of its vectors. A centroid without vectors moves to the vector that is
/// farthest from its own centroid. The result is byte for byte the same on any processor, for any
/// number of threads and any memory. To continue a run that was too short, pass its centroids:
/// --init FILE.
#[derive(Debug, Args)]
#[command(
    after_long_help = KMEANS_EXAMPLES,
    mut_arg("resume", |option| option.conflicts_with_all(["labels", "batch", "runs", "checkpoint"])),
)]
pub(crate) struct KmeansArgs {
    /// File of the vectors to cluster
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    base: PathBuf,
    /// Number of clusters
    #[arg(short, value_name = "K", value_parser = parse_count, default_value = "8")]
    k: u64,
    /// Centroids: .npy, .fbin, .fvecs, or raw numbers
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, required = true)]
    output: Option<PathBuf>,
    /// The cluster of each vector, counted from 0: .npy, .ibin, or raw i32; a table (.parquet,
    /// .arrow) or text (.csv, .jsonl) with the columns row and cluster. Reads the base once more
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    labels: Option<PathBuf>,
    /// Where centroids start: k-means++ or random, on a sample of 8 times K vectors, or of 4096 if
    /// that is more; parallel (k-means||), which reads the base three times; or a file of K
    /// centroids
    #[arg(
        long,
        value_name = "HOW",
        alias = "seeding",
        default_value = "k-means++"
    )]
    init: PathBuf,
    /// Mini-batches: move centroids for ROWS random vectors at a time, and read the base once at
    /// the end for the inertia. Stops when ten batches in a row bring no improvement
    #[arg(long, value_name = "ROWS", value_parser = parse_count)]
    batch: Option<u64>,
    /// Stop when this many batches in a row bring no improvement; 0 for never
    #[arg(long, value_name = "N", default_value_t = 10, requires = "batch")]
    patience: u32,
    /// Maximum number of iterations, or of batches
    #[arg(long, value_name = "N", default_value_t = 300)]
    max_iterations: u32,
    /// Stop when the squared moves of all centroids sum to at most this fraction of the mean
    /// variance of the columns
    #[arg(long, value_name = "PART", default_value_t = 1e-4)]
    tolerance: f64,
    /// Cluster N times from different starts, and keep the result with the least inertia
    #[arg(long, value_name = "N", alias = "n-init", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Random seed of the starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Scale vectors and centroids to length 1, which clusters by cosine
    #[arg(long)]
    spherical: bool,
    /// Keep the centroids of each iteration in FILE. If the run is stopped, the same command
    /// continues from these centroids, with the result of an uninterrupted run. FILE is removed
    /// when the run is done. Cannot be used with --batch or --runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["batch", "runs"])]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    raw: RawArgs,
    #[command(flatten)]
    journal: PassResumeArgs,
    #[command(flatten)]
    run: RunArgs,
}

report! {
    /// Vectors that were clustered.
    pub(crate) struct KmeansSummary {
        [used: JobSummary],
        /// The file with the centroids; none if no file was named.
        output: Option<Place>,
        /// Numbers of a vector.
        dimension: usize,
        /// Clusters.
        k: usize,
        /// The sum of the squares of the distances of all vectors to their centroids.
        inertia: f64,
        /// Iterations, or batches.
        iterations: u32,
        /// Whether the centroids hardly moved in the last iteration.
        has_converged: bool,
        /// Vectors of each cluster.
        sizes: Vec<u64>,
        /// The report as text.
        text: String,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// `kmeans`.
pub(crate) struct Kmeans;

impl Verb for Kmeans {
    const NAME: &'static str = "kmeans";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = KmeansArgs;
    type Report = KmeansSummary;

    fn run(host: &dyn Host, args: &KmeansArgs) -> Result<KmeansSummary> {
        let named = args.named_init();
        if named.is_none() {
            args.check_init()?;
        }
        let init_file = named.is_none().then_some(args.init.as_path());
        let files = Files {
            is_resumed: args.journal.resume,
            ..Files::of(
                [Some(args.base.as_path()), init_file],
                [args.output.as_deref(), args.labels.as_deref()],
            )
        };
        let mut run = Run::begin(host, &args.run, None, &files)?;
        if let Some(output) = &args.output {
            run.keep_passes(output, &files.read, args.kept_options())?;
        }
        let base = run.open(&args.base, args.raw.name())?;
        let init = match named {
            Some(init) => init,
            None => Init::Given(run.open_typed(&args.init, args.raw.name())?),
        };
        let options = args.options(init);
        args.check_outputs(base.element == Element::F64)?;
        if let Some(path) = &args.checkpoint {
            check_checkpoint(host, path, &files)?;
        }
        let found = run.watch(|job| {
            let mut found = cluster(&run, &base, &options)?;
            let read_bytes = args.write(&run, &base, &mut found)?;
            kmeans::remove_checkpoint(job, &options)?;
            Ok((found, read_bytes))
        });
        let (found, read_bytes) = found.map_err(|error| args.tell_checkpoint(error))?;
        let moved = Moved {
            records: base.rows,
            read_bytes,
            written_bytes: written_by(&found.phases),
            passes: found.passes + u32::from(args.labels.is_some()),
        };
        let used = run.used(moved)?;
        Ok(KmeansSummary {
            text: args.text(&found, &used),
            used,
            output: args.output.clone().map(Place),
            dimension: base.dimension,
            k: found.row_counts.len(),
            inertia: found.inertia,
            iterations: found.iterations,
            has_converged: found.has_converged,
            sizes: found.row_counts,
            phases: Phase::of_engine(&found.phases),
        })
    }

    fn say(args: &KmeansArgs, report: &KmeansSummary, words: &mut Words) {
        words.lines(&report.text);
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &KmeansSummary) -> String {
        report.text.clone()
    }
}

/// Runs k-means. If a program passes the number of vectors per cluster so far (0 at the start), the
/// base is one batch.
fn cluster(run: &Run<'_>, base: &VectorFile, options: &KmeansOptions) -> Result<Clustering> {
    let arrays = run.host.arrays();
    let Some(bytes) = arrays.and_then(|arrays| arrays.given("sizes")) else {
        return kmeans::kmeans(&run.job, base, options);
    };
    let (sizes, _) = bytes.as_chunks();
    let sizes: Vec<u64> = sizes
        .iter()
        .map(|bytes| u64::from_ne_bytes(*bytes))
        .collect();
    let so_far = (!sizes.is_empty()).then_some(&sizes[..]);
    kmeans::partial_fit(&run.job, base, options, so_far)
}

impl KmeansArgs {
    /// Its options, if its state is kept.
    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(
            self: k, init, patience, max_iterations as "maximum number of iterations",
            tolerance, seed, spherical, raw as "type of raw numbers";
            without base, output, labels, batch, runs, checkpoint, run
        );
        self.journal.of(Kmeans::NAME, options)
    }

    /// The start of the centroids, unless that is a file.
    fn named_init(&self) -> Option<Init> {
        match self.init.to_str()? {
            "k-means++" => Some(Init::FarRows),
            "parallel" | "k-means||" => Some(Init::ParallelRows),
            "random" => Some(Init::RandomRows),
            _ => None,
        }
    }

    fn options(&self, init: Init) -> KmeansOptions {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        KmeansOptions {
            init,
            batches: self.batch.map(|rows| Batches {
                rows: size(rows),
                patience: (self.patience > 0).then_some(self.patience),
            }),
            max_iterations: self.max_iterations,
            tolerance: self.tolerance,
            runs: self.runs,
            seed: self.seed,
            is_spherical: self.spherical,
            checkpoint: self.checkpoint.clone(),
            ..KmeansOptions::new(size(self.k))
        }
    }

    /// Writes centroids and labels, or passes centroids to a program; returns the bytes that were
    /// read.
    fn write(&self, run: &Run<'_>, base: &VectorFile, found: &mut Clustering) -> Result<u64> {
        let job: &Job = &run.job;
        let Some(output) = &self.output else {
            if let Some(arrays) = run.host.arrays() {
                let numbers = mem::take(&mut found.centroids);
                arrays.take("centroids", host::Array::F64(numbers));
            }
            return Ok(found.read_bytes);
        };
        let centroids = ResultFile {
            path: run.place_of(output),
            array: centroids(&found.centroids, base.element == Element::F64),
            dimension: Some(base.dimension),
        };
        let Some(name) = &self.labels else {
            results::write_all(job, &[centroids], run.force)?;
            return Ok(found.read_bytes);
        };
        let labels = LabelOutput {
            path: run.place_of(name),
            replace: run.force,
            beside: &[centroids],
        };
        let done = columns::write_clusters(job, base, found, &labels)?;
        found.phases.extend(done.phases);
        Ok(found.read_bytes + done.read_bytes)
    }

    /// Fails for names of outputs whose endings do not match the results.
    fn check_outputs(&self, wide: bool) -> Result<()> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        results::check_name(output, centroids(&[], wide))?;
        if columns::has_columns(output) {
            let cause = "centroids are vectors, but this name is that of a table";
            return Err(Error::usage("create output", cause).path(output).hint(
                "end its name in .npy; --labels FILE writes the cluster of each vector, also as a \
                 table",
            ));
        }
        match &self.labels {
            Some(path) if !columns::has_columns(path) => {
                results::check_name(path, Array::Labels(&[])).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Fails for initial centroids that are not a file, and for several runs from them.
    fn check_init(&self) -> Result<()> {
        let refused = |cause: &str, hint: &str| {
            let error = Error::usage("read arguments", cause).path(&self.init);
            Err(error.hint(hint))
        };
        if !self.init.exists() && !Named::is_mark(&self.init) {
            let cause = "it is neither a file of centroids nor a way to choose them";
            return refused(cause, "give --init k-means++, random, parallel or a file");
        }
        match self.runs {
            1 => Ok(()),
            _ => refused(
                "several runs from the same centroids would all be the same",
                "leave --runs out",
            ),
        }
    }

    /// Reports what an interrupted run has left, and how to continue it.
    fn tell_checkpoint(&self, error: Error) -> Error {
        match &self.checkpoint {
            Some(path) if error.kind() == Kind::Interrupted && path.exists() => {
                error.hint(format!(
                    "the checkpoint {} remains; run the same command again to continue from it",
                    path.display()
                ))
            }
            _ => error,
        }
    }

    /// The result, in words.
    fn text(&self, found: &Clustering, used: &JobSummary) -> String {
        let unit = match self.batch {
            Some(_) => "batch",
            None => "iteration",
        };
        let end = match found.has_converged {
            true => "converged",
            false => "stopped",
        };
        format!(
            "clustered {} in {}, {end} after {} with an inertia of {:.6e}, in {}: {}",
            units::counted(used.records, "vector"),
            units::counted(found.row_counts.len() as u64, "cluster"),
            units::counted(found.iterations.into(), unit),
            found.inertia,
            units::seconds(used.seconds),
            rate_text(used.read_bytes, used.seconds),
        )
    }
}

/// Fails for a checkpoint that is an input or an output, or would be a dataset.
fn check_checkpoint(host: &dyn Host, path: &Path, files: &Files<'_>) -> Result<()> {
    host.names().refuse_change(path)?;
    let mut others = files.read.iter().chain(&files.written);
    match others.any(|other| is_same_place(other, path)) {
        false => Ok(()),
        true => Err(
            Error::usage("create checkpoint", "it is also an input or an output")
                .path(path)
                .hint("name another file with --checkpoint"),
        ),
    }
}

/// Centroids as a result.
fn centroids(numbers: &[f64], wide: bool) -> Array<'_> {
    Array::Floats { numbers, wide }
}

const LABEL_EXAMPLES: &str = "\
Examples:
  outcore vector label base.fbin centroids.npy -o labels.npy
  outcore vector label new.fbin centroids.npy -o labels.parquet --spherical";

/// Write the nearest centroid of each vector
///
/// These are the labels that `kmeans --labels` writes, for any vectors and centroids. Reads BASE
/// once. OUT appears whole or not at all.
#[derive(Debug, Args)]
#[command(after_long_help = LABEL_EXAMPLES)]
pub(crate) struct VectorLabelArgs {
    /// File of vectors
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    base: PathBuf,
    /// File of centroids, as `kmeans` writes it
    #[arg(value_name = "CENTROIDS", value_hint = ValueHint::FilePath)]
    centroids: PathBuf,
    /// The cluster of each vector, counted from 0: .npy, .ibin, or raw i32; a table (.parquet,
    /// .arrow) or text (.csv, .jsonl) with the columns row and cluster
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Scale vectors and centroids to length 1, as `kmeans --spherical` does
    #[arg(long)]
    spherical: bool,
    #[command(flatten)]
    raw: RawArgs,
    #[command(flatten)]
    run: RunArgs,
}

report! {
    /// Vectors that were labelled by their nearest centroid.
    pub(crate) struct VectorLabelSummary {
        [used: JobSummary],
        /// The file with the numbers.
        output: Place,
        /// Centroids.
        k: usize,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// `vector label`.
pub(crate) struct VectorLabel;

impl Verb for VectorLabel {
    const NAME: &'static str = "vector label";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = VectorLabelArgs;
    type Report = VectorLabelSummary;

    fn run(host: &dyn Host, args: &VectorLabelArgs) -> Result<VectorLabelSummary> {
        let read = [args.base.as_path(), args.centroids.as_path()];
        let files = Files::of(read.map(Some), [Some(args.output.as_path())]);
        if !columns::has_columns(&args.output) {
            results::check_name(&args.output, Array::Labels(&[]))?;
        }
        let run = Run::begin(host, &args.run, None, &files)?;
        let base = run.open_typed(&args.base, args.raw.name())?;
        let centroids = run.open_typed(&args.centroids, None)?;
        let done = run.watch(|job| {
            let numbers = load(job, &centroids)?;
            let clustering =
                Clustering::of_centroids(numbers, centroids.dimension, &base, args.spherical)?;
            let output = LabelOutput {
                path: run.place_of(&args.output),
                replace: run.force,
                beside: &[],
            };
            columns::write_clusters(job, &base, &clustering, &output)
        })?;
        let moved = Moved {
            records: base.rows,
            read_bytes: done.read_bytes,
            written_bytes: written_by(&done.phases),
            passes: 1,
        };
        Ok(VectorLabelSummary {
            used: run.used(moved)?,
            output: Place(args.output.clone()),
            k: usize::try_from(centroids.rows).unwrap_or(usize::MAX),
            phases: Phase::of_engine(&done.phases),
        })
    }

    fn say(args: &VectorLabelArgs, report: &VectorLabelSummary, words: &mut Words) {
        words.lines(&Self::headline(report));
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &VectorLabelSummary) -> String {
        let used = &report.used;
        format!(
            "labelled {} by {} in {}: {}",
            units::counted(used.records, "vector"),
            units::counted(report.k as u64, "centroid"),
            units::seconds(used.seconds),
            rate_text(used.read_bytes, used.seconds),
        )
    }
}
