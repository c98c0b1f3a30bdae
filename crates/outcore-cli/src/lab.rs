//! The start of `outcore-lab`, the program that measures, replays and simulates.
//!
//! Contract: [`start`] replaces the process by that program, with the same words, streams and
//! environment, so that signals and the exit code are the program's. It searches for the program
//! next to the executable, after resolving symbolic links, then on `PATH`. Nothing is read or
//! written before.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use outcore::Error;

const PROGRAM: &str = "outcore-lab";
const START: &str = "start outcore-lab";

/// Replaces the process; returns only if that fails, with the error.
pub(crate) fn start(words: &[OsString]) -> Error {
    let own = std::env::current_exe();
    let beside = own.ok().map(|own| own.with_file_name(PROGRAM));
    for program in beside.into_iter().chain([PathBuf::from(PROGRAM)]) {
        let mut command = Command::new(&program);
        // Help then shows the line as the user typed it.
        let command = match words {
            [name, words @ ..] => command.arg0(name).args(words),
            [] => &mut command,
        };
        let error = command.exec();
        if error.kind() != ErrorKind::NotFound {
            return Error::io(START, &error).path(program);
        }
    }
    let cause = "outcore-lab, which has the commands bench, replay and sim, is not installed";
    Error::usage(START, cause).hint(
        "in the sources of outcore, `make install` installs both programs; \
         `cargo install --path lab/outcore-lab` installs only outcore-lab",
    )
}
