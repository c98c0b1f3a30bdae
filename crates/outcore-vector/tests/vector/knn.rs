//! Nearest neighbours equal those of a loop over all pairs in f64.
//!
//! Contract: ids and distances are compared with that loop for each metric, with duplicates, ties
//! and numbers at the limits of f32.

use outcore::Kind;
use outcore_vector::exact::{dot, squared_distance};
use outcore_vector::format::VectorFile;
use outcore_vector::kmeans::{KmeansOptions, kmeans};
use outcore_vector::knn::{KnnOptions, Metric, NO_ROW, Neighbours, RangeOptions, knn, pairs};

use crate::common::*;

/// Returns all distances of a query, sorted, ties by row.
pub(crate) fn naive(
    base: &[f32],
    query: &[f32],
    metric: Metric,
    keeps: impl Fn(u64) -> bool,
) -> Vec<(f64, u64)> {
    let wide = |row: &[f32]| {
        row.iter()
            .map(|number| f64::from(*number))
            .collect::<Vec<_>>()
    };
    let query = wide(query);
    let rows = base
        .chunks_exact(query.len())
        .zip(0..)
        .filter(|(_, id)| keeps(*id));
    let mut all: Vec<(f64, u64)> = rows
        .map(|(row, id)| {
            let row = wide(row);
            let distance = match metric {
                Metric::L2 => squared_distance(&query, &row),
                Metric::Ip => -dot(&query, &row),
                Metric::Hamming => f64::NAN,
                Metric::Cos => {
                    let norms = dot(&query, &query).sqrt() * dot(&row, &row).sqrt();
                    if norms == 0.0 {
                        1.0
                    } else {
                        1.0 - dot(&query, &row) / norms
                    }
                }
            };
            (distance, id)
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all
}

fn check(
    found: &Neighbours,
    base: &[f32],
    queries: &[f32],
    dimension: usize,
    metric: Metric,
    what: &str,
) {
    for (query, numbers) in queries.chunks_exact(dimension).enumerate() {
        let wanted = naive(base, numbers, metric, |_| true);
        let ids = &found.ids[query * found.k..][..found.k];
        let distances = &found.distances[query * found.k..][..found.k];
        for place in 0..found.k {
            let sign = if metric == Metric::Ip { -1.0 } else { 1.0 };
            let (distance, id) = wanted[place];
            assert_eq!(
                (ids[place], distances[place] * sign),
                (id, distance),
                "{what}, query {query}, place {place}"
            );
        }
    }
}

#[test]
fn neighbours_are_those_of_all_pairs_in_f64_for_any_metric_threads_and_memory() {
    for (spread, dimension) in SPREADS
        .iter()
        .flat_map(|spread| [(spread, 3), (spread, 32), (spread, 100)])
    {
        let (rows, k) = (3_000, 10);
        let mut base = vectors(spread, rows, dimension, 1);
        // No zero vectors, because they have no cosine.
        base.iter_mut()
            .step_by(dimension)
            .for_each(|number| *number += 1.0);
        let mut queries = vectors(spread, 7, dimension, 2);
        queries[..dimension].copy_from_slice(&base[5 * dimension..6 * dimension]);
        queries
            .iter_mut()
            .step_by(dimension)
            .for_each(|number| *number += 1.0);
        let place = Place::new();
        let (base_file, query_file) = (
            place.fbin("base.fbin", &base, dimension),
            place.fbin("queries.fbin", &queries, dimension),
        );
        for metric in [Metric::L2, Metric::Ip, Metric::Cos] {
            let options = KnnOptions::new(k, metric);
            let found = knn(&job(64 << 20, 2), &base_file, &query_file, &options).unwrap();
            let what = format!("{spread} x {dimension}, {metric:?}");
            check(&found, &base, &queries, dimension, metric, &what);
            let small = knn(&job(1 << 20, 1), &base_file, &query_file, &options).unwrap();
            assert_eq!(
                (&small.ids, &small.distances),
                (&found.ids, &found.distances),
                "{what}"
            );
        }
    }
}

#[test]
fn queries_that_do_not_fit_take_several_passes_and_give_the_same() {
    let (dimension, k) = (16, 20);
    let base = vectors("gaussian", 5_000, dimension, 3);
    let queries = vectors("gaussian", 3_000, dimension, 4);
    let place = Place::new();
    let base_file = place.fbin("base.fbin", &base, dimension);
    let query_file = place.fbin("queries.fbin", &queries, dimension);
    let options = KnnOptions::new(k, Metric::L2);
    let once = knn(&job(64 << 20, 2), &base_file, &query_file, &options).unwrap();
    let often = knn(&job(3 << 20, 2), &base_file, &query_file, &options).unwrap();
    assert_eq!(once.passes, 1);
    assert!(often.passes > 1);
    assert!((&once.ids, &once.distances) == (&often.ids, &often.distances));
    assert!(once.measured < 3_000 * 600, "{}", once.measured);
}

#[test]
fn numbers_beyond_and_below_the_range_of_f32_are_still_exact() {
    let place = Place::new();
    let scales = [1.0, 1e90, 1e-90, 1e30, 1e-30, 1e18, 1e-40];
    let mut random = Random(9);
    let numbers: Vec<f64> = (0..70 * 4)
        .map(|at| random.gauss() * scales[at / 4 % 7])
        .collect();
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let path = place.write("base.f64", &bytes);
    let file = open(&path, Some("f64x4")).unwrap();
    for metric in [Metric::L2, Metric::Ip] {
        let found = knn(&job(64 << 20, 1), &file, &file, &KnnOptions::new(5, metric)).unwrap();
        for (query, wide) in numbers.chunks_exact(4).enumerate() {
            let mut all: Vec<(f64, u64)> = (0..)
                .zip(numbers.chunks_exact(4))
                .map(|(id, row)| match metric {
                    Metric::L2 => (squared_distance(wide, row), id),
                    _ => (0.0 - dot(wide, row), id),
                })
                .collect();
            all.sort_by(|a, b| (a.0 + 0.0).total_cmp(&(b.0 + 0.0)).then(a.1.cmp(&b.1)));
            let wanted: Vec<u64> = all[..5].iter().map(|(_, id)| *id).collect();
            assert_eq!(
                found.ids[query * 5..][..5],
                wanted,
                "{metric:?} {query} {all:?}"
            );
        }
    }
}

#[test]
fn cosines_of_rows_of_any_scale_are_exact() {
    let place = Place::new();
    for dimension in [4, 96] {
        let rows = vectors("gaussian", 300, dimension, 11);
        let query = vectors("gaussian", 3, dimension, 12);
        let queries = place.fbin("queries.fbin", &query, dimension);
        for exponent in [-37, -25, -19, -18, -17, -10, 0, 10, 17, 18, 19, 20, 25, 34] {
            let scale = 10.0_f32.powi(exponent);
            let base: Vec<f32> = rows.iter().map(|number| number * scale).collect();
            let file = place.fbin("base.fbin", &base, dimension);
            let options = KnnOptions::new(9, Metric::Cos);
            let found = knn(&job(64 << 20, 2), &file, &queries, &options).unwrap();
            let what = format!("scale 1e{exponent}, {dimension} dimensions");
            check(&found, &base, &query, dimension, Metric::Cos, &what);
        }
    }
}

#[test]
fn a_subset_and_the_query_itself_are_left_out() {
    let (dimension, k, rows) = (8, 4, 400);
    let base = vectors("duplicates", rows, dimension, 5);
    let place = Place::new();
    let file = place.fbin("base.fbin", &base, dimension);
    let mask: Vec<u8> = (0..rows).map(|row| u8::from(row % 3 == 0)).collect();
    let options = KnnOptions {
        excludes_self: true,
        subset: subset(&place.write("mask", &mask), &file),
        ..KnnOptions::new(k, Metric::L2)
    };
    let found = knn(&job(64 << 20, 2), &file, &file, &options).unwrap();
    for (query, numbers) in base.chunks_exact(dimension).enumerate() {
        let wanted = naive(&base, numbers, Metric::L2, |id| {
            id % 3 == 0 && id != query as u64
        });
        let wanted: Vec<u64> = wanted[..k].iter().map(|(_, id)| *id).collect();
        assert_eq!(found.ids[query * k..][..k], wanted, "{query}");
    }
}

/// As in faiss and scikit-learn; also through an index.
#[test]
fn a_zero_vector_has_the_cosine_distance_one_from_all() {
    let place = Place::new();
    let mut base = vectors("gaussian", 400, 4, 6);
    for row in [0, 3, 17] {
        base[4 * row..4 * row + 4].fill(0.0);
    }
    let file = place.fbin("zero.fbin", &base, 4);
    let index = place.path("zero.vindex");
    outcore_vector::index::build(&job(64 << 20, 2), &file, &index, false).unwrap();
    for index in [None, Some(index)] {
        for k in [5, 250, 400] {
            let options = KnnOptions {
                index: index.clone(),
                ..KnnOptions::new(k, Metric::Cos)
            };
            let found = knn(&job(64 << 20, 2), &file, &file, &options).unwrap();
            check(&found, &base, &base, 4, Metric::Cos, "zero");
        }
    }
}

#[test]
fn places_that_a_subset_cannot_fill_have_no_row() {
    let place = Place::new();
    let base = vectors("gaussian", 50, 4, 6);
    let file = place.fbin("base.fbin", &base, 4);
    let mut mask = [0u8; 50];
    (mask[7], mask[30]) = (1, 1);
    let queries = place.fbin("queries.fbin", &base[..4 * 9], 4);
    for (metric, far) in [(Metric::L2, f64::INFINITY), (Metric::Ip, f64::NEG_INFINITY)] {
        let options = KnnOptions {
            subset: subset(&place.write("mask", &mask), &file),
            ..KnnOptions::new(4, metric)
        };
        let found = knn(&job(64 << 20, 2), &file, &queries, &options).unwrap();
        for (ids, distances) in found.ids.chunks(4).zip(found.distances.chunks(4)) {
            assert!(ids[..2] == [7, 30] || ids[..2] == [30, 7], "{ids:?}");
            assert_eq!(ids[2..], [NO_ROW, NO_ROW]);
            assert_eq!(distances[2..], [far, far]);
        }
    }
}

#[test]
fn what_cannot_be_searched_is_named() {
    let place = Place::new();
    let mut base = vectors("gaussian", 50, 4, 6);
    let good = place.fbin("base.fbin", &base, 4);
    let other = place.fbin("other.fbin", &base[..5], 5);
    base[13] = f32::NAN;
    let bad = place.fbin("nan.fbin", &base, 4);
    let l2 = KnnOptions::new(5, Metric::L2);
    let fails = |base: &VectorFile, queries: &VectorFile, options: &KnnOptions, cause: &str| {
        let error = knn(&job(64 << 20, 2), base, queries, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.cause().contains(cause), "{}: {cause}", error.cause());
        assert!(error.next_step().is_some());
    };
    fails(&good, &other, &l2, "4 dimensions, but the queries have 5");
    fails(&bad, &good, &l2, "row 3 has NaN in column 1");
    fails(&good, &bad, &l2, "row 3 has NaN in column 1");
    fails(
        &good,
        &good,
        &KnnOptions::new(51, Metric::L2),
        "there are 50 rows",
    );
    fails(
        &good,
        &good,
        &KnnOptions::new(0, Metric::L2),
        "0 neighbours",
    );
    let cos = KnnOptions::new(5, Metric::Cos);
    // Their squares are infinite, or 0.
    for (number, cause) in [(1e160, "row 2 has 1e160"), (1e-170, "row 2 has 1e-170")] {
        let mut wide = vec![1.0_f64; 50 * 4];
        wide[8..12].fill(number);
        let bytes: Vec<u8> = wide
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let file = open(&place.write("wide.f64", &bytes), Some("f64x4")).unwrap();
        for options in [&l2, &cos] {
            fails(&file, &file, options, cause);
        }
        let index = place.path("wide.vindex");
        let built = outcore_vector::index::build(&job(64 << 20, 2), &file, &index, false);
        assert!(built.unwrap_err().cause().contains(cause));
        let near = RangeOptions::new(Metric::Cos, 0.1);
        let found = pairs(&job(64 << 20, 2), &file, &near);
        assert!(found.unwrap_err().cause().contains(cause));
        let spherical = KmeansOptions {
            is_spherical: true,
            ..KmeansOptions::new(2)
        };
        let found = kmeans(&job(64 << 20, 2), &file, &spherical);
        assert!(found.unwrap_err().cause().contains(cause));
    }
    let error = knn(&job(1 << 10, 1), &good, &good, &l2).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
}
