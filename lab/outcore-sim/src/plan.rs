//! Predicts from its plan alone how long a sort would take on drives that the user does not own.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025): N bytes of data, M bytes of memory.
//! - Data that fits into memory is read, sorted and written once.
//! - Otherwise records are distributed into buckets that fit (one read and one write of the data);
//!   then each bucket is read, sorted and written. If one pass cannot create enough buckets, the
//!   distribution is repeated.
//! - A phase takes the largest of three times: its I/O (bandwidth of one simulated drive times the
//!   number of drives, bounded by the shared ceiling), its computation, and the time in which the
//!   memory bus moves the data for both.
//!
//! Bytes cross the memory bus more often than the link. In the distribution they cross five times:
//! a drive writes them to memory, a core reads them, the bucket's buffer is loaded from memory and
//! written back, and a drive reads them. In the sort of a bucket they cross eight times: in and
//! out, and two levels of reading, loading and writing back; other levels are within the caches.
//! PALID's own figures agree with such counts (docs/sim/experiments.md, step 6).
//!
//! Only the drive model is measured here. The CPU cost per record is an input: the caller measures
//! it, or [`cpu`] takes it from a recorded job.

pub mod cpu;

use outcore_io::{Error, Result};
use serde::Serialize;

use crate::config::DriveConfig;
use crate::presets::{Figure, measure};
use cpu::CpuCost;

/// The sort to predict.
#[derive(Debug, Clone, PartialEq)]
pub struct SortJob {
    /// Bytes to sort.
    pub size_bytes: u64,
    /// Bytes per record.
    pub record_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Number of cores.
    pub cores: u32,
    /// Core time per record.
    pub cpu: CpuCost,
    /// Bytes per second that the memory bus moves; 0 means no bound.
    pub memory_bytes_per_s: u64,
    /// Bytes of one bucket's write buffer and of its read window. They bound the number of buckets
    /// per pass.
    pub bucket_buffer_bytes: u64,
}

/// One phase of the job.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Seconds of I/O.
    pub io_seconds: f64,
    /// Seconds of computation.
    pub cpu_seconds: f64,
    /// Seconds in which the memory bus moves the data.
    pub memory_seconds: f64,
    /// Seconds, the largest of the three.
    pub seconds: f64,
}

/// The prediction.
#[derive(Debug, Clone, Serialize)]
pub struct SortPlan {
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Total time.
    pub seconds: f64,
    /// Read bandwidth of the array in bytes per second.
    pub read_bytes_per_s: f64,
    /// Write bandwidth of the array in bytes per second.
    pub write_bytes_per_s: f64,
    /// `io`, `cpu` or `memory`: the one with the largest total.
    pub bottleneck: &'static str,
}

/// How often a byte crosses the memory bus during distribution.
const DISTRIBUTE_CROSSINGS: f64 = 5.0;
/// How often a byte crosses the memory bus while its bucket is sorted.
const SORT_CROSSINGS: f64 = 8.0;

fn check(job: &SortJob, drives: u32) -> Result<()> {
    let wrong = |cause: String| Err(Error::usage("plan sort", cause));
    for (what, value) in [
        ("size", job.size_bytes),
        ("memory", job.memory_bytes),
        ("record", job.record_bytes),
        ("number of cores", job.cores.into()),
        ("number of drives", drives.into()),
        ("bucket buffer", job.bucket_buffer_bytes),
    ] {
        if value == 0 {
            return wrong(format!("the {what} is 0"));
        }
    }
    for (what, ns) in [
        ("distribute", job.cpu.distribute_ns),
        ("sort", job.cpu.sort_ns),
    ] {
        if !(0.0..=1e12).contains(&ns) {
            return wrong(format!(
                "{ns} core nanoseconds to {what} a record; 0 and more are possible"
            ));
        }
    }
    Ok(())
}

/// Predicts a sort on `drives` drives like `drive` with a shared ceiling (0 means none).
pub fn plan_sort(
    job: &SortJob,
    drive: &DriveConfig,
    drives: u32,
    shared_bytes_per_s: u64,
) -> Result<SortPlan> {
    check(job, drives)?;
    if job.memory_bytes < 4 * job.bucket_buffer_bytes {
        return Err(Error::usage(
            "plan sort",
            format!(
                "{} bytes of memory hold fewer than four bucket buffers",
                job.memory_bytes
            ),
        )
        .hint("more memory or smaller buffers"));
    }
    let ceiling = if shared_bytes_per_s == 0 {
        f64::MAX
    } else {
        shared_bytes_per_s as f64
    };
    let read = (measure(drive, Figure::SequentialRead)? * f64::from(drives)).min(ceiling);
    let write = (measure(drive, Figure::SequentialWrite)? * f64::from(drives)).min(ceiling);
    let bytes = job.size_bytes as f64;
    let records = bytes / job.record_bytes as f64;
    // The reads and writes of one phase share the ceiling.
    let io = (bytes / read + bytes / write).max(2.0 * bytes / ceiling);
    let memory_rate = match job.memory_bytes_per_s {
        0 => f64::MAX,
        rate => rate as f64,
    };
    let phase = |name: String, cpu_ns: f64, crossings: f64| {
        let cpu_seconds = records * cpu_ns * 1e-9 / f64::from(job.cores);
        let memory_seconds = crossings * bytes / memory_rate;
        Phase {
            name,
            io_seconds: io,
            cpu_seconds,
            memory_seconds,
            seconds: io.max(cpu_seconds).max(memory_seconds),
        }
    };
    let mut phases = Vec::new();
    let mut bucket = bytes;
    let buckets_max = (job.memory_bytes / job.bucket_buffer_bytes / 2).max(2) as f64;
    while bucket > job.memory_bytes as f64 / 2.0 {
        let wanted = (2.0 * bucket / job.memory_bytes as f64).ceil();
        let buckets = wanted.min(buckets_max);
        bucket /= buckets;
        phases.push(phase(
            format!("distribute into {buckets} buckets each"),
            job.cpu.distribute_ns,
            DISTRIBUTE_CROSSINGS,
        ));
    }
    phases.push(phase(
        "sort buckets".to_owned(),
        job.cpu.sort_ns,
        SORT_CROSSINGS,
    ));
    let sum = |of: fn(&Phase) -> f64| phases.iter().map(of).sum::<f64>();
    let io_sum = sum(|phase| phase.io_seconds);
    let cpu_sum = sum(|phase| phase.cpu_seconds);
    let memory_sum = sum(|phase| phase.memory_seconds);
    let seconds = sum(|phase| phase.seconds);
    Ok(SortPlan {
        phases,
        seconds,
        read_bytes_per_s: read,
        write_bytes_per_s: write,
        bottleneck: if memory_sum > io_sum.max(cpu_sum) {
            "memory"
        } else if io_sum >= cpu_sum {
            "io"
        } else {
            "cpu"
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(size_bytes: u64) -> SortJob {
        SortJob {
            size_bytes,
            record_bytes: 8,
            memory_bytes: 1 << 30,
            cores: 4,
            cpu: CpuCost {
                distribute_ns: 10.0,
                sort_ns: 30.0,
            },
            memory_bytes_per_s: 0,
            bucket_buffer_bytes: 8 << 20,
        }
    }

    fn drive() -> DriveConfig {
        let mut drive = DriveConfig::default();
        drive.flash.blocks = 256;
        drive.flash.pages = 64;
        drive
    }

    #[test]
    fn passes_follow_from_size_and_memory() {
        let phases = |size: u64| plan_sort(&job(size), &drive(), 2, 0).unwrap().phases.len();
        assert_eq!(phases(100 << 20), 1);
        assert_eq!(phases(10 << 30), 2);
        assert_eq!(phases(200 << 30), 3);
    }

    #[test]
    fn a_job_that_makes_no_sense_is_refused_by_what_is_wrong() {
        let good = || job(100 << 20);
        let cpu = |distribute_ns| CpuCost {
            distribute_ns,
            ..good().cpu
        };
        for (bad, drives, says) in [
            (job(0), 2, "size is 0"),
            (good(), 0, "drives is 0"),
            (SortJob { cores: 0, ..good() }, 2, "cores is 0"),
            (
                SortJob {
                    record_bytes: 0,
                    ..good()
                },
                2,
                "record is 0",
            ),
            (
                SortJob {
                    memory_bytes: 0,
                    ..good()
                },
                2,
                "memory is 0",
            ),
            (
                SortJob {
                    cpu: cpu(f64::NAN),
                    ..good()
                },
                2,
                "to distribute",
            ),
            (
                SortJob {
                    cpu: cpu(-1.0),
                    ..good()
                },
                2,
                "to distribute",
            ),
        ] {
            let error = plan_sort(&bad, &drive(), drives, 0)
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_phase_takes_the_longest_of_io_computation_and_memory() {
        let of = |rate| {
            let job = SortJob {
                memory_bytes_per_s: rate,
                ..job(10 << 30)
            };
            plan_sort(&job, &drive(), 64, 0).unwrap()
        };
        for (rate, bound) in [(0, "cpu"), (1 << 40, "cpu"), (1 << 30, "memory")] {
            let plan = of(rate);
            for phase in &plan.phases {
                let longest = phase.io_seconds.max(phase.cpu_seconds);
                assert_eq!(phase.seconds, longest.max(phase.memory_seconds));
            }
            assert_eq!(plan.bottleneck, bound);
        }
        assert_eq!(of(0).seconds, of(1 << 40).seconds);
    }

    /// 8 TB, 200 GB, 64 cores, 30 drives, with only the memory bus as a bound. Map and reduce on
    /// the same machine took as long as 5 and 2 crossings of a bus of 145 GB/s.
    #[test]
    fn memory_crossings_are_those_of_the_phases() {
        let mut one = job(8_000_000_000_000);
        one.memory_bytes = 200_000_000_000;
        one.memory_bytes_per_s = 145_000_000_000;
        let plan = plan_sort(&one, &drive(), 30, 0).unwrap();
        let seconds: Vec<f64> = plan
            .phases
            .iter()
            .map(|p| p.memory_seconds.round())
            .collect();
        assert_eq!(seconds, [276.0, 441.0]);
    }
}
