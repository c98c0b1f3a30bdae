//! Results: latency by flow, totals, and the summary that is printed or written as JSON.
//!
//! Contract: sums and the longest response are exact. Percentiles come from an HDR histogram of
//! nanoseconds with three significant digits, and never exceed the longest response. Rates count
//! completed requests over the time until the last completion, so the drive's own work afterwards,
//! such as writing its cache to flash, does not reduce them. With `compat = "mqsim"` rates count
//! over the whole simulated time, as in MQSim. A run without completions has zeros, never
//! infinities.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::drive::spaces::Moves;
use crate::drive::stats::{DriveStats, Wear};
use crate::drive::{Done, Drive, Op, Status};
use crate::quantities::{NS, Ps, SECOND};

/// Results of one flow.
#[derive(Debug, Clone)]
pub(crate) struct FlowStats {
    /// Name of the flow.
    pub name: String,
    /// Requests generated.
    pub generated: u64,
    /// Requests completed.
    pub serviced: u64,
    /// Completed reads.
    pub reads: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Completed requests that failed, in the order of [`Status::ERRORS`].
    pub failed: [u64; Status::ERRORS.len()],
    response_ps: u128,
    end_to_end_ps: u128,
    histogram: Histogram<u64>,
    longest_ps: Ps,
    /// Time of the last completion.
    last_ps: Ps,
    /// Order-sensitive digest of all completions.
    pub digest: u64,
}

fn histogram() -> Histogram<u64> {
    // Three digits up to 2^62 ns are always representable; the fallback cannot be reached.
    Histogram::new_with_bounds(1, 1 << 62, 3)
        .unwrap_or_else(|_| Histogram::new(1).unwrap_or_else(|_| unreachable_histogram()))
}

fn unreachable_histogram() -> Histogram<u64> {
    unreachable!("a histogram of one digit always exists")
}

impl FlowStats {
    pub(crate) fn new(name: &str) -> Self {
        FlowStats {
            name: name.to_owned(),
            generated: 0,
            serviced: 0,
            reads: 0,
            bytes: 0,
            failed: [0; Status::ERRORS.len()],
            response_ps: 0,
            end_to_end_ps: 0,
            histogram: histogram(),
            longest_ps: 0,
            last_ps: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub(crate) fn record(&mut self, done: &Done) {
        let response = done.completed - done.enqueued;
        self.serviced += 1;
        self.reads += u64::from(done.op == Op::Read);
        if done.status == Status::Success {
            // A trim moves no data.
            if done.op != Op::Trim {
                self.bytes += u64::from(done.sectors) * 512;
            }
        } else {
            let mut errors = Status::ERRORS.iter();
            let at = errors.position(|(status, _)| *status == done.status);
            self.failed[at.unwrap_or_default()] += 1;
        }
        self.response_ps += u128::from(response);
        self.end_to_end_ps += u128::from(done.completed - done.arrival);
        self.histogram.saturating_record((response / NS).max(1));
        self.longest_ps = self.longest_ps.max(response);
        self.last_ps = self.last_ps.max(done.completed);
        for word in [done.completed, done.lba, u64::from(done.sectors)] {
            self.digest = (self.digest ^ word)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23);
        }
    }

    /// Mean response in nanoseconds; 0 when nothing was completed.
    pub(crate) fn mean_response_ns(&self) -> f64 {
        self.response_ps as f64 / self.serviced.max(1) as f64 / NS as f64
    }

    pub(crate) fn absorb(&mut self, other: &FlowStats) {
        self.generated += other.generated;
        self.serviced += other.serviced;
        self.reads += other.reads;
        self.bytes += other.bytes;
        for (sum, other) in self.failed.iter_mut().zip(other.failed) {
            *sum += other;
        }
        self.response_ps += other.response_ps;
        self.end_to_end_ps += other.end_to_end_ps;
        // Equal bounds: the addition cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.longest_ps = self.longest_ps.max(other.longest_ps);
        self.last_ps = self.last_ps.max(other.last_ps);
        self.digest = self.digest.rotate_left(7) ^ other.digest;
    }

    /// Latency in nanoseconds that `share` (0 to 1) of the requests do not exceed.
    pub(crate) fn percentile_ns(&self, share: f64) -> u64 {
        if self.serviced == 0 {
            0
        } else {
            // The upper bound of a bucket may exceed every value in it.
            let bucket = self.histogram.value_at_quantile(share);
            bucket.min((self.longest_ps / NS).max(1))
        }
    }

    /// The longest response in nanoseconds, exact to the nanosecond; 0 when nothing was completed.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.longest_ps / NS
    }

    /// Time of the last completion; 0 when nothing was completed.
    pub(crate) fn last_ps(&self) -> Ps {
        self.last_ps
    }

    fn summary(&self, times: Times) -> FlowSummary {
        let mean = |sum: u128| {
            if self.serviced == 0 {
                0.0
            } else {
                sum as f64 / self.serviced as f64 / NS as f64
            }
        };
        let rate = |count: u64| {
            if times.rates_ps == 0 {
                0.0
            } else {
                count as f64 / (times.rates_ps as f64 / SECOND as f64)
            }
        };
        FlowSummary {
            name: self.name.clone(),
            requests: self.serviced,
            generated: self.generated,
            failed: self.failed.iter().sum(),
            iops: rate(self.serviced),
            bytes_per_s: rate(self.bytes),
            mean_response_ns: mean(self.response_ps),
            mean_end_to_end_ns: mean(self.end_to_end_ps),
            p50_response_ns: self.percentile_ns(0.50),
            p95_response_ns: self.percentile_ns(0.95),
            p99_response_ns: self.percentile_ns(0.99),
            p999_response_ns: self.percentile_ns(0.999),
            p9999_response_ns: self.percentile_ns(0.9999),
            max_response_ns: self.longest_ns(),
            rates_over_ns: times.rates_ps / NS,
            sim_end_ns: times.end_ps / NS,
        }
    }
}

/// The times of a summary, from the start of counting.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Until the last request of any flow was completed.
    rates_ps: Ps,
    /// Until the last event.
    end_ps: Ps,
}

/// The figures of one flow, or of all flows together.
#[derive(Debug, Clone, Serialize)]
pub struct FlowSummary {
    /// Name of the flow; `total` for all.
    pub name: String,
    /// Requests completed.
    pub requests: u64,
    /// Requests generated.
    pub generated: u64,
    /// Completed requests that failed (zoned namespaces only).
    pub failed: u64,
    /// Completed requests per second, over `rates_over_ns`.
    pub iops: f64,
    /// Bytes of completed requests per second, over `rates_over_ns`.
    pub bytes_per_s: f64,
    /// Mean time from the submission queue to the completion.
    pub mean_response_ns: f64,
    /// Mean time from the host's issue to the completion.
    pub mean_end_to_end_ns: f64,
    /// 50th percentile of the response time.
    pub p50_response_ns: u64,
    /// 95th percentile.
    pub p95_response_ns: u64,
    /// 99th percentile.
    pub p99_response_ns: u64,
    /// 99.9th percentile.
    pub p999_response_ns: u64,
    /// 99.99th percentile.
    pub p9999_response_ns: u64,
    /// Longest response, exact.
    pub max_response_ns: u64,
    /// The time over which rates are computed: from the start, or the end of the warm-up, until the
    /// last request of any flow was completed (`compat = "mqsim"`: until the last event).
    pub rates_over_ns: u64,
    /// Time of the last event, such as the last write of the drive's cache to flash; after a
    /// warm-up, the time of the last completion.
    pub sim_end_ns: u64,
}

/// Mean times in nanoseconds: link time per request, all other times per flash operation of the
/// host.
#[derive(Debug, Clone, Serialize)]
pub struct Breakdown {
    /// Link use per request, both directions together.
    pub link_ns: f64,
    /// Queued for the die.
    pub wait_die_ns: f64,
    /// Waiting for the bus, or suspended, after the die had begun.
    pub wait_bus_ns: f64,
    /// Using the bus.
    pub bus_ns: f64,
    /// In the flash array.
    pub array_ns: f64,
    /// From the beginning of the command to its end: the sum of the last three.
    pub flash_ns: f64,
    /// Share of the dies' time that garbage collection and wear levelling used.
    pub collection_share: f64,
    /// Share of time for which each resource was used.
    pub utilisation: Vec<(&'static str, f64)>,
}

impl Breakdown {
    fn of(drive: &Drive, end_ps: Ps) -> Self {
        let counters = drive.stats();
        let an_operation = |ps: Ps| ps as f64 / NS as f64 / counters.flash_operations.max(1) as f64;
        let link_ps = counters.link_to_host_ps + counters.link_to_drive_ps;
        let used_ps = counters.user_bus_ps + counters.user_array_ps;
        Breakdown {
            link_ns: link_ps as f64 / NS as f64 / counters.completed.max(1) as f64,
            wait_die_ns: an_operation(counters.wait_die_ps),
            wait_bus_ns: an_operation(counters.service_ps.saturating_sub(used_ps)),
            bus_ns: an_operation(counters.user_bus_ps),
            array_ns: an_operation(counters.user_array_ps),
            flash_ns: an_operation(counters.service_ps),
            collection_share: counters.collection_share(end_ps),
            utilisation: drive.utilisation(end_ps),
        }
    }
}

/// What was written to a namespace, or with a placement handle.
#[derive(Debug, Clone, Serialize)]
pub struct PartSummary {
    /// Its number, or `collected` for data that collection has taken from all handles.
    pub name: String,
    /// Mapping units that the host wrote.
    pub host_units: u64,
    /// Mapping units that collection, folding and wear levelling moved.
    pub moved_units: u64,
    /// Units written to flash per unit of the host, without slots that stay empty.
    pub write_amplification: f64,
}

impl PartSummary {
    /// One per part; those from `numbers` on hold collected data.
    fn all(parts: &[Moves], numbers: usize) -> Vec<Self> {
        let parts = parts.iter().enumerate();
        parts
            .map(|(at, moves)| PartSummary {
                name: match at < numbers {
                    true => at.to_string(),
                    false => "collected".to_owned(),
                },
                host_units: moves.host_units,
                moved_units: moves.moved_units,
                write_amplification: moves.write_amplification(),
            })
            .collect()
    }
}

/// All results of a run of one drive.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Name of the drive.
    pub drive: String,
    /// Results of each flow.
    pub flows: Vec<FlowSummary>,
    /// All flows together.
    pub total: FlowSummary,
    /// Requests that MQSim would have dropped (compat only).
    pub lost_requests: u64,
    /// Counters.
    pub counters: DriveStats,
    /// Slots programmed per unit that the host wrote.
    pub write_amplification: f64,
    /// By namespace, if the drive has namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<PartSummary>,
    /// By placement handle, if the drive has handles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<PartSummary>,
    /// Energy of the run.
    pub energy_joules: f64,
    /// Erases of the blocks.
    pub wear: Wear,
    /// Where the time went.
    pub breakdown: Breakdown,
    /// Digest of all completions. Equal runs have equal digests on every machine.
    pub digest: String,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Summary {
    /// The current figures, counted since `from`. The run adds lost requests and its warnings.
    pub(crate) fn new<'a>(
        name: &str,
        from: Ps,
        flows: impl Iterator<Item = &'a FlowStats> + Clone,
        drive: &Drive,
    ) -> Self {
        let mut total = FlowStats::new("total");
        flows.clone().for_each(|flow| total.absorb(flow));
        let end_ps = drive.now() - from;
        let rates_ps = match drive.p.compat {
            true => end_ps,
            false => total.last_ps().saturating_sub(from),
        };
        let times = Times { rates_ps, end_ps };
        let summaries = flows.map(|flow| flow.summary(times)).collect();
        let counters = drive.stats();
        let parts = &counters.parts;
        Summary {
            drive: name.to_owned(),
            flows: summaries,
            total: total.summary(times),
            lost_requests: 0,
            write_amplification: counters.write_amplification(),
            namespaces: PartSummary::all(&parts.namespaces, usize::MAX),
            handles: PartSummary::all(&parts.handles, drive.handles()),
            energy_joules: counters.energy_joules(end_ps),
            wear: drive.wear(),
            breakdown: Breakdown::of(drive, end_ps),
            counters: counters.clone(),
            digest: format!("{:016x}", total.digest),
            warnings: Vec::new(),
        }
    }
}
