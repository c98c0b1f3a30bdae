//! The logical units of a drive: the slot of each, and its sectors that hold data.
//!
//! Contract: a unit starts without a slot and without data. The table of a large drive begins
//! sparse: a hash table of the units in use. It becomes dense, with an entry for every unit, when
//! a sixteenth of the units is in use, or at once if [`Units::expect`] announces as many. Which of
//! both it is changes no result.
//!
//! A short run on a large drive touches most pages of a dense table, whose memory the system must
//! clear first. That took longer than the events of 100,000 requests.
//!
//! Bounds: sparse, 32 to 64 bytes per unit in use; dense, 4 bytes and a bitmap (1, 2, 4 or 8 bytes)
//! per unit, zeroed and touched lazily.

/// Tables of fewer units are dense from the start.
const SPARSE_MIN: usize = 1 << 20;
/// A sparse table holds at most one in this many units.
const SHARE: usize = 16;
/// Initial places of a sparse table; a power of two.
const PLACES: usize = 1 << 12;
/// Neighbouring units that have neighbouring places, so that they share a cache line.
const GROUP_BITS: u32 = 2;

/// The sectors of every logical unit that hold data.
#[derive(Debug, Clone)]
enum Written {
    W8(Vec<u8>),
    W16(Vec<u16>),
    W32(Vec<u32>),
    W64(Vec<u64>),
}

impl Written {
    fn new(unit_sectors: u32, units: usize) -> Self {
        match unit_sectors {
            0..=8 => Written::W8(vec![0; units]),
            9..=16 => Written::W16(vec![0; units]),
            17..=32 => Written::W32(vec![0; units]),
            _ => Written::W64(vec![0; units]),
        }
    }

    fn use_large_pages(&self) {
        match self {
            Written::W8(list) => crate::hot::use_large_pages(list),
            Written::W16(list) => crate::hot::use_large_pages(list),
            Written::W32(list) => crate::hot::use_large_pages(list),
            Written::W64(list) => crate::hot::use_large_pages(list),
        }
    }

    #[inline]
    fn prefetch(&self, at: usize) {
        match self {
            Written::W8(list) => crate::hot::prefetch(list, at),
            Written::W16(list) => crate::hot::prefetch(list, at),
            Written::W32(list) => crate::hot::prefetch(list, at),
            Written::W64(list) => crate::hot::prefetch(list, at),
        }
    }

    #[inline]
    fn get(&self, at: u32) -> u64 {
        let at = at as usize;
        match self {
            Written::W8(list) => u64::from(list[at]),
            Written::W16(list) => u64::from(list[at]),
            Written::W32(list) => u64::from(list[at]),
            Written::W64(list) => list[at],
        }
    }

    #[inline]
    fn set(&mut self, at: u32, bitmap: u64) {
        let at = at as usize;
        match self {
            Written::W8(list) => list[at] = bitmap as u8,
            Written::W16(list) => list[at] = bitmap as u16,
            Written::W32(list) => list[at] = bitmap as u32,
            Written::W64(list) => list[at] = bitmap,
        }
    }
}

/// A unit in use.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Number of the unit + 1; 0 marks a free place.
    mark: u32,
    /// Slot + 1; 0 when it has none.
    slot: u32,
    bitmap: u64,
}

/// A hash table with linear probing, from which nothing is removed.
#[derive(Debug, Clone)]
struct Sparse {
    places: Vec<Entry>,
    count: usize,
    shift: u32,
}

impl Sparse {
    fn new(places: usize) -> Self {
        Sparse {
            places: vec![Entry::default(); places],
            count: 0,
            shift: u32::BITS + GROUP_BITS - places.trailing_zeros(),
        }
    }

    /// Where the search for a unit begins.
    #[inline]
    fn start(&self, unit: u32) -> usize {
        let group = (unit >> GROUP_BITS).wrapping_mul(0x9e37_79b1) >> self.shift;
        (group << GROUP_BITS | unit & ((1 << GROUP_BITS) - 1)) as usize
    }

    /// The place of a unit, or the free place where it belongs.
    #[inline]
    fn find(&self, unit: u32) -> usize {
        let mask = self.places.len() - 1;
        let mut at = self.start(unit);
        while self.places[at].mark != 0 && self.places[at].mark != unit + 1 {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn get(&self, unit: u32) -> Entry {
        self.places[self.find(unit)]
    }

    #[inline]
    fn entry(&mut self, unit: u32) -> &mut Entry {
        let mut at = self.find(unit);
        if self.places[at].mark == 0 {
            if 2 * (self.count + 1) > self.places.len() {
                self.grow();
                at = self.find(unit);
            }
            self.places[at].mark = unit + 1;
            self.count += 1;
        }
        &mut self.places[at]
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Sparse::new(2 * self.places.len());
        for entry in self.places.iter().filter(|entry| entry.mark != 0) {
            *larger.entry(entry.mark - 1) = *entry;
        }
        *self = larger;
    }
}

#[derive(Debug, Clone)]
enum Table {
    Dense { slots: Vec<u32>, written: Written },
    Sparse(Sparse),
}

impl Table {
    fn dense(unit_sectors: u32, count: usize) -> Self {
        Table::Dense {
            slots: vec![0; count],
            written: Written::new(unit_sectors, count),
        }
    }
}

/// The table of all units.
#[derive(Debug, Clone)]
pub(super) struct Units {
    table: Table,
    count: usize,
    unit_sectors: u32,
}

impl Units {
    /// A table of `count` units of `unit_sectors` sectors.
    pub(super) fn new(unit_sectors: u32, count: usize) -> Self {
        Units {
            table: if count < SPARSE_MIN {
                Table::dense(unit_sectors, count)
            } else {
                Table::Sparse(Sparse::new(PLACES))
            },
            count,
            unit_sectors,
        }
    }

    /// Announces that roughly `count` units will be used. Returns true if that is a large part of
    /// all, so that tables should have large pages.
    pub(super) fn expect(&mut self, count: u64) -> bool {
        let is_large_part = count >= (self.count / SHARE) as u64;
        if is_large_part {
            self.make_dense();
            self.use_large_pages();
        }
        is_large_part
    }

    fn use_large_pages(&self) {
        if let Table::Dense { slots, written } = &self.table {
            crate::hot::use_large_pages(slots);
            written.use_large_pages();
        }
    }

    #[cold]
    fn make_dense(&mut self) {
        let Table::Sparse(sparse) = &self.table else {
            return;
        };
        let mut dense = Table::dense(self.unit_sectors, self.count);
        if let Table::Dense { slots, written } = &mut dense {
            for entry in sparse.places.iter().filter(|entry| entry.mark != 0) {
                slots[entry.mark as usize - 1] = entry.slot;
                written.set(entry.mark - 1, entry.bitmap);
            }
        }
        self.table = dense;
    }

    /// Slot of a unit.
    #[inline]
    pub(super) fn slot(&self, unit: u32) -> Option<u32> {
        match &self.table {
            Table::Dense { slots, .. } => slots[unit as usize].checked_sub(1),
            Table::Sparse(sparse) => sparse.get(unit).slot.checked_sub(1),
        }
    }

    /// Sectors of a unit that hold data.
    #[inline]
    pub(super) fn written(&self, unit: u32) -> u64 {
        match &self.table {
            Table::Dense { written, .. } => written.get(unit),
            Table::Sparse(sparse) => sparse.get(unit).bitmap,
        }
    }

    #[inline]
    pub(super) fn set_slot(&mut self, unit: u32, slot: Option<u32>) {
        let slot = slot.map_or(0, |slot| slot + 1);
        match &mut self.table {
            Table::Dense { slots, .. } => slots[unit as usize] = slot,
            Table::Sparse(sparse) => {
                sparse.entry(unit).slot = slot;
                self.has_grown();
            }
        }
    }

    #[inline]
    pub(super) fn set_written(&mut self, unit: u32, bitmap: u64) {
        match &mut self.table {
            Table::Dense { written, .. } => written.set(unit, bitmap),
            Table::Sparse(sparse) => {
                sparse.entry(unit).bitmap = bitmap;
                self.has_grown();
            }
        }
    }

    /// Sets both the slot and the sectors of a unit.
    #[inline]
    pub(super) fn set(&mut self, unit: u32, slot: u32, bitmap: u64) {
        match &mut self.table {
            Table::Dense { slots, written } => {
                slots[unit as usize] = slot + 1;
                written.set(unit, bitmap);
            }
            Table::Sparse(sparse) => {
                let entry = sparse.entry(unit);
                entry.slot = slot + 1;
                entry.bitmap = bitmap;
                self.has_grown();
            }
        }
    }

    #[inline]
    fn has_grown(&mut self) {
        if let Table::Sparse(sparse) = &self.table
            && sparse.count > self.count / SHARE
        {
            self.make_dense();
            self.use_large_pages();
        }
    }

    /// Prefetches what a lookup of unit `at` will read, if there is such a unit.
    #[inline]
    pub(super) fn prefetch(&self, at: usize) {
        match &self.table {
            Table::Dense { slots, written } => {
                crate::hot::prefetch(slots, at);
                written.prefetch(at);
            }
            Table::Sparse(sparse) => crate::hot::prefetch(&sparse.places, sparse.start(at as u32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_keeps_its_entries_while_it_grows_and_becomes_dense() {
        let count = SPARSE_MIN + 77;
        let mut units = Units::new(8, count);
        let mut expected = BTreeMap::new();
        let mut unit = 1u32;
        for step in 0..100_000u32 {
            unit = unit.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = unit % count as u32;
            let slot = (step % 5 != 0).then_some(step);
            units.set_slot(at, slot);
            units.set_written(at, u64::from(step % 256));
            expected.insert(at, (slot, u64::from(step % 256)));
            if step == 50_000 {
                assert!(matches!(units.table, Table::Sparse(_)));
            }
        }
        assert!(matches!(units.table, Table::Dense { .. }));
        for at in (0..count as u32).step_by(7).chain(expected.keys().copied()) {
            let seen = (units.slot(at), units.written(at));
            assert_eq!(
                seen,
                expected.get(&at).copied().unwrap_or((None, 0)),
                "{at}"
            );
        }
    }

    #[test]
    fn only_few_units_of_a_large_drive_have_a_sparse_table() {
        let is_dense = |units: &Units| matches!(units.table, Table::Dense { .. });
        assert!(is_dense(&Units::new(8, SPARSE_MIN - 1)));
        let mut units = Units::new(8, SPARSE_MIN);
        units.set_slot(5, Some(7));
        assert!(!units.expect((SPARSE_MIN / SHARE) as u64 - 1) && !is_dense(&units));
        assert!(units.expect((SPARSE_MIN / SHARE) as u64) && is_dense(&units));
        assert_eq!((units.slot(5), units.slot(6)), (Some(7), None));
    }
}
