//! The event queue: a sorted lane for every kind of event, and a heap for events that fit into no
//! lane.
//!
//! Contract: [`EventQueue::pop`] returns events in non-decreasing time. Events with equal times
//! come in the order in which they were pushed, so that a run is the same on every machine. An
//! event is one 128-bit number, so comparing events compares numbers: the time in picoseconds, a
//! 32-bit sequence number, and 32 bits for the owner (a kind in the upper 4 bits, an argument in
//! the lower 28). When the sequence numbers run out, the pending events are renumbered.
//!
//! Two thirds of all events belong to the directions of the link. Each direction has one event at a
//! time and a place of its own for it. Events of another kind nearly always fire in the order in
//! which they were set, because transfers or reads of one size take equally long. Therefore each of
//! the next [`LANES`] kinds has a lane to which events are appended. The minimum of the lanes'
//! heads is kept until one of them changes. An event that precedes others of its lane is inserted
//! before them. If the lane has [`LANE_MAX`] events or more, the event goes to the heap instead.
//! Events of the remaining kinds always go to the heap.
//!
//! N.B. One list of all near events and a 4-ary heap of all events were slower; a tournament of
//! the heads and a wheel of short lists were no faster (docs/decisions/0022, and
//! docs/sim/validity.md, "Speed and memory").

pub(crate) mod ring;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ring::Ring;

/// The first kinds, of which at most one event is pending: the directions of the link.
pub(crate) const SINGLE: usize = 2;
/// The kinds after these that have a lane of their own.
pub(crate) const LANES: usize = 6;
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
    /// The pending event of each of the first kinds.
    single: [u128; SINGLE],
    /// The earliest event of every lane, then that of the heap.
    heads: [u128; LANES + 1],
    /// The earliest of `heads`.
    earliest_lane: u128,
    /// The events after the head of each lane, in order.
    lanes: [Ring<u128>; LANES],
    /// The events after the head of the heap.
    heap: BinaryHeap<Reverse<u128>>,
    seq: u32,
    /// Events in lanes and in the heap.
    pending_count: usize,
}

impl Default for EventQueue {
    fn default() -> Self {
        EventQueue {
            single: [NOTHING; SINGLE],
            heads: [NOTHING; LANES + 1],
            earliest_lane: NOTHING,
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
    ((data >> KIND_SHIFT) as usize - SINGLE).min(LANES)
}

#[inline]
fn single_of(data: u32) -> Option<usize> {
    let kind = (data >> KIND_SHIFT) as usize;
    (kind < SINGLE).then_some(kind)
}

impl EventQueue {
    /// Number of pending events.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let single = self.single.iter().filter(|key| **key != NOTHING);
        self.pending_count + single.count()
    }

    #[inline]
    fn earliest(&self) -> u128 {
        let [a, b] = self.single;
        a.min(b).min(self.earliest_lane)
    }

    #[inline]
    fn compare_lanes(&mut self) {
        let [a, b, c, d, e, f, g] = self.heads;
        self.earliest_lane = a.min(b).min(c.min(d)).min(e.min(f).min(g));
    }

    /// Time of the next event.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        let first = self.earliest();
        (first != NOTHING).then(|| unpack(first).at)
    }

    #[inline]
    fn key(&mut self, at: u64, data: u32) -> u128 {
        if self.seq == u32::MAX {
            self.number_anew();
        }
        let key = u128::from(at) << 64 | u128::from(self.seq) << 32 | u128::from(data);
        self.seq += 1;
        key
    }

    /// Adds an event of one of the first [`SINGLE`] kinds, none of which is pending.
    #[inline]
    pub(crate) fn push_single(&mut self, at: u64, kind: usize) {
        let key = self.key(at, (kind as u32) << KIND_SHIFT);
        debug_assert!(
            self.single[kind] == NOTHING,
            "one event of this kind at a time"
        );
        self.single[kind] = key;
    }

    /// Adds an event of another kind that fires at `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, data: u32) {
        let key = self.key(at, data);
        self.put(key);
    }

    #[inline]
    fn put(&mut self, key: u128) {
        self.pending_count += 1;
        let lane = lane_of(key as u32);
        let head = &mut self.heads[lane];
        if *head == NOTHING {
            *head = key;
            self.earliest_lane = self.earliest_lane.min(key);
        } else if lane < LANES && key > self.lanes[lane].back().unwrap_or(*head) {
            self.lanes[lane].push_back(key);
        } else {
            self.insert(lane, key);
        }
    }

    /// Adds an event in front of others of its lane, or to the heap.
    #[inline(never)]
    fn insert(&mut self, lane: usize, key: u128) {
        let mut key = key;
        if key < self.heads[lane] {
            std::mem::swap(&mut key, &mut self.heads[lane]);
        }
        if lane < LANES && self.lanes[lane].len() < LANE_MAX {
            self.lanes[lane].insert_sorted(key);
        } else {
            if key < self.heads[LANES] {
                std::mem::swap(&mut key, &mut self.heads[LANES]);
            }
            if key != NOTHING {
                self.heap.push(Reverse(key));
            }
        }
        self.compare_lanes();
    }

    #[cold]
    fn number_anew(&mut self) {
        let mut old = std::mem::take(self);
        while let Some(Event { at, data }) = old.pop() {
            match single_of(data) {
                Some(kind) => self.push_single(at, kind),
                None => self.push(at, data),
            }
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
        if lane < LANES && self.lanes[lane].remove_first(is_it) {
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
        self.heads[lane] = match self.lanes.get_mut(lane) {
            Some(lane) => lane.pop_front().unwrap_or(NOTHING),
            None => self.heap.pop().map_or(NOTHING, |Reverse(key)| key),
        };
        self.compare_lanes();
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let first = self.earliest();
        if first == NOTHING {
            return None;
        }
        if let Some(kind) = single_of(first as u32) {
            self.single[kind] = NOTHING;
            return Some(unpack(first));
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

    /// Event data: all kinds with lanes and some without, round-robin, or all of one kind.
    fn mark(index: usize, kinds: usize) -> u32 {
        index as u32 | ((SINGLE + index % kinds) as u32) << KIND_SHIFT
    }

    proptest! {
        #[test]
        fn events_leave_in_order_of_time_then_of_insertion(times in prop::collection::vec(0u64..50, 1..900), kinds in 1usize..9) {
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
        fn pushes_between_pops_keep_the_order(steps in prop::collection::vec((0u64..2000, 0usize..3), 1..900), kinds in 1usize..9) {
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
        fn a_cancelled_event_never_fires(times in prop::collection::vec(0u64..50, 2..700), pick in 0usize..700, kinds in 1usize..9) {
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
        for index in 0..3 {
            queue.push(7, mark(index, 1));
        }
        queue.push_single(7, 1);
        queue.push(7, mark(3, 1));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|e| e.data).collect();
        let link = 1 << KIND_SHIFT;
        assert_eq!(
            order,
            [mark(0, 1), mark(1, 1), mark(2, 1), link, mark(3, 1)]
        );
    }

    #[test]
    fn both_directions_of_the_link_keep_their_place_among_other_events() {
        let mut queue = EventQueue::default();
        queue.push(5, mark(0, 1));
        queue.push_single(5, 0);
        queue.push_single(4, 1);
        queue.push(4, mark(1, 1));
        assert_eq!((queue.len(), queue.next_at()), (4, Some(4)));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|e| e.data).collect();
        assert_eq!(order, [1 << KIND_SHIFT, mark(1, 1), mark(0, 1), 0]);
        assert_eq!((queue.len(), queue.next_at()), (0, None));
    }
}
