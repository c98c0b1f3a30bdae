//! All edges, in one pass over the tiles.
//!
//! Contract: [`Graph::scan`] shows every tile's edges to a function, segment by segment, on all threads at once and in
//! no order. A function that only adds, or takes the least, gives the same result in any order; PageRank's sums
//! are of integers for that reason. Each edge comes once; of undirected graphs the function sees to both
//! directions.
//!
//! Bounds: one read of the tiles; memory is the engine's window of pieces.

use outcore::primitives::batch::{Leaf, Yield};
use outcore::primitives::{self, Batch, Sequence};
use outcore::{Input, Job, Result};

use super::{Graph, damaged};
use crate::edges::item::fail;
use crate::format::Part;
use crate::format::tile::{CHUNK_BYTES, Segment, read_chunk};

/// The chunks of a graph's tiles, each as the number of its edges, once `visit` has seen them.
struct Chunks<'g, F> {
    graph: &'g Graph,
    visit: F,
}

impl<F: Fn(Segment<'_>) -> Result<()> + Sync> Chunks<'_, F> {
    fn edges_of(&self, number: u64, chunk: &[u8]) -> Result<u64> {
        let manifest = &self.graph.manifest;
        let what = (manifest.id, number, manifest.weighted);
        read_chunk(chunk, what, &self.visit)?.ok_or_else(|| {
            let path = self.graph.part_path(Part::Tiles);
            damaged(&path, format!("chunk {number} is not what was written"))
                .offset(number * CHUNK_BYTES as u64)
        })
    }
}

impl<F: Fn(Segment<'_>) -> Result<()> + Sync> Sequence for Chunks<'_, F> {
    type Item = u64;
    const YIELD: Yield = Yield::One;

    fn leaves(&self, into: &mut Vec<Leaf>) {
        into.push(Leaf {
            inputs: vec![Input::raw(self.graph.part_path(Part::Tiles))],
            element_bytes: CHUNK_BYTES,
            align_bytes: align_of::<u32>(),
            count: 0,
        });
    }

    fn leaf_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = u64> {
        let chunks = batch.bytes(0).chunks_exact(CHUNK_BYTES);
        (batch.first..).zip(chunks).map(|(number, chunk)| {
            self.edges_of(number, chunk)
                .unwrap_or_else(|error| fail(error))
        })
    }
}

impl Graph {
    /// Shows all edges to `visit`.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for a chunk that is not what was written; what `visit` and reading fail with.
    pub fn scan(
        &self,
        job: &Job,
        visit: impl Fn(Segment<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        if self.manifest.chunks == 0 {
            return Ok(());
        }
        let chunks = Chunks { graph: self, visit };
        let edges = primitives::map_reduce(job, &chunks, |edges| edges, 0, |a, b| a + b)?;
        match edges == self.manifest.edges {
            true => Ok(()),
            false => {
                let wanted = self.manifest.edges;
                let cause = format!("it has {edges} edges, {wanted} were written");
                Err(damaged(&self.part_path(Part::Tiles), cause))
            }
        }
    }
}
