//! Functions on volumes.
//!
//! Contract: as in [`super`].

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::verb::{self, Answer};
use crate::volume::NewDataset;
use crate::{run, volume};

/// Puts bytes; returns the report of `put`.
#[pyfunction]
pub(crate) fn volume_write<'py>(
    py: Python<'py>,
    drives_file: PathBuf,
    name: String,
    data: PyBackedBytes,
    force: bool,
) -> Answer<'py> {
    let report = run::watch(py, None, move |run| {
        let new = NewDataset {
            drives_file: &drives_file,
            name: &name,
            replace: force,
        };
        volume::write(&new, &data, run)
    })?;
    verb::answer(py, &report, report.headline())
}

/// Bytes of a dataset.
#[pyfunction]
#[pyo3(signature = (drives_file, name, offset_bytes, size_bytes))]
pub(crate) fn volume_read<'py>(
    py: Python<'py>,
    drives_file: PathBuf,
    name: String,
    offset_bytes: u64,
    size_bytes: Option<u64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = run::watch(py, None, move |run| {
        volume::read(&drives_file, &name, offset_bytes, size_bytes, run)
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// The rates of one thread on the drives.
#[pyfunction]
pub(crate) fn volume_bench(
    py: Python<'_>,
    drives_file: PathBuf,
    seconds: f64,
    size: String,
) -> PyResult<Vec<volume::MeasuredReply>> {
    run::watch(py, None, move |run| {
        volume::bench(&drives_file, seconds, &size, run)
    })
}
