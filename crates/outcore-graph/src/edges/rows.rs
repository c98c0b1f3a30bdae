//! Edges that the caller reads, such as the rows of a table.
//!
//! Contract: [`EdgeRows`] passes on each edge once, on all threads in parallel, in batches that
//! know their first row. Invalid ids are detected here, and reported with file and row.

use std::borrow::Cow;
use std::path::Path;

use outcore::{Error, Result};

use super::READ;
use super::item::Edge;
use super::named::{NamedEdge, check};
use crate::format::weight::WeightType;

/// A batch of consecutive rows of a file.
#[derive(Debug, Clone, Copy)]
pub struct EdgeBatch<'b> {
    /// The file.
    pub path: &'b Path,
    /// The number of the first row in the file, from 0.
    pub first_row: u64,
    /// The ids of both ends.
    pub ends: [EdgeIds<'b>; 2],
    /// Their weights, if there are any.
    pub weights: Option<RowWeights<'b>>,
}

/// The weights of a batch of edges.
#[derive(Debug, Clone, Copy)]
pub enum RowWeights<'b> {
    /// Four-byte floats.
    F32(&'b [f32]),
    /// Eight-byte floats.
    F64(&'b [f64]),
    /// Integers.
    I64(&'b [i64]),
}

impl RowWeights<'_> {
    fn bits(&self, index: usize, of: WeightType) -> std::result::Result<u64, String> {
        let bits = match self {
            RowWeights::F32(weights) => weights
                .get(index)
                .map(|weight| of.of_float((*weight).into())),
            RowWeights::F64(weights) => weights.get(index).map(|weight| of.of_float(*weight)),
            RowWeights::I64(weights) => weights.get(index).map(|weight| of.of_whole(*weight)),
        };
        bits.unwrap_or_else(|| Err("it has no weight".to_owned()))
    }
}

/// The ids at one end of a batch of edges.
#[derive(Debug, Clone, Copy)]
pub enum EdgeIds<'b> {
    /// Signed integers; negative ones are rejected.
    Numbers(&'b [i64]),
    /// Unsigned integers.
    Unsigned(&'b [u64]),
    /// Strings.
    Names(&'b [&'b str]),
}

/// Takes a batch and its number. Numbers of consecutive batches differ by at least the number of
/// rows.
pub type TakeEdges<'t> = dyn FnMut(&EdgeBatch<'_>, u64) -> Result<()> + 't;

/// Reads edges.
pub trait EdgeRows: Sync {
    /// The number of edges.
    fn count(&self) -> u64;

    /// Whether ids are strings.
    fn are_names(&self) -> bool;

    /// The type of the weights, if there are any.
    fn weights(&self) -> Option<WeightType>;

    /// Memory for all threads together; the implementation reserves it.
    fn memory_bytes(&self) -> u64;

    /// Bytes read so far.
    fn read_bytes(&self) -> u64;

    /// Passes some edges, evenly spread over all, to `take`.
    ///
    /// # Errors
    /// Errors of reading and of `take`.
    fn sample(&self, take: &mut TakeEdges<'_>) -> Result<()>;

    /// Passes edges to `take` until there are no more. All threads call it, and each edge goes to
    /// one thread.
    ///
    /// # Errors
    /// As [`EdgeRows::sample`].
    fn make(&self, take: &mut TakeEdges<'_>) -> Result<()>;
}

impl EdgeBatch<'_> {
    fn fault(&self, index: usize, cause: &str) -> Error {
        let row = self.first_row + index as u64;
        Error::corrupt(READ, format!("row {row} is not an edge: {cause}"))
            .path(self.path)
            .hint("correct or leave out the row, or name other columns with --columns")
    }

    /// The bits of an edge's weight, if edges have weights.
    fn weight(&self, index: usize, of: Option<WeightType>) -> Result<u64> {
        match (self.weights, of) {
            (Some(weights), Some(of)) => weights
                .bits(index, of)
                .map_err(|cause| self.fault(index, &cause)),
            _ => Ok(0),
        }
    }

    /// The vertex number at one end.
    fn id(&self, index: usize, ids: &EdgeIds<'_>) -> Result<u64> {
        match ids {
            EdgeIds::Unsigned(ids) => ids.get(index).copied(),
            EdgeIds::Numbers(ids) => match ids.get(index) {
                Some(id) if *id < 0 => {
                    return Err(self.fault(index, &format!("the id {id} is negative")));
                }
                id => id.map(|id| *id as u64),
            },
            EdgeIds::Names(_) => None,
        }
        .ok_or_else(|| self.fault(index, "its ids are not numbers"))
    }

    /// Rows.
    fn len(&self) -> usize {
        match self.ends[0] {
            EdgeIds::Numbers(ids) => ids.len(),
            EdgeIds::Unsigned(ids) => ids.len(),
            EdgeIds::Names(ids) => ids.len(),
        }
    }

    /// Passes the edges between numbers, with weights of this type, to `take`.
    pub(crate) fn each(&self, of: Option<WeightType>, mut take: impl FnMut(Edge)) -> Result<()> {
        for index in 0..self.len() {
            take(Edge {
                source: self.id(index, &self.ends[0])?,
                target: self.id(index, &self.ends[1])?,
                weight: self.weight(index, of)?,
            });
        }
        Ok(())
    }

    /// Passes the edges between names, with weights of this type and their places in the batch, to
    /// `take`.
    pub(crate) fn each_named(
        &self,
        of: Option<WeightType>,
        mut take: impl FnMut(usize, &NamedEdge<'_>) -> Result<()>,
    ) -> Result<()> {
        let [EdgeIds::Names(sources), EdgeIds::Names(targets)] = self.ends else {
            return Err(self.fault(0, "its ids are not strings"));
        };
        for (index, (source, target)) in sources.iter().zip(targets).enumerate() {
            for name in [source, target] {
                let checked = check(name.as_bytes());
                checked.map_err(|fault| self.fault(index, &fault.0))?;
            }
            let edge = NamedEdge {
                source: Cow::Borrowed(source.as_bytes()),
                target: Cow::Borrowed(target.as_bytes()),
                weight: self.weight(index, of)?,
            };
            take(index, &edge)?;
        }
        Ok(())
    }
}
