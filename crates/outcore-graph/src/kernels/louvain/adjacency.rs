//! The neighbours of each vertex on one level of Louvain's method, with weights.
//!
//! Contract: on the first level, neighbours come from the lists of a graph, which are read a run of
//! vertices at a time. On later levels, they are the edges between communities. These are in memory
//! if they fit. Otherwise, each memory-full of edges is summed and written to scratch; the engine
//! sorts the result. Each visit of vertices then reads all of it from scratch. Weights are
//! integers, multiples of one unit ([`Units`]), so sums are the same in any order. Undirected edges
//! are stored at both ends.
//!
//! Bounds: a [`ListHolder`] for a graph. Edges between communities take sixteen bytes per end, in
//! memory or on scratch, and on scratch once more while they are sorted. The edges of one community
//! must fit into memory, in the room that vertices of the first level had.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use outcore::primitives::appended::append_to;
use outcore::{Context, Error, Input, Job, Result, ScratchDrive};
use outcore_io::drive::PrivateDir;
use outcore_io::memory::Reservation;

use super::KERNEL;
use crate::format::weight::WeightType;
use crate::graph::Graph;
use crate::graph::held::{HeldLists, ListHolder, READING_BYTES, runs};
use crate::graph::state::sums;
use crate::graph::weights::WeightCheck;

const EDGE_BYTES: u64 = size_of::<CoarseEdge>() as u64;
/// Memory for writing to scratch.
const WRITING_BYTES: u64 = 2 << 20;
/// The least bytes of edges in a scratch file.
const GATHERED_BYTES_MIN: u64 = 1 << 20;
/// A stretch of vertices that are visited in one random order ends when they have this many edges.
const STRETCH_EDGES: usize = 1 << 13;
/// The least memory of a level for the edges between its communities.
pub(super) const CONTRACTING_BYTES: u64 =
    WRITING_BYTES + GATHERED_BYTES_MIN + STRETCH_EDGES as u64 * 2 * EDGE_BYTES;

/// Converts weights to integers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    /// Two powers of two; their product may be too large for a float.
    factors: [f64; 2],
    /// The type of the stored weights, if there are any.
    weights: Option<WeightType>,
}

impl Units {
    /// Converts a weight to an integer.
    pub(super) fn of(self, weight: f64) -> u64 {
        (weight * self.factors[0] * self.factors[1]).round() as u64
    }

    /// Converts the stored bits of a weight to an integer.
    fn of_bits(self, bits: u64) -> u64 {
        self.of(self.weights.map_or(1.0, |of| of.value(bits)))
    }

    /// Chooses the unit so that twice the sum of all weights is below 2^62; 1 if edges have no
    /// weights. Reads the tiles once if edges have weights.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a weight that is negative or not a number.
    pub(super) fn of_graph(job: &Job, graph: &Graph) -> Result<Self> {
        if !graph.manifest().weighted {
            return Ok(Units {
                factors: [1.0; 2],
                weights: None,
            });
        }
        // The bits of nonnegative floats are in the order of the floats.
        let largest = AtomicU64::new(0);
        let weights = WeightCheck::default();
        graph.scan(job, |segment| {
            for (larger, smaller, weight) in segment.weighted_edges() {
                if weights.accepts(smaller, larger, weight) {
                    largest.fetch_max(weight.to_bits(), Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        let hint = "convert the edges again with weights of 0 or more";
        weights.finish(job, graph, KERNEL, hint)?;
        let largest = f64::from_bits(largest.into_inner());
        let edges = 2.0 * graph.manifest().edges.max(1) as f64;
        let whole = largest.max(f64::from_bits(1)).log2() + edges.log2();
        // A power of two, so that weights lose only their smallest digits.
        let exponent = 61.0 - whole.ceil();
        let half = (exponent / 2.0).floor();
        Ok(Units {
            factors: [half.exp2(), (exponent - half).exp2()],
            weights: graph.manifest().weights(),
        })
    }

    /// Returns the sum of the weights of each vertex's edges; those to itself count twice. Reads
    /// the tiles once.
    ///
    /// # Errors
    /// Errors of reading.
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

/// An edge between two communities, as stored at one of them: this community, the other one, and 64
/// bits of weight.
type CoarseEdge = u128;

fn coarse(from: u32, to: u32, weight: u64) -> CoarseEdge {
    u128::from(from) << 96 | u128::from(to) << 64 | u128::from(weight)
}

fn from_of(edge: CoarseEdge) -> u32 {
    (edge >> 96) as u32
}

fn to_of(edge: CoarseEdge) -> u32 {
    (edge >> 64) as u32
}

fn weight_of(edge: CoarseEdge) -> u64 {
    edge as u64
}

/// If both edges have the same ends, adds the weight of `next` to `kept` and returns true. The
/// weights of all edges together are below 2^62.
fn takes(kept: &mut CoarseEdge, next: CoarseEdge) -> bool {
    let is_same = *kept >> 64 == next >> 64;
    if is_same {
        *kept += u128::from(weight_of(next));
    }
    is_same
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
                    visit(*other, units.of_bits(*weight));
                }
            }
            Neighbours::Coarse(edges) => {
                edges
                    .iter()
                    .for_each(|edge| visit(to_of(*edge), weight_of(*edge)));
            }
        }
    }
}

/// Random orders: SplitMix64, from a seed and a level.
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64, level: u32) -> Self {
        let mut draws = Draws(seed ^ u64::from(level) << 48);
        // Makes similar seeds give unrelated numbers.
        draws.0 = draws.next();
        draws
    }

    /// Continues the draws of a killed run from their `state`.
    pub(super) fn after(state: u64) -> Self {
        Draws(state)
    }

    /// The state from which the next draws follow.
    pub(super) fn state(&self) -> u64 {
        self.0
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^ (number >> 31)
    }
}

/// The numbers below `count` in a random order (Fisher, Yates), or in ascending order without
/// `draws`.
fn order_of(count: usize, draws: Option<&mut Draws>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if let Some(draws) = draws {
        for last in (1..count).rev() {
            let drawn = (u128::from(draws.next()) * (last as u128 + 1)) >> u64::BITS;
            order.swap(last, drawn as usize);
        }
    }
    order
}

/// Vertices that are visited in one random order, with the ranges of their edges.
#[derive(Default)]
struct Stretch {
    vertices: Vec<(u32, Range<usize>)>,
    edges_count: usize,
}

impl Stretch {
    /// Adds edges that follow the previous ones.
    fn push(&mut self, vertex: u32, edges: Range<usize>) {
        self.edges_count += edges.len();
        match self.vertices.last_mut() {
            Some((last, range)) if *last == vertex => range.end = edges.end,
            _ => self.vertices.push((vertex, edges)),
        }
    }

    fn last(&self) -> Option<u32> {
        self.vertices.last().map(|(vertex, _)| *vertex)
    }

    fn is_full(&self) -> bool {
        self.edges_count >= STRETCH_EDGES
    }

    /// Passes all vertices to `visit`, and clears them.
    fn show(
        &mut self,
        edges: &[CoarseEdge],
        draws: Option<&mut Draws>,
        visit: &mut impl FnMut(u32, Neighbours<'_>),
    ) {
        for place in order_of(self.vertices.len(), draws) {
            let (vertex, range) = &self.vertices[place];
            visit(*vertex, Neighbours::Coarse(&edges[range.clone()]));
        }
        self.vertices.clear();
        self.edges_count = 0;
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
        /// Sorted.
        edges: Vec<CoarseEdge>,
        _held: Reservation,
    },
    /// Sorted, in a file that is removed with its directory.
    OnScratch {
        path: PathBuf,
        count: u64,
        _dir: PrivateDir,
    },
}

impl<'g> Adjacency<'g> {
    /// Calls `visit` with each of `vertices`, which ascend, and its neighbours. Without `draws`,
    /// the order is that of `vertices`. Otherwise, vertices whose edges are held together are
    /// visited in a random order. Only the edges determine which vertices these are.
    pub(super) fn each(
        &mut self,
        job: &Job,
        vertices: &[u32],
        mut draws: Option<&mut Draws>,
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
                    for place in order_of(held.vertices().len(), draws.as_deref_mut()) {
                        let neighbours = Neighbours::Listed(&held, place, *units);
                        visit(held.vertices()[place], neighbours);
                    }
                }
            }
            Adjacency::InMemory { edges, .. } => {
                job.control.check()?;
                let (mut from, mut stretch) = (0, Stretch::default());
                for vertex in vertices {
                    from += edges[from..].partition_point(|edge| from_of(*edge) < *vertex);
                    let own = edges[from..].partition_point(|edge| from_of(*edge) == *vertex);
                    if own == 0 {
                        continue;
                    }
                    stretch.push(*vertex, from..from + own);
                    from += own;
                    if stretch.is_full() {
                        stretch.show(edges, draws.as_deref_mut(), &mut visit);
                    }
                }
                stretch.show(edges, draws, &mut visit);
            }
            Adjacency::OnScratch { .. } if vertices.is_empty() => {}
            Adjacency::OnScratch { path, .. } => {
                let mut wanted = vertices.iter().peekable();
                let (mut held, mut stretch): (Vec<CoarseEdge>, _) =
                    (Vec::new(), Stretch::default());
                let stored = Context::of_job(job).read_inputs::<CoarseEdge>(&[Input::raw(&*path)]);
                stored.for_each_in_order(|edges| {
                    for edge in edges {
                        let from = from_of(*edge);
                        if stretch.is_full() && stretch.last() != Some(from) {
                            stretch.show(&held, draws.as_deref_mut(), &mut visit);
                            held.clear();
                        }
                        while wanted.next_if(|vertex| **vertex < from).is_some() {}
                        if wanted.peek() == Some(&&from) {
                            stretch.push(from, held.len()..held.len() + 1);
                            held.push(*edge);
                        }
                    }
                    Ok(())
                })?;
                stretch.show(&held, draws, &mut visit);
            }
        }
        Ok(())
    }

    /// Returns the edges between communities, in memory or `scratch`; `community` gives each
    /// vertex's community. Edges within a community are passed to `inside`, from each of their
    /// ends, with the weight.
    ///
    /// # Errors
    /// Errors of reading and writing; [`outcore::Kind::Memory`] if there is too little memory to
    /// sort.
    pub(super) fn contracted(
        mut self,
        job: &Job,
        scratch: &Path,
        community: &[u32],
        mut inside: impl FnMut(u32, u32, u64),
    ) -> Result<Adjacency<'g>> {
        if let Adjacency::InMemory { edges, .. } = &mut self {
            for edge in edges.iter_mut() {
                let (a, b, weight) = (from_of(*edge), to_of(*edge), weight_of(*edge));
                let (from, to) = (community[a as usize], community[b as usize]);
                if from == to {
                    inside(a, b, weight);
                }
                *edge = coarse(from, to, weight);
            }
            edges.retain(|edge| from_of(*edge) != to_of(*edge));
            merge(edges);
            return Ok(self);
        }
        let free_bytes = job.budget.free_bytes();
        let free_bytes = free_bytes.saturating_sub(READING_BYTES + WRITING_BYTES);
        let ends: u64 = match &self {
            Adjacency::OnDrives { degrees, .. } => degrees.iter().map(|d| u64::from(*d)).sum(),
            Adjacency::OnScratch { count, .. } => *count,
            Adjacency::InMemory { .. } => 0,
        };
        let most = (free_bytes.max(GATHERED_BYTES_MIN) / EDGE_BYTES).min(ends);
        let gathering = job
            .budget
            .reserve("edges between communities", most * EDGE_BYTES)?;
        let mut edges: Vec<CoarseEdge> = Vec::with_capacity(most as usize);
        let mut spilled = Spilled::default();
        let mut failure = None;
        let all: Vec<u32> = (0..community.len() as u32).collect();
        self.each(job, &all, None, |vertex, neighbours| {
            let from = community[vertex as usize];
            neighbours.each(|other, weight| {
                let to = community[other as usize];
                if from == to {
                    return inside(vertex, other, weight);
                }
                if edges.len() as u64 == most {
                    merge(&mut edges);
                    // If merging frees little memory, repeated merging would take too long.
                    if edges.len() as u64 > most - most / 4 && failure.is_none() {
                        failure = spilled.take(job, scratch, &mut edges).err();
                    }
                    if failure.is_some() {
                        edges.clear();
                    }
                }
                edges.push(coarse(from, to, weight));
            });
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        merge(&mut edges);
        if spilled.paths.is_empty() {
            edges.shrink_to_fit();
            drop((gathering, self));
            let bytes = edges.len() as u64 * EDGE_BYTES;
            return Ok(Adjacency::InMemory {
                _held: job.budget.reserve("edges between communities", bytes)?,
                edges,
            });
        }
        spilled.take(job, scratch, &mut edges)?;
        drop((edges, gathering, self));
        spilled.summed(job)
    }
}

/// Edges on scratch, in several files.
#[derive(Default)]
struct Spilled {
    dir: Option<PrivateDir>,
    paths: Vec<PathBuf>,
}

impl Spilled {
    /// Writes the edges, and clears them.
    fn take(&mut self, job: &Job, scratch: &Path, edges: &mut Vec<CoarseEdge>) -> Result<()> {
        let dir = match self.dir.take() {
            Some(dir) => dir,
            None => {
                job.device.sweep_private_dirs(scratch)?;
                job.device.make_private_dir(scratch)?
            }
        };
        let path = absolute(&dir).join(format!("part-{}", self.paths.len()));
        self.dir = Some(dir);
        append_to(job, &path, |file| file.append(bytemuck::cast_slice(edges)))?;
        self.paths.push(path);
        edges.clear();
        Ok(())
    }

    /// Sorts all edges and sums those with the same ends; returns them in memory if they fit.
    fn summed<'g>(mut self, job: &Job) -> Result<Adjacency<'g>> {
        let Some(dir) = self.dir.take() else {
            return Err(Error::usage(KERNEL, "nothing is on scratch"));
        };
        let root = absolute(&dir);
        let path = root.join(format!("part-{}", self.paths.len()));
        let mut sorting = job.clone();
        sorting.options.drives = vec![ScratchDrive::new(&root)];
        let inputs: Vec<Input> = self.paths.iter().map(Input::raw).collect();
        let sorted = Context::of_job(&sorting).read_inputs::<CoarseEdge>(&inputs);
        let count = append_to(job, &path, |file| {
            let (mut kept, mut count) = (None, 0);
            let mut end = |edge: CoarseEdge| {
                count += 1;
                file.append(bytemuck::bytes_of(&edge))
            };
            sorted.sort().for_each_in_order(|edges| {
                edges.iter().try_for_each(|edge| {
                    if kept.as_mut().is_some_and(|kept| takes(kept, *edge)) {
                        return Ok(());
                    }
                    kept.replace(*edge).map_or(Ok(()), &mut end)
                })
            })?;
            kept.map_or(Ok(()), end)?;
            Ok(count)
        })?;
        self.paths
            .iter()
            .try_for_each(|path| job.device.remove(path))?;
        let bytes = count * EDGE_BYTES;
        let left_bytes = job.budget.free_bytes().saturating_sub(READING_BYTES);
        if bytes > left_bytes {
            return Ok(Adjacency::OnScratch {
                path,
                count,
                _dir: dir,
            });
        }
        let held = job.budget.reserve("edges between communities", bytes)?;
        let mut edges = Vec::with_capacity(count as usize);
        let stored = Context::of_job(job).read_inputs::<CoarseEdge>(&[Input::raw(&path)]);
        stored.for_each_in_order(|some| {
            edges.extend_from_slice(some);
            Ok(())
        })?;
        Ok(Adjacency::InMemory { edges, _held: held })
    }
}

fn absolute(dir: &PrivateDir) -> PathBuf {
    std::path::absolute(dir.path()).unwrap_or_default()
}

/// Sorts edges, and sums those with the same ends.
fn merge(edges: &mut Vec<CoarseEdge>) {
    edges.sort_unstable();
    edges.dedup_by(|next, kept| takes(kept, *next));
}
