//! Reads blocks of runs into memory, for one thread.
//!
//! Contract: [`Fetcher::fetch`] starts to read a stretch of blocks into a slot of its pool.
//! [`Fetcher::take_arrived`] returns arrived stretches as [`RunBlocks`]s, in any order. Blocks of a
//! run that is still in memory since its sort are copied instead. [`RunBlocks`]s that were read
//! must be checked ([`Fetcher::check`]) before their records are used. A failed or short read is an
//! error with run, drive and offset.
//!
//! Memory: the pool, and a description of each stretch in flight. A block that exceeds a slot
//! because it contains a long line uses separate memory from the job's budget as long as it exists.

use std::sync::Arc;

use super::run_set::{RunSet, Stretch};
use crate::job::{Control, Job};
use outcore_io::memory::{BLOCK_BYTES, Budget, Buf, Pool, block_ceil};
use outcore_io::transfers::Transfers;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Blocks of a run in memory.
#[derive(Debug)]
pub(super) struct RunBlocks {
    pub(super) stretch: Stretch,
    buf: Buf,
    is_checked: bool,
}

impl RunBlocks {
    /// The records.
    pub(super) fn payload(&self) -> &[u8] {
        let from = self.stretch.skip_bytes;
        &self.buf[from..from + self.stretch.payload_bytes]
    }

    pub(super) fn payload_mut(&mut self) -> &mut [u8] {
        let from = self.stretch.skip_bytes;
        &mut self.buf[from..from + self.stretch.payload_bytes]
    }
}

/// The name under which pieces of runs are reserved.
pub(super) const PIECES: &str = "pieces of runs";

/// One thread's access to the blocks.
pub(super) struct Fetcher {
    set: Arc<RunSet>,
    control: Arc<Control>,
    budget: Budget,
    reads: Transfers<Stretch>,
    pool: Pool,
    arrived: Vec<RunBlocks>,
    /// Blocks fetched so far.
    pub(super) blocks_fetched: u64,
}

impl Fetcher {
    pub(super) fn new(job: &Job, set: Arc<RunSet>, pool: Pool) -> Result<Self> {
        let reads = Transfers::new(&set.volume)?;
        Ok(Fetcher {
            set,
            control: Arc::clone(&job.control),
            budget: job.budget.clone(),
            reads,
            pool,
            arrived: Vec::new(),
            blocks_fetched: 0,
        })
    }

    /// Slots that are free.
    pub(super) fn free_slots(&self) -> usize {
        self.pool.free_slots()
    }

    /// Largest number of blocks of a run that fit in a slot.
    pub(super) fn blocks_max(&self) -> u64 {
        let shape = &self.set.shape;
        let slack_bytes = slack_bytes(shape.is_aligned());
        ((self.pool.slot_bytes() - slack_bytes) / shape.block_bytes()).max(1) as u64
    }

    /// A stretch of this many blocks, or of fewer, but at least one, so that it fits in a slot.
    pub(super) fn fit(&self, run: usize, first_block: u64, blocks: u64) -> Stretch {
        let mut blocks = blocks.max(1);
        loop {
            let stretch = self.set.stretch(run, first_block, blocks);
            if blocks == 1 || !self.is_long(&stretch) {
                return stretch;
            }
            blocks -= 1;
        }
    }

    /// Whether the stretch exceeds a slot.
    pub(super) fn is_long(&self, stretch: &Stretch) -> bool {
        stretch.read_len_bytes > self.pool.slot_bytes()
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.arrived.is_empty() && self.reads.is_empty()
    }

    fn take_slot(&self, stretch: &Stretch) -> Option<Buf> {
        match self.is_long(stretch) {
            false => self.pool.take(),
            true => {
                let len_bytes = stretch.read_len_bytes;
                if block_ceil(len_bytes as u64) > self.budget.left_bytes(PIECES) {
                    return None;
                }
                let own = Pool::try_new(&self.budget, PIECES, len_bytes, 1);
                own.ok()??.take()
            }
        }
    }

    /// The error for a stretch without memory.
    pub(super) fn no_room(&self, stretch: &Stretch) -> Error {
        let run = &self.set.runs[stretch.run];
        let hint = match self.is_long(stretch) {
            true => "allow more with --memory, or use fewer --threads",
            false => "a bug: please report it",
        };
        let cause = format!(
            "no room for a block of {} of run {}",
            units::bytes(stretch.payload_bytes as u64),
            run.number
        );
        Error::new(Kind::Memory, "read view", cause)
            .path(&run.file.path)
            .offset(stretch.read_at_bytes)
            .hint(hint)
    }

    /// Starts to fetch a stretch; false if no slot is free.
    pub(super) fn fetch(&mut self, stretch: Stretch) -> bool {
        let Some(mut slot) = self.take_slot(&stretch) else {
            return false;
        };
        self.blocks_fetched += stretch.blocks;
        let run = &self.set.runs[stretch.run];
        if let Some(resident) = &run.resident {
            let from = (stretch.read_at_bytes - run.base_bytes) as usize + stretch.skip_bytes;
            let records = &resident[from..from + stretch.payload_bytes];
            let mut piece = RunBlocks {
                stretch,
                buf: slot,
                is_checked: true,
            };
            piece.payload_mut().copy_from_slice(records);
            self.arrived.push(piece);
            return true;
        }
        let buf = slot.split_to(stretch.read_len_bytes);
        self.reads
            .read(&run.file, stretch.read_at_bytes, buf, stretch);
        true
    }

    /// Fails if the job is to stop.
    pub(super) fn check_stop(&self) -> Result<()> {
        self.control.check()
    }

    /// Starts requests and collects completed ones.
    pub(super) fn start(&mut self) -> Result<()> {
        self.control.check()?;
        self.reads.start()?;
        self.look()
    }

    /// Like `start`, but waits a short time if nothing has arrived.
    pub(super) fn wait(&mut self) -> Result<()> {
        if !self.arrived.is_empty() {
            return self.start();
        }
        self.control.check()?;
        self.reads.wait()?;
        self.look()
    }

    fn look(&mut self) -> Result<()> {
        while let Some(read) = self.reads.take()? {
            let stretch = read.what;
            if read.len_bytes < stretch.skip_bytes + stretch.payload_bytes {
                let end_bytes = stretch.read_at_bytes + read.len_bytes as u64;
                return Err(self.set.too_short(stretch.run, end_bytes));
            }
            self.arrived.push(RunBlocks {
                stretch,
                buf: read.buf,
                is_checked: false,
            });
        }
        Ok(())
    }

    /// The blocks that have arrived since the last call.
    pub(super) fn take_arrived(&mut self) -> std::vec::Drain<'_, RunBlocks> {
        self.arrived.drain(..)
    }

    /// Checks the blocks of a piece against the index, once.
    pub(super) fn check(&self, piece: &mut RunBlocks) -> Result<()> {
        if !piece.is_checked {
            self.set.check(&piece.stretch, piece.payload())?;
            piece.is_checked = true;
        }
        Ok(())
    }

    /// Waits for everything in flight and discards it.
    pub(super) fn drain(&mut self) -> Result<()> {
        self.reads.forget()?;
        self.arrived.clear();
        Ok(())
    }
}

/// Bytes of a slot for one block, or for `blocks`. Slots for lines also hold slightly longer
/// blocks.
pub(super) fn slot_bytes(set: &RunSet, blocks: usize) -> usize {
    let nominal_bytes = set.shape.block_bytes();
    let longest_bytes = set.longest_block_bytes().min(LONG_BLOCKS * nominal_bytes);
    let bytes = (blocks * nominal_bytes).max(longest_bytes) + slack_bytes(set.shape.is_aligned());
    // Rounded as by a pool, so that the plan matches the allocation.
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Blocks of lines longer than this many blocks are read into separate memory.
pub(super) const LONG_BLOCKS: usize = 2;

/// Room in a slot in addition to the blocks, for reads that are extended to 4 KiB boundaries.
pub(super) fn slack_bytes(is_aligned: bool) -> usize {
    match is_aligned {
        true => 0,
        false => 2 * BLOCK_BYTES,
    }
}
