//! What a sort computes for a record: guessed, or taken from a recorded sort.
//!
//! Contract: reading a trace takes memory for one record of it at a time. Costs are core time,
//! whatever the number of threads was.

use std::path::Path;

use outcore_io::{Error, Result};
use outcore_traces::io_trace::{Entry, IoOp, Reader};

/// Core nanoseconds a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuCost {
    /// To distribute it into buckets.
    pub distribute_ns: f64,
    /// To sort it within its bucket.
    pub sort_ns: f64,
}

/// The cost of a pass over records of `record_bytes` on the machine where the job in the trace at
/// `path` was recorded: its threads' computation over what it read, the same for every pass.
///
/// # Errors
/// No trace of the engine's, or one that read nothing.
pub fn recorded(path: &Path, record_bytes: u64) -> Result<CpuCost> {
    let (mut busy_sum_ns, mut read_bytes) = (0u64, 0u64);
    for entry in Reader::open(path)? {
        match entry? {
            Entry::Request(record) => {
                busy_sum_ns = busy_sum_ns.saturating_add(record.busy_ns);
                if record.op == IoOp::Read {
                    read_bytes += u64::from(record.len_bytes);
                }
            }
            Entry::ThreadEnd { busy_ns, .. } => busy_sum_ns = busy_sum_ns.saturating_add(busy_ns),
            Entry::Phase { .. } | Entry::End { .. } => {}
        }
    }
    if read_bytes == 0 {
        return Err(
            Error::usage("plan sort", "the recorded job has read nothing")
                .path(path)
                .hint("record a sort: outcore sort … --record-io run.trace"),
        );
    }
    let pass_ns = busy_sum_ns as f64 / read_bytes as f64 * record_bytes as f64;
    Ok(CpuCost {
        distribute_ns: pass_ns,
        sort_ns: pass_ns,
    })
}
