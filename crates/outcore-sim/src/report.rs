//! Results: latency by flow, totals, and the summary that is printed or written as JSON.
//!
//! Contract: sums are exact integers of picoseconds; percentiles come from an HDR histogram of
//! nanoseconds with three significant digits. A run in which nothing was completed has zeros, never
//! infinities.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::drive::stats::{DriveStats, Wear};
use crate::drive::{Done, Drive, Op};
use crate::units::{NS, Ps, SECOND};

/// What one flow experienced.
#[derive(Debug, Clone)]
pub struct FlowStats {
    /// Name of the flow.
    pub name: String,
    /// Requests generated.
    pub generated: u64,
    /// Requests completed.
    pub serviced: u64,
    /// Reads among them.
    pub reads: u64,
    /// Bytes read and written.
    pub bytes: u64,
    response_ps: u128,
    end_to_end_ps: u128,
    histogram: Histogram<u64>,
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
            response_ps: 0,
            end_to_end_ps: 0,
            histogram: histogram(),
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub(crate) fn record(&mut self, done: &Done) {
        let response = done.completed - done.enqueued;
        self.serviced += 1;
        self.reads += u64::from(done.op == Op::Read);
        // A trim moves no data.
        if done.op != Op::Trim {
            self.bytes += u64::from(done.sectors) * 512;
        }
        self.response_ps += u128::from(response);
        self.end_to_end_ps += u128::from(done.completed - done.arrival);
        self.histogram.saturating_record((response / NS).max(1));
        for word in [done.completed, done.lba, u64::from(done.sectors)] {
            self.digest = (self.digest ^ word)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23);
        }
    }

    /// Mean response in nanoseconds; 0 when nothing was completed.
    pub fn mean_response_ns(&self) -> f64 {
        self.response_ps as f64 / self.serviced.max(1) as f64 / NS as f64
    }

    pub(crate) fn absorb(&mut self, other: &FlowStats) {
        self.generated += other.generated;
        self.serviced += other.serviced;
        self.reads += other.reads;
        self.bytes += other.bytes;
        self.response_ps += other.response_ps;
        self.end_to_end_ps += other.end_to_end_ps;
        // Equal bounds: the addition cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.digest = self.digest.rotate_left(7) ^ other.digest;
    }

    /// Latency below which `share` (0 to 1) of the requests stay, in nanoseconds.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        if self.serviced == 0 {
            0
        } else {
            self.histogram.value_at_quantile(share)
        }
    }

    fn summary(&self, end_ps: Ps) -> FlowSummary {
        let mean = |sum: u128| {
            if self.serviced == 0 {
                0.0
            } else {
                sum as f64 / self.serviced as f64 / NS as f64
            }
        };
        let seconds = end_ps as f64 / SECOND as f64;
        let rate = |count: u64| {
            if end_ps == 0 {
                0.0
            } else {
                count as f64 / seconds
            }
        };
        FlowSummary {
            name: self.name.clone(),
            requests: self.serviced,
            generated: self.generated,
            iops: rate(self.serviced),
            bytes_per_s: rate(self.bytes),
            mean_response_ns: mean(self.response_ps),
            mean_end_to_end_ns: mean(self.end_to_end_ps),
            p50_response_ns: self.percentile_ns(0.50),
            p95_response_ns: self.percentile_ns(0.95),
            p99_response_ns: self.percentile_ns(0.99),
            p999_response_ns: self.percentile_ns(0.999),
            p9999_response_ns: self.percentile_ns(0.9999),
            max_response_ns: if self.serviced == 0 {
                0
            } else {
                self.histogram.max()
            },
            sim_end_ns: end_ps / NS,
        }
    }
}

/// The figures of one flow, or of all together.
#[derive(Debug, Clone, Serialize)]
pub struct FlowSummary {
    /// Name of the flow; `total` for all.
    pub name: String,
    /// Requests completed.
    pub requests: u64,
    /// Requests generated.
    pub generated: u64,
    /// Completed requests a second of simulated time.
    pub iops: f64,
    /// Bytes a second of simulated time.
    pub bytes_per_s: f64,
    /// From the submission queue to the completion, mean.
    pub mean_response_ns: f64,
    /// From the wish to the completion, mean.
    pub mean_end_to_end_ns: f64,
    /// Percentiles of the response time.
    pub p50_response_ns: u64,
    /// 95 %.
    pub p95_response_ns: u64,
    /// 99 %.
    pub p99_response_ns: u64,
    /// 99.9 %.
    pub p999_response_ns: u64,
    /// 99.99 %.
    pub p9999_response_ns: u64,
    /// Longest.
    pub max_response_ns: u64,
    /// Time of the last event.
    pub sim_end_ns: u64,
}

/// Where the time went, means in nanoseconds: the link a request, the rest a flash operation of the
/// host.
#[derive(Debug, Clone, Serialize)]
pub struct Breakdown {
    /// Using the link, both directions together, a request.
    pub link_ns: f64,
    /// Queued for the die.
    pub wait_die_ns: f64,
    /// Waiting for the bus, or suspended, once the die had begun.
    pub wait_bus_ns: f64,
    /// Using the bus.
    pub bus_ns: f64,
    /// In the flash array.
    pub array_ns: f64,
    /// From the beginning of the command to its end: the last three together.
    pub flash_ns: f64,
    /// Share of the dies' time that went to garbage collection and wear levelling.
    pub collection_share: f64,
    /// Share of time by resource.
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

/// Everything that a run of one drive tells.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The drive.
    pub drive: String,
    /// By flow.
    pub flows: Vec<FlowSummary>,
    /// All flows together.
    pub total: FlowSummary,
    /// Requests that MQSim would have dropped (compat only).
    pub lost_requests: u64,
    /// Counters.
    pub counters: DriveStats,
    /// Slots programmed for every unit that the host wrote.
    pub write_amplification: f64,
    /// Energy of the run.
    pub energy_joules: f64,
    /// Erases of the blocks.
    pub wear: Wear,
    /// Time.
    pub breakdown: Breakdown,
    /// Digest of all completions: equal runs have equal digests on every machine.
    pub digest: String,
    /// What the user should know about the run.
    pub warnings: Vec<String>,
}

impl Summary {
    /// The figures as they stand; the run adds what was lost and its warnings.
    pub(crate) fn new<'a>(
        name: &str,
        end_ps: Ps,
        flows: impl Iterator<Item = &'a FlowStats>,
        drive: &Drive,
    ) -> Self {
        let mut total = FlowStats::new("total");
        let mut summaries = Vec::new();
        for flow in flows {
            summaries.push(flow.summary(end_ps));
            total.absorb(flow);
        }
        let counters = drive.stats();
        Summary {
            drive: name.to_owned(),
            flows: summaries,
            total: total.summary(end_ps),
            lost_requests: 0,
            write_amplification: counters.write_amplification(),
            energy_joules: counters.energy_joules(end_ps),
            wear: drive.wear(),
            breakdown: Breakdown::of(drive, end_ps),
            counters: counters.clone(),
            digest: format!("{:016x}", total.digest),
            warnings: Vec::new(),
        }
    }
}
