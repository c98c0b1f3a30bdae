//! The register-blocked product of two sets of vectors in f32, and loops that are compiled for the
//! processor at run time.
//!
//! Contract: [`products`] computes the inner product of each vector on the left with each on the
//! right, on the calling thread. The kernel is that of the `gemm-f32` crate, which chooses AVX-512,
//! FMA, NEON or plain code at its first run. The order of summation depends on the processor;
//! callers allow for it (see [`crate::exact`]).
//!
//! Invariants: every address that the kernel is given is inside its slice, which is checked here.
#![allow(unsafe_code)]

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;

/// Vectors one after another, with `stride` numbers from one to the next.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    /// All numbers, starting with the first vector.
    pub(crate) numbers: &'a [f32],
    /// The number of vectors.
    pub(crate) rows: usize,
    /// Numbers per vector.
    pub(crate) dimension: usize,
    /// Numbers from one vector to the next.
    pub(crate) stride: usize,
}

impl<'a> Matrix<'a> {
    /// Creates a matrix without gaps.
    pub(crate) fn dense(numbers: &'a [f32], dimension: usize) -> Self {
        Matrix {
            numbers,
            rows: numbers.len() / dimension,
            dimension,
            stride: dimension,
        }
    }

    /// One of the vectors.
    #[inline(always)]
    pub(crate) fn row(&self, index: usize) -> &'a [f32] {
        &self.numbers[index * self.stride..][..self.dimension]
    }

    /// Some of the vectors.
    pub(crate) fn part(&self, from: usize, rows: usize) -> Self {
        Matrix {
            numbers: &self.numbers[from * self.stride..],
            rows,
            ..*self
        }
    }

    /// Whether all vectors are inside the numbers.
    fn is_inside(&self) -> bool {
        self.rows > 0
            && self.dimension <= self.stride
            && (self.rows - 1) * self.stride + self.dimension <= self.numbers.len()
    }
}

/// Writes the product of vector `l` on the left and `r` on the right to `out[r * left.rows + l]`.
///
/// # Panics
/// If the dimensions differ, a side is empty or exceeds its numbers, or `out` has another length.
pub(crate) fn products(left: Matrix<'_>, right: Matrix<'_>, out: &mut [f32]) {
    assert!(left.is_inside() && right.is_inside());
    assert_eq!(left.dimension, right.dimension);
    assert_eq!(out.len(), left.rows * right.rows);
    // SAFETY: all vectors are inside their slices and the result is inside `out`, as was just
    // asserted. The slice `out` is borrowed mutably, so it overlaps neither side. Strides are
    // numbers of elements and below isize::MAX.
    unsafe {
        get_gemm_fn()(
            left.rows,
            right.rows,
            left.dimension,
            out.as_mut_ptr(),
            left.rows as isize,
            1,
            false,
            left.numbers.as_ptr(),
            1,
            left.stride as isize,
            right.numbers.as_ptr(),
            right.stride as isize,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Runs `work`, compiled for the features of the processor.
#[inline(always)]
pub(crate) fn vectorized<T>(work: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(work)
}

/// Computes the sum of squares of each vector, in f32, in any order.
pub(crate) fn squares_of(matrix: Matrix<'_>, out: &mut [f32]) {
    pulp::Arch::new().dispatch(Squares { matrix, out });
}

/// See [`squares_of`].
struct Squares<'a> {
    matrix: Matrix<'a>,
    out: &'a mut [f32],
}

impl pulp::WithSimd for Squares<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        for row in 0..self.out.len() {
            let (vector, rest) = S::as_simd_f32s(self.matrix.row(row));
            let mut sums = simd.splat_f32s(0.0);
            for numbers in vector {
                sums = simd.add_f32s(sums, simd.mul_f32s(*numbers, *numbers));
            }
            let mut sum = simd.reduce_sum_f32s(sums);
            for number in rest {
                sum += number * number;
            }
            self.out[row] = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_all_pairs_with_gaps_and_odd_sizes() {
        for (left, right, dimension) in [(1, 1, 1), (3, 5, 7), (17, 33, 32), (64, 200, 9)] {
            let stride = dimension + 1;
            let a: Vec<f32> = (0..left * dimension).map(|at| (at % 13) as f32).collect();
            let b: Vec<f32> = (0..right * stride).map(|at| (at % 11) as f32).collect();
            let b_rows = Matrix {
                numbers: &b[1..],
                rows: right,
                dimension,
                stride,
            };
            let a_rows = Matrix::dense(&a, dimension);
            let mut found = vec![f32::NAN; left * right];
            products(a_rows, b_rows, &mut found);
            for r in 0..right {
                for l in 0..left {
                    let pairs = a_rows.row(l).iter().zip(b_rows.row(r));
                    let product: f32 = pairs.map(|(a, b)| a * b).sum();
                    assert_eq!(found[r * left + l], product, "{left} {right} {dimension}");
                }
            }
        }
    }
}
