//! What the commands print on standard output.
//!
//! Contract: nothing that cannot be written is passed over. A reader that has seen enough and went
//! away ends the process quietly, with the exit code of one that SIGPIPE ended; any other failure
//! ends it with an error and the exit code of its kind. The commands print when their work is done,
//! so nothing is left half.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use outcore_io::Error;

/// As for a process that SIGPIPE ended.
const CLOSED_PIPE: i32 = 141;

/// A text as it is.
pub(crate) fn text(text: &str) {
    // Not the library's stream, which takes a closed one for written.
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    let written = stdout.and_then(|stdout| File::from(stdout).write_all(text.as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED_PIPE),
        Err(error) => {
            let error = Error::io("write standard output", &error).hint(
                "what was printed there is not complete: send standard output to another place",
            );
            // Standard error may be closed or full as well: then the exit code says it.
            let _ = writeln!(io::stderr(), "outcore: error: {error}");
            std::process::exit(i32::from(error.kind().exit_code()));
        }
    }
}

/// One line.
pub(crate) fn line(line: Arguments<'_>) {
    text(&format!("{line}\n"));
}

/// `println!` for a standard output that may be closed or full.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::say::line(format_args!($($text)*))
    };
}
