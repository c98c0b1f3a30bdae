//! Computation of a sort per record: guessed, or taken from a recorded sort.
//!
//! Contract: reading a trace needs memory for one record of the trace at a time. Costs are core
//! time, independent of the number of threads.

use std::path::Path;

use outcore_io::{Error, Result};
use outcore_traces::io_trace::{Entry, IoOp, Reader};

/// Core nanoseconds per record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuCost {
    /// Time to distribute it into buckets.
    pub distribute_ns: f64,
    /// Time to sort it within its bucket.
    pub sort_ns: f64,
}

/// The cost of a pass over records of `record_bytes` on the machine that recorded the trace at
/// `path`: the computation of its threads divided by the bytes that it read. The cost is the same
/// for every pass.
///
/// # Errors
/// Not a trace of the engine, or one without reads.
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
