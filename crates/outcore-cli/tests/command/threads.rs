//! Threads that the system refuses: the command ends with an error or a right result, and never
//! panics or hangs.
//!
//! Contract: a user that only the test has may have a limited number of processes, beginning with
//! one. With `--threads 1`, a command needs only its first thread.

use crate::support::*;

#[test]
fn a_thread_that_is_refused_is_a_named_error_or_done_without() {
    let place = public_place();
    let values = random_u64(40_000, 9);
    place.write("in", &values);
    let lines: Vec<String> = values
        .chunks(8)
        .map(|value| format!("{value:?}\n"))
        .collect();
    place.write("text", lines.concat().as_bytes());
    let mut sorted = lines.clone();
    sorted.sort();
    let commands: [&[&str]; 5] = [
        &[
            "sort", "in", "-o", "-", "--type", "u64", "--memory", "64MiB",
        ],
        &["sort", "text", "--memory", "64MiB"],
        &["sort", "text", "-o", "out.gz"],
        &[
            "shuffle", "in", "--type", "u64", "-o", "-", "--io", "buffered",
        ],
        &["reduce", "count", "in", "--type", "u64"],
    ];
    let mut refused_count = 0;
    for processes in [1, 2, 3, 5, 9] {
        for threads in ["1", "3", "8"] {
            for words in commands {
                let threads_flag = ["--threads", threads];
                let words = [words, &threads_flag].concat();
                let Some(answer) = run_with_processes(&place, processes, &words) else {
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
                    assert!(!is_alone, "{place}");
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
