//! Formats rows as CSV or JSON lines.
//!
//! Contract: rows have one of these forms.
//!
//! - CSV begins with a line of column names. Null is an empty field; an empty text is `""`. A field
//!   with separators, quotes or line ends is quoted, so it reads back unchanged. CSV has no lists
//!   and objects. TSV is CSV with tabs.
//! - JSON lines have one object per row, with all fields including nulls. NaN and infinite numbers
//!   become null, because JSON lacks them.
//! - Times are in ISO 8601, in UTC if they have a zone; bytes are written in hexadecimal digits.
//! - Lines are the values of one column of text.
//!
//! Text is compressed in stretches. Each stretch is a gzip member or a Zstandard frame, and
//! together the stretches are one valid file. Pure.

use std::io::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::writer::{LineDelimited, make_encoder};
use arrow_json::{EncoderOptions, WriterBuilder};
use arrow_schema::{DataType, Field, Schema};
use flate2::Compression;
use flate2::write::GzEncoder;
use memchr::memchr3;
use outcore::read::separator::SEPARATORS;
use outcore_io::{Error, Result};

use super::options::{Codec, TableFormat};
use super::schema::{hydrated, written_schema};
use super::unwritable_arrow;
use crate::notation::notation;

const WRITE: &str = "write table";

/// Whether a column has lists or objects, which CSV lacks.
pub(crate) fn is_nested(data_type: &DataType) -> bool {
    data_type.is_nested() && !matches!(data_type, DataType::Dictionary(..))
}

/// Converts the values of a column of any type to JSON texts.
///
/// # Errors
/// Usage: a type that JSON does not have.
pub(crate) fn json_texts(name: &str, array: &ArrayRef) -> Result<ArrayRef> {
    let field = Arc::new(Field::new(name, array.data_type().clone(), true));
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let encoder = make_encoder(&field, array, &options);
    let mut encoder = encoder.map_err(|error| unwritable_arrow(&error))?;
    let mut text = Vec::new();
    let texts = (0..array.len()).map(|row| {
        text.clear();
        if encoder.is_null(row) {
            return None;
        }
        encoder.encode(row, &mut text);
        Some(String::from_utf8_lossy(&text).into_owned())
    });
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// Fails for columns that the format does not have.
pub(super) fn check(schema: &Schema, format: TableFormat) -> Result<()> {
    let mut fields = schema.fields().iter();
    let nested = fields.find(|field| is_nested(field.data_type()));
    if let Some(field) = nested.filter(|_| format.separator().is_some()) {
        let cause = format!(
            "column `{}` is {}, which CSV does not have",
            field.name(),
            notation(field.data_type())
        );
        return Err(Error::usage(WRITE, cause)
            .hint("write JSON lines or Parquet, or leave the column out with --columns"));
    }
    encode(
        &RecordBatch::new_empty(Arc::new(schema.clone())),
        format,
        &mut Vec::new(),
    )
}

impl TableFormat {
    /// The format of printed rows: CSV, or JSON lines if a column has lists or objects.
    pub fn printed(schema: &Schema) -> Self {
        let mut fields = schema.fields().iter();
        match fields.any(|field| is_nested(field.data_type())) {
            true => TableFormat::JsonLines,
            false => TableFormat::Csv,
        }
    }

    /// The header of printed rows in this text format.
    pub fn front(self, schema: &Schema) -> Vec<u8> {
        header(schema, self)
    }

    /// Appends printed rows in this text format.
    ///
    /// # Errors
    /// Usage: a column that the format does not have.
    pub fn print(self, batch: &RecordBatch, text: &mut Vec<u8>) -> Result<()> {
        let schema = written_schema(&batch.schema(), self);
        encode(&hydrated(batch, &schema, self)?, self, text)
    }
}

/// The bytes before all rows.
pub(super) fn header(schema: &Schema, format: TableFormat) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(separator) = format.separator() {
        let fields = Fields::new(separator, schema.fields().len());
        for (place, field) in schema.fields().iter().enumerate() {
            if place > 0 {
                text.push(separator);
            }
            fields.push(field.name(), &mut text);
        }
        text.push(b'\n');
    }
    text
}

/// Appends the rows of `batch` to `text`.
pub(super) fn encode(batch: &RecordBatch, format: TableFormat, text: &mut Vec<u8>) -> Result<()> {
    if let Some(separator) = format.separator() {
        return encode_csv(batch, separator, text);
    }
    if format == TableFormat::Lines {
        return encode_lines(batch, text);
    }
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(text);
    writer
        .write(batch)
        .map_err(|error| unwritable_arrow(&error))
}

/// Appends the values of the only column. Fails unless it is a column of text.
fn encode_lines(batch: &RecordBatch, text: &mut Vec<u8>) -> Result<()> {
    let lines = match batch.columns() {
        [lines] => lines.as_string_opt::<i32>(),
        _ => None,
    };
    let lines = lines.ok_or_else(|| {
        Error::usage(WRITE, "lines need exactly one column of text").hint("choose one column")
    })?;
    for line in lines {
        text.extend_from_slice(line.unwrap_or_default().as_bytes());
        text.push(b'\n');
    }
    Ok(())
}

fn encode_csv(batch: &RecordBatch, separator: u8, text: &mut Vec<u8>) -> Result<()> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter();
    let columns = columns.map(|column| {
        let formatter = ArrayFormatter::try_new(column, &options);
        formatter.map(|formatter| (column, formatter))
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
    let columns = columns.map_err(|error| unwritable_arrow(&error))?;
    let fields = Fields::new(separator, columns.len());
    let mut value = String::new();
    for row in 0..batch.num_rows() {
        for (place, (column, formatter)) in columns.iter().enumerate() {
            if place > 0 {
                text.push(separator);
            }
            if column.is_null(row) {
                continue;
            }
            if let DataType::Utf8 = column.data_type() {
                fields.push(column.as_string::<i32>().value(row), text);
                continue;
            }
            value.clear();
            let written = formatter.value(row).write(&mut value);
            written.map_err(|error| unwritable_arrow(&error))?;
            fields.push(&value, text);
        }
        text.push(b'\n');
    }
    Ok(())
}

/// How the fields of a table are written.
struct Fields {
    /// The bytes that need quotes, in addition to quotes and line ends.
    quoted: &'static [u8],
    separator: u8,
}

impl Fields {
    fn new(separator: u8, columns_count: usize) -> Self {
        // A file with one column has no separators, so a reader may take another byte for the
        // separator.
        let quoted: &[u8] = if columns_count == 1 { &SEPARATORS } else { &[] };
        Fields { quoted, separator }
    }

    /// Appends a field, with quotes if it needs them.
    fn push(&self, value: &str, text: &mut Vec<u8>) {
        let bytes = value.as_bytes();
        let is_plain = !bytes.is_empty()
            && memchr3(self.separator, b'"', b'\n', bytes).is_none()
            && !bytes.contains(&b'\r')
            && (self.quoted.is_empty() || !bytes.iter().any(|byte| self.quoted.contains(byte)));
        if is_plain {
            text.extend_from_slice(bytes);
            return;
        }
        text.push(b'"');
        for &byte in bytes {
            if byte == b'"' {
                text.push(b'"');
            }
            text.push(byte);
        }
        text.push(b'"');
    }
}

/// Compresses a stretch of text.
pub(super) fn packed(text: Vec<u8>, codec: Codec) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::io("compress", &error);
    match codec {
        Codec::Gzip(level) => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
            encoder.write_all(&text).map_err(failed)?;
            encoder.finish().map_err(failed)
        }
        Codec::Zstd(level) => {
            let mut encoder = zstd::Encoder::new(Vec::new(), level).map_err(failed)?;
            encoder.include_checksum(true).map_err(failed)?;
            encoder.write_all(&text).map_err(failed)?;
            encoder.finish().map_err(failed)
        }
        _ => Ok(text),
    }
}
