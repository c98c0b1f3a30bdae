//! Lookups of keys in sorted files and views, and gathers of the records at positions.
//!
//! Contract: expected ranks and records come from searches over the whole data.

use crate::sequence::{bytes, place_with_keys};
use crate::support::*;

#[test]
fn ranks_of_keys_are_found_and_gather_the_records() {
    let (place, keys) = place_with_keys();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    place.write("sorted", &bytes(sorted.clone()));
    let wanted: Vec<u64> = keys.iter().copied().step_by(97).collect();
    place.write("wanted", &bytes(wanted.clone()));
    for (side, is_right) in [("left", false), ("right", true)] {
        let lookup = [
            "lookup", "sorted", "--keys", "wanted", "-o", "ranks", "--side", side,
        ];
        place
            .run(&[&lookup[..], &["--type", "u64", "--force"]].concat())
            .ok();
        let rank = |key: &u64| sorted.partition_point(|x| x < key || is_right && x == key) as u64;
        assert!(
            place.read("ranks") == bytes(wanted.iter().map(rank)),
            "{side}"
        );
        let index = [
            "--type",
            "u64",
            "--force",
            "--index",
            "sorted.index",
            "--json",
        ];
        let done = place
            .run(&[&lookup[..], &index].concat())
            .ok()
            .event("summary");
        assert!(
            place.read("ranks") == bytes(wanted.iter().map(rank)),
            "{side}"
        );
        // The first lookup makes the index, and the second reads it: at most one block per key, and
        // the index.
        let read = done["read_bytes"].as_u64().unwrap();
        let most = (wanted.len() as u64 + 2) * 4096 + place.read("sorted.index").len() as u64;
        assert!(!is_right || read <= most, "{read} of {most}");
    }
    let lookup = [
        "lookup",
        "sorted",
        "--keys",
        "wanted",
        "-o",
        "ranks.npy",
        "--type",
        "u64",
    ];
    place.run(&lookup).ok();
    let gather = [
        "gather",
        "sorted",
        "--at",
        "ranks.npy",
        "-o",
        "found",
        "--type",
        "u64",
    ];
    place.run(&gather).ok();
    assert!(place.read("found") == bytes(wanted));
    let turned = [
        "lookup", "in", "--keys", "wanted", "-o", "x", "--type", "u64",
    ];
    place
        .run(&turned)
        .fails(2, &["ascending", "in"], "sort the file");
    let other = [
        "lookup",
        "sorted",
        "--keys",
        "ranks.npy",
        "-o",
        "x",
        "--type",
        "f32",
    ];
    place.run(&other).fails(2, &["ranks.npy"], "");
    let some = [
        "lookup", "sorted", "--keys", "wanted", "-o", "x", "--where", "x > 1",
    ];
    place
        .run(&[&some[..], &["--type", "u64"]].concat())
        .fails(2, &["--where"], "filter");
    assert!(!place.path("x").exists());
}

#[test]
fn keys_and_what_they_find_may_exceed_the_memory() {
    const KEYS: u64 = 200_000;
    let place = TestDir::new();
    // Each of these keys occurs three times; every second key does not occur.
    let sorted: Vec<u64> = (0..3 * KEYS).map(|at| at / 3 * 2).collect();
    place.write("sorted", &bytes(sorted.clone()));
    let wanted: Vec<u64> = (0..KEYS).map(|at| at * 7919 % KEYS * 2 + at % 2).collect();
    place.write("wanted", &bytes(wanted.clone()));
    let run = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        place.run(
            &[
                &words[..],
                &["--type", "u64", "--memory", "4MiB", "--threads", "2"],
            ]
            .concat(),
        )
    };
    let told = run("lookup sorted --keys wanted -o ranks.npy --json").ok();
    assert!(told.event("summary")["passes"].as_u64().unwrap() > 1);
    assert_eq!(told.event("summary")["records"], KEYS);
    let ranks = wanted.iter().map(|key| key.div_ceil(2) * 3);
    let made = place.read("ranks.npy");
    assert!(String::from_utf8_lossy(&made).contains("(200000,)"));
    assert!(made[made.len() % 64..].ends_with(&bytes(ranks)));
    let found = wanted.iter().filter(|key| **key % 2 == 0);
    let found = bytes(found.flat_map(|key| [*key; 3]));
    run("lookup sorted --keys wanted -o found --values").ok();
    assert!(place.read("found") == found);
    run("lookup sorted --keys wanted -o by-index --values --index i").ok();
    assert!(place.read("by-index") == found);
    // A few keys may also find many records.
    place.write("equal", &bytes(vec![5; 600_000]));
    place.write("one", &bytes([5]));
    run("lookup equal --keys one -o all --values").ok();
    assert!(place.read("all") == place.read("equal"));
    // Only a few large records are gathered at a time.
    place.write("large", &vec![7; 2_000 * 4_096]);
    place.write("its-key", &vec![7; 4_096]);
    let large =
        "lookup large --keys its-key -o larges --values --record 4096 --key 0:4 --memory 8MiB";
    place.run(&large.split(' ').collect::<Vec<_>>()).ok();
    assert!(place.read("larges") == place.read("large"));
    let cause = "600,000 results of 8 B each are more than the memory holds";
    run("lookup equal --keys one -o - --values").fails(6, &[cause], "one regular file");
}

#[test]
fn more_positions_than_the_memory_holds_are_gathered_in_their_order() {
    let place = TestDir::new();
    let count = 300_000_u64;
    let records: Vec<u64> = (0..count).map(|at| at * 7_907 % 1_000_003).collect();
    place.write("in", &bytes(records.clone()));
    // Each record in an arbitrary order, and one record repeatedly.
    let at = (0..2 * count).map(|place| match place % 5 {
        0 => 7,
        _ => place * 7_919 % count,
    });
    let at: Vec<u64> = at.collect();
    place.write("at", &bytes(at.clone()));
    let expected = bytes(at.iter().map(|position| records[*position as usize]));
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    for memory in ["16MiB", "256MiB"] {
        let line =
            format!("gather in --at at -o {memory} --type u64 --memory {memory} --threads 2");
        run(&line).ok();
        assert!(place.read(memory) == expected, "{memory}");
    }
    // An error names the place of a wrong position in the whole list.
    let mut wrong = at;
    wrong[400_000] = count;
    place.write("wrong", &bytes(wrong));
    let cause = "position 300000, entry 400000 of the positions";
    run("gather in --at wrong -o x --type u64 --memory 16MiB").fails(
        2,
        &[cause],
        "300,000 records",
    );
    assert!(
        place
            .names()
            .iter()
            .all(|name| !name.starts_with('.') && name != "x")
    );
}

#[test]
fn positions_of_any_integer_type_are_gathered() {
    let (place, keys) = place_with_keys();
    let at = [5_u64, 0, 127, 5];
    let expected = bytes(at.iter().map(|position| keys[*position as usize]));
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    for (name, code, width) in [
        ("u8", "|u1", 1),
        ("i8", "|i1", 1),
        ("u16", "<u2", 2),
        ("i16", "<i2", 2),
        ("u32", "<u4", 4),
        ("i32", "<i4", 4),
        ("u64", "<u8", 8),
        ("i64", "<i8", 8),
    ] {
        let raw: Vec<u8> = at
            .iter()
            .flat_map(|at| at.to_le_bytes()[..width].to_vec())
            .collect();
        place.write("at", &raw);
        run(&format!(
            "gather in --at at --at-type {name} -o {name} --type u64"
        ))
        .ok();
        assert!(place.read(name) == expected, "{name}");
        place.write("at.npy", &npy_of(code, at.len(), &raw));
        run(&format!(
            "gather in --at at.npy -o {name} --force --type u64"
        ))
        .ok();
        assert!(place.read(name) == expected, "{code}");
    }
    place.write(
        "at.npy",
        &npy_of(
            "<i8",
            2,
            &[1_i64.to_le_bytes(), (-1_i64).to_le_bytes()].concat(),
        ),
    );
    let cause = "position -1, which is entry 1, is negative";
    run("gather in --at at.npy -o x --type u64").fails(2, &[cause], "count from 0");
    place.write("at.npy", &npy_of("<f8", 1, &1.0_f64.to_le_bytes()));
    run("gather in --at at.npy -o x --type u64").fails(2, &["type f64"], "integers");
}

/// An array of one dimension.
fn npy_of(code: &str, count: usize, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({count},), }}");
    let text = format!("{text:<117}\n");
    [&b"\x93NUMPY\x01\x00\x76\x00"[..], text.as_bytes(), data].concat()
}

#[test]
fn lines_and_views_are_looked_up_and_what_is_found_may_be_written() {
    let place = TestDir::new();
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    let mut words: Vec<String> = (0..9_000u32)
        .map(|n| format!("{:x}", n * 7919 % 6007))
        .collect();
    words.sort();
    place.write("sorted.txt", words.join("\n").as_bytes());
    let keys = ["0", "zzz", "1a", "", "1a", "9ff", "1776"];
    place.write("keys.txt", keys.join("\n").as_bytes());
    let ranks = |is_before: &dyn Fn(&str, &str) -> bool| {
        let rank = |key: &&str| words.iter().filter(|word| is_before(word, key)).count() as u64;
        keys.iter()
            .map(rank)
            .flat_map(u64::to_le_bytes)
            .collect::<Vec<u8>>()
    };
    run("lookup --lines sorted.txt --keys keys.txt -o left.bin").ok();
    assert_eq!(place.read("left.bin"), ranks(&|word, key| word < key));
    run("lookup --lines sorted.txt --keys keys.txt -o right.bin --side right").ok();
    assert_eq!(place.read("right.bin"), ranks(&|word, key| word <= key));
    let found = run("lookup --lines sorted.txt --keys keys.txt --values -o -").ok();
    let wanted = keys
        .iter()
        .flat_map(|key| words.iter().filter(move |word| word == key));
    let wanted: String = wanted.map(|word| format!("{word}\n")).collect();
    assert_eq!(found.text(), wanted);
    run("view build --lines sorted.txt -o words.view").ok();
    let told = run("lookup words.view --keys keys.txt -o of-view.npy --json").ok();
    assert_eq!(told.event("summary")["records"], keys.len());
    assert!(place.read("of-view.npy").ends_with(&place.read("left.bin")));
    let found = run("lookup words.view --keys keys.txt --values -o -").ok();
    assert_eq!(found.text(), wanted);
    run("lookup words.view --keys keys.txt --values -o x.npy").fails(2, &["NumPy"], "name");
    run("lookup words.view --keys keys.txt -o x --type u64").fails(2, &["--type"], "view");
    run("lookup --lines sorted.txt --keys keys.txt -o x --index i").fails(2, &["--index"], "view");
    place.write(
        "wild.txt",
        &[b"b\n".repeat(20_000), b"a\n".repeat(20_000)].concat(),
    );
    run("lookup --lines wild.txt --keys keys.txt -o x").fails(
        2,
        &["wild.txt", "ascending"],
        "sort",
    );
    // A lookup by key finds all records with the key.
    let records: Vec<[u8; 8]> = (0..5_000u32)
        .map(|n| (u64::from(n / 3) << 32 | u64::from(n)).to_le_bytes())
        .collect();
    place.write("r.bin", &records.concat());
    let wanted = [7_u32, 9_999, 0].map(|key| (u64::from(key) << 32).to_le_bytes());
    place.write("wanted.bin", &wanted.concat());
    run("lookup r.bin --keys wanted.bin --values -o found.bin --record 8 --key 4:4:u32").ok();
    assert_eq!(
        place.read("found.bin"),
        [&records[21..24], &records[0..3]].concat().concat()
    );
    // A view of several runs gives the same records, also as an array.
    run("view build r.bin -o r.view --record 8 --key 4:4:u32").ok();
    place.write("more.bin", &[records[22], records[4]].concat());
    run("view append r.view more.bin").ok();
    run("lookup r.view --keys wanted.bin --values -o of-view.bin").ok();
    let twice = [21, 22, 22, 23, 0, 1, 2].map(|at: usize| records[at]);
    assert_eq!(place.read("of-view.bin"), twice.concat());
    run("lookup r.view --keys wanted.bin --values -o x.csv").fails(2, &[".csv"], ".bin");
    assert!(!place.path("x").exists() && !place.path("x.npy").exists());
}
