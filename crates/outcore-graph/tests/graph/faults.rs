//! Every operation of a small conversion fails once, and every file of a graph is damaged once.
//!
//! Contract: the number of the operation that fails runs from 1 until a conversion does with fewer; some dozen
//! conversions of 4,000 edges.

use std::path::Path;
use std::sync::Arc;

use outcore::{IoMode, Job, JobOptions, Kind, Result};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::kernels::{bfs, components};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::FaultDevice;

use crate::common::{job, made, rmat};

fn faulty(plan: &str) -> (Job, Arc<FaultDevice>) {
    let os = Arc::new(OsDevice::new(IoMode::Auto));
    let device = Arc::new(FaultDevice::new(os, plan.parse().unwrap()));
    let options = JobOptions {
        memory_bytes: 32 << 20,
        threads: 2,
        ..JobOptions::default()
    };
    (Job::on(options, Arc::clone(&device) as _), device)
}

#[test]
fn each_failed_operation_of_a_conversion_is_a_named_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("e.txt");
    let text: String = (0..4_000u64)
        .map(|id| format!("{} {} 0.5\n", (id * id % 977) << 33, id))
        .collect();
    std::fs::write(&input, text).unwrap();
    let graph = dir.path().join("g");
    for relabel in [Relabel::No, Relabel::Auto, Relabel::Text] {
        let options = ConvertOptions {
            relabel,
            read: ReadOptions {
                is_weighted: true,
                ..ReadOptions::default()
            },
            ..ConvertOptions::default()
        };
        if relabel == Relabel::No {
            let text: String = (0..4_000u64)
                .map(|id| format!("{} {id} 1\n", id % 7))
                .collect();
            std::fs::write(dir.path().join("n.txt"), text).unwrap();
        }
        let input = match relabel {
            Relabel::Auto | Relabel::Text | Relabel::Numbers => input.clone(),
            Relabel::No => dir.path().join("n.txt"),
        };
        let (mut nth, mut failed, mut is_done) = (1, 0, false);
        while !is_done {
            let (job, device) = faulty(&format!("eio@{nth}"));
            let result = convert(&job, std::slice::from_ref(&input), &graph, &options);
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
        assert!(failed > 8, "{failed} of {nth}");
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert!(left <= 2, "{left} entries are left");
    }
}

/// Everything that a kernel reads.
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
            // Lists of sources are read by no kernel here.
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
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        assert!(read_all(&job, &graph).is_err(), "{name} cut");
        std::fs::write(&file, &bytes).unwrap();
    }
    read_all(&job, &graph).unwrap();
    Graph::open(&job, &graph).unwrap().verify(&job).unwrap();
}
