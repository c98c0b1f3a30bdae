//! Refines buckets that are too large for the memory: reads their segments and distributes them
//! again until all fit.
//!
//! Contract: the order of buckets is kept. The job decides which buckets are too large and how each
//! is split; repeated splits must make every part smaller than the whole. PALID (SPAA 2025),
//! section 4, splits in the same way. Every segment on scratch is verified before its items are
//! moved; segments in memory are processed like the others. [`look_at_segments`] reads segments and
//! leaves them in place. [`scatter_segments`] moves their items to other buckets, in the order of
//! the input if that matters.
//!
//! Bounds: the partition's window of reads, and a long item.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::bucket::{Bucket, InputRun, Location, Segment};
use super::copies::record_split;
use super::mover::{Mover, Run};
use super::pass::{Reader, TakeShare, read_all};
use super::restored::KeptKind;
use super::route::Route;
use super::scatter::{RunStart, ScatterWorker};
use super::{Partition, SPLIT_SEGMENTS, no_buffer};
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool};
use outcore_io::port::{Port, Transfer};
use outcore_io::transfers::{ReadAhead, Transfers};

/// Earlier attempts to split a bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tried {
    /// How often the bucket's items were distributed again.
    pub(crate) splits: u32,
    /// How many of the latest attempts put all items into the same bucket.
    pub(crate) in_vain: u32,
}

/// The result of refining a bucket.
pub(crate) enum Refined<K> {
    /// The bucket is small enough.
    Fits(Bucket<K>),
    /// The parts of the bucket, in order.
    Parts(Vec<Bucket<K>>),
}

/// Refines `buckets` until all fit. Also returns how often, at most, an item was distributed here.
pub(crate) fn refine<K>(
    buckets: Vec<Bucket<K>>,
    mut split: impl FnMut(Bucket<K>, Tried) -> Result<Refined<K>>,
) -> Result<(Vec<Bucket<K>>, u32)> {
    let mut done = Vec::with_capacity(buckets.len());
    let mut most_splits = 0;
    let start = |bucket| (bucket, Tried::default());
    let mut left: VecDeque<(Bucket<K>, Tried)> = buckets.into_iter().map(start).collect();
    while let Some((bucket, tried)) = left.pop_front() {
        most_splits = most_splits.max(tried.splits);
        let (items, is_equal) = (bucket.counts.items, bucket.is_equal);
        match split(bucket, tried)? {
            Refined::Fits(bucket) => done.push(bucket),
            Refined::Parts(parts) => {
                for part in parts.into_iter().rev() {
                    let in_vain = match part.is_equal == is_equal {
                        true => tried.in_vain + u32::from(part.counts.items == items),
                        false => 0,
                    };
                    let splits = tried.splits + 1;
                    left.push_front((part, Tried { splits, in_vain }));
                }
            }
        }
    }
    Ok((done, most_splits))
}

/// Like [`refine`], in a job that may keep a journal. The parts of a bucket are recorded once all
/// of them fit, and a run that continues goes on with them.
pub(crate) fn refine_kept<K: KeptKind>(
    partition: &Partition<'_>,
    buckets: Vec<Bucket<K>>,
    mut split: impl FnMut(Bucket<K>, Tried) -> Result<Refined<K>>,
) -> Result<(Vec<Bucket<K>>, u32)> {
    let kept = partition.checkpoints.as_ref();
    let Some(checkpoints) = kept.filter(|checkpoints| checkpoints.keeps_splits()) else {
        return refine(buckets, split);
    };
    let (mut done, mut most_splits, mut is_recorded) = (Vec::new(), 0, false);
    for (number, bucket) in buckets.into_iter().enumerate() {
        let restored = checkpoints.split_of(number);
        let is_restored = restored.is_some();
        let (mut parts, splits) = refine(restored.unwrap_or_else(|| vec![bucket]), &mut split)?;
        most_splits = most_splits.max(splits);
        if splits > 0 && !is_restored {
            is_recorded |= record_split(partition, number, &mut parts)?;
        }
        done.append(&mut parts);
    }
    if is_recorded {
        checkpoints.end_splits()?;
    }
    Ok((done, most_splits))
}

/// Like [`refine`], but with one bucket per thread, for buckets that one thread can split.
pub(crate) fn refine_side_by_side<K: Send>(
    partition: &Partition<'_>,
    buckets: Vec<Bucket<K>>,
    split: impl Fn(Bucket<K>) -> Result<Refined<K>> + Sync,
) -> Result<Vec<Bucket<K>>> {
    let cells: Vec<Mutex<Vec<Bucket<K>>>> =
        buckets.into_iter().map(|b| Mutex::new(vec![b])).collect();
    let next = AtomicUsize::new(0);
    let lock = |cell| Mutex::lock(cell).unwrap_or_else(PoisonError::into_inner);
    partition.on_all_threads(|_| {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let bucket = std::mem::take(&mut *lock(cell));
            let (parts, _) = refine(bucket, |bucket, _| {
                partition.check()?;
                split(bucket)
            })?;
            *lock(cell) = parts;
        }
        Ok(())
    })?;
    let parts = cells.into_iter().map(Mutex::into_inner);
    Ok(parts
        .flat_map(|parts| parts.unwrap_or_else(PoisonError::into_inner))
        .collect())
}

/// A segment that has been read, or that stayed in memory.
struct ReadSegment {
    segment: Segment,
    /// The bytes of the segment, if it was on scratch.
    buf: Option<Buf>,
}

impl ReadSegment {
    /// The items of the segment.
    fn payload(&self) -> &[u8] {
        let buf = match (&self.segment.location, &self.buf) {
            (Location::Memory { buf, .. }, _) | (_, Some(buf)) => &buf[..],
            (Location::Scratch { .. }, None) => &[],
        };
        &buf[..(self.segment.payload_bytes as usize).min(buf.len())]
    }
}

/// An item longer than a buffer, assembled while the segments of a bucket arrive in order.
#[derive(Default)]
pub(crate) struct LongItem {
    bytes: Vec<u8>,
    input_runs: Box<[InputRun]>,
    is_inside: bool,
}

impl LongItem {
    /// The items of the segment, and their input runs. For the last part of a long item, the whole
    /// item; `None` for the parts before.
    fn join<'r>(&'r mut self, read: &'r ReadSegment) -> Option<(&'r [u8], &'r [InputRun])> {
        self.join_bytes(&read.segment, read.payload())
    }

    /// Like `join`, for a segment's payload in memory.
    pub(crate) fn join_bytes<'r>(
        &'r mut self,
        segment: &'r Segment,
        payload: &'r [u8],
    ) -> Option<(&'r [u8], &'r [InputRun])> {
        let was_inside = std::mem::replace(&mut self.is_inside, segment.is_continued);
        if !was_inside {
            self.bytes.clear();
            if !segment.is_continued {
                return Some((payload, &segment.input_runs));
            }
            self.input_runs.clone_from(&segment.input_runs);
        }
        self.bytes.extend_from_slice(payload);
        (!segment.is_continued).then_some((&self.bytes, &self.input_runs))
    }
}

/// Passes the payloads of `segments` on, in order, and leaves the segments in place: at least
/// `bytes_max` of each, or all of it. A partial segment is not verified, so its data may only
/// influence where a bucket is split.
pub(crate) fn look_at_segments<'s>(
    partition: &Partition<'_>,
    segments: impl IntoIterator<Item = &'s Segment>,
    bytes_max: usize,
    mut show: impl FnMut(&'s Segment, &[u8]),
) -> Result<()> {
    let window = partition.sizes.split_reads;
    let segment_bytes = partition.sizes.segment_bytes;
    let looked_at_bytes = bytes_max.min(segment_bytes).next_multiple_of(BLOCK_BYTES);
    let budget = &partition.job.budget;
    let pool = Pool::new(budget, SPLIT_SEGMENTS, segment_bytes, window)?;
    let mut reads = Transfers::new(partition.volume)?;
    let mut segments = segments.into_iter().fuse();
    let mut next = VecDeque::new();
    loop {
        partition.check()?;
        while next.len() < window
            && let Some(segment) = segments.next()
        {
            if let Location::Scratch { address, .. } = &segment.location {
                let mut buf = pool.take().ok_or_else(no_buffer)?;
                let buf = buf.split_to(segment.stored_bytes().min(looked_at_bytes));
                let file = partition.scratch()?.file(*address);
                reads.read(file, address.offset_bytes, buf, ());
            }
            next.push_back(segment);
        }
        let Some(segment) = next.pop_front() else {
            return Ok(());
        };
        let payload_bytes = segment.payload_bytes as usize;
        if let Location::Memory { buf, .. } = &segment.location {
            show(segment, &buf[..payload_bytes]);
        } else if let Some(read) = reads.next_in_order(|| partition.check())? {
            if read.buf.len() >= payload_bytes {
                segment.verify(partition, &read.buf)?;
            }
            show(segment, &read.buf[..payload_bytes.min(read.buf.len())]);
        }
    }
}

/// The segments of a bucket; each is taken once by one of the threads that distribute it again.
pub(crate) struct BucketSource {
    left: Mutex<VecDeque<Segment>>,
    share: TakeShare,
    /// Positions of all input runs, ascending, with consecutive runs joined.
    positions: Vec<u64>,
}

impl BucketSource {
    /// Segments in the order of their creation.
    pub(crate) fn as_made(segments: Vec<Segment>) -> Self {
        BucketSource {
            left: Mutex::new(segments.into()),
            share: TakeShare::ONE,
            positions: Vec::new(),
        }
    }

    /// Segments in the order of the input, as far as it is known.
    pub(crate) fn in_order(mut segments: Vec<Segment>, share: TakeShare) -> Self {
        let is_known = |segment: &Segment| !segment.input_runs.is_empty();
        if segments.iter().any(is_known) {
            // The segments of a long item stay together.
            let mut long = None;
            segments.sort_by_cached_key(|segment| {
                let first = segment.input_runs.first().map_or(0, |run| run.position);
                let key = long.take().unwrap_or(first);
                long = segment.is_continued.then_some(key);
                key
            });
        }
        let input_runs = segments
            .iter()
            .flat_map(|segment| segment.input_runs.iter());
        let mut positions: Vec<u64> = input_runs.map(|run| run.position).collect();
        positions.sort_unstable();
        BucketSource {
            left: Mutex::new(segments.into()),
            share,
            positions,
        }
    }

    /// Buffers for `threads` threads that read the bucket.
    pub(crate) fn pool(partition: &Partition<'_>, threads: usize) -> Result<Pool> {
        let sizes = &partition.sizes;
        let slots = sizes.split_reads * threads;
        Pool::new(
            &partition.job.budget,
            SPLIT_SEGMENTS,
            sizes.segment_bytes,
            slots,
        )
    }

    /// The next segment of a thread that has `taken` some before. The segments of a long item stay
    /// together.
    fn next(&self, taken: &mut VecDeque<Segment>) -> Option<Segment> {
        if taken.is_empty() {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            let count = (left.len() as u64 / self.share.0).max(1) as usize;
            let count = count.min(left.len());
            taken.extend(left.drain(..count));
            while taken.back().is_some_and(|segment| segment.is_continued) {
                let Some(segment) = left.pop_front() else {
                    break;
                };
                taken.push_back(segment);
            }
        }
        taken.pop_front()
    }

    /// The input run of `run`. It continues the run before it in the order of the input.
    fn run_of(&self, run: &InputRun) -> RunStart {
        let before = |&position: &u64| position < run.position;
        let number = self.positions.partition_point(before) as u64;
        RunStart {
            position: run.position,
            begin: number,
            end: number + 1,
        }
    }
}

/// One thread's progress through the segments of a bucket, which are consumed.
struct BucketReader<'a, 's> {
    partition: &'a Partition<'a>,
    source: &'s BucketSource,
    pool: Pool,
    ahead: ReadAhead<Segment>,
    /// Taken but not yet requested.
    taken: VecDeque<Segment>,
    is_ordered: bool,
}

impl Reader for BucketReader<'_, '_> {
    type Read = ReadSegment;

    fn start(&mut self, port: &mut Port) -> Result<()> {
        while self.ahead.has_room() {
            let Some(segment) = self.source.next(&mut self.taken) else {
                break;
            };
            let Location::Scratch { address, .. } = segment.location else {
                self.ahead.put(segment);
                continue;
            };
            let mut buf = self.pool.take().ok_or_else(no_buffer)?;
            let buf = buf.split_to(segment.stored_bytes());
            let file = self.partition.scratch()?.file(address);
            self.ahead
                .ask(port, file, address.offset_bytes, buf, segment);
        }
        Ok(())
    }

    fn next(&mut self, _: &mut Port) -> Result<Option<ReadSegment>> {
        let next = self.ahead.next(self.is_ordered);
        Ok(next.map(|(segment, buf)| ReadSegment { segment, buf }))
    }

    /// After this, its place on scratch is free.
    fn settle(&mut self, transfer: Transfer) -> Result<()> {
        let partition = self.partition;
        self.ahead.settle(transfer, |segment, transfer| {
            segment.verify(partition, &transfer.buf)?;
            if let Location::Scratch { address, .. } = segment.location
                && partition.checkpoints.is_none()
            {
                let scratch = partition.scratch()?;
                scratch.forget(address);
                scratch.free(address);
            }
            Ok(())
        })
    }

    fn is_done(&self) -> bool {
        self.ahead.is_idle()
    }

    fn advance_bytes(_: &ReadSegment) -> u64 {
        // The first distribution has already counted the input.
        0
    }

    /// Returns the segment's memory.
    fn give_back(&mut self, read: ReadSegment) {
        let was_reserved = read.segment.is_resident;
        drop(read);
        if was_reserved {
            self.partition.resident_left.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Moves the items in the segments of a bucket to the buckets of a worker.
pub(crate) fn scatter_segments(
    worker: &mut ScatterWorker<'_>,
    mover: &mut impl Mover,
    source: &BucketSource,
    pool: Pool,
) -> Result<()> {
    let partition = worker.partition;
    let mut reader = BucketReader {
        partition,
        source,
        pool,
        ahead: ReadAhead::new(partition.sizes.split_reads),
        taken: VecDeque::new(),
        is_ordered: worker.takes_in_order(),
    };
    let mut long_item = LongItem::default();
    read_all(worker, &mut reader, |worker, read| {
        let Some((bytes, input_runs)) = long_item.join(read) else {
            return Ok(());
        };
        if input_runs.is_empty() {
            let run = Run {
                bytes,
                position: 0,
                place: None,
            };
            return mover.take(worker, run);
        }
        let mut from = 0;
        for run in input_runs {
            // For a long item, only its first segment has the input run.
            let to = match input_runs.len() {
                1 => bytes.len(),
                _ => from + run.bytes as usize,
            };
            mover.route().begin_run(worker, source.run_of(run));
            let run = Run {
                bytes: &bytes[from..to],
                position: run.position,
                place: None,
            };
            mover.take(worker, run)?;
            from = to;
        }
        Ok(())
    })
}
