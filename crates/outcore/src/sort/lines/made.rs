//! Sorts rows that a program generates.
//!
//! Contract: [`sort_rows`] is [`super::sort_lines`] with a [`RowSource`] in place of files and a
//! [`RowSink`] in place of an output: the same plan, distribution and buckets.
//!
//! Bounds: the memory of a sort of lines without its reads, plus the memory that source and sink
//! declare. I/O is only that of scratch; the plan includes the traffic that source and sink
//! declare.

use std::path::PathBuf;

use super::bucket::LineBucket;
use super::context::Context;
use super::distribute::distribute_made;
use super::row_journal::{RowJournal, with_drives};
use super::rows::{LongRow, RowSink, RowSource, Sampled};
use super::sample::{LineSample, Lines, Share};
use super::sort::{Ending, ItemSource, sort_from};
use super::splitters::LineSplitters;
use super::table::Table;
use super::{LineSortOptions, LineSummary};
use crate::ends::Input;
use crate::forecast::Forecast;
use crate::job::Job;
use crate::key::sort_key::SortKey;
use crate::partition::driver::Ends;
use crate::read::framing::ItemFraming;
use outcore_io::Result;

/// Approximate number of batches of a sample, and the number of bytes of a key that are kept.
const SAMPLE_BATCHES: usize = 1024;
const KEY_BYTES_MAX: usize = 1024;

/// How rows are sorted, besides their order.
#[derive(Debug, Clone, Default)]
pub struct RowSortOptions {
    /// One row per key: the first in the order.
    pub unique: bool,
    /// Directory for scratch if the job names no drives.
    pub scratch_dir: PathBuf,
}

/// Sorts the rows of `source` by the keys that `order` finds in them, and passes them to `sink`.
///
/// # Errors
/// The errors of source and sink; [`crate::Kind::Memory`] if the plan or a row does not fit,
/// [`crate::Kind::Corrupt`] for a row without a key or damaged scratch, [`crate::Kind::NoSpace`],
/// [`crate::Kind::Io`], [`crate::Kind::Interrupted`].
pub fn sort_rows(
    job: &Job,
    source: &dyn RowSource,
    sink: &dyn RowSink,
    order: &dyn SortKey,
    options: &RowSortOptions,
) -> Result<LineSummary> {
    sort_rows_with(job, source, sink, order, options, None)
}

/// Like [`sort_rows`], but with the journal of the job, if it keeps one.
///
/// # Errors
/// The errors of [`sort_rows`].
pub fn sort_rows_with(
    job: &Job,
    source: &dyn RowSource,
    sink: &dyn RowSink,
    order: &dyn SortKey,
    options: &RowSortOptions,
    journal: Option<&mut RowJournal>,
) -> Result<LineSummary> {
    let job = with_drives(job, &options.scratch_dir);
    let options = LineSortOptions {
        unique: options.unique,
        ..LineSortOptions::default()
    };
    let ending = Ending::Rows { sink, journal };
    sort_from(&job, &Made(source), ending, order, options)
}

/// Rows of a source.
struct Made<'a>(&'a dyn RowSource);

impl ItemSource for Made<'_> {
    const IS_READ: bool = false;

    fn files(&self) -> &[Input] {
        &[]
    }

    fn sampled(&self) -> Sampled {
        self.0.sampled()
    }

    fn framing(&self) -> ItemFraming {
        ItemFraming::LengthPrefixed
    }

    fn data_bytes(&self, _ends: &Ends<'_>) -> u64 {
        self.0.data_bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }

    fn read_forecast(&self) -> Option<Forecast> {
        Some(self.0.read_forecast())
    }

    fn longest_row(&self) -> Option<LongRow> {
        self.0.longest_row()
    }

    fn sample(&self, _job: &Job, _ends: &Ends<'_>, lines: Lines<'_>) -> Result<LineSample> {
        let mut sample = LineSample::default();
        let share = Share::of(SAMPLE_BATCHES, KEY_BYTES_MAX);
        self.0.sample(&mut |rows, _| {
            sample.take(lines, rows.as_bytes(), true, share);
            Ok(())
        })?;
        Ok(sample.of_length(self.0.mean_row()))
    }

    fn distribute(
        &self,
        context: &Context<'_>,
        splitters: &LineSplitters,
    ) -> Result<(Vec<LineBucket>, Vec<Table>)> {
        distribute_made(context, splitters, self.0)
    }
}
