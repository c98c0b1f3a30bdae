//! Kernels give what naive algorithms give, whatever the memory and threads.
//!
//! Contract: results are compared with those of [`oracle`], exactly but for ranks, for graphs of all shapes, directed and
//! not.

use outcore::Kind;
use outcore_graph::convert::ConvertOptions;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{PageRankOptions, bfs, components, core_numbers, k_core, pagerank};

use crate::common::{each_graph, job, made, rmat};
use crate::oracle;

fn plain() -> ConvertOptions {
    ConvertOptions::default()
}

#[test]
fn components_are_those_of_a_search_from_each_vertex() {
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        let found = components(job, graph).unwrap();
        assert!(found == oracle::components(vertices, edges), "{name}");
    });
}

#[test]
fn levels_and_parents_are_those_of_a_queue() {
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        let lists = oracle::lists(vertices, edges, !graph.manifest().directed);
        for source in [0, vertices / 2, vertices.saturating_sub(1)] {
            if source >= vertices {
                assert_eq!(bfs(job, graph, source).unwrap_err().kind(), Kind::Usage);
                continue;
            }
            let found = bfs(job, graph, source).unwrap();
            let (levels, parents) = oracle::bfs(&lists, source);
            assert!(found.levels == levels, "{name} from {source}: levels");
            assert!(found.parents == parents, "{name} from {source}: parents");
        }
    });
}

#[test]
fn ranks_are_those_of_power_iteration_in_floats() {
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        let lists = oracle::lists(vertices, edges, !graph.manifest().directed);
        for iterations in [1, 10] {
            let options = PageRankOptions {
                tolerance: 0.0,
                iterations_max: iterations,
                ..PageRankOptions::default()
            };
            let (found, _) = pagerank(job, graph, options).unwrap();
            let wanted = oracle::pagerank(&lists, 0.85, iterations);
            assert_eq!(found.len(), wanted.len());
            for (vertex, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                let far = (found - wanted).abs();
                assert!(
                    far < 1e-11,
                    "{name}: vertex {vertex} has {found}, not {wanted}"
                );
            }
        }
    });
}

#[test]
fn core_numbers_are_those_of_taking_out_one_vertex_after_another() {
    let options = ConvertOptions {
        drop_loops: true,
        ..plain()
    };
    each_graph(&options, |name, job, graph, (vertices, edges)| {
        let wanted = oracle::cores(vertices, edges);
        let found = core_numbers(job, graph).unwrap();
        assert!(found == wanted, "{name}");
        for k in [0, 2, 5, 39] {
            let members: Vec<u32> = wanted.iter().map(|core| u32::from(*core >= k)).collect();
            assert!(
                k_core(job, graph, k).unwrap() == members,
                "{name}: the {k}-core"
            );
        }
    });
}

#[test]
fn results_are_the_same_for_any_threads_and_memory() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(13, 16, 8);
    for is_undirected in [false, true] {
        let options = ConvertOptions {
            is_undirected,
            drop_loops: true,
            ..plain()
        };
        let mut first = None;
        for (memory_bytes, threads) in [(256 << 20, 1), (256 << 20, 3), (32 << 20, 2)] {
            let job = job(memory_bytes, threads);
            let (path, _) = made(&job, dir.path(), (1 << 13, &edges), &options);
            let graph = Graph::open(&job, &path).unwrap();
            let (ranks, iterations) = pagerank(&job, &graph, PageRankOptions::default()).unwrap();
            let ranks: Vec<u64> = ranks.iter().map(|rank| rank.to_bits()).collect();
            let found = (
                components(&job, &graph).unwrap(),
                bfs(&job, &graph, 1).unwrap(),
                (ranks, iterations),
                core_numbers(&job, &graph).unwrap(),
            );
            assert!(*first.get_or_insert_with(|| found.clone()) == found);
        }
    }
}

#[test]
fn a_state_that_does_not_fit_is_refused_with_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = made(
        &job(64 << 20, 2),
        dir.path(),
        (6_000_000, &[[0, 1]]),
        &plain(),
    );
    let job = job(24 << 20, 2);
    let graph = Graph::open(&job, &path).unwrap();
    for error in [
        components(&job, &graph).unwrap_err(),
        bfs(&job, &graph, 0).unwrap_err(),
        pagerank(&job, &graph, PageRankOptions::default()).unwrap_err(),
        core_numbers(&job, &graph).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Memory);
        let text = error.to_string();
        assert!(text.contains("6,000,000 vertices need"), "{text}");
        assert!(text.contains("--memory"), "{text}");
    }
}

#[test]
fn loops_have_no_cores_and_odd_options_of_pagerank_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let (path, _) = made(&job, dir.path(), (3, &[[0, 0], [1, 2]]), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    let error = core_numbers(&job, &graph).unwrap_err();
    assert!(error.to_string().contains("--drop-loops"), "{error}");
    for (alpha, tolerance, iterations_max) in [(1.0, 1e-6, 10), (0.5, -1.0, 10), (0.85, 1e-12, 1)] {
        let options = PageRankOptions {
            alpha,
            tolerance,
            iterations_max,
        };
        assert_eq!(
            pagerank(&job, &graph, options).unwrap_err().kind(),
            Kind::Usage
        );
    }
}
