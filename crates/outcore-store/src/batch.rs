//! Batches over many drives: one thread submits requests to a volume, and each drive is served
//! separately.
//!
//! Contract: a [`Submitter`] takes requests in batches ([`Submitter::submit`]), maps them, splits
//! them at stripe boundaries into one list per drive, and submits each list once.
//! [`Submitter::poll`] returns completions. A submitter belongs to one thread, which also serves
//! the drives through its own ring: at depth 1 a request costs one system call and wakes no thread.
//! Above the volume's low mark, threads of the volume may serve the requests instead. `serving`
//! describes when they do, and which guarantees hold.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017): batch per volume, serve per drive. Merging, order and
//! slots are those of [`DriveQueue`](outcore_io::drive::queue::DriveQueue).
//!
//! Back-pressure counts requests per drive. At
//! [`BackPressure::high`](crate::striped::BackPressure), requests that touch the drive stay in the
//! batch until the count is down to `low`; requests for other drives continue. A request that
//! directly follows the previous one and fits in one transfer with it is not counted again.
//! Otherwise, with small stripes, the pieces of a single transfer would reach a drive's mark and
//! leave its slots empty. The whole volume also has a pair of marks. A merged transfer that fails
//! is repeated piece by piece, so only the requests that cause an error fail.
//!
//! Bounds: the volume's mark bounds the requests in flight, and their lengths bound the pieces.
//! Buffers belong to the caller and return with the completion. A submitter that is dropped waits
//! for the transfers that have started. Transfers that wait for a slot never start. In the steady
//! state nothing is allocated.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::mapping;
use crate::serving::Shared;
use crate::serving::{RequestPart, Returned, Route, Ticket};
use crate::slab::Slab;
use crate::stripe::{ABSENT, BackPressure};
use outcore_io::drive::queue::{Class, Latencies, Span};
use outcore_io::drive::{FileId, Op};
use outcore_io::error::{Error, Result};
use outcore_io::memory::{Buf, Loan, Pool, Segment};
use outcore_io::port::{Transfer, TransferFault};
use outcore_io::transfers::Queues;

/// Unit of lengths and offsets; direct I/O may require a larger one (4 KiB is always enough).
const SECTOR_BYTES: u64 = 512;

/// One read or write of a volume.
#[derive(Debug)]
pub struct VolumeRequest {
    /// Returned unchanged.
    pub token: u64,
    /// Direction.
    pub op: Op,
    /// Priority.
    pub class: Class,
    /// Offset in the volume; a multiple of 512.
    pub offset_bytes: u64,
    /// The memory as one buffer; its length is that of the request, a multiple of 512.
    pub buf: Buf,
}

/// The result of a [`VolumeRequest`].
#[derive(Debug)]
pub struct VolumeCompletion {
    /// The request's token.
    pub token: u64,
    /// Direction.
    pub op: Op,
    /// Offset in the volume.
    pub offset_bytes: u64,
    /// The memory.
    pub buf: Buf,
    /// The first failure, if there was one; the bytes in the buffer, or in that range of the
    /// volume, are then undefined.
    pub fault: Option<TransferFault>,
    /// From submission to completion.
    pub latency_ns: u64,
}

/// The result of submitting a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Requests that were taken.
    pub taken: usize,
    /// Requests left in the batch, in order, because their drives would block.
    pub refused: usize,
}

/// A submitter's measurements of one drive, over finished transfers.
#[derive(Debug, Clone, Default)]
pub struct DriveMeter {
    /// Times from the submission of a request to the start of each transfer of its pieces.
    pub stack: Latencies,
    /// Times from the start of a transfer to its end.
    pub device: Latencies,
    /// Pieces of requests, before merging.
    pub pieces: u64,
    /// Transfers that the drive received; a transfer with pieces of several submitters counts for
    /// one of them.
    pub transfers: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Largest number of transfers in flight at once.
    pub depth_max: usize,
}

impl DriveMeter {
    /// Counts a piece of a request that was submitted at `submitted_ns`.
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

/// A request in flight.
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
    /// The last request that touched the drive.
    last_parent: u64,
    /// The latest transfer that further requests may extend.
    run: Span,
    meter: DriveMeter,
}

impl DriveState {
    /// Whether `span` can go out in one transfer with the requests before it, of at most
    /// `bytes_max`.
    fn continues(&mut self, span: Span, bytes_max: usize) -> bool {
        let run = &mut self.run;
        let is_next = run.op == span.op
            && run.class == span.class
            && run.offset_bytes + run.len_bytes as u64 == span.offset_bytes
            && run.len_bytes + span.len_bytes <= bytes_max;
        // Finished requests cannot be extended.
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
    /// Pieces of the latest request for drives that are absent.
    lost: Vec<(mapping::StripeExtent, Segment)>,
}

impl Submitter {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self> {
        Self::with_route(shared, Route::new)
    }

    /// A submitter with slots of its own.
    pub(super) fn apart(shared: Arc<Shared>) -> Result<Self> {
        Self::with_route(shared, |shared, _| Route::apart(shared))
    }

    fn with_route(
        shared: Arc<Shared>,
        route: impl FnOnce(Arc<Shared>, usize) -> Result<Route>,
    ) -> Result<Self> {
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
            route: route(Arc::clone(&shared), pressure.low)?,
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
            lost: Vec::new(),
        })
    }

    /// Takes as many requests of `batch` as it can, in order, and leaves those whose drives would
    /// block. Never waits. A request outside the volume, or not aligned, completes with `EINVAL`.
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

    /// Like [`Submitter::submit`], but waits while a drive would block; completions in the meantime
    /// go to `done`.
    ///
    /// # Errors
    /// The errors of [`Submitter::poll`].
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

    /// Moves finished requests to `done` and starts those that have waited for them. With `wait`,
    /// blocks until a request finishes or the time is over; returns at once if nothing is in
    /// flight.
    ///
    /// # Errors
    /// The queue itself failed; faults of transfers belong to their requests.
    pub fn poll(&mut self, wait: Option<Duration>, done: &mut Vec<VolumeCompletion>) -> Result<()> {
        let wait = wait.filter(|_| self.ready.is_empty());
        let polled = self.route.poll(wait, &mut self.returned);
        self.take_back();
        done.append(&mut self.ready);
        polled
    }

    /// Waits until all requests are done.
    ///
    /// # Errors
    /// The errors of [`Submitter::poll`].
    pub fn drain(&mut self, done: &mut Vec<VolumeCompletion>) -> Result<()> {
        while self.in_flight() > 0 {
            self.poll(Some(outcore_io::port::WAIT_MAX), done)?;
        }
        Ok(())
    }

    /// Announces that buffers of `pool` will be submitted repeatedly; see
    /// [`Queue::keep`](outcore_io::drive::Queue::keep). The volume's threads do not use this hint.
    pub fn keep(&mut self, pool: &Pool) {
        self.route.keep(pool);
    }

    /// Requests taken and not yet returned.
    pub fn in_flight(&self) -> usize {
        self.parents.len() + self.ready.len()
    }

    /// Pieces of requests that were passed to the volume's threads.
    pub fn handed_over(&self) -> u64 {
        self.route.handed_over()
    }

    /// Unfinished requests that touch a drive; requests that can be one transfer count once.
    pub fn pending(&self, drive_index: usize) -> usize {
        self.lanes.get(drive_index).map_or(0, |lane| lane.pending)
    }

    /// Whether a request that touches the drive would stay in the batch now.
    pub fn would_block(&self, drive_index: usize) -> bool {
        self.is_full || self.lanes.get(drive_index).is_some_and(|lane| lane.is_full)
    }

    /// This submitter's measurements of each drive.
    pub fn meters(&self) -> impl ExactSizeIterator<Item = &DriveMeter> {
        self.lanes.iter().map(|lane| &lane.meter)
    }

    /// Takes one request, or returns it.
    fn take(&mut self, request: VolumeRequest, now_ns: u64) -> Option<VolumeRequest> {
        if self.is_full {
            return Some(request);
        }
        let len_bytes = request.buf.len();
        let end_bytes = request.offset_bytes.checked_add(len_bytes as u64);
        let is_inside = end_bytes.is_some_and(|end| end <= self.shared.map.end_bytes())
            && (request.offset_bytes | len_bytes as u64).is_multiple_of(SECTOR_BYTES)
            && len_bytes > 0;
        if !is_inside {
            self.ready.push(refusal(request));
            return None;
        }
        self.pieces.clear();
        let drives = &self.shared.drives;
        let pieces = &mut self.pieces;
        // Nearly all volumes have the same limit on all drives, so the smallest one applies to all.
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
            if lane.file == ABSENT {
                self.lost.push((*piece, loan.carve(piece.len_bytes)));
                continue;
            }
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
        while let Some((piece, segment)) = self.lost.pop() {
            let fault = TransferFault {
                op: request.op,
                file: ABSENT,
                drive_index: piece.drive_index,
                offset_bytes: piece.offset_bytes,
                errno: Errno::NODEV.raw_os_error(),
            };
            self.give_back(parent, segment, Some(fault), now_ns);
        }
        None
    }

    /// Assigns returned pieces to their requests.
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
        // If this fails, the memory of transfers in flight stays on loan and is not freed.
        let held = self.route.withdraw(&mut self.returned).unwrap_or_default();
        self.take_back();
        for piece in held {
            self.give_back(piece.ticket.parent, piece.segment, None, 0);
        }
    }
}

/// Makes a submitter usable by [`outcore_io::transfers`]. All requests have foreground priority.
/// Requests whose drives would block wait here.
pub struct Batches {
    submitter: Submitter,
    batch: Vec<VolumeRequest>,
    done: Vec<VolumeCompletion>,
}

impl Batches {
    /// The queues of a submitter that has no other user.
    pub fn of(submitter: Submitter) -> Self {
        Batches {
            submitter,
            batch: Vec::new(),
            done: Vec::new(),
        }
    }
}

impl Queues for Batches {
    /// A volume has only one address range.
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

/// The completion of a request that no drive can serve.
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
