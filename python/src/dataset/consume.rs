//! The consumers of a dataset that Python calls: folds, selections, files.
//!
//! Contract: each function is one job. Values are returned as Python numbers or as the bytes of
//! items, which the Python half passes to NumPy. A Python function folds batches on the job's
//! threads, each to a Python value. The values are folded in the order of the input, so the
//! function only has to be associative. At most as many values wait as there are batches in flight.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::dataset::lines::count_lines as count_lines_of;
use outcore::dataset::{Execution, Mode};
use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::key::expr::Schema;
use outcore::primitives::batch::Yield;
use outcore::primitives::table::{BatchStep, Numbers};
use outcore::primitives::tables::Histogram;
use outcore::primitives::{BucketFiles, Reduction, Scalar, Side, fold};
use outcore::{Error, Result};
use outcore_front::dataset::LineFiles;
use outcore_front::inputs::{Source, Streams};
use outcore_front::output::{self, Holds, Target};
use outcore_front::split::{PartSize, SplitRequest, split};
use outcore_front::text::reader::{Frame, RecordReader};
use outcore_front::text::sample::choose;
use outcore_io::output::parent_of;
use outcore_io::units;
use outcore_store::dataset::Named;
use outcore_verbs::report::{Moved, Phase, Place, Stopwatch, WriteSummary};
use outcore_verbs::wording::{Said, headline};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes};

use super::open::Opened;
use super::said::{Call, Dataset, Raised};
use super::watched::watched;
use crate::jobs::{no_pipe, open_lines};
use crate::request::CsvRows;
use crate::verb::{Answer, answer};

/// The destination of a result.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct To {
    output: PathBuf,
    force: bool,
}

/// The destinations of the parts of a result.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ToParts {
    outputs: Vec<PathBuf>,
    manifest: PathBuf,
    force: bool,
}

fn number(py: Python<'_>, scalar: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match scalar {
        Scalar::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float32(value) => f64::from(value).into_pyobject(py)?.into_any().unbind(),
        Scalar::None => py.None(),
    })
}

fn numbers(py: Python<'_>, scalars: Vec<Scalar>) -> PyResult<Vec<Py<PyAny>>> {
    scalars.into_iter().map(|value| number(py, value)).collect()
}

/// The answer to a question about all items, after all steps.
fn asked<T: Send + 'static>(
    py: Python<'_>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
    ask: impl FnOnce(&mut Execution) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    watched(py, request, Mode::Run, tell, move |mut opened, _| {
        ask(&mut opened.execution)
    })
}

/// Folds all items by name or expression.
#[pyfunction]
#[pyo3(signature = (request, how, tell))]
pub(crate) fn reduce(
    py: Python<'_>,
    request: Dataset,
    how: Vec<String>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let reductions: Vec<Reduction> = how.iter().map(|how| Reduction::parse(how)).collect();
    let found = asked(py, request, tell, move |dataset| {
        dataset.reduce(&reductions).map(|(found, _)| found)
    })?;
    numbers(py, found)
}

/// The largest numbers, or the smallest.
#[pyfunction]
#[pyo3(signature = (request, count, smallest, tell))]
pub(crate) fn top(
    py: Python<'_>,
    request: Dataset,
    count: usize,
    smallest: bool,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let found = asked(py, request, tell, move |dataset| {
        dataset.top(count, smallest).map(|(found, _)| found)
    })?;
    numbers(py, found)
}

/// The range and the counts of a histogram.
#[pyfunction]
#[pyo3(signature = (request, bins, range, tell))]
pub(crate) fn histogram(
    py: Python<'_>,
    request: Dataset,
    bins: usize,
    range: Option<(f64, f64)>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<((f64, f64), Vec<u64>)> {
    asked(py, request, tell, move |dataset| {
        let (found, _) = dataset.histogram(bins, range)?;
        let Histogram { range, counts } = found;
        Ok((range, counts))
    })
}

/// The position of the first item for which an expression is true.
#[pyfunction]
#[pyo3(signature = (request, condition, tell))]
pub(crate) fn find(
    py: Python<'_>,
    request: Dataset,
    condition: String,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<u64>> {
    asked(py, request, tell, move |dataset| {
        dataset.find(&condition).map(|(found, _)| found)
    })
}

/// The items at `positions` (u64 in the machine's order), as bytes.
#[pyfunction]
#[pyo3(signature = (request, positions, tell))]
pub(crate) fn gather<'py>(
    py: Python<'py>,
    request: Dataset,
    positions: PyBackedBytes,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    let bytes = asked(py, request, tell, move |dataset| {
        let (positions, _) = positions.as_chunks::<8>();
        let positions: Vec<u64> = positions.iter().map(|at| u64::from_ne_bytes(*at)).collect();
        dataset.gather(&positions).map(|(bytes, _)| bytes)
    })?;
    Ok(PyByteArray::new(py, &bytes))
}

/// The ranks of keys (bytes of items) among the items, which must be in ascending order, as numbers
/// of eight bytes.
#[pyfunction]
#[pyo3(signature = (request, keys, right, index, tell))]
pub(crate) fn search_sorted<'py>(
    py: Python<'py>,
    request: Dataset,
    keys: PyBackedBytes,
    right: bool,
    index: Option<PathBuf>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    let side = match right {
        true => Side::Right,
        false => Side::Left,
    };
    let ranks = asked(py, request, tell, move |dataset| {
        let found = dataset.search_sorted(&keys, side, index.as_deref());
        found.map(|(ranks, _)| ranks)
    })?;
    let bytes: Vec<u8> = ranks.iter().flat_map(|rank| rank.to_ne_bytes()).collect();
    Ok(PyByteArray::new(py, &bytes))
}

/// Writes each item to the file with the number that an expression computes; returns the number of
/// items in each file.
#[pyfunction]
#[pyo3(signature = (request, bucket, to, tell))]
pub(crate) fn partition(
    py: Python<'_>,
    request: Dataset,
    bucket: Bucket,
    to: ToParts,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<u64>> {
    watched(py, request, Mode::Run, tell, move |mut opened, _| {
        if let Some(path) = to.outputs.iter().find(|path| Named::is_mark(path)) {
            return Err(
                Error::usage("create output", "parts are files, not datasets")
                    .path(path)
                    .hint("name files, and put them on the volume"),
            );
        }
        for path in &to.outputs {
            output::check_placeholders(path, &["{part}"])?;
        }
        let target = Target::Shards {
            paths: to.outputs.clone(),
            manifest: to.manifest.clone(),
        };
        output::check_new(&target, &opened.sources, to.force, Holds::Records)?;
        let raised = opened.raised();
        let dataset = &mut opened.execution;
        dataset.set_beside(target.dir());
        dataset.take_all_steps()?;
        let header = match to.outputs.first() {
            Some(path) => {
                let decided = dataset.item()?;
                output::header_for(&Target::File(path.clone()), &[], &decided)?
            }
            None => None,
        };
        let files = BucketFiles {
            paths: to.outputs,
            manifest: Some(to.manifest),
            replace: to.force,
            header,
        };
        let (counts, _) = match bucket {
            Bucket::Expression(text) => dataset.distribute(&text, &files)?,
            Bucket::Function(function) => {
                dataset.distribute_by(&Call { function, raised }, &files)?
            }
        };
        Ok(counts)
    })
}

/// The rule that assigns an item to a file.
#[derive(Debug, FromPyObject)]
pub(crate) enum Bucket {
    #[pyo3(transparent)]
    Expression(String),
    /// Makes a number (`i64`) for each item of the bytes of a batch.
    #[pyo3(transparent)]
    Function(Py<PyAny>),
}

/// Writes all items.
#[pyfunction]
#[pyo3(signature = (request, to, tell))]
pub(crate) fn write<'py>(
    py: Python<'py>,
    request: Dataset,
    mut to: To,
    tell: Option<&Bound<'py, PyAny>>,
) -> Answer<'py> {
    let report = watched(py, request, Mode::Run, tell, move |mut opened, run| {
        let stopwatch = Stopwatch::start();
        opened.stage_output(&mut to.output, to.force, run)?;
        let (name, specs) = (Some(to.output.as_path()), opened.resources.specs());
        let holds = match opened.execution.is_of_lines() {
            false => Holds::Records,
            true => Holds::Lines,
        };
        let target = output::choose_new(
            name,
            &opened.sources,
            specs,
            to.force,
            Streams::Refused,
            holds,
        )?;
        opened.execution.set_beside(target.dir());
        opened.execution.take_steps()?;
        let done = match opened.execution.written()? {
            Some(item) => {
                let header = output::header_for(&target, &[], &item)?;
                let output = target.to_sort(header, no_pipe)?;
                opened.execution.write(output, to.force)?
            }
            None => {
                let dress = opened.dress()?;
                let job = run.job(&opened.resources, Vec::new());
                let (output, pending) = open_lines(&job, &target, to.force, &dress)?;
                pending.finish(opened.execution.write(output, to.force))?
            }
        };
        let moved = Moved {
            records: done.records,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            passes: done.passes,
        };
        let traffic = done.drives.clone();
        let lens_bytes = opened.sources.iter().map(|source| source.len_bytes());
        let report = WriteSummary {
            used: stopwatch.stop(moved, &traffic, &opened.resources, None),
            unit: match holds {
                Holds::Lines => "line".to_owned(),
                _ => "record".to_owned(),
            },
            output: Some(Place(run.name_of(target.name()))),
            records_in: (done.records_in > 0).then_some(done.records_in),
            data_bytes: lens_bytes.map(|bytes| bytes.unwrap_or(0)).sum(),
            output_bytes: None,
            files: match &target {
                Target::Shards { paths, .. } => paths.len() as u64,
                _ => 1,
            },
            scratch_bytes: None,
            skipped: done.skipped,
            phases: Phase::of_engine(&done.phases),
            plan: None,
            notes: Vec::new(),
        };
        std::mem::take(&mut opened.datasets).put(run)?;
        Ok(report)
    })?;
    let mut said = headline(&report, &Said::of("wrote"));
    if report.skipped > 0 {
        said += &format!(", left out {}", units::count(report.skipped));
    }
    answer(py, &report, said)
}

/// Number of lines, and of those that were left out.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn count_lines(
    py: Python<'_>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    watched(py, request, Mode::Run, tell, move |mut opened, _| {
        opened.execution.take_all_steps()?;
        let (inputs, recognition) = lines_of(&opened)?.inputs();
        let job = opened.execution.job()?;
        let mut lines = 0;
        let mut plain = Vec::new();
        for input in inputs {
            if recognition
                .packed(&input.source.name, input.content)
                .is_none()
            {
                plain.push(input.to_sort());
                continue;
            }
            let frame = Frame::Terminator(opened.terminator);
            let mut reader = RecordReader::new(&job, vec![input.source], frame, recognition);
            while let Some(piece) = reader.next_piece()? {
                lines += u64::from(piece.is_last);
            }
        }
        lines += count_lines_of(&job, &plain, opened.terminator)?;
        Ok((lines, opened.execution.so_far().skipped))
    })
}

/// The first lines or records of CSV, after their header.
#[pyfunction]
#[pyo3(signature = (request, count, csv, tell))]
pub(crate) fn head_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    count: u64,
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let lines = watched(py, request, Mode::Run, tell, move |mut opened, _| {
        opened.execution.take_all_steps()?;
        let job = opened.execution.job()?;
        let mut reader = line_reader(&opened, &job, csv)?;
        let mut lines = header_line(&mut reader)?;
        let mut left = count;
        while left > 0
            && let Some(line) = reader.next_record()?
        {
            lines.push(line);
            left -= 1;
        }
        Ok(lines)
    })?;
    Ok(lines.iter().map(|line| PyBytes::new(py, line)).collect())
}

/// The header of CSV without its end, if there is one.
fn header_line(reader: &mut RecordReader<'_>) -> Result<Vec<Vec<u8>>> {
    let header = reader.header()?;
    let line = header.strip_suffix(b"\n").unwrap_or(header);
    Ok(match line.is_empty() {
        true => Vec::new(),
        false => vec![line.to_vec()],
    })
}

/// Random lines, in the order of the input, and the number of lines that were left out before;
/// records of CSV come after their header.
#[pyfunction]
#[pyo3(signature = (request, count, seed, csv, tell))]
pub(crate) fn sample_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    count: u64,
    seed: u64,
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<Bound<'py, PyBytes>>, u64)> {
    let (kept, skipped) = watched(py, request, Mode::Run, tell, move |mut opened, _| {
        opened.execution.take_all_steps()?;
        let limit_bytes = opened.resources.config.memory_bytes.value;
        let job = opened.execution.job()?;
        let mut reader = line_reader(&opened, &job, csv)?;
        let mut lines = header_line(&mut reader)?;
        let kept = choose(&mut reader, count, seed, limit_bytes)?;
        lines.extend(kept);
        drop(reader);
        Ok((lines, opened.execution.so_far().skipped))
    })?;
    let lines = kept.iter().map(|line| PyBytes::new(py, line));
    Ok((lines.collect(), skipped))
}

/// The first line that is not in the order of the last step: file, number from 1, line.
#[pyfunction]
#[pyo3(signature = (request, tell))]
pub(crate) fn check_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<(PathBuf, u64, Bound<'py, PyBytes>)>> {
    let found = watched(py, request, Mode::Run, tell, move |mut opened, _| {
        opened.execution.disorder()
    })?;
    Ok(found.map(|found| {
        let line = PyBytes::new(py, &found.line);
        (found.path, found.line_number, line)
    }))
}

/// Writes lines to several files, by number of files or by lines per file; returns their names, and
/// the number of lines that were left out before.
#[pyfunction]
#[pyo3(signature = (request, pattern, parts, lines, force, csv, tell))]
#[allow(
    clippy::too_many_arguments,
    reason = "one for each argument of Python's"
)]
pub(crate) fn split_lines(
    py: Python<'_>,
    request: Dataset,
    pattern: String,
    parts: Option<u64>,
    lines: u64,
    force: bool,
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<PathBuf>, u64)> {
    let cut = parts.map_or(PartSize::Records(lines), PartSize::Parts);
    watched(py, request, Mode::Run, tell, move |mut opened, _| {
        let what = SplitRequest {
            pattern: Path::new(&pattern),
            cut,
            replace: force,
            inputs: opened
                .sources
                .iter()
                .filter_map(|source| source.key)
                .collect(),
            header: None,
            filter: None,
        };
        what.check(Holds::Lines)?;
        let beside = parent_of(Path::new(&pattern)).to_path_buf();
        opened.execution.set_beside(beside);
        opened.execution.take_all_steps()?;
        if matches!(cut, PartSize::Parts(_)) {
            // The ends of parts depend on the length of the whole input.
            opened.execution.unpack_files()?;
        }
        let job = opened.execution.job()?;
        let mut reader = line_reader(&opened, &job, csv)?;
        let (inputs, _) = lines_of(&opened)?.inputs();
        let data_bytes = inputs.iter().map(|input| input.data_bytes).sum();
        let (_, names) = split(&job, &mut reader, inputs.len(), data_bytes, what)?;
        drop(reader);
        Ok((names, opened.execution.so_far().skipped))
    })
}

/// The files of a dataset of lines.
fn lines_of(opened: &Opened) -> Result<&LineFiles> {
    let lines = opened.lines.as_ref();
    lines.ok_or_else(|| {
        Error::usage("read dataset", "it has records, not lines").hint("open it with lines=True")
    })
}

/// The lines of a dataset as a stream, or the records of CSV.
pub(super) fn line_reader<'a>(
    opened: &Opened,
    job: &'a Job,
    csv: Option<CsvRows>,
) -> Result<RecordReader<'a>> {
    let (inputs, recognition) = lines_of(opened)?.inputs();
    let sources: Vec<Source> = inputs.into_iter().map(|input| input.source).collect();
    let frame = match csv {
        None => Frame::Terminator(opened.terminator),
        Some((separator, has_header)) => Frame::Csv {
            separator,
            has_header,
        },
    };
    Ok(RecordReader::new(job, sources, frame, recognition))
}

/// Python values that wait to be folded, by number.
#[derive(Default)]
struct Values {
    next: AtomicU64,
    held: Mutex<HashMap<u64, Py<PyAny>>>,
}

impl Values {
    fn held(&self) -> MutexGuard<'_, HashMap<u64, Py<PyAny>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, value: Py<PyAny>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.held().insert(number, value);
        number
    }

    fn take(&self, number: u64) -> Option<Py<PyAny>> {
        self.held().remove(&number)
    }
}

/// Folds each batch with a function, and returns the number of the resulting value.
struct FoldBatch {
    function: Py<PyAny>,
    values: Arc<Values>,
    raised: Raised,
}

impl BatchStep for FoldBatch {
    fn run(&self, _first: u64, items: &[u8]) -> Result<Vec<u8>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        Python::attach(|py| {
            let value = self.function.call1(py, (PyBytes::new(py, items),));
            let value = value.map_err(|exception| self.raised.keep(exception))?;
            Ok(self.values.put(value).to_ne_bytes().to_vec())
        })
    }
}

/// Folds all items with Python functions: `of_batch` turns the bytes of a batch into a value, and
/// `both` combines two values. `None` if there are no items.
#[pyfunction]
#[pyo3(name = "fold", signature = (request, of_batch, both, tell))]
pub(crate) fn fold_batches(
    py: Python<'_>,
    request: Dataset,
    of_batch: Py<PyAny>,
    both: Py<PyAny>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let values = Arc::new(Values::default());
    let kept = Arc::clone(&values);
    let found = watched(py, request, Mode::Run, tell, move |mut opened, run| {
        opened.execution.take_all_steps()?;
        let raised = opened.raised();
        let step = FoldBatch {
            function: of_batch,
            values: Arc::clone(&kept),
            raised: raised.clone(),
        };
        let u64s = RecordFormat::parse_type("u64")?;
        let table = opened.execution.table()?;
        let table = table.own(
            Arc::new(step),
            &u64s,
            Schema::of_format(&u64s),
            Yield::AtMostOne,
        )?;
        // An exception stops the job at its next check, and is raised in place of its result.
        let combine = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Python::attach(|py| {
                let (a, b) = (kept.take(a)?, kept.take(b)?);
                let value = both.call1(py, (a, b));
                match value {
                    Ok(value) => Some(kept.put(value)),
                    Err(exception) => {
                        drop(raised.keep(exception));
                        run.control.cancel();
                        None
                    }
                }
            }),
            (one, None) | (None, one) => one,
        };
        let step = |so_far, number| combine(so_far, Some(number));
        let found = fold(
            &opened.execution.job()?,
            &Numbers::<u64>::of(&table),
            None,
            step,
            combine,
        )?;
        match raised.has_some() {
            true => Err(Error::interrupted()),
            false => Ok(found),
        }
    })?;
    Ok(found
        .and_then(|number| values.take(number))
        .unwrap_or_else(|| py.None()))
}
