//! Counters of a drive during a run: operations, bytes, time by resource, energy and wear.
//!
//! Contract: plain counters that only grow, except that the end of a warm-up resets them. A run
//! reads them at its end. No allocation.

use serde::Serialize;

use super::Drive;
use super::params::Params;
use super::spaces::Parts;
use crate::config::{DriveConfig, EnergyConfig};
use crate::quantities::{Ps, SECOND};

/// Counters of one drive; all times in picoseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DriveStats {
    /// Events executed.
    pub events: u64,
    /// Requests submitted.
    pub submitted: u64,
    /// Requests completed.
    pub completed: u64,
    /// Requests that lost an operation to MQSim's barrier handling (compat only).
    pub lost_requests: u64,
    /// Read commands on one plane.
    pub read_commands: u64,
    /// Read commands on several planes.
    pub multiplane_read_commands: u64,
    /// Program commands on one plane.
    pub program_commands: u64,
    /// Program commands on several planes.
    pub multiplane_program_commands: u64,
    /// Erase commands (any number of planes).
    pub erase_commands: u64,
    /// Commands that interrupted another.
    pub suspensions: u64,
    /// Page reads for users, collection and the mapping table.
    pub page_reads: u64,
    /// Page programs.
    pub page_programs: u64,
    /// Block erases.
    pub block_erases: u64,
    /// Mapping units programmed for the host.
    pub user_units: u64,
    /// Mapping units moved by collection and wear levelling.
    pub moved_units: u64,
    /// Slots programmed without data.
    pub padding_units: u64,
    /// Reads caused by partial writes.
    pub merge_reads: u64,
    /// Collections and static wear-levelling moves started.
    pub collections: u64,
    /// Static wear-levelling moves.
    pub wear_moves: u64,
    /// Mapping units that the host wrote to the SLC cache.
    pub slc_units: u64,
    /// Blocks of the SLC cache that were folded.
    pub folds: u64,
    /// Zones that were reset.
    pub zone_resets: u64,
    /// Zones that the drive closed because too many were open.
    pub zone_closes: u64,
    /// Lookups in the mapping table that were answered from DRAM.
    pub map_hits: u64,
    /// Lookups in the mapping table that had to read flash.
    pub map_misses: u64,
    /// Reads of table pages.
    pub map_reads: u64,
    /// Writes of table pages.
    pub map_writes: u64,
    /// Sectors read from the data cache.
    pub cache_hit_sectors: u64,
    /// Reads of mapping units that were never written; they need no flash.
    pub unwritten_reads: u64,
    /// Time for which the link was used towards the host.
    pub link_to_host_ps: Ps,
    /// Time for which the link was used towards the drive.
    pub link_to_drive_ps: Ps,
    /// Payload bytes over the link.
    pub link_bytes: u64,
    /// Time for which the DRAM was used.
    pub dram_ps: Ps,
    /// Time for which each channel was used, summed over the channels.
    pub bus_ps: Ps,
    /// Time for which each unit's arrays worked, summed over the command units.
    pub array_ps: Ps,
    /// Bytes over the flash buses.
    pub bus_bytes: u64,
    /// Flash operations of users; the next four counters sum their times.
    pub flash_operations: u64,
    /// Time that user flash operations waited for their die.
    pub wait_die_ps: Ps,
    /// Time that user flash operations spent in command, array and data phases.
    pub service_ps: Ps,
    /// The part of `service_ps` in which they used the bus.
    pub user_bus_ps: Ps,
    /// The part of `service_ps` in which the array worked for them.
    pub user_array_ps: Ps,
    /// Time for which arrays worked for collection and wear levelling.
    pub collection_array_ps: Ps,
    /// Counters of namespaces and placement handles.
    #[serde(skip)]
    pub(crate) parts: Parts,
    #[serde(skip)]
    energy: EnergyConfig,
    #[serde(skip)]
    channels: u32,
    #[serde(skip)]
    units: u32,
    #[serde(skip)]
    slots: u32,
    #[serde(skip)]
    endurance: u32,
}

impl DriveStats {
    pub(super) fn new(config: &DriveConfig, p: &Params, parts: Parts) -> Self {
        DriveStats {
            parts,
            energy: config.energy.clone(),
            channels: p.channels,
            units: p.channels * p.units_per_channel,
            slots: p.slots,
            endurance: config.flash.endurance,
            ..DriveStats::default()
        }
    }

    /// Slots programmed per mapping unit that the host wrote; 1 when nothing was written.
    pub fn write_amplification(&self) -> f64 {
        if self.user_units == 0 {
            return 1.0;
        }
        (self.page_programs * u64::from(self.slots)) as f64 / self.user_units as f64
    }

    /// Energy of a run of `span_ps`, in joules.
    pub fn energy_joules(&self, span_ps: Ps) -> f64 {
        let nj = self.page_reads as f64 * self.energy.read_nj
            + self.page_programs as f64 * self.energy.program_nj
            + self.block_erases as f64 * self.energy.erase_nj
            + self.bus_bytes as f64 * self.energy.bus_byte_nj
            + self.link_bytes as f64 * self.energy.link_byte_nj;
        nj * 1e-9 + self.energy.idle_watts * span_ps as f64 / SECOND as f64
    }

    /// Share of the dies' time in `span_ps` that collection and wear levelling used.
    pub fn collection_share(&self, span_ps: Ps) -> f64 {
        self.collection_array_ps as f64 / (span_ps.max(1) as f64 * f64::from(self.units.max(1)))
    }

    /// Share of `span_ps` for which each resource was used, by name.
    fn utilisation(&self, span_ps: Ps) -> [(&'static str, f64); 5] {
        let share = |ps: Ps, count: u32| ps as f64 / (span_ps.max(1) as f64 * f64::from(count));
        [
            ("link to host", share(self.link_to_host_ps, 1)),
            ("link to drive", share(self.link_to_drive_ps, 1)),
            ("cache memory", share(self.dram_ps, 1)),
            ("flash buses", share(self.bus_ps, self.channels.max(1))),
            ("flash dies", share(self.array_ps, self.units.max(1))),
        ]
    }
}

/// Wear of a drive: erases of its blocks.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Wear {
    /// Fewest erases of a block.
    pub erases_min: u32,
    /// Largest number of erases of a block.
    pub erases_max: u32,
    /// Mean erases of a block.
    pub erases_mean: f64,
    /// Share of its endurance (`flash.endurance`) that the most worn block has used.
    pub endurance_used: f64,
}

impl Drive {
    /// Updates the counters to the current time during a run.
    pub(crate) fn settle_counters(&mut self) {
        self.count_array_time();
    }

    /// Restarts the counters. Operations in flight are counted when they end.
    pub(crate) fn restart_counters(&mut self) {
        self.settle_counters();
        self.throttle.restart_counters();
        let before = std::mem::take(&mut self.stats);
        self.stats = DriveStats {
            parts: before.parts.restarted(),
            energy: before.energy,
            channels: before.channels,
            units: before.units,
            slots: before.slots,
            endurance: before.endurance,
            ..DriveStats::default()
        };
    }

    /// Share of `span_ps` for which each resource was used, by name; for the throttle, the share of
    /// its rate.
    pub fn utilisation(&self, span_ps: Ps) -> Vec<(&'static str, f64)> {
        let throttle = self.throttle.share(span_ps);
        let resources = self.stats.utilisation(span_ps).into_iter();
        resources
            .chain(throttle.map(|share| ("throttle", share)))
            .collect()
    }

    /// Wear so far.
    pub fn wear(&self) -> Wear {
        let mut wear = Wear {
            erases_min: u32::MAX,
            erases_max: 0,
            erases_mean: 0.0,
            endurance_used: 0.0,
        };
        let mut sum = 0u64;
        for block in &self.blocks.list {
            wear.erases_min = wear.erases_min.min(block.erases);
            wear.erases_max = wear.erases_max.max(block.erases);
            sum += u64::from(block.erases);
        }
        wear.endurance_used = f64::from(wear.erases_max) / f64::from(self.stats.endurance.max(1));
        wear.erases_mean = sum as f64 / self.blocks.list.len().max(1) as f64;
        wear
    }
}
