//! Standard output as what results are printed on: whole, or an error.
//!
//! Contract: everything that the command prints there goes through one [`Stdout`]; data of a job go
//! through [`crate::pipe`]. What cannot be written is never passed over: the first failure is kept, nothing
//! is written after it, and [`Stdout::check`] tells it when the command ends, so that its exit code is not
//! 0. A reader that went away is no failure: what it has not read it did not want. Nothing waits in a
//! buffer.
//!
//! A standard stream that was closed when the process started (`>&-`) has been opened as `/dev/null` by the
//! runtime, which takes and gives nothing and calls that success. [`mark_closed`] opens it the other way
//! around, so that its use fails as it would have. It knows those that a shell has closed.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, fs};

use outcore::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::stdio;

const OPERATION: &str = "write standard output";
const HINT: &str = "what was printed there is not complete: send standard output to another place";
/// Programs that close standard streams of their children only where they are told to.
const SHELLS: [&str; 11] = [
    "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh",
];
/// The device that swallows everything, by its numbers.
const NULL: (u32, u32) = (1, 3);

/// See the module. Clones are the same stream.
#[derive(Clone, Default)]
pub(crate) struct Stdout(Arc<Mutex<Option<Errno>>>);

impl fmt::Debug for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdout").finish_non_exhaustive()
    }
}

impl Stdout {
    /// Writes all of it, at once for those who print beside; nothing once a write has failed.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = write_all(bytes).err();
        }
    }

    /// Whether the reader has gone away.
    pub(crate) fn is_closed(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(Errno::PIPE)
    }

    /// Fails if something could not be written, unless the reader went away.
    pub(crate) fn check(&self) -> Result<()> {
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
            // Whoever shares the descriptor has made it so.
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

/// Opens standard streams that the process was started without so that their use fails: standard input
/// for writing, the others for reading. Before anything else is done.
pub(crate) fn mark_closed() {
    let null = |is_read: bool| {
        let mut options = fs::OpenOptions::new();
        options.read(is_read).write(!is_read).open("/dev/null")
    };
    // What cannot be done leaves things as they are.
    if was_closed(0)
        && let Ok(null) = null(false)
    {
        let _ = stdio::dup2_stdin(null);
    }
    if was_closed(1)
        && let Ok(null) = null(true)
    {
        let _ = stdio::dup2_stdout(null);
    }
    if was_closed(2)
        && let Ok(null) = null(true)
    {
        let _ = stdio::dup2_stderr(null);
    }
}

/// Whether the process was started without this standard stream.
///
/// The runtime has opened it for both reading and writing, which the redirections of shells do not. But
/// other programs do, to discard what a child prints (Python's `DEVNULL`, daemons), and nothing tells what
/// they have opened from what the runtime has. So only a shell is believed to have closed it, and only if
/// its own standard streams are not of that kind, which its children inherit.
fn was_closed(number: u32) -> bool {
    let fd = match number {
        0 => stdio::stdin(),
        1 => stdio::stdout(),
        _ => stdio::stderr(),
    };
    let Ok(facts) = fstat(fd) else {
        // Without a runtime that opens it.
        return false;
    };
    let numbers = (
        rustix::fs::major(facts.st_rdev),
        rustix::fs::minor(facts.st_rdev),
    );
    let is_null =
        numbers == NULL && rustix::fs::FileType::from_raw_mode(facts.st_mode).is_char_device();
    let is_both = fcntl_getfl(fd).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
    is_null && is_both && is_started_by_shell().unwrap_or(false)
}

/// Whether the parent is a shell whose own standard streams are not `/dev/null` for both reading and
/// writing; nothing where we may not look.
fn is_started_by_shell() -> Option<bool> {
    let parent = rustix::process::getppid()?.as_raw_nonzero();
    let program = fs::read_link(format!("/proc/{parent}/exe")).ok()?;
    let name = program.file_name()?.to_str()?;
    if !SHELLS.contains(&name) {
        return Some(false);
    }
    for number in 0..3 {
        // One that is closed is closed for the children too.
        let Ok(facts) = fs::metadata(format!("/proc/{parent}/fd/{number}")) else {
            continue;
        };
        let rdev = facts.rdev();
        let is_null = facts.file_type().is_char_device()
            && (rustix::fs::major(rdev), rustix::fs::minor(rdev)) == NULL;
        let text = fs::read_to_string(format!("/proc/{parent}/fdinfo/{number}")).ok()?;
        if is_null && is_for_both(&text) {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether the flags in a text of `/proc/PID/fdinfo` say that a file is read and written.
fn is_for_both(text: &str) -> bool {
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & OFlags::RWMODE.bits() == OFlags::RDWR.bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_descriptors_are_read() {
        assert!(is_for_both("pos:\t0\nflags:\t0100002\nmnt_id:\t7\n"));
        assert!(!is_for_both("pos:\t0\nflags:\t0100001\nmnt_id:\t7\n"));
        assert!(!is_for_both(""));
    }
}
