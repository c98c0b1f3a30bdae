//! Columns of a table as plain numbers and strings, for callers that do not use Arrow.
//!
//! Contract: [`PlainColumns`] reads some columns, with several threads that take one piece at a
//! time. It passes rows in batches that know their file and their first row there. Integers become
//! `i64`, or `u64` for unsigned 64-bit types; strings become `&str`. In columns requested as
//! numbers, four-byte floats stay `f32`, and all other types become `f64`. A null is an error that
//! reports column and row, and so is a weight of 2^63 or more in a column of `u64`.
//!
//! Bounds: [`PlainColumns::memory_bytes`] of memory, which this module reserves itself; one read of
//! the columns.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::DataType;
use outcore::{Error, Job, Result};
use outcore_io::memory::Budget;

use super::rows_in::{ReadShape, parts_of, position_of};
use super::sort::read_shape;
use crate::fault;
use crate::input::{InputOptions, Piece, PieceQueue, TableInput};
use crate::notation::notation;
use crate::schema::column_index;

const READ: &str = "read columns";
/// The most rows of a batch.
const ROWS_AT_ONCE: usize = 4096;
/// Pieces that a sample reads.
const SAMPLE_PIECES: usize = 8;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainType {
    /// Signed integers.
    Whole,
    /// Unsigned 64-bit integers.
    Unsigned,
    /// Strings.
    Text,
    /// Four-byte floats.
    Float32,
    /// Eight-byte floats.
    Float64,
}

/// The values of a column in a batch.
#[derive(Debug)]
pub enum PlainValues<'b> {
    /// Signed integers.
    Whole(&'b [i64]),
    /// Unsigned integers.
    Unsigned(&'b [u64]),
    /// Strings.
    Text(Vec<&'b str>),
    /// Four-byte floats.
    Float32(&'b [f32]),
    /// Eight-byte floats.
    Float64(&'b [f64]),
}

/// A batch of consecutive rows of a file.
#[derive(Debug)]
pub struct PlainBatch<'b> {
    /// The file.
    pub path: &'b Path,
    /// The number of the first row in the file, from 0.
    pub first_row: u64,
    /// The columns, in the requested order.
    pub columns: Vec<PlainValues<'b>>,
}

/// Takes a batch and its number. Numbers of consecutive batches differ by at least the number of
/// rows.
pub type TakePlain<'t> = dyn FnMut(&PlainBatch<'_>, u64) -> Result<()> + 't;

/// Columns of a table; see the module.
pub struct PlainColumns {
    input: TableInput,
    types: Vec<PlainType>,
    names: Vec<String>,
    /// For each piece, its first row in its file.
    firsts: Vec<u64>,
    paths: Vec<PathBuf>,
    shape: ReadShape,
    queue: PieceQueue,
    begun: AtomicUsize,
}

impl PlainColumns {
    /// Opens the columns `names` of the table in `paths`. The last `as_numbers` of them must be
    /// numbers.
    ///
    /// # Errors
    /// As [`TableInput::open`]. Usage: a column with neither numbers nor strings.
    pub fn open(job: &Job, paths: &[PathBuf], names: &[String], as_numbers: usize) -> Result<Self> {
        let options = InputOptions {
            columns: Some(names.to_vec()),
            ..InputOptions::default()
        };
        let sizes = TableInput::open(job, paths, &options)?;
        let shape = read_shape(job, sizes.need(), usize::MAX);
        let mut own = job.clone();
        own.budget = Budget::new(shape.reader_bytes * shape.readers_count as u64);
        let input = sizes.narrowed(names, &own)?;
        let numbers_from = names.len().saturating_sub(as_numbers);
        let typed = names.iter().enumerate();
        let types = typed.map(|(number, name)| plain_type(&input, name, number >= numbers_from));
        let mut firsts = Vec::new();
        let mut last: Option<(usize, u64)> = None;
        for piece in input.pieces() {
            let first = last.filter(|(file, _)| *file == piece.file);
            let first = first.map_or(0, |(_, end)| end);
            firsts.push(first);
            last = Some((piece.file, first + piece.rows_count));
        }
        Ok(PlainColumns {
            types: types.collect::<Result<_>>()?,
            names: names.to_vec(),
            firsts,
            paths: input.paths().map(Path::to_path_buf).collect(),
            input,
            shape,
            queue: PieceQueue::new(shape.readers_count),
            begun: AtomicUsize::new(0),
        })
    }

    /// The types of the columns.
    pub fn types(&self) -> &[PlainType] {
        &self.types
    }

    /// The number of rows.
    pub fn rows_count(&self) -> u64 {
        self.input.rows_count()
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.input.read_bytes()
    }

    /// Memory of all threads together.
    pub fn memory_bytes(&self) -> u64 {
        // Arrays as read, arrays of one type, and the caller's copies.
        let batches_bytes = 3 * self.shape.batch_bytes;
        (self.shape.reader_bytes + batches_bytes) * self.shape.readers_count as u64
    }

    /// Passes the first rows of some pieces, evenly spread over the table, to `take`.
    ///
    /// # Errors
    /// Errors of reading and of `take`.
    pub fn sample(&self, take: &mut TakePlain<'_>) -> Result<()> {
        let pieces = self.input.pieces();
        let mut reader = self.input.reader(self.shape.reader_bytes)?;
        let numbers = (0..pieces.len()).step_by(pieces.len().div_ceil(SAMPLE_PIECES).max(1));
        reader.expect(numbers.clone().map(|number| pieces[number]));
        for number in numbers {
            let Some(batch) = reader.open(pieces[number])?.next() else {
                continue;
            };
            let batch = batch?;
            let shown = batch.slice(0, batch.num_rows().min(ROWS_AT_ONCE));
            self.show(&shown, pieces[number], self.firsts[number], 0, take)?;
        }
        Ok(())
    }

    /// Passes all rows to `take`. Every thread calls this, and each row goes to one thread. There
    /// is one pass.
    ///
    /// # Errors
    /// As [`PlainColumns::sample`].
    pub fn make(&self, take: &mut TakePlain<'_>) -> Result<()> {
        if self.begun.fetch_add(1, Ordering::Relaxed) >= self.shape.readers_count {
            return Ok(());
        }
        let mut reader = self.input.reader(self.shape.reader_bytes)?;
        while let Some((number, piece)) = reader.take(&self.queue) {
            let mut position = position_of(number)?;
            let mut row = self.firsts[number];
            for batch in reader.open(piece)? {
                for part in parts_of(&batch?, ROWS_AT_ONCE) {
                    self.show(&part, piece, row, position, take)?;
                    row += part.num_rows() as u64;
                    position += part.num_rows() as u64;
                }
            }
        }
        Ok(())
    }

    fn show(
        &self,
        batch: &RecordBatch,
        piece: Piece,
        first_row: u64,
        position: u64,
        take: &mut TakePlain<'_>,
    ) -> Result<()> {
        let path = self
            .paths
            .get(piece.file)
            .map_or(Path::new(""), PathBuf::as_path);
        let mut plain: Vec<ArrayRef> = Vec::new();
        for (number, kind) in self.types.iter().enumerate() {
            let wanted = match kind {
                PlainType::Whole => DataType::Int64,
                PlainType::Text => DataType::LargeUtf8,
                PlainType::Unsigned => DataType::UInt64,
                PlainType::Float32 => DataType::Float32,
                PlainType::Float64 => DataType::Float64,
            };
            let column = cast(batch.column(number), &wanted);
            let column = column.map_err(|error| fault::arrow(READ, &error).path(path))?;
            if let Some(index) = (0..column.len()).find(|index| column.is_null(*index)) {
                let cause = match batch.column(number).is_null(index) {
                    true => "null",
                    false => "beyond 2^63 - 1",
                };
                let row = first_row + index as u64;
                let name = &self.names[number];
                return Err(Error::corrupt(
                    READ,
                    format!("row {row} of column `{name}` is {cause}"),
                )
                .path(path)
                .hint("leave out such rows first, with outcore filter"));
            }
            plain.push(column);
        }
        let typed = plain.iter().zip(&self.types);
        let columns = typed.map(|(column, kind)| match kind {
            PlainType::Whole => PlainValues::Whole(column.as_primitive::<Int64Type>().values()),
            PlainType::Unsigned => {
                PlainValues::Unsigned(column.as_primitive::<UInt64Type>().values())
            }
            PlainType::Float32 => {
                PlainValues::Float32(column.as_primitive::<Float32Type>().values())
            }
            PlainType::Float64 => {
                PlainValues::Float64(column.as_primitive::<Float64Type>().values())
            }
            PlainType::Text => {
                let texts = column.as_string::<i64>();
                PlainValues::Text((0..texts.len()).map(|row| texts.value(row)).collect())
            }
        });
        let batch = PlainBatch {
            path,
            first_row,
            columns: columns.collect(),
        };
        take(&batch, position)
    }
}

fn plain_type(input: &TableInput, name: &str, is_number: bool) -> Result<PlainType> {
    let field = input
        .schema()
        .field(column_index(input.schema(), name, READ)?);
    let values = match field.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    match values {
        DataType::UInt64 if !is_number => Ok(PlainType::Unsigned),
        other if other.is_integer() => Ok(PlainType::Whole),
        DataType::Float16 | DataType::Float32 if is_number => Ok(PlainType::Float32),
        other if is_number && other.is_numeric() => Ok(PlainType::Float64),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if !is_number => {
            Ok(PlainType::Text)
        }
        other => {
            let wanted = match is_number {
                true => "numbers",
                false => "whole numbers or strings",
            };
            let cause = format!(
                "column `{name}` is {}, but {wanted} are needed",
                notation(other)
            );
            Err(Error::usage(READ, cause).hint("name another column"))
        }
    }
}
