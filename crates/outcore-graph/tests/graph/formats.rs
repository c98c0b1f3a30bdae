//! The same edges in every format make the same graph; what is not an edge is refused by its place.
//!
//! Contract: whole graphs are compared, byte for byte; nothing is left of a conversion that is refused.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use outcore::{Kind, Result};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::format::manifest::Manifest;
use outcore_graph::graph::Graph;

use crate::common::{job, rmat, write_pairs};
use crate::oracle;

const VERTICES: u32 = 1 << 11;

fn converted(path: &Path, options: &ConvertOptions) -> Result<(Manifest, Vec<u8>)> {
    let job = job(64 << 20, 2);
    let graph = path.with_extension("graph");
    convert(&job, &[path.to_path_buf()], &graph, options)?;
    let manifest = Graph::open(&job, &graph)?.manifest().clone();
    Ok((manifest, std::fs::read(graph.join("tiles")).unwrap()))
}

fn with(format: EdgeFormat) -> ConvertOptions {
    ConvertOptions {
        vertices: Some(u64::from(VERTICES)),
        read: ReadOptions {
            format: Some(format),
            ..ReadOptions::default()
        },
        ..ConvertOptions::default()
    }
}

#[test]
fn the_same_edges_in_all_formats_make_the_same_graph() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let edges = rmat(11, 300, 4);
    write_pairs(&here("a.u32"), &edges);
    let wanted = converted(&here("a.u32"), &with(EdgeFormat::Pairs32)).unwrap();
    let wide = edges
        .iter()
        .flatten()
        .flat_map(|id| u64::from(*id).to_le_bytes());
    std::fs::write(here("b"), wide.collect::<Vec<u8>>()).unwrap();
    assert!(converted(&here("b"), &with(EdgeFormat::Pairs64)).unwrap() == wanted);
    let packed = edges.iter().flat_map(|[a, b]| [*a, *b, 0]);
    let packed = packed.flat_map(u32::to_le_bytes);
    std::fs::write(here("p"), packed.collect::<Vec<u8>>()).unwrap();
    assert!(converted(&here("p"), &with(EdgeFormat::Graph500)).unwrap() == wanted);
    let lines = |from: &str, between: &str, first: u32, end: &str| {
        let mut text = from.to_owned();
        for [a, b] in &edges {
            write!(text, "{}{between}{}{end}", a + first, b + first).unwrap();
        }
        text
    };
    let entries = edges.len();
    let files = [
        (
            "snap.txt",
            lines(
                "# Directed graph\n# FromNodeId\tToNodeId\n",
                "\t",
                0,
                "\r\n",
            ),
        ),
        ("gap.el", lines("", " ", 0, "\n")),
        ("c.csv", lines("src,dst\n", ",", 0, "\n")),
        ("d.csv", lines("", ";", 0, ";x\n")),
        (
            "m.mtx",
            lines(
                &format!(
                    "%%MatrixMarket matrix coordinate pattern general\n% c\n{VERTICES} {VERTICES} {entries}\n"
                ),
                "  ",
                1,
                "\n",
            ),
        ),
    ];
    for (name, text) in files {
        std::fs::write(here(name), text.trim_end()).unwrap();
        let options = ConvertOptions {
            vertices: Some(u64::from(VERTICES)),
            ..ConvertOptions::default()
        };
        let (found, tiles) = converted(&here(name), &options).unwrap();
        assert_eq!(found.edges, entries as u64, "{name}");
        assert!((found, tiles) == wanted, "{name}");
    }
    for is_directed in [true, false] {
        let bytes = serialized(&edges, is_directed);
        std::fs::write(here("s.sg"), &bytes).unwrap();
        let options = ConvertOptions {
            replace: true,
            ..ConvertOptions::default()
        };
        let (found, _) = converted(&here("s.sg"), &options).unwrap();
        assert_eq!((found.edges, found.directed), (entries as u64, is_directed));
        let lists_at = 17 + 8 * (VERTICES as usize + 1);
        for (at, byte) in [(17, 200), (lists_at + 3, 0x70), (0, 9)] {
            let mut bad = bytes.clone();
            bad[at] = byte;
            std::fs::write(here("s.sg"), &bad).unwrap();
            let error = converted(&here("s.sg"), &options).err().unwrap();
            assert_eq!(error.kind(), Kind::Corrupt, "byte {at}: {error}");
        }
        std::fs::write(here("s.sg"), &bytes[..bytes.len() / 3]).unwrap();
        let error = converted(&here("s.sg"), &options).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

/// As GAP's converter writes it.
fn serialized(edges: &[[u32; 2]], is_directed: bool) -> Vec<u8> {
    let lists = oracle::lists(VERTICES, edges, !is_directed);
    let turned: Vec<[u32; 2]> = edges.iter().map(|[a, b]| [*b, *a]).collect();
    let sources = oracle::lists(VERTICES, &turned, false);
    let count: usize = lists.iter().map(Vec::len).sum();
    let mut bytes = vec![u8::from(is_directed)];
    bytes.extend_from_slice(&(count as i64).to_le_bytes());
    bytes.extend_from_slice(&i64::from(VERTICES).to_le_bytes());
    let mut put = |lists: &[Vec<u32>]| {
        let mut at = 0i64;
        bytes.extend_from_slice(&at.to_le_bytes());
        for list in lists {
            at += list.len() as i64;
            bytes.extend_from_slice(&at.to_le_bytes());
        }
        for other in lists.iter().flatten() {
            bytes.extend_from_slice(&(*other as i32).to_le_bytes());
        }
    };
    put(&lists);
    if is_directed {
        put(&sources);
    }
    bytes
}

#[test]
fn what_is_no_edge_is_refused_by_file_and_line_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let weighted = ConvertOptions {
        read: ReadOptions {
            is_weighted: true,
            ..ReadOptions::default()
        },
        ..ConvertOptions::default()
    };
    let plain = ConvertOptions::default();
    let long: String = (0..300_000).map(|id| format!("{id} 1\n")).collect();
    let cases: [(&str, String, &ConvertOptions, &str); 10] = [
        (
            "a.txt",
            "0 1\nx 2\n".into(),
            &plain,
            "line 2 is not an edge: `x` is not an id",
        ),
        (
            "b.txt",
            "0 1\n\n1 -2".into(),
            &plain,
            "line 3 is not an edge: the id -2 is negative",
        ),
        (
            "c.txt",
            format!("{long}7"),
            &plain,
            "line 300001 is not an edge: it has fewer than two ids",
        ),
        (
            "d.txt",
            "0 281474976710656\n".into(),
            &plain,
            "is not below 2^48",
        ),
        (
            "e.txt",
            "0 1 2\n0 1\n".into(),
            &weighted,
            "line 2 is not an edge: it has no weight",
        ),
        (
            "f.wel",
            "0 1 nan\n".into(),
            &weighted,
            "the weight nan is not finite",
        ),
        (
            "g.csv",
            "a,b,w\n1,2\n".into(),
            &weighted,
            "line 2 is not an edge: it has no weight",
        ),
        (
            "h.mtx",
            "%%MatrixMarket matrix array real general\n".into(),
            &plain,
            "its first line is not",
        ),
        (
            "i.mtx",
            "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n".into(),
            &plain,
            "the id 2 is not below",
        ),
        (
            "j.xyz",
            "0 1\n".into(),
            &plain,
            "its name does not say how it holds edges",
        ),
    ];
    for (name, text, options, wanted) in cases {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = converted(&path, options).err().unwrap();
        assert!(error.to_string().contains(wanted), "{name}: {error}");
        std::fs::remove_file(&path).unwrap();
        let left: Vec<PathBuf> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(left.is_empty(), "{name} leaves {left:?}");
    }
    let pairs = dir.path().join("odd.u32");
    std::fs::write(&pairs, [0; 12]).unwrap();
    let error = converted(&pairs, &plain).err().unwrap();
    assert!(error.to_string().contains("not a multiple"), "{error}");
}

#[test]
fn packed_edges_of_graph500_have_ids_of_48_bits_and_no_weights() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let edges = [
        [7, (3 << 45) + 5],
        [(1 << 32) + 7, 7],
        [(3 << 45) + 5, (1 << 32) + 7],
    ];
    let (mut packed, mut pairs) = (Vec::new(), Vec::new());
    for [source, target] in edges {
        let high = (source >> 32) as u32 | ((target >> 32) as u32) << 16;
        for word in [source as u32, target as u32, high] {
            packed.extend_from_slice(&word.to_le_bytes());
        }
        for id in [source, target] {
            pairs.extend_from_slice(&u64::to_le_bytes(id));
        }
    }
    std::fs::write(here("packed"), &packed).unwrap();
    std::fs::write(here("pairs"), &pairs).unwrap();
    let relabelled = |format| ConvertOptions {
        relabel: Relabel::Auto,
        vertices: None,
        ..with(format)
    };
    let wanted = converted(&here("pairs"), &relabelled(EdgeFormat::Pairs64)).unwrap();
    let found = converted(&here("packed"), &relabelled(EdgeFormat::Graph500)).unwrap();
    assert!(found == wanted && found.0.vertices == 3);
    packed.pop();
    std::fs::write(here("short"), &packed).unwrap();
    let error = converted(&here("short"), &with(EdgeFormat::Graph500)).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let mut weighted = relabelled(EdgeFormat::Graph500);
    weighted.read.is_weighted = true;
    let error = converted(&here("short"), &weighted).unwrap_err();
    assert!(error.to_string().contains("no weights"), "{error}");
}
