//! Files of the operating system as a [`Device`]: io_uring if available, otherwise pread/pwrite
//! threads; direct I/O if the file system supports it, otherwise buffered.
//!
//! Contract: the engine is chosen at run time, by creating a ring when one is needed
//! ([`super::late`]). Direct or buffered I/O is chosen per file. In mode `auto` a file is opened
//! with `O_DIRECT` and read once; if the file system rejects either, the file gets buffered I/O.
//! Small inputs are read, and small outputs are written, through the page cache
//! ([`CACHED_BYTES_MAX`]). Renames are durable on return (the directory is synced). There may be
//! more files than descriptors ([`super::open_files`]).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::late::{Engine, LateQueue};
use super::open_files::{FileTable, OpenFile, is_block_device};
use super::places::{self, Places};
use super::private_dir::{self, PrivateDir};
use super::uring;
use super::{Access, BLOCK_BYTES, Device, FileFacts, FileId, FileSystem, Queue, QueueLimits};
use crate::config::IoMode;
use crate::error::{Error, Result};
use crate::memory::Buf;

/// Files of at most this many bytes go through the page cache. An input is already cached, because
/// its type was inferred from its contents, and the test read for direct I/O would cost as much as
/// the file itself. An output reaches the drive when it is synced, together with its directory
/// entry.
const CACHED_BYTES_MAX: u64 = 64 << 10;

/// The operating system's files.
#[derive(Debug)]
pub struct OsDevice {
    mode: IoMode,
    /// The required engine, if the caller named one.
    engine: Option<Engine>,
    files: FileTable,
    start: Instant,
    /// Read when the first output is published.
    umask: OnceLock<u32>,
    places: Places,
}

impl OsDevice {
    /// Files in `mode`, with io_uring if a ring can be created.
    pub fn new(mode: IoMode) -> Self {
        Self::with(mode, None)
    }

    /// Files in `mode` with the given engine.
    pub fn with_engine(mode: IoMode, engine: Engine) -> Self {
        Self::with(mode, Some(engine))
    }

    fn with(mode: IoMode, engine: Option<Engine>) -> Self {
        OsDevice {
            mode,
            engine,
            files: FileTable::default(),
            start: Instant::now(),
            umask: OnceLock::new(),
            places: Places::default(),
        }
    }

    /// The engine in use.
    pub fn engine(&self) -> Engine {
        match self.engine {
            Some(engine) => engine,
            None if uring::is_available() => Engine::Uring,
            None => Engine::Psync,
        }
    }

    fn file(&self, file: FileId) -> Result<Arc<OpenFile>> {
        self.files.wait_for(file).map_err(|errno| {
            let lost = self.files.lost(file);
            lost.unwrap_or_else(|| Error::errno("use file", errno.raw_os_error()))
        })
    }
}

fn at<'a>(operation: &'a str, path: &'a Path) -> impl Fn(Errno) -> Error + 'a {
    move |errno| {
        let error = Error::errno(operation, errno.raw_os_error()).path(path);
        match errno {
            Errno::NOENT => error.hint("check the path"),
            Errno::ACCESS | Errno::PERM => error.hint("check the permissions"),
            Errno::EXIST => error.hint("allow overwriting with --force"),
            Errno::BUSY => error.hint("it is mounted or in use; name another, or unmount it"),
            Errno::MFILE => {
                error.hint("raise the limit of open files (ulimit -n), or give fewer files")
            }
            Errno::NOSPC | Errno::DQUOT => error.hint("free some space there or add a --drive"),
            _ => error,
        }
    }
}

/// The block device that holds a file, or that the file is.
fn device_of(stat: &rustix::fs::Stat) -> u64 {
    match is_block_device(stat) {
        true => stat.st_rdev,
        false => stat.st_dev,
    }
}

/// Turns direct I/O off for a file of at most [`CACHED_BYTES_MAX`]; returns whether it did.
fn is_cached(fd: &OwnedFd) -> bool {
    let is_small = rustix::fs::fstat(fd)
        .is_ok_and(|stat| !is_block_device(&stat) && (stat.st_size as u64) <= CACHED_BYTES_MAX);
    is_small && set_direct(fd, false)
}

/// Turns direct I/O on or off; returns whether that worked.
fn set_direct(fd: &OwnedFd, is_direct: bool) -> bool {
    rustix::fs::fcntl_getfl(fd)
        .map(|flags| match is_direct {
            true => flags | OFlags::DIRECT,
            false => flags - OFlags::DIRECT,
        })
        .and_then(|flags| rustix::fs::fcntl_setfl(fd, flags))
        .is_ok()
}

/// Whether a direct read of the first block works; true for empty files.
fn takes_direct_reads(fd: &OwnedFd) -> bool {
    let budget = crate::memory::Budget::new(BLOCK_BYTES as u64);
    let block: Option<Buf> = crate::memory::Pool::new(&budget, "probe", BLOCK_BYTES, 1)
        .ok()
        .and_then(|pool| pool.take());
    block.is_some_and(|mut block| rustix::io::pread(fd, &mut block[..], 0) != Err(Errno::INVAL))
}

impl FileSystem for OsDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        let (flags, operation) = match access {
            Access::Read => (OFlags::RDONLY, "open input"),
            Access::Update => (OFlags::RDWR, "open input for writing"),
            Access::Create => (OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, "create file"),
        };
        let is_device = access == Access::Update
            && rustix::fs::stat(path).is_ok_and(|stat| is_block_device(&stat));
        // The kernel rejects a device that is mounted or in use by another program.
        let exclusive = if is_device {
            OFlags::EXCL
        } else {
            OFlags::empty()
        };
        let found = self.places.at(path).map_err(at(operation, path))?;
        let mut flags = flags | exclusive | OFlags::CLOEXEC;
        if found.is_held() {
            flags |= OFlags::NOFOLLOW;
            debug_assert!(
                access != Access::Create || private_dir::is_swept(path),
                "a sweep would not remove {}",
                path.display()
            );
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let open = |flags| {
            let open = || rustix::fs::openat(found.dir(), &found.name, flags, mode);
            self.files.open(open)
        };
        if self.mode != IoMode::Buffered {
            let is_read = access == Access::Read && self.mode == IoMode::Auto;
            match open(flags | OFlags::DIRECT) {
                Ok(fd) if is_read && is_cached(&fd) => {
                    return Ok(self
                        .files
                        .add(OpenFile::new(fd, false, access, path).small()));
                }
                Ok(fd) if self.mode == IoMode::Direct || takes_direct_reads(&fd) => {
                    return Ok(self.files.add(OpenFile::new(fd, true, access, path)));
                }
                Err(Errno::INVAL) if self.mode == IoMode::Direct => {
                    return Err(Error::errno(operation, Errno::INVAL.raw_os_error())
                        .path(path)
                        .hint("this file system has no direct I/O; use --io auto or buffered"));
                }
                // O_CREAT may have created the file before the kernel rejected O_DIRECT.
                Err(Errno::INVAL) | Ok(_) if access == Access::Create => {
                    let _ = rustix::fs::unlinkat(found.dir(), &found.name, AtFlags::empty());
                }
                Err(Errno::INVAL) | Ok(_) => {}
                Err(errno) => return Err(at(operation, path)(errno)),
            }
        }
        let fd = open(flags).map_err(at(operation, path))?;
        Ok(self.files.add(OpenFile::new(fd, false, access, path)))
    }

    fn close(&self, file: FileId) {
        self.files.forget(file);
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        let file = self.file(file)?;
        let stat = rustix::fs::fstat(&file.fd).map_err(at("look at file", &file.path))?;
        let len_bytes = match is_block_device(&stat) {
            // The size of a device is the offset of its end.
            true => rustix::fs::seek(&file.fd, rustix::fs::SeekFrom::End(0))
                .map_err(at("look at device", &file.path))?,
            false => stat.st_size as u64,
        };
        Ok(FileFacts {
            len_bytes,
            is_direct: file.is_direct,
            is_in_memory: file.is_in_memory,
            ..facts_of(&stat)
        })
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        let file = self.file(file)?;
        rustix::fs::ftruncate(&file.fd, len_bytes).map_err(at("set file length", &file.path))
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        let file = self.file(file)?;
        if file.is_in_memory {
            // Reserving would fill the pages with zeros, on one thread, before they are written.
            return match rustix::fs::fstat(&file.fd).map(|stat| stat.st_size as u64) {
                Ok(now) if now < len_bytes => rustix::fs::ftruncate(&file.fd, len_bytes),
                other => other.map(|_| ()),
            }
            .map_err(at("set file length", &file.path));
        }
        match rustix::fs::fallocate(&file.fd, FallocateFlags::empty(), 0, len_bytes) {
            Ok(()) => {
                file.is_settled.store(true, Ordering::Relaxed);
                let is_small = len_bytes <= CACHED_BYTES_MAX;
                let may_change = self.mode == IoMode::Auto && file.is_direct;
                if may_change && file.is_small() != is_small && set_direct(&file.fd, !is_small) {
                    file.set_small(is_small);
                }
                Ok(())
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(at("reserve space", &file.path)(errno)),
        }
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let file = self.file(file)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file.fd, flags, offset_bytes, len_bytes)
            .map_err(at("free blocks", &file.path))
    }

    fn sync(&self, file: FileId) -> Result<()> {
        let file = self.file(file)?;
        rustix::fs::fsync(&file.fd).map_err(at("sync file", &file.path))
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        let old = self.places.at(from).map_err(at("publish output", from))?;
        let new = self
            .places
            .beside(from, to)
            .map_err(at("publish output", to))?;
        let replaced = new.stat().ok().filter(|_| replace);
        let umask = *self.umask.get_or_init(places::umask);
        places::give_mode(&old, replaced.as_ref(), umask).map_err(at("publish output", from))?;
        let done = match replace {
            true => rustix::fs::renameat(old.dir(), &old.name, new.dir(), &new.name),
            false => places::rename_new(&old, &new),
        };
        done.map_err(|errno| match errno {
            Errno::EXIST => {
                Error::usage("publish output", "a file with the same name has appeared")
                    .path(to)
                    .hint("allow overwriting with --force, or name another file")
            }
            errno => at("publish output", to)(errno),
        })?;
        rustix::fs::fsync(new.dir()).map_err(at("sync directory", to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let found = self.places.at(path).map_err(at("remove file", path))?;
        rustix::fs::unlinkat(found.dir(), &found.name, AtFlags::empty())
            .map_err(at("remove file", path))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let stat = rustix::fs::statvfs(dir).map_err(at("look at free space", dir))?;
        Ok(match stat.f_blocks {
            // The file system reports no size.
            0 => u64::MAX,
            _ => stat.f_bavail * stat.f_frsize,
        })
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        Ok(rustix::fs::stat(dir)
            .map_err(at("look at directory", dir))?
            .st_dev)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        PrivateDir::make(&self.places, parent)
    }

    fn claim_private_dir(&self, parent: &Path, set: &OsStr) -> Result<PrivateDir> {
        PrivateDir::claim(&self.places, parent, set)
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>> {
        PrivateDir::reopen(&self.places, path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        private_dir::sweep_in(&self.places, parent)
    }
}

impl Device for OsDevice {
    fn read_head(&self, path: &Path, into: &mut [u8]) -> Result<usize> {
        // A path that was listed as a file may have become a link or a pipe since.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::empty());
        let fd = self.files.open(open).map_err(at("open input", path))?;
        let mut found = 0;
        while found < into.len() {
            match rustix::io::read(&fd, &mut into[found..]) {
                Ok(0) => break,
                Ok(bytes) => found += bytes,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(at("read file", path)(errno)),
            }
        }
        Ok(found)
    }

    fn limits(&self, file: FileId) -> QueueLimits {
        let facts = self.file(file).map(|file| rustix::fs::fstat(&file.fd));
        let Ok(Ok(stat)) = facts else {
            return QueueLimits::default();
        };
        let device = device_of(&stat);
        QueueLimits::of_device(rustix::fs::major(device), rustix::fs::minor(device))
    }

    fn explain(&self, file: FileId, _offset_bytes: u64) -> Option<Error> {
        self.files.lost(file)
    }

    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        let files = self.files.clone();
        Ok(Box::new(LateQueue::new(files, depth_max, self.engine)))
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Some(ran.tv_sec as u64 * 1_000_000_000 + ran.tv_nsec as u64)
    }
}

/// The facts that the system knows of a file without opening it.
fn facts_of(stat: &rustix::fs::Stat) -> FileFacts {
    let nanoseconds = |seconds: i64, rest: i128| i128::from(seconds) * 1_000_000_000 + rest;
    FileFacts {
        len_bytes: stat.st_size as u64,
        file_system: device_of(stat),
        inode: stat.st_ino,
        modified_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec.into()),
        changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec.into()),
        is_direct: false,
        is_in_memory: false,
    }
}

/// The facts of the regular file with this name, which is not opened; `None` if there is none.
/// Links are not followed.
pub fn plain_facts(path: &Path) -> Option<FileFacts> {
    let stat = rustix::fs::lstat(path).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    (kind == rustix::fs::FileType::RegularFile).then(|| facts_of(&stat))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::drive::{Op, Request};
    use crate::memory::{Budget, Pool};

    /// A pipe, open on a device with rings.
    fn pipe_in(dir: &Path) -> (OsDevice, FileId, PathBuf) {
        let path = dir.join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let device = OsDevice::with_engine(IoMode::Buffered, Engine::Uring);
        let file = device.open(&path, Access::Update).unwrap();
        (device, file, path)
    }

    #[test]
    fn a_ring_begins_with_a_portion_before_the_rest_is_handed_in() {
        if !uring::is_available() {
            println!("SKIP: no io_uring here");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (device, file, path) = pipe_in(dir.path());
        let requests = uring::PORTION + 1;
        let mut queue = device.queue(requests).unwrap();
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "test", BLOCK_BYTES, requests).unwrap();
        let mut pipe = File::options().write(true).open(&path).unwrap();
        pipe.write_all(&vec![7; requests * BLOCK_BYTES]).unwrap();
        let mut left_blocks = Vec::new();
        for token in 0..requests as u64 {
            queue.submit(Request {
                token,
                op: Op::Read,
                file,
                drive_index: 0,
                offset_bytes: 0,
                buf: pool.take().unwrap().into(),
            });
            left_blocks.push(rustix::io::ioctl_fionread(&pipe).unwrap() as usize / BLOCK_BYTES);
        }
        let mut wanted = vec![requests; uring::PORTION - 1];
        wanted.extend([1, 1]);
        assert_eq!(left_blocks, wanted);
        let mut done = Vec::new();
        while done.len() < requests {
            queue
                .complete(Some(Duration::from_secs(60)), &mut done)
                .unwrap();
        }
        assert!(done.iter().all(|done| done.result == Ok(BLOCK_BYTES)));
    }

    #[test]
    fn small_files_are_read_at_once_and_large_ones_by_the_same_queue() {
        let dir = tempfile::tempdir().unwrap();
        let device = OsDevice::new(IoMode::Auto);
        let contents = [(vec![7; 5], "small"), (vec![9; 256 << 10], "large")];
        let pool = Pool::new(&Budget::new(1 << 20), "test", 64 << 10, 2).unwrap();
        let mut queue = device.queue(2).unwrap();
        queue.keep(&pool);
        for (content, name) in contents.iter().chain(&contents) {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            let file = device.open(&path, Access::Read).unwrap();
            queue.submit(Request {
                token: 1,
                op: Op::Read,
                file,
                drive_index: 0,
                offset_bytes: 0,
                buf: pool.take().unwrap().into(),
            });
            assert_eq!(queue.in_flight(), 1);
            let mut done = Vec::new();
            while done.is_empty() {
                queue
                    .complete(Some(Duration::from_secs(60)), &mut done)
                    .unwrap();
            }
            let wanted = content.len().min(64 << 10);
            assert_eq!(done[0].result, Ok(wanted));
            let read: Vec<u8> = done[0].request.buf.slices().flatten().copied().collect();
            assert_eq!(read[..wanted], content[..wanted]);
            assert_eq!(queue.in_flight(), 0);
            device.close(file);
        }
    }

    #[test]
    fn outputs_go_through_the_page_cache_while_they_are_small() {
        let dir = tempfile::tempdir().unwrap();
        let device = OsDevice::new(IoMode::Auto);
        let path = dir.path().join("output-0");
        let file = device.open(&path, Access::Create).unwrap();
        if !device.facts(file).unwrap().is_direct {
            println!("SKIP: no direct I/O here");
            return;
        }
        let is_direct = || {
            let flags = rustix::fs::fcntl_getfl(&device.file(file).unwrap().fd).unwrap();
            flags.contains(OFlags::DIRECT)
        };
        let pool = Pool::new(&Budget::new(1 << 20), "test", BLOCK_BYTES, 1).unwrap();
        let mut queue = device.queue(2).unwrap();
        for (len_bytes, offset_bytes) in [(CACHED_BYTES_MAX, 0), (CACHED_BYTES_MAX + 1, 4096)] {
            device.allocate(file, len_bytes).unwrap();
            assert_eq!(is_direct(), len_bytes > CACHED_BYTES_MAX);
            let mut buf = pool.take().unwrap();
            buf.fill(7);
            queue.submit(Request {
                token: 1,
                op: Op::Write,
                file,
                drive_index: 0,
                offset_bytes,
                buf: buf.into(),
            });
            let mut done = Vec::new();
            while done.is_empty() {
                queue
                    .complete(Some(Duration::from_secs(60)), &mut done)
                    .unwrap();
            }
            assert_eq!(done[0].result, Ok(BLOCK_BYTES));
        }
        device.sync(file).unwrap();
        let written = std::fs::read(&path).unwrap();
        assert!(written[..2 * BLOCK_BYTES].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_rings_waker_ends_a_wait_for_what_does_not_come() {
        if !uring::is_available() {
            println!("SKIP: no io_uring here");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (device, file, path) = pipe_in(dir.path());
        let mut queue = device.queue(4).unwrap();
        let waker = queue.waker().unwrap();
        let pool = Pool::new(&Budget::new(1 << 20), "test", BLOCK_BYTES, 1).unwrap();
        queue.submit(Request {
            token: 1,
            op: Op::Read,
            file,
            drive_index: 0,
            offset_bytes: 0,
            buf: pool.take().unwrap().into(),
        });
        let mut pipe = File::options().write(true).open(&path).unwrap();
        let mut done = Vec::new();
        for _ in 0..3 {
            let (returned, has_returned) = channel();
            std::thread::scope(|scope| {
                let (waker, pipe) = (waker.clone(), &mut pipe);
                scope.spawn(move || {
                    waker.wake();
                    // If the waker does not end the wait, this write completes the read, which ends
                    // it.
                    if has_returned.recv_timeout(Duration::from_secs(10)).is_err() {
                        pipe.write_all(&[7; BLOCK_BYTES]).unwrap();
                    }
                });
                let wait = Some(Duration::from_secs(60));
                queue.complete(wait, &mut done).unwrap();
                // If the write was needed, the other thread has already ended.
                returned.send(()).unwrap_or_default();
            });
            assert_eq!((done.len(), queue.in_flight()), (0, 1));
        }
        pipe.write_all(&[7; BLOCK_BYTES]).unwrap();
        while done.is_empty() {
            let wait = Some(Duration::from_secs(60));
            queue.complete(wait, &mut done).unwrap();
        }
        assert_eq!(done[0].result, Ok(BLOCK_BYTES));
    }

    #[test]
    fn small_inputs_are_read_through_the_page_cache_and_large_ones_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let device = OsDevice::new(IoMode::Auto);
        let pool = Pool::new(
            &Budget::new(1 << 20),
            "test",
            2 * CACHED_BYTES_MAX as usize,
            1,
        )
        .unwrap();
        for len_bytes in [
            1,
            BLOCK_BYTES,
            CACHED_BYTES_MAX as usize,
            1 + CACHED_BYTES_MAX as usize,
        ] {
            let path = dir.path().join(len_bytes.to_string());
            let bytes: Vec<u8> = (0..len_bytes).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let file = device.open(&path, Access::Read).unwrap();
            let flags = rustix::fs::fcntl_getfl(&device.file(file).unwrap().fd).unwrap();
            let is_direct = device.facts(file).unwrap().is_direct;
            if len_bytes as u64 <= CACHED_BYTES_MAX {
                assert!(!is_direct && !flags.contains(OFlags::DIRECT), "{len_bytes}");
            } else {
                // Files in memory have no direct I/O, whatever the flags.
                assert!(flags.contains(OFlags::DIRECT) || !is_direct);
            }
            let mut queue = device.queue(1).unwrap();
            queue.submit(Request {
                token: 1,
                op: Op::Read,
                file,
                drive_index: 0,
                offset_bytes: 0,
                buf: pool.take().unwrap().into(),
            });
            let mut done = Vec::new();
            while done.is_empty() {
                queue
                    .complete(Some(Duration::from_secs(60)), &mut done)
                    .unwrap();
            }
            assert_eq!(done[0].result, Ok(len_bytes));
            let read = done.remove(0).request.buf.into_whole();
            assert!(read[..len_bytes] == bytes);
            device.close(file);
        }
    }

    #[test]
    fn a_published_file_has_the_mode_of_a_new_one_or_of_the_one_it_replaces() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let device = OsDevice::new(IoMode::Auto);
        let (from, to) = (dir.path().join("staged"), dir.path().join("final"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        device.close(device.open(&from, Access::Create).unwrap());
        assert_eq!(mode(&from), 0o600);
        device.rename(&from, &to, false).unwrap();
        assert_eq!(mode(&to), 0o666 & !places::umask());
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o640)).unwrap();
        device.close(device.open(&from, Access::Create).unwrap());
        assert!(device.rename(&from, &to, false).is_err());
        device.rename(&from, &to, true).unwrap();
        assert_eq!(mode(&to), 0o640);
    }

    #[test]
    fn a_job_goes_on_in_its_own_directory_when_another_has_taken_its_name() {
        use crate::drive::private_dir::tests::{leave, parent};
        use std::fs;
        use std::os::unix::fs::symlink;
        let [parent, elsewhere] = ["taken", "taken-victim"].map(parent);
        let victim = elsewhere.join("victim");
        leave(&victim, &["output-0", "scratch-0"]);
        let device = OsDevice::new(IoMode::Buffered);
        let dir = device.make_private_dir(&parent).unwrap();
        let staged = dir.path().join("output-0");
        device.close(device.open(&staged, Access::Create).unwrap());
        // A link to the victim replaces the private directory, and a link to another place replaces
        // its parent.
        fs::rename(dir.path(), parent.join("hidden")).unwrap();
        symlink(&victim, dir.path()).unwrap();
        let away = parent.with_extension("away");
        fs::rename(&parent, &away).unwrap();
        symlink(&elsewhere, &parent).unwrap();
        symlink(&victim, elsewhere.join(dir.path().file_name().unwrap())).unwrap();
        let other = dir.path().join("scratch-0");
        device.close(device.open(&other, Access::Create).unwrap());
        device.remove(&other).unwrap();
        device.rename(&staged, &parent.join("out"), true).unwrap();
        device.sweep_private_dirs(&parent).unwrap();
        drop(dir);
        assert!(away.join("out").exists() && !elsewhere.join("out").exists());
        assert_eq!(fs::read_dir(away.join("hidden")).unwrap().count(), 0);
        for file in ["lock", "output-0", "scratch-0"] {
            assert!(victim.join(file).exists(), "{file}");
        }
        fs::remove_file(&parent).unwrap();
        for dir in [away, elsewhere] {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}
