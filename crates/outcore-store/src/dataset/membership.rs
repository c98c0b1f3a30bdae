//! The drives of a volume: which are present, which take new data, and how their set changes.
//!
//! Contract: a drive joins at the end of the list of drives, and can leave it from any position.
//! One commit changes all labels that are present, and increases their counts. A drive that is to
//! leave is first [`Standing::Leaving`]: new datasets do not use it. If it is missing, it is
//! [`Standing::Lost`]: outcore never reads from it again, even if it comes back, and can write to
//! the other drives. The set does not change while a job is known to write. A command that opened
//! the volume before a change and writes after it publishes nothing.
//!
//! Bounds: one label per drive.

use std::path::Path;

use serde::Serialize;

use super::{DatasetVolume, VolumeDrive};
use crate::mapping::{StripeMap, StripeMember};
use outcore_io::drive::folder;
use outcore_io::error::{Error, Kind, Result};

/// Assumed room per drive when a layout is tried before there are data.
const EXAMPLE_BYTES: u64 = 1 << 40;

/// The role of a drive in its volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It has data and takes new data.
    Full,
    /// It is being removed: it has data and takes no new data.
    Leaving,
    /// It is being removed and was missing: its data can be read only if they can be computed from
    /// other drives.
    Lost,
}

impl Standing {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Full => "full",
            Standing::Leaving => "leaving",
            Standing::Lost => "lost",
        }
    }
}

/// The reason why a lost drive cannot be used.
pub(super) fn lost(drive: &VolumeDrive) -> Error {
    Error::new(
        Kind::Io,
        "open volume",
        "it is being removed from the volume",
    )
    .drive(&drive.name)
    .path(&drive.dir)
}

impl DatasetVolume {
    /// The absent drives with the reasons.
    pub fn absent(&self) -> impl Iterator<Item = (&VolumeDrive, &Error)> {
        let drives = self.drives.iter().zip(self.absent.iter());
        drives.filter_map(|(drive, error)| Some((drive, error.as_ref()?)))
    }

    /// The absent drives that are not lost. Until they are back, nothing is written.
    pub fn missing(&self) -> impl Iterator<Item = (&VolumeDrive, &Error)> {
        let lost = self.names_with(Standing::Lost);
        self.absent()
            .filter(move |(drive, _)| !lost.contains(&drive.name))
    }

    /// The drives that are present.
    pub fn present_drives(&self) -> impl Iterator<Item = &VolumeDrive> + Clone {
        self.present().map(|index| &self.drives[index])
    }

    /// The numbers of the drives that are present.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.drives.len()).filter(|index| self.absent[*index].is_none())
    }

    /// The names of the drives with a standing.
    pub fn names_with(&self, standing: Standing) -> Vec<String> {
        let drives = self.drives.iter().zip(&*self.standings);
        let named = drives.filter(|(_, found)| **found == standing);
        named.map(|(drive, _)| drive.name.clone()).collect()
    }

    /// Whether new datasets use a drive.
    pub(super) fn takes_data(&self, index: usize) -> bool {
        self.absent[index].is_none() && self.standings[index] == Standing::Full
    }

    /// The number of the drive of that name.
    ///
    /// # Errors
    /// Usage: there is none.
    pub(super) fn index_of(&self, operation: &str, drive: &str) -> Result<usize> {
        let mut names = self.drives.iter().map(|drive| drive.name.as_str());
        names.position(|name| name == drive).ok_or_else(|| {
            let names: Vec<&str> = self.drives.iter().map(|drive| &drive.name[..]).collect();
            let cause = format!("the volume has no drive `{drive}`");
            Error::usage(operation, cause).hint(format!("its drives are {}", names.join(", ")))
        })
    }

    /// The reason why a directory cannot belong to a drive of the volume, given the directories of
    /// all drives except for `except`.
    pub(super) fn conflict(&self, dir: &Path, except: Option<usize>) -> Option<String> {
        let others = || {
            self.drives
                .iter()
                .enumerate()
                .filter(|(at, _)| Some(*at) != except)
        };
        if others().any(|(_, other)| folder::is_same(&other.dir, dir)) {
            return Some("it belongs to another drive of the volume".to_string());
        }
        let is_own = except.is_some_and(|index| folder::is_same(&self.drives[index].dir, dir));
        let mut around = others().filter(|(_, other)| folder::is_inside(dir, &other.dir));
        let (_, other) = around.next().filter(|_| !is_own)?;
        let name = &other.name;
        Some(format!(
            "it is inside drive {name}, and would be lost with it"
        ))
    }

    /// Fails if too few or too many drives take new data.
    pub(super) fn check_layout(&self) -> Result<()> {
        let full = self.drives.iter().zip(&*self.standings);
        let full = full.filter(|(_, standing)| **standing == Standing::Full);
        let members: Vec<StripeMember> = full
            .map(|(drive, _)| StripeMember {
                capacity_bytes: EXAMPLE_BYTES,
                weight: drive.weight,
            })
            .collect();
        StripeMap::with_redundancy(&members, self.stripe_bytes, 0, self.redundancy).map(|_| ())
    }

    /// The volume with another drive.
    pub(super) fn with_drive(&self, drive: VolumeDrive) -> Self {
        let and = |counts: &[u64], count: u64| [counts, &[count]].concat().into();
        DatasetVolume {
            drives: [&self.drives[..], &[drive]].concat(),
            absent: [&self.absent[..], &[None]].concat().into(),
            // A higher count than that of any earlier drive of the same name.
            replacements: and(&self.replacements, self.changes),
            standings: [&self.standings[..], &[Standing::Full]].concat().into(),
            changes: self.changes + 1,
            ..self.clone()
        }
    }

    /// The volume without a drive.
    pub(super) fn without_drive(&self, index: usize) -> Self {
        fn rest<T: Clone>(all: &[T], index: usize) -> Vec<T> {
            [&all[..index], &all[index + 1..]].concat()
        }
        DatasetVolume {
            drives: rest(&self.drives, index),
            absent: rest(&self.absent, index).into(),
            replacements: rest(&self.replacements, index).into(),
            standings: rest(&self.standings, index).into(),
            changes: self.changes.max(self.replacements[index]) + 1,
            ..self.clone()
        }
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

    /// The volume with another standing of a drive.
    pub(super) fn with_standing(&self, index: usize, standing: Standing) -> Self {
        let mut changed = self.clone();
        if self.standings[index] == standing {
            return changed;
        }
        let at = |found: usize| found == index;
        let standings = self.standings.iter().enumerate();
        let standings = standings.map(|(found, old)| if at(found) { standing } else { *old });
        changed.standings = standings.collect();
        if standing == Standing::Lost {
            let absent = self
                .absent
                .iter()
                .enumerate()
                .map(|(found, error)| match at(found) {
                    true => Some(lost(&self.drives[index])),
                    false => error.clone(),
                });
            changed.absent = absent.collect();
            // If the lost drive comes back, its label has the lower count and is ignored.
            changed.changes += 1;
        }
        changed
    }

    /// Fails while another job writes to the volume, because that job could not publish after a
    /// change of the set of drives. The caller holds the lock on names, and has swept.
    pub(super) fn check_no_writers(&self, operation: &str) -> Result<()> {
        if !self.is_being_changed()? {
            return Ok(());
        }
        let cause = "a job is writing to the volume, and could not end after the drives changed";
        Err(Error::usage(operation, cause)
            .hint("repeat the command when that job has ended: it continues"))
    }

    /// Writes the labels of all drives that are present. The caller holds the lock on names.
    pub(super) fn write_all_labels(&self) -> Result<()> {
        self.write_labels(&self.present().collect::<Vec<_>>())
    }
}
