//! The second phase: buckets of lines are loaded, sorted by reference and written in order.
//!
//! Contract: each worker takes leaves in order and keeps the next ones loading while it sorts one and
//! earlier ones are being written. Every segment's checksum is verified before its lines are looked
//! at. Where keys are made, they are made of the lines in the order of the input, so that places of
//! keys order ties. Lines are gathered in chunks laid out like the output. Where a leaf's place
//! depends on the leaves before it, workers take turns ([`Turns`]) between sorting and writing.
//!
//! Bounds: memory is each worker's own areas and chunks, references and keys; reads each segment
//! once, writes each output byte once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use memchr::memchr_iter;

use super::arrange::{key_ref, sort_keys, to_line};
use super::bucket::{LineBucket, Space};
use super::context::Context;
use super::emit::Gather;
use super::plan::SORTING;
use super::refs::{AnyTie, Ref, sort_refs};
use super::table::Tables;
use crate::algo::leaf::Sink;
use crate::algo::partition::load::Load;
use crate::algo::place::{Turns, write_pipe};
use crate::data::lines::LineTie;
use crate::error::{Error, Kind, Result};
use crate::memory::{BLOCK_BYTES, Buf, Pool};
use crate::stream::writer::{WRITE_TOKEN, Writer};
use crate::volume::{Port, Transfer};

/// References to one line that are gathered at once.
const COPIES_MAX: u64 = 4096;

/// A piece of the output: a bucket small enough to be sorted at once.
#[derive(Debug)]
pub(super) struct LineLeaf {
    pub(super) bucket: LineBucket,
    /// First output byte, where it does not depend on what is left out.
    pub(super) start_bytes: u64,
}

/// What the leaves of a sort share.
pub(super) struct LineLeaves<'a> {
    pub(super) leaves: Vec<Mutex<Option<LineLeaf>>>,
    pub(super) next: AtomicUsize,
    /// Leaves at this and behind are not taken now.
    pub(super) end: AtomicUsize,
    pub(super) sink: Sink<'a>,
    pub(super) tables: &'a Tables,
    pub(super) turns: Turns,
    /// Lines written.
    pub(super) lines: AtomicU64,
}

/// Memory of one worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeafSizes {
    pub(super) space: Space,
    pub(super) areas: usize,
    pub(super) chunk_bytes: usize,
    pub(super) chunks: usize,
}

impl LeafSizes {
    /// All of it.
    pub(super) fn bytes(&self) -> u64 {
        let areas = self.areas as u64 * self.space.area_bytes.max(BLOCK_BYTES as u64);
        areas + self.space.beside_bytes() + (self.chunks * self.chunk_bytes) as u64
    }
}

struct Loading {
    load: Load,
    leaf: LineLeaf,
}

struct Worker<'a> {
    context: &'a Context<'a>,
    leaves: &'a LineLeaves<'a>,
    areas_max: usize,
    port: Port,
    areas: Pool,
    chunks: Pool,
    loads: VecDeque<Loading>,
    finished: Vec<Transfer>,
    refs: Vec<Ref>,
    keys: Vec<u8>,
}

/// Sorts and writes the leaves from `next` to `end` on `threads` threads.
pub(super) fn run(
    context: &Context<'_>,
    leaves: &LineLeaves<'_>,
    sizes: LeafSizes,
    threads: usize,
) -> Result<()> {
    let budget = &context.job.budget;
    let beside_bytes = sizes.space.beside_bytes() * threads as u64;
    let _space = budget.reserve(SORTING, beside_bytes)?;
    let area_bytes = (sizes.space.area_bytes as usize).max(BLOCK_BYTES);
    let mut pools = Vec::new();
    for _ in 0..threads {
        let areas = Pool::new(budget, SORTING, area_bytes, sizes.areas)?;
        let chunks = Pool::new(budget, SORTING, sizes.chunk_bytes, sizes.chunks)?;
        pools.push((areas, chunks));
    }
    context.on_all_threads(|thread| {
        let Some((areas, chunks)) = pools.get(thread).cloned() else {
            return Ok(());
        };
        let mut worker = Worker {
            context,
            leaves,
            areas_max: sizes.areas,
            port: context.volume.port()?,
            areas,
            chunks,
            loads: VecDeque::new(),
            finished: Vec::new(),
            refs: Vec::new(),
            keys: Vec::new(),
        };
        worker.run()
    })?;
    Ok(())
}

impl Worker<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.context.check()?;
            if self.start_loads()? {
                // The drives work while this thread sorts.
                self.poll(false)?;
            }
            match self.loads.front() {
                Some(loading) if loading.load.is_complete() => {
                    if let Some(loading) = self.loads.pop_front() {
                        let bytes = loading.leaf.bucket.counts.bytes;
                        self.finish_leaf(loading)?;
                        self.context.job.control.advance(bytes);
                        self.context.job.control.watch(self.context.volume);
                    }
                    self.poll(false)?;
                }
                None if self.port.in_flight() == 0 => return Ok(()),
                _ => self.poll(true)?,
            }
        }
    }

    /// Loads ahead as far as there are areas; true if something was started.
    fn start_loads(&mut self) -> Result<bool> {
        let before = self.loads.len();
        while self.areas.free_slots() > 0 && self.loads.len() < self.areas_max {
            let take = |next: usize| {
                let is_left = next < self.leaves.end.load(Ordering::Relaxed);
                is_left.then_some(next + 1)
            };
            let next = &self.leaves.next;
            let Ok(index) = next.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) else {
                break;
            };
            let cell = &self.leaves.leaves[index];
            let leaf = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut leaf) = leaf {
                let area = self.areas.take().ok_or_else(no_area)?;
                let segments = std::mem::take(&mut leaf.bucket.segments);
                let load = Load::start(self.context, &mut self.port, index, segments, area, 0)?;
                self.loads.push_back(Loading { load, leaf });
            }
        }
        Ok(self.loads.len() > before)
    }

    fn poll(&mut self, wait: bool) -> Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.port.poll(wait, &mut finished)?;
        for transfer in finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(self.context.volume.explain(&fault));
            }
            if transfer.token == WRITE_TOKEN {
                continue;
            }
            let index = Load::index_of(transfer.token);
            let mut loads = self.loads.iter_mut();
            if let Some(loading) = loads.find(|loading| loading.load.index == index) {
                loading.load.take_back(transfer.token, transfer.buf);
            }
        }
        self.finished = finished;
        Ok(())
    }

    fn finish_leaf(&mut self, mut loading: Loading) -> Result<()> {
        if loading.leaf.bucket.copies_of.is_some() {
            return self.write_copies(&loading);
        }
        let mut area = loading.load.join(self.context)?;
        loading.load.append_resident(&mut area);
        let terminator = self.context.options.terminator;
        let (pieces, end) = pieces_of(&loading.load);
        let mut refs = std::mem::take(&mut self.refs);
        refs.clear();
        refs.reserve_exact(loading.leaf.bucket.lines_max() as usize);
        let mut met = Vec::new();
        let mut at = end;
        for from in &loading.leaf.bucket.kind.from {
            at = self
                .leaves
                .tables
                .copy(from, terminator, &mut area, at, &mut met, &mut refs);
        }
        let depth = loading.leaf.bucket.depth;
        if self.context.is_whole() {
            self.find_lines(&area, &pieces, &mut refs);
            sort_refs(&area, &mut refs, depth, &AnyTie);
            self.finish_order(&area, &mut refs, &met);
        } else if loading.leaf.bucket.is_equal {
            self.find_lines(&area, &pieces, &mut refs);
            match self.context.order.tie() {
                LineTie::Position => {}
                LineTie::Bytes => sort_refs(&area, &mut refs, 0, &AnyTie),
                LineTie::BytesDescending => {
                    sort_refs(&area, &mut refs, 0, &AnyTie);
                    refs.reverse();
                }
            }
        } else {
            let mut keys = std::mem::take(&mut self.keys);
            let made = self.make_keys(&area, &pieces, &mut refs, &mut keys);
            if made.is_ok() {
                sort_keys(self.context.order, (&area, &keys), &mut refs, depth);
                self.finish_order(&keys, &mut refs, &met);
                refs.iter_mut().for_each(|key| to_line(&keys, key));
            }
            self.keys = keys;
            made?;
        }
        // The segments that were copied free their slots before anything waits.
        loading.load.segments.clear();
        let index = loading.load.index;
        let gather = Gather::new(&area, &refs, refs.len() as u64, self.context.options.count);
        let written = self.emit(index, gather, loading.leaf.start_bytes);
        self.refs = refs;
        written
    }

    /// One reference a line.
    fn find_lines(&self, area: &[u8], pieces: &[Piece], refs: &mut Vec<Ref>) {
        let terminator = self.context.options.terminator;
        for piece in pieces {
            let mut from = piece.at;
            for end in memchr_iter(terminator, &area[piece.at..piece.at + piece.len_bytes]) {
                let end = piece.at + end;
                let (at, len) = (from as u32, (end - from) as u32);
                refs.push(Ref {
                    word: 0,
                    at,
                    len_bytes: len,
                });
                from = end + 1;
            }
        }
    }

    /// The key of each line, behind the line's place, in the order of the input if it counts.
    fn make_keys(
        &self,
        area: &[u8],
        pieces: &[Piece],
        refs: &mut Vec<Ref>,
        keys: &mut Vec<u8>,
    ) -> Result<()> {
        keys.clear();
        let terminator = self.context.options.terminator;
        for piece in pieces {
            let mut from = piece.at;
            for end in memchr_iter(terminator, &area[piece.at..piece.at + piece.len_bytes]) {
                let end = piece.at + end;
                let key = key_ref(self.context.order, area, (from, end), keys);
                refs.push(key.map_err(|why| {
                    Error::new(Kind::Corrupt, "make a key again", why.0)
                        .hint("a bug: please report it")
                })?);
                from = end + 1;
            }
        }
        Ok(())
    }

    /// Turns the order around where it descends; of equal keys keeps the first where one is wanted,
    /// with their number for its word; `met` says, by place, how often those from tables were met.
    fn finish_order(&self, keys: &[u8], refs: &mut Vec<Ref>, met: &[(u32, u64)]) {
        if self.context.order.is_descending() {
            refs.reverse();
        }
        if !self.context.is_unique() {
            return;
        }
        let first_met = met.first().map_or(u32::MAX, |(at, _)| *at);
        let mut kept = 0;
        for index in 0..refs.len() {
            let next = refs[index];
            let times = match next.at < first_met {
                true => 1,
                false => met
                    .binary_search_by_key(&next.at, |(at, _)| *at)
                    .map_or(1, |found| met[found].1),
            };
            let is_same = kept > 0 && {
                let last = &refs[kept - 1];
                last.len_bytes == next.len_bytes && last.bytes(keys) == next.bytes(keys)
            };
            if is_same {
                refs[kept - 1].word += times;
            } else {
                refs[kept] = Ref {
                    word: times,
                    ..next
                };
                kept += 1;
            }
        }
        refs.truncate(kept);
    }

    /// A leaf of equal lines that were only counted.
    fn write_copies(&mut self, loading: &Loading) -> Result<()> {
        let bucket = &loading.leaf.bucket;
        let Some(line) = &bucket.copies_of else {
            return Ok(());
        };
        let (word, len) = (bucket.counts.items, line.len() as u32 - 1);
        let lines = match self.context.is_unique() {
            true => 1,
            false => word,
        };
        let refs = vec![
            Ref {
                word,
                at: 0,
                len_bytes: len
            };
            lines.min(COPIES_MAX) as usize
        ];
        let gather = Gather::new(line, &refs, lines, self.context.options.count);
        self.emit(loading.load.index, gather, loading.leaf.start_bytes)
    }

    /// Writes the lines of a leaf in order.
    fn emit(&mut self, index: usize, gather: Gather<'_>, start_bytes: u64) -> Result<()> {
        let lines = gather.lines_left();
        self.leaves.lines.fetch_add(lines, Ordering::Relaxed);
        match &self.leaves.sink {
            Sink::Files(writer) => {
                let mut at_bytes = start_bytes;
                if self.context.is_unique() {
                    let turns = &self.leaves.turns;
                    let mut placed = turns.wait_for(index, &self.context.crew)?;
                    at_bytes = placed.count;
                    placed.count += gather.bytes_left();
                    turns.pass_on(placed);
                }
                self.write_at(writer, gather, at_bytes)
            }
            Sink::Pipe(pipe) => {
                let turns = &self.leaves.turns;
                let mut chunk = self.take_chunk()?;
                let mut placed = turns.wait_for(index, &self.context.crew)?;
                placed.count += gather.bytes_left();
                let mut gather = gather;
                while !gather.is_done() {
                    let len = gather.fill(&mut chunk);
                    write_pipe(pipe, &chunk[..len])?;
                }
                turns.pass_on(placed);
                Ok(())
            }
        }
    }

    fn write_at(
        &mut self,
        writer: &Writer,
        mut gather: Gather<'_>,
        mut at_bytes: u64,
    ) -> Result<()> {
        while !gather.is_done() {
            let mut chunk = self.take_chunk()?;
            let phase = writer.phase(at_bytes);
            let len = gather.fill(&mut chunk[phase..]);
            writer.write(&mut self.port, chunk, phase, len, at_bytes)?;
            at_bytes += len as u64;
            self.poll(false)?;
        }
        Ok(())
    }

    fn take_chunk(&mut self) -> Result<Buf> {
        loop {
            if let Some(chunk) = self.chunks.take() {
                return Ok(chunk);
            }
            self.context.check()?;
            if self.port.in_flight() == 0 {
                return Err(no_area());
            }
            self.poll(true)?;
        }
    }
}

/// Lines in an area: neighbours in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    position: u64,
    at: usize,
    len_bytes: usize,
}

/// Where lines are in an area, in the order of the input if it is known, and the end of all. The parts
/// of a long line lie one after another.
fn pieces_of(load: &Load) -> (Vec<Piece>, usize) {
    let mut places = vec![0; load.segments.len()];
    let mut end = load.loaded_to;
    for &(number, offset) in &load.offsets {
        places[number] = offset;
        end = end.max(offset + load.segments[number].payload_bytes as usize);
    }
    let mut pieces: Vec<Piece> = Vec::with_capacity(load.segments.len());
    let mut is_inside = false;
    for (&from, segment) in places.iter().zip(&load.segments) {
        let payload_bytes = segment.payload_bytes as usize;
        let was_inside = std::mem::replace(&mut is_inside, segment.is_continued);
        if let Some(line) = pieces.last_mut().filter(|_| was_inside) {
            line.len_bytes += payload_bytes;
            continue;
        }
        if segment.pieces.is_empty() {
            pieces.push(Piece {
                position: 0,
                at: from,
                len_bytes: payload_bytes,
            });
        }
        let mut at = from;
        for run in &segment.pieces {
            let len_bytes = run.bytes as usize;
            pieces.push(Piece {
                position: run.position,
                at,
                len_bytes,
            });
            at += len_bytes;
        }
    }
    pieces.sort_unstable();
    (pieces, end)
}

fn no_area() -> Error {
    Error::new(Kind::Memory, "take an area", "the pool is empty").hint("a bug: please report it")
}
