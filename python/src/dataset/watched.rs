//! Runs a dataset on a thread of its own; describes its type and its plan.
//!
//! Contract: an exception of the caller's code is raised again in place of the job's error.

use outcore::Result;
use outcore::dataset::Mode;
use pyo3::prelude::*;

use super::open::Opened;
use super::said::{Dataset, Raised};
use crate::run::{self, Run};

/// Runs `work` on the dataset, whose steps are not taken yet; an exception of the caller's code is
/// raised again.
pub(super) fn watched<T: Send + 'static>(
    py: Python<'_>,
    request: Dataset,
    mode: Mode,
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

/// The type of items after all steps (its name and size, nothing for lines), the steps, and the
/// header of an empty `.npy` file of such items if one is known.
#[pyfunction]
pub(crate) fn describe(
    py: Python<'_>,
    request: Dataset,
) -> PyResult<(String, usize, String, Option<Vec<u8>>)> {
    watched(py, request, Mode::Types, None, |mut opened, _| {
        let (name, item_bytes, steps) = opened.execution.describe()?;
        let header = opened.execution.item().ok().and_then(|item| item.header);
        let header = header.map(|header| header.encode(0));
        Ok((name, item_bytes, steps, header))
    })
}

/// The passes of a consumer, as text, with the plan of the first pass. Only headers and a sample
/// are read.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, request: Dataset, consumer: String) -> PyResult<String> {
    watched(py, request, Mode::Plans, None, move |mut opened, _| {
        opened.execution.explain(&consumer)
    })
}
