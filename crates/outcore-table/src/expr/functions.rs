//! The functions of expressions.
//!
//! Contract: as the folder's; a name that is none is answered with those that there are.

use std::sync::Arc;

use arrow_arith::temporal::{DatePart, date_part};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Datum, Float64Array, Int64Array, LargeStringArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::zip::zip;
use arrow_string::{length::length, like};
use outcore_io::{Error, Result};

use super::operators::{is_in, truth};
use super::value::{Value, alike, cast, cast_with, failed, in_utc, is_text};
use super::wrong;

/// Casts, by name.
const CASTS: [(&str, DataType); 14] = [
    ("i8", DataType::Int8),
    ("i16", DataType::Int16),
    ("i32", DataType::Int32),
    ("i64", DataType::Int64),
    ("u8", DataType::UInt8),
    ("u16", DataType::UInt16),
    ("u32", DataType::UInt32),
    ("u64", DataType::UInt64),
    ("f32", DataType::Float32),
    ("f64", DataType::Float64),
    ("bool", DataType::Boolean),
    ("text", DataType::Utf8),
    ("date", DataType::Date32),
    (
        "timestamp",
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ),
];
const PARTS: [(&str, DatePart); 8] = [
    ("year", DatePart::Year),
    ("quarter", DatePart::Quarter),
    ("month", DatePart::Month),
    ("day", DatePart::Day),
    ("weekday", DatePart::DayOfWeekMonday0),
    ("hour", DatePart::Hour),
    ("minute", DatePart::Minute),
    ("second", DatePart::Second),
];
const OTHERS: &str = "is_null, is_not_null, isin, isnan, contains, starts_with, ends_with, like, ilike, lower, upper, \
                      length, abs, round, floor, ceil, sqrt, where, coalesce";

/// What the function `name` gives for `values`.
pub(super) fn call(name: &str, mut values: Vec<Value>, rows_count: usize) -> Result<Value> {
    if let Some((_, part)) = PARTS.iter().find(|(known, _)| *known == name) {
        let [value] = take(name, values)?;
        return part_of(&value, *part);
    }
    let (is_tried, kind) = match name.strip_prefix("try_") {
        Some(kind) => (true, kind),
        None => (false, name),
    };
    if let Some((_, data_type)) = CASTS.iter().find(|(known, _)| *known == kind) {
        let [value] = take(name, values)?;
        let value = in_utc(value)?;
        let array = cast_with(&value.array, data_type, is_tried)?;
        return Ok(Value::computed(array, value.is_scalar));
    }
    match name {
        "is_null" | "is_not_null" => {
            let [value] = take(name, values)?;
            let made = match name {
                "is_null" => arrow_arith::boolean::is_null(&value.array),
                _ => arrow_arith::boolean::is_not_null(&value.array),
            };
            told(made.map(|made| Arc::new(made) as ArrayRef), value.is_scalar)
        }
        "isin" if !values.is_empty() => {
            let value = values.remove(0);
            is_in(&value, values, true)
        }
        "contains" => matched(name, values, like::contains),
        "starts_with" => matched(name, values, like::starts_with),
        "ends_with" => matched(name, values, like::ends_with),
        "like" => matched(name, values, like::like),
        "ilike" => matched(name, values, like::ilike),
        "lower" | "upper" => {
            let [value] = take(name, values)?;
            changed(&value, |text| match name {
                "lower" => text.to_lowercase(),
                _ => text.to_uppercase(),
            })
        }
        "length" => {
            let [value] = take(name, values)?;
            length_of(&value)
        }
        "isnan" => {
            let [value] = take(name, values)?;
            let value = value.cast(&DataType::Float64)?;
            let numbers = value.array.as_primitive::<Float64Type>();
            let made = BooleanArray::from_unary(numbers, f64::is_nan);
            Ok(Value::computed(Arc::new(made), value.is_scalar))
        }
        "abs" | "round" | "floor" | "ceil" | "sqrt" => {
            let [value] = take(name, values)?;
            rounded(name, &value)
        }
        "where" => {
            let [condition, one, other] = take(name, values)?;
            chosen(condition, one, other, rows_count)
        }
        "coalesce" if !values.is_empty() => {
            let mut rest = values.into_iter().rev();
            let last = rest.next().ok_or_else(|| unknown(name))?;
            rest.try_fold(last, |otherwise, value| {
                let is_there = arrow_arith::boolean::is_not_null(&value.array);
                let is_there = is_there.map_err(|error| failed(&error))?;
                let is_there = Value::computed(Arc::new(is_there), value.is_scalar);
                chosen(is_there, value, otherwise, rows_count)
            })
        }
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    let casts: Vec<&str> = CASTS.iter().map(|(name, _)| *name).collect();
    let parts: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    wrong(format!("there is no function `{name}`")).hint(format!(
        "functions are {OTHERS}, {}, {}",
        parts.join(", "),
        casts.join(", ")
    ))
}

/// As many values as the function takes.
fn take<const N: usize>(name: &str, values: Vec<Value>) -> Result<[Value; N]> {
    let count = values.len();
    values.try_into().map_err(|_| {
        let values = if N == 1 { "value" } else { "values" };
        wrong(format!("`{name}` takes {N} {values}, and here are {count}"))
    })
}

fn told(made: std::result::Result<ArrayRef, ArrowError>, is_scalar: bool) -> Result<Value> {
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(made, is_scalar))
}

/// As text that the kernels take.
fn as_text(name: &str, value: &Value) -> Result<Value> {
    match value.data_type() {
        kind if is_text(kind) || *kind == DataType::Null => value.cast(&DataType::LargeUtf8),
        kind => Err(wrong(format!("`{name}` works on text, and this is {kind}"))
            .hint("convert it with text(...)")),
    }
}

type Match = fn(&dyn Datum, &dyn Datum) -> std::result::Result<BooleanArray, ArrowError>;

fn matched(name: &str, values: Vec<Value>, work: Match) -> Result<Value> {
    let [one, other] = take(name, values)?;
    let (one, other) = (as_text(name, &one)?, as_text(name, &other)?);
    let made = work(&one, &other).map(|made| Arc::new(made) as ArrayRef);
    told(made, one.is_scalar && other.is_scalar)
}

fn changed(value: &Value, work: impl Fn(&str) -> String) -> Result<Value> {
    let text = as_text("lower and upper", value)?;
    let texts = text.array.as_string::<i64>().iter();
    let made: LargeStringArray = texts.map(|text| text.map(&work)).collect();
    let made: ArrayRef = Arc::new(made);
    let kind = match value.data_type() {
        DataType::Null => &DataType::Utf8,
        kind => kind,
    };
    Ok(Value::computed(cast(&made, kind)?, value.is_scalar))
}

/// Characters of a text, bytes of bytes, elements of a list.
fn length_of(value: &Value) -> Result<Value> {
    if !is_text(value.data_type()) {
        let made = length(&value.array).map_err(|error| failed(&error))?;
        return Ok(Value::computed(
            cast(&made, &DataType::Int64)?,
            value.is_scalar,
        ));
    }
    let text = as_text("length", value)?;
    let texts = text.array.as_string::<i64>().iter();
    let count = |text: Option<&str>| text.map(|text| text.chars().count() as i64);
    let made: Int64Array = texts.map(count).collect();
    Ok(Value::computed(Arc::new(made), value.is_scalar))
}

fn part_of(value: &Value, part: DatePart) -> Result<Value> {
    let value = match value.data_type() {
        DataType::Utf8 => value.cast(&DataType::Timestamp(TimeUnit::Nanosecond, None))?,
        _ => in_utc(value.clone())?,
    };
    let made = date_part(&value.array, part).map_err(|error| failed(&error))?;
    Ok(Value::computed(made, value.is_scalar))
}

fn rounded(name: &str, value: &Value) -> Result<Value> {
    if value.data_type().is_integer() && name != "sqrt" {
        let value = value.cast(&DataType::Int64)?;
        if name != "abs" {
            return Ok(value);
        }
        let numbers = value.array.as_primitive::<Int64Type>();
        let absolute = |number: i64| {
            let absolute = number.checked_abs();
            absolute.ok_or_else(|| ArrowError::ArithmeticOverflow(format!("abs({number})")))
        };
        let made = numbers.try_unary::<_, Int64Type, _>(absolute);
        return told(made.map(|made| Arc::new(made) as ArrayRef), value.is_scalar);
    }
    if !value.data_type().is_numeric() {
        let kind = value.data_type();
        return Err(wrong(format!(
            "`{name}` works on numbers, and this is {kind}"
        )));
    }
    let value = value.cast(&DataType::Float64)?;
    let work = match name {
        "abs" => f64::abs,
        "round" => f64::round_ties_even,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        _ => f64::sqrt,
    };
    let made: Float64Array = value.array.as_primitive::<Float64Type>().unary(work);
    Ok(Value::computed(Arc::new(made), value.is_scalar))
}

/// One where a condition is true, the other where it is false or null.
fn chosen(condition: Value, one: Value, other: Value, rows_count: usize) -> Result<Value> {
    let (one, other) = match one.data_type() == other.data_type() {
        true => (one, other),
        false => alike(one, other)?,
    };
    let condition = truth(condition)?.into_column(rows_count)?;
    let (one, other) = (one.into_column(rows_count)?, other.into_column(rows_count)?);
    told(zip(condition.as_boolean(), &one, &other), false)
}
