//! The operators of expressions.
//!
//! Contract: as the folder's. Operators are Arrow's kernels, except for `//`, `%` and `**` of
//! floats: these are the engine's own and run row by row.

use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, not, or_kleene};
use arrow_arith::numeric::neg;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{Array, BooleanArray, Float64Array};
use arrow_ord::cmp;
use arrow_schema::{DataType, TimeUnit};
use arrow_string::concat_elements::concat_elements_dyn;
use outcore::key::expr::{Binary, float_operation, order_of};
use outcore_io::Result;

use crate::equal::with_one_zero;

use super::value::{
    Value, alike, common_type, comparable, failed, is_text, kernel, numbers_of, rows_of,
};
use super::{whole, wrong};
use crate::notation::notation;

/// Keeps truth values, and converts nulls to null truth values.
pub(super) fn truth(value: Value) -> Result<Value> {
    match value.data_type() {
        DataType::Boolean => Ok(value),
        DataType::Null => value.cast(&DataType::Boolean),
        other => Err(
            wrong(format!("expected a truth value, found {}", notation(other)))
                .hint("compare it with something, for example n > 0"),
        ),
    }
}

/// Combines two values with `and` or `or`.
pub(super) fn connected(operator: Binary, one: Value, other: Value) -> Result<Value> {
    let is_scalar = one.is_scalar && other.is_scalar;
    let rows_count = rows_of(&one, &other);
    let (one, other) = (one.into_column(rows_count)?, other.into_column(rows_count)?);
    let (one, other) = (one.as_boolean(), other.as_boolean());
    let made = match operator {
        Binary::And => and_kleene(one, other),
        _ => or_kleene(one, other),
    };
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(Arc::new(made), is_scalar))
}

pub(super) fn is_in(value: &Value, values: Vec<Value>, is_so: bool) -> Result<Value> {
    let mut found: Option<Value> = None;
    for other in values {
        let equal = compared(Binary::Equal, value.clone(), other)?;
        found = Some(match found {
            None => equal,
            Some(found) => connected(Binary::Or, found, equal)?,
        });
    }
    let found = found.unwrap_or_else(|| Value::boolean(false));
    match is_so {
        true => Ok(found),
        false => negated(found),
    }
}

pub(super) fn compared(operator: Binary, one: Value, other: Value) -> Result<Value> {
    if let Some(made) = compared_exactly(operator, &one, &other) {
        return Ok(made);
    }
    let (one, other) = comparable(one, other)?;
    let (one, other) = (without_signs(one), without_signs(other));
    let is_scalar = one.is_scalar && other.is_scalar;
    if *one.data_type() == DataType::Null {
        let rows_count = one.array.len().max(other.array.len());
        let made = BooleanArray::new_null(rows_count);
        return Ok(Value::computed(Arc::new(made), is_scalar));
    }
    let made = match operator {
        Binary::Less => cmp::lt(&one, &other),
        Binary::LessEqual => cmp::lt_eq(&one, &other),
        Binary::NotEqual => cmp::neq(&one, &other),
        Binary::GreaterEqual => cmp::gt_eq(&one, &other),
        Binary::Greater => cmp::gt(&one, &other),
        _ => cmp::eq(&one, &other),
    };
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(Arc::new(made), is_scalar))
}

/// Compares integers with floats if neither type holds all values of the other.
fn compared_exactly(operator: Binary, one: &Value, other: &Value) -> Option<Value> {
    let (whole, real, is_turned) = match one.data_type().is_floating() {
        true => (other, one, true),
        false => (one, other, false),
    };
    // Up to this number, a float holds every integer exactly.
    let exact_max = match real.data_type() {
        DataType::Float64 => 1 << 53,
        DataType::Float32 => 1 << 24,
        DataType::Float16 => 1 << 11,
        _ => return None,
    };
    let wholes = wholes_of(whole)?;
    if whole.is_scalar && wholes(0).is_none_or(|number| number.unsigned_abs() <= exact_max) {
        return None;
    }
    let reals = real.cast(&DataType::Float64).ok()?;
    let real_of = |row: usize| {
        let row = if real.is_scalar { 0 } else { row };
        let reals = reals.array.as_primitive::<Float64Type>();
        reals.is_valid(row).then(|| reals.value(row))
    };
    // A comparison with a number below this limit never rounds an integer across that number.
    if real.is_scalar && real_of(0).is_none_or(|number| number.abs() < exact_max as f64) {
        return None;
    }
    let rows_count = rows_of(one, other);
    let made = (0..rows_count).map(|row| {
        let order = order_of(wholes(row)?, real_of(row)?);
        let order = if is_turned { order.reverse() } else { order };
        Some(match operator {
            Binary::Less => order.is_lt(),
            Binary::LessEqual => order.is_le(),
            Binary::NotEqual => order.is_ne(),
            Binary::GreaterEqual => order.is_ge(),
            Binary::Greater => order.is_gt(),
            _ => order.is_eq(),
        })
    });
    let made: BooleanArray = made.collect();
    Some(Value::computed(
        Arc::new(made),
        one.is_scalar && other.is_scalar,
    ))
}

/// Reads 64-bit integers, and literals with more bits.
fn wholes_of(value: &Value) -> Option<impl Fn(usize) -> Option<i128>> {
    let is_wide = matches!(value.data_type(), DataType::Int64 | DataType::UInt64)
        || (value.is_literal() && matches!(value.data_type(), DataType::Decimal128(_, 0)));
    let kind = DataType::Decimal128(38, 0);
    let wide = is_wide.then(|| value.cast(&kind)).and_then(Result::ok)?;
    let array = wide.array.as_primitive::<Decimal128Type>().clone();
    let is_scalar = value.is_scalar;
    Some(move |row: usize| {
        let row = if is_scalar { 0 } else { row };
        array.is_valid(row).then(|| array.value(row))
    })
}

/// Replaces -0.0 with 0.0 and all NaNs with one NaN, because the kernels compare bits.
fn without_signs(value: Value) -> Value {
    Value {
        array: with_one_zero(&value.array),
        ..value
    }
}

pub(super) fn negative(value: &Value) -> Result<Value> {
    let value = match value.data_type().is_integer() {
        true => value.cast(&DataType::Int64)?,
        false if !value.data_type().is_numeric() && !is_span(value.data_type()) => {
            let kind = notation(value.data_type());
            return Err(wrong(format!("`-` does not work on {kind}"))
                .hint("it works on numbers, durations and intervals"));
        }
        false => value.clone(),
    };
    let made = neg(&value.array).map_err(|error| failed(&error))?;
    Ok(Value::computed(made, value.is_scalar))
}

/// Whether values are spans of time, which can be negated, or nulls.
fn is_span(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Duration(_) | DataType::Interval(_) | DataType::Null
    )
}

/// `~`: inverts the bits, or the truth value.
pub(super) fn inverted(value: Value) -> Result<Value> {
    match value.data_type() {
        DataType::Boolean | DataType::Null => negated(value),
        kind if kind.is_integer() => {
            let ones = Value::integer(-1)?;
            arithmetic(Binary::BitXor, &value.cast(&DataType::Int64)?, &ones)
        }
        kind => Err(wrong(format!("`~` does not work on {}", notation(kind)))
            .hint("it works on whole numbers and truth values")),
    }
}

/// Inverts the truth value.
pub(super) fn negated(value: Value) -> Result<Value> {
    let value = truth(value)?;
    let made = not(value.array.as_boolean()).map_err(|error| failed(&error))?;
    Ok(Value::computed(Arc::new(made), value.is_scalar))
}

pub(super) fn arithmetic(operator: Binary, one: &Value, other: &Value) -> Result<Value> {
    let (a, b) = (one.data_type(), other.data_type());
    if *a == DataType::Null || *b == DataType::Null {
        let kind = if *a == DataType::Null { b } else { a };
        return match kind {
            DataType::Null => Ok(Value::null()),
            kind => arithmetic(operator, &one.cast(kind)?, &other.cast(kind)?),
        };
    }
    let (is_add, is_subtract) = (operator == Binary::Add, operator == Binary::Subtract);
    if is_add && is_text(a) && is_text(b) {
        return joined(one, other);
    }
    if (is_add || is_subtract) && (a.is_temporal() || b.is_temporal()) {
        return of_times(operator, one, other);
    }
    if *a == DataType::Boolean && *b == DataType::Boolean {
        return of_truths(operator, one.clone(), other.clone());
    }
    if !a.is_numeric() || !b.is_numeric() {
        return Err(no_number(operator, a, b));
    }
    if a.is_integer() && b.is_integer() && operator != Binary::Divide {
        return whole::arithmetic(operator, one, other);
    }
    match operator {
        Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::ShiftLeft
        | Binary::ShiftRight => Err(no_number(operator, a, b)),
        Binary::Divide | Binary::FloorDivide | Binary::Modulo | Binary::Power => {
            let one = one.cast(&DataType::Float64)?;
            let other = other.cast(&DataType::Float64)?;
            match operator {
                Binary::Divide => kernel(operator, &one, &other),
                operator => Ok(of_floats(operator, &one, &other)),
            }
        }
        _ => {
            // Next to decimals, integers become decimals of their own scale; the kernel chooses a
            // type that holds the result.
            match common_type(one, other) {
                Some(DataType::Decimal128(..) | DataType::Decimal256(..)) => {
                    let (one, other) = (as_decimal(one)?, as_decimal(other)?);
                    kernel(operator, &one, &other)
                }
                Some(kind) => kernel(operator, &one.cast(&kind)?, &other.cast(&kind)?),
                None => Err(no_number(operator, a, b)),
            }
        }
    }
}

/// `&`, `|` and `^` of truth values.
fn of_truths(operator: Binary, one: Value, other: Value) -> Result<Value> {
    match operator {
        Binary::BitAnd => connected(Binary::And, one, other),
        Binary::BitOr => connected(Binary::Or, one, other),
        Binary::BitXor => compared(Binary::NotEqual, one, other),
        operator => Err(no_number(operator, one.data_type(), other.data_type())),
    }
}

/// Converts an integer, or a literal with a point, to the narrowest sufficient decimal.
fn as_decimal(value: &Value) -> Result<Value> {
    match (&value.origin, value.data_type()) {
        (super::value::Origin::Number(text), _) => {
            let digits = text.bytes().filter(u8::is_ascii_digit).count() as u8;
            let scale = text
                .split_once('.')
                .map_or(0, |(_, digits)| digits.len() as i8);
            value.cast(&DataType::Decimal128(digits.clamp(1, 38), scale))
        }
        (_, kind) if kind.is_integer() => value.cast(&DataType::Decimal128(20, 0)),
        (_, DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale)) => {
            value.cast(&DataType::Decimal128(*digits, *scale))
        }
        _ => Ok(value.clone()),
    }
}

/// Computes differences of dates and times, and adds or subtracts durations and days.
fn of_times(operator: Binary, one: &Value, other: &Value) -> Result<Value> {
    let (a, b) = (one.data_type(), other.data_type());
    match (a, b) {
        (DataType::Date32, kind) if kind.is_integer() => {
            let days = one.cast(&DataType::Int32)?.cast(&DataType::Int64)?;
            let made = kernel(operator, &days, &other.cast(&DataType::Int64)?)?;
            made.cast(&DataType::Int32)?.cast(&DataType::Date32)
        }
        (DataType::Interval(_) | DataType::Duration(_), _)
            if operator == Binary::Add
                && !matches!(b, DataType::Interval(_) | DataType::Duration(_)) =>
        {
            of_times(operator, other, one)
        }
        // A date plus a duration is a timestamp.
        (DataType::Date32, DataType::Interval(_) | DataType::Duration(_)) => {
            let time = DataType::Timestamp(TimeUnit::Microsecond, None);
            of_times(operator, &one.cast(&time)?, other)
        }
        (_, DataType::Duration(_) | DataType::Interval(_)) => kernel(operator, one, other),
        _ if operator == Binary::Subtract && common_type(one, other).is_some() => {
            let (one, other) = alike(one.clone(), other.clone())?;
            kernel(operator, &one, &other)
        }
        _ => Err(no_number(operator, a, b)),
    }
}

pub(super) fn no_number(operator: Binary, a: &DataType, b: &DataType) -> outcore_io::Error {
    let is_time = (a.is_temporal() && b.is_numeric()) || (a.is_numeric() && b.is_temporal());
    let is_joined = operator == Binary::Add && (is_text(a) || is_text(b));
    let (sign, a, b) = (operator.sign(), notation(a), notation(b));
    wrong(format!("`{sign}` does not work on {a} and {b}")).hint(match operator {
        _ if is_time => "add or subtract a duration: interval '1 hour', interval '2 days'",
        _ if is_joined => "concat(a, b) joins texts and numbers",
        Binary::BitXor => "it is the exclusive or of whole numbers; a power is x ** 2",
        _ => "cast the operand that contains numbers, for example i64(name) or f64(name)",
    })
}

/// Applies one of the engine's operators to floats.
fn of_floats(operator: Binary, one: &Value, other: &Value) -> Value {
    let (a, b) = (
        numbers_of::<Float64Type>(one),
        numbers_of::<Float64Type>(other),
    );
    let work = float_operation(operator);
    let rows = (0..rows_of(one, other)).map(|row| Some(work(a(row)?, b(row)?)));
    let made: Float64Array = rows.collect();
    Value::computed(Arc::new(made), one.is_scalar && other.is_scalar)
}

/// Concatenates two texts.
fn joined(one: &Value, other: &Value) -> Result<Value> {
    let is_scalar = one.is_scalar && other.is_scalar;
    let rows_count = rows_of(one, other);
    let kind = match one.data_type() == other.data_type() {
        true => one.data_type().clone(),
        false => DataType::LargeUtf8,
    };
    let one = one.cast(&kind)?.into_column(rows_count)?;
    let other = other.cast(&kind)?.into_column(rows_count)?;
    let made = concat_elements_dyn(&one, &other).map_err(|error| failed(&error))?;
    Ok(Value::computed(made, is_scalar))
}
