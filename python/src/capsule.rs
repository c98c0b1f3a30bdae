//! Tables of other Python libraries: the Arrow PyCapsule interface, in both directions.
//!
//! Contract: [`taken`] moves the stream of an object with `__arrow_c_stream__` out of its capsule,
//! which is then empty. [`given`] is a capsule over one of our readers, which frees itself. Nothing
//! is copied. The interface:
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use std::ffi::CStr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

const NAME: &CStr = c"arrow_array_stream";

/// The stream of batches of `table`.
pub(crate) fn taken(table: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(NAME))?;
    // SAFETY: a capsule of this name holds an initialised `ArrowArrayStream`, by the interface; it
    // was made for us by the call above, we hold it, and the interpreter is attached. Taking the
    // stream leaves a released one behind, which the capsule's own destructor ignores.
    #[allow(unsafe_code, reason = "the interface is a pointer")]
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    RecordBatchStreamReader::try_new(stream)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A capsule with the batches of `reader`.
pub(crate) fn given(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), NAME)
}
