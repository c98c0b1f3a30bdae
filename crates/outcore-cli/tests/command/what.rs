//! The kind of an input, which options, content and name determine, and the separator of CSV.
//!
//! Contract: as in [`crate::support`].

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::support::{Answer, TestDir};

const SALES: &[u8] = b"name,price\nb,10\n\"a, c\",9\nd,-2\n";

#[test]
fn a_column_that_is_named_makes_a_table_of_csv_and_json_lines() {
    let place = TestDir::new();
    place.write("in.csv", SALES);
    place
        .run(&["sort", "in.csv", "-o", "o.csv", "--by", "price"])
        .ok();
    assert_eq!(place.read("o.csv"), b"name,price\nd,-2\n\"a, c\",9\nb,10\n");
    place.write("in.jsonl", b"{\"a\":10}\n{\"a\":9}\n");
    place
        .run(&["sort", "in.jsonl", "-o", "o.jsonl", "--by", "a"])
        .ok();
    assert_eq!(place.read("o.jsonl"), b"{\"a\":9}\n{\"a\":10}\n");
    place.run(&["verify", "o.csv", "--by", "price"]).ok();
    // Rows of text stay unchanged, and have the orders of GNU sort.
    for by in [
        &["--csv", "--by", "price"][..],
        &["--by", "2"],
        &["--by", "price:f"],
    ] {
        let sorted = place.run(&[&["sort", "in.csv"], by].concat()).ok();
        assert_eq!(
            sorted.text(),
            "name,price\nd,-2\nb,10\n\"a, c\",9\n",
            "{by:?}"
        );
    }
    let sorted = place.run(&["sort", "in.jsonl", "--by", ".a"]).ok();
    assert_eq!(sorted.text(), "{\"a\":9}\n{\"a\":10}\n");
    // Without a column, the input is lines, as for GNU sort.
    let lines = place.run(&["sort", "in.csv"]).ok();
    assert_eq!(lines.text(), "\"a, c\",9\nb,10\nd,-2\nname,price\n");
    assert!(lines.stderr.contains("--by"), "{lines:?}");
    let view = ["view", "build", "in.csv", "-o", "v.view", "--by", "price"];
    place.run(&view).ok();
    let rows = place.run(&["view", "cat", "v.view"]).ok();
    assert_eq!(rows.text(), "name,price\nd,-2\n\"a, c\",9\nb,10\n");
}

#[test]
fn a_name_that_says_csv_keeps_the_header_first_unless_it_is_lines() {
    let place = TestDir::new();
    place.write("in.csv", b"k,v\n2,\"x\ny\"\n1,b\n2,\"x\ny\"\n");
    let run = |words: &[&str]| place.run(words).ok().text();
    assert_eq!(run(&["unique", "in.csv"]), "k,v\n1,b\n2,\"x\ny\"\n");
    assert_eq!(run(&["head", "-n", "1", "in.csv"]), "k,v\n2,\"x\ny\"\n");
    assert_eq!(run(&["head", "-n", "1", "in.csv", "--lines"]), "k,v\n");
    assert_eq!(run(&["head", "-n", "1", "in.csv", "--no-header"]), "k,v\n");
    for words in [&["shuffle", "in.csv"][..], &["sample", "-n", "9", "in.csv"]] {
        let text = run(words);
        assert!(text.starts_with("k,v\n"), "{text}");
        assert_eq!(text.matches("2,\"x\ny\"\n").count(), 2, "{text}");
    }
    place
        .run(&["split", "in.csv", "-n", "2", "-o", "p-{part}.csv"])
        .ok();
    for part in ["p-00.csv", "p-01.csv"] {
        assert!(place.read(part).starts_with(b"k,v\n"));
    }
    let lines = run(&["unique", "in.csv", "--lines"]);
    assert_eq!(lines, "1,b\n2,\"x\nk,v\ny\"\n");
}

#[test]
fn the_separator_of_csv_follows_from_its_records_and_is_named() {
    let place = TestDir::new();
    for (name, between) in [("in.csv", ';'), ("tabs.csv", '\t'), ("bars.csv.gz", '|')] {
        let text = format!("id{between}price\n2{between}1,5\n1{between}2,5\n");
        match name.ends_with(".gz") {
            false => place.write(name, text.as_bytes()),
            true => {
                place.write("plain", text.as_bytes());
                place.run(&["head", "-n", "9", "plain", "-o", name]).ok();
                place.path(name)
            }
        };
        let note = format!("`{}` between fields", between.escape_default());
        for words in [
            &["head", "-n", "1", name, "--infer"][..],
            &["head", "-n", "1", name],
            &["sort", name, "--csv", "--by", "price"],
            &["sort", name, "--by", "id", "-o", "-", "--to", "csv"],
            &["unique", name, "--by", "id", "--csv"],
            &["shuffle", name],
            &["sample", name, "-n", "5"],
            &["split", name, "-n", "1", "-o", "part-{part}.csv", "--force"],
            &["info", name],
            &["convert", name, "-o", "o.parquet", "--force"],
            &["filter", "id == 1", name, "-o", "o.parquet", "--force"],
            &[
                "view", "build", name, "-o", "o.view", "--csv", "--by", "id", "--force",
            ],
        ] {
            let answer = place.run(words).ok();
            let told = format!("{}{}", answer.text(), answer.stderr);
            assert!(told.contains(&note), "{words:?}: {answer:?}");
        }
        let info = place.run(&["info", name]).ok().text();
        assert!(info.contains("price"), "{info}");
        let other = place.run(&["info", name, "-t", "@"]).ok().text();
        assert!(!other.contains("between fields"), "{other}");
        assert!(other.contains(&format!("id{between}price")), "{other}");
    }
    // The usual separator needs no note.
    place.write("usual.csv", b"a,b;c\n1,2;3\n");
    for words in [&["head", "usual.csv"][..], &["info", "usual.csv"]] {
        let answer = place.run(words).ok();
        let told = format!("{}{}", answer.text(), answer.stderr);
        assert!(!told.contains("between fields"), "{answer:?}");
    }
}

#[test]
fn info_rejects_text_that_is_not_the_json_lines_that_its_name_says() {
    let place = TestDir::new();
    place.write("in.jsonl", b"hello\nworld\n");
    place
        .run(&["info", "in.jsonl"])
        .fails(4, &["`hello`", "in.jsonl"], "object");
    place.write("some.jsonl", b"{\"a\":1}\n[2]\n");
    place
        .run(&["info", "some.jsonl"])
        .fails(4, &["`[2]`"], "object");
    place.write("good.jsonl", b"{\"a\":1}\n{\"a\":2}\n");
    assert!(
        place
            .run(&["info", "good.jsonl"])
            .ok()
            .text()
            .starts_with("2 rows")
    );
    place.write("in.txt", b"hello\n");
    place
        .run(&["info", "in.txt"])
        .fails(2, &["only tables", "in.txt"], "--jsonl");
}

#[test]
fn h_prints_help_unless_there_is_something_to_sort() {
    let place = TestDir::new();
    let root = outcore_cli::definition();
    let commands = root
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(clap::Command::get_name)
        .filter(|name| !crate::lab::COMMANDS.contains(name));
    for name in commands {
        let answer = place.run(&[name, "-h"]).ok();
        assert!(answer.text().contains("Usage:"), "{answer:?}");
    }
    for words in [
        &["view", "build", "-h"][..],
        &["sort", "-rh"],
        &["unique", "x", "-h"],
    ] {
        assert!(place.run(words).ok().text().contains("Usage:"), "{words:?}");
    }
    place.write("in", b"2K\n1M\n10\n");
    for verb in ["sort", "unique"] {
        let sorted = place.run(&[verb, "--human-numeric-sort", "in"]).ok();
        assert_eq!(sorted.text(), "10\n2K\n1M\n", "{verb}");
    }
    let merged = place
        .run(&["sort", "-m", "--human-numeric-sort", "in", "in"])
        .ok();
    assert!(merged.text().starts_with("2K\n"), "{merged:?}");
    let view = [
        "view",
        "build",
        "in",
        "-o",
        "v",
        "--lines",
        "--human-numeric-sort",
    ];
    place.run(&view).ok();
    assert_eq!(place.run(&["view", "cat", "v"]).ok().text(), "10\n2K\n1M\n");
    let keyed = place.run(&["sort", "-k1h", "in"]).ok();
    assert_eq!(keyed.text(), "10\n2K\n1M\n");
    symlink(env!("CARGO_BIN_EXE_outcore"), place.path("sort")).unwrap();
    let mut command = Command::new(place.path("sort"));
    let answer = command.args(["-h", "in"]).current_dir(place.dir()).output();
    assert_eq!(Answer::of(answer.unwrap()).ok().text(), "10\n2K\n1M\n");
}

#[test]
fn keys_are_looked_up_in_compressed_text_as_in_plain_text() {
    let place = TestDir::new();
    place.write("words.txt", b"a\nc\ne\ng\n");
    place.write("keys.txt", b"e\nb\nz\n");
    for end in [".gz", ".zst", ".bz2", ".xz"] {
        for name in ["words", "keys"] {
            let (from, to) = (format!("{name}.txt"), format!("{name}.txt{end}"));
            place.run(&["head", "-n", "9", &from, "-o", &to]).ok();
        }
        let (words, keys) = (format!("words.txt{end}"), format!("keys.txt{end}"));
        for lines in [&["--lines"][..], &[]] {
            let look = ["lookup", &words, "--keys", &keys, "-o", "-"];
            let found = place.run(&[&look[..], lines].concat()).ok();
            let ranks: Vec<u8> = [2_u64, 1, 4]
                .iter()
                .flat_map(|rank| rank.to_le_bytes())
                .collect();
            assert_eq!(found.stdout, ranks, "{words} {lines:?}");
        }
    }
    let names = ["keys.txt", "words.txt"];
    let plain = place
        .names()
        .into_iter()
        .filter(|name| names.contains(&name.as_str()));
    assert_eq!(plain.count(), 2);
    assert!(
        place
            .names()
            .iter()
            .all(|name| !name.starts_with(".outcore"))
    );
}

#[test]
fn an_input_that_is_not_there_is_named_before_options_that_do_not_fit_it() {
    let place = TestDir::new();
    for verb in ["sort", "unique", "shuffle", "head"] {
        let words = [verb, "nowhere", "--by", "id", "-o", "x"];
        let answer = place
            .run(&words)
            .fails(3, &["No such file", "(nowhere)"], "path");
        assert!(!answer.stderr.contains("--by"), "{verb}: {answer:?}");
    }
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn any_bytes_or_text_alone_are_lines_as_the_caller_says() {
    let place = TestDir::new();
    place.write("bytes", b"b\0\na\0\n");
    place.write("words", b"b\na\n");
    for verb in ["sort", "unique", "head", "shuffle"] {
        place.run(&[verb, "--lines", "bytes", "-o", "o1"]).ok();
        place.run(&[verb, "--lines=any", "bytes", "-o", "o2"]).ok();
        place.run(&[verb, "--lines=text", "words", "-o", "o3"]).ok();
        let refused = place.run(&[verb, "--lines=text", "bytes", "-o", "o4"]);
        refused.fails(2, &["bytes", "binary"], "--lines");
        for name in ["o1", "o2", "o3"] {
            std::fs::remove_file(place.path(name)).unwrap();
        }
    }
    assert_eq!(place.names(), ["bytes", "words"]);
}

#[test]
fn keys_of_lines_are_keys_of_sort_and_unique_under_one_name() {
    let place = TestDir::new();
    place.write("rows", b"b 2\na 10\nc 2\n");
    for key in [&["-k2,2n"][..], &["--key", "2,2n"]] {
        let run = |verb: &str| place.run(&[&[verb, "rows"], key].concat()).ok().text();
        assert_eq!(run("sort"), "b 2\nc 2\na 10\n");
        assert_eq!(run("unique"), "b 2\na 10\n");
    }
}

#[test]
fn verbs_with_expressions_read_text_as_their_options_say() {
    let place = TestDir::new();
    place.write("rows.txt", b"a;b\n2;x\n1;y\n");
    place.write("plain.txt", b"3;x\n1;y\n");
    let run = |words: &[&str]| {
        place
            .run(&[words, &["-o", "out.csv", "--force"]].concat())
            .ok();
        String::from_utf8(place.read("out.csv")).unwrap()
    };
    let csv = ["rows.txt", "--csv", "-t;"];
    assert_eq!(
        run(&[&["filter", "a > 1"], &csv[..]].concat()),
        "a,b\n2,x\n"
    );
    assert_eq!(
        run(&[&["map", "c = a * 2"], &csv[..]].concat()),
        "a,b,c\n2,x,4\n1,y,2\n"
    );
    assert_eq!(
        run(&[&["count-by", "b"], &csv[..]].concat()),
        "b,count\nx,1\ny,1\n"
    );
    let plain = [
        "filter",
        "`1` > 1",
        "plain.txt",
        "--csv",
        "-t;",
        "--no-header",
    ];
    assert_eq!(run(&plain), "1,2\n3,x\n");
}

#[test]
fn options_that_say_two_kinds_of_input_are_rejected_by_name() {
    let place = TestDir::in_memory();
    place.write("t.csv", b"id,n\n1,a\n");
    let verbs = [
        "head",
        "tail",
        "sample -n 1",
        "shuffle",
        "unique",
        "sort",
        "comm t.csv",
    ];
    let kinds = ["--lines", "--csv", "--jsonl", "--type u64", "--record 8"];
    for verb in verbs {
        for (place_of_one, one) in kinds.iter().enumerate() {
            for other in &kinds[place_of_one + 1..] {
                let is_record =
                    |kind: &str| kind.starts_with("--type") || kind.starts_with("--rec");
                if verb.starts_with("comm") && (is_record(one) || is_record(other)) {
                    continue;
                }
                let line = format!("{verb} {one} {other} t.csv");
                let answer = place.run(&line.split(' ').collect::<Vec<_>>());
                let names = [one, other].map(|kind| kind.split(' ').next().unwrap_or_default());
                answer.fails(2, &names, "leave");
            }
        }
    }
}

#[test]
fn text_becomes_the_text_that_the_name_of_the_output_promises() {
    let place = TestDir::in_memory();
    place.write("t.csv", b"id,n\n1,a\n2,b\n");
    place.write(
        "t.jsonl",
        b"{\"id\":1,\"n\":\"a\"}\n{\"id\":2,\"n\":\"b\"}\n",
    );
    for verb in [
        "head",
        "tail",
        "sample -n 9",
        "sort",
        "unique",
        "comm -12 t.csv",
        "convert",
    ] {
        for (from, to) in [("t.csv", "t.jsonl"), ("t.jsonl", "t.csv")] {
            let verb = verb.replace("t.csv", from);
            let out = format!("o-{to}");
            let line = format!("{verb} {from} -o {out} --force");
            place.run(&line.split(' ').collect::<Vec<_>>()).ok();
            assert!(place.read(&out) == place.read(to), "{line}");
        }
    }
    // Inputs that are lines are still read as lines.
    place
        .run(&["head", "--lines", "t.csv", "-o", "lines.jsonl"])
        .ok();
    assert!(place.read("lines.jsonl") == place.read("t.csv"));
}
