//! The number types of vectors, and their bytes.
//!
//! Contract: all types are little-endian. Every type except for f64 converts to f32 without loss;
//! an f64 is rounded to the nearest f32, and to infinity beyond its range. Conversions to a
//! narrower type round to the nearest value, ties to even, and fail for values outside its range.

use half::f16;

/// A number type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 64-bit float.
    F64,
    /// Signed byte.
    I8,
    /// Byte.
    U8,
    /// 32-bit integer, for ids rather than coordinates.
    I32,
    /// 64-bit integer, for ids.
    I64,
}

/// All types with their names, and NumPy's names.
const NAMES: [(Element, &str, &str); 7] = [
    (Element::F32, "f32", "'<f4'"),
    (Element::F16, "f16", "'<f2'"),
    (Element::F64, "f64", "'<f8'"),
    (Element::I8, "i8", "'|i1'"),
    (Element::U8, "u8", "'|u1'"),
    (Element::I32, "i32", "'<i4'"),
    (Element::I64, "i64", "'<i8'"),
];

/// Calls `$each` with the f64 of every number in `$bytes`.
macro_rules! decode {
    ($bytes:expr, $kind:ty, $out:expr, $from:expr) => {{
        // N.B. Indexed loops: iterator chains are not inlined into long loops that are compiled for
        // the processor.
        let numbers = $bytes.as_chunks().0;
        for at in 0..$out.len().min(numbers.len()) {
            $out[at] = $from(<$kind>::from_le_bytes(numbers[at]));
        }
    }};
}

impl Element {
    /// Its name, as in record types.
    pub fn name(self) -> &'static str {
        let known = NAMES.iter().find(|(element, ..)| *element == self);
        known.map_or("", |(_, name, _)| name)
    }

    /// NumPy's name for it, as in headers.
    pub(super) fn descr(self) -> &'static str {
        let known = NAMES.iter().find(|(element, ..)| *element == self);
        known.map_or("", |(_, _, descr)| descr)
    }

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<Self> {
        let known = NAMES.iter().find(|(_, known, _)| *known == name);
        known.map(|(element, ..)| *element)
    }

    /// Returns the type for NumPy's `descr`.
    pub(super) fn of_descr(descr: &str) -> Option<Self> {
        let plain = descr.trim_matches(['\'', '"']);
        let known = |(_, _, known): &&(Element, &str, &str)| {
            let known = known.trim_matches('\'');
            // Booleans are bytes of 0 and 1.
            known == plain
                || known == "|u1" && plain == "|b1"
                || known[1..] == plain[1..] && matches!(plain, "<i1" | "<u1" | "=i1" | "=u1")
        };
        NAMES.iter().find(known).map(|(element, ..)| *element)
    }

    /// Bytes per number.
    pub fn bytes(self) -> usize {
        match self {
            Element::F64 | Element::I64 => 8,
            Element::F32 | Element::I32 => 4,
            Element::F16 => 2,
            Element::I8 | Element::U8 => 1,
        }
    }

    /// Whether it is for ids rather than coordinates.
    pub(crate) fn is_id(self) -> bool {
        matches!(self, Element::I32 | Element::I64)
    }

    /// Whether it is a float.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F16 | Element::F64)
    }

    /// Converts the numbers in `bytes` to f32.
    pub(crate) fn decode_f32(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Element::F32 => decode!(bytes, f32, out, |number: f32| number),
            Element::F16 => decode!(bytes, f16, out, f16::to_f32),
            Element::F64 => decode!(bytes, f64, out, |number: f64| number as f32),
            Element::I8 => decode!(bytes, i8, out, f32::from),
            Element::U8 => decode!(bytes, u8, out, f32::from),
            Element::I32 => decode!(bytes, i32, out, |number: i32| number as f32),
            Element::I64 => decode!(bytes, i64, out, |number: i64| number as f32),
        }
    }

    /// Converts the numbers in `bytes` to f64: exactly, except for integers beyond 2^53.
    #[inline(always)]
    pub(crate) fn decode_f64(self, bytes: &[u8], out: &mut [f64]) {
        match self {
            Element::F32 => decode!(bytes, f32, out, f64::from),
            Element::F16 => decode!(bytes, f16, out, f16::to_f64),
            Element::F64 => decode!(bytes, f64, out, |number: f64| number),
            Element::I8 => decode!(bytes, i8, out, f64::from),
            Element::U8 => decode!(bytes, u8, out, f64::from),
            Element::I32 => decode!(bytes, i32, out, f64::from),
            Element::I64 => decode!(bytes, i64, out, |number: i64| number as f64),
        }
    }

    /// Writes `value` to `out`; returns false if it is outside the type's range.
    pub(crate) fn encode(self, value: f64, out: &mut [u8]) -> bool {
        let rounded = value.round_ties_even();
        let within = |least: f64, most: f64| (least..=most).contains(&rounded);
        match self {
            Element::F32 => {
                out.copy_from_slice(&(value as f32).to_le_bytes());
                (value as f32).is_finite() || !value.is_finite()
            }
            Element::F16 => {
                let near = nearest_f16(value);
                out.copy_from_slice(&near.to_le_bytes());
                near.is_finite() || !value.is_finite()
            }
            Element::F64 => {
                out.copy_from_slice(&value.to_le_bytes());
                true
            }
            Element::I8 => {
                out.copy_from_slice(&(rounded as i8).to_le_bytes());
                within(-128.0, 127.0)
            }
            Element::U8 => {
                out.copy_from_slice(&(rounded as u8).to_le_bytes());
                within(0.0, 255.0)
            }
            Element::I32 => {
                out.copy_from_slice(&(rounded as i32).to_le_bytes());
                within(f64::from(i32::MIN), f64::from(i32::MAX))
            }
            Element::I64 => {
                out.copy_from_slice(&(rounded as i64).to_le_bytes());
                within(-9_007_199_254_740_992.0, 9_007_199_254_740_992.0)
            }
        }
    }
}

/// The f16 nearest to `value`, ties to even.
fn nearest_f16(value: f64) -> f16 {
    // N.B. `f16::from_f64` rounds to f32 first. If that creates a tie, the second rounding may give
    // the wrong f16. So the f32 is rounded to odd: if it is not exact, its last bit is 1. It has 13
    // bits more than f16, so it is never a tie (Boldo and Melquiond, IEEE Transactions on Computers
    // 57(4), 2008).
    let single = value as f32;
    let off = f64::from(single) - value;
    let is_even = single.to_bits() & 1 == 0;
    let odd = match off != 0.0 && !off.is_nan() && is_even {
        false => single,
        true if f64::from(single).abs() > value.abs() => f32::from_bits(single.to_bits() - 1),
        true => f32::from_bits(single.to_bits() + 1),
    };
    f16::from_f32(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_half_is_told_from_all_bits() {
        // Values around the middle between any two neighbours, however close.
        for bits in 0..0x7bff_u16 {
            let (low, high) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let middle = (low.to_f64() + high.to_f64()) / 2.0;
            let even = if bits & 1 == 0 { low } else { high };
            for sign in [1.0, -1.0] {
                let signed = |half: f16| if sign < 0.0 { -half } else { half };
                assert_eq!(nearest_f16(sign * middle), signed(even));
                assert_eq!(nearest_f16(sign * middle.next_down()), signed(low));
                assert_eq!(nearest_f16(sign * middle.next_up()), signed(high));
                assert_eq!(nearest_f16(sign * low.to_f64()), signed(low));
            }
        }
        assert!(nearest_f16(f64::NAN).is_nan());
        for large in [65_520.0, 1e39, 1e300, f64::INFINITY] {
            assert_eq!(nearest_f16(large), f16::INFINITY);
            assert_eq!(nearest_f16(-large), f16::NEG_INFINITY);
        }
        assert_eq!(nearest_f16(65_520.0_f64.next_down()), f16::MAX);
        assert_eq!(nearest_f16(-1e-300).to_bits(), 0x8000);
    }
}
