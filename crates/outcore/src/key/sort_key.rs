//! Sort keys: an item's order as bytes that compare as unsigned.
//!
//! Contract: a [`SortKey`] turns an item (a line without its terminator, a row of CSV, a record)
//! into a key, a string of bytes. Every order is therefore the order of byte strings: code that
//! sorts, distributes or merges knows nothing about fields, numbers or months. A key is a pure
//! function of the item. Keys are made when needed and never stored on a drive. Text encodings:
//! [`super::encode`].
//!
//! Two orders are faster because their keys need not be made. Some items are their own keys
//! ([`SortKey::is_item`]). The key of a record of fixed fields is read in place as words
//! ([`super::order`]). Single numbers are even simpler: they are converted to unsigned integers in
//! place ([`super::scalar`]).
//!
//! Source: normalised keys, as in Graefe, "Implementing sorting in database systems" (2006),
//! section 3.

use std::cmp::Ordering;
use std::sync::Arc;

/// Tie-break between items of equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tie {
    /// The bytes of the items, ascending (GNU sort's last resort): the output depends only on the
    /// items.
    #[default]
    Bytes,
    /// The bytes of the items, the largest first (GNU sort's last resort under `-r`).
    BytesDescending,
    /// The position of the items in the input (GNU sort's `-s`, `--stable`): the caller keeps the
    /// order of equal keys.
    Position,
}

impl Tie {
    /// The rule of GNU sort: a stable sort keeps the order of the input; any other sort compares
    /// all bytes, in descending order if the whole order is `reverse`.
    pub const fn of(is_stable: bool, reverse: bool) -> Self {
        match (is_stable, reverse) {
            (true, _) => Tie::Position,
            (false, false) => Tie::Bytes,
            (false, true) => Tie::BytesDescending,
        }
    }
}

/// Why an item has no key: a few words that follow the file name and the line number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoKey(pub String);

/// Why a blank line has no key if blank lines are not records.
const BLANK: &str = "it is blank";

impl NoKey {
    /// For a blank line that is not a record: it is skipped, and is not an error.
    pub fn blank() -> Self {
        NoKey(BLANK.to_owned())
    }

    /// Whether this is [`NoKey::blank`].
    pub fn is_blank(&self) -> bool {
        self.0 == BLANK
    }
}

/// The order of items.
pub trait SortKey: Sync {
    /// Appends the key of an item to `key`.
    ///
    /// Keys compare as strings of unsigned bytes, a prefix first. If only some fields are
    /// descending, the order itself complements their bytes, with an end mark if lengths differ.
    ///
    /// # Errors
    /// The item has no key: a field is missing, or a quote is not closed. Nothing is appended then.
    fn append_key(&self, item: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey>;

    /// Whether the key is the item itself, so that no key is made.
    fn is_item(&self) -> bool {
        false
    }

    /// Whether larger keys come first. This does not affect ties; see [`SortKey::tie`].
    fn is_descending(&self) -> bool {
        false
    }

    /// Tie-break between items of equal keys. Not used for items that are their own keys.
    fn tie(&self) -> Tie {
        Tie::default()
    }
}

/// A shared order.
pub type SharedKey = Arc<dyn SortKey + Send + Sync>;

/// An item and its key, if keys are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyedItem<'a> {
    pub(crate) item: &'a [u8],
    pub(crate) key: &'a [u8],
}

/// How two items with keys compare: the answers of a [`SortKey`] that are the same for all items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank {
    is_item: bool,
    is_descending: bool,
    tie: Tie,
}

impl Rank {
    pub(crate) fn new(order: &dyn SortKey) -> Self {
        Rank {
            is_item: order.is_item(),
            is_descending: order.is_descending(),
            tie: order.tie(),
        }
    }

    /// Compares by keys.
    pub(crate) fn by_key(&self, a: KeyedItem<'_>, b: KeyedItem<'_>) -> Ordering {
        let order = match self.is_item {
            true => compare(a.item, b.item),
            false => compare(a.key, b.key),
        };
        match self.is_descending {
            true => order.reverse(),
            false => order,
        }
    }

    /// Compares items with equal keys.
    pub(crate) fn by_tie(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.tie {
            _ if self.is_item => Ordering::Equal,
            Tie::Position => Ordering::Equal,
            Tie::Bytes => compare(a, b),
            Tie::BytesDescending => compare(b, a),
        }
    }
}

/// Order of two keys or items as strings of unsigned bytes, a prefix first.
///
/// N.B. an empty string is never passed to `memcmp`. Its address may be invalid, because an empty
/// `Vec` or `Box` points to no memory. The C library's masked load of such an address traps into
/// microcode, which takes ninety times as long (docs/decisions/0022).
#[inline(always)]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match a.is_empty() || b.is_empty() {
        true => a.len().cmp(&b.len()),
        false => a.cmp(b),
    }
}

/// Lines in the order of their bytes: `LC_ALL=C sort`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteOrder;

impl SortKey for ByteOrder {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey> {
        key.extend_from_slice(line);
        Ok(())
    }

    fn is_item(&self) -> bool {
        true
    }
}

/// Compares two items by definition: the oracle for all faster comparisons. Equal only for
/// indistinguishable items, or for items whose order is their position in the input.
///
/// # Errors
/// The errors of [`SortKey::append_key`].
pub fn compare_items(order: &dyn SortKey, a: &[u8], b: &[u8]) -> Result<Ordering, NoKey> {
    let (mut key_of_a, mut key_of_b) = (Vec::new(), Vec::new());
    order.append_key(a, &mut key_of_a)?;
    order.append_key(b, &mut key_of_b)?;
    let rank = Rank::new(order);
    let by_key = rank.by_key(
        KeyedItem {
            item: a,
            key: &key_of_a,
        },
        KeyedItem {
            item: b,
            key: &key_of_b,
        },
    );
    Ok(by_key.then_with(|| rank.by_tie(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ByLength(Tie);

    impl SortKey for ByLength {
        fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey> {
            key.push(line.len() as u8);
            Ok(())
        }

        fn tie(&self) -> Tie {
            self.0
        }
    }

    #[test]
    fn keys_come_first_and_ties_are_broken_as_the_order_says() {
        let compare = |tie, a, b| compare_items(&ByLength(tie), a, b);
        assert_eq!(compare(Tie::Bytes, b"b", b"aa"), Ok(Ordering::Less));
        assert_eq!(compare(Tie::Bytes, b"b", b"a"), Ok(Ordering::Greater));
        let turned = compare(Tie::BytesDescending, b"b", b"a");
        assert_eq!(turned, Ok(Ordering::Less));
        let placed = compare(Tie::Position, b"b", b"a");
        assert_eq!(placed, Ok(Ordering::Equal));
    }

    #[test]
    fn bytes_are_unsigned_and_a_prefix_comes_first() {
        let compare = |a: &[u8], b: &[u8]| compare_items(&ByteOrder, a, b);
        assert_eq!(compare(b"a", b"a\x00"), Ok(Ordering::Less));
        assert_eq!(compare(b"\x7f", b"\x80"), Ok(Ordering::Less));
    }
}
