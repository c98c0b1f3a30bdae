//! The resources of a job from the flags (see [`outcore_terminal::resources`]).
//!
//! Contract: the environment, the file and the defaults set the values that no flag sets.

use outcore::Result;
use outcore_front::resources::Resources;
use outcore_terminal::resources::of_request;
use outcore_verbs::option::resources_request;

use crate::cli::{DriveArgs, ResourceArgs};

pub(crate) use outcore_verbs::option::SEED;

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

/// As [`load`], without drives, for commands that need no scratch.
pub(crate) fn without_drives(resources: &ResourceArgs) -> Result<Resources> {
    load(resources, &DriveArgs::default(), None, SEED)
}
