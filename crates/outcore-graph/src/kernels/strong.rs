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

use outcore::states::{Column, PassState};
use outcore::{Job, Result};
use serde::{Deserialize, Serialize};

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
    loop {
        match search.round.facts.step {
            Step::Trim => {
                search.take_out()?;
                if !search.round.begin_colours() {
                    return Ok(values(search.round.labels));
                }
            }
            Step::Colour => {
                search.colour()?;
                search.round.begin_gathering();
            }
            Step::Gather => {
                search.gather()?;
                search.round.begin_trimming();
            }
        }
    }
}

/// The step of a round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Step {
    Trim,
    Colour,
    Gather,
}

/// A round between two passes.
struct Round {
    /// The smallest vertex of its component, once that is known.
    labels: Vec<AtomicU32>,
    colours: Vec<AtomicU32>,
    /// The number of edges to other remaining vertices, and from them.
    out: Vec<AtomicU32>,
    incoming: Vec<AtomicU32>,
    /// The vertices whose edges the next pass reads.
    frontier: Vec<u32>,
    /// The vertices of the components that this round has found.
    found: Vec<u32>,
    facts: Facts,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Facts {
    step: Step,
    frontier_count: usize,
    found_count: usize,
}

impl PassState for Round {
    const NAME: &'static str = KERNEL;
    type Facts = Facts;

    fn facts(&self) -> Facts {
        Facts {
            step: self.facts.step,
            frontier_count: self.frontier.len(),
            found_count: self.found.len(),
        }
    }

    fn take(&mut self, facts: Facts) {
        self.facts = facts;
        self.frontier = vec![0; facts.frontier_count];
        self.found = vec![0; facts.found_count];
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![
            Column::Atomic32(&self.labels),
            Column::Atomic32(&self.colours),
            Column::Atomic32(&self.out),
            Column::Atomic32(&self.incoming),
            Column::of(&mut self.frontier),
            Column::of(&mut self.found),
        ]
    }
}

impl Round {
    /// Before the first pass; [`Round::begin`] completes it.
    fn new(vertices: usize) -> Self {
        Round {
            labels: numbers(vertices, |_| NO_VERTEX),
            colours: numbers(vertices, |_| NO_VERTEX),
            out: numbers(vertices, |_| 0),
            incoming: numbers(vertices, |_| 0),
            frontier: Vec::new(),
            found: Vec::new(),
            facts: Facts {
                step: Step::Trim,
                frontier_count: 0,
                found_count: 0,
            },
        }
    }

    /// Counts the edges, and begins with the vertices that are components by themselves.
    fn begin(&mut self, job: &Job, graph: &Graph) -> Result<()> {
        for (counts, direction) in [(&self.out, Direction::Out), (&self.incoming, Direction::In)] {
            for (count, degree) in counts.iter().zip(graph.degrees(job, direction)?) {
                count.store(degree, Ordering::Relaxed);
            }
        }
        if graph.manifest().loops > 0 {
            // An edge from a vertex to itself does not count.
            graph.scan(job, |segment| {
                for (target, source) in segment.edges().filter(|(to, from)| to == from) {
                    self.out[source].fetch_sub(1, Ordering::Relaxed);
                    self.incoming[target].fetch_sub(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
        }
        self.frontier = self.left();
        let (out, incoming) = (&self.out, &self.incoming);
        let count = |counts: &[AtomicU32], at: u32| counts[at as usize].load(Ordering::Relaxed);
        self.frontier
            .retain(|vertex| count(out, *vertex) == 0 || count(incoming, *vertex) == 0);
        Ok(())
    }

    fn left(&self) -> Vec<u32> {
        let label = |vertex: &u32| self.labels[*vertex as usize].load(Ordering::Relaxed);
        let all = 0..self.labels.len() as u32;
        all.filter(|vertex| label(vertex) == NO_VERTEX).collect()
    }

    /// Gives each remaining vertex its own colour; whether there is any.
    fn begin_colours(&mut self) -> bool {
        self.frontier = self.left();
        for vertex in &self.frontier {
            self.colours[*vertex as usize].store(*vertex, Ordering::Relaxed);
        }
        self.facts.step = Step::Colour;
        !self.frontier.is_empty()
    }

    /// Labels the vertices that kept their own colour.
    fn begin_gathering(&mut self) {
        let colours = &self.colours;
        let colour = |vertex: u32| colours[vertex as usize].load(Ordering::Relaxed);
        self.frontier = self.left();
        self.frontier.retain(|vertex| colour(*vertex) == *vertex);
        for vertex in &self.frontier {
            self.labels[*vertex as usize].store(*vertex, Ordering::Relaxed);
        }
        self.found.clone_from(&self.frontier);
        self.facts.step = Step::Gather;
    }

    /// The vertices that were found go next.
    fn begin_trimming(&mut self) {
        self.frontier = std::mem::take(&mut self.found);
        self.frontier.sort_unstable();
        self.facts.step = Step::Trim;
    }
}

/// The search for components.
struct Search<'g> {
    job: &'g Job,
    graph: &'g Graph,
    frontiers: Frontiers<'g>,
    round: Round,
    /// Vertices of the next frontier.
    next: VertexSet,
}

impl<'g> Search<'g> {
    fn new(job: &'g Job, graph: &'g Graph) -> Result<Self> {
        let mut round = Round::new(graph.vertices());
        if !job.restore_state(&mut round)? {
            round.begin(job, graph)?;
        }
        Ok(Search {
            job,
            graph,
            frontiers: Frontiers::new(job, graph)?,
            round,
            next: VertexSet::new(graph.vertices()),
        })
    }

    /// Ends a pass that has collected the vertices of the next one.
    fn end_pass(&mut self, collected: Mutex<Vec<u32>>) -> Result<()> {
        self.round.frontier = self.ascending(collected);
        if let Step::Gather = self.round.facts.step {
            self.round.found.extend_from_slice(&self.round.frontier);
        }
        self.job.keep_state(&mut self.round)
    }

    /// Removes vertices and their edges, and then all vertices that are components by themselves.
    fn take_out(&mut self) -> Result<()> {
        while !self.round.frontier.is_empty() {
            self.job
                .control
                .begin_phase("trim", self.graph.tile_bytes());
            for vertex in &self.round.frontier {
                let label = &self.round.labels[*vertex as usize];
                let _ = label.compare_exchange(
                    NO_VERTEX,
                    *vertex,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            let next = Mutex::new(Vec::new());
            let Round {
                labels,
                out,
                incoming,
                frontier,
                ..
            } = &self.round;
            let is_new = &self.next;
            for (direction, counts) in [(Direction::Out, incoming), (Direction::In, out)] {
                self.frontiers.edges_of(frontier, direction, |from, to| {
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
            self.end_pass(next)?;
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
    fn colour(&mut self) -> Result<()> {
        while !self.round.frontier.is_empty() {
            self.job
                .control
                .begin_phase("colour", self.graph.tile_bytes());
            let next = Mutex::new(Vec::new());
            let (labels, colours) = (&self.round.labels, &self.round.colours);
            let (frontier, is_new) = (&self.round.frontier, &self.next);
            self.frontiers
                .edges_of(frontier, Direction::Out, |from, to| {
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
            self.end_pass(next)?;
        }
        Ok(())
    }

    /// Labels the components of the vertices that kept their own colour.
    fn gather(&mut self) -> Result<()> {
        while !self.round.frontier.is_empty() {
            self.job
                .control
                .begin_phase("gather", self.graph.tile_bytes());
            let next = Mutex::new(Vec::new());
            let (labels, colours) = (&self.round.labels, &self.round.colours);
            let frontier = &self.round.frontier;
            self.frontiers
                .edges_of(frontier, Direction::In, |to, from| {
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
            self.end_pass(next)?;
        }
        Ok(())
    }
}
