//! Gives the place of a drive to another directory and rebuilds its contents there.
//!
//! Contract: [`DatasetVolume::replace`] collects everything in the folder [`FOLDER_IN_PROGRESS`] of
//! the new directory and renames that folder to [`FOLDER`] when it is complete and durable, so the
//! drive is either absent or whole. The drive keeps its name, so labels and manifests stay valid;
//! the caller then names the new directory in the drives file. The same call after a kill
//! continues: a share that is complete has its final name, and a note says how much of the one in
//! progress is durable. Contents come from the other drives, never from the old one.
//!
//! Without redundancy, or where a second drive has lost bytes, contents cannot be computed. This is
//! an error, or, if the caller accepts it, damage that later reads find.
//!
//! Bounds: those of [`super::rebuild`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::label::{self, LABEL};
use super::manifest::Manifest;
use super::reader::Damage;
use super::rebuild::Rebuild;
use super::{DATA, DATASETS, DatasetVolume, FOLDER, Watch};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::Budget;

const REPLACE: &str = "replace drive";
/// Folder of a drive that is not complete yet.
pub const FOLDER_IN_PROGRESS: &str = "outcore-volume.in-progress";
/// Folder of a drive that has been replaced, if it can still be renamed.
pub const FOLDER_REPLACED: &str = "outcore-volume.replaced";
/// The share that is being rebuilt, and how much of it is durable.
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
    /// What was given up.
    pub damages: Vec<Damage>,
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
    /// Bytes that the replacement of a drive writes, at most.
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
        let index = self
            .drives
            .iter()
            .position(|drive| drive.name == wanted.drive);
        let Some(index) = index else {
            let names: Vec<&str> = self
                .drives
                .iter()
                .map(|drive| drive.name.as_str())
                .collect();
            let cause = format!("the volume has no drive `{}`", wanted.drive);
            return Err(
                Error::usage(REPLACE, cause).hint(format!("its drives are {}", names.join(", ")))
            );
        };
        let mut others = self
            .absent()
            .filter(|(drive, _)| drive.name != wanted.drive);
        if let Some((drive, error)) = others.next() {
            return Err(label::refusal(REPLACE, drive, error));
        }
        let dir = std::path::absolute(wanted.dir)
            .map_err(|error| Error::io(REPLACE, &error).path(wanted.dir))?;
        let mut work = Work {
            volume: self,
            index,
            gives_up: wanted.gives_up,
            replaced: Replaced {
                dir: dir.clone(),
                rebuilt_bytes: 0,
                set_aside: None,
                damages: Vec::new(),
            },
            dir,
        };
        if work.check_dir()? {
            return Ok(work.replaced);
        }
        // Finishes what a killed command has committed.
        for other in self.present().filter(|other| *other != index) {
            let swept = self.device.sweep_private_dirs(&self.folder(other));
            swept.map_err(|error| error.drive(&self.drives[other].name))?;
        }
        let _lock = work.begin()?;
        watch_skipped(&work, watch)?;
        work.fill((budget, watch))?;
        let _names = self.lock_names()?;
        // Another command may have put more in the meantime, if the old drive is still there.
        work.fill((budget, watch))?;
        work.remove_others()?;
        work.publish()?;
        Ok(work.replaced)
    }
}

impl Work<'_> {
    fn failed(&self, path: &Path) -> impl Fn(io::Error) -> Error + use<> {
        let (drive, path) = (
            self.volume.drives[self.index].name.clone(),
            path.to_path_buf(),
        );
        move |error| Error::io(REPLACE, &error).drive(&drive).path(&path)
    }

    fn refused(&self, cause: &str) -> Error {
        Error::usage(REPLACE, cause)
            .drive(&self.volume.drives[self.index].name)
            .path(&self.dir)
    }

    fn in_progress(&self) -> PathBuf {
        self.dir.join(FOLDER_IN_PROGRESS)
    }

    /// Rejects a directory that cannot take the drive's place; true if it already has.
    fn check_dir(&self) -> Result<bool> {
        let facts = fs::metadata(&self.dir).map_err(self.failed(&self.dir))?;
        if !facts.is_dir() {
            return Err(self.refused("not a directory, but a drive of a volume must be one"));
        }
        let is_dir = |drive: &super::VolumeDrive| is_same_file(&drive.dir, &self.dir);
        let volume = self.volume;
        let own = is_dir(&volume.drives[self.index]);
        let is_other = |index: &usize| *index != self.index && is_dir(&volume.drives[*index]);
        if (0..volume.drives.len()).any(|index| is_other(&index)) {
            return Err(self.refused("it belongs to another drive of the volume"));
        }
        if own && volume.absent[self.index].is_none() {
            return Err(self
                .refused("the drive is there and has its label: there is nothing to replace")
                .hint("`outcore volume scrub` repairs damage; name another directory to move it"));
        }
        if own || !self.dir.join(FOLDER).exists() {
            return Ok(false);
        }
        match volume.is_label_of(&self.dir, self.index) {
            true => Ok(true),
            false => Err(self
                .refused("it belongs to a volume already")
                .hint("name another directory")),
        }
    }

    /// Makes the folder, or finds that of a killed run; locks it.
    fn begin(&self) -> Result<fs::File> {
        let folder = self.in_progress();
        for inner in [DATA, DATASETS] {
            let path = folder.join(inner);
            fs::create_dir_all(&path).map_err(self.failed(&path))?;
        }
        let lock = fs::File::open(&folder).map_err(self.failed(&folder))?;
        let locked = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        if locked.is_err() {
            return Err(self
                .refused("another command is replacing the drive there")
                .hint("wait for it"));
        }
        let label = folder.join(LABEL);
        let sealed = self.volume.seal_label(self.index)?;
        match fs::read(&label) {
            Ok(found) if found == sealed => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.write_file(&label, &sealed)?;
            }
            _ => {
                return Err(self
                    .refused("it holds an unfinished replacement of another drive")
                    .hint(format!("remove {FOLDER_IN_PROGRESS} there")));
            }
        }
        Ok(lock)
    }

    /// Rebuilds the shares and copies the manifests of all datasets that are not there yet.
    fn fill(&mut self, (budget, watch): (&Budget, Watch<'_>)) -> Result<()> {
        for name in self.volume.names()? {
            let manifest = match self.volume.manifest(&name) {
                Ok(manifest) => manifest,
                Err(error) if self.gives_up && error.kind() == Kind::Corrupt => continue,
                Err(error) => return Err(error),
            };
            let share = self.in_progress().join(DATA).join(&manifest.id);
            if !share.exists() {
                self.rebuild(&manifest, &share, (budget, watch))?;
            }
            let copy = self
                .in_progress()
                .join(DATASETS)
                .join(format!("{name}.json"));
            let sealed = manifest.seal(&self.volume.place(self.index))?;
            if !fs::read(&copy).is_ok_and(|found| found == sealed) {
                self.write_file(&copy, &sealed)?;
            }
        }
        Ok(())
    }

    /// Removes what belongs to no dataset any more.
    fn remove_others(&self) -> Result<()> {
        let (mut ids, mut copies) = (Vec::new(), Vec::new());
        for name in self.volume.names()? {
            ids.extend(self.volume.ids_said_of(&name));
            copies.push(format!("{name}.json"));
        }
        for (folder, kept) in [(DATA, ids), (DATASETS, copies)] {
            let dir = self.in_progress().join(folder);
            for entry in fs::read_dir(&dir).map_err(self.failed(&dir))? {
                let entry = entry.map_err(self.failed(&dir))?;
                let name = entry.file_name();
                if !kept.iter().any(|kept| name == kept.as_str()) {
                    fs::remove_file(entry.path()).map_err(self.failed(&dir))?;
                }
            }
        }
        let part = self.in_progress().join(PART);
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(&part)(error)),
            _ => Ok(()),
        }
    }

    fn rebuild(
        &mut self,
        manifest: &Manifest,
        share: &Path,
        (budget, watch): (&Budget, Watch<'_>),
    ) -> Result<()> {
        let len_bytes = manifest.shares[self.index].len_bytes;
        if manifest.redundancy.is_none() && len_bytes > 0 {
            return self.give_up(manifest, share);
        }
        let (part, note) = (self.in_progress().join(PART), self.in_progress().join(NOTE));
        let mut groups_done = 0;
        let noted = fs::read_to_string(&note).unwrap_or_default();
        if let Some((id, groups)) = noted.trim().split_once(' ')
            && id == manifest.id
            && fs::metadata(&part).is_ok_and(|facts| facts.len() >= len_bytes)
        {
            groups_done = groups.parse().unwrap_or(0);
        }
        if groups_done == 0 && part.exists() {
            fs::remove_file(&part).map_err(self.failed(&part))?;
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
        let rebuilt = rebuild.run(budget, watch, &mut &noted)?;
        self.volume.protect_share(manifest, &part)?;
        fs::rename(&part, share).map_err(self.failed(share))?;
        self.replaced.damages.extend(rebuilt.damages);
        self.replaced.rebuilt_bytes += rebuilt.bytes;
        Ok(())
    }

    /// The share of a dataset without redundancy: nothing can be in it.
    fn give_up(&mut self, manifest: &Manifest, share: &Path) -> Result<()> {
        let volume = self.volume;
        let drive = &volume.drives[self.index].name;
        if !self.gives_up {
            let cause = format!(
                "@{} has no redundancy: what drive {drive} held is lost",
                manifest.name
            );
            return Err(Error::corrupt(REPLACE, cause).drive(drive).hint(
                "if the old drive can be read, copy its directory there with cp -a and name it in \
                 the drives file; --force gives up what lay on it",
            ));
        }
        let len_bytes = manifest.shares[self.index].len_bytes;
        let damage = Damage::of_file(&manifest.name, drive, share, len_bytes);
        if !self.replaced.damages.contains(&damage) {
            self.replaced.damages.push(damage);
        }
        Ok(())
    }

    /// Writes a small file durably under its final name.
    fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let staged = self.in_progress().join("staged");
        let write = || -> io::Result<()> {
            fs::write(&staged, bytes)?;
            fs::File::open(&staged)?.sync_all()?;
            fs::rename(&staged, path)
        };
        write().map_err(self.failed(path))
    }

    /// Gives the folder its name.
    fn publish(&mut self) -> Result<()> {
        let folder = self.in_progress();
        let _ = fs::remove_file(folder.join(NOTE));
        for dir in [folder.join(DATA), folder.join(DATASETS), folder.clone()] {
            sync_dir(&dir).map_err(self.failed(&dir))?;
        }
        let drive = &self.volume.drives[self.index];
        let (old, aside) = (drive.dir.join(FOLDER), drive.dir.join(FOLDER_REPLACED));
        if old.exists() {
            // Commands that still have the old drive open fail from here on.
            fs::rename(&old, &aside).map_err(|error| {
                let hint = format!("remove {FOLDER_REPLACED} there");
                self.failed(&old)(error).hint(hint)
            })?;
            self.replaced.set_aside = Some(aside);
        }
        let to = self.dir.join(FOLDER);
        fs::rename(&folder, &to).map_err(self.failed(&to))?;
        sync_dir(&self.dir).map_err(self.failed(&self.dir))
    }
}

/// Counts the shares of an earlier run as done.
fn watch_skipped(work: &Work<'_>, watch: Watch<'_>) -> Result<()> {
    let dir = work.in_progress().join(DATA);
    for share in fs::read_dir(&dir).map_err(work.failed(&dir))? {
        let facts = share
            .and_then(|share| share.metadata())
            .map_err(work.failed(&dir))?;
        (watch.advance)(facts.len());
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Whether two paths lead to one directory.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
