//! Finds one type for values of two types: for columns that share a name in several files, and for
//! columns that a join compares.
//!
//! Contract: [`common_type`] returns the type that DuckDB also chooses for both:
//!
//! - integers: the narrowest type that holds all values of both; a decimal of 20 digits if one is
//!   `u64` and the other is signed
//! - an integer and a float: `f64`, or a narrower float if it holds all values of both
//! - two decimals, or a decimal and an integer: a decimal with all digits of both before and after
//!   the point, at most 76 digits
//! - timestamps, or times of day: the finer unit; in UTC if the zones differ
//! - a date and a timestamp without a zone: the timestamp; two different date types give
//!   milliseconds
//! - texts, or bytes: the one with the wider offsets
//! - a dictionary and another type: the type of the dictionary's values; a dictionary if both are
//!   the same
//! - null and anything: the other
//!
//! Lists and objects have a common type if their contents have one. Other pairs have none, in
//! particular pairs whose values would be rounded: a decimal and a float, or a time with a zone and
//! a time without.
//!
//! [`cast_to`] converts values to a common type. It fails for a value that this type does not hold,
//! such as 2^53 + 1 as a float or the year 9999 in nanoseconds. So no value is rounded, truncated
//! or replaced with null.
//!
//! [`united`] returns the columns of several schemas, in the order of their first occurrence, each
//! in the common type of all its types. A column that some schemas lack is nullable. Pure.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{
    ArrowError, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef,
    Fields, Schema, SchemaRef, TimeUnit,
};
use outcore_io::{Error, Result};

use crate::equal::plain_type;
use crate::fault;
use crate::notation::notation;
use crate::schema::{is_same_type, retyped};

/// Returns a type that holds the values of both; see the module.
pub(crate) fn common_type(one: &DataType, other: &DataType) -> Option<DataType> {
    if is_same_type(one, other) || *other == DataType::Null {
        return Some(one.clone());
    }
    if *one == DataType::Null {
        return Some(other.clone());
    }
    match (one, other) {
        (DataType::Dictionary(keys, values), DataType::Dictionary(other_keys, other_values)) => {
            let keys = common_type(keys, other_keys).filter(DataType::is_integer);
            let keys = keys.unwrap_or(DataType::Int64);
            let values = common_type(values, other_values)?;
            Some(DataType::Dictionary(Box::new(keys), Box::new(values)))
        }
        (DataType::Dictionary(_, values), plain) | (plain, DataType::Dictionary(_, values)) => {
            common_type(values, plain)
        }
        (one, other) if one.is_integer() && other.is_integer() => Some(of_integers(one, other)),
        (one, other) if one.is_floating() || other.is_floating() => of_floats(one, other),
        (one, other) if one.is_decimal() || other.is_decimal() => {
            of_decimals(decimal_of(one)?, decimal_of(other)?)
        }
        (one, other) if one.is_nested() && other.is_nested() => of_nested(one, other),
        (one, other) => of_times(one, other).or_else(|| of_texts(one, other)),
    }
}

fn bits(data_type: &DataType) -> usize {
    data_type.primitive_width().map_or(0, |bytes| 8 * bytes)
}

fn of_integers(one: &DataType, other: &DataType) -> DataType {
    let (wide, narrow) = match bits(one) >= bits(other) {
        true => (one, other),
        false => (other, one),
    };
    let is_alike = wide.is_signed_integer() == narrow.is_signed_integer();
    if is_alike || (wide.is_signed_integer() && bits(wide) > bits(narrow)) {
        return wide.clone();
    }
    // The signed type has more bits than the unsigned one.
    match bits(wide) {
        8 => DataType::Int16,
        16 => DataType::Int32,
        32 => DataType::Int64,
        _ => DataType::Decimal128(20, 0),
    }
}

/// The common type of a float and a number. A float of 16, 32 or 64 bits holds all integers of 11,
/// 24 or 53 bits.
fn of_floats(one: &DataType, other: &DataType) -> Option<DataType> {
    let (float, number) = match one.is_floating() {
        true => (one, other),
        false => (other, one),
    };
    if number.is_floating() {
        return Some(
            if bits(float) >= bits(number) {
                float
            } else {
                number
            }
            .clone(),
        );
    }
    let digits_bits = number.is_integer().then(|| bits(number))?;
    Some(match (digits_bits, float) {
        (8, float) | (16, float @ DataType::Float32) => float.clone(),
        (16, DataType::Float16) => DataType::Float32,
        _ => DataType::Float64,
    })
}

/// The digits of a decimal.
#[derive(Clone, Copy)]
struct Digits {
    /// Digits before the point.
    whole: i16,
    /// Digits after the point.
    scale: i8,
    /// Bits of the type that holds the decimal.
    bits: usize,
}

/// Returns the decimal that holds all values of an integer or decimal type.
fn decimal_of(data_type: &DataType) -> Option<Digits> {
    let (precision, scale) = match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    };
    Some(Digits {
        whole: i16::from(precision) - i16::from(scale),
        scale,
        bits: if data_type.is_decimal() {
            bits(data_type)
        } else {
            0
        },
    })
}

fn of_decimals(one: Digits, other: Digits) -> Option<DataType> {
    let scale = one.scale.max(other.scale);
    let precision = u8::try_from(one.whole.max(other.whole) + i16::from(scale)).ok()?;
    let bits = one.bits.max(other.bits);
    match precision {
        0 => None,
        precision if precision <= 9 && bits <= 32 => Some(DataType::Decimal32(precision, scale)),
        precision if precision <= 18 && bits <= 64 => Some(DataType::Decimal64(precision, scale)),
        precision if precision <= DECIMAL128_MAX_PRECISION && bits <= 128 => {
            Some(DataType::Decimal128(precision, scale))
        }
        precision if precision <= DECIMAL256_MAX_PRECISION => {
            Some(DataType::Decimal256(precision, scale))
        }
        _ => None,
    }
}

fn of_times(one: &DataType, other: &DataType) -> Option<DataType> {
    let is_date = |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Date64);
    match (one, other) {
        (DataType::Timestamp(unit, None), date) | (date, DataType::Timestamp(unit, None))
            if is_date(date) =>
        {
            Some(DataType::Timestamp(*unit, None))
        }
        (one, other) if is_date(one) && is_date(other) => Some(DataType::Date64),
        (DataType::Timestamp(one, None), DataType::Timestamp(other, None)) => {
            Some(DataType::Timestamp(*one.max(other), None))
        }
        (DataType::Timestamp(one, Some(zone)), DataType::Timestamp(other, Some(other_zone))) => {
            let zone = match zone == other_zone {
                true => Arc::clone(zone),
                false => "UTC".into(),
            };
            Some(DataType::Timestamp(*one.max(other), Some(zone)))
        }
        (
            DataType::Time32(one) | DataType::Time64(one),
            DataType::Time32(other) | DataType::Time64(other),
        ) => Some(match one.max(other) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => DataType::Time32(*unit),
            unit => DataType::Time64(*unit),
        }),
        (DataType::Duration(one), DataType::Duration(other)) => {
            Some(DataType::Duration(*one.max(other)))
        }
        _ => None,
    }
}

fn of_texts(one: &DataType, other: &DataType) -> Option<DataType> {
    // Within a family, the type that comes first here holds all values of the later ones.
    let families = [
        [DataType::LargeUtf8, DataType::Utf8View, DataType::Utf8],
        [
            DataType::LargeBinary,
            DataType::BinaryView,
            DataType::Binary,
        ],
    ];
    let mut families = families.into_iter();
    let family = families.find(|family| family.contains(one) && family.contains(other))?;
    family.into_iter().find(|kind| kind == one || kind == other)
}

fn of_nested(one: &DataType, other: &DataType) -> Option<DataType> {
    Some(match (one, other) {
        (DataType::List(one), DataType::List(other)) => DataType::List(of_fields(one, other)?),
        (DataType::LargeList(one), DataType::LargeList(other))
        | (DataType::List(one), DataType::LargeList(other))
        | (DataType::LargeList(one), DataType::List(other)) => {
            DataType::LargeList(of_fields(one, other)?)
        }
        (DataType::FixedSizeList(one, count), DataType::FixedSizeList(other, other_count))
            if count == other_count =>
        {
            DataType::FixedSizeList(of_fields(one, other)?, *count)
        }
        (DataType::Struct(one), DataType::Struct(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other);
            if !pairs.clone().all(|(one, other)| one.name() == other.name()) {
                return None;
            }
            let fields: Option<Fields> = pairs
                .try_fold(Vec::new(), |mut fields, (one, other)| {
                    fields.push(of_fields(one, other)?);
                    Some(fields)
                })
                .map(Into::into);
            DataType::Struct(fields?)
        }
        _ => return None,
    })
}

fn of_fields(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let both = common_type(one.data_type(), other.data_type())?;
    let is_nullable = one.is_nullable() || other.is_nullable();
    let field = Field::clone(one).with_data_type(both);
    Some(Arc::new(field.with_nullable(is_nullable)))
}

/// Casts `array`, the values of the column `name`, to a type that [`common_type`] returned for its
/// type and another.
///
/// # Errors
/// Usage: a value that this type does not hold.
pub(crate) fn cast_to(
    operation: &'static str,
    name: &str,
    array: &ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let own = array.data_type();
    if own == data_type {
        return Ok(Arc::clone(array));
    }
    if is_same_type(own, data_type) || is_same_type(&plain_type(own), data_type) {
        return retyped(array, data_type);
    }
    if let (DataType::Dictionary(..), false) = (own, matches!(data_type, DataType::Dictionary(..)))
    {
        let plain = retyped(array, &plain_type(own))?;
        return cast_to(operation, name, &plain, data_type);
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let misfit = |why: &str| {
        let cause = format!(
            "column `{name}` is {}, and some of its values do not fit {}: {why}",
            notation(own),
            notation(data_type)
        );
        Error::usage(operation, cause)
            .hint("convert the column with `outcore map` first, or leave it out with --columns")
    };
    let cast = cast_with_options(array, data_type, &options).map_err(|error| match error {
        ArrowError::CastError(why)
        | ArrowError::ComputeError(why)
        | ArrowError::ArithmeticOverflow(why) => misfit(&why),
        other => fault::arrow(operation, &other),
    })?;
    if let Some(value) = inexact(array, &cast) {
        return Err(misfit(&format!("{value} would be rounded")));
    }
    // The cast kernel multiplies days without a check for overflow, and the checks above do not
    // look inside lists and objects.
    let is_looked_at = !own.is_nested() && !matches!(own, DataType::Date32 | DataType::Date64);
    let is_same = || {
        let back = cast_with_options(&cast, own, &options).ok();
        back.is_some_and(|back| back.to_data() == array.to_data())
    };
    match is_looked_at || is_same() {
        true => Ok(cast),
        false => Err(misfit("one value is beyond the range of that type")),
    }
}

/// Returns the first 64-bit integer that a float does not hold.
fn inexact(array: &ArrayRef, floats: &ArrayRef) -> Option<String> {
    if *floats.data_type() != DataType::Float64 {
        return None;
    }
    let floats = floats.as_primitive::<Float64Type>();
    // Floats do not hold every integer above this one. Floats rounded to 2^63 or 2^64 are compared
    // in 128 bits, because 64 bits do not hold these numbers.
    const EXACT_MAX: u64 = 1 << 53;
    let mut rows = 0..array.len();
    match array.data_type() {
        DataType::Int64 => {
            let numbers = array.as_primitive::<Int64Type>();
            let is_wrong = |row: usize| {
                let number = numbers.value(row);
                let float = floats.value(row);
                number.unsigned_abs() > EXACT_MAX && float as i128 != i128::from(number)
            };
            let row = rows.find(|&row| numbers.is_valid(row) && is_wrong(row))?;
            Some(numbers.value(row).to_string())
        }
        DataType::UInt64 => {
            let numbers = array.as_primitive::<UInt64Type>();
            let is_wrong = |row: usize| {
                let number = numbers.value(row);
                number > EXACT_MAX && floats.value(row) as u128 != u128::from(number)
            };
            let row = rows.find(|&row| numbers.is_valid(row) && is_wrong(row))?;
            Some(numbers.value(row).to_string())
        }
        _ => None,
    }
}

/// The columns of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileSchema<'a> {
    pub(crate) schema: SchemaRef,
    pub(crate) path: &'a Path,
}

/// Returns the columns of all `schemas`. A column is nullable if it is nullable in one of them or
/// missing from one.
///
/// # Errors
/// Usage: two columns of one name have no common type; the error names both files.
pub(crate) fn united(schemas: &[FileSchema<'_>]) -> Result<SchemaRef> {
    let mut fields: Vec<(FieldRef, &Path, usize)> = Vec::new();
    for FileSchema { schema, path } in schemas {
        for field in schema.fields() {
            let known = fields
                .iter_mut()
                .find(|(known, ..)| known.name() == field.name());
            let Some((known, first_path, count)) = known else {
                fields.push((Arc::clone(field), path, 1));
                continue;
            };
            let Some(both) = common_type(known.data_type(), field.data_type()) else {
                let cause = format!(
                    "column `{}` is {}, but in {} it is {}",
                    field.name(),
                    notation(field.data_type()),
                    first_path.display(),
                    notation(known.data_type())
                );
                return Err(Error::usage("unite tables", cause).path(path).hint(
                    "no type can hold all values of both columns: convert one of them first, or \
                     leave the column out",
                ));
            };
            if both != *known.data_type() {
                *known = Arc::new(Field::clone(known).with_data_type(both));
            }
            // Metadata about the values of one side need not hold for the values of the other.
            let extension = |field: &Field| {
                let keys = [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY];
                keys.map(|key| field.metadata().get(key).cloned())
            };
            if extension(known) != extension(field) {
                *known = without_extension(known);
            }
            *count += 1;
            if field.is_nullable() && !known.is_nullable() {
                *known = as_nullable(known);
            }
        }
    }
    let fields = fields.into_iter().map(|(field, _, count)| {
        if count < schemas.len() {
            as_nullable(&field)
        } else {
            field
        }
    });
    let fields: Vec<FieldRef> = fields.collect();
    let metadata = schemas.first().map(|first| first.schema.metadata().clone());
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        metadata.unwrap_or_default(),
    )))
}

fn without_extension(field: &Field) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.remove(EXTENSION_TYPE_NAME_KEY);
    metadata.remove(EXTENSION_TYPE_METADATA_KEY);
    Arc::new(field.clone().with_metadata(metadata))
}

fn as_nullable(field: &Field) -> FieldRef {
    Arc::new(field.clone().with_nullable(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
        let fields = columns.iter();
        let fields = fields.map(|(name, kind)| Field::new(*name, kind.clone(), false));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    #[test]
    fn two_types_have_a_common_one_for_all_values_of_both() {
        use DataType::*;
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let dictionary = |keys, values| Dictionary(Box::new(keys), Box::new(values));
        let at = |unit, zone: Option<&str>| Timestamp(unit, zone.map(Into::into));
        let object = |of| Struct(Fields::from(vec![Field::new("a", of, false)]));
        for (one, other, both) in [
            (Int32, Int64, Some(Int64)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int64, Some(Int64)),
            (UInt64, Int8, Some(Decimal128(20, 0))),
            (Int32, Float32, Some(Float64)),
            (Int16, Float32, Some(Float32)),
            (UInt8, Float16, Some(Float16)),
            (Int16, Float16, Some(Float32)),
            (Int32, Float64, Some(Float64)),
            (Int64, Float64, Some(Float64)),
            (UInt64, Float32, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Null, Utf8, Some(Utf8)),
            (Utf8, LargeUtf8, Some(LargeUtf8)),
            (Utf8, Utf8View, Some(Utf8View)),
            (BinaryView, LargeBinary, Some(LargeBinary)),
            (Utf8, Binary, None),
            (dictionary(Int32, Utf8), Utf8, Some(Utf8)),
            (dictionary(Int8, Utf8), LargeUtf8, Some(LargeUtf8)),
            (
                dictionary(Int8, Utf8),
                dictionary(Int32, Utf8),
                Some(dictionary(Int32, Utf8)),
            ),
            (
                dictionary(UInt64, Utf8),
                dictionary(Int8, LargeUtf8),
                Some(dictionary(Int64, LargeUtf8)),
            ),
            (dictionary(Int8, Utf8), Null, Some(dictionary(Int8, Utf8))),
            (dictionary(Int8, Int16), Int64, Some(Int64)),
            (dictionary(Int8, Utf8), Int64, None),
            (Utf8, Int64, None),
            (Boolean, Int8, None),
            (Date32, Int32, None),
            (Decimal128(5, 2), Decimal128(4, 0), Some(Decimal128(6, 2))),
            (Decimal128(38, 0), Decimal128(5, 2), Some(Decimal256(40, 2))),
            (Decimal256(76, 0), Decimal128(5, 2), None),
            (Decimal32(9, 2), Decimal64(18, 0), Some(Decimal128(20, 2))),
            (Decimal128(5, 2), Int64, Some(Decimal128(21, 2))),
            (Decimal128(5, 2), Float64, None),
            (
                at(Second, None),
                at(Nanosecond, None),
                Some(at(Nanosecond, None)),
            ),
            (at(Second, Some("UTC")), at(Millisecond, None), None),
            (
                at(Second, Some("+02:00")),
                at(Microsecond, Some("Asia/Tokyo")),
                Some(at(Microsecond, Some("UTC"))),
            ),
            (Date32, at(Microsecond, None), Some(at(Microsecond, None))),
            (Date32, at(Microsecond, Some("UTC")), None),
            (Date32, Date64, Some(Date64)),
            (Time32(Second), Time64(Nanosecond), Some(Time64(Nanosecond))),
            (
                Time32(Second),
                Time32(Millisecond),
                Some(Time32(Millisecond)),
            ),
            (object(Int32), object(Float64), Some(object(Float64))),
            (object(Int32), object(Utf8), None),
            (
                DataType::new_list(Int32, true),
                DataType::new_list(Int64, true),
                Some(DataType::new_list(Int64, true)),
            ),
        ] {
            assert_eq!(common_type(&one, &other), both, "{one} and {other}");
            assert_eq!(common_type(&other, &one), both, "{other} and {one}");
        }
    }

    #[test]
    fn a_whole_number_that_no_float_holds_is_named_and_not_rounded() {
        let cast = |value: i64| {
            let array: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![
                Some(1),
                None,
                Some(value),
            ]));
            cast_to("unite tables", "id", &array, &DataType::Float64)
        };
        assert!(cast(1 << 60).is_ok());
        for value in [(1 << 53) + 1, i64::MAX, -(1 << 53) - 1] {
            let error = cast(value).unwrap_err().to_string();
            assert!(
                error.contains(&value.to_string()) && error.contains("`id`"),
                "{error}"
            );
        }
    }

    #[test]
    fn united_columns_may_be_null_where_one_table_lacks_them() {
        let one = schema(&[("a", DataType::Int64)]);
        let other = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
        let (here, there) = (Path::new("1"), Path::new("2"));
        let all = united(&[
            FileSchema {
                schema: one,
                path: here,
            },
            FileSchema {
                schema: other,
                path: there,
            },
        ])
        .unwrap();
        assert!(!all.field(0).is_nullable() && all.field(1).is_nullable());
    }
}
