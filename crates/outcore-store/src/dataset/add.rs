//! Adds a drive to a volume.
//!
//! Contract: the new drive gets a folder with the copies of all manifests, and a label that does
//! not list the drive yet. Then one commit lists the new drive in the labels of all drives. The
//! datasets stay where they are, and new ones use the drive. After an interruption at any step, the
//! same call continues.
//!
//! Bounds: one manifest at a time.

use super::label::{LABEL, path_of, refuse_datasets};
use super::membership::Standing;
use super::{DATA, DATASETS, DatasetVolume, FOLDER, VolumeDrive, Watch};
use outcore_io::drive::folder;
use outcore_io::error::{Error, Result};

const ADD: &str = "add drive";
const STAGED: &str = "staged";

impl DatasetVolume {
    /// Fails if a drive cannot join. Changes nothing.
    ///
    /// # Errors
    /// Usage: its name or its directory belongs to a drive of this volume or of another one; not a
    /// directory; too many drives. A drive of the volume is missing.
    pub fn check_new_drive(&self, drive: &VolumeDrive) -> Result<()> {
        let refused = |cause: &str| Error::usage(ADD, cause).drive(&drive.name).path(&drive.dir);
        if let Some(index) = self
            .drives
            .iter()
            .position(|known| known.name == drive.name)
        {
            return match self.standings[index] {
                Standing::Lost => Err(refused("the drive is lost and is being removed")
                    .hint("finish with `outcore volume remove`, then add the directory")),
                _ if folder::is_same(&self.drives[index].dir, &drive.dir) => Ok(()),
                _ => Err(refused("the volume has a drive of that name")
                    .hint("give it another `name` in the drives file")),
            };
        }
        if !folder::is_dir(&drive.dir)? {
            return Err(refused(
                "not a directory, but a drive of a volume must be one",
            ));
        }
        if let Some(cause) = self.conflict(&drive.dir, None) {
            return Err(refused(&cause).hint("name a directory on a drive of its own"));
        }
        self.check_complete(ADD)?;
        self.with_drive(drive.clone()).check_layout()?;
        if path_of(drive).exists() && !self.is_joining(drive) {
            return Err(
                refused("it belongs to a volume, or belonged to one before").hint(format!(
                    "name another directory; or remove {FOLDER} there, if nothing in it is needed"
                )),
            );
        }
        match self.is_joining(drive) {
            true => Ok(()),
            false => refuse_datasets(ADD, drive),
        }
    }

    /// Adds a drive. If the drive is being removed, cancels the removal instead.
    ///
    /// # Errors
    /// The errors of [`DatasetVolume::check_new_drive`]; no room; I/O; a stop.
    pub fn add(&self, drive: &VolumeDrive, watch: Watch<'_>) -> Result<()> {
        self.check_new_drive(drive)?;
        if let Some(index) = self
            .drives
            .iter()
            .position(|known| known.name == drive.name)
        {
            return self.keep(index);
        }
        let named = |error: Error| match error.drive_name() {
            None => error.drive(&drive.name),
            Some(_) => error,
        };
        let grown = self.with_drive(drive.clone());
        let joined = grown.fill_new(self, watch).and_then(|()| {
            self.sweep()?;
            let _names = self.lock_names()?;
            self.check_no_writers(ADD)?;
            // Other processes may have changed datasets in the meantime.
            grown.fill_new(self, watch)?;
            grown.remove_old_copies()?;
            // The new label is written first, so a reader that finds any other changed label also
            // finds the new one.
            let new = self.drives.len();
            let labels = std::iter::once(new).chain(self.present());
            grown.write_labels(&labels.collect::<Vec<_>>())
        });
        joined.map_err(named)
    }

    /// Lets a drive that is being removed stay.
    fn keep(&self, index: usize) -> Result<()> {
        if self.standings[index] == Standing::Full {
            return Ok(());
        }
        self.check_complete(ADD)?;
        let kept = self.with_standing(index, Standing::Full);
        let _names = self.lock_names()?;
        kept.write_all_labels()
    }

    /// Makes the folder of the last drive, which `before` does not have, and copies all manifests
    /// of `before` into it.
    fn fill_new(&self, before: &Self, watch: Watch<'_>) -> Result<()> {
        let index = before.drives.len();
        let (drive, dir) = (&self.drives[index], self.folder(index));
        // Makes no directory above these: if one is missing, the drive is not mounted.
        for path in [dir.clone(), dir.join(DATA), dir.join(DATASETS)] {
            if !path.exists() {
                folder::make_dir(&path)?;
            }
        }
        if !before.is_joining(drive) {
            let label = before.seal_label(drive)?;
            folder::write_durably(&dir.join(LABEL), &dir.join(STAGED), &label)?;
        }
        let source = before.present().next().unwrap_or(0);
        for name in before.names()? {
            (watch.check)()?;
            let manifest = match before.manifest(&name) {
                Err(_) if !before.contains(&name) => continue,
                found => found?,
            };
            let manifest = manifest.aligned(self.drives.iter().map(|drive| &drive.name[..]));
            let copy = self.manifest_path(&name, index);
            let sealed = manifest.seal(&self.place(index))?;
            if folder::read(&copy)?.as_ref() != Some(&sealed) {
                folder::write_durably(&copy, &dir.join(STAGED), &sealed)?;
                if let Some(mode) = folder::mode(&before.manifest_path(&name, source)) {
                    folder::set_mode(&copy, mode)?;
                }
            }
        }
        folder::sync(&dir.join(DATASETS))?;
        folder::sync(&dir)?;
        folder::sync(&drive.dir)
    }

    /// Removes from the last drive the copies for datasets that do not exist any more.
    fn remove_old_copies(&self) -> Result<()> {
        let index = self.drives.len() - 1;
        let before = self.without_drive(index);
        for name in self.names_on(index)? {
            if !before.contains(&name) {
                folder::remove_file(&self.manifest_path(&name, index))?;
            }
        }
        folder::sync(&self.folder(index).join(DATASETS))
    }
}
