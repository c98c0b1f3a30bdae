//! Records in the order of a shuffle, read directly from the input: the shuffle is never written.
//!
//! Contract: [`Shuffled::read`] returns any range of the output that [`super::shuffle`] with the
//! same seed and epoch would write, directly from the input. The seed determines which records
//! those are, without a read ([`super::tree`]). They are then fetched in the order of their places
//! on the drives, adjacent ones in one read. So any number of processes can each take their part of
//! one order, and continue where they stopped. Only for records of one length, because the places
//! of lines are not known in advance.
//!
//! Complexity: opening makes a draw for every record once (a few nanoseconds per level). A read
//! makes a draw for every record at one level, and further draws for those near the range; so
//! ranges should be long ([`Shuffled::stretch_records`]). I/O is the range, in whole blocks.
//! Memory: 8 bytes per leaf, once and for each thread, and [`REF_BYTES`] per record of a range in
//! addition to the records.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::tree::{FAN_OUT, Node, Tree, Walk, fan_out};
use crate::ends::Input;
use crate::ends::{check_unchanged, open_inputs};
use crate::job::thread_group::ThreadGroup;
use crate::job::{Control, Job};
use crate::read::source::{InputPart, became_shorter};
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, Pool, Reservation, block_ceil, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::{Error, Result, units};

/// Additional memory per record of a range while it is fetched.
const REF_BYTES: u64 = 8 + 16;
/// Records closer than this are read together, in reads of at most this size.
const GAP_BYTES: u64 = 16 << 10;
const READ_BYTES_MAX: u64 = 1 << 20;
const READS_IN_FLIGHT: usize = 64;
/// Elements for which draws are made at once.
const BATCH: usize = 4096;

/// The order of a shuffle over files that stay open.
pub struct Shuffled {
    job: Job,
    volume: Volume,
    parts: Vec<InputPart>,
    record_bytes: u64,
    chunk_records: u64,
    count: u64,
    tree: Tree,
    /// The end of each leaf in the output.
    leaf_ends: Vec<u64>,
    _memory: Reservation,
}

/// A record that is read, and its place in the result. Records sort by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    element: u64,
    place: u32,
}

/// One read of adjacent records.
struct Fetch {
    part: usize,
    from_bytes: u64,
    to_bytes: u64,
    /// The range of the wanted records.
    wanted: Range<usize>,
}

impl Shuffled {
    /// The order that `seed` and `epoch` give the records of `inputs`.
    ///
    /// # Errors
    /// The errors of [`super::shuffle`] about the input.
    pub fn open(
        job: &Job,
        inputs: &[Input],
        record_bytes: usize,
        seed: u64,
        epoch: u64,
    ) -> Result<Self> {
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let parts = open_inputs(&volume, inputs, record_bytes, Access::Read)?;
        let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
        let record_bytes = record_bytes as u64;
        let tree = Tree::new(seed, epoch, data_bytes, record_bytes);
        let leaves = fan_out(tree.levels);
        let counts_bytes = (8 * leaves * (1 + job.options.threads)) as u64;
        let memory = job.budget.reserve("leaves of a shuffle", counts_bytes)?;
        let mut order = Shuffled {
            job: job.clone(),
            volume,
            parts,
            record_bytes,
            chunk_records: tree.chunk_bytes / record_bytes,
            count: data_bytes / record_bytes,
            tree,
            leaf_ends: Vec::new(),
            _memory: memory,
        };
        order.leaf_ends = order.count_leaves()?;
        Ok(order)
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Length of a record.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes as usize
    }

    /// The longest range that memory allows at once; shorter ones cost the same computation.
    pub fn stretch_records(&self) -> u64 {
        let free_bytes = self.job.budget.limit_bytes() - self.job.budget.used_bytes();
        // Half of the memory is for the range itself, which belongs to the caller, and for finding
        // its records.
        let each_bytes = self.record_bytes + REF_BYTES;
        (free_bytes / 2 / each_bytes).clamp(1, self.count.max(1))
    }

    fn chunk_count(&self) -> u64 {
        self.count.div_ceil(self.chunk_records)
    }

    fn records_of(&self, chunk: u64) -> u64 {
        (self.count - chunk * self.chunk_records).min(self.chunk_records)
    }

    /// Calls `work` for every chunk, on all threads.
    fn each_chunk(&self, job: &Job, work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
        let thread_group = ThreadGroup::new(job, self.chunk_count());
        let next = AtomicU64::new(0);
        thread_group.run(|_| {
            loop {
                thread_group.check()?;
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= self.chunk_count() {
                    return Ok(());
                }
                work(chunk)?;
            }
        })
    }

    fn count_leaves(&self) -> Result<Vec<u64>> {
        let sums = Mutex::new(vec![0u64; fan_out(self.tree.levels)]);
        self.each_chunk(&self.job, |chunk| {
            let mut walk = Walk::new(self.tree, Node::ROOT, self.tree.levels, chunk);
            let mut counts = vec![0u32; fan_out(self.tree.levels)];
            let mut left = self.records_of(chunk);
            while left > 0 {
                self.job.control.check()?;
                for _ in 0..left.min(BATCH as u64) {
                    counts[walk.next()] += 1;
                }
                left -= left.min(BATCH as u64);
            }
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += u64::from(count);
            }
            Ok(())
        })?;
        let mut ends = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        Ok(ends)
    }

    /// Fills `out` with the records of the output that start at position `from`; `out` is a whole
    /// number of records long.
    ///
    /// # Errors
    /// [`Kind::Usage`] beyond the end, [`Kind::Memory`] for more than
    /// [`Shuffled::stretch_records`], and the errors of reading.
    ///
    /// [`Kind::Usage`]: crate::Kind::Usage
    /// [`Kind::Memory`]: crate::Kind::Memory
    pub fn read(&self, from: u64, out: &mut [u8]) -> Result<()> {
        self.read_watched(&self.job.control, from, out)
    }

    /// Like [`Shuffled::read`], but observed and stopped by a separate control.
    ///
    /// # Errors
    /// The errors of [`Shuffled::read`].
    pub fn read_watched(&self, control: &Arc<Control>, from: u64, out: &mut [u8]) -> Result<()> {
        let job = Job {
            control: Arc::clone(control),
            ..self.job.clone()
        };
        let record_bytes = self.record_bytes as usize;
        let count = (out.len() / record_bytes) as u64;
        let is_whole = out.len().is_multiple_of(record_bytes);
        if !is_whole || from.checked_add(count).is_none_or(|to| to > self.count) {
            let cause = format!(
                "{} from {from} on, of {}",
                units::counted(count, "record"),
                self.count
            );
            return Err(Error::usage("read shuffled", cause).hint("stay inside the data"));
        }
        if count == 0 {
            return Ok(());
        }
        let budget = &self.job.budget;
        let _refs = budget.reserve("references to records", REF_BYTES * count)?;
        let elements = self.elements(&job, from..from + count)?;
        let wanted = elements.into_iter().zip(0..);
        let wanted = wanted.map(|(element, place)| Wanted { element, place });
        let mut wanted: Vec<Wanted> = wanted.collect();
        wanted.sort_unstable();
        self.fetch(&job, &wanted, out)?;
        check_unchanged(&self.volume, &self.parts, false)
    }

    /// The input positions of the records of the whole output, in order.
    pub(super) fn positions(&self) -> Result<Vec<u64>> {
        if self.count == 0 {
            return Ok(Vec::new());
        }
        let budget = &self.job.budget;
        let _refs = budget.reserve("references to records", REF_BYTES * self.count)?;
        self.elements(&self.job, 0..self.count)
    }

    /// The input positions of the records at `range` of the output, in order.
    fn elements(&self, job: &Job, range: Range<u64>) -> Result<Vec<u64>> {
        let ends = &self.leaf_ends;
        let first = ends.partition_point(|&end| end <= range.start);
        let last = ends.partition_point(|&end| end < range.end);
        let start_of = |leaf: usize| if leaf == 0 { 0 } else { ends[leaf - 1] };
        let base = start_of(first);
        let found = Mutex::new(Vec::new());
        self.each_chunk(job, |chunk| {
            let here = self.elements_of_chunk(job, chunk, first..last + 1)?;
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((chunk, here));
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable_by_key(|(chunk, _)| *chunk);
        let mut order = vec![0; (ends[last] - base) as usize];
        let mut next: Vec<usize> = (first..=last)
            .map(|l| (start_of(l) - base) as usize)
            .collect();
        for (leaf, element) in found.into_iter().flat_map(|(_, here)| here) {
            let place = &mut next[leaf as usize - first];
            order[*place] = element;
            *place += 1;
        }
        let mut from = 0;
        for (leaf, end) in (first..).zip(&ends[first..=last]) {
            let node = Node::ROOT.below(self.tree.levels, leaf);
            let to = (end - base) as usize;
            self.tree.rng(node).shuffle(&mut order[from..to]);
            from = to;
        }
        order.truncate((range.end - base) as usize);
        order.drain(..(range.start - base) as usize);
        Ok(order)
    }

    /// Leaf and number of the records of a chunk that go to `leaves`, in the order of the input.
    fn elements_of_chunk(
        &self,
        job: &Job,
        chunk: u64,
        leaves: Range<usize>,
    ) -> Result<Vec<(u32, u64)>> {
        let first_record = chunk * self.chunk_records;
        let count = self.records_of(chunk);
        let mut here = Vec::new();
        if self.tree.levels == 0 {
            here.extend((first_record..first_record + count).map(|element| (0, element)));
            return Ok(here);
        }
        // Further draws are only made for records of wanted children.
        let below = self.tree.levels - 1;
        let of_child = fan_out(below);
        let wanted = leaves.start / of_child..(leaves.end - 1) / of_child + 1;
        let mut walks: Vec<Walk> = wanted
            .clone()
            .map(|child| Walk::new(self.tree, Node::ROOT.below(1, child), below, chunk))
            .collect();
        let mut walk = Walk::new(self.tree, Node::ROOT, 1, chunk);
        let mut children = [0u16; BATCH];
        let mut element = first_record;
        while element < first_record + count {
            job.control.check()?;
            let batch = (first_record + count - element).min(BATCH as u64) as usize;
            walk.fill(&mut children[..batch]);
            for &child in &children[..batch] {
                let child = usize::from(child);
                if wanted.contains(&child) {
                    let leaf = child * of_child + walks[child - wanted.start].next();
                    if leaves.contains(&leaf) {
                        here.push((leaf as u32, element));
                    }
                }
                element += 1;
            }
        }
        Ok(here)
    }

    /// Reads the records `wanted`, ascending, each to its place in `out`.
    fn fetch(&self, job: &Job, wanted: &[Wanted], out: &mut [u8]) -> Result<()> {
        let fetches = self.fetches(wanted);
        let longest = fetches.iter().map(|f| f.to_bytes - f.from_bytes).max();
        let slot_bytes = longest.unwrap_or(0) as usize;
        let free_bytes = self.job.budget.limit_bytes() - self.job.budget.used_bytes();
        let slots = (free_bytes / 4 / slot_bytes.max(1) as u64) as usize;
        let slots = slots.clamp(1, READS_IN_FLIGHT.min(fetches.len()));
        let pool = Pool::new(&self.job.budget, "records in any order", slot_bytes, slots)?;
        let mut left = fetches.into_iter();
        let next = |_: &Port| {
            left.next().map(|fetch| ReadRange {
                file: &self.parts[fetch.part].file,
                at_bytes: fetch.from_bytes,
                len_bytes: (fetch.to_bytes - fetch.from_bytes) as usize,
                what: fetch,
            })
        };
        let take = |read: Arrival<Fetch>| {
            let fetch = read.what;
            let part = &self.parts[fetch.part];
            for &Wanted { element, place } in &wanted[fetch.wanted.clone()] {
                let at = self.at_bytes(part, element) - fetch.from_bytes;
                let to = at + self.record_bytes;
                if to > read.len_bytes as u64 {
                    let got_to = fetch.from_bytes + read.len_bytes as u64;
                    return Err(became_shorter(part, got_to));
                }
                let place = place as usize * self.record_bytes as usize;
                out[place..place + self.record_bytes as usize]
                    .copy_from_slice(&read.buf[at as usize..to as usize]);
            }
            Ok(())
        };
        let check = || job.control.check();
        Transfers::new(&self.volume)?.read_each(&pool, check, next, take)
    }

    /// The offset of a record in its file.
    fn at_bytes(&self, part: &InputPart, element: u64) -> u64 {
        part.data_at_bytes + (element - part.first_position) * self.record_bytes
    }

    /// Reads for records in ascending order; adjacent ones together.
    fn fetches(&self, wanted: &[Wanted]) -> Vec<Fetch> {
        let mut fetches: Vec<Fetch> = Vec::new();
        for (index, &Wanted { element, .. }) in wanted.iter().enumerate() {
            let after = self
                .parts
                .partition_point(|part| part.first_position <= element);
            let holds = |part: &usize| self.parts[*part].data_len_bytes > 0;
            let number = (0..after).rev().find(holds).unwrap_or(0);
            let at = self.at_bytes(&self.parts[number], element);
            let to_bytes = block_ceil(at + self.record_bytes);
            let last = fetches.last_mut().filter(|last| last.part == number);
            let near = last.filter(|last| {
                at <= last.to_bytes + GAP_BYTES && to_bytes - last.from_bytes <= READ_BYTES_MAX
            });
            if let Some(last) = near {
                last.to_bytes = to_bytes.max(last.to_bytes);
                last.wanted.end = index + 1;
                continue;
            }
            fetches.push(Fetch {
                part: number,
                from_bytes: block_floor(at),
                to_bytes,
                wanted: index..index + 1,
            });
        }
        fetches
    }
}

const _: () = assert!(FAN_OUT <= 1 << 16 && GAP_BYTES >= BLOCK_BYTES as u64);
