//! One worker's write side of a distribution: one buffer per bucket, and the handling of full
//! buffers.
//!
//! Model: PALID (SPAA 2025), section 3 (in-memory bucketer, batched writer).
//!
//! Contract: scalars go through cache lines, records of other fixed lengths are copied, and records
//! of varying lengths are appended; code generic over [`FixedItems`] is compiled for each. A
//! [`ScatterWorker`] owns a port, the buffers ([`super::kernel`]) and the spill of one thread. Its
//! owner reads, routes and passes items to it ([`super::mover`]); a full buffer becomes a segment
//! ([`super::spill`]). In ordered jobs each segment lists the runs of the input in it; the owner
//! announces where runs begin. [`ScatterWorker::poll`] returns the owner's completed reads; failed
//! reads become errors.
//!
//! Bounds: one buffer per bucket and `writes_in_flight` more; a worker never waits for another's
//! buffer.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::bucket::{Counts, Out};
use super::kernel::{Full, Scatter};
use super::spill::{SPILL_TOKENS, Spill, Spilling};
use super::{Partition, SegmentSizes};
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Buf, block_ceil};
use outcore_io::port::{Port, Transfer};

/// Number of different lengths of short segments.
const STAGGER_STEPS: usize = 16;
/// This many of a worker's segments per bucket are shorter: the first and the second.
const SHORT_SEGMENTS: usize = 2;
/// The longest first segment is one part in this many of a buffer.
const FIRST_PARTS: usize = 4;

/// Items of one length, as moved by a [`Scatter`].
pub(crate) trait FixedItems {
    /// The length.
    fn item_bytes(&self) -> usize;
    /// Moves the items in `bytes`, stored one after another, to their buckets, until a buffer is
    /// full.
    fn scatter(&self, into: &mut Scatter, bytes: &[u8], buckets: &[u16]) -> Option<Full>;
}

/// Numbers, which go through cache lines; they need not be aligned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberItems<K>(pub(crate) PhantomData<K>);

impl<K: Pod> FixedItems for NumberItems<K> {
    fn item_bytes(&self) -> usize {
        size_of::<K>()
    }

    fn scatter(&self, into: &mut Scatter, bytes: &[u8], buckets: &[u16]) -> Option<Full> {
        into.scatter_numbers::<K>(bytes, buckets)
    }
}

/// Records of any fixed length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordItems {
    pub(crate) item_bytes: usize,
}

impl FixedItems for RecordItems {
    fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    fn scatter(&self, into: &mut Scatter, bytes: &[u8], buckets: &[u16]) -> Option<Full> {
        into.scatter_records(bytes, self.item_bytes, buckets)
    }
}

/// The task of one thread of a distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scattering {
    pub(crate) spilling: Spilling,
    pub(crate) bucket_count: usize,
    /// The length of all items. `None` if it varies: items are then appended, and a bucket gets a
    /// buffer with its first item.
    pub(crate) item_bytes: Option<usize>,
    /// Whether segments list the runs of the input in them.
    pub(crate) is_ordered: bool,
    /// Whether the first segments of buckets that go to scratch are shortened by different amounts,
    /// so that buffers do not all become full at the same time. Otherwise drives would first have
    /// nothing to write, and reads would later wait for drives. Short buffers share slots, so that
    /// memory is touched gradually: touching all of it before the first write delays that write.
    pub(crate) is_staggered: bool,
}

/// A run of consecutive input items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunStart {
    /// The order of the run among the other runs of the input.
    pub(crate) position: u64,
    /// The run continues another one whose `end` has this value.
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// One thread of a distribution.
pub(crate) struct ScatterWorker<'a> {
    pub(crate) partition: &'a Partition<'a>,
    pub(crate) port: Port,
    what: Scattering,
    spill: Spill<'a>,
    buffers: Scatter,
    /// The rest of the slot from which the last short buffer was cut.
    slot_rest: Option<Buf>,
    finished: Vec<Transfer>,
    /// Completed reads of the owner.
    others: Vec<Transfer>,
    /// For each bucket, whether its items are only counted, in any order.
    counted: Vec<bool>,
    /// Items of varying lengths in each bucket's buffer that are in none of its input runs.
    added: Vec<u32>,
    /// Items of the current run in each bucket's input runs.
    run_counts: Vec<u64>,
    /// Position of the current run, and the value at which a continuation begins.
    run_position: u64,
    run_end: u64,
}

impl<'a> ScatterWorker<'a> {
    /// A worker with empty buckets.
    pub(crate) fn new(partition: &'a Partition<'a>, what: Scattering) -> Result<Self> {
        let count = what.bucket_count;
        let spill = partition.spill(what.spilling, count);
        let capacity_bytes = partition.sizes.capacity_bytes();
        let mut buffers = Scatter::without_buffers(count, capacity_bytes);
        let mut slot_rest = None;
        if let Some(item_bytes) = what.item_bytes {
            for bucket in 0..count {
                let bytes = what.buffer_bytes(&partition.sizes, bucket, 0, item_bytes);
                let empty = take_part(&spill, &mut slot_rest, bytes)?;
                buffers.give_short(bucket, empty, bytes);
            }
        }
        Ok(ScatterWorker {
            partition,
            port: partition.volume.port()?,
            what,
            spill,
            buffers,
            slot_rest,
            finished: Vec::new(),
            others: Vec::new(),
            counted: vec![false; count],
            added: vec![0; count],
            run_counts: vec![0; count],
            run_position: 0,
            run_end: u64::MAX,
        })
    }

    /// From now on the items of a bucket are only counted, because they are all equal.
    pub(crate) fn only_count(&mut self, bucket: usize) {
        self.counted[bucket] = true;
    }

    /// Whether segments are processed in order.
    pub(crate) fn takes_in_order(&self) -> bool {
        // A long item is a chain of segments.
        self.what.is_ordered || self.what.item_bytes.is_none()
    }

    /// The amount of data in a bucket so far.
    #[inline]
    pub(crate) fn counts(&mut self, bucket: usize) -> &mut Counts {
        &mut self.spill.out(bucket).counts
    }

    /// Starts submitted requests and collects completed ones.
    pub(crate) fn poll(&mut self, wait: bool) -> Result<()> {
        self.port.poll(wait, &mut self.finished)?;
        for transfer in self.finished.drain(..) {
            if transfer.token & SPILL_TOKENS != 0 {
                self.spill.settle(&mut self.port, transfer)?;
            } else if let Some(fault) = transfer.fault {
                return Err(self.partition.volume.explain(&fault));
            } else {
                self.others.push(transfer);
            }
        }
        Ok(())
    }

    /// Passes the owner's completed reads to `settle`.
    pub(super) fn settle_others(
        &mut self,
        settle: impl FnMut(Transfer) -> Result<()>,
    ) -> Result<()> {
        self.others.drain(..).try_for_each(settle)
    }

    /// Waits until a buffer may be taken or written.
    fn wait_for_writes(&mut self) -> Result<()> {
        while self.spill.is_busy() {
            self.partition.check()?;
            self.poll(true)?;
        }
        Ok(())
    }

    /// Moves items of one length, stored one after another in `bytes`, to the given buckets.
    #[inline]
    pub(super) fn scatter<F: FixedItems>(
        &mut self,
        items: &F,
        bytes: &[u8],
        buckets: &[u16],
    ) -> Result<()> {
        let item_bytes = items.item_bytes();
        let mut at = 0;
        while let Some(full) =
            items.scatter(&mut self.buffers, &bytes[at * item_bytes..], &buckets[at..])
        {
            at += full.consumed;
            self.emit(full.bucket)?;
        }
        Ok(())
    }

    /// Makes a segment of a bucket's full buffer and replaces it with an empty one.
    #[cold]
    fn emit(&mut self, bucket: usize) -> Result<()> {
        let payload_bytes = self.buffers.filled_bytes(bucket);
        let count = self.take_count(bucket, payload_bytes);
        if self.counted[bucket] {
            self.counts(bucket).items += count;
            self.buffers.rewind(bucket);
            return Ok(());
        }
        self.wait_for_writes()?;
        let made = self.spill.out(bucket).segments.len() + 1;
        let sizes = &self.partition.sizes;
        let item_bytes = self.what.item_bytes.unwrap_or(1);
        let bytes = self.what.buffer_bytes(sizes, bucket, made, item_bytes);
        let empty = take_part(&self.spill, &mut self.slot_rest, bytes)?;
        let Some((full, _)) = self.buffers.take(bucket) else {
            return Ok(());
        };
        self.buffers.give_short(bucket, empty, bytes);
        self.spill
            .store(&mut self.port, bucket, full, payload_bytes, count)
    }

    /// Copies an item of any length, given by its offset and length in `area`, to the end of its
    /// bucket's buffer.
    #[inline]
    pub(super) fn append(
        &mut self,
        bucket: usize,
        area: &[u8],
        at: usize,
        len_bytes: usize,
    ) -> Result<()> {
        if !self.buffers.append(bucket, area, at, len_bytes) {
            return self.append_further(bucket, &area[at..at + len_bytes]);
        }
        self.added[bucket] += 1;
        Ok(())
    }

    /// Like `append`, if the bucket's buffer has no room for it.
    #[cold]
    fn append_further(&mut self, bucket: usize, item: &[u8]) -> Result<()> {
        self.flush(bucket)?;
        if item.len() > self.partition.sizes.capacity_bytes() {
            return self.store_long(bucket, item);
        }
        self.give_buffer(bucket, item.len())?;
        self.buffers.append(bucket, item, 0, item.len());
        self.added[bucket] += 1;
        Ok(())
    }

    /// Makes a segment of a bucket's buffer, if it contains data, and leaves the bucket without a
    /// buffer.
    fn flush(&mut self, bucket: usize) -> Result<()> {
        let filled_bytes = self.buffers.filled_bytes(bucket);
        let count = self.take_count(bucket, filled_bytes);
        let Some((full, payload_bytes)) = self.buffers.take(bucket) else {
            return Ok(());
        };
        if payload_bytes == 0 {
            return Ok(());
        }
        self.wait_for_writes()?;
        self.spill
            .store(&mut self.port, bucket, full, payload_bytes, count)
    }

    /// Gives a buffer with room for `least_bytes` to a bucket that has none.
    fn give_buffer(&mut self, bucket: usize, least_bytes: usize) -> Result<()> {
        self.wait_for_writes()?;
        let made = self.spill.out(bucket).segments.len();
        let sizes = &self.partition.sizes;
        let bytes = self.what.buffer_bytes(sizes, bucket, made, 1);
        let bytes = bytes.max(least_bytes);
        let empty = take_part(&self.spill, &mut self.slot_rest, bytes)?;
        self.buffers.give_short(bucket, empty, bytes);
        Ok(())
    }

    /// Makes a chain of segments of an item longer than a buffer; the bucket has no buffer. The
    /// chain stays in memory as a whole, or goes to scratch as a whole.
    fn store_long(&mut self, bucket: usize, item: &[u8]) -> Result<()> {
        let segment_bytes = self.partition.sizes.segment_bytes;
        if self.what.is_ordered {
            // Only the first segment has the input run.
            let position = self.run_position + self.run_counts[bucket];
            self.run_counts[bucket] += 1;
            let out = self.spill.out(bucket);
            out.note_input_run(segment_bytes, position, 1);
        }
        let parts = item.len().div_ceil(segment_bytes);
        let is_resident = self.spill.reserve(bucket, parts);
        for (number, part) in item.chunks(segment_bytes).enumerate() {
            self.wait_for_writes()?;
            let mut buf = self.spill.take_buffer()?;
            buf[..part.len()].copy_from_slice(part);
            let count = u64::from(number == 0);
            match is_resident {
                true => self.spill.keep_resident(bucket, buf, part.len(), count),
                false => self
                    .spill
                    .store_away(&mut self.port, bucket, buf, part.len(), count)?,
            }
            if let Some(last) = self.spill.out(bucket).segments.last_mut() {
                last.is_continued = number + 1 < parts;
            }
        }
        Ok(())
    }

    /// Begins a run, unless it continues the last one: nothing of the source is between them, so
    /// the items of both keep their order as one run. Positions in a bucket then no longer show
    /// where an item was, but still which items came first.
    pub(crate) fn begin_run(&mut self, run: RunStart) {
        if self.what.is_ordered && self.run_end != run.begin {
            self.note_all();
            self.run_counts.fill(0);
            self.run_position = run.position;
        }
        self.run_end = run.end;
    }

    /// Continues with another run at `position`; each bucket has `counts` items of it in its input
    /// runs. Returns these numbers for the previous run.
    pub(crate) fn switch_run(&mut self, position: u64, counts: Vec<u64>) -> Vec<u64> {
        self.note_all();
        self.run_position = position;
        std::mem::replace(&mut self.run_counts, counts)
    }

    /// Notes, for the buffer of each bucket, which items the current run has added.
    pub(crate) fn note_all(&mut self) {
        for bucket in 0..self.what.bucket_count {
            self.note(bucket, self.buffers.filled_bytes(bucket));
        }
    }

    /// Whether segments list the runs of the input in them.
    pub(super) fn is_ordered(&self) -> bool {
        self.what.is_ordered
    }

    /// Skips an item of the current input run in a bucket, because an earlier run of the job has
    /// stored it.
    pub(super) fn skip(&mut self, bucket: usize) {
        self.note(bucket, self.buffers.filled_bytes(bucket));
        self.run_counts[bucket] += 1;
    }

    fn note(&mut self, bucket: usize, filled_bytes: usize) {
        if !self.what.is_ordered {
            return;
        }
        let out = self.spill.out(bucket);
        let count = match self.what.item_bytes {
            Some(item_bytes) => (out.uncovered_bytes(filled_bytes) / item_bytes) as u32,
            None => std::mem::take(&mut self.added[bucket]),
        };
        let position = self.run_position + self.run_counts[bucket];
        self.run_counts[bucket] += u64::from(count);
        out.note_input_run(filled_bytes, position, count);
    }

    /// The number of items in the first `filled_bytes` of a bucket's buffer, all of them noted.
    fn take_count(&mut self, bucket: usize, filled_bytes: usize) -> u64 {
        self.note(bucket, filled_bytes);
        match self.what.item_bytes {
            Some(item_bytes) => (filled_bytes / item_bytes) as u64,
            None => {
                let added = std::mem::take(&mut self.added[bucket]);
                self.spill.out(bucket).noted_count() + u64::from(added)
            }
        }
    }

    /// Counts `bytes` of the input as distributed by a thread, and notes their `block` if the
    /// journal does not have it yet. Makes a checkpoint if one is due; before that, it waits for
    /// all writes.
    pub(crate) fn checkpoint(
        &mut self,
        thread: usize,
        block: Option<u64>,
        bytes: u64,
    ) -> Result<()> {
        let Some(checkpoints) = &self.partition.checkpoints else {
            return Ok(());
        };
        if let Some(block) = block {
            checkpoints.note_block(thread, block);
        }
        checkpoints.advance(bytes);
        if !checkpoints.is_due() {
            return Ok(());
        }
        while self.spill.is_writing() {
            self.partition.check()?;
            self.poll(true)?;
        }
        checkpoints.record_moved(thread, self.spill.outs())?;
        checkpoints.meet_distributing(&self.partition.thread_group)
    }

    /// Stores the partly filled buffers, in memory if they may stay there, and waits for all
    /// writes.
    pub(crate) fn finish(mut self, keep_partials: bool) -> Result<Vec<Out>> {
        self.note_all();
        let none = Scatter::without_buffers(0, self.partition.sizes.capacity_bytes());
        let parts: Vec<_> = std::mem::replace(&mut self.buffers, none)
            .into_parts()
            .collect();
        for (bucket, (buf, filled_bytes)) in parts.into_iter().enumerate() {
            let Some(buf) = buf.filter(|_| filled_bytes > 0) else {
                continue;
            };
            let count = self.take_count(bucket, filled_bytes);
            if self.counted[bucket] {
                self.counts(bucket).items += count;
            } else if keep_partials {
                self.spill.keep(bucket, buf, filled_bytes, count);
            } else {
                self.wait_for_writes()?;
                self.spill
                    .store(&mut self.port, bucket, buf, filled_bytes, count)?;
            }
        }
        while self.port.in_flight() > 0 {
            self.partition.check()?;
            self.poll(true)?;
        }
        self.spill.into_outs()
    }
}

impl Scattering {
    /// Usable size of a bucket's next buffer, after `made` segments, for items of one length.
    fn buffer_bytes(
        &self,
        sizes: &SegmentSizes,
        bucket: usize,
        made: usize,
        item_bytes: usize,
    ) -> usize {
        if !self.is_staggered || made >= SHORT_SEGMENTS || self.spilling.resident.has(bucket) {
            return sizes.capacity_bytes();
        }
        let steps = STAGGER_STEPS.min(sizes.segment_bytes / BLOCK_BYTES).max(1);
        // The ends of second buffers are spread over a whole segment, and the ends of first buffers
        // over a part of it.
        let (number, parts) = match made {
            0 => (bucket, FIRST_PARTS),
            _ => (11 * bucket + bucket / steps, 1),
        };
        // The numbers from 1 to `steps`, in an order in which consecutive numbers fill a slot
        // together.
        let step = match number % steps {
            0 => steps,
            odd if odd % 2 == 1 => odd.div_ceil(2),
            even => steps - even / 2,
        };
        let items = sizes.segment_bytes * step / steps / parts / item_bytes;
        (items.max(1) * item_bytes).min(sizes.capacity_bytes())
    }
}

/// An empty buffer of at least `len_bytes`, cut from `rest` if that has room, otherwise from
/// another slot, whose rest is left in `rest`.
fn take_part(spill: &Spill<'_>, rest: &mut Option<Buf>, len_bytes: usize) -> Result<Buf> {
    let len_bytes = block_ceil(len_bytes as u64) as usize;
    // A rest that is too small is returned first, so that a worker never has more slots than its
    // share.
    let mut slot = match rest.take().filter(|rest| rest.len() >= len_bytes) {
        Some(rest) => rest,
        None => spill.take_buffer()?,
    };
    let part = slot.split_to(len_bytes);
    *rest = (!slot.is_empty()).then_some(slot);
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::spill::Resident;

    /// From the second buffer on, buckets that fill equally fast become full at times that are
    /// spread over a whole segment. The drives have something to write soon, even before that.
    #[test]
    fn buffers_become_full_one_after_another_from_the_second_on() {
        let sizes = SegmentSizes {
            segment_bytes: 256 << 10,
            full_bytes: 256 << 10,
            extent_segments: 1,
            sure_segments: 1,
            writes_in_flight: 1,
            resident_segments: 0,
            split_reads: 1,
            slots: 1,
        };
        let what = Scattering {
            spilling: Spilling {
                resident: Resident::NONE,
                is_split: false,
            },
            bucket_count: 256,
            item_bytes: Some(8),
            is_ordered: false,
            is_staggered: true,
        };
        for bucket_count in [64, 256] {
            let mut ends = vec![0; STAGGER_STEPS];
            for bucket in 0..bucket_count {
                let bytes = |made| what.buffer_bytes(&sizes, bucket, made, 8);
                assert!(bytes(0) <= sizes.segment_bytes / FIRST_PARTS);
                assert_eq!(bytes(SHORT_SEGMENTS), sizes.segment_bytes);
                let end = (bytes(0) + bytes(1)) % sizes.segment_bytes;
                ends[end * STAGGER_STEPS / sizes.segment_bytes] += 1;
            }
            let even = bucket_count / STAGGER_STEPS;
            assert!(
                ends.iter().all(|&at| at >= even / 2 && at <= even * 2),
                "{ends:?}"
            );
        }
    }
}
