//! Private directories of jobs that can be resumed.
//!
//! Contract: once a job's journal vouches for something, [`PrivateDir::keep_to_resume`] marks each
//! of its directories, durably. A marked directory stays when its owner drops it or dies, and no
//! sweep removes it, until the journal is gone or older than the time in the mark.
//! [`PrivateDir::reopen`] takes such a directory over, with its lock, so only one job resumes it.
//!
//! The directory with the journal is next to the output. Its number follows from the output's name
//! ([`claimed_path`]), so the next run of the same command finds it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use serde::{Deserialize, Serialize};

use super::super::places::{Held, Places, name_of};
use super::sweep::{self, State, look_at};
use super::{Owner, PrivateDir, SPARE_DESCRIPTORS, absolute, cannot_make, commit, parent_of};
use crate::checksum::bytes_checksum;
use crate::error::{Error, Result};

/// The name of the mark.
pub(super) const RESUME: &str = "resume";

/// Whether a file of that name says that a job can be resumed.
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

    /// Whether the job can certainly not be resumed any more.
    pub(super) fn is_over(&self) -> bool {
        let above = rustix::fs::stat(parent_of(parent_of(self.journal())));
        let is_mounted = above.is_ok_and(|above| above.st_ino == self.parent_inode);
        let found = rustix::fs::lstat(self.journal());
        let is_gone = found.is_err_and(|errno| errno == Errno::NOENT || errno == Errno::NOTDIR);
        let is_old = self
            .age()
            .is_some_and(|age| age.as_secs() >= self.keep_seconds);
        is_mounted && is_gone || is_old
    }
}

/// The path of the private directory in `parent` that [`PrivateDir::claim`] makes for `set`.
pub fn claimed_path(parent: &Path, set: &OsStr) -> PathBuf {
    parent.join(name_of(bytes_checksum(set.as_bytes())))
}

/// The mark of a private directory whose job can be resumed and is not running.
pub fn resumable_at(path: &Path) -> Option<Resumable> {
    let above = Places::default().dir(parent_of(path)).ok()?;
    match look_at(&above, path.file_name()?) {
        Ok(Some((State::Resumable(mark), ..))) => Some(mark),
        _ => None,
    }
}

/// Removes the directory of a job that can be resumed.
///
/// # Errors
/// Usage: the job is running. The system's error.
pub fn forget(path: &Path) -> Result<()> {
    let dir = PrivateDir::reopen(&Places::default(), path)?;
    dir.iter().for_each(PrivateDir::release);
    Ok(())
}

/// Removes the directory of a dead job that could be resumed, unless the file `name` is in it;
/// whether it did.
///
/// # Errors
/// Usage: the job is running. The system's error.
pub fn remove_without(path: &Path, name: &str) -> Result<bool> {
    let Some(dir) = PrivateDir::reopen(&Places::default(), path)? else {
        return Ok(false);
    };
    let is_gone = rustix::fs::lstat(path.join(name)).is_err_and(|errno| errno == Errno::NOENT);
    if is_gone {
        // Dropping it removes it.
        dir.release();
    }
    Ok(is_gone)
}

impl PrivateDir {
    /// Takes over a directory whose job can be resumed; `None` if there is none of this name, or
    /// it holds nothing to resume.
    pub(in crate::drive) fn reopen(places: &Places, path: &Path) -> Result<Option<Self>> {
        let parent = parent_of(path);
        let above = places.dir(parent).map_err(cannot_make(parent))?;
        let Some(name) = path.file_name() else {
            return Ok(None);
        };
        let (dir, lock) = match look_at(&above, name) {
            Ok(Some((State::Resumable(_), dir, Some(lock)))) => (dir, lock),
            Ok(Some((State::InUse, ..))) => {
                return Err(Error::usage(
                    "resume",
                    "another run resumes this job, or writes its output",
                )
                .path(path)
                .hint("wait until it has ended, or give another name"));
            }
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(cannot_make(parent)(errno)),
        };
        let held = Arc::new(Held {
            path: path.to_path_buf(),
            parent_path: parent.to_path_buf(),
            parent: above,
            dir,
        });
        places.add(&held);
        let spare = (0..SPARE_DESCRIPTORS).map_while(|_| fcntl_dupfd_cloexec(&held.dir, 0).ok());
        Ok(Some(PrivateDir {
            path: path.to_path_buf(),
            spare: spare.collect(),
            owner: Owner::Lock(lock, held),
            is_kept: AtomicBool::new(true),
        }))
    }

    /// Marks it, durably, as a directory of a job that can be resumed; it stays when it is dropped.
    ///
    /// # Errors
    /// The system's error.
    pub fn keep_to_resume(&self, mark: &Resumable) -> Result<()> {
        self.sync()?;
        if let Owner::Lock(_, held) = &self.owner {
            // After a power loss, the directory must still have its name.
            rustix::fs::fsync(&held.parent).map_err(cannot_make(&self.path))?;
        }
        self.write_file(RESUME, &commit::seal(RESUME, mark)?)?;
        self.is_kept.store(true, Ordering::Release);
        Ok(())
    }
}

/// The mark of an open directory, unless it is over.
pub(super) fn mark_in(
    dir: &Arc<std::os::fd::OwnedFd>,
) -> std::result::Result<Option<Resumable>, sweep::State> {
    match commit::read_whole(dir, RESUME) {
        Ok(bytes) => {
            let mark: Option<Resumable> = commit::unseal(RESUME, &bytes);
            Ok(mark.filter(|mark| !mark.is_over()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(State::Unknown("its mark cannot be read".to_owned())),
    }
}
