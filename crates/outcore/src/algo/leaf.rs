//! The second phase: buckets are loaded, sorted in memory and written at their final place.
//!
//! Contract: each worker takes leaves in order, keeps the next ones loading while it sorts one and
//! earlier ones are being written. A bare leaf is loaded where it will be written from: laid out
//! like the output (`address % 4096 == offset % 4096`), sorted in place, handed to the writer
//! without a copy. Records are loaded as they are on scratch, sorted by reference, and gathered in
//! chunks laid out like the output. Every segment's checksum is verified before it is sorted.
//!
//! With `--unique`, or a pipe for output, a leaf's place depends on the leaves before it: workers
//! then take turns ([`Turns`]) between sorting and writing.
//!
//! Bounds: memory is each worker's own areas and chunks, plus the sort's space; reads each segment
//! once, writes each output byte once.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::elements::{Elements, as_keys_mut};
use super::in_memory::{Entry, SortKeys, each_tie, sort_entries};
use super::partition::bucket::{Location, Segment};
use super::partition::load::Load;
use super::place::{Turns, dedup, gather, write_in_place, write_pipe};
use super::plan::SORTING;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::memory::{BLOCK_BYTES, Buf, Pool};
use crate::stream::writer::{WRITE_TOKEN, Writer};
use crate::volume::{Port, Transfer};

/// A piece of the output: a bucket small enough to be sorted at once.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) segments: Vec<Segment>,
    pub(crate) count: u64,
    pub(crate) depth: usize,
    /// First output element, if it does not depend on what `--unique` drops.
    pub(crate) start: u64,
    /// The element that all are copies of.
    pub(crate) copies_of: Option<Box<[u8]>>,
}

/// Where the output goes.
pub(crate) enum Sink<'a> {
    /// To its final place in files.
    Files(&'a Writer),
    /// To a pipe, in order.
    Pipe(&'a Mutex<Box<dyn Write + Send>>),
}

/// What the leaves of a sort share.
pub(crate) struct Leaves<'a> {
    pub(crate) leaves: Vec<Mutex<Option<Leaf>>>,
    pub(crate) next: AtomicUsize,
    pub(crate) sink: Sink<'a>,
    pub(crate) turns: Turns,
    pub(crate) is_unique: bool,
}

/// A leaf on its way into memory; its segments are with the load.
struct Loading {
    leaf: Leaf,
    load: Load,
}

struct Worker<'a, E: Elements> {
    shared: &'a Shared<'a, E>,
    leaves: &'a Leaves<'a>,
    port: Port,
    areas: Pool,
    chunks: Option<Pool>,
    loads: VecDeque<Loading>,
    finished: Vec<Transfer>,
    entries: Vec<Entry>,
    key_space: Vec<E::Key>,
}

/// Sorts and writes all leaves on all threads.
pub(crate) fn run<E>(shared: &Shared<'_, E>, leaves: &Leaves<'_>) -> Result<()>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    let plan = shared.plan;
    let budget = &shared.job.budget;
    let space_bytes = plan.size.sort_space_bytes(plan.leaf_bytes_max) * plan.size.threads as u64;
    let _space = budget.reserve(SORTING, space_bytes)?;
    let mut pools = Vec::new();
    for _ in 0..plan.size.threads {
        let areas = Pool::new(budget, SORTING, plan.area_bytes(), plan.areas)?;
        let chunks = match plan.chunks {
            0 => None,
            count => Some(Pool::new(budget, SORTING, plan.chunk_bytes, count)?),
        };
        pools.push((areas, chunks));
    }
    shared.on_all_threads(|thread| {
        let (areas, chunks) = pools[thread].clone();
        let mut worker = Worker {
            shared,
            leaves,
            port: shared.volume.port()?,
            areas,
            chunks,
            loads: VecDeque::new(),
            finished: Vec::new(),
            entries: Vec::new(),
            key_space: Vec::new(),
        };
        worker.run()
    })?;
    Ok(())
}

impl<E> Worker<'_, E>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    fn run(&mut self) -> Result<()> {
        loop {
            self.shared.check()?;
            if self.start_loads()? {
                // The drives work while this thread sorts.
                self.poll(false)?;
            }
            match self.loads.front() {
                Some(loading) if loading.load.is_complete() => {
                    if let Some(loading) = self.loads.pop_front() {
                        let bytes =
                            loading.leaf.count * self.shared.elements.element_bytes() as u64;
                        self.finish_leaf(loading)?;
                        self.shared.job.control.advance(bytes);
                        self.shared.job.control.watch(self.shared.volume);
                    }
                    self.poll(false)?;
                }
                None if self.port.in_flight() == 0 => return Ok(()),
                _ => self.poll(true)?,
            }
        }
    }

    /// Loads ahead as far as there are areas, but for one; true if something was started.
    fn start_loads(&mut self) -> Result<bool> {
        let before = self.loads.len();
        while self.areas.free_slots() > 0 && self.loads.len() + 1 < self.shared.plan.areas.max(2) {
            let index = self.leaves.next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = self.leaves.leaves.get(index) else {
                break;
            };
            let leaf = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(leaf) = leaf {
                self.start_load(index, leaf)?;
            }
        }
        Ok(self.loads.len() > before)
    }

    /// Output element at which the leaf starts if that is known before it is sorted.
    fn layout_phase(&self, leaf: &Leaf) -> usize {
        let at_bytes = leaf.start * self.shared.elements.element_bytes() as u64;
        match &self.leaves.sink {
            Sink::Files(writer) if !self.leaves.is_unique => writer.phase(at_bytes),
            _ => 0,
        }
    }

    fn start_load(&mut self, index: usize, mut leaf: Leaf) -> Result<()> {
        let area = self.areas.take().ok_or_else(no_area)?;
        let phase = if self.shared.elements.is_bare() {
            self.layout_phase(&leaf)
        } else {
            0
        };
        let segments = std::mem::take(&mut leaf.segments);
        let at = phase.next_multiple_of(BLOCK_BYTES);
        let load = Load::start(self.shared, &mut self.port, index, segments, area, at)?;
        self.loads.push_back(Loading { leaf, load });
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.port.poll(wait, &mut finished)?;
        for transfer in finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(self.shared.volume.explain(&fault));
            }
            if transfer.token == WRITE_TOKEN {
                continue;
            }
            let index = Load::index_of(transfer.token);
            let mut loads = self.loads.iter_mut().map(|loading| &mut loading.load);
            if let Some(load) = loads.find(|load| load.index == index) {
                load.take_back(transfer.token, transfer.buf);
            }
        }
        self.finished = finished;
        Ok(())
    }

    fn finish_leaf(&mut self, mut loading: Loading) -> Result<()> {
        let area = loading.load.join(self.shared)?;
        if loading.leaf.copies_of.is_some() {
            return self.write_copies(loading, area);
        }
        if self.shared.elements.is_bare() {
            self.sort_bare(loading, area)
        } else {
            self.sort_records(loading, area)
        }
    }

    /// Brings all elements of a bare leaf together at the place from which they are written:
    /// gaps behind short segments are closed, segments in memory are copied behind them, and the
    /// room in front of the first whole block is filled from the end.
    fn gather_bare(&self, loading: &mut Loading, area: &mut Buf) -> (usize, usize) {
        let mut end = loading.load.loaded_from;
        for &(number, offset) in &loading.load.offsets {
            let len = loading.load.segments[number].payload_bytes as usize;
            if offset != end {
                area.copy_within(offset..offset + len, end);
            }
            end += len;
        }
        for segment in loading.load.segments.drain(..) {
            if let Location::Memory(buf) = segment.location {
                let len = segment.payload_bytes as usize;
                area[end..end + len].copy_from_slice(&buf[..len]);
                end += len;
            }
        }
        let total = end - loading.load.loaded_from;
        let start = self.aligned_start(&loading.leaf);
        let moved = (loading.load.loaded_from - start).min(total);
        area.copy_within(end - moved..end, start);
        (start, total)
    }

    /// Where the numbers of a leaf start in its area: at the place in the block from which they are
    /// written, unless the output's header puts that astray for numbers.
    fn aligned_start(&self, leaf: &Leaf) -> usize {
        let phase = self.layout_phase(leaf);
        phase - phase % self.shared.elements.element_bytes()
    }

    fn sort_bare(&mut self, mut loading: Loading, mut area: Buf) -> Result<()> {
        let (start, mut total) = self.gather_bare(&mut loading, &mut area);
        let element_bytes = self.shared.elements.element_bytes();
        let is_sorted = loading.leaf.depth >= self.shared.elements.depth_end();
        let keys = as_keys_mut::<E::Key>(&mut area[start..start + total])?;
        if !is_sorted {
            E::Key::sort_keys(keys);
        }
        if self.leaves.is_unique {
            total = dedup(keys) * element_bytes;
        }
        self.shared
            .elements
            .decode(&mut area[start..start + total])?;
        self.place(&loading, area, start, total)
    }

    /// Writes a leaf that is whole and in order, at `area[start..start + total]`.
    fn place(
        &mut self,
        loading: &Loading,
        mut area: Buf,
        start: usize,
        total: usize,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes() as u64;
        match &self.leaves.sink {
            Sink::Files(writer) if !self.leaves.is_unique => {
                let at_bytes = loading.leaf.start * element_bytes;
                let phase = writer.phase(at_bytes);
                if phase != start {
                    area.copy_within(start..start + total, phase);
                }
                write_in_place(writer, &mut self.port, area, phase, total, at_bytes)
            }
            Sink::Files(writer) => {
                let mut placed = self
                    .leaves
                    .turns
                    .wait_for(loading.load.index, &self.shared.crew)?;
                let at_bytes = placed.count * element_bytes;
                placed.count += total as u64 / element_bytes;
                self.leaves.turns.pass_on(placed);
                let phase = writer.phase(at_bytes);
                area.copy_within(start..start + total, phase);
                write_in_place(writer, &mut self.port, area, phase, total, at_bytes)
            }
            Sink::Pipe(pipe) => {
                let mut placed = self
                    .leaves
                    .turns
                    .wait_for(loading.load.index, &self.shared.crew)?;
                write_pipe(pipe, &area[start..start + total])?;
                placed.count += total as u64 / element_bytes;
                self.leaves.turns.pass_on(placed);
                Ok(())
            }
        }
    }

    /// A leaf of equal elements that were only counted.
    fn write_copies(&mut self, loading: Loading, mut area: Buf) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let count = if self.leaves.is_unique {
            1
        } else {
            loading.leaf.count as usize
        };
        let total = count * element_bytes;
        let start = self.aligned_start(&loading.leaf);
        if let Some(element) = &loading.leaf.copies_of {
            for slot in area[start..start + total].chunks_exact_mut(element_bytes) {
                slot.copy_from_slice(element);
            }
        }
        self.shared
            .elements
            .decode(&mut area[start..start + total])?;
        self.place(&loading, area, start, total)
    }

    fn sort_records(&mut self, mut loading: Loading, mut area: Buf) -> Result<()> {
        loading.load.append_resident(&mut area);
        let mut entries = std::mem::take(&mut self.entries);
        self.make_entries(&loading, &area, &mut entries)?;
        let elements = self.shared.elements;
        let is_ordered = self.shared.plan.size.is_ordered;
        let element_bytes = elements.element_bytes();
        let depth = loading.leaf.depth;
        let record = |entry: &Entry| {
            let at = entry.at_bytes as usize;
            &area[at..at + element_bytes]
        };
        if depth < elements.depth_end() {
            sort_entries(&mut entries, is_ordered);
            if depth + 1 < elements.depth_end() {
                each_tie(&mut entries, |tie| {
                    let compare = |a: &Entry, b: &Entry| {
                        elements.compare_from(record(a), record(b), depth + 1)
                    };
                    if is_ordered {
                        tie.sort_by(compare)
                    } else {
                        tie.sort_unstable_by(compare)
                    }
                });
            }
        }
        let at = if self.leaves.is_unique {
            entries.dedup_by(|b, a| elements.is_same_key(record(a), record(b)));
            self.place_unique(&loading, &area, &mut entries)?
        } else {
            loading.leaf.start
        };
        self.emit_records(&loading, &area, &entries, at)?;
        entries.clear();
        self.entries = entries;
        Ok(())
    }

    /// Drops the first record if the leaf before ended with its key; gives the leaf's place.
    fn place_unique(&self, loading: &Loading, area: &Buf, entries: &mut Vec<Entry>) -> Result<u64> {
        let element_bytes = self.shared.elements.element_bytes();
        let record = |entry: &Entry| {
            let at = entry.at_bytes as usize;
            &area[at..at + element_bytes]
        };
        let mut placed = self
            .leaves
            .turns
            .wait_for(loading.load.index, &self.shared.crew)?;
        let repeats = match (&placed.last, entries.first()) {
            (Some(last), Some(first)) => self.shared.elements.is_same_key(last, record(first)),
            _ => false,
        };
        if repeats {
            entries.remove(0);
        }
        if let Some(last) = entries.last() {
            placed.last = Some(record(last).into());
        }
        let at = placed.count;
        if matches!(self.leaves.sink, Sink::Files(_)) {
            placed.count += entries.len() as u64;
            self.leaves.turns.pass_on(placed);
        }
        Ok(at)
    }

    /// One entry a record, in the order of the input if the job is ordered.
    fn make_entries(
        &mut self,
        loading: &Loading,
        area: &Buf,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let mut runs: Vec<(u64, usize, usize)> = Vec::new();
        for &(number, offset) in &loading.load.offsets {
            let segment = &loading.load.segments[number];
            if segment.pieces.is_empty() {
                runs.push((0, offset, segment.payload_bytes as usize));
            }
            let mut at = offset;
            for piece in &segment.pieces {
                let len = piece.count as usize * element_bytes;
                runs.push((piece.position, at, len));
                at += len;
            }
        }
        if self.shared.plan.size.is_ordered {
            runs.sort_unstable();
        }
        entries.reserve_exact(loading.leaf.count as usize);
        let needs_words = loading.leaf.depth < self.shared.elements.depth_end();
        let mut space = std::mem::take(&mut self.key_space);
        for (_, at, len) in runs {
            // Batches keep the words in the first-level cache.
            let batch_bytes = 512 * element_bytes;
            for from in (at..at + len).step_by(batch_bytes) {
                let to = (from + batch_bytes).min(at + len);
                let places = (from..to).step_by(element_bytes);
                if !needs_words {
                    entries.extend(places.map(|at| Entry {
                        word: 0,
                        at_bytes: at as u32,
                    }));
                    continue;
                }
                let keys =
                    self.shared
                        .elements
                        .keys(&area[from..to], loading.leaf.depth, &mut space)?;
                entries.extend(keys.iter().zip(places).map(|(&key, at)| {
                    let word: u128 = key.into();
                    Entry {
                        word: word as u64,
                        at_bytes: at as u32,
                    }
                }));
            }
        }
        self.key_space = space;
        Ok(())
    }

    /// Gathers records in chunks laid out like the output and hands them to the sink.
    fn emit_records(
        &mut self,
        loading: &Loading,
        area: &Buf,
        entries: &[Entry],
        at: u64,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let mut at_bytes = at * element_bytes as u64;
        let mut left = entries.len() * element_bytes;
        // The next byte to be written: an entry and an offset inside its record.
        let mut next = (0, 0);
        let mut pipe_turn = match &self.leaves.sink {
            Sink::Pipe(_) if !self.leaves.is_unique => Some(
                self.leaves
                    .turns
                    .wait_for(loading.load.index, &self.shared.crew)?,
            ),
            Sink::Pipe(_) => Some(self.leaves.turns.placed()),
            Sink::Files(_) => None,
        };
        while left > 0 {
            let mut chunk = self.take_chunk()?;
            let (phase, room) = match &self.leaves.sink {
                Sink::Files(writer) => (writer.phase(at_bytes), writer.room(at_bytes)),
                Sink::Pipe(_) => (0, u64::MAX),
            };
            let len = left
                .min(chunk.len() - phase)
                .min(usize::try_from(room).unwrap_or(usize::MAX));
            next = gather(
                area,
                entries,
                element_bytes,
                next,
                &mut chunk[phase..phase + len],
            );
            match &self.leaves.sink {
                Sink::Files(writer) => {
                    writer.write(&mut self.port, chunk, phase, len, at_bytes)?;
                    self.poll(false)?;
                }
                Sink::Pipe(pipe) => write_pipe(pipe, &chunk[..len])?,
            }
            at_bytes += len as u64;
            left -= len;
        }
        if let Some(mut placed) = pipe_turn.take() {
            placed.count += entries.len() as u64;
            self.leaves.turns.pass_on(placed);
        }
        Ok(())
    }

    fn take_chunk(&mut self) -> Result<Buf> {
        loop {
            let chunk = self.chunks.as_ref().and_then(Pool::take);
            if let Some(chunk) = chunk {
                return Ok(chunk);
            }
            self.shared.check()?;
            if self.port.in_flight() == 0 {
                return Err(no_area());
            }
            self.poll(true)?;
        }
    }
}

fn no_area() -> Error {
    Error::new(crate::Kind::Memory, "take an area", "the pool is empty")
        .hint("a bug: please report it")
}
