//! Private directories: where scratch and unfinished output live, owned by a lock.
//!
//! Contract: a private directory is `PARENT/.outcore-NUMBER`, mode 0700, and holds a file `lock`
//! on which its owner keeps a `flock`. The kernel drops the lock with the process however it
//! ends, so a directory whose lock can be taken has lost its owner and may be swept; process
//! numbers are never trusted. Dropping the owner's handle removes the directory with all in it.
//!
//! Commit record: before several files are published together, each directory gets a file
//! `coordinator` with the path of the first, and the first gets `commit`, the list of renames,
//! by one durable rename. Whoever sweeps such a directory finishes the renames first. It takes a set
//! for not committed only where it sees that there is no record: a drive that is not mounted, known
//! by the inode number of the directory above, and a record that cannot be read leave all as it is.
//!
//! Trust: only directories of the same user, closed to all others, are looked into; anybody may make
//! directories of that name in a place that all may write to.
//!
//! A directory between `mkdir` and the lock has no `lock` file; the sweep takes the lock of such a one
//! too, and the maker, finding it taken or gone, makes another. Whoever removes a directory removes its
//! lock last.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
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
        let parent = home.parent().map(fs::metadata);
        let parent_inode = parent.and_then(|facts| facts.ok()).map_or(0, |f| f.ino());
        let mut coordinator = home.as_os_str().as_encoded_bytes().to_vec();
        coordinator.push(0);
        coordinator.extend_from_slice(parent_inode.to_string().as_bytes());
        for dir in dirs {
            dir.write_file(COORDINATOR_NAME, &coordinator)?;
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

/// Finishes the renames of a job that died after its commit; false if that cannot be told or done
/// now.
fn finish_commit(dir: &Path) -> bool {
    let coordinator = match fs::read(dir.join(COORDINATOR_NAME)) {
        Ok(coordinator) => coordinator,
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
    };
    match find_record(&coordinator) {
        Record::Found(record) => finish_renames(&record),
        Record::None => true,
        Record::Unknown => false,
    }
}

/// What is known of a set of files that were to appear together.
enum Record {
    /// They were committed: the renames.
    Found(Vec<u8>),
    /// They were not, or all have been renamed.
    None,
    /// The record may exist where it cannot be read now.
    Unknown,
}

/// The commit record that a `coordinator` file leads to.
fn find_record(coordinator: &[u8]) -> Record {
    let mut fields = coordinator.split(|&byte| byte == 0);
    let home = fields
        .next()
        .map(|bytes| Path::new(OsStr::from_bytes(bytes)));
    let inode = fields.next().and_then(|text| str::from_utf8(text).ok());
    let (Some(home), Some(Ok(inode))) = (home, inode.map(str::parse::<u64>)) else {
        return Record::Unknown;
    };
    // Another directory has the name of the one above: the drive is not mounted.
    let is_here = |parent: &Path| fs::metadata(parent).is_ok_and(|facts| facts.ino() == inode);
    if !home.parent().is_some_and(is_here) {
        return Record::Unknown;
    }
    match is_private(home) {
        Ok(true) => {}
        Ok(false) => return Record::Unknown,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Record::None,
        Err(_) => return Record::Unknown,
    }
    match fs::read(home.join(COMMIT_NAME)) {
        Ok(record) => Record::Found(record),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Record::None,
        Err(_) => Record::Unknown,
    }
}

/// Does what of `record` is not done yet; false if something of it cannot be done.
fn finish_renames(record: &[u8]) -> bool {
    let mut paths = record
        .split(|&byte| byte == 0)
        .map(|path| Path::new(OsStr::from_bytes(path)));
    while let (Some(from), Some(to)) = (paths.next(), paths.next()) {
        let is_done = || matches!(from.try_exists(), Ok(false));
        if fs::rename(from, to).is_err() && !is_done() {
            return false;
        }
        // Durable before the record goes.
        if let Some(Ok(parent)) = to.parent().map(File::open)
            && parent.sync_all().is_err()
        {
            return false;
        }
    }
    true
}

/// Whether `path` is a directory of this user that is closed to all others.
fn is_private(path: &Path) -> io::Result<bool> {
    let facts = fs::symlink_metadata(path)?;
    let is_closed = facts.mode() & 0o077 == 0;
    Ok(facts.is_dir() && facts.uid() == rustix::process::geteuid().as_raw() && is_closed)
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        match &self.owner {
            // What cannot be removed now is swept by the next run: the lock goes with the handle.
            Owner::Lock(_) => {
                let _ = remove_locked(&self.path);
            }
            Owner::Names(names) => names.remove_below(&self.path),
            Owner::Nobody => {}
        }
    }
}

/// Removes a directory whose lock is held, the lock behind all else: killed on the way, what is left is
/// known by it.
fn remove_locked(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == LOCK_NAME {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_file(dir.join(LOCK_NAME))?;
    fs::remove_dir(dir)
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

/// The directory of a file, or, of one in a private directory, that of the directory.
pub fn public_parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    let is_private = parent
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    match parent.parent() {
        Some(above) if is_private => above,
        _ => parent,
    }
}

/// This user's private directories in `parent`, and whether each one's owner lives.
pub fn list(parent: &Path) -> Result<Vec<(PathBuf, bool)>> {
    let entries =
        fs::read_dir(parent).map_err(|e| Error::io("look for scratch", &e).path(parent))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let is_ours = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes());
        let path = entry.path();
        if is_ours && is_private(&path).is_ok_and(|is_private| is_private) {
            let is_alive = matches!(lock_in(&path, false), Ok(None));
            found.push((path, is_alive));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether there is any private directory in `parent`, anybody's.
pub fn has_any(parent: &Path) -> Result<bool> {
    let failed = |e: io::Error| Error::io("look for scratch", &e).path(parent);
    for entry in fs::read_dir(parent).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the private directories in `parent` whose owners are gone.
pub fn sweep(parent: &Path) -> Result<Vec<PathBuf>> {
    let mut swept = Vec::new();
    for (path, is_alive) in list(parent)? {
        if is_alive {
            continue;
        }
        // Held while removing, so that two sweeps do not meet.
        let Ok(Some(_lock)) = lock_in(&path, true) else {
            continue;
        };
        if finish_commit(&path) && remove_locked(&path).is_ok() {
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
        make_private(&left);
        fs::write(left.join(LOCK_NAME), b"").unwrap();
        fs::write(left.join("scratch"), b"data").unwrap();
        make_private(&parent.join(".outcore-empty"));
        // Killed on the way of removing it.
        let without_lock = parent.join(".outcore-44556677");
        make_private(&without_lock);
        fs::write(without_lock.join("scratch"), b"data").unwrap();
        fs::create_dir(without_lock.join("inner")).unwrap();
        fs::create_dir(parent.join("unrelated")).unwrap();
        assert_eq!(sweep(&parent).unwrap().len(), 3);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
        fs::remove_dir_all(parent).unwrap();
    }

    fn make_private(path: &Path) {
        fs::DirBuilder::new().mode(0o700).create(path).unwrap();
    }

    /// What a job leaves that died before or after its commit: the coordinator's directory below
    /// `first`, another with a staged file below `second`.
    fn leave_set(first: &Path, second: &Path, is_committed: bool) -> (PathBuf, PathBuf) {
        let dirs = [first, second].map(|parent| PrivateDir::make(parent).unwrap());
        let [home, other] = [0, 1].map(|index: usize| dirs[index].path().to_path_buf());
        fs::write(other.join("output-1"), b"data").unwrap();
        let renames = [(other.join("output-1"), second.join("shard"))];
        PrivateDir::commit(&dirs, &renames).unwrap();
        if !is_committed {
            fs::remove_file(home.join(COMMIT_NAME)).unwrap();
        }
        dirs.into_iter().for_each(PrivateDir::leave);
        (home, other)
    }

    #[test]
    fn a_committed_set_is_finished_from_any_of_its_directories() {
        let [first, second] = ["commit-a", "commit-b"].map(parent);
        let (home, other) = leave_set(&first, &second, true);
        assert_eq!(sweep(&second).unwrap(), std::slice::from_ref(&other));
        assert_eq!(fs::read(second.join("shard")).unwrap(), b"data");
        assert_eq!(sweep(&first).unwrap(), [home]);
        for dir in [first, second] {
            fs::remove_dir_all(dir).unwrap();
        }
    }

    #[test]
    fn a_set_without_a_record_is_removed_once_its_coordinator_has_been_seen() {
        let [first, second] = ["abort-a", "abort-b"].map(parent);
        let (home, other) = leave_set(&first, &second, false);
        assert_eq!(sweep(&first).unwrap(), [home]);
        assert_eq!(sweep(&second).unwrap(), [other]);
        assert!(!second.join("shard").exists());
        for dir in [first, second] {
            fs::remove_dir_all(dir).unwrap();
        }
    }

    #[test]
    fn shards_wait_for_a_drive_that_is_not_mounted_or_a_record_that_cannot_be_read() {
        let [first, second] = ["away-a", "away-b"].map(parent);
        let (home, other) = leave_set(&first, &second, true);
        let away = first.with_extension("away");
        fs::rename(&first, &away).unwrap();
        assert!(sweep(&second).unwrap().is_empty());
        // The empty mount point.
        fs::create_dir(&first).unwrap();
        assert!(sweep(&second).unwrap().is_empty());
        fs::remove_dir(&first).unwrap();
        fs::rename(&away, &first).unwrap();
        // A record that is there and is no file.
        let record = home.join(COMMIT_NAME);
        fs::rename(&record, home.join("kept")).unwrap();
        fs::create_dir(&record).unwrap();
        assert!(sweep(&second).unwrap().is_empty());
        fs::remove_dir(&record).unwrap();
        fs::rename(home.join("kept"), &record).unwrap();
        assert_eq!(sweep(&second).unwrap(), [other]);
        assert_eq!(fs::read(second.join("shard")).unwrap(), b"data");
        for dir in [first, second] {
            fs::remove_dir_all(dir).unwrap();
        }
    }

    #[test]
    fn what_others_could_have_made_is_not_looked_into() {
        let parent = parent("planted");
        let planted = parent.join(".outcore-planted");
        let victim = parent.join("victim");
        make_private(&planted);
        fs::write(&victim, b"own").unwrap();
        fs::write(planted.join(LOCK_NAME), b"").unwrap();
        fs::write(planted.join("payload"), b"foreign").unwrap();
        let inode = fs::metadata(&parent).unwrap().ino();
        let coordinator = format!("{}\0{inode}", planted.display());
        fs::write(planted.join(COORDINATOR_NAME), coordinator).unwrap();
        let record = format!("{0}/payload\0{1}\0", planted.display(), victim.display());
        fs::write(planted.join(COMMIT_NAME), record).unwrap();
        // Open to others, or a link to something closed.
        fs::set_permissions(
            &planted,
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let link = parent.join(".outcore-link");
        std::os::unix::fs::symlink(&planted, &link).unwrap();
        assert!(sweep(&parent).unwrap().is_empty());
        assert!(list(&parent).unwrap().is_empty());
        fs::set_permissions(
            &planted,
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .unwrap();
        let other = rustix::process::geteuid().as_raw() + 1;
        if std::os::unix::fs::chown(&planted, Some(other), None).is_ok() {
            assert!(sweep(&parent).unwrap().is_empty());
        } else {
            eprintln!("skipped: giving a directory to another user needs root");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"own");
        fs::remove_dir_all(parent).unwrap();
    }
}
