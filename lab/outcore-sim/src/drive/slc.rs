//! The SLC cache: blocks that are written with one bit per cell, and their folding.
//!
//! Model: a plane writes the host's data to at most `slc.blocks` of its free blocks with one bit
//! per cell. Such a block has as many pages as it has word lines (`flash.pages` divided by the
//! bits per cell), and their reads and programs take `slc.read` and `slc.program`. Folding moves
//! the valid pages of the oldest full SLC block to a block with all bits and erases it, as a
//! collection does.
//! - When the host has had no request for `slc.idle`, every plane folds one block after another
//!   until it has none or a request comes. Then it collects blocks of which a quarter is obsolete,
//!   until as many blocks are free as the cache can use.
//! - When a plane has no SLC block left for a write, the write goes to a block with all bits, and
//!   the plane folds one block at a time.
//! - SLC blocks come from the free blocks, so the cache of a full drive is smaller: a plane opens
//!   one only while more blocks are free than the threshold of collection. Below the threshold, a
//!   plane folds before it collects.
//!
//! The policy is that of drives whose SLC cache shrinks as they fill. Products differ.
//!
//! Invariant: a plane's count of SLC blocks equals its blocks with the mark. Memory: 4 bytes per
//! full SLC block.

use super::gc::Reason;
use super::types::Frontier;
use super::{Drive, event_kind};

/// While the host is idle, a plane collects blocks of which at least one in this many units is
/// obsolete.
const GAIN: u64 = 4;

/// Work while the host is idle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slc {
    /// Number of the last request, modulo the room of an event's argument.
    requests: u32,
    /// The host has been idle for long enough, and no request has come since.
    is_idle: bool,
}

impl Drive {
    /// A request has come: idle time is over.
    #[inline]
    pub(super) fn end_idle_time(&mut self) {
        if self.p.slc_blocks > 0 {
            self.slc.requests = self.slc.requests.wrapping_add(1) & event_kind::ARG;
            self.slc.is_idle = false;
        }
    }

    /// A request has left the drive. If it was the last one, idle time may begin.
    #[inline]
    pub(super) fn begin_idle_time(&mut self) {
        if self.p.slc_blocks > 0 && self.reqs.live() == 0 {
            let at = self.now + self.p.slc_idle;
            self.schedule(at, event_kind::FOLD, self.slc.requests);
        }
    }

    /// Folds one block of every plane if no request has come since the number `requests`.
    pub(super) fn idle_timer(&mut self, requests: u32) {
        if requests != self.slc.requests || self.reqs.live() > 0 {
            return;
        }
        self.slc.is_idle = true;
        for plane in 0..self.p.plane_count {
            self.work_while_idle(plane);
        }
    }

    /// [`Drive::take_page`] for a write of the host.
    #[inline]
    pub(super) fn take_data_page(&mut self, plane: u32, queue: u16, used: u32) -> Option<u32> {
        let stream = self.spaces.stream(queue);
        let frontier = self.frontier_for_data(plane, stream);
        self.take_page(plane, stream, frontier, used)
    }

    /// The kind of block that receives a write of the host.
    #[inline]
    fn frontier_for_data(&mut self, plane: u32, stream: u16) -> Frontier {
        if self.p.slc_blocks == 0 {
            return Frontier::Data;
        }
        if self.blocks.frontier(plane, stream, Frontier::Slc).is_some() {
            return Frontier::Slc;
        }
        let used = self.blocks.planes[plane as usize].slc_used;
        if used < self.p.slc_blocks && self.blocks.pool(&self.p, plane) > self.p.gc_threshold {
            return Frontier::Slc;
        }
        self.fold(plane);
        Frontier::Data
    }

    /// Starts to fold the oldest full SLC block of a plane, unless the plane folds one already.
    /// Returns true if it started.
    pub(super) fn fold(&mut self, plane: u32) -> bool {
        let state = &self.blocks.planes[plane as usize];
        let first = plane * self.p.blocks;
        let is_slc = |block: &u32| self.blocks.list[(first + block) as usize].is_slc;
        let pool = self.blocks.pool(&self.p, plane) as usize;
        let most = (self.p.gc_concurrent as usize).min(pool);
        if state.erasing.len() >= most || state.erasing.iter().any(is_slc) {
            return false;
        }
        let ready = state
            .slc_full
            .iter()
            .position(|block| self.safe(plane, *block));
        let Some(block) = ready.and_then(|at| {
            let state = &mut self.blocks.planes[plane as usize];
            state.slc_full.remove(at)
        }) else {
            return false;
        };
        self.collect(plane, block, Reason::Fold);
        true
    }

    /// A block has been erased: an idle drive continues.
    pub(super) fn continue_idle_work(&mut self, plane: u32) {
        if self.slc.is_idle {
            self.work_while_idle(plane);
        }
    }

    /// Folds the next block of a plane. If none is left, makes room for the next burst.
    fn work_while_idle(&mut self, plane: u32) {
        if self.fold(plane) {
            return;
        }
        let wanted = self.p.gc_threshold + self.p.slc_blocks;
        let is_working = !self.blocks.planes[plane as usize].erasing.is_empty();
        if is_working || self.blocks.pool(&self.p, plane) >= wanted {
            return;
        }
        let first = plane * self.p.blocks;
        let is_gainful = |block: &u32| {
            let block = &self.blocks.list[(first + block) as usize];
            let written = u64::from(block.written) * u64::from(self.p.slots);
            GAIN * u64::from(block.invalid) >= written
        };
        if let Some(block) = self.most_invalid(plane).filter(is_gainful) {
            self.collect(plane, block, Reason::Space);
        }
    }
}
