//! Datasets: named, sealed contents of a volume of directories on many drives.
//!
//! Contract: a [`DatasetVolume`] is a set of directories, one a drive, each with a folder
//! `outcore-volume` in it: a [`label`] (whose drive this is, of which volume), a file for each
//! dataset's share in `data`, and a copy of the manifest of each dataset in `datasets`
//! ([`copies`]). A dataset is written once ([`writer`]), checksummed in checksum blocks, and
//! sealed: it appears by a commit record when all of it is durable, and is never changed
//! afterwards. What is half written lies in private directories that the next sweep removes. Reads
//! ([`reader`]) verify every checksum block they touch and name drive, file and offset of one that
//! is not what was written.
//!
//! While a drive is missing or empty (replaced), all that does not lie on it can be read, and
//! nothing can be written; whoever needs it is told its name. A drive of another volume is an
//! error; nothing is guessed. There is no redundancy: a lost drive loses every dataset that reaches
//! it.
//!
//! Bounds: buffers of the caller's budget; a checksum of 8 bytes a checksum block (64 KiB, or a
//! stripe if that is smaller) in memory while a dataset is written, read or checked.

mod copies;
pub mod device;
pub mod directory;
mod label;
pub mod manifest;
mod open;
pub mod orphans;
pub mod pack;
mod queue;
pub mod reader;
pub mod transfer;
pub mod writer;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::Serialize;

use crate::striped::{Member, StripeOptions, StripedVolume};
use manifest::{Manifest, Share};
use outcore_io::config::DriveSet;
use outcore_io::drive::queue::TAGS_DEFAULT;
use outcore_io::drive::{Device, PrivateDir};
use outcore_io::error::{Error, Result};
use outcore_io::memory::{BLOCK_BYTES, block_ceil};

/// What names of datasets are.
const NAMES_HINT: &str =
    "a name has up to 200 ASCII letters, digits and ._-+=, and no dot in front";
/// Folder in each drive's directory.
pub const FOLDER: &str = "outcore-volume";
/// Bytes under one checksum, at most.
pub(crate) const CHECKSUM_BLOCK_BYTES_MAX: u64 = 64 << 10;
/// What a dataset's name begins with on the command line.
const MARK: char = '@';

const DATASETS: &str = "datasets";
const DATA: &str = "data";

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
    let speed = |drive: &outcore_io::config::DriveSpec| {
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

/// A drive as `volume status` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct DriveStatus {
    /// Its name.
    pub drive: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it is there: mounted, with its label.
    pub is_present: bool,
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
    /// Why a drive cannot be used, if it is missing, or its label is damaged.
    absent: Arc<[Option<Error>]>,
    id: String,
    stripe_bytes: u64,
}

impl DatasetVolume {
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

    /// The file of a dataset's share on a drive.
    pub fn share_path(&self, id: &str, index: usize) -> PathBuf {
        self.folder(index).join(DATA).join(id)
    }

    /// Room and use of each drive; of use counts what the datasets have whose manifests can be
    /// read.
    ///
    /// # Errors
    /// A drive that cannot be looked at.
    pub fn status(&self) -> Result<Vec<DriveStatus>> {
        let names = self.names()?;
        let readable = names.iter().filter_map(|name| self.manifest(name).ok());
        let manifests: Vec<Manifest> = readable.collect();
        let status = self.drives.iter().enumerate().map(|(index, drive)| {
            let is_present = self.absent[index].is_none();
            let free_bytes = match is_present {
                true => self.device.free_bytes(&drive.dir),
                false => Ok(0),
            };
            let shares = manifests.iter().filter_map(|found| found.shares.get(index));
            Ok(DriveStatus {
                drive: drive.name.clone(),
                dir: drive.dir.clone(),
                is_present,
                free_bytes: free_bytes.map_err(|error| error.drive(&drive.name))?,
                used_bytes: shares.map(|share| share.len_bytes).sum(),
            })
        });
        status.collect()
    }

    /// The drives that a dataset reaches and that are not there: what lies on them cannot be read.
    pub fn absent_of<'m>(&self, manifest: &'m Manifest) -> Vec<&'m str> {
        let shares = manifest.shares.iter().enumerate();
        let absent = shares.filter(|(index, share)| {
            let is_absent = self.absent.get(*index).is_some_and(Option::is_some);
            is_absent && share.len_bytes > 0
        });
        absent.map(|(_, share)| share.drive.as_str()).collect()
    }

    /// Fails where some of the checksum blocks of a dataset, or of their checksums, lie on a drive
    /// that is not there.
    fn check_reachable(&self, manifest: &Manifest, checksum_blocks: &Range<u64>) -> Result<()> {
        if self.absent_of(manifest).is_empty() {
            return Ok(());
        }
        let (map, checksum_block_bytes) = (manifest.map()?, manifest.checksum_block_bytes());
        let mut is_reached = vec![false; manifest.shares.len()];
        let mut reach = |from_bytes: u64, to_bytes: u64| {
            let len_bytes = to_bytes.saturating_sub(from_bytes) as usize;
            map.split(from_bytes, len_bytes, usize::MAX, |piece| {
                is_reached[piece.drive_index] = true;
            });
        };
        let end_bytes = checksum_blocks.end * checksum_block_bytes;
        let padded_bytes = block_ceil(manifest.payload_bytes());
        reach(
            checksum_blocks.start * checksum_block_bytes,
            end_bytes.min(padded_bytes),
        );
        let sums_at_bytes = manifest.sums_at_bytes();
        let first_bytes = checksum_blocks.start * 8 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        if !checksum_blocks.is_empty() {
            reach(
                sums_at_bytes + first_bytes,
                sums_at_bytes + block_ceil(checksum_blocks.end * 8),
            );
        }
        let drives = self.drives.iter().zip(self.absent.iter()).zip(is_reached);
        let mut needed = drives.filter_map(|((drive, error), is_reached)| {
            let error = error.as_ref().filter(|_| is_reached)?;
            let operation = format!("read @{}", manifest.name);
            Some(label::refusal(&operation, drive, error))
        });
        needed.next().map_or(Ok(()), Err)
    }

    /// Removes the files of a dataset that no manifest names any more; all that can be, whatever
    /// fails. One that is gone already is not a failure.
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

    /// Removes what killed runs have left, and finishes what they had committed; nothing while a
    /// drive is missing.
    ///
    /// # Errors
    /// A directory that cannot be looked into.
    pub fn sweep(&self) -> Result<()> {
        match self.absent().next() {
            Some(_) => Ok(()),
            None => label::sweep(&self.device, &self.drives),
        }
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
                is_absent: self.absent[index].is_some(),
                weight: share.weight,
                capacity_bytes: Some(share.capacity_bytes),
                file_bytes: Some(share.len_bytes),
                tags: Some(drive.tags),
                controller: drive.controller.clone(),
            })
            .collect()
    }
}

/// Datasets are files: a drive that is a block device has none. Gives the error of a directory that
/// is missing.
fn refuse_what_is_no_directory(
    operation: &str,
    drive: &VolumeDrive,
) -> Result<Option<std::io::Error>> {
    match fs::metadata(&drive.dir) {
        Ok(facts) if !facts.is_dir() => Err(Error::usage(
            operation,
            "not a directory, which a drive of a volume must be",
        )
        .drive(&drive.name)
        .path(&drive.dir)
        .hint(
            "pass the mount point, not the block device; only `outcore bench io` and `outcore \
                 replay` accept raw devices",
        )),
        found => Ok(found.err()),
    }
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
            Error::usage("name dataset", "the name is not UTF-8")
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
    let names = manifest.shares.iter().map(|share| &share.drive);
    if !names.eq(volume.drives.iter().map(|drive| &drive.name)) {
        let cause = format!(
            "@{} lies on other drives than the volume has",
            manifest.name
        );
        return Err(Error::corrupt("open dataset", cause).hint("look at the drives file"));
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

/// What the metadata of one drive of a volume belongs to.
fn place_of(volume: &str, drive: &str) -> String {
    format!("volume {volume}, drive {drive}")
}
