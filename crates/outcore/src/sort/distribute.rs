//! Distribution: one pass over a source that moves every element into its bucket.
//!
//! Model: PALID (SPAA 2025), section 3 (in-memory bucketer, batched writer) and 4 (samplesort).
//!
//! Contract: each worker thread reads blocks of the source through its own port, classifies their
//! elements and copies each once, to the end of its own buffer for that bucket. A full buffer
//! becomes a segment ([`super::spill`]). Elements of an equality bucket of bare numbers are only
//! counted.
//!
//! Bounds: memory is the segment pool, the read pool and one description a segment; a worker never
//! waits for another's buffer (each has its own share, resident segments are taken by credit). I/O
//! reads the source once and writes each element at most once. In ordered jobs a worker takes
//! blocks in the order in which it was given them, and notes the runs of input in each segment;
//! what follows on in the input is one run, so workers that take long stretches note little.

use std::collections::VecDeque;

use super::elements::Elements;
use super::plan::INPUT;
use super::shared::Shared;
use super::splitters::Cut;
use crate::error::{Error, Result};
use crate::memory::{Buf, Pool, block_ceil, block_floor};
use crate::partition::bucket::{Bucket, Out, Piece, Segment, join_outs};
use crate::partition::read::{AHEAD_TOKENS, ReadAhead, ReadSegment, SegmentQueue, SegmentReader};
use crate::partition::scatter::ScatterWorker;
use crate::partition::spill::Spilling;
use crate::partition::{SPLIT_SEGMENTS, no_buffer};
use crate::read::source::{Block, Blocks, Stretch};
use crate::volume::Transfer;

/// Elements that are classified, then moved: their bucket numbers stay in the first-level cache.
const BATCH: usize = 1024;

/// What is distributed.
pub(crate) enum Source<'a> {
    /// The input, which is encoded as it is read.
    Blocks(&'a Blocks),
    /// A bucket of an earlier distribution.
    Segments {
        /// In the order of the input where it counts.
        queue: SegmentQueue,
        /// Positions of all pieces, ascending; none unless the order counts.
        positions: Vec<u64>,
    },
}

impl Source<'_> {
    /// The segments of a bucket.
    pub(crate) fn segments(mut segments: Vec<Segment>) -> Self {
        let first = |segment: &Segment| segment.pieces.first().map_or(0, |piece| piece.position);
        segments.sort_by_key(first);
        let pieces = segments.iter().flat_map(|segment| segment.pieces.iter());
        let mut positions: Vec<u64> = pieces.map(|piece| piece.position).collect();
        positions.sort_unstable();
        Source::Segments {
            queue: SegmentQueue::new(segments),
            positions,
        }
    }

    /// How many pieces come before one in the order of the input.
    fn piece_number(&self, piece: &Piece) -> u64 {
        match self {
            Source::Segments { positions, .. } => {
                positions.partition_point(|&position| position < piece.position) as u64
            }
            Source::Blocks(_) => piece.position,
        }
    }
}

/// Distributes `source` by `cut` at `depth`. Buckets below `resident_below` stay in memory as far
/// as there are reservations; part-filled buffers stay in memory if `keep_partials`.
pub(crate) fn distribute<E: Elements>(
    shared: &Shared<'_, E>,
    source: &Source<'_>,
    cut: &Cut<E::Key>,
    depth: usize,
    resident_below: usize,
    keep_partials: bool,
) -> Result<Vec<Bucket>> {
    let plan = shared.plan;
    let (name, read_bytes, reads) = match source {
        Source::Blocks(blocks) => (INPUT, blocks.read_bytes_max(), plan.reads_in_flight),
        Source::Segments { .. } => (SPLIT_SEGMENTS, plan.segment_bytes, plan.split_reads()),
    };
    let slots = reads * plan.size.threads;
    let read_pool = Pool::new(&shared.job.budget, name, read_bytes, slots)?;
    let outs = shared.on_all_threads(|_| {
        let spilling = Spilling {
            resident_below,
            is_split: matches!(source, Source::Segments { .. }),
        };
        let mut worker = Worker::new(shared, source, cut, spilling, read_pool.clone())?;
        worker.depth = depth;
        if matches!(source, Source::Blocks(_)) && plan.distributions > 0 {
            worker
                .scatter
                .stagger(resident_below, shared.elements.element_bytes());
        }
        worker.run()?;
        worker.finish(keep_partials)
    })?;
    let is_bare = shared.elements.is_bare();
    let mut buckets: Vec<Bucket> = (0..cut.bucket_count())
        .map(|index| {
            let equal_key = cut.equal_key(index).filter(|_| is_bare);
            Bucket {
                depth: cut.depth_of(index, depth),
                copies_of: equal_key.map(|key| bytemuck::bytes_of(&key).into()),
                ..Bucket::default()
            }
        })
        .collect();
    join_outs(&mut buckets, outs);
    Ok(buckets)
}

/// What a worker reads, a window ahead.
enum Reads<'a> {
    Blocks { ahead: ReadAhead<Block>, pool: Pool },
    Segments(SegmentReader<'a>),
}

/// What has been read.
enum Read {
    Block(Block, Buf),
    Segment(ReadSegment),
}

struct Worker<'a, E: Elements> {
    shared: &'a Shared<'a, E>,
    source: &'a Source<'a>,
    cut: &'a Cut<E::Key>,
    depth: usize,
    scatter: ScatterWorker<'a>,
    reads: Reads<'a>,
    /// Reads that have ended and have not been looked at.
    transfers: Vec<Transfer>,
    key_space: Vec<E::Key>,
    bucket_ids: Vec<u16>,
    /// One part in so many of what is left is taken at once, and at least one block or segment.
    share: u64,
    /// Input taken and not yet asked for.
    stretch: Stretch,
    segments: VecDeque<Segment>,
    /// Position of the current run.
    run_position: u64,
    /// Where what follows on to the current run begins: a position, or the number of a piece.
    run_end: u64,
}

impl<'a, E: Elements> Worker<'a, E> {
    fn new(
        shared: &'a Shared<'a, E>,
        source: &'a Source<'a>,
        cut: &'a Cut<E::Key>,
        spilling: Spilling,
        pool: Pool,
    ) -> Result<Self> {
        let plan = shared.plan;
        Ok(Worker {
            shared,
            source,
            cut,
            depth: 0,
            scatter: ScatterWorker::new(shared, spilling, cut.bucket_count(), false)?,
            reads: match source {
                Source::Blocks(_) => Reads::Blocks {
                    ahead: ReadAhead::new(plan.reads_in_flight),
                    pool,
                },
                Source::Segments { .. } => Reads::Segments(SegmentReader::new(shared, pool)),
            },
            transfers: Vec::new(),
            key_space: Vec::with_capacity(BATCH),
            bucket_ids: vec![0; BATCH],
            // Where order counts, long stretches leave fewer runs to remember.
            share: match (plan.is_sequential, plan.size.threads) {
                (false, _) => u64::MAX,
                (true, 1) => 1,
                (true, threads) => 2 * threads as u64,
            },
            stretch: Stretch::default(),
            segments: VecDeque::new(),
            run_position: 0,
            run_end: u64::MAX,
        })
    }

    fn run(&mut self) -> Result<()> {
        loop {
            self.shared.check()?;
            self.start_reads()?;
            match self.next() {
                Some(read) => {
                    self.process(read)?;
                    self.poll(false)?;
                }
                None if self.is_idle() => return Ok(()),
                None => self.poll(true)?,
            }
        }
    }

    /// Keeps the window of reads full.
    fn start_reads(&mut self) -> Result<()> {
        let port = &mut self.scatter.port;
        match (&mut self.reads, self.source) {
            (Reads::Blocks { ahead, pool }, Source::Blocks(blocks)) => {
                while ahead.has_room() {
                    let block = match blocks.next_of(&mut self.stretch) {
                        Some(block) => Some(block),
                        None => blocks.next_stretch(self.share, port).and_then(|stretch| {
                            self.stretch = stretch;
                            blocks.next_of(&mut self.stretch)
                        }),
                    };
                    let Some(block) = block else { break };
                    let mut buf = pool.take().ok_or_else(no_buffer)?;
                    let buf = buf.split_to(block.read_len_bytes);
                    let file = &blocks.parts()[block.part].file;
                    ahead.ask(port, (file, block.read_at_bytes), buf, block);
                }
                Ok(())
            }
            (Reads::Segments(reader), Source::Segments { queue, .. }) => {
                reader.start(port, || queue.next(self.share, &mut self.segments))
            }
            _ => Ok(()),
        }
    }

    /// What has come; ordered jobs rely on getting it in the order in which they took it.
    fn next(&mut self) -> Option<Read> {
        let is_ordered = self.shared.plan.size.is_ordered;
        match &mut self.reads {
            Reads::Blocks { ahead, .. } => {
                let (block, buf) = ahead.next(is_ordered)?;
                Some(Read::Block(block, buf?))
            }
            Reads::Segments(reader) => reader.next(is_ordered).map(Read::Segment),
        }
    }

    fn is_idle(&self) -> bool {
        match &self.reads {
            Reads::Blocks { ahead, .. } => ahead.is_idle(),
            Reads::Segments(reader) => reader.is_idle(),
        }
    }

    fn poll(&mut self, wait: bool) -> Result<()> {
        // What has come while a write was waited for is there already.
        let wait = wait && self.transfers.is_empty();
        self.scatter.poll(wait, &mut self.transfers)?;
        for transfer in self.transfers.drain(..) {
            debug_assert!(transfer.token & AHEAD_TOKENS != 0);
            match (&mut self.reads, self.source) {
                (Reads::Blocks { ahead, .. }, Source::Blocks(blocks)) => {
                    ahead.settle(transfer, |block, transfer| {
                        check_length(blocks, block, transfer)
                    })?;
                }
                (Reads::Segments(reader), _) => reader.settle(transfer)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn process(&mut self, read: Read) -> Result<()> {
        match read {
            Read::Block(block, mut buf) => {
                let start = self.align_payload(&block, &mut buf);
                let payload = &mut buf[start..start + block.payload_bytes];
                self.shared.elements.encode(payload)?;
                let count = payload.len() / self.shared.elements.element_bytes();
                self.begin_run(
                    block.position,
                    block.position,
                    block.position + count as u64,
                );
                self.distribute_run(payload, block.position)?;
                self.free_input(&block)?;
                self.shared.job.control.advance(block.payload_bytes as u64);
                self.shared.job.control.watch(self.shared.volume);
            }
            Read::Segment(read) => {
                let payload = read.payload();
                if read.segment.pieces.is_empty() {
                    self.distribute_run(payload, 0)?;
                }
                let element_bytes = self.shared.elements.element_bytes();
                let mut at = 0;
                for piece in &read.segment.pieces {
                    let end = at + piece.count as usize * element_bytes;
                    let number = self.source.piece_number(piece);
                    self.begin_run(piece.position, number, number + 1);
                    self.distribute_run(&payload[at..end], piece.position)?;
                    at = end;
                }
                if let Reads::Segments(reader) = &self.reads {
                    reader.give_back(read);
                }
            }
        }
        Ok(())
    }

    /// Moves bare numbers that a header of odd length put astray to where they can be looked at as
    /// such; gives where the payload starts.
    fn align_payload(&self, block: &Block, buf: &mut Buf) -> usize {
        if !self.shared.elements.is_bare() {
            return block.skip_bytes;
        }
        let start = block.skip_bytes / self.shared.elements.element_bytes()
            * self.shared.elements.element_bytes();
        if start != block.skip_bytes {
            buf.copy_within(
                block.skip_bytes..block.skip_bytes + block.payload_bytes,
                start,
            );
        }
        start
    }

    /// Frees the whole blocks of the file under a block that has been distributed.
    fn free_input(&self, block: &Block) -> Result<()> {
        let Source::Blocks(blocks) = self.source else {
            return Ok(());
        };
        let start = block.read_at_bytes + block.skip_bytes as u64;
        let (from, to) = (
            block_ceil(start),
            block_floor(start + block.payload_bytes as u64),
        );
        if from >= to {
            return Ok(());
        }
        let file = &blocks.parts()[block.part].file;
        self.shared.free_input(file, from..to)
    }

    /// Distributes one run of neighbours of the input, the first at `position`.
    fn distribute_run(&mut self, payload: &[u8], position: u64) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        for batch in payload.chunks(BATCH * element_bytes) {
            let count = batch.len() / element_bytes;
            self.cut.classify(
                self.shared.elements,
                batch,
                self.depth,
                position,
                &mut self.key_space,
                &mut self.bucket_ids[..count],
            )?;
            let mut at = 0;
            loop {
                let full = self.shared.elements.scatter(
                    &mut self.scatter.buffers,
                    &batch[at * element_bytes..],
                    &self.bucket_ids[at..count],
                )?;
                let Some(full) = full else { break };
                at += full.consumed;
                self.emit(full.bucket)?;
            }
        }
        Ok(())
    }

    /// Begins a run at `position`, unless it follows on to the last: nothing of the source lies
    /// between them, so the elements of both keep their order as one run. Positions in a bucket
    /// then say less than where an element was, but still what came before what.
    fn begin_run(&mut self, position: u64, begin: u64, end: u64) {
        if self.shared.plan.size.is_ordered && self.run_end != begin {
            self.end_run();
            self.run_position = position;
        }
        self.run_end = end;
    }

    fn end_run(&mut self) {
        for bucket in 0..self.scatter.spill.bucket_count() {
            self.note_piece(bucket);
            self.scatter.spill.out(bucket).run_count = 0;
        }
    }

    /// Notes what the current run has added to a bucket's buffer since the last note.
    fn note_piece(&mut self, bucket: usize) {
        let element_bytes = self.shared.elements.element_bytes();
        let filled_bytes = self.scatter.buffers.filled_bytes(bucket);
        let out = self.scatter.spill.out(bucket);
        out.note(filled_bytes, self.run_position, element_bytes);
    }

    /// Whether a bucket's elements are only counted.
    fn is_counted(&self, bucket: usize) -> bool {
        self.shared.elements.is_bare() && self.cut.is_equal(bucket)
    }

    /// Takes a full buffer out of the scatter and makes a segment of it.
    fn emit(&mut self, bucket: usize) -> Result<()> {
        let payload_bytes = self.scatter.buffers.filled_bytes(bucket);
        let count = (payload_bytes / self.shared.elements.element_bytes()) as u64;
        if self.is_counted(bucket) {
            self.scatter.spill.out(bucket).counts.items += count;
            self.scatter.buffers.rewind(bucket);
            return Ok(());
        }
        if self.shared.plan.size.is_ordered {
            self.note_piece(bucket);
        }
        self.scatter.emit(bucket, count, &mut self.transfers)
    }

    /// Stores the part-filled buffers and waits for all writes.
    fn finish(mut self, keep_partials: bool) -> Result<Vec<Out>> {
        if self.shared.plan.size.is_ordered {
            self.end_run();
        }
        let element_bytes = self.shared.elements.element_bytes();
        let counted: Vec<bool> = (0..self.cut.bucket_count())
            .map(|bucket| self.is_counted(bucket))
            .collect();
        self.scatter
            .finish(keep_partials, |out, bucket, filled_bytes| {
                let count = (filled_bytes / element_bytes) as u64;
                if counted[bucket] {
                    out.counts.items += count;
                    return None;
                }
                Some(count)
            })
    }
}

/// The file must still be as long as it was.
fn check_length(blocks: &Blocks, block: &Block, transfer: &Transfer) -> Result<()> {
    if transfer.len_bytes >= block.skip_bytes + block.payload_bytes {
        return Ok(());
    }
    let part = &blocks.parts()[block.part];
    Err(
        Error::corrupt("read input", "the file became shorter while it was read")
            .path(&part.file.path)
            .offset(block.read_at_bytes + transfer.len_bytes as u64)
            .hint("sort a copy that nobody changes"),
    )
}
