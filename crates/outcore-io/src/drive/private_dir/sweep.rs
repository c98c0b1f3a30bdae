//! Lists private directories, and removes those that dead jobs have left.
//!
//! Contract: [`list`] returns the state of each ([`State`]). [`sweep`] removes the directories
//! whose owners are gone, after it has finished the renames that they had decided. It leaves alone
//! everything that is not certainly ours.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, statat, unlinkat};
use rustix::io::Errno;

use super::super::places::{Places, is_private_name, open_dir};
use super::commit::{self, Opened, Settled};
use super::contents::{self, is_known};
use super::folders::MADE;
use super::mark::{Resumable, mark_in};
use super::{KEEP, Kept, LOCK, LOCK_TEXT, is_private, lock_of, remove_locked};
use crate::error::{Error, Kind, Result};

/// The name of the operation in errors of a search for private directories.
pub(crate) const LOOK: &str = "look for scratch";

/// The state of a private directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The owner is alive.
    InUse,
    /// The owner is gone.
    LeftOver,
    /// The owner is gone, and the directory holds the only copy of parts of this file.
    Kept(PathBuf),
    /// The owner is gone, and its job can be resumed.
    Resumable(Resumable),
    /// The entry does not look like a directory of ours, for this reason, and is left alone.
    Unknown(String),
}

/// The names in `parent` that have the form of private directories, and `parent` itself, open.
fn named_in(places: &Places, parent: &Path) -> Result<(Arc<OwnedFd>, Vec<OsString>)> {
    let failed = |errno: Errno| Error::errno(LOOK, errno.raw_os_error()).path(parent);
    let above = places.dir(parent).map_err(failed)?;
    let mut names = contents::names_in(&above).map_err(failed)?;
    names.retain(|name| is_private_name(name));
    names.sort();
    Ok((above, names))
}

/// Everything in `parent` with the name of a private directory, each with its state. Directories of
/// other users, and entries that are not directories, are [`State::Unknown`].
pub fn list(parent: &Path) -> Result<Vec<(PathBuf, State)>> {
    let (above, names) = named_in(&Places::default(), parent)?;
    let found = names.into_iter().filter_map(|name| {
        let state = match look_at(&above, &name) {
            Ok(Some((state, ..))) => state,
            Ok(None) => State::Unknown(foreign(&above, &name)?.to_string()),
            Err(Errno::NOENT) => return None,
            Err(errno) => State::Unknown(format!("it cannot be read: {errno}")),
        };
        Some((parent.join(name), state))
    });
    Ok(found.collect())
}

/// The reason why something is not private to this user; `None` if it was removed in the meantime.
fn foreign(above: &Arc<OwnedFd>, name: &OsStr) -> Option<&'static str> {
    let found = statat(above, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_own = found.st_uid == rustix::process::geteuid().as_raw();
    Some(match (contents::is_dir(&found), is_own) {
        (false, _) => "it is not a directory",
        (true, false) => "it belongs to another user",
        (true, true) => "other users may read or change it",
    })
}

/// Whether `parent` contains any private directory, of any user.
pub fn has_any(parent: &Path) -> Result<bool> {
    Ok(!named_in(&Places::default(), parent)?.1.is_empty())
}

/// The state of a private directory, the directory, and its lock.
pub(super) type Looked = (State, Arc<OwnedFd>, Option<File>);

/// Opens a directory of that name and finds its state, with its lock if that could be taken. `None`
/// if the directory is not private to this user.
pub(super) fn look_at(
    above: &Arc<OwnedFd>,
    name: &OsStr,
) -> std::result::Result<Option<Looked>, Errno> {
    let dir = match open_dir(above, Path::new(name), false) {
        Ok(dir) if is_private(&dir) => dir,
        // A link, a file, or a directory that any user may have made.
        Ok(_) | Err(Errno::LOOP | Errno::NOTDIR | Errno::ACCESS) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let names = contents::names_in(&dir)?;
    let unknown = |cause: &str| State::Unknown(cause.to_string());
    let text = match commit::read_whole(&dir, LOCK) {
        Ok(text) => text,
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && names.iter().all(|name| name == LOCK) =>
        {
            return Ok(Some((State::LeftOver, dir, None)));
        }
        Err(_) => {
            return Ok(Some((
                unknown("the directory has no lock file of outcore"),
                dir,
                None,
            )));
        }
    };
    // A power loss leaves a file without its bytes, or with zeros in their place.
    let is_blank = text.len() <= LOCK_TEXT.len() && text.iter().all(|byte| *byte == 0);
    if text != LOCK_TEXT.as_bytes() && !is_blank {
        let state = unknown("its lock file was not made by outcore");
        return Ok(Some((state, dir, None)));
    }
    let Some(lock) = lock_of(&dir)? else {
        return Ok(Some((State::InUse, dir, None)));
    };
    let foreign = names.iter().find(|name| !is_known(name));
    let are_staged = || names.iter().all(|name| contents::is_staged(&dir, name));
    let state = if is_blank && names.len() > 1 && !are_staged() {
        unknown("its lock file is empty")
    } else if let Some(foreign) = foreign {
        unknown(&format!(
            "{} in it was not made by outcore",
            foreign.display()
        ))
    } else {
        match kept_in(&dir) {
            Ok(kept) => match kept.iter().find(|kept| !kept.is_gone()) {
                Some(kept) => State::Kept(OsStr::from_bytes(&kept.file).into()),
                None => match mark_in(&dir) {
                    Ok(Some(mark)) => State::Resumable(mark),
                    Ok(None) => State::LeftOver,
                    Err(_) => unknown("its mark cannot be read"),
                },
            },
            Err(state) => state,
        }
    };
    Ok(Some((state, dir, Some(lock))))
}

/// The files that a directory is kept for.
fn kept_in(dir: &Arc<OwnedFd>) -> std::result::Result<Vec<Kept>, State> {
    let damaged =
        || State::Unknown("the list of the files that it is kept for cannot be read".to_string());
    match commit::read_whole(dir, KEEP) {
        Ok(bytes) => commit::unseal(KEEP, &bytes).ok_or_else(damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(_) => Err(damaged()),
    }
}

/// The result of sweeping a directory.
pub(super) enum Swept {
    /// Removed, with the files of its set that were put aside.
    Removed(Vec<PathBuf>),
    Gone,
    InUse,
    /// Left as it is, for this reason.
    Left(String),
}

pub(super) fn sweep_one(
    parent_path: &Path,
    parent: &Arc<OwnedFd>,
    name: &OsStr,
) -> std::result::Result<Swept, Errno> {
    let left = |cause: &str| Ok(Swept::Left(cause.to_string()));
    let (state, dir, lock) = match look_at(parent, name) {
        Ok(Some(found)) => found,
        Ok(None) => return left("not a directory that only this user may change"),
        Err(Errno::NOENT) => return Ok(Swept::Gone),
        Err(errno) => return Err(errno),
    };
    let opened = Opened {
        name,
        parent_path,
        parent,
        dir: &dir,
    };
    match state {
        State::LeftOver => {}
        State::InUse => return Ok(Swept::InUse),
        State::Unknown(cause) => return Ok(Swept::Left(cause)),
        State::Resumable(_) => return left("its job can be resumed"),
        State::Kept(_) if commit::is_decided(&opened) => {}
        State::Kept(path) => {
            let cause = format!(
                "the directory holds the only copy of parts of {}",
                path.display()
            );
            return Ok(Swept::Left(cause));
        }
    }
    let Some(lock) = lock else {
        // The directory is being made or was just removed: it may be removed only if it is empty.
        return match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(Swept::Removed(Vec::new())),
            Err(_) => Ok(Swept::Gone),
        };
    };
    remove_made(parent_path, parent, &dir);
    // The lock is held during the removal, so that two sweeps do not collide.
    match commit::settle(&opened) {
        Settled::Done(aside) => match remove_locked(parent, name, &dir, lock) {
            Ok(()) | Err(Errno::NOENT | Errno::STALE) => Ok(Swept::Removed(aside)),
            Err(errno) if aside.is_empty() => Err(errno),
            Err(_) => Ok(Swept::Removed(aside)),
        },
        Settled::Later => left("another drive of its set is not mounted, or cannot be read"),
        Settled::Invalid(cause) => left(cause),
    }
}

/// Removes the private directories in `parent` whose owners are gone.
pub(in crate::drive) fn sweep_in(places: &Places, parent: &Path) -> Result<Vec<PathBuf>> {
    let (above, names) = named_in(places, parent)?;
    let (mut swept, mut all_aside) = (Vec::new(), Vec::new());
    for name in names {
        if let Ok(Swept::Removed(aside)) = sweep_one(parent, &above, &name) {
            swept.push(parent.join(name));
            all_aside.extend(aside);
        }
    }
    match told(&all_aside) {
        Some(error) => Err(error),
        None => Ok(swept),
    }
}

/// Removes the private directories in `parent` whose owners are gone.
///
/// # Errors
/// A directory cannot be read; or, reported once, a file of a set was put aside.
pub fn sweep(parent: &Path) -> Result<Vec<PathBuf>> {
    sweep_in(&Places::default(), parent)
}

/// The report about files whose targets were taken, which is made only once.
pub(super) fn told(aside: &[PathBuf]) -> Option<Error> {
    let first = aside.first()?;
    let more = match aside.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let cause = format!(
        "an earlier run ended while it put its output in place, and a file of that name has appeared \
         since; the output is kept next to it{more}"
    );
    let hint = "move one of the two files, then run the command again";
    Some(
        Error::new(Kind::Io, "publish output", cause)
            .path(first)
            .hint(hint),
    )
}

/// Sweeps the directory that the owner of `dir` has made in `parent`, if there is one, and removes
/// it if it is then empty.
fn remove_made(parent_path: &Path, parent: &Arc<OwnedFd>, dir: &Arc<OwnedFd>) {
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
            // The directory stays if something in it cannot be removed.
            let _ = sweep_one(&path, &made, &inside);
        }
    }
    let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
}

/// Files of a decided set may still wait in a private directory in `parent`. Returns whether their
/// job is running; `None` if no such files wait. Directories of other users are not visible.
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
