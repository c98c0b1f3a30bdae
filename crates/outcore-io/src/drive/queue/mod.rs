//! Serving one drive: what waits for it, in which order it goes out, and what is merged on the way.
//!
//! Contract: a [`DriveQueue`] is a state machine without I/O of its own. Entries go in by
//! [`DriveQueue::submit`], unsorted and in batches; [`DriveQueue::poll`] gives the next transfer
//! that may start, or nothing; [`DriveQueue::finish`] says that one is over. Whoever holds it does
//! the I/O.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017, sections 3.2 and 3.3). What has come in becomes
//! a *run* once the run before it is out: sorted by address if it did not arrive sorted, neighbours
//! of one direction merged into one transfer whoever submitted them, up to [`Policy`]'s cap. An
//! entry thus waits for one run and its own, so nothing starves. A tag (a slot of the drive) is
//! taken when a transfer starts and not before; what finds none waits here and holds up no other
//! drive.
//!
//! Order: of two entries that overlap, one of them a write, the one that came first is over before
//! the other starts. Sorting never changes that (a run with such a pair goes out as it came), nor
//! does a class overtake another over the same bytes. All other entries may finish in any order.
//!
//! Classes: foreground goes before background. Background writes leave a few slots free, so a read
//! finds one at once; among [`FOREGROUND_STREAK_MAX`] foreground transfers one of the background
//! goes.
//!
//! Bounds: what is waiting is bounded by the submitter (see [`crate::port`]), what is in flight by
//! the tags. A poll costs a scan over the transfers in flight, some 128 at most.

mod latency;
mod limits;
mod tags;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use super::{FileId, Op};

pub use latency::Latencies;
pub use limits::{QueueLimits, TAGS_DEFAULT};
pub use tags::TagPool;

/// Foreground transfers in a row while the background waits.
const FOREGROUND_STREAK_MAX: u32 = 64;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// Somebody waits for it.
    #[default]
    Foreground,
    /// It has time: write-back, rebuilding, copying.
    Background,
}

/// How one drive is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Most bytes of a merged transfer; 0 never merges. A longer entry goes out as it is.
    pub merge_bytes_max: usize,
    /// Most entries of a merged transfer.
    pub segments_max: usize,
    /// Slots that background writes leave free.
    pub reserved_slots: usize,
    /// Whether runs are sorted by address; otherwise entries go out as they came.
    pub sorts: bool,
}

impl Policy {
    /// Each entry for itself, in the order of arrival.
    pub const AS_IT_COMES: Policy = Policy {
        merge_bytes_max: 0,
        segments_max: 1,
        reserved_slots: 0,
        sorts: false,
    };
}

/// Where a transfer goes: what is compared, merged and kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Direction.
    pub op: Op,
    /// Who goes first.
    pub class: Class,
    /// File on the drive.
    pub file: FileId,
    /// Where in the file.
    pub offset_bytes: u64,
    /// How long.
    pub len_bytes: usize,
}

impl Span {
    fn end(&self) -> u64 {
        self.offset_bytes + self.len_bytes as u64
    }

    /// Whether the order of the two matters.
    fn conflicts_with(&self, other: &Span) -> bool {
        self.file == other.file
            && self.offset_bytes < other.end()
            && other.offset_bytes < self.end()
            && (self.op == Op::Write || other.op == Op::Write)
    }
}

#[derive(Debug)]
struct Entry<T> {
    span: Span,
    /// Order of arrival.
    number: u64,
    /// Whether it must not be merged.
    is_alone: bool,
    cargo: T,
}

/// What waits for one drive and what it is doing. `T` travels with each entry, untouched.
#[derive(Debug)]
pub struct DriveQueue<T> {
    policy: Policy,
    tags: Arc<TagPool>,
    group_tags: Option<Arc<TagPool>>,
    /// Order of the next arrival; those that go again have the number 0.
    next_number: u64,
    /// What came in since the run was formed.
    incoming: VecDeque<Entry<T>>,
    /// Whether that is ascending and free of overlaps.
    is_ascending: bool,
    /// What goes out now.
    run: VecDeque<Entry<T>>,
    background: VecDeque<Entry<T>>,
    flying: Vec<Span>,
    flying_writes: usize,
    flying_background: usize,
    foreground_streak: u32,
}

impl<T> DriveQueue<T> {
    /// An idle drive. Slots come from `tags`, and from `group_tags` too where a controller's drives
    /// share them.
    pub fn new(policy: Policy, tags: Arc<TagPool>, group_tags: Option<Arc<TagPool>>) -> Self {
        DriveQueue {
            policy,
            tags,
            group_tags,
            next_number: 1,
            incoming: VecDeque::new(),
            is_ascending: true,
            run: VecDeque::new(),
            background: VecDeque::new(),
            flying: Vec::new(),
            flying_writes: 0,
            flying_background: 0,
            foreground_streak: 0,
        }
    }

    /// Entries that wait.
    pub fn waiting(&self) -> usize {
        self.incoming.len() + self.run.len() + self.background.len()
    }

    /// Transfers that have started and are not over.
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Takes an entry in.
    pub fn submit(&mut self, span: Span, cargo: T) {
        let entry = Entry {
            span,
            number: self.next_number,
            is_alone: false,
            cargo,
        };
        self.next_number += 1;
        let behind = |queue: &VecDeque<Entry<T>>| {
            queue
                .iter()
                .any(|waiting| waiting.span.conflicts_with(&span))
        };
        if span.class == Class::Background || behind(&self.background) {
            self.background.push_back(entry);
            return;
        }
        if let Some(last) = self.incoming.back() {
            // What is ascending stays as it came, so overlaps are no matter.
            self.is_ascending &=
                (last.span.file.0, last.span.offset_bytes) <= (span.file.0, span.offset_bytes);
        }
        self.incoming.push_back(entry);
    }

    /// Takes an entry in again that went out merged and failed: it goes next, and alone, so that an
    /// error is that of the entry it belongs to.
    pub fn submit_alone(&mut self, span: Span, cargo: T) {
        self.run.push_front(Entry {
            span,
            number: 0,
            is_alone: true,
            cargo,
        });
    }

    /// Takes back what waits and `is_meant`, each to `take`; the rest keeps its order.
    pub fn withdraw(&mut self, is_meant: impl Fn(&T) -> bool, mut take: impl FnMut(Span, T)) {
        for list in [&mut self.incoming, &mut self.run, &mut self.background] {
            for entry in std::mem::take(list) {
                match is_meant(&entry.cargo) {
                    true => take(entry.span, entry.cargo),
                    false => list.push_back(entry),
                }
            }
        }
    }

    /// The next transfer that may start now; its entries' cargo goes to `take`, in the order of
    /// their places. Nothing if nothing waits, no slot is free, or what is next must wait for
    /// another.
    pub fn poll(&mut self, mut take: impl FnMut(T)) -> Option<Span> {
        if self.run.is_empty() {
            self.form_run();
        }
        if self.is_turn_of_background()
            && let Some(span) = self.start_background(&mut take)
        {
            return Some(span);
        }
        let head = self.run.front()?;
        let (mut merged, is_alone) = (head.span, head.is_alone);
        if self.is_blocked(&merged) || !self.take_tag() {
            return None;
        }
        let mut count = 0;
        while let Some(entry) = self.run.pop_front() {
            take(entry.cargo);
            count += 1;
            match self.run.front() {
                Some(next)
                    if !is_alone && !next.is_alone && self.fits(&merged, &next.span, count) =>
                {
                    merged.len_bytes += next.span.len_bytes;
                }
                _ => break,
            }
        }
        self.foreground_streak += 1;
        self.start(merged);
        Some(merged)
    }

    /// Whether something waits or is in flight that must be over before a transfer of `span`
    /// starts.
    pub(crate) fn conflicts_with(&self, span: &Span) -> bool {
        let waiting = [&self.incoming, &self.run, &self.background];
        let mut waiting = waiting.into_iter().flatten();
        waiting.any(|entry| entry.span.conflicts_with(span))
            || self.flying.iter().any(|flying| flying.conflicts_with(span))
    }

    /// Says that a transfer that [`DriveQueue::poll`] gave is over; its slot is free again. Whether
    /// it was in flight.
    pub fn finish(&mut self, span: &Span) -> bool {
        let Some(index) = self.flying.iter().position(|flying| flying == span) else {
            return false;
        };
        self.flying.swap_remove(index);
        self.flying_writes -= usize::from(span.op == Op::Write);
        self.flying_background -= usize::from(span.class == Class::Background);
        self.tags.put();
        if let Some(group) = &self.group_tags {
            group.put();
        }
        true
    }

    /// Sleeps until a slot may be free that another submitter holds.
    pub fn wait_for_tag(&self, limit: std::time::Duration) {
        match &self.group_tags {
            Some(group) if self.tags.has_free() => group.wait(limit),
            _ => self.tags.wait(limit),
        }
    }

    fn form_run(&mut self) {
        std::mem::swap(&mut self.incoming, &mut self.run);
        if self.policy.sorts && !self.is_ascending {
            let run = self.run.make_contiguous();
            run.sort_unstable_by_key(|entry| {
                (entry.span.file.0, entry.span.offset_bytes, entry.number)
            });
            if self.has_conflicts() {
                let run = self.run.make_contiguous();
                run.sort_unstable_by_key(|entry| entry.number);
            }
        }
        self.is_ascending = true;
    }

    /// Whether two entries of the run, which is sorted, must keep their order.
    fn has_conflicts(&self) -> bool {
        if self.run.iter().all(|entry| entry.span.op == Op::Read) {
            return false;
        }
        let mut reach = (0, 0);
        self.run.iter().any(|entry| {
            let span = &entry.span;
            let overlaps = (span.file.0, span.offset_bytes) < reach;
            reach = reach.max((span.file.0, span.end()));
            overlaps
        })
    }

    fn fits(&self, merged: &Span, next: &Span, count: usize) -> bool {
        next.op == merged.op
            && next.class == merged.class
            && next.file == merged.file
            && next.offset_bytes == merged.end()
            && count < self.policy.segments_max
            && merged.len_bytes + next.len_bytes <= self.policy.merge_bytes_max
            && !self.is_blocked(next)
    }

    fn is_blocked(&self, span: &Span) -> bool {
        (self.flying_writes > 0 || span.op == Op::Write)
            && self.flying.iter().any(|flying| flying.conflicts_with(span))
    }

    fn take_tag(&self) -> bool {
        if !self.tags.take() {
            return false;
        }
        match &self.group_tags {
            Some(group) if !group.take() => {
                self.tags.put();
                false
            }
            _ => true,
        }
    }

    fn start(&mut self, span: Span) {
        self.flying_writes += usize::from(span.op == Op::Write);
        self.flying_background += usize::from(span.class == Class::Background);
        self.flying.push(span);
    }

    /// The background goes when nothing else waits, or has waited long enough and overtakes nothing
    /// over the same bytes.
    fn is_turn_of_background(&self) -> bool {
        let Some(head) = self.background.front() else {
            return false;
        };
        if self.run.is_empty() {
            return true;
        }
        let earlier =
            |entry: &Entry<T>| entry.number < head.number && entry.span.conflicts_with(&head.span);
        self.foreground_streak >= FOREGROUND_STREAK_MAX
            && !self.run.iter().any(earlier)
            && !self.incoming.iter().any(earlier)
    }

    fn start_background(&mut self, take: &mut impl FnMut(T)) -> Option<Span> {
        let head = self.background.front()?.span;
        let limit = self.tags.limit().saturating_sub(self.policy.reserved_slots);
        let may_start = head.op == Op::Read || self.flying_background < limit.max(1);
        if !may_start || self.is_blocked(&head) || !self.take_tag() {
            return None;
        }
        let mut merged = head;
        let mut count = 0;
        while let Some(entry) = self.background.pop_front() {
            take(entry.cargo);
            count += 1;
            match self.background.front() {
                Some(next) if self.fits(&merged, &next.span, count) => {
                    merged.len_bytes += next.span.len_bytes;
                }
                _ => break,
            }
        }
        self.foreground_streak = 0;
        self.start(merged);
        Some(merged)
    }
}
