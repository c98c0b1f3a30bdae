//! State that the submitters of a striped volume share; determines when its files are closed.
//!
//! Contract: files stay open, and server threads run, as long as the volume or one of its
//! submitters lives.

use std::sync::Arc;

use outcore_io::drive::{Device, PrivateDir};
use outcore_io::error::Error;
use outcore_io::port::{TransferFault, explain_transfer};

use super::servers::ServerThreads;
use crate::mapping::StripeMap;
use crate::stripe::{ABSENT, StripeOptions, StripedDrive};

/// The shared state.
pub(crate) struct Shared {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) map: StripeMap,
    pub(crate) drives: Vec<StripedDrive>,
    pub(crate) options: StripeOptions,
    pub(crate) servers: ServerThreads,
    /// Directories of the files, if these are removed with the volume.
    pub(crate) _dirs: Vec<PrivateDir>,
}

impl Shared {
    /// The error for a failed transfer, with its place.
    pub(crate) fn explain(&self, fault: &TransferFault) -> Error {
        let drive = self.drives.get(fault.drive_index);
        explain_transfer(
            fault,
            drive.map(|drive| drive.name.as_str()),
            drive.map(|drive| drive.path.as_path()),
        )
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.servers.stop();
        for drive in self.drives.iter().filter(|drive| drive.file != ABSENT) {
            self.device.close(drive.file);
        }
    }
}
