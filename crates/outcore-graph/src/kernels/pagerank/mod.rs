//! PageRank by power iteration, with jumps to all vertices or to some.
//!
//! Contract: ranks are defined as in networkx. A surfer follows an edge with probability `alpha`,
//! and otherwise jumps to any vertex; from a vertex without edges it always jumps. In personalized
//! PageRank, the surfer jumps only to some vertices, in proportion to their weights. All edges of a
//! vertex are equally likely, parallel ones included, as in networkx with `weight=None`; on
//! request, they are followed in proportion to their weights.
//!
//! Iterations end when the sum of all changes is below `tolerance` times the number of vertices, or
//! below [`CHANGE_DEFAULT`] without a tolerance. Ranks sum to 1, so a bound per vertex would be
//! meaningless for graphs with many vertices.
//!
//! Source: Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking" (Stanford, 1999). Rank
//! is summed along edges as 64-bit integers, in units of 2^-62 of all rank. Sums of integers are
//! the same in any order, so ranks have the same bytes for any threads and memory. Rounding takes
//! less than 10^-18 from the flow along an edge; by weight, less than 2^-51 of this flow.
//! [`spread`] defines how rank is spread over edges.
//!
//! Bounds: twenty bytes per vertex, twenty-four by weight; one read of the tiles per iteration, and
//! two more at the start by weight.

mod spread;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use outcore_io::journal::Progress;
use outcore_io::memory::prefetch;
use outcore_io::threads;
use serde::{Deserialize, Serialize};

use crate::format::tile::Segment;
use crate::graph::Graph;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, sums};
use spread::{ByWeight, Evenly, Spread};

/// The sum of all rank, as an integer.
const WHOLE: f64 = (1u64 << 62) as f64;
const KERNEL: &str = "PageRank";
/// Without a tolerance, iterations end when all changes sum to less than this. With the usual
/// `alpha`, the error of ranks is then less than six millionths of all rank.
const CHANGE_DEFAULT: f64 = 1e-6;

/// Options of PageRank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageRankOptions {
    /// The probability of following an edge.
    pub alpha: f64,
    /// Iterations end when the mean change of a vertex's rank is below this; 0 runs the maximum
    /// number. If `None`, they end when all changes sum to less than a millionth.
    pub tolerance: Option<f64>,
    /// The most iterations.
    pub iterations_max: u32,
    /// Whether edges are followed in proportion to their weights, instead of equally.
    pub by_weight: bool,
}

impl Default for PageRankOptions {
    fn default() -> Self {
        PageRankOptions {
            alpha: 0.85,
            tolerance: None,
            iterations_max: 100,
            by_weight: false,
        }
    }
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranks {
    /// The rank of each vertex; they sum to 1.
    pub ranks: Vec<f64>,
    /// The number of iterations.
    pub iterations: u32,
    /// The sum of the changes of all ranks in the last iteration.
    pub change: f64,
}

/// Computes the rank of each vertex; ranks sum to 1.
///
/// # Errors
/// [`outcore::Kind::Usage`] for invalid options, and if the iterations do not converge. By weight,
/// also for a graph without weights, or with a weight that is negative or not a number.
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn pagerank(job: &Job, graph: &Graph, options: PageRankOptions) -> Result<Ranks> {
    ranked(job, graph, options, None)
}

/// A vertex to which a surfer jumps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JumpTarget {
    /// The vertex.
    pub vertex: u32,
    /// Its relative frequency.
    pub weight: f64,
}

/// Computes the ranks for a surfer who jumps only to the vertices of `targets`, in proportion to
/// their weights. The weights of a vertex that occurs several times are added.
///
/// # Errors
/// As [`pagerank`]; [`outcore::Kind::Usage`] for a target that is not a vertex, and for weights
/// that are negative, not numbers, or all 0.
pub fn personalized_pagerank(
    job: &Job,
    graph: &Graph,
    options: PageRankOptions,
    targets: &[JumpTarget],
) -> Result<Ranks> {
    let vertices = graph.vertices();
    let wrong = |cause: String| {
        let hint = "name vertices of the graph, and give at least one of them a weight above 0";
        Err(Error::usage(KERNEL, cause).hint(hint))
    };
    let mut shares = std::collections::BTreeMap::<u32, f64>::new();
    for JumpTarget { vertex, weight } in targets {
        if *vertex as usize >= vertices {
            return wrong(format!("{vertex} is not a vertex: there are {vertices}"));
        }
        if !weight.is_finite() || *weight < 0.0 {
            return wrong(format!("vertex {vertex} has the weight {weight}"));
        }
        *shares.entry(*vertex).or_default() += weight;
    }
    let all: f64 = shares.values().sum();
    if all <= 0.0 || !all.is_finite() {
        return wrong("no vertex to jump to is given".to_owned());
    }
    let shares: Vec<JumpTarget> = shares
        .into_iter()
        .map(|(vertex, weight)| JumpTarget {
            vertex,
            weight: weight / all,
        })
        .collect();
    ranked(job, graph, options, Some(&shares))
}

/// Computes ranks with the given jump targets, in order, and their shares; without targets, all
/// vertices are equal.
fn ranked(
    job: &Job,
    graph: &Graph,
    options: PageRankOptions,
    targets: Option<&[JumpTarget]>,
) -> Result<Ranks> {
    let PageRankOptions {
        alpha, tolerance, ..
    } = options;
    let is_wrong = |tolerance: f64| tolerance.is_nan() || tolerance < 0.0;
    if !(0.0..1.0).contains(&alpha) || tolerance.is_some_and(is_wrong) {
        let tolerance = tolerance.unwrap_or(CHANGE_DEFAULT);
        let cause = format!("alpha is {alpha} and the tolerance {tolerance}");
        return Err(Error::usage(KERNEL, cause)
            .hint("alpha must be at least 0 and below 1, and the tolerance at least 0"));
    }
    if options.iterations_max == 0 {
        return Err(Error::usage(KERNEL, "no iteration is allowed")
            .hint("allow at least one iteration with --iterations (max_iter in Python)"));
    }
    if options.by_weight && !graph.manifest().weighted {
        let hint = "convert the edges again with --weights, or leave --weighted out (weighted=True in Python)";
        return Err(Error::usage(KERNEL, "the graph has no weights")
            .path(graph.dir())
            .hint(hint));
    }
    let vertices = graph.vertices();
    if vertices == 0 {
        return Ok(Ranks {
            ranks: Vec::new(),
            iterations: 0,
            change: 0.0,
        });
    }
    let (before, vertex_bytes) = match options.by_weight {
        true => (2, 24),
        false => (0, 20),
    };
    let reads = EdgeReads::EachIteration {
        before,
        each: 1,
        most: options.iterations_max,
    };
    let _state = State::planned(job, graph, KERNEL, reads, StateBytes::new(vertex_bytes, 0))?;
    let incoming = sums(vertices);
    match options.by_weight {
        true => {
            let spread = ByWeight::new(job, graph, &incoming)?;
            iterate(job, graph, &spread, incoming, options, targets)
        }
        false => {
            let spread = Evenly::new(job, graph)?;
            iterate(job, graph, &spread, incoming, options, targets)
        }
    }
}

/// The ranks between two iterations.
struct Ranking<F> {
    /// For a vertex with edges, the flow along each edge, or along an edge of weight 1; for other
    /// vertices, the whole rank.
    flows: Vec<F>,
    done: Done,
    iterations_max: u32,
}

/// The figures of the iterations so far, except for the ranks.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Done {
    iterations: u32,
    /// The rank of vertices without edges.
    dangling: u128,
    /// The sum of the changes of all ranks in the last iteration.
    change: u128,
}

impl<F: Pod> PassState for Ranking<F> {
    const NAME: &'static str = KERNEL;
    type Facts = Done;

    fn facts(&self) -> Done {
        self.done
    }

    fn take(&mut self, facts: Done) {
        self.done = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::of(&mut self.flows)]
    }

    fn progress(&self) -> Progress {
        Progress {
            done_bytes: self.done.iterations.into(),
            total_bytes: self.iterations_max.into(),
        }
    }
}

impl<F: Pod> Ranking<F> {
    /// Equal ranks.
    fn equal<S: Spread<Flow = F>>(spread: &S, vertices: usize, iterations_max: u32) -> Self {
        let rank = (WHOLE / vertices as f64) as u64;
        let mut dangling = 0u128;
        let flows = (0..vertices).map(|vertex| {
            if spread.is_dangling(vertex) {
                dangling += u128::from(rank);
            }
            spread.flow_of(vertex, rank)
        });
        Ranking {
            flows: flows.collect(),
            done: Done {
                iterations: 0,
                dangling,
                change: 0,
            },
            iterations_max,
        }
    }

    fn change(&self) -> f64 {
        self.done.change as f64 / WHOLE
    }
}

/// Iterates from equal ranks, or from those of a killed run; `incoming` is one sum per vertex, all
/// 0.
fn iterate<S: Spread>(
    job: &Job,
    graph: &Graph,
    spread: &S,
    incoming: Vec<AtomicU64>,
    options: PageRankOptions,
    targets: Option<&[JumpTarget]>,
) -> Result<Ranks> {
    let PageRankOptions {
        alpha, tolerance, ..
    } = options;
    let vertices = incoming.len();
    let most = tolerance.map_or(CHANGE_DEFAULT, |tolerance| tolerance * vertices as f64);
    let locks = StretchLocks::new(vertices);
    let mut ranking = Ranking::equal(spread, vertices, options.iterations_max);
    job.restore_state(&mut ranking)?;
    loop {
        let iterations = ranking.done.iterations;
        let is_last = iterations == options.iterations_max;
        if iterations > 0 && (ranking.change() < most || is_last && tolerance == Some(0.0)) {
            return Ok(Ranks {
                change: ranking.change(),
                ranks: ranks(ranking.flows, spread),
                iterations,
            });
        }
        if is_last {
            break;
        }
        job.control.begin_phase("PageRank", graph.tile_bytes());
        let (is_directed, flows) = (graph.manifest().directed, &ranking.flows);
        graph.scan(job, |segment| {
            match is_directed {
                true => locks.flow_to_targets::<S>(segment, flows, &incoming),
                false => flow_both_ways::<S>(segment, flows, &incoming),
            }
            Ok(())
        })?;
        let jumping = 1.0 - alpha + alpha * (ranking.done.dangling as f64 / WHOLE);
        let jumps = Jumps {
            all: jumping,
            each: jumping * (1.0 / vertices as f64),
            targets,
        };
        let flows = &mut ranking.flows;
        let (change, dangling) = arrive(job, flows, spread, &incoming, alpha, jumps)?;
        ranking.done = Done {
            iterations: iterations + 1,
            dangling,
            change,
        };
        job.keep_state(&mut ranking)?;
    }
    let cause = format!(
        "after {} iterations, the ranks still change by {:.3e} in total; the limit is {most:.3e}",
        options.iterations_max,
        ranking.change()
    );
    Err(Error::usage(KERNEL, cause).hint("allow more iterations, or a larger tolerance"))
}

/// The jumps of a surfer who follows no edge.
#[derive(Clone, Copy)]
struct Jumps<'t> {
    /// The total jump, and the jump to each vertex if these are equal.
    all: f64,
    each: f64,
    targets: Option<&'t [JumpTarget]>,
}

/// Vertices that a thread takes at a time.
const VERTICES_AT_ONCE: usize = 1 << 16;

/// Converts arrived rank to flows, and resets it to 0. Returns the total change of ranks, and the
/// rank of vertices without edges.
fn arrive<S: Spread>(
    job: &Job,
    flows: &mut [S::Flow],
    spread: &S,
    incoming: &[AtomicU64],
    alpha: f64,
    jumps: Jumps<'_>,
) -> Result<(u128, u128)> {
    let parts = Mutex::new(flows.chunks_mut(VERTICES_AT_ONCE).enumerate());
    let work = |_: usize| {
        let (mut change, mut dangling) = (0u128, 0u128);
        loop {
            let part = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, flows)) = part else {
                return Ok((change, dangling));
            };
            let from = number * VERTICES_AT_ONCE;
            let mut targets = jumps.targets.map(|targets| {
                let skipped = targets.partition_point(|target| (target.vertex as usize) < from);
                targets[skipped..].iter().peekable()
            });
            for (vertex, flow) in (from..).zip(flows) {
                let arrived = incoming[vertex].load(Ordering::Relaxed) as f64 / WHOLE;
                incoming[vertex].store(0, Ordering::Relaxed);
                let jump = match &mut targets {
                    None => jumps.each,
                    Some(targets) => {
                        let target = targets.next_if(|target| target.vertex as usize == vertex);
                        target.map_or(0.0, |target| jumps.all * target.weight)
                    }
                };
                let rank = ((jump + alpha * arrived) * WHOLE) as u64;
                change += u128::from(rank.abs_diff(spread.rank_before(vertex, *flow)));
                *flow = spread.flow_of(vertex, rank);
                if spread.is_dangling(vertex) {
                    dangling += u128::from(rank);
                }
            }
        }
    };
    let threads = job
        .options
        .threads
        .clamp(1, incoming.len().div_ceil(VERTICES_AT_ONCE).max(1));
    let mut sums = (0, 0);
    for done in threads::together("outcore-graph", threads, work)? {
        let (change, dangling) = done?;
        sums = (sums.0 + change, sums.1 + dangling);
    }
    Ok(sums)
}

/// Returns ranks that sum to 1.
fn ranks<S: Spread>(flows: Vec<S::Flow>, spread: &S) -> Vec<f64> {
    let flows = flows.into_iter().enumerate();
    let ranks = flows.map(|(vertex, flow)| spread.rank_of(vertex, flow) / WHOLE);
    ranks.collect()
}

/// Locks of the sums, one per stretch of consecutive vertices.
struct StretchLocks(Vec<Mutex<()>>);

impl StretchLocks {
    /// Vertices per stretch, as a power of two. The targets of a segment ascend, so a stretch has
    /// many edges, and two threads seldom need the same one.
    const STRETCH_BITS: u32 = 10;

    fn new(vertices: usize) -> Self {
        let stretches = (vertices >> StretchLocks::STRETCH_BITS) + 1;
        StretchLocks((0..stretches).map(|_| Mutex::default()).collect())
    }

    fn take(&self, stretch: usize) -> MutexGuard<'_, ()> {
        self.0[stretch]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds flows to targets. The holder of a stretch's lock has exclusive access to its sums, so
    /// it can use separate loads and stores.
    ///
    /// N.B. Atomic additions, one per target, are a tenth slower: most targets have one or two
    /// edges in a tile, and the processor cannot predict how many.
    fn flow_to_targets<S: Spread>(
        &self,
        segment: Segment<'_>,
        flows: &[S::Flow],
        incoming: &[AtomicU64],
    ) {
        let mut open = segment.row_base as usize >> StretchLocks::STRETCH_BITS;
        let mut held = self.take(open);
        for (target, source, weight) in S::edges(segment, |source| prefetch(&flows[source])) {
            let stretch = target >> StretchLocks::STRETCH_BITS;
            if stretch != open {
                drop(held);
                held = self.take(stretch);
                open = stretch;
            }
            let flow = S::along(flows[source], weight);
            let sum = incoming[target].load(Ordering::Relaxed) + flow;
            incoming[target].store(sum, Ordering::Relaxed);
        }
        drop(held);
    }
}

/// Adds flows in both directions. Sources do not ascend, so all additions are atomic.
fn flow_both_ways<S: Spread>(segment: Segment<'_>, flows: &[S::Flow], incoming: &[AtomicU64]) {
    let (mut open, mut sum) = (segment.row_base as usize, 0);
    let edges = S::edges(segment, |other| {
        prefetch(&flows[other]);
        prefetch(&incoming[other]);
    });
    for (one, other, weight) in edges {
        if one != open {
            incoming[open].fetch_add(sum, Ordering::Relaxed);
            (open, sum) = (one, 0);
        }
        sum += S::along(flows[other], weight);
        if one != other {
            incoming[other].fetch_add(S::along(flows[one], weight), Ordering::Relaxed);
        }
    }
    incoming[open].fetch_add(sum, Ordering::Relaxed);
}
