//! Merged blocks: a few threads merge them, each with its own reader, and all FUSE readers share
//! them.
//!
//! Contract: the sorted file is divided into blocks of [`BLOCK_BYTES`]. A request for a missing
//! block waits while a thread merges it. A request for the block after a cached one counts as a
//! sequential read, and the next blocks are merged ahead. A block goes to the thread whose reader
//! is positioned at it.
//!
//! Blocks are merged ahead in *lanes* of adjacent blocks. One thread merges all blocks of a lane,
//! with one seek, and the next lane goes to another thread. In two cases, one thread merges a whole
//! stream: if copying long records costs more than merging them, or if memory is too small for
//! lanes that are long compared with a seek.
//!
//! The oldest blocks are evicted when there is no more room. Room grows up to the memory limit when
//! evicted blocks are requested again, so a single read from front to end uses few pages.
//!
//! Memory: half of the job's remaining memory for the readers, three eighths for blocks, in huge
//! pages. The blocks include those that are being merged or copied to a reader: one per thread that
//! does so.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use outcore::runs::{SortedView, ViewReader};
use outcore::{Error, Kind, Result};
use outcore_io::memory::{Buf, Pool};
use outcore_io::threads::spawn;

/// Called with each fault.
pub type Tell = Box<dyn Fn(&Error) + Send + Sync>;

/// Size of a merged block.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks that the thread of a sequential stream merges ahead.
const AHEAD: u64 = 6;
/// Records of at least this size are merged by one thread per stream.
const LONG_RECORD_BYTES: usize = 256;
/// Smallest number of blocks of each run per lane: a seek reads one or two of them.
const LANE_RUN_BLOCKS: u64 = 20;
/// Smallest number of cached blocks.
const KEPT_MIN: usize = 8;
/// Number of cached blocks until an evicted one is requested again.
const KEPT_FIRST: usize = 64;
/// Number of blocks by which the room grows.
const KEPT_MORE: usize = 16;

/// State of a block.
enum Content {
    /// Not started.
    Wanted,
    /// A thread is merging it.
    Merging,
    Here(Arc<Buf>),
    Failed,
}

struct Block {
    content: Content,
    /// Time of its last request.
    used: u64,
    /// No reader waits for it yet.
    is_ahead: bool,
}

/// How many blocks are merged ahead, and by how many threads.
#[derive(Clone, Copy)]
struct MergeAhead {
    /// Blocks per lane.
    blocks: u64,
    /// Blocks that are merged ahead.
    ahead: u64,
}

impl MergeAhead {
    /// Lanes for this many threads, with at most `ahead_max` blocks ahead.
    fn new(view: &SortedView, threads: usize, ahead_max: u64) -> Self {
        let info = view.info();
        let seek_bytes = info.block_bytes as u64 * info.runs.len() as u64;
        let blocks = (LANE_RUN_BLOCKS * seek_bytes).div_ceil(BLOCK_BYTES as u64);
        let ahead = blocks * threads as u64;
        match view.unit_bytes() < LONG_RECORD_BYTES && threads > 1 && ahead <= ahead_max {
            true => MergeAhead { blocks, ahead },
            false => MergeAhead {
                blocks: u64::MAX,
                ahead: AHEAD,
            },
        }
    }

    /// Whether a reader positioned at block `next` is to merge `block` on its way.
    fn leads(&self, next: u64, block: u64) -> bool {
        next <= block && block - next <= self.ahead && next / self.blocks == block / self.blocks
    }
}

#[derive(Default)]
struct State {
    blocks: HashMap<u64, Block>,
    /// Blocks to merge, the most urgent first.
    queue: VecDeque<u64>,
    /// The block at which each thread's reader is positioned.
    next_of: Vec<Option<u64>>,
    clock: u64,
    /// Blocks that may be cached now.
    kept: usize,
    /// One bit per block that was merged at least once.
    merged_once: Vec<u64>,
    is_over: bool,
}

impl State {
    /// Notes that a block has been merged.
    fn note_merged(&mut self, number: u64) {
        let (word, bit) = ((number / 64) as usize, number % 64);
        if self.merged_once.len() <= word {
            self.merged_once.resize(word + 1, 0);
        }
        self.merged_once[word] |= 1 << bit;
    }

    fn was_merged(&self, number: u64) -> bool {
        let word = self.merged_once.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

struct Shared {
    state: Mutex<State>,
    /// There is a block to merge, or the server is ending.
    work: Condvar,
    /// A block has been merged.
    merged: Condvar,
    len_bytes: u64,
    pool: Pool,
    kept_max: usize,
    lanes: MergeAhead,
    tell: Tell,
}

/// The blocks of one view.
pub(crate) struct Blocks {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Blocks {
    /// Starts as many merging threads as have memory for a reader. At most that number of threads
    /// plus one may request blocks at once.
    pub(crate) fn start(view: &Arc<SortedView>, threads: usize, tell: Tell) -> Result<Self> {
        let threads = view.readers_that_fit(threads);
        let in_use = 2 * threads + 1;
        let slots = (view.reader_bytes(1) / 8 * 3 / BLOCK_BYTES as u64) as usize;
        let slots = slots.max(KEPT_MIN + in_use);
        let kept_max = slots - in_use;
        let lanes = MergeAhead::new(view, threads, kept_max as u64 / 3);
        let kept_first = KEPT_FIRST.max(3 * lanes.ahead as usize);
        let pool = Pool::new(&view.job().budget, "merged blocks", BLOCK_BYTES, slots)?;
        let reader_bytes = view.reader_bytes(threads);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                next_of: vec![None; threads],
                kept: kept_first.min(kept_max),
                ..State::default()
            }),
            work: Condvar::new(),
            merged: Condvar::new(),
            len_bytes: view.len_bytes(),
            pool,
            kept_max,
            lanes,
            tell,
        });
        let mut blocks = Blocks {
            shared,
            threads: Vec::with_capacity(threads),
        };
        let (started, starts) = channel();
        for thread in 0..threads {
            let (view, shared) = (Arc::clone(view), Arc::clone(&blocks.shared));
            let started = started.clone();
            let work = move || merge_blocks(&view, &shared, thread, reader_bytes, &started);
            let name = format!("outcore-merge-{} of {threads}", thread + 1);
            let handle = spawn(&name, work)?;
            blocks.threads.push(handle);
        }
        for _ in 0..threads {
            starts.recv().unwrap_or_else(|_| {
                Err(Error::new(Kind::Io, "start reader", "a thread ended")
                    .hint("a bug: please report it"))
            })?;
        }
        Ok(blocks)
    }

    /// Number of merging threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Passes the `len_bytes` bytes that start at `offset_bytes` to `take`, fewer at the end of the
    /// file. An error has already been reported.
    pub(crate) fn with_bytes<T>(
        &self,
        offset_bytes: u64,
        len_bytes: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> std::result::Result<T, ()> {
        let end = (offset_bytes + len_bytes as u64).min(self.shared.len_bytes);
        if offset_bytes >= end {
            return Ok(take(&[]));
        }
        let block_bytes = BLOCK_BYTES as u64;
        let (first, last) = (offset_bytes / block_bytes, (end - 1) / block_bytes);
        let inside = |block: u64, bytes: &[u8]| {
            let start = block * block_bytes;
            let from = offset_bytes.max(start) - start;
            let to = (end - start).min(bytes.len() as u64);
            from as usize..to as usize
        };
        if first == last {
            let bytes = self.shared.block(first)?;
            return Ok(take(&bytes[inside(first, &bytes)]));
        }
        let mut joined = Vec::with_capacity((end - offset_bytes) as usize);
        for block in first..=last {
            let bytes = self.shared.block(block)?;
            joined.extend_from_slice(&bytes[inside(block, &bytes)]);
        }
        Ok(take(&joined))
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.work.notify_all();
        self.shared.merged.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has already been answered with an error.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block; merges it now if it is missing.
    fn block(&self, number: u64) -> std::result::Result<Arc<Buf>, ()> {
        let mut state = self.lock();
        loop {
            state.clock += 1;
            let now = state.clock;
            let found = match state.blocks.get_mut(&number) {
                None => None,
                Some(block) => {
                    block.used = now;
                    match &block.content {
                        Content::Here(bytes) => Some(Ok(Arc::clone(bytes))),
                        Content::Failed => Some(Err(())),
                        Content::Wanted | Content::Merging => None,
                    }
                }
            };
            match found {
                Some(Ok(bytes)) => {
                    self.read_ahead(&mut state, number);
                    return Ok(bytes);
                }
                Some(Err(())) => {
                    // The next request tries again.
                    state.blocks.remove(&number);
                    return Err(());
                }
                None if state.is_over => return Err(()),
                None => {
                    if !state.blocks.contains_key(&number) {
                        self.want(&mut state, number, false);
                        state.queue.push_front(number);
                        self.work.notify_all();
                        self.read_ahead(&mut state, number);
                    }
                    let waited = self.merged.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Adds a block to the queue.
    fn want(&self, state: &mut State, number: u64, is_ahead: bool) {
        if state.was_merged(number) {
            state.kept = (state.kept + KEPT_MORE).min(self.kept_max);
        }
        let block = Block {
            content: Content::Wanted,
            used: state.clock,
            is_ahead,
        };
        state.blocks.insert(number, block);
    }

    /// Adds the blocks after `number` to the queue if the stream is being read sequentially.
    fn read_ahead(&self, state: &mut State, number: u64) {
        let is_here = |number: u64| {
            let block = state.blocks.get(&number);
            block.is_some_and(|block| matches!(block.content, Content::Here(_)))
        };
        if number == 0 || !is_here(number - 1) {
            return;
        }
        let last = (self.len_bytes - 1) / BLOCK_BYTES as u64;
        let mut is_any = false;
        for next in number + 1..=(number + self.lanes.ahead).min(last) {
            if !state.blocks.contains_key(&next) {
                self.want(state, next, true);
                state.queue.push_back(next);
                is_any = true;
            }
        }
        if is_any {
            self.work.notify_all();
        }
    }

    /// The thread that a block is reserved for, if any: the one whose reader is nearest before it.
    fn owner(&self, state: &State, number: u64) -> Option<usize> {
        let is_ahead = state
            .blocks
            .get(&number)
            .is_some_and(|block| block.is_ahead);
        let leads = |next: u64| match is_ahead {
            true => self.lanes.leads(next, number),
            false => next == number,
        };
        let threads = state.next_of.iter().enumerate();
        threads
            .filter_map(|(thread, next)| next.map(|next| (next, thread)))
            .filter(|(next, _)| leads(*next))
            .max()
            .map(|(_, thread)| thread)
    }

    /// The next block for a thread: the one at which its reader is positioned, or one that is not
    /// reserved for another thread. `None` when the server is ending.
    fn take_work(&self, thread: usize) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            let own = state.next_of[thread];
            let is_free = |block: &u64| {
                let owner = self.owner(&state, *block);
                owner.is_none_or(|owner| owner == thread)
            };
            let chosen = state
                .queue
                .iter()
                .position(|block| Some(*block) == own)
                .or_else(|| state.queue.iter().position(is_free));
            if let Some(number) = chosen.and_then(|at| state.queue.remove(at)) {
                state.next_of[thread] = Some(number + 1);
                if let Some(block) = state.blocks.get_mut(&number) {
                    block.content = Content::Merging;
                }
                return Some(number);
            }
            let waited = self.work.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, number: u64, content: Content) {
        let mut state = self.lock();
        if let Some(block) = state.blocks.get_mut(&number) {
            block.content = content;
        }
        state.note_merged(number);
        while state.blocks.len() > state.kept {
            let oldest = state
                .blocks
                .iter()
                .filter(|(other, block)| {
                    **other != number && matches!(block.content, Content::Here(_) | Content::Failed)
                })
                .min_by_key(|(_, block)| block.used)
                .map(|(other, _)| *other);
            if oldest
                .and_then(|oldest| state.blocks.remove(&oldest))
                .is_none()
            {
                break;
            }
        }
        drop(state);
        self.merged.notify_all();
        // Wakes the other threads: the blocks that they may take can have changed.
        self.work.notify_all();
    }
}

/// Body of a merging thread: opens a reader, then merges blocks.
fn merge_blocks(
    view: &SortedView,
    shared: &Shared,
    thread: usize,
    reader_bytes: u64,
    started: &Sender<Result<()>>,
) {
    let mut reader = match view.reader(reader_bytes) {
        Ok(reader) => reader,
        Err(error) => {
            // The thread that waits for the start reports the error.
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    while let Some(number) = shared.take_work(thread) {
        let content = match merge_block(&mut reader, shared, number) {
            Ok(bytes) => Content::Here(Arc::new(bytes)),
            Err(error) => {
                (shared.tell)(&error);
                Content::Failed
            }
        };
        shared.put(number, content);
    }
}

fn merge_block(reader: &mut ViewReader, shared: &Shared, number: u64) -> Result<Buf> {
    let start = number * BLOCK_BYTES as u64;
    let len = (shared.len_bytes - start).min(BLOCK_BYTES as u64) as usize;
    let mut slot = shared.pool.take().ok_or_else(|| {
        Error::new(Kind::Memory, "merge a block", "all blocks are in use")
            .hint("a bug: please report it")
    })?;
    let mut bytes = slot.split_to(len);
    let got = reader.read_at(start, &mut bytes)?;
    Ok(bytes.split_to(got))
}
