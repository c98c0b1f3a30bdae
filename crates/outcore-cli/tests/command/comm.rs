//! `comm` of lines, compared with GNU `comm` on sorted files, and of tables, as multisets.
//!
//! Contract: without GNU sort and comm the comparisons are skipped visibly.

use crate::support::*;

/// The output of GNU comm for both files, which are sorted first.
fn of_sorted(place: &TestDir, options: &str) -> Vec<u8> {
    let z = if options.contains('z') { "-z" } else { "" };
    let line = format!(
        "sort {z} a > sorted-a && sort {z} b > sorted-b && comm {options} sorted-a sorted-b"
    );
    by_gnu(place, &line)
}

fn run(place: &TestDir, words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split_whitespace().collect();
    place.run(&words).ok().stdout
}

/// A random choice among a few lines, some of them empty or long. The last line has no terminator.
fn random_lines(seed: u64, count: usize, end: u8) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let lines: Vec<Vec<u8>> = (0..count)
        .map(|_| match numbers.next() % 90 {
            0 => Vec::new(),
            1 => vec![b'y'; 70_000],
            number @ 2..6 => [&b"\t\xff\0"[..], &[number as u8 + b'a']].concat(),
            number => format!("line {number}").into_bytes(),
        })
        .collect();
    let mut text = lines.join(&end);
    if end == 0 {
        text.iter_mut()
            .filter(|byte| **byte == b'\xff')
            .for_each(|byte| *byte = b'\n');
    }
    text
}

#[test]
fn lines_of_both_sides_are_those_of_gnu_comm() {
    if !has_gnu(&["sort", "comm"]) {
        return;
    }
    let place = TestDir::in_memory();
    for (end, letters) in [(b'\n', ""), (0, "-z")] {
        place.write("a", &random_lines(1, 300, end));
        place.write("b", &random_lines(2, 200, end));
        for options in [
            "",
            "-1",
            "-2",
            "-3",
            "-12",
            "-23",
            "-13",
            "-123",
            "--total",
            "-13 --total",
        ] {
            let options = format!("{options} {letters}");
            let wanted = of_sorted(&place, &options);
            let ours = run(&place, &format!("comm --lines {options} a b"));
            assert!(ours == wanted, "{options}");
        }
    }
    place.write("b", b"");
    assert_eq!(run(&place, "comm --lines -z -12 a b"), b"");
    assert_eq!(run(&place, "comm --total b b"), b"0\t0\t0\ttotal\n");
}

#[test]
fn inputs_larger_than_memory_are_compared_however_often_a_line_comes() {
    if !has_gnu(&["sort", "comm"]) {
        return;
    }
    let place = TestDir::in_memory();
    let text = |seed| {
        let mut numbers = Numbers(seed);
        let mut text = Vec::new();
        for _ in 0..40_000 {
            match numbers.next() % 4 {
                0 => text.extend_from_slice(b"the same line in both inputs\n"),
                1 => text.extend_from_slice(format!("{}\n", numbers.next() % 5_000).as_bytes()),
                _ => {
                    let number = numbers.next() % 60_000;
                    text.extend_from_slice(
                        format!("{number} is one of many {number:0150}\n").as_bytes(),
                    );
                }
            }
        }
        text
    };
    place.write("a", &text(3));
    place.write("b", &text(4));
    for options in ["", "-3", "-12", "-23 --total"] {
        let wanted = of_sorted(&place, options);
        run(
            &place,
            &format!("comm {options} a b -o out --force --memory 5MiB"),
        );
        assert!(place.read("out") == wanted, "{options}");
    }
    let words = [
        "comm", "a", "b", "-o", "out", "--force", "--memory", "5MiB", "--json",
    ];
    let done = place.run(&words).ok().event("summary");
    let count = |name: &str| done[name].as_u64().unwrap();
    assert_eq!(count("first") + count("second") + 2 * count("both"), 80_000);
    assert!(done["scratch_bytes"].as_u64().unwrap() > 0, "{done}");
}

#[test]
fn rows_of_tables_are_compared_as_multisets_and_null_is_equal_to_null() {
    let place = TestDir::in_memory();
    place.write("a.csv", b"id,name\n1,x\n1,x\n1,x\n2,\n2,\n3,z\n");
    place.write("b.csv", b"id,name\n1,x\n2,\n1,x\n4,w\n4,w\n3,other\n");
    let found = |words: &str| {
        run(
            &place,
            &format!("comm {words} a.csv b.csv -o out.csv --force"),
        );
        String::from_utf8(place.read("out.csv")).unwrap()
    };
    assert_eq!(found("-12"), "id,name\n1,x\n1,x\n2,\n");
    assert_eq!(found("-23"), "id,name\n1,x\n2,\n3,z\n");
    assert_eq!(found("-13"), "id,name\n3,other\n4,w\n4,w\n");
    assert_eq!(found("-12 --by id"), "id,name\n1,x\n1,x\n2,\n3,z\n");
    assert_eq!(found("-13 --by id"), "id,name\n4,w\n4,w\n");
}

#[test]
fn what_comm_cannot_do_is_an_error_with_the_way_out() {
    let place = TestDir::in_memory();
    place.write("a.csv", b"id,name\n1,x\n");
    place.write("b.csv", b"id,other\n1,x\n");
    place.write("n", &random_u64(4, 1));
    let both = ["comm", "a.csv", "b.csv", "-o", "out.csv"];
    place
        .run(&both)
        .fails(2, &["one of the three columns"], "--not-right");
    let columns = ["comm", "-12", "a.csv", "b.csv", "-o", "out.csv"];
    place
        .run(&columns)
        .fails(2, &["column `name`"], "key columns");
    let records = ["comm", "n.npy", "n.npy"];
    place
        .run(&["map", "x", "n", "--type", "u64", "-o", "n.npy"])
        .ok();
    place
        .run(&records)
        .fails(2, &["records", "one of the three columns"], "--not-right");
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn inputs_of_two_kinds_are_an_error_in_both_orders() {
    let place = TestDir::in_memory();
    place.write("l.txt", b"id\n1\n");
    place.write("t.csv", b"id\n1\n");
    place.run(&words("convert t.csv -o t.parquet")).ok();
    for (one, other, hint) in [
        ("l.txt", "t.csv", "--lines"),
        ("l.txt", "t.parquet", "outcore convert FILE -o OUT.csv"),
    ] {
        for (left, right) in [(one, other), (other, one)] {
            let answer = place.run(&["comm", "-12", left, right]);
            answer.fails(2, &["inputs of one kind", left, right], hint);
        }
    }
    assert_eq!(run(&place, "comm -12 --lines l.txt t.csv"), b"1\nid\n");
    assert_eq!(run(&place, "comm -12 t.parquet t.csv"), b"id\n1\n");
    let absent = place.run(&["comm", "-12", "l.txt", "none.csv"]);
    absent.fails(3, &["none.csv"], "");
}

#[test]
fn a_table_without_rows_is_compared_as_one_of_the_same_types() {
    let place = TestDir::in_memory();
    place.write("t.csv", b"id,n\n1,a\n2,b\n");
    place.write("none.csv", b"id,n\n");
    place.write(
        "t.jsonl",
        b"{\"id\":1,\"n\":\"a\"}\n{\"id\":2,\"n\":\"b\"}\n",
    );
    place.write("none.jsonl", b"");
    place.run(&words("convert t.csv -o t.parquet")).ok();
    place
        .run(&words("head -n 0 t.parquet -o none.parquet"))
        .ok();
    for end in ["csv", "jsonl", "parquet"] {
        for none_end in ["csv", "jsonl", "parquet"] {
            let (all, none) = (format!("t.{end}"), format!("none.{none_end}"));
            let rows = |line: &str| {
                let line = line.replace("ALL", &all).replace("NONE", &none);
                let printed = run(&place, &format!("{line} --to jsonl"));
                assert!(
                    printed.is_empty() || printed == place.read("t.jsonl"),
                    "{line}"
                );
                printed.iter().filter(|byte| **byte == b'\n').count()
            };
            assert_eq!(rows("comm -23 ALL NONE"), 2, "{all} {none}");
            assert_eq!(rows("comm -12 ALL NONE"), 0, "{all} {none}");
            assert_eq!(rows("comm -13 NONE ALL"), 2, "{all} {none}");
            assert_eq!(rows("join ALL NONE --on id --how anti"), 2, "{all} {none}");
            let diff = place.run(&["diff", &none, &all, "--by", "id", "--json"]);
            assert_eq!(diff.code, Some(1), "{all} {none}: {diff:?}");
        }
    }
    run(&place, "comm -12 none.csv none.parquet");
    place.write("empty.csv", b"");
    let empty = place.run(&["comm", "-12", "t.csv", "empty.csv"]);
    empty.fails(4, &["empty.csv", "is empty"], "header");
    let nothing = place.run(&["comm", "-12", "none.jsonl", "none.jsonl"]);
    nothing.fails(2, &["neither table has a column"], "header");
}

#[test]
fn hints_of_comm_name_only_what_it_has() {
    let place = TestDir::in_memory();
    place.write("t.csv", b"id\n1\n");
    place.run(&words("convert t.csv -o t.parquet")).ok();
    place
        .run(&words("comm -12 t.parquet t.csv -o t.parquet --force"))
        .fails(2, &["it is an input"], "`outcore sort --replace`");
    place
        .run(&words("comm -12 t.csv t.csv --parts 2 -o d"))
        .fails(2, &["--parts cannot be used"], "`outcore convert`");
    place
        .run(&words("comm -12 t.csv t.csv --by id:desc"))
        .fails(2, &["no column `id:desc`"], "write `id` alone");
}

#[test]
fn the_memory_that_is_named_is_enough_for_equal_long_lines() {
    let place = TestDir::new();
    let lines: String = (0..4)
        .map(|line| format!("{line}{}\n", "x".repeat(3 << 20)))
        .collect();
    place.write("a", lines.as_bytes());
    let mut memory = "1MiB".to_owned();
    for attempt in 0..2 {
        let words = [
            "comm", "-12", "a", "a", "-o", "both", "--force", "--memory", &memory,
        ];
        let answer = place.run(&words);
        if attempt == 1 {
            answer.ok();
        } else {
            let text = answer.fails(6, &["memory"], "--memory").stderr;
            let named = text.rsplit("--memory ").next().unwrap();
            memory = named.split_whitespace().next().unwrap().to_owned();
        }
    }
    assert!(place.read("both") == lines.as_bytes());
}

#[test]
fn records_of_one_column_are_those_of_a_naive_comparison() {
    let place = TestDir::new();
    let mut numbers = Numbers(7);
    let mut some = |count: usize| -> Vec<u32> {
        (0..count)
            .map(|_| (numbers.next() % 20_000) as u32)
            .collect()
    };
    let sides = [some(40_000), some(30_000)];
    let bytes = |side: &[u32]| -> Vec<u8> { side.iter().flat_map(|n| n.to_le_bytes()).collect() };
    place.write("a", &bytes(&sides[0]));
    place.write("b", &bytes(&sides[1]));
    let mut wanted = [vec![], vec![], vec![]];
    for number in 0..20_000 {
        let [left, right] = [&sides[0], &sides[1]]
            .map(|side| side.iter().filter(|other| **other == number).count());
        let both = left.min(right);
        for (column, count) in [(0, left - both), (1, right - both), (2, both)] {
            wanted[column].extend(std::iter::repeat_n(number, count));
        }
    }
    for (column, letters) in ["-23", "-13", "-12"].iter().enumerate() {
        let line = format!("comm {letters} a b --type u32");
        assert!(run(&place, &line) == bytes(&wanted[column]), "{letters}");
        let small = format!("{line} -o out --force --memory 8MiB --json");
        let answer = place.run(&words(&small)).ok();
        assert!(place.read("out") == bytes(&wanted[column]), "{letters}");
        assert_eq!(answer.event("summary")["both"], wanted[2].len());
    }
    run(&place, "map x a --type u32 -o a.npy");
    run(&place, "map x b --type u32 -o b.npy");
    run(&place, "comm -12 a.npy b.npy -o both.npy");
    assert!(run(&place, "map x both.npy") == bytes(&wanted[2]));
    // Records are matched by the first two of their four bytes.
    let by_part = run(&place, "comm -12 a b --record 4 --key 0:2:u16");
    assert!(by_part.len() >= bytes(&wanted[2]).len());
    place.run(&words("comm a b --type u32")).fails(
        2,
        &["one of the three columns can be written for records"],
        "--not-right",
    );
    place.run(&words("comm -12 a.npy b --type u64")).fails(
        2,
        &["its header says u32, not u64"],
        "--type",
    );
    place
        .run(&words("comm -12 a b --type u32 --scratch-limit 100KiB"))
        .fails(5, &["both inputs take"], "--scratch-limit");
    place.write("odd", b"abc");
    place
        .run(&words("comm -12 a odd --type u32"))
        .fails(2, &["3 bytes left over (odd)"], "");
    place.write("l.txt", b"x\n");
    place
        .run(&words("comm -12 a.npy l.txt"))
        .fails(2, &["inputs of one kind"], "");
    let names = place.names();
    assert!(
        !names.iter().any(|name| name.starts_with(".outcore")),
        "{names:?}"
    );
}
