//! The DRAM data cache between the host interface and the mapping.
//!
//! Model: MQSim's write-back cache as a destage buffer.
//! - A write is acknowledged when its data is in DRAM.
//! - A unit's first write within a simulated second is written back at once ("cold"). Later ones
//!   stay until they are evicted ("hot", the separation of Van Houdt 2014).
//! - Sectors on their way to flash are limited to one page per plane; further writes wait
//!   (back-pressure).
//! - The DRAM is one first-in-first-out server. If the queues have equal parts, it serves them
//!   round-robin.
//!
//! Invariant: the count of sectors on their way to flash equals the sectors of the unfinished
//! programs that the cache started. Bounds: 48 bytes for each of the `cache_pages` slots in use.

use std::collections::VecDeque;

use super::params::{Params, SECTOR_BYTES};
use super::types::{IntMap, IntSet, Kind, NONE, Pool, Req, Source, Tr};
use super::{Caching, Drive, Op, QueueConfig, event_kind, sectors};
use crate::quantities::{Ps, SECOND};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    Dirty,
    WritingBack,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    bitmap: u64,
    stamp: Ps,
    unit: u32,
    /// The queue that owns the data.
    queue: u16,
    newer: u32,
    older: u32,
    state: State,
}

const NO_SLOT: Slot = Slot {
    bitmap: 0,
    stamp: 0,
    unit: NONE,
    queue: 0,
    newer: NONE,
    older: NONE,
    state: State::Clean,
};

/// The slots of one pool, in LRU order.
#[derive(Debug, Clone)]
struct Slots {
    at: IntMap<u32>,
    slots: Pool<Slot>,
    newest: u32,
    oldest: u32,
    capacity_count: u32,
}

impl Slots {
    fn new(capacity_count: u32) -> Self {
        Slots {
            at: IntMap::default(),
            slots: Pool::new(NO_SLOT),
            newest: NONE,
            oldest: NONE,
            capacity_count: capacity_count.max(1),
        }
    }

    fn full(&self) -> bool {
        self.at.len() >= self.capacity_count as usize
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at];
        if newer == NONE {
            self.newest = older;
        } else {
            self.slots[newer].older = older;
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            self.slots[older].newer = newer;
        }
    }

    fn link_newest(&mut self, at: u32) {
        self.slots[at].newer = NONE;
        self.slots[at].older = self.newest;
        if self.newest == NONE {
            self.oldest = at;
        } else {
            self.slots[self.newest].newer = at;
        }
        self.newest = at;
    }

    /// Finds a slot and makes it the most recently used.
    fn touch(&mut self, unit: u32) -> Option<u32> {
        let at = *self.at.get(&unit)?;
        if self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(at)
    }

    fn insert(&mut self, queue: u16, unit: u32, bitmap: u64, stamp: Ps, state: State) {
        let at = self.slots.put(Slot {
            bitmap,
            stamp,
            unit,
            queue,
            newer: NONE,
            older: NONE,
            state,
        });
        self.link_newest(at);
        self.at.insert(unit, at);
    }

    fn remove(&mut self, at: u32) {
        let unit = self.slots[at].unit;
        self.unlink(at);
        self.slots.drop_at(at);
        self.at.remove(&unit);
    }

    fn evict(&mut self) -> Option<Slot> {
        let at = self.oldest;
        if at == NONE {
            return None;
        }
        let slot = self.slots[at];
        self.remove(at);
        Some(slot)
    }
}

#[derive(Debug, Clone, Copy)]
enum Transfer {
    /// Data of a request.
    User { req: u32, sectors: u32 },
    /// Evicted data; the writes of the list follow.
    Evicted { first: u32 },
    /// Data that was read and goes into the cache.
    Fill,
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    transfer: Transfer,
    ps: Ps,
}

/// State of the cache.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    shared: bool,
    pools: Vec<Slots>,
    on_the_way: Vec<u32>,
    waiting: Vec<VecDeque<u32>>,
    recent: Vec<IntSet>,
    recent_reset_at: Ps,
    memory: Vec<VecDeque<Memory>>,
    current: Option<Memory>,
    turn: usize,
    /// At least one queue caches what it reads.
    keeps_reads: bool,
    /// Pages that were allocated and whose program has not ended: their spare areas contain no unit
    /// yet. Used only where MQSim caches reads.
    unprogrammed: IntSet,
}

impl Cache {
    pub(super) fn new(p: &Params, queues: &[QueueConfig]) -> Self {
        let keeps_reads = queues
            .iter()
            .any(|queue| matches!(queue.caching, Caching::Read | Caching::WriteRead));
        let queues = queues.len();
        let pools = if p.cache_shared { 1 } else { queues };
        Cache {
            shared: p.cache_shared,
            pools: (0..pools)
                .map(|_| Slots::new(p.cache_pages / pools as u32))
                .collect(),
            on_the_way: vec![0; pools],
            waiting: vec![VecDeque::new(); pools],
            recent: vec![IntSet::default(); queues],
            recent_reset_at: 0,
            memory: vec![VecDeque::new(); pools],
            current: None,
            turn: 0,
            keeps_reads,
            unprogrammed: IntSet::default(),
        }
    }

    #[inline]
    fn pool(&self, queue: u16) -> usize {
        if self.shared { 0 } else { usize::from(queue) }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }
}

impl Drive {
    /// Accepts a request with all its data.
    pub(super) fn cache_request(&mut self, req: u32) {
        let Req {
            queue, op, first, ..
        } = self.reqs[req];
        let caching = self.queues[usize::from(queue)].caching;
        if op == Op::Read {
            if caching == Caching::Off {
                self.dispatch(first);
            } else {
                self.cached_read(req, queue);
            }
            return;
        }
        if matches!(caching, Caching::Off | Caching::Read) {
            self.dispatch(first);
            return;
        }
        self.destage(req);
        if self.reqs[req].first != NONE {
            let pool = self.cache.pool(queue);
            self.cache.waiting[pool].push_back(req);
        }
    }

    fn cached_read(&mut self, req: u32, queue: u16) {
        let pool = self.cache.pool(queue);
        let mut at = self.reqs[req].first;
        if self.cache.pools[pool].at.is_empty() {
            self.dispatch(at);
            return;
        }
        let (mut first, mut last) = (NONE, NONE);
        let mut hit_sectors = 0;
        while at != NONE {
            let Tr {
                lpa,
                bitmap,
                sibling,
                ..
            } = self.trs[at];
            let slots = &mut self.cache.pools[pool];
            let here = slots.touch(lpa).map_or(0, |slot| slots.slots[slot].bitmap) & bitmap;
            hit_sectors += sectors(here);
            if here == bitmap {
                self.reqs[req].open -= 1;
                self.trs.drop_at(at);
            } else {
                self.trs[at].bitmap = bitmap & !here;
                self.trs[at].bytes -= sectors(here) * SECTOR_BYTES;
                if last == NONE {
                    first = at;
                } else {
                    self.trs[last].sibling = at;
                }
                last = at;
            }
            at = sibling;
        }
        if last != NONE {
            self.trs[last].sibling = NONE;
        }
        self.reqs[req].first = first;
        if hit_sectors > 0 {
            self.reqs[req].cache_sectors += hit_sectors;
            self.stats.cache_hit_sectors += u64::from(hit_sectors);
            self.read_memory(req, queue, hit_sectors);
        }
        if first != NONE {
            self.dispatch(first);
        }
    }

    /// Moves sectors of a read request out of DRAM. `cache_sectors` already counts them.
    pub(super) fn read_memory(&mut self, req: u32, queue: u16, count: u32) {
        self.memory(
            queue,
            Transfer::User {
                req,
                sectors: count,
            },
            count,
        );
    }

    fn memory(&mut self, queue: u16, transfer: Transfer, count: u32) {
        let ps = self.p.dram_ps(u64::from(count) * u64::from(SECTOR_BYTES));
        let item = Memory { transfer, ps };
        if self.cache.current.is_some() {
            let pool = self.cache.pool(queue);
            self.cache.memory[pool].push_back(item);
        } else {
            self.cache.turn = self.cache.pool(queue);
            self.start_memory(item);
        }
    }

    fn start_memory(&mut self, item: Memory) {
        self.cache.current = Some(item);
        self.stats.dram_ps += item.ps;
        self.schedule(self.now + item.ps, event_kind::DRAM, 0);
    }

    pub(super) fn dram_done(&mut self, _arg: u32) {
        let Some(item) = self.cache.current else {
            return;
        };
        match item.transfer {
            Transfer::User { req, sectors } => {
                self.reqs[req].cache_sectors -= sectors;
                self.finish_if_done(req);
            }
            Transfer::Evicted { first } => self.dispatch(first),
            Transfer::Fill => {}
        }
        self.cache.current = None;
        let pools = self.cache.memory.len();
        for _ in 0..pools {
            self.cache.turn = (self.cache.turn + 1) % pools;
            let turn = self.cache.turn;
            if let Some(next) = self.cache.memory[turn].pop_front() {
                self.start_memory(next);
                break;
            }
        }
    }

    #[inline]
    pub(super) fn finish_if_done(&mut self, req: u32) {
        let Req {
            open,
            cache_sectors,
            ..
        } = self.reqs[req];
        if open == 0 && cache_sectors == 0 {
            self.request_served(req);
        }
    }

    /// Moves as many operations of a write request into DRAM as back-pressure allows.
    fn destage(&mut self, req: u32) {
        let queue = self.reqs[req].queue;
        let pool = self.cache.pool(queue);
        let limit = self.p.back_pressure_max;
        let (mut evicted_first, mut evicted_last, mut evicted_sectors) = (NONE, NONE, 0u32);
        let (mut back_first, mut back_last, mut back_sectors) = (NONE, NONE, 0u32);
        let mut taken_sectors = 0u32;
        let mut at = self.reqs[req].first;
        while at != NONE && self.cache.on_the_way[pool] + evicted_sectors + back_sectors < limit {
            let Tr {
                lpa,
                bitmap,
                stamp,
                sibling,
                ..
            } = self.trs[at];
            if let Some(slot) = self.store(queue, lpa, bitmap, stamp) {
                let tr = self.evicted_write(queue, slot);
                evicted_sectors += sectors(slot.bitmap);
                if evicted_last == NONE {
                    evicted_first = tr;
                } else {
                    self.trs[evicted_last].sibling = tr;
                }
                evicted_last = tr;
            }
            taken_sectors += sectors(bitmap);
            self.trs[at].sibling = NONE;
            if self.cache.recent[usize::from(queue)].insert(lpa) {
                let slots = &mut self.cache.pools[pool];
                if let Some(slot) = slots.at.get(&lpa).copied() {
                    slots.slots[slot].state = State::WritingBack;
                }
                back_sectors += sectors(bitmap);
                if back_last == NONE {
                    back_first = at;
                } else {
                    self.trs[back_last].sibling = at;
                }
                back_last = at;
            } else {
                self.trs.drop_at(at);
            }
            self.reqs[req].open -= 1;
            at = sibling;
        }
        self.reqs[req].first = at;
        self.reqs[req].cache_sectors += taken_sectors;
        self.cache.on_the_way[pool] += evicted_sectors + back_sectors;
        if evicted_first != NONE {
            self.memory(
                queue,
                Transfer::Evicted {
                    first: evicted_first,
                },
                evicted_sectors,
            );
        }
        if taken_sectors > 0 {
            self.memory(
                queue,
                Transfer::User {
                    req,
                    sectors: taken_sectors,
                },
                taken_sectors,
            );
        }
        if back_first != NONE {
            self.dispatch(back_first);
        }
        if self.now > self.cache.recent_reset_at {
            self.cache.recent[usize::from(queue)].clear();
            self.cache.recent_reset_at = self.now + SECOND;
        }
    }

    /// Puts written sectors into a slot. Returns the dirty slot that was evicted for it.
    fn store(&mut self, queue: u16, unit: u32, bitmap: u64, stamp: Ps) -> Option<Slot> {
        let pool = self.cache.pool(queue);
        let slots = &mut self.cache.pools[pool];
        if let Some(at) = slots.touch(unit) {
            let slot = &mut slots.slots[at];
            slot.bitmap |= bitmap;
            slot.stamp = slot.stamp.max(stamp);
            slot.state = State::Dirty;
            return None;
        }
        let evicted = if slots.full() { slots.evict() } else { None };
        slots.insert(queue, unit, bitmap, stamp, State::Dirty);
        evicted.filter(|slot| slot.state == State::Dirty && slot.unit != NONE)
    }

    /// The write of a slot that was evicted for data of `queue`. In a shared cache the slot may
    /// belong to another queue, and a slot that was read may have the unit of another queue, if
    /// collection has reused its page. MQSim then interprets the unit's number within that queue's
    /// range as a number within the range of `queue`.
    fn evicted_write(&mut self, queue: u16, slot: Slot) -> u32 {
        let (mut owner, mut unit) = (slot.queue, slot.unit);
        if self.p.compat && (owner != queue || self.map.base_of(unit) != self.map.base(queue)) {
            let local = unit - self.map.base_of(unit);
            unit = self.map.base(queue) + local % self.map.units(queue).max(1);
            owner = queue;
        }
        let mut write = Tr::new(Kind::Program, Source::Cache, owner, 0);
        write.lpa = unit;
        write.bitmap = slot.bitmap;
        write.bytes = sectors(slot.bitmap) * SECTOR_BYTES;
        write.stamp = slot.stamp;
        self.trs.put(write)
    }

    /// A flash operation of a user or of the cache is finished.
    pub(super) fn cache_served(&mut self, tr: u32) {
        let Tr {
            kind,
            related,
            units,
            ..
        } = self.trs[tr];
        if kind == Kind::Read {
            if related != NONE {
                self.trs[related].related = NONE;
                if self.packs() {
                    self.pack_write(related);
                }
                return;
            }
            self.read_served(tr);
            let mut at = units;
            while at != NONE {
                let next = self.trs[at].units;
                self.read_served(at);
                self.trs.drop_at(at);
                at = next;
            }
            return;
        }
        if self.packs() {
            let mut at = units;
            while at != NONE {
                let next = self.trs[at].units;
                self.unit_landed(self.trs[at].lpa);
                self.write_served(at);
                self.trs.drop_at(at);
                at = next;
            }
        } else {
            if !self.p.compat {
                self.unit_landed(self.trs[tr].lpa);
            }
            self.write_served(tr);
        }
    }

    fn read_served(&mut self, tr: u32) {
        let Tr {
            queue,
            req,
            lpa,
            bitmap,
            stamp,
            ..
        } = self.trs[tr];
        let caching = self.queues[usize::from(queue)].caching;
        if matches!(caching, Caching::Read | Caching::WriteRead) {
            let lpa = if self.p.compat {
                self.unit_in_spare(self.trs[tr].page)
            } else {
                lpa
            };
            self.keep_read(queue, lpa, bitmap, stamp);
        }
        self.reqs[req].open -= 1;
        self.finish_if_done(req);
    }

    /// A page has been allocated for data that is still to be programmed.
    #[inline]
    pub(super) fn program_is_due(&mut self, page: u32) {
        if self.p.compat && self.cache.keeps_reads {
            self.cache.unprogrammed.insert(page);
        }
    }

    /// The program of a page has ended.
    #[inline]
    pub(super) fn program_has_ended(&mut self, page: u32) {
        if self.p.compat && self.cache.keeps_reads {
            self.cache.unprogrammed.remove(&page);
        }
    }

    /// The unit that MQSim finds in a page's spare area. A page that was allocated only for a read
    /// has none. A page whose program has not ended has none yet, because reads overtake programs.
    /// All such pages share one slot of the cache.
    fn unit_in_spare(&self, page: u32) -> u32 {
        if self.cache.unprogrammed.contains(&page) {
            return NONE;
        }
        let unit = self.blocks.back[page as usize].checked_sub(1);
        unit.unwrap_or(NONE)
    }

    /// Caches sectors that were read.
    fn keep_read(&mut self, queue: u16, unit: u32, bitmap: u64, stamp: Ps) {
        let pool = self.cache.pool(queue);
        let slots = &mut self.cache.pools[pool];
        if let Some(at) = slots.touch(unit) {
            let slot = &mut slots.slots[at];
            slot.bitmap |= bitmap;
            slot.stamp = slot.stamp.max(stamp);
            if self.p.compat {
                // MQSim marks every slot that it updates as dirty, even after a read.
                slot.state = State::Dirty;
            }
            return;
        }
        let evicted = if slots.full() { slots.evict() } else { None };
        let dirty = evicted.filter(|slot| slot.state == State::Dirty && slot.unit != NONE);
        slots.insert(queue, unit, bitmap, stamp, State::Clean);
        if let Some(slot) = dirty {
            let write = self.evicted_write(queue, slot);
            self.trs[write].class = 1;
            self.cache.on_the_way[pool] += sectors(slot.bitmap);
            self.memory(
                queue,
                Transfer::Evicted { first: write },
                sectors(slot.bitmap),
            );
        }
        self.memory(queue, Transfer::Fill, sectors(bitmap));
    }

    fn write_served(&mut self, tr: u32) {
        let Tr {
            queue,
            req,
            lpa,
            bitmap,
            stamp,
            ..
        } = self.trs[tr];
        self.stats.user_units += 1;
        if self.is_zoned(queue) {
            self.zone_unit_programmed(tr);
            return;
        }
        let caching = self.queues[usize::from(queue)].caching;
        if matches!(caching, Caching::Off | Caching::Read) {
            if req != NONE {
                self.reqs[req].open -= 1;
                self.finish_if_done(req);
            }
            return;
        }
        let pool = self.cache.pool(queue);
        self.cache.on_the_way[pool] -= sectors(bitmap);
        let slots = &mut self.cache.pools[pool];
        if let Some(at) = slots.touch(lpa)
            && stamp >= slots.slots[at].stamp
        {
            slots.remove(at);
        }
        self.admit_waiting(pool);
    }

    fn admit_waiting(&mut self, pool: usize) {
        let limit = self.p.back_pressure_max;
        let mut index = 0;
        while index < self.cache.waiting[pool].len() {
            let before = self.cache.on_the_way[pool];
            let req = self.cache.waiting[pool][index];
            self.destage(req);
            if self.reqs[req].first == NONE {
                self.cache.waiting[pool].remove(index);
            } else {
                index += 1;
            }
            // At the limit, further calls could not accept anything.
            if self.cache.on_the_way[pool] >= limit && before >= limit {
                break;
            }
            if self.cache.on_the_way[pool] > limit {
                break;
            }
        }
    }
}
