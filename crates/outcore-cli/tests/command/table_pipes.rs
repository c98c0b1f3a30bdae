//! Tables from standard input and to standard output.
//!
//! Contract: as [`crate::tables`]. A pipe carries the bytes that a file would hold.

use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Answer, TestDir, wait_for, wait_until};
use crate::tables::{batch, read, rows_of, write};

#[test]
fn a_table_is_written_to_pipes_and_devices_that_are_named() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(5_000));
    let csv = place.run(&["convert", "t.parquet", "-o", "-"]).ok().stdout;
    let made = std::process::Command::new("mkfifo")
        .args([place.path("pipe"), place.path("pipe.jsonl")])
        .status();
    assert!(made.unwrap().success());
    for words in [
        &["convert", "t.parquet", "-o"][..],
        &["sort", "t.parquet", "--by", "number", "-o"],
        &["head", "t.parquet", "-n", "2", "-o"],
    ] {
        for force in [&[][..], &["--force"]] {
            let words = [words, &["/dev/null"], force].concat();
            place.run(&words).ok();
        }
    }
    let full = place.run(&["convert", "t.parquet", "-o", "/dev/full"]);
    full.fails(5, &["/dev/full"], "");
    let parts = ["convert", "t.parquet", "-o", "/dev/null", "--parts", "2"];
    place.run(&parts).fails(2, &["--parts"], "name a directory");
    let into = |words: &[&str], pipe: &str| {
        let mut child = place.spawn(words);
        let read = std::fs::read(place.path(pipe)).unwrap();
        assert!(wait_for(&mut child).success());
        read
    };
    assert!(into(&["convert", "t.parquet", "-o", "pipe"], "pipe") == csv);
    let lines = place
        .run(&["convert", "t.parquet", "-o", "-", "--to", "jsonl"])
        .ok()
        .stdout;
    assert!(into(&["convert", "t.parquet", "-o", "pipe.jsonl"], "pipe.jsonl") == lines);
    assert!(
        into(
            &["convert", "t.parquet", "-o", "pipe", "--to", "jsonl"],
            "pipe"
        ) == lines
    );
    assert_eq!(place.names(), ["pipe", "pipe.jsonl", "t.parquet"]);
}

#[test]
fn a_table_goes_through_pipes_as_an_arrow_stream() {
    let place = TestDir::new();
    let all = batch(5_000);
    write(&place.path("t.parquet"), &all);
    let run = |line: &str, input: &[u8]| {
        let words: Vec<&str> = line.split(' ').collect();
        place.run_with_input(&words, input)
    };
    let stream = run("convert t.parquet -o - --to arrow", b"").ok().stdout;
    run("convert t.parquet -o t.arrows", b"").ok();
    assert_eq!(stream, place.read("t.arrows"));
    // A command that takes nothing but tables needs no --from.
    run("convert - -o c.parquet", &stream).ok();
    assert_eq!(read(&place.path("c.parquet")), rows_of(&all));
    run("sort t.parquet -o s.parquet --by number", b"").ok();
    for line in [
        "sort - --from arrow -o p.parquet --by number",
        "sort - --from arrow -o p.parquet --by number --memory 64MiB --threads 1",
    ] {
        run(&format!("{line} --force"), &stream).ok();
        assert_eq!(
            read(&place.path("p.parquet")),
            read(&place.path("s.parquet"))
        );
    }
    // A chain of commands and pipes, without any file.
    let sorted = run("sort - --from arrow -o - --to arrow --by number", &stream).ok();
    let few = run(
        "filter number<10 - --from arrow -o - --to arrow",
        &sorted.stdout,
    )
    .ok();
    let answer = run(
        "head - --from arrow -n 3 -o - --to jsonl --json",
        &few.stdout,
    )
    .ok();
    let numbers: Vec<_> = answer
        .events()
        .iter()
        .map(|row| row["number"].clone())
        .collect();
    assert_eq!(numbers, [json!(0), json!(1), json!(2)]);
    assert!(
        answer.stderr.contains("\"event\":\"summary\""),
        "{answer:?}"
    );
    // Standard input that is a file is read in place, whatever its format.
    let mut command = place.command(&["sort", "-", "-o", "q.parquet", "--by", "number"]);
    command.stdin(std::fs::File::open(place.path("t.parquet")).unwrap());
    assert!(command.output().unwrap().status.success());
    assert_eq!(
        read(&place.path("q.parquet")),
        read(&place.path("s.parquet"))
    );
    let names = place.names();
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
}

#[test]
fn text_goes_through_pipes_with_its_types() {
    let place = TestDir::new();
    let run = |line: &str, input: &[u8]| {
        let words: Vec<&str> = line.split(' ').collect();
        place.run_with_input(&words, input)
    };
    let csv = b"day,n\n2024-01-02,5\n2024-01-01,7\n2024-01-01,1\n";
    let line = "group-by - --csv --by day --agg sum(n) -o - --to jsonl";
    let wanted = "{\"day\":\"2024-01-01\",\"sum(n)\":8}\n{\"day\":\"2024-01-02\",\"sum(n)\":5}\n";
    assert_eq!(run(line, csv).ok().text(), wanted);
    let json = run("map n=n*2 - --from csv -o - --to jsonl", csv).ok();
    let back = run(
        "sample - --from jsonl -n 9 --to csv --schema day:text",
        &json.stdout,
    )
    .ok();
    assert_eq!(
        back.text(),
        "day,n\n2024-01-02,10\n2024-01-01,14\n2024-01-01,2\n"
    );
    run("convert - --csv -o t.csv.gz", csv).ok();
    let unpacked = run(
        "unique - --from csv --by day -o - --to csv",
        &place.read("t.csv.gz"),
    );
    assert_eq!(unpacked.ok().text(), "day,n\n2024-01-01,7\n2024-01-02,5\n");
    let error = run("convert - --csv -o x.parquet", b"a,b\n1,2\n3\n");
    error.fails(4, &["line 3", "(-"], "quotes");
    let stream = run("convert - --csv -o - --to arrow", csv).ok().stdout;
    let cut = run("convert - -o x.parquet", &stream[..stream.len() - 100]);
    cut.fails(4, &["(-"], "cut short");
    assert_eq!(place.names(), ["t.csv.gz"]);
}

#[test]
fn tables_go_through_pipes_with_tabs_between_fields() {
    let place = TestDir::new();
    place.write("t.csv", b"id,name\n1,\"a,b\"\n2,c\n");
    let written = place
        .run(&["convert", "t.csv", "-o", "-", "--to", "tsv"])
        .ok();
    assert_eq!(written.text(), "id\tname\n1\ta,b\n2\tc\n");
    // The rows have two fields. If a sample chose the comma as the separator, it would find more
    // fields.
    let text = b"id\tname\n1\ta,b,c\n2\td,e,f\n";
    let back = [
        "sort", "-", "--from", "tsv", "-o", "-", "--to", "jsonl", "--by", "id:desc",
    ];
    let back = place.run_with_input(&back, text).ok();
    let wanted = "{\"id\":2,\"name\":\"d,e,f\"}\n{\"id\":1,\"name\":\"a,b,c\"}\n";
    assert_eq!(back.text(), wanted);
}

#[test]
fn what_pipes_cannot_have_is_named() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(100));
    place.write("t.csv", b"a\n1\n");
    let parquet = place.read("t.parquet");
    for (line, cause, hint) in [
        (
            "convert t.parquet -o x.csv --to csv",
            "the output is a file",
            "--to",
        ),
        ("convert t.parquet -o - --to parquet", "parquet", ""),
        (
            "convert t.parquet -o - --to arrow --parts 2",
            "--parts",
            "directory",
        ),
        ("dedup t.parquet -o x.csv --removed -", "the second", "file"),
        ("sort t.parquet --from arrow -o x.csv", "--from", "pass -"),
        (
            "convert - -o x.csv",
            "Parquet cannot be read from a pipe",
            "--to arrow",
        ),
        (
            "sort - --from arrow -o x.csv",
            "Parquet cannot be read from a pipe",
            "file",
        ),
        ("convert - - -o x.csv", "more than once", "once"),
        ("convert - -o - --to csv --codec zstd", "codec", "--codec"),
        ("head t.csv --to arrow --lines", "", ""),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = place.run_with_input(&words, &parquet);
        match hint {
            "" => assert_eq!(answer.code, Some(2), "{line}: {answer:?}"),
            hint => drop(answer.fails(2, &[cause], hint)),
        }
    }
    let mut onto_itself = place.command(&["convert", "-", "-o", "t.parquet", "--force"]);
    onto_itself.stdin(std::fs::File::open(place.path("t.parquet")).unwrap());
    Answer::of(onto_itself.output().unwrap()).fails(2, &["it is an input"], "another file");
    assert_eq!(place.names(), ["t.csv", "t.parquet"]);
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_job_quietly_and_a_signal_one_that_waits() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(400_000));
    let mut child = place.spawn(&["sort", "t.parquet", "--by", "number", "--to", "csv"]);
    let mut some = [0; 100];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut some).unwrap();
    drop(stdout);
    assert!(
        some.starts_with(b"name,number\n"),
        "{}",
        String::from_utf8_lossy(&some)
    );
    assert_eq!(wait_for(&mut child).code(), Some(141));
    // A signal also stops a command that waits for a table.
    let mut waiting = place.spawn(&["convert", "-", "-o", "x.parquet"]);
    wait_until("a copy of standard input", || {
        place
            .names()
            .iter()
            .any(|name| name.starts_with(".outcore-"))
    });
    kill_process(Pid::from_child(&waiting), Signal::INT).unwrap();
    assert_eq!(wait_for(&mut waiting).code(), Some(130));
    let mut told = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(!told.contains("error"), "{told}");
    assert_eq!(place.names(), ["t.parquet"]);
}

#[test]
fn a_stream_of_a_job_that_fails_is_rejected_by_whoever_reads_it() {
    let place = TestDir::new();
    // So many pieces that the stream has begun when a later piece cannot be read.
    write(&place.path("t.parquet"), &batch(40_000));
    let whole = place
        .run(&["convert", "t.parquet", "-o", "-", "--to", "arrow"])
        .ok()
        .stdout;
    let read_it = |bytes: &[u8]| {
        std::fs::write(place.path("x.arrows"), bytes).unwrap();
        let by_pipe = place.run_with_input(&["convert", "-", "-o", "-", "--to", "csv"], bytes);
        let by_name = place.run(&["convert", "x.arrows", "-o", "-", "--to", "csv"]);
        assert_eq!(by_pipe.code, by_name.code);
        by_pipe
    };
    read_it(&whole).ok();
    let (mut begun, mut nth) = (0, 0);
    loop {
        nth += 1;
        let mut process = place.command(&["convert", "t.parquet", "-o", "-", "--to", "arrow"]);
        process.env("OUTCORE_FAULT", format!("eio@{nth}:read"));
        let answer = Answer::of(process.output().unwrap());
        if answer.code == Some(0) {
            break;
        }
        begun += usize::from(!answer.stdout.is_empty());
        assert_ne!(read_it(&answer.stdout).code, Some(0), "{nth}: {answer:?}");
    }
    assert!(begun > 0, "{nth}");
    // Streams that are cut between two messages, as by a kill, or followed by another stream.
    read_it(&whole[..whole.len() - 8]).fails(4, &["end mark"], "run it again");
    read_it(&[&whole[..], &whole].concat()).fails(4, &["after the end mark"], "of its own");
}
