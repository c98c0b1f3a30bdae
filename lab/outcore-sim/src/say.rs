//! Prints the commands' results on standard output.
//!
//! Contract: a failed write is never ignored. If the reader has closed the pipe, the process ends
//! quietly with the exit code of a process that SIGPIPE ended. Any other failure ends it with an
//! error and the exit code of its kind. The commands print when their work is done, so no work is
//! left unfinished.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use outcore_io::Error;

/// Exit code of a process that SIGPIPE ended.
const CLOSED_PIPE: i32 = 141;

/// Prints a text unchanged.
pub(crate) fn text(text: &str) {
    // The library's stream is not used, because it treats a closed output as written.
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    let written = stdout.and_then(|stdout| File::from(stdout).write_all(text.as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED_PIPE),
        Err(error) => {
            let error = Error::io("write standard output", &error)
                .hint("the output is incomplete: redirect standard output to another place");
            // Standard error may also be closed or full; then only the exit code reports the error.
            let _ = writeln!(io::stderr(), "outcore: error: {error}");
            std::process::exit(i32::from(error.kind().exit_code()));
        }
    }
}

/// Prints one line.
pub(crate) fn line(line: Arguments<'_>) {
    text(&format!("{line}\n"));
}

/// `println!` for a standard output that may be closed or full.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::say::line(format_args!($($text)*))
    };
}
