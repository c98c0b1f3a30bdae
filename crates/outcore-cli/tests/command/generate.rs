//! `outcore gen`: the same records for the same request, and gensort's byte for byte.
//!
//! Contract: gensort's checksums are those that sortbenchmark.org's own programs print.

use crate::support::*;

/// Generates gensort records and gives the checksum that verify prints.
#[track_caller]
fn checksum(flags: &[&str]) -> String {
    let place = TestDir::new();
    let generate = ["gen", "gensort", "-o", "g"];
    place.run(&[&generate[..], flags].concat()).ok();
    let answer = place.run(&["verify", "g", "--type", "gensort"]);
    let line = answer
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("Checksum: "));
    line.unwrap_or_else(|| panic!("{answer:?}")).to_string()
}

#[test]
fn gensort_records_have_the_checksums_of_sortbenchmark_org() {
    assert_eq!(checksum(&["-n", "1"]), "9ea593a0");
    assert_eq!(checksum(&["-n", "1000"]), "1ea6370b955");
    assert_eq!(checksum(&["-n", "1000", "-b", "1000000"]), "1f912af9809");
    assert_eq!(
        checksum(&["-n", "1000", "--first", "1000000"]),
        "1f912af9809"
    );
    assert_eq!(checksum(&["-n", "1000", "-a"]), "1f5dfb3631a");
    assert_eq!(checksum(&["-n", "1000", "--skewed"]), "1e96301166b");
    assert_eq!(checksum(&["-n", "1e6"]), "7a0e0d4868cd4");
    assert_eq!(checksum(&["-n", "1e6", "--ascii"]), "7a19cff467438");
    assert_eq!(checksum(&["-n", "1e6", "-s"]), "79f9a7e6de673");
}

#[test]
fn what_was_generated_is_told_without_the_padding_of_the_last_block() {
    let place = TestDir::new();
    let answer = place.run(&["gen", "u64", "-n", "3", "-o", "g"]).ok();
    assert!(answer.stderr.contains("3 records, 24 B"), "{answer:?}");
}

#[test]
fn a_million_gensort_records_are_sorted_and_verified() {
    let place = TestDir::new();
    place
        .run(&["gen", "gensort", "-n", "1000000", "-o", "g"])
        .ok();
    place
        .run(&[
            "sort", "g", "-o", "s", "--type", "gensort", "--memory", "64MiB",
        ])
        .ok();
    let answer = place.run(&["verify", "s", "--type", "gensort"]).ok();
    let wanted = "Records: 1000000\nChecksum: 7a0e0d4868cd4\nDuplicate keys: 0\n\
                  SUCCESS - all records are in order\n";
    assert_eq!(answer.stderr, wanted);
    assert!(answer.stdout.is_empty());
}

#[test]
fn distributions_shape_the_keys() {
    let place = TestDir::new();
    let make = |flags: &[&str]| {
        let fixed = ["gen", "u64", "-n", "2000", "-o", "out", "--force"];
        place.run(&[&fixed[..], flags].concat()).ok();
        let bytes = place.read("out");
        bytes.chunks(8).map(u64_of).collect::<Vec<u64>>()
    };
    assert!(make(&["--dist", "uniform:100"]).iter().all(|n| *n < 100));
    assert!(make(&["--dist", "equal"]).iter().all(|n| *n == 42));
    assert!(make(&["--dist", "sorted"]).is_sorted());
    assert!(make(&["--dist", "reversed"]).iter().rev().is_sorted());
    let zipf = make(&["--dist", "zipf:1.5"]);
    assert!(zipf.iter().filter(|n| **n == 1).count() > 500);
    let exponential = make(&["--dist", "exponential:0.001"]);
    let mean = exponential.iter().sum::<u64>() / 2000;
    assert!((800..1200).contains(&mean), "{mean}");
    assert_ne!(make(&[]), make(&["--seed", "2"]));
    assert_eq!(
        make(&["--seed", "2"]),
        make(&["--seed", "2", "--threads", "1"])
    );
}

#[test]
fn generated_records_can_go_through_a_pipe_and_have_keys() {
    let place = TestDir::new();
    let out = place
        .run(&["gen", "u64", "-n", "100000", "-o", "-"])
        .ok()
        .stdout;
    place
        .run(&["gen", "u64", "-n", "100000", "-o", "file"])
        .ok();
    assert!(out == place.read("file"));
    place
        .run(&["gen", "20/0:4,8:8:f64", "-n", "50", "-o", "records"])
        .ok();
    assert_eq!(place.read("records").len(), 1000);
    place.run(&["gen", "u64", "-n", "0", "-o", "none"]).ok();
    assert!(place.read("none").is_empty());
}

#[test]
fn wrong_requests_are_refused() {
    let place = TestDir::new();
    place.write("there", b"mine");
    let generate = |flags: &[&str]| place.run(&[&["gen"], flags].concat());
    generate(&["u64", "-n", "1", "-o", "there"]).fails(2, &["exists already"], "--force");
    generate(&["u64", "-n", "1", "-o", "x", "--ascii"]).fails(2, &["gensort"], "gensort");
    generate(&["gensort", "-n", "1", "-o", "x", "-a", "--dist", "equal"]).fails(
        2,
        &["--ascii"],
        "--dist",
    );
    generate(&["u64", "-n", "many", "-o", "x"]).fails(2, &["`many`"], "1000000");
    generate(&["u63", "-n", "1", "-o", "x"]).fails(2, &["u63"], "u64");
    generate(&["u8", "-n", "1", "-o", "x", "--dist", "uniform:1000"]).fails(
        2,
        &["uniform:1000"],
        "",
    );
    generate(&["u64", "-n", "1", "-o", "x", "--dist", "gauss"]).fails(2, &["gauss"], "zipf");
    generate(&["u64", "-n", "1", "-o", "x", "--dist", "normal"]).fails(2, &["normal", "f32"], "");
    generate(&["u64", "-o", "x"]).fails(2, &["--count"], "--help");
    generate(&["u64", "-n", "1e15", "-o", "x"]).fails(5, &["are needed"], "");
    let most = ["u64", "-n", "18446744073709551615", "-o", "x"];
    generate(&most).fails(2, &["more than a file can hold"], "smaller count");
    assert_eq!(place.names(), ["there"]);
    assert_eq!(place.read("there"), b"mine");
}
