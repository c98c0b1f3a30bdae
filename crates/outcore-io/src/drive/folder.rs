//! Small files and folders that a caller keeps and changes by path.
//!
//! Contract: these folders have names of their own and outlive the command that makes them, so that
//! another command can continue to fill them. A private directory ([`super::PrivateDir`]) cannot do
//! that. A file that [`write_durably`] has written is whole or absent. Errors name the path. A
//! missing file is an error, except where a function documents another result.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};

const CHANGE: &str = "change folder";

/// A lock on a folder; dropping it, or the end of the process, releases it.
#[derive(Debug)]
pub struct FolderLock {
    _dir: File,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::io(CHANGE, &error).path(path)
}

/// Makes a directory and its missing parents; an existing directory stays unchanged.
///
/// # Errors
/// I/O.
pub fn make_dirs(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(failed(path))
}

/// Makes a directory, whose parent must exist.
///
/// # Errors
/// I/O; it exists.
pub fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(failed(path))
}

/// Locks a folder; `None` if another process has locked it.
///
/// # Errors
/// I/O.
pub fn lock(dir: &Path) -> Result<Option<FolderLock>> {
    let opened = File::open(dir).map_err(failed(dir))?;
    let locked = flock(&opened, FlockOperation::NonBlockingLockExclusive);
    Ok(locked.is_ok().then_some(FolderLock { _dir: opened }))
}

/// Locks a folder; waits while another process has locked it.
///
/// # Errors
/// I/O.
pub fn lock_in_turn(dir: &Path) -> Result<FolderLock> {
    let opened = File::open(dir).map_err(failed(dir))?;
    let locked = flock(&opened, FlockOperation::LockExclusive);
    locked.map_err(|errno| failed(dir)(errno.into()))?;
    Ok(FolderLock { _dir: opened })
}

/// The bytes of a small file; `None` if it does not exist.
///
/// # Errors
/// I/O.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(failed(path)),
    }
}

/// Writes a small file as `staged`, makes it durable, and gives it the name `path`.
///
/// # Errors
/// I/O.
pub fn write_durably(path: &Path, staged: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        fs::write(staged, bytes)?;
        File::open(staged)?.sync_all()?;
        fs::rename(staged, path)
    };
    write().map_err(failed(path))
}

/// Renames a file or folder; an existing file with the new name is replaced.
///
/// # Errors
/// I/O.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(failed(to))
}

/// Removes a file, if it is there.
///
/// # Errors
/// I/O.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

/// Removes a folder with everything in it.
///
/// # Errors
/// I/O.
pub fn remove_dirs(dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).map_err(failed(dir))
}

/// Makes the names in a folder durable.
///
/// # Errors
/// I/O.
pub fn sync(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(failed(dir))
}

/// The names in a folder.
///
/// # Errors
/// I/O.
pub fn names(dir: &Path) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(dir).map_err(failed(dir))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    names.collect::<io::Result<_>>().map_err(failed(dir))
}

/// Length of a file; `None` if it cannot be examined.
pub fn len_bytes(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|facts| facts.len())
}

/// Whether `path` is a directory.
///
/// # Errors
/// I/O; nothing of that name.
pub fn is_dir(path: &Path) -> Result<bool> {
    let facts = fs::metadata(path).map_err(failed(path))?;
    Ok(facts.is_dir())
}

/// Whether two paths lead to one file or directory that exists.
pub fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Whether a directory is below another one, on the same file system; false if one does not exist.
pub fn is_inside(path: &Path, other: &Path) -> bool {
    let whole = |path: &Path| Some((path.canonicalize().ok()?, fs::metadata(path).ok()?.dev()));
    match (whole(path), whole(other)) {
        (Some((path, device)), Some((other, other_device))) => {
            device == other_device && path != other && path.starts_with(other)
        }
        _ => false,
    }
}

/// Whether a file cannot be opened because it is gone or because its medium fails.
pub fn is_lost(path: &Path) -> bool {
    let lost = [Errno::NOENT, Errno::IO].map(Errno::raw_os_error);
    let errno = File::open(path)
        .err()
        .and_then(|error| error.raw_os_error());
    errno.is_some_and(|errno| lost.contains(&errno))
}

/// The permissions of a file; `None` if it cannot be examined.
pub fn mode(path: &Path) -> Option<u32> {
    let facts = fs::metadata(path).ok()?;
    Some(facts.permissions().mode() & 0o7777)
}

/// Gives a file these permissions.
///
/// # Errors
/// I/O; another user's file.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, staged) = (dir.path().join("a"), dir.path().join("b"));
        assert_eq!(read(&path).unwrap(), None);
        write_durably(&path, &staged, b"one").unwrap();
        write_durably(&path, &staged, b"two").unwrap();
        set_mode(&path, 0o640).unwrap();
        assert_eq!(read(&path).unwrap(), Some(b"two".to_vec()));
        assert_eq!((mode(&path), len_bytes(&path)), (Some(0o640), Some(3)));
        assert_eq!(names(dir.path()).unwrap(), ["a"]);
        remove_file(&path).unwrap();
        remove_file(&path).unwrap();
        assert!(is_lost(&path) && !is_lost(dir.path()));
    }

    #[test]
    fn a_folder_has_one_lock() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        assert!(held.is_some());
        assert!(lock(dir.path()).unwrap().is_none());
        drop(held);
        assert!(lock(dir.path()).unwrap().is_some());
    }
}
