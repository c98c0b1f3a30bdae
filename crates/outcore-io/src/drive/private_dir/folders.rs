//! Directories around a private one: folders that are made in it, and the directory that its owner
//! makes next to it.
//!
//! Contract: as for private directories, everything goes by handle and no link is followed. A note
//! ([`MADE`]) names the directory that the owner has made. A sweep removes that directory together
//! with the private one, if nothing else is in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use super::super::places::open_dir;
use super::{MAKE, Owner, PrivateDir, seal};
use crate::error::{Error, Result};

/// The note with the name of a directory next to the private one.
pub(super) const MADE: &str = "made";

impl PrivateDir {
    /// Records, durably, that the owner makes the directory `name` next to this one. A sweep of
    /// this directory first sweeps the named one and removes it if it is empty.
    pub(crate) fn note_made(&self, name: &OsStr) -> Result<()> {
        match &self.owner {
            Owner::Lock(..) => self.write_file(MADE, &seal(MADE, &name.as_bytes())?),
            Owner::Names(_) | Owner::Nobody => Ok(()),
        }
    }

    /// Makes a directory below this one with the default mode of new directories. `name` is the
    /// relative path; its parent directories exist.
    ///
    /// # Errors
    /// The system's error; a device without directories.
    pub fn make_folder(&self, name: &Path) -> Result<()> {
        let failed =
            |errno: Errno| Error::errno(MAKE, errno.raw_os_error()).path(self.path.join(name));
        let Owner::Lock(_, held) = &self.owner else {
            return Err(failed(Errno::OPNOTSUPP));
        };
        let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        mkdirat(&held.dir, name, mode).map_err(failed)
    }

    /// Makes the names in a directory below this one durable.
    pub(crate) fn sync_folder(&self, name: &Path) -> Result<()> {
        let failed = |errno: Errno| {
            Error::errno("sync directory", errno.raw_os_error()).path(self.path.join(name))
        };
        let Owner::Lock(_, held) = &self.owner else {
            return Ok(());
        };
        let folder = open_dir(&held.dir, name, false).map_err(failed)?;
        rustix::fs::fsync(folder).map_err(failed)
    }
}
