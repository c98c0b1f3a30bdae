//! Centroids in memory, and the nearest of them to each of some rows.
//!
//! Contract: the nearest centroid is the one with the least distance in f64 ([`crate::exact`]), the first of equals. A product
//! in f32 of all centroids with a tile of rows gives the half squared norm of a centroid less its product with the row, which is least
//! for the nearest. Where the second best is within the proven error of the best, all centroids are measured in f64.

use crate::exact::{dot, error_factor, squared_distance, underflow};
use crate::product::{Matrix, products, vectorized};
use crate::scan::{Rows, TILE_ROWS};

/// Centroids that are multiplied at a time.
const AT_ONCE: usize = 256;
/// Centroids that are compared at a time.
const LANES: usize = 16;
/// With a centroid of a larger norm, f32 says nothing.
const NORM_MAX: f64 = 1e15;
/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / 16_777_216.0;

/// See the module.
pub(super) struct Centroids {
    wide: Vec<f64>,
    narrow: Vec<f32>,
    /// Half the squared norm of each.
    halves: Vec<f32>,
    norm_max: f64,
    dimension: usize,
}

impl Centroids {
    /// What `count` of them take.
    pub(super) fn memory_bytes(count: usize, dimension: usize) -> u64 {
        let numbers = count as u64 * dimension as u64;
        numbers * (size_of::<f64>() + size_of::<f32>()) as u64 + 4 * count as u64
    }

    /// Of vectors one after another; if they are all of norm 1, the product alone says which is nearest, whatever the norm
    /// of a row.
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
        }
    }

    pub(super) fn count(&self) -> usize {
        self.halves.len()
    }

    /// One of them.
    pub(super) fn at(&self, index: usize) -> &[f64] {
        &self.wide[index * self.dimension..][..self.dimension]
    }

    /// All of them, one after another.
    pub(super) fn into_numbers(self) -> Vec<f64> {
        self.wide
    }

    /// How far the comparison in f32 may be off for a row whose squares sum to `square`. Where that is finite, so are all
    /// scores of the row.
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

    /// The nearest centroid to each row of a tile and their distance; `scale` is what a row, in f64, is compared as.
    pub(super) fn nearest<E>(
        &self,
        rows: &Rows<'_>,
        space: &mut Space,
        mut each: impl FnMut(usize, usize, f64, &[f64]) -> Result<(), E>,
        (wide, scale): (&mut [f64], impl Fn(usize, &mut [f64]) -> Result<(), E>),
    ) -> Result<(), E> {
        let count = rows.matrix.rows;
        space.best[..count].fill(Best::NONE);
        let all = Matrix::dense(&self.narrow, self.dimension);
        for from in (0..self.count()).step_by(AT_ONCE) {
            let block = all.part(from, AT_ONCE.min(self.count() - from));
            let scores = &mut space.scores[..block.rows * count];
            products(block, rows.matrix, scores);
            let halves = &self.halves[from..from + block.rows];
            let best = &mut space.best[..count];
            pulp::Arch::new().dispatch(Scores {
                scores,
                halves,
                best,
                from: from as u32,
            });
        }
        for row in 0..count {
            rows.exact(row, wide);
            scale(row, wide)?;
            let best = space.best[row];
            let is_clear = f64::from(best.second) - f64::from(best.first)
                > 2.0 * self.error(rows.squares[row]);
            let (index, distance) = match is_clear {
                true => {
                    let index = best.index as usize;
                    let distance = vectorized(|| squared_distance(wide, self.at(index)));
                    (index, distance)
                }
                false => self.measured(wide),
            };
            each(row, index, distance, wide)?;
        }
        Ok(())
    }

    /// The nearest centroid to a vector, measured in f64.
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

/// Space of a thread for products.
pub(super) struct Space {
    scores: Vec<f32>,
    best: Vec<Best>,
}

impl Space {
    pub(super) fn memory_bytes(count: usize) -> u64 {
        (TILE_ROWS * (AT_ONCE.min(count) * size_of::<f32>() + size_of::<Best>())) as u64
    }

    pub(super) fn new(count: usize) -> Self {
        Space {
            scores: vec![0.0; AT_ONCE.min(count) * TILE_ROWS],
            best: vec![Best::NONE; TILE_ROWS],
        }
    }
}

/// The two least scores of a row so far, and whose the first is.
#[derive(Clone, Copy)]
struct Best {
    first: f32,
    second: f32,
    index: u32,
}

impl Best {
    const NONE: Best = Best {
        first: f32::INFINITY,
        second: f32::INFINITY,
        index: 0,
    };

    /// Takes the scores of some centroids, the first of which is `from`. Scores are lost.
    #[inline(always)]
    fn update(&mut self, scores: &mut [f32], from: u32) {
        let first = least(scores);
        let place = scores.iter().position(|score| *score == first).unwrap_or(0);
        scores[place] = f32::INFINITY;
        let second = least(scores);
        let is_first = first < self.first;
        let loser = if is_first { self.first } else { first };
        self.second = self.second.min(loser).min(second);
        if is_first {
            (self.first, self.index) = (first, from + place as u32);
        }
    }
}

/// The least of some scores.
#[inline(always)]
fn least(scores: &[f32]) -> f32 {
    let mut lanes = [f32::INFINITY; LANES];
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] < lanes[lane] {
                chunk[lane]
            } else {
                lanes[lane]
            };
        }
    }
    let all = lanes.iter().chain(rest);
    all.fold(f32::INFINITY, |least, score| least.min(*score))
}

/// Products of a block of centroids, the first of which is `from`, with some rows, on their way to scores and the best of
/// them. A loop that is compiled for the processor, which a closure of this size is not.
struct Scores<'a> {
    scores: &'a mut [f32],
    halves: &'a [f32],
    best: &'a mut [Best],
    from: u32,
}

impl pulp::NullaryFnOnce for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (scores, best) in self
            .scores
            .chunks_exact_mut(self.halves.len())
            .zip(self.best)
        {
            for (score, half) in scores.iter_mut().zip(self.halves) {
                *score = half - *score;
            }
            best.update(scores, self.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_least_scores_are_found_wherever_they_stand() {
        for count in [1, 2, 15, 16, 17, 40, 300] {
            for shift in 0..count {
                let scores: Vec<f32> = (0..count)
                    .map(|at| ((at * 7 + shift * 3) % 301) as f32)
                    .collect();
                let mut shown = scores.clone();
                let mut best = Best::NONE;
                let (front, back) = shown.split_at_mut(count / 2);
                if !front.is_empty() {
                    best.update(front, 0);
                }
                best.update(back, (count / 2) as u32);
                let mut sorted = scores.clone();
                sorted.sort_by(f32::total_cmp);
                assert_eq!(best.first, sorted[0]);
                assert_eq!(scores[best.index as usize], sorted[0]);
                assert_eq!(best.second, sorted.get(1).copied().unwrap_or(f32::INFINITY));
            }
        }
    }
}
