//! Changes of a volume's drives, together with its drives file.
//!
//! Contract: the drives file names a drive before the drive joins the volume, and until the drive
//! has left it. Therefore, a command that runs in between finds all drives of the volume in the
//! file, and leaves other drives alone.

use std::path::Path;
use std::sync::Arc;

use outcore::{Error, Result};
use outcore_io::config::{DriveSet, DriveSpec};
use outcore_io::drive::{Device, folder};
use outcore_store::dataset::remove::Removed;
use outcore_store::dataset::replace::{Replaced, Replacement};
use outcore_store::dataset::transfer::TransferResources;
use outcore_store::dataset::{DatasetVolume, Watch, drives_of};

/// Puts another directory in the place of a drive, and writes that directory to the drives file.
///
/// # Errors
/// The errors of [`DatasetVolume::replace`]; the drives file cannot be written.
pub fn replace(
    volume: &DatasetVolume,
    drives_file: &Path,
    wanted: Replacement<'_>,
    resources: TransferResources<'_>,
) -> Result<Replaced> {
    let replaced = volume.replace(wanted, resources.budget, resources.watch)?;
    let moved = DriveSet::move_drive(drives_file, wanted.drive, &replaced.dir);
    moved.map_err(|error| {
        error.hint(format!(
            "the drive is rebuilt: write `dir = \"{}\"` for drive {} into the drives file",
            replaced.dir.display(),
            wanted.drive
        ))
    })?;
    Ok(replaced)
}

/// Adds a drive to a volume, given as a directory or as the name of a drive in the drives file.
/// From then on, the drives file lists the drive. Returns its name.
///
/// # Errors
/// The errors of [`DatasetVolume::add`]; the drives file cannot be written.
pub fn add_drive(
    device: &Arc<dyn Device>,
    drives_file: &Path,
    wanted: &Path,
    watch: Watch<'_>,
) -> Result<String> {
    let mut set = DriveSet::read(drives_file)?;
    let is_wanted = |drive: &DriveSpec| {
        let is_named = wanted.to_str() == Some(&drive.name[..]);
        is_named || folder::is_same(&drive.dir, wanted)
    };
    let index = set.drives.iter().position(is_wanted);
    let index = match index {
        Some(index) => index,
        None => {
            let dir = std::path::absolute(wanted);
            set.push_dir(&dir.map_err(|error| Error::io("add drive", &error).path(wanted))?);
            set.drives.len() - 1
        }
    };
    let volume = DatasetVolume::open(Arc::clone(device), drives_of(&set))?;
    let drive = &drives_of(&set)[index];
    volume.check_new_drive(drive)?;
    // Until the labels list the drive, commands leave it alone.
    DriveSet::add_drive(drives_file, &set.drives[index])?;
    volume.add(drive, watch)?;
    Ok(drive.name.clone())
}

/// Removes a drive from a volume, and from the drives file. If only the file names a drive, a
/// killed command has already removed the drive, or has not yet added it.
///
/// # Errors
/// The errors of [`DatasetVolume::remove_drive`]; the drives file cannot be written.
pub fn remove_drive(
    volume: &DatasetVolume,
    drives_file: &Path,
    name: &str,
    gives_up: bool,
    resources: TransferResources<'_>,
) -> Result<Removed> {
    let set = DriveSet::read(drives_file)?;
    let is_member = volume.drives().iter().any(|drive| drive.name == name);
    let listed = drives_of(&set).into_iter().find(|drive| drive.name == name);
    let removed = match listed.filter(|_| !is_member) {
        Some(drive) => Removed {
            left: volume.forget_drive(&drive)?,
            ..Removed::default()
        },
        None => volume.remove_drive(name, gives_up, resources.budget, resources.watch)?,
    };
    DriveSet::remove_drive(drives_file, name).map_err(|error| {
        error.hint(format!(
            "the drive has left the volume: remove drive {name} from the drives file"
        ))
    })?;
    Ok(removed)
}
