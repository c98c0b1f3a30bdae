//! Vectors from a column of a table, and vectors selected by a condition on a table. This module
//! connects `outcore-table` and `outcore-vector`, which do not depend on each other.
//!
//! Contract: as [`outcore_table::jobs::VectorColumn`] and [`outcore_table::jobs::RowsWhere`], with
//! the feature `tables`; the extension of the output selects its format.

use std::path::Path;

use outcore::Phase;
#[cfg(feature = "tables")]
use {
    outcore::{Error, Job, Result},
    outcore_io::units,
    outcore_table::jobs::{RowsWhere, VectorColumn},
    outcore_table::output::VectorLayout,
    outcore_vector::format::{Element, VectorFile},
    outcore_vector::knn::Subset,
    std::path::PathBuf,
};

/// A place where a table or an array is written.
#[derive(Debug, Clone, Copy)]
pub struct TablePlace<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Whether it may exist already.
    pub replace: bool,
}

/// Result of writing a column of vectors.
#[derive(Debug)]
pub struct WrittenColumn {
    /// Its name.
    pub column: String,
    /// Kind of number and dimension.
    pub type_name: String,
    /// Number of vectors.
    pub rows_count: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The phases of the copy, with their predictions.
    pub phases: Vec<Phase>,
}

/// Writes the vectors in `column` of the table `input`, or in its only column of vectors.
///
/// # Errors
/// As [`VectorColumn::open`] and [`VectorColumn::write`].
#[cfg(feature = "tables")]
pub fn write_vectors(
    job: &Job,
    input: &Path,
    column: Option<&str>,
    to: TablePlace<'_>,
) -> Result<WrittenColumn> {
    let vectors = VectorColumn::open(job, &[input.to_path_buf()], column)?;
    let kind = vectors.kind();
    let element = Element::named(kind)
        .ok_or_else(|| Error::usage("read vectors", format!("{kind} is not a kind of number")))?;
    let (dimension, rows_count) = (vectors.dimension(), vectors.rows_count());
    let (front, lead) = VectorFile::fronts(to.path, element, dimension, rows_count)?;
    let layout = VectorLayout {
        dimension,
        front,
        lead,
    };
    let done = vectors.write(job, to.path, to.replace, layout)?;
    Ok(WrittenColumn {
        column: vectors.name().to_string(),
        type_name: format!("{kind}x{dimension}"),
        rows_count,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        phases: done.phases,
    })
}

/// The rows of `base` for whose row in the table in `tables` the `condition` is true.
///
/// # Errors
/// As [`RowsWhere::open`] and [`RowsWhere::each`]; usage if the table and `base` have different
/// numbers of rows.
#[cfg(feature = "tables")]
pub fn rows_where(
    job: &Job,
    base: &VectorFile,
    condition: &str,
    tables: &[PathBuf],
) -> Result<Subset> {
    let rows = RowsWhere::open(job, tables, condition)?;
    if rows.rows_count() != base.rows {
        let cause = format!(
            "the table has {}, but the base has {}",
            units::counted(rows.rows_count(), "row"),
            units::counted(base.rows, "row")
        );
        let error = Error::usage("choose vectors", cause);
        return Err(error
            .path(tables.first().map_or(Path::new(""), PathBuf::as_path))
            .hint("name a table with a row for each vector, in the same order"));
    }
    Subset::marked(job, base, |marks| rows.each(job, |row| marks.add(row)))
}
