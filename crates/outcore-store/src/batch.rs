//! Batches over many drives: one thread hands requests to a volume, each drive is served on its
//! own.
//!
//! Contract: a [`Submitter`] takes requests in batches ([`Submitter::submit`]), maps and splits
//! them at stripe borders into a list a drive, and hands each list over once. It moves completions
//! out by [`Submitter::poll`]. It belongs to one thread, which serves the drives too, through its
//! own ring: at depth 1 a request costs one system call and wakes nobody. Above the volume's low
//! mark threads of the volume may serve them instead; `serving` says when, and what holds then.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017): batch per volume, serve per drive. Merging, order and
//! slots are those of [`DriveQueue`](outcore_io::drive::queue::DriveQueue).
//!
//! Back-pressure counts per drive: from [`BackPressure::high`](crate::striped::BackPressure)
//! requests on, those that touch the drive stay in the batch, until it is down to `low`; the others
//! go on. What follows directly on the request before it, and can be one transfer with it, counts
//! once with that one: else small stripes would fill a drive's mark with the pieces of a single
//! transfer, and leave its slots empty. The volume as a whole has a pair of marks too. An error
//! belongs to the request it hit: a merged transfer that fails is done again piece by piece.
//!
//! Bounds: requests in flight by the volume's mark, pieces by the requests' length; buffers are the
//! caller's and come back with the completion. A submitter that is dropped waits for the transfers
//! that have started and leaves the others undone. In the steady state nothing is allocated.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::mapping;
use crate::serving::Shared;
use crate::serving::{RequestPart, Returned, Route, Ticket};
use crate::slab::Slab;
use crate::stripe::BackPressure;
use outcore_io::drive::queue::{Class, Latencies, Span};
use outcore_io::drive::{FileId, Op};
use outcore_io::error::{Error, Result};
use outcore_io::memory::{Buf, Loan, Pool, Segment};
use outcore_io::port::{Transfer, TransferFault};
use outcore_io::transfers::Queues;

/// Lengths and offsets are multiples of it; direct I/O may ask for more (4 KiB always do).
const SECTOR_BYTES: u64 = 512;

/// One read or write of a volume.
#[derive(Debug)]
pub struct VolumeRequest {
    /// Handed back untouched.
    pub token: u64,
    /// Direction.
    pub op: Op,
    /// Who goes first.
    pub class: Class,
    /// Where in the volume; a multiple of 512.
    pub offset_bytes: u64,
    /// The memory, whole; its length is that of the request, a multiple of 512.
    pub buf: Buf,
}

/// What became of a [`VolumeRequest`].
#[derive(Debug)]
pub struct VolumeCompletion {
    /// The request's own.
    pub token: u64,
    /// Direction.
    pub op: Op,
    /// Where in the volume.
    pub offset_bytes: u64,
    /// The memory.
    pub buf: Buf,
    /// What failed first, if something did: nothing can be said then of the buffer's bytes, or of
    /// the volume's at its place.
    pub fault: Option<TransferFault>,
    /// From submission to completion.
    pub latency_ns: u64,
}

/// What happened to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Requests that were taken.
    pub taken: usize,
    /// Requests left in the batch, in order: their drives would block.
    pub refused: usize,
}

/// What one submitter saw of one drive, of transfers that are over.
#[derive(Debug, Clone, Default)]
pub struct DriveMeter {
    /// From submission of a request to the start of the transfer of each of its pieces.
    pub stack: Latencies,
    /// From the start of a transfer to its end.
    pub device: Latencies,
    /// Pieces of requests, before merging.
    pub pieces: u64,
    /// Transfers that the drive was given; one that carries pieces of several submitters counts for
    /// one of them.
    pub transfers: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Most transfers in flight at once.
    pub depth_max: usize,
}

impl DriveMeter {
    /// Counts a piece of a request that was submitted then.
    fn note(&mut self, piece: &Returned, submitted_ns: u64) {
        self.pieces += 1;
        self.stack
            .record(piece.started_ns.saturating_sub(submitted_ns));
        self.transfers += u64::from(piece.transfers);
        if piece.transfers > 0 {
            self.device
                .record(piece.ended_ns.saturating_sub(piece.started_ns));
            self.depth_max = self.depth_max.max(piece.depth as usize);
        }
        match piece.op {
            Op::Read => self.read_bytes += piece.segment.len() as u64,
            Op::Write => self.written_bytes += piece.segment.len() as u64,
        }
    }
}

/// A request that is out.
struct Parent {
    loan: Loan,
    token: u64,
    op: Op,
    offset_bytes: u64,
    submitted_ns: u64,
    pieces_left: u32,
    fault: Option<TransferFault>,
}

struct DriveState {
    file: FileId,
    /// Requests that touch the drive.
    pending: usize,
    is_full: bool,
    /// The last request that touched it.
    last_parent: u64,
    /// What came last, as far as it can be one transfer.
    run: Span,
    meter: DriveMeter,
}

impl DriveState {
    /// Whether `span` can go out in one transfer with what came before it, of at most `bytes_max`.
    fn continues(&mut self, span: Span, bytes_max: usize) -> bool {
        let run = &mut self.run;
        let is_next = run.op == span.op
            && run.class == span.class
            && run.offset_bytes + run.len_bytes as u64 == span.offset_bytes
            && run.len_bytes + span.len_bytes <= bytes_max;
        // What is over is not a run any more.
        if is_next && self.pending > 0 {
            run.len_bytes += span.len_bytes;
            return true;
        }
        *run = span;
        false
    }
}

/// One thread's access to a [`StripedVolume`](crate::striped::StripedVolume).
pub struct Submitter {
    route: Route,
    lanes: Vec<DriveState>,
    parents: Slab<Parent>,
    shared: Arc<Shared>,
    pressure: BackPressure,
    is_full: bool,
    requests_seen: u64,
    requests_done: u64,
    ready: Vec<VolumeCompletion>,
    // Kept for their capacity.
    pieces: Vec<mapping::StripeExtent>,
    returned: Vec<Returned>,
    refused: Vec<VolumeRequest>,
}

impl Submitter {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self> {
        let lane = |drive: &crate::stripe::StripedDrive| DriveState {
            file: drive.file,
            pending: 0,
            is_full: false,
            last_parent: 0,
            run: Span {
                op: Op::Read,
                class: Class::Foreground,
                file: drive.file,
                offset_bytes: 0,
                len_bytes: 0,
            },
            meter: DriveMeter::default(),
        };
        let pressure = shared.options.volume_pressure.unwrap_or(BackPressure {
            high: 32 * shared.drives.len(),
            low: 16 * shared.drives.len(),
        });
        Ok(Submitter {
            route: Route::new(Arc::clone(&shared), pressure.low)?,
            lanes: shared.drives.iter().map(lane).collect(),
            parents: Slab::new(),
            pressure,
            shared,
            is_full: false,
            requests_seen: 0,
            requests_done: 0,
            ready: Vec::new(),
            pieces: Vec::new(),
            returned: Vec::new(),
            refused: Vec::new(),
        })
    }

    /// Takes what it can of `batch`, in order, and leaves in it the requests whose drives would
    /// block. Nothing is waited for. A request outside the volume, or not aligned, completes with
    /// `EINVAL`.
    pub fn submit(&mut self, batch: &mut Vec<VolumeRequest>) -> Accepted {
        let now_ns = self.shared.device.now_ns();
        let mut accepted = Accepted::default();
        if !batch.is_empty() {
            let requests = self.parents.len() + batch.len();
            self.route.choose(requests, self.requests_done, now_ns);
        }
        for request in batch.drain(..) {
            match self.take(request, now_ns) {
                None => accepted.taken += 1,
                Some(request) => self.refused.push(request),
            }
        }
        accepted.refused = self.refused.len();
        std::mem::swap(batch, &mut self.refused);
        self.route.send();
        accepted
    }

    /// The same, waiting where a drive would block; completions on the way go to `done`.
    ///
    /// # Errors
    /// As [`Submitter::poll`].
    pub fn submit_all(
        &mut self,
        batch: &mut Vec<VolumeRequest>,
        done: &mut Vec<VolumeCompletion>,
    ) -> Result<()> {
        while self.submit(batch).refused > 0 {
            self.poll(Some(outcore_io::port::WAIT_MAX), done)?;
        }
        Ok(())
    }

    /// Moves what has finished to `done` and starts what has waited for it. With `wait`, blocks
    /// until something has finished or the time is over; returns at once when nothing is in flight.
    ///
    /// # Errors
    /// The queue itself fails; faults of transfers are those of their requests.
    pub fn poll(&mut self, wait: Option<Duration>, done: &mut Vec<VolumeCompletion>) -> Result<()> {
        let wait = wait.filter(|_| self.ready.is_empty());
        let polled = self.route.poll(wait, &mut self.returned);
        self.take_back();
        done.append(&mut self.ready);
        polled
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// As [`Submitter::poll`].
    pub fn drain(&mut self, done: &mut Vec<VolumeCompletion>) -> Result<()> {
        while self.in_flight() > 0 {
            self.poll(Some(outcore_io::port::WAIT_MAX), done)?;
        }
        Ok(())
    }

    /// Says that buffers of `pool` will be handed in over and over; see
    /// [`Queue::keep`](outcore_io::drive::Queue::keep). What the volume's threads serve does
    /// without.
    pub fn keep(&mut self, pool: &Pool) {
        self.route.keep(pool);
    }

    /// Requests taken and not yet returned.
    pub fn in_flight(&self) -> usize {
        self.parents.len() + self.ready.len()
    }

    /// Pieces of requests that the volume's threads have served, or are to serve.
    pub fn handed_over(&self) -> u64 {
        self.route.handed_over()
    }

    /// Requests that touch a drive and are not over; what can be one transfer counts once.
    pub fn pending(&self, drive_index: usize) -> usize {
        self.lanes.get(drive_index).map_or(0, |lane| lane.pending)
    }

    /// Whether a request that touches the drive would be refused now.
    pub fn would_block(&self, drive_index: usize) -> bool {
        self.is_full || self.lanes.get(drive_index).is_some_and(|lane| lane.is_full)
    }

    /// What it has seen of each drive.
    pub fn meters(&self) -> impl ExactSizeIterator<Item = &DriveMeter> {
        self.lanes.iter().map(|lane| &lane.meter)
    }

    /// Takes one request, or gives it back.
    fn take(&mut self, request: VolumeRequest, now_ns: u64) -> Option<VolumeRequest> {
        if self.is_full {
            return Some(request);
        }
        let len_bytes = request.buf.len();
        let end_bytes = request.offset_bytes.checked_add(len_bytes as u64);
        let is_inside = end_bytes.is_some_and(|end| end <= self.shared.map.len_bytes())
            && (request.offset_bytes | len_bytes as u64).is_multiple_of(SECTOR_BYTES)
            && len_bytes > 0;
        if !is_inside {
            self.ready.push(refusal(request));
            return None;
        }
        self.pieces.clear();
        let drives = &self.shared.drives;
        let pieces = &mut self.pieces;
        // All drives have the same cap in nearly every volume; the smallest serves all.
        let cap_bytes = drives.iter().map(|d| d.transfer_bytes_max).min();
        let map = &self.shared.map;
        map.split(
            request.offset_bytes,
            len_bytes,
            cap_bytes.unwrap_or(len_bytes),
            |piece| pieces.push(piece),
        );
        if pieces
            .iter()
            .any(|piece| self.lanes[piece.drive_index].is_full)
        {
            return Some(request);
        }
        self.requests_seen += 1;
        let parent = self.parents.insert(Parent {
            loan: Loan::new(request.buf),
            token: request.token,
            op: request.op,
            offset_bytes: request.offset_bytes,
            submitted_ns: now_ns,
            pieces_left: self.pieces.len() as u32,
            fault: None,
        });
        let loan = &mut self.parents.get_mut(parent)?.loan;
        for piece in &self.pieces {
            let lane = &mut self.lanes[piece.drive_index];
            let span = Span {
                op: request.op,
                class: request.class,
                file: lane.file,
                offset_bytes: piece.offset_bytes,
                len_bytes: piece.len_bytes,
            };
            let run_bytes_max = match self.shared.options.is_merging {
                true => self.shared.drives[piece.drive_index].transfer_bytes_max,
                false => 0,
            };
            let is_more = lane.continues(span, run_bytes_max);
            let counts = !is_more && lane.last_parent != self.requests_seen;
            lane.last_parent = self.requests_seen;
            lane.pending += usize::from(counts);
            lane.is_full |= lane.pending >= self.shared.options.drive_pressure.high;
            self.route.submit(RequestPart {
                drive_index: piece.drive_index,
                span,
                ticket: Ticket {
                    client: 0,
                    parent,
                    counts,
                },
                segment: loan.carve(piece.len_bytes),
            });
        }
        self.is_full |= self.parents.len() >= self.pressure.high;
        None
    }

    /// Hands pieces that are back to their requests.
    fn take_back(&mut self) {
        if self.returned.is_empty() {
            return;
        }
        let now_ns = self.shared.device.now_ns();
        let mut returned = std::mem::take(&mut self.returned);
        for piece in returned.drain(..) {
            let lane = &mut self.lanes[piece.drive_index];
            let Some(parent) = self.parents.get_mut(piece.ticket.parent) else {
                unreachable!("a request is in the table until its last piece is back");
            };
            lane.meter.note(&piece, parent.submitted_ns);
            lane.pending -= usize::from(piece.ticket.counts);
            lane.is_full &= lane.pending > self.shared.options.drive_pressure.low;
            let fault = piece.errno.map(|errno| TransferFault {
                op: piece.op,
                file: lane.file,
                drive_index: piece.drive_index,
                offset_bytes: piece.offset_bytes,
                errno,
            });
            self.give_back(piece.ticket.parent, piece.segment, fault, now_ns);
        }
        self.returned = returned;
    }

    fn give_back(
        &mut self,
        index: u32,
        segment: Segment,
        fault: Option<TransferFault>,
        now_ns: u64,
    ) {
        let Some(parent) = self.parents.get_mut(index) else {
            unreachable!("a request is in the table until its last piece is back");
        };
        parent.loan.give_back(segment);
        parent.fault = parent.fault.or(fault);
        parent.pieces_left -= 1;
        if parent.pieces_left > 0 {
            return;
        }
        if let Some(parent) = self.parents.remove(index) {
            self.requests_done += 1;
            self.ready.push(VolumeCompletion {
                token: parent.token,
                op: parent.op,
                offset_bytes: parent.offset_bytes,
                buf: parent.loan.end(),
                fault: parent.fault,
                latency_ns: now_ns.saturating_sub(parent.submitted_ns),
            });
        }
        self.is_full &= self.parents.len() > self.pressure.low;
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        // Where that fails a loan keeps the memory that is still out.
        let held = self.route.withdraw(&mut self.returned).unwrap_or_default();
        self.take_back();
        for piece in held {
            self.give_back(piece.ticket.parent, piece.segment, None, 0);
        }
    }
}

/// A submitter as queues that [`outcore_io::transfers`] turn: requests in the foreground, and what
/// its drives would block for waits here.
pub struct Batches {
    submitter: Submitter,
    batch: Vec<VolumeRequest>,
    done: Vec<VolumeCompletion>,
}

impl Batches {
    /// Those of a submitter that nobody else turns.
    pub fn of(submitter: Submitter) -> Self {
        Batches {
            submitter,
            batch: Vec::new(),
            done: Vec::new(),
        }
    }
}

impl Queues for Batches {
    /// There is one place only.
    type File = ();

    fn submit(&mut self, _: &(), op: Op, offset_bytes: u64, buf: Buf, token: u64) {
        self.batch.push(VolumeRequest {
            token,
            op,
            class: Class::Foreground,
            offset_bytes,
            buf,
        });
    }

    fn poll(&mut self, wait: bool, finished: &mut Vec<Transfer>) -> Result<()> {
        self.submitter.submit(&mut self.batch);
        let wait = wait.then_some(outcore_io::port::WAIT_MAX);
        let polled = self.submitter.poll(wait, &mut self.done);
        finished.extend(self.done.drain(..).map(|completion| Transfer {
            token: completion.token,
            op: completion.op,
            len_bytes: completion.buf.len(),
            buf: completion.buf,
            fault: completion.fault,
        }));
        polled
    }

    fn in_flight(&self) -> usize {
        self.submitter.in_flight() + self.batch.len()
    }

    fn explain(&self, fault: &TransferFault) -> Error {
        self.submitter.shared.explain(fault)
    }
}

/// A request that no drive can serve.
fn refusal(request: VolumeRequest) -> VolumeCompletion {
    VolumeCompletion {
        token: request.token,
        op: request.op,
        offset_bytes: request.offset_bytes,
        fault: Some(TransferFault {
            op: request.op,
            file: FileId(u32::MAX),
            drive_index: usize::MAX,
            offset_bytes: request.offset_bytes,
            errno: Errno::INVAL.raw_os_error(),
        }),
        buf: request.buf,
        latency_ns: 0,
    }
}
