//! Mini-batches: centroids that move after a few rows at a time, so that a good clustering reads a
//! small part of the base.
//!
//! Contract: each iteration samples rows with replacement and assigns each to its nearest centroid.
//! It then moves a centroid to the mean of all rows assigned to it so far (Sculley, "Web-Scale
//! K-Means Clustering", WWW 2010, algorithm 1). The rows of a batch are added at once as
//! order-independent sums, which give the same mean. So the result depends only on the base, the
//! options and the seed.
//!
//! Two rules are those of scikit-learn. Each time ten rows per centroid have been sampled, a
//! centroid with less than a hundredth of the rows of the largest cluster moves to a random row of
//! the batch. The run ends when the smoothed mean distance of batches has not improved for some
//! batches.
//!
//! Bounds: a batch reads at most one block per row; one read of the base at the end computes the
//! inertia and the rows of each cluster. Memory is as for Lloyd's method, plus a batch.

use outcore::{Job, Result};
use outcore_io::threads;

use super::centroids::{Centroids, Space};
use super::gathered::Gathered;
use super::sums::Units;
use super::tally::Tally;
use super::{Clustering, KmeansOptions, Run, Worker, check, to_norm_one, too_large};
use crate::exact::squared_distance;
use crate::format::VectorFile;
use crate::scan::{Tile, first_failure};
use outcore::read::sample::random;

/// The number of rows for which another thread is worth starting.
const THREAD_ROWS: usize = 256;
/// The least weight of the last batch in the smoothed distance. scikit-learn uses twice the batch
/// divided by the rows, which never converges for a large base.
const SMOOTHING_MIN: f64 = 0.05;
/// A centroid with less than 1/`WEAK_PART` of the largest cluster's rows is moved.
const WEAK_PART: u64 = 100;
/// Rows per centroid between two such moves.
const ROWS_BETWEEN_MOVES: u64 = 10;
/// The random stream for batches.
const BATCHES: u64 = 2;
/// The random stream for moved centroids.
const MOVES: u64 = 3;

/// The size of batches, and when a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    /// Rows per batch.
    pub rows: usize,
    /// The run ends after this many consecutive batches that did not improve the smoothed distance;
    /// never if `None`.
    pub patience: Option<u32>,
}

impl Batches {
    /// Batches of this many rows. Ten batches may pass without improvement, as in scikit-learn.
    pub fn new(rows: usize) -> Self {
        Batches {
            rows,
            patience: Some(10),
        }
    }
}

/// Moves centroids for the rows of `batch`, a whole file. The number of rows of each cluster so far
/// is its weight. Without `row_counts`, the centroids start as the options say. The inertia is
/// computed before the move.
///
/// # Errors
/// As [`super::kmeans`].
pub fn partial_fit(
    job: &Job,
    batch: &VectorFile,
    options: &KmeansOptions,
    row_counts: Option<&[u64]>,
) -> Result<Clustering> {
    check(batch, options, row_counts.is_none())?;
    let mut run = Run::start(job, batch, options, random(options.seed, 0))?;
    let found = run.pass("batch")?;
    let mut counts = match row_counts {
        Some(counts) if counts.len() == options.k => counts.to_vec(),
        _ => vec![0; options.k],
    };
    let moved = absorb(&run.centroids, &found, &mut counts, options.is_spherical);
    Ok(Clustering {
        centroids: moved,
        row_counts: counts,
        inertia: found.inertia.value(),
        iterations: 1,
        has_converged: false,
        is_spherical: options.is_spherical,
        passes: run.passes,
        read_bytes: run.read_bytes,
        phases: run.phases,
    })
}

/// Moves centroids that had `counts` rows before.
fn absorb(
    centroids: &Centroids,
    found: &Tally,
    counts: &mut [u64],
    is_spherical: bool,
) -> Vec<f64> {
    let mut moved = Vec::with_capacity(centroids.at(0).len() * counts.len());
    let each = counts.iter_mut().zip(&found.counts).enumerate();
    for (cluster, (count, added)) in each {
        let from = centroids.at(cluster);
        let at = moved.len();
        moved.extend_from_slice(from);
        if *added == 0 {
            continue;
        }
        let (before, after) = (*count as f64, (*count + *added) as f64);
        for (number, sum) in moved[at..].iter_mut().zip(found.sums.values(cluster)) {
            *number = (*number * before + sum) / after;
        }
        *count += *added;
        if is_spherical && !to_norm_one(&mut moved[at..]) {
            // Rows that cancel out have no direction.
            moved[at..].copy_from_slice(from);
        }
    }
    moved
}

/// Decides when the smoothed distance of batches no longer improves.
struct Patience {
    smoothing: f64,
    smoothed: Option<f64>,
    least: f64,
    batches_in_vain: u32,
}

impl Patience {
    fn new(batch_rows: usize, base_rows: u64) -> Self {
        let part = 2.0 * batch_rows as f64 / (base_rows as f64 + 1.0);
        Patience {
            smoothing: part.clamp(SMOOTHING_MIN, 1.0),
            smoothed: None,
            least: f64::INFINITY,
            batches_in_vain: 0,
        }
    }

    /// Takes the mean distance of a batch; returns whether `most` batches have not improved it.
    fn ends(&mut self, distance: f64, most: Option<u32>) -> bool {
        let smoothed = self.smoothed.map_or(distance, |before| {
            before * (1.0 - self.smoothing) + distance * self.smoothing
        });
        self.smoothed = Some(smoothed);
        if smoothed < self.least {
            (self.least, self.batches_in_vain) = (smoothed, 0);
        } else {
            self.batches_in_vain += 1;
        }
        most.is_some_and(|most| self.batches_in_vain >= most)
    }
}

impl Run<'_> {
    /// Moves the centroids batch by batch.
    pub(super) fn finish_batches(mut self, batches: Batches, seed: u64) -> Result<Clustering> {
        let (k, dimension) = (self.options.k, self.base.dimension);
        let mut counts = vec![0_u64; k];
        let mut patience = Patience::new(batches.rows, self.base.rows);
        let (mut iterations, mut has_converged) = (0, false);
        let mut enough = None;
        let mut rows_since_moves = 0;
        while iterations < self.options.max_iterations && !has_converged {
            let draws = random(random(seed, BATCHES), iterations.into());
            let places = (0..batches.rows as u64).map(|at| random(draws, at) % self.base.rows);
            let batch = Gathered::read(self.job, self.base, places.collect())?;
            self.read_bytes += batch.read_bytes;
            let found = self.batch(&batch)?;
            iterations += 1;
            let mut next = absorb(
                &self.centroids,
                &found,
                &mut counts,
                self.options.is_spherical,
            );
            rows_since_moves += batches.rows as u64;
            if rows_since_moves >= ROWS_BETWEEN_MOVES * k as u64 {
                rows_since_moves = 0;
                self.move_weak(&batch, &mut next, &mut counts, random(seed, MOVES) ^ draws);
            }
            let moves = next.chunks_exact(dimension).enumerate();
            let moved: f64 = moves
                .map(|(index, to)| squared_distance(self.centroids.at(index), to))
                .sum();
            let of_batch = VectorFile {
                rows: batches.rows as u64,
                ..self.base.clone()
            };
            let tolerance =
                *enough.get_or_insert_with(|| self.options.tolerance * found.variance(&of_batch));
            let distance = found.inertia.value() / batches.rows as f64;
            // The first batch shows the start, not the progress.
            has_converged = iterations > 1
                && (patience.ends(distance, batches.patience)
                    || (tolerance > 0.0 && moved <= tolerance));
            self.centroids = Centroids::new(next, dimension, self.options.is_spherical);
        }
        self.end(iterations, has_converged, None)
    }

    /// Assigns each row of a batch to its nearest centroid, on as many threads as the memory
    /// allows.
    fn batch(&self, batch: &Gathered<'_>) -> Result<Tally> {
        let (k, dimension) = (self.centroids.count(), self.base.dimension);
        let largest = if self.options.is_spherical {
            2.0
        } else {
            batch.largest
        };
        let units = Units::of_rows(largest, dimension, batch.rows() as u64)
            .ok_or_else(|| too_large(self.base, largest))?;
        let each_bytes = Worker::memory_bytes(k, self.base);
        let fitting = (self.job.budget.free_bytes() / each_bytes).max(1) as usize;
        let useful = batch.rows().div_ceil(THREAD_ROWS);
        let count = self.job.options.threads.min(fitting).min(useful).max(1);
        let work = |thread: usize| {
            let mut worker = Worker {
                _held: self.job.budget.reserve("clusters", each_bytes)?,
                tile: Tile::new(self.base),
                space: Space::new(k),
                found: Tally::new(k, dimension),
            };
            let border = |thread: usize| batch.rows() * thread / count;
            let piece = batch.piece(border(thread), border(thread + 1));
            self.visit(&mut worker, piece, &units)?;
            Ok(worker.found)
        };
        self.job.control.check()?;
        let results = match count {
            1 => vec![work(0)],
            count => threads::together("outcore-vector", count, work)?,
        };
        let mut all = first_failure(results)?.into_iter();
        let mut found = all.next().unwrap_or_else(|| Tally::new(k, dimension));
        all.for_each(|other| found.merge(other));
        Ok(found)
    }

    /// Moves centroids with few rows, compared with the largest cluster, to rows of the batch. It
    /// moves at most half as many centroids as the batch has rows.
    fn move_weak(
        &self,
        batch: &Gathered<'_>,
        centroids: &mut [f64],
        counts: &mut [u64],
        seed: u64,
    ) {
        let most = counts.iter().copied().max().unwrap_or(0);
        let is_weak = |count: u64| count.saturating_mul(WEAK_PART) < most;
        let mut weak: Vec<usize> = (0..counts.len())
            .filter(|cluster| is_weak(counts[*cluster]))
            .collect();
        weak.sort_by_key(|cluster| counts[*cluster]);
        weak.truncate(batch.rows() / 2);
        let kept = (0..counts.len()).filter(|cluster| !weak.contains(cluster));
        let least = kept.map(|cluster| counts[cluster]).min().unwrap_or(1);
        let mut rows: Vec<usize> = (0..batch.rows()).collect();
        for (at, cluster) in weak.into_iter().enumerate() {
            let drawn = random(seed, at as u64) % (rows.len() - at) as u64;
            rows.swap(at, at + drawn as usize);
            let place = &mut centroids[cluster * self.base.dimension..][..self.base.dimension];
            batch.vector(rows[at], place);
            if self.options.is_spherical {
                to_norm_one(place);
            }
            counts[cluster] = least;
        }
    }
}
