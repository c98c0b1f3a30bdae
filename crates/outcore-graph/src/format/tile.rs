//! Tiles: each edge once, in squares of 2^16 x 2^16 vertices, for passes over the whole graph.
//!
//! Contract: a row is an edge's target and a column its source; for undirected edges, the row is
//! the larger end. Edges are in the order of (row / 2^16, column / 2^16, row, column). So a kernel
//! works on two windows of its state at a time, and edges of one target in a tile are adjacent. A
//! row of tiles with very many edges is split into parts by row, each of which has that order
//! ([`super::row`]).
//!
//! ```text
//! chunk    64 KiB: checksum u64, bytes in use u32, segments u32, then the segments, then zeros
//! segment  row / 2^16 u16, column / 2^16 u16, edges u32, then the edges
//! edge     row % 2^16 u16, column % 2^16 u16, and a weight of 4 or 8 bytes where the graph
//!          has weights
//! ```
//!
//! A tile that continues in the next chunk has a new segment there, so any thread can read each
//! chunk independently. Model: the grid of GridGraph (Zhu, Han, Chen, ATC 2015), and the tiles of
//! G-Store (Kumar, Huang, SC 2016), whose two-byte local ids halve the bytes to read.

use super::weight::WeightType;
use super::{Part, SUM_BYTES, checksum, is_intact, u16_at, u32_at};
use outcore_io::Result;

/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Bits of a vertex within its window.
pub(crate) const LOCAL_BITS: u32 = 16;

const HEAD_BYTES: usize = SUM_BYTES + 8;
const SEGMENT_BYTES: usize = 8;
const WORD_BYTES: usize = 4;

/// How many edges ahead a source is announced for prefetching.
///
/// N.B. 16 is a fifth slower, and 128 is no faster.
const AHEAD: usize = 64;

/// Receives full chunks and blocks.
pub(crate) type Emit<'e> = dyn FnMut(&[u8]) -> Result<()> + 'e;

/// Makes chunks from ordered edges.
#[derive(Debug)]
pub(crate) struct TilePacker {
    id: u64,
    /// Words of an edge.
    edge_words: usize,
    chunk: Vec<u8>,
    /// Bytes in use.
    used: usize,
    segments: u32,
    /// The tile of the open segment, and the segment's start.
    open: Option<(u32, usize)>,
    /// Edges in the open segment.
    edges: u32,
    /// Chunks before this one.
    chunks: u64,
}

impl TilePacker {
    pub(crate) fn new(id: u64, weights: Option<WeightType>) -> Self {
        TilePacker {
            id,
            edge_words: edge_words(weights),
            chunk: vec![0; CHUNK_BYTES],
            used: HEAD_BYTES,
            segments: 0,
            open: None,
            edges: 0,
            chunks: 0,
        }
    }

    /// Adds edges of a tile in order, as words: the low halves of row and column, and a weight if
    /// there are weights. A tile's number is its row, plus its column 16 bits above.
    pub(crate) fn extend(&mut self, tile: u32, words: &[u32], emit: &mut Emit<'_>) -> Result<()> {
        let edge_words = self.edge_words;
        let edge_bytes = WORD_BYTES * edge_words;
        let mut rest = words;
        while !rest.is_empty() {
            let is_same = self.open.is_some_and(|(open, _)| open == tile);
            if !is_same || self.used + edge_bytes > CHUNK_BYTES {
                self.end_segment();
                if self.used + SEGMENT_BYTES + edge_bytes > CHUNK_BYTES {
                    self.end_chunk(emit)?;
                }
                self.open = Some((tile, self.used));
                self.used += SEGMENT_BYTES;
            }
            let room = (CHUNK_BYTES - self.used) / edge_bytes * edge_words;
            let (now, later) = rest.split_at(room.min(rest.len()));
            let bytes: &[u8] = bytemuck::cast_slice(now);
            self.put(self.used, bytes);
            self.used += bytes.len();
            self.edges += (now.len() / edge_words) as u32;
            rest = later;
        }
        Ok(())
    }

    /// Ends the last chunk, and returns the number of chunks.
    pub(crate) fn finish(&mut self, emit: &mut Emit<'_>) -> Result<u64> {
        self.end_segment();
        if self.segments > 0 {
            self.end_chunk(emit)?;
        }
        Ok(self.chunks)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.chunk[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn end_segment(&mut self) {
        if let Some((tile, at)) = self.open.take() {
            self.put(at, &tile.to_le_bytes());
            self.put(at + WORD_BYTES, &self.edges.to_le_bytes());
            self.edges = 0;
            self.segments += 1;
        }
    }

    fn end_chunk(&mut self, emit: &mut Emit<'_>) -> Result<()> {
        self.put(SUM_BYTES, &(self.used as u32).to_le_bytes());
        self.put(SUM_BYTES + WORD_BYTES, &self.segments.to_le_bytes());
        self.chunk[self.used..].fill(0);
        let sum = checksum(self.id, Part::Tiles, self.chunks, &self.chunk);
        self.put(0, &sum.to_le_bytes());
        emit(&self.chunk)?;
        (self.used, self.segments) = (HEAD_BYTES, 0);
        self.chunks += 1;
        Ok(())
    }
}

/// Edges of one tile.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The first vertex of the window of rows.
    pub row_base: u32,
    /// The first vertex of the window of columns.
    pub column_base: u32,
    words: &'a [u32],
    weights: Option<WeightType>,
}

/// Words of an edge.
pub(crate) fn edge_words(weights: Option<WeightType>) -> usize {
    1 + weights.map_or(0, WeightType::words)
}

impl<'a> Segment<'a> {
    /// Number of edges.
    pub fn len(&self) -> usize {
        self.words.len() / edge_words(self.weights)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Each edge as (target, source); for undirected edges, the larger end comes first.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        self.edges_ahead(|_| ())
    }

    /// Like [`Segment::edges`]; `fetch` receives the source of an edge some edges ahead, so that
    /// its state can be prefetched ([`outcore_io::memory::prefetch`]). Targets ascend, but sources
    /// come in an order that the processor cannot predict.
    pub(crate) fn edges_ahead<F: Fn(usize)>(
        &self,
        fetch: F,
    ) -> impl Iterator<Item = (usize, usize)> + use<'a, F> {
        let (words, step) = (self.words, edge_words(self.weights));
        let (row_base, column_base) = (self.row_base as usize, self.column_base as usize);
        // N.B. `step_by` checks its position at each step, which is slower.
        (0..self.len()).map(move |index| {
            if let Some(ahead) = words.get((index + AHEAD) * step) {
                fetch(column_base + (ahead >> LOCAL_BITS) as usize);
            }
            let word = words[index * step];
            (
                row_base + (word & 0xFFFF) as usize,
                column_base + (word >> LOCAL_BITS) as usize,
            )
        })
    }

    /// Each edge with its weight, which is 1 if the graph has none.
    pub fn weighted_edges(&self) -> impl Iterator<Item = (usize, usize, f64)> + use<'a> {
        self.weighted_edges_ahead(|_| ())
    }

    /// The bits of an edge's weight by index, if there are weights.
    fn bits(&self) -> impl Fn(usize) -> u64 + use<'a> {
        let (words, weights) = (self.words, self.weights);
        move |index: usize| match weights {
            None => 0,
            Some(WeightType::F32) => u64::from(words[2 * index + 1]),
            Some(WeightType::F64 | WeightType::I64) => {
                u64::from(words[3 * index + 1]) | u64::from(words[3 * index + 2]) << 32
            }
        }
    }

    /// Each edge with the bits of its weight, as the graph stores it.
    pub fn stored_edges(&self) -> impl Iterator<Item = (usize, usize, u64)> + use<'a> {
        let bits = self.bits();
        self.edges()
            .enumerate()
            .map(move |(index, (row, column))| (row, column, bits(index)))
    }

    /// Like [`Segment::weighted_edges`], with a `fetch` as in [`Segment::edges_ahead`].
    pub(crate) fn weighted_edges_ahead<F: Fn(usize)>(
        &self,
        fetch: F,
    ) -> impl Iterator<Item = (usize, usize, f64)> + use<'a, F> {
        let weights = self.weights;
        let bits = self.bits();
        let weight = move |index: usize| match weights {
            Some(weights) => weights.value(bits(index)),
            None => 1.0,
        };
        self.edges_ahead(fetch)
            .enumerate()
            .map(move |(index, (row, column))| (row, column, weight(index)))
    }
}

/// The identity of a chunk: its graph and number, and the type of its weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkOf {
    pub(crate) id: u64,
    pub(crate) number: u64,
    pub(crate) weights: Option<WeightType>,
}

/// Passes each segment of chunk `number` to `visit`. Returns the number of edges, or `None` if the
/// chunk is damaged. `chunk` is aligned to four bytes.
///
/// # Errors
/// Errors of `visit`.
pub(crate) fn read_chunk(
    chunk: &[u8],
    ChunkOf {
        id,
        number,
        weights,
    }: ChunkOf,
    mut visit: impl FnMut(Segment<'_>) -> Result<()>,
) -> Result<Option<u64>> {
    if chunk.len() != CHUNK_BYTES || !is_intact(id, Part::Tiles, number, chunk) {
        return Ok(None);
    }
    let segments = u32_at(chunk, SUM_BYTES + WORD_BYTES);
    let (mut at, mut edges) = (HEAD_BYTES, 0);
    for _ in 0..segments {
        let count = u32_at(chunk, at + WORD_BYTES);
        let from = at + SEGMENT_BYTES;
        let to = from + count as usize * WORD_BYTES * edge_words(weights);
        let Ok(words) = bytemuck::try_cast_slice(&chunk[from..to]) else {
            return Ok(None);
        };
        visit(Segment {
            row_base: u32::from(u16_at(chunk, at)) << LOCAL_BITS,
            column_base: u32::from(u16_at(chunk, at + 2)) << LOCAL_BITS,
            words,
            weights,
        })?;
        edges += u64::from(count);
        at = to;
    }
    Ok(Some(edges))
}
