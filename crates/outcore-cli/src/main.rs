//! The `outcore` command.
//!
//! Contract: hands the arguments to [`outcore_cli::run`] and ends with the exit code that it gives.

mod closed;

use std::process::ExitCode;

fn main() -> ExitCode {
    closed::mark();
    ExitCode::from(outcore_cli::run(std::env::args_os()))
}
