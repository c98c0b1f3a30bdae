//! The event queue: the next events in a sorted list, the rest in a heap.
//!
//! Contract: [`EventQueue::pop`] returns events in non-decreasing time, and events of one time in
//! the order in which they were pushed, so that a run is the same on every machine. An event is one
//! 128-bit number: time in picoseconds, a 32-bit sequence number, and 32 bits that the owner reads
//! (a kind in the upper 4 bits, an argument in the lower 28); comparing two events is comparing two
//! numbers. When the sequence is used up the pending events are numbered anew.
//!
//! A drive has at most one pending event a resource (link direction, memory channel, bus, die), and
//! two of three are for messages that arrive in a few nanoseconds: at the end of a list in
//! descending order they are pushed and popped without moving anything. What is further away is
//! moved into its place; beyond [`NEAR_MAX`] events the latest half goes to a heap, from which the
//! list is filled again when it is empty.
//!
//! N.B. a 4-ary heap of all events took longer: see docs/sim/validity.md, "Speed and memory".

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most events in the sorted list: 2 KiB, so that moving half of them is cheap.
const NEAR_MAX: usize = 128;
/// Places at the end of the list that are tried one by one.
const STEPS: usize = 6;

/// One pending event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// When it fires, in picoseconds.
    pub(crate) at: u64,
    /// Kind and argument, packed by the owner.
    pub(crate) data: u32,
}

/// A stable priority queue of events.
#[derive(Debug, Default, Clone)]
pub(crate) struct EventQueue {
    /// The earliest events, latest first; never empty while there are others.
    near: Vec<u128>,
    /// Events after all of `near`.
    far: BinaryHeap<Reverse<u128>>,
    seq: u32,
}

#[inline]
fn unpack(key: u128) -> Event {
    Event {
        at: (key >> 64) as u64,
        data: key as u32,
    }
}

impl EventQueue {
    /// An empty queue with room for `capacity` events.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        EventQueue {
            near: Vec::with_capacity(capacity.max(NEAR_MAX + 1)),
            far: BinaryHeap::new(),
            seq: 0,
        }
    }

    /// Number of pending events.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.near.len() + self.far.len()
    }

    /// Time of the next event.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.near.last().map(|key| unpack(*key).at)
    }

    /// Adds an event that fires at `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, data: u32) {
        if self.seq == u32::MAX {
            self.number_anew();
        }
        let key = u128::from(at) << 64 | u128::from(self.seq) << 32 | u128::from(data);
        self.seq += 1;
        if !self.far.is_empty() && self.near.first().is_some_and(|latest| key > *latest) {
            self.far.push(Reverse(key));
            return;
        }
        self.insert(key);
    }

    #[inline]
    fn insert(&mut self, key: u128) {
        let near = &mut self.near;
        let mut place = near.len();
        let least = place.saturating_sub(STEPS);
        while place > least && near[place - 1] < key {
            place -= 1;
        }
        if place == least {
            place = near[..least].partition_point(|other| *other > key);
        }
        near.insert(place, key);
        if near.len() > NEAR_MAX {
            self.spill();
        }
    }

    #[cold]
    fn spill(&mut self) {
        self.far
            .extend(self.near.drain(..NEAR_MAX / 2).map(Reverse));
    }

    #[cold]
    fn refill(&mut self) {
        while self.near.len() < NEAR_MAX / 2
            && let Some(Reverse(key)) = self.far.pop()
        {
            self.near.push(key);
        }
        self.near.reverse();
    }

    #[cold]
    fn number_anew(&mut self) {
        let mut keys = std::mem::take(&mut self.near);
        keys.extend(self.far.drain().map(|Reverse(key)| key));
        keys.sort_unstable();
        self.seq = 0;
        for key in keys {
            let Event { at, data } = unpack(key);
            self.push(at, data);
        }
    }

    /// Removes the event whose data is `data`; false when there is none. Linear; only used by
    /// suspension, which is rare.
    pub(crate) fn cancel(&mut self, data: u32) -> bool {
        if let Some(at) = self.near.iter().position(|key| unpack(*key).data == data) {
            self.near.remove(at);
            if self.near.is_empty() {
                self.refill();
            }
            return true;
        }
        let before = self.far.len();
        self.far.retain(|Reverse(key)| unpack(*key).data != data);
        self.far.len() < before
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let first = self.near.pop()?;
        if self.near.is_empty() && !self.far.is_empty() {
            self.refill();
        }
        Some(unpack(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_leave_in_order_of_time_then_of_insertion(times in prop::collection::vec(0u64..50, 1..300)) {
            let mut queue = EventQueue::default();
            for (index, at) in times.iter().enumerate() {
                queue.push(*at, index as u32);
            }
            let mut expected: Vec<(u64, u32)> =
                times.iter().enumerate().map(|(i, t)| (*t, i as u32)).collect();
            expected.sort();
            let mut seen = Vec::new();
            while let Some(event) = queue.pop() {
                seen.push((event.at, event.data));
            }
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn pushes_between_pops_keep_the_order(steps in prop::collection::vec((0u64..2000, 0usize..3), 1..900)) {
            let mut queue = EventQueue::default();
            let mut pending = std::collections::BTreeSet::new();
            let mut now = 0;
            for (index, (after, pops)) in steps.iter().enumerate() {
                let index = index as u32;
                queue.push(now + after, index);
                pending.insert((now + after, index));
                prop_assert_eq!(queue.len(), pending.len());
                for _ in 0..*pops {
                    let expected = pending.pop_first();
                    prop_assert_eq!(queue.next_at(), expected.map(|(at, _)| at));
                    let seen = queue.pop().map(|event| (event.at, event.data));
                    prop_assert_eq!(seen, expected);
                    now = seen.map_or(now, |(at, _)| at);
                }
            }
            while let Some(expected) = pending.pop_first() {
                prop_assert_eq!(queue.pop().map(|event| (event.at, event.data)), Some(expected));
            }
            prop_assert!(queue.pop().is_none());
        }

        #[test]
        fn a_cancelled_event_never_fires(times in prop::collection::vec(0u64..50, 2..100), pick in 0usize..100) {
            let mut queue = EventQueue::default();
            for (index, at) in times.iter().enumerate() {
                queue.push(*at, index as u32);
            }
            let gone = (pick % times.len()) as u32;
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
