//! Integer operators.
//!
//! Contract: integers are computed in 64 bits, unsigned if one side is `u64` and the other can be.
//! Overflow is an error. Division by zero gives null, because it has no value.

use std::sync::Arc;

use arrow_array::PrimitiveArray;
use arrow_array::types::{ArrowPrimitiveType, Int64Type, UInt64Type};
use arrow_schema::{ArrowError, DataType};
use outcore::key::expr::Binary;
use outcore_io::Result;

use super::value::{Value, failed, kernel, numbers_of, rows_of};
use super::wrong;

/// Why a power has no value.
const NEGATIVE_POWER: &str = "an integer cannot be raised to a negative power";

type Made<T> = Result<Option<T>>;

/// See the module.
pub(super) fn arithmetic(operator: Binary, one: &Value, other: &Value) -> Result<Value> {
    let is_unsigned = |value: &Value| {
        value.data_type().is_unsigned_integer()
            || (value.is_literal() && value.cast(&DataType::UInt64).is_ok())
    };
    let is_large = [one, other]
        .iter()
        .any(|value| *value.data_type() == DataType::UInt64);
    let kind = match is_large && is_unsigned(one) && is_unsigned(other) {
        true => DataType::UInt64,
        false => DataType::Int64,
    };
    let (one, other) = (one.cast(&kind)?, other.cast(&kind)?);
    match (operator, kind) {
        (Binary::Add | Binary::Subtract | Binary::Multiply, _) => kernel(operator, &one, &other),
        (operator, DataType::UInt64) => {
            rows::<UInt64Type>(&one, &other, |a, b| unsigned(operator, a, b))
        }
        (operator, _) => rows::<Int64Type>(&one, &other, |a, b| signed(operator, a, b)),
    }
}

/// Computes row by row.
fn rows<T: ArrowPrimitiveType>(
    one: &Value,
    other: &Value,
    work: impl Fn(T::Native, T::Native) -> Made<T::Native>,
) -> Result<Value> {
    let (a, b) = (numbers_of::<T>(one), numbers_of::<T>(other));
    let rows = (0..rows_of(one, other)).map(|row| match (a(row), b(row)) {
        (Some(a), Some(b)) => work(a, b),
        _ => Ok(None),
    });
    let made: PrimitiveArray<T> = rows.collect::<Result<_>>()?;
    Ok(Value::computed(
        Arc::new(made),
        one.is_scalar && other.is_scalar,
    ))
}

fn signed(operator: Binary, a: i64, b: i64) -> Made<i64> {
    match operator {
        Binary::FloorDivide | Binary::Modulo if b == 0 => Ok(None),
        Binary::FloorDivide => {
            let is_under = b != -1 && a % b != 0 && (a < 0) != (b < 0);
            fits(
                operator,
                a,
                b,
                a.checked_div(b).map(|whole| whole - i64::from(is_under)),
            )
        }
        Binary::Modulo => {
            // The least integer has no quotient by -1; the remainder is 0.
            let left = a.wrapping_rem(b);
            let is_under = left != 0 && (left < 0) != (b < 0);
            Ok(Some(if is_under { left + b } else { left }))
        }
        Binary::ShiftLeft => {
            let bits = shift(b)?;
            let made = (bits < 64).then(|| i128::from(a) << bits);
            let made = made.and_then(|made| i64::try_from(made).ok());
            fits(operator, a, b, made.or((a == 0).then_some(0)))
        }
        Binary::ShiftRight => Ok(Some(a >> shift(b)?.min(63))),
        Binary::Power if b < 0 => {
            Err(wrong(NEGATIVE_POWER).hint("compute with floats: f64(x) ** -1, or 1 / x"))
        }
        Binary::Power => {
            // For larger exponents, only their parity matters.
            let exponent = u32::try_from(b).unwrap_or(u32::MAX - u32::from(b % 2 == 0));
            fits(operator, a, b, a.checked_pow(exponent))
        }
        Binary::BitAnd => Ok(Some(a & b)),
        Binary::BitOr => Ok(Some(a | b)),
        _ => Ok(Some(a ^ b)),
    }
}

fn unsigned(operator: Binary, a: u64, b: u64) -> Made<u64> {
    let bits = u32::try_from(b).unwrap_or(u32::MAX);
    match operator {
        Binary::FloorDivide => Ok(a.checked_div(b)),
        Binary::Modulo => Ok(a.checked_rem(b)),
        Binary::ShiftLeft => {
            let made = 1_u64.checked_shl(bits).and_then(|by| a.checked_mul(by));
            fits(operator, a, b, made.or((a == 0).then_some(0)))
        }
        Binary::ShiftRight => Ok(Some(a.checked_shr(bits).unwrap_or(0))),
        Binary::Power => fits(operator, a, b, a.checked_pow(bits)),
        Binary::BitAnd => Ok(Some(a & b)),
        Binary::BitOr => Ok(Some(a | b)),
        _ => Ok(Some(a ^ b)),
    }
}

fn fits<T: std::fmt::Display>(operator: Binary, a: T, b: T, made: Option<T>) -> Made<T> {
    match made {
        Some(made) => Ok(Some(made)),
        None => {
            let cause = format!("Overflow happened on: {a} {} {b}", operator.sign());
            Err(failed(&ArrowError::ArithmeticOverflow(cause)))
        }
    }
}

fn shift(by: i64) -> Result<u32> {
    match by {
        ..0 => Err(
            wrong("a number cannot be shifted by a negative number of bits")
                .hint("shift the other way: n >> 2 for n << -2"),
        ),
        by => Ok(u32::try_from(by).unwrap_or(u32::MAX)),
    }
}
