//! From flags to what a job may use (see [`outcore_front::resources`]).
//!
//! Contract: what a flag does not set is left to environment, file and default. `OUTCORE_FAULT`
//! (`eio@12`, `kill@9`, see [`outcore_io::drive::testing`]) puts a fault into the device, for
//! tests; this is the only place that reads it.

use outcore::Result;
use outcore_front::resources::{FAULT_VARIABLE, Resources, ResourcesRequest};
use outcore_io::config::Environment;
use outcore_verbs::option::resources_request;

use crate::cli::{DriveArgs, ResourceArgs};

/// Merges flags, environment, file and defaults. The seed never changes the output.
pub(crate) fn load(
    resources: &ResourceArgs,
    drive_args: &DriveArgs,
    scratch_limit_bytes: Option<u64>,
    seed: u64,
) -> Result<Resources> {
    of_request(&resources_request(
        resources,
        drive_args,
        scratch_limit_bytes,
        seed,
    )?)
}

/// The same for what was set.
pub(crate) fn of_request(request: &ResourcesRequest) -> Result<Resources> {
    let resources = Resources::load(request, &Environment::of_process())?;
    match std::env::var(FAULT_VARIABLE) {
        Ok(text) if !text.is_empty() => Ok(resources.with_fault(text.parse()?)),
        _ => Ok(resources),
    }
}

/// The same without drives, for what needs no scratch.
pub(crate) fn without_drives(resources: &ResourceArgs) -> Result<Resources> {
    load(resources, &DriveArgs::default(), None, SEED)
}

pub(crate) use outcore_verbs::option::SEED;

/// Environment, file and defaults, for what has no flags of its own.
pub(crate) fn without_flags() -> Result<Resources> {
    without_drives(&ResourceArgs::default())
}
