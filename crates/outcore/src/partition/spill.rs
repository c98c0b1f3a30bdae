//! The write side of a distribution: a worker's full buffers become segments of their buckets.
//!
//! Model: PALID (SPAA 2025), section 3 (batched writer).
//!
//! Contract: a full buffer is moved, not copied, to its bucket's list in memory (while there are
//! reservations left) or to a write to scratch. Consecutive segments of one bucket are adjacent
//! there (*extents*), so that the bucket is read back in large pieces. A segment whose drive is
//! full goes to another drive. This module does not know what a segment holds; the caller passes
//! the item count.
//!
//! Bounds: at most `writes_in_flight` buffers wait for a drive (the owner calls [`Spill::is_busy`]
//! and polls); one description per segment stays in memory.
//!
//! N.B. writing segments in order of creation, whatever their bucket, so that the kernel joins them
//! to longer writes, made no difference (docs/decisions/0022).

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::bucket::{Location, Out, segment_checksum};
use super::{Partition, no_buffer};
use outcore_io::Result;
use outcore_io::drive::Op;
use outcore_io::memory::{Buf, block_ceil};
use outcore_io::port::{Port, Transfer, TransferFault};
use outcore_io::scratch::{Scratch, ScratchAddress};

/// Marks the tokens of writes made here; owners use smaller tokens.
pub(crate) const SPILL_TOKENS: u64 = 1 << 62;

/// If fewer buckets than this stay in memory, they are the first ones. Threads that process all
/// these buckets at once then load other buckets from the start.
const FEW_RESIDENT: usize = 8;

/// Which buckets stay in memory while there are reservations left: some of them, spread evenly over
/// all. If many of the first ones stayed, the drives would have nothing to read, and almost nothing
/// to write, until these had been sorted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resident {
    buckets: usize,
    of: usize,
}

impl Resident {
    /// Every bucket.
    pub(crate) const ALL: Self = Resident { buckets: 1, of: 1 };
    /// No bucket.
    pub(crate) const NONE: Self = Resident { buckets: 0, of: 1 };

    /// This many of `of` buckets.
    pub(crate) fn some(buckets: usize, of: usize) -> Self {
        let of = of.max(1);
        Resident {
            buckets: buckets.min(of),
            of,
        }
    }

    /// Whether a bucket stays in memory.
    pub(crate) fn has(self, bucket: usize) -> bool {
        if self.buckets < self.of && self.buckets < FEW_RESIDENT {
            return bucket < self.buckets;
        }
        let before = |bucket: usize| bucket * self.buckets / self.of;
        before(bucket) < before(bucket + 1)
    }
}

/// The task of one worker's spill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spilling {
    pub(crate) resident: Resident,
    /// Whether the worker writes a bucket of an earlier distribution. The segments of such a bucket
    /// are read in an unpredictable order, and reuse the space of segments that are freed one by
    /// one.
    pub(crate) is_split: bool,
}

/// The band for one of `buckets_count` buckets that are read in order.
pub(super) fn band_of(bucket: usize, buckets_count: usize, scratch: &Scratch) -> usize {
    bucket * scratch.bands() / buckets_count
}

/// One worker's buckets.
pub(crate) struct Spill<'a> {
    partition: &'a Partition<'a>,
    spilling: Spilling,
    outs: Vec<Out>,
    /// (bucket, segment) of each write in flight, by its token.
    writes: Vec<Option<WrittenSegment>>,
    free_tokens: Vec<usize>,
    in_flight: usize,
}

/// A segment of a bucket that is being written.
#[derive(Debug, Clone, Copy)]
struct WrittenSegment {
    bucket: usize,
    segment: usize,
}

impl<'a> Spill<'a> {
    /// Empty, for `bucket_count` buckets.
    pub(super) fn new(
        partition: &'a Partition<'a>,
        spilling: Spilling,
        bucket_count: usize,
    ) -> Self {
        Spill {
            partition,
            spilling,
            outs: (0..bucket_count).map(|_| Out::default()).collect(),
            writes: Vec::new(),
            free_tokens: Vec::new(),
            in_flight: 0,
        }
    }

    /// The contents of a bucket so far.
    pub(crate) fn out(&mut self, bucket: usize) -> &mut Out {
        &mut self.outs[bucket]
    }

    /// The contents of all buckets so far.
    pub(super) fn outs(&self) -> &[Out] {
        &self.outs
    }

    /// Whether a write is in flight.
    pub(super) fn is_writing(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether a write must end before the next buffer is taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight >= self.partition.sizes.writes_in_flight
    }

    /// An empty buffer; a worker's own share has one while it is not busy.
    pub(crate) fn take_buffer(&self) -> Result<Buf> {
        debug_assert!(!self.is_busy());
        self.partition.segment_pool.take().ok_or_else(no_buffer)
    }

    /// Makes a segment of a buffer with `count` records in its first `payload_bytes`, in memory or
    /// on scratch.
    pub(crate) fn store(
        &mut self,
        port: &mut Port,
        bucket: usize,
        buf: Buf,
        payload_bytes: usize,
        count: u64,
    ) -> Result<()> {
        if self.reserve(bucket, 1) {
            self.keep_resident(bucket, buf, payload_bytes, count);
            return Ok(());
        }
        self.store_away(port, bucket, buf, payload_bytes, count)
    }

    /// Makes a segment of a buffer that stays in memory by a reservation.
    pub(super) fn keep_resident(
        &mut self,
        bucket: usize,
        buf: Buf,
        payload_bytes: usize,
        count: u64,
    ) {
        let segment = self.outs[bucket].push(Location::memory(buf), payload_bytes, count);
        self.outs[bucket].segments[segment].is_resident = true;
    }

    /// Makes a segment of a buffer, on scratch in any case.
    pub(super) fn store_away(
        &mut self,
        port: &mut Port,
        bucket: usize,
        buf: Buf,
        payload_bytes: usize,
        count: u64,
    ) -> Result<()> {
        let address = self.next_address(port, bucket, payload_bytes)?;
        self.write(port, bucket, buf, payload_bytes, count, address)
    }

    /// Makes a segment of a buffer that stays in memory without a reservation.
    pub(crate) fn keep(&mut self, bucket: usize, buf: Buf, payload_bytes: usize, count: u64) {
        self.outs[bucket].push(Location::memory(buf), payload_bytes, count);
    }

    /// Reserves memory for all `segments` of a bucket, if it may stay in memory and there is
    /// enough.
    pub(super) fn reserve(&self, bucket: usize, segments: usize) -> bool {
        let wanted = segments as i64;
        let less = |left: i64| (left >= wanted).then_some(left - wanted);
        let left = &self.partition.resident_left;
        self.spilling.resident.has(bucket)
            && left
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, less)
                .is_ok()
    }

    /// The place of the bucket's next segment, with a payload of `payload_bytes`: in its open
    /// extent, or in a new one. A single segment gets only the space that it needs.
    fn next_address(
        &mut self,
        port: &Port,
        bucket: usize,
        payload_bytes: usize,
    ) -> Result<ScratchAddress> {
        let sizes = self.partition.sizes;
        let segment_bytes = sizes.segment_bytes as u32;
        let stored_bytes = block_ceil(payload_bytes as u64);
        let extent = match self.outs[bucket].extent.take() {
            Some(open) => open,
            None => {
                let is_short = stored_bytes < u64::from(segment_bytes);
                let segments = match self.spilling.is_split || is_short {
                    // At most the segments that the bucket almost certainly gets from this worker.
                    false => {
                        let made = self.outs[bucket].segments.len();
                        let left = sizes.sure_segments.saturating_sub(made);
                        left.clamp(1, sizes.extent_segments)
                    }
                    // Read segments are freed one by one, and their space is reused in the same
                    // way; nothing is adjacent to a short segment.
                    true => 1,
                };
                let extent_bytes = match segments {
                    1 => stored_bytes,
                    segments => u64::from(segment_bytes) * segments as u64,
                };
                let scratch = self.partition.scratch.get()?;
                scratch.allocate(extent_bytes, self.band(bucket, scratch), port)?
            }
        };
        if extent.len_bytes <= segment_bytes {
            return Ok(extent);
        }
        let (address, rest) = extent.split_at(segment_bytes);
        self.outs[bucket].extent = Some(rest);
        Ok(address)
    }

    fn write(
        &mut self,
        port: &mut Port,
        bucket: usize,
        mut buf: Buf,
        payload_bytes: usize,
        count: u64,
        address: ScratchAddress,
    ) -> Result<()> {
        let checksum = segment_checksum(self.partition.run, address, &buf[..payload_bytes]);
        let location = Location::Scratch { address, checksum };
        let segment = self.outs[bucket].push(location, payload_bytes, count);
        let buf = buf.split_to(block_ceil(payload_bytes as u64) as usize);
        self.submit(port, address, buf, WrittenSegment { bucket, segment })
    }

    fn submit(
        &mut self,
        port: &mut Port,
        address: ScratchAddress,
        buf: Buf,
        what: WrittenSegment,
    ) -> Result<()> {
        let index = self.free_tokens.pop().unwrap_or_else(|| {
            self.writes.push(None);
            self.writes.len() - 1
        });
        self.writes[index] = Some(what);
        let scratch = self.partition.scratch.get()?;
        scratch.expect_read(address);
        let token = SPILL_TOKENS | index as u64;
        let file = scratch.file(address);
        port.submit(file, Op::Write, address.offset_bytes, buf, token);
        self.in_flight += 1;
        Ok(())
    }

    /// The band for buckets that will be read at the same time. The segments of a split are read in
    /// an unpredictable order.
    fn band(&self, bucket: usize, scratch: &Scratch) -> usize {
        match self.spilling.is_split {
            false => band_of(bucket, self.outs.len(), scratch),
            true => scratch.bands() - 1,
        }
    }

    /// Takes back a completed write whose token contains [`SPILL_TOKENS`].
    pub(crate) fn settle(&mut self, port: &mut Port, transfer: Transfer) -> Result<()> {
        let index = (transfer.token & !SPILL_TOKENS) as usize;
        let what = self.writes.get_mut(index).and_then(Option::take);
        self.free_tokens.push(index);
        self.in_flight -= 1;
        match (what, transfer.fault) {
            (Some(what), Some(fault)) => self.write_elsewhere(port, what, transfer.buf, &fault),
            _ => Ok(()),
        }
    }

    /// Writes a segment to another drive after its drive turned out to be full.
    fn write_elsewhere(
        &mut self,
        port: &mut Port,
        WrittenSegment { bucket, segment }: WrittenSegment,
        buf: Buf,
        fault: &TransferFault,
    ) -> Result<()> {
        if fault.errno != Errno::NOSPC.raw_os_error() {
            return Err(self.partition.volume.explain(fault));
        }
        self.outs[bucket].extent = None;
        let scratch = self.partition.scratch.get()?;
        let len_bytes = buf.len() as u64;
        let address = scratch.allocate(len_bytes, self.band(bucket, scratch), port)?;
        let entry = &mut self.outs[bucket].segments[segment];
        let payload = &buf[..entry.payload_bytes as usize];
        let checksum = segment_checksum(self.partition.run, address, payload);
        let location =
            std::mem::replace(&mut entry.location, Location::Scratch { address, checksum });
        if let Location::Scratch { address, .. } = location {
            scratch.forget(address);
        }
        self.submit(port, address, buf, WrittenSegment { bucket, segment })
    }

    /// All buckets; no write may be in flight. Releases the rest of their extents.
    pub(crate) fn into_outs(mut self) -> Result<Vec<Out>> {
        assert_eq!(self.in_flight, 0);
        for out in &mut self.outs {
            if let Some(rest) = out.extent.take() {
                self.partition.scratch.get()?.free(rest);
            }
        }
        Ok(self.outs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_buckets_stay_as_said_and_none_of_them_are_neighbours_that_need_not_be() {
        for (buckets, of) in [
            (0, 7),
            (1, 7),
            (3, 7),
            (30, 256),
            (255, 256),
            (9, 9),
            (10, 9),
        ] {
            let resident = Resident::some(buckets, of);
            let has: Vec<bool> = (0..of).map(|bucket| resident.has(bucket)).collect();
            let found = has.iter().filter(|has| **has).count();
            assert_eq!(found, buckets.min(of));
            if buckets < FEW_RESIDENT.min(of) {
                assert!(has[..buckets].iter().all(|has| *has));
                continue;
            }
            let longest = has.split(|has| !has).map(<[bool]>::len).max();
            assert!(longest <= Some(buckets.div_ceil((of - found.min(of - 1)).max(1))));
        }
        assert!((0..9).all(|bucket| Resident::ALL.has(bucket)));
        assert!(!(0..9).any(|bucket| Resident::NONE.has(bucket)));
    }
}
