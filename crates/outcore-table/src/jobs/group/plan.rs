//! What a job on groups is about: columns of the key, aggregates, and the columns that these are
//! made of; all of them may be fields of objects, as `st.a`.
//!
//! Contract: everything that can be wrong with a request (a column that is not there, an aggregate
//! that its type does not have) is an error here, before a row is read. No I/O; memory for names
//! and types alone.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef, SortOptions};
use outcore::sort::lines::rows::LongRow;
use outcore_io::{Error, Result};

use super::aggregate::{Aggregate, AggregateKind, GROUP};
use super::states::{States, Values};
use crate::equal::{plain_type, with_one_zero};
use crate::fault;
use crate::input::TableInput;
use crate::jobs::room::{RowCosts, arrays_times, as_key};
use crate::rows::KeyColumn;
use crate::schema::{FieldPlace, check_names};

/// See the module.
pub(super) struct Plan {
    pub(super) keys: Vec<KeyColumn>,
    /// Of the columns of the key, among those that are read.
    key_places: Vec<usize>,
    pub(super) key_converter: RowConverter,
    pub(super) aggregates: Vec<Aggregate>,
    /// Columns that aggregates are made of, each once.
    pub(super) values: Vec<ValueColumn>,
    /// Of each aggregate: its place among those.
    pub(super) value_of: Vec<Option<usize>>,
    /// Columns that are read.
    pub(super) reads: Vec<String>,
    /// The columns of the key, and one for each aggregate.
    pub(super) schema: SchemaRef,
}

/// A column that aggregates are made of.
pub(super) struct ValueColumn {
    place: usize,
    pub(super) data_type: DataType,
    /// Makes bytes of its values, where somebody wants them.
    pub(super) converter: Option<RowConverter>,
    /// Somebody wants its values in order.
    pub(super) is_ordered: bool,
    /// Its values are wanted to the bit; otherwise there are one zero and one NaN among them.
    is_exact: bool,
}

impl Plan {
    /// For a table of `schema`.
    ///
    /// # Errors
    /// Usage: no column of the key, no such column, an aggregate that a type does not have, two
    /// results of one name.
    pub(super) fn of(
        schema: &SchemaRef,
        keys: &[KeyColumn],
        aggregates: &[Aggregate],
    ) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::usage(GROUP, "no column says which rows are a group")
                .hint("name columns to group by"));
        }
        let mut reads: Vec<String> = Vec::new();
        let mut place_of = |name: &str| {
            reads
                .iter()
                .position(|read| read == name)
                .unwrap_or_else(|| {
                    reads.push(name.to_owned());
                    reads.len() - 1
                })
        };
        let mut fields: Vec<FieldRef> = Vec::new();
        let (mut key_places, mut sort_fields) = (Vec::new(), Vec::new());
        for key in keys {
            let field = FieldPlace::of(schema, &key.name, GROUP)?.field(schema, &key.name);
            let options = SortOptions {
                descending: key.is_descending,
                nulls_first: key.is_nulls_first,
            };
            sort_fields.push(SortField::new_with_options(
                field.data_type().clone(),
                options,
            ));
            key_places.push(place_of(&key.name));
            fields.push(field);
        }
        let (mut values, mut value_of) = (Vec::<ValueColumn>::new(), Vec::new());
        for aggregate in aggregates {
            let Some(name) = &aggregate.column else {
                value_of.push(None);
                fields.push(Arc::new(aggregate.field(None)?));
                continue;
            };
            let field = FieldPlace::of(schema, name, GROUP)?.field(schema, name);
            let data_type = plain_type(field.data_type());
            fields.push(Arc::new(aggregate.field_of(&field)?));
            let place = place_of(name);
            let is_exact = matches!(aggregate.kind, AggregateKind::First | AggregateKind::Last);
            let known = |value: &ValueColumn| value.place == place && value.is_exact == is_exact;
            let known = values.iter().position(known);
            let at = known.unwrap_or_else(|| {
                values.push(ValueColumn {
                    place,
                    data_type: data_type.clone(),
                    converter: None,
                    is_ordered: false,
                    is_exact,
                });
                values.len() - 1
            });
            let value = &mut values[at];
            let is_ordered = matches!(
                aggregate.kind,
                AggregateKind::CountDistinct
                    | AggregateKind::Quantile(_)
                    | AggregateKind::QuantileDisc(_)
            );
            let is_in_bytes =
                is_ordered || matches!(States::of(aggregate, Some(&data_type)), States::Picked(_));
            value.is_ordered |= is_ordered;
            if is_in_bytes && value.converter.is_none() {
                value.converter = Some(converter(vec![SortField::new(data_type)], name)?);
            }
            value_of.push(Some(at));
        }
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let mut places = names.iter().enumerate();
        if let Some((_, twice)) = places.find(|(place, name)| names[..*place].contains(name)) {
            let cause = format!("the key names the column `{twice}` twice");
            return Err(Error::usage(GROUP, cause).hint("name each column once"));
        }
        let schema = Arc::new(Schema::new(fields));
        check_names(&schema)
            .map_err(|error| error.hint("give results names of their own: NAME=sum(C)"))?;
        Ok(Plan {
            key_converter: converter(sort_fields, &names.join("`, `"))?,
            keys: keys.to_vec(),
            key_places,
            aggregates: aggregates.to_vec(),
            values,
            value_of,
            reads,
            schema,
        })
    }

    /// What a job holds of the longest row of `input`, of which it reads the columns of the plan.
    pub(super) fn costs(&self, input: &TableInput) -> RowCosts {
        let long_bytes = input.need().long_bytes;
        if long_bytes == 0 {
            return RowCosts::default();
        }
        let key_names: Vec<String> = self.keys.iter().map(|key| key.name.clone()).collect();
        let names = self
            .values
            .iter()
            .map(|value| self.reads[value.place].clone());
        let key_long_bytes = input.long_bytes_of(&key_names);
        let (key_bytes, value_bytes) = (
            as_key(key_long_bytes),
            as_key(input.long_bytes_of(&names.collect::<Vec<_>>())),
        );
        let states = self.states();
        let picked = states
            .iter()
            .filter(|state| state.values_held() == 1)
            .count() as u64;
        let held = states.iter().map(States::values_held).sum::<u64>();
        let ordered = self.values.iter().filter(|value| value.is_ordered).count() as u64;
        let values = |count: u64| count.saturating_mul(value_bytes);
        // States of a group, or a value that is wanted in order.
        let row_bytes = key_bytes.saturating_add(values(picked.max(ordered.min(1))));
        let rows = |count: u64| row_bytes.saturating_mul(count);
        RowCosts {
            // The columns as bytes, the tables, and the rows that they become, twice.
            made_bytes: rows(4).saturating_add(rows(2 * ordered.min(1))),
            taken_bytes: key_bytes
                .saturating_mul(2)
                .saturating_add(values(2 * held + ordered))
                .saturating_mul(arrays_times(&self.schema)),
            written_bytes: key_long_bytes.saturating_add(values(held)),
            longest: Some(LongRow {
                row_bytes,
                key_bytes,
            }),
            is_grouped: true,
            ..RowCosts::default()
        }
    }

    /// Columns of the output whose values are long.
    pub(super) fn long_names(&self, input: &TableInput) -> Vec<String> {
        let long = input.long_names();
        let results = self.aggregates.iter().zip(self.states());
        let results = results.filter(|(aggregate, states)| {
            let column = aggregate.column.as_ref();
            states.values_held() > 0 && column.is_some_and(|column| long.contains(column))
        });
        let results = results.map(|(aggregate, _)| aggregate.name.clone());
        let results: Vec<String> = results.collect();
        [long, results].concat()
    }

    /// States for each aggregate.
    pub(super) fn states(&self) -> Vec<States> {
        let all = self.aggregates.iter().zip(&self.value_of);
        let all = all.map(|(aggregate, value)| {
            States::of(aggregate, value.map(|value| &self.values[value].data_type))
        });
        all.collect()
    }

    /// Of the rows of a batch of the columns that are read: the keys, and what aggregates are made
    /// of.
    pub(super) fn take_apart(&self, batch: &RecordBatch) -> Result<(Rows, Vec<Values>)> {
        let arrow = |error| fault::arrow(GROUP, &error);
        let keys: Vec<ArrayRef> = self
            .key_places
            .iter()
            .map(|&place| with_one_zero(batch.column(place)))
            .collect();
        let keys = self.key_converter.convert_columns(&keys).map_err(arrow)?;
        let values = self.values.iter().map(|value| {
            let array = plain(batch.column(value.place))?;
            let array = match value.is_exact {
                true => array,
                false => with_one_zero(&array),
            };
            let rows = value.converter.as_ref();
            let rows = rows.map(|converter| converter.convert_columns(&[Arc::clone(&array)]));
            Ok(Values {
                rows: rows.transpose().map_err(arrow)?,
                array,
            })
        });
        Ok((keys, values.collect::<Result<_>>()?))
    }
}

fn converter(fields: Vec<SortField>, names: &str) -> Result<RowConverter> {
    if !RowConverter::supports_fields(&fields) {
        let types: Vec<String> = fields.iter().map(|field| format!("{field:?}")).collect();
        let cause = format!(
            "`{names}` has values without an order: {}",
            types.join(", ")
        );
        return Err(Error::usage(GROUP, cause).hint("choose other columns"));
    }
    RowConverter::new(fields).map_err(|error| fault::arrow(GROUP, &error))
}

/// The values of a dictionary, row by row.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    crate::schema::retyped(array, &plain_type(array.data_type()))
}
