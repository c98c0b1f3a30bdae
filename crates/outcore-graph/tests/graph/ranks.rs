//! PageRank by the weights of edges.
//!
//! Contract: ranks are those of power iteration in floats, for weights of any size, with the same
//! bytes for any threads and memory. A graph without weights, or with invalid ones, is rejected
//! with a specific error.

use outcore::Kind;
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{JumpTarget, PageRankOptions, pagerank, personalized_pagerank};

use crate::common::{Random, job, made, made_weighted, rmat};
use crate::oracle;

const BY_WEIGHT: PageRankOptions = PageRankOptions {
    alpha: 0.85,
    tolerance: Some(0.0),
    iterations_max: 20,
    by_weight: true,
};

/// Weights of a kind, one for each of `count` edges.
fn weights(kind: &str, count: usize) -> Vec<f32> {
    let random = &mut Random(17);
    (0..count)
        .map(|_| match kind {
            "alike" => 0.1,
            "some are 0" => random.below(5) as f32 / 7.0,
            "all are 0" => 0.0,
            // From the least to the largest possible weight.
            "of all sizes" => f32::from_bits(random.below(0x7F80_0000) as u32),
            _ => random.below(1000) as f32 / 7.0,
        })
        .collect()
}

#[test]
fn ranks_by_weight_are_those_of_power_iteration_in_floats() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    for (name, vertices, edges) in [
        ("one loop", 2, vec![[0, 0]]),
        ("rmat", 1 << 11, rmat(11, 6, 4)),
        ("path", 700, (1..700).map(|v| [v - 1, v]).collect()),
        ("star", 30_000, (1..30_000).map(|v| [0, v]).collect()),
        (
            "parallel",
            3,
            (0..900).map(|edge| [edge % 2, 1 + edge % 2]).collect(),
        ),
    ] {
        for kind in ["alike", "some are 0", "all are 0", "of all sizes", "plain"] {
            let weights = weights(kind, edges.len());
            for is_undirected in [false, true] {
                let options = ConvertOptions {
                    is_undirected,
                    ..ConvertOptions::default()
                };
                let edges = (vertices, &edges[..], &weights[..]);
                let path = made_weighted(&job, dir.path(), edges, &options);
                let lists = oracle::weighted_lists(edges, is_undirected);
                let graph = Graph::open(&job, &path).unwrap();
                let check = |found: Vec<f64>, jumps: &dyn Fn(usize) -> f64| {
                    let wanted = oracle::pagerank(&lists, 0.85, 20, jumps);
                    let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
                    let far = far.fold(0.0, f64::max);
                    assert!(far < 1e-12, "{name}, {kind}, {is_undirected}: {far}");
                };
                let found = pagerank(&job, &graph, BY_WEIGHT).unwrap().ranks;
                check(found, &|_| 1.0 / f64::from(vertices));
                let target = &[JumpTarget {
                    vertex: vertices / 2,
                    weight: 3.0,
                }];
                let found = personalized_pagerank(&job, &graph, BY_WEIGHT, target).unwrap();
                check(found.ranks, &|vertex| {
                    f64::from(u8::from(vertex == vertices as usize / 2))
                });
            }
        }
    }
}

#[test]
fn ranks_by_weight_are_the_same_bytes_for_any_threads_and_memory() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(13, 16, 8);
    let weights = weights("of all sizes", edges.len());
    for is_undirected in [false, true] {
        let options = ConvertOptions {
            is_undirected,
            ..ConvertOptions::default()
        };
        let mut first = None;
        for (memory_bytes, threads) in [(256 << 20, 1), (256 << 20, 3), (32 << 20, 2)] {
            let job = job(memory_bytes, threads);
            let edges = (1 << 13, &edges[..], &weights[..]);
            let path = made_weighted(&job, dir.path(), edges, &options);
            let graph = Graph::open(&job, &path).unwrap();
            let options = PageRankOptions {
                tolerance: Some(1e-9),
                iterations_max: 500,
                ..BY_WEIGHT
            };
            let found = pagerank(&job, &graph, options).unwrap();
            let ranks: Vec<u64> = found.ranks.iter().map(|rank| rank.to_bits()).collect();
            let found = (ranks, found.iterations);
            assert!(*first.get_or_insert_with(|| found.clone()) == found);
        }
    }
}

/// With many vertices, each rank changes little from the start.
#[test]
fn ranks_of_many_vertices_are_right_without_a_tolerance() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let vertices = 100_001u32;
    let random = &mut Random(3);
    // All vertices have an edge to one of a few hubs, and the hubs have edges to vertices
    // everywhere.
    let edges: Vec<[u32; 2]> = (0..vertices)
        .flat_map(|vertex| {
            let few = random.below(100) as u32;
            [[vertex, few], [few, random.below(vertices.into()) as u32]]
        })
        .collect();
    let (path, _) = made(
        &job,
        dir.path(),
        (vertices, &edges),
        &ConvertOptions::default(),
    );
    let graph = Graph::open(&job, &path).unwrap();
    let found = pagerank(&job, &graph, PageRankOptions::default()).unwrap();
    assert!(
        found.change < 1e-6 && found.iterations < 100,
        "{}",
        found.change
    );
    let lists = oracle::alike(&oracle::lists(vertices, &edges, false));
    let wanted = oracle::pagerank(&lists, 0.85, 120, |_| 1.0 / f64::from(vertices));
    let mut off: Vec<f64> = found
        .ranks
        .iter()
        .zip(&wanted)
        .map(|(found, wanted)| (found / wanted - 1.0).abs())
        .collect();
    off.sort_unstable_by(f64::total_cmp);
    assert!(
        off[off.len() / 2] < 1e-5,
        "the median is off by {}",
        off[off.len() / 2]
    );
}

#[test]
fn a_graph_without_weights_and_weights_that_mean_nothing_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let plain = ConvertOptions::default();
    let (path, _) = made(&job, dir.path(), (3, &[[0, 1], [1, 2]]), &plain);
    let graph = Graph::open(&job, &path).unwrap();
    let error = pagerank(&job, &graph, BY_WEIGHT).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("no weights"), "{error}");
    let edges: &[[u32; 2]] = &[[0, 1], [2, 1], [1, 2], [2, 0]];
    let edges = (3, edges, &[1.0, -0.5, 0.0, -2.0][..]);
    let path = made_weighted(&job, dir.path(), edges, &plain);
    let graph = Graph::open(&job, &path).unwrap();
    let error = pagerank(&job, &graph, BY_WEIGHT).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let text = error.to_string();
    assert!(text.contains("edge from 2 to 0 is -2"), "{text}");
    // Errors report the names in the edges.
    let (input, named) = (dir.path().join("named.txt"), dir.path().join("named"));
    std::fs::write(&input, "a b 1\nb c -3\n").unwrap();
    let options = ConvertOptions {
        read: ReadOptions {
            is_weighted: true,
            ..ReadOptions::default()
        },
        relabel: Relabel::Text,
        ..ConvertOptions::default()
    };
    convert(&job, std::slice::from_ref(&input), &named, &options).unwrap();
    let graph = Graph::open(&job, &named).unwrap();
    let error = pagerank(&job, &graph, BY_WEIGHT).unwrap_err();
    assert!(error.to_string().contains("from b to c is -3"), "{error}");
    // Edges with weights that are not finite do not become a graph.
    for weight in ["nan", "inf", "-inf"] {
        std::fs::write(&input, format!("a b {weight}\n")).unwrap();
        let other = dir.path().join("other");
        let error = convert(&job, std::slice::from_ref(&input), &other, &options).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{weight}: {error}");
    }
}
