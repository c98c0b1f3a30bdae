//! The event queue: a sorted lane for every kind of event, and a heap for events that fit into no
//! lane.
//!
//! Contract: [`EventQueue::pop`] returns events in non-decreasing time. Events with equal times
//! come in the order in which they were pushed, so that a run is the same on every machine. An
//! event is one 128-bit number, so comparing events compares numbers: the time in picoseconds, a
//! 32-bit sequence number, and 32 bits for the owner (a kind in the upper 4 bits, an argument in
//! the lower 28). When the sequence numbers run out, the pending events are renumbered.
//!
//! Events of one kind nearly always fire in the order in which they were set: a direction of the
//! link has one at a time, and transfers or reads of one size take equally long. Therefore each of
//! the first [`LANES`] kinds has a lane to which events are appended. The earliest event is the
//! minimum of the lanes' heads: eight comparisons without a branch. An event that precedes others
//! of its lane is inserted; in a lane of more than [`LANE_MAX`] events it goes to the heap, as do
//! events of the other kinds.
//!
//! N.B. One list of all near events and a 4-ary heap of all events were slower; a tournament of the
//! heads and a wheel of short lists were no faster (docs/decisions/0022, and docs/sim/validity.md,
//! "Speed and memory").

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Kinds that have a lane of their own.
pub(crate) const LANES: usize = 7;
/// Longest lane into which events are inserted: 4 KiB, of which an insertion moves at most half.
const LANE_MAX: usize = 256;
/// Marks the absence of an event: later than all events.
const NOTHING: u128 = u128::MAX;
const KIND_SHIFT: u32 = 28;

/// One pending event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// When it fires, in picoseconds.
    pub(crate) at: u64,
    /// Kind and argument, packed by the owner.
    pub(crate) data: u32,
}

/// A stable priority queue of events.
#[derive(Debug, Clone)]
pub(crate) struct EventQueue {
    /// The earliest event of every lane, then that of the heap.
    heads: [u128; LANES + 1],
    /// The events after the head of each lane, in order.
    lanes: [VecDeque<u128>; LANES],
    /// The events after the head of the heap.
    heap: BinaryHeap<Reverse<u128>>,
    seq: u32,
    pending_count: usize,
}

impl Default for EventQueue {
    fn default() -> Self {
        EventQueue {
            heads: [NOTHING; LANES + 1],
            lanes: Default::default(),
            heap: BinaryHeap::new(),
            seq: 0,
            pending_count: 0,
        }
    }
}

#[inline]
fn unpack(key: u128) -> Event {
    Event {
        at: (key >> 64) as u64,
        data: key as u32,
    }
}

#[inline]
fn lane_of(data: u32) -> usize {
    ((data >> KIND_SHIFT) as usize).min(LANES)
}

impl EventQueue {
    /// Number of pending events.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pending_count
    }

    #[inline]
    fn earliest(&self) -> u128 {
        let [a, b, c, d, e, f, g, h] = self.heads;
        (a.min(b).min(c.min(d))).min(e.min(f).min(g.min(h)))
    }

    /// Time of the next event.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        (self.pending_count > 0).then(|| unpack(self.earliest()).at)
    }

    /// Adds an event that fires at `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, data: u32) {
        if self.seq == u32::MAX {
            self.number_anew();
        }
        let key = u128::from(at) << 64 | u128::from(self.seq) << 32 | u128::from(data);
        self.seq += 1;
        self.pending_count += 1;
        let lane = lane_of(data);
        let head = &mut self.heads[lane];
        if *head == NOTHING {
            *head = key;
        } else if lane < LANES && key > *self.lanes[lane].back().unwrap_or(head) {
            self.lanes[lane].push_back(key);
        } else {
            self.insert(lane, key);
        }
    }

    /// Adds an event in front of others of its lane, or to the heap.
    fn insert(&mut self, lane: usize, key: u128) {
        let mut key = key;
        if key < self.heads[lane] {
            std::mem::swap(&mut key, &mut self.heads[lane]);
        }
        if lane < LANES && self.lanes[lane].len() < LANE_MAX {
            let place = self.lanes[lane].partition_point(|other| *other < key);
            self.lanes[lane].insert(place, key);
            return;
        }
        if key < self.heads[LANES] {
            std::mem::swap(&mut key, &mut self.heads[LANES]);
        }
        if key != NOTHING {
            self.heap.push(Reverse(key));
        }
    }

    #[cold]
    fn number_anew(&mut self) {
        let mut old = std::mem::take(self);
        while let Some(Event { at, data }) = old.pop() {
            self.push(at, data);
        }
    }

    /// Removes the event whose data is `data`. Returns false when there is none. Linear; used only
    /// by suspension, which is rare.
    pub(crate) fn cancel(&mut self, data: u32) -> bool {
        let is_it = |key: &u128| *key != NOTHING && unpack(*key).data == data;
        if let Some(at) = self.heads.iter().position(is_it) {
            self.drop_head(at);
            return true;
        }
        let lane = lane_of(data);
        if lane < LANES
            && let Some(at) = self.lanes[lane].iter().position(is_it)
        {
            self.lanes[lane].remove(at);
            self.pending_count -= 1;
            return true;
        }
        let before = self.heap.len();
        self.heap.retain(|Reverse(key)| !is_it(key));
        let removed = before - self.heap.len();
        self.pending_count -= removed;
        removed > 0
    }

    /// Removes the head of a lane or of the heap.
    #[inline]
    fn drop_head(&mut self, lane: usize) {
        self.pending_count -= 1;
        self.heads[lane] = if lane < LANES {
            self.lanes[lane].pop_front().unwrap_or(NOTHING)
        } else {
            self.heap.pop().map_or(NOTHING, |Reverse(key)| key)
        };
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let first = self.earliest();
        if first == NOTHING {
            return None;
        }
        let lane = if self.heads[LANES] == first {
            LANES
        } else {
            lane_of(first as u32)
        };
        self.drop_head(lane);
        Some(unpack(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Event data: all kinds round-robin, or all of one kind.
    fn mark(index: usize, kinds: usize) -> u32 {
        index as u32 | ((index % kinds) as u32) << KIND_SHIFT
    }

    proptest! {
        #[test]
        fn events_leave_in_order_of_time_then_of_insertion(times in prop::collection::vec(0u64..50, 1..900), kinds in 1usize..10) {
            let mut queue = EventQueue::default();
            for (index, at) in times.iter().enumerate() {
                queue.push(*at, mark(index, kinds));
            }
            let mut expected: Vec<(u64, u32)> =
                times.iter().enumerate().map(|(i, t)| (*t, mark(i, kinds))).collect();
            expected.sort_by_key(|(at, _)| *at);
            let mut seen = Vec::new();
            while let Some(event) = queue.pop() {
                seen.push((event.at, event.data));
            }
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn pushes_between_pops_keep_the_order(steps in prop::collection::vec((0u64..2000, 0usize..3), 1..900), kinds in 1usize..10) {
            let mut queue = EventQueue::default();
            let mut pending = std::collections::BTreeSet::new();
            let mut now = 0;
            for (index, (after, pops)) in steps.iter().enumerate() {
                queue.push(now + after, mark(index, kinds));
                pending.insert((now + after, index, mark(index, kinds)));
                prop_assert_eq!(queue.len(), pending.len());
                for _ in 0..*pops {
                    let expected = pending.pop_first();
                    prop_assert_eq!(queue.next_at(), expected.map(|(at, ..)| at));
                    let seen = queue.pop().map(|event| (event.at, event.data));
                    prop_assert_eq!(seen, expected.map(|(at, _, data)| (at, data)));
                    now = seen.map_or(now, |(at, _)| at);
                }
            }
            while let Some((at, _, data)) = pending.pop_first() {
                prop_assert_eq!(queue.pop(), Some(Event { at, data }));
            }
            prop_assert!(queue.pop().is_none());
        }

        #[test]
        fn a_cancelled_event_never_fires(times in prop::collection::vec(0u64..50, 2..700), pick in 0usize..700, kinds in 1usize..10) {
            let mut queue = EventQueue::default();
            for (index, at) in times.iter().enumerate() {
                queue.push(*at, mark(index, kinds));
            }
            let gone = mark(pick % times.len(), kinds);
            prop_assert!(queue.cancel(gone));
            let mut last = 0;
            let mut count = 0;
            while let Some(event) = queue.pop() {
                prop_assert!(event.data != gone);
                prop_assert!(event.at >= last);
                last = event.at;
                count += 1;
            }
            prop_assert_eq!(count, times.len() - 1);
        }
    }

    #[test]
    fn the_sequence_number_may_be_used_up() {
        let mut queue = EventQueue {
            seq: u32::MAX - 2,
            ..EventQueue::default()
        };
        for index in 0..4 {
            queue.push(7, index);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|e| e.data).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
