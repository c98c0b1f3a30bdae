//! The width of a terminal.
//!
//! Contract: the width is queried each time, since windows change. Nothing is written.

use std::os::fd::BorrowedFd;

use rustix::termios::{isatty, tcgetwinsize};

/// The width of a terminal that does not report its own.
pub(crate) const USUAL_COLUMNS: usize = 80;

/// The columns of the terminal on standard output; nothing if that is a file or a pipe.
pub fn columns_of_stdout() -> Option<usize> {
    columns(rustix::stdio::stdout())
}

/// The columns of the terminal on standard error; nothing if that is a file or a pipe.
pub(crate) fn columns_of_stderr() -> Option<usize> {
    columns(rustix::stdio::stderr())
}

fn columns(stream: BorrowedFd<'_>) -> Option<usize> {
    if !isatty(stream) {
        return None;
    }
    let columns = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if columns > 0 { columns } else { USUAL_COLUMNS })
}
