//! What a sort computes for a record on this machine, measured.
//!
//! Contract: the engine itself sorts random records, on one thread and files in memory, with half of
//! the memory that they would need, so that it distributes them and sorts buckets. The least of
//! [`ROUNDS`] counts, since whatever else the machine does only adds. Copies into and out of those
//! files are in it; drives with direct I/O spare them. One thread has the memory to itself: what
//! many share is not in it.
//!
//! Bounds: [`DATA_BYTES`] four times over in memory; no round begins after [`ENOUGH`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outcore::drive::testing::{RamDevice, RamOptions};
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::sort::{SortOptions, sort};
use outcore::{Error, Result};
use outcore::{Input, Output};

/// More than a processor's caches hold, so that buckets come from memory as those of large data do.
const DATA_BYTES: u64 = 96 << 20;
const ROUNDS: u32 = 3;
const ENOUGH: Duration = Duration::from_secs(2);
/// Records beyond it would make too few.
const RECORD_BYTES_MAX: u64 = 64 << 10;
const OPERATION: &str = "measure computation";

/// Core nanoseconds a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordCost {
    /// To distribute it into buckets.
    pub distribute_ns: f64,
    /// To sort it within its bucket.
    pub sort_ns: f64,
}

/// The cost of records of `record_bytes` (integers where they are 4 or 8, else ordered by their first
/// ten bytes) on this machine. `check` is asked between rounds whether to go on.
///
/// # Errors
/// Records of no byte or of more than [`RECORD_BYTES_MAX`]; what `check` says.
pub fn measure(record_bytes: u64, check: &dyn Fn() -> Result<()>) -> Result<RecordCost> {
    if record_bytes == 0 || record_bytes > RECORD_BYTES_MAX {
        let cause = format!("records of {record_bytes} B cannot be measured");
        return Err(Error::usage(OPERATION, cause).hint("give --distribute-ns and --sort-ns"));
    }
    let format = match record_bytes {
        4 => RecordFormat::parse_type("u32")?,
        8 => RecordFormat::parse_type("u64")?,
        size => RecordFormat::parse_type(&format!("{size}/0:{}", size.min(10)))?,
    };
    let mut least = RecordCost {
        distribute_ns: f64::INFINITY,
        sort_ns: f64::INFINITY,
    };
    let started = Instant::now();
    for round in 0..ROUNDS {
        check()?;
        if round > 0 && started.elapsed() > ENOUGH {
            break;
        }
        let found = sorted_once(&format, DATA_BYTES / record_bytes, record_bytes)?;
        least.distribute_ns = least.distribute_ns.min(found.distribute_ns);
        least.sort_ns = least.sort_ns.min(found.sort_ns);
    }
    Ok(least)
}

fn sorted_once(format: &RecordFormat, records: u64, record_bytes: u64) -> Result<RecordCost> {
    let data_bytes = records * record_bytes;
    let ram = RamDevice::new(RamOptions {
        short_one_in: 0,
        ..RamOptions::default()
    });
    ram.put("/in", random_bytes(data_bytes));
    let options = JobOptions {
        memory_bytes: data_bytes / 2,
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
    let output = Output::File {
        path: PathBuf::from("/out"),
        header: None,
    };
    let inputs = [Input::raw("/in")];
    let summary = sort(&job, &inputs, output, format, SortOptions::default())?;
    let cost_ns = |name: &str| {
        let phases = summary.phases.iter().filter(|phase| phase.name == name);
        phases.map(|phase| phase.seconds).sum::<f64>() * 1e9 / records as f64
    };
    Ok(RecordCost {
        distribute_ns: cost_ns("distribute"),
        sort_ns: cost_ns("sort"),
    })
}

fn random_bytes(len_bytes: u64) -> Vec<u8> {
    let mut word = 1u64;
    let words = (0..len_bytes.div_ceil(8)).map(|_| {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The low bits of such a sequence are not random.
        word.rotate_right(32).to_le_bytes()
    });
    let mut bytes: Vec<u8> = words.flatten().collect();
    bytes.truncate(len_bytes as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_of_a_sort_cost_something() {
        for (name, record_bytes) in [("u64", 8), ("100/0:10", 100)] {
            let format = RecordFormat::parse_type(name).unwrap();
            let cost = sorted_once(&format, (24 << 20) / record_bytes, record_bytes).unwrap();
            assert!(cost.distribute_ns > 0.0 && cost.sort_ns > 0.0, "{cost:?}");
        }
    }

    #[test]
    fn records_that_cannot_be_measured_are_refused() {
        for size in [0, RECORD_BYTES_MAX + 1] {
            assert!(measure(size, &|| Ok(())).is_err());
        }
    }

    #[test]
    fn a_caller_may_stop_it() {
        let stop = || Err(Error::usage(OPERATION, "stopped"));
        assert!(measure(8, &stop).is_err());
    }
}
