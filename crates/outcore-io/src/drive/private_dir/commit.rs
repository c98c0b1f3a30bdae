//! Files that appear together: the renames to do, and whether they are decided.
//!
//! Contract: each private directory of a set holds a `record` of the renames out of it. The first
//! one (the coordinator) also holds a `commit`, whose durable appearance decides for all of them.
//! - A record is valid only in the directory that it was written for: it holds the directory's
//!   name, and the inode numbers of the directory and its parent.
//! - A record names files, never paths. A file of its own directory moves to the parent, or to a
//!   folder of a dataset volume in the parent.
//! - The record describes each target as it was when the set was decided. A file that has appeared
//!   or changed since is not overwritten. The new file is put next to it, under the name followed
//!   by [`ASIDE`], and the process that swept reports this.
//!
//! The coordinator is removed only when all members are done or gone. A member is removed only when
//! it has seen the coordinator. If the drive of a directory is not mounted, the parent has another
//! inode number; everything then stays as it is. Device numbers are not part of a record, because
//! they change with the order in which drives are found.
//!
//! See decisions 0002 and 0012.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::places::{At, Held, give_mode, open_dir, parent_of, rename_new, umask};
use super::contents::is_file;
use super::{LockedDir, Rename, absolute, is_private, is_private_name, lock_of};
use crate::checksum::bytes_checksum;
use crate::error::{Error, Result};
use crate::threads;

const RECORD: &str = "record";
pub(super) const COMMIT: &str = "commit";
/// Prefix of small files in private directories; the checksum of the rest follows it.
const SEAL: &str = "outcore private file, version 1, checksum ";
const SEALED_BYTES_MAX: u64 = 64 << 20;
/// Folders of a dataset volume in which files of a set may appear.
const FOLDERS: [&str; 2] = ["data", "datasets"];
/// Suffix of a file whose target name was taken by another file.
pub(super) const ASIDE: &str = ".outcore-unpublished";
const ASIDE_MAX: u32 = 100;
const PUBLISH: &str = "publish output";

/// The directory that a file was written for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DirIdentity {
    name: Vec<u8>,
    inode: u64,
    parent_inode: u64,
}

impl DirIdentity {
    fn of(name: &OsStr, dir: impl AsFd, parent: impl AsFd) -> std::result::Result<Self, Errno> {
        Ok(DirIdentity {
            name: name.as_bytes().to_vec(),
            inode: fstat(dir)?.st_ino,
            parent_inode: fstat(parent)?.st_ino,
        })
    }
}

/// A directory of the set, with what is needed to find it again.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    /// The parent's path from the root.
    parent: Vec<u8>,
    place: DirIdentity,
}

/// The renames out of one directory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    set: u64,
    place: DirIdentity,
    coordinator: Member,
    entries: Vec<Entry>,
}

/// One of the renames.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The file in the private directory; `None` if `to` is only removed.
    from: Option<Vec<u8>>,
    /// The folder next to the private directory.
    folder: Option<String>,
    to: Vec<u8>,
    /// The file that had the name when the set was decided.
    known: Option<Known>,
}

/// A file's identity at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    inode: u64,
    len_bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl Known {
    fn of(found: &Stat) -> Self {
        Known {
            inode: found.st_ino,
            len_bytes: found.st_size as u64,
            modified_s: found.st_mtime,
            modified_ns: found.st_mtime_nsec as i64,
        }
    }
}

/// The decision of a set.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Commit {
    set: u64,
    place: DirIdentity,
    members: Vec<Member>,
}

/// What happened to a directory whose owner is gone.
#[derive(Debug)]
pub(super) enum Settled {
    /// Nothing is left to do; holds the files that were put aside.
    Done(Vec<PathBuf>),
    /// The sweep cannot see the directory now, or cannot finish its renames.
    Later,
    /// The directory does not hold what was written there.
    Invalid(&'static str),
}

/// A private directory, open.
pub(super) struct Opened<'a> {
    pub(super) name: &'a OsStr,
    pub(super) parent_path: &'a Path,
    pub(super) parent: &'a Arc<OwnedFd>,
    pub(super) dir: &'a Arc<OwnedFd>,
}

/// Writes a small file into an open directory, durably and as a whole.
pub(super) fn write_whole(
    dir: impl AsFd,
    name: &str,
    bytes: &[u8],
) -> std::result::Result<(), std::io::Error> {
    let dir = dir.as_fd();
    let unfinished = format!("{name}.part");
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, &unfinished, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    file.sync_all()?;
    renameat(dir, &unfinished, dir, name)?;
    Ok(rustix::fs::fsync(dir)?)
}

/// The bytes of a regular file in an open directory.
pub(super) fn read_whole(dir: impl AsFd, name: &str) -> std::io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    if !is_file(&fstat(&file)?) {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::from(file)
        .take(SEALED_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `value` as the contents of the file `name`, with a checksum over both.
pub(crate) fn seal(name: &str, value: &impl Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::usage("write commit record", error.to_string()))?;
    let sum = sum_of(name, &text);
    Ok(format!("{SEAL}{sum:016x}\n{text}\n").into_bytes())
}

/// The value that [`seal`] wrote; `None` for anything else.
pub(crate) fn unseal<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Option<T> {
    let text = str::from_utf8(bytes).ok()?.strip_prefix(SEAL)?;
    let (sum, text) = text.strip_suffix('\n')?.split_once('\n')?;
    let is_whole = sum == format!("{:016x}", sum_of(name, text));
    is_whole.then(|| serde_json::from_str(text).ok()).flatten()
}

fn sum_of(name: &str, text: &str) -> u64 {
    bytes_checksum(format!("{name}\n{text}").as_bytes())
}

/// Decides that `renames` will be done whatever happens next. They move files out of the
/// directories, and a file to be removed into one of them. With `replace`, existing files may be
/// overwritten.
pub(super) fn decide(locked: &[LockedDir<'_>], renames: &[Rename], replace: bool) -> Result<()> {
    let dirs: Vec<&Held> = locked.iter().map(|dir| dir.held).collect();
    let Some(first) = dirs.first() else {
        return Ok(());
    };
    let failed = |errno: Errno| Error::errno("write commit record", errno.raw_os_error());
    let mut members = Vec::new();
    for held in &dirs {
        let name = held.path.file_name().unwrap_or_default();
        let place = DirIdentity::of(name, &held.dir, &held.parent).map_err(failed)?;
        let parent = absolute(&held.parent_path);
        members.push(Member { parent, place });
    }
    let mut entries: Vec<Vec<Entry>> = dirs.iter().map(|_| Vec::new()).collect();
    let places = dirs.iter().enumerate();
    let places: HashMap<&Path, usize> = places
        .map(|(index, held)| (held.path.as_path(), index))
        .collect();
    let index_of = |path: &Path| places.get(parent_of(path)).copied();
    for Rename { from, to } in renames {
        let (index, entry) = match (index_of(from), index_of(to)) {
            (Some(index), _) => (index, entry_of(dirs[index], Some(from), to, replace)?),
            (None, Some(index)) => (index, entry_of(dirs[index], None, from, true)?),
            (None, None) => return Err(not_ours(from)),
        };
        entries[index].push(entry);
    }
    let set = super::random_number();
    let mut records = Vec::with_capacity(dirs.len());
    for ((place, member), entries) in locked.iter().zip(&members).zip(entries) {
        let record = Record {
            set,
            place: member.place.clone(),
            coordinator: Member {
                parent: members[0].parent.clone(),
                place: members[0].place.clone(),
            },
            entries,
        };
        records.push((place, seal(RECORD, &record)?));
    }
    // In parallel: a sync waits for the drive, and one journal sync serves many.
    threads::each("outcore-sync", &records, |(dir, record)| {
        let LockedDir { lock, held } = dir;
        let written = lock
            .sync_all()
            .and_then(|()| write_whole(&held.dir, RECORD, record));
        written.map_err(|error| Error::io("write commit record", &error).path(&held.path))
    })?;
    let commit = Commit {
        set,
        place: members[0].place.clone(),
        members,
    };
    write_whole(&first.dir, COMMIT, &seal(COMMIT, &commit)?)
        .map_err(|error| Error::io("write commit record", &error).path(&first.path))
}

fn not_ours(path: &Path) -> Error {
    Error::usage(PUBLISH, "a file of another directory cannot be part of it")
        .path(path)
        .hint("a bug: report")
}

fn entry_of(held: &Held, from: Option<&Path>, to: &Path, replace: bool) -> Result<Entry> {
    let failed = |errno: Errno| Error::errno(PUBLISH, errno.raw_os_error()).path(to);
    let (dir, name) = (parent_of(to), to.file_name().ok_or_else(|| not_ours(to))?);
    let folder = FOLDERS
        .into_iter()
        .find(|folder| dir.file_name() == Some(folder.as_ref()));
    let is_parent = |path: &Path| {
        path == held.parent_path
            || rustix::fs::stat(path).is_ok_and(|found| {
                fstat(&held.parent)
                    .is_ok_and(|ours| (ours.st_dev, ours.st_ino) == (found.st_dev, found.st_ino))
            })
    };
    let folder = match folder {
        _ if is_parent(dir) => None,
        Some(folder) if is_parent(parent_of(dir)) => Some(folder.to_string()),
        _ => return Err(not_ours(to)),
    };
    let target = folder_of(&held.parent, folder.as_deref()).map_err(failed)?;
    let known = match statat(&target, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) if !replace => {
            return Err(Error::usage(PUBLISH, "it exists already")
                .path(to)
                .hint("allow overwriting with --force"));
        }
        Ok(found) => Some(Known::of(&found)),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(failed(errno)),
    };
    Ok(Entry {
        from: from
            .and_then(Path::file_name)
            .map(|name| name.as_bytes().to_vec()),
        folder,
        to: name.as_bytes().to_vec(),
        known,
    })
}

/// The directory in which files of a set appear.
fn folder_of(
    parent: &Arc<OwnedFd>,
    folder: Option<&str>,
) -> std::result::Result<Arc<OwnedFd>, Errno> {
    match folder {
        Some(folder) => open_dir(parent, Path::new(folder), false),
        None => Ok(Arc::clone(parent)),
    }
}

/// Takes back the decision of a set: its files have been renamed, or never will be.
pub(super) fn revoke(dir: impl AsFd) -> std::result::Result<(), Errno> {
    match unlinkat(dir, COMMIT, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Whether the set of a directory is certainly decided: its files are in place, or will be.
pub(super) fn is_decided(opened: &Opened<'_>) -> bool {
    let bytes = read_whole(opened.dir, RECORD).unwrap_or_default();
    let Some(record) = unseal::<Record>(RECORD, &bytes) else {
        return false;
    };
    let place = DirIdentity::of(opened.name, opened.dir, opened.parent);
    let decision = match place.is_ok_and(|place| place == record.coordinator.place) {
        true => commit_in(opened.dir, &record),
        false => decision_of(&record),
    };
    matches!(decision, Decision::Decided(_))
}

/// Finishes the renames that the owner of a directory had decided. The caller holds the directory's
/// lock.
pub(super) fn settle(opened: &Opened<'_>) -> Settled {
    let record: Record = match read_whole(opened.dir, RECORD) {
        Ok(bytes) => match unseal(RECORD, &bytes) {
            Some(record) => record,
            None => return Settled::Invalid("its commit record is damaged or of another version"),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match statat(opened.dir, COMMIT, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Settled::Done(Vec::new()),
                _ => Settled::Invalid("its commit record is missing"),
            };
        }
        Err(_) => return Settled::Later,
    };
    let Ok(place) = DirIdentity::of(opened.name, opened.dir, opened.parent) else {
        return Settled::Later;
    };
    if record.place != place {
        return Settled::Invalid("its commit record was written for another directory");
    }
    if !record.entries.iter().all(is_plain) {
        return Settled::Invalid("its commit record names more than files");
    }
    if record.coordinator.place == place {
        return match commit_in(opened.dir, &record) {
            Decision::Decided(commit) => settle_set(opened, &record, &commit),
            Decision::Undecided => Settled::Done(Vec::new()),
            Decision::Unknown => Settled::Later,
        };
    }
    match decision_of(&record) {
        Decision::Decided(_) => apply(opened, &record),
        Decision::Undecided => Settled::Done(Vec::new()),
        Decision::Unknown => Settled::Later,
    }
}

/// Whether a set is decided.
enum Decision {
    Decided(Commit),
    Undecided,
    /// The coordinator is not visible now.
    Unknown,
}

fn commit_in(dir: impl AsFd, record: &Record) -> Decision {
    match read_whole(dir, COMMIT) {
        Ok(bytes) => match unseal::<Commit>(COMMIT, &bytes) {
            Some(commit) if commit.set == record.set => Decision::Decided(commit),
            // The commit belongs to another set, in a directory of the same name.
            Some(_) => Decision::Undecided,
            None => Decision::Unknown,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Decision::Undecided,
        Err(_) => Decision::Unknown,
    }
}

/// The decision in the coordinator that a member's record names.
fn decision_of(record: &Record) -> Decision {
    match find(&record.coordinator) {
        Found::Here(_, dir) => commit_in(&dir, record),
        Found::Gone => Decision::Undecided,
        Found::Unknown => Decision::Unknown,
    }
}

/// The result of looking for a directory of a set.
enum Found {
    /// The parent of the directory, and the directory itself.
    Here(Arc<OwnedFd>, Arc<OwnedFd>),
    Gone,
    Unknown,
}

fn find(member: &Member) -> Found {
    let name = OsStr::from_bytes(&member.place.name);
    if !is_private_name(name) {
        return Found::Unknown;
    }
    let Ok(parent) = open_dir(CWD, Path::new(OsStr::from_bytes(&member.parent)), true) else {
        return Found::Unknown;
    };
    // Another directory has the name of the parent: the drive is not mounted.
    if !fstat(&parent).is_ok_and(|found| found.st_ino == member.place.parent_inode) {
        return Found::Unknown;
    }
    match open_dir(&parent, Path::new(name), false) {
        Ok(dir) if is_private(&dir) => Found::Here(parent, dir),
        Err(Errno::NOENT) => Found::Gone,
        _ => Found::Unknown,
    }
}

/// Finishes all directories of a set, its coordinator last.
fn settle_set(opened: &Opened<'_>, record: &Record, commit: &Commit) -> Settled {
    let mut all_aside = Vec::new();
    let mut is_done = true;
    for member in commit
        .members
        .iter()
        .filter(|other| other.place != commit.place)
    {
        let (parent, dir) = match find(member) {
            Found::Here(parent, dir) => (parent, dir),
            Found::Gone => continue,
            Found::Unknown => {
                is_done = false;
                continue;
            }
        };
        // The lock is held while the directory's files are renamed, so that two sweeps do not
        // collide.
        let Ok(Some(_lock)) = lock_of(&dir) else {
            is_done = false;
            continue;
        };
        let other = Opened {
            name: OsStr::from_bytes(&member.place.name),
            parent_path: Path::new(OsStr::from_bytes(&member.parent)),
            parent: &parent,
            dir: &dir,
        };
        let bytes = read_whole(&dir, RECORD).unwrap_or_default();
        let Some(theirs) = unseal::<Record>(RECORD, &bytes) else {
            is_done = false;
            continue;
        };
        // A later set's directory of the same name does not concern this set.
        if theirs.set != record.set {
            continue;
        }
        if theirs.place != member.place || !theirs.entries.iter().all(is_plain) {
            is_done = false;
            continue;
        }
        match apply(&other, &theirs) {
            Settled::Done(aside) => all_aside.extend(aside),
            Settled::Later | Settled::Invalid(_) => is_done = false,
        }
    }
    match (apply(opened, record), is_done) {
        (Settled::Done(aside), true) => {
            all_aside.extend(aside);
            Settled::Done(all_aside)
        }
        (Settled::Done(_), false) => Settled::Later,
        (other, _) => other,
    }
}

/// Whether an entry names only files, in places where sets appear.
fn is_plain(entry: &Entry) -> bool {
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name != b"."
            && name != b".."
            && !name.contains(&b'/')
            && !name.contains(&0)
    };
    let is_folder = |folder: &String| FOLDERS.contains(&folder.as_str());
    entry.from.as_deref().is_none_or(is_name)
        && is_name(&entry.to)
        && entry.folder.as_ref().is_none_or(is_folder)
}

/// Does the renames of a directory's record that are not done yet.
fn apply(opened: &Opened<'_>, record: &Record) -> Settled {
    let mut aside = Vec::new();
    for entry in &record.entries {
        match apply_entry(opened, entry) {
            Ok(None) => {}
            Ok(Some(path)) => aside.push(path),
            Err(_) => return Settled::Later,
        }
    }
    Settled::Done(aside)
}

/// Does one of a record's renames, if it is not done. Returns the file's path if it is not at its
/// target.
fn apply_entry(opened: &Opened<'_>, entry: &Entry) -> std::result::Result<Option<PathBuf>, Errno> {
    let folder = folder_of(opened.parent, entry.folder.as_deref())?;
    let to = At::inside(&folder, OsStr::from_bytes(&entry.to));
    let now = match to.stat() {
        Ok(found) => Some(found),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno),
    };
    let is_known = now.as_ref().map(Known::of) == entry.known;
    let Some(from) = &entry.from else {
        if now.is_some() && is_known {
            unlinkat(&folder, &to.name, AtFlags::empty())?;
        }
        return Ok(None);
    };
    let from = At::inside(opened.dir, OsStr::from_bytes(from));
    let ours = match from.stat() {
        Ok(ours) => ours,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let mut aside = None;
    match &now {
        // Linking and unlinking replaced the rename, and the process ended between the two.
        Some(now) if now.st_ino == ours.st_ino && now.st_dev == ours.st_dev => {
            unlinkat(opened.dir, &from.name, AtFlags::empty())?;
        }
        Some(_) if is_known => {
            give_mode(&from, now.as_ref(), umask())?;
            renameat(from.dir(), &from.name, to.dir(), &to.name)?;
        }
        _ => {
            give_mode(&from, None, umask())?;
            match rename_new(&from, &to) {
                Err(Errno::EXIST) => aside = Some(put_aside(opened, entry, &from, &folder)?),
                other => other?,
            }
        }
    }
    // Must be durable before the record is removed.
    rustix::fs::fsync(&folder)?;
    Ok(aside)
}

/// Puts a file next to its target, which another file has taken.
fn put_aside(
    opened: &Opened<'_>,
    entry: &Entry,
    from: &At,
    folder: &Arc<OwnedFd>,
) -> std::result::Result<PathBuf, Errno> {
    for number in 0..ASIDE_MAX {
        let mut name = OsStr::from_bytes(&entry.to).to_os_string();
        name.push(ASIDE);
        if number > 0 {
            name.push(format!("-{number}"));
        }
        match rename_new(from, &At::inside(folder, &name)) {
            Ok(()) => {
                let folder = entry.folder.as_deref().unwrap_or_default();
                return Ok(opened.parent_path.join(folder).join(name));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}
