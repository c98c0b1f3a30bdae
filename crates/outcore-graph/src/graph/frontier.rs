//! Reads the edges of a frontier in the cheaper of two ways.
//!
//! Contract: [`Frontiers::edges_of`] calls a function with each edge that leaves a vertex of the
//! frontier. If the frontier is small, the blocks with its lists are read (top-down). If it is
//! large, all tiles are read, and each edge is tested (bottom-up). Model: the edge map of Ligra
//! (Shun, Blelloch, PPoPP 2013), and the direction-optimizing search of Beamer, Asanovic and
//! Patterson (SC 2012). Once the frontiers have read as many bytes as all lists of the direction
//! have, these lists are loaded into memory, if the job has room for them ([`ResidentLists`]). So a
//! search of many small frontiers reads at most twice as many bytes as if it loaded the lists at
//! the start.
//!
//! Bounds: one bit per vertex and the blocks of a [`ListReader`], and lists that fit into the
//! remaining memory; I/O is the blocks or the tiles.

use std::sync::atomic::{AtomicU64, Ordering};

use outcore::states::Column;
use outcore::{Job, Result};
use outcore_io::memory::Reservation;

use super::lists::ListReader;
use super::resident::ResidentLists;
use super::{Direction, Graph};
use crate::format::Part;
use crate::format::list::LIST_BLOCK_BYTES;

/// The bytes that a sequential read transfers in the time of one byte of a scattered read.
const SCATTERED_COST: u64 = 3;

/// A set of vertices with one bit each.
#[derive(Debug)]
pub(crate) struct VertexSet(Vec<AtomicU64>);

impl VertexSet {
    /// Creates an empty set for this many vertices.
    pub(crate) fn new(vertices: usize) -> Self {
        VertexSet(
            (0..vertices.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }

    /// Its bits, for a state that is kept.
    pub(crate) fn column(&self) -> Column<'_> {
        Column::Atomic64(&self.0)
    }

    /// Its vertices, in order.
    pub(crate) fn vertices(&self) -> impl Iterator<Item = u32> {
        let words = self.0.iter().zip((0..).step_by(64));
        words.flat_map(|(word, first)| {
            let word = word.load(Ordering::Relaxed);
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| first + bit)
        })
    }

    /// Whether it contains `vertex`.
    pub(crate) fn contains(&self, vertex: u32) -> bool {
        let word = self.0[vertex as usize / 64].load(Ordering::Relaxed);
        word >> (vertex % 64) & 1 == 1
    }

    /// Adds `vertex`, and returns whether it is new.
    pub(crate) fn insert(&self, vertex: u32) -> bool {
        let bit = 1 << (vertex % 64);
        let before = self.0[vertex as usize / 64].fetch_or(bit, Ordering::Relaxed);
        before & bit == 0
    }

    /// Removes `vertex`.
    pub(crate) fn remove(&self, vertex: u32) {
        let bit: u64 = 1 << (vertex % 64);
        self.0[vertex as usize / 64].fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Reads the edges of one frontier after another.
pub(crate) struct Frontiers<'g> {
    graph: &'g Graph,
    job: &'g Job,
    lists: ListReader<'g>,
    members: VertexSet,
    /// Lists in memory, of targets and of sources; and the bytes read without them.
    resident: [Option<ResidentLists>; 2],
    spent_bytes: u64,
    /// Whether lists did not fit; later frontiers then do not try to load them.
    is_too_large: bool,
    _held: Reservation,
}

impl<'g> Frontiers<'g> {
    /// Creates a reader for frontiers of `graph`.
    ///
    /// # Errors
    /// [`outcore::Kind::Memory`].
    pub(crate) fn new(job: &'g Job, graph: &'g Graph) -> Result<Self> {
        let bytes = graph.vertices().div_ceil(8) as u64;
        Ok(Frontiers {
            graph,
            job,
            lists: ListReader::new(job, graph)?,
            members: VertexSet::new(graph.vertices()),
            resident: [None, None],
            spent_bytes: 0,
            is_too_large: false,
            _held: job.budget.reserve("members of a frontier", bytes)?,
        })
    }

    /// Memory for a graph with this many vertices.
    pub(crate) fn bytes(vertices: usize) -> u64 {
        ListReader::BYTES + vertices.div_ceil(8) as u64
    }

    /// Calls `visit` with each edge of `direction` that leaves a vertex of `frontier`, as (that
    /// vertex, the other end). For directed graphs and [`Direction::Both`], this includes edges to
    /// that vertex. The frontier ascends.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn edges_of(
        &mut self,
        frontier: &[u32],
        direction: Direction,
        visit: impl Fn(u32, u32) + Sync,
    ) -> Result<()> {
        self.weighted_edges_of(frontier, direction, |from, to, _| visit(from, to))
    }

    /// Like [`Frontiers::edges_of`], with the weight of each edge: 1 if the graph has none.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn weighted_edges_of(
        &mut self,
        frontier: &[u32],
        direction: Direction,
        visit: impl Fn(u32, u32, f64) + Sync,
    ) -> Result<()> {
        if let Some(number) = self.resident_for(direction)?
            && let Some(lists) = &self.resident[number]
        {
            return lists.edges_of(self.job, frontier, &visit);
        }
        for vertex in frontier {
            self.members.insert(*vertex);
        }
        let worth = self.graph.tile_bytes() / (SCATTERED_COST * LIST_BLOCK_BYTES as u64);
        let blocks = self.lists.blocks_of(frontier, direction, worth as usize);
        self.spent_bytes += match &blocks {
            Some(blocks) => SCATTERED_COST * (blocks.len() * LIST_BLOCK_BYTES) as u64,
            None => self.graph.tile_bytes(),
        };
        let members = &self.members;
        let done = match blocks {
            Some(blocks) => self.lists.each_in(&blocks, &|list| {
                if members.contains(list.vertex) {
                    let weights = list.weights.values(list.neighbours.len());
                    for (other, weight) in list.neighbours.iter().zip(weights) {
                        visit(list.vertex, *other, weight);
                    }
                }
                Ok(())
            }),
            None => scan(self.graph, self.job, members, direction, &visit),
        };
        for vertex in frontier {
            self.members.remove(*vertex);
        }
        done
    }
}

impl Frontiers<'_> {
    /// Returns the index of the resident lists for `direction`, and loads them if that is worth it.
    fn resident_for(&mut self, direction: Direction) -> Result<Option<usize>> {
        let [part] = self.graph.parts(direction) else {
            return Ok(None);
        };
        let number = usize::from(*part == Part::In);
        if self.resident[number].is_some() {
            return Ok(Some(number));
        }
        let list_bytes = (self.graph.index(*part).blocks() * LIST_BLOCK_BYTES) as u64;
        if self.is_too_large || self.spent_bytes < list_bytes {
            return Ok(None);
        }
        self.resident[number] = ResidentLists::load(self.job, self.graph, *part)?;
        self.is_too_large = self.resident[number].is_none();
        self.spent_bytes = 0;
        Ok((!self.is_too_large).then_some(number))
    }

    /// The mean weight of the edges that leave vertices, once their lists are in memory.
    pub(crate) fn mean_weight(&self) -> Option<f64> {
        self.resident[0].as_ref()?.mean_weight()
    }
}

/// Tests all edges.
fn scan(
    graph: &Graph,
    job: &Job,
    members: &VertexSet,
    direction: Direction,
    visit: &(impl Fn(u32, u32, f64) + Sync),
) -> Result<()> {
    let is_directed = graph.manifest().directed;
    let (is_out, is_in) = match (is_directed, direction) {
        (true, Direction::Out) => (true, false),
        (true, Direction::In) => (false, true),
        _ => (true, true),
    };
    graph.scan(job, |segment| {
        for (target, source, weight) in segment.weighted_edges() {
            let (target, source) = (target as u32, source as u32);
            if is_out && members.contains(source) {
                visit(source, target, weight);
            }
            if is_in && members.contains(target) && (is_directed || target != source) {
                visit(target, source, weight);
            }
        }
        Ok(())
    })
}
