//! How much data files hold, before anything is read.
//!
//! Contract: files are opened and checked as a pass does it, and closed again.

use std::sync::Arc;

use crate::ends::Input;
use crate::ends::open_inputs;
use crate::job::Job;
use outcore_io::Result;
use outcore_io::drive::Access;
use outcore_io::port::Volume;

/// Bytes of data in `files` of elements of `element_bytes`.
///
/// # Errors
/// Files that are missing, or end within an element.
pub(crate) fn data_bytes_of(job: &Job, files: &[Input], element_bytes: usize) -> Result<u64> {
    Ok(lengths_of(job, files, element_bytes)?.iter().sum())
}

/// The same for each file.
///
/// # Errors
/// As [`data_bytes_of`].
pub(crate) fn lengths_of(job: &Job, files: &[Input], element_bytes: usize) -> Result<Vec<u64>> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, files, element_bytes, Access::Read)?;
    Ok(parts.iter().map(|part| part.data_len_bytes).collect())
}
