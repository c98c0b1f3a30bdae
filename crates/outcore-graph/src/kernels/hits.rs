//! HITS: hubs are vertices with edges to good authorities; authorities are vertices with edges from
//! good hubs.
//!
//! Contract: scores are defined as in networkx. The authority of a vertex is the sum of the hubs
//! with an edge to it; its hub score is the sum of the authorities that its edges lead to. Each
//! kind sums to 1. Iterations end when the sum of all changes of the hubs is below the tolerance.
//!
//! Each edge counts once, parallel edges included; weights are ignored. An undirected edge has both
//! directions. If several parts of a graph have the same largest singular value, the result is the
//! limit of iterations from equal hubs. A graph without edges has neither hubs nor authorities: all
//! scores are 0. networkx uses ARPACK, which converges faster if the two largest singular values
//! are close; so the default limit of iterations is higher here, with the same tolerance.
//!
//! Source: Kleinberg, "Authoritative Sources in a Hyperlinked Environment" (JACM 46, 1999, section
//! 3.1). Values are summed along edges as 64-bit integers, so the sums, and the bytes of the
//! result, are the same for any order, threads and memory. The unit of these integers is as small
//! as the sum of all values allows. If parallel edges make a sum overflow, which is detected for
//! any order, that half of the iteration is repeated with a larger unit.
//!
//! Bounds: twenty-four bytes per vertex; two reads of the tiles per iteration, and at most six more
//! in total if edges are parallel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use outcore_io::drive::rates::bits;
use outcore_io::journal::Progress;
use outcore_io::memory::prefetch;
use serde::{Deserialize, Serialize};

use crate::graph::Graph;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, sums};

/// The largest expected sum.
const LARGEST: f64 = (1u64 << 62) as f64;
/// A sum above this counts as an overflow.
const LIMIT: u64 = 1 << 63;
/// Bits that values lose after an overflow.
const OVERFLOW_BITS: u32 = 6;
const KERNEL: &str = "HITS";

/// When iterations end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HitsOptions {
    /// Iterations end when all changes sum to less than this; 0 runs the maximum number.
    pub tolerance: f64,
    /// The most iterations.
    pub iterations_max: u32,
}

impl Default for HitsOptions {
    fn default() -> Self {
        HitsOptions {
            tolerance: 1e-8,
            iterations_max: 1000,
        }
    }
}

/// Hub and authority scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Hits {
    /// The hub score of each vertex.
    pub hubs: Vec<f64>,
    /// The authority score of each vertex.
    pub authorities: Vec<f64>,
    /// The number of iterations.
    pub iterations: u32,
}

/// The end of an edge that receives the other end's value.
#[derive(Clone, Copy, PartialEq)]
enum To {
    Target,
    Source,
}

/// Computes the hub and the authority score of each vertex.
///
/// # Errors
/// [`outcore::Kind::Usage`] for an invalid tolerance, and if the iterations do not converge;
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn hits(job: &Job, graph: &Graph, options: HitsOptions) -> Result<Hits> {
    let HitsOptions {
        tolerance,
        iterations_max,
    } = options;
    if tolerance.is_nan() || tolerance < 0.0 {
        let cause = format!("the tolerance is {tolerance}");
        return Err(Error::usage(KERNEL, cause).hint("the tolerance must be at least 0"));
    }
    if iterations_max == 0 {
        return Err(Error::usage(KERNEL, "no iteration is allowed")
            .hint("allow at least one iteration with --iterations (max_iter in Python)"));
    }
    let vertices = graph.vertices();
    let reads = EdgeReads::EachIteration {
        before: 0,
        each: 2,
        most: iterations_max,
    };
    let _state = State::planned(job, graph, KERNEL, reads, StateBytes::new(24, 0))?;
    let mut found = Iterated {
        hubs: vec![1.0 / vertices.max(1) as f64; vertices],
        done: Done {
            iterations: 0,
            parallel: 1.0,
        },
        iterations_max,
    };
    job.restore_state(&mut found)?;
    let mut flows = vec![0u64; vertices];
    let arrived = sums(vertices);
    let mut passes = Passes {
        job,
        graph,
        parallel: found.done.parallel,
    };
    for iteration in found.done.iterations + 1..=iterations_max {
        let hubs = &mut found.hubs;
        job.control.begin_phase("HITS", 2 * graph.tile_bytes());
        let unit = passes.unit(hubs.iter().copied());
        for (flow, hub) in flows.iter_mut().zip(&*hubs) {
            *flow = (hub * unit) as u64;
        }
        passes.add(&mut flows, &arrived, To::Target)?;
        // These are now the authorities. Their unit does not matter, because they are scaled to sum
        // to 1.
        for (flow, sum) in flows.iter_mut().zip(&arrived) {
            *flow = sum.swap(0, Ordering::Relaxed);
        }
        let whole = sum_of(&flows);
        let unit = passes.unit(flows.iter().map(|flow| *flow as f64 / whole));
        for flow in &mut flows {
            *flow = (*flow as f64 / whole * unit) as u64;
        }
        passes.add(&mut flows, &arrived, To::Source)?;
        let whole: u128 = arrived
            .iter()
            .map(|sum| u128::from(sum.load(Ordering::Relaxed)))
            .sum();
        if whole == 0 {
            hubs.fill(0.0);
            let authorities = vec![0.0; vertices];
            return Ok(Hits {
                hubs: found.hubs,
                authorities,
                iterations: iteration,
            });
        }
        let mut change = 0.0;
        for (hub, sum) in hubs.iter_mut().zip(&arrived) {
            let now = sum.swap(0, Ordering::Relaxed) as f64 / whole as f64;
            change += (now - *hub).abs();
            *hub = now;
        }
        let is_over = tolerance == 0.0 && iteration == iterations_max;
        if is_over || change < tolerance {
            let whole = sum_of(&flows);
            let authorities = flows.into_iter().map(|flow| flow as f64 / whole).collect();
            return Ok(Hits {
                hubs: found.hubs,
                authorities,
                iterations: iteration,
            });
        }
        found.done = Done {
            iterations: iteration,
            parallel: passes.parallel,
        };
        job.keep_state(&mut found)?;
    }
    let cause =
        format!("hubs still change by more than {tolerance} after {iterations_max} iterations");
    Err(Error::usage(KERNEL, cause).hint("allow more iterations, or a larger tolerance"))
}

/// The hubs between two iterations; the authorities are computed from them.
struct Iterated {
    hubs: Vec<f64>,
    done: Done,
    iterations_max: u32,
}

/// The number of iterations so far, and a figure that they have updated.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Done {
    iterations: u32,
    /// See [`Passes::parallel`].
    #[serde(with = "bits")]
    parallel: f64,
}

impl PassState for Iterated {
    const NAME: &'static str = KERNEL;
    type Facts = Done;

    fn facts(&self) -> Done {
        self.done
    }

    fn take(&mut self, facts: Done) {
        self.done = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::of(&mut self.hubs)]
    }

    fn progress(&self) -> Progress {
        Progress {
            done_bytes: self.done.iterations.into(),
            total_bytes: self.iterations_max.into(),
        }
    }
}

fn sum_of(flows: &[u64]) -> f64 {
    let whole: u128 = flows.iter().map(|flow| u128::from(*flow)).sum();
    (whole as f64).max(1.0)
}

/// Passes over all edges.
struct Passes<'g> {
    job: &'g Job,
    graph: &'g Graph,
    /// The most times that a vertex is known to count in one sum.
    parallel: f64,
}

impl Passes<'_> {
    /// The factor by which values are multiplied before they are summed.
    fn unit(&self, values: impl Iterator<Item = f64>) -> f64 {
        let (mut largest, mut whole) = (0.0_f64, 0.0);
        for value in values {
            largest = largest.max(value);
            whole += value;
        }
        let manifest = self.graph.manifest();
        let lists = std::iter::once(&manifest.out).chain(&manifest.sources);
        let degree_max = match lists.map(|lists| lists.degree_max).max().unwrap_or(0) {
            // The largest degree is capped at this value.
            u32::MAX => 2.0 * manifest.edges as f64,
            degree => f64::from(degree),
        };
        let bound = (whole * self.parallel).min(largest * degree_max);
        if bound > 0.0 { LARGEST / bound } else { 0.0 }
    }

    /// Adds the values along all edges; reduces the values if a sum overflows.
    fn add(&mut self, flows: &mut [u64], arrived: &[AtomicU64], to: To) -> Result<()> {
        while self.has_overflowed(flows, arrived, to)? {
            self.parallel *= f64::from(1 << OVERFLOW_BITS);
            flows.iter_mut().for_each(|flow| *flow >>= OVERFLOW_BITS);
            arrived
                .iter()
                .for_each(|sum| sum.store(0, Ordering::Relaxed));
        }
        Ok(())
    }

    /// Sums grow until they pass the limit, so an overflow is detected for any order.
    fn has_overflowed(&self, flows: &[u64], arrived: &[AtomicU64], to: To) -> Result<bool> {
        let is_directed = self.graph.manifest().directed;
        let is_over = AtomicBool::new(false);
        let add = |to: usize, from: usize| {
            let flow = flows[from];
            if flow > 0 && arrived[to].fetch_add(flow, Ordering::Relaxed) > LIMIT - flow {
                is_over.store(true, Ordering::Relaxed);
            }
        };
        self.graph.scan(self.job, |segment| {
            let edges = segment.edges_ahead(|source| {
                prefetch(&flows[source]);
                prefetch(&arrived[source]);
            });
            for (target, source) in edges {
                if !is_directed || to == To::Target {
                    add(target, source);
                }
                if !is_directed && target != source || is_directed && to == To::Source {
                    add(source, target);
                }
            }
            Ok(())
        })?;
        Ok(is_over.into_inner())
    }
}
