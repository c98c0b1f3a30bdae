//! Help, pages, standard streams, threads and options of every command.
//!
//! Contract: the commands come from the definition of the options, so none can be forgotten.

use crate::full_stdout::{How, check, commands_of};
use crate::outcore;
use crate::support::*;

use How::{Help, With};

const LONG: &str = "it measures for seconds or more, and prints as all others do";

/// All commands.
const COMMANDS: &[(&str, How)] = &[
    ("bench io", Help(LONG)),
    ("bench sort", Help(LONG)),
    ("bench view", Help(LONG)),
    ("bench primitives", Help(LONG)),
    ("bench graph", Help(LONG)),
    ("bench vectors", Help(LONG)),
    (
        "bench diff",
        With(&["report.json report.json", "report.json report.json --json"]),
    ),
    (
        "replay",
        With(&["trace --summary", "trace --summary --json"]),
    ),
    (
        "sim run",
        With(&["--flow requests=100", "--flow requests=100 --json"]),
    ),
    ("sim presets", With(&["", "--json", "p41", "p41 --toml"])),
    ("sim replay", With(&["trace", "trace --json"])),
    (
        "sim plan",
        With(&["--size 1GB --memory 64MB --distribute-ns 1 --sort-ns 1"]),
    ),
    ("sim sweep", Help(LONG)),
    ("sim calibrate", Help(LONG)),
    (
        "sim allegro",
        Help("it needs a trace of a GPU, and prints as all of sim do"),
    ),
    ("sim activesort", Help(LONG)),
    ("sim gpu", Help(LONG)),
    ("sim policies", Help(LONG)),
    ("completions", With(&["bash", "zsh"])),
    ("man", With(&[""])),
];

/// A report of one figure.
const REPORT: &[u8] = br#"{"v": 1, "command": "bench io", "title": "Reads", "started": "today", "seconds": 1,
    "headlines": [], "verdict": [], "machine": [], "options": [], "sections": [{"id": "reads", "title": "Reads",
    "text": "", "charts": [], "notes": [], "tables": [{"id": "reads", "title": "Reads", "columns":
    [{"name": "depth", "unit": "count"}, {"name": "rate", "unit": "bytes_per_s"}], "rows": [[1, 2e9]]}]}]}"#;

/// A directory with a block trace, and a report.
fn place() -> TestDir {
    let place = TestDir::in_memory();
    place.write("report.json", REPORT);
    place.write("trace", b"0,8,4096,w,0.0\n0,16,4096,r,0.1\n");
    place
}

#[test]
fn every_command_fails_on_a_full_standard_output() {
    check(&commands_of(&outcore_lab::definition()), COMMANDS, &place());
}

#[test]
fn a_closed_standard_output_is_an_error() {
    for line in ["sim presets", "replay trace --summary", "--help"] {
        // `outcore-lab` is started directly and by `outcore`.
        let answer = in_shell(&place(), &format!("\"$0\" {line} >&-"));
        assert_eq!(answer.code, Some(3), "{line}: {answer:?}");
        assert!(answer.stderr.contains("Bad file descriptor"), "{answer:?}");
        let Some(outcore) = outcore() else { return };
        let line = format!("'{}' sim presets >&-", outcore.0.display());
        let answer = in_shell(&place(), &line);
        assert_eq!(answer.code, Some(3), "{line}: {answer:?}");
    }
}

#[test]
fn pages_and_completions_are_those_of_outcore_lab() {
    let place = TestDir::new();
    assert!(
        place
            .run(&["--version"])
            .ok()
            .text()
            .starts_with("outcore-lab ")
    );
    let help = place.run(&["--help"]).ok().text();
    assert!(help.contains("Usage: outcore-lab "), "{help}");
    for command in commands_of(&outcore_lab::definition()) {
        let words = [command.split(' ').collect(), vec!["-h"]].concat();
        assert!(
            place.run(&words).ok().text().contains("Usage:"),
            "{command}"
        );
    }
    let dir = place.make_dir("man");
    place.run(&["man", "man"]).ok();
    let names = names_in(&dir);
    for name in [
        "outcore-lab.1",
        "outcore-lab-sim-run.1",
        "outcore-lab-bench-io.1",
    ] {
        assert!(names.contains(&name.to_string()), "{names:?}");
    }
    let script = place.run(&["completions", "bash"]).ok().text();
    assert!(script.contains(" outcore-lab\n"), "{script}");
}

#[test]
fn no_command_records_and_each_says_which_do() {
    let place = TestDir::new();
    place.write("in", b"1");
    for command in [
        &["replay", "in"][..],
        &["bench", "io", "."],
        &["sim", "run"],
        &["sim", "replay", "in"],
    ] {
        for flag in [&["--record-io", "trace"][..], &["--record-io=trace"]] {
            place.run(&[command, flag].concat()).fails(
                2,
                &["unexpected argument '--record-io'"],
                "commands that move data have it, such as sort",
            );
        }
    }
    assert_eq!(place.names(), ["in"]);
}

#[test]
fn a_simulation_needs_no_thread_that_the_system_refuses() {
    let place = public_place();
    for processes in [1, 2, 3, 5, 9] {
        let words = ["sim", "run", "--flow", "requests=100"];
        let Some(answer) = run_with_processes(&place, processes, &words) else {
            return;
        };
        assert_eq!(answer.code, Some(0), "{processes} processes: {answer:?}");
    }
}
