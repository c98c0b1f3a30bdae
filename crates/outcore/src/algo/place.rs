//! From a sorted leaf to its place in the output: turns, file borders, pipes, gathering.
//!
//! Contract: [`Turns`] lets leaves place their output in order where the place depends on the leaves
//! before (`--unique`, pipes). The functions move bytes of one leaf: in place over the borders of
//! output files, by reference into a chunk, or to a pipe. No allocation but the last record kept.

use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::in_memory::Entry;
use super::partition::classify::Key;
use super::partition::crew::Crew;
use crate::error::{Error, Result};
use crate::memory::{BLOCK_BYTES, Buf};
use crate::stream::writer::Writer;
use crate::volume::Port;

/// Leaves in order: who may place output now, and what was placed before.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<Placed>,
    changed: Condvar,
}

/// What has been placed by the leaves so far.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    /// Leaf whose turn it is.
    turn: usize,
    /// Elements placed.
    pub(crate) count: u64,
    /// The last of them, kept for `--unique`.
    pub(super) last: Option<Box<[u8]>>,
}

impl Turns {
    pub(crate) fn placed(&self) -> MutexGuard<'_, Placed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is the turn of leaf `index`.
    pub(crate) fn wait_for(&self, index: usize, crew: &Crew<'_>) -> Result<MutexGuard<'_, Placed>> {
        let mut placed = self.placed();
        while placed.turn != index {
            crew.check()?;
            let waited = self.changed.wait_timeout(placed, Duration::from_millis(50));
            placed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(placed)
    }

    pub(crate) fn pass_on(&self, mut placed: MutexGuard<'_, Placed>) {
        placed.turn += 1;
        drop(placed);
        self.changed.notify_all();
    }
}

/// Writes `area[start..start + total]` at output byte `at_bytes`, over file borders. A piece that
/// ends inside a block leaves the block's room in the area to the next file's piece, which is moved
/// there by less than a block to be laid out like that file: however many borders there are, the
/// area is long enough.
pub(super) fn write_in_place(
    writer: &Writer,
    port: &mut Port,
    mut area: Buf,
    start: usize,
    total: usize,
    at_bytes: u64,
) -> Result<()> {
    let (mut start, mut left, mut at_bytes) = (start, total, at_bytes);
    while left > 0 {
        let room = writer.room(at_bytes);
        let len = left.min(usize::try_from(room).unwrap_or(usize::MAX));
        if len == 0 || len == left {
            return writer.write(port, area, start, left, at_bytes);
        }
        let whole_end = (start + len) / BLOCK_BYTES * BLOCK_BYTES;
        let mut end = start + len;
        if whole_end > start {
            let front = area.split_to(whole_end);
            let whole = whole_end - start;
            writer.write(port, front, start, whole, at_bytes)?;
            writer.write_edge_of(port, &area[..end - whole_end], at_bytes + whole as u64)?;
            end -= whole_end;
        } else {
            writer.write_edge_of(port, &area[start..end], at_bytes)?;
        }
        left -= len;
        at_bytes += len as u64;
        start = writer.phase(at_bytes);
        area.copy_within(end..end + left, start);
    }
    Ok(())
}

pub(crate) fn write_pipe(pipe: &Mutex<Box<dyn Write + Send>>, bytes: &[u8]) -> Result<()> {
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write_all(bytes)
        .map_err(|e| Error::io("write to the pipe", &e))
}

/// Fills `out` with records in order, from byte `next.1` of entry `next.0`; gives where it ended.
pub(super) fn gather(
    area: &[u8],
    entries: &[Entry],
    element_bytes: usize,
    next: (usize, usize),
    out: &mut [u8],
) -> (usize, usize) {
    let (mut entry, mut offset) = next;
    let mut filled = 0;
    while filled < out.len() {
        let len = (element_bytes - offset).min(out.len() - filled);
        let from = entries[entry].at_bytes as usize + offset;
        out[filled..filled + len].copy_from_slice(&area[from..from + len]);
        filled += len;
        offset += len;
        if offset == element_bytes {
            entry += 1;
            offset = 0;
        }
    }
    (entry, offset)
}

/// Keeps one of each run of equal keys at the front; gives their number.
pub(super) fn dedup<K: Key>(keys: &mut [K]) -> usize {
    let mut kept = 0;
    for index in 0..keys.len() {
        if kept == 0 || keys[index] != keys[kept - 1] {
            keys[kept] = keys[index];
            kept += 1;
        }
    }
    kept
}
