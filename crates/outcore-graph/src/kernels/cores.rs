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

use outcore::{Error, Job, Result};
use outcore_io::units;

use crate::graph::frontier::Frontiers;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "k-core";
/// The degree of a removed vertex.
const GONE: u32 = u32::MAX;

/// A graph that is being peeled.
struct Peeling<'g> {
    job: &'g Job,
    graph: &'g Graph,
    frontiers: Frontiers<'g>,
    /// The number of edges to remaining vertices.
    degrees: Vec<AtomicU32>,
    _state: State,
}

impl<'g> Peeling<'g> {
    fn new(job: &'g Job, graph: &'g Graph) -> Result<Self> {
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
        Ok(Peeling {
            job,
            graph,
            frontiers: Frontiers::new(job, graph)?,
            degrees: degrees.into_iter().map(AtomicU32::new).collect(),
            _state: state,
        })
    }

    fn degree(&self, vertex: u32) -> u32 {
        self.degrees[vertex as usize].load(Ordering::Relaxed)
    }

    /// Removes `going`, and then all vertices with at most `most` edges; reports each to `gone`.
    fn take_out(
        &mut self,
        mut going: Vec<u32>,
        most: u32,
        mut gone: impl FnMut(u32),
    ) -> Result<()> {
        while !going.is_empty() {
            self.job
                .control
                .begin_phase("peel", self.graph.tile_bytes());
            for vertex in &going {
                self.degrees[*vertex as usize].store(GONE, Ordering::Relaxed);
                gone(*vertex);
            }
            let next = Mutex::new(Vec::new());
            let degrees = &self.degrees;
            self.frontiers
                .edges_of(&going, Direction::Both, |_, other| {
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
            going = next.into_inner().unwrap_or_else(PoisonError::into_inner);
            going.sort_unstable();
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
    let mut peeling = Peeling::new(job, graph)?;
    let mut cores = vec![0; graph.vertices()];
    let mut left: Vec<u32> = (0..graph.vertices() as u32).collect();
    let mut core = 0;
    loop {
        left.retain(|vertex| peeling.degree(*vertex) != GONE);
        let Some(least) = left.iter().map(|vertex| peeling.degree(*vertex)).min() else {
            return Ok(cores);
        };
        core = least.max(core);
        let going = left.iter().copied();
        let going = going
            .filter(|vertex| peeling.degree(*vertex) <= core)
            .collect();
        peeling.take_out(going, core, |vertex| cores[vertex as usize] = core)?;
    }
}

/// Returns for each vertex whether it is in the k-core: 1 or 0.
///
/// # Errors
/// As [`core_numbers`].
pub fn k_core(job: &Job, graph: &Graph, k: u32) -> Result<Vec<u32>> {
    let mut peeling = Peeling::new(job, graph)?;
    let mut members = vec![1; graph.vertices()];
    if let Some(most) = k.checked_sub(1) {
        let all = 0..graph.vertices() as u32;
        let going = all
            .filter(|vertex| peeling.degree(*vertex) <= most)
            .collect();
        peeling.take_out(going, most, |vertex| members[vertex as usize] = 0)?;
    }
    Ok(members)
}
