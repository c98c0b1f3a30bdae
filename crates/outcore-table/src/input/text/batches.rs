//! Builds batches of rows from the text of a piece.
//!
//! Contract: as the folder's. Errors report the column, the value, and the byte at which the record
//! begins; the caller adds the line. If [`Rules`] allows it, bad rows are skipped, bad values
//! become null, and both are counted. The set of kept rows does not depend on the selected columns.
//! A batch ends before a record whose text would no longer fit into its arrays of texts.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Fields, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use bytes::Bytes;
use memchr::memchr;
use outcore::read::csv::{fields, value};
use outcore_io::{Error, Result, units};

use super::bad_rows::{OnBadRow, Rules, Tally};
use super::column::{Misfit, Values, inferred_values_of, values_of};
use super::json::Rows;
use super::scan::{Records, is_blank};
use super::{PARSE, not_utf8, without_end};
use crate::fault;

/// A stretch of text, and how it is split into records.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// The stretch's offset in the file.
    pub(super) from_bytes: u64,
    pub(super) records: Records,
}

/// The columns to build.
#[derive(Clone, Copy)]
pub(super) struct Shape<'s> {
    /// All columns of the file.
    pub(super) full: &'s SchemaRef,
    /// The selected columns.
    pub(super) columns: &'s [usize],
    /// For each column of the file, whether a sample chose its type.
    pub(super) is_inferred: &'s [bool],
    pub(super) rules: &'s Rules,
}

/// The most rows of a batch, and the most bytes of their text.
#[derive(Clone, Copy)]
struct BatchRoom {
    rows_max: usize,
    bytes_max: usize,
}

/// The batches of a piece.
pub(in crate::input) struct TextReader {
    piece: Piece,
    /// The next unread byte of the piece.
    at: usize,
    /// The columns whose values are parsed: all of them if bad rows are skipped.
    taken: SchemaRef,
    /// The selected columns among the parsed ones, unless all are selected.
    wanted: Option<Vec<usize>>,
    at_once: BatchRoom,
    rules: Rules,
    tally: Tally,
    way: Way,
}

/// The most text in a batch: arrays of texts have 32-bit offsets.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;

enum Way {
    Csv {
        separator: u8,
        /// Fields of a record.
        width: usize,
        /// For each field, its builder, if it is parsed.
        values: Vec<Option<Box<dyn Values>>>,
    },
    Json {
        rows: Rows,
        /// Parses each line first if bad lines are skipped, because a row cannot be removed from
        /// the builders.
        probe: Option<Box<Probe>>,
    },
}

impl TextReader {
    /// Prepares to parse the selected columns of a piece.
    ///
    /// # Errors
    /// Usage: a type that cannot be parsed from text.
    pub(super) fn new(piece: Piece, shape: Shape<'_>, rows_at_once: usize) -> Result<Self> {
        let Shape { full, rules, .. } = shape;
        // All values of a CSV row decide whether the row is skipped.
        let is_csv = matches!(piece.records, Records::Csv { .. });
        let takes_all = is_csv && rules.on_bad == OnBadRow::Skip;
        let is_wanted = |place| shape.columns.binary_search(&place).is_ok();
        let taken = match takes_all {
            true => Arc::clone(full),
            false => {
                let taken = full.project(shape.columns);
                Arc::new(taken.map_err(|error| fault::arrow(PARSE, &error))?)
            }
        };
        let way = match piece.records {
            Records::Csv { separator, .. } => {
                let fields = full.fields().iter().enumerate();
                let values = fields.map(|(place, field)| {
                    let make = match shape.is_inferred.get(place) {
                        Some(true) => inferred_values_of,
                        _ => values_of,
                    };
                    let is_taken = takes_all || is_wanted(place);
                    is_taken.then(|| make(field.data_type())).transpose()
                });
                Way::Csv {
                    separator,
                    width: full.fields().len(),
                    values: values.collect::<Result<_>>()?,
                }
            }
            Records::Lines => Way::Json {
                rows: Rows::of(full.fields(), is_wanted)?,
                probe: match rules.on_bad {
                    OnBadRow::Fail => None,
                    OnBadRow::Skip | OnBadRow::Null => {
                        Some(Box::new(Probe::of(full, rules.on_bad)?))
                    }
                },
            },
        };
        Ok(TextReader {
            piece,
            at: 0,
            taken,
            wanted: takes_all.then(|| shape.columns.to_vec()),
            at_once: BatchRoom {
                rows_max: rows_at_once,
                bytes_max: TEXT_BYTES_MAX,
            },
            rules: rules.clone(),
            tally: Tally::default(),
            way,
        })
    }

    /// Returns the counts of skipped rows and values that became null.
    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }

    /// Returns the next batch.
    ///
    /// # Errors
    /// Corrupt: the fault of a record, and the byte at which it begins.
    pub(in crate::input) fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let mut is_kept = Vec::new();
            let (columns, rows_count) = match &mut self.way {
                Way::Csv {
                    separator,
                    width,
                    values,
                } => {
                    let mut records = CsvRecords {
                        records: self.piece.records,
                        separator: *separator,
                        width: *width,
                        values,
                        names: &self.taken,
                        rules: &self.rules,
                        tally: &mut self.tally,
                        is_kept: &mut is_kept,
                    };
                    let rows_count = records.take(&self.piece, &mut self.at, self.at_once)?;
                    let columns = values.iter_mut().flatten().map(|values| values.finish());
                    (columns.collect::<Vec<_>>(), rows_count)
                }
                Way::Json { rows, probe } => {
                    let tally = &mut self.tally;
                    let trial = probe.as_deref_mut().map(|probe| Trial { probe, tally });
                    let (at, room) = (&mut self.at, self.at_once);
                    let rows_count = take_lines(rows, trial, &self.piece, at, room)?;
                    let columns = rows.finish();
                    let columns = columns.map_err(|error| fault::arrow(PARSE, &error))?;
                    (columns, rows_count)
                }
            };
            if rows_count == 0 {
                return Ok(None);
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
            let taken = Arc::clone(&self.taken);
            let made = RecordBatch::try_new_with_options(taken, columns, &options)
                .and_then(|batch| match is_kept.contains(&false) {
                    true => filter_record_batch(&batch, &BooleanArray::from(is_kept)),
                    false => Ok(batch),
                })
                .and_then(|batch| match &self.wanted {
                    Some(wanted) => batch.project(wanted),
                    None => Ok(batch),
                });
            let batch = made.map_err(|error| fault::arrow(PARSE, &error))?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }
}

/// Parses CSV records into builders.
struct CsvRecords<'r> {
    records: Records,
    separator: u8,
    width: usize,
    values: &'r mut [Option<Box<dyn Values>>],
    names: &'r Schema,
    rules: &'r Rules,
    tally: &'r mut Tally,
    /// For each parsed row, whether it is kept.
    is_kept: &'r mut Vec<bool>,
}

impl CsvRecords<'_> {
    /// Parses the records that start at byte `at`, and returns their number.
    fn take(&mut self, piece: &Piece, at: &mut usize, room: BatchRoom) -> Result<usize> {
        let bytes = &piece.bytes[..];
        let mut unquoted = Vec::new();
        let (mut rows_count, mut taken_bytes) = (0, 0);
        while rows_count < room.rows_max && *at < bytes.len() {
            let rest = &bytes[*at..];
            let end = self.records.framer().end_of_record(rest);
            let record = &rest[..end.unwrap_or(rest.len())];
            let begin_bytes = piece.from_bytes + *at as u64;
            if self.width > 1 && is_blank(record, self.records) {
                *at += record.len();
                continue;
            }
            if !has_room(record, taken_bytes, room.bytes_max, begin_bytes)? {
                break;
            }
            *at += record.len();
            taken_bytes += record.len();
            rows_count += 1;
            let is_kept = self.take_record(without_end(record), &mut unquoted);
            let is_kept = is_kept.map_err(|error| error.offset(begin_bytes))?;
            self.is_kept.push(is_kept);
            if let Some(first) = self.tally.first.take() {
                self.tally.first = Some(match first.offset_bytes() {
                    None => first.offset(begin_bytes),
                    Some(_) => first,
                });
            }
        }
        Ok(rows_count)
    }

    /// Parses a record, and returns whether it is kept.
    fn take_record(&mut self, record: &[u8], unquoted: &mut Vec<u8>) -> Result<bool> {
        let (mut count, mut is_kept) = (0, true);
        for field in fields(record, self.separator) {
            let place = count;
            count += 1;
            let Some(Some(values)) = self.values.get_mut(place) else {
                continue;
            };
            if field.is_empty() {
                values.append_null();
                continue;
            }
            let text = value(field, unquoted);
            // In a piece that is valid UTF-8, fields are split only at ASCII bytes, so each field
            // is valid.
            let text = text.and_then(|text| str::from_utf8(text).ok());
            match text {
                Some(text) if self.rules.is_null(text) => {
                    values.append_null();
                    continue;
                }
                // An empty text that the column's type rejects has already become null.
                Some(text) if values.append(text) || text.is_empty() => continue,
                Some(_) => {}
                None => values.append_null(),
            }
            let wrong = || self.wrong_value(place, text);
            match self.rules.on_bad {
                OnBadRow::Fail => return Err(wrong()),
                OnBadRow::Null => {
                    let error = wrong();
                    self.tally.values(1, || error);
                }
                OnBadRow::Skip if is_kept => {
                    let error = wrong();
                    self.tally.row(|| error);
                    is_kept = false;
                }
                OnBadRow::Skip => {}
            }
        }
        if count == self.width {
            return Ok(is_kept);
        }
        let error = || wrong_width(count, self.width);
        match self.rules.on_bad {
            OnBadRow::Fail => return Err(error()),
            OnBadRow::Null if count < self.width => {
                self.tally.values((self.width - count) as u64, error);
            }
            OnBadRow::Null | OnBadRow::Skip if is_kept => {
                self.tally.row(error);
                is_kept = false;
            }
            OnBadRow::Null | OnBadRow::Skip => {}
        }
        for values in self.values.iter_mut().skip(count).flatten() {
            values.append_null();
        }
        Ok(is_kept)
    }

    /// The error for the value of a field, which need not be valid text.
    fn wrong_value(&self, place: usize, text: Option<&str>) -> Error {
        let Some(text) = text else {
            return open_quote();
        };
        let wanted = self.values.iter().take(place).flatten().count();
        let column = self.names.field(wanted);
        let misfit = Misfit {
            column: column.name().clone(),
            text: text.to_owned(),
            data_type: column.data_type().clone(),
        };
        misfit.error()
    }
}

/// The error for a record with this number of fields.
fn wrong_width(count: usize, width: usize) -> Error {
    let cause = format!(
        "{}, where the file has {}",
        units::counted(count as u64, "field"),
        units::counted(width as u64, "column")
    );
    Error::corrupt(PARSE, cause).hint(
        "correct the record; -t sets the separator of fields, quotes protect separators inside a \
         field, and --on-error skip leaves such records out",
    )
}

/// Whether a record still fits into a batch that has this much text.
///
/// # Errors
/// Usage: the record alone is too long for a batch.
fn has_room(record: &[u8], taken_bytes: usize, bytes_max: usize, begin_bytes: u64) -> Result<bool> {
    if record.len() <= bytes_max {
        return Ok(taken_bytes + record.len() <= bytes_max);
    }
    let cause = format!(
        "a record of {} exceeds {}, the limit of a text column",
        units::bytes(record.len() as u64),
        units::bytes(bytes_max as u64)
    );
    let error = Error::usage(PARSE, cause).offset(begin_bytes);
    Err(error.hint("cut the record into several"))
}

fn open_quote() -> Error {
    Error::corrupt(PARSE, "a field is not UTF-8, or its quote is not closed")
        .hint("close the quote, or convert the file: iconv -t UTF-8 IN > OUT")
}

/// Trial parsing, and the count of what it rejects.
struct Trial<'a> {
    probe: &'a mut Probe,
    tally: &'a mut Tally,
}

/// Trial parsing of JSON lines.
struct Probe {
    fields: Fields,
    fills: bool,
    rows: Rows,
}

impl Probe {
    fn of(full: &Schema, on_bad: OnBadRow) -> Result<Self> {
        let fields = full.fields().clone();
        Ok(Probe {
            fills: on_bad == OnBadRow::Null,
            rows: Rows::of(&fields, |_| true)?,
            fields,
        })
    }

    /// Tries the line at a byte offset of the file, and returns whether it is kept.
    fn keeps(&mut self, line: &[u8], begin_bytes: u64, tally: &mut Tally) -> Result<bool> {
        let text = str::from_utf8(line)
            .map_err(|error| not_utf8(begin_bytes + error.valid_up_to() as u64));
        match text.and_then(|text| self.rows.take_or_fill(text, self.fills)) {
            Ok(None) => Ok(true),
            Ok(Some(filled)) => {
                tally.values(filled.count, || filled.first.offset(begin_bytes));
                Ok(true)
            }
            Err(error) => {
                tally.row(|| error.offset(begin_bytes));
                // The partly parsed line cannot be removed from the builders.
                self.rows = Rows::of(&self.fields, |_| true)?;
                Ok(false)
            }
        }
    }
}

/// Parses the nonempty lines that start at byte `at`, and returns their number.
fn take_lines(
    rows: &mut Rows,
    mut trial: Option<Trial<'_>>,
    piece: &Piece,
    at: &mut usize,
    room: BatchRoom,
) -> Result<usize> {
    let bytes = &piece.bytes[..];
    let (mut rows_count, mut taken_bytes) = (0, 0);
    while rows_count < room.rows_max && *at < bytes.len() {
        let begin = *at;
        let end = memchr(b'\n', &bytes[begin..]).map_or(bytes.len(), |place| begin + place + 1);
        let line = &bytes[begin..end];
        if is_blank(line, Records::Lines) {
            *at = end;
            continue;
        }
        let begin_bytes = piece.from_bytes + begin as u64;
        if !has_room(line, taken_bytes, room.bytes_max, begin_bytes)? {
            break;
        }
        *at = end;
        taken_bytes += line.len();
        let mut fills = false;
        if let Some(Trial { probe, tally }) = &mut trial {
            fills = probe.fills;
            if !probe.keeps(line, begin_bytes, tally)? {
                continue;
            }
        }
        let text = str::from_utf8(line)
            .map_err(|error| not_utf8(begin_bytes + error.valid_up_to() as u64))?;
        rows.take_or_fill(text, fills)
            .map_err(|error| error.offset(begin_bytes))?;
        rows_count += 1;
    }
    if let Some(Trial { probe, .. }) = trial {
        let tried = probe.rows.finish();
        tried.map_err(|error| fault::arrow(PARSE, &error))?;
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
        let piece = Piece {
            bytes: Bytes::from_static(text.as_bytes()),
            from_bytes: 0,
            records,
        };
        let shape = Shape {
            full: &full,
            columns: &[0],
            is_inferred: &[false],
            rules: &Rules::default(),
        };
        let mut reader = TextReader::new(piece, shape, 100)?;
        reader.at_once.bytes_max = bytes_max;
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
            end: b'\n',
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
