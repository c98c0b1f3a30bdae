//! Serving one drive: which entries wait, in which order they go out, and which are merged.
//!
//! Contract: a [`DriveQueue`] is a state machine without I/O of its own. The caller adds entries
//! with [`DriveQueue::submit`], unsorted and in batches. [`DriveQueue::poll`] returns the next
//! transfer that may start, if any. [`DriveQueue::finish`] reports that a transfer is over. The
//! caller performs the I/O.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017, sections 3.2 and 3.3). The entries that have arrived
//! become a *run* once the previous run is out. A run is sorted by address if it did not arrive
//! sorted. Adjacent entries of one direction are merged into one transfer, whoever submitted them,
//! up to [`Policy`]'s limit. An entry thus waits for at most one run and its own, so nothing
//! starves. A transfer takes a tag (a slot of the drive) only when it starts. Entries without a
//! free tag wait here and do not delay other drives.
//!
//! Order: if two entries overlap and one of them is a write, the first one is over before the
//! second starts. Sorting never changes this order, because a run with such a pair goes out in
//! order of arrival. No class overtakes another over the same bytes. All other entries may finish
//! in any order.
//!
//! Classes: foreground goes before background. Background writes leave a few slots free, so a read
//! finds one at once. After [`FOREGROUND_STREAK_MAX`] foreground transfers in a row, one background
//! transfer goes.
//!
//! Bounds: the submitter bounds the waiting entries (see [`crate::port`]), and the tags bound those
//! in flight. A poll scans the transfers in flight, at most about 128.

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

/// Longest series of foreground transfers while background entries wait.
const FOREGROUND_STREAK_MAX: u32 = 64;

/// Priority of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// A caller waits for the entry.
    #[default]
    Foreground,
    /// Not urgent: write-back, rebuilding, copying.
    Background,
}

/// How one drive is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Longest merged transfer in bytes; 0 never merges. A longer entry goes out unchanged.
    pub merge_bytes_max: usize,
    /// Most entries per merged transfer.
    pub segments_max: usize,
    /// Slots that background writes leave free.
    pub reserved_slots: usize,
    /// Whether runs are sorted by address; otherwise entries go out in order of arrival.
    pub sorts: bool,
}

impl Policy {
    /// Every entry alone, in order of arrival.
    pub const AS_IT_COMES: Policy = Policy {
        merge_bytes_max: 0,
        segments_max: 1,
        reserved_slots: 0,
        sorts: false,
    };
}

/// The range and kind of a transfer: used to compare, merge and order entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Direction.
    pub op: Op,
    /// Priority.
    pub class: Class,
    /// File on the drive.
    pub file: FileId,
    /// The offset in the file.
    pub offset_bytes: u64,
    /// Length.
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
    /// Whether the entry must not be merged.
    is_alone: bool,
    cargo: T,
}

/// The entries that wait for one drive and those in flight. `T` travels with each entry, untouched.
#[derive(Debug)]
pub struct DriveQueue<T> {
    policy: Policy,
    tags: Arc<TagPool>,
    group_tags: Option<Arc<TagPool>>,
    /// Number of the next arrival; entries that are submitted again have the number 0.
    next_number: u64,
    /// Entries that arrived since the run was formed.
    incoming: VecDeque<Entry<T>>,
    /// Whether `incoming` is ascending and free of overlaps.
    is_ascending: bool,
    /// The entries that go out now.
    run: VecDeque<Entry<T>>,
    background: VecDeque<Entry<T>>,
    flying: Vec<Span>,
    flying_writes: usize,
    flying_background: usize,
    foreground_streak: u32,
}

impl<T> DriveQueue<T> {
    /// An idle drive. Slots come from `tags`, and also from `group_tags` if the drives of a
    /// controller share slots.
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

    /// Number of waiting entries.
    pub fn waiting(&self) -> usize {
        self.incoming.len() + self.run.len() + self.background.len()
    }

    /// Number of transfers in flight.
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Adds an entry.
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
            // Ascending entries keep their order of arrival, so overlaps are harmless.
            self.is_ascending &=
                (last.span.file.0, last.span.offset_bytes) <= (span.file.0, span.offset_bytes);
        }
        self.incoming.push_back(entry);
    }

    /// Adds an entry again that went out merged and failed. It goes next, and alone, so that an
    /// error belongs to the right entry.
    pub fn submit_alone(&mut self, span: Span, cargo: T) {
        self.run.push_front(Entry {
            span,
            number: 0,
            is_alone: true,
            cargo,
        });
    }

    /// Removes the waiting entries for which `is_meant` holds and passes each to `take`; the rest
    /// keep their order.
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

    /// The next transfer that may start now; passes its entries' cargo to `take`, in order of
    /// offset. `None` if nothing waits, no slot is free, or the next entry must wait for another.
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

    /// Whether a waiting entry or a transfer in flight must be over before a transfer of `span`
    /// starts.
    pub(crate) fn conflicts_with(&self, span: &Span) -> bool {
        let waiting = [&self.incoming, &self.run, &self.background];
        let mut waiting = waiting.into_iter().flatten();
        waiting.any(|entry| entry.span.conflicts_with(span))
            || self.flying.iter().any(|flying| flying.conflicts_with(span))
    }

    /// Reports that a transfer that [`DriveQueue::poll`] returned is over, and frees its slot.
    /// Returns whether it was in flight.
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

    /// Sleeps until another submitter may have freed a slot.
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

    /// Whether two entries of the sorted run must keep their order.
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

    /// The background goes if nothing else waits, or if it has waited long enough and overtakes
    /// nothing over the same bytes.
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
