//! The commands `outcore` and `outcore-lab`, which the wheel brings as scripts.
//!
//! Contract: [`run_command`] is the `main` of both. It takes over the standard streams and the
//! signals of the process, which ends with the exit code that it returns.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs `outcore`, or `outcore-lab` if `is_lab`, with `words`, the first of which is its name.
#[pyfunction]
#[pyo3(signature = (words, is_lab))]
pub(crate) fn run_command(py: Python<'_>, words: Vec<OsString>, is_lab: bool) -> u8 {
    // This program contains both, so neither searches for the other.
    let run = match is_lab || outcore_cli::calls_lab(&words) {
        true => outcore_lab::run,
        false => outcore_cli::run,
    };
    py.detach(|| outcore_terminal::start_with(words, run))
}
