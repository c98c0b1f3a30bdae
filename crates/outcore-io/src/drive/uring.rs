//! io_uring queue: one ring per thread, serving every drive that the thread uses.
//!
//! Contract: implements [`Queue`] on a ring with `depth_max` slots. The thread that uses the ring
//! creates it (`SINGLE_ISSUER`), and only that thread processes completions, when it asks for them
//! (`DEFER_TASKRUN`). Kernels before 6.1 get a ring without either. Short transfers, `EAGAIN` and
//! `EINTR` are resumed. With direct I/O a resumed read starts at a block boundary again, and a
//! transfer that makes no progress there has reached the end of the file.
//!
//! The submitting thread performs three kinds of request at once, because the ring would hand them
//! to kernel worker threads:
//! - transfers of files in memory (tmpfs)
//! - the first write to a file that existed before
//! - requests that the kernel refuses to do without waiting
//!
//! The kernel gets a [`PORTION`] of requests at a time, so that the drive works on the first while
//! the rest is prepared. Memory that stays the same ([`Queue::keep`]) is registered with the ring
//! if the kernel has vectored transfers of registered memory (6.15) and `RLIMIT_MEMLOCK` allows it.
//! Otherwise each transfer pins its own memory. Measurements and rejected alternatives:
//! docs/decisions/0016-how-a-thread-feeds-its-ring.md.
//!
//! Another thread can end a wait ([`super::Waker`]): the ring polls an eventfd once a waker has
//! been requested.
//!
//! Memory: the slab owns each request in flight, and its buffer, until the kernel has answered.
//! Dropping the queue waits for all of them.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;

use super::open_files::{self, FileTable, OpenFile, Unavailable};
use super::progress::Progress;
use super::psync::transfer;
use super::{Completion, IoBuf, Op, Queue, Request, Waker};
use crate::error::{Error, Result};
use crate::memory::Pool;

/// Requests that are handed to the kernel together.
pub(crate) const PORTION: usize = 4;

struct InFlight {
    request: Request,
    file: Arc<OpenFile>,
    progress: Progress,
    /// Length of the transfer.
    len_bytes: usize,
    /// Whether the kernel should refuse the transfer rather than wait.
    is_nowait: bool,
    /// Index of the registered memory that the transfer moves.
    kept: Option<u16>,
    /// The segment list of a resumed vectored transfer, which the kernel reads; empty otherwise.
    rest: Vec<Rest>,
}

/// A ring and the requests that the kernel holds.
pub(crate) struct UringQueue {
    // Declared before the slab, because the ring must be dropped first; `drop` has drained it by
    // then.
    ring: IoUring,
    /// Memory that the ring has registered, by its index there. It must outlive the ring; otherwise
    /// its addresses could be reused.
    kept: Vec<Pool>,
    /// Whether the ring has a table for registered memory.
    can_keep: bool,
    slab: Vec<Option<InFlight>>,
    free: Vec<u32>,
    files: FileTable,
    unsubmitted: usize,
    /// Slab entries and the kernel's answers; empty between calls.
    answers: Vec<(u32, i32)>,
    /// Transfers that needed no ring.
    immediate: Vec<Completion>,
    /// Writes to files in memory that another thread is writing now.
    deferred: VecDeque<(Request, Arc<OpenFile>)>,
    /// Requests for files that get a descriptor only when other transfers have ended.
    waiting: VecDeque<Request>,
    /// The eventfd that other threads write to in order to end a wait, once a waker has been
    /// requested.
    alarm: Option<Arc<OwnedFd>>,
}

/// The system's `iovec`: memory to register, or the rest of a vectored transfer that came back
/// short.
#[repr(C)]
struct Rest {
    pointer: *mut u8,
    len_bytes: usize,
}

impl From<(*mut u8, usize)> for Rest {
    fn from((pointer, len_bytes): (*mut u8, usize)) -> Self {
        Rest { pointer, len_bytes }
    }
}

/// Number of pools that one ring registers.
const KEPT_MAX: u32 = 8;

/// User data of the poll for the alarm; no slab is that large.
const ALARM: u64 = u64::MAX;

/// The kernel's `RWF_NOWAIT`.
const NO_WAIT: i32 = 8;

/// A transfer of one piece of memory. `kept` is the number of its registered memory, if it has one.
fn plain(
    fd: Fd,
    op: Op,
    flags: i32,
    pointer: *mut u8,
    len_bytes: usize,
    kept: Option<u16>,
    offset_bytes: u64,
) -> Entry {
    let len_bytes = len_bytes as u32;
    match (op, kept) {
        (Op::Read, None) => opcode::Read::new(fd, pointer, len_bytes)
            .offset(offset_bytes)
            .build(),
        (Op::Read, Some(index)) => opcode::ReadFixed::new(fd, pointer, len_bytes, index)
            .offset(offset_bytes)
            .build(),
        (Op::Write, None) => opcode::Write::new(fd, pointer, len_bytes)
            .offset(offset_bytes)
            .rw_flags(flags)
            .build(),
        (Op::Write, Some(index)) => opcode::WriteFixed::new(fd, pointer, len_bytes, index)
            .offset(offset_bytes)
            .rw_flags(flags)
            .build(),
    }
}

/// Like `plain`, for memory in several pieces.
fn vectored(
    fd: Fd,
    op: Op,
    flags: i32,
    pieces: *const Rest,
    count: usize,
    kept: Option<u16>,
    offset_bytes: u64,
) -> Entry {
    let (pieces, count) = (pieces.cast(), count as u32);
    match (op, kept) {
        (Op::Read, None) => opcode::Readv::new(fd, pieces, count)
            .offset(offset_bytes)
            .build(),
        (Op::Read, Some(index)) => opcode::ReadvFixed::new(fd, pieces, count, index)
            .offset(offset_bytes)
            .build(),
        (Op::Write, None) => opcode::Writev::new(fd, pieces, count)
            .offset(offset_bytes)
            .rw_flags(flags)
            .build(),
        (Op::Write, Some(index)) => opcode::WritevFixed::new(fd, pieces, count, index)
            .offset(offset_bytes)
            .rw_flags(flags)
            .build(),
    }
}

/// Creates a table for registered memory, if the kernel has the operations for it.
fn prepare_to_keep(ring: &IoUring) -> bool {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).is_ok()
        && probe.is_supported(opcode::ReadvFixed::CODE)
        && probe.is_supported(opcode::WritevFixed::CODE)
        && ring.submitter().register_buffers_sparse(KEPT_MAX).is_ok()
}

/// Whether this kernel and container allow a ring at all.
pub(crate) fn is_available() -> bool {
    IoUring::new(2).is_ok()
}

impl UringQueue {
    pub(crate) fn new(files: FileTable, depth_max: usize) -> Result<Self> {
        let entries = depth_max.next_power_of_two().clamp(2, 4096) as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries)
            .or_else(|_| IoUring::new(entries))
            .map_err(|e| {
                Error::io("set up io_uring", &e)
                    .hint("containers may forbid io_uring; outcore then uses pread and pwrite")
            })?;
        Ok(UringQueue {
            can_keep: false,
            kept: Vec::new(),
            ring,
            slab: (0..depth_max).map(|_| None).collect(),
            free: (0..depth_max as u32).rev().collect(),
            files,
            unsubmitted: 0,
            answers: Vec::new(),
            immediate: Vec::new(),
            deferred: VecDeque::new(),
            waiting: VecDeque::new(),
            alarm: None,
        })
    }

    /// Starts a request, or lets it wait for a descriptor.
    fn start(&mut self, request: Request) {
        let file = match self.files.get(request.file) {
            Ok(file) => file,
            Err(Unavailable::Busy) => return self.waiting.push_back(request),
            Err(Unavailable::Lost(errno)) => {
                let result = Err(errno.raw_os_error());
                return self.immediate.push(Completion { request, result });
            }
        };
        if file.is_in_memory() {
            match request.op {
                Op::Read => self.immediate.push(transfer(request, &file)),
                Op::Write => self.deferred.push_back((request, file)),
            }
            return;
        }
        if request.op == Op::Write && file.is_first_write() {
            self.immediate.push(transfer(request, &file));
            return;
        }
        let Some(index) = self.free.pop() else {
            unreachable!("a slot is free")
        };
        let progress = Progress::new(file.facts_direct());
        self.slab[index as usize] = Some(InFlight {
            len_bytes: request.buf.len(),
            is_nowait: request.op == Op::Write && file.is_nowait(),
            kept: self.kept_around(&request.buf),
            request,
            file,
            progress,
            rest: Vec::new(),
        });
        self.push(index);
    }

    /// Starts the requests that wait for descriptors, as far as descriptors are free.
    fn start_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            if let Some(request) = self.waiting.pop_front() {
                self.start(request);
            }
        }
    }

    /// Puts the rest of slab entry `index` on the submission queue.
    fn push(&mut self, index: u32) {
        let Some(flight) = self.slab[index as usize].as_mut() else {
            return;
        };
        let fd = Fd(flight.file.fd.as_raw_fd());
        let start = flight.progress.resume_at_bytes();
        let offset_bytes = flight.request.offset_bytes + start as u64;
        let (op, kept) = (flight.request.op, flight.kept);
        let flags = if flight.is_nowait { NO_WAIT } else { 0 };
        let entry = match &mut flight.request.buf {
            IoBuf::Whole(buf) => {
                // SAFETY: `start <= buf.len()`.
                let pointer = unsafe { buf.as_io_ptr().add(start) };
                let len_bytes = buf.len() - start;
                plain(fd, op, flags, pointer, len_bytes, kept, offset_bytes)
            }
            IoBuf::Pieces(pieces) if start == 0 => match &mut pieces[..] {
                [only] => {
                    let len_bytes = only.len();
                    let pointer = only.as_io_ptr();
                    plain(fd, op, flags, pointer, len_bytes, kept, offset_bytes)
                }
                // Segments have the layout of `iovec`s, and their vector stays in place.
                many => {
                    let pieces = many.as_ptr().cast();
                    vectored(fd, op, flags, pieces, many.len(), kept, offset_bytes)
                }
            },
            IoBuf::Pieces(pieces) => {
                flight.rest.clear();
                let mut skip_bytes = start;
                for piece in pieces.iter_mut() {
                    let here = skip_bytes.min(piece.len());
                    skip_bytes -= here;
                    if here < piece.len() {
                        // SAFETY: `here < piece.len()`.
                        let pointer = unsafe { piece.as_io_ptr().add(here) };
                        flight.rest.push((pointer, piece.len() - here).into());
                    }
                }
                let (pieces, count) = (flight.rest.as_ptr(), flight.rest.len());
                vectored(fd, op, flags, pieces, count, kept, offset_bytes)
            }
        }
        .user_data(u64::from(index));
        loop {
            // SAFETY: the buffer and the descriptor are owned by the slab entry until the
            // completion with this index has been reaped.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.unsubmitted += 1;
                if self.unsubmitted >= PORTION {
                    // If the kernel rejects the request now, `complete` submits it again and
                    // reports the reason.
                    let _ = self.flush();
                }
                return;
            }
            // The queue is as large as the slab, so it is full only if requests are unsubmitted.
            if self.flush().is_err() {
                self.give_up(index);
                return;
            }
        }
    }

    /// The registered memory that contains all of `buf`.
    fn kept_around(&self, buf: &IoBuf) -> Option<u16> {
        let is_inside = |pool: &Pool| {
            let addresses = pool.addresses();
            buf.slices().all(|slice| {
                let first = slice.as_ptr() as usize;
                addresses.start <= first && first + slice.len() <= addresses.end
            })
        };
        let index = self.kept.iter().position(is_inside)?;
        Some(index as u16)
    }

    /// Makes the ring poll the alarm, once.
    fn watch_alarm(&mut self) {
        let Some(alarm) = &self.alarm else { return };
        // Not `into`: the signedness of the bits depends on the backend of rustix, which is the C
        // library under Miri.
        let readable = PollFlags::IN.bits() as u32;
        let entry = opcode::PollAdd::new(Fd(alarm.as_raw_fd()), readable)
            .build()
            .user_data(ALARM);
        // SAFETY: the entry points to no memory, and the queue owns the descriptor as long as the
        // ring.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            if self.flush().is_err() {
                return;
            }
        }
        self.unsubmitted += 1;
    }

    /// Ends a transfer that the kernel does not accept.
    fn give_up(&mut self, index: u32) {
        if let Some(flight) = self.slab[index as usize].take() {
            self.free.push(index);
            self.immediate.push(Completion {
                request: flight.request,
                result: Err(Errno::IO.raw_os_error()),
            });
        }
    }

    /// Performs deferred writes to files in memory that no other thread is writing. With
    /// `may_block`, waits for the first of them.
    fn write_deferred(&mut self, mut may_block: bool) {
        for _ in 0..self.deferred.len() {
            let Some((request, file)) = self.deferred.pop_front() else {
                return;
            };
            let turn = match file.writing.try_lock() {
                Err(TryLockError::WouldBlock) if may_block => {
                    Some(file.writing.lock().unwrap_or_else(PoisonError::into_inner))
                }
                Err(TryLockError::WouldBlock) => None,
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Ok(turn) => Some(turn),
            };
            if turn.is_some() {
                let completion = transfer(request, &file);
                self.immediate.push(completion);
                may_block = false;
            } else {
                drop(turn);
                self.deferred.push_back((request, file));
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self.ring.submit() {
            Ok(_) => {
                self.unsubmitted = 0;
                Ok(())
            }
            Err(e) => ignore_transient(&e),
        }
    }

    fn wait(&mut self, wait: Duration) -> Result<()> {
        let limit = Timespec::from(wait);
        let args = SubmitArgs::new().timespec(&limit);
        match self.ring.submitter().submit_with_args(1, &args) {
            Ok(_) => {
                self.unsubmitted = 0;
                Ok(())
            }
            Err(e) => ignore_transient(&e),
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let mut answers = std::mem::take(&mut self.answers);
        let mut is_alarmed = false;
        answers.extend(self.ring.completion().filter_map(|answer| {
            is_alarmed |= answer.user_data() == ALARM;
            (answer.user_data() != ALARM).then(|| (answer.user_data() as u32, answer.result()))
        }));
        if is_alarmed && let Some(alarm) = &self.alarm {
            // Reset before the ring polls again; if this fails, the alarm rings once more.
            let _ = rustix::io::read(alarm, &mut [0; 8]);
            self.watch_alarm();
        }
        for (index, answer) in answers.drain(..) {
            let Some(flight) = &self.slab[index as usize] else {
                continue;
            };
            // No code here cancels requests, so the kernel had no free worker thread and could
            // create none.
            let mut is_refused = answer == -Errno::CANCELED.raw_os_error();
            if flight.is_nowait && !is_refused {
                is_refused = answer == -Errno::AGAIN.raw_os_error()
                    || answer == -Errno::OPNOTSUPP.raw_os_error();
                flight.file.note_nowait(is_refused);
            }
            if is_refused && let Some(flight) = self.slab[index as usize].take() {
                self.free.push(index);
                done.push(transfer(flight.request, &flight.file));
                continue;
            }
            let Some(flight) = self.slab[index as usize].as_mut() else {
                continue;
            };
            match flight.progress.advance(answer, flight.len_bytes) {
                None => self.push(index),
                Some(result) => {
                    if let Some(flight) = self.slab[index as usize].take() {
                        self.free.push(index);
                        done.push(Completion {
                            request: flight.request,
                            result,
                        });
                    }
                }
            }
        }
        self.answers = answers;
    }
}

/// Interrupted, timed out or busy: the caller checks the completion queue and tries again.
fn ignore_transient(error: &std::io::Error) -> Result<()> {
    let transient = [Errno::INTR, Errno::TIME, Errno::BUSY, Errno::AGAIN].map(Errno::raw_os_error);
    match error.raw_os_error() {
        Some(code) if transient.contains(&code) => Ok(()),
        _ => Err(Error::io("enter io_uring", error)),
    }
}

impl Queue for UringQueue {
    fn submit(&mut self, request: Request) {
        assert!(
            self.in_flight() < self.slab.len(),
            "no more than depth_max requests in flight"
        );
        self.start(request);
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        if self.in_flight() == 0 {
            return Ok(());
        }
        let may_block = wait.is_some() && self.immediate.is_empty();
        self.write_deferred(may_block);
        done.append(&mut self.immediate);
        self.reap(done);
        self.start_waiting();
        done.append(&mut self.immediate);
        match wait {
            // This queue has nothing in flight, and others hold all descriptors.
            Some(limit) if done.is_empty() && self.waiting.len() == self.in_flight() => {
                std::thread::sleep(limit.min(open_files::WAIT));
            }
            Some(limit) if done.is_empty() => {
                // If no request in flight is submitted yet, a separate call lets the drive begin
                // while the wait is prepared.
                if self.unsubmitted >= self.slab.len() - self.free.len() {
                    self.flush()?;
                }
                self.wait(limit)?;
            }
            _ if self.unsubmitted > 0 || self.ring.submission().taskrun() => self.flush()?,
            _ => return Ok(()),
        }
        self.reap(done);
        if self.unsubmitted > 0 {
            self.flush()?;
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        let in_ring = self.slab.len() - self.free.len();
        in_ring + self.immediate.len() + self.deferred.len() + self.waiting.len()
    }

    fn keep(&mut self, pool: &Pool) {
        if self.kept.is_empty() && !self.can_keep {
            self.can_keep = prepare_to_keep(&self.ring);
        }
        let index = self.kept.len() as u32;
        if !self.can_keep || index == KEPT_MAX {
            return;
        }
        let addresses = pool.addresses();
        let memory = Rest::from((addresses.start as *mut u8, addresses.len()));
        // SAFETY: `Rest` has the layout of the system's `iovec`. The pool is kept as long as the
        // ring, so its addresses remain those of this memory.
        let registered = unsafe {
            let memory = std::slice::from_raw_parts(std::ptr::from_ref(&memory).cast(), 1);
            self.ring
                .submitter()
                .register_buffers_update(index, memory, None)
        };
        // If the kernel rejects a pool (too large, or above the lock limit), each transfer pins its
        // memory.
        if registered.is_ok() {
            self.kept.push(pool.clone());
        }
    }

    fn waker(&mut self) -> Option<Waker> {
        if self.alarm.is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            self.alarm = Some(Arc::new(eventfd(0, flags).ok()?));
            self.watch_alarm();
        }
        let alarm = Arc::clone(self.alarm.as_ref()?);
        Some(Waker::new(move || {
            // The write fails only if the counter would overflow, and then the alarm is already
            // set.
            let _ = rustix::io::write(&alarm, &1u64.to_ne_bytes());
        }))
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        // The kernel may still write into the buffers: they must stay until it has answered.
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            if self
                .complete(Some(Duration::from_millis(100)), &mut done)
                .is_err()
            {
                // The ring itself is broken: leak the buffers, because the kernel could still write
                // into them after they were reused.
                for flight in self.slab.drain(..).flatten() {
                    std::mem::forget(flight);
                }
                return;
            }
            done.clear();
        }
    }
}
