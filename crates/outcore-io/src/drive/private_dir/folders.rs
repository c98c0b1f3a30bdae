//! Directories around a private one: folders that are made in it, the directory that its owner makes next to it, and whether
//! files of a set still wait in one.
//!
//! Contract: as the folder's: all goes by handles, and no link is followed. A note ([`MADE`]) says which directory the owner has
//! made, so a sweep removes that one with the private one if nothing else is in it.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, mkdirat, unlinkat};
use rustix::io::Errno;

use super::super::places::{Places, is_private_name, open_dir};
use super::{
    MAKE, Owner, PrivateDir, commit, contents, lock_of, named_in, seal, sweep_one, unseal,
};
use crate::error::{Error, Result};

/// The note with the name of a directory next to the private one.
const MADE: &str = "made";

impl PrivateDir {
    /// Says, durably, that the owner makes the directory `name` next to this one. A sweep of this one sweeps that one first,
    /// and removes it if it is empty.
    pub(crate) fn note_made(&self, name: &OsStr) -> Result<()> {
        match &self.owner {
            Owner::Lock(..) => self.write_file(MADE, &seal(MADE, &name.as_bytes())?),
            Owner::Names(_) | Owner::Nobody => Ok(()),
        }
    }

    /// Makes a directory below this one with the mode of any new directory. `name` is the path from here; the
    /// directories above it exist.
    pub(crate) fn make_folder(&self, name: &Path) -> Result<()> {
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

/// Sweeps the directory that the owner of `dir` has made in `parent`, if there is one, and removes it if it is empty then.
pub(super) fn remove_made(parent_path: &Path, parent: &Arc<OwnedFd>, dir: &Arc<OwnedFd>) {
    let noted = commit::read_whole(dir, MADE).ok();
    let name: Option<Vec<u8>> = noted.and_then(|bytes| commit::unseal(MADE, &bytes));
    let is_name = |name: &Vec<u8>| !name.is_empty() && !name.contains(&b'/') && name[0] != b'.';
    let Some(name) = name.filter(is_name) else {
        return;
    };
    let name = OsStr::from_bytes(&name);
    let Ok(made) = open_dir(parent, Path::new(name), false) else {
        return;
    };
    let path = parent_path.join(name);
    for inside in contents::names_in(&made).unwrap_or_default() {
        if is_private_name(&inside) {
            // What cannot be removed keeps the directory.
            let _ = sweep_one(&path, &made, &inside);
        }
    }
    let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
}

/// Whether files of a set that was decided still wait in a private directory in `parent`; if so, whether its job runs.
/// Directories of other users cannot be looked into.
pub(crate) fn unpublished_in(parent: &Path) -> Option<bool> {
    let (above, names) = named_in(&Places::default(), parent).ok()?;
    let is_waiting = |name: &OsStr| {
        let dir = open_dir(&above, Path::new(name), false).ok()?;
        let inside = contents::names_in(&dir).ok()?;
        let is_decided = inside.iter().any(|name| name == commit::COMMIT);
        let is_staged = |name: &OsString| {
            let bytes = name.as_bytes();
            bytes.starts_with(b"output-") || bytes.starts_with(b"part-") || name == "manifest"
        };
        (is_decided && inside.iter().any(is_staged)).then_some(dir)
    };
    let waiting = names.iter().find_map(|name| is_waiting(name))?;
    Some(!lock_of(&waiting).is_ok_and(|lock| lock.is_some()))
}
