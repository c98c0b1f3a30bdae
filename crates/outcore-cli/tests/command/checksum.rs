//! `--checksum`: `sort` and `shuffle` report the checksum that `verify` finds in their output.
//!
//! Contract: this holds for lines, JSON lines, numbers and records, in memory and through scratch,
//! on one thread and on several.

use crate::support::*;

/// The checksum in a summary.
fn checksum_of(answer: &Answer) -> String {
    let summary = answer.event("summary");
    summary["checksum"].as_str().unwrap().to_owned()
}

/// Runs a job and compares the reported checksum with that of the written output.
#[track_caller]
fn check(place: &TestDir, job: &str, output: &str, reading: &str) {
    for how in ["--threads 1 --memory 64MiB", "--threads 3 --memory 128MiB"] {
        let line = format!("{job} -o {output} --checksum --json --drive . --force {how}");
        let words: Vec<&str> = line.split(' ').collect();
        let made = place.run(&words).ok();
        let verify = format!("verify {output} {reading} --json");
        let words: Vec<&str> = verify.split_whitespace().collect();
        // Shuffled items are in no order, which is not an error here.
        let found = place.run(&words);
        assert_eq!(checksum_of(&made), checksum_of(&found), "{line}");
        assert!(made.event("summary")["checksum"] != "0", "{line}");
    }
}

#[test]
fn numbers_and_records_have_the_checksum_of_verify() {
    let place = TestDir::in_memory();
    let mut numbers = random_u64(3_000_000, 5);
    // Half of the numbers are equal; the sort only counts these.
    numbers.extend(7_u64.to_le_bytes().repeat(3_000_000));
    place.write("in", &numbers);
    check(&place, "sort in --type u64", "out", "--type u64");
    check(&place, "sort in --type u64 -r -u", "out", "--type u64");
    check(&place, "shuffle in --type u64", "out", "--type u64");
    let keyed = "--record 24 --key 8:8:u64";
    check(&place, &format!("sort in {keyed} -s"), "out", keyed);
    check(&place, &format!("sort in {keyed} -u"), "out", keyed);
    check(&place, "shuffle in --record 24", "out", "--record 24");
    place
        .run(&["gen", "gensort", "-n", "60000", "-o", "g"])
        .ok();
    for verb in ["sort", "shuffle"] {
        let job = format!("{verb} g --type gensort");
        check(&place, &job, "out", "--type gensort");
    }
    check(&place, "shuffle g --record 100", "out", "--record 100");
}

#[test]
fn the_checksum_is_printed_beside_the_output() {
    let place = TestDir::in_memory();
    place.write("in", b"b\na\n");
    let made = place.run(&["sort", "in", "--checksum"]).ok();
    assert_eq!(made.text(), "a\nb\n");
    let found = place.run(&["verify", "--lines", "in", "--json"]);
    let checksum = format!("checksum {}\n", checksum_of(&found));
    assert!(made.stderr.contains(&checksum), "{}", made.stderr);
}

#[test]
fn lines_have_the_checksum_of_verify() {
    let place = TestDir::in_memory();
    let mut text = String::new();
    for number in random_u64(60_000, 9).chunks_exact(8) {
        let number = u64_of(number);
        let stretch = "x".repeat((number >> 56) as usize);
        text.push_str(&format!(
            "{{\"id\": {}, \"t\": \"{stretch}\"}}\n",
            number % 9_000
        ));
        text.push_str("{\"id\": 1}\n");
    }
    place.write("in.jsonl", text.as_bytes());
    place.write("in.txt", text.as_bytes());
    let sort = "sort in.jsonl --by .id --jsonl";
    check(&place, sort, "out.jsonl", "--lines");
    check(&place, "sort in.txt --lines", "out.txt", "--lines");
    check(&place, "sort in.txt --lines -u", "out.txt", "--lines");
    check(&place, "shuffle in.jsonl", "out.jsonl", "--lines");
}

#[test]
fn a_record_of_csv_counts_as_one_line_without_the_header() {
    let place = TestDir::in_memory();
    place.write("in.csv", b"k,v\n2,b\n1,a\n2,b\n");
    place.write("rows.txt", b"2,b\n1,a\n2,b\n");
    let words = [
        "sort",
        "in.csv",
        "--csv",
        "--by",
        "k",
        "-o",
        "o.csv",
        "--checksum",
        "--json",
    ];
    let sorted = place.run(&words).ok();
    let rows = place.run(&["verify", "rows.txt", "--lines", "--json"]);
    assert_eq!(checksum_of(&sorted), checksum_of(&rows));
}

#[test]
fn parts_that_were_summed_are_told_with_their_sums() {
    let place = TestDir::in_memory();
    place.write("in", &random_u64(1000, 3));
    let words = [
        "split", "in", "--type", "u64", "-n", "3", "--random", "-o", "p{part}",
    ];
    assert_eq!(place.run(&words).ok().stderr, "");
    let told = place
        .run(&[&words[..], &["-v", "--force"]].concat())
        .ok()
        .stderr;
    let parts = place.names().into_iter().filter(|name| name != "in");
    let parts: Vec<String> = parts.collect();
    assert_eq!(parts.len(), 3);
    for part in &parts {
        let found = place.run(&["verify", part, "--type", "u64", "--json"]);
        let records = found.event("summary")["records"].as_u64().unwrap();
        let line = format!(
            "  {part}: {records} records, checksum {}\n",
            checksum_of(&found)
        );
        assert!(told.contains(&line), "{told}");
    }
}

#[test]
fn what_has_no_checksum_is_refused() {
    let place = TestDir::in_memory();
    place.write("in", b"b\na\n");
    let merge = place.run(&["sort", "-m", "in", "-o", "out", "--checksum"]);
    merge.fails(2, &["--checksum", "--merge"], "");
    place.write("t.csv", b"a,b\n1,2\n");
    let convert = place.run(&["convert", "t.csv", "-o", "t.parquet"]);
    convert.ok();
    let table = place.run(&[
        "sort",
        "t.parquet",
        "--by",
        "a",
        "-o",
        "o.parquet",
        "--checksum",
    ]);
    table.fails(2, &["--checksum"], "outcore verify");
    assert_eq!(place.names(), ["in", "t.csv", "t.parquet"]);
}
