//! Every example against the standard library.
//!
//! Contract: inputs are generated. If possible, they are larger than the memory of the job.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use outcore::IoMode;
use outcore::dataset::Context;
use outcore::job::{Job, JobOptions};
use outcore::read::sample::random;
use outcore_examples as examples;

struct Case {
    dir: tempfile::TempDir,
}

impl Drop for Case {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check_left();
        }
    }
}

impl Case {
    fn new() -> Self {
        Case {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Fails for private directories that were left behind.
    fn check_left(&self) {
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.starts_with(".outcore-"), "{name} is left behind");
        }
    }

    fn put<T: bytemuck::Pod>(&self, name: &str, items: &[T]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytemuck::cast_slice::<T, u8>(items)).unwrap();
        path
    }
}

fn get<T: bytemuck::Pod>(path: &Path) -> Vec<T> {
    bytemuck::pod_collect_to_vec(&std::fs::read(path).unwrap())
}

fn job() -> Job {
    let options = JobOptions {
        memory_bytes: 24 << 20,
        threads: 2,
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}

fn numbers(count: u64, below: u64) -> Vec<u64> {
    (0..count).map(|i| random(3, i) % below).collect()
}

#[test]
fn semisort_puts_rows_of_one_key_side_by_side() {
    let case = Case::new();
    for (count, keys) in [
        (0, 1),
        (1, 1),
        (300_000, 1),
        (300_000, 40),
        (300_000, u64::MAX),
    ] {
        // Some keys are much more frequent than others.
        let key = |i: u64| match random(7, i) % 3 {
            0 => 5,
            _ => random(3, i) % keys,
        };
        let mut rows: Vec<[u64; 2]> = (0..count).map(|i| [key(i), i]).collect();
        let from = case.put("rows", &rows);
        let to = case.path(&format!("semisorted-{count}-{keys}"));
        let ctx = Context::builder().memory("24MiB").threads(2);
        let ctx = ctx.drive(case.dir.path()).build().unwrap();
        let done = examples::semisort(&ctx, &from, &to).unwrap();
        assert_eq!(done.records, count);
        let mut found: Vec<[u64; 2]> = get(&to);
        let mut seen = BTreeSet::new();
        for run in found.chunk_by(|a, b| a[0] == b[0]) {
            assert!(seen.insert(run[0][0]), "key {} in two places", run[0][0]);
        }
        found.sort_unstable();
        rows.sort_unstable();
        assert!(found == rows);
    }
}

#[test]
fn samplesort_sorts() {
    let case = Case::new();
    for count in [0, 1, 500_000] {
        let mut items = numbers(count, u64::MAX);
        let from = case.put("in", &items);
        let to = case.path(&format!("out-{count}"));
        examples::samplesort(&job(), &from, &to).unwrap();
        items.sort_unstable();
        assert!(get::<u64>(&to) == items, "{count}");
    }
}

#[test]
fn prefix_sums_are_those_of_a_loop() {
    let case = Case::new();
    let items = numbers(400_000, u64::MAX);
    let from = case.put("in", &items);
    examples::prefix_sums(&job(), &from, &case.path("out")).unwrap();
    let mut sum = 0_u64;
    let expected: Vec<u64> = items
        .iter()
        .map(|x| {
            let next = sum.wrapping_add(*x);
            std::mem::replace(&mut sum, next)
        })
        .collect();
    assert!(get::<u64>(&case.path("out")) == expected);
}

#[test]
fn a_histogram_counts_everything_once() {
    let case = Case::new();
    let items: Vec<f64> = numbers(300_000, 1000)
        .iter()
        .map(|x| *x as f64 / 8.0)
        .collect();
    let from = case.put("in", &items);
    let (low, high, counts) = examples::histogram_of(&job(), &from, 10).unwrap();
    assert_eq!((low, high), (0.0, 999.0 / 8.0));
    let expected = items.iter().fold(vec![0; 10], |mut counts, x| {
        counts[((x / high * 10.0) as usize).min(9)] += 1;
        counts
    });
    assert_eq!(counts.iter().sum::<u64>(), 300_000);
    let off = counts
        .iter()
        .zip(&expected)
        .map(|(a, b)| a.abs_diff(*b))
        .max();
    assert!(off <= Some(300), "{counts:?} {expected:?}");
}

#[test]
fn the_kth_largest_is_that_of_a_sort() {
    let case = Case::new();
    let mut items = numbers(200_000, 1 << 50);
    items.extend(vec![7; 1000]);
    let from = case.put("in", &items);
    items.sort_unstable_by(|a, b| b.cmp(a));
    for k in [1, 2, 99_999, 200_500, 201_000] {
        let found = examples::kth_largest(&job(), &from, k).unwrap();
        assert_eq!(found, Some(items[k as usize - 1]), "{k}");
    }
    assert_eq!(examples::kth_largest(&job(), &from, 201_001).unwrap(), None);
}

/// A real text, many times over, with a number in each copy.
fn real_text() -> String {
    let text = include_str!("../../LICENSE-APACHE");
    let copy = |number: u64| format!("{text}Copy {} of it\n", random(1, number) % 40);
    (0..100).map(copy).collect()
}

fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
}

#[test]
fn the_words_of_a_real_text_are_counted() {
    let case = Case::new();
    let text = real_text();
    let from = case.put("in", text.as_bytes());
    let found = examples::word_count(&job(), &from, &case.path("out")).unwrap();
    let mut counts = BTreeMap::new();
    for word in words_of(&text) {
        *counts.entry(word).or_insert(0_u64) += 1;
    }
    assert!(counts["license"] > 1000, "it is about one");
    assert_eq!(found, counts.len() as u64);
    let expected: String = counts
        .iter()
        .map(|(word, count)| format!("{count:7} {word}\n"))
        .collect();
    assert!(std::fs::read_to_string(case.path("out")).unwrap() == expected);
}

#[test]
fn documents_that_say_the_same_are_kept_once_and_the_first_of_them() {
    let case = Case::new();
    let text = real_text();
    let document = |(number, line): (usize, &str)| {
        serde_json::json!({"id": number, "text": line.trim()}).to_string()
    };
    let documents: Vec<String> = text.lines().enumerate().map(document).collect();
    let from = case.put("in", (documents.join("\n") + "\n").as_bytes());
    let found = examples::deduplicate(&job(), &from, ".text", &case.path("out")).unwrap();
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for (line, document) in text.lines().zip(&documents) {
        first.entry(line.trim()).or_insert(document);
    }
    assert_eq!(found, first.len() as u64);
    let expected: Vec<&str> = first.into_values().collect();
    let written = std::fs::read_to_string(case.path("out")).unwrap();
    assert!(written.lines().eq(expected));
    let torn = case.put("torn", b"{\"text\": \"a\"}\n{\"id\": 1}\n");
    let error = examples::deduplicate(&job(), &torn, ".text", &case.path("none")).unwrap_err();
    assert!(error.to_string().contains('2'), "{error}");
    assert!(!case.path("none").exists());
}

#[test]
fn a_shuffle_keeps_every_record_and_epochs_differ() {
    let case = Case::new();
    let items: Vec<u64> = (0..300_000).collect();
    let from = case.put("in", &items);
    examples::global_shuffle(&job(), &from, &case.path("one"), 1).unwrap();
    examples::global_shuffle(&job(), &from, &case.path("two"), 2).unwrap();
    let (one, two) = (get::<u64>(&case.path("one")), get::<u64>(&case.path("two")));
    assert!(one != two && one != items);
    for mut shuffled in [one, two] {
        shuffled.sort_unstable();
        assert!(shuffled == items);
    }
}

#[test]
fn a_join_finds_the_partner_of_every_row() {
    let case = Case::new();
    let left: Vec<[u64; 2]> = (0..50_000).map(|i| [i * 3, random(1, i)]).collect();
    let right: Vec<[u64; 2]> = (0..80_000).map(|i| [random(2, i) % 160_000, i]).collect();
    let (a, b) = (case.put("left", &left), case.put("right", &right));
    let to = case.path("out");
    let found = examples::join(&job(), &a, &b, &to).unwrap();
    let by_key: HashMap<u64, u64> = left.iter().map(|[key, value]| (*key, *value)).collect();
    let mut expected: Vec<[u64; 3]> = right
        .iter()
        .filter_map(|[key, value]| Some([*key, *by_key.get(key)?, *value]))
        .collect();
    expected.sort_unstable();
    assert_eq!(found, expected.len() as u64);
    assert!(get::<[u64; 3]>(&to) == expected);
}

#[test]
fn an_inverted_index_leads_to_every_line_of_a_real_text() {
    let case = Case::new();
    let text = real_text();
    let from = case.put("in", text.as_bytes());
    let found = examples::inverted_index(&job(), &from, &case.path("out")).unwrap();
    let mut index: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        for word in words_of(line) {
            index.entry(word).or_default().insert(number + 1);
        }
    }
    assert_eq!(found, index.len() as u64);
    let line = |(word, numbers): (&String, &BTreeSet<usize>)| {
        let numbers: String = numbers.iter().map(|number| format!(" {number}")).collect();
        format!("{word}{numbers}\n")
    };
    let expected: String = index.iter().map(line).collect();
    assert!(std::fs::read_to_string(case.path("out")).unwrap() == expected);
    let empty = case.put("empty", b"");
    assert_eq!(
        examples::inverted_index(&job(), &empty, &case.path("none")).unwrap(),
        0
    );
}

#[test]
fn a_search_finds_the_depth_of_every_vertex() {
    let case = Case::new();
    let count = 20_000_u64;
    let edge = |i: u64| [(random(1, i) % count) as u32, (random(2, i) % count) as u32];
    let edges: Vec<[u32; 2]> = (0..60_000).map(edge).collect();
    let from = case.put("edges", &edges);
    let mut next: HashMap<u32, Vec<u32>> = HashMap::new();
    for [from, to] in edges {
        next.entry(from).or_default().push(to);
    }
    let source = edge(0)[0];
    let mut expected: Vec<Option<u32>> = vec![None; count as usize];
    expected[source as usize] = Some(0);
    let mut frontier = vec![source];
    while let Some(vertex) = (!frontier.is_empty()).then(|| frontier.remove(0)) {
        for to in next.get(&vertex).into_iter().flatten() {
            if expected[*to as usize].is_none() {
                expected[*to as usize] = expected[vertex as usize].map(|depth| depth + 1);
                frontier.push(*to);
            }
        }
    }
    let found = examples::bfs(&job(), &from, count as usize, source).unwrap();
    assert!(found.iter().flatten().count() > 1000);
    assert!(found == expected);
}

#[test]
fn label_propagation_finds_the_components_that_union_find_finds() {
    use outcore_graph::convert::{ConvertOptions, convert};
    let dir = tempfile::tempdir().unwrap();
    let (edges, graph) = (dir.path().join("e.u32"), dir.path().join("g"));
    let ends = (0..4000).map(|i| [random(1, i) % 3000, random(2, i) % 3000]);
    let bytes = ends.flatten().flat_map(|id| (id as u32).to_le_bytes());
    std::fs::write(&edges, bytes.collect::<Vec<u8>>()).unwrap();
    let job = job();
    convert(&job, &[edges], &graph, &ConvertOptions::default()).unwrap();
    let open = outcore_graph::graph::Graph::open(&job, &graph).unwrap();
    let wanted = outcore_graph::kernels::components(&job, &open).unwrap();
    assert!(wanted.iter().any(|label| *label > 0));
    assert!(examples::label_propagation(&job, &graph).unwrap() == wanted);
}

#[test]
fn every_example_is_a_page_of_at_most_80_lines() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut drivers = 0;
    for entry in std::fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 80, "{}: {lines} lines", path.display());
        drivers += 1;
    }
    // Two of these files are not algorithms.
    assert!(drivers >= 13);
}
