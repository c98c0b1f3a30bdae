//! Breadth-first search over edges that do not fit in memory; the vertices do.
//!
//! The search is semi-external: memory holds a depth per vertex, and the edges are on the drives in
//! any order. Each level reads all edges once, and keeps those from the frontier to a vertex that
//! was not seen. It is a map, a filter and a collect in one pass.

use std::path::Path;

use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::primitives::{Sequence, collect, read};

/// The depth of each of `count` vertices below `source` along `edges`, pairs (from, to) of `u32`;
/// nothing for vertices that cannot be reached.
///
/// # Errors
/// The errors of the passes.
pub fn bfs(job: &Job, edges: &Path, count: usize, source: u32) -> Result<Vec<Option<u32>>> {
    let mut depths: Vec<Option<u32>> = vec![None; count];
    let mut frontier = vec![source];
    let mut depth = 0;
    while !frontier.is_empty() {
        for vertex in frontier.drain(..) {
            depths[vertex as usize] = Some(depth);
        }
        let is_next = |[from, to]: &[u32; 2]| {
            depths[*from as usize] == Some(depth) && depths[*to as usize].is_none()
        };
        let reached = read::<[u32; 2]>(&[Input::raw(edges)])
            .filter(is_next)
            .map(|[_, to]| to);
        frontier = collect(job, &reached)?;
        frontier.sort_unstable();
        frontier.dedup();
        depth += 1;
    }
    Ok(depths)
}
