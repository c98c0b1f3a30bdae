//! Tables copied: read, perhaps fewer columns of them, and written in another format or codec.
//!
//! Contract: [`copy`] reads the pieces of an input in parallel and writes them in order, one section a piece, so the
//! output has the input's rows in the input's order, whatever the number of threads.
//!
//! Bounds: a third of the memory is the readers', the rest the writers'.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use outcore::Job;
use outcore_io::{Error, Kind, Result, threads};

use super::{TableEnds, TableSummary};
use crate::input::TableInput;
use crate::output::{OutputOptions, SINK_BYTES, TableOutput, WriterShape};

/// Copies a table.
///
/// # Errors
/// As [`TableInput::open`] and [`TableOutput::create`]; corrupt data, I/O, memory. Nothing is left then.
pub fn copy(job: &Job, ends: &TableEnds<'_>) -> Result<TableSummary> {
    let started = Instant::now();
    let input = TableInput::open(job, ends.inputs, ends.reads)?;
    let pieces = input.pieces();
    let memory_bytes = job.budget.free_bytes();
    let threads_count = threads_count(job, &input, ends.writes, memory_bytes);
    let rows_before = rows_before(&input);
    let shape = WriterShape {
        writers_count: threads_count,
        memory_bytes: memory_bytes / 3 * 2,
        rows_count: rows_before.last().copied(),
    };
    let output = TableOutput::create(job, ends.outputs, input.schema(), ends.writes, shape)?;
    let stored_bytes = pieces.iter().map(|piece| piece.stored_bytes).sum();
    job.control.begin_phase("copy", stored_bytes);
    let next = AtomicUsize::new(0);
    let work = |_thread: usize| {
        let mut reader = input.reader(memory_bytes / 3 / threads_count as u64)?;
        let mut rows_count = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&piece) = pieces.get(number) else {
                return Ok(rows_count);
            };
            let first_row = rows_before[number];
            let mut section = output.section(number as u64, first_row);
            for batch in reader.open(piece)? {
                let batch = batch?;
                rows_count += batch.num_rows() as u64;
                section.write(&batch)?;
            }
            section.finish()?;
            job.control.advance(piece.stored_bytes);
        }
    };
    let counts = threads::together("outcore-table-copy", threads_count, work)?;
    let rows_count = sum(counts)?;
    input.check_unchanged()?;
    let lens_bytes = output.publish()?;
    Ok(TableSummary {
        rows_in: rows_count,
        rows_out: rows_count,
        seconds: started.elapsed().as_secs_f64(),
        read_bytes: input.read_bytes(),
        written_bytes: lens_bytes.iter().sum(),
        lens_bytes,
        passes: 1,
        ..TableSummary::default()
    })
}

/// As many as there are pieces to read, and as the memory suffices for.
fn threads_count(
    job: &Job,
    input: &TableInput,
    writes: &OutputOptions,
    memory_bytes: u64,
) -> usize {
    let readers = memory_bytes / 3 / input.memory_min_bytes().max(1);
    let writers_bytes = (memory_bytes / 3 * 2).saturating_sub(SINK_BYTES);
    let writers = writers_bytes / writes.group_min_bytes(input.schema()).max(1);
    let by_memory = usize::try_from(readers.min(writers)).unwrap_or(usize::MAX);
    let pieces_count = input.pieces().len();
    job.options.threads.min(pieces_count).min(by_memory).max(1)
}

/// For each piece and the end: the rows before it.
fn rows_before(input: &TableInput) -> Vec<u64> {
    let mut before = vec![0];
    for piece in input.pieces() {
        let last = before.last().copied().unwrap_or(0);
        before.push(last + piece.rows_count);
    }
    before
}

/// All rows, or the failure that made the others stop.
fn sum(counts: Vec<Result<u64>>) -> Result<u64> {
    let mut rows_count = 0;
    let mut failure: Option<Error> = None;
    for count in counts {
        match (count, &failure) {
            (Ok(count), _) => rows_count += count,
            (Err(error), None) => failure = Some(error),
            (Err(error), Some(first)) if first.kind() == Kind::Interrupted => failure = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    failure.map_or(Ok(rows_count), Err)
}
