//! Converts values to rows: measures each row, then writes column by column at each row's own
//! cursor.
//!
//! Contract: a [`Column`] is an array that is prepared once per batch. Dictionaries are decoded,
//! and lists have no elements under their nulls. Values under the nulls of structs and fixed-length
//! lists become null, or zero if they are not nullable, so that equal values have equal bytes.
//! [`Column::measure`] adds each row's bytes to a list of lengths, and [`Column::write`] writes
//! exactly as many. Both take [`Spans`], which map rows to elements of the array: one per row at
//! the top ([`OneEach`]), a range per row inside lists ([`Ranges`]). The caller marks the nulls of
//! a top column; inside, bits before the values mark nulls. Nulls have no bytes.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, UInt64Array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_row::Rows;
use arrow_schema::{DataType, Field};
use arrow_select::take::take;
use outcore_io::{Error, Result};

use super::node::{Form, Node};
use super::{LONG_BYTES, SHORT_MAX};
use crate::fault;
use crate::notation::notation;

const ENCODE: &str = "encode rows";

/// Maps rows to elements of an array.
pub(super) trait Spans: Copy {
    /// The elements of `row`: from, to.
    fn of(self, row: usize) -> (usize, usize);
    fn rows_count(self) -> usize;
}

/// One element per row.
#[derive(Clone, Copy)]
pub(super) struct OneEach(pub(super) usize);

impl Spans for OneEach {
    #[inline]
    fn of(self, row: usize) -> (usize, usize) {
        (row, row + 1)
    }

    fn rows_count(self) -> usize {
        self.0
    }
}

/// A range of elements per row.
#[derive(Clone, Copy)]
pub(super) struct Ranges<'a>(&'a [(usize, usize)]);

impl Spans for Ranges<'_> {
    #[inline]
    fn of(self, row: usize) -> (usize, usize) {
        self.0[row]
    }

    fn rows_count(self) -> usize {
        self.0.len()
    }
}

/// An array that is ready to be written.
pub(super) struct Column {
    /// `None` unless the node is nullable.
    nulls: Option<NullBuffer>,
    /// Whether bits before the values mark nulls.
    has_bits: bool,
    values: Values,
}

enum Values {
    Null,
    Bool(BooleanBuffer),
    Fixed {
        bytes: Buffer,
        width_bytes: usize,
    },
    Bytes {
        offsets: OffsetBuffer<i32>,
        bytes: Buffer,
    },
    LargeBytes {
        offsets: OffsetBuffer<i64>,
        bytes: Buffer,
    },
    /// Strings or binary, by view.
    View {
        array: ArrayRef,
        is_text: bool,
    },
    List {
        offsets: OffsetBuffer<i64>,
        child: Box<Column>,
    },
    FixedList {
        count: usize,
        child: Box<Column>,
    },
    Struct {
        children: Vec<Column>,
    },
    Ordered(Rows),
}

impl Column {
    /// Prepares `array` in the form of `node`. The caller marks the nulls of a top column.
    pub(super) fn new(node: &Node, array: &ArrayRef, is_top: bool) -> Result<Column> {
        Column::under(None, node, array, is_top)
    }

    /// Like [`Column::new`], for a column inside a column with these nulls.
    fn under(
        outer: Option<&NullBuffer>,
        node: &Node,
        array: &ArrayRef,
        is_top: bool,
    ) -> Result<Column> {
        let outer = outer.filter(|nulls| nulls.null_count() > 0);
        if let Some(nulls) = outer.filter(|_| node.is_without_bits()) {
            return Column::new(node, &blanked(array, nulls)?, is_top);
        }
        if let Form::Dictionary { values } = &node.form {
            let dictionary = array.as_any_dictionary();
            let looked_up = take(dictionary.values().as_ref(), dictionary.keys(), None)
                .map_err(|error| fault::arrow(ENCODE, &error))?;
            let mut column = Column::under(outer, values, &looked_up, true)?;
            column.nulls = column.nulls.filter(|_| node.is_nullable);
            column.has_bits = !is_top && !node.is_without_bits();
            return Ok(column);
        }
        let nulls = match node.form {
            // All of them are null, and only their number is stored.
            Form::Null => None,
            // The encoded bytes show the nulls.
            Form::Ordered { .. } => None,
            _ if node.is_nullable => NullBuffer::union(array.nulls(), outer),
            _ => None,
        };
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(Column {
            values: values_of(node, array, nulls.as_ref())?,
            nulls,
            has_bits: !is_top && !node.is_without_bits(),
        })
    }

    /// The nulls, if there are any.
    pub(super) fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    #[inline]
    fn is_valid(&self, index: usize) -> bool {
        self.nulls
            .as_ref()
            .is_none_or(|nulls| nulls.is_valid(index))
    }

    fn valid_count(&self, from: usize, to: usize) -> usize {
        match &self.nulls {
            None => to - from,
            Some(nulls) if to == from + 1 => usize::from(nulls.is_valid(from)),
            Some(nulls) => nulls.inner().slice(from, to - from).count_set_bits(),
        }
    }

    /// Calls `each` with every valid element of every row.
    #[inline]
    fn for_each(&self, spans: impl Spans, mut each: impl FnMut(usize, usize)) {
        for row in 0..spans.rows_count() {
            let (from, to) = spans.of(row);
            for index in from..to {
                if self.is_valid(index) {
                    each(row, index);
                }
            }
        }
    }

    /// Adds the bytes of each row to `lens_bytes`.
    pub(super) fn measure(&self, spans: impl Spans, lens_bytes: &mut [usize]) {
        if self.has_bits {
            for (row, len_bytes) in lens_bytes.iter_mut().enumerate() {
                let (from, to) = spans.of(row);
                *len_bytes += (to - from).div_ceil(8);
            }
        }
        match &self.values {
            Values::Null => {}
            Values::Bool(_) => {
                for (row, len_bytes) in lens_bytes.iter_mut().enumerate() {
                    let (from, to) = spans.of(row);
                    *len_bytes += self.valid_count(from, to).div_ceil(8);
                }
            }
            Values::Fixed { width_bytes, .. } => {
                for (row, len_bytes) in lens_bytes.iter_mut().enumerate() {
                    let (from, to) = spans.of(row);
                    *len_bytes += self.valid_count(from, to) * width_bytes;
                }
            }
            Values::Bytes { offsets, .. } => self.for_each(spans, |row, index| {
                lens_bytes[row] += coded_bytes((offsets[index + 1] - offsets[index]) as usize);
            }),
            Values::LargeBytes { offsets, .. } => self.for_each(spans, |row, index| {
                lens_bytes[row] += coded_bytes((offsets[index + 1] - offsets[index]) as usize);
            }),
            Values::View { array, is_text } => self.for_each(spans, |row, index| {
                lens_bytes[row] += coded_bytes(view_value(array, *is_text, index).len());
            }),
            Values::Ordered(rows) => self.for_each(spans, |row, index| {
                lens_bytes[row] += coded_bytes(rows.row(index).data().len());
            }),
            Values::List { offsets, child } => {
                self.for_each(spans, |row, index| {
                    lens_bytes[row] += length_bytes((offsets[index + 1] - offsets[index]) as usize);
                });
                child.measure(Ranges(&inner_ranges(offsets, spans)), lens_bytes);
            }
            Values::FixedList { count, child } => {
                child.measure(Ranges(&fixed_ranges(*count, spans)), lens_bytes);
            }
            Values::Struct { children } => {
                children
                    .iter()
                    .for_each(|child| child.measure(spans, lens_bytes));
            }
        }
    }

    /// Writes each row's values at its cursor, and advances the cursor.
    pub(super) fn write(&self, spans: impl Spans, out: &mut [u8], cursors: &mut [usize]) {
        if self.has_bits {
            self.write_bits(spans, out, cursors);
        }
        match &self.values {
            Values::Null => {}
            Values::Bool(bits) => self.write_bools(bits, spans, out, cursors),
            Values::Fixed { bytes, width_bytes } => match width_bytes {
                1 => self.write_fixed::<1>(bytes, spans, out, cursors),
                2 => self.write_fixed::<2>(bytes, spans, out, cursors),
                4 => self.write_fixed::<4>(bytes, spans, out, cursors),
                8 => self.write_fixed::<8>(bytes, spans, out, cursors),
                16 => self.write_fixed::<16>(bytes, spans, out, cursors),
                &width_bytes => self.for_each(spans, |row, index| {
                    let value = &bytes[index * width_bytes..(index + 1) * width_bytes];
                    put(out, &mut cursors[row], value);
                }),
            },
            Values::Bytes { offsets, bytes } => self.for_each(spans, |row, index| {
                let value = &bytes[offsets[index] as usize..offsets[index + 1] as usize];
                put_coded(out, &mut cursors[row], value);
            }),
            Values::LargeBytes { offsets, bytes } => self.for_each(spans, |row, index| {
                let value = &bytes[offsets[index] as usize..offsets[index + 1] as usize];
                put_coded(out, &mut cursors[row], value);
            }),
            Values::View { array, is_text } => self.for_each(spans, |row, index| {
                put_coded(out, &mut cursors[row], view_value(array, *is_text, index));
            }),
            Values::Ordered(rows) => self.for_each(spans, |row, index| {
                put_coded(out, &mut cursors[row], rows.row(index).data());
            }),
            Values::List { offsets, child } => {
                self.for_each(spans, |row, index| {
                    let count = (offsets[index + 1] - offsets[index]) as usize;
                    put_length(out, &mut cursors[row], count);
                });
                child.write(Ranges(&inner_ranges(offsets, spans)), out, cursors);
            }
            Values::FixedList { count, child } => {
                child.write(Ranges(&fixed_ranges(*count, spans)), out, cursors);
            }
            Values::Struct { children } => {
                children
                    .iter()
                    .for_each(|child| child.write(spans, out, cursors));
            }
        }
    }

    fn write_fixed<const WIDTH_BYTES: usize>(
        &self,
        bytes: &Buffer,
        spans: impl Spans,
        out: &mut [u8],
        cursors: &mut [usize],
    ) {
        let (values, _) = bytes.as_slice().as_chunks::<WIDTH_BYTES>();
        self.for_each(spans, |row, index| {
            let at = cursors[row];
            out[at..at + WIDTH_BYTES].copy_from_slice(&values[index]);
            cursors[row] = at + WIDTH_BYTES;
        });
    }

    /// Writes a bit for each element, set for null.
    fn write_bits(&self, spans: impl Spans, out: &mut [u8], cursors: &mut [usize]) {
        for (row, cursor) in cursors.iter_mut().enumerate() {
            let (from, to) = spans.of(row);
            for index in from..to {
                let place = index - from;
                out[*cursor + place / 8] |= u8::from(!self.is_valid(index)) << (place % 8);
            }
            *cursor += (to - from).div_ceil(8);
        }
    }

    fn write_bools(
        &self,
        bits: &BooleanBuffer,
        spans: impl Spans,
        out: &mut [u8],
        cursors: &mut [usize],
    ) {
        for (row, cursor) in cursors.iter_mut().enumerate() {
            let (from, to) = spans.of(row);
            let mut place = 0;
            for index in (from..to).filter(|&index| self.is_valid(index)) {
                out[*cursor + place / 8] |= u8::from(bits.value(index)) << (place % 8);
                place += 1;
            }
            *cursor += place.div_ceil(8);
        }
    }
}

/// Replaces the values at `nulls` with null, or with zero if they are not nullable.
fn blanked(array: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef> {
    let places = UInt64Array::new((0..array.len() as u64).collect(), Some(nulls.clone()));
    take(array.as_ref(), &places, None).map_err(|error| fault::arrow(ENCODE, &error))
}

fn values_of(node: &Node, array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Values> {
    Ok(match &node.form {
        Form::Null => Values::Null,
        Form::Bool => Values::Bool(array.as_boolean().values().clone()),
        Form::Fixed { width_bytes } => {
            let data = array.to_data();
            let at_bytes = data.offset() * width_bytes;
            let len_bytes = data.len() * width_bytes;
            Values::Fixed {
                bytes: data.buffers()[0].slice_with_length(at_bytes, len_bytes),
                width_bytes: *width_bytes,
            }
        }
        Form::Bytes => bytes_of(array),
        Form::List { child } => list_of(array, child, nulls)?,
        Form::FixedList { child, count } => Values::FixedList {
            count: *count,
            child: Box::new(Column::under(
                nulls.map(|nulls| nulls.expand(*count)).as_ref(),
                child,
                array.as_fixed_size_list().values(),
                false,
            )?),
        },
        Form::Struct { children } => {
            let columns = children.iter().zip(array.as_struct().columns());
            let columns = columns.map(|(child, column)| Column::under(nulls, child, column, false));
            Values::Struct {
                children: columns.collect::<Result<_>>()?,
            }
        }
        Form::Ordered { converter } => {
            let rows = converter.convert_columns(std::slice::from_ref(array));
            Values::Ordered(rows.map_err(|error| fault::arrow(ENCODE, &error))?)
        }
        Form::Dictionary { .. } => {
            return Err(Error::usage(ENCODE, "a dictionary of dictionaries"));
        }
    })
}

fn bytes_of(array: &ArrayRef) -> Values {
    match array.data_type() {
        DataType::Utf8 => {
            let text = array.as_string::<i32>();
            Values::Bytes {
                offsets: text.offsets().clone(),
                bytes: text.values().clone(),
            }
        }
        DataType::LargeUtf8 => {
            let text = array.as_string::<i64>();
            Values::LargeBytes {
                offsets: text.offsets().clone(),
                bytes: text.values().clone(),
            }
        }
        DataType::Binary => {
            let binary = array.as_binary::<i32>();
            Values::Bytes {
                offsets: binary.offsets().clone(),
                bytes: binary.values().clone(),
            }
        }
        DataType::LargeBinary => {
            let binary = array.as_binary::<i64>();
            Values::LargeBytes {
                offsets: binary.offsets().clone(),
                bytes: binary.values().clone(),
            }
        }
        by_view => Values::View {
            is_text: *by_view == DataType::Utf8View,
            array: ArrayRef::clone(array),
        },
    }
}

#[inline]
fn view_value(array: &ArrayRef, is_text: bool, index: usize) -> &[u8] {
    if is_text {
        array.as_string_view().value(index).as_bytes()
    } else {
        array.as_binary_view().value(index)
    }
}

fn list_of(array: &ArrayRef, child: &Node, nulls: Option<&NullBuffer>) -> Result<Values> {
    let array = without_hidden(array, nulls)?;
    let (offsets, values) = match array.data_type() {
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.offsets().clone(), ArrayRef::clone(list.values()))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries = map.entries().clone();
            (
                widened(map.offsets()),
                ArrayRef::from(Box::new(entries) as Box<dyn Array>),
            )
        }
        _ => {
            let list = array.as_list::<i32>();
            (widened(list.offsets()), ArrayRef::clone(list.values()))
        }
    };
    Ok(Values::List {
        offsets,
        child: Box::new(Column::new(child, &values, false)?),
    })
}

fn widened(offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    OffsetBuffer::new(offsets.iter().map(|&offset| i64::from(offset)).collect())
}

/// Removes list elements under `nulls`, which would belong to a row but to no list.
fn without_hidden(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    fn hides<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, nulls: &NullBuffer) -> bool {
        let is_hidden = |index: usize| nulls.is_null(index) && offsets[index] < offsets[index + 1];
        (0..nulls.len()).any(is_hidden)
    }
    let nulls = nulls.or(array.nulls());
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(ArrayRef::clone(array));
    };
    let is_hiding = match array.data_type() {
        DataType::LargeList(_) => hides(array.as_list::<i64>().offsets(), nulls),
        DataType::Map(..) => hides(array.as_map().offsets(), nulls),
        _ => hides(array.as_list::<i32>().offsets(), nulls),
    };
    if !is_hiding {
        return Ok(ArrayRef::clone(array));
    }
    blanked(array, nulls)
}

/// The elements of all lists of each row.
fn inner_ranges(offsets: &OffsetBuffer<i64>, spans: impl Spans) -> Vec<(usize, usize)> {
    let range = |row| {
        let (from, to) = spans.of(row);
        (offsets[from] as usize, offsets[to] as usize)
    };
    (0..spans.rows_count()).map(range).collect()
}

fn fixed_ranges(count: usize, spans: impl Spans) -> Vec<(usize, usize)> {
    let range = |row| {
        let (from, to) = spans.of(row);
        (from * count, to * count)
    };
    (0..spans.rows_count()).map(range).collect()
}

/// Bytes of an encoded length.
#[inline]
fn length_bytes(count: usize) -> usize {
    if count <= SHORT_MAX { 1 } else { LONG_BYTES }
}

#[inline]
fn coded_bytes(len_bytes: usize) -> usize {
    length_bytes(len_bytes) + len_bytes
}

#[inline]
fn put(out: &mut [u8], cursor: &mut usize, bytes: &[u8]) {
    let at = *cursor;
    out[at..at + bytes.len()].copy_from_slice(bytes);
    *cursor = at + bytes.len();
}

#[inline]
fn put_length(out: &mut [u8], cursor: &mut usize, count: usize) {
    if count <= SHORT_MAX {
        out[*cursor] = count as u8;
        *cursor += 1;
    } else {
        // Rows of 4 GiB and more are rejected after they are measured, before anything is written.
        out[*cursor] = u8::MAX;
        put(out, &mut (*cursor + 1), &(count as u32).to_le_bytes());
        *cursor += LONG_BYTES;
    }
}

#[inline]
fn put_coded(out: &mut [u8], cursor: &mut usize, bytes: &[u8]) {
    put_length(out, cursor, bytes.len());
    put(out, cursor, bytes);
}

/// Whether a schema field matches its array; rows of another table are not encoded.
pub(super) fn check_type(field: &Field, array: &ArrayRef) -> Result<()> {
    if field.data_type().equals_datatype(array.data_type()) {
        return Ok(());
    }
    let cause = format!(
        "column `{}` is {} and the table's is {}",
        field.name(),
        notation(array.data_type()),
        notation(field.data_type())
    );
    Err(Error::usage(ENCODE, cause).hint("a bug: please report it"))
}
