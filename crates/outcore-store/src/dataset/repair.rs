//! Conditions for writing to a volume, and repairs of its labels and folders.
//!
//! Contract: a drive without one of its folders is damaged, not absent. Only a scrub, a
//! replacement and the removal of a drive make the folder again. A scrub rewrites a label that is
//! damaged, or missing from an otherwise complete folder, if the manifests there agree with those
//! of the other drives. It also rewrites a label from before the last change of the set of drives,
//! or from before a drive was replaced.
//!
//! Bounds: one label per drive.

use std::path::{Path, PathBuf};

use super::damage::Damage;
use super::label::{path_of, refusal};
use super::membership::Standing;
use super::{DATA, DATASETS, DatasetVolume, VolumeDrive, copies};
use outcore_io::drive::folder;
use outcore_io::error::{Error, Kind, Result};

/// Folder of manifests that is still incomplete, and the name of a manifest that is being written.
const DATASETS_IN_PROGRESS: &str = "datasets.in-progress";
const STAGED: &str = "staged";
const SCRUB: &str = "scrub volume";

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
            Err(self.lost_folder(operation, index, &path))
        })
    }

    /// The error for a folder that a drive has lost.
    pub(super) fn lost_folder(&self, operation: &str, index: usize, path: &Path) -> Error {
        let cause = "a folder of the drive is lost, with all its contents";
        Error::corrupt(operation, cause)
            .drive(&self.drives[index].name)
            .path(path)
            .hint("`outcore volume scrub` makes the folder again, and restores what other drives can replace")
    }

    /// The drives with a label that have lost a folder, with its path.
    pub fn damaged_drives(&self) -> impl Iterator<Item = (&VolumeDrive, PathBuf)> {
        let lost = self.lost_folders();
        lost.map(|(index, path)| (&self.drives[index], path))
    }

    /// The folders that drives with a label have lost.
    fn lost_folders(&self) -> impl Iterator<Item = (usize, PathBuf)> + '_ {
        let inner = |index: usize| [DATA, DATASETS].map(|inner| (index, inner));
        let folders = self.present().flat_map(inner);
        let paths = folders.map(|(index, inner)| (index, self.folder(index).join(inner)));
        paths.filter(|(_, path)| !path.exists())
    }

    /// Makes the lost folders again, and fills a folder of manifests; returns what was lost.
    pub(super) fn repair_folders(&self) -> Result<Vec<Damage>> {
        let mut damages = self.repair_manifest_folders()?;
        for (index, path) in self.lost_folders() {
            // Makes only the folder itself: if its parent is missing, the drive is not mounted.
            let made = folder::make_dir(&path);
            made.map_err(|error| error.drive(&self.drives[index].name))?;
            damages.push(self.repaired("", index, &path));
        }
        Ok(damages)
    }

    /// Makes lost folders of manifests again. Each folder appears with all of its files, so a kill
    /// hides no loss.
    pub(super) fn repair_manifest_folders(&self) -> Result<Vec<Damage>> {
        let mut damages = Vec::new();
        for index in self.present() {
            if !self.folder(index).join(DATASETS).exists() {
                let made = self.restore_manifests(index, &mut damages);
                made.map_err(|error| error.drive(&self.drives[index].name))?;
            }
        }
        Ok(damages)
    }

    fn restore_manifests(&self, index: usize, damages: &mut Vec<Damage>) -> Result<()> {
        let (above, dir) = (self.folder(index), self.folder(index).join(DATASETS));
        let staged = above.join(DATASETS_IN_PROGRESS);
        // Another command that restores the folder waits for this lock, and then finds the folder.
        let _folder = folder::lock_in_turn(&above)?;
        // While the folder of the first drive is lost, no other command can take the lock on names.
        let is_first = self.present().next() == Some(index);
        let _names = (!is_first).then(|| self.lock_unchecked()).transpose()?;
        if dir.exists() {
            return Ok(());
        }
        if staged.exists() {
            folder::remove_dirs(&staged)?;
        }
        folder::make_dir(&staged)?;
        damages.push(self.repaired("", index, &dir));
        let mut others = self.present();
        let source = others.find(|other| self.folder(*other).join(DATASETS).exists());
        let names = source.map_or(Ok(Vec::new()), |_| self.names())?;
        for name in names {
            // A scrub reports manifests that cannot be read, and datasets that have lost their
            // data.
            let found = self.manifest(&name).ok();
            let Some(manifest) = found.filter(|found| self.has_enough_shares(found)) else {
                continue;
            };
            let path = self.manifest_path(&name, index);
            let copy = staged.join(path.file_name().unwrap_or_default());
            let sealed = manifest.seal(&self.place(index))?;
            folder::write_durably(&copy, &above.join(STAGED), &sealed)?;
            let mode = source.and_then(|other| folder::mode(&self.manifest_path(&name, other)));
            if let Some(mode) = mode {
                folder::set_mode(&copy, mode)?;
            }
            damages.push(self.repaired(&name, index, &path));
        }
        folder::sync(&staged)?;
        folder::rename(&staged, &dir)?;
        folder::sync(&above)
    }

    fn repaired(&self, dataset: &str, index: usize, path: &Path) -> Damage {
        Damage {
            is_repaired: true,
            ..Damage::of_file(dataset, &self.drives[index].name, path, 0)
        }
    }

    /// Rewrites labels from before the last change of the set of drives, or from before a drive was
    /// replaced: that change was interrupted, and its record is lost.
    fn repair_old_labels(&self) -> Result<Vec<(usize, PathBuf)>> {
        let old = self.present().filter(|index| self.has_old_label(*index));
        let old: Vec<usize> = old.collect();
        if old.is_empty() || self.missing().next().is_some() || self.is_being_changed()? {
            return Ok(Vec::new());
        }
        // While the folder with the lock is lost, no other command can lock it either.
        let _names = self.lock_unchecked().ok();
        self.check_not_overtaken()?;
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
            if error.kind() != Kind::Corrupt {
                return Err(refusal(SCRUB, &self.drives[index], error));
            }
            self.restore_label(index)?;
            repaired.push((index, path_of(&self.drives[index])));
            // The labels have changed; the caller opens the volume again.
            break;
        }
        Ok(repaired)
    }

    /// Writes a label anew. If the drive was replaced before, this directory may be the replaced
    /// one. All labels therefore count one more replacement, so that from then on only this
    /// directory counts as the drive.
    fn restore_label(&self, index: usize) -> Result<()> {
        let _names = self.lock_names()?;
        copies::check_agrees(self, index)?;
        if self.replacements[index] == 0 {
            return self.write_labels(&[index]);
        }
        let others = self.present().filter(|other| *other != index);
        let all: Vec<usize> = std::iter::once(index).chain(others).collect();
        self.with_replacement(index).write_labels(&all)
    }
}
