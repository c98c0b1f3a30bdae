//! The form of a view's runs: how records compare, how many are in a block, where bytes are stored.
//!
//! Layout of a run, from a 4 KiB boundary of its file: its records, one after another; zeros up to
//! the next 4 KiB boundary; then its *index* ([`super::index`]), one entry per block.
//!
//! Contract: a place in a run counts *units*: records, or bytes if the records are lines or rows. A
//! block holds the records that begin in a fixed number of units; the last block of a run may have
//! fewer. If records have one length, these are the units themselves. A block of lines begins with
//! its first line and ends with the end of its last line, however long that is. Everything here is
//! arithmetic and comparison; nothing is read.

use std::cmp::Ordering;

use super::types::{LineType, RowType, ViewOrder, ViewType, view_order_of};
use crate::key::order::{Order, OrderOptions};
use crate::key::scalar::ScalarOrder;
use crate::key::sort_key::Tie;
use crate::merge::item_rule::{ItemRule, PREFIX_WORDS, Prefix};
use crate::merge::{Merge, merge_of, merge_of_items};
use crate::read::framing::ItemFraming;
use outcore_io::checksum::BlockLocation;
use outcore_io::memory::{BLOCK_BYTES, block_ceil};
use outcore_io::{Error, Result};

/// Bytes of an entry in addition to its prefix, and the additional bytes for lines.
const CHECKSUM_BYTES: usize = 8;
const PLACE_BYTES: usize = 16;

/// Bytes of an index entry whose prefix has this many words.
pub(super) const fn entry_bytes(words: usize) -> usize {
    match words {
        1 => 16 + CHECKSUM_BYTES,
        words => 16 * words + CHECKSUM_BYTES + PLACE_BYTES,
    }
}

/// Smallest block, unless records are longer: a seek reads one or two of each run.
const BLOCK_BYTES_MIN: u64 = 16 << 10;
/// Largest block, unless records are longer.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Blocks grow so that data have about this many blocks.
pub(super) const BLOCKS_WANTED: u64 = 1 << 19;

/// How records are compared.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Records {
        order: Order,
        scalar: Option<ScalarOrder>,
    },
    /// Lines and rows.
    Items(ItemRule),
}

/// The common properties of all runs.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) what: ViewType,
    pub(crate) view_order: ViewOrder,
    pub(crate) rule: Rule,
    /// Bytes of a record, or 1 if records are lines or rows.
    pub(crate) unit_bytes: usize,
    /// Units per block.
    pub(crate) block_units: u64,
    /// Seeds checksums; unique to each view ever made.
    pub(crate) id: u64,
}

impl Shape {
    pub(crate) fn new(what: &ViewType, view_order: ViewOrder, block_units: u64, id: u64) -> Self {
        let (rule, view_order) = match what {
            ViewType::Lines(lines) => {
                let framing = ItemFraming::Terminated(lines.terminator);
                let rule = ItemRule::new(framing, &lines.order);
                (Rule::Items(rule), view_order_of(&lines.order))
            }
            ViewType::Rows(rows) => {
                let rule = ItemRule::new(ItemFraming::LengthPrefixed, &rows.order);
                (Rule::Items(rule), view_order_of(&rows.order))
            }
            ViewType::Records(format) => {
                let tie = match view_order.stable {
                    true => Tie::Position,
                    false => Tie::Bytes,
                };
                let options = OrderOptions {
                    descending: view_order.descending,
                    tie,
                };
                let rule = Rule::Records {
                    order: Order::new(format, options),
                    scalar: view_order.scalar(format),
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

    /// How lines or rows compare; `None` for records.
    pub(crate) fn items(&self) -> Option<&ItemRule> {
        match &self.rule {
            Rule::Items(rule) => Some(rule),
            Rule::Records { .. } => None,
        }
    }

    /// The bytes before the first record in the sorted file.
    pub(crate) fn front(&self) -> &[u8] {
        self.what.lines().map_or(&[], |lines| &lines.front)
    }

    /// Bytes of the units of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_units as usize * self.unit_bytes
    }

    /// Blocks of a run of this many units.
    pub(crate) fn blocks_of(&self, units: u64) -> u64 {
        units.div_ceil(self.block_units)
    }

    /// Whether blocks begin at 4 KiB boundaries, so that a read contains nothing else.
    pub(crate) fn is_aligned(&self) -> bool {
        self.items().is_none() && self.block_bytes().is_multiple_of(BLOCK_BYTES)
    }

    /// Number of significant words of a prefix.
    pub(super) fn prefix_words(&self) -> usize {
        match self.rule {
            Rule::Records { .. } => 1,
            Rule::Items(_) => PREFIX_WORDS,
        }
    }

    /// The first bytes of a record's order string: 16, or 64 for lines and rows.
    pub(crate) fn prefix(&self, record: &[u8]) -> Prefix {
        let order = match &self.rule {
            Rule::Records { order, .. } => order,
            Rule::Items(rule) => return rule.prefix(record),
        };
        let second = match order.words() {
            0 | 1 => 0,
            _ => order.word(record, 1),
        };
        let mut prefix = [0; PREFIX_WORDS];
        prefix[0] = u128::from(order.word(record, 0)) << 64 | u128::from(second);
        prefix
    }

    /// A mask for the part of a record's prefix that belongs to its key.
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

    /// Whether prefixes with equal key parts mean equal keys.
    pub(crate) fn is_key_in_prefix(&self) -> bool {
        matches!(&self.rule, Rule::Records { order, .. } if order.key_bytes() <= 16)
    }

    /// The order of two records, without their places.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.rule {
            Rule::Records { order, .. } => order.compare(a, b),
            Rule::Items(rule) => rule.compare(a, b),
        }
    }

    /// The order of the keys of two records.
    pub(crate) fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.rule {
            Rule::Records { order, .. } => order.compare_keys(a, b),
            Rule::Items(rule) => rule.compare_keys(a, b),
        }
    }

    /// Fails for an invalid key of these records.
    pub(crate) fn check_key(&self, record: &[u8]) -> Result<()> {
        match &self.what {
            ViewType::Records(_) if record.len() != self.unit_bytes => {
                let cause = format!("{} bytes for a record of {}", record.len(), self.unit_bytes);
                Err(Error::usage("seek key", cause)
                    .hint("give a whole record of which only the key counts"))
            }
            ViewType::Records(_) => Ok(()),
            ViewType::Lines(LineType { order, .. }) | ViewType::Rows(RowType { order, .. }) => {
                let made = order.append_key(record, &mut Vec::new());
                made.map_err(|why| {
                    Error::usage("seek key", why.0).hint("give a line that has such a key")
                })?;
                Ok(())
            }
        }
    }

    /// The merge for these records.
    pub(crate) fn merge(&self) -> Box<dyn Merge> {
        match &self.rule {
            Rule::Records { order, scalar } => merge_of(order, *scalar),
            Rule::Items(rule) => merge_of_items(rule.clone()),
        }
    }

    /// The location of a block, for its checksum.
    pub(super) fn place_of(&self, run: u32, block: u64) -> BlockLocation {
        BlockLocation {
            drive: run,
            address_bytes: block * self.block_bytes() as u64,
            run: self.id,
        }
    }

    /// Bytes of an index of this many blocks, in memory and in its written form.
    pub(crate) fn index_bytes(&self, blocks: u64) -> u64 {
        blocks * entry_bytes(self.prefix_words()) as u64
    }

    /// Bytes of a run's file: records, padding, index.
    pub(crate) fn stored_bytes(&self, units: u64) -> u64 {
        block_ceil(units * self.unit_bytes as u64)
            + block_ceil(self.index_bytes(self.blocks_of(units)))
    }
}

/// Records per block for data of `data_bytes`: as few as an index of moderate size allows. Blocks
/// begin at 4 KiB boundaries if the record's size permits that with blocks of moderate length.
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
