//! Predicts how long a sort would take on drives that the user does not own.
//!
//! Contract: the plan is the engine's ([`outcore::sort::plan`]) for the rates of simulated drives,
//! with everything spread evenly over them. If the engine cannot sort the size in the memory, its
//! error is returned. A phase takes the longest of three times: those of the drives, of the
//! computation and of the memory bus. Reads and writes of the drives overlap, and the drives may
//! share a ceiling.
//!
//! Bytes cross the memory bus more often than the link. In a distribution they cross five times: a
//! drive writes them to memory, a core reads them, the bucket's buffer is loaded from memory and
//! written back, and a drive reads them. In the sort of a bucket they cross eight times: in and
//! out, and two levels of reading, loading and writing back; other levels are within the caches.
//! PALID's own figures agree with such counts (docs/sim/experiments.md, step 6).
//!
//! Only the drive model is measured here. The CPU cost per record is an input: the caller measures
//! it, or [`cpu`] takes it from a recorded job. [`nodes`] has the sort on several machines.

pub mod cpu;
pub(crate) mod nodes;

use std::sync::Arc;

use outcore::job::{
    ComputeCosts, DriveRates, DriveSpeed, JobSize, KindCosts, Layout, RatesOrigin, StepCost,
};
use outcore::sort::plan::{SortSize, plan_sort as plan_of_engine};
use outcore::{Amounts, PhasePlan};
use outcore_io::drive::rates::GroupSpeed;
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
    /// Seconds in which the link between machines moves the data; 0 on one machine.
    pub link_seconds: f64,
    /// Seconds, the largest of these times.
    pub seconds: f64,
}

/// The prediction.
#[derive(Debug, Clone, Serialize)]
pub struct SortPlan {
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// How often data go to scratch.
    pub distributions: u32,
    /// Memory with which one distribution is enough; `None` if there is at most one already, or if
    /// 64 times this memory is not enough.
    pub one_distribution_memory_bytes: Option<u64>,
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
/// The engine's name of the phase that sorts buckets, and of the one that distributes the data.
const SORT: &str = "sort";
const DISTRIBUTE: &str = "distribute";

fn check(job: &SortJob, drives: u32) -> Result<()> {
    let wrong = |cause: String| Err(Error::usage("plan sort", cause));
    for (what, value) in [
        ("size", job.size_bytes),
        ("memory", job.memory_bytes),
        ("record", job.record_bytes),
        ("number of cores", job.cores.into()),
        ("number of drives", drives.into()),
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

/// The array: `drives` drives like `drive` with a shared ceiling (0 means none).
fn array_of(drive: &DriveConfig, drives: u32, shared_bytes_per_s: u64) -> Result<Layout> {
    let rates = DriveRates {
        read_bytes_per_s: measure(drive, Figure::SequentialRead)?,
        write_bytes_per_s: measure(drive, Figure::SequentialWrite)?,
        requests_per_s: measure(drive, Figure::RandomRead)?.max(1.0),
        origin: RatesOrigin::DrivesFile,
    };
    let ceiling = shared_bytes_per_s as f64;
    let group = (shared_bytes_per_s > 0).then_some(GroupSpeed {
        number: 0,
        read_bytes_per_s: ceiling,
        write_bytes_per_s: ceiling,
        both_bytes_per_s: ceiling,
    });
    Ok(Layout::even_of(
        DriveSpeed { rates, group },
        drives as usize,
    ))
}

/// The size of the job as the engine plans it.
fn size_of(job: &SortJob, layout: Layout, drives: u32) -> Result<SortSize> {
    let step = |item_ns| StepCost {
        item_ns,
        byte_ns: 0.0,
    };
    let kind = KindCosts {
        distribute: step(job.cpu.distribute_ns),
        finish: step(job.cpu.sort_ns),
    };
    let element_bytes = usize::try_from(job.record_bytes)
        .ok()
        .filter(|&bytes| bytes <= RECORD_BYTES_MAX)
        .ok_or_else(|| Error::usage("plan sort", "a record is at most 2 GiB"))?;
    Ok(SortSize {
        job: JobSize {
            data_bytes: job.size_bytes,
            memory_bytes: job.memory_bytes,
            held_bytes: 0,
            threads: job.cores as usize,
            drive_count: drives as usize,
            layout: Arc::new(layout),
            costs: ComputeCosts {
                numbers: kind,
                records: kind,
                ..ComputeCosts::ASSUMED
            },
        },
        element_bytes,
        is_scalar: matches!(job.record_bytes, 1 | 2 | 4 | 8 | 16),
        is_ordered: false,
    })
}

/// Longest record.
const RECORD_BYTES_MAX: usize = 2 << 30;

/// Predicts a sort on `drives` drives like `drive` with a shared ceiling (0 means none).
///
/// # Errors
/// Usage for a job that makes no sense; memory for one that the engine cannot sort.
pub fn plan_sort(
    job: &SortJob,
    drive: &DriveConfig,
    drives: u32,
    shared_bytes_per_s: u64,
) -> Result<SortPlan> {
    check(job, drives)?;
    let layout = array_of(drive, drives, shared_bytes_per_s)?;
    let rates = layout.rates();
    let ceiling = match shared_bytes_per_s {
        0 => f64::MAX,
        rate => rate as f64,
    };
    let size = size_of(job, layout, drives)?;
    let plan = plan_of_engine(size.clone())?;
    let layout = &plan.size.job.layout;
    let phases: Vec<Phase> = plan
        .phases
        .iter()
        .map(|phase| phase_of(phase, layout, job))
        .collect();
    let sum = |of: fn(&Phase) -> f64| phases.iter().map(of).sum::<f64>();
    let io_sum = sum(|phase| phase.io_seconds);
    let cpu_sum = sum(|phase| phase.cpu_seconds);
    let memory_sum = sum(|phase| phase.memory_seconds);
    let all = f64::from(drives);
    Ok(SortPlan {
        distributions: plan.distributions,
        one_distribution_memory_bytes: match plan.distributions {
            0 | 1 => None,
            _ => memory_of_one_distribution(&size),
        },
        seconds: sum(|phase| phase.seconds),
        read_bytes_per_s: (rates.read_bytes_per_s * all).min(ceiling),
        write_bytes_per_s: (rates.write_bytes_per_s * all).min(ceiling),
        bottleneck: if memory_sum > io_sum.max(cpu_sum) {
            "memory"
        } else if io_sum >= cpu_sum {
            "io"
        } else {
            "cpu"
        },
        phases,
    })
}

/// The smallest memory for which one distribution is enough. It is tried in steps of 1/8 of the
/// memory of `size`, up to 64 times that memory.
fn memory_of_one_distribution(size: &SortSize) -> Option<u64> {
    let step_bytes = size.job.memory_bytes / 8;
    let enough = |steps: u64| {
        let mut larger = size.clone();
        larger.job.memory_bytes += step_bytes.saturating_mul(steps);
        plan_of_engine(larger).is_ok_and(|plan| plan.distributions <= 1)
    };
    let (mut too_few, mut steps) = (0, 1);
    while !enough(steps) {
        too_few = steps;
        steps *= 2;
        if steps > 8 * 64 {
            return None;
        }
    }
    while steps - too_few > 1 {
        let middle = too_few.midpoint(steps);
        match enough(middle) {
            true => steps = middle,
            false => too_few = middle,
        }
    }
    Some(size.job.memory_bytes + step_bytes * steps)
}

/// The times of a phase of the engine's plan.
fn phase_of(phase: &PhasePlan, layout: &Layout, job: &SortJob) -> Phase {
    let amounts = *phase.amounts();
    let moving = Amounts {
        computing_seconds: 0.0,
        ..amounts
    };
    let io_seconds = phase.redone(moving, layout).seconds.unwrap_or(0.0);
    let cpu_seconds = amounts.computing_seconds;
    let bytes = |forecast: outcore::Forecast| forecast.bytes().unwrap_or(0) as f64;
    let crossings = match phase.name {
        // Each distribution moves all data.
        DISTRIBUTE => {
            let again_bytes = bytes(amounts.scratch_read);
            DISTRIBUTE_CROSSINGS * (bytes(amounts.input) + again_bytes)
        }
        SORT => SORT_CROSSINGS * bytes(amounts.output),
        _ => 0.0,
    };
    let memory_seconds = match job.memory_bytes_per_s {
        0 => 0.0,
        rate => crossings / rate as f64,
    };
    Phase {
        name: phase.name.to_owned(),
        io_seconds,
        cpu_seconds,
        memory_seconds,
        link_seconds: 0.0,
        seconds: io_seconds.max(cpu_seconds).max(memory_seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore_io::Kind;

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
        }
    }

    fn drive() -> DriveConfig {
        let mut drive = DriveConfig::default();
        drive.flash.blocks = 256;
        drive.flash.pages = 64;
        drive
    }

    #[test]
    fn the_memory_that_spares_a_distribution_spares_it_and_an_eighth_less_does_not() {
        let of = |memory_bytes| {
            let job = SortJob {
                memory_bytes,
                ..job(200 << 30)
            };
            plan_sort(&job, &drive(), 1, 0).unwrap()
        };
        let two = of(1 << 30);
        let memory_bytes = two.one_distribution_memory_bytes.unwrap();
        assert!(memory_bytes > 1 << 30);
        let one = of(memory_bytes);
        assert_eq!(
            (one.distributions, one.one_distribution_memory_bytes),
            (1, None)
        );
        assert_eq!(of(memory_bytes - (1 << 27)).distributions, 2);
    }

    #[test]
    fn distributions_are_those_of_the_engine() {
        let distributions = |size: u64| {
            let plan = plan_sort(&job(size), &drive(), 2, 0).unwrap();
            plan.distributions
        };
        assert_eq!(distributions(100 << 20), 0);
        assert_eq!(distributions(10 << 30), 1);
        assert_eq!(distributions(200 << 30), 2);
        let mut small = job(1 << 40);
        small.memory_bytes = 16 << 20;
        let error = plan_sort(&small, &drive(), 2, 0).unwrap_err();
        assert_eq!(error.kind(), Kind::Memory, "{error}");
        let said = error.next_step().unwrap();
        assert!(said.contains("--memory"), "{said}");
    }

    #[test]
    fn reads_and_writes_of_a_phase_overlap_unless_they_share_a_ceiling() {
        let of = |shared| plan_sort(&job(10 << 30), &drive(), 2, shared).unwrap();
        let alone = of(0);
        let last = alone.phases.last().unwrap();
        let least = (10u64 << 30) as f64 / alone.write_bytes_per_s;
        assert!(
            last.io_seconds >= least && last.io_seconds < 1.5 * least,
            "{last:?}"
        );
        let shared = of(100_000_000);
        let last = shared.phases.last().unwrap();
        assert!(
            last.io_seconds > 1.7 * (10u64 << 30) as f64 / 1e8,
            "{last:?}"
        );
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
                    record_bytes: u64::MAX,
                    ..good()
                },
                2,
                "at most 2 GiB",
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
        let seconds = |name: &str| {
            let phase = plan.phases.iter().find(|phase| phase.name == name);
            phase.unwrap().memory_seconds.round()
        };
        assert_eq!([seconds(DISTRIBUTE), seconds(SORT)], [276.0, 441.0]);
    }
}
