//! Batches of rows made of the text of a piece.
//!
//! Contract: as the folder's. Errors say the column and the value, and at which byte the record begins; the caller says the
//! line. A batch ends in front of a record with which its text would be longer than an array of texts can be.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use memchr::memchr;
use outcore::read::csv::{Framer, fields, value};
use outcore_io::{Error, Result, units};

use super::column::{Misfit, Values, values_of};
use super::json::Rows;
use super::scan::{Records, is_blank};
use super::{PARSE, not_utf8, without_end};
use crate::fault;

/// The batches of a piece.
pub(in crate::input) struct TextReader {
    bytes: Bytes,
    /// Where the piece begins in the file.
    from_bytes: u64,
    /// The next byte of the piece that was not looked at.
    at: usize,
    schema: SchemaRef,
    /// Rows of a batch, at most, and bytes of their text.
    at_once: (usize, usize),
    way: Way,
}

/// Text of a batch, at most: arrays of texts have offsets of 32 bits.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;

enum Way {
    Csv {
        separator: u8,
        /// Fields of a record.
        width: usize,
        /// For each field, what takes it, if anything does.
        values: Vec<Option<Box<dyn Values>>>,
    },
    Json(Rows),
}

impl TextReader {
    /// The columns `columns` of `full` in the text of a piece that begins at a byte of its file.
    ///
    /// # Errors
    /// Usage: a type that no text says.
    pub(super) fn new(
        (bytes, from_bytes): (Bytes, u64),
        records: Records,
        (full, columns): (&SchemaRef, &[usize]),
        rows_at_once: usize,
    ) -> Result<Self> {
        let schema = full.project(columns);
        let schema = Arc::new(schema.map_err(|error| fault::arrow(PARSE, &error))?);
        let way = match records {
            Records::Csv { separator, .. } => {
                let fields = full.fields().iter().enumerate();
                let values = fields.map(|(place, field)| {
                    let is_wanted = columns.binary_search(&place).is_ok();
                    is_wanted.then(|| values_of(field.data_type())).transpose()
                });
                Way::Csv {
                    separator,
                    width: full.fields().len(),
                    values: values.collect::<Result<_>>()?,
                }
            }
            Records::Lines => {
                let is_wanted = |place| columns.binary_search(&place).is_ok();
                Way::Json(Rows::of(full.fields(), is_wanted)?)
            }
        };
        Ok(TextReader {
            bytes,
            from_bytes,
            at: 0,
            schema,
            at_once: (rows_at_once, TEXT_BYTES_MAX),
            way,
        })
    }

    /// The next batch.
    ///
    /// # Errors
    /// Corrupt: what is wrong with a record, and at which byte it begins.
    pub(in crate::input) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (columns, rows_count) = match &mut self.way {
            Way::Csv {
                separator,
                width,
                values,
            } => {
                let text = (&self.bytes[..], self.from_bytes);
                let names = &self.schema;
                let mut records = CsvRecords {
                    separator: *separator,
                    width: *width,
                    values,
                    names,
                };
                let rows_count = records.take(text, &mut self.at, self.at_once)?;
                let columns = values.iter_mut().flatten().map(|values| values.finish());
                (columns.collect::<Vec<_>>(), rows_count)
            }
            Way::Json(rows) => {
                let text = (&self.bytes[..], self.from_bytes);
                let rows_count = take_lines(rows, text, &mut self.at, self.at_once)?;
                let columns = rows.finish();
                let columns = columns.map_err(|error| fault::arrow(PARSE, &error))?;
                (columns, rows_count)
            }
        };
        if rows_count == 0 {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
        let made = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        made.map(Some).map_err(|error| fault::arrow(PARSE, &error))
    }
}

/// Takes records of CSV into values.
struct CsvRecords<'r> {
    separator: u8,
    width: usize,
    values: &'r mut [Option<Box<dyn Values>>],
    names: &'r Schema,
}

impl CsvRecords<'_> {
    /// Takes records from byte `at` on; how many.
    fn take(
        &mut self,
        (bytes, from_bytes): (&[u8], u64),
        at: &mut usize,
        (rows_max, bytes_max): (usize, usize),
    ) -> Result<usize> {
        let records = Records::Csv {
            separator: self.separator,
            has_header: false,
        };
        let mut unquoted = Vec::new();
        let (mut rows_count, mut taken_bytes) = (0, 0);
        while rows_count < rows_max && *at < bytes.len() {
            let rest = &bytes[*at..];
            let end = Framer::new(self.separator).end_of_record(rest);
            let record = &rest[..end.unwrap_or(rest.len())];
            let begin_bytes = from_bytes + *at as u64;
            if self.width > 1 && is_blank(record, records) {
                *at += record.len();
                continue;
            }
            if !has_room(record, (taken_bytes, bytes_max), begin_bytes)? {
                break;
            }
            *at += record.len();
            taken_bytes += record.len();
            rows_count += 1;
            let mut count = 0;
            for field in fields(without_end(record), self.separator) {
                let place = count;
                count += 1;
                let Some(Some(values)) = self.values.get_mut(place) else {
                    continue;
                };
                if field.is_empty() {
                    values.append_null();
                    continue;
                }
                let text = value(field, &mut unquoted);
                // The piece is UTF-8, and fields are cut at bytes that are letters of their own.
                let text = text.and_then(|text| str::from_utf8(text).ok());
                let text = text.ok_or_else(|| open_quote().offset(begin_bytes))?;
                if values.append(text) {
                    continue;
                }
                let wanted = self.values.iter().take(place).flatten().count();
                let column = self.names.field(wanted);
                if text.is_empty() {
                    // The refused value is null already.
                    continue;
                }
                let misfit = Misfit {
                    column: column.name().clone(),
                    text: text.to_owned(),
                    data_type: column.data_type().clone(),
                };
                return Err(misfit.error().offset(begin_bytes));
            }
            if count != self.width {
                let field = if count == 1 { "field" } else { "fields" };
                let cause = format!("{count} {field}, where the file has {} columns", self.width);
                return Err(Error::corrupt(PARSE, cause).offset(begin_bytes).hint(
                    "correct the record; -t says which separator the fields have, and quotes keep those that are part of a field",
                ));
            }
        }
        Ok(rows_count)
    }
}

/// Whether a record belongs to a batch that has taken so much of the text that it may have.
///
/// # Errors
/// Usage: no batch has room for it.
fn has_room(
    record: &[u8],
    (taken_bytes, bytes_max): (usize, usize),
    begin_bytes: u64,
) -> Result<bool> {
    if record.len() <= bytes_max {
        return Ok(taken_bytes + record.len() <= bytes_max);
    }
    let cause = format!(
        "a record of {}, and {} is the most that a column of text holds",
        units::bytes(record.len() as u64),
        units::bytes(bytes_max as u64)
    );
    let error = Error::usage(PARSE, cause).offset(begin_bytes);
    Err(error.hint("cut the record into several"))
}

fn open_quote() -> Error {
    Error::corrupt(PARSE, "a quote does not end").hint("close the quote")
}

/// Takes lines from byte `at` on that hold something; how many.
fn take_lines(
    rows: &mut Rows,
    (bytes, from_bytes): (&[u8], u64),
    at: &mut usize,
    (rows_max, bytes_max): (usize, usize),
) -> Result<usize> {
    let (mut rows_count, mut taken_bytes) = (0, 0);
    while rows_count < rows_max && *at < bytes.len() {
        let begin = *at;
        let end = memchr(b'\n', &bytes[begin..]).map_or(bytes.len(), |place| begin + place + 1);
        let line = &bytes[begin..end];
        if is_blank(line, Records::Lines) {
            *at = end;
            continue;
        }
        let begin_bytes = from_bytes + begin as u64;
        if !has_room(line, (taken_bytes, bytes_max), begin_bytes)? {
            break;
        }
        *at = end;
        taken_bytes += line.len();
        let text = str::from_utf8(line)
            .map_err(|error| not_utf8(begin_bytes + error.valid_up_to() as u64))?;
        rows.take(text).map_err(|error| error.offset(begin_bytes))?;
        rows_count += 1;
    }
    Ok(rows_count)
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use arrow_schema::{DataType, Field};

    use super::*;

    fn texts_of(
        records: Records,
        text: &'static str,
        bytes_max: usize,
    ) -> Result<Vec<Vec<String>>> {
        let full = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        let bytes = (Bytes::from_static(text.as_bytes()), 0);
        let mut reader = TextReader::new(bytes, records, (&full, &[0]), 100)?;
        reader.at_once.1 = bytes_max;
        let mut batches = Vec::new();
        while let Some(batch) = reader.next()? {
            let texts = batch.column(0).as_string::<i32>().iter();
            batches.push(texts.map(|text| text.unwrap_or("").to_owned()).collect());
        }
        Ok(batches)
    }

    #[test]
    fn a_batch_ends_where_its_text_would_be_too_long_and_a_record_that_is_longer_is_refused() {
        let csv = Records::Csv {
            separator: b',',
            has_header: false,
        };
        let cases = [
            (csv, 9, "one\ntwo\nthree\nfour\n"),
            (
                Records::Lines,
                25,
                "{\"a\":\"one\"}\n{\"a\":\"two\"}\n{\"a\":\"three\"}\n{\"a\":\"four\"}\n",
            ),
        ];
        for (records, bytes_max, text) in cases {
            let batches = texts_of(records, text, bytes_max).unwrap();
            assert_eq!(batches, [vec!["one", "two"], vec!["three"], vec!["four"]]);
            let error = texts_of(records, text, bytes_max / 2).unwrap_err();
            assert_eq!(error.kind(), outcore_io::Kind::Usage);
            assert!(error.to_string().contains("a record of"), "{error}");
        }
    }
}
