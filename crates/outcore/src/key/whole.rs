//! Records of 16 bytes as native integers in the wanted order, and back.
//!
//! Contract: after [`WholeOrder::encode`] a record is its order string ([`super::order`]) as a
//! native `u128`; [`WholeOrder::decode`] restores the exact bytes. This needs a string that is as
//! long as the record and contains each byte of the record once. Such a string has key fields that
//! do not overlap, followed by the record's other bytes as a tie-break. Equal integers are then
//! equal records, and such a record is sorted like a scalar: in place, without references. If no
//! field is a float, encoding and decoding only move bytes and flip bits; otherwise they work in
//! batches that fit in the first-level cache. Nothing is allocated.

use super::byte_order::ByteOrder;
use super::order::{Order, whole_atoms_of};
use super::record::RecordFormat;
use super::sort_key::Tie;
use super::word::Atom;

/// Bytes of such a record.
const RECORD_BYTES: usize = size_of::<u128>();
/// Records that are converted at once.
const BATCH: usize = 256;

/// How records of one format become integers.
#[derive(Debug, Clone)]
pub(crate) struct WholeOrder {
    order: Order,
    /// The parts of the string, in order.
    atoms: Vec<Atom>,
    /// The byte moves of encoding and decoding, if these are enough.
    moves: Option<(ByteOrder, ByteOrder)>,
}

impl WholeOrder {
    /// The order of `format` with ties broken by the records' bytes; `None` if the string is longer
    /// or shorter than an integer.
    pub(crate) fn of(format: &RecordFormat, descending: bool) -> Option<Self> {
        if format.record_bytes() != RECORD_BYTES {
            return None;
        }
        let atoms = whole_atoms_of(format, descending)?;
        let string_bytes: usize = atoms.iter().map(Atom::len_bytes).sum();
        if string_bytes != RECORD_BYTES {
            return None;
        }
        let mut whole = WholeOrder {
            order: Order::of_atoms(format, &atoms, Tie::Bytes),
            atoms,
            moves: None,
        };
        if whole.atoms.iter().all(Atom::is_fixed) {
            let encoding = ByteOrder::of(|record| whole.encode_numbers(record));
            let decoding = ByteOrder::of(|record| whole.decode_numbers(record));
            whole.moves = Some((encoding, decoding));
        }
        Some(whole)
    }

    /// Whether every byte of a record is in a key, so that records of equal keys are equal.
    pub(crate) fn covers_record(&self) -> bool {
        self.order.covers_record()
    }

    /// Converts whole records to integers in place.
    pub(crate) fn encode(&self, records: &mut [u8]) {
        match &self.moves {
            Some((encoding, _)) => encoding.apply(records.as_chunks_mut().0),
            None => self.encode_numbers(records),
        }
    }

    /// The inverse of [`WholeOrder::encode`].
    pub(crate) fn decode(&self, records: &mut [u8]) {
        match &self.moves {
            Some((_, decoding)) => decoding.apply(records.as_chunks_mut().0),
            None => self.decode_numbers(records),
        }
    }

    /// Encodes number by number, for any numbers.
    fn encode_numbers(&self, records: &mut [u8]) {
        let (mut high, mut low) = ([0; BATCH], [0; BATCH]);
        for batch in records.chunks_mut(BATCH * RECORD_BYTES) {
            let count = batch.len() / RECORD_BYTES;
            let (high, low) = (&mut high[..count], &mut low[..count]);
            self.order.fill_words(batch, 0, high);
            self.order.fill_words(batch, 1, low);
            let (places, _) = batch.as_chunks_mut();
            for ((place, high), low) in places.iter_mut().zip(high).zip(low) {
                *place = (u128::from(*high) << 64 | u128::from(*low)).to_ne_bytes();
            }
        }
    }

    /// Decodes number by number, for any numbers.
    fn decode_numbers(&self, records: &mut [u8]) {
        let mut strings = [0; BATCH];
        let mut restored = [0; BATCH];
        for batch in records.chunks_mut(BATCH * RECORD_BYTES) {
            let (places, _) = batch.as_chunks_mut::<RECORD_BYTES>();
            let strings = &mut strings[..places.len()];
            for (string, place) in strings.iter_mut().zip(places.iter()) {
                *string = u128::from_ne_bytes(*place);
            }
            let restored = &mut restored[..places.len()];
            restored.fill(0);
            let mut from_bytes = 0;
            for atom in &self.atoms {
                restore(atom, from_bytes, strings, restored);
                from_bytes += atom.len_bytes();
            }
            for (place, record) in places.iter_mut().zip(restored) {
                *place = record.to_be_bytes();
            }
        }
    }
}

/// Adds the value of an atom, which begins at byte `from_bytes` of `strings`, to the records, as
/// big-endian integers.
fn restore(atom: &Atom, from_bytes: usize, strings: &[u128], records: &mut [u128]) {
    let shift = |at_bytes: usize| 8 * (RECORD_BYTES - at_bytes - atom.len_bytes());
    let from = shift(from_bytes);
    let mask = u128::MAX >> (8 * (RECORD_BYTES - atom.len_bytes()));
    match *atom {
        Atom::Bytes {
            offset_bytes,
            is_flipped,
            ..
        } => {
            let (to, flip) = (shift(offset_bytes), if is_flipped { mask } else { 0 });
            for (record, string) in records.iter_mut().zip(strings) {
                *record |= ((string >> from & mask) ^ flip) << to;
            }
        }
        Atom::Number {
            offset_bytes,
            bytes,
            lane,
        } => {
            let to = shift(offset_bytes);
            for (record, string) in records.iter_mut().zip(strings) {
                let number = lane.restore((string >> from & mask) as u64, bytes);
                *record |= u128::from(number) << to;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::order::OrderOptions;
    use proptest::prelude::*;

    #[test]
    fn only_strings_that_are_the_record_in_another_order_are_integers() {
        for (text, is_whole) in [
            ("bytes16", true),
            ("16/0:8:u64", true),
            ("16/8:8:f64:desc", true),
            ("16/3:5,0:2:i16", true),
            ("16/0:8:u64,4:4", false),
            ("16/0:4:u32,8:8:f64", true),
            ("16/0:8:f64,8:8:u64", false),
            ("f64x2", false),
            ("24/0:8:u64", false),
            ("8/0:4", false),
        ] {
            let format = RecordFormat::parse_type(text).unwrap();
            assert_eq!(WholeOrder::of(&format, false).is_some(), is_whole, "{text}");
        }
    }

    proptest! {
        #[test]
        fn records_compare_as_their_integers_do_and_come_back(
            text in prop_oneof![
                Just("bytes16"), Just("16/0:10"), Just("16/6:3"), Just("16/0:8:u64"),
                Just("16/8:8:u64be:desc"), Just("16/8:8:f64"), Just("16/2:1,4:8:f64be"),
                Just("16/4:4:i32:desc,0:4:f32"), Just("16/0:4:u32"), Just("16/12:4:u32"),
                Just("16/1:2:i16be,3:4:f32"), Just("16/0:16:u128"), Just("16/9:1,0:8"),
                Just("16/5:1:i8,6:8:i64,0:4:u32:desc"),
            ],
            descending: bool,
            mut bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..5000),
                prop::collection::vec(prop_oneof![Just(0u8), Just(255), Just(127), Just(240)], 0..5000),
            ],
        ) {
            let format = RecordFormat::parse_type(text).unwrap();
            bytes.truncate(bytes.len() / RECORD_BYTES * RECORD_BYTES);
            let whole = WholeOrder::of(&format, descending).unwrap();
            let order = Order::new(&format, OrderOptions { descending, tie: Tie::Bytes });
            let mut encoded = bytes.clone();
            whole.encode(&mut encoded);
            let number = |record: &[u8]| u128::from_ne_bytes(record.try_into().unwrap());
            let records: Vec<&[u8]> = bytes.chunks(RECORD_BYTES).collect();
            let numbers: Vec<u128> = encoded.chunks(RECORD_BYTES).map(number).collect();
            for (records, numbers) in records.windows(2).zip(numbers.windows(2)) {
                let wanted = order.compare(records[0], records[1]);
                prop_assert_eq!(numbers[0].cmp(&numbers[1]), wanted);
            }
            whole.decode(&mut encoded);
            prop_assert_eq!(encoded, bytes);
        }
    }
}
