//! Segments of buckets, read ahead: as they come, or in the order of the bucket.
//!
//! Contract: a [`SegmentReader`] keeps a window of segments in flight: every segment on scratch is verified
//! before anybody sees it, what stayed in memory takes its place in the order, and scratch and reservations
//! are given back once a segment has been read for good. [`look_at_segments`] shows segments that stay where
//! they are.
//!
//! Bounds: `window` reads, each in a buffer of the owner's pool.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::bucket::{Location, Piece, Segment, verify_segment};
use super::{Partition, SPLIT_SEGMENTS, no_buffer};
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool};
use outcore_io::port::{Port, Transfer};
use outcore_io::transfers::{ReadAhead, Transfers};

/// The segments of a bucket, each taken once by whichever worker asks.
pub(crate) struct SegmentQueue(Mutex<VecDeque<Segment>>);

impl SegmentQueue {
    pub(crate) fn new(segments: Vec<Segment>) -> Self {
        SegmentQueue(Mutex::new(segments.into()))
    }

    /// The next segment of a worker that has `taken` some before: if there are none, it takes one part in
    /// `share` of those that are left, and at least one. The segments of a long item stay together.
    pub(crate) fn next(&self, share: u64, taken: &mut VecDeque<Segment>) -> Option<Segment> {
        if taken.is_empty() {
            let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = (left.len() as u64 / share).max(1) as usize;
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
}

/// A segment that has been read, or had stayed in memory.
pub(crate) struct ReadSegment {
    pub(crate) segment: Segment,
    buf: Option<Buf>,
}

impl ReadSegment {
    /// Its items.
    pub(crate) fn payload(&self) -> &[u8] {
        let buf = match (&self.segment.location, &self.buf) {
            (Location::Memory(buf), _) | (_, Some(buf)) => &buf[..],
            (Location::Scratch { .. }, None) => &[],
        };
        &buf[..(self.segment.payload_bytes as usize).min(buf.len())]
    }
}

/// An item that is longer than a buffer, put together while the segments of a bucket come in order.
#[derive(Default)]
pub(crate) struct LongItem {
    bytes: Vec<u8>,
    pieces: Box<[Piece]>,
    is_inside: bool,
}

impl LongItem {
    /// The items of the segment, and their pieces; with the last part of a long one, all of that;
    /// nothing with the parts before.
    pub(crate) fn join<'r>(&'r mut self, read: &'r ReadSegment) -> Option<(&'r [u8], &'r [Piece])> {
        self.join_bytes(&read.segment, read.payload())
    }

    /// The same of a segment whose payload is shown.
    pub(crate) fn join_bytes<'r>(
        &'r mut self,
        segment: &'r Segment,
        payload: &'r [u8],
    ) -> Option<(&'r [u8], &'r [Piece])> {
        let was_inside = std::mem::replace(&mut self.is_inside, segment.is_continued);
        if !was_inside {
            self.bytes.clear();
            if !segment.is_continued {
                return Some((payload, &segment.pieces));
            }
            self.pieces.clone_from(&segment.pieces);
        }
        self.bytes.extend_from_slice(payload);
        (!segment.is_continued).then_some((&self.bytes, &self.pieces))
    }
}

/// One worker's way through segments that are read for good.
pub(crate) struct SegmentReader<'a> {
    partition: &'a Partition<'a>,
    pool: Pool,
    ahead: ReadAhead<Segment>,
}

impl<'a> SegmentReader<'a> {
    /// A reader with its own share of `pool`, the partition's `split_reads` of segments.
    pub(crate) fn new(partition: &'a Partition<'a>, pool: Pool) -> Self {
        SegmentReader {
            partition,
            pool,
            ahead: ReadAhead::new(partition.sizes.split_reads),
        }
    }

    /// Keeps the window full from `next`.
    pub(crate) fn start(
        &mut self,
        port: &mut Port,
        mut next: impl FnMut() -> Option<Segment>,
    ) -> Result<()> {
        while self.ahead.has_room() {
            let Some(segment) = next() else { break };
            let Location::Scratch { place, .. } = segment.location else {
                self.ahead.put(segment);
                continue;
            };
            let mut buf = self.pool.take().ok_or_else(no_buffer)?;
            let buf = buf.split_to(segment.stored_bytes());
            let file = self.partition.scratch()?.file(place);
            self.ahead
                .ask(port, (file, place.offset_bytes), buf, segment);
        }
        Ok(())
    }

    /// Takes back a read that has ended well; its place on scratch is free then.
    pub(crate) fn settle(&mut self, transfer: Transfer) -> Result<()> {
        let partition = self.partition;
        self.ahead.settle(transfer, |segment, transfer| {
            verify(partition, segment, &transfer.buf)?;
            if let Location::Scratch { place, .. } = segment.location {
                let scratch = partition.scratch()?;
                scratch.forget(place);
                // Short ones have whole buffers' places, too.
                scratch.free(place, partition.sizes.segment_bytes as u64);
            }
            Ok(())
        })
    }

    /// The next segment that has come: in the order of the bucket, or any.
    pub(crate) fn next(&mut self, is_ordered: bool) -> Option<ReadSegment> {
        let (segment, buf) = self.ahead.next(is_ordered)?;
        Some(ReadSegment { segment, buf })
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.ahead.is_idle()
    }

    /// Gives a segment's memory back.
    pub(crate) fn give_back(&self, read: ReadSegment) {
        let was_reserved = read.segment.is_resident;
        drop(read);
        if was_reserved {
            self.partition.resident_left.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Fails, naming its place, unless a segment of scratch is what was written there.
fn verify(partition: &Partition<'_>, segment: &Segment, bytes: &[u8]) -> Result<()> {
    let Location::Scratch { place, checksum } = segment.location else {
        return Ok(());
    };
    let payload = &bytes[..segment.payload_bytes as usize];
    verify_segment(
        partition.scratch()?,
        partition.run,
        place,
        checksum,
        payload,
    )
}

/// Shows the payloads of `segments`, in order, which stay where they are.
pub(crate) fn look_at_segments<'s>(
    partition: &Partition<'_>,
    segments: impl IntoIterator<Item = &'s Segment>,
    mut show: impl FnMut(&'s Segment, &[u8]),
) -> Result<()> {
    let window = partition.sizes.split_reads;
    let segment_bytes = partition.sizes.segment_bytes;
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
            if let Location::Scratch { place, .. } = &segment.location {
                let mut buf = pool.take().ok_or_else(no_buffer)?;
                let buf = buf.split_to(segment.stored_bytes());
                let file = partition.scratch()?.file(*place);
                reads.read(file, place.offset_bytes, buf, ());
            }
            next.push_back(segment);
        }
        let Some(segment) = next.pop_front() else {
            return Ok(());
        };
        let payload_bytes = segment.payload_bytes as usize;
        if let Location::Memory(buf) = &segment.location {
            show(segment, &buf[..payload_bytes]);
        } else if let Some(read) = reads.next_in_order(|| partition.check())? {
            verify(partition, segment, &read.buf)?;
            show(segment, &read.buf[..payload_bytes]);
        }
    }
}
