//! Rows of tiles: brings edges that come by row into the order of tiles.
//!
//! Contract: a [`TileRow`] takes edges in the order of (row, column), which is the order of lists,
//! and passes the edges of one row of tiles to the [`TilePacker`] tile by tile. It holds 4 MiB of
//! edges; for graphs of more than 2^20 vertices, four bytes per vertex, up to 16 MiB. A row of
//! tiles with more edges comes in several parts, each in order, so a hub needs no more memory than
//! other vertices. Only the edges determine where parts end. This way, tiles and lists come from
//! one sort, without separate keys for tiles.
//!
//! Bounds: [`TileRow::bytes`]; a copy of each edge, and a sort of the nonempty tiles of a part.

use outcore_io::Result;

use super::tile::{Emit, LOCAL_BITS, TilePacker, edge_words};
use super::weight::WeightType;

/// The number of words of edges that are held, for a graph with few vertices and for one with many.
/// With more columns of tiles, each column has fewer edges of a part, and a pass loads the same
/// window of columns more often.
///
/// N.B. At 2^22 vertices, 2^20 words make PageRank an eighth slower than 2^22 words; more words
/// make it no faster.
const WORDS_LEAST: usize = 1 << 20;
const WORDS_MOST: usize = 1 << 22;
/// Words of a block, which holds edges of one tile: a cache line.
const BLOCK_WORDS: usize = 16;

/// The edges of a tile: linked blocks, in order.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    first_block: u32,
    /// Index of the next word; at the border of a block, or 0, the next word needs a new block.
    next_word: u32,
}

/// Edges of one row of tiles, by tile.
#[derive(Debug)]
pub(crate) struct TileRow {
    packer: TilePacker,
    weights: Option<WeightType>,
    /// Words of a block that are used for edges.
    block_words: usize,
    blocks_max: usize,
    /// The number of the row of tiles.
    row: u32,
    /// For each column of tiles.
    chains: Vec<Chain>,
    /// Columns with edges.
    columns: Vec<u32>,
    /// The blocks; the first belongs to no chain.
    words: Vec<u32>,
    /// For each block, the next one of its tile.
    links: Vec<u32>,
}

impl TileRow {
    /// Creates a row for a graph with this many vertices.
    pub(crate) fn new(id: u64, vertices: u64, weights: Option<WeightType>) -> Self {
        TileRow {
            packer: TilePacker::new(id, weights),
            weights,
            block_words: BLOCK_WORDS / edge_words(weights) * edge_words(weights),
            blocks_max: blocks_max(vertices),
            row: 0,
            chains: vec![Chain::default(); columns_of(vertices)],
            columns: Vec::new(),
            words: vec![0; BLOCK_WORDS],
            links: vec![0],
        }
    }

    /// The most memory that it needs.
    pub(crate) fn bytes(vertices: u64) -> u64 {
        let column_bytes = size_of::<Chain>() + size_of::<u32>();
        let block_bytes = (BLOCK_WORDS + 1) * size_of::<u32>();
        (columns_of(vertices) * column_bytes + (blocks_max(vertices) + 1) * block_bytes) as u64
    }

    /// Adds edges of a row with their columns and weights, in ascending order; `item` extracts
    /// both.
    #[inline]
    pub(crate) fn extend<T>(
        &mut self,
        row: u32,
        items: &[T],
        item: impl Fn(&T) -> (u32, u64),
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        if row >> LOCAL_BITS != self.row {
            self.pack(emit)?;
            self.row = row >> LOCAL_BITS;
        }
        for (column, weight) in items.iter().map(item) {
            let tile = (column >> LOCAL_BITS) as usize;
            // The rest of a block may be too small for an edge.
            let place = self.chains[tile].next_word as usize % BLOCK_WORDS;
            if place == 0 || place == self.block_words {
                self.begin_block(tile, emit)?;
            }
            let chain = &mut self.chains[tile];
            let at = chain.next_word as usize;
            self.words[at] = row & 0xFFFF | column << LOCAL_BITS;
            chain.next_word += 1;
            match self.weights {
                None => {}
                Some(WeightType::F32) => {
                    self.words[at + 1] = weight as u32;
                    chain.next_word += 1;
                }
                Some(WeightType::F64 | WeightType::I64) => {
                    self.words[at + 1] = weight as u32;
                    self.words[at + 2] = (weight >> u32::BITS) as u32;
                    chain.next_word += 2;
                }
            }
        }
        Ok(())
    }

    /// Links a new block to the tile.
    #[cold]
    fn begin_block(&mut self, tile: usize, emit: &mut Emit<'_>) -> Result<()> {
        if self.links.len() > self.blocks_max {
            self.pack(emit)?;
        }
        let block = self.links.len() as u32;
        let chain = &mut self.chains[tile];
        match chain.next_word {
            0 => {
                chain.first_block = block;
                self.columns.push(tile as u32);
            }
            next => self.links[(next as usize - 1) / BLOCK_WORDS] = block,
        }
        chain.next_word = block * BLOCK_WORDS as u32;
        self.links.push(0);
        self.words.resize(self.links.len() * BLOCK_WORDS, 0);
        Ok(())
    }

    /// Passes all held edges to the packer.
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
                let words = &self.words[from..from + self.block_words];
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

    /// Ends the last chunk, and returns the number of chunks.
    pub(crate) fn finish(&mut self, emit: &mut Emit<'_>) -> Result<u64> {
        self.pack(emit)?;
        self.packer.finish(emit)
    }
}

fn blocks_max(vertices: u64) -> usize {
    let words = vertices.clamp(WORDS_LEAST as u64, WORDS_MOST as u64) as usize;
    words / BLOCK_WORDS
}

fn columns_of(vertices: u64) -> usize {
    vertices.div_ceil(1 << LOCAL_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tile::{ChunkOf, read_chunk};

    /// Each edge comes once, and a part of a row has its tiles in order, for any number of edges in
    /// the row.
    #[test]
    fn a_row_with_more_edges_than_are_held_comes_in_parts_that_are_in_order() {
        for weights in [None, Some(WeightType::F32), Some(WeightType::I64)] {
            let (vertices, mut chunks) = (5u32 << LOCAL_BITS, Vec::new());
            let mut row = TileRow::new(7, vertices.into(), weights);
            let mut emit = |chunk: &[u8]| {
                chunks.push(bytemuck::pod_collect_to_vec::<u8, u32>(chunk));
                Ok(())
            };
            // Hubs in the first row of tiles, with neighbours in all columns, and a later row with
            // few edges.
            let hub = (9..14).flat_map(|at| (0..vertices).map(move |column| (at, column)));
            let edges: Vec<(u32, u32)> = hub.chain([(70_000, 3), (70_000, 300_000)]).collect();
            for (index, (at, column)) in edges.iter().enumerate() {
                let bits = weights.map_or(0, |of| of.of_whole(index as i64).unwrap());
                let edge = |column: &u32| (*column, bits);
                row.extend(*at, &[*column], edge, &mut emit).unwrap();
            }
            let count = row.finish(&mut emit).unwrap();
            assert_eq!(count, chunks.len() as u64);
            let (mut found, mut tiles) = (Vec::new(), Vec::new());
            for (number, chunk) in (0..).zip(&chunks) {
                let what = ChunkOf {
                    id: 7,
                    number,
                    weights,
                };
                let read = read_chunk(bytemuck::cast_slice(chunk), what, |segment| {
                    tiles.push((segment.row_base, segment.column_base));
                    let edges = segment.weighted_edges();
                    found.extend(edges.map(|(a, b, weight)| (a as u32, b as u32, weight as u32)));
                    Ok(())
                });
                assert!(read.unwrap().is_some());
            }
            let parts = tiles.windows(2).filter(|pair| pair[1] < pair[0]).count();
            assert!((1..6).contains(&parts), "{parts}");
            assert_eq!(tiles.last(), Some(&(65_536, 262_144)));
            found.sort_unstable();
            let weight = |index: usize| if weights.is_some() { index as u32 } else { 1 };
            let wanted: Vec<_> = edges
                .iter()
                .enumerate()
                .map(|(i, e)| (e.0, e.1, weight(i)))
                .collect();
            assert!(found == wanted);
        }
    }

    #[test]
    fn parts_are_longer_where_there_are_many_vertices() {
        let parts = |vertices: u64| {
            let (mut tiles, mut number) = (Vec::new(), 0);
            let mut row = TileRow::new(7, vertices, None);
            let mut emit = |chunk: &[u8]| {
                let words: Vec<u32> = bytemuck::pod_collect_to_vec(chunk);
                let read = read_chunk(
                    bytemuck::cast_slice(&words),
                    ChunkOf {
                        id: 7,
                        number,
                        weights: None,
                    },
                    |segment| {
                        tiles.push(segment.column_base);
                        Ok(())
                    },
                );
                assert!(read.unwrap().is_some());
                number += 1;
                Ok(())
            };
            // Twice as many edges as the shortest part has.
            let columns: Vec<u32> = (0..1 << 18).collect();
            for at in 0..8 {
                let edge = |column: &u32| (*column, 0);
                row.extend(at, &columns, edge, &mut emit).unwrap();
            }
            row.finish(&mut emit).unwrap();
            1 + tiles.windows(2).filter(|pair| pair[1] < pair[0]).count()
        };
        assert!(parts(1 << 20) > 1);
        assert_eq!(parts(1 << 22), 1);
    }
}
