//! Distances in f64 with a fixed order of summation, and the error bound of products in f32.
//!
//! Contract: [`squared_distance`] and [`dot`] add in eight lanes, then the lanes as a tree, without
//! fused operations, so their results are the same on every processor. They define "exact" in this
//! crate: orders, ties and outputs use them.
//!
//! The bound (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.1):
//! let u = 2^-24 be the unit roundoff of f32, n the dimension and g(m) = m u / (1 - m u). For every
//! order of summation, with or without fused operations,
//!
//! ```text
//! |fl(q . x) - q . x|  <=  g(n) |q| . |x|  <=  g(n) r_q r_x            (r: Euclidean norms)
//! ```
//!
//! [`error_factor`] is g(n + 16), which covers this bound and the following errors:
//!
//! - Rounding numbers from f64 to f32 adds 2 u r_q r_x and terms of u^2.
//! - The norms are added in f32, so they are off by a factor of at most 1 + g(n).
//! - Comparing `fl(q . x) + c r_x` with `h - t` in f32 adds at most 4 u of each term.
//!
//! Underflow adds at most 2^-126 per dimension, see [`underflow`]. The roundings of f64, n 2^-53,
//! are far below the one u that is left over. Numbers beyond the range of f32 make a product
//! infinite or NaN, which no comparison discards.

/// Lanes of the sums.
const LANES: usize = 8;

/// The sum of `term` over all pairs of numbers, in the fixed order.
#[inline(always)]
fn sum(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    // N.B. Indexed loops: iterator chains are not inlined into long loops that are compiled for the
    // processor.
    for at in 0..a.len().min(b.len()) {
        for lane in 0..LANES {
            lanes[lane] += term(a[at][lane], b[at][lane]);
        }
    }
    for at in 0..a_rest.len().min(b_rest.len()) {
        lanes[at] += term(a_rest[at], b_rest[at]);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// The square of the Euclidean distance.
#[inline(always)]
pub fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    sum(a, b, |a, b| (a - b) * (a - b))
}

/// The inner product.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    sum(a, b, |a, b| a * b)
}

/// The error factor g(n + 16) of a product in f32, relative to `r_q r_x`.
pub(crate) fn error_factor(dimension: usize) -> f64 {
    let unit = 2.0_f64.powi(-24);
    let steps = (dimension + 16) as f64 * unit;
    steps / (1.0 - steps)
}

/// What underflow may add to a product of `dimension` numbers with norms up to 1.
pub(crate) fn underflow(dimension: usize) -> f64 {
    dimension as f64 * 2.0_f64.powi(-126)
}

/// The least f32 that is not below `value`.
pub(crate) fn round_up(value: f64) -> f32 {
    let near = value as f32;
    match f64::from(near) < value {
        true => near.next_up(),
        false => near,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_integers_where_they_are_exact() {
        for dimension in [1, 7, 8, 9, 31, 768] {
            let a: Vec<f64> = (0..dimension).map(|at| f64::from(at * 7 % 255)).collect();
            let b: Vec<f64> = (0..dimension).map(|at| f64::from(at * 11 % 253)).collect();
            let pairs = || a.iter().zip(&b).map(|(a, b)| (*a as i64, *b as i64));
            let distance: i64 = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
            let product: i64 = pairs().map(|(a, b)| a * b).sum();
            assert_eq!(squared_distance(&a, &b), distance as f64);
            assert_eq!(dot(&a, &b), product as f64);
        }
    }

    #[test]
    fn products_in_f32_stay_within_the_bound_in_any_order() {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 40) as f32 / 8_388_608.0 - 1.0) * if state & 1 == 0 { 1e-3 } else { 1e3 }
        };
        for dimension in [2, 32, 768] {
            let a: Vec<f32> = (0..dimension).map(|_| random()).collect();
            let b: Vec<f32> = (0..dimension).map(|_| random()).collect();
            let wide = |from: &[f32]| {
                from.iter()
                    .map(|value| f64::from(*value))
                    .collect::<Vec<_>>()
            };
            let (wide_a, wide_b) = (wide(&a), wide(&b));
            let exact = dot(&wide_a, &wide_b);
            let norms = (dot(&wide_a, &wide_a) * dot(&wide_b, &wide_b)).sqrt();
            let forward = a.iter().zip(&b).fold(0.0_f32, |sum, (a, b)| sum + a * b);
            let backward = a
                .iter()
                .zip(&b)
                .rev()
                .fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum));
            for found in [forward, backward] {
                let off = (f64::from(found) - exact).abs();
                assert!(off <= error_factor(dimension) * norms, "{off} of {norms}");
            }
        }
    }
}
