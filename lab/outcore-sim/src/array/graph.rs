//! A trace as a graph of requests in JSON Lines, replayed in closed loop.
//!
//! Model: a request starts when all requests that it waits for are finished and its think time has
//! passed. Faster drives therefore shorten the job and slower ones lengthen it.
//!
//! Invariants: a request starts after everything that it waits for. At the end every request of the
//! trace is finished, or the run returns an error that names a request that could not start.
//!
//! Bounds: the trace in memory, about 100 bytes per request.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Array, ArrayConfig, ArrayRequest, Between, Finished, OPERATION, ReplayReport};
use crate::drive::Op;
use crate::fit::Fit;
use crate::quantities::{NS, Ps};

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
    /// Read or write.
    pub op: TraceOp,
    /// First byte on that drive.
    #[serde(rename = "offset")]
    pub offset_bytes: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requests that must finish first.
    #[serde(default)]
    pub after: Vec<u64>,
    /// Computation between the end of the last of these and this request, in nanoseconds.
    #[serde(default)]
    pub think_ns: u64,
}

/// Reads a trace in JSON Lines. An error names the line.
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
        if super::layout::end_bytes(request.offset_bytes, request.bytes).is_none() {
            return Err(Error::usage(
                "read trace",
                format!(
                    "line {}: request {} ({} bytes at {}) ends beyond 2^64 bytes, where no drive reaches",
                    number + 1,
                    request.id,
                    request.bytes,
                    request.offset_bytes
                ),
            ));
        }
        requests.push(request);
    }
    Ok(requests)
}

struct Node {
    waits_for: u32,
    ready_at: Ps,
    followers: Vec<u32>,
}

/// A request that waits for nothing but its time. Of requests with equal times, the one with the
/// least index comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    at: Ps,
    /// Its index in the trace.
    index: u32,
}

/// Replays a trace on an array.
///
/// # Errors
/// A duplicate request, a request that waits for an unknown one or (in a circle) for itself, a
/// request that does not fit, or an array that cannot be built.
pub fn replay(config: &ArrayConfig, trace: &[TraceRequest]) -> Result<ReplayReport> {
    let mut nodes = graph(trace)?;
    let mut array = Array::new(config)?;
    if config.fit == Fit::Scale {
        let ends = trace
            .iter()
            .map(|item| item.offset_bytes.saturating_add(item.bytes));
        let devices: HashSet<u32> = trace.iter().map(|item| item.drive).collect();
        array.scale(ends.max().unwrap_or(0), devices.len() as u64);
    }
    let mut ready: BinaryHeap<Reverse<Ready>> = BinaryHeap::new();
    for (at, node) in nodes.iter().enumerate() {
        if node.waits_for == 0 {
            ready.push(Reverse(Ready {
                at: trace[at].think_ns.saturating_mul(NS),
                index: at as u32,
            }));
        }
    }
    let mut count = 0usize;
    let mut finished: Vec<Finished> = Vec::new();
    loop {
        let due = ready.peek().map(|Reverse(first)| first.at);
        let next = array.next_at();
        if let Some(at) = due
            && next.is_none_or(|next| at <= next)
        {
            if let Some(Reverse(Ready { at, index })) = ready.pop() {
                let item = &trace[index as usize];
                array.submit(at, &request(item), u64::from(index))?;
            }
            continue;
        }
        if next.is_none() || (due.is_none() && array.is_idle()) {
            break;
        }
        array.run_until(due.unwrap_or(Ps::MAX), &mut finished)?;
        for done in finished.drain(..) {
            count += 1;
            release(done, trace, &mut nodes, &mut ready);
        }
    }
    if count != trace.len() {
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
    let end = array.now();
    let between = match trace.iter().any(|request| request.think_ns > 0) {
        true => Between::Computation,
        false => Between::Order,
    };
    array.report(end, between, Vec::new())
}

fn request(request: &TraceRequest) -> ArrayRequest {
    ArrayRequest {
        number: request.id,
        drive: request.drive,
        file: request.drive,
        op: match request.op {
            TraceOp::Read => Op::Read,
            TraceOp::Write => Op::Write,
        },
        offset_bytes: request.offset_bytes,
        bytes: request.bytes,
    }
}

/// A request is finished: requests that waited only for it are ready after their think time.
fn release(
    done: Finished,
    trace: &[TraceRequest],
    nodes: &mut [Node],
    ready: &mut BinaryHeap<Reverse<Ready>>,
) {
    for follower in std::mem::take(&mut nodes[done.tag as usize].followers) {
        let next = &mut nodes[follower as usize];
        next.waits_for -= 1;
        next.ready_at = next.ready_at.max(done.at);
        if next.waits_for == 0 {
            let think = trace[follower as usize].think_ns.saturating_mul(NS);
            ready.push(Reverse(Ready {
                at: next.ready_at.saturating_add(think),
                index: follower,
            }));
        }
    }
}

fn graph(trace: &[TraceRequest]) -> Result<Vec<Node>> {
    let mut index_of = HashMap::with_capacity(trace.len());
    for (at, request) in trace.iter().enumerate() {
        if index_of.insert(request.id, at as u32).is_some() {
            return Err(Error::usage(
                OPERATION,
                format!("request {} occurs twice", request.id),
            ));
        }
    }
    let mut nodes: Vec<Node> = trace
        .iter()
        .map(|request| Node {
            waits_for: request.after.len() as u32,
            ready_at: 0,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DriveConfig;

    fn array(drives: u32, shared: u64) -> ArrayConfig {
        let mut drive = DriveConfig::default();
        drive.flash.blocks = 128;
        drive.flash.pages = 32;
        drive.flash.over_provisioning = 0.2;
        ArrayConfig {
            shared_bytes_per_s: shared,
            fill: 0.7,
            ..ArrayConfig::new(drive, drives)
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
    fn a_request_for_which_there_is_no_room_is_named_unless_it_is_fitted() {
        let mut trace = reads(40, 1);
        for (at, request) in trace.iter_mut().enumerate() {
            request.id += 100;
            request.after.clear();
            request.op = TraceOp::Write;
            request.offset_bytes = (at as u64) << 34;
            request.bytes = 8 << 20;
        }
        let mut small = array(1, 0);
        small.drive.flash.channels = 1;
        // 51 of 64 MiB are usable: six requests of 8 MiB fit, the seventh does not.
        (small.drive.flash.chips, small.drive.flash.dies) = (1, 1);
        let error = replay(&small, &trace).unwrap_err();
        let (text, hint) = (error.to_string(), error.next_step().unwrap_or_default());
        assert!(text.contains("request 106 (write of 8.00 MiB"), "{text}");
        assert!(
            hint.contains("--drive-size") && hint.contains("--fit wrap"),
            "{hint}"
        );
        small.fit = Fit::Wrap;
        let wrapped = replay(&small, &trace).unwrap();
        assert_eq!(wrapped.write_bytes, 40 * (8 << 20));
        let said = &wrapped.warnings[0];
        assert!(said.contains("were wrapped"), "{said}");
        small.fit = Fit::Scale;
        let scaled = replay(&small, &trace).unwrap();
        assert_eq!(scaled.write_bytes, wrapped.write_bytes);
        assert_eq!(scaled.warnings.len(), 1, "{:?}", scaled.warnings);
        assert!(scaled.warnings[0].contains("40 requests were scaled"));
        trace.truncate(6);
        small.fit = Fit::Refuse;
        assert!(replay(&small, &trace).unwrap().warnings.is_empty());
    }

    #[test]
    fn a_request_that_ends_beyond_64_bits_is_refused_by_line_and_number() {
        for (offset, bytes) in [
            (u64::MAX, 1),
            (u64::MAX - 4095, 4096),
            (u64::MAX - 600, 512),
        ] {
            let line =
                format!("{{\"id\":7,\"op\":\"read\",\"offset\":{offset},\"bytes\":{bytes}}}\n");
            let error = read_trace(&line).unwrap_err().to_string();
            assert!(error.contains("line 1: request 7"), "{error}");
            assert!(error.contains("beyond 2^64 bytes"), "{error}");
        }
        // A request that ends just before 2^64 bytes is accepted, and takes time.
        let line = format!(
            "{{\"id\":7,\"op\":\"read\",\"offset\":{},\"bytes\":512}}",
            u64::MAX - 1023
        );
        let trace = read_trace(&line).unwrap();
        assert!(replay(&array(1, 0), &trace).unwrap().seconds > 0.0);
        // The same limit applies to a request that was not read from a file.
        let mut request = trace[0].clone();
        request.offset_bytes = u64::MAX - 100;
        let error = replay(&array(1, 0), &[request]).unwrap_err().to_string();
        assert!(error.contains("request 7 (read of 512 B at"), "{error}");
    }

    #[test]
    fn requests_that_wait_for_one_another_without_computing_are_said_to() {
        let mut trace = reads(64, 1);
        trace.iter_mut().for_each(|request| request.bytes = 4096);
        let report = replay(&array(4, 0), &trace).unwrap();
        assert!(
            !report.bottleneck.contains("computation"),
            "{}",
            report.bottleneck
        );
        for drive in &report.drives {
            assert!(drive.resource.1 <= 1.0, "{:?}", drive.resource);
        }
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
