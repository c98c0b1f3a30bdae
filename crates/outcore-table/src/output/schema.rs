//! The schema that a format can hold, and batches converted to it.
//!
//! Contract: [`written_schema`] keeps the types that a format has, and replaces others with the
//! nearest one. Parquet has neither seconds nor dates in milliseconds; text has neither these
//! dates, nor dictionaries, nor time zones. [`hydrated`] converts a batch to that schema. No value
//! is lost: times only become finer, and a date with a time of day is an error. [`check_known`]
//! rejects types that Parquet does not have.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use outcore_io::{Error, Result};

use super::{TableFormat, WRITE, unwritable_arrow};
use crate::notation::notation;
use crate::schema::retyped;

/// The schema as it can be written.
pub(super) fn written_schema(schema: &SchemaRef, format: TableFormat) -> SchemaRef {
    let written = match format {
        TableFormat::Parquet => known_to_parquet,
        TableFormat::ArrowFile | TableFormat::ArrowStream | TableFormat::Vectors => {
            return Arc::clone(schema);
        }
        TableFormat::Csv | TableFormat::Tsv | TableFormat::JsonLines | TableFormat::Lines => {
            in_text
        }
    };
    let fields = schema.fields().iter();
    let fields: Vec<FieldRef> = fields.map(|field| Arc::new(written(field))).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The field with plain values, and with times that have a zone in UTC.
pub(crate) fn in_utc(field: &Field) -> Field {
    let plain = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, values) => Some(
            in_utc(&Field::new("", (**values).clone(), true))
                .data_type()
                .clone(),
        ),
        DataType::Timestamp(unit, Some(_)) => {
            Some(DataType::Timestamp(*unit, Some("+00:00".into())))
        }
        _ => None,
    };
    replaced(field, &plain)
}

/// The field as text shows it: as [`in_utc`] returns it, with dates in days.
fn in_text(field: &Field) -> Field {
    in_days(&in_utc(field))
}

/// Converts a column to the values that text shows: plain, in UTC, with dates in days. Dates with a
/// time of day become times.
///
/// # Errors
/// None are expected.
pub(crate) fn shown(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    match dated(field, column) {
        Ok(dated) => retyped(&dated, in_text(field).data_type()),
        Err(_) => retyped(column, in_utc(field).data_type()),
    }
}

/// Converts dates in milliseconds to dates in days.
fn dated(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    let data_type = in_days(&Field::new("", column.data_type().clone(), true))
        .data_type()
        .clone();
    if data_type == *column.data_type() {
        return Ok(Arc::clone(column));
    }
    let days = converted(column, &data_type)?;
    let back = converted(&days, column.data_type())?;
    match back.to_data() == column.to_data() {
        true => Ok(days),
        false => {
            let name = field.name();
            let cause =
                format!("column `{name}` is a date (Date64), but a value has a time of day");
            Err(Error::usage(WRITE, cause).hint(format!(
                "make it a timestamp first: outcore map '`{name}` = timestamp(`{name}`)'"
            )))
        }
    }
}

fn converted(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, data_type, &options).map_err(|error| unwritable_arrow(&error))
}

/// Replaces types that Parquet lacks with the nearest ones: times in seconds with milliseconds,
/// dates in milliseconds with dates in days.
fn known_to_parquet(field: &Field) -> Field {
    let finer = |data_type: &DataType| match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))
        }
        DataType::Time32(TimeUnit::Second) => Some(DataType::Time32(TimeUnit::Millisecond)),
        DataType::Date64 => Some(DataType::Date32),
        _ => None,
    };
    replaced(field, &finer)
}

/// Replaces dates in milliseconds with dates in days.
fn in_days(field: &Field) -> Field {
    let days = |data_type: &DataType| match data_type {
        DataType::Date64 => Some(DataType::Date32),
        _ => None,
    };
    replaced(field, &days)
}

/// Replaces the types for which `other` returns one, also inside nested types.
fn replaced(field: &Field, other: &dyn Fn(&DataType) -> Option<DataType>) -> Field {
    let inner = |field: &FieldRef| Arc::new(replaced(field, other));
    let data_type = match field.data_type() {
        own if other(own).is_some() => other(own).unwrap_or_else(|| own.clone()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, count) => DataType::FixedSizeList(inner(item), *count),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Dictionary(keys, values) => {
            let values = replaced(&Field::new("", (**values).clone(), true), other);
            DataType::Dictionary(keys.clone(), Box::new(values.data_type().clone()))
        }
        own => own.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// Fails for a column that Parquet has no type for.
pub(super) fn check_known(schema: &Schema) -> Result<()> {
    fn unknown(data_type: &DataType) -> Option<&DataType> {
        match data_type {
            DataType::Union(..) => Some(data_type),
            DataType::Struct(fields) => fields.iter().find_map(|field| unknown(field.data_type())),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _) => unknown(field.data_type()),
            DataType::Dictionary(_, values) => unknown(values),
            DataType::RunEndEncoded(_, values) => unknown(values.data_type()),
            _ => None,
        }
    }
    let mut fields = schema.fields().iter();
    let found = fields.find_map(|field| Some((field.name(), unknown(field.data_type())?)));
    match found {
        None => Ok(()),
        Some((name, data_type)) => {
            let cause = format!(
                "column `{name}` has values of type {}, which Parquet does not support",
                notation(data_type)
            );
            Err(Error::usage(WRITE, cause)
                .hint("leave the column out with --columns, or write an Arrow file"))
        }
    }
}

/// Converts `batch` to `schema`: decodes dictionaries if `schema` has plain columns, and converts
/// times to its unit.
pub(super) fn hydrated(
    batch: &RecordBatch,
    schema: &SchemaRef,
    format: TableFormat,
) -> Result<RecordBatch> {
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, array)| {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        match format {
            TableFormat::Parquet => {
                let array = dated(field, array)?;
                let finer = known_to_parquet(&Field::new("", array.data_type().clone(), true));
                retyped(&converted(&array, finer.data_type())?, field.data_type())
            }
            format if format.is_text() => retyped(&dated(field, array)?, field.data_type()),
            _ => retyped(array, field.data_type()),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let made = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    made.map_err(|error| unwritable_arrow(&error))
}
