//! Division of integers by a constant of the program, without a division instruction.
//!
//! Model: T. Granlund, P. Montgomery, "Division by invariant integers using multiplication", PLDI
//! 1994, figure 4.1, for 64 bits. Narrower numbers are divided as 64-bit numbers. Quotients are
//! rounded down, so the quotient of a negative number is derived from that of a non-negative one.
//! Flipping all bits makes a negative number non-negative, and flips the quotient in the same way.
//!
//! Contract: for every number, including the minimum of its type, [`Divisor`] gives the same result
//! as `//` and `%` in [`super::column`]. The divisor is never zero.
//!
//! N.B. the crate `strength_reduce` supports neither signs nor rounding down, and multiplies 64 by
//! 128 bits where 64 by 64 are enough.

use super::registers::{map1, view, view_mut};
use super::tree::Binary;
use crate::key::record::NumberType;

/// A divisor, and the constants that replace it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Divisor {
    value: i128,
    multiplier: u64,
    shifts: (u32, u32),
}

/// Integers that can be divided by a [`Divisor`].
trait Dividend: bytemuck::Pod {
    /// The quotient, rounded down.
    fn floor_divided_by(self, divisor: &Divisor) -> Self;
    /// The remainder, with the sign of the divisor.
    fn modulo_by(self, divisor: &Divisor) -> Self;
    /// The quotient, rounded down, for a divisor of two to the power of `bits`.
    fn floor_divided_by_power(self, bits: u32) -> Self;
    fn modulo_power(self, bits: u32) -> Self;
}

impl Divisor {
    /// A divisor; `None` for zero and for more than 64 bits.
    pub(super) fn new(value: i128) -> Option<Self> {
        let magnitude = u64::try_from(value.unsigned_abs()).ok()?;
        if magnitude == 0 {
            return None;
        }
        // The number of bits of the smallest power of two that is not below the divisor.
        let bits = u64::BITS - (magnitude - 1).leading_zeros();
        let excess = (1u128 << bits) - u128::from(magnitude);
        let multiplier = (excess << u64::BITS) / u128::from(magnitude) + 1;
        Some(Divisor {
            value,
            multiplier: multiplier as u64,
            shifts: (bits.min(1), bits.saturating_sub(1)),
        })
    }

    /// The shift count, if it is a power of two.
    pub(super) fn power(&self) -> Option<u32> {
        let value = u64::try_from(self.value).ok()?;
        value.is_power_of_two().then(|| value.trailing_zeros())
    }

    /// A number divided by the magnitude, rounded down.
    #[inline(always)]
    fn quotient(&self, number: u64) -> u64 {
        let high = ((u128::from(self.multiplier) * u128::from(number)) >> u64::BITS) as u64;
        (high + ((number - high) >> self.shifts.0)) >> self.shifts.1
    }
}

/// `a // divisor` or `a % divisor` for `n` integers of `kind`.
pub(super) fn divide(
    to: &mut [u64],
    a: &[u64],
    operator: Binary,
    kind: NumberType,
    divisor: &Divisor,
    n: usize,
) {
    match kind {
        NumberType::U8 => each::<u8>(view_mut(to, n), view(a, n), operator, divisor),
        NumberType::U16 => each::<u16>(view_mut(to, n), view(a, n), operator, divisor),
        NumberType::U32 => each::<u32>(view_mut(to, n), view(a, n), operator, divisor),
        NumberType::I8 => each::<i8>(view_mut(to, n), view(a, n), operator, divisor),
        NumberType::I16 => each::<i16>(view_mut(to, n), view(a, n), operator, divisor),
        NumberType::I32 => each::<i32>(view_mut(to, n), view(a, n), operator, divisor),
        NumberType::I64 => each::<i64>(view_mut(to, n), view(a, n), operator, divisor),
        _ => each::<u64>(view_mut(to, n), view(a, n), operator, divisor),
    }
}

fn each<T: Dividend>(to: &mut [T], a: &[T], operator: Binary, divisor: &Divisor) {
    match (operator, divisor.power()) {
        (Binary::FloorDivide, Some(bits)) => map1(to, a, |a| a.floor_divided_by_power(bits)),
        (Binary::FloorDivide, None) => map1(to, a, |a| a.floor_divided_by(divisor)),
        (_, Some(bits)) => map1(to, a, |a| a.modulo_power(bits)),
        (_, None) => map1(to, a, |a| a.modulo_by(divisor)),
    }
}

macro_rules! dividend {
    ($t:ty, |$number:ident, $divisor:ident| $quotient:expr) => {
        impl Dividend for $t {
            #[inline(always)]
            fn floor_divided_by(self, $divisor: &Divisor) -> Self {
                let $number = self;
                $quotient
            }
            #[inline(always)]
            fn modulo_by(self, divisor: &Divisor) -> Self {
                let whole = self
                    .floor_divided_by(divisor)
                    .wrapping_mul(divisor.value as Self);
                self.wrapping_sub(whole)
            }
            #[inline(always)]
            fn floor_divided_by_power(self, bits: u32) -> Self {
                self >> bits
            }
            #[inline(always)]
            fn modulo_power(self, bits: u32) -> Self {
                self & !(!0 << bits)
            }
        }
    };
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        dividend!($t, |number, divisor| divisor.quotient(u64::from(number)) as $t);
    )*};
}
unsigned!(u8, u16, u32, u64);

macro_rules! signed {
    ($($t:ty, $unsigned:ty);*) => {$(
        dividend!($t, |number, divisor| {
            // For a negative divisor, the negated number is divided by the magnitude; for the
            // minimum of the type, the wrapped negation is correct as an unsigned number.
            let (turned, is_below) = match divisor.value < 0 {
                true => (number.wrapping_neg(), number > 0),
                false => (number, number < 0),
            };
            let flip = -(is_below as $t);
            let quotient = divisor.quotient(u64::from((turned ^ flip) as $unsigned));
            quotient as $t ^ flip
        });
    )*};
}
signed!(i8, u8; i16, u16; i32, u32; i64, u64);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn floored(a: i128, b: i128) -> (i128, i128) {
        let quotient = a.div_euclid(b);
        let quotient = match b < 0 && a.rem_euclid(b) != 0 {
            true => quotient - 1,
            false => quotient,
        };
        (quotient, a - quotient * b)
    }

    macro_rules! check {
        ($t:ty, $number:expr, $by:expr) => {{
            let (number, by): ($t, $t) = ($number as $t, $by as $t);
            if let Some(divisor) = Divisor::new(by as i128) {
                // Only the minimum divided by -1 wraps around.
                let (quotient, rest) = floored(number as i128, by as i128);
                let (quotient, rest) = (quotient as $t, rest as $t);
                prop_assert_eq!(
                    number.floor_divided_by(&divisor),
                    quotient,
                    "{} // {}",
                    number,
                    by
                );
                prop_assert_eq!(number.modulo_by(&divisor), rest, "{} % {}", number, by);
                if let Some(bits) = divisor.power() {
                    prop_assert_eq!(number.floor_divided_by_power(bits), quotient);
                    prop_assert_eq!(number.modulo_power(bits), rest);
                }
            } else {
                prop_assert_eq!(by, 0);
            }
        }};
    }

    /// Numbers of all lengths and both signs, and those next to powers of two.
    fn number() -> impl Strategy<Value = i128> {
        let any = (any::<u64>(), 0u32..64).prop_map(|(bits, shift)| i128::from(bits >> shift));
        let near = (0u32..65, -2i128..3).prop_map(|(bits, more)| (1 << bits) + more);
        prop_oneof![any, near]
            .prop_flat_map(|value| prop_oneof![Just(value), Just(-value), Just(!value)])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn quotients_and_rests_are_those_of_a_division(number in number(), by in number()) {
            check!(u8, number, by);
            check!(u16, number, by);
            check!(u32, number, by);
            check!(u64, number, by);
            check!(i8, number, by);
            check!(i16, number, by);
            check!(i32, number, by);
            check!(i64, number, by);
        }
    }

    #[test]
    fn all_numbers_of_8_bits_are_divided_by_all() {
        let all = || -> std::result::Result<(), TestCaseError> {
            for number in -128i128..256 {
                for by in -128i128..256 {
                    check!(u8, number, by);
                    check!(i8, number, by);
                }
            }
            Ok(())
        };
        all().unwrap();
    }

    #[test]
    fn zero_and_numbers_beyond_64_bits_are_no_divisors() {
        assert_eq!(Divisor::new(0), None);
        assert_eq!(Divisor::new(1 << 64), None);
        assert!(Divisor::new(i128::from(i64::MIN)).is_some());
    }
}
