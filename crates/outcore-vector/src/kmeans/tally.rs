//! The result of a pass over rows: sums and counts of clusters, inertia, and the farthest rows.
//!
//! Contract: the same for any order of rows, because sums do not depend on the order
//! ([`super::sums`]) and the farthest rows are ordered by distance, then by row.

use std::collections::BinaryHeap;

use pulp::Simd;

use super::centroids::Centroids;
use super::sums::{RowUnits, Sum, Sums};
use super::to_norm_one;
use crate::exact::dot;
use crate::format::VectorFile;

/// The most empty clusters that get a row in one pass.
const FARTHEST_ROWS: usize = 64;

/// Below this, squares may have underflowed, so the numbers themselves are compared.
const SQUARE_MIN: f64 = 1e-290;

/// The result of a pass.
pub(super) struct Tally {
    /// The sum of each cluster's rows.
    pub(super) sums: Sums,
    pub(super) counts: Vec<u64>,
    pub(super) inertia: Sum,
    /// The sum of all squared distances.
    pub(super) squares: Sum,
    pub(super) largest: f64,
    farthest: BinaryHeap<Far>,
}

/// A row that is far from its centroid. The largest in this order is dropped first: the row nearest
/// to its centroid; among equally near rows, the last one.
#[derive(Debug, Clone, PartialEq)]
struct Far {
    distance: f64,
    row: u64,
    cluster: usize,
    vector: Vec<f64>,
}

impl Eq for Far {}

impl Ord for Far {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let nearer = other.distance.total_cmp(&self.distance);
        nearer.then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A row and its nearest centroid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assigned {
    pub(super) row: u64,
    pub(super) cluster: usize,
    pub(super) distance: f64,
}

impl Tally {
    pub(super) fn memory_bytes(k: usize, dimension: usize) -> u64 {
        let sums = Sums::memory_bytes(k, dimension) + k as u64 * size_of::<u64>() as u64;
        let far = k.min(FARTHEST_ROWS) + 1;
        sums + (far * (size_of::<Far>() + dimension * size_of::<f64>())) as u64
    }

    pub(super) fn new(k: usize, dimension: usize) -> Self {
        Tally {
            sums: Sums::new(k, dimension),
            counts: vec![0; k],
            inertia: Sum::default(),
            squares: Sum::default(),
            largest: 0.0,
            farthest: BinaryHeap::new(),
        }
    }

    #[inline(always)]
    pub(super) fn add<S: Simd>(
        &mut self,
        simd: S,
        RowUnits {
            numbers: units,
            squares: square_units,
        }: &RowUnits,
        assigned: Assigned,
        vector: &[f64],
    ) {
        let Assigned {
            row,
            cluster,
            distance,
        } = assigned;
        // No number exceeds the norm, unless its square underflows.
        let square = dot(vector, vector);
        if square > units.largest() * units.largest() || square < SQUARE_MIN {
            let sizes = vector.iter().map(|number| number.abs());
            self.largest = self.largest.max(sizes.fold(0.0, f64::max));
        }
        if self.largest > units.largest() {
            // The pass will be repeated.
            return;
        }
        self.counts[cluster] += 1;
        self.sums.add(simd, units, cluster, vector);
        self.inertia.add(square_units, distance);
        self.squares.add(square_units, square);
        let rows_max = self.counts.len().min(FARTHEST_ROWS);
        let is_far = match self.farthest.peek() {
            Some(nearest) if self.farthest.len() == rows_max => {
                (nearest.distance, row) < (distance, nearest.row)
            }
            _ => true,
        };
        if is_far && distance > 0.0 {
            self.keep_far(assigned, vector, rows_max);
        }
    }

    #[inline(never)]
    fn keep_far(&mut self, assigned: Assigned, vector: &[f64], rows_max: usize) {
        let far = Far {
            distance: assigned.distance,
            row: assigned.row,
            cluster: assigned.cluster,
            vector: vector.to_vec(),
        };
        self.keep(far, rows_max);
    }

    fn keep(&mut self, far: Far, rows_max: usize) {
        self.farthest.push(far);
        if self.farthest.len() > rows_max {
            self.farthest.pop();
        }
    }

    pub(super) fn merge(&mut self, other: Tally) {
        self.sums.merge(&other.sums);
        self.counts
            .iter_mut()
            .zip(&other.counts)
            .for_each(|(count, other)| *count += other);
        self.inertia.merge(&other.inertia);
        self.squares.merge(&other.squares);
        self.largest = self.largest.max(other.largest);
        let rows_max = self.counts.len().min(FARTHEST_ROWS);
        for far in other.farthest {
            self.keep(far, rows_max);
        }
    }

    /// The mean of the columns' variances.
    pub(super) fn variance(&self, base: &VectorFile) -> f64 {
        let (rows, dimension) = (base.rows as f64, base.dimension);
        let sums = self.sums.total();
        let of_means: f64 = sums.iter().map(|sum| (sum / rows).powi(2)).sum();
        ((self.squares.value() / rows - of_means) / dimension as f64).max(0.0)
    }

    /// Returns the new centroids.
    pub(super) fn moved(&self, centroids: &Centroids, is_spherical: bool) -> Vec<f64> {
        let dimension = centroids.at(0).len();
        let mut counts = self.counts.clone();
        let clusters = 0..counts.len();
        let mut sums: Vec<f64> = clusters.flat_map(|at| self.sums.values(at)).collect();
        let mut farthest = self.farthest.clone().into_sorted_vec().into_iter();
        for empty in (0..counts.len()).filter(|cluster| self.counts[*cluster] == 0) {
            let Some(far) = farthest.find(|far| counts[far.cluster] > 1) else {
                break;
            };
            counts[far.cluster] -= 1;
            let from = &mut sums[far.cluster * dimension..][..dimension];
            from.iter_mut()
                .zip(&far.vector)
                .for_each(|(sum, number)| *sum -= number);
            counts[empty] = 1;
            sums[empty * dimension..][..dimension].copy_from_slice(&far.vector);
        }
        for (cluster, count) in counts.iter().enumerate() {
            let mean = &mut sums[cluster * dimension..][..dimension];
            mean.iter_mut().for_each(|sum| *sum /= *count as f64);
            // Without rows, or with rows that cancel out, the centroid does not move.
            if *count == 0 || (is_spherical && !to_norm_one(mean)) {
                mean.copy_from_slice(centroids.at(cluster));
            }
        }
        sums
    }
}
