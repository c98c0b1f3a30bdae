//! Communities by label propagation: each vertex takes the most frequent label among its
//! neighbours.
//!
//! Contract: each vertex starts with its own label. In each round, a vertex compares the labels of
//! its neighbours. It keeps its label if no other is more frequent; otherwise it takes the most
//! frequent one, the smallest of several. Edge directions are ignored; each parallel edge counts;
//! weights, and edges from a vertex to itself, are ignored. The result is the smallest vertex of
//! each vertex's community, the same for any threads and memory.
//!
//! Source: Raghavan, Albert, Kumara (Physical Review E 76, 2007). The tie rule is that of Cordasco
//! and Gargano (BASNA 2010): a vertex's own label comes first. As in that method, rounds are
//! semi-synchronous: vertices of one class change at once, and vertices of the next class see the
//! changes. Their classes are the colours of the graph. Here there are two random classes, drawn
//! anew in each round, for each run of vertices whose lists are held together. Two neighbours that
//! would swap labels for ever are in different classes in every second round on average, so they
//! come to agree.
//!
//! If [`Communities::is_stable`], no label is more frequent among the neighbours of a vertex than
//! the vertex's own. Colours would guarantee convergence; random classes only make it likely. So
//! the number of rounds is limited; at the limit, the labels of the last round are the result.
//!
//! Bounds: twelve bytes and two bits per vertex, and lists of half a million neighbours. A round
//! reads the lists of the vertices with a neighbour that changed since their last visit.

use std::sync::atomic::{AtomicUsize, Ordering};

use outcore::states::{Column, PassState};
use outcore::{Job, Result};
use outcore_io::journal::Progress;
use outcore_io::threads;

use crate::format::NO_VERTEX;
use crate::graph::frontier::VertexSet;
use crate::graph::held::{HeldLists, ListHolder, runs};
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "label propagation";
/// Vertices that a thread takes at a time.
const VERTICES_AT_ONCE: usize = 1024;

/// The result of label propagation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Communities {
    /// The smallest vertex of each vertex's community.
    pub labels: Vec<u32>,
    /// The number of communities.
    pub count: u64,
    /// The number of rounds.
    pub rounds: u32,
    /// Whether another round would change nothing.
    pub is_stable: bool,
}

/// Finds communities in at most this many rounds.
///
/// # Errors
/// [`outcore::Kind::Memory`] if the state does not fit; errors of reading.
pub fn label_propagation(job: &Job, graph: &Graph, rounds_max: u32) -> Result<Communities> {
    let vertices = graph.vertices();
    let set_bytes = 2 * vertices.div_ceil(8) as u64;
    let beside_bytes = ListHolder::bytes(graph, false) + set_bytes;
    let _state = State::planned(
        job,
        graph,
        KERNEL,
        EdgeReads::Lists,
        StateBytes::new(12, beside_bytes),
    )?;
    let _sets = job.budget.reserve("vertices to look at", set_bytes)?;
    let degrees = graph.degrees(job, Direction::Both)?;
    let mut holder = ListHolder::new(job, graph, Direction::Both, false)?;
    let mut labelling = Labelling::new(&degrees, rounds_max);
    job.restore_state(&mut labelling)?;
    let mut looking: Vec<u32> = labelling.waiting.vertices().collect();
    while !looking.is_empty() && labelling.rounds < rounds_max {
        let Labelling {
            labels,
            waiting,
            rounds,
            ..
        } = &mut labelling;
        job.control
            .begin_phase("propagate labels", graph.tile_bytes());
        for run in runs(&looking, &degrees) {
            job.control.check()?;
            let lists = holder.read(run.to_vec())?;
            for class in [0, 1] {
                let is_now =
                    |vertex| waiting.contains(vertex) && class_of(vertex, *rounds) == class;
                let changed = wanted(job, &lists, labels, &is_now)?;
                for &vertex in lists.vertices() {
                    if is_now(vertex) {
                        waiting.remove(vertex);
                    }
                }
                for (place, label) in changed {
                    labels[lists.vertices()[place] as usize] = label;
                    for other in lists.neighbours(place) {
                        waiting.insert(*other);
                    }
                }
            }
        }
        *rounds += 1;
        looking = waiting.vertices().collect();
        job.keep_state(&mut labelling)?;
    }
    let Labelling {
        mut labels, rounds, ..
    } = labelling;
    let is_stable = looking.is_empty();
    drop(looking);
    let count = call_by_smallest(&mut labels);
    Ok(Communities {
        labels,
        count,
        rounds,
        is_stable,
    })
}

/// Labels between two rounds.
struct Labelling {
    labels: Vec<u32>,
    /// The vertices to visit: the rest of this round, and the next round.
    waiting: VertexSet,
    rounds: u32,
    rounds_max: u32,
}

impl PassState for Labelling {
    const NAME: &'static str = KERNEL;
    /// The rounds that were made.
    type Facts = u32;

    fn facts(&self) -> u32 {
        self.rounds
    }

    fn take(&mut self, facts: u32) {
        self.rounds = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::of(&mut self.labels), self.waiting.column()]
    }

    fn progress(&self) -> Progress {
        Progress {
            done_bytes: self.rounds.into(),
            total_bytes: self.rounds_max.into(),
        }
    }
}

impl Labelling {
    /// Each vertex has its own label; those with neighbours are visited.
    fn new(degrees: &[u32], rounds_max: u32) -> Self {
        let waiting = VertexSet::new(degrees.len());
        let vertices = 0..degrees.len() as u32;
        for vertex in vertices.clone() {
            if degrees[vertex as usize] > 0 {
                waiting.insert(vertex);
            }
        }
        Labelling {
            labels: vertices.collect(),
            waiting,
            rounds: 0,
            rounds_max,
        }
    }
}

/// One of two classes, drawn anew in each round (SplitMix64).
fn class_of(vertex: u32, round: u32) -> u64 {
    let mut number = (u64::from(round) << 32 | u64::from(vertex)).wrapping_add(1);
    number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (number ^ (number >> 31)) & 1
}

/// Returns the places of the vertices that change their label, with the new label. Only vertices
/// for which `is_now` holds can change.
fn wanted(
    job: &Job,
    lists: &HeldLists,
    labels: &[u32],
    is_now: &(impl Fn(u32) -> bool + Sync),
) -> Result<Vec<(usize, u32)>> {
    let next = AtomicUsize::new(0);
    let count = lists.vertices().len();
    let work = |_thread: usize| -> Result<Vec<(usize, u32)>> {
        let (mut changed, mut met) = (Vec::new(), Vec::new());
        loop {
            let from = next.fetch_add(VERTICES_AT_ONCE, Ordering::Relaxed);
            if from >= count {
                return Ok(changed);
            }
            for place in from..(from + VERTICES_AT_ONCE).min(count) {
                let vertex = lists.vertices()[place];
                if !is_now(vertex) {
                    continue;
                }
                met.clear();
                let others = lists.neighbours(place).iter();
                let others = others.filter(|other| **other != vertex);
                met.extend(others.map(|other| labels[*other as usize]));
                let own = labels[vertex as usize];
                let best = most_frequent(&mut met, own);
                if best != own {
                    changed.push((place, best));
                }
            }
        }
    };
    let threads_count = job
        .options
        .threads
        .clamp(1, count.div_ceil(VERTICES_AT_ONCE));
    let found = threads::together("outcore-graph", threads_count, work)?;
    let found: Vec<Vec<_>> = found.into_iter().collect::<Result<_>>()?;
    Ok(found.concat())
}

/// Returns the most frequent label: `own` if none is more frequent, otherwise the smallest one.
fn most_frequent(met: &mut [u32], own: u32) -> u32 {
    met.sort_unstable();
    let times_of_own =
        met.partition_point(|label| *label <= own) - met.partition_point(|label| *label < own);
    let (mut best, mut most) = (own, times_of_own);
    for same in met.chunk_by(|a, b| a == b) {
        if same.len() > most {
            (best, most) = (same[0], same.len());
        }
    }
    best
}

/// Labels each community with its smallest vertex; returns the number of communities.
pub(super) fn call_by_smallest(labels: &mut [u32]) -> u64 {
    let mut smallest = vec![NO_VERTEX; labels.len()];
    let mut count = 0;
    for (vertex, label) in labels.iter_mut().enumerate() {
        let name = &mut smallest[*label as usize];
        if *name == NO_VERTEX {
            *name = vertex as u32;
            count += 1;
        }
        *label = *name;
    }
    count
}
