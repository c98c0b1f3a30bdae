//! Converts edges that the caller reads ([`EdgeRows`]).
//!
//! Contract: edges between numbers are written to one file of pairs in a private directory, in no
//! order; nothing later depends on the order. Edges between names become rows of the sort that
//! numbers the names ([`super::named`]); the row number of an edge is its place.
//!
//! Bounds: the memory that the reader states; one write of 16 bytes per edge, or 24 with a weight.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::sort::lines::rows::{RowBatch, RowSource, TakeRows};
use outcore::{Input, Job, Result};
use outcore_io::threads::together;

use super::named::{BATCH_BYTES, push_ends, relabel_rows};
use super::relabel::Relabelled;
use crate::edges::EdgeFiles;
use crate::edges::item::ItemShape;
use crate::edges::rows::{EdgeBatch, EdgeRows};
use crate::format::weight::WeightType;
use outcore::primitives::appended::append_to;

/// Writes edges between numbers to a file of pairs.
pub(super) fn read_numbers(job: &Job, rows: &dyn EdgeRows, scratch: &Path) -> Result<EdgeFiles> {
    job.device.sweep_private_dirs(scratch)?;
    let dir = job.device.make_private_dir(scratch)?;
    let path = std::path::absolute(dir.path().join("part-0")).unwrap_or_default();
    let shape = ItemShape::new(true, rows.weights());
    // One more than the largest id, or 0 for none.
    let vertices = AtomicU64::new(0);
    let _held = job.budget.reserve("edges of tables", rows.memory_bytes())?;
    job.control.begin_phase("read", rows.count());
    append_to(job, &path, |pairs| {
        let pairs = Mutex::new(pairs);
        let work = |_: usize| {
            let mut items: Vec<u64> = Vec::new();
            rows.make(&mut |batch, _| {
                job.control.check()?;
                items.clear();
                let mut largest = 0;
                batch.each(rows.weights(), |edge| {
                    largest = edge.source.max(edge.target).max(largest);
                    items.extend([edge.source, edge.target]);
                    if shape.weights().is_some() {
                        items.push(edge.weight);
                    }
                })?;
                if !items.is_empty() {
                    vertices.fetch_max(largest.saturating_add(1), Ordering::Relaxed);
                }
                let mut pairs = pairs.lock().unwrap_or_else(PoisonError::into_inner);
                pairs.append(bytemuck::cast_slice(&items))
            })
        };
        let done = together("outcore-graph", job.options.threads.max(1), work)?;
        done.into_iter().collect::<Result<Vec<()>>>().map(drop)
    })?;
    Ok(EdgeFiles {
        inputs: vec![Input::raw(&path)],
        shape,
        vertices: None,
        largest: vertices.into_inner().checked_sub(1),
        is_undirected: false,
        is_mixed: false,
        is_signed: false,
        // Nonzero, so that the largest id counts as known.
        parsed_bytes: rows.read_bytes().max(1),
        skipped: 0,
        _scratch: Some(dir),
    })
}

/// Numbers the names of the edges.
pub(super) fn relabel_given(job: &Job, rows: &dyn EdgeRows, scratch: &Path) -> Result<Relabelled> {
    let mut sampled = Sampled::default();
    rows.sample(&mut |batch, _| sampled.take(batch, rows.weights()))?;
    let source = GivenRows { rows, sampled };
    let mut found = relabel_rows(job, &source, rows.weights(), scratch)?;
    found.read_bytes += rows.read_bytes();
    Ok(found)
}

/// Rows of a sample.
#[derive(Default)]
struct Sampled {
    batches: Vec<RowBatch>,
    rows_bytes: usize,
    edges_count: u64,
}

impl Sampled {
    fn take(&mut self, batch: &EdgeBatch<'_>, weights: Option<WeightType>) -> Result<()> {
        let mut rows = RowBatch::default();
        batch.each_named(weights, |index, edge| {
            self.edges_count += 1;
            push_ends(&mut rows, edge, index as u64, weights)
        })?;
        self.rows_bytes += rows.bytes();
        self.batches.push(rows);
        Ok(())
    }
}

/// Edges as rows of the sort.
struct GivenRows<'a> {
    rows: &'a dyn EdgeRows,
    sampled: Sampled,
}

impl RowSource for GivenRows<'_> {
    fn data_bytes(&self) -> u64 {
        let edge_bytes = self.sampled.rows_bytes as f64 / self.sampled.edges_count.max(1) as f64;
        (self.rows.count() as f64 * edge_bytes) as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.rows.memory_bytes()
    }

    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        self.sampled
            .batches
            .iter()
            .try_for_each(|rows| take(rows, 0))
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let mut rows = RowBatch::default();
        self.rows.make(&mut |batch, number| {
            batch.each_named(self.rows.weights(), |index, edge| {
                let place = number + index as u64;
                push_ends(&mut rows, edge, place, self.rows.weights())?;
                if rows.bytes() >= BATCH_BYTES {
                    take(&rows, 0)?;
                    rows.clear();
                }
                Ok(())
            })
        })?;
        match rows.is_empty() {
            true => Ok(()),
            false => take(&rows, 0),
        }
    }
}
