//! Zoned namespaces (NVMe Zoned Namespace Command Set): zones that are written in order and reset
//! as a whole.
//!
//! Model:
//! - A zone consists of `zones.blocks` erase blocks on consecutive planes in the order of static
//!   allocation. Its pages go to these blocks in turn. A block is taken when the first page of it
//!   is written.
//! - A write begins at the zone's write pointer, is whole mapping units and ends within the zone.
//!   Another write fails, with the status of NVMe. An append names the start of the zone,
//!   and the drive chooses the place.
//! - A write to an empty zone makes it active, until it is full or reset. The write fails if
//!   `zones.active` zones are active. A write opens its zone; if more than `zones.open` are open,
//!   the drive closes the one that was written longest ago. That takes no time.
//! - A page is programmed when all of its units have come. The units of an incomplete page are in
//!   protected memory, so their writes are acknowledged. Other writes are acknowledged when they
//!   are programmed or, with caching, as long as no more than one page per plane is on its way to
//!   the flash.
//! - A trim resets the zones that it covers as a whole: it erases their blocks and ends when they
//!   are erased. A page that needs a block waits until one is erased.
//!
//! Invariants: nothing is ever moved, so write amplification is 1. A plane has at least as many
//! free blocks as zones may still take ([`super::blocks::Plane::reserved`]). Memory: 120 bytes
//! per zone, 4 bytes per block.

use std::collections::VecDeque;

use outcore_io::units::bytes;
use outcore_io::{Error, Result};

use super::blocks::Plane;
use super::map::Mapping;
use super::params::{Params, SECTOR_BYTES};
use super::types::{IntMap, Kind, NONE, Req, Source, Tr};
use super::{Caching, Drive, Op, QueueConfig};
use crate::config::DriveConfig;
use crate::workload::Status;

/// The shape of a zone, and the limits of a namespace.
#[derive(Debug, Clone, Copy)]
struct Shape {
    blocks: u32,
    units: u32,
    open_max: u32,
    active_max: u32,
}

/// A zone by its namespace and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ZoneId {
    range: usize,
    zone: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Empty,
    Open,
    Closed,
    Full,
}

#[derive(Debug, Clone)]
struct Zone {
    state: State,
    /// Units written: the write pointer.
    units: u32,
    /// Pages that are complete.
    pages: u32,
    /// Its erase blocks, numbered over the drive; NONE before they are used.
    blocks: Vec<u32>,
    /// The units of the incomplete page.
    first: u32,
    last: u32,
    count: u32,
    /// Complete pages that wait for a block, by their first unit.
    stalled: VecDeque<u32>,
}

/// The zones of one namespace.
#[derive(Debug, Clone, Default)]
struct Zoned {
    zones: Vec<Zone>,
    active: u32,
    /// Open zones, the one written last at the end; empty if their number has no limit.
    open: VecDeque<u32>,
}

/// All zones of a drive.
#[derive(Debug, Clone)]
pub(super) struct Zones {
    shape: Shape,
    /// By range; `None` for a namespace without zones. Empty if there are no zones at all.
    ranges: Vec<Option<Zoned>>,
    /// Blocks that are being erased, with the request that resets them.
    resets: IntMap<u32>,
    /// Zones with pages that wait for a block.
    stalled: Vec<ZoneId>,
    /// Sectors that were accepted and are not on flash yet.
    pending_sectors: u32,
}

impl Zones {
    /// The zones of the namespaces in `map`, all of them empty. Reserves their blocks in `planes`.
    ///
    /// # Errors
    /// Usage: a plane has too few blocks.
    pub(super) fn new(
        config: &DriveConfig,
        p: &Params,
        map: &Mapping,
        planes: &mut [Plane],
    ) -> Result<Self> {
        let sectors = p.zone_sectors;
        let shape = Shape {
            blocks: (sectors / u64::from(p.pages) / u64::from(p.page_sectors)) as u32,
            units: (sectors / u64::from(p.unit_sectors)).min(u64::from(u32::MAX)) as u32,
            open_max: config.zones.open,
            active_max: config.zones.active,
        };
        let mut zones = Zones {
            shape,
            ranges: Vec::new(),
            resets: IntMap::default(),
            stalled: Vec::new(),
            pending_sectors: 0,
        };
        if config.zones.namespaces.is_empty() {
            return Ok(zones);
        }
        for (at, domain) in map.domains.iter().enumerate() {
            if !config.zones.namespaces.contains(&(at as u32)) {
                zones.ranges.push(None);
                continue;
            }
            let count = domain.units / shape.units;
            for block in 0..count * shape.blocks {
                planes[domain.order.plane(block) as usize].zoned += 1;
            }
            let zone = Zone {
                state: State::Empty,
                units: 0,
                pages: 0,
                blocks: vec![NONE; shape.blocks as usize],
                first: NONE,
                last: NONE,
                count: 0,
                stalled: VecDeque::new(),
            };
            zones.ranges.push(Some(Zoned {
                zones: vec![zone; count as usize],
                ..Zoned::default()
            }));
        }
        planes
            .iter_mut()
            .for_each(|plane| plane.reserved = plane.zoned);
        if let Some(plane) = planes.iter().position(|plane| plane.zoned >= p.blocks) {
            let cause = format!(
                "the zones need {} blocks of plane {plane}, which has {}",
                planes[plane].zoned, p.blocks
            );
            return Err(Error::usage("build drive", cause)
                .hint("use larger zones (zones.blocks) or smaller namespaces"));
        }
        Ok(zones)
    }

    /// True when the range is a namespace with zones.
    pub(super) fn has(&self, range: usize) -> bool {
        self.zoned(range).is_some()
    }

    /// Number of zones with pages that wait for a block.
    pub(super) fn waiting(&self) -> usize {
        self.stalled.len()
    }

    /// True when the drive has zones.
    #[inline]
    pub(super) fn exist(&self) -> bool {
        !self.ranges.is_empty()
    }

    fn zoned(&self, range: usize) -> Option<&Zoned> {
        self.ranges.get(range)?.as_ref()
    }

    fn zone(&mut self, id: ZoneId) -> Option<&mut Zone> {
        let zoned = self.ranges.get_mut(id.range)?.as_mut()?;
        zoned.zones.get_mut(id.zone as usize)
    }

    /// The zones of a namespace that belong to queue `at` of the `queues` that share it: the first
    /// of them, and their number. `None` if the namespace has no zones.
    pub(super) fn of_queue(&self, range: usize, at: u32, queues: u32) -> Option<(u32, u32)> {
        let count = self.zoned(range)?.zones.len() as u64;
        let start = |at: u32| (count * u64::from(at) / u64::from(queues.max(1))) as u32;
        Some((start(at), start(at + 1) - start(at)))
    }

    /// Zone and offset in it of a unit of the namespace.
    fn place(&self, range: usize, unit: u32) -> (ZoneId, u32) {
        let zone = unit / self.shape.units;
        (ZoneId { range, zone }, unit % self.shape.units)
    }

    /// A zone is written: it is open, and another one may have to be closed. Returns true if one
    /// was.
    fn open(&mut self, id: ZoneId) -> bool {
        let limit = self.shape.open_max as usize;
        let Some(zoned) = self.ranges.get_mut(id.range).and_then(Option::as_mut) else {
            return false;
        };
        let zone = &mut zoned.zones[id.zone as usize];
        zoned.active += u32::from(zone.state == State::Empty);
        zone.state = State::Open;
        if limit == 0 || zoned.open.back() == Some(&id.zone) {
            return false;
        }
        zoned.open.retain(|other| *other != id.zone);
        zoned.open.push_back(id.zone);
        if zoned.open.len() <= limit {
            return false;
        }
        if let Some(oldest) = zoned.open.pop_front() {
            zoned.zones[oldest as usize].state = State::Closed;
        }
        true
    }

    /// A zone is no longer active.
    fn deactivate(&mut self, id: ZoneId, state: State) {
        let Some(zoned) = self.ranges.get_mut(id.range).and_then(Option::as_mut) else {
            return;
        };
        let zone = &mut zoned.zones[id.zone as usize];
        zoned.active -= u32::from(matches!(zone.state, State::Open | State::Closed));
        zone.state = state;
        zoned.open.retain(|other| *other != id.zone);
    }
}

/// How a zoned namespace treats a queue's cache setting: what was read is not kept, because a reset
/// would have to remove it.
pub(super) fn caching_of(caching: Caching) -> Caching {
    match caching {
        Caching::Off | Caching::Read => Caching::Off,
        Caching::Write | Caching::WriteRead => Caching::Write,
    }
}

impl Drive {
    /// True when the queue's namespace has zones.
    #[inline]
    pub(super) fn is_zoned(&self, queue: u16) -> bool {
        self.zones.exist() && {
            let range = self.map.of_queue[usize::from(queue)];
            self.zones.zoned(range).is_some()
        }
    }

    /// Sectors of a zone of the queue's namespace; 0 if it has none.
    pub(crate) fn zone_sectors(&self, queue: u16) -> u64 {
        match self.is_zoned(queue) {
            true => u64::from(self.zones.shape.units) * u64::from(self.p.unit_sectors),
            false => 0,
        }
    }

    /// Gives the queues of zoned namespaces their zones, in equal parts.
    ///
    /// # Errors
    /// Usage: a namespace has fewer than two zones per queue. With one, a flow could not write one
    /// while another is reset.
    pub(super) fn split_zones(&mut self, queues: &[QueueConfig]) -> Result<()> {
        for (at, queue) in queues.iter().enumerate() {
            let sectors = self.zone_sectors(at as u16);
            let range = self.map.of_queue[at];
            let is_same = |other: &&usize| **other == range;
            let sharers = self.map.of_queue.iter().filter(is_same).count() as u32;
            let before = self.map.of_queue[..at].iter().filter(is_same).count() as u32;
            let Some((zone, count)) = self.zones.of_queue(range, before, sharers) else {
                continue;
            };
            if count < 2 {
                let cause = format!(
                    "namespace {range} has fewer than two zones of {} for each of its {sharers} flows",
                    bytes(sectors * u64::from(SECTOR_BYTES))
                );
                return Err(Error::usage("build drive", cause)
                    .hint("use fewer zones.blocks, or a larger namespace"));
            }
            let touched = ((f64::from(count) * queue.working_set) as u64).max(1);
            let first = self.map.first_sector(at as u16) + u64::from(zone) * sectors;
            let pair = &mut self.queues[at];
            pair.first_sector = first;
            pair.last_sector = first + touched * sectors - 1;
        }
        Ok(())
    }

    /// Serves a write or a trim of a zoned namespace.
    pub(super) fn zoned_request(&mut self, req: u32) {
        if self.reqs[req].op == Op::Trim {
            self.reset_zones(req);
            return;
        }
        match self.zone_to_write(req) {
            Ok(id) => self.write_zone(req, id),
            Err(status) => {
                self.reqs[req].status = status;
                self.request_served(req);
            }
        }
    }

    /// The zone of a write, if the write is possible. Gives an append its place.
    fn zone_to_write(&mut self, req: u32) -> std::result::Result<ZoneId, Status> {
        let Req {
            queue,
            lba,
            sectors,
            ..
        } = self.reqs[req];
        let range = self.map.of_queue[usize::from(queue)];
        let inside = lba - self.map.first_sector(queue);
        let (unit, within) = self.p.unit_of_sector(inside);
        let (count, rest) = self.p.unit_of_sector(u64::from(sectors));
        if within != 0 || rest != 0 || unit >= u64::from(self.map.units(queue)) {
            return Err(Status::ZoneInvalidWrite);
        }
        let (id, mut offset) = self.zones.place(range, unit as u32);
        let Shape {
            units, active_max, ..
        } = self.zones.shape;
        let Some(zoned) = self.zones.zoned(range) else {
            return Err(Status::ZoneInvalidWrite);
        };
        let zone = &zoned.zones[id.zone as usize];
        if self.queues[usize::from(queue)].appends && offset == 0 {
            offset = zone.units;
        }
        if zone.state == State::Full {
            return Err(Status::ZoneIsFull);
        }
        if u64::from(offset) + count > u64::from(units) {
            return Err(Status::ZoneBoundary);
        }
        if offset != zone.units {
            return Err(Status::ZoneInvalidWrite);
        }
        if zone.state == State::Empty && active_max > 0 && zoned.active >= active_max {
            return Err(Status::TooManyActiveZones);
        }
        let start = u64::from(id.zone) * u64::from(units) + u64::from(offset);
        self.reqs[req].lba = self.map.first_sector(queue) + start * u64::from(self.p.unit_sectors);
        Ok(id)
    }

    fn write_zone(&mut self, req: u32, id: ZoneId) {
        let Req { queue, sectors, .. } = self.reqs[req];
        self.stats.zone_closes += u64::from(self.zones.open(id));
        let has_room =
            self.zones.pending_sectors.saturating_add(sectors) <= self.p.back_pressure_max;
        let caching = self.queues[usize::from(queue)].caching;
        let is_buffered = caching == Caching::Write && has_room;
        self.zones.pending_sectors = self.zones.pending_sectors.saturating_add(sectors);
        self.split(req);
        if is_buffered {
            self.reqs[req].open = 0;
            self.reqs[req].cache_sectors += sectors;
        }
        self.open_batch();
        let mut at = self.reqs[req].first;
        while at != NONE {
            let next = self.trs[at].sibling;
            if is_buffered {
                self.trs[at].req = NONE;
            }
            self.add_to_zone(id, at);
            at = next;
        }
        self.acknowledge_incomplete_page(id);
        let Shape { units, .. } = self.zones.shape;
        if self.zones.zone(id).is_some_and(|zone| zone.units == units) {
            self.zones.deactivate(id, State::Full);
        }
        self.close_batch();
        if is_buffered {
            self.read_memory(req, queue, sectors);
        } else if self.reqs[req].open == 0 {
            self.request_served(req);
        }
    }

    /// Adds a unit at the write pointer of its zone.
    fn add_to_zone(&mut self, id: ZoneId, tr: u32) {
        self.unit_taken(self.trs[tr].lpa);
        self.trs[tr].units = NONE;
        let slots = self.p.slots;
        let Some(zone) = self.zones.zone(id) else {
            return;
        };
        zone.units += 1;
        if zone.count == 0 {
            zone.first = tr;
        } else {
            self.trs[zone.last].units = tr;
        }
        zone.last = tr;
        zone.count += 1;
        if zone.count < slots {
            return;
        }
        let first = std::mem::replace(&mut zone.first, NONE);
        zone.count = 0;
        if !zone.stalled.is_empty() || !self.program_zone_page(id, first) {
            if let Some(zone) = self.zones.zone(id) {
                zone.stalled.push_back(first);
            }
            if !self.zones.stalled.contains(&id) {
                self.zones.stalled.push(id);
            }
        }
    }

    /// The units of an incomplete page are safe in memory, so nothing waits for them.
    fn acknowledge_incomplete_page(&mut self, id: ZoneId) {
        let mut at = match self.zones.zone(id) {
            Some(zone) if zone.count > 0 => zone.first,
            _ => return,
        };
        while at != NONE {
            let req = std::mem::replace(&mut self.trs[at].req, NONE);
            if req != NONE {
                self.reqs[req].open -= 1;
            }
            at = self.trs[at].units;
        }
    }

    /// Programs the next page of a zone. Returns false if it needs a block and its plane has none
    /// for zones.
    fn program_zone_page(&mut self, id: ZoneId, first: u32) -> bool {
        let Some(page) = self.take_zone_page(id, self.trs[first].queue) else {
            return false;
        };
        let mut slot = page * self.p.slots;
        let mut at = first;
        let mut class_of_service = 3;
        while at != NONE {
            let Tr {
                queue,
                lpa,
                units,
                class,
                ..
            } = self.trs[at];
            let full = self.full_unit();
            self.blocks.back[slot as usize] = lpa + 1;
            self.update_entry(queue, lpa, slot, full);
            self.count_host_unit(queue);
            class_of_service = class_of_service.min(class);
            slot += 1;
            at = units;
        }
        let program = match self.packs() {
            true => {
                let queue = self.trs[first].queue;
                let mut program = Tr::new(Kind::Program, Source::User, queue, class_of_service);
                program.units = first;
                program.stamp = self.now;
                self.trs.put(program)
            }
            false => first,
        };
        let entry = &mut self.trs[program];
        entry.page = page;
        entry.placed = true;
        entry.bytes = self.p.page_bytes;
        self.submit_tr(program);
        true
    }

    /// Takes the next page of a zone, and a block for it if needed.
    fn take_zone_page(&mut self, id: ZoneId, queue: u16) -> Option<u32> {
        let blocks = self.zones.shape.blocks;
        let zone = self.zones.zone(id)?;
        let at = zone.pages % blocks;
        let mut block = zone.blocks[at as usize];
        if block == NONE {
            let domain = &self.map.domains[id.range];
            let plane = domain.order.plane(id.zone * blocks + at);
            let stream = self.spaces.stream(queue);
            block = self.blocks.take_for_zone(&self.p, plane, stream)?;
        }
        let zone = self.zones.zone(id)?;
        zone.blocks[at as usize] = block;
        zone.pages += 1;
        Some(self.blocks.take_page_of(&self.p, block))
    }

    /// A unit of a zone has been programmed.
    pub(super) fn zone_unit_programmed(&mut self, tr: u32) {
        let req = self.trs[tr].req;
        self.zones.pending_sectors -= self.p.unit_sectors;
        if req != NONE {
            self.reqs[req].open -= 1;
            self.finish_if_done(req);
        }
    }

    /// Resets the zones that a trim covers as a whole.
    fn reset_zones(&mut self, req: u32) {
        let Req {
            queue,
            lba,
            sectors,
            ..
        } = self.reqs[req];
        let range = self.map.of_queue[usize::from(queue)];
        let per_zone = self.zone_sectors(queue);
        let start = lba - self.map.first_sector(queue);
        let count = self.zones.zoned(range).map_or(0, |zoned| zoned.zones.len());
        let first = start.div_ceil(per_zone);
        let end = ((start + u64::from(sectors)) / per_zone).min(count as u64);
        self.open_batch();
        for zone in first..end {
            let zone = zone as u32;
            self.reset_zone(ZoneId { range, zone }, req, queue);
        }
        self.close_batch();
        if self.reqs[req].open == 0 {
            self.request_served(req);
        }
    }

    fn reset_zone(&mut self, id: ZoneId, req: u32, queue: u16) {
        let Some(zone) = self.zones.zone(id) else {
            return;
        };
        if zone.state == State::Empty {
            return;
        }
        zone.units = 0;
        zone.pages = 0;
        let mut dropped: Vec<u32> = zone.stalled.drain(..).collect();
        if zone.count > 0 {
            dropped.push(zone.first);
        }
        (zone.first, zone.count) = (NONE, 0);
        let blocks: Vec<u32> = zone
            .blocks
            .iter_mut()
            .map(|block| std::mem::replace(block, NONE))
            .filter(|block| *block != NONE)
            .collect();
        self.zones.deactivate(id, State::Empty);
        self.zones.stalled.retain(|other| *other != id);
        self.stats.zone_resets += 1;
        for first in dropped {
            self.drop_unwritten(first);
        }
        for block in blocks {
            self.erase_zone_block(block, req, queue);
        }
    }

    /// Drops units that were accepted and never programmed.
    fn drop_unwritten(&mut self, first: u32) {
        let mut at = first;
        while at != NONE {
            let next = self.trs[at].units;
            self.unit_landed(self.trs[at].lpa);
            self.zone_unit_programmed(at);
            self.trs.drop_at(at);
            at = next;
        }
    }

    /// Makes the data of a block obsolete, and queues its erase, for which `req` waits.
    fn erase_zone_block(&mut self, block: u32, req: u32, queue: u16) {
        let slots = u64::from(self.p.slots);
        let first_page = block * self.p.pages;
        let first = u64::from(first_page) * slots;
        let written = u64::from(self.blocks.list[block as usize].written) * slots;
        for slot in first..first + written {
            self.blocks.invalidate(&self.p, slot);
            if let Some(unit) = self.blocks.back[slot as usize].checked_sub(1) {
                self.clear_entry(queue, unit);
            }
        }
        self.blocks.list[block as usize].collecting = true;
        self.zones.resets.insert(block, req);
        self.reqs[req].open += 1;
        let mut erase = Tr::new(Kind::Erase, Source::Gc, queue, 1);
        erase.page = first_page;
        erase.erase = 0;
        erase.placed = true;
        let erase = self.trs.put(erase);
        self.submit_tr(erase);
    }

    /// A block of a zone has been erased: pages that wait for a block may continue.
    pub(super) fn zone_block_erased(&mut self, block: u32) {
        if let Some(req) = self.zones.resets.remove(&block) {
            self.reqs[req].open -= 1;
            self.finish_if_done(req);
        }
        self.open_batch();
        for id in std::mem::take(&mut self.zones.stalled) {
            loop {
                let front = self
                    .zones
                    .zone(id)
                    .and_then(|zone| zone.stalled.pop_front());
                let Some(first) = front else { break };
                if !self.program_zone_page(id, first) {
                    if let Some(zone) = self.zones.zone(id) {
                        zone.stalled.push_front(first);
                    }
                    self.zones.stalled.push(id);
                    break;
                }
            }
        }
        self.close_batch();
    }

    /// Fills the first `share` of the zones of a queue's namespace.
    pub(super) fn fill_zones(&mut self, queue: u16, share: f64) -> Result<()> {
        let range = self.map.of_queue[usize::from(queue)];
        let base = self.map.base(queue);
        let count = self.zones.zoned(range).map_or(0, |zoned| zoned.zones.len());
        let Shape { units, .. } = self.zones.shape;
        let full = self.full_unit();
        for zone in 0..(count as f64 * share.clamp(0.0, 1.0)) as u32 {
            let id = ZoneId { range, zone };
            self.zones.open(id);
            let mut unit = base + zone * units;
            for _ in 0..units / self.p.slots {
                let page = self.take_zone_page(id, queue).ok_or_else(|| {
                    Error::usage("precondition drive", "a plane has too few blocks for zones")
                })?;
                self.blocks.list[self.p.block_of_page(page) as usize].programs -= 1;
                for slot in page * self.p.slots..(page + 1) * self.p.slots {
                    self.blocks.back[slot as usize] = unit + 1;
                    self.map.set_slot(unit, Some(slot));
                    self.map.set_written_direct(unit, full);
                    unit += 1;
                }
            }
            if let Some(zone) = self.zones.zone(id) {
                zone.units = units;
            }
            self.zones.deactivate(id, State::Full);
        }
        Ok(())
    }
}
