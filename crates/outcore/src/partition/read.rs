//! Segments that have been read: what is in them, verified, and long items put together.
//!
//! Contract: every segment on scratch is verified before anybody sees it; one that stayed in memory is
//! shown like the others. [`look_at_segments`] shows segments that stay where they are.
//!
//! Bounds: the partition's window of reads, and a long item.

use std::collections::VecDeque;

use super::bucket::{InputRun, Location, Segment};
use super::{Partition, SPLIT_SEGMENTS, no_buffer};
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool};
use outcore_io::transfers::Transfers;

/// A segment that has been read, or had stayed in memory.
pub(crate) struct ReadSegment {
    pub(crate) segment: Segment,
    /// What was read of it, if it was on scratch.
    pub(crate) buf: Option<Buf>,
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
    input_runs: Box<[InputRun]>,
    is_inside: bool,
}

impl LongItem {
    /// The items of the segment, and their input runs; with the last part of a long one, all of that;
    /// nothing with the parts before.
    pub(crate) fn join<'r>(
        &'r mut self,
        read: &'r ReadSegment,
    ) -> Option<(&'r [u8], &'r [InputRun])> {
        self.join_bytes(&read.segment, read.payload())
    }

    /// The same of a segment whose payload is shown.
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
            if let Location::Scratch { address, .. } = &segment.location {
                let mut buf = pool.take().ok_or_else(no_buffer)?;
                let buf = buf.split_to(segment.stored_bytes());
                let file = partition.scratch()?.file(*address);
                reads.read(file, address.offset_bytes, buf, ());
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
            segment.verify(partition, &read.buf)?;
            show(segment, &read.buf[..payload_bytes]);
        }
    }
}
