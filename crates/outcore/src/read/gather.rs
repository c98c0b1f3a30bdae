//! Random reader: many small reads by position, sorted, merged and deduplicated, at full depth.
//!
//! Contract (PALID, SPAA 2025, section 3, random reader): positions of elements, in any order and
//! with repeats, become *runs*: reads of whole blocks, each of which serves all positions in it.
//! Blocks that are close together are one read. [`GatherPlan`] is pure. A [`Gatherer`] is one
//! thread's part of the reads. It takes runs from the drive with the fewest requests, and keeps as
//! many in flight on each drive as a port allows. So no block is read twice, and each drive
//! receives its reads in ascending order.
//!
//! Bounds: I/O is at most one block per position; memory is the plan (24 bytes per position) and a
//! window of slots per thread.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::by_drive::ByDrive;
use super::source::{InputPart, became_shorter};
use outcore_io::memory::{BLOCK_BYTES, Budget, Pool, block_ceil, block_floor};
use outcore_io::port::{LANE_DEPTH, Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::{Error, Result, units};

/// Blocks with at most this gap between them are read together.
const GAP_BYTES: u64 = 4 << 10;
/// Longest run; a run for a longer element is exactly that element's blocks.
const RUN_BYTES_MAX: u64 = 32 << 10;
/// Runs that a thread takes at a time.
const RUNS_AT_ONCE: usize = 8;

/// One read, and the wanted positions that it serves.
#[derive(Debug, Clone, Copy)]
struct Run {
    part: u32,
    /// The first of these positions, and the one after the last.
    from: usize,
    to: usize,
    at_bytes: u64,
    len_bytes: usize,
}

/// Which reads serve which positions.
#[derive(Debug)]
pub(crate) struct GatherPlan<'a> {
    parts: &'a [InputPart],
    element_bytes: usize,
    /// (position, index in the result), by position.
    wanted: Vec<(u64, usize)>,
    /// Runs that no thread has taken, ascending on each drive.
    left: Mutex<ByDrive<Run>>,
    reads: usize,
    drives: usize,
    slot_bytes: usize,
    read_bytes: u64,
}

impl<'a> GatherPlan<'a> {
    /// Bytes of memory for a plan of `count` positions.
    pub(crate) const fn memory_bytes(count: usize) -> u64 {
        (count * (size_of::<(u64, usize)>() + size_of::<Run>())) as u64
    }

    /// A plan to read the elements at `positions` of `parts`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for a position beyond the end.
    pub(crate) fn new(
        parts: &'a [InputPart],
        element_bytes: usize,
        positions: impl Iterator<Item = u64>,
    ) -> Result<Self> {
        let mut wanted: Vec<(u64, usize)> = positions
            .enumerate()
            .map(|(place, position)| (position, place))
            .collect();
        wanted.sort_unstable();
        let element = element_bytes as u64;
        let count: u64 = parts.iter().map(|part| part.data_len_bytes / element).sum();
        if let Some((position, place)) = wanted.last().filter(|(last, _)| *last >= count) {
            let cause = format!(
                "position {position}, entry {place} of the positions, is past the last record"
            );
            return Err(Error::usage("gather", cause).hint(format!(
                "positions count from 0, but the input has only {}",
                units::counted(count, "record")
            )));
        }
        let mut drives: Vec<(usize, Vec<Run>)> = Vec::new();
        let mut slot_bytes = BLOCK_BYTES;
        let mut part_index = 0;
        for (index, (position, _)) in wanted.iter().enumerate() {
            let end = |part: &InputPart| part.first_position + part.data_len_bytes / element;
            while *position >= end(&parts[part_index]) {
                part_index += 1;
            }
            let part = &parts[part_index];
            let from = part.data_at_bytes + (position - part.first_position) * element;
            let (at_bytes, end_bytes) = (block_floor(from), block_ceil(from + element));
            let drive = part.file.drive_index;
            let known = drives.iter().position(|(known, _)| *known == drive);
            let known = known.unwrap_or_else(|| {
                drives.push((drive, Vec::new()));
                drives.len() - 1
            });
            let runs = &mut drives[known].1;
            if let Some(last) = runs.last_mut()
                && last.part as usize == part_index
                && at_bytes <= last.at_bytes + last.len_bytes as u64 + GAP_BYTES
                && end_bytes.max(last.at_bytes + last.len_bytes as u64) - last.at_bytes
                    <= RUN_BYTES_MAX.max(last.len_bytes as u64)
            {
                last.to = index + 1;
                let len_bytes = (end_bytes - last.at_bytes) as usize;
                last.len_bytes = last.len_bytes.max(len_bytes);
                slot_bytes = slot_bytes.max(last.len_bytes);
                continue;
            }
            let len_bytes = (end_bytes - at_bytes) as usize;
            slot_bytes = slot_bytes.max(len_bytes);
            runs.push(Run {
                part: part_index as u32,
                from: index,
                to: index + 1,
                at_bytes,
                len_bytes,
            });
        }
        let of_drive =
            |(drive, runs): (usize, Vec<Run>)| runs.into_iter().map(move |run| (drive, run));
        let lens_bytes = |(_, runs): &(usize, Vec<Run>)| -> u64 {
            runs.iter().map(|run| run.len_bytes as u64).sum()
        };
        Ok(GatherPlan {
            parts,
            element_bytes,
            wanted,
            reads: drives.iter().map(|(_, runs)| runs.len()).sum(),
            drives: drives.len(),
            read_bytes: drives.iter().map(lens_bytes).sum(),
            left: Mutex::new(ByDrive::of(drives.into_iter().flat_map(of_drive))),
            slot_bytes,
        })
    }

    /// Number of reads.
    pub(crate) fn reads(&self) -> usize {
        self.reads
    }

    /// Bytes of all reads.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Takes some runs of the drive with the fewest requests of `port`, if any are left.
    fn take(&self, port: &Port, runs: &mut VecDeque<Run>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_drive) = left.next(port) {
            let count = RUNS_AT_ONCE.min(of_drive.len());
            runs.extend(of_drive.drain(..count));
        }
    }

    /// Passes the elements of a read to `found`.
    fn serve(
        &self,
        read: &Arrival<Run>,
        found: &mut impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (run, element_bytes) = (&read.what, self.element_bytes);
        let part = &self.parts[run.part as usize];
        for (position, place) in &self.wanted[run.from..run.to] {
            let at = part.data_at_bytes + (position - part.first_position) * element_bytes as u64;
            let from = (at - run.at_bytes) as usize;
            if from + element_bytes > read.len_bytes {
                return Err(became_shorter(part, at));
            }
            found(*place, &read.buf[from..from + element_bytes])?;
        }
        Ok(())
    }
}

/// One thread that reads runs of a plan.
pub(crate) struct Gatherer<'a> {
    plan: &'a GatherPlan<'a>,
    reads: Transfers<Run>,
    pool: Pool,
}

impl<'a> Gatherer<'a> {
    /// A reader with as many slots as a port keeps in flight, or as many as fit in `memory_bytes`.
    ///
    /// # Errors
    /// [`crate::Kind::Memory`] if there is no room for two slots.
    pub(crate) fn new(
        plan: &'a GatherPlan<'a>,
        volume: &Volume,
        budget: &Budget,
        memory_bytes: u64,
    ) -> Result<Self> {
        let wanted = (LANE_DEPTH * plan.drives.max(1)) as u64;
        let slots = (memory_bytes / plan.slot_bytes as u64).clamp(2, wanted) as usize;
        Ok(Gatherer {
            plan,
            reads: Transfers::new(volume)?,
            pool: Pool::new(budget, "random reads", plan.slot_bytes, slots)?,
        })
    }

    /// Reads until nothing is left, and passes the index in the result and the bytes of each
    /// element to `found`. `check` decides when to stop.
    ///
    /// # Errors
    /// The errors of reading, `check` and `found`; [`crate::Kind::Corrupt`] for a file that became
    /// shorter.
    pub(crate) fn run(
        &mut self,
        check: impl Fn() -> Result<()>,
        mut found: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let plan = self.plan;
        let mut runs = VecDeque::new();
        let next = |port: &Port| {
            if runs.is_empty() {
                plan.take(port, &mut runs);
            }
            let run = runs.pop_front()?;
            Some(ReadRange {
                file: &plan.parts[run.part as usize].file,
                at_bytes: run.at_bytes,
                len_bytes: run.len_bytes,
                what: run,
            })
        };
        let take = |read: Arrival<Run>| plan.serve(&read, &mut found);
        self.reads.read_each(&self.pool, check, next, take)
    }
}
