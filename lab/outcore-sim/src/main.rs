//! The simulator on its own: the same subcommands as `outcore sim`.
//!
//! Contract: parses arguments, runs one subcommand, exits with its code; nothing else lives here.

use clap::Parser;

fn main() -> std::process::ExitCode {
    match outcore_sim::cli::run(&outcore_sim::cli::SimArgs::parse().command, None) {
        Ok(code) => std::process::ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::from(error.kind().exit_code())
        }
    }
}
