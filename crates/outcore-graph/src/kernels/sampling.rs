//! Samples neighbours: subgraphs around some vertices, for training on graphs, and random walks.
//!
//! Contract: [`Sampler::neighbours`] samples, hop by hop, a number of neighbours of each vertex
//! that the previous hop added. It samples without repeats, or takes all neighbours if there are no
//! more than that number; each parallel edge can be sampled. [`Sampler::walks`] follows one random
//! edge per step, all equally likely, until there is none. A sample depends only on the graph, the
//! seed and the vertices. The neighbours of a vertex are the same in all samples with one seed, so
//! give each batch and epoch its own seed.
//!
//! Source: neighbour sampling of GraphSAGE (Hamilton, Ying, Leskovec, NIPS 2017, algorithm 2);
//! sampling without repeats by Floyd's method (Bentley, Floyd, CACM 1987).
//!
//! Bounds: the caller's four bytes per vertex for degrees. For a list longer than a block, one
//! block of 4 KiB is read per sampled neighbour; for a shorter list, one block for all of them. All
//! blocks of a hop or step are read together, in order.

use std::collections::HashMap;

use outcore::{Error, Job, Result};
use outcore_io::memory::Reservation;

use crate::format::NO_VERTEX;
use crate::graph::lists::{ListPlace, ListReader};
use crate::graph::plan::{EdgeReads, KernelPlan};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "sample neighbours";
/// Memory for an edge of a sample: its two ends, a vertex, and the vertex's index.
const EDGE_BYTES: u64 = 32;
/// Memory for an edge of a hop while it is read.
const HOP_EDGE_BYTES: u64 = 56;

/// A subgraph around some vertices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample {
    /// Its vertices: the requested ones, followed by those that each hop added.
    pub vertices: Vec<u32>,
    /// For each edge, the index of the sampled neighbour among the vertices.
    pub sources: Vec<u32>,
    /// For each edge, the index of the vertex whose neighbour was sampled.
    pub targets: Vec<u32>,
    /// The number of edges that each hop sampled.
    pub hop_edges: Vec<u64>,
}

/// Samples neighbours of vertices of a graph. See the module.
pub struct Sampler<'g> {
    job: &'g Job,
    graph: &'g Graph,
    degrees: &'g [u32],
    direction: Direction,
    lists: ListReader<'g>,
}

impl<'g> Sampler<'g> {
    /// Creates a sampler for a graph whose vertices have these degrees in a direction.
    ///
    /// # Errors
    /// [`outcore::Kind::Memory`]; [`outcore::Kind::Usage`] for both directions of a directed graph.
    pub fn new(
        job: &'g Job,
        graph: &'g Graph,
        degrees: &'g [u32],
        direction: Direction,
    ) -> Result<Self> {
        if graph.manifest().directed && direction == Direction::Both {
            let cause = "neighbours are drawn along edges or against them, not both";
            return Err(Error::usage(KERNEL, cause).hint("choose one direction"));
        }
        let lists = ListReader::new(job, graph)?;
        let state_bytes = size_of_val(degrees) as u64;
        let beside_bytes = ListReader::BYTES;
        KernelPlan::new(
            job,
            graph,
            KERNEL,
            state_bytes,
            beside_bytes,
            EdgeReads::Drawn,
        )
        .show();
        Ok(Sampler {
            job,
            graph,
            degrees,
            direction,
            lists,
        })
    }

    fn hold(&self, edges: u64, edge_bytes: u64) -> Result<Reservation> {
        self.job.budget.reserve("sampled edges", edges * edge_bytes)
    }

    fn check(&self, vertices: &[u32]) -> Result<()> {
        let all = self.graph.vertices();
        match vertices.iter().find(|vertex| **vertex as usize >= all) {
            None => Ok(()),
            Some(vertex) => {
                let cause = format!("{vertex} is not a vertex: there are {all}");
                Err(Error::usage(KERNEL, cause).hint("name vertices of the graph"))
            }
        }
    }

    /// Samples neighbours around `vertices`. Hop i samples `fanouts[i]` neighbours of each vertex,
    /// or takes all of them if that is `None`.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for a number that is not a vertex, [`outcore::Kind::Memory`] before
    /// a hop whose edges do not fit; errors of reading.
    pub fn neighbours(
        &mut self,
        vertices: &[u32],
        fanouts: &[Option<u32>],
        seed: u64,
    ) -> Result<Sample> {
        self.check(vertices)?;
        let mut sample = Sample::default();
        let mut places: HashMap<u32, u32> = HashMap::with_capacity(vertices.len());
        for &vertex in vertices {
            let place = sample.vertices.len() as u32;
            if *places.entry(vertex).or_insert(place) == place {
                sample.vertices.push(vertex);
            }
        }
        let mut from = 0;
        let mut held = Vec::new();
        for (hop, fanout) in fanouts.iter().enumerate() {
            let mut wanted = Vec::new();
            let to = sample.vertices.len();
            let count_of = |vertex: u32| {
                let degree = self.degrees[vertex as usize];
                fanout.unwrap_or(degree).min(degree)
            };
            let edges = sample.vertices[from..].iter();
            let edges: u64 = edges.map(|vertex| u64::from(count_of(*vertex))).sum();
            held.push(self.hold(edges, EDGE_BYTES)?);
            let _hop = self.hold(edges, HOP_EDGE_BYTES)?;
            for place in from..to {
                let vertex = sample.vertices[place];
                let degree = self.degrees[vertex as usize];
                let count = count_of(vertex);
                let drawn = &mut Draw::of(seed, hop as u64, vertex);
                for at in without_repeats(drawn, degree, count) {
                    wanted.push(ListPlace { vertex, place: at });
                    sample.targets.push(place as u32);
                }
            }
            for neighbour in self.lists.at(&wanted, self.direction)? {
                let place = sample.vertices.len() as u32;
                let place = *places.entry(neighbour).or_insert_with(|| {
                    sample.vertices.push(neighbour);
                    place
                });
                sample.sources.push(place);
            }
            sample.hop_edges.push(wanted.len() as u64);
            from = to;
        }
        Ok(sample)
    }

    /// Returns a walk of `steps` from each of `starts`, as `steps + 1` vertices; those after a dead
    /// end are [`NO_VERTEX`]. Walks from the same start differ.
    ///
    /// # Errors
    /// As [`Sampler::neighbours`].
    pub fn walks(&mut self, starts: &[u32], steps: usize, seed: u64) -> Result<Vec<u32>> {
        self.check(starts)?;
        let width = steps + 1;
        let mut walks = vec![NO_VERTEX; starts.len() * width];
        for (walk, start) in walks.chunks_mut(width).zip(starts) {
            walk[0] = *start;
        }
        for step in 0..steps {
            let (mut walking, mut wanted) = (Vec::new(), Vec::new());
            for (number, walk) in walks.chunks(width).enumerate() {
                let vertex = walk[step];
                if vertex == NO_VERTEX || self.degrees[vertex as usize] == 0 {
                    continue;
                }
                let drawn = &mut Draw::of(seed, number as u64, step as u32);
                let place = drawn.below(self.degrees[vertex as usize]);
                wanted.push(ListPlace { vertex, place });
                walking.push(number);
            }
            for (number, next) in walking.iter().zip(self.lists.at(&wanted, self.direction)?) {
                walks[number * width + step + 1] = next;
            }
        }
        Ok(walks)
    }
}

/// Random numbers from a sequence of numbers (SplitMix64).
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn of(seed: u64, one: u64, other: u32) -> Self {
        let mut draw = Draw(seed);
        draw.0 = draw.next() ^ one;
        draw.0 = draw.next() ^ u64::from(other);
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^ (number >> 31)
    }

    /// A number below `end`; all are equally likely within 2^-32.
    fn below(&mut self, end: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u32
    }
}

/// Draws `count` distinct numbers below `end`, in ascending order.
pub(super) fn without_repeats(draw: &mut Draw, end: u32, count: u32) -> Vec<u32> {
    if count >= end {
        return (0..end).collect();
    }
    let mut drawn: Vec<u32> = Vec::with_capacity(count as usize);
    for last in end - count..end {
        let number = draw.below(last + 1);
        let number = match drawn.binary_search(&number) {
            Ok(_) => last,
            Err(_) => number,
        };
        // `last` is larger than all previous numbers.
        let place = drawn.partition_point(|known| *known < number);
        drawn.insert(place, number);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_once_and_each_is_as_likely() {
        let mut times = vec![0; 20];
        for seed in 0..4_000 {
            let drawn = without_repeats(&mut Draw::of(seed, 1, 2), 20, 5);
            assert!(drawn.len() == 5 && drawn.is_sorted_by(|a, b| a < b) && drawn[4] < 20);
            drawn.iter().for_each(|number| times[*number as usize] += 1);
        }
        // The expected count is a thousand, with a standard deviation of 27.
        assert!(
            times.iter().all(|times| (880..1_120).contains(times)),
            "{times:?}"
        );
        assert_eq!(without_repeats(&mut Draw::of(1, 1, 1), 3, 9), [0, 1, 2]);
        assert!(without_repeats(&mut Draw::of(1, 1, 1), 0, 9).is_empty());
    }
}
