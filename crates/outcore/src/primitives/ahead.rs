//! Early results: kept in memory until those of all lanes before them are placed.
//!
//! Contract: a [`LaneResults`] receives the results of its pieces in order. It holds them until the
//! lane is in *front*. The thread that brings the lane to the front places the held results, buffer
//! by buffer; after that the lane places results directly. The code that claims pieces ensures that
//! there is room ([`super::pieces::Ahead`]), so holding never waits.
//!
//! Therefore, drives with later parts of a sequence are read in parallel with drives of earlier
//! parts, as far as memory allows. This holds even if one file takes all results in order. Beyond
//! that, no method with a single read can do better, because the place of an item depends on all
//! items before it.
//!
//! Bounds: the pool of the hold, made of the memory that the pass leaves.

use super::pass::Pass;
use super::pieces::Ahead;
use outcore_io::memory::{Buf, Pool, block_ceil};
use outcore_io::{Error, Kind, Result};

/// Length of a buffer of the hold.
const HOLD_BYTES: u64 = 256 << 10;

/// Consecutive results that go to one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) out: usize,
    pub(crate) start: usize,
    pub(crate) len_bytes: usize,
}

/// Results of consecutive pieces.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) buf: Buf,
    /// The outputs of the results, in the order in which `buf` holds them.
    pub(crate) runs: Vec<Run>,
}

impl Held {
    /// Bytes of results.
    pub(crate) fn len_bytes(&self) -> usize {
        self.runs.last().map_or(0, |run| run.start + run.len_bytes)
    }
}

/// The progress of a lane.
#[derive(Debug)]
pub(crate) struct LaneResults {
    /// Whether the lane places results directly in the outputs.
    pub(crate) is_in_front: bool,
    /// The number of the lane's pieces, and the number of pieces placed or held.
    pub(crate) pieces: u64,
    pub(crate) placed: u64,
    /// The held results, in order.
    pub(crate) held: Vec<Held>,
}

/// The room for held results.
#[derive(Debug)]
pub(crate) struct Hold {
    pool: Pool,
    /// Bytes of a buffer that whole items can fill.
    usable_bytes: usize,
    item_bytes: usize,
}

impl Hold {
    /// A hold with as much room as `pass` has left, for items of `item_bytes`; `None` if no pass
    /// would use it.
    pub(crate) fn new(pass: &Pass<'_>, item_bytes: usize) -> Result<Option<Self>> {
        let slot_bytes = block_ceil(HOLD_BYTES.max(item_bytes as u64));
        let spare_bytes = pass.sizes.spare_bytes.min(pass.job.budget.free_bytes());
        let slots = spare_bytes / 8 * 7 / slot_bytes;
        let is_of_use = pass.pieces.is_in_order() && pass.pieces.lanes() > 1 && slots > 1;
        if !is_of_use {
            return Ok(None);
        }
        let usable_bytes = slot_bytes as usize / item_bytes * item_bytes;
        let budget = &pass.job.budget;
        let pool = Pool::new(
            budget,
            "results held back",
            slot_bytes as usize,
            slots as usize,
        )?;
        pass.pieces.read_ahead(Ahead {
            // A lane that comes to the front may start a buffer while its last one is being
            // emptied.
            free_bytes: (slots - 1) * usable_bytes as u64,
            piece_bytes: pass.sizes.items * item_bytes as u64,
            // The last buffer may be nearly empty.
            lane_bytes: usable_bytes as u64,
        });
        Ok(Some(Hold {
            pool,
            usable_bytes,
            item_bytes,
        }))
    }

    /// Holds whole `items` for output `out`.
    pub(crate) fn keep(&self, lane: &mut LaneResults, out: usize, items: &[u8]) -> Result<()> {
        let mut left = items;
        while !left.is_empty() {
            let full = lane.held.last().map_or(self.usable_bytes, Held::len_bytes);
            if full == self.usable_bytes {
                let buf = self.pool.take().ok_or_else(no_room)?;
                let runs = Vec::new();
                lane.held.push(Held { buf, runs });
                continue;
            }
            let Some(held) = lane.held.last_mut() else {
                return Err(no_room());
            };
            let room = self.usable_bytes - full;
            debug_assert!(room.is_multiple_of(self.item_bytes));
            let (front, behind) = left.split_at(left.len().min(room));
            held.buf[full..full + front.len()].copy_from_slice(front);
            match held.runs.last_mut() {
                Some(run) if run.out == out => run.len_bytes += front.len(),
                _ => held.runs.push(Run {
                    out,
                    start: full,
                    len_bytes: front.len(),
                }),
            }
            left = behind;
        }
        Ok(())
    }
}

fn no_room() -> Error {
    Error::new(Kind::Memory, "hold results back", "the pool is empty").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}
