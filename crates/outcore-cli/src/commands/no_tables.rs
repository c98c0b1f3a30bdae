//! What commands do about tables where the command was built without the feature `tables`: they
//! refuse them by name.
//!
//! Contract: the functions of the folder `table`, which is there otherwise.

use std::path::{Path, PathBuf};

use outcore::primitives::Summary;
use outcore::{Job, Result};
use outcore_graph::convert::{ConvertOptions, ConvertSummary};
use outcore_graph::graph::names::Names;
use outcore_graph::kernels::LabelFile;
use outcore_graph::results::Values;
use outcore_vector::format::VectorFile;
use outcore_vector::kmeans::{self, Clustering, LabelOutput};

use outcore_verbs::verb::without_tables;

/// Whether a result of that name is a table; there are none.
pub(crate) fn is_table_name(_: &Path) -> bool {
    false
}

/// The same for results that are tables or CSV.
pub(crate) fn has_columns(_: &Path) -> bool {
    false
}

/// No output is read again as a table.
#[expect(clippy::unnecessary_wraps, reason = "as with tables")]
pub(crate) fn check_not_read_again<'a>(
    _: impl Iterator<Item = &'a Path>,
    _: &[&Path],
) -> Result<()> {
    Ok(())
}

/// Whether a name means several tables; there are none.
pub(crate) fn is_several(_: &Path) -> bool {
    false
}

/// Writes the cluster of each row.
///
/// # Errors
/// As [`kmeans::write_labels`].
pub(crate) fn write_clusters(
    job: &Job,
    base: &VectorFile,
    clustering: &Clustering,
    output: &LabelOutput<'_>,
) -> Result<Summary> {
    kmeans::write_labels(job, base, clustering, output)
}

/// Fails for near vectors as a table.
pub(crate) fn write_near(
    _: &Job,
    _: (&Path, bool),
    _: &[&str],
    _: impl FnOnce(&mut dyn FnMut(&[u64], &[f64]) -> Result<()>) -> Result<()>,
) -> Result<u64> {
    Err(without_tables())
}

/// Fails for a result that is a table.
pub(crate) fn write_values(
    _: &Job,
    _: (&Path, bool),
    _: &Values,
    _: Option<&Names>,
) -> Result<u64> {
    Err(without_tables())
}

/// The same for labels on scratch.
pub(crate) fn write_labels(
    _: &Job,
    _: (&Path, bool),
    _: &LabelFile,
    _: Option<&Names>,
) -> Result<u64> {
    Err(without_tables())
}

/// The same for rows of vertices.
pub(crate) fn write_rows(
    _: &Job,
    _: (&Path, bool),
    _: (&[u32], &[String]),
    _: Option<&Names>,
) -> Result<u64> {
    Err(without_tables())
}

/// Fails for a column of a table.
pub(crate) fn write_vectors(
    _: &Job,
    _: &Path,
    _: Option<&str>,
    _: (&Path, bool),
) -> Result<outcore_front::table_vectors::WrittenColumn> {
    Err(without_tables())
}

/// Fails for vectors that are chosen by a table.
pub(crate) fn rows_where(
    _: &Job,
    _: &outcore_vector::format::VectorFile,
    _: (&str, &[PathBuf]),
) -> Result<outcore_vector::knn::Subset> {
    Err(without_tables())
}

pub(crate) fn convert_edges(
    _: &Job,
    _: &[PathBuf],
    _: &Path,
    _: &ConvertOptions,
) -> Result<ConvertSummary> {
    Err(without_tables())
}
