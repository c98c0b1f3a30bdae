//! A table of distinct lines with their counts: what is counted here is never sorted.
//!
//! Contract: a worker's own [`Table`] takes the lines that it has or has room for and gives back all
//! others. Once it is full it goes on counting those that it has, so that frequent lines, which it
//! is likely to have met early, stay off the drives. The lines lie in one arena, each after its
//! count; the slots of an open-addressing table hold 32 bits of the line's hash (xxh3) and where it
//! is. A batch of lines is hashed, then looked up step by step, so that cache misses overlap.
//!
//! Bounds: exactly the bytes that it is given, touched as far as they are needed.
//!
//! N.B. huge pages for the slots and the arena save nothing, nor does asking for the end of each line beside its front.

use std::sync::{Mutex, PoisonError};

use twox_hash::xxhash3_64::Hasher;

use super::bucket::{FromTable, LineBucket};
use super::context::Context;
use super::refs::{AnyTie, Ref, sort_refs};
use super::splitters::LineSplitters;
use crate::read::terminators::Terminators;
use outcore_io::Result;

/// Lines that are looked up side by side.
const BATCH: usize = 64;
/// Bytes in front of each line: its count and its length.
const HEAD_BYTES: usize = 12;
/// Lines begin at multiples of this.
const UNIT_BYTES: usize = 8;
/// Bytes of an arena at most: places have 32 bits.
const ARENA_BYTES_MAX: usize = (u32::MAX / 2) as usize;
/// Slots for a line, over 2.
const SLOTS_A_LINE_HALVES: usize = 3;

/// A worker's distinct lines.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Upper half: upper half of the hash. Lower half: unit of the arena, plus one; 0 if empty.
    slots: Vec<u64>,
    arena: Vec<u8>,
    arena_bytes_max: usize,
    entries: usize,
    is_full: bool,
    /// Lines counted.
    pub(super) lines: u64,
    /// Lines of the last batch that found no place.
    rest: Vec<u8>,
}

impl Table {
    /// A table of `bytes`; one of none takes nothing.
    pub(super) fn new(bytes: u64) -> Self {
        if bytes == 0 {
            return Table::default();
        }
        let slots_bytes = (bytes / 4).max(1024);
        let slots = 1usize << (slots_bytes / 8).ilog2();
        let arena_bytes_max = (bytes as usize)
            .saturating_sub(8 * slots)
            .min(ARENA_BYTES_MAX);
        Table {
            slots: vec![0; slots],
            arena: Vec::with_capacity(arena_bytes_max),
            arena_bytes_max,
            ..Table::default()
        }
    }

    /// Takes lines from `bytes[*from..]`, moves `from` past them, and gives back, with their
    /// terminators, those for which there is no place.
    pub(super) fn take<'b>(
        &'b mut self,
        bytes: &'b [u8],
        terminator: u8,
        from: &mut usize,
    ) -> &'b [u8] {
        let begin = *from;
        if self.slots.is_empty() {
            *from = bytes.len();
            return &bytes[begin..];
        }
        let mut lines = [(0usize, 0usize); BATCH];
        let mut count = 0;
        for end in Terminators::of(terminator, &bytes[begin..]) {
            lines[count] = (*from, begin + end);
            *from = begin + end + 1;
            count += 1;
            if count == BATCH {
                break;
            }
        }
        self.rest.clear();
        self.batch(bytes, &lines[..count]);
        &self.rest
    }

    fn batch(&mut self, bytes: &[u8], lines: &[(usize, usize)]) {
        let mask = self.slots.len() - 1;
        let mut hashes = [0u64; BATCH];
        for (hash, &(at, end)) in hashes.iter_mut().zip(lines) {
            *hash = Hasher::oneshot(&bytes[at..end]);
        }
        let mut slots = [0u64; BATCH];
        for (slot, hash) in slots.iter_mut().zip(&hashes[..lines.len()]) {
            *slot = self.slots[*hash as usize & mask];
        }
        // A first look at where each line most likely is.
        let mut lens = [u32::MAX; BATCH];
        for (index, &slot) in slots[..lines.len()].iter().enumerate() {
            if slot != 0 && slot >> 32 == hashes[index] >> 32 {
                lens[index] = self.len_at(place_of(slot));
            }
        }
        for (index, &(at, end)) in lines.iter().enumerate() {
            let line = &bytes[at..end];
            let is_found = lens[index] as usize == line.len() && {
                let place = place_of(slots[index]);
                self.is_line_at(place, line) && self.count(place)
            };
            if !is_found && !self.look_further(hashes[index], line) {
                self.rest.extend_from_slice(&bytes[at..=end]);
                continue;
            }
            self.lines += 1;
        }
    }

    fn len_at(&self, place: usize) -> u32 {
        let bytes = self.arena[place + 8..].first_chunk();
        bytes.map_or(0, |&bytes| u32::from_ne_bytes(bytes))
    }

    fn count_at(&self, place: usize) -> u64 {
        let bytes = self.arena[place..].first_chunk();
        bytes.map_or(0, |&bytes| u64::from_ne_bytes(bytes))
    }

    fn is_line_at(&self, place: usize, line: &[u8]) -> bool {
        let from = place + HEAD_BYTES;
        self.arena.get(from..from + line.len()) == Some(line)
    }

    /// Counts the line at `place` once more.
    fn count(&mut self, place: usize) -> bool {
        let count = self.count_at(place) + 1;
        self.arena[place..place + 8].copy_from_slice(&count.to_ne_bytes());
        true
    }

    /// Looks for a line slot by slot, or gives it a place; false if there is none.
    fn look_further(&mut self, hash: u64, line: &[u8]) -> bool {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index];
            if slot == 0 {
                break;
            }
            let place = place_of(slot);
            if slot >> 32 == hash >> 32
                && self.len_at(place) as usize == line.len()
                && self.is_line_at(place, line)
            {
                return self.count(place);
            }
            index = (index + 1) & mask;
        }
        let place = self.arena.len();
        let entry_bytes = (HEAD_BYTES + line.len()).next_multiple_of(UNIT_BYTES);
        let is_full = place + entry_bytes > self.arena_bytes_max
            || self.entries * SLOTS_A_LINE_HALVES / 2 >= self.slots.len();
        if self.is_full || is_full {
            // What it has by now is all that it will have: lines have one place each.
            self.is_full = true;
            return false;
        }
        self.arena.extend_from_slice(&1u64.to_ne_bytes());
        self.arena
            .extend_from_slice(&(line.len() as u32).to_ne_bytes());
        self.arena.extend_from_slice(line);
        self.arena.resize(place + entry_bytes, 0);
        self.slots[index] = hash >> 32 << 32 | (place / UNIT_BYTES + 1) as u64;
        self.entries += 1;
        true
    }

    /// The lines, with references to them in order; the slots' memory is free then.
    fn into_lines(mut self) -> TableLines {
        let mut refs = Vec::with_capacity(self.entries);
        for slot in std::mem::take(&mut self.slots) {
            if slot != 0 {
                let place = place_of(slot);
                let at = place + HEAD_BYTES;
                refs.push(Ref::to(at, at + self.len_at(place) as usize));
            }
        }
        sort_refs(&self.arena, &mut refs, 0, &AnyTie);
        TableLines {
            arena: self.arena,
            refs,
            lines: self.lines,
        }
    }
}

/// The distinct lines of a table, in order.
#[derive(Debug, Default)]
struct TableLines {
    arena: Vec<u8>,
    refs: Vec<Ref>,
    lines: u64,
}

/// The tables of all workers.
#[derive(Debug, Default)]
pub(super) struct Tables(Vec<TableLines>);

/// Puts the lines of each table in order, side by side.
pub(super) fn sort_tables(context: &Context<'_>, tables: Vec<Table>) -> Result<Tables> {
    let cells: Vec<Mutex<Option<Table>>> = tables
        .into_iter()
        .map(|table| Mutex::new(Some(table)))
        .collect();
    let sorted = context.on_all_threads(|thread| {
        let table = cells.get(thread).and_then(|cell| {
            let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
            cell.take()
        });
        Ok(table.map_or_else(TableLines::default, Table::into_lines))
    })?;
    Ok(Tables(sorted))
}

impl Tables {
    /// Lines that were counted in all of them.
    pub(super) fn lines(&self) -> u64 {
        self.0.iter().map(|table| table.lines).sum()
    }

    /// Tells each bucket which lines of the tables belong to it; those of one that is only counted
    /// are added to its count.
    pub(super) fn assign(&self, splitters: &LineSplitters, buckets: &mut [LineBucket]) {
        let all = self.0.iter().enumerate();
        let whole: Vec<FromTable> = all
            .map(|(table, lines)| FromTable {
                table,
                refs: 0..lines.refs.len(),
            })
            .collect();
        self.reassign(splitters, &whole, buckets);
    }

    /// The same for lines that belonged to a bucket that has been split.
    pub(super) fn reassign(
        &self,
        splitters: &LineSplitters,
        lines: &[FromTable],
        buckets: &mut [LineBucket],
    ) {
        let mut words = Vec::new();
        let mut found = Vec::new();
        for whole in lines {
            let (number, table) = (whole.table, &self.0[whole.table]);
            let refs = &table.refs[whole.refs.clone()];
            found.resize(refs.len(), 0u16);
            splitters.classify(&table.arena, refs, &mut words, &mut found);
            let mut from = whole.refs.start;
            for same in found.chunk_by(|a, b| a == b) {
                let refs = from..from + same.len();
                from = refs.end;
                let bucket = &mut buckets[usize::from(same[0])];
                for r in &table.refs[refs.clone()] {
                    bucket.kind.bytes += u64::from(r.len_bytes) + 1;
                    if bucket.copies_of.is_some() {
                        bucket.counts.items += table.count_of(r);
                    }
                }
                if bucket.copies_of.is_none() {
                    bucket.kind.lines += refs.len() as u64;
                    bucket.kind.from.push(FromTable {
                        table: number,
                        refs,
                    });
                }
            }
        }
    }

    /// Copies the lines `from` a table to `area[at..]`, each with a terminator; notes where each is
    /// and how often it was met. Gives where the last ends.
    pub(super) fn copy(
        &self,
        from: &FromTable,
        terminator: u8,
        area: &mut [u8],
        mut at: usize,
        met: &mut Vec<(u32, u64)>,
        refs: &mut Vec<Ref>,
    ) -> usize {
        let table = &self.0[from.table];
        for r in &table.refs[from.refs.clone()] {
            let line = r.bytes(&table.arena);
            area[at..at + line.len()].copy_from_slice(line);
            area[at + line.len()] = terminator;
            met.push((at as u32, table.count_of(r)));
            refs.push(Ref {
                at: at as u32,
                ..*r
            });
            at += line.len() + 1;
        }
        at
    }
}

impl TableLines {
    /// How often a line was met.
    fn count_of(&self, r: &Ref) -> u64 {
        let bytes = self.arena[r.at as usize - HEAD_BYTES..].first_chunk();
        bytes.map_or(0, |&bytes| u64::from_ne_bytes(bytes))
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
            bytes in prop_oneof![Just(0u64), Just(4096), Just(1 << 20)],
        ) {
            let mut text = Vec::new();
            let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            for line in &lines {
                text.extend_from_slice(line.as_bytes());
                text.push(b'\n');
                *expected.entry(line.clone().into_bytes()).or_default() += 1;
            }
            let mut table = Table::new(bytes);
            let mut got: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let (mut from, mut given_back) = (0, 0);
            while from < text.len() {
                let rest = table.take(&text, b'\n', &mut from);
                for line in rest.split_inclusive(|&byte| byte == b'\n') {
                    *got.entry(line[..line.len() - 1].to_vec()).or_default() += 1;
                    given_back += 1;
                }
            }
            prop_assert_eq!(table.lines + given_back, lines.len() as u64);
            prop_assert_eq!(bytes > 0 && given_back > 0, table.is_full);
            let found = table.into_lines();
            for r in &found.refs {
                *got.entry(r.bytes(&found.arena).to_vec()).or_default() += found.count_of(r);
            }
            prop_assert_eq!(got, expected);
        }
    }
}
