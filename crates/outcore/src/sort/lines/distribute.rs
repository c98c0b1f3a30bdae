//! Distribution of lines: one pass that moves every line to its bucket.
//!
//! Model: PALID (SPAA 2025), section 3 (in-memory bucketer, batched writer) and 4 (samplesort).
//!
//! Contract: each worker takes stretches of the input, finds their lines, and makes keys if lines
//! are not their own keys. It routes a batch and copies each line with its terminator once
//! ([`crate::partition::pass`]). In buckets of equal keys, lines that are their own keys are only
//! counted. If one line per key is written, all lines except for the first in the order are only
//! counted as well. Lines that a worker has in a table of distinct lines are not moved.
//!
//! Bounds: those of the plan; the source is read once, each line is written at most once. In
//! ordered jobs segments list the runs of the input in them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Places;
use super::bucket::LineBucket;
use super::context::Context;
use super::mark::{append_mark, place_of};
use super::plan::{ACROSS, INPUT, LONG_MADE, MARKED, MARKED_BATCH_BYTES};
use super::refs::Ref;
use super::rows::{RowBatch, RowSource, TakenRows};
use super::sides::Side;
use super::splitters::{LineRoute, LineSplitters};
use super::table::Table;
use crate::key::sort_key::Tie;
use crate::partition::bucket::{Out, Segment, join_outs};
use crate::partition::copies::record_distributed;
use crate::partition::mover::{Item, MadeKeys, Mover, Run, VaryingItems, VaryingMover};
use crate::partition::pass::{TakeShare, read_all};
use crate::partition::refine::{BucketSource, scatter_segments};
use crate::partition::restored::Rest;
use crate::partition::route::{PositionRoute, Route};
use crate::partition::scatter::{RunStart, ScatterWorker, Scattering};
use crate::partition::spill::{Resident, Spilling};
use crate::read::csv::first_across_lines;
use crate::read::framing::ItemFraming;
use crate::read::json::is_blank;
use crate::read::regions::{Chunks, Region, RegionReader, Terminated};
use crate::read::terminators::Terminators;
use outcore_io::memory::Pool;
use outcore_io::{Error, Result};

/// The line of an equality bucket that will be written, with its framing if it has one, and its
/// position in the input.
struct Best {
    position: u64,
    line: Vec<u8>,
    /// Number of the bucket's lines from the second of two sides.
    second_side: u64,
}

impl Best {
    /// Whether a line, with its framing, comes before the one to be written. Terminators are not
    /// compared: some bytes are smaller than a terminator, but a line that is a prefix of another
    /// comes first.
    fn is_behind(&self, context: &Context<'_>, line: &[u8], position: u64) -> bool {
        let content = |line| context.framing.content(line);
        let (line, best) = (content(line), content(&self.line));
        match context.order.tie() {
            Tie::Position => position < self.position,
            Tie::Bytes => line < best,
            Tie::BytesDescending => line > best,
        }
    }
}

/// The lines of one worker: routed by keys that are made from them, or by themselves.
struct Lines<'a, const HAS_KEYS: bool> {
    context: &'a Context<'a>,
    /// For each bucket, whether its lines are equal and only counted.
    is_equal: Vec<bool>,
    /// For each bucket of equal keys whose lines are only counted, the line that will be written.
    best: Vec<Option<Best>>,
}

impl<'a, const HAS_KEYS: bool> Lines<'a, HAS_KEYS> {
    /// For `count` buckets; `is_equal` is true for those with equal keys.
    fn new(context: &'a Context<'a>, count: usize, is_equal: impl Fn(usize) -> bool) -> Self {
        let is_counted = !HAS_KEYS || context.is_unique();
        Lines {
            context,
            is_equal: (0..count)
                .map(|bucket| is_counted && is_equal(bucket))
                .collect(),
            best: (0..count).map(|_| None).collect(),
        }
    }
}

impl<const HAS_KEYS: bool> VaryingItems for Lines<'_, HAS_KEYS> {
    const HAS_KEYS: bool = HAS_KEYS;

    fn framing(&self) -> ItemFraming {
        self.context.framing
    }

    fn is_left_out(&self, line: &[u8]) -> bool {
        !HAS_KEYS && self.context.options.drops_blanks && is_blank(line)
    }

    fn make_keys(
        &mut self,
        run: &Run<'_>,
        lines: &mut Vec<Ref>,
        keys: &mut MadeKeys,
    ) -> Result<()> {
        let context = self.context;
        keys.clear();
        let mut kept = 0;
        for index in 0..lines.len() {
            let line = lines[index];
            let at = keys.area.len();
            let made = context
                .order
                .append_key(line.bytes(run.bytes), &mut keys.area);
            if let Err(why) = made {
                keys.area.truncate(at);
                let place = run.place;
                let place = match context.options.places {
                    Places::Added => place_of(line.bytes(run.bytes), context.parts),
                    _ => place.map(|(part, at)| (part, at + u64::from(line.at))),
                };
                context.no_key(place, &why)?;
                if let Some(tally) = context.read {
                    tally.leave_out(line.bytes(run.bytes));
                }
                continue;
            }
            keys.refs.push(Ref::to(at, keys.area.len()));
            lines[kept] = line;
            kept += 1;
        }
        lines.truncate(kept);
        Ok(())
    }

    /// For lines with equal keys, of which one will be written, keeps the first in the order.
    #[inline]
    fn is_counted(&mut self, line: Item<'_>) -> bool {
        if !self.is_equal[line.bucket] {
            return false;
        }
        if HAS_KEYS {
            let context = self.context;
            let best = &mut self.best[line.bucket];
            let is_first = |best: &Best| best.is_behind(context, line.bytes, line.position);
            let before = best.as_ref().map_or(0, |best| best.second_side);
            if best.as_ref().is_none_or(is_first) {
                *best = Some(Best {
                    position: line.position,
                    line: line.bytes.to_vec(),
                    second_side: before,
                });
            }
            if let Some(best) = best.as_mut().filter(|_| context.options.sides.is_some()) {
                best.second_side += u64::from(Side::of(line.bytes) == Side::Second);
            }
        }
        true
    }
}

/// The result of one worker.
struct Scattered {
    outs: Vec<Out>,
    best: Vec<Option<Best>>,
}

/// Moves one thread's lines to their buckets.
type LineMover<'a, const HAS_KEYS: bool> = VaryingMover<Lines<'a, HAS_KEYS>, LineRoute<'a>>;

/// The first distribution, from the input's files; with the workers' tables if the plan has some.
/// Sets `has_long_line` if a line is longer than the plan allows.
pub(super) fn distribute_input(
    context: &Context<'_>,
    splitters: &LineSplitters,
    has_long_line: &AtomicBool,
) -> Result<(Vec<LineBucket>, Vec<Table>)> {
    let chunk_bytes = context.plan.chunk_of_input_bytes();
    let mut chunks = Chunks::new(context.parts.to_vec(), chunk_bytes);
    if let Some(continued) = context.continued() {
        chunks = chunks.without(continued.restored.begun());
    }
    let distributed = match context.is_whole() {
        true => distribute_regions::<false>(context, splitters, &chunks),
        false => distribute_regions::<true>(context, splitters, &chunks),
    };
    has_long_line.store(chunks.has_long_record(), Ordering::Relaxed);
    distributed
}

fn distribute_regions<const HAS_KEYS: bool>(
    context: &Context<'_>,
    splitters: &LineSplitters,
    chunks: &Chunks,
) -> Result<(Vec<LineBucket>, Vec<Table>)> {
    let plan = context.plan;
    let sizes = plan.region_sizes();
    let slots = sizes.slots() * plan.size.threads;
    let pool = Pool::new(&context.job.budget, INPUT, sizes.slot_bytes(), slots)?;
    let _lines = context.job.budget.reserve(ACROSS, plan.across_bytes())?;
    let _marked = context.job.budget.reserve(MARKED, plan.marked_bytes())?;
    let framing = Terminated {
        terminator: context.options.terminator,
    };
    if let Some(checkpoints) = &context.checkpoints {
        checkpoints.begin(context.thread_group.threads());
    }
    distribute_by::<HAS_KEYS>(context, splitters, |thread, worker, mover, table| {
        let (repeated, mut rest) = context.repeated(thread);
        let reader = RegionReader::new(chunks, framing, sizes, pool.clone());
        read_all(worker, &mut reader.after(repeated), |worker, region| {
            let rest = rest.as_mut().filter(|_| region.is_repeated);
            take_region(context, worker, mover, table, region, rest)?;
            let chunk = (!region.is_repeated).then_some(region.chunk);
            worker.checkpoint(thread, chunk, region.advance_bytes)
        })?;
        if let Some(checkpoints) = &context.checkpoints {
            checkpoints.leave();
        }
        Ok(())
    })
}

/// The first distribution, of rows from a source.
pub(super) fn distribute_made(
    context: &Context<'_>,
    splitters: &LineSplitters,
    source: &dyn RowSource,
) -> Result<(Vec<LineBucket>, Vec<Table>)> {
    let long_bytes = context.plan.long_made_bytes();
    let _long = context.job.budget.reserve(LONG_MADE, long_bytes)?;
    let continued = context.continued();
    let begun = continued.map(|continued| continued.restored.begun());
    let threads_count = continued.map_or(0, |continued| continued.restored.threads_begun());
    if let Some(checkpoints) = &context.checkpoints {
        checkpoints.begin(context.thread_group.threads());
    }
    distribute_by::<true>(context, splitters, |thread, worker, mover, _| {
        let (own, mut rest) = context.repeated(thread);
        let mut take = |rows: &RowBatch, position: u64, is_repeated: bool| {
            context.check()?;
            let bytes = rows.as_bytes();
            let end = position + rows.len() as u64;
            worker.begin_run(RunStart {
                position,
                begin: position,
                end,
            });
            let run = Run {
                bytes,
                position,
                place: None,
            };
            mover.take_of(worker, run, rest.as_mut().filter(|_| is_repeated))?;
            context.job.control.advance(bytes.len() as u64);
            context.job.control.watch(context.volume);
            worker.poll(false)?;
            if let Some(checkpoints) = context.checkpoints.as_ref().filter(|_| !is_repeated) {
                checkpoints.note_rows(thread, position, end);
            }
            worker.checkpoint(thread, None, bytes.len() as u64)
        };
        match &begun {
            Some(all) => {
                let taken = TakenRows {
                    own,
                    all,
                    threads_count,
                };
                source.make_again(taken, &mut take)?
            }
            None => source.make(&mut |rows, position| take(rows, position, false))?,
        }
        if let Some(checkpoints) = &context.checkpoints {
            checkpoints.leave();
        }
        Ok(())
    })
}

/// The first distribution on all threads; `feed` supplies each of them.
fn distribute_by<const HAS_KEYS: bool>(
    context: &Context<'_>,
    splitters: &LineSplitters,
    feed: impl Fn(usize, &mut ScatterWorker<'_>, &mut LineMover<'_, HAS_KEYS>, &mut Table) -> Result<()>
    + Sync,
) -> Result<(Vec<LineBucket>, Vec<Table>)> {
    let plan = context.plan;
    let resident = match plan.distributions {
        0 => Resident::ALL,
        _ => context.resident(splitters.bucket_count(), plan.size.data_bytes),
    };
    let workers = context.on_all_threads(|thread| {
        let count = splitters.bucket_count();
        let scattering = context.scattering(resident, false, count);
        let mut worker = ScatterWorker::new(context, scattering)?;
        let is_equal = |bucket| splitters.equal_key(bucket).is_some();
        let lines = Lines::<HAS_KEYS>::new(context, count, is_equal);
        let mut mover = VaryingMover::new(lines, LineRoute::new(splitters));
        let mut table = Table::new(&context.job.budget, plan.table_bytes, context.options)?;
        feed(thread, &mut worker, &mut mover, &mut table)?;
        let outs = worker.finish(true)?;
        let best = mover.items.best;
        Ok((Scattered { outs, best }, table))
    })?;
    let (workers, tables): (Vec<Scattered>, Vec<Table>) = workers.into_iter().unzip();
    let buckets = join_restored::<HAS_KEYS>(context, splitters, workers)?;
    Ok((buckets, tables))
}

/// The buckets of an earlier run that needs nothing from the input.
pub(super) fn join_vouched(
    context: &Context<'_>,
    splitters: &LineSplitters,
) -> Result<Vec<LineBucket>> {
    match context.is_whole() {
        true => join_restored::<false>(context, splitters, Vec::new()),
        false => join_restored::<true>(context, splitters, Vec::new()),
    }
}

/// The buckets of this run and of an earlier one, which are recorded if there is a journal.
fn join_restored<const HAS_KEYS: bool>(
    context: &Context<'_>,
    splitters: &LineSplitters,
    mut workers: Vec<Scattered>,
) -> Result<Vec<LineBucket>> {
    let buckets = buckets_of::<HAS_KEYS>(context, splitters);
    let Some(checkpoints) = &context.checkpoints else {
        return Ok(join(context, buckets, workers));
    };
    let outs = workers.iter_mut().map(|worker| &mut worker.outs[..]);
    record_distributed(context, outs.collect())?;
    let vouched = checkpoints.vouched().map(|outs| Scattered {
        outs,
        best: Vec::new(),
    });
    workers.extend(vouched);
    let mut buckets = join(context, buckets, workers);
    let mut skipped = context.skipped.load(Ordering::Relaxed);
    checkpoints.settle_totals(&mut buckets, &mut skipped)?;
    context.skipped.store(skipped, Ordering::Relaxed);
    Ok(buckets)
}

/// Moves the lines of a region to the table or to their buckets.
fn take_region(
    context: &Context<'_>,
    worker: &mut ScatterWorker<'_>,
    mover: &mut impl Mover,
    table: &mut Table,
    region: &Region,
    mut rest: Option<&mut Rest<'_>>,
) -> Result<()> {
    let begin = context.parts[region.part].first_position + region.at_bytes;
    let region_bytes: usize = region.slices().iter().map(|bytes| bytes.len()).sum();
    worker.begin_run(RunStart {
        position: begin,
        begin,
        end: begin + region_bytes as u64,
    });
    if context.options.mark_bytes() > 0 {
        let mark = |at: u64, line: &mut Vec<u8>| match context.options.sides {
            Some(sides) => line.push(sides.of_input(region.part).mark()),
            None => append_mark(begin + at, line),
        };
        return each_marked(context, region, mark, |bytes| {
            let run = Run {
                bytes,
                position: begin,
                place: None,
            };
            mover.take_of(worker, run, rest.as_deref_mut())
        });
    }
    let mut at = 0;
    for bytes in region.slices() {
        if let Some(separator) = context.options.csv_separator {
            check_records(context, region, at, bytes, separator)?;
        }
        if let Some(tally) = context.read {
            tally.take(bytes);
        }
        let mut from = 0;
        while from < bytes.len() {
            let run = Run {
                bytes: table.take(bytes, &mut from),
                position: begin + at,
                place: Some((region.part, region.at_bytes + at)),
            };
            mover.take_of(worker, run, rest.as_deref_mut())?;
        }
        at += bytes.len() as u64;
    }
    Ok(())
}

/// Passes on the lines of a region, each preceded by a mark, in batches.
fn each_marked(
    context: &Context<'_>,
    region: &Region,
    mark: impl Fn(u64, &mut Vec<u8>),
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let options = &context.options;
    let mark_bytes = options.mark_bytes();
    let mut batch = Vec::with_capacity(MARKED_BATCH_BYTES);
    let mut at = 0;
    for bytes in region.slices() {
        if let Some(separator) = options.csv_separator {
            check_records(context, region, at, bytes, separator)?;
        }
        let mut from = 0;
        for end in Terminators::of(options.terminator, bytes) {
            let (line, line_at) = (&bytes[from..=end], at + from as u64);
            from = end + 1;
            if options.drops_blanks && is_blank(&line[..line.len() - 1]) {
                continue;
            }
            if batch.len() + mark_bytes + line.len() > MARKED_BATCH_BYTES {
                take(&batch)?;
                batch.clear();
                batch.shrink_to(MARKED_BATCH_BYTES);
                batch.reserve_exact(mark_bytes + line.len());
            }
            mark(line_at, &mut batch);
            batch.extend_from_slice(line);
        }
        at += bytes.len() as u64;
    }
    take(&batch)
}

/// Checks that the lines of `bytes`, which begin `at` bytes into a region, are whole records of
/// CSV.
fn check_records(
    context: &Context<'_>,
    region: &Region,
    at: u64,
    bytes: &[u8],
    separator: u8,
) -> Result<()> {
    let Some(begin) = first_across_lines(bytes, separator) else {
        return Ok(());
    };
    let part = &context.parts[region.part];
    let error = Error::corrupt("read lines", "a record of CSV spans lines")
        .path(&part.file.path)
        .offset(part.data_at_bytes + region.at_bytes + at + begin as u64);
    Err(error.hint("sort records that span lines with another terminator"))
}

/// Distributes the segments of a bucket by splitters of the lines' keys, or of the lines themselves
/// if their keys are equal.
pub(super) fn distribute_by_splitters(
    context: &Context<'_>,
    segments: Vec<Segment>,
    splitters: &LineSplitters,
    has_keys: bool,
) -> Result<Vec<LineBucket>> {
    let route = || LineRoute::new(splitters);
    let is_equal = |bucket| splitters.equal_key(bucket).is_some();
    let (buckets, workers) = match has_keys {
        true => (
            buckets_of::<true>(context, splitters),
            distribute_segments::<true, _>(context, segments, route, is_equal)?,
        ),
        false => (
            buckets_of::<false>(context, splitters),
            distribute_segments::<false, _>(context, segments, route, is_equal)?,
        ),
    };
    Ok(join(context, buckets, workers))
}

/// Distributes the segments of a bucket by position in the input, for lines of equal keys.
pub(super) fn distribute_by_position(
    context: &Context<'_>,
    segments: Vec<Segment>,
    route: &PositionRoute,
) -> Result<Vec<LineBucket>> {
    let buckets = (0..route.bucket_count()).map(|_| LineBucket::default());
    let buckets = buckets.collect();
    let route = || route.clone();
    let workers = distribute_segments::<false, _>(context, segments, route, |_| false)?;
    Ok(join(context, buckets, workers))
}

fn distribute_segments<const HAS_KEYS: bool, R: Route>(
    context: &Context<'_>,
    segments: Vec<Segment>,
    route: impl Fn() -> R + Sync,
    is_equal: impl Fn(usize) -> bool + Sync,
) -> Result<Vec<Scattered>> {
    let source = BucketSource::in_order(segments, TakeShare::ONE);
    let pool = BucketSource::pool(context, context.thread_group.threads())?;
    context.on_all_threads(|_| {
        let route = route();
        let count = route.bucket_count();
        let scattering = context.scattering(Resident::ALL, true, count);
        let mut worker = ScatterWorker::new(context, scattering)?;
        let lines = Lines::<HAS_KEYS>::new(context, count, &is_equal);
        let mut mover = VaryingMover::new(lines, route);
        scatter_segments(&mut worker, &mut mover, &source, pool.clone())?;
        let outs = worker.finish(false)?;
        let best = mover.items.best;
        Ok(Scattered { outs, best })
    })
}

impl Context<'_> {
    /// The task of one thread of a distribution.
    fn scattering(&self, resident: Resident, is_split: bool, buckets: usize) -> Scattering {
        Scattering {
            spilling: Spilling { resident, is_split },
            bucket_count: buckets,
            item_bytes: None,
            is_ordered: self.is_ordered(),
            is_staggered: self.plan.distributions > 0 && self.continued().is_none(),
        }
    }
}

/// The empty buckets of splitters.
fn buckets_of<const HAS_KEYS: bool>(
    context: &Context<'_>,
    splitters: &LineSplitters,
) -> Vec<LineBucket> {
    let buckets = (0..splitters.bucket_count()).map(|index| {
        let equal = splitters.equal_key(index);
        let copies_of = equal.filter(|_| !HAS_KEYS);
        let copies_of = copies_of.map(|line| context.framing.item_of(line));
        LineBucket {
            depth: splitters.depth_of(index),
            is_equal: equal.is_some(),
            copies_of,
            ..LineBucket::default()
        }
    });
    buckets.collect()
}

/// Combines the results of all workers.
fn join(
    context: &Context<'_>,
    buckets: Vec<LineBucket>,
    workers: Vec<Scattered>,
) -> Vec<LineBucket> {
    let mut best: Vec<Option<Best>> = (0..buckets.len()).map(|_| None).collect();
    let mut outs = Vec::with_capacity(workers.len());
    for worker in workers {
        for (best, other) in best.iter_mut().zip(worker.best) {
            let is_first = match (&*best, &other) {
                (Some(best), Some(other)) => best.is_behind(context, &other.line, other.position),
                (None, Some(_)) => true,
                (_, None) => false,
            };
            let second_side =
                [&*best, &other].map(|best| best.as_ref().map_or(0, |b| b.second_side));
            if is_first {
                *best = other;
            }
            if let Some(best) = best {
                best.second_side = second_side.iter().sum();
            }
        }
        outs.push(worker.outs);
    }
    let mut buckets = join_outs(buckets, outs);
    for (bucket, best) in buckets.iter_mut().zip(best) {
        bucket.kind.second_side = best.as_ref().map_or(0, |best| best.second_side);
        bucket.copies_of = best.map_or(bucket.copies_of.take(), |best| Some(best.line.into()));
    }
    buckets
}
