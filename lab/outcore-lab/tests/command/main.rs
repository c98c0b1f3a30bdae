//! Tests the command from the view of its users: a process with arguments, files, pipes and
//! signals.
//!
//! Contract: every test runs the built binary in a directory of its own, without the user's
//! settings, and checks exit code, streams and files. One binary holds all tests. The helpers are
//! those of the tests of `outcore`. A test that needs `outcore` itself uses the one that cargo has
//! built next to this command; if there is none, it says so and passes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod bench;
mod devices;
#[path = "../../../../crates/outcore-cli/tests/command/full_stdout.rs"]
mod full_stdout;
#[path = "../../../../crates/outcore-cli/tests/command/loops.rs"]
mod loops;
mod other;
mod recording;
mod sim;
mod started;
#[allow(dead_code, reason = "the tests of `outcore` need more of it")]
#[path = "../../../../crates/outcore-cli/tests/command/support.rs"]
mod support;
mod traces;
#[path = "../../../../crates/outcore-cli/tests/command/traffic.rs"]
mod traffic;

use std::path::{Path, PathBuf};

use support::{Answer, TestDir};

/// The command under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_outcore-lab");

/// The main command.
struct Outcore(PathBuf);

impl Outcore {
    /// Runs it to completion.
    fn run(&self, place: &TestDir, words: &[&str]) -> Answer {
        Answer::of(place.command_of(&self.0, words).output().unwrap())
    }
}

/// The main command, if it was built.
fn outcore() -> Option<Outcore> {
    let path = Path::new(PROGRAM).with_file_name("outcore");
    if !path.is_file() {
        println!("SKIP: outcore is not built, as `cargo test --workspace` does");
        return None;
    }
    Some(Outcore(path))
}
