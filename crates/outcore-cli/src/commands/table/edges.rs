//! Tables as the edges of a graph.
//!
//! Contract: thin over [`outcore_front::table_edges`] and the conversion of edges.

use std::path::{Path, PathBuf};

use outcore::{Job, Result};
use outcore_front::table_edges::{EdgeColumns, TableEdges};
use outcore_graph::convert::{ConvertOptions, ConvertSummary, convert_rows};

/// Converts the edges in the two columns that `options` name, or the first two, to a graph in the
/// directory `dir`.
pub(crate) fn convert_edges(
    job: &Job,
    files: &[PathBuf],
    dir: &Path,
    options: &ConvertOptions,
) -> Result<ConvertSummary> {
    let columns = EdgeColumns {
        ends: options.read.columns.clone(),
        is_weighted: options.read.is_weighted,
        weight: options.read.weight_column.clone(),
        weight_type: options.read.weight_type,
    };
    let edges = TableEdges::open(job, files, &columns)?;
    convert_rows(job, &edges, dir, options)
}
