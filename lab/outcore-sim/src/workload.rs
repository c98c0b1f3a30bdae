//! Workloads: the requests that a drive receives, from generators and lists, in closed or open
//! loop.
//!
//! Model: the generators are MQSim's (uniform, hot/cold and streaming addresses; fixed or normal
//! sizes; a fixed number of outstanding requests, or Poisson arrivals). They draw from the same
//! random stream, so a workload file gives the same requests as in MQSim. A list replays given
//! requests in order, keeping `depth` of them outstanding or issuing them at their recorded times.
//!
//! [`flows`](crate::flows) submits the requests.

use crate::quantities::Ps;
use crate::rng::Rng;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Discard sectors.
    Trim,
}

/// How a request ended. The errors are those of zoned namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// Served.
    #[default]
    Success,
    /// A write away from the write pointer, or of a part of a mapping unit.
    ZoneInvalidWrite,
    /// A write to a full zone.
    ZoneIsFull,
    /// A write beyond the end of its zone.
    ZoneBoundary,
    /// A write to an empty zone while as many zones are active as may be.
    TooManyActiveZones,
}

impl Status {
    /// The errors, with their names in NVMe.
    pub(crate) const ERRORS: [(Status, &'static str); 4] = [
        (Status::ZoneInvalidWrite, "Zone Invalid Write"),
        (Status::ZoneIsFull, "Zone Is Full"),
        (Status::ZoneBoundary, "Zone Boundary Error"),
        (Status::TooManyActiveZones, "Too Many Active Zones"),
    ];
}

/// How the data cache treats a queue's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caching {
    /// No caching: a write is acknowledged after its program.
    Off,
    /// Writes are acknowledged from DRAM.
    #[default]
    Write,
    /// Data that was read is cached.
    Read,
    /// Both.
    WriteRead,
}

/// One queue pair and the part of the drive that it sees.
#[derive(Debug, Clone)]
pub struct QueueConfig {
    /// Priority class: 0 urgent, 1 high, 2 medium, 3 low.
    pub class: u8,
    /// Use of the data cache.
    pub caching: Caching,
    /// Channels, chips, dies and planes that its data may use; empty means all.
    pub ids: [Vec<u32>; 4],
    /// Share of the queue's range that requests may touch, above 0 and at most 1.
    pub working_set: f64,
    /// Share of the range that preconditioning fills.
    pub occupancy: f64,
    /// Number of the namespace, if the drive has namespaces.
    pub namespace: u16,
    /// Placement handle of its writes, if the drive has handles.
    pub handle: u16,
    /// Its writes to zones are appends: the drive chooses their place in the zone.
    pub append: bool,
}

impl Default for QueueConfig {
    fn default() -> Self {
        QueueConfig {
            class: 1,
            caching: Caching::Write,
            ids: [Vec::new(), Vec::new(), Vec::new(), Vec::new()],
            working_set: 1.0,
            occupancy: 0.5,
            namespace: 0,
            handle: 0,
            append: false,
        }
    }
}

/// How addresses are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Addresses {
    /// Sequential from a random start.
    Streaming,
    /// Anywhere in the working set.
    Uniform,
    /// `(1 - ratio)` of the requests go to the first `ratio` of the working set.
    HotCold {
        /// Share of the working set that is hot.
        ratio: f64,
    },
}

/// How sizes are drawn, in sectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizes {
    /// All equal.
    Fixed(u32),
    /// Normal, at least one sector.
    Normal {
        /// Mean.
        mean: u32,
        /// Standard deviation.
        deviation: u32,
    },
}

impl Sizes {
    /// Mean size in sectors.
    pub(crate) fn mean(&self) -> u32 {
        match self {
            Sizes::Fixed(sectors) | Sizes::Normal { mean: sectors, .. } => *sectors,
        }
    }
}

/// When requests are issued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// A request is issued when one of this many outstanding requests completes.
    Depth(u32),
    /// Poisson arrivals with this mean interval in nanoseconds.
    Interval(u64),
}

/// A generator.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// Share of the flow's range that is touched, above 0 and at most 1. The queue's
    /// [`QueueConfig::working_set`] must agree.
    pub working_set: f64,
    /// Closed or open loop.
    pub pace: Pace,
    /// Share of reads.
    pub read_ratio: f64,
    /// Addresses.
    pub addresses: Addresses,
    /// Start addresses are multiples of this many sectors; 0 leaves them as drawn.
    pub align_sectors: u32,
    /// Sizes.
    pub sizes: Sizes,
    /// Seed.
    pub seed: i32,
    /// No request is generated after this time; 0 means no limit.
    pub stop_at: Ps,
    /// Requests to generate when `stop_at` is 0.
    pub requests: u64,
}

/// One request of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListItem {
    /// Time at which it is issued (open loop).
    pub at: Ps,
    /// Read, write or trim.
    pub op: Op,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
}

/// A list of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The requests, in the order of issue.
    pub items: Vec<ListItem>,
    /// Number of requests to keep outstanding; 0 issues each at its time.
    pub depth: u32,
    /// How often the list is replayed.
    pub rounds: u32,
    /// The path of its file as MQSim's workload file gives it, for MQSim's order of flows.
    pub file: Option<String>,
}

/// Source of a flow's requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// A generator.
    Synthetic(Synthetic),
    /// A list.
    List(List),
}

/// One flow: a source of requests with a queue pair of its own.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// Name in reports.
    pub name: String,
    /// Configuration of its queue pair.
    pub queue: QueueConfig,
    /// Source of its requests.
    pub origin: Origin,
}

/// How values are drawn where there are alternatives to MQSim's way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrawRules {
    /// As MQSim draws, with its quirks.
    pub(crate) is_compat: bool,
    /// The first value of a normal distribution is its mean.
    pub(crate) normal_starts_at_mean: bool,
}

/// Random streams of a generator, in MQSim's order of seeds.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    pub(crate) kind: Rng,
    pub(crate) address: Rng,
    pub(crate) hot_address: Option<Rng>,
    pub(crate) hot_cold: Option<Rng>,
    pub(crate) size: Option<Rng>,
    pub(crate) interval: Option<Rng>,
    pub(crate) is_compat: bool,
}

impl Streams {
    pub(crate) fn new(spec: &Synthetic, rules: DrawRules) -> Self {
        let mut seed = spec.seed;
        let mut next = || {
            seed = seed.wrapping_add(1);
            Rng::new(seed.wrapping_sub(1))
        };
        let kind = next();
        let address = next();
        let hot = matches!(spec.addresses, Addresses::HotCold { .. });
        let hot_address = hot.then(&mut next);
        let hot_cold = hot.then(&mut next);
        let mut size = matches!(spec.sizes, Sizes::Normal { .. }).then(&mut next);
        if let Some(rng) = size.as_mut().filter(|_| rules.normal_starts_at_mean) {
            rng.start_normal_at_mean();
        }
        let interval = matches!(spec.pace, Pace::Interval(_)).then(&mut next);
        Streams {
            kind,
            address,
            hot_address,
            hot_cold,
            size,
            interval,
            is_compat: rules.is_compat,
        }
    }

    /// Draws a size in sectors. MQSim turns a negative size into an unsigned number, and the
    /// command carries its lower 16 bits: a request of almost 32 MiB.
    pub(crate) fn draw_size(&mut self, sizes: Sizes) -> u32 {
        let (Sizes::Normal { mean, deviation }, Some(rng)) = (sizes, self.size.as_mut()) else {
            return sizes.mean();
        };
        let drawn = libm::ceil(rng.normal(f64::from(mean), f64::from(deviation)));
        if self.is_compat {
            (drawn as i64 as u32).max(1)
        } else {
            drawn.max(1.0) as u32
        }
    }
}
