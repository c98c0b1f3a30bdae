//! Failures of the engine as Python's exceptions.
//!
//! Contract: [`raise`] asks the Python side of the package (`outcore._errors.from_engine`) for the
//! exception of an error, so that the classes are written in Python, with docstrings and types.
//! Every fact of the error is passed on; the text is the error's own line, with options as Python
//! writes them ([`Spelling::Python`]).

use std::ffi::CString;

use outcore::{Error, Kind};
use outcore_front::Spelling;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

const MODULE: &str = "outcore._errors";
static FROM_ENGINE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for `error`.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    match build(py, &Spelling::Python.error(error)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

/// The exception for a job that was stopped by `cause`: the engine's own for Ctrl-C, else `cause`.
pub(crate) fn interrupted(py: Python<'_>, cause: PyErr, error: Option<&Error>) -> PyErr {
    let is_plain = cause
        .get_type(py)
        .is(py.get_type::<pyo3::exceptions::PyKeyboardInterrupt>());
    let Some(error) = error.filter(|error| is_plain && error.kind() == Kind::Interrupted) else {
        return cause;
    };
    let raised = raise(py, error);
    raised.set_cause(py, Some(cause));
    raised
}

/// Issues the notes of a job as warnings.
///
/// # Errors
/// The warning, if Python treats warnings as errors.
pub(crate) fn warn(py: Python<'_>, note: &str) -> PyResult<()> {
    let text = Spelling::Python.text(note).replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)
}

fn build<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let facts = PyDict::new(py);
    facts.set_item("kind", error.kind().name())?;
    facts.set_item("exit_code", error.kind().exit_code())?;
    facts.set_item("text", error.to_string())?;
    facts.set_item("operation", error.operation())?;
    facts.set_item("cause", error.cause())?;
    facts.set_item("drive", error.drive_name())?;
    let path = error.file_path().map(|path| path.as_os_str());
    facts.set_item("path", path)?;
    facts.set_item("offset", error.offset_bytes())?;
    facts.set_item("errno", error.raw_errno())?;
    facts.set_item("hint", error.next_step())?;
    FROM_ENGINE
        .import(py, MODULE, "from_engine")?
        .call((), Some(&facts))
}
