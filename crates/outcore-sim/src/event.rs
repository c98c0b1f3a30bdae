//! The event queue: a 4-ary heap ordered by time, then by order of insertion.
//!
//! Contract: [`EventQueue::pop`] returns events in non-decreasing time, and events of one time in
//! the order in which they were pushed, so that a run is the same on every machine. An event is
//! 16 bytes: time in picoseconds, a wrapping 32-bit sequence number, and 32 bits that the owner
//! reads (a kind in the upper 4 bits, an argument in the lower 28). A model has at most one
//! pending event a resource (link direction, memory channel, bus, die), so the heap stays
//! within a few cache lines and never allocates once it has grown to that size.

/// One pending event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// When it fires, in picoseconds.
    pub(crate) at: u64,
    seq: u32,
    /// Kind and argument, packed by the owner.
    pub(crate) data: u32,
}

impl Event {
    /// True when `self` fires before `other`. The sequence comparison is valid as long as fewer
    /// than 2^31 events are pushed while one is pending.
    #[inline]
    fn before(&self, other: &Event) -> bool {
        self.at < other.at || (self.at == other.at && (self.seq.wrapping_sub(other.seq) as i32) < 0)
    }
}

/// A stable priority queue of events.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: Vec<Event>,
    seq: u32,
}

impl EventQueue {
    /// An empty queue with room for `capacity` events.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        EventQueue {
            heap: Vec::with_capacity(capacity),
            seq: 0,
        }
    }

    /// Number of pending events.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Time of the next event.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.first().map(|event| event.at)
    }

    /// Adds an event that fires at `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, data: u32) {
        let event = Event {
            at,
            seq: self.seq,
            data,
        };
        self.seq = self.seq.wrapping_add(1);
        self.heap.push(event);
        let heap = self.heap.as_mut_slice();
        let mut child = heap.len() - 1;
        while child > 0 {
            let parent = (child - 1) / 4;
            if !event.before(&heap[parent]) {
                break;
            }
            heap[child] = heap[parent];
            child = parent;
        }
        heap[child] = event;
    }

    /// Removes the first event whose data is `data`; false when there is none. Linear; only used
    /// by suspension, which is rare.
    pub(crate) fn cancel(&mut self, data: u32) -> bool {
        let Some(at) = self.heap.iter().position(|event| event.data == data) else {
            return false;
        };
        // Order within the heap does not matter to the owner: rebuild from the rest.
        let mut rest = std::mem::take(&mut self.heap);
        rest.swap_remove(at);
        rest.sort_unstable_by(|a, b| {
            if a.before(b) {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        });
        self.heap = rest;
        true
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let first = *self.heap.first()?;
        let last = self.heap.pop()?;
        let heap = self.heap.as_mut_slice();
        let len = heap.len();
        if len == 0 {
            return Some(first);
        }
        let mut hole = 0;
        loop {
            let start = 4 * hole + 1;
            if start >= len {
                break;
            }
            let mut best = start;
            for child in start + 1..(start + 4).min(len) {
                if heap[child].before(&heap[best]) {
                    best = child;
                }
            }
            if !heap[best].before(&last) {
                break;
            }
            heap[hole] = heap[best];
            hole = best;
        }
        heap[hole] = last;
        Some(first)
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
    fn the_sequence_number_may_wrap() {
        let mut queue = EventQueue {
            heap: Vec::new(),
            seq: u32::MAX - 1,
        };
        for index in 0..4 {
            queue.push(7, index);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|e| e.data).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
