//! Labels: which drive a directory belongs to, and which of a volume's drives are present.
//!
//! Contract: every drive of a volume has the label `volume.json` in its folder:
//! [metadata](outcore_io::metadata) that names the volume, the drive, and all drives in order. A
//! volume is opened by the labels of the drives that are present. A drive that is missing, or whose
//! label cannot be read, is *absent*: data on other drives can be read, but nothing is written,
//! removed or swept until it is back. These are errors: a drive of another volume, a drive in
//! another's place, and a drive that the drives file does not name. Labels appear together or not
//! at all.
//!
//! All labels count the replacements of each drive. A drive whose own count is lower than that in
//! another label is what it was before it was replaced, and counts as absent.
//!
//! A scrub rewrites a label that is damaged, or missing from an otherwise complete folder, if the
//! copies of manifests in that folder identify the drive ([`DatasetVolume::repair_labels`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{
    DATA, DATASETS, DatasetVolume, FOLDER, VolumeDrive, copies, place_of,
    refuse_what_is_no_directory,
};
use crate::mapping::{Redundancy, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, StripeMap, StripeMember};
use outcore_io::drive::{Device, PrivateDir, folder};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::metadata::{Form, Owner};

pub(super) const LABEL: &str = "volume.json";
/// Room per drive for which a layout is tried before there are data.
const EXAMPLE_BYTES: u64 = 1 << 40;
const OPEN: &str = "open volume";
const CREATE: &str = "create volume";
const CHECK: &str = "change volume";
/// Version of a label without redundancy of which no drive has been replaced, and of others.
const VERSION: u32 = 2;
const VERSION_OF_NEW_FIELDS: u32 = 3;
const FORM: Form = Form {
    kind: "volume label",
    version: VERSION_OF_NEW_FIELDS,
    version_min: VERSION,
    operation: OPEN,
    len_bytes_max: 4 << 20,
    remedy: "`outcore volume scrub` restores the label if it can identify the drive; `outcore volume \
             replace` rebuilds a drive",
    upgrade: "get its datasets with the outcore that made it, and put them into a new volume",
};

/// The drive that a directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Label {
    volume: String,
    drive: String,
    drives: Vec<String>,
    stripe_bytes: u64,
    #[serde(default, skip_serializing_if = "Redundancy::is_none")]
    redundancy: Redundancy,
    /// How often each drive has been replaced, in the order of `drives`; empty if none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replacements: Vec<u64>,
}

/// The properties of a new volume.
#[derive(Debug, Clone, Copy)]
pub struct NewVolume {
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// How the data of a lost drive can be computed.
    pub redundancy: Redundancy,
    /// Determines its identity.
    pub seed: u64,
}

impl Label {
    fn place(&self) -> String {
        place_of(&self.volume, &self.drive)
    }

    /// How often the drive at `index` had been replaced when the label was written.
    fn replacements_of(&self, index: usize) -> u64 {
        self.replacements.get(index).copied().unwrap_or(0)
    }
}

fn path_of(drive: &VolumeDrive) -> PathBuf {
    drive.dir.join(FOLDER).join(LABEL)
}

/// Removes the leftovers of killed runs in the folders of `drives`, and finishes their commits.
/// Does nothing while a drive is missing, because that drive's part would count as done.
pub(super) fn sweep(device: &Arc<dyn Device>, drives: &[VolumeDrive]) -> Result<()> {
    let folders: Vec<PathBuf> = drives.iter().map(|drive| drive.dir.join(FOLDER)).collect();
    if folders.iter().any(|folder| !folder.is_dir()) {
        return Ok(());
    }
    for (drive, folder) in drives.iter().zip(&folders) {
        device
            .sweep_private_dirs(folder)
            .map_err(|error| error.drive(&drive.name))?;
    }
    Ok(())
}

impl DatasetVolume {
    /// Makes an empty volume over `drives`, without redundancy, with stripes of `stripe_bytes`;
    /// `seed` determines its identity.
    ///
    /// # Errors
    /// The errors of [`DatasetVolume::create_with`].
    pub fn create(
        device: Arc<dyn Device>,
        drives: Vec<VolumeDrive>,
        stripe_bytes: u64,
        seed: u64,
    ) -> Result<Self> {
        let new = NewVolume {
            stripe_bytes,
            redundancy: Redundancy::None,
            seed,
        };
        Self::create_with(device, drives, new)
    }

    /// Makes an empty volume over `drives`.
    ///
    /// # Errors
    /// Usage: no drives, an invalid stripe, redundancy on a single drive, a directory that already
    /// belongs to a volume. I/O: a directory that is missing, among others.
    pub fn create_with(
        device: Arc<dyn Device>,
        drives: Vec<VolumeDrive>,
        new: NewVolume,
    ) -> Result<Self> {
        let NewVolume {
            stripe_bytes,
            redundancy,
            seed,
        } = new;
        let is_size = stripe_bytes.is_power_of_two()
            && (STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&stripe_bytes);
        if !is_size {
            return Err(
                Error::usage(CREATE, format!("stripes of {stripe_bytes} bytes"))
                    .hint("stripes are powers of two from 4KiB to 4MiB"),
            );
        }
        // Nothing is stored yet, so the map rejects an invalid layout here.
        let member = |drive: &VolumeDrive| StripeMember {
            capacity_bytes: EXAMPLE_BYTES,
            weight: drive.weight,
        };
        StripeMap::with_redundancy(
            &drives.iter().map(member).collect::<Vec<_>>(),
            stripe_bytes,
            0,
            redundancy,
        )?;
        sweep(&device, &drives)?;
        for drive in &drives {
            // Made here, it would be on the drive above the mount point.
            if let Some(error) = refuse_what_is_no_directory(CREATE, drive)? {
                return Err(Error::io(CREATE, &error)
                    .drive(&drive.name)
                    .path(&drive.dir)
                    .hint("mount the drive there, or make the directory first"));
            }
            if path_of(drive).exists() {
                return Err(Error::usage(CREATE, "it belongs to a volume already")
                    .drive(&drive.name)
                    .path(path_of(drive))
                    .hint("name another directory; `outcore volume status` shows that volume"));
            }
            refuse_datasets(drive)?;
        }
        let volume = DatasetVolume {
            id: format!(
                "{:016x}",
                outcore_io::checksum::bytes_checksum(&seed.to_le_bytes())
            ),
            absent: vec![None; drives.len()].into(),
            replacements: vec![0; drives.len()].into(),
            device,
            stripe_bytes,
            redundancy,
            drives,
        };
        for (index, drive) in volume.drives.iter().enumerate() {
            let folder = volume.folder(index);
            for inner in [DATA, DATASETS] {
                std::fs::create_dir_all(folder.join(inner))
                    .map_err(|error| Error::io(CREATE, &error).drive(&drive.name).path(&folder))?;
            }
        }
        volume.write_labels(&(0..volume.drives.len()).collect::<Vec<_>>())?;
        Ok(volume)
    }

    /// Opens the volume on `drives`, in their order. Missing drives are noted
    /// ([`DatasetVolume::absent`]).
    ///
    /// # Errors
    /// No drive of it is present; a drive belongs to another volume, or is another drive of it (the
    /// error names it); the number of drives differs.
    pub fn open(device: Arc<dyn Device>, drives: Vec<VolumeDrive>) -> Result<Self> {
        // A single drive without a label counts as missing. If no drive has a label, none belongs
        // to a volume.
        let is_new = |drive: &VolumeDrive| drive.dir.is_dir() && !drive.dir.join(FOLDER).exists();
        if !drives.is_empty() && drives.iter().all(is_new) {
            return Err(no_volume(&drives[0]));
        }
        // Finishes a commit that a kill interrupted; a user without write access sees the volume as
        // it is.
        let _ = sweep(&device, &drives);
        let mut labels: Vec<Result<Label>> = drives.iter().map(read_label).collect();
        let is_absence = |error: &Error| matches!(error.kind(), Kind::Io | Kind::Corrupt);
        for error in labels.iter().filter_map(|label| label.as_ref().err()) {
            if !is_absence(error) {
                return Err(error.clone());
            }
        }
        let Some(known) = labels.iter().flatten().next().cloned() else {
            return Err(match labels.into_iter().next() {
                Some(Ok(_)) | None => {
                    Error::usage(OPEN, "no drives are given").hint("use --volume drives.toml")
                }
                Some(Err(error)) if error.kind() == Kind::Io => {
                    error.hint("all drives of the volume are missing: mount them")
                }
                Some(Err(error)) => error
                    .hint("no label of the volume can be read: restore one of them from a backup"),
            });
        };
        let found = drives.iter().zip(&labels);
        for (drive, label) in found.filter_map(|(drive, label)| Some((drive, label.as_ref().ok()?)))
        {
            check_label(drive, label, &known)?;
        }
        let named: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
        if known.drives != named {
            let missing = known
                .drives
                .iter()
                .find(|name| !named.contains(&name.as_str()));
            let cause = match missing {
                Some(name) => format!("drive {name} is missing"),
                None => "its drives are listed in another order, or twice".to_string(),
            };
            return Err(Error::corrupt(OPEN, cause).hint(format!(
                "name all drives of the volume, in this order: {}",
                known.drives.join(", ")
            )));
        }
        let replacements = count_replacements(&mut labels, &drives);
        Ok(DatasetVolume {
            replacements,
            absent: labels.into_iter().map(Result::err).collect(),
            device,
            drives,
            id: known.volume,
            stripe_bytes: known.stripe_bytes,
            redundancy: known.redundancy,
        })
    }

    /// Writes the labels of the given drives. If one write fails, no label changes.
    pub(super) fn write_labels(&self, indexes: &[usize]) -> Result<()> {
        let mut dirs = Vec::with_capacity(indexes.len());
        let mut renames = Vec::with_capacity(indexes.len());
        for &index in indexes {
            let staged = self.device.make_private_dir(&self.folder(index))?;
            staged.write_file(LABEL, &self.seal_label(index)?)?;
            renames.push((staged.path().join(LABEL), path_of(&self.drives[index])));
            dirs.push(staged);
        }
        PrivateDir::commit(&dirs, &renames, true)?;
        for (at, (from, to)) in renames.iter().enumerate() {
            if let Err(error) = self.device.rename(from, to, true) {
                dirs.into_iter().for_each(PrivateDir::leave);
                let drive = &self.drives[indexes[at]].name;
                return Err(error
                    .drive(drive)
                    .hint("the next command on this volume writes the remaining labels"));
            }
        }
        Ok(())
    }

    /// The bytes of a drive's label.
    pub(super) fn seal_label(&self, index: usize) -> Result<Vec<u8>> {
        let label = Label {
            volume: self.id.clone(),
            drive: self.drives[index].name.clone(),
            drives: self.drives.iter().map(|drive| drive.name.clone()).collect(),
            stripe_bytes: self.stripe_bytes,
            redundancy: self.redundancy,
            replacements: match self.replacements.iter().all(|count| *count == 0) {
                true => Vec::new(),
                false => self.replacements.to_vec(),
            },
        };
        let owner = Owner {
            name: LABEL,
            place: Some(&label.place()),
        };
        let is_old_form = label.redundancy.is_none() && label.replacements.is_empty();
        let version = if is_old_form {
            VERSION
        } else {
            VERSION_OF_NEW_FIELDS
        };
        Form { version, ..FORM }.seal(owner, &label)
    }

    /// How often the drive had been replaced when its label at `path` was written; `None` if there
    /// is no label of that drive.
    pub(super) fn replacements_at(&self, path: &Path, index: usize) -> Option<u64> {
        let drive = &self.drives[index];
        let label = read_label_at(drive, path).ok()?;
        let is_own = label.volume == self.id && label.drive == drive.name;
        is_own.then(|| label.replacements_of(index))
    }

    /// The volume with one more replacement of a drive.
    pub(super) fn with_replacement(&self, index: usize) -> Self {
        let counts = self.replacements.iter().enumerate();
        DatasetVolume {
            replacements: counts
                .map(|(at, count)| count + u64::from(at == index))
                .collect(),
            ..self.clone()
        }
    }

    /// Fails if a drive was replaced after the volume was opened. That cannot change while the
    /// caller holds the lock on names.
    pub(super) fn check_not_replaced(&self) -> Result<()> {
        for index in self.present() {
            let drive = &self.drives[index];
            let label = match read_label(drive) {
                Ok(label) => label,
                Err(error) if error.raw_errno() == Some(Errno::NOENT.raw_os_error()) => {
                    return Err(replaced_meanwhile(drive));
                }
                Err(error) => return Err(refusal(CHECK, drive, &error)),
            };
            let mut counts = self.replacements.iter().enumerate();
            let is_other = |(at, count): &(usize, &u64)| label.replacements_of(*at) != **count;
            if let Some((at, _)) = counts.find(is_other) {
                return Err(replaced_meanwhile(&self.drives[at]));
            }
        }
        Ok(())
    }

    /// The absent drives with the reasons; without them the volume can be read but not written.
    pub fn absent(&self) -> impl Iterator<Item = (&VolumeDrive, &Error)> {
        let drives = self.drives.iter().zip(self.absent.iter());
        drives.filter_map(|(drive, error)| Some((drive, error.as_ref()?)))
    }

    /// The drives that are present.
    pub fn present_drives(&self) -> impl Iterator<Item = &VolumeDrive> {
        self.present().map(|index| &self.drives[index])
    }

    /// The numbers of the drives that are present.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.drives.len()).filter(|index| self.absent[*index].is_none())
    }

    /// Fails while a drive is absent or has lost one of its folders, for callers that need all of
    /// them.
    ///
    /// # Errors
    /// The error of the first such drive, with its name.
    pub fn check_complete(&self, operation: &str) -> Result<()> {
        if let Some((drive, error)) = self.absent().next() {
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
            let made = folder::make_dirs(path);
            made.map_err(|error| error.drive(&self.drives[*index].name))?;
        }
        Ok(lost)
    }

    /// Rewrites the damaged or missing labels of drives whose manifests identify them; returns the
    /// files. Call it only if no drive is missing.
    pub(super) fn repair_labels(&self) -> Result<Vec<(usize, PathBuf)>> {
        let mut repaired = Vec::new();
        for (index, absence) in self.absent.iter().enumerate() {
            let Some(error) = absence else { continue };
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

/// Rejects a directory that holds datasets of a volume whose label is lost.
fn refuse_datasets(drive: &VolumeDrive) -> Result<()> {
    for folder in [DATA, DATASETS] {
        let path = drive.dir.join(FOLDER).join(folder);
        let is_empty = match std::fs::read_dir(&path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(Error::io(CREATE, &error).drive(&drive.name).path(&path)),
        };
        if !is_empty {
            let cause = "it holds datasets of a volume, whose label is missing";
            return Err(Error::usage(CREATE, cause)
                .drive(&drive.name)
                .path(path)
                .hint(
                    "`outcore volume scrub` with that volume's drives file restores the label, if \
                     another drive has one; otherwise restore it from a backup, or name another \
                     directory",
                ));
        }
    }
    Ok(())
}

/// How often each drive has been replaced, according to all labels. Labels of what a drive was
/// before become the reason why the drive is absent.
fn count_replacements(labels: &mut [Result<Label>], drives: &[VolumeDrive]) -> Arc<[u64]> {
    let count = |index: usize| {
        let told = labels.iter().flatten();
        told.map(|label| label.replacements_of(index))
            .max()
            .unwrap_or(0)
    };
    let counts: Arc<[u64]> = (0..drives.len()).map(count).collect();
    for (index, drive) in drives.iter().enumerate() {
        if labels[index]
            .as_ref()
            .is_ok_and(|label| label.replacements_of(index) < counts[index])
        {
            let cause = "it was replaced, and this is what it was before";
            labels[index] = Err(Error::new(Kind::Io, OPEN, cause)
                .drive(&drive.name)
                .path(path_of(drive)));
        }
    }
    counts
}

/// The error of a command during which a drive was replaced.
fn replaced_meanwhile(drive: &VolumeDrive) -> Error {
    Error::new(Kind::Io, CHECK, "the drive was replaced in the meantime")
        .drive(&drive.name)
        .path(path_of(drive))
        .hint("run the command again")
}

/// The error for drives that are not a volume.
fn no_volume(first: &VolumeDrive) -> Error {
    Error::usage(OPEN, "there is no volume on these drives yet")
        .path(&first.dir)
        .hint(
            "make one with `outcore volume create`; if there was one before, its drives are not \
             mounted",
        )
}

/// The error for an operation that needs an absent drive.
pub(super) fn refusal(operation: &str, drive: &VolumeDrive, absence: &Error) -> Error {
    let (name, why) = (&drive.name, absence.cause());
    let (cause, hint) = match absence.kind() {
        Kind::Corrupt => (
            format!("the label of drive {name} cannot be used: {why}"),
            FORM.remedy,
        ),
        _ if absence.raw_errno() == Some(Errno::NOENT.raw_os_error()) => (
            format!("drive {name} is missing: {why}"),
            "mount it, or give its place to another directory with `outcore volume replace`; until \
             then, datasets that do not need it can be read (`outcore volume ls` marks those that \
             do)",
        ),
        _ => (
            format!("drive {name} cannot be read: {why}"),
            "check the drive and its permissions, or replace it with `outcore volume replace`; until \
             then, datasets that do not need it can be read",
        ),
    };
    Error::new(absence.kind(), operation, cause)
        .drive(&drive.name)
        .path(path_of(drive))
        .hint(hint)
}

fn check_label(drive: &VolumeDrive, label: &Label, known: &Label) -> Result<()> {
    let wrong = |cause: String| {
        Err(Error::corrupt(OPEN, cause)
            .drive(&drive.name)
            .path(path_of(drive))
            .hint("has the drive been replaced, or mounted elsewhere? look at the drives file"))
    };
    if label.volume != known.volume {
        return wrong(format!(
            "the drive belongs to volume {}, the others to {}",
            label.volume, known.volume
        ));
    }
    if label.drive != drive.name {
        return wrong(format!(
            "the label is that of drive {} of the volume",
            label.drive
        ));
    }
    let is_same = (&label.drives, label.stripe_bytes, label.redundancy)
        == (&known.drives, known.stripe_bytes, known.redundancy);
    match is_same {
        true => Ok(()),
        false => wrong(
            "its label and those of the other drives describe the volume differently".to_string(),
        ),
    }
}

/// Reads a drive's label.
fn read_label(drive: &VolumeDrive) -> Result<Label> {
    refuse_what_is_no_directory(OPEN, drive)?;
    read_label_at(drive, &path_of(drive))
}

fn read_label_at(drive: &VolumeDrive, path: &Path) -> Result<Label> {
    let owner = Owner {
        name: LABEL,
        place: None,
    };
    let named = |error: Error| error.drive(&drive.name);
    let opened = FORM.read::<Label>(path, owner).map_err(|error| {
        let is_lost = error.raw_errno() == Some(Errno::NOENT.raw_os_error())
            && [DATA, DATASETS]
                .iter()
                .all(|folder| drive.dir.join(FOLDER).join(folder).is_dir());
        named(match is_lost {
            true => FORM
                .damage("the label is missing, but the other files of the drive's folder exist")
                .path(path),
            false => error,
        })
    })?;
    match opened.place == opened.body.place() {
        true => Ok(opened.body),
        false => Err(named(
            FORM.damage("the label is that of another drive").path(path),
        )),
    }
}
