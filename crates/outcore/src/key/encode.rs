//! Building blocks of text keys: strings, and decimal numbers of any length, as bytes in comparison
//! order.
//!
//! Contract: each function appends one part to a key. Parts are prefix-free, so a later part
//! decides only between equal ones. [`complement`] reverses the order of a part and keeps it
//! prefix-free. Only the key itself is allocated; time is linear in the text.
//!
//! Numbers: a decimal number is sign, exponent and digits, 0.d1 d2 d3... * 10^e with d1 not 0. One
//! byte holds sign and exponent if |e| is at most 30, two digits share a byte, and a byte 0 ends
//! them. A negative number is the complement of its magnitude. So any length is exact, 1.0 equals
//! 1, and -0 equals 0.

use memchr::memchr;

/// Follows a zero byte that belongs to the string.
pub const ESCAPED: u8 = 0xFF;
/// The key of zero.
const ZERO: u8 = 0x80;
/// The head of a number in [0.1, 1); the heads of other exponents are around it.
const HEAD_MIDDLE: u8 = 0xA0;
/// The largest magnitude of an exponent that shares a byte with the sign.
const EXPONENT_MAX: i64 = 30;
/// Heads of numbers whose exponents take another eight bytes.
const HEAD_TINY: u8 = 0x81;
const HEAD_HUGE: u8 = 0xBF;

/// Appends a string that other parts may follow: `00` becomes `00 FF`, and `00 00` ends it.
pub fn append_string(text: &[u8], key: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr(0, rest) {
        key.extend_from_slice(&rest[..=at]);
        key.push(ESCAPED);
        rest = &rest[at + 1..];
    }
    key.extend_from_slice(rest);
    key.extend_from_slice(&[0, 0]);
}

/// Reverses the order of a part.
pub fn complement(part: &mut [u8]) {
    for byte in part {
        *byte = !*byte;
    }
}

/// A decimal number in text: a sign, and digits on both sides of the point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decimal<'a> {
    /// Whether the number begins with a minus sign.
    pub is_negative: bool,
    /// Digits before the point.
    pub whole: &'a [u8],
    /// Digits after the point.
    pub fraction: &'a [u8],
    /// The power of ten by which the number is multiplied.
    pub exponent: i64,
}

impl<'a> Decimal<'a> {
    /// The number at the start of `text`, `[-]digits[.digits]`; ignores the rest. No digits mean
    /// zero.
    pub fn at_front_of(text: &'a [u8]) -> Self {
        let is_negative = text.first() == Some(&b'-');
        let text = &text[usize::from(is_negative)..];
        let (whole, rest) = text.split_at(digits_len(text));
        let fraction = match rest.split_first() {
            Some((b'.', behind)) => &behind[..digits_len(behind)],
            _ => &[],
        };
        Decimal {
            is_negative,
            whole,
            fraction,
            exponent: 0,
        }
    }

    /// Length of the number's text, without the power of ten and without a point that no digit
    /// follows.
    pub fn len_bytes(&self) -> usize {
        let point = usize::from(!self.fraction.is_empty());
        usize::from(self.is_negative) + self.whole.len() + point + self.fraction.len()
    }
}

/// Number of leading digits.
pub fn digits_len(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    end.unwrap_or(text.len())
}

/// The digits without leading zeros.
pub fn without_zeros_in_front(digits: &[u8]) -> &[u8] {
    let first = digits.iter().position(|digit| *digit != b'0');
    &digits[first.unwrap_or(digits.len())..]
}

fn without_zeros_behind(digits: &[u8]) -> &[u8] {
    let last = digits.iter().rposition(|digit| *digit != b'0');
    &digits[..last.map_or(0, |last| last + 1)]
}

/// Appends a number.
pub fn append_decimal(number: &Decimal<'_>, key: &mut Vec<u8>) {
    let mut whole = without_zeros_in_front(number.whole);
    let mut fraction = without_zeros_behind(number.fraction);
    let mut exponent = whole.len() as i64;
    if fraction.is_empty() {
        whole = without_zeros_behind(whole);
    } else if whole.is_empty() {
        let digits = without_zeros_in_front(fraction);
        exponent = digits.len() as i64 - fraction.len() as i64;
        fraction = digits;
    }
    if whole.is_empty() && fraction.is_empty() {
        key.push(ZERO);
        return;
    }
    let start = key.len();
    append_head(exponent.saturating_add(number.exponent), key);
    append_digits(whole, fraction, key);
    if number.is_negative {
        complement(&mut key[start..]);
    }
}

fn append_head(exponent: i64, key: &mut Vec<u8>) {
    if exponent.unsigned_abs() <= EXPONENT_MAX as u64 {
        key.push((i64::from(HEAD_MIDDLE) + exponent) as u8);
        return;
    }
    key.push(if exponent < 0 { HEAD_TINY } else { HEAD_HUGE });
    let ordered = exponent as u64 ^ (1 << 63);
    key.extend_from_slice(&ordered.to_be_bytes());
}

/// Two digits per byte, from 1 to 100, then 0.
fn append_digits(whole: &[u8], fraction: &[u8], key: &mut Vec<u8>) {
    let pair = |tens: u8, ones: u8| (tens - b'0') * 10 + (ones - b'0') + 1;
    let mut pairs = whole.chunks_exact(2);
    for digits in pairs.by_ref() {
        key.push(pair(digits[0], digits[1]));
    }
    let mut fraction = fraction;
    if let [tens] = *pairs.remainder() {
        let ones = fraction.first().copied().unwrap_or(b'0');
        fraction = fraction.get(1..).unwrap_or_default();
        key.push(pair(tens, ones));
    }
    let mut pairs = fraction.chunks_exact(2);
    for digits in pairs.by_ref() {
        key.push(pair(digits[0], digits[1]));
    }
    if let [tens] = *pairs.remainder() {
        key.push(pair(tens, b'0'));
    }
    key.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn key_of(text: &str) -> Vec<u8> {
        let mut key = Vec::new();
        append_decimal(&Decimal::at_front_of(text.as_bytes()), &mut key);
        key
    }

    #[test]
    fn numbers_of_any_length_and_sign_are_in_their_order() {
        let nines = "9".repeat(40);
        let tiny = format!("0.{}1", "0".repeat(50));
        let ordered = [
            format!("-1{nines}"),
            format!("-{nines}"),
            "-1000".into(),
            "-999.5".into(),
            "-12".into(),
            "-1.01".into(),
            "-1".into(),
            "-.5".into(),
            format!("-{tiny}"),
            "0".into(),
            tiny,
            "0.001".into(),
            "0.01".into(),
            ".5".into(),
            ".50001".into(),
            "1".into(),
            "1.001".into(),
            "1.01".into(),
            "9".into(),
            "10".into(),
            "12".into(),
            "120".into(),
            "121".into(),
            nines.clone(),
            format!("1{nines}"),
        ];
        for pair in ordered.windows(2) {
            assert!(key_of(&pair[0]) < key_of(&pair[1]), "{pair:?}");
        }
        for (a, b) in [("1", "01.00"), ("-0", ""), ("0.0", "x"), ("1000", "1000.")] {
            assert_eq!(key_of(a), key_of(b), "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn numbers_compare_like_scaled_integers(a in -99_999_999_i64..99_999_999, b in -99_999_999_i64..99_999_999, point in 0_usize..6) {
            let text = |number: i64| {
                let digits = format!("{:08}", number.abs());
                let (whole, fraction) = digits.split_at(8 - point);
                format!("{}{whole}.{fraction}", if number < 0 { "-" } else { "" })
            };
            prop_assert_eq!(key_of(&text(a)).cmp(&key_of(&text(b))), a.cmp(&b));
        }

        #[test]
        fn strings_compare_like_strings_whatever_follows(
            a in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(254), Just(255)], 0..6),
            b in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(254), Just(255)], 0..6),
            tails in (any::<u8>(), any::<u8>()),
        ) {
            let part = |text: &[u8], tail: u8, is_turned: bool| {
                let mut key = Vec::new();
                append_string(text, &mut key);
                if is_turned {
                    complement(&mut key);
                }
                key.push(tail);
                key
            };
            for is_turned in [false, true] {
                let by_text = if is_turned { b.cmp(&a) } else { a.cmp(&b) };
                let got = part(&a, tails.0, is_turned).cmp(&part(&b, tails.1, is_turned));
                let wanted = by_text.then(tails.0.cmp(&tails.1));
                prop_assert_eq!(got, wanted);
                prop_assert!(a != b || by_text == Ordering::Equal);
            }
        }
    }
}
