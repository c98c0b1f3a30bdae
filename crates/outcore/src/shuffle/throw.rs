//! The first phase: every record is thrown into its bucket, and buckets too large are thrown again.
//!
//! Contract: a worker reads chunks of the input in order and throws their records by the tree
//! ([`super::tree`]) through several levels at once. Segments note where chunks continue in them,
//! so that the order inside a bucket is the order of the input, whoever wrote what. A bucket that
//! is larger than an area is read back by one worker and thrown further; different ones by all.
//!
//! Bounds: the plan's buffers; the input and each bucket thrown again are read once and written at
//! most once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Shared;
use super::plan::{INPUT, LONG_READ};
use super::records::{Records, Stop};
use super::tree::{Node, Walk, fan_out};
use crate::error::Result;
use crate::memory::Pool;
use crate::partition::SPLIT_SEGMENTS;
use crate::partition::bucket::{Bucket, Out, Piece, Segment, join_outs};
use crate::partition::read::{LongItem, SegmentQueue, SegmentReader};
use crate::partition::scatter::ScatterWorker;
use crate::read::regions::{Chunks, RegionReader};
use crate::volume::Transfer;

/// Bits of a position below the number of the chunk: how many of the chunk's records came before, in
/// the node.
const NUMBER_BITS: u32 = 44;
/// Chunks whose walk is remembered.
const OPEN_MAX: usize = 16;
/// A node's records.
pub(super) type NodeBucket = Bucket<Node>;

/// Chunk and number from the position of a piece.
pub(super) fn chunk_and_number(position: u64) -> (u64, u64) {
    (position >> NUMBER_BITS, position & ((1 << NUMBER_BITS) - 1))
}

/// Where a chunk's records have got to.
struct Open<P> {
    chunk: u64,
    walk: Walk,
    /// Of each bucket: how many of the chunk's records are noted in it.
    noted: Vec<u64>,
    /// Records that have been walked and not been moved.
    pending: P,
}

/// One worker with its buffers.
struct Thrower<'a, R: Records> {
    shared: &'a Shared<'a, R>,
    root: Node,
    levels: u32,
    worker: ScatterWorker<'a>,
    /// Records in each bucket's buffer that are not noted.
    added: Vec<u32>,
    open: VecDeque<Open<R::Pending>>,
    /// What has been read.
    others: Vec<Transfer>,
}

/// Throws the whole input; buckets of the first level of distribution, in order.
pub(super) fn throw_input<R: Records>(
    shared: &Shared<'_, R>,
    chunks: &Chunks,
) -> Result<Vec<NodeBucket>> {
    let plan = shared.plan;
    let sizes = plan.region_sizes();
    let slots = sizes.slots() * plan.size.threads;
    let budget = &shared.job.budget;
    let pool = Pool::new(budget, INPUT, sizes.slot_bytes(), slots)?;
    let outs = shared.on_all_threads(|_| {
        let mut thrower = Thrower::new(shared, Node::ROOT, plan.levels, false)?;
        if plan.distributions > 0 {
            let first = shared.spilling(false).resident_below;
            let record_bytes = plan.size.record_bytes.unwrap_or(1);
            thrower.worker.stagger(first, record_bytes);
        }
        let framing = shared.records.framing();
        let reader = RegionReader::new(chunks, framing, sizes, pool.clone());
        thrower.throw_regions(reader)?;
        thrower.finish(plan.distributions <= 1)
    })?;
    Ok(collect(Node::ROOT, plan.levels, outs))
}

/// Buckets of `levels` levels below `root` from what each worker has put there.
fn collect(root: Node, levels: u32, outs: Vec<Vec<Out>>) -> Vec<NodeBucket> {
    let mut buckets: Vec<NodeBucket> = (0..fan_out(levels))
        .map(|index| NodeBucket {
            kind: root.below(levels, index),
            ..NodeBucket::default()
        })
        .collect();
    join_outs(&mut buckets, outs);
    buckets
}

/// Throws buckets further that do not fit an area, until all do, or the tree ends.
pub(super) fn split_oversized<R: Records>(
    shared: &Shared<'_, R>,
    buckets: Vec<NodeBucket>,
) -> Result<Vec<NodeBucket>> {
    let is_large = |bucket: &NodeBucket| shared.is_oversized(bucket);
    if !buckets.iter().any(is_large) {
        return Ok(buckets);
    }
    let cells: Vec<Mutex<Vec<NodeBucket>>> =
        buckets.into_iter().map(|b| Mutex::new(vec![b])).collect();
    let next = AtomicUsize::new(0);
    shared.on_all_threads(|_| {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut done = Vec::new();
            let mut todo = std::mem::take(&mut *lock(cell));
            todo.reverse();
            while let Some(bucket) = todo.pop() {
                shared.check()?;
                if shared.is_oversized(&bucket) && bucket.kind.level < shared.tree.levels {
                    todo.extend(split(shared, bucket)?.into_iter().rev());
                } else {
                    done.push(bucket);
                }
            }
            *lock(cell) = done;
        }
        Ok(())
    })?;
    let cells = cells.into_iter().map(|cell| cell.into_inner());
    Ok(cells
        .flat_map(|cell| cell.unwrap_or_else(PoisonError::into_inner))
        .collect())
}

fn lock<T>(cell: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Throws one bucket so many levels further that its buckets fit an area, if the buffers allow it.
fn split<R: Records>(shared: &Shared<'_, R>, bucket: NodeBucket) -> Result<Vec<NodeBucket>> {
    let left = shared.tree.levels - bucket.kind.level;
    let area_bytes = shared.plan.bucket_bytes_max as u64;
    let mut levels = 1;
    while levels < left.min(shared.plan.levels.max(1))
        && bucket.counts.bytes + bucket.counts.bytes / 4 > area_bytes * fan_out(levels) as u64
    {
        levels += 1;
    }
    let mut thrower = Thrower::new(shared, bucket.kind, levels, true)?;
    thrower.throw_segments(bucket.segments)?;
    let outs = thrower.finish(false)?;
    Ok(collect(bucket.kind, levels, vec![outs]))
}

impl<'a, R: Records> Thrower<'a, R> {
    fn new(shared: &'a Shared<'a, R>, root: Node, levels: u32, is_split: bool) -> Result<Self> {
        let count = fan_out(levels);
        Ok(Thrower {
            shared,
            root,
            levels,
            worker: ScatterWorker::new(shared, shared.spilling(is_split), count, false)?,
            added: vec![0; count],
            open: VecDeque::new(),
            others: Vec::new(),
        })
    }

    fn throw_regions(&mut self, mut reader: RegionReader<'_, R::Framing>) -> Result<()> {
        loop {
            self.shared.check()?;
            reader.start(&mut self.worker.port)?;
            match reader.take(&mut self.worker.port)? {
                Some(region) => {
                    self.open_chunk(region.chunk, None);
                    for slice in region.slices() {
                        self.throw(slice)?;
                    }
                    if region.ends_chunk {
                        self.note_all();
                        self.open.pop_front();
                    }
                    let control = &self.shared.job.control;
                    control.advance(region.advance_bytes);
                    control.watch(self.shared.volume);
                    drop(region);
                    self.worker.poll(false, &mut self.others)?;
                }
                None if reader.is_done() => return Ok(()),
                None => self.worker.poll(true, &mut self.others)?,
            }
            let mut come = self.others.drain(..);
            come.try_for_each(|transfer| reader.settle(transfer))?;
        }
    }

    /// Goes on with a chunk, at its record `number` in the root if that is not where it was left.
    fn open_chunk(&mut self, chunk: u64, number: Option<u64>) {
        if self.open.front().is_none_or(|open| open.chunk != chunk) {
            self.note_all();
            let known = self.open.iter().position(|open| open.chunk == chunk);
            match known.and_then(|at| self.open.remove(at)) {
                Some(open) => self.open.push_front(open),
                None => {
                    self.open.truncate(OPEN_MAX - 1);
                    self.open.push_front(Open {
                        chunk,
                        walk: Walk::new(self.shared.tree, self.root, self.levels, chunk),
                        noted: vec![0; self.added.len()],
                        pending: R::Pending::default(),
                    });
                }
            }
        }
        let (Some(number), Some(open)) = (number, self.open.front_mut()) else {
            return;
        };
        if open.walk.number() != number {
            // What lies between went elsewhere: another worker's part of a chunk it had open.
            open.walk.begin(chunk);
            open.noted.fill(0);
            for _ in 0..number {
                open.noted[open.walk.next()] += 1;
            }
        }
    }

    /// Throws whole records of the chunk that is open.
    fn throw(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let Some(open) = self.open.front_mut() else {
                return Ok(());
            };
            let (moved, stop) = self.shared.records.throw(
                bytes,
                &mut open.walk,
                &mut self.worker.buffers,
                &mut open.pending,
                &mut self.added,
            );
            bytes = &bytes[moved..];
            match stop {
                None => return Ok(()),
                Some(Stop::Full(bucket)) => self.emit(bucket)?,
                Some(Stop::Long(bucket, len_bytes)) => {
                    self.write_long(bucket, &bytes[..len_bytes])?;
                    bytes = &bytes[len_bytes..];
                }
            }
        }
        Ok(())
    }

    /// Notes in every bucket's buffer what has come of the chunk that is open.
    fn note_all(&mut self) {
        for bucket in 0..self.added.len() {
            self.note(bucket);
        }
    }

    fn note(&mut self, bucket: usize) {
        let Some(open) = self.open.front_mut() else {
            return;
        };
        let filled_bytes = self.worker.buffers.filled_bytes(bucket);
        let out = self.worker.spill.out(bucket);
        let added_bytes = out.uncovered_bytes(filled_bytes);
        let records = self.shared.records;
        let count = records.take_added(&mut self.added[bucket], added_bytes);
        let position = (open.chunk << NUMBER_BITS) | open.noted[bucket];
        open.noted[bucket] += u64::from(count);
        out.note_piece(filled_bytes, position, count);
    }

    /// Makes a segment of a bucket's buffer and puts an empty one in its place.
    fn emit(&mut self, bucket: usize) -> Result<()> {
        self.note(bucket);
        let count = self.worker.spill.out(bucket).noted_count();
        self.worker.emit(bucket, count, &mut self.others)
    }

    /// Writes a record that is longer than a buffer as a chain of segments.
    fn write_long(&mut self, bucket: usize, record: &[u8]) -> Result<()> {
        if self.worker.buffers.filled_bytes(bucket) > 0 {
            self.emit(bucket)?;
        }
        let Some(open) = self.open.front_mut() else {
            return Ok(());
        };
        let position = (open.chunk << NUMBER_BITS) | open.noted[bucket];
        open.noted[bucket] += 1;
        R::moved(&mut open.pending);
        let part_bytes = self.shared.plan.segment_bytes;
        let out = self.worker.spill.out(bucket);
        out.note_piece(part_bytes, position, 1);
        self.worker.store_long(bucket, record, &mut self.others)
    }

    /// Throws segments in the order in which they were made.
    fn throw_segments(&mut self, segments: Vec<Segment>) -> Result<()> {
        let plan = self.shared.plan;
        let budget = &self.shared.job.budget;
        let pool = Pool::new(
            budget,
            SPLIT_SEGMENTS,
            plan.segment_bytes,
            plan.split_reads(),
        )?;
        // What is put together grows by doubling.
        let long_bytes = match plan.size.record_bytes {
            Some(_) => 0,
            None => 2 * plan.line_bytes_max as u64,
        };
        let _long = budget.reserve(LONG_READ, long_bytes)?;
        let queue = SegmentQueue::new(segments);
        let mut reader = SegmentReader::new(self.shared, pool);
        let mut taken = VecDeque::new();
        let mut long_line = LongItem::default();
        loop {
            self.shared.check()?;
            let next = || queue.next(u64::MAX, &mut taken);
            reader.start(&mut self.worker.port, next)?;
            match reader.next(true) {
                Some(read) => {
                    let bytes = u64::from(read.segment.payload_bytes);
                    if let Some((records, pieces)) = long_line.join(&read) {
                        self.throw_pieces(records, pieces)?;
                    }
                    reader.give_back(read);
                    self.shared.job.control.advance(bytes);
                    self.worker.poll(false, &mut self.others)?;
                }
                None if reader.is_idle() => return Ok(()),
                None => self.worker.poll(true, &mut self.others)?,
            }
            let mut come = self.others.drain(..);
            come.try_for_each(|transfer| reader.settle(transfer))?;
        }
    }

    /// Throws the records of a segment, or a long one, which come of these pieces of chunks.
    fn throw_pieces(&mut self, records: &[u8], pieces: &[Piece]) -> Result<()> {
        let mut at = 0;
        for piece in pieces {
            let (chunk, number) = chunk_and_number(piece.position);
            self.open_chunk(chunk, Some(number));
            // Of a long record the piece has only the first part.
            let to = match pieces.len() {
                1 => records.len(),
                _ => at + piece.bytes as usize,
            };
            self.throw(&records[at..to])?;
            at = to;
        }
        Ok(())
    }

    /// Stores the part-filled buffers and waits for all writes.
    fn finish(mut self, keep_partials: bool) -> Result<Vec<Out>> {
        self.note_all();
        self.worker
            .finish(keep_partials, |out, _, _| Some(out.noted_count()))
    }
}
