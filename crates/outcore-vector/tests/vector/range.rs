//! Rows within a radius, and pairs of rows, equal those of a loop over all pairs in f64.
//!
//! Contract: radii are distances that occur, so that some results are exactly at the radius.

use outcore::{Kind, ScratchDrive};
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{
    Hit, KnnOptions, Metric, RangeOptions, Within, knn, pairs, range_search,
};

use crate::common::*;
use crate::knn::naive;

const METRICS: [Metric; 3] = [Metric::L2, Metric::Ip, Metric::Cos];

/// Vectors without zero vectors, so that each has a direction.
fn directed(spread: &str, rows: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut numbers = vectors(spread, rows, dimension, seed);
    numbers
        .iter_mut()
        .step_by(dimension)
        .for_each(|number| *number += 1.0);
    numbers
}

/// The reported distance of the neighbour at `place` from the first query.
fn radius(base: &[f32], query: &[f32], metric: Metric, place: usize) -> f64 {
    let distance = naive(base, query, metric, |_| true)[place].0;
    if metric == Metric::Ip {
        -distance
    } else {
        distance
    }
}

fn same(a: &Within, b: &Within) -> bool {
    (&a.limits, &a.ids, &a.distances) == (&b.limits, &b.ids, &b.distances)
}

#[test]
fn all_rows_within_a_radius_are_found_for_any_metric_threads_and_memory() {
    for (spread, dimension) in SPREADS
        .iter()
        .flat_map(|spread| [(spread, 3), (spread, 40)])
    {
        let base = directed(spread, 1_500, dimension, 1);
        let queries = directed(spread, 70, dimension, 2);
        let place = Place::new();
        let files = [
            place.fbin("base.fbin", &base, dimension),
            place.fbin("queries.fbin", &queries, dimension),
        ];
        for metric in METRICS {
            let radius = radius(&base, &queries[..dimension], metric, 12);
            let options = RangeOptions::new(metric, radius);
            let search = |memory, threads| {
                let job = job(memory, threads);
                within(&job, range_search(&job, &files[0], &files[1], &options))
            };
            let found = search(64 << 20, 2);
            assert_eq!(found.limits.len(), 71);
            assert!(found.limits[1] >= 13, "{spread} {metric:?}");
            for (query, numbers) in queries.chunks_exact(dimension).enumerate() {
                let sign = if metric == Metric::Ip { -1.0 } else { 1.0 };
                let mut wanted = naive(&base, numbers, metric, |_| true);
                wanted.retain(|(distance, _)| *distance <= radius * sign);
                wanted.sort_by_key(|(_, id)| *id);
                let ends = found.limits[query] as usize..found.limits[query + 1] as usize;
                let ids = found.ids[ends.clone()].iter().copied();
                let distances = found.distances[ends].iter().map(|distance| distance * sign);
                let of_query: Vec<(f64, u64)> = distances.zip(ids).collect();
                assert_eq!(of_query, wanted, "{spread} {metric:?} {query}");
            }
            let small = search((3 << 20) + 96 * found.ids.len() as u64, 1);
            assert!(same(&small, &found), "{spread} {metric:?}");
        }
    }
}

#[test]
fn pairs_are_those_of_all_rows_each_once_in_order() {
    for spread in SPREADS {
        let dimension = 20;
        let base = directed(spread, 700, dimension, 6);
        let place = Place::new();
        let file = place.fbin("base.fbin", &base, dimension);
        for metric in METRICS {
            let radius = radius(&base, &base[..dimension], metric, 9);
            let sign = if metric == Metric::Ip { -1.0 } else { 1.0 };
            let options = RangeOptions::new(metric, radius);
            let mut wanted = Vec::new();
            for (row, numbers) in base.chunks_exact(dimension).enumerate() {
                let mut later = naive(&base, numbers, metric, |id| id > row as u64);
                later.retain(|(distance, _)| *distance <= radius * sign);
                wanted.extend(later.into_iter().map(|(_, id)| [row as u64, id]));
            }
            wanted.sort_unstable();
            assert!(!wanted.is_empty());
            let more = 96 * wanted.len() as u64;
            for (memory, threads) in [(64 << 20, 2), (more + (2 << 20), 1), (more + (3 << 20), 3)] {
                let job = job(memory, threads);
                let mut found = within(&job, pairs(&job, &file, &options));
                assert_eq!(
                    found.pairs(&job).unwrap(),
                    wanted.concat(),
                    "{spread} {metric:?}"
                );
                assert_eq!(found.distances.len(), wanted.len());
            }
        }
    }
}

#[test]
fn several_passes_find_the_same_pairs_and_read_only_what_follows() {
    let dimension = 256;
    let mut base = vectors("gaussian", 3_000, dimension, 4);
    // Every row of the second half is a copy with one number slightly changed.
    base.copy_within(..1_500 * dimension, 1_500 * dimension);
    base[1_500 * dimension..]
        .iter_mut()
        .step_by(dimension)
        .for_each(|number| *number += 0.01);
    let place = Place::new();
    let file = place.fbin("base.fbin", &base, dimension);
    let job = job(6 << 20, 2);
    let found = pairs(&job, &file, &RangeOptions::new(Metric::Cos, 0.01)).unwrap();
    assert!(found.passes > 2, "{}", found.passes);
    assert!(found.read_bytes < u64::from(found.passes) * file.data_bytes() * 3 / 4);
    let wanted: Vec<u64> = (0..1_500).flat_map(|row| [row, row + 1_500]).collect();
    assert!(found.measured < 2 * 1_500);
    let mut found = Within::of(&job, found.hits).unwrap();
    assert_eq!(found.pairs(&job).unwrap(), wanted);
}

#[test]
fn results_beyond_the_memory_are_the_same_by_way_of_scratch() {
    let dimension = 6;
    let base = vectors("gaussian", 900, dimension, 8);
    let place = Place::new();
    let file = place.fbin("base.fbin", &base, dimension);
    let options = RangeOptions::new(Metric::L2, 1e9);
    let large = job(256 << 20, 2);
    let mut wanted = Vec::new();
    let found = pairs(&large, &file, &options).unwrap();
    let found_count = found.hits.count();
    assert_eq!(found_count, 900 * 899 / 2);
    let take = &mut |hits: &[Hit]| {
        wanted.extend_from_slice(hits);
        Ok(())
    };
    found.hits.each(&large, take).unwrap();
    assert!(wanted.is_sorted_by_key(|hit| (hit.query, hit.row)));
    for (memory_bytes, threads) in [(8 << 20, 1), (12 << 20, 3)] {
        let mut small = job(memory_bytes, threads);
        assert_eq!(
            pairs(&small, &file, &options).unwrap_err().kind(),
            Kind::Memory
        );
        let drives = ["scratch-0", "scratch-1", "scratch-2"].map(|name| place.path(name));
        let on_drives = |wanted: usize| {
            for drive in &drives {
                assert_eq!(std::fs::read_dir(drive).unwrap().count(), wanted);
            }
        };
        for drive in &drives {
            std::fs::create_dir_all(drive).unwrap();
        }
        small.options.drives = drives.iter().map(ScratchDrive::new).collect();
        // The limit is too small for the results, or for their sort.
        let stored_bytes = found_count * 24;
        for limit_bytes in [stored_bytes / 2, stored_bytes + stored_bytes / 2] {
            let mut limited = small.clone();
            limited.options.scratch_limit_bytes = limit_bytes;
            let done = pairs(&limited, &file, &options)
                .and_then(|found| found.hits.each(&limited, &mut |_| Ok(())));
            assert_eq!(done.unwrap_err().kind(), Kind::NoSpace);
            on_drives(0);
            assert_eq!(limited.budget.used_bytes(), 0);
        }
        let found = pairs(&small, &file, &options).unwrap();
        on_drives(1);
        let mut at = 0;
        let take = &mut |hits: &[Hit]| {
            assert!(hits == &wanted[at..][..hits.len()], "{at}");
            at += hits.len();
            Ok(())
        };
        let phases = found.hits.each(&small, take).unwrap();
        assert_eq!(at, wanted.len());
        assert!(!phases.is_empty());
        on_drives(0);
        assert_eq!(small.budget.used_bytes(), 0);
        assert!(small.budget.peak_bytes() <= memory_bytes);
    }
}

#[test]
fn bits_that_differ_are_counted_for_every_pair() {
    for bytes_each in [1, 8, 13, 32] {
        let mut random = Random(3);
        let mut made = |rows: usize| -> Vec<u8> {
            // Few bits are set, so that many distances are equal.
            let bytes =
                (0..rows * bytes_each).map(|_| (random.next() & random.next()) as u8 & 0x55);
            bytes.collect()
        };
        let (base, queries) = (made(900), made(40));
        let place = Place::new();
        let open = |name: &str, bytes: &[u8]| {
            let type_name = format!("u8x{bytes_each}");
            VectorFile::open(
                &job(64 << 20, 1),
                &place.write(name, bytes),
                Some(&type_name),
            )
            .unwrap()
        };
        let files = [open("base.raw", &base), open("queries.raw", &queries)];
        let distance = |a: &[u8], b: &[u8]| -> u32 {
            a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
        };
        let nearest = KnnOptions::new(6, Metric::Hamming);
        let job = job(32 << 20, 2);
        let found = knn(&job, &files[0], &files[1], &nearest).unwrap();
        let bound = found.distances[5];
        let options = RangeOptions::new(Metric::Hamming, bound);
        let within_it = within(&job, range_search(&job, &files[0], &files[1], &options));
        for (query, bits) in queries.chunks_exact(bytes_each).enumerate() {
            let rows = base.chunks_exact(bytes_each).zip(0_u64..);
            let mut wanted: Vec<(u32, u64)> =
                rows.map(|(row, id)| (distance(row, bits), id)).collect();
            let near = wanted
                .iter()
                .filter(|(distance, _)| f64::from(*distance) <= bound);
            let near: Vec<u64> = near.map(|(_, id)| *id).collect();
            let ends = within_it.limits[query] as usize..within_it.limits[query + 1] as usize;
            assert_eq!(within_it.ids[ends], near);
            wanted.sort_unstable();
            for (place, (distance, id)) in wanted[..6].iter().enumerate() {
                let at = 6 * query + place;
                assert_eq!(
                    (found.distances[at], found.ids[at]),
                    (f64::from(*distance), *id)
                );
            }
        }
        let twins = pairs(&job, &files[0], &RangeOptions::new(Metric::Hamming, 0.0)).unwrap();
        let all = base.chunks_exact(bytes_each).enumerate();
        let equal = all.map(|(at, row)| {
            let later = base[(at + 1) * bytes_each..].chunks_exact(bytes_each);
            later.filter(|other| *other == row).count()
        });
        assert_eq!(twins.hits.count(), equal.sum::<usize>() as u64);
    }
    let place = Place::new();
    let floats = place.fbin("base.fbin", &[1.0, 2.0], 2);
    let error = knn(
        &job(8 << 20, 1),
        &floats,
        &floats,
        &KnnOptions::new(1, Metric::Hamming),
    );
    assert!(error.unwrap_err().to_string().contains("not packed bits"));
}

#[test]
fn what_is_left_out_and_what_does_not_fit_is_told() {
    let place = Place::new();
    let base = vectors("duplicates", 4_000, 4, 1);
    let file = place.fbin("base.fbin", &base, 4);
    let mask = [[1_u8, 0, 0, 0, 0], [0; 5]].concat().repeat(400);
    let zero = RangeOptions {
        excludes_self: true,
        subset: subset(&place.write("mask", &mask), &file),
        ..RangeOptions::new(Metric::L2, 0.0)
    };
    let large = job(64 << 20, 2);
    let found = within(&large, range_search(&large, &file, &file, &zero));
    assert_eq!(found.ids[..3], [10, 20, 30]);
    assert_eq!(found.limits[1..3], [399, 399]);
    assert_eq!(found.limits[5..7], [399, 799]);
    let all = RangeOptions::new(Metric::L2, 1e9);
    let error = pairs(&job(8 << 20, 2), &file, &all).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
    assert!(
        error.to_string().contains("are within the radius"),
        "{error}"
    );
    assert!(
        error
            .next_step()
            .is_some_and(|step| step.contains("fewer of them"))
    );
    let error = pairs(
        &job(8 << 20, 2),
        &file,
        &RangeOptions::new(Metric::L2, f64::NAN),
    );
    assert_eq!(error.unwrap_err().kind(), Kind::Usage);
    let zeros = place.fbin("zeros.fbin", &[1.0, 2.0, 0.0, 0.0], 2);
    // A zero vector is orthogonal to all others.
    for (radius, count) in [(0.99, 0), (1.0, 1)] {
        let near = RangeOptions::new(Metric::Cos, radius);
        let found = within(&large, pairs(&large, &zeros, &near));
        assert_eq!(found.ids.len(), count, "{radius}");
    }
}
