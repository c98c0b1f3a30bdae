//! A device that guarantees that every input name leads to the same, unchanged file while a job
//! runs.
//!
//! Contract: [`SteadyDevice`] wraps any device. When a file is opened for reading, it remembers the
//! file system, inode number, length, and times of the last write and change. If a later open of
//! the same name finds another file or a changed one, it fails with [`Error::changed_input`]. A job
//! that opens an input several times therefore never mixes two versions of it. The caller registers
//! files that it examined before the job began with [`SteadyDevice::expect`].
//!
//! Files without known times of change are not compared: datasets, which are sealed, and files of
//! devices in memory. Files that the job itself writes may change:
//! - files that it opens for writing or puts in place
//! - files in a directory where it finishes the work of a killed job
//! - all files in private directories
//!
//! Readers of a file whose descriptor stays open check it themselves ([`crate::port::Volume`]).
//!
//! Bounds: some hundred bytes per name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::places::is_private_name;
use super::{
    Access, Device, FileFacts, FileId, FileSystem, PrivateDir, Queue, QueueLimits, Stores,
};
use crate::error::{Error, Result};

/// Identity and state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    file_system: u64,
    inode: u64,
    len_bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

impl Identity {
    /// The file system that holds the file.
    pub fn file_system(&self) -> u64 {
        self.file_system
    }

    /// The length of the file.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Identity of a regular file of the system.
    pub fn of(found: &Metadata) -> Self {
        Identity {
            file_system: found.dev(),
            inode: found.ino(),
            len_bytes: found.len(),
            modified_ns: nanoseconds(found.mtime(), found.mtime_nsec()),
            changed_ns: nanoseconds(found.ctime(), found.ctime_nsec()),
        }
    }

    /// Identity of an open file of a device.
    pub fn of_facts(facts: &FileFacts) -> Self {
        Identity {
            file_system: facts.file_system,
            inode: facts.inode,
            len_bytes: facts.len_bytes,
            modified_ns: facts.modified_ns,
            changed_ns: facts.changed_ns,
        }
    }

    /// Fails unless `now`, the current file at `path`, is this file, unchanged.
    ///
    /// # Errors
    /// Corrupt: another file, or a changed one.
    pub fn check(&self, now: &Identity, path: &Path) -> Result<()> {
        let is_same = (self.file_system, self.inode) == (now.file_system, now.inode);
        let how = match (is_same, self == now) {
            (_, true) => return Ok(()),
            (true, false) => "it was written to, moved or linked",
            (false, false) => "another file has its name now",
        };
        let cause = format!("the file changed while it was read: {how}");
        Err(Error::changed_input("open input", cause).path(path))
    }
}

/// Knowledge about a name.
#[derive(Debug, Clone, Copy)]
enum Known {
    Input(Identity),
    /// The job writes the file.
    Own,
}

/// See the module.
pub struct SteadyDevice {
    below: Arc<dyn Device>,
    known: Mutex<HashMap<PathBuf, Known>>,
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn is_private(path: &Path) -> bool {
    let is_private = |part| matches!(part, Component::Normal(name) if is_private_name(name));
    path.components().any(is_private)
}

impl SteadyDevice {
    /// A device that knows no file yet.
    pub fn new(below: Arc<dyn Device>) -> Self {
        SteadyDevice {
            below,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers that the file at `path` was examined and had this identity.
    pub fn expect(&self, path: &Path, identity: Identity) {
        let known = Known::Input(identity);
        self.known().entry(absolute(path)).or_insert(known);
    }

    fn note_own(&self, path: &Path) {
        if !is_private(path) {
            self.known().insert(absolute(path), Known::Own);
        }
    }

    /// Fails if an open file is not the file to which its name led before.
    fn check(&self, path: &Path, file: FileId) -> Result<()> {
        let facts = self.below.facts(file)?;
        if facts.changed_ns == 0 {
            // A dataset, or a device in memory, whose files are identified only by name.
            return Ok(());
        }
        let now = Identity::of_facts(&facts);
        let first = *self
            .known()
            .entry(absolute(path))
            .or_insert(Known::Input(now));
        match first {
            Known::Input(first) => first.check(&now, path),
            Known::Own => Ok(()),
        }
    }
}

impl FileSystem for SteadyDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        let file = self.below.open(path, access)?;
        match access {
            Access::Read if is_private(path) => {}
            Access::Read => {
                let checked = self.check(path, file);
                checked.inspect_err(|_| self.below.close(file))?;
            }
            Access::Update | Access::Create => self.note_own(path),
        }
        Ok(file)
    }

    fn close(&self, file: FileId) {
        self.below.close(file);
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        self.below.facts(file)
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.below.set_len(file, len_bytes)
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.below.allocate(file, len_bytes)
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.below.punch(file, offset_bytes, len_bytes)
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.below.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        self.note_own(to);
        self.below.rename(from, to, replace)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.known().remove(&absolute(path));
        self.below.remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.below.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        self.below.file_system(dir)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        self.below.make_private_dir(parent)
    }

    fn claim_private_dir(&self, parent: &Path, set: &OsStr) -> Result<PrivateDir> {
        self.below.claim_private_dir(parent, set)
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>> {
        self.below.reopen_private_dir(path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        let swept = self.below.sweep_private_dirs(parent)?;
        if !swept.is_empty() {
            // The sweep may have put files of a killed job in place.
            let parent = absolute(parent);
            let mut known = self.known();
            known.retain(|path, _| path.parent() != Some(&parent));
        }
        Ok(swept)
    }

    fn stores(&self) -> Option<&dyn Stores> {
        self.below.stores()
    }
}

impl Device for SteadyDevice {
    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        self.below.queue(depth_max)
    }

    fn read_head(&self, path: &Path, into: &mut [u8]) -> Result<usize> {
        self.below.read_head(path, into)
    }

    fn limits(&self, file: FileId) -> QueueLimits {
        self.below.limits(file)
    }

    fn explain(&self, file: FileId, offset_bytes: u64) -> Option<Error> {
        self.below.explain(file, offset_bytes)
    }

    fn now_ns(&self) -> u64 {
        self.below.now_ns()
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        self.below.thread_cpu_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::super::os::OsDevice;
    use super::*;
    use crate::config::IoMode;
    use crate::error::Kind;
    use std::fs;

    fn steady() -> SteadyDevice {
        SteadyDevice::new(Arc::new(OsDevice::new(IoMode::Buffered)))
    }

    #[test]
    fn a_name_that_leads_to_another_file_is_rejected_by_the_second_open() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "one").unwrap();
        fs::write(&new, "two").unwrap();
        let device = steady();
        for _ in 0..2 {
            device.close(device.open(&old, Access::Read).unwrap());
        }
        fs::rename(&new, &old).unwrap();
        let error = device.open(&old, Access::Read).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(
            error.cause().contains("changed while it was read"),
            "{error}"
        );
        assert_eq!(error.file_path(), Some(old.as_path()));
    }

    #[test]
    fn what_was_looked_at_before_is_the_file_that_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "one").unwrap();
        let device = steady();
        device.expect(&path, Identity::of(&fs::metadata(&path).unwrap()));
        fs::write(&path, "longer").unwrap();
        assert_eq!(
            device.open(&path, Access::Read).unwrap_err().kind(),
            Kind::Corrupt
        );
    }

    #[test]
    fn what_the_job_writes_itself_may_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let device = steady();
        let made = device.open(&path, Access::Create).unwrap();
        device.close(device.open(&path, Access::Read).unwrap());
        device.set_len(made, 100).unwrap();
        device.open(&path, Access::Read).unwrap();
    }
}
