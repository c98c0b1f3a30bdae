//! Closeness centrality: how near each vertex is to the vertices from which it can be reached.
//!
//! Contract: closeness is defined as in networkx (Wasserman and Faust). For a vertex, take the
//! sources other than itself. Its closeness is the share of these sources that reach it, divided by
//! the mean distance from those that do, in edges. A vertex that no source reaches has closeness 0.
//! Edges are followed in their direction, and each has length 1. If all vertices are sources, the
//! result is exact. With fewer sources, the seed determines the set of sources; each set of that
//! size is equally likely. The result has the same bytes for any threads and memory.
//!
//! Source: the sampling of Eppstein and Wang, "Fast Approximation of Centrality" (SODA 2001). 64
//! searches run at once, with one bit each, as in "The More the Merrier" (Then et al., VLDB 2014),
//! semi-externally ([`crate::graph::frontier`]).
//!
//! Bounds: forty bytes and a bit per vertex. For each 64 sources, the lists of the vertices that a
//! level reaches, or all tiles for a level with many vertices.

use std::sync::atomic::{AtomicU64, Ordering};

use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use outcore_io::journal::Progress;

use super::sampling::{Draw, without_repeats};
use crate::graph::frontier::Frontiers;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, sums};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "closeness";
/// Searches that run at once.
const SEARCHES: usize = 64;
const VERTEX_BYTES: usize = 40;

/// The sources of the searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosenessOptions {
    /// The number of sources; at most all vertices.
    pub sources_count: u32,
    /// Determines which vertices are sources.
    pub seed: u64,
}

impl Default for ClosenessOptions {
    fn default() -> Self {
        ClosenessOptions {
            sources_count: 256,
            seed: 1,
        }
    }
}

/// Computes the closeness of each vertex.
///
/// # Errors
/// [`outcore::Kind::Usage`] for no sources, [`outcore::Kind::Memory`] if the state does not fit;
/// errors of reading.
pub fn closeness(job: &Job, graph: &Graph, options: ClosenessOptions) -> Result<Vec<f64>> {
    if options.sources_count == 0 {
        return Err(Error::usage(KERNEL, "there is no source").hint("set sources to at least 1"));
    }
    let vertices = graph.vertices();
    let beside_bytes = Frontiers::bytes(vertices);
    let state = StateBytes::new(VERTEX_BYTES, beside_bytes);
    let _state = State::planned(job, graph, KERNEL, EdgeReads::Frontiers, state)?;
    let mut draw = Draw::of(options.seed, 0, 0);
    let sources = without_repeats(&mut draw, vertices as u32, options.sources_count);
    let mut summed = Summed {
        distances: vec![0; vertices],
        found: vec![0; vertices],
        batches: 0,
        batches_count: sources.len().div_ceil(SEARCHES),
    };
    job.restore_state(&mut summed)?;
    let mut searches = Searches {
        frontiers: Frontiers::new(job, graph)?,
        seen: vec![0; vertices],
        newest: vec![0; vertices],
        next: sums(vertices),
    };
    for batch in sources.chunks(SEARCHES).skip(summed.batches) {
        searches.run(job, graph, batch, |vertex, searches, level| {
            summed.distances[vertex] += u64::from(searches) * u64::from(level);
            summed.found[vertex] += searches;
        })?;
        summed.batches += 1;
        job.keep_state(&mut summed)?;
    }
    let Summed {
        distances, found, ..
    } = summed;
    let mut is_source = sources.iter().peekable();
    let measures = (0..vertices).map(|vertex| {
        let own = is_source.next_if(|source| **source as usize == vertex);
        let others = sources.len() - usize::from(own.is_some());
        let (found, distance) = (f64::from(found[vertex]), distances[vertex] as f64);
        match distance > 0.0 {
            true => found / distance * (found / others as f64),
            false => 0.0,
        }
    });
    Ok(measures.collect())
}

/// The sums of all searches so far.
struct Summed {
    /// The sum of the distances of the sources that reach each vertex, and their number.
    distances: Vec<u64>,
    found: Vec<u32>,
    /// The number of finished batches of searches, and the number of all batches.
    batches: usize,
    batches_count: usize,
}

impl PassState for Summed {
    const NAME: &'static str = KERNEL;
    /// The number of finished batches of searches.
    type Facts = usize;

    fn facts(&self) -> usize {
        self.batches
    }

    fn take(&mut self, facts: usize) {
        self.batches = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::of(&mut self.distances), Column::of(&mut self.found)]
    }

    fn progress(&self) -> Progress {
        Progress {
            done_bytes: self.batches as u64,
            total_bytes: self.batches_count as u64,
        }
    }
}

/// Searches from up to 64 sources at once: bit i of a vertex's word belongs to the search from
/// source i.
struct Searches<'g> {
    frontiers: Frontiers<'g>,
    /// The searches that have reached each vertex.
    seen: Vec<u64>,
    /// The searches that reached each vertex at the current level.
    newest: Vec<u64>,
    /// The searches that reach each vertex at the next level, and some that reached it before.
    next: Vec<AtomicU64>,
}

impl Searches<'_> {
    /// Searches from `sources`; reports how many searches reach each vertex at each level.
    fn run(
        &mut self,
        job: &Job,
        graph: &Graph,
        sources: &[u32],
        mut tell: impl FnMut(usize, u32, u32),
    ) -> Result<()> {
        self.seen.fill(0);
        for (bit, source) in sources.iter().enumerate() {
            self.seen[*source as usize] = 1 << bit;
            self.newest[*source as usize] = 1 << bit;
        }
        let mut frontier = sources.to_vec();
        let mut level = 0;
        while !frontier.is_empty() {
            job.control.begin_phase("search", graph.tile_bytes());
            level += 1;
            let (seen, newest, next) = (&self.seen, &self.newest, &self.next);
            self.frontiers
                .edges_of(&frontier, Direction::Out, |from, to| {
                    let new = newest[from as usize] & !seen[to as usize];
                    let place = &next[to as usize];
                    if new & !place.load(Ordering::Relaxed) != 0 {
                        place.fetch_or(new, Ordering::Relaxed);
                    }
                })?;
            for vertex in frontier.drain(..) {
                self.newest[vertex as usize] = 0;
            }
            for (vertex, place) in self.next.iter_mut().enumerate() {
                let new = std::mem::take(place.get_mut());
                if new != 0 {
                    self.seen[vertex] |= new;
                    self.newest[vertex] = new;
                    tell(vertex, new.count_ones(), level);
                    frontier.push(vertex as u32);
                }
            }
        }
        Ok(())
    }
}
