//! Pipes in and out: standard input and output, named pipes, readers that go away.
//!
//! Contract: a stream is copied to scratch, and the copy is removed at the end. A closed pipe ends
//! the command without a message.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::Stdio;

use crate::support::*;

#[test]
fn a_pipe_goes_in_and_out() {
    let place = TestDir::new();
    let bytes = random_u64(300_000, 53);
    let sort = ["sort", "-", "-o", "-", "--type", "u64"];
    let answer = place.run_with_input(&sort, &bytes).ok();
    assert!(answer.stdout == sorted_u64(&bytes));
    assert!(
        answer.stderr.starts_with("sorted 300,000 records"),
        "{}",
        answer.stderr
    );
    assert!(place.names().is_empty());
    let answer = place
        .run_with_input(&[&sort[..], &["--memory", "8MiB", "-q"]].concat(), &bytes)
        .ok();
    assert!(answer.stdout == sorted_u64(&bytes));
    assert!(answer.stderr.is_empty());
    let answer = place.run_with_input(&sort, &[]).ok();
    assert!(answer.stdout.is_empty());
    assert!(place.names().is_empty());
}

#[test]
fn a_pipe_between_files_keeps_its_place() {
    let place = TestDir::new();
    let parts = [random_u64(100, 1), random_u64(200, 2), random_u64(50, 3)];
    place.write("a", &parts[0]);
    place.write("c", &parts[2]);
    let stable = ["--record", "8", "--key", "0:1", "--stable"];
    let sort = [&["sort", "a", "-", "c", "-o", "out"], &stable[..]].concat();
    place.run_with_input(&sort, &parts[1]).ok();
    let joined = parts.concat();
    let mut records: Vec<&[u8]> = joined.chunks(8).collect();
    records.sort_by_key(|r| r[0]);
    assert_eq!(place.read("out"), records.concat());
    assert_eq!(place.names(), ["a", "c", "out"]);
}

#[test]
fn standard_input_that_is_a_file_is_read_in_place_from_where_it_stands() {
    let place = TestDir::new();
    let bytes = random_u64(1000, 59);
    place.write("in", &bytes);
    let mut file = File::open(place.path("in")).unwrap();
    file.seek(SeekFrom::Start(80)).unwrap();
    let mut command = place.command(&["sort", "-", "-o", "out", "--type", "u64", "--json"]);
    let answer = Answer::of(command.stdin(file).output().unwrap()).ok();
    assert_eq!(place.read("out"), sorted_u64(&bytes[80..]));
    assert!(
        answer.event("begin")["inputs"][0]
            .as_str()
            .unwrap()
            .ends_with("/in")
    );
    let file = File::open(place.path("in")).unwrap();
    let mut command = place.command(&["sort", "-", "-o", "in", "--type", "u64", "--force"]);
    Answer::of(command.stdin(file).output().unwrap()).fails(2, &["one of the inputs"], "--replace");
    assert_eq!(place.read("in"), bytes);
}

#[test]
fn a_removed_file_on_standard_input_can_still_be_sorted() {
    let place = TestDir::new();
    let bytes = random_u64(1000, 60);
    let path = place.write("in", &bytes);
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut command = place.command(&["sort", "-", "-o", "out", "--type", "u64"]);
    Answer::of(command.stdin(file).output().unwrap()).ok();
    assert_eq!(place.read("out"), sorted_u64(&bytes));
}

#[test]
fn an_array_is_not_taken_for_lines_before_a_long_stream_is_copied() {
    let place = TestDir::new();
    // The producer sends more bytes than the command reads before the first check, and never stops.
    let mut child = place.spawn(&["sort", "-", "-o", "out"]);
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        let block = [&b"\x93NUMPY"[..], &[7; 1 << 16]].concat();
        while std::io::Write::write_all(&mut stdin, &block).is_ok() {}
    });
    let answer = Answer::of(child.wait_with_output().unwrap());
    feeder.join().unwrap();
    answer.fails(2, &["NumPy", "standard input"], "--type");
    assert!(place.names().is_empty());
}

#[test]
fn an_array_may_come_through_a_pipe() {
    let place = TestDir::new();
    place
        .run(&["gen", "i32", "-n", "1000", "-o", "in.npy"])
        .ok();
    let array = place.read("in.npy");
    place
        .run_with_input(&["sort", "-", "-o", "out.npy"], &array)
        .ok();
    place
        .run(&["verify", "out.npy", "--against", "in.npy"])
        .ok();
    let sorted = place.read("out.npy");
    place.run_with_input(&["verify", "-"], &sorted).ok();
}

#[test]
fn a_file_that_shrinks_before_it_is_read_is_an_error() {
    let place = TestDir::new();
    place.run(&["gen", "u64", "-n", "1000", "-o", "a.npy"]).ok();
    let len_bytes = place.read("a.npy").len() as u64;
    let mut child = place.spawn(&["sort", "a.npy", "-", "-o", "out"]);
    let stdin = child.stdin.take();
    wait_until("scratch", || place.names().len() > 1);
    let file = File::options()
        .write(true)
        .open(place.path("a.npy"))
        .unwrap();
    file.set_len(len_bytes - 80).unwrap();
    drop(stdin);
    let answer = Answer::of(child.wait_with_output().unwrap());
    answer.fails(4, &["changed while it was read", "(a.npy)"], "copy");
    assert_eq!(place.names(), ["a.npy"]);
}

#[test]
fn a_copy_of_a_stream_obeys_the_limit_on_scratch() {
    let place = TestDir::new();
    let sort = [
        "sort",
        "-",
        "-o",
        "out",
        "--type",
        "u64",
        "--scratch-limit",
        "2MiB",
    ];
    let answer = place.run_with_input(&sort, &random_u64(400_000, 61));
    answer.fails(5, &["2MiB", "standard input"], "--scratch-limit");
    assert!(place.names().is_empty());
    let odd = place.run_with_input(&["sort", "-", "-o", "out", "--type", "u64"], &[1, 2, 3]);
    odd.fails(2, &["3 bytes", "standard input"], "complete");
    assert!(place.names().is_empty());
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = TestDir::new();
    place.write("in", &random_u64(300_000, 67));
    for arguments in [
        &["sort", "in", "-o", "-", "--type", "u64"][..],
        &["gen", "u64", "-n", "1000000", "-o", "-"],
        &["completions", "bash"],
        &["man"],
    ] {
        let mut command = place.command(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 8];
        let mut stdout = child.stdout.take().unwrap();
        if arguments[0] == "sort" {
            stdout.read_exact(&mut first).unwrap();
        }
        drop(stdout);
        let answer = Answer::of(child.wait_with_output().unwrap());
        // A short text may fit into the pipe before the reader is gone.
        assert!(
            matches!(answer.code, Some(0 | 141)),
            "{arguments:?}: {answer:?}"
        );
        assert!(answer.stderr.is_empty(), "{arguments:?}: {answer:?}");
    }
    assert_eq!(place.names(), ["in"]);
}

#[test]
fn a_named_pipe_and_the_null_device_are_written_to_and_stay_what_they_are() {
    let place = TestDir::new();
    let bytes = random_u64(100_000, 71);
    place.write("in", &bytes);
    let made = std::process::Command::new("mkfifo")
        .arg(place.path("pipe"))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("SKIP: no mkfifo here");
        return;
    }
    let path = place.path("pipe");
    let reader = std::thread::spawn(move || std::fs::read(path).unwrap());
    place
        .run(&["sort", "in", "-o", "pipe", "--type", "u64"])
        .ok();
    assert!(reader.join().unwrap() == sorted_u64(&bytes));
    assert_eq!(place.names(), ["in", "pipe"]);
    let path = place.path("pipe");
    let sorted = sorted_u64(&bytes);
    let writer = std::thread::spawn(move || std::fs::write(path, sorted).unwrap());
    place.run(&["verify", "pipe", "--type", "u64"]).ok();
    writer.join().unwrap();
    place
        .run(&["sort", "in", "-o", "/dev/null", "--type", "u64", "--force"])
        .ok();
    assert!(std::fs::metadata("/dev/null").unwrap().len() == 0);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn standard_output_by_its_other_name_is_no_file_to_replace() {
    let place = TestDir::new();
    let bytes = random_u64(1000, 151);
    place.write("in", &bytes);
    let file = File::create(place.path("out")).unwrap();
    let mut command = place.command(&["sort", "in", "-o", "/dev/stdout", "--type", "u64"]);
    Answer::of(command.stdout(file).output().unwrap()).ok();
    assert_eq!(place.read("out"), sorted_u64(&bytes));
}

#[test]
fn events_go_to_standard_error_while_standard_output_carries_data() {
    let place = TestDir::new();
    let bytes = random_u64(1000, 73);
    place.write("in", &bytes);
    let answer = place
        .run(&["sort", "in", "-o", "-", "--type", "u64", "--json"])
        .ok();
    assert_eq!(answer.stdout, sorted_u64(&bytes));
    let events = parse_events(&answer.stderr);
    assert_eq!(events[0]["event"], "begin");
    assert_eq!(events.last().unwrap()["event"], "summary");
    let answer = place
        .run(&["gen", "u64", "-n", "10", "-o", "-", "--json"])
        .ok();
    assert_eq!(answer.stdout.len(), 80);
    assert_eq!(parse_events(&answer.stderr).last().unwrap()["records"], 10);
    let answer = place.run(&["sort", "missing", "-o", "-", "--type", "u64", "--json"]);
    let events = parse_events(&answer.stderr);
    assert_eq!((events.len(), &events[0]["event"]), (1, &"error".into()));
}
