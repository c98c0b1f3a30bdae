//! Connected components of a graph by label propagation: a kernel of your own on one page.
//!
//! Memory holds a number per vertex, and the edges are on the drives. Each vertex begins with its
//! own number as its label; every pass gives both ends of each edge the smaller of their labels,
//! until a pass changes nothing. A pass also sees labels that it has itself made smaller, so most
//! graphs take only a few passes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use outcore::Result;
use outcore::job::Job;
use outcore_graph::graph::Graph;
use outcore_graph::graph::state::{State, StateBytes, numbers, values};

/// The smallest vertex of each vertex's component, of the graph in `dir`.
///
/// # Errors
/// [`outcore::Kind::Memory`] if four bytes per vertex do not fit; the errors of reading.
pub fn label_propagation(job: &Job, dir: &Path) -> Result<Vec<u32>> {
    let graph = Graph::open(job, dir)?;
    let _state = State::reserve(job, &graph, "label propagation", StateBytes::new(4, 0))?;
    let labels = numbers(graph.vertices(), |vertex| vertex);
    loop {
        let is_changed = AtomicBool::new(false);
        graph.scan(job, |segment| {
            for (target, source) in segment.edges() {
                let least = labels[target]
                    .load(Ordering::Relaxed)
                    .min(labels[source].load(Ordering::Relaxed));
                for end in [target, source] {
                    if labels[end].fetch_min(least, Ordering::Relaxed) > least {
                        is_changed.store(true, Ordering::Relaxed);
                    }
                }
            }
            Ok(())
        })?;
        if !is_changed.into_inner() {
            return Ok(values(labels));
        }
    }
}
