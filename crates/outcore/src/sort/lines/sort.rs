//! External samplesort of lines: input files in, one sorted output, whole or not at all.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), section 4, for records of any length.
//!
//! Contract: the output is the input's lines, each ended by the terminator, ordered by key and then
//! as the order says. Its bytes depend on the input, the order and the options alone. Inputs are only
//! read. On any failure nothing is left behind.
//!
//! Bounds: memory as planned ([`super::plan`]); I/O 2 reads and 2 writes of the data, less what stays
//! in memory and what is only counted, plus the sample.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::bucket::{LineBucket, Space, TableLines};
use super::context::Context;
use super::cut::{CutSize, LineCut};
use super::distribute::distribute_input;
use super::plan::{LineSize, TABLES, plan_lines};
use super::sample::{LineSample, Lines, Wanted, sample_input};
use super::sort_task::{self, TaskSizes};
use super::split::split_oversized;
use super::table::{Tables, sort_tables};
use super::{LineSortOptions, LineSummary};
use crate::drive::Access;
use crate::ends::{Input, Output, Phases};
use crate::ends::{
    check_unchanged, edge_pool, make_scratch, open_inputs, scratch_drives, stage_output,
    traffic_by_drive,
};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::key::sort_key::SortKey;
use crate::partition::task::{BucketTask, Sink, Tasks};
use crate::partition::{LazyScratch, Partition};
use crate::read::source::InputPart;
use crate::volume::output::{Room, StagedOutput};
use crate::volume::scratch::Scratch;
use crate::volume::{Port, Volume};
use crate::writer::Writer;

/// Sorts the lines of `inputs`, one file after another, into `output`.
///
/// # Errors
/// [`crate::Kind::Usage`] for shards, [`crate::Kind::Memory`] if the plan or the longest line does not
/// fit, [`crate::Kind::Corrupt`] for lines without a key, scratch that rotted or input that changed,
/// [`crate::Kind::NoSpace`], [`crate::Kind::Io`], [`crate::Kind::Interrupted`].
pub fn sort_lines(
    job: &Job,
    inputs: &[Input],
    output: Output,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSummary> {
    check_output(&output, options)?;
    let mut phases = Phases::start();
    let drives = scratch_drives(job, &output);
    let volume = Volume::new(Arc::clone(&job.device), &drives)?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    // A file may lack its last terminator.
    let most_bytes = data_bytes + parts.len() as u64;
    // What counts add is known later.
    let mut staged = match options.count {
        true => None,
        false => stage(&volume, &output, options, most_bytes)?,
    };
    phases.end("prepare");
    job.control.begin_phase("sample", 0);
    let lines = Lines {
        order,
        terminator: options.terminator,
    };
    let mut sample = sample_input(job, &volume, &parts, lines, Wanted::Splitters)?;
    sample.sort();
    let is_unique = options.unique || options.count;
    let drive_count = volume.drives().len();
    let plan = plan_lines(sample.size(job, lines, data_bytes, is_unique, drive_count))?;
    let job = &job.under(&plan.ledger())?;
    let scratch = LazyScratch::new(|| make_scratch(job, &volume, &drives, plan.scratch_bytes));
    if plan.scratch_bytes > 0 {
        scratch.get()?;
    }
    let context = Context {
        partition: Partition::new(
            job,
            (&volume, &scratch),
            plan.segment_sizes(),
            plan.size.threads,
            data_bytes,
        )?,
        order,
        options,
        plan: &plan,
        parts: &parts,
        skipped: AtomicU64::new(0),
    };
    let cut = choose_cut(&context, &sample);
    drop(sample);
    phases.end("sample");
    job.control.begin_phase("distribute", data_bytes);
    let table_bytes = plan.table_bytes * plan.size.threads as u64;
    let _tables = job.budget.reserve(TABLES, table_bytes)?;
    let (mut buckets, tables) = distribute_input(&context, &cut)?;
    check_unchanged(&volume, &parts, false)?;
    let tables = sort_tables(&context, tables)?;
    let lines_in = buckets.iter().map(|b| b.counts.items).sum::<u64>()
        + tables.lines()
        + context.skipped.load(Ordering::Relaxed);
    tables.assign(&cut, &mut buckets);
    let (buckets, splits) = split_oversized(&context, &tables, buckets)?;
    phases.end("distribute");
    if options.count {
        let counted_bytes = buckets.iter().map(LineBucket::counted_bytes_max).sum();
        staged = stage(&volume, &output, options, counted_bytes)?;
    }
    let written = sort_buckets(&context, &tables, buckets, staged.as_ref(), &output)?;
    phases.end("sort");
    let skipped = context.skipped.load(Ordering::Relaxed);
    drop(context);
    // Once the output has its name, there may be no other copy.
    check_unchanged(&volume, &parts, false)?;
    let scratch = scratch.into_made();
    let scratch_bytes = scratch.as_ref().map_or(0, Scratch::peak_bytes);
    // Gives its space back before the output's name needs some.
    if let Some(scratch) = scratch {
        scratch.remove();
    }
    if let Some(staged) = staged {
        job.control.begin_phase("publish", 0);
        staged.publish(&volume, written.bytes)?;
    }
    phases.end("publish");
    let (read_bytes, written_bytes) = volume.traffic_bytes();
    Ok(LineSummary {
        lines_in,
        lines_out: written.lines,
        skipped,
        bytes_out: written.bytes,
        seconds: phases.started.elapsed().as_secs_f64(),
        read_bytes,
        written_bytes,
        passes: 1 + splits + u32::from(scratch_bytes > 0),
        scratch_bytes,
        drives: traffic_by_drive(&volume),
        phases: phases.ended,
        plan: Some(plan),
    })
}

/// What [`sort_lines`] would plan with, told from a sample of `inputs`.
///
/// # Errors
/// As [`sort_lines`] for the inputs.
pub fn sample_lines(
    job: &Job,
    inputs: &[Input],
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSize> {
    let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let is_unique = options.unique || options.count;
    let lines = Lines {
        order,
        terminator: options.terminator,
    };
    let mut sample = sample_input(job, &volume, &parts, lines, Wanted::Splitters)?;
    sample.sort();
    let drive_count = volume.drives().len().max(1);
    Ok(sample.size(job, lines, data_bytes, is_unique, drive_count))
}

/// How long the lines and keys of files that are open are; how many differ is not told.
pub(crate) fn sample_lengths(
    job: &Job,
    volume: &Volume,
    parts: &[InputPart],
    order: &dyn SortKey,
    terminator: u8,
) -> Result<LineSize> {
    let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
    let lines = Lines { order, terminator };
    let sample = sample_input(job, volume, parts, lines, Wanted::Lengths)?;
    let drive_count = volume.drives().len().max(1);
    Ok(sample.size(job, lines, data_bytes, false, drive_count))
}

/// Refuses what lines cannot be written to, before any work.
pub(super) fn check_output(output: &Output, options: LineSortOptions) -> Result<()> {
    match output {
        Output::Shards { .. } => Err(Error::usage(
            "plan the sort of lines",
            "lines cannot be written one shard a drive",
        )
        .hint("write one file")),
        Output::File { path, .. } if !options.replace && path.exists() => {
            Err(Error::usage("create output", "it exists already")
                .path(path)
                .hint("allow overwriting with --force"))
        }
        _ => Ok(()),
    }
}

fn stage(
    volume: &Volume,
    output: &Output,
    options: LineSortOptions,
    most_bytes: u64,
) -> Result<Option<StagedOutput>> {
    let room = match options.unique || options.count {
        true => Room::AtMost,
        false => Room::Exactly,
    };
    stage_output(volume, output, options.replace, room, most_bytes, 1)
}

/// Splitters for the plan's buckets; those of frequent keys come on top, as far as there are buffers.
fn choose_cut(context: &Context<'_>, sample: &LineSample) -> LineCut {
    let plan = context.plan;
    let own = match plan.levels {
        0 => plan.size.data_bytes / plan.segment_bytes as u64,
        _ => 0,
    };
    let resident = plan.resident_segments.saturating_sub(own as usize);
    let spare = match context.is_whole() {
        // What is only counted needs no buffers.
        true => plan.bucket_count,
        false => (resident / plan.size.threads).min(plan.bucket_count),
    };
    let size = CutSize {
        ranges: plan.bucket_count,
        buckets_max: plan.bucket_count + spare,
        heavy_share: if context.is_whole() { 0.25 } else { 0.75 },
    };
    let cut = LineCut::choose(&sample.keys, size);
    if !context.is_whole() {
        let extra = cut.bucket_count().saturating_sub(plan.bucket_count);
        context.take_resident(extra * plan.size.threads);
    }
    cut
}

/// What was written.
struct Written {
    lines: u64,
    bytes: u64,
}

/// Sorts all buckets and writes them.
fn sort_buckets(
    context: &Context<'_>,
    tables: &Tables,
    buckets: Vec<LineBucket>,
    staged: Option<&StagedOutput>,
    output: &Output,
) -> Result<Written> {
    let job = context.job;
    let bytes: u64 = buckets.iter().map(|bucket| bucket.counts.bytes).sum();
    job.control.begin_phase("sort", bytes);
    if let Some(scratch) = context.scratch.made() {
        scratch.seal();
    }
    let edges = edge_pool(job)?;
    let writer = staged.map(|staged| Writer::new(staged, edges));
    let (sink, is_file) = match (&writer, output) {
        (Some(writer), _) => (Sink::Files(writer), true),
        (None, Output::Pipe(pipe)) => (Sink::Pipe(pipe), false),
        (None, _) => return Ok(Written { lines: 0, bytes: 0 }),
    };
    let sizes = SizeChoice::of(context, &buckets)?;
    let takes_turns = context.is_unique() || !is_file;
    let list = make_tasks(context, buckets, takes_turns);
    let needs: Vec<bool> = list
        .iter()
        .map(|task| sizes.is_alone(context, &task.bucket))
        .collect();
    let alone: Vec<Option<Space>> = list
        .iter()
        .zip(&needs)
        .map(|(task, &is_alone)| is_alone.then(|| task.bucket.space(!context.is_whole())))
        .collect();
    let tasks = Tasks::new(list, sink);
    let lines = AtomicU64::new(0);
    let mut from = 0;
    while from < alone.len() {
        let many = alone[from..]
            .iter()
            .take_while(|space| space.is_none())
            .count();
        let (to, sizes, threads) = match alone[from] {
            Some(space) => (from + 1, sizes.for_one(space), 1),
            None => (from + many, sizes.for_many, context.crew.threads()),
        };
        tasks.take_to(to);
        sort_task::run(context, &tasks, (tables, &lines), sizes, threads)?;
        from = to;
    }
    let lines = lines.load(Ordering::Relaxed);
    let bytes = match takes_turns {
        true => tasks.turns.placed().count,
        false => bytes,
    };
    if let Some(writer) = &writer {
        let mut port = context.volume.port()?;
        write_header(writer, &mut port, staged, output, lines);
        writer.finish(&mut port, bytes)?;
    }
    if let Output::Pipe(pipe) = output {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.flush()
            .map_err(|e| Error::io("write to the pipe", &e))?;
    }
    Ok(Written { lines, bytes })
}

/// Writes the header of a file that has one, once the number of lines is known.
pub(super) fn write_header(
    writer: &Writer,
    port: &mut Port,
    staged: Option<&StagedOutput>,
    output: &Output,
    lines: u64,
) {
    let shard = staged.and_then(|staged| staged.shards().first());
    if let (
        Some(shard),
        Output::File {
            header: Some(make), ..
        },
    ) = (shard, output)
    {
        let mut header = make(lines);
        header.resize(shard.plan.header.len(), b' ');
        writer.write_header(port, &header);
    }
}

/// How much memory workers get for a bucket, and which buckets need more than that.
struct SizeChoice {
    for_many: TaskSizes,
}

impl SizeChoice {
    /// Room for the largest bucket if there is as much for every thread, or as planned.
    fn of(context: &Context<'_>, buckets: &[LineBucket]) -> Result<Self> {
        let plan = context.plan;
        let has_keys = !context.is_whole();
        let mut largest = Space {
            area_bytes: 0,
            lines: 0,
            key_bytes: 0,
        };
        for bucket in buckets {
            let space = bucket.space(has_keys);
            largest.area_bytes = largest.area_bytes.max(space.area_bytes);
            largest.lines = largest.lines.max(space.lines);
            largest.key_bytes = largest.key_bytes.max(space.key_bytes);
        }
        let mut sizes = TaskSizes {
            space: largest,
            areas: plan.areas,
            chunk_bytes: plan.chunk_bytes,
            chunks: plan.chunks,
        };
        let is_enough = |sizes: &TaskSizes| {
            sizes.bytes() * context.crew.threads() as u64 <= context.sorting_bytes()
                && sizes.space.area_bytes <= u64::from(u32::MAX / 2)
                && sizes.space.key_bytes <= u64::from(u32::MAX / 2)
        };
        while !is_enough(&sizes) && sizes.areas > 2 {
            sizes.areas -= 1;
        }
        if !is_enough(&sizes) {
            sizes.areas = plan.areas;
            sizes.space = plan.leaf_space();
        }
        Ok(SizeChoice { for_many: sizes })
    }

    fn is_alone(&self, context: &Context<'_>, bucket: &LineBucket) -> bool {
        !self
            .for_many
            .space
            .holds(&bucket.space(!context.is_whole()))
    }

    /// Memory for one bucket that is sorted alone.
    fn for_one(&self, space: Space) -> TaskSizes {
        TaskSizes {
            space,
            areas: 1,
            chunk_bytes: self.for_many.chunk_bytes,
            chunks: 2,
        }
    }
}

/// Bucket tasks in output order; copies of one line are cut into pieces that several threads write.
fn make_tasks(
    context: &Context<'_>,
    mut buckets: Vec<LineBucket>,
    takes_turns: bool,
) -> Vec<BucketTask<TableLines>> {
    if context.order.is_descending() {
        buckets.reverse();
    }
    let mut tasks = Vec::with_capacity(buckets.len());
    let mut start_bytes = 0;
    for mut bucket in buckets {
        let (lines, bytes) = (bucket.counts.items, bucket.counts.bytes);
        let Some(line) = bucket.copies_of.clone().filter(|_| !takes_turns) else {
            if bucket.lines_max() > 0 {
                tasks.push(BucketTask {
                    bucket,
                    start_bytes,
                });
                start_bytes += bytes;
            }
            continue;
        };
        let each = (context.plan.leaf_bytes_max / line.len()).max(1) as u64;
        for first in (0..lines).step_by(each as usize) {
            let mut piece = LineBucket {
                copies_of: Some(line.clone()),
                ..LineBucket::default()
            };
            piece.counts.items = each.min(lines - first);
            piece.counts.bytes = piece.counts.items * line.len() as u64;
            tasks.push(BucketTask {
                bucket: piece,
                start_bytes: start_bytes + first * line.len() as u64,
            });
        }
        start_bytes += bytes;
        bucket.segments.clear();
    }
    tasks
}
