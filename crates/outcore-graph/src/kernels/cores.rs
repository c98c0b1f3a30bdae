//! Core numbers: repeatedly removes vertices of small degree.
//!
//! Contract: the k-core is the largest part of the graph in which each vertex has at least k edges
//! to the others. The core number of a vertex is the largest k whose core contains it. Edge
//! directions are ignored (both ends count, as in networkx). Edges from a vertex to itself are
//! rejected; each parallel edge counts.
//!
//! Source: peeling by degree, Matula and Beck (JACM 1983), in rounds as in Julienne (Dhulipala,
//! Blelloch, Shun, SPAA 2017). All vertices of the least degree are removed at once, and their
//! edges are read once ([`crate::graph::frontier`]).
//!
//! Bounds: sixteen bytes and a bit per vertex. The edges of each vertex are read once; a round with
//! many vertices reads all edges.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use outcore_io::units;
use serde::{Deserialize, Serialize};

use crate::graph::frontier::Frontiers;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "k-core";
/// The degree that marks a removed vertex.
const GONE: u32 = u32::MAX;

/// A graph that is being peeled.
struct Peeling<'g> {
    job: &'g Job,
    graph: &'g Graph,
    frontiers: Frontiers<'g>,
    peeled: Peeled,
    _state: State,
}

/// The rest of a graph, and the results of the vertices that have gone.
struct Peeled {
    /// The number of edges to remaining vertices.
    degrees: Vec<AtomicU32>,
    /// The result of each vertex.
    found: Vec<u32>,
    /// The vertices that go next, in order.
    going: Vec<u32>,
    /// A vertex goes if it has at most this many edges.
    most: u32,
}

/// The figures of a peeling in progress, as its kept state has them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Peak {
    going_count: usize,
    most: u32,
}

impl PassState for Peeled {
    const NAME: &'static str = KERNEL;
    type Facts = Peak;

    fn facts(&self) -> Peak {
        Peak {
            going_count: self.going.len(),
            most: self.most,
        }
    }

    fn take(&mut self, facts: Peak) {
        self.going = vec![0; facts.going_count];
        self.most = facts.most;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![
            Column::Atomic32(&self.degrees),
            Column::of(&mut self.found),
            Column::of(&mut self.going),
        ]
    }
}

impl Peeled {
    fn degree(&self, vertex: u32) -> u32 {
        self.degrees[vertex as usize].load(Ordering::Relaxed)
    }
}

impl<'g> Peeling<'g> {
    /// Begins with the result `found` for each vertex, or continues a killed run.
    fn new(job: &'g Job, graph: &'g Graph, found: u32) -> Result<Self> {
        let manifest = graph.manifest();
        if manifest.loops > 0 {
            let cause = format!(
                "it has {} from a vertex to itself; cores are not defined for such edges",
                units::counted(manifest.loops, "edge")
            );
            return Err(Error::usage(KERNEL, cause)
                .path(graph.dir())
                .hint("convert the edges again with --drop-loops"));
        }
        let beside_bytes = Frontiers::bytes(graph.vertices());
        let state = State::planned(
            job,
            graph,
            KERNEL,
            EdgeReads::Frontiers,
            StateBytes::new(16, beside_bytes),
        )?;
        let degrees = graph.degrees(job, Direction::Both)?;
        let mut peeled = Peeled {
            degrees: degrees.into_iter().map(AtomicU32::new).collect(),
            found: vec![found; graph.vertices()],
            going: Vec::new(),
            most: 0,
        };
        job.restore_state(&mut peeled)?;
        Ok(Peeling {
            job,
            graph,
            frontiers: Frontiers::new(job, graph)?,
            peeled,
            _state: state,
        })
    }

    /// Removes the vertices that go, and then all vertices that are left with at most
    /// [`Peeled::most`] edges. Each gets the result `found`.
    fn take_out(&mut self, found: u32) -> Result<()> {
        while !self.peeled.going.is_empty() {
            self.job
                .control
                .begin_phase("peel", self.graph.tile_bytes());
            let most = self.peeled.most;
            let peeled = &mut self.peeled;
            for vertex in &peeled.going {
                peeled.degrees[*vertex as usize].store(GONE, Ordering::Relaxed);
                peeled.found[*vertex as usize] = found;
            }
            let next = Mutex::new(Vec::new());
            let degrees = &self.peeled.degrees;
            self.frontiers
                .edges_of(&self.peeled.going, Direction::Both, |_, other| {
                    let less = |degree: u32| (degree != GONE).then(|| degree.saturating_sub(1));
                    let before = degrees[other as usize].fetch_update(
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                        less,
                    );
                    if before == Ok(most.saturating_add(1)) {
                        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                        next.push(other);
                    }
                })?;
            let mut going = next.into_inner().unwrap_or_else(PoisonError::into_inner);
            going.sort_unstable();
            self.peeled.going = going;
            self.job.keep_state(&mut self.peeled)?;
        }
        Ok(())
    }
}

/// Computes the core number of each vertex.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a graph with edges from a vertex to itself,
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn core_numbers(job: &Job, graph: &Graph) -> Result<Vec<u32>> {
    let mut peeling = Peeling::new(job, graph, 0)?;
    let mut left: Vec<u32> = (0..graph.vertices() as u32).collect();
    loop {
        // A killed run may have left vertices that are still to be removed.
        peeling.take_out(peeling.peeled.most)?;
        let peeled = &mut peeling.peeled;
        left.retain(|vertex| peeled.degree(*vertex) != GONE);
        let Some(least) = left.iter().map(|vertex| peeled.degree(*vertex)).min() else {
            return Ok(peeling.peeled.found);
        };
        peeled.most = least.max(peeled.most);
        let going = left.iter().copied();
        let going = going.filter(|vertex| peeled.degree(*vertex) <= peeled.most);
        peeled.going = going.collect();
    }
}

/// Returns for each vertex whether it is in the k-core: 1 or 0.
///
/// # Errors
/// As [`core_numbers`].
pub fn k_core(job: &Job, graph: &Graph, k: u32) -> Result<Vec<u32>> {
    let mut peeling = Peeling::new(job, graph, 1)?;
    if let Some(most) = k.checked_sub(1) {
        peeling.take_out(0)?;
        let peeled = &mut peeling.peeled;
        peeled.most = most;
        let all = 0..graph.vertices() as u32;
        let is_going = |vertex: &u32| {
            let degree = peeled.degree(*vertex);
            degree != GONE && degree <= most
        };
        peeled.going = all.filter(is_going).collect();
        peeling.take_out(0)?;
    }
    Ok(peeling.peeled.found)
}
