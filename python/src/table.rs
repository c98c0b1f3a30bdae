//! Batches of tables: the native half of `outcore.Table`.
//!
//! Contract: as [`crate::jobs`]: nothing here depends on the interpreter. A verb reads a table that
//! another library holds from an Arrow file, which [`spool`] writes.

use std::path::{Path, PathBuf};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use outcore::job::{Job, OutputPlaces};
use outcore::key::column::column_name;
use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_table::input::{InputOptions, OnBadRow, TextOptions, null_texts, parse_types};
use outcore_table::stream::{TableBatches, spool as run_spool};
use pyo3::{Py, PyAny, Python};

use crate::request::{self, TextRequest};
use crate::run::Run;

/// The requested options for reading text.
fn text_options(request: &TextRequest) -> Result<TextOptions> {
    Ok(TextOptions {
        schema: request
            .schema
            .as_deref()
            .map_or(Ok(Vec::new()), parse_types)?,
        separator: request.separator,
        nulls: null_texts(&request.null),
        on_bad: match request.on_error.as_str() {
            "fail" => OnBadRow::Fail,
            "skip" => OnBadRow::Skip,
            "null" => OnBadRow::Null,
            other => {
                let cause = format!("on_error={other:?} is unknown");
                return Err(Error::usage("open tables", cause).hint("use fail, skip or null"));
            }
        },
        ..TextOptions::default()
    })
}

/// The notes about rows that were left out, or values that became null.
pub(crate) fn bad_rows(reads: &InputOptions) -> Vec<String> {
    let text = reads.text.as_ref();
    text.map_or(Vec::new(), |text| text.bad_rows.take())
}

fn job_of(resources: &Resources, output: &Path, run: &Run) -> Result<Job> {
    let drives = resources.named_drives(0)?;
    let mut job = run.watched(resources.planned_job(drives));
    job.options.outputs = OutputPlaces::Files(vec![output.to_path_buf()]);
    Ok(job)
}

/// Writes the batches of `reader` to the Arrow file `path`; returns the number of rows.
pub(crate) fn spool(
    mut reader: RecordBatchStreamReader,
    path: PathBuf,
    resources: &request::Resources,
    run: &Run,
) -> Result<u64> {
    let resources = resources.load(&run.environment)?;
    run_spool(&job_of(&resources, &path, run)?, &mut reader, path)
}

/// The options for reading a table.
pub(crate) fn reads(
    columns: Option<Vec<String>>,
    is_union: bool,
    text: &TextRequest,
) -> Result<InputOptions> {
    let columns = columns.map(|names| names.iter().map(|name| column_name(name)).collect());
    Ok(InputOptions {
        columns,
        is_union,
        text: Some(text_options(text)?),
        ..InputOptions::default()
    })
}

/// The batches of a table.
pub(crate) fn batches(
    paths: &[PathBuf],
    reads: &InputOptions,
    resources: &request::Resources,
    run: &Run,
) -> Result<TableBatches> {
    let resources = resources.load(&run.environment)?;
    TableBatches::open(&resources.job(Vec::new()), paths, reads)
}

/// Batches whose files exist as long as a Python object.
pub(crate) struct Holding {
    batches: TableBatches,
    held: Option<Py<PyAny>>,
}

impl Holding {
    pub(crate) fn new(batches: TableBatches, held: Py<PyAny>) -> Self {
        let held = Some(held);
        Holding { batches, held }
    }
}

impl Drop for Holding {
    /// Readers may drop streams without the interpreter: the held object would then stay until the
    /// next call.
    fn drop(&mut self) {
        let held = self.held.take();
        Python::try_attach(|_| drop(held));
    }
}

impl Iterator for Holding {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl RecordBatchReader for Holding {
    fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }
}
