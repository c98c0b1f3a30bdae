//! Runs of generated rows.
//!
//! Contract: [`form_runs`] lets all threads generate rows ([`RowSource`]). Each thread fills its
//! own area; when that is full, it sorts the rows and writes them as a run, whose length is known
//! by then. The number of runs is known at the end. Rows longer than the plan allows, and rows
//! without a key, are errors.
//!
//! Memory: as planned ([`super::plan`]): an area, references and keys, and buffers per thread; the
//! index of each run comes from the job's budget when it is made.

use std::sync::{Mutex, PoisonError};

use super::level::{GrowingLevel, Level, LevelRun};
use super::output::RunWriter;
use super::plan::{INDEX, LINE_BUFFERS, LINES, RUNS, SPACE, ViewPlan};
use super::size::{LineLengths, ViewSize};
use super::sort_lines::{LineSpace, allow_for_item};
use super::sorting::LineSizes;
use super::types::ViewType;
use crate::job::thread_group::ThreadGroup;
use crate::job::{Job, JobSize, Layout};
use crate::merge::item_rule::ItemRule;
use crate::read::framing::ItemFraming;
use crate::sort::lines::rows::{MeanRow, RowBatch, RowSource};
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool, Reservation};
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Kind, Result, units};

/// The parameters of a plan for rows; the source's sample shows the lengths of rows and keys.
pub(super) fn size_of_rows(
    job: &Job,
    source: &dyn RowSource,
    what: &ViewType,
    layout: Layout,
) -> Result<ViewSize> {
    let (mut rows, mut bytes, mut key_bytes) = (0_u64, 0_u64, 0_u64);
    let mut key = Vec::new();
    source.sample(&mut |batch, _| {
        for row in batch.iter() {
            key.clear();
            if let Some((_, order)) = what.item_order() {
                order
                    .append_key(row, &mut key)
                    .map_err(|why| no_key(&why.0))?;
            }
            rows += 1;
            bytes += (row.len() + ItemFraming::LengthPrefixed.around_bytes()) as u64;
            key_bytes += key.len() as u64;
        }
        Ok(())
    })?;
    let seen = MeanRow {
        row_bytes: bytes as f64 / rows.max(1) as f64,
        key_bytes: key_bytes as f64 / rows.max(1) as f64,
    };
    let mean = source.mean_row().unwrap_or(seen);
    Ok(ViewSize {
        job: JobSize::of(job, source.data_bytes(), layout),
        record_bytes: 1,
        is_scalar: false,
        lines: Some(LineLengths {
            line_bytes: mean.row_bytes.ceil().max(1.0) as u64,
            key_bytes: Some(mean.key_bytes.ceil() as u64),
            made_of_bytes: Some(source.read_forecast().bytes().unwrap_or(0)),
            longest_bytes: source.longest_row().map(|longest| longest.row_bytes),
        }),
        keeps_runs: false,
        run_bytes: None,
    })
}

fn no_key(why: &str) -> Error {
    Error::corrupt("sort rows", format!("a row has no key: {why}")).hint("a bug: please report it")
}

/// State that the threads share.
struct Forming<'a> {
    job: &'a Job,
    thread_group: &'a ThreadGroup<'a>,
    level: &'a GrowingLevel<'a>,
    rule: &'a ItemRule,
    sizes: LineSizes,
    run_bytes: usize,
    row_bytes_max: u64,
    /// Finished runs, with the memory of their indexes.
    done: Mutex<Vec<(LevelRun, Reservation)>>,
}

/// Sorts the rows of `source` into the runs of `level`.
pub(super) fn form_runs(
    job: &Job,
    source: &dyn RowSource,
    plan: &ViewPlan,
    level: GrowingLevel<'_>,
) -> Result<Level> {
    let shape = level.shape();
    let (Some(rule), Some(sizes)) = (shape.items(), LineSizes::of(plan, shape)) else {
        return Err(
            Error::usage("sort rows", "the view has no rows").hint("a bug: please report it")
        );
    };
    let areas_budget = plan.runs_ledger(plan.sort_threads).open(&job.budget)?;
    let own = &job.under(&plan.sort_ledger(0, sizes.chunk_bytes))?;
    let thread_group = ThreadGroup::new(own, plan.sort_threads as u64);
    let threads = thread_group.threads();
    let space_bytes = plan.size.sort_space_bytes(plan.run_bytes());
    let _space = own.budget.reserve(SPACE, space_bytes * threads as u64)?;
    let areas = Pool::new(&areas_budget, RUNS, plan.area_bytes, threads)?;
    let forming = Forming {
        job,
        thread_group: &thread_group,
        level: &level,
        rule,
        sizes,
        run_bytes: plan.run_bytes() as usize,
        row_bytes_max: plan.line_bytes_max(),
        done: Mutex::default(),
    };
    thread_group.run(|_| {
        let slot_bytes = sizes.chunk_bytes + BLOCK_BYTES;
        let mut former = Former {
            forming: &forming,
            area: areas.take().ok_or_else(no_area)?,
            filled: 0,
            buffers: Pool::new(&own.budget, LINES, slot_bytes, LINE_BUFFERS)?,
            space: LineSpace::default(),
        };
        source.make(&mut |rows, _| former.take(rows))?;
        former.write_run()
    })?;
    let mut done = forming
        .done
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if done.is_empty() {
        // A view has at least one run, possibly empty.
        done.push((level.add(0)?, job.budget.reserve(INDEX, 0)?));
    }
    Ok(level.finish(done.into_iter().map(|(run, _)| run).collect()))
}

fn no_area() -> Error {
    Error::new(Kind::Memory, "take an area", "the pool is empty")
        .hint("a bug: please report it; more --memory or fewer --threads may avoid it")
}

/// One thread that forms runs.
struct Former<'a> {
    forming: &'a Forming<'a>,
    area: Buf,
    filled: usize,
    buffers: Pool,
    space: LineSpace,
}

impl Former<'_> {
    /// Takes rows; writes a run whenever the area is full.
    fn take(&mut self, rows: &RowBatch) -> Result<()> {
        let forming = self.forming;
        forming.thread_group.check()?;
        let bytes = rows.as_bytes();
        // The rows that are copied at once: from `from` to `to`.
        let (mut from, mut to) = (0, 0);
        for (_, end) in ItemFraming::LengthPrefixed.spans(bytes) {
            let row_bytes = (end - to) as u64;
            if row_bytes > forming.row_bytes_max {
                return Err(too_long(forming.job, row_bytes, forming.row_bytes_max));
            }
            if self.filled + (end - from) > forming.run_bytes {
                self.put(&bytes[from..to]);
                from = to;
                self.write_run()?;
            }
            to = end;
        }
        self.put(&bytes[from..to]);
        Ok(())
    }

    fn put(&mut self, rows: &[u8]) {
        self.area[self.filled..self.filled + rows.len()].copy_from_slice(rows);
        self.filled += rows.len();
    }

    /// Writes the rows of the area, in order.
    fn write_run(&mut self) -> Result<()> {
        let forming = self.forming;
        let (job, shape) = (forming.job, forming.level.shape());
        if self.filled == 0 {
            return Ok(());
        }
        let units = self.filled as u64;
        let index_bytes = shape.index_bytes(shape.blocks_of(units));
        let held = job.budget.reserve(INDEX, index_bytes)?;
        let run = forming.level.add(units)?;
        let volume = forming.level.volume();
        let mut writes = Transfers::new(volume)?;
        let writer = RunWriter::new(job, volume, shape, &run, &self.buffers, &mut writes);
        let check = || forming.thread_group.check();
        forming.sizes.write_sorted(
            forming.rule,
            &self.area[..self.filled],
            &mut self.space,
            writer,
            check,
        )?;
        let mut done = forming.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push((run, held));
        drop(done);
        job.control.advance(units);
        self.filled = 0;
        Ok(())
    }
}

fn too_long(job: &Job, row_bytes: u64, row_bytes_max: u64) -> Error {
    let cause = format!(
        "a row has {}, but this memory has room for only {}",
        units::bytes(row_bytes),
        units::bytes(row_bytes_max)
    );
    let allow = allow_for_item(job, row_bytes, row_bytes_max);
    Error::new(Kind::Memory, "sort rows", cause).hint(format!(
        "{allow}, or leave the long column out with --columns"
    ))
}
