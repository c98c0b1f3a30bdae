//! The search for a plan: tries numbers and sizes of buckets, fits them into memory and compares
//! them.
//!
//! Contract: each kind of job ([`Planned`]) defines which numbers and sizes of buckets are worth
//! trying and what else it reserves. [`best_of`] fits each of them into the memory and takes the
//! cheapest. [`plan_within`] does so on as many threads as there is room for. If memory is short,
//! areas and output buffers are reduced first, then input blocks become shorter; four of them stay
//! in flight per drive. If no plan fits, the error states how much memory is enough.

use std::ops::DerefMut;

use super::{PartitionPlan, reads_min};
use crate::job::{JobSize, KindCosts};
use outcore_io::memory::{BLOCK_BYTES, Ledger};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Input reads that are nearly as fast as the longest, and the shortest reads if memory is short.
const READ_BYTES_GOOD: usize = 256 << 10;
const READ_BYTES_MIN: usize = 16 << 10;
/// Input reads and segment writes in flight per drive, over all threads, that keep a drive busy
/// throughout; and the share of memory that they may use beyond the wishes (docs/decisions/0016).
const READS_WIDE: usize = 10;
const WRITES_WIDE: usize = 48;
const CHUNKS_WIDE: usize = 20;
const WIDENING_SHARE: u64 = 16;
/// Fewer threads are used only if the plan is this much cheaper: smaller differences are within the
/// uncertainty about drives and processors.
const THREADS_WORTH: f64 = 0.8;

/// The plan of one kind of job, with its additions to the common part.
pub(crate) trait Planned: Clone + DerefMut<Target = PartitionPlan> {
    /// Smallest number of output buffers per thread.
    const CHUNKS_MIN: usize;
    /// Name of the phase that processes one bucket after another.
    const LAST_PHASE: &'static str;

    /// Smallest reservations of the run, before any line is filled up.
    fn reservations(&self) -> Ledger;

    /// Number of segments in memory with which nothing goes to scratch, and the largest useful
    /// number.
    fn segments_wanted(&self) -> (u64, u64);

    /// Ratio of the job's time to the time of its traffic, which depends on the size of its
    /// buckets.
    fn detour(&self) -> f64;

    /// Reduces the longest line if nothing else is left to reduce.
    fn shorten_lines(&mut self) -> bool {
        false
    }

    /// Selects how the input is sampled: the number of reads, and the bytes of all reads. `None` if
    /// that is not planned.
    fn choose_sample(&mut self) -> (f64, f64) {
        (0.0, 0.0)
    }

    /// Number of items of the data, and the computing costs.
    fn work(&self) -> (f64, KindCosts);

    /// Bytes of the data that remain if equal items are counted in tables.
    fn counted_bytes(&self) -> Option<f64> {
        None
    }
}

impl PartitionPlan {
    /// Gives up one step of optional resources: areas, output buffers, writes and reads in flight,
    /// reads longer than `read_bytes_min`.
    fn give_up(&mut self, chunks_min: usize, read_bytes_min: usize) -> bool {
        let shorter_bytes = (self.read_block_bytes / 2).next_multiple_of(BLOCK_BYTES);
        let read_bytes_min = read_bytes_min.max(self.element_bytes.unwrap_or(1));
        if self.areas > 2 {
            self.areas -= 1;
        } else if self.chunks > chunks_min {
            self.chunks -= 1;
        } else if self.writes_in_flight > 4 {
            self.writes_in_flight /= 2;
        } else if self.reads_in_flight > reads_min(&self.job) {
            self.reads_in_flight -= 1;
            self.open_chunks = self.open_chunks.min(self.reads_in_flight / 2);
        } else if shorter_bytes >= read_bytes_min {
            self.read_block_bytes = shorter_bytes;
        } else if self.open_chunks > 1 {
            self.open_chunks = 1;
        } else {
            return false;
        }
        true
    }
}

/// The cheapest of `candidates` that fit in memory.
pub(crate) fn best_of<P: Planned>(candidates: impl Iterator<Item = P>) -> Option<P> {
    let best = candidates
        .filter_map(fit)
        .reduce(|best, plan| match plan.cost < best.cost {
            true => plan,
            false => best,
        });
    best.map(|mut plan| {
        plan.predict_phases();
        plan
    })
}

/// The plan with its windows fitted to the memory, its resident segments, and its predicted cost.
fn fit<P: Planned>(mut plan: P) -> Option<P> {
    let memory_bytes = plan.job.memory_bytes;
    // Most candidates do not fit, whatever is reduced below.
    let mut least = plan.clone();
    (least.areas, least.chunks) = (2, plan.chunks.min(P::CHUNKS_MIN));
    (
        least.writes_in_flight,
        least.reads_in_flight,
        least.open_chunks,
    ) = (4, reads_min(&plan.job), 1);
    least.read_block_bytes = READ_BYTES_MIN;
    while least.shorten_lines() {}
    if least.reservations().bytes() > memory_bytes {
        return None;
    }
    let windows = |plan: &P| {
        [
            (0.2, plan.areas),
            (0.1, plan.reads_in_flight),
            (0.05, plan.chunks),
            (0.05, plan.writes_in_flight),
        ]
    };
    let wanted = windows(&plan);
    while plan.reservations().bytes() > memory_bytes {
        let gives_up = plan.give_up(P::CHUNKS_MIN, READ_BYTES_GOOD)
            || plan.shorten_lines()
            || plan.give_up(P::CHUNKS_MIN, READ_BYTES_MIN);
        if !gives_up {
            return None;
        }
    }
    keep_resident(&mut plan);
    if plan.distributions > 0 {
        plan.resident_segments = 0;
        widen(&mut plan);
        keep_resident(&mut plan);
    }
    let (sample_reads, sample_bytes) = plan.choose_sample();
    let counted_bytes = plan.counted_bytes();
    let (items, costs) = plan.work();
    plan.predict(
        sample_reads,
        sample_bytes,
        counted_bytes,
        P::LAST_PHASE,
        items,
        costs,
    );
    // Drives are idle if too few buckets are being loaded and written.
    let lacking = wanted.iter().zip(windows(&plan)).map(|(wanted, got)| {
        let share = got.1 as f64 / wanted.1.max(1) as f64;
        wanted.0 * (1.0 - share)
    });
    let slower = plan.detour() * (1.0 + lacking.sum::<f64>());
    // Buckets that stay in memory for certain need no scratch.
    let through_scratch = f64::from(plan.distributions.min(1));
    plan.cost =
        plan.moving_seconds * slower * (1.0 + 0.01 * through_scratch) + plan.computing_seconds;
    Some(plan)
}

/// Gives spare memory to buckets; if it is enough for all of them, nothing goes to scratch.
fn keep_resident<P: Planned>(plan: &mut P) {
    let spare_bytes = plan.job.memory_bytes - plan.reservations().bytes();
    if plan.distributions == 1 {
        let (enough, most) = plan.segments_wanted();
        let affordable = spare_bytes / plan.segment_bytes as u64;
        plan.resident_segments = affordable.min(most) as usize;
        if affordable >= enough {
            plan.distributions = 0;
        }
    }
}

/// Enlarges windows until they keep a fast drive busy throughout the distribution, if a small part
/// of the memory is enough. Used for resident segments, that memory would save less.
fn widen<P: Planned>(plan: &mut P) {
    let before_bytes = plan.reservations().bytes();
    let limit_bytes = plan
        .job
        .memory_bytes
        .min(before_bytes + plan.job.memory_bytes / WIDENING_SHARE);
    let drives_a_thread = |each: usize| (each * plan.job.drive_count).div_ceil(plan.job.threads);
    let (reads_wide, writes_wide) = (drives_a_thread(READS_WIDE), drives_a_thread(WRITES_WIDE));
    let chunks_wide = match plan.chunks {
        0 => 0,
        _ => drives_a_thread(CHUNKS_WIDE),
    };
    loop {
        let before = plan.clone();
        plan.reads_in_flight += usize::from(before.reads_in_flight < reads_wide);
        plan.writes_in_flight += 4 * usize::from(before.writes_in_flight < writes_wide);
        plan.chunks += usize::from(before.chunks < chunks_wide);
        let is_wide = (plan.reads_in_flight, plan.writes_in_flight, plan.chunks)
            == (
                before.reads_in_flight,
                before.writes_in_flight,
                before.chunks,
            );
        if is_wide {
            return;
        }
        if plan.reservations().bytes() > limit_bytes {
            *plan = before;
            return;
        }
    }
}

/// The plan that `best` finds for `job`. It uses fewer threads if the memory is too small for all
/// of them. It also does so if each thread then has enough memory to save a distribution, and thus
/// time.
pub(crate) fn on_fewer_threads<P: Planned>(
    job: JobSize,
    best: impl Fn(JobSize) -> Option<P>,
) -> Option<P> {
    let halves = std::iter::successors(Some(job.threads), |&threads| {
        (threads > 1).then_some(threads / 2)
    });
    let mut chosen: Option<P> = None;
    for threads in halves {
        let plan = best(JobSize {
            threads,
            ..job.clone()
        });
        chosen = match (chosen, plan) {
            (Some(more), Some(fewer))
                if fewer.distributions >= more.distributions
                    || fewer.cost >= THREADS_WORTH * more.cost =>
            {
                Some(more)
            }
            (more, fewer) => fewer.or(more),
        };
        if chosen.as_ref().is_some_and(|plan| plan.distributions < 2) {
            break;
        }
    }
    chosen
}

/// The plan that `best` finds for `job`.
///
/// # Errors
/// [`Kind::Memory`] if there is no plan, with the least memory, in whole MiB, that is enough for
/// one thread; `operation` and `items` describe what could not be planned.
pub(crate) fn plan_within<P>(
    job: JobSize,
    operation: &'static str,
    items: &str,
    best: impl Fn(JobSize) -> Option<P>,
) -> Result<P> {
    let job = JobSize {
        threads: job.threads.max(1),
        drive_count: job.drive_count.max(1),
        ..job
    };
    if let Some(plan) = best(job.clone()) {
        return Ok(plan);
    }
    let least = least_memory_bytes(job.memory_bytes, |memory_bytes| {
        let alone = JobSize {
            memory_bytes,
            threads: 1,
            ..job.clone()
        };
        best(alone).is_some()
    });
    let least = least.map(|bytes| (bytes + job.held_bytes).next_multiple_of(1 << 20));
    let least = least.map_or_else(|| "more".to_string(), units::bytes_exact);
    let cause = format!(
        "{} of memory is too little for {} {items}",
        units::bytes(job.memory_bytes + job.held_bytes),
        units::bytes(job.data_bytes),
    );
    Err(Error::new(Kind::Memory, operation, cause).hint(format!("allow at least --memory {least}")))
}

/// The least memory, in whole MiB and above `memory_bytes`, with which a plan `fits`; `None` if no
/// plan does.
fn least_memory_bytes(memory_bytes: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    const STEP_BYTES: u64 = 1 << 20;
    let fits = |steps: u64| fits(steps * STEP_BYTES);
    let mut too_few = memory_bytes / STEP_BYTES;
    let mut enough = too_few.max(1) * 2;
    while !fits(enough) {
        too_few = enough;
        enough = enough.checked_mul(2).filter(|&steps| steps < 1 << 40)?;
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        match fits(middle) {
            true => enough = middle,
            false => too_few = middle,
        }
    }
    Some(enough * STEP_BYTES)
}
