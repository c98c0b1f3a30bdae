//! Breadth-first search, level by level, from one vertex or several.
//!
//! Contract: [`Search`] has each vertex's distance from the nearest source, in edges, and its
//! parent: the smallest of its neighbours that are one level nearer. For unreached vertices, both
//! are [`NO_VERTEX`]; a source is its own parent. Edges are followed in their direction.
//!
//! Source: the direction-optimizing search of Beamer, Asanovic and Patterson (SC 2012),
//! semi-external: top-down steps read the lists of the frontier, bottom-up steps all tiles
//! ([`crate::graph::frontier`]).
//!
//! Bounds: twelve bytes and a bit per vertex. The edges of each vertex are read once; a level with
//! many vertices reads all edges.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use serde::{Deserialize, Serialize};

use crate::format::NO_VERTEX;
use crate::graph::frontier::Frontiers;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, numbers, values};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "breadth-first search";
/// A level that reaches at most 1/`NOTED_SHARE` of the vertices collects them. A level that reaches
/// more finds them afterwards by a scan, in order.
const NOTED_SHARE: usize = 64;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The number of edges from the nearest source.
    pub levels: Vec<u32>,
    /// The previous vertex on a shortest path.
    pub parents: Vec<u32>,
}

/// A search between two levels.
struct Searching {
    levels: Vec<AtomicU32>,
    parents: Vec<AtomicU32>,
    reached: Reached,
}

/// The last level that a search has reached.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Reached {
    level: u32,
}

impl PassState for Searching {
    const NAME: &'static str = KERNEL;
    type Facts = Reached;

    fn facts(&self) -> Reached {
        self.reached
    }

    fn take(&mut self, facts: Reached) {
        self.reached = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![
            Column::Atomic32(&self.levels),
            Column::Atomic32(&self.parents),
        ]
    }
}

impl Searching {
    /// Begins at `sources`, which ascend.
    fn from(vertices: usize, sources: &[u32]) -> Self {
        let levels = numbers(vertices, |_| NO_VERTEX);
        let parents = numbers(vertices, |_| NO_VERTEX);
        for source in sources {
            levels[*source as usize].store(0, Ordering::Relaxed);
            parents[*source as usize].store(*source, Ordering::Relaxed);
        }
        Searching {
            levels,
            parents,
            reached: Reached { level: 0 },
        }
    }
}

/// Searches from `source`.
///
/// # Errors
/// As [`bfs_from`].
pub fn bfs(job: &Job, graph: &Graph, source: u32) -> Result<Search> {
    bfs_from(job, graph, &[source])
}

/// Searches from all `sources` at once; they may be in any order.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a source that is not a vertex and for no sources,
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn bfs_from(job: &Job, graph: &Graph, sources: &[u32]) -> Result<Search> {
    let vertices = graph.vertices();
    if sources.is_empty() {
        let cause = "there is no source to start from";
        return Err(Error::usage(KERNEL, cause).hint("name a vertex, or several"));
    }
    if let Some(source) = sources.iter().find(|source| **source as usize >= vertices) {
        let cause = format!("the source {source} is not a vertex: there are {vertices}");
        return Err(Error::usage(KERNEL, cause));
    }
    let beside_bytes = Frontiers::bytes(vertices);
    let _state = State::planned(
        job,
        graph,
        KERNEL,
        EdgeReads::Frontiers,
        StateBytes::new(12, beside_bytes),
    )?;
    let mut frontiers = Frontiers::new(job, graph)?;
    let mut frontier = sources.to_vec();
    frontier.sort_unstable();
    frontier.dedup();
    let mut search = Searching::from(vertices, &frontier);
    if job.restore_state(&mut search)? {
        frontier = at_level(&search.levels, search.reached.level);
    }
    while !frontier.is_empty() {
        job.control.begin_phase("search", graph.tile_bytes());
        let level = search.reached.level + 1;
        let next = Next::new(vertices);
        let (levels, parents) = (&search.levels, &search.parents);
        frontiers.edges_of(&frontier, Direction::Out, |from, to| {
            let place = &levels[to as usize];
            let found = place.load(Ordering::Relaxed);
            if found < level {
                return;
            }
            if found == NO_VERTEX {
                let first =
                    place.compare_exchange(NO_VERTEX, level, Ordering::Relaxed, Ordering::Relaxed);
                if first.is_ok() {
                    next.note(to);
                }
            }
            // The first parent of a vertex is usually the final one.
            let parent = &parents[to as usize];
            if parent.load(Ordering::Relaxed) > from {
                parent.fetch_min(from, Ordering::Relaxed);
            }
        })?;
        frontier = next.in_order(levels, level);
        search.reached.level = level;
        job.keep_state(&mut search)?;
    }
    Ok(Search {
        levels: values(search.levels),
        parents: values(search.parents),
    })
}

/// The vertices of a level, in order.
fn at_level(levels: &[AtomicU32], level: u32) -> Vec<u32> {
    let is_here = |vertex: &u32| levels[*vertex as usize].load(Ordering::Relaxed) == level;
    (0..levels.len() as u32).filter(is_here).collect()
}

/// The vertices that a level reaches.
struct Next {
    noted: Mutex<Vec<u32>>,
    noted_max: usize,
    are_more: AtomicBool,
}

impl Next {
    fn new(vertices: usize) -> Self {
        Next {
            noted: Mutex::default(),
            noted_max: vertices / NOTED_SHARE,
            are_more: AtomicBool::new(false),
        }
    }

    fn note(&self, vertex: u32) {
        if self.are_more.load(Ordering::Relaxed) {
            return;
        }
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        match noted.len() < self.noted_max {
            true => noted.push(vertex),
            false => self.are_more.store(true, Ordering::Relaxed),
        }
    }

    fn in_order(self, levels: &[AtomicU32], level: u32) -> Vec<u32> {
        if self.are_more.into_inner() {
            return at_level(levels, level);
        }
        let mut noted = self
            .noted
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        noted.sort_unstable();
        noted
    }
}
