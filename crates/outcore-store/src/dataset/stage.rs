//! Private directories for a change of a volume: one on each drive that takes part.
//!
//! Contract: a [`Stage`] has a directory on every drive that is present, and finds it by the
//! drive's number. Dropping a [`Stage`] removes all files that were not published.

use std::path::PathBuf;

use super::DatasetVolume;
use outcore_io::drive::PrivateDir;
use outcore_io::error::Result;

/// The directories. See the head of this file.
pub(super) struct Stage {
    dirs: Vec<PrivateDir>,
    /// The drives of the directories, in the same order.
    drives: Vec<usize>,
}

impl DatasetVolume {
    /// Private directories on all drives that are present, for incomplete data.
    pub(super) fn stage(&self) -> Result<Stage> {
        self.sweep()?;
        let drives: Vec<usize> = self.present().collect();
        let made = drives.iter().map(|index| {
            let made = self.device.make_private_dir(&self.folder(*index));
            made.map_err(|error| error.drive(&self.drives[*index].name))
        });
        let dirs = made.collect::<Result<Vec<_>>>()?;
        Ok(Stage { dirs, drives })
    }
}

impl Stage {
    /// The directories with the numbers of their drives.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &PrivateDir)> {
        self.drives.iter().copied().zip(&self.dirs)
    }

    /// The path of a file in the directory of a drive; empty if the drive is not part of it.
    pub(super) fn path(&self, index: usize, name: &str) -> PathBuf {
        let mut found = self.iter().filter(|(drive, _)| *drive == index);
        let found = found.next().map(|(_, dir)| dir.path().join(name));
        found.unwrap_or_default()
    }

    /// The directories alone.
    pub(super) fn dirs(&self) -> &[PrivateDir] {
        &self.dirs
    }

    /// Leaves the directories to the next sweep, which finishes the committed renames.
    pub(super) fn leave(self) {
        self.dirs.into_iter().for_each(PrivateDir::leave);
    }
}
