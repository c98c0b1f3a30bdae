//! SciPy's sparse matrices become graphs with an edge per entry; damaged files are rejected.
//!
//! Contract: the test writes archives in SciPy's form: stored and compressed, in all three formats.

use std::io::Write as _;
use std::path::Path;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use outcore::{Kind, Result};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::export::export_npz;
use outcore_graph::format::weight::WeightType;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{PageRankOptions, pagerank, shortest_paths};

use crate::common::{job, rmat};

/// A NumPy array.
fn npy(descr: &str, rows: usize, numbers: Vec<u8>) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows},), }}");
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend(numbers);
    bytes
}

fn wide(numbers: &[u64]) -> Vec<u8> {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    npy("<i8", numbers.len(), bytes.collect())
}

fn narrow(numbers: &[u64]) -> Vec<u8> {
    let bytes = numbers
        .iter()
        .flat_map(|number| (*number as u32).to_le_bytes());
    npy("<i4", numbers.len(), bytes.collect())
}

/// A ZIP archive of arrays.
fn archive(arrays: &[(&str, Vec<u8>)], is_deflated: bool) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, array) in arrays {
        let mut crc = Crc::new();
        crc.update(array);
        let packed = match is_deflated {
            false => array.clone(),
            true => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(array).unwrap();
                encoder.finish().unwrap()
            }
        };
        let at = file.len() as u32;
        let mut facts = Vec::new();
        for word in [20_u16, 0, if is_deflated { 8 } else { 0 }, 0, 0] {
            facts.extend_from_slice(&word.to_le_bytes());
        }
        for word in [crc.sum(), packed.len() as u32, array.len() as u32] {
            facts.extend_from_slice(&word.to_le_bytes());
        }
        facts.extend_from_slice(&(name.len() as u16).to_le_bytes());
        file.extend_from_slice(b"PK\x03\x04");
        file.extend_from_slice(&facts);
        // An extra field before the data, as in NumPy's files.
        file.extend_from_slice(&8_u16.to_le_bytes());
        file.extend_from_slice(name.as_bytes());
        file.extend_from_slice(&[9, 0, 4, 0, 1, 2, 3, 4]);
        file.extend_from_slice(&packed);
        directory.extend_from_slice(b"PK\x01\x02\x14\x00");
        directory.extend_from_slice(&facts);
        directory.extend_from_slice(&[0; 12]);
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (at, len) = (file.len() as u32, directory.len() as u32);
    file.extend(directory);
    file.extend_from_slice(b"PK\x05\x06\x00\x00\x00\x00");
    let count = arrays.len() as u16;
    file.extend_from_slice(&[count.to_le_bytes(), count.to_le_bytes()].concat());
    file.extend_from_slice(&len.to_le_bytes());
    file.extend_from_slice(&at.to_le_bytes());
    file.extend_from_slice(&[0; 2]);
    file
}

fn format_of(name: &str) -> (&'static str, Vec<u8>) {
    ("format.npy", npy("|S3", 1, name.as_bytes().to_vec()))
}

/// The arrays of a square matrix: by coordinates, rows or columns.
fn arrays(edges: &[([u32; 2], f32)], (side, format): (u32, &str)) -> Vec<(&'static str, Vec<u8>)> {
    let by = usize::from(format == "csc");
    let mut edges = edges.to_vec();
    edges.sort_by_key(|(edge, _)| edge[by]);
    let weights = edges
        .iter()
        .flat_map(|(_, weight)| f64::from(*weight).to_le_bytes());
    let weights = npy("<f8", edges.len(), weights.collect());
    let end = |end: usize| {
        edges
            .iter()
            .map(|(edge, _)| u64::from(edge[end]))
            .collect::<Vec<_>>()
    };
    let mut arrays = vec![
        format_of(format),
        ("shape.npy", wide(&[side.into(), side.into()])),
        ("data.npy", weights),
    ];
    match format {
        "coo" => arrays.extend([("row.npy", narrow(&end(0))), ("col.npy", wide(&end(1)))]),
        _ => {
            let starts = (0..=side).map(|v| edges.partition_point(|(e, _)| e[by] < v) as u64);
            arrays.push(("indptr.npy", narrow(&starts.collect::<Vec<_>>())));
            arrays.push(("indices.npy", narrow(&end(1 - by))));
        }
    }
    arrays
}

fn tiles(path: &Path, options: &ConvertOptions) -> Result<Vec<u8>> {
    let job = job(64 << 20, 2);
    let graph = path.with_extension("graph");
    convert(&job, &[path.to_path_buf()], &graph, options)?;
    assert_eq!(Graph::open(&job, &graph)?.vertices(), 1 << 12);
    Ok(std::fs::read(graph.join("tiles")).unwrap())
}

fn options(format: Option<EdgeFormat>, is_weighted: bool) -> ConvertOptions {
    ConvertOptions {
        read: ReadOptions {
            format,
            is_weighted,
            ..ReadOptions::default()
        },
        vertices: format.map(|_| 1 << 12),
        replace: true,
        ..ConvertOptions::default()
    }
}

#[test]
fn entries_of_a_matrix_are_edges_from_rows_to_columns() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(12, 20, 6);
    let edges: Vec<_> = edges
        .iter()
        .map(|edge| (*edge, (edge[0] % 7) as f32 + 0.5))
        .collect();
    for is_weighted in [false, true] {
        let mut bytes = Vec::new();
        for ([source, target], weight) in &edges {
            bytes.extend_from_slice(bytemuck::bytes_of(&[*source, *target]));
            if is_weighted {
                bytes.extend_from_slice(&f64::from(*weight).to_le_bytes());
            }
        }
        let pairs = dir.path().join("pairs");
        std::fs::write(&pairs, bytes).unwrap();
        let mut options_of_pairs = options(Some(EdgeFormat::Pairs32), is_weighted);
        options_of_pairs.read.weight_type = Some(WeightType::F64);
        let wanted = tiles(&pairs, &options_of_pairs).unwrap();
        for format in ["coo", "csr", "csc"] {
            for is_deflated in [false, true] {
                let path = dir.path().join("matrix.npz");
                let bytes = archive(&arrays(&edges, (1 << 12, format)), is_deflated);
                std::fs::write(&path, bytes).unwrap();
                let found = tiles(&path, &options(None, is_weighted)).unwrap();
                assert!(found == wanted, "{format}, compressed: {is_deflated}");
            }
        }
    }
}

#[test]
fn a_graph_that_is_exported_and_converted_again_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(12, 20, 6);
    let (npz, again) = (dir.path().join("m.npz"), dir.path().join("again"));
    for (is_undirected, is_weighted) in [(false, false), (false, true), (true, false)] {
        let mut bytes = Vec::new();
        for edge in &edges {
            bytes.extend_from_slice(bytemuck::bytes_of(edge));
            if is_weighted {
                bytes.extend_from_slice(&((edge[1] % 9) as f32).to_le_bytes());
            }
        }
        let pairs = dir.path().join("pairs");
        std::fs::write(&pairs, bytes).unwrap();
        let options = ConvertOptions {
            is_undirected,
            // Undirected edges are read back from both of their ends.
            dedup: is_undirected,
            ..options(Some(EdgeFormat::Pairs32), is_weighted)
        };
        let job = job(64 << 20, 2);
        let path = dir.path().join("g");
        convert(&job, &[pairs], &path, &options).unwrap();
        let graph = Graph::open(&job, &path).unwrap();
        let _ = std::fs::remove_file(&npz);
        let (entries, bytes) = export_npz(&job, &graph, &npz, false).unwrap();
        assert_eq!(bytes, std::fs::metadata(&npz).unwrap().len());
        let lists = u64::from(is_undirected) * (graph.manifest().edges - graph.manifest().loops);
        assert_eq!(entries, graph.manifest().edges + lists);
        assert_eq!(
            export_npz(&job, &graph, &npz, false).unwrap_err().kind(),
            Kind::Usage
        );
        let back = ConvertOptions {
            vertices: None,
            read: ReadOptions {
                format: None,
                ..options.read.clone()
            },
            ..options.clone()
        };
        convert(&job, std::slice::from_ref(&npz), &again, &back).unwrap();
        let other = Graph::open(&job, &again).unwrap();
        assert_eq!(other.manifest().edges, graph.manifest().edges);
        let ranks = |graph: &Graph| pagerank(&job, graph, PageRankOptions::default()).unwrap();
        assert!(ranks(&graph) == ranks(&other));
        if is_weighted {
            let lengths = |graph: &Graph| shortest_paths(&job, graph, 1).unwrap();
            assert!(lengths(&graph) == lengths(&other));
        }
    }
}

#[test]
fn a_matrix_of_a_graph_whose_ids_were_relabelled_has_the_original_ids() {
    let dir = tempfile::tempdir().unwrap();
    let [text, path, npz] = ["e.txt", "g", "m.npz"].map(|name| dir.path().join(name));
    let ids = [5u64, 1 << 40, (1 << 48) - 1];
    std::fs::write(
        &text,
        format!("{} {}\n{} {}\n", ids[2], ids[0], ids[0], ids[1]),
    )
    .unwrap();
    let job = job(64 << 20, 2);
    let relabelled = ConvertOptions {
        relabel: Relabel::Auto,
        ..ConvertOptions::default()
    };
    convert(&job, &[text], &path, &relabelled).unwrap();
    let graph = Graph::open(&job, &path).unwrap();
    export_npz(&job, &graph, &npz, false).unwrap();
    let archive = std::fs::read(&npz).unwrap();
    let has = |wanted: &[u8]| memchr::memmem::find(&archive, wanted).is_some();
    assert!(has(b"ids.npy") && has(&wide(&ids)));
    let back = convert(
        &job,
        &[npz],
        &path,
        &ConvertOptions {
            replace: true,
            ..ConvertOptions::default()
        },
    );
    assert_eq!(back.unwrap().manifest.edges, 2);
}

#[test]
fn matrices_that_are_damaged_or_of_other_formats_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.npz");
    let edges: Vec<_> = rmat(12, 1, 6).into_iter().map(|edge| (edge, 1.0)).collect();
    let good = arrays(&edges, (1 << 12, "csr"));
    let refused = |bytes: &[u8], kind: Kind, words: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = tiles(&path, &options(None, true)).map(drop).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!path.with_extension("graph").exists());
    };
    for is_deflated in [false, true] {
        let whole = archive(&good, is_deflated);
        refused(&whole[..whole.len() / 2], Kind::Corrupt, "ZIP");
        for at in [100, whole.len() / 2, whole.len() * 3 / 4] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            refused(&damaged, Kind::Corrupt, "");
        }
    }
    refused(b"", Kind::Corrupt, "ZIP");
    let with = |name: &'static str, array: Vec<u8>, kind, words: &str| {
        let mut other = good.clone();
        other.retain(|(known, _)| *known != name);
        refused(&archive(&other, true), Kind::Corrupt, name);
        other.push((name, array));
        refused(&archive(&other, true), kind, words);
    };
    let count = edges.len();
    with("format.npy", format_of("dia").1, Kind::Usage, "dia");
    with("shape.npy", wide(&[5]), Kind::Corrupt, "two sides");
    with(
        "indices.npy",
        wide(&vec![1 << 12; count]),
        Kind::Corrupt,
        "not below",
    );
    with(
        "indices.npy",
        wide(&vec![0; count - 1]),
        Kind::Corrupt,
        "number of entries",
    );
    with("indptr.npy", wide(&[0, 9, 3]), Kind::Corrupt, "ascend");
    with("data.npy", wide(&[1, 2]), Kind::Corrupt, "weights");
    with(
        "data.npy",
        npy("<c8", count, vec![0; 8 * count]),
        Kind::Usage,
        "",
    );
}
