//! Defines which values of a key are equal even if their bytes differ.
//!
//! Contract: dictionaries are compared by their values, not by their keys; 0.0 equals -0.0, and all
//! NaNs are equal. Pure.

use std::cell::Cell;
use std::sync::Arc;

use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::{DataType, Field, FieldRef};

use crate::notation::notation;

/// The digits that a decimal of 16 bytes holds.
const DIGITS_MAX: u8 = 38;

/// Replaces dictionary types with the type of their values, also inside nested types.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    with_parts(data_type, &|part| match part {
        DataType::Dictionary(_, values) => Some((**values).clone()),
        _ => None,
    })
}

/// The type in which values are compared, whatever their layout. In addition to [`plain_type`], it
/// has no run-end encoding, and the entries of maps have fixed names. Decimals have at least 16
/// bytes; wider ones stay, since a value may exceed its type.
pub(crate) fn value_type(data_type: &DataType) -> DataType {
    with_parts(data_type, &|part| match part {
        DataType::Dictionary(_, values) => Some((**values).clone()),
        DataType::RunEndEncoded(_, values) => Some(values.data_type().clone()),
        DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) => {
            Some(DataType::Decimal128(*digits, *scale))
        }
        DataType::Map(entries, is_sorted) => {
            let named = with_entry_names(entries);
            named.map(|entries| DataType::Map(entries, *is_sorted))
        }
        _ => None,
    })
}

/// The entries of a map with the names that Parquet gives them; `None` if they have these names.
/// Programs disagree on the names.
fn with_entry_names(entries: &FieldRef) -> Option<FieldRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return None;
    };
    let [key, value] = &fields[..] else {
        return None;
    };
    if key.name() == "key" && value.name() == "value" {
        return None;
    }
    let fields = [(key, "key"), (value, "value")];
    let fields = fields.map(|(field, name)| Field::clone(field).with_name(name));
    let data_type = DataType::Struct(fields.into_iter().collect());
    Some(Arc::new(Field::clone(entries).with_data_type(data_type)))
}

/// The notation of a type of [`value_type`]. Types with one text have equal bytes for equal values.
pub(crate) fn value_notation(data_type: &DataType) -> String {
    let text = notation(data_type);
    let is_wide =
        |part: &DataType| matches!(part, DataType::Decimal256(digits, _) if *digits <= DIGITS_MAX);
    match has_part(data_type, &is_wide) {
        true => format!("{text} of 32 bytes"),
        false => text,
    }
}

/// Whether the type, or a part of it, is of a kind; also the values of dictionaries and runs.
pub(crate) fn has_part(data_type: &DataType, is_it: &dyn Fn(&DataType) -> bool) -> bool {
    let has = Cell::new(false);
    with_parts(data_type, &|part| {
        has.set(has.get() || is_it(part));
        match part {
            DataType::Dictionary(_, values) => Some((**values).clone()),
            DataType::RunEndEncoded(_, values) => Some(values.data_type().clone()),
            _ => None,
        }
    });
    has.get()
}

/// The type with others in place of its parts, wherever `other` has one.
fn with_parts(data_type: &DataType, other: &dyn Fn(&DataType) -> Option<DataType>) -> DataType {
    let inner = |field: &FieldRef| -> FieldRef {
        let data_type = with_parts(field.data_type(), other);
        Arc::new(Field::clone(field).with_data_type(data_type))
    };
    match (other(data_type), data_type) {
        (Some(found), _) => with_parts(&found, other),
        (_, DataType::Struct(fields)) => DataType::Struct(fields.iter().map(inner).collect()),
        (_, DataType::List(field)) => DataType::List(inner(field)),
        (_, DataType::LargeList(field)) => DataType::LargeList(inner(field)),
        (_, DataType::FixedSizeList(field, count)) => DataType::FixedSizeList(inner(field), *count),
        (_, DataType::Map(field, is_sorted)) => DataType::Map(inner(field), *is_sorted),
        (_, own) => own.clone(),
    }
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
