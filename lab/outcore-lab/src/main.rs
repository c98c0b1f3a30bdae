//! The `outcore-lab` command.
//!
//! Contract: passes the arguments to [`outcore_lab::run`] and exits with the code that it returns.

use std::process::ExitCode;

fn main() -> ExitCode {
    outcore_terminal::start(outcore_lab::run)
}
