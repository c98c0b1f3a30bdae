//! Graphs with string ids: their contents, lookups by name, and rejected input.
//!
//! Contract: a graph of names is compared with a graph in which each name is replaced by its place
//! in the order of names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outcore::{Job, Kind, Result};
use outcore_graph::convert::{ConvertOptions, ConvertSummary, convert};
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::format::weight::WeightType;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::components;
use outcore_graph::results::{self, Values, WriteOptions};

use crate::common::{Random, job, rmat, write_pairs};

fn options(relabel: Relabel, is_weighted: bool) -> ConvertOptions {
    ConvertOptions {
        relabel,
        replace: true,
        read: ReadOptions {
            is_weighted,
            ..ReadOptions::default()
        },
        ..ConvertOptions::default()
    }
}

/// Names of many lengths; some are a prefix of another, some have multi-byte letters.
fn name(id: u32) -> String {
    let mut random = Random(u64::from(id / 2));
    let letters = ["a", "b", "\u{e9}", "Z", ",", "\u{1F600}", "7"];
    let count = 1 + random.below(if id.is_multiple_of(97) { 300 } else { 12 });
    let mut name: String = (0..count)
        .map(|_| letters[random.below(7) as usize])
        .collect();
    name += &format!("-{}", id / 2);
    if id % 2 == 1 {
        name += "0";
    }
    name
}

fn made(job: &Job, text: &str, path: &Path, options: &ConvertOptions) -> Result<ConvertSummary> {
    std::fs::write(path, text).unwrap();
    convert(
        job,
        &[path.to_path_buf()],
        &path.with_extension("graph"),
        options,
    )
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (PathBuf::from(path.file_name().unwrap()), bytes)
    };
    files.map(read).collect()
}

#[test]
fn names_become_the_numbers_that_they_have_in_order_for_any_memory_and_threads() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(14, 8, 3);
    let mut names: Vec<String> = edges.iter().flatten().map(|id| name(*id)).collect();
    names.sort_unstable();
    names.dedup();
    let number = |id: u32| names.binary_search(&name(id)).unwrap() as u32;
    let numbered: Vec<[u32; 2]> = edges
        .iter()
        .map(|[a, b]| [number(*a), number(*b)])
        .collect();
    let input = dir.path().join("e.txt");
    for is_weighted in [false, true] {
        let lines = edges.iter().zip(&numbered);
        let text: String = lines
            .map(|([a, b], [x, _])| format!("{}\t {}  {}\n", name(*a), name(*b), x % 9))
            .collect();
        let plain = dir.path().join("n.u32");
        match is_weighted {
            false => write_pairs(&plain, &numbered),
            true => {
                let items = numbered.iter().flat_map(|[a, b]| {
                    let ids = [a, b].map(|id| id.to_le_bytes()).concat();
                    [ids, f64::from(a % 9).to_le_bytes().to_vec()].concat()
                });
                std::fs::write(&plain, items.collect::<Vec<u8>>()).unwrap();
            }
        }
        let wanted_dir = dir.path().join("n.graph");
        let big = job(256 << 20, 2);
        let mut wanted = options(Relabel::No, is_weighted);
        // The type in which weights in text are stored.
        wanted.read.weight_type = Some(WeightType::F64);
        convert(&big, &[plain], &wanted_dir, &wanted).unwrap();
        let wanted = files(&wanted_dir);
        let mut first = None;
        for (memory_bytes, threads) in [(16 << 20, 2), (24 << 20, 1), (256 << 20, 3)] {
            let job = job(memory_bytes, threads);
            let done = made(&job, &text, &input, &options(Relabel::Auto, is_weighted)).unwrap();
            assert_eq!(done.edges_in, edges.len() as u64);
            assert_eq!(done.manifest.vertices, names.len() as u64);
            assert_eq!(job.budget.used_bytes(), 0);
            let found = files(&input.with_extension("graph"));
            for (name, bytes) in &wanted {
                let is_same = found.get(name) == Some(bytes);
                assert!(
                    is_same || name.ends_with("graph.json"),
                    "{}",
                    name.display()
                );
            }
            assert!(
                first.get_or_insert_with(|| found.clone()) == &found,
                "{memory_bytes}"
            );
        }
        check_names(&input.with_extension("graph"), &names);
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 4, "no scratch is left");
}

/// Looks up every name by its vertex, and every vertex by its name.
fn check_names(path: &Path, names: &[String]) {
    let job = job(64 << 20, 2);
    let graph = Graph::open(&job, path).unwrap();
    graph.verify(&job).unwrap();
    let found = graph.names(&job).unwrap().unwrap();
    assert!(found.numbers().is_none());
    let all: Vec<u32> = (0..names.len() as u32).rev().collect();
    let held = found.held(&job, all.clone()).unwrap();
    assert!(
        all.iter()
            .all(|vertex| held.get(*vertex) == names[*vertex as usize])
    );
    let mut wanted: Vec<String> = names.iter().step_by(7).cloned().collect();
    wanted.extend(["", "~", "a", "\u{10FFFF}"].map(str::to_owned));
    let vertices = found.vertices(&job, &wanted).unwrap();
    for (name, vertex) in wanted.iter().zip(vertices) {
        let known = names.binary_search(name).ok().map(|vertex| vertex as u32);
        assert_eq!(vertex, known, "{name}");
    }
    // Lines by name, also with names for the vertices that label components.
    let labels = components(&job, &graph).unwrap();
    let out = path.with_file_name("out");
    let options = WriteOptions {
        replace: true,
        names: Some(&found),
        by_name: true,
    };
    results::write(
        &job,
        out.as_path(),
        &Values::Vertices(labels.clone()),
        options,
    )
    .unwrap();
    let quoted = |name: &str| match name.contains(',') {
        true => format!("\"{name}\""),
        false => name.to_owned(),
    };
    let lines = names.iter().zip(&labels);
    let lines = lines.map(|(name, label)| {
        let label = &names[*label as usize];
        format!("{},{}\n", quoted(name), quoted(label))
    });
    assert!(std::fs::read_to_string(&out).unwrap() == lines.collect::<String>());
    drop((found, held, graph));
    assert_eq!(job.budget.used_bytes(), 0);
    std::fs::remove_file(&out).unwrap();
}

/// Returns the names of the vertices in a graph of that text, or the error.
fn named(
    text: &[u8],
    file: &str,
    options: &ConvertOptions,
) -> std::result::Result<Vec<String>, (Kind, String)> {
    let dir = tempfile::tempdir().unwrap();
    let job = job(32 << 20, 2);
    let (input, output) = (dir.path().join(file), dir.path().join("g"));
    std::fs::write(&input, text).unwrap();
    let done = convert(&job, &[input], &output, options);
    done.map_err(|error| {
        assert!(!output.exists(), "{error}");
        (error.kind(), error.to_string())
    })?;
    let graph = Graph::open(&job, &output).unwrap();
    graph.verify(&job).unwrap();
    let names = graph.names(&job).unwrap().unwrap();
    let vertices: Vec<u32> = (0..graph.vertices() as u32).collect();
    let held = names.held(&job, vertices.clone()).unwrap();
    Ok(vertices
        .iter()
        .map(|vertex| held.get(*vertex).to_owned())
        .collect())
}

#[test]
fn ids_are_numbers_or_names_as_the_first_lines_or_the_user_say() {
    let auto = options(Relabel::Auto, false);
    let text = options(Relabel::Text, false);
    let is = |names: &[&str]| {
        Ok(names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>())
    };
    assert_eq!(named(b"10 9\n9 8\n", "e.txt", &auto), is(&["8", "9", "10"]));
    assert_eq!(named(b"10 9\n9 8\n", "e.txt", &text), is(&["10", "8", "9"]));
    assert_eq!(named(b"10 9\n9 x8", "e.txt", &auto), is(&["10", "9", "x8"]));
    assert_eq!(named(b"# nobody\n", "e.txt", &text), is(&[]));
    assert_eq!(named(b"", "e.txt", &text), is(&[]));
    let csv = b"from,to\n\"a,1\",b\nb, c d \n";
    assert_eq!(named(csv, "e.csv", &auto), is(&["a,1", "b", "c d"]));
    let mut all = auto.clone();
    all.read.has_no_header = true;
    let with_header = is(&["a,1", "b", "c d", "from", "to"]);
    assert_eq!(named(csv, "e.csv", &all), with_header);
    let tabs = "New York\tS\u{e3}o Paulo\n".as_bytes();
    assert_eq!(
        named(tabs, "e.tsv", &auto),
        is(&["New York", "S\u{e3}o Paulo"])
    );
    let networkx = b"alice bob {'weight': 2.5}\nbob carol {'weight': 1}\n";
    let weighted = options(Relabel::Auto, true);
    let wanted = is(&["alice", "bob", "carol"]);
    assert_eq!(named(networkx, "e.edgelist", &weighted), wanted);
    // A negative number is reported, and does not make all ids names.
    let (kind, why) = named(b"10 9\n-3 8\n", "e.txt", &auto).unwrap_err();
    assert_eq!(kind, Kind::Corrupt);
    assert!(
        why.contains("line 2") && why.contains("the id -3 is negative"),
        "{why}"
    );
    assert!(why.contains("--relabel=text"), "{why}");
    assert_eq!(
        named(b"10 9\n-3 8\n", "e.txt", &text),
        is(&["-3", "10", "8", "9"])
    );
    // An invalid number comes long after the lines that are inspected.
    let mut long = "1 2\n".repeat(20_000);
    long += "3 four\n";
    let (kind, why) = named(long.as_bytes(), "e.txt", &auto).unwrap_err();
    assert_eq!(kind, Kind::Corrupt);
    assert!(
        why.contains("line 20001") && why.contains("--relabel=text"),
        "{why}"
    );
    let names = named(long.as_bytes(), "e.txt", &text);
    assert_eq!(names, is(&["1", "2", "3", "four"]));
}

#[test]
fn what_cannot_be_a_name_is_an_error_that_names_file_and_line() {
    let auto = options(Relabel::Auto, false);
    let weighted = options(Relabel::Auto, true);
    let long = format!("a b\n{} b\n", "x".repeat(4097));
    let endless = "x".repeat(300 << 10);
    for (text, file, options, words) in [
        (
            &b"a b\nc\n"[..],
            "e.txt",
            &auto,
            &["line 2", "fewer than two"][..],
        ),
        (b"h,i\na,b\n,c\n", "e.csv", &auto, &["line 3", "empty"]),
        (b"a b\nc \xFF\n", "e.txt", &auto, &["line 2", "UTF-8"]),
        (b"a b\n\nc d\0\n", "e.txt", &auto, &["line 3", "zero byte"]),
        (long.as_bytes(), "e.txt", &auto, &["line 2", "4096"]),
        (
            b"a b 1\nb c nan\n",
            "e.txt",
            &weighted,
            &["line 2", "finite"],
        ),
        (
            b"a b 1\nb c\n",
            "e.txt",
            &weighted,
            &["line 2", "no weight"],
        ),
        (b"h,i\n\"a,b\n", "e.csv", &auto, &["line 2", "quote"]),
        (endless.as_bytes(), "e.txt", &auto, &["longer than 262144"]),
    ] {
        let mut options = options.clone();
        options.relabel = Relabel::Text;
        let (kind, why) = named(text, file, &options).unwrap_err();
        assert_eq!(kind, Kind::Corrupt, "{why}");
        let has_all = words.iter().all(|word| why.contains(*word));
        assert!(has_all && why.contains(file), "{why}");
    }
    let pairs = options(Relabel::Text, false);
    let (kind, why) = named(&[0; 8], "e.u32", &pairs).unwrap_err();
    assert_eq!(
        (kind, why.contains("numbers, not names")),
        (Kind::Usage, true),
        "{why}"
    );
}

#[test]
fn a_flipped_bit_or_a_cut_in_the_names_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(32 << 20, 2);
    let text: String = (0..5_000)
        .map(|id| format!("{} {}\n", name(id), name(id + 1)))
        .collect();
    made(
        &job,
        &text,
        &dir.path().join("e.txt"),
        &options(Relabel::Auto, false),
    )
    .unwrap();
    let graph = dir.path().join("e.graph");
    let check = || Graph::open(&job, &graph).and_then(|graph| graph.verify(&job));
    check().unwrap();
    for file in ["names", "names.index"] {
        let path = graph.join(file);
        let bytes = std::fs::read(&path).unwrap();
        for at in [0, 9, bytes.len() / 2, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[at.min(bytes.len() - 1)] ^= 4;
            std::fs::write(&path, &bad).unwrap();
            let error = check().unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{file}, byte {at}: {error}");
            assert!(error.file_path().is_some(), "{error}");
        }
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(check().is_err(), "{file} cut");
        std::fs::write(&path, &bytes).unwrap();
    }
    check().unwrap();
}
