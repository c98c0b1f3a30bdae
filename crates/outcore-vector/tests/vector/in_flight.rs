//! Reads stay in flight while vectors are searched and clustered, measured with the virtual clock
//! of in-memory drives.
//!
//! Contract: the file is on one drive, and larger than the memory.

use std::path::Path;

use outcore_vector::format::VectorFile;
use outcore_vector::kmeans::{KmeansOptions, kmeans};
use outcore_vector::knn::{KnnOptions, Metric, knn};

use crate::common::{bytes_of, vectors};
use crate::depth;

const ROWS: usize = 200_000;
const DIMENSION: usize = 32;
const MEMORY_KIB: u64 = 16 << 10;
/// The least acceptable median of reads in flight.
const DEPTH_LEAST: usize = 4;

#[test]
fn a_search_and_a_clustering_keep_reads_in_flight_in_every_phase() {
    let ram = depth::drives();
    let put = |path: &str, rows: usize| {
        let mut bytes = [rows as u32, DIMENSION as u32]
            .map(u32::to_le_bytes)
            .concat();
        bytes.extend(bytes_of(&vectors("uniform", rows, DIMENSION, 3)));
        ram.put(path, bytes);
    };
    put("/d0/base.fbin", ROWS);
    put("/d1/queries.fbin", 4);
    let medians = depth::medians_on(&ram, MEMORY_KIB, &mut |job| {
        let open = |path: &str| VectorFile::open(job, Path::new(path), None).unwrap();
        let (base, queries) = (open("/d0/base.fbin"), open("/d1/queries.fbin"));
        knn(job, &base, &queries, &KnnOptions::new(3, Metric::L2)).unwrap();
    });
    depth::check_reads("nearest neighbours", &medians, DEPTH_LEAST);
    let medians = depth::medians_on(&ram, MEMORY_KIB, &mut |job| {
        let base = VectorFile::open(job, Path::new("/d0/base.fbin"), None).unwrap();
        let options = KmeansOptions {
            max_iterations: 2,
            ..KmeansOptions::new(4)
        };
        kmeans(job, &base, &options).unwrap();
    });
    depth::check_reads("k-means", &medians, DEPTH_LEAST);
}
