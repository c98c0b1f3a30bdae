//! Every example against the standard library.
//!
//! Contract: inputs are generated, larger than the memory that the job gets where that is possible.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use outcore::config::IoMode;
use outcore::job::{Job, JobOptions};
use outcore::stream::sample::random;
use outcore_examples as examples;

struct Case {
    dir: tempfile::TempDir,
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

#[test]
fn words_are_counted_and_records_deduplicated() {
    let case = Case::new();
    let word = |x: u64| {
        let mut word = [0_u8; 16];
        let text = format!("{}{x}", if x.is_multiple_of(2) { "Word" } else { "word" });
        word[..text.len()].copy_from_slice(text.as_bytes());
        word
    };
    let words: Vec<[u8; 16]> = numbers(200_000, 3000).into_iter().map(word).collect();
    let from = case.put("in", &words);
    let mut counts = BTreeMap::new();
    for word in &words {
        *counts
            .entry(word.map(|c| c.to_ascii_lowercase()))
            .or_insert(0_u64) += 1;
    }
    let found = examples::word_count(&job(), &from, &case.path("counts")).unwrap();
    assert_eq!(found, counts.len() as u64);
    let expected: Vec<u8> = counts
        .iter()
        .flat_map(|(word, count)| [&word[..], &count.to_le_bytes()].concat())
        .collect();
    assert!(std::fs::read(case.path("counts")).unwrap() == expected);

    let found = examples::deduplicate(&job(), &from, &case.path("unique")).unwrap();
    let expected: BTreeSet<[u8; 16]> = words.into_iter().collect();
    assert_eq!(found, expected.len() as u64);
    let expected: Vec<[u8; 16]> = expected.into_iter().collect();
    assert!(get::<[u8; 16]>(&case.path("unique")) == expected);
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
fn an_inverted_index_leads_to_every_document() {
    let case = Case::new();
    let pair = |i: u64| [(random(1, i) % 500) as u32, (random(2, i) % 900) as u32];
    let pairs: Vec<[u32; 2]> = (0..100_000).map(pair).collect();
    let from = case.put("pairs", &pairs);
    let (terms, postings) = (case.path("terms"), case.path("postings"));
    let found = examples::inverted_index(&job(), &from, &terms, &postings).unwrap();
    let mut index: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for [term, document] in pairs {
        index.entry(term).or_default().insert(document);
    }
    assert_eq!(found, index.len() as u64);
    let documents = get::<u32>(&postings);
    let terms = get::<[u64; 2]>(&terms);
    for (number, (term, expected)) in index.iter().enumerate() {
        let [found, start] = terms[number];
        assert_eq!(found, u64::from(*term));
        let list = &documents[start as usize..start as usize + expected.len()];
        assert!(list.iter().eq(expected), "{term}");
    }
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
