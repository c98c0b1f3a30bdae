//! Centroids in memory, and the search for the nearest one to each row.
//!
//! Contract: the nearest centroid is the one with the least distance in f64 ([`crate::exact`]);
//! among equal distances, the first one. A row's score for a centroid is half the centroid's
//! squared norm minus their product, computed in f32 for all centroids and a tile of rows; it is
//! least for the nearest centroid. If the second-best score is within the proven error of the best
//! one, all centroids are measured in f64.

use pulp::{Simd, WithSimd};

use super::to_norm_one;
use crate::exact::{dot, error_factor, squared_distance, underflow};
use crate::product::{Matrix, products, vectorized};
use crate::scan::{Rows, TILE_ROWS};

/// Centroids that are multiplied at a time.
const AT_ONCE: usize = 256;
/// A centroid with a larger norm cannot be compared in f32.
const NORM_MAX: f64 = 1e15;
/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / 16_777_216.0;

/// See the module.
pub(super) struct Centroids {
    wide: Vec<f64>,
    narrow: Vec<f32>,
    /// Half the squared norm of each centroid.
    halves: Vec<f32>,
    norm_max: f64,
    dimension: usize,
    is_spherical: bool,
}

impl Centroids {
    /// The memory for `count` centroids.
    pub(super) fn memory_bytes(count: usize, dimension: usize) -> u64 {
        let numbers = count as u64 * dimension as u64;
        numbers * (size_of::<f64>() + size_of::<f32>()) as u64 + 4 * count as u64
    }

    /// Centroids from vectors, one after another. If all have norm 1, the product alone shows which
    /// is nearest, for any norm of a row.
    pub(super) fn new(wide: Vec<f64>, dimension: usize, is_spherical: bool) -> Self {
        let squares: Vec<f64> = wide.chunks_exact(dimension).map(|c| dot(c, c)).collect();
        let half = if is_spherical { 0.0 } else { 0.5 };
        Centroids {
            narrow: wide.iter().map(|number| *number as f32).collect(),
            halves: squares
                .iter()
                .map(|square| (square * half) as f32)
                .collect(),
            norm_max: squares.iter().copied().fold(0.0, f64::max).sqrt(),
            wide,
            dimension,
            is_spherical,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.halves.len()
    }

    /// One of the centroids.
    pub(super) fn at(&self, index: usize) -> &[f64] {
        &self.wide[index * self.dimension..][..self.dimension]
    }

    /// The numbers of all centroids, one after another.
    pub(super) fn into_numbers(self) -> Vec<f64> {
        self.wide
    }

    /// The error bound of the f32 comparison for a row whose squares sum to `square`. If it is
    /// finite, so are all scores of the row.
    #[inline(always)]
    fn error(&self, square: f32) -> f64 {
        if self.norm_max > NORM_MAX {
            return f64::INFINITY;
        }
        let (factor, tiny) = (error_factor(self.dimension), underflow(self.dimension));
        let norm = (f64::from(square) * (1.0 + 2.0 * factor) + tiny).sqrt();
        let product = (factor + 4.0 * UNIT) * norm * self.norm_max;
        let half = 4.0 * UNIT * self.norm_max * self.norm_max;
        product + half + tiny * (1.0 + norm) * (1.0 + self.norm_max)
    }

    /// Finds for each row of a tile the best and the second-best centroid by f32.
    fn compare(&self, rows: &Rows<'_>, space: &mut Space) {
        let count = rows.matrix.rows;
        space.best.begin(count);
        let all = Matrix::dense(&self.narrow, self.dimension);
        for from in (0..self.count()).step_by(AT_ONCE) {
            let block = all.part(from, AT_ONCE.min(self.count() - from));
            let products_here = &mut space.products[..block.rows * count];
            products(rows.matrix, block, products_here);
            pulp::Arch::new().dispatch(Scores {
                products: products_here,
                halves: &self.halves[from..from + block.rows],
                best: &mut space.best,
                from: from as u32,
            });
        }
    }

    /// Whether f32 shows which centroid is nearest to a row with this sum of squares.
    #[inline(always)]
    fn is_clear(&self, first: f32, second: f32, square: f32) -> bool {
        f64::from(second) - f64::from(first) > 2.0 * self.error(square)
    }

    /// Finds the nearest centroid to each row of a tile, and their distance. If centroids are
    /// spherical, rows are scaled to norm 1. A zero vector stays as it is: it is equally far from
    /// all centroids, and belongs to the first.
    pub(super) fn nearest<E>(
        &self,
        rows: &Rows<'_>,
        space: &mut Space,
        mut each: impl FnMut(usize, usize, f64, &[f64]) -> Result<(), E>,
        wide: &mut [f64],
    ) -> Result<(), E> {
        self.compare(rows, space);
        for row in 0..rows.matrix.rows {
            rows.exact(row, wide);
            let has_direction = !self.is_spherical || to_norm_one(wide);
            let best = &space.best;
            let (first, second) = (best.firsts[row], best.seconds[row]);
            let (index, distance) = match self.is_clear(first, second, rows.squares[row]) {
                _ if !has_direction => (0, squared_distance(wide, self.at(0))),
                true => {
                    let index = best.indexes[row] as usize;
                    let distance = vectorized(|| squared_distance(wide, self.at(index)));
                    (index, distance)
                }
                false => self.measured(wide),
            };
            each(row, index, distance, wide)?;
        }
        Ok(())
    }

    /// Like [`Centroids::nearest`] for unscaled rows, in one loop that is compiled for the
    /// processor.
    pub(super) fn nearest_plain(
        &self,
        rows: &Rows<'_>,
        space: &mut Space,
        taker: &mut impl TakeNearest,
        wide: &mut [f64],
    ) {
        self.compare(rows, space);
        pulp::Arch::new().dispatch(Assigning {
            centroids: self,
            rows,
            best: &space.best,
            taker,
            wide,
        });
    }

    /// Returns the nearest centroid to a vector, measured in f64.
    #[inline(never)]
    pub(super) fn measured(&self, vector: &[f64]) -> (usize, f64) {
        let mut nearest = (0, f64::INFINITY);
        for (index, centroid) in self.wide.chunks_exact(self.dimension).enumerate() {
            let distance = squared_distance(vector, centroid);
            if distance < nearest.1 {
                nearest = (index, distance);
            }
        }
        nearest
    }
}

/// A thread's space for products.
pub(super) struct Space {
    /// For each centroid, its products with all rows of a tile.
    products: Vec<f32>,
    best: Best,
}

impl Space {
    pub(super) fn memory_bytes(count: usize) -> u64 {
        (TILE_ROWS * (AT_ONCE.min(count) + 3) * size_of::<f32>()) as u64
    }

    pub(super) fn new(count: usize) -> Self {
        Space {
            products: vec![0.0; AT_ONCE.min(count) * TILE_ROWS],
            best: Best::default(),
        }
    }
}

/// For each row of a tile, the two least scores so far, and the centroid of the first.
#[derive(Debug, Default)]
struct Best {
    firsts: Vec<f32>,
    seconds: Vec<f32>,
    indexes: Vec<u32>,
}

impl Best {
    /// Starts with `count` rows and no scores.
    fn begin(&mut self, count: usize) {
        self.firsts.clear();
        self.firsts.resize(count, f32::INFINITY);
        self.seconds.clear();
        self.seconds.resize(count, f32::INFINITY);
        self.indexes.clear();
        self.indexes.resize(count, 0);
    }
}

/// Takes a row of a tile: its place, its cluster and distance, and its numbers. Implementations
/// must be inlined: `#[inline(always)]`.
pub(super) trait TakeNearest {
    /// Takes one row.
    fn take<S: Simd>(&mut self, simd: S, row: usize, cluster: usize, distance: f64, vector: &[f64]);
}

/// Rows that are being assigned to clusters.
struct Assigning<'a, T> {
    centroids: &'a Centroids,
    rows: &'a Rows<'a>,
    best: &'a Best,
    taker: &'a mut T,
    wide: &'a mut [f64],
}

impl<T: TakeNearest> WithSimd for Assigning<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let best = self.best;
        for row in 0..best.firsts.len() {
            self.rows.exact(row, self.wide);
            let (first, second) = (best.firsts[row], best.seconds[row]);
            let (index, distance) =
                match self
                    .centroids
                    .is_clear(first, second, self.rows.squares[row])
                {
                    true => {
                        let index = best.indexes[row] as usize;
                        (index, squared_distance(self.wide, self.centroids.at(index)))
                    }
                    false => self.centroids.measured(self.wide),
                };
            self.taker.take(simd, row, index, distance, self.wide);
        }
    }
}

/// Converts products of a block of centroids, the first of which is `from`, with some rows to
/// scores, and keeps the best of them.
struct Scores<'a> {
    /// For each centroid, its products with all rows.
    products: &'a [f32],
    halves: &'a [f32],
    best: &'a mut Best,
    from: u32,
}

impl WithSimd for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let count = self.best.firsts.len();
        let (firsts, firsts_rest) = S::as_mut_simd_f32s(&mut self.best.firsts);
        let (seconds, seconds_rest) = S::as_mut_simd_f32s(&mut self.best.seconds);
        let (indexes, indexes_rest) = S::as_mut_simd_u32s(&mut self.best.indexes);
        // N.B. Vectorized explicitly: the compiler would make these choices row by row, which takes
        // twice the time.
        for at in 0..firsts.len() {
            let (mut first, mut second) = (firsts[at], seconds[at]);
            let mut index = indexes[at];
            for centroid in 0..self.halves.len() {
                let products = &self.products[centroid * count..][..count];
                let product = S::as_simd_f32s(products).0[at];
                let score = simd.sub_f32s(simd.splat_f32s(self.halves[centroid]), product);
                let is_first = simd.less_than_f32s(score, first);
                let loser = simd.select_f32s(is_first, first, score);
                let is_second = simd.less_than_f32s(loser, second);
                second = simd.select_f32s(is_second, loser, second);
                first = simd.select_f32s(is_first, score, first);
                let here = simd.splat_u32s(self.from + centroid as u32);
                index = simd.select_u32s(is_first, here, index);
            }
            (firsts[at], seconds[at], indexes[at]) = (first, second, index);
        }
        let whole = count - firsts_rest.len();
        for at in 0..firsts_rest.len() {
            for centroid in 0..self.halves.len() {
                let score = self.halves[centroid] - self.products[centroid * count + whole + at];
                let mut loser = score;
                if score < firsts_rest[at] {
                    loser = firsts_rest[at];
                    firsts_rest[at] = score;
                    indexes_rest[at] = self.from + centroid as u32;
                }
                if loser < seconds_rest[at] {
                    seconds_rest[at] = loser;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_least_scores_are_found_wherever_they_stand() {
        for (count, rows) in [(1, 1), (2, 15), (15, 16), (16, 17), (40, 33), (300, 50)] {
            let score = |centroid: usize, row: usize| ((centroid * 7 + row * 31) % 3011) as f32;
            let products: Vec<f32> = (0..count)
                .flat_map(|centroid| (0..rows).map(move |row| 5.0 - score(centroid, row)))
                .collect();
            let mut best = Best::default();
            best.begin(rows);
            let halves = vec![5.0; count];
            let border = count / 2;
            for (from, to) in [(0, border), (border, count)] {
                pulp::Arch::new().dispatch(Scores {
                    products: &products[from * rows..to * rows],
                    halves: &halves[from..to],
                    best: &mut best,
                    from: from as u32,
                });
            }
            for row in 0..rows {
                let mut sorted: Vec<f32> = (0..count).map(|at| score(at, row)).collect();
                sorted.sort_by(f32::total_cmp);
                assert_eq!(best.firsts[row], sorted[0]);
                assert_eq!(score(best.indexes[row] as usize, row), sorted[0]);
                let second = sorted.get(1).copied().unwrap_or(f32::INFINITY);
                assert_eq!(best.seconds[row], second);
            }
        }
    }
}
