//! The description of one drive, as TOML with units or as Rust values.
//!
//! Contract:
//! - Every field has a meaning in the model. An unknown key is an error that names the nearest
//!   known key.
//! - [`DriveConfig::validate`] rejects values that cannot be simulated (zero dies, more pages than
//!   2^32 - 2, a read that takes no time) before anything is allocated.
//! - Capacities are products of the geometry and are never given twice.
//! - Only `compat = "mqsim"` switches on the quirks of MQSim.

mod check;
mod keys;
mod spaces;

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::quantities::{MS, NS, Rate, Size, Time, Transfers, US};

#[cfg(feature = "cli")]
pub(crate) use keys::split_setting;
pub(crate) use keys::toml_error;
pub use spaces::{FdpConfig, Isolation, NamespacesConfig, ZonesConfig};

/// The simulator whose behaviour the drive reproduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compat {
    /// The model as documented.
    #[default]
    None,
    /// MQSim 7ec40e3 with its quirks (see `docs/sim/validity.md`).
    Mqsim,
}

/// How the first normally distributed size of a flow is chosen. MQSim's generator reads an
/// uninitialised variable there, so the content of memory decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MqsimNormal {
    /// The mean: memory held a nonzero number that is far too small to matter.
    #[default]
    Mean,
    /// Drawn like all other sizes: memory held zero.
    Drawn,
}

/// How the host is connected to the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// Submission and completion queue pairs over PCIe.
    #[default]
    Nvme,
    /// One queue of 32 commands (NCQ) and a link that carries one direction at a time.
    Sata,
}

/// Host interface and link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// NVMe or SATA.
    pub interface: Interface,
    /// Entries in a submission queue and in a completion queue.
    pub queue_entries: u32,
    /// Commands of one queue that the drive holds at a time.
    pub fetch_depth: u32,
    /// PCIe lanes.
    pub pcie_lanes: u32,
    /// Payload rate of one lane in one direction.
    pub pcie_lane_rate: Rate,
    /// Payload rate of a SATA link, both directions together (SATA only).
    pub sata_rate: Rate,
    /// Handshake and framing time of a frame of at most 8 KiB on that link (SATA only).
    pub sata_frame: Time,
    /// Delay of the host adapter per command (SATA only).
    pub sata_delay: Time,
    /// Fixed firmware time per command, before its first flash operation.
    pub command_overhead: Time,
    /// Time for which the firmware works on one command and on no other. This time bounds the
    /// request rate.
    pub command_interval: Time,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            interface: Interface::Nvme,
            queue_entries: 1024,
            fetch_depth: 512,
            pcie_lanes: 4,
            pcie_lane_rate: Rate(1_000_000_000),
            sata_rate: Rate(600_000_000),
            sata_frame: Time(1_000 * NS),
            sata_delay: Time(5 * US),
            command_overhead: Time(0),
            command_interval: Time(0),
        }
    }
}

/// How the queues share the data cache or the mapping cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// One pool.
    #[default]
    Shared,
    /// Equal parts.
    Equal,
}

/// The DRAM data cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Bytes of DRAM that hold data.
    pub capacity: Size,
    /// Sharing between queues.
    pub sharing: Sharing,
    /// Bytes of one DRAM row.
    pub row: Size,
    /// DRAM data rate.
    pub rate: Transfers,
    /// Bytes per transfer.
    pub burst: Size,
    /// Row to column delay.
    pub t_rcd: Time,
    /// Column latency.
    pub t_cl: Time,
    /// Precharge.
    pub t_rp: Time,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            capacity: Size(256 << 20),
            sharing: Sharing::Shared,
            row: Size(8192),
            rate: Transfers(800_000_000),
            burst: Size(4),
            t_rcd: Time(13 * NS),
            t_cl: Time(13 * NS),
            t_rp: Time(13 * NS),
        }
    }
}

/// Where a write may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// The address fixes the plane, in the order of [`MappingConfig::order`].
    #[default]
    Static,
    /// Any free plane of the drive (MQMS).
    Dynamic,
    /// Any free plane of the channel that the address fixes.
    RestrictedChannel,
    /// Any free plane of the die that the address fixes.
    RestrictedDie,
}

/// Logical to physical mapping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MappingConfig {
    /// Bytes per mapping entry: a page, a part of a page, or a sector. 0 means the page.
    pub unit: Size,
    /// Where writes may go.
    pub allocation: Allocation,
    /// Order of channel, way, die and plane for static allocation, such as `CWDP`.
    pub order: String,
    /// True when the whole table is in DRAM.
    pub resident: bool,
    /// Bytes of the cache for the mapping table when the table is not resident.
    pub cache: Size,
    /// Sharing of that cache between queues.
    pub cache_sharing: Sharing,
    /// How long a partly filled page waits for more data before it is programmed. If every die that
    /// could take the page has programs to do, the page waits about as long as these take.
    pub pack_wait: Time,
}

impl Default for MappingConfig {
    fn default() -> Self {
        MappingConfig {
            unit: Size(0),
            allocation: Allocation::Static,
            order: "CWDP".to_owned(),
            resident: true,
            cache: Size(2 << 20),
            cache_sharing: Sharing::Shared,
            pack_wait: Time(100 * US),
        }
    }
}

/// The order in which the waiting flash operations of one die are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Reads, then writes, then erases; each kind in order of arrival.
    OutOfOrder,
    /// As `OutOfOrder`, with weighted priority classes of the queues.
    #[default]
    Priority,
}

/// The commands that may be interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspension {
    /// None.
    #[default]
    None,
    /// Reads may interrupt programs.
    Program,
    /// Reads and programs may interrupt erases.
    Erase,
    /// Both of these.
    ProgramErase,
}

/// Transaction scheduling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulingConfig {
    /// Order of service.
    pub policy: Policy,
    /// The commands that may be suspended.
    pub suspension: Suspension,
    /// A program that ends sooner than this is not suspended.
    pub suspend_program_if_left: Time,
    /// An erase that ends sooner than this is not suspended.
    pub suspend_erase_if_left: Time,
}

impl Default for SchedulingConfig {
    fn default() -> Self {
        SchedulingConfig {
            policy: Policy::Priority,
            suspension: Suspension::None,
            suspend_program_if_left: Time(100 * US),
            suspend_erase_if_left: Time(700 * US),
        }
    }
}

/// How the block to collect is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcPolicy {
    /// The block with the most invalid pages.
    Greedy,
    /// The block with the most invalid pages among log2(blocks) random ones (d-choices, random
    /// greedy).
    #[default]
    Rga,
    /// Any block.
    Random,
    /// Any full block.
    RandomP,
    /// Any full block with enough invalid pages.
    RandomPp,
    /// The oldest block.
    Fifo,
}

/// Garbage collection and wear levelling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GcConfig {
    /// Choice of the victim.
    pub policy: GcPolicy,
    /// Number of candidates for d-choices; 0 means log2 of the blocks of a plane.
    pub choices: u32,
    /// Share of free blocks below which collection starts.
    pub threshold: f64,
    /// Share of free blocks below which collection goes before user operations, when preemptible.
    pub hard_threshold: f64,
    /// User operations go before collection until the hard threshold.
    pub preemptible: bool,
    /// Use the least worn free block next.
    pub dynamic_wear_levelling: bool,
    /// Move cold blocks when erase counts drift apart.
    pub static_wear_levelling: bool,
    /// Difference of erase counts that starts static wear levelling.
    pub wear_threshold: u32,
    /// Collections that a plane runs at the same time, and the number of free blocks that it keeps
    /// in reserve.
    pub concurrent: u32,
    /// Writes collected data to separate blocks, apart from user data, because data that survived a
    /// collection is colder. If this is off, both kinds of data fill the same blocks.
    pub separate: bool,
}

impl Default for GcConfig {
    fn default() -> Self {
        GcConfig {
            policy: GcPolicy::Rga,
            choices: 0,
            threshold: 0.05,
            hard_threshold: 0.005,
            preemptible: false,
            dynamic_wear_levelling: true,
            static_wear_levelling: false,
            wear_threshold: 100,
            concurrent: 4,
            separate: true,
        }
    }
}

/// Bits per cell; they decide which pages of a word line are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// One.
    Slc,
    /// Two.
    Mlc,
    /// Three.
    #[default]
    Tlc,
    /// Four.
    Qlc,
}

impl Cell {
    /// Bits per cell, which is also the number of latency classes.
    pub(crate) const fn bits(self) -> usize {
        match self {
            Cell::Slc => 1,
            Cell::Mlc => 2,
            Cell::Tlc => 3,
            Cell::Qlc => 4,
        }
    }
}

/// Flash geometry and timing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlashConfig {
    /// Bits per cell.
    pub cell: Cell,
    /// Flash buses.
    pub channels: u32,
    /// Packages (ways) per channel.
    pub chips: u32,
    /// Dies per chip.
    pub dies: u32,
    /// Planes per die.
    pub planes: u32,
    /// Blocks per plane.
    pub blocks: u32,
    /// Pages per block.
    pub pages: u32,
    /// Bytes of user data per page.
    pub page: Size,
    /// Read latencies, one per page class (lower, middle, upper); the last one is repeated.
    pub read: Vec<Time>,
    /// Program latencies, in the same form.
    pub program: Vec<Time>,
    /// Erase latency.
    pub erase: Time,
    /// Time to suspend a program.
    pub suspend_program: Time,
    /// Time to suspend an erase.
    pub suspend_erase: Time,
    /// Bus rate.
    pub bus: Transfers,
    /// Bus width in bytes.
    pub bus_bytes: u32,
    /// Planes of one die may work together only on the same page number.
    pub multiplane_same_page: bool,
    /// Erases that a block endures.
    pub endurance: u32,
    /// Share of the capacity that the host does not see.
    pub over_provisioning: f64,
}

impl Default for FlashConfig {
    fn default() -> Self {
        FlashConfig {
            cell: Cell::Mlc,
            channels: 8,
            chips: 4,
            dies: 2,
            planes: 2,
            blocks: 2048,
            pages: 256,
            page: Size(8192),
            read: vec![Time(75 * US)],
            program: vec![Time(750 * US)],
            erase: Time(3800 * US),
            suspend_program: Time(100 * US),
            suspend_erase: Time(700 * US),
            bus: Transfers(333_000_000),
            bus_bytes: 1,
            multiplane_same_page: true,
            endurance: 10_000,
            over_provisioning: 0.07,
        }
    }
}

/// A cache of blocks that are written with one bit per cell, and folded later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlcConfig {
    /// Maximum number of such blocks per plane; 0 means no cache.
    pub blocks: u32,
    /// Read latency of their pages.
    pub read: Time,
    /// Program latency of their pages.
    pub program: Time,
    /// How long the host must have had no request before the drive folds them.
    pub idle: Time,
}

impl Default for SlcConfig {
    fn default() -> Self {
        SlcConfig {
            blocks: 0,
            read: Time(25 * US),
            program: Time(150 * US),
            idle: Time(100 * MS),
        }
    }
}

/// A token bucket in front of the drive, as Linux throttles a block device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThrottleConfig {
    /// Bytes per second that may be read; 0 means no limit.
    pub read: Rate,
    /// Bytes per second that may be written; 0 means no limit.
    pub write: Rate,
    /// The amount that the rate allows in this time may pass at once.
    pub slice: Time,
    /// Size of the pieces in which a request is charged.
    pub request: Size,
}

impl Default for ThrottleConfig {
    fn default() -> Self {
        ThrottleConfig {
            read: Rate(0),
            write: Rate(0),
            slice: Time(100 * MS),
            request: Size(1 << 20),
        }
    }
}

/// Energy of one operation in nanojoules, and idle power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnergyConfig {
    /// A page read.
    pub read_nj: f64,
    /// A page program.
    pub program_nj: f64,
    /// A block erase.
    pub erase_nj: f64,
    /// A byte transferred over a flash bus.
    pub bus_byte_nj: f64,
    /// A byte transferred over the host link.
    pub link_byte_nj: f64,
    /// Constant power of everything else.
    pub idle_watts: f64,
}

impl Default for EnergyConfig {
    fn default() -> Self {
        EnergyConfig {
            read_nj: 20_000.0,
            program_nj: 150_000.0,
            erase_nj: 1_000_000.0,
            bus_byte_nj: 0.1,
            link_byte_nj: 0.05,
            idle_watts: 1.0,
        }
    }
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveConfig {
    /// Name in reports.
    pub name: String,
    /// The simulator whose quirks apply.
    pub compat: Compat,
    /// How the first normally distributed size is chosen (`compat = "mqsim"` only).
    pub mqsim_normal: MqsimNormal,
    /// Seed of the drive's own random choices.
    pub seed: i32,
    /// Fill the drive before the run (see `drive::fill`).
    pub precondition: bool,
    /// Host interface and link.
    pub host: HostConfig,
    /// Limit in front of the drive.
    pub throttle: ThrottleConfig,
    /// DRAM data cache.
    pub cache: CacheConfig,
    /// Address mapping.
    pub mapping: MappingConfig,
    /// Scheduling of flash operations.
    pub scheduling: SchedulingConfig,
    /// Garbage collection.
    pub gc: GcConfig,
    /// Flash.
    pub flash: FlashConfig,
    /// SLC cache.
    pub slc: SlcConfig,
    /// Parts of the logical space.
    pub namespaces: NamespacesConfig,
    /// Zones of namespaces.
    pub zones: ZonesConfig,
    /// Placement by handles.
    pub fdp: FdpConfig,
    /// Energy.
    pub energy: EnergyConfig,
}

impl DriveConfig {
    /// Reads a configuration. An error names the line, the key and the nearest known key.
    pub fn from_toml(text: &str) -> Result<Self> {
        let config: DriveConfig = toml::from_str(text)
            .map_err(|error| toml_error("read drive configuration", text, &error))?;
        config.validate()?;
        Ok(config)
    }

    /// The configuration as TOML that [`DriveConfig::from_toml`] reads back.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::usage("write drive configuration", error.to_string()))
    }

    /// Physical bytes.
    pub(crate) fn physical_bytes(&self) -> u64 {
        self.physical_pages()
            .unwrap_or(0)
            .saturating_mul(self.flash.page.0)
    }

    fn physical_pages(&self) -> Option<u64> {
        let f = &self.flash;
        [f.channels, f.chips, f.dies, f.planes, f.blocks, f.pages]
            .iter()
            .try_fold(1u64, |product, n| product.checked_mul(u64::from(*n)))
    }
}

/// Channel, way, die, plane: the four dimensions that an allocation order permutes.
pub(crate) fn parse_order(order: &str) -> Result<[usize; 4]> {
    let mut dims = [0usize; 4];
    let mut seen = [false; 4];
    let letters: Vec<char> = order.chars().map(|c| c.to_ascii_uppercase()).collect();
    let ok = letters.len() == 4
        && letters.iter().enumerate().all(|(at, letter)| {
            "CWDP".find(*letter).is_some_and(|dim| {
                dims[at] = dim;
                !std::mem::replace(&mut seen[dim], true)
            })
        });
    if ok {
        return Ok(dims);
    }
    Err(Error::usage(
        "check allocation order",
        format!("`{order}` is not one of the 24 orders of C, W, D and P"),
    )
    .hint("channel first is CWDP"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_configuration_survives_its_own_text() {
        let config = DriveConfig {
            name: "x".into(),
            ..DriveConfig::default()
        };
        let text = config.to_toml().unwrap();
        assert_eq!(DriveConfig::from_toml(&text).unwrap(), config);
    }

    #[test]
    fn an_unknown_key_names_line_and_nearest_key() {
        let error = DriveConfig::from_toml("name = \"x\"\n[flash]\nchanels = 3\n").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("line 3") && text.contains("did you mean `channels`?"),
            "{text}"
        );
        let error = DriveConfig::from_toml("[gc]\npolicy = \"gredy\"\n").unwrap_err();
        assert!(
            error.to_string().contains("did you mean `greedy`?"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_quantity_names_the_line_and_the_accepted_forms() {
        let error = DriveConfig::from_toml("[flash]\nerase = \"3 bananas\"\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("line 2") && text.contains("75us"), "{text}");
    }

    #[test]
    fn all_24_orders_are_known() {
        let mut count = 0;
        for a in "CWDP".chars() {
            for b in "CWDP".chars() {
                for c in "CWDP".chars() {
                    for d in "CWDP".chars() {
                        count += usize::from(parse_order(&format!("{a}{b}{c}{d}")).is_ok());
                    }
                }
            }
        }
        assert_eq!(count, 24);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,200}") {
            let _ = DriveConfig::from_toml(&text);
        }
    }
}
