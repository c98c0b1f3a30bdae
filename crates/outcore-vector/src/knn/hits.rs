//! Results of one thread in a search within a radius, in chunks whose memory is reserved as they fill.
//!
//! Contract: no result is kept beyond the budget; the error for one that does not fit says how many there were.

use outcore::{Error, Job, Kind, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;

/// Results whose memory is reserved at once.
const CHUNK_RESULTS: usize = 4096;

/// A row within the radius of a query.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    /// The number of the query in its group.
    pub(super) query: usize,
    pub(super) row: u64,
    pub(super) distance: f64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Hits {
    chunks: Vec<Vec<Hit>>,
    held: Vec<Reservation>,
}

impl Hits {
    /// Takes one more.
    ///
    /// # Errors
    /// Memory: it does not fit.
    pub(super) fn push(&mut self, job: &Job, hit: Hit) -> Result<()> {
        let last = self.chunks.last();
        if last.is_none_or(|chunk| chunk.len() == CHUNK_RESULTS) {
            let chunk_bytes = (CHUNK_RESULTS * size_of::<Hit>()) as u64;
            self.held.push(job.budget.reserve("results", chunk_bytes)?);
            self.chunks.push(Vec::with_capacity(CHUNK_RESULTS));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(hit);
        }
        Ok(())
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Hit> {
        self.chunks.iter().flatten()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}

/// Says how many results there were when one more did not fit.
pub(super) fn too_many(error: Error, results: u64) -> Error {
    if error.kind() != Kind::Memory {
        return error;
    }
    let cause = format!(
        "more than {} are within the radius",
        units::counted(results, "result")
    );
    Error::new(Kind::Memory, "search within a radius", cause)
        .hint("choose a smaller radius, or allow more with --memory")
}
