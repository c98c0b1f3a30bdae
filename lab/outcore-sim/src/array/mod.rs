//! Several drives with a shared ceiling, and the replay of recorded I/O on them.
//!
//! Model: equal drives, each a full [`Drive`]. A shared resource (PCIe switch, memory bandwidth) is
//! one first-in-first-out server of bytes that a request passes when it starts. Requests of a
//! volume are cut at the borders of stripes and laid out by [`layout`]. A request is finished when
//! its last part is finished. There are three sources of requests: a graph of requests ([`graph`]),
//! the engine's own trace with its dependencies and think times ([`recorded`]), and block traces of
//! other tools ([`block`]).
//!
//! Invariants: the earliest event of any drive is always next. At the end every submitted request
//! is finished, or the run returns an error that reports what is stuck.
//!
//! Bounds: the drives as in [`crate::drive`]; 16 bytes per request in flight; 48 bytes per stripe
//! that was touched.

pub mod block;
mod bound;
pub mod file;
pub mod graph;
mod layout;
pub mod recorded;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use outcore_io::{Error, Result};
use serde::Serialize;

use crate::config::DriveConfig;
use crate::drive::need::{self, AtOnce};
use crate::drive::{Caching, Done, Drive, Host, Op, QueueConfig, Status, TIME_MAX, too_long};
use crate::fit::{Fit, Scale, name_of};
use crate::quantities::{Ps, SECOND};
use crate::report::FlowStats;
use crate::run::{WATCH_EVENTS, Watch};

pub(crate) use bound::Between;
use bound::{Shares, bottleneck};
use layout::{Layout, Part, Unplaced};

pub use graph::{TraceOp, TraceRequest, read_trace, replay};

pub(crate) const OPERATION: &str = "replay trace";

/// Largest number of drives in an array.
const DRIVES_MAX: u32 = 4096;

/// Placement of the trace's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A request goes to the drive on which it was recorded (modulo the number of drives).
    Recorded,
    /// As the engine stores a job's files: those that it both writes and reads are scratch, which
    /// is striped over all drives in units of 1 MiB. The others stay whole, on the drive on which
    /// they were recorded (modulo the number of drives).
    Whole,
    /// Striped over all drives. This holds for every file and for every device of a block trace.
    /// Files start on different drives, as in the engine.
    Striped {
        /// Bytes of a stripe unit.
        stripe_bytes: u64,
    },
}

/// An array of equal drives.
#[derive(Debug, Clone)]
pub struct ArrayConfig {
    /// The configuration of each drive.
    pub drive: DriveConfig,
    /// Number of drives.
    pub drives: u32,
    /// Bytes per second that all drives together can move; 0 means no limit.
    pub shared_bytes_per_s: u64,
    /// Where requests go.
    pub placement: Placement,
    /// Share of each drive that holds data before the replay, written sequentially. Data that the
    /// trace reads without having written it is stored there. The rest is free, as after a trim.
    pub fill: f64,
    /// Treatment of requests that do not fit on the drives.
    pub fit: Fit,
    /// Asked regularly whether to continue.
    pub watch: Watch,
}

impl ArrayConfig {
    /// `drives` drives like `drive`: half full, no shared ceiling, striped in units of 1 MiB,
    /// rejecting requests that do not fit.
    pub fn new(drive: DriveConfig, drives: u32) -> Self {
        ArrayConfig {
            drive,
            drives,
            shared_bytes_per_s: 0,
            placement: Placement::Striped {
                stripe_bytes: 1 << 20,
            },
            fill: 0.5,
            fit: Fit::Refuse,
            watch: Watch::default(),
        }
    }
}

/// The result of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayReport {
    /// Predicted time of the job in seconds.
    pub seconds: f64,
    /// Requests, counted before they were split over drives.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Seconds of computation in the trace, as replayed, over all threads; 0 if it has none.
    pub computation_seconds: f64,
    /// Response of a request (of all its parts), percentiles in microseconds.
    pub response_us: Percentiles,
    /// One entry per drive.
    pub drives: Vec<DriveReport>,
    /// Share of the time for which the shared ceiling was used.
    pub shared_utilisation: f64,
    /// Seconds in which no request was in flight.
    pub idle_seconds: f64,
    /// The main limit of the job, according to the measurements.
    pub bottleneck: String,
    /// Digest of all completions. Equal replays have equal digests on every machine.
    pub digest: String,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Latency in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99 % of the requests take less.
    pub p99: f64,
    /// 99.9 % take less.
    pub p999: f64,
    /// 99.99 % take less.
    pub p9999: f64,
    /// Longest, exact.
    pub max: f64,
}

impl Percentiles {
    fn of(stats: &FlowStats) -> Self {
        let us = |share: f64| stats.percentile_ns(share) as f64 / 1e3;
        Percentiles {
            mean: stats.mean_response_ns() / 1e3,
            p50: us(0.5),
            p99: us(0.99),
            p999: us(0.999),
            p9999: us(0.9999),
            max: stats.longest_ns() as f64 / 1e3,
        }
    }
}

/// One drive of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct DriveReport {
    /// Bytes moved.
    pub bytes: u64,
    /// Share of the time with at least one request in flight.
    pub busy: f64,
    /// Mean response in microseconds.
    pub mean_response_us: f64,
    /// Its most used resource, and the share of time for which it was used.
    pub resource: (&'static str, f64),
    /// Slots programmed per unit that was written.
    pub write_amplification: f64,
}

/// A finished request of the array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) tag: u64,
    pub(crate) at: Ps,
}

/// Collects completions of one drive.
#[derive(Debug, Default)]
struct Collector {
    done: Vec<Done>,
}

impl Host for Collector {
    fn completed(&mut self, _drive: &mut Drive, done: Done) {
        self.done.push(done);
    }
    fn timer(&mut self, _drive: &mut Drive, _token: u32) {}
}

#[derive(Debug)]
struct Member {
    drive: Drive,
    in_flight: u32,
    busy_since: Ps,
    busy_ps: Ps,
    stats: FlowStats,
}

/// A request whose parts are under way.
#[derive(Debug, Clone)]
struct Open {
    tag: u64,
    op: Op,
    offset_bytes: u64,
    bytes: u64,
    arrival: Ps,
    parts: u32,
    /// Parts that wait for the shared ceiling.
    held: Vec<Part>,
}

/// Drives, their shared ceiling, and the requests under way.
#[derive(Debug)]
pub(crate) struct Array {
    members: Vec<Member>,
    layout: Layout,
    scale: Option<Scale>,
    shared_bytes_per_s: u64,
    shared_free: Ps,
    shared_busy: Ps,
    open: Vec<Open>,
    free: Vec<u32>,
    /// Requests that wait for the ceiling: start time and index into `open`.
    held: BinaryHeap<Reverse<(Ps, u32)>>,
    collector: Collector,
    now: Ps,
    requests: u64,
    /// Number of unfinished requests.
    unfinished: u64,
    /// Time with unfinished requests until the array was last idle, and the beginning of the
    /// current period with unfinished requests.
    occupied_ps: Ps,
    occupied_since: Ps,
    read_bytes: u64,
    write_bytes: u64,
    stats: FlowStats,
    watch: Watch,
    /// Steps between two calls of `watch`.
    unwatched: u32,
}

impl Array {
    /// Builds the drives and fills them.
    pub(crate) fn new(config: &ArrayConfig) -> Result<Self> {
        if config.drives == 0 || config.drives > DRIVES_MAX {
            return Err(Error::usage(
                OPERATION,
                format!("{} drives; 1 to {DRIVES_MAX} are possible", config.drives),
            ));
        }
        if !(0.0..=1.0).contains(&config.fill) {
            return Err(Error::usage(
                OPERATION,
                format!("a fill of {}; 0 to 1 is possible", config.fill),
            ));
        }
        let at_once = AtOnce {
            drives: u64::from(config.drives),
            filling: 1,
        };
        need::check(&config.drive, at_once)?;
        let first = member(&config.drive, config.fill)?;
        let capacity_bytes = first.queue_bytes(0);
        let mut members = Vec::with_capacity(config.drives as usize);
        for _ in 1..config.drives {
            members.push(first.clone());
        }
        members.push(first);
        let members = members
            .into_iter()
            .map(|drive| Member {
                drive,
                in_flight: 0,
                busy_since: 0,
                busy_ps: 0,
                stats: FlowStats::new("drive"),
            })
            .collect();
        Ok(Array {
            members,
            layout: Layout::new(
                config.placement,
                config.drives,
                capacity_bytes,
                config.fill,
                config.fit == Fit::Wrap,
            )?,
            scale: None,
            shared_bytes_per_s: config.shared_bytes_per_s,
            shared_free: 0,
            shared_busy: 0,
            open: Vec::new(),
            free: Vec::new(),
            held: BinaryHeap::new(),
            collector: Collector::default(),
            now: 0,
            requests: 0,
            unfinished: 0,
            occupied_ps: 0,
            occupied_since: 0,
            read_bytes: 0,
            write_bytes: 0,
            stats: FlowStats::new("array"),
            watch: config.watch.clone(),
            unwatched: 0,
        })
    }

    /// Scales the offsets of `devices`, which end at `span_bytes`, proportionally into the room
    /// that the drives have for each device.
    pub(crate) fn scale(&mut self, span_bytes: u64, devices: u64) {
        self.scale = Some(Scale {
            span_bytes,
            room_bytes: self.layout.room_bytes(devices),
        });
    }

    /// The request with the offset at which it is placed.
    fn fitted(&self, request: &ArrayRequest) -> Result<ArrayRequest> {
        let Some(scale) = self.scale.filter(|_| request.bytes > 0) else {
            return Ok(*request);
        };
        let offset_bytes = scale.offset(request.offset_bytes, request.bytes);
        let offset_bytes = offset_bytes.ok_or_else(|| {
            let room = outcore_io::units::bytes(scale.room_bytes);
            let cause = format!("is larger than the {room} available for each device");
            self.refused(request, &cause)
        })?;
        Ok(ArrayRequest {
            offset_bytes,
            ..*request
        })
    }

    /// The error for a `request` that cannot be played.
    fn refused(&self, request: &ArrayRequest, cause: &str) -> Error {
        Error::usage(
            OPERATION,
            format!(
                "request {} ({} of {} at {} of file or device {}) {cause}",
                request.number,
                name_of(request.op),
                outcore_io::units::bytes(request.bytes),
                outcore_io::units::bytes(request.offset_bytes),
                request.file,
            ),
        )
        .hint("--drive-size makes the drives larger, --drives sets their number")
    }

    fn unplaced(&self, request: &ArrayRequest, why: Unplaced) -> Error {
        let (drive, room_bytes) = match why {
            Unplaced::Full { drive, room_bytes } => (drive, room_bytes),
            Unplaced::Larger(whole_bytes) => {
                let whole = outcore_io::units::bytes(whole_bytes);
                let cause = format!("is larger than the {whole} of all drives together");
                return self.refused(request, &cause);
            }
            Unplaced::Beyond => {
                let cause = "ends beyond 2^64 bytes, where no drive reaches";
                return self
                    .refused(request, cause)
                    .hint("the trace is damaged, or of another format");
            }
        };
        let room = outcore_io::units::bytes(room_bytes);
        let (cause, filled) = match request.op {
            Op::Read if self.layout.is_partly_filled() => (
                format!("reads more than the {room} of data on drive {drive}"),
                ", --fill sets the fraction that holds data",
            ),
            _ => (
                format!("finds no room on drive {drive}, which has {room}"),
                "",
            ),
        };
        self.refused(request, &cause).hint(format!(
            "--drive-size makes the drives larger{filled}; --fit wrap reuses their space"
        ))
    }

    /// Submits a request at `at`, which must not be earlier than any executed event. `offset_bytes`
    /// counts within `file`; the request was recorded on `drive`.
    ///
    /// # Errors
    /// The request does not fit (see [`ArrayConfig::fit`]), or the time is out of range.
    pub(crate) fn submit(&mut self, at: Ps, request: &ArrayRequest, tag: u64) -> Result<()> {
        if at > TIME_MAX {
            return Err(too_long());
        }
        self.now = self.now.max(at);
        let request = &self.fitted(request)?;
        let mut parts = Vec::new();
        let placed = self.layout.place(request, &mut parts);
        placed.map_err(|why| self.unplaced(request, why))?;
        self.requests += 1;
        if self.unfinished == 0 {
            self.occupied_since = at;
        }
        self.unfinished += 1;
        match request.op {
            Op::Read => self.read_bytes += request.bytes,
            Op::Write => self.write_bytes += request.bytes,
            Op::Trim => {}
        }
        let open = Open {
            tag,
            op: request.op,
            offset_bytes: request.offset_bytes,
            bytes: request.bytes,
            arrival: at,
            parts: parts.len() as u32,
            held: parts,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.open[index as usize] = open;
                index
            }
            None => {
                self.open.push(open);
                self.open.len() as u32 - 1
            }
        };
        let mut start = at;
        if self.shared_bytes_per_s > 0 && request.op != Op::Trim {
            start = at.max(self.shared_free);
            let ps = u128::from(request.bytes) * u128::from(SECOND)
                / u128::from(self.shared_bytes_per_s);
            self.shared_free = start.saturating_add(ps as Ps);
            self.shared_busy = self.shared_busy.saturating_add(ps as Ps);
        }
        if start > TIME_MAX {
            return Err(too_long());
        }
        self.held.push(Reverse((start, index)));
        Ok(())
    }

    /// Stripes only these files, if the other files stay whole ([`Placement::Whole`]).
    pub(crate) fn stripe_files(&mut self, files: HashSet<u32>) {
        self.layout.stripe_files(files);
    }

    /// Bytes of all drives together.
    pub(crate) fn whole_bytes(&self) -> u64 {
        self.layout.whole_bytes()
    }

    /// Whether every request is finished. The drives may still have work of their own, such as
    /// writing their caches to flash.
    pub(crate) fn is_idle(&self) -> bool {
        self.unfinished == 0
    }

    /// Time of the next event of any drive.
    pub(crate) fn next_at(&self) -> Option<Ps> {
        let held = self.held.peek().map(|Reverse((at, _))| *at);
        let drives = self
            .members
            .iter()
            .filter_map(|member| member.drive.next_at())
            .min();
        match (held, drives) {
            (Some(held), Some(drives)) => Some(held.min(drives)),
            (held, drives) => held.or(drives),
        }
    }

    /// Latest time of an event or a submission.
    pub(crate) fn now(&self) -> Ps {
        self.now
    }

    /// Advances time to `at`. No earlier event may be pending.
    pub(crate) fn wait_until(&mut self, at: Ps) {
        assert!(
            self.next_at().is_none_or(|next| at <= next),
            "an event was skipped"
        );
        self.now = self.now.max(at);
    }

    /// Executes events up to `until`, and stops after the first one that finishes a request.
    /// Returns false when no event is left before `until`.
    pub(crate) fn run_until(&mut self, until: Ps, finished: &mut Vec<Finished>) -> Result<bool> {
        // One step takes microseconds: it ends with the first finished request.
        self.unwatched = self.unwatched.wrapping_sub(1);
        if self.unwatched.is_multiple_of(WATCH_EVENTS) {
            self.watch.check()?;
        }
        while let Some(Reverse((start, index))) = self.held.peek().copied() {
            let first = self.members.iter().filter_map(|m| m.drive.next_at()).min();
            if start > until || first.is_some_and(|first| first < start) {
                break;
            }
            self.held.pop();
            self.start(index, start, finished);
            if !finished.is_empty() {
                return Ok(true);
            }
        }
        let held = self.held.peek().map_or(Ps::MAX, |Reverse((at, _))| *at);
        let limit = until.min(held);
        let mut next = [(Ps::MAX, 0usize); 2];
        for (at, member) in self.members.iter().enumerate() {
            let time = member.drive.next_at().unwrap_or(Ps::MAX);
            if time < next[0].0 {
                next[1] = next[0];
                next[0] = (time, at);
            } else if time < next[1].0 {
                next[1] = (time, at);
            }
        }
        let (first, which) = next[0];
        if first > limit || first == Ps::MAX {
            return Ok(!self.held.is_empty() && held <= until);
        }
        // Runs this drive alone until another one has an earlier event. If two events have the same
        // time, the first drive in order runs.
        let other = next[1].0;
        let member = &mut self.members[which];
        loop {
            member.drive.step(&mut self.collector)?;
            if !self.collector.done.is_empty() {
                self.collect(which, finished);
                return Ok(true);
            }
            match member.drive.next_at() {
                Some(at) if at < other && at <= limit => {}
                _ => return Ok(true),
            }
        }
    }

    /// Submits the parts of a request to their drives.
    fn start(&mut self, index: u32, now: Ps, finished: &mut Vec<Finished>) {
        self.now = self.now.max(now);
        let open = &mut self.open[index as usize];
        let parts = std::mem::take(&mut open.held);
        if parts.is_empty() {
            self.finish(index, now, finished);
            return;
        }
        for part in parts {
            let member = &mut self.members[part.drive as usize];
            member.drive.advance_to(now);
            if member.in_flight == 0 {
                member.busy_since = now;
            }
            member.in_flight += 1;
            member
                .drive
                .submit(0, open.op, part.sector, part.sectors, now, u64::from(index));
        }
    }

    fn collect(&mut self, which: usize, finished: &mut Vec<Finished>) {
        let mut done = std::mem::take(&mut self.collector.done);
        for done in done.drain(..) {
            self.now = self.now.max(done.completed);
            let member = &mut self.members[which];
            member.in_flight -= 1;
            if member.in_flight == 0 {
                member.busy_ps += done.completed - member.busy_since;
            }
            member.stats.record(&done);
            let open = &mut self.open[done.tag as usize];
            open.parts -= 1;
            if open.parts == 0 {
                self.finish(done.tag as u32, done.completed, finished);
            }
        }
        self.collector.done = done;
    }

    fn finish(&mut self, index: u32, at: Ps, finished: &mut Vec<Finished>) {
        self.unfinished -= 1;
        if self.unfinished == 0 {
            self.occupied_ps += at.saturating_sub(self.occupied_since);
        }
        let open = &self.open[index as usize];
        self.stats.record(&Done {
            tag: open.tag,
            queue: 0,
            op: open.op,
            status: Status::Success,
            lba: open.offset_bytes / 512,
            sectors: (open.bytes / 512).min(u64::from(u32::MAX)) as u32,
            arrival: open.arrival,
            enqueued: open.arrival,
            completed: at,
        });
        finished.push(Finished { tag: open.tag, at });
        self.free.push(index);
    }

    /// Ends a replay that took until `end`. Utilisation is counted until then; afterwards the
    /// drives finish their remaining work.
    pub(crate) fn report(
        &mut self,
        end: Ps,
        between: Between,
        mut warnings: Vec<String>,
    ) -> Result<ReplayReport> {
        let share = |ps: Ps| ps as f64 / end.max(1) as f64;
        let mut drives: Vec<DriveReport> = Vec::with_capacity(self.members.len());
        for member in &mut self.members {
            member.drive.settle_counters();
            let used = member.drive.utilisation(end).into_iter();
            drives.push(DriveReport {
                bytes: member.stats.bytes,
                busy: share(member.busy_ps),
                mean_response_us: member.stats.mean_response_ns() / 1e3,
                resource: used
                    .max_by(|a, b| a.1.total_cmp(&b.1))
                    .unwrap_or(("nothing", 0.0)),
                write_amplification: 1.0,
            });
        }
        while self.run_until(Ps::MAX, &mut Vec::new())? {}
        for (at, member) in self.members.iter_mut().enumerate() {
            member
                .drive
                .check_idle()
                .map_err(|error| error.drive(format!("drive {at}")))?;
            drives[at].write_amplification = member.drive.stats().write_amplification();
        }
        warnings.extend(self.layout.warning());
        warnings.extend(self.scale.map(|scale| {
            format!(
                "the offsets of all {} requests were scaled, from {} to {} for each device",
                self.requests,
                outcore_io::units::bytes(scale.span_bytes),
                outcore_io::units::bytes(scale.room_bytes),
            )
        }));
        let shared_utilisation = share(self.shared_busy);
        let shares = Shares {
            shared: shared_utilisation,
            occupied: share(self.occupied_ps),
        };
        let bottleneck = bottleneck(&drives, shares, between, end);
        let mut digest = self.stats.digest;
        for member in &self.members {
            digest = digest.rotate_left(7) ^ member.stats.digest;
        }
        Ok(ReplayReport {
            seconds: end as f64 / SECOND as f64,
            requests: self.requests,
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            computation_seconds: 0.0,
            response_us: Percentiles::of(&self.stats),
            drives,
            shared_utilisation,
            idle_seconds: end.saturating_sub(self.occupied_ps) as f64 / SECOND as f64,
            bottleneck,
            digest: format!("{digest:016x}"),
            warnings,
        })
    }
}

/// One request of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArrayRequest {
    /// Its number in error messages.
    pub(crate) number: u64,
    /// Drive on which it was recorded.
    pub(crate) drive: u32,
    /// The file, or the device of a block trace, in which `offset_bytes` counts.
    pub(crate) file: u32,
    pub(crate) op: Op,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
}

/// One drive, filled for a replay.
fn member(config: &DriveConfig, fill: f64) -> Result<Drive> {
    config.check_is_whole(OPERATION)?;
    let queue = QueueConfig {
        caching: Caching::Write,
        occupancy: fill,
        ..QueueConfig::default()
    };
    let mut drive = Drive::new(config, std::slice::from_ref(&queue))?;
    drive.fill_in_order(0, fill)?;
    Ok(drive)
}
