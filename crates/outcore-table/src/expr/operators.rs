//! The operators of expressions.
//!
//! Contract: as the folder's. Operators are Arrow's kernels; what Python means by `//` and `%` is
//! computed row by row.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, not, or_kleene};
use arrow_arith::numeric::{add, div, mul, neg, sub};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, BooleanArray, Float64Array, Int64Array};
use arrow_ord::cmp;
use arrow_schema::DataType;
use arrow_string::concat_elements::concat_elements_dyn;
use outcore_io::Result;

use crate::equal::with_one_zero;

use super::value::{Value, alike, common_type, failed, is_text};
use super::{Operator, wrong};

/// Truth values as they are, nulls as those of truth values.
pub(super) fn truth(value: Value) -> Result<Value> {
    match value.data_type() {
        DataType::Boolean => Ok(value),
        DataType::Null => value.cast(&DataType::Boolean),
        other => Err(
            wrong(format!("a truth value is wanted, and this is {other}"))
                .hint("compare it with something, for example n > 0"),
        ),
    }
}

/// One after the other with `and` or `or`.
pub(super) fn connected(operator: Operator, one: Value, other: Value) -> Result<Value> {
    let is_scalar = one.is_scalar && other.is_scalar;
    let rows_count = match one.is_scalar {
        true => other.array.len(),
        false => one.array.len(),
    };
    let (one, other) = (one.into_column(rows_count)?, other.into_column(rows_count)?);
    let (one, other) = (one.as_boolean(), other.as_boolean());
    let made = match operator {
        Operator::And => and_kleene(one, other),
        _ => or_kleene(one, other),
    };
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(Arc::new(made), is_scalar))
}

pub(super) fn is_in(value: &Value, values: Vec<Value>, is_so: bool) -> Result<Value> {
    let mut found: Option<Value> = None;
    for other in values {
        let equal = compared(Operator::Equal, value.clone(), other)?;
        found = Some(match found {
            None => equal,
            Some(found) => connected(Operator::Or, found, equal)?,
        });
    }
    let found = found.unwrap_or_else(|| Value::boolean(false));
    if is_so {
        return Ok(found);
    }
    let made = not(found.array.as_boolean()).map_err(|error| failed(&error))?;
    Ok(Value::computed(Arc::new(made), found.is_scalar))
}

pub(super) fn compared(operator: Operator, one: Value, other: Value) -> Result<Value> {
    if let Some(made) = compared_exactly(operator, &one, &other) {
        return Ok(made);
    }
    let (one, other) = alike(one, other)?;
    let (one, other) = (without_signs(one), without_signs(other));
    let is_scalar = one.is_scalar && other.is_scalar;
    if *one.data_type() == DataType::Null {
        let rows_count = one.array.len().max(other.array.len());
        let made = BooleanArray::new_null(rows_count);
        return Ok(Value::computed(Arc::new(made), is_scalar));
    }
    let made = match operator {
        Operator::Less => cmp::lt(&one, &other),
        Operator::LessEqual => cmp::lt_eq(&one, &other),
        Operator::NotEqual => cmp::neq(&one, &other),
        Operator::GreaterEqual => cmp::gt_eq(&one, &other),
        Operator::Greater => cmp::gt(&one, &other),
        _ => cmp::eq(&one, &other),
    };
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(Arc::new(made), is_scalar))
}

/// Whole numbers beside floats, where the type of neither has all values of the other.
fn compared_exactly(operator: Operator, one: &Value, other: &Value) -> Option<Value> {
    let (whole, real, is_turned) = match one.data_type().is_floating() {
        true => (other, one, true),
        false => (one, other, false),
    };
    // Up to here all whole numbers are floats.
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
    // No whole number is rounded across a number below those that are not all floats.
    if real.is_scalar && real_of(0).is_none_or(|number| number.abs() < exact_max as f64) {
        return None;
    }
    let rows_count = rows_of(one, other);
    let made = (0..rows_count).map(|row| {
        let order = order_of(wholes(row)?, real_of(row)?);
        let order = if is_turned { order.reverse() } else { order };
        Some(match operator {
            Operator::Less => order.is_lt(),
            Operator::LessEqual => order.is_le(),
            Operator::NotEqual => order.is_ne(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::Greater => order.is_gt(),
            _ => order.is_eq(),
        })
    });
    let made: BooleanArray = made.collect();
    Some(Value::computed(
        Arc::new(made),
        one.is_scalar && other.is_scalar,
    ))
}

/// Reads whole numbers of 64 bits, and literals of more.
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

/// How a whole number stands to a float; NaN is larger than all numbers.
fn order_of(whole: i128, real: f64) -> Ordering {
    // 2^127 is the first whole number that 128 bits with a sign do not hold.
    let end = 2_f64.powi(127);
    if real.is_nan() || real >= end {
        return Ordering::Less;
    }
    if real < -end {
        return Ordering::Greater;
    }
    let below = real.floor();
    let is_between = real > below;
    match whole.cmp(&(below as i128)) {
        Ordering::Equal if is_between => Ordering::Less,
        order => order,
    }
}

/// Floats among which there are one zero and one NaN: the kernels compare bits.
fn without_signs(value: Value) -> Value {
    Value {
        array: with_one_zero(&value.array),
        ..value
    }
}

pub(super) fn negative(value: &Value) -> Result<Value> {
    let value = match value.data_type().is_integer() {
        true => value.cast(&DataType::Int64)?,
        false => value.clone(),
    };
    let made = neg(&value.array).map_err(|error| failed(&error))?;
    Ok(Value::computed(made, value.is_scalar))
}

pub(super) fn arithmetic(operator: Operator, one: &Value, other: &Value) -> Result<Value> {
    let (a, b) = (one.data_type(), other.data_type());
    if *a == DataType::Null || *b == DataType::Null {
        let kind = if *a == DataType::Null { b } else { a };
        return match kind {
            DataType::Null => Ok(Value::null()),
            kind => arithmetic(operator, &one.cast(kind)?, &other.cast(kind)?),
        };
    }
    let (is_add, is_subtract) = (operator == Operator::Add, operator == Operator::Subtract);
    if is_add && is_text(a) && is_text(b) {
        return joined(one, other);
    }
    if (is_add || is_subtract) && (a.is_temporal() || b.is_temporal()) {
        return of_times(operator, one, other);
    }
    if !a.is_numeric() || !b.is_numeric() {
        return Err(no_number(operator, a, b));
    }
    let is_whole = a.is_integer() && b.is_integer();
    match operator {
        Operator::FloorDivide | Operator::Modulo if is_whole => {
            let (one, other) = (one.cast(&DataType::Int64)?, other.cast(&DataType::Int64)?);
            Ok(divided_whole(operator, &one, &other))
        }
        Operator::Divide | Operator::FloorDivide | Operator::Modulo => {
            let (one, other) = (
                one.cast(&DataType::Float64)?,
                other.cast(&DataType::Float64)?,
            );
            if operator == Operator::Divide {
                return kernel(operator, &one, &other);
            }
            Ok(divided(operator, &one, &other))
        }
        _ if is_whole => {
            let is_unsigned = |value: &Value| {
                value.data_type().is_unsigned_integer()
                    || (value.is_literal() && value.cast(&DataType::UInt64).is_ok())
            };
            let is_large = [a, b].contains(&&DataType::UInt64);
            let kind = match is_large && is_unsigned(one) && is_unsigned(other) {
                true => DataType::UInt64,
                false => DataType::Int64,
            };
            kernel(operator, &one.cast(&kind)?, &other.cast(&kind)?)
        }
        _ => {
            // Beside decimals, numbers are decimals of their own scale: the kernel makes what holds
            // the result.
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

/// A whole number, or a literal with a point, as a decimal as wide as it must be.
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

fn kernel(operator: Operator, one: &Value, other: &Value) -> Result<Value> {
    let made = match operator {
        Operator::Add => add(one, other),
        Operator::Subtract => sub(one, other),
        Operator::Multiply => mul(one, other),
        _ => div(one, other),
    };
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(made, one.is_scalar && other.is_scalar))
}

/// Dates and times: differences, a duration more or less, and days more or less.
fn of_times(operator: Operator, one: &Value, other: &Value) -> Result<Value> {
    let (a, b) = (one.data_type(), other.data_type());
    match (a, b) {
        (DataType::Date32, kind) if kind.is_integer() => {
            let days = one.cast(&DataType::Int32)?.cast(&DataType::Int64)?;
            let made = kernel(operator, &days, &other.cast(&DataType::Int64)?)?;
            made.cast(&DataType::Int32)?.cast(&DataType::Date32)
        }
        (_, DataType::Duration(_) | DataType::Interval(_)) => kernel(operator, one, other),
        _ if operator == Operator::Subtract => {
            let (one, other) = alike(one.clone(), other.clone())?;
            kernel(operator, &one, &other)
        }
        _ => Err(no_number(operator, a, b)),
    }
}

fn no_number(operator: Operator, a: &DataType, b: &DataType) -> outcore_io::Error {
    let sign = match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        _ => "%",
    };
    wrong(format!("`{sign}` does not work on {a} and {b}"))
        .hint("cast what holds numbers, for example i64(name) or f64(name)")
}

/// Row by row, with what is one value for all at every place.
fn zipped<'v, T: Copy + 'v>(
    one: impl Fn(usize) -> Option<T> + 'v,
    other: impl Fn(usize) -> Option<T> + 'v,
    rows_count: usize,
    work: impl Fn(T, T) -> Option<T> + 'v,
) -> impl Iterator<Item = Option<T>> + 'v {
    (0..rows_count).map(move |row| work(one(row)?, other(row)?))
}

fn rows_of(one: &Value, other: &Value) -> usize {
    match one.is_scalar {
        true => other.array.len(),
        false => one.array.len(),
    }
}

/// Rounded down, and what is left then; null for a division by zero.
fn divided_whole(operator: Operator, one: &Value, other: &Value) -> Value {
    let get = |value: &Value| {
        let (array, is_scalar) = (
            value.array.as_primitive::<Int64Type>().clone(),
            value.is_scalar,
        );
        move |row: usize| {
            let row = if is_scalar { 0 } else { row };
            array.is_valid(row).then(|| array.value(row))
        }
    };
    let work = move |a: i64, b: i64| {
        let left = a.checked_rem(b).or((b == -1).then_some(0))?;
        let is_under = left != 0 && (left < 0) != (b < 0);
        match operator {
            Operator::Modulo => Some(if is_under { left + b } else { left }),
            _ => a.checked_div(b).map(|whole| whole - i64::from(is_under)),
        }
    };
    let rows = zipped(get(one), get(other), rows_of(one, other), work);
    let made: Int64Array = rows.collect();
    Value::computed(Arc::new(made), one.is_scalar && other.is_scalar)
}

fn divided(operator: Operator, one: &Value, other: &Value) -> Value {
    let get = |value: &Value| {
        let (array, is_scalar) = (
            value.array.as_primitive::<Float64Type>().clone(),
            value.is_scalar,
        );
        move |row: usize| {
            let row = if is_scalar { 0 } else { row };
            array.is_valid(row).then(|| array.value(row))
        }
    };
    let work = move |a: f64, b: f64| {
        let left = a % b;
        let left = if left != 0.0 && (left < 0.0) != (b < 0.0) {
            left + b
        } else {
            left
        };
        Some(match operator {
            Operator::Modulo => left,
            _ => ((a - left) / b).round(),
        })
    };
    let rows = zipped(get(one), get(other), rows_of(one, other), work);
    let made: Float64Array = rows.collect();
    Value::computed(Arc::new(made), one.is_scalar && other.is_scalar)
}

/// Two texts, one after the other.
fn joined(one: &Value, other: &Value) -> Result<Value> {
    let is_scalar = one.is_scalar && other.is_scalar;
    let rows_count = match one.is_scalar {
        true => other.array.len(),
        false => one.array.len(),
    };
    let kind = match one.data_type() == other.data_type() {
        true => one.data_type().clone(),
        false => DataType::LargeUtf8,
    };
    let one = one.cast(&kind)?.into_column(rows_count)?;
    let other = other.cast(&kind)?.into_column(rows_count)?;
    let made = concat_elements_dyn(&one, &other).map_err(|error| failed(&error))?;
    Ok(Value::computed(made, is_scalar))
}
