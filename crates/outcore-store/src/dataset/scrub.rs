//! Reads all datasets of a volume and repairs the bytes that other drives can replace.
//!
//! Contract: [`DatasetVolume::scrub`] continues after damage and lists all of it, in labels,
//! folders, manifests and contents. Labels and manifests have copies on all drives. Contents are
//! repaired if the dataset has redundancy ([`super::heal`]). Two scrubs, or a scrub and other
//! commands, may run at the same time.
//!
//! Bounds: those of a reader.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::damage::Damage;
use super::manifest::Manifest;
use super::{DatasetVolume, PassResources, Watch};
use outcore_io::drive::folder;
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::Budget;

/// How often a scrub rereads a dataset that others are changing, and how long it waits in between.
const CHANGES_MAX: u32 = 50;
const CHANGE_WAIT: Duration = Duration::from_millis(20);

impl DatasetVolume {
    /// Reads all of every dataset in `names`, or of all datasets. Returns everything that is
    /// damaged or unreadable, including manifests, labels and missing files. Labels and copies of
    /// manifests that are damaged, lost or old are rewritten from those on other drives, and so are
    /// the contents of datasets with redundancy.
    ///
    /// # Errors
    /// A name that does not exist; a drive that is missing or cannot be read; memory; a stop.
    pub fn scrub(
        &self,
        names: &[String],
        budget: &Budget,
        watch: Watch<'_>,
    ) -> Result<Vec<Damage>> {
        let mut damages = Vec::new();
        for (index, path) in self.repair_labels()? {
            let len_bytes = folder::len_bytes(&path).unwrap_or(0);
            let drive = &self.drives[index].name;
            damages.push(Damage {
                is_repaired: true,
                ..Damage::of_file("", drive, &path, len_bytes)
            });
        }
        if !damages.is_empty() {
            let opened = DatasetVolume::open(Arc::clone(&self.device), self.drives.clone())?;
            damages.extend(opened.scrub(names, budget, watch)?);
            return Ok(damages);
        }
        // Sweeps as far as possible without the folders.
        let _ = self.sweep();
        damages.append(&mut self.repair_folders()?);
        self.sweep()?;
        let all = match names {
            [] => self.names()?,
            names => names.to_vec(),
        };
        for name in &all {
            self.scrub_copies(name, &mut damages)?;
            damages.extend(self.scrub_contents(
                name,
                names.is_empty(),
                PassResources { budget, watch },
            )?);
        }
        Ok(damages)
    }

    /// Repairs the copies of a manifest. Copies may differ because another process is changing the
    /// dataset or was killed while doing so; they are not damaged if the difference passes.
    fn scrub_copies(&self, name: &str, damages: &mut Vec<Damage>) -> Result<()> {
        let mut found = self.repair_copies(name)?;
        for _ in 0..CHANGES_MAX {
            if found.iter().all(|bad| bad.is_repaired) || !self.is_being_changed()? {
                break;
            }
            std::thread::sleep(CHANGE_WAIT);
            self.sweep()?;
            found = self.repair_copies(name)?;
        }
        damages.extend(found.into_iter().map(|bad| {
            let drive = &self.drives[bad.drive_index].name;
            Damage {
                is_repaired: bad.is_repaired,
                ..Damage::of_file(name, drive, &bad.path, bad.len_bytes)
            }
        }));
        Ok(())
    }

    /// The damage of a dataset's contents. A dataset that was replaced after its manifest was read
    /// is read again. A dataset that was removed in the meantime has no damage if its name comes
    /// from a list (`is_listed`), not from the caller.
    fn scrub_contents(
        &self,
        name: &str,
        is_listed: bool,
        resources: PassResources<'_>,
    ) -> Result<Vec<Damage>> {
        let mut changes = 0;
        loop {
            let mut damages = Vec::new();
            let manifest = match self.manifest(name) {
                Err(_) if is_listed && !self.contains(name) => return Ok(damages),
                manifest => manifest,
            };
            let done = match &manifest {
                Ok(manifest) => self.scrub_one(manifest, resources, &mut damages),
                Err(error) => Err(error.clone()),
            };
            if done.is_ok() && damages.iter().all(|damage| damage.is_repaired) {
                return Ok(damages);
            }
            let generation_of = |found: &Result<Manifest>| {
                found
                    .as_ref()
                    .map(|found| (found.id.clone(), found.generation))
                    .ok()
            };
            changes += 1;
            // A manifest that was gone and is back means that the dataset was replaced.
            let is_replaced = generation_of(&manifest) != generation_of(&self.manifest(name));
            if is_replaced && changes < CHANGES_MAX {
                continue;
            }
            if let Err(error) = done {
                damages.push(damage_of(name, manifest.as_ref().ok(), &error).ok_or(error)?);
            }
            return Ok(damages);
        }
    }

    fn scrub_one(
        &self,
        manifest: &Manifest,
        resources: PassResources<'_>,
        damages: &mut Vec<Damage>,
    ) -> Result<()> {
        if !manifest.redundancy.is_none() {
            return self.heal(manifest, resources, damages);
        }
        let mut reader =
            self.range_reader(manifest, 0, manifest.payload_bytes(), resources.budget)?;
        damages.append(&mut reader.read_leniently(resources.watch)?);
        Ok(())
    }
}

/// The damage that a scrub records for an error in a file's contents: the rest of the file.
fn damage_of(name: &str, manifest: Option<&Manifest>, error: &Error) -> Option<Damage> {
    let is_of_contents = match error.raw_errno().map(Errno::from_raw_os_error) {
        None => error.kind() == Kind::Corrupt,
        Some(errno) => [Errno::NOENT, Errno::IO].contains(&errno),
    };
    let (path, drive) = error.file_path().zip(error.drive_name())?;
    let found_bytes = folder::len_bytes(path).unwrap_or(0);
    let mut shares = manifest.into_iter().flat_map(|manifest| &manifest.shares);
    let share = shares.find(|share| share.drive == drive);
    let wanted_bytes = share.map_or(found_bytes, |share| share.len_bytes);
    let from_bytes = if found_bytes < wanted_bytes {
        found_bytes
    } else {
        0
    };
    let offset_bytes = error.offset_bytes().unwrap_or(from_bytes);
    is_of_contents.then(|| Damage {
        dataset: name.to_string(),
        drive: drive.to_string(),
        path: path.display().to_string(),
        offset_bytes,
        len_bytes: wanted_bytes.max(found_bytes).saturating_sub(offset_bytes),
        is_repaired: false,
    })
}
