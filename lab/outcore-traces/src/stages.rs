//! The stages of a request that a tracer reports, and the response times that a trace contains.
//!
//! Contract: a response time is known if the format states it, or if the trace has both the issue
//! (D) and the completion (C) of a request. An issue and a completion belong together if device,
//! operation and first byte are the same; a second issue replaces the first, as after a requeue.
//! Memory: a histogram of 4 KiB and at most [`IN_FLIGHT_MAX`] issues without completion; issues
//! beyond that are counted as unmatched. Percentiles are at most 12.5 % above the true ones.

use std::collections::HashMap;
use std::fmt;

use outcore_io::drive::queue::Latencies;
use outcore_io::units::seconds;
use serde::{Deserialize, Serialize};

use crate::request::{Op, Request};

/// Maximum number of issued requests whose completion is awaited.
const IN_FLIGHT_MAX: usize = 1 << 16;

/// The stage of a request that an event reports. The order is that of preference: the earliest
/// stage that a trace has counts as the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// A process submitted it.
    Queued,
    /// It was sent to the drive.
    Issued,
    /// The drive completed it.
    Completed,
}

impl Stage {
    /// The stage whose events are the requests, out of two stages that a trace has.
    pub(crate) fn earlier(found: Option<Stage>, next: Option<Stage>) -> Option<Stage> {
        match (found, next) {
            (Some(found), Some(next)) => Some(found.min(next)),
            (found, next) => found.or(next),
        }
    }

    /// A note for traces whose requests are events of this stage.
    pub(crate) const fn note(self) -> Option<&'static str> {
        match self {
            Stage::Queued => None,
            Stage::Issued => Some(
                "no event says when a request was queued (Q), so the times of requests begin when they were issued to the drive (D), after merging",
            ),
            Stage::Completed => Some(
                "no event says when a request was queued (Q) or issued (D), so the times of requests begin when they were completed (C)",
            ),
        }
    }
}

/// The part of a response time that an event or a line contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timing {
    /// Nothing.
    #[default]
    Unknown,
    /// The request was issued to the drive.
    Issued(Request),
    /// The drive completed it.
    Completed(Request),
    /// The time itself.
    Took {
        /// From issue to completion.
        response_ns: u64,
    },
}

impl Timing {
    /// The timing of an event of `stage`.
    pub(crate) fn of(stage: Stage, request: &Request) -> Timing {
        match stage {
            Stage::Queued => Timing::Unknown,
            Stage::Issued => Timing::Issued(*request),
            Stage::Completed => Timing::Completed(*request),
        }
    }

    /// The time of the event, if this is an issue or a completion.
    pub(crate) fn time_ns(&self) -> Option<u64> {
        match self {
            Timing::Issued(request) | Timing::Completed(request) => Some(request.time_ns),
            Timing::Unknown | Timing::Took { .. } => None,
        }
    }
}

/// Identifies a request between issue and completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Flight {
    device: u32,
    op: Op,
    offset_bytes: u64,
}

impl Flight {
    fn of(request: &Request) -> Self {
        Flight {
            device: request.device,
            op: request.op,
            offset_bytes: request.offset_bytes,
        }
    }
}

/// Collects response times.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Time of issue of the requests in flight.
    in_flight: HashMap<Flight, u64>,
    responses: Latencies,
    unmatched: u64,
}

impl Meter {
    /// Adds the timing of an event or a line.
    pub(crate) fn add(&mut self, timing: Timing) {
        match timing {
            Timing::Unknown => {}
            Timing::Took { response_ns } => self.responses.record(response_ns),
            Timing::Issued(request) => {
                let flight = Flight::of(&request);
                if let Some(issued_ns) = self.in_flight.get_mut(&flight) {
                    *issued_ns = request.time_ns;
                } else if self.in_flight.len() < IN_FLIGHT_MAX {
                    self.in_flight.insert(flight, request.time_ns);
                } else {
                    self.unmatched += 1;
                }
            }
            Timing::Completed(request) => {
                let issued_ns = self.in_flight.remove(&Flight::of(&request));
                match issued_ns.and_then(|issued_ns| request.time_ns.checked_sub(issued_ns)) {
                    Some(response_ns) => self.responses.record(response_ns),
                    None => self.unmatched += 1,
                }
            }
        }
    }

    /// The response times so far; `None` if none is known.
    pub(crate) fn times(&self) -> Option<ResponseTimes> {
        let responses = &self.responses;
        (responses.count() > 0).then(|| ResponseTimes {
            requests: responses.count(),
            unmatched: self.unmatched + self.in_flight.len() as u64,
            mean_ns: responses.mean_ns(),
            p50_ns: responses.percentile_ns(50.0),
            p99_ns: responses.percentile_ns(99.0),
            max_ns: responses.max_ns(),
        })
    }
}

/// Response times that a trace contains, from issue to completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// Number of requests whose response time is known.
    pub requests: u64,
    /// Issues without completion, and completions without issue.
    pub unmatched: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median; like the next percentile, it is at most 12.5 % above the true one.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl fmt::Display for ResponseTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |ns: u64| seconds(ns as f64 / 1e9);
        write!(
            f,
            "mean {}, p50 {}, p99 {}, max {} from issue to completion ({} requests, {} unmatched)",
            show(self.mean_ns),
            show(self.p50_ns),
            show(self.p99_ns),
            show(self.max_ns),
            self.requests,
            self.unmatched
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(time_ns: u64, device: u32, op: Op, offset_bytes: u64) -> Request {
        Request {
            time_ns,
            device,
            op,
            offset_bytes,
            len_bytes: 512,
        }
    }

    #[test]
    fn an_issue_and_its_completion_give_the_time_between_them() {
        let mut meter = Meter::default();
        assert_eq!(meter.times(), None);
        let issue = |time_ns, device, op, at| Timing::Issued(request(time_ns, device, op, at));
        let complete =
            |time_ns, device, op, at| Timing::Completed(request(time_ns, device, op, at));
        for timing in [
            Timing::Unknown,
            issue(10, 0, Op::Read, 0),
            // Another device, another operation and another offset are other requests.
            issue(11, 1, Op::Read, 0),
            issue(12, 0, Op::Write, 0),
            issue(13, 0, Op::Read, 512),
            complete(15, 0, Op::Read, 0),
            complete(18, 0, Op::Write, 0),
            // Not issued, or completed twice.
            complete(19, 0, Op::Trim, 0),
            complete(20, 0, Op::Read, 0),
            // A requeued request counts from its second issue.
            issue(21, 0, Op::Read, 512),
            complete(23, 0, Op::Read, 512),
            // Completed before it was issued.
            issue(30, 0, Op::Trim, 0),
            complete(29, 0, Op::Trim, 0),
            Timing::Took { response_ns: 3 },
        ] {
            meter.add(timing);
        }
        let times = meter.times().unwrap();
        // 5, 6, 2 and 3; the read of device 1 is in flight.
        assert_eq!((times.requests, times.unmatched), (4, 4));
        assert_eq!((times.mean_ns, times.p50_ns, times.max_ns), (4, 3, 6));
        let text = times.to_string();
        assert!(text.contains("4 requests, 4 unmatched"), "{text}");
    }

    #[test]
    fn issues_without_completion_fill_bounded_memory_and_monstrous_times_do_not_overflow() {
        let mut meter = Meter::default();
        for at in 0..(IN_FLIGHT_MAX as u64 + 7) {
            meter.add(Timing::Issued(request(1, 0, Op::Read, at * 512)));
        }
        assert_eq!(meter.in_flight.len(), IN_FLIGHT_MAX);
        for _ in 0..3 {
            meter.add(Timing::Took {
                response_ns: u64::MAX,
            });
        }
        let times = meter.times().unwrap();
        assert_eq!(times.unmatched, IN_FLIGHT_MAX as u64 + 7);
        assert_eq!((times.requests, times.max_ns), (3, u64::MAX));
    }
}
