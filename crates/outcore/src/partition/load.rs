//! Loads a bucket: all of its segments in one area of memory, verified.
//!
//! Contract: a [`Load`] starts the reads of segments on scratch, adjacent ones in one read, and is
//! complete when they have ended. The owner then copies the segments in memory after them. Every
//! segment's checksum is verified before its data are used. Segments that fill their buffers are
//! stored one after another without gaps, and so are the parts of a long item; other segments may
//! have gaps of less than a block.
//!
//! Bounds: the area, and a few words per segment; each segment is read once.

use super::Partition;
use super::bucket::{Location, Segment};
use outcore_io::drive::Op;
use outcore_io::memory::{BLOCK_BYTES, Buf};
use outcore_io::port::Port;
use outcore_io::{Error, Kind, Result};

/// Largest read of adjacent segments; larger ones gain nothing.
const READ_BYTES_MAX: usize = 1 << 20;

/// A bucket that is being loaded.
pub(crate) struct Load {
    /// Number of the bucket; below 2^30.
    pub(crate) index: usize,
    pub(crate) segments: Vec<Segment>,
    /// Offset in the area of each loaded segment, by its number.
    pub(crate) offsets: Vec<(usize, usize)>,
    /// Start and end of the area's part that the reads fill.
    pub(crate) loaded_from: usize,
    pub(crate) loaded_to: usize,
    /// Parts of the area, by offset.
    parts: Vec<(usize, Buf)>,
    reads_left: usize,
}

impl Load {
    /// Starts reading `segments` into `area`, starting at its byte `loaded_from` (a multiple of 4
    /// KiB).
    ///
    /// # Panics
    /// If the area is too short.
    pub(crate) fn start(
        partition: &Partition<'_>,
        port: &mut Port,
        index: usize,
        segments: Vec<Segment>,
        area: Buf,
        loaded_from: usize,
    ) -> Result<Self> {
        assert!(loaded_from.is_multiple_of(BLOCK_BYTES) && index < 1 << 30);
        let mut load = Load {
            index,
            segments,
            offsets: Vec::new(),
            loaded_from,
            loaded_to: loaded_from,
            parts: Vec::new(),
            reads_left: 0,
        };
        // Full segments first: they are stored one after another without gaps between their
        // payloads.
        let mut on_scratch: Vec<(bool, u16, u64, usize)> = Vec::new();
        // Long items come next; their parts keep their order in the bucket.
        let mut long = Vec::new();
        let mut is_inside = false;
        for (number, segment) in load.segments.iter().enumerate() {
            if let Location::Scratch { address, .. } = &segment.location {
                let is_short = (segment.payload_bytes as usize) < partition.sizes.full_bytes;
                match is_inside || segment.is_continued {
                    true => long.push((false, address.log, address.offset_bytes, number)),
                    false => {
                        on_scratch.push((is_short, address.log, address.offset_bytes, number));
                    }
                }
            }
            is_inside = segment.is_continued;
        }
        on_scratch.sort_unstable();
        on_scratch.extend(long);
        let mut rest = area;
        if loaded_from > 0 {
            load.parts.push((0, rest.split_to(loaded_from)));
        }
        let mut at = 0;
        while at < on_scratch.len() {
            let to = run_end(&on_scratch, at, &load.segments);
            let mut len_bytes = 0;
            for &(_, _, _, number) in &on_scratch[at..to] {
                load.offsets.push((number, load.loaded_to + len_bytes));
                len_bytes += load.segments[number].stored_bytes();
            }
            let part = rest.split_to(len_bytes);
            load.read_run(partition, port, on_scratch[at].3, part)?;
            at = to;
        }
        load.parts.push((load.loaded_to, rest));
        Ok(load)
    }

    /// Reads a range of scratch that starts with segment `first`, to the end of the loaded part.
    fn read_run(
        &mut self,
        partition: &Partition<'_>,
        port: &mut Port,
        first: usize,
        part: Buf,
    ) -> Result<()> {
        let Location::Scratch { address, .. } = &self.segments[first].location else {
            return Ok(());
        };
        let len_bytes = part.len();
        let file = partition.scratch()?.file(*address);
        // Bucket and offset together identify the part of the area when its read returns.
        let token = (self.index as u64) << 32 | self.loaded_to as u64;
        port.submit(file, Op::Read, address.offset_bytes, part, token);
        self.reads_left += 1;
        self.loaded_to += len_bytes;
        Ok(())
    }

    /// The bucket that a transfer with `token` belongs to.
    pub(crate) fn index_of(token: u64) -> usize {
        (token >> 32) as usize
    }

    /// Takes back a completed read.
    pub(crate) fn take_back(&mut self, token: u64, buf: Buf) {
        let offset = (token & u64::from(u32::MAX)) as usize;
        self.reads_left -= 1;
        self.parts.push((offset, buf));
    }

    /// Whether all reads have ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.reads_left == 0
    }

    /// The whole area, once all reads have been verified; marks the segments as read in scratch.
    pub(crate) fn join(&mut self, partition: &Partition<'_>) -> Result<Buf> {
        self.parts.sort_unstable_by_key(|(offset, _)| *offset);
        let mut parts = self.parts.drain(..).map(|(_, buf)| buf);
        let mut area = parts.next().ok_or_else(|| {
            Error::new(Kind::Memory, "load a bucket", "the bucket has no area")
                .hint("a bug: please report it")
        })?;
        parts.for_each(|part| area.join(part));
        for &(number, offset) in &self.offsets {
            let segment = &self.segments[number];
            let Location::Scratch { address, .. } = &segment.location else {
                continue;
            };
            segment.verify(partition, &area[offset..])?;
            if partition.checkpoints.is_some() {
                // The segment is needed until its output is recorded.
                continue;
            }
            let scratch = partition.scratch()?;
            let file = scratch.file(*address);
            if file.facts.is_in_memory {
                let len_bytes = segment.stored_bytes() as u64;
                let device = partition.volume.device();
                device.punch(file.id, address.offset_bytes, len_bytes)?;
            }
            scratch.forget(*address);
        }
        Ok(area)
    }

    /// Copies the segments in memory after the loaded ones.
    ///
    /// # Panics
    /// If the area is too short.
    pub(crate) fn append_resident(&mut self, area: &mut Buf) {
        let mut end = self.loaded_to;
        for (number, segment) in self.segments.iter_mut().enumerate() {
            let len = segment.payload_bytes as usize;
            if let Location::Memory { buf, .. } = &segment.location {
                area[end..end + len].copy_from_slice(&buf[..len]);
                self.offsets.push((number, end));
                end += len;
            }
        }
        // The load drops the originals, which frees their slots.
    }
}

/// Items of an area that were consecutive in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LoadedRun {
    /// The order of the items among all items of the input; 0 unless the job is ordered.
    pub(crate) position: u64,
    /// The offset of the items in the area.
    pub(crate) at: usize,
    pub(crate) len_bytes: usize,
    /// Number of items; 0 unless the job is ordered.
    pub(crate) count: u32,
}

impl Load {
    /// All items in the area, in the order of the input if it is known, and the end of all. The
    /// parts of a long item are consecutive.
    pub(crate) fn runs(&self) -> (Vec<LoadedRun>, usize) {
        let mut places = vec![0; self.segments.len()];
        let mut end = self.loaded_to;
        for &(number, offset) in &self.offsets {
            places[number] = offset;
            end = end.max(offset + self.segments[number].payload_bytes as usize);
        }
        let mut runs: Vec<LoadedRun> = Vec::with_capacity(self.segments.len());
        let mut is_inside = false;
        for (&from, segment) in places.iter().zip(&self.segments) {
            let payload_bytes = segment.payload_bytes as usize;
            let was_inside = std::mem::replace(&mut is_inside, segment.is_continued);
            if let Some(long) = runs.last_mut().filter(|_| was_inside) {
                long.len_bytes += payload_bytes;
                continue;
            }
            if segment.input_runs.is_empty() {
                runs.push(LoadedRun {
                    position: 0,
                    at: from,
                    len_bytes: payload_bytes,
                    count: 0,
                });
            }
            let mut at = from;
            for run in &segment.input_runs {
                let len_bytes = run.bytes as usize;
                runs.push(LoadedRun {
                    position: run.position,
                    at,
                    len_bytes,
                    count: run.count,
                });
                at += len_bytes;
            }
        }
        runs.sort_unstable();
        (runs, end)
    }
}

/// End of the run of segments that are adjacent on scratch, in whole blocks, from `from`.
fn run_end(on_scratch: &[(bool, u16, u64, usize)], from: usize, segments: &[Segment]) -> usize {
    let (_, log, offset, number) = on_scratch[from];
    let mut next_offset = offset + segments[number].stored_bytes() as u64;
    let mut to = from + 1;
    while let Some(&(is_short, next_log, offset, number)) = on_scratch.get(to) {
        let len = segments[number].stored_bytes() as u64;
        let fits = next_offset + len - on_scratch[from].2 <= READ_BYTES_MAX as u64;
        if is_short || next_log != log || offset != next_offset || !fits {
            break;
        }
        next_offset += len;
        to += 1;
    }
    to
}
