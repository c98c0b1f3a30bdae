//! A part that goes to a shell command instead of a file.
//!
//! Contract: a [`Filter`] is one `sh -c COMMAND` with the name of the part in `FILE`; it reads the
//! part on its standard input. [`Filter::finish`] waits for it, and fails unless it exits with 0. A
//! command that stops reading is not an error by itself. If the part is incomplete, the command and
//! all processes that it has started are killed before its input ends, so that it never mistakes a
//! fragment for the whole part.
//!
//! Bounds: a pipe and [`BUFFER_BYTES`].

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use outcore::job::{Control, Job};
use outcore::{Error, Kind, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::streams::{Check, PipeWriter};

/// Bytes per write to a command.
const BUFFER_BYTES: usize = 256 << 10;
/// The waits between checks of a command that has received its whole part.
const LOOK_FIRST: Duration = Duration::from_micros(200);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const RUN: &str = "run filter";

/// A running command; see the module.
pub(super) struct Filter {
    child: Child,
    /// `None` once the command has stopped reading.
    stdin: Option<BufWriter<PipeWriter<Box<Check<'static>>>>>,
    control: Arc<Control>,
    part: PathBuf,
    is_over: bool,
}

impl Filter {
    /// Starts `command` for the part with this name.
    pub(super) fn start(job: &Job, command: &OsStr, part: &Path) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).env("FILE", part);
        // A separate process group, so that all of it can be killed, and only on purpose.
        shell.stdin(Stdio::piped()).process_group(0);
        let failed = |error| Error::io(RUN, &error).path(part);
        let mut child = shell.spawn().map_err(failed)?;
        let pipe = child.stdin.take().map(OwnedFd::from);
        let mut filter = Filter {
            child,
            stdin: None,
            control: Arc::clone(&job.control),
            part: part.to_path_buf(),
            is_over: false,
        };
        if let Some(pipe) = pipe {
            let control = Arc::clone(&job.control);
            let check: Box<Check<'static>> = Box::new(move || control.check());
            let writer = PipeWriter::of_pipe(pipe, check).map_err(failed)?;
            filter.stdin = Some(BufWriter::with_capacity(BUFFER_BYTES, writer));
        }
        Ok(filter)
    }

    /// Passes the next bytes of the part.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(|stdin| stdin.write_all(bytes))
    }

    fn write(&mut self, work: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let written = match &mut self.stdin {
            Some(stdin) => work(stdin),
            None => Ok(()),
        };
        match written {
            Err(error) if error.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => {
                self.stdin = None;
                Ok(())
            }
            Err(error) => {
                let failed = Error::io(RUN, &error).path(&self.part);
                Err(self.control.check().err().unwrap_or(failed))
            }
            Ok(()) => Ok(()),
        }
    }

    /// Ends the part, and waits for the command.
    ///
    /// # Errors
    /// The command does not exit with 0.
    pub(super) fn finish(mut self) -> Result<()> {
        self.write(|stdin| stdin.flush())?;
        self.stdin = None;
        let mut wait = LOOK_FIRST;
        let status = loop {
            let failed = |error| Error::io(RUN, &error).path(&self.part);
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                break status;
            }
            self.control.check()?;
            std::thread::sleep(wait);
            wait = LOOK_EVERY.min(2 * wait);
        };
        self.is_over = true;
        match status.success() {
            true => Ok(()),
            false => Err(self.refused(status)),
        }
    }

    fn refused(&self, status: ExitStatus) -> Error {
        Error::new(Kind::Io, RUN, format!("the command ended with {status}"))
            .path(&self.part)
            .hint(
                "its result for this part may be incomplete: correct the command, and split again",
            )
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The command is killed before its input ends.
        if let Ok(pid) = i32::try_from(self.child.id())
            && let Some(group) = Pid::from_raw(pid)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
