//! Triangles: three vertices, each a neighbour of the two others.
//!
//! Contract: each vertex gets the number of triangles that it is in, as networkx has it; their sum is three times that of
//! the triangles. Edges are those of an undirected graph; parallel ones count once, and edges from a vertex to itself not at
//! all.
//!
//! Source: each edge is kept at its end of smaller degree, so that no list is longer than the square root of twice the
//! number of edges, and each triangle is found once, at its least vertex (Latapy, "Main-memory triangle computations", TCS
//! 2008); beyond memory as MGT (Hu, Tao, Chung, SIGMOD 2013) has it: as many of these lists as fit are held, and all others
//! pass by them.
//!
//! Bounds: twelve bytes a vertex; the lists are read once, and once more for each time that those that are held fill the
//! memory. Work is the sum over edges of the shorter lists of both ends, at most the number of edges to the power of 1.5.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::{Error, Job, Result};
use outcore_io::threads;

use crate::graph::lists::ListReader;
use crate::graph::state::{State, sums};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "triangles";
/// What reading blocks of lists takes beside those that are kept.
const READING_BYTES: u64 = 12 << 20;
/// Neighbours of the lists that pass by at a time, about: four bytes each, twice.
const PASSING_NEIGHBOURS: u64 = 1 << 20;
/// Vertices whose lists one thread compares before it takes others.
const VERTICES_AT_ONCE: usize = 256;

/// The number of triangles that each vertex is in.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a directed graph, [`outcore::Kind::Memory`] if the state does not fit; what reading fails
/// with.
pub fn triangles(job: &Job, graph: &Graph) -> Result<Vec<u64>> {
    if graph.manifest().directed {
        let cause = "the graph is directed, and triangles are those of an undirected one";
        return Err(Error::usage(KERNEL, cause)
            .path(graph.dir())
            .hint("convert the edges again with --undirected"));
    }
    let vertices = graph.vertices();
    let passing_bytes = 8 * PASSING_NEIGHBOURS;
    let beside_bytes = ListReader::BYTES + passing_bytes + READING_BYTES;
    let _state = State::reserve(job, graph, KERNEL, (12, beside_bytes))?;
    let degrees = graph.degrees(job, Direction::Out)?;
    let counts = sums(vertices);
    let mut lists = ListReader::new(job, graph)?;
    let _passing = job.budget.reserve("lists that pass by", passing_bytes)?;
    // As much again is needed while they are made.
    let held_bytes = job.budget.free_bytes().saturating_sub(READING_BYTES) / 2;
    let _held = job.budget.reserve("lists that are held", 2 * held_bytes)?;
    let held_max = (held_bytes / 4).max(1);
    let mut from = 0;
    while from < vertices {
        let part = part_of(&degrees, from, held_max);
        job.control.begin_phase("hold lists", 0);
        let held = Shorter::read(&mut lists, &degrees, part.clone())?;
        job.control.begin_phase("triangles", 0);
        let mut at = 0;
        while at < vertices {
            let passing = part_of(&degrees, at, PASSING_NEIGHBOURS);
            at = passing.end;
            // Where all lists are held, they are what passes by, too.
            if part.len() == vertices {
                held.count_in(&held, job, &counts)?;
                break;
            }
            let passing = Shorter::read(&mut lists, &degrees, passing)?;
            passing.count_in(&held, job, &counts)?;
        }
        from = part.end;
    }
    Ok(counts.into_iter().map(AtomicU64::into_inner).collect())
}

/// Vertices from `from` on with so many neighbours at most, but one at least.
fn part_of(degrees: &[u32], from: usize, neighbours_max: u64) -> Range<usize> {
    let mut neighbours = 0;
    let mut end = from;
    while end < degrees.len() {
        neighbours += u64::from(degrees[end]);
        if neighbours > neighbours_max && end > from {
            break;
        }
        end += 1;
    }
    from..end
}

/// Of some vertices: the neighbours of larger degree, or of equal degree and a larger number.
struct Shorter {
    vertices: Range<usize>,
    /// Where the list of each vertex begins, and where the last one ends.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
}

impl Shorter {
    fn read(lists: &mut ListReader<'_>, degrees: &[u32], vertices: Range<usize>) -> Result<Self> {
        let named: Vec<u32> = vertices.clone().map(|vertex| vertex as u32).collect();
        let rank = |vertex: u32| (degrees[vertex as usize], vertex);
        let pieces: Mutex<Vec<(u32, Vec<u32>)>> = Mutex::default();
        lists.each(&named, Direction::Out, |list| {
            let above = list.neighbours.iter().copied();
            let above: Vec<u32> = above
                .filter(|other| rank(*other) > rank(list.vertex))
                .collect();
            if !above.is_empty() {
                let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
                pieces.push((list.vertex, above));
            }
            Ok(())
        })?;
        let mut pieces = pieces.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A list longer than a block comes in several pieces, each ascending.
        pieces.sort_unstable_by_key(|(vertex, piece)| (*vertex, piece.first().copied()));
        let mut shorter = Shorter {
            starts: Vec::with_capacity(vertices.len() + 1),
            neighbours: Vec::with_capacity(pieces.iter().map(|(_, piece)| piece.len()).sum()),
            vertices: vertices.clone(),
        };
        let mut pieces = pieces.into_iter().peekable();
        for vertex in vertices {
            let start = shorter.neighbours.len();
            shorter.starts.push(start);
            while let Some((_, piece)) = pieces.next_if(|(other, _)| *other as usize == vertex) {
                for neighbour in piece {
                    // Parallel edges lie side by side.
                    if shorter.neighbours[start..].last() != Some(&neighbour) {
                        shorter.neighbours.push(neighbour);
                    }
                }
            }
        }
        shorter.starts.push(shorter.neighbours.len());
        Ok(shorter)
    }

    /// The list of a vertex, if it is one of these.
    fn list(&self, vertex: usize) -> Option<&[u32]> {
        let place = vertex.checked_sub(self.vertices.start)?;
        let (start, end) = (self.starts.get(place)?, self.starts.get(place + 1)?);
        self.neighbours.get(*start..*end)
    }

    /// Counts the triangles of a vertex of these, of one of `held` and of a third.
    fn count_in(&self, held: &Shorter, job: &Job, counts: &[AtomicU64]) -> Result<()> {
        let next = AtomicUsize::new(self.vertices.start);
        let work = |_thread: usize| -> Result<()> {
            loop {
                let from = next.fetch_add(VERTICES_AT_ONCE, Ordering::Relaxed);
                if from >= self.vertices.end {
                    return Ok(());
                }
                job.control.check()?;
                for vertex in from..(from + VERTICES_AT_ONCE).min(self.vertices.end) {
                    self.count_of(vertex, held, counts);
                }
            }
        };
        let threads_count = job.options.threads.max(1);
        let done = threads::together("outcore-graph", threads_count, work)?;
        done.into_iter().collect()
    }

    fn count_of(&self, vertex: usize, held: &Shorter, counts: &[AtomicU64]) {
        let list = self.list(vertex).unwrap_or_default();
        let mut of_vertex = 0;
        for &other in list {
            let Some(others) = held.list(other as usize) else {
                continue;
            };
            let mut of_other = 0;
            common(list, others, |third| {
                of_other += 1;
                counts[third as usize].fetch_add(1, Ordering::Relaxed);
            });
            if of_other > 0 {
                counts[other as usize].fetch_add(of_other, Ordering::Relaxed);
                of_vertex += of_other;
            }
        }
        if of_vertex > 0 {
            counts[vertex].fetch_add(of_vertex, Ordering::Relaxed);
        }
    }
}

/// Gives what two ascending lists have in common to `take`.
fn common(mut one: &[u32], mut other: &[u32], mut take: impl FnMut(u32)) {
    while let (Some((a, one_rest)), Some((b, other_rest))) =
        (one.split_first(), other.split_first())
    {
        match a.cmp(b) {
            Less => one = one_rest,
            Greater => other = other_rest,
            Equal => {
                take(*a);
                (one, other) = (one_rest, other_rest);
            }
        }
    }
}
