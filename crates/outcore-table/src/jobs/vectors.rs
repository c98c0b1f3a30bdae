//! Writes a column of vectors, such as embeddings, as a file of vectors.
//!
//! Contract: a [`VectorColumn`] is a column of number lists of equal length: the named column, or
//! the only such column in the table. [`VectorColumn::write`] copies it ([`copy`](super::copy()))
//! to a file, in the order of the rows, absent or whole.
//!
//! Bounds: those of a copy of one column. If the type of the lists does not give their length, one
//! row is read in addition.

use std::path::{Path, PathBuf};

use arrow_array::Array;
use arrow_schema::DataType;
use outcore::{Error, Job, Result};
use outcore_io::drive::paths;

use super::TableSummary;
use super::copy::{Nothing, copy_changed};
use crate::input::{InputOptions, TableInput};
use crate::notation::notation;
use crate::output::vectors::{lists_of, span_of};
use crate::output::{OutputOptions, TableFormat, VectorLayout};
use crate::schema::column_index;

const READ: &str = "read vectors";

/// See the module.
pub struct VectorColumn {
    input: TableInput,
    name: String,
    kind: &'static str,
    dimension: usize,
}

impl VectorColumn {
    /// Opens the column `name` of the table in `paths`, or its only column of vectors.
    ///
    /// # Errors
    /// As [`TableInput::open`]. Usage: a column without vectors, several candidates, a table
    /// without rows.
    pub fn open(job: &Job, paths: &[PathBuf], name: Option<&str>) -> Result<Self> {
        let table = TableInput::open(job, paths, &InputOptions::default())?;
        let schema = table.schema();
        let place = paths.first().map_or(Path::new(""), PathBuf::as_path);
        let index_of = |name: &str| {
            let index = column_index(schema, name, READ);
            index.map_err(|error| error.path(place))
        };
        let name = match name {
            Some(name) => schema.field(index_of(name)?).name().clone(),
            None => {
                let fields = schema.fields().iter();
                let lists = fields.filter(|field| lists_of(field.data_type()).is_some());
                let names: Vec<&String> = lists.map(|field| field.name()).collect();
                match names[..] {
                    [name] => name.clone(),
                    [] => {
                        let error =
                            Error::usage(READ, "the table has no column of lists of numbers");
                        return Err(error.path(place).hint("name another table"));
                    }
                    _ => {
                        let cause = format!("{} columns have lists of numbers", names.len());
                        return Err(Error::usage(READ, cause)
                            .path(place)
                            .hint("name one of them with --column"));
                    }
                }
            }
        };
        let field = schema.field(index_of(&name)?);
        let refused = |cause: String| {
            Error::usage(READ, format!("column `{name}` {cause}"))
                .path(place)
                .hint("name a column with lists of f16, f32, f64, i8, u8, i32 or i64")
        };
        let Some((numbers, len)) = lists_of(field.data_type()) else {
            return Err(refused(format!("is {}", notation(field.data_type()))));
        };
        let kind = kind_of(numbers)
            .ok_or_else(|| refused(format!("has lists of {}", notation(numbers))))?;
        let input = table.narrowed(std::slice::from_ref(&name), job)?;
        let dimension = match len {
            Some(len) => len,
            None => first_len(job, &input)?,
        };
        match (dimension, input.rows_count()) {
            (_, 0) => Err(Error::usage(READ, "the table has no rows")
                .path(place)
                .hint("name another table")),
            (0, _) => Err(
                Error::usage(READ, format!("row 0 of column `{name}` is an empty list"))
                    .path(place)
                    .hint("leave out such rows first, with outcore filter"),
            ),
            _ => Ok(VectorColumn {
                input,
                name,
                kind,
                dimension,
            }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its numbers: `f16`, `f32`, `f64`, `i8`, `u8`, `i32` or `i64`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Numbers per vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The number of vectors.
    pub fn rows_count(&self) -> u64 {
        self.input.rows_count()
    }

    /// Writes the vectors to `path`: `front` once, then `lead` and the numbers of each vector.
    ///
    /// # Errors
    /// Usage: a null, a vector of another length, an existing file unless `replace`. As
    /// [`copy`](super::copy()).
    pub fn write(
        &self,
        job: &Job,
        path: &Path,
        replace: bool,
        layout: VectorLayout,
    ) -> Result<TableSummary> {
        let key = paths::key(path);
        if key.is_some() && self.input.paths().any(|input| paths::key(input) == key) {
            return Err(Error::usage("create output", "it is an input")
                .path(path)
                .hint("name another file"));
        }
        let options = OutputOptions {
            is_replacing: replace,
            vectors: layout,
            ..OutputOptions::new(TableFormat::Vectors)
        };
        let paths = [path.to_path_buf()];
        let to = (&paths[..], self.input.schema(), &options);
        copy_changed(job, &self.input, to, &Nothing(self.input.pieces()))?.publish()
    }
}

/// The length of the list in the first row.
fn first_len(job: &Job, input: &TableInput) -> Result<usize> {
    let mut reader = input.reader(job.budget.free_bytes() / 3)?;
    let filled = input.pieces().iter().find(|piece| piece.rows_count > 0);
    let Some(&piece) = filled else {
        return Ok(0);
    };
    let Some(batch) = reader.open(piece)?.next() else {
        return Ok(0);
    };
    let batch = batch?;
    match batch.num_rows() {
        0 => Ok(0),
        _ if batch.column(0).is_null(0) => Err(Error::usage(READ, "row 0 is null")
            .hint("leave out such rows first, with outcore filter")),
        _ => Ok(span_of(batch.column(0), 0).len()),
    }
}

fn kind_of(numbers: &DataType) -> Option<&'static str> {
    Some(match numbers {
        DataType::Float16 => "f16",
        DataType::Float32 => "f32",
        DataType::Float64 => "f64",
        DataType::Int8 => "i8",
        DataType::UInt8 => "u8",
        DataType::Int32 => "i32",
        DataType::Int64 => "i64",
        _ => return None,
    })
}
