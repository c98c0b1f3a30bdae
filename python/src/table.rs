//! Jobs on tables that are no verbs yet: the native half of `outcore.Table`.
//!
//! Contract: as [`crate::jobs`]: nothing here knows of the interpreter, and what can be refused
//! without work is refused before any. A table that another library holds was written to an Arrow
//! file before ([`spool`]).

use std::path::{Path, PathBuf};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use outcore::job::Job;
use outcore::key::column::column_name;
use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_front::spool::{Copies, Spool, unpack_files};
use outcore_io::output::parent_of;
use outcore_table::expr::{Assignment, Expr};
use outcore_table::input::{
    InputOptions, OnBadRow, TextKind, TextOptions, check_not_read_again, files_of, null_texts,
    parse_types,
};
use outcore_table::jobs::{self, Selection, TableEnds, TableOrder};
use outcore_table::output::{Codec, OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use outcore_table::stream::{TableBatches, spool as run_spool};
use outcore_verbs::report::{Stopwatch, WriteSummary};
use outcore_verbs::tables::Ran;
use outcore_verbs::tables::report::Done as _;
use pyo3::{FromPyObject, Py, PyAny, Python};

use crate::request::{self, TextRequest};
use crate::run::Run;

/// A job, its table and its output.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TableJob {
    /// `sort`, `unique`, `merge`, `count_by` or `select`.
    job: String,
    inputs: Vec<PathBuf>,
    output: PathBuf,
    /// Columns of keys, with what comes behind their names.
    by: Vec<String>,
    descending: bool,
    stable: bool,
    conditions: Vec<String>,
    /// `name = expression`.
    computed: Vec<String>,
    columns: Option<Vec<String>>,
    union: bool,
    text: TextRequest,
    codec: Option<String>,
    force: bool,
    resources: request::Resources,
}

/// How text is read, as it is asked for.
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

/// Runs it.
pub(crate) fn run(request: &TableJob, run: &Run) -> Result<WriteSummary> {
    let stopwatch = Stopwatch::start();
    let resources = request.resources.load(&run.environment)?;
    let outputs = [request.output.clone()];
    let keys = request.keys()?;
    let mut reads = reads(request.columns.clone(), request.union, &request.text)?;
    let writes = request.writes(&request.output)?;
    request.check_inputs_kept()?;
    let job = job_of(&resources, &request.output, run)?;
    let beside = parent_of(&request.output);
    let (copies, _spool) = unpacked(&request.inputs, beside, (&job, &resources))?;
    reads.copies = copies;
    let ends = TableEnds {
        inputs: &request.inputs,
        reads: &reads,
        outputs: &outputs,
        writes: &writes,
    };
    let done = match request.job.as_str() {
        "sort" => jobs::sort(&job, &ends, &request.order(keys))?,
        "unique" => jobs::unique(&job, &ends, &request.order(keys))?,
        "merge" => jobs::merge(&job, &ends, &request.order(keys))?,
        "count_by" => jobs::count_by(&job, &ends, &keys, request.descending)?,
        _ => {
            let conditions = request.conditions.iter().map(|text| Expr::parse(text));
            let computed = request.computed.iter();
            let computed = computed.map(|text| Assignment::parse_all(text));
            let selection = Selection {
                conditions: conditions.collect::<Result<_>>()?,
                computed: computed.collect::<Result<Vec<_>>>()?.concat(),
            };
            jobs::select(&job, &ends, &selection)?
        }
    };
    let used = stopwatch.stop(done.moved(), &[], &resources, None);
    let ran = Ran::new(done, Some(&request.output), 0, used, bad_rows(&reads));
    Ok(ran.report)
}

impl TableJob {
    fn keys(&self) -> Result<Vec<KeyColumn>> {
        // Of counts, those descend that the columns say.
        let is_descending = self.descending && self.job != "count_by";
        let keys = self.by.iter();
        let keys = keys.map(|text| KeyColumn::parse_in(text, is_descending));
        keys.collect()
    }

    fn order(&self, keys: Vec<KeyColumn>) -> TableOrder {
        TableOrder {
            keys,
            is_stable: self.stable,
            is_descending: self.descending,
        }
    }

    fn writes(&self, path: &PathBuf) -> Result<OutputOptions> {
        let format = TableFormat::of_name(path).ok_or_else(|| {
            Error::usage(
                "create output",
                "its name does not say which format the table gets",
            )
            .path(path)
            .hint("let it end in .parquet, .arrow, .feather, .arrows, .csv, .tsv or .jsonl")
        })?;
        let codec = self.codec.as_deref().map(Codec::parse).transpose()?;
        let mut writes = OutputOptions::new(format).named(path, codec)?;
        writes.is_replacing = self.force;
        Ok(writes)
    }

    /// Fails if the output is an input, or a file in a directory that is one.
    fn check_inputs_kept(&self) -> Result<()> {
        if let Ok(path) = self.output.canonicalize() {
            let is_input = |input: &PathBuf| {
                let input = input.canonicalize();
                input
                    .is_ok_and(|input| input == path || (input.is_dir() && path.starts_with(input)))
            };
            if self.inputs.iter().any(is_input) {
                return Err(Error::usage("create output", "it is an input")
                    .path(&self.output)
                    .hint("name another file"));
            }
        }
        let inputs = self.inputs.iter().map(PathBuf::as_path);
        check_not_read_again(inputs, &[&self.output])
    }
}

/// What is to be said of rows that were left out, or values that became null.
pub(crate) fn bad_rows(reads: &InputOptions) -> Vec<String> {
    let text = reads.text.as_ref();
    text.map_or(Vec::new(), |text| text.bad_rows.take())
}

/// Files of text among `named` that are compressed, each with a copy; the copies lie beside
/// `beside`.
pub(crate) fn unpacked(
    named: &[PathBuf],
    beside: &Path,
    (job, resources): (&Job, &Resources),
) -> Result<(Copies, Option<Spool>)> {
    let mut texts = files_of(named, true)?;
    texts.retain(|file| TextKind::of_name(file).is_some());
    unpack_files((job, resources), beside, &texts, resources.names())
}

fn job_of(resources: &Resources, output: &Path, run: &Run) -> Result<Job> {
    let drives = resources.named_drives(0)?;
    Ok(run.watched(resources.planned_job(drives, parent_of(output))))
}

/// Writes the batches of `reader` to the Arrow file `path`; how many rows there are.
pub(crate) fn spool(
    mut reader: RecordBatchStreamReader,
    path: PathBuf,
    resources: &request::Resources,
    run: &Run,
) -> Result<u64> {
    let resources = resources.load(&run.environment)?;
    run_spool(&job_of(&resources, &path, run)?, &mut reader, path)
}

/// What is read of a table.
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

/// Batches whose files stay for as long as a Python object does.
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
    /// Readers let go of streams without the interpreter: what is held would stay until the
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
