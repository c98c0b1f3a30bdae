//! The lengths of the values in an Arrow batch, as its message states them.
//!
//! Contract: a message lists the buffers of a batch column by column, without column names.
//! [`BatchLens::of`] walks the schema in the order that the format defines, and adds up the buffers
//! of each root column. A compressed buffer states its decompressed length in its first bytes; the
//! caller reads them when they matter. A message whose buffers do not match the schema counts as
//! one without long values; reading the batch reports the fault.
//!
//! Bounds: one number per column.

use arrow_ipc::RecordBatch;
use arrow_schema::{DataType, Schema};
use outcore_io::Result;

use super::need::long_bytes;

/// A compressed buffer may have long values, and is inspected, if it has at least this many bytes
/// in total and `LOOKED_AT_ROW_BYTES` per row.
const LOOKED_AT_BYTES: u64 = 16 << 10;
const LOOKED_AT_ROW_BYTES: u64 = 1 << 10;

/// The lengths in the message of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchLens {
    /// Bytes after decompression; 0 if the batch is not compressed.
    pub(super) opened_bytes: u64,
    /// For each root column with long values, a bound on its longest value.
    pub(super) long_bytes: Vec<u64>,
}

/// A compressed buffer, by its place in the body of its message.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedBuffer {
    pub(super) at_bytes: u64,
    pub(super) len_bytes: u64,
}

impl BatchLens {
    /// Computes the lengths of a batch of `schema`. `opened` returns the decompressed length of a
    /// buffer. It is called for all compressed buffers if `is_exact`, and otherwise for those whose
    /// values may be long.
    ///
    /// # Errors
    /// Errors of `opened`.
    pub(super) fn of(
        schema: &Schema,
        batch: &RecordBatch<'_>,
        is_exact: bool,
        mut opened: impl FnMut(PackedBuffer) -> Result<u64>,
    ) -> Result<Self> {
        let rows_count = u64::try_from(batch.length()).unwrap_or(0);
        let is_packed = batch.compression().is_some();
        let mut buffers = batch.buffers().into_iter().flatten();
        let mut variadic = batch.variadicBufferCounts().into_iter().flatten();
        let mut lens = BatchLens::default();
        for field in schema.fields() {
            let count = buffers_of(field.data_type(), &mut || variadic.next());
            let mut sum_bytes = 0u64;
            for buffer in buffers.by_ref().take(count) {
                let packed = PackedBuffer {
                    at_bytes: u64::try_from(buffer.offset()).unwrap_or(u64::MAX),
                    len_bytes: u64::try_from(buffer.length()).unwrap_or(0),
                };
                let may_be_long = packed.len_bytes >= LOOKED_AT_BYTES
                    && packed.len_bytes / rows_count.max(1) >= LOOKED_AT_ROW_BYTES;
                let len_bytes = match is_packed && (is_exact || may_be_long) {
                    true => opened(packed)?,
                    false => packed.len_bytes,
                };
                sum_bytes = sum_bytes.saturating_add(len_bytes);
                if is_packed {
                    lens.opened_bytes = lens.opened_bytes.saturating_add(len_bytes);
                }
            }
            lens.long_bytes.push(long_bytes(sum_bytes, rows_count));
        }
        Ok(lens)
    }
}

/// Counts the buffers of a column. `variadic` gives the additional buffers of views.
fn buffers_of(data_type: &DataType, variadic: &mut impl FnMut() -> Option<i64>) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
        DataType::Utf8View | DataType::BinaryView => {
            2 + usize::try_from(variadic().unwrap_or(0)).unwrap_or(0)
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            2 + buffers_of(field.data_type(), variadic)
        }
        DataType::ListView(field) | DataType::LargeListView(field) => {
            3 + buffers_of(field.data_type(), variadic)
        }
        DataType::FixedSizeList(field, _) => 1 + buffers_of(field.data_type(), variadic),
        DataType::Struct(fields) => {
            let fields = fields.iter();
            1 + fields
                .map(|field| buffers_of(field.data_type(), variadic))
                .sum::<usize>()
        }
        DataType::Union(fields, mode) => {
            let own = 1 + usize::from(*mode == arrow_schema::UnionMode::Dense);
            let fields = fields.iter();
            own + fields
                .map(|(_, field)| buffers_of(field.data_type(), variadic))
                .sum::<usize>()
        }
        DataType::RunEndEncoded(ends, values) => {
            buffers_of(ends.data_type(), variadic) + buffers_of(values.data_type(), variadic)
        }
        // Fixed-width types, and the keys of dictionaries.
        _ => 2,
    }
}
