//! Writes plain numbers and strings as a table, for callers that do not use Arrow: the inverse of
//! [`super::plain`].
//!
//! Contract: [`write_columns`] writes one file, absent or whole, in the format of its extension:
//! Parquet, Arrow, CSV or JSON lines. Rows come in batches, in order.
//!
//! Bounds: at most half of the free memory for rows that are being encoded; the caller owns the
//! batches.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use outcore::primitives::sized_files::SizedFiles;
use outcore::{Error, Job, Result};

use super::plain::PlainType;
use crate::output::{OutputOptions, TableFormat, TableOutput, WriterShape};

const WRITE: &str = "write table";
/// Memory for rows that are being written.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// The values of a column in a batch.
#[derive(Debug, Clone)]
pub enum ColumnValues {
    /// Signed integers.
    Whole(Vec<i64>),
    /// Unsigned integers.
    Unsigned(Vec<u64>),
    /// Eight-byte floats.
    Float64(Vec<f64>),
    /// Strings.
    Text(Vec<String>),
}

impl ColumnValues {
    fn array(self) -> ArrayRef {
        match self {
            ColumnValues::Whole(values) => Arc::new(Int64Array::from(values)),
            ColumnValues::Unsigned(values) => Arc::new(UInt64Array::from(values)),
            ColumnValues::Float64(values) => Arc::new(Float64Array::from(values)),
            ColumnValues::Text(values) => Arc::new(StringArray::from(values)),
        }
    }
}

/// Takes the next rows: the values of each column.
pub type TakeColumns<'t> = dyn FnMut(Vec<ColumnValues>) -> Result<()> + 't;

/// Whether the extension belongs to a table.
pub fn is_table_name(path: &Path) -> bool {
    matches!(
        TableFormat::of_name(path),
        Some(TableFormat::Parquet | TableFormat::ArrowFile | TableFormat::ArrowStream)
    )
}

/// Whether the extension belongs to a format with column names: a table, CSV or JSON lines.
pub fn has_columns(path: &Path) -> bool {
    TableFormat::of_name(path).is_some()
}

/// The output of a table of plain values.
#[derive(Debug, Clone, Copy)]
pub struct NewTable<'a> {
    /// Its path; the extension determines the format.
    pub path: &'a Path,
    /// Whether it may replace an existing file.
    pub is_replacing: bool,
    /// Names and types of the columns.
    pub columns: &'a [(&'a str, PlainType)],
}

/// Writes a table with the rows that `make` passes, and returns their number.
///
/// # Errors
/// As [`TableOutput::create`]; errors of `make`. On failure, no file remains.
pub fn write_columns(
    job: &Job,
    table: &NewTable<'_>,
    make: impl FnOnce(&mut TakeColumns<'_>) -> Result<()>,
) -> Result<u64> {
    write_columns_beside(job, table, None, make)
}

/// Writes a table that appears together with the files written `beside` it.
///
/// # Errors
/// As [`write_columns`].
pub fn write_columns_beside(
    job: &Job,
    table: &NewTable<'_>,
    beside: Option<SizedFiles>,
    make: impl FnOnce(&mut TakeColumns<'_>) -> Result<()>,
) -> Result<u64> {
    let path = table.path;
    let format = TableFormat::of_name(path).ok_or_else(|| {
        Error::usage(WRITE, "its name does not give the format of the table")
            .path(path)
            .hint("end the name in .parquet, .arrow or .csv")
    })?;
    let fields = table.columns.iter().map(|(name, kind)| {
        let of = match kind {
            PlainType::Whole => DataType::Int64,
            PlainType::Unsigned => DataType::UInt64,
            PlainType::Float32 | PlainType::Float64 => DataType::Float64,
            PlainType::Text => DataType::Utf8,
        };
        Field::new(*name, of, false)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let shape = WriterShape {
        writers_count: 1,
        memory_bytes: (job.budget.free_bytes() / 2).min(MEMORY_BYTES_MAX),
        rows_count: None,
    };
    let options = OutputOptions {
        is_replacing: table.is_replacing,
        ..OutputOptions::new(format).named(path, None)?
    };
    let output = TableOutput::create(job, &[path.to_path_buf()], &schema, &options, shape)?;
    let mut section = output.section(0, 0);
    let mut rows_count = 0;
    make(&mut |columns| {
        job.control.check()?;
        let arrays = columns.into_iter().map(ColumnValues::array);
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect());
        let batch = batch.map_err(|error| crate::fault::arrow(WRITE, &error).path(path))?;
        rows_count += batch.num_rows() as u64;
        section.write(&batch)
    })?;
    section.finish()?;
    match beside {
        Some(files) => output.publish_beside(files)?,
        None => output.publish()?,
    };
    Ok(rows_count)
}
