//! Tables as inputs and results of the verbs on graphs and vectors.
//!
//! Contract: thin over [`outcore_front`]. A build without the feature `tables` has the same
//! functions: they treat no name as a table, and reject tables.

use std::path::{Path, PathBuf};

use outcore::primitives::Summary;
use outcore::{Job, Result};
pub(crate) use outcore_front::table_vectors::TablePlace;
use outcore_front::table_vectors::WrittenColumn;
use outcore_graph::convert::{ConvertOptions, ConvertSummary};
use outcore_graph::graph::names::Names;
use outcore_graph::kernels::LabelFile;
use outcore_graph::results::Values;
use outcore_vector::format::VectorFile;
use outcore_vector::kmeans::{Clustering, LabelOutput};
use outcore_vector::knn::Subset;
#[cfg(feature = "tables")]
use {
    outcore_front::table_edges::{EdgeColumns, TableEdges},
    outcore_front::{result_tables, table_vectors},
    outcore_graph::convert::convert_rows,
    outcore_table::input,
};

/// Takes rows of ids, one after another, and a distance for each row.
type TakeNear<'t> = dyn FnMut(&[u64], &[f64]) -> Result<()> + 't;

/// Defines functions by their bodies with the feature `tables`, and without it.
macro_rules! functions {
    ($(
        $(#[doc = $doc:literal])*
        fn $name:ident($($arg:ident: $kind:ty),*) -> $result:ty = $with:expr, or $without:expr;
    )*) => {$(
        $(#[doc = $doc])*
        pub(crate) fn $name($($arg: $kind),*) -> $result {
            #[cfg(feature = "tables")]
            return $with;
            #[cfg(not(feature = "tables"))]
            {
                $(let _ = &$arg;)*
                $without
            }
        }
    )*};
}

#[cfg(not(feature = "tables"))]
use crate::verb::without_tables;

functions! {
    /// Whether a result with this name is a table.
    fn is_table_name(name: &Path) -> bool = result_tables::is_table_name(name), or false;

    /// Whether a result with this name is a table or CSV.
    fn has_columns(name: &Path) -> bool = result_tables::has_columns(name), or false;

    /// Whether a name means several tables.
    fn is_several(name: &Path) -> bool = input::is_several(name), or false;

    /// Fails for an output that a later run would read as a part of an input.
    fn check_not_read_again(inputs: &[&Path], outputs: &[&Path]) -> Result<()> =
        input::check_not_read_again(inputs.iter().copied(), outputs), or Ok(());

    /// Writes the cluster of each row.
    fn write_clusters(
        job: &Job, base: &VectorFile, clustering: &Clustering, output: &LabelOutput<'_>
    ) -> Result<Summary> =
        result_tables::write_clusters(job, base, clustering, output),
        or outcore_vector::kmeans::write_labels(job, base, clustering, output);

    /// Writes the results of a search: a column for each of `ids`, and the distance.
    fn write_near(
        job: &Job, to: TablePlace<'_>, ids: &[&str],
        find: impl FnOnce(&mut TakeNear<'_>) -> Result<()>
    ) -> Result<u64> =
        result_tables::write_near(job, to, ids, find),
        or Err(without_tables());

    /// Writes a value for each vertex.
    fn write_values(
        job: &Job, to: TablePlace<'_>, values: &Values, names: Option<&Names>
    ) -> Result<u64> =
        result_tables::write_values(job, to, values, names),
        or Err(without_tables());

    /// Writes a label for each vertex, from a file on scratch.
    fn write_labels(
        job: &Job, to: TablePlace<'_>, labels: &LabelFile, names: Option<&Names>
    ) -> Result<u64> =
        result_tables::write_labels(job, to, labels, names),
        or Err(without_tables());

    /// Writes rows of vertices.
    fn write_rows(
        job: &Job, to: TablePlace<'_>, vertices: &[u32], columns: &[String], names: Option<&Names>
    ) -> Result<u64> =
        result_tables::write_rows(job, to, vertices, columns, names),
        or Err(without_tables());

    /// Writes the vectors in a column of a table.
    fn write_vectors(
        job: &Job, input: &Path, column: Option<&str>, to: TablePlace<'_>
    ) -> Result<WrittenColumn> =
        table_vectors::write_vectors(job, input, column, to),
        or Err(without_tables());

    /// The rows of `base` for which a condition holds in the same row of the tables.
    fn rows_where(
        job: &Job, base: &VectorFile, condition: &str, tables: &[PathBuf]
    ) -> Result<Subset> =
        table_vectors::rows_where(job, base, condition, tables), or Err(without_tables());

    /// Converts the edges in the two columns that `options` name, or in the first two, to a graph.
    fn convert_edges(
        job: &Job, files: &[PathBuf], dir: &Path, options: &ConvertOptions
    ) -> Result<ConvertSummary> = {
        let columns = EdgeColumns {
            ends: options.read.columns.clone(),
            is_weighted: options.read.is_weighted,
            weight: options.read.weight_column.clone(),
            weight_type: options.read.weight_type,
        };
        let edges = TableEdges::open(job, files, &columns)?;
        convert_rows(job, &edges, dir, options)
    }, or Err(without_tables());
}
