//! Buckets between distribution and sort: segments in memory or on scratch, with their checksums.
//!
//! Contract: a [`Bucket`] holds all elements of one range of keys as [`Segment`]s in no fixed
//! order. A segment on scratch is verified when all of it is read, against a checksum seeded by its
//! location. For ordered jobs each segment lists its [`InputRun`]s: runs of elements that were
//! consecutive in the input. Each has a position, which sorts the input runs of a bucket in input
//! order. No element carries its own position.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

use super::Partition;
use outcore_io::checksum::{BlockLocation, block_checksum};
use outcore_io::memory::{Buf, block_ceil};
use outcore_io::scratch::ScratchAddress;
use outcore_io::{Error, Result};

/// Elements of a segment from one run of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct InputRun {
    /// Sorts the input runs of a bucket in input order.
    pub(crate) position: u64,
    /// Number of elements.
    pub(crate) count: u32,
    /// The number of their bytes.
    pub(crate) bytes: u32,
}

/// The copy on scratch of a segment in memory. It has a checksum like any segment on scratch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScratchCopy {
    pub(crate) address: ScratchAddress,
    pub(crate) checksum: u64,
}

/// Where a segment's bytes are.
#[derive(Debug)]
pub(crate) enum Location {
    /// In memory, from the start of the buffer.
    Memory {
        buf: Buf,
        /// The copy of the segment on scratch, which only a run that continues this one reads.
        copy: Option<Box<ScratchCopy>>,
    },
    /// On scratch, from the start of the address; the checksum is over the payload.
    Scratch {
        address: ScratchAddress,
        checksum: u64,
    },
}

/// A part of a bucket: the contents of one buffer, or a part of a longer line.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) location: Location,
    /// Bytes of elements.
    pub(crate) payload_bytes: u32,
    /// Number of elements that begin in the segment.
    pub(crate) items: u32,
    /// Whether the segment stays in memory by a reservation, which is returned once the segment has
    /// been read.
    pub(crate) is_resident: bool,
    /// Whether the segment's only item continues in the next segment of its bucket: an item longer
    /// than a buffer is a chain of segments that contain nothing else.
    pub(crate) is_continued: bool,
    /// Runs of the input, in the order of the payload; empty unless the job is ordered.
    pub(crate) input_runs: Box<[InputRun]>,
}

impl Location {
    /// In memory only.
    pub(crate) fn memory(buf: Buf) -> Self {
        Location::Memory { buf, copy: None }
    }
}

impl Segment {
    /// Bytes that the segment takes on scratch and in a read.
    pub(crate) fn stored_bytes(&self) -> usize {
        block_ceil(u64::from(self.payload_bytes)) as usize
    }

    /// Fails, with drive, file and offset, unless `bytes` begin with the data that were written to
    /// scratch for it.
    pub(crate) fn verify(&self, partition: &Partition<'_>, bytes: &[u8]) -> Result<()> {
        let Location::Scratch { address, checksum } = self.location else {
            return Ok(());
        };
        let payload = &bytes[..self.payload_bytes as usize];
        if segment_checksum(partition.run, address, payload) == checksum {
            return Ok(());
        }
        let scratch = partition.scratch()?;
        let cause = "the checksum of a block does not match what was written";
        Err(Error::corrupt("read scratch", cause)
            .drive(scratch.drive_name(address))
            .path(&scratch.file(address).path)
            .offset(address.offset_bytes)
            .hint("the input is intact; check this drive and sort again without it"))
    }
}

/// The amount of data in a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Number of items, in segments or only counted.
    pub(crate) items: u64,
    /// Their bytes, with terminators; items that are only counted are included only if their
    /// lengths differ.
    pub(crate) bytes: u64,
    /// Bytes of keys that must be made.
    pub(crate) key_bytes: u64,
}

impl Counts {
    /// Adds the counts of another part of the bucket.
    pub(crate) fn add(&mut self, other: &Counts) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.key_bytes += other.key_bytes;
    }
}

/// All items of one bucket of a route, with data specific to the kind of job.
#[derive(Debug, Default)]
pub(crate) struct Bucket<K = ()> {
    pub(crate) segments: Vec<Segment>,
    pub(crate) counts: Counts,
    /// Number of keys, or key bytes, that all items share.
    pub(crate) depth: usize,
    /// Whether all keys are equal.
    pub(crate) is_equal: bool,
    /// If items are only counted: the bytes of one item; all items are copies of it.
    pub(crate) copies_of: Option<Box<[u8]>>,
    /// Data of this kind of job.
    pub(crate) kind: K,
}

impl<K> Bucket<K> {
    /// Bytes that the bucket's segments take on scratch and in reads.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.segments.iter().map(Segment::stored_bytes).sum()
    }

    /// Whether the bucket has items and none of their bytes: an earlier run of the job has written
    /// them.
    pub(crate) fn is_written(&self) -> bool {
        self.counts.items > 0 && self.segments.is_empty() && self.copies_of.is_none()
    }
}

/// Adds the parts of all workers to `buckets`, in the order of the workers.
pub(crate) fn join_outs<K>(mut buckets: Vec<Bucket<K>>, workers: Vec<Vec<Out>>) -> Vec<Bucket<K>> {
    for outs in workers {
        for (bucket, out) in buckets.iter_mut().zip(outs) {
            bucket.counts.add(&out.counts);
            bucket.segments.extend(out.segments);
        }
    }
    buckets
}

/// One worker's part of a bucket.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) segments: Vec<Segment>,
    pub(crate) counts: Counts,
    /// Where the next segments are written.
    pub(crate) extent: Option<ScratchAddress>,
    /// Runs in the current buffer.
    input_runs: Vec<InputRun>,
    /// Bytes of the current buffer that input runs cover.
    covered_bytes: usize,
}

impl Out {
    /// Records that the last `count` elements of a buffer, which is filled up to `filled_bytes`,
    /// are one input run at `position`.
    pub(crate) fn note_input_run(&mut self, filled_bytes: usize, position: u64, count: u32) {
        if count > 0 {
            self.input_runs.push(InputRun {
                position,
                count,
                bytes: (filled_bytes - self.covered_bytes) as u32,
            });
            self.covered_bytes = filled_bytes;
        }
    }

    /// Bytes of the current buffer after the last input run.
    pub(crate) fn uncovered_bytes(&self, filled_bytes: usize) -> usize {
        filled_bytes - self.covered_bytes
    }

    /// Elements in the input runs of the current buffer.
    pub(crate) fn noted_count(&self) -> u64 {
        self.input_runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Makes a segment of a buffer that is full or will not be filled further; returns its number.
    pub(crate) fn push(&mut self, location: Location, payload_bytes: usize, count: u64) -> usize {
        self.counts.items += count;
        self.counts.bytes += payload_bytes as u64;
        self.covered_bytes = 0;
        self.segments.push(Segment {
            location,
            payload_bytes: payload_bytes as u32,
            items: count as u32,
            is_resident: false,
            is_continued: false,
            input_runs: std::mem::take(&mut self.input_runs).into_boxed_slice(),
        });
        self.segments.len() - 1
    }
}

/// Checksum of a segment's payload at an address in scratch run `run`.
pub(crate) fn segment_checksum(run: u64, address: ScratchAddress, payload: &[u8]) -> u64 {
    let address = BlockLocation {
        drive: u32::from(address.log),
        address_bytes: address.offset_bytes,
        run,
    };
    block_checksum(address, payload)
}
