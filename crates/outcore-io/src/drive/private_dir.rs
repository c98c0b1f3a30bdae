//! Private directories for scratch and unfinished output, each owned by a lock.
//!
//! Contract: a private directory is `PARENT/.outcore-NUMBER` with 12 hexadecimal digits and mode
//! 0700. It holds a file `lock` with [`LOCK_TEXT`], on which its owner keeps a `flock`. The kernel
//! releases the lock when the process ends, even if it is killed. A directory whose lock can be
//! taken has therefore lost its owner and may be swept. Process numbers are never trusted. Dropping
//! the owner's handle removes the directory and its contents.
//!
//! outcore removes only directories that certainly belong to it. Such a directory has a name of
//! this form and our lock file. It is owned by this user, closed to all others, and contains no
//! file whose name is not ours ([`contents`]). It leaves everything else alone, and [`list`]
//! reports the reason. All of this goes through handles ([`super::places`]): the directory and its
//! parent are held open from the start, and no link is followed.
//!
//! [`PrivateDir::claim`] makes the directory of a set of files. The set's name determines its
//! number, so if two jobs write one set, the second finds the directory taken. It looks again for
//! some seconds, since the lock of a killed job stays until the kernel has ended its I/O.
//!
//! Files of several directories appear together by records and a commit ([`commit`]). A sweep of
//! such a directory finishes the renames first.
//!
//! A job may keep a directory ([`PrivateDir::keep_for`]), which then holds the only copy of some
//! data, because the job has freed parts of a file. It is swept once that file's marker is gone, or
//! its set is decided. The directories of a job that can be resumed stay as well
//! ([`PrivateDir::keep_to_resume`], [`resume`]).
//!
//! Between `mkdir` and the lock a directory has no `lock` file, or an empty one. The sweep removes
//! such a directory if it holds nothing else, and the maker makes another. A removal deletes the
//! lock last, and closes it first: on NFS and FUSE an open file that loses its name gets another
//! one in the same directory ([`contents::is_hidden`]).
//!
//! A power loss may empty a lock that was not synced. Directories of scratch and of large outputs
//! are synced ([`PrivateDir::sync`]); for a small job a sync would take longer than the job. The
//! sweep also removes a directory with an empty lock if every file in it looks like a file of ours
//! in all other respects ([`contents::is_staged`]).

mod commit;
mod contents;
mod folders;
mod mark;
mod resume;
mod search;
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
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, statat, unlinkat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use serde::{Deserialize, Serialize};

use super::link::check_dir;
pub(super) use super::places::name_of;
use super::places::{At, Held, Places, is_private_name, open_dir, parent_of, rename_new};
use crate::checksum::bytes_checksum;
use crate::error::{Error, Kind, Result};
pub(crate) use commit::{seal, unseal};
use contents::is_known;
pub use mark::Resumable;
pub use resume::{DeadJob, claimed_path, forget, is_marked, reopened, resumable_at};
pub use search::{bytes_in, is_in_private_dir, places_in};
pub(super) use sweep::sweep_in;
pub(crate) use sweep::{LOOK, unpublished_in};
pub use sweep::{State, has_any, list, sweep};
use sweep::{Swept, sweep_one, told};

const LOCK: &str = "lock";
/// Contents of a lock file of ours.
pub const LOCK_TEXT: &str = "private directory of outcore, version 1\n";
const KEEP: &str = "keep";
const ATTEMPTS_MAX: u32 = 100;
/// The depth of the directories of a set below a private directory.
const SPARE_DESCRIPTORS: usize = 2;
/// Number of checks, and the pause between them, while a removal waits for a hidden file to be
/// closed.
const HIDDEN_LOOKS: u32 = 20;
const HIDDEN_WAIT: Duration = Duration::from_millis(5);
/// Longest wait for a directory in use, and the pause between looks.
const ENDING: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const MAKE: &str = "make private directory";

/// A directory that only this process uses; removed with its contents when dropped.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    owner: Owner,
    is_kept: AtomicBool,
    is_mark_damaged: bool,
    /// Descriptors for its removal, which opens directories in it: the process may have no other
    /// left.
    spare: Vec<OwnedFd>,
}

/// The proof that the directory is ours.
#[derive(Debug)]
enum Owner {
    /// The held lock, and the directory.
    Lock(File, Arc<Held>),
    /// A device without directories; the directory is a prefix of names.
    Names(Box<dyn Names>),
    /// No owner any more: the next sweep removes it.
    Nobody,
}

/// A device whose directories are prefixes of its files' names.
pub(super) trait Names: std::fmt::Debug + Send + Sync {
    /// Creates a file of that name.
    fn write(&self, path: &Path, bytes: &[u8]);
    /// Removes all files below a directory.
    fn remove_below(&self, dir: &Path);
}

/// Whether a file at `path` is removed together with a private directory that contains it.
pub(super) fn is_swept(path: &Path) -> bool {
    !is_inside(path) || path.file_name().is_some_and(is_known)
}

/// Whether a path leads into a private directory.
pub(crate) fn is_inside(path: &Path) -> bool {
    parent_of(path).file_name().is_some_and(is_private_name)
}

/// A number that no other process, and no other call, gets.
fn random_number() -> u64 {
    // The hasher's keys come from the system's random numbers.
    RandomState::new().hash_one(std::process::id())
}

impl PrivateDir {
    /// Makes and locks a directory inside `parent`, and registers it with `places`.
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

    /// Makes and locks the directory for the set of files called `set` inside `parent`.
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
            let swept = ended(
                || sweep_one(parent, &above, name.as_ref()),
                |swept| matches!(swept, Ok(Swept::InUse)),
            );
            let aside = match swept {
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

    /// A directory that is only a name, on a device without directories.
    pub(super) fn named(path: PathBuf, names: Box<dyn Names>) -> Self {
        PrivateDir {
            path,
            owner: Owner::Names(names),
            is_kept: AtomicBool::new(false),
            is_mark_damaged: false,
            spare: Vec::new(),
        }
    }

    /// Makes the directory's lock durable, so that outcore recognises the directory after a power
    /// loss.
    pub(crate) fn sync(&self) -> Result<()> {
        let Owner::Lock(lock, held) = &self.owner else {
            return Ok(());
        };
        let synced = rustix::fs::fsync(lock).and_then(|()| rustix::fs::fsync(&held.dir));
        match synced {
            // A file system that cannot sync directories.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            synced => synced.map_err(cannot_make(&self.path)),
        }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory up without removing it; the next sweep finishes its commit.
    pub fn leave(mut self) {
        self.owner = Owner::Nobody;
    }

    /// Writes a small file into the directory, durably.
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

    /// Creates an empty file in the directory, for writing with the system's own calls.
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

    /// Opens a file in the directory for reading, with the system's own calls.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn open_file(&self, name: &str) -> Result<File> {
        let failed = |errno: Errno| {
            Error::errno("open scratch", errno.raw_os_error()).path(self.path.join(name))
        };
        let Owner::Lock(_, held) = &self.owner else {
            return Err(failed(Errno::OPNOTSUPP));
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&held.dir, name, flags, Mode::empty())
            .map(File::from)
            .map_err(failed)
    }

    /// Makes a directory in this one, for files with any names; returns its path.
    pub fn create_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        if let Owner::Lock(_, held) = &self.owner {
            mkdirat(&held.dir, name, Mode::RWXU)
                .map_err(|errno| Error::errno(MAKE, errno.raw_os_error()).path(&path))?;
        }
        Ok(path)
    }

    /// Makes a directory in this one and returns the new directory, open. Files made through that
    /// handle are in the new directory even if a directory above is renamed.
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

    /// Renames the directory `name` in it to `to`, next to this one; fails if `to` exists.
    pub fn publish_dir(&self, name: impl AsRef<OsStr>, to: &Path) -> Result<()> {
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

    /// Records, durably, that this directory now holds the only copy of some data. It stays when it
    /// is dropped. No sweep removes it while one of `files` and its marker exist or may exist.
    pub(crate) fn keep_for(&self, files: &[MarkedFile]) -> Result<()> {
        let Owner::Lock(lock, _) = &self.owner else {
            return Ok(());
        };
        let kept: std::result::Result<Vec<Kept>, Errno> = files
            .iter()
            .map(|marked| Kept::of(&marked.file, &marked.marker))
            .collect();
        let failed = |error: &io::Error| Error::io("mark scratch", error).path(&self.path);
        let kept = kept.map_err(|errno| failed(&errno.into()))?;
        lock.sync_all().map_err(|error| failed(&error))?;
        self.write_file(KEEP, &seal(KEEP, &kept)?)?;
        self.is_kept.store(true, Ordering::Release);
        Ok(())
    }

    /// Undoes [`PrivateDir::keep_for`] once the data are stored elsewhere.
    pub fn release(&self) {
        self.is_kept.store(false, Ordering::Release);
    }

    /// Whether the directory stays when its handle is dropped.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }

    /// Whether the directory is a real one, not only a prefix of names.
    pub(crate) fn is_on_disk(&self) -> bool {
        !matches!(self.owner, Owner::Names(_))
    }

    /// Notes durably that `renames` will be done whatever happens next. Each rename moves a file
    /// from one of `dirs` to the directory above. A file to be removed is moved from there into one
    /// of `dirs`. Without `replace`, none of the new names may exist; with it, existing files may
    /// be overwritten.
    pub fn commit(dirs: &[PrivateDir], renames: &[Rename], replace: bool) -> Result<()> {
        let mut all_held = Vec::with_capacity(dirs.len());
        for dir in dirs {
            let Owner::Lock(lock, held) = &dir.owner else {
                // A device without directories does not outlive the job.
                return Ok(());
            };
            all_held.push(LockedDir { lock, held });
        }
        commit::decide(&all_held, renames, replace)
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        self.spare.clear();
        match std::mem::replace(&mut self.owner, Owner::Nobody) {
            Owner::Lock(..) if *self.is_kept.get_mut() => {}
            // The next run sweeps the files that cannot be removed now: closing the handle releases
            // the lock.
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

/// A file of which parts are freed, and the marker next to it.
#[derive(Debug, Clone)]
pub(crate) struct MarkedFile {
    pub(crate) file: PathBuf,
    pub(crate) marker: PathBuf,
}

/// A new name for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    /// The present name.
    pub from: PathBuf,
    /// The new name.
    pub to: PathBuf,
}

/// A directory with its lock.
#[derive(Clone, Copy)]
struct LockedDir<'a> {
    lock: &'a File,
    held: &'a Held,
}

/// A file whose parts a directory holds, and the marker next to it.
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

    /// Whether the file or its marker is certainly gone.
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
                error.hint("outcore makes directories there for outputs and scratch: name a place where you may make directories")
            }
            // The cause of the error already tells the user what to do.
            _ => error,
        }
    }
}

/// Makes the directory `name` and locks it; `None` if the name is taken.
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
            let spare =
                (0..SPARE_DESCRIPTORS).map_while(|_| fcntl_dupfd_cloexec(&held.dir, 0).ok());
            let spare = spare.collect();
            Ok(Some(PrivateDir {
                path,
                spare,
                owner: Owner::Lock(lock, held),
                is_kept: AtomicBool::new(false),
                is_mark_damaged: false,
            }))
        }
        // Another process swept the directory between the two calls.
        Ok(None) | Err(Errno::NOENT | Errno::EXIST) => Ok(None),
        Err(errno) => {
            // The directory is empty, or it is not ours and stays.
            let _ = unlinkat(above, name, AtFlags::REMOVEDIR);
            Err(cannot_make(parent)(errno))
        }
    }
}

/// Makes the lock file in a new directory and takes the lock; `None` if a sweep was faster.
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
            // The drive may have room for the file but not for its contents, or the file system has
            // no locks.
            let _ = unlinkat(dir, LOCK, AtFlags::empty());
            Err(errno)
        }
    }
}

/// Takes the lock of an open lock file; false if another process holds it, or the file has lost its
/// name.
fn take_lock(dir: &Arc<OwnedFd>, lock: &File) -> std::result::Result<bool, Errno> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(errno) => return Err(errno),
    }
    // The locked file must still be the one that has the name.
    let locked = fstat(lock)?;
    let named = statat(dir, LOCK, AtFlags::SYMLINK_NOFOLLOW);
    Ok(named.is_ok_and(|named| named.st_ino == locked.st_ino))
}

/// The lock of a directory of ours; `None` if another process holds it, or there is none.
fn lock_of(dir: &Arc<OwnedFd>) -> std::result::Result<Option<File>, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = File::from(openat(dir, LOCK, flags, Mode::empty())?);
    Ok(take_lock(dir, &lock)?.then_some(lock))
}

/// Looks repeatedly until the directory is no longer in use, at most for [`ENDING`]; returns the
/// result of the last look. A process that was killed holds its locks until the kernel has ended
/// its I/O, and the next run may begin before that.
fn ended<T>(look: impl Fn() -> T, is_in_use: impl Fn(&T) -> bool) -> T {
    let until = Instant::now() + ENDING;
    loop {
        let seen = look();
        if !is_in_use(&seen) || Instant::now() >= until {
            return seen;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Whether an open directory belongs to this user and is closed to all others.
fn is_private(dir: impl AsFd) -> bool {
    fstat(dir).is_ok_and(|found| {
        contents::is_dir(&found)
            && found.st_mode & 0o077 == 0
            && found.st_uid == rustix::process::geteuid().as_raw()
    })
}

/// Removes a directory whose lock is held. The lock goes last, so that a directory whose removal
/// was interrupted is still recognised. A file that is not ours stays, and so does the directory.
fn remove_locked(
    parent: &Arc<OwnedFd>,
    name: &OsStr,
    dir: &Arc<OwnedFd>,
    lock: File,
) -> std::result::Result<(), Errno> {
    // A partly removed directory must not count as a decided set.
    commit::revoke(dir)?;
    let mut names = contents::names_in(dir)?;
    // The marks of a resumable job are removed last, so that it stays recognisable until then.
    names.sort_by_key(|name| mark::is_of_resume(name));
    for name in names.iter().filter(|name| *name != LOCK && is_known(name)) {
        match contents::remove(dir, name) {
            // Another process still has the file open.
            Err(_) if contents::is_hidden(name) => {}
            removed => removed?,
        }
    }
    if !names.iter().all(|name| is_known(name)) {
        return Err(Errno::NOTEMPTY);
    }
    // From here on, a sweep finds an empty directory with a lock and removes it.
    drop(lock);
    match unlinkat(dir, LOCK, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    // Another directory may have taken the name; only an empty directory is removed.
    let ours = fstat(dir)?;
    let named = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) {
        true => remove_empty(parent, name, dir),
        false => Err(Errno::STALE),
    }
}

/// Removes an empty directory, which may still contain a hidden file that is being closed.
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

/// Creates a file that does not exist yet. In a private directory, the file is created through that
/// directory's handle.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let found = Places::default().at(path)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if found.is_held() { 0o600 } else { 0o666 });
    Ok(File::from(openat(found.dir(), &found.name, flags, mode)?))
}

/// The directory of a file. For a file in a private directory, the parent of the private directory.
pub(crate) fn public_parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    match parent.parent() {
        Some(above) if parent.file_name().is_some_and(is_private_name) => above,
        _ => parent,
    }
}

#[cfg(test)]
pub(super) mod tests;
