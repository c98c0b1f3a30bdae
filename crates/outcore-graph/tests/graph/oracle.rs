//! Algorithms in memory that are too simple to be wrong.
//!
//! Contract: each follows the definition and nothing else; speed does not matter.

use std::collections::{BTreeSet, VecDeque};

use outcore_graph::convert::ConvertOptions;
use outcore_graph::format::NO_VERTEX;

/// The given edges that a graph stores, in the order of its tiles.
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

/// Lists of neighbours with weights, in no order.
pub(crate) fn weighted_lists(
    (vertices, edges, weights): (u32, &[[u32; 2]], &[f32]),
    is_undirected: bool,
) -> Vec<Vec<(u32, f32)>> {
    let mut lists = vec![Vec::new(); vertices as usize];
    for ([from, to], weight) in edges.iter().zip(weights) {
        lists[*from as usize].push((*to, *weight));
        if is_undirected && from != to {
            lists[*to as usize].push((*from, *weight));
        }
    }
    lists
}

/// The smallest vertex of each vertex's component.
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
pub(crate) fn bfs(lists: &[Vec<u32>], sources: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut levels = vec![NO_VERTEX; lists.len()];
    let mut parents = vec![NO_VERTEX; lists.len()];
    let mut open = VecDeque::new();
    for source in sources {
        if levels[*source as usize] == NO_VERTEX {
            (levels[*source as usize], parents[*source as usize]) = (0, *source);
            open.push_back(*source);
        }
    }
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

/// Lists in which all weights are 1.
pub(crate) fn alike(lists: &[Vec<u32>]) -> Vec<Vec<(u32, f32)>> {
    let list = |list: &Vec<u32>| list.iter().map(|to| (*to, 1.0)).collect();
    lists.iter().map(list).collect()
}

/// This many iterations of PageRank in floats, by weight.
pub(crate) fn pagerank(
    lists: &[Vec<(u32, f32)>],
    alpha: f64,
    iterations: u32,
    jumps: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let total = |list: &Vec<(u32, f32)>| list.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let totals: Vec<f64> = lists.iter().map(total).collect();
    let share = 1.0 / lists.len() as f64;
    let mut ranks = vec![share; lists.len()];
    for _ in 0..iterations {
        let mut next = vec![0.0; lists.len()];
        let mut dangling = 0.0;
        for ((rank, list), total) in ranks.iter().zip(lists).zip(&totals) {
            if *total == 0.0 {
                dangling += rank;
                continue;
            }
            for (to, weight) in list {
                next[*to as usize] += rank * (f64::from(*weight) / total);
            }
        }
        let jumping = 1.0 - alpha + alpha * dangling;
        let next = next.iter().enumerate();
        ranks = next
            .map(|(vertex, sum)| jumping * jumps(vertex) + alpha * sum)
            .collect();
    }
    ranks
}

/// Core numbers: repeatedly removes a vertex of the least degree.
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

/// The smallest vertex of each strongly connected component, with two searches (Kosaraju).
pub(crate) fn strong_components(vertices: u32, edges: &[[u32; 2]]) -> Vec<u32> {
    let forth = lists(vertices, edges, false);
    let turned: Vec<[u32; 2]> = edges.iter().map(|[from, to]| [*to, *from]).collect();
    let back = lists(vertices, &turned, false);
    let mut order = Vec::new();
    let mut is_seen = vec![false; vertices as usize];
    for first in 0..vertices {
        let mut open = vec![(first, 0)];
        while let Some((vertex, place)) = open.pop() {
            if place == 0 && std::mem::replace(&mut is_seen[vertex as usize], true) {
                continue;
            }
            match forth[vertex as usize].get(place) {
                Some(next) => open.extend([(vertex, place + 1), (*next, 0)]),
                None => order.push(vertex),
            }
        }
    }
    let mut labels = vec![NO_VERTEX; vertices as usize];
    for first in order.into_iter().rev() {
        let (mut open, mut members) = (vec![first], Vec::new());
        while let Some(vertex) = open.pop() {
            if labels[vertex as usize] == NO_VERTEX {
                labels[vertex as usize] = first;
                members.push(vertex);
                open.extend(&back[vertex as usize]);
            }
        }
        let least = members.iter().copied().min().unwrap_or(NO_VERTEX);
        members
            .iter()
            .for_each(|vertex| labels[*vertex as usize] = least);
    }
    labels
}

/// The number of triangles that contain each vertex.
pub(crate) fn triangles(vertices: u32, edges: &[[u32; 2]]) -> Vec<u64> {
    let sets: Vec<BTreeSet<u32>> = lists(vertices, edges, true)
        .into_iter()
        .map(BTreeSet::from_iter)
        .collect();
    let mut counts = vec![0; vertices as usize];
    for (one, set) in sets.iter().enumerate() {
        for other in set.range(one as u32 + 1..) {
            let (few, many) = match set.len() < sets[*other as usize].len() {
                true => (set, &sets[*other as usize]),
                false => (&sets[*other as usize], set),
            };
            for third in few.range(other + 1..).filter(|third| many.contains(third)) {
                counts[one] += 1;
                counts[*other as usize] += 1;
                counts[*third as usize] += 1;
            }
        }
    }
    counts
}

/// The lengths of shortest paths (Dijkstra, without a heap).
pub(crate) fn shortest_paths(lists: &[Vec<(u32, f32)>], source: u32) -> Vec<f64> {
    let mut lengths = vec![f64::INFINITY; lists.len()];
    lengths[source as usize] = 0.0;
    let mut open: Vec<u32> = vec![source];
    while let Some(place) = (0..open.len())
        .min_by(|a, b| lengths[open[*a] as usize].total_cmp(&lengths[open[*b] as usize]))
    {
        let vertex = open.swap_remove(place);
        for (to, weight) in &lists[vertex as usize] {
            let length = lengths[vertex as usize] + f64::from(*weight);
            if length < lengths[*to as usize] {
                lengths[*to as usize] = length;
                if !open.contains(to) {
                    open.push(*to);
                }
            }
        }
    }
    lengths
}

/// The share of the other vertices that reach each vertex, divided by their mean distance, with a
/// search from each.
pub(crate) fn closeness(lists: &[Vec<u32>]) -> Vec<f64> {
    let mut reached = vec![(0_u64, 0_u64); lists.len()];
    for source in 0..lists.len() {
        let mut distances = vec![None; lists.len()];
        distances[source] = Some(0_u64);
        let mut queue = std::collections::VecDeque::from([source]);
        while let Some(from) = queue.pop_front() {
            let distance = distances[from].unwrap_or(0);
            if from != source {
                reached[from].0 += 1;
                reached[from].1 += distance;
            }
            for to in &lists[from] {
                if distances[*to as usize].is_none() {
                    distances[*to as usize] = Some(distance + 1);
                    queue.push_back(*to as usize);
                }
            }
        }
    }
    let others = lists.len().saturating_sub(1) as f64;
    let measure = |(count, distance): (u64, u64)| match distance {
        0 => 0.0,
        _ => count as f64 / distance as f64 * (count as f64 / others),
    };
    reached.into_iter().map(measure).collect()
}

/// Hubs and authorities after this many iterations in floats, normalized as in networkx.
pub(crate) fn hits(lists: &[Vec<u32>], iterations: u32) -> (Vec<f64>, Vec<f64>) {
    let whole_is_one = |values: &mut Vec<f64>| {
        let whole: f64 = values.iter().sum();
        values
            .iter_mut()
            .for_each(|value| *value /= if whole > 0.0 { whole } else { 1.0 });
    };
    let mut hubs = vec![1.0 / lists.len() as f64; lists.len()];
    let mut authorities = Vec::new();
    for _ in 0..iterations {
        authorities = vec![0.0; lists.len()];
        for (hub, list) in hubs.iter().zip(lists) {
            list.iter().for_each(|to| authorities[*to as usize] += hub);
        }
        let of_list = |list: &Vec<u32>| list.iter().map(|to| authorities[*to as usize]).sum();
        hubs = lists.iter().map(of_list).collect();
        whole_is_one(&mut hubs);
        whole_is_one(&mut authorities);
    }
    (hubs, authorities)
}

/// The first vertex whose own label is less frequent among its neighbours than another label.
pub(crate) fn discontent(vertices: u32, edges: &[[u32; 2]], labels: &[u32]) -> Option<u32> {
    let lists = lists(vertices, edges, true);
    (0..vertices).find(|vertex| {
        let mut times = std::collections::HashMap::new();
        let others = lists[*vertex as usize]
            .iter()
            .filter(|other| *other != vertex);
        others.for_each(|other| *times.entry(labels[*other as usize]).or_insert(0) += 1);
        let of_own = times.get(&labels[*vertex as usize]).copied().unwrap_or(0);
        times.values().any(|count| *count > of_own)
    })
}

/// The modularity of a partition: the share of weight inside communities, minus the expected share.
pub(crate) fn modularity(edges: &[([u32; 2], f64)], labels: &[u32], resolution: f64) -> f64 {
    let (mut inside, mut whole) = (0.0, 0.0);
    let mut totals = vec![0.0; labels.len()];
    for ([one, other], weight) in edges {
        whole += 2.0 * weight;
        let (one, other) = (labels[*one as usize], labels[*other as usize]);
        totals[one as usize] += weight;
        totals[other as usize] += weight;
        inside += if one == other { 2.0 * weight } else { 0.0 };
    }
    let expected = totals.iter().map(|total| (total / whole) * (total / whole));
    inside / whole - resolution * expected.sum::<f64>()
}
