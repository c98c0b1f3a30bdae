//! The same edges in every format make the same graph; invalid edges are rejected with their place.
//!
//! Contract: whole graphs are compared, byte for byte. A rejected conversion leaves no files.

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
        ("mac.el", lines("# old\r", "\t", 0, "\r")),
        ("old.csv", lines("src,dst\r", ",", 0, "\r")),
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

/// Serializes edges in the form of GAP's converter.
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
            "0 18446744073709551616\n".into(),
            &plain,
            "is not below 2^64",
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
            "line 3 is not an edge: `3` is not an id from 1 to 2",
        ),
        (
            "j.xyz",
            "0 1\n".into(),
            &plain,
            "its name does not identify the format of edges",
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

#[test]
fn a_matrix_has_the_entries_that_its_head_speaks_of() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.mtx");
    let head = "%%MatrixMarket matrix coordinate pattern general\n";
    for (body, wanted) in [
        ("3 3 2\n1 2\n2 3\n", None),
        ("3 3 2\n1 2\n", Some("2 entries, but the file has 1")),
        ("3 3 1\n1 2\n2 3\n", Some("1 entry, but the file has 2")),
        ("3 3 0\n", None),
        ("3 3\n1 2\n", Some("the line of sizes is not")),
        ("3 x 3 2\n1 2\n2 3\n", Some("the line of sizes is not")),
    ] {
        std::fs::write(&path, format!("{head}{body}")).unwrap();
        let options = ConvertOptions {
            replace: true,
            ..ConvertOptions::default()
        };
        let found = converted(&path, &options);
        match wanted {
            None => assert_eq!(found.unwrap().0.vertices, 3),
            Some(wanted) => {
                let error = found.unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "{body}");
                assert!(error.to_string().contains(wanted), "{body}: {error}");
                assert!(error.to_string().contains("m.mtx"), "{error}");
            }
        }
    }
}

#[test]
fn a_serialized_graph_is_as_long_as_its_head_says_and_symmetric_if_undirected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sg");
    let options = ConvertOptions {
        replace: true,
        ..ConvertOptions::default()
    };
    let edges = [[0, 1], [1, 2], [2, 3], [3, 3], [0, 3]];
    for is_directed in [false, true] {
        let whole = serialized(&edges, is_directed);
        let refused = |bytes: &[u8], wanted: &str| {
            std::fs::write(&path, bytes).unwrap();
            let error = converted(&path, &options).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert!(error.to_string().contains(wanted), "{wanted}: {error}");
        };
        for len in [17, 18, whole.len() / 2, whole.len() - 4, whole.len() - 1] {
            refused(&whole[..len], "bytes, but");
        }
        refused(&[&whole[..], &[0]].concat(), "bytes, but");
        if !is_directed {
            // The list of vertex 0 begins with 1, which becomes 2. The list of 1 still has 0.
            let mut turned = whole.clone();
            turned[17 + 8 * (VERTICES as usize + 1)] = 2;
            refused(&turned, "not in the lists of both ends");
        }
        std::fs::write(&path, &whole).unwrap();
        converted(&path, &options).unwrap();
    }
}

#[test]
fn options_that_say_nothing_of_a_format_and_compressed_text_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let text = path("e.txt", b"0 1 2\n");
    let column = ConvertOptions {
        read: ReadOptions {
            weight_column: Some("km".into()),
            is_weighted: true,
            ..ReadOptions::default()
        },
        ..ConvertOptions::default()
    };
    let no_header = ConvertOptions {
        read: ReadOptions {
            has_no_header: true,
            ..ReadOptions::default()
        },
        ..ConvertOptions::default()
    };
    for (options, flag) in [(&column, "--weights=COLUMN"), (&no_header, "--no-header")] {
        for relabel in [Relabel::No, Relabel::Auto] {
            let options = ConvertOptions {
                relabel,
                ..options.clone()
            };
            let error = converted(&text, &options).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains(flag), "{error}");
        }
    }
    let plain = ConvertOptions::default();
    for (name, bytes) in [
        ("z.txt", &b"\x1F\x8B\x08\0\0"[..]),
        ("y.csv", b"\x28\xB5\x2F\xFD\0"),
    ] {
        let error = converted(&path(name, bytes), &plain).unwrap_err();
        assert!(error.to_string().contains("it is compressed"), "{error}");
    }
    let error = converted(&path("e.txt.gz", b"x"), &plain).unwrap_err();
    let hint = error.next_step().unwrap_or_default().to_owned();
    assert!(hint.contains("unpack"), "{hint}");
}

#[test]
fn a_mark_of_byte_order_is_no_part_of_an_edge() {
    let dir = tempfile::tempdir().unwrap();
    let mark = "\u{FEFF}";
    let matrix = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n";
    for (name, text, relabel) in [
        ("a.txt", "0 1\n", Relabel::No),
        ("b.csv", "a,b\n0,1\n", Relabel::No),
        ("c.csv", "0,1\n", Relabel::No),
        ("d.mtx", matrix, Relabel::No),
        ("e.txt", "x y\n", Relabel::Auto),
        ("f.csv", "x,y\n0,1\n", Relabel::Text),
    ] {
        let options = ConvertOptions {
            relabel,
            replace: true,
            ..ConvertOptions::default()
        };
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let wanted = converted(&path, &options).unwrap();
        std::fs::write(&path, format!("{mark}{text}")).unwrap();
        let found = converted(&path, &options).unwrap();
        assert!(found == wanted, "{name}");
        assert_eq!((found.0.vertices, found.0.edges), (2, 1), "{name}");
    }
}

#[test]
fn files_of_several_formats_and_directions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(32 << 20, 2);
    let matrix = |name: &str, kind: &str| {
        let path = dir.path().join(name);
        let text = format!("%%MatrixMarket matrix coordinate pattern {kind}\n3 3 1\n2 1\n");
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = [matrix("a.mtx", "general"), matrix("b.mtx", "symmetric")];
    let to = dir.path().join("g");
    let error = convert(&job, &files, &to, &ConvertOptions::default()).unwrap_err();
    assert!(error.to_string().contains("undirected"), "{error}");
    let undirected = ConvertOptions {
        is_undirected: true,
        replace: true,
        ..ConvertOptions::default()
    };
    let done = convert(&job, &files, &to, &undirected).unwrap();
    assert_eq!(done.manifest.edges, 2);
    let text = dir.path().join("c.txt");
    std::fs::write(&text, "0 1\n").unwrap();
    let files = [files[0].clone(), text];
    let error = convert(&job, &files, &to, &undirected).unwrap_err();
    assert!(error.to_string().contains("another format"), "{error}");
}

#[test]
fn a_pair_that_cannot_be_an_edge_is_named_by_file_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.u32");
    let bytes: Vec<u8> = [0u32, 1, 9, 1]
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .collect();
    std::fs::write(&path, bytes).unwrap();
    let options = ConvertOptions {
        vertices: Some(5),
        ..ConvertOptions::default()
    };
    let error = converted(&path, &options).unwrap_err().to_string();
    assert!(
        error.contains("the id 9 is not below") && error.contains("p.u32"),
        "{error}"
    );
    assert!(error.contains("at byte 8"), "{error}");
}

#[test]
fn a_directory_with_other_files_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (text, to) = (dir.path().join("e.txt"), dir.path().join("mine"));
    std::fs::write(&text, "0 1\n").unwrap();
    std::fs::create_dir(&to).unwrap();
    for name in ["thesis.doc", "graph.json"] {
        std::fs::write(to.join(name), "mine").unwrap();
    }
    let job = job(32 << 20, 2);
    let options = ConvertOptions {
        replace: true,
        ..ConvertOptions::default()
    };
    let files = [text];
    let error = convert(&job, &files, &to, &options).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(
        error.to_string().contains("contains `thesis.doc`"),
        "{error}"
    );
    assert_eq!(std::fs::read(to.join("graph.json")).unwrap(), b"mine");
    std::fs::remove_file(to.join("thesis.doc")).unwrap();
    std::fs::remove_file(to.join("graph.json")).unwrap();
    convert(&job, &files, &to, &options).unwrap();
    // A user's own file next to a graph's files stays when the graph is replaced.
    std::fs::write(to.join("notes"), "mine").unwrap();
    convert(&job, &files, &to, &options).unwrap();
    assert_eq!(std::fs::read(to.join("notes")).unwrap(), b"mine");
}
