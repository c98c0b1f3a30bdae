//! Writes merged records to a stream, in order, with one thread or several.
//!
//! Contract: [`SortedView::copy_to`] writes a range while it is merged. Short records take longer
//! to merge than to write, so several threads merge. Each takes every n-th *segment* of the range
//! and fills its own buffers, which hold a whole segment, while the segments before it are written.
//! The writing thread takes a segment from each thread in turn. The copy ends early if the reader
//! of the stream goes away.
//!
//! Bounds: the blocks at a segment's borders, which two threads read, and those that are read to
//! find them, are at most a hundredth of the segment. If memory has no room for such long segments,
//! one thread merges. Segments use at most half of the memory.

use std::io::Write;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{SortedView, ViewReader};
use outcore_io::threads::spawn_scoped;
use outcore_io::{Error, Kind, Result};

/// Size of a buffer, unless records are longer.
const BUFFER_BYTES: usize = 1 << 20;
/// Buffers of a thread that merges alone.
const BUFFERS: usize = 4;
/// Longer records are merged by one thread: copying them costs more than comparing their keys, and
/// several threads do not copy faster.
const SHORT_RECORD_BYTES: usize = 256;
/// Smallest number of blocks of each run per segment: the blocks at both ends are read twice.
const SEGMENT_BLOCKS: u64 = 250;

/// How a range is copied.
struct CopyPlan {
    /// Number of merging threads.
    threads: usize,
    /// Units per segment.
    segment_units: u64,
    /// Buffers per thread.
    buffers: usize,
    /// The size of a buffer.
    buffer_bytes: usize,
}

/// The error for a failed write to a pipe.
pub(super) fn write_error(error: &std::io::Error) -> Error {
    Error::io("write output", error)
}

/// A full buffer, or an error.
type Full = Result<Vec<u8>>;

impl SortedView {
    /// Writes the records of `range` to a stream, in order, while the next ones are merged.
    ///
    /// # Errors
    /// The errors of reading the view and of writing the stream.
    pub fn copy_to(&self, range: Range<u64>, out: &mut (dyn Write + Send)) -> Result<()> {
        self.copy_units(self.units_of(range)?, out)
    }

    /// Like `copy_to`, for a range of units.
    pub(super) fn copy_units(&self, range: Range<u64>, out: &mut (dyn Write + Send)) -> Result<()> {
        let plan = self.plan(&range);
        let memory_bytes = (plan.threads * plan.buffers * plan.buffer_bytes) as u64;
        let _reservation = self.job.budget.reserve("merged records", memory_bytes)?;
        let reader_bytes = self.reader_bytes(plan.threads);
        std::thread::scope(|scope| {
            let mut ways = Vec::with_capacity(plan.threads);
            let mut merging = Vec::with_capacity(plan.threads);
            for thread in 0..plan.threads {
                // Both channels have room for all buffers, so a thread only waits for buffers.
                let (full, to_write) = sync_channel::<Full>(plan.buffers + 1);
                let (written, empty) = sync_channel::<Vec<u8>>(plan.buffers);
                for _ in 0..plan.buffers {
                    let _ = written.send(Vec::new());
                }
                ways.push((to_write, written));
                let (plan, range) = (&plan, range.clone());
                let name = format!("outcore-merge{} of {}", thread + 1, plan.threads);
                // An early end drops the channels, which ends all merging threads.
                merging.push(spawn_scoped(scope, &name, move || {
                    let merged =
                        self.merge_segments(plan, thread, range, reader_bytes, &full, &empty);
                    if let Err(error) = merged {
                        // The receiver may be gone.
                        let _ = full.send(Err(error));
                    }
                })?);
            }
            let wrote = self.write_segments(&plan, range, &ways, out);
            // Threads that still merge find their channels closed.
            drop(ways);
            for thread in merging {
                thread.join().map_err(|_| {
                    Error::new(Kind::Io, "merge", "a thread panicked")
                        .hint("a bug: please report it")
                })?;
            }
            wrote?;
            out.flush().map_err(|error| write_error(&error))
        })
    }

    fn plan(&self, range: &Range<u64>) -> CopyPlan {
        let record_bytes = self.unit_bytes();
        let buffer_bytes = BUFFER_BYTES.max(record_bytes) / record_bytes * record_bytes;
        let alone = CopyPlan {
            threads: 1,
            segment_units: u64::MAX,
            buffers: BUFFERS,
            buffer_bytes,
        };
        if record_bytes > SHORT_RECORD_BYTES {
            return alone;
        }
        let shape = &self.set.shape;
        let read_twice_bytes = self.set.runs.len() as u64 * shape.block_bytes() as u64;
        let room_bytes = self.reader_bytes(1) / 2;
        let data_bytes = (range.end - range.start) * record_bytes as u64;
        for threads in (2..=self.readers_that_fit(self.job.options.threads)).rev() {
            let share_bytes = room_bytes / threads as u64;
            let readers_bytes = self.needed_bytes() * threads as u64;
            let segment_bytes = share_bytes.min(data_bytes / threads as u64);
            let segment_bytes = segment_bytes / buffer_bytes as u64 * buffer_bytes as u64;
            let is_long = segment_bytes >= (SEGMENT_BLOCKS * read_twice_bytes).max(1);
            if is_long && readers_bytes <= room_bytes / 2 {
                return CopyPlan {
                    threads,
                    segment_units: segment_bytes / record_bytes as u64,
                    // One more buffer, so that the next segment can begin.
                    buffers: (segment_bytes / buffer_bytes as u64) as usize + 1,
                    buffer_bytes,
                };
            }
        }
        alone
    }

    /// Writes the results of the threads, segment by segment.
    fn write_segments(
        &self,
        plan: &CopyPlan,
        range: Range<u64>,
        ways: &[(Receiver<Full>, SyncSender<Vec<u8>>)],
        out: &mut (dyn Write + Send),
    ) -> Result<()> {
        for (number, segment) in segments(range, plan).enumerate() {
            let (to_write, written) = &ways[number % plan.threads];
            let mut left = segment.end - segment.start;
            while left > 0 {
                let buffer = to_write.recv().unwrap_or_else(|_| {
                    Err(Error::new(Kind::Io, "merge", "a thread ended")
                        .hint("a bug: please report it"))
                })?;
                out.write_all(&buffer)
                    .map_err(|error| write_error(&error))?;
                left -= (buffer.len() / self.unit_bytes()) as u64;
                // The thread may have ended.
                let _ = written.send(buffer);
            }
        }
        Ok(())
    }

    /// Body of one thread: merges every n-th segment into the buffers that are returned empty.
    fn merge_segments(
        &self,
        plan: &CopyPlan,
        thread: usize,
        range: Range<u64>,
        reader_bytes: u64,
        full: &SyncSender<Full>,
        empty: &Receiver<Vec<u8>>,
    ) -> Result<()> {
        let mut reader: Option<ViewReader> = None;
        for segment in segments(range, plan).skip(thread).step_by(plan.threads) {
            let reader = match &mut reader {
                Some(reader) => reader,
                none => none.insert(self.reader(reader_bytes)?),
            };
            let mut left = segment.end - segment.start;
            reader.seek_units(segment)?;
            while left > 0 {
                let Ok(mut buffer) = empty.recv() else {
                    return Ok(());
                };
                self.job.control.check()?;
                buffer.resize(plan.buffer_bytes, 0);
                let len = reader.read(&mut buffer)?;
                buffer.truncate(len);
                left -= (len / self.unit_bytes()) as u64;
                if full.send(Ok(buffer)).is_err() {
                    return Ok(());
                }
                self.job.control.advance(len as u64);
                self.job.control.watch(&self.set.volume);
            }
        }
        Ok(())
    }
}

/// The segments of a range, in order.
fn segments(range: Range<u64>, plan: &CopyPlan) -> impl Iterator<Item = Range<u64>> + use<> {
    let step = plan.segment_units.max(1);
    let mut next = range.start;
    std::iter::from_fn(move || {
        let start = next;
        next = start.saturating_add(step).min(range.end);
        (start < range.end).then_some(start..next)
    })
}
