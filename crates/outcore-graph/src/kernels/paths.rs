//! Shortest paths from one or several sources, by the weights of edges.
//!
//! Contract: each vertex gets the least sum of weights of a path from a source, added in 64-bit
//! floats from the source outwards; infinity if there is no path. In a graph without weights, edges
//! have weight 1. Edges are followed in their direction. A weight that is negative or not a number
//! is an error that reports the edge, if the search meets it.
//!
//! Source: Bellman-Ford by frontiers, as in Ligra (Shun, Blelloch, PPoPP 2013, section 4.5):
//! vertices whose distance fell notify their neighbours, until no distance falls. Once the lists
//! are in memory and edges have weights, the search uses delta-stepping (Meyer, Sanders,
//! "Delta-stepping: a parallelizable shortest path algorithm", 2003). Among the vertices whose
//! distance fell, those below a bound go first; the bound grows by a step when there are none left.
//! Therefore, a vertex rarely passes on a distance that falls again later. If the lists are on the
//! drives, each round costs reads, so all vertices go at once. Adding a weight preserves the order
//! of distances, with or without rounding, so the least sums do not depend on the order of edges.
//!
//! Bounds: twenty bytes and four bits per vertex; each round reads the lists of the frontier, or
//! all tiles if that is cheaper. Lists in memory need no reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};

use crate::format::weight::{WHOLE_MAX, WeightType};
use crate::graph::frontier::{Frontiers, VertexSet};
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes};
use crate::graph::weights::WeightCheck;
use crate::graph::{Direction, Graph};

const KERNEL: &str = "shortest paths";

/// Computes the length of the shortest path from `source` to each vertex.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a source that is not a vertex and for a weight below 0 or not a
/// number, [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn shortest_paths(job: &Job, graph: &Graph, source: u32) -> Result<Vec<f64>> {
    shortest_paths_from(job, graph, &[source])
}

/// Computes the length of the shortest path from the nearest of `sources` to each vertex.
///
/// # Errors
/// As [`shortest_paths`]; [`outcore::Kind::Usage`] for no sources.
pub fn shortest_paths_from(job: &Job, graph: &Graph, sources: &[u32]) -> Result<Vec<f64>> {
    let vertices = graph.vertices();
    if sources.is_empty() {
        return Err(Error::usage(KERNEL, "no source is given").hint("name one vertex or several"));
    }
    if let Some(source) = sources.iter().find(|source| **source as usize >= vertices) {
        let cause = format!("the source {source} is not a vertex: there are {vertices}");
        return Err(Error::usage(KERNEL, cause).hint("name vertices of the graph"));
    }
    let beside_bytes = Frontiers::bytes(vertices) + 3 * vertices.div_ceil(8) as u64;
    let _state = State::planned(
        job,
        graph,
        KERNEL,
        EdgeReads::Frontiers,
        StateBytes::new(20, beside_bytes),
    )?;
    let mut frontiers = Frontiers::new(job, graph)?;
    let mut search = Searching::from(vertices, sources);
    job.restore_state(&mut search)?;
    let weights = WeightCheck::default();
    while let Some(frontier) = search.next(frontiers.mean_weight()) {
        job.control.begin_phase("paths", graph.tile_bytes());
        let next = Mutex::new(Vec::new());
        let Searching { distances, waiting } = &search;
        let (fallen, queued) = (&waiting.fallen, &waiting.queued);
        frontiers.weighted_edges_of(&frontier, Direction::Out, |from, to, weight| {
            if !weights.accepts(from as usize, to as usize, weight) {
                return;
            }
            let before = f64::from_bits(distances[from as usize].load(Ordering::Relaxed));
            let bits = (before + weight).to_bits();
            if distances[to as usize].fetch_min(bits, Ordering::Relaxed) > bits {
                fallen.insert(to);
                if queued.insert(to) {
                    let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                    next.push(to);
                }
            }
        })?;
        let hint = "convert the edges again with weights of 0 or more";
        weights.finish(job, graph, KERNEL, hint)?;
        let next = next.into_inner().unwrap_or_else(PoisonError::into_inner);
        search.met(next);
        job.keep_state(&mut search)?;
    }
    let distances = search.distances.into_iter().map(AtomicU64::into_inner);
    let distances: Vec<f64> = distances.map(f64::from_bits).collect();
    check_whole(graph, &distances)?;
    Ok(distances)
}

/// A search between two rounds.
struct Searching {
    /// The bits of the distances. The bits of nonnegative floats have the same order as the floats.
    distances: Vec<AtomicU64>,
    waiting: Waiting,
}

impl PassState for Searching {
    const NAME: &'static str = KERNEL;
    type Facts = ();

    fn facts(&self) {}

    /// The order in which vertices notify their neighbours does not matter, so all of them go
    /// first.
    fn take(&mut self, (): ()) {
        self.waiting.near.clear();
        self.waiting.is_restored = true;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![
            Column::Atomic64(&self.distances),
            self.waiting.fallen.column(),
        ]
    }
}

impl Searching {
    fn from(vertices: usize, sources: &[u32]) -> Self {
        let infinity = f64::INFINITY.to_bits();
        let distances: Vec<AtomicU64> = (0..vertices).map(|_| AtomicU64::new(infinity)).collect();
        for source in sources {
            distances[*source as usize].store(0, Ordering::Relaxed);
        }
        Searching {
            distances,
            waiting: Waiting::new(vertices, sources),
        }
    }

    /// The vertices of the next round; see [`Waiting::next`].
    fn next(&mut self, step: Option<f64>) -> Option<Vec<u32>> {
        self.waiting.next(&self.distances, step)
    }

    /// Takes the vertices whose distance a round has lowered.
    fn met(&mut self, vertices: Vec<u32>) {
        self.waiting.take(&self.distances, vertices);
    }
}

/// The vertices whose distance fell since they last notified their neighbours.
struct Waiting {
    fallen: VertexSet,
    /// Vertices that the current round has already collected.
    queued: VertexSet,
    /// Vertices below the bound, and all others, each once.
    near: Vec<u32>,
    far: Vec<u32>,
    is_far: VertexSet,
    bound: f64,
    /// Whether all vertices whose distance fell are to be queued, after a kill.
    is_restored: bool,
}

impl Waiting {
    fn new(vertices: usize, sources: &[u32]) -> Self {
        let fallen = VertexSet::new(vertices);
        let mut near = sources.to_vec();
        near.sort_unstable();
        near.dedup();
        near.iter().for_each(|source| _ = fallen.insert(*source));
        Waiting {
            fallen,
            queued: VertexSet::new(vertices),
            near,
            far: Vec::new(),
            is_far: VertexSet::new(vertices),
            bound: f64::INFINITY,
            is_restored: false,
        }
    }

    /// Returns the vertices of the next round, in order; with a step, those below the bound, which
    /// grows by the step.
    fn next(&mut self, distances: &[AtomicU64], step: Option<f64>) -> Option<Vec<u32>> {
        if std::mem::take(&mut self.is_restored) {
            self.near = self.fallen.vertices().collect();
        }
        let distance =
            |vertex: &u32| f64::from_bits(distances[*vertex as usize].load(Ordering::Relaxed));
        // If all weights are 0, any step will do.
        let step = step.filter(|step| *step > 0.0).unwrap_or(f64::INFINITY);
        if step.is_finite() && self.bound.is_infinite() || self.near.is_empty() {
            // A vertex whose distance fell below the bound has notified its neighbours already.
            let mut all = std::mem::take(&mut self.far);
            all.iter().for_each(|vertex| self.is_far.remove(*vertex));
            all.retain(|vertex| self.fallen.contains(*vertex));
            all.append(&mut self.near);
            let least = all.iter().map(distance).fold(f64::INFINITY, f64::min);
            // If distances are so large that a step is rounded away, the least of them go.
            self.bound = (least + step).max(f64::from_bits(least.to_bits() + 1));
            self.put(distances, all);
        }
        let mut frontier = std::mem::take(&mut self.near);
        frontier.sort_unstable();
        frontier.dedup();
        frontier
            .iter()
            .for_each(|vertex| self.fallen.remove(*vertex));
        (!frontier.is_empty()).then_some(frontier)
    }

    /// Takes the vertices whose distance a round has lowered.
    fn take(&mut self, distances: &[AtomicU64], met: Vec<u32>) {
        met.iter().for_each(|vertex| self.queued.remove(*vertex));
        self.put(distances, met);
    }

    fn put(&mut self, distances: &[AtomicU64], vertices: Vec<u32>) {
        for vertex in vertices {
            let distance = f64::from_bits(distances[vertex as usize].load(Ordering::Relaxed));
            if distance < self.bound || self.bound.is_infinite() {
                self.near.push(vertex);
            } else if self.is_far.insert(vertex) {
                self.far.push(vertex);
            }
        }
    }
}

/// Fails for sums of integers that eight-byte floats may have rounded.
fn check_whole(graph: &Graph, distances: &[f64]) -> Result<()> {
    let is_whole = graph.manifest().weights() == Some(WeightType::I64);
    let is_lost = |distance: &&f64| distance.is_finite() && **distance >= WHOLE_MAX;
    match distances.iter().find(is_lost).filter(|_| is_whole) {
        None => Ok(()),
        Some(distance) => {
            let cause =
                format!("a path has the length {distance}, but lengths are exact only below 2^53");
            Err(Error::usage(KERNEL, cause)
                .path(graph.dir())
                .hint("convert the edges again with --weight-type f64, or with smaller weights"))
        }
    }
}
