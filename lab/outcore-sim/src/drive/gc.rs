//! Garbage collection and wear levelling.
//!
//! Model: when the free blocks of a plane fall below the threshold, a policy chooses a victim
//! (greedy, d-choices, random, FIFO: B. Van Houdt, SIGMETRICS 2013; P. Desnoyers, SYSTOR 2012). The
//! collector reads the victim's valid pages, writes them to the plane's frontier for collected
//! data, and erases the victim. Dynamic wear levelling uses the least worn free block next. Static
//! wear levelling moves the least worn full block when erase counts drift apart.
//!
//! With `compat` the collector reproduces MQSim's races:
//! - The units of a victim are locked. User operations that meet the lock are dropped when it is
//!   released, so their requests never end.
//! - A victim with user operations under way is collected later but never erased.
//! - Static levelling compares block numbers instead of erase counts and marks the wrong block.
//!
//! The queue of a collection's operations is the stream of its victim ([`super::spaces`]).
//!
//! Without `compat` nothing is locked. The collector skips a unit that was rewritten in the
//! meantime, and the erase waits for reads of the block.

use super::params::{Params, SECTOR_BYTES};
use super::types::{Frontier, Kind, List, NONE, Source, Tr};
use super::{Drive, QueueConfig};
use crate::config::GcPolicy;
use crate::rng::Rng;

/// Seed of MQSim's collector; its configuration has no effect on it.
const COMPAT_SEED: i32 = 432;

/// Why a block is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The plane has few free blocks.
    Space,
    /// Its data is cold and its wear is low.
    Wear,
    /// It belongs to the SLC cache.
    Fold,
}

/// State of the collector.
#[derive(Debug, Clone)]
pub(super) struct Gc {
    rng: Rng,
    /// RANDOM++ chooses only blocks with at least this many invalid pages.
    random_pp_min: u32,
    candidates: Vec<u32>,
    victim_pages: Vec<u32>,
}

impl Gc {
    pub(super) fn new(p: &Params, queues: &[QueueConfig], seed: i32) -> Self {
        let occupancy = queues
            .iter()
            .map(|queue| queue.occupancy)
            .fold(0.0, f64::max);
        Gc {
            rng: Rng::new(if p.compat { COMPAT_SEED } else { seed }),
            random_pp_min: (occupancy * f64::from(p.pages)) as u32,
            candidates: Vec::with_capacity(64),
            victim_pages: Vec::new(),
        }
    }
}

impl Drive {
    /// Starts a collection in `plane` when it has few free blocks.
    pub(super) fn check_collection(&mut self, plane: u32) {
        if self.blocks.pool(&self.p, plane) >= self.p.gc_threshold {
            return;
        }
        if self.p.slc_blocks > 0 && self.fold(plane) {
            return;
        }
        let state = &self.blocks.planes[plane as usize];
        if state.erasing.len() >= self.p.gc_concurrent as usize {
            return;
        }
        // A collection may need a whole block before it frees one, so there are never more
        // collections than free blocks.
        if !self.p.compat && state.erasing.len() >= self.blocks.pool(&self.p, plane) as usize {
            return;
        }
        let Some(victim) = self.choose_victim(plane) else {
            return;
        };
        if self.blocks.planes[plane as usize].erasing.contains(&victim) {
            return;
        }
        let Some(victim) = self.gainful(plane, victim) else {
            return;
        };
        self.collect(plane, victim, Reason::Space);
    }

    /// Returns the victim if collecting it gains space. Outside `compat`, a victim that frees no
    /// page is replaced by the best block. Collecting a block with fewer obsolete units than a page
    /// has would fill as many pages again, forever.
    fn gainful(&self, plane: u32, victim: u32) -> Option<u32> {
        let gains = |victim: u32, least: u32| {
            let block = &self.blocks.list[(plane * self.p.blocks + victim) as usize];
            block.written > 0 && block.invalid >= least
        };
        if self.p.compat {
            return gains(victim, 1).then_some(victim);
        }
        if gains(victim, self.p.slots) {
            return Some(victim);
        }
        self.most_invalid(plane)
            .filter(|best| gains(*best, self.p.slots))
    }

    /// True when the block may be collected: it is no frontier, has no program under way and is not
    /// being collected.
    pub(super) fn safe(&self, plane: u32, block: u32) -> bool {
        let entry = &self.blocks.list[(plane * self.p.blocks + block) as usize];
        !self.blocks.is_frontier(plane, block) && entry.programs <= 0 && !entry.collecting
    }

    /// True when a collection is worthwhile. Outside `compat` only full blocks with obsolete data
    /// are.
    fn worthwhile(&self, plane: u32, block: u32) -> bool {
        let entry = &self.blocks.list[(plane * self.p.blocks + block) as usize];
        entry.written == self.p.pages
            && entry.invalid > 0
            && !entry.is_slc
            && !entry.is_zoned
            && self.safe(plane, block)
    }

    fn choose_victim(&mut self, plane: u32) -> Option<u32> {
        match self.p.gc_policy {
            GcPolicy::Greedy => self.most_invalid(plane),
            GcPolicy::Rga => self.best_of_some(plane),
            GcPolicy::Random => self.random_block(plane, |_, _| true),
            GcPolicy::RandomP => self.random_block(plane, |p, block| block.written >= p.pages),
            GcPolicy::RandomPp => {
                let least = self.gc.random_pp_min;
                self.random_block(plane, move |p, block| {
                    block.written >= p.pages && block.invalid / p.slots >= least
                })
            }
            GcPolicy::Fifo => self.oldest(plane),
        }
    }

    pub(super) fn most_invalid(&self, plane: u32) -> Option<u32> {
        let first = plane * self.p.blocks;
        let list = &self.blocks.list;
        if !self.p.compat {
            return (0..self.p.blocks)
                .filter(|block| self.worthwhile(plane, *block))
                .max_by_key(|block| {
                    (
                        list[(first + block) as usize].invalid,
                        std::cmp::Reverse(*block),
                    )
                });
        }
        let mut best = u32::from(self.blocks.planes[plane as usize].erasing.contains(&0));
        for block in 1..self.p.blocks {
            let entry = &list[(first + block) as usize];
            if entry.invalid > list[(first + best) as usize].invalid
                && entry.written == self.p.pages
                && self.safe(plane, block)
            {
                best = block;
            }
        }
        Some(best)
    }

    fn best_of_some(&mut self, plane: u32) -> Option<u32> {
        let mut chosen = std::mem::take(&mut self.gc.candidates);
        chosen.clear();
        let last = u64::from(self.p.blocks - 1);
        // MQSim draws until it has enough candidates. A plane with too few candidates would loop
        // forever.
        let mut draws = 0u32;
        let draws_max = self.p.blocks.saturating_mul(64).max(4096);
        while chosen.len() < self.p.gc_choices as usize && draws < draws_max {
            draws += 1;
            let block = self.gc.rng.between(0, last) as u32;
            let free_of_erase = !self.blocks.planes[plane as usize].erasing.contains(&block);
            let fits = if self.p.compat {
                free_of_erase && self.safe(plane, block)
            } else {
                self.worthwhile(plane, block)
            };
            if fits && !chosen.contains(&block) {
                chosen.push(block);
            } else if !self.p.compat && draws > 4 * self.p.blocks {
                break;
            }
        }
        chosen.sort_unstable();
        let first = plane * self.p.blocks;
        let mut best = chosen.first().copied();
        for block in &chosen {
            let entry = &self.blocks.list[(first + block) as usize];
            if let Some(current) = best
                && entry.invalid > self.blocks.list[(first + current) as usize].invalid
                && entry.written == self.p.pages
            {
                best = Some(*block);
            }
        }
        self.gc.candidates = chosen;
        best.or_else(|| {
            if self.p.compat {
                None
            } else {
                self.most_invalid(plane)
            }
        })
    }

    fn random_block(
        &mut self,
        plane: u32,
        fits: impl Fn(&Params, &super::blocks::Block) -> bool,
    ) -> Option<u32> {
        let last = u64::from(self.p.blocks - 1);
        let mut block = self.gc.rng.between(0, last) as u32;
        for _ in 0..self.p.blocks {
            let entry = &self.blocks.list[(plane * self.p.blocks + block) as usize];
            let good = if self.p.compat {
                fits(&self.p, entry) && self.safe(plane, block)
            } else {
                fits(&self.p, entry) && self.worthwhile(plane, block)
            };
            if good {
                return Some(block);
            }
            block = self.gc.rng.between(0, last) as u32;
        }
        if self.p.compat {
            Some(block)
        } else {
            self.most_invalid(plane)
        }
    }

    fn oldest(&mut self, plane: u32) -> Option<u32> {
        if self.p.compat {
            return self.blocks.planes[plane as usize].history.pop_front();
        }
        for _ in 0..self.blocks.planes[plane as usize].history.len() {
            let block = self.blocks.planes[plane as usize].history.pop_front()?;
            if self.worthwhile(plane, block) {
                return Some(block);
            }
            self.blocks.planes[plane as usize].history.push_back(block);
        }
        None
    }

    /// Starts moving the data of a block, and queues its erase.
    pub(super) fn collect(&mut self, plane: u32, victim: u32, reason: Reason) {
        let block = plane * self.p.blocks + victim;
        if reason != Reason::Wear || !self.p.compat {
            self.blocks.list[block as usize].collecting = true;
        } else if victim < self.p.channels {
            // MQSim uses the block number as an address and therefore marks block 0 of a channel.
            let channel_planes = self.p.chips * self.p.dies * self.p.planes;
            let wrong = victim * channel_planes * self.p.blocks;
            self.blocks.list[wrong as usize].collecting = true;
        }
        self.blocks.planes[plane as usize].erasing.push(victim);
        if self.p.compat {
            self.lock_block(block);
            let entry = &self.blocks.list[block as usize];
            if entry.programs + entry.reads != 0 {
                return;
            }
        }
        match reason {
            Reason::Space => self.stats.collections += 1,
            Reason::Wear => self.stats.wear_moves += 1,
            Reason::Fold => self.stats.folds += 1,
        }
        self.open_batch();
        let erase = self.move_pages(block);
        self.submit_tr(erase);
        self.close_batch();
    }

    /// Submits the reads of the block's valid pages. Returns the block's erase, which waits for the
    /// moves.
    fn move_pages(&mut self, block: u32) -> u32 {
        let (queue, written) = {
            let entry = &self.blocks.list[block as usize];
            (entry.stream, entry.written)
        };
        let slots = u64::from(self.p.slots);
        let unit_bytes = self.p.unit_sectors * SECTOR_BYTES;
        let first_page = block * self.p.pages;
        let mut erase = Tr::new(Kind::Erase, Source::Gc, queue, 1);
        erase.page = first_page;
        erase.erase = 0;
        erase.placed = true;
        let erase = self.trs.put(erase);
        let mut reads = 0;
        let mut pages = std::mem::take(&mut self.gc.victim_pages);
        pages.clear();
        pages.extend(first_page..first_page + written);
        for page in &pages {
            let start = u64::from(*page) * slots;
            let valid = (start..start + slots)
                .filter(|slot| self.blocks.slot_valid(&self.p, *slot))
                .count() as u32;
            if valid == 0 {
                continue;
            }
            let mut read = Tr::new(Kind::Read, Source::Gc, queue, 1);
            read.page = *page;
            read.bytes = valid * unit_bytes;
            read.erase = erase;
            read.placed = true;
            read.stamp = self.now;
            let read = self.trs.put(read);
            self.trs[erase].erase += 1;
            reads += 1;
            self.submit_tr(read);
        }
        // During the moves, the erase's own request field counts the remaining reads.
        self.trs[erase].req = reads;
        self.gc.victim_pages = pages;
        erase
    }

    fn lock_block(&mut self, block: u32) {
        if self.blocks.list[block as usize].holds_map {
            return;
        }
        let first_page = block * self.p.pages;
        for page in first_page..first_page + self.blocks.list[block as usize].written {
            if self.blocks.slot_valid(&self.p, u64::from(page))
                && let Some(unit) = self.blocks.back[page as usize].checked_sub(1)
            {
                self.map.locked.insert(unit);
            }
        }
    }

    fn unlock_unit(&mut self, unit: u32) {
        self.map.locked.remove(&unit);
        if let Some(mut list) = self.map.behind.remove(&unit) {
            while let Some(tr) = list.pop(&mut self.trs) {
                let req = self.trs[tr].req;
                if req != NONE && !std::mem::replace(&mut self.reqs[req].lost, true) {
                    self.stats.lost_requests += 1;
                }
                self.trs.drop_at(tr);
            }
        }
    }

    /// Updates the block's bookkeeping when an operation on it finishes.
    pub(super) fn collection_served(&mut self, tr: u32) {
        let Tr {
            source, kind, page, ..
        } = self.trs[tr];
        let block = self.p.block_of_page(page);
        if source != Source::Gc {
            let entry = &mut self.blocks.list[block as usize];
            match kind {
                Kind::Read => entry.reads -= 1,
                _ => entry.programs -= 1,
            }
            if entry.collecting && self.p.compat && entry.reads + entry.programs == 0 {
                self.late_collection(block);
            }
            return;
        }
        match kind {
            Kind::Read => self.page_collected(tr, block),
            Kind::Program => self.page_moved(tr, block),
            Kind::Erase => self.block_erased(block),
        }
    }

    /// MQSim: the user operations that delayed a collection are finished. Its pages are moved, but
    /// nothing submits the erase.
    fn late_collection(&mut self, block: u32) {
        self.stats.collections += 1;
        self.open_batch();
        self.move_pages(block);
        self.close_batch();
    }

    fn page_collected(&mut self, tr: u32, block: u32) {
        let Tr {
            queue, page, erase, ..
        } = self.trs[tr];
        let table = self.blocks.list[block as usize].holds_map;
        self.open_batch();
        if table {
            self.move_table_page(queue, page, erase);
        } else {
            for slot in page * self.p.slots..(page + 1) * self.p.slots {
                if self.blocks.slot_valid(&self.p, u64::from(slot)) {
                    self.move_slot(queue, slot, erase);
                }
            }
            // One read is done. Its programs are counted separately.
            self.trs[erase].erase -= 1;
            self.trs[erase].req -= 1;
            let Tr {
                req: reads_left,
                units,
                ..
            } = self.trs[erase];
            if reads_left == 0 && units != NONE {
                // The victim's last page has been read, so the remaining slots are programmed.
                self.program_collected(queue, erase);
            }
        }
        self.close_batch();
    }

    /// Moves one valid slot: immediately for whole pages, otherwise into the page that the
    /// collection fills.
    fn move_slot(&mut self, queue: u16, slot: u32, erase: u32) {
        let Some(unit) = self.blocks.back[slot as usize].checked_sub(1) else {
            return;
        };
        self.stats.moved_units += 1;
        self.count_moved_unit(queue, unit);
        let mut moved = Tr::new(Kind::Program, Source::Gc, queue, 1);
        moved.lpa = unit;
        moved.page = slot;
        let moved = self.trs.put(moved);
        // The chain is kept in order of arrival through `sibling`.
        self.trs[moved].sibling = self.trs[erase].units;
        self.trs[erase].units = moved;
        self.trs[erase].bitmap += 1;
        self.trs[erase].erase += 1;
        if self.trs[erase].bitmap == u64::from(self.p.slots) {
            self.program_collected(queue, erase);
        }
    }

    /// Programs the slots that a collection has gathered.
    fn program_collected(&mut self, queue: u16, erase: u32) {
        let gathered = self.trs[erase].bitmap as u32;
        let plane = self.p.plane_of_page(self.trs[erase].page);
        let (mut chain, mut kept) = (self.trs[erase].units, 0);
        self.trs[erase].units = NONE;
        self.trs[erase].bitmap = 0;
        if !self.p.compat && !self.p.resident {
            let mut at = chain;
            while at != NONE {
                self.touch_entry(queue, self.trs[at].lpa);
                at = self.trs[at].sibling;
            }
        }
        if self.p.compat && !self.p.resident {
            self.insert_entry(queue, self.trs[chain].lpa, true);
        }
        // The old place is invalidated before a new page is taken. Taking a page may start the next
        // collection, which must not move the same data.
        let mut at = chain;
        while at != NONE {
            let Tr {
                lpa: unit,
                page: slot,
                sibling,
                ..
            } = self.trs[at];
            if self.map.slot(unit) == Some(slot) {
                self.blocks.invalidate(&self.p, u64::from(slot));
                kept += 1;
            }
            at = sibling;
        }
        let stream = self.spaces.stream_of_collected(queue);
        let Some(page) = self.take_page(plane, stream, self.p.gc_frontier, gathered) else {
            self.plane_exhausted(plane);
            return;
        };
        self.program_is_due(page);
        let mut program = Tr::new(Kind::Program, Source::Gc, queue, 1);
        program.page = page;
        program.bytes = if self.p.slots == 1 {
            self.p.page_bytes
        } else {
            gathered * self.p.unit_sectors * SECTOR_BYTES
        };
        program.erase = erase;
        program.bitmap = u64::from(gathered);
        program.placed = true;
        program.stamp = self.now;
        program.lpa = self.trs[chain].lpa;
        let mut slot = page * self.p.slots;
        while chain != NONE {
            let Tr {
                lpa: unit,
                page: old,
                sibling,
                ..
            } = self.trs[chain];
            self.trs.drop_at(chain);
            if self.map.slot(unit) == Some(old) {
                let bitmap = self.written(queue, unit);
                self.blocks.back[slot as usize] = unit + 1;
                self.update_entry(queue, unit, slot, bitmap);
            } else {
                self.blocks.invalidate(&self.p, u64::from(slot));
            }
            slot += 1;
            chain = sibling;
        }
        self.stats.padding_units += u64::from(self.p.slots - kept.min(self.p.slots));
        let program = self.trs.put(program);
        self.submit_tr(program);
    }

    fn move_table_page(&mut self, queue: u16, page: u32, erase: u32) {
        let at = self.blocks.back[(page * self.p.slots) as usize].saturating_sub(1);
        let domain = self.map.domain(queue);
        if domain.table.get(at as usize) != Some(&(page + 1)) {
            // The slot was rewritten in the meantime, so there is nothing to move.
            self.trs[erase].erase -= 1;
            return;
        }
        let plane = self.p.plane_of_page(page);
        for slot in 0..self.p.slots {
            self.blocks
                .invalidate(&self.p, u64::from(page * self.p.slots + slot));
        }
        let Some(new) = self.take_page(plane, queue, Frontier::Table, self.p.slots) else {
            self.plane_exhausted(plane);
            return;
        };
        for slot in 0..self.p.slots {
            self.blocks.back[(new * self.p.slots + slot) as usize] = at + 1;
        }
        self.map.domains[self.map.of_queue[usize::from(queue)]].table[at as usize] = new + 1;
        let mut program = Tr::new(Kind::Program, Source::Gc, queue, 1);
        program.page = new;
        program.bytes = self.p.page_bytes;
        program.erase = erase;
        program.bitmap = 1;
        program.placed = true;
        let program = self.trs.put(program);
        self.submit_tr(program);
    }

    fn page_moved(&mut self, tr: u32, block: u32) {
        let Tr {
            erase, bitmap, lpa, ..
        } = self.trs[tr];
        if !self.p.compat {
            self.blocks.list[block as usize].programs -= 1;
        } else if lpa != NONE {
            self.unlock_unit(lpa);
        }
        self.trs[erase].erase -= bitmap as u32;
    }

    fn block_erased(&mut self, block: u32) {
        let plane = block / self.p.blocks;
        let victim = block % self.p.blocks;
        let state = &mut self.blocks.planes[plane as usize];
        state.erasing.retain(|other| *other != victim);
        let is_zoned = self.blocks.list[block as usize].is_zoned;
        self.blocks.erased(&self.p, block, self.p.dynamic_wear);
        self.blocks.list[block as usize].collecting = false;
        if is_zoned {
            self.zone_block_erased(block);
        }
        self.level_wear(plane);
        self.resume_overfull(plane);
        self.retry_stalled();
        let low = if self.p.compat {
            self.p.gc_concurrent
        } else {
            self.p.gc_threshold
        };
        if self.blocks.pool(&self.p, plane) < low {
            self.check_collection(plane);
        }
        self.continue_idle_work(plane);
    }

    fn level_wear(&mut self, plane: u32) {
        if !self.p.static_wear {
            return;
        }
        let (least, most) = self.blocks.wear_extremes(&self.p, plane);
        if self.p.compat {
            // The unsigned difference of the block numbers.
            if most.wrapping_sub(least) >= self.p.wear_threshold && self.safe(plane, least) {
                self.collect(plane, least, Reason::Wear);
            }
            return;
        }
        let first = plane * self.p.blocks;
        let erases = |block: u32| self.blocks.list[(first + block) as usize].erases;
        // Free blocks and frontiers hold no cold data, even if they are little worn.
        let coldest = (0..self.p.blocks)
            .filter(|block| {
                let entry = &self.blocks.list[(first + block) as usize];
                entry.written == self.p.pages
                    && !entry.is_slc
                    && !entry.is_zoned
                    && self.safe(plane, *block)
            })
            .min_by_key(|block| erases(*block));
        let Some(coldest) = coldest else { return };
        let state = &self.blocks.planes[plane as usize];
        if erases(most) - erases(coldest) >= self.p.wear_threshold.max(1)
            && state.erasing.len() < self.p.gc_concurrent as usize
            && state.erasing.len() < self.blocks.pool(&self.p, plane) as usize
        {
            self.collect(plane, coldest, Reason::Wear);
        }
    }

    /// Resumes the writes that waited for a free block of the plane.
    fn resume_overfull(&mut self, plane: u32) {
        if self.map.overfull[plane as usize].is_empty() {
            return;
        }
        self.open_batch();
        let mut waiting = std::mem::replace(&mut self.map.overfull[plane as usize], List::EMPTY);
        while !waiting.is_empty() {
            if self.blocks.pool(&self.p, plane) < self.p.gc_concurrent {
                break;
            }
            let Some(tr) = waiting.pop(&mut self.trs) else {
                break;
            };
            if self.translate(tr) {
                self.submit_placed(tr);
            }
        }
        // Writes that started to wait in the meantime come after those that are still waiting.
        let newer = std::mem::replace(&mut self.map.overfull[plane as usize], waiting);
        let mut newer = newer;
        while let Some(tr) = newer.pop(&mut self.trs) {
            self.map.overfull[plane as usize].push(&mut self.trs, tr);
        }
        self.close_batch();
    }
}
