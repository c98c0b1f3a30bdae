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
//! Each label has a count of the changes of the set of drives. The label with the highest count
//! says which drives the volume has; the drives file may name more, which are left alone. A label
//! with a lower count belongs to a drive whose part in the last change was interrupted.
//!
//! All labels count the replacements of each drive. A drive whose own count is lower than that in
//! another label has the contents from before it was replaced, and counts as absent.
//!
//! A scrub rewrites labels that are damaged, missing or old ([`super::repair`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::membership::{self, Standing};
use super::{
    DATA, DATASETS, DatasetVolume, FOLDER, VolumeDrive, place_of, refuse_what_is_no_directory,
};
use crate::mapping::{Redundancy, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, StripeMap, StripeMember};
use outcore_io::drive::{Device, PrivateDir, Rename, folder, paths};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::metadata::{Form, Owner};

pub(super) const LABEL: &str = "volume.json";
/// Assumed room per drive when a layout is tried before there are data.
const EXAMPLE_BYTES: u64 = 1 << 40;
const OPEN: &str = "open volume";
const CREATE: &str = "create volume";
const CHECK: &str = "change volume";
/// Versions of labels: the first for volumes with neither redundancy nor replaced drives, the
/// second for all others.
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
    upgrade: "get its datasets with the version of outcore that made it, and put them into a new volume",
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
    /// How often the set of drives changed; the label with the highest number counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) changes: u64,
    /// Drives that are being removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    leaving: Vec<String>,
    /// The drives in `leaving` that were missing. outcore reads nothing from them any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lost: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Labels that are written and do not have their names yet.
pub(super) struct StagedLabels {
    dirs: Vec<PrivateDir>,
    renames: Vec<Rename>,
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

    /// How often a drive had been replaced when the label was written.
    fn replacements_of(&self, drive: &str) -> u64 {
        let index = self.drives.iter().position(|name| name == drive);
        let count = index.and_then(|index| self.replacements.get(index));
        count.copied().unwrap_or(0)
    }

    fn standing_of(&self, drive: &str) -> Standing {
        let is_in = |names: &[String]| names.iter().any(|name| name == drive);
        match (is_in(&self.lost), is_in(&self.leaving)) {
            (true, _) => Standing::Lost,
            (false, true) => Standing::Leaving,
            (false, false) => Standing::Full,
        }
    }

    /// The numbers of its drives among `drives`.
    ///
    /// # Errors
    /// A directory does not exist.
    fn members_of(&self, drives: &[VolumeDrive]) -> Result<Vec<usize>> {
        let place_of = |name: &String| {
            let place = drives.iter().position(|drive| drive.name == *name);
            place.ok_or_else(|| {
                let all = self.drives.join(", ");
                Error::corrupt(OPEN, format!("drive {name} is missing"))
                    .hint(format!("name all drives of the volume: {all}"))
            })
        };
        self.drives.iter().map(place_of).collect()
    }
}

/// The newest label, which describes the volume.
fn newest(labels: &[Result<Label>]) -> Option<&Label> {
    // The first of equal labels.
    let readable = labels.iter().rev().filter_map(|label| label.as_ref().ok());
    readable.max_by_key(|label| label.changes)
}

/// Whether a sweep can do without the folder of a drive, because the drive is lost or does not
/// belong to the volume.
fn is_left_out(drives: &[VolumeDrive], drive: &VolumeDrive) -> bool {
    let labels: Vec<Result<Label>> = drives.iter().map(read_label).collect();
    newest(&labels).is_some_and(|label| {
        let is_member = label.drives.contains(&drive.name);
        !is_member || label.standing_of(&drive.name) == Standing::Lost
    })
}

pub(super) fn path_of(drive: &VolumeDrive) -> PathBuf {
    drive.dir.join(FOLDER).join(LABEL)
}

/// Removes the leftovers of killed runs in the folders of `drives`, and finishes their commits.
/// Does nothing while a drive is missing, because that drive's part would count as done.
pub(super) fn sweep<'d>(
    device: &Arc<dyn Device>,
    drives: impl Iterator<Item = &'d VolumeDrive> + Clone,
) -> Result<()> {
    let folder_of = |drive: &VolumeDrive| drive.dir.join(FOLDER);
    if drives.clone().any(|drive| !folder_of(drive).is_dir()) {
        return Ok(());
    }
    for drive in drives {
        device
            .sweep_private_dirs(&folder_of(drive))
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
        // The map is made only to reject an invalid layout before anything is stored.
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
        sweep(&device, drives.iter())?;
        for drive in &drives {
            // If the directory were made here, it would be on the drive above the mount point.
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
            refuse_datasets(CREATE, drive)?;
        }
        let volume = DatasetVolume {
            id: format!(
                "{:016x}",
                outcore_io::checksum::bytes_checksum(&seed.to_le_bytes())
            ),
            absent: vec![None; drives.len()].into(),
            replacements: vec![0; drives.len()].into(),
            standings: vec![Standing::Full; drives.len()].into(),
            changes: 0,
            device,
            stripe_bytes,
            redundancy,
            drives,
        };
        for (index, drive) in volume.drives.iter().enumerate() {
            let dir = volume.folder(index);
            for inner in [DATA, DATASETS] {
                folder::make_dirs(&dir.join(inner)).map_err(|error| error.drive(&drive.name))?;
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
        let is_swept =
            |drive: &&VolumeDrive| drive.dir.join(FOLDER).is_dir() || !is_left_out(&drives, drive);
        let _ = sweep(&device, drives.iter().filter(is_swept));
        let labels: Vec<Result<Label>> = drives.iter().map(read_label).collect();
        let is_absence = |error: &Error| matches!(error.kind(), Kind::Io | Kind::Corrupt);
        for error in labels.iter().filter_map(|label| label.as_ref().err()) {
            if !is_absence(error) {
                return Err(error.clone());
            }
        }
        let Some(known) = newest(&labels).cloned() else {
            return Err(no_label(labels));
        };
        for (drive, label) in drives.iter().zip(&labels) {
            if let Ok(label) = label {
                check_label(drive, label, &known)?;
            }
        }
        let members = known.members_of(&drives)?;
        let drives: Vec<VolumeDrive> = members.iter().map(|at| drives[*at].clone()).collect();
        let mut labels: Vec<Result<Label>> = members.iter().map(|at| labels[*at].clone()).collect();
        let replacements = count_replacements(&mut labels, &drives);
        let standings = drives.iter().map(|drive| known.standing_of(&drive.name));
        let standings: Arc<[Standing]> = standings.collect();
        for ((drive, label), standing) in drives.iter().zip(&mut labels).zip(&*standings) {
            if *standing == Standing::Lost {
                *label = Err(membership::lost(drive));
            }
        }
        Ok(DatasetVolume {
            replacements,
            standings,
            changes: known.changes,
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
        self.write_labels_without(indexes, None)
    }

    /// Like `write_labels`; also removes the label in the folder of a drive that has left the
    /// volume.
    pub(super) fn write_labels_without(
        &self,
        indexes: &[usize],
        left: Option<&VolumeDrive>,
    ) -> Result<()> {
        let StagedLabels {
            mut dirs,
            mut renames,
        } = self.stage_labels(indexes)?;
        if let Some(drive) = left {
            let gone = self.device.make_private_dir(&drive.dir.join(FOLDER));
            let gone = gone.map_err(|error| error.drive(&drive.name))?;
            renames.push(Rename {
                from: path_of(drive),
                to: gone.path().join(LABEL),
            });
            dirs.push(gone);
        }
        PrivateDir::commit(&dirs, &renames, true)?;
        for Rename { from, to } in &renames {
            if let Err(error) = self.device.rename(from, to, true) {
                dirs.into_iter().for_each(PrivateDir::leave);
                return Err(error
                    .path(to)
                    .hint("the next command on this volume writes the remaining labels"));
            }
        }
        Ok(())
    }

    /// Writes the labels of some of the drives into private directories there. Dropping them
    /// removes them.
    pub(super) fn stage_labels(&self, indexes: &[usize]) -> Result<StagedLabels> {
        let mut dirs = Vec::with_capacity(indexes.len() + 1);
        let mut renames = Vec::with_capacity(indexes.len() + 1);
        for &index in indexes {
            let drive = &self.drives[index];
            let named = |error: Error| error.drive(&drive.name);
            let staged = self.device.make_private_dir(&self.folder(index));
            let staged = staged.map_err(named)?;
            let sealed = self.seal_label(drive)?;
            staged.write_file(LABEL, &sealed).map_err(named)?;
            renames.push(Rename {
                from: staged.path().join(LABEL),
                to: path_of(drive),
            });
            dirs.push(staged);
        }
        Ok(StagedLabels { dirs, renames })
    }

    /// The bytes of a drive's label. If a label does not list its own drive, the drive is about to
    /// join.
    pub(super) fn seal_label(&self, drive: &VolumeDrive) -> Result<Vec<u8>> {
        let label = Label {
            volume: self.id.clone(),
            drive: drive.name.clone(),
            drives: self.drives.iter().map(|drive| drive.name.clone()).collect(),
            stripe_bytes: self.stripe_bytes,
            redundancy: self.redundancy,
            replacements: match self.replacements.iter().all(|count| *count == 0) {
                true => Vec::new(),
                false => self.replacements.to_vec(),
            },
            changes: self.changes,
            leaving: self.names_with(Standing::Leaving),
            lost: self.names_with(Standing::Lost),
        };
        let owner = Owner {
            name: LABEL,
            place: Some(&label.place()),
        };
        let is_old_form = label.redundancy.is_none()
            && label.replacements.is_empty()
            && label.changes == 0
            && label.leaving.is_empty();
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
        is_own.then(|| label.replacements_of(&drive.name))
    }

    /// Whether the directory of a drive has a label of this volume that does not list the drive:
    /// the drive was about to join.
    pub(super) fn is_joining(&self, drive: &VolumeDrive) -> bool {
        read_label(drive).is_ok_and(|label| {
            let is_own = label.volume == self.id && label.drive == drive.name;
            is_own && !label.drives.contains(&drive.name)
        })
    }

    /// Fails if, after the volume was opened, a drive was replaced or the set of drives has
    /// changed, or if a label is older than others. The result stays valid while the caller holds
    /// the lock on names.
    pub(super) fn check_not_replaced(&self) -> Result<()> {
        self.check_labels(|found, known| found != known)
    }

    /// Like `check_not_replaced`, but accepts labels that an interrupted change has not reached.
    pub(super) fn check_not_overtaken(&self) -> Result<()> {
        self.check_labels(|found, known| found > known)
    }

    /// Fails if `is_other` holds for a count in a label and the count that the volume was opened
    /// with.
    fn check_labels(&self, is_other: impl Fn(u64, u64) -> bool) -> Result<()> {
        let labels = self.present().map(|index| {
            let drive = &self.drives[index];
            (drive, read_label(drive))
        });
        let labels: Vec<(&VolumeDrive, Result<Label>)> = labels.collect();
        let mut others = labels.iter().filter_map(|(drive, label)| {
            is_other(label.as_ref().ok()?.changes, self.changes).then_some(drive)
        });
        if let Some(drive) = others.next() {
            let cause = "drives joined or left the volume in the meantime";
            return Err(Error::new(Kind::Io, CHECK, cause)
                .drive(&drive.name)
                .path(path_of(drive))
                .hint("run the command again; if it fails again, run `outcore volume scrub`"));
        }
        for (drive, label) in labels {
            let label = match label {
                Ok(label) => label,
                Err(error) if error.raw_errno() == Some(Errno::NOENT.raw_os_error()) => {
                    return Err(replaced_meanwhile(drive));
                }
                Err(error) => return Err(refusal(CHECK, drive, &error)),
            };
            for (other, known) in self.drives.iter().zip(&*self.replacements) {
                let found = label.replacements_of(&other.name);
                if is_other(found, *known) {
                    return Err(match found > *known {
                        true => replaced_meanwhile(other),
                        false => old_label(drive, other),
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether a label counts more replacements of a drive than when the volume was opened.
    pub(super) fn is_replaced_since(&self, index: usize) -> bool {
        let labels = self.present().map(|other| read_label(&self.drives[other]));
        let name = &self.drives[index].name;
        labels
            .flatten()
            .any(|label| label.replacements_of(name) > self.replacements[index])
    }

    /// Whether a drive has its folder, but no label that can be read.
    pub(super) fn has_lost_label(&self, index: usize) -> bool {
        let is_lost = |error: &Error| error.kind() == Kind::Corrupt;
        let is_absent = self.absent[index].as_ref().is_some_and(is_lost);
        is_absent && read_label(&self.drives[index]).is_err_and(|error| is_lost(&error))
    }

    /// Whether a label is from before the last change of the set of drives, or from before a drive
    /// was replaced.
    pub(super) fn has_old_label(&self, index: usize) -> bool {
        read_label(&self.drives[index]).is_ok_and(|label| {
            let mut counts = self.drives.iter().zip(&*self.replacements);
            let is_old = counts.any(|(drive, count)| label.replacements_of(&drive.name) < *count);
            is_old || label.changes < self.changes
        })
    }
}

/// Rejects a directory that holds datasets of a volume whose label is lost.
pub(super) fn refuse_datasets(operation: &str, drive: &VolumeDrive) -> Result<()> {
    for folder in [DATA, DATASETS] {
        let path = drive.dir.join(FOLDER).join(folder);
        let is_empty = match paths::entries(&path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                return Err(Error::io(operation, &error).drive(&drive.name).path(&path));
            }
        };
        if !is_empty {
            let cause = "it holds datasets of a volume, but the label of the volume is missing";
            return Err(Error::usage(operation, cause)
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

/// How often each drive has been replaced, according to all labels. A label from before a
/// replacement becomes the reason why its drive is absent.
fn count_replacements(labels: &mut [Result<Label>], drives: &[VolumeDrive]) -> Arc<[u64]> {
    let count = |drive: &VolumeDrive| {
        let told = labels.iter().flatten();
        told.map(|label| label.replacements_of(&drive.name))
            .max()
            .unwrap_or(0)
    };
    let counts: Arc<[u64]> = drives.iter().map(count).collect();
    for (index, drive) in drives.iter().enumerate() {
        if labels[index]
            .as_ref()
            .is_ok_and(|label| label.replacements_of(&drive.name) < counts[index])
        {
            let cause = "the drive was replaced, and this directory has its old contents";
            labels[index] = Err(Error::new(Kind::Io, OPEN, cause)
                .drive(&drive.name)
                .path(path_of(drive)));
        }
    }
    counts
}

/// The error if no drive has a label that can be read.
fn no_label(labels: Vec<Result<Label>>) -> Error {
    match labels.into_iter().next() {
        Some(Ok(_)) | None => {
            Error::usage(OPEN, "no drives are given").hint("use --volume drives.toml")
        }
        Some(Err(error)) if error.kind() == Kind::Io => {
            error.hint("all drives of the volume are missing: mount them")
        }
        Some(Err(error)) => {
            error.hint("no label of the volume can be read: restore one of them from a backup")
        }
    }
}

/// The error of a command during which a drive was replaced.
fn replaced_meanwhile(drive: &VolumeDrive) -> Error {
    Error::new(Kind::Io, CHECK, "the drive was replaced in the meantime")
        .drive(&drive.name)
        .path(path_of(drive))
        .hint("run the command again")
}

/// The error for a label that lacks a replacement counted by other labels.
fn old_label(drive: &VolumeDrive, replaced: &VolumeDrive) -> Error {
    let cause = format!(
        "the label is from before drive {} was replaced, and others are newer",
        replaced.name
    );
    Error::corrupt(CHECK, cause)
        .drive(&drive.name)
        .path(path_of(drive))
        .hint("`outcore volume scrub` writes a new label")
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
             then, datasets that do not need it can be read (`outcore volume ls` marks the others)",
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
            .hint(
                "check in the drives file whether the drive was replaced or is mounted elsewhere",
            ))
    };
    if label.volume != known.volume {
        return wrong(format!(
            "the drive belongs to volume {}, the others to {}",
            label.volume, known.volume
        ));
    }
    let is_member = |name: &String| known.drives.contains(name);
    if label.drive != drive.name && (is_member(&drive.name) || is_member(&label.drive)) {
        return wrong(format!(
            "the label belongs to drive {} of the volume",
            label.drive
        ));
    }
    let is_same = (label.stripe_bytes, label.redundancy) == (known.stripe_bytes, known.redundancy)
        && (label.drives == known.drives || label.changes < known.changes);
    match is_same {
        true => Ok(()),
        false => wrong(
            "its label and those of the other drives describe the volume differently".to_string(),
        ),
    }
}

/// Reads a drive's label.
pub(super) fn read_label(drive: &VolumeDrive) -> Result<Label> {
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
            FORM.damage("the label belongs to another drive").path(path),
        )),
    }
}
