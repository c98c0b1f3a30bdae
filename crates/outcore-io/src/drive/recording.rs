//! Records every I/O: a [`Device`] that writes all operations that pass through it to an I/O trace.
//!
//! Contract: wraps any device. It writes reads, writes, syncs and freed ranges, as they complete,
//! in the format of `docs/formats/io-trace.md` version 1. A record holds:
//! - the times of submission and completion, the thread, the drive and the file
//! - the time that the thread had waited and computed before, so that a replay can be a closed loop
//!
//! A thread computes while it runs, if the device reports CPU time ([`Device::thread_cpu_ns`]);
//! otherwise while it does not wait for a queue. Requests are recorded when they enter a queue of
//! the device. A completion is recorded when its thread takes it, so `complete_ns` is an upper
//! bound. With one thread, a device with a virtual clock and the same seed, two runs of a job write
//! the same bytes.
//!
//! A *thread* of the trace is a thread of the process from its first queue (or sync) until it has
//! no queue. If it makes a queue later, it counts as a new thread. A *phase* begins when a thread
//! joins while nothing is in flight; its start is the time when the last earlier operation
//! completed. A *file* is one inode of one file system, however often it is opened.
//!
//! Recording never fails the job: [`RecordingDevice::finish`] reports errors of the trace. All
//! threads share one lock, about 100 ns per request. Memory: a buffer of 256 KiB and about 100
//! bytes per request in flight. The trace of a killed job is readable up to the last full buffer.

mod trace;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use super::private_dir::create_new;
use super::{Access, Completion, Device, FileFacts, FileId, FileSystem, Op};
use super::{PrivateDir, Queue, QueueLimits, Request, Stores, Waker};
use crate::error::{Error, Result};

use trace::{FLAG_FAILED, KIND_READ, KIND_SYNC, KIND_TRIM, KIND_WRITE, LEN_BYTES_MAX, OPERATION};
use trace::{Record, Trace, TraceSubject};
pub use trace::{TraceAbout, TraceSummary};

/// A device that records.
pub struct RecordingDevice(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Device>,
    path: PathBuf,
    state: Mutex<State>,
}

enum State {
    Recording(Box<Trace>),
    Failed(Error),
    Finished,
}

impl Shared {
    /// Registers the drive of a private directory before files with made-up names are created in
    /// it.
    fn name_drive_of(&self, parent: &Path) {
        if let Ok(file_system) = self.inner.file_system(parent) {
            self.with(|trace, _| trace.drive_of(file_system, parent).map(|_| ()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the trace with its current time, if it is still being written. A failure ends the
    /// trace.
    fn with<T: Default>(&self, work: impl FnOnce(&mut Trace, u64) -> Result<T>) -> T {
        let mut state = self.lock();
        let State::Recording(trace) = &mut *state else {
            return T::default();
        };
        // The clock is read under the lock, so that records are in order of time.
        let now_ns = self.inner.now_ns().saturating_sub(trace.start_ns);
        if let Some(cpu_ns) = self.inner.thread_cpu_ns() {
            trace.tick(std::thread::current().id(), now_ns, cpu_ns);
        }
        match work(trace, now_ns) {
            Ok(value) => value,
            Err(error) => {
                *state = State::Failed(error.path(&self.path));
                T::default()
            }
        }
    }

    /// Records an operation that blocks its thread, in pieces that fit in a record.
    fn control(
        &self,
        kind: u8,
        file: FileId,
        offset_bytes: u64,
        len_bytes: u64,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let id = std::thread::current().id();
        let records = self.with(|trace, now_ns| {
            trace.join(id)?;
            let mut records = Vec::new();
            let mut done_bytes = 0;
            loop {
                let piece_bytes = (len_bytes - done_bytes).min(LEN_BYTES_MAX);
                let place = TraceSubject {
                    kind,
                    file,
                    offset_bytes: offset_bytes + done_bytes,
                    len_bytes: piece_bytes,
                };
                records.extend(trace.submit(id, place, now_ns)?);
                done_bytes += piece_bytes;
                if done_bytes >= len_bytes {
                    return Ok(records);
                }
            }
        });
        let result = run();
        self.with(|trace, now_ns| {
            if let Some(first) = records.first() {
                trace.block(id, first.submit_ns, now_ns);
            }
            for mut record in records {
                record.op |= if result.is_err() { FLAG_FAILED } else { 0 };
                trace.complete(id, record, now_ns)?;
            }
            trace.leave(id, now_ns)
        });
        result
    }
}

impl RecordingDevice {
    /// `inner`, recorded in a new file at `path`; an existing file is replaced only with `replace`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] if the file exists, [`crate::Kind::Io`] if it cannot be written.
    pub fn create(
        inner: Arc<dyn Device>,
        path: &Path,
        about: TraceAbout,
        replace: bool,
    ) -> Result<Self> {
        let opened = match replace {
            true => File::create(path),
            false => create_new(path),
        };
        let file = opened.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::usage(OPERATION, "the file exists")
                .path(path)
                .hint("give another name, or --force to replace it"),
            _ => Error::io(OPERATION, &e).path(path),
        })?;
        let trace = Trace::new(file, about, inner.now_ns()).map_err(|error| error.path(path))?;
        Ok(RecordingDevice(Arc::new(Shared {
            inner,
            path: path.to_path_buf(),
            state: Mutex::new(State::Recording(Box::new(trace))),
        })))
    }

    /// Ends the trace once the job is over; later operations are not recorded.
    ///
    /// # Errors
    /// The first error of the recording; [`crate::Kind::Usage`] on the second call.
    pub fn finish(&self) -> Result<TraceSummary> {
        let state = std::mem::replace(&mut *self.0.lock(), State::Finished);
        match state {
            State::Recording(trace) => {
                let now_ns = self.0.inner.now_ns().saturating_sub(trace.start_ns);
                trace
                    .finish(now_ns)
                    .map_err(|error| error.path(&self.0.path))
            }
            State::Failed(error) => Err(error),
            State::Finished => {
                Err(Error::usage(OPERATION, "the recording is finished already").path(&self.0.path))
            }
        }
    }
}

impl FileSystem for RecordingDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        let id = self.0.inner.open(path, access)?;
        let facts = self.0.inner.facts(id);
        self.0.with(|trace, _| match &facts {
            Ok(facts) => trace.opened(id, facts, path),
            // A file without facts belongs to no drive; the code that needs them will report the
            // error.
            Err(_) => Ok(()),
        });
        Ok(id)
    }

    fn close(&self, file: FileId) {
        self.0.inner.close(file);
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        self.0.inner.facts(file)
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.0.inner.set_len(file, len_bytes)
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.0.inner.allocate(file, len_bytes)
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let punch = || self.0.inner.punch(file, offset_bytes, len_bytes);
        self.0
            .control(KIND_TRIM, file, offset_bytes, len_bytes, punch)
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.0
            .control(KIND_SYNC, file, 0, 0, || self.0.inner.sync(file))
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        self.0.inner.rename(from, to, replace)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.0.inner.remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.0.inner.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        let file_system = self.0.inner.file_system(dir)?;
        // Registered here before files with made-up names are created in it.
        self.0
            .with(|trace, _| trace.drive_of(file_system, dir).map(|_| ()));
        Ok(file_system)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        let dir = self.0.inner.make_private_dir(parent)?;
        self.0.name_drive_of(parent);
        Ok(dir)
    }

    fn claim_private_dir(&self, parent: &Path, set: &OsStr) -> Result<PrivateDir> {
        let dir = self.0.inner.claim_private_dir(parent, set)?;
        self.0.name_drive_of(parent);
        Ok(dir)
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>> {
        self.0.inner.reopen_private_dir(path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        self.0.inner.sweep_private_dirs(parent)
    }

    fn stores(&self) -> Option<&dyn Stores> {
        self.0.inner.stores()
    }
}

impl Device for RecordingDevice {
    fn limits(&self, file: FileId) -> QueueLimits {
        self.0.inner.limits(file)
    }

    fn explain(&self, file: FileId, offset_bytes: u64) -> Option<Error> {
        self.0.inner.explain(file, offset_bytes)
    }

    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        let inner = self.0.inner.queue(depth_max)?;
        let thread = std::thread::current().id();
        self.0.with(|trace, _| trace.join(thread));
        Ok(Box::new(RecordQueue {
            inner: Some(inner),
            shared: Arc::clone(&self.0),
            thread,
            pending: Vec::new(),
            free: Vec::new(),
        }))
    }

    fn now_ns(&self) -> u64 {
        self.0.inner.now_ns()
    }
}

/// A request in flight: its submitter's token, and its record unless recording has ended.
struct Pending {
    token: u64,
    record: Option<Record>,
}

struct RecordQueue {
    /// `None` only during the drop.
    inner: Option<Box<dyn Queue>>,
    shared: Arc<Shared>,
    thread: ThreadId,
    /// Indexed by the token that the request carries to the inner queue.
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
}

impl RecordQueue {
    /// Restores a completion's own token; returns its record, if it has one.
    fn settle(&mut self, completion: &mut Completion) -> Option<Record> {
        let slot = completion.request.token as usize;
        let pending = self.pending.get_mut(slot)?.take()?;
        self.free.push(slot);
        completion.request.token = pending.token;
        let mut record = pending.record?;
        record.op |= match completion.result {
            Ok(_) => 0,
            Err(_) => FLAG_FAILED,
        };
        Some(record)
    }
}

impl Queue for RecordQueue {
    fn submit(&mut self, mut request: Request) {
        let kind = match request.op {
            Op::Read => KIND_READ,
            Op::Write => KIND_WRITE,
        };
        let place = TraceSubject {
            kind,
            file: request.file,
            offset_bytes: request.offset_bytes,
            len_bytes: request.buf.len() as u64,
        };
        let record = self
            .shared
            .with(|trace, now_ns| trace.submit(self.thread, place, now_ns));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        let token = std::mem::replace(&mut request.token, slot as u64);
        self.pending[slot] = Some(Pending { token, record });
        if let Some(inner) = &mut self.inner {
            inner.submit(request);
        }
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        let Some(inner) = &mut self.inner else {
            return Ok(());
        };
        let waits = wait.is_some() && inner.in_flight() > 0;
        let from_ns = self.shared.inner.now_ns();
        let before = done.len();
        let result = inner.complete(wait, done);
        let mut records = Vec::new();
        for completion in &mut done[before..] {
            records.extend(self.settle(completion));
        }
        if waits || !records.is_empty() {
            let thread = self.thread;
            self.shared.with(|trace, now_ns| {
                if waits {
                    let from_ns = from_ns.saturating_sub(trace.start_ns);
                    trace.block(thread, from_ns, now_ns);
                }
                records
                    .into_iter()
                    .try_for_each(|record| trace.complete(thread, record, now_ns))
            });
        }
        result
    }

    fn in_flight(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.in_flight())
    }

    fn waker(&mut self) -> Option<Waker> {
        self.inner.as_mut()?.waker()
    }
}

impl Drop for RecordQueue {
    fn drop(&mut self) {
        // Waits for the requests in flight. No caller takes their completions, so they count as
        // failed.
        drop(self.inner.take());
        let abandoned = self.pending.drain(..).flatten();
        let records: Vec<Record> = abandoned.filter_map(|pending| pending.record).collect();
        let thread = self.thread;
        self.shared.with(|trace, now_ns| {
            for mut record in records {
                record.op |= FLAG_FAILED;
                trace.complete(thread, record, now_ns)?;
            }
            trace.leave(thread, now_ns)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::trace::RECORD_BYTES;
    use super::*;
    use crate::drive::testing::{FaultDevice, RamDevice, RamOptions};
    use crate::memory::{Budget, Pool};

    /// One record of a file, with fields numbered as in the format's page.
    #[derive(Debug, PartialEq, Eq)]
    struct Seen {
        kind: u8,
        thread: u16,
        drive: u8,
        file: u32,
        offset_bytes: u64,
        len_bytes: u32,
        reaped: u64,
        outstanding: u32,
        submit_ns: u64,
        complete_ns: u64,
        think_ns: u64,
        busy_ns: u64,
    }

    fn read(path: &Path) -> (serde_json::Value, Vec<Seen>) {
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes[..12], *b"\x89OCIO\r\n\x1a\x01\x00\x40\x00");
        let json_bytes = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let (json, records) = bytes[16..].split_at(json_bytes);
        assert_eq!((16 + json_bytes) % RECORD_BYTES, 0);
        let seen = records.chunks(RECORD_BYTES).map(|record| {
            let long = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
            Seen {
                kind: record[63],
                thread: u16::from_le_bytes([record[60], record[61]]),
                drive: record[62],
                file: word(56),
                offset_bytes: long(8),
                len_bytes: word(52),
                reaped: long(0),
                outstanding: word(48),
                submit_ns: long(16),
                complete_ns: long(24),
                think_ns: long(32),
                busy_ns: long(40),
            }
        });
        (serde_json::from_slice(json).unwrap(), seen.collect())
    }

    fn recorded(path: &Path) -> (RamDevice, RecordingDevice) {
        let ram = RamDevice::new(RamOptions::default());
        ram.put("/d0/in", vec![1; 64 << 10]);
        ram.put("/d1/in", vec![2; 64 << 10]);
        let device = Arc::new(ram.clone());
        let record = RecordingDevice::create(device, path, TraceAbout::default(), false).unwrap();
        (ram, record)
    }

    fn request(pool: &Pool, file: FileId, op: Op, offset_bytes: u64, token: u64) -> Request {
        Request {
            token,
            op,
            file,
            drive_index: 0,
            offset_bytes,
            buf: pool.take().unwrap().into(),
        }
    }

    fn drain(queue: &mut dyn Queue) -> Vec<Completion> {
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.complete(Some(Duration::ZERO), &mut done).unwrap();
        }
        done
    }

    #[test]
    fn requests_carry_what_their_thread_had_waited_for_and_tokens_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let (_, device) = recorded(&path);
        let pool = Pool::new(&Budget::new(1 << 20), "test", 8192, 8).unwrap();
        let first = device.open(Path::new("/d0/in"), Access::Read).unwrap();
        let second = device.open(Path::new("/d1/in"), Access::Update).unwrap();
        let again = device.open(Path::new("/d0/in"), Access::Read).unwrap();
        let mut queue = device.queue(8).unwrap();
        queue.submit(request(&pool, first, Op::Read, 4096, 77));
        queue.submit(request(&pool, second, Op::Write, 0, 77));
        let mut tokens: Vec<u64> = drain(queue.as_mut())
            .iter()
            .map(|completion| completion.request.token)
            .collect();
        queue.submit(request(&pool, again, Op::Read, 0, u64::MAX));
        tokens.extend(
            drain(queue.as_mut())
                .iter()
                .map(|completion| completion.request.token),
        );
        assert_eq!(tokens, [77, 77, u64::MAX]);
        device.punch(second, 4096, 5 << 30).unwrap();
        drop(queue);
        device.sync(second).unwrap();
        let summary = device.finish().unwrap();
        assert_eq!((summary.requests, summary.threads), (7, 2));
        assert_eq!(summary.drives, ["/d0", "/d1"]);
        assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());

        let (header, mut seen) = read(&path);
        assert_eq!(header["format"], "outcore-io-trace");
        assert_eq!(header["drives"][1]["name"], "/d1");
        seen[..2].sort_by_key(|record| record.outstanding);
        let kinds: Vec<u8> = seen.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [1, 2, 1, 4, 4, 4, 14, 13, 3, 14, 15]);
        let place = |at: usize| {
            let record = &seen[at];
            let thread = (record.thread, record.reaped, record.outstanding);
            (record.file, record.drive, record.offset_bytes, thread)
        };
        assert_eq!(place(0), (0, 0, 4096, (0, 0, 0)));
        assert_eq!(place(1), (1, 1, 0, (0, 0, 1)));
        assert_eq!(place(2), (0, 0, 0, (0, 2, 0)));
        assert_eq!(place(3), (1, 1, 4096, (0, 3, 0)));
        assert_eq!(place(4), (1, 1, 4096 + (2 << 30), (0, 3, 1)));
        assert_eq!(seen[5].len_bytes, 1 << 30);
        assert_eq!(place(6), (0, 0, 0, (0, 6, 0)));
        assert_eq!((seen[7].file, seen[7].reaped), (1, 6));
        assert_eq!(place(8), (1, 1, 0, (1, 0, 0)));
        assert_eq!(seen[10].reaped, 7);
        // The virtual clock advances only in waits, which are not busy time.
        assert!(
            seen.iter()
                .all(|record| record.think_ns + record.busy_ns == 0)
        );
        assert!(seen[2].submit_ns > 0 && seen[2].complete_ns > seen[2].submit_ns);
    }

    #[test]
    fn what_failed_and_what_nobody_took_is_marked_as_failed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let ram = RamDevice::new(RamOptions::default());
        ram.put("/d0/in", vec![1; 64 << 10]);
        let faulty = FaultDevice::new(Arc::new(ram), "eio@1:read".parse().unwrap());
        let about = TraceAbout::default();
        let device = RecordingDevice::create(Arc::new(faulty), &path, about, false).unwrap();
        let pool = Pool::new(&Budget::new(1 << 20), "test", 4096, 8).unwrap();
        let file = device.open(Path::new("/d0/in"), Access::Read).unwrap();
        let mut queue = device.queue(8).unwrap();
        queue.submit(request(&pool, file, Op::Read, 0, 1));
        assert_eq!(drain(queue.as_mut())[0].result, Err(5));
        queue.submit(request(&pool, file, Op::Read, 0, 2));
        drop(queue);
        assert_eq!(pool.free_slots(), 8);
        device.finish().unwrap();
        let kinds: Vec<u8> = read(&path).1.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [0x11, 0x11, 14, 15]);
    }

    #[test]
    fn a_trace_is_never_replaced_unasked_and_ends_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let (ram, device) = recorded(&path);
        let create = |path: &Path, replace| {
            let device = Arc::new(ram.clone());
            RecordingDevice::create(device, path, TraceAbout::default(), replace)
        };
        let error = create(&path, false).err().unwrap();
        assert_eq!(error.kind(), crate::Kind::Usage);
        assert!(error.to_string().contains("--force"), "{error}");
        device.finish().unwrap();
        let pool = Pool::new(&Budget::new(1 << 20), "test", 4096, 8).unwrap();
        let file = device.open(Path::new("/d0/in"), Access::Read).unwrap();
        let mut queue = device.queue(1).unwrap();
        queue.submit(request(&pool, file, Op::Read, 0, 5));
        assert_eq!(drain(queue.as_mut())[0].request.token, 5);
        assert!(device.finish().is_err());
        assert_eq!(read(&path).1.len(), 1);
        create(&path, true).unwrap().finish().unwrap();
        assert!(create(&dir.path().join("none/trace"), false).is_err());
    }

    #[test]
    fn a_full_disk_under_the_trace_is_told_at_once_and_names_it() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            println!("SKIP: no /dev/full here");
            return;
        }
        let ram = Arc::new(RamDevice::new(RamOptions::default()));
        let error = RecordingDevice::create(ram, full, TraceAbout::default(), true);
        let error = error.err().unwrap();
        assert_eq!(error.kind(), crate::Kind::NoSpace);
        assert_eq!(error.file_path(), Some(full));
    }

    #[test]
    fn many_long_drive_names_stay_within_the_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let (_, device) = recorded(&path);
        for number in 0..300 {
            let name = format!("/{number}{}", "x".repeat(200));
            device.file_system(Path::new(&name)).unwrap();
        }
        assert_eq!(device.finish().unwrap().drives.len(), 255);
        let (header, seen) = read(&path);
        assert_eq!(header["drives"].as_array().unwrap().len(), 255);
        assert_eq!(seen.len(), 1);
    }
}
