//! Shuffle: input files in, their records in a random order out, complete or absent.
//!
//! Model: P. Sanders, "Random permutations on distributed, external and hierarchical memory"
//! (1998), in PALID's version for drives (Li, Khan, Dhulipala, SPAA 2025): draw a bucket for every
//! record, then permute bucket by bucket.
//!
//! Contract: every order is equally likely. The order depends only on the seed, the epoch, the
//! input's bytes and the length of a record ([`tree`]). It does not depend on threads, drives or
//! memory, so a shuffle can be repeated elsewhere. No key is stored. Inputs are only read; no
//! output remains after a failure. Unterminated last lines are terminated.
//!
//! Bounds: memory as planned ([`plan`]). I/O is 2 reads and 2 writes of the data, minus the data
//! that stay in memory; each further distribution adds one read and one write. One hash per record
//! and level, with four bits each.

mod distribute;
mod order;
mod permute;
mod plan;
mod records;
mod route;
mod tree;

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use self::distribute::{NodeBucket, distribute_input, join_restored, split_oversized};
pub use self::order::Shuffled;
use self::permute::permute;
use self::plan::COPY;
pub use self::plan::{ShufflePlan, ShuffleSize, plan_shuffle};
use self::records::{Fixed, Lines, Numbers, Records};
use self::tree::{Tree, fan_out};
use crate::ends::{
    DriveTraffic, Input, Output, Phase, Phases, check_unchanged, interleave, open_inputs,
};
use crate::job::{ItemHash, Job, JobSize};
use crate::key::check::{CheckOptions, PartTotals};
use crate::key::record::RecordFormat;
use crate::partition::Partition;
use crate::partition::checkpoint::Checkpoints;
use crate::partition::driver::{Ends, ReadBack, Served, Unnamed, Written};
use crate::partition::large::{LARGE_BYTES, copy_records};
use crate::partition::restored::{Division, IdentityOption};
use crate::partition::resume::forget;
use crate::partition::resumed::{Reading, Resumed, StageRequest, check_memory, refused};
use crate::partition::task::{take_over, tasks_in_order};
use crate::read::longest::{Longest, located, measure};
use crate::read::regions::{Chunks, LINE_BYTES_LIMIT};
use crate::read_back::{self, ExpectedLines, ExpectedRecords, Tally, VERIFY_OUTPUT};
use crate::sort::tally_of as tally_of_records;
use outcore_io::drive::Access;
use outcore_io::output::{Room, StagedOutput};
use outcore_io::port::Volume;
use outcore_io::{Error, Kind, Result};

/// The unit of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Records of one length.
    Records {
        /// The length.
        record_bytes: usize,
    },
    /// Lines with a terminator.
    Lines {
        /// The terminator.
        terminator: u8,
        /// Whether blank lines are skipped, because they are not rows of JSON Lines.
        drops_blanks: bool,
    },
}

/// Options of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffleOptions {
    /// The unit.
    pub unit: Unit,
    /// Determines the order.
    pub seed: u64,
    /// Selects another, independent order for the same seed.
    pub epoch: u64,
    /// Whether an existing output is replaced.
    pub replace: bool,
}

/// The result of a shuffle.
#[derive(Debug, Clone)]
pub struct ShuffleSummary {
    /// Records in the output.
    pub records: u64,
    /// Bytes in the output.
    pub bytes: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Most scratch in use at once.
    pub scratch_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<DriveTraffic>,
    /// The plan that the shuffle followed.
    pub plan: ShufflePlan,
    /// The totals of the items, if they were asked for.
    pub totals: Option<PartTotals>,
}

/// State that all threads of a shuffle share.
pub(super) struct Shared<'a, R> {
    partition: Partition<'a>,
    plan: &'a ShufflePlan,
    tree: Tree,
    records: &'a R,
    /// Sums the records that are read, if the output is read back or the totals are reported.
    tally: Option<&'a Tally>,
}

impl<'a, R> Deref for Shared<'a, R> {
    type Target = Partition<'a>;

    fn deref(&self) -> &Partition<'a> {
        &self.partition
    }
}

/// Writes the records of `inputs`, in the given order, to `output` in a random order.
///
/// # Errors
/// [`Kind::Usage`] for invalid requests, [`Kind::Memory`] if the plan does not fit or a line is too
/// long for it, [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`] (damaged scratch, changed
/// input), [`Kind::Interrupted`].
///
/// [`Kind::Usage`]: crate::Kind::Usage
/// [`Kind::Memory`]: crate::Kind::Memory
/// [`Kind::NoSpace`]: crate::Kind::NoSpace
/// [`Kind::Io`]: crate::Kind::Io
/// [`Kind::Corrupt`]: crate::Kind::Corrupt
/// [`Kind::Interrupted`]: crate::Kind::Interrupted
pub fn shuffle(
    job: &Job,
    inputs: &[Input],
    output: Output,
    options: ShuffleOptions,
) -> Result<ShuffleSummary> {
    match options.unit {
        Unit::Records { record_bytes: 4 } => {
            let numbers = Numbers::<u32>(PhantomData);
            run(
                job,
                inputs,
                &output,
                options,
                &numbers,
                &LongLines::default(),
            )
        }
        Unit::Records { record_bytes: 8 } => {
            let numbers = Numbers::<u64>(PhantomData);
            run(
                job,
                inputs,
                &output,
                options,
                &numbers,
                &LongLines::default(),
            )
        }
        Unit::Records { record_bytes } if record_bytes > LARGE_BYTES => {
            shuffle_large(job, inputs, &output, options, record_bytes)
        }
        Unit::Records { record_bytes } => {
            let fixed = Fixed { record_bytes };
            run(job, inputs, &output, options, &fixed, &LongLines::default())
        }
        Unit::Lines {
            terminator,
            drops_blanks,
        } => {
            let lines = Lines {
                terminator,
                drops_blanks,
            };
            shuffle_lines(job, inputs, &output, options, &lines)
        }
    }
}

/// Shuffles large records: draws determine where each one goes, and each is copied from its place.
fn shuffle_large(
    job: &Job,
    inputs: &[Input],
    output: &Output,
    options: ShuffleOptions,
    record_bytes: usize,
) -> Result<ShuffleSummary> {
    if job.options.resume.is_some() {
        return Err(refused("a shuffle of large records cannot be resumed"));
    }
    if job.options.verify_output || job.options.sums_items.is_some() {
        let cause = format!("a shuffle of records of {record_bytes} bytes cannot be verified");
        return Err(Error::usage(VERIFY_OUTPUT, cause).hint("leave out the check of the output"));
    }
    let mut phases = Phases::start();
    let ends = Ends::open(job, inputs, output, record_bytes, Access::Read)?;
    let data_bytes = ends.data_bytes;
    let staged = ends.stage(options.replace, Room::Exactly, data_bytes)?;
    let layout = ends
        .layout(job, &output.places())
        .of_spreadable_output(true);
    let plan = plan_shuffle(ShuffleSize {
        job: JobSize::of(job, data_bytes, layout),
        record_bytes: Some(record_bytes),
        longest_bytes: None,
    })?;
    job.control.show_plan(&plan);
    let (seed, epoch) = (options.seed, options.epoch);
    let order = Shuffled::open(job, inputs, record_bytes, seed, epoch)?;
    let positions = order.positions()?;
    drop(order);
    if positions.len() as u64 != data_bytes / record_bytes as u64 {
        return Err(Error::changed_input("read input", "its length changed"));
    }
    let job = &job.under(&plan.ledger())?;
    phases.end("prepare", &ends.volume);
    job.control.begin_phase(COPY, data_bytes);
    let written = ends.write(job, staged.as_ref(), |sink| {
        copy_records(job, &ends, record_bytes, &positions, sink)
    })?;
    phases.end(COPY, &ends.volume);
    let unnamed = Unnamed::of(staged, written);
    let served = ends.close(job, phases, unnamed, None, false, &plan.phases)?;
    Ok(summary(served, written.items, written.bytes, plan))
}

/// Lines that are longer than a plan allows.
#[derive(Debug, Default)]
struct LongLines {
    /// The longest line, if it was measured.
    longest: Option<Longest>,
    /// Whether there are such lines.
    are_met: AtomicBool,
}

/// Shuffles lines. If a line exceeds the plan's limit, it shuffles again on one thread, with room
/// for one long line at a time.
fn shuffle_lines(
    job: &Job,
    inputs: &[Input],
    output: &Output,
    options: ShuffleOptions,
    lines: &Lines,
) -> Result<ShuffleSummary> {
    let started = Instant::now();
    let mut long = LongLines::default();
    let shuffled = run(job, inputs, output, options, lines, &long);
    let error = match shuffled {
        Err(error) if error.kind() == Kind::Memory && long.are_met.load(Ordering::Relaxed) => error,
        shuffled => return shuffled,
    };
    // Another plan needs another journal.
    forget(job, output)?;
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
    job.control.begin_phase("measure lines", data_bytes);
    let longest = measure(&volume, &parts, lines.terminator, || job.control.check())?;
    if longest.bytes > LINE_BYTES_LIMIT as u64 {
        return Err(error);
    }
    long.longest = Some(longest);
    let mut alone = job.clone();
    alone.options.threads = 1;
    let begun = Instant::now();
    let shuffled = run(&alone, inputs, output, options, lines, &long);
    let mut summary = shuffled.map_err(|again| located(again, &error))?;
    summary.seconds += (begun - started).as_secs_f64();
    Ok(summary)
}

fn run<R: Records>(
    job: &Job,
    inputs: &[Input],
    output: &Output,
    options: ShuffleOptions,
    records: &R,
    long: &LongLines,
) -> Result<ShuffleSummary> {
    let mut phases = Phases::start();
    let record_bytes = match options.unit {
        Unit::Records { record_bytes } => Some(record_bytes),
        Unit::Lines { .. } => None,
    };
    if record_bytes.is_none() && matches!(output, Output::Shards { .. }) {
        let cause = "lines cannot be written as one shard per drive";
        return Err(Error::usage("plan shuffle", cause).hint("write one file"));
    }
    let resumed = Resumed::begin(job, output, identity_of(job, options))?;
    let longest = long.longest.or(resumed.longest());
    let whole_job = &resumed.job(job);
    let job = whole_job;
    let tally = tally_of(job, options.unit)?;
    let element_bytes = record_bytes.unwrap_or(1);
    let ends = Ends::open(job, inputs, output, element_bytes, Access::Read)?;
    let data_bytes = ends.data_bytes;
    // An unterminated last line gets a terminator, which takes one more byte.
    let (room, output_bytes) = match record_bytes {
        Some(_) => (Room::Exactly, data_bytes),
        None => (Room::AtMost, data_bytes + ends.parts.len() as u64),
    };
    let asked = StageRequest {
        replace: options.replace,
        room,
        data_bytes: output_bytes,
    };
    let (staged, mut resumed) = resumed.stage(job, &ends, asked)?;
    let layout = ends
        .layout(job, &output.places())
        .of_spreadable_output(record_bytes.is_some());
    let job_size = resumed.size(JobSize::of(job, data_bytes, layout));
    let plan = plan_shuffle(ShuffleSize {
        job: job_size.clone(),
        record_bytes,
        longest_bytes: longest.map(|longest| longest.bytes),
    })?;
    if let Some(finished) = resumed.finished {
        let served = Served::default();
        return Ok(summary(served, finished.items, data_bytes, plan));
    }
    job.control.show_plan(&plan);
    check_memory(job, &plan.ledger())?;
    let planned = job.under(&plan.ledger())?;
    let job = &planned;
    let (scratch_bytes, is_needed) = (plan.scratch_bytes, plan.distributions > 0);
    let scratch = resumed.scratch(job, &ends, scratch_bytes, is_needed)?;
    phases.end("prepare", &ends.volume);
    let (volume, threads) = (&ends.volume, plan.size.threads);
    let sizes = plan.segment_sizes();
    let (seed, epoch) = (options.seed, options.epoch);
    let mut shared = Shared {
        partition: Partition::new(job, volume, &scratch, sizes, threads, data_bytes)?,
        plan: &plan,
        tree: Tree::new(seed, epoch, data_bytes, element_bytes as u64),
        records,
        tally: tally.as_ref().map(|(tally, _)| tally),
    };
    if let (Some(staged), true) = (&staged, plan.distributions > 0) {
        let division = Division {
            sample_sum: 0,
            bucket_count: fan_out(plan.levels),
            is_reversed: false,
            longest,
        };
        let reading = Reading {
            is_counted: |_| false,
            is_whole: false,
        };
        shared.partition.checkpoints =
            resumed.checkpoints(&shared.partition, staged, job_size, division, reading)?;
    }
    job.control.begin_phase("distribute", data_bytes);
    let buckets = match shared.continued() {
        Some(continued) if !continued.left.needs_input => join_restored(&shared, Vec::new())?,
        _ => distribute(&shared, &ends, long)?,
    };
    check_unchanged(&ends.volume, &ends.parts, false)?;
    let buckets = split_oversized(&shared, buckets)?;
    phases.end("distribute", &ends.volume);
    let written = write_buckets(&shared, buckets, &ends, staged.as_ref())?;
    phases.end("permute", &ends.volume);
    let journal = shared.partition.checkpoints.take().map(Checkpoints::end);
    drop(shared);
    let unnamed = Unnamed {
        journal,
        read_back: tally
            .as_ref()
            .filter(|_| whole_job.options.verify_output)
            .map(|(tally, format)| read_back_of(tally, format, options.unit)),
        ..Unnamed::of(staged, written)
    };
    let scratch = scratch.into_made();
    // The memory of the shuffle is free for the check of the output.
    drop(planned);
    let served = ends.close(whole_job, phases, unnamed, scratch, false, &plan.phases)?;
    Ok(ShuffleSummary {
        totals: tally.as_ref().map(|(tally, _)| tally.totals()),
        ..summary(served, written.items, written.bytes, plan)
    })
}

/// The tally of a job that reads its output back, and the format of records.
///
/// # Errors
/// Usage: a resumed run has not read everything itself.
fn tally_of(job: &Job, unit: Unit) -> Result<Option<(Tally, RecordFormat)>> {
    let record_bytes = match unit {
        Unit::Records { record_bytes } => record_bytes,
        Unit::Lines { .. } => 1,
    };
    let gensort = RecordFormat::gensort();
    let is_gensort = job.options.sums_items == Some(ItemHash::Gensort);
    let format = match is_gensort && record_bytes == gensort.record_bytes() {
        true => gensort,
        false => RecordFormat::without_order(record_bytes)?,
    };
    let tally = tally_of_records(job, &format)?;
    let tally = tally.map(|records| match unit {
        Unit::Records { .. } => records,
        Unit::Lines {
            terminator,
            drops_blanks,
        } => Tally::of_lines(terminator, drops_blanks),
    });
    Ok(tally.map(|tally| (tally, format)))
}

/// The check of the shuffled output, whose order is not checked.
fn read_back_of<'a>(tally: &'a Tally, format: &'a RecordFormat, unit: Unit) -> ReadBack<'a> {
    Box::new(move |job, volume, written| match unit {
        Unit::Records { .. } => {
            let options = CheckOptions {
                unordered: true,
                ..CheckOptions::default()
            };
            let expected = ExpectedRecords {
                tally,
                format,
                options,
            };
            read_back::records(job, volume, written, &expected)
        }
        Unit::Lines { terminator, .. } => {
            let expected = ExpectedLines {
                tally,
                terminator,
                order: None,
            };
            read_back::lines(job, volume, written, &expected)
        }
    })
}

/// The result of a shuffle that followed `plan`.
fn summary(served: Served, records: u64, bytes: u64, plan: ShufflePlan) -> ShuffleSummary {
    ShuffleSummary {
        records,
        bytes,
        seconds: served.seconds,
        read_bytes: served.read_bytes,
        written_bytes: served.written_bytes,
        scratch_bytes: served.scratch_bytes,
        phases: served.phases,
        drives: served.drives,
        plan,
        totals: None,
    }
}

/// What determines the bytes of the output, if the job keeps a journal.
fn identity_of(job: &Job, options: ShuffleOptions) -> Vec<IdentityOption> {
    let Some(resume) = &job.options.resume else {
        return Vec::new();
    };
    let unit = match options.unit {
        Unit::Records { record_bytes } => format!("records of {record_bytes} bytes"),
        Unit::Lines {
            terminator,
            drops_blanks,
        } => format!(
            "lines that end with {terminator}, {} blank ones",
            if drops_blanks { "without" } else { "with" }
        ),
    };
    vec![
        IdentityOption::kind("shuffle"),
        IdentityOption::of("form of lines", &resume.order),
        IdentityOption::of("unit", unit),
        IdentityOption::of("seed", options.seed),
        IdentityOption::of("epoch", options.epoch),
    ]
}

/// Distributes the input, without the chunks that an earlier run has begun.
fn distribute<R: Records>(
    shared: &Shared<'_, R>,
    ends: &Ends<'_>,
    long: &LongLines,
) -> Result<Vec<NodeBucket>> {
    let mut chunks = Chunks::new(ends.parts.clone(), shared.tree.chunk_bytes);
    if let Some(continued) = shared.continued() {
        chunks = chunks.without(continued.restored.begun());
    }
    let distributed = distribute_input(shared, &chunks);
    long.are_met
        .store(chunks.has_long_record(), Ordering::Relaxed);
    distributed
}

/// Permutes all buckets and writes them.
fn write_buckets<R: Records>(
    shared: &Shared<'_, R>,
    mut buckets: Vec<NodeBucket>,
    ends: &Ends<'_>,
    staged: Option<&StagedOutput>,
) -> Result<Written> {
    let items = buckets.iter().map(|bucket| bucket.counts.items).sum();
    let bytes = buckets.iter().map(|bucket| bucket.counts.bytes).sum();
    shared.job.control.begin_phase("permute", bytes);
    buckets.retain(|bucket| bucket.counts.items > 0);
    ends.write(shared.job, staged, |sink| {
        let mut tasks = tasks_in_order(buckets, None);
        take_over(shared, &sink, &mut tasks)?;
        if let Some(staged) = staged {
            interleave(&mut tasks, staged, |task| task.start_bytes);
        }
        permute(shared, tasks, sink)?;
        Ok(Written { items, bytes })
    })
}

#[cfg(test)]
mod tests;
