//! Rows of a table as text, for people to look at and for tools that take lines.
//!
//! Contract: [`print`] gives a line with the names of the columns, and one a row, with tabs
//! between; so do [`add_header`] and [`add_rows`] of what is in memory. Tabs, ends of lines and
//! backslashes inside of values are written as `\\t`, `\\n`, `\\r` and `\\\\`; null is written as
//! nothing, as in CSV; times with a zone are in UTC. No more is read than is asked for.
//!
//! Bounds: a reader, and the text of a batch.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::Schema;
use outcore::Job;
use outcore_io::Result;

use crate::fault;
use crate::input::{InputOptions, Piece, RowSpan, TableInput, common_rows};
use crate::output::shown;

const PRINT: &str = "print rows";
/// Rows whose text is made at once.
const ROWS_AT_ONCE: usize = 256;

/// Hands the rows of `span` of a table to `take`, as text of whole lines; how many there
/// were, and the bytes that were read.
///
/// # Errors
/// As [`TableInput::open`] and its readers; what `take` fails with.
pub fn print(
    job: &Job,
    (inputs, reads): (&[PathBuf], &InputOptions),
    span: RowSpan,
    take: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<(u64, u64)> {
    let input = TableInput::open(job, inputs, reads)?;
    let mut text = String::new();
    add_header(&mut text, input.schema());
    take(&text)?;
    let mut reader = input.reader(job.budget.free_bytes() / 2)?;
    let taken = span.of(input.rows_count());
    let mut printed = 0;
    let mut start = 0;
    let pieces = input.pieces().iter().map(|&piece| {
        let rows = start..start + piece.rows_count;
        start = rows.end;
        (piece, rows)
    });
    let pieces: Vec<(Piece, Range<u64>)> = pieces
        .filter(|(_, rows)| !common_rows(rows, &taken).is_empty())
        .collect();
    reader.expect(pieces.iter().map(|(piece, _)| *piece));
    for (piece, rows) in pieces {
        let mut at = rows.start;
        for batch in reader.open(piece)? {
            let batch = batch?;
            let rows = at..at + batch.num_rows() as u64;
            let of_batch = common_rows(&rows, &taken);
            at = rows.end;
            let count = (of_batch.end - of_batch.start) as usize;
            let from = (of_batch.start - rows.start) as usize;
            let batch = batch.slice(from.min(batch.num_rows()), count);
            for from in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
                let count = ROWS_AT_ONCE.min(batch.num_rows() - from);
                text.clear();
                add_rows(&mut text, &batch.slice(from, count))?;
                take(&text)?;
            }
            printed += batch.num_rows() as u64;
            if at >= taken.end {
                break;
            }
        }
    }
    Ok((printed, input.read_bytes()))
}

/// Appends the line with the names of the columns.
pub fn add_header(text: &mut String, schema: &Schema) {
    let names = schema.fields().iter();
    let names: Vec<String> = names.map(|field| escaped(field.name())).collect();
    *text += &names.join("\t");
    text.push('\n');
}

/// Appends a line for each row of `batch`.
///
/// # Errors
/// Corrupt: a value that cannot be shown.
pub fn add_rows(text: &mut String, batch: &RecordBatch) -> Result<()> {
    let options = FormatOptions::default();
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(batch.columns());
    let shown = fields.map(|(field, column)| shown(field, column));
    let shown: Vec<ArrayRef> = shown.collect::<Result<_>>()?;
    let columns = shown.iter();
    let columns = columns.map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
    let columns = columns.map_err(|error| fault::arrow(PRINT, &error))?;
    let mut value = String::new();
    for row in 0..batch.num_rows() {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                text.push('\t');
            }
            value.clear();
            // Writing to a text does not fail; a value that cannot be shown says so itself.
            let _ = write!(value, "{}", column.value(row));
            *text += &escaped(&value);
        }
        text.push('\n');
    }
    Ok(())
}

fn escaped(value: &str) -> String {
    if !value.contains(['\t', '\n', '\r', '\\']) {
        return value.to_owned();
    }
    let escape = |c| match c {
        '\t' => "\\t".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\\' => "\\\\".to_owned(),
        c => c.to_string(),
    };
    value.chars().map(escape).collect()
}
