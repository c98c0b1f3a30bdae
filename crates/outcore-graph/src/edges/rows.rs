//! Edges that somebody else reads: the rows of a table, say.
//!
//! Contract: [`EdgeRows`] gives each edge once, on all threads at the same time, in batches that know their first row. What
//! cannot be an id is found here, and told with file and row.

use std::borrow::Cow;
use std::path::Path;

use outcore::{Error, Result};

use super::item::Edge;
use super::named::{NamedEdge, check};
use super::{ID_LIMIT, READ};

/// Some neighbouring rows of a file.
#[derive(Debug, Clone, Copy)]
pub struct EdgeBatch<'b> {
    /// The file.
    pub path: &'b Path,
    /// The number of the first of the rows in the file, from 0 on.
    pub first_row: u64,
    /// The ids at their two ends.
    pub ends: [EdgeIds<'b>; 2],
    /// Their weights, if there are any.
    pub weights: Option<&'b [f32]>,
}

/// The ids at one end of some edges.
#[derive(Debug, Clone, Copy)]
pub enum EdgeIds<'b> {
    /// Whole numbers; those below 0 are refused.
    Numbers(&'b [i64]),
    /// Strings.
    Names(&'b [&'b str]),
}

/// Takes batches of edges, each with a number that is as much larger than that of another as the other has rows, at least.
pub type TakeEdges<'t> = dyn FnMut(&EdgeBatch<'_>, u64) -> Result<()> + 't;

/// Reads edges.
pub trait EdgeRows: Sync {
    /// Edges.
    fn count(&self) -> u64;

    /// Whether ids are strings.
    fn are_names(&self) -> bool;

    /// Whether there are weights.
    fn is_weighted(&self) -> bool;

    /// Memory that all threads together need, of which they keep account themselves.
    fn memory_bytes(&self) -> u64;

    /// Bytes that have been read.
    fn read_bytes(&self) -> u64;

    /// Gives some edges from all over to `take`.
    ///
    /// # Errors
    /// What reading and `take` fail with.
    fn sample(&self, take: &mut TakeEdges<'_>) -> Result<()>;

    /// Gives edges to `take` until there are no more. All threads call it, and each edge goes to one of them.
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

    fn weight(&self, index: usize) -> f32 {
        let weights = self.weights.map(|weights| weights.get(index).copied());
        weights.map_or(1.0, Option::unwrap_or_default)
    }

    /// Shows the edges between numbers, and their places in the batch.
    pub(crate) fn each(&self, mut take: impl FnMut(Edge)) -> Result<()> {
        let [EdgeIds::Numbers(sources), EdgeIds::Numbers(targets)] = self.ends else {
            return Err(self.fault(0, "its ids are not numbers"));
        };
        for (index, (source, target)) in sources.iter().zip(targets).enumerate() {
            let id = |id: &i64| match u64::try_from(*id) {
                Ok(number) if number < ID_LIMIT => Ok(number),
                Ok(_) => Err(self.fault(index, &format!("the id {id} is not below 2^48"))),
                Err(_) => Err(self.fault(index, &format!("the id {id} is negative"))),
            };
            take(Edge {
                source: id(source)?,
                target: id(target)?,
                weight: self.weight(index),
            });
        }
        Ok(())
    }

    /// Shows the edges between names, and their places in the batch.
    pub(crate) fn each_named(
        &self,
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
                weight: self.weight(index),
            };
            if !edge.weight.is_finite() {
                return Err(self.fault(index, &format!("the weight {} is not finite", edge.weight)));
            }
            take(index, &edge)?;
        }
        Ok(())
    }
}
