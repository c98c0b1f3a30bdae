//! The terminal half of outcore's commands, `outcore` and `outcore-lab`.
//!
//! Contract: a command defines its flags and does its work; this crate reads the arguments, reports
//! what happens and returns the exit code. Data go to standard output, everything else to standard
//! error. Nothing here is global except for the signals and the standard streams of the process.
//!
//! | module | does |
//! |---|---|
//! | [`common`] | the flags of every command |
//! | [`session`] | one run: arguments in, exit code out |
//! | [`report`], [`measure`] | messages, events and summaries |
//! | [`progress`], [`steps`] | messages while a job or a measurement runs |
//! | [`recorder`] | the recorded I/O of a run |
//! | [`files`], [`resources`] | names of datasets, settings |
//! | [`screen`] | the width of a terminal |
//! | [`stdout`], `signals` | standard output without lost writes; SIGINT, SIGTERM and SIGHUP |
//! | [`pages`], [`docs`] | help, man pages and completions |
//! | [`page_check`] | checks of pages for tests |

mod closed;
pub mod common;
pub mod docs;
pub mod files;
pub mod measure;
pub mod page_check;
pub mod pages;
pub mod progress;
pub mod recorder;
pub mod report;
pub mod resources;
pub mod screen;
pub mod session;
mod signals;
pub mod stdout;
pub mod steps;

use std::ffi::OsString;
use std::process::ExitCode;

/// The `main` of a command: [`start_with`] the arguments of the process.
pub fn start(run: fn(Vec<OsString>) -> u8) -> ExitCode {
    ExitCode::from(start_with(std::env::args_os().collect(), run))
}

/// Runs a command with `arguments`, the first of which is its name; returns its exit code. A panic,
/// which [`session`] turns into an error, is silent unless `RUST_BACKTRACE` is set.
pub fn start_with(arguments: Vec<OsString>, run: fn(Vec<OsString>) -> u8) -> u8 {
    closed::mark();
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value == "0") {
        std::panic::set_hook(Box::new(|_| {}));
    }
    run(arguments)
}
