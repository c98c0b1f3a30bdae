//! k-means: finds centroids close to the rows of a file, in passes over it.
//!
//! Contract: a pass assigns each row to its nearest centroid in f64 (the first of several that are
//! equally near), and moves each centroid to the mean of its rows. The run ends when the centroids
//! move less than the tolerance, as measured by scikit-learn, or after a number of iterations. A
//! centroid without rows moves to the row that is farthest from its own centroid. Means use
//! order-independent sums ([`sums`]), so the result depends only on the base, the options and the
//! seed, not on threads, memory, pieces or the processor. Source: Lloyd, "Least squares
//! quantization in PCM", IEEE Transactions on Information Theory 1982.
//!
//! Spherical: rows and centroids are scaled to norm 1; a distance is then twice one minus the
//! cosine.
//!
//! With [`KmeansOptions::batches`], centroids move after batches of random rows ([`batch`]).
//!
//! Bounds: one read per iteration, one for the final distances, and one for labels. A pass is
//! repeated if the sample underestimated the largest number. Memory for each number of each
//! centroid is 16 bytes per thread and 12 bytes once; the scan needs its own memory in addition.

mod batch;
mod centroids;
mod checkpoint;
mod gathered;
mod label;
mod parallel;
mod seed;
mod sums;
mod tally;

use std::path::PathBuf;
use std::time::Instant;

use outcore::{Error, Job, Phase, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;
use pulp::Simd;

use crate::exact::{dot, squared_distance};
use crate::format::VectorFile;
use crate::scan::{Piece, Scan, Tile, add_phase, load, plan_at_most};

use centroids::{Centroids, Space, TakeNearest};
use checkpoint::{Checkpoint, Done, Resumed};
use parallel::{Reads, Seeding};
use seed::Sample;
use sums::{RowUnits, Units};
use tally::{Assigned, Tally};

pub use batch::{Batches, partial_fit};
pub use checkpoint::remove_checkpoint;
pub use label::{LabelOutput, each_label, write_labels};
pub(crate) use label::{LabelSpace, Labeller};

/// The most clusters.
const K_MAX: usize = 1 << 20;
/// The factor by which the sample may underestimate the largest number before a pass is repeated.
const LARGEST_SLACK: f64 = 4.0;
const OPERATION: &str = "cluster vectors";
/// The phase before the first pass.
const STARTS: &str = "choose starts";

/// The initial centroids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Init {
    /// Rows of a sample that are far from each other, by k-means++.
    FarRows,
    /// Rows of the whole base that are far from each other, by k-means||, in three passes.
    ParallelRows,
    /// Random rows of a sample.
    RandomRows,
    /// The vectors of a file.
    Given(VectorFile),
}

/// The options of k-means.
#[derive(Debug, Clone, PartialEq)]
pub struct KmeansOptions {
    /// The number of clusters.
    pub k: usize,
    /// The initial centroids.
    pub init: Init,
    /// Batches of random rows, instead of passes over the base.
    pub batches: Option<Batches>,
    /// The most iterations, or batches.
    pub max_iterations: u32,
    /// The run ends when the squares of the centroids' moves in an iteration sum to less than this
    /// part of the mean variance of the columns.
    pub tolerance: f64,
    /// Runs from different starts; the one with the least inertia is kept.
    pub runs: u32,
    /// The seed of the starts.
    pub seed: u64,
    /// Whether rows and centroids are scaled to norm 1.
    pub is_spherical: bool,
    /// A file that stores the centroids between iterations, from which the same call continues
    /// after an interruption. Only for a single run without batches.
    pub checkpoint: Option<PathBuf>,
}

impl KmeansOptions {
    /// The defaults of scikit-learn: k-means++, 300 iterations, a tolerance of 1e-4, one run.
    pub fn new(k: usize) -> Self {
        KmeansOptions {
            k,
            init: Init::FarRows,
            batches: None,
            max_iterations: 300,
            tolerance: 1e-4,
            runs: 1,
            seed: 1,
            is_spherical: false,
            checkpoint: None,
        }
    }
}

/// The result of k-means.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    /// The centroids, one after another.
    pub centroids: Vec<f64>,
    /// The number of rows in each cluster.
    pub row_counts: Vec<u64>,
    /// The sum of the squared distances of all rows to their centroids.
    pub inertia: f64,
    /// Iterations of the kept run.
    pub iterations: u32,
    /// Whether it ended because the centroids moved less than the tolerance.
    pub has_converged: bool,
    /// Whether rows and centroids were scaled to norm 1.
    pub is_spherical: bool,
    /// Passes over the base, in all runs.
    pub passes: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// The phases of all runs, with their plans.
    pub phases: Vec<Phase>,
}

impl Clustering {
    /// Wraps known centroids, to label the rows of `base`; the statistics are empty.
    ///
    /// # Errors
    /// Usage: the centroids have another dimension.
    pub fn of_centroids(
        centroids: Vec<f64>,
        dimension: usize,
        base: &VectorFile,
        is_spherical: bool,
    ) -> Result<Self> {
        if dimension != base.dimension {
            let cause = format!(
                "its vectors have {}, but the centroids have {dimension}",
                units::counted(base.dimension as u64, "dimension")
            );
            return Err(Error::usage(OPERATION, cause)
                .path(&base.path)
                .hint("give vectors like those that were clustered"));
        }
        Ok(Clustering {
            row_counts: vec![0; centroids.len() / dimension],
            centroids,
            inertia: f64::NAN,
            iterations: 0,
            has_converged: false,
            is_spherical,
            passes: 0,
            read_bytes: 0,
            phases: Vec::new(),
        })
    }
}

/// Clusters the rows of `base`. A checkpoint is not removed: see [`remove_checkpoint`].
///
/// # Errors
/// Usage: more clusters than rows, NaN or an infinite number, unsuitable initial centroids. Memory:
/// the centroids do not fit. Errors of reading.
pub fn kmeans(job: &Job, base: &VectorFile, options: &KmeansOptions) -> Result<Clustering> {
    let job = &job.steady();
    // Distances to given centroids may also be requested for fewer rows than clusters.
    let is_moved = options.max_iterations > 0 || !matches!(options.init, Init::Given(_));
    check(base, options, is_moved)?;
    let checkpoint = options.checkpoint.as_deref();
    let checkpoint = checkpoint
        .map(|path| Checkpoint::open(job, path, base, options))
        .transpose()?;
    let (checkpoint, mut resumed) = match checkpoint {
        Some((checkpoint, resumed)) => (Some(checkpoint), resumed),
        None => (None, None),
    };
    if resumed.is_none() && options.batches.is_none() && options.runs <= 1 {
        let mut kept = Resumed::empty(options.k * base.dimension);
        resumed = job.restore_state(&mut kept)?.then_some(kept);
    }
    let mut best: Option<Clustering> = None;
    let (mut passes, mut read_bytes, mut phases) = (0, 0, Vec::new());
    for run in 0..options.runs.max(1) {
        let seed = outcore::read::sample::random(options.seed, u64::from(run));
        let started = match resumed.take() {
            None => Run::start(job, base, options, seed)?,
            Some(resumed) => Run::resume(job, base, options, seed, resumed)?,
        };
        let mut found = match options.batches {
            Some(batches) => started.finish_batches(batches, seed)?,
            None => started.finish(checkpoint.as_ref())?,
        };
        passes += found.passes;
        read_bytes += found.read_bytes;
        phases.append(&mut found.phases);
        if best
            .as_ref()
            .is_none_or(|best| found.inertia < best.inertia)
        {
            best = Some(found);
        }
        if matches!(options.init, Init::Given(_)) && options.batches.is_none() {
            // All runs would be the same.
            break;
        }
    }
    let best = best.ok_or_else(|| Error::usage(OPERATION, "no run was made"))?;
    Ok(Clustering {
        passes,
        read_bytes,
        phases,
        ..best
    })
}

/// `has_rows` requires at least as many rows as clusters.
fn check(base: &VectorFile, options: &KmeansOptions, has_rows: bool) -> Result<()> {
    if base.element.is_id() {
        let cause = format!("it holds ids ({}), not vectors", base.element.name());
        return Err(Error::usage(OPERATION, cause)
            .path(&base.path)
            .hint("convert it to f32 with `outcore vector convert`"));
    }
    let k = options.k;
    if k == 0 || (has_rows && k as u64 > base.rows) || k > K_MAX {
        let rows = units::counted(base.rows, "row");
        let cause = format!("{k} clusters were requested, and the base has {rows}");
        return Err(Error::usage(OPERATION, cause)
            .path(&base.path)
            .hint("choose -k between 1 and the number of rows, at most 1048576"));
    }
    if options.tolerance.is_nan() || options.tolerance < 0.0 {
        let cause = format!("the tolerance is {}", options.tolerance);
        return Err(Error::usage(OPERATION, cause).hint("give 0 or more, such as 1e-4"));
    }
    if options.batches.is_some_and(|batches| batches.rows == 0) {
        let error = Error::usage(OPERATION, "a batch has 0 rows");
        return Err(error.hint("give --batch a number of rows, such as 1024"));
    }
    if options.checkpoint.is_some() && (options.batches.is_some() || options.runs > 1) {
        let error = Error::usage(
            OPERATION,
            "a checkpoint belongs to one run with passes over the base",
        );
        return Err(error.hint("leave out --batch and --runs, or --checkpoint"));
    }
    match &options.init {
        Init::Given(file) if file.rows != k as u64 || file.dimension != base.dimension => {
            Err(seed::misfit(file, base, k))
        }
        _ => Ok(()),
    }
}

/// One run from one start.
struct Run<'a> {
    job: &'a Job,
    base: &'a VectorFile,
    options: &'a KmeansOptions,
    centroids: Centroids,
    /// The largest number of the base, as far as it is known.
    largest: f64,
    passes: u32,
    read_bytes: u64,
    phases: Vec<Phase>,
    /// The iterations before an interruption, and the limit of moves at which the run ends.
    before: (u32, Option<f64>),
    _held: Reservation,
}

impl<'a> Run<'a> {
    /// Continues a run with stored centroids.
    fn resume(
        job: &'a Job,
        base: &'a VectorFile,
        options: &'a KmeansOptions,
        seed: u64,
        resumed: Resumed,
    ) -> Result<Self> {
        let held = job.budget.reserve(
            "centroids",
            2 * Centroids::memory_bytes(options.k, base.dimension),
        )?;
        let sample = Sample::read(job, base, options.k, seed)?;
        let (largest, read_bytes) = (sample.largest() * LARGEST_SLACK, sample.read_bytes);
        let is_spherical = options.is_spherical;
        Ok(Run {
            job,
            base,
            options,
            centroids: Centroids::new(resumed.centroids, base.dimension, is_spherical),
            largest: if is_spherical { 2.0 } else { largest },
            passes: 0,
            read_bytes,
            phases: Vec::new(),
            before: (resumed.done.iterations, Some(resumed.done.enough)),
            _held: held,
        })
    }

    fn start(
        job: &'a Job,
        base: &'a VectorFile,
        options: &'a KmeansOptions,
        seed: u64,
    ) -> Result<Self> {
        let (k, dimension) = (options.k, base.dimension);
        let started = Instant::now();
        // While centroids move, the old and the new ones are in memory.
        let held_bytes = 2 * Centroids::memory_bytes(k, dimension);
        let held = job.budget.reserve("centroids", held_bytes)?;
        let mut sample = Sample::read(job, base, k, seed)?;
        let largest = match options.is_spherical {
            // After rounding, a number may slightly exceed the norm.
            true => 2.0,
            false => sample.largest() * LARGEST_SLACK,
        };
        if options.is_spherical && !matches!(options.init, Init::Given(_)) {
            for vector in sample.vectors_mut() {
                to_norm_one(vector);
            }
        }
        let mut reads = Reads {
            passes: 0,
            read_bytes: sample.read_bytes,
        };
        let mut start = match &options.init {
            Init::ParallelRows => {
                drop(sample);
                let is_spherical = options.is_spherical;
                let seeding = Seeding {
                    job,
                    base,
                    k,
                    seed,
                    is_spherical,
                };
                let (start, Reads { passes, read_bytes }) = seeding.far_rows()?;
                reads = Reads {
                    passes,
                    read_bytes: reads.read_bytes + read_bytes,
                };
                start
            }
            Init::FarRows => sample.far_rows(job, k, seed)?,
            Init::RandomRows => sample.random_rows(k, seed),
            Init::Given(file) => load(job, file)?,
        };
        if options.is_spherical {
            start.chunks_exact_mut(dimension).for_each(|vector| {
                to_norm_one(vector);
            });
        }
        Ok(Run {
            job,
            base,
            options,
            centroids: Centroids::new(start, dimension, options.is_spherical),
            largest,
            passes: reads.passes,
            read_bytes: reads.read_bytes,
            phases: vec![Phase {
                name: STARTS,
                seconds: started.elapsed().as_secs_f64(),
                read_bytes: reads.read_bytes,
                written_bytes: 0,
                predicted: Some(plan_at_most(job, STARTS, base, reads.passes.max(1))),
            }],
            before: (0, None),
            _held: held,
        })
    }

    fn finish(mut self, checkpoint: Option<&Checkpoint<'_>>) -> Result<Clustering> {
        let (mut iterations, mut enough) = self.before;
        let mut has_converged = false;
        let mut last = None;
        while iterations < self.options.max_iterations && !has_converged {
            let found = self.pass(&format!("iteration {}", iterations + 1))?;
            iterations += 1;
            let tolerance =
                *enough.get_or_insert_with(|| self.options.tolerance * found.variance(self.base));
            let next = found.moved(&self.centroids, self.options.is_spherical);
            let moves = next.chunks_exact(self.base.dimension).enumerate();
            let moved: f64 = moves
                .map(|(index, to)| squared_distance(self.centroids.at(index), to))
                .sum();
            has_converged = moved <= tolerance;
            if moved == 0.0 {
                last = Some(found);
            } else {
                if let Some(checkpoint) = checkpoint.filter(|_| !has_converged) {
                    checkpoint.keep(self.job, &next, iterations, tolerance)?;
                }
                let mut kept = Resumed {
                    centroids: next,
                    done: Done {
                        iterations,
                        enough: tolerance,
                    },
                };
                if !has_converged && self.options.runs <= 1 {
                    self.job.keep_state(&mut kept)?;
                }
                self.centroids = Centroids::new(
                    kept.centroids,
                    self.base.dimension,
                    self.options.is_spherical,
                );
            }
        }
        self.end(iterations, has_converged, last)
    }

    /// Builds the result for the current centroids; `last` is a pass with these, if there was one.
    fn end(
        mut self,
        iterations: u32,
        has_converged: bool,
        last: Option<Tally>,
    ) -> Result<Clustering> {
        let last = match last {
            // The pass used these centroids.
            Some(found) => found,
            None => self.pass("distances")?,
        };
        Ok(Clustering {
            row_counts: last.counts,
            inertia: last.inertia.value(),
            iterations,
            has_converged,
            is_spherical: self.options.is_spherical,
            passes: self.passes,
            read_bytes: self.read_bytes,
            phases: self.phases,
            centroids: self.centroids.into_numbers(),
        })
    }

    /// Assigns each row to its nearest centroid; repeats the pass if a number was larger than
    /// expected.
    fn pass(&mut self, phase: &str) -> Result<Tally> {
        loop {
            let units = self.units()?;
            let (found, phase) = self.pass_with(phase, units)?;
            self.passes += 1;
            self.read_bytes += phase.read_bytes;
            add_phase(&mut self.phases, phase);
            if found.largest <= units.numbers.largest() {
                return Ok(found);
            }
            self.largest = found.largest;
        }
    }

    /// The units of numbers and of squares.
    fn units(&self) -> Result<RowUnits> {
        let units = Units::of_rows(self.largest, self.base.dimension, self.base.rows);
        units.ok_or_else(|| too_large(self.base, self.largest))
    }

    fn pass_with(&self, phase: &str, units: RowUnits) -> Result<(Tally, Phase)> {
        let (k, dimension) = (self.centroids.count(), self.base.dimension);
        let beside_bytes = Worker::memory_bytes(k, self.base);
        let scan = Scan::plan(self.job, self.base, beside_bytes, 0)?;
        if self.passes == 0 {
            let most = match self.options.batches {
                Some(_) => "once, at the end".to_string(),
                None => {
                    let iterations = u64::from(self.options.max_iterations);
                    format!(
                        "in each of at most {}, and once at the end",
                        units::counted(iterations, "iteration")
                    )
                }
            };
            let steps = format!("read the base -> the nearest of {k} centroids, {most}");
            let passes = match self.options.batches {
                Some(_) => 1,
                None => self.options.max_iterations.saturating_add(1),
            };
            let read_bytes = self.base.data_bytes();
            scan.show(self.job, "a pass", &steps, read_bytes, passes);
        }
        let state = || {
            Ok(Worker {
                _held: self.job.budget.reserve("clusters", beside_bytes)?,
                tile: Tile::new(self.base),
                space: Space::new(k),
                found: Tally::new(k, dimension),
            })
        };
        let visit = |worker: &mut Worker, piece: Piece<'_>| self.visit(worker, piece, &units);
        let passed = scan.run(self.job, phase, state, visit)?;
        let phase = passed.phase("passes");
        let mut each = passed.states.into_iter().map(|worker| worker.found);
        let mut found = each.next().unwrap_or_else(|| Tally::new(k, dimension));
        each.for_each(|other| found.merge(other));
        Ok((found, phase))
    }

    fn visit(&self, worker: &mut Worker, piece: Piece<'_>, units: &RowUnits) -> Result<()> {
        let Worker {
            tile, space, found, ..
        } = worker;
        tile.each(piece, |rows, wide| {
            let first = rows.first;
            if !self.options.is_spherical {
                let mut adding = Adding {
                    found,
                    units,
                    first,
                };
                self.centroids
                    .nearest_plain(&rows, space, &mut adding, wide);
                return Ok(());
            }
            let each = |index: usize, cluster: usize, distance: f64, vector: &[f64]| {
                let row = first + index as u64;
                let assigned = Assigned {
                    row,
                    cluster,
                    distance,
                };
                found.add(pulp::Scalar::new(), units, assigned, vector);
                Ok(())
            };
            self.centroids.nearest(&rows, space, each, wide)
        })
    }
}

/// Adds rows to the results of their clusters.
struct Adding<'a> {
    found: &'a mut Tally,
    units: &'a RowUnits,
    /// The number of the first row of the tile.
    first: u64,
}

impl TakeNearest for Adding<'_> {
    #[inline(always)]
    fn take<S: Simd>(
        &mut self,
        simd: S,
        row: usize,
        cluster: usize,
        distance: f64,
        vector: &[f64],
    ) {
        let row = self.first + row as u64;
        self.found.add(
            simd,
            self.units,
            Assigned {
                row,
                cluster,
                distance,
            },
            vector,
        );
    }
}

/// Scales a vector to norm 1; returns false if it is zero.
fn to_norm_one(vector: &mut [f64]) -> bool {
    let norm = dot(vector, vector).sqrt();
    if norm == 0.0 {
        return false;
    }
    vector.iter_mut().for_each(|number| *number /= norm);
    true
}

fn too_large(base: &VectorFile, number: f64) -> Error {
    let cause = format!("the number {number:e} is too large to compute distances");
    Error::usage(OPERATION, cause)
        .path(&base.path)
        .hint("scale the vectors so that all numbers are below 1e100")
}

/// The state of a thread.
struct Worker {
    tile: Tile,
    space: Space,
    found: Tally,
    _held: Reservation,
}

impl Worker {
    fn memory_bytes(k: usize, base: &VectorFile) -> u64 {
        Tally::memory_bytes(k, base.dimension) + Space::memory_bytes(k) + Tile::memory_bytes(base)
    }
}
