//! `outcore verify`: the lines and exit codes of valsort, and the records of another file.
//!
//! Contract: nothing is written; the checksum does not depend on the order.

use crate::support::*;

#[test]
fn gensort_records_get_valsort_s_lines_and_exit_codes() {
    let place = TestDir::new();
    place.run(&["gen", "gensort", "-n", "1000", "-o", "g"]).ok();
    let verify = |name: &str| place.run(&["verify", name, "--type", "gensort"]);
    let answer = verify("g");
    assert_eq!(answer.code, Some(1));
    let wanted = "First unordered record is record 2\nRecords: 1000\nChecksum: 1ea6370b955\n\
                  ERROR - there are 483 unordered records\n";
    assert_eq!(answer.stderr, wanted);
    place.write("none", &[]);
    let answer = verify("none");
    assert_eq!(answer.code, Some(1));
    assert_eq!(
        answer.stderr,
        "there must be at least one record to be validated\n"
    );
    let answer = place.run(&["verify", "none", "--type", "u64"]).ok();
    assert!(answer.stderr.starts_with("Records: 0\n"));
    assert!(
        place
            .run(&["verify", "g", "--type", "gensort", "-q"])
            .stderr
            .is_empty()
    );
}

#[test]
fn the_records_of_another_file_are_told_from_those_of_the_input() {
    let place = TestDir::new();
    let bytes = random_u64(10_000, 113);
    place.write("in", &bytes);
    place.write("sorted", &sorted_u64(&bytes));
    let mut other = sorted_u64(&bytes);
    other[3] ^= 1;
    place.write("other", &other);
    let verify = |file: &str, against: &[&str]| {
        place.run(&[&["verify", file, "--type", "u64", "--against"], against].concat())
    };
    let answer = verify("sorted", &["in"]).ok();
    assert!(answer.stderr.contains("SAME"), "{answer:?}");
    let answer = verify("other", &["in"]);
    assert_eq!(answer.code, Some(1));
    assert!(
        answer.stderr.contains("ERROR - the records are not those"),
        "{answer:?}"
    );
    assert_eq!(verify("sorted", &["in", "in"]).code, Some(1));
    place.write("half", &bytes[..40_000]);
    place.write("rest", &bytes[40_000..]);
    verify("sorted", &["rest", "half"]).ok();
    let answer = verify("other", &["in", "--json"]);
    let summary = answer.event("summary");
    assert_eq!(summary["same_records"], false);
    assert_eq!(summary["ordered"], true);
    assert_eq!(summary["read_bytes"].as_u64().unwrap(), 160_000);
}

#[test]
fn order_is_judged_as_it_was_asked_for() {
    let place = TestDir::new();
    let bytes: Vec<u8> = [5_u32, 5, 3, 1]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    place.write("in", &bytes);
    let verify = |flags: &[&str]| {
        place
            .run(&[&["verify", "in", "--type", "u32"], flags].concat())
            .code
    };
    assert_eq!(verify(&[]), Some(1));
    assert_eq!(verify(&["--descending"]), Some(0));
    assert_eq!(verify(&["--descending", "--unique"]), Some(1));
    place.write("pairs", &[1, 9, 1, 2]);
    let pairs = ["verify", "pairs", "--record", "2", "--key", "0:1"];
    place.run(&pairs).ok();
    assert_eq!(place.run(&[&pairs[..], &["--ties"]].concat()).code, Some(1));
}

#[test]
fn a_pipe_is_verified_as_it_comes() {
    let place = TestDir::new();
    let bytes = sorted_u64(&random_u64(200_000, 127));
    let verify = ["verify", "-", "--type", "u64"];
    let answer = place.run_with_input(&verify, &bytes).ok();
    assert!(answer.stderr.contains("Records: 200000"), "{answer:?}");
    place
        .run_with_input(&verify, &bytes[..11])
        .fails(4, &["inside a record"], "");
    place
        .run_with_input(&["verify", "-"], &bytes)
        .fails(2, &["type"], "--type");
    place.write("more", &bytes);
    let both = ["verify", "-", "more", "--type", "u64"];
    place
        .run_with_input(&both, &bytes)
        .fails(2, &["stream"], "only the stream");
    assert_eq!(place.names(), ["more"]);
}

#[test]
fn what_cannot_be_verified_says_why() {
    let place = TestDir::new();
    place.write("odd", &[0; 10]);
    place
        .run(&["verify", "odd", "--type", "u64"])
        .fails(2, &["odd", "10 bytes"], "complete");
    place
        .run(&["verify", "missing", "--type", "u64"])
        .fails(3, &["missing"], "path");
    place.run(&["verify", "odd"]).fails(2, &["type", "odd"], "");
    place
        .run(&["verify", ".", "--type", "u64"])
        .fails(2, &["directory"], "");
}
