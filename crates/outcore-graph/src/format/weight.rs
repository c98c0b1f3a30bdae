//! Weights of edges: the stored number types, and the values that each holds exactly.
//!
//! Contract: a weight is passed as the bits of its [`WeightType`], in the low half of 64 bits if it
//! has four bytes. Integers stay integers (`i64`), and eight-byte floats stay eight-byte floats
//! (`f64`). A number that a type cannot hold is rejected, except for `f32`, which rounds because
//! the user chose it. Even `f32` rejects a number that would become infinite, and a nonzero number
//! that would become 0.

use serde::{Deserialize, Serialize};

use outcore_io::{Error, Result};

/// The type in which a graph stores weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightType {
    /// Four-byte floats; other numbers are rounded.
    F32,
    /// Eight-byte floats.
    F64,
    /// Integers.
    I64,
}

/// Above this, eight-byte floats do not hold every integer.
pub(crate) const WHOLE_MAX: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

impl WeightType {
    /// Returns the type with this name: `f32`, `f64` or `i64`.
    ///
    /// # Errors
    /// [`outcore_io::Kind::Usage`] for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(WeightType::F32),
            "f64" => Ok(WeightType::F64),
            "i64" => Ok(WeightType::I64),
            _ => Err(
                Error::usage("read edges", format!("weights cannot be `{name}`"))
                    .hint("use f32, f64 or i64"),
            ),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WeightType::F32 => "f32",
            WeightType::F64 => "f64",
            WeightType::I64 => "i64",
        }
    }

    /// NumPy's name of the type.
    pub(crate) fn descr(self) -> &'static str {
        match self {
            WeightType::F32 => "<f4",
            WeightType::F64 => "<f8",
            WeightType::I64 => "<i8",
        }
    }

    /// Four-byte words per weight.
    pub(crate) const fn words(self) -> usize {
        match self {
            WeightType::F32 => 1,
            WeightType::F64 | WeightType::I64 => 2,
        }
    }

    /// Returns the common type for weights of both types.
    pub(crate) fn with(self, other: Self) -> Self {
        match self == other {
            true => self,
            false => WeightType::F64,
        }
    }

    /// The weight as the nearest float.
    #[inline(always)]
    pub fn value(self, bits: u64) -> f64 {
        match self {
            WeightType::F32 => f64::from(f32::from_bits(bits as u32)),
            WeightType::F64 => f64::from_bits(bits),
            WeightType::I64 => bits as i64 as f64,
        }
    }

    /// Whether it is a finite number.
    #[inline(always)]
    pub(crate) fn is_finite(self, bits: u64) -> bool {
        self == WeightType::I64 || self.value(bits).is_finite()
    }

    /// Converts the bits to an integer with the order of the weights; there are no NaNs.
    #[inline(always)]
    pub(crate) fn ordered(self, bits: u64) -> u64 {
        match self {
            WeightType::F32 => {
                let bits = bits as u32;
                u64::from(match bits & SIGN_32 {
                    0 => bits | SIGN_32,
                    _ => !bits,
                })
            }
            WeightType::F64 => match bits & SIGN_64 {
                0 => bits | SIGN_64,
                _ => !bits,
            },
            WeightType::I64 => bits ^ SIGN_64,
        }
    }

    /// The inverse of [`WeightType::ordered`].
    #[inline(always)]
    pub(crate) fn unordered(self, number: u64) -> u64 {
        match self {
            WeightType::F32 => {
                let bits = number as u32;
                u64::from(match bits & SIGN_32 {
                    0 => !bits,
                    _ => bits & !SIGN_32,
                })
            }
            WeightType::F64 => match number & SIGN_64 {
                0 => !number,
                _ => number & !SIGN_64,
            },
            WeightType::I64 => number ^ SIGN_64,
        }
    }

    /// Returns the bits of a float.
    pub(crate) fn of_float(self, weight: f64) -> std::result::Result<u64, String> {
        let rounded = weight as f32;
        match self {
            _ if !weight.is_finite() => Err(format!("the weight {weight} is not finite")),
            WeightType::F64 => Ok(weight.to_bits()),
            WeightType::F32 if rounded.is_finite() && (rounded != 0.0 || weight == 0.0) => {
                Ok(u64::from(rounded.to_bits()))
            }
            // The limits are exact: 2^63 is out of range, -2^63 is in range.
            WeightType::I64
                if weight.fract() == 0.0 && (-2f64.powi(63)..2f64.powi(63)).contains(&weight) =>
            {
                Ok(weight as i64 as u64)
            }
            _ => Err(self.refusal(&weight.to_string())),
        }
    }

    /// Returns the bits of an integer.
    pub(crate) fn of_whole(self, weight: i64) -> std::result::Result<u64, String> {
        match self {
            WeightType::I64 => Ok(weight as u64),
            WeightType::F32 => Ok(u64::from((weight as f32).to_bits())),
            WeightType::F64 if weight as f64 as i128 == i128::from(weight) => {
                Ok((weight as f64).to_bits())
            }
            WeightType::F64 => Err(self.refusal(&weight.to_string())),
        }
    }

    /// Returns the bits of a number in text.
    pub(crate) fn of_text(self, text: &str) -> std::result::Result<u64, String> {
        if text.is_empty() {
            return Err("it has no weight".to_owned());
        }
        if let Ok(whole) = text.parse::<i64>() {
            return self.of_whole(whole);
        }
        let Ok(weight) = text.parse::<f64>() else {
            return Err(format!("`{text}` is not a weight"));
        };
        if !weight.is_finite() {
            return Err(format!("the weight {text} is not finite"));
        }
        let has_digits =
            |mut digits: std::str::Bytes<'_>| digits.any(|digit| (b'1'..=b'9').contains(&digit));
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let is_whole = text
            .trim_start_matches(['-', '+'])
            .bytes()
            .all(|byte| byte.is_ascii_digit());
        // Rejects an integer beyond 64 bits, and a nonzero number that would become 0.
        let is_lost =
            weight == 0.0 && has_digits(mantissa.bytes()) || is_whole && self != WeightType::F32;
        match is_lost {
            true => Err(self.refusal(text)),
            false => self.of_float(weight).map_err(|_| self.refusal(text)),
        }
    }

    fn refusal(self, text: &str) -> String {
        let other = match self {
            WeightType::F32 => "use f64",
            WeightType::F64 => "use i64 for whole numbers below 2^63, or f32 to round",
            WeightType::I64 => "use f64",
        };
        format!(
            "the weight {text} does not fit in {}; {other} (--weight-type)",
            self.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_kept_as_it_is_or_not_taken() {
        let value = |of: WeightType, text: &str| of.of_text(text).map(|bits| of.value(bits));
        let is_refused = |of: WeightType, text: &str| {
            value(of, text).is_err_and(|cause| cause.contains("does not fit"))
        };
        assert_eq!(value(WeightType::F64, "16777217"), Ok(16_777_217.0));
        assert_eq!(value(WeightType::F64, "1e-50"), Ok(1e-50));
        assert_eq!(value(WeightType::F32, "0.1"), Ok(f64::from(0.1f32)));
        assert_eq!(
            WeightType::I64.of_text("9007199254740993"),
            Ok(9_007_199_254_740_993)
        );
        assert_eq!(WeightType::I64.of_text("-1"), Ok(u64::MAX));
        assert_eq!(value(WeightType::I64, "2.0"), Ok(2.0));
        assert_eq!(value(WeightType::F64, "-0"), Ok(0.0));
        for (of, text) in [
            (WeightType::F64, "9007199254740993"),
            (WeightType::F64, "18446744073709551617"),
            (WeightType::F64, "1e-400"),
            (WeightType::F32, "1e-50"),
            (WeightType::F32, "1e50"),
            (WeightType::I64, "0.5"),
            (WeightType::I64, "9223372036854775808"),
        ] {
            assert!(is_refused(of, text), "{of:?} {text}");
        }
        assert!(
            WeightType::F64
                .of_text("nan")
                .unwrap_err()
                .contains("not finite")
        );
        assert!(
            WeightType::F64
                .of_text("1e400")
                .unwrap_err()
                .contains("not finite")
        );
        assert!(
            WeightType::F64
                .of_text("0,75")
                .unwrap_err()
                .contains("is not a weight")
        );
    }

    #[test]
    fn numbers_of_weights_have_their_order() {
        for of in [WeightType::F32, WeightType::F64, WeightType::I64] {
            let weights = [-5e9, -2.0, -1.0, 0.0, 1.0, 3.0, 7e12];
            let bits: Vec<u64> = weights.iter().map(|w| of.of_float(*w).unwrap()).collect();
            assert!(
                bits.windows(2)
                    .all(|pair| of.ordered(pair[0]) < of.ordered(pair[1]))
            );
            assert!(
                bits.iter()
                    .all(|bits| of.unordered(of.ordered(*bits)) == *bits)
            );
        }
    }
}
