//! Threads that the system refuses: a named error or a right result, never a panic, never a hang.
//!
//! Contract: a user of its own for the test may have so many processes and no more, from one on.
//! With one thread asked for, a command needs no more than its first.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::support::*;

/// Of a user who has no other processes.
fn user() -> u32 {
    1_000_000 + std::process::id()
}

/// Runs a command of a user who may have so many processes; none where that cannot be tried.
fn run_with(place: &TestDir, processes: u32, words: &[&str]) -> Option<Answer> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: only root can be another user");
        return None;
    }
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--nproc={processes}"))
        .arg(env!("CARGO_BIN_EXE_outcore"))
        .args(words)
        .current_dir(place.dir())
        .env("OUTCORE_CONFIG", "")
        .stdin(Stdio::null())
        .uid(user())
        .gid(user());
    match command.output() {
        Ok(output) if !matches!(output.status.code(), Some(126 | 127)) => Some(Answer::of(output)),
        refused => {
            println!("SKIP: another user may not run the command here: {refused:?}");
            None
        }
    }
}

/// A place that anybody can write to.
fn place() -> TestDir {
    let place = TestDir::new();
    std::fs::set_permissions(place.dir(), Permissions::from_mode(0o777)).unwrap();
    place
}

#[test]
fn a_thread_that_is_refused_is_a_named_error_or_done_without() {
    let place = place();
    let values = random_u64(40_000, 9);
    place.write("in", &values);
    let lines: Vec<String> = values
        .chunks(8)
        .map(|value| format!("{value:?}\n"))
        .collect();
    place.write("text", lines.concat().as_bytes());
    let mut sorted = lines.clone();
    sorted.sort();
    let commands: [&[&str]; 6] = [
        &[
            "sort", "in", "-o", "-", "--type", "u64", "--memory", "64MiB",
        ],
        &["sort", "text", "--memory", "64MiB"],
        &["sort", "text", "-o", "out.gz"],
        &[
            "shuffle", "in", "--type", "u64", "-o", "-", "--io", "buffered",
        ],
        &["reduce", "count", "in", "--type", "u64"],
        &["sim", "run", "--flow", "requests=100"],
    ];
    let mut refused_count = 0;
    for processes in [1, 2, 3, 5, 9] {
        for threads in ["1", "3", "8"] {
            for words in commands {
                let threads_flag = ["--threads", threads];
                let words = match words[0] {
                    "sim" => words.to_vec(),
                    _ => [words, &threads_flag].concat(),
                };
                let Some(answer) = run_with(&place, processes, &words) else {
                    return;
                };
                let place = format!("{processes} processes, {words:?}: {answer:?}");
                if answer.code == Some(3) {
                    refused_count += 1;
                    assert!(
                        answer.stderr.contains("error: start thread outcore-"),
                        "{place}"
                    );
                    assert!(answer.stderr.contains("pids.max"), "{place}");
                    let is_alone = threads == "1" && words[3] != "out.gz";
                    assert!(!is_alone && words[0] != "sim", "{place}");
                    continue;
                }
                assert_eq!(answer.code, Some(0), "{place}");
                match words[..2] {
                    ["sort", "in"] => assert!(answer.stdout == sorted_u64(&values), "{processes}"),
                    ["sort", "text"] if words[2] == "--memory" => {
                        assert!(answer.stdout == sorted.concat().as_bytes(), "{processes}");
                    }
                    ["reduce", _] => assert_eq!(answer.stdout, b"40000\n"),
                    _ => {}
                }
            }
        }
    }
    assert!(refused_count > 20, "{refused_count}");
}
