//! Jobs on tables: the native half of `outcore.Table`.
//!
//! Contract: as [`crate::jobs`]: nothing here knows of the interpreter, and what can be refused
//! without work is refused before any. A table that another library holds was written to an Arrow
//! file before ([`spool`]).

use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use outcore::job::Job;
use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_front::spool::{Copies, Spool, unpack_files};
use outcore_io::output::parent_of;
use outcore_table::expr::{Assignment, Expr};
use outcore_table::input::{
    InputOptions, OnBadRow, TextKind, TextOptions, check_not_read_again, files_of, null_texts,
    parse_types,
};
use outcore_table::jobs::{
    self, Aggregate, AsOf, ColumnPair, Join, JoinKind, Keep, Near, PassageUnit, Selection,
    Shingles, Substring, TableEnds, TableOrder, TableSummary, Window, WindowColumn,
};
use outcore_table::output::{Codec, OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use outcore_table::stream::{TableBatches, spool as run_spool};
use pyo3::{FromPyObject, IntoPyObject, Py, PyAny, Python};

use crate::request::{self, TextRequest};
use crate::run::Run;

/// A job, its table and its output.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TableJob {
    /// `sort`, `unique`, `merge`, `count_by`, `shuffle`, `dedup`, `group_by`, `window`, `join`,
    /// `diff`, `convert`, `select`, `head` or `sample`.
    job: String,
    inputs: Vec<PathBuf>,
    output: PathBuf,
    /// Columns of keys, with what comes behind their names.
    by: Vec<String>,
    descending: bool,
    stable: bool,
    /// `first`, `last`, or a column.
    keep: String,
    removed: Option<PathBuf>,
    epoch: u64,
    rows: u64,
    conditions: Vec<String>,
    /// `name = expression`.
    computed: Vec<String>,
    aggregates: Vec<String>,
    /// Columns that order the rows of a group.
    order: Vec<String>,
    /// `name=function`.
    added: Vec<String>,
    /// So many rows of each group.
    first: Option<u64>,
    right: Option<RightRequest>,
    join: Option<JoinRequest>,
    near: Option<NearRequest>,
    substring: Option<SubstringRequest>,
    columns: Option<Vec<String>>,
    union: bool,
    text: TextRequest,
    codec: Option<String>,
    group_rows: Option<usize>,
    force: bool,
    resources: request::Resources,
}

/// The second table of a job on two.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct RightRequest {
    inputs: Vec<PathBuf>,
    columns: Option<Vec<String>>,
    union: bool,
    text: TextRequest,
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

/// How two tables are joined.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct JoinRequest {
    on: Vec<String>,
    how: String,
    asof: Option<String>,
    tolerance: Option<String>,
    suffix: String,
    unordered: bool,
}

impl JoinRequest {
    fn wanted(&self) -> Result<Join> {
        let on = self.on.iter().map(|text| ColumnPair::parse(text));
        let asof = self.asof.as_ref().map(|text| -> Result<AsOf> {
            Ok(AsOf {
                columns: ColumnPair::parse(text)?,
                tolerance: self.tolerance.clone(),
            })
        });
        Ok(Join {
            on: on.collect::<Result<_>>()?,
            kind: JoinKind::parse(&self.how)?,
            asof: asof.transpose()?,
            suffix: self.suffix.clone(),
            columns: None,
            is_unordered: self.unordered,
        })
    }
}

/// Which texts are nearly the same.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct NearRequest {
    column: String,
    jaccard: f64,
    shingles: String,
    hashes: usize,
}

/// Which passages of texts are cut.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct SubstringRequest {
    column: String,
    units_count: usize,
    tokens: bool,
}

/// What it did.
#[derive(Debug, IntoPyObject)]
pub(crate) struct TableDone {
    rows_in: u64,
    rows_out: u64,
    removed: Option<u64>,
    seconds: f64,
    read_bytes: u64,
    written_bytes: u64,
    scratch_bytes: u64,
    output_bytes: u64,
    passes: u32,
    /// What is to be said of rows that were left out, or values that became null.
    bad_rows: Vec<String>,
}

/// Runs it.
pub(crate) fn run(request: &TableJob, run: &Run) -> Result<TableDone> {
    let started = Instant::now();
    let resources = request.resources.load(&run.environment)?;
    let outputs = [request.output.clone()];
    let keys = request.keys()?;
    let mut reads = reads(request.columns.clone(), request.union, &request.text)?;
    let writes = request.writes(&request.output)?;
    request.check_inputs_kept()?;
    let job = job_of(&resources, &request.output, run)?;
    let (copies, _spool) = request.unpacked(&job, &resources)?;
    reads.copies = copies;
    let ends = TableEnds {
        inputs: &request.inputs,
        reads: &reads,
        outputs: &outputs,
        writes: &writes,
    };
    let seed = request.resources.seed();
    let mut removed = None;
    let done = match request.job.as_str() {
        "sort" => jobs::sort(&job, &ends, &request.order(keys))?,
        "unique" => jobs::unique(&job, &ends, &request.order(keys))?,
        "merge" => jobs::merge(&job, &ends, &request.order(keys))?,
        "count_by" => jobs::count_by(&job, &ends, &keys, request.descending)?,
        "shuffle" => jobs::shuffle(&job, &ends, (seed, request.epoch), &keys)?,
        "dedup" => {
            let keep = match request.keep.as_str() {
                "first" => Keep::First,
                "last" => Keep::Last,
                column => Keep::Best(vec![KeyColumn::parse(column)?]),
            };
            let others = match &request.removed {
                None => None,
                Some(path) => Some((path, request.writes(path)?)),
            };
            let others = others.as_ref().map(|(path, writes)| (*path, writes));
            if let Some(substring) = &request.substring {
                let wanted = Substring {
                    column: substring.column.clone(),
                    units_count: substring.units_count,
                    unit: match substring.tokens {
                        true => PassageUnit::Tokens,
                        false => PassageUnit::Bytes,
                    },
                };
                let done = jobs::dedup_substring(&job, &ends, &wanted, others)?;
                let done = TableDone::new(&done.table, Some(done.cuts), started);
                return Ok(done.telling(&reads));
            }
            let done = match &request.near {
                None => jobs::dedup(&job, &ends, (&keys, &keep), others)?,
                Some(near) => {
                    let near = near.wanted(&keep, seed)?;
                    jobs::dedup_near(&job, &ends, &near, others)?
                }
            };
            removed = Some(done.removed);
            done.table
        }
        "select" => {
            let conditions = request.conditions.iter().map(|text| Expr::parse(text));
            let computed = request.computed.iter();
            let computed = computed.map(|text| Assignment::parse_all(text));
            let selection = Selection {
                conditions: conditions.collect::<Result<_>>()?,
                computed: computed.collect::<Result<Vec<_>>>()?.concat(),
            };
            jobs::select(&job, &ends, &selection)?
        }
        "group_by" => {
            let mut aggregates = Vec::new();
            for list in &request.aggregates {
                aggregates.extend(Aggregate::parse_list(list)?);
            }
            jobs::group_by(&job, &ends, &keys, &aggregates)?
        }
        "window" => {
            let wanted = request.window(keys)?;
            jobs::window(&job, &ends, &wanted)?
        }
        "join" | "diff" => {
            let missing = || Error::usage("open tables", "there is no right table");
            let right = request.right.as_ref().ok_or_else(missing)?;
            let mut right_reads = self::reads(right.columns.clone(), right.union, &right.text)?;
            // What is left out of either table is said together.
            if let (Some(text), Some(left)) = (&mut right_reads.text, &reads.text) {
                text.bad_rows = left.bad_rows.clone();
            }
            right_reads.copies.clone_from(&reads.copies);
            let right = (&right.inputs[..], &right_reads);
            match &request.join {
                Some(join) => jobs::join(&job, &ends, right, &join.wanted()?)?,
                None => jobs::diff(&job, &ends, right, &keys)?.table,
            }
        }
        "head" => jobs::head(&job, &ends, request.rows)?,
        "sample" => jobs::sample(&job, &ends, (request.rows, seed))?,
        _ => jobs::copy(&job, &ends)?,
    };
    Ok(TableDone::new(&done, removed, started).telling(&reads))
}

impl NearRequest {
    fn wanted(&self, keep: &Keep, seed: u64) -> Result<Near> {
        if let Keep::Best(_) = keep {
            let cause =
                "of near duplicates the first or the last is kept, not the best by a column";
            return Err(Error::usage("remove duplicates", cause)
                .hint("keep the first or the last; sort the table by that column first"));
        }
        Ok(Near {
            shingles: Shingles::parse(&self.shingles)?,
            hashes_count: self.hashes,
            seed,
            keeps_last: *keep == Keep::Last,
            ..Near::new(&self.column, self.jaccard)
        })
    }
}

impl TableJob {
    fn keys(&self) -> Result<Vec<KeyColumn>> {
        // Of counts, those descend that the columns say.
        let is_descending = self.descending && self.job != "count_by";
        let keys = self.by.iter();
        let keys = keys.map(|text| KeyColumn::parse_in(text, is_descending));
        keys.collect()
    }

    fn window(&self, by: Vec<KeyColumn>) -> Result<Window> {
        let order = self.order.iter().map(|text| KeyColumn::parse(text));
        let mut wanted = Window {
            by,
            order: order.collect::<Result<_>>()?,
            columns: Vec::new(),
            first: self.first,
        };
        for list in &self.added {
            wanted.columns.extend(WindowColumn::parse_list(list)?);
        }
        Ok(wanted)
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
        if let Some(rows) = self.group_rows {
            writes.group_rows_max = rows;
        }
        writes.is_replacing = self.force;
        Ok(writes)
    }

    /// Its files of text that are compressed, each with a copy.
    fn unpacked(&self, job: &Job, resources: &Resources) -> Result<(Copies, Option<Spool>)> {
        let right = self.right.iter().flat_map(|right| &right.inputs);
        let named: Vec<PathBuf> = self.inputs.iter().chain(right).cloned().collect();
        unpacked(&named, parent_of(&self.output), (job, resources))
    }

    /// Fails if an output is an input, or a file in a directory that is one.
    fn check_inputs_kept(&self) -> Result<()> {
        for output in [Some(&self.output), self.removed.as_ref()]
            .into_iter()
            .flatten()
        {
            let Ok(path) = output.canonicalize() else {
                continue;
            };
            let is_input = |input: &PathBuf| {
                let input = input.canonicalize();
                input
                    .is_ok_and(|input| input == path || (input.is_dir() && path.starts_with(input)))
            };
            let right = self.right.iter().flat_map(|right| &right.inputs);
            if self.inputs.iter().chain(right).any(is_input) {
                return Err(Error::usage("create output", "it is an input")
                    .path(output)
                    .hint("name another file"));
            }
        }
        let right = self.right.iter().flat_map(|right| &right.inputs);
        let outputs = [Some(&self.output), self.removed.as_ref()];
        let outputs: Vec<&Path> = outputs
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect();
        let inputs = self.inputs.iter().chain(right);
        check_not_read_again(inputs.map(PathBuf::as_path), &outputs)?;
        match &self.removed {
            Some(removed) if *removed == self.output => {
                Err(Error::usage("create output", "two outputs have this name")
                    .path(removed)
                    .hint("name another file"))
            }
            _ => Ok(()),
        }
    }
}

impl TableDone {
    fn new(done: &TableSummary, removed: Option<u64>, started: Instant) -> Self {
        TableDone {
            rows_in: done.rows_in,
            rows_out: done.rows_out,
            removed,
            seconds: started.elapsed().as_secs_f64(),
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            scratch_bytes: done.scratch_bytes,
            output_bytes: done.lens_bytes.iter().sum(),
            passes: done.passes,
            bad_rows: Vec::new(),
        }
    }

    /// The same with what is to be said of bad rows.
    fn telling(self, reads: &InputOptions) -> Self {
        TableDone {
            bad_rows: bad_rows(reads),
            ..self
        }
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
