//! `--record-io`: the reads and writes of a run, in a file that is absent or whole.
//!
//! Contract: traces account for exactly the bytes in the JSON summary. The tests of `outcore-lab`
//! replay a trace of every family of commands.

use std::path::Path;

use serde_json::Value;

use crate::support::*;
use crate::traffic::traffic;

/// The bytes in the summary are those of the trace. A read asks for whole blocks, also for the last
/// block of a file. For each of these `tails`, the summary counts only the bytes that exist.
#[track_caller]
fn accounts_for(summary: &Value, trace: &Path, tails: u64) {
    let traffic = traffic(trace);
    let total = |pick: fn(&(u64, u64)) -> u64| traffic.values().map(pick).sum::<u64>();
    let beyond = total(|drive| drive.0) - summary["read_bytes"].as_u64().unwrap();
    assert!(beyond <= tails * 4095, "{beyond}: {traffic:?}");
    assert_eq!(
        summary["written_bytes"],
        total(|drive| drive.1),
        "{traffic:?}"
    );
    let bytes = std::fs::metadata(trace).unwrap().len();
    assert_eq!(summary["io_trace"]["bytes"], bytes);
    assert!(summary["io_trace"]["requests"].as_u64().unwrap() > 0);
}

#[test]
fn the_trace_of_a_run_accounts_for_exactly_the_bytes_of_its_summary() {
    let place = TestDir::new();
    let sort = ["sort", "in", "-o", "out", "--type", "u64"];
    let external = [&sort[..], &["--memory", "10MiB"]].concat();
    let commands: [&[&str]; 5] = [
        &sort,
        &external,
        &["sort", "out", "--type", "u64", "--check"],
        &["verify", "out", "--type", "u64", "--against", "in"],
        &["gen", "u64", "-n", "102400", "-o", "made"],
    ];
    // Whole blocks, then a tail.
    for (records, tails) in [(1_536_000, 0), (1_500_001, 4)] {
        place.write("in", &random_u64(records, 211));
        for arguments in commands {
            let record = ["--json", "--force", "--record-io", "trace"];
            let answer = place.run(&[arguments, &record[..]].concat()).ok();
            let summary = answer.event("summary");
            accounts_for(&summary, &place.path("trace"), tails);
            if arguments == external {
                assert!(summary["scratch_bytes"].as_u64().unwrap() > 0);
            }
        }
        assert_eq!(place.names(), ["in", "made", "out", "trace"]);
        assert!(place.read("out") == sorted_u64(&place.read("in")));
    }
}

#[test]
fn a_stream_is_recorded_with_its_copy() {
    let place = TestDir::new();
    let sort = [
        "sort", "-", "-o", "out", "--type", "u64", "--json", "--force",
    ];
    let arguments = [&sort[..], &["--record-io", "trace"]].concat();
    for (records, tails) in [(10_240, 0), (10_001, 2)] {
        let input = random_u64(records, 213);
        let answer = place.run_with_input(&arguments, &input).ok();
        accounts_for(&answer.event("summary"), &place.path("trace"), tails);
    }
    assert_eq!(place.names(), ["out", "trace"]);
}

#[test]
fn the_trace_of_a_view_never_takes_the_place_of_its_files() {
    let place = TestDir::new();
    place.write("in", &random_u64(3000, 223));
    let build = ["view", "build", "in", "--type", "u64", "-o", "keys.view"];
    place.run(&build).ok();
    let before = place.run(&["view", "cat", "keys.view"]).ok().stdout;
    // A file of a view cannot become a trace, even with `--force`.
    for name in names_in(&place.path("keys.view")) {
        let trace = format!("keys.view/{name}");
        for command in ["cat", "verify"] {
            place
                .run(&[
                    "view",
                    command,
                    "keys.view",
                    "--record-io",
                    &trace,
                    "--force",
                ])
                .fails(2, &["record I/O", "one of the inputs"], "another name");
        }
    }
    place.run(&["view", "cat", "keys.view", "--force"]).fails(
        2,
        &["--force has nothing to replace"],
        "--record-io",
    );
    assert!(place.run(&["view", "cat", "keys.view"]).ok().stdout == before);
}

#[test]
fn the_trace_of_a_split_never_takes_the_place_of_a_part() {
    let place = TestDir::new();
    place.write("text", b"a\nb\nc\n");
    let split = [
        "split",
        "text",
        "-n",
        "2",
        "-o",
        "part-{part}",
        "--record-io",
    ];
    for name in ["part-00", "part-01", "./part-7"] {
        let arguments = [&split[..], &[name, "--force"]].concat();
        place
            .run(&arguments)
            .fails(2, &["one of the parts"], "another name");
    }
    assert_eq!(place.names(), ["text"]);
    place.run(&[&split[..], &["part-x"]].concat()).ok();
    assert_eq!(place.names(), ["part-00", "part-01", "part-x", "text"]);
}

#[test]
fn a_command_without_a_job_says_which_commands_record() {
    let place = TestDir::new();
    place.write("in", b"1");
    for command in [
        &["drives", "probe", "."][..],
        &["volume", "scrub"],
        &["volume", "ls"],
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
fn a_trace_overwrites_nothing_unasked_and_never_what_the_run_reads_or_writes() {
    let place = TestDir::new();
    place.write("in", &random_u64(1000, 215));
    place.write("there", b"mine");
    place.make_dir("dir");
    std::os::unix::fs::symlink("in", place.path("link")).unwrap();
    let sort = |name: &'static str, flags: &[&'static str]| {
        let sort = ["sort", "in", "-o", "out", "--type", "u64", "--record-io"];
        place.run(&[&sort[..], &[name], flags].concat())
    };
    sort("there", &[]).fails(2, &["record I/O", "exists already"], "--force");
    for flags in [&[][..], &["--force"]] {
        sort("in", flags).fails(2, &["one of the inputs", "(in)"], "another name");
        sort("link", flags).fails(2, &["one of the inputs"], "another name");
        sort("out", flags).fails(2, &["the name of the output", "(out)"], "another name");
        sort("dir/../out", flags).fails(2, &["the name of the output"], "another name");
        sort("dir", flags).fails(2, &["directory", "(dir)"], "file");
        sort("-", flags).fails(2, &["standard output"], "--record-io FILE");
        sort("no/trace", flags).fails(3, &["record I/O", "(no)"], "directory");
    }
    sort("trace", &["--dry-run"]).fails(2, &["--record-io", "--dry-run"], "");
    let verify = ["verify", "in", "--type", "u64", "--record-io", "there"];
    place.run(&verify).fails(2, &["exists already"], "--force");
    place
        .run(&["verify", "in", "--type", "u64", "--force"])
        .fails(2, &["--force has nothing to replace"], "--record-io");
    assert_eq!(place.names(), ["dir", "in", "link", "there"]);
    assert_eq!(place.read("there"), b"mine");
    sort("there", &["--force"]).ok();
    assert!(!traffic(&place.path("there")).is_empty());
}

#[test]
fn the_trace_of_a_run_that_fails_is_absent() {
    let place = TestDir::new();
    place.write("in", &random_u64(400_000, 217));
    place.write("trace", b"the last one");
    let sort = [&SMALL_SORT[..], &["--force", "--record-io", "trace"]].concat();
    for fault in ["eio@5", "kill@9"] {
        let mut command = place.command(&sort);
        let answer = Answer::of(command.env("OUTCORE_FAULT", fault).output().unwrap());
        assert_ne!(answer.code, Some(0));
        assert_eq!(place.read("trace"), b"the last one");
        assert!(!place.path("out").exists());
    }
    // The files of the killed run are removed.
    place.run(&sort).ok();
    assert_eq!(place.names(), ["in", "out", "trace"]);
}

#[test]
fn a_failure_that_has_eaten_of_the_input_says_so() {
    let place = TestDir::new();
    let input = random_u64(2_000_000, 219);
    let sort = [&SMALL_SORT[..], &["--delete-input"]].concat();
    let mut seen = [false; 2];
    for nth in (1..400).step_by(23) {
        place.write("in", &input);
        let mut command = place.command(&sort);
        let fault = format!("eio@{nth}");
        let answer = Answer::of(command.env("OUTCORE_FAULT", &fault).output().unwrap());
        if answer.code == Some(0) {
            continue;
        }
        let left = place.read("in");
        assert_eq!(left.len(), input.len());
        let is_whole = left == input;
        // Only the directory that holds freed parts of a file stays. Once the marker is gone,
        // `scratch clean` removes this directory.
        let marker = place.path(".in.outcore-consumed");
        assert!(is_whole || marker.exists());
        if marker.exists() {
            std::fs::remove_file(marker).unwrap();
            place.run(&["scratch", "clean", "."]).ok();
        }
        assert_eq!(place.names(), ["in"], "{fault}");
        let words = match is_whole {
            true => "the inputs are whole",
            false => "in kept the length, but parts are zeros now",
        };
        if is_whole && !answer.stderr.contains(words) {
            // Only the parts that were not aligned to blocks are left; no freed data are visible.
            assert!(answer.stderr.contains("--delete-input had freed"));
        } else {
            assert!(answer.stderr.contains(words), "{fault}: {answer:?}");
        }
        seen[usize::from(is_whole)] = true;
    }
    assert_eq!(seen, [true, true]);
}
