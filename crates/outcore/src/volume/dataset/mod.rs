//! Datasets: named, sealed contents of a volume of directories on many drives.
//!
//! Contract: a [`DatasetVolume`] is a set of directories, one a drive, each with a folder
//! `outcore-volume` in it: a label (whose drive this is, of which volume), a file for each dataset's
//! share in `data`, and on the first drive a manifest for each dataset in `datasets`. A dataset is
//! written once ([`writer`]), checksummed in granules, and sealed: it appears by a commit record when
//! all of it is durable, and is never changed afterwards. What is half written lies in private
//! directories that the next sweep removes. Reads ([`reader`]) verify every granule they touch and name
//! drive, file and offset of one that is not what was written.
//!
//! A drive that is missing, empty (replaced) or of another volume is an error that names it; nothing is
//! guessed. There is no redundancy: a lost drive loses every dataset that reaches it.
//!
//! Bounds: buffers of the caller's budget; a checksum of 8 bytes a granule (64 KiB, or a stripe if that
//! is smaller) in memory while a dataset is written, read or checked.

pub mod device;
pub mod directory;
pub mod manifest;
pub mod pack;
mod queue;
pub mod reader;
pub mod stray;
pub mod transfer;
pub mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::mapping::{STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, StripeMap, StripeMember};
use super::striped::{Member, StripeOptions, StripedVolume};
use crate::config::DriveSet;
use crate::drive::queue::TAGS_DEFAULT;
use crate::drive::{Device, PrivateDir};
use crate::error::{Error, Kind, Result};
use manifest::{Manifest, Share};

/// What names of datasets are.
const NAMES_HINT: &str =
    "a name has up to 200 ASCII letters, digits and ._-+=, and no dot in front";
/// Folder in each drive's directory.
pub const FOLDER: &str = "outcore-volume";
/// Stripes of a volume for datasets where nobody says otherwise.
pub const STRIPE_BYTES_DEFAULT: u64 = 1 << 20;
/// Bytes under one checksum, at most.
pub const GRANULE_BYTES_MAX: u64 = 64 << 10;
/// What a dataset's name begins with on the command line.
pub const MARK: char = '@';

const LABEL: &str = "volume.json";
const DATASETS: &str = "datasets";
const DATA: &str = "data";
/// Ends the name of a manifest whose data are being removed.
const REMOVED: &str = ".removed";
const OPEN: &str = "open volume";
const VERSION: u32 = 1;

/// How a long operation is watched and stopped.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Fails when it is to stop.
    pub check: &'a dyn Fn() -> Result<()>,
    /// Is told of bytes that are done.
    pub advance: &'a dyn Fn(u64),
}

impl Watch<'_> {
    /// Nobody watches.
    pub const NOBODY: Watch<'static> = Watch {
        check: &|| Ok(()),
        advance: &|_| {},
    };
}

/// A drive of a volume for datasets.
#[derive(Debug, Clone)]
pub struct VolumeDrive {
    /// For messages, and to know it again.
    pub name: String,
    /// The directory on it.
    pub dir: PathBuf,
    /// Share of the stripes.
    pub weight: f64,
    /// The most of it to use.
    pub limit_bytes: u64,
    /// Its slots.
    pub tags: usize,
    /// The controller it hangs on, and the slots that the drives there share.
    pub controller: Option<(String, usize)>,
}

/// The drives that a drives file names, with weights from what is known of their speed.
pub fn drives_of(set: &DriveSet) -> Vec<VolumeDrive> {
    let speed = |drive: &crate::config::DriveSpec| {
        let pair = drive.read_bytes_per_s.zip(drive.write_bytes_per_s);
        pair.map(|(read, write)| read.min(write) as f64)
    };
    let are_known = set.drives.iter().all(|drive| speed(drive).is_some());
    let drives = set.drives.iter().map(|drive| {
        let by_speed = speed(drive).filter(|_| are_known).unwrap_or(1.0);
        let group = drive.group.as_ref();
        let group = group.and_then(|name| set.groups.iter().find(|group| group.name == *name));
        VolumeDrive {
            name: drive.name.clone(),
            dir: drive.dir.clone(),
            weight: drive.weight.unwrap_or(by_speed),
            limit_bytes: drive.capacity_limit_bytes.unwrap_or(u64::MAX),
            tags: drive
                .depth
                .map_or(TAGS_DEFAULT, |d| TAGS_DEFAULT.max(d as usize)),
            controller: group.and_then(|group| Some((group.name.clone(), group.depth? as usize))),
        }
    });
    drives.collect()
}

/// Whose drive a directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    version: u32,
    volume: String,
    drive: String,
    drives: Vec<String>,
    stripe_bytes: u64,
}

/// A drive as `volume status` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct DriveStatus {
    /// Its name.
    pub drive: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Free bytes on its file system.
    pub free_bytes: u64,
    /// Bytes of datasets on it.
    pub used_bytes: u64,
}

/// Directories on many drives that hold datasets.
#[derive(Clone)]
pub struct DatasetVolume {
    device: Arc<dyn Device>,
    drives: Vec<VolumeDrive>,
    id: String,
    stripe_bytes: u64,
}

impl DatasetVolume {
    /// Makes an empty volume over `drives`, with stripes of `stripe_bytes`; `seed` makes its identity.
    ///
    /// # Errors
    /// Usage: no drives, a stripe that cannot be, a directory that belongs to a volume already. I/O.
    pub fn create(
        device: Arc<dyn Device>,
        drives: Vec<VolumeDrive>,
        stripe_bytes: u64,
        seed: u64,
    ) -> Result<Self> {
        const CREATE: &str = "create volume";
        let is_size = stripe_bytes.is_power_of_two()
            && (STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&stripe_bytes);
        if !is_size {
            return Err(
                Error::usage(CREATE, format!("stripes of {stripe_bytes} bytes"))
                    .hint("stripes are powers of two from 4KiB to 4MiB"),
            );
        }
        // Nothing is stored yet: what the map refuses is refused here.
        let member = |drive: &VolumeDrive| StripeMember {
            capacity_bytes: stripe_bytes,
            weight: drive.weight,
        };
        StripeMap::new(
            &drives.iter().map(member).collect::<Vec<_>>(),
            stripe_bytes,
            0,
        )?;
        for drive in &drives {
            refuse_what_is_no_directory(CREATE, drive)?;
            let label = drive.dir.join(FOLDER).join(LABEL);
            if label.exists() {
                return Err(Error::usage(CREATE, "it belongs to a volume already")
                    .drive(&drive.name)
                    .path(&label)
                    .hint("name another directory, or remove that folder and all that is in it"));
            }
        }
        let volume = DatasetVolume {
            id: format!(
                "{:016x}",
                crate::checksum::bytes_checksum(&seed.to_le_bytes())
            ),
            device,
            stripe_bytes,
            drives,
        };
        for drive in &volume.drives {
            let at = |error: io::Error| Error::io(CREATE, &error).drive(&drive.name);
            let folder = drive.dir.join(FOLDER);
            fs::create_dir_all(folder.join(DATA)).map_err(|e| at(e).path(&folder))?;
            fs::create_dir_all(folder.join(DATASETS)).map_err(|e| at(e).path(&folder))?;
            let text = serde_json::to_vec_pretty(&volume.label_of(drive))
                .map_err(|error| Error::usage(CREATE, error.to_string()))?;
            let staged = volume.device.make_private_dir(&folder)?;
            staged.write_file(LABEL, &text)?;
            volume
                .device
                .rename(&staged.path().join(LABEL), &folder.join(LABEL), false)
                .map_err(|error| error.drive(&drive.name))?;
        }
        Ok(volume)
    }

    /// Opens the volume that `drives` hold, all of them present and in their order.
    ///
    /// # Errors
    /// A drive that is missing, empty or of another volume, by name; more or fewer than there were.
    pub fn open(device: Arc<dyn Device>, drives: Vec<VolumeDrive>) -> Result<Self> {
        let mut first: Option<Label> = None;
        // One drive without a label is missing; of drives without any, none has been a volume's.
        let is_new = |drive: &VolumeDrive| drive.dir.is_dir() && !drive.dir.join(FOLDER).exists();
        if !drives.is_empty() && drives.iter().all(is_new) {
            return Err(no_volume(&drives[0]));
        }
        for drive in &drives {
            let label = read_label(drive)?;
            let wrong = |cause: String| {
                Error::corrupt(OPEN, cause)
                    .drive(&drive.name)
                    .path(drive.dir.join(FOLDER).join(LABEL))
                    .hint("has the drive been replaced, or mounted elsewhere? look at drives.toml")
            };
            let known = first.get_or_insert_with(|| label.clone());
            if label.volume != known.volume {
                return Err(wrong(format!(
                    "it belongs to volume {}, the others to {}",
                    label.volume, known.volume
                )));
            }
            if label.drive != drive.name {
                return Err(wrong(format!("it was drive {} of its volume", label.drive)));
            }
        }
        let Some(label) = first else {
            return Err(Error::usage(OPEN, "no drives are named").hint("use --volume drives.toml"));
        };
        let named: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
        if label.drives != named {
            let missing = label
                .drives
                .iter()
                .find(|name| !named.contains(&name.as_str()));
            let cause = match missing {
                Some(name) => format!("drive {name} is missing"),
                None => "its drives are named in another order, or twice".to_string(),
            };
            return Err(Error::corrupt(OPEN, cause).hint(format!(
                "the volume has these drives: {}",
                label.drives.join(", ")
            )));
        }
        Ok(DatasetVolume {
            device,
            drives,
            id: label.volume,
            stripe_bytes: label.stripe_bytes,
        })
    }

    fn label_of(&self, drive: &VolumeDrive) -> Label {
        Label {
            version: VERSION,
            volume: self.id.clone(),
            drive: drive.name.clone(),
            drives: self.drives.iter().map(|drive| drive.name.clone()).collect(),
            stripe_bytes: self.stripe_bytes,
        }
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Its identity.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Bytes of a stripe of new datasets.
    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    /// Its drives, in order.
    pub fn drives(&self) -> &[VolumeDrive] {
        &self.drives
    }

    fn folder(&self, index: usize) -> PathBuf {
        self.drives[index].dir.join(FOLDER)
    }

    fn manifest_path(&self, name: &str) -> PathBuf {
        self.folder(0).join(DATASETS).join(format!("{name}.json"))
    }

    /// The file of a dataset's share on a drive.
    pub fn share_path(&self, id: &str, index: usize) -> PathBuf {
        self.folder(index).join(DATA).join(id)
    }

    /// Room and use of each drive; of use counts what the datasets have whose manifests can be read.
    ///
    /// # Errors
    /// A drive that cannot be looked at.
    pub fn status(&self) -> Result<Vec<DriveStatus>> {
        let names = self.names()?;
        let readable = names.iter().filter_map(|name| self.manifest(name).ok());
        let manifests: Vec<Manifest> = readable.collect();
        let status = self.drives.iter().enumerate().map(|(index, drive)| {
            let free_bytes = self.device.free_bytes(&drive.dir);
            let shares = manifests.iter().filter_map(|found| found.shares.get(index));
            Ok(DriveStatus {
                drive: drive.name.clone(),
                dir: drive.dir.clone(),
                free_bytes: free_bytes.map_err(|error| error.drive(&drive.name))?,
                used_bytes: shares.map(|share| share.len_bytes).sum(),
            })
        });
        status.collect()
    }

    /// All datasets, by name.
    ///
    /// # Errors
    /// A manifest that cannot be read.
    pub fn list(&self) -> Result<Vec<Manifest>> {
        self.names()?
            .iter()
            .map(|name| self.manifest(name))
            .collect()
    }

    /// The names of all datasets, in order, whether or not they can be read.
    ///
    /// # Errors
    /// The first drive cannot be looked into.
    pub fn names(&self) -> Result<Vec<String>> {
        let dir = self.folder(0).join(DATASETS);
        let failed = |error: io::Error| {
            Error::io("list datasets", &error)
                .drive(&self.drives[0].name)
                .path(&dir)
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy();
            names.extend(name.strip_suffix(".json").map(str::to_string));
        }
        names.sort();
        Ok(names)
    }

    /// The manifest of a dataset.
    ///
    /// # Errors
    /// Usage if there is none of that name; corrupt if it is not what was written.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        const READ: &str = "read dataset";
        check_name(name)?;
        let path = self.manifest_path(name);
        let text = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::usage(READ, format!("there is no @{name}"))
                .hint("`outcore ls --volume FILE` lists what there is"),
            _ => Error::io(READ, &error).path(&path),
        })?;
        Manifest::parse(&text).map_err(|error| {
            error
                .drive(&self.drives[0].name)
                .path(&path)
                .hint("put the dataset again; `outcore volume scrub` lists all damage")
        })
    }

    /// Whether there is a dataset of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.manifest_path(name).exists()
    }

    /// Removes a dataset, a damaged one too: first its name, then its data. What a kill leaves is removed by
    /// the next sweep. Gives the bytes that its files had. If its manifest is so damaged that its files cannot
    /// be told, they stay as strays ([`DatasetVolume::strays`]).
    ///
    /// # Errors
    /// There is none of that name; I/O.
    pub fn remove(&self, name: &str) -> Result<u64> {
        let _lock = self.lock_names()?;
        let id = match self.manifest(name) {
            Ok(manifest) => manifest.id,
            Err(error) if error.kind() == Kind::Corrupt => match self.id_of(name) {
                Some(id) => id,
                None => {
                    self.device.remove(&self.manifest_path(name))?;
                    return Ok(0);
                }
            },
            Err(error) => return Err(error),
        };
        let files = (0..self.drives.len()).filter_map(|index| {
            let facts = fs::metadata(self.share_path(&id, index));
            facts.ok().map(|facts| facts.len())
        });
        let freed_bytes = files.sum();
        // Where the manifest is while the data are removed.
        let removed = self.folder(0).join(DATASETS).join(id.clone() + REMOVED);
        self.device
            .rename(&self.manifest_path(name), &removed, true)?;
        self.remove_shares(&id)?;
        self.device.remove(&removed)?;
        Ok(freed_bytes)
    }

    /// Keeps all others from giving and taking names while the lock is held; waits for it.
    fn lock_names(&self) -> Result<fs::File> {
        let dir = self.folder(0).join(DATASETS);
        let locked = fs::File::open(&dir).and_then(|file| {
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| {
            Error::io("lock volume", &error)
                .drive(&self.drives[0].name)
                .path(&dir)
        })
    }

    /// Removes the data of datasets whose removal was killed.
    fn finish_removals(&self) -> Result<()> {
        let dir = self.folder(0).join(DATASETS);
        let Ok(entries) = fs::read_dir(&dir) else {
            // Said by who looks for a dataset.
            return Ok(());
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Some(id) = name.strip_suffix(REMOVED) else {
                continue;
            };
            let _lock = self.lock_names()?;
            // Else whoever held the lock has done it.
            if entry.path().exists() {
                self.remove_shares(id)?;
                self.device.remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// What the files of the dataset `name` are called, its manifest damaged or not; nothing if that cannot
    /// be told, or another dataset says the same of itself.
    fn id_of(&self, name: &str) -> Option<String> {
        if let Ok(manifest) = self.manifest(name) {
            return Some(manifest.id);
        }
        let read = |name: &str| Manifest::id_in(&fs::read(self.manifest_path(name)).ok()?);
        let id = read(name)?;
        let names = self.names().ok()?;
        let mut others = names.iter().filter(|other| *other != name);
        (!others.any(|other| read(other).is_none_or(|theirs| theirs == id))).then_some(id)
    }

    /// Removes the files of a dataset that no manifest names any more; all that can be, whatever fails.
    /// One that is gone already is no failure.
    fn remove_shares(&self, id: &str) -> Result<()> {
        let removed = (0..self.drives.len()).map(|index| {
            let path = self.share_path(id, index);
            match self.device.remove(&path) {
                Err(error) if error.raw_errno() == Some(Errno::NOENT.raw_os_error()) => Ok(()),
                removed => removed.map_err(|error| error.drive(&self.drives[index].name)),
            }
        });
        let all: Vec<Result<()>> = removed.collect();
        all.into_iter().collect()
    }

    /// Removes what killed runs have left, and finishes what they had committed.
    ///
    /// # Errors
    /// A directory that cannot be looked into.
    pub fn sweep(&self) -> Result<()> {
        for (index, drive) in self.drives.iter().enumerate() {
            self.device
                .sweep_private_dirs(&self.folder(index))
                .map_err(|error| error.drive(&drive.name))?;
        }
        self.finish_removals()
    }

    /// Private directories on all drives, for what is not complete.
    fn stage(&self) -> Result<Vec<PrivateDir>> {
        self.sweep()?;
        let made = self.drives.iter().enumerate().map(|(index, drive)| {
            let made = self.device.make_private_dir(&self.folder(index));
            made.map_err(|error| error.drive(&drive.name))
        });
        made.collect()
    }

    /// The striped volume of a dataset's shares, as files at `path_of`.
    fn members(&self, shares: &[Share], path_of: impl Fn(usize) -> PathBuf) -> Vec<Member> {
        let members = self.drives.iter().zip(shares).enumerate();
        members
            .map(|(index, (drive, share))| Member {
                name: drive.name.clone(),
                path: path_of(index),
                weight: share.weight,
                capacity_bytes: Some(share.capacity_bytes),
                file_bytes: Some(share.len_bytes),
                tags: Some(drive.tags),
                controller: drive.controller.clone(),
            })
            .collect()
    }
}

/// Datasets are files: a drive that is a block device has none.
fn refuse_what_is_no_directory(operation: &str, drive: &VolumeDrive) -> Result<()> {
    match fs::metadata(&drive.dir) {
        Ok(facts) if !facts.is_dir() => Err(Error::usage(operation, "it is no directory")
            .drive(&drive.name)
            .path(&drive.dir)
            .hint(
                "of a block device, name the directory that its file system is mounted at; `outcore \
                 bench io` and `outcore replay` take devices themselves",
            )),
        // What is missing is told by what wants it.
        _ => Ok(()),
    }
}

/// The error for drives that were never made a volume.
fn no_volume(first: &VolumeDrive) -> Error {
    Error::usage(OPEN, "there is no volume on these drives yet")
        .path(&first.dir)
        .hint(
            "make one with `outcore volume create`; if there was one before, its drives are not \
             mounted",
        )
}

/// Reads a drive's label.
fn read_label(drive: &VolumeDrive) -> Result<Label> {
    refuse_what_is_no_directory(OPEN, drive)?;
    let path = drive.dir.join(FOLDER).join(LABEL);
    let text = fs::read(&path).map_err(|error| {
        let error = Error::io(OPEN, &error).drive(&drive.name).path(&path);
        match error.raw_errno() {
            Some(code) if code == Errno::NOENT.raw_os_error() => error.hint(
                "the drive is not mounted, or was replaced by an empty one; once the folders \
                 `outcore-volume` on the others are removed, `outcore volume create` makes a new volume",
            ),
            _ => error,
        }
    })?;
    let label: Label = serde_json::from_slice(&text).map_err(|error| {
        Error::corrupt(OPEN, error.to_string())
            .drive(&drive.name)
            .path(&path)
    })?;
    if label.version != VERSION {
        let cause = format!("its layout has version {}", label.version);
        return Err(Error::usage(OPEN, cause)
            .drive(&drive.name)
            .path(&path)
            .hint("use a newer outcore"));
    }
    Ok(label)
}

/// Refuses a name that cannot be that of a dataset.
///
/// # Errors
/// Usage.
pub fn check_name(name: &str) -> Result<()> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-+=".contains(c);
    let is_name =
        (1..=200).contains(&name.len()) && name.chars().all(is_letter) && !name.starts_with('.');
    match is_name {
        true => Ok(()),
        false => Err(Error::usage("name dataset", format!("`{name}`")).hint(NAMES_HINT)),
    }
}

/// A dataset, or one file packed in it, as named on a command line: `@name` or `@name/inside`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The dataset.
    pub dataset: String,
    /// The file inside.
    pub inside: Option<String>,
}

impl Named {
    /// Whether `path` names a dataset.
    pub fn is_mark(path: &Path) -> bool {
        path.as_os_str().as_encoded_bytes().starts_with(b"@")
    }

    /// The dataset that `path` names; nothing if it names a file.
    ///
    /// # Errors
    /// Usage for a name that cannot be.
    pub fn parse(path: &Path) -> Result<Option<Self>> {
        if !Self::is_mark(path) {
            return Ok(None);
        }
        let text = path.to_str().ok_or_else(|| {
            Error::usage("name dataset", "it is not UTF-8")
                .path(path)
                .hint(NAMES_HINT)
        })?;
        let text = text.trim_start_matches(MARK);
        let (dataset, inside) = match text.split_once('/') {
            Some((dataset, inside)) => (dataset, Some(inside.to_string())),
            None => (text, None),
        };
        check_name(dataset)?;
        Ok(Some(Named {
            dataset: dataset.to_string(),
            inside: inside.filter(|inside| !inside.is_empty()),
        }))
    }
}

/// The options of a dataset's striped volume.
fn stripe_options(manifest: &Manifest) -> StripeOptions {
    StripeOptions {
        stripe_bytes: manifest.stripe_bytes,
        start_drive: manifest.start_drive,
        ..StripeOptions::default()
    }
}

/// Opens the shares of a sealed dataset for reading.
fn open_shares(volume: &DatasetVolume, manifest: &Manifest) -> Result<StripedVolume> {
    if manifest.shares.len() != volume.drives.len() {
        return Err(Error::new(
            Kind::Corrupt,
            "open dataset",
            format!(
                "it lies on {} drives, the volume has {}",
                manifest.shares.len(),
                volume.drives.len()
            ),
        ));
    }
    let members = volume.members(&manifest.shares, |index| {
        volume.share_path(&manifest.id, index)
    });
    StripedVolume::open_for_reading(
        Arc::clone(&volume.device),
        &members,
        stripe_options(manifest),
    )
}
