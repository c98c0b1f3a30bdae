//! The sorted runs of a view: where they lie, what their blocks hold, and how they are checked.
//!
//! Layout of a run, from a 4 KiB border of its file: its records, one after another; zeros up to the
//! next 4 KiB border; then its *index* ([`super::index`]), an entry a block.
//!
//! Contract: a place in a run counts *units*: records, or bytes where the records are lines. A block
//! holds the records that begin in as many units, the last one of a run excepted: for records of one
//! length these are its units; a block of lines begins with its first line and ends with its last,
//! however far that goes. A [`RunSet`] is what is known of all runs of a view, in the order that decides
//! between equal records. Its index is in memory; every block that is read is checked against it, seeded
//! by view, run and place, so that a block that rotted, or came from elsewhere, is named and never
//! merged.

use std::cmp::Ordering;
use std::sync::Arc;

use super::index::{Index, entry_bytes};
use super::types::{LineType, ViewOrder, ViewType};
use crate::algo::lines::Rank;
use crate::algo::merge::{Merge, merge_of, merge_of_lines};
use crate::checksum::{BlockPlace, block_checksum};
use crate::data::bare::BareOrder;
use crate::data::order::{Order, OrderOptions, TieBreak};
use crate::error::{Error, Kind, Result};
use crate::memory::{BLOCK_BYTES, Buf, block_ceil, block_floor};
use crate::volume::{Volume, VolumeFile};

/// Words of 16 bytes in a prefix: a record's has one, a line's all.
pub(super) const PREFIX_WORDS: usize = 4;
/// The first bytes of an order string, zeros behind its end: they order records as far as they differ.
pub(crate) type Prefix = [u128; PREFIX_WORDS];
/// Blocks are at least so long, if records are not longer: a seek reads one or two of each run.
const BLOCK_BYTES_MIN: u64 = 16 << 10;
/// Blocks are at most so long, if records are not longer.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Blocks grow so that there are about so many.
pub(super) const BLOCKS_WANTED: u64 = 1 << 19;

/// How records are compared.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Records {
        order: Order,
        bare: Option<BareOrder>,
    },
    Lines(LineRule),
}

/// How lines are compared; they come without their terminators.
#[derive(Debug, Clone)]
pub(crate) struct LineRule {
    pub(crate) lines: LineType,
    pub(crate) terminator: u8,
    pub(crate) is_whole: bool,
    pub(crate) rank: Rank,
}

impl LineRule {
    fn new(lines: &LineType) -> Self {
        LineRule {
            terminator: lines.terminator,
            is_whole: lines.order.is_whole_line(),
            rank: Rank::new(&*lines.order),
            lines: lines.clone(),
        }
    }

    /// The key of a line, in place of what was in `key`; nothing where the line is its own.
    pub(crate) fn key(&self, line: &[u8], key: &mut Vec<u8>) {
        key.clear();
        if !self.is_whole {
            // Every line that is in a run had a key, and an order is a function of the line.
            let _ = self.lines.order.append_key(line, key);
        }
    }

    /// Whether larger keys come first.
    pub(crate) fn is_descending(&self) -> bool {
        self.lines.order.is_descending()
    }

    fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (mut key_of_a, mut key_of_b) = (Vec::new(), Vec::new());
        self.key(a, &mut key_of_a);
        self.key(b, &mut key_of_b);
        self.rank.by_key((a, &key_of_a), (b, &key_of_b))
    }

    /// The order of two lines, but for their places.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_keys(a, b).then_with(|| self.rank.by_tie(a, b))
    }

    fn prefix(&self, line: &[u8]) -> Prefix {
        let mut key = Vec::new();
        self.key(line, &mut key);
        let key = if self.is_whole { line } else { &key };
        let mut prefix = [0; PREFIX_WORDS];
        for (word, bytes) in prefix.iter_mut().zip(key.chunks(16)) {
            let mut padded = [0; 16];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u128::from_be_bytes(padded);
        }
        match self.is_descending() {
            true => prefix.map(|word| !word),
            false => prefix,
        }
    }
}

/// What all runs have in common.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) what: ViewType,
    pub(crate) view_order: ViewOrder,
    pub(crate) rule: Rule,
    /// Bytes of a record, or 1 where records are lines.
    pub(crate) unit_bytes: usize,
    /// Units of a block.
    pub(crate) block_units: u64,
    /// Seeds checksums; another one for each view ever made.
    pub(crate) id: u64,
}

impl Shape {
    pub(crate) fn new(what: &ViewType, view_order: ViewOrder, block_units: u64, id: u64) -> Self {
        let (rule, view_order) = match what {
            ViewType::Lines(lines) => (Rule::Lines(LineRule::new(lines)), lines.view_order()),
            ViewType::Records(format) => {
                let tie = match view_order.stable {
                    true => TieBreak::Position,
                    false => TieBreak::Bytes,
                };
                let options = OrderOptions {
                    descending: view_order.descending,
                    tie,
                };
                let rule = Rule::Records {
                    order: Order::new(format, options),
                    bare: BareOrder::of(format, view_order.descending),
                };
                (rule, view_order)
            }
        };
        Shape {
            unit_bytes: what.unit_bytes(),
            what: what.clone(),
            view_order,
            rule,
            block_units,
            id,
        }
    }

    /// How lines are compared, if these are lines.
    pub(crate) fn lines(&self) -> Option<&LineRule> {
        match &self.rule {
            Rule::Lines(rule) => Some(rule),
            Rule::Records { .. } => None,
        }
    }

    /// What stands before the first record in the sorted file.
    pub(crate) fn front(&self) -> &[u8] {
        self.lines().map_or(&[], |rule| &rule.lines.front)
    }

    /// Bytes of the units of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_units as usize * self.unit_bytes
    }

    /// Blocks of a run of so many units.
    pub(crate) fn blocks_of(&self, units: u64) -> u64 {
        units.div_ceil(self.block_units)
    }

    /// Whether blocks begin at 4 KiB borders, so that nothing beside them is read with them.
    pub(crate) fn is_aligned(&self) -> bool {
        self.lines().is_none() && self.block_bytes().is_multiple_of(BLOCK_BYTES)
    }

    /// Words of a prefix that count.
    pub(super) fn prefix_words(&self) -> usize {
        match self.rule {
            Rule::Records { .. } => 1,
            Rule::Lines(_) => PREFIX_WORDS,
        }
    }

    /// The first bytes of a record's order string: 16, of lines 64.
    pub(crate) fn prefix(&self, record: &[u8]) -> Prefix {
        let order = match &self.rule {
            Rule::Records { order, .. } => order,
            Rule::Lines(rule) => return rule.prefix(record),
        };
        let second = match order.words() {
            0 | 1 => 0,
            _ => order.word(record, 1),
        };
        let mut prefix = [0; PREFIX_WORDS];
        prefix[0] = u128::from(order.word(record, 0)) << 64 | u128::from(second);
        prefix
    }

    /// Of the prefix of a record, what tells its key.
    pub(crate) fn key_mask(&self) -> Prefix {
        let mut mask = [u128::MAX; PREFIX_WORDS];
        if let Rule::Records { order, .. } = &self.rule {
            let second = match order.words() {
                0 | 1 => 0,
                _ => order.key_mask(1),
            };
            mask[0] = u128::from(order.key_mask(0)) << 64 | u128::from(second);
        }
        mask
    }

    /// Whether equal prefixes mean equal order strings.
    pub(crate) fn is_whole_in_prefix(&self) -> bool {
        matches!(&self.rule, Rule::Records { order, .. } if order.words() <= 2)
    }

    /// Whether prefixes whose keys are equal mean equal keys.
    pub(crate) fn is_key_in_prefix(&self) -> bool {
        matches!(&self.rule, Rule::Records { order, .. } if order.key_bytes() <= 16)
    }

    /// The order of two records, but for their places.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.rule {
            Rule::Records { order, .. } => order.compare(a, b),
            Rule::Lines(rule) => rule.compare(a, b),
        }
    }

    /// The order of their keys.
    pub(crate) fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.rule {
            Rule::Records { order, .. } => order.compare_keys(a, b),
            Rule::Lines(rule) => rule.compare_keys(a, b),
        }
    }

    /// What merges them.
    pub(crate) fn merge(&self) -> Box<dyn Merge> {
        match &self.rule {
            Rule::Records { order, bare } => merge_of(order, *bare),
            Rule::Lines(rule) => merge_of_lines(rule.clone()),
        }
    }

    /// Where a block belongs, for its checksum.
    pub(super) fn place_of(&self, run: u32, block: u64) -> BlockPlace {
        BlockPlace {
            drive: run,
            address_bytes: block * self.block_bytes() as u64,
            run: self.id,
        }
    }

    /// Bytes of an index of so many blocks, in memory and as it is written.
    pub(crate) fn index_bytes(&self, blocks: u64) -> u64 {
        blocks * entry_bytes(self.prefix_words()) as u64
    }

    /// Bytes of a run's file: records, padding, index.
    pub(crate) fn stored_bytes(&self, units: u64) -> u64 {
        block_ceil(units * self.unit_bytes as u64)
            + block_ceil(self.index_bytes(self.blocks_of(units)))
    }
}

/// Records of a block for data of `data_bytes`: as short as an index of moderate size allows, and
/// beginning at 4 KiB borders where the record's size lets a block of moderate size do so.
pub(super) fn block_units(unit_bytes: usize, data_bytes: u64) -> u64 {
    let record_bytes = unit_bytes as u64;
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

/// One sorted run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) file: VolumeFile,
    /// Its number in the view, which seeds its checksums.
    pub(crate) number: u32,
    /// Where it begins in its file; a 4 KiB border.
    pub(crate) base_bytes: u64,
    pub(crate) units: u64,
    /// Its records; as many as units but for lines.
    pub(crate) records: u64,
    pub(crate) index: Arc<Index>,
    /// Bytes of its longest block of lines.
    pub(crate) longest_block_bytes: usize,
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

    /// Units of all runs.
    pub(crate) fn units(&self) -> u64 {
        self.runs.iter().map(|run| run.units).sum()
    }

    /// The unit at which a block begins; the run's end for the one behind the last.
    pub(crate) fn start(&self, run: usize, block: u64) -> u64 {
        let facts = &self.runs[run];
        match self.shape.rule {
            Rule::Records { .. } => (block * self.shape.block_units).min(facts.units),
            Rule::Lines(_) => facts.index.start(block).unwrap_or(facts.units),
        }
    }

    /// How many records of the run come before a block.
    pub(crate) fn rank_of_block(&self, run: usize, block: u64) -> u64 {
        let facts = &self.runs[run];
        match self.shape.rule {
            Rule::Records { .. } => self.start(run, block),
            Rule::Lines(_) => facts.index.rank(block).unwrap_or(facts.records),
        }
    }

    /// The block of the record that begins at a unit.
    pub(crate) fn block_of(&self, unit: u64) -> u64 {
        unit / self.shape.block_units
    }

    /// The block behind the last in which a record before `to` begins.
    pub(crate) fn block_behind(&self, run: usize, to: u64) -> u64 {
        let mut block = self.shape.blocks_of(to);
        while block > 0 && self.start(run, block - 1) >= to {
            block -= 1;
        }
        block
    }

    /// Bytes of the longest block, more than [`Shape::block_bytes`] only where lines are long.
    pub(crate) fn longest_block_bytes(&self) -> usize {
        let longest = self.runs.iter().map(|run| run.longest_block_bytes).max();
        longest.unwrap_or(0).max(self.shape.block_bytes())
    }

    /// `blocks` blocks of a run from `first_block` on, or those that are left of it.
    pub(crate) fn stretch(&self, run: usize, first_block: u64, blocks: u64) -> Stretch {
        let (shape, facts) = (&self.shape, &self.runs[run]);
        let blocks = blocks.min(shape.blocks_of(facts.units) - first_block);
        let unit_bytes = shape.unit_bytes as u64;
        let from = self.start(run, first_block);
        let to = self.start(run, first_block + blocks);
        let at_bytes = facts.base_bytes + from * unit_bytes;
        let end_bytes = facts.base_bytes + to * unit_bytes;
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
        let unit_bytes = self.shape.unit_bytes as u64;
        let mut rest = payload;
        for number in stretch.first_block..stretch.first_block + stretch.blocks {
            let from = self.start(stretch.run, number);
            let units = self.start(stretch.run, number + 1) - from;
            let (block, behind) = rest.split_at(((units * unit_bytes) as usize).min(rest.len()));
            rest = behind;
            let place = self.shape.place_of(run.number, number);
            if block_checksum(place, block) != run.index.checksums[number as usize] {
                let at_bytes = run.base_bytes + from * unit_bytes;
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
    use crate::algo::view::index::Indexer;
    use crate::data::record::RecordFormat;

    #[test]
    fn blocks_begin_at_borders_where_records_allow_it_and_are_few() {
        assert_eq!(block_units(8, 1 << 20) * 8, 16 << 10);
        assert_eq!(block_units(8, 1 << 40) * 8, 1 << 20);
        assert_eq!(block_units(100, 1 << 20), 1024);
        assert_eq!(block_units(4096, 1 << 20), 4);
        assert_eq!(block_units(9001, 1 << 20), 1);
        assert_eq!(block_units(1 << 20, 1 << 30), 1);
    }

    fn written_and_read(shape: &Shape, run: &[u8], step: usize) -> Index {
        let mut indexer = Indexer::new(shape, 3);
        run.chunks(step).for_each(|bytes| indexer.add(bytes));
        let index = indexer.finish();
        let blocks = shape.blocks_of((run.len() / shape.unit_bytes) as u64);
        assert_eq!(index.blocks() as u64, blocks);
        let len = shape.index_bytes(blocks) as usize;
        let mut bytes = vec![1; len.next_multiple_of(4096)];
        index.write_to(&mut bytes);
        let mut again = Index::new(shape);
        again.read_from(&bytes[..len]);
        again.lines = index.lines;
        assert_eq!(again, index);
        index
    }

    #[test]
    fn an_index_is_read_back_as_it_was_written() {
        let format = RecordFormat::gensort();
        let shape = Shape::new(&(&format).into(), ViewOrder::default(), 2, 7);
        let records: Vec<u8> = (0..500).map(|byte| byte as u8).collect();
        assert_eq!(written_and_read(&shape, &records, 200).blocks(), 3);
        assert_eq!(shape.stored_bytes(5), 8192);
    }

    #[test]
    fn an_index_of_lines_is_the_same_however_they_come_and_knows_where_blocks_begin() {
        let what = LineType::of_bytes(b'\n').into();
        let shape = Shape::new(&what, ViewOrder::default(), 8, 7);
        // Lines at 0, 2, 5, 6, 26, 29: block 0 has four, blocks 1 and 2 none, block 3 two.
        let run = b"a\nbb\n\nccccccccccccccccccc\ndd\neeeeeeeeeeee\n";
        let whole = written_and_read(&shape, run, run.len());
        for step in 1..run.len() {
            assert_eq!(written_and_read(&shape, run, step), whole, "{step}");
        }
        let starts: Vec<u64> = (0..6).filter_map(|block| whole.start(block)).collect();
        assert_eq!(starts, [0, 26, 26, 26, 42, 42]);
        let ranks: Vec<u64> = (0..6).filter_map(|block| whole.rank(block)).collect();
        assert_eq!(ranks, [0, 4, 4, 4, 6, 6]);
        assert_eq!(whole.lines, 6);
        assert_eq!(whole.prefix(1), shape.prefix(b"dd"));
        assert_eq!(whole.longest_bytes(42), 26);
        assert!(whole.is_sound(8, 42, 6) && !whole.is_sound(8, 41, 6));
        // Of blocks of another size it is no index.
        for block_bytes in [4, 9, 16] {
            assert!(!whole.is_sound(block_bytes, 42, 6), "{block_bytes}");
        }
    }
}
