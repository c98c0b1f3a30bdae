//! A directory that a job makes for its results.
//!
//! Contract: [`NewDir::make`] makes a directory if it does not exist, and removes it again unless
//! the job keeps it. If the job is killed, it leaves a note in a private directory next to it. The
//! next sweep there removes the leftovers of the job, and the directory if nothing else is in it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::drive::private_dir::LOOK;
use crate::drive::{Device, PrivateDir, parent_of};
use crate::error::{Error, Result};

/// See the module.
#[derive(Debug)]
pub struct NewDir {
    path: PathBuf,
    /// The note that marks the directory as ours; `None` if it existed before.
    note: Option<PrivateDir>,
}

impl NewDir {
    /// Makes the directory `path` if it does not exist; messages name `operation` as the operation
    /// that failed.
    ///
    /// # Errors
    /// The system's error; a name that belongs to something else.
    pub fn make(device: &dyn Device, operation: &str, path: &Path) -> Result<Self> {
        let known = |note| NewDir {
            path: path.to_path_buf(),
            note,
        };
        let parent = parent_of(path);
        // A killed job may have made the existing directory.
        let swept = match parent.is_dir() {
            true => device.sweep_private_dirs(parent).map(|_| ()),
            false => Ok(()),
        };
        if path.is_dir() {
            // If the directory's names cannot be read, nothing is swept, and nothing needs to be.
            return match swept {
                Err(error) if error.operation() != LOOK => Err(error),
                _ => Ok(known(None)),
            };
        }
        swept?;
        if fs::symlink_metadata(path).is_ok() {
            return Err(Error::usage(operation, "the file already exists")
                .path(path)
                .hint("name a directory"));
        }
        if !parent.is_dir() {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::io(operation, &missing)
                .path(parent)
                .hint("check the path: only the last directory is made"));
        }
        let note = device.make_private_dir(parent)?;
        note.note_made(path.file_name().unwrap_or_default())?;
        match fs::create_dir(path) {
            Ok(()) => Ok(known(Some(note))),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => {
                Ok(known(None))
            }
            Err(error) => Err(Error::io(operation, &error)
                .path(path)
                .hint("check the path: only the last directory is made")),
        }
    }

    /// Keeps the directory.
    pub fn keep(mut self) {
        self.note = None;
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        if self.note.is_some() {
            // Removes only an empty directory.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::IoMode;
    use crate::drive::os::OsDevice;
    use crate::drive::private_dir;

    #[test]
    fn a_directory_goes_again_unless_it_is_kept_or_was_there() {
        let home = tempfile::tempdir().unwrap();
        let device = OsDevice::new(IoMode::Buffered);
        let make = |path: &Path| NewDir::make(&device, "make view", path);
        let path = home.path().join("view");
        drop(make(&path).unwrap());
        assert!(!path.exists());
        make(&path).unwrap().keep();
        drop(make(&path).unwrap());
        assert!(path.is_dir());
        assert!(make(&home.path().join("no/such")).is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn whoever_uses_a_directory_again_sweeps_what_a_killed_job_left_beside_it() {
        let device = OsDevice::new(IoMode::Buffered);
        for has_file in [false, true] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("view");
            let mut dir = NewDir::make(&device, "make view", &path).unwrap();
            dir.note.take().unwrap().leave();
            if has_file {
                fs::write(path.join("view.json"), "x").unwrap();
            }
            NewDir::make(&device, "make view", &path).unwrap().keep();
            assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
            assert_eq!(path.join("view.json").exists(), has_file);
        }
    }

    #[test]
    fn a_directory_of_a_job_that_is_gone_is_swept_from_the_one_above() {
        let home = tempfile::tempdir().unwrap();
        let device = OsDevice::new(IoMode::Buffered);
        for has_file in [false, true] {
            let path = home.path().join("graph");
            let mut dir = NewDir::make(&device, "make graph", &path).unwrap();
            let inside = crate::drive::FileSystem::make_private_dir(&device, &path).unwrap();
            // The state after a kill: the locks are free, and nothing is cleaned up.
            inside.leave();
            dir.note.take().unwrap().leave();
            if has_file {
                fs::write(path.join("mine"), "x").unwrap();
            }
            private_dir::sweep(home.path()).unwrap();
            assert_eq!(path.exists(), has_file);
            let left = fs::read_dir(home.path()).unwrap().count();
            assert_eq!(left, usize::from(has_file));
            assert!(!has_file || fs::read_dir(&path).unwrap().count() == 1);
        }
    }
}
