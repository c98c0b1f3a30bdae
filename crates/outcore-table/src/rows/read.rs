//! Converts rows to arrays: reads column by column at each row's own cursor, in the form that
//! [`super::write`] wrote.
//!
//! Contract: [`decode`] builds the batch of the given rows, or reports that they are not valid. A
//! cursor never passes the end of its row, each row must be read completely, text is checked to be
//! UTF-8, and every array goes through its checked constructor.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray,
    FixedSizeListArray, LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, MapArray,
    NullArray, OffsetSizeTrait, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray,
    StringViewArray, StructArray, UInt64Array, make_array,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer,
    OffsetBuffer, ScalarBuffer,
};
use arrow_data::ArrayData;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use arrow_select::take::take;
use outcore_io::{Error, Result};

use super::node::{Form, Node};
use super::{Layout, PREFIX_BYTES, cut_short, key_of};
use crate::fault;
use crate::notation::notation;

const DECODE: &str = "decode rows";

/// How many elements of an array each row has.
trait Counts: Copy {
    fn of(self, row: usize) -> usize;
    fn total(self) -> usize;
    fn rows_count(self) -> usize;
}

/// One element per row.
#[derive(Clone, Copy)]
struct OneEach(usize);

impl Counts for OneEach {
    #[inline]
    fn of(self, _row: usize) -> usize {
        1
    }

    fn total(self) -> usize {
        self.0
    }

    fn rows_count(self) -> usize {
        self.0
    }
}

/// Any number of elements per row.
#[derive(Clone, Copy)]
struct Many<'a> {
    counts: &'a [usize],
    total: usize,
}

impl<'a> Many<'a> {
    fn new(counts: &'a [usize]) -> Result<Self> {
        let total = counts
            .iter()
            .try_fold(0usize, |sum, &count| sum.checked_add(count));
        let total = total.ok_or_else(cut_short)?;
        Ok(Many { counts, total })
    }
}

impl Counts for Many<'_> {
    #[inline]
    fn of(self, row: usize) -> usize {
        self.counts[row]
    }

    fn total(self) -> usize {
        self.total
    }

    fn rows_count(self) -> usize {
        self.counts.len()
    }
}

/// See [`super::RowCodec::decode`]. `keys` is the converter that made the keys.
pub(super) fn decode(
    items: &[&[u8]],
    schema: &SchemaRef,
    layout: &Layout,
    keys: Option<&RowConverter>,
) -> Result<RecordBatch> {
    let mut reader = Reader {
        items,
        cursors: Vec::with_capacity(items.len()),
    };
    for item in items {
        let key_bytes = key_of(item).ok_or_else(cut_short)?.len();
        reader.cursors.push(PREFIX_BYTES + key_bytes);
    }
    let keys = match keys {
        Some(keys) if layout.in_key.iter().any(Option::is_some) => key_columns(items, keys)?,
        _ => Vec::new(),
    };
    let bits: Vec<&[u8]> = (0..items.len())
        .map(|row| reader.take(row, layout.marked.len().div_ceil(8)))
        .collect::<Result<_>>()?;
    let nulls_at = |place: usize| {
        let is_valid = |row: usize| (bits[row][place / 8] >> (place % 8)) & 1 == 0;
        let valid = NullBuffer::new(BooleanBuffer::collect_bool(items.len(), is_valid));
        Some(valid).filter(|valid| valid.null_count() > 0)
    };
    let mut arrays = Vec::with_capacity(layout.nodes.len());
    for (index, node) in layout.nodes.iter().enumerate() {
        arrays.push(match layout.in_key[index] {
            Some(place) => Arc::clone(keys.get(place).ok_or_else(cut_short)?),
            None => {
                let place = layout.marked.iter().position(|&marked| marked == index);
                let nulls = place.and_then(nulls_at);
                reader.values(node, OneEach(items.len()), nulls)?
            }
        });
    }
    let is_read = |(item, cursor): (&&[u8], &usize)| item.len() == *cursor;
    if !items.iter().zip(&reader.cursors).all(is_read) {
        return Err(cut_short());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(items.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(|e| told(&e))
}

/// Decodes the key columns.
fn key_columns(items: &[&[u8]], keys: &RowConverter) -> Result<Vec<ArrayRef>> {
    let parser = keys.parser();
    let rows = items.iter().map(|item| key_of(item).ok_or_else(cut_short));
    let rows = rows.map(|key| key.map(|key| parser.parse(key)));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    keys.convert_rows(rows).map_err(|e| told(&e))
}

fn told(error: &ArrowError) -> Error {
    fault::arrow(DECODE, error)
}

/// The error for values that do not fit into one array of their type.
fn too_many(what: &str) -> Error {
    Error::usage(DECODE, what).hint("use smaller batches, or cast the column to a wider type")
}

struct Reader<'a> {
    items: &'a [&'a [u8]],
    cursors: Vec<usize>,
}

impl<'a> Reader<'a> {
    #[inline]
    fn take(&mut self, row: usize, len_bytes: usize) -> Result<&'a [u8]> {
        let at = self.cursors[row];
        let end = at.checked_add(len_bytes).ok_or_else(cut_short)?;
        let bytes = self.items[row].get(at..end).ok_or_else(cut_short)?;
        self.cursors[row] = end;
        Ok(bytes)
    }

    #[inline]
    fn length(&mut self, row: usize) -> Result<usize> {
        match self.take(row, 1)? {
            [u8::MAX] => {
                let long = self.take(row, 4)?;
                Ok(u32::from_le_bytes([long[0], long[1], long[2], long[3]]) as usize)
            }
            short => Ok(usize::from(short[0])),
        }
    }

    #[inline]
    fn coded(&mut self, row: usize) -> Result<&'a [u8]> {
        let len_bytes = self.length(row)?;
        self.take(row, len_bytes)
    }

    /// Reads a column inside another: its bits, then its values.
    fn inner(&mut self, node: &Node, counts: impl Counts) -> Result<ArrayRef> {
        // For types that have bytes, a damaged count cannot add elements, because their bytes are
        // missing. Types without bytes have as many elements as the count says.
        let nulls = if node.is_without_bits() {
            None
        } else {
            self.bits(counts)?
        };
        self.values(node, counts, nulls)
    }

    fn bits(&mut self, counts: impl Counts) -> Result<Option<NullBuffer>> {
        let mut valid = BooleanBufferBuilder::new(0);
        for row in 0..counts.rows_count() {
            let count = counts.of(row);
            let bits = self.take(row, count.div_ceil(8))?;
            (0..count).for_each(|place| valid.append(bits[place / 8] >> (place % 8) & 1 == 0));
        }
        Ok(Some(NullBuffer::new(valid.finish())).filter(|valid| valid.null_count() > 0))
    }

    /// Calls `each` for every element of every row, with its row, its place, and whether it is
    /// valid.
    #[inline]
    fn for_each(
        &mut self,
        counts: impl Counts,
        nulls: Option<&NullBuffer>,
        mut each: impl FnMut(&mut Self, usize, usize, bool) -> Result<()>,
    ) -> Result<()> {
        let mut index = 0;
        for row in 0..counts.rows_count() {
            for _ in 0..counts.of(row) {
                let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(index));
                each(self, row, index, is_valid)?;
                index += 1;
            }
        }
        Ok(())
    }

    fn values(
        &mut self,
        node: &Node,
        counts: impl Counts,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        match &node.form {
            Form::Null => Ok(Arc::new(NullArray::new(counts.total()))),
            Form::Bool => self.bools(counts, nulls),
            Form::Fixed { width_bytes } => match width_bytes {
                1 => self.fixed::<1>(node, counts, nulls),
                2 => self.fixed::<2>(node, counts, nulls),
                4 => self.fixed::<4>(node, counts, nulls),
                8 => self.fixed::<8>(node, counts, nulls),
                16 => self.fixed::<16>(node, counts, nulls),
                &width_bytes => self.fixed_of(width_bytes, node, counts, nulls),
            },
            Form::Bytes => self.bytes(&node.data_type, counts, nulls),
            Form::List { child } => self.list(&node.data_type, child, counts, nulls),
            Form::FixedList { child, count } => {
                let DataType::FixedSizeList(field, size) = &node.data_type else {
                    return Err(cut_short());
                };
                let inner = (0..counts.rows_count()).map(|row| counts.of(row) * count);
                let inner: Vec<usize> = inner.collect();
                let elements = self.inner(child, Many::new(&inner)?)?;
                let (field, total) = (Arc::clone(field), counts.total());
                let list =
                    FixedSizeListArray::try_new_with_length(field, *size, elements, nulls, total);
                Ok(Arc::new(list.map_err(|e| told(&e))?))
            }
            Form::Struct { children } => {
                let DataType::Struct(fields) = &node.data_type else {
                    return Err(cut_short());
                };
                let columns = children.iter().map(|child| self.inner(child, counts));
                let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
                let total = counts.total();
                let made = StructArray::try_new_with_length(fields.clone(), columns, nulls, total);
                Ok(Arc::new(made.map_err(|e| told(&e))?))
            }
            Form::Dictionary { values } => {
                let values = self.values(values, counts, nulls)?;
                dictionary(&node.data_type, &values)
            }
            Form::Ordered { converter } => {
                let parser = converter.parser();
                let mut rows = Vec::with_capacity(counts.rows_count());
                self.for_each(counts, None, |reader, row, _, _| {
                    rows.push(parser.parse(reader.coded(row)?));
                    Ok(())
                })?;
                let arrays = converter.convert_rows(rows).map_err(|e| told(&e))?;
                arrays.into_iter().next().ok_or_else(cut_short)
            }
        }
    }

    fn bools(&mut self, counts: impl Counts, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let mut values = BooleanBufferBuilder::new(0);
        let mut index = 0;
        for row in 0..counts.rows_count() {
            let here = index..index + counts.of(row);
            let is_valid = |index| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
            let valid_count = here.clone().filter(|&index| is_valid(index)).count();
            let bits = self.take(row, valid_count.div_ceil(8))?;
            let mut place = 0;
            for index in here.clone() {
                let is_valid = is_valid(index);
                values.append(is_valid && bits[place / 8] >> (place % 8) & 1 == 1);
                place += usize::from(is_valid);
            }
            index = here.end;
        }
        Ok(Arc::new(BooleanArray::new(values.finish(), nulls)))
    }

    fn fixed<const WIDTH_BYTES: usize>(
        &mut self,
        node: &Node,
        counts: impl Counts,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        self.check_room(counts, nulls.as_ref(), WIDTH_BYTES)?;
        let mut values = MutableBuffer::from_len_zeroed(counts.total() * WIDTH_BYTES);
        let (places, _) = values.as_slice_mut().as_chunks_mut::<WIDTH_BYTES>();
        self.for_each(counts, nulls.as_ref(), |reader, row, index, is_valid| {
            if is_valid {
                places[index].copy_from_slice(reader.take(row, WIDTH_BYTES)?);
            }
            Ok(())
        })?;
        array_of(&node.data_type, counts.total(), values.into(), nulls)
    }

    fn fixed_of(
        &mut self,
        width_bytes: usize,
        node: &Node,
        counts: impl Counts,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        self.check_room(counts, nulls.as_ref(), width_bytes)?;
        let mut values = MutableBuffer::from_len_zeroed(counts.total() * width_bytes);
        self.for_each(counts, nulls.as_ref(), |reader, row, index, is_valid| {
            if is_valid {
                let place = index * width_bytes..(index + 1) * width_bytes;
                values.as_slice_mut()[place].copy_from_slice(reader.take(row, width_bytes)?);
            }
            Ok(())
        })?;
        array_of(&node.data_type, counts.total(), values.into(), nulls)
    }

    /// Allocates no memory for damaged lengths that exceed the rows.
    fn check_room(
        &self,
        counts: impl Counts,
        nulls: Option<&NullBuffer>,
        width_bytes: usize,
    ) -> Result<()> {
        let valid_count = counts.total() - nulls.map_or(0, NullBuffer::null_count);
        let here_bytes: usize = self.items.iter().map(|item| item.len()).sum();
        let needed_bytes = valid_count.checked_mul(width_bytes).ok_or_else(cut_short)?;
        if needed_bytes > here_bytes {
            Err(cut_short())
        } else {
            Ok(())
        }
    }

    fn bytes(
        &mut self,
        data_type: &DataType,
        counts: impl Counts,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        Ok(match data_type {
            DataType::Utf8 => {
                let (offsets, values) = self.pieces::<i32>(counts, nulls.as_ref())?;
                Arc::new(StringArray::try_new(offsets, values, nulls).map_err(|e| told(&e))?)
            }
            DataType::LargeUtf8 => {
                let (offsets, values) = self.pieces::<i64>(counts, nulls.as_ref())?;
                Arc::new(LargeStringArray::try_new(offsets, values, nulls).map_err(|e| told(&e))?)
            }
            DataType::Binary => {
                let (offsets, values) = self.pieces::<i32>(counts, nulls.as_ref())?;
                Arc::new(BinaryArray::try_new(offsets, values, nulls).map_err(|e| told(&e))?)
            }
            DataType::LargeBinary => {
                let (offsets, values) = self.pieces::<i64>(counts, nulls.as_ref())?;
                Arc::new(LargeBinaryArray::try_new(offsets, values, nulls).map_err(|e| told(&e))?)
            }
            DataType::Utf8View => {
                let (offsets, values) = self.pieces::<i64>(counts, nulls.as_ref())?;
                let text = LargeStringArray::try_new(offsets, values, nulls);
                Arc::new(StringViewArray::from(&text.map_err(|e| told(&e))?))
            }
            _ => {
                let (offsets, values) = self.pieces::<i64>(counts, nulls.as_ref())?;
                let binary = LargeBinaryArray::try_new(offsets, values, nulls);
                Arc::new(BinaryViewArray::from(&binary.map_err(|e| told(&e))?))
            }
        })
    }

    fn pieces<O: OffsetSizeTrait>(
        &mut self,
        counts: impl Counts,
        nulls: Option<&NullBuffer>,
    ) -> Result<(OffsetBuffer<O>, Buffer)> {
        let mut offsets = Vec::with_capacity(counts.rows_count() + 1);
        offsets.push(O::default());
        // Their total length is computed before the first is copied, so that none is copied twice.
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(counts.rows_count());
        let mut end = 0;
        self.for_each(counts, nulls, |reader, row, _, is_valid| {
            if is_valid {
                let piece = reader.coded(row)?;
                end += piece.len();
                pieces.push(piece);
            }
            let end = O::from_usize(end);
            offsets.push(end.ok_or_else(|| too_many("more than 2 GiB of text in one batch"))?);
            Ok(())
        })?;
        let mut values: Vec<u8> = Vec::with_capacity(end);
        pieces
            .iter()
            .for_each(|piece| values.extend_from_slice(piece));
        Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(values)))
    }

    fn list(
        &mut self,
        data_type: &DataType,
        child: &Node,
        counts: impl Counts,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let mut inner = vec![0usize; counts.rows_count()];
        let mut ends = Vec::with_capacity(counts.rows_count() + 1);
        let mut end = 0usize;
        ends.push(0);
        self.for_each(counts, nulls.as_ref(), |reader, row, _, is_valid| {
            if is_valid {
                let count = reader.length(row)?;
                inner[row] += count;
                end += count;
            }
            ends.push(end);
            Ok(())
        })?;
        let elements = self.inner(child, Many::new(&inner)?)?;
        match data_type {
            DataType::LargeList(field) => {
                let (field, offsets) = (Arc::clone(field), offsets_of::<i64>(&ends)?);
                let list = LargeListArray::try_new(field, offsets, elements, nulls);
                Ok(Arc::new(list.map_err(|e| told(&e))?))
            }
            DataType::Map(field, is_sorted) => map_of(
                field,
                *is_sorted,
                offsets_of::<i32>(&ends)?,
                &elements,
                nulls,
            ),
            DataType::List(field) => {
                let (field, offsets) = (Arc::clone(field), offsets_of::<i32>(&ends)?);
                let list = ListArray::try_new(field, offsets, elements, nulls);
                Ok(Arc::new(list.map_err(|e| told(&e))?))
            }
            _ => Err(cut_short()),
        }
    }
}

fn map_of(
    field: &FieldRef,
    is_sorted: bool,
    offsets: OffsetBuffer<i32>,
    entries: &ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let entries = entries
        .as_any()
        .downcast_ref::<StructArray>()
        .ok_or_else(cut_short)?;
    let map = MapArray::try_new(
        Arc::clone(field),
        offsets,
        entries.clone(),
        nulls,
        is_sorted,
    );
    Ok(Arc::new(map.map_err(|e| told(&e))?))
}

fn offsets_of<O: OffsetSizeTrait>(ends: &[usize]) -> Result<OffsetBuffer<O>> {
    let ends: Option<ScalarBuffer<O>> = ends
        .iter()
        .map(|&end| O::from_usize(end))
        .collect::<Option<Vec<O>>>()
        .map(ScalarBuffer::from);
    let ends =
        ends.ok_or_else(|| too_many("more than 2,147,483,647 elements of lists in one batch"))?;
    Ok(OffsetBuffer::new(ends))
}

fn array_of(
    data_type: &DataType,
    values_count: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone())
        .len(values_count)
        .add_buffer(values)
        .nulls(nulls);
    Ok(make_array(data.build().map_err(|e| told(&e))?))
}

/// A dictionary of the distinct `values`, in the order of their first occurrence.
fn dictionary(data_type: &DataType, values: &ArrayRef) -> Result<ArrayRef> {
    let fields = vec![SortField::new(values.data_type().clone())];
    let converter = RowConverter::new(fields).map_err(|e| told(&e))?;
    let rows = converter.convert_columns(std::slice::from_ref(values));
    let rows = rows.map_err(|e| told(&e))?;
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    let mut firsts: Vec<u64> = Vec::new();
    let mut keys: Vec<Option<usize>> = Vec::with_capacity(values.len());
    for index in 0..values.len() {
        keys.push(values.is_valid(index).then(|| {
            *known.entry(rows.row(index).data()).or_insert_with(|| {
                firsts.push(index as u64);
                firsts.len() - 1
            })
        }));
    }
    let distinct = take(values.as_ref(), &UInt64Array::from(firsts), None).map_err(|e| told(&e))?;
    dictionary_of(data_type, &keys, &distinct)
}

/// A dictionary of type `data_type` with these keys and values.
///
/// # Errors
/// Usage: there are more values than the type of the keys can number.
pub(crate) fn dictionary_of(
    data_type: &DataType,
    keys: &[Option<usize>],
    values: &ArrayRef,
) -> Result<ArrayRef> {
    let DataType::Dictionary(key_type, _) = data_type else {
        return Err(cut_short());
    };
    match key_type.as_ref() {
        DataType::Int8 => keyed::<Int8Type>(keys, values),
        DataType::Int16 => keyed::<Int16Type>(keys, values),
        DataType::Int32 => keyed::<Int32Type>(keys, values),
        DataType::Int64 => keyed::<Int64Type>(keys, values),
        DataType::UInt8 => keyed::<UInt8Type>(keys, values),
        DataType::UInt16 => keyed::<UInt16Type>(keys, values),
        DataType::UInt32 => keyed::<UInt32Type>(keys, values),
        _ => keyed::<UInt64Type>(keys, values),
    }
}

fn keyed<K: ArrowDictionaryKeyType>(keys: &[Option<usize>], values: &ArrayRef) -> Result<ArrayRef> {
    let fits = K::Native::from_usize(values.len().saturating_sub(1)).is_some();
    if !fits {
        let cause = format!(
            "{} distinct values of a dictionary, for keys of type {}",
            values.len(),
            notation(&K::DATA_TYPE)
        );
        return Err(too_many(&cause));
    }
    let keys: PrimitiveArray<K> = keys
        .iter()
        .map(|key| key.and_then(K::Native::from_usize))
        .collect();
    let made = DictionaryArray::try_new(keys, ArrayRef::clone(values)).map_err(|e| told(&e))?;
    Ok(Arc::new(made))
}
