//! Consecutive items with one key: `segmented_reduce`, and, after a sort, `reduce_by_key` and
//! `group_by_key`.
//!
//! Contract (ParlayLib, Blelloch, Anderson, Dhulipala, SPAA 2020: `reduce_by_key`, `group_by_key`;
//! the sort is that of [`sort`](mod@crate::sort)): [`segmented_reduce`] combines each run of equal
//! consecutive items from left to right. [`reduce_by_key`] and [`group_by_key`] first sort the
//! items by a format, whose keys define the groups. The results are in that order, and their bytes
//! depend only on the items.
//!
//! Bounds: `segmented_reduce` is one read and one write. By key, the items are also written, sorted
//! and read once. Memory is that of the sort, and for `group_by_key` the largest group.

use bytemuck::Pod;

use super::batch::{Sequence, read};
use super::group::{again, sort_items};
use super::ordered::{InOrder, append_in_order, visit_in_order};
use super::producer::Typed;
use super::summary::Summary;
use crate::ends::{Output, make_dir};
use crate::job::Job;
use crate::key::order::{Order, OrderOptions};
use crate::key::record::RecordFormat;
use crate::key::sort_key::Tie;
use outcore_io::memory::Reservation;
use outcore_io::{Error, Result};

/// Writes one item for each run of consecutive items for which `same` is true: the items of the
/// run, combined from left to right.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use outcore::primitives::{collect, read, segmented_reduce, tabulate};
/// use outcore::{Input, Output};
/// use outcore::IoMode;
/// use outcore::job::{Job, JobOptions};
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("sums.bin");
/// let output = Output::File { path: path.clone(), header: None };
/// let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
/// let job = Job::new(limits, IoMode::Auto);
/// let pairs = tabulate(9, |i| [i / 3, i]);
/// let sum = |a: [u64; 2], b: [u64; 2]| [a[0], a[1] + b[1]];
/// segmented_reduce(&job, &pairs, |a, b| a[0] == b[0], sum, &output, false)?;
/// let sums = collect(&job, &read::<[u64; 2]>(&[Input::raw(&path)]))?;
/// assert_eq!(sums, [[0, 3], [1, 12], [2, 21]]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of [`write`](super::write()).
pub fn segmented_reduce<S>(
    job: &Job,
    sequence: &S,
    same: impl Fn(&S::Item, &S::Item) -> bool,
    combine: impl Fn(S::Item, S::Item) -> S::Item,
    output: &Output,
    replace: bool,
) -> Result<Summary>
where
    S: Sequence,
    S::Item: Pod,
{
    let mut segments = Segments {
        same,
        combine,
        current: None,
    };
    append_in_order(
        job,
        &Typed(sequence),
        output,
        replace,
        "reduce segments",
        size_of::<S::Item>(),
        &mut segments,
    )
}

struct Segments<T, F, G> {
    same: F,
    combine: G,
    current: Option<T>,
}

impl<T, F, G> InOrder for Segments<T, F, G>
where
    T: Pod,
    F: Fn(&T, &T) -> bool,
    G: Fn(T, T) -> T,
{
    fn visit(&mut self, items: &[u8], results: &mut Vec<u8>) -> Result<()> {
        let items: &[T] = bytemuck::cast_slice(items);
        for item in items {
            self.current = Some(match self.current.take() {
                Some(before) if (self.same)(&before, item) => (self.combine)(before, *item),
                Some(before) => {
                    results.extend_from_slice(bytemuck::bytes_of(&before));
                    *item
                }
                None => *item,
            });
        }
        Ok(())
    }

    fn end(&mut self, results: &mut Vec<u8>) -> Result<()> {
        if let Some(last) = self.current.take() {
            results.extend_from_slice(bytemuck::bytes_of(&last));
        }
        Ok(())
    }
}

/// The order of items of type `T` by `format`, whose record length must equal the item length.
fn order_of<T>(format: &RecordFormat) -> Result<Order> {
    let item_bytes = size_of::<T>();
    if format.record_bytes() != item_bytes {
        let cause = format!("items of {item_bytes} bytes are not a {format}");
        return Err(Error::usage("group", cause).hint("give the format of the items"));
    }
    let options = OrderOptions {
        descending: false,
        tie: Tie::Bytes,
    };
    Ok(Order::new(format, options))
}

/// Writes one item for each key of `format`, in order: the items of the key, combined in the order
/// of their bytes.
///
/// `combine` must be associative and keep the key. For counts and sums by keys that fit in memory,
/// [`reduce_by_index`](super::reduce_by_index()) needs no sort.
///
/// # Errors
/// [`crate::Kind::Usage`] for a format of another size; the errors of [`sort`](crate::sort::sort)
/// and [`write`](super::write()).
pub fn reduce_by_key<S>(
    job: &Job,
    sequence: &S,
    format: &RecordFormat,
    combine: impl Fn(S::Item, S::Item) -> S::Item,
    output: &Output,
    replace: bool,
) -> Result<Summary>
where
    S: Sequence,
    S::Item: Pod + Send,
{
    let order = order_of::<S::Item>(format)?;
    let dir = make_dir(job, output)?;
    let (sorted, before) = sort_items(job, &Typed(sequence), format, false, &dir)?;
    let same = |a: &S::Item, b: &S::Item| {
        let (a, b) = (bytemuck::bytes_of(a), bytemuck::bytes_of(b));
        order.compare_keys(a, b).is_eq()
    };
    let sorted = read::<S::Item>(&[sorted]);
    let reduced = segmented_reduce(&again(job), &sorted, same, combine, output, replace)?;
    Ok(before.and(reduced))
}

/// Calls `each` with all items of a key of `format`, key by key in order; the items of one key are
/// in the order of their bytes. Scratch goes to the first drive of the job, or the current
/// directory.
///
/// # Errors
/// [`crate::Kind::Memory`] for a group that does not fit in memory; the errors of `each` and of
/// [`reduce_by_key`].
pub fn group_by_key<S>(
    job: &Job,
    sequence: &S,
    format: &RecordFormat,
    mut each: impl FnMut(&[S::Item]) -> Result<()>,
) -> Result<Summary>
where
    S: Sequence,
    S::Item: Pod + Send,
{
    let order = order_of::<S::Item>(format)?;
    let nowhere = Output::Pipe(std::sync::Mutex::new(Box::new(std::io::sink())));
    let dir = make_dir(job, &nowhere)?;
    let (sorted, before) = sort_items(job, &Typed(sequence), format, false, &dir)?;
    let job = &again(job);
    let mut group: Vec<S::Item> = Vec::new();
    let mut held: Vec<Reservation> = Vec::new();
    let sorted = read::<S::Item>(&[sorted]);
    let mut count = 0;
    let visited = visit_in_order(job, &Typed(&sorted), "group", &mut |items| {
        let items: &[S::Item] = bytemuck::cast_slice(items);
        for item in items {
            let is_next = group.first().is_some_and(|first| {
                let (a, b) = (bytemuck::bytes_of(first), bytemuck::bytes_of(item));
                order.compare_keys(a, b).is_ne()
            });
            if is_next {
                each(&group)?;
                count += 1;
                group.clear();
            }
            if group.len() == group.capacity() {
                let more = group.len().max(64);
                let bytes = (more * size_of::<S::Item>()) as u64;
                held.push(job.budget.reserve("a group", bytes)?);
                group.reserve_exact(more);
            }
            group.push(*item);
        }
        Ok(())
    })?;
    if !group.is_empty() {
        super::pass::shield(|| each(&group))?;
        count += 1;
    }
    let summary = before.and(visited);
    Ok(Summary {
        records: count,
        ..summary
    })
}
