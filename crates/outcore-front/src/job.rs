//! Prepares the job and the plan of a sort, and describes the results of a check.
//!
//! Contract: [`settle_sort`] does everything between the choice of inputs, output and format, and
//! the run itself. It reads no record. Its plan is that of the run. The text of a check is that of
//! sortbenchmark.org's valsort.

use std::path::{Path, PathBuf};

use outcore::Result;
use outcore::job::{InputPlace, Job, OutputPlaces};
use outcore::key::CheckReport;
use outcore::key::RecordFormat;
use outcore::sort::plan::SortPlan;
use outcore::sort::{self, SortOptions};

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
    let (mut job, beside) = unplanned(resources, inputs, target)?;
    let places = inputs
        .iter()
        .map(|input| job.input_place(&input.source.path, input.data_bytes));
    let places: Vec<InputPlace> = places.collect();
    let outputs = target.map_or(OutputPlaces::Unknown, Target::places);
    let layout = job.layout(&places, &outputs);
    let plan = sort::plan(&job, data_bytes, format, options, layout)?;
    job.options.drives = resources.scratch_drives(plan.scratch_bytes, &beside)?;
    Ok((job, plan))
}

/// A job with the named drives, and the directory next to which scratch goes if no drives are
/// named.
fn unplanned(
    resources: &Resources,
    inputs: &[ResolvedInput],
    target: Option<&Target>,
) -> Result<(Job, PathBuf)> {
    resources.expect(inputs.iter().map(|input| &input.source));
    let beside = target.map_or(Path::new(".").to_path_buf(), Target::dir);
    let job = resources.planned_job(resources.named_drives(0)?);
    Ok((job, beside))
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
