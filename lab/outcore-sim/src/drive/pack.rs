//! Translation of user operations, and the packing of units smaller than a page.
//!
//! Model: with static allocation and units of a page, the address fixes the plane and every write
//! takes the next page of its frontier. Otherwise writes are collected (MQMS, "dynamic allocation"
//! and "fine-grained mapping"):
//! - A class of places has one page under construction. A class is the whole drive, a channel, a
//!   die or a plane, depending on the allocation.
//! - A page that is full or has waited `pack_wait` is programmed on the plane of the class with the
//!   fewest waiting operations; planes with equally many are used round-robin.
//! - If the wait of a page ends while every die of its class has programs to do, the page stays
//!   open once more, for as long as it would have queued behind them. Half-empty pages under load
//!   would cost collection.
//! - A partial write of a unit first reads the unit and merges it.
//!
//! Invariants: a unit is either mapped, or in flight in exactly one page under construction or
//! program. Reads of a unit in flight are served from DRAM. Memory: one node per unit in flight.

use super::params::{Params, SECTOR_BYTES};
use super::types::{Frontier, IntMap, Kind, List, NONE, Source, Tr};
use super::{Drive, event_kind, sectors};
use crate::config::{Allocation, GcPolicy};
use crate::quantities::Ps;

/// A page under construction.
#[derive(Debug, Clone, Copy)]
struct Open {
    first: u32,
    last: u32,
    count: u32,
    /// The time of the timer that programs the page, unless a newer one was set.
    due: Ps,
    /// Its wait has ended, and it now waits for the programs that were queued before it.
    behind: bool,
    stream: u16,
}

const EMPTY: Open = Open {
    first: NONE,
    last: NONE,
    count: 0,
    due: 0,
    behind: false,
    stream: 0,
};

/// Pages under construction and units in flight.
#[derive(Debug, Clone)]
pub(super) struct Packer {
    enabled: bool,
    classes: u32,
    open: Vec<Open>,
    turn: Vec<u32>,
    /// All planes, ordered so that neighbours are in different channels, then chips, dies and
    /// planes; used when a class has all planes.
    spread: Vec<u32>,
    /// By class, the die that is being filled plane by plane: next plane, planes left.
    stripe: Vec<(u32, u32)>,
    /// Full pages that wait for a free block, in order of arrival.
    stalled: Vec<Open>,
    /// The last page found no plane, and no collection could be started for it.
    nothing_began: bool,
    /// Units whose data is only in DRAM, with the number of writes that carry them.
    in_flight: IntMap<u32>,
    /// Operations that ended while their list was still being traversed.
    ended: Vec<u32>,
}

/// The plane at `index` in the order over channels, chips, dies, planes.
fn spread_plane(p: &Params, index: u32) -> u32 {
    let channel = index % p.channels;
    let rest = index / p.channels;
    let chip = rest % p.chips;
    let rest = rest / p.chips;
    p.plane_at([channel, chip, rest % p.dies, rest / p.dies])
}

impl Packer {
    pub(super) fn new(p: &Params, streams: usize) -> Self {
        let enabled = !p.compat && (p.slots > 1 || p.allocation != Allocation::Static);
        let classes = match p.allocation {
            Allocation::Static => p.plane_count,
            Allocation::Dynamic => 1,
            Allocation::RestrictedChannel => p.channels,
            Allocation::RestrictedDie => p.plane_count / p.planes,
        };
        let count = if enabled {
            classes as usize * streams
        } else {
            0
        };
        Packer {
            enabled,
            classes,
            open: vec![EMPTY; count],
            turn: vec![0; count],
            spread: if enabled && classes == 1 {
                (0..p.plane_count).map(|at| spread_plane(p, at)).collect()
            } else {
                Vec::new()
            },
            stripe: vec![(0, 0); count],
            stalled: Vec::new(),
            nothing_began: false,
            in_flight: IntMap::default(),
            ended: Vec::new(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.stalled.len()
    }

    pub(super) fn holds(&self, unit: u32) -> bool {
        self.in_flight.contains_key(&unit)
    }
}

impl Drive {
    /// Looks up the units of a list of operations (linked by `sibling`) and passes them to the
    /// scheduler.
    pub(super) fn dispatch(&mut self, first: u32) {
        let Tr {
            queue,
            kind,
            sibling,
            ..
        } = self.trs[first];
        if kind == Kind::Read && sibling == NONE && self.p.resident && self.dispatches_at_once() {
            // The common case: a single small read.
            self.look_up(queue, first);
            if self.trs[first].placed {
                self.queue_and_serve(first);
            }
            self.drop_ended();
            return;
        }
        if !self.p.compat {
            // The pages that one request fills go to the scheduler together, so that one command
            // can program the planes of a die. MQSim opens the batch after the lookups.
            self.open_batch();
        }
        let mut at = first;
        while at != NONE {
            let Tr {
                queue,
                lpa,
                sibling,
                ..
            } = self.trs[at];
            if !self.map.locked.is_empty() && self.map.locked.contains(&lpa) {
                self.stop_at_barrier(at);
            } else {
                self.look_up(queue, at);
            }
            at = sibling;
        }
        self.open_batch();
        let mut at = first;
        let mut previous = NONE;
        while at != NONE {
            let sibling = self.trs[at].sibling;
            if self.trs[at].placed {
                let joins = previous != NONE
                    && self.trs[previous].kind == Kind::Read
                    && self.trs[at].kind == Kind::Read
                    && self.trs[previous].page == self.trs[at].page
                    && !self.p.compat;
                if joins {
                    self.join_read(previous, at);
                } else {
                    self.submit_placed(at);
                    previous = at;
                }
            }
            at = sibling;
        }
        self.close_batch();
        if !self.p.compat {
            self.close_batch();
        }
        self.drop_ended();
    }

    fn drop_ended(&mut self) {
        while let Some(tr) = self.pack.ended.pop() {
            self.trs.drop_at(tr);
        }
    }

    /// True when no unit is locked and no batch is open.
    #[inline]
    fn dispatches_at_once(&self) -> bool {
        self.map.locked.is_empty() && self.batch_of_one()
    }

    /// Submits a placed operation, and the read that it waits for.
    pub(super) fn submit_placed(&mut self, tr: u32) {
        self.submit_tr(tr);
        let Tr { kind, related, .. } = self.trs[tr];
        if kind == Kind::Program && related != NONE {
            self.submit_tr(related);
        }
    }

    /// Slots of one page that one request reads are transferred from the page together.
    fn join_read(&mut self, head: u32, tr: u32) {
        let bytes = self.trs[tr].bytes;
        self.trs[head].bytes += bytes;
        self.trs[tr].units = self.trs[head].units;
        self.trs[head].units = tr;
        let block = self.p.block_of_page(self.trs[tr].page);
        self.blocks.list[block as usize].reads -= 1;
    }

    fn look_up(&mut self, queue: u16, tr: u32) {
        let unit = self.trs[tr].lpa;
        if self.entry_present(queue, unit) {
            self.stats.map_hits += 1;
            self.translate(tr);
            return;
        }
        if self.request_entry(queue, unit) {
            self.stats.map_misses += 1;
            self.translate(tr);
            return;
        }
        self.stats.map_misses += 1;
        self.wait_for_entry(tr);
    }

    /// Finds or creates the place of an operation whose entry is available. Returns true when the
    /// operation may be submitted now.
    pub(super) fn translate(&mut self, tr: u32) -> bool {
        let Tr {
            queue, lpa, kind, ..
        } = self.trs[tr];
        self.touch_entry(queue, lpa);
        if kind == Kind::Read {
            return self.translate_read(tr, queue, lpa);
        }
        if self.pack.enabled {
            self.merge_then_pack(tr);
            return false;
        }
        let domain = self.map.domain(queue);
        let plane = domain.order.plane(lpa - domain.base);
        if self.blocks.pool(&self.p, plane) < self.p.gc_concurrent {
            self.map.overfull[plane as usize].push(&mut self.trs, tr);
            if !self.p.compat {
                self.check_collection(plane);
            }
            return false;
        }
        self.place_write(tr, plane)
    }

    // N.B. Submission prefetches this entry, because its load dominates random reads on a large
    // drive. An additional load there that uses the value makes runs slower.
    fn translate_read(&mut self, tr: u32, queue: u16, unit: u32) -> bool {
        let slot = match self.map.slot(unit) {
            Some(slot) => slot,
            None if self.p.compat => match self.place_read_of_nothing(tr, queue, unit) {
                Some(slot) => slot,
                None => return false,
            },
            None => {
                self.stats.unwritten_reads += 1;
                self.serve_from_memory(tr);
                return false;
            }
        };
        if !self.p.compat && self.pack.holds(unit) {
            self.serve_from_memory(tr);
            return false;
        }
        let page = if self.p.slots == 1 {
            slot
        } else {
            slot / self.p.slots
        };
        let block = self.p.block_of_page(page);
        self.blocks.list[block as usize].reads += 1;
        let entry = &mut self.trs[tr];
        entry.page = page;
        entry.placed = true;
        true
    }

    /// MQSim allocates a page for a unit that is read before it was written.
    fn place_read_of_nothing(&mut self, tr: u32, queue: u16, unit: u32) -> Option<u32> {
        let bitmap = self.trs[tr].bitmap;
        let domain = self.map.domain(queue);
        let plane = domain.order.plane(unit - domain.base);
        let page = self.take_page(plane, queue, Frontier::Data, 1)?;
        // N.B. Only a page that was erased before carries a mark. Memory that is only read stays
        // unallocated, so the mark is written only where it changes.
        let back = &mut self.blocks.back[page as usize];
        if *back != 0 {
            *back = 0;
        }
        self.update_entry(queue, unit, page, bitmap);
        Some(page)
    }

    /// Serves a read that needs no flash: its data is in DRAM, or the unit has none.
    fn serve_from_memory(&mut self, tr: u32) {
        let Tr {
            req, bitmap, queue, ..
        } = self.trs[tr];
        let count = sectors(bitmap);
        self.trs[tr].placed = false;
        self.reqs[req].open -= 1;
        self.reqs[req].cache_sectors += count;
        self.stats.cache_hit_sectors += u64::from(count);
        self.read_memory(req, queue, count);
        self.pack.ended.push(tr);
    }

    /// Takes a page of `plane` for a write of a whole page unit. Returns false when the plane has
    /// none.
    pub(super) fn place_write(&mut self, tr: u32, plane: u32) -> bool {
        let Tr {
            queue, lpa, bitmap, ..
        } = self.trs[tr];
        let before = self.written(queue, lpa);
        if let Some(old) = self.map.slot(lpa) {
            let keep = before & !bitmap;
            if keep != 0 {
                let read = self.merge_read(tr, old, keep);
                self.trs[tr].related = read;
            }
            self.blocks.invalidate(&self.p, u64::from(old));
        }
        let Some(page) = self.take_data_page(plane, queue, 1) else {
            self.plane_exhausted(plane);
            return false;
        };
        self.blocks.back[page as usize] = lpa + 1;
        self.program_is_due(page);
        let bitmap_all = self.trs[tr].bitmap | self.written(queue, lpa);
        self.update_entry(queue, lpa, page, bitmap_all);
        self.count_host_unit(queue);
        self.trs[tr].page = page;
        self.trs[tr].placed = true;
        if !self.p.compat {
            self.trs[tr].bytes = self.p.page_bytes;
            self.unit_taken(lpa);
        }
        true
    }

    /// The read of the sectors that a partial write keeps. The caller submits it.
    fn merge_read(&mut self, write: u32, slot: u32, keep: u64) -> u32 {
        let Tr {
            queue,
            lpa,
            req,
            source,
            ..
        } = self.trs[write];
        let mut read = Tr::new(Kind::Read, source, queue, 1);
        read.lpa = lpa;
        read.page = slot / self.p.slots;
        read.bitmap = keep;
        read.bytes = sectors(keep) * SECTOR_BYTES;
        read.req = req;
        read.related = write;
        read.placed = true;
        read.stamp = self.now;
        self.blocks.list[self.p.block_of_page(read.page) as usize].reads += 1;
        self.stats.merge_reads += 1;
        self.trs.put(read)
    }

    /// Handles a write of a packed unit: merges it first if it is partial, then packs it.
    fn merge_then_pack(&mut self, tr: u32) {
        let Tr {
            queue, lpa, bitmap, ..
        } = self.trs[tr];
        let keep = self.written(queue, lpa) & !bitmap;
        let in_memory = self.pack.holds(lpa);
        self.unit_taken(lpa);
        if let Some(slot) = self.map.slot(lpa)
            && keep != 0
            && !in_memory
        {
            let read = self.merge_read(tr, slot, keep);
            self.open_batch();
            self.submit_tr(read);
            self.close_batch();
        } else {
            self.pack_write(tr);
        }
    }

    fn class_of(&self, queue: u16, unit: u32) -> u32 {
        let p = &self.p;
        let domain = self.map.domain(queue);
        let plane = || domain.order.plane((unit - domain.base) / p.slots);
        match p.allocation {
            Allocation::Static => plane(),
            Allocation::Dynamic => 0,
            Allocation::RestrictedChannel => plane() / (p.chips * p.dies * p.planes),
            Allocation::RestrictedDie => plane() / p.planes,
        }
    }

    /// Adds a unit to the page under construction of its class.
    pub(super) fn pack_write(&mut self, tr: u32) {
        let Tr { queue, lpa, .. } = self.trs[tr];
        let stream = self.spaces.stream(queue);
        let class = self.class_of(queue, lpa) + u32::from(stream) * self.pack.classes;
        let open = &mut self.pack.open[class as usize];
        self.trs[tr].units = NONE;
        if open.count == 0 {
            *open = Open {
                first: tr,
                last: tr,
                count: 1,
                due: self.now + self.p.pack_wait,
                behind: false,
                stream,
            };
            if self.p.slots > 1 {
                let due = open.due;
                self.schedule(due, event_kind::PACK, class);
            }
        } else {
            self.trs[open.last].units = tr;
            open.last = tr;
            open.count += 1;
        }
        if self.pack.open[class as usize].count == self.p.slots {
            self.program_open(class);
        }
    }

    pub(super) fn pack_timer(&mut self, class: u32) {
        let open = self.pack.open[class as usize];
        if open.count == 0 || open.due != self.now {
            return;
        }
        let (first, count) = self.planes_of_class(class);
        let units = (first..first + count).map(|plane| self.p.unit_of_plane(plane));
        let ahead = units.map(|unit| self.programs_ahead(unit)).min();
        let ahead = ahead.filter(|programs| *programs > 0 && !open.behind);
        let Some(programs) = ahead else {
            self.program_open(class);
            return;
        };
        // The planes of a die share program commands.
        let commands = u64::from(programs.div_ceil(self.p.planes));
        let open = &mut self.pack.open[class as usize];
        open.behind = true;
        open.due = self.now + commands * self.p.program_mean_ps();
        let due = open.due;
        self.schedule(due, event_kind::PACK, class);
    }

    fn program_open(&mut self, class: u32) {
        let open = std::mem::replace(&mut self.pack.open[class as usize], EMPTY);
        let behind = self
            .pack
            .stalled
            .iter()
            .any(|other| other.stream == open.stream);
        if behind || !self.program_pack(class, open) {
            self.pack.stalled.push(open);
        }
    }

    /// Programs the pages that waited for a free block, now that blocks became free.
    pub(super) fn retry_stalled(&mut self) {
        if self.pack.stalled.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.pack.stalled);
        // Classes that had no plane for a page; another attempt would find the same state. This
        // holds only for greedy collection, which draws no random numbers in a failed attempt.
        let mut hopeless: Vec<u32> = Vec::new();
        for open in waiting {
            let Tr { queue, lpa, .. } = self.trs[open.first];
            let class = self.class_of(queue, lpa) + u32::from(open.stream) * self.pack.classes;
            if hopeless.contains(&class) {
                self.next_turn(class);
                self.pack.stalled.push(open);
                continue;
            }
            self.pack.nothing_began = false;
            if self.program_pack(class, open) {
                hopeless.clear();
                continue;
            }
            if self.pack.nothing_began && self.p.gc_policy == GcPolicy::Greedy {
                hopeless.push(class);
            } else {
                hopeless.clear();
            }
            self.pack.stalled.push(open);
        }
    }

    /// Moves the start of the next search for a plane one further.
    fn next_turn(&mut self, class: u32) {
        let (_, count) = self.planes_of_class(class);
        let turn = &mut self.pack.turn[class as usize];
        *turn = (*turn + 1) % count;
    }

    /// The planes of a class: first, step and count.
    fn planes_of_class(&self, class: u32) -> (u32, u32) {
        let p = &self.p;
        let class = class % self.pack.classes;
        let size = p.plane_count / self.pack.classes;
        (class * size, size)
    }

    /// The plane of the class that can start a program soonest.
    fn choose_plane(&mut self, class: u32, queue: u16) -> Option<u32> {
        let (first, count) = self.planes_of_class(class);
        let (next, left) = self.pack.stripe[class as usize];
        if left > 0
            && self.blocks.pool(&self.p, next) >= self.p.gc_concurrent
            && (self.phy.idle(self.p.unit_of_plane(next)) || !self.has_idle_die(first, count))
        {
            // The planes of one die follow each other, so that they can share a command.
            self.pack.stripe[class as usize] = (self.next_of_die(next), left - 1);
            return Some(next);
        }
        self.pack.stripe[class as usize].1 = 0;
        let turn = self.pack.turn[class as usize];
        let shared = self.map.domains.len() > 1 && !self.spaces.has_namespaces();
        let mut best: Option<(u32, u32)> = None;
        for step in 0..count {
            // Consecutive choices iterate over channels first, then chips, dies and planes.
            let at = turn + step;
            let at = if at < count { at } else { at - count };
            let plane = self
                .pack
                .spread
                .get(at as usize)
                .map_or(first + at, |plane| *plane);
            if shared && !self.queue_may_use(queue, plane) {
                continue;
            }
            if self.blocks.pool(&self.p, plane) < self.p.gc_concurrent {
                continue;
            }
            let load = self.unit_load(self.p.unit_of_plane(plane));
            if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, plane));
                if load == 0 {
                    self.pack.turn[class as usize] = (turn + step + 1) % count;
                    return Some(self.start_stripe(class, plane, shared));
                }
            }
        }
        self.next_turn(class);
        best.map(|(_, plane)| self.start_stripe(class, plane, shared))
    }

    /// True when some die of the class is idle.
    fn has_idle_die(&self, first: u32, count: u32) -> bool {
        let dies = (first..first + count).step_by(self.p.planes as usize);
        dies.into_iter()
            .any(|plane| self.unit_load(self.p.unit_of_plane(plane)) == 0)
    }

    /// The plane after this one in its die, or the first after the last one. This way all planes of
    /// a die receive equally many writes.
    fn next_of_die(&self, plane: u32) -> u32 {
        let at = plane % self.p.planes;
        plane - at + (at + 1) % self.p.planes
    }

    /// Begins to fill the die of `plane` if the class contains the whole die.
    fn start_stripe(&mut self, class: u32, plane: u32, shared: bool) -> u32 {
        let planes = self.p.planes;
        let (_, count) = self.planes_of_class(class);
        if shared || count < planes || planes == 1 {
            return plane;
        }
        self.pack.stripe[class as usize] = (self.next_of_die(plane), planes - 1);
        plane
    }

    fn queue_may_use(&self, queue: u16, plane: u32) -> bool {
        let p = &self.p;
        let ids = &self.map.domain(queue).ids;
        let place = [
            plane / (p.chips * p.dies * p.planes),
            plane / (p.dies * p.planes) % p.chips,
            plane / p.planes % p.dies,
            plane % p.planes,
        ];
        (0..4).all(|dim| ids[dim].contains(&place[dim]))
    }

    /// Programs a page under construction. Returns false when no plane of its class has a free
    /// block.
    fn program_pack(&mut self, class: u32, open: Open) -> bool {
        let queue = self.trs[open.first].queue;
        let Some(plane) = self.choose_plane(class, queue) else {
            let (first, count) = self.planes_of_class(class);
            let collections = self.stats.collections;
            for plane in first..first + count {
                self.check_collection(plane);
            }
            self.pack.nothing_began = collections == self.stats.collections;
            return false;
        };
        let Some(page) = self.take_data_page(plane, queue, open.count) else {
            return false;
        };
        let mut at = open.first;
        let mut slot = page * self.p.slots;
        let mut class_of_service = 3;
        while at != NONE {
            let Tr {
                queue,
                lpa,
                bitmap,
                units,
                class,
                ..
            } = self.trs[at];
            if let Some(old) = self.map.slot(lpa) {
                self.blocks.invalidate(&self.p, u64::from(old));
            }
            let bitmap = bitmap | self.written(queue, lpa);
            self.blocks.back[slot as usize] = lpa + 1;
            self.update_entry(queue, lpa, slot, bitmap);
            self.count_host_unit(queue);
            class_of_service = class_of_service.min(class);
            slot += 1;
            at = units;
        }
        self.stats.padding_units += u64::from(self.p.slots - open.count);
        let mut program = Tr::new(Kind::Program, Source::User, queue, class_of_service);
        program.page = page;
        program.bytes = self.p.page_bytes;
        program.units = open.first;
        program.placed = true;
        program.stamp = self.now;
        let program = self.trs.put(program);
        self.open_batch();
        self.submit_tr(program);
        self.close_batch();
        true
    }

    /// A write carries the data of a unit, which is only in DRAM.
    pub(super) fn unit_taken(&mut self, unit: u32) {
        *self.pack.in_flight.entry(unit).or_insert(0) += 1;
    }

    /// The data of a unit is on flash, so DRAM no longer holds it for this write.
    pub(super) fn unit_landed(&mut self, unit: u32) {
        if let Some(count) = self.pack.in_flight.get_mut(&unit) {
            *count -= 1;
            if *count == 0 {
                self.pack.in_flight.remove(&unit);
            }
        }
    }

    /// True when writes are packed, so that one program carries several operations.
    pub(super) fn packs(&self) -> bool {
        self.pack.enabled
    }

    /// Stops an operation at a unit that collection has locked. MQSim drops it when the unit is
    /// released, so its request never ends (compat only).
    pub(super) fn stop_at_barrier(&mut self, tr: u32) {
        let unit = self.trs[tr].lpa;
        self.map
            .behind
            .entry(unit)
            .or_insert(List::EMPTY)
            .push(&mut self.trs, tr);
    }
}
