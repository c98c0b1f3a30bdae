//! Datasets: named, sealed contents of a volume of directories on many drives.
//!
//! Contract: a [`DatasetVolume`] is a set of directories, one per drive. Each contains a folder
//! `outcore-volume` with:
//! - a [`label`], which identifies the drive and its volume
//! - one file per dataset's share, in `data`
//! - a copy of the manifest of each dataset, in `datasets` ([`copies`])
//!
//! A dataset is written once ([`writer`]), checksummed in checksum blocks, and sealed. It appears
//! by a commit record when all of it is durable, and never changes afterwards. Incomplete data are
//! in private directories that the next sweep removes. Reads ([`reader`]) verify every checksum
//! block that they touch; the error for a damaged block names the drive, the file and the offset.
//!
//! Drives join ([`add`]) and leave ([`remove`]), and [`rebalance`] moves datasets onto them.
//!
//! While a drive is missing or empty, data on the other drives can be read, and nothing can be
//! written; errors name the drive. A drive of another volume is an error; outcore never guesses.
//! With [`Redundancy`], reads also compute the data of one lost drive ([`rescue`]), and the drive
//! can be rebuilt ([`replace`]). Without it, a lost drive loses every dataset that uses it.
//!
//! Bounds: buffers from the caller's budget. While a dataset is written, read or checked, memory
//! holds 8 bytes per checksum block (64 KiB, or a stripe if that is smaller).

pub mod add;
mod copies;
pub mod damage;
pub mod device;
pub mod directory;
mod groups;
mod heal;
mod label;
pub mod manifest;
pub mod membership;
mod open;
pub mod orphans;
pub mod pack;
mod parity;
mod queue;
pub mod reader;
pub mod rebalance;
mod rebuild;
pub mod remove;
mod repair;
pub mod replace;
mod rescue;
pub mod risk;
mod scrub;
mod settle;
mod stage;
pub mod throttle;
pub mod transfer;
pub mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::Serialize;

use crate::mapping::Redundancy;
use crate::striped::{Member, StripeOptions, StripedVolume};
use manifest::{Manifest, Share};
use membership::Standing;
use outcore_io::config::DriveSet;
use outcore_io::drive::paths;
use outcore_io::drive::queue::TAGS_DEFAULT;
use outcore_io::drive::{Device, folder};
use outcore_io::error::{Error, Result};
use outcore_io::memory::{BLOCK_BYTES, Budget, block_ceil};

pub use label::NewVolume;
pub use throttle::Throttle;

/// The rule for names of datasets, for error messages.
const NAMES_HINT: &str =
    "a name has up to 200 ASCII letters, digits and ._-+=, and does not begin with a dot";
/// Folder in each drive's directory.
pub const FOLDER: &str = "outcore-volume";
/// Largest number of bytes per checksum.
pub(crate) const CHECKSUM_BLOCK_BYTES_MAX: u64 = 64 << 10;
/// Prefix of a dataset's name on the command line.
const MARK: char = '@';

const DATASETS: &str = "datasets";
const DATA: &str = "data";

/// Observes and stops a long operation.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Fails if the operation is to stop.
    pub check: &'a dyn Fn() -> Result<()>,
    /// Receives the number of bytes just done.
    pub advance: &'a dyn Fn(u64),
    /// Limits the rate of passes over datasets.
    pub throttle: Option<&'a Throttle>,
}

/// Memory and observer of a pass over datasets.
#[derive(Clone, Copy)]
pub(crate) struct PassResources<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) watch: Watch<'a>,
}

impl Watch<'_> {
    /// No observer.
    pub const NOBODY: Watch<'static> = Watch {
        check: &|| Ok(()),
        advance: &|_| {},
        throttle: None,
    };

    /// Counts bytes that were just done, and waits as long as the limit requires.
    ///
    /// # Errors
    /// The operation is to stop.
    fn pass(&self, len_bytes: u64) -> Result<()> {
        (self.check)()?;
        (self.advance)(len_bytes);
        match self.throttle {
            Some(throttle) => throttle.wait(len_bytes, self.check),
            None => Ok(()),
        }
    }
}

/// A drive of a volume for datasets.
#[derive(Debug, Clone)]
pub struct VolumeDrive {
    /// The name in messages; it also identifies the drive later.
    pub name: String,
    /// The directory on the drive.
    pub dir: PathBuf,
    /// Share of the stripes.
    pub weight: f64,
    /// Limit on its use.
    pub limit_bytes: u64,
    /// Its slots.
    pub tags: usize,
    /// Its controller, and the slots that the controller's drives share.
    pub controller: Option<(String, usize)>,
}

/// The drives of a drives file, with weights from their known speeds.
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

/// A drive, as `volume status` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct DriveStatus {
    /// Its name.
    pub drive: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it is mounted and has its label.
    pub is_present: bool,
    /// Free bytes on its file system.
    pub free_bytes: u64,
    /// Bytes of datasets on it.
    pub used_bytes: u64,
    /// Bytes of datasets that it would have if all of them had today's layout.
    pub share_bytes: u64,
    /// Whether it takes new data, or is being removed.
    pub standing: Standing,
}

/// Directories on many drives that hold datasets.
#[derive(Clone)]
pub struct DatasetVolume {
    device: Arc<dyn Device>,
    drives: Vec<VolumeDrive>,
    /// Why a drive cannot be used: it is missing, or its label is damaged.
    absent: Arc<[Option<Error>]>,
    id: String,
    stripe_bytes: u64,
    redundancy: Redundancy,
    /// How often each drive has been replaced.
    replacements: Arc<[u64]>,
    /// The role of each drive.
    standings: Arc<[Standing]>,
    /// How often the set of drives has changed.
    changes: u64,
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

    /// The redundancy of new datasets.
    pub fn redundancy(&self) -> Redundancy {
        self.redundancy
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

    /// Room and use of each drive. Use counts only datasets whose manifests can be read.
    ///
    /// # Errors
    /// A drive cannot be examined.
    pub fn status(&self) -> Result<Vec<DriveStatus>> {
        let names = self.names()?;
        let readable = names.iter().filter_map(|name| self.manifest(name).ok());
        let manifests: Vec<Manifest> = readable.collect();
        let used = |index: usize| {
            let shares = manifests.iter().filter_map(|found| found.shares.get(index));
            shares.map(|share| share.len_bytes).sum::<u64>()
        };
        let used: Vec<u64> = (0..self.drives.len()).map(used).collect();
        let wanted = self.wanted_lens(&manifests);
        let status = self.drives.iter().enumerate().map(|(index, drive)| {
            let is_present = self.absent[index].is_none();
            let free_bytes = match is_present {
                true => self.device.free_bytes(&drive.dir),
                false => Ok(0),
            };
            Ok(DriveStatus {
                drive: drive.name.clone(),
                dir: drive.dir.clone(),
                is_present,
                free_bytes: free_bytes.map_err(|error| error.drive(&drive.name))?,
                used_bytes: used[index],
                share_bytes: wanted[index],
                standing: self.standings[index],
            })
        });
        status.collect()
    }

    /// Whether a dataset can be read without the drives that are absent.
    pub fn is_readable(&self, manifest: &Manifest) -> bool {
        match manifest.redundancy {
            Redundancy::None => self.absent_of(manifest).is_empty(),
            _ => self.absent_of(manifest).len() <= 1,
        }
    }

    /// The absent drives that a dataset uses: data on them cannot be read directly.
    pub fn absent_of<'m>(&self, manifest: &'m Manifest) -> Vec<&'m str> {
        let shares = manifest.shares.iter().enumerate();
        let absent = shares.filter(|(index, share)| {
            let is_absent = self.absent.get(*index).is_some_and(Option::is_some);
            is_absent && share.len_bytes > 0
        });
        absent.map(|(_, share)| share.drive.as_str()).collect()
    }

    /// Fails if some checksum blocks of a dataset, or their checksums, are on an absent drive, and
    /// no other drives replace it.
    fn check_reachable(&self, manifest: &Manifest, checksum_blocks: &Range<u64>) -> Result<()> {
        let absent = self.absent_of(manifest);
        let is_replaced = absent.len() == 1 && !manifest.redundancy.is_none();
        if absent.is_empty() || is_replaced {
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
            if manifest.redundancy.is_none() {
                return Some(label::refusal(&operation, drive, error));
            }
            let cause = format!(
                "drives {} are missing, but its {} makes up for only one",
                absent.join(" and "),
                manifest.redundancy.name()
            );
            let error = Error::new(error.kind(), operation, cause).drive(&drive.name);
            Some(error.hint("mount all but one of them"))
        });
        needed.next().map_or(Ok(()), Err)
    }

    /// Removes the files of a dataset that no manifest names any more. Continues after a failure; a
    /// missing file is not a failure.
    fn remove_shares(&self, id: &str) -> Result<()> {
        let removed = self.present().map(|index| {
            let path = self.share_path(id, index);
            match self.device.remove(&path) {
                Err(error) if error.raw_errno() == Some(Errno::NOENT.raw_os_error()) => Ok(()),
                removed => removed.map_err(|error| error.drive(&self.drives[index].name)),
            }
        });
        let all: Vec<Result<()>> = removed.collect();
        all.into_iter().collect()
    }

    /// Removes the leftovers of killed runs, and finishes their commits; does nothing while a drive
    /// is missing.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn sweep(&self) -> Result<()> {
        match self.missing().next() {
            Some(_) => Ok(()),
            None => label::sweep(&self.device, self.present_drives()),
        }
    }

    /// The striped volume of a dataset's shares, as files at `path_of`.
    fn members(&self, shares: &[Share], path_of: impl Fn(usize) -> PathBuf) -> Vec<Member> {
        let members = self.drives.iter().zip(shares).enumerate();
        members
            .map(|(index, (drive, share))| Member {
                name: drive.name.clone(),
                path: path_of(index),
                is_absent: self.absent[index].is_some() || !share.is_used(),
                weight: share.weight,
                capacity_bytes: Some(share.capacity_bytes),
                file_bytes: Some(share.len_bytes),
                tags: Some(drive.tags),
                controller: drive.controller.clone(),
            })
            .collect()
    }
}

/// Rejects a drive that is a block device, because datasets are files. If the directory is missing,
/// returns the system's error.
fn refuse_what_is_no_directory(
    operation: &str,
    drive: &VolumeDrive,
) -> Result<Option<std::io::Error>> {
    match paths::facts(&drive.dir) {
        Ok(facts) if !facts.is_dir() => Err(Error::usage(
            operation,
            "not a directory, but a drive of a volume must be one",
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

/// Rejects an invalid dataset name.
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

    /// The dataset that `path` names; `None` if it names a file.
    ///
    /// # Errors
    /// Usage for an invalid name.
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
        redundancy: manifest.redundancy,
        ..StripeOptions::default()
    }
}

/// Opens the shares of a sealed dataset for reading.
fn open_shares(volume: &DatasetVolume, manifest: &Manifest) -> Result<StripedVolume> {
    open_shares_without(volume, manifest, None)
}

/// Like `open_shares`, as if a drive were absent.
fn open_shares_without(
    volume: &DatasetVolume,
    manifest: &Manifest,
    absent: Option<usize>,
) -> Result<StripedVolume> {
    let names = manifest.shares.iter().map(|share| &share.drive);
    if !names.eq(volume.drives.iter().map(|drive| &drive.name)) {
        let cause = format!(
            "@{} uses drives that the volume does not have",
            manifest.name
        );
        return Err(Error::corrupt("open dataset", cause).hint("look at the drives file"));
    }
    let path_of = |index| volume.share_path(&manifest.id, index);
    let mut members = volume.members(&manifest.shares, path_of);
    if !manifest.redundancy.is_none() {
        // Reads compute the lost parts of a share from the others.
        for (index, member) in members.iter_mut().enumerate() {
            member.file_bytes = Some(0);
            member.is_absent |= absent == Some(index);
            member.is_absent |= folder::is_lost(&member.path);
        }
    }
    loop {
        let opened = StripedVolume::open_for_reading(
            Arc::clone(&volume.device),
            &members,
            stripe_options(manifest),
        );
        // A share may disappear between the check and the opening, because its drive is being
        // replaced.
        let is_gone = |error: &&Error| error.raw_errno() == Some(Errno::NOENT.raw_os_error());
        let error = opened.as_ref().err().filter(is_gone);
        let gone = error.and_then(|error| error.file_path());
        let is_of = |member: &&mut Member| !member.is_absent && gone == Some(&member.path);
        match members.iter_mut().find(is_of) {
            Some(member) if !manifest.redundancy.is_none() => member.is_absent = true,
            _ => return opened,
        }
    }
}

/// The `place` of the metadata of one drive of a volume.
fn place_of(volume: &str, drive: &str) -> String {
    format!("volume {volume}, drive {drive}")
}
