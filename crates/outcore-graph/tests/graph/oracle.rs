//! Algorithms in memory that are too simple to be wrong.
//!
//! Contract: each follows the definition and nothing else; time does not matter.

use std::collections::{BTreeSet, VecDeque};

use outcore_graph::convert::ConvertOptions;
use outcore_graph::format::NO_VERTEX;

/// The edges that a graph has of those that were given, in the order of its tiles.
pub(crate) fn stored(edges: &[[u32; 2]], options: &ConvertOptions) -> Vec<[u32; 2]> {
    let turned = edges.iter().map(|[from, to]| match options.is_undirected {
        true => [*from.min(to), *from.max(to)],
        false => [*from, *to],
    });
    let mut kept: Vec<[u32; 2]> = turned
        .filter(|[from, to]| !options.drop_loops || from != to)
        .collect();
    kept.sort_by_key(|[from, to]| (to >> 16, from >> 16, *to, *from));
    if options.dedup {
        kept.dedup();
    }
    kept
}

/// Lists of neighbours, ascending.
pub(crate) fn lists(vertices: u32, edges: &[[u32; 2]], is_undirected: bool) -> Vec<Vec<u32>> {
    let mut lists = vec![Vec::new(); vertices as usize];
    for [from, to] in edges {
        lists[*from as usize].push(*to);
        if is_undirected && from != to {
            lists[*to as usize].push(*from);
        }
    }
    lists.iter_mut().for_each(|list| list.sort_unstable());
    lists
}

/// The smallest vertex that each is connected with.
pub(crate) fn components(vertices: u32, edges: &[[u32; 2]]) -> Vec<u32> {
    let lists = lists(vertices, edges, true);
    let mut labels = vec![NO_VERTEX; vertices as usize];
    for first in 0..vertices {
        let mut open = vec![first];
        while let Some(vertex) = open.pop() {
            if labels[vertex as usize] == NO_VERTEX {
                labels[vertex as usize] = first;
                open.extend(&lists[vertex as usize]);
            }
        }
    }
    labels
}

/// Levels and least parents.
pub(crate) fn bfs(lists: &[Vec<u32>], source: u32) -> (Vec<u32>, Vec<u32>) {
    let mut levels = vec![NO_VERTEX; lists.len()];
    let mut parents = vec![NO_VERTEX; lists.len()];
    let mut open = VecDeque::from([source]);
    (levels[source as usize], parents[source as usize]) = (0, source);
    while let Some(vertex) = open.pop_front() {
        for other in &lists[vertex as usize] {
            let level = levels[vertex as usize] + 1;
            if levels[*other as usize] == NO_VERTEX {
                levels[*other as usize] = level;
                open.push_back(*other);
            }
            if levels[*other as usize] == level {
                let parent = &mut parents[*other as usize];
                *parent = (*parent).min(vertex);
            }
        }
    }
    (levels, parents)
}

/// So many iterations of PageRank in floats.
pub(crate) fn pagerank(lists: &[Vec<u32>], alpha: f64, iterations: u32) -> Vec<f64> {
    let share = 1.0 / lists.len() as f64;
    let mut ranks = vec![share; lists.len()];
    for _ in 0..iterations {
        let mut next = vec![0.0; lists.len()];
        let mut dangling = 0.0;
        for (rank, list) in ranks.iter().zip(lists) {
            match list.is_empty() {
                true => dangling += rank,
                false => list
                    .iter()
                    .for_each(|to| next[*to as usize] += rank / list.len() as f64),
            }
        }
        let jump = (1.0 - alpha) * share + alpha * dangling * share;
        ranks = next.iter().map(|sum| jump + alpha * sum).collect();
    }
    ranks
}

/// Core numbers: the vertex of the least degree goes, one after another.
pub(crate) fn cores(vertices: u32, edges: &[[u32; 2]]) -> Vec<u32> {
    let lists = lists(vertices, edges, true);
    let mut degrees: Vec<usize> = lists.iter().map(Vec::len).collect();
    let mut cores = vec![0; vertices as usize];
    let mut left: BTreeSet<(usize, u32)> = (0..vertices)
        .map(|vertex| (degrees[vertex as usize], vertex))
        .collect();
    let mut core = 0;
    while let Some((degree, vertex)) = left.pop_first() {
        core = core.max(degree);
        cores[vertex as usize] = core as u32;
        for other in &lists[vertex as usize] {
            let degree = &mut degrees[*other as usize];
            if left.remove(&(*degree, *other)) {
                *degree -= 1;
                left.insert((*degree, *other));
            }
        }
    }
    cores
}
