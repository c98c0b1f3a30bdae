//! Stopped jobs: after SIGINT, SIGTERM and SIGHUP they clean up. After SIGKILL there is no output,
//! and the next run removes the scratch.
//!
//! Contract: jobs are stopped at many different moments; after each the input is whole and the
//! output absent.

use std::fs;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_signal_stops_a_sort_at_any_moment_and_leaves_nothing() {
    let place = TestDir::new();
    let bytes = random_u64(3_000_000, 79);
    place.write("in", &bytes);
    for (index, wait_ms) in [5_u64, 20, 40, 60, 90, 130].into_iter().enumerate() {
        let signal = [Signal::INT, Signal::TERM, Signal::HUP][index % 3];
        let sort = [
            "sort", "in", "-o", "out", "--type", "u64", "--memory", "12MiB", "--force",
        ];
        let mut child = place.spawn(&sort);
        std::thread::sleep(Duration::from_millis(wait_ms));
        // A process that has not yet installed its handlers ends by the signal itself; a process
        // that was fast succeeds.
        send(&child, signal);
        let status = wait_for(&mut child);
        let answer = Answer::of(child.wait_with_output().unwrap());
        match status.code() {
            Some(130) => {
                assert!(
                    answer.stderr.contains("outcore: error: job: interrupted"),
                    "{answer:?}"
                );
                assert_eq!(place.names(), ["in"], "{wait_ms} ms");
            }
            Some(0) => fs::remove_file(place.path("out")).unwrap(),
            None => assert_eq!(place.names(), ["in"], "{wait_ms} ms"),
            Some(code) => panic!("{code}: {answer:?}"),
        }
    }
    assert!(place.read("in") == bytes);
}

#[test]
fn a_signal_stops_the_wait_for_input_and_the_wait_for_a_reader() {
    let place = TestDir::new();
    let mut child = place.spawn(&["sort", "-", "-o", "out", "--type", "u64"]);
    let stdin = child.stdin.take();
    wait_until("scratch", || !place.names().is_empty());
    send(&child, Signal::INT);
    assert_eq!(wait_for(&mut child).code(), Some(130));
    drop(stdin);
    assert!(place.names().is_empty());

    place.write("in", &random_u64(500_000, 83));
    // Nobody reads its output, which is longer than a pipe holds.
    let mut child = place.spawn(&["sort", "in", "-o", "-", "--type", "u64", "--memory", "8MiB"]);
    wait_until("scratch", || place.names().len() > 1);
    std::thread::sleep(Duration::from_millis(200));
    send(&child, Signal::TERM);
    assert_eq!(wait_for(&mut child).code(), Some(130));
    assert_eq!(place.names(), ["in"]);
}

#[test]
fn a_signal_ends_the_wait_for_the_other_end_of_a_named_pipe() {
    let place = TestDir::new();
    place.write("in", b"b\na\n");
    place.write("t.csv", b"a\n1\n");
    let made = std::process::Command::new("mkfifo")
        .arg(place.path("pipe"))
        .status();
    assert!(made.unwrap().success());
    let waits: [&[&str]; 11] = [
        &["sort", "pipe", "-o", "out"],
        &["sort", "--files0-from", "pipe", "-o", "out"],
        &["sort", "-R", "--random-source", "pipe", "in", "-o", "out"],
        &["sort", "in", "-o", "pipe"],
        &["sort", "pipe", "--type", "u64", "-o", "out"],
        &["head", "pipe"],
        &["unique", "pipe", "-o", "out"],
        &["verify", "pipe", "--type", "u64"],
        &["shuffle", "in", "-o", "pipe"],
        &["split", "pipe", "-b", "5", "-o", "p-{part}"],
        &["convert", "t.csv", "-o", "pipe"],
    ];
    for (index, words) in waits.into_iter().enumerate() {
        let mut child = place.spawn(words);
        let stdin = child.stdin.take();
        // Its handlers are installed, and it waits.
        wait_until("the wait", || is_waiting(&child));
        send(&child, [Signal::INT, Signal::TERM][index % 2]);
        assert_eq!(wait_for(&mut child).code(), Some(130), "{words:?}");
        drop(stdin);
        assert_eq!(place.names(), ["in", "pipe", "t.csv"], "{words:?}");
    }
}

/// Whether a process catches SIGINT and sleeps.
fn is_waiting(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let caught = line("SigCgt:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_caught = caught.is_some_and(|mask| mask & 2 != 0);
    let is_asleep = line("State:").is_some_and(|state| state.trim().starts_with('S'));
    if is_caught && is_asleep {
        std::thread::sleep(Duration::from_millis(100));
    }
    is_caught && is_asleep
}

#[test]
fn a_named_pipe_is_read_to_its_end_whoever_opens_it_first() {
    let place = TestDir::new();
    let made = std::process::Command::new("mkfifo")
        .arg(place.path("pipe"))
        .status();
    assert!(made.unwrap().success());
    for words in [
        &["sort", "pipe", "-o", "out", "--force"][..],
        &["sort", "-o", "out", "--force", "pipe", "--lines"],
    ] {
        let mut child = place.spawn(words);
        let stdin = child.stdin.take();
        wait_until("the wait", || is_waiting(&child));
        in_shell(&place, "(echo b; sleep 0.2; echo a) > pipe").ok();
        assert_eq!(wait_for(&mut child).code(), Some(0));
        drop(stdin);
        assert_eq!(place.read("out"), b"a\nb\n");
    }
}

#[test]
fn a_signal_that_was_ignored_stays_so() {
    let place = TestDir::new();
    let binary = env!("CARGO_BIN_EXE_outcore");
    let script = format!("trap '' HUP; exec {binary} sort - -o out --type u64");
    let mut child = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.dir())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("scratch", || !place.names().is_empty());
    send(&child, Signal::HUP);
    std::thread::sleep(Duration::from_millis(100));
    drop(child.stdin.take());
    assert_eq!(wait_for(&mut child).code(), Some(0));
    assert_eq!(place.names(), ["out"]);
}

#[test]
fn a_signal_is_an_error_event_with_json() {
    let place = TestDir::new();
    let mut child = place.spawn(&["sort", "-", "-o", "out", "--type", "u64", "--json"]);
    let stdin = child.stdin.take();
    wait_until("scratch", || !place.names().is_empty());
    send(&child, Signal::TERM);
    wait_for(&mut child);
    drop(stdin);
    let answer = Answer::of(child.wait_with_output().unwrap());
    assert_eq!(answer.event("error")["kind"], "interrupted");
    assert_eq!(answer.event("error")["exit_code"], 130);
}

#[test]
fn a_killed_sort_leaves_no_output_and_the_next_run_sweeps_its_scratch() {
    let place = TestDir::new();
    let bytes = random_u64(3_000_000, 89);
    place.write("in", &bytes);
    let sort = [
        "sort", "in", "-o", "out", "--type", "u64", "--memory", "12MiB", "--drive", ".",
    ];
    let mut child = place.spawn(&sort);
    wait_until("scratch", || place.names().len() > 1);
    send(&child, Signal::KILL);
    wait_for(&mut child);
    let left = place.names();
    assert!(
        left.iter().any(|name| name.starts_with(".outcore-")),
        "{left:?}"
    );
    assert!(!left.contains(&"out".to_string()));
    assert!(place.read("in") == bytes);
    place.run(&sort).ok();
    assert_eq!(place.names(), ["in", "out"]);
    assert!(place.read("out") == sorted_u64(&bytes));
}

#[test]
fn a_running_job_is_listed_as_such_and_survives_a_cleaning() {
    let place = TestDir::new();
    let mut child = place.spawn(&["sort", "-", "-o", "out", "--type", "u64"]);
    wait_until("scratch", || !place.names().is_empty());
    let listed = place.run(&["scratch", "list"]).ok().text();
    assert!(listed.contains("in use"), "{listed}");
    assert!(place.run(&["scratch", "clean"]).ok().text().is_empty());
    assert_eq!(place.names().len(), 1);
    drop(child.stdin.take());
    assert_eq!(wait_for(&mut child).code(), Some(0));
    assert_eq!(place.names(), ["out"]);
}
