//! The functions of expressions.
//!
//! Contract: as the folder's. The parser has checked the number of arguments.

use std::sync::Arc;

use arrow_arith::boolean::{is_not_null, is_null};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    ArrayRef, BooleanArray, Datum, Float64Array, Int64Array, LargeStringArray, UInt64Array,
};
use arrow_schema::{ArrowError, DataType};
use arrow_select::zip::zip;
use arrow_string::{length::length, like};
use outcore::key::expr::{Binary, Function, hash_of_bits};
use outcore_io::Result;
use twox_hash::XxHash3_64;

use super::operators::{compared, connected, is_in};
use super::texts::as_text;
use super::value::{Value, alike, cast, failed, is_bytes, is_text, true_rows};
use super::{texts, times, wrong};
use crate::notation::notation;

/// Applies `function` to `values`.
pub(super) fn call(function: Function, mut values: Vec<Value>, rows_count: usize) -> Result<Value> {
    use Function::{
        Abs, Ceil, Coalesce, Contains, EndsWith, Exp, Floor, Hash, Ilike, IsIn, IsNan, IsNotNull,
        IsNull, Length, Like, Log, Log2, Lower, Max, Min, Round, Sqrt, StartsWith, Upper, Where,
    };
    match function {
        IsNull | IsNotNull => {
            let [value] = take(function, values)?;
            let made = match function {
                IsNull => is_null(&value.array),
                _ => is_not_null(&value.array),
            };
            told(made.map(|made| Arc::new(made) as ArrayRef), value.is_scalar)
        }
        IsIn => {
            let value = values.remove(0);
            is_in(&value, values, true)
        }
        Contains => matched(function, values, like::contains),
        StartsWith => matched(function, values, like::starts_with),
        EndsWith => matched(function, values, like::ends_with),
        Like => matched(function, values, like::like),
        Ilike => matched(function, values, like::ilike),
        Lower | Upper => {
            let [value] = take(function, values)?;
            changed(function, &value, |text| match function {
                Lower => text.to_lowercase(),
                _ => text.to_uppercase(),
            })
        }
        Length => {
            let [value] = take(function, values)?;
            length_of(&value)
        }
        IsNan => {
            let [value] = take(function, values)?;
            let value = as_float(function, &value)?;
            let numbers = value.array.as_primitive::<Float64Type>();
            let made = BooleanArray::from_unary(numbers, f64::is_nan);
            Ok(Value::computed(Arc::new(made), value.is_scalar))
        }
        Abs | Round | Floor | Ceil | Sqrt | Exp | Log | Log2 => {
            let [value] = take(function, values)?;
            rounded(function, &value)
        }
        Hash => {
            let [value] = take(function, values)?;
            hashed(&value)
        }
        Min => least_of(Binary::Less, values, rows_count),
        Max => least_of(Binary::Greater, values, rows_count),
        Where => Err(wrong("`where` takes 3 values")),
        Coalesce => {
            let mut rest = values.into_iter().rev();
            let last = rest.next().unwrap_or_else(Value::null);
            rest.try_fold(last, |otherwise, value| {
                let is_there = is_not_null(&value.array).map_err(|error| failed(&error))?;
                let is_there = Value::computed(Arc::new(is_there), value.is_scalar);
                let is_there = is_there.into_column(rows_count)?;
                chosen(is_there.as_boolean(), value, otherwise)
            })
        }
        Function::NullIf => {
            let [one, other] = take(function, values)?;
            let is_same = compared(Binary::Equal, one.clone(), other)?.into_column(rows_count)?;
            let is_same = true_rows(is_same.as_boolean());
            let kind = one.data_type().clone();
            chosen(&is_same, Value::null().cast(&kind)?, one)
        }
        Function::Substr
        | Function::Trim
        | Function::Ltrim
        | Function::Rtrim
        | Function::Replace
        | Function::SplitPart
        | Function::Concat
        | Function::RegexpMatches
        | Function::RegexpReplace
        | Function::RegexpExtract => texts::call(function, &values, rows_count),
        Function::Year
        | Function::Quarter
        | Function::Month
        | Function::Week
        | Function::Day
        | Function::Yearday
        | Function::Weekday
        | Function::Hour
        | Function::Minute
        | Function::Second
        | Function::TimeBucket
        | Function::DateTrunc
        | Function::DateDiff
        | Function::Epoch
        | Function::Strftime
        | Function::Strptime
        | Function::TryStrptime => times::call(function, &values),
    }
}

/// Converts `values` to an array of the length that the function takes.
fn take<const N: usize>(function: Function, values: Vec<Value>) -> Result<[Value; N]> {
    // The parser has checked the number.
    let taken = values.try_into();
    taken.map_err(|_| wrong(format!("`{}` takes other values", function.name())))
}

fn told(made: std::result::Result<ArrayRef, ArrowError>, is_scalar: bool) -> Result<Value> {
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(made, is_scalar))
}

type Match = fn(&dyn Datum, &dyn Datum) -> std::result::Result<BooleanArray, ArrowError>;

fn matched(function: Function, values: Vec<Value>, work: Match) -> Result<Value> {
    let [one, other] = take(function, values)?;
    let (one, other) = (as_text(function, &one)?, as_text(function, &other)?);
    let made = work(&one, &other).map(|made| Arc::new(made) as ArrayRef);
    told(made, one.is_scalar && other.is_scalar)
}

fn changed(function: Function, value: &Value, work: impl Fn(&str) -> String) -> Result<Value> {
    let text = as_text(function, value)?;
    let texts = text.array.as_string::<i64>().iter();
    let made: LargeStringArray = texts.map(|text| text.map(&work)).collect();
    let made: ArrayRef = Arc::new(made);
    let kind = match value.data_type() {
        DataType::Null => &DataType::Utf8,
        kind => kind,
    };
    Ok(Value::computed(cast(&made, kind)?, value.is_scalar))
}

/// Counts the characters of a text, the bytes of a binary value, or the elements of a list.
fn length_of(value: &Value) -> Result<Value> {
    if !is_text(value.data_type()) {
        let made = length(&value.array).map_err(|error| failed(&error))?;
        return Ok(Value::computed(
            cast(&made, &DataType::Int64)?,
            value.is_scalar,
        ));
    }
    let text = as_text(Function::Length, value)?;
    let texts = text.array.as_string::<i64>().iter();
    let count = |text: Option<&str>| text.map(|text| text.chars().count() as i64);
    let made: Int64Array = texts.map(count).collect();
    Ok(Value::computed(Arc::new(made), value.is_scalar))
}

fn as_float(function: Function, value: &Value) -> Result<Value> {
    match value.data_type() {
        kind if kind.is_numeric() || *kind == DataType::Null => value.cast(&DataType::Float64),
        kind => {
            let (name, kind) = (function.name(), notation(kind));
            Err(wrong(format!("`{name}` needs a number, found {kind}"))
                .hint("cast it to a number, for example f64(name)"))
        }
    }
}

fn rounded(function: Function, value: &Value) -> Result<Value> {
    let is_root = matches!(
        function,
        Function::Sqrt | Function::Exp | Function::Log | Function::Log2
    );
    if value.data_type().is_integer() && !is_root {
        let value = value.cast(&DataType::Int64)?;
        if function != Function::Abs {
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
    let value = as_float(function, value)?;
    let work = match function {
        Function::Abs => f64::abs,
        Function::Round => f64::round_ties_even,
        Function::Floor => f64::floor,
        Function::Ceil => f64::ceil,
        Function::Exp => f64::exp,
        Function::Log => f64::ln,
        Function::Log2 => f64::log2,
        _ => f64::sqrt,
    };
    let made: Float64Array = value.array.as_primitive::<Float64Type>().unary(work);
    Ok(Value::computed(Arc::new(made), value.is_scalar))
}

/// Hashes numbers with the engine's hash, and texts and bytes with XXH3.
fn hashed(value: &Value) -> Result<Value> {
    let array = &value.array;
    let made: UInt64Array = match array.data_type() {
        kind if is_text(kind) || is_bytes(kind) => {
            let bytes = cast(array, &DataType::LargeBinary)?;
            let bytes = bytes.as_binary::<i64>().iter();
            bytes.map(|bytes| bytes.map(XxHash3_64::oneshot)).collect()
        }
        DataType::Float16 | DataType::Float32 => {
            let numbers = cast(array, &DataType::Float32)?;
            let numbers = numbers.as_primitive::<Float32Type>();
            numbers.unary(|number| hash_of_bits(u64::from(number.to_bits())))
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>();
            numbers.unary(|number| hash_of_bits(number.to_bits()))
        }
        DataType::UInt64 => array.as_primitive::<UInt64Type>().unary(hash_of_bits),
        _ => {
            let numbers = cast(array, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            numbers.unary(|number| hash_of_bits(number as u64))
        }
    };
    Ok(Value::computed(Arc::new(made), value.is_scalar))
}

/// Returns the value that `order` puts first; nulls are ignored.
fn least_of(order: Binary, values: Vec<Value>, rows_count: usize) -> Result<Value> {
    let mut values = values.into_iter();
    let first = values.next().unwrap_or_else(Value::null);
    values.try_fold(first, |one, other| {
        let is_first = compared(order, one.clone(), other.clone())?;
        let is_alone = is_null(&other.array).map_err(|error| failed(&error))?;
        let is_alone = Value::computed(Arc::new(is_alone), other.is_scalar);
        let is_taken = connected(Binary::Or, is_first, is_alone)?.into_column(rows_count)?;
        chosen(&true_rows(is_taken.as_boolean()), one, other)
    })
}

/// Takes `one` in the rows where `holds` is true, and `other` elsewhere. `holds` has no nulls.
pub(super) fn chosen(holds: &BooleanArray, one: Value, other: Value) -> Result<Value> {
    let (one, other) = match one.data_type() == other.data_type() {
        true => (one, other),
        false => alike(one, other)?,
    };
    let made = zip(holds, &one, &other);
    told(made, false)
}
