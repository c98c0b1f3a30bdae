//! The sorted runs of a view: their places, and the verification of reads.
//!
//! Contract: a [`RunSet`] describes all runs of a view, in the order that decides between equal
//! records. Its index is in memory. Every block that is read is checked against the index. The
//! checksums are seeded by view, run and place, so that a damaged or foreign block is reported and
//! never merged. For the form of a run see [`super::shape`].

use std::sync::Arc;

use super::index::Index;
use super::shape::{Rule, Shape};
use outcore_io::checksum::block_checksum;
use outcore_io::memory::{Buf, block_ceil, block_floor};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::{Error, Kind, Result};

/// One sorted run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) file: VolumeFile,
    /// The number of the run in the view, which seeds its checksums.
    pub(crate) number: u32,
    /// The offset of the run in its file; a multiple of 4 KiB.
    pub(crate) base_bytes: u64,
    pub(crate) units: u64,
    /// The number of records of the run; equal to the number of units except for lines.
    pub(crate) records: u64,
    pub(crate) index: Arc<Index>,
    /// Bytes of the run's longest block of lines.
    pub(crate) longest_block_bytes: usize,
    /// The records of the run, if they are still in memory since they were sorted.
    pub(crate) resident: Option<Arc<Buf>>,
}

/// The runs of a view.
pub(crate) struct RunSet {
    pub(crate) volume: Arc<Volume>,
    pub(crate) shape: Shape,
    pub(crate) runs: Vec<Run>,
}

/// Consecutive blocks of one run, and the read that contains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) run: usize,
    pub(crate) first_block: u64,
    pub(crate) blocks: u64,
    /// Offset in the file and length of the read: multiples of 4 KiB.
    pub(crate) read_at_bytes: u64,
    pub(crate) read_len_bytes: usize,
    /// Offset of the blocks in the bytes read, and their length.
    pub(crate) skip_bytes: usize,
    pub(crate) payload_bytes: usize,
}

impl RunSet {
    /// Records of all runs.
    pub(crate) fn records(&self) -> u64 {
        self.runs.iter().map(|run| run.records).sum()
    }

    /// Units of all runs.
    pub(crate) fn units(&self) -> u64 {
        self.runs.iter().map(|run| run.units).sum()
    }

    /// The unit at which a block begins; for the one after the last, the run's end.
    pub(crate) fn start(&self, run: usize, block: u64) -> u64 {
        let facts = &self.runs[run];
        match self.shape.rule {
            Rule::Records { .. } => (block * self.shape.block_units).min(facts.units),
            Rule::Items(_) => facts.index.start(block).unwrap_or(facts.units),
        }
    }

    /// Number of records of the run before a block.
    pub(crate) fn rank_of_block(&self, run: usize, block: u64) -> u64 {
        let facts = &self.runs[run];
        match self.shape.rule {
            Rule::Records { .. } => self.start(run, block),
            Rule::Items(_) => facts.index.rank(block).unwrap_or(facts.records),
        }
    }

    /// The block of the record that begins at a unit.
    pub(crate) fn block_of(&self, unit: u64) -> u64 {
        unit / self.shape.block_units
    }

    /// The block after the last one in which a record before `to` begins.
    pub(crate) fn block_behind(&self, run: usize, to: u64) -> u64 {
        let mut block = self.shape.blocks_of(to);
        while block > 0 && self.start(run, block - 1) >= to {
            block -= 1;
        }
        block
    }

    /// Bytes of the longest block; more than [`Shape::block_bytes`] only if lines are long.
    pub(crate) fn longest_block_bytes(&self) -> usize {
        let longest = self.runs.iter().map(|run| run.longest_block_bytes).max();
        longest.unwrap_or(0).max(self.shape.block_bytes())
    }

    /// The block in which the record that contains a unit begins.
    pub(crate) fn block_with(&self, run: usize, unit: u64) -> u64 {
        self.block_behind(run, unit + 1).saturating_sub(1)
    }

    /// `blocks` blocks of a run that start at `first_block`, or the remaining ones.
    pub(crate) fn stretch(&self, run: usize, first_block: u64, blocks: u64) -> Stretch {
        let (shape, facts) = (&self.shape, &self.runs[run]);
        let blocks = blocks.min(shape.blocks_of(facts.units) - first_block);
        let unit_bytes = shape.unit_bytes as u64;
        let from = self.start(run, first_block);
        let to = self.start(run, first_block + blocks);
        let at_bytes = facts.base_bytes + from * unit_bytes;
        let end_bytes = facts.base_bytes + to * unit_bytes;
        let read_at_bytes = block_floor(at_bytes);
        Stretch {
            run,
            first_block,
            blocks,
            read_at_bytes,
            read_len_bytes: (block_ceil(end_bytes) - read_at_bytes) as usize,
            skip_bytes: (at_bytes - read_at_bytes) as usize,
            payload_bytes: (end_bytes - at_bytes) as usize,
        }
    }

    /// Checks the blocks of a stretch that was read.
    pub(crate) fn check(&self, stretch: &Stretch, payload: &[u8]) -> Result<()> {
        let run = &self.runs[stretch.run];
        let unit_bytes = self.shape.unit_bytes as u64;
        let mut rest = payload;
        for number in stretch.first_block..stretch.first_block + stretch.blocks {
            let from = self.start(stretch.run, number);
            let units = self.start(stretch.run, number + 1) - from;
            let (block, behind) = rest.split_at(((units * unit_bytes) as usize).min(rest.len()));
            rest = behind;
            let place = self.shape.place_of(run.number, number);
            if block_checksum(place, block) != run.index.checksums[number as usize] {
                let at_bytes = run.base_bytes + from * unit_bytes;
                return Err(self
                    .fault(
                        stretch.run,
                        at_bytes,
                        "a block is damaged: it differs from what was written",
                    )
                    .hint(
                        "the drive returned other data: restore the run, or build the view again",
                    ));
            }
        }
        Ok(())
    }

    /// The error for a run whose file ends too early.
    pub(crate) fn too_short(&self, run: usize, at_bytes: u64) -> Error {
        self.fault(run, at_bytes, "the run became shorter")
            .hint("restore the run, or build the view again")
    }

    pub(super) fn fault(&self, run: usize, at_bytes: u64, cause: &str) -> Error {
        let run = &self.runs[run];
        let cause = format!("{cause} (run {})", run.number);
        let error = Error::new(Kind::Corrupt, "read view", cause)
            .path(&run.file.path)
            .offset(at_bytes);
        match self.volume.drives().get(run.file.drive_index) {
            Some(drive) => error.drive(&drive.name),
            None => error,
        }
    }
}
