//! Shared helpers of the vector tests.
//!
//! Contract: files have seeded random numbers, in a directory that is removed with its owner.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{IoMode, Job, JobOptions};
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{Found, Subset, Within};

/// Random numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn gauss(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

/// Distributions of vectors.
pub(crate) const SPREADS: [&str; 5] = ["uniform", "gaussian", "clustered", "duplicates", "far"];

/// `rows` vectors, as f32.
pub(crate) fn vectors(spread: &str, rows: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    let mut made = Vec::with_capacity(rows * dimension);
    for row in 0..rows {
        for column in 0..dimension {
            made.push(match spread {
                "uniform" => random.unit() as f32,
                "gaussian" => random.gauss() as f32,
                // Ten clusters that are narrow compared with their distance from 0.
                "clustered" => {
                    ((row % 10 * 7 + column) % 13) as f32 * 100.0 + random.gauss() as f32 * 1e-3
                }
                "duplicates" => ((row % 5) * (column + 1) % 7) as f32,
                _ => 1e4 + random.gauss() as f32,
            });
        }
    }
    made
}

pub(crate) fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// A directory with files of vectors.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Writes a file in big-ann's format.
    pub(crate) fn fbin(&self, name: &str, numbers: &[f32], dimension: usize) -> VectorFile {
        let rows = (numbers.len() / dimension) as u32;
        let mut bytes = [rows, dimension as u32].map(u32::to_le_bytes).concat();
        bytes.extend(bytes_of(numbers));
        open(&self.write(name, &bytes), None).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Opens a file of vectors.
pub(crate) fn open(path: &Path, type_name: Option<&str>) -> outcore::Result<VectorFile> {
    VectorFile::open(&job(64 << 20, 1), path, type_name)
}

/// The rows of `base` whose byte in the file at `mask` is not 0.
pub(crate) fn subset(mask: &Path, base: &VectorFile) -> Option<Arc<Subset>> {
    let subset = Subset::read(&job(64 << 20, 2), mask, base).unwrap();
    Some(Arc::new(subset))
}

/// Returns the results of a search in memory.
pub(crate) fn within(job: &Job, found: outcore::Result<Found>) -> Within {
    Within::of(job, found.unwrap().hits).unwrap()
}

pub(crate) fn job(memory_bytes: u64, threads: usize) -> Job {
    let options = JobOptions {
        memory_bytes,
        threads,
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}
