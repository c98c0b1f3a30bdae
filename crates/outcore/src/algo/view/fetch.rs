//! Blocks of runs on their way into memory, for one thread.
//!
//! Contract: [`Fetcher::fetch`] starts to read a stretch of blocks into a slot of its pool; what has
//! come is handed out by [`Fetcher::take_arrived`] as [`Piece`]s, in any order. What a run still has
//! in memory since it was sorted is copied instead. [`Piece`]s that were read must be checked
//! ([`Fetcher::check`]) before their records are used. A failed or short read is an error that
//! names run, drive and offset.
//!
//! Memory: the pool, and a description of each stretch in flight.

use std::sync::Arc;

use super::runs::{RunSet, Stretch};
use crate::drive::Op;
use crate::error::Result;
use crate::job::Control;
use crate::memory::{BLOCK_BYTES, Buf, Pool};
use crate::volume::{Port, Transfer};

/// Blocks of a run in memory.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) stretch: Stretch,
    buf: Buf,
    is_checked: bool,
}

impl Piece {
    /// The records.
    pub(super) fn payload(&self) -> &[u8] {
        let from = self.stretch.skip_bytes;
        &self.buf[from..from + self.stretch.payload_bytes]
    }

    pub(super) fn payload_mut(&mut self) -> &mut [u8] {
        let from = self.stretch.skip_bytes;
        &mut self.buf[from..from + self.stretch.payload_bytes]
    }

    /// Whether it holds a block.
    pub(super) fn has_block(&self, block: u64) -> bool {
        let first = self.stretch.first_block;
        (first..first + self.stretch.blocks).contains(&block)
    }
}

/// One thread's way to the blocks.
pub(super) struct Fetcher {
    set: Arc<RunSet>,
    control: Arc<Control>,
    port: Port,
    pool: Pool,
    coming: Vec<Option<Stretch>>,
    finished: Vec<Transfer>,
    arrived: Vec<Piece>,
    /// Blocks fetched so far.
    pub(super) blocks_fetched: u64,
}

impl Fetcher {
    pub(super) fn new(set: Arc<RunSet>, control: Arc<Control>, pool: Pool) -> Result<Self> {
        let port = set.volume.port()?;
        Ok(Fetcher {
            set,
            control,
            port,
            pool,
            coming: Vec::new(),
            finished: Vec::new(),
            arrived: Vec::new(),
            blocks_fetched: 0,
        })
    }

    /// Slots that are free.
    pub(super) fn free_slots(&self) -> usize {
        self.pool.free_slots()
    }

    /// The most blocks of a run that fit a slot.
    pub(super) fn blocks_max(&self) -> u64 {
        let shape = &self.set.shape;
        let slack_bytes = slack_bytes(shape.is_aligned());
        ((self.pool.slot_bytes() - slack_bytes) / shape.block_bytes()).max(1) as u64
    }

    /// Starts to bring a stretch; false if no slot is free.
    pub(super) fn fetch(&mut self, stretch: Stretch) -> bool {
        let Some(mut slot) = self.pool.take() else {
            return false;
        };
        self.blocks_fetched += stretch.blocks;
        let run = &self.set.runs[stretch.run];
        if let Some(resident) = &run.resident {
            let from = (stretch.read_at_bytes - run.base_bytes) as usize + stretch.skip_bytes;
            let records = &resident[from..from + stretch.payload_bytes];
            let mut piece = Piece {
                stretch,
                buf: slot,
                is_checked: true,
            };
            piece.payload_mut().copy_from_slice(records);
            self.arrived.push(piece);
            return true;
        }
        let buf = slot.split_to(stretch.read_len_bytes);
        let free = self.coming.iter().position(Option::is_none);
        let token = free.unwrap_or_else(|| {
            self.coming.push(None);
            self.coming.len() - 1
        });
        self.coming[token] = Some(stretch);
        let at_bytes = stretch.read_at_bytes;
        self.port
            .submit(&run.file, Op::Read, at_bytes, buf, token as u64);
        true
    }

    /// Looks for what has come; with `wait`, waits for a moment if nothing is here.
    pub(super) fn poll(&mut self, wait: bool) -> Result<()> {
        self.control.check()?;
        let wait = wait && self.arrived.is_empty();
        self.port.poll(wait, &mut self.finished)?;
        for transfer in self.finished.drain(..) {
            let stretch = self
                .coming
                .get_mut(transfer.token as usize)
                .and_then(Option::take);
            let Some(stretch) = stretch else { continue };
            if let Some(fault) = transfer.fault {
                return Err(self.set.volume.explain(&fault));
            }
            if transfer.len_bytes < stretch.skip_bytes + stretch.payload_bytes {
                let end_bytes = stretch.read_at_bytes + transfer.len_bytes as u64;
                return Err(self.set.too_short(stretch.run, end_bytes));
            }
            self.arrived.push(Piece {
                stretch,
                buf: transfer.buf,
                is_checked: false,
            });
        }
        Ok(())
    }

    /// What has come since the last look.
    pub(super) fn take_arrived(&mut self) -> std::vec::Drain<'_, Piece> {
        self.arrived.drain(..)
    }

    /// Checks the blocks of a piece against the index, once.
    pub(super) fn check(&self, piece: &mut Piece) -> Result<()> {
        if !piece.is_checked {
            self.set.check(&piece.stretch, piece.payload())?;
            piece.is_checked = true;
        }
        Ok(())
    }

    /// Waits for all that is in flight and forgets it.
    pub(super) fn drain(&mut self) -> Result<()> {
        while self.port.in_flight() > 0 {
            self.finished.clear();
            self.port.poll(true, &mut self.finished)?;
        }
        self.finished.clear();
        self.coming.clear();
        self.arrived.clear();
        Ok(())
    }
}

/// Room in a slot beside the blocks, for reads that are widened to 4 KiB borders.
pub(super) fn slack_bytes(is_aligned: bool) -> usize {
    match is_aligned {
        true => 0,
        false => 2 * BLOCK_BYTES,
    }
}
