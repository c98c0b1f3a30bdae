//! The route of a shuffle: every item goes where the random draws of its chunk's walk lead.
//!
//! Contract: a draw is a function of the chunk of an item and of the number of items before it in
//! the chunk ([`super::tree`]). So the owner tells a [`RandomRoute`] where chunks begin and
//! continue. The position of an input run consists of its chunk, and of the number of the chunk's
//! items that precede it in the node. The order inside a bucket is therefore the order of the
//! input, whichever worker wrote what.
//!
//! Bounds: the walks of a few chunks, one word per node each.

use std::collections::VecDeque;

use super::tree::{Node, Tree, Walk, fan_out};
use crate::partition::route::{Batch, Route};
use crate::partition::scatter::{RunStart, ScatterWorker};
use outcore_io::Result;

/// Bits of a position below the number of the chunk. They hold the number of the chunk's items
/// before it in the node.
const NUMBER_BITS: u32 = 44;
/// Chunks whose walk is remembered.
const OPEN_MAX: usize = 16;

/// Chunk and number from the position of a piece.
pub(super) fn chunk_and_number(position: u64) -> (u64, u64) {
    (position >> NUMBER_BITS, position & ((1 << NUMBER_BITS) - 1))
}

/// The progress of a chunk's items.
struct Open {
    chunk: u64,
    walk: Walk,
    /// For each bucket, the number of the chunk's items in its input runs; the worker holds these
    /// numbers for the first open chunk.
    counts: Vec<u64>,
}

/// The route from a node several levels down.
pub(super) struct RandomRoute {
    tree: Tree,
    root: Node,
    levels: u32,
    open: VecDeque<Open>,
}

impl RandomRoute {
    pub(super) fn new(tree: Tree, root: Node, levels: u32) -> Self {
        RandomRoute {
            tree,
            root,
            levels,
            open: VecDeque::new(),
        }
    }

    /// Continues a chunk where it was left.
    pub(super) fn open_chunk(&mut self, worker: &mut ScatterWorker<'_>, chunk: u64) {
        if self.open.front().is_some_and(|open| open.chunk == chunk) {
            return;
        }
        let known = self.open.iter().position(|open| open.chunk == chunk);
        let mut next = match known.and_then(|at| self.open.remove(at)) {
            Some(open) => open,
            None => {
                self.open.truncate(OPEN_MAX - 1);
                Open {
                    chunk,
                    walk: Walk::new(self.tree, self.root, self.levels, chunk),
                    counts: vec![0; self.bucket_count()],
                }
            }
        };
        let counts = std::mem::take(&mut next.counts);
        let counts = worker.switch_run(chunk << NUMBER_BITS, counts);
        if let Some(last) = self.open.front_mut() {
            last.counts = counts;
        }
        self.open.push_front(next);
    }

    /// Ends the first of the open chunks.
    pub(super) fn end_chunk(&mut self, worker: &mut ScatterWorker<'_>) {
        self.open.pop_front();
        let none = vec![0; self.bucket_count()];
        let (chunk, counts) = match self.open.front_mut() {
            Some(open) => (open.chunk, std::mem::take(&mut open.counts)),
            None => (0, none),
        };
        worker.switch_run(chunk << NUMBER_BITS, counts);
    }
}

impl Route for RandomRoute {
    fn bucket_count(&self) -> usize {
        fan_out(self.levels)
    }

    fn route(&mut self, _: &Batch<'_>, buckets: &mut [u16]) -> Result<()> {
        if let Some(open) = self.open.front_mut() {
            open.walk.fill(buckets);
        }
        Ok(())
    }

    fn begin_run(&mut self, worker: &mut ScatterWorker<'_>, run: RunStart) {
        let (chunk, number) = chunk_and_number(run.position);
        self.open_chunk(worker, chunk);
        let count = self.bucket_count();
        let Some(open) = self.open.front_mut() else {
            return;
        };
        if open.walk.number() != number {
            // The chunk's walk was dropped because too many others were open.
            let mut counts = vec![0; count];
            open.walk.begin(chunk);
            for _ in 0..number {
                counts[open.walk.next()] += 1;
            }
            worker.switch_run(chunk << NUMBER_BITS, counts);
        }
    }
}
