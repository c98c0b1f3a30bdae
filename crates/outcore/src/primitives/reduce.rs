//! Folds a sequence to one value: with any monoid, and with the usual ones by name.
//!
//! Contract (PALID, SPAA 2025, section 4: reduce; ParlayLib's `map_reduce`): items are folded grain
//! by grain, and the grains' values are combined from left to right. A grain is a fixed number of
//! positions that depends only on the size of elements. So the result has the same bits for any
//! number of threads and any memory, even for functions that are only mathematically associative
//! (sums of floats). These bits do depend on how the input is divided into files, because grains
//! begin anew in each file. Functions need not commute. An empty sequence gives the identity.
//!
//! Bounds: I/O is one read of the sources; memory besides the pass is one value per grain of the
//! pieces in flight.

use std::sync::{Mutex, PoisonError};

use super::batch::{Batch, Sequence, Source};
use super::pass::{Demand, Pass, shield};
use super::pieces::{Lanes, Piece};
use super::summary::Summary;
use crate::forecast::Forecast;
use crate::job::Job;
use outcore_io::Result;

/// Folds `sequence` with `op`, which must be associative and have the identity `identity`.
///
/// # Errors
/// The errors of [`super::write`](super::write()).
pub fn reduce<S>(
    job: &Job,
    sequence: &S,
    identity: S::Item,
    op: impl Fn(S::Item, S::Item) -> S::Item + Sync,
) -> Result<S::Item>
where
    S: Sequence,
    S::Item: Clone + Sync,
{
    fold(job, sequence, identity, &op, &op)
}

/// Applies `map` to each item and folds the results with `op`, which must be associative and have
/// the identity `identity`; it need not commute. One pass with all steps of `sequence`; only the
/// values of grains are kept.
///
/// For whole files use [`map_files`](super::map_files()), whose results are in the order of the
/// files and can be folded directly.
///
/// ```
/// # fn main() -> outcore::Result<()> {
/// # use outcore::IoMode;
/// # use outcore::job::{Job, JobOptions};
/// use outcore::primitives::{Sequence, map_reduce, tabulate};
///
/// # let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
/// # let job = Job::new(limits, IoMode::Auto);
/// // Maps x -> a x + b under composition: a monoid that does not commute.
/// let steps = tabulate(1000, |i| i).filter(|i| i % 3 == 0);
/// let then = |f: (u64, u64), g: (u64, u64)| {
///     (f.0.wrapping_mul(g.0), f.1.wrapping_mul(g.0).wrapping_add(g.1))
/// };
/// let all = map_reduce(&job, &steps, |i| (i | 1, i), (1, 0), then)?;
/// let one_by_one = (0..1000).step_by(3).fold((1, 0), |f, i: u64| then(f, (i | 1, i)));
/// assert_eq!(all, one_by_one);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of [`reduce`].
pub fn map_reduce<S: Sequence, M: Clone + Send + Sync>(
    job: &Job,
    sequence: &S,
    map: impl Fn(S::Item) -> M + Sync,
    identity: M,
    op: impl Fn(M, M) -> M + Sync,
) -> Result<M> {
    let step = |so_far, item| op(so_far, map(item));
    fold(job, sequence, identity, step, &op)
}

/// Folds items into values of another type, and combines those with `combine`, as
/// [`Iterator::fold`] would with `step` alone.
///
/// # Errors
/// The errors of [`reduce`].
pub fn fold<S: Sequence, R: Clone + Send + Sync>(
    job: &Job,
    sequence: &S,
    identity: R,
    step: impl Fn(R, S::Item) -> R + Sync,
    combine: impl Fn(R, R) -> R + Sync,
) -> Result<R> {
    fold_with_summary(job, sequence, identity, step, combine).map(|(found, _)| found)
}

/// Like [`fold`], but with a summary of the reads.
///
/// # Errors
/// The errors of [`reduce`].
pub fn fold_with_summary<S: Sequence, R: Clone + Send + Sync>(
    job: &Job,
    sequence: &S,
    identity: R,
    step: impl Fn(R, S::Item) -> R + Sync,
    combine: impl Fn(R, R) -> R + Sync,
) -> Result<(R, Summary)> {
    let mut sources = Vec::new();
    sequence.sources(&mut sources);
    let grain =
        |_: &mut (), batch: Batch<'_>| Ok(sequence.iter(batch).fold(identity.clone(), &step));
    let (found, done) = fold_grains(job, &sources, 0, || (), grain, &combine)?;
    Ok((found.unwrap_or_else(|| identity.clone()), done))
}

/// Number of items.
///
/// # Errors
/// The errors of [`reduce`].
pub fn count<S: Sequence>(job: &Job, sequence: &S) -> Result<u64> {
    let step = |count, _| count + 1;
    fold(job, sequence, 0, step, |a, b| a + b)
}

/// Numbers that have sums, a minimum and a maximum.
pub trait Summand: Copy + Send + Sync {
    /// The type of a sum over the items of a file: 128 bits for integers, `f64` for floats.
    type Sum: Copy + Send + Sync;

    /// The empty sum.
    const ZERO: Self::Sum;

    /// The sum of one item.
    fn to_sum(self) -> Self::Sum;

    /// The sum of both.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;

    /// The sum as a float, rounded.
    fn sum_to_f64(sum: Self::Sum) -> f64;

    /// The smaller; NaN if one of two floats is NaN.
    fn least(self, other: Self) -> Self;

    /// The larger; NaN if one of two floats is NaN.
    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($sum:ty: $($number:ty),*) => {$(
        impl Summand for $number {
            type Sum = $sum;
            const ZERO: $sum = 0;

            fn to_sum(self) -> $sum {
                <$sum>::from(self)
            }

            fn add(a: $sum, b: $sum) -> $sum {
                a.wrapping_add(b)
            }

            fn sum_to_f64(sum: $sum) -> f64 {
                sum as f64
            }

            fn least(self, other: Self) -> Self {
                self.min(other)
            }

            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}
integers!(u128: u8, u16, u32, u64, u128);
integers!(i128: i8, i16, i32, i64);

macro_rules! floats {
    ($($number:ty),*) => {$(
        impl Summand for $number {
            type Sum = f64;
            const ZERO: f64 = 0.0;

            fn to_sum(self) -> f64 {
                f64::from(self)
            }

            fn add(a: f64, b: f64) -> f64 {
                a + b
            }

            fn sum_to_f64(sum: f64) -> f64 {
                sum
            }

            fn least(self, other: Self) -> Self {
                if self.is_nan() || self < other { self } else { other }
            }

            fn greatest(self, other: Self) -> Self {
                if self.is_nan() || self > other { self } else { other }
            }
        }
    )*};
}
floats!(f32, f64);

/// Sum of all items: exact for integers (128 bits; only `u128` can wrap around), to the rounding of
/// `f64` for floats.
///
/// # Errors
/// The errors of [`reduce`].
pub fn sum<S>(job: &Job, sequence: &S) -> Result<<S::Item as Summand>::Sum>
where
    S: Sequence,
    S::Item: Summand,
{
    let step = |sum, item: S::Item| S::Item::add(sum, item.to_sum());
    fold(job, sequence, S::Item::ZERO, step, S::Item::add)
}

/// Arithmetic mean of all items; `None` for an empty sequence.
///
/// # Errors
/// The errors of [`reduce`].
pub fn mean<S>(job: &Job, sequence: &S) -> Result<Option<f64>>
where
    S: Sequence,
    S::Item: Summand,
{
    let step =
        |(sum, count): (_, u64), item: S::Item| (S::Item::add(sum, item.to_sum()), count + 1);
    let combine = |a: (_, u64), b: (_, u64)| (S::Item::add(a.0, b.0), a.1 + b.1);
    let (sum, count) = fold(job, sequence, (S::Item::ZERO, 0), step, combine)?;
    Ok((count > 0).then(|| S::Item::sum_to_f64(sum) / count as f64))
}

/// The smallest item; NaN if any item is NaN; `None` for an empty sequence.
///
/// # Errors
/// The errors of [`reduce`].
pub fn min<S>(job: &Job, sequence: &S) -> Result<Option<S::Item>>
where
    S: Sequence,
    S::Item: Summand,
{
    best(job, sequence, S::Item::least)
}

/// The largest item; NaN if any item is NaN; `None` for an empty sequence.
///
/// # Errors
/// The errors of [`reduce`].
pub fn max<S>(job: &Job, sequence: &S) -> Result<Option<S::Item>>
where
    S: Sequence,
    S::Item: Summand,
{
    best(job, sequence, S::Item::greatest)
}

fn best<S>(
    job: &Job,
    sequence: &S,
    pick: impl Fn(S::Item, S::Item) -> S::Item + Sync,
) -> Result<Option<S::Item>>
where
    S: Sequence,
    S::Item: Copy + Sync,
{
    let step = |best: Option<S::Item>, item| Some(best.map_or(item, |best| pick(best, item)));
    let combine = |a: Option<S::Item>, b: Option<S::Item>| match (a, b) {
        (Some(a), Some(b)) => Some(pick(a, b)),
        (one, None) | (None, one) => one,
    };
    fold(job, sequence, None, step, combine)
}

/// Values of grains, combined in order within each segment as they arrive.
struct InOrder<R> {
    segments: Vec<Mutex<Folded<R>>>,
}

struct Folded<R> {
    next: u64,
    so_far: Option<R>,
    /// Early pieces, by number: at most as many as are in flight.
    waiting: Vec<(u64, Vec<R>)>,
}

impl<R> InOrder<R> {
    fn new(segments: usize) -> Self {
        let folded = || Folded {
            next: 0,
            so_far: None,
            waiting: Vec::new(),
        };
        InOrder {
            segments: (0..segments).map(|_| Mutex::new(folded())).collect(),
        }
    }

    fn add(&self, piece: &Piece, grains: Vec<R>, combine: impl Fn(R, R) -> R) {
        let folded = &self.segments[piece.segment];
        let mut folded = folded.lock().unwrap_or_else(PoisonError::into_inner);
        folded.waiting.push((piece.number, grains));
        loop {
            let next = folded.next;
            let found = folded
                .waiting
                .iter()
                .position(|(number, _)| *number == next);
            let Some(index) = found else {
                return;
            };
            let (_, grains) = folded.waiting.swap_remove(index);
            let so_far = folded.so_far.take();
            folded.so_far = so_far.into_iter().chain(grains).reduce(&combine);
            folded.next += 1;
        }
    }

    fn finish(self, combine: impl Fn(R, R) -> R) -> Option<R> {
        let segments = self.segments.into_iter();
        let found = segments.filter_map(|folded| {
            let folded = folded.into_inner();
            folded.unwrap_or_else(PoisonError::into_inner).so_far
        });
        found.reduce(combine)
    }
}

/// The folds of `stretches` equal stretches, except for the last stretch, which is not read; `None`
/// for an empty stretch.
pub(crate) fn fold_stretches<R: Send>(
    job: &Job,
    sources: &[Source],
    stretches: usize,
    grain: impl Fn(Batch<'_>) -> Result<R> + Sync,
    combine: &(impl Fn(R, R) -> R + Sync),
) -> Result<(Vec<Option<R>>, Summary)> {
    let pass = Pass::open(job, sources, Lanes::Stretches(stretches), Demand::default())?;
    pass.pieces.leave_out_last();
    let share_bytes = pass.pieces.sources.read_bytes() / stretches as u64;
    let read_bytes = share_bytes * (stretches as u64 - 1);
    pass.begin_reading("reduce", read_bytes.into(), Forecast::NOTHING);
    let found = fold_pass(&pass, || (), |(), batch| grain(batch), combine)?;
    let mut folds: Vec<Option<R>> = (0..stretches).map(|_| None).collect();
    for (segment, found) in found.segments.into_iter().enumerate() {
        let found = found.into_inner();
        let found = found.unwrap_or_else(PoisonError::into_inner).so_far;
        let fold = &mut folds[pass.pieces.sources.stretch_of(segment)];
        *fold = shield(|| Ok(fold.take().into_iter().chain(found).reduce(combine)))?;
    }
    Ok((folds, pass.summary(pass.count(), 0)))
}

/// Folds each grain of the sources with `grain` and combines the values from left to right; `None`
/// for an empty sequence. `space` makes a state of `space_bytes` per thread.
pub(crate) fn fold_grains<R: Send, T>(
    job: &Job,
    sources: &[Source],
    space_bytes: usize,
    space: impl Fn() -> T + Sync,
    grain: impl Fn(&mut T, Batch<'_>) -> Result<R> + Sync,
    combine: &(impl Fn(R, R) -> R + Sync),
) -> Result<(Option<R>, Summary)> {
    let demand = Demand {
        thread_bytes: space_bytes as u64,
        ..Demand::default()
    };
    let pass = Pass::open(job, sources, Lanes::Drives, demand)?;
    fold_open_pass(pass, space, grain, combine)
}

/// Like `fold_grains`, but on an open pass.
pub(crate) fn fold_open_pass<R: Send, T>(
    pass: Pass<'_>,
    space: impl Fn() -> T + Sync,
    grain: impl Fn(&mut T, Batch<'_>) -> Result<R> + Sync,
    combine: &(impl Fn(R, R) -> R + Sync),
) -> Result<(Option<R>, Summary)> {
    pass.begin_phase("reduce", Forecast::NOTHING);
    let found = fold_pass(&pass, space, grain, combine)?;
    let found = shield(|| Ok(found.finish(combine)))?;
    Ok((found, pass.summary(pass.count(), 0)))
}

fn fold_pass<R: Send, T>(
    pass: &Pass<'_>,
    space: impl Fn() -> T + Sync,
    grain: impl Fn(&mut T, Batch<'_>) -> Result<R> + Sync,
    combine: &(impl Fn(R, R) -> R + Sync),
) -> Result<InOrder<R>> {
    let found = InOrder::new(pass.pieces.sources.segment_count());
    let step = pass.pieces.sources.grain() as usize;
    pass.each_piece(
        || Ok(space()),
        |space, _, loaded| {
            let batch = loaded.batch();
            shield(|| {
                let starts = (0..batch.count).step_by(step);
                let grains = starts.map(|from| {
                    let part = batch.part(from, step.min(batch.count - from));
                    grain(space, part)
                });
                let grains = grains.collect::<Result<Vec<R>>>()?;
                found.add(&loaded.piece, grains, combine);
                Ok(())
            })
        },
        |_, _| Ok(()),
    )?;
    pass.check_sources()?;
    Ok(found)
}
