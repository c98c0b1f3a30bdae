//! The native half of the Python package `outcore`: the module `outcore._outcore`.
//!
//! Contract: one function a job, each taking one dictionary that the Python half has checked, and
//! giving one back ([`request`], [`reply`]). Jobs run on their own threads with the interpreter
//! free ([`run`]); failures become the exceptions of `outcore._errors` ([`errors`]). The rules about
//! what may be asked for are those of the command ([`outcore_front`]). No state but the cached function that
//! makes exceptions, and unsafe code in [`capsule`] alone.
//!
//! | file | does |
//! |---|---|
//! | [`request`], [`reply`] | dictionaries in and out |
//! | [`jobs`] | sort, plan, shuffle, generate, verify |
//! | [`order`] | records in the order of a shuffle |
//! | [`graph`] | graphs |
//! | [`vector`] | vectors |
//! | [`sim`] | the simulator |
//! | [`dataset`] | lazy datasets: steps, reductions, writes, batches |
//! | [`volume`] | datasets on volumes |
//! | [`datasets`] | `@name` where a function takes a file |
//! | [`run`] | a job on its thread: signals, progress, cancellation |
//! | [`view`] | sorted views |
//! | [`sampler`] | neighbours drawn from graphs |
//! | [`table`], [`capsule`] | tables, and the streams of other libraries |
//! | [`errors`] | failures as exceptions |
//! | [`fork`](mod@fork) | what a forked child must not touch |

mod capsule;
mod dataset;
mod datasets;
mod errors;
mod fork;
mod graph;
mod jobs;
mod order;
mod reply;
mod request;
mod run;
mod sampler;
mod sim;
mod table;
mod vector;
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
    use crate::sampler::GraphSampler;
    #[pymodule_export]
    use crate::sim::SimRun;
    #[pymodule_export]
    use crate::view::View;
    use std::path::PathBuf;

    use outcore_front::split::PartSize;
    use pyo3::prelude::*;
    use pyo3::pybacked::PyBackedBytes;
    use pyo3::types::{PyByteArray, PyBytes, PyCapsule};

    use crate::dataset::{self, Dataset, consume};
    use crate::request::CsvRows;
    use crate::table::{self, TableDone, TableJob};
    use crate::{capsule, errors, graph, jobs, reply, request, run, sim, vector, view, volume};

    /// Sorts files.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn sort(
        py: Python<'_>,
        request: request::Sort,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Sorted> {
        run::watch(py, tell, |run| jobs::sort(request, run))
    }

    /// Converts edges to a graph; what it is, as JSON.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn graph_convert(
        py: Python<'_>,
        request: graph::ConvertRequest,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        run::watch(py, tell, |run| graph::convert(request, run))
    }

    /// What vertices of a graph were called: those that are named, or all.
    #[pyfunction]
    #[pyo3(signature = (dir, vertices, resources))]
    fn graph_names(
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
    fn graph_vertices(
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
    fn graph_info(py: Python<'_>, dir: PathBuf, resources: request::Resources) -> PyResult<String> {
        run::watch(py, None, move |run| graph::info(&dir, &resources, run))
    }

    /// The values of vertices that a kernel computes.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn graph_kernel<'py>(
        py: Python<'py>,
        request: graph::KernelRequest,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let values = run::watch(py, tell, |run| graph::kernel(request, run))?;
        Ok(PyByteArray::new(py, &values))
    }

    /// The nearest rows of vectors: rows, distances, and how the search went as JSON.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn vector_knn<'py>(
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
    fn vector_convert(
        py: Python<'_>,
        request: vector::VectorConvertRequest,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        run::watch(py, tell, |run| vector::convert(request, run))
    }

    /// An index of vectors, in a file; its bytes.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn vector_index(
        py: Python<'_>,
        request: vector::IndexRequest,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        run::watch(py, tell, |run| vector::index(request, run))
    }

    /// Rows of vectors within a radius: limits, rows or pairs of rows, and distances.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn vector_range<'py>(
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
    fn vector_kmeans<'py>(
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
    fn vector_label(
        py: Python<'_>,
        request: vector::LabelRequest,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        run::watch(py, tell, |run| vector::label(request, run))
    }

    /// The plan of a sort.
    #[pyfunction]
    fn plan(py: Python<'_>, request: request::Sort) -> PyResult<reply::Plan> {
        run::watch(py, None, |run| jobs::plan(request, run))
    }

    /// Shuffles files.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn shuffle(
        py: Python<'_>,
        request: request::Shuffle,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Shuffled> {
        run::watch(py, tell, |run| jobs::shuffle(request, run))
    }

    /// Generates records.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn generate(
        py: Python<'_>,
        request: request::Generate,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Generated> {
        run::watch(py, tell, |run| jobs::generate(request, run))
    }

    /// Checks files.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn verify(
        py: Python<'_>,
        request: request::Verify,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Verified> {
        run::watch(py, tell, |run| jobs::verify(request, run))
    }

    /// Simulates a drive.
    #[pyfunction]
    fn sim_run(py: Python<'_>, request: sim::RunRequest) -> PyResult<SimRun> {
        run::watch(py, None, |run| sim::run(request, run))
    }

    /// Replays a trace on simulated drives.
    #[pyfunction]
    fn sim_replay(py: Python<'_>, request: sim::ReplayRequest) -> PyResult<String> {
        run::watch(py, None, move |run| sim::replay(&request, run))
    }

    /// Predicts a sort on simulated drives.
    #[pyfunction]
    fn sim_plan(py: Python<'_>, request: sim::PlanRequest) -> PyResult<String> {
        run::watch(py, None, move |run| sim::plan(&request, run))
    }

    /// The drives known by name.
    #[pyfunction]
    fn sim_presets(py: Python<'_>) -> PyResult<String> {
        sim::presets().map_err(|error| errors::raise(py, &error))
    }

    /// What the items of a dataset are, and its steps as text.
    #[pyfunction]
    fn describe(py: Python<'_>, request: Dataset) -> PyResult<(String, usize, String)> {
        dataset::describe(py, request)
    }

    /// The passes of a consumer.
    #[pyfunction]
    fn explain(py: Python<'_>, request: Dataset, consumer: String) -> PyResult<String> {
        dataset::explain(py, request, consumer)
    }

    /// Folds the items of a dataset by names or an expression.
    #[pyfunction]
    #[pyo3(signature = (request, how, tell))]
    fn reduce(
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
    fn fold(
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
    fn top(
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
    fn histogram(
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
    fn find(
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
    fn gather<'py>(
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
    fn search_sorted<'py>(
        py: Python<'py>,
        request: Dataset,
        keys: PyBackedBytes,
        right: bool,
        index: Option<std::path::PathBuf>,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        consume::search_sorted(py, request, (keys, right, index), tell)
    }

    /// Number of lines of a dataset.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn count_lines(
        py: Python<'_>,
        request: Dataset,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64)> {
        consume::count_lines(py, request, tell)
    }

    /// The first lines of a dataset, or records of CSV behind their header.
    #[pyfunction]
    #[pyo3(signature = (request, count, csv, tell))]
    fn head_lines<'py>(
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
    fn sample_lines<'py>(
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
    fn check_lines<'py>(
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
    fn split_lines(
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
    fn write(
        py: Python<'_>,
        request: Dataset,
        to: consume::To,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<reply::Wrote> {
        consume::write(py, request, to, tell)
    }

    /// Bytes of memory that a job of these means may use.
    #[pyfunction]
    fn memory_bytes(py: Python<'_>, resources: request::Resources) -> PyResult<u64> {
        run::watch(py, None, move |run| {
            Ok(resources.load(&run.environment)?.config.memory_bytes.value)
        })
    }

    /// Writes the items of a dataset to several files.
    #[pyfunction]
    #[pyo3(signature = (request, bucket, to, tell))]
    fn partition(
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
    fn batches(py: Python<'_>, request: Dataset) -> PyResult<Batches> {
        Batches::start(py, request)
    }

    /// Makes an empty volume.
    #[pyfunction]
    fn volume_create(py: Python<'_>, drives_file: PathBuf, stripe: String) -> PyResult<String> {
        run::watch(py, None, move |run| {
            volume::create(&drives_file, &stripe, run)
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
        run::watch(py, tell, move |run| {
            let what = (drives_file.as_path(), name.as_str(), force);
            let source = volume::Source::Path(source);
            volume::put(what, &source, run)
        })
    }

    /// Puts bytes.
    #[pyfunction]
    fn volume_write(
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
    fn volume_get(
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
    fn volume_read<'py>(
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
    fn volume_list(
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
    fn volume_remove(py: Python<'_>, drives_file: PathBuf, name: String) -> PyResult<()> {
        run::watch(py, None, move |run| {
            let what = (drives_file.as_path(), name.as_str());
            volume::remove(what, run)
        })
    }

    /// Room and use of the drives.
    #[pyfunction]
    fn volume_status(py: Python<'_>, drives_file: PathBuf) -> PyResult<Vec<volume::DriveReply>> {
        run::watch(py, None, move |run| volume::status(&drives_file, run))
    }

    /// What is not what was written.
    #[pyfunction]
    fn volume_scrub(
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
    fn volume_bench(
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

    /// Builds a sorted view.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn view_build(
        py: Python<'_>,
        request: request::ViewBuild,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<View> {
        run::watch(py, tell, |run| view::build(request, run))
    }

    /// Builds a sorted view of a table.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn table_view_build(
        py: Python<'_>,
        request: request::TableViewBuild,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<View> {
        run::watch(py, tell, move |run| view::build_of_table(&request, run))
    }

    /// The lines of a sorted file, to be looked up.
    #[pyfunction]
    #[pyo3(signature = (path, terminator, resources))]
    fn sorted_lines(
        py: Python<'_>,
        path: PathBuf,
        terminator: u8,
        resources: request::Resources,
    ) -> PyResult<View> {
        run::watch(py, None, move |run| {
            view::of_sorted_lines(path, terminator, &resources, run)
        })
    }

    /// Runs a job on a table.
    #[pyfunction]
    #[pyo3(signature = (request, tell))]
    fn table_job(
        py: Python<'_>,
        request: TableJob,
        tell: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<TableDone> {
        run::watch(py, tell, move |run| table::run(&request, run))
    }

    /// Writes the batches of another library's table to an Arrow file.
    #[pyfunction]
    #[pyo3(signature = (source, path, resources, tell))]
    fn table_spool(
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
    #[pyo3(signature = (inputs, columns, union, schema, resources, held))]
    fn table_stream<'py>(
        py: Python<'py>,
        inputs: Vec<PathBuf>,
        columns: Option<Vec<String>>,
        union: bool,
        schema: Option<String>,
        resources: request::Resources,
        held: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = run::watch(py, None, move |run| {
            let reads = table::reads(columns, union, schema.as_deref())?;
            table::batches(&inputs, &reads, &resources, run)
        })?;
        capsule::given(py, Box::new(table::Holding::new(batches, held)))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
