//! What the submitters of a striped volume share, and when its files are closed.
//!
//! Contract: files stay open, and server threads run, while the volume or a submitter of it lives.

use std::sync::Arc;

use outcore_io::drive::{Device, PrivateDir};

use crate::mapping::StripeMap;
use crate::serving::ServerThreads;
use crate::stripe::{StripeOptions, StripedDrive};

/// What submitters share.
pub(crate) struct Shared {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) map: StripeMap,
    pub(crate) drives: Vec<StripedDrive>,
    pub(crate) options: StripeOptions,
    pub(crate) servers: ServerThreads,
    /// Where the files lie, if they go with the volume.
    pub(crate) _dirs: Vec<PrivateDir>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.servers.stop();
        for drive in &self.drives {
            self.device.close(drive.file);
        }
    }
}
