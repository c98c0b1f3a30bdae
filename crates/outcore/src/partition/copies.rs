//! The end of a distribution in a job with a journal: copies, on scratch, of the segments left in
//! memory.
//!
//! Contract: the segments that a distribution leaves in memory stay there for the running job. If
//! they are small ([`Checkpoints::copies`]), their copies go to scratch, so that a run that
//! continues this one does not read the input again. Either all segments have a copy or none: a
//! drive that is full ends the copying, and is no error.
//!
//! Bounds: as many writes in flight as those of a worker; an address and a checksum per copy.
//!
//! [`Checkpoints::copies`]: super::checkpoint::Checkpoints::copies

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::Partition;
use super::bucket::{Bucket, Location, Out, ScratchCopy, Segment, segment_checksum};
use super::checkpoint::Checkpoints;
use super::restored::KeptKind;
use super::spill::band_of;
use outcore_io::memory::Buf;
use outcore_io::transfers::Transfers;
use outcore_io::{Kind, Result};

/// The longest item that is recorded for a part whose items are all equal and only counted.
const COPIED_ITEM_BYTES_MAX: usize = 8 << 10;

/// Records the segments of all threads in the journal, if there is one. The record counts after the
/// next commit.
///
/// # Errors
/// The device's error.
pub(crate) fn record_distributed(
    partition: &Partition<'_>,
    mut workers: Vec<&mut [Out]>,
) -> Result<()> {
    let Some(checkpoints) = &partition.checkpoints else {
        return Ok(());
    };
    if let Some(scratch) = partition.scratch.made() {
        let mut shares = Vec::new();
        for outs in &mut workers {
            let buckets_count = outs.len();
            let outs = outs.iter_mut().enumerate();
            let segments = outs.flat_map(|(bucket, out)| {
                let band = band_of(bucket, buckets_count, scratch);
                let segments = out.segments.iter_mut();
                segments.map(move |segment| InMemory { segment, band })
            });
            shares.push(segments.filter(InMemory::is_it).collect());
        }
        copy(partition, checkpoints, shares)?;
    }
    for (thread, outs) in workers.iter().enumerate() {
        checkpoints.record_moved(thread, outs)?;
        checkpoints.record_copies(thread, outs)?;
    }
    Ok(())
}

/// Records the `parts` of a bucket that was distributed again, unless they need too many copies;
/// returns whether it recorded them.
///
/// # Errors
/// The device's error.
pub(super) fn record_split<K: KeptKind>(
    partition: &Partition<'_>,
    bucket: usize,
    parts: &mut [Bucket<K>],
) -> Result<bool> {
    let Some(checkpoints) = &partition.checkpoints else {
        return Ok(false);
    };
    let is_long = |part: &Bucket<K>| {
        let item = part.copies_of.as_ref();
        item.is_some_and(|item| item.len() > COPIED_ITEM_BYTES_MAX)
    };
    if parts.iter().any(is_long) {
        return Ok(false);
    }
    let band = partition.scratch()?.bands() - 1;
    let threads_count = partition.thread_group.threads();
    let mut shares: Vec<Vec<InMemory<'_>>> = (0..threads_count).map(|_| Vec::new()).collect();
    let segments = parts.iter_mut().flat_map(|part| &mut part.segments);
    let in_memory = segments.map(|segment| InMemory { segment, band });
    for (number, segment) in in_memory.filter(InMemory::is_it).enumerate() {
        shares[number % threads_count].push(segment);
    }
    if !copy(partition, checkpoints, shares)? {
        return Ok(false);
    }
    checkpoints.record_split(bucket, parts)?;
    Ok(true)
}

/// A segment in memory, and the band for its copy.
struct InMemory<'s> {
    segment: &'s mut Segment,
    band: usize,
}

impl InMemory<'_> {
    /// Whether the segment is in memory only.
    fn is_it(&self) -> bool {
        matches!(self.segment.location, Location::Memory { copy: None, .. })
    }
}

/// Copies segments to scratch, each thread its own, if they are small. Returns whether all of them
/// have a copy now.
fn copy(
    partition: &Partition<'_>,
    checkpoints: &Checkpoints<'_>,
    shares: Vec<Vec<InMemory<'_>>>,
) -> Result<bool> {
    let segments = shares.iter().flatten();
    let bytes: u64 = segments
        .map(|left| left.segment.stored_bytes() as u64)
        .sum();
    if bytes == 0 || !checkpoints.copies(bytes) {
        return Ok(bytes == 0);
    }
    let is_full = AtomicBool::new(false);
    let cells: Vec<_> = shares.into_iter().map(Mutex::new).collect();
    partition.on_all_threads(|thread| {
        let Some(cell) = cells.get(thread) else {
            return Ok(());
        };
        let mut segments = cell.lock().unwrap_or_else(PoisonError::into_inner);
        Copying {
            partition,
            writes: Transfers::new(partition.volume)?,
            is_full: &is_full,
        }
        .copy_each(&mut segments)
    })?;
    if !is_full.into_inner() {
        return Ok(true);
    }
    let scratch = partition.scratch()?;
    for cell in cells {
        let segments = cell.into_inner().unwrap_or_else(PoisonError::into_inner);
        for InMemory { segment, .. } in segments {
            if let Location::Memory { copy, .. } = &mut segment.location
                && let Some(copy) = copy.take()
            {
                scratch.forget(copy.address);
            }
        }
    }
    Ok(false)
}

/// One thread's copying.
struct Copying<'a> {
    partition: &'a Partition<'a>,
    writes: Transfers<Copied>,
    /// Whether any thread has found a drive full.
    is_full: &'a AtomicBool,
}

/// A segment that is being copied.
struct Copied {
    number: usize,
    copy: ScratchCopy,
    /// The rest of its buffer, after the part that is written.
    rest: Buf,
}

impl Copying<'_> {
    fn copy_each(&mut self, segments: &mut [InMemory<'_>]) -> Result<()> {
        let in_flight_max = self.partition.sizes.writes_in_flight.max(1);
        for number in 0..segments.len() {
            if self.is_full.load(Ordering::Acquire) {
                break;
            }
            self.settle_to(in_flight_max - 1, segments)?;
            self.start(number, segments)?;
        }
        self.settle_to(0, segments)
    }

    /// Starts the copy of a segment.
    fn start(&mut self, number: usize, segments: &mut [InMemory<'_>]) -> Result<()> {
        let partition = self.partition;
        let scratch = partition.scratch()?;
        let InMemory { segment, band } = &mut segments[number];
        let payload_bytes = segment.payload_bytes as usize;
        let stored_bytes = segment.stored_bytes();
        let address = match scratch.allocate(stored_bytes as u64, *band, self.writes.port()) {
            Ok(address) => address,
            Err(error) if error.kind() == Kind::NoSpace => {
                self.is_full.store(true, Ordering::Release);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let place = Location::Scratch {
            address,
            checksum: 0,
        };
        let Location::Memory { mut buf, .. } = std::mem::replace(&mut segment.location, place)
        else {
            return Ok(());
        };
        let checksum = segment_checksum(partition.run, address, &buf[..payload_bytes]);
        let written = buf.split_to(stored_bytes);
        let copied = Copied {
            number,
            copy: ScratchCopy { address, checksum },
            rest: buf,
        };
        scratch.expect_read(address);
        let file = scratch.file(address);
        self.writes
            .write(file, address.offset_bytes, written, copied);
        self.writes.start()
    }

    /// Takes back writes until at most `left` are in flight.
    fn settle_to(&mut self, left: usize, segments: &mut [InMemory<'_>]) -> Result<()> {
        let partition = self.partition;
        while self.writes.len() > left {
            let came = self.writes.any_or_fault(|| partition.check())?;
            let Some((copied, transfer)) = came else {
                return Ok(());
            };
            match &transfer.fault {
                Some(fault) if fault.errno == Errno::NOSPC.raw_os_error() => {
                    self.is_full.store(true, Ordering::Release);
                }
                Some(fault) => return Err(partition.volume.explain(fault)),
                None => {}
            }
            let mut buf = transfer.buf;
            buf.join(copied.rest);
            let copy = Some(Box::new(copied.copy));
            segments[copied.number].segment.location = Location::Memory { buf, copy };
        }
        Ok(())
    }
}
