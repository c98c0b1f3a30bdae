//! Which values of a key are equal, whatever their bytes say.
//!
//! Contract: what a dictionary's keys stand for counts, not the keys; 0.0 and -0.0 are equal, and
//! so are all NaNs. Pure.

use std::sync::Arc;

use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::{DataType, Field, FieldRef};

/// The type with dictionaries' values in their places, inside of nested types, too.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(plain_field(field));
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::FixedSizeList(field, count) => DataType::FixedSizeList(inner(field), *count),
        DataType::Map(field, is_sorted) => DataType::Map(inner(field), *is_sorted),
        other => other.clone(),
    }
}

fn plain_field(field: &Field) -> Field {
    field.clone().with_data_type(plain_type(field.data_type()))
}

/// Of floats: -0.0 is 0.0, and all NaNs are one.
pub(crate) fn with_one_zero(array: &ArrayRef) -> ArrayRef {
    let real = |value: f64| match value {
        value if value.is_nan() => f64::NAN,
        value => value + 0.0,
    };
    match array.data_type() {
        DataType::Float64 => Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(real),
        ),
        DataType::Float32 => {
            let single = |value: f32| match value {
                value if value.is_nan() => f32::NAN,
                value => value + 0.0,
            };
            Arc::new(
                array
                    .as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(single),
            )
        }
        DataType::Float16 => {
            type Half = <Float16Type as arrow_array::ArrowPrimitiveType>::Native;
            let half = |value: Half| match value {
                value if value.is_nan() => Half::NAN,
                value if value == Half::ZERO => Half::ZERO,
                value => value,
            };
            Arc::new(
                array
                    .as_primitive::<Float16Type>()
                    .unary::<_, Float16Type>(half),
            )
        }
        _ => Arc::clone(array),
    }
}
