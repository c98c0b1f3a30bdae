//! Conditions for writing to a volume, and repairs of its labels and folders.
//!
//! Contract: a drive without one of its folders is damaged, not absent. A scrub makes the folder
//! again. It rewrites a label that is damaged, or missing from an otherwise complete folder, if the
//! copies of manifests there identify the drive. It also rewrites a label from before the last
//! change of the set of drives.
//!
//! Bounds: one label per drive.

use std::path::PathBuf;

use super::label::{path_of, refusal};
use super::membership::Standing;
use super::{DATA, DATASETS, DatasetVolume, copies};
use outcore_io::drive::folder;
use outcore_io::error::{Error, Kind, Result};

impl DatasetVolume {
    /// Fails while a drive is absent or has lost one of its folders, for callers that need all of
    /// them.
    ///
    /// # Errors
    /// The error of the first such drive, with its name.
    pub fn check_complete(&self, operation: &str) -> Result<()> {
        if let Some((drive, error)) = self.missing().next() {
            return Err(refusal(operation, drive, error));
        }
        self.check_not_replaced()?;
        self.lost_folders().next().map_or(Ok(()), |(index, path)| {
            let cause = "a folder of the drive is lost, and with it what it held";
            Err(Error::corrupt(operation, cause)
                .drive(&self.drives[index].name)
                .path(path)
                .hint("`outcore volume scrub` makes it again, with what other drives can replace"))
        })
    }

    /// The folders that drives with a label have lost.
    fn lost_folders(&self) -> impl Iterator<Item = (usize, PathBuf)> + '_ {
        let inner = |index: usize| [DATA, DATASETS].map(|inner| (index, inner));
        let folders = self.present().flat_map(inner);
        let paths = folders.map(|(index, inner)| (index, self.folder(index).join(inner)));
        paths.filter(|(_, path)| !path.exists())
    }

    /// Makes those folders again; returns them.
    pub(super) fn repair_folders(&self) -> Result<Vec<(usize, PathBuf)>> {
        let lost: Vec<_> = self.lost_folders().collect();
        for (index, path) in &lost {
            // Only the folder itself: without the one above it, the drive is away.
            let made = folder::make_dir(path);
            made.map_err(|error| error.drive(&self.drives[*index].name))?;
        }
        Ok(lost)
    }

    /// Rewrites labels from before the last change of the set of drives: that change was
    /// interrupted, and its record is lost.
    fn repair_old_labels(&self) -> Result<Vec<(usize, PathBuf)>> {
        let old = self.present().filter(|index| self.has_old_label(*index));
        let old: Vec<usize> = old.collect();
        if old.is_empty() || self.missing().next().is_some() || self.is_being_changed()? {
            return Ok(Vec::new());
        }
        self.write_labels(&old)?;
        Ok(old
            .into_iter()
            .map(|index| (index, path_of(&self.drives[index])))
            .collect())
    }

    /// Rewrites the damaged or missing labels of drives whose manifests identify them; returns the
    /// files. Call it only if no drive is missing.
    pub(super) fn repair_labels(&self) -> Result<Vec<(usize, PathBuf)>> {
        let mut repaired = self.repair_old_labels()?;
        for (index, absence) in self.absent.iter().enumerate() {
            let Some(error) = absence else { continue };
            if self.standings[index] == Standing::Lost {
                continue;
            }
            let is_nameless = !path_of(&self.drives[index]).exists();
            if error.kind() != Kind::Corrupt || !copies::are_of(self, index, is_nameless) {
                return Err(refusal("scrub volume", &self.drives[index], error));
            }
            self.write_labels(&[index])?;
            repaired.push((index, path_of(&self.drives[index])));
        }
        Ok(repaired)
    }
}
