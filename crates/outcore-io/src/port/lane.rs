//! A port's lane to one drive: what its owner has handed in and what of it is in flight, reads and writes each by
//! themselves.
//!
//! Contract: each direction starts what was handed in first, at most [`LANE_DEPTH`] at once and none while its bytes in
//! flight are [`LANE_BYTES`] or more, so that one transfer may always start. Directions do not wait for each other: drives
//! serve both at once. Transfers that meet in the same bytes, one of them a write, keep their order.

use std::sync::Arc;

use super::{Drive, LANE_DEPTH};
use crate::drive::Op;
use crate::drive::queue::{DriveQueue, Policy, Span, TagPool};
use crate::memory::Buf;

/// Bytes of reads, or of writes, with which a drive has enough to do.
/// N.B. where the reads of a whole bucket were started at once, the writes of others stood behind them.
pub(super) const LANE_BYTES: usize = 8 << 20;

/// Slots of a lane.
pub(super) struct LaneTags {
    reads: Arc<TagPool>,
    writes: Arc<TagPool>,
}

impl LaneTags {
    pub(super) fn new() -> Self {
        LaneTags {
            reads: Arc::new(TagPool::new(LANE_DEPTH)),
            writes: Arc::new(TagPool::new(LANE_DEPTH)),
        }
    }
}

/// What a port's owner wants of one drive.
pub(super) struct Lane {
    pub(super) drive: Arc<Drive>,
    pub(super) reads: Way,
    writes: Way,
}

impl Lane {
    pub(super) fn new(drive: Arc<Drive>, tags: &LaneTags) -> Self {
        Lane {
            drive,
            reads: Way::new(Arc::clone(&tags.reads)),
            writes: Way::new(Arc::clone(&tags.writes)),
        }
    }

    /// Takes a transfer in: in its direction, or in the other if something goes there that it must not overtake.
    pub(super) fn submit(&mut self, span: Span, cargo: (Buf, u64)) {
        let (own, other) = match span.op {
            Op::Read => (&mut self.reads, &mut self.writes),
            Op::Write => (&mut self.writes, &mut self.reads),
        };
        let way = match other.queue.conflicts_with(&span) {
            true => other,
            false => own,
        };
        way.queue.submit(span, cargo);
    }

    /// The next transfer that may start.
    pub(super) fn next(&mut self) -> Option<(Span, (Buf, u64))> {
        self.writes.next().or_else(|| self.reads.next())
    }

    /// Says that a transfer is over.
    pub(super) fn finish(&mut self, span: &Span) {
        if !self.writes.finish(span) {
            self.reads.finish(span);
        }
    }

    /// Transfers that have not started.
    pub(super) fn waiting(&self) -> usize {
        self.reads.queue.waiting() + self.writes.queue.waiting()
    }

    /// Transfers that have started and are not over.
    pub(super) fn in_flight(&self) -> usize {
        self.reads.queue.in_flight() + self.writes.queue.in_flight()
    }
}

/// One direction of a lane.
pub(super) struct Way {
    pub(super) queue: DriveQueue<(Buf, u64)>,
    /// Bytes that are in flight.
    started_bytes: usize,
}

impl Way {
    fn new(tags: Arc<TagPool>) -> Self {
        // N.B. the requests of streams are as long as the drive takes them, and in order: sorting and
        // merging them would cost and bring nothing.
        Way {
            queue: DriveQueue::new(Policy::AS_IT_COMES, tags, None),
            started_bytes: 0,
        }
    }

    fn next(&mut self) -> Option<(Span, (Buf, u64))> {
        if self.started_bytes >= LANE_BYTES {
            return None;
        }
        // Nothing is merged here.
        let mut cargo = None;
        let span = self.queue.poll(|one| cargo = Some(one))?;
        self.started_bytes += span.len_bytes;
        Some((span, cargo?))
    }

    /// Whether it was in flight here.
    fn finish(&mut self, span: &Span) -> bool {
        let was_here = self.queue.finish(span);
        if was_here {
            self.started_bytes -= span.len_bytes;
        }
        was_here
    }
}
