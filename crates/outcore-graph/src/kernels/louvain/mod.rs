//! Communities by Louvain's method: each vertex moves to the neighbouring community that maximises
//! modularity; then communities become vertices, and the process repeats.
//!
//! Contract: modularity is defined as in networkx. It has a resolution, and uses weights if there
//! are any. An edge from a vertex to itself counts at both ends; parallel edges are added up.
//!
//! Levels end when no vertex moves, or when modularity grows by the threshold or less. Then single
//! vertices move again, starting from the communities found. These passes over all levels end when
//! a pass raises modularity by less than [`PASS_GROWTH_MIN`], or after [`PASSES_MAX`] passes. The
//! result is the smallest vertex of each vertex's community, the same for any threads and memory.
//! (Rotta and Noack, "Multilevel local search algorithms for modularity clustering", JEA 2011,
//! refine levels in a similar way.)
//!
//! Source: Blondel, Guillaume, Lambiotte, Lefebvre, "Fast unfolding of communities in large
//! networks" (J. Stat. Mech. P10008, 2008). After the first round, only neighbours of moved
//! vertices are visited again (Ozaki, Tezuka, Inaba, "A simple acceleration method for the Louvain
//! algorithm", 2016). Vertices move one after another, in a random order. The seed determines a new
//! order for each round, and for each range of vertices whose edges are held together
//! ([`adjacency`]); networkx uses one order of all vertices. So the numbering of vertices does not
//! decide which communities form. For equal gains, staying comes first, then the smallest
//! community.
//!
//! Bounds: forty-eight bytes and a bit per vertex. There are at most [`PASSES_MAX`] passes. A pass
//! reads the tiles twice; with weights, the first pass reads them three times. Each round reads the
//! lists of the visited vertices. A last read finds the edges between communities ([`adjacency`]).
//! Edges that do not fit into memory are sorted, and read in each round. All threads read; one
//! thread moves vertices.

mod adjacency;

use std::path::Path;

use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use outcore_io::drive::rates::bits;
use outcore_io::journal::Progress;
use serde::{Deserialize, Serialize};

use super::propagation::call_by_smallest;
use crate::format::NO_VERTEX;
use crate::graph::frontier::VertexSet;
use crate::graph::held::ListHolder;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes};
use crate::graph::{Direction, Graph};
use adjacency::{Adjacency, CONTRACTING_BYTES, Draws, Neighbours, Units};

const KERNEL: &str = "Louvain's method";
const VERTEX_BYTES: usize = 48;
/// The most passes over all levels, and the growth of modularity that is required for another pass.
const PASSES_MAX: u32 = 8;
const PASS_GROWTH_MIN: f64 = 1e-3;

/// Options of the search for communities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LouvainOptions {
    /// Above 1 for smaller communities, below 1 for larger ones.
    pub resolution: f64,
    /// The growth of modularity at which rounds and levels end.
    pub threshold: f64,
    /// Determines the random orders in which vertices move.
    pub seed: u64,
}

impl Default for LouvainOptions {
    fn default() -> Self {
        LouvainOptions {
            resolution: 1.0,
            threshold: 1e-7,
            seed: 1,
        }
    }
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// The smallest vertex of each vertex's community.
    pub labels: Vec<u32>,
    /// The number of communities.
    pub count: u64,
    /// Their modularity.
    pub modularity: f64,
    /// How many times communities became vertices, in all passes.
    pub levels: u32,
}

/// Finds communities of an undirected graph.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a directed graph, negative weights and invalid options;
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading, and of writing edges
/// between communities to `scratch`.
pub fn louvain(
    job: &Job,
    graph: &Graph,
    scratch: &Path,
    options: LouvainOptions,
) -> Result<Partition> {
    check(graph, options)?;
    let vertices = graph.vertices();
    // One for single vertices, one for communities.
    let set_bytes = 2 * vertices.div_ceil(8) as u64;
    let beside_bytes = ListHolder::bytes(graph, true) + set_bytes + CONTRACTING_BYTES;
    let _state = State::planned(
        job,
        graph,
        KERNEL,
        EdgeReads::Lists,
        StateBytes::new(VERTEX_BYTES, beside_bytes),
    )?;
    let _set = job.budget.reserve("vertices to look at", set_bytes)?;
    job.control.begin_phase("weights", graph.tile_bytes());
    let units = Units::of_graph(job, graph)?;
    let mut found = Found {
        labels: (0..vertices as u32).collect(),
        waiting: VertexSet::new(vertices),
        at: At {
            passes: 0,
            levels: 0,
            modularity: f64::NEG_INFINITY,
            is_last: false,
            round: None,
        },
    };
    job.restore_state(&mut found.state())?;
    let setting = Setting {
        job,
        graph,
        scratch,
        units,
        options,
    };
    while !found.at.is_last {
        let before = found.at.modularity;
        setting.pass(&mut found)?;
        let least = options.threshold.max(PASS_GROWTH_MIN);
        let at = &mut found.at;
        at.passes += 1;
        at.is_last = at.modularity - before <= least || at.passes == PASSES_MAX;
        job.keep_state(&mut found.state())?;
    }
    let Found { mut labels, at, .. } = found;
    let count = call_by_smallest(&mut labels);
    Ok(Partition {
        labels,
        count,
        modularity: at.modularity,
        levels: at.levels,
    })
}

/// An intermediate partition.
struct Found {
    labels: Vec<u32>,
    /// Within a pass, single vertices to visit in the next round.
    waiting: VertexSet,
    at: At,
}

/// How far the search is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct At {
    /// Passes that have ended.
    passes: u32,
    levels: u32,
    /// The modularity after the last pass.
    #[serde(with = "bits")]
    modularity: f64,
    is_last: bool,
    /// If single vertices are moved, the round that has ended.
    round: Option<Round>,
}

/// A round in which vertices have moved.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Round {
    /// The state of the draws.
    draws: u64,
    /// Whether a vertex has moved since the first round.
    has_moved: bool,
}

/// The state that is kept: communities of single vertices.
struct Kept<'s> {
    labels: &'s mut [u32],
    waiting: &'s VertexSet,
    at: &'s mut At,
}

impl PassState for Kept<'_> {
    const NAME: &'static str = KERNEL;
    type Facts = At;

    fn facts(&self) -> At {
        *self.at
    }

    fn take(&mut self, facts: At) {
        *self.at = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::of(self.labels), self.waiting.column()]
    }

    fn progress(&self) -> Progress {
        Progress {
            done_bytes: self.at.passes.into(),
            total_bytes: PASSES_MAX.into(),
        }
    }
}

impl Found {
    fn state(&mut self) -> Kept<'_> {
        Kept {
            labels: &mut self.labels,
            waiting: &self.waiting,
            at: &mut self.at,
        }
    }
}

/// The rounds of a level.
struct Rounds<'w> {
    /// The vertices to visit: the rest of this round, and the next round.
    waiting: &'w VertexSet,
    draws: Draws,
    has_moved: bool,
}

/// The inputs of all passes.
struct Setting<'s> {
    job: &'s Job,
    graph: &'s Graph,
    scratch: &'s Path,
    units: Units,
    options: LouvainOptions,
}

impl Setting<'_> {
    /// Runs all levels, starting from the communities of `found`, or continues a killed run. The
    /// partition does not become worse.
    fn pass(&self, found: &mut Found) -> Result<()> {
        let &Setting {
            job,
            graph,
            scratch,
            units,
            options,
        } = self;
        let mut level = Level::of(units.strengths(job, graph)?, options.resolution);
        level.join(&found.labels);
        let mut adjacency = Adjacency::OnDrives {
            lists: ListHolder::new(job, graph, Direction::Out, true)?,
            degrees: graph.degrees(job, Direction::Out)?,
            units,
        };
        let mut modularity = f64::NEG_INFINITY;
        let mut is_first = true;
        loop {
            job.control.begin_phase("move vertices", graph.tile_bytes());
            let has_moved = match std::mem::take(&mut is_first) {
                true => self.move_single(&mut level, &mut adjacency, found)?,
                false => {
                    let waiting = VertexSet::new(level.community.len());
                    let draws = Draws::new(options.seed, found.at.levels);
                    let mut rounds = level.rounds(&waiting, draws);
                    let threshold = options.threshold;
                    level.move_all(job, &mut adjacency, &mut rounds, threshold, |_, _| Ok(()))?;
                    rounds.has_moved
                }
            };
            job.control
                .begin_phase("contract communities", graph.tile_bytes());
            level.number_communities();
            for label in &mut found.labels {
                *label = level.community[*label as usize];
            }
            let inner = &mut level.inner;
            adjacency =
                adjacency.contracted(job, scratch, &level.community, |vertex, other, weight| {
                    // Other edges are visited from both of their ends.
                    inner[vertex as usize] += if vertex == other { 2 * weight } else { weight };
                })?;
            level = level.contracted();
            let now = level.modularity();
            found.at.levels += 1;
            let growth = now - std::mem::replace(&mut modularity, now);
            if !has_moved || growth <= options.threshold {
                break;
            }
        }
        found.at.modularity = modularity;
        found.at.round = None;
        Ok(())
    }

    /// Moves single vertices, and keeps the state after a round. Returns whether any vertex has
    /// moved. Afterwards, the labels of `found` are the vertices themselves.
    fn move_single(
        &self,
        level: &mut Level,
        adjacency: &mut Adjacency<'_>,
        found: &mut Found,
    ) -> Result<bool> {
        let Found {
            labels,
            waiting,
            at,
        } = found;
        let mut rounds = match at.round {
            Some(Round { draws, has_moved }) => Rounds {
                waiting,
                draws: Draws::after(draws),
                has_moved,
            },
            None => level.rounds(waiting, Draws::new(self.options.seed, at.levels)),
        };
        let keep = |level: &mut Level, rounds: &Rounds<'_>| {
            at.round = Some(Round {
                draws: rounds.draws.state(),
                has_moved: rounds.has_moved,
            });
            self.job.keep_state(&mut Kept {
                labels: &mut level.community,
                waiting: rounds.waiting,
                at,
            })
        };
        level.move_all(
            self.job,
            adjacency,
            &mut rounds,
            self.options.threshold,
            keep,
        )?;
        labels
            .iter_mut()
            .zip(0..)
            .for_each(|(label, vertex)| *label = vertex);
        Ok(rounds.has_moved)
    }
}

fn check(graph: &Graph, options: LouvainOptions) -> Result<()> {
    let LouvainOptions {
        resolution,
        threshold,
        ..
    } = options;
    if graph.manifest().directed {
        let cause = "the graph is directed, but communities need an undirected graph";
        return Err(Error::usage(KERNEL, cause)
            .path(graph.dir())
            .hint("convert the edges again with --undirected"));
    }
    let is_sound = |number: f64| number.is_finite() && number >= 0.0;
    match is_sound(resolution) && is_sound(threshold) {
        true => Ok(()),
        false => {
            let cause = format!("the resolution is {resolution} and the threshold {threshold}");
            Err(Error::usage(KERNEL, cause).hint("both must be at least 0"))
        }
    }
}

/// The vertices of a level, and their communities.
struct Level {
    community: Vec<u32>,
    /// The weight of each vertex's edges; those inside it count twice.
    strengths: Vec<u64>,
    /// Twice the weight of the edges inside each vertex, which was a community on the previous
    /// level.
    inner: Vec<u64>,
    /// The sum of the strengths of each community's vertices.
    totals: Vec<u64>,
    /// The weight of the current vertex's edges to each community; reset to 0 after each vertex.
    weights: Vec<u64>,
    /// Twice the weight of all edges.
    whole: f64,
    resolution: f64,
}

impl Level {
    /// Starts with each vertex as a community of its own.
    fn of(strengths: Vec<u64>, resolution: f64) -> Self {
        let whole: u64 = strengths.iter().sum();
        Level {
            community: (0..strengths.len() as u32).collect(),
            totals: strengths.clone(),
            inner: vec![0; strengths.len()],
            weights: vec![0; strengths.len()],
            whole: whole as f64,
            strengths,
            resolution,
        }
    }

    /// Moves each vertex to the community of its label.
    fn join(&mut self, labels: &[u32]) {
        self.community.copy_from_slice(labels);
        self.totals.fill(0);
        for (label, strength) in labels.iter().zip(&self.strengths) {
            self.totals[*label as usize] += strength;
        }
    }

    /// The state before the first round. It will visit all vertices with edges to others; the rest
    /// cannot move.
    fn rounds<'w>(&self, waiting: &'w VertexSet, draws: Draws) -> Rounds<'w> {
        for vertex in 0..self.community.len() {
            match self.strengths[vertex] > self.inner[vertex] {
                true => _ = waiting.insert(vertex as u32),
                false => waiting.remove(vertex as u32),
            }
        }
        Rounds {
            waiting,
            draws,
            has_moved: false,
        }
    }

    /// Moves vertices until no move gains modularity, or a round gains no more than `threshold`.
    /// Calls `keep` after each round that is not the last.
    fn move_all(
        &mut self,
        job: &Job,
        adjacency: &mut Adjacency<'_>,
        rounds: &mut Rounds<'_>,
        threshold: f64,
        mut keep: impl FnMut(&mut Level, &Rounds<'_>) -> Result<()>,
    ) -> Result<()> {
        let waiting = rounds.waiting;
        let mut looking: Vec<u32> = waiting.vertices().collect();
        while !looking.is_empty() {
            let mut gain = 0.0;
            let order = Some(&mut rounds.draws);
            adjacency.each(job, &looking, order, |vertex, neighbours| {
                waiting.remove(vertex);
                let gained = self.move_one(vertex, &neighbours);
                if gained > 0.0 {
                    gain += gained;
                    let own = self.community[vertex as usize];
                    neighbours.each(|other, _| {
                        if self.community[other as usize] != own {
                            waiting.insert(other);
                        }
                    });
                }
            })?;
            rounds.has_moved |= gain > 0.0;
            if gain <= threshold {
                break;
            }
            looking.clear();
            looking.extend(waiting.vertices());
            keep(self, rounds)?;
        }
        Ok(())
    }

    /// Moves a vertex to the community with the largest gain, and returns the growth of modularity.
    fn move_one(&mut self, vertex: u32, neighbours: &Neighbours<'_>) -> f64 {
        let own = self.community[vertex as usize];
        let strength = self.strengths[vertex as usize];
        let mut met = Vec::new();
        neighbours.each(|other, weight| {
            if other != vertex && weight > 0 {
                let community = self.community[other as usize];
                let sum = &mut self.weights[community as usize];
                if *sum == 0 {
                    met.push(community);
                }
                *sum += weight;
            }
        });
        self.totals[own as usize] -= strength;
        let expected = self.resolution * strength as f64 / self.whole;
        let score = |community: u32| {
            let total = self.totals[community as usize] as f64;
            self.weights[community as usize] as f64 - expected * total
        };
        let stay = score(own);
        let (mut best, mut best_score) = (own, stay);
        for &community in &met {
            let found = score(community);
            let is_better = found > best_score;
            if is_better || found == best_score && best != own && community < best {
                (best, best_score) = (community, found);
            }
        }
        self.totals[best as usize] += strength;
        self.community[vertex as usize] = best;
        met.iter()
            .for_each(|community| self.weights[*community as usize] = 0);
        2.0 * (best_score - stay) / self.whole
    }

    /// Numbers communities 0, 1, 2, ... in the order of their first vertices.
    fn number_communities(&mut self) {
        let mut numbers = vec![NO_VERTEX; self.community.len()];
        let mut count = 0;
        for community in &mut self.community {
            let number = &mut numbers[*community as usize];
            if *number == NO_VERTEX {
                *number = count;
                count += 1;
            }
            *community = *number;
        }
    }

    /// Returns the next level, whose vertices are the numbered communities of this one.
    fn contracted(self) -> Level {
        let count = self.community.iter().max().map_or(0, |last| last + 1) as usize;
        let (mut strengths, mut inner) = (vec![0; count], vec![0; count]);
        for (vertex, community) in self.community.iter().enumerate() {
            strengths[*community as usize] += self.strengths[vertex];
            inner[*community as usize] += self.inner[vertex];
        }
        Level {
            inner,
            ..Level::of(strengths, self.resolution)
        }
    }

    /// The modularity if each vertex is a community of its own.
    fn modularity(&self) -> f64 {
        if self.whole == 0.0 {
            return 0.0;
        }
        let terms = self.inner.iter().zip(&self.strengths);
        let terms = terms.map(|(inner, strength)| {
            let share = *strength as f64 / self.whole;
            *inner as f64 / self.whole - self.resolution * share * share
        });
        terms.sum()
    }
}
