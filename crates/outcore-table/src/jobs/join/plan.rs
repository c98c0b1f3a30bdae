//! The plan of a join: key columns, the columns carried from each side, the output columns, and the
//! rows that the engine sorts.
//!
//! Contract: every fault of a request is reported here, before a row is read. [`Plan::encode`]
//! converts each row of a table to bytes: a payload as [`RowCodec`] encodes it, and a key:
//!
//! | bytes | what |
//! |---|---|
//! | any | the key columns in arrow-row's form: [`JoinRow::key`] |
//! | the same in all rows | the column of an as-of join, in the same form |
//! | 1 | the side, 0 for right and 1 for left; plus 2 if a key column is null |
//! | 8 | the row's position, big-endian |
//!
//! [`JoinKey`] orders rows only by the first part, so rows of a key stay together. The engine
//! orders rows of a key by all bytes: the right rows come first, in their order. No I/O; memory for
//! names and types.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, SortOptions};
use arrow_select::take::take_record_batch;
use arrow_select::zip::zip;
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::sort::lines::rows::{LongRow, RowBatch};
use outcore_io::{Error, Result};

use super::types::{Tolerance, cast, common_type, comparable};
use super::{ColumnPair, JOIN, Join, JoinKind};
use crate::fault;
use crate::input::TableInput;
use crate::jobs::room::{RowCosts, arrays_times, as_key};
use crate::rows::{KeyColumn, RowCodec, key_of};
use crate::schema::{FieldPlace, check_names, column_index};

/// Bytes of the side and the position.
const PLACE_BYTES: usize = 9;
/// Flag in the side byte of a key with a null.
const NULL_BIT: u8 = 2;

/// One of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Left = 0,
    Right = 1,
}

/// See the module.
pub(super) struct Plan {
    /// The left side, then the right one.
    pub(super) sides: [Side; 2],
    pub(super) kind: JoinKind,
    /// Whether each right row is the partner of at most one left row, and nulls are equal.
    pub(super) is_of_multisets: bool,
    /// Types in which the key columns are compared; the column of an as-of join comes last.
    types: Vec<DataType>,
    /// Converts the key columns.
    keys: Option<RowConverter>,
    /// The as-of condition, if any.
    pub(super) asof: Option<AsOfPlan>,
    /// Bytes of a row's key after the key columns.
    pub(super) tail_bytes: usize,
    pub(super) outputs: Vec<OutputColumn>,
    pub(super) schema: SchemaRef,
    /// The order of the output, as far as file metadata can express it.
    pub(super) sorted_by: Vec<KeyColumn>,
}

/// The condition of an as-of join.
pub(super) struct AsOfPlan {
    converter: RowConverter,
    /// The largest distance of a partner, and the indexes of the compared columns among the carried
    /// ones.
    pub(super) tolerance: Option<(Tolerance, [usize; 2])>,
}

/// The plan for one table.
pub(super) struct Side {
    /// Columns that are read.
    pub(super) reads: Vec<String>,
    /// Indexes of the key columns among them; the column of an as-of join comes last.
    key_places: Vec<usize>,
    /// Columns that the sort carries along.
    carried: Vec<usize>,
    /// Encodes these columns, all of which are nullable.
    pub(super) codec: RowCodec,
    /// A row of nulls.
    nothing: RowBatch,
    /// Whether rows without a partner are written.
    pub(super) is_kept: bool,
}

/// The origin of an output column, by its index among the carried columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OutputColumn {
    Left(usize),
    Right(usize),
    /// From the left row or, without one, from the right row.
    Either(usize, usize),
}

impl Plan {
    /// Plans for the left table and the right one.
    ///
    /// # Errors
    /// As [`super::join`].
    pub(super) fn of([left, right]: [&SchemaRef; 2], wanted: &Join) -> Result<Self> {
        check(wanted)?;
        let kind = wanted.kind;
        let mut builders = [Builder::of(left), Builder::of(right)];
        let mut types = Vec::new();
        let asof = wanted.asof.as_ref();
        for pair in wanted.on.iter().chain(asof.map(|asof| &asof.columns)) {
            let found = [builders[0].key(&pair.left)?, builders[1].key(&pair.right)?];
            types.push(common_type(pair, &found[0], &found[1])?);
        }
        let named = named_outputs(wanted, left, right, &types)?;
        let mut outputs = Vec::with_capacity(named.len());
        let mut fields: Vec<FieldRef> = Vec::with_capacity(named.len());
        for (field, source) in named {
            fields.push(field);
            outputs.push(match source {
                Source::Left(name) => OutputColumn::Left(builders[0].carry(&name)?),
                Source::Right(name) => OutputColumn::Right(builders[1].carry(&name)?),
                Source::Either(left, right) => {
                    OutputColumn::Either(builders[0].carry(&left)?, builders[1].carry(&right)?)
                }
            });
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, left.metadata().clone()));
        check_names(&schema)
            .map_err(|error| error.hint("choose another --suffix, or columns with --columns"))?;
        let mut sort_fields = types.iter().map(|data_type| {
            let options = SortOptions {
                descending: false,
                nulls_first: false,
            };
            SortField::new_with_options(data_type.clone(), options)
        });
        let key_fields: Vec<SortField> = sort_fields.by_ref().take(wanted.on.len()).collect();
        let keys = match key_fields.is_empty() {
            true => None,
            false => Some(converter(key_fields, wanted)?),
        };
        let (mut tail_bytes, mut asof_plan) = (PLACE_BYTES, None);
        if let (Some(field), Some(asof)) = (sort_fields.next(), asof) {
            let data_type = types.last().ok_or_else(columns_missing)?;
            let Some(width_bytes) = data_type.primitive_width() else {
                let cause = format!("column `{}` is not a number or a time", asof.columns.left);
                return Err(Error::usage(JOIN, cause).hint("give --asof a column of times"));
            };
            // Arrow-row puts a null byte before a number.
            tail_bytes += width_bytes + 1;
            let tolerance = match &asof.tolerance {
                None => None,
                Some(text) => {
                    let place = |side: usize| builders[side].key_places.last().copied();
                    let (left, right) = (place(0).zip(place(1))).ok_or_else(columns_missing)?;
                    let carried = [builders[0].carry_read(left), builders[1].carry_read(right)];
                    Some((Tolerance::parse(text, data_type)?, carried))
                }
            };
            asof_plan = Some(AsOfPlan {
                converter: converter(vec![field], wanted)?,
                tolerance,
            });
        }
        let sorted_by = sorted_by(wanted, left, right, &schema);
        let [left, right] = builders;
        Ok(Plan {
            sides: [
                left.finish(kind.keeps_left())?,
                right.finish(kind.keeps_right())?,
            ],
            kind,
            is_of_multisets: wanted.is_of_multisets,
            types,
            keys,
            asof: asof_plan,
            tail_bytes,
            outputs,
            schema,
            sorted_by,
        })
    }

    /// For each row, whether it never matches because one of its key columns is null.
    fn null_rows(&self, keys: &[ArrayRef], rows_count: usize) -> Vec<bool> {
        match self.is_of_multisets {
            true => vec![false; rows_count],
            false => null_rows(keys, rows_count),
        }
    }

    /// Whether a left row is paired with every right row of its key.
    pub(super) fn holds_all(&self) -> bool {
        self.kind.writes_right() && self.asof.is_none()
    }

    /// Marks the pairs of an as-of join that are too far apart.
    ///
    /// # Errors
    /// As [`Plan::encode`].
    pub(super) fn too_far(
        &self,
        tolerance: Tolerance,
        left: &ArrayRef,
        right: &ArrayRef,
    ) -> Result<BooleanArray> {
        let data_type = self.types.last().ok_or_else(columns_missing)?;
        tolerance.exceeded(&cast(left, data_type)?, &cast(right, data_type)?)
    }

    /// Appends encoded rows of a table; the first row is at `position`. Leaves out rows that cannot
    /// have a partner, unless the join also writes rows without a partner.
    ///
    /// # Errors
    /// As [`RowCodec::encode`]. Usage: a value that does not fit the type of the comparison.
    pub(super) fn encode(
        &self,
        which: Which,
        batch: &RecordBatch,
        position: u64,
        rows: &mut RowBatch,
    ) -> Result<()> {
        let side = &self.sides[which as usize];
        let keys = side.columns_of_key(batch, &self.types)?;
        let is_null = self.null_rows(&keys, batch.num_rows());
        let all: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let chosen: Vec<u32> = match side.is_kept || !is_null.contains(&true) {
            true => all,
            false => all
                .into_iter()
                .filter(|&row| !is_null[row as usize])
                .collect(),
        };
        let (bytes, ends) = self.keys_of(which, &keys, &is_null, position, &chosen)?;
        let carried = batch.project(&side.carried);
        let mut carried = carried.map_err(|error| fault::arrow(JOIN, &error))?;
        if chosen.len() < batch.num_rows() {
            let taken = UInt32Array::from(chosen);
            let taken = take_record_batch(&carried, &taken);
            carried = taken.map_err(|error| fault::arrow(JOIN, &error))?;
        }
        side.codec.encode_by(&carried, rows, |row| {
            let from = if row == 0 { 0 } else { ends[row - 1] };
            &bytes[from..ends[row]]
        })
    }

    /// Returns the keys of the chosen rows, back to back, with the end of each.
    fn keys_of(
        &self,
        which: Which,
        columns: &[ArrayRef],
        is_null: &[bool],
        position: u64,
        chosen: &[u32],
    ) -> Result<(Vec<u8>, Vec<usize>)> {
        let convert = |converter: &RowConverter, columns: &[ArrayRef]| -> Result<Rows> {
            let rows = converter.convert_columns(columns);
            rows.map_err(|error| fault::arrow(JOIN, &error))
        };
        let (on, asof) = columns.split_at(columns.len() - usize::from(self.asof.is_some()));
        let on = self
            .keys
            .as_ref()
            .map(|keys| convert(keys, on))
            .transpose()?;
        let asof_plan = self.asof.as_ref();
        let asof = asof_plan
            .map(|plan| convert(&plan.converter, asof))
            .transpose()?;
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(chosen.len());
        let side = u8::from(which == Which::Left);
        for &row in chosen {
            let row = row as usize;
            if let Some(on) = &on {
                bytes.extend_from_slice(on.row(row).data());
            }
            if let Some(asof) = &asof {
                bytes.extend_from_slice(asof.row(row).data());
            }
            bytes.push(side + NULL_BIT * u8::from(is_null[row]));
            bytes.extend_from_slice(&(position + row as u64).to_be_bytes());
            ends.push(bytes.len());
        }
        Ok((bytes, ends))
    }

    /// Returns the keys of rows of the left table, and their carried columns.
    ///
    /// # Errors
    /// As [`Plan::encode`].
    pub(super) fn left_rows(&self, batch: &RecordBatch) -> Result<(LeftKeys, RecordBatch)> {
        let side = &self.sides[Which::Left as usize];
        let keys = side.columns_of_key(batch, &self.types)?;
        let is_null = self.null_rows(&keys, batch.num_rows());
        let all: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let (bytes, ends) = self.keys_of(Which::Left, &keys, &is_null, 0, &all)?;
        let carried = batch.project(&side.carried);
        let carried = carried.map_err(|error| fault::arrow(JOIN, &error))?;
        let tail_bytes = self.tail_bytes;
        let keys = LeftKeys {
            bytes,
            ends,
            is_null,
            tail_bytes,
        };
        Ok((keys, carried))
    }

    /// Builds the output columns from the rows of both tables; `is_left` marks rows that have a
    /// left row.
    ///
    /// # Errors
    /// Usage: a value that does not fit the type of its column.
    pub(super) fn put_together(
        &self,
        left: &RecordBatch,
        right: &RecordBatch,
        is_left: impl Fn() -> BooleanArray,
    ) -> Result<RecordBatch> {
        let arrow = |error| fault::arrow(JOIN, &error);
        let columns = self.outputs.iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| match column {
            OutputColumn::Left(place) => Ok(ArrayRef::clone(left.column(*place))),
            OutputColumn::Right(place) => Ok(ArrayRef::clone(right.column(*place))),
            OutputColumn::Either(one, other) => {
                let one = cast(left.column(*one), field.data_type())?;
                let other = cast(right.column(*other), field.data_type())?;
                zip(&is_left(), &one, &other).map_err(arrow)
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(arrow)
    }

    /// Appends rows with only the key columns, for a sample.
    ///
    /// # Errors
    /// As [`Plan::encode`].
    pub(super) fn encode_keys(
        &self,
        which: Which,
        batch: &RecordBatch,
        rows: &mut RowBatch,
    ) -> Result<()> {
        let side = &self.sides[which as usize];
        let columns = side.key_places.iter().zip(&self.types);
        let keys = columns.map(|(&place, data_type)| {
            let name = side.reads.get(place).ok_or_else(columns_missing)?;
            let column = batch.column_by_name(name).ok_or_else(columns_missing)?;
            comparable(name, column, data_type)
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let all: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let is_null = self.null_rows(&keys, batch.num_rows());
        let (bytes, ends) = self.keys_of(which, &keys, &is_null, 0, &all)?;
        let mut from = 0;
        let mut row = Vec::new();
        for end in ends {
            row.clear();
            row.extend_from_slice(&((end - from) as u32).to_le_bytes());
            row.extend_from_slice(&bytes[from..end]);
            rows.push(&row)?;
            from = end;
        }
        Ok(())
    }

    /// Splits a row that [`Plan::encode`] made.
    pub(super) fn read<'r>(&self, row: &'r [u8]) -> Result<JoinRow<'r>> {
        let all = key_of(row).ok_or_else(cut_short)?;
        let key_bytes = all.len().checked_sub(self.tail_bytes);
        let key = key_bytes.and_then(|key_bytes| all.get(..key_bytes));
        let side = all
            .len()
            .checked_sub(PLACE_BYTES)
            .and_then(|at| all.get(at));
        let (key, side) = key.zip(side).ok_or_else(cut_short)?;
        Ok(JoinRow {
            key,
            is_left: side & 1 == 1,
            is_null: side & NULL_BIT != 0,
            row,
        })
    }

    /// Returns the memory for all copies of the longest rows of both tables, if the columns of the
    /// plan are read.
    pub(super) fn costs(&self, inputs: &[TableInput; 2]) -> RowCosts {
        let long_of = |which: Which| inputs[which as usize].need().long_bytes;
        let (left, right) = (long_of(Which::Left), long_of(Which::Right));
        if left.max(right) == 0 {
            return RowCosts::default();
        }
        let key_of =
            |which: Which| as_key(inputs[which as usize].long_bytes_of(&self.key_names(which)));
        let key_bytes = key_of(Which::Left).max(key_of(Which::Right));
        let left_row = left.saturating_add(key_of(Which::Left));
        let right_row = right.saturating_add(key_of(Which::Right));
        // Includes short values, and the framing of the row.
        let row_bytes = as_key(left_row.max(right_row));
        let times = arrays_times(&self.schema);
        // A pair of rows, and the arrays decoded from it. If the output merges the key columns of
        // both sides, copies of them are compared and combined.
        let pair_bytes = left_row.saturating_add(right_row);
        let arrays_bytes = left.saturating_add(right).saturating_mul(times);
        let keys = |count: u64| key_bytes.saturating_mul(count);
        // The right rows of a key are held, and one of them may be on scratch.
        let held_bytes = right_row.saturating_mul(2).saturating_add(keys(1));
        let either_bytes = if self.kind.keeps_right() { keys(3) } else { 0 };
        let pairing_bytes = pair_bytes.saturating_add(arrays_bytes);
        RowCosts {
            made_bytes: row_bytes.saturating_add(keys(3)),
            taken_bytes: held_bytes
                .saturating_add(pairing_bytes)
                .saturating_add(either_bytes),
            written_bytes: left.saturating_add(right),
            longest: Some(LongRow {
                row_bytes,
                key_bytes,
            }),
            is_grouped: true,
            ..RowCosts::default()
        }
    }

    /// Columns of the output with long values.
    pub(super) fn long_names(&self, inputs: &[TableInput; 2]) -> Vec<String> {
        let long = inputs.each_ref().map(TableInput::long_names);
        let is_long = |which: Which, place: usize| {
            let side = &self.sides[which as usize];
            let read = side
                .carried
                .get(place)
                .and_then(|&read| side.reads.get(read));
            read.is_some_and(|name| long[which as usize].contains(name))
        };
        let columns = self.outputs.iter().zip(self.schema.fields());
        let columns = columns.filter(|(column, _)| match column {
            OutputColumn::Left(place) => is_long(Which::Left, *place),
            OutputColumn::Right(place) => is_long(Which::Right, *place),
            OutputColumn::Either(one, other) => {
                is_long(Which::Left, *one) || is_long(Which::Right, *other)
            }
        });
        columns.map(|(_, field)| field.name().clone()).collect()
    }

    /// Names of a side's key columns.
    pub(super) fn key_names(&self, which: Which) -> Vec<String> {
        let side = &self.sides[which as usize];
        let mut names: Vec<String> = Vec::new();
        for name in side
            .key_places
            .iter()
            .filter_map(|&place| side.reads.get(place))
        {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// The keys of a batch of left rows.
pub(super) struct LeftKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    is_null: Vec<bool>,
    tail_bytes: usize,
}

impl LeftKeys {
    /// The key of a row, as [`JoinRow::key`]; `None` if it never matches.
    pub(super) fn key(&self, row: usize) -> Option<&[u8]> {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        let to = self.ends[row] - self.tail_bytes;
        (!self.is_null[row]).then(|| &self.bytes[from..to])
    }
}

/// A row that comes out of the sort.
pub(super) struct JoinRow<'r> {
    pub(super) key: &'r [u8],
    pub(super) is_left: bool,
    /// Whether the row never matches.
    pub(super) is_null: bool,
    /// The whole row, for [`RowCodec::decode`].
    pub(super) row: &'r [u8],
}

/// Orders rows by their key columns.
pub(super) struct JoinKey {
    pub(super) tail_bytes: usize,
}

impl SortKey for JoinKey {
    fn append_key(&self, row: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        let found = key_of(row).ok_or_else(|| NoKey("it is cut short".to_owned()))?;
        let key_bytes = found.len().saturating_sub(self.tail_bytes);
        key.extend_from_slice(&found[..key_bytes]);
        Ok(())
    }

    fn tie(&self) -> Tie {
        Tie::Bytes
    }
}

impl Side {
    fn columns_of_key(&self, batch: &RecordBatch, types: &[DataType]) -> Result<Vec<ArrayRef>> {
        let columns = self.key_places.iter().zip(types);
        let columns = columns.map(|(&place, data_type)| {
            let name = self.reads.get(place).ok_or_else(columns_missing)?;
            comparable(name, batch.column(place), data_type)
        });
        columns.collect()
    }

    /// A row of nulls.
    pub(super) fn nothing(&self) -> &[u8] {
        self.nothing.iter().next().unwrap_or_default()
    }
}

/// Collects the columns of one table that are needed.
struct Builder<'s> {
    schema: &'s SchemaRef,
    /// Columns and fields of objects that are read.
    reads: Vec<FieldRef>,
    key_places: Vec<usize>,
    carried: Vec<usize>,
}

impl<'s> Builder<'s> {
    fn of(schema: &'s SchemaRef) -> Self {
        Builder {
            schema,
            reads: Vec::new(),
            key_places: Vec::new(),
            carried: Vec::new(),
        }
    }

    /// Returns the index of a column among those that are read.
    fn read(&mut self, name: &str) -> Result<usize> {
        let field = FieldPlace::of(self.schema, name, JOIN)?.field(self.schema, name);
        Ok(place_in(&mut self.reads, field))
    }

    /// Adds a key column, and returns its type.
    fn key(&mut self, name: &str) -> Result<DataType> {
        let read = self.read(name)?;
        self.key_places.push(read);
        Ok(self.reads[read].data_type().clone())
    }

    /// Returns the index of a column among the carried ones.
    fn carry(&mut self, name: &str) -> Result<usize> {
        let read = self.read(name)?;
        Ok(self.carry_read(read))
    }

    fn carry_read(&mut self, read: usize) -> usize {
        place_in(&mut self.carried, read)
    }

    fn finish(self, is_kept: bool) -> Result<Side> {
        let carried = self.carried.iter();
        let carried = carried.map(|&read| Field::clone(&self.reads[read]).with_nullable(true));
        let schema = Arc::new(Schema::new(carried.collect::<Vec<_>>()));
        let codec = RowCodec::new(&schema, &[])?;
        let nulls = schema.fields().iter();
        let nulls = nulls
            .map(|field| new_null_array(field.data_type(), 1))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let nulls = RecordBatch::try_new_with_options(schema, nulls, &options);
        let nulls = nulls.map_err(|error| fault::arrow(JOIN, &error))?;
        let mut nothing = RowBatch::default();
        codec.encode(&nulls, &mut nothing)?;
        Ok(Side {
            reads: self.reads.iter().map(|read| read.name().clone()).collect(),
            key_places: self.key_places,
            carried: self.carried,
            codec,
            nothing,
            is_kept,
        })
    }
}

/// Returns the index of `value` in `all`; adds it if it is missing.
fn place_in<T: PartialEq>(all: &mut Vec<T>, value: T) -> usize {
    all.iter()
        .position(|known| *known == value)
        .unwrap_or_else(|| {
            all.push(value);
            all.len() - 1
        })
}

/// The origin of an output column, by its name in the table.
enum Source {
    Left(String),
    Right(String),
    Either(String, String),
}

/// Returns the selected columns of the output.
fn named_outputs(
    wanted: &Join,
    left: &SchemaRef,
    right: &SchemaRef,
    types: &[DataType],
) -> Result<Vec<(FieldRef, Source)>> {
    let kind = wanted.kind;
    // The column takes the values of its partner on the left. A field of objects does not, because
    // a right row without a partner has no object.
    let is_key = |field: &FieldRef| {
        let is_same = |pair: &ColumnPair| {
            pair.right == *field.name() && left.column_with_name(&pair.left).is_some()
        };
        wanted.on.iter().any(is_same)
    };
    let mut all: Vec<(FieldRef, Source)> = Vec::new();
    for field in left.fields() {
        let of = wanted.on.iter().zip(types);
        let mut of = of.filter(|(pair, _)| pair.left == *field.name());
        let (field, source) = match of.next() {
            Some((pair, common)) if kind.keeps_right() => {
                let other = FieldPlace::of(right, &pair.right, JOIN)?;
                let other_field = other.field(right, &pair.right);
                let data_type = match field.data_type() == other_field.data_type() {
                    true => field.data_type(),
                    false => common,
                };
                let is_nullable = field.is_nullable() || other_field.is_nullable();
                let field = Field::clone(field)
                    .with_data_type(data_type.clone())
                    .with_nullable(is_nullable);
                let source = Source::Either(pair.left.clone(), pair.right.clone());
                (field, source)
            }
            _ => {
                let is_nullable = field.is_nullable() || kind.keeps_right();
                let field = Field::clone(field).with_nullable(is_nullable);
                let source = Source::Left(field.name().clone());
                (field, source)
            }
        };
        all.push((Arc::new(field), source));
    }
    if kind.writes_right() {
        for field in right.fields() {
            if is_key(field) {
                continue;
            }
            let name = match left.column_with_name(field.name()) {
                Some(_) => format!("{}{}", field.name(), wanted.suffix),
                None => field.name().clone(),
            };
            let is_nullable = field.is_nullable() || kind.keeps_left();
            let source = Source::Right(field.name().clone());
            let field = Field::clone(field)
                .with_name(name)
                .with_nullable(is_nullable);
            all.push((Arc::new(field), source));
        }
    }
    let Some(columns) = &wanted.columns else {
        return Ok(all);
    };
    let fields: Vec<FieldRef> = all.iter().map(|(field, _)| Arc::clone(field)).collect();
    let schema = Schema::new(fields);
    check_names(&schema).map_err(|error| error.hint("choose another --suffix"))?;
    let mut all: Vec<Option<(FieldRef, Source)>> = all.into_iter().map(Some).collect();
    let chosen = columns.iter().map(|name| {
        let place = column_index(&schema, name, JOIN)?;
        let twice = || Error::usage(JOIN, format!("column `{name}` is given twice"));
        all[place].take().ok_or_else(twice)
    });
    chosen.collect()
}

/// Returns the key columns if the output has them in the compared type.
fn sorted_by(
    wanted: &Join,
    left: &SchemaRef,
    right: &SchemaRef,
    schema: &SchemaRef,
) -> Vec<KeyColumn> {
    let is_plain = |pair: &&ColumnPair| {
        let of = |schema: &SchemaRef, name: &str| {
            let field = schema.field_with_name(name).ok();
            field.map(|field| field.data_type().clone())
        };
        let (one, other) = (of(left, &pair.left), of(right, &pair.right));
        one == other
            && one.is_some_and(|data_type| !data_type.is_floating() && !data_type.is_nested())
            && schema.column_with_name(&pair.left).is_some()
    };
    let keys = wanted.on.iter().take_while(is_plain);
    keys.map(|pair| KeyColumn::new(&pair.left)).collect()
}

/// Rejects invalid combinations.
fn check(wanted: &Join) -> Result<()> {
    if wanted.on.is_empty() && wanted.asof.is_none() {
        return Err(Error::usage(JOIN, "no join column is given")
            .hint("name a column with --on, for example --on 'id' or --on 'id=user_id'"));
    }
    let is_asof_kind = matches!(wanted.kind, JoinKind::Inner | JoinKind::Left);
    if wanted.asof.is_some() && !is_asof_kind {
        return Err(Error::usage(JOIN, "an as-of join is inner or left")
            .hint("leave --how out, or exchange the tables"));
    }
    Ok(())
}

fn converter(fields: Vec<SortField>, wanted: &Join) -> Result<RowConverter> {
    if !RowConverter::supports_fields(&fields) {
        let names: Vec<&str> = wanted.on.iter().map(|pair| pair.left.as_str()).collect();
        let cause = format!("values of `{}` cannot be compared", names.join("`, `"));
        return Err(Error::usage(JOIN, cause).hint("join by other columns"));
    }
    RowConverter::new(fields).map_err(|error| fault::arrow(JOIN, &error))
}

/// For each row, whether it has a null in a key column.
fn null_rows(keys: &[ArrayRef], rows_count: usize) -> Vec<bool> {
    let mut is_null = vec![false; rows_count];
    for nulls in keys.iter().filter_map(|key| key.logical_nulls()) {
        for (row, is_null) in is_null.iter_mut().enumerate() {
            *is_null |= nulls.is_null(row);
        }
    }
    is_null
}

fn columns_missing() -> Error {
    Error::usage(JOIN, "a batch lacks columns of the key").hint("a bug: please report it")
}

pub(super) fn cut_short() -> Error {
    Error::corrupt(JOIN, "a row is cut short").hint("a bug, or scratch was changed: run again")
}
