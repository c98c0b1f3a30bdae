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

use super::bucket::{Home, Segment, verify_segment};
use super::elements::{Elements, as_keys_mut};
use super::in_memory::{Entry, SortKeys, each_tie, sort_entries};
use super::place::{Turns, dedup, gather, write_in_place, write_pipe};
use super::shared::Shared;
use crate::drive::Op;
use crate::error::{Error, Result};
use crate::memory::{BLOCK_BYTES, Buf, Pool};
use crate::stream::writer::{WRITE_TOKEN, Writer};
use crate::volume::{Port, Transfer};

/// Largest read of neighbouring segments.
const READ_BYTES_MAX: usize = 1 << 20;

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

/// A leaf on its way into memory.
struct Load {
    index: usize,
    leaf: Leaf,
    /// Parts of the area, by the offset in it.
    parts: Vec<(usize, Buf)>,
    /// Offset in the area of each segment that is read from scratch.
    offsets: Vec<(usize, usize)>,
    reads_left: usize,
    /// Bytes of the area that the reads take, from the first.
    loaded_from: usize,
    loaded_to: usize,
}

struct Worker<'a, E: Elements> {
    shared: &'a Shared<'a, E>,
    leaves: &'a Leaves<'a>,
    port: Port,
    areas: Pool,
    chunks: Option<Pool>,
    loads: VecDeque<Load>,
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
    let _space = budget.reserve("sort space", space_bytes)?;
    let mut pools = Vec::new();
    for _ in 0..plan.size.threads {
        let areas = Pool::new(budget, "buckets", plan.area_bytes(), plan.areas)?;
        let chunks = match plan.chunks {
            0 => None,
            count => Some(Pool::new(budget, "output chunks", plan.chunk_bytes, count)?),
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
                Some(load) if load.reads_left == 0 => {
                    if let Some(load) = self.loads.pop_front() {
                        let bytes = load.leaf.count * self.shared.elements.element_bytes() as u64;
                        self.finish_leaf(load)?;
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

    fn start_load(&mut self, index: usize, leaf: Leaf) -> Result<()> {
        let area = self.areas.take().ok_or_else(no_area)?;
        let phase = if self.shared.elements.is_bare() {
            self.layout_phase(&leaf)
        } else {
            0
        };
        let loaded_from = phase.next_multiple_of(BLOCK_BYTES);
        let mut load = Load {
            index,
            leaf,
            parts: Vec::new(),
            offsets: Vec::new(),
            reads_left: 0,
            loaded_from,
            loaded_to: loaded_from,
        };
        // Whole segments first: they lie one after another without gaps between their payloads.
        let full_bytes = self.shared.plan.segment_payload_bytes;
        let mut on_scratch: Vec<(bool, u16, u64, usize)> = Vec::new();
        for (number, segment) in load.leaf.segments.iter().enumerate() {
            if let Home::Scratch { place, .. } = &segment.home {
                let is_short = (segment.payload_bytes as usize) < full_bytes;
                on_scratch.push((is_short, place.log, place.offset_bytes, number));
            }
        }
        on_scratch.sort_unstable();
        let mut rest = area;
        if loaded_from > 0 {
            load.parts.push((0, rest.split_to(loaded_from)));
        }
        let mut from = 0;
        while from < on_scratch.len() {
            let to = run_end(&on_scratch, from, &load.leaf.segments);
            let mut len = 0;
            for &(_, _, _, number) in &on_scratch[from..to] {
                load.offsets.push((number, load.loaded_to + len));
                len += load.leaf.segments[number].stored_bytes();
            }
            self.read_run(&mut load, &mut rest, on_scratch[from].3, len)?;
            from = to;
        }
        load.parts.push((load.loaded_to, rest));
        self.loads.push_back(load);
        Ok(())
    }

    /// Reads `len_bytes` bytes of scratch, from the place of segment `first`, to the end of what is
    /// being loaded.
    fn read_run(
        &mut self,
        load: &mut Load,
        rest: &mut Buf,
        first: usize,
        len_bytes: usize,
    ) -> Result<()> {
        let Home::Scratch { place, .. } = &load.leaf.segments[first].home else {
            return Ok(());
        };
        let file = self.shared.scratch()?.file(*place);
        let offset = load.loaded_to;
        // Leaf and offset together name the part when it comes back.
        let token = (load.index as u64) << 32 | offset as u64;
        self.port.submit(
            file,
            Op::Read,
            place.offset_bytes,
            rest.split_to(len_bytes),
            token,
        );
        load.reads_left += 1;
        load.loaded_to += len_bytes;
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
            let index = (transfer.token >> 32) as usize;
            let offset = (transfer.token & u64::from(u32::MAX)) as usize;
            if let Some(load) = self.loads.iter_mut().find(|load| load.index == index) {
                load.reads_left -= 1;
                load.parts.push((offset, transfer.buf));
            }
        }
        self.finished = finished;
        Ok(())
    }

    fn finish_leaf(&mut self, mut load: Load) -> Result<()> {
        load.parts.sort_unstable_by_key(|(offset, _)| *offset);
        let mut parts = load.parts.drain(..).map(|(_, buf)| buf);
        let mut area = parts.next().ok_or_else(no_area)?;
        parts.for_each(|part| area.join(part));
        self.verify(&load, &area)?;
        if load.leaf.copies_of.is_some() {
            return self.write_copies(load, area);
        }
        if self.shared.elements.is_bare() {
            self.sort_bare(load, area)
        } else {
            self.sort_records(load, area)
        }
    }

    fn verify(&self, load: &Load, area: &Buf) -> Result<()> {
        for &(number, offset) in &load.offsets {
            let segment = &load.leaf.segments[number];
            if let Home::Scratch { place, checksum } = &segment.home {
                let payload = &area[offset..offset + segment.payload_bytes as usize];
                let scratch = self.shared.scratch()?;
                verify_segment(scratch, self.shared.run, *place, *checksum, payload)?;
                let file = scratch.file(*place);
                if file.facts.is_in_memory {
                    let len_bytes = segment.stored_bytes() as u64;
                    let device = self.shared.volume.device();
                    device.punch(file.id, place.offset_bytes, len_bytes)?;
                }
                scratch.forget(*place);
            }
        }
        Ok(())
    }

    /// Brings all elements of a bare leaf together at the place from which they are written:
    /// gaps behind short segments are closed, segments in memory are copied behind them, and the
    /// room in front of the first whole block is filled from the end.
    fn gather_bare(&self, load: &mut Load, area: &mut Buf) -> (usize, usize) {
        let mut end = load.loaded_from;
        for &(number, offset) in &load.offsets {
            let len = load.leaf.segments[number].payload_bytes as usize;
            if offset != end {
                area.copy_within(offset..offset + len, end);
            }
            end += len;
        }
        for segment in load.leaf.segments.drain(..) {
            if let Home::Memory(buf) = segment.home {
                let len = segment.payload_bytes as usize;
                area[end..end + len].copy_from_slice(&buf[..len]);
                end += len;
            }
        }
        let total = end - load.loaded_from;
        let start = self.aligned_start(&load.leaf);
        let moved = (load.loaded_from - start).min(total);
        area.copy_within(end - moved..end, start);
        (start, total)
    }

    /// Where the numbers of a leaf start in its area: at the place in the block from which they are
    /// written, unless the output's header puts that astray for numbers.
    fn aligned_start(&self, leaf: &Leaf) -> usize {
        let phase = self.layout_phase(leaf);
        phase - phase % self.shared.elements.element_bytes()
    }

    fn sort_bare(&mut self, mut load: Load, mut area: Buf) -> Result<()> {
        let (start, mut total) = self.gather_bare(&mut load, &mut area);
        let element_bytes = self.shared.elements.element_bytes();
        let is_sorted = load.leaf.depth >= self.shared.elements.depth_end();
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
        self.place(&load, area, start, total)
    }

    /// Writes a leaf that is whole and in order, at `area[start..start + total]`.
    fn place(&mut self, load: &Load, mut area: Buf, start: usize, total: usize) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes() as u64;
        match &self.leaves.sink {
            Sink::Files(writer) if !self.leaves.is_unique => {
                let at_bytes = load.leaf.start * element_bytes;
                let phase = writer.phase(at_bytes);
                if phase != start {
                    area.copy_within(start..start + total, phase);
                }
                write_in_place(writer, &mut self.port, area, phase, total, at_bytes)
            }
            Sink::Files(writer) => {
                let mut placed = self.leaves.turns.wait_for(load.index, self.shared)?;
                let at_bytes = placed.count * element_bytes;
                placed.count += total as u64 / element_bytes;
                self.leaves.turns.pass_on(placed);
                let phase = writer.phase(at_bytes);
                area.copy_within(start..start + total, phase);
                write_in_place(writer, &mut self.port, area, phase, total, at_bytes)
            }
            Sink::Pipe(pipe) => {
                let mut placed = self.leaves.turns.wait_for(load.index, self.shared)?;
                write_pipe(pipe, &area[start..start + total])?;
                placed.count += total as u64 / element_bytes;
                self.leaves.turns.pass_on(placed);
                Ok(())
            }
        }
    }

    /// A leaf of equal elements that were only counted.
    fn write_copies(&mut self, load: Load, mut area: Buf) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let count = if self.leaves.is_unique {
            1
        } else {
            load.leaf.count as usize
        };
        let total = count * element_bytes;
        let start = self.aligned_start(&load.leaf);
        if let Some(element) = &load.leaf.copies_of {
            for slot in area[start..start + total].chunks_exact_mut(element_bytes) {
                slot.copy_from_slice(element);
            }
        }
        self.shared
            .elements
            .decode(&mut area[start..start + total])?;
        self.place(&load, area, start, total)
    }

    fn sort_records(&mut self, mut load: Load, mut area: Buf) -> Result<()> {
        self.append_resident(&mut load, &mut area);
        let mut entries = std::mem::take(&mut self.entries);
        self.make_entries(&load, &area, &mut entries)?;
        let elements = self.shared.elements;
        let is_ordered = self.shared.plan.size.is_ordered;
        let element_bytes = elements.element_bytes();
        let depth = load.leaf.depth;
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
            self.place_unique(&load, &area, &mut entries)?
        } else {
            load.leaf.start
        };
        self.emit_records(&load, &area, &entries, at)?;
        entries.clear();
        self.entries = entries;
        Ok(())
    }

    /// Drops the first record if the leaf before ended with its key; gives the leaf's place.
    fn place_unique(&self, load: &Load, area: &Buf, entries: &mut Vec<Entry>) -> Result<u64> {
        let element_bytes = self.shared.elements.element_bytes();
        let record = |entry: &Entry| {
            let at = entry.at_bytes as usize;
            &area[at..at + element_bytes]
        };
        let mut placed = self.leaves.turns.wait_for(load.index, self.shared)?;
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

    /// Copies segments that stayed in memory behind what was loaded.
    fn append_resident(&self, load: &mut Load, area: &mut Buf) {
        let mut end = load.loaded_to;
        for (number, segment) in load.leaf.segments.iter_mut().enumerate() {
            let len = segment.payload_bytes as usize;
            if let Home::Memory(buf) = &segment.home {
                area[end..end + len].copy_from_slice(&buf[..len]);
                load.offsets.push((number, end));
                end += len;
            }
        }
        // The copies free their slots with the leaf.
    }

    /// One entry a record, in the order of the input if the job is ordered.
    fn make_entries(&mut self, load: &Load, area: &Buf, entries: &mut Vec<Entry>) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let mut runs: Vec<(u64, usize, usize)> = Vec::new();
        for &(number, offset) in &load.offsets {
            let segment = &load.leaf.segments[number];
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
        entries.reserve_exact(load.leaf.count as usize);
        let needs_words = load.leaf.depth < self.shared.elements.depth_end();
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
                        .keys(&area[from..to], load.leaf.depth, &mut space)?;
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
    fn emit_records(&mut self, load: &Load, area: &Buf, entries: &[Entry], at: u64) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let mut at_bytes = at * element_bytes as u64;
        let mut left = entries.len() * element_bytes;
        // The next byte to be written: an entry and an offset inside its record.
        let mut next = (0, 0);
        let mut pipe_turn = match &self.leaves.sink {
            Sink::Pipe(_) if !self.leaves.is_unique => {
                Some(self.leaves.turns.wait_for(load.index, self.shared)?)
            }
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

/// End of the run of segments that lie side by side on scratch, in whole blocks, from `from`.
fn run_end(on_scratch: &[(bool, u16, u64, usize)], from: usize, segments: &[Segment]) -> usize {
    let (_, log, offset, number) = on_scratch[from];
    let mut next_offset = offset + segments[number].stored_bytes() as u64;
    let mut to = from + 1;
    while let Some(&(is_short, next_log, offset, number)) = on_scratch.get(to) {
        let len = segments[number].stored_bytes() as u64;
        let fits = next_offset + len - on_scratch[from].2 <= READ_BYTES_MAX as u64;
        if is_short || next_log != log || offset != next_offset || !fits {
            break;
        }
        next_offset += len;
        to += 1;
    }
    to
}

fn no_area() -> Error {
    Error::new(crate::Kind::Memory, "take an area", "the pool is empty")
        .hint("a bug: please report it")
}
