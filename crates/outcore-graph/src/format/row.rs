//! Rows of tiles: edges that come by row are put in order by column, as tiles have them.
//!
//! Contract: a [`TileRow`] takes edges in the order of (row, column), which is that of lists, and hands those of one row of
//! tiles to the [`TilePacker`] tile by tile. It holds [`WORDS_MAX`] words of edges: a row of tiles that has more comes
//! in several parts, each in order, so a hub takes no more memory than others. Where parts end depends on the edges
//! alone. So tiles and lists come from one sort, in which no edge has a key for tiles.
//!
//! Bounds: [`TileRow::bytes`]; a copy of each edge, and a sort of the tiles of a part that have edges.

use outcore_io::Result;

use super::tile::{Emit, LOCAL_BITS, TilePacker};

/// Words of edges that are held: 4 MiB.
const WORDS_MAX: usize = 1 << 20;
/// Words of a block, which has edges of one tile: a cache line.
const BLOCK_WORDS: usize = 16;
const BLOCKS_MAX: usize = WORDS_MAX / BLOCK_WORDS;

/// The edges of a tile: blocks that are linked, in order.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    first_block: u32,
    /// Where the next word goes; at the border of a block, or 0, that is into a block to come.
    next_word: u32,
}

/// Edges of one row of tiles, by tile.
#[derive(Debug)]
pub(crate) struct TileRow {
    packer: TilePacker,
    is_weighted: bool,
    /// The number of the row of tiles.
    row: u32,
    /// Of each column of tiles.
    chains: Vec<Chain>,
    /// Columns that have edges.
    columns: Vec<u32>,
    /// Blocks one after another; the first is no chain's.
    words: Vec<u32>,
    /// Of each block, the next one of its tile.
    links: Vec<u32>,
}

impl TileRow {
    /// Of a graph of this many vertices.
    pub(crate) fn new(id: u64, vertices: u64, is_weighted: bool) -> Self {
        TileRow {
            packer: TilePacker::new(id, is_weighted),
            is_weighted,
            row: 0,
            chains: vec![Chain::default(); columns_of(vertices)],
            columns: Vec::new(),
            words: vec![0; BLOCK_WORDS],
            links: vec![0],
        }
    }

    /// Memory that it takes, at most.
    pub(crate) fn bytes(vertices: u64) -> u64 {
        let column_bytes = size_of::<Chain>() + size_of::<u32>();
        let block_bytes = (BLOCK_WORDS + 1) * size_of::<u32>();
        (columns_of(vertices) * column_bytes + (BLOCKS_MAX + 1) * block_bytes) as u64
    }

    /// Adds an edge, after those before it in order.
    #[inline]
    pub(crate) fn push(
        &mut self,
        (row, column, weight): (u32, u32, f32),
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        if row >> LOCAL_BITS != self.row {
            self.pack(emit)?;
            self.row = row >> LOCAL_BITS;
        }
        let tile = (column >> LOCAL_BITS) as usize;
        if (self.chains[tile].next_word as usize).is_multiple_of(BLOCK_WORDS) {
            self.begin_block(tile, emit)?;
        }
        let chain = &mut self.chains[tile];
        let at = chain.next_word as usize;
        self.words[at] = row & 0xFFFF | column << LOCAL_BITS;
        chain.next_word += 1;
        if self.is_weighted {
            self.words[at + 1] = weight.to_bits();
            chain.next_word += 1;
        }
        Ok(())
    }

    /// Gives the tile another block.
    #[cold]
    fn begin_block(&mut self, tile: usize, emit: &mut Emit<'_>) -> Result<()> {
        if self.links.len() > BLOCKS_MAX {
            self.pack(emit)?;
        }
        let block = self.links.len() as u32;
        let chain = &mut self.chains[tile];
        match chain.next_word {
            0 => {
                chain.first_block = block;
                self.columns.push(tile as u32);
            }
            next => self.links[next as usize / BLOCK_WORDS - 1] = block,
        }
        chain.next_word = block * BLOCK_WORDS as u32;
        self.links.push(0);
        self.words.resize(self.links.len() * BLOCK_WORDS, 0);
        Ok(())
    }

    /// Hands all that is held to the packer.
    fn pack(&mut self, emit: &mut Emit<'_>) -> Result<()> {
        self.columns.sort_unstable();
        for column in self.columns.drain(..) {
            let chain = std::mem::take(&mut self.chains[column as usize]);
            let tile = self.row | column << LOCAL_BITS;
            let end = chain.next_word as usize;
            let last_block = (end - 1) / BLOCK_WORDS;
            let mut block = chain.first_block as usize;
            while block != last_block {
                let from = block * BLOCK_WORDS;
                let words = &self.words[from..from + BLOCK_WORDS];
                self.packer.extend(tile, words, emit)?;
                block = self.links[block] as usize;
            }
            let words = &self.words[block * BLOCK_WORDS..end];
            self.packer.extend(tile, words, emit)?;
        }
        self.words.truncate(BLOCK_WORDS);
        self.links.truncate(1);
        Ok(())
    }

    /// Ends the last chunk; gives the number of chunks.
    pub(crate) fn finish(&mut self, emit: &mut Emit<'_>) -> Result<u64> {
        self.pack(emit)?;
        self.packer.finish(emit)
    }
}

fn columns_of(vertices: u64) -> usize {
    vertices.div_ceil(1 << LOCAL_BITS) as usize
}
