//! Functions on graphs.
//!
//! Contract: as in [`super`].

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::{graph, request, run};

/// Converts edges to a graph; what it is, as JSON.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn graph_convert(
    py: Python<'_>,
    request: graph::ConvertRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    run::watch(py, tell, |run| graph::convert(request, run))
}

/// What vertices of a graph were called: those that are named, or all.
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

/// The vertices of a graph that are called so, each or none.
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

/// What a graph is, as JSON.
#[pyfunction]
pub(crate) fn graph_info(
    py: Python<'_>,
    dir: PathBuf,
    resources: request::Resources,
) -> PyResult<String> {
    run::watch(py, None, move |run| graph::info(&dir, &resources, run))
}

/// The values of vertices that a kernel computes.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn graph_kernel<'py>(
    py: Python<'py>,
    request: graph::KernelRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    let values = run::watch(py, tell, |run| graph::kernel(request, run))?;
    Ok(PyByteArray::new(py, &values))
}
