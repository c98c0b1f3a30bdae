//! The event queue: a 4-ary heap ordered by time, then by order of insertion.
//!
//! Contract: [`EventQueue::pop`] returns events in non-decreasing time, and events of one time in
//! the order in which they were pushed, so that a run is the same on every machine. An event is one
//! 128-bit number: time in picoseconds, a 32-bit sequence number, and 32 bits that the owner reads
//! (a kind in the upper 4 bits, an argument in the lower 28); comparing two events is comparing two
//! numbers. When the sequence is used up the pending events are numbered anew. A model has at most
//! one pending event a resource (link direction, memory channel, bus, die), so the heap stays
//! within a few cache lines and never allocates once it has grown to that size.

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
    heap: Vec<u128>,
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
        self.heap.first().map(|key| unpack(*key).at)
    }

    /// Adds an event that fires at `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, data: u32) {
        if self.seq == u32::MAX {
            self.number_anew();
        }
        let key = u128::from(at) << 64 | u128::from(self.seq) << 32 | u128::from(data);
        self.seq += 1;
        self.heap.push(key);
        let last = self.heap.len() - 1;
        sift_up(&mut self.heap, last, key);
    }

    #[cold]
    fn number_anew(&mut self) {
        // A sorted list is a heap.
        self.heap.sort_unstable();
        for (seq, key) in self.heap.iter_mut().enumerate() {
            let Event { at, data } = unpack(*key);
            *key = u128::from(at) << 64 | (seq as u128) << 32 | u128::from(data);
        }
        self.seq = self.heap.len() as u32;
    }

    /// Removes the event whose data is `data`; false when there is none. Linear; only used by
    /// suspension, which is rare.
    pub(crate) fn cancel(&mut self, data: u32) -> bool {
        let Some(at) = self.heap.iter().position(|key| unpack(*key).data == data) else {
            return false;
        };
        self.heap.swap_remove(at);
        self.heap.sort_unstable();
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
            return Some(unpack(first));
        }
        // The hole goes down to a leaf, then the last event goes up from there: it came from a
        // leaf and seldom belongs much higher, so this compares less than stopping on the way.
        let mut hole = 0;
        loop {
            let start = 4 * hole + 1;
            let best = if let Some([a, b, c, d]) = heap.get(start..start + 4) {
                let left = start + usize::from(b < a);
                let right = start + 2 + usize::from(d < c);
                if heap[right] < heap[left] {
                    right
                } else {
                    left
                }
            } else if start < len {
                let mut best = start;
                for child in start + 1..len {
                    if heap[child] < heap[best] {
                        best = child;
                    }
                }
                best
            } else {
                break;
            };
            heap[hole] = heap[best];
            hole = best;
        }
        sift_up(heap, hole, last);
        Some(unpack(first))
    }
}

/// Puts `key` where `from` is, or as far above as it belongs.
#[inline]
fn sift_up(heap: &mut [u128], from: usize, key: u128) {
    let mut at = from;
    while at > 0 {
        let parent = (at - 1) / 4;
        if key > heap[parent] {
            break;
        }
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = key;
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
    fn the_sequence_number_may_be_used_up() {
        let mut queue = EventQueue {
            heap: Vec::new(),
            seq: u32::MAX - 2,
        };
        for index in 0..4 {
            queue.push(7, index);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|e| e.data).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
