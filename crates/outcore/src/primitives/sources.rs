//! How much data files hold, before anything is read.
//!
//! Contract: files are opened and checked as a pass does it, and closed again.

use std::sync::Arc;

use super::summary::PassPlan;
use crate::ends::{Forecast, Input, open_inputs};
use crate::job::Job;
use crate::sort::lines::merge_passes;
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

/// How one read of `files` of elements of `element_bytes` would go about it: the `steps` for
/// people, in one `phase`, of which `moved` gives the reads and writes for files of this many bytes
/// of data. Nothing is read.
///
/// # Errors
/// As for reading them.
pub fn plan_files(
    job: &Job,
    files: &[Input],
    element_bytes: usize,
    steps: &str,
    phase: &'static str,
    moved: impl Fn(u64) -> (Forecast, Forecast),
) -> Result<PassPlan> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, files, element_bytes, Access::Read)?;
    let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
    let (read_bytes, written_bytes) = moved(data_bytes);
    Ok(PassPlan::of_files(
        job,
        &volume,
        steps,
        phase,
        data_bytes,
        read_bytes,
        written_bytes,
    ))
}

/// The same of a merge of files of lines, of which one a key `is_unique`.
///
/// # Errors
/// As [`plan_files`].
pub fn plan_merge_of_lines(job: &Job, files: &[Input], is_unique: bool) -> Result<PassPlan> {
    let passes = merge_passes(job.budget.free_bytes(), files.len());
    let steps = match passes {
        0 | 1 => "read lines -> merge".to_string(),
        _ => format!("read lines -> merge, in {passes} passes"),
    };
    plan_files(job, files, 1, &steps, "merge", |bytes| {
        let moved_bytes = bytes.saturating_mul(passes.max(1).into());
        match is_unique {
            true => (moved_bytes.into(), Forecast::AtMost(moved_bytes)),
            false => (moved_bytes.into(), moved_bytes.into()),
        }
    })
}
