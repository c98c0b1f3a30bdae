//! Who is whose neighbour, with what weight, on one level of Louvain's method.
//!
//! Contract: on the first level these are the lists of a graph, read a run of vertices at a time; on all others the edges
//! between communities, in memory. Weights are whole numbers: multiples of one unit ([`Units`]), so that sums of them are the
//! same in any order. Undirected edges stand at both of their ends.
//!
//! Bounds: of a graph, a [`ListHolder`]; sixteen bytes for each end of an edge between communities.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outcore::{Error, Job, Kind, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;

use super::KERNEL;
use crate::graph::Graph;
use crate::graph::held::{HeldLists, ListHolder, READING_BYTES, runs};
use crate::graph::state::sums;

const EDGE_BYTES: u64 = size_of::<CoarseEdge>() as u64;

/// Makes whole numbers of weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units(f64);

impl Units {
    /// The weight as a whole number.
    pub(super) fn of(self, weight: f32) -> u64 {
        (f64::from(weight) * self.0).round() as u64
    }

    /// Such that the weights of all edges, twice, are below 2^62: 1 where edges have none. One read of the tiles, if edges
    /// have weights.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a weight that is negative, or not a number.
    pub(super) fn of_graph(job: &Job, graph: &Graph) -> Result<Self> {
        if !graph.manifest().weighted {
            return Ok(Units(1.0));
        }
        // The bits of floats that are not negative are in the order of the floats.
        let largest = AtomicU64::new(0);
        let is_wrong = AtomicBool::new(false);
        graph.scan(job, |segment| {
            for (_, _, weight) in segment.weighted_edges() {
                match weight >= 0.0 {
                    true => _ = largest.fetch_max(f64::from(weight).to_bits(), Ordering::Relaxed),
                    false => is_wrong.store(true, Ordering::Relaxed),
                }
            }
            Ok(())
        })?;
        if is_wrong.into_inner() {
            let cause = "a weight is negative, or not a number";
            return Err(Error::usage(KERNEL, cause)
                .path(graph.dir())
                .hint("convert the edges again with weights of 0 or more"));
        }
        let largest = f64::from_bits(largest.into_inner());
        let whole = 2.0 * largest * graph.manifest().edges.max(1) as f64;
        // A power of two, so that weights keep all their digits but the smallest.
        let exponent = 61.0 - whole.max(f64::MIN_POSITIVE).log2().ceil();
        Ok(Units(exponent.min(1000.0).exp2()))
    }

    /// The sum of the weights of each vertex's edges, those to itself twice. One read of the tiles.
    ///
    /// # Errors
    /// What reading fails with.
    pub(super) fn strengths(self, job: &Job, graph: &Graph) -> Result<Vec<u64>> {
        let strengths = sums(graph.vertices());
        graph.scan(job, |segment| {
            for (target, source, weight) in segment.weighted_edges() {
                let weight = self.of(weight);
                strengths[target].fetch_add(weight, Ordering::Relaxed);
                strengths[source].fetch_add(weight, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(strengths.into_iter().map(AtomicU64::into_inner).collect())
    }
}

/// An edge between two communities, as one of them has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CoarseEdge {
    from: u32,
    to: u32,
    weight: u64,
}

/// The neighbours of one vertex.
pub(super) enum Neighbours<'a> {
    Listed(&'a HeldLists, usize, Units),
    Coarse(&'a [CoarseEdge]),
}

impl Neighbours<'_> {
    /// Calls `visit` with each neighbour and the weight.
    pub(super) fn each(&self, mut visit: impl FnMut(u32, u64)) {
        match self {
            Neighbours::Listed(lists, place, units) => {
                let (neighbours, weights) = (lists.neighbours(*place), lists.weights(*place));
                if weights.is_empty() {
                    neighbours.iter().for_each(|other| visit(*other, 1));
                }
                for (other, weight) in neighbours.iter().zip(weights) {
                    visit(*other, units.of(*weight));
                }
            }
            Neighbours::Coarse(edges) => edges.iter().for_each(|edge| visit(edge.to, edge.weight)),
        }
    }
}

/// The neighbours of all vertices of a level.
pub(super) enum Adjacency<'g> {
    OnDrives {
        lists: ListHolder<'g>,
        degrees: Vec<u32>,
        units: Units,
    },
    InMemory {
        /// In order.
        edges: Vec<CoarseEdge>,
        _held: Reservation,
    },
}

impl<'g> Adjacency<'g> {
    /// Calls `visit` with each of `vertices`, which ascend, and its neighbours.
    pub(super) fn each(
        &mut self,
        job: &Job,
        vertices: &[u32],
        mut visit: impl FnMut(u32, Neighbours<'_>),
    ) -> Result<()> {
        match self {
            Adjacency::OnDrives {
                lists,
                degrees,
                units,
            } => {
                for run in runs(vertices, degrees) {
                    job.control.check()?;
                    let held = lists.read(run.to_vec())?;
                    for (place, vertex) in held.vertices().iter().enumerate() {
                        visit(*vertex, Neighbours::Listed(&held, place, *units));
                    }
                }
            }
            Adjacency::InMemory { edges, .. } => {
                job.control.check()?;
                let mut rest = &edges[..];
                for vertex in vertices {
                    let skipped = rest.partition_point(|edge| edge.from < *vertex);
                    let own = rest[skipped..].partition_point(|edge| edge.from == *vertex);
                    visit(*vertex, Neighbours::Coarse(&rest[skipped..skipped + own]));
                    rest = &rest[skipped + own..];
                }
            }
        }
        Ok(())
    }

    /// The edges between communities, which `community` names for each vertex; `inside` is told of edges within one, from
    /// each of their ends, with the weight.
    ///
    /// # Errors
    /// [`Kind::Memory`] if they do not fit; what reading fails with.
    pub(super) fn contracted(
        mut self,
        job: &Job,
        community: &[u32],
        mut inside: impl FnMut(u32, u32, u64),
    ) -> Result<Adjacency<'g>> {
        if let Adjacency::InMemory { edges, .. } = &mut self {
            for edge in edges.iter_mut() {
                let (from, to) = (community[edge.from as usize], community[edge.to as usize]);
                if from == to {
                    inside(edge.from, edge.to, edge.weight);
                }
                *edge = CoarseEdge { from, to, ..*edge };
            }
            edges.retain(|edge| edge.from != edge.to);
            merge(edges);
            return Ok(self);
        }
        let free_bytes = job.budget.free_bytes().saturating_sub(READING_BYTES);
        let ends: u64 = match &self {
            Adjacency::OnDrives { degrees, .. } => degrees.iter().map(|d| u64::from(*d)).sum(),
            Adjacency::InMemory { .. } => 0,
        };
        let most = (free_bytes / EDGE_BYTES).min(ends);
        let gathering = job
            .budget
            .reserve("edges between communities", most * EDGE_BYTES)?;
        let mut edges: Vec<CoarseEdge> = Vec::with_capacity(most as usize);
        let mut is_full = false;
        let all: Vec<u32> = (0..community.len() as u32).collect();
        self.each(job, &all, |vertex, neighbours| {
            let from = community[vertex as usize];
            neighbours.each(|other, weight| {
                let to = community[other as usize];
                if from == to {
                    return inside(vertex, other, weight);
                }
                if edges.len() as u64 == most && !is_full {
                    merge(&mut edges);
                    // Merging again and again would take for ever.
                    is_full = edges.len() as u64 > most - most / 4;
                }
                if !is_full {
                    edges.push(CoarseEdge { from, to, weight });
                }
            });
        })?;
        if is_full {
            return Err(too_many(job, ends, most));
        }
        merge(&mut edges);
        edges.shrink_to_fit();
        drop((gathering, self));
        let bytes = edges.len() as u64 * EDGE_BYTES;
        Ok(Adjacency::InMemory {
            _held: job.budget.reserve("edges between communities", bytes)?,
            edges,
        })
    }
}

/// Puts edges in order, and those of the same ends together.
fn merge(edges: &mut Vec<CoarseEdge>) {
    edges.sort_unstable();
    edges.dedup_by(|next, kept| {
        let is_same = (next.from, next.to) == (kept.from, kept.to);
        if is_same {
            kept.weight += next.weight;
        }
        is_same
    });
}

fn too_many(job: &Job, ends: u64, most: u64) -> Error {
    let cause = format!(
        "the communities of the first level have more than {} edges between them, which do not fit into memory",
        units::count(most / 2)
    );
    let held_bytes = job.budget.used_bytes() - most * EDGE_BYTES;
    let enough = (held_bytes + ends * EDGE_BYTES + READING_BYTES).next_multiple_of(1 << 20);
    Error::new(Kind::Memory, KERNEL, cause).hint(format!(
        "allow more with --memory; {} are certainly enough",
        units::bytes(enough)
    ))
}
