//! Places of quantiles among ordered values, and linear interpolation between two of them.
//!
//! Contract: a [`Part`] is the decimal fraction in the user's text, so the place of a quantile is
//! exact. [`quantiles`] interpolates between each pair of values, as DuckDB's `quantile_cont` does.
//! The result for
//!
//! - integers and floats is a float
//! - decimals is a decimal of their type, truncated after its last digit
//! - times is a time, rounded to its unit; ties go to the later one
//! - dates is a timestamp
//!
//! Decimals and times are computed in 256 bits, so none of their digits are lost. Pure.

use std::sync::Arc;

use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Int32Type, Int64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, Decimal256Array, Float64Array, PrimitiveArray, cast::AsArray,
};
use arrow_buffer::i256;
use arrow_schema::DataType;
use outcore_io::{Error, Result};

use super::GROUP;
use super::numbers::{each_real, each_whole, retyped_as};

const MICROSECONDS_A_DAY: i64 = 86_400_000_000;
const MICROSECONDS_A_MILLISECOND: i64 = 1000;

/// A number from 0 to 1 as a fraction of integers.
pub(super) struct Part {
    above: i128,
    below: i128,
    /// Whether a quantile is one of the values, rather than interpolated.
    pub(super) is_one_of: bool,
}

/// A fraction of the way from one value to the next.
pub(super) struct Share {
    above: i128,
    below: i128,
}

impl Part {
    /// A part for interpolated quantiles.
    pub(super) fn between(part: f64) -> Self {
        // The shortest digits that parse to this number are those that the user wrote.
        let text = format!("{part:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let above = format!("{whole}{fraction}").parse::<i128>();
        let zeros = fraction.len() as i64 - exponent.parse::<i64>().unwrap_or(0);
        let below = u32::try_from(zeros).ok();
        let below = below.and_then(|zeros| 10_i128.checked_pow(zeros));
        // For any number of rows, a part this small is less than one row.
        let (above, below) = match (above, below) {
            (Ok(above), Some(below)) => (above, below),
            _ => (0, 1),
        };
        Part {
            above,
            below,
            is_one_of: false,
        }
    }

    /// A part for quantiles that are one of the values.
    pub(super) fn one_of(part: f64) -> Self {
        Part {
            is_one_of: true,
            ..Part::between(part)
        }
    }

    /// Returns, for this many ordered values, the place at or before the quantile, and the fraction
    /// of the way to the next.
    pub(super) fn place(&self, count: i64) -> (i64, Share) {
        let rows = self.above * i128::from(if self.is_one_of { count } else { count - 1 });
        let (row, rest) = (rows.div_euclid(self.below), rows.rem_euclid(self.below));
        let row = match self.is_one_of {
            true => (row + i128::from(rest > 0)).max(1) - 1,
            false => row,
        };
        let share = Share {
            above: rest,
            below: self.below,
        };
        (row as i64, share)
    }
}

/// See the module; a pair without a share gives null.
///
/// # Errors
/// Usage: a date that a timestamp does not hold.
pub(super) fn quantiles(
    low: &ArrayRef,
    high: &ArrayRef,
    shares: impl Iterator<Item = Option<Share>>,
    result: &DataType,
) -> Result<ArrayRef> {
    if *result == DataType::Float64 {
        let pairs = reals(low)?.into_iter().zip(reals(high)?);
        let made = pairs.zip(shares).map(|((low, high), share)| {
            share.map(|share| match low == high || share.above == 0 {
                true => low,
                false => low + (high - low) * (share.above as f64 / share.below as f64),
            })
        });
        return Ok(Arc::new(made.collect::<Float64Array>()));
    }
    let is_decimal = result.is_decimal();
    let pairs = wholes(low)?.into_iter().zip(wholes(high)?);
    let made = pairs.zip(shares).map(|((low, high), share)| {
        share.map(|share| match share.above == 0 {
            true => low,
            false => whole_between(low, high, &share, is_decimal),
        })
    });
    let made: Vec<Option<i256>> = made.collect();
    let array = match result {
        DataType::Decimal256(..) => Arc::new(made.into_iter().collect::<Decimal256Array>()),
        DataType::Decimal128(..) => narrowed::<Decimal128Type>(made)?,
        DataType::Decimal32(..) => narrowed::<Decimal32Type>(made)?,
        DataType::Decimal64(..) => narrowed::<Decimal64Type>(made)?,
        DataType::Time32(_) => narrowed::<Int32Type>(made)?,
        _ => narrowed::<Int64Type>(made)?,
    };
    retyped_as(array, result)
}

/// Returns a fraction of the way, truncated towards zero or rounded.
fn whole_between(low: i256, high: i256, share: &Share, is_cut: bool) -> i256 {
    let (part, one) = (i256::from_i128(share.above), i256::from_i128(share.below));
    // Values of 76 digits would overflow here. Their difference is so large that its last digits do
    // not matter.
    let (whole, rest) = match (low.checked_mul(one), (high - low).checked_mul(part)) {
        (Some(low), Some(way)) if low.checked_add(way).is_some() => (i256::ZERO, low + way),
        _ => (low + (high - low) / one * part, i256::ZERO),
    };
    let rounded = match is_cut {
        true => rest / one,
        false => {
            let up = rest + one / i256::from_i128(2);
            let is_below = up % one < i256::ZERO;
            up / one - if is_below { i256::ONE } else { i256::ZERO }
        }
    };
    whole + rounded
}

fn narrowed<T: ArrowPrimitiveType>(values: Vec<Option<i256>>) -> Result<ArrayRef>
where
    T::Native: TryFrom<i128>,
{
    let narrow = |value: i256| {
        let value = value.to_i128().and_then(|value| value.try_into().ok());
        value.ok_or_else(|| {
            let cause = "a quantile of dates is outside the range of timestamps";
            Error::usage(GROUP, cause).hint("take quantile_disc, which gives one of the dates")
        })
    };
    let values = values.into_iter();
    let values = values.map(|value| value.map(narrow).transpose());
    Ok(Arc::new(values.collect::<Result<PrimitiveArray<T>>>()?))
}

/// Converts numbers to floats; nulls become arbitrary values.
fn reals(array: &ArrayRef) -> Result<Vec<f64>> {
    let count = array.len();
    let mut out = Vec::with_capacity(count);
    if array.data_type().is_floating() {
        each_real(array, |read| out.extend((0..count).map(read)));
        return Ok(out);
    }
    each_whole(array, |read| {
        out.extend((0..count).map(|row| read(row) as f64));
        Ok(out)
    })
}

/// The stored integers of decimals and times, and dates in microseconds; nulls become arbitrary
/// values.
fn wholes(array: &ArrayRef) -> Result<Vec<i256>> {
    let stored = |kind: DataType, scale: i64| -> Result<Vec<i256>> {
        let array = retyped_as(Arc::clone(array), &kind)?;
        let scale = i256::from_i128(scale.into());
        let scaled = |value: i128| i256::from_i128(value) * scale;
        each_whole(&array, |read| {
            Ok((0..array.len()).map(|row| scaled(read(row))).collect())
        })
    };
    match array.data_type() {
        DataType::Decimal256(..) => Ok(array.as_primitive::<Decimal256Type>().values().to_vec()),
        DataType::Date32 => stored(DataType::Int32, MICROSECONDS_A_DAY),
        DataType::Date64 => stored(DataType::Int64, MICROSECONDS_A_MILLISECOND),
        DataType::Time32(_) => stored(DataType::Int32, 1),
        kind if kind.is_decimal() => stored(kind.clone(), 1),
        _ => stored(DataType::Int64, 1),
    }
}
