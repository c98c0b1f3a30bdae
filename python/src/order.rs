//! Records in the order of a shuffle, for Python.
//!
//! Contract: [`Order`] holds the input's files open; each read is a job of its own, during which
//! the interpreter is released and Ctrl-C works. The dtype of the records is passed as the header
//! of an empty `.npy` file, which NumPy reads itself.

use std::sync::Arc;

use outcore::shuffle::Shuffled;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::fork::Here;
use crate::{errors, jobs, request, run};

/// The order of a shuffle over open files.
#[pyclass(module = "outcore._outcore", frozen)]
pub(crate) struct Order {
    shuffled: Here<Arc<Shuffled>>,
    count: u64,
    record_bytes: usize,
    stretch: u64,
    header: Option<Vec<u8>>,
}

#[pymethods]
impl Order {
    #[new]
    fn new(py: Python<'_>, request: request::Order) -> PyResult<Self> {
        let (shuffled, header) = run::watch(py, None, |run| jobs::order(request, run))?;
        Ok(Order {
            count: shuffled.len(),
            record_bytes: shuffled.record_bytes(),
            stretch: shuffled.stretch_records(),
            shuffled: Here::new(Arc::new(shuffled)),
            header,
        })
    }

    /// Number of records.
    #[getter]
    fn count(&self) -> u64 {
        self.count
    }

    /// Length of a record.
    #[getter]
    fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// The largest number of records that fit in memory at once.
    #[getter]
    fn stretch(&self) -> u64 {
        self.stretch
    }

    /// The header of an empty `.npy` file, if the records have a dtype.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.header.as_ref().map(|header| PyBytes::new(py, header))
    }

    /// The bytes of `count` records that start at place `start`.
    fn read<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        count: u64,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let shuffled = self
            .shuffled
            .get("the order", "open the files again in the child");
        let shuffled = shuffled.map_err(|error| errors::raise(py, &error))?;
        let shuffled = Arc::clone(shuffled);
        let bytes = run::watch(py, None, move |run| {
            // The engine rejects a count that does not fit the data.
            let count = count.min(shuffled.len() + 1) as usize;
            let mut bytes = vec![0; count * shuffled.record_bytes()];
            shuffled.read_watched(&run.control, start, &mut bytes)?;
            Ok(bytes)
        })?;
        Ok(PyByteArray::new(py, &bytes))
    }
}
