//! The `outcore` command.
//!
//! Contract: hands the arguments to [`outcore_cli::run`] and ends with the exit code that it gives.

use std::process::ExitCode;

fn main() -> ExitCode {
    outcore_terminal::start(outcore_cli::run)
}
