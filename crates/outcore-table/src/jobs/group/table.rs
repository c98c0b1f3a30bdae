//! A hash table that numbers distinct byte strings in the order of their insertion.
//!
//! Bounds: the strings, and about 32 bytes for each.

use hashbrown::HashTable;
use twox_hash::XxHash3_64;

/// Approximate memory of a string in addition to its bytes.
const ENTRY_BYTES: usize = 32;

/// A string.
struct Entry {
    /// Its end in the bytes of all.
    end: usize,
    hash: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct KeyTable {
    table: HashTable<u32>,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl KeyTable {
    /// Returns the number of `key`, and whether it is new.
    pub(super) fn number_of(&mut self, key: &[u8]) -> (u32, bool) {
        let hash = XxHash3_64::oneshot(key);
        let (bytes, entries) = (&self.bytes, &self.entries);
        let is_same = |number: &u32| {
            entries[*number as usize].hash == hash
                && key_at(bytes, entries, *number as usize) == key
        };
        if let Some(number) = self.table.find(hash, is_same) {
            return (*number, false);
        }
        let number = self.entries.len() as u32;
        self.bytes.extend_from_slice(key);
        self.entries.push(Entry {
            end: self.bytes.len(),
            hash,
        });
        let entries = &self.entries;
        self.table
            .insert_unique(hash, number, |number| entries[*number as usize].hash);
        (number, true)
    }

    /// Adds `key` without a lookup, for tables that are only iterated.
    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.entries.push(Entry {
            end: self.bytes.len(),
            hash: 0,
        });
    }

    /// Returns the string with a number.
    pub(super) fn key(&self, number: usize) -> &[u8] {
        key_at(&self.bytes, &self.entries, number)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Its approximate memory.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_BYTES
    }

    /// Removes all strings, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.bytes.clear();
        self.entries.clear();
    }
}

fn key_at<'b>(bytes: &'b [u8], entries: &[Entry], number: usize) -> &'b [u8] {
    let from = match number {
        0 => 0,
        _ => entries[number - 1].end,
    };
    &bytes[from..entries[number].end]
}
