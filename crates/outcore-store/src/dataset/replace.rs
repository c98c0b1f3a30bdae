//! Gives the place of a drive to another directory and rebuilds its contents there.
//!
//! Contract: [`DatasetVolume::replace`] collects everything in the folder [`FOLDER_IN_PROGRESS`] of
//! the new directory. It renames that folder to [`FOLDER`] when it is complete and durable, so the
//! drive is either absent or whole. The drive keeps its name, so manifests stay valid, and the
//! labels of all drives count the replacement. A writer that began before fails when it publishes;
//! the caller then names the new directory in the drives file. The same call after a kill
//! continues: a share that is complete has its final name, and a note records how much of the share
//! in progress is durable. Contents come from the other drives, never from the old one.
//!
//! Without redundancy, or where a second drive has lost bytes, contents cannot be computed. The
//! call then fails. If the caller accepts the loss, the missing contents become damage that later
//! reads find.
//!
//! Bounds: those of [`super::rebuild`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::damage::Damage;
use super::label::{self, LABEL};
use super::manifest::Manifest;
use super::membership::Standing;
use super::rebuild::Rebuild;
use super::{DATA, DATASETS, DatasetVolume, FOLDER, PassResources, Watch};
use outcore_io::drive::folder::{self, FolderLock};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::Budget;

const REPLACE: &str = "replace drive";
/// Folder of a drive that is not complete yet.
pub(crate) const FOLDER_IN_PROGRESS: &str = "outcore-volume.in-progress";
/// Folder of a drive that has been replaced, if it can still be renamed.
pub(crate) const FOLDER_REPLACED: &str = "outcore-volume.replaced";
/// The share that is being rebuilt, and the note of how much of it is durable.
const PART: &str = "part";
const NOTE: &str = "progress";

/// A drive that is to be replaced.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// Its name.
    pub drive: &'a str,
    /// The directory that takes its place. It may be the same one, on a new drive.
    pub dir: &'a Path,
    /// Whether contents that cannot be computed are given up.
    pub gives_up: bool,
}

/// The result of replacing a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The directory, absolute.
    pub dir: PathBuf,
    /// Bytes that were rebuilt now, without those of earlier runs.
    pub rebuilt_bytes: u64,
    /// The folder of the old drive under its new name, if that drive could be renamed.
    pub set_aside: Option<PathBuf>,
    /// The contents that were given up.
    pub damages: Vec<Damage>,
    /// Whether an earlier run had replaced the drive, and nothing was left to do.
    pub was_done: bool,
}

/// A replacement in progress.
struct Work<'a> {
    volume: &'a DatasetVolume,
    index: usize,
    dir: PathBuf,
    gives_up: bool,
    replaced: Replaced,
}

impl DatasetVolume {
    /// Upper bound of the bytes that the replacement of a drive writes.
    pub fn bytes_on(&self, drive: &str) -> u64 {
        let names = self.names().unwrap_or_default();
        let manifests = names.iter().filter_map(|name| self.manifest(name).ok());
        let shares = manifests.flat_map(|manifest| manifest.shares);
        let own = shares.filter(|share| share.drive == drive);
        own.map(|share| share.len_bytes).sum()
    }

    /// Rebuilds a drive in another directory.
    ///
    /// # Errors
    /// Usage: no drive of that name; a directory that is used already; a drive that is whole and in
    /// that directory. Another drive is missing. Contents that cannot be computed, unless they are
    /// given up. No room, I/O, a stop.
    pub fn replace(
        &self,
        wanted: Replacement<'_>,
        budget: &Budget,
        watch: Watch<'_>,
    ) -> Result<Replaced> {
        let index = self.index_to_replace(wanted.drive)?;
        let volume = &self.settled(index)?;
        let index = volume.index_to_replace(wanted.drive)?;
        let dir = std::path::absolute(wanted.dir)
            .map_err(|error| Error::io(REPLACE, &error).path(wanted.dir))?;
        let mut work = Work {
            volume,
            index,
            gives_up: wanted.gives_up,
            replaced: Replaced {
                dir: dir.clone(),
                rebuilt_bytes: 0,
                set_aside: None,
                damages: Vec::new(),
                was_done: false,
            },
            dir,
        };
        let done = work.run(PassResources { budget, watch });
        done.map_err(|error| match error.drive_name() {
            None => error.drive(wanted.drive),
            Some(_) => error,
        })?;
        Ok(work.replaced)
    }

    /// The number of a drive that can be replaced now.
    fn index_to_replace(&self, drive: &str) -> Result<usize> {
        let index = self.index_of(REPLACE, drive)?;
        if self.standings[index] == Standing::Lost {
            return Err(Error::usage(REPLACE, "the drive is being removed")
                .drive(drive)
                .hint("finish with `outcore volume remove`, then add the directory"));
        }
        let mut others = self.missing().filter(|(other, _)| other.name != drive);
        match others.next() {
            Some((other, error)) => Err(label::refusal(REPLACE, other, error)),
            None => Ok(index),
        }
    }
}

impl Work<'_> {
    fn run(&mut self, resources: PassResources<'_>) -> Result<()> {
        let volume = self.volume;
        self.replaced.was_done = self.is_done()?;
        if self.replaced.was_done {
            return Ok(());
        }
        self.check_aside()?;
        let _lock = self.begin()?;
        for share in self.names_in(DATA)? {
            let path = self.in_progress().join(DATA).join(share);
            (resources.watch.advance)(folder::len_bytes(&path).unwrap_or(0));
        }
        // A drive that is full or read-only fails now, not after the work.
        drop(volume.stage_labels(&self.others())?);
        self.fill(resources)?;
        // No writer publishes from here on. One that began before finds the drive replaced.
        let _names = volume.lock_names().inspect_err(|_| self.clean_up())?;
        // If the old drive is still there, another command may have put more datasets in the
        // meantime.
        self.fill(resources)?;
        self.remove_others()?;
        self.publish()
    }

    /// Fails if the last step, renaming the folder of the old drive, would fail.
    fn check_aside(&self) -> Result<()> {
        let dir = &self.volume.drives[self.index].dir;
        let (old, aside) = (dir.join(FOLDER), dir.join(FOLDER_REPLACED));
        match old.exists() && aside.exists() {
            true => Err(Error::usage(
                REPLACE,
                "the folder of an earlier replacement is in the way",
            )
            .drive(&self.volume.drives[self.index].name)
            .path(aside)
            .hint(format!(
                "remove {FOLDER_REPLACED} there, if nothing in it is needed"
            ))),
            false => Ok(()),
        }
    }

    /// Removes the files that this run has rebuilt, if another run has replaced the drive in the
    /// meantime.
    fn clean_up(&self) {
        if self.volume.is_replaced_since(self.index) {
            // The error is reported already; the remaining files are only in the way.
            let _ = folder::remove_dirs(&self.in_progress());
        }
    }

    fn refused(&self, cause: &str) -> Error {
        Error::usage(REPLACE, cause)
            .drive(&self.volume.drives[self.index].name)
            .path(&self.dir)
    }

    /// The other drives, whose labels count the replacement.
    fn others(&self) -> Vec<usize> {
        let present = self.volume.present();
        present.filter(|other| *other != self.index).collect()
    }

    fn in_progress(&self) -> PathBuf {
        self.dir.join(FOLDER_IN_PROGRESS)
    }

    fn names_in(&self, inner: &str) -> Result<Vec<OsString>> {
        folder::names(&self.in_progress().join(inner))
    }

    /// Rejects a directory that cannot take the drive's place; true if the directory has already
    /// taken it.
    fn is_done(&self) -> Result<bool> {
        if !folder::is_dir(&self.dir)? {
            return Err(self.refused("not a directory, but a drive of a volume must be one"));
        }
        let volume = self.volume;
        let is_own = folder::is_same(&volume.drives[self.index].dir, &self.dir);
        if let Some(cause) = volume.conflict(&self.dir, Some(self.index)) {
            return Err(self
                .refused(&cause)
                .hint("name a directory on a drive of its own"));
        }
        if is_own && volume.absent[self.index].is_none() {
            // A run that was killed at its end may be repeated.
            if volume.replacements[self.index] > 0 {
                return Ok(true);
            }
            return Err(self
                .refused("the drive is there and has its label: there is nothing to replace")
                .hint("`outcore volume scrub` repairs damage; name another directory to move it"));
        }
        if is_own || !self.dir.join(FOLDER).exists() {
            return Ok(false);
        }
        let label = self.dir.join(FOLDER).join(LABEL);
        match volume.replacements_at(&label, self.index) {
            Some(count) if count == volume.replacements[self.index] => Ok(true),
            Some(_) => Err(self
                .refused("it holds the contents of the drive from before a replacement")
                .hint(format!("remove {FOLDER} there, or name another directory"))),
            None => Err(self
                .refused("it belongs to a volume already")
                .hint("name another directory")),
        }
    }

    /// Makes the folder, or finds that of a killed run; locks it.
    fn begin(&self) -> Result<FolderLock> {
        let in_progress = self.in_progress();
        for inner in [DATA, DATASETS] {
            folder::make_dirs(&in_progress.join(inner))?;
        }
        let Some(lock) = folder::lock(&in_progress)? else {
            return Err(self
                .refused("another command is replacing the drive there")
                .hint("wait for it"));
        };
        let label = in_progress.join(LABEL);
        match self.volume.replacements_at(&label, self.index) {
            Some(_) => {}
            None if !label.exists() => self.write_label(self.volume)?,
            None => {
                return Err(self
                    .refused("it holds an unfinished replacement of another drive")
                    .hint(format!("remove {FOLDER_IN_PROGRESS} there")));
            }
        }
        Ok(lock)
    }

    /// Rebuilds the shares and copies the manifests of all datasets that are not there yet.
    fn fill(&mut self, resources: PassResources<'_>) -> Result<()> {
        for name in self.volume.names()? {
            let manifest = match self.volume.manifest(&name) {
                Ok(manifest) => manifest,
                // It was removed in the meantime.
                Err(_) if !self.volume.contains(&name) => continue,
                Err(error) if self.gives_up && error.kind() == Kind::Corrupt => continue,
                Err(error) => return Err(error),
            };
            let share = self.in_progress().join(DATA).join(&manifest.id);
            if manifest.shares[self.index].is_used() && !share.exists() {
                self.rebuild(&manifest, &share, resources)?;
            }
            let copy = self
                .in_progress()
                .join(DATASETS)
                .join(format!("{name}.json"));
            let sealed = manifest.seal(&self.volume.place(self.index))?;
            if folder::read(&copy)?.as_ref() != Some(&sealed) {
                self.write_file(&copy, &sealed)?;
            }
        }
        Ok(())
    }

    /// Removes files that belong to no dataset any more.
    fn remove_others(&self) -> Result<()> {
        let (mut ids, mut copies) = (Vec::new(), Vec::new());
        for name in self.volume.names()? {
            ids.extend(self.volume.ids_said_of(&name));
            copies.push(format!("{name}.json"));
        }
        for (inner, kept) in [(DATA, ids), (DATASETS, copies)] {
            for name in self.names_in(inner)? {
                if !kept.iter().any(|kept| name == kept.as_str()) {
                    folder::remove_file(&self.in_progress().join(inner).join(name))?;
                }
            }
        }
        folder::remove_file(&self.in_progress().join(PART))?;
        folder::remove_file(&self.in_progress().join(NOTE))
    }

    fn rebuild(
        &mut self,
        manifest: &Manifest,
        share: &Path,
        resources: PassResources<'_>,
    ) -> Result<()> {
        let len_bytes = manifest.shares[self.index].len_bytes;
        if manifest.redundancy.is_none() && len_bytes > 0 {
            return self.give_up(manifest, share);
        }
        let (part, note) = (self.in_progress().join(PART), self.in_progress().join(NOTE));
        let noted = folder::read(&note)?.and_then(|text| String::from_utf8(text).ok());
        let noted = noted.unwrap_or_default();
        let is_whole = folder::len_bytes(&part).is_some_and(|len| len >= len_bytes);
        let groups_done = match noted.trim().split_once(' ') {
            Some((id, groups)) if id == manifest.id && is_whole => groups.parse().unwrap_or(0),
            _ => 0,
        };
        if groups_done == 0 {
            folder::remove_file(&part)?;
        }
        let rebuild = Rebuild {
            volume: self.volume,
            manifest,
            index: self.index,
            path: &part,
            groups_done,
            is_lenient: self.gives_up,
        };
        let noted = |groups: u64| {
            let text = format!("{} {groups}\n", manifest.id);
            self.write_file(&note, text.as_bytes())
        };
        let rebuilt = rebuild.run(resources, &mut &noted)?;
        self.volume.protect_share(manifest, &part)?;
        folder::rename(&part, share)?;
        self.replaced.damages.extend(rebuilt.damages);
        self.replaced.rebuilt_bytes += rebuilt.bytes;
        Ok(())
    }

    /// Records the share of a dataset without redundancy as lost. Fails if the caller does not give
    /// it up.
    fn give_up(&mut self, manifest: &Manifest, share: &Path) -> Result<()> {
        let volume = self.volume;
        let drive = &volume.drives[self.index].name;
        if !self.gives_up {
            let cause = format!(
                "@{} has no redundancy: what drive {drive} held is lost",
                manifest.name
            );
            return Err(Error::corrupt(REPLACE, cause).drive(drive).hint(
                "if the old drive can be read, copy its directory there with `cp -a` and name it in \
                 the drives file; `outcore volume replace` can also give up the data on it",
            ));
        }
        let len_bytes = manifest.shares[self.index].len_bytes;
        let damage = Damage::of_file(&manifest.name, drive, share, len_bytes);
        if !self.replaced.damages.contains(&damage) {
            self.replaced.damages.push(damage);
        }
        Ok(())
    }

    /// Writes a small file durably.
    fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        folder::write_durably(path, &self.in_progress().join("staged"), bytes)
    }

    fn write_label(&self, volume: &DatasetVolume) -> Result<()> {
        let sealed = volume.seal_label(&volume.drives[self.index])?;
        self.write_file(&self.in_progress().join(LABEL), &sealed)
    }

    /// Counts the replacement in all labels, and gives the folder its name. The count identifies
    /// the old drive wherever it appears.
    fn publish(&mut self) -> Result<()> {
        let in_progress = self.in_progress();
        let counted = self.volume.with_replacement(self.index);
        self.write_label(&counted)?;
        for dir in [in_progress.join(DATA), in_progress.join(DATASETS)] {
            folder::sync(&dir)?;
        }
        folder::sync(&in_progress)?;
        counted.write_labels(&self.others())?;
        let drive = &self.volume.drives[self.index];
        let (old, aside) = (drive.dir.join(FOLDER), drive.dir.join(FOLDER_REPLACED));
        if old.exists() {
            // Commands that still have the old drive open fail from here on.
            folder::rename(&old, &aside)
                .map_err(|error| error.hint(format!("remove {FOLDER_REPLACED} there")))?;
            self.replaced.set_aside = Some(aside);
        }
        folder::rename(&in_progress, &self.dir.join(FOLDER))?;
        folder::sync(&self.dir)
    }
}
