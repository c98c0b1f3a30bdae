//! The input as blocks: which range of which file a thread reads next.
//!
//! Contract (PALID, SPAA 2025, section 3, file streamer): the input is the concatenation of its
//! files' data. [`Blocks`] hands out pieces of about `block_bytes`, a whole number of elements
//! each, to any number of threads. The next piece comes from the drive with the fewest requests, so
//! that all drives read at once. Each block knows the position of its first element in the whole
//! input. Reads are extended to 4 KiB boundaries for direct I/O, so adjacent blocks may both read a
//! border block.

use std::sync::{Mutex, PoisonError};

use super::by_drive::ByDrive;
use outcore_io::memory::{BLOCK_BYTES, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Volume, VolumeFile};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::{Error, Result};

/// One input file: the range of its data, and their position in the whole input.
#[derive(Debug, Clone)]
pub struct InputPart {
    /// The open file.
    pub file: VolumeFile,
    /// Offset of the first element (after a header).
    pub data_at_bytes: u64,
    /// Bytes of data.
    pub data_len_bytes: u64,
    /// Elements in the files before this one.
    pub first_position: u64,
}

/// A piece of input to read.
#[derive(Debug, Clone)]
pub struct Block {
    /// Index of the file among the parts.
    pub part: usize,
    /// Offset of the read (a multiple of 4 KiB).
    pub read_at_bytes: u64,
    /// Length of the read (a multiple of 4 KiB).
    pub read_len_bytes: usize,
    /// Offset of the first element in the bytes read.
    pub skip_bytes: usize,
    /// Bytes of whole elements.
    pub payload_bytes: usize,
    /// Position of the first element in the whole input.
    pub position: u64,
}

/// Consecutive blocks of one file that are handed out together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stretch {
    part: usize,
    next: u64,
    end: u64,
}

/// The blocks of an input, each handed out once.
#[derive(Debug)]
pub struct Blocks {
    parts: Vec<InputPart>,
    element_bytes: u64,
    block_bytes: u64,
    /// Positions of blocks that are not handed out, ascending.
    done: Vec<u64>,
    /// For each file its index and its next block.
    left: Mutex<ByDrive<(usize, u64)>>,
}

impl Blocks {
    /// Blocks of about `block_bytes` over `parts`.
    pub fn new(parts: Vec<InputPart>, element_bytes: usize, block_bytes: usize) -> Self {
        let element_bytes = element_bytes as u64;
        let block_bytes = (block_bytes as u64 / element_bytes).max(1) * element_bytes;
        let files = parts.iter().enumerate();
        let files = files.filter(|(_, part)| part.data_len_bytes > 0);
        let left = ByDrive::of(files.map(|(index, part)| (part.file.drive_index, (index, 0))));
        Blocks {
            parts,
            element_bytes,
            block_bytes,
            done: Vec::new(),
            left: Mutex::new(left),
        }
    }

    /// Removes the blocks at these positions, which an earlier run has processed.
    pub(crate) fn without(self, mut positions: Vec<u64>) -> Self {
        positions.sort_unstable();
        Blocks {
            done: positions,
            ..self
        }
    }

    /// The block at a position.
    pub(crate) fn at(&self, position: u64) -> Block {
        let after = self
            .parts
            .partition_point(|part| part.first_position <= position);
        let holds = |part: &usize| self.parts[*part].data_len_bytes > 0;
        let index = (0..after).rev().find(holds).unwrap_or_default();
        let part = &self.parts[index];
        let at_bytes = (position - part.first_position) * self.element_bytes;
        self.block(index, part, at_bytes / self.block_bytes)
    }

    /// The files.
    pub fn parts(&self) -> &[InputPart] {
        &self.parts
    }

    /// Largest `read_len_bytes` of any block.
    pub(crate) fn read_bytes_max(&self) -> usize {
        block_ceil(self.block_bytes) as usize + 2 * BLOCK_BYTES
    }

    /// The next block for the thread of `port`; `None` if all are handed out.
    pub fn next(&self, port: &Port) -> Option<Block> {
        loop {
            let mut one = self.next_stretch(u64::MAX, port)?;
            if let Some(block) = self.next_of(&mut one) {
                return Some(block);
            }
        }
    }

    /// Reads the blocks that no other thread takes, ahead into buffers of `pool`, and passes each
    /// to `visit` with its elements, in no fixed order.
    ///
    /// # Errors
    /// The errors of reading, `check` and `visit`; corrupt for a file that became shorter.
    pub fn read_each(
        &self,
        volume: &Volume,
        pool: &Pool,
        check: impl Fn() -> Result<()>,
        mut visit: impl FnMut(&Block, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let next = |port: &Port| {
            let block = self.next(port)?;
            Some(ReadRange {
                file: &self.parts[block.part].file,
                at_bytes: block.read_at_bytes,
                len_bytes: block.read_len_bytes,
                what: block,
            })
        };
        let take = |read: Arrival<Block>| {
            let block = &read.what;
            let end = block.skip_bytes + block.payload_bytes;
            if read.len_bytes < end {
                let end_bytes = block.read_at_bytes + read.len_bytes as u64;
                return Err(became_shorter(&self.parts[block.part], end_bytes));
            }
            visit(block, &read.buf[block.skip_bytes..end])
        };
        Transfers::new(volume)?.read_each(pool, check, next, take)
    }

    /// The next blocks of a file on the drive with the fewest requests of `port`, in rotation among
    /// equals. Their number is that of the file's remaining blocks divided by `share`, at least
    /// one. So a slow drive delays only its own blocks. A thread that processes stretches receives
    /// its blocks mostly in order.
    pub(crate) fn next_stretch(&self, share: u64, port: &Port) -> Option<Stretch> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let files = left.next(port)?;
        let (part, next) = files.front_mut()?;
        let (part, number) = (*part, *next);
        let blocks = self.parts[part].data_len_bytes.div_ceil(self.block_bytes);
        let end = number + ((blocks - number) / share).max(1);
        *next = end;
        if end >= blocks {
            files.pop_front();
        }
        Some(Stretch {
            part,
            next: number,
            end,
        })
    }

    /// The next block of a stretch.
    pub fn next_of(&self, stretch: &mut Stretch) -> Option<Block> {
        while stretch.next < stretch.end {
            stretch.next += 1;
            let part = &self.parts[stretch.part];
            let block = self.block(stretch.part, part, stretch.next - 1);
            if self.done.is_empty() || self.done.binary_search(&block.position).is_err() {
                return Some(block);
            }
        }
        None
    }

    fn block(&self, part_index: usize, part: &InputPart, number: u64) -> Block {
        let start = number * self.block_bytes;
        let payload_bytes = self.block_bytes.min(part.data_len_bytes - start);
        let at = part.data_at_bytes + start;
        let read_at_bytes = block_floor(at);
        Block {
            part: part_index,
            read_at_bytes,
            read_len_bytes: (block_ceil(at + payload_bytes) - read_at_bytes) as usize,
            skip_bytes: (at - read_at_bytes) as usize,
            payload_bytes: payload_bytes as usize,
            position: part.first_position + start / self.element_bytes,
        }
    }
}

/// The error for a read of `part` that ended at `at_bytes` of the file, before the end of its data.
pub(crate) fn became_shorter(part: &InputPart, at_bytes: u64) -> Error {
    Error::changed_input(
        "read input",
        "the file changed while it was read: it became shorter",
    )
    .path(&part.file.path)
    .offset(at_bytes)
}
