//! Private directories: where scratch and unfinished output live, owned by a lock.
//!
//! Contract: a private directory is `PARENT/.outcore-NUMBER`, mode 0700, and holds a file `lock`
//! on which its owner keeps a `flock`. The kernel drops the lock with the process however it
//! ends, so a directory whose lock can be taken has lost its owner and may be swept; process
//! numbers are never trusted. Dropping the owner's handle removes the directory with all in it.
//!
//! Commit record: before several files are published together, each directory gets a file
//! `coordinator` with the path of the first, and the first gets `commit`, the list of renames,
//! by one durable rename. Whoever sweeps such a directory finishes the renames first.
//!
//! A directory between `mkdir` and the lock has no `lock` file; the sweep removes such a one only
//! when it is empty, and the maker, finding it gone, makes another.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};

const PREFIX: &str = ".outcore-";
const LOCK_NAME: &str = "lock";
const COMMIT_NAME: &str = "commit";
const COORDINATOR_NAME: &str = "coordinator";
const ATTEMPTS_MAX: u32 = 100;

/// A directory of this process alone; removed with its contents when dropped.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    owner: Owner,
}

/// What makes a directory ours.
#[derive(Debug)]
enum Owner {
    /// The lock, held.
    Lock(#[allow(dead_code)] File),
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

impl PrivateDir {
    /// Makes and locks a directory inside `parent`.
    pub(super) fn make(parent: &Path) -> Result<Self> {
        let seed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |t| t.as_nanos() as u64);
        let mut number = seed ^ (u64::from(std::process::id()) << 40);
        for _ in 0..ATTEMPTS_MAX {
            number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
            let path = parent.join(format!("{PREFIX}{:012x}", number >> 16));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(cannot_make(parent, &e)),
            }
            match lock_in(&path, true) {
                Ok(Some(lock)) => {
                    return Ok(PrivateDir {
                        path,
                        owner: Owner::Lock(lock),
                    });
                }
                // Somebody swept it between the two calls.
                Ok(None) => continue,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => {
                    let _ = fs::remove_dir_all(&path);
                    return Err(cannot_make(parent, &e));
                }
            }
        }
        Err(cannot_make(parent, &io::Error::other("no free name")))
    }

    /// A directory that exists by name alone, on a device without directories.
    pub(super) fn named(path: PathBuf, names: Box<dyn Names>) -> Self {
        PrivateDir {
            path,
            owner: Owner::Names(names),
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
        if let Owner::Names(names) = &self.owner {
            names.write(&self.path.join(name), bytes);
            return Ok(());
        }
        let unfinished = self.path.join(format!("{name}.part"));
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&unfinished, self.path.join(name))?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|e| Error::io("write commit record", &e).path(&self.path))
    }

    /// Records, in the first of `dirs`, that `renames` are to be done whatever happens next.
    pub fn commit(dirs: &[PrivateDir], renames: &[(PathBuf, PathBuf)]) -> Result<()> {
        let Some(first) = dirs.first() else {
            return Ok(());
        };
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
        let home = absolute(&first.path);
        for dir in dirs {
            dir.write_file(COORDINATOR_NAME, home.as_os_str().as_encoded_bytes())?;
        }
        let mut record = Vec::new();
        for (from, to) in renames {
            record.extend_from_slice(absolute(from).as_os_str().as_encoded_bytes());
            record.push(0);
            record.extend_from_slice(absolute(to).as_os_str().as_encoded_bytes());
            record.push(0);
        }
        first.write_file(COMMIT_NAME, &record)
    }
}

/// Finishes the renames of a job that died after its commit; false if that cannot be told now.
fn finish_commit(dir: &Path) -> bool {
    let Ok(home) = fs::read(dir.join(COORDINATOR_NAME)) else {
        return true;
    };
    let home = PathBuf::from(OsString::from_vec(home));
    if home.parent().is_none_or(|parent| !parent.is_dir()) {
        // The coordinator's drive is not here: leave everything for when it is.
        return false;
    }
    let Ok(record) = fs::read(home.join(COMMIT_NAME)) else {
        return true;
    };
    let mut paths = record.split(|&byte| byte == 0).map(OsStr::from_bytes);
    while let (Some(from), Some(to)) = (paths.next(), paths.next()) {
        if fs::rename(from, to).is_err() && Path::new(from).exists() {
            return false;
        }
        // Durable before the record goes.
        let parent = Path::new(to).parent().map(File::open);
        if let Some(Ok(parent)) = parent
            && parent.sync_all().is_err()
        {
            return false;
        }
    }
    true
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        match &self.owner {
            // What cannot be removed now is swept by the next run: the lock goes with the handle.
            Owner::Lock(_) => {
                let _ = fs::remove_dir_all(&self.path);
            }
            Owner::Names(names) => names.remove_below(&self.path),
            Owner::Nobody => {}
        }
    }
}

fn cannot_make(parent: &Path, error: &io::Error) -> Error {
    Error::io("make scratch directory", error)
        .path(parent)
        .hint("name a directory you may write to with --drive")
}

/// Opens (or makes) the lock file of `dir` and takes its lock; nothing if somebody holds it.
fn lock_in(dir: &Path, create: bool) -> io::Result<Option<File>> {
    let path = dir.join(LOCK_NAME);
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .mode(0o600)
        .open(&path)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    // The file that we locked must still be the one that has the name.
    match fs::metadata(&path) {
        Ok(named) if named.ino() == lock.metadata()?.ino() => Ok(Some(lock)),
        _ => Ok(None),
    }
}

/// Private directories in `parent`, and whether each one's owner lives.
pub fn list(parent: &Path) -> Result<Vec<(PathBuf, bool)>> {
    let entries =
        fs::read_dir(parent).map_err(|e| Error::io("look for scratch", &e).path(parent))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let is_ours = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes());
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            let is_alive = matches!(lock_in(&path, false), Ok(None));
            found.push((path, is_alive));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the private directories in `parent` whose owners are gone.
pub fn sweep(parent: &Path) -> Result<Vec<PathBuf>> {
    let mut swept = Vec::new();
    for (path, is_alive) in list(parent)? {
        if is_alive {
            continue;
        }
        let removed = match lock_in(&path, false) {
            // Held while removing, so that two sweeps do not meet.
            Ok(Some(_lock)) if finish_commit(&path) => fs::remove_dir_all(&path),
            Ok(Some(_)) => continue,
            Ok(None) => continue,
            Err(_) => fs::remove_dir(&path),
        };
        if removed.is_ok() {
            swept.push(path);
        }
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("outcore-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_private_directory_goes_with_its_owner_and_is_not_swept_before() {
        let parent = parent("private");
        let dir = PrivateDir::make(&parent).unwrap();
        fs::write(dir.path().join("data"), b"x").unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(sweep(&parent).unwrap(), Vec::<PathBuf>::new());
        let path = dir.path().to_path_buf();
        drop(dir);
        assert!(!path.exists());
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn what_a_dead_owner_left_is_swept() {
        let parent = parent("sweep");
        let left = parent.join(".outcore-00112233");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK_NAME), b"").unwrap();
        fs::write(left.join("scratch"), b"data").unwrap();
        fs::create_dir(parent.join(".outcore-empty")).unwrap();
        fs::create_dir(parent.join("unrelated")).unwrap();
        assert_eq!(sweep(&parent).unwrap().len(), 2);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
        fs::remove_dir_all(parent).unwrap();
    }
}
