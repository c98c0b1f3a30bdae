//! Distribution of lines: one pass that moves every line into its bucket.
//!
//! Model: PALID (SPAA 2025), section 3 (in-memory bucketer, batched writer) and 4 (samplesort).
//!
//! Contract: each worker takes stretches of the input, finds their lines, makes their keys where
//! lines are not their own, classifies a batch and copies each line with its terminator once, to
//! the end of its own buffer of that bucket. Lines that are their own keys are only counted in
//! buckets of equal keys. What a worker has in a table of distinct lines goes nowhere else.
//!
//! Bounds: as the plan says; the source is read once, each line written at most once. In ordered
//! jobs a worker notes the runs of input in each segment.

use memchr::memchr_iter;

use super::bucket::LineBucket;
use super::context::Context;
use super::cut::LineCut;
use super::plan::{ACROSS, INPUT};
use super::refs::Ref;
use super::table::Table;
use crate::error::Result;
use crate::key::lines::LineTie;
use crate::memory::Pool;
use crate::partition::bucket::{Out, join_outs};
use crate::partition::scatter::ScatterWorker;
use crate::partition::spill::Spilling;
use crate::read::regions::{Chunks, Region, RegionReader, Terminated};
use crate::volume::Transfer;

/// Lines that are classified, then moved: their bucket numbers stay in the first-level cache.
const BATCH: usize = 512;

/// Lines in a bucket's buffer.
#[derive(Debug, Clone, Copy, Default)]
struct Added {
    lines: u64,
    /// Those of the current run of the input, and where the first of them was.
    run_lines: u32,
    run_at: u64,
}

/// What decides about a line's bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The key that the order makes of it.
    Key,
    /// The line itself.
    Line,
}

/// The line of an equality bucket that is written, with its terminator, where that is one, and its
/// place in the input.
struct Best {
    position: u64,
    line: Vec<u8>,
}

/// One worker's way from lines to buckets.
pub(super) struct Scatter<'a> {
    context: &'a Context<'a>,
    cut: &'a LineCut,
    by: By,
    has_equal: bool,
    best: Vec<Option<Best>>,
    pub(super) worker: ScatterWorker<'a>,
    added: Vec<Added>,
    space: BatchSpace,
    /// What the owner has read.
    pub(super) others: Vec<Transfer>,
}

/// Lines of a batch, their keys and buckets.
#[derive(Default)]
struct BatchSpace {
    lines: Vec<Ref>,
    keys: Vec<u8>,
    key_refs: Vec<Ref>,
    words: Vec<u64>,
    buckets: Vec<u16>,
}

/// What one worker has distributed.
pub(super) struct Scattered {
    outs: Vec<Out>,
    best: Vec<Option<Best>>,
}

impl<'a> Scatter<'a> {
    /// A worker for the buckets of `cut`, which says what it is about.
    pub(super) fn new(
        context: &'a Context<'a>,
        (cut, by): (&'a LineCut, By),
        spilling: Spilling,
    ) -> Result<Self> {
        let count = cut.bucket_count();
        Ok(Scatter {
            context,
            cut,
            by,
            has_equal: (0..count).any(|bucket| cut.equal_key(bucket).is_some()),
            best: (0..count).map(|_| None).collect(),
            // Buckets of equal lines, which are only counted, need no buffers.
            worker: ScatterWorker::new(context, spilling, count, true)?,
            added: vec![Added::default(); count],
            space: BatchSpace::default(),
            others: Vec::new(),
        })
    }

    /// Looks for what has finished; what the owner has read is in `others` then.
    pub(super) fn poll(&mut self, wait: bool) -> Result<()> {
        self.worker.poll(wait, &mut self.others)
    }

    /// Moves the lines of `bytes`, neighbours in the input, to their buckets. The first was at
    /// `position` of all input, and at `at_bytes` of the data of file `part` where that is known.
    pub(super) fn scatter(
        &mut self,
        bytes: &[u8],
        position: u64,
        place: Option<(usize, u64)>,
    ) -> Result<()> {
        let mut space = std::mem::take(&mut self.space);
        let mut from = 0;
        space.lines.clear();
        for end in memchr_iter(self.context.options.terminator, bytes) {
            let (at, len) = (from as u32, (end - from) as u32);
            space.lines.push(Ref {
                word: 0,
                at,
                len_bytes: len,
            });
            from = end + 1;
            if space.lines.len() == BATCH {
                self.batch(bytes, &mut space, position, place)?;
                space.lines.clear();
            }
        }
        self.batch(bytes, &mut space, position, place)?;
        self.space = space;
        Ok(())
    }

    fn batch(
        &mut self,
        bytes: &[u8],
        space: &mut BatchSpace,
        position: u64,
        place: Option<(usize, u64)>,
    ) -> Result<()> {
        if self.by == By::Key {
            self.make_keys(bytes, space, place)?;
        }
        let (area, keys) = match self.by {
            By::Line => (bytes, &space.lines),
            By::Key => (&space.keys[..], &space.key_refs),
        };
        space.buckets.resize(keys.len(), 0);
        self.cut
            .classify(area, keys, &mut space.words, &mut space.buckets);
        for (index, line) in space.lines.iter().enumerate() {
            let bucket = usize::from(space.buckets[index]);
            let line_bytes = &bytes[line.at as usize..(line.at + line.len_bytes + 1) as usize];
            let position = position + u64::from(line.at);
            let counts = &mut self.worker.spill.out(bucket).counts;
            counts.key_bytes += match self.by {
                By::Key => u64::from(keys[index].len_bytes),
                By::Line => 0,
            };
            if self.has_equal && self.cut.equal_key(bucket).is_some() {
                let is_one = self.context.is_unique() && self.by == By::Key;
                if is_one || self.by == By::Line {
                    counts.items += 1;
                    counts.bytes += line_bytes.len() as u64;
                    if is_one {
                        self.keep_best(bucket, line_bytes, position);
                    }
                    continue;
                }
            }
            self.append(bucket, line_bytes, position)?;
        }
        Ok(())
    }

    /// Makes the keys of a batch; lines without one leave it.
    fn make_keys(
        &self,
        bytes: &[u8],
        space: &mut BatchSpace,
        place: Option<(usize, u64)>,
    ) -> Result<()> {
        space.keys.clear();
        space.key_refs.clear();
        let mut kept = 0;
        for index in 0..space.lines.len() {
            let line = space.lines[index];
            let at = space.keys.len();
            if let Err(why) = self
                .context
                .order
                .append_key(line.bytes(bytes), &mut space.keys)
            {
                space.keys.truncate(at);
                let (part, at_bytes) = place.unwrap_or_default();
                let at_bytes = at_bytes + u64::from(line.at);
                self.context.no_key(part, at_bytes, &why)?;
                continue;
            }
            let len = (space.keys.len() - at) as u32;
            let at = at as u32;
            space.key_refs.push(Ref {
                word: 0,
                at,
                len_bytes: len,
            });
            space.lines[kept] = line;
            kept += 1;
        }
        space.lines.truncate(kept);
        Ok(())
    }

    /// Of lines with equal keys, of which one will be written, keeps the first in the order.
    fn keep_best(&mut self, bucket: usize, line: &[u8], position: u64) {
        let tie = self.context.order.tie();
        let best = &mut self.best[bucket];
        if best
            .as_ref()
            .is_some_and(|best| !best.is_behind(tie, line, position))
        {
            return;
        }
        let line = line.to_vec();
        *best = Some(Best { position, line });
    }

    /// Moves all lines of a run of the input to a bucket.
    pub(super) fn append_run(&mut self, bucket: usize, bytes: &[u8], position: u64) -> Result<()> {
        let mut from = 0;
        for end in memchr_iter(self.context.options.terminator, bytes) {
            self.append(bucket, &bytes[from..=end], position + from as u64)?;
            from = end + 1;
        }
        self.end_run();
        Ok(())
    }

    /// Copies a line with its terminator to the end of its bucket's buffer.
    #[inline]
    fn append(&mut self, bucket: usize, line: &[u8], position: u64) -> Result<()> {
        if !self.worker.buffers.append(bucket, line) {
            if line.len() > self.context.plan.segment_bytes {
                return self.append_long(bucket, line, position);
            }
            self.flush(bucket)?;
            let is_staggered = self.context.plan.distributions > 0;
            self.worker
                .begin(bucket, line.len(), is_staggered, &mut self.others)?;
            self.worker.buffers.append(bucket, line);
        }
        let added = &mut self.added[bucket];
        added.lines += 1;
        if added.run_lines == 0 {
            added.run_at = position;
        }
        added.run_lines += 1;
        Ok(())
    }

    /// Makes a segment of a bucket's buffer.
    fn flush(&mut self, bucket: usize) -> Result<()> {
        self.note_piece(bucket);
        let lines = std::mem::take(&mut self.added[bucket].lines);
        self.worker.flush(bucket, lines, &mut self.others)
    }

    /// A line that is longer than a segment.
    fn append_long(&mut self, bucket: usize, line: &[u8], position: u64) -> Result<()> {
        self.flush(bucket)?;
        if self.context.is_ordered() {
            let part_bytes = self.context.plan.segment_bytes;
            let out = self.worker.spill.out(bucket);
            out.note_piece(part_bytes, position, 1);
        }
        self.worker.store_long(bucket, line, &mut self.others)
    }

    /// Notes what the current run has added to a bucket's buffer.
    fn note_piece(&mut self, bucket: usize) {
        let added = &mut self.added[bucket];
        let (position, count) = (added.run_at, std::mem::take(&mut added.run_lines));
        if self.context.is_ordered() {
            let filled_bytes = self.worker.buffers.filled_bytes(bucket);
            let out = self.worker.spill.out(bucket);
            out.note_piece(filled_bytes, position, count);
        }
    }

    /// What comes next does not follow on to what came last.
    pub(super) fn end_run(&mut self) {
        (0..self.added.len()).for_each(|bucket| self.note_piece(bucket));
    }

    /// Stores the part-filled buffers, in memory if they may stay there, and waits for all writes.
    pub(super) fn finish(mut self, keep_partials: bool) -> Result<Scattered> {
        self.end_run();
        let added = self.added;
        let count = |_: &mut Out, bucket: usize, _| Some(added[bucket].lines);
        Ok(Scattered {
            outs: self.worker.finish(keep_partials, count)?,
            best: self.best,
        })
    }
}

impl Best {
    /// Whether a line, with its terminator, comes before it. Terminators take no part: some bytes are
    /// below them, and a line comes before those that it begins.
    fn is_behind(&self, tie: LineTie, line: &[u8], position: u64) -> bool {
        let (line, best) = (&line[..line.len() - 1], &self.line[..self.line.len() - 1]);
        match tie {
            LineTie::Position => position < self.position,
            LineTie::Bytes => line < best,
            LineTie::BytesDescending => line > best,
        }
    }
}

/// Puts together what all workers have distributed.
pub(super) fn join(
    context: &Context<'_>,
    (cut, by): (&LineCut, By),
    workers: Vec<Scattered>,
) -> Vec<LineBucket> {
    let mut buckets: Vec<LineBucket> = (0..cut.bucket_count())
        .map(|index| {
            let equal = cut.equal_key(index);
            let copies_of = equal.filter(|_| by == By::Line).map(|line| {
                let mut line = line.to_vec();
                line.push(context.options.terminator);
                line.into()
            });
            LineBucket {
                depth: cut.depth_of(index),
                is_equal: equal.is_some(),
                copies_of,
                ..LineBucket::default()
            }
        })
        .collect();
    let mut best: Vec<Option<Best>> = (0..buckets.len()).map(|_| None).collect();
    let mut outs = Vec::with_capacity(workers.len());
    for worker in workers {
        for (best, other) in best.iter_mut().zip(worker.best) {
            let is_first = match (&*best, &other) {
                (Some(best), Some(other)) => {
                    best.is_behind(context.order.tie(), &other.line, other.position)
                }
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if is_first {
                *best = other;
            }
        }
        outs.push(worker.outs);
    }
    join_outs(&mut buckets, outs);
    for (bucket, best) in buckets.iter_mut().zip(best) {
        bucket.copies_of = best.map_or(bucket.copies_of.take(), |best| Some(best.line.into()));
    }
    buckets
}

/// The first distribution, from the input's files; with the workers' tables if the plan has some.
pub(super) fn distribute_input(
    context: &Context<'_>,
    cut: &LineCut,
) -> Result<(Vec<LineBucket>, Vec<Table>)> {
    let plan = context.plan;
    let chunks = Chunks::new(context.parts.to_vec(), plan.chunk_of_input_bytes());
    let sizes = plan.region_sizes();
    let slots = sizes.slots() * plan.size.threads;
    let pool = Pool::new(&context.job.budget, INPUT, sizes.slot_bytes(), slots)?;
    let line_bytes = 2 * (plan.size.threads * plan.line_bytes_max) as u64;
    let _lines = context.job.budget.reserve(ACROSS, line_bytes)?;
    let spilling = Spilling {
        resident_below: match plan.distributions {
            0 => usize::MAX,
            _ => context.resident_below(cut.bucket_count(), plan.size.data_bytes),
        },
        is_split: false,
    };
    let framing = Terminated {
        terminator: context.options.terminator,
    };
    let by = context.by();
    let workers = context.on_all_threads(|_| {
        let mut scatter = Scatter::new(context, (cut, by), spilling)?;
        let mut reader = RegionReader::new(&chunks, framing, sizes, pool.clone());
        let mut table = Table::new(plan.table_bytes);
        // Chunk, file and place of what would follow on to the last region.
        let mut next = None;
        loop {
            context.check()?;
            reader.start(&mut scatter.worker.port)?;
            match reader.take(&mut scatter.worker.port)? {
                Some(region) => {
                    if context.is_ordered()
                        && next != Some((region.chunk, region.part, region.at_bytes))
                    {
                        scatter.end_run();
                    }
                    let end = take_region(context, &mut scatter, &mut table, &region)?;
                    next = Some((region.chunk, region.part, end));
                    context.job.control.advance(region.advance_bytes);
                    context.job.control.watch(context.volume);
                    scatter.poll(false)?;
                }
                None if reader.is_done() => break,
                None => scatter.poll(true)?,
            }
            let mut read = scatter.others.drain(..);
            read.try_for_each(|transfer| reader.settle(transfer))?;
        }
        drop(reader);
        Ok((scatter.finish(true)?, table))
    })?;
    let (workers, tables): (Vec<Scattered>, Vec<Table>) = workers.into_iter().unzip();
    Ok((join(context, (cut, by), workers), tables))
}

/// Moves the lines of a region to the table or to their buckets; gives where it ends.
fn take_region(
    context: &Context<'_>,
    scatter: &mut Scatter<'_>,
    table: &mut Table,
    region: &Region,
) -> Result<u64> {
    let first = context.parts[region.part].first_position;
    let mut at = region.at_bytes;
    for bytes in region.slices() {
        let mut from = 0;
        while from < bytes.len() {
            let rest = table.take(bytes, context.options.terminator, &mut from);
            scatter.scatter(rest, first + at, Some((region.part, at)))?;
        }
        at += bytes.len() as u64;
    }
    Ok(at)
}
