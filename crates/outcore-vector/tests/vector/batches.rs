//! Mini-batches and k-means|| seeding, compared with plain loops, with Lloyd's method, and across
//! threads and memory.
//!
//! Contract: a batch moves centroids to the mean of all rows so far; random choices depend only on
//! the seed.

use outcore::Kind;
use outcore_vector::format::VectorFile;
use outcore_vector::kmeans::{Batches, Clustering, Init, KmeansOptions, kmeans, partial_fit};

use crate::common::{Place, bytes_of, job, open, vectors};

const MEMORY: u64 = 64 << 20;

fn run(base: &VectorFile, options: &KmeansOptions, (memory, threads): (u64, usize)) -> Clustering {
    let mut found = kmeans(&job(memory, threads), base, options).unwrap();
    // Phases contain times, which differ between runs.
    assert!(!std::mem::take(&mut found.phases).is_empty());
    found
}

#[test]
fn a_centroid_is_the_mean_of_all_rows_that_it_was_given() {
    const DIMENSION: usize = 6;
    let place = Place::new();
    let numbers = vectors("gaussian", 900, DIMENSION, 12);
    let start = &numbers[..4 * DIMENSION];
    let mut centroids: Vec<f64> = start.iter().map(|number| f64::from(*number)).collect();
    let mut counts = vec![0_u64; 4];
    let mut found: Option<Clustering> = None;
    for (at, rows) in numbers.chunks(300 * DIMENSION).enumerate() {
        // Sculley's algorithm 1: centroids are chosen for the whole batch, then each row moves its
        // own centroid a little.
        let chosen = rows.chunks_exact(DIMENSION).map(|row| {
            let distances = centroids.chunks_exact(DIMENSION).map(|centroid| {
                let pairs = centroid.iter().zip(row);
                pairs.map(|(a, b)| (a - f64::from(*b)).powi(2)).sum::<f64>()
            });
            let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            nearest.unwrap().0
        });
        let chosen: Vec<usize> = chosen.collect();
        for (row, cluster) in rows.chunks_exact(DIMENSION).zip(chosen) {
            counts[cluster] += 1;
            let rate = 1.0 / counts[cluster] as f64;
            let centroid = &mut centroids[cluster * DIMENSION..][..DIMENSION];
            for (number, of_row) in centroid.iter_mut().zip(row) {
                *number = (1.0 - rate) * *number + rate * f64::from(*of_row);
            }
        }
        let batch = place.fbin(&format!("batch{at}.fbin"), rows, DIMENSION);
        let before = found.as_ref().map(|found| {
            let path = place.write(
                "before.f64",
                &found
                    .centroids
                    .iter()
                    .flat_map(|number| number.to_le_bytes())
                    .collect::<Vec<_>>(),
            );
            open(&path, Some("f64x6")).unwrap()
        });
        let options = KmeansOptions {
            init: Init::Given(before.unwrap_or_else(|| place.fbin("s.fbin", start, DIMENSION))),
            ..KmeansOptions::new(4)
        };
        let known = found.as_ref().map(|found| found.row_counts.as_slice());
        found = Some(partial_fit(&job(MEMORY, 2), &batch, &options, known).unwrap());
    }
    let found = found.unwrap();
    assert_eq!(found.row_counts, counts);
    for (found, wanted) in found.centroids.iter().zip(&centroids) {
        assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
    }
}

#[test]
fn batches_and_parallel_seeding_are_the_same_bytes_for_all_threads_and_memory() {
    let place = Place::new();
    let numbers = vectors("gaussian", 9000, 24, 8);
    let base = place.fbin("base.fbin", &numbers, 24);
    for (is_spherical, batches) in [
        (false, Some(Batches::new(900))),
        (true, Some(Batches::new(700))),
        (false, None),
        (true, None),
    ] {
        let options = KmeansOptions {
            init: Init::ParallelRows,
            batches,
            max_iterations: 5,
            runs: 2,
            is_spherical,
            ..KmeansOptions::new(12)
        };
        let wanted = run(&base, &options, (MEMORY, 1));
        assert_eq!(wanted.row_counts.iter().sum::<u64>(), 9000);
        for limits in [(MEMORY, 2), (MEMORY, 5), (4 << 20, 1), (6 << 20, 3)] {
            assert_eq!(run(&base, &options, limits), wanted, "{limits:?}");
        }
    }
}

#[test]
fn clusters_that_lie_apart_are_found_by_batches_from_any_good_start() {
    let place = Place::new();
    let numbers = vectors("clustered", 5000, 12, 3);
    let base = place.fbin("base.fbin", &numbers, 12);
    for init in [Init::FarRows, Init::ParallelRows] {
        let options = KmeansOptions {
            init: init.clone(),
            batches: Some(Batches::new(500)),
            ..KmeansOptions::new(10)
        };
        let found = run(&base, &options, (MEMORY, 2));
        assert_eq!(found.row_counts, vec![500; 10], "{init:?}");
        assert!(found.inertia < 5000.0 * 12.0 * 2e-6, "{}", found.inertia);
        assert!(found.has_converged);
    }
}

#[test]
fn parallel_seeding_is_near_to_that_on_a_sample_and_batches_are_near_to_lloyd() {
    let place = Place::new();
    let numbers = vectors("gaussian", 8000, 8, 21);
    let base = place.fbin("base.fbin", &numbers, 8);
    let options = KmeansOptions::new(20);
    let lloyd = run(&base, &options, (MEMORY, 2)).inertia;
    let parallel = KmeansOptions {
        init: Init::ParallelRows,
        ..options.clone()
    };
    let by_batches = KmeansOptions {
        batches: Some(Batches::new(1000)),
        ..options
    };
    for (options, most) in [(parallel, 1.03), (by_batches, 1.06)] {
        let inertia = run(&base, &options, (MEMORY, 2)).inertia;
        assert!(inertia < lloyd * most, "{inertia} {lloyd}");
    }
}

#[test]
fn a_centroid_far_from_all_rows_finds_some_and_few_different_rows_are_enough() {
    let place = Place::new();
    let numbers = vectors("gaussian", 3000, 2, 5);
    let base = place.fbin("base.fbin", &numbers, 2);
    let start = [0.0, 0.0, 1e4, 1e4, 1.0, 1.0];
    let options = KmeansOptions {
        init: Init::Given(place.fbin("start.fbin", &start, 2)),
        batches: Some(Batches {
            rows: 100,
            patience: None,
        }),
        max_iterations: 20,
        tolerance: 0.0,
        ..KmeansOptions::new(3)
    };
    let found = run(&base, &options, (MEMORY, 2));
    assert_eq!(found.iterations, 20);
    assert!(
        found.row_counts.iter().all(|count| *count > 100),
        "{found:?}"
    );
    let twins = place.fbin("twins.fbin", &[1.0_f32, 2.0, 3.0, 4.0].repeat(50), 2);
    let options = KmeansOptions {
        init: Init::ParallelRows,
        ..KmeansOptions::new(5)
    };
    let found = run(&twins, &options, (MEMORY, 2));
    assert_eq!(found.inertia, 0.0);
}

#[test]
fn wrong_batches_are_named() {
    let place = Place::new();
    let base = place.fbin("base.fbin", &[1.0, 2.0, 0.0, 0.0, 5.0, 6.0], 2);
    let refused = |base: &VectorFile, options: &KmeansOptions, cause: &str| {
        let error = kmeans(&job(MEMORY, 2), base, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(cause), "{error}");
        assert!(error.next_step().is_some());
    };
    let options = KmeansOptions {
        batches: Some(Batches::new(0)),
        ..KmeansOptions::new(2)
    };
    refused(&base, &options, "0 rows");
    let numbers = bytes_of(&[1.0, 3.0, 2.0, f32::NAN]);
    let strange = VectorFile::open(
        &job(64 << 20, 1),
        &place.write("strange.f32", &numbers),
        Some("f32x2"),
    )
    .unwrap();
    for options in [
        KmeansOptions {
            batches: Some(Batches::new(50)),
            ..KmeansOptions::new(1)
        },
        KmeansOptions {
            init: Init::ParallelRows,
            ..KmeansOptions::new(1)
        },
    ] {
        refused(&strange, &options, "row 1 has NaN in column 1");
    }
}
