//! Removes a drive from a volume.
//!
//! Contract: first, the drive stops taking new data. Each dataset that uses the drive is written
//! anew without it ([`super::rebalance`]). The bytes come from the drive itself or, if it is
//! missing, from the other drives. When no dataset uses the drive any more, one commit removes it
//! from the labels of the other drives, and removes its own label. Then its folder is removed. The
//! same call continues an interrupted removal; adding the drive again undoes it. A missing drive
//! that is being removed does not prevent writes. If it comes back, outcore does not read from it.
//!
//! If a dataset without redundancy needs a missing drive, the removal fails. If the caller accepts
//! the loss, such datasets are removed instead.
//!
//! Bounds: those of a copy.

use std::ffi::OsString;
use std::path::PathBuf;

use super::damage::Damage;
use super::label::{self, path_of};
use super::manifest::Manifest;
use super::membership::Standing;
use super::rebalance::Moves;
use super::{DATA, DATASETS, DatasetVolume, FOLDER, PassResources, VolumeDrive, Watch, place_of};
use outcore_io::drive::folder;
use outcore_io::error::{Error, Result};
use outcore_io::memory::Budget;

const REMOVE: &str = "remove drive";

/// The result of removing a drive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// The datasets that were written anew, without those of earlier runs.
    pub moved: Moves,
    /// The datasets that were given up, on this drive.
    pub damages: Vec<Damage>,
    /// The folder of the drive, if it has files that belong to no dataset.
    pub left: Option<PathBuf>,
}

impl DatasetVolume {
    /// Bytes that the removal of a drive writes anew.
    pub fn bytes_beside(&self, drive: &str) -> u64 {
        let Ok(index) = self.index_of(REMOVE, drive) else {
            return 0;
        };
        let manifests = self.manifests_on(index).unwrap_or_default();
        manifests.iter().map(Manifest::payload_bytes).sum()
    }

    /// Removes a drive; with `gives_up`, also datasets that cannot be read without it.
    ///
    /// # Errors
    /// Usage: no drive of that name; too few drives would be left. Another drive is missing. A
    /// dataset that cannot be read without the drive, unless it is given up. No room, damage, I/O,
    /// a stop.
    pub fn remove_drive(
        &self,
        drive: &str,
        gives_up: bool,
        budget: &Budget,
        watch: Watch<'_>,
    ) -> Result<Removed> {
        let index = self.index_of(REMOVE, drive)?;
        if let Some((other, error)) = self.missing().find(|(other, _)| other.name != drive) {
            return Err(label::refusal(REMOVE, other, error));
        }
        let volume = self.settled(index)?;
        match volume.index_of(REMOVE, drive) {
            Ok(index) => volume.remove_settled(index, gives_up, PassResources { budget, watch }),
            // A killed command has already removed the drive, except for its folder.
            Err(_) => Ok(Removed {
                left: volume.clear_folder(&self.drives[index])?,
                ..Removed::default()
            }),
        }
    }

    /// Like [`DatasetVolume::remove_drive`], after the commits of killed commands are finished.
    fn remove_settled(
        &self,
        index: usize,
        gives_up: bool,
        resources: PassResources<'_>,
    ) -> Result<Removed> {
        let drive = &self.drives[index].name;
        let leaving = self.with_standing(index, self.standing_to_leave(index));
        leaving.check_layout().map_err(|error| {
            let cause = format!("too few drives would be left: {}", error.cause());
            Error::usage(REMOVE, cause)
                .drive(drive)
                .hint("add a drive first, or copy the datasets into another volume")
        })?;
        let users = self.manifests_on(index)?;
        let lost = users.iter().find(|found| !leaving.is_readable(found));
        if let Some(lost) = lost.filter(|_| !gives_up) {
            return Err(self.needed(index, lost));
        }
        let readable = users.into_iter().filter(|found| leaving.is_readable(found));
        let mut readable: Vec<Manifest> = readable.collect();
        readable.sort_by_key(Manifest::payload_bytes);
        leaving.check_room(REMOVE, &readable)?;
        self.begin_removal(index, &leaving)?;
        let mut removed = Removed::default();
        loop {
            leaving.empty(index, resources, &mut removed)?;
            leaving.sweep()?;
            let _names = leaving.lock_names()?;
            // Jobs that began before may have published more.
            if leaving.manifests_on(index)?.is_empty() {
                leaving.check_no_writers(REMOVE)?;
                let rest = leaving.without_drive(index);
                let present = leaving.absent[index].is_none();
                let left = present.then_some(&leaving.drives[index]);
                rest.write_labels_without(&rest.present().collect::<Vec<_>>(), left)?;
                break;
            }
        }
        removed.left = self.clear_folder(&self.drives[index])?;
        Ok(removed)
    }

    /// Removes the volume's files from a drive that has left the volume or has not joined it yet.
    ///
    /// # Errors
    /// Usage: its files may not belong to this volume. I/O.
    pub fn forget_drive(&self, drive: &VolumeDrive) -> Result<Option<PathBuf>> {
        let is_known = path_of(drive).exists();
        if is_known && !self.is_joining(drive) {
            let cause = "it is not a drive of the volume, and has a label";
            return Err(Error::usage(REMOVE, cause)
                .drive(&drive.name)
                .path(path_of(drive))
                .hint(format!("remove {FOLDER} there, if nothing in it is needed")));
        }
        let copies = drive.dir.join(FOLDER).join(DATASETS);
        let names = if copies.exists() {
            folder::names(&copies)?
        } else {
            Vec::new()
        };
        let place = place_of(&self.id, &drive.name);
        let is_own = |file: &OsString| {
            let path = copies.join(file);
            let name = path
                .file_stem()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            Manifest::read(&path, name, &place).is_ok()
        };
        if let Some(file) = names.iter().find(|file| !is_own(file)) {
            let cause = "it holds manifests that do not belong to this drive of the volume";
            return Err(Error::usage(REMOVE, cause)
                .drive(&drive.name)
                .path(copies.join(file))
                .hint(format!("remove {FOLDER} there, if nothing in it is needed")));
        }
        self.clear_folder(drive)
    }

    fn standing_to_leave(&self, index: usize) -> Standing {
        match (&self.absent[index], self.standings[index]) {
            (Some(_), _) | (None, Standing::Lost) => Standing::Lost,
            (None, Standing::Full | Standing::Leaving) => Standing::Leaving,
        }
    }

    /// The datasets whose layout uses a drive.
    fn manifests_on(&self, index: usize) -> Result<Vec<Manifest>> {
        let is_used =
            |found: &Manifest| found.shares.get(index).is_some_and(|share| share.is_used());
        let mut manifests = self.list()?;
        manifests.retain(is_used);
        Ok(manifests)
    }

    fn needed(&self, index: usize, lost: &Manifest) -> Error {
        let drive = &self.drives[index];
        let cause = format!(
            "@{} cannot be read without drive {}, which is missing",
            lost.name, drive.name
        );
        Error::corrupt(REMOVE, cause)
            .drive(&drive.name)
            .path(&drive.dir)
            .hint("mount the drive; `outcore volume remove` can also give up the datasets that need it")
    }

    /// Records in all labels that a drive is leaving, unless they already do.
    fn begin_removal(&self, index: usize, leaving: &Self) -> Result<()> {
        let _names = self.lock_names()?;
        match self.standings[index] == leaving.standings[index] {
            true => Ok(()),
            false => leaving.write_all_labels(),
        }
    }

    /// Writes anew, or gives up, all datasets that use a drive.
    fn empty(
        &self,
        index: usize,
        resources: PassResources<'_>,
        removed: &mut Removed,
    ) -> Result<()> {
        let mut users = self.manifests_on(index)?;
        users.sort_by_key(Manifest::payload_bytes);
        for manifest in users {
            if self.is_readable(&manifest) {
                let moved = self.move_dataset(&manifest, resources)?;
                moved.into_iter().for_each(|bytes| removed.moved.add(bytes));
                continue;
            }
            self.remove(&manifest.name)?;
            let share = &manifest.shares[index];
            let path = self.share_path(&manifest.id, index);
            let damage = Damage::of_file(&manifest.name, &share.drive, &path, share.len_bytes);
            removed.damages.push(damage);
        }
        Ok(())
    }

    /// Removes the folder of a drive that is present and has lost its label. If the folder has
    /// files of data, they stay, and the folder is returned.
    fn clear_folder(&self, drive: &VolumeDrive) -> Result<Option<PathBuf>> {
        let dir = drive.dir.join(FOLDER);
        let is_other = path_of(drive).exists() && !self.is_joining(drive);
        if !dir.exists() || is_other {
            return Ok(None);
        }
        let data = dir.join(DATA);
        let is_empty = !data.exists() || folder::names(&data)?.is_empty();
        if is_empty {
            folder::remove_dirs(&dir)?;
            return Ok(None);
        }
        let copies = dir.join(DATASETS);
        if copies.exists() {
            folder::remove_dirs(&copies)?;
        }
        Ok(Some(dir))
    }
}
