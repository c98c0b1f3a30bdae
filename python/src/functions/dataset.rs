//! Functions on lazy datasets: what they are, what is asked of them, what they write.
//!
//! Contract: as in [`super`].

use std::path::PathBuf;

use outcore_front::split::PartSize;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes};

use crate::dataset::{self, Batches, Dataset, consume};
use crate::reply;
use crate::request::CsvRows;

/// What the items of a dataset are, and its steps as text.
#[pyfunction]
pub(crate) fn describe(py: Python<'_>, request: Dataset) -> PyResult<(String, usize, String)> {
    dataset::describe(py, request)
}

/// The passes of a consumer.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, request: Dataset, consumer: String) -> PyResult<String> {
    dataset::explain(py, request, consumer)
}

/// Folds the items of a dataset by names or an expression.
#[pyfunction]
#[pyo3(signature = (request, how, tell))]
pub(crate) fn reduce(
    py: Python<'_>,
    request: Dataset,
    how: Vec<String>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    consume::reduce(py, request, how, tell)
}

/// Folds the items of a dataset with functions.
#[pyfunction]
#[pyo3(signature = (request, of_batch, both, tell))]
pub(crate) fn fold(
    py: Python<'_>,
    request: Dataset,
    of_batch: Py<PyAny>,
    both: Py<PyAny>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    consume::fold_batches(py, request, of_batch, both, tell)
}

/// The largest numbers of a dataset, or the smallest.
#[pyfunction]
#[pyo3(signature = (request, count, smallest, tell))]
pub(crate) fn top(
    py: Python<'_>,
    request: Dataset,
    count: usize,
    smallest: bool,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    consume::top(py, request, count, smallest, tell)
}

/// Counts the numbers of a dataset in equal bins.
#[pyfunction]
#[pyo3(signature = (request, bins, range, tell))]
pub(crate) fn histogram(
    py: Python<'_>,
    request: Dataset,
    bins: usize,
    range: Option<(f64, f64)>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<((f64, f64), Vec<u64>)> {
    consume::histogram(py, request, bins, range, tell)
}

/// The position of the first item for which an expression is true.
#[pyfunction]
#[pyo3(signature = (request, condition, tell))]
pub(crate) fn find(
    py: Python<'_>,
    request: Dataset,
    condition: String,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<u64>> {
    consume::find(py, request, condition, tell)
}

/// The items at positions.
#[pyfunction]
#[pyo3(signature = (request, positions, tell))]
pub(crate) fn gather<'py>(
    py: Python<'py>,
    request: Dataset,
    positions: PyBackedBytes,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    consume::gather(py, request, positions, tell)
}

/// The ranks of keys.
#[pyfunction]
#[pyo3(signature = (request, keys, right, index, tell))]
pub(crate) fn search_sorted<'py>(
    py: Python<'py>,
    request: Dataset,
    keys: PyBackedBytes,
    right: bool,
    index: Option<PathBuf>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    consume::search_sorted(py, request, (keys, right, index), tell)
}

/// Number of lines of a dataset.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn count_lines(
    py: Python<'_>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    consume::count_lines(py, request, tell)
}

/// The first lines of a dataset, or records of CSV behind their header.
#[pyfunction]
#[pyo3(signature = (request, count, csv, tell))]
pub(crate) fn head_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    count: u64,
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    consume::head_lines(py, request, count, csv, tell)
}

/// Lines of a dataset at random, or records of CSV behind their header.
#[pyfunction]
#[pyo3(signature = (request, count, seed, csv, tell))]
pub(crate) fn sample_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    count: u64,
    seed: u64,
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<Bound<'py, PyBytes>>, u64)> {
    consume::sample_lines(py, request, (count, seed), csv, tell)
}

/// The first line of a dataset that is not in order.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn check_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<(PathBuf, u64, Bound<'py, PyBytes>)>> {
    consume::check_lines(py, request, tell)
}

/// Writes the lines of a dataset to several files: `parts`, or so many that each has `lines`.
#[pyfunction]
#[pyo3(signature = (request, pattern, parts, lines, force, csv, tell))]
#[allow(
    clippy::too_many_arguments,
    reason = "one for each argument of Python's"
)]
pub(crate) fn split_lines(
    py: Python<'_>,
    request: Dataset,
    pattern: String,
    parts: Option<u64>,
    lines: u64,
    force: bool,
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<PathBuf>, u64)> {
    let cut = parts.map_or(PartSize::Records(lines), PartSize::Parts);
    consume::split_lines(py, request, (pattern, cut, force), csv, tell)
}

/// Writes the items of a dataset.
#[pyfunction]
#[pyo3(signature = (request, to, tell))]
pub(crate) fn write(
    py: Python<'_>,
    request: Dataset,
    to: consume::To,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<reply::Wrote> {
    consume::write(py, request, to, tell)
}

/// Writes the items of a dataset to several files.
#[pyfunction]
#[pyo3(signature = (request, bucket, to, tell))]
pub(crate) fn partition(
    py: Python<'_>,
    request: Dataset,
    bucket: consume::Bucket,
    to: consume::ToParts,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<u64>> {
    consume::partition(py, request, bucket, to, tell)
}

/// The items of a dataset in batches of bytes.
#[pyfunction]
pub(crate) fn batches(py: Python<'_>, request: Dataset) -> PyResult<Batches> {
    Batches::start(py, request)
}
