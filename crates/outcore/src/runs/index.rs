//! The index of a run: facts about each of its blocks, available without reading it.
//!
//! Layout of an entry, integers little-endian: the first bytes of the order string of the block's
//! first record, 16 per word ([`Shape::prefix`]), each word a big-endian integer; the block's XXH3;
//! and for lines, the offset in the run of the block's first line and the number of lines before
//! it.
//!
//! Contract: block `j` holds the records that begin in units `j * B` to `(j + 1) * B` of the run.
//! Therefore, the run's length alone determines the number of blocks, and a record's place
//! determines its block. A block in which no line begins is empty, and its entry equals that of the
//! next line's block. An [`Indexer`] makes the index from the bytes of the run as they pass.
//!
//! Memory: one entry per block; the indexer of lines keeps one unfinished line.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::shape::{Rule, Shape, entry_bytes};
use crate::merge::item_rule::{PREFIX_WORDS, Prefix};
use crate::read::framing::ItemFraming;
use outcore_io::checksum::{block_checksum, bytes_checksum};

/// Bytes of a row's length.
const ROW_HEAD_BYTES: usize = size_of::<u32>();

/// The entries of the blocks of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// Words of a prefix; more than one for lines.
    words: usize,
    prefixes: Vec<u128>,
    pub(crate) checksums: Vec<u64>,
    /// The offset of the first line of each block; only for lines.
    starts: Vec<u64>,
    /// The number of lines of the run before that line.
    ranks: Vec<u64>,
    /// Number of lines of the run.
    pub(crate) lines: u64,
}

impl Index {
    /// An index without blocks.
    pub(crate) fn new(shape: &Shape) -> Self {
        Index {
            words: shape.prefix_words(),
            prefixes: Vec::new(),
            checksums: Vec::new(),
            starts: Vec::new(),
            ranks: Vec::new(),
            lines: 0,
        }
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.checksums.len()
    }

    /// The prefix of a block's first record.
    pub(crate) fn prefix(&self, block: usize) -> Prefix {
        let mut prefix = [0; PREFIX_WORDS];
        let from = block * self.words;
        prefix[..self.words].copy_from_slice(&self.prefixes[from..from + self.words]);
        prefix
    }

    /// Number of leading blocks of `from..to` with a smaller prefix.
    pub(crate) fn count_less(&self, from: usize, to: usize, prefix: &Prefix) -> usize {
        let (mut lo, mut hi) = (from, to);
        while lo < hi {
            let middle = lo + (hi - lo) / 2;
            match self.prefix(middle) < *prefix {
                true => lo = middle + 1,
                false => hi = middle,
            }
        }
        lo - from
    }

    /// The offset of the first line of a block, if these are lines and the block exists.
    pub(crate) fn start(&self, block: u64) -> Option<u64> {
        self.starts.get(block as usize).copied()
    }

    /// The number of lines before that line.
    pub(crate) fn rank(&self, block: u64) -> Option<u64> {
        self.ranks.get(block as usize).copied()
    }

    /// The longest block of a run of lines of the given length.
    pub(crate) fn longest_bytes(&self, run_bytes: u64) -> u64 {
        let ends = self
            .starts
            .iter()
            .skip(1)
            .chain(std::iter::once(&run_bytes));
        let lens = self.starts.iter().zip(ends).map(|(start, end)| end - start);
        lens.max().unwrap_or(0)
    }

    fn push_prefix(&mut self, prefix: &Prefix) {
        self.prefixes.extend_from_slice(&prefix[..self.words]);
    }

    /// Writes the entries to `out`, which must be long enough, and fills the rest with zeros.
    pub(crate) fn write_to(&self, out: &mut [u8]) {
        let step = entry_bytes(self.words);
        let (entries, padding) = out.split_at_mut(self.blocks() * step);
        for (block, entry) in entries.chunks_exact_mut(step).enumerate() {
            let (prefix, rest) = entry.split_at_mut(16 * self.words);
            let words = &self.prefixes[block * self.words..];
            for (bytes, word) in prefix.chunks_exact_mut(16).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            rest[..8].copy_from_slice(&self.checksums[block].to_le_bytes());
            if let (Some(start), Some(rank)) = (self.start(block as u64), self.rank(block as u64)) {
                rest[8..16].copy_from_slice(&start.to_le_bytes());
                rest[16..].copy_from_slice(&rank.to_le_bytes());
            }
        }
        padding.fill(0);
    }

    /// Adds entries in their written form.
    pub(crate) fn read_from(&mut self, entries: &[u8]) {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        for entry in entries.chunks_exact(entry_bytes(self.words)) {
            let (prefix, rest) = entry.split_at(16 * self.words);
            for bytes in prefix.chunks_exact(16) {
                let (low, high) = (word(&bytes[..8]), word(&bytes[8..]));
                self.prefixes.push(u128::from(high) << 64 | u128::from(low));
            }
            self.checksums.push(word(&rest[..8]));
            if self.words > 1 {
                self.starts.push(word(&rest[8..16]));
                self.ranks.push(word(&rest[16..]));
            }
        }
    }

    /// Checksum of the whole index, stored in the manifest.
    pub(crate) fn checksum(&self) -> u64 {
        let mut bytes = vec![0; self.blocks() * entry_bytes(self.words)];
        self.write_to(&mut bytes);
        bytes_checksum(&bytes)
    }

    /// Whether offsets and ranks of lines ascend within the run, and whether the entry of each
    /// block of `block_bytes` has the first line that begins in it. Without such a line, the entry
    /// must have that of the next block. Searches rely on this.
    pub(crate) fn is_sound(&self, block_bytes: u64, run_bytes: u64, lines: u64) -> bool {
        let blocks = self.starts.iter().enumerate();
        let holds_its_line = |(block, start): (usize, &u64)| {
            let begins_at = (block as u64).saturating_mul(block_bytes);
            let is_here = *start < begins_at.saturating_add(block_bytes);
            let next = self.starts.get(block + 1);
            *start >= begins_at.min(run_bytes) && (is_here || next.is_none_or(|next| next == start))
        };
        let goes_up = |places: &[u64], end: u64| {
            places.first().is_none_or(|first| *first == 0)
                && places.is_sorted()
                && places.last().is_none_or(|last| *last <= end)
        };
        goes_up(&self.starts, run_bytes)
            && goes_up(&self.ranks, lines)
            && blocks.into_iter().all(holds_its_line)
    }
}

/// Makes the index of a run from its bytes.
pub(crate) struct Indexer<'a> {
    shape: &'a Shape,
    run: u32,
    index: Index,
    /// Bytes seen so far.
    at_bytes: u64,
    /// The current block, and its contents so far; for lines.
    block: Option<u64>,
    hash: XxHash3_64,
    is_at_line: bool,
    /// An unfinished first line of a block.
    open: Option<Vec<u8>>,
    /// For an unfinished row: its length, as far as it is known, and the number of remaining bytes.
    row_head: Vec<u8>,
    row_left_bytes: usize,
}

impl<'a> Indexer<'a> {
    /// For run number `run`.
    pub(crate) fn new(shape: &'a Shape, run: u32) -> Self {
        Indexer {
            shape,
            run,
            index: Index::new(shape),
            at_bytes: 0,
            block: None,
            hash: XxHash3_64::with_seed(0),
            is_at_line: true,
            open: None,
            row_head: Vec::with_capacity(ROW_HEAD_BYTES),
            row_left_bytes: 0,
        }
    }

    /// Adds the next bytes of the run; for records, in whole blocks except for the last ones.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        match &self.shape.rule {
            Rule::Records { .. } => self.add_records(bytes),
            Rule::Items(rule) => match rule.framing {
                ItemFraming::Terminated(terminator) => self.add_lines(bytes, terminator),
                ItemFraming::LengthPrefixed => self.add_rows(bytes),
            },
        }
    }

    fn add_records(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(self.shape.block_bytes()) {
            let place = self.shape.place_of(self.run, self.index.blocks() as u64);
            self.index.push_prefix(&self.shape.prefix(block));
            self.index.checksums.push(block_checksum(place, block));
        }
    }

    fn add_lines(&mut self, bytes: &[u8], terminator: u8) {
        let mut rest = bytes;
        if let Some(line) = &mut self.open {
            let end = memchr::memchr(terminator, bytes);
            line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if end.is_some() {
                self.end_open();
            }
        }
        while !rest.is_empty() {
            let next_bytes = self.block.map_or(0, |block| block + 1) * self.shape.block_units;
            if self.is_at_line && self.at_bytes >= next_bytes {
                self.begin_block();
                match memchr::memchr(terminator, rest) {
                    Some(end) => self.note_first(&rest[..end]),
                    None => self.open = Some(rest.to_vec()),
                }
                continue;
            }
            // The block ends with the first line whose successor begins in the next block.
            let skip = (next_bytes.saturating_sub(self.at_bytes + 1) as usize).min(rest.len());
            let end = memchr::memchr(terminator, &rest[skip..]).map(|end| skip + end + 1);
            let (here, behind) = rest.split_at(end.unwrap_or(rest.len()));
            self.hash.write(here);
            self.index.lines += memchr::memchr_iter(terminator, here).count() as u64;
            self.at_bytes += here.len() as u64;
            self.is_at_line = here.last() == Some(&terminator);
            rest = behind;
        }
    }

    /// Rows begin with their length, and may arrive in any pieces.
    fn add_rows(&mut self, bytes: &[u8]) {
        let (mut at, mut hashed) = (0, 0);
        while at < bytes.len() {
            let next_bytes = self.block.map_or(0, |block| block + 1) * self.shape.block_units;
            if self.is_at_line && self.at_bytes >= next_bytes {
                self.hash.write(&bytes[hashed..at]);
                hashed = at;
                self.begin_block();
                self.open = Some(Vec::new());
            }
            self.is_at_line = false;
            let from = at;
            let head_bytes = (ROW_HEAD_BYTES - self.row_head.len()).min(bytes.len() - at);
            if head_bytes > 0 {
                self.row_head.extend_from_slice(&bytes[at..at + head_bytes]);
                at += head_bytes;
                if let Some(&head) = self.row_head.first_chunk() {
                    self.row_left_bytes = u32::from_le_bytes(head) as usize;
                }
            }
            if self.row_head.len() == ROW_HEAD_BYTES {
                let len = self.row_left_bytes.min(bytes.len() - at);
                if let Some(row) = &mut self.open {
                    row.extend_from_slice(&bytes[at..at + len]);
                }
                at += len;
                self.row_left_bytes -= len;
                if self.row_left_bytes == 0 {
                    self.row_head.clear();
                    self.index.lines += 1;
                    self.is_at_line = true;
                    self.end_open();
                }
            }
            self.at_bytes += (at - from) as u64;
        }
        self.hash.write(&bytes[hashed..]);
    }

    /// Ends the current block and begins the block of the line that starts here.
    fn begin_block(&mut self) {
        let block = self.at_bytes / self.shape.block_units;
        self.end_block();
        let from = self.block.map_or(0, |last| last + 1);
        for number in from..=block {
            self.index.starts.push(self.at_bytes);
            self.index.ranks.push(self.index.lines);
            if number < block {
                self.index.checksums.push(self.empty_checksum(number));
            }
        }
        self.block = Some(block);
        self.hash = XxHash3_64::with_seed(self.shape.place_of(self.run, block).seed());
    }

    fn empty_checksum(&self, block: u64) -> u64 {
        block_checksum(self.shape.place_of(self.run, block), &[])
    }

    fn end_block(&mut self) {
        if self.block.is_some() {
            self.index.checksums.push(self.hash.finish());
        }
    }

    /// Number of blocks without a prefix so far.
    fn without_prefix(&self) -> usize {
        self.index.starts.len() - self.index.prefixes.len() / self.index.words
    }

    fn note_first(&mut self, line: &[u8]) {
        let prefix = self.shape.prefix(line);
        for _ in 0..self.without_prefix() {
            self.index.push_prefix(&prefix);
        }
    }

    fn end_open(&mut self) {
        if let Some(line) = self.open.take() {
            self.note_first(&line);
        }
    }

    /// The index of everything that was added.
    pub(crate) fn finish(mut self) -> Index {
        if self.index.words == 1 {
            return self.index;
        }
        self.end_open();
        self.end_block();
        // No other line begins after a long last line.
        let blocks = self.at_bytes.div_ceil(self.shape.block_units);
        for number in self.block.map_or(0, |last| last + 1)..blocks {
            self.index.starts.push(self.at_bytes);
            self.index.ranks.push(self.index.lines);
            self.index.checksums.push(self.empty_checksum(number));
            self.index.push_prefix(&[u128::MAX; PREFIX_WORDS]);
        }
        self.index
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::block_units;
    use std::sync::Arc;

    use super::super::types::{LineType, RowType, ViewOrder, ViewType};
    use super::*;
    use crate::key::record::RecordFormat;
    use crate::key::sort_key::{ByteOrder, SharedKey};

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
    fn an_index_of_rows_is_that_of_lines_of_the_same_bytes_however_they_come() {
        let order: SharedKey = Arc::new(ByteOrder);
        let what = ViewType::Rows(RowType {
            description: Arc::new([]),
            order_name: String::new(),
            order,
        });
        let shape = Shape::new(&what, ViewOrder::default(), 16, 7);
        let rows: [&[u8]; 6] = [
            b"a",
            b"",
            b"bb",
            b"a row of thirty bytes, or more.",
            b"c",
            b"dddd",
        ];
        let framing = ItemFraming::LengthPrefixed;
        let run: Vec<u8> = rows.iter().flat_map(|row| framing.item_of(row)).collect();
        let whole = written_and_read(&shape, &run, run.len());
        for step in 1..run.len() {
            assert_eq!(written_and_read(&shape, &run, step), whole, "{step}");
        }
        let starts: Vec<u64> = (0..5).filter_map(|block| whole.start(block)).collect();
        let ranks: Vec<u64> = (0..5).filter_map(|block| whole.rank(block)).collect();
        // Rows at 0, 5, 9, 15, 49, 54: block 0 has four, blocks 1 and 2 none, block 3 two.
        assert_eq!(
            (&starts[..4], &ranks[..4]),
            (&[0, 50, 50, 50][..], &[0, 4, 4, 4][..])
        );
        assert_eq!(whole.lines, 6);
        assert_eq!(whole.prefix(1), shape.prefix(b"c"));
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
        // The index is not valid for another block size.
        for block_bytes in [4, 9, 16] {
            assert!(!whole.is_sound(block_bytes, 42, 6), "{block_bytes}");
        }
    }
}
