//! Samples of neighbours, and walks.
//!
//! Contract: sampled neighbours are looked up in naively made lists; samples are the same for any
//! memory and threads.

use outcore::Kind;
use outcore_graph::convert::ConvertOptions;
use outcore_graph::format::NO_VERTEX;
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::kernels::Sampler;

use crate::common::{each_graph, job, made, rmat};
use crate::oracle;

#[test]
fn neighbours_are_drawn_once_each_along_edges_that_are_there() {
    each_graph(
        &ConvertOptions::default(),
        |name, job, graph, (vertices, edges)| {
            let is_undirected = !graph.manifest().directed;
            let turned: Vec<[u32; 2]> = edges.iter().map(|[from, to]| [*to, *from]).collect();
            let lists = [
                (
                    Direction::Out,
                    oracle::lists(vertices, edges, is_undirected),
                ),
                (
                    Direction::In,
                    oracle::lists(vertices, &turned, is_undirected),
                ),
            ];
            for (direction, lists) in lists {
                let degrees = graph.degrees(job, direction).unwrap();
                let mut sampler = Sampler::new(job, graph, &degrees, direction).unwrap();
                let seeds: Vec<u32> = (0..vertices).step_by(vertices as usize / 50 + 1).collect();
                let fanouts = [Some(3), None, Some(1)];
                let fanouts = if vertices > 100_000 {
                    &fanouts[..1]
                } else {
                    &fanouts[..]
                };
                let sample = sampler.neighbours(&seeds, fanouts, 7).unwrap();
                assert_eq!(sample.vertices[..seeds.len()], seeds[..], "{name}");
                let mut distinct = sample.vertices.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), sample.vertices.len(), "{name}");
                let mut at = 0;
                let (mut from, mut to) = (0, seeds.len());
                for (hop, fanout) in fanouts.iter().enumerate() {
                    for place in from..to {
                        let list = &lists[sample.vertices[place] as usize];
                        let count = fanout.map_or(list.len(), |most| list.len().min(most as usize));
                        let drawn = at..at + count;
                        assert!(
                            sample.targets[drawn.clone()]
                                .iter()
                                .all(|of| *of as usize == place)
                        );
                        let mut drawn: Vec<u32> = sample.sources[drawn]
                            .iter()
                            .map(|source| sample.vertices[*source as usize])
                            .collect();
                        drawn.sort_unstable();
                        // Each neighbour is sampled at most as often as it occurs.
                        let mut left = list.iter();
                        assert!(
                            drawn.iter().all(|one| left.any(|other| one == other)),
                            "{name}"
                        );
                        at += count;
                    }
                    let edges_of_hop: u64 = sample.hop_edges[..=hop].iter().sum();
                    assert_eq!(edges_of_hop as usize, at, "{name}");
                    let reached = sample.sources[..at]
                        .iter()
                        .max()
                        .map_or(0, |most| *most as usize + 1);
                    (from, to) = (to, to.max(reached));
                }
                assert_eq!(sample.sources.len(), at);
                let walks = sampler.walks(&seeds, 4, 3).unwrap();
                for (walk, start) in walks.chunks(5).zip(&seeds) {
                    assert_eq!(walk[0], *start);
                    for step in walk.windows(2) {
                        match (step[0], step[1]) {
                            (NO_VERTEX, next) => assert_eq!(next, NO_VERTEX),
                            (last, NO_VERTEX) => assert!(lists[last as usize].is_empty(), "{name}"),
                            (last, next) => assert!(lists[last as usize].contains(&next), "{name}"),
                        }
                    }
                }
                let error = sampler.neighbours(&[vertices], &[Some(1)], 1).unwrap_err();
                assert_eq!(error.kind(), Kind::Usage);
            }
        },
    );
}

#[test]
fn samples_are_the_same_for_any_memory_and_differ_by_seed() {
    let dir = tempfile::tempdir().unwrap();
    // Also lists of several blocks.
    let edges = rmat(13, 60, 5);
    let mut first = None;
    for (memory_bytes, threads) in [(24 << 20, 1), (256 << 20, 3)] {
        let job = job(memory_bytes, threads);
        let (path, _) = made(
            &job,
            dir.path(),
            (1 << 13, &edges),
            &ConvertOptions::default(),
        );
        let graph = Graph::open(&job, &path).unwrap();
        assert!(graph.manifest().out.degree_max > 1020);
        let degrees = graph.degrees(&job, Direction::Out).unwrap();
        let mut sampler = Sampler::new(&job, &graph, &degrees, Direction::Out).unwrap();
        let seeds: Vec<u32> = (0..1 << 13).step_by(9).collect();
        let sample = sampler
            .neighbours(&seeds, &[Some(10), Some(10)], 1)
            .unwrap();
        let walks = sampler.walks(&seeds, 20, 1).unwrap();
        assert_ne!(sampler.walks(&seeds, 20, 2).unwrap(), walks);
        assert_ne!(
            sampler
                .neighbours(&seeds, &[Some(10), Some(10)], 2)
                .unwrap(),
            sample
        );
        let found = (sample, walks);
        assert!(*first.get_or_insert_with(|| found.clone()) == found);
        assert!(Sampler::new(&job, &graph, &degrees, Direction::Both).is_err());
    }
}
