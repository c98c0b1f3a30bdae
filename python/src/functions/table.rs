//! Functions on tables and sorted views.
//!
//! Contract: as in [`super`].

use std::ffi::CString;
use std::path::PathBuf;

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::request::TextRequest;
use crate::table;
use crate::view::View;
use crate::{capsule, request, run, view};

/// Writes the batches of another library's table to an Arrow file.
#[pyfunction]
#[pyo3(signature = (source, path, resources, tell))]
pub(crate) fn table_spool(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    path: PathBuf,
    resources: request::Resources,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    let reader = capsule::taken(source)?;
    run::watch(py, tell, move |run| {
        table::spool(reader, path, &resources, run)
    })
}

/// The batches of a table as an Arrow stream, which holds `held` until it ends.
#[pyfunction]
#[pyo3(signature = (inputs, columns, union, text, resources, held))]
pub(crate) fn table_stream<'py>(
    py: Python<'py>,
    inputs: Vec<PathBuf>,
    columns: Option<Vec<String>>,
    union: bool,
    text: TextRequest,
    resources: request::Resources,
    held: Py<PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (batches, bad_rows) = run::watch(py, None, move |run| {
        let reads = table::reads(columns, union, &text)?;
        let batches = table::batches(&inputs, &reads, &resources, run)?;
        Ok((batches, table::bad_rows(&reads)))
    })?;
    warn(py, bad_rows)?;
    capsule::given(py, Box::new(table::Holding::new(batches, held)))
}

/// Warns of rows that were left out, and of values that became null.
fn warn(py: Python<'_>, bad_rows: Vec<String>) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    for said in bad_rows {
        let said = CString::new(said.replace('\0', " "))?;
        PyErr::warn(py, &category, &said, 2)?;
    }
    Ok(())
}

/// The lines of a sorted file, to be looked up.
#[pyfunction]
#[pyo3(signature = (path, terminator, resources))]
pub(crate) fn sorted_lines(
    py: Python<'_>,
    path: PathBuf,
    terminator: u8,
    resources: request::Resources,
) -> PyResult<View> {
    run::watch(py, None, move |run| {
        view::of_sorted_lines(path, terminator, &resources, run)
    })
}
