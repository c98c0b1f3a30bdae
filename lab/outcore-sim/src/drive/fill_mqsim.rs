//! Preconditioning in the way of MQSim, for `compat`.
//!
//! Model:
//! - The workload's own generator marks the units that it would touch, until the occupancy is
//!   reached. A marked unit counts as written only in the touched sectors; if the workload is a
//!   list that touches too few units, only in one sector.
//! - Blocks are filled from the fullest to the emptiest by MQSim's rounding of the steady state.
//! - The mapping cache is warmed up with the units that were touched first.
//!
//! The project's reference on MQSim lists its quirks.
//!
//! Bounds: 8 bytes per unit while it runs.

use outcore_io::{Error, Result};

use super::Drive;
use super::fill::Pattern;
use super::states::shift_to_mean;
use crate::rng::Rng;
use crate::workload::{Addresses, FlowConfig, ListItem, Origin, Pace, Streams, Synthetic};

/// Units in the order in which they were first touched (kept only to warm up the mapping cache).
#[derive(Debug, Default)]
struct Touched {
    hot: Vec<u32>,
    cold: Vec<u32>,
}

/// The range that [`Drive::draw_touches`] draws from.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    hot_last: u64,
    align: u64,
    ratio: f64,
    all_hot: bool,
    pattern: Pattern,
}

/// Quotient and remainder of `number` and `by`.
#[inline]
pub(super) fn parts(number: u64, by: u64) -> (u64, u64) {
    if by.is_power_of_two() {
        (number >> by.trailing_zeros(), number & (by - 1))
    } else {
        (number / by, number % by)
    }
}

impl Drive {
    /// Marks the units that the flow would touch, places them, and warms up the mapping cache.
    pub(super) fn fill_as_mqsim(
        &mut self,
        queue: u16,
        flow: &FlowConfig,
        flows: &[FlowConfig],
    ) -> Result<()> {
        let occupancy = flow.queue.occupancy;
        let units = u64::from(self.map.domains[self.map.of_queue[usize::from(queue)]].units);
        let goal = (occupancy * units as f64) as u64;
        let mut touched = Touched::default();
        let (pattern, hot_ratio) = match &flow.origin {
            Origin::Synthetic(spec) => self.touch_synthetic(queue, spec, goal, &mut touched)?,
            Origin::List(list) => {
                self.touch_list(queue, &list.items, goal, &mut touched);
                (Pattern::Streaming, 0.0)
            }
        };
        if self.p.gc_threshold >= self.p.blocks {
            return Err(Error::usage(
                "precondition drive",
                format!(
                    "collection is to keep all {} blocks of a plane free",
                    self.p.blocks
                ),
            )
            .hint("lower GC_Exec_Threshold"));
        }
        let load = self.load(occupancy);
        let states = self.steady_states(pattern, load, occupancy, hot_ratio);
        let total: f64 = states.iter().sum();
        if !(0.99..=1.001).contains(&total) {
            return Err(Error::usage(
                "precondition drive",
                format!(
                    "collection has no steady state with an occupancy of {occupancy}: data would fill {load:.3} of \
                     the blocks that collection does not keep free"
                ),
            )
            .hint("lower Initial_Occupancy_Percentage, or raise Overprovisioning_Ratio"));
        }
        let base = self.map.base(queue);
        let mut planes: Vec<Vec<u32>> = vec![Vec::new(); self.p.plane_count as usize];
        for unit in 0..units as u32 {
            if self.map.written_direct(base + unit) == 0 {
                continue;
            }
            let domain = self.map.domain(queue);
            let plane = domain.order.plane(unit);
            let share = f64::from(self.p.pages_per_plane)
                / f64::from(self.blocks.shares[plane as usize].max(1));
            if (share as u64) > planes[plane as usize].len() as u64 {
                planes[plane as usize].push(base + unit);
            } else {
                self.map.set_written_direct(base + unit, 0);
            }
        }
        self.place_filled(queue, planes, &states)?;
        if !self.p.resident {
            self.warm_entries(queue, flows, pattern, hot_ratio, touched);
        }
        Ok(())
    }

    /// Marks units that a generator would touch until `goal` of them are marked.
    fn touch_synthetic(
        &mut self,
        queue: u16,
        spec: &Synthetic,
        goal: u64,
        touched: &mut Touched,
    ) -> Result<(Pattern, f64)> {
        let per_page = u64::from(self.p.page_sectors);
        let (first, last) = self.queue_sectors(queue);
        let align = u64::from(spec.align_sectors);
        let mut low = first;
        let mut high = last.saturating_sub(1);
        let low_page = low / per_page;
        if align > 0 {
            low = low.next_multiple_of(align);
            if !high.is_multiple_of(align) {
                high -= low % align;
            }
        }
        let mut high_page = (high / per_page).saturating_sub(1);
        let widened = |high: u64| {
            let mut wide = low + ((high - low) as f64 / spec.working_set) as u64;
            if align > 0 && !wide.is_multiple_of(align) {
                wide -= low % align;
            }
            wide
        };
        let mut goal = goal;
        let mut streams = Streams::new(spec, self.p.draw_rules());
        let (pattern, ratio) = match spec.addresses {
            Addresses::Streaming => (Pattern::Streaming, 0.0),
            Addresses::HotCold { ratio } if ratio <= 0.3 => (Pattern::HotCold, ratio),
            Addresses::HotCold { ratio } => (Pattern::Uniform, ratio),
            Addresses::Uniform => (Pattern::Uniform, 0.0),
        };
        let mut hot_last = 0;
        let mut all_hot = false;
        let mut next_streaming = 0;
        match pattern {
            Pattern::HotCold => {
                hot_last = low + ((high - low) as f64 * ratio) as u64;
                let hot_pages = (hot_last / per_page).wrapping_sub(1).wrapping_sub(low_page);
                all_hot = hot_pages < goal;
                let cold_pages = high_page.wrapping_sub(low_page).wrapping_sub(hot_pages);
                if (cold_pages as f64) < 1.1 * goal.wrapping_sub(hot_pages) as f64 {
                    high = widened(high);
                }
            }
            Pattern::Streaming => {
                next_streaming = streams.address.between(low, high);
                if high_page - low_page < goal {
                    high = widened(high);
                    high_page = high / per_page;
                    if high_page - low_page < goal {
                        goal = high_page - low_page + 1;
                    }
                }
            }
            Pattern::Uniform => {
                if ((high_page - low_page) as f64) < 1.1 * goal as f64 {
                    high = widened(high);
                    high_page = high / per_page;
                    if ((high_page - low_page) as f64) < 1.1 * goal as f64 {
                        goal = ((high_page - low_page) as f64 * 0.9) as u64;
                    }
                }
            }
        }
        let range = Range {
            low,
            high,
            hot_last,
            align,
            ratio,
            all_hot,
            pattern,
        };
        self.draw_touches(queue, spec, goal, range, next_streaming, streams, touched)?;
        Ok((pattern, ratio))
    }

    #[allow(clippy::too_many_arguments)]
    fn draw_touches(
        &mut self,
        queue: u16,
        spec: &Synthetic,
        goal: u64,
        range: Range,
        mut next_streaming: u64,
        mut streams: Streams,
        touched: &mut Touched,
    ) -> Result<()> {
        let units = u64::from(self.map.domains[self.map.of_queue[usize::from(queue)]].units);
        let Range { low, high, .. } = range;
        let mut hot_next = low;
        let mut hot_done = false;
        let mut count = 0u64;
        let mut draws = 0u64;
        let draws_max = units.saturating_mul(64).max(1 << 20);
        while count < goal {
            draws += 1;
            if draws > draws_max {
                return Err(Error::usage(
                    "precondition drive",
                    format!("only {count} of {goal} pages can be touched by this workload"),
                )
                .hint("lower Initial_Occupancy_Percentage or widen Working_Set_Percentage"));
            }
            let size = u64::from(streams.draw_size(spec.sizes));
            let mut hot = false;
            let mut start = match range.pattern {
                Pattern::Streaming => {
                    let start = if next_streaming + size > high {
                        low
                    } else {
                        next_streaming
                    };
                    next_streaming += size;
                    if next_streaming > high {
                        next_streaming = low;
                    }
                    if range.align > 0 {
                        next_streaming = next_streaming.next_multiple_of(range.align);
                    }
                    start
                }
                Pattern::Uniform => {
                    let start = streams.address.between(low, high);
                    if start + size > high { low } else { start }
                }
                Pattern::HotCold if range.all_hot && !hot_done => {
                    let start = hot_next;
                    hot_next += size;
                    hot_done = start > range.hot_last;
                    hot = true;
                    start
                }
                Pattern::HotCold => {
                    let cold = range.all_hot
                        || streams
                            .hot_cold
                            .as_mut()
                            .is_some_and(|rng| rng.unit() < range.ratio);
                    hot = !cold;
                    match streams.hot_address.as_mut() {
                        Some(rng) if cold => {
                            let start = rng.between((range.hot_last + 1).min(high), high);
                            if start + size > high {
                                range.hot_last + 1
                            } else {
                                start
                            }
                        }
                        Some(rng) => rng.between(low, range.hot_last),
                        None => low,
                    }
                }
            };
            if range.align > 0 {
                start -= parts(start, range.align).1;
            }
            let start = start.saturating_sub(low);
            count += self.mark_touched(queue, start, size, hot, touched);
        }
        Ok(())
    }

    /// The page number of the queue's last sector within its range.
    fn pages_inside(&self, queue: u16) -> u64 {
        let per_page = u64::from(self.p.page_sectors);
        let (first, last) = self.queue_sectors(queue);
        last / per_page - first / per_page
    }

    /// Marks `sectors` from `sector` of the queue's range. Returns the units that were not marked
    /// before.
    fn mark_touched(
        &mut self,
        queue: u16,
        mut sector: u64,
        sectors: u64,
        hot: bool,
        touched: &mut Touched,
    ) -> u64 {
        let per_page = u64::from(self.p.page_sectors);
        let base = self.map.base(queue);
        let units = u64::from(self.map.domains[self.map.of_queue[usize::from(queue)]].units);
        let mut new = 0;
        let mut rest = sectors;
        while rest > 0 {
            let (unit, inside) = parts(sector, per_page);
            let step = (per_page - inside).min(rest);
            let bit = 1u64 << inside;
            sector += step;
            rest -= step;
            if unit >= units {
                continue;
            }
            let at = base + unit as u32;
            let before = self.map.written_direct(at);
            self.map.set_written_direct(at, before | bit);
            if before == 0 {
                new += 1;
                if !self.p.resident && unit <= self.pages_inside(queue) {
                    let list = if hot {
                        &mut touched.hot
                    } else {
                        &mut touched.cold
                    };
                    list.push(at);
                }
            }
        }
        new
    }

    /// Marks the units of a list of requests: first those that are read, then those that are
    /// written, then others.
    fn touch_list(&mut self, queue: u16, items: &[ListItem], goal: u64, touched: &mut Touched) {
        let per_page = u64::from(self.p.page_sectors);
        let base = self.map.base(queue);
        let units = u64::from(self.map.domains[self.map.of_queue[usize::from(queue)]].units);
        let (first, last) = self.queue_sectors(queue);
        let mut reads = std::collections::BTreeMap::<u64, u64>::new();
        let mut writes = std::collections::BTreeMap::<u64, u64>::new();
        let mut sectors_total = 0u64;
        for item in items {
            sectors_total += u64::from(item.sectors);
            let start = if item.lba <= last - first {
                item.lba + first
            } else {
                first + item.lba % (last - first).max(1)
            };
            let map = if item.op == super::Op::Write {
                &mut writes
            } else {
                &mut reads
            };
            for sector in start..start + u64::from(item.sectors) {
                let sector = if sector > last {
                    first + (sector - last) - 1
                } else {
                    sector
                };
                let unit = (sector / per_page).min(units.saturating_sub(1));
                *map.entry(unit).or_insert(0) |= 1 << (sector % per_page);
            }
        }
        let mut count = 0u64;
        for (map, other) in [(&reads, &writes), (&writes, &reads)] {
            for (unit, bitmap) in map {
                if count >= goal {
                    break;
                }
                let at = base + *unit as u32;
                if self.map.written_direct(at) == 0 {
                    count += 1;
                    let both = bitmap | other.get(unit).copied().unwrap_or(0);
                    self.map.set_written_direct(at, both);
                    touched.cold.push(at);
                }
            }
        }
        let size = (sectors_total / (items.len() as u64).max(1)).max(1);
        let mut rng = Rng::new(0);
        let mut draws = 0u64;
        while count < goal && draws < units.saturating_mul(64) {
            draws += 1;
            let start = rng.between(0, last - first);
            for sector in [start, (start + size - 1).min(last - first)] {
                let at = base + (sector / per_page) as u32;
                if self.map.written_direct(at) == 0 && count < goal {
                    self.map.set_written_direct(at, 1 << (sector % per_page));
                    count += 1;
                }
            }
        }
    }

    /// Fills `goal` blocks of a plane, the fullest first. Each kind gets the number of blocks that
    /// the steady state rounds down to; the first kind also gets those lost to rounding.
    pub(super) fn place_plane(
        &mut self,
        queue: u16,
        plane: u32,
        goal: u32,
        units: &mut Vec<u32>,
        states: &[f64],
    ) -> Result<()> {
        let pages = self.p.pages;
        let slots = self.p.slots as usize;
        let unit_pages = units.len().div_ceil(slots);
        let adjusted = shift_to_mean(
            states,
            unit_pages as f64 / (f64::from(goal) * f64::from(pages)),
        );
        let fits: u64 = (0..=pages)
            .map(|valid| u64::from(valid) * (adjusted[valid as usize] * f64::from(goal)) as u64)
            .sum();
        let mut missing = (unit_pages as u64).saturating_sub(fits);
        let mut blocks_left = goal;
        let mut valid = i64::from(pages);
        while valid >= 0 {
            let mut count = (adjusted[valid as usize] * f64::from(goal)) as u32;
            if count > 0 && missing > 0 && valid > 0 {
                count += missing.div_ceil(valid as u64) as u32;
                missing = 0;
            }
            count = count.min(blocks_left);
            blocks_left -= count;
            for _ in 0..count {
                valid = valid.min(units.len().div_ceil(slots) as i64);
                self.fill_block(queue, plane, valid as u32, units)?;
            }
            valid -= 1;
        }
        Ok(())
    }

    /// Brings entries into the mapping cache as MQSim does before a run.
    fn warm_entries(
        &mut self,
        queue: u16,
        flows: &[FlowConfig],
        pattern: Pattern,
        hot_ratio: f64,
        touched: Touched,
    ) {
        let read_ns = self.p.read_mean_ps() as f64 / 1000.0;
        let program_ns = self.p.program_mean_ps() as f64 / 1000.0;
        let rate = |flow: &FlowConfig| match &flow.origin {
            Origin::Synthetic(spec) => {
                let size = f64::from(spec.sizes.mean());
                match spec.pace {
                    Pace::Interval(ns) => size / ns.max(1) as f64,
                    Pace::Depth(depth) => {
                        let service =
                            spec.read_ratio * read_ns + (1.0 - spec.read_ratio) * program_ns;
                        size * f64::from(depth) / service.floor().max(1.0)
                    }
                }
            }
            Origin::List(list) => list.items.len() as f64,
        };
        let total: f64 = flows.iter().map(rate).sum();
        let capacity = self.map.domains[self.map.of_queue[usize::from(queue)]]
            .cmt
            .capacity();
        let share = rate(&flows[usize::from(queue)]) / total.max(f64::MIN_POSITIVE);
        let wanted = ((share * f64::from(capacity)) as usize).min(capacity as usize);
        let (hot, cold) = (touched.hot, touched.cold);
        match pattern {
            Pattern::HotCold => {
                let first = ((hot_ratio * wanted as f64) as usize).min(hot.len());
                // MQSim subtracts the hot entries before it counts them as present, and skips as
                // many of the others as there are hot units, though it has removed those it took.
                let cold = &cold[first.min(cold.len())..];
                let rest = wanted.saturating_sub(2 * first).min(cold.len());
                for unit in hot[..first].iter().chain(&cold[..rest]) {
                    self.warm_entry(queue, *unit);
                }
            }
            Pattern::Streaming => {
                let base = self.map.base(queue);
                let units = self.map.domains[self.map.of_queue[usize::from(queue)]].units;
                let filled = (0..units).rev().map(|unit| base + unit);
                let filled: Vec<u32> = filled
                    .filter(|unit| self.map.slot(*unit).is_some())
                    .take(wanted)
                    .collect();
                for unit in filled {
                    self.warm_entry(queue, unit);
                }
            }
            Pattern::Uniform => {
                let all: Vec<u32> = hot.into_iter().chain(cold).collect();
                let step = (all.len() / wanted.max(1)).max(1);
                for unit in all.iter().step_by(step).take(wanted) {
                    self.warm_entry(queue, *unit);
                }
            }
        }
    }

    fn warm_entry(&mut self, queue: u16, unit: u32) {
        if self.map.slot(unit).is_some() {
            self.insert_entry(queue, unit, false);
        }
    }
}
