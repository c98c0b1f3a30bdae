//! Keeps the neighbours that a search has found so far, so that a killed run can continue.
//!
//! Contract: the state of a search after a group of queries is the neighbours of all queries so
//! far. A run that continues passes these neighbours on again, and searches for the other queries.
//! The grouping of queries does not matter.
//!
//! Bounds: sixteen bytes per neighbour of the whole result.

use outcore::states::{Column, PassState};
use outcore::{Job, Result};
use outcore_io::journal::Progress;
use outcore_io::memory::Reservation;
use serde::{Deserialize, Serialize};

use super::Neighbours;

/// See the module.
pub(super) struct KeptNeighbours {
    pub(super) found: Neighbours,
    queries_count: usize,
    _held: Reservation,
}

/// The figures of a search, and how many neighbours it has found.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Figures {
    neighbours_count: usize,
    passes: u32,
    read_bytes: u64,
    measured: u64,
    gathered: u64,
    index_failed: bool,
    lists_read: u64,
}

impl KeptNeighbours {
    /// Reserves memory for the neighbours of all queries, and takes those that a killed run has
    /// found; `None` if the job keeps no state.
    ///
    /// # Errors
    /// Memory; a damaged state.
    pub(super) fn begin(job: &Job, queries_count: usize, k: usize) -> Result<Option<Self>> {
        if job.states.is_none() {
            return Ok(None);
        }
        let count = queries_count as u64 * k as u64;
        let mut kept = KeptNeighbours {
            found: Neighbours::none_yet(k),
            queries_count,
            _held: job.budget.reserve("neighbours that are kept", 16 * count)?,
        };
        job.restore_state(&mut kept)?;
        Ok(Some(kept))
    }

    /// Whether a killed run has found neighbours.
    pub(super) fn is_begun(&self) -> bool {
        !self.found.ids.is_empty()
    }

    /// Adds the neighbours of further queries, and the figures of the whole search.
    pub(super) fn add(&mut self, found: &Neighbours) {
        let Neighbours { ids, distances, .. } = &mut self.found;
        ids.extend_from_slice(&found.ids);
        distances.extend_from_slice(&found.distances);
        let (ids, distances) = (std::mem::take(ids), std::mem::take(distances));
        self.found = Neighbours {
            ids,
            distances,
            phases: Vec::new(),
            ..*found
        };
    }

    /// The figures of the search, without neighbours.
    pub(super) fn figures(&self) -> Neighbours {
        Neighbours {
            ids: Vec::new(),
            distances: Vec::new(),
            phases: Vec::new(),
            ..self.found
        }
    }
}

impl PassState for KeptNeighbours {
    const NAME: &'static str = "nearest neighbours";
    type Facts = Figures;

    fn facts(&self) -> Figures {
        let found = &self.found;
        Figures {
            neighbours_count: found.ids.len(),
            passes: found.passes,
            read_bytes: found.read_bytes,
            measured: found.measured,
            gathered: found.gathered,
            index_failed: found.index_failed,
            lists_read: found.lists_read,
        }
    }

    fn take(&mut self, facts: Figures) {
        self.found = Neighbours {
            k: self.found.k,
            ids: vec![0; facts.neighbours_count],
            distances: vec![0.0; facts.neighbours_count],
            passes: facts.passes,
            read_bytes: facts.read_bytes,
            measured: facts.measured,
            gathered: facts.gathered,
            index_failed: facts.index_failed,
            lists_read: facts.lists_read,
            recall: None,
            phases: Vec::new(),
        };
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![
            Column::of(&mut self.found.ids),
            Column::of(&mut self.found.distances),
        ]
    }

    fn progress(&self) -> Progress {
        Progress {
            done_bytes: (self.found.ids.len() / self.found.k.max(1)) as u64,
            total_bytes: self.queries_count as u64,
        }
    }
}
