//! One thread's pass over what is distributed: the input's blocks or regions, or the segments of a bucket.
//!
//! Contract: [`read_all`] keeps a [`Reader`] reading ahead while what it has read is worked on, and what the
//! spill writes on its way, until all has been taken. [`BlockReader`] reads whole blocks of items of one
//! length, [`RegionReader`] whole items of any length, and [`scatter_segments`] moves what is in a
//! bucket's segments: in the order of the input where that counts.
//!
//! Bounds: the readers' pools; each byte of the source is read once.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::bucket::{InputRun, Location, Segment};
use super::mover::{Mover, Run};
use super::read::{LongItem, ReadSegment};
use super::route::Route;
use super::scatter::{RunStart, ScatterWorker};
use super::{Partition, SPLIT_SEGMENTS, no_buffer};
use crate::ends::became_shorter;
use crate::read::regions::{Framing, Region, RegionReader};
use crate::read::source::{Block, Blocks, Stretch};
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool};
use outcore_io::port::{Port, Transfer};
use outcore_io::transfers::{ASKED_TOKENS, ReadAhead};

/// A source that one thread reads ahead.
pub(crate) trait Reader {
    /// What it gives out.
    type Read;

    /// Asks for as much as there is room for.
    fn start(&mut self, port: &mut Port) -> Result<()>;
    /// What has come and is next.
    fn next(&mut self, port: &mut Port) -> Result<Option<Self::Read>>;
    /// Takes back a read that has ended well.
    fn settle(&mut self, transfer: Transfer) -> Result<()>;
    /// Whether nothing more comes, once there is no next.
    fn is_done(&self) -> bool;
    /// How much further in the input something is; for progress.
    fn advance_bytes(read: &Self::Read) -> u64;
    /// Takes back what has been worked on.
    fn give_back(&mut self, _read: Self::Read) {}
}

/// Reads all of a source, and shows it to `take` as it comes.
pub(crate) fn read_all<'a, R: Reader>(
    worker: &mut ScatterWorker<'a>,
    reader: &mut R,
    mut take: impl FnMut(&mut ScatterWorker<'a>, &mut R::Read) -> Result<()>,
) -> Result<()> {
    let partition = worker.partition;
    let control = &partition.job.control;
    loop {
        partition.check()?;
        reader.start(&mut worker.port)?;
        match reader.next(&mut worker.port)? {
            Some(mut read) => {
                take(worker, &mut read)?;
                let bytes = R::advance_bytes(&read);
                reader.give_back(read);
                if bytes > 0 {
                    control.advance(bytes);
                    control.watch(partition.volume);
                }
                worker.poll(false)?;
            }
            None if reader.is_done() => return Ok(()),
            None => worker.poll(true)?,
        }
        worker.settle_others(|transfer| reader.settle(transfer))?;
    }
}

/// How much one thread takes at once: one part in `share` of what is left, and at least one block or
/// segment. Long stretches leave fewer runs to remember, where the order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakeShare(u64);

impl TakeShare {
    /// One block or segment.
    pub(crate) const ONE: TakeShare = TakeShare(u64::MAX);

    /// Long stretches, for each of `threads` threads.
    pub(crate) fn long(threads: usize) -> Self {
        match threads {
            1 => TakeShare(1),
            threads => TakeShare(2 * threads as u64),
        }
    }
}

/// One thread's way through the blocks of the input.
pub(crate) struct BlockReader<'a> {
    blocks: &'a Blocks,
    share: TakeShare,
    is_ordered: bool,
    /// Taken and not yet asked for.
    stretch: Stretch,
    ahead: ReadAhead<Block>,
    pool: Pool,
}

impl<'a> BlockReader<'a> {
    /// A reader of `window` blocks at once, with as many buffers of `pool`; in the order in which it takes
    /// them if `is_ordered`.
    pub(crate) fn new(
        blocks: &'a Blocks,
        (share, is_ordered): (TakeShare, bool),
        window: usize,
        pool: Pool,
    ) -> Self {
        BlockReader {
            blocks,
            share,
            is_ordered,
            stretch: Stretch::default(),
            ahead: ReadAhead::new(window),
            pool,
        }
    }
}

impl Reader for BlockReader<'_> {
    type Read = (Block, Buf);

    fn start(&mut self, port: &mut Port) -> Result<()> {
        while self.ahead.has_room() {
            let mut block = self.blocks.next_of(&mut self.stretch);
            if block.is_none()
                && let Some(stretch) = self.blocks.next_stretch(self.share.0, port)
            {
                self.stretch = stretch;
                block = self.blocks.next_of(&mut self.stretch);
            }
            let Some(block) = block else { break };
            let mut buf = self.pool.take().ok_or_else(no_buffer)?;
            let buf = buf.split_to(block.read_len_bytes);
            let file = &self.blocks.parts()[block.part].file;
            self.ahead
                .ask(port, (file, block.read_at_bytes), buf, block);
        }
        Ok(())
    }

    fn next(&mut self, _: &mut Port) -> Result<Option<(Block, Buf)>> {
        let next = self.ahead.next(self.is_ordered);
        Ok(next.and_then(|(block, buf)| Some((block, buf?))))
    }

    fn settle(&mut self, transfer: Transfer) -> Result<()> {
        debug_assert!(transfer.token & ASKED_TOKENS != 0);
        let parts = self.blocks.parts();
        self.ahead.settle(transfer, |block, transfer| {
            // The file must still be as long as it was.
            match transfer.len_bytes >= block.skip_bytes + block.payload_bytes {
                true => Ok(()),
                false => Err(became_shorter(
                    &parts[block.part],
                    block.read_at_bytes + transfer.len_bytes as u64,
                )),
            }
        })
    }

    fn is_done(&self) -> bool {
        self.ahead.is_idle()
    }

    fn advance_bytes((block, _): &Self::Read) -> u64 {
        block.payload_bytes as u64
    }
}

impl<F: Framing> Reader for RegionReader<'_, F> {
    type Read = Region;

    fn start(&mut self, port: &mut Port) -> Result<()> {
        RegionReader::start(self, port)
    }

    fn next(&mut self, port: &mut Port) -> Result<Option<Region>> {
        self.take(port)
    }

    fn settle(&mut self, transfer: Transfer) -> Result<()> {
        RegionReader::settle(self, transfer)
    }

    fn is_done(&self) -> bool {
        RegionReader::is_done(self)
    }

    fn advance_bytes(region: &Region) -> u64 {
        region.advance_bytes
    }
}

/// The segments of a bucket, each taken once by whichever of the threads asks that distribute it again.
pub(crate) struct BucketSource {
    left: Mutex<VecDeque<Segment>>,
    share: TakeShare,
    /// Positions of all input runs, ascending, where runs that follow on to each other are joined.
    positions: Vec<u64>,
}

impl BucketSource {
    /// Segments in the order in which they were made.
    pub(crate) fn as_made(segments: Vec<Segment>) -> Self {
        BucketSource {
            left: Mutex::new(segments.into()),
            share: TakeShare::ONE,
            positions: Vec::new(),
        }
    }

    /// Segments in the order of the input, as far as they know it.
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

    /// Buffers for `threads` threads that read it.
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

    /// The next segment of a thread that has `taken` some before. The segments of a long item stay together.
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

    /// The run of the input that `run` is of: it follows on to the one before it in the order of the input.
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

/// One thread's way through the segments of a bucket, which are read for good.
struct BucketReader<'a, 's> {
    partition: &'a Partition<'a>,
    source: &'s BucketSource,
    pool: Pool,
    ahead: ReadAhead<Segment>,
    /// Taken and not yet asked for.
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
                .ask(port, (file, address.offset_bytes), buf, segment);
        }
        Ok(())
    }

    fn next(&mut self, _: &mut Port) -> Result<Option<ReadSegment>> {
        let next = self.ahead.next(self.is_ordered);
        Ok(next.map(|(segment, buf)| ReadSegment { segment, buf }))
    }

    /// Its place on scratch is free then.
    fn settle(&mut self, transfer: Transfer) -> Result<()> {
        let partition = self.partition;
        self.ahead.settle(transfer, |segment, transfer| {
            segment.verify(partition, &transfer.buf)?;
            if let Location::Scratch { address, .. } = segment.location {
                let scratch = partition.scratch()?;
                scratch.forget(address);
                // Short ones have whole buffers' places, too.
                scratch.free(address, partition.sizes.segment_bytes as u64);
            }
            Ok(())
        })
    }

    fn is_done(&self) -> bool {
        self.ahead.is_idle()
    }

    fn advance_bytes(_: &ReadSegment) -> u64 {
        // The input has been read before.
        0
    }

    /// Gives the segment's memory back.
    fn give_back(&mut self, read: ReadSegment) {
        let was_reserved = read.segment.is_resident;
        drop(read);
        if was_reserved {
            self.partition.resident_left.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Moves what is in the segments of a bucket to the buckets of a worker.
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
            // Of a long item the input run has only the first segment.
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
