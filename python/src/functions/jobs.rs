//! Functions of the jobs on files of records and lines, and of the simulator.
//!
//! Contract: as in [`super`].

use outcore_io::config::Environment;
use pyo3::prelude::*;

use crate::sim::SimRun;
use crate::{errors, jobs, request, run, sim};

/// The kind of files: `lines`, `csv`, `jsonl`, `records`, `array`, `table`, `csv_table`,
/// `jsonl_table` or `view`.
#[pyfunction]
pub(crate) fn what(py: Python<'_>, request: request::Asked) -> PyResult<&'static str> {
    run::watch(py, None, |run| jobs::what(request, run))
}

/// Bytes of memory that a job with these resources may use.
#[pyfunction]
pub(crate) fn memory_bytes(py: Python<'_>, resources: request::Resources) -> PyResult<u64> {
    run::watch(py, None, move |run| {
        Ok(resources.load(&run.environment)?.config.memory_bytes.value)
    })
}

/// A sentence about each `OUTCORE_` variable that sets nothing.
#[pyfunction]
pub(crate) fn unknown_variables() -> Vec<String> {
    outcore_front::resources::unknown_variables(&Environment::of_process())
}

/// Simulates a drive.
#[pyfunction]
pub(crate) fn sim_run(py: Python<'_>, request: sim::RunRequest) -> PyResult<SimRun> {
    run::watch(py, None, |run| sim::run(request, run))
}

/// Replays a trace on simulated drives.
#[pyfunction]
pub(crate) fn sim_replay(py: Python<'_>, request: sim::ReplayRequest) -> PyResult<String> {
    run::watch(py, None, move |run| sim::replay(&request, run))
}

/// Predicts a sort on simulated drives.
#[pyfunction]
pub(crate) fn sim_plan(py: Python<'_>, request: sim::PlanRequest) -> PyResult<String> {
    run::watch(py, None, move |run| sim::plan(&request, run))
}

/// The drives known by name.
#[pyfunction]
pub(crate) fn sim_presets(py: Python<'_>) -> PyResult<String> {
    sim::presets().map_err(|error| errors::raise(py, &error))
}
