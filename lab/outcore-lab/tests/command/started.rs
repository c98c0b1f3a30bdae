//! The command when `outcore` starts it.
//!
//! Contract: arguments, streams, signals and exit codes are passed on; help and errors are those of
//! a command named `outcore`.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::outcore;
use crate::support::*;

#[test]
fn outcore_starts_the_lab_for_its_commands_with_options_before_and_after() {
    let Some(outcore) = outcore() else { return };
    let place = TestDir::new();
    place.write("trace", b"0,8,4096,w,0.0\n");
    let presets = outcore.run(&place, &["sim", "presets"]).ok();
    assert!(presets.text().contains("pm9a3"), "{presets:?}");
    let summary = ["--json", "replay", "trace", "--summary"];
    let answer = outcore.run(&place, &summary).ok();
    assert_eq!(answer.event("summary")["trace"]["requests"], 1);
    let quiet = outcore.run(&place, &["-q", "replay", "trace", "--summary"]);
    assert_eq!(quiet.ok().text(), "");
    outcore
        .run(&place, &["sim", "run", "--preset", "pm9a4"])
        .fails(2, &["pm9a4"], "pm9a3");
    let help = outcore.run(&place, &["help", "sim", "run"]).ok().text();
    assert_eq!(
        outcore.run(&place, &["sim", "run", "--help"]).ok().text(),
        help
    );
    assert!(help.contains("Usage: outcore sim run"), "{help}");
    let list = outcore.run(&place, &["bench", "--help"]).ok().text();
    assert!(list.contains("Usage: outcore bench"), "{list}");
    let list = outcore.run(&place, &["--help"]).ok().text();
    assert!(list.contains("  sim "), "{list}");
}

#[test]
fn a_signal_to_outcore_stops_the_measurement_that_it_has_become() {
    let Some(outcore) = outcore() else { return };
    let place = TestDir::new();
    place.make_dir("drive");
    let bench = ["bench", "io", "drive", "--time", "1h", "--size", "64MiB"];
    let mut command = place.command_of(&outcore.0, &bench);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the file", || !names_in(&place.path("drive")).is_empty());
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(130));
    assert!(names_in(&place.path("drive")).is_empty());
}
