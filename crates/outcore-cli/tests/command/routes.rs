//! `split --splitters` and `split --random`: each item is in the part of its key, parts keep the
//! order of the input, and their totals add up to those that `verify` finds.
//!
//! Contract: all kinds of input are compared with naive oracles. A rejected command leaves nothing
//! behind.

use serde_json::Value;

use crate::support::*;
use crate::tables;

/// The last event of a run that succeeds.
fn summary(place: &TestDir, words: &str) -> Value {
    let words: Vec<&str> = words.split(' ').chain(["--json"]).collect();
    place.run(&words).ok().events().pop().unwrap()
}

fn checksum(event: &Value) -> u128 {
    u128::from_str_radix(event["checksum"].as_str().unwrap(), 16).unwrap()
}

/// Fails unless `verify` finds in each part the total that `split` has reported, and in the input
/// the sum of these totals.
fn check_totals(place: &TestDir, split: &Value, input: &str, how: &str) {
    let parts = split["parts"].as_array().unwrap();
    let (mut sum, mut items) = (0_u128, 0);
    for (number, part) in parts.iter().enumerate() {
        let found = verified(place, part.as_str().unwrap(), how);
        assert_eq!(found["records"], split["counts"][number]);
        let said = u128::from_str_radix(split["checksums"][number].as_str().unwrap(), 16).unwrap();
        assert_eq!(checksum(&found), said);
        sum = sum.wrapping_add(said);
        items += found["records"].as_u64().unwrap();
    }
    let whole = verified(place, input, how);
    assert_eq!(
        (sum, items),
        (checksum(&whole), whole["records"].as_u64().unwrap())
    );
}

/// The report of `verify`; files out of order are no failure here.
fn verified(place: &TestDir, path: &str, how: &str) -> Value {
    let words = format!("verify {path} {how} --json");
    let words: Vec<&str> = words.split_whitespace().collect();
    place.run(&words).events().pop().unwrap()
}

fn part(place: &TestDir, number: usize, suffix: &str) -> Vec<u8> {
    place.read(&format!("p-{number:02}{suffix}"))
}

#[test]
fn numbers_go_to_the_range_of_their_key_and_keep_their_order() {
    let place = TestDir::new();
    let numbers: Vec<u64> = random_u64(20_000, 4).chunks_exact(8).map(u64_of).collect();
    let numbers: Vec<u64> = numbers.into_iter().map(|number| number % 1000).collect();
    let bytes = |numbers: &[u64]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    };
    place.write("in", &bytes(&numbers));
    let splitters = [0_u64, 250, 250, 900];
    place.write("borders", &bytes(&splitters));
    let made = summary(
        &place,
        "split in --type u64 --splitters borders -o p-{part}",
    );
    for number in 0..=splitters.len() {
        let is_here =
            |value: &&u64| splitters.iter().filter(|one| *one <= *value).count() == number;
        let wanted: Vec<u64> = numbers.iter().filter(is_here).copied().collect();
        assert_eq!(part(&place, number, ""), bytes(&wanted));
    }
    assert_eq!(made["counts"][0], 0);
    check_totals(&place, &made, "in", "--type u64");
}

#[test]
fn lines_and_fields_of_json_lines_go_to_their_range() {
    let place = TestDir::new();
    let lines: Vec<String> = (0..3000)
        .map(|line| format!("{} x", line * 7919 % 1009))
        .collect();
    place.write("in.txt", (lines.join("\n") + "\n").as_bytes());
    place.write("borders.txt", b"4\n8\n");
    let made = summary(
        &place,
        "split in.txt --splitters borders.txt -o p-{part}.txt",
    );
    for (number, range) in [("", "4"), ("4", "8"), ("8", "~")].iter().enumerate() {
        let is_here = |line: &&String| (range.0..range.1).contains(&line.as_str());
        let wanted: Vec<&str> = lines.iter().filter(is_here).map(String::as_str).collect();
        assert_eq!(
            part(&place, number, ".txt"),
            (wanted.join("\n") + "\n").as_bytes()
        );
    }
    check_totals(&place, &made, "in.txt", "--lines");
    let rows: Vec<String> = (0..500)
        .map(|row| format!("{{\"a\":{}}}", row * 37 % 101))
        .collect();
    place.write("in.jsonl", (rows.join("\n") + "\n").as_bytes());
    place.write("borders.jsonl", b"{\"a\":9}\n{\"a\":50.5}\n");
    let made = summary(
        &place,
        "split in.jsonl --by .a --splitters borders.jsonl -o p-{part}.jsonl",
    );
    let counts = [0..9, 9..51, 51..101].map(|range| {
        let is_here = |row: &u64| range.contains(&(row * 37 % 101));
        (0..500).filter(is_here).count() as u64
    });
    assert_eq!(made["counts"], serde_json::json!(counts));
    check_totals(&place, &made, "in.jsonl", "--lines");
}

#[test]
fn rows_go_to_the_range_of_their_columns_nulls_last() {
    let place = TestDir::new();
    tables::write(&place.path("t.parquet"), &tables::batch(4000));
    place.write("borders.csv", b"name,number\nb,0\nb,2000\nc,\n");
    place
        .run(&["convert", "borders.csv", "-o", "borders.parquet"])
        .ok();
    let made = summary(
        &place,
        "split t.parquet --by name,number --splitters borders.parquet -o p-{part}.parquet",
    );
    let rows = tables::read(&place.path("t.parquet"));
    // Nulls come last: null names, and the null number in the last splitter.
    let part_of = |(name, number): &(Option<String>, i64)| match name.as_deref() {
        Some("a") => 0,
        Some("b") if *number < 2000 => 1,
        Some("b" | "c") => 2,
        _ => 3,
    };
    for number in 0..4 {
        let wanted: Vec<_> = rows
            .iter()
            .filter(|row| part_of(row) == number)
            .cloned()
            .collect();
        let found = tables::read(&place.path(&format!("p-{number:02}.parquet")));
        assert_eq!(found, wanted, "part {number}");
    }
    check_totals(&place, &made, "t.parquet", "");
}

#[test]
fn random_parts_of_every_kind_depend_on_the_seed_alone() {
    let place = TestDir::new();
    place.write("in.bin", &random_u64(3000, 4));
    place.write("in.txt", &b"a line\n".repeat(3000));
    tables::write(&place.path("in.parquet"), &tables::batch(3000));
    for (suffix, how, check) in [
        (".bin", "--type u64", "--type u64"),
        (".txt", "", "--lines"),
        (".parquet", "", ""),
    ] {
        let split = |seed: u64, more: &str| {
            let words = format!("split in{suffix} {how} -n 3 --random --seed {seed} {more}");
            let words = format!("{words} -o p-{{part}}{suffix} --force");
            let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
            summary(&place, &words)
        };
        let made = split(5, "");
        check_totals(&place, &made, &format!("in{suffix}"), check);
        let counts = made["counts"].as_array().unwrap();
        let is_fair = |count: &Value| (800..1200).contains(&count.as_u64().unwrap());
        assert!(counts.iter().all(is_fair), "{counts:?}");
        assert_eq!(
            split(5, "--threads 1 --memory 64MiB")["checksums"],
            made["checksums"]
        );
        assert_ne!(split(6, "")["counts"], made["counts"]);
    }
}

#[test]
fn wrong_splitters_are_rejected_and_leave_nothing() {
    let place = TestDir::new();
    place.write("in", &random_u64(100, 4));
    place.write("falling", &[9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    place.write("odd", &[0; 9]);
    place.write("in.jsonl", b"{\"a\":1}\n{\"b\":1}\n");
    place.write("borders.jsonl", b"{\"a\":1}\n");
    tables::write(&place.path("t.parquet"), &tables::batch(40));
    for (words, says) in [
        ("in --type u64 --splitters falling", "sort the splitters"),
        ("in --type u64 --splitters odd", "odd"),
        ("in --type u64 --splitters absent", "absent"),
        (
            "in.jsonl --by .a --splitters borders.jsonl",
            "line 2 has no key",
        ),
        ("t.parquet --splitters t.parquet", "--by"),
        (
            "t.parquet --by number --splitters t.parquet",
            "sort the splitters",
        ),
        ("in --type u64 --splitters falling -n 3", "--parts"),
        ("in --type u64 --random --by-lines 3", "--by-lines"),
        (
            "t.parquet --random -n 99 --memory 64MiB",
            "allow --memory 896MiB",
        ),
    ] {
        let before = place.names();
        let words = format!("split {words} -o p-{{part}}.parquet");
        let words = match words.contains("t.parquet --") {
            true => words,
            false => words.replace(".parquet", ""),
        };
        let answer = place.run(&words.split(' ').collect::<Vec<_>>());
        assert_ne!(answer.code, Some(0), "{words}");
        assert!(answer.stderr.contains(says), "{words}: {}", answer.stderr);
        assert_eq!(place.names(), before);
    }
}

#[test]
fn verify_finds_lines_out_of_order_and_other_lines() {
    let place = TestDir::new();
    place.write("in", b"b\na\na\n");
    place.write("same", b"a\na\nb");
    place.write("other", b"a\nb\nb\n");
    let found = verified(&place, "in", "--lines");
    assert_eq!(found["first_unordered"], 1);
    assert_eq!(found["ok"], false);
    let found = verified(&place, "same", "--lines --against in");
    assert_eq!(
        (&found["ok"], &found["duplicate_keys"]),
        (&true.into(), &1.into())
    );
    assert_eq!(verified(&place, "same", "--lines --unique")["ok"], false);
    assert_eq!(verified(&place, "in", "--lines --descending")["ok"], true);
    let answer = place.run(&["verify", "--lines", "same", "--against", "other"]);
    assert_eq!(answer.code, Some(1));
}
