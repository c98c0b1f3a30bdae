//! Lazy sequences: a source of items and the steps on each item, until a consumer runs.
//!
//! Contract (PALID, SPAA 2025, section 4: map, filter, reduce, scan; the names are those of
//! ParlayLib, Blelloch, Anderson, Dhulipala, SPAA 2020): a [`Sequence`] is a description; nothing
//! is read before a consumer runs. The steps between source and consumer are one loop over a batch,
//! compiled together, without an intermediate array. Functions are called from several threads, so
//! they are `Fn + Sync`. They may be called twice for an item (a `flat_map` whose results overflow
//! their buffer). Idempotent effects are allowed, such as setting a bit of an atomic bitmap or
//! storing the same value again; counting is not.
//!
//! Bounds: no memory of its own and no I/O.

use bytemuck::Pod;

use crate::ends::Input;
use outcore_io::Result;

/// Largest number of sources that one sequence may zip.
pub(crate) const SOURCES_MAX: usize = 8;

/// One source of a sequence, before it is opened.
#[derive(Debug, Clone)]
pub struct Source {
    /// Files in order; empty for a generated sequence.
    pub inputs: Vec<Input>,
    /// Bytes of an element in the files; 0 for a generated sequence.
    pub element_bytes: usize,
    /// Memory alignment of the source's elements.
    pub align_bytes: usize,
    /// Number of elements, for a generated sequence.
    pub count: u64,
}

impl Source {
    /// A generated source of `count` positions, for which nothing is read.
    pub fn generated(count: u64) -> Self {
        Source {
            inputs: Vec::new(),
            element_bytes: 0,
            align_bytes: 1,
            count,
        }
    }
}

/// Number of items per position of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Yield {
    /// Exactly one.
    One,
    /// One or none.
    AtMostOne,
    /// Any number.
    Any,
}

/// Elements of all sources at consecutive positions.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'b> {
    /// Position of the batch's first element in the whole sequence.
    pub first: u64,
    /// Number of positions.
    pub count: usize,
    /// Whether the batch is read for a sample: adjacent batches may be missing, and the batch is
    /// read again when all items are produced.
    pub is_sample: bool,
    slices: [&'b [u8]; SOURCES_MAX],
}

impl<'b> Batch<'b> {
    /// A batch of `count` positions that start at `first`; `slices` are the elements of each
    /// source.
    pub fn new(first: u64, count: usize, slices: &[&'b [u8]]) -> Self {
        let mut all: [&[u8]; SOURCES_MAX] = [&[]; SOURCES_MAX];
        for (place, slice) in all.iter_mut().zip(slices) {
            *place = slice;
        }
        Batch {
            first,
            count,
            is_sample: false,
            slices: all,
        }
    }

    /// The bytes of the source with this index.
    pub fn bytes(&self, source: usize) -> &'b [u8] {
        self.slices[source]
    }

    /// This batch without its first `count` sources.
    fn skip_sources(mut self, count: usize) -> Self {
        self.slices.rotate_left(count);
        self
    }

    /// `count` positions that start at `from`.
    pub fn part(&self, from: usize, count: usize) -> Self {
        let mut slices = self.slices;
        for slice in &mut slices {
            let element_bytes = slice.len() / self.count.max(1);
            *slice = &slice[from * element_bytes..(from + count) * element_bytes];
        }
        Batch {
            first: self.first + from as u64,
            count,
            slices,
            ..*self
        }
    }
}

/// A custom step of the caller, on whole batches.
pub trait BatchStep: Send + Sync {
    /// The result for the `count` items in `items`. `first` is the input position of the first one,
    /// if nothing was filtered before. The result consists of whole items of the step's type. The
    /// step's [`Yield`] says how many: as many as `items`, at most as many, or any number.
    ///
    /// # Errors
    /// The errors of the caller's code; the job fails with them.
    fn run(&self, first: u64, items: &[u8]) -> Result<Vec<u8>>;
}

/// A lazy sequence of items; see the module for the guarantees of its methods.
///
/// Consumers (`reduce`, `write`, ...) are separate functions: see [`super`].
pub trait Sequence: Sync + Sized {
    /// The type of the sequence's items.
    type Item: Send;

    /// Number of items per position of the sources.
    const YIELD: Yield;

    /// Appends the sources of this sequence, in order.
    fn sources(&self, into: &mut Vec<Source>);

    /// Number of sources of this sequence.
    fn source_count(&self) -> usize;

    /// The items of a batch, in order.
    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = Self::Item>;

    /// Applies `f` to each item.
    fn map<U: Send, F: Fn(Self::Item) -> U + Sync>(self, f: F) -> Map<Self, F> {
        Map { inner: self, f }
    }

    /// Keeps the items for which `keep` is true, in order.
    fn filter<F: Fn(&Self::Item) -> bool + Sync>(self, keep: F) -> Filter<Self, F> {
        Filter { inner: self, keep }
    }

    /// All results of `f` for each item, in order.
    fn flat_map<I, F>(self, f: F) -> FlatMap<Self, F>
    where
        I: IntoIterator,
        I::Item: Send,
        F: Fn(Self::Item) -> I + Sync,
    {
        FlatMap { inner: self, f }
    }

    /// Pairs with the items of `other` at the same positions. Both must be equally long, which is
    /// checked at run time, and neither may be filtered, which is checked at compile time.
    fn zip<S: Sequence>(self, other: S) -> Zip<Self, S> {
        const {
            assert!(
                matches!((Self::YIELD, S::YIELD), (Yield::One, Yield::One)),
                "only sequences with an item at each position can be zipped"
            );
        }
        Zip { a: self, b: other }
    }

    /// Pairs of an item and its position, from 0. Only for unfiltered sequences, which is checked
    /// at compile time.
    fn enumerate(self) -> Enumerate<Self> {
        const {
            assert!(
                matches!(Self::YIELD, Yield::One),
                "only sequences with an item at each position can be enumerated"
            );
        }
        Enumerate { inner: self }
    }
}

/// Numbers or records in files.
#[derive(Debug, Clone)]
pub struct Files<T> {
    inputs: Vec<Input>,
    item: std::marker::PhantomData<fn() -> T>,
}

/// The elements of `inputs`, in order, as values of type `T` (always little-endian).
pub fn read<T: Pod + Send>(inputs: &[Input]) -> Files<T> {
    Files {
        inputs: inputs.to_vec(),
        item: std::marker::PhantomData,
    }
}

impl<T: Pod + Send> Sequence for Files<T> {
    type Item = T;
    const YIELD: Yield = Yield::One;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source {
            inputs: self.inputs.clone(),
            element_bytes: size_of::<T>(),
            align_bytes: align_of::<T>(),
            count: 0,
        });
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = T> {
        bytemuck::cast_slice::<u8, T>(batch.bytes(0))
            .iter()
            .copied()
    }
}

/// A generated sequence.
#[derive(Debug, Clone)]
pub struct Tabulate<F> {
    count: u64,
    f: F,
}

/// `f(0)` to `f(count - 1)`, computed when needed.
pub fn tabulate<T: Send, F: Fn(u64) -> T + Sync>(count: u64, f: F) -> Tabulate<F> {
    Tabulate { count, f }
}

impl<T: Send, F: Fn(u64) -> T + Sync> Sequence for Tabulate<F> {
    type Item = T;
    const YIELD: Yield = Yield::One;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source::generated(self.count));
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = T> {
        (0..batch.count as u64).map(move |offset| (self.f)(batch.first + offset))
    }
}

/// See [`Sequence::map`].
#[derive(Debug, Clone)]
pub struct Map<S, F> {
    inner: S,
    f: F,
}

impl<S: Sequence, U: Send, F: Fn(S::Item) -> U + Sync> Sequence for Map<S, F> {
    type Item = U;
    const YIELD: Yield = S::YIELD;

    fn sources(&self, into: &mut Vec<Source>) {
        self.inner.sources(into);
    }

    fn source_count(&self) -> usize {
        self.inner.source_count()
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = U> {
        self.inner.iter(batch).map(&self.f)
    }
}

/// See [`Sequence::filter`].
#[derive(Debug, Clone)]
pub struct Filter<S, F> {
    inner: S,
    keep: F,
}

impl<S: Sequence, F: Fn(&S::Item) -> bool + Sync> Sequence for Filter<S, F> {
    type Item = S::Item;
    const YIELD: Yield = match S::YIELD {
        Yield::Any => Yield::Any,
        _ => Yield::AtMostOne,
    };

    fn sources(&self, into: &mut Vec<Source>) {
        self.inner.sources(into);
    }

    fn source_count(&self) -> usize {
        self.inner.source_count()
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = S::Item> {
        self.inner.iter(batch).filter(&self.keep)
    }
}

/// See [`Sequence::flat_map`].
#[derive(Debug, Clone)]
pub struct FlatMap<S, F> {
    inner: S,
    f: F,
}

impl<S, I, F> Sequence for FlatMap<S, F>
where
    S: Sequence,
    I: IntoIterator,
    I::Item: Send,
    F: Fn(S::Item) -> I + Sync,
{
    type Item = I::Item;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        self.inner.sources(into);
    }

    fn source_count(&self) -> usize {
        self.inner.source_count()
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = I::Item> {
        self.inner.iter(batch).flat_map(|item| (self.f)(item))
    }
}

/// See [`Sequence::zip`].
#[derive(Debug, Clone)]
pub struct Zip<A, B> {
    a: A,
    b: B,
}

impl<A: Sequence, B: Sequence> Sequence for Zip<A, B> {
    type Item = (A::Item, B::Item);
    const YIELD: Yield = Yield::One;

    fn sources(&self, into: &mut Vec<Source>) {
        self.a.sources(into);
        self.b.sources(into);
    }

    fn source_count(&self) -> usize {
        self.a.source_count() + self.b.source_count()
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = Self::Item> {
        let behind = batch.skip_sources(self.a.source_count());
        self.a.iter(batch).zip(self.b.iter(behind))
    }
}

/// See [`Sequence::enumerate`].
#[derive(Debug, Clone)]
pub struct Enumerate<S> {
    inner: S,
}

impl<S: Sequence> Sequence for Enumerate<S> {
    type Item = (u64, S::Item);
    const YIELD: Yield = S::YIELD;

    fn sources(&self, into: &mut Vec<Source>) {
        self.inner.sources(into);
    }

    fn source_count(&self) -> usize {
        self.inner.source_count()
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = Self::Item> {
        (batch.first..).zip(self.inner.iter(batch))
    }
}
