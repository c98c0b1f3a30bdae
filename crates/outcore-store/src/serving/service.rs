//! Drives served by one thread: pieces of requests go in, merged transfers go out through its ring.
//!
//! Contract: a [`Service`] belongs to the thread that made it, a submitter or a server. Each
//! [`RequestPart`] passed to [`Service::submit`] returns once, from [`Service::poll`] or
//! [`Service::withdraw`], as [`Returned`]. Order, merging and slots are those of [`DriveQueue`],
//! one per drive. An error belongs to the piece it hit: a merged transfer that fails is repeated
//! piece by piece.
//!
//! Bounds: the submitters' marks bound the waiting pieces, and the drives' slots bound those in
//! flight. In the steady state nothing is allocated.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::slab::Slab;
use crate::stripe::StripedDrive;
use outcore_io::drive::queue::{DriveQueue, Span};
use outcore_io::drive::{Completion, Device, IoBuf, Op, Queue, Request, Waker};
use outcore_io::error::Result;
use outcore_io::memory::{Pool, Segment};

/// The owner of a piece; travels with it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The submitter, by its number at the servers.
    pub(crate) client: u32,
    /// Its request.
    pub(crate) parent: u32,
    /// Whether it counts for its request in the drive's back-pressure.
    pub(crate) counts: bool,
}

/// A piece of a request on its way to its drive.
#[derive(Debug)]
pub(crate) struct RequestPart {
    pub(crate) drive_index: usize,
    pub(crate) span: Span,
    pub(crate) ticket: Ticket,
    pub(crate) segment: Segment,
}

/// A returned piece.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) drive_index: usize,
    pub(crate) op: Op,
    /// Offset on the drive.
    pub(crate) offset_bytes: u64,
    pub(crate) ticket: Ticket,
    pub(crate) segment: Segment,
    /// The system's error number, if it failed.
    pub(crate) errno: Option<i32>,
    /// When its transfer started and ended.
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    /// Number of transfers of which it was the first piece.
    pub(crate) transfers: u32,
    /// Transfers that its thread had in flight on the drive just after its own had started.
    pub(crate) depth: u32,
}

/// The data that a drive's queue carries with each piece.
#[derive(Debug)]
struct Cargo {
    ticket: Ticket,
    segment: Segment,
    /// Failed merged transfers of which it was the first piece.
    failed_transfers: u32,
}

/// The data of a transfer in flight, apart from its memory.
struct Group {
    span: Span,
    started_ns: u64,
    depth: u32,
    failed_transfers: u32,
    tickets: Vec<Ticket>,
}

/// See the head of this file.
pub(super) struct Service {
    // Declared first, so dropped first: it waits for the transfers in flight.
    queue: Box<dyn Queue>,
    device: Arc<dyn Device>,
    lanes: Vec<DriveQueue<Cargo>>,
    groups: Slab<Group>,
    /// The drive that the next round begins with.
    first_lane: usize,
    completions: Vec<Completion>,
    // Kept for their capacity.
    spare_segments: Vec<Vec<Segment>>,
    spare_tickets: Vec<Vec<Ticket>>,
}

impl Service {
    /// Serves some of `drives` with at most `depth` transfers in flight.
    pub(super) fn new(
        device: Arc<dyn Device>,
        drives: &[StripedDrive],
        is_merging: bool,
        depth: usize,
    ) -> Result<Self> {
        let lane = |drive: &StripedDrive| {
            DriveQueue::new(
                drive.policy(is_merging),
                Arc::clone(&drive.tags),
                drive.controller_tags.clone(),
            )
        };
        Ok(Service {
            queue: device.queue(depth)?,
            device,
            lanes: drives.iter().map(lane).collect(),
            groups: Slab::new(),
            first_lane: 0,
            completions: Vec::new(),
            spare_segments: Vec::new(),
            spare_tickets: Vec::new(),
        })
    }

    /// As [`Queue::keep`].
    pub(super) fn keep(&mut self, pool: &Pool) {
        self.queue.keep(pool);
    }

    /// Ends a wait in [`Service::poll`] from another thread, if the device supports that.
    pub(super) fn waker(&mut self) -> Option<Waker> {
        self.queue.waker()
    }

    /// Takes a piece; it starts at the next [`Service::start`] or [`Service::poll`] that finds a
    /// slot.
    pub(super) fn submit(&mut self, piece: RequestPart) {
        let cargo = Cargo {
            ticket: piece.ticket,
            segment: piece.segment,
            failed_transfers: 0,
        };
        self.lanes[piece.drive_index].submit(piece.span, cargo);
    }

    /// Whether transfers are in flight.
    pub(super) fn is_flying(&self) -> bool {
        self.queue.in_flight() > 0 || !self.completions.is_empty()
    }

    /// Whether nothing waits and nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_flying() && self.lanes.iter().all(|lane| lane.waiting() == 0)
    }

    /// Moves finished pieces to `returned` and starts those that have waited for them. With `wait`,
    /// blocks until a piece finishes, a slot of a drive is free, or the time is over.
    ///
    /// # Errors
    /// The queue itself failed; faults of transfers belong to their pieces.
    pub(super) fn poll(
        &mut self,
        wait: Option<Duration>,
        returned: &mut Vec<Returned>,
    ) -> Result<()> {
        if let Some(limit) = wait
            && !self.is_flying()
            && let Some(lane) = self.lanes.iter().find(|lane| lane.waiting() > 0)
        {
            // Other threads hold all slots.
            lane.wait_for_tag(limit);
            self.start_now();
            return self.queue.complete(None, &mut self.completions);
        }
        let mut completions = std::mem::take(&mut self.completions);
        let wait = wait.filter(|_| completions.is_empty());
        let mut polled = self.queue.complete(wait, &mut completions);
        if !completions.is_empty() {
            let now_ns = self.device.now_ns();
            for completion in completions.drain(..) {
                self.settle(completion, now_ns, returned);
            }
            if self.start(now_ns) > 0 && polled.is_ok() {
                // Start them now rather than at the next call.
                polled = self.queue.complete(None, &mut completions);
            }
        }
        self.completions = completions;
        polled
    }

    /// Starts the pieces that have a slot.
    pub(super) fn start_now(&mut self) {
        self.start(self.device.now_ns());
    }

    /// Starts the pieces that have a slot; returns how many. Drives are visited in rotation, from
    /// the one after the last that got a slot, so that the drives of one controller get equal
    /// shares of its slots.
    fn start(&mut self, now_ns: u64) -> usize {
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

    /// Returns the pieces that have not started and for which `is_meant` holds, with `ECANCELED`.
    pub(super) fn withdraw(
        &mut self,
        is_meant: impl Fn(&Ticket) -> bool,
        returned: &mut Vec<Returned>,
    ) {
        let now_ns = self.device.now_ns();
        for (drive_index, lane) in self.lanes.iter_mut().enumerate() {
            lane.withdraw(
                |cargo| is_meant(&cargo.ticket),
                |span, cargo| {
                    returned.push(Returned {
                        drive_index,
                        op: span.op,
                        offset_bytes: span.offset_bytes,
                        ticket: cargo.ticket,
                        segment: cargo.segment,
                        errno: Some(Errno::CANCELED.raw_os_error()),
                        started_ns: now_ns,
                        ended_ns: now_ns,
                        transfers: cargo.failed_transfers,
                        depth: 0,
                    });
                },
            );
        }
    }

    /// Starts the next transfer of a drive, if it may.
    fn start_one(&mut self, index: usize, now_ns: u64) -> bool {
        let lane = &mut self.lanes[index];
        if lane.waiting() == 0 {
            return false;
        }
        let mut tickets = self.spare_tickets.pop().unwrap_or_default();
        let mut segments = self.spare_segments.pop().unwrap_or_default();
        let mut failed_transfers = 0;
        let polled = lane.poll(|cargo| {
            failed_transfers += cargo.failed_transfers;
            tickets.push(cargo.ticket);
            segments.push(cargo.segment);
        });
        let Some(span) = polled else {
            self.spare_tickets.push(tickets);
            self.spare_segments.push(segments);
            return false;
        };
        let depth = lane.in_flight() as u32;
        let token = self.groups.insert(Group {
            span,
            started_ns: now_ns,
            depth,
            failed_transfers,
            tickets,
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

    /// Splits a finished transfer into its pieces.
    fn settle(&mut self, completion: Completion, now_ns: u64, returned: &mut Vec<Returned>) {
        let Completion { request, result } = completion;
        let IoBuf::Pieces(mut segments) = request.buf else {
            unreachable!("all transfers of a service are in pieces");
        };
        let Some(mut group) = self.groups.remove(request.token as u32) else {
            unreachable!("a transfer is in the table until it is over");
        };
        let drive_index = request.drive_index;
        let lane = &mut self.lanes[drive_index];
        lane.finish(&group.span);
        // A transfer that stops short without an error number has reached the end of the medium.
        let end_errno = match request.op {
            Op::Read => Errno::IO,
            Op::Write => Errno::NOSPC,
        };
        let errno = match result {
            Ok(bytes) if bytes < group.span.len_bytes => Some(end_errno.raw_os_error()),
            other => other.err(),
        };
        if errno.is_some() && segments.len() > 1 {
            // It is unknown which piece failed, so each is repeated alone, the first one first.
            let mut at_bytes = group.span.offset_bytes + group.span.len_bytes as u64;
            while let (Some(segment), Some(ticket)) = (segments.pop(), group.tickets.pop()) {
                at_bytes -= segment.len() as u64;
                let span = Span {
                    offset_bytes: at_bytes,
                    len_bytes: segment.len(),
                    ..group.span
                };
                let failed_transfers = match segments.is_empty() {
                    true => group.failed_transfers + 1,
                    false => 0,
                };
                lane.submit_alone(
                    span,
                    Cargo {
                        ticket,
                        segment,
                        failed_transfers,
                    },
                );
            }
        } else {
            let mut offset_bytes = group.span.offset_bytes;
            let mut transfers = group.failed_transfers + 1;
            for (segment, ticket) in segments.drain(..).zip(group.tickets.drain(..)) {
                let len_bytes = segment.len() as u64;
                returned.push(Returned {
                    drive_index,
                    op: request.op,
                    offset_bytes,
                    ticket,
                    segment,
                    errno,
                    started_ns: group.started_ns,
                    ended_ns: now_ns,
                    transfers: std::mem::take(&mut transfers),
                    depth: group.depth,
                });
                offset_bytes += len_bytes;
            }
        }
        self.spare_segments.push(segments);
        self.spare_tickets.push(group.tickets);
    }
}
