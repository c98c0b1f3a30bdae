//! Functions on graphs.
//!
//! Contract: as in [`super`].

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::{graph, request, run};

/// The original names of vertices of a graph: the given ones, or all.
#[pyfunction]
#[pyo3(signature = (dir, vertices, resources))]
pub(crate) fn graph_names(
    py: Python<'_>,
    dir: PathBuf,
    vertices: Option<Vec<u32>>,
    resources: request::Resources,
) -> PyResult<Vec<String>> {
    run::watch(py, None, move |run| {
        graph::names(&dir, vertices, &resources, run)
    })
}

/// The vertices of a graph with these names; none for an unknown name.
#[pyfunction]
pub(crate) fn graph_vertices(
    py: Python<'_>,
    dir: PathBuf,
    names: Vec<String>,
    resources: request::Resources,
) -> PyResult<Vec<Option<u32>>> {
    run::watch(py, None, move |run| {
        graph::vertices(&dir, &names, &resources, run)
    })
}

/// The original ids of all vertices of a graph, if these are numbers.
#[pyfunction]
pub(crate) fn graph_ids(
    py: Python<'_>,
    dir: PathBuf,
    resources: request::Resources,
) -> PyResult<Bound<'_, PyByteArray>> {
    let ids = run::watch(py, None, move |run| graph::ids(&dir, &resources, run))?;
    Ok(PyByteArray::new(py, &ids))
}

/// All edges of a graph.
#[pyfunction]
pub(crate) fn graph_edges(
    py: Python<'_>,
    dir: PathBuf,
    resources: request::Resources,
) -> PyResult<Bound<'_, PyByteArray>> {
    let edges = run::watch(py, None, move |run| graph::edges(&dir, &resources, run))?;
    Ok(PyByteArray::new(py, &edges))
}
