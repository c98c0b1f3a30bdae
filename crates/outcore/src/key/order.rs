//! The total order of records, as 8-byte words with the wanted unsigned order.
//!
//! Contract: every record has an *order string*, which consists of:
//! - its key fields in order of weight, each number mapped to big-endian bytes of the same order
//!   (NaNs last and all equal; -0.0 before 0.0), complemented if the field is descending
//! - unless positions break ties, the floats of the key once more by all their bits, so that bits
//!   decide between NaNs
//! - the whole record's raw bytes: under [`Tie::Bytes`] as they are, under [`Tie::BytesDescending`]
//!   complemented
//!
//! Strings compare as unsigned bytes. A descending job reverses every field, so a field marked
//! `desc` becomes ascending in it. The raw part omits bytes of key fields. A comparison reaches it
//! only if the keys are equal, and every map is a bijection except for NaNs, so those bytes are
//! equal as well. So a gensort record's string is the record itself, and that of an integer is the
//! number.
//!
//! Word `d` is bytes `8d..8d+8` of the string, zero padded, as a big-endian integer. Each word is
//! compiled once into a small program; loops over many records ([`Order::each_word`]) select the
//! program outside. Memory: 64 bytes per word of the string, and up to another 48 per key byte if
//! numbers of one byte must be shifted together. That is at most 21 MiB for the longest key in the
//! longest record, and 1 KiB for gensort. No allocation after construction, no I/O.

use std::cmp::Ordering;

use super::normal::Map;
use super::record::{Endian, KeyField, KeyKind, RecordFormat};
use super::sort_key::{NoKey, SortKey, Tie};
use super::word::{Atom, NumberBits, Word, compile};

/// Options of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OrderOptions {
    /// Reverses the key order, NaNs first; ties keep their order.
    pub descending: bool,
    /// Tie-break between equal keys.
    pub tie: Tie,
}

/// The total order of a record format; built once per job and shared by all threads.
#[derive(Debug, Clone)]
pub struct Order {
    record_bytes: usize,
    key_bytes: usize,
    covers_record: bool,
    tie: Tie,
    words: Vec<Word>,
    /// From this word on the string is raw bytes of the record ...
    tail_depth: usize,
    /// ... from `tail_offset_bytes` to `tail_end_bytes`, so the comparison is a `memcmp`.
    tail_offset_bytes: usize,
    tail_end_bytes: usize,
}

impl Order {
    /// Compiles the order of `format`.
    pub fn new(format: &RecordFormat, options: OrderOptions) -> Self {
        Self::of_atoms(format, &atoms_of(format, options), options.tie)
    }

    /// The order whose string consists of `atoms`.
    pub(super) fn of_atoms(format: &RecordFormat, atoms: &[Atom], tie: Tie) -> Self {
        let record_bytes = format.record_bytes();
        let key_bytes = format.keys().iter().map(|key| key.len_bytes).sum();
        let covers_record = !format.has_floats() && is_key(format).iter().all(|covered| *covered);
        let string_bytes = atoms.iter().map(Atom::len_bytes).sum();
        let (tail_depth, tail_offset_bytes, tail_end_bytes) = tail(atoms, string_bytes);
        let words = compile(atoms, record_bytes, string_bytes);
        Order {
            record_bytes,
            key_bytes,
            covers_record,
            tie,
            words,
            tail_depth,
            tail_offset_bytes,
            tail_end_bytes,
        }
    }

    /// Size of a record.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Length of the key part of the string.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Words that hold key bytes; the last may also hold raw bytes (see [`Order::key_mask`]).
    pub(crate) fn key_words(&self) -> usize {
        self.key_bytes.div_ceil(8)
    }

    /// Words of the whole string: records are equal in this order when all of them are.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// The bits of word `depth` that belong to the key.
    pub(crate) fn key_mask(&self, depth: usize) -> u64 {
        let bytes = self.key_bytes.saturating_sub(8 * depth).min(8);
        if bytes == 0 {
            0
        } else {
            u64::MAX << (64 - 8 * bytes)
        }
    }

    /// True if records with equal keys are equal: every byte is in a key, and no key holds floats.
    pub(crate) fn covers_record(&self) -> bool {
        self.covers_record
    }

    /// Word `depth` of the record's string. Panics if `depth >= words()` or the record is shorter
    /// than the format's.
    #[inline]
    pub fn word(&self, record: &[u8], depth: usize) -> u64 {
        self.words[depth].value(record)
    }

    /// Calls `visit(index, word)` with word `depth` of every record in `records`, a whole number of
    /// records; the program is chosen outside the loop.
    #[inline]
    pub(crate) fn each_word(&self, records: &[u8], depth: usize, visit: impl FnMut(usize, u64)) {
        self.words[depth].each(records, self.record_bytes, visit);
    }

    /// Writes word `depth` of every record in `records` to `words`. Panics unless `records` holds
    /// exactly `words.len()` records.
    pub(crate) fn fill_words(&self, records: &[u8], depth: usize, words: &mut [u64]) {
        assert_eq!(
            records.len(),
            words.len() * self.record_bytes,
            "as many words as records"
        );
        let mut slots = words.iter_mut();
        self.each_word(records, depth, |_, word| {
            if let Some(slot) = slots.next() {
                *slot = word;
            }
        });
    }

    /// Compares the whole strings of two records.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_from_word(a, b, 0)
    }

    /// Compares the strings in word `depth` and those after it, for callers that know that the
    /// words before are equal. `depth >= words()` gives `Equal`.
    #[inline]
    pub(crate) fn compare_from_word(&self, a: &[u8], b: &[u8], depth: usize) -> Ordering {
        for depth in depth..self.tail_depth {
            let word = &self.words[depth];
            match word.value(a).cmp(&word.value(b)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        let skipped_bytes = 8 * depth.saturating_sub(self.tail_depth);
        let start = (self.tail_offset_bytes + skipped_bytes).min(self.tail_end_bytes);
        a[start..self.tail_end_bytes].cmp(&b[start..self.tail_end_bytes])
    }

    /// Compares only the keys.
    #[inline]
    pub fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.tail_depth == 0 {
            let end = self.tail_offset_bytes + self.key_bytes;
            return a[self.tail_offset_bytes..end].cmp(&b[self.tail_offset_bytes..end]);
        }
        for depth in 0..self.key_words() {
            let (word, mask) = (&self.words[depth], self.key_mask(depth));
            match (word.value(a) & mask).cmp(&(word.value(b) & mask)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        Ordering::Equal
    }
}

/// The order as keys, for code that orders items of any kind; the methods above need no keys.
impl SortKey for Order {
    fn append_key(&self, record: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey> {
        let end = key.len() + self.key_bytes;
        for depth in 0..self.key_words() {
            key.extend_from_slice(&self.word(record, depth).to_be_bytes());
        }
        key.truncate(end);
        Ok(())
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

/// For each byte of a record, whether it is in a key field.
fn is_key(format: &RecordFormat) -> Vec<bool> {
    let mut is_key = vec![false; format.record_bytes()];
    for key in format.keys() {
        is_key[key.offset_bytes..key.offset_bytes + key.len_bytes].fill(true);
    }
    is_key
}

/// The parts of a format's order string, in order.
pub(super) fn atoms_of(format: &RecordFormat, options: OrderOptions) -> Vec<Atom> {
    let mut atoms = Vec::new();
    let is_flipped = |key: &KeyField| key.descending != options.descending;
    for key in format.keys() {
        push_key(&mut atoms, key, is_flipped(key), Nans::AreOne);
    }
    if options.tie != Tie::Position {
        for key in format.keys().iter().filter(|key| key.is_of_floats()) {
            push_key(&mut atoms, key, is_flipped(key), Nans::ByBits);
        }
        push_rest(&mut atoms, format, options.tie);
    }
    atoms
}

/// As [`atoms_of`], but each byte of a record occurs once, so that the string is another form of
/// the record. Floats compare by all their bits. `None` if another part of the key follows a float,
/// because NaNs with different bits would prevent its comparison.
pub(super) fn whole_atoms_of(format: &RecordFormat, descending: bool) -> Option<Vec<Atom>> {
    let (last, others) = format.keys().split_last()?;
    let is_one = |key: &KeyField| matches!(key.kind, KeyKind::Numbers(number) if number.bytes() == key.len_bytes);
    if others.iter().any(KeyField::is_of_floats) || last.is_of_floats() && !is_one(last) {
        return None;
    }
    let mut atoms = Vec::new();
    for key in format.keys() {
        let is_flipped = key.descending != descending;
        push_key(&mut atoms, key, is_flipped, Nans::ByBits);
    }
    push_rest(&mut atoms, format, Tie::Bytes);
    Some(atoms)
}

/// How NaNs compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nans {
    AreOne,
    ByBits,
}

/// Appends the bytes of a record that are in no key.
fn push_rest(atoms: &mut Vec<Atom>, format: &RecordFormat, tie: Tie) {
    let is_key = is_key(format);
    for offset_bytes in (0..is_key.len()).filter(|offset_bytes| !is_key[*offset_bytes]) {
        let byte = Atom::Bytes {
            offset_bytes,
            len_bytes: 1,
            is_flipped: tie == Tie::BytesDescending,
        };
        push_atom(atoms, byte);
    }
}

/// Appends an atom; joins it with the last one if both are adjacent raw bytes.
fn push_atom(atoms: &mut Vec<Atom>, atom: Atom) {
    if let (
        Some(Atom::Bytes {
            offset_bytes: before,
            len_bytes,
            is_flipped: was_flipped,
        }),
        Atom::Bytes {
            offset_bytes,
            len_bytes: more,
            is_flipped,
        },
    ) = (atoms.last_mut(), atom)
        && *before + *len_bytes == offset_bytes
        && *was_flipped == is_flipped
    {
        *len_bytes += more;
        return;
    }
    atoms.push(atom);
}

/// Lowers a key field. Unsigned big-endian numbers are raw bytes; 16-byte little-endian ones are
/// their high half, then their low half.
fn push_key(atoms: &mut Vec<Atom>, key: &KeyField, is_flipped: bool, nans: Nans) {
    let KeyField {
        offset_bytes,
        len_bytes,
        kind,
        ..
    } = *key;
    let number = match kind {
        KeyKind::Bytes => {
            return push_atom(
                atoms,
                Atom::Bytes {
                    offset_bytes,
                    len_bytes,
                    is_flipped,
                },
            );
        }
        KeyKind::Numbers(number) => number,
    };
    let (bytes, map) = (number.bytes(), Map::of(number.kind));
    let is_raw = map == Map::Unsigned && (number.endian == Endian::Big || bytes == 1);
    if is_raw {
        return push_atom(
            atoms,
            Atom::Bytes {
                offset_bytes,
                len_bytes,
                is_flipped,
            },
        );
    }
    let mut lane = NumberBits::new(bytes.min(8), number.endian, map, is_flipped);
    if map == Map::Float && nans == Nans::AreOne {
        lane = lane.with_one_nan(bytes);
    }
    for offset_bytes in (offset_bytes..offset_bytes + len_bytes).step_by(bytes) {
        if bytes == 16 {
            atoms.push(Atom::Number {
                offset_bytes: offset_bytes + 8,
                bytes: 8,
                lane,
            });
            atoms.push(Atom::Number {
                offset_bytes,
                bytes: 8,
                lane,
            });
        } else {
            atoms.push(Atom::Number {
                offset_bytes,
                bytes,
                lane,
            });
        }
    }
}

/// The range of plain raw bytes at the string's end: (first whole word, its offset, end offset).
fn tail(atoms: &[Atom], string_bytes: usize) -> (usize, usize, usize) {
    if let Some(Atom::Bytes {
        offset_bytes,
        len_bytes,
        is_flipped: false,
    }) = atoms.last()
    {
        let start = string_bytes - len_bytes;
        let depth = start.div_ceil(8);
        if 8 * depth < string_bytes {
            return (
                depth,
                offset_bytes + 8 * depth - start,
                offset_bytes + len_bytes,
            );
        }
    }
    (string_bytes.div_ceil(8), 0, 0)
}

#[cfg(test)]
mod tests {
    use super::super::normal::tests::{naive_f16, naive_f32, naive_f64};
    use super::super::record::tests::any_format;
    use super::super::record::{Number, NumberType};
    use super::super::scalar::{ScalarClass, ScalarOrder};
    use super::super::sort_key::compare_items;
    use super::*;
    use proptest::prelude::*;

    fn number(bytes: &[u8], number: Number) -> u128 {
        let mut big: Vec<u8> = bytes.to_vec();
        if number.endian == Endian::Little {
            big.reverse();
        }
        big.iter()
            .fold(0, |value, byte| value << 8 | u128::from(*byte))
    }

    fn naive_number(a: &[u8], b: &[u8], kind: Number) -> Ordering {
        let (a, b) = (number(a, kind), number(b, kind));
        match kind.kind {
            NumberType::I8 => (a as u8 as i8).cmp(&(b as u8 as i8)),
            NumberType::I16 => (a as u16 as i16).cmp(&(b as u16 as i16)),
            NumberType::I32 => (a as u32 as i32).cmp(&(b as u32 as i32)),
            NumberType::I64 => (a as u64 as i64).cmp(&(b as u64 as i64)),
            NumberType::F16 => naive_f16(a as u16, b as u16),
            NumberType::F32 => naive_f32(f32::from_bits(a as u32), f32::from_bits(b as u32)),
            NumberType::F64 => naive_f64(f64::from_bits(a as u64), f64::from_bits(b as u64)),
            _ => a.cmp(&b),
        }
    }

    fn is_nan(bytes: &[u8], kind: Number) -> bool {
        let bits = number(bytes, kind);
        match kind.kind {
            NumberType::F16 => half::f16::from_bits(bits as u16).is_nan(),
            NumberType::F32 => f32::from_bits(bits as u32).is_nan(),
            NumberType::F64 => f64::from_bits(bits as u64).is_nan(),
            _ => false,
        }
    }

    /// The key order, directly from the contract.
    fn naive_keys(format: &RecordFormat, descending: bool, a: &[u8], b: &[u8]) -> Ordering {
        let one_nan = |a: &[u8], b: &[u8], kind| match is_nan(a, kind) && is_nan(b, kind) {
            true => Ordering::Equal,
            false => naive_number(a, b, kind),
        };
        naive_keys_by(format, (descending, &one_nan), a, b)
    }

    type Compare<'a> = &'a dyn Fn(&[u8], &[u8], Number) -> Ordering;

    fn naive_keys_by(
        format: &RecordFormat,
        (descending, compare): (bool, Compare<'_>),
        a: &[u8],
        b: &[u8],
    ) -> Ordering {
        for key in format.keys() {
            let range = key.offset_bytes..key.offset_bytes + key.len_bytes;
            let (a, b) = (&a[range.clone()], &b[range]);
            let ordering = match key.kind {
                KeyKind::Bytes => a.cmp(b),
                KeyKind::Numbers(kind) => a
                    .chunks(kind.bytes())
                    .zip(b.chunks(kind.bytes()))
                    .map(|(a, b)| compare(a, b, kind))
                    .find(|ordering| ordering.is_ne())
                    .unwrap_or(Ordering::Equal),
            };
            if ordering.is_ne() {
                return if key.descending != descending {
                    ordering.reverse()
                } else {
                    ordering
                };
            }
        }
        Ordering::Equal
    }

    fn naive(format: &RecordFormat, options: OrderOptions, a: &[u8], b: &[u8]) -> Ordering {
        let keys = naive_keys(format, options.descending, a, b);
        let bits = || naive_keys_by(format, (options.descending, &naive_number), a, b);
        match options.tie {
            Tie::Bytes => keys.then_with(bits).then_with(|| a.cmp(b)),
            Tie::BytesDescending => keys.then_with(bits).then_with(|| b.cmp(a)),
            Tie::Position => keys,
        }
    }

    /// A format, options and records that often share bytes with each other.
    fn any_case() -> impl Strategy<Value = (RecordFormat, OrderOptions, Vec<u8>)> {
        let tie = prop_oneof![
            Just(Tie::Bytes),
            Just(Tie::BytesDescending),
            Just(Tie::Position)
        ];
        (any_format(), any::<bool>(), tie, 1usize..6).prop_flat_map(
            |(format, descending, tie, count)| {
                let byte = prop_oneof![Just(0u8), Just(0xFF), Just(0x7F), Just(0x80), any::<u8>()];
                let bytes = proptest::collection::vec(byte, count * format.record_bytes());
                (
                    Just(format),
                    Just(OrderOptions { descending, tie }),
                    bytes,
                    any::<bool>(),
                )
                    .prop_map(|(format, options, mut bytes, is_repeated)| {
                        let record_bytes = format.record_bytes();
                        if is_repeated && bytes.len() > record_bytes {
                            // The records are equal except for one byte, so that there are ties.
                            let at = usize::from(bytes[0]) % record_bytes;
                            let (first, rest) = bytes.split_at_mut(record_bytes);
                            let kept = rest[at];
                            rest[..record_bytes].copy_from_slice(first);
                            rest[at] = kept;
                        }
                        (format, options, bytes)
                    })
            },
        )
    }

    fn words(order: &Order, record: &[u8]) -> Vec<u64> {
        (0..order.words())
            .map(|depth| order.word(record, depth))
            .collect()
    }

    fn order_of(text: &str, tie: Tie) -> Order {
        let format = RecordFormat::parse_type(text).unwrap();
        Order::new(
            &format,
            OrderOptions {
                descending: false,
                tie,
            },
        )
    }

    #[test]
    fn frequent_formats_get_the_fast_programs() {
        let order = order_of("gensort", Tie::Bytes);
        assert_eq!(
            (order.key_words(), order.words(), order.tail_depth),
            (2, 13, 0)
        );
        assert!(
            order.words[..12]
                .iter()
                .all(|word| matches!(word, Word::Bytes { .. }))
        );
        assert!(matches!(order.words[12], Word::Window(_)));
        let order = order_of("gensort", Tie::Position);
        assert_eq!((order.key_words(), order.words()), (2, 2));
        assert!(matches!(order.words[1], Word::Window(_)));
        let order = order_of("f64", Tie::Bytes);
        assert!(matches!(
            order.words.as_slice(),
            [Word::Eight { .. }, Word::Eight { .. }]
        ));
        let order = order_of("i64", Tie::Bytes);
        assert!(matches!(order.words.as_slice(), [Word::Eight { .. }]));
        let order = order_of("u128", Tie::Bytes);
        assert!(matches!(
            order.words.as_slice(),
            [Word::Eight { .. }, Word::Eight { .. }]
        ));
        let order = order_of("f32x32", Tie::Bytes);
        assert_eq!((order.words(), order.covers_record()), (32, false));
        assert!(
            order
                .words
                .iter()
                .all(|word| matches!(word, Word::Pair { .. }))
        );
        let order = order_of("i32", Tie::Bytes);
        assert!(matches!(order.words.as_slice(), [Word::Four { .. }]));
        let order = order_of("24/4:4:u32", Tie::Bytes);
        assert!(matches!(order.words[0], Word::FourThen { .. }));
        let order = order_of("16/0:8:u64", Tie::Bytes);
        assert_eq!(
            (order.words(), order.tail_depth, order.covers_record()),
            (2, 1, false)
        );
    }

    #[test]
    fn nans_of_different_bits_are_one_key_and_bits_only_break_ties() {
        let format = RecordFormat::parse_type("12/0:8:f64,8:4:u32").unwrap();
        let options = OrderOptions::default();
        let order = Order::new(&format, options);
        let record = |bits: u64, tag: u32| {
            [bits.to_le_bytes().to_vec(), tag.to_le_bytes().to_vec()].concat()
        };
        let (one, other) = (0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0001);
        assert!(
            order
                .compare_keys(&record(one, 5), &record(other, 5))
                .is_eq()
        );
        assert!(order.compare(&record(one, 5), &record(other, 5)).is_lt());
        // The next key decides before any bits do.
        assert!(order.compare(&record(other, 4), &record(one, 5)).is_lt());
        assert!(
            order
                .compare(&record(f64::INFINITY.to_bits(), 9), &record(one, 0))
                .is_lt()
        );
        let tie = Tie::Position;
        let order = Order::new(&format, OrderOptions { tie, ..options });
        assert!(order.compare(&record(one, 5), &record(other, 5)).is_eq());
    }

    #[test]
    fn descending_puts_nans_first_and_leaves_ties_ascending() {
        let format = RecordFormat::parse_type("9/0:8:f64").unwrap();
        let order = Order::new(
            &format,
            OrderOptions {
                descending: true,
                ..Default::default()
            },
        );
        let record = |value: f64, tag: u8| [&value.to_le_bytes()[..], &[tag]].concat();
        let sorted = [
            record(f64::NAN, 0),
            record(f64::INFINITY, 0),
            record(1.0, 1),
            record(1.0, 2),
            record(0.0, 0),
            record(-0.0, 0),
        ];
        for pair in sorted.windows(2) {
            assert_eq!(order.compare(&pair[0], &pair[1]), Ordering::Less);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn comparing_strings_equals_the_naive_order((format, options, bytes) in any_case()) {
            let order = Order::new(&format, options);
            for a in bytes.chunks(format.record_bytes()) {
                for b in bytes.chunks(format.record_bytes()) {
                    let wanted = naive(&format, options, a, b);
                    prop_assert_eq!(order.compare(a, b), wanted, "{}", format);
                    prop_assert_eq!(words(&order, a).cmp(&words(&order, b)), wanted, "{}", format);
                    let keys = naive_keys(&format, options.descending, a, b);
                    prop_assert_eq!(order.compare_keys(a, b), keys, "{}", format);
                    // By definition, bytes decide between NaNs, not bits.
                    if !(keys.is_eq() && format.has_floats()) {
                        prop_assert_eq!(compare_items(&order, a, b), Ok(wanted), "{}", format);
                    }
                }
            }
        }

        #[test]
        fn scalars_encode_to_the_words_of_their_records(
            kind in 0usize..12, is_big: bool, is_key_descending: bool, descending: bool, bits: u128,
        ) {
            let endian = if is_big { Endian::Big } else { Endian::Little };
            let scalar = Number::new(NumberType::ALL[kind], endian);
            let direction = if is_key_descending { "desc" } else { "asc" };
            let key = format!("0:{}:{scalar}:{direction}", scalar.bytes());
            let format = RecordFormat::parse_record(scalar.bytes(), &[key]).unwrap();
            let options = OrderOptions { descending, ..Default::default() };
            let order = Order::new(&format, options);
            let Some(scalar_order) = ScalarOrder::of(&format, descending) else {
                prop_assert!(scalar.bytes() < 4);
                return Ok(());
            };
            let bytes = bits.to_ne_bytes();
            let (mut four, mut eight) = ([bits as u32], [bits as u64]);
            let mut sixteen = [bits];
            match scalar_order.class() {
                ScalarClass::U32 => {
                    scalar_order.encode_u32(&mut four);
                    let record = (bits as u32).to_ne_bytes();
                    let word = order.word(&record, 0);
                    match scalar.kind.is_float() {
                        // A float compares by its value, then by its bits.
                        true => prop_assert_eq!(word as u32, four[0]),
                        false => prop_assert_eq!(word, u64::from(four[0]) << 32),
                    }
                }
                ScalarClass::U64 => {
                    scalar_order.encode_u64(&mut eight);
                    let record = (bits as u64).to_ne_bytes();
                    let last = order.words() - 1;
                    prop_assert_eq!(last, usize::from(scalar.kind.is_float()));
                    prop_assert_eq!(order.word(&record, last), eight[0]);
                }
                ScalarClass::U128 => {
                    scalar_order.encode_u128(&mut sixteen);
                    prop_assert_eq!(order.word(&bytes, 0), (sixteen[0] >> 64) as u64);
                    prop_assert_eq!(order.word(&bytes, 1), sixteen[0] as u64);
                }
            }
        }

        #[test]
        fn comparing_from_a_word_is_comparing_the_rest((format, options, bytes) in any_case()) {
            let order = Order::new(&format, options);
            let a = &bytes[..format.record_bytes()];
            for b in bytes.chunks(format.record_bytes()) {
                for depth in 0..=order.words() {
                    let wanted = words(&order, a)[depth..].cmp(&words(&order, b)[depth..]);
                    prop_assert_eq!(order.compare_from_word(a, b, depth), wanted);
                }
            }
        }

        #[test]
        fn words_of_many_records_are_the_words_of_each((format, options, bytes) in any_case()) {
            let order = Order::new(&format, options);
            let count = bytes.len() / format.record_bytes();
            for depth in 0..order.words() {
                let mut filled = vec![0; count];
                order.fill_words(&bytes, depth, &mut filled);
                let single: Vec<u64> = bytes
                    .chunks(format.record_bytes())
                    .map(|record| order.word(record, depth))
                    .collect();
                prop_assert_eq!(filled, single);
            }
        }
    }
}
