//! Writes a range of a view as a table.
//!
//! Contract: [`TableView::write`] merges parts of the range on several threads; each thread encodes
//! what it merges. The files are absent or whole, keep the schema and its metadata, and record
//! their sort order. The borders of the parts do not depend on timing.
//!
//! Bounds: readers have half of the memory, writers the other half.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use outcore::{Amounts, Forecast, Phase, PhasePlan};
use outcore_io::{Result, threads};

use super::TableView;
use crate::jobs::TableSummary;
use crate::jobs::copy::sum;
use crate::jobs::rows_out::{WriteShape, part_bytes};
use crate::jobs::sort::create;
use crate::output::{OutputOptions, SINK_BYTES};

/// The name of the phase.
const MERGE: &str = "merge";

impl TableView {
    /// The predicted cost of [`TableView::write`] for this many rows.
    pub fn plan_write(&self, rows_count: u64) -> PhasePlan {
        let bytes = self.bytes_of(rows_count);
        let amounts = Amounts::of_files(bytes.into(), Forecast::Unknown, bytes as f64 / 1e6);
        PhasePlan::new(MERGE, amounts, &self.view.layout())
    }

    /// Approximate bytes of this many rows.
    pub(super) fn bytes_of(&self, rows_count: u64) -> u64 {
        let (rows, bytes) = (
            u128::from(self.view.len()),
            u128::from(self.view.len_bytes()),
        );
        (bytes * u128::from(rows_count) / rows.max(1)) as u64
    }

    /// Writes the rows of `range` to `outputs`; several files get equal numbers of rows.
    ///
    /// # Errors
    /// As [`TableView::batches`] and [`crate::output::TableOutput::create`]. On failure, no file
    /// remains.
    pub fn write(
        &self,
        range: Range<u64>,
        outputs: &[PathBuf],
        writes: &OutputOptions,
    ) -> Result<TableSummary> {
        let started = Instant::now();
        let job = self.view.job();
        let range = range.start.min(self.view.len())..range.end.min(self.view.len());
        let rows_count = range.end.saturating_sub(range.start);
        let memory_bytes = job.budget.free_bytes() / 16 * 15;
        let group_bytes = writes.group_min_bytes(self.schema()).max(1);
        let by_reads = memory_bytes / 2 / self.batches_min_bytes().max(1);
        let by_writes = (memory_bytes / 2).saturating_sub(SINK_BYTES) / group_bytes;
        let by_memory = usize::try_from(by_reads.min(by_writes)).unwrap_or(usize::MAX);
        let threads_count = job.options.threads.min(by_memory).max(1);
        let shape = WriteShape {
            writers_count: threads_count,
            output_bytes: memory_bytes / 2,
            batch_bytes: 0,
            taken_bytes: 0,
            longest_bytes: 0,
        };
        let writes = OutputOptions {
            sorted_by: self.keys.to_vec(),
            ..writes.clone()
        };
        let what = (self.schema(), &writes);
        let held = job
            .budget
            .reserve("writing of a table", shape.output_bytes)?;
        let output = create(job, outputs, None, what, (shape, Some(rows_count)))?;
        let data_bytes = self.bytes_of(rows_count);
        let row_bytes = data_bytes as f64 / rows_count.max(1) as f64;
        let part_bytes = part_bytes(&output, shape, (data_bytes, row_bytes));
        let parts = data_bytes
            .div_ceil(part_bytes.max(1))
            .clamp(1, rows_count.max(1));
        let border = |part: u64| {
            let rows = u128::from(rows_count) * u128::from(part) / u128::from(parts);
            rows as u64
        };
        let (read_before, _) = self.view.traffic_bytes();
        job.control.begin_phase(MERGE, data_bytes);
        let next = AtomicU64::new(0);
        let work = |_thread: usize| {
            let mut batches = self.batches_in(memory_bytes / 2 / threads_count as u64)?;
            let mut written = 0;
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts {
                    return Ok(written);
                }
                let (from, to) = (border(part), border(part + 1));
                let mut section = output.section(part, from);
                batches.seek(range.start + from..range.start + to)?;
                while let Some(batch) = batches.next_batch()? {
                    written += batch.num_rows() as u64;
                    section.write(&batch)?;
                }
                section.finish()?;
                job.control.advance(self.bytes_of(to - from));
            }
        };
        let rows_out = sum(threads::together(
            "outcore-view-write",
            threads_count,
            work,
        )?)?;
        let (read_after, _) = self.view.traffic_bytes();
        job.control.begin_phase("publish", 0);
        let lens_bytes = output.publish()?;
        drop(held);
        let (read_bytes, written_bytes) = (read_after - read_before, lens_bytes.iter().sum());
        let seconds = started.elapsed().as_secs_f64();
        Ok(TableSummary {
            rows_in: self.view.len(),
            rows_out,
            lens_bytes,
            seconds,
            read_bytes,
            written_bytes,
            passes: 1,
            phases: vec![Phase {
                name: MERGE,
                seconds,
                read_bytes,
                written_bytes,
                predicted: Some(self.plan_write(rows_count)),
            }],
            ..TableSummary::default()
        })
    }
}
