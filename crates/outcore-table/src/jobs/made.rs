//! Generates a table from the numbers of its rows.
//!
//! Contract: [`make`] writes the rows of a [`MakeRows`] in the order of their numbers, on the job's
//! threads. The output depends only on the rows and the options, not on memory or threads.
//!
//! Bounds: per thread one section of generated rows, and one row group of the output.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use outcore::{Job, Phase};
use outcore_io::{Result, threads};

use super::TableSummary;
use super::copy::sum;
use crate::output::{OutputOptions, TableOutput, WriterShape};

/// Approximate bytes of rows that a thread generates at once.
const BATCH_BYTES: u64 = 1 << 20;
/// Approximate bytes of the rows of a section: a row group or a stretch of text.
const SECTION_BYTES: u64 = 16 << 20;
const GENERATE: &str = "generate";

/// Generates rows from their numbers.
pub trait MakeRows: Sync {
    /// The columns.
    fn schema(&self) -> &SchemaRef;

    /// The number of rows.
    fn rows_count(&self) -> u64;

    /// Approximate bytes of a row in memory.
    fn row_bytes(&self) -> u64;

    /// Generates the rows with these numbers.
    ///
    /// # Errors
    /// Errors of the generator.
    fn rows(&self, numbers: Range<u64>) -> Result<RecordBatch>;
}

/// Writes all rows of `maker`.
///
/// # Errors
/// Errors of `maker` and of writing. On failure, no file remains.
pub fn make(
    job: &Job,
    maker: &dyn MakeRows,
    outputs: &[PathBuf],
    writes: &OutputOptions,
) -> Result<TableSummary> {
    let started = Instant::now();
    let (rows_count, row_bytes) = (maker.rows_count(), maker.row_bytes().max(1));
    let section_rows = (SECTION_BYTES / row_bytes).max(1);
    let section_rows = section_rows.min(writes.group_rows_max.max(1) as u64);
    let sections_count = rows_count.div_ceil(section_rows).max(1);
    let memory_bytes = job.budget.free_bytes();
    // Generated rows, with spare room for growth.
    let thread_bytes = 4 * BATCH_BYTES;
    let group_bytes = writes.group_min_bytes(maker.schema());
    let by_memory = memory_bytes / 2 / (thread_bytes + group_bytes);
    let most = sections_count.min(by_memory).max(1);
    let threads_count = job.options.threads.min(most as usize).max(1);
    let made_bytes = thread_bytes * threads_count as u64;
    let _made = job.budget.reserve("rows being made", made_bytes)?;
    let shape = WriterShape {
        writers_count: threads_count,
        memory_bytes: memory_bytes.saturating_sub(made_bytes),
        rows_count: Some(rows_count),
    };
    let output = TableOutput::create(job, outputs, maker.schema(), writes, shape)?;
    job.control.begin_phase(GENERATE, rows_count);
    let next = AtomicU64::new(0);
    let batch_rows = (BATCH_BYTES / row_bytes).max(1);
    let work = |_thread: usize| {
        let mut made = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= sections_count {
                return Ok(made);
            }
            let rows = number * section_rows..((number + 1) * section_rows).min(rows_count);
            let mut section = output.section(number, rows.start);
            let mut from = rows.start;
            while from < rows.end {
                let to = rows.end.min(from + batch_rows);
                section.write(&maker.rows(from..to)?)?;
                job.control.advance(to - from);
                from = to;
            }
            section.finish()?;
            made += rows.end - rows.start;
        }
    };
    let counts = threads::together("outcore-table-make", threads_count, work)?;
    let rows_out = sum(counts)?;
    let lens_bytes = output.publish()?;
    let written_bytes = lens_bytes.iter().sum();
    let seconds = started.elapsed().as_secs_f64();
    Ok(TableSummary {
        rows_in: rows_out,
        rows_out,
        lens_bytes,
        seconds,
        read_bytes: 0,
        written_bytes,
        scratch_bytes: 0,
        passes: 1,
        phases: vec![Phase {
            name: GENERATE,
            seconds,
            read_bytes: 0,
            written_bytes,
            predicted: None,
        }],
    })
}
