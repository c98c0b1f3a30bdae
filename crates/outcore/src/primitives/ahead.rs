//! Results that came before their turn: kept in memory until those of all lanes before are placed.
//!
//! Contract: a [`LaneResults`] has the results of its pieces placed in order. Until it is in
//! *front* it holds them; who brings it to the front takes what it holds, piece by piece of memory,
//! and then lets it place for itself. Who claims pieces sees to it that there is room
//! ([`super::pieces::Ahead`]): holding never waits.
//!
//! So drives on which a sequence goes on are read while others still are, though one file takes all
//! in order: as far as the memory goes. Of data beyond it no way that reads once can do better,
//! since where an item goes depends on all before it.
//!
//! Bounds: the pool of the hold, which is made of what the pass leaves of the memory.

use super::pass::Pass;
use super::pieces::Ahead;
use outcore_io::memory::{Buf, Pool, block_ceil};
use outcore_io::{Error, Kind, Result};

/// Length of a piece of the hold.
const HOLD_BYTES: u64 = 256 << 10;

/// Neighbouring results that go to one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) out: usize,
    pub(crate) start: usize,
    pub(crate) len_bytes: usize,
}

/// Results of neighbouring pieces.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) buf: Buf,
    /// Where they go; they lie in `buf` one after another.
    pub(crate) runs: Vec<Run>,
}

impl Held {
    /// Bytes of results.
    pub(crate) fn len_bytes(&self) -> usize {
        self.runs.last().map_or(0, |run| run.start + run.len_bytes)
    }
}

/// How far a lane is placed.
#[derive(Debug)]
pub(crate) struct LaneResults {
    /// Whether it places results where they belong.
    pub(crate) is_in_front: bool,
    /// Its pieces, and how many of them are placed or held.
    pub(crate) pieces: u64,
    pub(crate) placed: u64,
    /// What it holds, in order.
    pub(crate) held: Vec<Held>,
}

/// The room for what is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pool: Pool,
    /// Bytes of a buffer that whole items can fill.
    usable_bytes: usize,
    item_bytes: usize,
}

impl Hold {
    /// As much room as `pass` has left, for items of `item_bytes`; nothing if nobody would use it.
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
            // A lane that comes to the front may begin a buffer while its last one is emptied.
            free_bytes: (slots - 1) * usable_bytes as u64,
            piece_bytes: pass.sizes.items * item_bytes as u64,
            // Its last buffer may be nearly empty.
            lane_bytes: usable_bytes as u64,
        });
        Ok(Some(Hold {
            pool,
            usable_bytes,
            item_bytes,
        }))
    }

    /// Keeps whole `items` that go to output `out`.
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
