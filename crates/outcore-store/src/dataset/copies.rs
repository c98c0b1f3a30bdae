//! The manifests of a volume's datasets: one copy on every drive.
//!
//! Contract: each drive has, in the folder `datasets`, one file per dataset, with the same contents
//! on all drives. A reader takes the newest undamaged copy, so a flipped bit, a lost copy, or a
//! missing drive hides no dataset. One commit publishes or removes the data and all copies
//! together, so copies differ only if one of them was damaged or lost. A scrub rewrites such a copy
//! ([`DatasetVolume::repair_copies`]).
//!
//! Only one process at a time adds or removes names, under a lock on the first drive.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::manifest::Manifest;
use super::stage::Stage;
use super::{DATA, DATASETS, DatasetVolume, check_name, place_of};
use outcore_io::drive::folder::{self, FolderLock};
use outcore_io::drive::{PrivateDir, Rename, paths, private_dir};
use outcore_io::error::{Error, Kind, Result};

const READ: &str = "read dataset";
const REMOVE: &str = "remove dataset";
const LOCK: &str = "lock volume";
const RESTORE: &str = "restore label";
const SUFFIX: &str = ".json";
/// Name of a copy in a private directory before it is published, or after it is removed.
const STAGED: &str = "manifest";

/// A copy that differs from the newest one.
#[derive(Debug)]
pub(super) struct BadCopy {
    pub(super) drive_index: usize,
    pub(super) path: PathBuf,
    pub(super) len_bytes: u64,
    /// Whether it has been rewritten.
    pub(super) is_repaired: bool,
}

/// Checks the manifests on a drive without a usable label. Fails unless they show that it is this
/// drive of the volume, and as new as the other drives. Its manifests must have the same names as
/// those on the other drives, and all readable ones must have the same contents. A drive without
/// datasets passes if the volume has none.
pub(super) fn check_agrees(volume: &DatasetVolume, index: usize) -> Result<()> {
    let refused = |cause: &str| in_doubt(volume, index, RESTORE, cause);
    let mut names = volume.names_on(index)?;
    names.sort();
    if volume.names()? != names {
        return Err(refused(
            "its list of datasets differs from that of the other drives",
        ));
    }
    let mut readable = 0;
    for name in &names {
        match (volume.copy(name, index), volume.manifest(name)) {
            (Ok(own), Ok(newest)) if own == newest => readable += 1,
            (Err(_), _) if volume.replacements[index] == 0 => {}
            _ => {
                let cause =
                    format!("its manifest of @{name} differs from that of the other drives");
                return Err(refused(&cause));
            }
        }
    }
    let mut data = paths::entries(volume.folder(index).join(DATA)).into_iter();
    let mut is_empty = || data.all(|mut entries| entries.next().is_none());
    let is_known = match names.is_empty() {
        true => is_empty(),
        false => readable > 0,
    };
    match is_known {
        true => Ok(()),
        false => Err(refused("nothing in its folder identifies the drive")),
    }
}

/// The error for a drive without a usable label that differs from the others: either it or one of
/// them may be from before a replacement.
fn in_doubt(volume: &DatasetVolume, index: usize, operation: &str, cause: &str) -> Error {
    Error::corrupt(operation, format!("its label is lost, and {cause}"))
        .drive(&volume.drives[index].name)
        .path(volume.folder(index).join(DATASETS))
        .hint(
            "if another drive in the drives file was already replaced, unmount it; otherwise \
             rebuild this drive with `outcore volume replace`",
        )
}

fn is_missing(error: &Error) -> bool {
    error.raw_errno() == Some(Errno::NOENT.raw_os_error())
}

/// The newest readable copy.
fn newest(copies: &[(usize, Result<Manifest>)]) -> Option<&Manifest> {
    let readable = copies.iter().filter_map(|(_, copy)| copy.as_ref().ok());
    // The first of equal copies.
    readable.rev().max_by_key(|manifest| manifest.generation)
}

impl DatasetVolume {
    /// Path of a dataset's manifest on a drive.
    pub fn manifest_path(&self, name: &str, index: usize) -> PathBuf {
        let dir = self.folder(index).join(DATASETS);
        dir.join(format!("{name}{SUFFIX}"))
    }

    /// The `place` of metadata on a drive.
    pub(super) fn place(&self, index: usize) -> String {
        place_of(&self.id, &self.drives[index].name)
    }

    /// The copy on a drive.
    fn copy(&self, name: &str, index: usize) -> Result<Manifest> {
        let path = self.manifest_path(name, index);
        let drive = &self.drives[index].name;
        let found = Manifest::read(&path, name, &self.place(index));
        let found = found.map_err(|error| error.drive(drive))?;
        Ok(found.aligned(self.drives.iter().map(|drive| drive.name.as_str())))
    }

    /// The copies on all drives that are present.
    fn copies(&self, name: &str) -> Vec<(usize, Result<Manifest>)> {
        let copies = self.present().map(|index| (index, self.copy(name, index)));
        copies.collect()
    }

    /// All datasets, by name.
    ///
    /// # Errors
    /// A manifest cannot be read.
    pub fn list(&self) -> Result<Vec<Manifest>> {
        let names = self.names()?;
        let found = names.iter().map(|name| (name, self.manifest(name)));
        // A dataset that was removed in the meantime is skipped.
        let found = found.filter(|(name, found)| found.is_ok() || self.contains(name));
        found.map(|(_, found)| found).collect()
    }

    /// The names of all datasets, in order, readable or not. Skips a drive that has lost its folder
    /// of manifests, if another drive has that folder.
    ///
    /// # Errors
    /// A drive cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut lost = None;
        let mut drives = 0;
        for index in self.present() {
            match self.names_on(index) {
                Err(error) if is_missing(&error) => lost = Some(error),
                found => {
                    names.extend(found?);
                    drives += 1;
                }
            }
        }
        if let Some(error) = lost.filter(|_| drives == 0) {
            return Err(error);
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(super) fn names_on(&self, index: usize) -> Result<Vec<String>> {
        let dir = self.folder(index).join(DATASETS);
        let failed = |error: io::Error| {
            Error::io("list datasets", &error)
                .drive(&self.drives[index].name)
                .path(&dir)
        };
        let mut names = Vec::new();
        for entry in paths::entries(&dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy();
            let name = name.strip_suffix(SUFFIX).map(str::to_string);
            names.extend(name.filter(|name| check_name(name).is_ok()));
        }
        Ok(names)
    }

    /// The manifest of a dataset: its newest undamaged copy.
    ///
    /// # Errors
    /// Usage if there is no dataset of that name; corrupt if all copies are damaged.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        check_name(name)?;
        let copies = self.copies(name);
        if let Some(manifest) = newest(&copies) {
            return Ok(manifest.clone());
        }
        let mut errors = copies.into_iter().filter_map(|(_, copy)| copy.err());
        Err(errors.find(|error| !is_missing(error)).unwrap_or_else(|| {
            Error::usage(READ, format!("dataset @{name} not found"))
                .hint("`outcore volume ls --volume FILE` lists the datasets")
        }))
    }

    /// Fails if a drive whose label is lost does not have the dataset of `manifest`, or has another
    /// one of that name. The remaining labels may be older than that drive.
    ///
    /// # Errors
    /// Corrupt.
    pub(super) fn check_unlabelled(&self, manifest: &Manifest) -> Result<()> {
        let name = &manifest.name;
        for index in (0..self.drives.len()).filter(|index| self.has_lost_label(*index)) {
            if self.names_on(index).is_err() {
                continue;
            }
            let is_doubtful = match self.copy(name, index) {
                Ok(own) => own != *manifest,
                Err(error) => is_missing(&error),
            };
            if is_doubtful {
                let cause =
                    format!("its manifest of @{name} differs from that of the other drives");
                return Err(in_doubt(self, index, READ, &cause));
            }
        }
        Ok(())
    }

    /// Whether there is a dataset of that name.
    pub fn contains(&self, name: &str) -> bool {
        let mut present = self.present();
        present.any(|index| self.manifest_path(name, index).exists())
    }

    /// The generation of the dataset with this name; 0 if there is none.
    pub(super) fn generation_of(&self, name: &str) -> u64 {
        newest(&self.copies(name)).map_or(0, |manifest| manifest.generation)
    }

    /// The name of the data files of the dataset `name`, even if its manifest is damaged. `None` if
    /// it is unknown, or another dataset claims the same files.
    pub(super) fn id_of(&self, name: &str) -> Option<String> {
        let copies = self.copies(name);
        if let Some(manifest) = newest(&copies) {
            return Some(manifest.id.clone());
        }
        let (own, others) = (self.ids_said_of(name), self.names().ok()?);
        let [id] = &own[..] else { return None };
        let mut others = others.iter().filter(|other| *other != name);
        let is_free = |other: &String| {
            let theirs = self.ids_said_of(other);
            !theirs.is_empty() && !theirs.contains(id)
        };
        others.all(is_free).then(|| id.clone())
    }

    /// The names of the dataset's data files according to all copies of a manifest, including
    /// damaged ones.
    pub(super) fn ids_said_of(&self, name: &str) -> Vec<String> {
        let said = self.present().filter_map(|index| {
            let text = folder::read(&self.manifest_path(name, index)).ok()??;
            Manifest::id_in(&text)
        });
        let mut ids: Vec<String> = said.collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Waits for the lock on names. While this process holds the lock, no other process adds or
    /// removes names, or replaces a drive.
    ///
    /// # Errors
    /// A drive was replaced after the volume was opened; I/O.
    pub(super) fn lock_names(&self) -> Result<FolderLock> {
        let locked = self.lock_unchecked();
        self.check_not_replaced()?;
        locked
    }

    /// Like `lock_names`, but without a check of the labels.
    pub(super) fn lock_unchecked(&self) -> Result<FolderLock> {
        // While the first drive is missing, only a replacement of that drive writes.
        let index = self.present().next().unwrap_or(0);
        let dir = self.folder(index).join(DATASETS);
        folder::lock_in_turn(&dir).map_err(|error| match is_missing(&error) {
            true => self.lost_folder(LOCK, index, &dir),
            false => error.drive(&self.drives[index].name),
        })
    }

    /// Stages the copies of a manifest in private directories, one per drive; returns the renames
    /// that publish them.
    pub(super) fn stage_copies(&self, manifest: &Manifest, stage: &Stage) -> Result<Vec<Rename>> {
        let staged = stage.iter().map(|(index, dir)| {
            dir.write_file(STAGED, &manifest.seal(&self.place(index))?)?;
            Ok(Rename {
                from: dir.path().join(STAGED),
                to: self.manifest_path(&manifest.name, index),
            })
        });
        staged.collect()
    }

    /// Removes a dataset, damaged or not, by one commit: its manifests, then its data. Returns the
    /// size of its files. If the manifests are too damaged to identify the files, these stay as
    /// orphans ([`DatasetVolume::orphans`]).
    ///
    /// # Errors
    /// There is no dataset of that name; a drive is missing; I/O.
    pub fn remove(&self, name: &str) -> Result<u64> {
        check_name(name)?;
        self.check_complete(REMOVE)?;
        let stage = self.stage()?;
        let _lock = self.lock_names()?;
        if !self.contains(name) {
            // Reports the missing dataset.
            return self.manifest(name).map(|_| 0);
        }
        let id = self.id_of(name);
        let away = |index: usize, path: PathBuf, name: &str| {
            let to = stage.path(index, name);
            path.exists().then_some(Rename { from: path, to })
        };
        let mut renames = Vec::with_capacity(2 * self.drives.len());
        for index in self.present() {
            renames.extend(away(index, self.manifest_path(name, index), STAGED));
        }
        let mut freed_bytes = 0;
        for (index, id) in self
            .present()
            .filter_map(|index| Some((index, id.as_ref()?)))
        {
            let path = self.share_path(id, index);
            freed_bytes += paths::len_or_zero(&path);
            renames.extend(away(index, path, "share"));
        }
        PrivateDir::commit(stage.dirs(), &renames, true)?;
        // From here on the dataset counts as removed: a sweep that finds the record finishes the
        // renames.
        let failed = |rename: &Rename| self.device.rename(&rename.from, &rename.to, true).err();
        let failures: Vec<Error> = renames.iter().filter_map(failed).collect();
        if let Some(error) = failures.into_iter().next() {
            stage.leave();
            return Err(error.hint("the next command on this volume removes the rest of it"));
        }
        Ok(freed_bytes)
    }

    /// Rewrites the copies of a manifest that are damaged, lost or older than the newest one;
    /// returns them. All drives must be present. Leaves a dataset unchanged if no copy is readable,
    /// if its removal may be in progress, or if its data are gone.
    pub(super) fn repair_copies(&self, name: &str) -> Result<Vec<BadCopy>> {
        let is_bad =
            |newest: &Manifest, copy: &Result<Manifest>| copy.as_ref().ok() != Some(newest);
        let bad = |copies: &[(usize, Result<Manifest>)]| {
            let newest = newest(copies);
            newest.is_some_and(|newest| copies.iter().any(|(_, copy)| is_bad(newest, copy)))
        };
        if !bad(&self.copies(name)) {
            return Ok(Vec::new());
        }
        let _lock = self.lock_names()?;
        // It may have been replaced or removed in the meantime.
        let copies = self.copies(name);
        let Some(newest) = newest(&copies) else {
            return Ok(Vec::new());
        };
        // The first `put` of the dataset decided who may read the copies.
        let readable = copies.iter().find(|(_, copy)| !is_bad(newest, copy));
        let mode = readable.and_then(|(index, _)| folder::mode(&self.manifest_path(name, *index)));
        let is_whole = self.has_enough_shares(newest) && !self.is_being_changed()?;
        let mut found = Vec::new();
        for (index, copy) in copies.iter().filter(|(_, copy)| is_bad(newest, copy)) {
            if copy
                .as_ref()
                .is_err_and(|error| error.kind() == Kind::Usage)
            {
                // For example, a copy of a newer version, which must stay as it is.
                continue;
            }
            let path = self.manifest_path(name, *index);
            let len_bytes = paths::len_or_zero(&path);
            if is_whole {
                self.write_copy(newest, *index, &path)?;
                if let Some(mode) = mode {
                    // Not an error: this user may lack the right to change the mode.
                    let _ = folder::set_mode(&path, mode);
                }
            }
            found.push(BadCopy {
                drive_index: *index,
                path,
                len_bytes,
                is_repaired: is_whole,
            });
        }
        Ok(found)
    }

    /// Whether the data are there, or can be computed.
    pub(super) fn has_enough_shares(&self, manifest: &Manifest) -> bool {
        let shares = 0..manifest.shares.len();
        let used = shares.filter(|index| manifest.shares[*index].is_used());
        let is_lost = |index: &usize| {
            self.absent[*index].is_some() || !self.share_path(&manifest.id, *index).exists()
        };
        used.filter(is_lost).count() <= usize::from(!manifest.redundancy.is_none())
    }

    /// Whether a drive has a private directory, whose owner may have committed renames that are not
    /// done yet.
    pub(super) fn is_being_changed(&self) -> Result<bool> {
        for index in self.present() {
            let found = private_dir::has_any(&self.folder(index));
            if found.map_err(|error| error.drive(&self.drives[index].name))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write_copy(&self, manifest: &Manifest, index: usize, path: &Path) -> Result<()> {
        let named = |error: Error| error.drive(&self.drives[index].name);
        let dir = self.device.make_private_dir(&self.folder(index));
        let dir = dir.map_err(named)?;
        dir.write_file(STAGED, &manifest.seal(&self.place(index))?)?;
        let renamed = self.device.rename(&dir.path().join(STAGED), path, true);
        renamed.map_err(named)
    }
}
