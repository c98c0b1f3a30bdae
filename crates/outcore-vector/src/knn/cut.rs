//! Decides which rows a product in f32 rules out.
//!
//! Contract: a row of norm r and a query are measured in f64 unless `fl(q . x) + factor * r < h -
//! level` in f32. If that holds, the distance is certainly larger than the one from which the
//! [`Cut`] was made. Let g be the error factor, T that distance, n the sum of squares in f32, and r
//! an upper bound of `sqrt(n (1 + g))`. Then:
//!
//! | metric | the row is farther than T if | factor | level | h |
//! |---|---|---|---|---|
//! | l2 | q.x < (n_x + n_q - T) / 2 | g r_q | (T - n_q) / 2 | n (1 - g) / 2 |
//! | ip | q.x < -T | g r_q | T | 0 |
//! | cos, q scaled to norm 1 | q.x < (1 - T) r_x | g - (1 - T) + 2 g abs(1 - T) | 0 | 0 |
//!
//! All values are widened for the errors of comparisons in f32 and of underflow ([`crate::exact`]).
//! Queries with norms above 1e15 are always measured; with smaller norms and a finite r, no product
//! overflows.
//!
//! A record of an index ([`crate::index::record`]) has codes x' whose product replaces that of x.
//! The norm of `x - x'` is at most the residual e. So `q . x` may be off by another `r_q e`, and x'
//! may have a norm of r + e. For l2 and ip, the norm that is multiplied by the factor therefore
//! becomes `r + e (1 + 1 / g)`. For cos, whose factor is not g, h becomes `-e (1 + g)`.

use super::Metric;
use crate::exact::{error_factor, round_up, underflow};
use crate::index::record::Facts;
use crate::product::vectorized;

/// Queries with a larger norm cannot be compared in f32.
const NORM_MAX: f64 = 1e15;
/// A square is too imprecise for a norm if it is less than this many times (2^26) the amount that
/// may underflow in it.
const BLURRED: f32 = 67_108_864.0;
/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / 16_777_216.0;

/// The values of a query that are compared with products.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) factor: f32,
    pub(super) level: f32,
}

/// The values of all queries, in one array per kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cuts<'c> {
    pub(super) factors: &'c [f32],
    pub(super) levels: &'c [f32],
}

/// The values of a row before it is measured: an upper bound of its norm, and h.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowBound {
    pub(super) norm: f32,
    pub(super) h: f32,
}

impl Cut {
    /// A cut that rules out rows farther than `distance` from a query of this norm. Smaller
    /// `distance` values are nearer.
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

/// Computes, for each row, an upper bound of its norm, and h. The bound is NaN if f32 is too
/// imprecise for a cosine.
pub(super) fn bound_rows(metric: Metric, dimension: usize, squares: &[f32], out: &mut [RowBound]) {
    let (error, tiny) = (error_factor(dimension), underflow(dimension));
    let (upper, lower) = (
        (1.0 + error + 8.0 * UNIT) as f32,
        (1.0 - error - 8.0 * UNIT) as f32,
    );
    let tiny = round_up(tiny);
    // With a positive cosine the factor is negative, so a bound far above the norm would rule out
    // rows wrongly. Below `floor`, `tiny` is not small compared with the square; above the largest
    // number, the bound is infinite.
    let floor = tiny * BLURRED;
    vectorized(|| {
        for (square, out) in squares.iter().zip(out) {
            let h = match metric {
                Metric::L2 => 0.5 * square * lower - tiny,
                Metric::Ip | Metric::Cos | Metric::Hamming => 0.0,
            };
            let is_blurred = metric == Metric::Cos && !(floor..=f32::MAX).contains(square);
            let norm = (square * upper + tiny).sqrt() * upper;
            // A comparison with NaN never rules out a row.
            *out = RowBound {
                norm: if is_blurred { f32::NAN } else { norm },
                h,
            };
        }
    });
}

/// Like [`bound_rows`], for rows known by their records.
pub(super) fn bound_records(
    metric: Metric,
    dimension: usize,
    facts: &[Facts],
    out: &mut [RowBound],
) {
    let (error, tiny) = (error_factor(dimension), round_up(underflow(dimension)));
    let (upper, lower) = (
        round_up(1.0 + error + 8.0 * UNIT),
        (1.0 - error - 8.0 * UNIT) as f32,
    );
    // The factor of a residual, widened for rounding of the result.
    let times = match metric {
        Metric::Cos => round_up((1.0 + 2.0 * error) * (1.0 + 32.0 * UNIT)),
        Metric::L2 | Metric::Ip | Metric::Hamming => {
            round_up((1.0 + 1.0 / (error + 8.0 * UNIT)) * (1.0 + 32.0 * UNIT))
        }
    };
    vectorized(|| {
        for (facts, out) in facts.iter().zip(out) {
            let norm = (facts.square * upper + tiny).sqrt() * upper;
            let (norm, h) = match metric {
                Metric::Cos => (norm, 0.0 - facts.residual * times),
                Metric::L2 => (
                    norm + facts.residual * times,
                    0.5 * facts.square * lower - tiny,
                ),
                Metric::Ip | Metric::Hamming => (norm + facts.residual * times, 0.0),
            };
            *out = RowBound { norm, h };
        }
    });
}

/// The least and the largest possible distance between a row and a query, from the row's record and
/// the product of its codes. `norm` is the norm of the multiplied query.
pub(super) fn interval(
    metric: Metric,
    dimension: usize,
    norm: f64,
    facts: &Facts,
    product: f32,
) -> (f64, f64) {
    let unknown = (f64::NEG_INFINITY, f64::INFINITY);
    if norm > NORM_MAX || !facts.residual.is_finite() {
        return unknown;
    }
    let error = error_factor(dimension) + 8.0 * UNIT;
    let (square, residual) = (f64::from(facts.square), f64::from(facts.residual));
    let size = square.sqrt() * (1.0 + error);
    let off = norm * (error * (size + residual) + residual) * (1.0 + UNIT)
        + underflow(dimension) * (1.0 + norm);
    let (least, most) = (f64::from(product) - off, f64::from(product) + off);
    let (near, far) = match metric {
        Metric::L2 => {
            let sum = square + norm * norm;
            let slack = 8.0 * UNIT * sum;
            (sum - 2.0 * most - slack, sum - 2.0 * least + slack)
        }
        Metric::Ip => (0.0 - most, 0.0 - least),
        // A zero vector has no direction; its distance is 1 from all.
        Metric::Cos if facts.is_zero() => (1.0, 1.0),
        Metric::Cos => {
            let root = square.sqrt();
            let of = |product: f64, sign: f64| {
                let cosine = product / root;
                1.0 - cosine + sign * 16.0 * UNIT * (1.0 + cosine.abs())
            };
            (of(most, -1.0), of(least, 1.0))
        }
        Metric::Hamming => return unknown,
    };
    match near.is_nan() || far.is_nan() {
        true => unknown,
        false => (near, far),
    }
}

/// Finds the first row at or after `from` that is kept for at least one query; `products` has the
/// products of a row side by side.
pub(super) fn next_kept(
    Cuts { factors, levels }: Cuts<'_>,
    products: &[f32],
    bounds: &[RowBound],
    from: usize,
) -> Option<usize> {
    let count = factors.len();
    vectorized(|| {
        let rows = products.chunks_exact(count).zip(bounds).skip(from);
        let kept = rows
            .enumerate()
            .find(|(_, (products, RowBound { norm, h }))| {
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

/// Whether a row is not ruled out for a query.
pub(super) fn is_kept(cut: Cut, product: f32, bound: RowBound) -> bool {
    let is_out = product + cut.factor * bound.norm < bound.h - cut.level;
    !is_out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exact::{dot, squared_distance};
    use crate::index::record::{TAIL_BYTES, decode, encode_numbers};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_record_leaves_out_no_row_that_is_near_enough_and_bounds_its_distance(
            pairs in prop::collection::vec((-1.0_f64..1.0, -1.0_f64..1.0), 1..60),
            (row_exponent, query_exponent, shift) in (-45..55_i32, -70..60_i32, 0..3_usize),
        ) {
            let shift = [0.0, 1.0, 1e4][shift];
            let scale = |exponent: i32| 2.0_f64.powi(exponent);
            let row: Vec<f64> = pairs.iter().map(|pair| (pair.0 + shift) * scale(row_exponent)).collect();
            let query: Vec<f64> = pairs.iter().map(|pair| (pair.1 + shift) * scale(query_exponent)).collect();
            let (row_norm, query_norm) = (dot(&row, &row).sqrt(), dot(&query, &query).sqrt());
            prop_assume!(row_norm > 0.0 && query_norm > 0.0);
            let dimension = row.len();
            let mut record = vec![0; dimension + TAIL_BYTES];
            encode_numbers(&row, &mut record);
            let mut near = vec![0.0; dimension];
            let facts = decode(&record, &mut near);
            for metric in [Metric::L2, Metric::Ip, Metric::Cos] {
                let (norm, distance) = match metric {
                    Metric::L2 => (query_norm, squared_distance(&query, &row)),
                    Metric::Ip => (query_norm, 0.0 - dot(&query, &row)),
                    _ => (1.0, 1.0 - dot(&query, &row) / (query_norm * row_norm)),
                };
                let factor = norm / query_norm;
                let narrow = query.iter().map(|number| (number * factor) as f32);
                let product = narrow.zip(&near).fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum));
                let (least, most) = interval(metric, dimension, norm, &facts, product);
                prop_assert!(least <= distance && distance <= most, "{:?}: {} {} {}", metric, least, distance, most);
                let mut bounds = [RowBound::default()];
                bound_records(metric, dimension, &[facts], &mut bounds);
                let cut = Cut::of(metric, dimension, norm, distance);
                prop_assert!(is_kept(cut, product, bounds[0]), "{:?} {:?} {:?}", metric, cut, bounds);
            }
        }
    }

    #[test]
    fn a_record_leaves_out_what_is_much_farther() {
        let (row, query) = ([3.0, 4.0, -5.0, 1.0], [3.5, 4.0, -5.0, 1.0]);
        let mut record = vec![0; 4 + TAIL_BYTES];
        encode_numbers(&row, &mut record);
        let mut near = [0.0; 4];
        let facts = decode(&record, &mut near);
        let product = query.iter().zip(near).map(|(a, b)| *a as f32 * b).sum();
        let norm = dot(&query, &query).sqrt();
        let (least, most) = interval(Metric::L2, 4, norm, &facts, product);
        assert!(least > -1.0 && most < 1.5, "{least} {most}");
        let mut bounds = [RowBound::default()];
        bound_records(Metric::L2, 4, &[facts], &mut bounds);
        let cut = Cut::of(Metric::L2, 4, norm, least - 0.01);
        assert!(!is_kept(cut, product, bounds[0]));
    }
}
