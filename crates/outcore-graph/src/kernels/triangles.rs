//! Triangles: three vertices, each a neighbour of the two others.
//!
//! Contract: each vertex gets the number of triangles that it is in, as networkx has it; their sum
//! is three times that of the triangles. Edges are those of an undirected graph; parallel ones
//! count once, and edges from a vertex to itself not at all.
//!
//! Source: each edge is kept at its end of smaller degree, so that no list is longer than the
//! square root of twice the number of edges, and each triangle is found once, at its least vertex
//! (Latapy, "Main-memory triangle computations", TCS 2008); beyond memory as MGT (Hu, Tao, Chung,
//! SIGMOD 2013) has it: as many of these lists as fit are held, and all others pass by them.
//!
//! Vertices in lists are called by rank, the one of largest degree first: most that are met are
//! among the first, whose marks stay in the caches. The lists of the first [`HUBS_MAX`] are also
//! rows of bits ([`Hubs`]), so that a list that meets a hub's costs no more than its own length, or
//! an eighth of a byte for each vertex before the hub, and not the length of the hub's list.
//!
//! Bounds: sixteen bytes a vertex, and four more a thread; 64 MiB for the bits of hubs, or an
//! eighth of what is left; the lists are read once, and once more for each time that those that are
//! held fill the memory. Work is at most the sum of those lists' lengths over all edges that are
//! kept, at most the number of edges to the power of 1.5.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::{Error, Job, Result};
use outcore_io::threads;

use crate::graph::lists::ListReader;
use crate::graph::plan::EdgeReads;
use crate::graph::state::{State, StateBytes, sums};
use crate::graph::{Direction, Graph};

const KERNEL: &str = "triangles";
/// What reading blocks of lists takes beside those that are kept.
const READING_BYTES: u64 = 12 << 20;
/// What lists that pass by take at a time.
const PASSING_BYTES: u64 = 8 << 20;
/// What a neighbour takes while lists are made, of which half are kept: in pieces, in a vector that
/// grew, and in lists.
const NEIGHBOUR_BYTES: u64 = 2 * 4;
/// What a vertex takes: its number, where its list begins, and a piece, in a vector of these that
/// grew.
const VERTEX_BYTES: u64 = 4 + 8 + 2 * size_of::<Stretch>() as u64;
/// Vertices whose lists are rows of bits, at most.
const HUBS_MAX: usize = 1 << 15;
/// Vertices whose lists one thread compares before it takes others.
const VERTICES_AT_ONCE: usize = 256;

/// The number of triangles that each vertex is in.
///
/// # Errors
/// [`outcore::Kind::Usage`] for a directed graph, [`outcore::Kind::Memory`] if the state does not
/// fit; what reading fails with.
pub fn triangles(job: &Job, graph: &Graph) -> Result<Vec<u64>> {
    if graph.manifest().directed {
        let cause = "the graph is directed, and triangles are those of an undirected one";
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
    let held_parts = parts_of(&degrees, held_bytes);
    let passing_parts = parts_of(&degrees, PASSING_BYTES);
    let ranks = Ranks::of(degrees);
    let counts = sums(vertices);
    for part in &held_parts {
        job.control.begin_phase("hold lists", 0);
        let lists_held = Shorter::read(&mut lists, &ranks, part.clone())?;
        let hubs = Hubs::of(&lists_held, &ranks, hubs_count);
        let held = Held {
            lists: &lists_held,
            hubs: &hubs,
        };
        job.control.begin_phase("triangles", 0);
        // Where all lists are held, they are what passes by, too.
        if held_parts.len() == 1 {
            lists_held.count_in(held, job, &ranks, &counts)?;
            break;
        }
        for passing in &passing_parts {
            let passing = Shorter::read(&mut lists, &ranks, passing.clone())?;
            passing.count_in(held, job, &ranks, &counts)?;
        }
    }
    let count_of = |rank: &u32| counts[*rank as usize].load(Ordering::Relaxed);
    Ok(ranks.of_vertex.iter().map(count_of).collect())
}

/// Vertices by degree.
struct Ranks {
    /// Of each vertex: how many have a larger degree, or the same one and a larger number.
    of_vertex: Vec<u32>,
    /// Vertices in that order.
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

/// All vertices in runs whose lists take this many bytes at most, but one vertex at least.
fn parts_of(degrees: &[u32], bytes_max: u64) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut from = 0;
    while from < degrees.len() {
        let part = part_of(degrees, from, bytes_max);
        from = part.end;
        parts.push(part);
    }
    parts
}

/// Vertices from `from` on whose lists take this many bytes at most, but one at least.
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

/// Parts of lists, as they come: one behind another.
#[derive(Default)]
struct Pieces {
    stretches: Vec<Stretch>,
    neighbours: Vec<u32>,
}

/// Where the part of a list lies.
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

    /// Brings parts in order by vertex; those of a list that is longer than a block, each of which
    /// ascends, by their first neighbours.
    fn sort(&mut self) {
        let neighbours = &self.neighbours;
        let key = |piece: &Stretch| (piece.vertex, neighbours.get(piece.start).copied());
        self.stretches.sort_unstable_by_key(key);
    }
}

/// Of some vertices: the neighbours of larger degree, or of equal degree and a larger number, by
/// their ranks.
struct Shorter {
    vertices: Range<usize>,
    /// Where the list of each vertex begins, and where the last one ends.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
}

/// Lists that are held, and those of them that are hubs, as bits.
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
                    // Parallel edges lie side by side.
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

    /// The list of a vertex, if it is one of these.
    fn list(&self, vertex: usize) -> Option<&[u32]> {
        let place = vertex.checked_sub(self.vertices.start)?;
        let (start, end) = (self.starts.get(place)?, self.starts.get(place + 1)?);
        self.neighbours.get(*start..*end)
    }

    /// Counts the triangles of a vertex of these, of one of `held` and of a third, by rank.
    fn count_in(
        &self,
        held: Held<'_>,
        job: &Job,
        ranks: &Ranks,
        counts: &[AtomicU64],
    ) -> Result<()> {
        let next = AtomicUsize::new(self.vertices.start);
        let work = |_thread: usize| -> Result<()> {
            let mut marks = Marks::of(counts.len(), held.hubs.count());
            loop {
                let from = next.fetch_add(VERTICES_AT_ONCE, Ordering::Relaxed);
                if from >= self.vertices.end {
                    return Ok(());
                }
                job.control.check()?;
                for vertex in from..(from + VERTICES_AT_ONCE).min(self.vertices.end) {
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

/// The lists of the first vertices by rank, as rows of bits: a bit for each vertex of a lower rank,
/// of which alone a list has any.
struct Hubs {
    words: Vec<u64>,
    /// Where the row of each begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Hubs {
    /// Bytes of the rows of this many.
    fn bytes(count: usize) -> u64 {
        // Each row of bits ends with a word that is half used.
        (count * (count / 16 + size_of::<u64>() + size_of::<usize>())) as u64
    }

    /// How many have room.
    fn count_within(bytes: u64) -> usize {
        let halves = std::iter::successors(Some(HUBS_MAX), |count| Some(count / 2));
        let mut fitting = halves.filter(|count| Hubs::bytes(*count) <= bytes);
        fitting.next().unwrap_or(0)
    }

    /// Those whose lists are `held`; the rows of others are empty.
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

    /// The row of the vertex of this rank, if it is a hub.
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

/// The list of one vertex, in order, as a table of all ranks and as bits of hubs, and how often
/// each of the list was met. A thread has one.
struct Marks {
    list: Vec<u32>,
    /// Of each rank: its place in the list, from [`BEYOND`] on, or 0.
    places: Vec<u32>,
    /// A bit for each hub.
    hubs: Vec<u64>,
    /// Of each place: how often it was met. Those before [`BEYOND`] are met by turns for what is
    /// not in the list: an addition to one would wait for the addition before.
    met: Vec<u64>,
}

/// Places that stand for what is not in the list, a power of two.
const BEYOND: usize = 8;

impl Marks {
    /// Bytes a vertex.
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

    /// How many of the list of a hub, which is at `place` in this one, are in it: all that are lie
    /// before it.
    fn count_hub(&mut self, place: usize, row: &[u64]) -> u64 {
        let before = &self.list[..place];
        let mut found = 0;
        // N.B. a word costs about as much as a test. Rows that are asked for some neighbours before
        // gain nothing, and groups of four words that are left out where they have none in common
        // take a quarter longer.
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

    /// How many of `others` are in the list.
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

    /// Adds how often each was met to its count.
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
