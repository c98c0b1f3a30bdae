//! Every operation of a small conversion and of each kernel fails once, and every file of a graph
//! is damaged once.
//!
//! Contract: the number of the failing operation runs from 1 until a conversion or kernel needs
//! fewer operations; a few dozen conversions of 4,000 edges, and a few dozen runs of each kernel.

use std::path::Path;
use std::sync::Arc;

use outcore::{Job, Kind, Result};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::kernels::{
    ClosenessOptions, HitsOptions, JumpTarget, LouvainOptions, PageRankOptions, Sampler, bfs,
    closeness, components, core_numbers, hits, k_core, label_propagation, pagerank,
    personalized_pagerank, shortest_paths, strong_components, triangles,
};
use outcore_io::drive::testing::FaultDevice;

use crate::common::{faulty_in, job, louvain_beside, made, made_weighted, rmat};

fn faulty(plan: &str) -> (Job, Arc<FaultDevice>) {
    faulty_in(plan, 32 << 20)
}

#[test]
fn each_failed_operation_of_a_conversion_is_a_named_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("e.txt");
    let text: String = (0..4_000u64)
        .map(|id| format!("{} {} 0.5\n", (id * id % 977) << 33, id))
        .collect();
    std::fs::write(&input, text).unwrap();
    let plain = dir.path().join("n.txt");
    let text: String = (0..4_000u64)
        .map(|id| format!("{} {id} 1\n", id % 7))
        .collect();
    std::fs::write(&plain, text).unwrap();
    // With more memory, text is read once.
    for (relabel, input, memory_bytes) in [
        (Relabel::No, &plain, 32 << 20),
        (Relabel::No, &plain, 96 << 20),
        (Relabel::Auto, &input, 32 << 20),
        (Relabel::Text, &input, 32 << 20),
    ] {
        let options = ConvertOptions {
            relabel,
            read: ReadOptions {
                is_weighted: true,
                ..ReadOptions::default()
            },
            ..ConvertOptions::default()
        };
        let (tried, failed) = walk_conversion(input, &options, memory_bytes);
        assert!(failed > 8, "{failed} of {tried}");
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert!(left <= 2, "{left} entries are left");
    }
}

/// Converts 4,000 edges, next to their file, with each operation failing once; returns the numbers
/// of operations and failures.
fn walk_conversion(input: &Path, options: &ConvertOptions, memory_bytes: u64) -> (u64, u64) {
    let graph = input.with_file_name("g");
    let (mut nth, mut failed, mut is_done) = (1, 0, false);
    while !is_done {
        let (job, device) = faulty_in(&format!("eio@{nth}"), memory_bytes);
        let result = convert(&job, &[input.to_path_buf()], &graph, options);
        is_done = device.operations() < nth;
        match result {
            Ok(summary) => {
                assert_eq!(summary.edges_in, 4_000, "operation {nth}");
                Graph::open(&crate::common::job(32 << 20, 1), &graph).unwrap();
            }
            Err(error) => {
                failed += 1;
                assert!(!error.cause().is_empty(), "{nth}: {error}");
                assert!(!graph.exists(), "operation {nth}: {error}");
            }
        }
        let _ = std::fs::remove_dir_all(&graph);
        assert_eq!(job.budget.used_bytes(), 0, "operation {nth}");
        nth += 1;
    }
    (nth, failed)
}

/// Runs a kernel on a graph, and returns the result as text.
type Kernel = fn(&Job, &Graph) -> Result<String>;

/// All kernels by name, except for components by bundles, which are tested separately
/// ([`crate::bundles`]).
const KERNELS: &[(&str, Kernel)] = &[
    ("degrees", |job, graph| {
        shown(graph.degrees(job, Direction::Both))
    }),
    ("components", |job, graph| shown(components(job, graph))),
    ("strong components", |job, graph| {
        shown(strong_components(job, graph))
    }),
    ("bfs", |job, graph| shown(bfs(job, graph, 1))),
    ("pagerank", |job, graph| {
        shown(pagerank(job, graph, PageRankOptions::default()))
    }),
    ("personalized pagerank", |job, graph| {
        let options = PageRankOptions::default();
        shown(personalized_pagerank(
            job,
            graph,
            options,
            &[JumpTarget {
                vertex: 1,
                weight: 1.0,
            }],
        ))
    }),
    ("pagerank by weight", |job, graph| {
        let options = PageRankOptions {
            by_weight: true,
            ..PageRankOptions::default()
        };
        shown(pagerank(job, graph, options))
    }),
    ("core numbers", |job, graph| shown(core_numbers(job, graph))),
    ("k-core", |job, graph| shown(k_core(job, graph, 3))),
    ("shortest paths", |job, graph| {
        shown(shortest_paths(job, graph, 1))
    }),
    ("triangles", |job, graph| shown(triangles(job, graph))),
    ("label propagation", |job, graph| {
        shown(label_propagation(job, graph, 20))
    }),
    ("hits", |job, graph| {
        shown(hits(job, graph, HitsOptions::default()))
    }),
    ("closeness", |job, graph| {
        shown(closeness(job, graph, ClosenessOptions::default()))
    }),
    ("louvain", |job, graph| {
        shown(louvain_beside(job, graph, LouvainOptions::default()))
    }),
    ("sample", |job, graph| {
        let degrees = graph.degrees(job, Direction::Out)?;
        let mut sampler = Sampler::new(job, graph, &degrees, Direction::Out)?;
        shown(sampler.neighbours(&[1, 2], &[Some(3), None], 7))
    }),
    ("walk", |job, graph| {
        let degrees = graph.degrees(job, Direction::Out)?;
        let mut sampler = Sampler::new(job, graph, &degrees, Direction::Out)?;
        shown(sampler.walks(&[1, 2], 4, 7))
    }),
];

fn shown<T: std::fmt::Debug>(result: Result<T>) -> Result<String> {
    result.map(|found| format!("{found:?}"))
}

#[test]
fn each_failed_operation_of_a_kernel_is_a_named_error_and_keeps_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(9, 4, 3);
    let make = |name: &str, is_undirected: bool| {
        let options = ConvertOptions {
            is_undirected,
            drop_loops: true,
            ..ConvertOptions::default()
        };
        let place = dir.path().join(name);
        std::fs::create_dir(&place).unwrap();
        made(&job(64 << 20, 2), &place, (1 << 9, &edges), &options).0
    };
    let (directed, undirected) = (make("directed", false), make("undirected", true));
    let weights: Vec<f32> = (0..edges.len()).map(|number| number as f32).collect();
    let weighted = (1 << 9, &edges[..], &weights[..]);
    let weighted = made_weighted(
        &job(64 << 20, 2),
        dir.path(),
        weighted,
        &ConvertOptions::default(),
    );
    for (name, kernel) in KERNELS {
        let path = match *name {
            "strong components" => &directed,
            "pagerank by weight" => &weighted,
            _ => &undirected,
        };
        let run = |job: &Job| kernel(job, &Graph::open(job, path)?);
        let expected = run(&job(64 << 20, 2)).unwrap();
        let (opening, device) = faulty("eio@1000000");
        Graph::open(&opening, path).unwrap();
        let opened = device.operations();
        let (mut nth, mut failed, mut is_done) = (1, 0, false);
        while !is_done {
            let (job, device) = faulty(&format!("eio@{nth}"));
            let result = run(&job);
            is_done = device.operations() < nth;
            match result {
                Ok(found) => assert_eq!(found, expected, "{name}, operation {nth}"),
                Err(error) => {
                    failed += u64::from(nth > opened);
                    assert!(!error.cause().is_empty(), "{name}, {nth}: {error}");
                }
            }
            assert_eq!(job.budget.used_bytes(), 0, "{name}, operation {nth}");
            nth += 1;
        }
        assert!(failed > 0, "{name}: no operation after opening failed");
    }
}

/// Reads everything that kernels read.
fn read_all(job: &Job, path: &Path) -> Result<()> {
    let graph = Graph::open(job, path)?;
    components(job, &graph)?;
    bfs(job, &graph, 0)?;
    graph.degrees(job, Direction::Both)?;
    Ok(())
}

#[test]
fn a_flipped_bit_or_a_cut_in_any_file_of_a_graph_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let path: Vec<[u32; 2]> = (0..4_000).map(|id| [id, id + 1]).collect();
    let edges = [path, rmat(10, 2, 1)].concat();
    let (graph, _) = made(
        &job,
        dir.path(),
        (4_001, &edges),
        &ConvertOptions::default(),
    );
    read_all(&job, &graph).unwrap();
    let files = std::fs::read_dir(&graph).unwrap();
    let files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 8, "{files:?}");
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).unwrap();
        for at in [0, bytes.len() / 3, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            std::fs::write(&file, &bad).unwrap();
            let verified = Graph::open(&job, &graph).and_then(|graph| graph.verify(&job));
            // No kernel here reads lists of sources.
            let read = (name != "in").then(|| read_all(&job, &graph));
            for result in std::iter::once(verified).chain(read) {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "{name}, byte {at}: {error}");
                assert!(
                    error.file_path().is_some() || name == "graph.json",
                    "{error}"
                );
            }
        }
        let (one, four) = (&bytes[..bytes.len() - 1], &bytes[..bytes.len() - 4]);
        let longer = [&bytes[..], &[0; 4]].concat();
        for other in [one, four, &longer, &[]] {
            std::fs::write(&file, other).unwrap();
            let verified = Graph::open(&job, &graph).and_then(|graph| graph.verify(&job));
            let error = verified.unwrap_err();
            let cut = format!("{name} of {} bytes: {error}", other.len());
            assert_eq!(error.kind(), Kind::Corrupt, "{cut}");
            assert!(error.to_string().contains(&name), "{cut}");
        }
        std::fs::write(&file, &bytes).unwrap();
    }
    read_all(&job, &graph).unwrap();
    Graph::open(&job, &graph).unwrap().verify(&job).unwrap();
}
