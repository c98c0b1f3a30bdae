//! Sorted views: the native half of `outcore.View`.
//!
//! Contract: a [`View`] is an open [`SortedView`] that any number of Python threads may use at once.
//! Each call reads on a thread of its own with the interpreter free, and stops for Ctrl-C like any
//! job ([`crate::run`]); what it read is given to Python as a `bytearray`, which NumPy looks into
//! without copying.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::Result;
use outcore::algo::sort::SortInput;
use outcore::algo::view::{BuildOptions, SortedView, ViewOrder, build as run_build};
use outcore::config::Environment;
use outcore::data::NpyHeader;
use outcore_formats::inputs::{self, Input};
use outcore_formats::records;
use outcore_formats::view::{NewDir, key as read_key};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};

use crate::run::{self, Run};
use crate::{errors, request};

/// An open view.
#[pyclass(frozen, module = "outcore._outcore")]
pub(crate) struct View {
    view: SortedView,
}

#[pymethods]
impl View {
    /// Opens the view in `dir`.
    #[staticmethod]
    fn open(py: Python<'_>, dir: PathBuf, means: request::Means) -> PyResult<Self> {
        let environment = Environment::of_process();
        let open = || SortedView::open(&means.load(&environment)?.job(Vec::new()), &dir);
        let view = py.detach(open).map_err(|error| errors::raise(py, &error))?;
        Ok(View { view })
    }

    /// What it is: `records`, `record_bytes`, `type`, `descr`, `columns`, `runs`, `descending`,
    /// `stable`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.view.info();
        let facts = PyDict::new(py);
        // What NumPy has no dtype for is bytes to it.
        let header = NpyHeader::of_format(&info.format, 0).ok();
        let descr = header.as_ref().map(|header| header.descr().to_string());
        facts.set_item("records", info.records)?;
        facts.set_item("record_bytes", info.format.record_bytes())?;
        facts.set_item("type", info.format.to_string())?;
        facts.set_item("descr", descr)?;
        facts.set_item("columns", header.and_then(|header| header.columns()))?;
        facts.set_item("runs", info.runs.len())?;
        facts.set_item("descending", info.order.descending)?;
        facts.set_item("stable", info.order.stable)?;
        Ok(facts)
    }

    /// The bytes of records `start` to `stop`.
    fn read<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let view = self.view.clone();
        let bytes = run::watch(py, None, move |run| {
            let view = view.watched(Arc::clone(&run.control));
            let mut bytes = vec![0; (stop - start) as usize * view.record_bytes()];
            let mut reader = view.reader(view.reader_bytes(READERS))?;
            reader.seek(start..stop)?;
            reader.read(&mut bytes)?;
            Ok(bytes)
        })?;
        Ok(PyByteArray::new(py, &bytes))
    }

    /// Rank of the first record whose key is not before the one that `key` says.
    fn search(&self, py: Python<'_>, key: String) -> PyResult<u64> {
        let view = self.view.clone();
        run::watch(py, None, move |run| {
            let view = view.watched(Arc::clone(&run.control));
            let record = read_key(&key, view.format())?;
            view.reader(view.reader_bytes(READERS))?.seek_key(&record)
        })
    }
}

/// Calls that may read at once, each with its share of the memory.
const READERS: usize = 4;

/// Builds a view as `request` says, and opens it.
pub(crate) fn build(request: request::ViewBuild, run: &Run) -> Result<View> {
    let means = request.means.load(&run.environment)?;
    let looked = inputs::open_files(&request.inputs)?;
    let decided = records::decide(&request.records.to_request()?, &looked)?;
    let data_bytes = looked.iter().map(|input| input.data_bytes).sum();
    let job = run.job(&means, means.named_drives(data_bytes)?);
    let options = BuildOptions {
        order: ViewOrder {
            descending: request.descending,
            stable: request.stable,
        },
        replace: request.force,
        keeps_runs: false,
        run_bytes: None,
    };
    let home = NewDir::make(&request.output)?;
    let dir = std::path::absolute(&request.output).unwrap_or_else(|_| request.output.clone());
    let files: Vec<SortInput> = looked.iter().map(Input::to_sort).collect();
    let (view, _) = run_build(&job, &files, &dir, &decided.format, options)?;
    home.keep();
    Ok(View { view })
}
