//! Items distributed to buckets on scratch, and a function on each bucket.
//!
//! Contract (PALID, SPAA 2025, section 4: scatter-gather): [`TypedDataset::distribute`] writes each
//! item to the bucket that a function chooses, in the order of the sequence. [`Buckets::update`]
//! and [`Buckets::map`] load whole buckets, one per thread, call a function and write its result,
//! all threads in parallel. [`Buckets::dataset`] makes a dataset of the items, bucket after bucket.
//!
//! Bounds: distributing is one read and one write of the items. A function on buckets is one read
//! and one write of those buckets. Memory holds the buckets in work, next to the chunks of a
//! writing thread; memory must have room for the largest bucket three times.

use bytemuck::Pod;
use std::path::Path;

use super::context::Context;
use super::stages::{Passes, Stages};
use super::typed::TypedDataset;
use crate::ends::Input;
use crate::job::Job;
use crate::primitives::Summary;
use crate::primitives::batch::Files;
use crate::primitives::sources::lengths_of;
use crate::primitives::{self, BucketFiles, map_files_to, written_chunks_bytes};
use outcore_io::memory::{Reservation, block_ceil};
use outcore_io::{Error, Kind, Result, units};

/// Items in buckets; see the module.
pub struct Buckets<T> {
    context: Context,
    passes: Passes,
    files: Vec<Input>,
    counts: Vec<u64>,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<P: Stages> TypedDataset<P>
where
    P::Item: Pod,
{
    /// Writes each item to the bucket, below `count`, that `bucket` returns.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a bucket that does not exist; the errors of the passes.
    pub fn distribute(
        self,
        count: usize,
        bucket: impl Fn(&P::Item) -> usize + Sync,
    ) -> Result<Buckets<P::Item>> {
        self.into_buckets(count, |job, last, files| {
            primitives::distribute(job, last, bucket, files)
        })
    }

    /// As [`TypedDataset::distribute`], but `bucket` also receives the item's position. The items
    /// must not have been filtered since they were last read; the compiler checks this.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::distribute`].
    pub fn distribute_indexed(
        self,
        count: usize,
        bucket: impl Fn(u64, &P::Item) -> usize + Sync,
    ) -> Result<Buckets<P::Item>> {
        self.into_buckets(count, |job, last, files| {
            primitives::distribute_indexed(job, last, bucket, files)
        })
    }

    fn into_buckets(
        self,
        count: usize,
        pass: impl FnOnce(&Job, &P::Last, &BucketFiles) -> Result<(Vec<u64>, Summary)>,
    ) -> Result<Buckets<P::Item>> {
        let (context, stages) = self.into_parts();
        let mut passes = Passes::new(&context, Path::new("."));
        let last = stages.settle(&mut passes)?;
        let to = passes.bucket_files(count)?;
        let (counts, done) = pass(&passes.job(), &last, &to)?;
        passes.add(done);
        Ok(Buckets {
            context,
            passes,
            files: to.paths.iter().map(Input::raw).collect(),
            counts,
            item: std::marker::PhantomData,
        })
    }
}

impl<T: Pod + Send + Sync> Buckets<T> {
    /// Number of items in each bucket.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Summary of the passes so far.
    pub fn summary(&self) -> &Summary {
        self.passes.done_so_far()
    }

    /// Changes the items of each bucket for which `which` is true; the others stay unchanged.
    ///
    /// # Errors
    /// [`Kind::Memory`] for a bucket that does not fit; the errors of `f`, reading and writing.
    pub fn update(
        mut self,
        which: impl Fn(usize) -> bool,
        f: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
    ) -> Result<Self> {
        let chosen: Vec<usize> = (0..self.files.len())
            .filter(|bucket| which(*bucket))
            .collect();
        let (files, _) = self.run(&chosen, |bucket, mut items| {
            f(bucket, &mut items)?;
            Ok(items)
        })?;
        for (bucket, file) in chosen.into_iter().zip(files) {
            self.files[bucket] = file;
        }
        Ok(self)
    }

    /// The results of `f` for each bucket.
    ///
    /// # Errors
    /// The errors of [`Buckets::update`].
    pub fn map<U: Pod + Send + Sync>(
        mut self,
        f: impl Fn(usize, Vec<T>) -> Result<Vec<U>> + Sync,
    ) -> Result<Buckets<U>> {
        let all: Vec<usize> = (0..self.files.len()).collect();
        let (files, lens) = self.run(&all, f)?;
        Ok(Buckets {
            context: self.context,
            passes: self.passes,
            files,
            counts: lens.iter().map(|len| len / size_of::<U>() as u64).collect(),
            item: std::marker::PhantomData,
        })
    }

    /// The results of a function for some buckets, each in its own file, and their bytes.
    fn run<U: Pod>(
        &mut self,
        chosen: &[usize],
        f: impl Fn(usize, Vec<T>) -> Result<Vec<U>> + Sync,
    ) -> Result<(Vec<Input>, Vec<u64>)> {
        if chosen.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let inputs: Vec<Input> = chosen.iter().map(|b| self.files[*b].clone()).collect();
        let mut job = self.passes.job();
        let lens_bytes = lengths_of(&job, &inputs, size_of::<T>())?;
        let largest_bytes = lens_bytes.into_iter().max().unwrap_or(0);
        job.options.threads = job.options.threads.clamp(1, chosen.len());
        let _held = reserve(&mut job, largest_bytes)?;
        let to = self.passes.bucket_files(chosen.len())?;
        let (lens, done) = map_files_to(&job, &inputs, &to, |file| {
            let items: Vec<T> = bytemuck::pod_collect_to_vec(file.bytes);
            let made = f(chosen[file.index], items)?;
            Ok(bytemuck::pod_collect_to_vec(&made))
        })?;
        self.passes.add(done);
        Ok((to.paths.iter().map(Input::raw).collect(), lens))
    }

    /// The items, bucket after bucket.
    pub fn dataset(self) -> TypedDataset<FromBuckets<T>> {
        let context = self.context.clone();
        TypedDataset::new(&context, FromBuckets(self))
    }

    /// Writes the items, bucket after bucket, to a file that must not exist.
    ///
    /// # Errors
    /// The errors of [`TypedDataset::write`].
    pub fn write(self, path: impl AsRef<Path>) -> Result<Summary> {
        self.dataset().write(path)
    }
}

/// Reserves memory for a bucket's items as values and as bytes, per thread. Uses fewer threads if
/// these do not fit together with the current file and the write chunks of each thread. The rest is
/// for read-ahead.
fn reserve(job: &mut Job, largest_bytes: u64) -> Result<Reservation> {
    let free_bytes = job.budget.free_bytes();
    loop {
        let threads = job.options.threads.max(1);
        let items_bytes = largest_bytes.saturating_mul(2 * threads as u64);
        let file_bytes = block_ceil(largest_bytes).saturating_mul(threads as u64);
        let needed_bytes = items_bytes
            .saturating_add(file_bytes)
            .saturating_add(written_chunks_bytes(threads));
        if needed_bytes <= free_bytes {
            return job.budget.reserve("items of buckets", items_bytes);
        }
        if threads == 1 {
            let cause = format!(
                "a bucket of {} needs {} to be processed, but only {} are free",
                units::bytes(largest_bytes),
                units::bytes(needed_bytes),
                units::bytes(free_bytes)
            );
            let enough_bytes = job.options.memory_bytes + (needed_bytes - free_bytes);
            return Err(
                Error::new(Kind::Memory, "load a bucket", cause).hint(format!(
                    "distribute to more buckets, or allow {} of memory",
                    units::bytes_exact(enough_bytes.next_multiple_of(1 << 20))
                )),
            );
        }
        job.options.threads = threads / 2;
    }
}

/// See [`Buckets::dataset`].
pub struct FromBuckets<T>(Buckets<T>);

impl<T: Pod + Send + Sync> Stages for FromBuckets<T> {
    type Item = T;
    type Last = Files<T>;

    fn settle(self, passes: &mut Passes) -> Result<Files<T>> {
        Ok(primitives::read(&self.files(passes)?))
    }

    fn describe(&self, passes: &mut Vec<String>) {
        passes.push(format!(
            "read {}",
            units::counted(self.0.files.len() as u64, "bucket")
        ));
    }

    fn files(self, passes: &mut Passes) -> Result<Vec<Input>> {
        passes.take_over(self.0.passes);
        Ok(self.0.files)
    }
}
