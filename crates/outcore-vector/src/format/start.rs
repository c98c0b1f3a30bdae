//! The length, the modification time and the first bytes of a file on the job's device, before it
//! is read.
//!
//! Contract: works for files and datasets, because the device opens both; nothing stays open.

use std::path::Path;
use std::sync::Arc;

use outcore::primitives::gather::gather;
use outcore::{Error, Input, Job, Result};
use outcore_io::drive::{Access, FileFacts};
use outcore_io::port::Volume;

/// Returns the length and the modification time of a file.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn facts_of(job: &Job, path: &Path) -> Result<FileFacts> {
    if path.is_dir() {
        let error = Error::usage("open input", "it is a directory");
        return Err(error.path(path).hint("name a file"));
    }
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let opened = volume.open(path, Access::Read)?;
    let facts = opened.facts;
    volume.close(&opened);
    Ok(facts)
}

/// Reads the `len_bytes` existing bytes of a file that start at `at_bytes`.
///
/// # Errors
/// Errors of reading.
pub(crate) fn bytes_of(job: &Job, path: &Path, at_bytes: u64, len_bytes: usize) -> Result<Vec<u8>> {
    if len_bytes == 0 {
        return Ok(Vec::new());
    }
    let input = Input {
        path: path.to_path_buf(),
        header_bytes: at_bytes,
        data_bytes: Some(len_bytes as u64),
    };
    Ok(gather(job, &[input], len_bytes, &[0])?.0)
}
