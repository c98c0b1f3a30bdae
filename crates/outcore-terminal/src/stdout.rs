//! Standard output for results: everything is printed, or there is an error.
//!
//! Contract: everything that a command prints there goes through one [`Stdout`], except for the
//! data of a job. A failed write is never ignored. The first failure is kept, nothing is written
//! after it, and [`Stdout::check`] reports it when the command ends, so that the exit code is that
//! of an error. A reader that went away is not a failure: it did not want the rest. There is no
//! buffer.
//!
//! A standard stream that was closed when the process started (`>&-`) fails when it is used: see
//! `closed.rs`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio;

/// Exit code if the reader of a pipe went away, the same as after SIGPIPE.
pub const CLOSED_PIPE: u8 = 141;

const OPERATION: &str = "write standard output";
const HINT: &str = "the output is incomplete: redirect standard output to another place";

/// See the module. Clones are the same stream.
#[derive(Clone, Default)]
pub struct Stdout(Arc<Mutex<Option<Errno>>>);

impl fmt::Debug for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdout").finish_non_exhaustive()
    }
}

impl Stdout {
    /// Writes all of it as one piece, so that other printing threads do not interleave; does
    /// nothing once a write has failed.
    pub fn write(&self, bytes: &[u8]) {
        let mut failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = write_all(bytes).err();
        }
    }

    /// Whether the reader has gone away.
    pub fn is_closed(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(Errno::PIPE)
    }

    /// Fails if something could not be written, unless the reader went away.
    ///
    /// # Errors That of the first failed write.
    pub fn check(&self) -> Result<()> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None | Some(Errno::PIPE) => Ok(()),
            Some(errno) => Err(Error::errno(OPERATION, errno.raw_os_error()).hint(HINT)),
        }
    }
}

fn write_all(mut bytes: &[u8]) -> rustix::io::Result<()> {
    let stdout = stdio::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(stdout, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Another process that shares the descriptor made it non-blocking.
            Err(Errno::AGAIN) => {
                let mut polled = [PollFd::new(&stdout, PollFlags::OUT)];
                match poll(&mut polled, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
