//! Components of graphs whose vertices are removed in bundles, compared with those computed in
//! memory.
//!
//! Contract: labels are the same; there is so little memory that several bundles are needed.

use std::sync::Arc;

use outcore::{Context, IoMode, Job, JobOptions, Kind};
use outcore_graph::convert::ConvertOptions;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{Components, components, components_by_bundles, components_of_any};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::FaultDevice;

use crate::common::{Random, each_graph, job, made, rmat};

fn labels_of(job: &Job, graph: &Graph, (scratch, bundle): (&std::path::Path, u64)) -> Vec<u32> {
    let stored = components_by_bundles(job, graph, scratch, Some(bundle)).unwrap();
    assert_eq!(stored.vertices(), graph.vertices() as u64);
    match graph.vertices() {
        0 => Vec::new(),
        _ => Context::of_job(job)
            .read_inputs::<u32>(&[stored.input()])
            .collect()
            .unwrap(),
    }
}

/// Random edges between neighbours, a long path in random order, groups, and isolated vertices.
fn scattered(vertices: u32) -> Vec<[u32; 2]> {
    let mut random = Random(9);
    let mut order: Vec<u32> = (0..vertices / 2).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let path = order.windows(2).map(|pair| [pair[0], pair[1]]);
    let groups = (0..vertices / 4).map(|at| {
        let at = vertices / 2 + at;
        [at, at / 97 * 97]
    });
    path.chain(groups).collect()
}

#[test]
fn components_are_the_same_in_bundles_as_in_memory() {
    let scratch = tempfile::tempdir().unwrap();
    each_graph(&ConvertOptions::default(), |name, job, graph, _| {
        let wanted = components(job, graph).unwrap();
        let vertices = graph.vertices() as u64;
        for bundle in [vertices / 7 + 1, vertices / 2 + 1, vertices.max(1)] {
            let found = labels_of(job, graph, (scratch.path(), bundle));
            assert!(found == wanted, "{name}, bundles of {bundle}");
        }
    });
    let left = std::fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 0, "no scratch is left");
}

#[test]
fn little_memory_makes_many_bundles_and_the_same_labels() {
    let dir = tempfile::tempdir().unwrap();
    let vertices = 6_000_000;
    let sparse = rmat(22, 1, 4).into_iter().step_by(8);
    let edges = [scattered(vertices), sparse.collect()].concat();
    let big = job(256 << 20, 2);
    let (path, _) = made(
        &big,
        dir.path(),
        (vertices, &edges),
        &ConvertOptions::default(),
    );
    let graph = Graph::open(&big, &path).unwrap();
    let wanted = components(&big, &graph).unwrap();
    // The labels take 24 MB.
    for (memory_bytes, threads) in [(20 << 20, 2), (16 << 20, 1)] {
        let small = job(memory_bytes, threads);
        let graph = Graph::open(&small, &path).unwrap();
        let error = components(&small, &graph).unwrap_err();
        assert_eq!(error.kind(), Kind::Memory);
        let found = components_of_any(&small, &graph, dir.path()).unwrap();
        let Components::Stored(stored) = found else {
            panic!("they do not fit");
        };
        let found = Context::of_job(&big)
            .read_inputs::<u32>(&[stored.input()])
            .collect()
            .unwrap();
        assert!(found == wanted, "{memory_bytes}");
        drop((stored, graph));
        assert_eq!(small.budget.used_bytes(), 0);
    }
    let tiny = job(8 << 20, 2);
    let graph = Graph::open(&tiny, &path).unwrap();
    let error = components_by_bundles(&tiny, &graph, dir.path(), None).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
}

#[test]
fn each_failed_operation_of_bundles_is_a_named_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let big = job(64 << 20, 2);
    let edges = scattered(20_000);
    let (path, _) = made(
        &big,
        dir.path(),
        (20_000, &edges),
        &ConvertOptions::default(),
    );
    let wanted = components(&big, &Graph::open(&big, &path).unwrap()).unwrap();
    let (mut nth, mut failed, mut is_done) = (1, 0, false);
    while !is_done {
        let os = Arc::new(OsDevice::new(IoMode::Auto));
        let plan = format!("eio@{nth}").parse().unwrap();
        let device = Arc::new(FaultDevice::new(os, plan));
        let options = JobOptions {
            memory_bytes: 32 << 20,
            threads: 2,
            ..JobOptions::default()
        };
        let job = Job::on(options, Arc::clone(&device) as _);
        let result = Graph::open(&job, &path)
            .and_then(|graph| components_by_bundles(&job, &graph, scratch.path(), Some(7_000)));
        is_done = device.operations() < nth;
        match result {
            Ok(stored) => {
                let found = Context::of_job(&big)
                    .read_inputs::<u32>(&[stored.input()])
                    .collect()
                    .unwrap();
                assert!(found == wanted, "operation {nth}");
            }
            Err(error) => {
                failed += 1;
                assert!(!error.cause().is_empty(), "{nth}: {error}");
            }
        }
        assert_eq!(job.budget.used_bytes(), 0, "operation {nth}");
        nth += 1;
    }
    assert!(failed > 8, "{failed} of {nth}");
    let left = std::fs::read_dir(scratch.path()).unwrap().count();
    assert!(left <= 1, "{left} entries are left");
}
