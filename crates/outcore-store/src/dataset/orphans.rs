//! Orphans: data files that belong to no dataset, because the manifest that named them is lost.
//!
//! Contract: [`DatasetVolume::orphans`] finds them. [`DatasetVolume::remove_orphans`] removes them
//! only if they certainly belong to no dataset. Every manifest must identify its files. No private
//! directory may exist, because its owner may have committed files that have no names yet.
//!
//! Bounds: one directory listing per drive, one identity per dataset in memory.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::{DATA, DatasetVolume};
use outcore_io::drive::paths;
use outcore_io::error::{Error, Result};

const LIST: &str = "list files of data";
const REMOVE: &str = "remove orphans";

/// A data file that no manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Orphan {
    /// The drive.
    pub drive: String,
    /// The file on it.
    pub path: PathBuf,
    /// Its length.
    pub len_bytes: u64,
}

impl DatasetVolume {
    /// The files that belong to no dataset, by drive. They include the files of datasets whose
    /// manifests do not identify them. While a drive is missing or damaged, or after the drives
    /// have changed, the orphans are unknown, and the list is empty.
    ///
    /// # Errors
    /// A drive cannot be read.
    pub fn orphans(&self) -> Result<Vec<Orphan>> {
        if self.missing().next().is_some() {
            return Ok(Vec::new());
        }
        self.sweep()?;
        let _lock = match self.lock_names() {
            Err(_) if self.check_complete(LIST).is_err() => return Ok(Vec::new()),
            lock => lock?,
        };
        self.find_orphans(&self.ids()?.0)
    }

    /// Removes those files; returns their total size.
    ///
    /// # Errors
    /// [`outcore_io::Kind::Usage`] if other datasets' files could be among them; a drive is
    /// missing; I/O.
    pub fn remove_orphans(&self) -> Result<u64> {
        self.check_complete(REMOVE)?;
        self.sweep()?;
        let _lock = self.lock_names()?;
        if self.is_being_changed()? {
            let cause = "a dataset is being written, or the remains of one cannot be removed";
            return Err(
                Error::usage(REMOVE, cause).hint("try again when no program writes to the volume")
            );
        }
        let (ids, untold) = self.ids()?;
        if let Some(name) = untold {
            let cause = format!("the manifest of @{name} does not list its files");
            return Err(Error::usage(REMOVE, cause)
                .path(self.manifest_path(&name, 0))
                .hint(format!("remove it first: `outcore volume rm @{name}`")));
        }
        let mut freed_bytes = 0;
        for orphan in self.find_orphans(&ids)? {
            let removed = self.device().remove(&orphan.path);
            removed.map_err(|error| error.drive(&orphan.drive))?;
            freed_bytes += orphan.len_bytes;
        }
        Ok(freed_bytes)
    }

    /// The identities of all datasets, from any copy of their manifests, and the name of a dataset
    /// whose manifests do not contain it.
    fn ids(&self) -> Result<(HashSet<String>, Option<String>)> {
        let (mut ids, mut untold) = (HashSet::new(), None);
        for name in self.names()? {
            let said = self.ids_said_of(&name);
            if said.is_empty() {
                untold = Some(name);
            }
            ids.extend(said);
        }
        Ok((ids, untold))
    }

    fn find_orphans(&self, ids: &HashSet<String>) -> Result<Vec<Orphan>> {
        let mut orphans = Vec::new();
        for index in self.present() {
            let drive = &self.drives()[index];
            for path in self.entries_of(index, DATA)? {
                let name = path.file_name().and_then(|name| name.to_str());
                if name.is_some_and(|name| ids.contains(name)) {
                    continue;
                }
                orphans.push(Orphan {
                    drive: drive.name.clone(),
                    len_bytes: paths::len_or_zero(&path),
                    path,
                });
            }
        }
        Ok(orphans)
    }

    /// The entries of a folder of a drive, by name.
    fn entries_of(&self, index: usize, folder: &str) -> Result<Vec<PathBuf>> {
        let dir = self.folder(index).join(folder);
        let list = || -> io::Result<Vec<PathBuf>> {
            let entries = paths::entries(&dir)?.map(|entry| Ok(entry?.path()));
            let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
            paths.sort();
            Ok(paths)
        };
        let listed = list().or_else(|error| match error.kind() {
            // A folder that is lost has no files; a scrub makes it again.
            io::ErrorKind::NotFound => Ok(Vec::new()),
            _ => Err(error),
        });
        listed.map_err(|error| {
            let drive = &self.drives()[index].name;
            Error::io(LIST, &error).drive(drive).path(&dir)
        })
    }
}
