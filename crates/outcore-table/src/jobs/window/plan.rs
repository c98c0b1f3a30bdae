//! The plan of a window job, and the form of its rows in the engine.
//!
//! Contract: [`Plan::of`] reports every fault of a request before a row is read. [`Plan::encode`]
//! makes rows that the engine sorts by the group columns, and within a group by all of their bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `group_bytes`, little-endian |
//! | `group_bytes` | the group columns in a comparable form |
//! | `order_bytes` | the order columns in the same form |
//! | 8 | the row's position, big-endian |
//! | the rest | the row in its codec's form |
//! | 4 | `order_bytes`, little-endian |
//!
//! No encoded order is a prefix of another, so the position orders rows that are equal in all group
//! and order columns, and the bytes after it do not matter. [`Placed::of`] splits such a row.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{FieldRef, Schema, SchemaRef, SortOptions};
use outcore::sort::lines::rows::{LongRow, RowBatch};
use outcore_io::{Error, Result};

use super::{WINDOW, Window, WindowColumn, WindowFunction};
use crate::equal::with_one_zero;
use crate::fault;
use crate::input::TableInput;
use crate::jobs::room::{RowCosts, arrays_times, as_key};
use crate::jobs::rows_in::EncodeRows;
use crate::notation::notation;
use crate::rows::{KeyColumn, RowCodec};
use crate::schema::{FieldPlace, check_names};

/// Bytes of a length.
const LEN_BYTES: usize = size_of::<u32>();
/// Bytes of a position.
const POSITION_BYTES: usize = size_of::<u64>();

/// See the module.
#[derive(Debug)]
pub(in crate::jobs) struct Plan {
    by: Keys,
    order: Keys,
    /// The codec of whole rows.
    pub(in crate::jobs) codec: RowCodec,
    pub(super) columns: Vec<WindowColumn>,
    /// For each computed column, the place of the column that it is computed from.
    pub(super) places: Vec<Option<FieldPlace>>,
    pub(super) first: Option<u64>,
    /// The columns of the table, followed by the computed ones.
    pub(super) schema: SchemaRef,
}

/// Columns that are converted to a comparable form.
#[derive(Debug)]
struct Keys {
    columns: Vec<KeyColumn>,
    places: Vec<FieldPlace>,
    /// `None` if there are no columns.
    converter: Option<RowConverter>,
}

impl Keys {
    fn of(schema: &Schema, columns: &[KeyColumn]) -> Result<Self> {
        let (mut places, mut fields) = (Vec::new(), Vec::new());
        for key in columns {
            let place = FieldPlace::of(schema, &key.name, WINDOW)?;
            let data_type = place.field(schema, &key.name).data_type().clone();
            let options = SortOptions {
                descending: key.is_descending,
                nulls_first: key.is_nulls_first,
            };
            let field = SortField::new_with_options(data_type.clone(), options);
            if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
                let cause = format!(
                    "column `{}` is of type {}, which has no order",
                    key.name,
                    notation(&data_type)
                );
                return Err(Error::usage(WINDOW, cause).hint("choose another column"));
            }
            places.push(place);
            fields.push(field);
        }
        let converter = (!fields.is_empty()).then(|| RowConverter::new(fields));
        Ok(Keys {
            columns: columns.to_vec(),
            places,
            converter: converter
                .transpose()
                .map_err(|error| fault::arrow(WINDOW, &error))?,
        })
    }

    fn rows(&self, columns: &[ArrayRef]) -> Result<Option<Rows>> {
        let Some(converter) = &self.converter else {
            return Ok(None);
        };
        let columns: Vec<ArrayRef> = columns.iter().map(with_one_zero).collect();
        let rows = converter.convert_columns(&columns);
        rows.map(Some).map_err(|error| fault::arrow(WINDOW, &error))
    }

    fn rows_of(&self, batch: &RecordBatch) -> Result<Option<Rows>> {
        let columns = self.places.iter();
        let columns = columns.map(|place| place.values(batch.column(place.root)));
        self.rows(&columns.collect::<Result<Vec<_>>>()?)
    }
}

/// The bytes of a row; empty if there are no columns.
fn bytes_of(rows: Option<&Rows>, row: usize) -> &[u8] {
    rows.map_or(&[][..], |rows| rows.row(row).data())
}

impl Plan {
    /// Plans for a table of `schema`.
    ///
    /// # Errors
    /// Usage: nothing to compute, a missing column, a function that a type lacks, a repeated column
    /// name.
    pub(super) fn of(schema: &SchemaRef, wanted: &Window) -> Result<Self> {
        if wanted.columns.is_empty() && wanted.first.is_none() {
            return Err(Error::usage(WINDOW, "no column to compute is given")
                .hint("name a function, for example row_number or previous=lag(amount)"));
        }
        let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        let mut places = Vec::new();
        for column in &wanted.columns {
            let (field, place) = column.field(schema)?;
            fields.push(Arc::new(field));
            places.push(place);
        }
        let added = Schema::new_with_metadata(fields, schema.metadata().clone());
        check_names(&added).map_err(|error| {
            error.hint("give the column that is computed a name of its own: NAME=rank")
        })?;
        Ok(Plan {
            by: Keys::of(schema, &wanted.by)?,
            order: Keys::of(schema, &wanted.order)?,
            codec: RowCodec::new(schema, &[])?,
            columns: wanted.columns.clone(),
            places,
            first: wanted.first,
            schema: Arc::new(added),
        })
    }

    /// The order of the output.
    pub(super) fn sorted_by(&self) -> Vec<KeyColumn> {
        [&self.by.columns[..], &self.order.columns].concat()
    }

    /// How many rows before and after a row the window functions refer to.
    pub(super) fn reach(&self) -> (usize, usize) {
        let functions = self.columns.iter().map(|column| &column.function);
        functions.fold((0, 0), |(before, behind), function| match function {
            WindowFunction::Lag(_, rows) => (before.max(*rows), behind),
            WindowFunction::Lead(_, rows) => (before, behind.max(*rows)),
            _ => (before, behind),
        })
    }

    /// The most rows of `input` that are referred to in one direction.
    pub(super) fn reach_of(&self, input: &TableInput) -> u64 {
        let (before, behind) = self.reach();
        (before.saturating_add(behind) as u64).min(input.rows_count())
    }

    /// The memory for all copies of the longest row of `input`, if `reach` such rows are referred
    /// to.
    pub(super) fn costs(&self, input: &TableInput, reach: u64) -> RowCosts {
        let long_bytes = input.need().long_bytes;
        if long_bytes == 0 {
            return RowCosts::default();
        }
        let key_of = |keys: &Keys| {
            let names = keys.columns.iter().map(|key| key.name.clone());
            as_key(input.long_bytes_of(&names.collect::<Vec<_>>()))
        };
        let (key_bytes, order_bytes) = (key_of(&self.by), key_of(&self.order));
        let keys_bytes = key_bytes.saturating_add(order_bytes);
        let row_bytes = long_bytes.saturating_add(keys_bytes).saturating_add(64);
        let rows = |count: u64| long_bytes.saturating_mul(count);
        // The same number of new rows is held before all rows are decoded.
        let kept = u64::from(self.wants_first()) + u64::from(self.wants_extreme());
        let held = rows(1 + 2 * reach).saturating_add(rows(2 * kept));
        let computed_bytes = self.computed_bytes(input);
        let ready_bytes = computed_bytes.saturating_mul(1 + reach);
        let arrays_bytes = held.saturating_mul(arrays_times(&self.schema));
        RowCosts {
            made_bytes: rows(1).saturating_add(row_bytes).saturating_add(keys_bytes),
            taken_bytes: keys_bytes
                .saturating_add(held)
                .saturating_add(arrays_bytes)
                .saturating_add(ready_bytes),
            written_bytes: long_bytes.saturating_add(computed_bytes),
            longest: Some(LongRow {
                row_bytes,
                key_bytes,
            }),
            is_grouped: true,
            ..RowCosts::default()
        }
    }

    /// The total length of the longest values that are computed for a row.
    fn computed_bytes(&self, input: &TableInput) -> u64 {
        let columns = self.columns.iter().filter_map(WindowColumn::copied);
        let long = columns.map(|name| input.long_bytes_of(std::slice::from_ref(name)));
        long.sum()
    }

    /// Columns of the output with long values.
    pub(super) fn long_names(&self, input: &TableInput) -> Vec<String> {
        let mut long = input.long_names();
        let computed = self.columns.iter().filter(|column| {
            let copied = column.copied();
            copied.is_some_and(|name| input.long_bytes_of(std::slice::from_ref(name)) > 0)
        });
        let computed: Vec<String> = computed.map(|column| column.name.clone()).collect();
        long.extend(computed);
        long
    }

    /// Whether a column needs a value of a group's first row.
    pub(super) fn wants_first(&self) -> bool {
        let mut functions = self.columns.iter().map(|column| &column.function);
        functions.any(|function| matches!(function, WindowFunction::First(_)))
    }

    /// Whether a column needs the least or the greatest value up to a row.
    pub(super) fn wants_extreme(&self) -> bool {
        use WindowFunction::{CumulativeMax, CumulativeMin};
        let mut functions = self.columns.iter().map(|column| &column.function);
        functions.any(|function| matches!(function, CumulativeMin(_) | CumulativeMax(_)))
    }
}

impl EncodeRows for Plan {
    fn encode(&self, batch: &RecordBatch, position: u64, rows: &mut RowBatch) -> Result<()> {
        let (groups, orders) = (self.by.rows_of(batch)?, self.order.rows_of(batch)?);
        let (groups, orders) = (groups.as_ref(), orders.as_ref());
        let mut whole = RowBatch::default();
        self.codec.encode(batch, &mut whole)?;
        let lens = whole.iter().enumerate().map(|(row, bytes)| {
            let keys_bytes = bytes_of(groups, row).len() + bytes_of(orders, row).len();
            2 * LEN_BYTES + POSITION_BYTES + keys_bytes + bytes.len()
        });
        let lens_bytes: Vec<usize> = lens.collect();
        let mut starts = Vec::new();
        let out = rows.push_zeros(&lens_bytes, &mut starts)?;
        for (row, bytes) in whole.iter().enumerate() {
            let (group, order) = (bytes_of(groups, row), bytes_of(orders, row));
            let mut rest = &mut out[starts[row]..starts[row] + lens_bytes[row]];
            let mut put = |bytes: &[u8]| {
                let (front, behind) = std::mem::take(&mut rest).split_at_mut(bytes.len());
                front.copy_from_slice(bytes);
                rest = behind;
            };
            put(&(group.len() as u32).to_le_bytes());
            put(group);
            put(order);
            put(&(position + row as u64).to_be_bytes());
            put(bytes);
            put(&(order.len() as u32).to_le_bytes());
        }
        Ok(())
    }

    fn group_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for key in &self.by.columns {
            if !names.contains(&key.name) {
                names.push(key.name.clone());
            }
        }
        names
    }

    fn encode_groups(&self, batch: &RecordBatch, rows: &mut RowBatch) -> Result<()> {
        let columns = self.by.columns.iter().map(|key| {
            let place = FieldPlace::of(&batch.schema(), &key.name, WINDOW)?;
            place.values(batch.column(place.root))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let groups = self.by.rows(&columns)?;
        let mut bytes = Vec::new();
        for row in 0..batch.num_rows() {
            let group = bytes_of(groups.as_ref(), row);
            bytes.clear();
            bytes.extend_from_slice(&(group.len() as u32).to_le_bytes());
            bytes.extend_from_slice(group);
            rows.push(&bytes)?;
        }
        Ok(())
    }
}

/// The parts of a row.
pub(super) struct Placed<'r> {
    pub(super) group: &'r [u8],
    pub(super) order: &'r [u8],
    /// In the codec's form.
    pub(super) row: &'r [u8],
}

impl<'r> Placed<'r> {
    /// Splits a row that [`Plan::encode`] made.
    ///
    /// # Errors
    /// Corrupt: it is too short.
    pub(super) fn of(row: &'r [u8]) -> Result<Self> {
        let apart = || {
            let (group_bytes, rest) = row.split_first_chunk::<LEN_BYTES>()?;
            let (rest, order_bytes) = rest.split_last_chunk::<LEN_BYTES>()?;
            let (group, rest) = rest.split_at_checked(u32::from_le_bytes(*group_bytes) as usize)?;
            let (order, rest) = rest.split_at_checked(u32::from_le_bytes(*order_bytes) as usize)?;
            let (_, row) = rest.split_at_checked(POSITION_BYTES)?;
            Some(Placed { group, order, row })
        };
        apart().ok_or_else(|| {
            Error::corrupt(WINDOW, "a row is cut short")
                .hint("a bug, or scratch was changed: run again")
        })
    }
}
