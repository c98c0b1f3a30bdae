//! Scalars: records of one number, converted to native unsigned integers and back.
//!
//! Contract: after `encode_*`, the integers' natural order is the wanted order (byte order, sign,
//! floats with NaNs, direction); `decode_*` restores the exact bits. Both work in place, allocate
//! nothing, and are branch-free loops that the compiler vectorises. Because every map is a
//! bijection, equal integers are equal records, so the order by bytes needs no tie-break here.

use super::normal::{Map, order_f32, order_f64, restore_f32, restore_f64};
use super::record::{Endian, Number, NumberType, RecordFormat};

/// The native integer for a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScalarClass {
    /// `u32`, `i32`, `f32`.
    U32,
    /// `u64`, `i64`, `f64`.
    U64,
    /// `u128`.
    U128,
}

/// How one scalar type becomes a native unsigned integer in the wanted order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScalarOrder {
    class: ScalarClass,
    map: Map,
    is_swapped: bool,
    descending: bool,
}

macro_rules! number_maps {
    ($encode:ident, $decode:ident, $unsigned:ty, $class:ident, $order:ident, $restore:ident) => {
        /// Converts numbers, loaded as native integers from the file's bytes, to integers in the
        /// wanted order. Panics if the scalar has another class.
        pub(crate) fn $encode(&self, values: &mut [$unsigned]) {
            assert_eq!(self.class, ScalarClass::$class, "numbers of another size");
            let flip: $unsigned = if self.descending { <$unsigned>::MAX } else { 0 };
            let sign = self.sign_mask() as $unsigned ^ flip;
            match (self.map, self.is_swapped) {
                (Map::Float, false) => each(values, |value| $order(value) ^ flip),
                (Map::Float, true) => each(values, |value| $order(value.swap_bytes()) ^ flip),
                (_, false) if sign == 0 => {}
                (_, false) => each(values, |value| value ^ sign),
                (_, true) => each(values, |value| value.swap_bytes() ^ sign),
            }
        }

        /// The inverse of the function above: the file's bytes, exactly.
        pub(crate) fn $decode(&self, values: &mut [$unsigned]) {
            assert_eq!(self.class, ScalarClass::$class, "numbers of another size");
            let flip: $unsigned = if self.descending { <$unsigned>::MAX } else { 0 };
            let sign = self.sign_mask() as $unsigned ^ flip;
            match (self.map, self.is_swapped) {
                (Map::Float, false) => each(values, |value| $restore(value ^ flip)),
                (Map::Float, true) => each(values, |value| $restore(value ^ flip).swap_bytes()),
                (_, false) if sign == 0 => {}
                (_, false) => each(values, |value| value ^ sign),
                (_, true) => each(values, |value| (value ^ sign).swap_bytes()),
            }
        }
    };
}

impl ScalarOrder {
    /// The order of `number`, largest first if `descending`; `None` if it is smaller than four
    /// bytes and so not a scalar.
    pub(crate) const fn new(number: Number, descending: bool) -> Option<Self> {
        let class = match number.kind {
            NumberType::U32 | NumberType::I32 | NumberType::F32 => ScalarClass::U32,
            NumberType::U64 | NumberType::I64 | NumberType::F64 => ScalarClass::U64,
            NumberType::U128 => ScalarClass::U128,
            NumberType::U8
            | NumberType::I8
            | NumberType::U16
            | NumberType::I16
            | NumberType::F16 => {
                return None;
            }
        };
        let is_swapped = match (number.endian, Endian::NATIVE) {
            (Endian::Little, Endian::Little) | (Endian::Big, Endian::Big) => false,
            (Endian::Little, Endian::Big) | (Endian::Big, Endian::Little) => true,
        };
        Some(ScalarOrder {
            class,
            map: Map::of(number.kind),
            is_swapped,
            descending,
        })
    }

    /// The order of a format whose records are scalars ([`RecordFormat::scalar`]); `descending` is
    /// that of the whole job and reverses the field's own direction.
    pub(crate) fn of(format: &RecordFormat, descending: bool) -> Option<Self> {
        let number = format.scalar()?;
        let is_field_descending = format.keys().iter().any(|key| key.descending);
        Self::new(number, is_field_descending != descending)
    }

    /// The native integer to use.
    pub(crate) const fn class(&self) -> ScalarClass {
        self.class
    }

    /// True if encoding and decoding change nothing, so that callers can skip both.
    pub(crate) const fn is_identity(&self) -> bool {
        matches!(self.map, Map::Unsigned) && !self.is_swapped && !self.descending
    }

    /// The sign bit, if it is flipped.
    const fn sign_mask(&self) -> u64 {
        match (self.map, self.class) {
            (Map::Signed, ScalarClass::U32) => 1 << 31,
            (Map::Signed, ScalarClass::U64) => 1 << 63,
            _ => 0,
        }
    }

    number_maps!(encode_u32, decode_u32, u32, U32, order_f32, restore_f32);
    number_maps!(encode_u64, decode_u64, u64, U64, order_f64, restore_f64);

    /// As [`ScalarOrder::encode_u64`] for 16-byte integers.
    pub(crate) fn encode_u128(&self, values: &mut [u128]) {
        assert_eq!(self.class, ScalarClass::U128, "numbers of another size");
        let flip = if self.descending { u128::MAX } else { 0 };
        match self.is_swapped {
            true => each(values, |value| value.swap_bytes() ^ flip),
            false if flip != 0 => each(values, |value| value ^ flip),
            false => {}
        }
    }

    /// The inverse of [`ScalarOrder::encode_u128`]; the map is its own inverse.
    pub(crate) fn decode_u128(&self, values: &mut [u128]) {
        self.encode_u128(values);
    }
}

/// The hot loop, compiled once per map.
#[inline(always)]
fn each<T: Copy>(values: &mut [T], map: impl Fn(T) -> T) {
    for value in values {
        *value = map(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::normal::tests::{f32_bits, f64_bits, naive_f32, naive_f64};
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn native(number: Number) -> bool {
        number.endian == Endian::NATIVE
    }

    fn naive_u32(number: Number, a: u32, b: u32) -> Ordering {
        let (a, b) = if native(number) {
            (a, b)
        } else {
            (a.swap_bytes(), b.swap_bytes())
        };
        match number.kind {
            NumberType::I32 => (a as i32).cmp(&(b as i32)),
            NumberType::F32 => naive_f32(f32::from_bits(a), f32::from_bits(b)),
            _ => a.cmp(&b),
        }
    }

    fn naive_u64(number: Number, a: u64, b: u64) -> Ordering {
        let (a, b) = if native(number) {
            (a, b)
        } else {
            (a.swap_bytes(), b.swap_bytes())
        };
        match number.kind {
            NumberType::I64 => (a as i64).cmp(&(b as i64)),
            NumberType::F64 => naive_f64(f64::from_bits(a), f64::from_bits(b)),
            _ => a.cmp(&b),
        }
    }

    #[test]
    fn small_numbers_are_not_scalars_and_plain_unsigned_ones_need_no_work() {
        for endian in [Endian::Little, Endian::Big] {
            for kind in NumberType::ALL {
                let number = Number::new(kind, endian);
                let order = ScalarOrder::new(number, false);
                assert_eq!(order.is_some(), kind.bytes() >= 4);
                if let Some(order) = order {
                    let class = match kind.bytes() {
                        4 => ScalarClass::U32,
                        8 => ScalarClass::U64,
                        _ => ScalarClass::U128,
                    };
                    assert_eq!(order.class(), class);
                    let is_plain = Map::of(kind) == Map::Unsigned && native(number);
                    assert_eq!(order.is_identity(), is_plain);
                    assert!(!ScalarOrder::new(number, true).unwrap().is_identity());
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn four_byte_numbers_sort_as_integers_and_come_back(
            kind in 0usize..3, is_big: bool, descending: bool, a in f32_bits(), b in f32_bits(),
        ) {
            let kind = [NumberType::U32, NumberType::I32, NumberType::F32][kind];
            let number = Number::new(kind, if is_big { Endian::Big } else { Endian::Little });
            let order = ScalarOrder::new(number, descending).unwrap();
            let (a, b) = if native(number) { (a, b) } else { (a.swap_bytes(), b.swap_bytes()) };
            let mut values = [a, b];
            order.encode_u32(&mut values);
            let naive = naive_u32(number, a, b);
            let wanted = if descending { naive.reverse() } else { naive };
            prop_assert_eq!(values[0].cmp(&values[1]), wanted);
            order.decode_u32(&mut values);
            prop_assert_eq!(values, [a, b]);
        }

        #[test]
        fn eight_byte_numbers_sort_as_integers_and_come_back(
            kind in 0usize..3, is_big: bool, descending: bool, a in f64_bits(), b in f64_bits(),
        ) {
            let kind = [NumberType::U64, NumberType::I64, NumberType::F64][kind];
            let number = Number::new(kind, if is_big { Endian::Big } else { Endian::Little });
            let order = ScalarOrder::new(number, descending).unwrap();
            let (a, b) = if native(number) { (a, b) } else { (a.swap_bytes(), b.swap_bytes()) };
            let mut values = [a, b];
            order.encode_u64(&mut values);
            let naive = naive_u64(number, a, b);
            let wanted = if descending { naive.reverse() } else { naive };
            prop_assert_eq!(values[0].cmp(&values[1]), wanted);
            order.decode_u64(&mut values);
            prop_assert_eq!(values, [a, b]);
        }

        #[test]
        fn sixteen_byte_numbers_sort_as_integers_and_come_back(
            is_big: bool, descending: bool, a: u128, b: u128,
        ) {
            let endian = if is_big { Endian::Big } else { Endian::Little };
            let order = ScalarOrder::new(Number::new(NumberType::U128, endian), descending).unwrap();
            let (bytes_a, bytes_b) =
                if is_big { (a.to_be_bytes(), b.to_be_bytes()) } else { (a.to_le_bytes(), b.to_le_bytes()) };
            let loaded = [u128::from_ne_bytes(bytes_a), u128::from_ne_bytes(bytes_b)];
            let mut values = loaded;
            order.encode_u128(&mut values);
            let wanted = if descending { b.cmp(&a) } else { a.cmp(&b) };
            prop_assert_eq!(values[0].cmp(&values[1]), wanted);
            order.decode_u128(&mut values);
            prop_assert_eq!(values, loaded);
        }
    }
}
