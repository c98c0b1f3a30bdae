//! `--record-io`: what a run reads and writes, in a file that is absent or whole.
//!
//! Contract: traces are read with the reader of `outcore-traces`, and account for exactly the
//! bytes that the JSON summary tells. A trace of every family of commands is replayed.

use std::collections::BTreeMap;
use std::path::Path;

use outcore_traces::io_trace::{IoOp, Reader};
use serde_json::Value;

use crate::support::*;

/// Bytes read and written by the name of the drive.
fn traffic(trace: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut reader = Reader::open(trace).unwrap();
    let names: Vec<String> = reader
        .header()
        .drives
        .iter()
        .map(|drive| drive.name.clone())
        .collect();
    assert!(reader.header().program.starts_with("outcore "));
    let mut traffic: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for entry in &mut reader {
        let outcore_traces::io_trace::Entry::Request(record) = entry.unwrap() else {
            continue;
        };
        assert!(!record.is_failed);
        let bytes = u64::from(record.len_bytes);
        let Some(name) = names.get(usize::from(record.drive)) else {
            assert_eq!(bytes, 0, "{record:?} is on no drive");
            continue;
        };
        let drive = traffic.entry(name.clone()).or_default();
        match record.op {
            IoOp::Read => drive.0 += bytes,
            IoOp::Write => drive.1 += bytes,
            IoOp::Sync | IoOp::Trim => {}
        }
    }
    assert!(reader.is_complete());
    traffic
}

/// Bytes that the summary tells are those of the trace. A read asks for whole blocks, also of the
/// last one of a file; of each of these `tails`, the summary counts what there was.
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

/// What a replay on two simulated drives moves: bytes read, bytes written.
#[track_caller]
fn replayed(place: &TestDir, trace: &str) -> (u64, u64) {
    let replay = [
        "sim", "replay", trace, "--preset", "p41", "--drives", "2", "--json",
    ];
    let answer = place.run(&replay).ok();
    let summary: Value = serde_json::from_str(&answer.text()).unwrap();
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    let bytes = |key: &str| summary[key].as_u64().unwrap();
    (bytes("read_bytes"), bytes("write_bytes"))
}

/// Records with which each command reads at least so many bytes, and writes at least so many.
#[track_caller]
fn each_replays(place: &TestDir, commands: &[(&[&str], u64, u64)]) {
    for (arguments, read_bytes, written_bytes) in commands {
        let trace = format!("{}.trace", arguments[..2].join("-").replace('/', "-"));
        let record = ["--record-io", &trace];
        let answer = place.run(&[arguments, &record[..]].concat()).ok();
        assert!(
            answer.stderr.contains("I/O recorded in"),
            "{arguments:?}: {answer:?}"
        );
        let moved = replayed(place, &trace);
        let traced = traffic(&place.path(&trace));
        let total = |pick: fn(&(u64, u64)) -> u64| traced.values().map(pick).sum::<u64>();
        assert_eq!(moved.0, total(|drive| drive.0), "{arguments:?}");
        assert_eq!(moved.1, total(|drive| drive.1), "{arguments:?}");
        assert!(moved.0 >= *read_bytes, "{arguments:?}: {moved:?}");
        assert!(moved.1 >= *written_bytes, "{arguments:?}: {moved:?}");
    }
}

#[test]
fn the_trace_of_every_family_of_commands_replays() {
    const BYTES: u64 = 8 * 300_000;
    let place = TestDir::new();
    place.write("in", &random_u64(300_000, 221));
    let text: String = (0..200_000).map(|at| format!("{at:09}\n")).collect();
    place.write("text", text.as_bytes());
    let text_bytes = text.len() as u64;
    let words = "--type=u64";
    each_replays(
        &place,
        &[
            (&["sort", "in", words, "-o", "sorted"], BYTES, BYTES),
            (
                &["sort", "text", "-o", "sorted.txt"],
                text_bytes,
                text_bytes,
            ),
            (&["verify", "sorted", words], BYTES, 0),
            (&["gen", "u64", "-n", "300000", "-o", "made"], 0, BYTES),
            (&["shuffle", "in", words, "-o", "mixed"], BYTES, BYTES),
            (&["unique", "text", "-o", "once"], text_bytes, text_bytes),
            (
                &["filter", "x >= 0", "in", words, "-o", "all"],
                BYTES,
                BYTES,
            ),
            (&["reduce", "sum", "in", words], BYTES, 0),
            // The first block, and what follows it as far as it is needed.
            (
                &["head", "text", "-n", "1000", "-o", "first"],
                1 << 20,
                10_000,
            ),
            (
                &["sample", "text", "-n", "1000", "-o", "some"],
                text_bytes,
                10_000,
            ),
            (
                &["split", "text", "-n", "3", "-o", "part-{part}"],
                text_bytes,
                text_bytes,
            ),
        ],
    );
    let first: Vec<u8> = text.bytes().take(10_000).collect();
    assert_eq!(place.read("first"), first);
    let parts: Vec<u8> = (0..3)
        .flat_map(|part| place.read(&format!("part-{part:02}")))
        .collect();
    assert_eq!(parts, text.as_bytes());
}

#[test]
fn the_trace_of_every_command_on_views_replays() {
    const BYTES: u64 = 8 * 300_000;
    let place = TestDir::new();
    place.write("in", &random_u64(300_000, 223));
    let build = ["view", "build", "in", "--type", "u64", "-o", "keys.view"];
    each_replays(
        &place,
        &[
            (&build, BYTES, BYTES),
            (&["view", "append", "keys.view", "in"], BYTES, BYTES),
            (&["view", "verify", "keys.view"], 2 * BYTES, 0),
            (&["view", "cat", "keys.view"], 2 * BYTES, 0),
            (
                &["view", "materialize", "keys.view", "-o", "out"],
                2 * BYTES,
                2 * BYTES,
            ),
        ],
    );
    assert_eq!(place.read("out").len() as u64, 2 * BYTES);
    let before = place.read("out");
    // Nothing of a view becomes a trace, even when that is forced.
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
        &["replay", "in"][..],
        &["bench", "io", "."],
        &["drives", "probe", "."],
        &["volume", "scrub"],
        &["sim", "run"],
        &["sim", "replay", "in"],
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
        sort("out", flags).fails(2, &["the output too", "(out)"], "another name");
        sort("dir/../out", flags).fails(2, &["the output too"], "another name");
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
    // What the killed one left is swept.
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
        // Only what a file has lost parts to stays, and goes with its marker.
        let marker = place.path(".in.outcore-consumed");
        assert!(is_whole || marker.exists());
        if marker.exists() {
            std::fs::remove_file(marker).unwrap();
            place.run(&["scratch", "clean", "."]).ok();
        }
        assert_eq!(place.names(), ["in"], "{fault}");
        let words = match is_whole {
            true => "the inputs are whole",
            false => "in kept the length but parts are zeros now",
        };
        if is_whole && !answer.stderr.contains(words) {
            // Only what was not aligned to blocks is still there: nothing that was freed shows.
            assert!(answer.stderr.contains("--delete-input had freed"));
        } else {
            assert!(answer.stderr.contains(words), "{fault}: {answer:?}");
        }
        seen[usize::from(is_whole)] = true;
    }
    assert_eq!(seen, [true, true]);
}
