//! What a distribution reads, and which part of it a worker takes next.
//!
//! Contract: the blocks of an input, or the segments of a bucket, are each taken once, by whichever
//! worker asks. Jobs whose order counts, and for which the runs of input would take much memory
//! otherwise, take long stretches of neighbours: a share of what is left, so that all workers end
//! at about the same time. Only descriptions are kept here; nothing is read.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::bucket::{Piece, Segment};
use super::plan::SortPlan;
use crate::stream::source::{Block, Blocks, Stretch};
use crate::volume::Port;

/// What is distributed.
pub(crate) enum Source<'a> {
    /// The input, which is encoded as it is read.
    Blocks(&'a Blocks),
    /// A bucket of an earlier distribution.
    Segments {
        /// Those not yet taken; in the order of the input where it counts.
        left: Mutex<VecDeque<Segment>>,
        /// Positions of all pieces, ascending; none unless the order counts.
        positions: Vec<u64>,
    },
}

impl Source<'_> {
    /// The segments of a bucket.
    pub(crate) fn segments(mut segments: Vec<Segment>) -> Self {
        let first = |segment: &Segment| segment.pieces.first().map_or(0, |piece| piece.position);
        segments.sort_by_key(first);
        let pieces = segments.iter().flat_map(|segment| segment.pieces.iter());
        let mut positions: Vec<u64> = pieces.map(|piece| piece.position).collect();
        positions.sort_unstable();
        Source::Segments {
            left: Mutex::new(segments.into()),
            positions,
        }
    }

    /// How many pieces come before one in the order of the input.
    pub(crate) fn piece_number(&self, piece: &Piece) -> u64 {
        match self {
            Source::Segments { positions, .. } => {
                positions.partition_point(|&position| position < piece.position) as u64
            }
            Source::Blocks(_) => piece.position,
        }
    }
}

/// One worker's way through a source.
#[derive(Debug)]
pub(crate) struct Intake {
    /// One part in so many of what is left is taken at once, and at least one block or segment.
    share: u64,
    stretch: Stretch,
    segments: VecDeque<Segment>,
}

impl Intake {
    pub(crate) fn new(plan: &SortPlan) -> Self {
        let share = match (plan.is_sequential, plan.size.threads) {
            (false, _) => u64::MAX,
            (true, 1) => 1,
            (true, threads) => 2 * threads as u64,
        };
        Intake {
            share,
            stretch: Stretch::default(),
            segments: VecDeque::new(),
        }
    }

    /// The next block of an input.
    pub(crate) fn next_block(&mut self, blocks: &Blocks, port: &Port) -> Option<Block> {
        if let Some(block) = blocks.next_of(&mut self.stretch) {
            return Some(block);
        }
        self.stretch = blocks.next_stretch(self.share, port)?;
        blocks.next_of(&mut self.stretch)
    }

    /// The next of the segments that are left of a bucket.
    pub(crate) fn next_segment(&mut self, left: &Mutex<VecDeque<Segment>>) -> Option<Segment> {
        if self.segments.is_empty() {
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = (left.len() as u64 / self.share).max(1) as usize;
            let taken = taken.min(left.len());
            self.segments.extend(left.drain(..taken));
        }
        self.segments.pop_front()
    }
}
