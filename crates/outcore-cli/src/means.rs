//! From flags to what a job may use (see [`outcore_front::means`]).
//!
//! Contract: what a flag does not set is left to environment, file and default. `OUTCORE_FAULT`
//! (`eio@12`, `kill@9`, see [`outcore::drive::testing`]) puts a fault into the device, for tests;
//! this is the only place that reads it.

use outcore::config::{Environment, Flags};
use outcore::{Error, Result};
use outcore_front::means::{FAULT_VARIABLE, Means, MeansRequest};

use crate::cli::{DriveArgs, MeansArgs};

/// Merges flags, environment, file and defaults. The seed never changes the output.
pub(crate) fn load(
    means: &MeansArgs,
    drive_args: &DriveArgs,
    scratch_limit_bytes: Option<u64>,
    seed: u64,
) -> Result<Means> {
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
        memory_bytes: means.memory_bytes,
        threads: means.threads,
        io: means.io,
        drives,
        scratch_limit_bytes,
    };
    let request = MeansRequest { flags, seed };
    let means = Means::load(&request, &Environment::of_process())?;
    match std::env::var(FAULT_VARIABLE) {
        Ok(text) if !text.is_empty() => Ok(means.with_fault(text.parse()?)),
        _ => Ok(means),
    }
}

/// The seed where none can be given.
pub(crate) const SEED: u64 = 1;

/// Environment, file and defaults, for what has no flags of its own.
pub(crate) fn without_flags() -> Result<Means> {
    load(&MeansArgs::default(), &DriveArgs::default(), None, SEED)
}
