//! pread/pwrite queue: a few blocking threads, for systems that forbid io_uring.
//!
//! Contract: implements [`Queue`] with at most `THREADS_MAX` threads of its own, started when first
//! needed. Each transfer is resumed until it is complete or at the end of the file. This queue is
//! chosen at run time if a ring cannot be created (`EPERM` in containers, `ENOSYS` on old kernels).

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::{Errno, pread, preadv, pwrite, pwritev};

use super::open_files::{FileTable, OpenFile};
use super::progress::Progress;
use super::{Completion, IoBuf, Op, Queue, Request, Waker};
use crate::error::{Error, Result};
use crate::threads::spawn;

/// The maximum number of blocking threads of one queue.
const THREADS_MAX: usize = 16;

pub(crate) struct PsyncQueue {
    files: FileTable,
    depth_max: usize,
    in_flight: usize,
    work: Option<Sender<Request>>,
    work_end: Arc<Mutex<Receiver<Request>>>,
    /// Finished requests; `None` only ends a wait.
    done: Receiver<Option<Completion>>,
    done_end: Sender<Option<Completion>>,
    threads: Vec<JoinHandle<()>>,
}

impl PsyncQueue {
    pub(crate) fn new(files: FileTable, depth_max: usize) -> Self {
        let (work, work_end) = channel();
        let (done_end, done) = channel();
        PsyncQueue {
            files,
            depth_max,
            in_flight: 0,
            work: Some(work),
            work_end: Arc::new(Mutex::new(work_end)),
            done,
            done_end,
            threads: Vec::new(),
        }
    }

    fn start_thread(&mut self) {
        let work = Arc::clone(&self.work_end);
        let (files, done) = (self.files.clone(), self.done_end.clone());
        let thread = spawn("outcore-io", move || {
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(request) = next else { return };
                if done.send(Some(serve(&files, request))).is_err() {
                    return;
                }
            }
        });
        // If another thread cannot be started, the existing ones do the work.
        self.threads.extend(thread);
    }
}

/// Like `transfer`, for a file that may have to wait for a descriptor.
fn serve(files: &FileTable, request: Request) -> Completion {
    match files.wait_for(request.file) {
        Ok(file) => transfer(request, &file),
        Err(errno) => Completion {
            request,
            result: Err(errno.raw_os_error()),
        },
    }
}

/// Runs one request to its end in the calling thread.
pub(super) fn transfer(mut request: Request, file: &OpenFile) -> Completion {
    let mut progress = Progress::new(file.facts_direct());
    loop {
        let start = progress.resume_at_bytes();
        let offset_bytes = request.offset_bytes + start as u64;
        let moved = match request.op {
            Op::Read => match &mut request.buf {
                IoBuf::Whole(buf) => pread(&file.fd, &mut buf[start..], offset_bytes),
                pieces => preadv(&file.fd, &mut pieces.io_slices_mut(start), offset_bytes),
            },
            Op::Write => match &request.buf {
                IoBuf::Whole(buf) => pwrite(&file.fd, &buf[start..], offset_bytes),
                pieces => pwritev(&file.fd, &pieces.io_slices(start), offset_bytes),
            },
        };
        let answer = match moved {
            Ok(bytes) => bytes as i32,
            Err(errno) => -errno.raw_os_error(),
        };
        if let Some(result) = progress.advance(answer, request.buf.len()) {
            return Completion { request, result };
        }
    }
}

impl Queue for PsyncQueue {
    fn submit(&mut self, request: Request) {
        assert!(
            self.in_flight < self.depth_max,
            "no more than depth_max requests in flight"
        );
        if self.threads.len() < THREADS_MAX.min(self.in_flight + 1) {
            self.start_thread();
        }
        self.in_flight += 1;
        let refused = match &self.work {
            Some(work) if !self.threads.is_empty() => work.send(request).err().map(|e| e.0),
            _ => Some(request),
        };
        if let Some(request) = refused {
            // No thread could be started, so the transfer runs here.
            let _ = self.done_end.send(Some(serve(&self.files, request)));
        }
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        let before = done.len();
        while let Ok(completion) = self.done.try_recv() {
            self.in_flight -= usize::from(completion.is_some());
            done.extend(completion);
        }
        let Some(limit) = wait.filter(|_| done.len() == before && self.in_flight > 0) else {
            return Ok(());
        };
        match self.done.recv_timeout(limit) {
            Ok(completion) => {
                self.in_flight -= usize::from(completion.is_some());
                done.extend(completion);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Error::errno(
                "wait for I/O threads",
                Errno::IO.raw_os_error(),
            )),
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn waker(&mut self) -> Option<Waker> {
        let done = self.done_end.clone();
        Some(Waker::new(move || {
            // The queue may be gone; then there is no wait to end.
            let _ = done.send(None);
        }))
    }
}

impl Drop for PsyncQueue {
    fn drop(&mut self) {
        drop(self.work.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
