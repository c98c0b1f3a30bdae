//! All lists of a graph in one direction, in memory.
//!
//! Contract: [`ResidentLists::load`] reads the lists in one pass, if the job has the memory. The
//! edges of frontiers are then looked up without a read. They are the same edges as in the files.
//!
//! Bounds: eight bytes per vertex and four per neighbour, and eight more per neighbour with
//! weights, reserved in the job's memory; four more per vertex during loading.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use outcore::{Job, Result};
use outcore_io::memory::Reservation;
use outcore_io::threads::together;

use super::held::READING_BYTES;
use super::{Direction, Graph};
use crate::format::Part;
use crate::format::list::alone_max;

/// Up to this many edges, one thread is faster than starting several.
const EDGES_FEW: u64 = 1 << 14;
/// Vertices that a thread takes at a time.
const VERTICES_AT_ONCE: usize = 256;

/// Lists in memory; see the module.
#[derive(Debug)]
pub(crate) struct ResidentLists {
    /// The start of each list, followed by the end of the last one.
    starts: Vec<u64>,
    neighbours: Vec<u32>,
    /// One weight per neighbour; empty without weights.
    weights: Vec<f64>,
    mean_weight: Option<f64>,
    _held: Reservation,
}

impl ResidentLists {
    /// Loads the lists of `part`, if the job has the memory for them.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn load(job: &Job, graph: &Graph, part: Part) -> Result<Option<Self>> {
        let direction = match part {
            Part::In => Direction::In,
            Part::Out | Part::Tiles => Direction::Out,
        };
        let vertices = graph.vertices() as u64;
        let count = graph.neighbours();
        let weighted = u64::from(graph.manifest().weighted);
        let bytes = 8 * (vertices + 1) + count * (4 + 8 * weighted);
        let reading_bytes = 4 * vertices + READING_BYTES;
        if job.budget.free_bytes() < bytes + reading_bytes {
            return Ok(None);
        }
        let held = job.budget.reserve("lists in memory", bytes)?;
        let starts = {
            let _degrees = job.budget.reserve("degrees", 4 * vertices)?;
            let degrees = graph.degrees(job, direction)?;
            let mut starts = Vec::with_capacity(degrees.len() + 1);
            let mut at = 0;
            starts.push(at);
            starts.extend(degrees.iter().map(|degree| {
                at += u64::from(*degree);
                at
            }));
            starts
        };
        if starts.last() != Some(&count) {
            // Stored degrees are capped, so the length of a very long list is unknown.
            return Ok(None);
        }
        let neighbours: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
        let weights: Vec<AtomicU64> = (0..count * weighted).map(|_| AtomicU64::new(0)).collect();
        let longest = alone_max(graph.manifest().weights()) as u64;
        let index = graph.index(part);
        graph.each_list_of(job, part, |block, list| {
            let first = index.blocks_of(list.vertex).start as u64;
            // All blocks of a long list are full, except for the last.
            let place = starts[list.vertex as usize] + (block - first) * longest;
            let at = place as usize..place as usize + list.neighbours.len();
            let (Some(places), Some(end)) = (
                neighbours.get(at.clone()),
                starts.get(list.vertex as usize + 1),
            ) else {
                return Err(graph.damaged_list(part, list.vertex));
            };
            if at.end as u64 > *end {
                return Err(graph.damaged_list(part, list.vertex));
            }
            for (place, neighbour) in places.iter().zip(list.neighbours) {
                place.store(*neighbour, Ordering::Relaxed);
            }
            if let Some(places) = weights.get(at) {
                let values = list.weights.values(list.neighbours.len());
                for (place, weight) in places.iter().zip(values) {
                    place.store(weight.to_bits(), Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        let weights = weights.into_iter().map(AtomicU64::into_inner);
        let weights: Vec<f64> = weights.map(f64::from_bits).collect();
        let sum: f64 = weights.iter().sum();
        Ok(Some(ResidentLists {
            starts,
            neighbours: neighbours.into_iter().map(AtomicU32::into_inner).collect(),
            mean_weight: (!weights.is_empty()).then(|| sum / weights.len() as f64),
            weights,
            _held: held,
        }))
    }

    /// The mean weight, for a graph with weights.
    pub(crate) fn mean_weight(&self) -> Option<f64> {
        self.mean_weight
    }

    /// Calls `visit` with each edge of a vertex, as (that vertex, the other end, the weight).
    fn show(&self, vertex: u32, visit: &impl Fn(u32, u32, f64)) {
        let from = self.starts[vertex as usize] as usize;
        let to = self.starts[vertex as usize + 1] as usize;
        let neighbours = &self.neighbours[from..to];
        match self.weights.get(from..to) {
            Some(weights) if !self.weights.is_empty() => {
                for (other, weight) in neighbours.iter().zip(weights) {
                    visit(vertex, *other, *weight);
                }
            }
            _ => neighbours
                .iter()
                .for_each(|other| visit(vertex, *other, 1.0)),
        }
    }

    /// Calls `visit` with each edge of the vertices of `frontier`, on several threads if there are
    /// many.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn edges_of(
        &self,
        job: &Job,
        frontier: &[u32],
        visit: &(impl Fn(u32, u32, f64) + Sync),
    ) -> Result<()> {
        let degree = |vertex: &u32| {
            let vertex = *vertex as usize;
            self.starts[vertex + 1] - self.starts[vertex]
        };
        let threads = job.options.threads.max(1);
        let mut edges = 0;
        let are_few = frontier.iter().all(|vertex| {
            edges += degree(vertex);
            edges <= EDGES_FEW
        });
        if are_few || threads == 1 {
            frontier.iter().for_each(|vertex| self.show(*vertex, visit));
            return job.control.check();
        }
        let parts = Mutex::new(frontier.chunks(VERTICES_AT_ONCE));
        let work = |_: usize| {
            loop {
                job.control.check()?;
                let part = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(part) = part else {
                    return Ok(());
                };
                part.iter().for_each(|vertex| self.show(*vertex, visit));
            }
        };
        let done = together("outcore-graph", threads, work)?;
        done.into_iter().collect::<Result<Vec<()>>>().map(drop)
    }
}
