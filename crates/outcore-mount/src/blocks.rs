//! Merged blocks: made by a few threads with a reader each, kept for all who read.
//!
//! Contract: the sorted file is cut into blocks of [`BLOCK_BYTES`]. Who wants one that is not here
//! waits while a thread merges it; who asks for the block behind one that is here is taken to read on,
//! and the next ones are merged ahead. A block goes to the thread whose reader stands in front of it,
//! so each stream stays with its thread and is never sought again. The oldest blocks go when there is
//! no room for more.
//!
//! Memory: half of what the job has left for the readers, three eighths for blocks.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use outcore::algo::view::{SortedView, ViewReader};
use outcore::memory::Credit;
use outcore::{Error, Kind, Result};

use crate::Tell;

/// Size of a merged block.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks that are merged ahead of who reads on.
const AHEAD: u64 = 6;
/// Blocks that are kept at least.
const KEPT_MIN: usize = 16;

/// What became of a block.
enum Content {
    /// Nobody has begun.
    Wanted,
    /// A thread is at it.
    Merging,
    Here(Arc<Vec<u8>>),
    Failed,
}

struct Block {
    content: Content,
    /// When it was last asked for.
    used: u64,
}

#[derive(Default)]
struct State {
    blocks: HashMap<u64, Block>,
    /// Blocks to be merged, the most urgent first.
    queue: VecDeque<u64>,
    /// The block that each thread's reader stands in front of.
    next_of: Vec<Option<u64>>,
    clock: u64,
    /// Memory of blocks that are gone.
    spare: Vec<Vec<u8>>,
    is_over: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Something is to be merged, or all is over.
    work: Condvar,
    /// Something has been merged.
    merged: Condvar,
    len_bytes: u64,
    kept_max: usize,
    tell: Tell,
}

/// The blocks of one view.
pub(crate) struct Blocks {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    _memory: Credit,
}

impl Blocks {
    /// Starts the threads that merge: as many as have memory for a reader.
    pub(crate) fn start(view: &Arc<SortedView>, threads: usize, tell: Tell) -> Result<Self> {
        let left_bytes = view.reader_bytes(1);
        let kept_max = (left_bytes / 8 * 3 / BLOCK_BYTES as u64) as usize;
        let kept_max = kept_max.max(KEPT_MIN);
        let memory_bytes = (kept_max * BLOCK_BYTES) as u64;
        let memory = view.job().budget.reserve("merged blocks", memory_bytes)?;
        let threads = view.readers_that_fit(threads);
        let reader_bytes = view.reader_bytes(threads);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                next_of: vec![None; threads],
                ..State::default()
            }),
            work: Condvar::new(),
            merged: Condvar::new(),
            len_bytes: view.len_bytes(),
            kept_max,
            tell,
        });
        let mut blocks = Blocks {
            shared,
            threads: Vec::with_capacity(threads),
            _memory: memory,
        };
        let (started, starts) = channel();
        for thread in 0..threads {
            let (view, shared) = (Arc::clone(view), Arc::clone(&blocks.shared));
            let started = started.clone();
            let work = move || merge_blocks(&view, &shared, thread, reader_bytes, &started);
            let handle = std::thread::Builder::new()
                .name(format!("outcore-merge-{thread}"))
                .spawn(work)
                .map_err(|error| Error::io("start thread", &error))?;
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

    /// Gives `len_bytes` bytes from `offset_bytes` on to `take`, fewer at the end of the file. The error has been
    /// told already.
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
            // A panic has been answered with an error already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block, merged now if it is not here.
    fn block(&self, number: u64) -> std::result::Result<Arc<Vec<u8>>, ()> {
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
                    // The next one who asks tries again.
                    state.blocks.remove(&number);
                    return Err(());
                }
                None if state.is_over => return Err(()),
                None => {
                    if !state.blocks.contains_key(&number) {
                        want(&mut state, number);
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

    /// Wants the blocks behind one if that is being read on to.
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
        for next in number + 1..=(number + AHEAD).min(last) {
            if !state.blocks.contains_key(&next) {
                want(state, next);
                state.queue.push_back(next);
                is_any = true;
            }
        }
        if is_any {
            self.work.notify_all();
        }
    }

    /// The next block for a thread: the one its reader stands in front of, or one that no other
    /// thread's does. Nothing when all is over.
    fn take_work(&self, thread: usize) -> Option<(u64, Vec<u8>)> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            let own = state.next_of[thread];
            let is_free = |block: &u64| {
                let mut owners = state.next_of.iter().enumerate();
                !owners.any(|(owner, next)| owner != thread && *next == Some(*block))
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
                let space = state.spare.pop().unwrap_or_default();
                return Some((number, space));
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
        while state.blocks.len() > self.kept_max {
            let oldest = state
                .blocks
                .iter()
                .filter(|(other, block)| {
                    **other != number && matches!(block.content, Content::Here(_) | Content::Failed)
                })
                .min_by_key(|(_, block)| block.used)
                .map(|(other, _)| *other);
            let Some(gone) = oldest.and_then(|oldest| state.blocks.remove(&oldest)) else {
                break;
            };
            if let Content::Here(bytes) = gone.content
                && let Ok(bytes) = Arc::try_unwrap(bytes)
            {
                state.spare.push(bytes);
            }
        }
        drop(state);
        self.merged.notify_all();
        // A thread may have left this one's next block to us.
        self.work.notify_all();
    }
}

fn want(state: &mut State, number: u64) {
    let block = Block {
        content: Content::Wanted,
        used: state.clock,
    };
    state.blocks.insert(number, block);
}

/// What a thread does: opens a reader, then merges blocks.
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
            // Who waits for it tells it.
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    while let Some((number, space)) = shared.take_work(thread) {
        let content = match merge_block(&mut reader, shared, number, space) {
            Ok(bytes) => Content::Here(Arc::new(bytes)),
            Err(error) => {
                (shared.tell)(&error);
                Content::Failed
            }
        };
        shared.put(number, content);
    }
}

fn merge_block(
    reader: &mut ViewReader,
    shared: &Shared,
    number: u64,
    mut bytes: Vec<u8>,
) -> Result<Vec<u8>> {
    let start = number * BLOCK_BYTES as u64;
    let len = (shared.len_bytes - start).min(BLOCK_BYTES as u64) as usize;
    bytes.resize(len, 0);
    let got = reader.read_at(start, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}
