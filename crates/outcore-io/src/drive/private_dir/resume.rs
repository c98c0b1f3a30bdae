//! Private directories of jobs that can be resumed.
//!
//! Contract: once a job's journal has its first commit, [`PrivateDir::keep_to_resume`] marks each
//! directory of the job, durably. A marked directory stays when its owner drops it or dies. No
//! sweep removes it until the journal is gone or older than the time in the mark.
//! [`PrivateDir::reopen`] takes such a directory over, with its lock, so only one job resumes it.
//!
//! The directory with the journal is next to the output. Its number follows from the output's name
//! ([`claimed_path`]), so the next run of the same command finds it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::super::places::{Held, Places, name_of};
use super::mark::{RESUME, Resumable};
use super::sweep::{State, look_at};
use super::{Owner, PrivateDir, SPARE_DESCRIPTORS, cannot_make, commit, ended, parent_of};
use crate::checksum::bytes_checksum;
use crate::error::{Error, Result};

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

/// Whether the private directory at `path` has the mark of a job that can be resumed, which may be
/// running.
pub fn is_marked(path: &Path) -> bool {
    path.join(RESUME).exists()
}

/// Takes over the directory of a job that can be resumed; `None` if there is none at `path`.
///
/// # Errors
/// Usage: the job is running. The system's error.
pub fn reopened(path: &Path) -> Result<Option<PrivateDir>> {
    PrivateDir::reopen(&Places::default(), path)
}

/// Removes the directory of a job that can be resumed; returns whether it did.
///
/// # Errors
/// Usage: the job is running. The system's error.
pub fn forget(path: &Path) -> Result<bool> {
    let dir = reopened(path)?;
    dir.iter().for_each(PrivateDir::release);
    Ok(dir.is_some())
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
        let looked = ended(
            || look_at(&above, name),
            |looked| matches!(looked, Ok(Some((State::InUse, ..)))),
        );
        let (dir, lock) = match looked {
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

    /// Marks the directory, durably, as one of a job that can be resumed. The directory stays when
    /// it is dropped.
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
