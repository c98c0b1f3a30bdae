//! Standard streams that the process was started without.
//!
//! Contract: a shell's `>&-` starts a program without its standard output. Rust's runtime opens
//! such a stream as `/dev/null` before `main`, which takes and gives nothing and calls that
//! success, and nothing tells it afterwards from a stream that was discarded on purpose. So they
//! are looked at before the runtime is there, and [`mark`] opens them the other way around, so that
//! their use fails as it would have.
#![allow(unsafe_code)]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_getfd};
use rustix::stdio;

/// Whether standard input, output and error were closed when the process started.
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Looks at the standard streams: system calls alone, since no runtime is there yet.
extern "C" fn look() {
    let streams = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
    for (stream, was_closed) in streams.into_iter().zip(&WAS_CLOSED) {
        was_closed.store(fcntl_getfd(stream) == Err(Errno::BADF), Ordering::Relaxed);
    }
}

// SAFETY: what the section lists is called once, without other threads, before `main`; the function
// takes no arguments that it would have to understand, needs nothing of the runtime, and cannot
// panic.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Opens standard streams that the process was started without so that their use fails: standard
/// input for writing, the others for reading. Before anything else is done.
pub(crate) fn mark() {
    let null = |is_read: bool| {
        let mut options = fs::OpenOptions::new();
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
