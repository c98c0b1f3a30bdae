//! Lazy datasets: steps from Python, one native pass for each consumer.
//!
//! Contract: a dataset is a request (files, types, steps) that the Python half builds; every
//! consumer here runs it as one job. Expressions stay in Rust. A step of the caller's own is called
//! with the bytes of a batch, from the job's threads with the interpreter held for the call; what
//! it raises stops the job and is raised again as it is. Batches for iteration come through a
//! channel of a few, from a job on threads of its own that ends with the iterator.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use outcore::algo::sequence::group::group;
use outcore::algo::sequence::producer::Producer;
use outcore::algo::sequence::table::BatchStep;
use outcore::algo::sequence::write::{plan_of, produce};
use outcore::algo::sequence::{Grouping, PassSummary, Reduction, Scalar, Table, reduce_table};
use outcore::algo::sort::{SortInput, SortOutput};
use outcore::config::Environment;
use outcore::data::RecordFormat;
use outcore::data::expr::Schema;
use outcore::job::{Control, Job};
use outcore::{Error, Result};
use outcore_formats::inputs::{self, Input, Streams};
use outcore_formats::means::Means;
use outcore_formats::output::{self, Consent, Sink};
use outcore_formats::records::{self, Decided};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::{errors, reply, request, run};

/// Batches that wait for their reader.
const BATCHES_WAITING: usize = 2;

/// A step as Python says it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Step {
    /// `where`, `map` or `call`.
    kind: String,
    expression: Option<String>,
    function: Option<Py<PyAny>>,
    records: Option<request::Records>,
    filters: bool,
}

/// A dataset as Python says it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Dataset {
    inputs: Vec<PathBuf>,
    records: request::Records,
    means: request::Means,
    steps: Vec<Step>,
}

/// Where a result goes.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct To {
    output: PathBuf,
    force: bool,
}

/// The first exception that the caller's own code raised.
type Raised = Arc<Mutex<Option<PyErr>>>;

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
            made.map_err(|exception| {
                let text = exception.to_string();
                let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
                raised.get_or_insert(exception);
                Error::usage("run the given function", text).hint("nothing was left behind")
            })
        })
    }
}

/// A dataset with its files found and its steps compiled.
struct Opened {
    means: Means,
    inputs: Vec<Input>,
    decided: Decided,
    table: Table,
}

impl Opened {
    fn job(&self, control: &Arc<Control>) -> Result<Job> {
        let mut job = self.means.job(self.means.named_drives(0)?);
        job.control = Arc::clone(control);
        Ok(job)
    }
}

fn open(request: Dataset, environment: &Environment, raised: &Raised) -> Result<Opened> {
    let means = request.means.load(environment)?;
    let sources = inputs::find(&request.inputs, Streams::Refused)?;
    let inputs: Result<Vec<Input>> = sources.into_iter().map(inputs::look).collect();
    let inputs = inputs?;
    let decided = records::decide(&request.records.to_request()?, &inputs)?;
    let files: Vec<SortInput> = inputs.iter().map(Input::to_sort).collect();
    let schema = match &decided.header {
        Some(header) if header.format.record_bytes() == decided.format.record_bytes() => {
            Schema::of_npy(header, &decided.format)
        }
        _ => Schema::of_format(&decided.format),
    };
    let mut table = Table::read(&files, &decided.format, schema);
    for step in request.steps {
        table = refine(&table, step, raised)?;
    }
    Ok(Opened {
        means,
        inputs,
        decided,
        table,
    })
}

fn refine(table: &Table, step: Step, raised: &Raised) -> Result<Table> {
    let expression = step.expression.unwrap_or_default();
    match (step.kind.as_str(), step.function, step.records) {
        ("where", ..) => table.filter(&expression),
        ("map", ..) => table.map(&expression),
        (_, Some(function), Some(made)) => {
            let decided = records::named(&made.to_request()?)?
                .ok_or_else(|| Error::usage("map", "no type is named").hint("give a dtype"))?;
            let schema = match &decided.header {
                Some(header) => Schema::of_npy(header, &decided.format),
                None => Schema::of_format(&decided.format),
            };
            let call = Call {
                function,
                raised: Arc::clone(raised),
            };
            table.own(Arc::new(call), &decided.format, schema, step.filters)
        }
        (kind, ..) => Err(Error::usage("read step", format!("`{kind}` is no step"))),
    }
}

/// Runs `work` on the opened dataset; what the caller's own code raised is raised again.
fn watched<T: Send + 'static>(
    py: Python<'_>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Opened, &Arc<Control>) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let environment = Environment::of_process();
    let raised = Raised::default();
    let kept = Arc::clone(&raised);
    let result = run::watch(py, tell, move |control| {
        let opened = open(request, &environment, &kept)?;
        work(&opened, control)
    });
    let exception = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (result, exception) {
        (Err(_), Some(exception)) => Err(exception),
        (result, _) => result,
    }
}

/// What items are after all steps: the type's name and size.
pub(crate) fn describe(py: Python<'_>, request: Dataset) -> PyResult<(String, usize, String)> {
    watched(py, request, None, |opened, _| {
        let format = opened.table.format();
        Ok((
            format.to_string(),
            format.record_bytes(),
            opened.table.steps(),
        ))
    })
}

/// The passes of a consumer, as text.
pub(crate) fn explain(py: Python<'_>, request: Dataset, consumer: String) -> PyResult<String> {
    watched(py, request, None, move |opened, control| {
        plan_of(&opened.job(control)?, &opened.table, &consumer).map(|plan| plan.to_string())
    })
}

/// Folds all items.
pub(crate) fn reduce(
    py: Python<'_>,
    request: Dataset,
    how: Vec<String>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let reductions: Vec<Reduction> = how.iter().map(|how| Reduction::parse(how)).collect();
    let scalars = watched(py, request, tell, move |opened, control| {
        reduce_table(&opened.job(control)?, &opened.table, &reductions).map(|(found, _)| found)
    })?;
    let values = scalars.into_iter().map(|scalar| {
        Ok(match scalar {
            Scalar::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
            Scalar::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
            Scalar::Float32(value) => f64::from(value).into_pyobject(py)?.into_any().unbind(),
            Scalar::None => py.None(),
        })
    });
    values.collect()
}

/// Writes all items, or the distinct ones, or those and their counts.
pub(crate) fn write(
    py: Python<'_>,
    request: Dataset,
    to: To,
    how: String,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<reply::Generated> {
    watched(py, request, tell, move |opened, control| {
        let cost = reply::Cost::start();
        let grouping = match how.as_str() {
            "unique" => Some(Grouping::Unique),
            "counts" => Some(Grouping::Counted),
            _ => None,
        };
        let consent = Consent {
            force: to.force,
            replace: false,
        };
        let sources: Vec<_> = opened
            .inputs
            .iter()
            .map(|input| input.source.clone())
            .collect();
        let specs = opened.means.specs();
        let target = output::choose(Some(&to.output), &sources, specs, consent, Streams::Refused)?;
        let format = opened.table.format();
        let decided = match opened.decided.format == *format {
            true => opened.decided.clone(),
            false => Decided::from(format.clone()),
        };
        let header = match grouping {
            Some(Grouping::Counted) => None,
            _ => output::header_for(&target, &opened.inputs, &decided)?,
        };
        let output = target.to_sort(header, no_pipe)?;
        let job = opened.job(control)?;
        let done = consume(&job, &opened.table, format, grouping, (&output, to.force))?;
        let set = &opened.means.config.drives.value;
        Ok(reply::Generated {
            used: cost.used((done.records, done.passes), &done.drives, set, None),
            output: target.name().as_os_str().to_owned(),
        })
    })
}

fn consume(
    job: &Job,
    table: &Table,
    format: &RecordFormat,
    grouping: Option<Grouping>,
    output: (&SortOutput, bool),
) -> Result<PassSummary> {
    match grouping {
        Some(grouping) => group(job, table, format, grouping, output).map(|done| done.pass),
        None => produce(job, table, output.0, output.1),
    }
}

/// Nothing here is written to a pipe of the system.
fn no_pipe(_path: Option<&std::path::Path>) -> Result<Sink> {
    Err(Error::usage("create output", "it is no regular file").hint("write a file"))
}

/// Sends what is written to a channel; fails once nobody listens.
struct ToChannel(SyncSender<Result<Vec<u8>>>);

impl Write for ToChannel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        self.0.send(Ok(bytes.to_vec())).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An iterator over the bytes of batches, in order.
#[pyclass]
pub(crate) struct Batches {
    received: Mutex<Option<Receiver<Result<Vec<u8>>>>>,
    control: Arc<Control>,
    raised: Raised,
    job: Option<JoinHandle<()>>,
}

impl Batches {
    /// Starts the job.
    pub(crate) fn start(py: Python<'_>, request: Dataset) -> PyResult<Self> {
        let environment = Environment::of_process();
        let raised = Raised::default();
        let opened = open(request, &environment, &raised).map_err(|e| errors::raise(py, &e))?;
        let control = Arc::new(Control::default());
        let job = opened.job(&control).map_err(|e| errors::raise(py, &e))?;
        let (send, received) = sync_channel(BATCHES_WAITING);
        let work = move || {
            let pipe: Sink = Box::new(ToChannel(send.clone()));
            let output = SortOutput::Pipe(Mutex::new(pipe));
            if let Err(error) = produce(&job, &opened.table, &output, false) {
                // Nobody listens only if the iterator is gone.
                drop(send.send(Err(error)));
            }
        };
        let thread = std::thread::Builder::new().name("outcore".to_string());
        let thread = thread
            .spawn(work)
            .map_err(|error| errors::raise(py, &Error::io("start thread", &error)))?;
        Ok(Batches {
            received: Mutex::new(Some(received)),
            control,
            raised,
            job: Some(thread),
        })
    }
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let received = py.detach(|| {
            let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            received.as_ref().and_then(|received| received.recv().ok())
        });
        py.check_signals()?;
        match received {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(PyBytes::new(py, &bytes))),
            Some(Err(error)) => {
                let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
                Err(raised.take().unwrap_or_else(|| errors::raise(py, &error)))
            }
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.control.cancel();
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        // The job's next batch finds nobody, so that it ends.
        drop(received.take());
        drop(received);
        if let Some(job) = self.job.take() {
            // It may be calling a function of Python's: it must not wait for us meanwhile.
            Python::attach(|py| py.detach(|| drop(job.join())));
        }
    }
}
