//! The numbers of one drive, computed once from its configuration.
//!
//! Contract: integers only (picoseconds, bytes, counts). Everything that a hot path needs is
//! multiplied out here. Sources:
//! - ONFI 4 command and address cycles as MQSim 7ec40e3 models them: read command 290 ns, plus 650
//!   ns per further plane; program 361 ns, plus 816 ns; erase 220 ns, plus 700 ns.
//! - PCIe packets of 128 bytes with 28 bytes of overhead.
//!
//! With `compat = "mqsim"` the dies of one chip form one unit, and both link times and the bus time
//! of two bytes are truncated to whole nanoseconds. Otherwise every die is its own unit and all
//! times are exact to the picosecond.

use super::types::Frontier;
use crate::config::{
    Allocation, Cell, Compat, DriveConfig, GcPolicy, Interface, MqsimNormal, Policy, Suspension,
};
use crate::quantities::{NS, Ps, SECOND};
use crate::workload::DrawRules;

/// Bytes of a sector.
pub(crate) const SECTOR_BYTES: u32 = 512;

const T_CS: Ps = 20 * NS;
const T_RR: Ps = 20 * NS;
const T_WB: Ps = 100 * NS;
const T_WC: Ps = 25 * NS;
const T_ADL: Ps = 70 * NS;
const T_CALS: Ps = 15 * NS;
const T_WPST: Ps = 6 * NS;
const T_WPSTH: Ps = 15 * NS;
const T_DBSY: Ps = 500 * NS;
/// Ready/busy signal after a read.
const T_READY_READ: Ps = 20 * NS;

/// Maximum number of commands in a queue pair of NVMe, and in the queue of a SATA drive (native
/// command queueing).
const NVME_COMMANDS_MAX: u32 = 65_535;
const SATA_COMMANDS_MAX: u32 = 32;
/// Payload of a SATA data frame.
const SATA_DATA_BYTES: u64 = 8192;

/// The mark of a page number within a block that is written with one bit per cell.
pub(crate) const SLC_ROW: u32 = 1 << 31;

const LINK_PACKET_BYTES: u64 = 128;
const LINK_OVERHEAD_BYTES: u64 = 28;

/// Division of 32-bit numbers by a number that is fixed for a run, done as one multiplication (D.
/// Lemire et al., "Faster remainder by direct computation", 2019). Exact for all operands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Divider {
    by: u32,
    /// 2^64 / `by`, rounded up; 0 means division by one.
    inverse: u64,
}

impl Divider {
    pub(crate) fn new(by: u32) -> Self {
        let by = by.max(1);
        Divider {
            by,
            inverse: if by == 1 {
                0
            } else {
                u64::MAX / u64::from(by) + 1
            },
        }
    }

    #[inline]
    pub(crate) fn div(self, n: u32) -> u32 {
        if self.inverse == 0 {
            return n;
        }
        ((u128::from(self.inverse) * u128::from(n)) >> 64) as u32
    }

    #[inline]
    pub(crate) fn rem(self, n: u32) -> u32 {
        n - self.div(n) * self.by
    }
}

/// The planes of a queue in the order in which static allocation uses them.
#[derive(Debug, Clone)]
pub(crate) struct StaticOrder {
    planes: Vec<u32>,
    by_count: Divider,
}

impl StaticOrder {
    /// The order of `p` over the channels, chips, dies and planes in `ids`. No list may be empty.
    pub(crate) fn new(p: &Params, ids: &[Vec<u32>; 4]) -> Self {
        let count: usize = ids.iter().map(Vec::len).product();
        let plane = |at: usize| {
            let mut rest = at;
            let mut place = [0u32; 4];
            for dim in p.order {
                place[dim] = ids[dim][rest % ids[dim].len()];
                rest /= ids[dim].len();
            }
            p.plane_at(place)
        };
        StaticOrder {
            planes: (0..count).map(plane).collect(),
            by_count: Divider::new(count as u32),
        }
    }

    /// Plane of the mapping address `at`, in pages.
    #[inline]
    pub(crate) fn plane(&self, at: u32) -> u32 {
        self.planes[self.by_count.rem(at) as usize]
    }
}

/// All numbers of a drive; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Params {
    pub(crate) compat: bool,
    /// The first normal deviate of a stream is the mean (compat only, see [`MqsimNormal`]).
    pub(crate) normal_starts_at_mean: bool,
    // Geometry.
    pub(crate) channels: u32,
    pub(crate) chips: u32,
    pub(crate) dies: u32,
    pub(crate) planes: u32,
    pub(crate) blocks: u32,
    pub(crate) pages: u32,
    pub(crate) page_bytes: u32,
    pub(crate) page_sectors: u32,
    /// Sectors per mapping unit.
    pub(crate) unit_sectors: u32,
    /// Mapping units per page.
    pub(crate) slots: u32,
    /// Planes per command unit (a chip with compat, otherwise a die).
    pub(crate) planes_per_unit: u32,
    /// Command units per channel.
    pub(crate) units_per_channel: u32,
    pub(crate) plane_count: u32,
    pub(crate) pages_per_plane: u32,
    /// Sectors of a zone, in namespaces that have zones.
    pub(crate) zone_sectors: u64,
    by_pages: Divider,
    by_plane_pages: Divider,
    by_unit_planes: Divider,
    by_channel_units: Divider,
    by_planes: Divider,
    // Flash timing.
    cell: Cell,
    read: [Ps; 4],
    program: [Ps; 4],
    pub(crate) erase: Ps,
    pub(crate) suspend_program: Ps,
    pub(crate) suspend_erase: Ps,
    bus_pair_ps: Ps,
    bus_byte_fs: u64,
    bus_bytes: u32,
    pub(crate) same_page: bool,
    // SLC cache.
    /// Blocks per plane that may be written with one bit per cell, and the pages of such a block.
    pub(crate) slc_blocks: u32,
    pub(crate) slc_pages: u32,
    slc_read: Ps,
    slc_program: Ps,
    pub(crate) slc_idle: Ps,
    // Scheduling.
    pub(crate) by_priority: bool,
    pub(crate) can_suspend_program: bool,
    pub(crate) can_suspend_erase: bool,
    pub(crate) suspend_program_if_left: Ps,
    pub(crate) suspend_erase_if_left: Ps,
    // Host.
    pub(crate) queue_entries: u32,
    pub(crate) fetch_depth: u32,
    pub(crate) command_overhead: Ps,
    pub(crate) command_interval: Ps,
    link_lanes: u64,
    link_lane_rate: u64,
    /// The link is SATA instead of PCIe.
    pub(crate) sata: bool,
    sata_rate: u64,
    sata_frame: Ps,
    /// Commands that the host may have outstanding in one queue.
    pub(crate) commands_max: u32,
    // Cache.
    pub(crate) cache_pages: u32,
    pub(crate) cache_shared: bool,
    pub(crate) back_pressure_max: u32,
    row_bytes: u64,
    burst_bytes: u64,
    burst_ps: f64,
    t_rcd: Ps,
    t_cl: Ps,
    t_rp: Ps,
    // Mapping.
    pub(crate) resident: bool,
    pub(crate) map_entries_per_page: u32,
    pub(crate) map_entry_bytes: u32,
    pub(crate) cmt_entries: u32,
    pub(crate) order: [usize; 4],
    pub(crate) allocation: Allocation,
    pub(crate) pack_wait: Ps,
    // Collection.
    pub(crate) gc_policy: GcPolicy,
    pub(crate) gc_choices: u32,
    pub(crate) gc_threshold: u32,
    pub(crate) gc_hard_threshold: u32,
    pub(crate) gc_concurrent: u32,
    /// The frontier that receives collected data.
    pub(crate) gc_frontier: Frontier,
    pub(crate) preemptible: bool,
    pub(crate) dynamic_wear: bool,
    pub(crate) static_wear: bool,
    pub(crate) wear_threshold: u32,
    pub(crate) over_provisioning: f64,
}

fn spread(times: &[crate::quantities::Time]) -> [Ps; 4] {
    let mut out = [0; 4];
    for (at, slot) in out.iter_mut().enumerate() {
        *slot = times.get(at).or(times.last()).map_or(0, |time| time.0);
    }
    out
}

impl Params {
    /// How the drive's workloads draw values.
    pub(crate) fn draw_rules(&self) -> DrawRules {
        DrawRules {
            is_compat: self.compat,
            normal_starts_at_mean: self.normal_starts_at_mean,
        }
    }

    /// Computes the numbers of `config` for a drive with `queues` queue pairs.
    #[allow(clippy::too_many_lines, reason = "one literal with a line a number")]
    pub(crate) fn new(config: &DriveConfig, queues: u32) -> Self {
        let f = &config.flash;
        let compat = config.compat == Compat::Mqsim;
        let page_bytes = f.page.0 as u32;
        let page_sectors = page_bytes / SECTOR_BYTES;
        let unit_bytes = if config.mapping.unit.0 == 0 {
            page_bytes
        } else {
            config.mapping.unit.0 as u32
        };
        let unit_sectors = unit_bytes / SECTOR_BYTES;
        let plane_count = f.channels * f.chips * f.dies * f.planes;
        let zone_blocks = match config.zones.blocks {
            0 => plane_count,
            blocks => blocks,
        };
        let pages_total = u64::from(plane_count) * u64::from(f.blocks) * u64::from(f.pages);
        let bits = libm::log2(pages_total as f64);
        let cmt_entry_bytes = libm::ceil((2.0 * bits + f64::from(unit_sectors)) / 8.0) as u64;
        let map_entry_bytes = libm::ceil((bits + f64::from(unit_sectors)) / 8.0) as u32;
        let concurrent = if compat { 10 } else { config.gc.concurrent };
        let blocks_f = f64::from(f.blocks);
        let hard = ((config.gc.hard_threshold * blocks_f) as u32).max(1);
        let threshold = ((config.gc.threshold * blocks_f) as u32)
            .max(1)
            .max(concurrent);
        let mt_per_s = f.bus.0 / 1_000_000;
        let suspension = if compat {
            Suspension::None
        } else {
            config.scheduling.suspension
        };
        let cmt = config.mapping.cache.0 / cmt_entry_bytes.max(1);
        let cmt_share = if config.mapping.cache_sharing == crate::config::Sharing::Equal {
            cmt / u64::from(queues.max(1))
        } else {
            cmt
        };
        Params {
            compat,
            normal_starts_at_mean: compat && config.mqsim_normal == MqsimNormal::Mean,
            channels: f.channels,
            chips: f.chips,
            dies: f.dies,
            planes: f.planes,
            blocks: f.blocks,
            pages: f.pages,
            page_bytes,
            page_sectors,
            unit_sectors,
            slots: page_sectors / unit_sectors,
            planes_per_unit: if compat { f.dies * f.planes } else { f.planes },
            units_per_channel: if compat { f.chips } else { f.chips * f.dies },
            plane_count,
            pages_per_plane: f.blocks * f.pages,
            zone_sectors: u64::from(zone_blocks) * u64::from(f.pages) * u64::from(page_sectors),
            by_pages: Divider::new(f.pages),
            by_plane_pages: Divider::new(f.blocks * f.pages),
            by_unit_planes: Divider::new(if compat { f.dies * f.planes } else { f.planes }),
            by_channel_units: Divider::new(if compat { f.chips } else { f.chips * f.dies }),
            by_planes: Divider::new(f.planes),
            cell: f.cell,
            read: spread(&f.read),
            program: spread(&f.program),
            erase: f.erase.0,
            suspend_program: T_CS + 3 * T_WC + f.suspend_program.0,
            suspend_erase: T_CS + 3 * T_WC + f.suspend_erase.0,
            bus_pair_ps: (1000 / mt_per_s.max(1)) * 2 * NS,
            bus_byte_fs: (u128::from(SECOND) * 1000 / u128::from(f.bus.0)) as u64,
            bus_bytes: f.bus_bytes,
            same_page: f.multiplane_same_page || compat,
            slc_blocks: config.slc.blocks,
            slc_pages: f.pages / f.cell.bits() as u32,
            slc_read: config.slc.read.0,
            slc_program: config.slc.program.0,
            slc_idle: config.slc.idle.0,
            by_priority: config.scheduling.policy == Policy::Priority,
            can_suspend_program: matches!(
                suspension,
                Suspension::Program | Suspension::ProgramErase
            ),
            can_suspend_erase: matches!(suspension, Suspension::Erase | Suspension::ProgramErase),
            suspend_program_if_left: config.scheduling.suspend_program_if_left.0,
            suspend_erase_if_left: config.scheduling.suspend_erase_if_left.0,
            queue_entries: if config.host.interface == Interface::Sata {
                2 * SATA_COMMANDS_MAX
            } else {
                config.host.queue_entries
            },
            fetch_depth: config.host.fetch_depth,
            command_overhead: match (compat, config.host.interface) {
                (true, _) => 0,
                (false, Interface::Nvme) => config.host.command_overhead.0,
                (false, Interface::Sata) => {
                    config.host.command_overhead.0 + config.host.sata_delay.0
                }
            },
            command_interval: if compat {
                0
            } else {
                config.host.command_interval.0
            },
            sata: config.host.interface == Interface::Sata,
            sata_rate: config.host.sata_rate.0,
            sata_frame: config.host.sata_frame.0,
            commands_max: if config.host.interface == Interface::Sata {
                SATA_COMMANDS_MAX
            } else {
                NVME_COMMANDS_MAX
            },
            link_lanes: u64::from(config.host.pcie_lanes),
            link_lane_rate: config.host.pcie_lane_rate.0,
            cache_pages: (config.cache.capacity.0 / u64::from(unit_bytes))
                .min(u64::from(u32::MAX - 1)) as u32,
            cache_shared: config.cache.sharing == crate::config::Sharing::Shared,
            back_pressure_max: plane_count.saturating_mul(page_sectors),
            row_bytes: config.cache.row.0,
            burst_bytes: config.cache.burst.0,
            burst_ps: SECOND as f64 / config.cache.rate.0 as f64,
            t_rcd: config.cache.t_rcd.0,
            t_cl: config.cache.t_cl.0,
            t_rp: config.cache.t_rp.0,
            resident: config.mapping.resident,
            map_entries_per_page: (page_bytes / map_entry_bytes.max(1)).max(1),
            map_entry_bytes,
            cmt_entries: cmt_share.clamp(1, u64::from(u32::MAX - 1)) as u32,
            order: crate::config::parse_order(&config.mapping.order).unwrap_or([0, 1, 2, 3]),
            allocation: if compat {
                Allocation::Static
            } else {
                config.mapping.allocation
            },
            pack_wait: config.mapping.pack_wait.0,
            gc_policy: config.gc.policy,
            gc_choices: if config.gc.choices == 0 || compat {
                f.blocks.max(2).ilog2()
            } else {
                config.gc.choices
            },
            gc_threshold: threshold,
            gc_hard_threshold: hard,
            gc_concurrent: concurrent,
            gc_frontier: if config.gc.separate || compat {
                Frontier::Collected
            } else {
                Frontier::Data
            },
            preemptible: config.gc.preemptible,
            dynamic_wear: compat || config.gc.dynamic_wear_levelling,
            static_wear: compat || config.gc.static_wear_levelling,
            wear_threshold: if compat {
                100
            } else {
                config.gc.wear_threshold
            },
            over_provisioning: f.over_provisioning,
        }
    }

    /// Latency class of a page within its block (MQSim's tables for two and three bits).
    #[inline]
    fn page_class(&self, page_in_block: u32) -> usize {
        (match self.cell {
            Cell::Slc => 0,
            Cell::Mlc => page_in_block % 2,
            Cell::Tlc if page_in_block <= 5 => 0,
            Cell::Tlc if page_in_block <= 7 => 1,
            Cell::Tlc => ((page_in_block - 8) >> 1) % 3,
            Cell::Qlc => page_in_block % 4,
        }) as usize
    }

    /// Time of a read in the flash array, for a page number that may have [`SLC_ROW`].
    #[inline]
    pub(crate) fn read_ps(&self, page_in_block: u32) -> Ps {
        if page_in_block & SLC_ROW != 0 {
            return self.slc_read + T_READY_READ;
        }
        self.read[self.page_class(page_in_block)] + T_READY_READ
    }

    /// Time of a program in the flash array, for a page number that may have [`SLC_ROW`].
    #[inline]
    pub(crate) fn program_ps(&self, page_in_block: u32) -> Ps {
        if page_in_block & SLC_ROW != 0 {
            return self.slc_program;
        }
        self.program[self.page_class(page_in_block)]
    }

    /// Mean read latency over the classes, without the ready signal.
    pub(crate) fn read_mean_ps(&self) -> Ps {
        let bits = self.cell.bits();
        self.read[..bits].iter().sum::<Ps>() / bits as u64
    }

    /// Mean program latency over the classes.
    pub(crate) fn program_mean_ps(&self) -> Ps {
        let bits = self.cell.bits();
        self.program[..bits].iter().sum::<Ps>() / bits as u64
    }

    /// Command and address cycles of a read on `planes` planes.
    #[inline]
    pub(crate) fn read_command_ps(&self, planes: u32) -> Ps {
        T_CS + 6 * T_WC + T_WB + T_RR + u64::from(planes - 1) * (T_DBSY + 6 * T_WC)
    }

    /// Command and address cycles of a program on `planes` planes.
    #[inline]
    pub(crate) fn program_command_ps(&self, planes: u32) -> Ps {
        T_CS + 6 * T_WC
            + T_ADL
            + T_WPST
            + T_WPSTH
            + T_WB
            + u64::from(planes - 1) * (5 * T_WC + T_ADL + T_WPST + T_CALS + T_WB + T_DBSY)
    }

    /// Command and address cycles of an erase on `planes` planes.
    #[inline]
    pub(crate) fn erase_command_ps(&self, planes: u32) -> Ps {
        T_CS + 4 * T_WC + T_WB + u64::from(planes - 1) * (T_DBSY + 4 * T_WC + T_WB)
    }

    /// Time of `bytes` over a flash bus.
    #[inline]
    pub(crate) fn bus_ps(&self, bytes: u32) -> Ps {
        if self.compat {
            return u64::from(bytes / self.bus_bytes / 2) * self.bus_pair_ps;
        }
        u64::from(bytes.div_ceil(self.bus_bytes)) * self.bus_byte_fs / 1000
    }

    fn link_time(&self, bytes: u64) -> Ps {
        let a_lane = bytes.div_ceil(self.link_lanes);
        let ps = (u128::from(a_lane) * u128::from(SECOND) / u128::from(self.link_lane_rate)) as u64;
        if self.compat { ps / NS * NS } else { ps }
    }

    /// Time of a read request over the link.
    pub(crate) fn link_request_ps(&self) -> Ps {
        self.link_time(LINK_OVERHEAD_BYTES + 4)
    }

    /// Time of `payload` bytes over the link, split into packets.
    pub(crate) fn link_ps(&self, payload: u64) -> Ps {
        self.link_time(Self::link_bytes(payload))
    }

    /// Time of a command or completion frame of `bytes` over a SATA link.
    pub(crate) fn sata_ps(&self, bytes: u64) -> Ps {
        (u128::from(bytes) * u128::from(SECOND) / u128::from(self.sata_rate)) as Ps
            + self.sata_frame
    }

    /// Time of `payload` bytes over a SATA link: the set-up frame and the data frames.
    pub(crate) fn sata_data_ps(&self, payload: u64) -> Ps {
        let frames = payload.div_ceil(SATA_DATA_BYTES);
        (u128::from(payload) * u128::from(SECOND) / u128::from(self.sata_rate)) as Ps
            + frames * self.sata_frame
    }

    /// Bytes that `payload` occupies on the link.
    pub(crate) fn link_bytes(payload: u64) -> u64 {
        let tail = payload % LINK_PACKET_BYTES;
        payload / LINK_PACKET_BYTES * (LINK_PACKET_BYTES + LINK_OVERHEAD_BYTES)
            + if tail == 0 {
                0
            } else {
                tail + LINK_OVERHEAD_BYTES
            }
    }

    /// Time of a DRAM access of `bytes`: one activation per row and two transfers per cycle.
    pub(crate) fn dram_ps(&self, bytes: u64) -> Ps {
        let open = self.t_rcd + self.t_cl;
        if self.compat {
            return self.dram_compat_ps(bytes);
        }
        let rows = bytes.div_ceil(self.row_bytes).max(1);
        let transfer = bytes.div_ceil(self.burst_bytes) as f64 * self.burst_ps;
        open + (rows - 1) * (self.t_rp + open) + transfer as u64
    }

    /// MQSim's estimate, in whole nanoseconds, with its integer divisions. Above one row MQSim
    /// divides where it should multiply.
    fn dram_compat_ps(&self, bytes: u64) -> Ps {
        let open = (self.t_rcd + self.t_cl) / NS;
        let burst_ns = self.burst_ps / 1000.0;
        let ns = if bytes <= self.row_bytes {
            open + ((bytes / self.burst_bytes / 2) as f64 * burst_ns) as u64
        } else {
            let row = ((self.row_bytes / self.burst_bytes / 2) as f64 * burst_ns
                + (self.t_rp / NS) as f64) as u64;
            let rows = (bytes / self.row_bytes / 2) as f64;
            let whole = open as f64 + row as f64 * rows;
            let rest =
                ((bytes % self.row_bytes) as f64 / (self.burst_bytes as f64 * burst_ns)) as u64;
            (whole + open as f64 + rest as f64) as u64
        };
        ns * NS
    }

    /// Mapping unit of a sector, and the sector's offset in it.
    #[inline]
    pub(crate) fn unit_of_sector(&self, sector: u64) -> (u64, u64) {
        let per_unit = u64::from(self.unit_sectors);
        if per_unit.is_power_of_two() {
            (sector >> per_unit.trailing_zeros(), sector & (per_unit - 1))
        } else {
            (sector / per_unit, sector % per_unit)
        }
    }

    /// Plane number of channel, way, die, plane.
    #[inline]
    pub(crate) fn plane_at(&self, place: [u32; 4]) -> u32 {
        ((place[0] * self.chips + place[1]) * self.dies + place[2]) * self.planes + place[3]
    }

    /// Command unit of a plane.
    #[inline]
    pub(crate) fn unit_of_plane(&self, plane: u32) -> u32 {
        self.by_unit_planes.div(plane)
    }

    /// Channel of a command unit.
    #[inline]
    pub(crate) fn channel_of_unit(&self, unit: u32) -> u32 {
        self.by_channel_units.div(unit)
    }

    /// Plane of a physical page.
    #[inline]
    pub(crate) fn plane_of_page(&self, page: u32) -> u32 {
        self.by_plane_pages.div(page)
    }

    /// Block (numbered over the drive) of a physical page.
    #[inline]
    pub(crate) fn block_of_page(&self, page: u32) -> u32 {
        self.by_pages.div(page)
    }

    /// Page number within its block.
    #[inline]
    pub(crate) fn page_in_block(&self, page: u32) -> u32 {
        self.by_pages.rem(page)
    }

    /// Die of a plane (numbered over the drive), and the plane's number within it.
    #[inline]
    pub(crate) fn die_of_plane(&self, plane: u32) -> (u32, u32) {
        let die = self.by_planes.div(plane);
        (die, plane - die * self.planes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn dividing_by_multiplication_is_exact(n in any::<u32>(), by in 1u32..) {
            let divider = Divider::new(by);
            prop_assert_eq!(divider.div(n), n / by);
            prop_assert_eq!(divider.rem(n), n % by);
        }
    }

    #[test]
    fn static_allocation_takes_planes_in_the_order_of_its_letters() {
        let mut config = DriveConfig::default();
        config.mapping.order = "WDPC".to_owned();
        let p = Params::new(&config, 1);
        // Channels 1 and 0, chip 1 of all, dies 0 and 1, plane 0.
        let ids = [vec![1, 0], vec![1], vec![0, 1], vec![0]];
        let order = StaticOrder::new(&p, &ids);
        let expected = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0], [0, 1, 1, 0]];
        for at in 0..9 {
            let plane = p.plane_at(expected[at as usize % 4]);
            assert_eq!(order.plane(at), plane, "address {at}");
        }
    }
}
