//! Marks of private directories whose jobs can be resumed.
//!
//! Contract: a mark names the job's journal, the command that resumes the job, and how long the
//! directory is kept. A mark counts until the journal is certainly gone, or until the journal's
//! last write is older than that time. If the journal cannot be found, the last write in the marked
//! directory decides.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::contents::names_in;
use super::{absolute, commit, parent_of};
use crate::error::{Error, Result};

/// The name of the mark.
pub(super) const RESUME: &str = "resume";

/// Whether a file of that name marks a job that can be resumed.
pub(super) fn is_of_resume(name: &OsStr) -> bool {
    name == RESUME || name == "journal"
}

/// The mark of a directory whose job can be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumable {
    journal: Vec<u8>,
    /// The directory that contains the private directory of the journal.
    parent_inode: u64,
    /// How long the directory stays after the last record of the journal.
    keep_seconds: u64,
    /// The command that resumes the job.
    pub command: String,
}

impl Resumable {
    /// A mark for the directories of a job whose journal is at `journal`.
    ///
    /// # Errors
    /// The system's error for the directory above it.
    pub fn new(journal: &Path, keep: Duration, command: &str) -> Result<Self> {
        let above = parent_of(parent_of(journal));
        let failed = |errno: Errno| Error::errno("mark scratch", errno.raw_os_error()).path(above);
        Ok(Resumable {
            journal: absolute(journal),
            parent_inode: rustix::fs::stat(above).map_err(failed)?.st_ino,
            keep_seconds: keep.as_secs(),
            command: command.to_owned(),
        })
    }

    /// The path of the journal.
    pub fn journal(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.journal))
    }

    /// The time since the last record; `None` if it is unknown.
    pub fn age(&self) -> Option<Duration> {
        let written = std::fs::symlink_metadata(self.journal()).ok()?.modified();
        SystemTime::now().duration_since(written.ok()?).ok()
    }

    /// Whether the job can certainly not be resumed any more. `idle` is the time since the last
    /// write in the marked directory. It decides if the time of the journal's last write is
    /// unknown.
    pub(super) fn is_over(&self, idle: Option<Duration>) -> bool {
        let above = rustix::fs::stat(parent_of(parent_of(self.journal())));
        let is_mounted = above.is_ok_and(|above| above.st_ino == self.parent_inode);
        let found = rustix::fs::lstat(self.journal());
        let is_gone = found.is_err_and(|errno| errno == Errno::NOENT || errno == Errno::NOTDIR);
        let age = self.age().or(idle);
        let is_old = age.is_some_and(|age| age.as_secs() >= self.keep_seconds);
        is_mounted && is_gone || is_old
    }
}

/// The time since the last write to any file in an open directory.
fn idle_in(dir: &Arc<OwnedFd>) -> Option<Duration> {
    let names = names_in(dir).ok()?;
    let written = names.iter().filter_map(|name| {
        let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let seconds = Duration::from_secs(u64::try_from(found.st_mtime).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    });
    SystemTime::now().duration_since(written.max()?).ok()
}

/// The mark of an open directory, unless its job can certainly not be resumed any more.
pub(super) fn mark_in(dir: &Arc<OwnedFd>) -> io::Result<Option<Resumable>> {
    match commit::read_whole(dir, RESUME) {
        Ok(bytes) => {
            let mark: Option<Resumable> = commit::unseal(RESUME, &bytes);
            Ok(mark.filter(|mark| !mark.is_over(idle_in(dir))))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
