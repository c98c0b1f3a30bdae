//! The sorted runs of a view: where they lie, what their blocks hold, and how they are checked.
//!
//! Layout of a run, from a 4 KiB border of its file: its records, one after another; zeros up to the
//! next 4 KiB border; then its *index*, an entry a block: the first 16 bytes of the order string of
//! the block's first record as a big-endian integer, and the block's XXH3, both little-endian
//! ([`ENTRY_BYTES`]). A block is a fixed number of records, the last one of a run excepted.
//!
//! Contract: a [`RunSet`] is what is known of all runs of a view, in the order that decides between
//! equal records. Its index is in memory; every block that is read is checked against it, seeded by
//! view, run and place, so that a block that rotted, or came from elsewhere, is named and never
//! merged. Memory: 24 bytes a block.

use std::sync::Arc;

use crate::checksum::{BlockPlace, block_checksum, bytes_checksum};
use crate::data::bare::BareOrder;
use crate::data::order::{Order, OrderOptions, TieBreak};
use crate::data::record::RecordFormat;
use crate::error::{Error, Kind, Result};
use crate::memory::{BLOCK_BYTES, Buf, block_ceil, block_floor};
use crate::volume::{Volume, VolumeFile};

/// Bytes of an index entry.
pub(super) const ENTRY_BYTES: usize = 24;
/// Blocks are at least so long, if records are not longer: a seek reads one or two of each run.
const BLOCK_BYTES_MIN: u64 = 16 << 10;
/// Blocks are at most so long, if records are not longer.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Blocks grow so that there are about so many.
pub(super) const BLOCKS_WANTED: u64 = 1 << 19;

/// How the records of a view are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOrder {
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys in the order of the input, not by the bytes of their records.
    pub stable: bool,
}

/// What all runs have in common.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) format: RecordFormat,
    pub(crate) view_order: ViewOrder,
    pub(crate) order: Order,
    pub(crate) bare: Option<BareOrder>,
    pub(crate) record_bytes: usize,
    /// Records of a block.
    pub(crate) block_records: u64,
    /// Seeds checksums; another one for each view ever made.
    pub(crate) id: u64,
}

impl Shape {
    pub(crate) fn new(
        format: &RecordFormat,
        view_order: ViewOrder,
        block_records: u64,
        id: u64,
    ) -> Self {
        let tie = match view_order.stable {
            true => TieBreak::Position,
            false => TieBreak::Bytes,
        };
        let options = OrderOptions {
            descending: view_order.descending,
            tie,
        };
        Shape {
            format: format.clone(),
            view_order,
            order: Order::new(format, options),
            bare: BareOrder::of(format, view_order.descending),
            record_bytes: format.record_bytes(),
            block_records,
            id,
        }
    }

    /// Bytes of a whole block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_records as usize * self.record_bytes
    }

    /// Blocks of a run of so many records.
    pub(crate) fn blocks_of(&self, records: u64) -> u64 {
        records.div_ceil(self.block_records)
    }

    /// Whether blocks begin at 4 KiB borders, so that nothing beside them is read with them.
    pub(crate) fn is_aligned(&self) -> bool {
        self.block_bytes().is_multiple_of(BLOCK_BYTES)
    }

    /// The first 16 bytes of a record's order string.
    pub(crate) fn prefix(&self, record: &[u8]) -> u128 {
        let second = match self.order.words() {
            0 | 1 => 0,
            _ => self.order.word(record, 1),
        };
        u128::from(self.order.word(record, 0)) << 64 | u128::from(second)
    }

    /// Whether equal prefixes mean equal order strings.
    pub(crate) fn is_whole_in_prefix(&self) -> bool {
        self.order.words() <= 2
    }

    /// Bytes of a run's file: records, padding, index.
    pub(crate) fn stored_bytes(&self, records: u64) -> u64 {
        block_ceil(records * self.record_bytes as u64)
            + block_ceil(self.blocks_of(records) * ENTRY_BYTES as u64)
    }
}

/// Records of a block for data of `data_bytes`: as short as an index of moderate size allows, and
/// beginning at 4 KiB borders where the record's size lets a block of moderate size do so.
pub(super) fn block_records(record_bytes: usize, data_bytes: u64) -> u64 {
    let record_bytes = record_bytes as u64;
    let wanted = (data_bytes / BLOCKS_WANTED)
        .next_power_of_two()
        .clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
    let step = BLOCK_BYTES as u64 / gcd(record_bytes, BLOCK_BYTES as u64);
    let records = (wanted / record_bytes).max(1);
    match step * record_bytes <= 8 * wanted {
        true => records.next_multiple_of(step),
        false => records,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

/// What is kept of each block of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) prefixes: Vec<u128>,
    pub(crate) checksums: Vec<u64>,
}

impl Index {
    /// The index of records in order, which begin block `first_block` of run `run`.
    pub(crate) fn add(&mut self, shape: &Shape, run: u32, records: &[u8]) {
        for block in records.chunks(shape.block_bytes()) {
            let place = place_of(shape, run, self.prefixes.len() as u64);
            self.prefixes.push(shape.prefix(block));
            self.checksums.push(block_checksum(place, block));
        }
    }

    /// Writes the entries to `out`, which is long enough, and zeros behind them.
    pub(crate) fn write_to(&self, out: &mut [u8]) {
        let (entries, padding) = out.split_at_mut(self.prefixes.len() * ENTRY_BYTES);
        let both = self.prefixes.iter().zip(&self.checksums);
        for (entry, (prefix, checksum)) in entries.chunks_exact_mut(ENTRY_BYTES).zip(both) {
            entry[..16].copy_from_slice(&prefix.to_le_bytes());
            entry[16..].copy_from_slice(&checksum.to_le_bytes());
        }
        padding.fill(0);
    }

    /// Adds entries as they were written.
    pub(crate) fn read_from(&mut self, entries: &[u8]) {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let (low, high) = (word(&entry[..8]), word(&entry[8..16]));
            self.prefixes.push(u128::from(high) << 64 | u128::from(low));
            self.checksums.push(word(&entry[16..]));
        }
    }

    /// Checksum of the whole index, kept in the manifest.
    pub(crate) fn checksum(&self) -> u64 {
        let mut bytes = vec![0; self.prefixes.len() * ENTRY_BYTES];
        self.write_to(&mut bytes);
        bytes_checksum(&bytes)
    }

    /// Memory that an index of so many blocks takes.
    pub(crate) fn memory_bytes(blocks: u64) -> u64 {
        blocks * ENTRY_BYTES as u64
    }
}

/// Where a block belongs, for its checksum.
fn place_of(shape: &Shape, run: u32, block: u64) -> BlockPlace {
    BlockPlace {
        drive: run,
        address_bytes: block * shape.block_bytes() as u64,
        run: shape.id,
    }
}

/// One sorted run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) file: VolumeFile,
    /// Its number in the view, which seeds its checksums.
    pub(crate) number: u32,
    /// Where it begins in its file; a 4 KiB border.
    pub(crate) base_bytes: u64,
    pub(crate) records: u64,
    pub(crate) index: Arc<Index>,
    /// Its records, as far as they are still in memory since they were sorted.
    pub(crate) resident: Option<Arc<Buf>>,
}

/// The runs of a view.
pub(crate) struct RunSet {
    pub(crate) volume: Arc<Volume>,
    pub(crate) shape: Shape,
    pub(crate) runs: Vec<Run>,
}

/// Neighbouring blocks of one run, and the read that brings them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) run: usize,
    pub(crate) first_block: u64,
    pub(crate) blocks: u64,
    /// Where the read starts in the file, and its length: 4 KiB borders.
    pub(crate) read_at_bytes: u64,
    pub(crate) read_len_bytes: usize,
    /// Where the blocks start in what was read, and their length.
    pub(crate) skip_bytes: usize,
    pub(crate) payload_bytes: usize,
}

impl RunSet {
    /// Records of all runs.
    pub(crate) fn records(&self) -> u64 {
        self.runs.iter().map(|run| run.records).sum()
    }

    /// `blocks` blocks of a run from `first_block` on, or those that are left of it.
    pub(crate) fn stretch(&self, run: usize, first_block: u64, blocks: u64) -> Stretch {
        let (shape, facts) = (&self.shape, &self.runs[run]);
        let blocks = blocks.min(shape.blocks_of(facts.records) - first_block);
        let record_bytes = shape.record_bytes as u64;
        let from = first_block * shape.block_records;
        let to = (from + blocks * shape.block_records).min(facts.records);
        let at_bytes = facts.base_bytes + from * record_bytes;
        let end_bytes = facts.base_bytes + to * record_bytes;
        let read_at_bytes = block_floor(at_bytes);
        Stretch {
            run,
            first_block,
            blocks,
            read_at_bytes,
            read_len_bytes: (block_ceil(end_bytes) - read_at_bytes) as usize,
            skip_bytes: (at_bytes - read_at_bytes) as usize,
            payload_bytes: (end_bytes - at_bytes) as usize,
        }
    }

    /// Checks the blocks of a stretch that was read.
    pub(crate) fn check(&self, stretch: &Stretch, payload: &[u8]) -> Result<()> {
        let run = &self.runs[stretch.run];
        for (step, block) in payload.chunks(self.shape.block_bytes()).enumerate() {
            let number = stretch.first_block + step as u64;
            let place = place_of(&self.shape, run.number, number);
            if block_checksum(place, block) != run.index.checksums[number as usize] {
                let at_bytes = run.base_bytes + number * self.shape.block_bytes() as u64;
                return Err(self
                    .fault(stretch.run, at_bytes, "a block is not what was written")
                    .hint(
                        "the drive returned other data: restore the run, or build the view again",
                    ));
            }
        }
        Ok(())
    }

    /// The error for a run whose file ends too early.
    pub(crate) fn too_short(&self, run: usize, at_bytes: u64) -> Error {
        self.fault(run, at_bytes, "the run became shorter")
            .hint("restore the run, or build the view again")
    }

    pub(super) fn fault(&self, run: usize, at_bytes: u64, cause: &str) -> Error {
        let run = &self.runs[run];
        let cause = format!("{cause} (run {})", run.number);
        let error = Error::new(Kind::Corrupt, "read view", cause)
            .path(&run.file.path)
            .offset(at_bytes);
        match self.volume.drives().get(run.file.drive_index) {
            Some(drive) => error.drive(&drive.name),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_begin_at_borders_where_records_allow_it_and_are_few() {
        assert_eq!(block_records(8, 1 << 20) * 8, 16 << 10);
        assert_eq!(block_records(8, 1 << 40) * 8, 1 << 20);
        assert_eq!(block_records(100, 1 << 20), 1024);
        assert_eq!(block_records(4096, 1 << 20), 4);
        assert_eq!(block_records(9001, 1 << 20), 1);
        assert_eq!(block_records(1 << 20, 1 << 30), 1);
    }

    #[test]
    fn an_index_is_read_back_as_it_was_written() {
        let format = RecordFormat::gensort();
        let shape = Shape::new(&format, ViewOrder::default(), 2, 7);
        let records: Vec<u8> = (0..500).map(|byte| byte as u8).collect();
        let mut index = Index::default();
        index.add(&shape, 3, &records);
        assert_eq!(index.prefixes.len(), 3);
        let mut bytes = vec![1; 4096];
        index.write_to(&mut bytes);
        let mut again = Index::default();
        again.read_from(&bytes[..3 * ENTRY_BYTES]);
        assert_eq!(again, index);
        assert_eq!(shape.stored_bytes(5), 8192);
    }
}
