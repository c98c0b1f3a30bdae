//! What the Python side gets back: values that become dictionaries.
//!
//! Contract: names and meanings are those of the command's `summary` and `plan` events. Processor
//! time is that of the whole process during the job, memory the most it ever had resident; both
//! are asked from the kernel, nothing is sampled.

use std::ffi::OsString;
use std::time::Instant;

use outcore::algo::plan::SortPlan;
use outcore::algo::sort::SortSummary;
use pyo3::IntoPyObject;
use rustix::time::{ClockId, clock_gettime};

/// How a sort will be done.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Plan {
    passes: u32,
    bucket_count: usize,
    segment_bytes: usize,
    read_block_bytes: usize,
    leaf_bytes_max: usize,
    resident_bytes: usize,
    scratch_bytes: u64,
    predicted_read_bytes: u64,
    predicted_written_bytes: u64,
    predicted_seconds: f64,
    drive_count: usize,
    text: String,
}

impl From<&SortPlan> for Plan {
    fn from(plan: &SortPlan) -> Self {
        Plan {
            passes: plan.levels + 1,
            bucket_count: plan.bucket_count,
            segment_bytes: plan.segment_bytes,
            read_block_bytes: plan.read_block_bytes,
            leaf_bytes_max: plan.leaf_bytes_max,
            resident_bytes: plan.resident_segments * plan.segment_bytes,
            scratch_bytes: plan.scratch_bytes,
            predicted_read_bytes: plan.predicted_read_bytes,
            predicted_written_bytes: plan.predicted_written_bytes,
            predicted_seconds: plan.predicted_seconds,
            drive_count: plan.size.drive_count,
            text: plan.to_string(),
        }
    }
}

/// A part of a job.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Phase {
    name: &'static str,
    seconds: f64,
}

/// What a drive did.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Drive {
    name: String,
    read_bytes: u64,
    written_bytes: u64,
}

/// From the engine's (name, bytes read, bytes written).
pub(crate) fn drives<'a>(traffic: impl IntoIterator<Item = &'a (String, u64, u64)>) -> Vec<Drive> {
    let drive = |(name, read_bytes, written_bytes): &(String, u64, u64)| Drive {
        name: name.clone(),
        read_bytes: *read_bytes,
        written_bytes: *written_bytes,
    };
    traffic.into_iter().map(drive).collect()
}

/// What a sort did.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Sorted {
    records: u64,
    seconds: f64,
    read_bytes: u64,
    written_bytes: u64,
    cpu_seconds: f64,
    peak_rss_bytes: Option<u64>,
    passes: u32,
    bandwidth_fraction: Option<f64>,
    output: OsString,
    data_bytes: u64,
    scratch_bytes: u64,
    phases: Vec<Phase>,
    drives: Vec<Drive>,
    plan: Plan,
}

impl Sorted {
    /// From what the engine did, the plan it followed and what it cost.
    pub(crate) fn new(done: &SortSummary, plan: &SortPlan, output: OsString, cost: &Cost) -> Self {
        let phases = done.phases.iter().map(|phase| Phase {
            name: phase.name,
            seconds: phase.seconds,
        });
        Sorted {
            records: done.records,
            seconds: cost.seconds(),
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            cpu_seconds: cost.cpu_seconds(),
            peak_rss_bytes: peak_rss_bytes(),
            passes: done.passes,
            bandwidth_fraction: None,
            output,
            data_bytes: plan.size.data_bytes,
            scratch_bytes: done.scratch_bytes,
            phases: phases.collect(),
            drives: drives(&done.drives),
            plan: plan.into(),
        }
    }
}

/// What was generated.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Generated {
    pub(crate) records: u64,
    pub(crate) seconds: f64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_rss_bytes: Option<u64>,
    pub(crate) passes: u32,
    pub(crate) bandwidth_fraction: Option<f64>,
    pub(crate) output: OsString,
    pub(crate) drives: Vec<Drive>,
}

/// What a look at all records found.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Verified {
    pub(crate) records: u64,
    pub(crate) seconds: f64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_rss_bytes: Option<u64>,
    pub(crate) passes: u32,
    pub(crate) bandwidth_fraction: Option<f64>,
    pub(crate) ordered: bool,
    pub(crate) unordered: u64,
    pub(crate) first_unordered: Option<u64>,
    pub(crate) duplicate_keys: u64,
    pub(crate) checksum: String,
    pub(crate) drives: Vec<Drive>,
    pub(crate) same_records: Option<bool>,
    pub(crate) against_records: Option<u64>,
    pub(crate) against_checksum: Option<String>,
    pub(crate) ok: bool,
    pub(crate) text: String,
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
            cpu_before_seconds: process_cpu_seconds(),
        }
    }

    /// Wall time since then.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// User and system time of the process since then.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        process_cpu_seconds() - self.cpu_before_seconds
    }
}

fn process_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The most memory that this process ever had resident; nothing where the kernel does not say.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
