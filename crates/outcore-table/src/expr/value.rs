//! The values of subexpressions, and the common type of two of them.
//!
//! Contract: a [`Value`] is a column of a batch, or a scalar for all its rows. A literal takes the
//! type of the other operand if that type holds its value; two columns get the narrowest type that
//! holds both. Dictionaries are decoded when a column is read. Timestamps with a zone are compared
//! with each other, and with texts, in UTC.

use std::sync::Arc;

use arrow_arith::numeric::{add, div, mul, sub};
use arrow_array::builder::{Decimal128Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Datum, Float64Array, Int64Array,
    UInt32Array, UInt64Array, new_null_array,
};
use arrow_cast::CastOptions;
use arrow_cast::display::FormatOptions;
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};
use arrow_select::filter::prep_null_mask_filter;
use arrow_select::take::take;
use outcore::key::expr::{Binary, Cast, CastType};
use outcore::key::record::NumberType;
use outcore_io::{Error, Result};

use super::wrong;
use crate::notation::notation;

/// Digits of the widest decimals of 128 and 256 bits.
const DIGITS_128: u8 = 38;
const DIGITS_256: u8 = 76;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// A column, or the result of computing with one.
    Computed,
    /// A literal.
    Literal,
    /// A number with a point, as it was written.
    Number(String),
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub(super) array: ArrayRef,
    /// Whether it is one value for all rows.
    pub(super) is_scalar: bool,
    pub(super) origin: Origin,
}

impl Datum for Value {
    fn get(&self) -> (&dyn Array, bool) {
        (&*self.array, self.is_scalar)
    }
}

impl Value {
    pub(super) fn column(array: &ArrayRef) -> Result<Self> {
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => cast(array, values)?,
            DataType::RunEndEncoded(_, values) => cast(array, values.data_type())?,
            _ => Arc::clone(array),
        };
        Ok(Value::computed(array, false))
    }

    pub(super) fn computed(array: ArrayRef, is_scalar: bool) -> Self {
        Value {
            array,
            is_scalar,
            origin: Origin::Computed,
        }
    }

    fn literal(array: ArrayRef) -> Self {
        Value {
            array,
            is_scalar: true,
            origin: Origin::Literal,
        }
    }

    pub(super) fn null() -> Self {
        Value::literal(new_null_array(&DataType::Null, 1))
    }

    pub(super) fn boolean(value: bool) -> Self {
        Value::literal(Arc::new(BooleanArray::from(vec![value])))
    }

    pub(super) fn text(text: &str) -> Self {
        let mut builder = StringBuilder::new();
        builder.append_value(text);
        Value::literal(Arc::new(builder.finish()))
    }

    pub(super) fn integer(number: i128) -> Result<Self> {
        if let Ok(number) = i64::try_from(number) {
            return Ok(Value::literal(Arc::new(Int64Array::from(vec![number]))));
        }
        let mut builder = Decimal128Builder::new();
        builder.append_value(number);
        let made = builder.finish().with_precision_and_scale(DIGITS_128, 0);
        let made = made.and_then(|made| {
            made.validate_decimal_precision(DIGITS_128)?;
            Ok(made)
        });
        let made =
            made.map_err(|_| wrong(format!("{number} has more than {DIGITS_128} digits")))?;
        Ok(Value::literal(Arc::new(made)))
    }

    /// Reads a number with a point.
    pub(super) fn number(text: &str) -> Result<Self> {
        let number = text.parse::<f64>();
        let number = number.map_err(|_| wrong(format!("`{text}` is not a number")))?;
        Ok(Value {
            array: Arc::new(Float64Array::from(vec![number])),
            is_scalar: true,
            origin: Origin::Number(text.to_owned()),
        })
    }

    pub(super) fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    /// A literal text.
    fn quoted(&self) -> Option<String> {
        let is_quoted = self.is_literal() && is_text(self.data_type());
        let text = is_quoted.then(|| arrow_cast::display::array_value_to_string(&self.array, 0));
        text.and_then(std::result::Result::ok)
    }

    /// Whether it is a literal of the expression.
    pub(super) fn is_literal(&self) -> bool {
        self.origin != Origin::Computed
    }

    /// Converts it to a column of `rows_count` rows.
    pub(super) fn into_column(self, rows_count: usize) -> Result<ArrayRef> {
        if !self.is_scalar {
            return Ok(self.array);
        }
        let places = UInt32Array::from_value(0, rows_count);
        take(&self.array, &places, None).map_err(|error| failed(&error))
    }

    /// Casts it to another type.
    ///
    /// # Errors
    /// Usage: a value that the type does not hold.
    pub(super) fn cast(&self, data_type: &DataType) -> Result<Value> {
        let array = match (&self.origin, data_type) {
            (Origin::Number(text), DataType::Decimal128(..) | DataType::Decimal256(..)) => {
                cast(&Value::text(text).array, data_type)?
            }
            _ => cast(&self.array, data_type)?,
        };
        Ok(Value {
            array,
            ..self.clone()
        })
    }

    /// Whether the other type holds the same value.
    fn is_held_by(&self, data_type: &DataType) -> bool {
        self.cast(data_type).is_ok()
    }

    /// Digits after the point, for values that can become a decimal.
    fn scale(&self) -> Option<i8> {
        match (&self.origin, self.data_type()) {
            (Origin::Number(text), _) => {
                let digits = text.split_once('.').map_or("", |(_, digits)| digits);
                let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                i8::try_from(digits.len()).ok().filter(|_| is_plain)
            }
            (_, kind) => scale_of(kind),
        }
    }
}

fn scale_of(kind: &DataType) -> Option<i8> {
    match kind {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        kind if kind.is_integer() => Some(0),
        _ => None,
    }
}

/// Casts `array`; a value that does not fit is an error.
pub(super) fn cast(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    cast_with(array, data_type, false)
}

/// Casts `array`; a value that does not fit becomes null if `is_null`.
pub(super) fn cast_with(array: &ArrayRef, data_type: &DataType, is_null: bool) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions {
        safe: is_null,
        format_options: FormatOptions::default(),
    };
    arrow_cast::cast_with_options(array, data_type, &options).map_err(|error| {
        let unfit = unfit(array, data_type).unwrap_or_else(|| failed(&error));
        unfit.hint("put try_ before the cast to turn such values into null")
    })
}

/// The error about the first value that the type does not hold.
fn unfit(array: &ArrayRef, data_type: &DataType) -> Option<Error> {
    let made = arrow_cast::cast(array, data_type).ok()?;
    let row = (0..array.len()).find(|row| array.is_valid(*row) && made.is_null(*row))?;
    let value = arrow_cast::display::array_value_to_string(array, row).ok()?;
    let value = match is_text(array.data_type()) {
        true => format!("the text '{value}'"),
        false => value,
    };
    Some(wrong(format!(
        "{value} cannot become {}",
        notation(data_type)
    )))
}

/// Applies a cast function to a value.
pub(super) fn cast_to(value: Value, to: Cast) -> Result<Value> {
    let value = in_utc(value)?;
    let kind = type_of(to.to);
    let array = match (&value.origin, &kind) {
        // A number with a point keeps all the digits that were written.
        (Origin::Number(text), DataType::Decimal128(..)) => {
            cast_with(&Value::text(text).array, &kind, to.is_tried)?
        }
        _ => cast_with(&value.array, &kind, to.is_tried)?,
    };
    Ok(Value::computed(array, value.is_scalar))
}

fn type_of(to: CastType) -> DataType {
    match to {
        CastType::Bool => DataType::Boolean,
        CastType::Text => DataType::Utf8,
        CastType::Date => DataType::Date32,
        CastType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        CastType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        CastType::Decimal { digits, scale } => DataType::Decimal128(digits, scale as i8),
        CastType::Number(kind) => match kind {
            NumberType::I8 => DataType::Int8,
            NumberType::I16 => DataType::Int16,
            NumberType::I32 => DataType::Int32,
            NumberType::I64 => DataType::Int64,
            NumberType::U8 => DataType::UInt8,
            NumberType::U16 => DataType::UInt16,
            NumberType::U32 => DataType::UInt32,
            NumberType::U64 | NumberType::U128 => DataType::UInt64,
            NumberType::F16 | NumberType::F32 => DataType::Float32,
            NumberType::F64 => DataType::Float64,
        },
    }
}

/// Returns the element at `place`, counted from 0, of each list; null if a list is shorter.
pub(super) fn element(value: &Value, place: usize) -> Result<Value> {
    let lists = match value.data_type() {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            cast(&value.array, &DataType::LargeList(Arc::clone(item)))?
        }
        kind => {
            let cause = format!("elements exist only in lists; this is {}", notation(kind));
            return Err(wrong(cause).hint("write substr(name, 1, 1) for a character of a text"));
        }
    };
    let lists = lists.as_list::<i64>();
    let places = (0..lists.len()).map(|row| {
        let is_there = lists.is_valid(row) && (lists.value_length(row) as usize) > place;
        is_there.then(|| lists.value_offsets()[row] as u64 + place as u64)
    });
    let places: UInt64Array = places.collect();
    let made = take(lists.values(), &places, None).map_err(|error| failed(&error))?;
    Value::column(&made).map(|made| Value {
        is_scalar: value.is_scalar,
        ..made
    })
}

/// Marks the rows that are true; nulls become false.
pub(super) fn true_rows(found: &BooleanArray) -> BooleanArray {
    match found.null_count() {
        0 => found.clone(),
        _ => prep_null_mask_filter(found),
    }
}

/// Reports an error of an Arrow kernel as an error in the expression.
pub(super) fn failed(error: &ArrowError) -> Error {
    let text = match error {
        ArrowError::ComputeError(text)
        | ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::InvalidArgumentError(text)
        | ArrowError::NotYetImplemented(text)
        | ArrowError::ArithmeticOverflow(text) => text.clone(),
        other => other.to_string(),
    };
    let told = wrong(text.split_whitespace().collect::<Vec<_>>().join(" "));
    match error {
        ArrowError::ArithmeticOverflow(_) => {
            told.hint("cast one side to f64 for results beyond the type's range: f64(n) * m")
        }
        _ => told,
    }
}

/// Casts both to one type in which they can be compared.
pub(super) fn comparable(one: Value, other: Value) -> Result<(Value, Value)> {
    in_one_type(one, other, "cannot be compared")
}

/// Casts both to one type, so that one column can hold both.
pub(super) fn alike(one: Value, other: Value) -> Result<(Value, Value)> {
    in_one_type(one, other, "have no common type")
}

fn in_one_type(one: Value, other: Value, failure: &str) -> Result<(Value, Value)> {
    let (one, other) = (in_utc(one)?, in_utc(other)?);
    let common = common_type(&one, &other).ok_or_else(|| {
        wrong(format!(
            "{} and {} {failure}",
            notation(one.data_type()),
            notation(other.data_type())
        ))
        .hint(how_to_compare(&one, &other))
    })?;
    Ok((cast_alike(&one, &common)?, cast_alike(&other, &common)?))
}

/// The next step for two values that cannot be compared.
fn how_to_compare(one: &Value, other: &Value) -> String {
    let quoted = match (one.data_type().is_numeric(), other.data_type().is_numeric()) {
        (true, _) => other.quoted(),
        (_, true) => one.quoted(),
        _ => None,
    };
    let are_numbers_and_times = (one.data_type().is_numeric() && other.data_type().is_temporal())
        || (one.data_type().is_temporal() && other.data_type().is_numeric());
    match quoted {
        _ if are_numbers_and_times => {
            "epoch(t) is a time's number of seconds since 1970; a date is written in quotes: '2024-12-01'".to_owned()
        }
        Some(text) if text.trim().parse::<f64>().is_ok() => {
            format!("write the number without quotes: {text}")
        }
        Some(text) if text.trim().is_empty() => "an empty field is null: name is null".to_owned(),
        Some(text) => match name_format(&text) {
            Some(format) => format!("strftime(t, '{format}') = '{text}' compares names"),
            None => format!("a number never equals the text '{text}': choose a column of texts"),
        },
        None => "cast one of them, for example i64(name) or text(name)".to_owned(),
    }
}

/// The format of times in which `text` is the name of a day or a month.
fn name_format(text: &str) -> Option<&'static str> {
    const DAYS: &str = "monday tuesday wednesday thursday friday saturday sunday";
    const MONTHS: &str = "january february march april may june july august september october \
                          november december";
    let text = text.trim().to_ascii_lowercase();
    let is_whole = |names: &str| names.split_whitespace().any(|name| name == text);
    let is_short = |names: &str| {
        let mut names = names.split_whitespace();
        text.len() == 3 && names.any(|name| name.starts_with(&text))
    };
    Some(match () {
        () if is_whole(DAYS) => "%A",
        () if is_short(DAYS) => "%a",
        () if is_whole(MONTHS) => "%B",
        () if is_short(MONTHS) => "%b",
        () => return None,
    })
}

/// Casts a value to the type in which it is compared.
fn cast_alike(value: &Value, common: &DataType) -> Result<Value> {
    let is_time = common.is_temporal() && is_text(value.data_type());
    value.cast(common).map_err(|error| match is_time {
        false => error,
        true if value.is_scalar => {
            let text = arrow_cast::display::array_value_to_string(&value.array, 0);
            let kind = match common {
                DataType::Date32 | DataType::Date64 => "a date",
                _ => "a time",
            };
            wrong(format!("`{}` is not {kind}", text.unwrap_or_default()))
                .hint("write dates as '2024-12-01' and times as '2024-12-01T10:30:00'")
        }
        true => error.hint("cast the column of texts: try_timestamp(name) or try_date(name)"),
    })
}

/// Removes the zone of a timestamp.
pub(super) fn in_utc(value: Value) -> Result<Value> {
    match value.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let plain = DataType::Timestamp(*unit, None);
            // Casts through the stored integers, because the library would convert to local time.
            let stored = cast(&value.array, &DataType::Int64)?;
            let array = cast(&stored, &plain)?;
            Ok(Value { array, ..value })
        }
        _ => Ok(value),
    }
}

/// Returns a type that both can be cast to, if there is one.
pub(super) fn common_type(one: &Value, other: &Value) -> Option<DataType> {
    let (a, b) = (one.data_type(), other.data_type());
    if *a == DataType::Null || a == b {
        return Some(b.clone());
    }
    if *b == DataType::Null {
        return Some(a.clone());
    }
    match (one.is_literal(), other.is_literal()) {
        (true, false) => type_beside(one, b).or_else(|| of_columns(one, other)),
        (false, true) => type_beside(other, a).or_else(|| of_columns(one, other)),
        _ => of_columns(one, other),
    }
}

/// The type that a literal takes next to a column.
fn type_beside(literal: &Value, column: &DataType) -> Option<DataType> {
    let is_taken = match literal.data_type() {
        DataType::Utf8 => column.is_temporal() || is_text(column) || is_bytes(column),
        DataType::Int64 => {
            (column.is_integer() && literal.is_held_by(column)) || column.is_floating()
        }
        DataType::Float64 => column.is_floating(),
        _ => false,
    };
    is_taken.then(|| column.clone())
}

fn of_columns(one: &Value, other: &Value) -> Option<DataType> {
    let (a, b) = (one.data_type(), other.data_type());
    if a.is_numeric() && b.is_numeric() {
        return of_numbers(one, other);
    }
    match (a, b) {
        (a, b) if is_text(a) && is_text(b) => Some(DataType::LargeUtf8),
        (a, b) if is_bytes(a) && is_bytes(b) => Some(DataType::LargeBinary),
        (DataType::Timestamp(one, None), DataType::Timestamp(other, None)) => {
            Some(DataType::Timestamp((*one).max(*other), None))
        }
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(unit, None))
        | (DataType::Timestamp(unit, None), DataType::Date32 | DataType::Date64) => {
            Some(DataType::Timestamp(*unit, None))
        }
        (DataType::Date32, DataType::Date64) | (DataType::Date64, DataType::Date32) => {
            Some(DataType::Date64)
        }
        (DataType::Time32(_) | DataType::Time64(_), DataType::Time32(_) | DataType::Time64(_)) => {
            Some(DataType::Time64(TimeUnit::Nanosecond))
        }
        (DataType::Duration(one), DataType::Duration(other)) => {
            Some(DataType::Duration((*one).max(*other)))
        }
        _ => None,
    }
}

fn of_numbers(one: &Value, other: &Value) -> Option<DataType> {
    let (a, b) = (one.data_type(), other.data_type());
    let is_decimal = scale_of(a).is_some_and(|_| !a.is_integer())
        || scale_of(b).is_some_and(|_| !b.is_integer());
    if is_decimal && let (Some(one), Some(other)) = (one.scale(), other.scale()) {
        return Some(decimal(a, b, one.max(other)));
    }
    if a.is_floating() || b.is_floating() {
        let is_narrow = |kind: &DataType| matches!(kind, DataType::Float16 | DataType::Float32);
        return Some(match is_narrow(a) && is_narrow(b) {
            true => DataType::Float32,
            false => DataType::Float64,
        });
    }
    if a.is_unsigned_integer() && b.is_unsigned_integer() {
        return Some(DataType::UInt64);
    }
    match [a, b].contains(&&DataType::UInt64) {
        // This type holds all values of both.
        true => Some(DataType::Decimal128(DIGITS_128, 0)),
        false => Some(DataType::Int64),
    }
}

/// Returns the widest decimal of this scale.
fn decimal(one: &DataType, other: &DataType, scale: i8) -> DataType {
    let is_wide = |kind: &DataType| matches!(kind, DataType::Decimal256(..));
    match is_wide(one) || is_wide(other) {
        true => DataType::Decimal256(DIGITS_256, scale),
        false => DataType::Decimal128(DIGITS_128, scale),
    }
}

pub(super) fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

pub(super) fn is_bytes(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// Applies one of Arrow's kernels to two values.
pub(super) fn kernel(operator: Binary, one: &Value, other: &Value) -> Result<Value> {
    let made = match operator {
        Binary::Add => add(one, other),
        Binary::Subtract => sub(one, other),
        Binary::Multiply => mul(one, other),
        _ => div(one, other),
    };
    let made = made.map_err(|error| failed(&error))?;
    Ok(Value::computed(made, one.is_scalar && other.is_scalar))
}

pub(super) fn rows_of(one: &Value, other: &Value) -> usize {
    match one.is_scalar {
        true => other.array.len(),
        false => one.array.len(),
    }
}

/// Reads the numbers of an array row by row; a scalar is the same in every row.
pub(super) fn numbers_of<T: ArrowPrimitiveType>(
    value: &Value,
) -> impl Fn(usize) -> Option<T::Native> + use<T> {
    let array = value.array.as_primitive::<T>().clone();
    let is_scalar = value.is_scalar;
    move |row: usize| {
        let row = if is_scalar { 0 } else { row };
        array.is_valid(row).then(|| array.value(row))
    }
}
