//! The check of the fuzz target for files of vectors. A panic also fails it.
//!
//! Contract: the first byte chooses an ending (fvecs, bvecs, ivecs, fbin, u8bin, i8bin, ibin, npy),
//! and the rest is the file. Opening the file returns an error that names the cause, or the rows
//! that the header announces fit into the file. Tests of `outcore-vector` run this check too.

use outcore::{IoMode, Job, JobOptions};
use outcore_vector::format::VectorFile;

const ENDINGS: [&str; 8] = [
    "fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin", "ibin", "npy",
];

/// Opens the rest of `data` as a file of vectors.
pub fn open(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let ending = ENDINGS[usize::from(*choice) % ENDINGS.len()];
    let Ok(dir) = tempfile::tempdir() else { return };
    let path = dir.path().join(format!("v.{ending}"));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let options = JobOptions {
        memory_bytes: 16 << 20,
        threads: 1,
        ..JobOptions::default()
    };
    let job = Job::new(options, IoMode::Buffered);
    match VectorFile::open(&job, &path, None) {
        Ok(file) => {
            assert!(file.dimension > 0, "{file:?}");
            let data_bytes = u128::from(file.rows) * file.row_bytes() as u128;
            assert!(data_bytes <= bytes.len() as u128, "{file:?}");
        }
        Err(error) => assert!(!error.cause().is_empty()),
    }
}
