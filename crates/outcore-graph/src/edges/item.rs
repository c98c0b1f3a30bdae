//! Edges as pairs of numbers, and their binary forms in files.
//!
//! Contract: an item is two ids of four or eight bytes. If edges have weights, the bits of a weight
//! follow: four bytes (padded to eight after eight-byte ids) or eight. Graph500's items have twelve
//! bytes. [`Edges`] is what a pass reads from such files.

use bytemuck::Pod;
use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{Batch, Sequence};
use outcore::{Error, Input, Job, Result, primitives};
use outcore_io::drive::paths;

use super::{DataSpan, PLACES, SamplePlaces, look_at_places};
use crate::format::weight::WeightType;

/// The form of an edge in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ItemShape {
    is_wide: bool,
    weights: Option<WeightType>,
    /// Whether an edge has Graph500's packed form of twelve bytes.
    is_packed: bool,
}

/// An edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    pub(crate) source: u64,
    pub(crate) target: u64,
    /// The bits of its weight; ignored if edges have no weights.
    pub(crate) weight: u64,
}

/// An edge in the form of a file.
pub(crate) trait Item: Pod + Send + Sync {
    /// Returns `None` for an id that is too large.
    fn of(edge: Edge) -> Option<Self>;
    fn edge(self) -> Edge;
}

impl Item for [u32; 2] {
    fn of(edge: Edge) -> Option<Self> {
        Some([edge.source.try_into().ok()?, edge.target.try_into().ok()?])
    }

    #[inline(always)]
    fn edge(self) -> Edge {
        Edge {
            source: self[0].into(),
            target: self[1].into(),
            weight: 0,
        }
    }
}

impl Item for [u32; 3] {
    fn of(edge: Edge) -> Option<Self> {
        let [source, target] = <[u32; 2]>::of(edge)?;
        Some([source, target, edge.weight as u32])
    }

    #[inline(always)]
    fn edge(self) -> Edge {
        Edge {
            weight: self[2].into(),
            ..[self[0], self[1]].edge()
        }
    }
}

impl Item for [u32; 4] {
    fn of(edge: Edge) -> Option<Self> {
        let [source, target] = <[u32; 2]>::of(edge)?;
        let [low, high] = [edge.weight as u32, (edge.weight >> u32::BITS) as u32];
        Some([source, target, low, high])
    }

    #[inline(always)]
    fn edge(self) -> Edge {
        Edge {
            weight: u64::from(self[2]) | u64::from(self[3]) << u32::BITS,
            ..[self[0], self[1]].edge()
        }
    }
}

impl Item for [u64; 2] {
    fn of(edge: Edge) -> Option<Self> {
        Some([edge.source, edge.target])
    }

    #[inline(always)]
    fn edge(self) -> Edge {
        Edge {
            source: self[0],
            target: self[1],
            weight: 0,
        }
    }
}

impl Item for [u64; 3] {
    fn of(edge: Edge) -> Option<Self> {
        Some([edge.source, edge.target, edge.weight])
    }

    #[inline(always)]
    fn edge(self) -> Edge {
        Edge {
            weight: self[2],
            ..[self[0], self[1]].edge()
        }
    }
}

impl ItemShape {
    pub(crate) const fn new(is_wide: bool, weights: Option<WeightType>) -> Self {
        ItemShape {
            is_wide,
            weights,
            is_packed: false,
        }
    }

    /// Graph500's packed edges: the low 32 bits of both ids, and a word with the high 16 bits of
    /// each.
    pub(crate) const fn packed() -> Self {
        ItemShape {
            is_wide: false,
            weights: None,
            is_packed: true,
        }
    }

    pub(crate) fn is_wide(self) -> bool {
        self.is_wide
    }

    pub(crate) fn weights(self) -> Option<WeightType> {
        self.weights
    }

    /// Words of a weight.
    fn weight_words(self) -> usize {
        self.weights.map_or(0, WeightType::words)
    }

    /// Bytes of an item.
    pub(crate) fn bytes(self) -> usize {
        if self.is_packed {
            return size_of::<[u32; 3]>();
        }
        match self.is_wide {
            true => 16 + 8 * self.weight_words().min(1),
            false => 8 + 4 * self.weight_words(),
        }
    }

    /// The source for a pass over files of such items.
    pub(crate) fn source(self, inputs: &[Input]) -> Source {
        Source {
            inputs: inputs.to_vec(),
            element_bytes: self.bytes(),
            align_bytes: if self.is_wide { 8 } else { 4 },
            count: 0,
        }
    }

    /// Calls `each` with all edges in `bytes`.
    pub(crate) fn each(self, bytes: &[u8], mut each: impl FnMut(Edge)) {
        fn all<T: Item>(bytes: &[u8], each: &mut impl FnMut(Edge)) {
            for item in bytemuck::cast_slice::<u8, T>(bytes) {
                each(item.edge());
            }
        }
        if self.is_packed {
            for [source, target, high] in bytemuck::cast_slice::<u8, [u32; 3]>(bytes) {
                each(Edge {
                    source: u64::from(*source) | u64::from(high & 0xFFFF) << 32,
                    target: u64::from(*target) | u64::from(high >> 16) << 32,
                    weight: 0,
                });
            }
            return;
        }
        match (self.is_wide, self.weight_words()) {
            (false, 0) => all::<[u32; 2]>(bytes, &mut each),
            (false, 1) => all::<[u32; 3]>(bytes, &mut each),
            (false, _) => all::<[u32; 4]>(bytes, &mut each),
            (true, 0) => all::<[u64; 2]>(bytes, &mut each),
            (true, _) => all::<[u64; 3]>(bytes, &mut each),
        }
    }
}

/// Fails the current pass. An iterator cannot return an error, so the error travels as a panic.
pub(crate) fn fail(error: Error) -> ! {
    std::panic::resume_unwind(Box::new(error))
}

/// Calls `make` for batches of consecutive edges with the position of the first, and yields its
/// results.
pub(crate) struct Edges<'a, F> {
    pub(crate) shape: ItemShape,
    pub(crate) inputs: &'a [Input],
    pub(crate) make: F,
}

/// Edges of a batch.
const BATCH_EDGES: usize = 1024;

impl<T: Send, F: Fn(&[u8], u64) -> Vec<T> + Sync> Sequence for Edges<'_, F> {
    type Item = T;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(self.shape.source(self.inputs));
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = T> {
        let bytes = batch.bytes(0);
        let parts = bytes.chunks(BATCH_EDGES * self.shape.bytes());
        let firsts = (batch.first..).step_by(BATCH_EDGES);
        parts
            .zip(firsts)
            .flat_map(move |(part, first)| (self.make)(part, first))
    }
}

/// Adds to the error the file and the place of the edge at `position` among all edges in `inputs`.
pub(crate) fn at_edge(
    error: Error,
    shape: ItemShape,
    inputs: &[Input],
    mut position: u64,
) -> Error {
    for input in inputs {
        let facts = paths::facts(&input.path);
        let data_bytes = facts.map_or(0, |facts| facts.len().saturating_sub(input.header_bytes));
        let count = data_bytes / shape.bytes() as u64;
        if position < count {
            let at_bytes = input.header_bytes + position * shape.bytes() as u64;
            return error.path(&input.path).offset(at_bytes);
        }
        position -= count;
    }
    error
}

/// Returns the largest id in a sample of the files, if there are edges.
pub(crate) fn largest_of_sample(inputs: &[Input], shape: ItemShape) -> Option<u64> {
    let mut largest = None;
    for input in inputs {
        let len_bytes = paths::len_or_zero(&input.path);
        let data = DataSpan {
            at_bytes: input.header_bytes,
            len_bytes: len_bytes.saturating_sub(input.header_bytes),
        };
        let places = SamplePlaces {
            item_bytes: shape.bytes() as u64,
            count: PLACES / inputs.len().max(1),
        };
        look_at_places(&input.path, data, places, |_, items| {
            shape.each(items, |edge| {
                largest = largest.max(Some(edge.source.max(edge.target)));
            });
        });
    }
    largest
}

/// Returns the largest id, if there are edges. Reads the files once.
pub(crate) fn largest_id(job: &Job, inputs: &[Input], shape: ItemShape) -> Result<Option<u64>> {
    let make = |bytes: &[u8], _: u64| {
        let mut largest = 0;
        shape.each(bytes, |edge| {
            largest = edge.source.max(edge.target).max(largest)
        });
        vec![largest]
    };
    let edges = Edges {
        shape,
        inputs,
        make,
    };
    primitives::map_reduce(job, &edges, Some, None, Option::max)
}
