//! Shuffle: input files in, their records in a random order out, whole or not at all.
//!
//! Model: P. Sanders, "Random permutations on distributed, external and hierarchical memory" (1998),
//! as PALID (Li, Khan, Dhulipala, SPAA 2025) has it on drives: throw every record into a bucket,
//! then permute bucket by bucket.
//!
//! Contract: every order is equally likely. Which one it is depends on the seed, the epoch, the
//! input's bytes and the length of a record alone ([`tree`]): not on threads, drives or memory, so
//! that a shuffle can be repeated elsewhere. No key is stored. Inputs are only read; on any failure
//! nothing is left behind. Lines that their file does not end are ended.
//!
//! Bounds: memory as planned ([`plan`]); I/O 2 reads and 2 writes of the data, less what stays in
//! memory; one more of each for every further distribution. One hash a record and level, three
//! bits each.

mod distribute;
mod order;
mod permute;
mod plan;
mod records;
mod route;
mod tree;

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use self::distribute::{NodeBucket, distribute_input, split_oversized};
pub use self::order::Shuffled;
use self::permute::permute;
pub use self::plan::{ShufflePlan, ShuffleSize, plan_shuffle};
use self::records::{Fixed, Lines, Numbers, Records};
use self::tree::{Node, Tree};
use crate::drive::Access;
use crate::ends::{Input, Output, Phase};
use crate::ends::{
    check_unchanged, edge_pool, interleave, make_scratch, open_inputs, scratch_drives,
    stage_output, traffic_by_drive,
};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::partition::task::{BucketTask, Sink};
use crate::partition::{LazyScratch, Partition};
use crate::read::regions::Chunks;
use crate::volume::Volume;
use crate::volume::output::{Room, StagedOutput};
use crate::volume::scratch::Scratch;
use crate::writer::Writer;

/// What is shuffled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Records of one length.
    Records {
        /// The length.
        record_bytes: usize,
    },
    /// Lines, ended by a byte.
    Lines {
        /// The byte.
        terminator: u8,
    },
}

/// Options of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffleOptions {
    /// What is shuffled.
    pub unit: Unit,
    /// Chooses the order.
    pub seed: u64,
    /// Chooses another one, independent of it, for the same seed.
    pub epoch: u64,
    /// Replace an output that exists.
    pub replace: bool,
}

/// What a shuffle did.
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
    pub drives: Vec<(String, u64, u64)>,
    /// The plan it followed.
    pub plan: ShufflePlan,
}

/// What all threads of a shuffle share.
pub(super) struct Shared<'a, R> {
    partition: Partition<'a>,
    plan: &'a ShufflePlan,
    tree: Tree,
    records: &'a R,
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
/// [`Kind::Usage`] for requests that make no sense, [`Kind::Memory`] if the plan does not fit or a
/// line is too long for it, [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`] (scratch that rotted,
/// input that changed), [`Kind::Interrupted`].
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
            run(job, inputs, output, options, &Numbers::<u32>(PhantomData))
        }
        Unit::Records { record_bytes: 8 } => {
            run(job, inputs, output, options, &Numbers::<u64>(PhantomData))
        }
        Unit::Records { record_bytes } => {
            run(job, inputs, output, options, &Fixed { record_bytes })
        }
        Unit::Lines { terminator } => run(job, inputs, output, options, &Lines { terminator }),
    }
}

fn run<R: Records>(
    job: &Job,
    inputs: &[Input],
    output: Output,
    options: ShuffleOptions,
    records: &R,
) -> Result<ShuffleSummary> {
    let started = Instant::now();
    let mut phases = Vec::new();
    let mut end_phase = |name| {
        let before: f64 = phases.iter().map(|phase: &Phase| phase.seconds).sum();
        let seconds = started.elapsed().as_secs_f64() - before;
        phases.push(Phase { name, seconds });
    };
    let record_bytes = match options.unit {
        Unit::Records { record_bytes } => Some(record_bytes),
        Unit::Lines { .. } => None,
    };
    if record_bytes.is_none() && matches!(output, Output::Shards { .. }) {
        let cause = "lines cannot be written as one shard a drive";
        return Err(Error::usage("plan shuffle", cause).hint("write one file"));
    }
    let element_bytes = record_bytes.unwrap_or(1);
    let drives = scratch_drives(job, &output);
    let volume = Volume::new(Arc::clone(&job.device), &drives)?;
    let parts = open_inputs(&volume, inputs, element_bytes, Access::Read)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    // Lines that their file does not end get a byte more.
    let (room, output_bytes) = match record_bytes {
        Some(_) => (Room::Exactly, data_bytes),
        None => (Room::AtMost, data_bytes + parts.len() as u64),
    };
    let staged = stage_output(
        &volume,
        &output,
        options.replace,
        room,
        output_bytes,
        element_bytes,
    )?;
    let plan = plan_shuffle(ShuffleSize {
        data_bytes,
        record_bytes,
        memory_bytes: job.budget.free_bytes(),
        held_bytes: job.budget.used_bytes(),
        threads: job.options.threads,
        drive_count: volume.drives().len(),
        rates: job.options.rates,
    })?;
    let job = &job.under(&plan.ledger())?;
    let scratch = LazyScratch::new(|| make_scratch(job, &volume, &drives, plan.scratch_bytes));
    if plan.distributions > 0 {
        scratch.get()?;
    }
    end_phase("prepare");
    let shared = Shared {
        partition: Partition::new(
            job,
            (&volume, &scratch),
            plan.segment_sizes(),
            plan.size.threads,
            data_bytes,
        )?,
        plan: &plan,
        tree: Tree::new(
            options.seed,
            options.epoch,
            data_bytes,
            element_bytes as u64,
        ),
        records,
    };
    job.control.begin_phase("distribute", data_bytes);
    let chunks = Chunks::new(parts.clone(), shared.tree.chunk_bytes);
    let buckets = distribute_input(&shared, &chunks)?;
    check_unchanged(&volume, &parts, false)?;
    let buckets = split_oversized(&shared, buckets)?;
    end_phase("distribute");
    let (records_count, bytes) = write_buckets(&shared, buckets, staged.as_ref(), &output)?;
    end_phase("permute");
    drop(shared);
    // Before the output gets its name: what was written is what the files held at one time.
    check_unchanged(&volume, &parts, false)?;
    let scratch = scratch.into_made();
    let scratch_bytes = scratch.as_ref().map_or(0, Scratch::peak_bytes);
    if let Some(scratch) = scratch {
        scratch.remove();
    }
    if let Some(staged) = staged {
        job.control.begin_phase("publish", 0);
        staged.publish(&volume, bytes)?;
    }
    end_phase("publish");
    let (read_bytes, written_bytes) = volume.traffic_bytes();
    Ok(ShuffleSummary {
        records: records_count,
        bytes,
        seconds: started.elapsed().as_secs_f64(),
        read_bytes,
        written_bytes,
        scratch_bytes,
        phases,
        drives: traffic_by_drive(&volume),
        plan,
    })
}

/// Permutes all buckets and writes them; gives the numbers of records and bytes written.
fn write_buckets<R: Records>(
    shared: &Shared<'_, R>,
    buckets: Vec<NodeBucket>,
    staged: Option<&StagedOutput>,
    output: &Output,
) -> Result<(u64, u64)> {
    let records: u64 = buckets.iter().map(|bucket| bucket.counts.items).sum();
    let bytes: u64 = buckets.iter().map(|bucket| bucket.counts.bytes).sum();
    shared.job.control.begin_phase("permute", bytes);
    if let Some(scratch) = shared.scratch.made() {
        scratch.seal();
    }
    let mut start_bytes = 0;
    let filled = buckets.into_iter().filter(|bucket| bucket.counts.items > 0);
    let mut tasks: Vec<BucketTask<Node>> = filled
        .map(|bucket| {
            let task_start_bytes = start_bytes;
            start_bytes += bucket.counts.bytes;
            BucketTask {
                bucket,
                start_bytes: task_start_bytes,
            }
        })
        .collect();
    if let Some(staged) = staged {
        interleave(&mut tasks, staged, |task| task.start_bytes);
    }
    let edges = edge_pool(shared.job)?;
    let writer = staged.map(|staged| Writer::new(staged, edges));
    let sink = match (&writer, output) {
        (Some(writer), _) => Sink::Files(writer),
        (None, Output::Pipe(pipe)) => Sink::Pipe(pipe),
        (None, _) => return Ok((0, 0)),
    };
    permute(shared, tasks, sink)?;
    if let (Some(writer), Some(staged)) = (&writer, staged) {
        let mut port = shared.volume.port()?;
        if let Output::File {
            header: Some(make), ..
        } = output
        {
            let mut header = make(records);
            header.resize(staged.shards()[0].plan.header.len(), b' ');
            writer.write_header(&mut port, &header);
        }
        writer.finish(&mut port, bytes)?;
    }
    if let Output::Pipe(pipe) = output {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.flush()
            .map_err(|e| Error::io("write to the pipe", &e))?;
    }
    Ok((records, bytes))
}

#[cfg(test)]
mod tests;
