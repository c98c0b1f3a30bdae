//! Exact weights: eight-byte floats and integers pass through files, graphs and shortest paths
//! unchanged.
//!
//! Contract: stored weights are compared bit by bit with those of the edges; a weight that cannot
//! be stored is rejected with a specific error.

use std::path::Path;
use std::sync::Mutex;

use outcore::{Error, Result};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::export::export_npz;
use outcore_graph::format::weight::WeightType;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::shortest_paths;

use crate::common::{Random, job};

fn weighted(weight_type: Option<WeightType>) -> ConvertOptions {
    ConvertOptions {
        read: ReadOptions {
            is_weighted: true,
            weight_type,
            ..ReadOptions::default()
        },
        replace: true,
        ..ConvertOptions::default()
    }
}

/// Returns the edges in the tiles, with the bits of their weights, in order.
fn stored(graph: &Graph) -> Vec<(u32, u32, u64)> {
    let all = Mutex::new(Vec::new());
    graph
        .scan(&job(64 << 20, 1), |segment| {
            let edges = segment.stored_edges();
            let edges = edges.map(|(target, source, bits)| (source as u32, target as u32, bits));
            all.lock().unwrap().extend(edges);
            Ok(())
        })
        .unwrap();
    let mut all = all.into_inner().unwrap();
    all.sort_unstable();
    all
}

fn made(path: &Path, options: &ConvertOptions) -> Result<Graph> {
    let job = job(64 << 20, 2);
    let graph = path.with_extension("graph");
    convert(&job, &[path.to_path_buf()], &graph, options)?;
    Graph::open(&job, &graph)
}

#[test]
fn weights_of_eight_bytes_are_stored_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("a.txt");
    std::fs::write(&text, "0 1 16777217\n1 2 1e-50\n2 0 0.1\n").unwrap();
    let wanted: Vec<(u32, u32, u64)> = [(0, 1, 16_777_217.0f64), (1, 2, 1e-50), (2, 0, 0.1)]
        .map(|(from, to, weight)| (from, to, weight.to_bits()))
        .to_vec();
    for relabel in [Relabel::No, Relabel::Numbers, Relabel::Text] {
        let options = ConvertOptions {
            relabel,
            ..weighted(None)
        };
        let graph = made(&text, &options).unwrap();
        assert_eq!(graph.manifest().weights(), Some(WeightType::F64));
        assert_eq!(stored(&graph), wanted, "{relabel:?}");
    }
    let whole = [
        (0u64, 1u64, 9_007_199_254_740_993i64),
        (1, 0, -3),
        (2, 2, i64::MAX),
    ];
    let lines = whole.map(|(from, to, weight)| format!("{from} {to} {weight}\n"));
    std::fs::write(&text, lines.concat()).unwrap();
    let graph = made(&text, &weighted(Some(WeightType::I64))).unwrap();
    let wanted: Vec<_> = whole
        .iter()
        .map(|(from, to, weight)| (*from as u32, *to as u32, *weight as u64))
        .collect();
    assert_eq!(stored(&graph), wanted);
    // Pairs of numbers with eight-byte weights, of both widths.
    for (format, width) in [(EdgeFormat::Pairs32, 4), (EdgeFormat::Pairs64, 8)] {
        let pairs = dir.path().join("pairs");
        let bytes = whole.iter().flat_map(|(from, to, weight)| {
            let ids = [from, to].map(|id| id.to_le_bytes()[..width].to_vec());
            [ids.concat(), weight.to_le_bytes().to_vec()].concat()
        });
        std::fs::write(&pairs, bytes.collect::<Vec<u8>>()).unwrap();
        let mut options = weighted(Some(WeightType::I64));
        options.read.format = Some(format);
        assert_eq!(stored(&made(&pairs, &options).unwrap()), wanted, "{width}");
    }
}

#[test]
fn a_weight_that_does_not_fit_is_refused_by_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("a.txt");
    let refused = |weight: &str, of: Option<WeightType>| -> Error {
        std::fs::write(&text, format!("0 1 1\n1 2 {weight}\n")).unwrap();
        made(&text, &weighted(of)).unwrap_err()
    };
    for (weight, of, wanted) in [
        ("9007199254740993", None, "does not fit in f64"),
        ("1e-400", None, "does not fit in f64"),
        ("0.5", Some(WeightType::I64), "does not fit in i64"),
        ("1e-50", Some(WeightType::F32), "does not fit in f32"),
        ("1e400", None, "not finite"),
        ("0,75", None, "a decimal comma"),
    ] {
        let error = refused(weight, of).to_string();
        assert!(error.contains("line 2"), "{weight}: {error}");
        assert!(error.contains(wanted), "{weight}: {error}");
    }
}

#[test]
fn many_weights_of_eight_bytes_come_back_from_tiles_lists_and_matrices() {
    let dir = tempfile::tempdir().unwrap();
    let random = &mut Random(5);
    let edges: Vec<(u32, u32, f64)> = (0..60_000)
        .map(|number| {
            // One vertex has lists of many blocks.
            let from = if number % 4 == 0 {
                7
            } else {
                random.below(70_000) as u32
            };
            // Integers above 2^53 are not taken as floats in text.
            let weight = random.below(1 << 50) as f64 / 3.0;
            (from, random.below(70_000) as u32, weight)
        })
        .collect();
    let lines: String = edges
        .iter()
        .map(|(from, to, weight)| format!("{from} {to} {weight}\n"))
        .collect();
    let text = dir.path().join("a.txt");
    std::fs::write(&text, lines).unwrap();
    let mut wanted: Vec<_> = edges
        .iter()
        .map(|(from, to, weight)| (*from, *to, weight.to_bits()))
        .collect();
    wanted.sort_unstable();
    let graph = made(&text, &weighted(None)).unwrap();
    let job = job(64 << 20, 2);
    graph.verify(&job).unwrap();
    assert!(stored(&graph) == wanted);
    // The matrix is made from the lists.
    let npz = dir.path().join("m.npz");
    export_npz(&job, &graph, &npz, false).unwrap();
    let again = made(&npz, &weighted(None)).unwrap();
    assert_eq!(again.manifest().weights(), Some(WeightType::F64));
    assert!(stored(&again) == wanted);
    let lengths = shortest_paths(&job, &graph, 7).unwrap();
    assert!(lengths == shortest_paths(&job, &again, 7).unwrap());
}

#[test]
fn lengths_of_whole_numbers_are_exact_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("a.txt");
    let job = job(64 << 20, 2);
    let lengths = |lines: &str| {
        std::fs::write(&text, lines).unwrap();
        let graph = made(&text, &weighted(Some(WeightType::I64))).unwrap();
        shortest_paths(&job, &graph, 0)
    };
    let found = lengths("0 1 16777217\n1 2 9007199237963774\n").unwrap();
    assert_eq!(found, [0.0, 16_777_217.0, 9_007_199_254_740_991.0]);
    let error = lengths("0 1 9007199254740992\n1 2 1\n").unwrap_err();
    assert!(error.to_string().contains("2^53"), "{error}");
}
