//! Resources of a job from the environment of the process (see [`outcore_front::resources`]).
//!
//! Contract: the environment, the file and the defaults set the values that a request does not set.
//! For tests, `OUTCORE_FAULT` (`eio@12`, `kill@9`, see [`outcore_io::drive::testing`]) puts a fault
//! into the device; this is the only place that reads it.

use outcore::Result;
use outcore_front::resources::{FAULT_VARIABLE, Resources, ResourcesRequest};
use outcore_io::config::Environment;
use outcore_io::stop::Stop;
use outcore_verbs::option::{DriveArgs, ResourceArgs, SEED, resources_request};

use crate::signals::Interrupt;

/// Merges the request, the environment, the file and the defaults.
///
/// # Errors Invalid settings.
pub fn of_request(request: &ResourcesRequest) -> Result<Resources> {
    let resources = Resources::load(request, &Environment::of_process())?;
    match std::env::var(FAULT_VARIABLE) {
        Ok(text) if !text.is_empty() => Ok(resources.with_fault(text.parse()?)),
        _ => Ok(resources),
    }
}

/// The request of a command without flags of its own.
pub(crate) fn request_without_flags() -> Result<ResourcesRequest> {
    let (none, no_drives) = (ResourceArgs::default(), DriveArgs::default());
    resources_request(&none, &no_drives, None, SEED)
}

/// Like [`of_request`], but a signal ends waits for object stores.
///
/// # Errors
/// As [`of_request`].
pub fn until(interrupt: &Interrupt, request: &ResourcesRequest) -> Result<Resources> {
    let interrupt = interrupt.clone();
    of_request(&ResourcesRequest {
        stop: Stop::new(move || interrupt.is_set()),
        ..request.clone()
    })
}
