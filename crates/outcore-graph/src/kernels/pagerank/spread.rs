//! Spreads the rank of a vertex over its edges: evenly, or in proportion to their weights.
//!
//! Contract: the flow along an edge is an integer, a function only of the graph and of the rank of
//! the edge's source. A vertex spreads no more than its rank, except for rounding of floats (2^-50
//! of it). A vertex without edges, or with only edges of weight 0, spreads nothing: its rank jumps.
//!
//! The weights of a vertex are summed exactly, so the sum does not depend on the order of edges.
//! They are 128-bit integers, in units of 2^-93 of the power of two at or below the vertex's
//! largest weight. A weight that is smaller than the largest one by a factor of more than 2^69
//! loses bits, which changes the sum by less than 2^-60 of it.
//!
//! Bounds: four bytes per vertex if rank is spread evenly. By weight, eight bytes per vertex,
//! computed in two passes over the tiles; these passes need sixteen bytes more.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use outcore::{Job, Result};

use super::KERNEL;
use crate::format::tile::Segment;
use crate::graph::state::sums;
use crate::graph::weights::WeightCheck;
use crate::graph::{Direction, Graph};

/// How rank is spread over edges.
pub(super) trait Spread: Sync {
    /// The stored form of a vertex's rank, which its edges read.
    type Flow: Pod + Send + Sync;
    /// The part of an edge's weight that is used.
    type Weight: Copy;

    /// Each edge as (target, source); for undirected edges, the larger end comes first. `fetch`
    /// receives sources ahead of their edges.
    fn edges<'a, F: Fn(usize)>(
        segment: Segment<'a>,
        fetch: F,
    ) -> impl Iterator<Item = (usize, usize, Self::Weight)> + use<'a, F, Self>;

    /// The flow of a vertex with this rank.
    fn flow_of(&self, vertex: usize, rank: u64) -> Self::Flow;

    /// The rank from which a flow was computed, except for rounding in the division.
    fn rank_before(&self, vertex: usize, flow: Self::Flow) -> u64;

    /// That rank as a float.
    fn rank_of(&self, vertex: usize, flow: Self::Flow) -> f64;

    /// Whether a vertex spreads nothing.
    fn is_dangling(&self, vertex: usize) -> bool;

    /// The rank that flows along an edge.
    fn along(flow: Self::Flow, weight: Self::Weight) -> u64;
}

/// Spreads rank equally over a vertex's edges.
pub(super) struct Evenly {
    degrees: Vec<u32>,
}

impl Evenly {
    pub(super) fn new(job: &Job, graph: &Graph) -> Result<Self> {
        Ok(Evenly {
            degrees: graph.degrees(job, Direction::Out)?,
        })
    }

    /// The number of edges, or 1 if there are none.
    fn shares(&self, vertex: usize) -> u32 {
        self.degrees[vertex].max(1)
    }
}

impl Spread for Evenly {
    type Flow = u64;
    type Weight = ();

    fn edges<'a, F: Fn(usize)>(
        segment: Segment<'a>,
        fetch: F,
    ) -> impl Iterator<Item = (usize, usize, ())> + use<'a, F> {
        let edges = segment.edges_ahead(fetch);
        edges.map(|(target, source)| (target, source, ()))
    }

    fn flow_of(&self, vertex: usize, rank: u64) -> u64 {
        rank / u64::from(self.shares(vertex))
    }

    fn rank_before(&self, vertex: usize, flow: u64) -> u64 {
        flow.saturating_mul(u64::from(self.shares(vertex)))
    }

    fn rank_of(&self, vertex: usize, flow: u64) -> f64 {
        flow as f64 * f64::from(self.shares(vertex))
    }

    fn is_dangling(&self, vertex: usize) -> bool {
        self.degrees[vertex] == 0
    }

    fn along(flow: u64, (): ()) -> u64 {
        flow
    }
}

/// Spreads rank over a vertex's edges in proportion to their weights.
pub(super) struct ByWeight {
    /// The sum of the weights of each vertex's edges.
    totals: Vec<f64>,
}

impl ByWeight {
    /// Sums the weights. `unused` has one sum per vertex that is free to use; all are 0 before and
    /// after.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for a weight that is negative or not a number; errors of reading.
    pub(super) fn new(job: &Job, graph: &Graph, unused: &[AtomicU64]) -> Result<Self> {
        job.control.begin_phase("weights", 2 * graph.tile_bytes());
        let largest = largest_weights(job, graph)?;
        let high = sums(graph.vertices());
        each_end(job, graph, |vertex, _, weight| {
            let largest = f64::from_bits(largest[vertex].load(Ordering::Relaxed));
            let amount = units_of(weight, largest);
            let (low, carried) = (amount as u64, (amount >> u64::BITS) as u64);
            let before = unused[vertex].fetch_add(low, Ordering::Relaxed);
            let carried = carried + u64::from(before.checked_add(low).is_none());
            if carried > 0 {
                high[vertex].fetch_add(carried, Ordering::Relaxed);
            }
        })?;
        let totals = largest.into_iter().enumerate().map(|(vertex, largest)| {
            let high = u128::from(high[vertex].load(Ordering::Relaxed));
            let low = unused[vertex].swap(0, Ordering::Relaxed);
            let total = high << u64::BITS | u128::from(low);
            match total {
                0 => 0.0,
                total => total as f64 * unit_of(f64::from_bits(largest.into_inner())),
            }
        });
        Ok(ByWeight {
            totals: totals.collect(),
        })
    }

    /// The sum of the weights, or 1 if there are none.
    fn shares(&self, vertex: usize) -> f64 {
        match self.totals[vertex] {
            0.0 => 1.0,
            total => total,
        }
    }
}

impl Spread for ByWeight {
    type Flow = f64;
    type Weight = f64;

    fn edges<'a, F: Fn(usize)>(
        segment: Segment<'a>,
        fetch: F,
    ) -> impl Iterator<Item = (usize, usize, f64)> + use<'a, F> {
        segment.weighted_edges_ahead(fetch)
    }

    fn flow_of(&self, vertex: usize, rank: u64) -> f64 {
        rank as f64 / self.shares(vertex)
    }

    fn rank_before(&self, vertex: usize, flow: f64) -> u64 {
        self.rank_of(vertex, flow) as u64
    }

    fn rank_of(&self, vertex: usize, flow: f64) -> f64 {
        flow * self.shares(vertex)
    }

    fn is_dangling(&self, vertex: usize) -> bool {
        self.totals[vertex] == 0.0
    }

    fn along(flow: f64, weight: f64) -> u64 {
        (flow * weight) as u64
    }
}

/// The range of nonzero weights.
const WEIGHTS: RangeInclusive<f64> = 1e-250..=1e250;
/// The binary exponent of the largest weight, counted in units.
const UNIT_BITS: i32 = 93;
/// Bits of a float after the leading one, and the bias of its exponent.
const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
const EXPONENT_BIAS: i32 = 1023;

/// The power of two at or below `value`, which is in [`WEIGHTS`].
fn exponent_of(value: f64) -> i32 {
    (value.to_bits() >> FRACTION_BITS) as i32 - EXPONENT_BIAS
}

/// The unit for weights of at most `largest`.
fn unit_of(largest: f64) -> f64 {
    let exponent = exponent_of(largest) - UNIT_BITS;
    f64::from_bits(((exponent + EXPONENT_BIAS) as u64) << FRACTION_BITS)
}

/// A weight in units of its vertex. It is below 2^94, so the sum of 2^32 of them fits.
fn units_of(weight: f64, largest: f64) -> u128 {
    let fraction = weight.to_bits() & ((1 << FRACTION_BITS) - 1);
    let digits = u128::from(fraction | 1 << FRACTION_BITS);
    let down = exponent_of(largest) - exponent_of(weight) + FRACTION_BITS as i32 - UNIT_BITS;
    match down {
        ..=0 => digits << -down,
        _ => digits.checked_shr(down as u32).unwrap_or_default(),
    }
}

/// Returns the bits of the largest weight of each vertex's edges, as an eight-byte float; the bits
/// are in the order of the floats.
fn largest_weights(job: &Job, graph: &Graph) -> Result<Vec<AtomicU64>> {
    let largest = sums(graph.vertices());
    let weights = WeightCheck::default();
    each_end(job, graph, |vertex, other, weight| {
        // Sums and quotients of other weights would be 0 or infinite.
        if !weights.accepts_in(vertex, other, weight, WEIGHTS) {
            return;
        }
        let bits = weight.to_bits();
        if largest[vertex].load(Ordering::Relaxed) < bits {
            largest[vertex].fetch_max(bits, Ordering::Relaxed);
        }
    })?;
    let hint = "convert the edges again with weights of 0 or more, from 1e-250 to 1e250; or rank without weights";
    weights.finish(job, graph, KERNEL, hint)?;
    Ok(largest)
}

/// Passes each edge of nonzero weight to `visit`, as vertex, neighbour and weight, at the vertex
/// that it leaves; an undirected edge at both ends.
fn each_end(job: &Job, graph: &Graph, visit: impl Fn(usize, usize, f64) + Sync) -> Result<()> {
    let is_directed = graph.manifest().directed;
    graph.scan(job, |segment| {
        for (target, source, weight) in segment.weighted_edges() {
            if weight == 0.0 {
                continue;
            }
            visit(source, target, weight);
            if !is_directed && source != target {
                visit(target, source, weight);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Sums match those of floats, within the precision of floats, and exactly if all weights
        /// have one magnitude.
        #[test]
        fn a_sum_in_units_is_that_of_the_weights(weights in prop::collection::vec(0u32..0x7F80_0000, 1..50)) {
            let weights: Vec<f64> = weights
                .into_iter()
                .map(|bits| f64::from(f32::from_bits(bits)))
                .filter(|weight| *weight > 0.0)
                .collect();
            prop_assume!(!weights.is_empty());
            let largest = weights.iter().copied().fold(0.0, f64::max);
            let units: u128 = weights.iter().map(|weight| units_of(*weight, largest)).sum();
            let found = units as f64 * unit_of(largest);
            let wanted: f64 = weights.iter().sum();
            prop_assert!((found / wanted - 1.0).abs() < 1e-14, "{} {}", found, wanted);
            prop_assert!(units_of(largest, largest) < 1 << (UNIT_BITS + 1));
        }
    }

    #[test]
    fn units_of_the_least_and_the_largest_floats_are_right() {
        let (least, most) = (f64::from(f32::from_bits(1)), f64::from(f32::MAX));
        assert_eq!(units_of(least, least) as f64 * unit_of(least), least);
        assert_eq!(units_of(most, most) as f64 * unit_of(most), most);
        assert_eq!(units_of(least, most), 0);
        assert_eq!(units_of(1.5, 1.0), 3 << (UNIT_BITS - 1));
    }
}
