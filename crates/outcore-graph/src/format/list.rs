//! Lists: the neighbours of each vertex, in blocks of 4 KiB, for frontiers and samples.
//!
//! Contract: lists are in the order of their vertices, and each list ascends. A list that fits into
//! a block is never split, so reading it takes one request. A longer list begins in a block of its
//! own and fills further blocks; only its last block may be shared with later lists. Vertices
//! without neighbours have no entry.
//!
//! ```text
//! block    4 KiB: checksum u64, first vertex u32, entries u16, 0 u16, then entries,
//!          neighbours, weights of 4 or 8 bytes, zeros
//! entry    vertex - first vertex u16, neighbours in this block u16
//! index    the first vertex of each block, u32
//! degrees  the number of neighbours of each vertex, u32
//! ```
//!
//! The index is about a thousandth of the size of the blocks, and kept in memory: [`ListIndex`].

use std::ops::Range;

use super::weight::WeightType;
use super::{Part, SUM_BYTES, checksum, is_intact, u16_at, u32_at};
use outcore_io::Result;

/// Bytes of a block.
pub(crate) const LIST_BLOCK_BYTES: usize = 4096;

const HEAD_BYTES: usize = SUM_BYTES + 8;
const ENTRY_BYTES: usize = 4;
const WORD_BYTES: usize = 4;
/// The largest distance of a vertex from the first one of its block.
const DELTA_MAX: u32 = u16::MAX as u32;

/// Receives blocks, index and degrees.
pub(crate) trait ListFiles {
    /// Takes the next block.
    fn block(&mut self, block: &[u8]) -> Result<()>;
    /// Takes the first vertex of the next block.
    fn first(&mut self, vertex: u32) -> Result<()>;
    /// Takes the degree of the next vertex.
    fn degree(&mut self, degree: u32) -> Result<()>;
}

/// Makes blocks from ordered pairs (vertex, neighbour).
#[derive(Debug)]
pub(crate) struct ListPacker {
    id: u64,
    part: Part,
    weight_type: Option<WeightType>,
    /// Blocks before this one.
    blocks: u64,
    first: u32,
    /// (vertex, number of neighbours) of the entries in the open block.
    entries: Vec<(u32, u16)>,
    /// The neighbours in the block. Those at `open_from` and after belong to the current list, and
    /// no block has them yet.
    neighbours: Vec<u32>,
    /// The bits of their weights, if there are any.
    weights: Vec<u64>,
    open_from: usize,
    vertex: u32,
    /// The number of neighbours of the current vertex that are already in blocks.
    placed: u64,
    /// Vertices whose degrees have been written.
    counted: u32,
    /// The buffer of a block.
    block: Vec<u8>,
}

impl ListPacker {
    pub(crate) fn new(id: u64, part: Part, weight_type: Option<WeightType>) -> Self {
        ListPacker {
            id,
            part,
            weight_type,
            blocks: 0,
            first: 0,
            entries: Vec::new(),
            neighbours: Vec::new(),
            weights: Vec::new(),
            open_from: 0,
            vertex: 0,
            placed: 0,
            counted: 0,
            block: Vec::with_capacity(LIST_BLOCK_BYTES),
        }
    }

    /// Bytes of a neighbour.
    fn item_bytes(&self) -> usize {
        item_bytes(self.weight_type)
    }

    /// Neighbours of the current list that no block has yet.
    fn open(&self) -> usize {
        self.neighbours.len() - self.open_from
    }

    /// Adds neighbours of `vertex` with their weights, in ascending order; `item` extracts both.
    #[inline]
    pub(crate) fn extend<T>(
        &mut self,
        vertex: u32,
        mut items: &[T],
        item: impl Fn(&T) -> (u32, u64),
        files: &mut dyn ListFiles,
    ) -> Result<()> {
        if vertex != self.vertex {
            self.end_list(files)?;
            self.vertex = vertex;
        }
        while !items.is_empty() {
            if self.open() == alone_max(self.weight_type) {
                self.place_alone(files)?;
            }
            let room = alone_max(self.weight_type) - self.open();
            let (now, later) = items.split_at(room.min(items.len()));
            self.neighbours.extend(now.iter().map(|some| item(some).0));
            if self.weight_type.is_some() {
                self.weights.extend(now.iter().map(|some| item(some).1));
            }
            items = later;
        }
        Ok(())
    }

    /// If a list is longer than a block, writes a part of the list as a block of its own.
    #[cold]
    fn place_alone(&mut self, files: &mut dyn ListFiles) -> Result<()> {
        self.end_block(files)?;
        self.place(files)?;
        self.end_block(files)
    }

    /// Ends the last block of a graph with this many vertices; returns the number of blocks.
    pub(crate) fn finish(&mut self, vertices: u32, files: &mut dyn ListFiles) -> Result<u64> {
        self.end_list(files)?;
        self.end_block(files)?;
        while self.counted < vertices {
            self.count(0, files)?;
        }
        Ok(self.blocks)
    }

    fn count(&mut self, degree: u32, files: &mut dyn ListFiles) -> Result<()> {
        self.counted += 1;
        files.degree(degree)
    }

    fn end_list(&mut self, files: &mut dyn ListFiles) -> Result<()> {
        let degree = self.placed + self.open() as u64;
        if degree == 0 {
            return Ok(());
        }
        while self.counted < self.vertex {
            self.count(0, files)?;
        }
        // A degree that exceeds u32 is stored as the largest u32.
        self.count(u32::try_from(degree).unwrap_or(u32::MAX), files)?;
        let entries_bytes = (self.entries.len() + 1) * ENTRY_BYTES;
        let used = entries_bytes + self.neighbours.len() * self.item_bytes();
        let is_far = !self.entries.is_empty() && self.vertex - self.first > DELTA_MAX;
        if is_far || HEAD_BYTES + used > LIST_BLOCK_BYTES {
            self.end_block(files)?;
        }
        self.place(files)?;
        self.placed = 0;
        Ok(())
    }

    /// Adds the open list, or the rest of it, to the block.
    fn place(&mut self, files: &mut dyn ListFiles) -> Result<()> {
        if self.entries.is_empty() {
            self.first = self.vertex;
            files.first(self.first)?;
        }
        let open = self.open();
        self.entries.push((self.vertex, open as u16));
        self.placed += open as u64;
        self.open_from = self.neighbours.len();
        Ok(())
    }

    /// Ends the block, without the open list.
    fn end_block(&mut self, files: &mut dyn ListFiles) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let block = &mut self.block;
        block.clear();
        block.extend_from_slice(&[0; SUM_BYTES]);
        block.extend_from_slice(&self.first.to_le_bytes());
        block.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for (vertex, count) in self.entries.drain(..) {
            block.extend_from_slice(&((vertex - self.first) as u16).to_le_bytes());
            block.extend_from_slice(&count.to_le_bytes());
        }
        let placed = self.open_from;
        block.extend_from_slice(bytemuck::cast_slice(&self.neighbours[..placed]));
        self.neighbours.drain(..placed);
        if let Some(of) = self.weight_type {
            for bits in self.weights.drain(..placed) {
                block.extend_from_slice(&bits.to_le_bytes()[..of.words() * WORD_BYTES]);
            }
        }
        self.open_from = 0;
        block.resize(LIST_BLOCK_BYTES, 0);
        let sum = checksum(self.id, self.part, self.blocks, block);
        block[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        self.blocks += 1;
        files.block(block)
    }
}

/// The part of a vertex's list in one block.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    /// The vertex.
    pub vertex: u32,
    /// Its neighbours, ascending; for a list longer than a block, those in this block.
    pub neighbours: &'a [u32],
    /// Their weights; empty if the graph has none.
    pub weights: Weights<'a>,
}

/// The weights of the neighbours in a list.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    of: Option<WeightType>,
    words: &'a [u32],
}

impl<'a> Weights<'a> {
    /// The bits of each weight, as the graph stores it; empty if it has no weights.
    pub(crate) fn bits(self) -> impl Iterator<Item = u64> + use<'a> {
        let step = self.of.map_or(1, WeightType::words);
        let bits = |words: &[u32]| match words {
            [low, high] => u64::from(*low) | u64::from(*high) << u32::BITS,
            [low, ..] => u64::from(*low),
            [] => 0,
        };
        self.words.chunks_exact(step).map(bits)
    }

    /// The `count` weights, which are 1 if the graph has none.
    pub fn values(self, count: usize) -> impl Iterator<Item = f64> + use<'a> {
        let ones = match self.of {
            None => count,
            Some(_) => 0,
        };
        let of = self.of.unwrap_or(WeightType::F32);
        let values = self.bits().map(move |bits| of.value(bits));
        values.chain(std::iter::repeat_n(1.0, ones))
    }
}

/// Bytes of a neighbour with its weight.
fn item_bytes(weights: Option<WeightType>) -> usize {
    WORD_BYTES * (1 + weights.map_or(0, WeightType::words))
}

/// The most neighbours of one vertex in a block. A list longer than a block has this many
/// neighbours in each block except for the last.
pub(crate) fn alone_max(weights: Option<WeightType>) -> usize {
    (LIST_BLOCK_BYTES - HEAD_BYTES - ENTRY_BYTES) / item_bytes(weights)
}

/// The identity of a block: its graph, part and number, and the type of its weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockOf {
    pub(crate) id: u64,
    pub(crate) part: Part,
    pub(crate) number: u64,
    pub(crate) weights: Option<WeightType>,
}

/// Passes each list of block `number` of `part` to `visit`; returns false if the block is damaged.
/// `block` is aligned to four bytes.
///
/// # Errors
/// Errors of `visit`.
pub(crate) fn read_block(
    block: &[u8],
    BlockOf {
        id,
        part,
        number,
        weights: weight_type,
    }: BlockOf,
    mut visit: impl FnMut(List<'_>) -> Result<()>,
) -> Result<bool> {
    if block.len() != LIST_BLOCK_BYTES || !is_intact(id, part, number, block) {
        return Ok(false);
    }
    let first = u32_at(block, SUM_BYTES);
    let entries = u16_at(block, SUM_BYTES + WORD_BYTES) as usize;
    let neighbours_at = HEAD_BYTES + entries * ENTRY_BYTES;
    let Ok(words) = bytemuck::try_cast_slice::<u8, u32>(&block[neighbours_at..]) else {
        return Ok(false);
    };
    let entry = |index: usize| {
        let at = HEAD_BYTES + index * ENTRY_BYTES;
        (u16_at(block, at), u16_at(block, at + 2) as usize)
    };
    let all: usize = (0..entries).map(|index| entry(index).1).sum();
    let mut at = 0;
    for (delta, count) in (0..entries).map(entry) {
        let step = weight_type.map_or(0, WeightType::words);
        let weights = Weights {
            of: weight_type,
            words: &words[all + at * step..all + (at + count) * step],
        };
        visit(List {
            vertex: first + u32::from(delta),
            neighbours: &words[at..at + count],
            weights,
        })?;
        at += count;
    }
    Ok(true)
}

/// The first vertex of each block, by which a list is found.
#[derive(Debug)]
pub(crate) struct ListIndex(Vec<u32>);

impl ListIndex {
    pub(crate) fn new(firsts: Vec<u32>) -> Self {
        ListIndex(firsts)
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.0.len()
    }

    /// The blocks that contain the list of `vertex`, if it has one.
    pub(crate) fn blocks_of(&self, vertex: u32) -> Range<usize> {
        let end = self.0.partition_point(|first| *first <= vertex);
        let start = self.0[..end].partition_point(|first| *first < vertex);
        match start < end {
            // The list is at the start of a block, and may continue in the next ones.
            true => start..end,
            false => end.saturating_sub(1)..end,
        }
    }
}
