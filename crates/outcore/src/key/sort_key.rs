//! One sort key: what decides about an item's place, as bytes that compare as unsigned.
//!
//! Contract: a [`SortKey`] turns an item (a line without its terminator, a row of CSV, a record)
//! into a key, a string of bytes, so that every order is the order of byte strings: what sorts,
//! distributes or merges knows nothing of fields, numbers or months. It is a pure function of the
//! item. Keys are made where they are needed and never stored on a drive. What text is turned into:
//! [`super::encode`].
//!
//! Two orders have keys that need not be made, and are faster for it: an item that is its own key
//! ([`SortKey::is_item`]), and records of fixed fields, whose key is read as words where it lies
//! ([`super::order`]). Single numbers are not even that: they are turned into unsigned integers in
//! place ([`super::scalar`]).
//!
//! Source: normalised keys, as in Graefe, "Implementing sorting in database systems" (2006),
//! section 3.

use std::cmp::Ordering;
use std::sync::Arc;

/// What decides between items of equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tie {
    /// Their bytes, ascending (GNU sort's last resort): the output depends on the items alone.
    #[default]
    Bytes,
    /// Their bytes, the largest first (GNU sort's last resort under `-r`).
    BytesDescending,
    /// Their place in the input (GNU sort's `-s`, `--stable`): the caller keeps the order of equal
    /// keys.
    Position,
}

impl Tie {
    /// The rule of GNU sort: a stable sort keeps the order of the input, any other one compares all
    /// bytes, from the largest on if the whole order is `reverse`.
    pub const fn of(is_stable: bool, reverse: bool) -> Self {
        match (is_stable, reverse) {
            (true, _) => Tie::Position,
            (false, false) => Tie::Bytes,
            (false, true) => Tie::BytesDescending,
        }
    }
}

/// Why an item has no key: a few words that follow the name of the file and the number of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoKey(pub String);

/// Why a blank line has no key where blank lines are no records.
const BLANK: &str = "it is blank";

impl NoKey {
    /// Of a blank line that is no record: it is left out, and is no error.
    pub fn blank() -> Self {
        NoKey(BLANK.to_owned())
    }

    /// Whether it is [`NoKey::blank`].
    pub fn is_blank(&self) -> bool {
        self.0 == BLANK
    }
}

/// How items are ordered.
pub trait SortKey: Sync {
    /// Appends the key of an item to `key`.
    ///
    /// Keys compare as strings of unsigned bytes, a prefix first. Where only some fields descend,
    /// the order itself complements their bytes, with an end mark where lengths differ.
    ///
    /// # Errors
    /// The item has no key: a field is missing, or a quote does not end. Nothing is appended then.
    fn append_key(&self, item: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey>;

    /// Whether the key is the item itself, so that none need be made.
    fn is_item(&self) -> bool {
        false
    }

    /// Whether larger keys come first. Ties are as [`SortKey::tie`] says all the same.
    fn is_descending(&self) -> bool {
        false
    }

    /// What decides between items of equal keys. Never asked of items that are their own keys.
    fn tie(&self) -> Tie {
        Tie::default()
    }
}

/// An order that several threads and values hold.
pub type SharedKey = Arc<dyn SortKey + Send + Sync>;

/// How two items compare whose keys are made: what a [`SortKey`] says of all of them, asked once.
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

    /// By their keys; each item with its key, if those are made.
    pub(crate) fn by_key(&self, a: (&[u8], &[u8]), b: (&[u8], &[u8])) -> Ordering {
        let order = match self.is_item {
            true => compare(a.0, b.0),
            false => compare(a.1, b.1),
        };
        match self.is_descending {
            true => order.reverse(),
            false => order,
        }
    }

    /// Of items with equal keys.
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
/// N.B. an empty string is never handed to `memcmp`. It may lie nowhere (an empty `Vec` or `Box`
/// points to no memory), and the C library's masked load of such an address traps into microcode,
/// which takes ninety times as long (docs/decisions/0022).
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

/// Compares two items by definition: the oracle for everything that does so faster. Equal only for
/// items that may not be told apart, or that only their place in the input puts in order.
///
/// # Errors
/// As [`SortKey::append_key`].
pub fn compare_items(order: &dyn SortKey, a: &[u8], b: &[u8]) -> Result<Ordering, NoKey> {
    let (mut key_of_a, mut key_of_b) = (Vec::new(), Vec::new());
    order.append_key(a, &mut key_of_a)?;
    order.append_key(b, &mut key_of_b)?;
    let rank = Rank::new(order);
    let by_key = rank.by_key((a, &key_of_a), (b, &key_of_b));
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
