//! Functions on vectors.
//!
//! Contract: as in [`super`].

use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::{run, vector};

/// The nearest rows of vectors: rows, distances, and how the search went as JSON.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn vector_knn<'py>(
    py: Python<'py>,
    request: vector::KnnRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Bound<'py, PyByteArray>, Bound<'py, PyByteArray>, String)> {
    let (ids, distances, facts) = run::watch(py, tell, |run| vector::knn(request, run))?;
    let array = |bytes: &[u8]| PyByteArray::new(py, bytes);
    Ok((array(&ids), array(&distances), facts))
}

/// Writes vectors in another format; how many there are.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn vector_convert(
    py: Python<'_>,
    request: vector::VectorConvertRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    run::watch(py, tell, |run| vector::convert(request, run))
}

/// An index of vectors, in a file; its bytes.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn vector_index(
    py: Python<'_>,
    request: vector::IndexRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    run::watch(py, tell, |run| vector::index(request, run))
}

/// Rows of vectors within a radius: limits, rows or pairs of rows, and distances.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn vector_range<'py>(
    py: Python<'py>,
    request: vector::RangeRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
)> {
    let (limits, ids, distances) = run::watch(py, tell, |run| vector::range(request, run))?;
    let array = |bytes: &[u8]| PyByteArray::new(py, bytes);
    Ok((array(&limits), array(&ids), array(&distances)))
}

/// Centroids of vectors, and what belongs to them as JSON.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn vector_kmeans<'py>(
    py: Python<'py>,
    request: vector::KmeansRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Bound<'py, PyByteArray>, String)> {
    let (centroids, facts) = run::watch(py, tell, |run| vector::kmeans(request, run))?;
    Ok((PyByteArray::new(py, &centroids), facts))
}

/// Writes the number of the nearest centroid for each vector.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn vector_label(
    py: Python<'_>,
    request: vector::LabelRequest,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    run::watch(py, tell, |run| vector::label(request, run))
}
