//! Graphs of many shapes, and jobs on them.
//!
//! Contract: random graphs depend only on their seeds; everything else is fixed. Files are only
//! written below the directories that callers give.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{IoMode, Job, JobOptions};
use outcore_graph::convert::{ConvertOptions, ConvertSummary, convert};
use outcore_graph::edges::ReadOptions;
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{LouvainOptions, Partition, louvain};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::FaultDevice;

/// A seeded random number generator: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// R-MAT (Chakrabarti, Zhan, Faloutsos, SDM 2004) with Graph500's probabilities.
pub(crate) fn rmat(scale: u32, factor: u64, seed: u64) -> Vec<[u32; 2]> {
    let mut random = Random(seed);
    let edges = 0..factor << scale;
    edges
        .map(|_| {
            let mut edge = [0; 2];
            for _ in 0..scale {
                let quarter = match random.below(100) {
                    0..57 => [0, 0],
                    57..76 => [0, 1],
                    76..95 => [1, 0],
                    _ => [1, 1],
                };
                edge = [edge[0] << 1 | quarter[0], edge[1] << 1 | quarter[1]];
            }
            edge
        })
        .collect()
}

/// Graphs by name: their vertices and edges.
pub(crate) fn shapes() -> Vec<(&'static str, u32, Vec<[u32; 2]>)> {
    let grid = |side: u32| {
        let at = move |x: u32, y: u32| y * side + x;
        let places = (0..side).flat_map(move |y| (0..side).map(move |x| (x, y)));
        places
            .flat_map(move |(x, y)| {
                let right = (x + 1 < side).then(|| [at(x, y), at(x + 1, y)]);
                let down = (y + 1 < side).then(|| [at(x, y), at(x, y + 1)]);
                right.into_iter().chain(down)
            })
            .collect()
    };
    let clique = |n: u32| {
        (0..n)
            .flat_map(|a| (0..a).map(move |b| [a, b]))
            .collect::<Vec<_>>()
    };
    vec![
        ("empty", 0, Vec::new()),
        ("one vertex", 1, Vec::new()),
        ("only loops", 5, (0..5).map(|v| [v, v]).collect()),
        ("no edges", 70_000, Vec::new()),
        ("star", 140_000, (1..140_000).map(|v| [0, v]).collect()),
        ("star in", 5_000, (0..4_999).map(|v| [v, 4_999]).collect()),
        ("path", 700, (1..700).map(|v| [v - 1, v]).collect()),
        ("far apart", 200_001, vec![[0, 200_000], [70_000, 140_000]]),
        ("grid", 90 * 90, grid(90)),
        ("clique", 60, clique(60)),
        ("two cliques", 130, {
            let other = clique(50).into_iter().map(|[a, b]| [a + 70, b + 70]);
            clique(40).into_iter().chain(other).collect()
        }),
        ("rmat 10", 1 << 10, rmat(10, 16, 10)),
        (
            "rmat 12 twice",
            1 << 12,
            [rmat(12, 4, 12), rmat(12, 4, 12)].concat(),
        ),
        ("rmat 17, few edges", 1 << 17, rmat(17, 1, 17)),
    ]
}

/// A job with this much memory and this many threads.
pub(crate) fn job(memory_bytes: u64, threads: usize) -> Job {
    let options = JobOptions {
        memory_bytes,
        threads,
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}

/// A job with two threads, on a device that fails as `plan` says.
pub(crate) fn faulty_in(plan: &str, memory_bytes: u64) -> (Job, Arc<FaultDevice>) {
    let os = Arc::new(OsDevice::new(IoMode::Auto));
    let device = Arc::new(FaultDevice::new(os, plan.parse().unwrap()));
    let options = JobOptions {
        memory_bytes,
        threads: 2,
        ..JobOptions::default()
    };
    (Job::on(options, Arc::clone(&device) as _), device)
}

/// Writes pairs of numbers to a file.
pub(crate) fn write_pairs(path: &Path, edges: &[[u32; 2]]) {
    let bytes = edges.iter().flatten().flat_map(|id| id.to_le_bytes());
    std::fs::write(path, bytes.collect::<Vec<u8>>()).unwrap();
}

/// Converts pairs to `dir/g`.
pub(crate) fn made(
    job: &Job,
    dir: &Path,
    (vertices, edges): (u32, &[[u32; 2]]),
    options: &ConvertOptions,
) -> (PathBuf, ConvertSummary) {
    let input = dir.join("pairs");
    write_pairs(&input, edges);
    let options = ConvertOptions {
        vertices: Some(u64::from(vertices)),
        read: ReadOptions {
            format: Some(EdgeFormat::Pairs32),
            ..ReadOptions::default()
        },
        replace: true,
        ..options.clone()
    };
    let graph = dir.join("g");
    let summary = convert(job, &[input], &graph, &options).unwrap();
    (graph, summary)
}

/// Converts pairs with weights to `dir/w`.
pub(crate) fn made_weighted(
    job: &Job,
    dir: &Path,
    (vertices, edges, weights): (u32, &[[u32; 2]], &[f32]),
    options: &ConvertOptions,
) -> PathBuf {
    let words = edges.iter().zip(weights);
    let words = words.flat_map(|([from, to], weight)| [*from, *to, weight.to_bits()]);
    let (input, graph) = (dir.join("weighted"), dir.join("w"));
    std::fs::write(
        &input,
        words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>(),
    )
    .unwrap();
    let options = ConvertOptions {
        vertices: Some(u64::from(vertices)),
        read: ReadOptions {
            format: Some(EdgeFormat::Pairs32),
            is_weighted: true,
            ..ReadOptions::default()
        },
        replace: true,
        ..options.clone()
    };
    convert(job, &[input], &graph, &options).unwrap();
    graph
}

/// Runs Louvain's method with scratch next to the graph.
pub(crate) fn louvain_beside(
    job: &Job,
    graph: &Graph,
    options: LouvainOptions,
) -> outcore::Result<Partition> {
    louvain(job, graph, graph.dir().parent().unwrap(), options)
}

/// Passes every shape, directed and undirected, as an open graph with its edges to `check`.
pub(crate) fn each_graph(
    options: &ConvertOptions,
    mut check: impl FnMut(&str, &Job, &Graph, (u32, &[[u32; 2]])),
) {
    for (name, vertices, edges) in shapes() {
        for is_undirected in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let job = job(64 << 20, 2);
            let options = ConvertOptions {
                is_undirected,
                ..options.clone()
            };
            let (path, _) = made(&job, dir.path(), (vertices, &edges), &options);
            let graph = Graph::open(&job, &path).unwrap();
            let name = format!("{name}, undirected: {is_undirected}");
            let edges = crate::oracle::stored(&edges, &options);
            check(&name, &job, &graph, (vertices, &edges));
            drop(graph);
            assert_eq!(job.budget.used_bytes(), 0, "{name}");
        }
    }
}
