//! One dictionary per column for all batches of an Arrow file.
//!
//! Contract: an Arrow file cannot replace a dictionary; it can only append values to one.
//! [`Dictionaries::unite`] returns a batch with the same values, whose dictionaries begin with
//! those of the previous batch. So each value is stored once per file, in the order of first use,
//! and unused values are left out. This includes dictionaries inside nested columns.
//!
//! Bounds: all values so far, in arrays and as keys of a map, up to the memory that the caller
//! grants; more is an error.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, make_array, new_empty_array,
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::concat;
use arrow_select::take::take;
use outcore_io::{Error, Kind, Result, units};

use super::{WRITE, unwritable_arrow};
use crate::rows::dictionary_of;

/// Approximate memory of a value in addition to its bytes: twice in arrays with offsets, and in the
/// map.
const VALUE_BYTES: u64 = 64;

/// Whether a table has dictionaries.
pub(super) fn are_in(schema: &Schema) -> bool {
    let mut fields = schema.fields().iter();
    fields.any(|field| has_dictionary(field.data_type()))
}

fn has_dictionary(data_type: &DataType) -> bool {
    let is_in = |field: &Field| has_dictionary(field.data_type());
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| is_in(field)),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| is_in(field)),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::RunEndEncoded(_, field)
        | DataType::Map(field, _) => is_in(field),
        _ => false,
    }
}

/// The dictionaries of a file so far, in the order of its schema.
#[derive(Default)]
pub(super) struct Dictionaries {
    growing: Vec<Growing>,
}

/// One of them.
struct Growing {
    values: ArrayRef,
    /// The index of each value, by its bytes.
    places: HashMap<Box<[u8]>, usize>,
    converter: RowConverter,
    held_bytes: u64,
}

impl Dictionaries {
    /// Returns the batch with dictionaries that continue those of earlier batches.
    ///
    /// # Errors
    /// Memory: all values take more than `memory_bytes`. Usage: more values than keys of their
    /// type.
    pub(super) fn unite(&mut self, batch: &RecordBatch, memory_bytes: u64) -> Result<RecordBatch> {
        let mut number = 0;
        let columns = batch.columns().iter();
        let columns = columns.map(|column| self.united(column, &mut number));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let held_bytes = self.growing.iter().map(|one| one.held_bytes).sum::<u64>();
        if held_bytes > memory_bytes {
            let cause = format!(
                "the dictionaries of an Arrow file take more than {}",
                units::bytes(memory_bytes)
            );
            return Err(Error::new(Kind::Memory, WRITE, cause).hint(
                "allow more with --memory, or write Parquet or an Arrow stream (.arrows), whose batches have dictionaries of their own",
            ));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(batch.schema(), columns, &options)
            .map_err(|error| unwritable_arrow(&error))
    }

    /// Converts the array; `number` is that of its first dictionary.
    fn united(&mut self, array: &ArrayRef, number: &mut usize) -> Result<ArrayRef> {
        let data_type = array.data_type();
        if let DataType::Dictionary(_, values) = data_type {
            if *number == self.growing.len() {
                self.growing.push(Growing::of(values)?);
            }
            let growing = &mut self.growing[*number];
            *number += 1;
            return growing.united(array);
        }
        if !has_dictionary(data_type) {
            return Ok(ArrayRef::clone(array));
        }
        let data = array.to_data();
        let children = data.child_data().iter();
        let children = children.map(|child| {
            let child = self.united(&make_array(child.clone()), number)?;
            Ok(child.to_data())
        });
        let children = children.collect::<Result<Vec<_>>>()?;
        let made = data.into_builder().child_data(children).build();
        Ok(make_array(made.map_err(failed)?))
    }
}

fn failed(error: ArrowError) -> Error {
    unwritable_arrow(&error)
}

impl Growing {
    fn of(values: &DataType) -> Result<Self> {
        let fields = vec![SortField::new(values.clone())];
        Ok(Growing {
            values: new_empty_array(values),
            places: HashMap::new(),
            converter: RowConverter::new(fields).map_err(failed)?,
            held_bytes: 0,
        })
    }

    fn united(&mut self, array: &ArrayRef) -> Result<ArrayRef> {
        let dictionary = array.as_any_dictionary();
        let values = dictionary.values();
        let rows = self.converter.convert_columns(std::slice::from_ref(values));
        let rows = rows.map_err(failed)?;
        let own_keys = match values.is_empty() {
            true => vec![0; array.len()],
            false => dictionary.normalized_keys(),
        };
        let mut found: Vec<Option<usize>> = vec![None; values.len()];
        let mut added: Vec<u64> = Vec::new();
        let mut keys: Vec<Option<usize>> = Vec::with_capacity(array.len());
        for (row, &own) in own_keys.iter().enumerate() {
            if dictionary.keys().is_null(row) {
                keys.push(None);
                continue;
            }
            let place = match found[own] {
                Some(place) => place,
                None => {
                    let row = rows.row(own);
                    let bytes = row.data();
                    let next = self.places.len();
                    let place = self.places.get(bytes).copied().unwrap_or(next);
                    if place == next {
                        self.places.insert(bytes.into(), next);
                        self.held_bytes += 2 * bytes.len() as u64 + VALUE_BYTES;
                        added.push(own as u64);
                    }
                    place
                }
            };
            found[own] = Some(place);
            keys.push(Some(place));
        }
        if !added.is_empty() {
            let more = take(values.as_ref(), &UInt64Array::from(added), None).map_err(failed)?;
            let all = concat(&[self.values.as_ref(), more.as_ref()]);
            self.values = all.map_err(failed)?;
        }
        dictionary_of(array.data_type(), &keys, &self.values)
    }
}
