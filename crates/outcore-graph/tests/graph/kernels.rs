//! Kernels have the results of naive algorithms, for any memory and threads.
//!
//! Contract: results are compared with those of [`oracle`], exactly except for ranks, for graphs of
//! all shapes, directed and undirected.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use outcore::Kind;
use outcore_graph::convert::ConvertOptions;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{
    ClosenessOptions, HitsOptions, JumpTarget, LouvainOptions, PageRankOptions, bfs, bfs_from,
    closeness, components, core_numbers, hits, k_core, label_propagation, pagerank,
    personalized_pagerank, shortest_paths, strong_components, triangles,
};

use crate::common::{Random, each_graph, job, louvain_beside, made, made_weighted, rmat};
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
            let (levels, parents) = oracle::bfs(&lists, &[source]);
            assert!(found.levels == levels, "{name} from {source}: levels");
            assert!(found.parents == parents, "{name} from {source}: parents");
        }
        assert_eq!(bfs_from(job, graph, &[]).unwrap_err().kind(), Kind::Usage);
        if vertices > 0 {
            let sources = [vertices / 3, vertices - 1, vertices / 3, vertices / 2];
            let found = bfs_from(job, graph, &sources).unwrap();
            let (levels, parents) = oracle::bfs(&lists, &sources);
            assert!(found.levels == levels && found.parents == parents, "{name}");
        }
    });
}

#[test]
fn ranks_are_those_of_power_iteration_in_floats() {
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        let lists = oracle::lists(vertices, edges, !graph.manifest().directed);
        let lists = oracle::alike(&lists);
        for iterations in [1, 10] {
            let options = PageRankOptions {
                tolerance: Some(0.0),
                iterations_max: iterations,
                ..PageRankOptions::default()
            };
            let found = pagerank(job, graph, options).unwrap().ranks;
            let share = 1.0 / f64::from(vertices);
            let wanted = oracle::pagerank(&lists, 0.85, iterations, |_| share);
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
fn personalized_ranks_are_those_of_jumps_to_some_vertices() {
    let options = PageRankOptions {
        tolerance: Some(0.0),
        iterations_max: 8,
        ..PageRankOptions::default()
    };
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        if vertices < 3 {
            return;
        }
        let lists = oracle::lists(vertices, edges, !graph.manifest().directed);
        let lists = oracle::alike(&lists);
        let target = |vertex: u32, weight: f64| JumpTarget { vertex, weight };
        let targets = [
            target(vertices - 1, 1.0),
            target(0, 2.0),
            target(vertices - 1, 1.0),
            target(1, 0.0),
        ];
        let found = personalized_pagerank(job, graph, options, &targets).unwrap();
        let found = found.ranks;
        let jumps = |vertex: usize| match vertex {
            0 => 0.5,
            last if last == vertices as usize - 1 => 0.5,
            _ => 0.0,
        };
        let wanted = oracle::pagerank(&lists, 0.85, 8, jumps);
        let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f64::max) < 1e-11, "{name}");
        for wrong in [
            &[target(vertices, 1.0)][..],
            &[],
            &[target(0, 0.0)],
            &[target(0, -1.0)],
            &[target(0, f64::NAN)],
        ] {
            let error = personalized_pagerank(job, graph, options, wrong).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{wrong:?}");
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
fn strong_components_are_those_of_two_searches() {
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        let wanted = match graph.manifest().directed {
            true => oracle::strong_components(vertices, edges),
            false => oracle::components(vertices, edges),
        };
        assert!(strong_components(job, graph).unwrap() == wanted, "{name}");
    });
    // Cycles of many sizes, each of which leads to the next.
    let dir = tempfile::tempdir().unwrap();
    let (mut edges, mut first) = (Vec::new(), 0);
    for size in 1..40 {
        edges.extend((0..size).map(|place| [first + place, first + (place + 1) % size]));
        edges.push([first, first + size]);
        first += size;
    }
    let random = &mut Random(5);
    let names: Vec<u32> = {
        let mut names: Vec<u32> = (0..=first).collect();
        (1..names.len()).for_each(|place| names.swap(place, random.below(place as u64) as usize));
        names
    };
    edges
        .iter_mut()
        .flatten()
        .for_each(|vertex| *vertex = names[*vertex as usize]);
    let job = job(64 << 20, 2);
    let (path, _) = made(&job, dir.path(), (first + 1, &edges), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    let wanted = oracle::strong_components(first + 1, &edges);
    assert!(strong_components(&job, &graph).unwrap() == wanted);
}

#[test]
fn triangles_are_those_of_all_pairs_of_neighbours() {
    each_graph(
        &plain(),
        |name, job, graph, (vertices, edges)| match graph.manifest().directed {
            true => assert_eq!(triangles(job, graph).unwrap_err().kind(), Kind::Usage),
            false => {
                let found = triangles(job, graph).unwrap();
                assert!(found == oracle::triangles(vertices, edges), "{name}");
            }
        },
    );
    // Lists of more than one block, held a part at a time.
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(14, 40, 3);
    let undirected = ConvertOptions {
        is_undirected: true,
        ..plain()
    };
    let wanted = oracle::triangles(1 << 14, &edges);
    for memory_bytes in [32 << 20, 256 << 20] {
        let job = job(memory_bytes, 2);
        let (path, _) = made(&job, dir.path(), (1 << 14, &edges), &undirected);
        let graph = Graph::open(&job, &path).unwrap();
        assert!(triangles(&job, &graph).unwrap() == wanted, "{memory_bytes}");
    }
}

/// A square grid; each vertex is joined with the next one to the right and below.
fn grid(side: u32) -> Vec<[u32; 2]> {
    let places = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
    let edges = places.flat_map(|(x, y)| {
        let at = y * side + x;
        let right = (x + 1 < side).then_some([at, at + 1]);
        right
            .into_iter()
            .chain((y + 1 < side).then_some([at, at + side]))
    });
    edges.collect()
}

/// In a search of a grid, each diagonal is a frontier, and each of its vertices has its list in
/// another block.
#[test]
fn a_search_of_many_small_frontiers_reads_the_lists_a_few_times_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let (side, edges) = (300, grid(300));
    let options = ConvertOptions {
        is_undirected: true,
        ..plain()
    };
    let large = job(64 << 20, 2);
    let (path, _) = made(&large, dir.path(), (side * side, &edges), &options);
    let lists_bytes = std::fs::metadata(path.join("out")).unwrap().len();
    let mut all = Vec::new();
    for memory_bytes in [64 << 20, 16 << 20] {
        let job = job(memory_bytes, 2);
        let graph = Graph::open(&job, &path).unwrap();
        let found = bfs(&job, &graph, 0).unwrap();
        assert_eq!(found.levels[(side * side - 1) as usize], 2 * (side - 1));
        let phases = graph.phases();
        let read_bytes: u64 = phases.iter().map(|phase| phase.read_bytes).sum();
        if memory_bytes == 64 << 20 {
            assert!(
                read_bytes < 4 * lists_bytes,
                "{read_bytes} of {lists_bytes}"
            );
        }
        all.push(found);
    }
    assert!(all[0] == all[1]);
}

#[test]
fn shortest_paths_are_those_of_dijkstra() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let random = &mut Random(9);
    for (vertices, edges) in [
        (1, Vec::new()),
        (1 << 11, rmat(11, 6, 4)),
        (700, (1..700).map(|v| [v - 1, v]).collect()),
        // Many rounds; later ones find the lists in memory, and use steps.
        (30 * 30, grid(30)),
    ] {
        let weights: Vec<f32> = edges
            .iter()
            .map(|_| random.below(1000) as f32 / 7.0)
            .collect();
        for is_undirected in [false, true] {
            let options = ConvertOptions {
                is_undirected,
                ..plain()
            };
            let edges = (vertices, &edges[..], &weights[..]);
            let path = made_weighted(&job, dir.path(), edges, &options);
            let lists = oracle::weighted_lists(edges, is_undirected);
            let graph = Graph::open(&job, &path).unwrap();
            for source in [0, vertices / 2] {
                let wanted = oracle::shortest_paths(&lists, source);
                let found = shortest_paths(&job, &graph, source).unwrap();
                assert!(found == wanted, "{vertices} from {source}");
            }
            let error = shortest_paths(&job, &graph, vertices).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
        }
    }
    // Without weights each edge counts 1; a negative weight is rejected.
    let (path, _) = made(&job, dir.path(), (3, &[[0, 1], [1, 2]]), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    assert_eq!(shortest_paths(&job, &graph, 0).unwrap(), [0.0, 1.0, 2.0]);
    let path = made_weighted(&job, dir.path(), (2, &[[0, 1]], &[-1.0]), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    let error = shortest_paths(&job, &graph, 0).unwrap_err();
    let wanted = "the weight of the edge from 0 to 1 is -1";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[test]
fn hubs_and_authorities_are_those_of_iterations_in_floats() {
    for dedup in [false, true] {
        let options = ConvertOptions { dedup, ..plain() };
        each_graph(&options, |name, job, graph, (vertices, edges)| {
            let lists = oracle::lists(vertices, edges, !graph.manifest().directed);
            for iterations_max in [1, 9] {
                let options = HitsOptions {
                    tolerance: 0.0,
                    iterations_max,
                };
                let found = hits(job, graph, options).unwrap();
                let (hubs, authorities) = oracle::hits(&lists, iterations_max);
                for (found, wanted) in [(found.hubs, hubs), (found.authorities, authorities)] {
                    assert_eq!(found.len(), wanted.len());
                    let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
                    assert!(far.fold(0.0, f64::max) < 1e-10, "{name}");
                }
            }
        });
    }
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    // Many parallel edges, whose sum is far above that of all values.
    let parallel = [vec![[0, 1]; 900], vec![[0, 2], [3, 2]]].concat();
    let (path, _) = made(&job, dir.path(), (4, &parallel), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    let found = hits(&job, &graph, HitsOptions::default()).unwrap();
    let wanted = oracle::hits(&oracle::lists(4, &parallel, false), 50);
    let far = found.hubs.iter().zip(&wanted.0).map(|(a, b)| (a - b).abs());
    assert!(far.fold(0.0, f64::max) < 1e-12, "{found:?}");
    let (path, _) = made(&job, dir.path(), (1 << 10, &rmat(10, 8, 3)), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    let found = hits(&job, &graph, HitsOptions::default()).unwrap();
    assert!(found.iterations < 100);
    for (tolerance, iterations_max) in [(-1.0, 9), (f64::NAN, 9), (1e-9, 1), (1e-9, 0)] {
        let options = HitsOptions {
            tolerance,
            iterations_max,
        };
        let error = hits(&job, &graph, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
    }
}

#[test]
fn closeness_is_that_of_a_search_from_each_source() {
    let exact = |vertices: u32| ClosenessOptions {
        sources_count: vertices + 1,
        seed: 3,
    };
    let mut checked = 0;
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        // A search from each vertex takes too long on larger graphs.
        if vertices > 2_000 {
            return;
        }
        checked += 1;
        let lists = oracle::lists(vertices, edges, !graph.manifest().directed);
        let wanted = oracle::closeness(&lists);
        let found = closeness(job, graph, exact(vertices)).unwrap();
        assert_eq!(found.len(), wanted.len());
        let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f64::max) < 1e-12, "{name}");
    });
    assert!(checked >= 6, "{checked}");
    // A few sources give approximate values, which improve with the number of sources.
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let options = ConvertOptions {
        is_undirected: true,
        ..plain()
    };
    let (path, _) = made(&job, dir.path(), (1 << 10, &rmat(10, 8, 3)), &options);
    let graph = Graph::open(&job, &path).unwrap();
    let wanted = closeness(&job, &graph, exact(1 << 10)).unwrap();
    let mean_error = |sources_count: u32| {
        let options = ClosenessOptions {
            sources_count,
            seed: 5,
        };
        let found = closeness(&job, &graph, options).unwrap();
        let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
        far.sum::<f64>() / wanted.iter().sum::<f64>()
    };
    let (few, many) = (mean_error(20), mean_error(500));
    assert!(few < 0.2 && many < few / 2.0, "{few} {many}");
    let none = ClosenessOptions {
        sources_count: 0,
        seed: 1,
    };
    let error = closeness(&job, &graph, none).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
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
            let found = pagerank(&job, &graph, PageRankOptions::default()).unwrap();
            let ranks: Vec<u64> = found.ranks.iter().map(|rank| rank.to_bits()).collect();
            let iterations = found.iterations;
            let found = (
                components(&job, &graph).unwrap(),
                bfs(&job, &graph, 1).unwrap(),
                (ranks, iterations),
                core_numbers(&job, &graph).unwrap(),
                strong_components(&job, &graph).unwrap(),
                triangles(&job, &graph).ok(),
                label_propagation(&job, &graph, 20).unwrap(),
                louvain_beside(&job, &graph, LouvainOptions::default()).ok(),
                {
                    let found = hits(&job, &graph, HitsOptions::default()).unwrap();
                    let both = found.hubs.into_iter().chain(found.authorities);
                    both.map(f64::to_bits).collect::<Vec<_>>()
                },
                {
                    let found = closeness(&job, &graph, ClosenessOptions::default()).unwrap();
                    found.into_iter().map(f64::to_bits).collect::<Vec<_>>()
                },
                shortest_paths(&job, &graph, 1)
                    .unwrap()
                    .into_iter()
                    .map(f64::to_bits)
                    .collect::<Vec<_>>(),
            );
            assert!(*first.get_or_insert_with(|| found.clone()) == found);
        }
    }
}

#[test]
fn all_threads_read_the_edges_of_one_hub_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // One row of tiles, 16 MiB. Its first segments wait until each thread has visited a segment.
    let edges: Vec<[u32; 2]> = (0..4_000_000).map(|edge| [0, edge % 60_000]).collect();
    let job = job(64 << 20, 2);
    let (path, _) = made(&job, dir.path(), (60_000, &edges), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    let seen = Mutex::new(HashSet::new());
    let deadline = Instant::now() + Duration::from_secs(20);
    graph
        .scan(&job, |_| {
            let is_all = || {
                let mut seen = seen.lock().unwrap();
                seen.insert(std::thread::current().id());
                seen.len() == 2
            };
            while !is_all() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(seen.into_inner().unwrap().len(), 2);
}

#[test]
fn a_state_that_does_not_fit_is_refused_with_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = made(
        &job(64 << 20, 2),
        dir.path(),
        (6_000_000, &[[0, 1]]),
        &ConvertOptions {
            is_undirected: true,
            ..plain()
        },
    );
    let job = job(24 << 20, 2);
    let graph = Graph::open(&job, &path).unwrap();
    for error in [
        components(&job, &graph).unwrap_err(),
        bfs(&job, &graph, 0).unwrap_err(),
        pagerank(&job, &graph, PageRankOptions::default()).unwrap_err(),
        core_numbers(&job, &graph).unwrap_err(),
        strong_components(&job, &graph).unwrap_err(),
        shortest_paths(&job, &graph, 0).unwrap_err(),
        label_propagation(&job, &graph, 1).unwrap_err(),
        louvain_beside(&job, &graph, LouvainOptions::default()).unwrap_err(),
        hits(&job, &graph, HitsOptions::default()).unwrap_err(),
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
            tolerance: Some(tolerance),
            iterations_max,
            by_weight: false,
        };
        assert_eq!(
            pagerank(&job, &graph, options).unwrap_err().kind(),
            Kind::Usage
        );
    }
}
