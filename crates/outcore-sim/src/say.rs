//! What the commands print on standard output.
//!
//! Contract: a reader that has seen enough and went away ends the process quietly, with the exit code of
//! one that SIGPIPE ended: the commands print when their work is done, so nothing is left half. Other
//! failures to write are passed over, as there is nobody to tell.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// As for a process that SIGPIPE ended.
const CLOSED_PIPE: i32 = 141;

/// One line.
pub(crate) fn line(text: Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout
        .write_fmt(text)
        .and_then(|()| stdout.write_all(b"\n"))
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(CLOSED_PIPE);
    }
}

/// `println!` for a standard output that may be closed.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::say::line(format_args!($($text)*))
    };
}
