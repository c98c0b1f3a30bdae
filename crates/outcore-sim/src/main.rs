//! The simulator on its own: the same subcommands as `outcore sim`.

use clap::Parser;

fn main() -> std::process::ExitCode {
    match outcore_sim::cli::run(outcore_sim::cli::SimArgs::parse()) {
        Ok(code) => std::process::ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::from(error.kind().exit_code())
        }
    }
}
