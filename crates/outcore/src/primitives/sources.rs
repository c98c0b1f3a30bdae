//! The lengths of data files, before any data are read.
//!
//! Contract: files are opened and checked as by a pass, and closed again.

use std::sync::Arc;

use super::summary::PassPlan;
use crate::ends::{Input, input_places, open_inputs};
use crate::forecast::Forecast;
use crate::job::{Job, OutputPlaces};
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

/// Bytes of data in each of `files` of elements of `element_bytes`.
///
/// # Errors
/// The errors of [`data_bytes_of`].
pub(crate) fn lengths_of(job: &Job, files: &[Input], element_bytes: usize) -> Result<Vec<u64>> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, files, element_bytes, Access::Read)?;
    Ok(parts.iter().map(|part| part.data_len_bytes).collect())
}

/// The plan for one read of `files` of elements of `element_bytes`: the `steps` for people, in one
/// `phase`. `moved` computes the reads and writes from the data bytes of the files. Nothing is
/// read.
///
/// # Errors
/// The errors of reading them.
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
    let layout = job.layout(&input_places(&parts), &OutputPlaces::Unknown);
    Ok(PassPlan::of_files(
        job,
        layout,
        steps,
        phase,
        data_bytes,
        read_bytes,
        written_bytes,
    ))
}

/// Like [`plan_files`], for a merge of files of lines, with one line per key if `is_unique`.
///
/// # Errors
/// The errors of [`plan_files`].
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
