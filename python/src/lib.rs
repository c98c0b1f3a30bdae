//! The native half of the Python package `outcore`: the module `outcore._outcore`.
//!
//! Contract: one function a job, each taking one dictionary that the Python half has checked, and
//! giving one back ([`request`], [`reply`]). Jobs run on their own threads with the interpreter
//! free ([`run`]); failures become the exceptions of `outcore._errors` ([`errors`]). The rules about
//! what may be asked for are those of the command ([`outcore_formats`]). No unsafe code and no state
//! but the cached function that makes exceptions.
//!
//! | file | does |
//! |---|---|
//! | [`request`], [`reply`] | dictionaries in and out |
//! | [`jobs`] | sort, plan, shuffle, generate, verify |
//! | [`order`] | records in the order of a shuffle |
//! | [`sim`] | the simulator |
//! | [`dataset`] | lazy datasets: steps, reductions, writes, batches |
//! | [`volume`] | datasets on volumes |
//! | [`run`] | a job on its thread: signals, progress, cancellation |
//! | [`view`] | sorted views |
//! | [`errors`] | failures as exceptions |

mod dataset;
mod errors;
mod jobs;
mod order;
mod reply;
mod request;
mod run;
mod sim;
mod view;
mod volume;

use pyo3::prelude::*;

#[pymodule]
mod _outcore {
    #[pymodule_export]
    use crate::dataset::Batches;
    #[pymodule_export]
    use crate::order::Order;
    #[pymodule_export]
    use crate::sim::SimRun;
    #[pymodule_export]
    use crate::view::View;
    use std::path::PathBuf;

    use outcore::config::Environment;
    use pyo3::prelude::*;

    use crate::{dataset, errors, jobs, reply, request, run, sim, view, volume};

    /// Sorts files.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn sort(
        py: Python<'_>,
        request: request::Sort,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Sorted> {
        // Read here, where no other Python thread can change it.
        let environment = Environment::of_process();
        run::watch(py, tell, move |control| {
            jobs::sort(request, &environment, control)
        })
    }

    /// The plan of a sort.
    #[pyfunction]
    fn plan(py: Python<'_>, request: request::Sort) -> PyResult<reply::Plan> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            jobs::plan(request, &environment, control)
        })
    }

    /// Shuffles files.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn shuffle(
        py: Python<'_>,
        request: request::Shuffle,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Shuffled> {
        let environment = Environment::of_process();
        run::watch(py, tell, move |control| {
            jobs::shuffle(request, &environment, control)
        })
    }

    /// Generates records.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn generate(
        py: Python<'_>,
        request: request::Generate,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Generated> {
        let environment = Environment::of_process();
        run::watch(py, tell, move |control| {
            jobs::generate(request, &environment, control)
        })
    }

    /// Checks files.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn verify(
        py: Python<'_>,
        request: request::Verify,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Verified> {
        let environment = Environment::of_process();
        run::watch(py, tell, move |control| {
            jobs::verify(request, &environment, control)
        })
    }

    /// Simulates a drive.
    #[pyfunction]
    fn sim_run(py: Python<'_>, request: sim::RunRequest) -> PyResult<SimRun> {
        run::watch(py, None, move |control| sim::run(request, control))
    }

    /// Replays a trace on simulated drives.
    #[pyfunction]
    fn sim_replay(py: Python<'_>, request: sim::ReplayRequest) -> PyResult<String> {
        run::watch(py, None, move |control| sim::replay(&request, control))
    }

    /// Predicts a sort on simulated drives.
    #[pyfunction]
    fn sim_plan(py: Python<'_>, request: sim::PlanRequest) -> PyResult<String> {
        run::watch(py, None, move |_| sim::plan(&request))
    }

    /// The drives known by name.
    #[pyfunction]
    fn sim_presets(py: Python<'_>) -> PyResult<String> {
        sim::presets().map_err(|error| errors::raise(py, &error))
    }

    /// What the items of a dataset are, and its steps as text.
    #[pyfunction]
    fn describe(py: Python<'_>, request: dataset::Dataset) -> PyResult<(String, usize, String)> {
        dataset::describe(py, request)
    }

    /// The passes of a consumer.
    #[pyfunction]
    fn explain(py: Python<'_>, request: dataset::Dataset, consumer: String) -> PyResult<String> {
        dataset::explain(py, request, consumer)
    }

    /// Folds the items of a dataset.
    #[pyfunction]
    #[pyo3(signature = (request, how, tell))]
    fn reduce(
        py: Python<'_>,
        request: dataset::Dataset,
        how: Vec<String>,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        dataset::reduce(py, request, how, tell)
    }

    /// Writes the items of a dataset.
    #[pyfunction]
    #[pyo3(signature = (request, to, how, tell))]
    fn write(
        py: Python<'_>,
        request: dataset::Dataset,
        to: dataset::To,
        how: String,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Generated> {
        dataset::write(py, request, to, how, tell)
    }

    /// The items of a dataset in batches of bytes.
    #[pyfunction]
    fn batches(py: Python<'_>, request: dataset::Dataset) -> PyResult<Batches> {
        Batches::start(py, request)
    }

    /// Makes an empty volume.
    #[pyfunction]
    fn volume_create(py: Python<'_>, drives_file: PathBuf, stripe: String) -> PyResult<String> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            volume::create(&drives_file, &stripe, &environment, control)
        })
    }

    /// Puts a file or a directory.
    #[pyfunction]
    #[pyo3(signature = (drives_file, name, source, force, tell))]
    fn volume_put(
        py: Python<'_>,
        drives_file: PathBuf,
        name: String,
        source: PathBuf,
        force: bool,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<volume::MovedReply> {
        let environment = Environment::of_process();
        run::watch(py, tell, move |control| {
            let what = (drives_file.as_path(), name.as_str(), force);
            let source = volume::Source::Path(source);
            volume::put(what, &source, &environment, control)
        })
    }

    /// Puts bytes.
    #[pyfunction]
    fn volume_write(
        py: Python<'_>,
        drives_file: PathBuf,
        name: String,
        data: pyo3::pybacked::PyBackedBytes,
        force: bool,
    ) -> PyResult<volume::MovedReply> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            let what = (drives_file.as_path(), name.as_str(), force);
            let source = volume::Source::Bytes(data);
            volume::put(what, &source, &environment, control)
        })
    }

    /// Gets a dataset as a file or a directory.
    #[pyfunction]
    #[pyo3(signature = (drives_file, name, target, force, tell))]
    fn volume_get(
        py: Python<'_>,
        drives_file: PathBuf,
        name: String,
        target: PathBuf,
        force: bool,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<volume::MovedReply> {
        let environment = Environment::of_process();
        run::watch(py, tell, move |control| {
            let what = (drives_file.as_path(), name.as_str(), force);
            volume::get(what, &target, &environment, control)
        })
    }

    /// Bytes of a dataset.
    #[pyfunction]
    #[pyo3(signature = (drives_file, name, offset_bytes, size_bytes))]
    fn volume_read<'py>(
        py: Python<'py>,
        drives_file: PathBuf,
        name: String,
        offset_bytes: u64,
        size_bytes: Option<u64>,
    ) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        let environment = Environment::of_process();
        let bytes = run::watch(py, None, move |control| {
            let what = (drives_file.as_path(), name.as_str());
            volume::read(what, (offset_bytes, size_bytes), &environment, control)
        })?;
        Ok(pyo3::types::PyBytes::new(py, &bytes))
    }

    /// The datasets, or the files packed in one.
    #[pyfunction]
    #[pyo3(signature = (drives_file, name))]
    fn volume_list(
        py: Python<'_>,
        drives_file: PathBuf,
        name: Option<String>,
    ) -> PyResult<Vec<volume::EntryReply>> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            let what = (drives_file.as_path(), name.as_deref());
            volume::list(what, &environment, control)
        })
    }

    /// Removes a dataset.
    #[pyfunction]
    fn volume_remove(py: Python<'_>, drives_file: PathBuf, name: String) -> PyResult<()> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            let what = (drives_file.as_path(), name.as_str());
            volume::remove(what, &environment, control)
        })
    }

    /// Room and use of the drives.
    #[pyfunction]
    fn volume_status(py: Python<'_>, drives_file: PathBuf) -> PyResult<Vec<volume::DriveReply>> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            volume::status(&drives_file, &environment, control)
        })
    }

    /// What is not what was written.
    #[pyfunction]
    fn volume_scrub(
        py: Python<'_>,
        drives_file: PathBuf,
        names: Vec<String>,
    ) -> PyResult<Vec<volume::DamageReply>> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            let what = (drives_file.as_path(), names.as_slice());
            volume::scrub(what, &environment, control)
        })
    }

    /// What one thread reaches on the drives.
    #[pyfunction]
    fn volume_bench(
        py: Python<'_>,
        drives_file: PathBuf,
        seconds: f64,
        size: String,
    ) -> PyResult<Vec<volume::MeasuredReply>> {
        let environment = Environment::of_process();
        run::watch(py, None, move |control| {
            let how = (seconds, size.as_str());
            volume::bench(&drives_file, how, &environment, control)
        })
    }

    /// Builds a sorted view.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn view_build(
        py: Python<'_>,
        request: request::ViewBuild,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<View> {
        let environment = Environment::of_process();
        run::watch(py, tell, move |control| {
            view::build(request, &environment, control)
        })
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
