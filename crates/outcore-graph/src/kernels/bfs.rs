//! Breadth-first search, level by level, from one vertex or several.
//!
//! Contract: [`Search`] has each vertex's distance from the nearest source in edges, and its parent: of all neighbours that are
//! one level nearer, the smallest. Vertices that are not reached have [`NO_VERTEX`] for both; a source is its
//! own parent. Edges are followed in their direction.
//!
//! Source: the direction-optimizing search of Beamer, Asanovic and Patterson (SC 2012), semi-external: top-down reads
//! the lists of the frontier, bottom-up all tiles ([`crate::graph::frontier`]).
//!
//! Bounds: twelve bytes and a bit a vertex; the edges of each vertex are read once, or all at a level with many.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use outcore::{Error, Job, Result};

use crate::format::NO_VERTEX;
use crate::graph::frontier::Frontiers;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, numbers, values};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "breadth-first search";

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The number of edges from the nearest source.
    pub levels: Vec<u32>,
    /// The vertex before it on a shortest path.
    pub parents: Vec<u32>,
}

/// Searches from `source`.
///
/// # Errors
/// As [`bfs_from`].
pub fn bfs(job: &Job, graph: &Graph, source: u32) -> Result<Search> {
    bfs_from(job, graph, &[source])
}

/// Searches from all of `sources` at once, in any order.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a source that is not a vertex and where there is none, [`outcore::Kind::Memory`] if the state
/// does not fit; what reading fails with.
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
        (KERNEL, EdgeReads::Frontiers),
        (12, beside_bytes),
    )?;
    let mut frontiers = Frontiers::new(job, graph)?;
    let levels = numbers(vertices, |_| NO_VERTEX);
    let parents = numbers(vertices, |_| NO_VERTEX);
    let mut frontier = sources.to_vec();
    frontier.sort_unstable();
    frontier.dedup();
    for source in &frontier {
        levels[*source as usize].store(0, Ordering::Relaxed);
        parents[*source as usize].store(*source, Ordering::Relaxed);
    }
    let mut level = 0;
    while !frontier.is_empty() {
        job.control.begin_phase("search", graph.tile_bytes());
        level += 1;
        let next = Mutex::new(Vec::new());
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
                    let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                    next.push(to);
                }
            }
            parents[to as usize].fetch_min(from, Ordering::Relaxed);
        })?;
        frontier = next.into_inner().unwrap_or_else(PoisonError::into_inner);
        frontier.sort_unstable();
    }
    Ok(Search {
        levels: values(levels),
        parents: values(parents),
    })
}
