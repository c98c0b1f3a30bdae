//! `-g`: the number that `strtold` parses, as a key.
//!
//! Contract: [`append_float`] appends the number at the front of a text as the bits of a long
//! double of x86 (64 bits of mantissa), rounded to nearest, ties to even. Texts that are equal as
//! long doubles therefore have equal keys. Texts without a number come first, then NaNs, then
//! numbers including infinities; both zeros are equal. Supports decimal and hexadecimal, any length
//! and exponent. The key has one or eleven bytes. Texts of up to 19 digits with moderate exponents
//! need one multiplication or division.
//!
//! Source: C99 7.20.1.3; W. Clinger, "How to read floating point numbers accurately", PLDI 1990, on
//! which numbers need only one operation.

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round};

use outcore::key::encode::{complement, digits_len, without_zeros_in_front};

/// Classes, in order.
const NO_NUMBER: u8 = 0;
const NEGATIVE_NAN: u8 = 1;
const NAN: u8 = 2;
const NUMBER: u8 = 3;

const EXPONENT_BIAS: i64 = 16383;
const EXPONENT_INFINITE: u16 = 0x7FFF;
const MANTISSA_TOP: u64 = 1 << 63;
/// 5^27 is the largest power of five below 2^63.
const FIVES_MAX: i64 = 27;
/// A number whose leading digit is beyond 10^±`DECIMAL_MAX` is infinite or zero.
const DECIMAL_MAX: i64 = 5000;
/// A number whose leading digit is beyond 2^±`BINARY_MAX` is infinite or zero.
const BINARY_MAX: i64 = 17_000;
/// The most digits that count. For those after them, only one fact counts: whether all are zero. A
/// number halfway between two long doubles has fewer digits.
const DIGITS_MAX: usize = 12_000;

/// The magnitude of a long double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extended {
    exponent: u16,
    mantissa: u64,
}

const ZERO: Extended = Extended {
    exponent: 0,
    mantissa: 0,
};
const INFINITE: Extended = Extended {
    exponent: EXPONENT_INFINITE,
    mantissa: MANTISSA_TOP,
};

/// Length of the number at the front of `text`; 0 if there is none.
pub(crate) fn len(text: &[u8]) -> usize {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let number = &text[sign..];
    let begins = |name: &[u8]| {
        let front = number.get(..name.len());
        front.is_some_and(|front| front.eq_ignore_ascii_case(name))
    };
    let exponent_len = |behind: &[u8], letter: u8| match behind.split_first() {
        Some((first, rest)) if first.eq_ignore_ascii_case(&letter) => {
            let sign = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
            match digits_len(&rest[sign..]) {
                0 => 0,
                digits => 1 + sign + digits,
            }
        }
        _ => 0,
    };
    let hex_len = |text: &[u8]| {
        let end = text.iter().position(|byte| !byte.is_ascii_hexdigit());
        end.unwrap_or(text.len())
    };
    let of = |text: &[u8], len: &dyn Fn(&[u8]) -> usize, letter| {
        Digits::at_front_of(text, len)
            .map(|digits| text.len() - digits.behind.len() + exponent_len(digits.behind, letter))
    };
    let len = if begins(b"infinity") {
        8
    } else if begins(b"inf") {
        3
    } else if begins(b"nan") {
        let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let tag = number[3..].strip_prefix(b"(");
        let tag_len = tag.map(|tag| tag.iter().take_while(|byte| is_inside(byte)).count());
        match tag_len.filter(|len| number.get(4 + len) == Some(&b')')) {
            Some(len) => 5 + len,
            None => 3,
        }
    } else if begins(b"0x") {
        // Without a digit the number is the zero before the x.
        of(&number[2..], &hex_len, b'p').map_or(1, |len| 2 + len)
    } else {
        of(number, &digits_len, b'e').unwrap_or(0)
    };
    if len == 0 { 0 } else { sign + len }
}

/// Appends the number at the front of `text`.
pub(crate) fn append_float(text: &[u8], key: &mut Vec<u8>) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let word = text.iter().position(|byte| !is_space(byte));
    let text = &text[word.unwrap_or(text.len())..];
    let (is_negative, text) = match text.split_first() {
        Some((b'-', behind)) => (true, behind),
        Some((b'+', behind)) => (false, behind),
        _ => (false, text),
    };
    let begins = |name: &[u8]| {
        let front = text.get(..name.len());
        front.is_some_and(|front| front.eq_ignore_ascii_case(name))
    };
    let magnitude = if begins(b"inf") {
        Some(INFINITE)
    } else if begins(b"nan") {
        key.push(if is_negative { NEGATIVE_NAN } else { NAN });
        return;
    } else if begins(b"0x") {
        hexadecimal(&text[2..]).or(Some(ZERO))
    } else {
        decimal(text)
    };
    match magnitude {
        None => key.push(NO_NUMBER),
        Some(magnitude) => append_extended(is_negative, magnitude, key),
    }
}

fn append_extended(is_negative: bool, magnitude: Extended, key: &mut Vec<u8>) {
    key.push(NUMBER);
    let start = key.len();
    let is_negative = is_negative && magnitude != ZERO;
    key.extend_from_slice(&(magnitude.exponent | 0x8000).to_be_bytes());
    key.extend_from_slice(&magnitude.mantissa.to_be_bytes());
    if is_negative {
        complement(&mut key[start..]);
    }
}

/// Digits around a point, and their end.
struct Digits<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    behind: &'a [u8],
}

impl<'a> Digits<'a> {
    /// `None` if there is no digit.
    fn at_front_of(text: &'a [u8], len: impl Fn(&[u8]) -> usize) -> Option<Self> {
        let (whole, mut behind) = text.split_at(len(text));
        let mut fraction: &[u8] = &[];
        if let Some((b'.', rest)) = behind.split_first() {
            (fraction, behind) = rest.split_at(len(rest));
        }
        let is_number = !(whole.is_empty() && fraction.is_empty());
        is_number.then_some(Digits {
            whole,
            fraction,
            behind,
        })
    }
}

/// The exponent at the front, if there is one: `letter`, a sign, digits. Values beyond all limits
/// are clamped.
fn exponent(text: &[u8], letter: u8) -> i64 {
    let rest = match text.split_first() {
        Some((first, rest)) if first.eq_ignore_ascii_case(&letter) => rest,
        _ => return 0,
    };
    let (is_negative, rest) = match rest.split_first() {
        Some((b'-', behind)) => (true, behind),
        Some((b'+', behind)) => (false, behind),
        _ => (false, rest),
    };
    let digits = &rest[..digits_len(rest)];
    // No text has enough digits to compensate for a larger exponent.
    const EXPONENT_MAX: i64 = 1 << 60;
    let magnitude = digits.iter().fold(0, |sum: i64, digit| {
        (sum.saturating_mul(10)
            .saturating_add(i64::from(digit - b'0')))
        .min(EXPONENT_MAX)
    });
    if is_negative { -magnitude } else { magnitude }
}

fn decimal(text: &[u8]) -> Option<Extended> {
    let digits = Digits::at_front_of(text, digits_len)?;
    let exponent = exponent(digits.behind, b'e') - digits.fraction.len() as i64;
    let whole = without_zeros_in_front(digits.whole);
    let fraction = match whole {
        [] => without_zeros_in_front(digits.fraction),
        _ => digits.fraction,
    };
    let count = whole.len() + fraction.len();
    if count == 0 {
        return Some(ZERO);
    }
    if count <= 19 && exponent.abs() <= FIVES_MAX {
        let digits = whole.iter().chain(fraction);
        let number = digits.fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
        return Some(scaled(number, exponent));
    }
    Some(decimal_of_any_length(whole, fraction, exponent))
}

/// number * 10^exponent, for an absolute exponent of at most [`FIVES_MAX`] and a nonzero number.
fn scaled(number: u64, exponent: i64) -> Extended {
    let fives = 5_u64.pow(exponent.unsigned_abs() as u32);
    if exponent >= 0 {
        return rounded(u128::from(number) * u128::from(fives), false, exponent);
    }
    let shift = i64::from(number.leading_zeros()) + 64;
    let dividend = u128::from(number) << shift;
    let fives = u128::from(fives);
    // The quotient has more than 64 bits, because the dividend has 128 and the divisor at most 63.
    let quotient = dividend / fives;
    rounded(quotient, quotient * fives != dividend, exponent - shift)
}

/// number * 2^exponent, not zero and within the range of normal long doubles; `has_more` means that
/// the exact value is slightly larger.
fn rounded(number: u128, has_more: bool, exponent: i64) -> Extended {
    let leading_zeros = number.leading_zeros();
    let top = number << leading_zeros;
    let (mut mantissa, rest) = ((top >> 64) as u64, top as u64);
    let mut exponent = exponent + 127 - i64::from(leading_zeros) + EXPONENT_BIAS;
    let is_above_half = rest > MANTISSA_TOP || rest == MANTISSA_TOP && has_more;
    let is_half = rest == MANTISSA_TOP && !has_more;
    if is_above_half || is_half && mantissa % 2 == 1 {
        let (next, is_over) = mantissa.overflowing_add(1);
        mantissa = if is_over { MANTISSA_TOP } else { next };
        exponent += i64::from(is_over);
    }
    Extended {
        exponent: exponent as u16,
        mantissa,
    }
}

fn decimal_of_any_length(whole: &[u8], fraction: &[u8], exponent: i64) -> Extended {
    let count = (whole.len() + fraction.len()) as i64;
    let leading = count + exponent;
    if leading > DECIMAL_MAX {
        return INFINITE;
    }
    if leading < -DECIMAL_MAX {
        return ZERO;
    }
    let digits = whole.iter().chain(fraction);
    let mut text: String = digits
        .clone()
        .take(DIGITS_MAX)
        .map(|digit| char::from(*digit))
        .collect();
    if digits.skip(DIGITS_MAX).any(|digit| *digit != b'0') {
        text.push('1');
    }
    let exponent = leading - text.len() as i64;
    text.push_str(&format!("e{exponent}"));
    by_library(&text)
}

/// The number after `0x`; `None` if no digit follows, so that the number is the zero before the x.
fn hexadecimal(text: &[u8]) -> Option<Extended> {
    let len = |text: &[u8]| {
        let end = text.iter().position(|byte| !byte.is_ascii_hexdigit());
        end.unwrap_or(text.len())
    };
    let digits = Digits::at_front_of(text, len)?;
    let exponent = exponent(digits.behind, b'p') - 4 * digits.fraction.len() as i64;
    let all = digits.whole.iter().chain(digits.fraction);
    let text: String = all
        .skip_while(|digit| **digit == b'0')
        .map(|digit| char::from(*digit))
        .collect();
    if text.is_empty() {
        return Some(ZERO);
    }
    let leading = 4 * text.len() as i64 + exponent;
    if leading > BINARY_MAX {
        return Some(INFINITE);
    }
    if leading < -BINARY_MAX {
        return Some(ZERO);
    }
    if let Ok(number) = u64::from_str_radix(&text, 16)
        && leading.abs() < EXPONENT_BIAS - 64
    {
        return Some(rounded(u128::from(number), false, exponent));
    }
    Some(by_library(&format!("0x{text}p{exponent}")))
}

/// The texts are well formed here, so the library does not reject them.
fn by_library(text: &str) -> Extended {
    let parsed = X87DoubleExtended::from_str_r(text, Round::NearestTiesToEven);
    let bits = parsed.map_or(0, |parsed| parsed.value.to_bits());
    Extended {
        exponent: (bits >> 64) as u16 & EXPONENT_INFINITE,
        mantissa: bits as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key_of(text: &str) -> Vec<u8> {
        let mut key = Vec::new();
        append_float(text.as_bytes(), &mut key);
        key
    }

    #[test]
    fn numbers_of_all_spellings_are_in_their_order() {
        let ordered = [
            "x",
            "-nan",
            "nan",
            "-inf",
            "-1e4932",
            "-1e30",
            "-0x1p3",
            "-1.5",
            "-1e-4950",
            "0",
            "1e-4950",
            "0x.8",
            "1",
            "1.0000000000000000001",
            "0x1.8p0",
            "1e30",
            "1e4932",
            "inf",
        ];
        for pair in ordered.windows(2) {
            assert!(key_of(pair[0]) < key_of(pair[1]), "{pair:?}");
        }
        for (a, b) in [
            ("-0", "0x"),
            ("1e5000", "infinity"),
            ("1e-5000", "0"),
            ("0x1p-99999999999999999999", "0"),
            ("1e", "1"),
            ("0X1P", "1.000e0"),
            ("", "."),
            ("+1", " \t1"),
            ("1.00000000000000000001", "1"),
        ] {
            assert_eq!(key_of(a), key_of(b), "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn one_operation_gives_what_the_library_gives(number in any::<u64>(), cut in 0_u32..64, exponent in -27_i64..=27) {
            let number = (number >> cut).clamp(1, 9_999_999_999_999_999_999);
            prop_assert_eq!(scaled(number, exponent), by_library(&format!("{number}e{exponent}")));
        }
    }
}
