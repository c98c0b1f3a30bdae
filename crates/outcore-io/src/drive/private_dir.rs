//! Private directories: where scratch and unfinished output live, owned by a lock.
//!
//! Contract: a private directory is `PARENT/.outcore-NUMBER` with 12 hexadecimal digits, mode 0700,
//! and holds a file `lock` with [`LOCK_TEXT`] on which its owner keeps a `flock`. The kernel drops
//! the lock with the process however it ends, so a directory whose lock can be taken has lost its
//! owner and may be swept; process numbers are never trusted. Dropping the owner's handle removes
//! the directory with all in it.
//!
//! Only what is certainly ours is removed: a directory of that very name, of this user, closed to
//! all others, with our lock file and no file in it whose name is none of ours ([`contents`]).
//! Anything else is left alone, and [`list`] says why. All of it goes by handles
//! ([`super::places`]): the directory and the one above are held open from the start, and no link
//! is followed.
//!
//! [`PrivateDir::claim`] makes the directory of a set of files: its number follows from the set's
//! name, so that of two jobs that write one set the second finds the directory taken.
//!
//! Files of several directories appear together by records and a commit ([`commit`]). Whoever
//! sweeps such a directory finishes the renames first.
//!
//! A directory may be told to stay ([`PrivateDir::keep_for`]): it holds what exists nowhere else,
//! since its job has freed parts of a file. It is swept when that file's marker is gone, or when
//! its set is decided.
//!
//! A directory between `mkdir` and the lock has no `lock` file, or an empty one; the sweep takes
//! such a one away as long as nothing else is in it, and the maker makes another. Whoever removes a
//! directory removes its lock last, and closes it before: on NFS and FUSE an open file that loses
//! its name gets another one in the same directory ([`contents::is_hidden`]).
//!
//! A power loss may empty a lock that was not synced. Directories of scratch and of large outputs
//! are synced ([`PrivateDir::sync`]); a sync takes longer than a small job. The sweep also removes
//! a directory with an empty lock if every file in it is as ours are in every other respect
//! ([`contents::is_staged`]).

mod commit;
mod contents;
mod folders;
mod sweep;

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::link::check_dir;
pub(super) use super::places::name_of;
use super::places::{At, Held, Places, is_private_name, open_dir, parent_of, rename_new};
use crate::checksum::bytes_checksum;
use crate::error::{Error, Kind, Result};
pub(crate) use commit::{seal, unseal};
use contents::is_known;
pub(super) use sweep::sweep_in;
pub(crate) use sweep::{LOOK, unpublished_in};
pub use sweep::{State, has_any, list, sweep};
use sweep::{Swept, sweep_one, told};

const LOCK: &str = "lock";
/// What a lock file of ours holds.
pub const LOCK_TEXT: &str = "private directory of outcore, version 1\n";
const KEEP: &str = "keep";
const ATTEMPTS_MAX: u32 = 100;
/// How often, and how long, a removal waits for a file that is hidden until it is closed.
const HIDDEN_LOOKS: u32 = 20;
const HIDDEN_WAIT: Duration = Duration::from_millis(5);
const MAKE: &str = "make private directory";

/// A directory of this process alone; removed with its contents when dropped.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    owner: Owner,
    is_kept: AtomicBool,
}

/// What makes a directory ours.
#[derive(Debug)]
enum Owner {
    /// The lock, held, and the directory.
    Lock(File, Arc<Held>),
    /// A device without directories, where ours is the front part of names.
    Names(Box<dyn Names>),
    /// Nobody any more: it waits for the next sweep.
    Nobody,
}

/// A device whose directories are the front parts of its files' names.
pub(super) trait Names: std::fmt::Debug + Send + Sync {
    /// Makes a file of that name.
    fn write(&self, path: &Path, bytes: &[u8]);
    /// Removes all files below a directory.
    fn remove_below(&self, dir: &Path);
}

/// Whether a file at `path` goes with the private directory that it lies in, if it lies in one.
pub(super) fn is_swept(path: &Path) -> bool {
    !is_inside(path) || path.file_name().is_some_and(is_known)
}

/// Whether a path leads into a private directory.
pub(crate) fn is_inside(path: &Path) -> bool {
    parent_of(path).file_name().is_some_and(is_private_name)
}

/// A number that no other process, and no other call, gets.
fn random_number() -> u64 {
    // Its keys come from the system's random numbers.
    RandomState::new().hash_one(std::process::id())
}

impl PrivateDir {
    /// Makes and locks a directory inside `parent`, known to `places`.
    pub(super) fn make(places: &Places, parent: &Path) -> Result<Self> {
        check_dir(MAKE, parent)?;
        let above = places.dir(parent).map_err(cannot_make(parent))?;
        for _ in 0..ATTEMPTS_MAX {
            let name = name_of(random_number());
            if let Some(made) = try_make(places, parent, &above, &name)? {
                return Ok(made);
            }
        }
        Err(cannot_make(parent)(Errno::EXIST))
    }

    /// Makes and locks the directory inside `parent` of the set of files called `set`.
    pub(super) fn claim(places: &Places, parent: &Path, set: &OsStr) -> Result<Self> {
        check_dir(MAKE, parent)?;
        let above = places.dir(parent).map_err(cannot_make(parent))?;
        let name = name_of(bytes_checksum(set.as_bytes()));
        let refuse = |kind: Kind, cause: String, hint: &str| {
            Err(Error::new(kind, "create output", cause)
                .path(parent.join(set))
                .hint(hint))
        };
        for _ in 0..ATTEMPTS_MAX {
            if let Some(made) = try_make(places, parent, &above, &name)? {
                return Ok(made);
            }
            let aside = match sweep_one(parent, &above, name.as_ref()) {
                Ok(Swept::Removed(aside)) => aside,
                Ok(Swept::Gone) => continue,
                Ok(Swept::InUse) => {
                    let hint = "wait until it has ended, or give another name";
                    let cause = "another job is writing this set of files".to_string();
                    return refuse(Kind::Usage, cause, hint);
                }
                Ok(Swept::Left(cause)) => {
                    let cause = format!("{name} is in the way: {cause}");
                    return refuse(Kind::Io, cause, "see `outcore scratch list -v`");
                }
                Err(errno) => return Err(cannot_make(parent)(errno)),
            };
            if let Some(error) = told(&aside) {
                return Err(error);
            }
        }
        Err(cannot_make(parent)(Errno::EXIST))
    }

    /// A directory that exists by name alone, on a device without directories.
    pub(super) fn named(path: PathBuf, names: Box<dyn Names>) -> Self {
        PrivateDir {
            path,
            owner: Owner::Names(names),
            is_kept: AtomicBool::new(false),
        }
    }

    /// Makes its lock durable, so that it is known after a power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        let Owner::Lock(lock, held) = &self.owner else {
            return Ok(());
        };
        let synced = rustix::fs::fsync(lock).and_then(|()| rustix::fs::fsync(&held.dir));
        match synced {
            // A file system that does not know how.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            synced => synced.map_err(cannot_make(&self.path)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory up without removing it: the next sweep finishes its commit.
    pub fn leave(mut self) {
        self.owner = Owner::Nobody;
    }

    /// Writes a small file here, durably.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match &self.owner {
            Owner::Names(names) => {
                names.write(&self.path.join(name), bytes);
                Ok(())
            }
            Owner::Lock(_, held) => commit::write_whole(&held.dir, name, bytes)
                .map_err(|error| Error::io("write scratch", &error).path(self.path.join(name))),
            Owner::Nobody => Ok(()),
        }
    }

    /// Makes an empty file here, for writing as the system does.
    pub(crate) fn create_file(&self, name: &str) -> Result<File> {
        let failed = |errno: Errno| {
            Error::errno("create file", errno.raw_os_error()).path(self.path.join(name))
        };
        let Owner::Lock(_, held) = &self.owner else {
            return Err(failed(Errno::OPNOTSUPP));
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        openat(&held.dir, name, flags | OFlags::CLOEXEC, mode)
            .map(File::from)
            .map_err(failed)
    }

    /// Makes a directory here, for files with any names; gives where it is.
    pub fn create_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        if let Owner::Lock(_, held) = &self.owner {
            mkdirat(&held.dir, name, Mode::RWXU)
                .map_err(|errno| Error::errno(MAKE, errno.raw_os_error()).path(&path))?;
        }
        Ok(path)
    }

    /// Makes a directory here, and gives it open: what is made in it by that handle lies in it,
    /// whoever renames what is above.
    pub fn create_tree(&self, name: &str) -> Result<OwnedFd> {
        let failed =
            |errno: Errno| Error::errno(MAKE, errno.raw_os_error()).path(self.path.join(name));
        let Owner::Lock(_, held) = &self.owner else {
            return Err(failed(Errno::OPNOTSUPP));
        };
        mkdirat(&held.dir, name, Mode::RWXU).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&held.dir, name, flags, Mode::empty()).map_err(failed)
    }

    /// Gives the directory `name`, which lies here, its place as `to` beside this one, where
    /// nothing may be.
    pub fn publish_dir(&self, name: &str, to: &Path) -> Result<()> {
        let failed = |errno: Errno| Error::errno("publish output", errno.raw_os_error()).path(to);
        let Owner::Lock(_, held) = &self.owner else {
            return Err(failed(Errno::OPNOTSUPP));
        };
        let to_name = to.file_name().ok_or_else(|| failed(Errno::INVAL))?;
        let from = At::inside(&held.dir, name.as_ref());
        rename_new(&from, &At::inside(&held.parent, to_name)).map_err(|errno| match errno {
            Errno::EXIST => failed(errno).hint("name a directory that does not exist yet"),
            errno => failed(errno),
        })?;
        rustix::fs::fsync(&held.parent).map_err(failed)
    }

    /// Says, durably, that from now on this directory holds what exists nowhere else: it stays when
    /// it is dropped, and no sweep removes it while both files of one of the pairs are there, or
    /// can be: one that has lost parts, and its marker.
    pub(crate) fn keep_for(&self, pairs: &[(PathBuf, PathBuf)]) -> Result<()> {
        let Owner::Lock(lock, _) = &self.owner else {
            return Ok(());
        };
        let kept: std::result::Result<Vec<Kept>, Errno> = pairs
            .iter()
            .map(|(file, marker)| Kept::of(file, marker))
            .collect();
        let failed = |error: &io::Error| Error::io("mark scratch", error).path(&self.path);
        let kept = kept.map_err(|errno| failed(&errno.into()))?;
        lock.sync_all().map_err(|error| failed(&error))?;
        self.write_file(KEEP, &seal(KEEP, &kept)?)?;
        self.is_kept.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes that back: what it holds is elsewhere now.
    pub fn release(&self) {
        self.is_kept.store(false, Ordering::Release);
    }

    /// Whether it stays when it is dropped.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }

    /// Whether it is a directory, and not only the front part of names.
    pub(crate) fn is_on_disk(&self) -> bool {
        !matches!(self.owner, Owner::Names(_))
    }

    /// Records that `renames` are to be done whatever happens next: each out of one of `dirs` to
    /// the directory above it, or from there into one of `dirs`, for what is to be removed. Without
    /// `replace`, nothing may have one of the new names; with it, what has one now may be
    /// overwritten.
    pub fn commit(
        dirs: &[PrivateDir],
        renames: &[(PathBuf, PathBuf)],
        replace: bool,
    ) -> Result<()> {
        let mut all_held: Vec<(&File, &Held)> = Vec::with_capacity(dirs.len());
        for dir in dirs {
            let Owner::Lock(lock, held) = &dir.owner else {
                // A device without directories does not outlive the job.
                return Ok(());
            };
            all_held.push((lock, held));
        }
        commit::decide(&all_held, renames, replace)
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.owner, Owner::Nobody) {
            Owner::Lock(..) if *self.is_kept.get_mut() => {}
            // What cannot be removed now is swept by the next run: the lock goes with the handle.
            Owner::Lock(lock, held) => {
                if let Some(name) = held.path.file_name() {
                    let _ = remove_locked(&held.parent, name, &held.dir, lock);
                }
            }
            Owner::Names(names) => names.remove_below(&self.path),
            Owner::Nobody => {}
        }
    }
}

/// A file whose parts a directory holds, and its marker beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    file: Vec<u8>,
    marker: Vec<u8>,
    parent_inode: u64,
}

impl Kept {
    fn of(file: &Path, marker: &Path) -> std::result::Result<Self, Errno> {
        Ok(Kept {
            parent_inode: rustix::fs::stat(parent_of(marker))?.st_ino,
            file: absolute(file),
            marker: absolute(marker),
        })
    }

    /// Whether one of the two is certainly gone.
    fn is_gone(&self) -> bool {
        let path_of = |bytes| Path::new(OsStr::from_bytes(bytes));
        let (file, marker) = (path_of(&self.file), path_of(&self.marker));
        let is_gone = |path| rustix::fs::lstat(path).is_err_and(|errno| errno == Errno::NOENT);
        let above = rustix::fs::stat(parent_of(marker));
        let is_mounted = above.is_ok_and(|above| above.st_ino == self.parent_inode);
        is_mounted && (is_gone(file) || is_gone(marker))
    }
}

/// A path from the root.
fn absolute(path: &Path) -> Vec<u8> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    path.as_os_str().as_bytes().to_vec()
}

fn cannot_make(parent: &Path) -> impl Fn(Errno) -> Error + '_ {
    move |errno| {
        let error = Error::errno(MAKE, errno.raw_os_error()).path(parent);
        let umask = super::places::umask();
        match errno {
            Errno::ACCESS if umask & 0o700 != 0 && !rustix::process::geteuid().is_root() => error.hint(
                format!(
                    "the umask {umask:04o} keeps you out of the directories that you make: set another, such as `umask 022`"
                ),
            ),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                error.hint("outputs and scratch begin in a directory of their own there: name a place where you may make one")
            }
            // What the cause says is to be done.
            _ => error,
        }
    }
}

/// Makes the directory `name` and locks it; nothing if somebody else has the name.
fn try_make(
    places: &Places,
    parent: &Path,
    above: &Arc<OwnedFd>,
    name: &str,
) -> Result<Option<PrivateDir>> {
    match mkdirat(above, name, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(None),
        Err(errno) => return Err(cannot_make(parent)(errno)),
    }
    let made = open_dir(above, Path::new(name), false).and_then(|dir| {
        let lock = new_lock(&dir)?;
        Ok(lock.map(|lock| (dir, lock)))
    });
    match made {
        Ok(Some((dir, lock))) => {
            let path = parent.join(name);
            let held = Arc::new(Held {
                path: path.clone(),
                parent_path: parent.to_path_buf(),
                parent: Arc::clone(above),
                dir,
            });
            places.add(&held);
            Ok(Some(PrivateDir {
                path,
                owner: Owner::Lock(lock, held),
                is_kept: AtomicBool::new(false),
            }))
        }
        // Somebody swept it between the two calls.
        Ok(None) | Err(Errno::NOENT | Errno::EXIST) => Ok(None),
        Err(errno) => {
            // Empty, or not ours.
            let _ = unlinkat(above, name, AtFlags::REMOVEDIR);
            Err(cannot_make(parent)(errno))
        }
    }
}

/// Makes the lock file in a new directory, and takes the lock; nothing if a sweep was faster.
fn new_lock(dir: &Arc<OwnedFd>) -> std::result::Result<Option<File>, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut lock = File::from(openat(dir, LOCK, flags, Mode::RUSR | Mode::WUSR)?);
    let written = match take_lock(dir, &lock) {
        Ok(true) => lock
            .write_all(LOCK_TEXT.as_bytes())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        Ok(false) => return Ok(None),
        Err(errno) => Err(errno),
    };
    match written {
        Ok(()) => Ok(Some(lock)),
        Err(errno) => {
            // There may be room for the file and none for what it holds; or the file system has no
            // locks.
            let _ = unlinkat(dir, LOCK, AtFlags::empty());
            Err(errno)
        }
    }
}

/// Takes the lock of an open lock file; false if somebody holds it, or it has lost its name.
fn take_lock(dir: &Arc<OwnedFd>, lock: &File) -> std::result::Result<bool, Errno> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(errno) => return Err(errno),
    }
    // The file that we locked must still be the one that has the name.
    let locked = fstat(lock)?;
    let named = statat(dir, LOCK, AtFlags::SYMLINK_NOFOLLOW);
    Ok(named.is_ok_and(|named| named.st_ino == locked.st_ino))
}

/// The lock of a directory of ours; nothing if somebody holds it, or there is none.
fn lock_of(dir: &Arc<OwnedFd>) -> std::result::Result<Option<File>, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = File::from(openat(dir, LOCK, flags, Mode::empty())?);
    Ok(take_lock(dir, &lock)?.then_some(lock))
}

/// Whether an open directory belongs to this user and is closed to all others.
fn is_private(dir: impl AsFd) -> bool {
    fstat(dir).is_ok_and(|found| {
        contents::is_dir(&found)
            && found.st_mode & 0o077 == 0
            && found.st_uid == rustix::process::geteuid().as_raw()
    })
}

/// Removes a directory whose lock is held, the lock last: killed on the way, what is left is
/// known by it. A file that is none of ours stays, and the directory with it.
fn remove_locked(
    parent: &Arc<OwnedFd>,
    name: &OsStr,
    dir: &Arc<OwnedFd>,
    lock: File,
) -> std::result::Result<(), Errno> {
    // What is removed only in part must not be taken for a set that was decided.
    commit::revoke(dir)?;
    let names = contents::names_in(dir)?;
    for name in names.iter().filter(|name| *name != LOCK && is_known(name)) {
        match contents::remove(dir, name) {
            // Somebody has it open still.
            Err(_) if contents::is_hidden(name) => {}
            removed => removed?,
        }
    }
    if !names.iter().all(|name| is_known(name)) {
        return Err(Errno::NOTEMPTY);
    }
    // From here on a sweep finds an empty directory with a lock, and does the same.
    drop(lock);
    match unlinkat(dir, LOCK, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    // Another may have our name by now; only an empty directory goes.
    let ours = fstat(dir)?;
    let named = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) {
        true => remove_empty(parent, name, dir),
        false => Err(Errno::STALE),
    }
}

/// Removes an empty directory, which a file that is just being closed may be hidden in.
fn remove_empty(
    parent: &Arc<OwnedFd>,
    name: &OsStr,
    dir: &Arc<OwnedFd>,
) -> std::result::Result<(), Errno> {
    for _ in 0..HIDDEN_LOOKS {
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            removed => return removed,
        }
        let left = contents::names_in(dir)?;
        if left.is_empty() || !left.iter().all(|name| contents::is_hidden(name)) {
            return Err(Errno::NOTEMPTY);
        }
        std::thread::sleep(HIDDEN_WAIT);
    }
    Err(Errno::NOTEMPTY)
}

/// Makes a file that is not there yet; in a private directory, in that one and no other.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let found = Places::default().at(path)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if found.is_held() { 0o600 } else { 0o666 });
    Ok(File::from(openat(found.dir(), &found.name, flags, mode)?))
}

/// The directory of a file, or, of one in a private directory, that of the directory.
pub(crate) fn public_parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    match parent.parent() {
        Some(above) if parent.file_name().is_some_and(is_private_name) => above,
        _ => parent,
    }
}

#[cfg(test)]
pub(super) mod tests;
