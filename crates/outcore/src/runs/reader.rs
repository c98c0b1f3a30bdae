//! Reads a view in order, from any place: pieces of runs are prefetched and merged.
//!
//! Model: forecasting (Knuth, TAOCP volume 3, section 5.4.6): the run whose last record in memory
//! comes first is the first to need its next block. The index contains the first record of every
//! block, so the order in which blocks are needed is known before they are read.
//!
//! Contract: each run has the piece that is being merged and, in sequential reads, at least another
//! one in flight. The remaining slots are filled with the pieces that are needed first. A read of a
//! few records reads single blocks and nothing ahead. All merged data have been checked against the
//! index. After an error a reader must be started again.
//!
//! Memory: the caller's pool; at least two slots per run.

use std::collections::VecDeque;
use std::sync::Arc;

use super::fetch::{Fetcher, RunBlocks};
use super::run_set::RunSet;
use crate::merge::item_rule::Prefix;
use crate::merge::{LoadedRuns, Merge};
use outcore_io::{Error, Kind, Result};

/// The piece after the one that is being merged.
enum Ahead {
    /// In flight; the number is that of the piece's first block.
    Coming(u64),
    Here(RunBlocks),
}

impl Ahead {
    fn is_coming(&self, block: u64) -> bool {
        matches!(self, Ahead::Coming(first) if *first == block)
    }
}

/// One run's state.
#[derive(Default)]
struct RunState {
    current: Option<RunBlocks>,
    /// Bytes of the current piece's payload inside the range.
    current_bytes: usize,
    ahead: VecDeque<Ahead>,
    /// Blocks from here to `end_block` have not been requested.
    next_block: u64,
    end_block: u64,
    /// The unit after the last.
    end: u64,
    /// Number of blocks of the next request.
    step_blocks: u64,
}

/// A merge that has been started at some place.
pub(super) struct MergeReader {
    set: Arc<RunSet>,
    core: Box<dyn Merge>,
    runs: Vec<RunState>,
    heads: Vec<usize>,
    /// The run without further records in memory.
    used_up: Option<usize>,
    /// Whether to read ahead.
    is_reading_on: bool,
    /// Units left of the range.
    left: u64,
}

impl MergeReader {
    pub(super) fn new(set: &Arc<RunSet>) -> Self {
        MergeReader {
            set: Arc::clone(set),
            core: set.shape.merge(),
            runs: Vec::new(),
            heads: Vec::new(),
            used_up: None,
            is_reading_on: false,
            left: 0,
        }
    }

    /// Starts at the units `from` of the runs, where records begin, to end before `to`. `given` are
    /// pieces that are already in memory. `is_reading_on` means that the whole range will be read.
    pub(super) fn start(
        &mut self,
        fetcher: &mut Fetcher,
        from: &[u64],
        to: &[u64],
        given: Vec<RunBlocks>,
        is_reading_on: bool,
    ) -> Result<()> {
        self.left = 0;
        self.runs.clear();
        fetcher.drain()?;
        self.is_reading_on = is_reading_on;
        self.used_up = None;
        for (run, (&from, &to)) in from.iter().zip(to).enumerate() {
            let is_empty = from >= to;
            let next_block = self.set.block_of(from);
            self.runs.push(RunState {
                next_block,
                end_block: match is_empty {
                    true => next_block,
                    false => self.set.block_behind(run, to),
                },
                end: to,
                step_blocks: 1,
                ..RunState::default()
            });
        }
        for piece in given {
            let state = &mut self.runs[piece.stretch.run];
            let is_next = state.ahead.is_empty() && piece.stretch.first_block == state.next_block;
            if is_next && state.next_block < state.end_block {
                state.next_block += piece.stretch.blocks;
                skip_empty(&self.set, piece.stretch.run, state);
                state.ahead.push_back(Ahead::Here(piece));
            }
        }
        self.heads = vec![0; self.runs.len()];
        self.ask(fetcher, None)?;
        for (run, &from) in from.iter().enumerate() {
            self.bring(fetcher, run)?;
            if let Some(current) = &self.runs[run].current {
                let first = self.set.start(run, current.stretch.first_block);
                self.heads[run] = (from - first) as usize * self.set.shape.unit_bytes;
            }
        }
        let slices = slices(&self.runs);
        self.core.start(&LoadedRuns {
            loaded: &slices,
            heads: &mut self.heads,
        })?;
        let counts = from.iter().zip(to);
        self.left = counts.map(|(from, to)| to.saturating_sub(*from)).sum();
        Ok(())
    }

    /// Announces that the rest will be read completely.
    pub(super) fn read_on(&mut self) {
        self.is_reading_on = true;
    }

    /// Fills `out` with a whole number of units, at most the remaining ones.
    pub(super) fn read(&mut self, fetcher: &mut Fetcher, out: &mut [u8]) -> Result<()> {
        let units = (out.len() / self.set.shape.unit_bytes) as u64;
        if units > self.left {
            return Err(Error::new(
                Kind::Usage,
                "read view",
                "a read beyond the end of the range",
            )
            .hint("a bug: please report it"));
        }
        // After a failure nothing is left to read.
        let left = std::mem::take(&mut self.left);
        let mut filled = 0;
        // Consecutive pieces without records: at most as many as there are runs.
        let mut empty = 0;
        while filled < out.len() {
            if let Some(run) = self.used_up.take() {
                fetcher.check_stop()?;
                self.runs[run].current = None;
                self.bring(fetcher, run)?;
                self.heads[run] = 0;
                let slices = slices(&self.runs);
                let runs_loaded = LoadedRuns {
                    loaded: &slices,
                    heads: &mut self.heads,
                };
                self.core.advance(&runs_loaded, run)?;
            }
            let slices = slices(&self.runs);
            let mut runs_loaded = LoadedRuns {
                loaded: &slices,
                heads: &mut self.heads,
            };
            let merged = self.core.merge(&mut runs_loaded, &mut out[filled..])?;
            filled += merged.bytes;
            self.used_up = merged.used_up;
            empty = match merged.bytes {
                0 => empty + 1,
                _ => 0,
            };
            if empty > self.runs.len() + 1 {
                return Err(self.set.fault(0, 0, "the runs end before the view does"));
            }
        }
        self.left = left - units;
        Ok(())
    }

    /// Makes the next piece of `run` the current one, if it has one.
    fn bring(&mut self, fetcher: &mut Fetcher, run: usize) -> Result<()> {
        loop {
            self.ask(fetcher, Some(run))?;
            self.settle(fetcher);
            self.check_room(fetcher, run)?;
            let state = &mut self.runs[run];
            match state.ahead.pop_front() {
                Some(Ahead::Here(mut piece)) => {
                    fetcher.check(&mut piece)?;
                    self.core.encode(piece.payload_mut())?;
                    let first = self.set.start(run, piece.stretch.first_block);
                    let wanted = (state.end - first) as usize * self.set.shape.unit_bytes;
                    state.current_bytes = wanted.min(piece.stretch.payload_bytes);
                    state.current = Some(piece);
                    return Ok(());
                }
                Some(coming) => state.ahead.push_front(coming),
                None if state.next_block == state.end_block => return Ok(()),
                None => {}
            }
            fetcher.wait()?;
        }
    }

    /// Fails if a run's next piece is neither in memory nor in flight for lack of memory.
    fn check_room(&self, fetcher: &Fetcher, run: usize) -> Result<()> {
        let state = &self.runs[run];
        let is_wanted = state.ahead.is_empty() && state.next_block < state.end_block;
        match is_wanted && fetcher.is_idle() {
            true => Err(fetcher.no_room(&fetcher.fit(run, state.next_block, 1))),
            false => Ok(()),
        }
    }

    /// Assigns arrived pieces to their runs.
    fn settle(&mut self, fetcher: &mut Fetcher) {
        for piece in fetcher.take_arrived() {
            let first = piece.stretch.first_block;
            let ahead = &mut self.runs[piece.stretch.run].ahead;
            if let Some(place) = ahead.iter_mut().find(|ahead| ahead.is_coming(first)) {
                *place = Ahead::Here(piece);
            }
        }
    }

    /// Requests the piece of the run that needs one now. In sequential reads, also requests a piece
    /// for each run that has none ahead, and more of the pieces that are needed first.
    fn ask(&mut self, fetcher: &mut Fetcher, needed: Option<usize>) -> Result<()> {
        let mut is_any = false;
        if let Some(run) = needed
            && self.runs[run].ahead.is_empty()
        {
            is_any |= self.ask_for(fetcher, run, true);
        }
        if self.is_reading_on {
            let mut lacking: Vec<usize> = (0..self.runs.len())
                .filter(|&run| self.is_unasked(run) && self.runs[run].ahead.is_empty())
                .collect();
            lacking.sort_by_key(|&run| (self.forecast(run), run));
            for run in lacking {
                is_any |= self.ask_for(fetcher, run, false);
            }
            // Every run's own slots stay reserved for it.
            let mut spare = self.spare_slots(fetcher);
            while spare > 0 {
                let runs = (0..self.runs.len()).filter(|&run| self.is_unasked(run));
                let Some(first) = runs.min_by_key(|&run| (self.forecast(run), run)) else {
                    break;
                };
                if !self.ask_for(fetcher, first, false) {
                    break;
                }
                is_any = true;
                spare -= 1;
            }
        }
        if is_any {
            // The drives work while this thread merges.
            fetcher.start()?;
            self.settle(fetcher);
        }
        Ok(())
    }

    /// Slots beyond two for each unfinished run.
    fn spare_slots(&self, fetcher: &Fetcher) -> usize {
        let owed: usize = self
            .runs
            .iter()
            .filter(|state| state.next_block < state.end_block)
            .map(|state| {
                let has = usize::from(state.current.is_some()) + state.ahead.len();
                2usize.saturating_sub(has)
            })
            .sum();
        fetcher.free_slots().saturating_sub(owed)
    }

    fn is_unasked(&self, run: usize) -> bool {
        self.runs[run].next_block < self.runs[run].end_block
    }

    /// When the next piece of a run will be needed: at its first record.
    fn forecast(&self, run: usize) -> Prefix {
        let block = self.runs[run].next_block as usize;
        self.set.runs[run].index.prefix(block)
    }

    /// Requests the next piece of a run; false if it has none or there is no slot. A piece without
    /// a slot of its size waits until it is needed.
    fn ask_for(&mut self, fetcher: &mut Fetcher, run: usize, is_needed: bool) -> bool {
        let blocks_max = match self.is_reading_on {
            true => fetcher.blocks_max(),
            false => 1,
        };
        let state = &mut self.runs[run];
        if state.next_block >= state.end_block {
            return false;
        }
        let blocks = state
            .step_blocks
            .min(blocks_max)
            .min(state.end_block - state.next_block);
        let stretch = fetcher.fit(run, state.next_block, blocks);
        let waits = !is_needed && fetcher.is_long(&stretch);
        if waits || !fetcher.fetch(stretch) {
            return false;
        }
        state.ahead.push_back(Ahead::Coming(state.next_block));
        state.next_block += stretch.blocks;
        skip_empty(&self.set, run, state);
        // The first record takes only one block per run; the following ones are read in larger
        // pieces.
        state.step_blocks = (4 * state.step_blocks).min(blocks_max);
        true
    }
}

/// Moves to the next block in which a line begins.
fn skip_empty(set: &RunSet, run: usize, state: &mut RunState) {
    let start = |block: u64| set.start(run, block);
    while state.next_block < state.end_block
        && start(state.next_block) == start(state.next_block + 1)
    {
        state.next_block += 1;
    }
}

/// The part of each run that can be merged now.
fn slices(runs: &[RunState]) -> Vec<&[u8]> {
    runs.iter().map(slice).collect()
}

fn slice(state: &RunState) -> &[u8] {
    match &state.current {
        Some(piece) => &piece.payload()[..state.current_bytes],
        None => &[],
    }
}
