//! A search of some lists of an index equals a naive search of these lists; a search of all lists
//! equals a search of the base.
//!
//! Contract: ids and distances are bit-identical. The index's bytes depend only on the base and the
//! options.

use std::path::{Path, PathBuf};

use outcore::{IoMode, Job, JobOptions, Kind, ScratchDrive};
use outcore_vector::exact::{dot, squared_distance};
use outcore_vector::format::VectorFile;
use outcore_vector::index::{ListOptions, build, build_lists};
use outcore_vector::knn::{KnnOptions, Metric, Neighbours, knn};

use crate::common::*;

const METRICS: [Metric; 3] = [Metric::L2, Metric::Ip, Metric::Cos];

/// A job with scratch next to `place`.
fn spilling(place: &Place, memory_bytes: u64, threads: usize) -> Job {
    let scratch = place.path("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let options = JobOptions {
        memory_bytes,
        threads,
        drives: vec![ScratchDrive::new(&scratch)],
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}

fn listed(place: &Place, base: &VectorFile, lists: usize, is_spherical: bool) -> PathBuf {
    let path = place.path("base.vindex");
    let options = ListOptions {
        is_spherical,
        ..ListOptions::new(lists)
    };
    build_lists(&job(64 << 20, 2), base, &path, true, &options).unwrap();
    path
}

fn distance(metric: Metric, a: &[f64], b: &[f64]) -> f64 {
    match metric {
        Metric::L2 => squared_distance(a, b),
        Metric::Ip => 0.0 - dot(a, b),
        _ => 1.0 - dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt()),
    }
}

/// Sorts some rows by distance, then by number.
fn nearest(
    metric: Metric,
    query: &[f64],
    rows: impl Iterator<Item = (u64, Vec<f64>)>,
    k: usize,
) -> Vec<(u64, f64)> {
    let mut all: Vec<(u64, f64)> = rows
        .map(|(id, row)| (id, distance(metric, query, &row)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    all.truncate(k);
    all
}

fn wide(numbers: &[f32], dimension: usize) -> Vec<Vec<f64>> {
    let rows = numbers.chunks_exact(dimension);
    rows.map(|row| row.iter().map(|number| f64::from(*number)).collect())
        .collect()
}

/// Reads the centroids in the index.
fn centroids(index: &Path, lists: usize, dimension: usize) -> Vec<Vec<f64>> {
    let bytes = std::fs::read(index).unwrap();
    let (numbers, _) = bytes[4096..][..lists * dimension * 8].as_chunks::<8>();
    let numbers: Vec<f64> = numbers
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes))
        .collect();
    numbers
        .chunks_exact(dimension)
        .map(<[f64]>::to_vec)
        .collect()
}

fn bits(found: &Neighbours) -> Vec<u64> {
    found
        .distances
        .iter()
        .map(|number| number.to_bits())
        .collect()
}

/// Returns the list of each row: that of its nearest centroid.
fn lists_of(rows: &[Vec<f64>], centroids: &[Vec<f64>], is_spherical: bool) -> Vec<u64> {
    let list_of = |row: &Vec<f64>| {
        let norm = match is_spherical {
            true => dot(row, row).sqrt(),
            false => 1.0,
        };
        let row: Vec<f64> = row.iter().map(|number| number / norm).collect();
        let all = (0..).zip(centroids.iter().cloned());
        nearest(Metric::L2, &row, all, 1)[0].0
    };
    rows.iter().map(list_of).collect()
}

/// Returns the first `probes` of `lists`, and further ones until there are `k` rows.
fn lists_read(lists: &[(u64, f64)], list_of: &[u64], (probes, k): (usize, usize)) -> Vec<u64> {
    let (mut read, mut count) = (Vec::new(), 0);
    for (list, _) in lists {
        if read.len() >= probes && count >= k {
            break;
        }
        count += list_of.iter().filter(|of| *of == list).count();
        read.push(*list);
    }
    read
}

#[test]
fn a_search_of_lists_finds_what_a_naive_search_of_them_finds_and_measures_its_recall() {
    const LISTS: usize = 12;
    const K: usize = 9;
    for spread in SPREADS {
        for is_spherical in [false, true] {
            let (place, dimension) = (Place::new(), 17);
            let mut base = vectors(spread, 1_000, dimension, 1);
            // No row is zero.
            base.iter_mut()
                .step_by(dimension)
                .for_each(|number| *number += 1.0);
            let queries = vectors(spread, 6, dimension, 2);
            let queries: Vec<f32> = queries.iter().map(|number| number + 0.25).collect();
            let (rows, wanted) = (wide(&base, dimension), wide(&queries, dimension));
            let base = place.fbin("base.fbin", &base, dimension);
            let queries = place.fbin("queries.fbin", &queries, dimension);
            let index = listed(&place, &base, LISTS, is_spherical);
            let centroids = centroids(&index, LISTS, dimension);
            let list_of = lists_of(&rows, &centroids, is_spherical);
            for (metric, probes) in METRICS
                .into_iter()
                .flat_map(|metric| [1, 3, LISTS].map(|p| (metric, p)))
            {
                let what = format!("{spread}, {is_spherical}, {metric:?}, {probes}");
                let plain = KnnOptions::new(K, metric);
                let options = KnnOptions {
                    index: Some(index.clone()),
                    probes: Some(probes),
                    recall_queries: 4,
                    ..plain.clone()
                };
                let found = knn(&job(64 << 20, 2), &base, &queries, &options).unwrap();
                let small = knn(&job(1 << 20, 1), &base, &queries, &options).unwrap();
                assert_eq!(
                    (&found.ids, bits(&found)),
                    (&small.ids, bits(&small)),
                    "{what}"
                );
                let plain = knn(&job(64 << 20, 2), &base, &queries, &plain).unwrap();
                if probes == LISTS {
                    assert_eq!(
                        (&found.ids, bits(&found)),
                        (&plain.ids, bits(&plain)),
                        "{what}"
                    );
                    assert_eq!(found.recall, None);
                    continue;
                }
                let by = if metric == Metric::Cos && is_spherical {
                    Metric::Ip
                } else {
                    metric
                };
                let mut hits = 0;
                for (at, query) in wanted.iter().enumerate() {
                    let lists = nearest(by, query, (0..).zip(centroids.iter().cloned()), LISTS);
                    let read = lists_read(&lists, &list_of, (probes, K));
                    let among = (0..)
                        .zip(&rows)
                        .filter(|(id, _)| read.contains(&list_of[*id as usize]));
                    let naive = nearest(metric, query, among.map(|(id, row)| (id, row.clone())), K);
                    let ids: Vec<u64> = naive.iter().map(|(id, _)| *id).collect();
                    assert_eq!(found.ids[at * K..][..K], ids, "{what}, query {at}");
                    let shown = |distance: f64| {
                        if metric == Metric::Ip {
                            0.0 - distance
                        } else {
                            distance
                        }
                    };
                    assert!(
                        naive
                            .iter()
                            .zip(&found.distances[at * K..])
                            .all(|(a, b)| shown(a.1) == *b),
                        "{what}"
                    );
                    if at < 4 {
                        hits += ids
                            .iter()
                            .filter(|id| plain.ids[at * K..][..K].contains(id))
                            .count();
                    }
                }
                let recall = found.recall.unwrap();
                assert_eq!(
                    (recall.share, recall.queries),
                    (hits as f64 / (4 * K) as f64, 4),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn an_index_with_lists_is_the_same_within_little_memory_and_reads_little() {
    let (place, dimension) = (Place::new(), 32);
    let base = vectors("gaussian", 70_000, dimension, 3);
    let queries = place.fbin("queries.fbin", &base[..dimension * 3], dimension);
    let base = place.fbin("base.fbin", &base, dimension);
    let mut made: Vec<Vec<u8>> = Vec::new();
    for (memory_bytes, threads) in [(64 << 20, 2), (7 << 20, 3), (7 << 20, 1)] {
        let path = place.path("base.vindex");
        let job = spilling(&place, memory_bytes, threads);
        let built = build_lists(&job, &base, &path, true, &ListOptions::new(40)).unwrap();
        assert_eq!(job.budget.used_bytes(), 0);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(built.index_bytes, bytes.len() as u64);
        made.push(bytes);
    }
    assert!(made[0] == made[1] && made[0] == made[2]);
    let options = KnnOptions {
        index: Some(place.path("base.vindex")),
        probes: Some(2),
        excludes_self: true,
        recall_queries: 0,
        ..KnnOptions::new(5, Metric::L2)
    };
    let found = knn(&job(64 << 20, 2), &base, &queries, &options).unwrap();
    assert!(
        found.read_bytes < base.data_bytes() / 3,
        "{}",
        found.read_bytes
    );
    assert!((0..3).all(|row| !found.ids[row * 5..][..5].contains(&(row as u64))));
    assert_eq!(found.recall, None);
}

#[test]
fn lists_with_fewer_rows_than_neighbours_are_not_the_only_ones_that_are_read() {
    let (place, dimension) = (Place::new(), 8);
    let base = vectors("uniform", 50, dimension, 5);
    let queries = place.fbin("queries.fbin", &base[..dimension * 4], dimension);
    let base = place.fbin("base.fbin", &base, dimension);
    let index = listed(&place, &base, 20, false);
    let options = KnnOptions {
        index: Some(index),
        probes: Some(1),
        ..KnnOptions::new(30, Metric::L2)
    };
    let found = knn(&job(64 << 20, 2), &base, &queries, &options).unwrap();
    for ids in found.ids.chunks(30) {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 30);
    }
}

#[test]
fn a_subset_is_searched_in_lists_until_each_query_has_its_neighbours() {
    const LISTS: usize = 10;
    const K: usize = 6;
    let (place, dimension) = (Place::new(), 8);
    let base = vectors("gaussian", 1_500, dimension, 3);
    let queries = vectors("gaussian", 7, dimension, 4);
    let (rows, wanted) = (wide(&base, dimension), wide(&queries, dimension));
    let base = place.fbin("base.fbin", &base, dimension);
    let queries = place.fbin("queries.fbin", &queries, dimension);
    let index = listed(&place, &base, LISTS, false);
    let centroids = centroids(&index, LISTS, dimension);
    let list_of = lists_of(&rows, &centroids, false);
    // Many rows, a few in each list, and rows of only one list.
    let masks: [&dyn Fn(usize) -> bool; 3] = [&|row| row % 3 != 0, &|row| row % 90 == 0, &|row| {
        list_of[row] == 4
    }];
    for (number, mask) in masks.into_iter().enumerate() {
        let bytes: Vec<u8> = (0..rows.len()).map(|row| u8::from(mask(row))).collect();
        let subset = subset(&place.write("mask", &bytes), &base);
        for probes in [1, 2, LISTS] {
            let what = format!("mask {number}, {probes} lists");
            let options = KnnOptions {
                subset: subset.clone(),
                index: Some(index.clone()),
                probes: Some(probes),
                ..KnnOptions::new(K, Metric::L2)
            };
            let found = knn(&job(64 << 20, 2), &base, &queries, &options).unwrap();
            let small = knn(&job(1 << 20, 1), &base, &queries, &options).unwrap();
            assert_eq!(
                (&found.ids, bits(&found)),
                (&small.ids, bits(&small)),
                "{what}"
            );
            for (at, query) in wanted.iter().enumerate() {
                let lists = nearest(
                    Metric::L2,
                    query,
                    (0..).zip(centroids.iter().cloned()),
                    LISTS,
                );
                // Takes lists until they have K rows in total, then doubles their number until K of
                // the rows are in the subset.
                let mut read = lists_read(&lists, &list_of, (probes, K));
                loop {
                    let is_in = |row: &usize| mask(*row) && read.contains(&list_of[*row]);
                    if (0..rows.len()).filter(is_in).count() >= K || read.len() == LISTS {
                        break;
                    }
                    let more = (2 * read.len()).min(LISTS);
                    read = lists_read(&lists, &list_of, (more, K));
                }
                let among = (0..)
                    .zip(&rows)
                    .filter(|(id, _)| mask(*id as usize) && read.contains(&list_of[*id as usize]))
                    .map(|(id, row)| (id, row.clone()));
                let naive = nearest(Metric::L2, query, among, K);
                let ids: Vec<u64> = naive.iter().map(|(id, _)| *id).collect();
                assert_eq!(found.ids[at * K..][..K], ids, "{what}, query {at}");
            }
        }
    }
}

#[test]
fn what_cannot_be_searched_in_lists_is_refused_and_damage_is_found() {
    let (place, dimension) = (Place::new(), 5);
    let base = vectors("gaussian", 200, dimension, 6);
    let queries = place.fbin("queries.fbin", &base[..dimension], dimension);
    let base = place.fbin("base.fbin", &base, dimension);
    let index = listed(&place, &base, 4, false);
    let good = KnnOptions {
        index: Some(index.clone()),
        probes: Some(4),
        ..KnnOptions::new(3, Metric::L2)
    };
    let refused = |options: &KnnOptions, kind: Kind, cause: &str| {
        let error = knn(&job(64 << 20, 1), &base, &queries, options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(cause), "{error}");
        assert!(error.next_step().is_some(), "{error}");
    };
    for probes in [0, 5] {
        let options = KnnOptions {
            probes: Some(probes),
            ..good.clone()
        };
        refused(&options, Kind::Usage, "the index has 4");
    }
    let whole = std::fs::read(&index).unwrap();
    let tables_end = 4096 + 4096;
    for at in [
        1,
        300,
        4096,
        4096 + 4 * 5 * 8,
        tables_end,
        tables_end + 14,
        tables_end + 20,
        whole.len() - 1,
    ] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&index, damaged).unwrap();
        let error = knn(&job(64 << 20, 1), &base, &queries, &good).unwrap_err();
        assert!(error.kind() == Kind::Corrupt || at == 1, "{at}: {error}");
    }
    std::fs::write(&index, &whole[..whole.len() - 1]).unwrap();
    refused(&good, Kind::Corrupt, "bytes, not");
    build(&job(64 << 20, 1), &base, &index, true).unwrap();
    refused(&good, Kind::Usage, "only an index with lists");
    for lists in [0, 201] {
        let path = place.path("other.vindex");
        let error = build_lists(
            &job(64 << 20, 1),
            &base,
            &path,
            false,
            &ListOptions::new(lists),
        );
        assert_eq!(error.unwrap_err().kind(), Kind::Usage);
        assert!(!path.exists());
    }
    // A zero vector has no direction, and belongs to the first list.
    let zero = place.fbin("zero.fbin", &[0.0; 10], 5);
    let options = ListOptions {
        is_spherical: true,
        ..ListOptions::new(2)
    };
    let path = place.path("other.vindex");
    build_lists(&job(64 << 20, 1), &zero, &path, false, &options).unwrap();
}
