//! Standard streams that were closed when the process started.
//!
//! Contract: a shell's `>&-` starts a program without its standard output. Rust's runtime opens
//! such a stream as `/dev/null` before `main`: reads and writes then succeed without data, and the
//! stream looks like one that was redirected to `/dev/null` on purpose. So this module examines the
//! streams before the runtime starts, and [`mark`] opens them in the opposite direction, so that
//! their use fails as it should.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_getfd};
use rustix::stdio;

/// Whether standard input, output and error were closed when the process started.
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Examines the standard streams with system calls alone, since the runtime has not started yet.
extern "C" fn look() {
    let streams = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
    for (stream, was_closed) in streams.into_iter().zip(&WAS_CLOSED) {
        was_closed.store(fcntl_getfd(stream) == Err(Errno::BADF), Ordering::Relaxed);
    }
}

// SAFETY: the loader calls each function in the section once, without other threads, before `main`.
// This function needs no arguments and nothing of the runtime, and it cannot panic.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Opens standard streams that were closed at the start so that their use fails: standard input for
/// writing, the others for reading. Must run before anything else.
pub(crate) fn mark() {
    let null = |is_read: bool| {
        let mut options = OpenOptions::new();
        options.read(is_read).write(!is_read).open("/dev/null")
    };
    let [input, output, error] = WAS_CLOSED.each_ref().map(|was| was.load(Ordering::Relaxed));
    // A step that fails changes nothing.
    if input && let Ok(null) = null(false) {
        let _ = stdio::dup2_stdin(null);
    }
    if output && let Ok(null) = null(true) {
        let _ = stdio::dup2_stdout(null);
    }
    if error && let Ok(null) = null(true) {
        let _ = stdio::dup2_stderr(null);
    }
}
