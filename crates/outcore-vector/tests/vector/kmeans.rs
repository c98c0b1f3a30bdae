//! k-means compared with plain Lloyd in f64, and with itself for other threads, memory and pieces.
//!
//! Contract: from the same start, centroids and inertia equal those of a loop over all rows and
//! centroids, except for rounding. Results with the same options are bit-identical.

use outcore::Kind;
use outcore_vector::format::VectorFile;
use outcore_vector::kmeans::{
    Batches, Clustering, Init, KmeansOptions, LabelOutput, kmeans, write_labels,
};

use crate::common::{Place, Random, SPREADS, bytes_of, job, open, vectors};

const MEMORY: u64 = 64 << 20;

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|number| f64::from(*number)).collect()
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn nearest(row: &[f64], centroids: &[f64]) -> (usize, f64) {
    let each = centroids.chunks_exact(row.len());
    let distances = each.map(|centroid| squared_distance(row, centroid));
    let least = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
    least.unwrap()
}

/// Plain Lloyd: returns the centroids after this many iterations, and their inertia.
fn lloyd(
    rows: &[f64],
    mut centroids: Vec<f64>,
    dimension: usize,
    iterations: u32,
) -> (Vec<f64>, f64) {
    for _ in 0..iterations {
        let mut sums = vec![0.0; centroids.len()];
        let mut counts = vec![0.0; centroids.len() / dimension];
        for row in rows.chunks_exact(dimension) {
            let (cluster, _) = nearest(row, &centroids);
            counts[cluster] += 1.0;
            let sum = &mut sums[cluster * dimension..][..dimension];
            sum.iter_mut()
                .zip(row)
                .for_each(|(sum, number)| *sum += number);
        }
        for (at, sum) in sums.iter().enumerate() {
            if counts[at / dimension] > 0.0 {
                centroids[at] = sum / counts[at / dimension];
            }
        }
    }
    let inertia = rows
        .chunks_exact(dimension)
        .map(|row| nearest(row, &centroids).1);
    let inertia = inertia.sum();
    (centroids, inertia)
}

fn given(place: &Place, k: usize, base: &[f32], dimension: usize) -> Init {
    let start = &base[..k * dimension];
    Init::Given(place.fbin("start.fbin", start, dimension))
}

fn run(base: &VectorFile, options: &KmeansOptions, (memory, threads): (u64, usize)) -> Clustering {
    let mut found = kmeans(&job(memory, threads), base, options).unwrap();
    // Phases contain times, which differ between runs.
    assert!(!std::mem::take(&mut found.phases).is_empty());
    found
}

#[test]
fn a_few_iterations_are_those_of_plain_lloyd() {
    for (spread, (rows, dimension, k)) in SPREADS.iter().zip([
        (3000, 7, 5),
        (2000, 32, 16),
        (4000, 3, 10),
        (1000, 5, 3),
        (2000, 17, 300),
    ]) {
        let place = Place::new();
        let numbers = vectors(spread, rows, dimension, 5);
        let base = place.fbin("base.fbin", &numbers, dimension);
        for iterations in [1, 4] {
            let options = KmeansOptions {
                init: given(&place, k, &numbers, dimension),
                max_iterations: iterations,
                tolerance: 0.0,
                ..KmeansOptions::new(k)
            };
            let found = run(&base, &options, (MEMORY, 2));
            let start = wide(&numbers[..k * dimension]);
            let (centroids, inertia) = lloyd(&wide(&numbers), start, dimension, iterations);
            assert_eq!(found.row_counts.iter().sum::<u64>(), rows as u64);
            if found.row_counts.contains(&0) || *spread == "duplicates" {
                // Plain Lloyd does not move centroids without rows.
                assert!(found.inertia <= inertia * (1.0 + 1e-9), "{spread}");
                continue;
            }
            let off = (found.inertia - inertia).abs();
            assert!(
                off <= 1e-9 * inertia,
                "{spread}: {} {inertia}",
                found.inertia
            );
            for (found, wanted) in found.centroids.iter().zip(&centroids) {
                assert!(
                    (found - wanted).abs() <= 1e-9 * (1.0 + wanted.abs()),
                    "{spread}"
                );
            }
        }
    }
}

#[test]
fn results_are_the_same_bytes_for_all_threads_and_memory() {
    let place = Place::new();
    let numbers = vectors("gaussian", 9000, 24, 8);
    let base = place.fbin("base.fbin", &numbers, 24);
    for is_spherical in [false, true] {
        let options = KmeansOptions {
            max_iterations: 6,
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
fn clusters_that_lie_apart_are_found_and_labels_say_whose_each_row_is() {
    let place = Place::new();
    let numbers = vectors("clustered", 5000, 12, 3);
    let base = place.fbin("base.fbin", &numbers, 12);
    let found = run(&base, &KmeansOptions::new(10), (MEMORY, 2));
    assert!(found.has_converged);
    assert_eq!(found.row_counts, vec![500; 10]);
    assert!(found.inertia < 5000.0 * 12.0 * 2e-6, "{}", found.inertia);
    for name in ["labels.npy", "labels.ibin", "labels.i32"] {
        let path = place.path(name);
        let output = LabelOutput {
            path: &path,
            replace: false,
            beside: &[],
        };
        write_labels(&job(MEMORY, 2), &base, &found, &output).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let labels: Vec<i32> = bytes[bytes.len() - 4 * 5000..]
            .chunks_exact(4)
            .map(|word| i32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        for (row, label) in wide(&numbers).chunks_exact(12).zip(labels) {
            assert_eq!(nearest(row, &found.centroids).0, label as usize);
        }
        let again = write_labels(&job(MEMORY, 2), &base, &found, &output);
        assert_eq!(again.unwrap_err().kind(), Kind::Usage);
    }
}

#[test]
fn a_centroid_without_rows_moves_to_the_farthest_row() {
    let place = Place::new();
    let numbers: Vec<f32> = [vec![0.0_f32; 40], vec![1.0; 40], vec![9.0; 2]].concat();
    let base = place.fbin("base.fbin", &numbers, 1);
    let options = KmeansOptions {
        init: Init::Given(place.fbin("start.fbin", &[0.0, 1.0, 1e6], 1)),
        ..KmeansOptions::new(3)
    };
    let found = run(&base, &options, (MEMORY, 1));
    assert_eq!((found.row_counts, found.inertia), (vec![40, 40, 2], 0.0));
    assert_eq!(found.centroids, [0.0, 1.0, 9.0]);
}

#[test]
fn a_number_that_the_sample_missed_is_summed_right() {
    let place = Place::new();
    let mut random = Random(4);
    let mut numbers: Vec<f32> = (0..60_000).map(|_| random.unit() as f32).collect();
    numbers[31_111] = 3e6;
    let base = place.fbin("base.fbin", &numbers, 2);
    let options = KmeansOptions {
        max_iterations: 2,
        ..KmeansOptions::new(2)
    };
    let found = run(&base, &options, (MEMORY, 2));
    let sum: f64 = wide(&numbers).chunks_exact(2).map(|row| row[1]).sum();
    let of_centroids = found.centroids.chunks_exact(2).zip(&found.row_counts);
    let of_centroids: f64 = of_centroids
        .map(|(centroid, size)| centroid[1] * *size as f64)
        .sum();
    assert!(
        (sum - of_centroids).abs() < 1e-6 * sum,
        "{sum} {of_centroids}"
    );
}

#[test]
fn a_zero_vector_is_in_the_first_spherical_cluster_at_distance_one_and_moves_nothing() {
    let place = Place::new();
    let numbers = [0.0, 0.0, 3.0, 0.0, 0.0, 2.0, 5.0, 0.0, 0.0, 0.0];
    let base = place.fbin("base.fbin", &numbers, 2);
    let start = place.fbin("start.fbin", &[2.0, 0.0, 0.0, 1.0], 2);
    for init in [
        Init::Given(start),
        Init::FarRows,
        Init::RandomRows,
        Init::ParallelRows,
    ] {
        let is_given = matches!(init, Init::Given(_));
        for batches in [None, Some(Batches::new(4))] {
            let options = KmeansOptions {
                init: init.clone(),
                batches,
                is_spherical: true,
                ..KmeansOptions::new(2)
            };
            let found = kmeans(&job(MEMORY, 2), &base, &options).unwrap();
            if is_given {
                assert_eq!(found.centroids, [1.0, 0.0, 0.0, 1.0]);
                assert_eq!((found.row_counts, found.inertia), (vec![4, 1], 2.0));
            }
        }
    }
}

#[test]
fn wrong_input_is_named() {
    let place = Place::new();
    let base = place.fbin("base.fbin", &[1.0, 2.0, 0.0, 0.0, 5.0, 6.0], 2);
    let refused = |options: &KmeansOptions, cause: &str| {
        let error = kmeans(&job(MEMORY, 2), &base, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(cause), "{error}");
        assert!(error.next_step().is_some());
    };
    refused(&KmeansOptions::new(4), "4 clusters were requested");
    refused(&KmeansOptions::new(0), "0 clusters were requested");
    let other = place.fbin("other.fbin", &[1.0, 2.0, 3.0], 3);
    let start = KmeansOptions {
        init: Init::Given(other),
        ..KmeansOptions::new(1)
    };
    refused(&start, "it has 1 vector of 3 dimensions");
    let tolerance = KmeansOptions {
        tolerance: f64::NAN,
        ..KmeansOptions::new(1)
    };
    refused(&tolerance, "tolerance");
    let strange = place.write("strange.f32", &bytes_of(&[1.0, f32::NAN, 2.0, 3.0]));
    let strange = open(&strange, Some("f32x2")).unwrap();
    let error = kmeans(&job(MEMORY, 1), &strange, &KmeansOptions::new(1)).unwrap_err();
    assert!(error.to_string().contains("row 0 has NaN"), "{error}");
    let error = kmeans(&job(64 << 10, 1), &base, &KmeansOptions::new(2)).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
}
