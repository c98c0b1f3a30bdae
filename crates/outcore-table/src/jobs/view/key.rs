//! Finds rows of a view by their key.
//!
//! Contract: a key has values for the first columns of the order, or for all of them. It is given
//! as one row of a record batch ([`TableView::find`]) or as text ([`TableView::key_of`]). Keys of
//! rows are compared as bytes, and no encoded column is a prefix of another. So the rows with the
//! given values are those between the encoded values and their successor.
//!
//! Bounds: a reader of the view, which reads one or two blocks of each run.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use outcore::sort::lines::rows::RowBatch;
use outcore_io::{Error, Result, units};

use super::TableView;
use crate::fault;
use crate::notation::notation;
use crate::output::in_utc;
use crate::rows::{RowCodec, key_of};
use crate::schema::{FieldPlace, retyped};

const FIND: &str = "search view";

impl TableView {
    /// The columns of the order as nullable fields, in that order.
    fn key_fields(&self) -> Result<Vec<FieldRef>> {
        let fields = self.keys.iter().map(|key| {
            let place = FieldPlace::of(self.schema(), &key.name, FIND)?;
            let data_type = place.field(self.schema(), &key.name).data_type().clone();
            Ok(Arc::new(Field::new(&key.name, data_type, true)))
        });
        fields.collect()
    }

    /// Returns the numbers of the rows that have the values of `key`, a batch of one row with the
    /// first columns of the order. If there are none, the range is empty and begins where they
    /// would be.
    ///
    /// # Errors
    /// Usage: other columns, or more than one row. Errors of reading the view.
    pub fn find(&self, key: &RecordBatch) -> Result<Range<u64>> {
        let from_key = self.encoded(key)?;
        let memory_bytes = self.view.reader_bytes(1);
        let mut reader = self.view.reader(memory_bytes)?;
        let from = reader.seek_key(&row_with(&from_key))?;
        let to = match successor(from_key) {
            Some(next) => reader.seek_key(&row_with(&next))?,
            None => self.view.len(),
        };
        Ok(from..to)
    }

    /// Reads a key from text: values separated by commas, as in CSV. An empty field is null, and
    /// `""` is an empty text.
    ///
    /// # Errors
    /// Usage: more values than columns of the order, or a value of another type.
    pub fn key_of(&self, text: &str) -> Result<RecordBatch> {
        let values = fields_of(text);
        let fields = self.key_fields()?;
        if values.len() > fields.len() {
            let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
            let cause = format!(
                "`{text}` has {}",
                units::counted(values.len() as u64, "value")
            );
            return Err(Error::usage(FIND, cause)
                .hint(format!("the view is in the order of {}", names.join(", "))));
        }
        let arrays = values.into_iter().zip(&fields).map(|(value, field)| {
            let array: ArrayRef = Arc::new(StringArray::from(vec![value.clone()]));
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            // The parser of texts does not know the names of zones.
            let plain = in_utc(field);
            let is_finer = value
                .as_deref()
                .is_some_and(|value| is_finer_than(value, plain.data_type()));
            if is_finer {
                let value = value.unwrap_or_default();
                let cause = format!(
                    "`{value}` has more digits than column `{}`, which is {}",
                    field.name(),
                    notation(field.data_type())
                );
                return Err(Error::usage(FIND, cause).hint(
                    "no row has such a key; to look for nearby keys, leave the last digits out",
                ));
            }
            let read = cast_with_options(&array, plain.data_type(), &options);
            let read = read.map_err(|_| {
                let value = value.unwrap_or_default();
                let cause = format!(
                    "`{value}` is not a value of column `{}`, which is {}",
                    field.name(),
                    notation(field.data_type())
                );
                Error::usage(FIND, cause)
                    .hint("write the key's values as in CSV, separated by commas")
            })?;
            match field.data_type() {
                DataType::Dictionary(..) => cast_with_options(&read, field.data_type(), &options)
                    .map_err(|error| fault::arrow(FIND, &error)),
                data_type => retyped(&read, data_type),
            }
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let schema = Schema::new(fields[..arrays.len()].to_vec());
        batch_of(&Arc::new(schema), arrays)
    }

    /// Returns the common prefix of the keys of all rows with the values of `key`.
    fn encoded(&self, key: &RecordBatch) -> Result<Vec<u8>> {
        let fields = self.key_fields()?;
        let count = key.num_columns();
        if key.num_rows() != 1 || count == 0 || count > fields.len() {
            let cause = format!(
                "a key of {} and {}",
                units::counted(key.num_rows() as u64, "row"),
                units::counted(count as u64, "column")
            );
            return Err(Error::usage(FIND, cause)
                .hint("give one value for each of the first columns of the order"));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields[..count].to_vec()));
        let batch = batch_of(&schema, key.columns().to_vec())?;
        let codec = RowCodec::new(&schema, &self.keys[..count])?;
        let mut rows = RowBatch::default();
        codec.encode(&batch, &mut rows)?;
        let row = rows.iter().next().and_then(key_of);
        Ok(row.unwrap_or_default().to_vec())
    }
}

/// Whether a number or a time has digits after the point that this type cannot hold.
fn is_finer_than(value: &str, data_type: &DataType) -> bool {
    use arrow_schema::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let digits_max = match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => usize::try_from(*scale).unwrap_or(0),
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            match unit {
                Second => 0,
                Millisecond => 3,
                Microsecond => 6,
                Nanosecond => 9,
            }
        }
        _ => return false,
    };
    let behind = value.rsplit_once('.').map_or("", |(_, behind)| behind);
    let end = behind
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(behind.len());
    behind[..end].trim_end_matches('0').len() > digits_max
}

fn batch_of(schema: &SchemaRef, arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(SchemaRef::clone(schema), arrays, &options);
    batch.map_err(|error| {
        let told = fault::arrow(FIND, &error);
        Error::usage(FIND, told.cause().to_owned())
            .hint("give values of the types of the view's columns")
    })
}

/// Builds a row with only this key.
fn row_with(key: &[u8]) -> Vec<u8> {
    [&(key.len() as u32).to_le_bytes()[..], key].concat()
}

/// Returns the least byte string that is larger than all with the prefix `key`, if there is one.
fn successor(mut key: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = key.pop() {
        if last < u8::MAX {
            key.push(last + 1);
            return Some(key);
        }
    }
    None
}

/// Splits a line of CSV into fields; an empty field is null.
fn fields_of(text: &str) -> Vec<Option<String>> {
    let mut fields = Vec::new();
    let (mut value, mut is_quoted, mut was_quoted) = (String::new(), false, false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                rest.next();
                value.push('"');
            }
            '"' if is_quoted => is_quoted = false,
            '"' if value.is_empty() && !was_quoted => (is_quoted, was_quoted) = (true, true),
            ',' if !is_quoted => {
                let field = std::mem::take(&mut value);
                fields.push((was_quoted || !field.is_empty()).then_some(field));
                was_quoted = false;
            }
            c => value.push(c),
        }
    }
    fields.push((was_quoted || !value.is_empty()).then_some(value));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_csv_and_have_a_successor() {
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(fields_of("de,7"), [text("de"), text("7")]);
        assert_eq!(
            fields_of(",\"\",\"a,\"\"b\"\"\""),
            [None, text(""), text("a,\"b\"")]
        );
        assert_eq!(fields_of(""), [None]);
        let finer = |value: &str, data_type| is_finer_than(value, &data_type);
        assert!(finer("1.254", DataType::Decimal128(12, 2)));
        assert!(
            !finer("1.2500", DataType::Decimal128(12, 2)) && !finer("7", DataType::Decimal64(5, 0))
        );
        let micros = || DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
        assert!(finer("2024-01-01T00:00:00.0000009Z", micros()));
        assert!(!finer("2024-01-01T00:00:00.000001+01:00", micros()));
        assert!(!finer("0.1234567", DataType::Float32));
        assert_eq!(successor(vec![1, 255, 255]), Some(vec![2]));
        assert_eq!(successor(vec![255]), None);
    }
}
