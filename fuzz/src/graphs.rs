//! Checks of the fuzz targets for graphs. A panic also fails each of them.
//!
//! Contract: each function takes arbitrary bytes. Edges in any format end in a named error, or make
//! a graph that opens and whose degrees add up to its edges. A graph with changed bytes in any file
//! is rejected, or gives the original degrees. Tests of `outcore-graph` run these checks too.

use std::path::{Path, PathBuf};

use outcore::{IoMode, Job, JobOptions, Kind, Result};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::ReadOptions;
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::export::export_npz;
use outcore_graph::graph::{Direction, Graph};
use tempfile::TempDir;

/// The formats, by the first byte of the input.
const FORMATS: [EdgeFormat; 7] = [
    EdgeFormat::Npz,
    EdgeFormat::MatrixMarket,
    EdgeFormat::Serial,
    EdgeFormat::WeightedSerial,
    EdgeFormat::Text,
    EdgeFormat::Csv,
    EdgeFormat::Graph500,
];
/// More vertices than this may take much memory and time, so inputs with more are rejected.
const VERTICES_MAX: u64 = 1 << 20;

fn job() -> Job {
    let options = JobOptions {
        memory_bytes: 64 << 20,
        threads: 1,
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Buffered)
}

fn degrees_of(job: &Job, dir: &Path) -> Result<Vec<u32>> {
    let graph = Graph::open(job, dir)?;
    graph.degrees(job, Direction::Out)
}

/// Reads the rest of `data` as edges in the format that its first byte chooses.
pub fn edges(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let Ok(dir) = tempfile::tempdir() else { return };
    let (path, graph) = (dir.path().join("edges"), dir.path().join("graph"));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let job = job();
    let format = FORMATS[usize::from(*choice) % FORMATS.len()];
    let options = ConvertOptions {
        read: ReadOptions {
            format: Some(format),
            is_weighted: format == EdgeFormat::WeightedSerial,
            ..ReadOptions::default()
        },
        // A header may promise more vertices than any machine has memory for.
        vertices: Some(VERTICES_MAX),
        ..ConvertOptions::default()
    };
    match convert(&job, &[path], &graph, &options) {
        Ok(done) => {
            let degrees = degrees_of(&job, &graph);
            assert!(degrees.is_ok(), "{degrees:?}");
            let sum: u64 = degrees
                .unwrap_or_default()
                .iter()
                .map(|d| u64::from(*d))
                .sum();
            if done.manifest.directed {
                assert_eq!(sum, done.manifest.edges);
            }
        }
        Err(error) => {
            assert!(!graph.exists(), "a graph was left: {error}");
            assert!(!error.cause().is_empty());
        }
    }
}

/// A small graph: its directory, its files, its degrees, and itself as a matrix of SciPy.
struct Small {
    dir: TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
    degrees: Vec<u32>,
}

fn small() -> Option<Small> {
    let dir = tempfile::tempdir().ok()?;
    let edges = dir.path().join("edges.txt");
    let pairs = (0..300_u32).map(|n| format!("{} {}\n", n % 17, n * 7 % 23));
    std::fs::write(&edges, pairs.collect::<String>()).ok()?;
    let (job, graph) = (job(), dir.path().join("graph"));
    convert(&job, &[edges], &graph, &ConvertOptions::default()).ok()?;
    let degrees = degrees_of(&job, &graph).ok()?;
    let mut files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(&graph)
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let bytes = std::fs::read(&path).ok()?;
            Some((path, bytes))
        })
        .collect();
    files.sort();
    Some(Small {
        dir,
        files,
        degrees,
    })
}

/// The small graph as a `.npz`, from which damaged files are made.
pub fn npz() -> Option<Vec<u8>> {
    let small = small()?;
    let job = job();
    let graph = Graph::open(&job, &small.dir.path().join("graph")).ok()?;
    let path = small.dir.path().join("matrix.npz");
    export_npz(&job, &graph, &path, false).ok()?;
    std::fs::read(path).ok()
}

thread_local! {
    static SMALL: Option<Small> = small();
}

/// Damages the file that the first byte of `data` chooses. The rest of `data` has offsets of two
/// bytes, each followed by the new byte at that offset. 0xff after an offset cuts the file off
/// there.
pub fn damage(data: &[u8]) {
    let Some((choice, mut patches)) = data.split_first() else {
        return;
    };
    SMALL.with(|small| {
        let Some(small) = small else { return };
        let (path, whole) = &small.files[usize::from(*choice) % small.files.len()];
        let mut bytes = whole.clone();
        while let [low, high, new, rest @ ..] = patches {
            let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len().max(1);
            match (*new, bytes.get_mut(at)) {
                (0xff, _) => bytes.truncate(at),
                (new, Some(byte)) => *byte = new,
                (_, None) => {}
            }
            patches = rest;
        }
        if std::fs::write(path, &bytes).is_err() {
            return;
        }
        let found = degrees_of(&job(), &small.dir.path().join("graph"));
        let restored = std::fs::write(path, whole);
        assert!(restored.is_ok(), "the file could not be restored");
        match found {
            Ok(degrees) => assert_eq!(degrees, small.degrees),
            Err(error) => assert_ne!(error.kind(), Kind::Interrupted),
        }
    });
}
