//! `unique` with the options of GNU `uniq`, compared with `sort | uniq` on random lines.
//!
//! Contract: without the GNU tools the comparisons are skipped visibly.

use crate::support::*;

/// Lines of few words with blanks, some of them long or empty, and no terminator at the end.
fn random_lines(seed: u64, count: usize, end: u8) -> Vec<u8> {
    const WORDS: [&[u8]; 9] = [
        b"", b"a", b"A", b"b\0", b"\tb", b" ", b"\xff", b"word", b"Word",
    ];
    let mut random = Numbers(seed);
    let mut text = Vec::new();
    for line in 0..count {
        if line > 0 {
            text.push(end);
        }
        for _ in 0..random.next() % 4 {
            text.extend_from_slice(WORDS[(random.next() % 9) as usize]);
            text.push(b' ');
        }
        if random.next().is_multiple_of(50) {
            text.resize(text.len() + 5000 + (random.next() % 2) as usize, b'x');
        }
    }
    text
}

#[test]
fn the_options_of_uniq_give_what_sort_and_uniq_give() {
    if !has_gnu(&["sort", "uniq"]) {
        return;
    }
    // The options of outcore, the keys for sort, and the options for uniq.
    let cases = [
        ("", "", ""),
        ("-c", "", "-c"),
        ("-d", "", "-d"),
        ("-u", "", "-u"),
        ("-D", "", "-D"),
        ("-dc", "", "-dc"),
        ("-uc", "", "-uc"),
        ("-i", "-fs", "-i"),
        ("-icd", "-fs", "-icd"),
        ("-iD", "-fs", "-iD"),
        ("-f1", "-sk2", "-f1"),
        ("-f2 -u", "-sk3", "-f2 -u"),
        ("-f1 -D", "-sk2", "-f1 -D"),
        ("-s2", "-sk1.3", "-s2"),
        ("-f1 -s1 -d", "-sk2.2", "-f1 -s1 -d"),
        ("-w2", "-sk1.1,1.2 -t\u{1}", "-w2"),
        ("-w3 -D -i", "-fsk1.1,1.3 -t\u{1}", "-w3 -D -i"),
    ];
    for (seed, letters) in [(1, ""), (2, "-z")] {
        let place = TestDir::in_memory();
        let end = if letters.is_empty() { b'\n' } else { 0 };
        place.write("in", &random_lines(seed, 700, end));
        for (options, sort, uniq) in cases {
            let pipeline = format!("sort {letters} {sort} in | uniq {letters} {uniq}");
            let words = format!("unique in --lines {letters} {options}");
            let words: Vec<&str> = words.split_whitespace().collect();
            let ours = place.run(&words).ok().stdout;
            let wanted = by_gnu(&place, &pipeline);
            assert!(ours == wanted, "{words:?}: {}", pipeline);
        }
    }
}

#[test]
fn a_key_of_more_lines_than_memory_holds_is_repeated_and_counted() {
    if !has_gnu(&["sort", "uniq"]) {
        return;
    }
    let place = TestDir::in_memory();
    let mut text = Vec::new();
    let mut random = Numbers(7);
    for line in 0..60_000_u32 {
        match random.next() % 8 {
            0 => {
                text.extend_from_slice(format!("{line} few {}\n", random.next() % 9000).as_bytes())
            }
            1 => text.extend_from_slice(b"the same line\n"),
            _ => text.extend_from_slice(
                format!("{line} most of them, again and again, {:0200}\n", 0).as_bytes(),
            ),
        }
    }
    place.write("in", &text);
    for (options, sort) in [
        ("-d", ""),
        ("-u", ""),
        ("-D", ""),
        ("-d -f1", "-sk2"),
        ("-u -f1", "-sk2"),
        ("-D -f1", "-sk2"),
        ("-dc -f1", "-sk2"),
    ] {
        let words = format!("unique in -o out --force --memory 5MiB {options}");
        let words: Vec<&str> = words.split_whitespace().collect();
        place.run(&words).ok();
        let wanted = by_gnu(&place, &format!("sort {sort} in | uniq {options}"));
        assert!(place.read("out") == wanted, "{words:?}");
    }
}

#[test]
fn records_are_kept_by_how_often_they_occur() {
    let place = TestDir::in_memory();
    let numbers = [5_u64, 3, 5, 9, 3, 5, 1];
    let bytes = |numbers: &[u64]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    };
    place.write("in", &bytes(&numbers));
    let run = |options: &str| {
        let words = format!("unique in --type u64 -o out --force {options}");
        let words: Vec<&str> = words.split_whitespace().collect();
        place.run(&words).ok();
        place.read("out")
    };
    assert_eq!(run("-d"), bytes(&[3, 5]));
    assert_eq!(run("-u"), bytes(&[1, 9]));
    assert_eq!(run("-dc"), bytes(&[3, 2, 5, 3]));
}

#[test]
fn options_of_uniq_that_do_not_go_together_are_rejected_by_name() {
    let place = TestDir::in_memory();
    place.write("in", b"a\n");
    for (words, names) in [
        ("-d -u", ["--repeated", "--unique"]),
        ("-D -c", ["--all-repeated", "--count"]),
        ("-f1 -k2", ["--skip-fields", "-k"]),
        ("-w1 -n", ["--check-chars", "key"]),
    ] {
        let words = format!("unique in {words}");
        let words: Vec<&str> = words.split_whitespace().collect();
        let answer = place.run(&words);
        assert_eq!(answer.code, Some(2), "{words:?}");
        assert!(
            names.iter().all(|name| answer.stderr.contains(name)),
            "{}",
            answer.stderr
        );
    }
}

#[test]
fn the_first_of_each_line_is_kept_in_the_order_of_the_input() {
    let place = TestDir::in_memory();
    let mut numbers = Numbers(11);
    let lines: Vec<Vec<u8>> = (0..50_000)
        .map(|_| match numbers.next() % 40 {
            0 => Vec::new(),
            1 => b"again and again".to_vec(),
            2 => vec![b'z'; 5_000],
            3..20 => format!("{} some\0", numbers.next() % 3_000).into_bytes(),
            _ => format!("{} of many {:0100}", numbers.next() % 90_000, 0).into_bytes(),
        })
        .collect();
    place.write("in", &lines.join(&b'\n'));
    let mut counts = std::collections::HashMap::new();
    lines
        .iter()
        .for_each(|line| *counts.entry(line).or_insert(0) += 1);
    let first = |wanted: &dyn Fn(usize) -> bool| {
        let mut seen = std::collections::HashSet::new();
        let kept = lines
            .iter()
            .filter(|line| seen.insert(*line) && wanted(counts[line]));
        kept.flat_map(|line| [&line[..], b"\n"].concat())
            .collect::<Vec<u8>>()
    };
    let run = |options: &str| {
        let words =
            format!("unique --keep-order --lines in -o out --force --memory 5MiB {options}");
        let words: Vec<&str> = words.split_whitespace().collect();
        place.run(&words).ok();
        place.read("out")
    };
    assert!(run("") == first(&|_| true));
    assert!(run("-d") == first(&|count| count > 1));
    assert!(run("-u") == first(&|count| count == 1));
    let repeated = lines.iter().filter(|line| counts[line] > 1);
    let repeated: Vec<u8> = repeated
        .flat_map(|line| [&line[..], b"\n"].concat())
        .collect();
    assert!(run("-D") == repeated);
    let scratch = |name: &String| name.starts_with(".outcore-");
    assert!(!place.names().iter().any(scratch), "{:?}", place.names());
    assert_eq!(place.names(), ["in", "out"]);
}

#[test]
fn rows_and_csv_keep_the_order_of_the_input_too() {
    let place = TestDir::in_memory();
    place.write("t.csv", b"a,b\n3,\"x\ny\"\n1,z\n3,w\n2,z\n");
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        place.run(&words).ok().stdout
    };
    assert_eq!(
        run("unique --keep-order --csv --by a t.csv"),
        b"a,b\n3,\"x\ny\"\n1,z\n2,z\n"
    );
    run("unique --keep-order --by b t.csv --infer -o out.csv");
    assert_eq!(place.read("out.csv"), b"a,b\n3,\"x\ny\"\n1,z\n3,w\n");
    place.write("r.jsonl", b"{\"a\":2}\n\n{\"a\":1}\n{\"a\":2}\n");
    assert_eq!(
        run("unique --keep-order r.jsonl"),
        b"{\"a\":2}\n{\"a\":1}\n"
    );
    place.write("bad.jsonl", b"{\"a\":2}\n{\"b\":1}\n");
    let words = [
        "unique",
        "--keep-order",
        "--jsonl",
        "--by",
        ".a",
        "bad.jsonl",
    ];
    place.run(&words).fails(4, &["line 2"], "--on-error");
}
