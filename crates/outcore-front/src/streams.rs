//! Streams for input and output: standard input and output, named pipes, character devices.
//!
//! Contract: a wait for the other end of a stream checks for a stop every 50 ms. A named pipe
//! without a writer is opened at once, and its first read waits for a writer. Opening a pipe for
//! writing waits for a reader. A [`PipeWriter`] writes all bytes in order. For standard output it
//! opens the descriptor a second time, so that processes that share it are not affected. Writes
//! fail with `EPIPE` once the reader has closed its end.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use outcore::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Longest wait for a stream before the next check for a cancellation.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Interval of checks for a reader.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A larger pipe causes fewer switches between this process and the reader.
const PIPE_BYTES: usize = 1 << 20;

/// Fails when the job is to stop.
pub(crate) type Check<'a> = dyn Fn() -> Result<()> + 'a;

/// Opens the file at `path`, which may be a stream without a writer.
pub(crate) fn open_to_read(path: &Path) -> io::Result<OwnedFd> {
    open_at_once(path, OFlags::RDONLY).map_err(io::Error::from)
}

/// Opens the stream at `path` once it has a reader. Its writes do not block.
fn open_to_write(path: &Path, check: &Check<'_>) -> io::Result<OwnedFd> {
    loop {
        match open_at_once(path, OFlags::WRONLY) {
            Err(Errno::NXIO) if is_fifo(path) => {
                check().map_err(io::Error::other)?;
                std::thread::sleep(LOOK_EVERY);
            }
            opened => return Ok(opened?),
        }
    }
}

fn open_at_once(path: &Path, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn is_fifo(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_fifo())
}

/// Waits up to 50 ms for bytes or for the end of the stream.
///
/// # Errors
/// The system call fails.
pub fn is_ready(stream: &OwnedFd) -> Result<bool> {
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    match poll(&mut polled, Some(&WAIT)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(Error::errno("wait for input", errno.raw_os_error())),
    }
}

/// A stream whose reads give up within 50 ms of a stop.
pub struct StreamReader<'a> {
    stream: OwnedFd,
    check: Box<Check<'a>>,
}

impl<'a> StreamReader<'a> {
    /// Wraps an open stream.
    pub(crate) fn of(stream: OwnedFd, check: impl Fn() -> Result<()> + 'a) -> Self {
        let check = Box::new(check);
        StreamReader { stream, check }
    }

    /// Opens the file or stream at `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn at(path: &Path, check: impl Fn() -> Result<()> + 'a) -> io::Result<Self> {
        Ok(Self::of(open_to_read(path)?, check))
    }

    /// Standard input; other processes that share the descriptor are not affected.
    ///
    /// # Errors
    /// It is closed.
    pub fn standard_input(check: impl Fn() -> Result<()> + 'a) -> io::Result<Self> {
        Ok(Self::of(io::stdin().as_fd().try_clone_to_owned()?, check))
    }
}

impl StreamReader<'_> {
    /// Fails when the job is to stop.
    pub(crate) fn check(&self) -> Result<()> {
        (self.check)()
    }
}

impl Read for StreamReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            (self.check)().map_err(io::Error::other)?;
            if is_ready(&self.stream).map_err(io::Error::other)? {
                match rustix::io::read(&self.stream, &mut *bytes) {
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    other => return Ok(other?),
                }
            }
        }
    }
}

/// Writes to a stream until it must stop.
#[derive(Debug)]
pub struct PipeWriter<C> {
    stream: OwnedFd,
    check: C,
}

impl<C: Fn() -> Result<()>> PipeWriter<C> {
    /// Standard output.
    ///
    /// # Errors
    /// It is closed.
    pub fn standard_output(check: C) -> io::Result<Self> {
        let stream = io::stdout().as_fd().try_clone_to_owned()?;
        let stat = rustix::fs::fstat(&stream)?;
        if !FileType::from_raw_mode(stat.st_mode).is_fifo() {
            return Ok(PipeWriter { stream, check });
        }
        let again = format!("/proc/self/fd/{}", stream.as_raw_fd());
        // Without /proc, the stream stays blocking, and only a second signal stops a write.
        let non_blocking = open_to_write(Path::new(&again), &check);
        Ok(Self::of(non_blocking.unwrap_or(stream), check))
    }

    /// A named pipe or character device; waits until the pipe has a reader.
    ///
    /// # Errors
    /// It cannot be opened; a stop.
    pub fn open(path: &Path, check: C) -> io::Result<Self> {
        let stream = match is_fifo(path) {
            true => open_to_write(path, &check)?,
            false => rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?,
        };
        Ok(Self::of(stream, check))
    }

    /// An end of a pipe that no other process holds.
    ///
    /// # Errors
    /// The system call fails.
    pub(crate) fn of_pipe(pipe: OwnedFd, check: C) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&pipe)?;
        rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?;
        Ok(Self::of(pipe, check))
    }

    fn of(stream: OwnedFd, check: C) -> Self {
        // Fails beyond the system's limit, and for streams that are not pipes; the size then stays
        // as it is.
        let _ = rustix::pipe::fcntl_setpipe_size(&stream, PIPE_BYTES);
        PipeWriter { stream, check }
    }
}

impl<C: Fn() -> Result<()>> Write for PipeWriter<C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.stream, bytes) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                written => return Ok(written?),
            }
            (self.check)().map_err(io::Error::other)?;
            let mut polled = [PollFd::new(&self.stream, PollFlags::OUT)];
            match poll(&mut polled, Some(&WAIT)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
