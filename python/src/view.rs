//! Sorted views: the native half of `outcore.View`.
//!
//! Contract: a [`View`] is an open [`SortedView`] that any number of Python threads may use at
//! once. Each call reads on a thread of its own with the interpreter released, and stops for Ctrl-C
//! like any job ([`crate::run`]). It returns the data as a `bytearray`, which NumPy reads without a
//! copy.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::key::NpyHeader;
use outcore::runs::{LineType, SortedView, ViewType};
use outcore::{Error, Result};
use outcore_front::inputs::{self, Streams};
use outcore_front::spool::{Spool, unpack_packed};
use outcore_front::view::{self, key as read_key};
use outcore_io::config::Environment;
use outcore_io::output::parent_of;
use outcore_table::jobs::view::TableView;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyCapsule, PyDict};

use crate::datasets::{Datasets, Use};
use crate::fork::Here;
use crate::request::recognition;
use crate::run::{self, Run};
use crate::{capsule, errors, request};

/// An open view.
#[pyclass(frozen, module = "outcore._outcore")]
pub(crate) struct View {
    view: Here<SortedView>,
    /// The files that were decompressed for it.
    _spool: Option<Spool>,
}

#[pymethods]
impl View {
    /// Opens the view in `dir`.
    #[staticmethod]
    fn open(py: Python<'_>, dir: PathBuf, resources: request::Resources) -> PyResult<Self> {
        let environment = Environment::of_process();
        let open = || view::open(&resources.load(&environment)?.job(Vec::new()), &dir);
        let view = py.detach(open).map_err(|error| errors::raise(py, &error))?;
        Ok(View::of(view))
    }

    /// Its properties: `records`, `record_bytes` (0 for lines), `bytes`, `type`, `descr`,
    /// `columns`, `terminator` (of lines), `front` (bytes before the first one), `runs`,
    /// `descending`, `stable`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let view = self.here(py)?;
        let info = view.info();
        let facts = PyDict::new(py);
        let (name, record_bytes, terminator) = match &info.what {
            ViewType::Records(format) => (format.to_string(), format.record_bytes(), None),
            ViewType::Lines(lines) => ("lines".to_string(), 0, Some(lines.terminator)),
            ViewType::Rows(_) => ("table".to_string(), 0, None),
        };
        // Records without a NumPy dtype are bytes.
        let header = info
            .what
            .records()
            .and_then(|format| NpyHeader::of_format(format, 0).ok());
        let descr = header.as_ref().map(|header| header.descr().to_string());
        facts.set_item("records", info.records)?;
        facts.set_item("record_bytes", record_bytes)?;
        facts.set_item("bytes", view.len_bytes())?;
        facts.set_item("type", name)?;
        facts.set_item("terminator", terminator)?;
        facts.set_item("front", PyBytes::new(py, view.front()))?;
        facts.set_item("descr", descr)?;
        let columns = header.and_then(|header| header.row_shape().first().copied());
        facts.set_item("columns", columns)?;
        facts.set_item("runs", info.runs.len())?;
        facts.set_item("descending", info.order.descending)?;
        facts.set_item("stable", info.order.stable)?;
        Ok(facts)
    }

    /// The columns of the order of a view of a table, the most significant first.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let view = TableView::of(self.here(py)?.clone());
        let view = view.map_err(|error| errors::raise(py, &error))?;
        Ok(view.keys().iter().map(|key| key.name.clone()).collect())
    }

    /// Rows `start` to `stop` of a view of a table as an Arrow stream.
    fn stream<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let view = self.here(py)?.clone();
        let memory_bytes = view.reader_bytes(READERS);
        let stream = TableView::of(view).and_then(|view| view.stream(start..stop, memory_bytes));
        let stream = stream.map_err(|error| errors::raise(py, &error))?;
        capsule::given(py, Box::new(stream))
    }

    /// In a view of a table, the first row with the values of `key` and the row after the last one.
    /// `key` is a table of one row with the first columns of the order.
    fn find(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
        let view = self.here(py)?.clone();
        let reader = capsule::taken(key)?;
        run::watch(py, None, move |run| {
            let view = TableView::of(view.watched(Arc::clone(&run.control)))?;
            let batch = reader.into_iter().next().and_then(std::result::Result::ok);
            let missing = || Error::usage("search view", "no key is given");
            let found = view.find(&batch.ok_or_else(missing)?)?;
            Ok((found.start, found.end))
        })
    }

    /// The bytes of records or lines `start` to `stop`; lines end with the terminator in
    /// [`View::info`].
    fn read<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let view = self.here(py)?.clone();
        let bytes = run::watch(py, None, move |run| {
            let view = view.watched(Arc::clone(&run.control));
            let mut reader = view.reader_of_runs(view.reader_bytes(READERS))?;
            reader.seek(start..stop)?;
            let mut bytes = vec![0; reader.left_bytes() as usize];
            reader.read(&mut bytes)?;
            Ok(bytes)
        })?;
        Ok(PyByteArray::new(py, &bytes))
    }

    /// Ranks of keys, as `u64`s: for each key, the rank of the first record whose key is not before
    /// it or, with `counts_equal`, is after it. A key is given as a record or a line.
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Vec<u8>>,
        counts_equal: bool,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let view = self.here(py)?.clone();
        let ranks = run::watch(py, None, move |run| {
            let view = view.watched(Arc::clone(&run.control));
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let (ranks, _) = view.lookup(&keys, counts_equal)?;
            Ok(ranks
                .into_iter()
                .flat_map(u64::to_ne_bytes)
                .collect::<Vec<u8>>())
        })?;
        Ok(PyByteArray::new(py, &ranks))
    }

    /// A record with the key in `text`.
    fn record_of<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyBytes>> {
        let view = self.here(py)?;
        let record = view.format().map(|format| read_key(text, format));
        let record = record.unwrap_or_else(|| {
            Err(Error::usage("search view", "it holds lines").hint("search for a line"))
        });
        let record = record.map_err(|error| errors::raise(py, &error))?;
        Ok(PyBytes::new(py, &record))
    }
}

impl View {
    fn of(view: SortedView) -> Self {
        View {
            view: Here::new(view),
            _spool: None,
        }
    }

    /// The view, unless this is a forked child.
    fn here(&self, py: Python<'_>) -> PyResult<&SortedView> {
        let view = self
            .view
            .get("the view", "open the view again in the child");
        view.map_err(|error| errors::raise(py, &error))
    }
}

/// The lines of a sorted file as a view of one run.
pub(crate) fn of_sorted_lines(
    mut path: PathBuf,
    terminator: u8,
    resources: &request::Resources,
    run: &Run,
) -> Result<View> {
    let datasets = Datasets::stage(resources, Use::of_engine(false), [&mut path], [], run)?;
    let beside = parent_of(&path).to_path_buf();
    let resources = datasets.resources(resources, true, run)?;
    let job = run.job(&resources, Vec::new());
    let recognition = recognition(false, terminator, None);
    let found = inputs::find(&[path], Streams::Refused, resources.names())?;
    let look = |source| inputs::look_at_lines(source, recognition);
    let looked = found.into_iter().map(look).collect::<Result<Vec<_>>>()?;
    let mut spool = None;
    let unpacked = unpack_packed(&job, &resources, &beside, looked, recognition, &mut spool)?;
    let [file] = &unpacked[..] else {
        return Err(
            Error::usage("look up keys", "it names several files").hint("name one sorted file")
        );
    };
    let lines = LineType::of_bytes(terminator);
    let view = SortedView::of_sorted_lines(&job, &file.source.path, &lines);
    let view = view.map_err(|error| inputs::explain([&file.source], error))?;
    Ok(View {
        _spool: spool,
        ..View::of(view)
    })
}

/// The number of calls that may read at once, each with its share of the memory.
const READERS: usize = 4;
