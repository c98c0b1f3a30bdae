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
use std::time::Duration;

use super::Shared;
use super::plan::{INPUT, LONG_READ, LONG_WRITTEN, SPLIT};
use super::records::{Records, Stop};
use super::tree::{Node, Walk, fan_out};
use crate::algo::bucket::{Home, Out, Segment, verify_segment};
use crate::algo::kernel::Scatter;
use crate::algo::spill::{SPILL_TOKENS, Spill, place_bytes};
use crate::drive::Op;
use crate::error::{Error, Kind, Result};
use crate::memory::{BLOCK_BYTES, Buf, Pool, block_ceil};
use crate::stream::regions::{Chunks, REGION_TOKENS, RegionReader};
use crate::volume::Port;

/// Bits of a position below the number of the chunk: how many of the chunk's records came before, in
/// the node.
const NUMBER_BITS: u32 = 44;
/// Chunks whose walk is remembered.
const OPEN_MAX: usize = 16;
/// Lengths of first segments.
const STAGGER_STEPS: usize = 16;
/// How long a thread rests that waits for memory which others will give back.
pub(super) const REST: Duration = Duration::from_micros(200);

/// A node's records.
pub(super) struct Bucket {
    pub(super) node: Node,
    pub(super) segments: Vec<Segment>,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

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
    port: Port,
    spill: Spill<'a>,
    scatter: Scatter,
    /// Records in each bucket's buffer that are not noted.
    added: Vec<u32>,
    open: VecDeque<Open<R::Pending>>,
    reader: Option<RegionReader<'a, R::Framing>>,
    finished: Vec<crate::volume::Transfer>,
    /// Segments read back, by their number.
    read_back: Vec<(usize, Buf)>,
}

/// Throws the whole input; buckets of the first level of distribution, in order.
pub(super) fn throw_input<R: Records>(
    shared: &Shared<'_, R>,
    chunks: &Chunks,
) -> Result<Vec<Bucket>> {
    let plan = shared.plan;
    let sizes = plan.region_sizes();
    let slots = sizes.slots() * plan.size.threads;
    let budget = &shared.job.budget;
    let pool = Pool::new(budget, INPUT, sizes.slot_bytes(), slots)?;
    let outs = shared.on_all_threads(|_| {
        let framing = shared.records.framing();
        let reader = RegionReader::new(chunks, framing, sizes, pool.clone());
        let mut thrower = Thrower::new(shared, Node::ROOT, plan.levels, Some(reader))?;
        thrower.stagger();
        thrower.throw_regions()?;
        thrower.finish(plan.distributions <= 1)
    })?;
    Ok(collect(Node::ROOT, plan.levels, outs))
}

/// Buckets of `levels` levels below `root` from what each worker has put there.
fn collect(root: Node, levels: u32, outs: Vec<Vec<Out>>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = (0..fan_out(levels))
        .map(|index| Bucket {
            node: root.below(levels, index),
            segments: Vec::new(),
            count: 0,
            bytes: 0,
        })
        .collect();
    for outs in outs {
        for (bucket, out) in buckets.iter_mut().zip(outs) {
            bucket.count += out.count;
            let payloads = out.segments.iter().map(|s| u64::from(s.payload_bytes));
            bucket.bytes += payloads.sum::<u64>();
            bucket.segments.extend(out.segments);
        }
    }
    buckets
}

/// Throws buckets further that do not fit an area, until all do, or the tree ends.
pub(super) fn split_oversized<R: Records>(
    shared: &Shared<'_, R>,
    buckets: Vec<Bucket>,
) -> Result<Vec<Bucket>> {
    let is_large = |bucket: &Bucket| shared.is_oversized(bucket);
    if !buckets.iter().any(is_large) {
        return Ok(buckets);
    }
    let cells: Vec<Mutex<Vec<Bucket>>> = buckets.into_iter().map(|b| Mutex::new(vec![b])).collect();
    let next = AtomicUsize::new(0);
    shared.on_all_threads(|_| {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut done = Vec::new();
            let mut todo = std::mem::take(&mut *lock(cell));
            todo.reverse();
            while let Some(bucket) = todo.pop() {
                shared.crew.check()?;
                if shared.is_oversized(&bucket) && bucket.node.level < shared.tree.levels {
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
fn split<R: Records>(shared: &Shared<'_, R>, bucket: Bucket) -> Result<Vec<Bucket>> {
    let left = shared.tree.levels - bucket.node.level;
    let area_bytes = shared.plan.bucket_bytes_max as u64;
    let mut levels = 1;
    while levels < left.min(shared.plan.levels.max(1))
        && bucket.bytes + bucket.bytes / 4 > area_bytes * fan_out(levels) as u64
    {
        levels += 1;
    }
    let mut thrower = Thrower::new(shared, bucket.node, levels, None)?;
    thrower.throw_segments(bucket.segments)?;
    let outs = thrower.finish(false)?;
    Ok(collect(bucket.node, levels, vec![outs]))
}

impl<'a, R: Records> Thrower<'a, R> {
    fn new(
        shared: &'a Shared<'a, R>,
        root: Node,
        levels: u32,
        reader: Option<RegionReader<'a, R::Framing>>,
    ) -> Result<Self> {
        let count = fan_out(levels);
        let spill = Spill::new(shared.spill_to(reader.is_none()), count);
        let mut bufs = Vec::with_capacity(count);
        for _ in 0..count {
            bufs.push(spill.take_buffer()?);
        }
        Ok(Thrower {
            shared,
            root,
            levels,
            port: shared.volume.port()?,
            spill,
            scatter: Scatter::new(bufs, shared.plan.segment_payload_bytes),
            added: vec![0; count],
            open: VecDeque::new(),
            reader,
            finished: Vec::new(),
            read_back: Vec::new(),
        })
    }

    /// Shortens the first segments that go to scratch, each by another part, so that buffers do not
    /// all become full at the same time (as in [`crate::algo::distribute`]).
    fn stagger(&mut self) {
        let plan = self.shared.plan;
        if plan.distributions == 0 {
            return;
        }
        let record_bytes = plan.size.record_bytes.unwrap_or(1);
        let records = plan.segment_payload_bytes / record_bytes;
        let steps = STAGGER_STEPS.min(plan.segment_bytes / BLOCK_BYTES);
        for bucket in self.shared.resident_below()..self.spill.bucket_count() {
            let short = records * (bucket % steps + 1) / steps;
            self.scatter.shorten(bucket, short.max(1) * record_bytes);
        }
    }

    fn throw_regions(&mut self) -> Result<()> {
        loop {
            self.shared.crew.check()?;
            let Some(reader) = &mut self.reader else {
                return Ok(());
            };
            reader.start(&mut self.port)?;
            let Some(region) = reader.take(&mut self.port)? else {
                if reader.is_done() {
                    return Ok(());
                }
                self.poll(true)?;
                continue;
            };
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
            self.poll(false)?;
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
                        noted: vec![0; self.spill.bucket_count()],
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
                &mut self.scatter,
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
        let filled_bytes = self.scatter.filled_bytes(bucket);
        let out = self.spill.out(bucket);
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
        self.wait_for_writes()?;
        let payload_bytes = self.scatter.filled_bytes(bucket);
        let count = self.spill.out(bucket).noted_count();
        let empty = self.spill.take_buffer()?;
        let full = self.scatter.replace(bucket, empty);
        let what = (payload_bytes, count);
        self.spill.store(&mut self.port, bucket, full, what)
    }

    /// Writes a record that is longer than a buffer as a segment of its own.
    fn write_long(&mut self, bucket: usize, record: &[u8]) -> Result<()> {
        if self.scatter.filled_bytes(bucket) > 0 {
            self.emit(bucket)?;
        }
        let len_bytes = block_ceil(record.len() as u64) as usize;
        let mut buf = loop {
            if let Some(buf) = self.long_buffer(LONG_WRITTEN, len_bytes)? {
                break buf;
            }
            // Others are being written, by this thread or by others.
            self.rest()?;
        };
        buf[..record.len()].copy_from_slice(record);
        let Some(open) = self.open.front_mut() else {
            return Ok(());
        };
        let position = (open.chunk << NUMBER_BITS) | open.noted[bucket];
        open.noted[bucket] += 1;
        R::moved(&mut open.pending);
        self.spill.out(bucket).note_piece(record.len(), position, 1);
        let what = (record.len(), 1);
        self.spill.store_away(&mut self.port, bucket, buf, what)
    }

    /// A buffer for a line that is longer than those of buckets, if there is room for it now.
    fn long_buffer(&self, name: &str, len_bytes: usize) -> Result<Option<Buf>> {
        let pool = Pool::try_new(&self.shared.job.budget, name, len_bytes, 1)?;
        Ok(pool.and_then(|pool| pool.take()))
    }

    /// Lets transfers finish, here or on other threads.
    fn rest(&mut self) -> Result<()> {
        self.shared.crew.check()?;
        self.poll(false)?;
        std::thread::sleep(REST);
        Ok(())
    }

    fn wait_for_writes(&mut self) -> Result<()> {
        while self.spill.is_busy() {
            self.shared.crew.check()?;
            self.poll(true)?;
        }
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.port.poll(wait, &mut finished)?;
        for transfer in finished.drain(..) {
            if transfer.token & SPILL_TOKENS != 0 {
                self.spill.settle(&mut self.port, transfer)?;
                continue;
            }
            if let Some(fault) = transfer.fault {
                return Err(self.shared.volume.explain(&fault));
            }
            match (&mut self.reader, transfer.token & REGION_TOKENS) {
                (Some(reader), REGION_TOKENS) => reader.settle(transfer)?,
                _ => self.read_back.push((transfer.token as usize, transfer.buf)),
            }
        }
        self.finished = finished;
        Ok(())
    }

    /// Throws segments in the order in which they were made.
    fn throw_segments(&mut self, segments: Vec<Segment>) -> Result<()> {
        let plan = self.shared.plan;
        let slot_bytes = plan.segment_bytes;
        let budget = &self.shared.job.budget;
        let pool = Pool::new(budget, SPLIT, slot_bytes, plan.split_reads())?;
        let mut asked = 0;
        for (number, segment) in segments.iter().enumerate() {
            while asked < segments.len() && asked < number + plan.split_reads() {
                if self.read_segment(asked, &segments[asked], &pool)? {
                    asked += 1;
                } else if asked > number {
                    break;
                } else {
                    // Other threads read long lines, and hold none while they wait for one.
                    self.rest()?;
                }
            }
            let buf = self.segment_bytes(number, segment)?;
            let bytes = match (&segment.home, &buf) {
                (Home::Memory(buf), _) => &buf[..],
                (_, Some(buf)) => &buf[..],
                (_, None) => return Err(no_buffer()),
            };
            let mut at = 0;
            for piece in &segment.pieces {
                let (chunk, number) = chunk_and_number(piece.position);
                self.open_chunk(chunk, Some(number));
                let to = at + piece.bytes as usize;
                self.throw(&bytes[at..to])?;
                at = to;
            }
            if segment.is_on_credit {
                let credit = &self.shared.resident_credit;
                credit.fetch_add(1, Ordering::AcqRel);
            }
            let bytes = u64::from(segment.payload_bytes);
            self.shared.job.control.advance(bytes);
            drop(buf);
            self.poll(false)?;
        }
        Ok(())
    }

    /// Asks for a segment; false if there is no room for it now.
    fn read_segment(&mut self, number: usize, segment: &Segment, pool: &Pool) -> Result<bool> {
        let Home::Scratch { place, .. } = &segment.home else {
            return Ok(true);
        };
        let stored_bytes = segment.stored_bytes();
        let buf = match stored_bytes > self.shared.plan.segment_bytes {
            false => Some(pool.take().ok_or_else(no_buffer)?),
            true => self.long_buffer(LONG_READ, stored_bytes)?,
        };
        let Some(mut buf) = buf else {
            return Ok(false);
        };
        let buf = buf.split_to(stored_bytes);
        let file = self.shared.scratch.get()?.file(*place);
        let at = place.offset_bytes;
        self.port.submit(file, Op::Read, at, buf, number as u64);
        Ok(true)
    }

    /// Waits for a segment and verifies it; its place is free then.
    fn segment_bytes(&mut self, number: usize, segment: &Segment) -> Result<Option<Buf>> {
        let Home::Scratch { place, checksum } = segment.home else {
            return Ok(None);
        };
        loop {
            if let Some(at) = self.read_back.iter().position(|(n, _)| *n == number) {
                let (_, buf) = self.read_back.swap_remove(at);
                let scratch = self.shared.scratch.get()?;
                let payload = &buf[..segment.payload_bytes as usize];
                verify_segment(scratch, self.shared.run, place, checksum, payload)?;
                scratch.forget(place);
                scratch.free(place, place_bytes(segment, self.shared.plan.segment_bytes));
                return Ok(Some(buf));
            }
            self.shared.crew.check()?;
            self.poll(true)?;
        }
    }

    /// Stores the part-filled buffers and waits for all writes.
    fn finish(mut self, keep_partials: bool) -> Result<Vec<Out>> {
        self.note_all();
        let none = Scatter::new(Vec::new(), self.shared.plan.segment_payload_bytes);
        let parts: Vec<_> = std::mem::replace(&mut self.scatter, none)
            .into_parts()
            .collect();
        for (bucket, (buf, filled_bytes)) in parts.into_iter().enumerate() {
            if filled_bytes == 0 {
                continue;
            }
            let count = self.spill.out(bucket).noted_count();
            if keep_partials {
                self.spill.keep(bucket, buf, filled_bytes, count);
            } else {
                self.wait_for_writes()?;
                let what = (filled_bytes, count);
                self.spill.store(&mut self.port, bucket, buf, what)?;
            }
        }
        while self.port.in_flight() > 0 {
            self.shared.crew.check()?;
            self.poll(true)?;
        }
        Ok(self.spill.into_outs())
    }
}

fn no_buffer() -> Error {
    Error::new(Kind::Memory, "take a buffer", "the pool is empty").hint("a bug: please report it")
}
