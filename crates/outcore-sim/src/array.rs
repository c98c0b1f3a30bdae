//! Several drives with a shared ceiling, and the replay of a recorded I/O trace on them.
//!
//! Model: a trace is a graph: a request starts when all requests that it waits for are finished
//! and its think time has passed, so faster drives shorten the job and slower ones lengthen it
//! (closed loop). Every drive is a full [`Drive`]; what they share (PCIe switch, memory bandwidth)
//! is one first-in-first-out server of bytes that a request passes when it starts.
//!
//! Invariants: a request starts after everything that it waits for; every request of the trace is
//! finished at the end, or the run is an error that names one that could not start. Time of all
//! drives advances together: the earliest event of any drive is next.
//!
//! Bounds: the trace in memory (about 100 bytes a request), the drives as in [`crate::drive`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use outcore::error::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::config::DriveConfig;
use crate::drive::{Caching, Done, Drive, Host, Op, QueueConfig};
use crate::report::FlowStats;
use crate::units::{NS, Ps, SECOND};
use crate::workload::{FlowConfig, List, Origin};

const OPERATION: &str = "replay trace";

/// Read or write, in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOp {
    /// Read.
    Read,
    /// Write.
    Write,
}

/// One request of a trace; a line of its JSON Lines form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// Number, unique in the trace.
    pub id: u64,
    /// Drive on which it was recorded.
    #[serde(default)]
    pub drive: u32,
    /// What.
    pub op: TraceOp,
    /// First byte on that drive.
    #[serde(rename = "offset")]
    pub offset_bytes: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requests that have to be finished before.
    #[serde(default)]
    pub after: Vec<u64>,
    /// Computation between the last of them and this request, in nanoseconds.
    #[serde(default)]
    pub think_ns: u64,
}

/// Reads a trace in JSON Lines; an error names the line.
pub fn read_trace(text: &str) -> Result<Vec<TraceRequest>> {
    let mut requests = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let request: TraceRequest = serde_json::from_str(line)
            .map_err(|error| Error::usage("read trace", format!("line {}: {error}", number + 1)))?;
        if request.bytes == 0 || request.bytes > 1 << 30 {
            return Err(Error::usage(
                "read trace",
                format!(
                    "line {}: a request of {} bytes; 1 byte to 1 GiB are possible",
                    number + 1,
                    request.bytes
                ),
            ));
        }
        requests.push(request);
    }
    Ok(requests)
}

/// Which drive of the array serves a recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The recorded one, modulo the drives there are.
    Recorded,
    /// The recorded drives are taken for a striped volume, which is striped anew over the array.
    Striped {
        /// Bytes of a stripe unit.
        stripe_bytes: u64,
    },
}

/// An array of equal drives.
#[derive(Debug, Clone)]
pub struct ArrayConfig {
    /// Each drive.
    pub drive: DriveConfig,
    /// How many.
    pub drives: u32,
    /// Bytes a second that all together can move; 0 means no limit.
    pub shared_bytes_per_s: u64,
    /// Where requests go.
    pub placement: Placement,
}

/// What a replay tells.
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
    /// By drive: bytes, and the share of time with a request in flight.
    pub drives: Vec<DriveReport>,
    /// Share of the time that the common ceiling was used.
    pub shared_utilisation: f64,
    /// What limits the job most.
    pub bottleneck: String,
}

/// One drive of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct DriveReport {
    /// Bytes moved.
    pub bytes: u64,
    /// Share of the time with a request in flight.
    pub busy: f64,
    /// Mean response in microseconds.
    pub mean_response_us: f64,
    /// Its most used resource, and the share of time it was used.
    pub resource: (&'static str, f64),
}

/// Collects completions of one drive.
#[derive(Default)]
struct Collector {
    done: Vec<Done>,
}

impl Host for Collector {
    fn completed(&mut self, _drive: &mut Drive, done: Done) {
        self.done.push(done);
    }
    fn timer(&mut self, _drive: &mut Drive, _token: u32) {}
}

struct Member {
    drive: Drive,
    sectors: u64,
    in_flight: u32,
    busy_since: Ps,
    busy_ps: Ps,
    stats: FlowStats,
}

struct Node {
    waits_for: u32,
    ready_at: Ps,
    open_parts: u32,
    followers: Vec<u32>,
}

/// Replays a trace on an array.
pub fn replay(config: &ArrayConfig, trace: &[TraceRequest]) -> Result<ReplayReport> {
    if config.drives == 0 || config.drives > 4096 {
        return Err(Error::usage(
            OPERATION,
            format!("{} drives; 1 to 4096 are possible", config.drives),
        ));
    }
    let mut members = Vec::with_capacity(config.drives as usize);
    for _ in 0..config.drives {
        members.push(member(&config.drive)?);
    }
    let mut nodes = graph(trace)?;
    let recorded_drives = trace.iter().map(|request| request.drive).max().unwrap_or(0) + 1;
    let mut ready: BinaryHeap<Reverse<(Ps, u32)>> = BinaryHeap::new();
    for (at, node) in nodes.iter().enumerate() {
        if node.waits_for == 0 {
            ready.push(Reverse((trace[at].think_ns * NS, at as u32)));
        }
    }
    let mut finished = 0usize;
    let mut now: Ps = 0;
    let (mut shared_free, mut shared_busy) = (0, 0);
    loop {
        let next_ready = ready.peek().map(|Reverse((at, _))| *at);
        let next_drive = members
            .iter()
            .enumerate()
            .filter_map(|(at, member)| member.drive.next_at().map(|time| (time, at)))
            .min();
        match (next_ready, next_drive) {
            (None, None) => break,
            (Some(at), other) if other.is_none_or(|(time, _)| at <= time) => {
                let Some(Reverse((at, index))) = ready.pop() else {
                    break;
                };
                let start = at.max(shared_free);
                let request = &trace[index as usize];
                if config.shared_bytes_per_s > 0 && start > at {
                    ready.push(Reverse((start, index)));
                    continue;
                }
                if config.shared_bytes_per_s > 0 {
                    let ps = u128::from(request.bytes) * u128::from(SECOND)
                        / u128::from(config.shared_bytes_per_s);
                    shared_free = start + ps as Ps;
                    shared_busy += ps as Ps;
                }
                now = now.max(start);
                let parts = issue(config, recorded_drives, request, index, start, &mut members);
                nodes[index as usize].open_parts = parts;
            }
            (_, Some((_, which))) => {
                let mut collector = Collector::default();
                let member = &mut members[which];
                member.drive.step(&mut collector)?;
                for done in collector.done {
                    now = now.max(done.completed);
                    member.in_flight -= 1;
                    if member.in_flight == 0 {
                        member.busy_ps += done.completed - member.busy_since;
                    }
                    member.stats.record(&done);
                    finished += complete(
                        done.tag as u32,
                        done.completed,
                        trace,
                        &mut nodes,
                        &mut ready,
                    );
                }
            }
            (Some(_), None) => break,
        }
    }
    if finished != trace.len() {
        let stuck = nodes
            .iter()
            .position(|node| node.waits_for > 0)
            .unwrap_or(0);
        return Err(Error::usage(
            OPERATION,
            format!(
                "request {} waits for something that never finishes",
                trace[stuck].id
            ),
        )
        .hint("the trace's `after` fields form a circle"));
    }
    Ok(report(trace, now, &members, shared_busy))
}

fn member(config: &DriveConfig) -> Result<Member> {
    let queue = QueueConfig {
        caching: Caching::Write,
        occupancy: 1.0,
        ..QueueConfig::default()
    };
    let mut drive = Drive::new(config, std::slice::from_ref(&queue))?;
    if config.precondition {
        let origin = Origin::List(List {
            items: Vec::new(),
            depth: 1,
            rounds: 1,
        });
        drive.precondition(&[FlowConfig {
            name: "fill".to_owned(),
            queue,
            origin,
        }])?;
    }
    let sectors = drive.queue_bytes(0) / 512;
    let stats = FlowStats::new("drive");
    Ok(Member {
        drive,
        sectors,
        in_flight: 0,
        busy_since: 0,
        busy_ps: 0,
        stats,
    })
}

fn graph(trace: &[TraceRequest]) -> Result<Vec<Node>> {
    let mut index_of = HashMap::with_capacity(trace.len());
    for (at, request) in trace.iter().enumerate() {
        if index_of.insert(request.id, at as u32).is_some() {
            return Err(Error::usage(
                OPERATION,
                format!("request {} is there twice", request.id),
            ));
        }
    }
    let mut nodes: Vec<Node> = trace
        .iter()
        .map(|request| Node {
            waits_for: request.after.len() as u32,
            ready_at: 0,
            open_parts: 0,
            followers: Vec::new(),
        })
        .collect();
    for (at, request) in trace.iter().enumerate() {
        for before in &request.after {
            let Some(before) = index_of.get(before) else {
                return Err(Error::usage(
                    OPERATION,
                    format!(
                        "request {} waits for request {before}, which is not in the trace",
                        request.id
                    ),
                ));
            };
            nodes[*before as usize].followers.push(at as u32);
        }
    }
    Ok(nodes)
}

/// Hands a request to its drives; the number of parts.
fn issue(
    config: &ArrayConfig,
    recorded: u32,
    request: &TraceRequest,
    index: u32,
    now: Ps,
    members: &mut [Member],
) -> u32 {
    let mut parts = 0;
    let mut submit = |which: usize, offset: u64, bytes: u64| {
        let member = &mut members[which];
        member.drive.advance_to(now);
        if member.in_flight == 0 {
            member.busy_since = now;
        }
        member.in_flight += 1;
        let op = if request.op == TraceOp::Read {
            Op::Read
        } else {
            Op::Write
        };
        let first = offset / 512;
        let sectors = (offset + bytes).div_ceil(512) - first;
        let room = member.sectors.saturating_sub(sectors).max(1);
        member
            .drive
            .submit(0, op, first % room, sectors as u32, now, u64::from(index));
        parts += 1;
    };
    let drives = u64::from(config.drives);
    match config.placement {
        Placement::Recorded => {
            submit(
                (u64::from(request.drive) % drives) as usize,
                request.offset_bytes,
                request.bytes,
            );
        }
        Placement::Striped { stripe_bytes } => {
            let stripe = stripe_bytes.max(512);
            let (mut offset, end) = (request.offset_bytes, request.offset_bytes + request.bytes);
            while offset < end {
                let inside = offset % stripe;
                let take = (stripe - inside).min(end - offset);
                let unit = offset / stripe * u64::from(recorded) + u64::from(request.drive);
                submit(
                    (unit % drives) as usize,
                    unit / drives * stripe + inside,
                    take,
                );
                offset += take;
            }
        }
    }
    parts
}

/// A part of a request is finished; 1 when that was its last.
fn complete(
    index: u32,
    at: Ps,
    trace: &[TraceRequest],
    nodes: &mut [Node],
    ready: &mut BinaryHeap<Reverse<(Ps, u32)>>,
) -> usize {
    let node = &mut nodes[index as usize];
    node.open_parts -= 1;
    if node.open_parts > 0 {
        return 0;
    }
    for follower in std::mem::take(&mut node.followers) {
        let next = &mut nodes[follower as usize];
        next.waits_for -= 1;
        next.ready_at = next.ready_at.max(at);
        if next.waits_for == 0 {
            let start = next.ready_at + trace[follower as usize].think_ns * NS;
            ready.push(Reverse((start, follower)));
        }
    }
    1
}

fn report(trace: &[TraceRequest], end: Ps, members: &[Member], shared_busy: Ps) -> ReplayReport {
    let bytes = |op: TraceOp| trace.iter().filter(|r| r.op == op).map(|r| r.bytes).sum();
    let share = |ps: Ps| ps as f64 / end.max(1) as f64;
    let drives: Vec<DriveReport> = members
        .iter()
        .map(|member| {
            let resource = member
                .drive
                .stats()
                .utilisation(end)
                .into_iter()
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .unwrap_or(("nothing", 0.0));
            DriveReport {
                bytes: member.stats.bytes,
                busy: share(member.busy_ps),
                mean_response_us: member.stats.mean_response_ns() / 1e3,
                resource,
            }
        })
        .collect();
    let shared_utilisation = share(shared_busy);
    let busiest = drives.iter().map(|drive| drive.busy).fold(0.0, f64::max);
    let deepest = drives
        .iter()
        .map(|drive| drive.resource)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or(("nothing", 0.0));
    let bottleneck = if shared_utilisation > 0.9 {
        "shared ceiling".to_owned()
    } else if deepest.1 > 0.8 {
        format!("drives: {}", deepest.0)
    } else if busiest > 0.9 {
        "drives: latency (more requests in flight would help)".to_owned()
    } else {
        "computation between requests".to_owned()
    };
    ReplayReport {
        seconds: end as f64 / SECOND as f64,
        requests: trace.len() as u64,
        read_bytes: bytes(TraceOp::Read),
        write_bytes: bytes(TraceOp::Write),
        drives,
        shared_utilisation,
        bottleneck,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(drives: u32, shared: u64) -> ArrayConfig {
        let mut drive = DriveConfig {
            precondition: true,
            ..DriveConfig::default()
        };
        drive.flash.blocks = 128;
        drive.flash.pages = 32;
        drive.flash.over_provisioning = 0.2;
        ArrayConfig {
            drive,
            drives,
            shared_bytes_per_s: shared,
            placement: Placement::Striped {
                stripe_bytes: 1 << 20,
            },
        }
    }

    fn reads(count: u64, window: u64) -> Vec<TraceRequest> {
        (0..count)
            .map(|id| TraceRequest {
                id,
                drive: 0,
                op: TraceOp::Read,
                offset_bytes: id << 20,
                bytes: 1 << 20,
                after: if id < window {
                    Vec::new()
                } else {
                    vec![id - window]
                },
                think_ns: 0,
            })
            .collect()
    }

    #[test]
    fn twice_the_drives_take_half_the_time_until_the_ceiling() {
        let trace = reads(512, 64);
        let one = replay(&array(1, 0), &trace).unwrap();
        let four = replay(&array(4, 0), &trace).unwrap();
        let gain = one.seconds / four.seconds;
        assert!(gain > 3.5 && gain < 4.1, "{gain}");
        assert_eq!(four.read_bytes, 512 << 20);
        let bound = replay(&array(4, 1_000_000_000), &trace).unwrap();
        let rate = bound.read_bytes as f64 / bound.seconds;
        assert!(rate < 1.01e9 && rate > 0.95e9, "{rate}");
        assert_eq!(bound.bottleneck, "shared ceiling");
    }

    #[test]
    fn a_chain_takes_the_sum_of_its_think_times() {
        let mut trace = reads(20, 1);
        for request in &mut trace {
            request.bytes = 4096;
            request.think_ns = 1_000_000;
        }
        let report = replay(&array(2, 0), &trace).unwrap();
        assert!(
            report.seconds > 0.020 && report.seconds < 0.024,
            "{}",
            report.seconds
        );
        assert_eq!(report.bottleneck, "computation between requests");
    }

    #[test]
    fn a_circle_a_missing_and_a_double_request_are_named() {
        let mut trace = reads(3, 1);
        trace[0].after = vec![2];
        assert!(
            replay(&array(1, 0), &trace)
                .unwrap_err()
                .to_string()
                .contains("circle")
        );
        trace[0].after = vec![77];
        assert!(
            replay(&array(1, 0), &trace)
                .unwrap_err()
                .to_string()
                .contains("request 77")
        );
        trace[0].after.clear();
        trace[1].id = 0;
        assert!(
            replay(&array(1, 0), &trace)
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }

    #[test]
    fn a_wrong_line_of_a_trace_is_named() {
        let text =
            "{\"id\":1,\"op\":\"read\",\"offset\":0,\"bytes\":4096}\n{\"id\":2,\"op\":\"rad\"}\n";
        let error = read_trace(text).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert_eq!(read_trace(text.lines().next().unwrap()).unwrap().len(), 1);
    }
}
