//! Converts record batches to rows of bytes with a key at their start, which the engine sorts, and
//! back.
//!
//! Contract: [`RowCodec::encode`] appends each row of a batch to a [`RowBatch`]:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `key_bytes`, little-endian: the length of the key |
//! | `key_bytes` | the key, which orders rows as its [`KeyColumn`]s, compared as unsigned bytes |
//! | the rest | the payload: all columns that cannot be decoded from the key |
//!
//! [`key_of`] finds the key in a row. [`RowCodec::decode`] converts rows, in any order, to a record
//! batch of the same schema with the same values. [`RowCodec::encode_by`] puts any other bytes in
//! the place of the key, for rows that are ordered by something other than their columns.
//!
//! **Order.** The key has arrow-row's form. Each column is ascending or descending, with nulls
//! first or last.
//!
//! - Strings and binary are ordered by their bytes.
//! - Floats are ordered as numbers; -0.0 equals 0.0, and all NaNs are equal and larger than all
//!   numbers. Inside nested types, floats have IEEE 754's total order.
//! - Decimals, dates, times and timestamps are ordered by their stored integers; a timestamp's zone
//!   does not matter within a column.
//! - Dictionaries are ordered by their values, lists element by element, structs field by field.
//!
//! No key is a prefix of another.
//!
//! **Payload.** It begins with one bit for each of its nullable columns, set for null. The columns
//! follow in the schema's order. Fixed-size values are as in Arrow. Strings and binary have a
//! length (one byte up to 254, otherwise five bytes) and their bytes. A list has its length and its
//! elements; nested types recurse, with null bits of their own. Nulls have no bytes. Dictionaries
//! are stored as their values, and rebuilt for each decoded batch. Key columns of plain values are
//! not in the payload: they are decoded bit-exactly from the key. Floats, nested columns,
//! dictionaries and fields of objects are in both.
//!
//! N.B. Using arrow-row for all columns would need no code of ours and is about as fast. But it
//! pads strings to blocks and spends a byte per value on nulls, so its rows are a third larger for
//! a web log (docs/decisions/0022).
//!
//! Bounds: encoding needs the keys once more (arrow-row's own buffer), dictionary columns as
//! values, and 8 bytes per row and list column. Decoding needs only the batch, and 8 bytes per row.
//! Work is column by column over a batch, so batches of a few thousand rows stay in the cache. A
//! row has at most 1 GiB. The strings of one column of a decoded batch have less than 2 GiB if
//! their type has 32-bit offsets.

mod node;
mod read;
mod sums;
mod write;

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Schema, SchemaRef, SortOptions};
use outcore::key::column::quoted;
use outcore::sort::lines::rows::RowBatch;
use outcore_io::{Error, Result, units};

use crate::equal::with_one_zero;
use crate::fault;
use crate::notation::{self, notation};
use crate::schema::FieldPlace;
use node::Node;
pub(crate) use read::dictionary_of;
pub(crate) use sums::RowSums;
use write::{Column, OneEach};

/// The length before a key.
const PREFIX_BYTES: usize = 4;
/// The hint for a key that repeats an option.
const ONE_OF_TWO: &str = "leave one of the two out";
/// The largest length that is written as one byte.
const SHORT_MAX: usize = 254;
/// Bytes of a larger length.
const LONG_BYTES: usize = 5;

/// A column of the key, or a field of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its name; for a field, the column's name, a point, and the field's name.
    pub name: String,
    /// Whether the largest value comes first.
    pub is_descending: bool,
    /// Whether nulls come before all values, in either direction.
    pub is_nulls_first: bool,
    /// Its type, if given. Text is parsed as this type; a column that already has a type must have
    /// this one.
    pub data_type: Option<DataType>,
}

impl fmt::Display for KeyColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(data_type) = &self.data_type {
            write!(f, ":{}", notation(data_type))?;
        }
        if self.is_descending {
            write!(f, ":desc")?;
        }
        match self.is_nulls_first {
            true => write!(f, ":nulls-first"),
            false => Ok(()),
        }
    }
}

impl KeyColumn {
    /// An ascending column, nulls last.
    pub fn new(name: impl Into<String>) -> Self {
        KeyColumn {
            name: name.into(),
            is_descending: false,
            is_nulls_first: false,
            data_type: None,
        }
    }

    /// Makes it descending; nulls stay where they are.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.is_descending = true;
        self
    }

    /// Reads a column: its name and, after colons in any order, a type, `desc` or `asc` (`r` also
    /// means `desc`), and `nulls-first` or `nulls-last`. A name that is empty, contains colons or
    /// ends like such an option is written in backquotes, as in
    /// [`column_name`](outcore::key::column::column_name).
    ///
    /// # Errors
    /// Usage: no name, nothing after a colon, a repeated option, or other text after a name in
    /// backquotes.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_in(text, false)
    }

    /// Like [`KeyColumn::parse`], but a column without options descends if `is_descending`.
    ///
    /// # Errors
    /// As [`KeyColumn::parse`].
    pub fn parse_in(text: &str, is_descending: bool) -> Result<Self> {
        let wrong = |cause: &str, hint: &str| {
            let cause = format!("the key `{text}` {cause}");
            Err(Error::usage("choose columns", cause).hint(hint.to_owned()))
        };
        let quoted = quoted(text);
        let (mut rest, mut key) = match &quoted {
            Some((_, rest)) => (*rest, KeyColumn::new("")),
            None => (text, KeyColumn::new("")),
        };
        let (mut is_descending_said, mut is_nulls_said) = (false, false);
        while let Some((front, last)) = rest.rsplit_once(':') {
            let said = match last {
                "desc" | "r" | "asc" => {
                    key.is_descending = last != "asc";
                    Some((&mut is_descending_said, "asc or desc"))
                }
                "nulls-first" | "nulls-last" => {
                    key.is_nulls_first = last == "nulls-first";
                    Some((&mut is_nulls_said, "nulls-first or nulls-last"))
                }
                other => match notation::type_of(other) {
                    Ok(data_type) if key.data_type.is_none() => {
                        key.data_type = Some(data_type);
                        None
                    }
                    Ok(_) => return wrong("has two types", ONE_OF_TWO),
                    Err(_) => break,
                },
            };
            if let Some((is_said, what)) = said
                && std::mem::replace(is_said, true)
            {
                return wrong(&format!("says {what} twice"), ONE_OF_TWO);
            }
            rest = front;
        }
        let is_plain = match &quoted {
            Some((_, orders)) => orders.is_empty(),
            None => !text.contains(':'),
        };
        key.is_descending |= is_descending && is_plain;
        key.name = match quoted {
            Some((name, _)) if rest.is_empty() => name,
            Some(_) => {
                let hint = "write a type, desc, asc, nulls-first or nulls-last after a colon";
                return wrong("has no order after the name of its column", hint);
            }
            None if rest.ends_with(':') => {
                let hint = "leave the colon out, or write a name with colons between backquotes";
                return wrong("has nothing after its colon", hint);
            }
            None => rest.to_owned(),
        };
        if key.name.is_empty() && !text.starts_with('`') {
            let hint =
                "give a column's name, for example time:desc, or `` for one whose name is empty";
            return wrong("names no column", hint);
        }
        Ok(key)
    }

    /// Puts nulls first.
    #[must_use]
    pub fn nulls_first(mut self) -> Self {
        self.is_nulls_first = true;
        self
    }
}

/// Returns the key of a row; `None` if [`RowCodec::encode`] did not write the bytes.
#[inline]
pub fn key_of(row: &[u8]) -> Option<&[u8]> {
    let (key_bytes, rest) = row.split_first_chunk::<PREFIX_BYTES>()?;
    rest.get(..u32::from_le_bytes(*key_bytes) as usize)
}

/// Bytes of a payload that is a position and a length.
const PLACE_BYTES: usize = 12;

/// Returns, for a row that [`RowCodec::encode_places`] made, its group's part of the key, and its
/// position.
pub(crate) fn place_of(row: &[u8]) -> Option<(&[u8], u64)> {
    let key = key_of(row)?;
    let place = row.get(PREFIX_BYTES + key.len()..)?;
    let (position, group_bytes) = place.split_first_chunk::<8>()?;
    let group_bytes = u32::from_le_bytes(group_bytes.try_into().ok()?);
    Some((
        key.get(..group_bytes as usize)?,
        u64::from_le_bytes(*position),
    ))
}

fn cut_short() -> Error {
    Error::corrupt("decode rows", "a row is cut short")
        .hint("a bug, or scratch was changed: run again")
}

/// Converts record batches of one schema to rows with a key, and back. See the module.
#[derive(Debug)]
pub struct RowCodec {
    schema: SchemaRef,
    order: Vec<KeyColumn>,
    /// The places of the key columns.
    keys: Vec<FieldPlace>,
    /// `None` for rows without a key.
    converter: Option<RowConverter>,
    layout: Layout,
}

/// Where a row stores each column.
#[derive(Debug)]
struct Layout {
    nodes: Vec<Node>,
    /// For each column, its index in the key if it is decoded from there.
    in_key: Vec<Option<usize>>,
    /// Nullable columns of the payload, by index of their bit.
    marked: Vec<usize>,
}

impl Layout {
    fn of(schema: &SchemaRef, keys: &[FieldPlace]) -> Result<Self> {
        let nodes = schema.fields().iter();
        let nodes: Vec<Node> = nodes
            .map(|field| Node::of(field, field.name()))
            .collect::<Result<_>>()?;
        let place = |index: usize| keys.iter().position(|key| key.column() == Some(index));
        let is_given_back = |index: usize, node: &Node| {
            node.is_plain() && !schema.field(index).data_type().is_floating()
        };
        let in_key =
            |(index, node): (usize, &Node)| place(index).filter(|_| is_given_back(index, node));
        let in_key: Vec<Option<usize>> = nodes.iter().enumerate().map(in_key).collect();
        let is_marked =
            |index: &usize| in_key[*index].is_none() && !nodes[*index].is_without_bits();
        let marked = (0..nodes.len()).filter(is_marked).collect();
        Ok(Layout {
            nodes,
            in_key,
            marked,
        })
    }
}

impl RowCodec {
    /// Creates a codec for batches of `schema`, ordered by `keys`, the most significant first.
    /// Without keys, rows are only moved.
    ///
    /// # Errors
    /// Usage: a missing column, a column that cannot be ordered, a type that cannot be moved.
    pub fn new(schema: &SchemaRef, keys: &[KeyColumn]) -> Result<Self> {
        let mut places = Vec::with_capacity(keys.len());
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            let place = FieldPlace::of(schema, &key.name, "order rows")?;
            let options = SortOptions {
                descending: key.is_descending,
                nulls_first: key.is_nulls_first,
            };
            let data_type = place.field(schema, &key.name).data_type().clone();
            if let Some(given) = key.data_type.as_ref().filter(|given| **given != data_type) {
                let cause = format!(
                    "column `{}` is of type {}, not {}",
                    key.name,
                    notation(&data_type),
                    notation(given)
                );
                return Err(Error::usage("order rows", cause)
                    .hint("leave the type out: it is for columns of CSV and JSON lines"));
            }
            let field = SortField::new_with_options(data_type.clone(), options);
            if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
                let cause = format!(
                    "column `{}` is of type {}, which has no order",
                    key.name,
                    notation(&data_type)
                );
                return Err(Error::usage("order rows", cause).hint("order by another column"));
            }
            places.push(place);
            fields.push(field);
        }
        let converter = if fields.is_empty() {
            None
        } else {
            let made = RowConverter::new(fields);
            Some(made.map_err(|error| fault::arrow("order rows", &error))?)
        };
        Ok(RowCodec {
            schema: Arc::clone(schema),
            layout: Layout::of(schema, &places)?,
            order: keys.to_vec(),
            keys: places,
            converter,
        })
    }

    /// The names of the key columns.
    pub(crate) fn key_names(&self) -> Vec<String> {
        self.order.iter().map(|key| key.name.clone()).collect()
    }

    /// Whether the payload also has a key column.
    pub(crate) fn repeats_keys(&self) -> bool {
        let is_given_back = |key: &FieldPlace| {
            let place = key.column();
            place.is_some_and(|place| self.layout.in_key[place].is_some())
        };
        !self.keys.iter().all(is_given_back)
    }

    /// Returns the key columns, each once, and a codec for only these columns that makes the same
    /// keys.
    ///
    /// # Errors
    /// As [`RowCodec::new`].
    pub(crate) fn keys_alone(&self) -> Result<(Vec<String>, RowCodec)> {
        let (mut names, mut fields) = (Vec::<String>::new(), Vec::new());
        for (key, place) in self.order.iter().zip(&self.keys) {
            if !names.contains(&key.name) {
                names.push(key.name.clone());
                fields.push(place.field(&self.schema, &key.name));
            }
        }
        let codec = RowCodec::new(&Arc::new(Schema::new(fields)), &self.order)?;
        Ok((names, codec))
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends the rows of `batch` to `rows`.
    ///
    /// # Errors
    /// Usage: a row that is too long. A batch of another schema is a bug.
    pub fn encode(&self, batch: &RecordBatch, rows: &mut RowBatch) -> Result<()> {
        let keys = self.keys_of(batch)?;
        self.lay_down(batch, rows, |row| {
            keys.as_ref().map_or(&[][..], |keys| keys.row(row).data())
        })
    }

    /// Like [`RowCodec::encode`], with the bytes that `key` returns in place of each key. The codec
    /// must have no key columns.
    ///
    /// # Errors
    /// As [`RowCodec::encode`].
    pub(crate) fn encode_by<'k>(
        &self,
        batch: &RecordBatch,
        rows: &mut RowBatch,
        key: impl Fn(usize) -> &'k [u8],
    ) -> Result<()> {
        assert!(self.converter.is_none(), "there is one key");
        self.lay_down(batch, rows, key)
    }

    /// Appends, for each row of `batch`, its key and a short payload: the row's position, and the
    /// length of the part of the key that `group` makes. `group` is a codec for the first columns
    /// of the key. See [`place_of`].
    ///
    /// # Errors
    /// As [`RowCodec::encode`].
    pub(crate) fn encode_places(
        &self,
        batch: &RecordBatch,
        group: &RowCodec,
        position: u64,
        rows: &mut RowBatch,
    ) -> Result<()> {
        let (keys, groups) = (self.keys_of(batch)?, group.keys_of(batch)?);
        let (Some(keys), Some(groups)) = (keys, groups) else {
            return Err(columns_missing(batch));
        };
        let lens_bytes: Vec<usize> = keys
            .iter()
            .map(|key| PREFIX_BYTES + key.data().len() + PLACE_BYTES)
            .collect();
        let mut starts = Vec::new();
        let out = rows.push_zeros(&lens_bytes, &mut starts)?;
        for (row, &start) in starts.iter().enumerate() {
            let (key, group) = (keys.row(row), groups.row(row));
            let (key, group_bytes) = (key.data(), group.data().len() as u32);
            let row_out = &mut out[start..start + lens_bytes[row]];
            let (prefix, rest) = row_out.split_at_mut(PREFIX_BYTES);
            prefix.copy_from_slice(&(key.len() as u32).to_le_bytes());
            let (key_out, place) = rest.split_at_mut(key.len());
            key_out.copy_from_slice(key);
            place[..8].copy_from_slice(&(position + row as u64).to_le_bytes());
            place[8..].copy_from_slice(&group_bytes.to_le_bytes());
        }
        Ok(())
    }

    fn lay_down<'k>(
        &self,
        batch: &RecordBatch,
        rows: &mut RowBatch,
        key: impl Fn(usize) -> &'k [u8],
    ) -> Result<()> {
        let rows_count = batch.num_rows();
        let layout = &self.layout;
        let mut columns = Vec::with_capacity(layout.nodes.len());
        for (index, node) in layout.nodes.iter().enumerate() {
            let array = batch
                .columns()
                .get(index)
                .ok_or_else(|| columns_missing(batch))?;
            write::check_type(self.schema.field(index), array)?;
            columns.push(match layout.in_key[index] {
                Some(_) => None,
                None => Some(Column::new(node, array, true)?),
            });
        }

        let spans = OneEach(rows_count);
        let head_bytes = PREFIX_BYTES + layout.marked.len().div_ceil(8);
        let mut lens_bytes: Vec<usize> = (0..rows_count)
            .map(|row| head_bytes + key(row).len())
            .collect();
        for column in columns.iter().flatten() {
            column.measure(spans, &mut lens_bytes);
        }

        let mut cursors = Vec::with_capacity(rows_count);
        let out = rows.push_zeros(&lens_bytes, &mut cursors)?;
        for (row, cursor) in cursors.iter_mut().enumerate() {
            let (at, key) = (*cursor, key(row));
            let key_at = at + PREFIX_BYTES;
            out[at..key_at].copy_from_slice(&(key.len() as u32).to_le_bytes());
            out[key_at..key_at + key.len()].copy_from_slice(key);
            *cursor = key_at + key.len();
        }
        self.mark_nulls(&columns, out, &mut cursors);
        for column in columns.iter().flatten() {
            column.write(spans, out, &mut cursors);
        }
        Ok(())
    }

    /// Returns the bytes of each row of `batch`, without its key.
    ///
    /// # Errors
    /// As [`RowCodec::encode`].
    pub(crate) fn measure(&self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let mut lens_bytes = vec![PREFIX_BYTES; batch.num_rows()];
        for (node, array) in self.layout.nodes.iter().zip(batch.columns()) {
            let column = Column::new(node, array, true)?;
            column.measure(OneEach(batch.num_rows()), &mut lens_bytes);
        }
        Ok(lens_bytes)
    }

    /// Writes the null bits before the columns.
    fn mark_nulls(&self, columns: &[Option<Column>], out: &mut [u8], cursors: &mut [usize]) {
        let marked = &self.layout.marked;
        for (place, &index) in marked.iter().enumerate() {
            let Some(nulls) = columns[index].as_ref().and_then(Column::nulls) else {
                continue;
            };
            for (row, cursor) in cursors.iter().enumerate() {
                out[cursor + place / 8] |= u8::from(nulls.is_null(row)) << (place % 8);
            }
        }
        let bits_bytes = marked.len().div_ceil(8);
        cursors.iter_mut().for_each(|cursor| *cursor += bits_bytes);
    }

    pub(crate) fn keys_of(&self, batch: &RecordBatch) -> Result<Option<arrow_row::Rows>> {
        let Some(converter) = &self.converter else {
            return Ok(None);
        };
        let columns = self.keys.iter().map(|place| {
            let root = batch.columns().get(place.root);
            let values = place.values(root.ok_or_else(|| columns_missing(batch))?)?;
            Ok(with_one_zero(&values))
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let keys = converter.convert_columns(&columns);
        keys.map(Some)
            .map_err(|error| fault::arrow("encode keys", &error))
    }

    /// Returns the batch of these rows, in their order.
    ///
    /// # Errors
    /// Corrupt: bytes that [`RowCodec::encode`] did not write for this schema. Usage: more text in
    /// one column, or more distinct dictionary values, than the type holds; the caller should
    /// decode fewer rows at once.
    pub fn decode(&self, rows: &[&[u8]]) -> Result<RecordBatch> {
        fault::guarded("decode rows", || {
            read::decode(rows, &self.schema, &self.layout, self.converter.as_ref())
        })
    }
}

fn columns_missing(batch: &RecordBatch) -> Error {
    let cause = format!(
        "a batch of {}",
        units::counted(batch.num_columns() as u64, "column")
    );
    Error::usage("encode rows", cause).hint("a bug: please report it")
}
