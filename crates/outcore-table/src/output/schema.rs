//! The schema that a format can hold, and batches made to fit it.
//!
//! Contract: [`written_schema`] keeps what a format knows and names the nearest type of what it does not: an Arrow file has one
//! dictionary a column for all batches, Parquet no seconds, and text neither dictionaries nor zones of time. [`hydrated`] makes
//! a batch one of that schema. No value is lost: times only become finer.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use outcore_io::Result;

use super::{TableFormat, unwritable_arrow};
use crate::schema::retyped;

/// The schema as it can be written.
pub(super) fn written_schema(schema: &SchemaRef, format: TableFormat) -> SchemaRef {
    let written = match format {
        TableFormat::Parquet => in_milliseconds,
        TableFormat::ArrowFile => without_dictionaries,
        TableFormat::ArrowStream | TableFormat::Vectors => return Arc::clone(schema),
        TableFormat::Csv | TableFormat::JsonLines => in_utc,
    };
    let fields = schema.fields().iter();
    let fields: Vec<FieldRef> = fields.map(|field| Arc::new(written(field))).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn without_dictionaries(field: &Field) -> Field {
    let plain = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, values) => Some((**values).clone()),
        _ => None,
    };
    replaced(field, &plain)
}

/// Plain values, and times in no other zone than UTC.
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

/// Times in seconds, which Parquet does not know, as milliseconds.
fn in_milliseconds(field: &Field) -> Field {
    let finer = |data_type: &DataType| match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))
        }
        DataType::Time32(TimeUnit::Second) => Some(DataType::Time32(TimeUnit::Millisecond)),
        _ => None,
    };
    replaced(field, &finer)
}

/// The field with other types in it, where there are some for its own or for those inside.
fn replaced(field: &Field, other: &dyn Fn(&DataType) -> Option<DataType>) -> Field {
    let inner = |field: &FieldRef| Arc::new(replaced(field, other));
    let data_type = match field.data_type() {
        own if other(own).is_some() => other(own).unwrap_or_else(|| own.clone()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, count) => DataType::FixedSizeList(inner(item), *count),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        own => own.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// `batch` as one of `schema`: dictionaries looked up where that has plain columns, and times in its unit.
pub(super) fn hydrated(
    batch: &RecordBatch,
    schema: &SchemaRef,
    format: TableFormat,
) -> Result<RecordBatch> {
    let columns = schema.fields().iter().zip(batch.columns());
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = columns.map(|(field, array)| {
        if format != TableFormat::Parquet || array.data_type() == field.data_type() {
            return retyped(array, field.data_type());
        }
        let finer = in_milliseconds(&Field::new("", array.data_type().clone(), true));
        let array = cast_with_options(array, finer.data_type(), &options);
        let array = array.map_err(|error| unwritable_arrow(&error))?;
        retyped(&array, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let made = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    made.map_err(|error| unwritable_arrow(&error))
}
