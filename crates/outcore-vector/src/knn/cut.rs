//! Which rows a product in f32 leaves out.
//!
//! Contract: a row of norm r and a query are measured in f64 unless `fl(q . x) + factor * r < h - level` in f32. If that
//! holds, the distance is certainly larger than the one that the [`Cut`] was made of. With g the error factor, T that distance and
//! r upwards from `sqrt(n (1 + g))`, where n is the sum of squares in f32:
//!
//! | metric | the row is farther than T if | factor | level | h |
//! |---|---|---|---|---|
//! | l2 | q.x < (n_x + n_q - T) / 2 | g r_q | (T - n_q) / 2 | n (1 - g) / 2 |
//! | ip | q.x < -T | g r_q | T | 0 |
//! | cos, q scaled to norm 1 | q.x < (1 - T) r_x | g - (1 - T) + 2 g abs(1 - T) | 0 | 0 |
//!
//! and all are widened by what [`crate::exact`] says of comparing in f32 and of underflow. Queries of norms above 1e15 are
//! always measured; below that, and with a finite r, no product overflows.

use super::Metric;
use crate::exact::{error_factor, round_up, underflow};
use crate::product::vectorized;

/// Queries with a larger norm are beyond what f32 can tell.
const NORM_MAX: f64 = 1e15;
/// A square that is less than so many times what may underflow in it says too little about a norm: 2^26.
const BLURRED: f32 = 67_108_864.0;
/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / 16_777_216.0;

/// What a query compares products with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) factor: f32,
    pub(super) level: f32,
}

impl Cut {
    /// One that leaves out what is farther than `distance` from a query of this norm. `distance` is smaller for what is nearer.
    pub(super) fn of(metric: Metric, dimension: usize, norm: f64, distance: f64) -> Self {
        let keeps_all = Cut {
            factor: f32::INFINITY,
            level: f32::INFINITY,
        };
        if distance == f64::INFINITY || norm > NORM_MAX {
            return keeps_all;
        }
        let error = error_factor(dimension);
        let tiny = underflow(dimension) * (1.0 + norm);
        let (factor, level) = match metric {
            Metric::L2 => {
                let square = norm * norm;
                let slack = 8.0 * UNIT * (distance + square);
                (error * norm, (distance - square) / 2.0 + slack)
            }
            Metric::Ip => (error * norm, distance + 8.0 * UNIT * distance.abs()),
            Metric::Cos => {
                let cosine = 1.0 - distance;
                (error * (1.0 + 2.0 * cosine.abs()) - cosine, 0.0)
            }
            // Bits have no products.
            Metric::Hamming => return keeps_all,
        };
        let factor = match metric {
            Metric::Cos => factor + 16.0 * UNIT,
            Metric::L2 | Metric::Ip | Metric::Hamming => factor + 8.0 * UNIT * norm,
        };
        Cut {
            factor: round_up(factor + tiny),
            level: round_up(level + tiny),
        }
    }
}

/// Of each row, an upper bound of its norm, and h; of a row whose norm f32 cannot tell well enough for a cosine, NaN.
pub(super) fn bound_rows(
    metric: Metric,
    dimension: usize,
    squares: &[f32],
    out: &mut [(f32, f32)],
) {
    let (error, tiny) = (error_factor(dimension), underflow(dimension));
    let (upper, lower) = (
        (1.0 + error + 8.0 * UNIT) as f32,
        (1.0 - error - 8.0 * UNIT) as f32,
    );
    let tiny = round_up(tiny);
    // With a positive cosine the factor is negative, so a bound that is far above the norm would leave rows out. Below
    // this square, `tiny` is no longer small beside it; above the largest number, it is infinite.
    let floor = tiny * BLURRED;
    vectorized(|| {
        for (square, out) in squares.iter().zip(out) {
            let h = match metric {
                Metric::L2 => 0.5 * square * lower - tiny,
                Metric::Ip | Metric::Cos | Metric::Hamming => 0.0,
            };
            let is_blurred = metric == Metric::Cos && !(floor..=f32::MAX).contains(square);
            let norm = (square * upper + tiny).sqrt() * upper;
            // No comparison with what is not a number leaves a row out.
            *out = (if is_blurred { f32::NAN } else { norm }, h);
        }
    });
}

/// The first row, from `from` on, that is not left out for every query; `products` has those of a row side by side.
pub(super) fn next_kept(
    (factors, levels): (&[f32], &[f32]),
    products: &[f32],
    bounds: &[(f32, f32)],
    from: usize,
) -> Option<usize> {
    let count = factors.len();
    vectorized(|| {
        let rows = products.chunks_exact(count).zip(bounds).skip(from);
        let kept = rows.enumerate().find(|(_, (products, (norm, h)))| {
            let mut hits = 0_u32;
            for ((product, factor), level) in products.iter().zip(factors).zip(levels) {
                let is_out = product + factor * norm < h - level;
                hits |= u32::from(!is_out);
            }
            hits != 0
        });
        kept.map(|(at, _)| from + at)
    })
}

/// Whether a row is not left out for a query.
pub(super) fn is_kept((factor, level): (f32, f32), product: f32, (norm, h): (f32, f32)) -> bool {
    let is_out = product + factor * norm < h - level;
    !is_out
}
