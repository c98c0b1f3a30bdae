//! Output to a pipe, a terminal or whatever standard output is, and input from it.
//!
//! Contract: a [`PipeWriter`] writes all it is given, in order, and gives up within 50 ms of a
//! cancellation even if nobody reads. A pipe is opened a second time for that, so that it can be
//! written without blocking while others who share the descriptor notice nothing. A reader that
//! went away is `EPIPE`, which the command turns into a quiet end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use outcore::job::Control;
use outcore::{Error, Result};
use outcore_front::output::{Sink, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use outcore_front::inputs::is_ready;

pub(crate) use outcore_terminal::stdout::CLOSED_PIPE;

/// The longest wait before the next look for a cancellation.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// A larger pipe means fewer switches between us and the reader.
const PIPE_BYTES: usize = 1 << 20;
const OPEN: &str = "open output";

/// The pipe at `path`, or standard output.
pub(crate) fn open(path: Option<&Path>, control: &Arc<Control>) -> Result<Sink> {
    let control = Arc::clone(control);
    let writer = match path {
        Some(path) => PipeWriter::open(path, control)?,
        None => PipeWriter::standard_output(control)?,
    };
    Ok(Box::new(writer))
}

/// Whether a job failed because the reader of its output went away.
pub(crate) fn is_closed(target: &Target, error: &Error) -> bool {
    matches!(target, Target::Pipe(_)) && is_closed_by(error)
}

pub(crate) use outcore_verbs::host::is_closed as is_closed_by;

/// Standard input, which gives up within 50 ms of a cancellation even if nobody writes to it.
pub(crate) struct PipeReader {
    stream: OwnedFd,
    control: Arc<Control>,
}

impl PipeReader {
    /// Standard input; others who share the descriptor notice nothing.
    ///
    /// # Errors
    /// It is closed.
    pub(crate) fn standard_input(control: &Arc<Control>) -> Result<Self> {
        let stream = io::stdin().as_fd().try_clone_to_owned();
        Ok(PipeReader {
            stream: stream
                .map_err(|error| Error::io("open input", &error).path("standard input"))?,
            control: Arc::clone(control),
        })
    }
}

impl Read for PipeReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.control.is_cancelled() {
                return Err(io::Error::other("interrupted"));
            }
            if is_ready(&self.stream).map_err(io::Error::other)? {
                match rustix::io::read(&self.stream, &mut *bytes) {
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    other => return Ok(other?),
                }
            }
        }
    }
}

/// Writes to a pipe until cancelled.
#[derive(Debug)]
struct PipeWriter {
    file: File,
    control: Arc<Control>,
}

impl PipeWriter {
    /// Standard output.
    fn standard_output(control: Arc<Control>) -> Result<Self> {
        Self::of(io::stdout().as_fd().try_clone_to_owned(), control)
            .map_err(|error| Error::io(OPEN, &error).path("standard output"))
    }

    /// A named pipe or character device.
    fn open(path: &Path, control: Arc<Control>) -> Result<Self> {
        let file = OpenOptions::new().write(true).open(path);
        Self::of(file.map(OwnedFd::from), control)
            .map_err(|error| Error::io(OPEN, &error).path(path))
    }

    fn of(fd: io::Result<OwnedFd>, control: Arc<Control>) -> io::Result<Self> {
        let file = File::from(fd?);
        if !file.metadata()?.file_type().is_fifo() {
            return Ok(PipeWriter { file, control });
        }
        let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let non_blocking = OpenOptions::new()
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(again);
        // Without /proc it blocks, and a second signal is needed to stop it.
        let file = non_blocking.unwrap_or(file);
        // Refused beyond the system's limit; then it stays as it is.
        let _ = rustix::pipe::fcntl_setpipe_size(&file, PIPE_BYTES);
        Ok(PipeWriter { file, control })
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if self.control.is_cancelled() {
                return Err(io::Error::other("interrupted"));
            }
            let mut polled = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut polled, Some(&WAIT)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
