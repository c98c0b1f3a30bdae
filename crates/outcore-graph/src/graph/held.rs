//! Loads the lists of some vertices into memory.
//!
//! Contract: [`HeldLists::read`] reads the complete lists of given vertices, and returns them in
//! the order of the vertices. [`runs`] splits vertices into runs whose lists are held together.
//! Both depend only on the graph and the vertices, not on memory or threads.
//!
//! Bounds: [`HELD_NEIGHBOURS`] neighbours of [`HELD_VERTICES`] vertices, or those of one vertex if
//! it has more; twice that during reading.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use outcore::{Job, Result};
use outcore_io::memory::Reservation;

use super::lists::ListReader;
use super::{Direction, Graph};

/// The approximate number of neighbours that are held at a time.
const HELD_NEIGHBOURS: u64 = 1 << 19;
/// The most vertices whose lists are held at a time.
const HELD_VERTICES: usize = 1 << 16;
/// Memory for reading blocks of lists, in addition to the kept lists.
pub(crate) const READING_BYTES: u64 = 14 << 20;

/// Lists of some vertices.
#[derive(Debug)]
pub(crate) struct HeldLists {
    vertices: Vec<u32>,
    /// The start of each list, followed by the end of the last one.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
    /// The bits of one weight per neighbour; empty without weights.
    weights: Vec<u64>,
}

/// Parts of lists, in no order.
#[derive(Default)]
struct Pieces {
    /// The vertex of each part, and the range of its neighbours.
    of: Vec<(u32, Range<usize>)>,
    neighbours: Vec<u32>,
    weights: Vec<u64>,
}

/// Reads lists into memory.
pub(crate) struct ListHolder<'g> {
    lists: ListReader<'g>,
    direction: Direction,
    with_weights: bool,
    _held: Reservation,
}

impl<'g> ListHolder<'g> {
    /// Memory for `graph`.
    pub(crate) fn bytes(graph: &Graph, with_weights: bool) -> u64 {
        ListReader::BYTES + READING_BYTES + held_bytes(graph, with_weights)
    }

    /// Creates a reader for the lists of `graph` in a direction, with weights if they are requested
    /// and exist.
    ///
    /// # Errors
    /// [`outcore::Kind::Memory`].
    pub(crate) fn new(
        job: &'g Job,
        graph: &'g Graph,
        direction: Direction,
        with_weights: bool,
    ) -> Result<Self> {
        let bytes = held_bytes(graph, with_weights);
        Ok(ListHolder {
            lists: ListReader::new(job, graph)?,
            direction,
            with_weights,
            _held: job.budget.reserve("lists that are held", bytes)?,
        })
    }

    /// Reads the lists of `vertices`, which ascend.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn read(&mut self, vertices: Vec<u32>) -> Result<HeldLists> {
        let with_weights = self.with_weights;
        let pieces: Mutex<Pieces> = Mutex::default();
        self.lists.each(&vertices, self.direction, |list| {
            let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
            let from = pieces.neighbours.len();
            let range = from..from + list.neighbours.len();
            pieces.of.push((list.vertex, range));
            pieces.neighbours.extend_from_slice(list.neighbours);
            if with_weights {
                pieces.weights.extend(list.weights.bits());
            }
            Ok(())
        })?;
        let pieces = pieces.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(HeldLists::of(vertices, pieces))
    }
}

fn held_bytes(graph: &Graph, with_weights: bool) -> u64 {
    let manifest = graph.manifest();
    let lists = std::iter::once(&manifest.out).chain(&manifest.sources);
    let longest = lists.map(|lists| u64::from(lists.degree_max)).sum();
    let is_weighted = with_weights && manifest.weighted;
    let neighbour_bytes = if is_weighted { 12 } else { 4 };
    2 * neighbour_bytes * HELD_NEIGHBOURS.max(longest)
}

impl HeldLists {
    /// Joins parts in one order; a list longer than a block comes in several parts.
    fn of(vertices: Vec<u32>, pieces: Pieces) -> Self {
        let weights_of = |range: &Range<usize>| {
            let weights = pieces.weights.get(range.clone()).unwrap_or_default();
            weights.iter()
        };
        let mut of = pieces.of;
        of.sort_unstable_by(|(a, in_a), (b, in_b)| {
            let neighbours = |range: &Range<usize>| &pieces.neighbours[range.clone()];
            let order = (a, neighbours(in_a)).cmp(&(b, neighbours(in_b)));
            order.then_with(|| weights_of(in_a).cmp(weights_of(in_b)))
        });
        let mut held = HeldLists {
            starts: Vec::with_capacity(vertices.len() + 1),
            neighbours: Vec::with_capacity(pieces.neighbours.len()),
            weights: Vec::with_capacity(pieces.weights.len()),
            vertices,
        };
        let mut of = of.iter().peekable();
        for vertex in &held.vertices {
            held.starts.push(held.neighbours.len());
            while let Some((_, range)) = of.next_if(|(other, _)| other == vertex) {
                let neighbours = &pieces.neighbours[range.clone()];
                held.neighbours.extend_from_slice(neighbours);
                let weights = pieces.weights.get(range.clone()).unwrap_or_default();
                held.weights.extend_from_slice(weights);
            }
        }
        held.starts.push(held.neighbours.len());
        held
    }

    /// The vertices, in order.
    pub(crate) fn vertices(&self) -> &[u32] {
        &self.vertices
    }

    /// The range of the list of the vertex at `place`.
    fn range(&self, place: usize) -> Range<usize> {
        self.starts[place]..self.starts[place + 1]
    }

    /// The neighbours of the vertex at `place`.
    pub(crate) fn neighbours(&self, place: usize) -> &[u32] {
        &self.neighbours[self.range(place)]
    }

    /// The bits of their weights; empty if there are none or they were not requested.
    pub(crate) fn weights(&self, place: usize) -> &[u64] {
        self.weights.get(self.range(place)).unwrap_or_default()
    }
}

/// Splits `vertices`, which ascend, into runs with about as many neighbours as are held at a time,
/// and at least one vertex.
pub(crate) fn runs<'v>(vertices: &'v [u32], degrees: &'v [u32]) -> impl Iterator<Item = &'v [u32]> {
    let mut rest = vertices;
    std::iter::from_fn(move || {
        let mut neighbours = 0;
        let fits = |vertex: &&u32| {
            neighbours += u64::from(degrees[**vertex as usize]);
            neighbours <= HELD_NEIGHBOURS
        };
        let count = rest.iter().take(HELD_VERTICES).take_while(fits).count();
        let (run, behind) = rest.split_at(count.max(1).min(rest.len()));
        rest = behind;
        (!run.is_empty()).then_some(run)
    })
}
