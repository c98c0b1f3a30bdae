//! Functions on volumes.
//!
//! Contract: as in [`super`].

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::{run, volume};

/// Makes an empty volume.
#[pyfunction]
pub(crate) fn volume_create(
    py: Python<'_>,
    drives_file: PathBuf,
    stripe: String,
) -> PyResult<String> {
    run::watch(py, None, move |run| {
        volume::create(&drives_file, &stripe, run)
    })
}

/// Puts a file or a directory.
#[pyfunction]
#[pyo3(signature = (drives_file, name, source, force, tell))]
pub(crate) fn volume_put(
    py: Python<'_>,
    drives_file: PathBuf,
    name: String,
    source: PathBuf,
    force: bool,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<volume::MovedReply> {
    run::watch(py, tell, move |run| {
        let what = (drives_file.as_path(), name.as_str(), force);
        let source = volume::Source::Path(source);
        volume::put(what, &source, run)
    })
}

/// Puts bytes.
#[pyfunction]
pub(crate) fn volume_write(
    py: Python<'_>,
    drives_file: PathBuf,
    name: String,
    data: PyBackedBytes,
    force: bool,
) -> PyResult<volume::MovedReply> {
    run::watch(py, None, move |run| {
        let what = (drives_file.as_path(), name.as_str(), force);
        let source = volume::Source::Bytes(data);
        volume::put(what, &source, run)
    })
}

/// Gets a dataset as a file or a directory.
#[pyfunction]
#[pyo3(signature = (drives_file, name, target, force, tell))]
pub(crate) fn volume_get(
    py: Python<'_>,
    drives_file: PathBuf,
    name: String,
    target: PathBuf,
    force: bool,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<volume::MovedReply> {
    run::watch(py, tell, move |run| {
        let what = (drives_file.as_path(), name.as_str(), force);
        volume::get(what, &target, run)
    })
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
        let what = (drives_file.as_path(), name.as_str());
        volume::read(what, (offset_bytes, size_bytes), run)
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// The datasets, or the files packed in one.
#[pyfunction]
#[pyo3(signature = (drives_file, name))]
pub(crate) fn volume_list(
    py: Python<'_>,
    drives_file: PathBuf,
    name: Option<String>,
) -> PyResult<Vec<volume::EntryReply>> {
    run::watch(py, None, move |run| {
        let what = (drives_file.as_path(), name.as_deref());
        volume::list(what, run)
    })
}

/// Removes a dataset.
#[pyfunction]
pub(crate) fn volume_remove(py: Python<'_>, drives_file: PathBuf, name: String) -> PyResult<()> {
    run::watch(py, None, move |run| {
        let what = (drives_file.as_path(), name.as_str());
        volume::remove(what, run)
    })
}

/// Room and use of the drives.
#[pyfunction]
pub(crate) fn volume_status(
    py: Python<'_>,
    drives_file: PathBuf,
) -> PyResult<Vec<volume::DriveReply>> {
    run::watch(py, None, move |run| volume::status(&drives_file, run))
}

/// What is not what was written.
#[pyfunction]
pub(crate) fn volume_scrub(
    py: Python<'_>,
    drives_file: PathBuf,
    names: Vec<String>,
) -> PyResult<Vec<volume::DamageReply>> {
    run::watch(py, None, move |run| {
        let what = (drives_file.as_path(), names.as_slice());
        volume::scrub(what, run)
    })
}

/// What one thread reaches on the drives.
#[pyfunction]
pub(crate) fn volume_bench(
    py: Python<'_>,
    drives_file: PathBuf,
    seconds: f64,
    size: String,
) -> PyResult<Vec<volume::MeasuredReply>> {
    run::watch(py, None, move |run| {
        let how = (seconds, size.as_str());
        volume::bench(&drives_file, how, run)
    })
}
