//! The one read-ahead: a window of reads in flight, given out as they come or in the order asked for.
//!
//! Contract: a [`ReadAhead`] knows what has been asked for and what has come, for one thread and its
//! port; what is read, and what has to be verified, is its owner's business. A [`SegmentReader`] reads
//! the segments of buckets so: every segment on scratch is verified before anybody sees it, what stayed
//! in memory takes its place in the order, and scratch and reservations are given back once a segment
//! has been read for good. [`look_at_segments`] shows segments that stay where they are.
//!
//! Bounds: `window` reads, each in a buffer of the owner's pool.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::bucket::{Location, Piece, Segment, verify_segment};
use super::{Partition, SPLIT_SEGMENTS, no_buffer};
use crate::drive::Op;
use crate::error::Result;
use crate::memory::{Buf, Pool};
use crate::volume::{Port, Transfer, VolumeFile};

/// Marks the tokens of reads made here; owners of the port use others.
pub(crate) const AHEAD_TOKENS: u64 = 1 << 60;

/// Reads that have been asked for, each with what it is for.
pub(crate) struct ReadAhead<T> {
    window: usize,
    /// Of each token: number in the order, and what for.
    asked: Vec<Option<(u64, T)>>,
    free_tokens: Vec<usize>,
    /// What has come, by number.
    ready: BTreeMap<u64, (T, Option<Buf>)>,
    next_number: u64,
    next_given: u64,
    in_flight: usize,
}

impl<T> ReadAhead<T> {
    /// Nothing yet, of at most `window` at once.
    pub(crate) fn new(window: usize) -> Self {
        ReadAhead {
            window,
            asked: Vec::new(),
            free_tokens: Vec::new(),
            ready: BTreeMap::new(),
            next_number: 0,
            next_given: 0,
            in_flight: 0,
        }
    }

    /// Whether another may be asked for.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight + self.ready.len() < self.window
    }

    /// Whether nothing is on its way; what has come may be waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Starts a read of the whole of `buf`.
    pub(crate) fn ask(
        &mut self,
        port: &mut Port,
        (file, at_bytes): (&VolumeFile, u64),
        buf: Buf,
        what: T,
    ) {
        let number = self.take_number();
        let index = self.free_tokens.pop().unwrap_or_else(|| {
            self.asked.push(None);
            self.asked.len() - 1
        });
        self.asked[index] = Some((number, what));
        let token = AHEAD_TOKENS | index as u64;
        port.submit(file, Op::Read, at_bytes, buf, token);
        self.in_flight += 1;
    }

    /// What needs no read takes its place in the order.
    pub(crate) fn put(&mut self, what: T) {
        let number = self.take_number();
        self.ready.insert(number, (what, None));
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Takes back a read that has ended well, one whose token has [`AHEAD_TOKENS`] in it, once `verify`
    /// has looked at it.
    pub(crate) fn settle(
        &mut self,
        transfer: Transfer,
        verify: impl FnOnce(&T, &Transfer) -> Result<()>,
    ) -> Result<()> {
        let index = (transfer.token & !AHEAD_TOKENS) as usize;
        let Some((number, what)) = self.asked.get_mut(index).and_then(Option::take) else {
            return Ok(());
        };
        self.free_tokens.push(index);
        self.in_flight -= 1;
        verify(&what, &transfer)?;
        self.ready.insert(number, (what, Some(transfer.buf)));
        Ok(())
    }

    /// The next that has come: in the order asked for, or any.
    pub(crate) fn next(&mut self, is_ordered: bool) -> Option<(T, Option<Buf>)> {
        let first = self.ready.first_entry()?;
        if is_ordered && *first.key() != self.next_given {
            return None;
        }
        self.next_given += 1;
        Some(first.remove())
    }
}

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
    let budget = &partition.job.budget;
    let pool = Pool::new(
        budget,
        SPLIT_SEGMENTS,
        partition.sizes.segment_bytes,
        window,
    )?;
    let mut ahead: ReadAhead<&Segment> = ReadAhead::new(window);
    let mut port = partition.volume.port()?;
    let mut segments = segments.into_iter();
    let mut finished = Vec::new();
    loop {
        partition.check()?;
        while ahead.has_room() {
            let Some(segment) = segments.next() else {
                break;
            };
            match &segment.location {
                Location::Memory(_) => ahead.put(segment),
                Location::Scratch { place, .. } => {
                    let mut buf = pool.take().ok_or_else(no_buffer)?;
                    let buf = buf.split_to(segment.stored_bytes());
                    let file = partition.scratch()?.file(*place);
                    ahead.ask(&mut port, (file, place.offset_bytes), buf, segment);
                }
            }
        }
        if let Some((segment, buf)) = ahead.next(true) {
            let bytes = match (&segment.location, &buf) {
                (Location::Memory(buf), _) | (_, Some(buf)) => &buf[..],
                (Location::Scratch { .. }, None) => continue,
            };
            show(segment, &bytes[..segment.payload_bytes as usize]);
            continue;
        }
        if ahead.is_idle() {
            return Ok(());
        }
        port.poll(true, &mut finished)?;
        for transfer in finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(partition.volume.explain(&fault));
            }
            ahead.settle(transfer, |segment, transfer| {
                verify(partition, segment, &transfer.buf)
            })?;
        }
    }
}
