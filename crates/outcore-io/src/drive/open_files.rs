//! Open files by their [`FileId`]; there may be more of them than the process has descriptors.
//!
//! Contract: a device and its queues share a [`FileTable`]. Files that are open for reading may use
//! half of the process's descriptors (`RLIMIT_NOFILE`). Beyond that, or if the system has no
//! descriptor left, the table closes files that have not been used recently. It opens them again,
//! by name, at their next use. Jobs can therefore merge and read any number of inputs at once. A
//! file stays open while anything holds its [`OpenFile`]. If the name then leads to another file,
//! the table reports an error ([`FileTable::lost`]) and does not read that file.
//!
//! Bounds: a second-chance scan chooses the victim, in one or two steps per file. A file that is
//! never closed costs one flag per request.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::{Access, FileId};
use crate::error::Error;
use crate::threads::spawn;

/// Magic numbers of the file systems in memory (linux/magic.h).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
const RAMFS_MAGIC: rustix::fs::FsWord = 0x8584_58f6;

/// Closing a file without a name frees its blocks, which takes a second for several GiB (ext4 with
/// discard). From this size on, a background thread closes it, so that an interrupted job can end.
const SLOW_FREE_BYTES: u64 = 64 << 20;

/// Worker threads serve the writes of a file once the kernel has refused more than this number.
/// Each time that many writes succeed, one more refusal is allowed.
const REFUSED_FREE: u32 = 64;
const REFUSED_ONE_IN: u32 = 64;

/// An open file and how it was opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) fd: OwnedFd,
    pub(super) is_direct: bool,
    pub(super) is_in_memory: bool,
    /// A regular file that is small, and read and written through the page cache.
    is_small: AtomicBool,
    /// Held during a write to a file in memory. The kernel lets one writer in at a time, and the
    /// other threads do other work instead of spinning.
    pub(crate) writing: Mutex<()>,
    /// Whether the kernel may already have checked that writes remove no privileges (setuid) of the
    /// file.
    pub(super) is_settled: AtomicBool,
    /// Writes with RWF_NOWAIT that succeeded, and those that the kernel refused.
    nowait: AtomicU32,
    refused: AtomicU32,
    pub(super) path: PathBuf,
    /// The file's identity, if it may be closed and opened again by its name.
    identity: Option<Identity>,
    /// Whether a request has used the file since the table last searched for one to close.
    is_used: AtomicBool,
}

/// A file independent of its name: its file system and inode number.
type Identity = (u64, u64);

fn identity_of(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

pub(super) fn is_block_device(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice
}

impl OpenFile {
    pub(super) fn new(fd: OwnedFd, is_direct: bool, access: Access, path: &Path) -> Self {
        let kind = rustix::fs::fstatfs(&fd).map_or(0, |stat| stat.f_type);
        let stat = rustix::fs::fstat(&fd);
        // The name of a device is in memory (/dev is a tmpfs); its data are not.
        let is_device = stat.is_ok_and(|stat| is_block_device(&stat));
        let is_plain = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let plain = stat
            .ok()
            .filter(|stat| access == Access::Read && is_plain(stat));
        let is_in_memory = !is_device && (kind == TMPFS_MAGIC || kind == RAMFS_MAGIC);
        OpenFile {
            fd,
            is_direct: is_direct && !is_in_memory,
            is_in_memory,
            is_small: AtomicBool::new(false),
            writing: Mutex::new(()),
            is_settled: AtomicBool::new(is_device || !is_direct || access != Access::Update),
            nowait: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            // Absolute, because the process may change its directory.
            path: std::path::absolute(path).unwrap_or_else(|_| path.into()),
            identity: plain.as_ref().map(identity_of),
            is_used: AtomicBool::new(true),
        }
    }

    /// The same file, marked as small and read through the page cache.
    pub(super) fn small(self) -> Self {
        self.set_small(self.identity.is_some());
        self
    }

    /// Sets whether the file is small, and read and written through the page cache.
    pub(super) fn set_small(&self, is_small: bool) {
        self.is_small.store(is_small, Ordering::Relaxed);
    }

    /// Whether the file is small: it is read and written at once if there is no ring yet.
    pub(super) fn is_small(&self) -> bool {
        self.is_small.load(Ordering::Relaxed)
    }

    /// A file whose transfers never wait for a device (tmpfs): the caller copies at once.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    pub(crate) fn facts_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether this is the first call for a file that existed before and has no reserved room. The
    /// kernel settles such a file's privileges in the first write, under its lock.
    pub(crate) fn is_first_write(&self) -> bool {
        !self.is_settled.load(Ordering::Relaxed) && !self.is_settled.swap(true, Ordering::Relaxed)
    }

    /// Whether the kernel should reject a write that would wait for a lock, rather than hand it to
    /// a worker thread. True as long as such rejections are rare. If they are common
    /// (copy-on-write, for example), worker threads serve the writes.
    pub(crate) fn is_nowait(&self) -> bool {
        let nowait = self.nowait.load(Ordering::Relaxed);
        self.is_direct
            && !self.is_small()
            && self.refused.load(Ordering::Relaxed) <= REFUSED_FREE + nowait / REFUSED_ONE_IN
    }

    /// Counts the outcome of a write that must not wait.
    pub(crate) fn note_nowait(&self, is_refused: bool) {
        let counter = if is_refused {
            &self.refused
        } else {
            &self.nowait
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let is_slow = |stat: rustix::fs::Stat| {
            stat.st_nlink == 0 && stat.st_blocks as u64 * 512 >= SLOW_FREE_BYTES
        };
        if rustix::fs::fstat(&self.fd).is_ok_and(is_slow)
            && let Ok(last) = rustix::io::dup(&self.fd)
        {
            // If no thread can be created, the file is closed slowly here.
            let _ = spawn("outcore-free", move || drop(last));
        }
    }
}

/// The state of a [`FileId`].
#[derive(Debug)]
enum Entry {
    Open(Arc<OpenFile>),
    /// Closed to make room; the next use opens it again by name.
    Resting {
        path: PathBuf,
        is_direct: bool,
        identity: Identity,
        /// Why the file could not be opened again.
        failure: Option<Errno>,
    },
    Closed,
}

#[derive(Debug, Default)]
struct Entries {
    list: Vec<Entry>,
    /// Number of open files that may be closed.
    restless: usize,
    /// Where the search for a file to close continues.
    hand: usize,
}

/// Why a file cannot be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// Files that are being read hold all descriptors. One becomes free when a transfer ends.
    Busy,
    /// The file cannot be opened again; [`FileTable::lost`] gives details.
    Lost(Errno),
}

/// Files by their [`FileId`]; shared by a device and its queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileTable(Arc<RwLock<Entries>>);

/// How long to wait for a descriptor before the next try.
pub(super) const WAIT: Duration = Duration::from_millis(1);
/// Number of waits before giving up.
const WAITS_MAX: u32 = 10_000;
/// Files that may be open at once even with the lowest limit.
const OPEN_MIN: u64 = 4;

/// Largest number of closable files that are open at once.
fn open_max() -> u64 {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(u64::MAX, |limit| (limit / 2).max(OPEN_MIN))
}

impl FileTable {
    /// The file, opened again if it was closed.
    pub(crate) fn get(&self, file: FileId) -> Result<Arc<OpenFile>, Unavailable> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Entry::Open(open)) = entries.list.get(file.0 as usize) {
            if open.identity.is_some() {
                open.is_used.store(true, Ordering::Relaxed);
            }
            return Ok(Arc::clone(open));
        }
        drop(entries);
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.reopen(file.0 as usize)
    }

    /// Like `get`, but waits for a descriptor. The wait is limited, because the waiting thread may
    /// hold all of them.
    pub(crate) fn wait_for(&self, file: FileId) -> Result<Arc<OpenFile>, Errno> {
        for _ in 0..WAITS_MAX {
            match self.get(file) {
                Ok(open) => return Ok(open),
                Err(Unavailable::Lost(errno)) => return Err(errno),
                Err(Unavailable::Busy) => std::thread::sleep(WAIT),
            }
        }
        Err(Errno::MFILE)
    }

    /// Opens a file with `open`; another file may have to give up its descriptor.
    pub(super) fn open(&self, open: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
        loop {
            let opened = open();
            if !matches!(opened, Err(Errno::MFILE)) {
                return opened;
            }
            let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if !entries.rest_one() {
                return opened;
            }
        }
    }

    pub(super) fn add(&self, file: OpenFile) -> FileId {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if file.identity.is_some() {
            entries.make_room();
            entries.restless += 1;
        }
        entries.list.push(Entry::Open(Arc::new(file)));
        FileId(entries.list.len() as u32 - 1)
    }

    pub(super) fn forget(&self, file: FileId) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.list.get_mut(file.0 as usize) else {
            return;
        };
        let was = std::mem::replace(entry, Entry::Closed);
        if let Entry::Open(open) = was
            && open.identity.is_some()
        {
            entries.restless -= 1;
        }
    }

    /// Why a file that was open could not be opened again, if that happened.
    pub(super) fn lost(&self, file: FileId) -> Option<Error> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Entry::Resting {
            path,
            failure: Some(errno),
            ..
        }) = entries.list.get(file.0 as usize)
        else {
            return None;
        };
        let cause = match *errno {
            Errno::NOENT => "the file changed while it was read: it was removed",
            Errno::STALE => "the file changed while it was read: another file has its name now",
            errno => {
                let error = Error::errno("open input again", errno.raw_os_error()).path(path);
                return Some(
                    error.hint("raise the limit of open files (ulimit -n), or read fewer files"),
                );
            }
        };
        Some(Error::changed_input("read input", cause).path(path))
    }
}

impl Entries {
    /// Closes unused files until one more may be open; returns whether there is room.
    fn make_room(&mut self) -> bool {
        let most = open_max();
        while self.restless as u64 >= most {
            if !self.rest_one() {
                return false;
            }
        }
        true
    }

    /// Closes one unused file; false if there is none.
    fn rest_one(&mut self) -> bool {
        let count = self.list.len();
        // The first round clears the marks that the second one looks for.
        for _ in 0..2 * count {
            let index = self.hand % count;
            self.hand = index + 1;
            let Entry::Open(open) = &self.list[index] else {
                continue;
            };
            let Some(identity) = open.identity.filter(|_| Arc::strong_count(open) == 1) else {
                continue;
            };
            if open.is_used.swap(false, Ordering::Relaxed) {
                continue;
            }
            self.list[index] = Entry::Resting {
                path: open.path.clone(),
                is_direct: open.is_direct,
                identity,
                failure: None,
            };
            self.restless -= 1;
            return true;
        }
        false
    }

    /// Opens a file that was closed to make room.
    fn reopen(&mut self, index: usize) -> Result<Arc<OpenFile>, Unavailable> {
        let (path, is_direct, identity) = match self.list.get(index) {
            Some(Entry::Open(open)) => return Ok(Arc::clone(open)),
            Some(Entry::Resting {
                path,
                is_direct,
                identity,
                ..
            }) => (path.clone(), *is_direct, *identity),
            _ => return Err(Unavailable::Lost(Errno::BADF)),
        };
        if !self.make_room() {
            return Err(Unavailable::Busy);
        }
        let direct = match is_direct {
            true => OFlags::DIRECT,
            false => OFlags::empty(),
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | direct;
        let opened = loop {
            match rustix::fs::open(&path, flags, Mode::empty()) {
                Err(Errno::MFILE) if self.rest_one() => {}
                Err(Errno::MFILE) if self.restless > 0 => return Err(Unavailable::Busy),
                opened => break opened,
            }
        };
        let same = opened.and_then(|fd| {
            let stat = rustix::fs::fstat(&fd)?;
            match identity_of(&stat) == identity {
                true => Ok(fd),
                false => Err(Errno::STALE),
            }
        });
        match same {
            Ok(fd) => {
                let open = Arc::new(OpenFile::new(fd, is_direct, Access::Read, &path));
                self.list[index] = Entry::Open(Arc::clone(&open));
                self.restless += 1;
                Ok(open)
            }
            Err(errno) => {
                if let Some(Entry::Resting { failure, .. }) = self.list.get_mut(index) {
                    *failure = Some(errno);
                }
                Err(Unavailable::Lost(errno))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with the file of this name, open for reading.
    fn table_of(path: &Path) -> (FileTable, FileId) {
        let table = FileTable::default();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::empty());
        let fd = table.open(open).unwrap();
        let file = table.add(OpenFile::new(fd, false, Access::Read, path));
        (table, file)
    }

    fn rest_one(table: &FileTable) -> bool {
        table.0.write().unwrap().rest_one()
    }

    #[test]
    fn a_file_that_rests_is_opened_again_and_one_in_use_does_not_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        std::fs::write(&path, "text").unwrap();
        let (table, file) = table_of(&path);
        let held = table.get(file).unwrap();
        assert!(!rest_one(&table));
        drop(held);
        assert!(rest_one(&table) && !rest_one(&table));
        let again = table.get(file).unwrap();
        let mut bytes = [0; 4];
        rustix::io::pread(&again.fd, &mut bytes, 0).unwrap();
        assert_eq!((&bytes, table.lost(file).is_none()), (b"text", true));
        drop(again);
        table.forget(file);
        assert!(!rest_one(&table));
        assert_eq!(table.get(file).unwrap_err(), Unavailable::Lost(Errno::BADF));
    }

    #[test]
    fn a_file_that_was_replaced_or_removed_while_it_rested_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        std::fs::write(&path, "text").unwrap();
        let (table, file) = table_of(&path);
        assert!(rest_one(&table));
        let other = dir.path().join("other");
        std::fs::write(&other, "text").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(table.wait_for(file).unwrap_err(), Errno::STALE);
        let error = table.lost(file).unwrap();
        assert!(
            error.to_string().contains("another file has its name"),
            "{error}"
        );
        assert_eq!(error.file_path(), Some(path.as_path()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(table.wait_for(file).unwrap_err(), Errno::NOENT);
        assert!(table.lost(file).unwrap().to_string().contains("removed"));
    }
}
