//! The drives of a job's scratch.
//!
//! Contract: scratch goes to the given drives, else next to the output, else to a place that the
//! command reports.

use outcore::Result;
use outcore::job::{Job, ScratchDrive};
use outcore_front::output::Target;
use outcore_front::resources::{Resources, default_scratch_dir, is_in_memory};

use crate::host::Host;

/// Drives for scratch: those given, or none if the engine's default, next to the output, is right.
///
/// # Errors
/// A drive that cannot be used; no place for scratch.
pub(crate) fn scratch_drives(
    resources: &Resources,
    target: &Target,
    data_bytes: u64,
) -> Result<Vec<ScratchDrive>> {
    let named = resources.named_drives(data_bytes)?;
    if !named.is_empty() {
        return Ok(named);
    }
    let beside = target.dir();
    // Data that take less than an eighth of the memory need no scratch.
    if data_bytes < resources.config.memory_bytes.value / 8 {
        return Ok(Vec::new());
    }
    let dir = default_scratch_dir(&beside)?;
    Ok(match dir == beside {
        true => Vec::new(),
        false => vec![ScratchDrive::new(dir)],
    })
}

/// Reports the place of scratch if that is neither a given drive nor next to the output.
pub(crate) fn note_scratch(host: &dyn Host, resources: &Resources, target: &Target, job: &Job) {
    if let ([], [drive]) = (resources.specs(), job.options.drives.as_slice()) {
        let beside = target.dir();
        let cause = match is_in_memory(&beside) {
            true => "is in memory",
            false => "is not writable",
        };
        host.note(&format!(
            "scratch goes to {}, since {} {cause}; name another place with --drive",
            drive.dir.display(),
            beside.display()
        ));
    }
}
