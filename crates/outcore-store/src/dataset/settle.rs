//! Finishes the commits of killed commands before a drive is replaced or removed.
//!
//! Contract: a sweep does nothing while a drive is missing ([`super::label::sweep`]), because that
//! drive may have a part in the commit. [`DatasetVolume::settled`] sweeps the other drives, and
//! opens the volume again: labels that the sweep has finished count from then on. It fails if
//! another command has changed the labels after the volume was opened.
//!
//! Bounds: one label per drive.

use std::sync::Arc;

use super::DatasetVolume;
use outcore_io::error::Result;

impl DatasetVolume {
    /// Finishes the commits of killed commands on all drives except for `index`; returns the volume
    /// as it is then.
    ///
    /// # Errors
    /// A drive was replaced, joined or left after the volume was opened; I/O.
    pub(super) fn settled(&self, index: usize) -> Result<Self> {
        self.check_not_overtaken()?;
        self.repair_manifest_folders()?;
        // No other command changes labels meanwhile, so each change is part of an interrupted
        // commit.
        let names = self.lock_unchecked();
        self.check_not_overtaken()?;
        let _names = names?;
        for other in self.present().filter(|other| *other != index) {
            let swept = self.device.sweep_private_dirs(&self.folder(other));
            swept.map_err(|error| error.drive(&self.drives[other].name))?;
        }
        Self::open(Arc::clone(&self.device), self.drives.clone())
    }
}
