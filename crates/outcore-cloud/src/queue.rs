//! Reads of objects: requests become ranged GETs, which fill the requests' own buffers.
//!
//! Contract: an [`ObjectQueue`] passes requests for other files on unchanged. Adjacent requests
//! that wait together become one GET of at most [`GET_BYTES_MAX`]; each completes as soon as its
//! bytes are there. A GET asks for the version that was opened. A GET that loses its connection, or
//! in which nothing arrives for half a minute, continues where it ended. If no new byte arrives, it
//! is repeated at most [`RETRIES_MAX`] times, within [`RETRY_MAX`]. Once the user wants to stop,
//! all reads fail as interrupted. A write fails: objects are only read.
//!
//! Bounds: the buffers of the requests; the process has at most
//! [`GETS_MAX`](crate::cloud::GETS_MAX) GETs in flight, and further ones wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use outcore_io::drive::{Completion, Op, Queue, Request, Waker};
use outcore_io::memory::Pool;
use outcore_io::stop::Stop;
use outcore_io::{Error, Kind, Result};
use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cloud::{Cloud, PAUSE_MAX, PAUSE_MIN, RETRIES_MAX, RETRY_MAX};
use crate::get::{Fault, READ, SILENCE_MAX, get};
use crate::open::{Open, Table};

/// Longest GET.
const GET_BYTES_MAX: u64 = 16 << 20;
/// Longest wait for other files before this queue checks for bytes of objects again.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// See the module.
pub(crate) struct ObjectQueue {
    below: Box<dyn Queue>,
    table: Arc<Table>,
    gets: Arc<Semaphore>,
    stop: Stop,
    /// Requests for objects that no GET has yet.
    waiting: Vec<(Arc<Open>, Request)>,
    tasks: JoinSet<()>,
    sender: Sender<Completion>,
    finished: Receiver<Completion>,
    waker: Option<Waker>,
    in_flight: usize,
}

impl ObjectQueue {
    pub(crate) fn new(below: Box<dyn Queue>, table: Arc<Table>, cloud: &Cloud) -> Self {
        let (sender, finished) = channel();
        ObjectQueue {
            below,
            table,
            gets: cloud.gets(),
            stop: cloud.stop(),
            waiting: Vec::new(),
            tasks: JoinSet::new(),
            sender,
            finished,
            waker: None,
            in_flight: 0,
        }
    }

    /// Starts GETs for all requests that wait; adjacent requests share a GET.
    fn start(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|(_, request)| (request.file, request.offset_bytes));
        let mut flight: Option<Flight> = None;
        for (open, request) in waiting {
            if let Some(flight) = flight.as_mut().filter(|flight| flight.takes(&request)) {
                flight.requests.push_back(request);
                continue;
            }
            if let Some(full) = flight.take() {
                self.spawn(full);
            }
            flight = Some(Flight {
                at_bytes: request.offset_bytes,
                requests: VecDeque::from([request]),
                open,
                sender: self.sender.clone(),
                waker: None,
                stop: self.stop.clone(),
            });
        }
        if let Some(last) = flight {
            self.spawn(last);
        }
    }

    fn spawn(&mut self, mut flight: Flight) {
        if self.waker.is_none() && self.below.in_flight() > 0 {
            self.waker = self.below.waker();
        }
        flight.waker = self.waker.clone();
        let gets = Arc::clone(&self.gets);
        let handle: Handle = flight.open.object.store.handle.clone();
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn_on(flight.fetch(gets), &handle);
    }

    fn take(&mut self, done: &mut Vec<Completion>) -> bool {
        let before = done.len();
        done.extend(self.finished.try_iter());
        self.in_flight -= done.len() - before;
        done.len() > before
    }

    /// Waits for an object until `deadline`, while nothing else is in flight.
    fn wait_for_object(&mut self, deadline: Instant, done: &mut Vec<Completion>) {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.finished.recv_timeout(left) {
            Ok(first) => {
                self.in_flight -= 1;
                done.push(first);
                self.take(done);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

impl Queue for ObjectQueue {
    fn submit(&mut self, request: Request) {
        let Some(open) = self.table.get(request.file) else {
            self.below.submit(request);
            return;
        };
        self.in_flight += 1;
        match request.op {
            Op::Read => self.waiting.push((open, request)),
            Op::Write => {
                let failed = Completion {
                    request,
                    result: Err(Errno::ROFS.raw_os_error()),
                };
                // This cannot fail, because this queue owns the receiver.
                let _ = self.sender.send(failed);
            }
        }
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        self.start();
        if self.in_flight > 0 && self.stop.check().is_err() {
            self.tasks.abort_all();
        }
        let is_any = self.take(done);
        if self.in_flight == 0 {
            let wait = wait.filter(|_| !is_any);
            return self.below.complete(wait, done);
        }
        let before = done.len();
        self.below.complete(None, done)?;
        let Some(wait) = wait.filter(|_| !is_any && done.len() == before) else {
            return Ok(());
        };
        let deadline = Instant::now() + wait;
        while done.len() == before && Instant::now() < deadline {
            if self.below.in_flight() == 0 {
                self.wait_for_object(deadline, done);
                continue;
            }
            // A GET that began before the other requests does not end this wait.
            let left = deadline.saturating_duration_since(Instant::now());
            self.below.complete(Some(left.min(LOOK_EVERY)), done)?;
            self.take(done);
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight + self.below.in_flight()
    }

    fn keep(&mut self, pool: &Pool) {
        self.below.keep(pool);
    }

    fn waker(&mut self) -> Option<Waker> {
        self.below.waker()
    }
}

/// Adjacent requests that one GET serves.
struct Flight {
    open: Arc<Open>,
    /// The requests that are not complete yet, in order.
    requests: VecDeque<Request>,
    /// Place of the next byte.
    at_bytes: u64,
    sender: Sender<Completion>,
    waker: Option<Waker>,
    stop: Stop,
}

impl Flight {
    fn end_bytes(&self) -> u64 {
        self.requests.back().map_or(self.at_bytes, end_of)
    }

    /// Whether `request` continues this flight.
    fn takes(&self, request: &Request) -> bool {
        let first = self.requests.front();
        first.is_some_and(|first| first.file == request.file)
            && request.offset_bytes == self.end_bytes()
            && end_of(request) - self.at_bytes <= GET_BYTES_MAX
    }

    /// Reads the whole flight.
    async fn fetch(mut self, gets: Arc<Semaphore>) {
        let len_bytes = self.open.object.facts.size;
        // This fails only if the semaphore is closed, which never happens. The GET would then only
        // exceed the bound.
        let _permit = gets.acquire_owned().await;
        let (mut tries, mut pause) = (0, PAUSE_MIN);
        let mut last_byte = Instant::now();
        let end_bytes = self.end_bytes().min(len_bytes);
        while self.at_bytes < end_bytes {
            let before = self.at_bytes;
            let Err(fault) = self.get(end_bytes).await else {
                continue;
            };
            if self.at_bytes > before {
                (tries, pause) = (0, PAUSE_MIN);
                last_byte = Instant::now();
            }
            tries += 1;
            let is_over = tries > RETRIES_MAX || last_byte.elapsed() > RETRY_MAX;
            if !fault.is_passing || is_over {
                self.fail(&fault.error);
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
        // Requests that begin at the end of the object, or extend beyond it.
        while !self.requests.is_empty() {
            self.end_first();
        }
    }

    /// Makes one GET for the rest, and takes the bytes that arrive.
    async fn get(&mut self, end_bytes: u64) -> std::result::Result<(), Fault> {
        let open = Arc::clone(&self.open);
        let mut stream = get(&open.object, self.at_bytes..end_bytes).await?;
        while self.at_bytes < end_bytes {
            let chunk = match tokio::time::timeout(SILENCE_MAX, stream.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(Some(Err(error))) => return Err(Fault::of(&open.object, &error)),
                Ok(None) => return Err(Fault::lost(&open.object, "the answer ended early")),
                Err(_) => return Err(Fault::lost(&open.object, "nothing arrived for 30 seconds")),
            };
            let more = usize::try_from(end_bytes - self.at_bytes).unwrap_or(usize::MAX);
            self.fill(&chunk[..chunk.len().min(more)]);
        }
        Ok(())
    }

    /// Puts bytes where they belong, and completes the requests that have all their bytes.
    fn fill(&mut self, mut bytes: &[u8]) {
        while let Some(first) = self.requests.front_mut().filter(|_| !bytes.is_empty()) {
            let start = (self.at_bytes - first.offset_bytes) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(first.buf.len() - start));
            first.buf.copy_in(start, now);
            let is_full = start + now.len() == first.buf.len();
            self.at_bytes += now.len() as u64;
            bytes = later;
            if is_full {
                self.end_first();
            }
        }
    }

    /// Completes the first request with the bytes that it has.
    fn end_first(&mut self) {
        if let Some(first) = self.requests.pop_front() {
            let has_bytes = self.at_bytes.saturating_sub(first.offset_bytes) as usize;
            let result = Ok(has_bytes.min(first.buf.len()));
            self.send(first, result);
        }
    }

    fn fail(&mut self, error: &Error) {
        while let Some(request) = self.requests.pop_front() {
            let offset_bytes = request.offset_bytes;
            let error = match error.kind() {
                Kind::Interrupted => error.clone(),
                _ => error.clone().offset(offset_bytes),
            };
            self.open.note(offset_bytes, error);
            self.send(request, Err(Errno::IO.raw_os_error()));
        }
    }

    fn send(&self, request: Request, result: std::result::Result<usize, i32>) {
        // Without its queue the request has no owner any more.
        let _ = self.sender.send(Completion { request, result });
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }
}

/// A task that ends early returns its remaining requests: every request completes once.
impl Drop for Flight {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            let error = self.stop.check().err().unwrap_or_else(|| {
                let error = Error::new(Kind::Io, READ, "the read was given up");
                error.path(self.open.object.address.path())
            });
            self.fail(&error);
        }
    }
}

fn end_of(request: &Request) -> u64 {
    request.offset_bytes + request.buf.len() as u64
}
