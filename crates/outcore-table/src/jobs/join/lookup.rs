//! The right table in memory: left rows are looked up in it as they are read.
//!
//! Contract: [`Right::load`] reads the right table into a hash table, or says that the memory is not enough.
//! It is a [`Change`] of the left table then: rows come in the order of the left table, and the partners of a row in the order
//! of the right one, whatever the threads. For joins that write no right row without a partner.
//!
//! Source: Graefe, "Query Evaluation Techniques for Large Databases" (ACM Computing Surveys 1993), section 5.3, of which this is
//! the case without overflow.
//!
//! Bounds: two fifths of the memory for the rows of the right table and some forty bytes for each; one read of either table,
//! and no scratch.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use hashbrown::HashTable;
use outcore::Job;
use outcore::sort::lines::rows::RowBatch;
use outcore_io::memory::Reservation;
use outcore_io::{Result, threads};
use twox_hash::XxHash3_64;

use super::plan::{Plan, Which};
use super::{JOIN, JoinKind};
use crate::fault;
use crate::input::TableInput;
use crate::jobs::copy::{Change, WriteBatch, filtered};
use crate::jobs::rows_in::{ROWS_AT_ONCE, ReadShape, parts_of};

/// What a row takes beside its bytes: its entry, its place in the table and its link.
const ROW_BYTES: u64 = size_of::<Entry>() as u64 + 16;
/// No further row.
const NONE: u32 = u32::MAX;

/// See the module.
pub(super) struct Right<'p> {
    plan: &'p Plan,
    /// The rows of each piece, one after another.
    chunks: Vec<Vec<u8>>,
    /// All rows, in the order of the table.
    entries: Vec<Entry>,
    /// Of each row: the next one of its key.
    next: Vec<AtomicU32>,
    /// The first row of each key, by parts of the hashes.
    tables: Vec<HashTable<u32>>,
    batch_bytes: u64,
    _held: Reservation,
}

/// Where a row is.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    chunk: u32,
    from: u32,
    to: u32,
}

/// The rows of one piece.
struct Loaded {
    piece: usize,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl<'p> Right<'p> {
    /// The rows of `input`, or nothing if they need more memory than they are given.
    ///
    /// # Errors
    /// What the readers fail with.
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
        let held = job.budget.reserve("rows of the right table", limit_bytes)?;
        let stored_bytes = input.pieces().iter().map(|piece| piece.stored_bytes).sum();
        job.control.begin_phase("load", stored_bytes);
        let (next, used_bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
        let is_over = AtomicBool::new(false);
        let work = |_thread: usize| -> Result<Vec<Loaded>> {
            let mut reader = input.reader(shape.reader_bytes)?;
            let (mut rows, mut loaded) = (RowBatch::default(), Vec::new());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let piece = input.pieces().get(number);
                let Some(&piece) = piece.filter(|_| !is_over.load(Ordering::Relaxed)) else {
                    return Ok(loaded);
                };
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
        };
        let threads_count = shape.readers_count;
        let loaded = threads::together("outcore-table-load", threads_count, work)?;
        let loaded: Vec<Vec<Loaded>> = loaded.into_iter().collect::<Result<_>>()?;
        if is_over.into_inner() {
            return Ok(None);
        }
        let mut loaded: Vec<Loaded> = loaded.into_iter().flatten().collect();
        loaded.sort_unstable_by_key(|chunk| chunk.piece);
        let mut right = Right {
            plan,
            chunks: Vec::with_capacity(loaded.len()),
            entries: Vec::with_capacity(loaded.iter().map(|chunk| chunk.entries.len()).sum()),
            next: Vec::new(),
            tables: Vec::new(),
            batch_bytes: shape.batch_bytes,
            _held: held,
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

    /// Makes the tables, each thread one of them: from the last row to the first, so that links lead to later rows.
    fn link(&mut self, threads_count: usize) -> Result<()> {
        let count = self.entries.len();
        self.next.resize_with(count, || AtomicU32::new(NONE));
        let this = &*self;
        let work = |thread: usize| -> Result<HashTable<u32>> {
            let mut table = HashTable::with_capacity(count / threads_count);
            for (number, entry) in this.entries.iter().enumerate().rev() {
                if part_of(entry.hash, threads_count) != thread {
                    continue;
                }
                let key = this.key(number as u32)?;
                let is_same = |other: &u32| this.is_at(*other, entry.hash, key);
                match table.find_mut(entry.hash, is_same) {
                    Some(first) => {
                        this.next[number].store(*first, Ordering::Relaxed);
                        *first = number as u32;
                    }
                    None => {
                        let hash_of = |other: &u32| this.entries[*other as usize].hash;
                        table.insert_unique(entry.hash, number as u32, hash_of);
                    }
                }
            }
            Ok(table)
        };
        let tables = threads::together("outcore-table-load", threads_count, work)?;
        self.tables = tables.into_iter().collect::<Result<_>>()?;
        Ok(())
    }

    fn row(&self, number: u32) -> &[u8] {
        let entry = &self.entries[number as usize];
        &self.chunks[entry.chunk as usize][entry.from as usize..entry.to as usize]
    }

    fn key(&self, number: u32) -> Result<&[u8]> {
        Ok(self.plan.read(self.row(number))?.key)
    }

    fn is_at(&self, number: u32, hash: u64, key: &[u8]) -> bool {
        self.entries[number as usize].hash == hash
            && self.key(number).is_ok_and(|other| other == key)
    }

    /// The first row of a key.
    fn first(&self, key: &[u8]) -> Option<u32> {
        let hash = XxHash3_64::oneshot(key);
        let table = &self.tables[part_of(hash, self.tables.len())];
        let is_same = |other: &u32| self.is_at(*other, hash, key);
        table.find(hash, is_same).copied()
    }

    /// The batch of these left rows, each with a right one.
    fn paired(&self, left: &RecordBatch, pairs: &Pairs<'_>) -> Result<RecordBatch> {
        let places = UInt32Array::from_iter_values(pairs.left.iter().copied());
        let left = take_record_batch(left, &places);
        let left = left.map_err(|error| fault::arrow(JOIN, &error))?;
        let right = self.plan.sides[Which::Right as usize]
            .codec
            .decode(&pairs.right)?;
        self.together(&left, &right)
    }

    fn together(&self, left: &RecordBatch, right: &RecordBatch) -> Result<RecordBatch> {
        let is_left = || BooleanArray::from(vec![true; left.num_rows()]);
        self.plan.put_together((left, right), is_left)
    }
}

/// Which table has a hash; by other bits than those by which a table places it.
fn part_of(hash: u64, parts: usize) -> usize {
    (hash >> 32) as u32 as usize % parts
}

impl Loaded {
    fn held_bytes(&self) -> u64 {
        self.bytes.capacity() as u64 + self.entries.capacity() as u64 * ROW_BYTES
    }

    /// Keeps rows, but for those that are equal to nothing; whether there is room for their places.
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
            });
        }
        Ok(true)
    }
}

/// Rows that become a batch.
#[derive(Default)]
struct Pairs<'r> {
    left: Vec<u32>,
    right: Vec<&'r [u8]>,
    bytes: u64,
}

impl<'r> Pairs<'r> {
    fn push(&mut self, left: (usize, usize), right: &'r [u8]) {
        let (row, row_bytes) = left;
        self.left.push(row as u32);
        self.right.push(right);
        self.bytes += (row_bytes + right.len()) as u64;
    }

    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
        self.bytes = 0;
    }
}

impl Change for Right<'_> {
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
        let first = |row: usize| keys.key(row).and_then(|key| self.first(key));
        if let JoinKind::Semi | JoinKind::Anti = self.plan.kind {
            let is_semi = self.plan.kind == JoinKind::Semi;
            let chosen = (0..batch.num_rows()).map(|row| Some(first(row).is_some() == is_semi));
            let left = filtered(&left, &chosen.collect())?;
            return write(&self.together(&left, &left.slice(0, 0))?);
        }
        let keeps_left = self.plan.sides[Which::Left as usize].is_kept;
        let nothing = self.plan.sides[Which::Right as usize].nothing();
        let lens_bytes = self.plan.sides[Which::Left as usize].codec.measure(&left)?;
        let mut pairs = Pairs::default();
        for (row, &len_bytes) in lens_bytes.iter().enumerate() {
            let mut partner = first(row).unwrap_or(NONE);
            if partner == NONE && keeps_left {
                pairs.push((row, len_bytes), nothing);
            }
            while partner != NONE {
                if pairs.left.len() == ROWS_AT_ONCE || pairs.bytes >= self.batch_bytes {
                    write(&self.paired(&left, &pairs)?)?;
                    pairs.clear();
                }
                pairs.push((row, len_bytes), self.row(partner));
                partner = self.next[partner as usize].load(Ordering::Relaxed);
            }
        }
        match pairs.left.is_empty() {
            true => Ok(()),
            false => write(&self.paired(&left, &pairs)?),
        }
    }
}
