//! Mapping tables: from logical units to slots; also the cache of table entries and the table
//! pages.
//!
//! Model: the tables are authoritative and always available. The cache ([`Cmt`]) decides only the
//! cost of a lookup. Entries are evicted in LRU order. A dirty entry causes a read-modify-write of
//! its table page, together with all other dirty entries of that page (DFTL, Gupta et al., ASPLOS
//! 2009, as MQSim models it). Table pages are stored in flash like data.
//!
//! Bounds: the table of units ([`super::units`]); 40 bytes per cache entry.

use super::cmt::Cmt;
use super::params::{Params, SECTOR_BYTES, StaticOrder};
use super::types::{IntMap, IntSet, List, NONE, Pool};
use super::units::Units;
use super::{Drive, Op, sectors};
use crate::drive::types::Frontier;
use crate::drive::types::{Kind, Source, Tr};

/// A part of the logical space and the planes that it uses.
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub(super) sectors: u64,
    pub(super) ids: [Vec<u32>; 4],
}

/// A part of the logical space: what one queue sees, or a namespace.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    pub(super) base: u32,
    /// First sector in the host's numbering.
    pub(super) first_sector: u64,
    pub(super) units: u32,
    pub(super) sectors: u64,
    pub(super) ids: [Vec<u32>; 4],
    pub(super) order: StaticOrder,
    pub(super) cmt: Cmt,
    /// Physical page + 1 of every table page; 0 when never written.
    pub(super) table: Vec<u32>,
    /// Number of table pages that are on flash from the start.
    pub(super) table_pages: u32,
    /// Units whose table page is being read: first and last node, by table page.
    arriving: IntMap<(u32, u32)>,
    nodes: Pool<(u32, u32)>,
    departing: IntSet,
    waiting_reads: IntMap<List>,
    waiting_writes: IntMap<List>,
}

/// All tables of a drive.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    pub(super) domains: Vec<Domain>,
    /// The domain of each queue.
    pub(super) of_queue: Vec<usize>,
    units: Units,
    /// Units that collection has locked (compat only), and the operations that were stopped there.
    pub(super) locked: IntSet,
    pub(super) behind: IntMap<List>,
    /// Writes that wait for a free block, by plane.
    pub(super) overfull: Vec<List>,
}

impl Mapping {
    /// The tables of `ranges`; `of_queue` has the range of each queue.
    pub(super) fn new(p: &Params, ranges: &[Range], of_queue: Vec<usize>) -> Self {
        let mut domains = Vec::with_capacity(ranges.len());
        let (mut base, mut first_sector) = (0u32, 0u64);
        for range in ranges {
            let units = range.sectors.div_ceil(u64::from(p.unit_sectors)) as u32;
            let table_pages = units / p.map_entries_per_page;
            domains.push(Domain {
                base,
                first_sector,
                units,
                sectors: range.sectors,
                ids: range.ids.clone(),
                order: StaticOrder::new(p, &range.ids),
                cmt: Cmt::new(p.cmt_entries),
                table: vec![0; table_pages as usize + 1],
                table_pages,
                arriving: IntMap::default(),
                nodes: Pool::new((NONE, NONE)),
                departing: IntSet::default(),
                waiting_reads: IntMap::default(),
                waiting_writes: IntMap::default(),
            });
            base += units;
            first_sector += range.sectors;
        }
        Mapping {
            domains,
            of_queue,
            units: Units::new(p.unit_sectors, base as usize),
            locked: IntSet::default(),
            behind: IntMap::default(),
            overfull: vec![List::EMPTY; p.plane_count as usize],
        }
    }

    /// The domain of a queue.
    #[inline]
    pub(super) fn domain(&self, queue: u16) -> &Domain {
        &self.domains[self.of_queue[usize::from(queue)]]
    }

    pub(super) fn range_sectors(&self, queue: u16) -> u64 {
        self.domains[self.of_queue[usize::from(queue)]].sectors
    }

    /// Mapping units of a queue's range.
    pub(super) fn units(&self, queue: u16) -> u32 {
        self.domains[self.of_queue[usize::from(queue)]].units
    }

    /// First sector of a queue's range in the host's numbering.
    pub(super) fn first_sector(&self, queue: u16) -> u64 {
        self.domains[self.of_queue[usize::from(queue)]].first_sector
    }

    /// Number of the range that contains `unit`.
    pub(super) fn range_of(&self, unit: u32) -> usize {
        let after = self.domains.partition_point(|domain| domain.base <= unit);
        after.saturating_sub(1)
    }

    /// First unit of the range that contains `unit`.
    pub(super) fn base_of(&self, unit: u32) -> u32 {
        let bases = self.domains.iter().map(|domain| domain.base);
        bases.rev().find(|base| *base <= unit).unwrap_or(0)
    }

    pub(super) fn base(&self, queue: u16) -> u32 {
        self.domains[self.of_queue[usize::from(queue)]].base
    }

    /// Slot of a unit; `None` when it was never written.
    #[inline]
    pub(super) fn slot(&self, unit: u32) -> Option<u32> {
        self.units.slot(unit)
    }

    /// Prefetches the entry that a lookup will read: the unit of the sector at offset `inside` in
    /// the range of `queue`.
    #[inline]
    pub(super) fn prefetch_slot(&self, p: &Params, queue: u16, inside: u64) {
        let (unit, _) = p.unit_of_sector(inside);
        // N.B. MQSim's generator sometimes leaves the range.
        let at = u64::from(self.base(queue)).wrapping_add(unit) as usize;
        self.units.prefetch(at);
    }

    /// [`Units::expect`].
    pub(super) fn expect_units(&mut self, count: u64) -> bool {
        self.units.expect(count)
    }

    #[inline]
    pub(super) fn set_slot(&mut self, unit: u32, slot: Option<u32>) {
        self.units.set_slot(unit, slot);
    }

    /// A plane with waiting writes, and their number.
    pub(super) fn waiting_planes(&self) -> Option<(usize, u32)> {
        self.overfull
            .iter()
            .map(|list| list.count)
            .enumerate()
            .find(|(_, len)| *len > 0)
    }

    pub(super) fn written_direct(&self, unit: u32) -> u64 {
        self.units.written(unit)
    }

    pub(super) fn set_written_direct(&mut self, unit: u32, bitmap: u64) {
        self.units.set_written(unit, bitmap);
    }
}

impl Drive {
    /// Writes the whole mapping table to flash; takes no simulated time.
    pub(super) fn store_mapping_table(&mut self) {
        if self.p.resident && !self.p.compat {
            return;
        }
        for queue in 0..self.map.domains.len() as u16 {
            for page in 0..self.map.domains[self.map.of_queue[usize::from(queue)]].table_pages {
                self.place_table_page(queue, page);
            }
        }
        if !self.p.compat {
            for block in &mut self.blocks.list {
                block.programs = 0;
            }
        }
    }

    /// Gives table page `at` a new physical page. Returns `None` when its plane has none.
    fn place_table_page(&mut self, queue: u16, at: u32) -> Option<u32> {
        if self.fault.is_some() {
            // The run ends with this event; the old page may already be gone.
            return None;
        }
        let domain = self.map.domain(queue);
        let plane = domain.order.plane(at);
        if let Some(old) = domain.table[at as usize].checked_sub(1) {
            for slot in 0..self.p.slots {
                self.blocks.invalidate(
                    &self.p,
                    u64::from(old) * u64::from(self.p.slots) + u64::from(slot),
                );
            }
        }
        let Some(page) = self.take_page(plane, queue, Frontier::Table, self.p.slots) else {
            self.plane_exhausted(plane);
            return None;
        };
        for slot in 0..self.p.slots {
            self.blocks.back[(page * self.p.slots + slot) as usize] = at + 1;
        }
        self.map.domains[self.map.of_queue[usize::from(queue)]].table[at as usize] = page + 1;
        Some(page)
    }

    /// True when the entry of `unit` is in the cache.
    #[inline]
    pub(super) fn entry_present(&self, queue: u16, unit: u32) -> bool {
        self.p.resident
            || self.map.domains[self.map.of_queue[usize::from(queue)]]
                .cmt
                .valid(unit)
                .is_some()
    }

    /// Sectors of `unit` that hold data, according to its entry.
    #[inline]
    pub(super) fn written(&self, queue: u16, unit: u32) -> u64 {
        if !self.p.resident && self.p.compat {
            // MQSim keeps separate sector maps for a cached entry and for the table.
            let cmt = &self.map.domain(queue).cmt;
            if let Some(at) = cmt.valid(unit) {
                return cmt.entries[at].bitmap;
            }
        }
        self.map.units.written(unit)
    }

    /// Marks the entry as used.
    #[inline]
    pub(super) fn touch_entry(&mut self, queue: u16, unit: u32) {
        if !self.p.resident {
            let cmt = &mut self.map.domains[self.map.of_queue[usize::from(queue)]].cmt;
            if let Some(at) = cmt.valid(unit) {
                cmt.touch(at);
            }
        }
    }

    /// Changes the entry of `unit`.
    #[inline]
    pub(super) fn update_entry(&mut self, queue: u16, unit: u32, slot: u32, bitmap: u64) {
        if self.p.resident {
            self.map.units.set(unit, slot, bitmap);
            return;
        }
        self.map.set_slot(unit, Some(slot));
        let cmt = &mut self.map.domains[self.map.of_queue[usize::from(queue)]].cmt;
        match cmt.valid(unit) {
            Some(at) => {
                cmt.entries[at].bitmap = bitmap;
                cmt.entries[at].dirty = true;
                if !self.p.compat {
                    self.map.units.set_written(unit, bitmap);
                }
            }
            None => self.map.units.set_written(unit, bitmap),
        }
    }

    /// Discards the entry of a trimmed unit.
    pub(super) fn clear_entry(&mut self, queue: u16, unit: u32) {
        self.map.set_slot(unit, None);
        self.map.units.set_written(unit, 0);
        let cmt = &mut self.map.domains[self.map.of_queue[usize::from(queue)]].cmt;
        if let Some(at) = cmt.valid(unit) {
            cmt.entries[at].dirty = true;
        }
    }

    /// Drops the whole units of a trimmed range.
    pub(super) fn trim(&mut self, req: u32) {
        let (queue, lba, count) = {
            let r = &self.reqs[req];
            (r.queue, r.lba, u64::from(r.sectors))
        };
        debug_assert!(self.reqs[req].op == Op::Trim);
        let first_sector = self.map.first_sector(queue);
        let per_unit = u64::from(self.p.unit_sectors);
        let start = lba.saturating_sub(first_sector);
        let domain = self.map.domain(queue);
        let (base, units) = (domain.base, u64::from(domain.units));
        let first = start.div_ceil(per_unit);
        let end = ((start + count) / per_unit).min(units);
        for unit in first..end {
            let unit = base + unit as u32;
            if self.pack.holds(unit) {
                continue;
            }
            if let Some(slot) = self.map.slot(unit) {
                self.blocks.invalidate(&self.p, u64::from(slot));
                self.clear_entry(queue, unit);
            }
        }
    }

    /// Makes room for one entry and writes the evicted entry back.
    ///
    /// Entries whose table page is being read stay, because operations that wait for them would
    /// otherwise wait forever (MQSim evicts them). If only such entries are left, the cache exceeds
    /// its size until they are filled; they are then in the buffers of their operations.
    fn make_room(&mut self, queue: u16) {
        let mut is_left_alone = false;
        while !is_left_alone
            && self.map.domains[self.map.of_queue[usize::from(queue)]]
                .cmt
                .full()
        {
            let cmt = &mut self.map.domains[self.map.of_queue[usize::from(queue)]].cmt;
            let evicted = if self.p.compat {
                is_left_alone = true;
                cmt.evict()
            } else {
                cmt.evict_idle()
            };
            let Some(entry) = evicted else { break };
            if entry.dirty {
                self.map.units.set_written(entry.unit, entry.bitmap);
                self.write_table_page(queue, entry.unit);
            }
        }
    }

    fn fill_entry(&mut self, queue: u16, at: u32) {
        let unit = self.map.domains[self.map.of_queue[usize::from(queue)]]
            .cmt
            .entries[at]
            .unit;
        let bitmap = self.map.units.written(unit);
        let entry = &mut self.map.domains[self.map.of_queue[usize::from(queue)]]
            .cmt
            .entries[at];
        entry.bitmap = bitmap;
        entry.waiting = false;
        entry.dirty = false;
    }

    /// Puts an entry into the cache; takes no simulated time (preconditioning, collection).
    pub(super) fn insert_entry(&mut self, queue: u16, unit: u32, write_back: bool) {
        if self.map.domains[self.map.of_queue[usize::from(queue)]]
            .cmt
            .valid(unit)
            .is_some()
        {
            return;
        }
        if write_back {
            self.make_room(queue);
        } else if self.map.domains[self.map.of_queue[usize::from(queue)]]
            .cmt
            .full()
        {
            self.map.domains[self.map.of_queue[usize::from(queue)]]
                .cmt
                .evict();
        }
        let domain = &mut self.map.domains[self.map.of_queue[usize::from(queue)]];
        let at = match domain.cmt.find(unit) {
            Some(at) => at,
            None => domain.cmt.reserve(unit),
        };
        self.fill_entry(queue, at);
    }

    fn table_page_of(&self, queue: u16, unit: u32) -> u32 {
        (unit - self.map.base(queue)) / self.p.map_entries_per_page
    }

    /// Makes the entry of `unit` available. Returns true when it is available already, false when a
    /// table page must be read first.
    pub(super) fn request_entry(&mut self, queue: u16, unit: u32) -> bool {
        let page = self.table_page_of(queue, unit);
        let domain = self.map.domain(queue);
        if domain.table[page as usize] == 0 {
            // First access to this part of the table, so there is nothing to read.
            self.make_room(queue);
            let at = self.map.domains[self.map.of_queue[usize::from(queue)]]
                .cmt
                .reserve(unit);
            self.fill_entry(queue, at);
            return true;
        }
        let arriving = domain.arriving.contains_key(&page);
        if arriving && domain.cmt.find(unit).is_some() {
            return false;
        }
        let departing = domain.departing.contains(&page);
        self.make_room(queue);
        let at = self.map.domains[self.map.of_queue[usize::from(queue)]]
            .cmt
            .reserve(unit);
        if arriving {
            self.note_arrival(queue, page, unit);
            return false;
        }
        if departing {
            // Its table page stays in DRAM until it has been written.
            self.fill_entry(queue, at);
            return true;
        }
        self.read_table_page(queue, page, unit);
        false
    }

    fn note_arrival(&mut self, queue: u16, page: u32, unit: u32) {
        let domain = &mut self.map.domains[self.map.of_queue[usize::from(queue)]];
        let node = domain.nodes.put((unit, NONE));
        let nodes = &mut domain.nodes;
        domain
            .arriving
            .entry(page)
            .and_modify(|(_, last)| {
                nodes[*last].1 = node;
                *last = node;
            })
            .or_insert((node, node));
    }

    /// Makes `tr` wait for the entry of its unit.
    pub(super) fn wait_for_entry(&mut self, tr: u32) {
        let Tr {
            queue, lpa, kind, ..
        } = self.trs[tr];
        let domain = &mut self.map.domains[self.map.of_queue[usize::from(queue)]];
        let waiting = if kind == Kind::Read {
            &mut domain.waiting_reads
        } else {
            &mut domain.waiting_writes
        };
        waiting
            .entry(lpa)
            .or_insert(List::EMPTY)
            .push(&mut self.trs, tr);
    }

    fn table_read(&mut self, queue: u16, page: u32, physical: u32, bytes: u32) -> u32 {
        let mut read = Tr::new(Kind::Read, Source::Mapping, queue, 1);
        read.lpa = page;
        read.page = physical;
        read.bytes = bytes;
        read.stamp = self.now;
        read.placed = true;
        self.blocks.list[self.p.block_of_page(physical) as usize].reads += 1;
        self.trs.put(read)
    }

    fn read_table_page(&mut self, queue: u16, page: u32, unit: u32) {
        self.note_arrival(queue, page, unit);
        self.open_batch();
        let physical =
            self.map.domains[self.map.of_queue[usize::from(queue)]].table[page as usize] - 1;
        let read = self.table_read(queue, page, physical, SECTOR_BYTES);
        self.submit_tr(read);
        self.stats.map_reads += 1;
        self.close_batch();
    }

    /// Writes the table page of `unit` back, with all dirty entries that it holds.
    fn write_table_page(&mut self, queue: u16, unit: u32) {
        let page = self.table_page_of(queue, unit);
        self.open_batch();
        let per_page = self.p.map_entries_per_page;
        let domain = &mut self.map.domains[self.map.of_queue[usize::from(queue)]];
        let first = domain.base + page * per_page;
        let mut merge = 0u64;
        for at in 0..per_page {
            let Some(slot) = domain.cmt.valid(first + at) else {
                continue;
            };
            if domain.cmt.entries[slot].dirty {
                domain.cmt.entries[slot].dirty = false;
                domain.cmt.touch(slot);
            } else {
                merge |= 1u64 << (at * self.p.map_entry_bytes / SECTOR_BYTES).min(63);
            }
        }
        let old = self.map.domains[self.map.of_queue[usize::from(queue)]].table[page as usize]
            .checked_sub(1);
        let read = old.map(|physical| {
            let bytes = if self.p.compat {
                sectors(merge) * SECTOR_BYTES
            } else {
                self.p.page_bytes
            };
            let read = self.table_read(queue, page, physical, bytes);
            self.note_arrival(queue, page, unit);
            self.submit_tr(read);
            self.stats.map_reads += 1;
            read
        });
        let Some(physical) = self.place_table_page(queue, page) else {
            self.close_batch();
            return;
        };
        let mut write = Tr::new(Kind::Program, Source::Mapping, queue, 1);
        write.lpa = page;
        write.page = physical;
        write.bytes = self.p.page_bytes;
        write.stamp = self.now;
        write.placed = true;
        write.related = read.unwrap_or(NONE);
        let write = self.trs.put(write);
        if let Some(read) = read
            && !self.p.compat
        {
            // MQSim never links the two, so its table writes wait forever.
            self.trs[read].related = write;
        }
        self.map.domains[self.map.of_queue[usize::from(queue)]]
            .departing
            .insert(page);
        self.submit_tr(write);
        self.stats.map_writes += 1;
        self.close_batch();
    }

    /// A table page has been read or written.
    pub(super) fn table_served(&mut self, tr: u32) {
        let Tr {
            queue,
            lpa: page,
            kind,
            related,
            ..
        } = self.trs[tr];
        if kind == Kind::Program {
            self.map.domains[self.map.of_queue[usize::from(queue)]]
                .departing
                .remove(&page);
            return;
        }
        if related != NONE {
            self.trs[related].related = NONE;
        }
        self.open_batch();
        while let Some(unit) = self.next_arrival(queue, page) {
            let cmt = &self.map.domain(queue).cmt;
            if let Some(at) = cmt.find(unit)
                && cmt.entries[at].waiting
            {
                self.fill_entry(queue, at);
                self.resume_waiting(queue, unit);
            }
        }
        self.close_batch();
    }

    fn next_arrival(&mut self, queue: u16, page: u32) -> Option<u32> {
        let domain = &mut self.map.domains[self.map.of_queue[usize::from(queue)]];
        let (first, last) = *domain.arriving.get(&page)?;
        let (unit, next) = domain.nodes[first];
        domain.nodes.drop_at(first);
        if next == NONE {
            domain.arriving.remove(&page);
        } else {
            domain.arriving.insert(page, (next, last));
        }
        Some(unit)
    }

    fn resume_waiting(&mut self, queue: u16, unit: u32) {
        let domain = &mut self.map.domains[self.map.of_queue[usize::from(queue)]];
        let lists = [
            domain.waiting_reads.remove(&unit),
            domain.waiting_writes.remove(&unit),
        ];
        for mut list in lists.into_iter().flatten() {
            while let Some(tr) = list.pop(&mut self.trs) {
                if self.map.locked.contains(&unit) {
                    self.stop_at_barrier(tr);
                } else if self.translate(tr) {
                    self.submit_placed(tr);
                }
            }
        }
    }
}
