//! Defines which values of a key are equal even if their bytes differ.
//!
//! Contract: dictionaries are compared by their values, not by their keys; 0.0 equals -0.0, and all
//! NaNs are equal. Pure.

use std::sync::Arc;

use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::{DataType, Field, FieldRef};

/// Replaces dictionary types with the type of their values, also inside nested types.
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

/// In floats, replaces -0.0 with 0.0 and every NaN with the same NaN.
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
