//! Initial centroids far from each other, chosen among all rows of the base in a few passes.
//!
//! Contract: k-means|| (Bahmani, Moseley, Vattani, Kumar and Vassilvitskii, "Scalable K-Means++",
//! PVLDB 2012, algorithm 2). It starts with one random row. Each of [`ROUNDS`] passes then samples
//! twice as many rows as there are centroids, with probabilities proportional to the squared
//! distance from the rows sampled before. A last pass counts the rows of the base that are nearest
//! to each sampled row, and k-means++ with these weights chooses the centroids.
//!
//! A pass samples an exact number of rows by Ohlsson's sequential Poisson sampling (Journal of
//! Official Statistics 1998): it takes the rows with the least quotient of random number and
//! weight. A row's random number is a function of seed, round and row. So the start depends only on
//! base and seed.
//!
//! Bounds: [`ROUNDS`] + 1 reads of the base; in total, six times as many products per row as there
//! are centroids. Memory is 20 bytes per number of the sampled rows, which are four times the
//! centroids, and 16 bytes per sampled row and thread.

use std::collections::BinaryHeap;

use outcore::read::sample::random;
use outcore::{Job, Result};
use outcore_io::memory::Reservation;

use super::centroids::{Centroids, Space};
use super::gathered::Gathered;
use super::seed::Sample;
use super::to_norm_one;
use crate::format::VectorFile;
use crate::scan::{Scan, Tile};

/// Passes that sample rows. Two are enough: "Scalable K-Means++", section 5.3, and Apache Spark's
/// default.
const ROUNDS: u64 = 2;
/// Rows that a pass samples per centroid.
const DRAWN_EACH: usize = 2;
/// The random stream.
const STREAM: u64 = 4;

/// The inputs of the sampling.
#[derive(Clone, Copy)]
pub(super) struct Seeding<'a> {
    pub(super) job: &'a Job,
    pub(super) base: &'a VectorFile,
    pub(super) k: usize,
    pub(super) seed: u64,
    pub(super) is_spherical: bool,
}

/// Passes, and bytes read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reads {
    pub(super) passes: u32,
    pub(super) read_bytes: u64,
}

/// A sampled row, ordered by its random number divided by its weight, as bits in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DrawnRow {
    weighed_bits: u64,
    row: u64,
}

/// Rows that a thread has sampled.
type Drawn = BinaryHeap<DrawnRow>;

impl Seeding<'_> {
    /// Chooses `k` rows of the base, and counts the reads.
    ///
    /// # Errors
    /// As [`super::kmeans`].
    pub(super) fn far_rows(self) -> Result<(Vec<f64>, Reads)> {
        let (base, dimension) = (self.base, self.base.dimension);
        let drawn_rows = DRAWN_EACH * self.k;
        let most = (1 + ROUNDS as usize * drawn_rows) as u64;
        // While a pass compares with the rows, they are in memory as f64 and f32, and once more as
        // f64 where they were gathered.
        let held_bytes =
            Centroids::memory_bytes(most as usize, dimension) + most * 8 * dimension as u64;
        let _held = self.job.budget.reserve("drawn vectors", held_bytes)?;
        let stream = random(self.seed, STREAM);
        let first = random(stream, 0) % base.rows;
        let mut reads = Reads::default();
        let mut candidates = self.rows_at(vec![first], &mut reads)?;
        for round in 1..=ROUNDS {
            let centroids = Centroids::new(candidates.clone(), dimension, self.is_spherical);
            let places = self.draw(
                round,
                drawn_rows,
                random(stream, round),
                &centroids,
                &mut reads,
            )?;
            candidates.extend(self.rows_at(places, &mut reads)?);
        }
        let centroids = Centroids::new(candidates, dimension, self.is_spherical);
        let weights = self.weights(&centroids, &mut reads)?;
        let sample = Sample::of_weighted(centroids.into_numbers(), weights, dimension);
        Ok((sample.far_rows(self.job, self.k, self.seed)?, reads))
    }

    /// Reads rows of the base, scaled to norm 1 if requested.
    fn rows_at(&self, places: Vec<u64>, reads: &mut Reads) -> Result<Vec<f64>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let rows = Gathered::read(self.job, self.base, places)?;
        reads.read_bytes += rows.read_bytes;
        let (mut vectors, _held) = rows.vectors(self.job)?;
        if self.is_spherical {
            vectors
                .chunks_exact_mut(self.base.dimension)
                .for_each(|vector| {
                    to_norm_one(vector);
                });
        }
        Ok(vectors)
    }

    /// Samples rows far from the centroids; fewer if not enough rows have a nonzero distance.
    fn draw(
        &self,
        round: u64,
        rows: usize,
        seed: u64,
        centroids: &Centroids,
        reads: &mut Reads,
    ) -> Result<Vec<u64>> {
        let state_bytes = ((rows + 1) * size_of::<DrawnRow>()) as u64;
        let phase = format!("draw rows, round {round}");
        let states = self.pass(
            &phase,
            state_bytes,
            centroids,
            reads,
            |drawn: &mut Drawn, row, _, distance| {
                // At most the largest float, never infinite; 0 is never drawn.
                let number = ((random(seed, row) >> 11) + 1) as f64 / 2.0_f64.powi(53);
                let weighed = (number / distance.min(f64::MAX)).min(f64::MAX);
                if distance > 0.0 {
                    let offered = DrawnRow {
                        weighed_bits: weighed.to_bits(),
                        row,
                    };
                    keep(drawn, offered, rows);
                }
            },
        )?;
        let mut all = Drawn::new();
        states
            .into_iter()
            .flatten()
            .for_each(|drawn| keep(&mut all, drawn, rows));
        let mut places: Vec<u64> = all.into_iter().map(|drawn| drawn.row).collect();
        places.sort_unstable();
        Ok(places)
    }

    /// Counts the rows that are nearest to each centroid.
    fn weights(&self, centroids: &Centroids, reads: &mut Reads) -> Result<Vec<f64>> {
        let count = centroids.count();
        let state_bytes = (count * size_of::<u64>()) as u64;
        let states = self.pass(
            "weigh rows",
            state_bytes,
            centroids,
            reads,
            |counts: &mut Vec<u64>, _, cluster, _| {
                if counts.is_empty() {
                    counts.resize(count, 0);
                }
                counts[cluster] += 1;
            },
        )?;
        let mut weights = vec![0_u64; count];
        for counts in states {
            weights
                .iter_mut()
                .zip(counts)
                .for_each(|(all, count)| *all += count);
        }
        Ok(weights.into_iter().map(|count| count as f64).collect())
    }

    /// Passes row, nearest centroid and distance of all rows to `each`.
    fn pass<S: Default + Send>(
        &self,
        phase: &str,
        state_bytes: u64,
        centroids: &Centroids,
        reads: &mut Reads,
        each: impl Fn(&mut S, u64, usize, f64) + Sync,
    ) -> Result<Vec<S>> {
        let base = self.base;
        let beside_bytes =
            Space::memory_bytes(centroids.count()) + Tile::memory_bytes(base) + state_bytes;
        let scan = Scan::plan(self.job, base, beside_bytes, 0)?;
        let state = || {
            let held = self.job.budget.reserve("draw rows", beside_bytes)?;
            let space = Space::new(centroids.count());
            Ok((Tile::new(base), space, S::default(), held))
        };
        type State<S> = (Tile, Space, S, Reservation);
        let passed = scan.run(self.job, phase, state, |state: &mut State<S>, piece| {
            let (tile, space, found, _) = state;
            tile.each(piece, |rows, wide| {
                let first = rows.first;
                let visit = |index: usize, cluster: usize, distance: f64, _: &[f64]| {
                    each(found, first + index as u64, cluster, distance);
                    Ok(())
                };
                centroids.nearest(&rows, space, visit, wide)
            })
        })?;
        reads.passes += 1;
        reads.read_bytes += passed.read_bytes;
        let states = passed.states.into_iter();
        Ok(states.map(|(_, _, found, _)| found).collect())
    }
}

/// Adds a row, and keeps at most `most` of the least rows.
fn keep(drawn: &mut Drawn, offered: DrawnRow, most: usize) {
    if drawn.len() < most {
        drawn.push(offered);
    } else if drawn.peek().is_some_and(|last| offered < *last) {
        drawn.pop();
        drawn.push(offered);
    }
}
