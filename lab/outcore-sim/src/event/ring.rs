//! A first-in-first-out queue of copied items: a ring whose length is a power of two.
//!
//! Contract: as `VecDeque` for the calls that the event loop makes, with fewer instructions per
//! call: a place in the ring is one mask away. It grows by doubling and never shrinks.

/// Room of a ring that holds something.
const ROOM_MIN: usize = 16;

/// A queue of items.
#[derive(Debug, Clone)]
pub(crate) struct Ring<T> {
    /// The places; their number is 0 or a power of two.
    places: Box<[T]>,
    first: usize,
    count: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring {
            places: Box::new([]),
            first: 0,
            count: 0,
        }
    }
}

impl<T: Copy + Default> Ring<T> {
    #[inline]
    fn place(&self, at: usize) -> usize {
        (self.first + at) & self.places.len().wrapping_sub(1)
    }

    /// Number of items.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The first item.
    #[inline]
    pub(crate) fn front(&self) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        self.places.get(self.first).copied()
    }

    /// The last item.
    #[inline]
    pub(crate) fn back(&self) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        self.places.get(self.place(self.count - 1)).copied()
    }

    /// Appends an item.
    #[inline]
    pub(crate) fn push_back(&mut self, item: T) {
        if self.count == self.places.len() {
            self.grow();
        }
        let at = self.place(self.count);
        if let Some(place) = self.places.get_mut(at) {
            *place = item;
        }
        self.count += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let room = (2 * self.count).max(ROOM_MIN);
        let items = (0..self.count).map(|at| self.places[self.place(at)]);
        let places: Vec<T> = items
            .chain(std::iter::repeat(T::default()))
            .take(room)
            .collect();
        self.places = places.into_boxed_slice();
        self.first = 0;
    }

    /// Takes the first item.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let item = self.front()?;
        self.first = self.place(1);
        self.count -= 1;
        Some(item)
    }

    /// Removes the first item that `is_it` accepts. Returns false when there is none. Linear.
    pub(crate) fn remove_first(&mut self, is_it: impl Fn(&T) -> bool) -> bool {
        let found = (0..self.count).find(|at| is_it(&self.places[self.place(*at)]));
        let Some(found) = found else { return false };
        for at in found..self.count - 1 {
            self.places[self.place(at)] = self.places[self.place(at + 1)];
        }
        self.count -= 1;
        true
    }
}

impl<T: Copy + Default + Ord> Ring<T> {
    /// Inserts an item into a sorted ring, in front of all greater items. The search begins at the
    /// end.
    pub(crate) fn insert_sorted(&mut self, item: T) {
        self.push_back(item);
        let mut at = self.count - 1;
        while at > 0 && self.places[self.place(at - 1)] > item {
            self.places[self.place(at)] = self.places[self.place(at - 1)];
            at -= 1;
        }
        let at = self.place(at);
        self.places[at] = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn a_ring_is_a_queue_while_it_grows_and_wraps() {
        let (mut ring, mut queue) = (Ring::default(), VecDeque::new());
        for step in 0..2000u32 {
            if step % 3 != 2 {
                ring.push_back(step);
                queue.push_back(step);
            } else {
                assert_eq!(ring.pop_front(), queue.pop_front());
            }
            assert_eq!(ring.len(), queue.len());
            assert_eq!(ring.front(), queue.front().copied());
            assert_eq!(ring.back(), queue.back().copied());
        }
        while let Some(item) = queue.pop_front() {
            assert_eq!(ring.pop_front(), Some(item));
        }
        assert_eq!(ring.pop_front(), None);
    }

    #[test]
    fn items_enter_a_sorted_ring_in_order_and_leave_from_the_middle() {
        let mut ring = Ring::default();
        for item in [5, 1, 9, 5, 0, 7, 3, 8, 2, 6, 4, 11, 10, 14, 12, 13, 15, 16] {
            ring.insert_sorted(item);
        }
        assert_eq!(ring.pop_front(), Some(0));
        assert!(ring.remove_first(|item| *item == 5));
        assert!(!ring.remove_first(|item| *item == 20));
        let left: Vec<i32> = std::iter::from_fn(|| ring.pop_front()).collect();
        assert_eq!(
            left,
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
        );
    }
}
