//! What a sort does with a bucket: sort it in memory, and write it at its final place.
//!
//! Contract: a bucket of bare numbers is loaded where it will be written from: laid out
//! like the output (`address % 4096 == offset % 4096`), sorted in place, handed to the writer
//! without a copy. Records are loaded as they are on scratch, sorted by reference, and gathered in
//! chunks laid out like the output ([`crate::partition::task`]).
//!
//! Bounds: the worker's areas and chunks, plus the sort's space.

use super::elements::{Elements, as_keys_mut};
use super::in_memory::{Entry, SortKeys, each_tie, sort_entries};
use super::plan::SORTING;
use super::shared::Shared;
use crate::partition::bucket::Location;
use crate::partition::classify::Key;
use crate::partition::task::{
    BucketTask, BucketWork, Loaded, Sink, TaskMemory, TaskWorker, Tasks, run_tasks, write_in_place,
    write_pipe,
};
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool};

/// What one worker does with the buckets of a sort.
struct Sorting<'a, E: Elements> {
    shared: &'a Shared<'a, E>,
    tasks: &'a Tasks<'a, ()>,
    is_unique: bool,
    entries: Vec<Entry>,
    key_space: Vec<E::Key>,
}

/// Sorts and writes all buckets on all threads.
pub(crate) fn run<E>(shared: &Shared<'_, E>, tasks: &Tasks<'_, ()>, is_unique: bool) -> Result<()>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    let plan = shared.plan;
    let budget = &shared.job.budget;
    let space_bytes = plan.size.sort_space_bytes(plan.leaf_bytes_max) * plan.size.threads as u64;
    let _space = budget.reserve(SORTING, space_bytes)?;
    let mut memory = Vec::new();
    for _ in 0..plan.size.threads {
        memory.push(TaskMemory {
            areas: Pool::new(budget, SORTING, plan.area_bytes(), plan.areas)?,
            chunks: match plan.chunks {
                0 => None,
                count => Some(Pool::new(budget, SORTING, plan.chunk_bytes, count)?),
            },
            loads_max: plan.areas.max(2) - 1,
        });
    }
    run_tasks(shared, tasks, memory, || Sorting {
        shared,
        tasks,
        is_unique,
        entries: Vec::new(),
        key_space: Vec::new(),
    })
}

impl<E> BucketWork<()> for Sorting<'_, E>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    fn load_at(&self, task: &BucketTask) -> usize {
        match self.shared.elements.is_bare() {
            true => self.layout_phase(task),
            false => 0,
        }
    }

    fn finish(
        &mut self,
        worker: &mut TaskWorker<'_, ()>,
        loaded: Loaded<()>,
        area: Buf,
    ) -> Result<()> {
        if loaded.task.bucket.copies_of.is_some() {
            self.write_copies(worker, loaded, area)
        } else if self.shared.elements.is_bare() {
            self.sort_bare(worker, loaded, area)
        } else {
            self.sort_records(worker, loaded, area)
        }
    }
}

impl<E> Sorting<'_, E>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    /// Where in a block a bucket's output starts, if that is known before it is sorted.
    fn layout_phase(&self, task: &BucketTask) -> usize {
        match &self.tasks.sink {
            Sink::Files(writer) if !self.is_unique => writer.phase(task.start_bytes),
            _ => 0,
        }
    }

    /// Brings all elements of a bare leaf together at the place from which they are written:
    /// gaps behind short segments are closed, segments in memory are copied behind them, and the
    /// room in front of the first whole block is filled from the end.
    fn gather_bare(&self, loaded: &mut Loaded<()>, area: &mut Buf) -> (usize, usize) {
        let mut end = loaded.load.loaded_from;
        for &(number, offset) in &loaded.load.offsets {
            let len = loaded.load.segments[number].payload_bytes as usize;
            if offset != end {
                area.copy_within(offset..offset + len, end);
            }
            end += len;
        }
        for segment in loaded.load.segments.drain(..) {
            if let Location::Memory(buf) = segment.location {
                let len = segment.payload_bytes as usize;
                area[end..end + len].copy_from_slice(&buf[..len]);
                end += len;
            }
        }
        let total = end - loaded.load.loaded_from;
        let start = self.aligned_start(&loaded.task);
        let moved = (loaded.load.loaded_from - start).min(total);
        area.copy_within(end - moved..end, start);
        (start, total)
    }

    /// Where the numbers of a leaf start in its area: at the place in the block from which they are
    /// written, unless the output's header puts that astray for numbers.
    fn aligned_start(&self, task: &BucketTask) -> usize {
        let phase = self.layout_phase(task);
        phase - phase % self.shared.elements.element_bytes()
    }

    fn sort_bare(
        &mut self,
        worker: &mut TaskWorker<'_, ()>,
        mut loaded: Loaded<()>,
        mut area: Buf,
    ) -> Result<()> {
        let (start, mut total) = self.gather_bare(&mut loaded, &mut area);
        let element_bytes = self.shared.elements.element_bytes();
        let is_sorted = loaded.task.bucket.depth >= self.shared.elements.depth_end();
        let keys = as_keys_mut::<E::Key>(&mut area[start..start + total])?;
        if !is_sorted {
            E::Key::sort_keys(keys);
        }
        if self.is_unique {
            total = dedup(keys) * element_bytes;
        }
        self.shared
            .elements
            .decode(&mut area[start..start + total])?;
        self.place(worker, &loaded, area, start, total)
    }

    /// Writes a leaf that is whole and in order, at `area[start..start + total]`.
    fn place(
        &mut self,
        worker: &mut TaskWorker<'_, ()>,
        loaded: &Loaded<()>,
        mut area: Buf,
        start: usize,
        total: usize,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes() as u64;
        match &self.tasks.sink {
            Sink::Files(writer) if !self.is_unique => {
                let at_bytes = loaded.task.start_bytes;
                let phase = writer.phase(at_bytes);
                if phase != start {
                    area.copy_within(start..start + total, phase);
                }
                write_in_place(writer, &mut worker.port, area, phase, total, at_bytes)
            }
            Sink::Files(writer) => {
                let mut placed = worker.wait_for_turn(loaded.load.index)?;
                let at_bytes = placed.count * element_bytes;
                placed.count += total as u64 / element_bytes;
                self.tasks.turns.pass_on(placed);
                let phase = writer.phase(at_bytes);
                area.copy_within(start..start + total, phase);
                write_in_place(writer, &mut worker.port, area, phase, total, at_bytes)
            }
            Sink::Pipe(pipe) => {
                let mut placed = worker.wait_for_turn(loaded.load.index)?;
                write_pipe(pipe, &area[start..start + total])?;
                placed.count += total as u64 / element_bytes;
                self.tasks.turns.pass_on(placed);
                Ok(())
            }
        }
    }

    /// A leaf of equal elements that were only counted.
    fn write_copies(
        &mut self,
        worker: &mut TaskWorker<'_, ()>,
        loaded: Loaded<()>,
        mut area: Buf,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let count = if self.is_unique {
            1
        } else {
            loaded.task.bucket.counts.items as usize
        };
        let total = count * element_bytes;
        let start = self.aligned_start(&loaded.task);
        if let Some(element) = &loaded.task.bucket.copies_of {
            for slot in area[start..start + total].chunks_exact_mut(element_bytes) {
                slot.copy_from_slice(element);
            }
        }
        self.shared
            .elements
            .decode(&mut area[start..start + total])?;
        self.place(worker, &loaded, area, start, total)
    }

    fn sort_records(
        &mut self,
        worker: &mut TaskWorker<'_, ()>,
        mut loaded: Loaded<()>,
        mut area: Buf,
    ) -> Result<()> {
        loaded.load.append_resident(&mut area);
        let mut entries = std::mem::take(&mut self.entries);
        self.make_entries(&loaded, &area, &mut entries)?;
        let elements = self.shared.elements;
        let is_ordered = self.shared.plan.size.is_ordered;
        let element_bytes = elements.element_bytes();
        let depth = loaded.task.bucket.depth;
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
        let at = if self.is_unique {
            entries.dedup_by(|b, a| elements.is_same_key(record(a), record(b)));
            self.place_unique(worker, &loaded, &area, &mut entries)?
        } else {
            loaded.task.start_bytes / element_bytes as u64
        };
        self.emit_records(worker, loaded.load.index, &area, &entries, at)?;
        entries.clear();
        self.entries = entries;
        Ok(())
    }

    /// Drops the first record if the leaf before ended with its key; gives the leaf's place.
    fn place_unique(
        &self,
        worker: &TaskWorker<'_, ()>,
        loaded: &Loaded<()>,
        area: &Buf,
        entries: &mut Vec<Entry>,
    ) -> Result<u64> {
        let element_bytes = self.shared.elements.element_bytes();
        let record = |entry: &Entry| {
            let at = entry.at_bytes as usize;
            &area[at..at + element_bytes]
        };
        let mut placed = worker.wait_for_turn(loaded.load.index)?;
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
        if matches!(self.tasks.sink, Sink::Files(_)) {
            placed.count += entries.len() as u64;
            self.tasks.turns.pass_on(placed);
        }
        Ok(at)
    }

    /// One entry a record, in the order of the input if the job is ordered.
    fn make_entries(
        &mut self,
        loaded: &Loaded<()>,
        area: &Buf,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let mut runs: Vec<(u64, usize, usize)> = Vec::new();
        for &(number, offset) in &loaded.load.offsets {
            let segment = &loaded.load.segments[number];
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
        entries.reserve_exact(loaded.task.bucket.counts.items as usize);
        let needs_words = loaded.task.bucket.depth < self.shared.elements.depth_end();
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
                let keys = self.shared.elements.keys(
                    &area[from..to],
                    loaded.task.bucket.depth,
                    &mut space,
                )?;
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

    /// Emits records in the order of `entries`, the first of them record `at` of the output.
    fn emit_records(
        &mut self,
        worker: &mut TaskWorker<'_, ()>,
        index: usize,
        area: &Buf,
        entries: &[Entry],
        at: u64,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let is_pipe = matches!(self.tasks.sink, Sink::Pipe(_));
        // Of those that drop repeated keys, it is this one's turn already.
        let turn = match is_pipe {
            true if self.is_unique => Some(self.tasks.turns.placed()),
            true => Some(worker.wait_for_turn(index)?),
            false => None,
        };
        // The next byte to be written: an entry and an offset inside its record.
        let mut next = (0, 0);
        let bytes = (entries.len() * element_bytes) as u64;
        worker.emit(at * element_bytes as u64, bytes, |out| {
            next = gather(area, entries, element_bytes, next, out);
        })?;
        if let Some(mut placed) = turn {
            placed.count += entries.len() as u64;
            self.tasks.turns.pass_on(placed);
        }
        Ok(())
    }
}

/// Fills `out` with records in order, from byte `next.1` of entry `next.0`; gives where it ended.
fn gather(
    area: &[u8],
    entries: &[Entry],
    element_bytes: usize,
    next: (usize, usize),
    out: &mut [u8],
) -> (usize, usize) {
    let (mut entry, mut offset) = next;
    let mut filled = 0;
    while filled < out.len() {
        let len = (element_bytes - offset).min(out.len() - filled);
        let from = entries[entry].at_bytes as usize + offset;
        out[filled..filled + len].copy_from_slice(&area[from..from + len]);
        filled += len;
        offset += len;
        if offset == element_bytes {
            entry += 1;
            offset = 0;
        }
    }
    (entry, offset)
}

/// Keeps one of each run of equal keys at the front; gives their number.
fn dedup<K: Key>(keys: &mut [K]) -> usize {
    let mut kept = 0;
    for index in 0..keys.len() {
        if kept == 0 || keys[index] != keys[kept - 1] {
            keys[kept] = keys[index];
            kept += 1;
        }
    }
    kept
}
