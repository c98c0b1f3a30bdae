//! Names resolved from directory handles: an operation in a private directory always happens in
//! that directory.
//!
//! Contract: a device keeps the handles of its live private directories ([`Held`]) and of their
//! parents. A path into a private directory is resolved from its handle. A user who can rename in
//! the parent, or put a link in place of the private directory, cannot redirect the path. A private
//! directory of another device is opened by name, but never through a link, neither at its own name
//! nor below. The system resolves all other paths.
//!
//! Publishing renames from a private directory to its parent, or to a folder of the parent, through
//! the handles of both.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

const PREFIX: &str = ".outcore-";
const DIGITS: usize = 12;

type Result<T> = std::result::Result<T, Errno>;

/// The name of the private directory with this number.
pub(super) fn name_of(number: u64) -> String {
    format!("{PREFIX}{:0DIGITS$x}", number >> 16)
}

/// Whether a private directory may have this name.
pub(super) fn is_private_name(name: &OsStr) -> bool {
    let digits = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == DIGITS && digits.iter().all(is_digit)
    })
}

/// A private directory and its parent, held open.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) path: PathBuf,
    pub(super) parent_path: PathBuf,
    pub(super) parent: Arc<OwnedFd>,
    pub(super) dir: Arc<OwnedFd>,
}

/// A name in a directory that is held open, or in the current directory.
#[derive(Debug)]
pub(super) struct At {
    dir: Option<Arc<OwnedFd>>,
    pub(super) name: PathBuf,
}

impl At {
    pub(super) fn inside(dir: &Arc<OwnedFd>, name: &OsStr) -> Self {
        At {
            dir: Some(Arc::clone(dir)),
            name: name.into(),
        }
    }

    /// Whether a link of this name must not be followed, because only outcore creates files there.
    pub(super) fn is_held(&self) -> bool {
        self.dir.is_some()
    }

    /// The directory.
    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_ref().map_or(CWD, |dir| dir.as_fd())
    }

    /// The status of the name itself, without following a link.
    pub(super) fn stat(&self) -> Result<Stat> {
        rustix::fs::statat(self.dir(), &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Opens a directory. If `name` is a path, the system resolves all of it.
pub(super) fn open_dir(dir: impl AsFd, name: &Path, is_linked: bool) -> Result<Arc<OwnedFd>> {
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if !is_linked {
        flags |= OFlags::NOFOLLOW;
    }
    rustix::fs::openat(dir, name, flags, Mode::empty()).map(Arc::new)
}

/// The directory that contains a path.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The live private directories of a device. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(Arc<Mutex<Vec<Weak<Held>>>>);

impl Places {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a directory for as long as its owner holds it.
    pub(super) fn add(&self, held: &Arc<Held>) {
        let mut places = self.lock();
        places.retain(|place| place.strong_count() > 0);
        places.push(Arc::downgrade(held));
    }

    fn find(&self, path: &Path) -> Option<Arc<Held>> {
        let places = self.lock();
        let mut live = places.iter().rev().filter_map(Weak::upgrade);
        live.find(|held| held.path == path)
    }

    /// The directory handle and name of `path`.
    pub(super) fn at(&self, path: &Path) -> Result<At> {
        let plain = || At {
            dir: None,
            name: path.into(),
        };
        let Some(name) = path.file_name() else {
            return Ok(plain());
        };
        let inside = self.private_dir(parent_of(path))?;
        Ok(inside.map_or_else(plain, |dir| At::inside(&dir, name)))
    }

    /// The directory `path`, open.
    pub(super) fn dir(&self, path: &Path) -> Result<Arc<OwnedFd>> {
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        match self.private_dir(path)? {
            Some(dir) => Ok(dir),
            None => open_dir(CWD, path, true),
        }
    }

    /// The target `to` of a file that moves out of the private directory that holds `from`; always
    /// by handle.
    pub(super) fn beside(&self, from: &Path, to: &Path) -> Result<At> {
        let (parent, name) = (parent_of(to), to.file_name().ok_or(Errno::INVAL)?);
        if let Some(held) = from.parent().and_then(|dir| self.find(dir)) {
            if parent == held.parent_path {
                return Ok(At::inside(&held.parent, name));
            }
            if let Some(folder) = parent.file_name()
                && parent_of(parent) == held.parent_path
            {
                let folder = open_dir(&held.parent, Path::new(folder), false)?;
                return Ok(At::inside(&folder, name));
            }
        }
        Ok(At::inside(&self.dir(parent)?, name))
    }

    /// The directory `path`, if it is or is inside a private directory.
    fn private_dir(&self, path: &Path) -> Result<Option<Arc<OwnedFd>>> {
        let mut outermost = None;
        for ancestor in path.ancestors() {
            if let Some(held) = self.find(ancestor) {
                return walk(&held.dir, ancestor, path).map(Some);
            }
            if ancestor.file_name().is_some_and(is_private_name) {
                outermost = Some(ancestor);
            }
        }
        let Some(outermost) = outermost else {
            return Ok(None);
        };
        let above = open_dir(CWD, parent_of(outermost), true)?;
        let name = Path::new(outermost.file_name().ok_or(Errno::INVAL)?);
        let dir = open_dir(&above, name, false)?;
        walk(&dir, outermost, path).map(Some)
    }
}

/// The directory `path`, opened from `dir`, whose path is `from`.
fn walk(dir: &Arc<OwnedFd>, from: &Path, path: &Path) -> Result<Arc<OwnedFd>> {
    let below = path.strip_prefix(from).map_err(|_| Errno::INVAL)?;
    let mut dir = Arc::clone(dir);
    for part in below.components() {
        dir = open_dir(&dir, Path::new(part.as_os_str()), false)?;
    }
    Ok(dir)
}

/// Renames if the target does not exist.
///
/// # Errors
/// `EXIST` if the target exists.
pub(super) fn rename_new(from: &At, to: &At) -> Result<()> {
    use rustix::fs::{RenameFlags, linkat, renameat, renameat_with, unlinkat};
    let (old, new) = (from.dir(), to.dir());
    match renameat_with(old, &from.name, new, &to.name, RenameFlags::NOREPLACE) {
        // For file systems without the flag: a hard link also fails if the target exists.
        Err(Errno::INVAL | Errno::NOSYS) => {}
        other => return other,
    }
    match linkat(old, &from.name, new, &to.name, AtFlags::empty()) {
        Ok(()) => return unlinkat(old, &from.name, AtFlags::empty()),
        // For file systems without links: a target that appears at this moment goes undetected.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {}
        Err(errno) => return Err(errno),
    }
    match to.stat() {
        Err(Errno::NOENT) => renameat(old, &from.name, new, &to.name),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

/// The process's file mode mask, read without changing it for other threads.
pub(super) fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok())
        .unwrap_or(0o022)
}

/// Gives a private file the mode and owner of the file that it replaces, or the mode of a new one.
pub(super) fn give_mode(from: &At, replaced: Option<&Stat>, umask: u32) -> Result<()> {
    use rustix::fs::{FileType, Gid, Uid, fchmod, fchown, openat};
    let is_file = |stat: &&Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(from.dir(), &from.name, flags, Mode::empty())?;
    let mode = match replaced.filter(is_file) {
        Some(replaced) => {
            // Only root may change a file's owner; other users keep the new file as theirs.
            let owner = Uid::from_raw(replaced.st_uid);
            let group = Gid::from_raw(replaced.st_gid);
            let _ = fchown(&file, Some(owner), Some(group));
            replaced.st_mode & 0o777
        }
        None => 0o666 & !umask,
    };
    fchmod(&file, Mode::from_raw_mode(mode))
}
