//! A table of distinct lines with their counts; lines that are counted here are never sorted.
//!
//! Model: software-pipelined prefetching (Chen, Ailamaki, Gibbons and Mowry, "Improving hash join
//! performance through prefetching", ICDE 2004).
//!
//! Contract: a worker's own [`Table`] takes the lines that it contains or has room for and returns
//! all others. Once it is full it continues to count the lines that it contains, so that frequent
//! lines, which it probably met early, stay off the drives. The lines are stored in one arena, each
//! with its terminator after its count. The slots of an open-addressing table hold 32 bits of the
//! line's hash and its place. A line is hashed; some lines later its slot is read; after the same
//! number of lines its bytes are compared. Each step prefetches the memory of the next one, so that
//! cache misses overlap.
//!
//! Bounds: exactly the given bytes, touched as far as they are needed.
//!
//! N.B. processing all slots of a batch of 64 lines, then all lines, takes 1.2 times as long as
//! going step by step. Aligning lines so that they never cross a cache line takes more memory, and
//! finding the ends of a batch without branches first gains nothing (docs/decisions/0022).

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::LineSortOptions;
use super::bucket::{COUNT_BYTES, FromTable, LineBucket};
use super::context::Context;
use super::line_bytes::{hash, is_same};
use super::plan::TABLES;
use super::refs::Ref;
use super::splitters::LineSplitters;
use crate::partition::kernel::{FETCH_AHEAD, copy_item, fetch};
use crate::read::json::is_blank;
use crate::read::terminators::Terminators;
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Budget, Buf, Pool, prefetch};

/// Lines that are looked up together; at both ends of the batch fewer steps overlap.
const BATCH: usize = 256;
/// Lines between the steps of a look-up.
const AHEAD: usize = 8;
/// Lines begin at multiples of this.
const UNIT_BYTES: usize = 8;
/// Largest arena in bytes: places have 32 bits.
const ARENA_BYTES_MAX: usize = (u32::MAX / 2) as usize;
/// Slots per line, times 2.
const SLOTS_A_LINE_HALVES: usize = 3;
/// Lines that are routed to their buckets together.
const GROUP_BATCH: usize = 512;

/// A worker's distinct lines.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// `None` in a table that takes nothing.
    entries: Option<Entries>,
    /// Whether blank lines are skipped.
    drops_blanks: bool,
    /// Lines counted.
    pub(super) lines: u64,
    /// Lines of the last batch that did not fit.
    rest: Vec<u8>,
}

/// The room of a table.
#[derive(Debug)]
struct Entries {
    terminator: u8,
    /// One word per slot. Upper half: upper half of the hash. Lower half: unit of the arena, plus
    /// one; 0 if empty.
    slots: Buf,
    arena: Buf,
    /// Bytes of the arena in use.
    arena_bytes: usize,
    count: usize,
    is_full: bool,
}

impl Table {
    /// A table of `bytes` of the budget for lines that end with `terminator`; with less than two
    /// blocks it takes nothing.
    pub(super) fn new(budget: &Budget, bytes: u64, options: LineSortOptions) -> Result<Self> {
        let terminator = options.terminator;
        let blocks = bytes as usize / BLOCK_BYTES;
        if blocks < 2 {
            return Ok(Table::default());
        }
        let slots_bytes = (1usize << (blocks / 4).max(1).ilog2()) * BLOCK_BYTES;
        let arena_bytes = (blocks * BLOCK_BYTES - slots_bytes).min(ARENA_BYTES_MAX);
        // Slots and arena are separate, because the slots are returned earlier.
        let map = |bytes| Pool::new(budget, TABLES, bytes, 1).map(|pool| pool.take());
        let (slots, arena) = (map(slots_bytes)?, map(arena_bytes)?);
        let entries = slots.zip(arena).map(|(slots, arena)| Entries {
            terminator,
            slots,
            arena,
            arena_bytes: 0,
            count: 0,
            is_full: false,
        });
        Ok(Table {
            entries,
            drops_blanks: options.drops_blanks,
            ..Table::default()
        })
    }

    /// Takes lines from `bytes[*from..]`, moves `from` past them, and returns those that do not
    /// fit, with their terminators.
    pub(super) fn take<'b>(&'b mut self, bytes: &'b [u8], from: &mut usize) -> &'b [u8] {
        let begin = *from;
        let Some(entries) = &mut self.entries else {
            *from = bytes.len();
            return &bytes[begin..];
        };
        let mut lines = [Span::default(); BATCH];
        let mut count = 0;
        for end in Terminators::of(entries.terminator, &bytes[begin..]) {
            let end = begin + end + 1;
            let line = Span {
                at: *from,
                len_bytes: end - *from,
            };
            *from = end;
            if self.drops_blanks && is_blank(&bytes[line.at..end - 1]) {
                continue;
            }
            lines[count] = line;
            count += 1;
            if count == BATCH {
                break;
            }
        }
        self.rest.clear();
        self.lines += entries.batch(bytes, &lines[..count], &mut self.rest);
        &self.rest
    }
}

/// The place and length of a line, with its terminator.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    at: usize,
    len_bytes: usize,
}

impl Entries {
    /// Counts lines, each with its terminator, and returns how many; appends those that do not fit
    /// to `rest`.
    fn batch(&mut self, bytes: &[u8], lines: &[Span], rest: &mut Vec<u8>) -> u64 {
        let mut hashes = [0u64; BATCH];
        // The probable place of each line.
        let mut likely = [0u64; BATCH];
        let mut counted = 0;
        for step in 0..lines.len() + 2 * AHEAD {
            if let Some(&Span { at, len_bytes }) = lines.get(step) {
                hashes[step] = hash(bytes, at, len_bytes);
                self.fetch_slot(hashes[step]);
            }
            let index = step.wrapping_sub(AHEAD);
            if let Some(&Span { len_bytes, .. }) = lines.get(index) {
                likely[index] = self.likely_slot(hashes[index]);
                if likely[index] != 0 {
                    self.fetch_line(place_of(likely[index]), len_bytes);
                }
            }
            let index = step.wrapping_sub(2 * AHEAD);
            if let Some(&Span { at, len_bytes }) = lines.get(index) {
                let is_found = likely[index] != 0 && {
                    let place = place_of(likely[index]);
                    self.is_line_at(place, bytes, at, len_bytes) && self.count(place)
                };
                if is_found || self.look_further(hashes[index], bytes, at, len_bytes) {
                    counted += 1;
                } else {
                    rest.extend_from_slice(&bytes[at..at + len_bytes]);
                }
            }
        }
        counted
    }

    /// Prefetches the first slot of the search for a line.
    #[inline(always)]
    fn fetch_slot(&self, hash: u64) {
        let slots: &[u64] = bytemuck::cast_slice(&self.slots);
        prefetch(&slots[hash as usize & (slots.len() - 1)]);
    }

    /// The first slot that is empty or has the upper half of `hash`.
    #[inline(always)]
    fn likely_slot(&self, hash: u64) -> u64 {
        let slots: &[u64] = bytemuck::cast_slice(&self.slots);
        let mask = slots.len() - 1;
        let mut index = hash as usize & mask;
        while slots[index] != 0 && slots[index] >> 32 != hash >> 32 {
            index = (index + 1) & mask;
        }
        slots[index]
    }

    /// Prefetches the count and the line at `place`.
    #[inline(always)]
    fn fetch_line(&self, place: usize, len_bytes: usize) {
        fetch(&self.arena, place, COUNT_BYTES + len_bytes);
        // Most lines cross a cache line.
        if let Some(end) = self.arena.get(place + COUNT_BYTES + len_bytes) {
            prefetch(end);
        }
    }

    /// Terminators are also compared, so lengths need not be.
    #[inline(always)]
    fn is_line_at(&self, place: usize, bytes: &[u8], at: usize, len_bytes: usize) -> bool {
        // A longer line with the same half of its hash may extend beyond the arena.
        place + COUNT_BYTES + len_bytes <= self.arena.len()
            && is_same(bytes, at, &self.arena, place + COUNT_BYTES, len_bytes)
    }

    /// Increments the count of the line at `place`.
    #[inline(always)]
    fn count(&mut self, place: usize) -> bool {
        let count = count_at(&self.arena, place) + 1;
        self.arena[place..place + COUNT_BYTES].copy_from_slice(&count.to_ne_bytes());
        true
    }

    /// Searches a line slot by slot, or adds it; false if there is no room.
    fn look_further(&mut self, hash: u64, bytes: &[u8], at: usize, len_bytes: usize) -> bool {
        let slots: &[u64] = bytemuck::cast_slice(&self.slots);
        let (slot_count, mask) = (slots.len(), slots.len() - 1);
        let mut index = hash as usize & mask;
        while slots[index] != 0 {
            let (slot, place) = (slots[index], place_of(slots[index]));
            if slot >> 32 == hash >> 32 && self.is_line_at(place, bytes, at, len_bytes) {
                return self.count(place);
            }
            index = (index + 1) & mask;
        }
        let place = self.arena_bytes;
        let end = place + COUNT_BYTES + len_bytes;
        if end > self.arena.len() || self.count * SLOTS_A_LINE_HALVES / 2 >= slot_count {
            self.is_full = true;
        }
        // A full table takes no further line, because each line has only one place.
        if self.is_full {
            return false;
        }
        self.arena[place..place + COUNT_BYTES].copy_from_slice(&1u64.to_ne_bytes());
        self.arena[place + COUNT_BYTES..end].copy_from_slice(&bytes[at..at + len_bytes]);
        self.arena_bytes = end.next_multiple_of(UNIT_BYTES);
        let slots: &mut [u64] = bytemuck::cast_slice_mut(&mut self.slots);
        slots[index] = (hash >> 32 << 32) | (place / UNIT_BYTES + 1) as u64;
        self.count += 1;
        true
    }

    /// References to all lines, in the order of storage.
    fn refs(&self) -> Vec<Ref> {
        let mut refs = Vec::with_capacity(self.count);
        let mut place = 0;
        while place < self.arena_bytes {
            let at = place + COUNT_BYTES;
            let rest = &self.arena[at..self.arena_bytes];
            let len = Terminators::of(self.terminator, rest)
                .next()
                .unwrap_or(rest.len());
            refs.push(Ref::to(at, at + len));
            place = (at + len + 1).next_multiple_of(UNIT_BYTES);
        }
        refs
    }
}

fn count_at(arena: &[u8], place: usize) -> u64 {
    let bytes = arena[place..].first_chunk();
    bytes.map_or(0, |&bytes| u64::from_ne_bytes(bytes))
}

/// The distinct lines of a table.
#[derive(Debug)]
struct TableLines {
    arena: Buf,
    /// The lines of a bucket are adjacent, in the order of storage.
    refs: Vec<Ref>,
}

/// The part of a table's lines that belongs to one bucket.
#[derive(Debug, Default, Clone)]
struct Share {
    lines: usize,
    /// Bytes of the lines of this part, with terminators.
    bytes: u64,
    /// Number of occurrences of the lines of this part.
    met: u64,
    refs: Range<usize>,
}

impl TableLines {
    /// The lines of a table, if it takes any; this frees the slots' memory.
    fn of(table: Table) -> Option<Self> {
        let entries = table.entries?;
        let refs = entries.refs();
        let Entries { arena, .. } = entries;
        Some(TableLines { arena, refs })
    }

    /// Number of occurrences of a line.
    fn count_of(&self, r: &Ref) -> u64 {
        count_at(&self.arena, r.at as usize - COUNT_BYTES)
    }

    /// Groups some of the lines by bucket; returns the share of each bucket.
    fn group(&mut self, range: Range<usize>, splitters: &LineSplitters) -> Vec<Share> {
        let ungrouped = self.refs[range.clone()].to_vec();
        let mut buckets = vec![0u16; ungrouped.len()];
        let mut words = Vec::with_capacity(GROUP_BATCH);
        let batches = ungrouped.chunks(GROUP_BATCH);
        for (refs, buckets) in batches.zip(buckets.chunks_mut(GROUP_BATCH)) {
            splitters.classify(&self.arena, refs, &mut words, buckets);
        }
        let mut shares = vec![Share::default(); splitters.bucket_count()];
        for (r, &bucket) in ungrouped.iter().zip(&buckets) {
            let share = &mut shares[usize::from(bucket)];
            share.lines += 1;
            share.bytes += u64::from(r.len_bytes) + 1;
            share.met += self.count_of(r);
        }
        let mut next = range.start;
        for share in &mut shares {
            share.refs = next..next;
            next += share.lines;
        }
        for (r, &bucket) in ungrouped.iter().zip(&buckets) {
            let refs = &mut shares[usize::from(bucket)].refs;
            self.refs[refs.end] = *r;
            refs.end += 1;
        }
        shares
    }
}

/// The tables of all workers.
#[derive(Debug)]
pub(super) struct Tables(Vec<TableLines>);

impl Tables {
    /// Gives each bucket the lines of the workers' tables that belong to it; if a bucket is only
    /// counted, adds them to its count.
    pub(super) fn assign(
        context: &Context<'_>,
        tables: Vec<Table>,
        splitters: &LineSplitters,
        buckets: &mut [LineBucket],
    ) -> Result<Self> {
        let cells: Vec<Mutex<Option<Table>>> = tables
            .into_iter()
            .map(|table| Mutex::new(Some(table)))
            .collect();
        let grouped = context.on_all_threads(|thread| {
            let table = cells.get(thread).and_then(|cell| {
                let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
                cell.take()
            });
            let lines = table.and_then(TableLines::of);
            Ok(lines.map(|mut lines| {
                let shares = lines.group(0..lines.refs.len(), splitters);
                (lines, shares)
            }))
        })?;
        let mut tables = Vec::with_capacity(grouped.len());
        for (lines, shares) in grouped.into_iter().flatten() {
            give(tables.len(), shares, buckets);
            tables.push(lines);
        }
        Ok(Tables(tables))
    }

    /// Like `assign`, for the lines of a bucket that has been split.
    pub(super) fn reassign(
        &mut self,
        splitters: &LineSplitters,
        lines: &[FromTable],
        buckets: &mut [LineBucket],
    ) {
        for FromTable { table, refs } in lines {
            let shares = self.0[*table].group(refs.clone(), splitters);
            give(*table, shares, buckets);
        }
    }

    /// Copies the lines `from` a table to `area[at..]`, each with its terminator and, if
    /// `has_counts`, its number of occurrences after that; appends their references. Returns the
    /// end of the last.
    ///
    /// # Panics
    /// If there is no room for the lines.
    pub(super) fn copy(
        &self,
        from: &FromTable,
        area: &mut [u8],
        mut at: usize,
        has_counts: bool,
        refs: &mut Vec<Ref>,
    ) -> usize {
        let table = &self.0[from.table];
        let lines = &table.refs[from.refs.clone()];
        for (index, r) in lines.iter().enumerate() {
            if let Some(ahead) = lines.get(index + FETCH_AHEAD) {
                ahead.fetch(&table.arena);
            }
            let item_bytes = r.len_bytes as usize + 1;
            let is_copied = copy_item(&table.arena, r.at as usize, item_bytes, &mut area[at..]);
            assert!(
                is_copied,
                "a bucket's area has room for its lines from tables"
            );
            refs.push(Ref {
                at: at as u32,
                ..*r
            });
            at += item_bytes;
            if has_counts {
                area[at..at + COUNT_BYTES].copy_from_slice(&table.count_of(r).to_ne_bytes());
                at += COUNT_BYTES;
            }
        }
        at
    }
}

/// Number of occurrences of a line that was copied to an area.
pub(super) fn met(area: &[u8], line: &Ref) -> u64 {
    count_at(area, (line.at + line.len_bytes) as usize + 1)
}

/// Gives each bucket its share of a table's lines.
fn give(table: usize, shares: Vec<Share>, buckets: &mut [LineBucket]) {
    for (share, bucket) in shares.into_iter().zip(buckets) {
        if share.lines == 0 {
            continue;
        }
        bucket.kind.bytes += share.bytes;
        if bucket.copies_of.is_some() {
            bucket.counts.items += share.met;
            continue;
        }
        bucket.kind.lines += share.lines as u64;
        let refs = share.refs;
        bucket.kind.from.push(FromTable { table, refs });
    }
}

fn place_of(slot: u64) -> usize {
    (slot as u32 as usize - 1) * UNIT_BYTES
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_line_is_counted_or_given_back(
            lines in prop::collection::vec("[a-c]{0,5}|[a-z]{30}", 0..1500),
            bytes in prop_oneof![Just(0u64), Just(8192), Just(1 << 20)],
        ) {
            let mut text = Vec::new();
            let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            for line in &lines {
                text.extend_from_slice(line.as_bytes());
                text.push(b'\n');
                *expected.entry(line.clone().into_bytes()).or_default() += 1;
            }
            let budget = Budget::new(bytes);
            let mut table = Table::new(&budget, bytes, LineSortOptions::default()).unwrap();
            let mut got: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let (mut from, mut given_back) = (0, 0);
            while from < text.len() {
                let rest = table.take(&text, &mut from);
                for line in rest.split_inclusive(|&byte| byte == b'\n') {
                    *got.entry(line[..line.len() - 1].to_vec()).or_default() += 1;
                    given_back += 1;
                }
            }
            prop_assert_eq!(table.lines + given_back, lines.len() as u64);
            let is_full = table.entries.as_ref().is_some_and(|entries| entries.is_full);
            prop_assert_eq!(bytes > 0 && given_back > 0, is_full);
            if let Some(found) = TableLines::of(table) {
                for r in &found.refs {
                    *got.entry(r.bytes(&found.arena).to_vec()).or_default() += found.count_of(r);
                }
            }
            prop_assert_eq!(got, expected);
        }
    }
}
