//! Shortest paths from a source or several, by the weights of edges.
//!
//! Contract: each vertex gets the least sum of weights of a path from a source to it, added up from the source on in 64-bit
//! floats; infinity if there is none. A graph without weights has edges of weight 1. Edges are followed in their direction.
//! A weight that is negative or not a number is an error that names the edge, where it is met.
//!
//! Source: Bellman-Ford by frontiers, as Ligra has it (Shun, Blelloch, PPoPP 2013, section 4.5): the vertices whose distance
//! fell tell their neighbours, until none falls any more. Adding a weight keeps the order of distances, rounded or not, so
//! the least sums are the same whatever the order in which edges are met.
//!
//! Bounds: sixteen bytes and two bits a vertex; rounds are at most the edges of the longest of these paths, each reads the
//! lists of the frontier, or all tiles where that is less.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::{Error, Job, Result};

use crate::graph::frontier::{Frontiers, VertexSet};
use crate::graph::plan::EdgeReads;
use crate::graph::state::State;
use crate::graph::weights::WeightCheck;
use crate::graph::{Direction, Graph};

const KERNEL: &str = "shortest paths";

/// The length of the shortest path from `source` to each vertex.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a source that is not a vertex and for a weight below 0 or not a number,
/// [`outcore::Kind::Memory`] if the state does not fit; what reading fails with.
pub fn shortest_paths(job: &Job, graph: &Graph, source: u32) -> Result<Vec<f64>> {
    shortest_paths_from(job, graph, &[source])
}

/// The length of the shortest path from the nearest of `sources` to each vertex.
///
/// # Errors
/// As [`shortest_paths`]; [`outcore::Kind::Usage`] for no source.
pub fn shortest_paths_from(job: &Job, graph: &Graph, sources: &[u32]) -> Result<Vec<f64>> {
    let vertices = graph.vertices();
    if sources.is_empty() {
        return Err(Error::usage(KERNEL, "no source is named").hint("name one vertex or several"));
    }
    if let Some(source) = sources.iter().find(|source| **source as usize >= vertices) {
        let cause = format!("the source {source} is not a vertex: there are {vertices}");
        return Err(Error::usage(KERNEL, cause).hint("name vertices of the graph"));
    }
    let beside_bytes = Frontiers::bytes(vertices) + vertices.div_ceil(8) as u64;
    let _state = State::planned(
        job,
        graph,
        (KERNEL, EdgeReads::Frontiers),
        (16, beside_bytes),
    )?;
    let mut frontiers = Frontiers::new(job, graph)?;
    // The bits of floats that are not negative are in the order of the floats.
    let infinity = f64::INFINITY.to_bits();
    let distances: Vec<AtomicU64> = (0..vertices).map(|_| AtomicU64::new(infinity)).collect();
    for source in sources {
        distances[*source as usize].store(0, Ordering::Relaxed);
    }
    let fallen = VertexSet::new(vertices);
    let weights = WeightCheck::default();
    let mut frontier = sources.to_vec();
    frontier.sort_unstable();
    frontier.dedup();
    while !frontier.is_empty() {
        job.control.begin_phase("paths", graph.tile_bytes());
        let next = Mutex::new(Vec::new());
        frontiers.weighted_edges_of(&frontier, Direction::Out, |from, to, weight| {
            if !weights.accepts(from as usize, to as usize, weight) {
                return;
            }
            let before = f64::from_bits(distances[from as usize].load(Ordering::Relaxed));
            let bits = (before + f64::from(weight)).to_bits();
            if distances[to as usize].fetch_min(bits, Ordering::Relaxed) > bits && fallen.insert(to)
            {
                let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                next.push(to);
            }
        })?;
        let hint = "convert the edges again with weights of 0 or more";
        weights.finish((job, graph), (KERNEL, hint))?;
        frontier = next.into_inner().unwrap_or_else(PoisonError::into_inner);
        frontier.sort_unstable();
        frontier.iter().for_each(|vertex| fallen.remove(*vertex));
    }
    let distances = distances.into_iter().map(AtomicU64::into_inner);
    Ok(distances.map(f64::from_bits).collect())
}
