//! From flags to what a job may use (see [`outcore_front::resources`]).
//!
//! Contract: what a flag does not set is left to environment, file and default. `OUTCORE_FAULT`
//! (`eio@12`, `kill@9`, see [`outcore_io::drive::testing`]) puts a fault into the device, for
//! tests; this is the only place that reads it.

use outcore::{Error, Result};
use outcore_front::resources::{FAULT_VARIABLE, Resources, ResourcesRequest};
use outcore_io::config::{Environment, Flags};

use crate::allocator;
use crate::cli::{DriveArgs, ResourceArgs};

/// Merges flags, environment, file and defaults. The seed never changes the output.
pub(crate) fn load(
    resources: &ResourceArgs,
    drive_args: &DriveArgs,
    scratch_limit_bytes: Option<u64>,
    seed: u64,
) -> Result<Resources> {
    let mut drives = drive_args.drives.clone();
    if let Some(file) = &drive_args.drives_file {
        if file.extension().is_none_or(|end| end != "toml") {
            return Err(
                Error::usage("read drives file", "its name must end in .toml")
                    .path(file)
                    .hint("--drives takes a file; name a directory with --drive"),
            );
        }
        drives.push(file.clone());
    }
    let flags = Flags {
        memory_bytes: resources.memory_bytes,
        threads: resources.threads,
        io: resources.io,
        drives,
        scratch_limit_bytes,
    };
    let request = ResourcesRequest { flags, seed };
    let resources = Resources::load(&request, &Environment::of_process())?;
    allocator::keep_within(resources.config.memory_bytes.value);
    match std::env::var(FAULT_VARIABLE) {
        Ok(text) if !text.is_empty() => Ok(resources.with_fault(text.parse()?)),
        _ => Ok(resources),
    }
}

/// The same without drives, for what needs no scratch.
pub(crate) fn without_drives(resources: &ResourceArgs) -> Result<Resources> {
    load(resources, &DriveArgs::default(), None, SEED)
}

/// The seed where none can be given.
pub(crate) const SEED: u64 = 1;

/// Environment, file and defaults, for what has no flags of its own.
pub(crate) fn without_flags() -> Result<Resources> {
    without_drives(&ResourceArgs::default())
}
