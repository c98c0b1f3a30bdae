//! The parts of typed datasets: sources and steps, one type each.
//!
//! Contract: programs use the methods of [`TypedDataset`](super::TypedDataset), which combine these
//! parts. A value of [`Stages`] is a description. [`Stages::settle`] runs the steps that need all
//! items and returns the input of the last pass, a [`Sequence`] that is compiled as one loop.

use std::path::{Path, PathBuf};

use bytemuck::Pod;

use super::context::Context;
use super::scratch::Scratch;
use crate::ends::{Input, Output};
use crate::job::Job;
use crate::key::RecordFormat;
use crate::primitives::Summary;
use crate::primitives::batch::{Files, Sequence};
use crate::primitives::{self, BucketFiles};
use outcore_io::Result;

/// Values with a natural order: numbers, and arrays of them, element by element.
pub trait Sortable: Pod + Send + Sync {
    /// The values as records.
    ///
    /// # Errors
    /// An array that exceeds the maximum record length.
    fn format() -> Result<RecordFormat>;
}

macro_rules! sortable {
    ($($number:ty),*) => {$(
        impl Sortable for $number {
            fn format() -> Result<RecordFormat> {
                RecordFormat::parse_type(stringify!($number))
            }
        }

        impl<const N: usize> Sortable for [$number; N]
        where
            [$number; N]: Pod,
        {
            fn format() -> Result<RecordFormat> {
                RecordFormat::parse_type(&format!("{}x{N}", stringify!($number)))
            }
        }
    )*};
}
sortable!(u8, u16, u32, u64, u128, i8, i16, i32, i64, f32, f64);

/// The passes of a running dataset: where they write, and what they did.
pub struct Passes {
    context: Context,
    beside: PathBuf,
    scratch: Scratch,
    /// Scratch of earlier datasets, whose files are still read.
    kept: Vec<Scratch>,
    pub(super) done: Summary,
}

impl Passes {
    pub(super) fn new(context: &Context, beside: &Path) -> Self {
        Passes {
            context: context.clone(),
            beside: beside.to_path_buf(),
            scratch: Scratch::default(),
            kept: Vec::new(),
            done: Summary::default(),
        }
    }

    /// A job for the next pass.
    pub fn job(&self) -> Job {
        self.context.job()
    }

    /// Runs a pass that writes to scratch; returns the files.
    pub(super) fn write_scratch(
        &mut self,
        is_sharded: bool,
        pass: impl FnOnce(&mut Self, Output) -> Result<Summary>,
    ) -> Result<Vec<Input>> {
        let (context, beside) = (self.context.clone(), self.beside.clone());
        let place = self.scratch.place(&context, &beside, is_sharded)?;
        let done = pass(self, place.output())?;
        self.add(done);
        Ok(place.files())
    }

    /// Files for the buckets, spread over the drives.
    pub(super) fn bucket_files(&mut self, count: usize) -> Result<BucketFiles> {
        let (context, beside) = (self.context.clone(), self.beside.clone());
        self.scratch.bucket_files(&context, &beside, count)
    }

    /// Takes over the results of other passes.
    pub(super) fn take_over(&mut self, other: Passes) {
        self.add(other.done);
        self.kept.push(other.scratch);
        self.kept.extend(other.kept);
    }

    /// Adds a pass to the summary.
    pub(super) fn add(&mut self, done: Summary) {
        self.done = std::mem::take(&mut self.done).and(done);
    }

    pub(super) fn done_so_far(&self) -> &Summary {
        &self.done
    }
}

/// The parts of a dataset: sources and steps. Programs use the methods of [`TypedDataset`].
pub trait Stages: Sized {
    /// The type of the items of this part.
    type Item: Send;
    /// The input of the last pass.
    type Last: Sequence<Item = Self::Item>;

    /// Runs all steps that need all items; returns the input of the last pass.
    ///
    /// # Errors
    /// The errors of those passes.
    fn settle(self, passes: &mut Passes) -> Result<Self::Last>;

    /// Appends a description per pass; the last pass is still open.
    fn describe(&self, passes: &mut Vec<String>);

    /// Writes all items.
    ///
    /// # Errors
    /// The errors of the passes.
    fn write_to(self, passes: &mut Passes, output: Output, replace: bool) -> Result<Summary>
    where
        Self::Item: Pod,
    {
        let last = self.settle(passes)?;
        primitives::write(&passes.job(), &last, &output, replace)
    }

    /// Whether a pass produces the items; otherwise files already hold them.
    fn is_made(&self) -> bool {
        true
    }

    /// The items as files.
    ///
    /// # Errors
    /// The errors of the passes.
    fn files(self, passes: &mut Passes) -> Result<Vec<Input>>
    where
        Self::Item: Pod,
    {
        passes.write_scratch(true, |passes, output| self.write_to(passes, output, false))
    }
}

/// Adds a step to the description of the open pass.
fn go_on(passes: &mut [String], step: &str) {
    if let Some(last) = passes.last_mut() {
        last.push_str(" -> ");
        last.push_str(step);
    }
}

/// Files of values.
#[derive(Debug, Clone)]
pub struct FromFiles<T> {
    inputs: Vec<Input>,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T> FromFiles<T> {
    pub(super) fn new(inputs: &[Input]) -> Self {
        FromFiles {
            inputs: inputs.to_vec(),
            item: std::marker::PhantomData,
        }
    }
}

impl<T: Pod + Send> Stages for FromFiles<T> {
    type Item = T;
    type Last = Files<T>;

    fn settle(self, _passes: &mut Passes) -> Result<Files<T>> {
        Ok(primitives::read(&self.inputs))
    }

    fn describe(&self, passes: &mut Vec<String>) {
        passes.push(format!("read {}", std::any::type_name::<T>()));
    }

    fn is_made(&self) -> bool {
        false
    }

    fn files(self, _passes: &mut Passes) -> Result<Vec<Input>> {
        Ok(self.inputs)
    }
}

/// Any sequence.
#[derive(Debug, Clone)]
pub struct FromSequence<S>(pub(super) S);

impl<S: Sequence> Stages for FromSequence<S> {
    type Item = S::Item;
    type Last = S;

    fn settle(self, _passes: &mut Passes) -> Result<S> {
        Ok(self.0)
    }

    fn describe(&self, passes: &mut Vec<String>) {
        passes.push("sequence".to_string());
    }
}

macro_rules! fused {
    ($($(#[$doc:meta])* $name:ident, $last:ident, $method:ident, ($($generic:ident),*),
       ($($bound:tt)*), $item:ty, $text:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name<P, F> {
            pub(super) inner: P,
            pub(super) f: F,
        }

        impl<P: Stages, F, $($generic),*> Stages for $name<P, F>
        where
            $($bound)*
        {
            type Item = $item;
            type Last = primitives::batch::$last<P::Last, F>;

            fn settle(self, passes: &mut Passes) -> Result<Self::Last> {
                Ok(self.inner.settle(passes)?.$method(self.f))
            }

            fn describe(&self, passes: &mut Vec<String>) {
                self.inner.describe(passes);
                go_on(passes, $text);
            }
        }
    )*};
}

fused! {
    /// See [`super::TypedDataset::map`].
    Mapped, Map, map, (U), (U: Send, F: Fn(P::Item) -> U + Sync), U, "map";
    /// See [`super::TypedDataset::filter`].
    Filtered, Filter, filter, (), (F: Fn(&P::Item) -> bool + Sync), P::Item, "filter";
    /// See [`super::TypedDataset::flat_map`].
    FlatMapped, FlatMap, flat_map, (I),
        (I: IntoIterator, I::Item: Send, F: Fn(P::Item) -> I + Sync), I::Item, "flat_map";
}

/// See [`super::TypedDataset::zip`].
#[derive(Debug, Clone)]
pub struct Zipped<P, Q> {
    pub(super) left: P,
    pub(super) right: Q,
}

impl<P: Stages, Q: Stages> Stages for Zipped<P, Q> {
    type Item = (P::Item, Q::Item);
    type Last = primitives::batch::Zip<P::Last, Q::Last>;

    fn settle(self, passes: &mut Passes) -> Result<Self::Last> {
        let left = self.left.settle(passes)?;
        Ok(left.zip(self.right.settle(passes)?))
    }

    fn describe(&self, passes: &mut Vec<String>) {
        let mut right = Vec::new();
        self.right.describe(&mut right);
        self.left.describe(passes);
        go_on(passes, &format!("zip({})", right.join("; ")));
    }
}

/// See [`super::TypedDataset::enumerate`].
#[derive(Debug, Clone)]
pub struct Enumerated<P> {
    pub(super) inner: P,
}

impl<P: Stages> Stages for Enumerated<P> {
    type Item = (u64, P::Item);
    type Last = primitives::batch::Enumerate<P::Last>;

    fn settle(self, passes: &mut Passes) -> Result<Self::Last> {
        Ok(self.inner.settle(passes)?.enumerate())
    }

    fn describe(&self, passes: &mut Vec<String>) {
        self.inner.describe(passes);
        go_on(passes, "enumerate");
    }
}

/// A step that needs all items: its work on files, and its description.
pub trait Whole<T>: Sized {
    /// The type of the step's results.
    type Made: Pod + Send;

    /// The description of the step.
    const TEXT: &'static str;

    /// Whether the step can write several files.
    fn can_be_sharded(&self) -> bool {
        true
    }

    /// Runs the step.
    ///
    /// # Errors
    /// The errors of the pass.
    fn run<P: Stages<Item = T>>(
        self,
        of: P,
        passes: &mut Passes,
        output: Output,
        replace: bool,
    ) -> Result<Summary>
    where
        T: Pod;
}

/// Items after a step that needs all of them.
#[derive(Debug, Clone)]
pub struct Behind<P, W> {
    pub(super) inner: P,
    pub(super) whole: W,
}

impl<P, W> Stages for Behind<P, W>
where
    P: Stages,
    P::Item: Pod,
    W: Whole<P::Item>,
{
    type Item = W::Made;
    type Last = Files<W::Made>;

    fn settle(self, passes: &mut Passes) -> Result<Self::Last> {
        Ok(primitives::read(&self.files(passes)?))
    }

    fn describe(&self, passes: &mut Vec<String>) {
        self.inner.describe(passes);
        go_on(passes, W::TEXT);
        passes.push("read".to_string());
    }

    fn write_to(self, passes: &mut Passes, output: Output, replace: bool) -> Result<Summary> {
        self.whole.run(self.inner, passes, output, replace)
    }

    fn is_made(&self) -> bool {
        // After the step, its results are files on scratch.
        false
    }

    fn files(self, passes: &mut Passes) -> Result<Vec<Input>> {
        passes.write_scratch(self.whole.can_be_sharded(), |passes, output| {
            self.whole.run(self.inner, passes, output, false)
        })
    }
}

/// See [`super::TypedDataset::windows`].
#[derive(Debug, Clone)]
pub struct Windowed<P, const K: usize> {
    pub(super) inner: P,
}

impl<P: Stages, const K: usize> Stages for Windowed<P, K>
where
    P::Item: Pod,
{
    type Item = [P::Item; K];
    type Last = primitives::rearrange::Windows<P::Item, K>;

    fn settle(self, passes: &mut Passes) -> Result<Self::Last> {
        let files = self.inner.files(passes)?;
        primitives::windows(&passes.job(), &files)
    }

    fn describe(&self, passes: &mut Vec<String>) {
        self.inner.describe(passes);
        go_on(passes, "windows");
    }
}
