//! A search through an index has the result of a pass over the base; an index of another base is
//! rejected.
//!
//! Contract: ids and distances are bit-identical, whether the index rules out many, few or no rows.

use std::path::PathBuf;

use outcore::Kind;
use outcore_vector::format::VectorFile;
use outcore_vector::index::build;
use outcore_vector::knn::{KnnOptions, Metric, Neighbours, knn};

use crate::common::*;

const METRICS: [Metric; 3] = [Metric::L2, Metric::Ip, Metric::Cos];

fn indexed(place: &Place, base: &VectorFile) -> PathBuf {
    let path = place.path("base.vindex");
    build(&job(64 << 20, 2), base, &path, true).unwrap();
    path
}

/// Runs both searches, which must agree, and returns the one through the index.
fn both(
    place: &Place,
    (base, queries): (&VectorFile, &VectorFile),
    options: &KnnOptions,
    what: &str,
) -> Neighbours {
    let through = KnnOptions {
        index: Some(place.path("base.vindex")),
        ..options.clone()
    };
    let plain = knn(&job(64 << 20, 2), base, queries, options).unwrap();
    let found = knn(&job(64 << 20, 2), base, queries, &through).unwrap();
    let small = knn(&job(1 << 20, 1), base, queries, &through).unwrap();
    for found in [&found, &small] {
        assert_eq!(plain.ids, found.ids, "{what}");
        let bits = |found: &Neighbours| -> Vec<u64> {
            found
                .distances
                .iter()
                .map(|number| number.to_bits())
                .collect()
        };
        assert_eq!(bits(&plain), bits(found), "{what}");
    }
    found
}

#[test]
fn an_index_changes_no_result_for_any_spread_metric_threads_and_memory() {
    for (spread, dimension) in SPREADS
        .iter()
        .flat_map(|spread| [(*spread, 3), (*spread, 32), (*spread, 100)])
    {
        let place = Place::new();
        let mut base = vectors(spread, 3_000, dimension, 1);
        base.iter_mut()
            .step_by(dimension)
            .for_each(|number| *number += 1.0);
        let mut queries = vectors(spread, 7, dimension, 2);
        queries[..dimension].copy_from_slice(&base[5 * dimension..6 * dimension]);
        queries.iter_mut().for_each(|number| *number += 0.5);
        let base = place.fbin("base.fbin", &base, dimension);
        let queries = place.fbin("queries.fbin", &queries, dimension);
        indexed(&place, &base);
        for metric in METRICS {
            let what = format!("{spread} x {dimension}, {metric:?}");
            let options = KnnOptions::new(10, metric);
            let found = both(&place, (&base, &queries), &options, &what);
            if ["uniform", "gaussian"].contains(&spread) && dimension > 3 {
                assert!(!found.index_failed, "{what}");
                assert!(found.gathered < 1_000, "{what}: {}", found.gathered);
            }
        }
    }
}

#[test]
fn an_index_that_leaves_out_nothing_is_given_up_for_the_base() {
    let place = Place::new();
    let base = place.fbin("base.fbin", &vectors("far", 6_000, 16, 3), 16);
    let queries = place.fbin("queries.fbin", &vectors("far", 9, 16, 4), 16);
    indexed(&place, &base);
    let found = both(
        &place,
        (&base, &queries),
        &KnnOptions::new(5, Metric::L2),
        "far",
    );
    assert!(found.index_failed);
    assert_eq!(found.gathered, 0);
}

#[test]
fn rows_of_any_scale_and_zero_rows_are_found_through_an_index() {
    let scales = [1.0, 1e90, 1e-90, 1e30, 1e-30, 1e18, 1e-40, 0.0, 1e-12, 1e15];
    for dimension in [4, 40] {
        let place = Place::new();
        let mut random = Random(9);
        let numbers: Vec<f64> = (0..400 * dimension)
            .map(|at| random.gauss() * scales[at / dimension % scales.len()])
            .collect();
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let type_name = format!("f64x{dimension}");
        let open = |path: PathBuf| open(&path, Some(&type_name)).unwrap();
        let base = open(place.write("base.f64", &bytes));
        let queries = open(place.write("queries.f64", &bytes[..30 * dimension * 8]));
        indexed(&place, &base);
        for metric in [Metric::L2, Metric::Ip] {
            let what = format!("{dimension} dimensions, {metric:?}");
            both(
                &place,
                (&base, &queries),
                &KnnOptions::new(5, metric),
                &what,
            );
        }
        for exponent in [-38, -20, -12, 0, 10, 15, 18, 30] {
            let scale = 10.0_f32.powi(exponent);
            let rows = vectors("gaussian", 300, dimension, 11);
            let rows: Vec<f32> = rows.iter().map(|number| number * scale).collect();
            let base = place.fbin("scaled.fbin", &rows, dimension);
            let query = place.fbin(
                "query.fbin",
                &vectors("gaussian", 3, dimension, 12),
                dimension,
            );
            indexed(&place, &base);
            for metric in METRICS {
                let what = format!("scale 1e{exponent}, {dimension} dimensions, {metric:?}");
                both(&place, (&base, &query), &KnnOptions::new(9, metric), &what);
            }
        }
    }
}

#[test]
fn subsets_the_query_itself_and_all_formats_work_with_an_index() {
    let (rows, dimension) = (100, 12);
    let numbers = vectors("gaussian", rows, dimension, 5);
    let place = Place::new();
    let plain = place.fbin("base.fbin", &numbers, dimension);
    let mask: Vec<u8> = (0..rows).map(|row| u8::from(row % 3 == 0)).collect();
    let options = KnnOptions {
        excludes_self: true,
        subset: subset(&place.write("mask", &mask), &plain),
        ..KnnOptions::new(4, Metric::L2)
    };
    for name in ["base.fvecs", "base.f16bin", "base.npy", "base.fbin"] {
        let path = place.path(name);
        if name != "base.fbin" {
            outcore_vector::convert::convert(&job(64 << 20, 2), &plain, &path, false, None)
                .unwrap();
        }
        let base = open(&path, None).unwrap();
        indexed(&place, &base);
        let found = both(&place, (&base, &base), &options, name);
        assert!(!found.index_failed, "{name}");
    }
}

#[test]
fn an_index_of_another_base_or_with_damage_is_refused() {
    let place = Place::new();
    let numbers = vectors("gaussian", 700, 8, 6);
    let base = place.fbin("base.fbin", &numbers, 8);
    let path = indexed(&place, &base);
    let whole = std::fs::read(&path).unwrap();
    let options = KnnOptions {
        index: Some(path.clone()),
        ..KnnOptions::new(3, Metric::L2)
    };
    let queries = place.fbin("queries.fbin", &numbers[..32], 8);
    let fails = |base: &VectorFile, kind: Kind, cause: &str| {
        let error = knn(&job(64 << 20, 2), base, &queries, &options).unwrap_err();
        assert!(error.to_string().contains(cause), "{error}: {cause}");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.next_step().is_some(), "{error}");
    };
    for at in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        std::fs::write(&path, &damaged).unwrap();
        let error = knn(&job(64 << 20, 2), &base, &queries, &options).unwrap_err();
        assert!(error.to_string().contains("base.vindex"), "{at}: {error}");
        assert!(error.next_step().is_some(), "{at}: {error}");
    }
    std::fs::write(&path, &whole[..whole.len() - 24]).unwrap();
    fails(&base, Kind::Corrupt, "bytes");
    std::fs::write(&path, b"").unwrap();
    fails(&base, Kind::Usage, "not an index");
    std::fs::write(&path, &whole).unwrap();
    let fewer = place.fbin("fewer.fbin", &numbers[..650 * 8], 8);
    fails(
        &fewer,
        Kind::Usage,
        "700 vectors of f32x8, but the base has 650",
    );
    let mut changed = numbers.clone();
    changed[699 * 8] += 1.0;
    let other = place.fbin("other.fbin", &changed, 8);
    fails(&other, Kind::Usage, "the base has changed");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let base = place.fbin("base.fbin", &numbers, 8);
    fails(&base, Kind::Usage, "modification time differs");
}

#[test]
fn what_cannot_be_indexed_is_named_and_nothing_is_left() {
    let place = Place::new();
    let mut numbers = vectors("gaussian", 50, 4, 6);
    numbers[13] = f32::INFINITY;
    let base = place.fbin("base.fbin", &numbers, 4);
    let bytes = VectorFile::open(
        &job(64 << 20, 1),
        &place.write("codes", &[1, 2, 3, 4]),
        Some("u8x2"),
    )
    .unwrap();
    for (base, cause) in [
        (&base, "row 3 has inf in column 1"),
        (&bytes, "not be smaller"),
    ] {
        let output = place.path("base.vindex");
        let error = build(&job(64 << 20, 2), base, &output, false).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.cause().contains(cause), "{}", error.cause());
    }
    assert_eq!(place.names(), ["base.fbin", "codes"]);
}
