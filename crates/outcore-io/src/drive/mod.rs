//! One drive at a time: the trait [`Device`] and its implementations.
//!
//! Contract: a [`Device`] opens files and gives each thread a [`Queue`]. A queue takes owned
//! [`Request`]s and returns each exactly once as a [`Completion`] with its buffer, in any order. It
//! resumes short transfers itself, so a result with fewer bytes than requested means the end of the
//! file. An error belongs to one request only. Queues are not shared: a thread completes its own
//! submissions, so no thread is woken for another's I/O. A [`Waker`] ends the wait of a thread that
//! serves others ([`crate::port`]).
//!
//! Alignment: with direct I/O, address, offset and length of a request are multiples of 4 KiB
//! ([`BLOCK_BYTES`]). Callers keep this alignment in buffered mode as well, so both modes run the
//! same code.
//!
//! Backends:
//! - [`os::OsDevice`]: io_uring, or pread/pwrite threads if the kernel or container forbids it
//! - [`recording::RecordingDevice`]: a wrapper that writes an I/O trace
//! - [`steady::SteadyDevice`]: a wrapper that detects changed inputs
//! - [`testing::RamDevice`], for tests: in memory, seeded completion order, virtual clock
//! - [`testing::FaultDevice`], for tests: a wrapper that injects faults
//! - [`testing::PowerDevice`], for tests: a wrapper that forgets what was not synced
//!
//! [`probe`] measures a drive with the loads of [`load`].
//!
//! In front of a queue, [`queue::DriveQueue`] decides which request goes to a drive next. It sorts
//! and merges adjacent requests, and keeps at most as many in flight as the drive has slots.

pub mod folder;
mod io_buf;
pub mod late;
pub mod link;
pub mod load;
mod new_file;
pub mod objects;
mod open_files;
pub mod os;
pub mod owner;
pub mod paths;
mod physical;
mod places;
pub mod private_dir;
pub mod probe;
mod progress;
mod psync;
pub mod queue;
pub mod rates;
pub mod recording;
pub mod steady;
pub mod testing;
mod uring;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::memory::{Budget, Pool, block_ceil};

pub use crate::memory::BLOCK_BYTES;
pub use io_buf::IoBuf;
pub use new_file::NewFile;
pub use objects::Stores;
pub use physical::{physical_drive, real_dir};
pub use places::parent_of;
pub use private_dir::{PrivateDir, Rename};
pub use queue::QueueLimits;

/// A file that is open on a [`Device`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For reading; must exist.
    Read,
    /// For reading and writing; must exist (needed to free input blocks).
    Update,
    /// For reading and writing; created with mode 0600, must not exist.
    Create,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Fill the buffer from the file.
    Read,
    /// Write the buffer to the file.
    Write,
}

/// One transfer between a buffer and a file.
#[derive(Debug)]
pub struct Request {
    /// Returned unchanged in the completion.
    pub token: u64,
    /// Direction.
    pub op: Op,
    /// The file's number on its device.
    pub file: FileId,
    /// The drive that serves the request (index in the volume); selects the lane that it waits in.
    pub drive_index: usize,
    /// The offset in the file.
    pub offset_bytes: u64,
    /// The memory, in one piece or several; its length is the length of the transfer.
    pub buf: IoBuf,
}

/// The result of a [`Request`].
#[derive(Debug)]
pub struct Completion {
    /// The request, with its buffer.
    pub request: Request,
    /// Bytes transferred (less than the buffer only at the end of the file), or the error number.
    pub result: std::result::Result<usize, i32>,
}

/// Facts about a file that planning needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// Length in bytes.
    pub len_bytes: u64,
    /// Identity of the file system that holds it.
    pub file_system: u64,
    /// Identity of the file inside that file system.
    pub inode: u64,
    /// Time of the last write, in nanoseconds since 1970; 0 if unknown.
    pub modified_ns: i128,
    /// Time of the last write, rename or link, in nanoseconds since 1970; 0 if unknown.
    pub changed_ns: i128,
    /// Whether transfers bypass the page cache.
    pub is_direct: bool,
    /// Whether the file's blocks are memory (tmpfs), so that freeing them early is worth a system
    /// call.
    pub is_in_memory: bool,
}

/// File names: open, measure, rename, remove. All methods may block.
///
/// Paths are those of the operating system; an in-memory device uses them as plain names.
pub trait FileSystem: Send + Sync {
    /// Opens or creates a file.
    fn open(&self, path: &Path, access: Access) -> Result<FileId>;
    /// Forgets a file; requests in flight on it must have completed.
    fn close(&self, file: FileId);
    /// Length and identity.
    fn facts(&self, file: FileId) -> Result<FileFacts>;
    /// Sets the length: truncates, or extends with zeros.
    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()>;
    /// Reserves room for `len_bytes` if the file system can; [`crate::Kind::NoSpace`] if there is
    /// none.
    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()>;
    /// Frees the blocks of a range, keeping the file's length.
    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()>;
    /// Makes data and length durable.
    fn sync(&self, file: FileId) -> Result<()>;
    /// Publishes a private file under its final name. The file gets the mode of the file that it
    /// replaces, or the mode of a new file, and is then renamed. Rejects an existing target unless
    /// `replace`. Durable on return.
    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Free bytes on the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;
    /// Identity of the file system that holds `dir`, as in [`FileFacts::file_system`].
    fn file_system(&self, dir: &Path) -> Result<u64>;
    /// Makes a directory that only this process uses (mode 0700, locked) inside `parent`.
    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir>;
    /// Makes the private directory for the set of files called `set` in `parent`. Fails with
    /// [`crate::Kind::Usage`] while another job holds it. Devices without directories have only one
    /// job.
    fn claim_private_dir(&self, parent: &Path, _set: &OsStr) -> Result<PrivateDir> {
        self.make_private_dir(parent)
    }
    /// Takes over a private directory whose job can be resumed; `None` if there is nothing to
    /// resume at `path`. Fails with [`crate::Kind::Usage`] while another job holds it.
    /// This method has no default implementation: if a wrapper of a device forgot it, every such
    /// job would begin anew.
    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>>;
    /// Removes private directories in `parent` whose owners are gone; returns their paths.
    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>>;
    /// The stores whose objects it opens as files, if it has any.
    fn stores(&self) -> Option<&dyn Stores> {
        None
    }
}

/// The interface under the engine: files, and queues that read and write them.
pub trait Device: FileSystem {
    /// A queue for the calling thread with room for `depth_max` requests in flight.
    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>>;
    /// Fills `into` from the beginning of a file, in one blocking call and through the page cache
    /// if there is one. Meant for many small files that cost more to open than to read. Returns the
    /// bytes read; fewer than requested means the end of the file. Does not follow a link in place
    /// of the file.
    fn read_head(&self, path: &Path, into: &mut [u8]) -> Result<usize> {
        let mut queue = self.queue(1)?;
        let file = self.open(path, Access::Read)?;
        let found = queued_read_head(&mut *queue, file, into);
        self.close(file);
        found.map_err(|error| error.path(path))
    }
    /// Limits of the drive's queue in the kernel.
    fn limits(&self, _file: FileId) -> QueueLimits {
        QueueLimits::default()
    }
    /// What the device knows about a failed transfer at this offset beyond its error number, for
    /// example which underlying drive failed.
    fn explain(&self, _file: FileId, _offset_bytes: u64) -> Option<Error> {
        None
    }
    /// Nanoseconds on the device's clock: monotonic, or virtual for an in-memory device.
    fn now_ns(&self) -> u64;
    /// Nanoseconds of CPU time of the calling thread, if the clock is the system's.
    fn thread_cpu_ns(&self) -> Option<u64> {
        None
    }
}

/// [`Device::read_head`] by one request, into a buffer of its own.
fn queued_read_head(queue: &mut dyn Queue, file: FileId, into: &mut [u8]) -> Result<usize> {
    const READ: &str = "read file";
    if into.is_empty() {
        return Ok(0);
    }
    let len_bytes = block_ceil(into.len() as u64);
    let pool = Pool::new(&Budget::new(len_bytes), READ, len_bytes as usize, 1)?;
    let Some(buf) = pool.take() else {
        unreachable!("nobody else takes from this pool");
    };
    queue.submit(Request {
        token: 0,
        op: Op::Read,
        file,
        drive_index: 0,
        offset_bytes: 0,
        buf: IoBuf::from(buf),
    });
    let mut done = Vec::new();
    while done.is_empty() {
        queue.complete(Some(Duration::from_secs(1)), &mut done)?;
    }
    let mut found_bytes = 0;
    for completion in done {
        let bytes = completion
            .result
            .map_err(|errno| Error::errno(READ, errno))?;
        found_bytes = bytes.min(into.len());
        let mut filled = 0;
        for slice in completion.request.buf.slices() {
            let now = slice.len().min(found_bytes - filled);
            into[filled..filled + now].copy_from_slice(&slice[..now]);
            filled += now;
        }
    }
    Ok(found_bytes)
}

/// Ends a wait in [`Queue::complete`] from another thread. A wake-up that arrives before the wait
/// ends that wait as well.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Waker(Arc::new(wake))
    }

    /// Ends the wait.
    pub fn wake(&self) {
        (self.0)();
    }
}

/// A thread's own access to a [`Device`].
pub trait Queue {
    /// Takes a request; it starts now or at the next [`Queue::complete`].
    ///
    /// # Panics
    /// If more than `depth_max` requests are in flight.
    fn submit(&mut self, request: Request);

    /// Moves completed requests to `done`. With `wait`, blocks until a request completes or the
    /// time is over; returns at once if nothing is in flight.
    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()>;

    /// Requests submitted and not yet returned.
    fn in_flight(&self) -> usize;

    /// Announces that buffers of `pool` will be submitted repeatedly. The queue may pin the whole
    /// pool in memory once instead of each buffer per request. This is only a hint.
    fn keep(&mut self, _pool: &Pool) {}

    /// A waker for waits of this queue; `None` if a wait cannot be ended, or never blocks.
    fn waker(&mut self) -> Option<Waker> {
        None
    }
}
