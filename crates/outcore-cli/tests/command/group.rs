//! Distinct values and records and how often each occurs: `count-by`, and `unique` on records.
//!
//! Contract: expected results come from ordered maps over the whole data.

use std::collections::BTreeMap;

use crate::support::*;

const COUNT: usize = 120_000;

fn counted<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeMap<T, u64> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    counts
}

/// Records of a value and its count.
fn records(counts: &BTreeMap<u64, u64>) -> Vec<u8> {
    let pairs = counts.iter().flat_map(|(value, count)| [*value, *count]);
    pairs.flat_map(u64::to_le_bytes).collect()
}

fn place_with_keys(below: u64) -> (TestDir, Vec<u64>) {
    let place = TestDir::new();
    let keys: Vec<u64> = random_u64(COUNT, 3)
        .chunks(8)
        .map(|record| u64_of(record) % below)
        .collect();
    let bytes = keys.iter().flat_map(|key| key.to_le_bytes());
    place.write("in", &bytes.collect::<Vec<u8>>());
    (place, keys)
}

#[test]
fn values_are_counted_as_text_and_as_records() {
    let (place, keys) = place_with_keys(1000);
    let u64s = ["in", "--type", "u64"];
    let run = |arguments: &[&str]| place.run(&[arguments, &u64s[..]].concat());
    let line = |(value, count): (i64, u64)| format!("{value}\t{count}\n");
    let expected: String = counted(keys.iter().map(|x| -((x % 7) as i64)))
        .into_iter()
        .map(line)
        .collect();
    assert_eq!(run(&["count-by", "-i64(x % 7)"]).ok().text(), expected);
    let some = counted(keys.iter().copied().filter(|x| x % 2 == 0));
    run(&["count-by", "x", "-o", "counts", "--where", "x % 2 == 0"]).ok();
    assert!(place.read("counts") == records(&some));
    run(&["count-by", "x % 10", "-o", "counts.npy"]).ok();
    let table = place.read("counts.npy");
    assert!(table.ends_with(&records(&counted(keys.iter().map(|x| x % 10)))));
    let header = String::from_utf8_lossy(&table[..128]).into_owned();
    assert!(
        header.contains("('value', '<u8'), ('count', '<u8')"),
        "{header}"
    );
    place
        .run(&[
            "sort",
            "counts.npy",
            "--key",
            "count:desc",
            "-o",
            "by-count.npy",
        ])
        .ok();
    let answer = run(&["count-by", "x % 2 == 0", "--json"]);
    let summary = answer.event("summary");
    let even = keys.iter().filter(|x| *x % 2 == 0).count();
    assert_eq!(summary["groups"][1]["count"], even);
    assert_eq!(
        (&summary["records"], &summary["by"]),
        (&2.into(), &"hash".into())
    );
    let piped = place.run_with_input(
        &["count-by", "x", "-", "--type", "u64", "-o", "-"],
        &place.read("in"),
    );
    assert!(piped.ok().stdout == records(&counted(keys)));
}

#[test]
fn more_values_than_tables_hold_are_counted_through_a_sort_and_the_plan_says_so() {
    let (place, keys) = place_with_keys(u64::MAX);
    let small = [
        "in",
        "--type",
        "u64",
        "--memory",
        "4MiB",
        "--threads",
        "1",
        "-o",
        "out",
    ];
    let run = |more: &[&str]| place.run(&[more, &small[..]].concat());
    let answer = run(&["count-by", "x", "--explain"]).ok();
    assert!(
        answer.stderr.contains("sorted, equal ones side by side"),
        "{}",
        answer.stderr
    );
    assert!(place.read("out") == records(&counted(keys.iter().copied())));
    let answer = run(&["count-by", "x % 100", "--explain", "--force"]).ok();
    assert!(answer.stderr.contains("by hash"), "{}", answer.stderr);
    let planned = run(&["count-by", "x", "--force", "--dry-run", "--json"]);
    let plan = planned.event("plan");
    assert_eq!((&plan["by"], &plan["passes"]), (&"sort".into(), &1.into()));
    assert!(plan["distinct"].as_u64() > plan["distinct_max"].as_u64());
    assert!(place.names() == ["in", "out"]);
}

#[test]
fn distinct_records_are_found_by_hash_where_there_are_few_and_whole_records_are_compared() {
    let (place, keys) = place_with_keys(50);
    let unique = ["unique", "in", "--type", "u64"];
    let run = |more: &[&str]| place.run(&[&unique[..], more].concat());
    let answer = run(&["-o", "out", "--explain"]).ok();
    assert!(answer.stderr.contains("by hash"), "{}", answer.stderr);
    let counts = counted(keys.iter().copied());
    let distinct: Vec<u8> = counts.keys().flat_map(|key| key.to_le_bytes()).collect();
    assert!(place.read("out") == distinct);
    assert!(run(&[]).ok().stdout == distinct, "to standard output");
    run(&["--count", "-o", "counts"]).ok();
    assert!(place.read("counts") == records(&counts));
    run(&["--descending", "-o", "down"]).ok();
    let down: Vec<u8> = counts
        .keys()
        .rev()
        .flat_map(|key| key.to_le_bytes())
        .collect();
    assert!(place.read("down") == down);
    // The result has one record per key: the first in the order of whole records.
    let by_key = [
        "unique", "in", "--record", "8", "--key", "0:1", "--force", "-o", "out",
    ];
    place.run(&by_key).ok();
    assert!(place.read("out") == distinct);
    place.run(&[&by_key[..], &["--count"]].concat()).fails(
        2,
        &["--count cannot be combined"],
        "count-by",
    );
    let drive = place.make_dir("d").display().to_string();
    run(&["-o", "out-{drive}", "--drive", &drive]).fails(2, &["one file"], "{drive}");
}

#[test]
fn a_typing_error_in_a_flag_is_no_expression() {
    let (place, _) = place_with_keys(50);
    let wrong = place.run(&["map", "--tpye", "u64", "in", "-o", "out"]);
    wrong.fails(2, &["--tpye"], "--help");
    for (expression, sum) in [("-x", -49), (" -x + 1", -48), ("-1 - x", -50)] {
        let least = place.run(&["reduce", "min", "in", "--type", "i64", "--map", expression]);
        assert_eq!(least.ok().text(), format!("{sum}\n"), "{expression}");
        let mapped = place.run(&[
            "map", expression, "in", "--type", "i64", "-o", "out", "--force",
        ]);
        mapped.ok();
        let least = place.run(&["reduce", "min", "out", "--type", "i64"]);
        assert_eq!(least.ok().text(), format!("{sum}\n"), "{expression}");
    }
}

#[test]
fn packed_records_are_refused_and_not_read_as_numbers() {
    let (place, _) = place_with_keys(50);
    for (name, magic) in [
        ("x.gz", &b"\x1f\x8b\x08"[..]),
        ("x.zst", b"\x28\xb5\x2f\xfd"),
    ] {
        place.write(name, &[magic, &[0; 13][..]].concat()[..16]);
        for command in [
            &["reduce", "sum"][..],
            &["sort", "-o", "out"],
            &["count-by", "x"],
        ] {
            let refused = place.run(&[command, &[name, "--type", "u64"]].concat());
            refused.fails(2, &["compressed", name], "decompress it");
        }
    }
    // The name is that of a compressed file, but the data are not compressed.
    place.write("plain.gz", &7_u64.to_le_bytes());
    let sum = place.run(&["reduce", "sum", "plain.gz", "--type", "u64"]);
    assert_eq!(sum.ok().text(), "7\n");
    for command in [&["sort"][..], &["map", "x"], &["unique"]] {
        let refused = place.run(&[command, &["in", "--type", "u64", "-o", "out.gz"]].concat());
        refused.fails(2, &["not compressed", "out.gz"], "without the ending");
    }
    assert!(!place.path("out").exists() && !place.path("out.gz").exists());
}

#[test]
fn groups_of_a_table_take_no_more_threads_than_the_memory_has_room_for() {
    let place = TestDir::in_memory();
    place
        .run(&["gen", "sales", "-n", "100000", "-o", "t.parquet"])
        .ok();
    for (memory, threads) in [("48MiB", "8"), ("32MiB", "4"), ("24MiB", "3")] {
        let words = "group-by t.parquet --by customer,product --agg count -o o.parquet --force";
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["--memory", memory, "--threads", threads, "--drive", "."]);
        place.run(&words).ok();
    }
}
