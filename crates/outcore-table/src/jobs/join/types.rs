//! Types in which columns of two tables are compared.
//!
//! Contract: columns of equal types are compared in that type, dictionaries by their values. Other
//! columns are compared in their common type ([`crate::common`]); without one, an error reports
//! both types. A value that the common type does not hold is an error; nothing is rounded. Pure.

use std::time::Duration;

use arrow_array::Array;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, cast::AsArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use outcore_io::{Error, Result, units};

use super::{ColumnPair, JOIN};
use crate::common;
use crate::equal::{plain_type, with_one_zero};
use crate::fault;
use crate::notation::notation;

/// Returns the type in which values of two types are compared.
///
/// # Errors
/// Usage: there is no such type.
pub(super) fn common_type(
    pair: &ColumnPair,
    left: &DataType,
    right: &DataType,
) -> Result<DataType> {
    let both = common::common_type(&plain_type(left), &plain_type(right));
    both.ok_or_else(|| {
        let cause = format!(
            "column `{}` of the left table is {} and column `{}` of the right table is {}, which cannot be compared",
            pair.left,
            notation(left),
            pair.right,
            notation(right)
        );
        Error::usage(JOIN, cause)
            .hint("convert one of them with `outcore map` first, for example `c = i64(c)`")
    })
}

fn ticks_per_second(unit: TimeUnit) -> u64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Casts the values of a key column to the type of the comparison, so that equal values have equal
/// bytes.
///
/// # Errors
/// Usage: a value that does not fit this type.
pub(super) fn comparable(name: &str, array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let array = common::cast_to(JOIN, name, array, data_type)?;
    Ok(with_one_zero(&array))
}

/// Casts the values to another type.
///
/// # Errors
/// As [`comparable`].
pub(super) fn cast(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(ArrayRef::clone(array));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, data_type, &options).map_err(|error| fault::arrow(JOIN, &error))
}

/// The largest distance of a partner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tolerance {
    /// In units of an integer or time column.
    Whole(u64),
    Real(f64),
}

impl Tolerance {
    /// Reads a number, or for columns of times a duration.
    ///
    /// # Errors
    /// Usage: any other text.
    pub(super) fn parse(text: &str, data_type: &DataType) -> Result<Self> {
        let wrong = |hint: &str| {
            let cause = format!(
                "the tolerance `{text}` does not suit a column of type {}",
                notation(data_type)
            );
            Error::usage(JOIN, cause).hint(hint)
        };
        let duration = |unit: TimeUnit| {
            let span: Duration = units::parse_duration(text)?;
            let tick_ns = 1_000_000_000 / u128::from(ticks_per_second(unit));
            let ticks = u64::try_from(span.as_nanos() / tick_ns);
            ticks
                .map(Tolerance::Whole)
                .map_err(|_| wrong("give a shorter tolerance"))
        };
        match data_type {
            DataType::Timestamp(unit, _)
            | DataType::Time32(unit)
            | DataType::Time64(unit)
            | DataType::Duration(unit) => duration(*unit),
            DataType::Date64 => duration(TimeUnit::Millisecond),
            DataType::Date32 => match duration(TimeUnit::Second)? {
                Tolerance::Whole(seconds) => Ok(Tolerance::Whole(seconds / 86_400)),
                real => Ok(real),
            },
            integer if integer.is_integer() => text
                .parse()
                .map(Tolerance::Whole)
                .map_err(|_| wrong("give a whole number, as in 10")),
            real if real.is_floating() => match text.parse::<f64>() {
                Ok(number) if number >= 0.0 => Ok(Tolerance::Real(number)),
                _ => Err(wrong("give a number that is not negative, as in 0.5")),
            },
            _ => Err(wrong("leave it out, or cast the columns to a number first")),
        }
    }

    /// Marks the partners that are too far back. Both columns have the type for which this was
    /// created.
    ///
    /// # Errors
    /// None are expected.
    pub(super) fn exceeded(self, left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
        Ok(match self {
            Tolerance::Real(most) => {
                let (left, right) = (
                    cast(left, &DataType::Float64)?,
                    cast(right, &DataType::Float64)?,
                );
                let (one, other) = (
                    left.as_primitive::<Float64Type>(),
                    right.as_primitive::<Float64Type>(),
                );
                pairs(&left, &right, |row| {
                    one.value(row) - other.value(row) > most
                })
            }
            Tolerance::Whole(most) if *left.data_type() == DataType::UInt64 => {
                let (one, other) = (
                    left.as_primitive::<UInt64Type>(),
                    right.as_primitive::<UInt64Type>(),
                );
                pairs(left, right, |row| {
                    one.value(row).abs_diff(other.value(row)) > most
                })
            }
            Tolerance::Whole(most) => {
                let (left, right) = (whole(left)?, whole(right)?);
                let (one, other) = (
                    left.as_primitive::<Int64Type>(),
                    right.as_primitive::<Int64Type>(),
                );
                pairs(&left, &right, |row| {
                    one.value(row).abs_diff(other.value(row)) > most
                })
            }
        })
    }
}

/// Marks the rows in which both have a value and differ too much.
fn pairs(left: &ArrayRef, right: &ArrayRef, is_beyond: impl Fn(usize) -> bool) -> BooleanArray {
    let is_far = |row| left.is_valid(row) && right.is_valid(row) && is_beyond(row);
    (0..left.len()).map(|row| Some(is_far(row))).collect()
}

/// Converts times and integers to their stored numbers.
fn whole(array: &ArrayRef) -> Result<ArrayRef> {
    let narrow = matches!(array.data_type(), DataType::Date32 | DataType::Time32(_));
    let array = match narrow {
        true => cast(array, &DataType::Int32)?,
        false => ArrayRef::clone(array),
    };
    cast(&array, &DataType::Int64)
}
