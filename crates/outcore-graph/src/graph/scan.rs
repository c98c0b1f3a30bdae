//! Reads all edges in one pass over the tiles.
//!
//! Contract: [`Graph::scan`] passes every tile's edges to a function, segment by segment, on all
//! threads and in no order. A function that only adds integers, or takes a minimum, gives the same
//! result in any order. Therefore, PageRank's sums are integers. Each edge comes once; for
//! undirected graphs, the function must handle both directions.
//!
//! [`Graph::each_list`] does the same with the blocks of lists, and [`Graph::verify`] reads
//! everything.
//!
//! Bounds: one read of the tiles, or of the lists; memory is the engine's window of pieces.

use std::ops::Range;

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{self, Batch, Sequence};
use outcore::{Input, Job, Result};
use outcore_io::units;

use super::plan::{LISTS, TILES};
use super::{Direction, Graph, damaged};
use crate::edges::item::fail;
use crate::format::Part;
use crate::format::list::{BlockOf, LIST_BLOCK_BYTES, List, read_block};
use crate::format::tile::{CHUNK_BYTES, ChunkOf, Segment, read_chunk};

/// Chunks of a graph's tiles. Each yields its number of edges, after `visit` has seen them.
struct Chunks<'g, F> {
    graph: &'g Graph,
    numbers: Range<u64>,
    visit: F,
}

impl<F: Fn(Segment<'_>) -> Result<()> + Sync> Chunks<'_, F> {
    fn edges_of(&self, number: u64, chunk: &[u8]) -> Result<u64> {
        let manifest = &self.graph.manifest;
        let what = ChunkOf {
            id: manifest.id,
            number,
            weights: manifest.weights(),
        };
        read_chunk(chunk, what, &self.visit)?.ok_or_else(|| {
            let path = self.graph.part_path(Part::Tiles);
            damaged(
                &path,
                format!("chunk {number} is damaged: it differs from what was written"),
            )
            .offset(number * CHUNK_BYTES as u64)
        })
    }
}

impl<F: Fn(Segment<'_>) -> Result<()> + Sync> Sequence for Chunks<'_, F> {
    type Item = u64;
    const YIELD: Yield = Yield::One;

    fn sources(&self, into: &mut Vec<Source>) {
        let all = self.graph.part_input(Part::Tiles);
        let bytes = |chunks: u64| chunks * CHUNK_BYTES as u64;
        let input = Input {
            header_bytes: all.header_bytes + bytes(self.numbers.start),
            data_bytes: Some(bytes(self.numbers.end - self.numbers.start)),
            ..all
        };
        into.push(Source {
            inputs: vec![input],
            element_bytes: CHUNK_BYTES,
            align_bytes: align_of::<u32>(),
            count: 0,
        });
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = u64> {
        let chunks = batch.bytes(0).chunks_exact(CHUNK_BYTES);
        let first = self.numbers.start + batch.first;
        (first..).zip(chunks).map(|(number, chunk)| {
            self.edges_of(number, chunk)
                .unwrap_or_else(|error| fail(error))
        })
    }
}

/// The blocks of a graph's lists. Each yields its number of neighbours, after `visit` has seen
/// them.
struct Blocks<'g, F> {
    graph: &'g Graph,
    part: Part,
    visit: F,
}

impl<F: Fn(u64, List<'_>) -> Result<()> + Sync> Blocks<'_, F> {
    fn neighbours_of(&self, number: u64, block: &[u8]) -> Result<u64> {
        let manifest = &self.graph.manifest;
        let what = BlockOf {
            id: manifest.id,
            part: self.part,
            number,
            weights: manifest.weights(),
        };
        let mut neighbours = 0;
        let is_intact = read_block(block, what, |list| {
            neighbours += list.neighbours.len() as u64;
            (self.visit)(number, list)
        })?;
        match is_intact {
            true => Ok(neighbours),
            false => {
                let path = self.graph.part_path(self.part);
                let cause = format!("block {number} is damaged: it differs from what was written");
                Err(damaged(&path, cause).offset(number * LIST_BLOCK_BYTES as u64))
            }
        }
    }
}

impl<F: Fn(u64, List<'_>) -> Result<()> + Sync> Sequence for Blocks<'_, F> {
    type Item = u64;
    const YIELD: Yield = Yield::One;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source {
            inputs: vec![self.graph.part_input(self.part)],
            element_bytes: LIST_BLOCK_BYTES,
            align_bytes: align_of::<u32>(),
            count: 0,
        });
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = u64> {
        let blocks = batch.bytes(0).chunks_exact(LIST_BLOCK_BYTES);
        (batch.first..).zip(blocks).map(|(number, block)| {
            self.neighbours_of(number, block)
                .unwrap_or_else(|error| fail(error))
        })
    }
}

impl Graph {
    /// Passes all lists of `direction` to `visit`, in no order; lists longer than a block come in
    /// parts.
    ///
    /// # Errors
    /// As [`Graph::scan`].
    pub(crate) fn each_list(
        &self,
        job: &Job,
        direction: Direction,
        visit: impl Fn(List<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut parts = self.parts(direction).iter();
        parts.try_for_each(|part| self.each_list_of(job, *part, |_, list| visit(list)))
    }

    /// Passes all lists of `part` to `visit`, each with the number of its block.
    ///
    /// # Errors
    /// As [`Graph::scan`].
    pub(super) fn each_list_of(
        &self,
        job: &Job,
        part: Part,
        visit: impl Fn(u64, List<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let wanted = self.neighbours();
        if self.index(part).blocks() == 0 {
            return Ok(());
        }
        let blocks = Blocks {
            graph: self,
            part,
            visit,
        };
        let add = |a, b| a + b;
        let (found, done) = primitives::fold_with_summary(job, &blocks, 0, add, add)?;
        self.note_read(LISTS, None, &done);
        match found == wanted {
            true => Ok(()),
            false => {
                let cause = format!(
                    "its lists have {}, not {wanted}",
                    units::counted(found, "neighbour")
                );
                Err(damaged(&self.part_path(part), cause))
            }
        }
    }

    /// The number of neighbours in the lists of one direction.
    pub(super) fn neighbours(&self) -> u64 {
        let manifest = &self.manifest;
        match manifest.directed {
            true => manifest.edges,
            false => 2 * manifest.edges - manifest.loops,
        }
    }

    /// The error for a list that is longer than the degree of its vertex.
    pub(super) fn damaged_list(&self, part: Part, vertex: u32) -> outcore::Error {
        let cause = format!("the list of vertex {vertex} is longer than its degree");
        damaged(&self.part_path(part), cause)
    }

    /// Reads all of the graph, and fails if any part is damaged.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`]; errors of reading.
    pub fn verify(&self, job: &Job) -> Result<()> {
        self.scan(job, |_| Ok(()))?;
        self.each_list(job, Direction::Both, |_| Ok(()))?;
        for direction in [Direction::Out, Direction::In] {
            let bytes = self.vertices() as u64 * size_of::<u32>() as u64;
            let _degrees = job.budget.reserve("degrees", bytes)?;
            self.degrees(job, direction)?;
        }
        match self.names(job)? {
            Some(names) => names.verify(job),
            None => Ok(()),
        }
    }

    /// Passes all edges to `visit`.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for a damaged chunk; errors of `visit` and of reading.
    pub fn scan(&self, job: &Job, visit: impl Fn(Segment<'_>) -> Result<()> + Sync) -> Result<()> {
        let edges = self.scan_chunks(job, 0..self.manifest.chunks, visit)?;
        self.check_edges(edges)
    }

    /// Passes the edges of these chunks to `visit`; returns their number.
    ///
    /// # Errors
    /// As [`Graph::scan`].
    pub(crate) fn scan_chunks(
        &self,
        job: &Job,
        numbers: Range<u64>,
        visit: impl Fn(Segment<'_>) -> Result<()> + Sync,
    ) -> Result<u64> {
        if numbers.is_empty() {
            return Ok(0);
        }
        let is_all = numbers == (0..self.manifest.chunks);
        let chunks = Chunks {
            graph: self,
            numbers,
            visit,
        };
        let add = |a, b| a + b;
        let (edges, done) = primitives::fold_with_summary(job, &chunks, 0, add, add)?;
        let planned = is_all.then(|| self.plan_pass(job));
        self.note_read(TILES, planned, &done);
        Ok(edges)
    }

    /// Fails unless all chunks had this many edges.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`].
    pub(crate) fn check_edges(&self, edges: u64) -> Result<()> {
        match edges == self.manifest.edges {
            true => Ok(()),
            false => {
                let wanted = self.manifest.edges;
                let cause = format!("it has {}, not {wanted}", units::counted(edges, "edge"));
                Err(damaged(&self.part_path(Part::Tiles), cause))
            }
        }
    }
}
