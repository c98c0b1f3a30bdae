//! Planes and their blocks: free blocks, write frontiers, valid and invalid slots.
//!
//! Model: every stream ([`super::spaces`]; by default, every queue has one) has up to four
//! frontiers in every plane: for user data, for table pages, for
//! user data with one bit per cell ([`super::slc`]), and for collected data (double write
//! frontier: B. Van Houdt, "On the necessity of hot and cold data identification to reduce the
//! write amplification in flash-based SSDs", Performance Evaluation 2014). With `gc.separate =
//! false` collected data goes to the frontier for user data. With `compat`, frontiers are
//! allocated when the drive is built, as in MQSim; otherwise on first use.
//!
//! Invariant: in every plane, free + valid + invalid slots equal blocks x pages x slots. This is
//! checked whenever a frontier moves and at the end of a run. A slot is a mapping unit within a
//! page. The slots that a partly filled page leaves empty count as invalid at once.
//!
//! Bounds: 28 bytes per block, one bit and 4 bytes per slot, zeroed and touched lazily.

use std::collections::VecDeque;

use outcore_io::Result;

use super::params::Params;
use super::types::{Frontier, NONE};
use super::{Drive, QueueConfig};
use crate::config::GcPolicy;

/// One erase block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    /// Pages that have been allocated.
    pub(crate) written: u32,
    /// Slots with obsolete content.
    pub(crate) invalid: u32,
    /// Erases so far.
    pub(crate) erases: u32,
    /// Reads under way.
    pub(crate) reads: i32,
    /// Programs under way.
    pub(crate) programs: i32,
    /// Stream that it was written by.
    pub(crate) stream: u16,
    /// Holds pages of the mapping table.
    pub(crate) holds_map: bool,
    /// Being collected.
    pub(crate) collecting: bool,
    /// Written with one bit per cell.
    pub(crate) is_slc: bool,
    /// Belongs to a zone, until its erase.
    pub(crate) is_zoned: bool,
}

/// One plane.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plane {
    pub(crate) free: u64,
    pub(crate) valid: u64,
    pub(crate) invalid: u64,
    /// Next block that has never been used.
    fresh: u32,
    /// Erased blocks: (erase count, block), in the order of use.
    returned: VecDeque<(u32, u32)>,
    /// Blocks whose erase is under way.
    pub(crate) erasing: Vec<u32>,
    /// Blocks in the order of first use (FIFO collection only).
    pub(crate) history: VecDeque<u32>,
    /// Blocks that belong to zones, and those of them that are free.
    pub(crate) zoned: u32,
    pub(crate) reserved: u32,
    /// Blocks written with one bit per cell, until their erase.
    pub(crate) slc_used: u32,
    /// Those that are full and wait to be folded, the oldest first.
    pub(crate) slc_full: VecDeque<u32>,
}

/// All planes of a drive.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    pub(crate) list: Vec<Block>,
    pub(crate) planes: Vec<Plane>,
    /// Block of every frontier, ordered by plane, then stream, then kind; NONE when not allocated
    /// yet.
    frontiers: Vec<u32>,
    invalid_bits: Vec<u64>,
    words: usize,
    /// Mapping unit + 1 of every slot; 0 when it was never written.
    pub(crate) back: Vec<u32>,
    /// How many queues share each plane.
    pub(crate) shares: Vec<u32>,
    streams: usize,
    keeps_history: bool,
    /// MQSim's own bookkeeping has failed (compat only).
    pub(crate) broken: bool,
}

/// How many queues use each plane.
pub(crate) fn plane_shares(p: &Params, queues: &[QueueConfig]) -> Vec<u32> {
    let mut shares = vec![0; p.plane_count as usize];
    for queue in queues {
        for c in &queue.ids[0] {
            for w in &queue.ids[1] {
                for d in &queue.ids[2] {
                    for l in &queue.ids[3] {
                        shares[p.plane_at([*c, *w, *d, *l]) as usize] += 1;
                    }
                }
            }
        }
    }
    shares
}

impl Blocks {
    pub(crate) fn new(
        p: &Params,
        streams: usize,
        shares: Vec<u32>,
        policy: GcPolicy,
    ) -> Result<Self> {
        let block_count = p.plane_count as usize * p.blocks as usize;
        let slots_per_block = p.pages as usize * p.slots as usize;
        let words = slots_per_block.div_ceil(64);
        let plane = Plane {
            free: p.blocks as u64 * slots_per_block as u64,
            ..Plane::default()
        };
        let mut blocks = Blocks {
            list: vec![Block::default(); block_count],
            planes: vec![plane; p.plane_count as usize],
            frontiers: vec![NONE; p.plane_count as usize * streams * Frontier::COUNT],
            invalid_bits: vec![0; block_count * words],
            words,
            back: vec![0; block_count * slots_per_block],
            shares,
            streams,
            keeps_history: policy == GcPolicy::Fifo,
            broken: false,
        };
        if p.compat {
            if p.blocks as usize <= 3 * streams {
                return Err(outcore_io::Error::usage(
                    "build drive",
                    format!(
                        "a plane of {} blocks is too small: {streams} flows need at least {}",
                        p.blocks,
                        3 * streams + 1
                    ),
                ));
            }
            for plane in 0..p.plane_count {
                for stream in 0..streams as u16 {
                    for kind in [Frontier::Data, Frontier::Table, Frontier::Collected] {
                        blocks.advance_frontier(p, plane, stream, kind);
                    }
                }
            }
        }
        Ok(blocks)
    }

    pub(super) fn use_large_pages(&self) {
        crate::hot::use_large_pages(&self.back);
        crate::hot::use_large_pages(&self.invalid_bits);
        crate::hot::use_large_pages(&self.list);
    }

    fn frontier_at(&self, plane: u32, stream: u16, kind: Frontier) -> usize {
        (plane as usize * self.streams + usize::from(stream)) * Frontier::COUNT + kind as usize
    }

    /// The block (within the plane) that `kind` writes to; `None` when it has none yet.
    pub(crate) fn frontier(&self, plane: u32, stream: u16, kind: Frontier) -> Option<u32> {
        let block = self.frontiers[self.frontier_at(plane, stream, kind)];
        (block != NONE).then_some(block)
    }

    /// Free blocks of a plane, without those that only zones may take.
    #[inline]
    pub(crate) fn pool(&self, p: &Params, plane: u32) -> u32 {
        let plane = &self.planes[plane as usize];
        p.blocks - plane.fresh + plane.returned.len() as u32 - plane.reserved
    }

    /// Gives the frontier a free block. Returns false when the pool is empty.
    fn advance_frontier(&mut self, p: &Params, plane: u32, stream: u16, kind: Frontier) -> bool {
        let at = self.frontier_at(plane, stream, kind);
        let state = &mut self.planes[plane as usize];
        let Some(block) = state.next_free(p) else {
            self.frontiers[at] = NONE;
            return false;
        };
        if kind == Frontier::Slc {
            state.slc_used += 1;
        } else if self.keeps_history {
            state.history.push_back(block);
        }
        self.frontiers[at] = block;
        let entry = &mut self.list[(plane * p.blocks + block) as usize];
        entry.stream = stream;
        entry.holds_map = kind == Frontier::Table;
        entry.is_slc = kind == Frontier::Slc;
        true
    }

    /// Takes a block of the plane for a zone, numbered over the drive. Returns `None` if all blocks
    /// of zones are in use or being erased.
    pub(super) fn take_for_zone(&mut self, p: &Params, plane: u32, stream: u16) -> Option<u32> {
        let state = &mut self.planes[plane as usize];
        state.reserved = state.reserved.checked_sub(1)?;
        let block = plane * p.blocks + state.next_free(p)?;
        let entry = &mut self.list[block as usize];
        entry.stream = stream;
        entry.is_zoned = true;
        Some(block)
    }

    /// Takes the next page of a block for a program of all its slots.
    pub(super) fn take_page_of(&mut self, p: &Params, block: u32) -> u32 {
        let entry = &mut self.list[block as usize];
        let page = block * p.pages + entry.written;
        entry.written += 1;
        entry.programs += 1;
        let state = &mut self.planes[(block / p.blocks) as usize];
        state.free -= u64::from(p.slots);
        state.valid += u64::from(p.slots);
        page
    }

    /// Closes a full SLC block, which then waits to be folded.
    fn close_slc(&mut self, plane: u32, stream: u16) {
        let at = self.frontier_at(plane, stream, Frontier::Slc);
        let block = std::mem::replace(&mut self.frontiers[at], NONE);
        self.planes[plane as usize].slc_full.push_back(block);
    }

    /// True when the block is a frontier of its plane.
    pub(crate) fn is_frontier(&self, plane: u32, block: u32) -> bool {
        let count = self.streams * Frontier::COUNT;
        let start = plane as usize * count;
        self.frontiers[start..start + count].contains(&block)
    }

    #[inline]
    fn bit(&self, p: &Params, slot: u64) -> (usize, u64) {
        if p.slots == 1 {
            let block = p.block_of_page(slot as u32);
            let inside = slot as u32 - block * p.pages;
            return (
                block as usize * self.words + (inside / 64) as usize,
                1 << (inside % 64),
            );
        }
        let per_block = u64::from(p.pages * p.slots);
        let block = slot / per_block;
        let inside = slot % per_block;
        (
            block as usize * self.words + (inside / 64) as usize,
            1 << (inside % 64),
        )
    }

    /// True when the slot has been allocated and not invalidated.
    #[inline]
    pub(crate) fn slot_valid(&self, p: &Params, slot: u64) -> bool {
        let (word, bit) = self.bit(p, slot);
        self.invalid_bits[word] & bit == 0
    }

    /// Marks the content of the slot as obsolete. Doing so twice is a defect of the model, except
    /// with `compat`. MQSim collects blocks that are still being programmed, loses track of their
    /// pages and eventually crashes. Here [`Blocks::broken`] ends the run with an error.
    pub(crate) fn invalidate(&mut self, p: &Params, slot: u64) {
        let (word, bit) = self.bit(p, slot);
        let block = (slot / u64::from(p.pages * p.slots)) as usize;
        let nothing_valid = self.planes[block / p.blocks as usize].valid == 0;
        if self.invalid_bits[word] & bit != 0 || nothing_valid {
            assert!(p.compat, "a slot was invalidated twice");
            self.broken = true;
            return;
        }
        self.invalid_bits[word] |= bit;
        self.list[block].invalid += 1;
        let plane = &mut self.planes[block / p.blocks as usize];
        plane.invalid += 1;
        plane.valid -= 1;
    }

    /// Marks the block as erased: all slots are free again, and the block joins the pool.
    pub(crate) fn erased(&mut self, p: &Params, block: u32, by_wear: bool) {
        let plane = &mut self.planes[(block / p.blocks) as usize];
        let entry = &mut self.list[block as usize];
        let per_page = u64::from(p.slots);
        let given = u64::from(entry.written) * per_page;
        let invalid = u64::from(entry.invalid);
        assert!(
            invalid == given || p.compat,
            "a block with valid data was erased"
        );
        plane.free += invalid;
        plane.invalid -= invalid;
        entry.written = 0;
        entry.invalid = 0;
        entry.erases += 1;
        entry.holds_map = false;
        plane.slc_used -= u32::from(std::mem::take(&mut entry.is_slc));
        plane.reserved += u32::from(std::mem::take(&mut entry.is_zoned));
        let first = block as usize * self.words;
        self.invalid_bits[first..first + self.words].fill(0);
        let key = if by_wear { entry.erases } else { 0 };
        let at = plane.returned.partition_point(|(wear, _)| *wear <= key);
        plane.returned.insert(at, (key, block % p.blocks));
        plane.check(p);
    }

    /// Asserts the invariant of every plane.
    pub(crate) fn check_conservation(&self, p: &Params) {
        for plane in &self.planes {
            plane.check(p);
        }
    }

    /// Least and most worn block of a plane: (index of the first least, index of the first most).
    pub(crate) fn wear_extremes(&self, p: &Params, plane: u32) -> (u32, u32) {
        let first = (plane * p.blocks) as usize;
        let blocks = &self.list[first..first + p.blocks as usize];
        let (mut least, mut most) = (0, 0);
        for (at, block) in blocks.iter().enumerate() {
            if block.erases < blocks[least].erases {
                least = at;
            }
            if block.erases > blocks[most].erases {
                most = at;
            }
        }
        (least as u32, most as u32)
    }
}

impl Plane {
    /// Takes a free block, unless only those are left that zones may take.
    fn next_free(&mut self, p: &Params) -> Option<u32> {
        if p.blocks - self.fresh + self.returned.len() as u32 <= self.reserved {
            return None;
        }
        if self.fresh < p.blocks {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.returned.pop_front().map(|(_, block)| block)
    }

    fn check(&self, p: &Params) {
        let total = u64::from(p.pages_per_plane) * u64::from(p.slots);
        assert_eq!(
            self.free + self.valid + self.invalid,
            total,
            "pages of a plane do not add up"
        );
    }
}

impl Drive {
    /// Takes the next page of a frontier for `used` of its slots. Returns `None` when the plane has
    /// no room: with a fault, or without one if no frontier could be opened. May start a
    /// collection.
    pub(super) fn take_page(
        &mut self,
        plane: u32,
        stream: u16,
        kind: Frontier,
        used: u32,
    ) -> Option<u32> {
        let p = &self.p;
        let block = match self.blocks.frontier(plane, stream, kind) {
            Some(block) => block,
            None => {
                if !self.blocks.advance_frontier(p, plane, stream, kind) {
                    return None;
                }
                self.blocks.frontier(plane, stream, kind)?
            }
        };
        let global = plane * p.blocks + block;
        let entry = &mut self.blocks.list[global as usize];
        let page = global * p.pages + entry.written;
        entry.written += 1;
        let counted = !p.compat || kind != Frontier::Collected;
        if counted {
            entry.programs += 1;
        }
        let pages = match kind {
            Frontier::Slc => p.slc_pages,
            _ => p.pages,
        };
        let full = entry.written == pages;
        let state = &mut self.blocks.planes[plane as usize];
        state.free -= u64::from(p.slots);
        state.valid += u64::from(p.slots);
        for slot in used..p.slots {
            self.blocks
                .invalidate(p, u64::from(page) * u64::from(p.slots) + u64::from(slot));
        }
        if kind == Frontier::Slc {
            self.stats.slc_units += u64::from(used);
        }
        if full && kind == Frontier::Slc {
            self.blocks.close_slc(plane, stream);
            self.check_collection(plane);
        } else if full {
            let opened = self.blocks.advance_frontier(&self.p, plane, stream, kind);
            if !opened && self.p.compat {
                self.plane_exhausted(plane);
            }
            if kind == Frontier::Data || kind == Frontier::Table || self.p.compat {
                self.check_collection(plane);
            }
        }
        if self.blocks.planes[plane as usize].free == 0 && self.p.compat {
            self.plane_exhausted(plane);
        }
        Some(page)
    }

    pub(super) fn plane_exhausted(&mut self, plane: u32) {
        let p = &self.p;
        let place = [
            plane / (p.chips * p.dies * p.planes),
            plane / (p.dies * p.planes) % p.chips,
            plane / p.planes % p.dies,
            plane % p.planes,
        ];
        self.fail(
            format!(
                "channel {}, chip {}, die {}, plane {} has no free block left: collection could not keep up",
                place[0], place[1], place[2], place[3]
            ),
            "raise flash.over_provisioning or gc.threshold, or lower the occupancy",
        );
    }
}
