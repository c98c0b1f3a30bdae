//! Queue pairs and the link, from the host's doorbell to the completion entry.
//!
//! Model: NVMe over PCIe as in MQSim: doorbell (2 bytes), fetch of the 72-byte submission entry,
//! data by DMA, 16-byte completion entry, doorbell. The link is two first-in-first-out servers, one
//! per direction. A queue pair holds at most `queue_entries - 1` commands; the drive holds at most
//! `fetch_depth` of them at a time. Further requests wait at the host, and their wait counts only
//! in the end-to-end time.
//!
//! Invariant: a request is in exactly one place: waiting at the host, in the submission queue, or
//! inside the drive. Memory: 16 bytes per message under way.

use std::collections::VecDeque;

use super::params::{Params, SECTOR_BYTES};
use super::types::{Kind, NONE, Req, Source, Tr};
use super::{Done, Drive, Host, Op, QueueConfig, Status, event_kind};
use crate::event::ring::Ring;
use crate::quantities::Ps;

const DOORBELL_BYTES: u64 = 2;
const SUBMISSION_BYTES: u64 = 72;
const COMPLETION_BYTES: u64 = 16;
/// Bytes of SATA frames: command, transfer set-up, completion (set device bits).
const SATA_COMMAND_BYTES: u64 = 20;
const SATA_SETUP_BYTES: u64 = 28;
const SATA_COMPLETION_BYTES: u64 = 8;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Message {
    /// To the drive: the submission queue has a new tail.
    SubmissionDoorbell { queue: u16, tail: u32 },
    /// To the drive: the host has taken completions.
    CompletionDoorbell { queue: u16, head: u32 },
    /// To the drive: a submission entry.
    Submission { req: u32 },
    /// To the drive: data to write.
    WriteData { req: u32 },
    /// To the host: send the submission entry.
    FetchSubmission { req: u32 },
    /// To the host: send the data of a write.
    FetchData { req: u32 },
    /// To the host: data that was read.
    #[default]
    ReadData,
    /// To the host: a request is finished.
    Completion { req: u32, submission_head: u32 },
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flight {
    pub(super) message: Message,
    pub(super) ps: Ps,
}

/// The two directions of the link.
#[derive(Debug, Clone)]
pub(super) struct Link {
    to_host: Ring<Flight>,
    pub(super) to_drive: Ring<Flight>,
    doorbell_ps: Ps,
    pub(super) submission_ps: Ps,
    completion_ps: Ps,
    request_ps: Ps,
    /// Bytes and time of the last data transfer.
    last_data: (u64, Ps),
    /// The link carries one direction at a time (SATA), so all messages go through `to_drive`.
    one_way: bool,
    /// Time at which the firmware can start the next command.
    firmware_free_at: Ps,
}

impl Link {
    pub(super) fn new(p: &Params) -> Self {
        Link {
            to_host: Ring::default(),
            to_drive: Ring::default(),
            doorbell_ps: p.link_ps(DOORBELL_BYTES),
            submission_ps: if p.sata {
                p.sata_ps(SATA_COMMAND_BYTES)
            } else {
                p.link_ps(SUBMISSION_BYTES)
            },
            completion_ps: if p.sata {
                p.sata_ps(SATA_COMPLETION_BYTES)
            } else {
                p.link_ps(COMPLETION_BYTES)
            },
            request_ps: if p.sata {
                p.sata_ps(SATA_SETUP_BYTES)
            } else {
                p.link_request_ps()
            },
            last_data: (0, 0),
            one_way: p.sata,
            firmware_free_at: 0,
        }
    }
}

/// Both ends of one submission and completion queue.
#[derive(Debug, Clone)]
pub(super) struct QueuePair {
    pub(super) first_sector: u64,
    pub(super) last_sector: u64,
    pub(super) class: u8,
    pub(super) caching: super::Caching,
    /// Its writes to zones are appends.
    pub(super) appends: bool,
    ring: Vec<u32>,
    commands_max: u32,
    // The host's view.
    submission_head: u32,
    submission_tail: u32,
    completion_head: u32,
    outstanding: u32,
    waiting: VecDeque<u32>,
    // The drive's view.
    fetched: u32,
    known_tail: u32,
    informed_head: u32,
    in_drive: u32,
    completion_tail: u32,
    known_completion_head: u32,
    unsent: VecDeque<u32>,
}

pub(super) fn queue_pairs(
    p: &Params,
    queues: &[QueueConfig],
    map: &super::map::Mapping,
) -> Vec<QueuePair> {
    let mut out = Vec::with_capacity(queues.len());
    for (at, queue) in queues.iter().enumerate() {
        let first = map.first_sector(at as u16);
        let range = map.range_sectors(at as u16);
        let share = queue.working_set.clamp(0.0, 1.0);
        let last = (range.saturating_sub(1) as f64 * share) as u64;
        out.push(QueuePair {
            first_sector: first,
            last_sector: first + last,
            class: queue.class.min(3),
            caching: queue.caching,
            appends: queue.append,
            ring: vec![NONE; p.queue_entries as usize],
            commands_max: p.commands_max,
            submission_head: 0,
            submission_tail: 0,
            completion_head: 0,
            outstanding: 0,
            waiting: VecDeque::new(),
            fetched: 0,
            known_tail: 0,
            informed_head: 0,
            in_drive: 0,
            completion_tail: 0,
            known_completion_head: 0,
            unsent: VecDeque::new(),
        });
    }
    out
}

impl QueuePair {
    #[inline]
    fn full(&self) -> bool {
        let next = self.wrap(self.submission_tail + 1);
        next == self.submission_head || self.outstanding >= self.commands_max
    }

    #[inline]
    fn wrap(&self, at: u32) -> u32 {
        if at == self.ring.len() as u32 { 0 } else { at }
    }

    /// The host pushes a command, which is in the drive as soon as it is sent.
    pub(super) fn push_command(&mut self, req: u32) {
        self.ring[self.submission_tail as usize] = req;
        self.submission_tail = self.wrap(self.submission_tail + 1);
        self.known_tail = self.submission_tail;
        self.fetched = self.submission_tail;
        self.outstanding += 1;
        self.in_drive += 1;
    }

    /// The host has taken a completion and does not need to report it.
    pub(super) fn take_completion(&mut self) {
        self.completion_head = self.wrap(self.completion_head + 1);
        self.known_completion_head = self.completion_head;
    }

    fn completion_full(&self) -> bool {
        self.wrap(self.completion_tail + 1) == self.known_completion_head
    }
}

impl Drive {
    /// Submits a request at the drive's current time. `arrival` is when the host issued it and
    /// starts the end-to-end time; [`Done`] returns `tag`.
    pub fn submit(&mut self, queue: u16, op: Op, lba: u64, sectors: u32, arrival: Ps, tag: u64) {
        let req = self.reqs.put(Req {
            arrival,
            enqueued: self.now,
            lba,
            tag,
            sectors,
            cache_sectors: 0,
            open: 0,
            first: NONE,
            queue,
            op,
            status: Status::Success,
            lost: false,
        });
        self.stats.submitted += 1;
        self.end_idle_time();
        let first = self.map.first_sector(queue);
        self.map
            .prefetch_slot(&self.p, queue, lba.wrapping_sub(first));
        let bytes = u64::from(sectors) * u64::from(SECTOR_BYTES);
        let admitted = match op {
            Op::Read => self.throttle.read.admit(self.now, bytes),
            Op::Write => self.throttle.write.admit(self.now, bytes),
            Op::Trim => self.now,
        };
        if admitted > self.now {
            self.schedule(admitted, event_kind::ADMIT, req);
        } else {
            self.admit_request(req);
        }
    }

    /// The throttle passes a request to the drive. Its time in the drive starts at its submission.
    pub(super) fn admit_request(&mut self, req: u32) {
        let pair = &mut self.queues[usize::from(self.reqs[req].queue)];
        if pair.full() {
            pair.waiting.push_back(req);
        } else {
            self.enqueue(req);
        }
    }

    /// A request that waited for a free entry of its queue gets one.
    fn enqueue_waiting(&mut self, req: u32) {
        self.reqs[req].enqueued = self.now;
        self.enqueue(req);
    }

    fn enqueue(&mut self, req: u32) {
        if self.link.one_way {
            self.enqueue_sata(req);
            return;
        }
        let queue = self.reqs[req].queue;
        let pair = &mut self.queues[usize::from(queue)];
        pair.ring[pair.submission_tail as usize] = req;
        pair.submission_tail = pair.wrap(pair.submission_tail + 1);
        pair.outstanding += 1;
        let tail = pair.submission_tail;
        let ps = self.link.doorbell_ps;
        self.send_to_drive(Message::SubmissionDoorbell { queue, tail }, ps);
    }

    #[inline]
    fn send_to_drive(&mut self, message: Message, ps: Ps) {
        self.link.to_drive.push_back(Flight { message, ps });
        self.stats.link_to_drive_ps += ps;
        if self.link.to_drive.len() == 1 {
            self.schedule_link(self.now + ps, event_kind::TO_DRIVE);
        }
    }

    #[inline]
    fn send_to_host(&mut self, message: Message, ps: Ps) {
        if self.link.one_way {
            self.stats.link_to_host_ps += ps;
            self.send_either_way(message, ps);
            return;
        }
        self.link.to_host.push_back(Flight { message, ps });
        self.stats.link_to_host_ps += ps;
        if self.link.to_host.len() == 1 {
            self.schedule_link(self.now + ps, event_kind::TO_HOST);
        }
    }

    pub(super) fn deliver_to_drive<H: Host>(&mut self, host: &mut H) {
        if self.link.one_way {
            self.deliver_either_way(host);
            return;
        }
        let Some(flight) = self.link.to_drive.pop_front() else {
            return;
        };
        self.received_by_drive(flight.message);
        if let Some(next) = self.link.to_drive.front() {
            self.schedule_link(self.now + next.ps, event_kind::TO_DRIVE);
        }
    }

    #[inline]
    pub(super) fn received_by_drive(&mut self, message: Message) {
        match message {
            Message::SubmissionDoorbell { queue, tail } => {
                let fetch_depth = self.p.fetch_depth;
                let pair = &mut self.queues[usize::from(queue)];
                pair.known_tail = tail;
                if pair.in_drive < fetch_depth {
                    self.fetch(queue);
                }
            }
            Message::CompletionDoorbell { queue, head } => {
                let pair = &mut self.queues[usize::from(queue)];
                pair.known_completion_head = head;
                if let Some(req) = pair.unsent.pop_front() {
                    self.send_completion(req);
                }
            }
            Message::Submission { req } => self.submission_arrived(req),
            Message::WriteData { req } => self.start_after_overhead(req),
            _ => {}
        }
    }

    fn fetch(&mut self, queue: u16) {
        let ps = self.link.request_ps;
        let pair = &mut self.queues[usize::from(queue)];
        let req = pair.ring[pair.fetched as usize];
        pair.in_drive += 1;
        pair.fetched = pair.wrap(pair.fetched + 1);
        self.send_to_host(Message::FetchSubmission { req }, ps);
    }

    fn submission_arrived(&mut self, req: u32) {
        let Req { queue, op, .. } = self.reqs[req];
        let pair = &mut self.queues[usize::from(queue)];
        pair.informed_head = pair.wrap(pair.informed_head + 1);
        if op == Op::Write {
            let ps = self.link.request_ps;
            self.send_to_host(Message::FetchData { req }, ps);
        } else {
            self.start_after_overhead(req);
        }
    }

    fn start_after_overhead(&mut self, req: u32) {
        if self.p.command_overhead == 0 && self.p.command_interval == 0 {
            self.start_request(req);
            return;
        }
        let start = self.now.max(self.link.firmware_free_at);
        self.link.firmware_free_at = start + self.p.command_interval;
        self.schedule(start + self.p.command_overhead, event_kind::START, req);
    }

    /// The drive has everything that the request needs, so it splits the request and passes it to
    /// the cache.
    pub(super) fn start_request(&mut self, req: u32) {
        if self.zones.exist()
            && self.reqs[req].op != Op::Read
            && self.is_zoned(self.reqs[req].queue)
        {
            self.zoned_request(req);
            return;
        }
        if self.reqs[req].op == Op::Trim {
            self.trim(req);
            self.request_served(req);
            return;
        }
        self.split(req);
        self.cache_request(req);
    }

    pub(super) fn deliver_to_host<H: Host>(&mut self, host: &mut H) {
        let Some(flight) = self.link.to_host.pop_front() else {
            return;
        };
        self.received_by_host(flight.message, host);
        if let Some(next) = self.link.to_host.front() {
            self.schedule_link(self.now + next.ps, event_kind::TO_HOST);
        }
    }

    #[inline]
    pub(super) fn received_by_host<H: Host>(&mut self, message: Message, host: &mut H) {
        match message {
            Message::FetchSubmission { req } => {
                let ps = self.link.submission_ps;
                self.send_to_drive(Message::Submission { req }, ps);
            }
            Message::FetchData { req } => {
                let bytes = u64::from(self.reqs[req].sectors) * u64::from(SECTOR_BYTES);
                self.stats.link_bytes += bytes;
                let ps = self.data_ps(bytes);
                self.send_to_drive(Message::WriteData { req }, ps);
            }
            Message::Completion {
                req,
                submission_head,
            } => {
                self.complete(host, req, submission_head);
            }
            _ => {}
        }
    }

    fn complete<H: Host>(&mut self, host: &mut H, req: u32, submission_head: u32) {
        let Req {
            queue,
            op,
            status,
            lba,
            sectors,
            arrival,
            enqueued,
            tag,
            open,
            cache_sectors,
            ..
        } = self.reqs[req];
        assert!(
            open == 0 && cache_sectors == 0,
            "a finished request has open operations"
        );
        self.reqs.drop_at(req);
        self.stats.completed += 1;
        self.begin_idle_time();
        let pair = &mut self.queues[usize::from(queue)];
        pair.outstanding -= 1;
        pair.submission_head = submission_head;
        loop {
            let pair = &mut self.queues[usize::from(queue)];
            if pair.waiting.is_empty() || pair.full() {
                break;
            }
            let Some(next) = pair.waiting.pop_front() else {
                break;
            };
            self.enqueue_waiting(next);
        }
        if self.link.one_way {
            self.queues[usize::from(queue)].take_completion();
        } else {
            self.ring_completion(queue);
        }
        let completed = self.now;
        host.completed(
            self,
            Done {
                tag,
                queue,
                op,
                status,
                lba,
                sectors,
                arrival,
                enqueued,
                completed,
            },
        );
    }

    /// Tells the drive that the host has taken a completion.
    fn ring_completion(&mut self, queue: u16) {
        let pair = &mut self.queues[usize::from(queue)];
        pair.completion_head = pair.wrap(pair.completion_head + 1);
        let head = pair.completion_head;
        let ps = self.link.doorbell_ps;
        self.send_to_drive(Message::CompletionDoorbell { queue, head }, ps);
    }

    /// The drive has finished its part of `req`: it sends data and completion, and fetches the next
    /// command.
    pub(super) fn request_served(&mut self, req: u32) {
        let Req {
            queue, op, sectors, ..
        } = self.reqs[req];
        self.queues[usize::from(queue)].in_drive -= 1;
        if op == Op::Read {
            let bytes = u64::from(sectors) * u64::from(SECTOR_BYTES);
            self.stats.link_bytes += bytes;
            let ps = if self.link.one_way {
                self.link.request_ps + self.data_ps(bytes)
            } else {
                self.data_ps(bytes)
            };
            self.send_to_host(Message::ReadData, ps);
        }
        let pair = &self.queues[usize::from(queue)];
        if pair.fetched != pair.known_tail {
            self.fetch(queue);
        }
        let pair = &mut self.queues[usize::from(queue)];
        if pair.completion_full() {
            pair.unsent.push_back(req);
        } else {
            self.send_completion(req);
        }
    }

    fn send_completion(&mut self, req: u32) {
        let queue = self.reqs[req].queue;
        let ps = self.link.completion_ps;
        let pair = &mut self.queues[usize::from(queue)];
        pair.completion_tail = pair.wrap(pair.completion_tail + 1);
        let submission_head = pair.informed_head;
        self.send_to_host(
            Message::Completion {
                req,
                submission_head,
            },
            ps,
        );
    }

    /// Time of `bytes` of data over the link. Most transfers are as long as the one before, so the
    /// last result is kept to avoid the division.
    #[inline]
    fn data_ps(&mut self, bytes: u64) -> Ps {
        if self.link.last_data.0 != bytes {
            let ps = if self.p.sata {
                self.p.sata_data_ps(bytes)
            } else {
                self.p.link_ps(bytes)
            };
            self.link.last_data = (bytes, ps);
        }
        self.link.last_data.1
    }

    /// Splits a request at the borders of mapping units.
    pub(super) fn split(&mut self, req: u32) {
        let Req {
            queue,
            op,
            lba,
            sectors,
            ..
        } = self.reqs[req];
        let pair = &self.queues[usize::from(queue)];
        let (first, last, class) = (pair.first_sector, pair.last_sector, pair.class);
        let (base, origin) = (self.map.base(queue), self.map.first_sector(queue));
        let per_unit = u64::from(self.p.unit_sectors);
        let kind = if op == Op::Read {
            Kind::Read
        } else {
            Kind::Program
        };
        let mut lsa = lba;
        if self.p.compat {
            // MQSim joins the halves of the address with a shift that is one bit short.
            lsa = (lba >> 32) << 31 | (lba & 0xffff_ffff);
        }
        let mut rest = u64::from(sectors);
        let mut previous = NONE;
        while rest > 0 {
            if lsa < first || lsa > last {
                lsa = first + lsa % (last - first).max(1);
            }
            let inside = lsa - origin;
            let (unit, within) = self.p.unit_of_sector(inside);
            let at = if self.p.compat {
                self.p.unit_of_sector(lsa).1
            } else {
                within
            };
            let count = (per_unit - at).min(rest);
            let mask = if count >= 64 {
                u64::MAX
            } else {
                (1 << count) - 1
            };
            let tr = self.trs.put(Tr {
                lpa: base + unit as u32,
                bitmap: mask << within,
                bytes: count as u32 * SECTOR_BYTES,
                req,
                stamp: self.now,
                ..Tr::new(kind, Source::User, queue, class)
            });
            if previous == NONE {
                self.reqs[req].first = tr;
            } else {
                self.trs[previous].sibling = tr;
            }
            previous = tr;
            self.reqs[req].open += 1;
            lsa += count;
            rest -= count;
        }
    }
}
