//! Preconditioning: creates the state of a used drive without simulating its past.
//!
//! Model: in the steady state of a collector, the number of valid pages per block follows a
//! distribution that depends on the policy and the load (B. Van Houdt, "A mean field model for a
//! class of garbage collection algorithms in flash-based solid state drives", SIGMETRICS 2013). For
//! streaming writes blocks are either full or empty. The first `occupancy` share of each queue's
//! units is placed into blocks that are filled by that distribution. With `compat` the choice of
//! units is MQSim's ([`super::fill_mqsim`]).
//!
//! Bounds: 8 bytes per unit while it runs.

use outcore_io::{Error, Result};

use super::Drive;
use super::states::{
    hot_cold_states, mean_field, random_pp_states, random_states, shift_to_mean, steady_field,
};
use super::types::Frontier;
use crate::config::GcPolicy;
use crate::rng::Rng;
use crate::workload::FlowConfig;

/// Number of choices that approximates greedy.
const GREEDY_CHOICES: u32 = 30;

/// The access pattern, as far as the fill depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    Streaming,
    Uniform,
    HotCold,
}

impl Drive {
    /// Fills the drive for the flows. Each queue belongs to one flow. A namespace is filled as far
    /// as the flow asks that wants most of it.
    pub fn precondition(&mut self, flows: &[FlowConfig]) -> Result<()> {
        let occupancies: Vec<f64> = flows.iter().map(|flow| flow.queue.occupancy).collect();
        for (queue, flow) in flows.iter().enumerate() {
            let queue = queue as u16;
            if self.p.compat {
                self.fill_as_mqsim(queue, flow, flows)?;
            } else if let Some(occupancy) = self.share_to_fill(queue, &occupancies) {
                self.fill_share(queue, occupancy)?;
            }
            if let Some(error) = self.fault.take() {
                return Err(error);
            }
        }
        self.blocks.check_conservation(&self.p);
        Ok(())
    }

    /// Places the first `occupancy` share of the queue's units at random over its planes.
    fn fill_share(&mut self, queue: u16, occupancy: f64) -> Result<()> {
        if self.is_zoned(queue) {
            return self.fill_zones(queue, occupancy);
        }
        let domain = self.map.domain(queue);
        let (base, units) = (domain.base, domain.units);
        let count = (f64::from(units) * occupancy.clamp(0.0, 1.0)) as u32;
        let slots = self.p.slots;
        let full = self.full_unit();
        let mut planes: Vec<Vec<u32>> = vec![Vec::new(); self.p.plane_count as usize];
        for unit in 0..count {
            let domain = self.map.domain(queue);
            let plane = domain.order.plane(unit / slots);
            planes[plane as usize].push(base + unit);
            self.map.set_written_direct(base + unit, full);
        }
        let mut rng = Rng::new(1 + i32::from(queue));
        // Pages are placed at random, but the units of one page stay together, as on a drive that
        // was filled in large pieces. (Small random writes during the run scatter them.)
        let slots = slots as usize;
        for list in &mut planes {
            let whole = list.len() / slots;
            for at in (1..whole).rev() {
                let other = rng.between(0, at as u64) as usize;
                for slot in 0..slots {
                    list.swap(at * slots + slot, other * slots + slot);
                }
            }
            // Units are taken from the end of the list.
            list.reverse();
        }
        // Whether a fuller drive fits does not depend on the distribution.
        let load = self.load(occupancy).clamp(0.0, 0.999);
        let states = self.steady_states(Pattern::Uniform, load, occupancy, 0.5);
        self.place_filled(queue, planes, &states)?;
        if !self.p.resident {
            let room = self.map.domains[self.map.of_queue[usize::from(queue)]]
                .cmt
                .capacity();
            for unit in 0..count.min(room) {
                self.insert_entry(queue, base + unit, false);
            }
        }
        Ok(())
    }

    /// Van Houdt's rho: valid pages divided by usable pages.
    pub(super) fn load(&self, occupancy: f64) -> f64 {
        occupancy * (1.0 - self.p.over_provisioning)
            / (1.0 - f64::from(self.p.gc_threshold) / f64::from(self.p.blocks))
    }

    /// Probability that a block in the steady state has 0, 1, .. all of its pages valid.
    pub(super) fn steady_states(
        &self,
        pattern: Pattern,
        load: f64,
        occupancy: f64,
        hot_ratio: f64,
    ) -> Vec<f64> {
        let pages = self.p.pages;
        if pattern == Pattern::Streaming {
            let mut states = vec![0.0; pages as usize + 1];
            states[0] = 1.0 - load;
            states[pages as usize] = load;
            return states;
        }
        let field = if self.p.compat {
            mean_field
        } else {
            steady_field
        };
        let states = match self.p.gc_policy {
            GcPolicy::Greedy | GcPolicy::Fifo => field(pages, load, GREEDY_CHOICES),
            GcPolicy::Rga => field(pages, load, self.p.gc_choices),
            GcPolicy::Random | GcPolicy::RandomP => random_states(pages, load),
            GcPolicy::RandomPp => random_pp_states(
                pages,
                occupancy * (1.0 - self.p.over_provisioning),
                (occupancy * f64::from(pages)) as u32,
            ),
        };
        if pattern == Pattern::HotCold && hot_ratio > 0.0 {
            return hot_cold_states(&states, hot_ratio);
        }
        states
    }

    /// Writes the units of every plane into blocks filled by the distribution, only whole blocks.
    pub(super) fn place_filled(
        &mut self,
        queue: u16,
        planes: Vec<Vec<u32>>,
        states: &[f64],
    ) -> Result<()> {
        for (plane, mut units) in planes.into_iter().enumerate() {
            let plane = plane as u32;
            let parts = self.parts_of_plane(plane, queue);
            if units.is_empty() && !self.p.compat {
                continue;
            }
            if parts == 0.0 {
                continue;
            }
            // MQSim leaves half of the threshold free. Here the collector also needs blocks for its
            // frontiers.
            let reserve = if self.p.compat {
                self.p.gc_threshold / 2
            } else {
                self.p.gc_threshold.max(self.p.gc_concurrent + 3)
            };
            let reserve = reserve + self.blocks.planes[plane as usize].zoned;
            let reserve = reserve + self.free_for_slc(units.len(), reserve, parts);
            let usable = self.p.blocks.saturating_sub(reserve);
            let mut goal = (f64::from(usable) / parts) as u32;
            if self.spaces.has_namespaces() {
                // A small namespace may need a block more than its share.
                let per_block = (self.p.pages * self.p.slots) as usize;
                goal = goal.max(units.len().div_ceil(per_block) as u32);
            }
            if self.p.compat {
                self.place_plane(queue, plane, goal, &mut units, states)?;
            } else {
                self.place_plane_exactly(queue, plane, goal, &mut units, states)?;
            }
            if !units.is_empty() {
                return Err(Error::usage(
                    "precondition drive",
                    format!("{} units do not fit in plane {plane}", units.len()),
                )
                .hint("lower the occupancy or raise the over-provisioning"));
            }
        }
        Ok(())
    }

    /// Free blocks that filling a plane leaves for the SLC cache: what it may use, as far as one of
    /// `parts` queues needs no room for `units` outside the `reserve`.
    fn free_for_slc(&self, units: usize, reserve: u32, parts: f64) -> u32 {
        let per_block = (self.p.pages * self.p.slots) as usize;
        let needed = (units.div_ceil(per_block) as f64 * parts).ceil() as u32;
        let room = self.p.blocks.saturating_sub(reserve);
        self.p.slc_blocks.min(room.saturating_sub(needed))
    }

    /// Outside MQSim: uses blocks at the quantiles of the distribution, corrected until all units
    /// fit.
    fn place_plane_exactly(
        &mut self,
        queue: u16,
        plane: u32,
        goal: u32,
        units: &mut Vec<u32>,
        states: &[f64],
    ) -> Result<()> {
        let pages = self.p.pages;
        let needed = units.len().div_ceil(self.p.slots as usize) as i64;
        let mean = needed as f64 / (f64::from(goal.max(1)) * f64::from(pages));
        let adjusted = shift_to_mean(states, mean);
        let mut blocks: Vec<u32> = Vec::with_capacity(goal as usize);
        let (mut at, mut below) = (0usize, adjusted[0]);
        for block in 0..goal {
            let quantile = (f64::from(block) + 0.5) / f64::from(goal);
            while below < quantile && at < pages as usize {
                at += 1;
                below += adjusted[at];
            }
            blocks.push(at as u32);
        }
        let mut missing = needed - blocks.iter().map(|valid| i64::from(*valid)).sum::<i64>();
        let mut changed = true;
        while missing != 0 && changed {
            changed = false;
            for valid in &mut blocks {
                if missing > 0 && *valid < pages {
                    *valid += 1;
                    missing -= 1;
                    changed = true;
                } else if missing < 0 && *valid > 0 {
                    *valid -= 1;
                    missing += 1;
                    changed = true;
                }
            }
        }
        for valid in blocks {
            self.fill_block(queue, plane, valid, units)?;
        }
        Ok(())
    }

    /// Fills the frontier of a plane: `valid` pages of data, the rest obsolete.
    pub(super) fn fill_block(
        &mut self,
        queue: u16,
        plane: u32,
        valid: u32,
        units: &mut Vec<u32>,
    ) -> Result<()> {
        for at in 0..self.p.pages {
            let take = if at < valid {
                (self.p.slots as usize).min(units.len()) as u32
            } else {
                0
            };
            let page = self.take_page_quietly(plane, queue, take).ok_or_else(|| {
                Error::usage(
                    "precondition drive",
                    format!("plane {plane} has too few blocks"),
                )
                .hint("lower the occupancy")
            })?;
            for slot in 0..take {
                if let Some(unit) = units.pop() {
                    let slot = page * self.p.slots + slot;
                    self.blocks.back[slot as usize] = unit + 1;
                    self.map.set_slot(unit, Some(slot));
                }
            }
        }
        Ok(())
    }

    /// [`Drive::take_page`] that starts no collection and counts no program as under way.
    fn take_page_quietly(&mut self, plane: u32, queue: u16, used: u32) -> Option<u32> {
        let threshold = std::mem::replace(&mut self.p.gc_threshold, 0);
        let stream = self.spaces.stream(queue);
        let page = self.take_page(plane, stream, Frontier::Data, used);
        self.p.gc_threshold = threshold;
        if let Some(page) = page {
            self.blocks.list[self.p.block_of_page(page) as usize].programs -= 1;
        }
        page
    }
}
