//! A column of vectors out of a table, and vectors chosen by what a table says of them: where
//! `outcore-table` and `outcore-vector`, neither of which knows of the other, meet.
//!
//! Contract: as [`outcore_table::jobs::VectorColumn`] and [`outcore_table::jobs::RowsWhere`], with
//! the feature `tables`; the name of the output tells its format.

use outcore::Phase;
#[cfg(feature = "tables")]
use {
    outcore::{Error, Job, Result},
    outcore_io::units,
    outcore_table::jobs::{RowsWhere, VectorColumn},
    outcore_vector::format::{Element, VectorFile},
    outcore_vector::knn::Subset,
    std::path::{Path, PathBuf},
};

/// What became of a column of vectors in a table.
#[derive(Debug)]
pub struct WrittenColumn {
    /// Its name.
    pub column: String,
    /// Kind of number and dimension.
    pub type_name: String,
    /// Vectors.
    pub rows_count: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// The phases of the copy, beside what was planned of them.
    pub phases: Vec<Phase>,
}

/// Writes the vectors in `column` of the table `input`, or in the only column that has some.
///
/// # Errors
/// As [`VectorColumn::open`] and [`VectorColumn::write`].
#[cfg(feature = "tables")]
pub fn write_vectors(
    job: &Job,
    input: &Path,
    column: Option<&str>,
    (path, replace): (&Path, bool),
) -> Result<WrittenColumn> {
    let vectors = VectorColumn::open(job, &[input.to_path_buf()], column)?;
    let kind = vectors.kind();
    let element = Element::named(kind)
        .ok_or_else(|| Error::usage("read vectors", format!("{kind} is not a kind of number")))?;
    let (dimension, rows_count) = (vectors.dimension(), vectors.rows_count());
    let fronts = VectorFile::fronts(path, element, dimension, rows_count)?;
    let done = vectors.write(job, (path, replace), fronts)?;
    Ok(WrittenColumn {
        column: vectors.name().to_string(),
        type_name: format!("{kind}x{dimension}"),
        rows_count,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        phases: done.phases,
    })
}

/// The rows of `base` for which `condition` is true of the same row of the table in `tables`.
///
/// # Errors
/// As [`RowsWhere::open`] and [`RowsWhere::each`]; usage: a table with more rows than `base`, or
/// fewer.
#[cfg(feature = "tables")]
pub fn rows_where(
    job: &Job,
    base: &VectorFile,
    (condition, tables): (&str, &[PathBuf]),
) -> Result<Subset> {
    let rows = RowsWhere::open(job, tables, condition)?;
    if rows.rows_count() != base.rows {
        let cause = format!(
            "the table has {}, and the base has {}",
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
