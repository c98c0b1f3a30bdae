//! What a sort computes for a record, measured on this machine or taken from a recorded sort.
//!
//! Contract: the engine itself is timed, on one thread and files in memory, with half of the memory that
//! the data would need, so that it distributes and sorts. The least of [`ROUNDS`] counts, since whatever
//! else the machine does only adds. Copies into and out of those files are in it; drives with direct
//! I/O spare them. Larger buckets cost a little more a record than these. Bounds: [`DATA_BYTES`] three
//! times over, a few seconds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::algo::sort::{SortInput, SortOptions, SortOutput, sort};
use outcore::data::record::RecordFormat;
use outcore::drive::ram::{RamDevice, RamOptions};
use outcore::error::{Error, Result};
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore_traces::io_trace::{Entry, IoOp, Reader};

const DATA_BYTES: u64 = 24 << 20;
const ROUNDS: u32 = 3;
const OPERATION: &str = "measure computation";

/// Core nanoseconds a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuCost {
    /// To distribute it into buckets.
    pub distribute_ns: f64,
    /// To sort it within its bucket.
    pub sort_ns: f64,
}

/// The cost of records of `record_bytes` (integers where they are 8, else ordered by their first ten
/// bytes) on this machine.
///
/// # Errors
/// Records that the engine cannot sort, or larger than a thousandth of [`DATA_BYTES`].
pub fn measured_here(record_bytes: u64) -> Result<CpuCost> {
    if record_bytes == 0 || record_bytes > DATA_BYTES / 1000 {
        let cause = format!("records of {record_bytes} B cannot be measured");
        return Err(Error::usage(OPERATION, cause).hint("give --distribute-ns and --sort-ns"));
    }
    let format = match record_bytes {
        8 => RecordFormat::parse_type("u64")?,
        size => RecordFormat::parse_type(&format!("{size}/0:{}", size.min(10)))?,
    };
    let mut least = CpuCost {
        distribute_ns: f64::INFINITY,
        sort_ns: f64::INFINITY,
    };
    for _ in 0..ROUNDS {
        let found = sorted_once(&format, record_bytes)?;
        least.distribute_ns = least.distribute_ns.min(found.distribute_ns);
        least.sort_ns = least.sort_ns.min(found.sort_ns);
    }
    Ok(least)
}

fn sorted_once(format: &RecordFormat, record_bytes: u64) -> Result<CpuCost> {
    let ram = RamDevice::new(RamOptions {
        short_one_in: 0,
        ..RamOptions::default()
    });
    let records = DATA_BYTES / record_bytes;
    let mut word = 1u64;
    let words = (0..(records * record_bytes).div_ceil(8)).map(|_| {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The low bits of such a sequence are not random.
        word.rotate_right(32).to_le_bytes()
    });
    let mut bytes: Vec<u8> = words.flatten().collect();
    bytes.truncate((records * record_bytes) as usize);
    ram.put("/in", bytes);
    let options = JobOptions {
        memory_bytes: DATA_BYTES / 2,
        threads: 1,
        drives: vec![ScratchDrive {
            name: "memory".to_owned(),
            dir: PathBuf::from("/scratch"),
            weight: 1.0,
            limit_bytes: u64::MAX,
        }],
        ..JobOptions::default()
    };
    let job = Job::on(options, Arc::new(ram) as _);
    let output = SortOutput::File {
        path: PathBuf::from("/out"),
        header: None,
    };
    let inputs = [SortInput::raw(PathBuf::from("/in"))];
    let summary = sort(&job, &inputs, output, format, SortOptions::default())?;
    let cost_ns = |name: &str| {
        let phases = summary.phases.iter().filter(|phase| phase.name == name);
        phases.map(|phase| phase.seconds).sum::<f64>() * 1e9 / records as f64
    };
    Ok(CpuCost {
        distribute_ns: cost_ns("distribute"),
        sort_ns: cost_ns("sort"),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_of_a_sort_cost_something() {
        let cost = sorted_once(&RecordFormat::parse_type("u64").unwrap(), 8).unwrap();
        assert!(cost.distribute_ns > 0.0 && cost.sort_ns > 0.0, "{cost:?}");
        for size in [0, 1 << 20] {
            assert!(measured_here(size).is_err());
        }
    }
}
