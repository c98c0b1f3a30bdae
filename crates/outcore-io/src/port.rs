//! Many drives as one volume: which drive serves a file, one lane per drive, errors with their
//! place.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017): requests are batched over the volume and served per
//! drive. A [`Port`] is one thread's access to all drives: one waiting lane per drive in front of
//! one queue. A slow or full drive therefore delays only its own lane.
//!
//! Invariants:
//! - At most [`LANE_DEPTH`] reads and as many writes of a port are in flight on one drive. Further
//!   requests wait in that drive's lane, in order.
//! - Reads and writes do not wait for each other unless they overlap, because drives serve both at
//!   once.
//! - Drives that a volume first uses after a port was made share the slots of the port's first
//!   lane.
//! - Every completion is counted for its drive.
//! - Failed and short writes become errors that name drive, file and offset.

mod lane;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use self::lane::{Lane, LaneTags};
use crate::drive::private_dir;
use crate::drive::queue::{Class, Span};
use crate::drive::{
    Access, Completion, Device, FileFacts, FileId, Op, Queue, QueueLimits, Request,
};
use crate::error::{Error, Kind, Result};
use crate::memory::Buf;
use crate::units;

/// Largest number of reads in flight on one drive from one port; writes have the same limit.
pub const LANE_DEPTH: usize = 32;
/// Longest wait of a port before its owner checks for cancellation again.
pub const WAIT_MAX: Duration = Duration::from_millis(50);

/// A directory for scratch.
#[derive(Debug, Clone, PartialEq)]
pub struct ScratchDrive {
    /// The name in messages.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
    /// The share of this directory relative to the others (a bandwidth, or 1 for each).
    pub weight: f64,
    /// Limit on scratch there.
    pub limit_bytes: u64,
}

impl ScratchDrive {
    /// A directory with its path as its name, an equal share and no limit.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        ScratchDrive {
            name: dir.display().to_string(),
            dir,
            weight: 1.0,
            limit_bytes: u64::MAX,
        }
    }
}

/// One drive: a directory on a file system of its own, or a file system that a job uses.
#[derive(Debug)]
pub struct Drive {
    /// The name in messages and reports.
    pub name: String,
    /// The directory for scratch, if the drive was named for scratch.
    pub dir: Option<PathBuf>,
    /// The drive's share of the scratch, relative to the other drives.
    pub weight: f64,
    /// Limit on scratch there.
    pub limit_bytes: u64,
    file_system: u64,
    traffic: Traffic,
    /// Requests submitted and not yet returned, over all ports.
    pending: AtomicUsize,
    is_full: AtomicBool,
}

/// Bytes and requests that a drive has served.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes read.
    pub read_bytes: AtomicU64,
    /// Bytes written.
    pub written_bytes: AtomicU64,
    /// Read requests.
    pub reads: AtomicU64,
    /// Write requests.
    pub writes: AtomicU64,
}

/// An open file of a volume.
#[derive(Debug, Clone)]
pub struct VolumeFile {
    /// The number of the file on the device.
    pub id: FileId,
    /// The drive that serves the file.
    pub drive_index: usize,
    /// The path of the file.
    pub path: Arc<Path>,
    /// Facts about the file at its opening.
    pub facts: FileFacts,
}

/// The drives of a job and their device.
pub struct Volume {
    files: Arc<OpenFiles>,
    drives: Arc<Mutex<Vec<Arc<Drive>>>>,
}

/// A device and its open files; turns failures into errors with names.
struct OpenFiles {
    device: Arc<dyn Device>,
    open: Mutex<Vec<VolumeFile>>,
}

impl OpenFiles {
    fn all(&self) -> MutexGuard<'_, Vec<VolumeFile>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error for a failed transfer, with its place.
    fn explain(&self, fault: &TransferFault, drive: Option<&Arc<Drive>>) -> Error {
        if let Some(error) = self.device.explain(fault.file, fault.offset_bytes) {
            return error;
        }
        let path = self
            .all()
            .iter()
            .find(|f| f.id == fault.file)
            .map(|file| Arc::clone(&file.path));
        let name = drive.map(|drive| drive.name.as_str());
        explain_transfer(fault, name, path.as_deref())
    }
}

impl Volume {
    /// A volume on `device`; scratch may go to `scratch_drives`.
    pub fn new(device: Arc<dyn Device>, scratch_drives: &[ScratchDrive]) -> Result<Self> {
        let mut drives = Vec::new();
        for scratch in scratch_drives {
            drives.push(Arc::new(Drive {
                name: scratch.name.clone(),
                dir: Some(scratch.dir.clone()),
                weight: scratch.weight,
                limit_bytes: scratch.limit_bytes,
                file_system: device.file_system(&scratch.dir)?,
                traffic: Traffic::default(),
                pending: AtomicUsize::new(0),
                is_full: AtomicBool::new(false),
            }));
        }
        Ok(Volume {
            files: Arc::new(OpenFiles {
                device,
                open: Mutex::default(),
            }),
            drives: Arc::new(Mutex::new(drives)),
        })
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.files.device
    }

    /// All drives known so far: first those named for scratch, in their order.
    pub fn drives(&self) -> Vec<Arc<Drive>> {
        self.drives
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The NUMA node of each known drive, if it is known.
    pub fn nodes(&self) -> Vec<Option<usize>> {
        let node = |drive: &Arc<Drive>| {
            let (major, minor) = (
                rustix::fs::major(drive.file_system),
                rustix::fs::minor(drive.file_system),
            );
            QueueLimits::of_device(major, minor).numa_node
        };
        self.drives().iter().map(node).collect()
    }

    /// Index of the drive that holds `file_system`; a new file system becomes a new drive.
    fn drive_of(&self, file_system: u64, path: &Path) -> usize {
        let mut drives = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = drives
            .iter()
            .position(|drive| drive.file_system == file_system)
        {
            return index;
        }
        let dir = private_dir::public_parent(path);
        drives.push(Arc::new(Drive {
            name: dir.display().to_string(),
            dir: None,
            weight: 1.0,
            limit_bytes: u64::MAX,
            file_system,
            traffic: Traffic::default(),
            pending: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
        }));
        drives.len() - 1
    }

    /// Opens a file on the drive that holds it.
    pub fn open(&self, path: &Path, access: Access) -> Result<VolumeFile> {
        let id = self.files.device.open(path, access)?;
        let facts = self.files.device.facts(id)?;
        let drive_index = self.drive_of(facts.file_system, path);
        let file = VolumeFile {
            id,
            drive_index,
            path: path.into(),
            facts,
        };
        self.files.all().push(file.clone());
        Ok(file)
    }

    /// Fails if `file` has changed since it was opened. Freeing its blocks changes its modification
    /// time, which is then ignored.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt): it is longer or shorter, or was written to. The
    /// device's error.
    pub fn check_unchanged(&self, file: &VolumeFile, is_being_freed: bool) -> Result<()> {
        let before = file.facts;
        let now = self.device().facts(file.id)?;
        let (before_bytes, now_bytes) = (before.len_bytes, now.len_bytes);
        let cause = if now_bytes != before_bytes {
            format!(
                "the file changed while it was read: {} before, {now_bytes} now",
                units::counted(before_bytes, "byte")
            )
        } else if now.modified_ns != before.modified_ns && !is_being_freed {
            "the file changed while it was read: it was written to".to_string()
        } else {
            return Ok(());
        };
        Err(Error::changed_input("read input", cause).path(&file.path))
    }

    /// Closes a file; no request may be in flight on it.
    pub fn close(&self, file: &VolumeFile) {
        self.files.device.close(file.id);
        self.files.all().retain(|f| f.id != file.id);
    }

    /// A port for the calling thread.
    pub fn port(&self) -> Result<Port> {
        let first_tags = LaneTags::new();
        let lanes = self.drives().into_iter().enumerate();
        let lanes = lanes.map(|(index, drive)| match index {
            0 => Lane::new(drive, &first_tags),
            _ => Lane::new(drive, &LaneTags::new()),
        });
        let lanes: Vec<Lane> = lanes.collect();
        let depth = 2 * LANE_DEPTH * lanes.len().max(1);
        let queue = self.files.device.queue(depth)?;
        Ok(Port {
            files: Arc::clone(&self.files),
            drives: Arc::clone(&self.drives),
            queue,
            lanes,
            first_tags,
            done: Vec::new(),
        })
    }

    /// Sums of bytes over all drives: read, written.
    pub fn traffic_bytes(&self) -> (u64, u64) {
        let drives = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        drives.iter().fold((0, 0), |(read, written), drive| {
            (
                read + drive.traffic.read_bytes.load(Ordering::Relaxed),
                written + drive.traffic.written_bytes.load(Ordering::Relaxed),
            )
        })
    }

    /// The error for a failed transfer, with its place.
    pub fn explain(&self, fault: &TransferFault) -> Error {
        self.files
            .explain(fault, self.drives().get(fault.drive_index))
    }
}

/// The error for a failed transfer, with as much of its place as is known.
pub fn explain_transfer(fault: &TransferFault, drive: Option<&str>, path: Option<&Path>) -> Error {
    let operation = match fault.op {
        Op::Read => "read",
        Op::Write => "write",
    };
    let mut error = Error::errno(operation, fault.errno).offset(fault.offset_bytes);
    if let Some(drive) = drive {
        error = error.drive(drive);
    }
    if let Some(path) = path {
        error = error.path(path);
    }
    match error.kind() {
        Kind::NoSpace => error.hint("free some space there, or name a place with more room"),
        // If the error is about a size limit, it already has a hint.
        _ if fault.errno == Errno::FBIG.raw_os_error() => error,
        _ => error.hint("look at the kernel's log (dmesg) and at the drive's health"),
    }
}

impl Drive {
    /// The traffic that the drive has served.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Requests that the drive has received and not served yet.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Whether a write to the drive has failed for lack of space.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Remembers that the drive has no room left.
    pub(crate) fn set_full(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }
}

/// A failed transfer, before names are added.
#[derive(Debug, Clone, Copy)]
pub struct TransferFault {
    /// Direction.
    pub op: Op,
    /// File.
    pub file: FileId,
    /// Drive.
    pub drive_index: usize,
    /// The offset in the file.
    pub offset_bytes: u64,
    /// The system's error number.
    pub errno: i32,
}

/// A finished transfer: the buffer, and the number of bytes in it.
#[derive(Debug)]
pub struct Transfer {
    /// The submitter's token.
    pub token: u64,
    /// Direction.
    pub op: Op,
    /// The memory.
    pub buf: Buf,
    /// Bytes moved; less than the buffer only at the end of a file that is read.
    pub len_bytes: usize,
    /// The failure, if there was one; the buffer is intact for another try.
    pub fault: Option<TransferFault>,
}

/// One thread's access to all drives of a volume.
pub struct Port {
    files: Arc<OpenFiles>,
    drives: Arc<Mutex<Vec<Arc<Drive>>>>,
    queue: Box<dyn Queue>,
    lanes: Vec<Lane>,
    /// Slots for the drives that had no lane when the queue was made.
    first_tags: LaneTags,
    done: Vec<Completion>,
}

impl Port {
    /// Submits a transfer of the whole of `buf`; it waits in its drive's lane for a slot.
    pub fn submit(&mut self, file: &VolumeFile, op: Op, offset_bytes: u64, buf: Buf, token: u64) {
        let span = Span {
            op,
            class: Class::Foreground,
            file: file.id,
            offset_bytes,
            len_bytes: buf.len(),
        };
        if file.drive_index >= self.lanes.len() {
            self.add_lanes();
        }
        let lane = &mut self.lanes[file.drive_index];
        lane.drive.pending.fetch_add(1, Ordering::Relaxed);
        lane.submit(span, buf, token);
        self.start(file.drive_index);
    }

    /// Adds lanes for drives that the volume has begun to use since the last call.
    #[cold]
    fn add_lanes(&mut self) {
        let drives = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        for drive in &drives[self.lanes.len()..] {
            self.lanes
                .push(Lane::new(Arc::clone(drive), &self.first_tags));
        }
    }

    /// Starts submitted transfers and moves finished ones to `finished`. With `wait`, blocks up to
    /// 50 ms for the first.
    pub fn poll(&mut self, wait: bool, finished: &mut Vec<Transfer>) -> Result<()> {
        let before = finished.len();
        let wait = wait && self.done.is_empty();
        self.queue
            .complete(wait.then_some(WAIT_MAX), &mut self.done)?;
        for completion in self.done.drain(..) {
            let Completion { request, result } = completion;
            let lane = &mut self.lanes[request.drive_index];
            lane.finish(&Span {
                op: request.op,
                class: Class::Foreground,
                file: request.file,
                offset_bytes: request.offset_bytes,
                len_bytes: request.buf.len(),
            });
            lane.drive.pending.fetch_sub(1, Ordering::Relaxed);
            finished.push(settle(&lane.drive, request, result));
        }
        if finished.len() > before && self.waiting() > 0 {
            for index in 0..self.lanes.len() {
                self.start(index);
            }
            // Starts the transfers here rather than at the next call.
            self.queue.complete(None, &mut self.done)?;
        }
        Ok(())
    }

    /// Passes the transfers that have a slot to the queue.
    fn start(&mut self, drive_index: usize) {
        let lane = &mut self.lanes[drive_index];
        while let Some((span, (buf, token))) = lane.next() {
            self.queue.submit(Request {
                token,
                op: span.op,
                file: span.file,
                drive_index,
                offset_bytes: span.offset_bytes,
                buf: buf.into(),
            });
        }
    }

    /// The error for a failed transfer, with its place.
    pub fn explain(&self, fault: &TransferFault) -> Error {
        let drive = self.lanes.get(fault.drive_index).map(|lane| &lane.drive);
        self.files.explain(fault, drive)
    }

    fn waiting(&self) -> usize {
        self.lanes.iter().map(Lane::waiting).sum()
    }

    /// Transfers submitted and not yet returned.
    pub fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.waiting() + self.done.len()
    }

    /// Unfinished transfers of one drive.
    pub fn backlog(&self, drive_index: usize) -> usize {
        self.lanes
            .get(drive_index)
            .map_or(0, |lane| lane.waiting() + lane.in_flight())
    }
}

fn settle(drive: &Drive, request: Request, result: std::result::Result<usize, i32>) -> Transfer {
    let traffic = &drive.traffic;
    let fault = |errno: i32| {
        Some(TransferFault {
            op: request.op,
            file: request.file,
            drive_index: request.drive_index,
            offset_bytes: request.offset_bytes,
            errno,
        })
    };
    let (len_bytes, fault) = match (request.op, result) {
        (_, Err(errno)) => (0, fault(errno)),
        (Op::Read, Ok(bytes)) => {
            traffic
                .read_bytes
                .fetch_add(bytes as u64, Ordering::Relaxed);
            traffic.reads.fetch_add(1, Ordering::Relaxed);
            (bytes, None)
        }
        (Op::Write, Ok(bytes)) => {
            traffic
                .written_bytes
                .fetch_add(bytes as u64, Ordering::Relaxed);
            traffic.writes.fetch_add(1, Ordering::Relaxed);
            // A write that stops short without an error number has reached the end of the medium.
            let short = bytes < request.buf.len();
            (
                bytes,
                if short {
                    fault(Errno::NOSPC.raw_os_error())
                } else {
                    None
                },
            )
        }
    };
    if fault.is_some_and(|f| f.errno == Errno::NOSPC.raw_os_error()) {
        drive.set_full();
    }
    Transfer {
        token: request.token,
        op: request.op,
        buf: request.buf.into_whole(),
        len_bytes,
        fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::{RamDevice, RamOptions};
    use crate::memory::{BLOCK_BYTES, Budget, Pool};

    /// A port of a volume with one file of `blocks` blocks, and a pool of `slots` buffers of
    /// `slot_bytes`.
    fn port(
        blocks: usize,
        (slot_bytes, slots): (usize, usize),
    ) -> (Volume, VolumeFile, Port, Pool) {
        let ram = RamDevice::new(RamOptions {
            short_one_in: 0,
            ..RamOptions::default()
        });
        ram.put("/d0/in", vec![7; blocks * BLOCK_BYTES]);
        let volume = Volume::new(Arc::new(ram), &[]).unwrap();
        let file = volume.open("/d0/in".as_ref(), Access::Update).unwrap();
        let port = volume.port().unwrap();
        let budget = Budget::new((slot_bytes * slots * 2) as u64);
        let pool = Pool::new(&budget, "test", slot_bytes, slots).unwrap();
        (volume, file, port, pool)
    }

    fn submit(
        port: &mut Port,
        file: &VolumeFile,
        op: Op,
        (block, token): (usize, u64),
        pool: &Pool,
    ) {
        let buf = pool.take().unwrap();
        port.submit(file, op, (block * BLOCK_BYTES) as u64, buf, token);
    }

    #[test]
    fn a_write_starts_beside_reads_that_wait() {
        let count = 2 * LANE_DEPTH;
        let (_volume, file, mut port, pool) = port(count + 1, (BLOCK_BYTES, count + 1));
        for number in 0..count {
            submit(&mut port, &file, Op::Read, (number, 0), &pool);
        }
        let lane = &port.lanes[file.drive_index];
        assert_eq!((lane.in_flight(), lane.waiting()), (LANE_DEPTH, LANE_DEPTH));
        submit(&mut port, &file, Op::Write, (count, 1), &pool);
        assert_eq!(port.lanes[file.drive_index].in_flight(), LANE_DEPTH + 1);
    }

    #[test]
    fn what_meets_in_the_same_bytes_keeps_its_order() {
        let (_volume, file, mut port, pool) = port(64, (BLOCK_BYTES, 64));
        let mut finished = Vec::new();
        for round in 0..20 {
            let mut fill = pool.take().unwrap();
            fill.fill(round);
            port.submit(&file, Op::Write, 0, fill, 0);
            for _ in 0..3 {
                submit(&mut port, &file, Op::Read, (0, 1 + u64::from(round)), &pool);
            }
            if round % 4 == 3 {
                while port.in_flight() > 0 {
                    port.poll(true, &mut finished).unwrap();
                }
                for transfer in finished.drain(..).filter(|transfer| transfer.token > 0) {
                    let round = (transfer.token - 1) as u8;
                    assert!(transfer.buf.iter().all(|byte| *byte == round));
                }
            }
        }
    }
}
