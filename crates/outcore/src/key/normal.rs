//! Maps numbers to unsigned integers of the same size and order.
//!
//! Contract: each map is a bijection on the bits, so sorting the images and mapping back is exact,
//! including NaN payloads and the sign of zero. Signed integers flip the sign bit. Floats are
//! ordered -inf .. -0.0, +0.0 .. +inf, then all NaNs by their bits as an unsigned integer (positive
//! NaNs first). The classical sign-flip map would put negative NaNs before -inf. So everything else
//! moves down over their place, and negative NaNs keep their own bits, which are the largest of
//! all. All NaNs are therefore at the end, and images clamped to [`nan_image`] are the same for all
//! of them. There are no branches, so loops over these functions vectorise.

use super::record::NumberType;

/// The map of a number type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Map {
    /// The bits are the image.
    Unsigned,
    /// The sign bit is flipped.
    Signed,
    /// See the file's contract.
    Float,
}

impl Map {
    /// The map of a number type.
    pub(super) const fn of(kind: NumberType) -> Self {
        if kind.is_float() {
            Map::Float
        } else if kind.is_signed_integer() {
            Map::Signed
        } else {
            Map::Unsigned
        }
    }
}

macro_rules! float_maps {
    ($order:ident, $restore:ident, $unsigned:ty, $signed:ty, $negative_infinity:expr) => {
        /// Float bits to an unsigned integer of the same order.
        #[inline(always)]
        pub(super) const fn $order(bits: $unsigned) -> $unsigned {
            let top = 1 << (<$unsigned>::BITS - 1);
            let sign = (bits as $signed >> (<$unsigned>::BITS - 1)) as $unsigned;
            let ordered = (bits ^ (sign | top)).wrapping_sub(!$negative_infinity);
            if bits > $negative_infinity {
                bits
            } else {
                ordered
            }
        }

        /// The inverse: float bits from their image.
        #[inline(always)]
        pub(super) const fn $restore(image: $unsigned) -> $unsigned {
            let top = 1 << (<$unsigned>::BITS - 1);
            let ordered = image.wrapping_add(!$negative_infinity);
            let sign = !(ordered as $signed >> (<$unsigned>::BITS - 1)) as $unsigned;
            if image > $negative_infinity {
                image
            } else {
                ordered ^ (sign | top)
            }
        }
    };
}

float_maps!(order_f16, restore_f16, u16, i16, 0xFC00_u16);
float_maps!(order_f32, restore_f32, u32, i32, 0xFF80_0000_u32);
float_maps!(order_f64, restore_f64, u64, i64, 0xFFF0_0000_0000_0000_u64);

/// The smallest image of a NaN among floats of `bytes`; the common image of all NaNs if they are
/// one key.
pub(super) const fn nan_image(bytes: usize) -> u64 {
    match bytes {
        2 => order_f16(0x7C00) as u64 + 1,
        4 => order_f32(0x7F80_0000) as u64 + 1,
        _ => order_f64(0x7FF0_0000_0000_0000) + 1,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// The order of the contract, written with the language's own float comparison.
    pub(crate) fn naive_f64(a: f64, b: f64) -> Ordering {
        match (a.is_nan(), b.is_nan()) {
            (true, true) => a.to_bits().cmp(&b.to_bits()),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => a
                .partial_cmp(&b)
                .unwrap()
                .then_with(|| b.is_sign_negative().cmp(&a.is_sign_negative())),
        }
    }

    /// Like `naive_f64`, for single precision.
    pub(crate) fn naive_f32(a: f32, b: f32) -> Ordering {
        match (a.is_nan(), b.is_nan()) {
            (true, true) => a.to_bits().cmp(&b.to_bits()),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => a
                .partial_cmp(&b)
                .unwrap()
                .then_with(|| b.is_sign_negative().cmp(&a.is_sign_negative())),
        }
    }

    #[test]
    fn halves_keep_their_order_and_come_back() {
        let mut all: Vec<u16> = (0..=u16::MAX).collect();
        all.sort_by_key(|bits| order_f16(*bits));
        for pair in all.windows(2) {
            assert!(naive_f16(pair[0], pair[1]).is_lt(), "{pair:?}");
            assert_eq!(restore_f16(order_f16(pair[0])), pair[0]);
        }
        let images = all.iter().map(|bits| u64::from(order_f16(*bits)));
        let nans = images.filter(|image| *image >= nan_image(2)).count();
        assert_eq!(
            nans,
            all.iter()
                .filter(|bits| half::f16::from_bits(**bits).is_nan())
                .count()
        );
    }

    /// Like `naive_f64`, for half precision, given as bits.
    pub(crate) fn naive_f16(a: u16, b: u16) -> Ordering {
        let real = |bits| half::f16::from_bits(bits).to_f64();
        match real(a).is_nan() && real(b).is_nan() {
            true => a.cmp(&b),
            false => naive_f64(real(a), real(b)),
        }
    }

    /// Bits near every border of the map, or any bits.
    pub(crate) fn f64_bits() -> impl Strategy<Value = u64> {
        let borders = [
            0,
            1,
            0x3FF0_0000_0000_0000,
            0x7FF0_0000_0000_0000,
            0x7FFF_FFFF_FFFF_FFFF,
            0x8000_0000_0000_0000,
            0xFFF0_0000_0000_0000,
            u64::MAX,
        ];
        prop_oneof![
            any::<u64>(),
            (0..borders.len(), -3i64..=3)
                .prop_map(move |(border, step)| borders[border].wrapping_add_signed(step)),
        ]
    }

    /// Like `f64_bits`, for single precision.
    pub(crate) fn f32_bits() -> impl Strategy<Value = u32> {
        let borders = [
            0,
            1,
            0x3F80_0000,
            0x7F80_0000,
            0x7FFF_FFFF,
            0x8000_0000,
            0xFF80_0000,
            u32::MAX,
        ];
        prop_oneof![
            any::<u32>(),
            (0..borders.len(), -3i32..=3)
                .prop_map(move |(border, step)| borders[border].wrapping_add_signed(step)),
        ]
    }

    #[test]
    fn the_extremes_take_the_ends() {
        assert_eq!(order_f64(f64::NEG_INFINITY.to_bits()), 0);
        assert_eq!(order_f64(u64::MAX), u64::MAX);
        assert_eq!(order_f32(f32::NEG_INFINITY.to_bits()), 0);
        assert_eq!(
            order_f64(0.0_f64.to_bits()),
            order_f64((-0.0_f64).to_bits()) + 1
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn doubles_keep_their_order_and_come_back(a in f64_bits(), b in f64_bits()) {
            let naive = naive_f64(f64::from_bits(a), f64::from_bits(b));
            prop_assert_eq!(order_f64(a).cmp(&order_f64(b)), naive);
            prop_assert_eq!(restore_f64(order_f64(a)), a);
            prop_assert_eq!(order_f64(restore_f64(a)), a);
        }

        #[test]
        fn singles_keep_their_order_and_come_back(a in f32_bits(), b in f32_bits()) {
            let naive = naive_f32(f32::from_bits(a), f32::from_bits(b));
            prop_assert_eq!(order_f32(a).cmp(&order_f32(b)), naive);
            prop_assert_eq!(restore_f32(order_f32(a)), a);
            prop_assert_eq!(order_f32(restore_f32(a)), a);
        }
    }
}
