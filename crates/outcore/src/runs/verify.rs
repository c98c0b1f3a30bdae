//! Verifies a view without merging it.
//!
//! Contract: [`SortedView::verify`] reads every block of every run once. It checks the block's
//! checksum, the order of records inside each run, and that the index describes each block
//! correctly. With these checks, and the counts of the manifest, every merge of the runs is sorted
//! and complete. The first fault ends it, with its run, drive and offset.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fetch::{Fetcher, RunBlocks, slot_bytes};
use super::run_set::Stretch;
use super::{PIECE_BYTES_MAX, SortedView};
use crate::ends::{Phase, Phases};
use crate::forecast::{Forecast, PhasePlan};
use crate::job::thread_group::ThreadGroup;
use crate::read::framing::ItemFraming;
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Pool};

/// The name of the phase.
const VERIFY: &str = "verify";
/// Pieces in flight per thread, and their number if memory does not hold that many blocks.
const WINDOW: usize = 8;
const WINDOW_LEAST: usize = 4;

/// The result of a successful check.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewReport {
    /// Records checked.
    pub records: u64,
    /// Blocks checked.
    pub blocks: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// The check, with its prediction.
    pub phase: Phase,
}

impl SortedView {
    /// The prediction for [`SortedView::verify`].
    pub fn plan_verify(&self) -> PhasePlan {
        let units = self.set.runs.iter().map(|run| run.units).sum();
        self.plan_phase(VERIFY, units, Forecast::NOTHING)
    }

    /// Checks all blocks and their order.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for a block that is damaged or out of order.
    pub fn verify(&self) -> Result<ViewReport> {
        let mut phases = Phases::start_on(&self.set.volume);
        let shape = &self.set.shape;
        self.job.control.begin_phase(VERIFY, self.len_bytes());
        let thread_group = ThreadGroup::new(&self.job, self.set.runs.len() as u64);
        let share_of = |window: usize| self.reader_bytes(thread_group.threads() * window) as usize;
        let window = match share_of(WINDOW) >= slot_bytes(&self.set, 1) {
            true => WINDOW,
            false => WINDOW_LEAST,
        };
        let share_bytes = share_of(window).saturating_sub(2 * BLOCK_BYTES);
        let blocks = (share_bytes.min(PIECE_BYTES_MAX) / shape.block_bytes()).max(1);
        let slot_bytes = slot_bytes(&self.set, blocks);
        let next = AtomicUsize::new(0);
        thread_group.run(|_| {
            let pool = Pool::new(&self.job.budget, "blocks to check", slot_bytes, window)?;
            let mut fetcher = Fetcher::new(&self.job, Arc::clone(&self.set), pool)?;
            self.verify_runs(&mut fetcher, &next, || thread_group.check())
        })?;
        let blocks = |run: &super::run_set::Run| shape.blocks_of(run.units);
        let phase = phases.end(VERIFY, &self.set.volume).clone();
        let plan = self.plan_verify();
        Ok(ViewReport {
            records: self.len(),
            blocks: self.set.runs.iter().map(blocks).sum(),
            seconds: phase.seconds,
            read_bytes: phase.read_bytes,
            phase: Phase {
                predicted: Some(plan),
                ..phase
            },
        })
    }

    /// Checks the runs that this thread takes, one after another, while the next blocks are read.
    fn verify_runs(
        &self,
        fetcher: &mut Fetcher,
        next_run: &AtomicUsize,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let next = || {
            loop {
                let run = next_run.fetch_add(1, Ordering::Relaxed);
                let blocks = self.set.shape.blocks_of(self.set.runs.get(run)?.units);
                if blocks > 0 {
                    return Some((run, 0, blocks));
                }
            }
        };
        // Blocks of a run that are not requested, requested stretches in order, and arrived blocks.
        let mut wanted = next();
        let mut coming: VecDeque<Stretch> = VecDeque::new();
        let mut here: Vec<RunBlocks> = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        loop {
            check()?;
            let asked = coming.len();
            while let Some((run, first, end)) = wanted {
                let blocks = fetcher.blocks_max().min(end - first);
                let stretch = fetcher.fit(run, first, blocks);
                if !fetcher.fetch(stretch) {
                    break;
                }
                coming.push_back(stretch);
                let first = first + stretch.blocks;
                wanted = match first < end {
                    true => Some((run, first, end)),
                    false => next(),
                };
            }
            if coming.len() > asked {
                // The drives work while this thread checks.
                fetcher.start()?;
            }
            let Some(front) = coming.front() else {
                return match wanted {
                    None => Ok(()),
                    Some((run, first, _)) => Err(fetcher.no_room(&fetcher.fit(run, first, 1))),
                };
            };
            let is_front = |piece: &RunBlocks| {
                (piece.stretch.run, piece.stretch.first_block) == (front.run, front.first_block)
            };
            let Some(at) = here.iter().position(is_front) else {
                fetcher.wait()?;
                here.extend(fetcher.take_arrived());
                continue;
            };
            coming.pop_front();
            let mut piece = here.swap_remove(at);
            fetcher.check(&mut piece)?;
            if piece.stretch.first_block == 0 {
                last = None;
            }
            last = match self.set.shape.items() {
                None => self.check_order(&piece, last)?,
                Some(rule) => self.check_items(&piece, rule.framing, last)?,
            };
            self.job.control.advance(piece.payload().len() as u64);
            self.job.control.watch(&self.set.volume);
        }
    }

    /// Checks the order of a piece that follows `last`; returns its own last record.
    fn check_order(&self, piece: &RunBlocks, last: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let (shape, run) = (&self.set.shape, piece.stretch.run);
        let facts = &self.set.runs[run];
        let first = self.set.start(run, piece.stretch.first_block);
        let mut previous = last.as_deref();
        for (step, record) in piece.payload().chunks_exact(shape.unit_bytes).enumerate() {
            let unit = first + step as u64;
            let at_bytes = facts.base_bytes + unit * shape.unit_bytes as u64;
            if previous.is_some_and(|previous| shape.compare(previous, record).is_gt()) {
                return Err(self.set.fault(run, at_bytes, "a record is out of order"));
            }
            if unit.is_multiple_of(shape.block_units) {
                let block = self.set.block_of(unit) as usize;
                if facts.index.prefix(block) != shape.prefix(record) {
                    return Err(self.set.fault(run, at_bytes, "the index has another key"));
                }
            }
            previous = Some(record);
        }
        Ok(previous.map(<[u8]>::to_vec))
    }

    /// Like `check_order`, for lines and rows. Also checks that each block begins where the index
    /// says, and that as many lines come before it as the index says.
    fn check_items(
        &self,
        piece: &RunBlocks,
        framing: ItemFraming,
        last: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let (shape, run) = (&self.set.shape, piece.stretch.run);
        let facts = &self.set.runs[run];
        let mut block = piece.stretch.first_block;
        let mut unit = self.set.start(run, block);
        let mut rank = self.set.rank_of_block(run, block);
        let fault =
            |unit: u64, cause: &str| Err(self.set.fault(run, facts.base_bytes + unit, cause));
        let mut previous = last.as_deref();
        let payload = piece.payload();
        let mut end_bytes = 0;
        for (begin, end) in framing.spans(payload) {
            let item = &payload[begin..end];
            end_bytes = end + framing.tail_bytes();
            if previous.is_some_and(|previous| shape.compare(previous, item).is_gt()) {
                return fault(unit, "a line or row is out of order");
            }
            while block <= self.set.block_of(unit) {
                if facts.index.start(block) != Some(unit) || facts.index.rank(block) != Some(rank) {
                    return fault(unit, "the index has another place");
                }
                if facts.index.prefix(block as usize) != shape.prefix(item) {
                    return fault(unit, "the index has another key");
                }
                block += 1;
            }
            unit += (item.len() + framing.around_bytes()) as u64;
            rank += 1;
            previous = Some(item);
        }
        if end_bytes != payload.len() {
            return fault(unit, "a line or row has no end");
        }
        let behind = piece.stretch.first_block + piece.stretch.blocks;
        if unit != self.set.start(run, behind) || rank != self.set.rank_of_block(run, behind) {
            return fault(unit, "the index has other lines or rows");
        }
        Ok(previous.map(<[u8]>::to_vec))
    }
}
