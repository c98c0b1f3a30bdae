//! A table that counts the occurrences of a limited number of distinct items.
//!
//! Contract: open addressing with linear probing. A slot holds an item of fixed length and its
//! count, which is 0 if the slot is free. The table starts small, so that few items stay in a
//! core's caches, and grows to the number of slots given when it is made. Then
//! [`CountTable::count_each`] reports that it is full, and the caller empties it into another
//! table.
//!
//! Bounds: the memory of all its slots, and an eighth more while it grows. In a full table (70 % of
//! the slots) a present item takes two probes and a missing one takes six (Knuth, The Art of
//! Computer Programming, volume 3, section 6.4).

use crate::read::sample::random;
use outcore_io::memory::prefetch;
use twox_hash::XxHash3_64;

/// Bytes of a count.
pub(super) const COUNT_BYTES: usize = 8;
/// Items that are counted in parallel.
const BATCH: usize = 32;
/// If slots touch more bytes than this, most are outside of a core's own caches.
const CACHED_BYTES: usize = 512 << 10;
/// Bytes of a cache line: the cache use of an item or a count, because slots are far apart.
const LINE_BYTES: usize = 64;
/// Largest share of used slots, in percent.
const LOAD_PERCENT: usize = 70;
/// Slots of the smallest table.
pub(super) const PLACES_MIN: usize = 64;
/// Largest number of initial slots.
const PLACES_FIRST: usize = 1 << 10;
/// Growth factor of the number of slots.
const GROWTH: usize = 8;

/// Counts of items, by open addressing: a slot is an item and its count, 0 for none.
#[derive(Debug)]
pub(super) struct CountTable {
    item_bytes: usize,
    items: Vec<u8>,
    counts: Vec<u64>,
    filled: usize,
    filled_max: usize,
    places_max: usize,
}

impl CountTable {
    /// Bytes per slot.
    fn place_bytes(item_bytes: usize) -> usize {
        item_bytes + COUNT_BYTES
    }

    /// Bytes of a table of at most `places` slots, including its growth.
    pub(super) fn table_bytes(item_bytes: usize, places: usize) -> usize {
        let bytes = places * Self::place_bytes(item_bytes);
        bytes + bytes / GROWTH
    }

    /// The number of slots that fit, a power of two.
    pub(super) fn places(item_bytes: usize, memory_bytes: u64) -> usize {
        let places = memory_bytes as usize / Self::place_bytes(item_bytes);
        1 << places.max(PLACES_MIN).ilog2()
    }

    /// Number of distinct items that a table of this many slots holds.
    pub(super) fn items_max(places: usize) -> usize {
        places * LOAD_PERCENT / 100
    }

    /// An empty table of at most `places` slots, a power of two.
    pub(super) fn new(item_bytes: usize, places: usize) -> Self {
        // Begins a whole number of growth steps below `places`, so that the last step also needs
        // only an eighth more memory.
        let mut first = places;
        while first > PLACES_FIRST {
            first /= GROWTH;
        }
        Self::of_places(item_bytes, first, places)
    }

    fn of_places(item_bytes: usize, places: usize, places_max: usize) -> Self {
        CountTable {
            item_bytes,
            items: vec![0; places * item_bytes],
            counts: vec![0; places],
            filled: 0,
            filled_max: Self::items_max(places),
            places_max,
        }
    }

    /// Makes room for more items; false if the table has all its slots.
    fn grow(&mut self) -> bool {
        let places = self.counts.len();
        if places == self.places_max {
            return false;
        }
        let mut grown = Self::of_places(self.item_bytes, places * GROWTH, self.places_max);
        for (item, count) in self.iter() {
            grown.add(item, count);
        }
        *self = grown;
        true
    }

    /// Counts `items` until there is no slot for one; returns how many were counted.
    pub(super) fn count_each(&mut self, items: &[u8]) -> usize {
        let mut counted = 0;
        loop {
            let rest = &items[counted * self.item_bytes..];
            counted += self.count_as_is(rest);
            if counted * self.item_bytes == items.len() || !self.grow() {
                return counted;
            }
        }
    }

    /// Like `count_each`, but without growing the table.
    fn count_as_is(&mut self, items: &[u8]) -> usize {
        match self.item_bytes {
            1 => self.count_each_of::<1>(items),
            2 => self.count_each_of::<2>(items),
            4 => self.count_each_of::<4>(items),
            8 => self.count_each_of::<8>(items),
            16 => self.count_each_of::<16>(items),
            bytes => {
                let mut items = items.chunks_exact(bytes);
                let count = items.len();
                match items.position(|item| !self.add_as_is(item, 1)) {
                    Some(index) => index,
                    None => count,
                }
            }
        }
    }

    /// Like `count_as_is`, for an item length that is known at compile time, so that a comparison
    /// is one instruction. This takes less than half of the time of the general case.
    fn count_each_of<const BYTES: usize>(&mut self, items: &[u8]) -> usize {
        let (items, _) = items.as_chunks::<BYTES>();
        if self.filled * LINE_BYTES > CACHED_BYTES {
            return self.count_far(items);
        }
        for (index, item) in items.iter().enumerate() {
            let place = self.place_of(hash(item), |stored| stored == item);
            if !self.add_at(place, item, 1) {
                return index;
            }
        }
        items.len()
    }

    /// Like `count_each_of`, for tables larger than the caches: prefetches the slots of a batch
    /// before it reads the first.
    fn count_far<const BYTES: usize>(&mut self, items: &[[u8; BYTES]]) -> usize {
        let mask = self.counts.len() - 1;
        let mut counted = 0;
        for batch in items.chunks(BATCH) {
            let mut hashes = [0; BATCH];
            for (item_hash, item) in hashes.iter_mut().zip(batch) {
                *item_hash = hash(item);
                let place = *item_hash as usize & mask;
                prefetch(&self.counts[place]);
                prefetch(&self.items[place * BYTES]);
            }
            for (item, hash) in batch.iter().zip(hashes) {
                let place = self.place_of(hash, |stored| stored == item);
                if !self.add_at(place, item, 1) {
                    return counted;
                }
                counted += 1;
            }
        }
        counted
    }

    /// Adds to the count of `item`; false if there is no slot for it.
    pub(super) fn add(&mut self, item: &[u8], count: u64) -> bool {
        self.add_as_is(item, count) || self.grow() && self.add_as_is(item, count)
    }

    /// Like `add`, but without growing the table.
    fn add_as_is(&mut self, item: &[u8], count: u64) -> bool {
        let place = self.place_of(hash(item), |stored| stored == item);
        self.add_at(place, item, count)
    }

    /// The slot of the item that hashes to `hash`: its own, or the free one where it would go.
    #[inline(always)]
    fn place_of(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> usize {
        let mask = self.counts.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let at = place * self.item_bytes;
            if self.counts[place] == 0 || is_it(&self.items[at..at + self.item_bytes]) {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    #[inline(always)]
    fn add_at(&mut self, place: usize, item: &[u8], count: u64) -> bool {
        if self.counts[place] == 0 {
            if self.filled == self.filled_max {
                return false;
            }
            self.filled += 1;
            let at = place * self.item_bytes;
            self.items[at..at + self.item_bytes].copy_from_slice(item);
        }
        self.counts[place] += count;
        true
    }

    /// Each item and its count, in no fixed order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let all = self.items.chunks_exact(self.item_bytes).zip(&self.counts);
        all.filter(|(_, count)| **count > 0)
            .map(|(item, count)| (item, *count))
    }

    /// Removes all items.
    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.filled = 0;
    }
}

/// A hash with good low bits, which select the slot.
#[inline(always)]
pub(super) fn hash(item: &[u8]) -> u64 {
    // Short items are mixed as words (splitmix64).
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    match item.len() {
        0..=8 => random(word(item), 0),
        16 => random(random(word(&item[..8]), 0) ^ word(&item[8..]), 0),
        _ => XxHash3_64::oneshot(item),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// The items with their counts, and how often the table was full.
    fn counted(items: &[u8], item_bytes: usize, places: usize) -> (HashMap<Vec<u8>, u64>, usize) {
        let mut table = CountTable::new(item_bytes, places);
        let mut found: HashMap<Vec<u8>, u64> = HashMap::new();
        let (mut rest, mut rounds) = (items, 0);
        while !rest.is_empty() {
            let counted = table.count_each(rest);
            assert!(counted > 0);
            rest = &rest[counted * item_bytes..];
            rounds += 1;
            for (item, count) in table.iter() {
                *found.entry(item.to_vec()).or_default() += count;
            }
            table.clear();
        }
        (found, rounds)
    }

    #[test]
    fn items_of_any_length_are_counted_as_a_map_counts_them_until_the_table_is_full() {
        let lengths = [1, 2, 3, 4, 7, 8, 12, 16, 24].map(|item_bytes| (item_bytes, 1000, 90, 64));
        // More than the caches hold.
        let far = [4, 8, 16].map(|item_bytes| (item_bytes, 60_000, 20_000, 16_384));
        for (item_bytes, count, distinct, places) in lengths.into_iter().chain(far) {
            let items: Vec<u8> = (0..count)
                .flat_map(|index| {
                    let value = (random(index, 7) % distinct).to_le_bytes();
                    (0..item_bytes).map(move |byte| value[byte % 8])
                })
                .collect();
            let mut expected: HashMap<Vec<u8>, u64> = HashMap::new();
            for item in items.chunks_exact(item_bytes) {
                *expected.entry(item.to_vec()).or_default() += 1;
            }
            let (found, rounds) = counted(&items, item_bytes, places);
            assert_eq!(found, expected, "{item_bytes}");
            assert!(rounds > 1 || expected.len() <= CountTable::items_max(places));
        }
    }
}
