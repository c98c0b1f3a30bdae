//! Writes the rows of a column of lists as vectors, with their numbers back to back.
//!
//! Contract: the column has lists of a fixed length, or lists that all have the same length. A
//! null, or a list of another length, is an error that reports its row. Numbers are little-endian.
//! Pure.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use outcore_io::{Error, Result, units};

use super::options::VectorLayout;

const WRITE: &str = "write vectors";

/// The number type of a column of lists of numbers, and the length of each list if the type states
/// it; `None` for other types.
pub(crate) fn lists_of(kind: &DataType) -> Option<(&DataType, Option<usize>)> {
    let (numbers, len) = match kind {
        DataType::FixedSizeList(field, len) => (field.data_type(), usize::try_from(*len).ok()),
        DataType::List(field) | DataType::LargeList(field) => (field.data_type(), None),
        _ => return None,
    };
    numbers.is_numeric().then_some((numbers, len))
}

/// Fails unless the table has one column of lists of numbers.
pub(super) fn check(schema: &Schema) -> Result<()> {
    match &schema.fields()[..] {
        [field] if lists_of(field.data_type()).is_some() => Ok(()),
        _ => Err(
            Error::usage(WRITE, "vectors are one column of lists of numbers")
                .hint("name the column with --column"),
        ),
    }
}

/// The range of a list's numbers among those of its column.
pub(crate) fn span_of(column: &ArrayRef, row: usize) -> Range<usize> {
    match column.data_type() {
        DataType::FixedSizeList(..) => {
            let lists = column.as_fixed_size_list();
            let len = usize::try_from(lists.value_length()).unwrap_or(0);
            let from = lists.value_offset_at(row);
            from..from + len
        }
        DataType::LargeList(_) => {
            let offsets = column.as_list::<i64>().value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        }
        _ => {
            let offsets = column.as_list::<i32>().value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        }
    }
}

fn numbers_of(column: &ArrayRef) -> &ArrayRef {
    match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().values(),
        DataType::LargeList(_) => column.as_list::<i64>().values(),
        _ => column.as_list::<i32>().values(),
    }
}

/// Appends the vectors of `batch`, whose first row is row `first` of the table.
pub(super) fn encode(
    batch: &RecordBatch,
    first: u64,
    layout: &VectorLayout,
    out: &mut Vec<u8>,
) -> Result<()> {
    let column = batch.column(0);
    let numbers = numbers_of(column);
    let wrong = |row: usize, cause: String| {
        let (row, schema) = (first + row as u64, batch.schema());
        let name = schema.field(0).name();
        let cause = format!("row {row} of the table's column `{name}` {cause}");
        Error::usage(WRITE, cause).hint("leave out such rows first, with outcore filter")
    };
    let data = numbers.to_data();
    let number_bytes = data.data_type().primitive_width().unwrap_or(0);
    let buffer = data
        .buffers()
        .first()
        .map_or(&[][..], |buffer| buffer.as_slice());
    let stored = &buffer[data.offset() * number_bytes..];
    for row in 0..column.len() {
        if column.is_null(row) {
            return Err(wrong(row, "is null".to_string()));
        }
        let span = span_of(column, row);
        if span.len() != layout.dimension {
            let cause = format!(
                "has {}, not {}",
                units::counted(span.len() as u64, "number"),
                layout.dimension
            );
            return Err(wrong(row, cause));
        }
        if numbers.null_count() > 0 && span.clone().any(|at| numbers.is_null(at)) {
            return Err(wrong(row, "has a null among its numbers".to_string()));
        }
        out.extend_from_slice(&layout.lead);
        out.extend_from_slice(&stored[span.start * number_bytes..span.end * number_bytes]);
    }
    Ok(())
}
