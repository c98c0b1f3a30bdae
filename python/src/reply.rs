//! What the Python side gets back: values that become dictionaries.
//!
//! Contract: names and meanings are those of the command's `summary` and `plan` events. Processor
//! time is that of the whole process during the job, memory the most it ever had resident; both
//! are asked from the kernel ([`outcore_front::cost`]), nothing is sampled.

use std::ffi::OsString;
use std::time::Instant;

use outcore::sort::SortSummary;
use outcore::sort::plan::SortPlan;
use outcore_front::cost::{DriveTraffic, bandwidth_fraction, cpu_seconds, peak_rss_bytes};
use outcore_io::config::DriveSet;
use outcore_io::drive::recording::TraceSummary;
use pyo3::IntoPyObject;

/// How a sort will be done.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Plan {
    passes: u32,
    bucket_count: usize,
    segment_bytes: usize,
    read_block_bytes: usize,
    reads_in_flight: usize,
    bucket_bytes_max: usize,
    resident_bytes: usize,
    scratch_bytes: u64,
    predicted_read_bytes: u64,
    predicted_written_bytes: u64,
    predicted_seconds: f64,
    drive_count: usize,
    rates: Rates,
    text: String,
}

/// How fast a plan takes a drive and the processors to be, and who says so.
#[derive(Debug, IntoPyObject)]
struct Rates {
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    requests_per_s: f64,
    origin: String,
    computing_origin: String,
}

impl From<&SortPlan> for Plan {
    fn from(plan: &SortPlan) -> Self {
        Plan {
            passes: plan.distributions + 1,
            bucket_count: plan.bucket_count,
            segment_bytes: plan.segment_bytes,
            read_block_bytes: plan.read_block_bytes,
            reads_in_flight: plan.reads_in_flight,
            bucket_bytes_max: plan.bucket_bytes_max,
            resident_bytes: plan.resident_segments * plan.segment_bytes,
            scratch_bytes: plan.scratch_bytes,
            predicted_read_bytes: plan.predicted_read_bytes,
            predicted_written_bytes: plan.predicted_written_bytes,
            predicted_seconds: plan.predicted_seconds,
            drive_count: plan.size.drive_count,
            rates: Rates {
                read_bytes_per_s: plan.size.rates.read_bytes_per_s,
                write_bytes_per_s: plan.size.rates.write_bytes_per_s,
                requests_per_s: plan.size.rates.requests_per_s,
                origin: plan.size.rates.origin.to_string(),
                computing_origin: plan.size.costs.origin.to_string(),
            },
            text: plan.to_string(),
        }
    }
}

/// A part of a job.
#[derive(Debug, IntoPyObject)]
struct Phase {
    name: &'static str,
    seconds: f64,
    read_bytes: u64,
    written_bytes: u64,
    predicted_seconds: Option<f64>,
    predicted_read_bytes: Option<u64>,
    predicted_written_bytes: Option<u64>,
    predicted_is_bound: bool,
}

/// As the engine tells them.
fn phases(ended: &[outcore::Phase]) -> Vec<Phase> {
    let phase = |phase: &outcore::Phase| Phase {
        name: phase.name,
        seconds: phase.seconds,
        read_bytes: phase.read_bytes,
        written_bytes: phase.written_bytes,
        predicted_seconds: phase.predicted.and_then(|plan| plan.seconds),
        predicted_read_bytes: phase.predicted.and_then(|plan| plan.read_bytes.bytes()),
        predicted_written_bytes: phase.predicted.and_then(|plan| plan.written_bytes.bytes()),
        predicted_is_bound: phase.predicted.is_some_and(|plan| plan.is_bound()),
    };
    ended.iter().map(phase).collect()
}

/// What a drive did.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Drive {
    name: String,
    read_bytes: u64,
    written_bytes: u64,
}

/// As the engine tells it.
fn drives(traffic: &[DriveTraffic]) -> Vec<Drive> {
    let drive = |drive: &DriveTraffic| Drive {
        name: drive.name.clone(),
        read_bytes: drive.read_bytes,
        written_bytes: drive.written_bytes,
    };
    traffic.iter().map(drive).collect()
}

/// A trace that was recorded.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Trace {
    path: OsString,
    requests: u64,
    bytes: u64,
}

impl Trace {
    /// Of the trace at `path`.
    pub(crate) fn new(path: OsString, done: &TraceSummary) -> Self {
        Trace {
            path,
            requests: done.requests,
            bytes: done.bytes,
        }
    }
}

/// What every job says about itself.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Used {
    records: u64,
    seconds: f64,
    read_bytes: u64,
    written_bytes: u64,
    cpu_seconds: f64,
    peak_rss_bytes: Option<u64>,
    passes: u32,
    bandwidth_fraction: Option<f64>,
    drives: Vec<Drive>,
    io_trace: Option<Trace>,
}

/// A reply that names files.
pub(crate) trait NamesFiles {
    /// All of them.
    fn files(&mut self) -> impl Iterator<Item = &mut OsString>;
}

impl NamesFiles for Sorted {
    fn files(&mut self) -> impl Iterator<Item = &mut OsString> {
        let trace = self.used.io_trace.iter_mut().map(|trace| &mut trace.path);
        trace.chain([&mut self.output])
    }
}

/// What a sort did.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Sorted {
    used: Used,
    output: OsString,
    data_bytes: u64,
    scratch_bytes: u64,
    phases: Vec<Phase>,
    plan: Plan,
}

impl Sorted {
    /// From what the engine did, the plan it followed and what it cost.
    pub(crate) fn new(done: &SortSummary, plan: &SortPlan, output: OsString, used: Used) -> Self {
        Sorted {
            used,
            output,
            data_bytes: plan.size.data_bytes,
            scratch_bytes: done.scratch_bytes,
            phases: phases(&done.phases),
            plan: plan.into(),
        }
    }
}

/// The clocks at the start of a job.
#[derive(Debug)]
pub(crate) struct Cost {
    started: Instant,
    cpu_before_seconds: f64,
}

impl Cost {
    /// Starts counting.
    pub(crate) fn start() -> Self {
        Cost {
            started: Instant::now(),
            cpu_before_seconds: cpu_seconds(),
        }
    }

    /// What a job has used that served `traffic`, whose drives are those of `set`.
    pub(crate) fn used<'a>(
        &self,
        (records, passes): (u64, u32),
        traffic: impl IntoIterator<Item = &'a (String, u64, u64)>,
        set: &DriveSet,
        io_trace: Option<Trace>,
    ) -> Used {
        let traffic: Vec<DriveTraffic> = traffic.into_iter().map(DriveTraffic::of).collect();
        let seconds = self.started.elapsed().as_secs_f64();
        Used {
            records,
            seconds,
            read_bytes: traffic.iter().map(|drive| drive.read_bytes).sum(),
            written_bytes: traffic.iter().map(|drive| drive.written_bytes).sum(),
            cpu_seconds: cpu_seconds() - self.cpu_before_seconds,
            peak_rss_bytes: peak_rss_bytes(),
            passes,
            bandwidth_fraction: bandwidth_fraction(&traffic, seconds, set),
            drives: drives(&traffic),
            io_trace,
        }
    }
}
