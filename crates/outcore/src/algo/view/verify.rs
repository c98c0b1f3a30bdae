//! Checking a view without merging it.
//!
//! Contract: [`SortedView::verify`] reads every block of every run once and checks its checksum, the
//! order of records inside each run, and that the index says of each block what is there. With these
//! three, and the counts of the manifest, whatever is merged from the runs is sorted and whole. The
//! first fault ends it, with its run, drive and offset.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::fetch::{Fetcher, Piece, slack_bytes};
use super::{PIECE_BYTES_MAX, SortedView};
use crate::algo::crew::Crew;
use crate::error::Result;
use crate::memory::Pool;

/// Pieces of a run in flight.
const WINDOW: usize = 4;

/// What checking a view found: nothing wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ViewReport {
    /// Records checked.
    pub records: u64,
    /// Blocks checked.
    pub blocks: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read.
    pub read_bytes: u64,
}

impl SortedView {
    /// Checks all blocks and their order.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for a block that is not what was written or out of order.
    pub fn verify(&self) -> Result<ViewReport> {
        let started = Instant::now();
        let before_bytes = self.traffic_bytes().0;
        let shape = &self.set.shape;
        self.job.control.begin_phase("verify", self.len_bytes());
        let crew = Crew::new(&self.job, self.set.runs.len() as u64);
        let slack_bytes = slack_bytes(shape.is_aligned());
        let share_bytes = self.reader_bytes(crew.threads() * WINDOW) as usize;
        let payload_bytes = share_bytes
            .saturating_sub(slack_bytes)
            .min(PIECE_BYTES_MAX)
            .max(shape.block_bytes());
        let slot_bytes = payload_bytes / shape.block_bytes() * shape.block_bytes() + slack_bytes;
        let next = AtomicUsize::new(0);
        crew.run(|_| {
            let pool = Pool::new(&self.job.budget, "blocks to check", slot_bytes, WINDOW)?;
            let control = Arc::clone(&self.job.control);
            let mut fetcher = Fetcher::new(Arc::clone(&self.set), control, pool)?;
            loop {
                crew.check()?;
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= self.set.runs.len() {
                    return Ok(());
                }
                self.verify_run(&mut fetcher, run)?;
            }
        })?;
        let blocks = |run: &super::runs::Run| shape.blocks_of(run.records);
        Ok(ViewReport {
            records: self.len(),
            blocks: self.set.runs.iter().map(blocks).sum(),
            seconds: started.elapsed().as_secs_f64(),
            read_bytes: self.traffic_bytes().0 - before_bytes,
        })
    }

    fn verify_run(&self, fetcher: &mut Fetcher, run: usize) -> Result<()> {
        let blocks = self.set.shape.blocks_of(self.set.runs[run].records);
        let step = fetcher.blocks_max();
        let (mut asked, mut checked) = (0, 0);
        let mut here: Vec<Piece> = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        while checked < blocks {
            while asked < blocks && fetcher.fetch(self.set.stretch(run, asked, step)) {
                asked += step;
            }
            fetcher.poll(true)?;
            here.extend(fetcher.take_arrived());
            while let Some(at) = here
                .iter()
                .position(|piece| piece.stretch.first_block == checked)
            {
                let mut piece = here.swap_remove(at);
                fetcher.check(&mut piece)?;
                last = self.check_order(&piece, last)?;
                checked += piece.stretch.blocks;
                self.job.control.advance(piece.payload().len() as u64);
                self.job.control.watch(&self.set.volume);
            }
        }
        Ok(())
    }

    /// Checks the order of a piece that follows `last`; gives its own last record.
    fn check_order(&self, piece: &Piece, last: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let (shape, run) = (&self.set.shape, piece.stretch.run);
        let facts = &self.set.runs[run];
        let first = piece.stretch.first_block * shape.block_records;
        let mut previous = last.as_deref();
        for (step, record) in piece.payload().chunks_exact(shape.record_bytes).enumerate() {
            let position = first + step as u64;
            let at_bytes = facts.base_bytes + position * shape.record_bytes as u64;
            if previous.is_some_and(|previous| shape.order.compare(previous, record).is_gt()) {
                return Err(self.set.fault(run, at_bytes, "a record is out of order"));
            }
            if position.is_multiple_of(shape.block_records) {
                let block = (position / shape.block_records) as usize;
                if facts.index.prefixes[block] != shape.prefix(record) {
                    return Err(self.set.fault(run, at_bytes, "the index has another key"));
                }
            }
            previous = Some(record);
        }
        Ok(previous.map(<[u8]>::to_vec))
    }
}
