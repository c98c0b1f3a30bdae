//! Connected components: union-find over one pass of the edges.
//!
//! Contract: each vertex is labelled with the smallest vertex of its component. The directions of
//! edges are ignored, so for directed graphs these are the weakly connected components.
//!
//! Source: the union-find of Anderson and Woll (STOC 1991) with path halving, as in ConnectIt
//! (Dhulipala, Hong, Shun, VLDB 2021). A root is only linked to a smaller vertex, so a parent never
//! exceeds its children. Threads can therefore neither create a cycle nor lose a link, and the
//! final root of a component is its smallest vertex for any order of edges.
//!
//! Bounds: four bytes per vertex; one read of the tiles.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use outcore::states::{Column, PassState};
use outcore::{Job, Kind, Result};
use outcore_io::journal::Progress;
use outcore_io::memory::prefetch;
use serde::{Deserialize, Serialize};

use super::contraction::{LabelFile, components_by_bundles};
use crate::graph::Graph;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, numbers, values};

const KERNEL: &str = "connected components";
/// The number of stretches of the pass. A job that can be resumed may keep its state after each.
const STRETCHES: u64 = 64;

/// The smallest vertex of each vertex's component, in memory or on scratch.
#[derive(Debug)]
pub enum Components {
    /// In memory.
    Held(Vec<u32>),
    /// On scratch.
    Stored(LabelFile),
}

/// Finds the components of a graph of any size: with [`components`] if the state fits into memory,
/// otherwise with [`components_by_bundles`] in `scratch`.
///
/// # Errors
/// The errors of both functions.
pub fn components_of_any(job: &Job, graph: &Graph, scratch: &Path) -> Result<Components> {
    match components(job, graph) {
        Ok(labels) => Ok(Components::Held(labels)),
        // Nothing has been read yet, because the state is reserved first.
        Err(error) if error.kind() == Kind::Memory => {
            components_by_bundles(job, graph, scratch, None).map(Components::Stored)
        }
        Err(error) => Err(error),
    }
}

/// Returns the smallest vertex of each vertex's component.
///
/// # Errors
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn components(job: &Job, graph: &Graph) -> Result<Vec<u32>> {
    let _state = State::planned(
        job,
        graph,
        KERNEL,
        EdgeReads::Passes(1),
        StateBytes::new(4, 0),
    )?;
    let mut united = United {
        parents: numbers(graph.vertices(), |vertex| vertex),
        read: Read::default(),
        chunks: graph.manifest().chunks,
    };
    job.restore_state(&mut united)?;
    job.control.begin_phase("components", graph.tile_bytes());
    let stretch = match job.states {
        Some(_) => united.chunks.div_ceil(STRETCHES),
        None => united.chunks,
    };
    while united.read.chunks < united.chunks {
        let from = united.read.chunks;
        let to = united.chunks.min(from + stretch);
        let parents = &united.parents;
        let edges = graph.scan_chunks(job, from..to, |segment| {
            let edges = segment.edges_ahead(|source| prefetch(&parents[source]));
            for (target, source) in edges {
                // Most edges are in the largest component, where the root soon is the parent of
                // most vertices.
                let of = |vertex: usize| parents[vertex].load(Ordering::Relaxed);
                if of(target) != of(source) {
                    unite(parents, target as u32, source as u32);
                }
            }
            Ok(())
        })?;
        united.read.chunks = to;
        united.read.edges += edges;
        job.keep_state(&mut united)?;
    }
    graph.check_edges(united.read.edges)?;
    // A parent is not larger than its children, so its label is final before theirs.
    let mut labels = values(united.parents);
    for vertex in 0..labels.len() {
        labels[vertex] = labels[labels[vertex] as usize];
    }
    Ok(labels)
}

/// The state of the union-find between two stretches of the pass.
struct United {
    parents: Vec<AtomicU32>,
    read: Read,
    /// All chunks of the tiles.
    chunks: u64,
}

/// How much of the tiles was read.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Read {
    chunks: u64,
    edges: u64,
}

impl PassState for United {
    const NAME: &'static str = KERNEL;
    type Facts = Read;

    fn facts(&self) -> Read {
        self.read
    }

    fn take(&mut self, facts: Read) {
        self.read = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::Atomic32(&self.parents)]
    }

    fn progress(&self) -> Progress {
        Progress {
            done_bytes: self.read.chunks,
            total_bytes: self.chunks,
        }
    }
}

/// Returns the root of `vertex`, and halves the path to it.
fn find(parents: &[AtomicU32], mut vertex: u32) -> u32 {
    loop {
        let parent = parents[vertex as usize].load(Ordering::Relaxed);
        let above = parents[parent as usize].load(Ordering::Relaxed);
        if parent == above {
            return parent;
        }
        // Only roots are linked, and this is not a root, so no link is lost.
        parents[vertex as usize].store(above, Ordering::Relaxed);
        vertex = above;
    }
}

fn unite(parents: &[AtomicU32], a: u32, b: u32) {
    let (mut a, mut b) = (a, b);
    loop {
        (a, b) = (find(parents, a), find(parents, b));
        if a == b {
            return;
        }
        let (low, high) = (a.min(b), a.max(b));
        let link = parents[high as usize].compare_exchange(
            high,
            low,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if link.is_ok() {
            return;
        }
    }
}
