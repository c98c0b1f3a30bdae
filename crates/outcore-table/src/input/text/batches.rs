//! Batches of rows made of the text of a piece.
//!
//! Contract: as the folder's. Errors say the column and the value, and at which byte the record begins; the caller says the
//! line.
//!
//! N.B. Objects of JSON are decoded with texts for all scalars, and these are made values by the same code as fields of
//! CSV: the library itself would cut 1.5 down to 1 where a column is one of whole numbers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use memchr::memchr;
use outcore::read::csv::{Framer, fields, value};
use outcore_io::{Error, Result};

use super::column::{Values, values_of, wider};
use super::scan::{Records, is_blank};
use super::strict;
use super::types::notation;
use super::{PARSE, without_end};
use crate::fault;

/// Bytes of a value that an error shows.
const SHOWN_BYTES: usize = 40;

/// The batches of a piece.
pub(in crate::input) struct TextReader {
    bytes: Bytes,
    /// Where the piece begins in the file.
    from_bytes: u64,
    /// The next byte of the piece that was not looked at.
    at: usize,
    schema: SchemaRef,
    rows_at_once: usize,
    way: Way,
}

enum Way {
    Csv {
        separator: u8,
        /// Fields of a record.
        width: usize,
        /// For each field, what takes it, if anything does.
        values: Vec<Option<Box<dyn Values>>>,
    },
    Json {
        decoder: Box<Decoder>,
        /// All columns of the file.
        full: SchemaRef,
        /// With texts in the place of scalars.
        texts: SchemaRef,
        /// Those that are wanted.
        columns: Vec<usize>,
    },
}

/// What is wrong with a value, and where.
struct Misfit {
    row: usize,
    column: String,
    text: String,
    data_type: DataType,
}

impl Misfit {
    fn error(&self, at_bytes: u64) -> Error {
        let kind = notation(&self.data_type);
        let mut end = self.text.len().min(SHOWN_BYTES);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let more = if end < self.text.len() { "..." } else { "" };
        let cause = format!(
            "column `{}` is {kind}, and `{}{more}` is not",
            self.column,
            self.text[..end].escape_debug(),
        );
        let root = self.column.split('.').next().unwrap_or_default();
        let hint = match root == self.column {
            true => {
                let wider = notation(&wider(&self.text, &self.data_type));
                format!(
                    "correct the value, or read the column as {wider} with --schema '{root}:{wider}'"
                )
            }
            false => format!("correct the value, or say the type of `{root}` with --schema"),
        };
        Error::corrupt(PARSE, cause).offset(at_bytes).hint(hint)
    }
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
                let texts = full.fields().iter().map(|field| texts_of(field));
                let texts = Arc::new(Schema::new(texts.collect::<Vec<_>>()));
                Way::Json {
                    decoder: Box::new(decoder(&texts, rows_at_once)?),
                    full: Arc::clone(full),
                    texts,
                    columns: columns.to_vec(),
                }
            }
        };
        Ok(TextReader {
            bytes,
            from_bytes,
            at: 0,
            schema,
            rows_at_once,
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
                let rows_count = records.take(text, &mut self.at, self.rows_at_once)?;
                let columns = values.iter_mut().flatten().map(|values| values.finish());
                (columns.collect::<Vec<_>>(), rows_count)
            }
            Way::Json {
                decoder,
                full,
                texts,
                columns,
            } => {
                let text = (&self.bytes[..], self.from_bytes);
                let taken = take_lines(decoder, texts, text, &mut self.at, self.rows_at_once)?;
                let Some((batch, begins)) = taken else {
                    return Ok(None);
                };
                let made = columns.iter().map(|&place| {
                    let field = full.field(place);
                    made_values(field.name(), batch.column(place), field.data_type())
                        .map_err(|misfit| misfit.error(begins[misfit.row]))
                });
                (made.collect::<Result<Vec<_>>>()?, batch.num_rows())
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
        rows_max: usize,
    ) -> Result<usize> {
        let records = Records::Csv {
            separator: self.separator,
            has_header: false,
        };
        let mut unquoted = Vec::new();
        let mut rows_count = 0;
        while rows_count < rows_max && *at < bytes.len() {
            let rest = &bytes[*at..];
            let end = Framer::new(self.separator).end_of_record(rest);
            let record = &rest[..end.unwrap_or(rest.len())];
            let begin_bytes = from_bytes + *at as u64;
            *at += record.len();
            if self.width > 1 && is_blank(record, records) {
                continue;
            }
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
                    row: 0,
                    column: column.name().clone(),
                    text: text.to_owned(),
                    data_type: column.data_type().clone(),
                };
                return Err(misfit.error(begin_bytes));
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

fn open_quote() -> Error {
    Error::corrupt(PARSE, "a quote does not end").hint("close the quote")
}

/// The field with texts for all scalars in it.
fn texts_of(field: &Field) -> Field {
    let inner = |field: &FieldRef| Arc::new(texts_of(field));
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(inner(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        _ => DataType::Utf8,
    };
    field.clone().with_data_type(data_type)
}

fn decoder(texts: &SchemaRef, rows_count: usize) -> Result<Decoder> {
    let builder = ReaderBuilder::new(Arc::clone(texts))
        .with_batch_size(rows_count)
        .with_coerce_primitive(true)
        .with_strict_mode(true);
    builder
        .build_decoder()
        .map_err(|error| fault::arrow(PARSE, &error))
}

/// Decodes lines from byte `at` on, at most so many that hold something; where in the file each begins.
fn take_lines(
    decoder: &mut Decoder,
    texts: &SchemaRef,
    (bytes, from_bytes): (&[u8], u64),
    at: &mut usize,
    rows_max: usize,
) -> Result<Option<(RecordBatch, Vec<u64>)>> {
    let mut lines: Vec<(usize, &[u8])> = Vec::new();
    while lines.len() < rows_max && *at < bytes.len() {
        let rest = &bytes[*at..];
        let end = memchr(b'\n', rest).map_or(rest.len(), |place| place + 1);
        let line = &rest[..end];
        let begin = *at;
        *at += end;
        if is_blank(line, Records::Lines) {
            continue;
        }
        lines.push((begin, line));
        let begin_bytes = from_bytes + begin as u64;
        decode_line(decoder, line, lines.len()).map_err(|error| error.offset(begin_bytes))?;
    }
    let begins = lines.iter().map(|(begin, _)| from_bytes + *begin as u64);
    let batch = match decoder.flush() {
        Ok(batch) => batch,
        Err(_) => {
            // One of the lines is at fault: which, is told by each alone.
            for (begin, line) in &lines {
                let mut alone = self::decoder(texts, 1)?;
                decode_line(&mut alone, line, 1)?;
                if let Err(error) = alone.flush() {
                    let error = unfit(&error.to_string());
                    return Err(error.offset(from_bytes + *begin as u64));
                }
            }
            return Err(unfit("lines that cannot be read together"));
        }
    };
    Ok(batch.map(|batch| (batch, begins.collect())))
}

/// Gives a line to the decoder, which then has `count` rows.
fn decode_line(decoder: &mut Decoder, line: &[u8], count: usize) -> Result<()> {
    let is_object = line.trim_ascii_start().first() == Some(&b'{');
    let whole = || {
        Error::corrupt(PARSE, "the line is not one JSON object")
            .hint("write one object on each line, for example with jq -c")
    };
    if !is_object {
        return Err(whole());
    }
    // The decoder is lenient: it reads objects without commas, and of two values of one name it takes the last.
    strict::check(line).map_err(|cause| match cause {
        Some(cause) => Error::corrupt(PARSE, format!("not JSON: {cause}")).hint("correct the line"),
        None => whole(),
    })?;
    let used = decoder.decode(line);
    let used = used.map_err(|error| {
        let cause = error.to_string();
        let cause = cause.trim_start_matches("Json error: ");
        Error::corrupt(PARSE, format!("not JSON: {cause}")).hint("correct the line")
    })?;
    let is_one = !decoder.has_partial_record()
        && decoder.len() == count
        && line[used..].iter().all(u8::is_ascii_whitespace);
    if is_one { Ok(()) } else { Err(whole()) }
}

fn unfit(cause: &str) -> Error {
    let cause = cause.trim_start_matches("Json error: ");
    let (cause, hint) = match cause.split_once("column '") {
        Some((_, rest)) if rest.contains("missing from schema") || rest.contains("not found") => {
            let name = rest.split('\'').next().unwrap_or_default();
            (
                format!("field `{name}` was in no row that told the columns"),
                format!(
                    "name its type with --schema: '{name}:text' where it is a column of its own"
                ),
            )
        }
        _ => (
            cause.split_whitespace().collect::<Vec<_>>().join(" "),
            "correct the value, or say the type of the column with --schema NAME:TYPE".to_owned(),
        ),
    };
    Error::corrupt(PARSE, cause).hint(hint)
}

/// Values, or the first that is none.
type Made = std::result::Result<ArrayRef, Misfit>;

/// Values of `data_type` of texts, in lists and objects too.
fn made_values(name: &str, texts: &ArrayRef, data_type: &DataType) -> Made {
    let misfit = |row: usize, text: &str| Misfit {
        row,
        column: name.to_owned(),
        text: text.to_owned(),
        data_type: data_type.clone(),
    };
    match data_type {
        DataType::Utf8 => Ok(Arc::clone(texts)),
        DataType::List(item) => {
            let list = texts.as_list::<i32>();
            let inner = made_values(&format!("{name}.item"), list.values(), item.data_type());
            let inner = inner.map_err(|inner| {
                let behind = list
                    .offsets()
                    .partition_point(|end| *end as usize <= inner.row);
                Misfit {
                    row: behind.saturating_sub(1),
                    ..inner
                }
            })?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let made = ListArray::try_new(Arc::clone(item), offsets, inner, nulls);
            made.map(|made| Arc::new(made) as ArrayRef)
                .map_err(|error| misfit(0, &error.to_string()))
        }
        DataType::Struct(fields) => {
            let object = texts.as_struct();
            let inner = fields.iter().zip(object.columns());
            let inner = inner.map(|(field, column)| {
                made_values(
                    &format!("{name}.{}", field.name()),
                    column,
                    field.data_type(),
                )
            });
            let inner = inner.collect::<std::result::Result<Vec<_>, Misfit>>()?;
            let made = StructArray::try_new_with_length(
                fields.clone(),
                inner,
                object.nulls().cloned(),
                object.len(),
            );
            made.map(|made| Arc::new(made) as ArrayRef)
                .map_err(|error| misfit(0, &error.to_string()))
        }
        plain => {
            let mut values = values_of(plain).map_err(|error| misfit(0, error.cause()))?;
            for (row, text) in texts.as_string::<i32>().iter().enumerate() {
                match text {
                    None => values.append_null(),
                    Some(text) if values.append(text) => {}
                    Some(text) => return Err(misfit(row, text)),
                }
            }
            Ok(values.finish())
        }
    }
}
