//! What a sort of lines does with a bucket: sort it by reference, and write it in order.
//!
//! Contract: where keys are made, they are made of the lines in the order of the input, so that places
//! of keys order ties. Lines are gathered in chunks laid out like the output; where a bucket's place
//! depends on the buckets before it, workers take turns between sorting and writing
//! ([`crate::partition::task`]).
//!
//! Bounds: the worker's areas and chunks, references and keys.

use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memchr_iter;

use super::arrange::{key_ref, sort_keys, to_line};
use super::bucket::{LineBucket, Space, TableLines};
use super::context::Context;
use super::emit::Gather;
use super::plan::SORTING;
use super::refs::{AnyTie, Ref, sort_refs};
use super::table::Tables;
use crate::error::{Error, Kind, Result};
use crate::key::sort_key::Tie;
use crate::memory::{BLOCK_BYTES, Buf, Pool};
use crate::partition::load::Load;
use crate::partition::task::{BucketWork, Loaded, Sink, TaskMemory, TaskWorker, Tasks, run_tasks};

/// References to one line that are gathered at once.
const COPIES_MAX: u64 = 4096;

/// Memory of one worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskSizes {
    pub(super) space: Space,
    pub(super) areas: usize,
    pub(super) chunk_bytes: usize,
    pub(super) chunks: usize,
}

impl TaskSizes {
    /// All of it.
    pub(super) fn bytes(&self) -> u64 {
        let areas = self.areas as u64 * self.space.area_bytes.max(BLOCK_BYTES as u64);
        areas + self.space.beside_bytes() + (self.chunks * self.chunk_bytes) as u64
    }
}

/// What one worker does with the buckets of a sort of lines.
struct Sorting<'a> {
    context: &'a Context<'a>,
    tables: &'a Tables,
    /// Lines written, of all workers.
    lines: &'a AtomicU64,
    refs: Vec<Ref>,
    keys: Vec<u8>,
}

/// Sorts and writes the buckets that may be taken on `threads` threads; counts the lines written.
pub(super) fn run(
    context: &Context<'_>,
    tasks: &Tasks<'_, TableLines>,
    (tables, lines): (&Tables, &AtomicU64),
    sizes: TaskSizes,
    threads: usize,
) -> Result<()> {
    let budget = &context.job.budget;
    let beside_bytes = sizes.space.beside_bytes() * threads as u64;
    let _space = budget.reserve(SORTING, beside_bytes)?;
    let area_bytes = (sizes.space.area_bytes as usize).max(BLOCK_BYTES);
    let mut memory = Vec::new();
    for _ in 0..threads {
        memory.push(TaskMemory {
            areas: Pool::new(budget, SORTING, area_bytes, sizes.areas)?,
            chunks: Some(Pool::new(budget, SORTING, sizes.chunk_bytes, sizes.chunks)?),
            loads_max: sizes.areas,
        });
    }
    run_tasks(context, tasks, memory, || Sorting {
        context,
        tables,
        lines,
        refs: Vec::new(),
        keys: Vec::new(),
    })
}

impl BucketWork<TableLines> for Sorting<'_> {
    fn finish(
        &mut self,
        worker: &mut TaskWorker<'_, TableLines>,
        mut loaded: Loaded<TableLines>,
        mut area: Buf,
    ) -> Result<()> {
        let bucket = &loaded.task.bucket;
        if bucket.copies_of.is_some() {
            return self.write_copies(worker, &loaded);
        }
        loaded.load.append_resident(&mut area);
        let terminator = self.context.options.terminator;
        let (pieces, end) = pieces_of(&loaded.load);
        let mut refs = std::mem::take(&mut self.refs);
        refs.clear();
        refs.reserve_exact(bucket.lines_max() as usize);
        let mut met = Vec::new();
        let mut at = end;
        for from in &bucket.kind.from {
            at = self
                .tables
                .copy(from, terminator, &mut area, at, &mut met, &mut refs);
        }
        self.order(bucket, &area, &pieces, &mut refs, &met)?;
        // The segments that were copied free their slots before anything waits.
        loaded.load.segments.clear();
        let gather = Gather::new(&area, &refs, refs.len() as u64, self.context.options.count);
        let written = self.emit(worker, &loaded, gather);
        self.refs = refs;
        written
    }
}

impl Sorting<'_> {
    /// References to the lines of a bucket in order, behind those to lines from tables, which were `met`
    /// so often.
    fn order(
        &mut self,
        bucket: &LineBucket,
        area: &[u8],
        pieces: &[Piece],
        refs: &mut Vec<Ref>,
        met: &[(u32, u64)],
    ) -> Result<()> {
        let depth = bucket.depth;
        if self.context.is_whole() {
            self.find_lines(area, pieces, refs);
            sort_refs(area, refs, depth, &AnyTie);
            self.finish_order(area, refs, met);
        } else if bucket.is_equal {
            self.find_lines(area, pieces, refs);
            match self.context.order.tie() {
                Tie::Position => {}
                Tie::Bytes => sort_refs(area, refs, 0, &AnyTie),
                Tie::BytesDescending => {
                    sort_refs(area, refs, 0, &AnyTie);
                    refs.reverse();
                }
            }
        } else {
            let mut keys = std::mem::take(&mut self.keys);
            let made = self.make_keys(area, pieces, refs, &mut keys);
            if made.is_ok() {
                sort_keys(self.context.order, (area, &keys), refs, depth);
                self.finish_order(&keys, refs, met);
                refs.iter_mut().for_each(|key| to_line(&keys, key));
            }
            self.keys = keys;
            made?;
        }
        Ok(())
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

    /// A bucket of equal lines that were only counted.
    fn write_copies(
        &self,
        worker: &mut TaskWorker<'_, TableLines>,
        loaded: &Loaded<TableLines>,
    ) -> Result<()> {
        let bucket = &loaded.task.bucket;
        let Some(line) = &bucket.copies_of else {
            return Ok(());
        };
        let (word, len_bytes) = (bucket.counts.items, line.len() as u32 - 1);
        let lines = match self.context.is_unique() {
            true => 1,
            false => word,
        };
        let at = 0;
        let copy = Ref {
            word,
            at,
            len_bytes,
        };
        let refs = vec![copy; lines.min(COPIES_MAX) as usize];
        let gather = Gather::new(line, &refs, lines, self.context.options.count);
        self.emit(worker, loaded, gather)
    }

    /// Writes the lines of a bucket in order.
    fn emit(
        &self,
        worker: &mut TaskWorker<'_, TableLines>,
        loaded: &Loaded<TableLines>,
        mut gather: Gather<'_>,
    ) -> Result<()> {
        let (index, bytes) = (loaded.load.index, gather.bytes_left());
        self.lines.fetch_add(gather.lines_left(), Ordering::Relaxed);
        let tasks = worker.tasks;
        let is_pipe = matches!(tasks.sink, Sink::Pipe(_));
        let mut at_bytes = loaded.task.start_bytes;
        let mut turn = None;
        if is_pipe || self.context.is_unique() {
            let mut placed = worker.wait_for_turn(index)?;
            at_bytes = placed.count;
            placed.count += bytes;
            match is_pipe {
                true => turn = Some(placed),
                false => tasks.turns.pass_on(placed),
            }
        }
        worker.emit(at_bytes, bytes, |out| {
            gather.fill(out);
        })?;
        if let Some(placed) = turn {
            tasks.turns.pass_on(placed);
        }
        Ok(())
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
