//! Joins with the right table in memory: left rows are looked up as they are read.
//!
//! Contract: [`Right::load`] reads the right table into a hash table, or reports that the memory is
//! too small. The table is then a [`Change`] of the left table. Rows come in the order of the left
//! table, and the partners of a row in the order of the right table, for any number of threads. It
//! serves joins that write a right row only with a partner.
//!
//! Source: Graefe, "Query Evaluation Techniques for Large Databases" (ACM Computing Surveys 1993),
//! section 5.3, in the case without overflow.
//!
//! Bounds: two fifths of the memory for the rows of the right table, including 48 bytes per row;
//! one read of each table, and no scratch.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use outcore::Job;
use outcore::sort::lines::rows::RowBatch;
use outcore_io::memory::{Reservation, prefetch};
use outcore_io::{Result, threads};
use twox_hash::XxHash3_64;

use super::plan::{LeftKeys, Plan, Which};
use super::{JOIN, JoinKind};
use crate::fault;
use crate::input::{PieceQueue, TableInput};
use crate::jobs::copy::{Change, WriteBatch, filtered};
use crate::jobs::rows_in::{ReadShape, parts_of};
use crate::jobs::rows_out::ROWS_AT_ONCE;

/// Memory of a row in addition to its bytes: its entry, twice while the pieces' entries are joined,
/// and later at most two heads.
const ROW_BYTES: u64 = 2 * size_of::<Entry>() as u64;
/// The approximate number of rows in the sample for repeated keys.
const SAMPLED_ROWS: usize = 4096;
/// No next row.
const NONE: u32 = u32::MAX;

/// See the module.
pub(super) struct Right<'p> {
    plan: &'p Plan,
    /// The rows of each piece, back to back.
    chunks: Vec<Vec<u8>>,
    /// All rows, in the order of the table.
    entries: Vec<Entry>,
    /// For each hash prefix, its first row.
    heads: Vec<AtomicU32>,
    /// A hash shifted right by this many bits gives its prefix.
    shift: u32,
    batch_bytes: u64,
    _held: Reservation,
}

/// The place of a row.
struct Entry {
    hash: u64,
    chunk: u32,
    from: u32,
    to: u32,
    /// The next row with the same hash prefix.
    next: AtomicU32,
}

/// The rows of one piece.
struct Loaded {
    piece: usize,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl<'p> Right<'p> {
    /// Loads the rows of `input`; `None` if they need more memory than they may have.
    ///
    /// # Errors
    /// Errors of the readers.
    pub(super) fn load(
        job: &Job,
        input: &TableInput,
        plan: &'p Plan,
        shape: ReadShape,
    ) -> Result<Option<Self>> {
        let limit_bytes = job.budget.free_bytes() / 5 * 2;
        let rows_count = input.rows_count();
        if rows_count >= u64::from(NONE) || rows_count * ROW_BYTES > limit_bytes {
            return Ok(None);
        }
        let loading = job.budget.reserve("rows of the right table", limit_bytes)?;
        let stored_bytes = input.pieces().iter().map(|piece| piece.stored_bytes).sum();
        job.control.begin_phase("load", stored_bytes);
        let queue = PieceQueue::new(shape.readers_count);
        let used_bytes = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        let work = |_thread: usize| -> Result<Vec<Loaded>> {
            let mut reader = input.reader(shape.reader_bytes)?;
            let (mut rows, mut loaded) = (RowBatch::default(), Vec::new());
            while let Some((number, piece)) = reader.take(&queue) {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let mut chunk = Loaded {
                    piece: number,
                    bytes: Vec::new(),
                    entries: Vec::new(),
                };
                for batch in reader.open(piece)? {
                    job.control.check()?;
                    for part in parts_of(&batch?, ROWS_AT_ONCE) {
                        rows.clear();
                        plan.encode(Which::Right, &part, 0, &mut rows)?;
                        let before_bytes = chunk.held_bytes();
                        let is_held = chunk.append(plan, &rows)?;
                        let more_bytes = chunk.held_bytes() - before_bytes;
                        let now_bytes = used_bytes.fetch_add(more_bytes, Ordering::Relaxed);
                        if !is_held || now_bytes + more_bytes > limit_bytes {
                            is_over.store(true, Ordering::Relaxed);
                            return Ok(loaded);
                        }
                    }
                }
                let before_bytes = chunk.held_bytes();
                chunk.bytes.shrink_to_fit();
                chunk.entries.shrink_to_fit();
                used_bytes.fetch_sub(before_bytes - chunk.held_bytes(), Ordering::Relaxed);
                loaded.push(chunk);
                job.control.advance(piece.stored_bytes);
            }
            Ok(loaded)
        };
        let threads_count = shape.readers_count;
        let loaded = threads::together("outcore-table-load", threads_count, work)?;
        let loaded: Vec<Vec<Loaded>> = loaded.into_iter().collect::<Result<_>>()?;
        if is_over.into_inner() {
            return Ok(None);
        }
        let mut loaded: Vec<Loaded> = loaded.into_iter().flatten().collect();
        loaded.sort_unstable_by_key(|chunk| chunk.piece);
        // The rest of the memory is for reading and writing.
        drop(loading);
        let used_bytes = used_bytes.into_inner();
        let mut right = Right {
            plan,
            chunks: Vec::with_capacity(loaded.len()),
            entries: Vec::with_capacity(loaded.iter().map(|chunk| chunk.entries.len()).sum()),
            heads: Vec::new(),
            shift: 0,
            batch_bytes: shape.batch_bytes,
            _held: job.budget.reserve("rows of the right table", used_bytes)?,
        };
        for (number, chunk) in loaded.into_iter().enumerate() {
            let chunk_of = |entry: Entry| Entry {
                chunk: number as u32,
                ..entry
            };
            right
                .entries
                .extend(chunk.entries.into_iter().map(chunk_of));
            right.chunks.push(chunk.bytes);
        }
        right.link(threads_count)?;
        Ok(Some(right))
    }

    /// Builds the chains in parallel, split by heads. It goes from the last row to the first, so
    /// that links lead to later rows.
    fn link(&mut self, threads_count: usize) -> Result<()> {
        let heads_count = self.entries.len().next_power_of_two().max(2);
        self.shift = u64::BITS - heads_count.ilog2();
        self.heads.resize_with(heads_count, || AtomicU32::new(NONE));
        let part_len = heads_count.div_ceil(threads_count);
        let this = &*self;
        let work = |thread: usize| {
            let part = thread * part_len..(thread + 1) * part_len;
            for (number, entry) in this.entries.iter().enumerate().rev() {
                let head = (entry.hash >> this.shift) as usize;
                if part.contains(&head) {
                    let first = this.heads[head].swap(number as u32, Ordering::Relaxed);
                    entry.next.store(first, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        threads::together("outcore-table-load", threads_count, work)?
            .into_iter()
            .collect()
    }

    /// `None` for [`NONE`].
    fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number as usize)
    }

    fn row(&self, number: u32) -> &[u8] {
        let entry = &self.entries[number as usize];
        &self.chunks[entry.chunk as usize][entry.from as usize..entry.to as usize]
    }

    fn key(&self, number: u32) -> Result<&[u8]> {
        Ok(self.plan.read(self.row(number))?.key)
    }

    /// Returns the row if it has that hash, or else the next row of its chain with that hash.
    fn of_hash(&self, mut number: u32, hash: u64) -> u32 {
        while number != NONE {
            let entry = &self.entries[number as usize];
            if entry.hash == hash {
                break;
            }
            number = entry.next.load(Ordering::Relaxed);
        }
        number
    }

    /// Returns the row if it has that hash and that key, or else the next row of its chain with
    /// both.
    fn of_key(&self, mut number: u32, hash: u64, key: &[u8]) -> Result<u32> {
        loop {
            number = self.of_hash(number, hash);
            if number == NONE || self.key(number)? == key {
                return Ok(number);
            }
            number = self.behind(number);
        }
    }

    fn behind(&self, number: u32) -> u32 {
        self.entries[number as usize].next.load(Ordering::Relaxed)
    }

    /// Returns, for each left row, the hash of its key and the first row with that key. Each step
    /// runs for all rows before the next step, so that the memory accesses of many rows overlap.
    fn first_partners(&self, keys: &LeftKeys, rows_count: usize) -> Result<Vec<(u64, u32)>> {
        let hashes = (0..rows_count).map(|row| keys.key(row).map(XxHash3_64::oneshot));
        let hashes: Vec<Option<u64>> = hashes.collect();
        let heads = hashes.iter().map(|hash| {
            let hash = (*hash)?;
            let head = &self.heads[(hash >> self.shift) as usize];
            Some((hash, head.load(Ordering::Relaxed)))
        });
        let mut found: Vec<(u64, u32)> = heads.map(|head| head.unwrap_or((0, NONE))).collect();
        for entry in found.iter().filter_map(|(_, number)| self.entry(*number)) {
            prefetch(entry);
        }
        for (hash, number) in &mut found {
            *number = self.of_hash(*number, *hash);
            if let Some(entry) = self.entry(*number) {
                let chunk = &self.chunks[entry.chunk as usize];
                chunk.get(entry.from as usize).map(prefetch);
            }
        }
        for (row, (hash, number)) in found.iter_mut().enumerate() {
            if let Some(key) = keys.key(row) {
                *number = self.of_key(*number, *hash, key)?;
            }
        }
        Ok(found)
    }

    /// Builds the batch of these left rows, each joined with a right one.
    fn paired(&self, left: &RecordBatch, pairs: &Pairs<'_>) -> Result<RecordBatch> {
        let is_run = pairs.left.windows(2).all(|two| two[0] + 1 == two[1]);
        let left = match pairs.left.first().filter(|_| is_run) {
            Some(&first) => left.slice(first as usize, pairs.left.len()),
            None => {
                let places = UInt32Array::from_iter_values(pairs.left.iter().copied());
                let left = take_record_batch(left, &places);
                left.map_err(|error| fault::arrow(JOIN, &error))?
            }
        };
        let right = self.plan.sides[Which::Right as usize]
            .codec
            .decode(&pairs.right)?;
        self.together(&left, &right)
    }

    fn together(&self, left: &RecordBatch, right: &RecordBatch) -> Result<RecordBatch> {
        let is_left = || BooleanArray::from(vec![true; left.num_rows()]);
        self.plan.put_together(left, right, is_left)
    }
}

impl Loaded {
    fn held_bytes(&self) -> u64 {
        self.bytes.capacity() as u64 + self.entries.capacity() as u64 * ROW_BYTES
    }

    /// Keeps rows, except for those whose key never matches; returns whether their places fit.
    fn append(&mut self, plan: &Plan, rows: &RowBatch) -> Result<bool> {
        for row in rows.iter() {
            let read = plan.read(row)?;
            if read.is_null {
                continue;
            }
            let (from, to) = (self.bytes.len(), self.bytes.len() + row.len());
            let Ok(to) = u32::try_from(to) else {
                return Ok(false);
            };
            self.bytes.extend_from_slice(row);
            self.entries.push(Entry {
                hash: XxHash3_64::oneshot(read.key),
                chunk: 0,
                from: from as u32,
                to,
                next: AtomicU32::new(NONE),
            });
        }
        Ok(true)
    }
}

/// Pairs of rows that form a batch.
#[derive(Default)]
struct Pairs<'r> {
    left: Vec<u32>,
    right: Vec<&'r [u8]>,
    /// Bytes of the right rows, and of left rows for each repetition.
    bytes: u64,
}

impl<'r> Pairs<'r> {
    fn push(&mut self, left: usize, right: &'r [u8]) {
        self.left.push(left as u32);
        self.right.push(right);
        self.bytes += right.len() as u64;
    }

    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
        self.bytes = 0;
    }
}

impl Change for Right<'_> {
    /// False if keys of the right table repeat, because left rows are repeated then.
    fn keeps(&self, _: &str) -> bool {
        let step = (self.entries.len() / SAMPLED_ROWS).max(1);
        let mut sample = (0..self.entries.len() as u32).step_by(step);
        !sample.any(|row| {
            let hash = self.entries[row as usize].hash;
            self.of_hash(self.behind(row), hash) != NONE
        })
    }

    fn count(&self, _: usize) -> Option<u64> {
        None
    }

    fn apply(
        &self,
        _: usize,
        _: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let (keys, left) = self.plan.left_rows(&batch)?;
        let first = self.first_partners(&keys, batch.num_rows())?;
        if let JoinKind::Semi | JoinKind::Anti = self.plan.kind {
            let is_semi = self.plan.kind == JoinKind::Semi;
            let chosen = first.iter().map(|(_, row)| Some((*row != NONE) == is_semi));
            let left = filtered(&left, &chosen.collect())?;
            return write(&self.together(&left, &left.slice(0, 0))?);
        }
        let keeps_left = self.plan.sides[Which::Left as usize].is_kept;
        let nothing = self.plan.sides[Which::Right as usize].nothing();
        let mut pairs = Pairs::default();
        // Lengths of left rows that are written more than once.
        let mut lens_bytes: Option<Vec<usize>> = None;
        for (row, &(hash, mut partner)) in first.iter().enumerate() {
            if partner == NONE && keeps_left {
                pairs.push(row, nothing);
            }
            while partner != NONE {
                pairs.push(row, self.row(partner));
                if pairs.left.len() >= ROWS_AT_ONCE || pairs.bytes >= self.batch_bytes {
                    write(&self.paired(&left, &pairs)?)?;
                    pairs.clear();
                }
                let behind = self.behind(partner);
                if behind == NONE {
                    break;
                }
                let key = keys.key(row).unwrap_or_default();
                partner = self.of_key(behind, hash, key)?;
                if partner != NONE {
                    let codec = &self.plan.sides[Which::Left as usize].codec;
                    let lens_bytes = match &mut lens_bytes {
                        Some(lens_bytes) => lens_bytes,
                        none => none.insert(codec.measure(&left)?),
                    };
                    pairs.bytes += lens_bytes[row] as u64;
                }
            }
        }
        match pairs.left.is_empty() {
            true => Ok(()),
            false => write(&self.paired(&left, &pairs)?),
        }
    }
}
