//! Sorts a bucket of lines by reference, and writes it in order.
//!
//! Contract: keys are made from the lines in the order of the input, so that the places of keys
//! decide ties. Lines are gathered in chunks that are aligned like the output. If a bucket's place
//! depends on the buckets before it, workers wait for their turn between sorting and writing. A
//! worker whose turn has come, and which knows the size of its bucket's result, takes its place
//! before sorting ([`crate::partition::task`]).
//!
//! Bounds: the worker's areas and chunks, references and keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Occurrences;
use super::arrange::{key_ref, sort_keys, to_line};
use super::bucket::{LineBucket, Space, TableLines};
use super::context::Context;
use super::distinct::{Distinct, Times};
use super::emit::Gather;
use super::line_bytes::is_same;
use super::plan::SORTING;
use super::refs::{AnyTie, Ref, sort_refs};
use super::rows::{PartsInOutput, RowPart, RowSink};
use super::sides::{Side, Sides};
use super::split::check_room;
use super::table::{Tables, met};
use crate::key::sort_key::Tie;
use crate::partition::checkpoint::Checkpoints;
use crate::partition::driver::{Ends, Written};
use crate::partition::kernel::FETCH_AHEAD;
use crate::partition::load::LoadedRun;
use crate::partition::restored::PartsWritten;
use crate::partition::task::{
    BucketTask, BucketWork, Loaded, Spot, TaskMemory, TaskWorker, Tasks, run_tasks, take_over,
    tasks_in_order,
};
use outcore_io::memory::{BLOCK_BYTES, Buf};
use outcore_io::output::StagedOutput;
use outcore_io::{Error, Kind, Result};

/// References to one line that are gathered at once.
const COPIES_MAX: u64 = 4096;

/// Memory of one worker.
#[derive(Debug, Clone, Copy)]
struct TaskSizes {
    space: Space,
    areas: usize,
    chunk_bytes: usize,
    chunks: usize,
}

impl TaskSizes {
    /// Room for the largest bucket if there is enough for every thread; otherwise the planned room.
    fn of(context: &Context<'_>, spaces: &[Space]) -> Self {
        let plan = context.plan;
        let largest = spaces.iter().copied().reduce(Space::and);
        let mut sizes = TaskSizes {
            space: largest.unwrap_or_default(),
            areas: plan.areas,
            chunk_bytes: plan.chunk_bytes,
            chunks: plan.chunks,
        };
        let is_enough = |sizes: &TaskSizes| {
            sizes.bytes() * context.thread_group.threads() as u64 <= context.sorting_bytes()
                && sizes.space.area_bytes <= u64::from(u32::MAX / 2)
                && sizes.space.key_bytes <= u64::from(u32::MAX / 2)
        };
        while !is_enough(&sizes) && sizes.areas > 2 {
            sizes.areas -= 1;
        }
        if !is_enough(&sizes) {
            sizes.areas = plan.areas;
            sizes.space = plan.bucket_space();
        }
        sizes
    }

    /// Memory for one bucket that is sorted alone because it needs more.
    fn alone(&self, space: Space) -> Self {
        TaskSizes {
            space,
            areas: 1,
            chunks: 2,
            ..*self
        }
    }

    /// The sum.
    fn bytes(&self) -> u64 {
        let areas = self.areas as u64 * self.space.area_bytes.max(BLOCK_BYTES as u64);
        areas + self.space.beside_bytes() + (self.chunks * self.chunk_bytes) as u64
    }
}

/// Sorts all buckets and writes them. Parts of rows end only at `bounds`, if these are given.
pub(super) fn sort_buckets(
    context: &Context<'_>,
    tables: &Tables,
    mut buckets: Vec<LineBucket>,
    bounds: Option<&[u64]>,
    ends: &Ends<'_>,
    staged: Option<&StagedOutput>,
) -> Result<Written> {
    let bytes: u64 = buckets.iter().map(|bucket| bucket.counts.bytes).sum();
    context.job.control.begin_phase("sort", bytes);
    if context.order.is_descending() {
        buckets.reverse();
    }
    buckets.retain(|bucket| bucket.lines_max() > 0);
    if context.options.sides.is_some_and(|sides| sides.has_total) {
        buckets.push(total_bucket());
    }
    ends.write(context.job, staged, |sink| {
        let is_thinned = context.options.is_thinned();
        let takes_turns = is_thinned || staged.is_none();
        let copies_bytes_max = (!takes_turns).then_some(context.plan.bucket_bytes_max);
        let mut list = tasks_in_order(buckets, copies_bytes_max);
        let mut restored = take_over(context, &sink, &mut list)?;
        let checkpoints = context
            .checkpoints
            .as_ref()
            .filter(|_| context.rows.is_some());
        let in_output = checkpoints.map_or_else(PartsWritten::default, Checkpoints::parts_written);
        // Items of a table in memory have an empty range, so an empty range does not mean that the
        // bucket is empty.
        let is_before =
            |task: &BucketTask<_>| in_output.parts > 0 && task.range().end <= in_output.bytes;
        list.drain(..list.partition_point(is_before));
        restored += in_output.items;
        // A bucket that is too large for all threads at once is sorted by one.
        let needs = |task: &BucketTask<_>| task.bucket.space(!context.is_whole());
        let spaces: Vec<Space> = list.iter().map(needs).collect();
        let sizes = TaskSizes::of(context, &spaces);
        let too_large = |space: &Space| !sizes.space.holds(space);
        let alone = spaces.iter().map(|space| Some(*space).filter(too_large));
        let mut alone: Vec<Option<Space>> = alone.collect();
        // For each bucket, whether it goes with the previous bucket.
        let keeps_keys = context.rows.is_some_and(RowSink::keeps_keys_together);
        let is_with_last: Vec<bool> = list
            .iter()
            .map(|task| keeps_keys && task.bucket.kind.is_continuation)
            .collect();
        share_space(&mut alone, &spaces, &is_with_last);
        for space in alone.iter().flatten() {
            check_room(context, space)?;
        }
        let parts = context.rows.map(|sink| {
            Parts::of(
                context,
                sink,
                &list,
                &alone,
                &is_with_last,
                bounds,
                in_output,
            )
        });
        let ends = parts.iter().flat_map(|parts| parts.ends.iter().copied());
        let tasks = Tasks::new(list, sink, is_thinned).in_parts(ends.collect());
        let done = Done::default();
        let mut from = 0;
        while from < alone.len() {
            let (to, sizes, threads) = match alone[from] {
                Some(space) => (run_end(&is_with_last, from), sizes.alone(space), 1),
                None => {
                    let rest = alone[from..].iter();
                    let many = rest.take_while(|space| space.is_none()).count();
                    (from + many, sizes, context.thread_group.threads())
                }
            };
            tasks.take_to(to);
            run(
                context,
                &tasks,
                tables,
                parts.as_ref(),
                &done,
                sizes,
                threads,
            )?;
            from = to;
        }
        let bytes = match (takes_turns, context.rows) {
            (_, Some(_)) => in_output.bytes + done.bytes.load(Ordering::Relaxed),
            (true, None) => tasks.placed_bytes(),
            (false, None) => bytes,
        };
        let items = restored + done.lines.load(Ordering::Relaxed);
        Ok(Written { items, bytes })
    })
}

/// The end of the buckets that go together, the first of which is `from`.
fn run_end(is_with_last: &[bool], from: usize) -> usize {
    let more = is_with_last.iter().skip(from + 1);
    from + 1 + more.take_while(|is_with| **is_with).count()
}

/// If one of several buckets that go together is sorted alone, all of them are. They share a space
/// that is enough for each, because one bucket may have more lines, and another more bytes.
fn share_space(alone: &mut [Option<Space>], spaces: &[Space], is_with_last: &[bool]) {
    let mut from = 0;
    while from < alone.len() {
        let to = run_end(is_with_last, from);
        if alone[from..to].iter().any(Option::is_some) {
            let together = spaces[from..to].iter().copied();
            alone[from..to].fill(together.reduce(Space::and));
        }
        from = to;
    }
}

/// The results of all workers.
#[derive(Debug, Default)]
struct Done {
    lines: AtomicU64,
    /// Bytes of rows that a sink has taken, including their lengths.
    bytes: AtomicU64,
}

/// A part that another thread goes on with.
struct Unfinished<'a> {
    number: usize,
    part: Box<dyn RowPart + Send + 'a>,
}

/// How the buckets of rows are passed to a sink.
struct Parts<'a> {
    sink: &'a dyn RowSink,
    /// The bucket at which each part ends, exclusive.
    ends: Vec<usize>,
    /// For each part, what is written once that part is written. The first entry is for the parts
    /// of an earlier run.
    written: Vec<PartsWritten>,
    /// Whether some rows are omitted.
    is_thinned: bool,
    /// The lock is held while the journal notes what is written.
    noting: Mutex<()>,
    /// The part that other threads go on with.
    unfinished: Mutex<Option<Unfinished<'a>>>,
}

impl<'a> Parts<'a> {
    /// Parts of the size that the sink wants. If there are `bounds`, they end only there; otherwise
    /// a bucket that is sorted `alone` is a part of its own.
    fn of(
        context: &Context<'_>,
        sink: &'a dyn RowSink,
        list: &[BucketTask<TableLines>],
        alone: &[Option<Space>],
        is_with_last: &[bool],
        bounds: Option<&[u64]>,
        in_output: PartsWritten,
    ) -> Self {
        let mut ends = Vec::new();
        let mut written = vec![in_output];
        let mut next = in_output;
        let mut part_bytes = 0;
        for (index, task) in list.iter().enumerate() {
            part_bytes += task.bucket.counts.bytes;
            next.bytes = task.range().end;
            next.items += task.bucket.counts.items;
            let is_border =
                alone[index].is_some() || alone.get(index + 1).is_none_or(Option::is_some);
            let goes_on = is_with_last.get(index + 1) == Some(&true);
            let (is_border, goes_on) = match bounds {
                None => (is_border, goes_on),
                Some(bounds) => {
                    let is_inside = bounds.binary_search(&task.range().end).is_err();
                    (index + 1 == list.len(), goes_on || is_inside)
                }
            };
            if !goes_on && (is_border || part_bytes >= sink.part_bytes()) {
                ends.push(index + 1);
                next.parts += 1;
                written.push(next);
                part_bytes = 0;
            }
        }
        Parts {
            sink,
            ends,
            written,
            is_thinned: context.options.is_thinned(),
            noting: Mutex::default(),
            unfinished: Mutex::default(),
        }
    }

    /// A part that has no thread: the unfinished one, or a new one.
    fn begin(&self, part: usize) -> Result<Box<dyn RowPart + 'a>> {
        let is_it = |unfinished: &mut Unfinished<'_>| unfinished.number == part;
        if let Some(unfinished) = self.unfinished().take_if(is_it) {
            return Ok(unfinished.part);
        }
        let before = self.written[part];
        let rows_before = (!self.is_thinned).then_some(before.items);
        self.sink.begin(before.parts, rows_before)
    }

    /// Notes in the journal which parts are in the output, if that is due.
    fn note(&self, checkpoints: &Checkpoints<'_>, bytes: u64) -> Result<()> {
        checkpoints.advance(bytes);
        if !checkpoints.is_due() {
            return Ok(());
        }
        // A thread that is noting parts also notes the parts of this thread.
        let Ok(_noting) = self.noting.try_lock() else {
            return Ok(());
        };
        let began = Instant::now();
        let Some(PartsInOutput { parts, state }) = self.sink.parts_in_output()? else {
            return Ok(());
        };
        let written = self.written.iter().find(|written| written.parts == parts);
        match written {
            Some(written) => checkpoints.keep_parts(began, *written, &state),
            None => Ok(()),
        }
    }

    fn unfinished(&self) -> MutexGuard<'_, Option<Unfinished<'a>>> {
        let unfinished = self.unfinished.lock();
        unfinished.unwrap_or_else(PoisonError::into_inner)
    }
}

/// One worker's processing of the buckets of a sort of lines.
struct Sorting<'a, 'p> {
    context: &'a Context<'a>,
    tables: &'a Tables,
    parts: Option<&'a Parts<'p>>,
    /// The current part.
    part: Option<Begun<'p>>,
    done: &'a Done,
    refs: Vec<Ref>,
    keys: Vec<u8>,
    distinct: Distinct,
}

/// A part that a thread has begun.
struct Begun<'p> {
    number: usize,
    part: Box<dyn RowPart + 'p>,
}

/// Facts about the strings of a bucket before they are sorted.
#[derive(Debug, Default)]
struct Known {
    /// Whether no two strings are equal.
    is_distinct: bool,
    /// The numbers of occurrences of the strings, if requested.
    times: Option<Times>,
}

impl Known {
    fn times(&self, r: &Ref) -> u64 {
        self.times.as_ref().map_or(1, |times| times.at(r.at))
    }
}

/// Sorts and writes the available buckets on `threads` threads; counts the results.
fn run(
    context: &Context<'_>,
    tasks: &Tasks<'_, TableLines>,
    tables: &Tables,
    parts: Option<&Parts<'_>>,
    done: &Done,
    sizes: TaskSizes,
    threads: usize,
) -> Result<()> {
    let budget = &context.job.budget;
    let beside_bytes = sizes.space.beside_bytes() * threads as u64;
    let _space = budget.reserve(SORTING, beside_bytes)?;
    let memory = TaskMemory {
        area_bytes: (sizes.space.area_bytes as usize).max(BLOCK_BYTES),
        areas: sizes.areas,
        chunk_bytes: sizes.chunk_bytes,
        chunks: sizes.chunks,
        loads_max: sizes.areas,
    };
    run_tasks(context, tasks, SORTING, memory, threads, || Sorting {
        context,
        tables,
        parts,
        part: None,
        done,
        refs: Vec::new(),
        keys: Vec::new(),
        distinct: Distinct::default(),
    })
}

impl BucketWork<TableLines> for Sorting<'_, '_> {
    fn finish(
        &mut self,
        worker: &mut TaskWorker<'_, TableLines>,
        mut loaded: Loaded<TableLines>,
        mut area: Buf,
    ) -> Result<()> {
        let bucket = &loaded.task.bucket;
        if bucket.copies_of.is_some() {
            return self.write_copies(worker, &loaded);
        }
        loaded.load.append_resident(&mut area);
        let framing = self.context.framing;
        let (runs, end) = loaded.load.runs();
        let mut refs = std::mem::take(&mut self.refs);
        refs.clear();
        refs.reserve_exact(bucket.lines_max() as usize);
        let has_counts = self.context.options.has_counts();
        let mut at = end;
        for from in &bucket.kind.from {
            at = self.tables.copy(from, &mut area, at, has_counts, &mut refs);
        }
        let counted_from = if has_counts { end } else { usize::MAX };
        // Drops the copied segments, which frees their slots before any thread waits.
        loaded.load.segments.clear();
        let spot = self.order(worker, &loaded, &area, &runs, counted_from, &mut refs)?;
        let count = refs.len() as u64;
        let written = match self.parts {
            Some(parts) => {
                let around_bytes = framing.around_bytes() as u64;
                let lens = refs.iter().map(|r| u64::from(r.len_bytes));
                let bytes = lens.sum::<u64>() + count * around_bytes;
                let rows = &mut refs.iter().enumerate().map(|(place, r)| {
                    if let Some(ahead) = refs.get(place + FETCH_AHEAD) {
                        ahead.fetch(&area);
                    }
                    r.bytes(&area)
                });
                self.hand_on(worker, &loaded, parts, rows, count, bytes)
            }
            None => {
                if let Some(tally) = self.context.kept {
                    tally.take_lines(refs.iter().map(|r| r.bytes(&area)));
                }
                let counts = self.context.options.counts();
                let gather = Gather::new(&area, framing, &refs, count, counts)
                    .without_marks(self.context.options.hidden_bytes());
                let spot = match spot {
                    Some(spot) => spot,
                    None => {
                        let bytes = gather.bytes_left();
                        worker.place(&loaded, |_| bytes)?
                    }
                };
                self.emit(worker, spot, gather)
            }
        };
        self.refs = refs;
        written
    }

    fn end(&mut self) -> Result<()> {
        let Some((parts, Begun { number, part })) = self.parts.zip(self.part.take()) else {
            return Ok(());
        };
        let part = part.movable().ok_or_else(bound_to_thread)?;
        *parts.unfinished() = Some(Unfinished { number, part });
        Ok(())
    }

    fn give_up(&mut self) {
        if let Some(parts) = self.parts {
            parts.sink.give_up();
        }
    }
}

impl<'p> Sorting<'_, 'p> {
    /// Adds references to the lines of a bucket to `refs`, which already has references to lines
    /// from tables, and sorts all. Lines of the area from `counted_from` on are followed by their
    /// number of occurrences. Returns the lines' place if it was determined before the sort, so
    /// that the next bucket need not wait for this one.
    fn order<'t>(
        &mut self,
        worker: &TaskWorker<'t, TableLines>,
        loaded: &Loaded<TableLines>,
        area: &[u8],
        runs: &[LoadedRun],
        counted_from: usize,
        refs: &mut Vec<Ref>,
    ) -> Result<Option<Spot<'t>>> {
        let bucket = &loaded.task.bucket;
        let (order, depth) = (self.context.order, bucket.depth);
        let mut spot = None;
        if self.context.is_whole() {
            self.find_lines(area, runs, refs);
            let known = self.keep_first(bucket, area, refs);
            if known.is_distinct && self.parts.is_none() {
                let (count, counts) = (refs.len() as u64, self.context.options.counts());
                let gather = Gather::new(area, self.context.framing, refs, count, counts);
                spot = worker.place_if_next(loaded, gather.bytes_left());
            }
            sort_refs(area, refs, depth, &AnyTie);
            self.finish_order(area, refs, counted_from, &known);
        } else if bucket.is_equal {
            if bucket.kind.is_repeated || self.wants(bucket.counts.items) {
                self.find_lines(area, runs, refs);
            }
            match order.tie() {
                Tie::Position => {}
                Tie::Bytes => sort_refs(area, refs, 0, &AnyTie),
                Tie::BytesDescending => {
                    sort_refs(area, refs, 0, &AnyTie);
                    refs.reverse();
                }
            }
        } else {
            let mut keys = std::mem::take(&mut self.keys);
            let made = self.make_keys(area, runs, refs, &mut keys);
            if made.is_ok() {
                let known = match order.tie() {
                    Tie::Position => self.keep_first(bucket, &keys, refs),
                    Tie::Bytes | Tie::BytesDescending => Known::default(),
                };
                sort_keys(order, area, &keys, refs, depth);
                match self.context.options.sides {
                    Some(sides) => self.pair(sides, area, &keys, refs),
                    None => {
                        // Tables contain lines that are their own keys.
                        self.finish_order(&keys, refs, usize::MAX, &known);
                        refs.iter_mut().for_each(|key| to_line(&keys, key));
                    }
                }
            }
            self.keys = keys;
            made?;
        }
        Ok(spot)
    }

    /// Keeps the first of equal strings if only one is wanted, with their number as its word, if
    /// that is worth it.
    fn keep_first(&mut self, bucket: &LineBucket, area: &[u8], refs: &mut Vec<Ref>) -> Known {
        let options = &self.context.options;
        let has_counts = options.has_counts();
        // Lines from tables are followed by their number of occurrences, which is not in their
        // words.
        if !self.context.is_unique() || (has_counts && !bucket.kind.from.is_empty()) {
            return Known::default();
        }
        let is_distinct = self.distinct.keep_first(area, refs);
        if is_distinct && has_counts {
            refs.retain(|r| self.wants(r.word));
        }
        let times = has_counts.then(|| Times::of(refs));
        Known { is_distinct, times }
    }

    /// One reference per line.
    fn find_lines(&self, area: &[u8], runs: &[LoadedRun], refs: &mut Vec<Ref>) {
        for run in runs {
            let bytes = &area[..run.at + run.len_bytes];
            self.context
                .framing
                .find(bytes, run.at, usize::MAX, |from, end| {
                    refs.push(Ref::to(from, end));
                });
        }
    }

    /// The key of each line, preceded by the line's place, in the order of the input if that
    /// matters.
    fn make_keys(
        &self,
        area: &[u8],
        runs: &[LoadedRun],
        refs: &mut Vec<Ref>,
        keys: &mut Vec<u8>,
    ) -> Result<()> {
        keys.clear();
        let order = self.context.order;
        let mut keyless = None;
        for run in runs {
            let bytes = &area[..run.at + run.len_bytes];
            self.context
                .framing
                .find(bytes, run.at, usize::MAX, |from, end| {
                    // Every line had a key when it was distributed.
                    let made = key_ref(area, from, end, keys, |line, keys| {
                        order.append_key(line, keys)
                    });
                    match made {
                        Ok(key) => refs.push(key),
                        Err(why) => keyless = Some(why),
                    }
                });
        }
        match keyless {
            Some(why) => Err(Error::new(Kind::Corrupt, "make a key again", why.0)
                .hint("a bug: please report it")),
            None => Ok(()),
        }
    }

    /// Reverses the order if it is descending. Among equal keys, keeps the first if only one is
    /// wanted, with their number as its word.
    fn finish_order(&self, keys: &[u8], refs: &mut Vec<Ref>, counted_from: usize, known: &Known) {
        if self.context.order.is_descending() {
            refs.reverse();
        }
        if !self.context.is_unique() {
            self.leave_out(keys, refs);
            return;
        }
        if known.is_distinct {
            refs.iter_mut().for_each(|r| r.word = known.times(r));
            return;
        }
        let mut kept: usize = 0;
        for index in 0..refs.len() {
            if let Some(ahead) = refs.get(index + FETCH_AHEAD) {
                ahead.fetch(keys);
            }
            let next = refs[index];
            let times = match (next.at as usize) < counted_from {
                true => known.times(&next),
                false => met(keys, &next),
            };
            let is_same = kept > 0 && is_equal(keys, &refs[kept - 1], &next);
            if is_same {
                refs[kept - 1].word += times;
            } else {
                refs[kept] = Ref {
                    word: times,
                    ..next
                };
                kept += 1;
            }
        }
        refs.truncate(kept);
        if self.context.options.occurrences != Occurrences::Any {
            refs.retain(|r| self.wants(r.word));
        }
    }

    /// Among the lines of two sides, keeps the ones that are shown, each with its column as its
    /// word.
    fn pair(&self, sides: Sides, area: &[u8], keys: &[u8], refs: &mut Vec<Ref>) {
        let (mut kept, mut from) = (0, 0);
        while from < refs.len() {
            let first = refs[from];
            let others = refs[from + 1..].iter();
            let more = others.take_while(|next| is_equal(keys, &first, next));
            let to = from + 1 + more.count();
            let mut line = first;
            to_line(keys, &mut line);
            let is_second = |key: &&Ref| {
                let mut line = **key;
                to_line(keys, &mut line);
                Side::of(line.bytes(area)) == Side::Second
            };
            let second = refs[from..to].iter().filter(is_second).count() as u64;
            let first = (to - from) as u64 - second;
            for shown in sides.shown(first, second, &self.context.sides) {
                let copies = Ref {
                    word: shown.column,
                    ..line
                };
                let count = shown.lines as usize;
                refs[kept..kept + count].fill(copies);
                kept += count;
            }
            from = to;
        }
        refs.truncate(kept);
    }

    /// Whether lines whose key occurs `count` times are wanted.
    fn wants(&self, count: u64) -> bool {
        self.context.options.occurrences.has(count)
    }

    /// Removes all lines whose key does not occur as often as wanted.
    fn leave_out(&self, keys: &[u8], refs: &mut Vec<Ref>) {
        if self.context.options.occurrences == Occurrences::Any {
            return;
        }
        let (mut kept, mut from) = (0, 0);
        while from < refs.len() {
            let first = refs[from];
            let others = refs[from + 1..].iter();
            let more = others.take_while(|next| is_equal(keys, &first, next));
            let to = from + 1 + more.count();
            if self.wants((to - from) as u64) {
                refs.copy_within(from..to, kept);
                kept += to - from;
            }
            from = to;
        }
        refs.truncate(kept);
    }

    /// Writes a bucket of equal lines that were only counted.
    fn write_copies(
        &mut self,
        worker: &mut TaskWorker<'_, TableLines>,
        loaded: &Loaded<TableLines>,
    ) -> Result<()> {
        let bucket = &loaded.task.bucket;
        let Some(line) = &bucket.copies_of else {
            return Ok(());
        };
        if let Some(sides) = self.context.options.sides {
            return self.write_pairs(worker, loaded, sides);
        }
        let framing = self.context.framing;
        let len_bytes = (line.len() - framing.around_bytes()) as u32;
        let word = bucket.counts.items;
        let lines = match (self.wants(word), self.context.is_unique()) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => word,
        };
        let at = framing.head_bytes() as u32;
        let copy = Ref {
            word,
            at,
            len_bytes,
        };
        if let Some(parts) = self.parts {
            let mut copies = (0..lines).map(|_| framing.content(line));
            let bytes = lines * line.len() as u64;
            return self.hand_on(worker, loaded, parts, &mut copies, lines, bytes);
        }
        if let Some(tally) = self.context.kept {
            tally.take_line(framing.content(line), lines);
        }
        let refs = vec![copy; lines.min(COPIES_MAX) as usize];
        let gather = Gather::new(line, framing, &refs, lines, self.context.options.counts())
            .without_marks(self.context.options.hidden_bytes());
        let bytes = gather.bytes_left();
        let spot = worker.place(loaded, |_| bytes)?;
        self.emit(worker, spot, gather)
    }

    /// Writes a bucket of equal lines of two sides that were only counted.
    fn write_pairs(
        &mut self,
        worker: &mut TaskWorker<'_, TableLines>,
        loaded: &Loaded<TableLines>,
        sides: Sides,
    ) -> Result<()> {
        let bucket = &loaded.task.bucket;
        if bucket.kind.is_total {
            return self.write_total(worker, loaded, sides);
        }
        let line = bucket.copies_of.as_deref().unwrap_or_default();
        let framing = self.context.framing;
        let second = bucket.kind.second_side;
        let first = bucket.counts.items - second;
        let shown = sides.shown(first, second, &self.context.sides);
        let copies = shown.map(|shown| {
            let copy = Ref {
                word: shown.column,
                at: 0,
                len_bytes: (line.len() - framing.around_bytes()) as u32,
            };
            (
                vec![copy; shown.lines.min(COPIES_MAX) as usize],
                shown.lines,
            )
        });
        let mut gathers = copies.each_ref().map(|(refs, lines)| {
            Gather::new(line, framing, refs, *lines, self.context.options.counts())
                .without_marks(self.context.options.hidden_bytes())
        });
        let bytes = gathers.iter().map(Gather::bytes_left).sum();
        let lines = gathers.iter().map(Gather::lines_left).sum();
        let spot = worker.place(loaded, |_| bytes)?;
        self.done.lines.fetch_add(lines, Ordering::Relaxed);
        worker.emit(spot, |out| {
            let mut filled = 0;
            for gather in &mut gathers {
                filled += gather.fill(&mut out[filled..]);
            }
        })
    }

    /// Writes the totals of all columns, which are known when this bucket is next.
    fn write_total(
        &self,
        worker: &mut TaskWorker<'_, TableLines>,
        loaded: &Loaded<TableLines>,
        sides: Sides,
    ) -> Result<()> {
        let mut total = Vec::new();
        let spot = worker.place(loaded, |_| {
            total = sides.total(&self.context.sides, self.context.options.terminator);
            total.len() as u64
        })?;
        let mut rest = &total[..];
        worker.emit(spot, |out| {
            let (now, later) = rest.split_at(out.len().min(rest.len()));
            out[..now.len()].copy_from_slice(now);
            rest = later;
        })
    }

    /// Passes the rows of a bucket to their sink.
    fn hand_on(
        &mut self,
        worker: &TaskWorker<'_, TableLines>,
        loaded: &Loaded<TableLines>,
        parts: &Parts<'p>,
        rows: &mut dyn Iterator<Item = &[u8]>,
        count: u64,
        bytes: u64,
    ) -> Result<()> {
        let (number, is_last) = worker.tasks.part_of(loaded.load.index);
        let mut begun = match self.part.take() {
            Some(begun) => begun,
            None => Begun {
                number,
                part: parts.begin(number)?,
            },
        };
        begun.part.take(rows)?;
        self.done.lines.fetch_add(count, Ordering::Relaxed);
        self.done.bytes.fetch_add(bytes, Ordering::Relaxed);
        match is_last {
            true => {
                begun.part.finish()?;
                let checkpoints = self.context.checkpoints.as_ref();
                let bytes = parts.written[number + 1].bytes - parts.written[number].bytes;
                checkpoints.map_or(Ok(()), |checkpoints| parts.note(checkpoints, bytes))
            }
            false => {
                self.part = Some(begun);
                Ok(())
            }
        }
    }

    /// Writes the lines of a bucket in order.
    fn emit<'t>(
        &self,
        worker: &mut TaskWorker<'t, TableLines>,
        spot: Spot<'t>,
        mut gather: Gather<'_>,
    ) -> Result<()> {
        self.done
            .lines
            .fetch_add(gather.lines_left(), Ordering::Relaxed);
        worker.emit(spot, |out| {
            gather.fill(out);
        })
    }
}

fn bound_to_thread() -> Error {
    Error::usage("sort rows", "a part cannot change its thread").hint("a bug: please report it")
}

/// A bucket for the totals of all columns.
fn total_bucket() -> LineBucket {
    LineBucket {
        copies_of: Some(Box::default()),
        kind: TableLines {
            is_total: true,
            ..TableLines::default()
        },
        ..LineBucket::default()
    }
}

/// Whether two references have equal strings.
#[inline(always)]
fn is_equal(area: &[u8], a: &Ref, b: &Ref) -> bool {
    let (a_at, b_at) = (a.at as usize, b.at as usize);
    a.len_bytes == b.len_bytes && is_same(area, a_at, area, b_at, a.len_bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_that_go_together_share_a_space_that_is_enough_for_each() {
        let space = |area_bytes, lines| Space {
            area_bytes,
            lines,
            key_bytes: 0,
        };
        // The second bucket has too many lines to be sorted together with others. The third bucket
        // goes with the second and has more bytes, so both get a space for 6 bytes and 8 lines.
        let spaces = [space(9, 1), space(4, 8), space(6, 2), space(5, 1)];
        let mut alone = [None, Some(spaces[1]), None, None];
        share_space(&mut alone, &spaces, &[false, false, true, false]);
        let shared = Some(space(6, 8));
        assert_eq!(alone, [None, shared, shared, None]);
    }
}
