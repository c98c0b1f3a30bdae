//! External samplesort: input files in, one sorted output, whole or not at all.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), section 4: sample, splitters, one distribution
//! pass with per-thread bucket buffers, then each bucket is read, sorted in memory and written at
//! its final offset while the next ones load. Oversized buckets are distributed again; buckets of
//! equal elements are not sorted.
//!
//! Contract: the output is the input's elements ordered by key, then by their bytes (or by their
//! place in the input if stable). Its bytes depend on the input and the options alone. Inputs are
//! only read, unless the caller asked for them to be freed. On any failure nothing is left behind.
//!
//! Bounds: memory as planned ([`crate::sort::plan`]); I/O 2 reads and 2 writes of the data, less what
//! stays in memory, plus the sample; one more of each for every further level.

mod distribute;
pub(crate) mod elements;
pub(crate) mod in_memory;
pub mod lines;
pub mod plan;
mod shared;
mod split;
mod splitters;
mod task;

use std::io::Write;
use std::sync::{Arc, PoisonError};

use self::distribute::distribute_blocks;
use self::elements::{Bare, Elements, Records};
use self::in_memory::SortKeys;
use self::plan::{SortPlan, SortSize, plan_sort};
use self::shared::Shared;
use self::split::split_oversized;
use self::splitters::KeyCut;
use crate::drive::Access;
use crate::ends::{Input, Output, Phase, Phases};
use crate::ends::{
    check_unchanged, edge_pool, interleave, make_scratch, open_inputs, scratch_drives,
    stage_output, traffic_by_drive,
};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::key::bare::{BareClass, BareOrder};
use crate::key::order::{Order, OrderOptions};
use crate::key::record::RecordFormat;
use crate::key::sort_key::Tie;
use crate::partition::bucket::Bucket;
use crate::partition::task::{BucketTask, Sink, Tasks};
use crate::partition::{LazyScratch, Partition};
use crate::read::sample::sample;
use crate::read::source::{Blocks, InputPart};
use crate::volume::Volume;
use crate::volume::consumed::Consumed;
use crate::volume::output::{Room, StagedOutput};
use crate::volume::scratch::Scratch;
use crate::writer::Writer;

/// Options of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortOptions {
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys keep their order in the input.
    pub stable: bool,
    /// One element a key: the first of them in the order.
    pub unique: bool,
    /// Replace an output that exists.
    pub replace: bool,
    /// Give blocks of the input back to the file system once they have been read, where scratch needs
    /// their room. Data that are then only in memory or on scratch are lost if the job fails: the input
    /// is marked before the first block goes (see [`crate::volume::consumed`]), and who removes it
    /// afterwards removes the marker.
    pub delete_input: bool,
}

/// What a sort did.
#[derive(Debug, Clone)]
pub struct SortSummary {
    /// Elements in the output.
    pub records: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Times that data were read and written: those of which this was done most often.
    pub passes: u32,
    /// Most scratch in use at once.
    pub scratch_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<(String, u64, u64)>,
    /// The plan it followed.
    pub plan: Option<SortPlan>,
}

/// Sorts `inputs`, in the given order, into `output`.
///
/// # Errors
/// [`Kind::Usage`] for requests that make no sense, [`Kind::Memory`] if the plan does not fit,
/// [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`] (scratch that rotted, input that changed),
/// [`Kind::Interrupted`].
pub fn sort(
    job: &Job,
    inputs: &[Input],
    output: Output,
    format: &RecordFormat,
    options: SortOptions,
) -> Result<SortSummary> {
    let bare = BareOrder::of(format, options.descending);
    match bare {
        Some(order) => match order.class() {
            BareClass::U32 => run(job, inputs, output, options, &Bare::<u32>::new(order)),
            BareClass::U64 => run(job, inputs, output, options, &Bare::<u64>::new(order)),
            BareClass::U128 => run(job, inputs, output, options, &Bare::<u128>::new(order)),
        },
        None => {
            let tie = if options.stable {
                Tie::Position
            } else {
                Tie::Bytes
            };
            let order = Order::new(
                format,
                OrderOptions {
                    descending: options.descending,
                    tie,
                },
            );
            run(job, inputs, output, options, &Records::new(order))
        }
    }
}

/// The plan that [`sort`] would follow for data of `data_bytes` on `drive_count` drives.
pub fn plan(
    job: &Job,
    data_bytes: u64,
    format: &RecordFormat,
    options: SortOptions,
    drive_count: usize,
) -> Result<SortPlan> {
    let is_bare = format.bare().is_some();
    plan_sort(SortSize {
        data_bytes,
        element_bytes: format.record_bytes(),
        is_bare,
        is_ordered: options.stable && !is_bare,
        memory_bytes: job.budget.free_bytes(),
        threads: job.options.threads,
        drive_count: drive_count.max(1),
        rates: job.options.rates,
    })
}

fn run<E>(
    job: &Job,
    inputs: &[Input],
    output: Output,
    options: SortOptions,
    elements: &E,
) -> Result<SortSummary>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    if options.unique && matches!(output, Output::Shards { .. }) {
        return Err(
            Error::usage("plan sort", "--unique cannot write one shard a drive")
                .hint("write one file, or drop --unique"),
        );
    }
    let mut phases = Phases::start();
    let drives = scratch_drives(job, &output);
    let volume = Volume::new(Arc::clone(&job.device), &drives)?;
    let element_bytes = elements.element_bytes();
    let access = if options.delete_input {
        Access::Update
    } else {
        Access::Read
    };
    let parts = open_inputs(&volume, inputs, element_bytes, access)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let room = match options.unique {
        true => Room::AtMost,
        false => Room::Exactly,
    };
    let staged = stage_output(
        &volume,
        &output,
        options.replace,
        room,
        data_bytes,
        element_bytes,
    )?;
    let plan = plan_sort(SortSize {
        data_bytes,
        element_bytes,
        is_bare: elements.is_bare(),
        is_ordered: options.stable && !elements.is_bare(),
        memory_bytes: job.budget.free_bytes(),
        threads: job.options.threads,
        drive_count: volume.drives().len(),
        rates: job.options.rates,
    })?;
    let job = &job.under(&plan.ledger())?;
    let scratch = LazyScratch::new(|| make_scratch(job, &volume, &drives, plan.scratch_bytes));
    if plan.levels > 0 {
        scratch.get()?;
    }
    // What stays in memory saves no room by being freed early, and would be lost if the job were killed.
    let is_consumed = options.delete_input && plan.levels > 0;
    let paths = inputs.iter().map(|input| input.path.as_path());
    let consumed = is_consumed.then(|| Consumed::new(paths));
    phases.end("prepare");
    let sizes = plan.segment_sizes();
    let shared = Shared {
        partition: Partition::new(
            job,
            (&volume, &scratch),
            sizes,
            plan.size.threads,
            data_bytes,
        )?,
        elements,
        plan: &plan,
        consumed: consumed.map(|consumed| (consumed, staged.as_ref())),
    };
    let cut = sample_input(&shared, &parts)?;
    phases.end("sample");
    let buckets = distribute_input(&shared, &parts, &cut)?;
    let (buckets, splits) = split_oversized(&shared, buckets)?;
    phases.end("distribute");
    let written = sort_buckets(&shared, buckets, staged.as_ref(), &output, options)?;
    phases.end("sort");
    drop(shared);
    // Once the output has its name, there may be no other copy.
    check_unchanged(&volume, &parts, is_consumed)?;
    let scratch = scratch.into_made();
    let scratch_bytes = scratch.as_ref().map_or(0, Scratch::peak_bytes);
    let written_bytes = written * element_bytes as u64;
    finish(job, &volume, (scratch, is_consumed), staged, written_bytes)?;
    phases.end("publish");
    let mut summary = summarise(&volume, phases, written, scratch_bytes, plan);
    summary.passes = match (scratch_bytes, summary.passes) {
        (0, _) => 1,
        (_, planned) => 1 + splits + u32::from(planned > 1),
    };
    Ok(summary)
}

/// Gives scratch back and publishes what was staged.
fn finish(
    job: &Job,
    volume: &Volume,
    (scratch, is_consumed): (Option<Scratch>, bool),
    staged: Option<StagedOutput>,
    written_bytes: u64,
) -> Result<()> {
    // Its space is needed by the output's names and records, unless it holds what the inputs do not any
    // more.
    let kept = match scratch {
        Some(scratch) if !is_consumed => {
            scratch.remove();
            None
        }
        other => other,
    };
    if let Some(staged) = staged {
        job.control.begin_phase("publish", 0);
        staged.publish(volume, written_bytes)?;
    }
    if let Some(scratch) = kept {
        scratch.remove();
    }
    Ok(())
}

fn summarise(
    volume: &Volume,
    phases: Phases,
    records: u64,
    scratch_bytes: u64,
    plan: SortPlan,
) -> SortSummary {
    let (read_bytes, written_bytes) = volume.traffic_bytes();
    SortSummary {
        records,
        seconds: phases.started.elapsed().as_secs_f64(),
        read_bytes,
        written_bytes,
        passes: plan.levels + 1,
        scratch_bytes,
        drives: traffic_by_drive(volume),
        phases: phases.ended,
        plan: Some(plan),
    }
}

/// How the input is cut into buckets, told from random places of it.
fn sample_input<E: Elements>(
    shared: &Shared<'_, E>,
    parts: &[InputPart],
) -> Result<KeyCut<E::Key>> {
    let (job, plan, elements) = (shared.job, shared.plan, shared.elements);
    job.control.begin_phase("sample", 0);
    let sampled = sample(
        shared.volume,
        &job.budget,
        parts,
        elements.element_bytes(),
        plan.sample_reads,
        plan.sample_read_bytes,
        job.options.seed,
    )?;
    let buckets_max = plan.bucket_count + plan.spare_buckets();
    let wanted = plan.bucket_count;
    let cut = KeyCut::choose(elements, &sampled, true, 0, wanted, buckets_max)?;
    // A bucket more than planned takes a buffer a thread from what may stay in memory; a few, that
    // even the smallest cut has, come out of the buffers for splits.
    let extra = cut.bucket_count().saturating_sub(plan.bucket_count);
    shared.take_resident(extra.min(plan.spare_buckets()) * plan.size.threads);
    Ok(cut)
}

/// The first distribution, from the input's files.
fn distribute_input<E: Elements>(
    shared: &Shared<'_, E>,
    parts: &[InputPart],
    cut: &KeyCut<E::Key>,
) -> Result<Vec<Bucket>> {
    let plan = shared.plan;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    shared.job.control.begin_phase("distribute", data_bytes);
    let blocks = Blocks::new(
        parts.to_vec(),
        shared.elements.element_bytes(),
        plan.read_block_bytes,
    );
    let resident_bytes = (plan.resident_segments * plan.segment_payload_bytes) as u64;
    let resident_below = if resident_bytes >= data_bytes {
        usize::MAX
    } else {
        shared.resident_below(cut.bucket_count(), data_bytes)
    };
    let keep_partials = plan.levels <= 1;
    let buckets = distribute_blocks(shared, &blocks, cut, resident_below, keep_partials)?;
    check_unchanged(shared.volume, parts, shared.consumed.is_some())?;
    Ok(buckets)
}

/// Sorts all buckets and writes them; gives the number of elements written.
fn sort_buckets<E>(
    shared: &Shared<'_, E>,
    buckets: Vec<Bucket>,
    staged: Option<&StagedOutput>,
    output: &Output,
    options: SortOptions,
) -> Result<u64>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    let element_bytes = shared.elements.element_bytes() as u64;
    let count: u64 = buckets.iter().map(|bucket| bucket.counts.items).sum();
    shared
        .job
        .control
        .begin_phase("sort", count * element_bytes);
    if let Some(scratch) = shared.scratch.made() {
        scratch.seal();
    }
    let mut list = make_tasks(shared, buckets, options.unique);
    if let Some(staged) = staged.filter(|_| !options.unique) {
        interleave(&mut list, staged, |task| task.start_bytes);
    }
    let edges = edge_pool(shared.job)?;
    let writer = staged.map(|staged| Writer::new(staged, edges));
    let sink = match (&writer, output) {
        (Some(writer), _) => Sink::Files(writer),
        (None, Output::Pipe(pipe)) => Sink::Pipe(pipe),
        (None, _) => return Ok(0),
    };
    let tasks = Tasks::new(list, sink);
    task::run(shared, &tasks, options.unique)?;
    let written = if options.unique {
        tasks.turns.placed().count
    } else {
        count
    };
    if let (Some(writer), Some(staged)) = (&writer, staged) {
        let mut port = shared.volume.port()?;
        if let Output::File {
            header: Some(make), ..
        } = output
        {
            let mut header = make(written);
            header.resize(staged.shards()[0].plan.header.len(), b' ');
            writer.write_header(&mut port, &header);
        }
        writer.finish(&mut port, written * element_bytes)?;
    }
    if let Output::Pipe(pipe) = output {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.flush()
            .map_err(|e| Error::io("write to the pipe", &e))?;
    }
    Ok(written)
}

/// Bucket tasks in output order; copies of one element are cut into pieces that fit an area.
fn make_tasks<E: Elements>(
    shared: &Shared<'_, E>,
    buckets: Vec<Bucket>,
    is_unique: bool,
) -> Vec<BucketTask> {
    let element_bytes = shared.elements.element_bytes() as u64;
    let items_max = shared.plan.leaf_bytes_max as u64 / element_bytes;
    let mut tasks = Vec::with_capacity(buckets.len());
    let mut start = 0;
    for mut bucket in buckets {
        let end = start + bucket.counts.items;
        let step = match bucket.copies_of.is_some() && !is_unique {
            true => items_max,
            false => bucket.counts.items,
        };
        while start < end {
            let mut part = Bucket {
                segments: std::mem::take(&mut bucket.segments),
                depth: bucket.depth,
                copies_of: bucket.copies_of.clone(),
                ..Bucket::default()
            };
            part.counts.items = step.min(end - start);
            part.counts.bytes = part.counts.items * element_bytes;
            tasks.push(BucketTask {
                start_bytes: start * element_bytes,
                bucket: part,
            });
            start += step.min(end - start);
        }
    }
    tasks
}
