//! Rows of a table as text, for people to look at and for tools that take lines.
//!
//! Contract: [`print`] gives a line with the names of the columns, and one a row, with tabs
//! between; so do [`add_header`] and [`add_rows`] of what is in memory. Tabs, ends of lines and
//! backslashes inside of values are written as `\\t`, `\\n`, `\\r` and `\\\\`; null is written as
//! nothing, as in CSV; times with a zone are in UTC. No more is read than is asked for.
//!
//! Bounds: a reader, and the text of a batch.

use std::fmt::Write as _;
use std::path::PathBuf;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::Schema;
use outcore::Job;
use outcore_io::Result;

use crate::fault;
use crate::input::{InputOptions, Piece, TableInput};
use crate::output::shown;

const PRINT: &str = "print rows";
/// Rows whose text is made at once.
const ROWS_AT_ONCE: usize = 256;

/// Hands the first `rows_count` rows of a table to `take`, as text of whole lines; how many there
/// were, and the bytes that were read.
///
/// # Errors
/// As [`TableInput::open`] and its readers; what `take` fails with.
pub fn print(
    job: &Job,
    (inputs, reads): (&[PathBuf], &InputOptions),
    rows_count: u64,
    take: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<(u64, u64)> {
    let input = TableInput::open(job, inputs, reads)?;
    let mut text = String::new();
    add_header(&mut text, input.schema());
    take(&text)?;
    let mut reader = input.reader(job.budget.free_bytes() / 2)?;
    let mut printed = 0;
    let mut before = 0;
    let is_printed = |piece: &&Piece| {
        let is_printed = before < rows_count;
        before += piece.rows_count;
        is_printed
    };
    reader.expect(input.pieces().iter().take_while(is_printed).copied());
    for &piece in input.pieces() {
        if printed == rows_count {
            break;
        }
        for batch in reader.open(piece)? {
            let batch = batch?;
            let left = usize::try_from(rows_count - printed).unwrap_or(usize::MAX);
            let batch = batch.slice(0, left.min(batch.num_rows()));
            for from in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
                let count = ROWS_AT_ONCE.min(batch.num_rows() - from);
                text.clear();
                add_rows(&mut text, &batch.slice(from, count))?;
                take(&text)?;
            }
            printed += batch.num_rows() as u64;
            if printed == rows_count {
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
