//! The `outcore` command.
//!
//! Contract: passes the arguments to [`outcore_cli::run`] and ends with the exit code that it
//! returns.

use std::process::ExitCode;

fn main() -> ExitCode {
    outcore_terminal::start(outcore_cli::run)
}
