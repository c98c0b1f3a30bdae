//! The comparison of lines and rows in merges of sorted runs.
//!
//! Contract: items are given without their framing, a terminator or a length. They are ordered by
//! the keys that the order makes from them, then by the tie-break. An item that is its own key is
//! compared in place.

use std::cmp::Ordering;
use std::fmt;

use crate::key::sort_key::{KeyedItem, Rank, SharedKey};
use crate::read::framing::ItemFraming;

/// Largest number of 16-byte words in a prefix: records have one word, lines and rows have all.
pub(crate) const PREFIX_WORDS: usize = 4;
/// The first bytes of an order string, padded with zeros. Items whose prefixes differ are in the
/// order of the prefixes.
pub(crate) type Prefix = [u128; PREFIX_WORDS];

/// How items are stored in a run, and how their contents compare.
#[derive(Clone)]
pub(crate) struct ItemRule {
    pub(crate) framing: ItemFraming,
    pub(crate) order: SharedKey,
    pub(crate) is_whole: bool,
    pub(crate) rank: Rank,
}

impl fmt::Debug for ItemRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemRule")
            .field("framing", &self.framing)
            .field("rank", &self.rank)
            .finish_non_exhaustive()
    }
}

impl ItemRule {
    pub(crate) fn new(framing: ItemFraming, order: &SharedKey) -> Self {
        ItemRule {
            framing,
            is_whole: order.is_item(),
            rank: Rank::new(&**order),
            order: SharedKey::clone(order),
        }
    }

    /// Makes the key of an item in `key`, replacing its contents; does nothing if the item is its
    /// own key.
    pub(crate) fn key(&self, item: &[u8], key: &mut Vec<u8>) {
        key.clear();
        if !self.is_whole {
            // Every item in a run had a key, and an order is a function of the item.
            let _ = self.order.append_key(item, key);
        }
    }

    /// Whether larger keys come first.
    pub(crate) fn is_descending(&self) -> bool {
        self.order.is_descending()
    }

    pub(crate) fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (mut key_of_a, mut key_of_b) = (Vec::new(), Vec::new());
        self.key(a, &mut key_of_a);
        self.key(b, &mut key_of_b);
        self.rank.by_key(
            KeyedItem {
                item: a,
                key: &key_of_a,
            },
            KeyedItem {
                item: b,
                key: &key_of_b,
            },
        )
    }

    /// The order of two items, without their positions.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_keys(a, b).then_with(|| self.rank.by_tie(a, b))
    }

    pub(crate) fn prefix(&self, item: &[u8]) -> Prefix {
        let mut key = Vec::new();
        self.key(item, &mut key);
        let key = if self.is_whole { item } else { &key };
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
