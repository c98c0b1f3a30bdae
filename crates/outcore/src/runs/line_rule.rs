//! How lines are compared where sorted runs of them are merged.
//!
//! Contract: lines come without their terminators. Their order is that of the keys which the order makes
//! of them, then that of the tie; one that is its own key is compared as it lies there.

use std::cmp::Ordering;

use super::types::LineType;
use crate::key::sort_key::Rank;

/// Words of 16 bytes in a prefix: a record's has one, a line's all.
pub(super) const PREFIX_WORDS: usize = 4;
/// The first bytes of an order string, padded with zeros: they order records as far as they differ.
pub(crate) type Prefix = [u128; PREFIX_WORDS];

/// How lines are compared; they come without their terminators.
#[derive(Debug, Clone)]
pub(crate) struct LineRule {
    pub(crate) lines: LineType,
    pub(crate) terminator: u8,
    pub(crate) is_whole: bool,
    pub(crate) rank: Rank,
}

impl LineRule {
    pub(super) fn new(lines: &LineType) -> Self {
        LineRule {
            terminator: lines.terminator,
            is_whole: lines.order.is_item(),
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

    pub(super) fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (mut key_of_a, mut key_of_b) = (Vec::new(), Vec::new());
        self.key(a, &mut key_of_a);
        self.key(b, &mut key_of_b);
        self.rank.by_key((a, &key_of_a), (b, &key_of_b))
    }

    /// The order of two lines, but for their places.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_keys(a, b).then_with(|| self.rank.by_tie(a, b))
    }

    pub(super) fn prefix(&self, line: &[u8]) -> Prefix {
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
