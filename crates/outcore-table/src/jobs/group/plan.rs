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
use outcore_io::{Error, Result};

use super::aggregate::{Aggregate, AggregateKind, GROUP};
use super::states::{States, Values};
use crate::equal::{plain_type, with_one_zero};
use crate::fault;
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
