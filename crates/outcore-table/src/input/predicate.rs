//! Decides from statistics which row groups need not be read.
//!
//! Contract: a [`Predicate`] compares a column with a value. Pruning skips only row groups that
//! cannot hold a row for which the predicate is true. Rows for which it is false may still be read,
//! so the caller filters them. Several predicates are joined by `and`. Nothing is skipped if
//! statistics are missing, have another type, or are of floats that may include NaNs. Dates, times
//! and timestamps are compared by their stored integers.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;

use super::hive;

/// The value that a column is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// An integer. For dates and times: days, or units of time.
    Integer(i128),
    /// A number with a point.
    Float(f64),
    /// Text, or bytes in a binary column.
    Text(String),
    /// True or false.
    Boolean(bool),
}

impl Literal {
    /// The order of two literals of one kind.
    pub(crate) fn order(&self, other: &Literal) -> Option<Ordering> {
        let value = match self {
            Literal::Integer(number) => Value::Integer(*number),
            Literal::Float(number) => Value::Float(*number),
            Literal::Text(text) => Value::Bytes(text.as_bytes()),
            Literal::Boolean(value) => Value::Boolean(*value),
        };
        value.compare(other)
    }
}

/// Returns the first value of a column, for types that are compared.
pub(crate) fn literal_of(array: &ArrayRef) -> Option<Literal> {
    if array.is_empty() || array.is_null(0) {
        return None;
    }
    Some(match value_at(array, 0)? {
        Value::Integer(number) => Literal::Integer(number),
        Value::Float(number) => Literal::Float(number),
        Value::Bytes(bytes) => Literal::Text(String::from_utf8(bytes.to_vec()).ok()?),
        Value::Boolean(value) => Literal::Boolean(value),
    })
}

/// How a column is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Less than.
    Less(Literal),
    /// Less than or equal to.
    LessOrEqual(Literal),
    /// Equal to.
    Equal(Literal),
    /// Greater than or equal to.
    GreaterOrEqual(Literal),
    /// Greater than.
    Greater(Literal),
    /// Null.
    IsNull,
    /// Not null.
    IsNotNull,
}

/// A condition on a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    /// The column's name.
    pub column: String,
    /// The condition.
    pub comparison: Comparison,
}

/// The known bounds of a column in a row group, or in a file.
struct Known<'a> {
    least: Option<Value<'a>>,
    most: Option<Value<'a>>,
    nulls_count: Option<u64>,
    rows_count: u64,
}

/// A value that can be compared with a literal.
#[derive(Clone, Copy)]
enum Value<'a> {
    Integer(i128),
    Float(f64),
    Bytes(&'a [u8]),
    Boolean(bool),
}

impl Value<'_> {
    /// Compares it with `literal`; `None` if they are of different kinds.
    fn compare(self, literal: &Literal) -> Option<Ordering> {
        match (self, literal) {
            (Value::Integer(one), Literal::Integer(other)) => Some(one.cmp(other)),
            (Value::Float(one), Literal::Float(other)) => one.partial_cmp(other),
            (Value::Float(one), Literal::Integer(other)) => {
                // Floats are exact up to 2^53; beyond that, nothing is skipped.
                let is_exact = other.unsigned_abs() < 1 << 53;
                is_exact
                    .then(|| one.partial_cmp(&(*other as f64)))
                    .flatten()
            }
            (Value::Bytes(one), Literal::Text(other)) => Some(one.cmp(other.as_bytes())),
            (Value::Boolean(one), Literal::Boolean(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

impl Comparison {
    /// Whether it may be true for a row.
    fn may_hold(&self, known: &Known<'_>) -> bool {
        let is_all_null = known.nulls_count == Some(known.rows_count) && known.rows_count > 0;
        let least = |literal| known.least.and_then(|least| least.compare(literal));
        let most = |literal| known.most.and_then(|most| most.compare(literal));
        match self {
            Comparison::IsNull => known.nulls_count != Some(0),
            _ if is_all_null => false,
            Comparison::IsNotNull => true,
            Comparison::Less(literal) => least(literal).is_none_or(Ordering::is_lt),
            Comparison::LessOrEqual(literal) => least(literal).is_none_or(Ordering::is_le),
            Comparison::Greater(literal) => most(literal).is_none_or(Ordering::is_gt),
            Comparison::GreaterOrEqual(literal) => most(literal).is_none_or(Ordering::is_ge),
            Comparison::Equal(literal) => {
                least(literal).is_none_or(Ordering::is_le)
                    && most(literal).is_none_or(Ordering::is_ge)
            }
        }
    }

    /// Whether it may be true for rows of a file whose directory gives the column this value.
    pub(super) fn may_hold_of(&self, field: &Field, value: Option<&str>) -> bool {
        let column = hive::column(field, value, 1).ok();
        let column = column.filter(|column| column.is_valid(0));
        let known_value = column.as_ref().and_then(|column| value_at(column, 0));
        self.may_hold(&Known {
            least: known_value,
            most: known_value,
            nulls_count: Some(u64::from(value.is_none())),
            rows_count: 1,
        })
    }
}

/// Returns the row groups of a file that may hold rows for which all `predicates` are true.
pub(super) fn row_groups(predicates: &[Predicate], metadata: &ArrowReaderMetadata) -> Vec<bool> {
    let groups = metadata.metadata().row_groups();
    let mut keep = vec![true; groups.len()];
    for predicate in predicates {
        let found = may_hold(predicate, metadata);
        for (keep, may_hold) in keep.iter_mut().zip(found.unwrap_or_default()) {
            *keep &= may_hold;
        }
    }
    keep
}

/// Returns `None` if the statistics cannot decide.
fn may_hold(predicate: &Predicate, metadata: &ArrowReaderMetadata) -> Option<Vec<bool>> {
    let schema: &Schema = metadata.schema();
    let parquet = metadata.parquet_schema();
    let groups = metadata.metadata().row_groups();
    let converter = StatisticsConverter::try_new(&predicate.column, schema, parquet).ok()?;
    let mins = converter.row_group_mins(groups).ok()?;
    let maxes = converter.row_group_maxes(groups).ok()?;
    // A missing null count does not mean zero.
    let nulls = converter.with_missing_null_counts_as_zero(false);
    let null_counts = nulls.row_group_null_counts(groups).ok()?;
    let may_be_nan = mins.data_type().is_floating();
    let nan_counts = may_be_nan
        .then(|| nulls.row_group_nan_counts(groups).ok())
        .flatten();
    let holds = (0..groups.len()).map(|index| {
        let is_without_nans = !may_be_nan
            || nan_counts
                .as_ref()
                .is_some_and(|counts| counts.is_valid(index) && counts.value(index) == 0);
        let bound = |array: &'_ ArrayRef| is_without_nans && array.is_valid(index);
        predicate.comparison.may_hold(&Known {
            least: bound(&mins).then(|| value_at(&mins, index)).flatten(),
            most: bound(&maxes).then(|| value_at(&maxes, index)).flatten(),
            nulls_count: null_counts
                .is_valid(index)
                .then(|| null_counts.value(index)),
            rows_count: u64::try_from(groups[index].num_rows()).unwrap_or(0),
        })
    });
    Some(holds.collect())
}

/// A value of a column of statistics; `None` for types that are not compared.
fn value_at(array: &ArrayRef, index: usize) -> Option<Value<'_>> {
    use arrow_array::types::*;
    macro_rules! integer {
        ($kind:ty) => {
            Some(Value::Integer(
                array.as_primitive::<$kind>().value(index).into(),
            ))
        };
    }
    match array.data_type() {
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Date32 => integer!(Date32Type),
        DataType::Timestamp(arrow_schema::TimeUnit::Second, _) => integer!(TimestampSecondType),
        DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, _) => {
            integer!(TimestampMillisecondType)
        }
        DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, _) => {
            integer!(TimestampMicrosecondType)
        }
        DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, _) => {
            integer!(TimestampNanosecondType)
        }
        DataType::Float32 => Some(Value::Float(
            array.as_primitive::<Float32Type>().value(index).into(),
        )),
        DataType::Float64 => Some(Value::Float(
            array.as_primitive::<Float64Type>().value(index),
        )),
        DataType::Boolean => Some(Value::Boolean(array.as_boolean().value(index))),
        DataType::Utf8 => Some(Value::Bytes(
            array.as_string::<i32>().value(index).as_bytes(),
        )),
        DataType::LargeUtf8 => Some(Value::Bytes(
            array.as_string::<i64>().value(index).as_bytes(),
        )),
        DataType::Utf8View => Some(Value::Bytes(array.as_string_view().value(index).as_bytes())),
        DataType::Binary => Some(Value::Bytes(array.as_binary::<i32>().value(index))),
        DataType::LargeBinary => Some(Value::Bytes(array.as_binary::<i64>().value(index))),
        _ => None,
    }
}
