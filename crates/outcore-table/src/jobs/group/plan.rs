//! The plan of a grouping job: the key columns, the aggregates, and the columns and expressions
//! that these need. All columns may be fields of objects, such as `st.a`. Without key columns, all
//! rows form one group.
//!
//! Contract: every fault of a request (a missing column, an aggregate that does not exist for a
//! type) is reported here, before a row is read. No I/O; memory only for names and types.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, NullArray, RecordBatch};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef, SortOptions};
use outcore::sort::lines::rows::LongRow;
use outcore_io::{Error, Result};

use super::GROUP;
use super::aggregate::{Aggregate, AggregateKind};
use super::operand::{Operand, Source};
use super::states::{Operands, States, Values};
use crate::equal::{plain_type, with_one_zero};
use crate::fault;
use crate::input::{Piece, TableInput};
use crate::jobs::room::{RowCosts, arrays_times, as_key};
use crate::rows::KeyColumn;
use crate::schema::{FieldPlace, check_names};

/// See the module.
pub(super) struct Plan {
    pub(super) keys: Vec<KeyColumn>,
    /// Indexes of the key columns among the columns that are read.
    key_places: Vec<usize>,
    pub(super) key_converter: RowConverter,
    pub(super) aggregates: Vec<Aggregate>,
    /// Columns and expressions that aggregates use, each once.
    pub(super) values: Vec<ValueColumn>,
    /// Indexes of each aggregate's operands among `values`.
    pub(super) operands: Vec<OperandPlaces>,
    /// Columns that are read.
    pub(super) reads: Vec<String>,
    /// The schema of the output: the key columns, and one column per aggregate.
    pub(super) schema: SchemaRef,
}

/// Indexes of an aggregate's operands among the values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OperandPlaces {
    /// The operand's index.
    pub(super) of: Option<usize>,
    /// The index of the operand that chooses the row.
    pub(super) by: Option<usize>,
}

impl OperandPlaces {
    /// Looks up the operands.
    pub(super) fn among(self, values: &[Values]) -> Operands<'_> {
        Operands {
            of: self.of.map(|of| &values[of]),
            by: self.by.map(|by| &values[by]),
        }
    }
}

/// A column or expression that aggregates use.
pub(super) struct ValueColumn {
    source: Source,
    pub(super) data_type: DataType,
    /// Converts its values to bytes, if an aggregate needs that.
    pub(super) converter: Option<RowConverter>,
    /// Whether an aggregate needs its values in order.
    pub(super) is_ordered: bool,
    /// Whether an aggregate needs its values unchanged. Otherwise, -0.0 becomes 0.0 and all NaNs
    /// become one.
    is_exact: bool,
}

impl Plan {
    /// Plans for a table of `schema`.
    ///
    /// # Errors
    /// Usage: a missing column, an aggregate that does not exist for a type, a repeated result
    /// name.
    pub(super) fn of(
        schema: &SchemaRef,
        keys: &[KeyColumn],
        aggregates: &[Aggregate],
    ) -> Result<Self> {
        let mut reads = Reads::default();
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
            key_places.push(reads.place_of(&key.name));
            fields.push(field);
        }
        let mut values = ValueColumns::default();
        let mut operands = Vec::new();
        for aggregate in aggregates {
            let (field, places) = values.add(schema, aggregate)?;
            fields.push(field);
            operands.push(places);
        }
        let values = values.columns;
        let sources = values.iter().flat_map(|value| value.source.columns());
        sources.for_each(|name| {
            reads.place_of(name);
        });
        if let (true, Some(first)) = (reads.names.is_empty(), schema.fields().first()) {
            // Any one column is enough to count rows.
            reads.place_of(first.name());
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
        if keys.is_empty() {
            // A row without columns has no bytes, so the key of all rows is a null.
            sort_fields.push(SortField::new(DataType::Null));
        }
        Ok(Plan {
            key_converter: converter(sort_fields, &names.join("`, `"))?,
            keys: keys.to_vec(),
            key_places,
            aggregates: aggregates.to_vec(),
            values,
            operands,
            reads: reads.names,
            schema,
        })
    }

    /// Returns the memory for all copies of the longest row of `input`, if the columns of the plan
    /// are read.
    pub(super) fn costs(&self, input: &TableInput) -> RowCosts {
        let long_bytes = input.need().long_bytes;
        if long_bytes == 0 {
            return RowCosts::default();
        }
        let key_names: Vec<String> = self.keys.iter().map(|key| key.name.clone()).collect();
        let names = self.values.iter().flat_map(|value| value.source.columns());
        let names = names.map(str::to_owned);
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
        // States of a group, or a value that is needed in order.
        let row_bytes = key_bytes.saturating_add(values(picked.max(ordered.min(1))));
        let rows = |count: u64| row_bytes.saturating_mul(count);
        RowCosts {
            // The columns as bytes, the tables, and the rows made from them, twice.
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

    /// Columns of the output with long values.
    pub(super) fn long_names(&self, input: &TableInput) -> Vec<String> {
        let long = input.long_names();
        let of = self.operands.iter().map(|places| places.of);
        let results = self.aggregates.iter().zip(of).zip(self.states());
        let results = results.filter(|((_, of), states)| {
            let is_long = |value: usize| {
                let mut columns = self.values[value].source.columns().into_iter();
                columns.any(|column| long.iter().any(|long| long == column))
            };
            states.values_held() > 0 && of.is_some_and(is_long)
        });
        let results = results.map(|((aggregate, _), _)| aggregate.name.clone());
        let results: Vec<String> = results.collect();
        [long, results].concat()
    }

    /// Creates states for each aggregate.
    pub(super) fn states(&self) -> Vec<States> {
        let all = self.aggregates.iter().zip(&self.operands);
        let all = all.map(|(aggregate, places)| {
            States::of(aggregate, places.of.map(|of| &self.values[of].data_type))
        });
        all.collect()
    }

    /// Splits a batch of the columns that are read into the keys of its rows and the values for
    /// aggregates.
    pub(super) fn take_apart(&self, batch: &RecordBatch) -> Result<(Rows, Vec<Values>)> {
        let arrow = |error| fault::arrow(GROUP, &error);
        let keys = self.key_places.iter();
        let mut keys: Vec<ArrayRef> = keys
            .map(|&place| with_one_zero(batch.column(place)))
            .collect();
        if keys.is_empty() {
            keys.push(Arc::new(NullArray::new(batch.num_rows())));
        }
        let keys = self.key_converter.convert_columns(&keys).map_err(arrow)?;
        let values = self.values.iter().map(|value| {
            let array = plain(&value.source.values(batch)?)?;
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

    /// The key of all rows if there are no key columns.
    pub(super) fn key_of_all(&self) -> Result<Vec<u8>> {
        let keys = self
            .key_converter
            .convert_columns(&[Arc::new(NullArray::new(1))]);
        let keys = keys.map_err(|error| fault::arrow(GROUP, &error))?;
        Ok(keys.row(0).data().to_vec())
    }

    /// Adds to a batch's error the row of `input` in which an expression fails, if one does.
    pub(super) fn fault(&self, input: &TableInput, at: BatchPlace<'_>, error: Error) -> Error {
        let BatchPlace {
            piece,
            first_row,
            batch,
        } = at;
        let mut sources = self.values.iter().map(|value| &value.source);
        match sources.any(|source| matches!(source, Source::Computed(_))) {
            true => input.row_at_fault(piece, first_row, batch, error, |row| {
                self.take_apart(&row).map(drop)
            }),
            false => error,
        }
    }
}

/// A batch of the input, and its place.
pub(super) struct BatchPlace<'b> {
    pub(super) piece: Piece,
    /// Its first row, counted within the piece.
    pub(super) first_row: u64,
    pub(super) batch: &'b RecordBatch,
}

/// The columns that are read, each once.
#[derive(Default)]
struct Reads {
    names: Vec<String>,
}

impl Reads {
    fn place_of(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|read| read == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

/// Columns and expressions that aggregates use, each once.
#[derive(Default)]
struct ValueColumns {
    columns: Vec<ValueColumn>,
}

impl ValueColumns {
    /// Adds the operands of an aggregate. Returns the field of its results, and the operands'
    /// indexes.
    fn add(
        &mut self,
        schema: &SchemaRef,
        aggregate: &Aggregate,
    ) -> Result<(FieldRef, OperandPlaces)> {
        use AggregateKind::{ArgMax, ArgMin, CountDistinct, First, Last, Quantile, QuantileDisc};
        let Some(of) = &aggregate.of else {
            return Ok((Arc::new(aggregate.field(None)?), OperandPlaces::default()));
        };
        let (source, field) = of.source(schema)?;
        let result = Arc::new(aggregate.field_of(&field)?);
        let data_type = plain_type(field.data_type());
        let is_exact = matches!(aggregate.kind, First | Last | ArgMin | ArgMax);
        let is_picked = matches!(States::of(aggregate, Some(&data_type)), States::Picked(_));
        let is_ordered = matches!(
            aggregate.kind,
            CountDistinct | Quantile(_) | QuantileDisc(_)
        );
        let of_place = self.place_of(source, data_type, is_exact);
        let value = &mut self.columns[of_place];
        value.is_ordered |= is_ordered;
        if is_ordered || is_picked {
            value.in_bytes(of)?;
        }
        let mut places = OperandPlaces {
            of: Some(of_place),
            by: None,
        };
        if let Some(by) = &aggregate.by {
            let (source, field) = by.source(schema)?;
            let by_place = self.place_of(source, plain_type(field.data_type()), false);
            self.columns[by_place].in_bytes(by)?;
            places.by = Some(by_place);
        }
        Ok((result, places))
    }

    fn place_of(&mut self, source: Source, data_type: DataType, is_exact: bool) -> usize {
        let known = |value: &ValueColumn| value.source == source && value.is_exact == is_exact;
        self.columns.iter().position(known).unwrap_or_else(|| {
            self.columns.push(ValueColumn {
                source,
                data_type,
                converter: None,
                is_ordered: false,
                is_exact,
            });
            self.columns.len() - 1
        })
    }
}

impl ValueColumn {
    /// Requests the values as bytes.
    fn in_bytes(&mut self, operand: &Operand) -> Result<()> {
        if self.converter.is_none() {
            let field = SortField::new(self.data_type.clone());
            self.converter = Some(converter(vec![field], &operand.to_string())?);
        }
        Ok(())
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

/// Decodes a dictionary, row by row.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    crate::schema::retyped(array, &plain_type(array.data_type()))
}
