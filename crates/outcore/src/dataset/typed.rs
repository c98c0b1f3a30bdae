//! Datasets whose types are known at compile time: steps are closures, compiled together for a
//! batch.
//!
//! Contract: a [`TypedDataset`] is lazy like a [`Dataset`](super::Dataset). `map`, `filter` and
//! similar steps fuse into one loop over a batch ([`crate::primitives`]), without a call through a
//! pointer per item. `sort`, `merge`, `shuffle`, `scan` and `reverse` need all items: they write to
//! private scratch, or, as the last step, directly to the output. A consumer takes the dataset;
//! clone it to consume it twice.
//!
//! Functions may be called twice for an item (a `flat_map` whose results overflow their buffer),
//! and from several threads. Idempotent effects (setting a bit, inserting into a set) are allowed;
//! counting is not.
//!
//! Bounds: each pass is one read of its sources; memory is the context's, one pass at a time.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use bytemuck::Pod;

use super::context::Context;
use super::stages::{
    Behind, Enumerated, Filtered, FlatMapped, Mapped, Passes, Sortable, Stages, Windowed, Zipped,
};
use super::stream::stream;
use super::whole::{AtRandom, Backward, InOrder, Merged, Prefixes};
use crate::ends::Output;
use crate::key::RecordFormat;
use crate::primitives::Summary;
use crate::primitives::reduce::Summand;
use crate::primitives::{self, Inclusion};
use crate::sort::SortOptions;
use outcore_io::output::parent_of;
use outcore_io::{Error, Result};

/// Values and the steps on them; see the module.
#[derive(Clone)]
#[must_use = "nothing is read before a consumer asks"]
pub struct TypedDataset<P> {
    context: Context,
    stages: P,
}

/// A pass that is ready to read a dataset's items.
struct Settled<S> {
    passes: Passes,
    last: S,
}

impl<S> Settled<S> {
    /// Adds the summary of a consumer.
    fn done<T>(mut self, found: T, done: Summary) -> (T, Summary) {
        self.passes.add(done);
        (found, self.passes.done)
    }
}

impl<P: Stages> TypedDataset<P> {
    pub(super) fn new(context: &Context, stages: P) -> Self {
        TypedDataset {
            context: context.clone(),
            stages,
        }
    }

    pub(super) fn into_parts(self) -> (Context, P) {
        (self.context, self.stages)
    }

    fn with<Q: Stages>(self, stages: impl FnOnce(P) -> Q) -> TypedDataset<Q> {
        TypedDataset {
            context: self.context,
            stages: stages(self.stages),
        }
    }

    /// Applies `f` to each item.
    pub fn map<U: Send, F: Fn(P::Item) -> U + Sync>(self, f: F) -> TypedDataset<Mapped<P, F>> {
        self.with(|inner| Mapped { inner, f })
    }

    /// Keeps the items for which `keep` is true, in order.
    pub fn filter<F: Fn(&P::Item) -> bool + Sync>(self, keep: F) -> TypedDataset<Filtered<P, F>> {
        self.with(|inner| Filtered { inner, f: keep })
    }

    /// All results of `f` for each item, in order.
    pub fn flat_map<I, F>(self, f: F) -> TypedDataset<FlatMapped<P, F>>
    where
        I: IntoIterator,
        I::Item: Send,
        F: Fn(P::Item) -> I + Sync,
    {
        self.with(|inner| FlatMapped { inner, f })
    }

    /// Pairs with the items of `other` at the same positions; neither may have been filtered since
    /// it was last read.
    pub fn zip<Q: Stages>(self, other: TypedDataset<Q>) -> TypedDataset<Zipped<P, Q>> {
        let right = other.stages;
        self.with(|left| Zipped { left, right })
    }

    /// Pairs of position and item. The items must not have been filtered since they were last read;
    /// a `sort` after the filter, for example, reads them again.
    pub fn enumerate(self) -> TypedDataset<Enumerated<P>> {
        self.with(|inner| Enumerated { inner })
    }

    fn settled(self) -> Result<Settled<P::Last>> {
        let mut passes = Passes::new(&self.context, Path::new("."));
        let last = self.stages.settle(&mut passes)?;
        Ok(Settled { passes, last })
    }

    /// The passes that a consumer would make, one line each.
    pub fn explain(&self) -> String {
        let mut passes = Vec::new();
        self.stages.describe(&mut passes);
        passes.join("\n")
    }

    /// Folds all items into values of another type, and combines those with `combine`, from left to
    /// right. `identity` is neutral in both.
    ///
    /// # Errors
    /// The errors of the passes; [`crate::Kind::Usage`] for a function that panics.
    pub fn fold<R: Clone + Send + Sync>(
        self,
        identity: R,
        step: impl Fn(R, P::Item) -> R + Sync,
        combine: impl Fn(R, R) -> R + Sync,
    ) -> Result<R> {
        let settled = self.settled()?;
        let job = settled.passes.job();
        primitives::fold(&job, &settled.last, identity, step, combine)
    }

    /// Reduces all items with an associative operator, from left to right.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::fold`].
    pub fn reduce(
        self,
        identity: P::Item,
        op: impl Fn(P::Item, P::Item) -> P::Item + Sync,
    ) -> Result<P::Item>
    where
        P::Item: Clone + Sync,
    {
        self.fold(identity, &op, &op)
    }

    /// Number of items.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::fold`].
    pub fn count(self) -> Result<u64> {
        self.fold(0, |count, _| count + 1, |a, b| a + b)
    }

    /// The sum of all items: exact for integers, in `f64` for floats.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::fold`].
    pub fn sum(self) -> Result<<P::Item as Summand>::Sum>
    where
        P::Item: Summand,
    {
        let settled = self.settled()?;
        primitives::sum(&settled.passes.job(), &settled.last)
    }

    /// The smallest item; NaN if any item is NaN.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::fold`].
    pub fn min(self) -> Result<Option<P::Item>>
    where
        P::Item: Summand,
    {
        let settled = self.settled()?;
        primitives::min(&settled.passes.job(), &settled.last)
    }

    /// The largest item; NaN if any item is NaN.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::fold`].
    pub fn max(self) -> Result<Option<P::Item>>
    where
        P::Item: Summand,
    {
        let settled = self.settled()?;
        primitives::max(&settled.passes.job(), &settled.last)
    }

    /// All items in memory, in order.
    ///
    /// # Errors
    /// [`crate::Kind::Memory`] if they do not fit; the errors of [`TypedDataset::fold`].
    pub fn collect(self) -> Result<Vec<P::Item>>
    where
        P::Item: Clone + Sync,
    {
        let settled = self.settled()?;
        primitives::collect(&settled.passes.job(), &settled.last)
    }

    /// The first item.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::fold`].
    pub fn first(self) -> Result<Option<P::Item>> {
        let settled = self.settled()?;
        Ok(primitives::first(&settled.passes.job(), &settled.last)?.0)
    }

    /// The `k` largest items by `compare`, largest first.
    ///
    /// # Errors
    /// The errors of [`primitives::top_k`].
    pub fn top_k(
        self,
        k: usize,
        compare: impl Fn(&P::Item, &P::Item) -> Ordering + Sync,
    ) -> Result<Vec<P::Item>>
    where
        P::Item: Clone + Sync,
    {
        let settled = self.settled()?;
        Ok(primitives::top_k(&settled.passes.job(), &settled.last, k, compare)?.0)
    }

    /// Passes batches of items to `visit`, with a state per thread; see
    /// [`primitives::for_each_batch`].
    ///
    /// # Errors
    /// The errors of that function.
    pub fn for_each_batch<T: Send>(
        self,
        state_bytes: usize,
        make: impl Fn() -> T + Sync,
        visit: impl Fn(&mut T, u64, &[P::Item]) -> Result<()> + Sync,
    ) -> Result<(Vec<T>, Summary)> {
        let settled = self.settled()?;
        let job = settled.passes.job();
        let (found, done) =
            primitives::for_each_batch(&job, &settled.last, state_bytes, make, visit)?;
        Ok(settled.done(found, done))
    }
}

impl<P, V> TypedDataset<P>
where
    P: Stages<Item = (usize, V)>,
    V: Copy + Send + Sync,
{
    /// Reduces the values of each index below `count`; see [`primitives::reduce_by_index`].
    ///
    /// # Errors
    /// The errors of that function.
    pub fn reduce_by_index(
        self,
        count: usize,
        identity: V,
        op: impl Fn(V, V) -> V + Sync,
    ) -> Result<Vec<V>> {
        let settled = self.settled()?;
        let job = settled.passes.job();
        Ok(primitives::reduce_by_index(&job, &settled.last, count, identity, op)?.0)
    }
}

impl<P: Stages<Item = usize>> TypedDataset<P> {
    /// Counts the occurrences of each index below `count`.
    ///
    /// # Errors
    /// The errors of [`primitives::histogram_by_index`].
    pub fn histogram_by_index(self, count: usize) -> Result<Vec<u64>> {
        let settled = self.settled()?;
        let job = settled.passes.job();
        Ok(primitives::histogram_by_index(&job, settled.last, count)?.0)
    }
}

impl<P: Stages> TypedDataset<P>
where
    P::Item: Pod,
{
    /// All items in order: numbers by value, arrays element by element.
    pub fn sort(self) -> TypedDataset<Behind<P, InOrder>>
    where
        P::Item: Sortable,
    {
        self.sort_with(SortOptions::default())
    }

    /// Like [`TypedDataset::sort`], with options: the largest first, one item per key.
    pub fn sort_with(self, options: SortOptions) -> TypedDataset<Behind<P, InOrder>>
    where
        P::Item: Sortable,
    {
        let whole = InOrder::of::<P::Item>(options);
        self.with(|inner| Behind { inner, whole })
    }

    /// All items in the order of the keys of `format`, whose record length must equal the item
    /// length.
    pub fn sort_by(
        self,
        format: &RecordFormat,
        options: SortOptions,
    ) -> TypedDataset<Behind<P, InOrder>> {
        let whole = InOrder::by(format.clone(), options);
        self.with(|inner| Behind { inner, whole })
    }

    /// Merges files that are each in order already: one read and one write, where a sort takes two
    /// of each. The merge must precede all other steps except for those that need all items. The
    /// result goes to one file. An input file that is not in order is an error.
    pub fn merge(self) -> TypedDataset<Behind<P, Merged>>
    where
        P::Item: Sortable,
    {
        let whole = Merged(InOrder::of::<P::Item>(SortOptions::default()));
        self.with(|inner| Behind { inner, whole })
    }

    /// Like [`TypedDataset::merge`], but in the order of the keys of `format`, whose record length
    /// must equal the item length, or in descending order.
    pub fn merge_by(
        self,
        format: &RecordFormat,
        options: SortOptions,
    ) -> TypedDataset<Behind<P, Merged>> {
        let whole = Merged(InOrder::by(format.clone(), options));
        self.with(|inner| Behind { inner, whole })
    }

    /// Each distinct item once, in order.
    pub fn unique(self) -> TypedDataset<Behind<P, InOrder>>
    where
        P::Item: Sortable,
    {
        self.sort_with(SortOptions {
            unique: true,
            ..SortOptions::default()
        })
    }

    /// All items in a random order that depends only on `seed`.
    pub fn shuffle(self, seed: u64) -> TypedDataset<Behind<P, AtRandom>> {
        let whole = AtRandom { seed, epoch: 0 };
        self.with(|inner| Behind { inner, whole })
    }

    /// The last item first.
    pub fn reverse(self) -> TypedDataset<Behind<P, Backward>> {
        self.with(|inner| Behind {
            inner,
            whole: Backward,
        })
    }

    /// Prefixes of the items under an associative operator: each item reduced with all before it,
    /// or, if exclusive, only those before it.
    pub fn scan<F: Fn(P::Item, P::Item) -> P::Item + Sync>(
        self,
        identity: P::Item,
        op: F,
        inclusion: Inclusion,
    ) -> TypedDataset<Behind<P, Prefixes<P::Item, F>>>
    where
        P::Item: Sync,
    {
        let whole = Prefixes {
            identity,
            op,
            inclusion,
        };
        self.with(|inner| Behind { inner, whole })
    }

    /// The windows of `K` consecutive items; see [`primitives::windows`].
    pub fn windows<const K: usize>(self) -> TypedDataset<Windowed<P, K>> {
        self.with(|inner| Windowed { inner })
    }

    /// Calls `each` with all items, some at a time, in order, while the last step produces them.
    /// There is no file between a sort and its reader.
    ///
    /// # Errors
    /// The errors of `each` and of the passes.
    pub fn for_each_in_order(
        self,
        mut each: impl FnMut(&[P::Item]) -> Result<()>,
    ) -> Result<Summary>
    where
        P: Send,
    {
        let job = self.context.job();
        let item_bytes = size_of::<P::Item>();
        let mut items: Vec<P::Item> = Vec::new();
        let mut front: Vec<u8> = Vec::new();
        stream(
            &job,
            move |output| self.write_to(output, false),
            |bytes| {
                front.extend_from_slice(bytes);
                let whole = front.len() / item_bytes * item_bytes;
                items.clear();
                items.extend(bytemuck::pod_collect_to_vec::<u8, P::Item>(&front[..whole]));
                front.drain(..whole);
                each(&items)
            },
        )
    }

    /// Writes all items to a file that must not exist.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an existing file; the errors of the passes. No output remains
    /// then.
    pub fn write(self, path: impl AsRef<Path>) -> Result<Summary> {
        self.write_file(path.as_ref(), false)
    }

    /// Writes all items to a file, replacing an existing one.
    ///
    /// # Errors
    /// The errors of the passes; the file is then unchanged.
    pub fn write_over(self, path: impl AsRef<Path>) -> Result<Summary> {
        self.write_file(path.as_ref(), true)
    }

    fn write_file(self, path: &Path, replace: bool) -> Result<Summary> {
        if path.extension().is_some_and(|end| end == "npy") {
            let cause = "raw values have no header, but a .npy file needs one";
            return Err(Error::usage("create output", cause)
                .path(path)
                .hint("use `write_to` with an `Output` that makes the header"));
        }
        let output = Output::File {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
            header: None,
        };
        self.write_to(output, replace)
    }

    /// Writes all items to any output: a file with a header, shards, a pipe.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::write`].
    pub fn write_to(self, output: Output, replace: bool) -> Result<Summary> {
        let beside = match &output {
            Output::File { path, .. } => parent_of(path).to_path_buf(),
            Output::Shards { paths, .. } => match paths.first() {
                Some(path) => parent_of(path).to_path_buf(),
                None => PathBuf::from("."),
            },
            Output::Pipe(_) => PathBuf::from("."),
        };
        let mut passes = Passes::new(&self.context, &beside);
        let done = self.stages.write_to(&mut passes, output, replace)?;
        passes.add(done);
        Ok(passes.done)
    }
}
