//! How often each of few items occurs: a table of items and counts.
//!
//! Contract: open addressing with linear probing; a place holds an item of fixed length and its count, which is 0 where the
//! place is free. The table does not grow: [`CountTable::add`] says when it is full, and the caller empties it into another.
//!
//! Bounds: the memory given when it is made. In a full table (70 % of the places) an item that is there takes two probes, one
//! that is not takes six (Knuth, The Art of Computer Programming, volume 3, section 6.4).

use twox_hash::XxHash3_64;

/// Bytes of a count.
pub(super) const COUNT_BYTES: usize = 8;
/// Places of a table that are taken at most, in a hundred.
const LOAD_PERCENT: usize = 70;
/// Places of the smallest table.
pub(super) const PLACES_MIN: usize = 64;

/// Counts of items, by open addressing: a place is an item and its count, 0 for none.
#[derive(Debug)]
pub(super) struct CountTable {
    item_bytes: usize,
    items: Vec<u8>,
    counts: Vec<u64>,
    filled: usize,
    filled_max: usize,
}

impl CountTable {
    /// Bytes of a place.
    pub(super) fn place_bytes(item_bytes: usize) -> usize {
        item_bytes + COUNT_BYTES
    }

    /// As many places, a power of two, as fit.
    pub(super) fn places(item_bytes: usize, memory_bytes: u64) -> usize {
        let places = memory_bytes as usize / Self::place_bytes(item_bytes);
        1 << places.max(PLACES_MIN).ilog2()
    }

    /// Distinct items that a table of so many places holds.
    pub(super) fn items_max(places: usize) -> usize {
        places * LOAD_PERCENT / 100
    }

    /// An empty table; `places` is a power of two.
    pub(super) fn new(item_bytes: usize, places: usize) -> Self {
        CountTable {
            item_bytes,
            items: vec![0; places * item_bytes],
            counts: vec![0; places],
            filled: 0,
            filled_max: Self::items_max(places),
        }
    }

    /// Adds to the count of `item`; false if there is no place for it.
    pub(super) fn add(&mut self, item: &[u8], count: u64) -> bool {
        let mask = self.counts.len() - 1;
        let mut place = hash(item) as usize & mask;
        loop {
            let at = place * self.item_bytes;
            if self.counts[place] == 0 {
                if self.filled == self.filled_max {
                    return false;
                }
                self.filled += 1;
                self.counts[place] = count;
                self.items[at..at + self.item_bytes].copy_from_slice(item);
                return true;
            }
            if &self.items[at..at + self.item_bytes] == item {
                self.counts[place] += count;
                return true;
            }
            place = (place + 1) & mask;
        }
    }

    /// Each item and its count, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let all = self.items.chunks_exact(self.item_bytes).zip(&self.counts);
        all.filter(|(_, count)| **count > 0)
            .map(|(item, count)| (item, *count))
    }

    /// Forgets all items.
    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.filled = 0;
    }
}

/// A hash whose low bits, which choose the place, are good.
pub(super) fn hash(item: &[u8]) -> u64 {
    match <[u8; 8]>::try_from(item) {
        // splitmix64's mixing.
        Ok(word) => crate::read::sample::random(u64::from_ne_bytes(word), 0),
        Err(_) => XxHash3_64::oneshot(item),
    }
}
