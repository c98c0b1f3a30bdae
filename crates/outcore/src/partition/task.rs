//! The second phase of every job: workers take bucket tasks in order, load the next buckets while
//! they process one, and emit its result.
//!
//! Model: PALID (SPAA 2025), section 4: each bucket is read, processed in memory and written at its
//! final place while the next ones load.
//!
//! Contract: a [`TaskWorker`] is one thread. Its [`BucketWork`] processes each loaded bucket and
//! emits the result: the bucket's area, or items by reference in chunks that are aligned like the
//! output. Every segment's checksum is verified before its items are used. The position of a
//! bucket's output may depend on the buckets before it (`--unique`, pipes). Workers then wait
//! between processing and output until the earlier buckets have been placed
//! ([`TaskWorker::place`]). A worker that knows the length of its output earlier may place the
//! output as soon as its task is next ([`TaskWorker::place_if_next`]). Tasks that need too much
//! memory to run on all threads at once run on a single thread.
//!
//! Bounds: each worker's own areas and chunks; each segment is read once, each output byte written
//! once.

use std::collections::VecDeque;
use std::io::Write;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bucket::{Bucket, Counts};
use super::checkpoint::{Checkpoints, addresses_of};
use super::kernel::{FETCH_AHEAD, copy_item, fetch};
use super::load::Load;
use super::{Partition, no_buffer};
use crate::job::thread_group::ThreadGroup;
use crate::writer::{Ranges, WRITE_TOKEN, Writer};
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool};
use outcore_io::port::{Port, Transfer};
use outcore_io::{Error, Result};

/// A bucket that is small enough to be processed in memory.
#[derive(Debug)]
pub(crate) struct BucketTask<K = ()> {
    pub(crate) bucket: Bucket<K>,
    /// First output byte, unless it depends on omitted items.
    pub(crate) start_bytes: u64,
}

impl<K> BucketTask<K> {
    /// The bytes of the bucket's output, unless they depend on omitted items.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start_bytes..self.start_bytes + self.bucket.counts.bytes
    }
}

/// Removes the tasks whose output an earlier run has written from `tasks`, and returns the number
/// of their items.
///
/// A task that is only partly in the output is done again, because its bucket may have been divided
/// in another way. Blocks that it shares with others are read from the file. A task without bytes
/// is done again as well: the lines of a table are its output too, and they have no bytes here.
pub(crate) fn take_over<K>(
    partition: &Partition<'_>,
    sink: &Sink<'_>,
    tasks: &mut Vec<BucketTask<K>>,
) -> Result<u64> {
    let (Some(checkpoints), Sink::Files(writer)) = (&partition.checkpoints, sink) else {
        return Ok(0);
    };
    let Some(in_output) = checkpoints.in_output() else {
        return Ok(0);
    };
    let (mut kept, mut items) = (Ranges::default(), 0);
    tasks.retain(|task| {
        let range = task.range();
        let is_kept = !range.is_empty() && in_output.covers(&range);
        if is_kept {
            items += task.bucket.counts.items;
            kept.add(range);
        }
        !is_kept
    });
    checkpoints.keep_output(writer, &kept)?;
    Ok(items)
}

/// The destination of the output.
pub(crate) enum Sink<'a> {
    /// To its final place in files.
    Files(&'a Writer),
    /// To a pipe, in order.
    Pipe(&'a Mutex<Box<dyn Write + Send>>),
}

/// The tasks of a job, each taken once, in order.
pub(crate) struct Tasks<'a, K> {
    list: Vec<Mutex<Option<BucketTask<K>>>>,
    next: AtomicUsize,
    /// Tasks with this number or a higher one are not taken yet.
    end: AtomicUsize,
    /// Ends of the ranges of tasks that one worker takes; each task after the last range is alone.
    part_ends: Vec<usize>,
    sink: Sink<'a>,
    /// Whether output follows that of the buckets before it, without gaps for omitted items.
    is_appended: bool,
    sequencer: Sequencer,
}

impl<'a, K> Tasks<'a, K> {
    /// The output of a task begins at its `start_bytes`, or, with `is_appended`, directly after the
    /// output of the tasks before it.
    pub(crate) fn new(list: Vec<BucketTask<K>>, sink: Sink<'a>, is_appended: bool) -> Self {
        let end = AtomicUsize::new(list.len());
        Tasks {
            list: list
                .into_iter()
                .map(|task| Mutex::new(Some(task)))
                .collect(),
            next: AtomicUsize::new(0),
            end,
            part_ends: Vec::new(),
            sink,
            is_appended,
            sequencer: Sequencer::default(),
        }
    }

    /// Groups the tasks: one worker takes all tasks from one of these ascending numbers up to the
    /// next.
    pub(crate) fn in_parts(mut self, part_ends: Vec<usize>) -> Self {
        self.part_ends = part_ends;
        self
    }

    /// The group of a task: its number, and whether the task is its last.
    pub(crate) fn part_of(&self, index: usize) -> (usize, bool) {
        let part = self.part_ends.partition_point(|end| *end <= index);
        (part, self.part_ends.get(part) == Some(&(index + 1)))
    }

    /// Whether a task's output waits for that of the tasks before it.
    fn is_sequenced(&self) -> bool {
        self.is_appended || matches!(self.sink, Sink::Pipe(_))
    }

    /// The block offset at which the output of a task starts, if it is known before its bucket is
    /// processed.
    pub(crate) fn phase(&self, task: &BucketTask<K>) -> usize {
        match &self.sink {
            Sink::Files(writer) if !self.is_appended => writer.phase(task.start_bytes),
            _ => 0,
        }
    }

    /// Bytes of output placed by tasks in sequence.
    pub(crate) fn placed_bytes(&self) -> u64 {
        self.sequencer.placed().bytes
    }

    /// Sets the limit: only tasks before `end` are taken.
    pub(crate) fn take_to(&self, end: usize) {
        self.end.store(end, Ordering::Release);
    }

    /// The next task for a worker that has already taken the tasks `own`.
    fn take(&self, own: &mut Range<usize>) -> Option<(usize, BucketTask<K>)> {
        if own.start >= own.end {
            let end = self.end.load(Ordering::Acquire);
            let part_end = |next: usize| {
                let part = self.part_ends.partition_point(|end| *end <= next);
                let part_end = self.part_ends.get(part).copied();
                part_end.unwrap_or(next + 1).min(end)
            };
            let step = |next: usize| (next < end).then(|| part_end(next));
            let first = self
                .next
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, step)
                .ok()?;
            *own = first..part_end(first);
        }
        let index = own.next()?;
        let mut cell = self.list[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Some((index, cell.take()?))
    }
}

/// Processing of a bucket, for one kind of job.
pub(crate) trait BucketWork<K> {
    /// The byte of its area from which a bucket is loaded; it is rounded up to a whole block.
    fn load_at(&self, _task: &BucketTask<K>) -> usize {
        0
    }

    /// Processes a bucket in memory, and emits the result.
    fn finish(
        &mut self,
        worker: &mut TaskWorker<'_, K>,
        loaded: Loaded<K>,
        area: Buf,
    ) -> Result<()>;

    /// Called when the thread has no more tasks for now.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called if the thread has failed: other threads must not wait for its remaining work.
    fn give_up(&mut self) {}
}

/// A bucket in memory; its segments are with the load.
pub(crate) struct Loaded<K> {
    pub(crate) task: BucketTask<K>,
    pub(crate) load: Load,
}

/// Memory of one worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskMemory {
    /// For buckets.
    pub(crate) area_bytes: usize,
    pub(crate) areas: usize,
    /// For output that is not written directly from its area.
    pub(crate) chunk_bytes: usize,
    pub(crate) chunks: usize,
    /// Largest number of buckets that load at once.
    pub(crate) loads_max: usize,
}

/// The place of a bucket's output, and whether it must be written before other buckets are placed.
pub(crate) struct Spot<'a> {
    at_bytes: u64,
    bytes: u64,
    turn: Option<MutexGuard<'a, Placed>>,
}

/// One thread of the second phase.
pub(crate) struct TaskWorker<'a, K> {
    partition: &'a Partition<'a>,
    pub(crate) tasks: &'a Tasks<'a, K>,
    pub(crate) port: Port,
    areas: Pool,
    chunks: Option<Pool>,
    loads_max: usize,
    loads: VecDeque<Loaded<K>>,
    /// Tasks that no other worker takes.
    own: Range<usize>,
    finished: Vec<Transfer>,
}

/// Processes all available tasks on `threads` threads, each with its memory from the line `name` of
/// the ledger.
pub(crate) fn run_tasks<K: Send, W: BucketWork<K>>(
    partition: &Partition<'_>,
    tasks: &Tasks<'_, K>,
    name: &'static str,
    memory: TaskMemory,
    threads: usize,
    work: impl Fn() -> W + Sync,
) -> Result<()> {
    if let Some(scratch) = partition.scratch.made() {
        scratch.seal();
    }
    let budget = &partition.job.budget;
    let mut pools = Vec::new();
    for _ in 0..threads {
        let areas = Pool::new(budget, name, memory.area_bytes, memory.areas)?;
        let chunks = match memory.chunks {
            0 => None,
            count => Some(Pool::new(budget, name, memory.chunk_bytes, count)?),
        };
        pools.push((areas, chunks));
    }
    if let Some(checkpoints) = &partition.checkpoints {
        checkpoints.begin(partition.thread_group.threads().min(threads));
    }
    partition.on_all_threads(|thread| {
        let Some((areas, chunks)) = pools.get(thread).cloned() else {
            return Ok(());
        };
        let mut worker = TaskWorker {
            partition,
            tasks,
            port: partition.volume.port()?,
            areas,
            chunks,
            loads_max: memory.loads_max,
            loads: VecDeque::new(),
            own: 0..0,
            finished: Vec::new(),
        };
        let mut guarded = Guarded {
            work: work(),
            is_done: false,
            kind: PhantomData,
        };
        worker.run(&mut guarded.work)?;
        guarded.work.end()?;
        guarded.is_done = true;
        Ok(())
    })?;
    Ok(())
}

/// The work of one thread; given up if the thread fails or panics.
struct Guarded<K, W: BucketWork<K>> {
    work: W,
    is_done: bool,
    kind: PhantomData<fn(K)>,
}

impl<K, W: BucketWork<K>> Drop for Guarded<K, W> {
    fn drop(&mut self) {
        if !self.is_done {
            self.work.give_up();
        }
    }
}

impl<'a, K> TaskWorker<'a, K> {
    fn run(&mut self, work: &mut impl BucketWork<K>) -> Result<()> {
        let checkpoints = self.checkpoints();
        loop {
            self.partition.check()?;
            if let Some((checkpoints, writer)) = checkpoints
                && checkpoints.is_due()
            {
                while self.port.in_flight() > 0 {
                    self.partition.check()?;
                    self.poll(true)?;
                }
                checkpoints.meet_writing(&self.partition.thread_group, writer)?;
            }
            self.start_loads(work)?;
            match self.loads.front() {
                Some(loaded) if loaded.load.is_complete() => {
                    if let Some(mut loaded) = self.loads.pop_front() {
                        // Reuses the freed area for another bucket, and keeps the drives busy
                        // during the work.
                        self.start_loads(work)?;
                        self.poll(false)?;
                        let bytes = loaded.task.bucket.counts.bytes;
                        let area = loaded.load.join(self.partition)?;
                        let done = checkpoints.map(|(checkpoints, _)| {
                            let start_bytes = loaded.task.start_bytes;
                            let segments = addresses_of(&loaded.load.segments).collect();
                            (checkpoints, start_bytes..start_bytes + bytes, segments)
                        });
                        work.finish(self, loaded, area)?;
                        if let Some((checkpoints, range, segments)) = done {
                            checkpoints.note_written(range, segments);
                        }
                        let control = &self.partition.job.control;
                        control.advance(bytes);
                        control.watch(self.partition.volume);
                    }
                    self.poll(false)?;
                }
                None if self.port.in_flight() == 0 => {
                    if let Some((checkpoints, _)) = checkpoints {
                        checkpoints.leave();
                    }
                    return Ok(());
                }
                _ => self.poll(true)?,
            }
        }
    }

    /// The journal for ranges of the output, if their places do not depend on one another.
    fn checkpoints(&self) -> Option<(&'a Checkpoints<'a>, &'a Writer)> {
        let checkpoints = self.partition.checkpoints.as_ref()?;
        match &self.tasks.sink {
            Sink::Files(writer) if !self.tasks.is_appended => Some((checkpoints, writer)),
            _ => None,
        }
    }

    /// Loads the next buckets while there are free areas.
    fn start_loads(&mut self, work: &impl BucketWork<K>) -> Result<()> {
        while self.areas.free_slots() > 0 && self.loads.len() < self.loads_max {
            let Some((index, mut task)) = self.tasks.take(&mut self.own) else {
                break;
            };
            let area = self.areas.take().ok_or_else(no_buffer)?;
            let at = work.load_at(&task).next_multiple_of(BLOCK_BYTES);
            let segments = std::mem::take(&mut task.bucket.segments);
            let load = Load::start(self.partition, &mut self.port, index, segments, area, at)?;
            self.loads.push_back(Loaded { task, load });
        }
        Ok(())
    }

    /// Starts submitted requests and collects completed reads.
    pub(crate) fn poll(&mut self, wait: bool) -> Result<()> {
        self.port.poll(wait, &mut self.finished)?;
        for transfer in self.finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(self.partition.volume.explain(&fault));
            }
            if transfer.token == WRITE_TOKEN {
                continue;
            }
            let index = Load::index_of(transfer.token);
            let mut loads = self.loads.iter_mut().map(|loaded| &mut loaded.load);
            if let Some(load) = loads.find(|load| load.index == index) {
                load.take_back(transfer.token, transfer.buf);
            }
        }
        Ok(())
    }

    /// The place of a bucket's output: as planned, or after the output of the buckets before it,
    /// for which it waits. `bytes` returns the length of the output. It is called when the task is
    /// next, and receives the last item kept before this bucket, so that it can omit an equal item.
    pub(crate) fn place(
        &self,
        loaded: &Loaded<K>,
        bytes: impl FnOnce(&mut Option<Box<[u8]>>) -> u64,
    ) -> Result<Spot<'a>> {
        if !self.tasks.is_sequenced() {
            return Ok(Spot {
                at_bytes: loaded.task.start_bytes,
                bytes: bytes(&mut None),
                turn: None,
            });
        }
        let sequencer = &self.tasks.sequencer;
        let mut placed = sequencer.wait_for(loaded.load.index, &self.partition.thread_group)?;
        let bytes = bytes(&mut placed.last);
        let at_bytes = placed.bytes;
        placed.bytes += bytes;
        let turn = match &self.tasks.sink {
            Sink::Files(_) => {
                sequencer.pass_on(placed);
                None
            }
            Sink::Pipe(_) => Some(placed),
        };
        Ok(Spot {
            at_bytes,
            bytes,
            turn,
        })
    }

    /// Like `place`, but before the bucket has been processed, if that needs no waiting. `None` if
    /// the task is not next, or for a pipe: there, the next task cannot be placed before this one's
    /// output has been written.
    pub(crate) fn place_if_next(&self, loaded: &Loaded<K>, bytes: u64) -> Option<Spot<'a>> {
        if !self.tasks.is_appended || !matches!(self.tasks.sink, Sink::Files(_)) {
            return None;
        }
        let sequencer = &self.tasks.sequencer;
        let mut placed = sequencer.placed();
        if placed.next != loaded.load.index {
            return None;
        }
        let at_bytes = placed.bytes;
        placed.bytes += bytes;
        sequencer.pass_on(placed);
        Some(Spot {
            at_bytes,
            bytes,
            turn: None,
        })
    }

    /// Emits the contents of `area` after `start`, without a copy if it is aligned like the output.
    pub(crate) fn emit_area(&mut self, spot: Spot<'a>, mut area: Buf, start: usize) -> Result<()> {
        let total = spot.bytes as usize;
        match &self.tasks.sink {
            Sink::Files(writer) => {
                let phase = writer.phase(spot.at_bytes);
                if phase != start {
                    area.copy_within(start..start + total, phase);
                }
                write_in_place(writer, &mut self.port, area, phase, total, spot.at_bytes)?;
            }
            Sink::Pipe(pipe) => write_pipe(pipe, &area[start..start + total])?,
        }
        self.end_turn(spot);
        Ok(())
    }

    /// Emits output in chunks that are aligned like it; `fill` fills each chunk to its end.
    pub(crate) fn emit(&mut self, spot: Spot<'a>, mut fill: impl FnMut(&mut [u8])) -> Result<()> {
        let (mut at_bytes, mut left) = (spot.at_bytes, spot.bytes);
        while left > 0 {
            let mut chunk = self.take_chunk()?;
            let (phase, room) = match &self.tasks.sink {
                Sink::Files(writer) => (writer.phase(at_bytes), writer.room(at_bytes)),
                Sink::Pipe(_) => (0, u64::MAX),
            };
            let len = ((chunk.len() - phase) as u64).min(left).min(room) as usize;
            fill(&mut chunk[phase..phase + len]);
            match &self.tasks.sink {
                Sink::Files(writer) => {
                    writer.write(&mut self.port, chunk, phase, len, at_bytes)?;
                    self.poll(false)?;
                }
                Sink::Pipe(pipe) => write_pipe(pipe, &chunk[..len])?,
            }
            at_bytes += len as u64;
            left -= len as u64;
        }
        self.end_turn(spot);
        Ok(())
    }

    /// Lets the next task place its output.
    pub(crate) fn end_turn(&self, spot: Spot<'a>) {
        if let Some(placed) = spot.turn {
            self.tasks.sequencer.pass_on(placed);
        }
    }

    fn take_chunk(&mut self) -> Result<Buf> {
        loop {
            let chunk = self.chunks.as_ref().and_then(Pool::take);
            if let Some(chunk) = chunk {
                return Ok(chunk);
            }
            self.partition.check()?;
            if self.port.in_flight() == 0 {
                return Err(no_buffer());
            }
            self.poll(true)?;
        }
    }
}

/// Admits bucket tasks in order: which one may place its output now, and what has been placed
/// before.
#[derive(Debug, Default)]
struct Sequencer {
    state: Mutex<Placed>,
    changed: Condvar,
}

/// The output of the tasks placed so far.
#[derive(Debug, Default)]
struct Placed {
    /// The task that may place its output next.
    next: usize,
    /// Bytes placed.
    bytes: u64,
    /// The last item, if it is kept.
    last: Option<Box<[u8]>>,
}

impl Sequencer {
    fn placed(&self) -> MutexGuard<'_, Placed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until task `index` may place its output.
    fn wait_for(
        &self,
        index: usize,
        thread_group: &ThreadGroup<'_>,
    ) -> Result<MutexGuard<'_, Placed>> {
        let mut placed = self.placed();
        while placed.next != index {
            thread_group.check()?;
            let waited = self.changed.wait_timeout(placed, Duration::from_millis(50));
            placed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(placed)
    }

    fn pass_on(&self, mut placed: MutexGuard<'_, Placed>) {
        placed.next += 1;
        drop(placed);
        self.changed.notify_all();
    }
}

/// A place in a sequence of items: a byte of an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ItemPlace {
    pub(crate) index: usize,
    pub(crate) offset_bytes: usize,
}

/// Fills `out` with items in the order of `refs`, from `next` on, until either ends. `range`
/// returns an item's offset in `area`, and its length. Returns the number of bytes, and the place
/// where it stopped.
#[inline]
pub(crate) fn gather<P: Copy>(
    area: &[u8],
    refs: &[P],
    range: impl Fn(P) -> (usize, usize),
    next: ItemPlace,
    out: &mut [u8],
) -> (usize, ItemPlace) {
    let (mut index, mut offset) = (next.index, next.offset_bytes);
    let mut filled = 0;
    while filled < out.len() && index < refs.len() {
        if let Some(&ahead) = refs.get(index + FETCH_AHEAD) {
            let (at, len_bytes) = range(ahead);
            fetch(area, at, len_bytes);
        }
        let (at, item_bytes) = range(refs[index]);
        if offset == 0 && copy_item(area, at, item_bytes, &mut out[filled..]) {
            filled += item_bytes;
            index += 1;
            continue;
        }
        let len = (item_bytes - offset).min(out.len() - filled);
        out[filled..filled + len].copy_from_slice(&area[at + offset..at + offset + len]);
        filled += len;
        offset += len;
        if offset == item_bytes {
            index += 1;
            offset = 0;
        }
    }
    let next = ItemPlace {
        index,
        offset_bytes: offset,
    };
    (filled, next)
}

/// Tasks for buckets, one after another in the output. Copies of one item are divided into pieces
/// of at most `copies_bytes_max`, so that several threads write them.
pub(crate) fn tasks_in_order<K: Default>(
    buckets: impl IntoIterator<Item = Bucket<K>>,
    copies_bytes_max: Option<usize>,
) -> Vec<BucketTask<K>> {
    let mut tasks = Vec::new();
    let mut start_bytes = 0;
    for bucket in buckets {
        let Counts { items, bytes, .. } = bucket.counts;
        match (&bucket.copies_of, copies_bytes_max) {
            (Some(item), Some(bytes_max)) => {
                let item_bytes = item.len() as u64;
                let each = (bytes_max as u64 / item_bytes).max(1);
                for first in (0..items).step_by(each as usize) {
                    let mut part = Bucket {
                        depth: bucket.depth,
                        copies_of: Some(item.clone()),
                        ..Bucket::default()
                    };
                    part.counts.items = each.min(items - first);
                    part.counts.bytes = part.counts.items * item_bytes;
                    tasks.push(BucketTask {
                        bucket: part,
                        start_bytes: start_bytes + first * item_bytes,
                    });
                }
            }
            _ => tasks.push(BucketTask {
                bucket,
                start_bytes,
            }),
        }
        start_bytes += bytes;
    }
    tasks
}

/// Writes `area[start..start + total]` at output byte `at_bytes`, across file boundaries. If a
/// piece ends inside a block, the rest of that block in the area goes to the next file's piece.
/// That piece is moved by less than a block to be aligned like its file, so the area is long enough
/// for any number of boundaries.
pub(crate) fn write_in_place(
    writer: &Writer,
    port: &mut Port,
    mut area: Buf,
    start: usize,
    total: usize,
    at_bytes: u64,
) -> Result<()> {
    let (mut start, mut left, mut at_bytes) = (start, total, at_bytes);
    while left > 0 {
        let room = writer.room(at_bytes);
        let len = left.min(usize::try_from(room).unwrap_or(usize::MAX));
        if len == 0 || len == left {
            return writer.write(port, area, start, left, at_bytes);
        }
        let whole_end = (start + len) / BLOCK_BYTES * BLOCK_BYTES;
        let mut end = start + len;
        if whole_end > start {
            let front = area.split_to(whole_end);
            let whole = whole_end - start;
            writer.write(port, front, start, whole, at_bytes)?;
            writer.write_edge_of(port, &area[..end - whole_end], at_bytes + whole as u64)?;
            end -= whole_end;
        } else {
            writer.write_edge_of(port, &area[start..end], at_bytes)?;
        }
        left -= len;
        at_bytes += len as u64;
        start = writer.phase(at_bytes);
        area.copy_within(end..end + left, start);
    }
    Ok(())
}

pub(crate) fn write_pipe(pipe: &Mutex<Box<dyn Write + Send>>, bytes: &[u8]) -> Result<()> {
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write_all(bytes)
        .map_err(|e| Error::io("write output", &e))
}
