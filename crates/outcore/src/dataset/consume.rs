//! Consumers of a dataset of records: reductions, selections, files by bucket.
//!
//! Contract: each function takes all steps and then makes one pass, or the passes of its function
//! in [`crate::primitives`]. A summary covers all passes together.

use std::path::Path;

use super::execution::Execution;
use crate::ends::Output;
use crate::primitives::Summary;
use crate::primitives::Table;
use crate::primitives::gather_to::gather_to;
use crate::primitives::route::route_records;
use crate::primitives::table::BatchStep;
use crate::primitives::tables::{
    Histogram, distribute_by, distribute_table, find_table, histogram_table, top_table,
};
use crate::primitives::{
    BucketFiles, PartTotals, RecordRoute, Reduction, Scalar, Side, build_index, gather, lookup,
    lookup_indexed, reduce_table,
};
use outcore_io::Result;

impl Execution {
    /// Reduces all items by named reductions or by an expression, in one pass.
    ///
    /// # Errors
    /// The errors of [`reduce_table`].
    pub fn reduce(&mut self, reductions: &[Reduction]) -> Result<(Vec<Scalar>, Summary)> {
        self.take_all_steps()?;
        let (found, done) = reduce_table(&self.job()?, self.table()?, reductions)?;
        Ok((found, self.done(done)))
    }

    /// The `count` largest numbers in descending order, or the smallest in ascending order.
    ///
    /// # Errors
    /// The errors of [`top_table`].
    pub fn top(&mut self, count: usize, smallest: bool) -> Result<(Vec<Scalar>, Summary)> {
        self.take_all_steps()?;
        self.refine_many()?;
        let (found, done) = top_table(&self.job()?, self.table()?, count, smallest)?;
        Ok((found, self.done(done)))
    }

    /// Counts of numbers in equal bins.
    ///
    /// # Errors
    /// The errors of [`histogram_table`].
    pub fn histogram(
        &mut self,
        bins: usize,
        range: Option<(f64, f64)>,
    ) -> Result<(Histogram, Summary)> {
        self.take_all_steps()?;
        let (found, done) = histogram_table(&self.job()?, self.table()?, bins, range)?;
        Ok((found, self.done(done)))
    }

    /// The position of the first item for which an expression is true.
    ///
    /// # Errors
    /// The errors of [`find_table`].
    pub fn find(&mut self, condition: &str) -> Result<(Option<u64>, Summary)> {
        self.take_all_steps()?;
        self.refine_many()?;
        let (found, done) = find_table(&self.job()?, self.table()?, condition)?;
        Ok((found, self.done(done)))
    }

    /// The items at `positions`, one after another as bytes.
    ///
    /// # Errors
    /// The errors of [`gather`].
    pub fn gather(&mut self, positions: &[u64]) -> Result<(Vec<u8>, Summary)> {
        self.take_all_steps()?;
        self.refine_files()?;
        let item_bytes = self.table()?.format().record_bytes();
        let (bytes, done) = gather(&self.job()?, &self.files(), item_bytes, positions)?;
        Ok((bytes, self.done(done)))
    }

    /// Writes the items at `positions`, in the requested order, to `output`; they may exceed the
    /// memory.
    ///
    /// # Errors
    /// The errors of [`gather_to`].
    pub fn gather_to(
        &mut self,
        positions: &Table,
        output: &Output,
        replace: bool,
    ) -> Result<Summary> {
        self.take_all_steps()?;
        self.refine_files()?;
        let item_bytes = self.table()?.format().record_bytes();
        let files = self.files();
        let done = gather_to(&self.job()?, &files, item_bytes, positions, output, replace)?;
        Ok(self.done(done))
    }

    /// The ranks of `keys`, which are stored one after another, among the ascending items. If the
    /// caller gives the path of an index, the lookup uses that index and builds it if it does not
    /// exist.
    ///
    /// # Errors
    /// The errors of [`lookup`], [`build_index`] and [`lookup_indexed`].
    pub fn search_sorted(
        &mut self,
        keys: &[u8],
        side: Side,
        index: Option<&Path>,
    ) -> Result<(Vec<u64>, Summary)> {
        self.take_all_steps()?;
        self.refine_files()?;
        let format = self.table()?.format().clone();
        let (job, files) = (self.job()?, self.files());
        let Some(path) = index else {
            let (ranks, done) = lookup(&job, &files, &format, keys, side)?;
            return Ok((ranks, self.done(done)));
        };
        let built = match path.exists() {
            true => None,
            false => Some(build_index(&job, &files, &format, path, false)?),
        };
        let (ranks, mut done) = lookup_indexed(&job, &files, &format, keys, side, path)?;
        if let Some(built) = built {
            done.read_bytes += built.read_bytes;
            done.written_bytes += built.written_bytes;
            done.seconds += built.seconds;
        }
        Ok((ranks, self.done(done)))
    }

    /// Writes each item to the file whose number an expression computes; returns the items per
    /// file.
    ///
    /// # Errors
    /// The errors of [`distribute_table`].
    pub fn distribute(&mut self, bucket: &str, files: &BucketFiles) -> Result<(Vec<u64>, Summary)> {
        self.take_all_steps()?;
        let (counts, done) = distribute_table(&self.job()?, self.table()?, bucket, files)?;
        Ok((counts, self.done(done)))
    }

    /// Like [`Execution::distribute`], but with a function that computes a number (`i64`) for each
    /// item of a batch.
    ///
    /// # Errors
    /// The errors of [`distribute_by`].
    pub fn distribute_by(
        &mut self,
        bucket: &dyn BatchStep,
        files: &BucketFiles,
    ) -> Result<(Vec<u64>, Summary)> {
        self.take_all_steps()?;
        let (counts, done) = distribute_by(&self.job()?, self.table()?, bucket, files)?;
        Ok((counts, self.done(done)))
    }

    /// Writes each item to the part that `route` assigns to it; returns the totals of the parts.
    ///
    /// # Errors
    /// The errors of [`Execution::distribute_by`]. Usage: files and ranges differ in number.
    pub fn route(
        &mut self,
        route: &RecordRoute,
        files: &BucketFiles,
    ) -> Result<(Vec<PartTotals>, Summary)> {
        self.take_all_steps()?;
        let (totals, done) = route_records(&self.job()?, self.table()?, route, files)?;
        Ok((totals, self.done(done)))
    }
}
