//! Python's description of a dataset: files, steps, and functions of the caller.
//!
//! Contract: dictionaries become typed values; the names of a step's parts identify the step. The
//! first exception of the caller's code is kept, and raised again unchanged.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::primitives::table::BatchStep;
use outcore::{Error, Result};
use outcore_verbs::sort::step::{LineStep, line_step};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::request::{self, CsvRows};

/// A dataset as Python describes it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Dataset {
    pub(super) inputs: Vec<PathBuf>,
    pub(super) records: request::Records,
    pub(super) lines: bool,
    /// Whether the files are lines, whatever they look like.
    pub(super) insists: bool,
    /// The byte that ends a line.
    pub(super) terminator: u8,
    pub(super) count: Option<u64>,
    pub(super) zipped: Vec<Zipped>,
    pub(super) resources: request::Resources,
    pub(super) steps: Vec<Step>,
}

/// Files that are zipped with others.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Zipped {
    pub(super) inputs: Vec<PathBuf>,
    pub(super) records: request::Records,
}

/// A step in Python's description; the names of its parts identify it.
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
    /// The step on lines that end with `terminator`, if this is a sort of lines.
    pub(super) fn line_step(&self, terminator: u8) -> Result<Option<LineStep>> {
        match self {
            Step::SortLines(step) => step.line_step(terminator).map(Some),
            _ => Ok(None),
        }
    }
}

/// Keeps some items.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Where {
    pub(super) condition: String,
}

/// Computes a number for each item.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Map {
    pub(super) expression: String,
}

/// Makes other items with a function, or keeps some items.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CallStep {
    pub(super) function: Py<PyAny>,
    pub(super) records: request::Records,
    pub(super) filters: bool,
    /// Whether it may make any number of items.
    pub(super) expands: bool,
}

/// Computes several numbers for each item.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FlatMapStep {
    pub(super) expressions: Vec<String>,
}

/// Items with their positions in front.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EnumerateStep {
    pub(super) numbered: request::Records,
}

/// Each item with the items that follow it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct WindowsStep {
    pub(super) window: usize,
}

/// The last item first.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReverseStep {
    /// Identifies the step; always true.
    pub(super) is_reversed: bool,
}

/// Merges files that are already in order; `merge_by` gives an order other than that of their type.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MergeStep {
    pub(super) merge_by: Option<request::Records>,
    pub(super) descending: bool,
    pub(super) stable: bool,
}

/// Sorts records; `records` gives an order other than that of their type.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SortStep {
    pub(super) records: Option<request::Records>,
    pub(super) descending: bool,
    pub(super) stable: bool,
    pub(super) unique: bool,
}

/// Lines in order.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SortLinesStep {
    /// Options of the verb `sort`, in words.
    sort: Vec<OsString>,
    /// Whether each file is in this order already.
    pub(super) merges: bool,
    /// Whether each line that is kept comes after the count of its key.
    pub(super) counts: bool,
}

impl SortLinesStep {
    /// The step for the words.
    pub(super) fn line_step(&self, terminator: u8) -> Result<LineStep> {
        line_step(self.sort.clone(), terminator)
    }
}

/// All items in a random order.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ShuffleStep {
    pub(super) shuffle_seed: u64,
    pub(super) epoch: u64,
    pub(super) csv: Option<CsvRows>,
}

/// One of each item, in order; with its count if `counted` has the type of the result.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct UniqueStep {
    pub(super) is_counted: bool,
    pub(super) counted: Option<request::Records>,
}

/// Prefixes of numbers.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ScanStep {
    pub(super) operator: String,
    pub(super) exclusive: bool,
}

/// The first exception that the caller's own code raised.
#[derive(Clone, Default)]
pub(super) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps `exception`, unless one came before, and makes the error that stops the job.
    pub(super) fn keep(&self, exception: PyErr) -> Error {
        let text = exception.to_string();
        let mut raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.get_or_insert(exception);
        Error::usage("run the given function", text).hint("nothing was left behind")
    }

    pub(super) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn has_some(&self) -> bool {
        let raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.is_some()
    }
}

/// A function of Python over the bytes of a batch.
pub(super) struct Call {
    pub(super) function: Py<PyAny>,
    pub(super) raised: Raised,
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
