//! Prepares the job and the plan of a sort, and describes the results of a check.
//!
//! Contract: [`settle_sort`] does everything between the choice of inputs, output and format, and
//! the run itself. It reads no record. It counts drives as the engine does, so that its plan is
//! that of the run. The text of a check is that of sortbenchmark.org's valsort.

use std::path::{Path, PathBuf};

use outcore::Result;
use outcore::job::{Job, ScratchDrive};
use outcore::key::CheckReport;
use outcore::key::RecordFormat;
use outcore::sort::plan::SortPlan;
use outcore::sort::{self, SortOptions};
use outcore_io::output::parent_of;

use crate::inputs::ResolvedInput;
use crate::output::{Target, check_room};
use crate::resources::Resources;

/// The job of a sort and its plan; `is_resumed` if it continues a killed one. Without a target,
/// only the plan is useful.
///
/// # Errors
/// Too little room or memory, invalid drives, incompatible options.
pub fn settle_sort(
    resources: &Resources,
    inputs: &[ResolvedInput],
    target: Option<&Target>,
    format: &RecordFormat,
    options: SortOptions,
    is_resumed: bool,
) -> Result<(Job, SortPlan)> {
    let data_bytes = inputs.iter().map(|input| input.data_bytes).sum();
    // A killed job has reserved the room.
    if let Some(target) = target.filter(|_| !options.unique && !is_resumed) {
        // The size of the result of --unique is not known in advance.
        check_room(resources.device().as_ref(), target, data_bytes)?;
    }
    let (mut job, beside, drive_count) = unplanned(resources, inputs, target)?;
    let plan = sort::plan(&job, data_bytes, format, options, drive_count)?;
    job.options.drives = resources.scratch_drives(plan.scratch_bytes, &beside)?;
    Ok((job, plan))
}

/// A job with the named drives, the directory next to which scratch goes otherwise, and the number
/// of drives that data goes to.
fn unplanned(
    resources: &Resources,
    inputs: &[ResolvedInput],
    target: Option<&Target>,
) -> Result<(Job, PathBuf, usize)> {
    resources.expect(inputs.iter().map(|input| &input.source));
    let beside = target.map_or(Path::new(".").to_path_buf(), Target::dir);
    let outputs = target.map_or(&[][..], Target::files);
    let named = resources.named_drives(0)?;
    let inputs = inputs.iter().map(|input| input.source.path.as_path());
    let outputs = outputs.iter().map(|path| parent_of(path));
    let drive_count = count_drives(&named, &beside, inputs.chain(outputs));
    let job = resources.planned_job(named, &beside);
    Ok((job, beside, drive_count))
}

/// Counts as the engine does: each named drive, then each further file system.
fn count_drives<'a>(
    named: &[ScratchDrive],
    beside: &Path,
    paths: impl Iterator<Item = &'a Path>,
) -> usize {
    use std::os::unix::fs::MetadataExt;
    let file_system = |path: &Path| std::fs::metadata(path).ok().map(|facts| facts.dev());
    let scratch: Vec<&Path> = match named {
        [] => vec![beside],
        drives => drives.iter().map(|drive| drive.dir.as_path()).collect(),
    };
    let mut seen: Vec<u64> = scratch.iter().filter_map(|dir| file_system(dir)).collect();
    let mut count = scratch.len();
    for found in paths.filter_map(file_system) {
        if !seen.contains(&found) {
            seen.push(found);
            count += 1;
        }
    }
    count
}

/// valsort's verdict: whether everything is in order. valsort gives no verdict on zero records;
/// that applies only to its own format.
pub fn is_in_order(check: &CheckReport, format: &RecordFormat) -> bool {
    match format.is_gensort() {
        true => check.valsort_exit_code() == 0,
        false => check.is_ordered(),
    }
}

/// valsort's lines about a check.
pub fn check_text(check: &CheckReport, format: &RecordFormat) -> String {
    match check.records {
        0 if !format.is_gensort() => {
            "Records: 0\nChecksum: 0\nDuplicate keys: 0\nSUCCESS - all records are in order\n"
                .to_string()
        }
        _ => check.valsort_text(),
    }
}
