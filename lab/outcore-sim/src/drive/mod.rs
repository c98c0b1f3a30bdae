//! One drive: a deterministic discrete-event model from the submission queue to the flash cells.
//!
//! Model: the architecture of MQSim (Tavakkol et al., "MQSim: A Framework for Enabling Realistic
//! Studies of Modern Multi-Queue SSD Devices", FAST 2018), written from scratch. The parts are:
//! - queue pairs and link ([`link`]), and the block layer's throttle in front of them
//!   ([`throttle`]);
//! - the data cache ([`cache`]);
//! - the mapping and its cache ([`map`]), blocks ([`blocks`]), and the packing of units smaller
//!   than a page ([`pack`]);
//! - namespaces and placement handles ([`spaces`]), and zones ([`zones`]);
//! - scheduling ([`tsu`]), chips and buses ([`phy`]);
//! - garbage collection and wear levelling ([`gc`]), and the SLC cache ([`slc`]);
//! - preconditioning ([`fill`], [`fill_mqsim`], [`fresh`]).
//!
//! Invariants, asserted in release builds also:
//! - Time never runs backwards.
//! - A plane's free, valid and invalid pages add up to all its pages.
//! - A finished request has no open operation.
//! - When the event queue is empty, nothing is in flight; otherwise [`Drive::check_idle`] reports
//!   what is stuck.
//!
//! Bounds: per mapping unit, a mapping entry, a bitmap and a reverse entry (9.3 bytes for 4 KiB
//! units with 7 % over-provisioning), plus 32 bytes per block. The system provides this zeroed
//! memory when it is touched, and few units in use take less ([`units`]). All other memory grows
//! only with the number of operations in flight.

pub(crate) mod blocks;
mod cache;
mod cmt;
pub(crate) mod fill;
mod fill_mqsim;
mod fresh;
mod gc;
mod link;
mod map;
pub(crate) mod need;
mod pack;
pub(crate) mod params;
mod phy;
mod sata;
mod slc;
pub(crate) mod spaces;
mod states;
pub(crate) mod stats;
mod throttle;
mod tsu;
pub(crate) mod types;
mod units;
mod zones;

use outcore_io::{Error, Kind as ErrorKind, Result};

use crate::config::{DriveConfig, parse_order};
use crate::event::EventQueue;
use crate::quantities::Ps;
pub use crate::workload::{Caching, Op, QueueConfig, Status};
pub(crate) use cmt::Cmt;
use params::Params;
use stats::DriveStats;
use types::{Pool, Req, Tr};

/// Event kinds: the upper four bits of an event's data.
pub(crate) mod event_kind {
    pub(crate) const TO_HOST: u32 = 0;
    pub(crate) const TO_DRIVE: u32 = 1;
    // At most one event of each kind above is pending.
    pub(crate) const DRAM: u32 = 2;
    pub(crate) const COMMAND_IN: u32 = 3;
    pub(crate) const DATA_OUT: u32 = 4;
    pub(crate) const ARRAY_DONE: u32 = 5;
    /// As `ARRAY_DONE`, for a read: its events come much sooner than those of programs.
    pub(crate) const ARRAY_READ: u32 = 6;
    pub(crate) const START: u32 = 7;
    // The event queue keeps one lane for each other kind above.
    pub(crate) const HOST_TIMER: u32 = 8;
    pub(crate) const PACK: u32 = 9;
    pub(crate) const ADMIT: u32 = 10;
    pub(crate) const FOLD: u32 = 11;
    pub(crate) const SHIFT: u32 = 28;
    pub(crate) const ARG: u32 = (1 << SHIFT) - 1;
}

/// A finished request.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// Tag that the caller passed at submission.
    pub tag: u64,
    /// Queue pair.
    pub queue: u16,
    /// Read, write or trim.
    pub op: Op,
    /// How it ended.
    pub status: Status,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Time at which the host issued it.
    pub arrival: Ps,
    /// Time at which it entered the submission queue.
    pub enqueued: Ps,
    /// Completion time.
    pub completed: Ps,
}

/// The side that submits requests. Its methods are called from within [`Drive::step`].
pub trait Host {
    /// A request has finished; `drive.submit` may be called.
    fn completed(&mut self, drive: &mut Drive, done: Done);
    /// A timer that was set with [`Drive::set_timer`] fires.
    fn timer(&mut self, drive: &mut Drive, token: u32);
}

/// One drive in the middle of a run.
#[derive(Debug, Clone)]
pub struct Drive {
    pub(crate) p: Params,
    pub(crate) now: Ps,
    events: EventQueue,
    reqs: Pool<Req>,
    trs: Pool<Tr>,
    link: link::Link,
    throttle: throttle::Throttle,
    queues: Vec<link::QueuePair>,
    cache: cache::Cache,
    map: map::Mapping,
    blocks: blocks::Blocks,
    pack: pack::Packer,
    tsu: tsu::Tsu,
    phy: phy::Phy,
    gc: gc::Gc,
    slc: slc::Slc,
    spaces: spaces::Spaces,
    zones: zones::Zones,
    pub(crate) stats: DriveStats,
    fault: Option<Error>,
}

/// The latest time of an event: 53 days. Adding the duration of one operation to it cannot overflow
/// 64 bits.
pub(crate) const TIME_MAX: Ps = 1 << 62;

/// The error of a run that would continue beyond [`TIME_MAX`].
#[cold]
pub(crate) fn too_long() -> Error {
    Error::usage("simulate drive", "the simulated time would pass 53 days")
        .hint("fewer requests, shorter pauses between them, or a faster drive")
}

/// All channels, chips, dies and planes: the default of queues whose `ids` are empty.
fn all_ids(config: &DriveConfig) -> [Vec<u32>; 4] {
    let f = &config.flash;
    [f.channels, f.chips, f.dies, f.planes].map(|count| (0..count).collect())
}

/// The queues with all parts of the flash by name, and with the caching that their namespaces
/// allow.
fn resolve(config: &DriveConfig, queues: &[QueueConfig]) -> Result<Vec<QueueConfig>> {
    let everything = all_ids(config);
    let mut resolved = Vec::with_capacity(queues.len());
    for (at, queue) in queues.iter().enumerate() {
        let mut queue = queue.clone();
        if config
            .zones
            .namespaces
            .contains(&u32::from(queue.namespace))
        {
            queue.caching = zones::caching_of(queue.caching);
        }
        for dim in 0..4 {
            if queue.ids[dim].is_empty() {
                queue.ids[dim].clone_from(&everything[dim]);
            }
            let limit = everything[dim].len() as u32;
            if let Some(bad) = queue.ids[dim].iter().find(|id| **id >= limit) {
                let name = ["channel", "chip", "die", "plane"][dim];
                return Err(Error::usage(
                    "build drive",
                    format!("flow {at} names {name} {bad}, but there are only {limit}"),
                ));
            }
        }
        resolved.push(queue);
    }
    Ok(resolved)
}

impl Drive {
    /// Builds an empty drive with the given queue pairs.
    pub fn new(config: &DriveConfig, queues: &[QueueConfig]) -> Result<Self> {
        config.validate()?;
        parse_order(&config.mapping.order)?;
        if queues.is_empty() || queues.len() > 64 {
            return Err(Error::usage("build drive", "a drive needs 1 to 64 queues"));
        }
        if config.host.interface == crate::config::Interface::Sata && queues.len() > 1 {
            return Err(Error::usage(
                "build drive",
                format!("a SATA drive has one queue, not {}", queues.len()),
            )
            .hint("give the workload one flow, or the drive the NVMe interface"));
        }
        need::check(config, need::AtOnce::one(config))?;
        let spaces = spaces::Spaces::new(config, queues)?;
        let p = Params::new(config, queues.len() as u32);
        let resolved = resolve(config, queues)?;
        let shares = blocks::plane_shares(&p, &resolved);
        let ranges = spaces::ranges(config, &p, &resolved, &shares)?;
        let map = map::Mapping::new(&p, &ranges, spaces.ranges_of_queues());
        if let Some(at) = (0..queues.len()).find(|at| map.range_sectors(*at as u16) == 0) {
            return Err(Error::usage(
                "build drive",
                format!("not one sector of the drive is left for flow {at}"),
            )
            .hint(
                "lower flash.over_provisioning, or give the drive more flash.blocks or flash.pages",
            ));
        }
        let queue_pairs = link::queue_pairs(&p, &resolved, &map);
        let mut blocks = blocks::Blocks::new(&p, spaces.streams(), shares, config.gc.policy)?;
        let zones = zones::Zones::new(config, &p, &map, &mut blocks.planes)?;
        let stats = DriveStats::new(config, &p, spaces.counters(ranges.len()));
        let mut drive = Drive {
            events: EventQueue::default(),
            reqs: Pool::new(Req::BLANK),
            trs: Pool::new(Tr::BLANK),
            link: link::Link::new(&p),
            throttle: throttle::Throttle::new(&config.throttle),
            cache: cache::Cache::new(&p, &resolved),
            pack: pack::Packer::new(&p, spaces.streams()),
            tsu: tsu::Tsu::new(&p, &resolved),
            phy: phy::Phy::new(&p),
            gc: gc::Gc::new(&p, &resolved, config.seed),
            slc: slc::Slc::default(),
            stats,
            spaces,
            zones,
            queues: queue_pairs,
            map,
            blocks,
            now: 0,
            fault: None,
            p,
        };
        drive.split_zones(&resolved)?;
        drive.store_mapping_table();
        drive.take_fault()?;
        Ok(drive)
    }

    /// Announces roughly how many units requests will touch. If they are a large part of all, the
    /// tables use large memory pages, which are faster. Otherwise only the touched parts become
    /// resident.
    pub(crate) fn expect_units(&mut self, count: u64) {
        if self.map.expect_units(count) {
            self.blocks.use_large_pages();
        }
    }

    /// The drive's clock.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Counters so far.
    pub(crate) fn stats(&self) -> &DriveStats {
        &self.stats
    }

    /// Bytes that the host sees through queue `queue`.
    pub(crate) fn queue_bytes(&self, queue: u16) -> u64 {
        self.map.range_sectors(queue) * u64::from(params::SECTOR_BYTES)
    }

    /// First sector of `queue` in the host's numbering, and the last sector that its requests may
    /// touch.
    pub(crate) fn queue_sectors(&self, queue: u16) -> (u64, u64) {
        let pair = &self.queues[usize::from(queue)];
        (pair.first_sector, pair.last_sector)
    }

    /// Time of the next event; `None` when nothing is pending.
    pub(crate) fn next_at(&self) -> Option<Ps> {
        self.events.next_at()
    }

    /// Lets the host be called back at `at` (not before now).
    pub(crate) fn set_timer(&mut self, at: Ps, token: u32) {
        let token = token & event_kind::ARG;
        self.schedule(at.max(self.now), event_kind::HOST_TIMER, token);
    }

    /// Moves the clock of an idle or waiting drive forward before a submission from outside.
    pub(crate) fn advance_to(&mut self, at: Ps) {
        assert!(
            self.events.next_at().is_none_or(|next| at <= next),
            "an event was skipped"
        );
        self.now = self.now.max(at);
    }

    #[inline]
    fn schedule(&mut self, at: Ps, kind: u32, arg: u32) {
        debug_assert!(at >= self.now && arg <= event_kind::ARG);
        self.events.push(at, kind << event_kind::SHIFT | arg);
    }

    /// Sets the end of the message that a direction of the link carries.
    #[inline]
    fn schedule_link(&mut self, at: Ps, kind: u32) {
        self.events.push_single(at, kind as usize);
    }

    /// Executes one event. Returns false when none is pending. A model error (a plane without free
    /// pages) ends the run with an error that names the resource.
    #[inline]
    pub(crate) fn step<H: Host>(&mut self, host: &mut H) -> Result<bool> {
        let Some(event) = self.events.pop() else {
            return Ok(false);
        };
        assert!(event.at >= self.now, "time ran backwards");
        if event.at > TIME_MAX {
            return Err(too_long());
        }
        self.now = event.at;
        self.stats.events += 1;
        let arg = event.data & event_kind::ARG;
        match event.data >> event_kind::SHIFT {
            event_kind::TO_HOST => self.deliver_to_host(host),
            event_kind::TO_DRIVE => self.deliver_to_drive(host),
            event_kind::DRAM => self.dram_done(arg),
            event_kind::COMMAND_IN => self.command_in_done(arg),
            event_kind::DATA_OUT => self.data_out_done(arg),
            event_kind::ARRAY_READ => self.array_read(arg),
            event_kind::ARRAY_DONE => self.array_done(arg),
            event_kind::HOST_TIMER => host.timer(self, arg),
            event_kind::PACK => self.pack_timer(arg),
            event_kind::START => self.start_request(arg),
            event_kind::ADMIT => self.admit_request(arg),
            event_kind::FOLD => self.idle_timer(arg),
            _ => {}
        }
        if self.blocks.broken {
            self.fail(
                "MQSim's collector has lost track of its pages; MQSim itself crashes here"
                    .to_owned(),
                "use compat = \"none\", or another GC_Block_Selection_Policy",
            );
        }
        if self.fault.is_some() {
            self.take_fault()?;
        }
        Ok(true)
    }

    fn take_fault(&mut self) -> Result<()> {
        match self.fault.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn fail(&mut self, cause: String, hint: &str) {
        if self.fault.is_none() {
            self.fault =
                Some(Error::new(ErrorKind::NoSpace, "simulate drive", cause).hint(hint.to_owned()));
        }
    }

    /// Ends a run. Every event has been executed, so nothing may be in flight. Returns the number
    /// of requests that MQSim's barrier handling dropped (compat only).
    pub(crate) fn check_idle(&mut self) -> Result<u64> {
        if self.events.len() > 0 {
            return Err(Error::usage("finish run", "events are still pending"));
        }
        self.blocks.check_conservation(&self.p);
        let lost = self.stats.lost_requests;
        let stuck = self.reqs.live() as u64;
        if stuck == 0 {
            return Ok(0);
        }
        if self.p.compat {
            // In MQSim a dropped operation also leaks its back-pressure credit, so requests that
            // wait for the credit never end either. MQSim stops silently; here the stuck requests
            // are counted.
            return Ok(stuck);
        }
        Err(Error::new(
            ErrorKind::NoSpace,
            "simulate drive",
            format!(
                "{stuck} requests never finished ({lost} dropped): {}",
                self.blocked_resource()
            ),
        )
        .hint("more over-provisioning, a smaller working set or a lower gc threshold"))
    }

    fn blocked_resource(&self) -> String {
        let plane = self.map.waiting_planes();
        if let Some((plane, count)) = plane {
            return format!("{count} writes wait for a free block of plane {plane}");
        }
        if self.cache.waiting() > 0 {
            return format!(
                "{} writes wait for room in the data cache",
                self.cache.waiting()
            );
        }
        if self.pack.waiting() > 0 {
            return format!("{} writes wait for a free block", self.pack.waiting());
        }
        if self.zones.waiting() > 0 {
            return format!("{} zones wait for an erased block", self.zones.waiting());
        }
        "no resource is blocked; this is a defect of the model".to_owned()
    }
}

/// Number of sectors in a bitmap.
#[inline]
pub(crate) fn sectors(bitmap: u64) -> u32 {
    bitmap.count_ones()
}
