//! Sorts a bucket in memory, and writes it at its final place.
//!
//! Contract: a bucket of scalars is loaded at an address that is aligned like its place in the
//! output (`address % 4096 == offset % 4096`). It is sorted in place and passed to the writer
//! without a copy. Records are loaded as they are on scratch, sorted by reference, and gathered in
//! chunks that are aligned like the output ([`crate::partition::task`]).
//!
//! Bounds: the worker's areas and chunks, plus the sort's space, which is reused for each bucket.

use super::elements::{Elements, as_keys_mut};
use super::in_memory::{Entry, each_tie, sort_entries};
use super::plan::SORTING;
use super::radix::{self, Item};
use super::shared::Shared;
use crate::ends::interleave;
use crate::partition::bucket::{Bucket, Location};
use crate::partition::classify::Key;
use crate::partition::driver::{Ends, Written};
use crate::partition::no_buffer;
use crate::partition::task::{
    BucketTask, BucketWork, ItemPlace, Loaded, Spot, TaskMemory, TaskWorker, Tasks, gather,
    run_tasks, take_over, tasks_in_order,
};
use crate::read_back::Tally;
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool};
use outcore_io::output::StagedOutput;

/// One worker's processing of the buckets of a sort.
struct Sorting<'a, E: Elements> {
    shared: &'a Shared<'a, E>,
    tasks: &'a Tasks<'a, ()>,
    is_unique: bool,
    /// For scalars: the radix sort's space, one slot per worker; this worker has taken its own.
    spaces: Option<Pool>,
    space: Option<Buf>,
    /// For records.
    entries: Vec<Entry>,
    entry_space: Vec<Entry>,
    key_space: Vec<E::Key>,
}

/// Sorts all buckets and writes them.
pub(crate) fn sort_buckets<E>(
    shared: &Shared<'_, E>,
    buckets: Vec<Bucket>,
    ends: &Ends<'_>,
    staged: Option<&StagedOutput>,
    is_unique: bool,
) -> Result<Written>
where
    E: Elements,
    E::Key: Item + Into<u128>,
{
    let bytes: u64 = buckets.iter().map(|bucket| bucket.counts.bytes).sum();
    shared.job.control.begin_phase("sort", bytes);
    ends.write(shared.job, staged, |sink| {
        let copies_bytes_max = (!is_unique).then_some(shared.plan.bucket_bytes_max);
        let mut list = tasks_in_order(buckets, copies_bytes_max);
        take_over(shared, &sink, &mut list)?;
        if let Some(staged) = staged.filter(|_| !is_unique) {
            interleave(&mut list, staged, |task| task.start_bytes);
        }
        let tasks = Tasks::new(list, sink, is_unique);
        run(shared, &tasks, is_unique)?;
        let bytes = match is_unique {
            true => tasks.placed_bytes(),
            false => bytes,
        };
        let items = bytes / shared.elements.element_bytes() as u64;
        Ok(Written { items, bytes })
    })
}

/// Sorts and writes all buckets on all threads.
fn run<E>(shared: &Shared<'_, E>, tasks: &Tasks<'_, ()>, is_unique: bool) -> Result<()>
where
    E: Elements,
    E::Key: Item + Into<u128>,
{
    let plan = shared.plan;
    let budget = &shared.job.budget;
    let threads = plan.size.threads;
    let space_bytes = plan.size.sort_space_bytes(plan.bucket_bytes_max);
    let (spaces, _entries) = match shared.elements.is_scalar() {
        true => {
            let spaces = Pool::new(budget, SORTING, space_bytes as usize, threads)?;
            (Some(spaces), None)
        }
        false => {
            let entries = budget.reserve(SORTING, space_bytes * threads as u64)?;
            (None, Some(entries))
        }
    };
    let memory = TaskMemory {
        area_bytes: plan.area_bytes(),
        areas: plan.areas,
        chunk_bytes: plan.chunk_bytes,
        chunks: plan.chunks,
        loads_max: plan.areas.max(2) - 1,
    };
    run_tasks(shared, tasks, SORTING, memory, threads, || Sorting {
        shared,
        tasks,
        is_unique,
        spaces: spaces.clone(),
        space: None,
        entries: Vec::new(),
        entry_space: Vec::new(),
        key_space: Vec::new(),
    })
}

impl<E> BucketWork<()> for Sorting<'_, E>
where
    E: Elements,
    E::Key: Item + Into<u128>,
{
    fn load_at(&self, task: &BucketTask) -> usize {
        match self.shared.elements.is_scalar() {
            true => self.tasks.phase(task),
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
        } else if self.shared.elements.is_scalar() {
            self.sort_scalars(worker, loaded, area)
        } else {
            self.sort_records(worker, loaded, area)
        }
    }
}

impl<E> Sorting<'_, E>
where
    E: Elements,
    E::Key: Item + Into<u128>,
{
    /// Gathers all elements of a bucket of scalars at the place from which they are written. Closes
    /// gaps after short segments, copies segments in memory after them, and fills the room before
    /// the first whole block from the end.
    fn gather_scalars(&self, loaded: &mut Loaded<()>, area: &mut Buf) -> (usize, usize) {
        let mut end = loaded.load.loaded_from;
        for &(number, offset) in &loaded.load.offsets {
            let len = loaded.load.segments[number].payload_bytes as usize;
            if offset != end {
                area.copy_within(offset..offset + len, end);
            }
            end += len;
        }
        for segment in loaded.load.segments.drain(..) {
            if let Location::Memory { buf, .. } = segment.location {
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

    /// Start of a bucket's scalars in its area: aligned like the output, unless the output's header
    /// makes numbers misaligned there.
    fn aligned_start(&self, task: &BucketTask) -> usize {
        let phase = self.tasks.phase(task);
        phase - phase % self.shared.elements.element_bytes()
    }

    fn sort_scalars(
        &mut self,
        worker: &mut TaskWorker<'_, ()>,
        mut loaded: Loaded<()>,
        mut area: Buf,
    ) -> Result<()> {
        let (start, mut total) = self.gather_scalars(&mut loaded, &mut area);
        let element_bytes = self.shared.elements.element_bytes();
        let is_sorted = loaded.task.bucket.depth >= self.shared.elements.depth_end();
        let keys = as_keys_mut::<E::Key>(&mut area[start..start + total])?;
        if !is_sorted {
            if self.space.is_none() {
                self.space = self.spaces.as_ref().and_then(Pool::take);
            }
            let space = self.space.as_mut().ok_or_else(no_buffer)?;
            radix::sort(keys, as_keys_mut(space)?);
        }
        if self.is_unique {
            total = dedup(keys) * element_bytes;
        }
        self.shared
            .elements
            .decode(&mut area[start..start + total])?;
        self.note_kept(&area[start..start + total]);
        let spot = worker.place(&loaded, |_| total as u64)?;
        worker.emit_area(spot, area, start)
    }

    /// Sums elements that are kept and will be written, if the output is read back.
    fn note_kept(&self, elements: &[u8]) {
        if let Some(tally) = self.shared.kept {
            tally.take(elements);
        }
    }

    /// Writes a bucket of equal elements that were only counted.
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
        self.note_kept(&area[start..start + total]);
        let spot = worker.place(&loaded, |_| total as u64)?;
        worker.emit_area(spot, area, start)
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
            sort_entries(&mut entries, &mut self.entry_space);
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
        if self.is_unique {
            entries.dedup_by(|b, a| elements.is_same_key(record(a), record(b)));
        }
        let spot = self.place(worker, &loaded, &area, &mut entries)?;
        let mut summed = self.shared.kept.and_then(Tally::checker);
        // The next byte to write: an entry and an offset inside its record.
        let mut next = ItemPlace::default();
        let range = |entry: Entry| (entry.at_bytes as usize, element_bytes);
        worker.emit(spot, |out| {
            let filled;
            (filled, next) = gather(&area, &entries, range, next, out);
            if let Some(summed) = &mut summed {
                summed.push(&out[..filled]);
            }
        })?;
        if let (Some(tally), Some(summed)) = (self.shared.kept, &summed) {
            tally.take_checked(summed);
        }
        entries.clear();
        self.entries = entries;
        Ok(())
    }

    /// The place of a bucket's records; drops the first if one record per key is written, and the
    /// previous bucket ended with its key.
    fn place<'w>(
        &self,
        worker: &TaskWorker<'w, ()>,
        loaded: &Loaded<()>,
        area: &Buf,
        entries: &mut Vec<Entry>,
    ) -> Result<Spot<'w>> {
        let elements = self.shared.elements;
        let element_bytes = elements.element_bytes();
        let record = |entry: &Entry| {
            let at = entry.at_bytes as usize;
            &area[at..at + element_bytes]
        };
        worker.place(loaded, |last| {
            if self.is_unique {
                let first = last.as_deref().zip(entries.first());
                if first.is_some_and(|(last, first)| elements.is_same_key(last, record(first))) {
                    entries.remove(0);
                }
                if let Some(entry) = entries.last() {
                    *last = Some(record(entry).into());
                }
            }
            (entries.len() * element_bytes) as u64
        })
    }

    /// One entry per record, in the order of the input if the job is ordered.
    fn make_entries(
        &mut self,
        loaded: &Loaded<()>,
        area: &Buf,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let element_bytes = self.shared.elements.element_bytes();
        let (runs, _) = loaded.load.runs();
        entries.reserve_exact(loaded.task.bucket.counts.items as usize);
        let needs_words = loaded.task.bucket.depth < self.shared.elements.depth_end();
        let mut space = std::mem::take(&mut self.key_space);
        for run in runs {
            let (at, len) = (run.at, run.len_bytes);
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
}

/// Keeps one of each run of equal keys at the start; returns their number.
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
