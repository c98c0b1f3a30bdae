//! Batches over many drives: one thread hands requests to a volume, each drive is served on its own.
//!
//! Contract: a [`Submitter`] takes requests in batches ([`Submitter::submit`]), maps and splits them at
//! stripe borders, sorts the pieces into a list a drive, and hands each list over once. It moves
//! completions out by [`Submitter::poll`]. It belongs to one thread: what it submits, it completes, on
//! its own ring, so no thread is woken for another's I/O; at depth 1 a request costs one system call.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017): batch per volume, serve per drive. Merging, order and
//! slots are those of [`DriveQueue`]. N.B. no drive is served by a thread of its own: see
//! docs/decisions/0007.
//!
//! Back-pressure counts per drive: from [`BackPressure::high`](super::striped::BackPressure) requests
//! on, those that touch the drive stay in the batch, until it is down to `low`; the others go on. What
//! follows right behind the request before it, and can be one transfer with it, counts once with that
//! one: else small stripes would fill a drive's mark with the pieces of a single transfer, and leave
//! its slots empty. The volume as a whole has a pair of marks too. An error belongs to the request it
//! hit: a merged transfer that fails is done again piece by piece.
//!
//! Bounds: requests in flight by the volume's mark, pieces by the requests' length; buffers are the
//! caller's and come back with the completion. In the steady state nothing is allocated.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::TransferFault;
use super::mapping::Piece;
use super::slab::Slab;
use super::striped::{BackPressure, Shared};
use crate::drive::queue::{Class, DriveQueue, Latencies, Span};
use crate::drive::{Completion, FileId, IoBuf, Op, Queue, Request};
use crate::error::Result;
use crate::memory::{Buf, Loan, Pool, Segment};

/// Lengths and offsets are multiples of it; direct I/O may ask for more (4 KiB always do).
pub const SECTOR_BYTES: u64 = 512;

/// One read or write of a volume.
#[derive(Debug)]
pub struct VolumeRequest {
    /// Handed back untouched.
    pub token: u64,
    /// Direction.
    pub op: Op,
    /// Who goes first.
    pub class: Class,
    /// Where in the volume; a multiple of [`SECTOR_BYTES`].
    pub offset_bytes: u64,
    /// The memory, whole; its length is that of the request, a multiple of [`SECTOR_BYTES`].
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
    /// What failed first, if something did: nothing can be said then of the buffer's bytes, or of the
    /// volume's at its place.
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

/// What one submitter saw of one drive.
#[derive(Debug, Clone, Default)]
pub struct DriveMeter {
    /// From submission of a request to the start of the transfer of each of its pieces.
    pub stack: Latencies,
    /// From the start of a transfer to its end.
    pub device: Latencies,
    /// Pieces of requests, before merging.
    pub pieces: u64,
    /// Transfers that the drive was given.
    pub transfers: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Most transfers in flight at once.
    pub depth_max: usize,
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

/// A piece of a request, waiting for its drive or in flight.
#[derive(Debug)]
struct Cargo {
    parent: u32,
    /// Whether it stands for its request in the drive's back-pressure.
    counts: bool,
    segment: Segment,
}

/// What a transfer in flight carries beside its memory.
struct Group {
    span: Span,
    started_ns: u64,
    /// Of each piece: its request, and whether it counts.
    owners: Vec<(u32, bool)>,
}

struct Lane {
    queue: DriveQueue<Cargo>,
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

impl Lane {
    /// Whether `span` can go out in one transfer with what came before it, of at most `bytes_max`.
    fn continues(&mut self, span: Span, bytes_max: usize) -> bool {
        let run = &mut self.run;
        let is_next = run.op == span.op
            && run.class == span.class
            && run.offset_bytes + run.len_bytes as u64 == span.offset_bytes
            && run.len_bytes + span.len_bytes <= bytes_max;
        // What is over is no run any more.
        if is_next && self.pending > 0 {
            run.len_bytes += span.len_bytes;
            return true;
        }
        *run = span;
        false
    }
}

/// One thread's access to a [`StripedVolume`](super::striped::StripedVolume).
pub struct Submitter {
    // Declared first: it is dropped first, and waits for the transfers whose memory the parents hold.
    queue: Box<dyn Queue>,
    lanes: Vec<Lane>,
    parents: Slab<Parent>,
    groups: Slab<Group>,
    shared: Arc<Shared>,
    pressure: BackPressure,
    is_full: bool,
    requests_seen: u64,
    /// Drive that is looked at first.
    first_lane: usize,
    completions: Vec<Completion>,
    ready: Vec<VolumeCompletion>,
    // Kept for their capacity.
    pieces: Vec<Piece>,
    cargo: Vec<Cargo>,
    refused: Vec<VolumeRequest>,
    spare_segments: Vec<Vec<Segment>>,
    spare_owners: Vec<Vec<(u32, bool)>>,
}

impl Submitter {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self> {
        let options = &shared.options;
        let depth: usize = shared.drives.iter().map(|drive| drive.tags.limit()).sum();
        let lane = |drive: &super::striped::StripedDrive| Lane {
            queue: DriveQueue::new(
                drive.policy(options.is_merging),
                Arc::clone(&drive.tags),
                drive.controller_tags.clone(),
            ),
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
        Ok(Submitter {
            queue: shared.device.queue(depth)?,
            lanes: shared.drives.iter().map(lane).collect(),
            parents: Slab::new(),
            groups: Slab::new(),
            pressure: options.volume_pressure.unwrap_or(BackPressure {
                high: 32 * shared.drives.len(),
                low: 16 * shared.drives.len(),
            }),
            shared,
            is_full: false,
            requests_seen: 0,
            first_lane: 0,
            completions: Vec::new(),
            ready: Vec::new(),
            pieces: Vec::new(),
            cargo: Vec::new(),
            refused: Vec::new(),
            spare_segments: Vec::new(),
            spare_owners: Vec::new(),
        })
    }

    /// Takes what it can of `batch`, in order, and leaves in it the requests whose drives would block.
    /// Nothing is waited for. A request outside the volume, or not aligned, completes with `EINVAL`.
    pub fn submit(&mut self, batch: &mut Vec<VolumeRequest>) -> Accepted {
        let now_ns = self.shared.device.now_ns();
        let mut accepted = Accepted::default();
        for request in batch.drain(..) {
            match self.take(request, now_ns) {
                None => accepted.taken += 1,
                Some(request) => self.refused.push(request),
            }
        }
        accepted.refused = self.refused.len();
        std::mem::swap(batch, &mut self.refused);
        self.start_transfers(now_ns);
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
            self.poll(Some(super::WAIT_MAX), done)?;
        }
        Ok(())
    }

    /// Moves what has finished to `done` and starts what has waited for it. With `wait`, blocks until
    /// something has finished or the time is over; returns at once when nothing is in flight.
    ///
    /// # Errors
    /// The queue itself fails; faults of transfers are those of their requests.
    pub fn poll(&mut self, wait: Option<Duration>, done: &mut Vec<VolumeCompletion>) -> Result<()> {
        let wait = wait.filter(|_| self.ready.is_empty());
        done.append(&mut self.ready);
        if let Some(limit) = wait
            && self.queue.in_flight() == 0
            && self.completions.is_empty()
            && self.parents.len() > 0
        {
            // All slots are with other submitters.
            if let Some(lane) = self.lanes.iter().find(|lane| lane.queue.waiting() > 0) {
                lane.queue.wait_for_tag(limit);
            }
            self.start_transfers(self.shared.device.now_ns());
            return self.queue.complete(None, &mut self.completions);
        }
        let mut completions = std::mem::take(&mut self.completions);
        let wait = wait.filter(|_| completions.is_empty());
        let mut polled = self.queue.complete(wait, &mut completions);
        if !completions.is_empty() {
            let now_ns = self.shared.device.now_ns();
            for completion in completions.drain(..) {
                self.settle(completion, now_ns);
            }
            done.append(&mut self.ready);
            if self.start_transfers(now_ns) > 0 && polled.is_ok() {
                // Start them now rather than at the next visit.
                polled = self.queue.complete(None, &mut completions);
            }
        }
        self.completions = completions;
        polled
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// As [`Submitter::poll`].
    pub fn drain(&mut self, done: &mut Vec<VolumeCompletion>) -> Result<()> {
        while self.in_flight() > 0 {
            self.poll(Some(super::WAIT_MAX), done)?;
        }
        Ok(())
    }

    /// Says that buffers of `pool` will be handed in over and over; see [`Queue::keep`].
    pub fn keep(&mut self, pool: &Pool) {
        self.queue.keep(pool);
    }

    /// Requests taken and not yet returned.
    pub fn in_flight(&self) -> usize {
        self.parents.len() + self.ready.len()
    }

    /// Requests that touch a drive and are not over; what can be one transfer counts once.
    pub fn pending(&self, drive_index: usize) -> usize {
        self.lanes.get(drive_index).map_or(0, |lane| lane.pending)
    }

    /// Whether a request that touches the drive would be refused now.
    pub fn would_block(&self, drive_index: usize) -> bool {
        self.is_full || self.lanes.get(drive_index).is_some_and(|lane| lane.is_full)
    }

    /// What it has seen of each drive since the last [`Submitter::reset_meters`].
    pub fn meters(&self) -> impl ExactSizeIterator<Item = &DriveMeter> {
        self.lanes.iter().map(|lane| &lane.meter)
    }

    /// Forgets what it has seen so far.
    pub fn reset_meters(&mut self) {
        for lane in &mut self.lanes {
            lane.meter = DriveMeter::default();
        }
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
            lane.queue.submit(
                span,
                Cargo {
                    parent,
                    counts,
                    segment: loan.carve(piece.len_bytes),
                },
            );
        }
        self.is_full |= self.parents.len() >= self.pressure.high;
        None
    }

    /// Starts what has a slot; how many. The drives take turns, from the one behind the last that got
    /// a slot, so that those of one controller get equal shares of its slots.
    fn start_transfers(&mut self, now_ns: u64) -> usize {
        let lanes = self.lanes.len();
        let mut started = 0;
        let mut idle = 0;
        let mut index = self.first_lane;
        while idle < lanes {
            if self.start_one(index, now_ns) {
                started += 1;
                idle = 0;
                self.first_lane = (index + 1) % lanes;
            } else {
                idle += 1;
            }
            index = (index + 1) % lanes;
        }
        started
    }

    /// Starts the next transfer of a drive, if it may.
    fn start_one(&mut self, index: usize, now_ns: u64) -> bool {
        let lane = &mut self.lanes[index];
        if lane.queue.waiting() == 0 {
            return false;
        }
        let Some(span) = lane.queue.poll(&mut self.cargo) else {
            return false;
        };
        let mut owners = self.spare_owners.pop().unwrap_or_default();
        let mut segments = self.spare_segments.pop().unwrap_or_default();
        lane.meter.transfers += 1;
        lane.meter.pieces += self.cargo.len() as u64;
        lane.meter.depth_max = lane.meter.depth_max.max(lane.queue.in_flight());
        for cargo in self.cargo.drain(..) {
            if let Some(parent) = self.parents.get_mut(cargo.parent) {
                let waited_ns = now_ns.saturating_sub(parent.submitted_ns);
                lane.meter.stack.record(waited_ns);
            }
            owners.push((cargo.parent, cargo.counts));
            segments.push(cargo.segment);
        }
        let token = self.groups.insert(Group {
            span,
            started_ns: now_ns,
            owners,
        });
        self.queue.submit(Request {
            token: u64::from(token),
            op: span.op,
            file: span.file,
            drive_index: index,
            offset_bytes: span.offset_bytes,
            buf: IoBuf::Pieces(segments),
        });
        true
    }

    /// Hands the pieces of a finished transfer back to their requests.
    fn settle(&mut self, completion: Completion, now_ns: u64) {
        let Completion { request, result } = completion;
        let IoBuf::Pieces(mut segments) = request.buf else {
            unreachable!("all transfers of a submitter are in pieces");
        };
        let Some(mut group) = self.groups.remove(request.token as u32) else {
            unreachable!("a transfer is in the table until it is over");
        };
        let drive_index = request.drive_index;
        let lane = &mut self.lanes[drive_index];
        lane.queue.finish(&group.span);
        lane.meter
            .device
            .record(now_ns.saturating_sub(group.started_ns));
        // A transfer that stops short without an error number has met the end of the medium.
        let end_errno = match request.op {
            Op::Read => Errno::IO,
            Op::Write => Errno::NOSPC,
        };
        let result = match result {
            Ok(bytes) if bytes < group.span.len_bytes => Err(end_errno.raw_os_error()),
            other => other,
        };
        if result.is_err() && segments.len() > 1 {
            // Which of them failed? Each for itself, the first one first.
            let mut at_bytes = group.span.offset_bytes + group.span.len_bytes as u64;
            while let (Some(segment), Some((parent, counts))) = (segments.pop(), group.owners.pop())
            {
                at_bytes -= segment.len() as u64;
                let span = Span {
                    offset_bytes: at_bytes,
                    len_bytes: segment.len(),
                    ..group.span
                };
                lane.queue.submit_alone(
                    span,
                    Cargo {
                        parent,
                        counts,
                        segment,
                    },
                );
            }
        } else {
            match request.op {
                Op::Read => lane.meter.read_bytes += group.span.len_bytes as u64,
                Op::Write => lane.meter.written_bytes += group.span.len_bytes as u64,
            }
            let fault = result.err().map(|errno| TransferFault {
                op: request.op,
                file: request.file,
                drive_index,
                offset_bytes: request.offset_bytes,
                errno,
            });
            for (segment, (parent, counts)) in segments.drain(..).zip(group.owners.drain(..)) {
                let lane = &mut self.lanes[drive_index];
                lane.pending -= usize::from(counts);
                lane.is_full &= lane.pending > self.shared.options.drive_pressure.low;
                self.give_back(parent, segment, fault, now_ns);
            }
        }
        self.spare_segments.push(segments);
        self.spare_owners.push(group.owners);
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
