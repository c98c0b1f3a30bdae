//! Iteration over a dataset.
//!
//! Contract: [`Batches`] runs the dataset's passes on threads of their own and passes on the bytes
//! of whole batches, in order, through a channel of [`BATCHES_WAITING`]. A batch of lines has whole
//! lines. A caller that waits for the next batch releases the interpreter, and sees Ctrl-C within
//! 50 ms. The job ends when the iterator is dropped. A forked child has the iterator, but not its
//! threads, and the locks are in an unknown state. In the child, the next batch is an error, and
//! nothing of the iterator is touched.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use outcore::Output;
use outcore::dataset::Mode;
use outcore::job::Control;
use outcore::{Error, Result};
use outcore_front::output::{Sink, Target};
use outcore_front::text::output::open;
use outcore_io::threads::spawn;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::consume::line_reader;
use super::open::Opened;
use super::said::{Dataset, Raised};
use crate::errors;
use crate::fork::Here;
use crate::run::Run;

/// Batches that wait for their reader.
const BATCHES_WAITING: usize = 2;
/// Bytes of lines that are passed on at once.
const LINES_BYTES: usize = 1 << 20;
/// How long a signal may stay unseen.
const LOOK_EVERY: Duration = Duration::from_millis(50);

type Message = Result<Vec<u8>>;

/// Sends written bytes to a channel; fails once the receiver is dropped.
struct ToChannel(SyncSender<Message>);

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

/// Sends all items.
fn send_all(
    request: Dataset,
    raised: Raised,
    run: &Run,
    to: &SyncSender<Message>,
    skipped: &AtomicU64,
) -> Result<()> {
    let mut opened = Opened::begin(request, raised, Mode::Run, run)?;
    opened.execution.take_steps()?;
    let is_of_lines = opened.execution.is_of_lines();
    if !opened.execution.has_ending() && is_of_lines {
        skipped.store(opened.execution.so_far().skipped, Ordering::Relaxed);
        return send_lines(&opened, to);
    }
    let pipe: Sink = Box::new(ToChannel(to.clone()));
    let done = match is_of_lines {
        false => {
            let output = Output::Pipe(Mutex::new(pipe));
            opened.execution.write(output, false)
        }
        true => {
            let dress = opened.dress()?;
            let job = run.job(&opened.resources, Vec::new());
            let (output, pending) = open(&job, &Target::Pipe(None), false, &dress, |_| Ok(pipe))?;
            pending.finish(opened.execution.write(output, false))
        }
    };
    skipped.store(done?.skipped, Ordering::Relaxed);
    Ok(())
}

/// Sends the lines of files, each with its end.
fn send_lines(opened: &Opened, to: &SyncSender<Message>) -> Result<()> {
    let job = opened.execution.job()?;
    let mut reader = line_reader(opened, &job, None)?;
    let mut lines = Vec::with_capacity(LINES_BYTES);
    while let Some(piece) = reader.next_piece()? {
        lines.extend_from_slice(piece.bytes);
        if piece.is_last {
            lines.push(opened.terminator);
        }
        if lines.len() >= LINES_BYTES {
            // The send fails only if the iterator is gone.
            to.send(Ok(lines)).map_err(|_| Error::interrupted())?;
            lines = Vec::with_capacity(LINES_BYTES);
        }
    }
    to.send(Ok(lines)).map_err(|_| Error::interrupted())
}

/// An iterator over the bytes of batches, in order.
#[pyclass]
pub(crate) struct Batches {
    live: Here<Live>,
    /// Lines left out; known at the end.
    skipped: Arc<AtomicU64>,
}

/// The state that belongs to the job's thread.
struct Live {
    received: Mutex<Option<Receiver<Message>>>,
    control: Arc<Control>,
    raised: Raised,
    job: Option<JoinHandle<()>>,
}

/// The items of a dataset in batches of bytes; their job starts at once.
#[pyfunction]
pub(crate) fn batches(py: Python<'_>, request: Dataset) -> PyResult<Batches> {
    let (raised, run) = (Raised::default(), Run::new());
    let (control, kept) = (Arc::clone(&run.control), raised.clone());
    let skipped = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&skipped);
    let (send, received) = sync_channel(BATCHES_WAITING);
    let work = move || {
        if let Err(error) = send_all(request, kept, &run, &send, &counted) {
            drop(send.send(Err(run.told(error))));
        }
    };
    let thread = spawn("outcore", work).map_err(|error| errors::raise(py, &error))?;
    Ok(Batches {
        live: Here::new(Live {
            received: Mutex::new(Some(received)),
            control,
            raised,
            job: Some(thread),
        }),
        skipped,
    })
}

impl Live {
    /// The next message, if one arrives within [`LOOK_EVERY`]; none at the end.
    fn wait(&self) -> std::result::Result<Option<Message>, RecvTimeoutError> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(received) = received.as_ref() else {
            return Ok(None);
        };
        match received.recv_timeout(LOOK_EVERY) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(RecvTimeoutError::Timeout),
        }
    }
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Lines that were left out; known at the end.
    #[getter]
    fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let again = "iterate over the dataset again in the child";
        let live = self.live.get("the iterator", again);
        let live = live.map_err(|error| errors::raise(py, &error))?;
        let received = loop {
            let received = py.detach(|| live.wait());
            py.check_signals()?;
            if let Ok(received) = received {
                break received;
            }
        };
        match received {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(PyBytes::new(py, &bytes))),
            Some(Err(error)) => Err(live
                .raised
                .take()
                .unwrap_or_else(|| errors::raise(py, &error))),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.control.cancel();
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        // The job's next batch finds no receiver, so the job ends.
        drop(received.take());
        drop(received);
        if let Some(job) = self.job.take() {
            // The job may be calling a Python function, which must not wait for this thread
            // meanwhile.
            Python::attach(|py| py.detach(|| drop(job.join())));
        }
    }
}
