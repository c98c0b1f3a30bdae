//! Facts by which an index or a checkpoint recognizes its file of vectors, so that another file, or
//! the same file after a change, is rejected.
//!
//! Contract: type, length, modification time, and a checksum of rows spread over the file. Two
//! files with the same facts count as the same.

use std::path::Path;

use outcore::primitives::gather::gather;
use outcore::{Job, Result};
use outcore_io::checksum::bytes_checksum;
use serde::{Deserialize, Serialize};

use super::{VectorFile, input_of, start};

/// The number of rows in the checksum, or fewer if they would take more than [`SAMPLE_BYTES`].
const SAMPLE_ROWS: u64 = 64;
const SAMPLE_BYTES: u64 = 1 << 20;

/// Facts by which a file of vectors is recognized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BaseFacts {
    /// Number type and dimension.
    pub(crate) vectors: String,
    pub(crate) rows: u64,
    pub(crate) header_bytes: u64,
    pub(crate) row_bytes: usize,
    /// The modification time, in nanoseconds since 1970.
    pub(crate) modified_ns: i64,
    /// The checksum of some rows, which also seeds the checksums of all records.
    pub(crate) fingerprint: u64,
}

impl BaseFacts {
    /// The facts of the file as it is now.
    pub(crate) fn of(job: &Job, base: &VectorFile) -> Result<Self> {
        Ok(BaseFacts {
            vectors: base.type_name(),
            rows: base.rows,
            header_bytes: base.header_bytes,
            row_bytes: base.row_bytes(),
            modified_ns: modified_ns(job, &base.path)?,
            fingerprint: fingerprint(job, base)?,
        })
    }
}

/// The modification time of a file; 0 for a dataset, which never changes.
pub(crate) fn modified_ns(job: &Job, path: &Path) -> Result<i64> {
    Ok(start::facts_of(job, path)?.modified_ns as i64)
}

/// A checksum of rows that include the first and the last.
fn fingerprint(job: &Job, base: &VectorFile) -> Result<u64> {
    let fitting = (SAMPLE_BYTES / base.row_bytes() as u64).max(2);
    let steps = SAMPLE_ROWS.min(fitting).min(base.rows);
    let last = base.rows - 1;
    let positions: Vec<u64> = (0..steps)
        .map(|step| (u128::from(last) * u128::from(step) / u128::from((steps - 1).max(1))) as u64)
        .collect();
    let (bytes, _) = gather(job, &[input_of(base)], base.row_bytes(), &positions)?;
    Ok(bytes_checksum(&bytes))
}
