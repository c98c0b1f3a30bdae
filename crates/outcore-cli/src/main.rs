//! The `outcore` command.
//!
//! Contract: hands the arguments to [`outcore_cli::run`] and ends with the exit code that it gives.
//! A panic, which becomes an error there, is silent unless `RUST_BACKTRACE` is set.

mod closed;

use std::process::ExitCode;

fn main() -> ExitCode {
    closed::mark();
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value == "0") {
        std::panic::set_hook(Box::new(|_| {}));
    }
    ExitCode::from(outcore_cli::run(std::env::args_os()))
}
