//! Lazy datasets: steps from Python, one native pass for each consumer.
//!
//! Contract: a dataset is a request (files, what their records are, steps) that the Python half
//! builds; every consumer here runs it on a thread of its own. Steps that go item by item fuse into
//! one pass; how they are planned and run is the engine's ([`outcore::dataset`]). Expressions stay
//! in Rust. A function of the caller's gets the bytes of a batch, from the job's threads with the
//! interpreter held for the call; what it raises stops the job and is raised again as it is.
//!
//! | file | does |
//! |---|---|
//! | [`open`] | opens files |
//! | [`steps`] | the engine's steps, of what Python says |
//! | [`consume`] | folds, writes, selects |
//! | [`batches`] | iteration |

mod batches;
pub(crate) mod consume;
mod open;
mod steps;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::algo::sequence::table::BatchStep;
use outcore::dataset::Mode;
use outcore::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub(crate) use self::batches::Batches;
use self::open::Opened;
pub(crate) use self::steps::csv_rows;
use crate::request;
use crate::run::{self, Run};

/// A dataset as Python says it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Dataset {
    inputs: Vec<PathBuf>,
    records: request::Records,
    lines: bool,
    /// Lines, whatever the files look like.
    insists: bool,
    /// What ends a line.
    terminator: u8,
    count: Option<u64>,
    zipped: Vec<Zipped>,
    means: request::Means,
    steps: Vec<Step>,
}

/// Files that are read side by side with others.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Zipped {
    inputs: Vec<PathBuf>,
    records: request::Records,
}

/// A step as Python says it; told apart by the names of their parts.
#[derive(Debug, FromPyObject)]
pub(crate) enum Step {
    #[pyo3(transparent)]
    Where(Where),
    #[pyo3(transparent)]
    Map(Map),
    #[pyo3(transparent)]
    Call(CallStep),
    #[pyo3(transparent)]
    Sort(SortStep),
    #[pyo3(transparent)]
    SortLines(SortLinesStep),
    #[pyo3(transparent)]
    Shuffle(ShuffleStep),
    #[pyo3(transparent)]
    Unique(UniqueStep),
    #[pyo3(transparent)]
    Scan(ScanStep),
    #[pyo3(transparent)]
    FlatMap(FlatMapStep),
    #[pyo3(transparent)]
    Enumerate(EnumerateStep),
    #[pyo3(transparent)]
    Windows(WindowsStep),
    #[pyo3(transparent)]
    Reverse(ReverseStep),
    #[pyo3(transparent)]
    Merge(MergeStep),
}

impl Step {
    /// The byte between fields of lines, where the step has one.
    fn separator(&self) -> Option<u8> {
        match self {
            Step::SortLines(step) => step.separator,
            _ => None,
        }
    }
}

/// Keeps some items.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Where {
    condition: String,
}

/// Makes a number of each item.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Map {
    expression: String,
}

/// Makes other items with a function, or keeps some.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CallStep {
    function: Py<PyAny>,
    records: request::Records,
    filters: bool,
    /// Whether it may make any number of items.
    expands: bool,
}

/// Makes several numbers of each item.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FlatMapStep {
    expressions: Vec<String>,
}

/// Items behind their positions.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EnumerateStep {
    numbered: request::Records,
}

/// Items with those behind them.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct WindowsStep {
    window: usize,
}

/// The last item first.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReverseStep {
    /// Tells the step apart; always true.
    is_reversed: bool,
}

/// Files that are each in order, in one order; another than their own with `merge_by`.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MergeStep {
    merge_by: Option<request::Records>,
    descending: bool,
    stable: bool,
}

/// Records in order; of another order than their own with `records`.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SortStep {
    records: Option<request::Records>,
    descending: bool,
    stable: bool,
    unique: bool,
}

/// Lines in order.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SortLinesStep {
    line_keys: Vec<String>,
    letters: String,
    separator: Option<u8>,
    by: Vec<String>,
    is_csv: bool,
    has_header: bool,
    skips: bool,
    /// Whether each file is in this order already.
    merges: bool,
    descending: bool,
    stable: bool,
    unique: bool,
    /// Whether each line that is kept comes behind the number of its key.
    counts: bool,
}

/// All items in a random order.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ShuffleStep {
    shuffle_seed: u64,
    epoch: u64,
    csv: Option<CsvRows>,
}

/// How records of CSV are read: the byte between fields, if it is given, and whether there is a header.
pub(crate) type CsvRows = (Option<u8>, bool);

/// One of each item, in order; with how many there are where `counted` says what that is.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct UniqueStep {
    is_counted: bool,
    counted: Option<request::Records>,
}

/// Prefixes of numbers.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ScanStep {
    operator: String,
    exclusive: bool,
}

/// The first exception that the caller's own code raised.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps `exception`, unless one came before, and makes the error that stops the job.
    fn keep(&self, exception: PyErr) -> Error {
        let text = exception.to_string();
        let mut raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.get_or_insert(exception);
        Error::usage("run the given function", text).hint("nothing was left behind")
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn has_some(&self) -> bool {
        let raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.is_some()
    }
}

/// A function of Python over the bytes of a batch.
struct Call {
    function: Py<PyAny>,
    raised: Raised,
}

impl BatchStep for Call {
    fn run(&self, _first: u64, items: &[u8]) -> Result<Vec<u8>> {
        Python::attach(|py| {
            let called = self.function.call1(py, (PyBytes::new(py, items),));
            let made = called.and_then(|made| {
                let bytes = made.bind(py).cast::<PyBytes>()?;
                Ok(bytes.as_bytes().to_vec())
            });
            made.map_err(|exception| self.raised.keep(exception))
        })
    }
}

/// Runs `work` on the dataset, whose steps are not taken yet; what the caller's own code raised is
/// raised again.
fn watched<T: Send + 'static>(
    py: Python<'_>,
    (request, mode): (Dataset, Mode),
    tell: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Opened, &Run) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let raised = Raised::default();
    let kept = raised.clone();
    let result = run::watch(py, tell, move |run| {
        work(Opened::begin(request, kept, mode, run)?, run)
    });
    match (result, raised.take()) {
        (Err(_), Some(exception)) => Err(exception),
        (result, _) => result,
    }
}

/// What items are after all steps (the type's name and size, nothing for lines), and the steps.
pub(crate) fn describe(py: Python<'_>, request: Dataset) -> PyResult<(String, usize, String)> {
    watched(py, (request, Mode::Types), None, |mut opened, _| {
        opened.execution.describe()
    })
}

/// The passes of a consumer, as text, with the plan of the first. Nothing is read but headers and a
/// sample.
pub(crate) fn explain(py: Python<'_>, request: Dataset, consumer: String) -> PyResult<String> {
    watched(py, (request, Mode::Plans), None, move |mut opened, _| {
        opened.execution.explain(&consumer)
    })
}
