//! Results of a run of the GPU.
//!
//! Contract: plain figures; a flow without requests has zeros, never infinities. The device
//! response is the drive's (submission queue to completion). The wait is the time that a block
//! sees.

use serde::Serialize;

use crate::quantities::{NS, Ps, SECOND};
use crate::report::FlowStats;

/// Results of one workload, or of all together.
#[derive(Debug, Clone, Serialize)]
pub struct FlowReport {
    /// Name.
    pub name: String,
    /// Kernels run.
    pub kernels: u64,
    /// Blocks run.
    pub blocks: u64,
    /// Requests that the drive completed.
    pub requests: u64,
    /// Reads that the GPU's memory served.
    pub memory_hits: u64,
    /// Requests per second until the flow's end.
    pub iops: f64,
    /// Device response (submission queue to completion), mean.
    pub mean_response_us: f64,
    /// Device response, 99th percentile.
    pub p99_response_us: f64,
    /// Mean time from a block's request to its data: the device, and the path before and after it.
    pub mean_wait_us: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// End time of its last block and its last request, in seconds.
    pub end_seconds: f64,
}

/// Results of a run.
#[derive(Debug, Clone, Serialize)]
pub struct GpuReport {
    /// All workloads together.
    pub total: FlowReport,
    /// Each workload.
    pub workloads: Vec<FlowReport>,
    /// The additional requests of the host.
    pub host: Option<FlowReport>,
    /// Mean number of blocks on the GPU.
    pub blocks_mean: f64,
    /// Share of the blocks' time in which they computed rather than waited for the drive.
    pub compute_share: f64,
    /// Units programmed per unit written.
    pub write_amplification: f64,
    /// Reads caused by partial writes.
    pub merge_reads: u64,
    /// Digest of all completions.
    pub digest: String,
    /// The kernels of each workload, in order.
    #[serde(skip)]
    pub kernel_runs: Vec<Vec<KernelRun>>,
}

/// What a kernel did.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelRun {
    /// Time at which this kernel and all kernels before it had ended, with their requests.
    pub end: Ps,
    /// Requests that the drive completed.
    pub requests: u64,
    /// Device response of all of them together.
    pub response_ps: u128,
}

/// The work of a flow, except for the times of its requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FlowCounts {
    /// Time that requests waited before they were sent.
    pub(super) wait_ps: u128,
    pub(super) write_bytes: u64,
    pub(super) kernels: u64,
    pub(super) blocks: u64,
    pub(super) hits: u64,
}

/// The figures of a flow that ended at `end`.
pub(super) fn flow_report(stats: &FlowStats, counts: FlowCounts, end: Ps) -> FlowReport {
    let FlowCounts {
        wait_ps,
        write_bytes,
        kernels,
        blocks,
        hits,
    } = counts;
    let seconds = end as f64 / SECOND as f64;
    let requests = stats.serviced;
    FlowReport {
        name: stats.name.clone(),
        kernels,
        blocks,
        requests,
        memory_hits: hits,
        iops: if end == 0 {
            0.0
        } else {
            requests as f64 / seconds
        },
        mean_response_us: stats.mean_response_ns() / 1e3,
        p99_response_us: stats.percentile_ns(0.99) as f64 / 1e3,
        mean_wait_us: wait_ps as f64 / requests.max(1) as f64 / (1000 * NS) as f64,
        read_bytes: stats.bytes - write_bytes,
        write_bytes,
        end_seconds: seconds,
    }
}
