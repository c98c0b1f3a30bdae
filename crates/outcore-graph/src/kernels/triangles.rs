//! Counts triangles: three vertices that are all neighbours of each other.
//!
//! Contract: each vertex gets the number of triangles that contain it, as in networkx; the sum is
//! three times the number of triangles. The graph is undirected. Parallel edges count once; edges
//! from a vertex to itself are ignored.
//!
//! Source: each edge is kept at its end of smaller degree. So no list is longer than the square
//! root of twice the number of edges, and each triangle is found once, at its least vertex (Latapy,
//! "Main-memory triangle computations", TCS 2008). Beyond memory the method is that of MGT (Hu,
//! Tao, Chung, SIGMOD 2013): as many of these lists as fit are held in memory, and all lists are
//! streamed past them.
//!
//! Lists store vertices by rank, in descending order of degree. Most neighbours therefore have low
//! ranks, and their marks stay in the caches. The lists of the first [`HUBS_MAX`] ranks are also
//! stored as rows of bits ([`Hubs`]). Comparing a list with a hub's list then costs at most the
//! list's own length, or an eighth of a byte per vertex before the hub. It does not depend on the
//! length of the hub's list.
//!
//! Bounds: sixteen bytes per vertex, and four more per thread; 64 MiB for the bits of hubs, or an
//! eighth of the remaining memory. The lists are read once, and once more for each memory-sized
//! part of the held lists. Work is at most the sum of the lists' lengths over all kept edges, which
//! is at most the number of edges to the power of 1.5.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use outcore_io::threads;
use serde::{Deserialize, Serialize};

use crate::graph::lists::ListReader;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, sums};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "triangles";
/// Memory for reading blocks of lists, in addition to the kept lists.
const READING_BYTES: u64 = 12 << 20;
/// Memory for a batch of lists that are streamed.
const PASSING_BYTES: u64 = 8 << 20;
/// Memory per neighbour while lists are built. Half of the neighbours are kept: in parts, in a
/// vector with spare room, and in lists.
const NEIGHBOUR_BYTES: u64 = 2 * 4;
/// Memory per vertex: its number, the start of its list, and a part, in a vector with spare room.
const VERTEX_BYTES: u64 = 4 + 8 + 2 * size_of::<Stretch>() as u64;
/// The most vertices whose lists are rows of bits.
const HUBS_MAX: usize = 1 << 15;
/// Vertices whose lists a thread compares at a time.
const VERTICES_AT_ONCE: usize = 256;
/// The number of passes of a job that keeps its state, if it holds all lists.
const STRETCHES: usize = 64;

/// Returns the number of triangles that contain each vertex.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a directed graph, [`outcore::Kind::Memory`] if the state does not
/// fit; errors of reading.
pub fn triangles(job: &Job, graph: &Graph) -> Result<Vec<u64>> {
    if graph.manifest().directed {
        let cause = "the graph is directed, but triangles need an undirected graph";
        return Err(Error::usage(KERNEL, cause)
            .path(graph.dir())
            .hint("convert the edges again with --undirected"));
    }
    let vertices = graph.vertices();
    let beside_bytes = ListReader::BYTES + PASSING_BYTES + READING_BYTES;
    let vertex_bytes = 16 + Marks::VERTEX_BYTES * job.options.threads.max(1);
    let _state = State::planned(
        job,
        graph,
        KERNEL,
        EdgeReads::HeldParts,
        StateBytes::new(vertex_bytes, beside_bytes),
    )?;
    let mut lists = ListReader::new(job, graph)?;
    let _passing = job.budget.reserve("lists that pass by", PASSING_BYTES)?;
    let free_bytes = job.budget.free_bytes().saturating_sub(READING_BYTES);
    let hubs_count = Hubs::count_within(free_bytes / 8).min(vertices);
    let held_bytes = free_bytes - Hubs::bytes(hubs_count);
    let _hubs = job.budget.reserve("hubs", Hubs::bytes(hubs_count))?;
    let _held = job.budget.reserve("lists that are held", held_bytes)?;
    let degrees = graph.degrees(job, Direction::Out)?;
    let mut counted = Counted {
        counts: sums(vertices),
        met: Met::default(),
    };
    job.restore_state(&mut counted)?;
    let held_parts = counted.met.held_parts(&degrees, held_bytes);
    let passing_parts = parts_of(&degrees, 0..vertices, PASSING_BYTES);
    let ranks = Ranks::of(degrees);
    for part in held_parts {
        job.control.begin_phase("hold lists", 0);
        let lists_held = Shorter::read(&mut lists, &ranks, part.clone())?;
        let hubs = Hubs::of(&lists_held, &ranks, hubs_count);
        let held = Held {
            lists: &lists_held,
            hubs: &hubs,
        };
        job.control.begin_phase("triangles", 0);
        counted.begin(&part);
        // If all lists are held, they are also the ones to stream.
        if part == (0..vertices) {
            let stretch = match job.states {
                Some(_) => vertices.div_ceil(STRETCHES).max(1),
                None => vertices.max(1),
            };
            for from in (counted.met.passed..vertices).step_by(stretch) {
                let passing = from..vertices.min(from + stretch);
                lists_held.count_in(passing.clone(), held, job, &ranks, &counted.counts)?;
                counted.end_pass(job, &part, passing.end)?;
            }
        } else {
            let passed = counted.met.passed;
            for passing in passing_parts.iter().filter(|passing| passing.end > passed) {
                let passing = passing.start.max(passed)..passing.end;
                let lists = Shorter::read(&mut lists, &ranks, passing.clone())?;
                lists.count_in(passing.clone(), held, job, &ranks, &counted.counts)?;
                counted.end_pass(job, &part, passing.end)?;
            }
        }
        counted.met.held_from = part.end;
        job.keep_state(&mut counted)?;
    }
    let count_of = |rank: &u32| counted.counts[*rank as usize].load(Ordering::Relaxed);
    Ok(ranks.of_vertex.iter().map(count_of).collect())
}

/// The triangles that have been counted between two passes, by rank.
struct Counted {
    counts: Vec<AtomicU64>,
    met: Met,
}

/// Which lists have been compared with which held lists. A run that continues may hold fewer lists
/// at a time.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Met {
    /// The lists before this vertex were held and have been compared with all lists.
    held_from: usize,
    /// The lists from `held_from` to this vertex are held, and have been compared with the lists of
    /// the vertices before `passed`.
    held_to: usize,
    passed: usize,
}

impl Met {
    /// The lists that are still to be held, in parts of at most this many bytes.
    fn held_parts(&self, degrees: &[u32], bytes_max: u64) -> Vec<Range<usize>> {
        let held_to = self.held_to.max(self.held_from);
        let mut parts = parts_of(degrees, self.held_from..held_to, bytes_max);
        parts.extend(parts_of(degrees, held_to..degrees.len(), bytes_max));
        parts
    }
}

impl Counted {
    /// Begins to hold the lists of `part`.
    fn begin(&mut self, part: &Range<usize>) {
        if part.end > self.met.held_to {
            self.met.held_to = part.end;
            self.met.passed = 0;
        }
    }

    /// Ends the pass of the lists up to `passed`. Keeps the state, unless this run holds only some
    /// of the lists that a killed run held.
    fn end_pass(&mut self, job: &Job, part: &Range<usize>, passed: usize) -> Result<()> {
        if part.end < self.met.held_to {
            return Ok(());
        }
        self.met.passed = passed;
        job.keep_state(self)
    }
}

impl PassState for Counted {
    const NAME: &'static str = KERNEL;
    type Facts = Met;

    fn facts(&self) -> Met {
        self.met
    }

    fn take(&mut self, facts: Met) {
        self.met = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::Atomic64(&self.counts)]
    }
}

/// Vertices by degree.
struct Ranks {
    /// The rank of each vertex: the number of vertices with a larger degree, or with the same
    /// degree and a larger number.
    of_vertex: Vec<u32>,
    /// Vertices in the order of their ranks.
    vertices: Vec<u32>,
}

impl Ranks {
    fn of(degrees: Vec<u32>) -> Self {
        let mut vertices: Vec<u32> = (0..degrees.len() as u32).rev().collect();
        vertices.sort_unstable_by_key(|vertex| Reverse((degrees[*vertex as usize], *vertex)));
        let mut of_vertex = degrees;
        for (rank, vertex) in (0..).zip(&vertices) {
            of_vertex[*vertex as usize] = rank;
        }
        Ranks {
            of_vertex,
            vertices,
        }
    }
}

/// Splits vertices into ranges whose lists take at most this many bytes, or that have a single
/// vertex.
fn parts_of(degrees: &[u32], vertices: Range<usize>, bytes_max: u64) -> Vec<Range<usize>> {
    let degrees = &degrees[..vertices.end];
    let mut parts = Vec::new();
    let mut from = vertices.start;
    while from < degrees.len() {
        let part = part_of(degrees, from, bytes_max);
        from = part.end;
        parts.push(part);
    }
    parts
}

/// Returns a range of vertices that starts at `from` and whose lists take at most this many bytes,
/// or a single vertex.
fn part_of(degrees: &[u32], from: usize, bytes_max: u64) -> Range<usize> {
    let mut bytes = 0;
    let mut end = from;
    while end < degrees.len() {
        bytes += VERTEX_BYTES + NEIGHBOUR_BYTES * u64::from(degrees[end]);
        if bytes > bytes_max && end > from {
            break;
        }
        end += 1;
    }
    from..end
}

/// Parts of lists, in the order of their arrival.
#[derive(Default)]
struct Pieces {
    stretches: Vec<Stretch>,
    neighbours: Vec<u32>,
}

/// The place of a part of a list.
struct Stretch {
    vertex: u32,
    neighbours_count: u32,
    start: usize,
}

impl Pieces {
    fn push(&mut self, vertex: u32, neighbours: &[u32]) {
        self.stretches.push(Stretch {
            vertex,
            neighbours_count: neighbours.len() as u32,
            start: self.neighbours.len(),
        });
        self.neighbours.extend_from_slice(neighbours);
    }

    fn of(&self, piece: &Stretch) -> &[u32] {
        &self.neighbours[piece.start..][..piece.neighbours_count as usize]
    }

    /// Sorts parts by vertex. Each part of a list longer than a block ascends, so these parts are
    /// sorted by their first neighbours.
    fn sort(&mut self) {
        let neighbours = &self.neighbours;
        let key = |piece: &Stretch| (piece.vertex, neighbours.get(piece.start).copied());
        self.stretches.sort_unstable_by_key(key);
    }
}

/// For some vertices: the ranks of their neighbours of larger degree, or of equal degree and a
/// larger number.
struct Shorter {
    vertices: Range<usize>,
    /// The start of each list, followed by the end of the last one.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
}

/// The held lists, and the lists of hubs as bits.
#[derive(Clone, Copy)]
struct Held<'h> {
    lists: &'h Shorter,
    hubs: &'h Hubs,
}

impl Shorter {
    fn read(lists: &mut ListReader<'_>, ranks: &Ranks, vertices: Range<usize>) -> Result<Self> {
        let named: Vec<u32> = vertices.clone().map(|vertex| vertex as u32).collect();
        let rank = |vertex: u32| ranks.of_vertex[vertex as usize];
        let pieces: Mutex<Pieces> = Mutex::default();
        lists.each(&named, Direction::Out, |list| {
            let above = list.neighbours.iter().copied();
            let above: Vec<u32> = above
                .filter(|other| rank(*other) < rank(list.vertex))
                .collect();
            if !above.is_empty() {
                let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
                pieces.push(list.vertex, &above);
            }
            Ok(())
        })?;
        let mut pieces = pieces.into_inner().unwrap_or_else(PoisonError::into_inner);
        pieces.sort();
        let mut shorter = Shorter {
            starts: Vec::with_capacity(vertices.len() + 1),
            neighbours: Vec::with_capacity(pieces.neighbours.len()),
            vertices: vertices.clone(),
        };
        let mut stretches = pieces.stretches.iter().peekable();
        for vertex in vertices {
            let start = shorter.neighbours.len();
            shorter.starts.push(start);
            while let Some(piece) = stretches.next_if(|piece| piece.vertex as usize == vertex) {
                for &neighbour in pieces.of(piece) {
                    // Parallel edges are adjacent.
                    let neighbour = rank(neighbour);
                    if shorter.neighbours[start..].last() != Some(&neighbour) {
                        shorter.neighbours.push(neighbour);
                    }
                }
            }
        }
        shorter.starts.push(shorter.neighbours.len());
        Ok(shorter)
    }

    /// Returns the list of a vertex, if it is here.
    fn list(&self, vertex: usize) -> Option<&[u32]> {
        let place = vertex.checked_sub(self.vertices.start)?;
        let (start, end) = (self.starts.get(place)?, self.starts.get(place + 1)?);
        self.neighbours.get(*start..*end)
    }

    /// Counts triangles by rank. One vertex of each triangle is in `vertices`, another in `held`.
    fn count_in(
        &self,
        vertices: Range<usize>,
        held: Held<'_>,
        job: &Job,
        ranks: &Ranks,
        counts: &[AtomicU64],
    ) -> Result<()> {
        let next = AtomicUsize::new(vertices.start);
        let work = |_thread: usize| -> Result<()> {
            let mut marks = Marks::of(counts.len(), held.hubs.count());
            loop {
                let from = next.fetch_add(VERTICES_AT_ONCE, Ordering::Relaxed);
                if from >= vertices.end {
                    return Ok(());
                }
                job.control.check()?;
                for vertex in from..(from + VERTICES_AT_ONCE).min(vertices.end) {
                    self.count_of(vertex, held, &mut marks, ranks, counts);
                }
            }
        };
        let threads_count = job.options.threads.max(1);
        let done = threads::together("outcore-graph", threads_count, work)?;
        done.into_iter().collect()
    }

    fn count_of(
        &self,
        vertex: usize,
        Held { lists: held, hubs }: Held<'_>,
        marks: &mut Marks,
        ranks: &Ranks,
        counts: &[AtomicU64],
    ) {
        let list = self.list(vertex).unwrap_or_default();
        if list.len() < 2 {
            return;
        }
        marks.set(list);
        let mut of_vertex = 0;
        for place in 0..list.len() {
            let other = marks.list[place];
            let found = match hubs.row(other) {
                Some(row) => marks.count_hub(place, row),
                None => {
                    let others = held.list(ranks.vertices[other as usize] as usize);
                    marks.count(others.unwrap_or_default())
                }
            };
            marks.met[BEYOND + place] += found;
            of_vertex += found;
        }
        if of_vertex > 0 {
            let rank = ranks.of_vertex[vertex] as usize;
            counts[rank].fetch_add(of_vertex, Ordering::Relaxed);
        }
        marks.clear(counts);
    }
}

/// The lists of the lowest ranks, as rows of bits. A row has a bit for each vertex of a lower rank;
/// a list contains no others.
struct Hubs {
    words: Vec<u64>,
    /// The start of each row, followed by the end of the last one.
    starts: Vec<usize>,
}

impl Hubs {
    /// Bytes of this many rows.
    fn bytes(count: usize) -> u64 {
        // On average, the last word of a row is half used.
        (count * (count / 16 + size_of::<u64>() + size_of::<usize>())) as u64
    }

    /// The number of rows that fit.
    fn count_within(bytes: u64) -> usize {
        let halves = std::iter::successors(Some(HUBS_MAX), |count| Some(count / 2));
        let mut fitting = halves.filter(|count| Hubs::bytes(*count) <= bytes);
        fitting.next().unwrap_or(0)
    }

    /// Builds the rows of hubs whose lists are `held`; the rows of others are empty.
    fn of(held: &Shorter, ranks: &Ranks, count: usize) -> Self {
        let row_words = |rank: usize| rank.div_ceil(u64::BITS as usize);
        let mut starts = vec![0];
        starts.extend((0..count).scan(0, |end, rank| {
            *end += row_words(rank);
            Some(*end)
        }));
        let mut words = vec![0; starts[count]];
        for (start, vertex) in starts.iter().zip(&ranks.vertices[..count]) {
            for rank in held.list(*vertex as usize).unwrap_or_default() {
                words[start + word_of(*rank)] |= bit_of(*rank);
            }
        }
        Hubs { words, starts }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the row of the vertex with this rank, if it is a hub.
    fn row(&self, rank: u32) -> Option<&[u64]> {
        let end = self.starts.get(rank as usize + 1)?;
        self.words.get(self.starts[rank as usize]..*end)
    }
}

fn word_of(rank: u32) -> usize {
    (rank / u64::BITS) as usize
}

fn bit_of(rank: u32) -> u64 {
    1 << (rank % u64::BITS)
}

/// One vertex's list, in order, as a table of all ranks and as bits of hubs, with a count of
/// matches per neighbour. Each thread has one.
struct Marks {
    list: Vec<u32>,
    /// For each rank: its place in the list, counted from [`BEYOND`], or 0 if it is not in the
    /// list.
    places: Vec<u32>,
    /// A bit for each hub.
    hubs: Vec<u64>,
    /// For each place: the number of matches. Places below [`BEYOND`] are used alternately for
    /// vertices that are not in the list, because an addition to a single counter would wait for
    /// the previous one.
    met: Vec<u64>,
}

/// The number of places for vertices that are not in the list, a power of two.
const BEYOND: usize = 8;

impl Marks {
    /// Bytes per vertex.
    const VERTEX_BYTES: usize = size_of::<u32>();

    fn of(vertices: usize, hubs_count: usize) -> Self {
        Marks {
            list: Vec::new(),
            places: vec![0; vertices],
            hubs: vec![0; hubs_count.div_ceil(u64::BITS as usize)],
            met: Vec::new(),
        }
    }

    fn set(&mut self, list: &[u32]) {
        self.list.clear();
        self.list.extend_from_slice(list);
        self.list.sort_unstable();
        self.met.clear();
        self.met.resize(list.len() + BEYOND, 0);
        for (place, rank) in (BEYOND as u32..).zip(&self.list) {
            self.places[*rank as usize] = place;
            if let Some(word) = self.hubs.get_mut(word_of(*rank)) {
                *word |= bit_of(*rank);
            }
        }
    }

    /// Counts how many vertices of a hub's list are in this one; the hub is at `place`, and all
    /// matches come before it.
    fn count_hub(&mut self, place: usize, row: &[u64]) -> u64 {
        let before = &self.list[..place];
        let mut found = 0;
        // N.B. Testing a word costs about as much as testing a vertex. Prefetching rows does not
        // help, and skipping groups of four words without matches is slower.
        if before.len() <= row.len() {
            for (rank, met) in before.iter().zip(&mut self.met[BEYOND..]) {
                let is_in = row[word_of(*rank)] >> (rank % u64::BITS) & 1;
                *met += is_in;
                found += is_in;
            }
            return found;
        }
        for (number, (word, marked)) in row.iter().zip(&self.hubs).enumerate() {
            let mut both = word & marked;
            while both != 0 {
                let rank = number * u64::BITS as usize + both.trailing_zeros() as usize;
                self.met[self.places[rank] as usize] += 1;
                found += 1;
                both &= both - 1;
            }
        }
        found
    }

    /// Counts how many of `others` are in the list.
    fn count(&mut self, others: &[u32]) -> u64 {
        let mut found = 0;
        for (turn, other) in others.iter().enumerate() {
            let place = self.places[*other as usize] as usize;
            let is_in = place > 0;
            let slot = if is_in { place } else { turn % BEYOND };
            self.met[slot] += 1;
            found += u64::from(is_in);
        }
        found
    }

    /// Adds the matches of each neighbour to its count, and clears them.
    fn clear(&mut self, counts: &[AtomicU64]) {
        for (rank, met) in self.list.iter().zip(&self.met[BEYOND..]) {
            self.places[*rank as usize] = 0;
            if let Some(word) = self.hubs.get_mut(word_of(*rank)) {
                *word = 0;
            }
            if *met > 0 {
                counts[*rank as usize].fetch_add(*met, Ordering::Relaxed);
            }
        }
    }
}
