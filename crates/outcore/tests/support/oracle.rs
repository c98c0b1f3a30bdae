//! The naive sort: the order of the manual, compared key by key, without regard for speed.
//!
//! Contract: written from the definition, not from the engine. Keys are read as numbers and
//! compared as such: integers by value; floats by value with -0.0 before 0.0 and all NaNs last and
//! equal; bytes as unsigned bytes; several numbers one after another. A descending field, and a
//! descending job, reverse keys. Ties go by the bits of NaNs as unsigned integers, in the direction
//! of the key, then by the whole record as unsigned bytes, never reversed; with `stable`, by the
//! position in the input. `unique` keeps the first record of each key in that order.

use std::cmp::Ordering;

use outcore::key::{Endian, KeyField, KeyKind, Number, NumberType, RecordFormat};
use outcore::sort::SortOptions;

/// The bits of a number, independent of its byte order.
fn bits(bytes: &[u8], endian: Endian) -> u128 {
    let mut bits = 0;
    for index in 0..bytes.len() {
        let byte = match endian {
            Endian::Little => bytes[bytes.len() - 1 - index],
            Endian::Big => bytes[index],
        };
        bits = bits * 256 + u128::from(byte);
    }
    bits
}

/// Whether NaNs with different bits are equal.
#[derive(Clone, Copy, PartialEq)]
enum Nans {
    One,
    Bits,
}

fn compare_floats((a, bits_a): (f64, u128), (b, bits_b): (f64, u128), nans: Nans) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) if nans == Nans::One => Ordering::Equal,
        (true, true) => bits_a.cmp(&bits_b),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        // Equal floats with different bits are the two zeros: the negative one is first.
        (false, false) => match a.partial_cmp(&b) {
            Some(Ordering::Equal) => b.is_sign_negative().cmp(&a.is_sign_negative()),
            Some(unequal) => unequal,
            None => Ordering::Equal,
        },
    }
}

fn compare_numbers(a: &[u8], b: &[u8], number: Number, nans: Nans) -> Ordering {
    let (a, b) = (bits(a, number.endian), bits(b, number.endian));
    match number.kind {
        NumberType::U8 | NumberType::U16 | NumberType::U32 | NumberType::U64 => a.cmp(&b),
        NumberType::U128 => a.cmp(&b),
        NumberType::I8 => (a as i8).cmp(&(b as i8)),
        NumberType::I16 => (a as i16).cmp(&(b as i16)),
        NumberType::I32 => (a as i32).cmp(&(b as i32)),
        NumberType::I64 => (a as i64).cmp(&(b as i64)),
        NumberType::F16 => {
            let float = |bits: u128| half::f16::from_bits(bits as u16).to_f64();
            compare_floats((float(a), a), (float(b), b), nans)
        }
        NumberType::F32 => {
            let float = |bits: u128| f64::from(f32::from_bits(bits as u32));
            // Widening may change a NaN's bits, so the original bits are compared.
            compare_floats((float(a), a), (float(b), b), nans)
        }
        NumberType::F64 => {
            let float = |bits: u128| f64::from_bits(bits as u64);
            compare_floats((float(a), a), (float(b), b), nans)
        }
    }
}

fn compare_field(a: &[u8], b: &[u8], key: &KeyField, nans: Nans) -> Ordering {
    let range = key.offset_bytes..key.offset_bytes + key.len_bytes;
    let (a, b) = (&a[range.clone()], &b[range]);
    let order = match key.kind {
        KeyKind::Bytes => a.cmp(b),
        KeyKind::Numbers(number) => a
            .chunks(number.bytes())
            .zip(b.chunks(number.bytes()))
            .map(|(a, b)| compare_numbers(a, b, number, nans))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal),
    };
    if key.descending {
        order.reverse()
    } else {
        order
    }
}

/// Compares the keys of two records.
pub fn compare_keys(a: &[u8], b: &[u8], format: &RecordFormat, descending: bool) -> Ordering {
    compare_with((a, b), format, descending, Nans::One)
}

fn compare_with(
    (a, b): (&[u8], &[u8]),
    format: &RecordFormat,
    descending: bool,
    nans: Nans,
) -> Ordering {
    let order = format
        .keys()
        .iter()
        .map(|key| compare_field(a, b, key, nans))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal);
    if descending { order.reverse() } else { order }
}

/// The expected result of the engine for `input`.
pub fn sorted(input: &[u8], format: &RecordFormat, options: SortOptions) -> Vec<u8> {
    let mut records: Vec<&[u8]> = input.chunks_exact(format.record_bytes()).collect();
    // A stable sort, so that with `stable` the position in the input decides.
    records.sort_by(|a, b| {
        let keys = compare_keys(a, b, format, options.descending);
        if options.stable {
            keys
        } else {
            let bits = || compare_with((a, b), format, options.descending, Nans::Bits);
            keys.then_with(bits).then_with(|| a.cmp(b))
        }
    });
    if options.unique {
        records.dedup_by(|b, a| compare_keys(a, b, format, options.descending).is_eq());
    }
    records.concat()
}
