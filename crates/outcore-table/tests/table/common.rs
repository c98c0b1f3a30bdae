//! Random tables of every type: nulls, extremes, nested values, dictionaries, slices.
//!
//! Contract: schema and values are pure functions of a [`Draw`] with a seed. The Parquet kinds
//! leave out types that Parquet cannot hold or returns as another type. Tables have at most a few
//! hundred rows, with strings of a few thousand bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use outcore::{IoMode, Job, JobOptions, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{TableEnds, TableSummary};
use outcore_table::output::OutputOptions;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Which types a table may have: the types that files of both formats can hold, or all types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    All,
    Parquet,
}

pub fn leaf_type(draw: &mut Draw, kinds: Kinds) -> DataType {
    let common = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::FixedSizeBinary(5),
        DataType::Date32,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        DataType::Timestamp(TimeUnit::Millisecond, Some("+02:00".into())),
        DataType::Decimal128(38, 10),
        DataType::Decimal128(9, 2),
        DataType::Decimal256(76, 5),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ];
    let rare = [
        DataType::Null,
        DataType::Date64,
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, 2),
        DataType::Duration(TimeUnit::Second),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Int64)),
        DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::LargeBinary)),
    ];
    let count = common.len() + if kinds == Kinds::All { rare.len() } else { 0 };
    let index = draw.below(count);
    common
        .get(index)
        .unwrap_or_else(|| &rare[index - common.len()])
        .clone()
}

pub fn data_type(draw: &mut Draw, depth: usize, kinds: Kinds) -> DataType {
    if depth == 0 || draw.below(10) < 6 {
        return leaf_type(draw, kinds);
    }
    let field = |draw: &mut Draw, name: &str| {
        let nullable = !draw.one_in(3);
        let kind = data_type(draw, depth - 1, kinds);
        let nullable = nullable || kind == DataType::Null;
        Arc::new(Field::new(name, kind, nullable))
    };
    match draw.below(5) {
        0 => DataType::List(field(draw, "item")),
        1 => DataType::LargeList(field(draw, "item")),
        2 => {
            let item = field(draw, "item");
            // arrow-rs cannot join fixed-size lists with elements that are not nullable, inside
            // lists.
            let is_nullable = item.is_nullable() || kinds == Kinds::Parquet;
            let item = item.as_ref().clone().with_nullable(is_nullable);
            DataType::FixedSizeList(Arc::new(item), 1 + draw.below(3) as i32)
        }
        3 => {
            let count = 1 + draw.below(3);
            let fields = (0..count).map(|i| field(draw, &format!("f{i}")));
            DataType::Struct(fields.collect())
        }
        _ => {
            let key = Field::new("keys", DataType::Utf8, false);
            let value = field(draw, "values");
            let entries = DataType::Struct(Fields::from(vec![Arc::new(key), value]));
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
    }
}

pub fn schema(draw: &mut Draw, columns_max: usize, kinds: Kinds) -> Arc<Schema> {
    let count = 1 + draw.below(columns_max);
    let fields = (0..count).map(|index| {
        let kind = data_type(draw, 2, kinds);
        let nullable = kind == DataType::Null || !draw.one_in(3);
        Field::new(format!("c{index}"), kind, nullable)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub fn batch(draw: &mut Draw, schema: &Arc<Schema>, rows: usize) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| {
        // Some arrays begin in the middle of their buffers.
        let before = if draw.one_in(3) { draw.below(9) } else { 0 };
        array(draw, field.data_type(), before + rows, field.is_nullable()).slice(before, rows)
    });
    let columns = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).unwrap()
}

fn nulls(draw: &mut Draw, len: usize, nullable: bool) -> Option<NullBuffer> {
    if !nullable || draw.one_in(4) {
        return None;
    }
    let one_in = 1 + draw.below(6);
    let bits = (0..len).map(|_| !draw.one_in(one_in));
    Some(NullBuffer::new(BooleanBuffer::from_iter(bits)))
}

fn text(draw: &mut Draw) -> String {
    let len = match draw.below(12) {
        0 => 0,
        1 => 250 + draw.below(12),
        2 => draw.below(3000),
        _ => draw.below(20),
    };
    let alphabet = ['a', 'b', 'z', '\0', 'ß', '€', '😀', '\u{7f}'];
    (0..len)
        .map(|_| alphabet[draw.below(alphabet.len())])
        .collect()
}

fn lengths(draw: &mut Draw, len: usize) -> Vec<usize> {
    // Long lists of long lists would make rows of many MiB, which a job may rightly reject. So a
    // long list only has short ones.
    let long = if len < 300 { 300 } else { 3.max(6000 / len) };
    (0..len)
        .map(|_| if draw.one_in(20) { long } else { draw.below(4) })
        .collect()
}

fn value(draw: &mut Draw, width: usize) -> Vec<u8> {
    match draw.below(8) {
        0 => vec![0; width],
        1 => vec![0xff; width],
        2 => [vec![0; width - 1], vec![0x80]].concat(),
        3 => [vec![0xff; width - 1], vec![0x7f]].concat(),
        4 => [vec![draw.below(4) as u8], vec![0; width - 1]].concat(),
        _ => (0..width).map(|_| draw.word() as u8).collect(),
    }
}

fn fixed(draw: &mut Draw, kind: &DataType, width: usize, len: usize, nullable: bool) -> ArrayRef {
    let mut bytes = MutableBuffer::new(len * width);
    for _ in 0..len {
        let mut value = value(draw, width);
        match kind {
            // Within a day, and within the precision, because files reject other values.
            DataType::Time32(_) => value = ((draw.below(86_400_000)) as i32).to_le_bytes().to_vec(),
            DataType::Time64(_) => {
                value = ((draw.below(86_400_000_000)) as i64).to_le_bytes().to_vec();
            }
            DataType::Decimal128(..) | DataType::Decimal256(..) => {
                let small = draw.word() as i64 % 1_000_000_000;
                let sign = if small < 0 { 0xff } else { 0 };
                value = vec![sign; width];
                value[..8].copy_from_slice(&small.to_le_bytes());
            }
            DataType::Date64 => {
                value = (draw.below(20_000) as i64 * 86_400_000)
                    .to_le_bytes()
                    .to_vec();
            }
            _ => {}
        }
        bytes.extend_from_slice(&value);
    }
    let nulls = nulls(draw, len, nullable);
    let data = ArrayData::builder(kind.clone())
        .len(len)
        .add_buffer(Buffer::from(bytes))
        .nulls(nulls);
    make_array(data.build().unwrap())
}

/// A [`batch`] with a last column `k` of twelve values and nulls.
pub fn in_groups(draw: &mut Draw, schema: &Arc<Schema>, rows: usize) -> RecordBatch {
    let values = batch(draw, schema, rows);
    let group: Int32Array = (0..rows)
        .map(|_| (!draw.one_in(9)).then(|| draw.below(12) as i32))
        .collect();
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("k", DataType::Int32, true)));
    let mut columns = values.columns().to_vec();
    columns.push(Arc::new(group));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

pub fn array(draw: &mut Draw, kind: &DataType, len: usize, nullable: bool) -> ArrayRef {
    match kind {
        DataType::Null => Arc::new(NullArray::new(len)),
        DataType::Boolean => {
            let values = (0..len).map(|_| draw.one_in(2)).collect::<Vec<_>>();
            let nulls = nulls(draw, len, nullable);
            Arc::new(BooleanArray::new(values.into(), nulls))
        }
        DataType::Utf8 => strings(draw, len, nullable, |texts| {
            Arc::new(StringArray::from(texts))
        }),
        DataType::LargeUtf8 => strings(draw, len, nullable, |texts| {
            Arc::new(LargeStringArray::from(texts))
        }),
        DataType::Utf8View => strings(draw, len, nullable, |texts| {
            Arc::new(StringViewArray::from_iter(texts))
        }),
        DataType::Binary => strings(draw, len, nullable, |texts| {
            Arc::new(BinaryArray::from_iter(texts.into_iter().map(reversed)))
        }),
        DataType::LargeBinary => strings(draw, len, nullable, |texts| {
            Arc::new(LargeBinaryArray::from_iter(texts.into_iter().map(reversed)))
        }),
        DataType::BinaryView => strings(draw, len, nullable, |texts| {
            Arc::new(BinaryViewArray::from_iter(texts.into_iter().map(reversed)))
        }),
        DataType::FixedSizeBinary(width) => fixed(draw, kind, *width as usize, len, nullable),
        DataType::Interval(IntervalUnit::MonthDayNano) => fixed(draw, kind, 16, len, nullable),
        DataType::List(field) => {
            let lengths = lengths(draw, len);
            let values = array(
                draw,
                field.data_type(),
                lengths.iter().sum(),
                field.is_nullable(),
            );
            let nulls = nulls(draw, len, nullable);
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::new(Arc::clone(field), offsets, values, nulls))
        }
        DataType::LargeList(field) => {
            let lengths = lengths(draw, len);
            let values = array(
                draw,
                field.data_type(),
                lengths.iter().sum(),
                field.is_nullable(),
            );
            let nulls = nulls(draw, len, nullable);
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(LargeListArray::new(
                Arc::clone(field),
                offsets,
                values,
                nulls,
            ))
        }
        DataType::FixedSizeList(field, size) => {
            let values = array(
                draw,
                field.data_type(),
                len * *size as usize,
                field.is_nullable(),
            );
            let nulls = nulls(draw, len, nullable);
            Arc::new(FixedSizeListArray::new(
                Arc::clone(field),
                *size,
                values,
                nulls,
            ))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter();
            let columns =
                columns.map(|field| array(draw, field.data_type(), len, field.is_nullable()));
            let columns = columns.collect();
            let nulls = nulls(draw, len, nullable);
            Arc::new(StructArray::new(fields.clone(), columns, nulls))
        }
        DataType::Map(field, sorted) => {
            let lengths = lengths(draw, len);
            let entries = array(draw, field.data_type(), lengths.iter().sum(), false);
            let entries = cast::AsArray::as_struct(&entries).clone();
            let nulls = nulls(draw, len, nullable);
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(MapArray::new(
                Arc::clone(field),
                offsets,
                entries,
                nulls,
                *sorted,
            ))
        }
        DataType::Dictionary(key, values) => {
            let distinct = 1 + draw.below(7);
            let values = array(draw, values, distinct, false);
            let keys = (0..len)
                .map(|_| draw.below(distinct) as i64)
                .collect::<Vec<_>>();
            let nulls = nulls(draw, len, nullable);
            let valid = |index: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
            let keys = keys
                .into_iter()
                .enumerate()
                .map(|(i, key)| valid(i).then_some(key));
            match key.as_ref() {
                DataType::Int32 => {
                    let keys: Int32Array = keys.map(|key| key.map(|key| key as i32)).collect();
                    Arc::new(DictionaryArray::new(keys, values))
                }
                DataType::Int16 => {
                    let keys: Int16Array = keys.map(|key| key.map(|key| key as i16)).collect();
                    Arc::new(DictionaryArray::new(keys, values))
                }
                _ => {
                    let keys: UInt16Array = keys.map(|key| key.map(|key| key as u16)).collect();
                    Arc::new(DictionaryArray::new(keys, values))
                }
            }
        }
        other => {
            let width = other.primitive_width().unwrap();
            fixed(draw, other, width, len, nullable)
        }
    }
}

fn reversed(text: Option<String>) -> Option<Vec<u8>> {
    text.map(|text| text.bytes().rev().collect())
}

fn strings(
    draw: &mut Draw,
    len: usize,
    nullable: bool,
    make: impl Fn(Vec<Option<String>>) -> ArrayRef,
) -> ArrayRef {
    let nulls = nulls(draw, len, nullable);
    let valid = |index: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
    let texts = (0..len).map(|index| {
        let text = text(draw);
        valid(index).then_some(text)
    });
    make(texts.collect())
}

/// A job with this much memory.
pub fn job(memory_bytes: u64, threads: usize) -> Job {
    let options = JobOptions {
        memory_bytes,
        threads,
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}

/// Calls [`outcore_table::jobs::copy`].
pub fn copy(
    job: &Job,
    inputs: &[PathBuf],
    reads: &InputOptions,
    outputs: &[PathBuf],
    writes: &OutputOptions,
) -> Result<TableSummary> {
    let ends = TableEnds {
        inputs,
        reads,
        outputs,
        writes,
    };
    outcore_table::jobs::copy(job, &ends)
}

/// Writes `batch` to a Parquet file with row groups of `group_rows`, using the library.
pub fn write_parquet(path: &Path, batch: &RecordBatch, group_rows: usize) {
    let settings = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows));
    write_parquet_as(path, batch, settings.build());
}

pub fn write_parquet_as(path: &Path, batch: &RecordBatch, settings: WriterProperties) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(settings)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Reads a Parquet file with the library.
pub fn read_parquet(path: &Path) -> RecordBatch {
    let file = std::fs::File::open(path).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = Arc::clone(builder.schema());
    let batches: Vec<RecordBatch> = builder
        .build()
        .unwrap()
        .map(|batch| batch.unwrap())
        .collect();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

/// Normalises a column for comparison: in floats, all zeros are one value, and all NaNs are one.
pub fn as_key(array: &ArrayRef) -> ArrayRef {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    macro_rules! one_zero {
        ($kind:ty, $nan:expr, $zero:expr) => {{
            let one = |value| match value {
                value if value == $zero => $zero,
                value if value == value => value,
                _ => $nan,
            };
            let floats = array.as_primitive::<$kind>();
            Arc::new(floats.unary::<_, $kind>(one))
        }};
    }
    match array.data_type() {
        DataType::Float16 => one_zero!(Float16Type, Half::NAN, Half::ZERO),
        DataType::Float32 => one_zero!(Float32Type, f32::NAN, 0.0),
        DataType::Float64 => one_zero!(Float64Type, f64::NAN, 0.0),
        _ => Arc::clone(array),
    }
}
