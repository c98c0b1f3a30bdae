//! A port's lane to one drive: submitted transfers and those in flight, separately for reads and
//! writes.
//!
//! Contract: each direction starts transfers in order of submission, at most [`LANE_DEPTH`] at
//! once. The directions do not wait for each other, because drives serve both at once. Overlapping
//! transfers, one of them a write, keep their order.
//!
//! N.B. Waiting transfers make no progress while the port's owner computes: with at most 8 MiB in
//! flight, views took longer to build (docs/decisions/0016).

use std::sync::Arc;

use super::{Drive, LANE_DEPTH};
use crate::drive::Op;
use crate::drive::queue::{DriveQueue, Policy, Span, TagPool};
use crate::memory::Buf;

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

/// The transfers of a port's owner to one drive.
pub(super) struct Lane {
    pub(super) drive: Arc<Drive>,
    reads: Way,
    writes: Way,
}

impl Lane {
    pub(super) fn new(drive: Arc<Drive>, tags: &LaneTags) -> Self {
        Lane {
            drive,
            reads: way(&tags.reads),
            writes: way(&tags.writes),
        }
    }

    /// Adds a transfer: to its own direction, or to the other if that contains a transfer that it
    /// must not overtake.
    pub(super) fn submit(&mut self, span: Span, buf: Buf, token: u64) {
        let (own, other) = match span.op {
            Op::Read => (&mut self.reads, &mut self.writes),
            Op::Write => (&mut self.writes, &mut self.reads),
        };
        let way = match other.conflicts_with(&span) {
            true => other,
            false => own,
        };
        way.submit(span, (buf, token));
    }

    /// The next transfer that may start.
    pub(super) fn next(&mut self) -> Option<(Span, (Buf, u64))> {
        // Nothing is merged here: each transfer has its own cargo.
        let mut cargo = None;
        let mut take = |one| cargo = Some(one);
        let span = self
            .writes
            .poll(&mut take)
            .or_else(|| self.reads.poll(&mut take))?;
        Some((span, cargo?))
    }

    /// Reports that a transfer is over.
    pub(super) fn finish(&mut self, span: &Span) {
        if !self.writes.finish(span) {
            self.reads.finish(span);
        }
    }

    /// Transfers that have not started.
    pub(super) fn waiting(&self) -> usize {
        self.reads.waiting() + self.writes.waiting()
    }

    /// Transfers in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.reads.in_flight() + self.writes.in_flight()
    }
}

/// One direction of a lane.
type Way = DriveQueue<(Buf, u64)>;

fn way(tags: &Arc<TagPool>) -> Way {
    // N.B. The requests of streams are as long as the drive accepts, and in order, so sorting and
    // merging them would only cost time.
    DriveQueue::new(Policy::AS_IT_COMES, Arc::clone(tags), None)
}
