//! Sums of vectors that do not depend on the order of addition.
//!
//! Contract: a number is split into a multiple of a coarse unit, a multiple of a fine unit, and a
//! rest that is dropped. The units are chosen from the largest number and the count of numbers, so
//! that both sums are exact in f64 and therefore independent of the order. The dropped rest is
//! below 2^-52 of the largest number, for each number that is added. Source: Demmel and Nguyen,
//! "Fast Reproducible Floating-Point Summation", ARITH 2013, section 3.
//!
//! Bounds: six additions per number; two f64 per number of a sum.

use pulp::Simd;

/// The units for a given largest number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    /// Adding and subtracting this rounds to the coarse unit.
    coarse: f64,
    /// Adding and subtracting this rounds to the fine unit.
    fine: f64,
    /// The largest number that may be added.
    largest: f64,
}

/// Exponents of the largest number are limited so that neither unit overflows or vanishes. If no
/// number reaches 2^-800, numbers below 2^-860 count as 0.
const EXPONENT_MIN: i32 = -800;
/// See [`EXPONENT_MIN`].
pub(super) const EXPONENT_MAX: i32 = 900;

/// The units of numbers, and of squared distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowUnits {
    pub(super) numbers: Units,
    pub(super) squares: Units,
}

impl Units {
    /// Units for `count` numbers of at most `largest`; `None` if that is beyond 2^900.
    pub(super) fn new(largest: f64, count: u64) -> Option<Self> {
        let exponent = exponent_above(largest).max(EXPONENT_MIN);
        if exponent > EXPONENT_MAX {
            return None;
        }
        let bits = 64 - count.leading_zeros() as i32;
        // `count` numbers below 2^exponent sum to less than 2^53 units.
        let coarse = exponent + bits - 52;
        let fine = coarse - 1 + bits - 52;
        // Numbers of this size have the unit as their last bit, even after adding a much smaller
        // number.
        let anchor = |unit: i32| 1.5 * 2.0_f64.powi(unit + 52);
        Some(Units {
            coarse: anchor(coarse),
            fine: anchor(fine),
            largest: 2.0_f64.powi(exponent),
        })
    }

    /// Units for the numbers of `count` rows of `dimension` numbers of at most `largest`, and for
    /// squared distances between such rows.
    pub(super) fn of_rows(largest: f64, dimension: usize, count: u64) -> Option<RowUnits> {
        let numbers = Units::new(largest, count)?;
        // No distance exceeds that between opposite corners.
        let most = 4.0 * dimension as f64 * numbers.largest * numbers.largest;
        Some(RowUnits {
            numbers,
            squares: Units::new(most, count)?,
        })
    }

    /// The largest number that may be added.
    pub(super) fn largest(&self) -> f64 {
        self.largest
    }

    /// Splits a number into its two parts.
    #[inline(always)]
    fn split(&self, number: f64) -> (f64, f64) {
        let coarse = (number + self.coarse) - self.coarse;
        let fine = ((number - coarse) + self.fine) - self.fine;
        (coarse, fine)
    }
}

/// The least exponent whose power of two is not below `largest`.
fn exponent_above(largest: f64) -> i32 {
    if largest == 0.0 {
        return EXPONENT_MIN;
    }
    let mut exponent = largest.log2().ceil() as i32;
    // The logarithm is rounded.
    while 2.0_f64.powi(exponent) < largest {
        exponent += 1;
    }
    exponent
}

/// A running sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    coarse: f64,
    fine: f64,
}

impl Sum {
    #[inline(always)]
    pub(super) fn add(&mut self, units: &Units, number: f64) {
        let (coarse, fine) = units.split(number);
        self.coarse += coarse;
        self.fine += fine;
    }

    /// Adds the sum of another thread, which has the same units.
    pub(super) fn merge(&mut self, other: &Sum) {
        self.coarse += other.coarse;
        self.fine += other.fine;
    }

    pub(super) fn value(&self) -> f64 {
        self.coarse + self.fine
    }
}

/// Running sums of the vectors in each cluster.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    /// For each cluster, the coarse parts of its numbers, followed by the fine ones, so that
    /// neighbours are added together.
    parts: Vec<f64>,
    dimension: usize,
}

impl Sums {
    /// Memory for the sums of `count` clusters.
    pub(super) fn memory_bytes(count: usize, dimension: usize) -> u64 {
        2 * count as u64 * dimension as u64 * size_of::<f64>() as u64
    }

    pub(super) fn new(count: usize, dimension: usize) -> Self {
        Sums {
            parts: vec![0.0; 2 * count * dimension],
            dimension,
        }
    }

    /// Adds a vector to a cluster.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&mut self, simd: S, units: &Units, cluster: usize, vector: &[f64]) {
        let both = 2 * self.dimension;
        let parts = &mut self.parts[cluster * both..][..both];
        let (coarse, fine) = parts.split_at_mut(self.dimension);
        let (coarse, coarse_rest) = S::as_mut_simd_f64s(coarse);
        let (fine, fine_rest) = S::as_mut_simd_f64s(fine);
        let (numbers, rest) = S::as_simd_f64s(vector);
        let (by, finely) = (simd.splat_f64s(units.coarse), simd.splat_f64s(units.fine));
        // As in [`Units::split`].
        for at in 0..numbers.len() {
            let here = simd.sub_f64s(simd.add_f64s(numbers[at], by), by);
            let left = simd.sub_f64s(numbers[at], here);
            let left = simd.sub_f64s(simd.add_f64s(left, finely), finely);
            coarse[at] = simd.add_f64s(coarse[at], here);
            fine[at] = simd.add_f64s(fine[at], left);
        }
        for at in 0..rest.len() {
            let parts = units.split(rest[at]);
            coarse_rest[at] += parts.0;
            fine_rest[at] += parts.1;
        }
    }

    /// Adds the sums of another thread, which have the same units.
    pub(super) fn merge(&mut self, other: &Sums) {
        let parts = self.parts.iter_mut().zip(&other.parts);
        parts.for_each(|(part, other)| *part += other);
    }

    /// The sums of a cluster.
    pub(super) fn values(&self, cluster: usize) -> impl Iterator<Item = f64> {
        let both = 2 * self.dimension;
        let (coarse, fine) = self.parts[cluster * both..][..both].split_at(self.dimension);
        coarse.iter().zip(fine).map(|(coarse, fine)| coarse + fine)
    }

    /// The sums of all clusters together.
    pub(super) fn total(&self) -> Vec<f64> {
        let mut all = Sums::new(1, self.dimension);
        for parts in self.parts.chunks_exact(2 * self.dimension) {
            let parts = all.parts.iter_mut().zip(parts);
            parts.for_each(|(all, part)| *all += part);
        }
        all.values(0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_no_order_and_are_close_to_those_of_integers() {
        let mut state = 9_u64;
        let mut random = || {
            state = outcore::read::sample::random(state, 1);
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        for scale in [1e-200, 1e-20, 1.0, 3e7, 1e200] {
            let numbers: Vec<f64> = (0..5000).map(|_| random() * scale).collect();
            let units = Units::new(scale / 2.0, 5000).unwrap();
            let sum_of = |numbers: &mut dyn Iterator<Item = &f64>| {
                let mut sum = Sum::default();
                numbers.for_each(|number| sum.add(&units, *number));
                sum
            };
            let forward = sum_of(&mut numbers.iter());
            let mut parts = sum_of(&mut numbers[3000..].iter().rev());
            parts.merge(&sum_of(&mut numbers[..3000].iter().rev()));
            assert_eq!(forward, parts, "{scale}");
            // In units of 2^-60 of the largest, exactly.
            let whole: i128 = numbers
                .iter()
                .map(|number| (number / scale * 2.0_f64.powi(60)) as i128)
                .sum();
            let wanted = whole as f64 / 2.0_f64.powi(60) * scale;
            assert!((forward.value() - wanted).abs() <= 1e-12 * scale, "{scale}");
        }
        assert!(Units::new(f64::MAX, 1).is_none());
    }
}
