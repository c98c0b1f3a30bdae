//! Strongly connected components: vertices that reach each other along the directions of edges.
//!
//! Contract: each vertex is labelled with the smallest vertex of its component. In undirected
//! graphs these are the connected components.
//!
//! Source: the parts of Multistep (Slota, Rajamanickam, Madduri, IPDPS 2014) that need no pivot.
//! Both steps are repeated until no vertex is left.
//!
//! - *Trim* (McLendon et al., 2005): a vertex without incoming or without outgoing edges is a
//!   component by itself. It is removed, and so are the vertices for which this becomes true.
//! - *Colour* (Orzan, 2004): each remaining vertex takes the smallest vertex that reaches it. A
//!   vertex that keeps its own colour is the smallest of its component, which consists of the
//!   vertices of its colour that reach it.
//!
//! Bounds: twenty-four bytes and some bits per vertex. Every edge is read when its ends are
//! removed, and once more each time a colour passes along it. A round finds all components without
//! incoming edges from others. The number of rounds is at most the length of the longest chain of
//! components with more than one vertex.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::{Job, Result};

use super::components;
use crate::format::NO_VERTEX;
use crate::graph::frontier::{Frontiers, VertexSet};
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, numbers, values};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "strongly connected components";

/// Returns the smallest vertex of each vertex's strongly connected component.
///
/// # Errors
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn strong_components(job: &Job, graph: &Graph) -> Result<Vec<u32>> {
    if !graph.manifest().directed {
        return components(job, graph);
    }
    let vertices = graph.vertices();
    let beside_bytes = Frontiers::bytes(vertices) + vertices.div_ceil(8) as u64;
    let _state = State::planned(
        job,
        graph,
        KERNEL,
        EdgeReads::Frontiers,
        StateBytes::new(24, beside_bytes),
    )?;
    let mut search = Search::new(job, graph)?;
    let all = 0..vertices as u32;
    let alone = all
        .filter(|vertex| search.is_left(*vertex) && search.is_at_end(*vertex))
        .collect();
    search.take_out(alone)?;
    loop {
        let left = 0..vertices as u32;
        let left: Vec<u32> = left.filter(|vertex| search.is_left(*vertex)).collect();
        if left.is_empty() {
            return Ok(values(search.labels));
        }
        search.colour(&left)?;
        let found = search.gather(&left)?;
        search.take_out(found)?;
    }
}

/// The state of each vertex.
struct Search<'g> {
    job: &'g Job,
    graph: &'g Graph,
    frontiers: Frontiers<'g>,
    /// The smallest vertex of its component, once that is known.
    labels: Vec<AtomicU32>,
    colours: Vec<AtomicU32>,
    /// The number of edges to other remaining vertices, and from them.
    out: Vec<AtomicU32>,
    incoming: Vec<AtomicU32>,
    /// Vertices of the next frontier.
    next: VertexSet,
}

impl<'g> Search<'g> {
    fn new(job: &'g Job, graph: &'g Graph) -> Result<Self> {
        let counts = |direction| -> Result<Vec<AtomicU32>> {
            let degrees = graph.degrees(job, direction)?;
            Ok(degrees.into_iter().map(AtomicU32::new).collect())
        };
        let search = Search {
            job,
            graph,
            frontiers: Frontiers::new(job, graph)?,
            labels: numbers(graph.vertices(), |_| NO_VERTEX),
            colours: numbers(graph.vertices(), |_| NO_VERTEX),
            out: counts(Direction::Out)?,
            incoming: counts(Direction::In)?,
            next: VertexSet::new(graph.vertices()),
        };
        if graph.manifest().loops > 0 {
            // An edge from a vertex to itself does not count.
            graph.scan(job, |segment| {
                for (target, source) in segment.edges().filter(|(to, from)| to == from) {
                    search.out[source].fetch_sub(1, Ordering::Relaxed);
                    search.incoming[target].fetch_sub(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
        }
        Ok(search)
    }

    fn is_left(&self, vertex: u32) -> bool {
        self.labels[vertex as usize].load(Ordering::Relaxed) == NO_VERTEX
    }

    /// Whether a vertex has no incoming or no outgoing edges.
    fn is_at_end(&self, vertex: u32) -> bool {
        let count = |counts: &[AtomicU32]| counts[vertex as usize].load(Ordering::Relaxed);
        count(&self.out) == 0 || count(&self.incoming) == 0
    }

    /// Removes vertices and their edges, and then all vertices that are components by themselves.
    fn take_out(&mut self, mut going: Vec<u32>) -> Result<()> {
        while !going.is_empty() {
            self.job
                .control
                .begin_phase("trim", self.graph.tile_bytes());
            for vertex in &going {
                let label = &self.labels[*vertex as usize];
                let _ = label.compare_exchange(
                    NO_VERTEX,
                    *vertex,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            let next = Mutex::new(Vec::new());
            let (labels, is_new) = (&self.labels, &self.next);
            let ways = [(Direction::Out, &self.incoming), (Direction::In, &self.out)];
            for (direction, counts) in ways {
                self.frontiers.edges_of(&going, direction, |from, to| {
                    if from == to {
                        return;
                    }
                    let was = counts[to as usize].fetch_sub(1, Ordering::Relaxed);
                    let is_left = labels[to as usize].load(Ordering::Relaxed) == NO_VERTEX;
                    if was == 1 && is_left && is_new.insert(to) {
                        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                        next.push(to);
                    }
                })?;
            }
            going = self.ascending(next);
        }
        Ok(())
    }

    /// Returns the collected vertices in order; they can be collected again.
    fn ascending(&self, collected: Mutex<Vec<u32>>) -> Vec<u32> {
        let mut vertices = collected
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        vertices.sort_unstable();
        vertices.iter().for_each(|vertex| self.next.remove(*vertex));
        vertices
    }

    /// Gives each remaining vertex the smallest vertex that reaches it.
    fn colour(&mut self, left: &[u32]) -> Result<()> {
        for vertex in left {
            self.colours[*vertex as usize].store(*vertex, Ordering::Relaxed);
        }
        let mut frontier = left.to_vec();
        while !frontier.is_empty() {
            self.job
                .control
                .begin_phase("colour", self.graph.tile_bytes());
            let next = Mutex::new(Vec::new());
            let (labels, colours, is_new) = (&self.labels, &self.colours, &self.next);
            self.frontiers
                .edges_of(&frontier, Direction::Out, |from, to| {
                    if labels[to as usize].load(Ordering::Relaxed) != NO_VERTEX {
                        return;
                    }
                    let colour = colours[from as usize].load(Ordering::Relaxed);
                    let was = colours[to as usize].fetch_min(colour, Ordering::Relaxed);
                    if was > colour && is_new.insert(to) {
                        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                        next.push(to);
                    }
                })?;
            frontier = self.ascending(next);
        }
        Ok(())
    }

    /// Labels the components of the vertices that kept their own colour, and returns all their
    /// vertices.
    fn gather(&mut self, left: &[u32]) -> Result<Vec<u32>> {
        let colour = |vertex: u32| self.colours[vertex as usize].load(Ordering::Relaxed);
        let mut frontier: Vec<u32> = left
            .iter()
            .copied()
            .filter(|vertex| colour(*vertex) == *vertex)
            .collect();
        for vertex in &frontier {
            self.labels[*vertex as usize].store(*vertex, Ordering::Relaxed);
        }
        let mut found = frontier.clone();
        while !frontier.is_empty() {
            self.job
                .control
                .begin_phase("gather", self.graph.tile_bytes());
            let next = Mutex::new(Vec::new());
            let (labels, colours) = (&self.labels, &self.colours);
            self.frontiers
                .edges_of(&frontier, Direction::In, |to, from| {
                    let colour = colours[to as usize].load(Ordering::Relaxed);
                    if colours[from as usize].load(Ordering::Relaxed) != colour {
                        return;
                    }
                    let first = labels[from as usize].compare_exchange(
                        NO_VERTEX,
                        colour,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    if first.is_ok() {
                        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                        next.push(from);
                    }
                })?;
            frontier = self.ascending(next);
            found.extend_from_slice(&frontier);
        }
        found.sort_unstable();
        Ok(found)
    }
}
