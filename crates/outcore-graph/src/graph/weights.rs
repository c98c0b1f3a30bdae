//! Checks for weights that a kernel cannot use.
//!
//! Contract: a pass gives its edges to [`WeightCheck::accepts`]. [`WeightCheck::finish`] reports
//! the first edge, in the order of vertices, whose weight is negative or not finite, so the error
//! is the same for any number of threads. It reports vertices by their original ids.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use outcore::{Error, Job, Result};

use super::Graph;

/// Finds the first edge with a weight that is negative or not finite.
#[derive(Debug, Default)]
pub(crate) struct WeightCheck(Mutex<Option<(u32, u32, u64)>>);

impl WeightCheck {
    /// Whether the weight of the edge between these vertices is valid.
    #[inline]
    pub(crate) fn accepts(&self, from: usize, to: usize, weight: f64) -> bool {
        self.accepts_in(from, to, weight, 0.0..=f64::MAX)
    }

    /// Whether the weight of the edge between these vertices is in `range`.
    #[inline]
    pub(crate) fn accepts_in(
        &self,
        from: usize,
        to: usize,
        weight: f64,
        range: RangeInclusive<f64>,
    ) -> bool {
        let is_right = range.contains(&weight);
        if !is_right {
            self.note(from as u32, to as u32, weight.to_bits());
        }
        is_right
    }

    #[cold]
    fn note(&self, from: u32, to: u32, weight_bits: u64) {
        let edge = (from, to, weight_bits);
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *first = Some(first.map_or(edge, |before| before.min(edge)));
    }

    /// Fails if an edge of `graph` was rejected.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`].
    pub(crate) fn finish(
        &self,
        job: &Job,
        graph: &Graph,
        kernel: &str,
        hint: &'static str,
    ) -> Result<()> {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((from, to, bits)) = *first else {
            return Ok(());
        };
        let [from, to] = [from, to].map(|vertex| called(job, graph, vertex));
        let weight = f64::from_bits(bits);
        let cause = format!("the weight of the edge from {from} to {to} is {weight}");
        Err(Error::usage(kernel, cause).path(graph.dir()).hint(hint))
    }
}

/// The name of a vertex in an error: its original name, if that can be read.
fn called(job: &Job, graph: &Graph, vertex: u32) -> String {
    let names = graph.names(job).ok().flatten();
    let held = names.and_then(|names| names.held(job, vec![vertex]).ok());
    held.map_or_else(|| vertex.to_string(), |held| held.get(vertex).to_owned())
}
