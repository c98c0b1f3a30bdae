//! Pairs and text that are read once make the same graph as those that are parsed to files first.
//!
//! Contract: with little memory, edges are parsed first; otherwise they are read once.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use outcore_graph::convert::{ConvertOptions, ConvertSummary, convert};
use outcore_graph::edges::ReadOptions;
use outcore_graph::edges::formats::EdgeFormat;

use crate::common::{Random, job, rmat, write_pairs};

const LITTLE: u64 = 40 << 20;
const MUCH: u64 = 160 << 20;

/// Converts `files`; returns the bytes of the graph's files by name, and the summary.
fn converted(
    files: &[PathBuf],
    options: &ConvertOptions,
    (memory_bytes, threads): (u64, usize),
) -> (Vec<(PathBuf, Vec<u8>)>, ConvertSummary) {
    let dir = tempfile::tempdir().unwrap();
    let job = job(memory_bytes, threads);
    let path = dir.path().join("g");
    let summary = convert(&job, files, &path, options).unwrap();
    assert_eq!(job.budget.used_bytes(), 0);
    assert!(job.budget.peak_bytes() <= memory_bytes);
    let entries = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap());
    let mut found: Vec<(PathBuf, Vec<u8>)> = entries
        .map(|entry| {
            (
                entry.file_name().into(),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    found.sort();
    (found, summary)
}

fn check(files: &[PathBuf], options: &ConvertOptions) -> ConvertSummary {
    let (wanted, said) = converted(files, options, (LITTLE, 2));
    let mut last = None;
    for threads in [1, 3] {
        let (found, summary) = converted(files, options, (MUCH, threads));
        assert_eq!(summary.edges_in, said.edges_in);
        assert!(found == wanted, "{files:?}, {threads} threads");
        last = Some(summary);
    }
    last.unwrap()
}

/// Lines of many kinds, some of which are cut by the borders of pieces; each ends with `end`.
fn lines(edges: &[[u32; 2]], random: &mut Random, (end, weights): (&str, bool)) -> String {
    let mut text = String::new();
    for [from, to] in edges {
        match random.below(40) {
            0 => write!(text, "# {}{end}", "x".repeat(random.below(300) as usize)).unwrap(),
            1 => text.push_str(end),
            2 => write!(text, "%{end}//{end}").unwrap(),
            _ => {}
        }
        let between = ["\t", " ", "  ", " \t"][random.below(4) as usize];
        write!(text, "{from}{between}{to}").unwrap();
        if weights {
            write!(text, " {}", random.below(100) as f32 / 8.0).unwrap();
        }
        text.push_str(end);
    }
    text
}

fn put(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn text_of_any_lines_makes_the_same_graph_whether_it_is_parsed_first_or_not() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..4 {
        let random = &mut Random(seed);
        let edges = rmat(15, 4, seed);
        let (first, second) = edges.split_at(random.below(1 << 17) as usize);
        let end = ["\n", "\r\n"][(seed % 2) as usize];
        for is_weighted in [false, true] {
            let texts = [first, second].map(|some| lines(some, random, (end, is_weighted)));
            let files = [
                put(dir.path(), "a.txt", texts[0].trim_end()),
                put(dir.path(), "empty.txt", ""),
                put(dir.path(), "b.txt", &texts[1]),
            ];
            let options = ConvertOptions {
                is_undirected: seed % 2 == 1,
                dedup: seed % 3 == 1,
                read: ReadOptions {
                    is_weighted,
                    ..ReadOptions::default()
                },
                ..ConvertOptions::default()
            };
            let summary = check(&files, &options);
            assert_eq!(summary.edges_in, edges.len() as u64, "seed {seed}");
        }
    }
}

#[test]
fn text_without_edges_matrices_and_csv_are_read_once_too() {
    let dir = tempfile::tempdir().unwrap();
    let plain = ConvertOptions::default();
    for (name, text) in [
        ("none.txt", ""),
        ("comments.txt", "# nothing\n\n% here\n"),
        ("one.txt", "7 7"),
        ("e.csv", "a,b\n1,2\n\"3\",0\n"),
        (
            "m.mtx",
            "%%MatrixMarket matrix coordinate pattern symmetric\n% two\n9 9 2\n2 1\n3 3\n",
        ),
    ] {
        check(&[put(dir.path(), name, text)], &plain);
    }
    let more = ConvertOptions {
        vertices: Some(100_000),
        ..plain
    };
    check(&[put(dir.path(), "f.txt", "0 1\n5 2\n")], &more);
}

#[test]
fn an_id_larger_than_all_that_are_looked_at_before_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut edges: Vec<[u32; 2]> = (0..400_000).map(|id| [id % 991, id % 83]).collect();
    // Between two sampled places.
    edges[1_700] = [3, 9_000_000];
    let random = &mut Random(5);
    let text = put(dir.path(), "e.txt", &lines(&edges, random, ("\n", false)));
    check(&[text], &ConvertOptions::default());
    let pairs = dir.path().join("e.u32");
    write_pairs(&pairs, &edges);
    check(&[pairs], &ConvertOptions::default());
}

#[test]
fn pairs_without_a_number_of_vertices_make_the_same_graph_and_are_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(16, 16, 9);
    let pairs = dir.path().join("e.u32");
    write_pairs(&pairs, &edges);
    let summary = check(&[pairs], &ConvertOptions::default());
    let len_bytes = 8 * edges.len() as u64;
    // The keys stay in memory; only the input and a sample are read.
    let read_bytes = summary.read_bytes;
    assert!(
        read_bytes < len_bytes * 3 / 2,
        "{read_bytes} of {len_bytes}"
    );
    let wide = dir.path().join("e.u64");
    let ids = edges.iter().flatten();
    let bytes = ids.flat_map(|id| u64::from(*id).to_le_bytes());
    std::fs::write(&wide, bytes.collect::<Vec<u8>>()).unwrap();
    let options = ConvertOptions {
        read: ReadOptions {
            format: Some(EdgeFormat::Pairs64),
            ..ReadOptions::default()
        },
        ..ConvertOptions::default()
    };
    check(&[wide], &options);
}

#[test]
fn text_is_read_once_and_no_pairs_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let text = lines(&rmat(15, 10, 4), &mut Random(4), ("\n", false));
    let len_bytes = text.len() as u64;
    let (_, summary) = converted(
        &[put(dir.path(), "e.txt", &text)],
        &ConvertOptions::default(),
        (MUCH, 2),
    );
    let (read_bytes, written_bytes) = (summary.read_bytes, summary.written_bytes);
    assert!(
        read_bytes < len_bytes + (5 << 18),
        "{read_bytes} of {len_bytes}"
    );
    assert_eq!(written_bytes, summary.graph_bytes);
}

#[test]
fn a_line_longer_than_any_edge_is_an_error_and_not_gathered() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("0 1\n#{}\n1 2\n", "x".repeat(3 << 20));
    let path = put(dir.path(), "e.txt", &text);
    let graph = dir.path().join("g");
    for memory_bytes in [LITTLE, MUCH] {
        let (job, files) = (job(memory_bytes, 2), std::slice::from_ref(&path));
        let error = convert(&job, files, &graph, &ConvertOptions::default()).unwrap_err();
        assert!(
            error.to_string().contains("a line is longer than"),
            "{error}"
        );
        assert_eq!(error.file_path(), Some(path.as_path()));
        assert!(!graph.exists());
    }
}
