//! Reads the numbers of columns of any stored type.
//!
//! Contract: the reading function is chosen once per column. Pure.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::DataType;
use outcore_io::{Error, Result};

use super::GROUP;
use crate::fault;
use crate::notation::notation;

/// Reinterprets the buffers as another type of the same width.
pub(super) fn retyped_as(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().data_type(data_type.clone());
    let data = data.build().map_err(|error| fault::arrow(GROUP, &error))?;
    Ok(make_array(data))
}

/// Calls `work` with a function that reads integers, booleans, or decimals of at most 128 bits.
pub(super) fn each_whole<T>(
    array: &ArrayRef,
    work: impl FnOnce(&dyn Fn(usize) -> i128) -> Result<T>,
) -> Result<T> {
    macro_rules! read {
        ($($kind:ident),*) => {
            match array.data_type() {
                DataType::Boolean => {
                    let array = array.as_boolean();
                    work(&|row| i128::from(array.value(row)))
                }
                $(of if *of == arrow_array::types::$kind::DATA_TYPE => {
                    let values = array.as_primitive::<arrow_array::types::$kind>().values();
                    work(&|row| i128::from(values[row]))
                })*
                DataType::Decimal32(..) => {
                    let values = array.as_primitive::<arrow_array::types::Decimal32Type>().values();
                    work(&|row| i128::from(values[row]))
                }
                DataType::Decimal64(..) => {
                    let values = array.as_primitive::<arrow_array::types::Decimal64Type>().values();
                    work(&|row| i128::from(values[row]))
                }
                DataType::Decimal128(..) => {
                    let values = array.as_primitive::<arrow_array::types::Decimal128Type>().values();
                    work(&|row| values[row])
                }
                of => {
                    let cause = format!("numbers of type {}", notation(of));
                    Err(Error::usage(GROUP, cause).hint("a bug: please report it"))
                }
            }
        };
    }
    read!(
        Int8Type,
        Int16Type,
        Int32Type,
        Int64Type,
        UInt8Type,
        UInt16Type,
        UInt32Type,
        UInt64Type,
        DurationSecondType,
        DurationMillisecondType,
        DurationMicrosecondType,
        DurationNanosecondType
    )
}

/// Calls `work` with a function that reads floats.
pub(super) fn each_real(array: &ArrayRef, work: impl FnOnce(&dyn Fn(usize) -> f64)) {
    match array.data_type() {
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>().values();
            work(&|row| values[row].to_f64());
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            work(&|row| f64::from(values[row]));
        }
        _ => {
            let values = array.as_primitive::<Float64Type>().values();
            work(&|row| values[row]);
        }
    }
}
