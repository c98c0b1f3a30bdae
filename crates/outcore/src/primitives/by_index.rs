//! Batch-by-batch consumers with a state per thread, and reductions by index.
//!
//! Contract (ParlayLib, Blelloch, Anderson, Dhulipala, SPAA 2020: `reduce_by_index`,
//! `histogram_by_index`): [`for_each_batch`] makes a state for each thread, passes it batches of
//! items and returns the states. [`reduce_by_index`] reduces the values of each index. Threads work
//! in no fixed order, so the operator must be commutative as well as associative.
//!
//! Bounds: one read of the sources. One table per thread if half of the memory holds them all;
//! otherwise one shared table, in stripes that are locked for about 1,000 values at a time.

use std::sync::{Mutex, PoisonError};

use super::batch::{Sequence, Source};
use super::pass::{Demand, Pass, shield};
use super::pieces::Lanes;
use super::select::no_bin;
use super::summary::Summary;
use crate::forecast::Forecast;
use crate::job::Job;
use outcore_io::{Kind, Result};

/// Items that are passed on at once.
const BATCH_ITEMS: usize = 1024;
/// Stripes of a shared table, and values that wait for a stripe.
const STRIPES: usize = 64;
const STRIPE_VALUES: usize = 1024;

fn sources_of<S: Sequence>(sequence: &S) -> Vec<Source> {
    let mut sources = Vec::new();
    sequence.sources(&mut sources);
    sources
}

/// Passes all items, some at a time, to `visit`, with the thread's state from `make` and the
/// position of the first item (or of its source, if items are filtered). Returns the states. One
/// state uses `state_bytes` of the job's memory.
///
/// `visit` sees each item once; batches arrive in no fixed order.
///
/// ```
/// # fn main() -> outcore::Result<()> {
/// use outcore::primitives::{for_each_batch, tabulate};
/// use outcore::IoMode;
/// use outcore::job::{Job, JobOptions};
///
/// let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
/// let job = Job::new(limits, IoMode::Auto);
/// let numbers = tabulate(100_000, |i| i);
/// let visit = |largest: &mut u64, _: u64, batch: &[u64]| {
///     *largest = batch.iter().fold(*largest, |a, b| a.max(*b));
///     Ok(())
/// };
/// let (largest, _) = for_each_batch(&job, &numbers, 8, || 0, visit)?;
/// assert_eq!(largest.into_iter().max(), Some(99_999));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of `visit` and of [`reduce`](super::reduce()).
pub fn for_each_batch<S: Sequence, T: Send>(
    job: &Job,
    sequence: &S,
    state_bytes: usize,
    make: impl Fn() -> T + Sync,
    visit: impl Fn(&mut T, u64, &[S::Item]) -> Result<()> + Sync,
) -> Result<(Vec<T>, Summary)> {
    let batch_bytes = BATCH_ITEMS * size_of::<S::Item>();
    let demand = Demand {
        thread_bytes: (state_bytes + batch_bytes) as u64,
        ..Demand::default()
    };
    run(job, sequence, demand, make, visit)
}

fn run<S: Sequence, T: Send>(
    job: &Job,
    sequence: &S,
    demand: Demand,
    make: impl Fn() -> T + Sync,
    visit: impl Fn(&mut T, u64, &[S::Item]) -> Result<()> + Sync,
) -> Result<(Vec<T>, Summary)> {
    let pass = Pass::open(job, &sources_of(sequence), Lanes::Drives, demand)?;
    pass.begin_phase("visit", Forecast::NOTHING);
    let states = Mutex::new(Vec::new());
    pass.each_piece(
        || shield(|| Ok((make(), Vec::with_capacity(BATCH_ITEMS)))),
        |(state, items), _, loaded| {
            shield(|| {
                let batch = loaded.batch();
                for from in (0..batch.count).step_by(BATCH_ITEMS) {
                    let part = batch.part(from, BATCH_ITEMS.min(batch.count - from));
                    let mut made = sequence.iter(part);
                    loop {
                        // One position may yield any number of items.
                        items.extend(made.by_ref().take(BATCH_ITEMS));
                        if items.is_empty() {
                            break;
                        }
                        visit(state, part.first, items)?;
                        items.clear();
                    }
                }
                Ok(())
            })
        },
        |(state, _), _| {
            let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
            states.push(state);
            Ok(())
        },
    )?;
    pass.check_sources()?;
    let states = states.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((states, pass.summary(pass.count(), 0)))
}

/// The values of each index from 0 to `count - 1`, reduced with `op` from `identity`. The items are
/// pairs of index and value.
///
/// `op` must be associative and commutative.
///
/// ```
/// # fn main() -> outcore::Result<()> {
/// use outcore::primitives::{reduce_by_index, tabulate};
/// use outcore::IoMode;
/// use outcore::job::{Job, JobOptions};
///
/// let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
/// let job = Job::new(limits, IoMode::Auto);
/// let pairs = tabulate(10, |i| (i as usize % 3, i));
/// let (sums, _) = reduce_by_index(&job, &pairs, 3, 0, |a, b| a + b)?;
/// assert_eq!(sums, [18, 12, 15]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Kind::Usage`] for an index that is too large; [`Kind::Memory`] if the table does not fit
/// ([`reduce_by_key`](super::reduce_by_key()) needs no table); the errors of
/// [`reduce`](super::reduce()).
pub fn reduce_by_index<S, V>(
    job: &Job,
    sequence: &S,
    count: usize,
    identity: V,
    op: impl Fn(V, V) -> V + Sync,
) -> Result<(Vec<V>, Summary)>
where
    S: Sequence<Item = (usize, V)>,
    V: Copy + Send + Sync,
{
    let table_bytes = (count * size_of::<V>()) as u64;
    let batch_bytes = (BATCH_ITEMS * size_of::<(usize, V)>()) as u64;
    let threads = job.options.threads.max(1) as u64;
    let is_split = table_bytes.saturating_mul(threads + 1) <= job.budget.free_bytes() / 2;
    if !is_split {
        return shared_table(job, sequence, count, identity, op);
    }
    let demand = Demand {
        thread_bytes: table_bytes + batch_bytes,
        fixed_bytes: table_bytes,
        ..Demand::default()
    };
    let visit = |table: &mut Vec<V>, _: u64, pairs: &[(usize, V)]| {
        for (index, value) in pairs {
            let place = table.get_mut(*index);
            let place = place.ok_or_else(|| no_bin(*index, count))?;
            *place = op(*place, *value);
        }
        Ok(())
    };
    let (tables, done) = run(job, sequence, demand, || vec![identity; count], visit)?;
    let mut tables = tables.into_iter();
    let mut sums = tables.next().unwrap_or_else(|| vec![identity; count]);
    shield(|| {
        for table in tables {
            for (sum, value) in sums.iter_mut().zip(table) {
                *sum = op(*sum, value);
            }
        }
        Ok(())
    })?;
    Ok((sums, done))
}

/// One table for all threads, in stripes.
fn shared_table<S, V>(
    job: &Job,
    sequence: &S,
    count: usize,
    identity: V,
    op: impl Fn(V, V) -> V + Sync,
) -> Result<(Vec<V>, Summary)>
where
    S: Sequence<Item = (usize, V)>,
    V: Copy + Send + Sync,
{
    let pair_bytes = size_of::<(usize, V)>();
    let demand = Demand {
        thread_bytes: ((BATCH_ITEMS + STRIPES * STRIPE_VALUES) * pair_bytes) as u64,
        fixed_bytes: (count * size_of::<V>()) as u64,
        ..Demand::default()
    };
    // Checked before the table is made.
    drop(
        Pass::open(job, &sources_of(sequence), Lanes::Drives, demand).map_err(
            |error| match error.kind() {
                Kind::Memory => error.hint("allow more memory, or use reduce_by_key"),
                _ => error,
            },
        )?,
    );
    let mut table = vec![identity; count];
    let stripe = count.div_ceil(STRIPES).max(1);
    let stripes: Vec<Mutex<&mut [V]>> = table.chunks_mut(stripe).map(Mutex::new).collect();
    let put = |number: usize, waiting: &mut Vec<(usize, V)>| {
        let mut places = stripes[number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (index, value) in waiting.drain(..) {
            let place = &mut places[index % stripe];
            *place = op(*place, value);
        }
    };
    let visit = |waiting: &mut Vec<Vec<(usize, V)>>, _: u64, pairs: &[(usize, V)]| {
        for pair in pairs {
            let stripe = pair.0 / stripe;
            let values = waiting.get_mut(stripe).filter(|_| pair.0 < count);
            let values = values.ok_or_else(|| no_bin(pair.0, count))?;
            values.push(*pair);
            if values.len() == STRIPE_VALUES {
                put(stripe, values);
            }
        }
        Ok(())
    };
    let make = || vec![Vec::with_capacity(STRIPE_VALUES); stripes.len()];
    let (waiting, done) = run(job, sequence, demand, make, visit)?;
    shield(|| {
        for mut stripes in waiting {
            for (number, values) in stripes.iter_mut().enumerate() {
                put(number, values);
            }
        }
        Ok(())
    })?;
    drop(stripes);
    Ok((table, done))
}

/// Counts the occurrences of each index from 0 to `count - 1`.
///
/// # Errors
/// The errors of [`reduce_by_index`].
pub fn histogram_by_index<S>(job: &Job, sequence: S, count: usize) -> Result<(Vec<u64>, Summary)>
where
    S: Sequence<Item = usize>,
{
    let ones = sequence.map(|index| (index, 1));
    reduce_by_index(job, &ones, count, 0, |a, b| a + b)
}
